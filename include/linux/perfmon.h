/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _LINUX_PERFMON_H
#define _LINUX_PERFMON_H

#include <linux/sched.h>
#include <uapi/linux/perfmon.h>

struct perf_event;
struct perf_event_attr;

/* How many control registers a map may have */
#define PFM_MAX_PMCS		64

/**
 * struct pfm_pmc_val - what was written to a control register
 * @value:	its value
 * @flags:	PFM_REGFL_EXCL_*
 * @used:	it was written
 */
struct pfm_pmc_val {
	u64		value;
	u32		flags;
	bool		used;
};

/**
 * struct pfm_pmu_map - registers of a PMU as user space sees them
 * @model:	name
 * @pmcs:	control registers there are
 * @pmds:	data registers there are
 * @width:	bits of a counter
 * @pmc_dfl:	value of a control register that was not written
 * @pmc_rsvd:	bits of it that always have that value
 * @check:	is the value of a control register one that to_attr() knows? Bits
 *		that always have another value are no error if the hardware
 *		has them. NULL means yes
 * @to_attr:	describe the event that data register @pmd counts; @pmcs has
 *		PFM_MAX_PMCS elements. Return: 0, -ENOENT if no register that
 *		was written says what to count, or an error
 * @pmd_of:	data register of the counter that an event of the CPU's PMU has,
 *		which is active. NULL if the map is not that of the CPU's PMU
 */
struct pfm_pmu_map {
	const char	*model;
	u64		pmcs;
	u64		pmds;
	unsigned int	width;
	u64		(*pmc_dfl)(unsigned int pmc);
	u64		(*pmc_rsvd)(unsigned int pmc);
	int		(*check)(unsigned int pmc, u64 value, u32 flags);
	int		(*to_attr)(unsigned int pmd, const struct pfm_pmc_val *pmcs,
				   struct perf_event_attr *attr);
	unsigned int	(*pmd_of)(const struct perf_event *event);
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
