// SPDX-License-Identifier: GPL-2.0
/*
 * Simulated PMUs: counters of the whole machine, which belong to one CPU.
 *
 * It is the last CPU that is online, because the first one often cannot go
 * offline. If it goes offline, its events move to another CPU, and back when it returns.
 */

#include <linux/cpu.h>
#include <linux/cpuhotplug.h>
#include <linux/cpumask.h>

#include "pmusim.h"

static unsigned int pmusim_uncore_cpu;
static enum cpuhp_state pmusim_uncore_state;

static ssize_t cpumask_show(struct device *dev, struct device_attribute *attr,
			    char *buf)
{
	return sysfs_emit(buf, "%*pbl\n",
			  cpumask_pr_args(cpumask_of(READ_ONCE(pmusim_uncore_cpu))));
}
static DEVICE_ATTR_RO(cpumask);

static struct attribute *pmusim_cpumask_attrs[] = {
	&dev_attr_cpumask.attr,
	NULL,
};

static const struct attribute_group pmusim_cpumask_group = {
	.attrs = pmusim_cpumask_attrs,
};

static const struct attribute_group *pmusim_uncore_groups[] = {
	&pmusim_format_group,
	&pmusim_event_group,
	&pmusim_caps_group,
	&pmusim_cpumask_group,
	NULL,
};

static int pmusim_uncore_event_init(struct perf_event *event)
{
	int ret;

	if (event->attr.type == event->pmu->type && event->cpu < 0)
		return -EINVAL;
	ret = pmusim_event_init(event);
	if (!ret)
		event->cpu = READ_ONCE(pmusim_uncore_cpu);
	return ret;
}

static void pmusim_uncore_move(unsigned int target)
{
	unsigned int cpu = pmusim_uncore_cpu;

	WRITE_ONCE(pmusim_uncore_cpu, target);
	perf_pmu_migrate_context(&pmusim_uncore.pmu, cpu, target);
}

static int pmusim_uncore_online(unsigned int cpu)
{
	if (cpu > pmusim_uncore_cpu)
		pmusim_uncore_move(cpu);
	return 0;
}

static int pmusim_uncore_offline(unsigned int cpu)
{
	unsigned int target;

	if (cpu != pmusim_uncore_cpu)
		return 0;
	target = cpumask_any_but(cpu_online_mask, cpu);
	if (target < nr_cpu_ids)
		pmusim_uncore_move(target);
	return 0;
}

/**
 * pmusim_uncore_setup() - Choose the CPU, and follow CPUs that go online and offline
 *
 * Context: Process context.
 * Return: 0 or a negative error.
 */
int pmusim_uncore_setup(void)
{
	int ret;

	cpus_read_lock();
	pmusim_uncore_cpu = cpumask_last(cpu_online_mask);
	ret = cpuhp_setup_state_nocalls_cpuslocked(CPUHP_AP_ONLINE_DYN,
						   "perf/pmusim:online",
						   pmusim_uncore_online,
						   pmusim_uncore_offline);
	cpus_read_unlock();
	if (ret < 0)
		return ret;

	pmusim_uncore_state = ret;
	return 0;
}

/**
 * pmusim_uncore_teardown() - Undo pmusim_uncore_setup()
 *
 * Context: Process context.
 */
void pmusim_uncore_teardown(void)
{
	cpuhp_remove_state_nocalls(pmusim_uncore_state);
}

struct pmusim pmusim_uncore = {
	.name		= "pmusim_unc",
	.settable	= PMUSIM_CAP_GATES,
	.nr_counters	= 4,
	.validate_group	= true,
	.pmu = {
		PMUSIM_COUNTER_METHODS,
		.attr_groups		= pmusim_uncore_groups,
		.event_init		= pmusim_uncore_event_init,
		.task_ctx_nr		= perf_invalid_context,
		.capabilities		= PERF_PMU_CAP_NO_INTERRUPT |
					  PERF_PMU_CAP_NO_EXCLUDE,
	},
};
