// SPDX-License-Identifier: GPL-2.0
/*
 * Registers of an Arm PMUv3 as the event set system calls show them.
 *
 * PMC i is PMEVTYPER<i> for the event counter PMD i. PMC 31 is PMCCFILTR for the cycle
 * counter PMD 31, and PMC 32 is PMICFILTR for the instruction counter PMD 32, where the
 * CPU has one. Perf chooses the counter that is used.
 *
 * P and U leave out the kernel and programs, NSH adds the hypervisor. A counter that
 * leaves out both the kernel and programs is off.
 */
#include <linux/bits.h>
#include <linux/bitmap.h>
#include <linux/perf/arm_pmu.h>
#include <linux/perf/arm_pmuv3.h>
#include <linux/perf_event.h>
#include <linux/perfmon.h>

#include "arm_pmuv3_perfmon.h"

#define PFM_ARM_OFF	((u64)ARMV8_PMU_EXCLUDE_EL1 | ARMV8_PMU_EXCLUDE_EL0)
#define PFM_ARM_LEVELS	(PFM_ARM_OFF | ARMV8_PMU_INCLUDE_EL2)

static bool pfm_arm_is_fixed(unsigned int reg)
{
	return reg == ARMV8_PMU_CYCLE_IDX || reg == ARMV8_PMU_INSTR_IDX;
}

static u64 pfm_arm_pmc_dfl(unsigned int pmc)
{
	return 0;
}

static u64 pfm_arm_pmc_rsvd(unsigned int pmc)
{
	return ~(PFM_ARM_LEVELS | (pfm_arm_is_fixed(pmc) ? 0 : ARMV8_PMU_EVTYPE_EVENT));
}

/* The value has the privilege levels. */
static int pfm_arm_check(unsigned int pmc, u64 value, u32 flags)
{
	return flags || (value & pfm_arm_pmc_rsvd(pmc)) ? -EINVAL : 0;
}

static u64 pfm_arm_event(unsigned int pmd, u64 value)
{
	switch (pmd) {
	case ARMV8_PMU_CYCLE_IDX:
		return ARMV8_PMUV3_PERFCTR_CPU_CYCLES;
	case ARMV8_PMU_INSTR_IDX:
		return ARMV8_PMUV3_PERFCTR_INST_RETIRED;
	default:
		return value & ARMV8_PMU_EVTYPE_EVENT;
	}
}

static int pfm_arm_to_attr(unsigned int pmd, const struct pfm_pmc_val *pmcs,
			   struct perf_event_attr *attr)
{
	u64 value = pmcs[pmd].value;

	if (!pmcs[pmd].used || (value & PFM_ARM_OFF) == PFM_ARM_OFF)
		return -ENOENT;

	attr->type = PERF_TYPE_RAW;
	attr->config = pfm_arm_event(pmd, value);
	attr->exclude_user = !!(value & ARMV8_PMU_EXCLUDE_EL0);
	attr->exclude_kernel = !!(value & ARMV8_PMU_EXCLUDE_EL1);
	attr->exclude_hv = !(value & ARMV8_PMU_INCLUDE_EL2);
	return 0;
}

static const struct pmu *pfm_arm_pmu __read_mostly;
static unsigned int pfm_arm_nr_pmus __read_mostly;

/* The driver numbers its counters as the architecture does. */
static int pfm_arm_pmd_of(const struct perf_event *event)
{
	return event->pmu == pfm_arm_pmu ? event->hw.idx : -1;
}

/* Perf extends counters of 32 bits, which it also makes of those that have 64. */
static struct pfm_pmu_map pfm_arm_map __read_mostly = {
	.width		= 32,
	.pmc_dfl	= pfm_arm_pmc_dfl,
	.pmc_rsvd	= pfm_arm_pmc_rsvd,
	.check		= pfm_arm_check,
	.to_attr	= pfm_arm_to_attr,
	.pmd_of		= pfm_arm_pmd_of,
};

/**
 * arm_pmuv3_perfmon_add() - Describe the registers of a PMU to perfmon
 * @cpu_pmu:	The PMU, whose counters and name are known
 *
 * Context: Process context, when the driver finds the PMU, one PMU at a time.
 */
void arm_pmuv3_perfmon_add(const struct arm_pmu *cpu_pmu)
{
	u64 counters;

	static_assert(ARMPMU_MAX_HWEVENTS <= PFM_MAX_PMDS);
	bitmap_to_arr64(&counters, cpu_pmu->cntr_mask, ARMPMU_MAX_HWEVENTS);
	pfm_arm_map.model = cpu_pmu->name;
	pfm_arm_map.pmcs = counters;
	pfm_arm_map.pmds = counters;
	pfm_arm_pmu = &cpu_pmu->pmu;
	pfm_arm_nr_pmus++;
}

/**
 * pfm_arch_map() - Get the registers of the CPU's PMU
 *
 * A system with several kinds of core has a PMU for each kind and none for all of them,
 * so a context has to name a PMU by its type.
 *
 * Context: Any.
 * Return: The map, NULL if there is no PMU or more than one.
 */
const struct pfm_pmu_map *pfm_arch_map(void)
{
	return pfm_arm_nr_pmus == 1 ? &pfm_arm_map : NULL;
}
