/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _LINUX_PERFMON_H
#define _LINUX_PERFMON_H

#include <linux/sched.h>
#include <uapi/linux/perfmon.h>

struct perf_event;
struct perf_event_attr;

/* Maximum number of control registers of a map */
#define PFM_MAX_PMCS		64
/* Maximum number of data registers of a map: an arm64 PMU may have 33 counters */
#define PFM_MAX_PMDS		33

/**
 * struct pfm_pmc_val - value written to a control register
 */
struct pfm_pmc_val {
	/** @value: value of the register */
	u64		value;
	/** @flags: PFM_REGFL_EXCL_* */
	u32		flags;
	/** @used: the register was written */
	bool		used;
};

/**
 * struct pfm_pmu_map - registers of a PMU as user space sees them
 */
struct pfm_pmu_map {
	/** @model: name of the PMU */
	const char	*model;
	/** @pmcs: control registers that exist */
	u64		pmcs;
	/** @pmds: data registers that exist */
	u64		pmds;
	/** @shared: control registers that select the events of several data registers */
	u64		shared;
	/** @width: width of a counter in bits */
	unsigned int	width;
	/** @pmc_dfl: default value of a control register */
	u64		(*pmc_dfl)(unsigned int pmc);
	/** @pmc_rsvd: bits of a control register that always have their default value */
	u64		(*pmc_rsvd)(unsigned int pmc);
	/**
	 * @check: check the value and the flags of a control register; bits that
	 * to_attr() ignores are valid if the hardware has them; NULL accepts all
	 * values
	 */
	int		(*check)(unsigned int pmc, u64 value, u32 flags);
	/**
	 * @to_attr: describe the event that data register @pmd counts; @pmcs has
	 * PFM_MAX_PMCS elements; returns 0, -ENOENT if no written register
	 * selects an event, or another error
	 */
	int		(*to_attr)(unsigned int pmd, const struct pfm_pmc_val *pmcs,
				   struct perf_event_attr *attr);
	/**
	 * @pmd_of: data register of the counter that an active event occupies,
	 * negative if it occupies none of the CPU's PMU; NULL if the map is not
	 * that of the CPU's PMU
	 */
	int		(*pmd_of)(const struct perf_event *event);
};

const struct pfm_pmu_map *pfm_arch_map(void);

#ifdef CONFIG_PERFMON
void __perfmon_exit_task(struct task_struct *task);

static inline void perfmon_init_task(struct task_struct *task)
{
	task->pfm_ctx = NULL;
}

static inline void perfmon_exit_task(struct task_struct *task)
{
	if (unlikely(READ_ONCE(task->pfm_ctx)))
		__perfmon_exit_task(task);
}
#else
static inline void perfmon_init_task(struct task_struct *task) { }
static inline void perfmon_exit_task(struct task_struct *task) { }
#endif

#endif /* _LINUX_PERFMON_H */
