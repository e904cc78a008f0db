// SPDX-License-Identifier: GPL-2.0
/*
 * The perf events of a loaded context: one pinned group per event set, led by
 * its first hardware event if it has one, and a clock that is a group of its own.
 *
 * The clock is not a member of the groups, so that a set ends in time even if its
 * group does not fit on the PMU.
 *
 * A group is created stopped. When other registers have to count, a new group
 * replaces it and takes over its values.
 */
#include <linux/slab.h>

#include "internal.h"

unsigned int pfm_events_max = 256;

/**
 * struct pfm_group - a group of events that a set will get or has given up
 */
struct pfm_group {
	/** @leader: leader of the group, or NULL */
	struct perf_event	*leader;
	/** @events: events, by number of their register */
	struct perf_event	*events[PFM_MAX_REGS];
};

/* Undo pfm_event_create(). */
static void pfm_event_release(struct pfm_context *ctx, struct perf_event *event)
{
	perf_event_release_kernel(event);
	pfm_mem_uncharge(ctx, sizeof(*event));
}

/* Release members before their leader, otherwise they would become leaders themselves. */
static void pfm_group_release(struct pfm_context *ctx, struct pfm_group *group)
{
	unsigned int num;

	for (num = 0; num < PFM_MAX_REGS; num++) {
		if (group->events[num] && group->events[num] != group->leader)
			pfm_event_release(ctx, group->events[num]);
	}
	if (group->leader)
		pfm_event_release(ctx, group->leader);
}

/* Tell whether the user depends on overflows of a register. */
static bool pfm_reg_interrupts(const struct pfm_reg *reg)
{
	return (reg->flags & (PFM_REGFL_OVFL_NOTIFY | PFM_REGFL_RANDOM)) || reg->switch_cnt ||
	       (reg->set->ctx->smpl && pfm_reg_wraps(reg));
}

static struct perf_event *pfm_event_open(struct pfm_context *ctx,
					 struct perf_event_attr *attr,
					 struct perf_event *leader,
					 struct pfm_reg *reg)
{
	struct perf_event *event;
	int ret = 0;

	event = perf_event_create_kernel_group(attr, ctx->cpu, ctx->task, leader,
					       pfm_overflow, reg);
	if (IS_ERR(event))
		return event;

	/*
	 * The counters of an uncore PMU are read on a CPU that the driver chooses and
	 * may change. But all events of a context have to be on the CPU of its clock.
	 */
	if (event->pmu->task_ctx_nr == perf_invalid_context)
		ret = -EINVAL;
	else if (attr->sample_period && (event->pmu->capabilities & PERF_PMU_CAP_NO_INTERRUPT))
		ret = -EOPNOTSUPP;
	if (!ret)
		return event;
	perf_event_release_kernel(event);
	return ERR_PTR(ret);
}

static bool pfm_refused(const struct perf_event *event)
{
	return PTR_ERR(event) == -EINVAL || PTR_ERR(event) == -EOPNOTSUPP;
}

static struct perf_event *pfm_event_create(struct pfm_context *ctx,
					   struct perf_event_attr *attr,
					   struct perf_event *leader,
					   struct pfm_reg *reg)
{
	struct perf_event *event;
	int ret;

	ret = pfm_mem_charge(ctx, sizeof(*event));
	if (ret)
		return ERR_PTR(ret);
	attr->pinned = !leader;
	attr->disabled = !leader;
	event = pfm_event_open(ctx, attr, leader, reg);
	/* A PMU without privilege levels may reject exclude_guest as well. */
	if (pfm_refused(event) && ctx->pmu_type) {
		attr->exclude_guest = 0;
		event = pfm_event_open(ctx, attr, leader, reg);
	}
	/* A PMU without interrupts can still count. */
	if (pfm_refused(event) && !pfm_reg_interrupts(reg)) {
		attr->sample_period = 0;
		event = pfm_event_open(ctx, attr, leader, reg);
	}
	if (IS_ERR(event))
		pfm_mem_uncharge(ctx, sizeof(*event));
	return event;
}

static int pfm_group_create(struct pfm_context *ctx, struct pfm_set *set,
			    struct pfm_group *group, unsigned int *count)
{
	struct perf_event_attr attr;
	struct perf_event *event;
	unsigned int num;
	int ret;

	/* Hardware events have the lower numbers, so one of them leads if there is any. */
	for_each_set_bit(num, set->used, PFM_MAX_REGS) {
		ret = pfm_reg_attr(set, pfm_reg_at(set, num), &attr);
		if (ret == -ENOENT)
			continue;
		if (ret)
			return ret;
		if (++*count > READ_ONCE(pfm_events_max))
			return -E2BIG;

		event = pfm_event_create(ctx, &attr, group->leader, pfm_reg_at(set, num));
		if (IS_ERR(event)) {
			ret = PTR_ERR(event);
			/* These errors mean that no PMU supports the event. */
			return ret == -ENOENT || ret == -EOPNOTSUPP ? -EINVAL : ret;
		}
		group->events[num] = event;
		if (!group->leader)
			group->leader = event;
	}
	return 0;
}

/* In a kernel without gates, no PMU declares that it can be stopped in an overflow. */
#ifndef PERF_PMU_CAP_GATE_STOP
#define PERF_PMU_CAP_GATE_STOP	0
#endif

static enum pfm_kind pfm_kind_of(const struct pfm_context *ctx, struct perf_event *event)
{
	if (pfm_event_is_clock(event))
		return PFM_KIND_TIMER;
	if (perf_event_is_swevent(event))
		return PFM_KIND_SW;
	/* Trust a PMU other than the CPU's only if it declares the capability. */
	if (ctx->pmu_type && !(event->pmu->capabilities & PERF_PMU_CAP_GATE_STOP))
		return PFM_KIND_DEFER;
	return PFM_KIND_HW;
}

static void pfm_set_add_times(struct pfm_set *set)
{
	if (!set->leader)
		return;
	set->enabled += set->leader->total_time_enabled;
	set->running += set->leader->total_time_running;
}

/* Exchange the events of @group and @set. */
static void pfm_group_exchange(struct pfm_set *set, struct pfm_group *group)
{
	unsigned int num;

	for_each_set_bit(num, set->used, PFM_MAX_REGS) {
		struct pfm_reg *reg = pfm_reg_at(set, num);
		u64 value = pfm_value(reg);

		swap(reg->event, group->events[num]);
		reg->base = value;
		if (!reg->event)
			continue;
		reg->kind = pfm_kind_of(set->ctx, reg->event);
		pfm_reg_set(reg, value);
	}
	pfm_set_add_times(set);
	swap(set->leader, group->leader);
}

struct pfm_exchange {
	struct pfm_set		*set;
	struct pfm_group	*group;
};

static void pfm_exchange_here(struct pfm_context *ctx, void *data)
{
	struct pfm_exchange *exchange = data;
	struct pfm_set *set = exchange->set;
	bool runs = ctx->active == set && ctx->started && ctx->state == PFM_LOADED;

	if (runs)
		pfm_run_set(ctx, set, NULL);
	pfm_group_exchange(set, exchange->group);
	if (runs)
		pfm_run_set(ctx, NULL, set);
}

static unsigned int pfm_count_events(struct pfm_context *ctx, struct pfm_set *but)
{
	unsigned int num, count = 0;
	struct pfm_set *set;

	list_for_each_entry(set, &ctx->sets, node) {
		if (set == but)
			continue;
		for_each_set_bit(num, set->used, PFM_MAX_REGS)
			count += !!pfm_reg_at(set, num)->event;
	}
	return count;
}

/**
 * pfm_group_rebuild() - Replace the events of a set after its registers were written
 * @ctx:	The context, loaded
 * @set:	The set
 *
 * Context: Locked by pfm_lock_opening(). Sleeps.
 * Return: 0, or an error and nothing has changed.
 */
int pfm_group_rebuild(struct pfm_context *ctx, struct pfm_set *set)
{
	struct pfm_group *group __free(kfree) = kzalloc(sizeof(*group), GFP_KERNEL);
	struct pfm_exchange exchange = { .set = set, .group = group };
	unsigned int count = pfm_count_events(ctx, set);
	int ret;

	pfm_assert_opening(ctx, ctx->task);
	if (!group)
		return -ENOMEM;

	/* Check again: the target may have done an exec, and the caller may be another user. */
	ret = pfm_may_reopen(ctx);
	if (!ret)
		ret = pfm_group_create(ctx, set, group, &count);
	/* If this fails, the target is gone, and the values are those at its exit. */
	if (!ret)
		ret = pfm_call(ctx, pfm_exchange_here, &exchange);
	pfm_group_release(ctx, group);
	return ret;
}

static int pfm_clock_create(struct pfm_context *ctx)
{
	struct perf_event_attr attr = {
		.type		= PERF_TYPE_SOFTWARE,
		.config		= ctx->task ? PERF_COUNT_SW_TASK_CLOCK :
					      PERF_COUNT_SW_CPU_CLOCK,
		.size		= sizeof(attr),
		.sample_period	= ctx->timed ? PFM_NO_TIMEOUT : 0,
		.pinned		= 1,
		.disabled	= 1,
	};
	struct perf_event *clock;
	int ret;

	ret = pfm_mem_charge(ctx, sizeof(*clock));
	if (ret)
		return ret;
	clock = perf_event_create_kernel_group(&attr, ctx->cpu, ctx->task, NULL,
					       pfm_clock_overflow, ctx);
	if (IS_ERR(clock)) {
		pfm_mem_uncharge(ctx, sizeof(*clock));
		return PTR_ERR(clock);
	}
	ctx->clock = clock;
	return 0;
}

/**
 * pfm_groups_create() - Create the events of all sets, stopped
 * @ctx:	The context, about to be loaded; its target is set
 *
 * Context: Locked by pfm_lock_opening(). Sleeps.
 * Return: 0, or an error and no event is left.
 */
int pfm_groups_create(struct pfm_context *ctx)
{
	struct pfm_group *group __free(kfree) = kzalloc(sizeof(*group), GFP_KERNEL);
	unsigned int count = 0;
	struct pfm_set *set;
	int ret;

	pfm_assert_opening(ctx, ctx->task);
	if (!group)
		return -ENOMEM;

	ret = pfm_clock_create(ctx);
	if (ret)
		return ret;

	list_for_each_entry(set, &ctx->sets, node) {
		memset(group, 0, sizeof(*group));
		ret = pfm_group_create(ctx, set, group, &count);
		if (ret) {
			pfm_group_release(ctx, group);
			pfm_groups_release(ctx);
			return ret;
		}
		pfm_group_exchange(set, group);
	}
	return 0;
}

/* Release members before their leader, as pfm_group_release() does. */
static void pfm_set_release(struct pfm_set *set)
{
	struct perf_event *leader = set->leader;
	unsigned int num;

	if (!leader)
		return;

	pfm_set_add_times(set);
	set->leader = NULL;
	for_each_set_bit(num, set->used, PFM_MAX_REGS) {
		struct pfm_reg *reg = pfm_reg_at(set, num);
		struct perf_event *event = reg->event;

		if (!event)
			continue;
		reg->base = pfm_value(reg);
		reg->event = NULL;
		if (event != leader)
			pfm_event_release(set->ctx, event);
	}
	pfm_event_release(set->ctx, leader);
}

/**
 * pfm_groups_release() - Release the events of a context and keep their values
 * @ctx:	The context, not loaded
 *
 * Context: pfm_context::mutex held. Sleeps. Not from a CPU hotplug callback,
 *          because software events change static keys.
 */
void pfm_groups_release(struct pfm_context *ctx)
{
	struct pfm_set *set;

	lockdep_assert_held(&ctx->mutex);
	list_for_each_entry(set, &ctx->sets, node)
		pfm_set_release(set);
	pfm_event_release(ctx, ctx->clock);
	ctx->clock = NULL;
}
