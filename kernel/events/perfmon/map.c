// SPDX-License-Identifier: GPL-2.0
/*
 * Registers of a context, and the events that they count.
 *
 * Data registers from PFM_SW_BASE on are the software events of perf, on every
 * machine. Lower registers are the counters of the PMU that the context was
 * created for, as its map describes them. The driver of the PMU chooses the
 * physical counter.
 */
#include <linux/security.h>

#include "internal.h"

/* Describe an event of a PMU without a map of its own: PMC i is the config of PMD i. */
static int pfm_generic_to_attr(unsigned int pmd, const struct pfm_pmc_val *pmcs,
			       struct perf_event_attr *attr)
{
	if (!pmcs[pmd].used)
		return -ENOENT;

	attr->config = pmcs[pmd].value;
	attr->exclude_user = !!(pmcs[pmd].flags & PFM_REGFL_EXCL_USER);
	attr->exclude_kernel = !!(pmcs[pmd].flags & PFM_REGFL_EXCL_KERNEL);
	attr->exclude_hv = !!(pmcs[pmd].flags & PFM_REGFL_EXCL_HV);
	return 0;
}

static const struct pfm_pmu_map pfm_any_map = {
	.model		= "perf events",
	.pmcs		= GENMASK_ULL(15, 0),
	.pmds		= GENMASK_ULL(15, 0),
	.width		= 64,
	.to_attr	= pfm_generic_to_attr,
};

/* Map of a machine that has none of its own: software events alone. */
static const struct pfm_pmu_map pfm_no_map = {
	.model		= "none",
};

const struct pfm_pmu_map * __weak pfm_arch_map(void)
{
	return NULL;
}

/**
 * pfm_map_find() - Find the registers of a PMU
 * @pmu_type:	Type of the PMU, 0 for the CPU's
 *
 * Context: Process context.
 * Return: The map, or NULL if there is no such PMU.
 */
const struct pfm_pmu_map *pfm_map_find(u32 pmu_type)
{
	const struct pfm_pmu_map *map;

	if (pmu_type)
		return perf_pmu_type_exists(pmu_type) ? &pfm_any_map : NULL;

	map = pfm_arch_map();
	return map ?: &pfm_no_map;
}

static bool pfm_sw_exists(unsigned int num)
{
	return num >= PFM_SW_BASE && num < PFM_SW_BASE + PFM_NR_SW &&
	       num != PFM_SW_BASE + PERF_COUNT_SW_BPF_OUTPUT;
}

/**
 * pfm_pmd_exists() - Tell whether a data register exists
 * @ctx:	The context
 * @num:	The register's number
 *
 * Context: Any.
 * Return: Whether it does.
 */
bool pfm_pmd_exists(const struct pfm_context *ctx, unsigned int num)
{
	return num < PFM_NR_HW ? ctx->map->pmds & BIT_ULL(num) : pfm_sw_exists(num);
}

/**
 * pfm_pmc_exists() - Tell whether a control register exists
 * @ctx:	The context
 * @num:	The register's number
 *
 * Context: Any.
 * Return: Whether it does.
 */
bool pfm_pmc_exists(const struct pfm_context *ctx, unsigned int num)
{
	return num < PFM_MAX_PMCS ? ctx->map->pmcs & BIT_ULL(num) : pfm_sw_exists(num);
}

static int pfm_sw_attr(unsigned int num, u32 flags, struct perf_event_attr *attr)
{
	attr->type = PERF_TYPE_SOFTWARE;
	attr->config = num - PFM_SW_BASE;
	attr->exclude_user = !!(flags & PFM_REGFL_EXCL_USER);
	attr->exclude_kernel = !!(flags & PFM_REGFL_EXCL_KERNEL);
	attr->exclude_hv = !!(flags & PFM_REGFL_EXCL_HV);
	return 0;
}

/**
 * pfm_reg_wraps() - Tell whether a register can overflow, now or after a reset
 * @reg:	The register
 *
 * Context: pfm_context::mutex held.
 * Return: Whether its event needs interrupts.
 */
bool pfm_reg_wraps(const struct pfm_reg *reg)
{
	lockdep_assert_held(&reg->set->ctx->mutex);
	return (reg->flags & PFM_REGFL_OVFL_NOTIFY) || reg->switch_cnt ||
	       pfm_period(pfm_value_estimate(reg)) != PFM_NO_PERIOD ||
	       pfm_period(reg->long_reset) != PFM_NO_PERIOD ||
	       pfm_period(reg->short_reset) != PFM_NO_PERIOD;
}

/**
 * pfm_reg_attr() - Describe the event that a data register counts
 * @set:	The set
 * @reg:	The register
 * @attr:	Receives the description
 *
 * All events are sampling events, even if their value never wraps, because PMUs cannot
 * turn a counting event into a sampling event later. Clocks are an exception: a sampling
 * clock has a timer, which is expensive, so a clock that wraps is a separate event.
 *
 * Context: Process context, pfm_context::mutex held. Checks what the caller may count.
 * Return: 0, -ENOENT if the register counts nothing or at no level, -EACCES if it would
 *         count the kernel without permission.
 */
int pfm_reg_attr(const struct pfm_set *set, const struct pfm_reg *reg,
		 struct perf_event_attr *attr)
{
	const struct pfm_context *ctx = set->ctx;
	int ret;

	lockdep_assert_held(&ctx->mutex);
	if (test_bit(reg->num, set->refused))
		return -ENOENT;

	*attr = (struct perf_event_attr) {
		.size		= sizeof(*attr),
		.exclude_guest	= 1,
		/* pfm_reg_set() sets the exact period. A period of 1 may request a trace. */
		.sample_period	= max(pfm_period(pfm_value_estimate(reg)), 2ULL),
	};
	if (reg->num >= PFM_SW_BASE) {
		ret = pfm_sw_attr(reg->num, set->pmcs.sw[reg->num - PFM_SW_BASE], attr);
	} else {
		attr->type = ctx->pmu_type;
		ret = ctx->map->to_attr(reg->num, set->pmcs.pmu, attr);
	}
	if (ret)
		return ret;
	if (attr->exclude_user && attr->exclude_kernel && attr->exclude_hv)
		return -ENOENT;
	if (pfm_is_clock(attr->type, attr->config) && !pfm_reg_wraps(reg))
		attr->sample_period = 0;

	return attr->exclude_kernel ? 0 : perf_allow_kernel();
}

/**
 * struct pfm_held - counters that are held by other users
 */
struct pfm_held {
	/** @ctx: context whose own events are left out */
	const struct pfm_context *ctx;
	/** @pmds: data registers of the counters */
	u64			pmds;
};

static bool pfm_event_is_own(const struct pfm_context *ctx, const struct perf_event *event)
{
	const struct pfm_reg *reg = event->overflow_handler_context;

	return event->overflow_handler == pfm_overflow && reg->set->ctx == ctx;
}

static void pfm_add_held(struct perf_event *event, void *data)
{
	struct pfm_held *held = data;
	int num;

	if (pfm_event_is_own(held->ctx, event))
		return;
	num = held->ctx->map->pmd_of(event);
	if (num >= 0 && num < 64)
		held->pmds |= BIT_ULL(num);
}

/**
 * pfm_pmds_held() - Find counters of a CPU that other users hold for good
 * @ctx:	The context
 *
 * The NMI watchdog holds such a counter, and so does each pinned event of a CPU.
 * Perf chooses the counters for the events of the context, so the result tells how
 * many are missing rather than which.
 *
 * Context: Process context, pfm_context::mutex held.
 * Return: Mask of the data registers below 64, for the CPU of the context, or this
 * CPU if the target is a thread.
 */
u64 pfm_pmds_held(const struct pfm_context *ctx)
{
	struct pfm_held held = { .ctx = ctx };
	int cpu = ctx->cpu;

	lockdep_assert_held(&ctx->mutex);
	if (!ctx->map->pmd_of)
		return 0;
	perf_visit_pinned(cpu < 0 ? raw_smp_processor_id() : cpu, pfm_add_held, &held);
	return held.pmds;
}
