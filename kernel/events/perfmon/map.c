// SPDX-License-Identifier: GPL-2.0
/*
 * Registers: which a context has, and what they count.
 *
 * Data registers from PFM_SW_BASE on are the software events of perf, on every
 * machine. Those below are the counters of the PMU that the context was created
 * for, as its map describes them. The driver of the PMU chooses the physical
 * counter.
 */
#include <linux/security.h>

#include "internal.h"

/* Any other PMU of perf events: control register i is the config of event i. */
static int pfm_any_to_attr(unsigned int pmd, const struct pfm_pmc_val *pmcs,
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
	.to_attr	= pfm_any_to_attr,
};

/* What a machine without a map has: software events alone. */
static const struct pfm_pmu_map pfm_no_map = {
	.model		= "none",
};

const struct pfm_pmu_map * __weak pfm_arch_map(void)
{
	return NULL;
}

/**
 * pfm_map_find() - The registers of a PMU
 * @pmu_type:	Its type, 0 for the CPU's
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
 * pfm_pmd_exists() - Is there this data register?
 * @ctx:	The context
 * @num:	The register's number
 *
 * Context: Any.
 * Return: Whether there is.
 */
bool pfm_pmd_exists(const struct pfm_context *ctx, unsigned int num)
{
	return num < 64 ? ctx->map->pmds & BIT_ULL(num) : pfm_sw_exists(num);
}

/**
 * pfm_pmc_exists() - Is there this control register?
 * @ctx:	The context
 * @num:	The register's number
 *
 * Context: Any.
 * Return: Whether there is.
 */
bool pfm_pmc_exists(const struct pfm_context *ctx, unsigned int num)
{
	return num < 64 ? ctx->map->pmcs & BIT_ULL(num) : pfm_sw_exists(num);
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
 * pfm_reg_wraps() - Must the event of a register interrupt, now or later?
 * @reg:	The register
 *
 * Context: pfm_context::mutex held.
 * Return: Whether it must.
 */
bool pfm_reg_wraps(const struct pfm_reg *reg)
{
	return (reg->flags & PFM_REGFL_OVFL_NOTIFY) || reg->switch_cnt ||
	       pfm_period(pfm_value_about(reg)) != PFM_NO_PERIOD ||
	       pfm_period(reg->long_reset) != PFM_NO_PERIOD ||
	       pfm_period(reg->short_reset) != PFM_NO_PERIOD;
}

/**
 * pfm_reg_attr() - Describe the event that a data register counts
 * @set:	The set
 * @reg:	The register
 * @attr:	Receives the description
 *
 * All are sampling events, even those whose value never wraps: PMUs refuse to
 * make a sampling event of another one later. But a clock would have a timer
 * for that, which is not cheap, so a clock that wraps is another event.
 *
 * Context: Process context. Checks what the caller may count.
 * Return: 0, -ENOENT if the register counts nothing or at no level, -EACCES if it would count
 *         the kernel and the caller may not.
 */
int pfm_reg_attr(const struct pfm_set *set, const struct pfm_reg *reg,
		 struct perf_event_attr *attr)
{
	const struct pfm_context *ctx = set->ctx;
	int ret;

	if (test_bit(reg->num, set->refused))
		return -ENOENT;

	*attr = (struct perf_event_attr) {
		.size		= sizeof(*attr),
		.exclude_guest	= 1,
		.sample_period	= pfm_period(pfm_value_about(reg)),
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
 * struct pfm_held - counters that others hold
 * @ctx:	a context, whose own events do not count as others
 * @pmds:	their data registers
 */
struct pfm_held {
	const struct pfm_context *ctx;
	u64			pmds;
};

static bool pfm_is_own(const struct pfm_context *ctx, const struct perf_event *event)
{
	const struct pfm_reg *reg = event->overflow_handler_context;

	return event->overflow_handler == pfm_overflow && reg->set->ctx == ctx;
}

static void pfm_hold(struct perf_event *event, void *data)
{
	struct pfm_held *held = data;
	unsigned int num;

	if (event->pmu->type != PERF_TYPE_RAW || event->hw.idx < 0 ||
	    pfm_is_own(held->ctx, event))
		return;
	num = held->ctx->map->pmd_of(event);
	if (num < 64)
		held->pmds |= BIT_ULL(num);
}

/**
 * pfm_pmds_held() - Data registers whose counters others hold on a CPU for good
 * @ctx:	The context
 *
 * The NMI watchdog has such a counter, and so has each pinned event of a CPU. Which
 * counter an event of the context gets is perf's choice, but there are so many less.
 *
 * Context: Process context, pfm_context::mutex held.
 * Return: Bits of those below 64, on the CPU of the context, or else on this one.
 */
u64 pfm_pmds_held(const struct pfm_context *ctx)
{
	struct pfm_held held = { .ctx = ctx };
	int cpu = ctx->cpu;

	lockdep_assert_held(&ctx->mutex);
	if (!ctx->map->pmd_of)
		return 0;
	perf_visit_pinned(cpu < 0 ? raw_smp_processor_id() : cpu, pfm_hold, &held);
	return held.pmds;
}
