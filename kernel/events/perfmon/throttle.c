// SPDX-License-Identifier: GPL-2.0
/*
 * Limits of the CPU time that a context may take. Perf limits how many overflows an event
 * may have in a tick. This file closes the gaps that this leaves:
 *
 *  - Perf forgets that an event was throttled when its set is switched, so the next set
 *    inherits the wait: pfm_set_throttle().
 *  - pfm_step() takes longer than the overflows that cause it: once it has taken an
 *    eighth of a tick, perf throttles the set at its next overflow: pfm_charge_step().
 *  - The timer of a set is never throttled: a timeout that is too short for the
 *    switches that it causes is extended: pfm_limit_switches().
 *
 * A target that may be blocked waits until it is no longer throttled, so it loses nothing:
 * pfm_step_throttled().
 *
 * A step that masks the context is not charged. Nothing is sampled until the tool
 * restarts, so the tool sets the pace, and a target that is blocked for the tool must
 * not lose later overflows.
 */
#include <linux/jiffies.h>
#include <linux/math64.h>
#include <linux/sched/clock.h>

#include "internal.h"

static bool pfm_samples(const struct pfm_reg *reg)
{
	const struct perf_event *event = reg->event;

	return event && event->state == PERF_EVENT_STATE_ACTIVE &&
	       reg->kind != PFM_KIND_SW && event->attr.sample_period &&
	       event->hw.sample_period != PFM_NO_PERIOD;
}

/**
 * pfm_set_throttled() - Tell whether a set waits for the next tick
 * @set:	The set
 *
 * Context: As pfm_step().
 * Return: Whether perf has throttled one of its sampling events.
 */
bool pfm_set_throttled(const struct pfm_set *set)
{
	unsigned int num;

	pfm_assert_step_context(set->ctx);
	for_each_set_bit(num, set->used, PFM_MAX_REGS) {
		const struct pfm_reg *reg = pfm_reg_at(set, num);

		/* Test the throttling first: it is rare, and each switch of sets does this. */
		if (reg->event && reg->event->hw.interrupts == PFM_THROTTLED && pfm_samples(reg))
			return true;
	}
	return false;
}

static void pfm_event_throttle(struct perf_event *event)
{
	if (event->state != PERF_EVENT_STATE_ACTIVE)
		return;
	event->pmu->stop(event, PERF_EF_UPDATE);
	event->hw.interrupts = PFM_THROTTLED;
}

/**
 * pfm_set_throttle() - Throttle a set until the next tick
 * @set:	The set, which runs
 *
 * Perf forgets that an event was throttled when it is taken off the PMU, so sets
 * that are switched fast enough could sample without a limit. To prevent that, the
 * next set waits for the tick that its predecessor would have waited for. The
 * whole group waits, because perf throttles groups and the tick starts all of it.
 *
 * Context: As pfm_step().
 */
void pfm_set_throttle(struct pfm_set *set)
{
	struct perf_event *leader = set->leader, *sibling;
	struct pmu *pmu = leader ? leader->pmu_ctx->pmu : NULL;

	pfm_assert_step_context(set->ctx);
	if (!pmu)
		return;
	perf_pmu_disable(pmu);
	pfm_event_throttle(leader);
	for_each_sibling_event(sibling, leader)
		pfm_event_throttle(sibling);
	perf_pmu_enable(pmu);
}

/* Time that pfm_step() may take in a tick, in ns */
#define PFM_STEPS_NS	(TICK_NSEC / 8)

/**
 * pfm_steps_too_long() - Account for a step and tell whether steps take too long
 * @ctx:	The context
 * @tick:	Tick in jiffies in which the step ended
 * @step:	Duration of the step in ns
 *
 * The longest step of a tick is left out, because the hypervisor may have preempted
 * the CPU during it. If each step takes about a tick, no other step is left to
 * count. So the longest step, capped at a tick, is carried over to later ticks, and
 * divided by four for each tick that has passed, except for those that @step took.
 *
 * Context: Any. The caller has the context's steps to itself.
 * Return: True from %PFM_STEPS_NS in @tick on.
 */
bool pfm_steps_too_long(struct pfm_context *ctx, unsigned long tick, u64 step)
{
	unsigned long ticks = tick - ctx->steps_tick, own;

	if (ticks) {
		/* No other step ran in the ticks that this step took. */
		own = min_t(u64, div_u64(step, TICK_NSEC), ticks);
		ctx->longest_ns = min_t(u64, ctx->longest_ns, TICK_NSEC) >>
				  min(2 * (ticks - own), 63UL);
		ctx->steps_tick = tick;
		ctx->steps_ns = 0;
	}
	/* Leave the longest step of the tick out of the sum: add the shorter of the two. */
	ctx->steps_ns += min(step, ctx->longest_ns);
	ctx->longest_ns = max(step, ctx->longest_ns);
	return ctx->steps_ns >= PFM_STEPS_NS;
}

/**
 * pfm_charge_step() - Charge a step to a context
 * @ctx:	The context
 * @begin:	When the step began, by local_clock()
 *
 * Once steps have taken an eighth of a tick, the next overflow throttles its
 * event. The time of interrupts and handlers is not included.
 *
 * Context: As pfm_step(), after it.
 */
void pfm_charge_step(struct pfm_context *ctx, u64 begin)
{
	struct pfm_set *set = ctx->active;
	struct pmu *pmu = set->leader ? set->leader->pmu_ctx->pmu : NULL;
	unsigned int num;

	pfm_assert_step_context(ctx);
	if (ctx->state == PFM_MASKED)
		return;
	if (!pfm_steps_too_long(ctx, jiffies, local_clock() - begin) || !pmu)
		return;

	/* Keep handlers from throttling an event between the check and the call. */
	perf_pmu_disable(pmu);
	for_each_set_bit(num, set->used, PFM_MAX_REGS) {
		struct pfm_reg *reg = pfm_reg_at(set, num);

		if (pfm_samples(reg) && reg->event->hw.interrupts != PFM_THROTTLED)
			perf_event_throttle_next(reg->event);
	}
	perf_pmu_enable(pmu);
}

/* Minimum time that a set runs, as a multiple of the time of a switch */
#define PFM_SWITCHES_APART	4

/**
 * pfm_limit_switches() - Compute a timeout that bounds the share of switches
 * @set:	The set
 * @timeout:	Timeout of the set in ns, 0 for none
 * @took:	Duration of the switch to the set in ns
 *
 * The timer of a set is never throttled, and a switch takes longer with more events
 * in the two sets. To leave the CPU to the task, the timeout is extended to
 * %PFM_SWITCHES_APART times the shorter one of this switch and the previous switch to
 * the set. A single long switch has no effect, because the hypervisor may have preempted
 * the CPU during it.
 *
 * Context: Any. The caller has the context's steps to itself.
 * Return: The timeout to use in ns, 0 for none.
 */
u64 pfm_limit_switches(struct pfm_set *set, u64 timeout, u64 took)
{
	u64 both = min(took, set->switch_ns);

	set->switch_ns = min_t(u64, took, NSEC_PER_SEC);
	return timeout ? max(timeout, PFM_SWITCHES_APART * both) : 0;
}
