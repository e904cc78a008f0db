// SPDX-License-Identifier: GPL-2.0
/* Simulated PMUs with counters: their attributes in sysfs, and new events. */

#include <linux/bitfield.h>
#include <linux/capability.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "pmusim.h"

/* A narrower counter would wrap before a late timer gets to it. */
#define PMUSIM_MIN_TIMED_WIDTH	32

PMU_FORMAT_ATTR(event,		"config:0-7");
PMU_FORMAT_ATTR(ctrmask,	"config:8-15");
PMU_FORMAT_ATTR(width,		"config:16-21");
PMU_FORMAT_ATTR(oflow,		"config:24-26");
PMU_FORMAT_ATTR(rate,		"config1:0-31");
PMU_FORMAT_ATTR(skid,		"config1:32-39");
PMU_FORMAT_ATTR(fail_nth,	"config2:0-15");

static struct attribute *pmusim_format_attrs[] = {
	&format_attr_event.attr,
	&format_attr_ctrmask.attr,
	&format_attr_width.attr,
	&format_attr_oflow.attr,
	&format_attr_rate.attr,
	&format_attr_skid.attr,
	&format_attr_fail_nth.attr,
	NULL,
};

const struct attribute_group pmusim_format_group = {
	.name	= "format",
	.attrs	= pmusim_format_attrs,
};

PMU_EVENT_ATTR_STRING(manual,		pmusim_manual,	"event=0x00");
PMU_EVENT_ATTR_STRING(clock,		pmusim_clock,	"event=0x01");
PMU_EVENT_ATTR_STRING(clock.unit,	pmusim_clock_unit, "ns");
PMU_EVENT_ATTR_STRING(timer,		pmusim_timer,	"event=0x02,rate=1000");
PMU_EVENT_ATTR_STRING(switch,		pmusim_switch,	"event=0x03");
PMU_EVENT_ATTR_STRING(fail,		pmusim_fail,	"event=0xff");

static struct attribute *pmusim_event_attrs[] = {
	&pmusim_manual.attr.attr,
	&pmusim_clock.attr.attr,
	&pmusim_clock_unit.attr.attr,
	&pmusim_timer.attr.attr,
	&pmusim_switch.attr.attr,
	&pmusim_fail.attr.attr,
	NULL,
};

/* Hide the event "switch" of a PMU without task events, which has no sched_task(). */
static umode_t pmusim_event_visible(struct kobject *kobj, struct attribute *attr,
				    int index)
{
	struct pmu *pmu = dev_get_drvdata(kobj_to_dev(kobj));

	return attr == &pmusim_switch.attr.attr && !pmu->sched_task ? 0 : attr->mode;
}

const struct attribute_group pmusim_event_group = {
	.name		= "events",
	.attrs		= pmusim_event_attrs,
	.is_visible	= pmusim_event_visible,
};

static ssize_t pmusim_counters_show(struct device *dev,
				    struct device_attribute *attr, char *buf)
{
	struct pmusim *sim = to_pmusim(dev_get_drvdata(dev));

	return sysfs_emit(buf, "%u\n", READ_ONCE(sim->nr_counters));
}

static struct device_attribute pmusim_caps_counters =
	__ATTR(counters, 0444, pmusim_counters_show, NULL);

static ssize_t pmusim_width_show(struct device *dev,
				 struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%u\n", PMUSIM_DEFAULT_WIDTH);
}

static struct device_attribute pmusim_caps_width =
	__ATTR(width, 0444, pmusim_width_show, NULL);

static struct attribute *pmusim_caps_attrs[] = {
	&pmusim_caps_counters.attr,
	&pmusim_caps_width.attr,
	NULL,
};

const struct attribute_group pmusim_caps_group = {
	.name	= "caps",
	.attrs	= pmusim_caps_attrs,
};

static const struct attribute_group *pmusim_counter_groups[] = {
	&pmusim_format_group,
	&pmusim_event_group,
	&pmusim_caps_group,
	NULL,
};

/* Layout of attr.config, config1 and config2, which the format attributes describe */
#define PMUSIM_SOURCE		GENMASK_ULL(7, 0)
#define PMUSIM_CTRMASK		GENMASK_ULL(15, 8)
#define PMUSIM_WIDTH		GENMASK_ULL(21, 16)
#define PMUSIM_OFLOW		GENMASK_ULL(26, 24)
#define PMUSIM_CONFIG		(PMUSIM_SOURCE | PMUSIM_CTRMASK | PMUSIM_WIDTH | \
				 PMUSIM_OFLOW)
#define PMUSIM_RATE		GENMASK_ULL(31, 0)
#define PMUSIM_SKID		GENMASK_ULL(39, 32)
#define PMUSIM_CONFIG1		(PMUSIM_RATE | PMUSIM_SKID)
#define PMUSIM_FAIL_NTH		GENMASK_ULL(15, 0)

static int pmusim_parse(struct pmusim *sim, struct pmusim_event *pe,
			const struct perf_event_attr *attr)
{
	u32 rate = FIELD_GET(PMUSIM_RATE, attr->config1);
	int ret;

	if (attr->config & ~PMUSIM_CONFIG || attr->config1 & ~PMUSIM_CONFIG1 ||
	    attr->config2 & ~PMUSIM_FAIL_NTH)
		return -EINVAL;

	pe->source = FIELD_GET(PMUSIM_SOURCE, attr->config);
	pe->context = FIELD_GET(PMUSIM_OFLOW, attr->config);
	pe->ctrmask = FIELD_GET(PMUSIM_CTRMASK, attr->config) ?:
		      GENMASK(PMUSIM_MAX_COUNTERS - 1, 0);
	pe->width = FIELD_GET(PMUSIM_WIDTH, attr->config) ?: PMUSIM_DEFAULT_WIDTH;
	pe->skid = FIELD_GET(PMUSIM_SKID, attr->config1);
	pe->fail_nth = FIELD_GET(PMUSIM_FAIL_NTH, attr->config2);

	if (pe->width < 8 || !(pe->ctrmask & GENMASK(sim->nr_counters - 1, 0)))
		return -EINVAL;

	switch (pe->source) {
	case PMUSIM_SOURCE_MANUAL:
	case PMUSIM_SOURCE_FAIL:
		if (rate)
			return -EINVAL;
		break;
	case PMUSIM_SOURCE_SWITCH:
		if (!sim->pmu.sched_task)
			return -EINVAL;
		fallthrough;
	case PMUSIM_SOURCE_CLOCK:
		if (rate || pe->skid || pe->width < PMUSIM_MIN_TIMED_WIDTH)
			return -EINVAL;
		break;
	case PMUSIM_SOURCE_TIMER:
		if (!rate || rate > PMUSIM_MAX_RATE ||
		    pe->width < PMUSIM_MIN_TIMED_WIDTH)
			return -EINVAL;
		if (rate > PMUSIM_MAX_RATE_USER && !perfmon_capable())
			return -EACCES;
		pe->interval = ns_to_ktime(NSEC_PER_SEC / rate);
		break;
	default:
		return -EINVAL;
	}

	switch (pe->context) {
	case PMUSIM_HARDIRQ ... PMUSIM_TASK:
		return 0;
	case PMUSIM_NMI_LIKE:
		/* The symbols that nmi_enter() needs are not exported to modules. */
		return IS_BUILTIN(CONFIG_PERF_PMUSIM) ? 0 : -EOPNOTSUPP;
	case PMUSIM_NMI:
		ret = pmusim_nmi_get();
		pe->nmi = !ret;
		return ret;
	default:
		return -EINVAL;
	}
}

static int pmusim_init_counter(struct pmusim *sim, struct perf_event *event)
{
	struct hw_perf_event *hwc = &event->hw;
	struct pmusim_event *pe;
	int ret;

	pe = kzalloc(sizeof(*pe), GFP_KERNEL);
	if (!pe)
		return -ENOMEM;
	event->pmu_private = pe;
	pe->event = event;
	hrtimer_init(&pe->timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_PINNED_HARD);
	pe->timer.function = pmusim_timer_fn;

	ret = pmusim_parse(sim, pe, &event->attr);
	if (ret)
		return ret;

	hwc->idx = -1;
	hwc->state = PERF_HES_STOPPED | PERF_HES_UPTODATE;
	if (!hwc->sample_period) {
		hwc->sample_period = pmusim_mask(pe) >> 1;
		hwc->last_period = hwc->sample_period;
		local64_set(&hwc->period_left, hwc->sample_period);
	}

	return sim->validate_group ? pmusim_validate_group(event) : 0;
}

static void pmusim_destroy(struct perf_event *event)
{
	struct pmusim_event *pe = to_pmusim_event(event);

	if (pe) {
		/* The timer is still queued if the event was stopped in an NMI. */
		hrtimer_cancel(&pe->timer);
		if (pe->nmi)
			pmusim_nmi_put();
	}
	pmusim_put(event);
}

/**
 * pmusim_event_init() - pmu::event_init() of counters
 * @event:	The event
 *
 * Context: Process context.
 * Return: 0 or a negative error.
 */
int pmusim_event_init(struct perf_event *event)
{
	struct pmusim *sim = to_pmusim(event->pmu);
	int ret;

	if (event->attr.type != event->pmu->type)
		return -ENOENT;
	if (has_branch_stack(event))
		return -EOPNOTSUPP;
	/* The core throttles samples alone, and a chunk takes longer than a sample. */
	if (event->attr.aux_output && !perfmon_capable())
		return -EACCES;

	ret = pmusim_get(sim);
	if (ret)
		return ret;
	ret = pmusim_init_counter(sim, event);
	if (ret) {
		pmusim_destroy(event);
		return ret;
	}
	event->destroy = pmusim_destroy;
	return 0;
}

/**
 * pmusim_event_idx() - pmu::event_idx() of counters
 * @event:	An event on a counter of this CPU
 *
 * Context: Interrupts off, NMIs.
 * Return: The number of the register plus 1, 0 while it does not count.
 */
int pmusim_event_idx(struct perf_event *event)
{
	return event->hw.state & PERF_HES_STOPPED ? 0 : event->hw.idx + 1;
}

static int pmusim_aux_output_match(struct perf_event *aux_event)
{
	return aux_event->pmu == &pmusim_aux.pmu;
}

/**
 * pmusim_counter_setup() - Allocate the counters of a PMU on each CPU
 * @sim:	The PMU
 *
 * Context: Process context.
 * Return: 0 or -ENOMEM.
 */
int pmusim_counter_setup(struct pmusim *sim)
{
	struct pmusim_cpu *c;
	int cpu;

	sim->regs = vmalloc_user((unsigned long)nr_cpu_ids << PAGE_SHIFT);
	sim->cpu = alloc_percpu(struct pmusim_cpu);
	if (!sim->regs || !sim->cpu) {
		free_percpu(sim->cpu);
		vfree(sim->regs);
		return -ENOMEM;
	}

	for_each_possible_cpu(cpu) {
		c = per_cpu_ptr(sim->cpu, cpu);
		c->sim = sim;
		c->reg = sim->regs + ((unsigned long)cpu << PAGE_SHIFT);
		pmusim_overflow_setup(c);
	}
	return 0;
}

/**
 * pmusim_counter_teardown() - Undo pmusim_counter_setup()
 * @sim:	The PMU, without events
 *
 * Context: Process context.
 */
void pmusim_counter_teardown(struct pmusim *sim)
{
	int cpu;

	for_each_possible_cpu(cpu)
		pmusim_overflow_teardown(per_cpu_ptr(sim->cpu, cpu));
	free_percpu(sim->cpu);
	vfree(sim->regs);
}

/* Counters of a task or of a CPU, as opposed to pmusim_uncore */
struct pmusim pmusim_counters = {
	.name		= "pmusim",
	.settable	= PERF_PMU_CAP_NO_INTERRUPT | PERF_PMU_CAP_NO_EXCLUDE |
			  PMUSIM_CAP_GATES,
	.nr_counters	= 4,
	.validate_group	= true,
	.pmu = {
		PMUSIM_COUNTER_METHODS,
		.attr_groups		= pmusim_counter_groups,
		.event_init		= pmusim_event_init,
		.task_ctx_nr		= perf_hw_context,
		.capabilities		= PERF_PMU_CAP_AUX_OUTPUT |
					  PERF_PMU_CAP_GATE_NMI,
		.sched_task		= pmusim_sched_task,
		.aux_output_match	= pmusim_aux_output_match,
	},
};
