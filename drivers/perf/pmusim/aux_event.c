// SPDX-License-Identifier: GPL-2.0
/* Simulated PMUs with an AUX area: their attributes in sysfs, events and areas. */

#include <linux/bitfield.h>
#include <linux/capability.h>
#include <linux/sizes.h>
#include <linux/slab.h>

#include "pmusim_aux.h"

#define PMUSIM_AUX_MAX_CHUNK	SZ_1M

PMU_FORMAT_ATTR(event,		"config:0-7");
PMU_FORMAT_ATTR(align,		"config:8-13");
PMU_FORMAT_ATTR(lat,		"config:16-31");
PMU_FORMAT_ATTR(rate,		"config1:0-31");
PMU_FORMAT_ATTR(chunk,		"config1:32-63");
PMU_FORMAT_ATTR(inject,		"config2:0-7");
PMU_FORMAT_ATTR(inject_nth,	"config2:8-23");

static struct attribute *pmusim_aux_format_attrs[] = {
	&format_attr_event.attr,
	&format_attr_align.attr,
	&format_attr_lat.attr,
	&format_attr_rate.attr,
	&format_attr_chunk.attr,
	&format_attr_inject.attr,
	&format_attr_inject_nth.attr,
	NULL,
};

static const struct attribute_group pmusim_aux_format_group = {
	.name	= "format",
	.attrs	= pmusim_aux_format_attrs,
};

PMU_EVENT_ATTR_STRING(manual,	pmusim_aux_manual,	"event=0x00");
PMU_EVENT_ATTR_STRING(timer,	pmusim_aux_timer,	"event=0x01,rate=1000");

static struct attribute *pmusim_aux_event_attrs[] = {
	&pmusim_aux_manual.attr.attr,
	&pmusim_aux_timer.attr.attr,
	NULL,
};

static const struct attribute_group pmusim_aux_event_group = {
	.name	= "events",
	.attrs	= pmusim_aux_event_attrs,
};

static const struct attribute_group *pmusim_aux_groups[] = {
	&pmusim_aux_format_group,
	&pmusim_aux_event_group,
	NULL,
};

#define PMUSIM_AUX_SOURCE	GENMASK_ULL(7, 0)
#define PMUSIM_AUX_ALIGN	GENMASK_ULL(13, 8)
#define PMUSIM_AUX_LAT		GENMASK_ULL(31, 16)
#define PMUSIM_AUX_RATE		GENMASK_ULL(31, 0)
#define PMUSIM_AUX_CHUNK	GENMASK_ULL(63, 32)
#define PMUSIM_AUX_INJECT	GENMASK_ULL(7, 0)
#define PMUSIM_AUX_INJECT_NTH	GENMASK_ULL(23, 8)

static int pmusim_aux_parse(struct pmusim_aux_event *ae,
			    const struct perf_event_attr *attr)
{
	u32 rate = FIELD_GET(PMUSIM_AUX_RATE, attr->config1);
	unsigned int align = FIELD_GET(PMUSIM_AUX_ALIGN, attr->config);

	if (attr->config & ~(PMUSIM_AUX_SOURCE | PMUSIM_AUX_ALIGN | PMUSIM_AUX_LAT) ||
	    attr->config2 & ~(PMUSIM_AUX_INJECT | PMUSIM_AUX_INJECT_NTH))
		return -EINVAL;

	ae->source = FIELD_GET(PMUSIM_AUX_SOURCE, attr->config);
	ae->latency = ns_to_ktime(FIELD_GET(PMUSIM_AUX_LAT, attr->config) *
				  NSEC_PER_USEC);
	ae->chunk = FIELD_GET(PMUSIM_AUX_CHUNK, attr->config1) ?: PAGE_SIZE;
	ae->inject = FIELD_GET(PMUSIM_AUX_INJECT, attr->config2);
	ae->inject_nth = FIELD_GET(PMUSIM_AUX_INJECT_NTH, attr->config2) ?: 1;

	if (align && (align < ilog2(sizeof(u64)) || align > PAGE_SHIFT))
		return -EINVAL;
	ae->align = align ? BIT(align) : 0;
	if (ae->chunk % sizeof(u64) || ae->chunk > PMUSIM_AUX_MAX_CHUNK)
		return -EINVAL;
	if (ae->inject & ~PMUSIM_INJECT_ALL)
		return -EINVAL;

	/* Limit the rate without CAP_PERFMON: four producers at the limit keep a CPU busy. */
	if ((rate > PMUSIM_MAX_RATE_USER || ae->chunk > SZ_64K) && !perfmon_capable())
		return -EACCES;

	switch (ae->source) {
	case PMUSIM_AUX_MANUAL:
		return rate ? -EINVAL : 0;
	case PMUSIM_AUX_TIMER:
		if (!rate || rate > PMUSIM_MAX_RATE)
			return -EINVAL;
		ae->interval = ns_to_ktime(NSEC_PER_SEC / rate);
		return 0;
	default:
		return -EINVAL;
	}
}

static int pmusim_aux_event_init(struct perf_event *event)
{
	struct pmusim_aux_event *ae;
	int ret;

	if (event->attr.type != event->pmu->type)
		return -ENOENT;
	if (has_branch_stack(event))
		return -EOPNOTSUPP;

	ret = pmusim_get(to_pmusim(event->pmu));
	if (ret)
		return ret;
	ae = kzalloc(sizeof(*ae), GFP_KERNEL);
	event->pmu_private = ae;
	ret = ae ? pmusim_aux_parse(ae, &event->attr) : -ENOMEM;
	if (ret) {
		pmusim_put(event);
		return ret;
	}
	event->destroy = pmusim_put;
	return 0;
}

static void *pmusim_setup_aux(struct perf_event *event, void **pages,
			      int nr_pages, bool overwrite)
{
	struct pmusim_aux_buffer *buf;

	buf = kzalloc(sizeof(*buf), GFP_KERNEL);
	if (!buf)
		return NULL;
	buf->pages = pages;
	buf->size = (unsigned long)nr_pages << PAGE_SHIFT;
	buf->overwrite = overwrite;
	return buf;
}

static void pmusim_free_aux(void *aux)
{
	kfree(aux);
}

/**
 * pmusim_aux_setup() - Allocate the producers of a PMU with an AUX area
 * @sim:	The PMU
 *
 * Context: Process context.
 * Return: 0 or -ENOMEM.
 */
int pmusim_aux_setup(struct pmusim *sim)
{
	struct pmusim_aux_cpu *a;
	int cpu;

	sim->aux_cpu = alloc_percpu(struct pmusim_aux_cpu);
	if (!sim->aux_cpu)
		return -ENOMEM;

	for_each_possible_cpu(cpu) {
		a = per_cpu_ptr(sim->aux_cpu, cpu);
		a->sim = sim;
		hrtimer_init(&a->timer, CLOCK_MONOTONIC,
			     HRTIMER_MODE_REL_PINNED_HARD);
		a->timer.function = pmusim_aux_timer_fn;
		a->work = IRQ_WORK_INIT_HARD(pmusim_aux_packets);
	}
	return 0;
}

/**
 * pmusim_aux_teardown() - Undo pmusim_aux_setup()
 * @sim:	The PMU, without events
 *
 * Context: Process context.
 */
void pmusim_aux_teardown(struct pmusim *sim)
{
	struct pmusim_aux_cpu *a;
	int cpu;

	for_each_possible_cpu(cpu) {
		a = per_cpu_ptr(sim->aux_cpu, cpu);
		irq_work_sync(&a->work);
		hrtimer_cancel(&a->timer);
	}
	free_percpu(sim->aux_cpu);
}

#define PMUSIM_AUX(_name, _capabilities) {				\
	.name		= _name,					\
	.settable	= PMUSIM_CAP_GATES,				\
	.pmu = {							\
		.module		= THIS_MODULE,				\
		.attr_groups	= pmusim_aux_groups,			\
		.task_ctx_nr	= perf_sw_context,			\
		.capabilities	= (_capabilities) | PERF_PMU_CAP_AUX_LARGE, \
		.event_init	= pmusim_aux_event_init,		\
		.add		= pmusim_aux_add,			\
		.del		= pmusim_aux_del,			\
		.start		= pmusim_aux_start,			\
		.stop		= pmusim_aux_stop,			\
		.read		= pmusim_aux_read,			\
		.setup_aux	= pmusim_setup_aux,			\
		.free_aux	= pmusim_free_aux,			\
		.snapshot_aux	= pmusim_snapshot_aux,			\
	},								\
}

struct pmusim pmusim_aux =
	PMUSIM_AUX("pmusim_aux", PERF_PMU_CAP_ITRACE | PERF_PMU_CAP_AUX_PAUSE |
		   PERF_PMU_CAP_AUX_HEAD_COUNTS);

struct pmusim pmusim_aux_nosg =
	PMUSIM_AUX("pmusim_aux_nosg", PERF_PMU_CAP_AUX_NO_SG | PERF_PMU_CAP_AUX_HEAD_COUNTS);

struct pmusim pmusim_aux_large =
	PMUSIM_AUX("pmusim_aux_large", PERF_PMU_CAP_AUX_PREFER_LARGE |
		   PERF_PMU_CAP_AUX_HEAD_COUNTS);

/*
 * Like many drivers, this PMU does not declare the meaning of an overwritten area's
 * head.
 */
struct pmusim pmusim_aux_excl =
	PMUSIM_AUX("pmusim_aux_excl", PERF_PMU_CAP_EXCLUSIVE | PERF_PMU_CAP_ITRACE);
