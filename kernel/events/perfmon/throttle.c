// SPDX-License-Identifier: GPL-2.0
/*
 * Limits of the CPU time that a context may take. Perf limits how many overflows an event
 * may have in a tick. This file closes the gaps that this leaves:
 *
 *  - Perf forgets that an event was throttled when its set is switched, so later sets
 *    inherit the wait: pfm_inherit_throttling().
 *  - pfm_step() takes longer than the overflows that cause it: once it has taken an
 *    eighth of a tick, perf throttles the set at its next overflow: pfm_charge_step().
 *  - The timer of a set is never throttled: a timeout that is too short for the
 *    switches that it causes is extended: pfm_limit_switches().
 *
 * A target that may be blocked waits while its set is throttled, and then loses nothing, if
 * the set does not count in the kernel: pfm_waits_when_throttled().
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
 * pfm_waits_when_throttled() - Tell whether the target waits while a set is throttled
 * @set:	The active set
 *
 * The target must have agreed to be blocked. It can wait only on its way to user mode, so
 * a set that counts in the kernel would lose counts meanwhile, and could be throttled in
 * each wait. pfm_context::block_work cannot make it wait if it is still queued for the
 * former target.
 *
 * Context: Any, on the CPU of the target.
 * Return: Whether it does, so that throttling loses nothing.
 */
bool pfm_waits_when_throttled(const struct pfm_set *set)
{
	struct pfm_context *ctx = set->ctx;
	struct task_struct *queued = READ_ONCE(ctx->block_target);
	unsigned int num;

	if (!(ctx->flags & PFM_FL_NOTIFY_BLOCK) || (queued && queued != ctx->task))
		return false;
	for_each_set_bit(num, set->used, PFM_MAX_REGS) {
		const struct perf_event *event = pfm_reg_at(set, num)->event;

		if (event && !event->attr.exclude_kernel)
			return false;
	}
	return true;
}

/**
 * pfm_note_throttled() - Note that perf has throttled the active set in this tick
 * @ctx:	The context
 *
 * Context: Any, on the CPU of the target.
 */
void pfm_note_throttled(struct pfm_context *ctx)
{
	ctx->throttled_tick = jiffies;
	ctx->throttled = true;
}

/**
 * pfm_inherit_throttling() - Throttle a set if another one was throttled in this tick
 * @set:	The set, which runs
 *
 * Perf forgets that an event was throttled when it is taken off the PMU, so sets
 * that are switched fast enough could sample without a limit. To prevent that, each set
 * that samples waits for the tick that the throttled set would have waited for, whatever
 * sets ran in between. The whole group waits, because perf throttles groups and the tick
 * starts all of it. A set that only counts does not wait.
 *
 * Context: As pfm_step().
 * Return: Whether the set waits.
 */
bool pfm_inherit_throttling(struct pfm_set *set)
{
	const struct pfm_context *ctx = set->ctx;
	unsigned long ticks = jiffies - ctx->throttled_tick;
	struct perf_event *leader = set->leader;
	unsigned int num;

	pfm_assert_step_context(ctx);
	if (!leader || !ctx->throttled || ticks)
		return false;
	for_each_set_bit(num, set->used, PFM_MAX_REGS) {
		if (!pfm_samples(pfm_reg_at(set, num)))
			continue;
		perf_pmu_disable(leader->pmu_ctx->pmu);
		perf_event_throttle_now(leader);
		perf_pmu_enable(leader->pmu_ctx->pmu);
		return true;
	}
	return false;
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
