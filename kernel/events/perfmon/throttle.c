// SPDX-License-Identifier: GPL-2.0
/*
 * What a context may take of a CPU. Perf bounds how many overflows an event may have
 * in a tick, and nothing else:
 *
 *  - an event that perf has throttled is forgotten when its set is left, so the set
 *    that follows inherits the wait: pfm_set_throttle();
 *  - what overflows leave to pfm_step() takes longer than the overflows: with an eighth
 *    of a tick gone, perf throttles the set at its next overflow: pfm_charge_step();
 *  - the timer of a set never throttles: a timeout is made longer than the switches
 *    that it causes: pfm_apart().
 *
 * A step that masks the context costs it nothing here. Nothing is sampled until the
 * tool restarts, so the tool sets the pace, and a target that waits for the tool must
 * not lose what follows.
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
 * pfm_set_throttled() - Does a set wait for the next tick?
 * @set:	The set
 *
 * Context: As pfm_step().
 * Return: Whether perf has throttled one of its sampling events.
 */
bool pfm_set_throttled(const struct pfm_set *set)
{
	unsigned int num;

	for_each_set_bit(num, set->used, PFM_MAX_REGS) {
		const struct pfm_reg *reg = pfm_reg_at(set, num);

		/* This first: it is what most are not, and each switch asks. */
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
 * pfm_set_throttle() - Let a set wait for the next tick
 * @set:	The set, which runs
 *
 * Perf forgets that an event was throttled when it takes it off the PMU. So that
 * sets which take turns fast enough do not sample without a limit, the next one
 * waits for the tick that its predecessor would have waited for: all of its group,
 * as perf throttles groups, since the tick starts all of it.
 *
 * Context: As pfm_step().
 */
void pfm_set_throttle(struct pfm_set *set)
{
	struct perf_event *leader = set->leader, *sibling;
	struct pmu *pmu = leader ? leader->pmu_ctx->pmu : NULL;

	if (!pmu)
		return;
	perf_pmu_disable(pmu);
	pfm_event_throttle(leader);
	for_each_sibling_event(sibling, leader)
		pfm_event_throttle(sibling);
	perf_pmu_enable(pmu);
}

/* What pfm_step() may take of a tick, in ns */
#define PFM_STEPS_NS	(TICK_NSEC / 8)

/**
 * pfm_steps_too_long() - Whether the steps of a context leave a task too little
 * @ctx:	The context
 * @tick:	The tick, in jiffies, in which a step ended
 * @step:	What this step took, in ns
 *
 * The longest step of a tick is not counted: it may have waited for a CPU that its
 * hypervisor had taken away. Steps that take about a tick each have none beside them
 * to be told by, so a quarter of the longest one is known a tick later, and all of
 * it, up to a tick, if no tick came between the two.
 *
 * Context: Any. The caller has the context's steps to itself.
 * Return: True from %PFM_STEPS_NS in @tick on.
 */
bool pfm_steps_too_long(struct pfm_context *ctx, unsigned long tick, u64 step)
{
	unsigned long ticks = tick - ctx->steps_tick, own;

	if (ticks) {
		/* No other step could run in the ticks that this step took. */
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
 * pfm_charge_step() - Let a context pay for a step
 * @ctx:	The context
 * @begin:	When the step began, by local_clock()
 *
 * With an eighth of a tick gone, the next overflow throttles its event. Interrupts
 * and handlers come on top.
 *
 * Context: As pfm_step(), after it.
 */
void pfm_charge_step(struct pfm_context *ctx, u64 begin)
{
	struct pfm_set *set = ctx->active;
	struct pmu *pmu = set->leader ? set->leader->pmu_ctx->pmu : NULL;
	unsigned int num;

	pfm_assert_step(ctx);
	if (ctx->state == PFM_MASKED)
		return;
	if (!pfm_steps_too_long(ctx, jiffies, local_clock() - begin) || !pmu)
		return;

	/* A handler must not throttle it in between. */
	perf_pmu_disable(pmu);
	for_each_set_bit(num, set->used, PFM_MAX_REGS) {
		struct pfm_reg *reg = pfm_reg_at(set, num);

		if (pfm_samples(reg) && reg->event->hw.interrupts != PFM_THROTTLED)
			perf_event_throttle_next(reg->event);
	}
	perf_pmu_enable(pmu);
}

/* A set runs for at least so many times what switches of sets take. */
#define PFM_SWITCHES_APART	4

/**
 * pfm_apart() - Timeout of a set, far enough from the switch before it
 * @ctx:	The context
 * @timeout:	Timeout that the set has, in ns, 0 for none
 * @took:	What the switch to it has taken, in ns
 *
 * The timer of a set never throttles, and a switch takes the longer the more events
 * the two sets have. So that switches leave the CPU to the task, the timeout is made
 * longer if it is not %PFM_SWITCHES_APART times as long as this switch and the one
 * before. One long switch alone makes nothing longer: it may have waited for a CPU
 * that its hypervisor had taken away.
 *
 * Context: Any. The caller has the context's steps to itself.
 * Return: The timeout to use, in ns, 0 for none.
 */
u64 pfm_apart(struct pfm_context *ctx, u64 timeout, u64 took)
{
	u64 both = min(took, ctx->switch_ns);

	ctx->switch_ns = min_t(u64, took, NSEC_PER_SEC);
	return timeout ? max(timeout, PFM_SWITCHES_APART * both) : 0;
}
