/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _ARM_PMUV3_PERFMON_H
#define _ARM_PMUV3_PERFMON_H

struct arm_pmu;

#ifdef CONFIG_PERFMON
void arm_pmuv3_perfmon_add(const struct arm_pmu *cpu_pmu);
#else
static inline void arm_pmuv3_perfmon_add(const struct arm_pmu *cpu_pmu) { }
#endif

#endif /* _ARM_PMUV3_PERFMON_H */
