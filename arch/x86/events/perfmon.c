// SPDX-License-Identifier: GPL-2.0
/*
 * Registers of the architectural PMU as the event set system calls show them.
 *
 * PMC i is PERFEVTSELi, for the general purpose counter PMD i. PMC 16 is
 * FIXED_CTR_CTRL, four bits for each of PMD 16 (instructions), PMD 17 (cycles)
 * and PMD 18 (reference cycles). Perf chooses the counter that is used.
 *
 * A counter whose EN bit is clear, or that counts at no level, is off. Perf sets the bits
 * that make a counter interrupt, so their written values are ignored: programs set them
 * only where they want interrupts.
 */
#include <linux/bits.h>
#include <linux/perf_event.h>
#include <linux/perfmon.h>

#include <asm/perf_event.h>

#define PFM_FIXED	16
#define PFM_MAX_FIXED	3
#define PFM_MAX_GP	PFM_FIXED

/* Perf sets this bit. A program may write either value. */
#define PFM_EVTSEL_FORCED ARCH_PERFMON_EVENTSEL_INT
#define PFM_EVTSEL_LEVELS (ARCH_PERFMON_EVENTSEL_USR | ARCH_PERFMON_EVENTSEL_OS)

#define PFM_FIXED_OS	BIT(0)
#define PFM_FIXED_USR	BIT(1)
#define PFM_FIXED_PMI	BIT(3)

/* Bits that no event on this CPU has, and bits that perf sets itself */
static u64 pfm_evtsel_none __ro_after_init = ARCH_PERFMON_EVENTSEL_PIN_CONTROL |
					     GENMASK_ULL(63, 32);
static u64 pfm_evtsel_perf __ro_after_init = PFM_EVTSEL_FORCED;

static const u64 pfm_fixed_event[PFM_MAX_FIXED] = {
	PERF_COUNT_HW_INSTRUCTIONS,
	PERF_COUNT_HW_CPU_CYCLES,
	PERF_COUNT_HW_REF_CPU_CYCLES,
};

static unsigned int pfm_fixed_ctrl(u64 value, unsigned int fixed)
{
	return (value >> (4 * fixed)) & 0xf;
}

static u64 pfm_x86_pmc_dfl(unsigned int pmc)
{
	unsigned int i;
	u64 value = 0;

	if (pmc < PFM_FIXED)
		return PFM_EVTSEL_FORCED;
	for (i = 0; i < PFM_MAX_FIXED; i++)
		value |= PFM_FIXED_PMI << (4 * i);
	return value;
}

static u64 pfm_x86_pmc_rsvd(unsigned int pmc)
{
	u64 levels = 0;
	unsigned int i;

	if (pmc < PFM_FIXED)
		return pfm_evtsel_none | pfm_evtsel_perf;
	for (i = 0; i < PFM_MAX_FIXED; i++)
		levels |= (PFM_FIXED_OS | PFM_FIXED_USR) << (4 * i);
	return ~levels;
}

/* Check a value. It contains the privilege levels, so flags for them are invalid. */
static int pfm_x86_check(unsigned int pmc, u64 value, u32 flags)
{
	u64 none = pfm_evtsel_none;

	if (pmc >= PFM_FIXED)
		none = pfm_x86_pmc_rsvd(pmc) & ~pfm_x86_pmc_dfl(pmc);
	return flags || (value & none) ? -EINVAL : 0;
}

static int pfm_x86_fixed_attr(unsigned int fixed, const struct pfm_pmc_val *pmc,
			      struct perf_event_attr *attr)
{
	unsigned int levels = pfm_fixed_ctrl(pmc->value, fixed);

	if (!pmc->used || !(levels & (PFM_FIXED_OS | PFM_FIXED_USR)))
		return -ENOENT;

	attr->type = PERF_TYPE_HARDWARE;
	attr->config = pfm_fixed_event[fixed];
	attr->exclude_user = !(levels & PFM_FIXED_USR);
	attr->exclude_kernel = !(levels & PFM_FIXED_OS);
	return 0;
}

static int pfm_x86_to_attr(unsigned int pmd, const struct pfm_pmc_val *pmcs,
			   struct perf_event_attr *attr)
{
	u64 value;

	if (pmd >= PFM_FIXED)
		return pfm_x86_fixed_attr(pmd - PFM_FIXED, &pmcs[PFM_FIXED], attr);
	if (!pmcs[pmd].used)
		return -ENOENT;

	value = pmcs[pmd].value;
	if (!(value & ARCH_PERFMON_EVENTSEL_ENABLE) || !(value & PFM_EVTSEL_LEVELS))
		return -ENOENT;

	attr->type = PERF_TYPE_RAW;
	attr->config = value & ~(pfm_x86_pmc_rsvd(pmd) | ARCH_PERFMON_EVENTSEL_ENABLE |
				 PFM_EVTSEL_LEVELS);
	attr->exclude_user = !(value & ARCH_PERFMON_EVENTSEL_USR);
	attr->exclude_kernel = !(value & ARCH_PERFMON_EVENTSEL_OS);
	return 0;
}

static int pfm_x86_pmd_of(const struct perf_event *event)
{
	int idx = event->hw.idx;

	if (event->pmu->type != PERF_TYPE_RAW)
		return -1;
	return idx < INTEL_PMC_IDX_FIXED ? idx : idx - INTEL_PMC_IDX_FIXED + PFM_FIXED;
}

static struct pfm_pmu_map pfm_x86_map __read_mostly = {
	.model		= "x86 architectural perfmon",
	.pmc_dfl	= pfm_x86_pmc_dfl,
	.pmc_rsvd	= pfm_x86_pmc_rsvd,
	.check		= pfm_x86_check,
	.to_attr	= pfm_x86_to_attr,
	.pmd_of		= pfm_x86_pmd_of,
};

/**
 * pfm_arch_map() - Get the registers of the CPU's PMU
 *
 * A hybrid system has a PMU for each kind of core and none for all of them, so
 * a context has to name a PMU by its type.
 *
 * Context: Any.
 * Return: The map, NULL if there is no PMU.
 */
const struct pfm_pmu_map *pfm_arch_map(void)
{
	return pfm_x86_map.pmds ? &pfm_x86_map : NULL;
}

/* Allow AMD's bits: event codes of twelve bits since family 10h, and two bits for guests. */
static void __init pfm_amd_init(void)
{
	const u64 event = GENMASK_ULL(35, 32);
	const u64 guests = AMD64_EVENTSEL_GUESTONLY | AMD64_EVENTSEL_HOSTONLY;

	if (boot_cpu_data.x86_vendor != X86_VENDOR_AMD &&
	    boot_cpu_data.x86_vendor != X86_VENDOR_HYGON)
		return;
	if (boot_cpu_data.x86 >= 0x10)
		pfm_evtsel_none &= ~event;
	pfm_evtsel_none &= ~guests;
	pfm_evtsel_perf |= guests;
}

static int __init pfm_x86_init(void)
{
	struct x86_pmu_capability cap;
	unsigned int gp, fixed;

	if (cpu_feature_enabled(X86_FEATURE_HYBRID_CPU))
		return 0;

	perf_get_x86_pmu_capability(&cap);
	gp = min(cap.num_counters_gp, PFM_MAX_GP);
	fixed = min(cap.num_counters_fixed, PFM_MAX_FIXED);
	if (!gp)
		return 0;

	pfm_amd_init();
	pfm_x86_map.width = cap.bit_width_gp;
	pfm_x86_map.pmcs = GENMASK_ULL(gp - 1, 0);
	if (fixed) {
		pfm_x86_map.pmcs |= BIT_ULL(PFM_FIXED);
		pfm_x86_map.shared = BIT_ULL(PFM_FIXED);
		pfm_x86_map.pmds = GENMASK_ULL(PFM_FIXED + fixed - 1, PFM_FIXED);
	}
	pfm_x86_map.pmds |= GENMASK_ULL(gp - 1, 0);
	return 0;
}
device_initcall(pfm_x86_init);
