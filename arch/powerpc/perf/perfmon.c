// SPDX-License-Identifier: GPL-2.0
/*
 * Registers of a book3s PMU as the event set system calls show them.
 *
 * PMC i, from i = 1 on, holds the raw code of the event that PMD i counts, and
 * its flags tell the privilege levels. The code may name a counter, but perf
 * chooses the counter that is used.
 */
#include <linux/bits.h>
#include <linux/perf_event.h>
#include <linux/perfmon.h>

static int pfm_ppc_to_attr(unsigned int pmd, const struct pfm_pmc_val *pmcs,
			   struct perf_event_attr *attr)
{
	const struct pfm_pmc_val *pmc = &pmcs[pmd];

	if (!pmc->used)
		return -ENOENT;

	attr->type = PERF_TYPE_RAW;
	attr->config = pmc->value;
	attr->exclude_user = !!(pmc->flags & PFM_REGFL_EXCL_USER);
	attr->exclude_kernel = !!(pmc->flags & PFM_REGFL_EXCL_KERNEL);
	attr->exclude_hv = !!(pmc->flags & PFM_REGFL_EXCL_HV);
	return 0;
}

/* core-book3s.c numbers its counters from 1 on as well. */
static int pfm_ppc_pmd_of(const struct perf_event *event)
{
	return event->pmu->type == PERF_TYPE_RAW ? event->hw.idx : -1;
}

static struct pfm_pmu_map pfm_ppc_map __read_mostly = {
	.width		= 32,
	.to_attr	= pfm_ppc_to_attr,
	.pmd_of		= pfm_ppc_pmd_of,
};

/**
 * pfm_arch_map() - Get the registers of the CPU's PMU
 *
 * Context: Any.
 * Return: The map, NULL if there is no PMU.
 */
const struct pfm_pmu_map *pfm_arch_map(void)
{
	return pfm_ppc_map.pmds ? &pfm_ppc_map : NULL;
}

static int __init pfm_ppc_init(void)
{
	int counters = power_pmu_n_counter(&pfm_ppc_map.model);

	if (!counters)
		return 0;

	pfm_ppc_map.pmcs = GENMASK_ULL(counters, 1);
	pfm_ppc_map.pmds = GENMASK_ULL(counters, 1);
	return 0;
}
device_initcall(pfm_ppc_init);
