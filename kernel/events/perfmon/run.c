// SPDX-License-Identifier: GPL-2.0
/*
 * Running a context: start, stop, restart, and the switch from set to set.
 *
 *	            start           notification, buffer full
 *	  stopped ---------> runs --------------------------> masked
 *	     ^                |  ^                              |
 *	     +----------------+  +------------------------------+
 *	            stop                     restart
 *
 * A loaded context has one group of perf events per set, of which at most one
 * is enabled, and a clock. All of what changes which one that is runs under the
 * lock of the perf context they are in, on the CPU where the target runs, or
 * anywhere while it does not run: see pfm_call() for the system calls, and
 * pfm_step_work() for what overflow handlers asked for.
 *
 * The clock runs with the target as long as the context is started and not
 * masked. What it counts between two switches is the time of the set that was
 * active, so the times of the sets add up to the clock, and its timer, which
 * stops and goes on with the target, is the timeout of the active set.
 *
 * Nothing is woken under the lock, because the scheduler takes it below its own:
 * pfm_context::post says what is to be done once it is dropped.
 */
#include <linux/jiffies.h>
#include <linux/sched/clock.h>
#include <linux/slab.h>

#include "internal.h"

static void pfm_account_as(struct pfm_context *ctx, bool placed)
{
	struct perf_event *clock = ctx->clock;
	struct pfm_set *set = ctx->active;
	u64 delta;

	if (clock->state == PERF_EVENT_STATE_ACTIVE)
		clock->pmu->read(clock);
	delta = local64_read(&clock->count) - ctx->entered;

	ctx->entered += delta;
	set->duration += delta;
	/* Perf counts no time of a group that found no place. */
	if (!placed)
		set->enabled += delta;
}

static bool pfm_placed(const struct pfm_set *set)
{
	return !set->leader || set->leader->state != PERF_EVENT_STATE_ERROR;
}

/**
 * pfm_account() - Bring the time of the active set up to now
 * @ctx:	The context
 *
 * Context: As pfm_step(), or pfm_context::mutex held and the target gone.
 */
void pfm_account(struct pfm_context *ctx)
{
	pfm_account_as(ctx, pfm_placed(ctx->active));
}

/**
 * pfm_run_set() - Let the counters of one set stop and those of another run
 * @ctx:	The context
 * @from:	The set that stops or NULL
 * @to:		The set that runs or NULL
 *
 * Context: As pfm_step().
 */
void pfm_run_set(struct pfm_context *ctx, struct pfm_set *from, struct pfm_set *to)
{
	struct perf_event *stop = from ? from->leader : NULL;
	struct perf_event *run = to ? to->leader : NULL;

	if (stop || run)
		perf_group_switch(stop, run);
}

static void pfm_run(struct pfm_context *ctx)
{
	pfm_run_set(ctx, NULL, ctx->active);
	perf_group_switch(NULL, ctx->clock);
}

static void pfm_pause(struct pfm_context *ctx)
{
	bool placed = pfm_placed(ctx->active);

	pfm_run_set(ctx, ctx->active, NULL);
	perf_group_switch(ctx->clock, NULL);
	pfm_account_as(ctx, placed);
}

static void pfm_activate(struct pfm_context *ctx, struct pfm_set *set, u64 timeout)
{
	unsigned int num;

	ctx->active = set;
	set->runs++;
	for_each_set_bit(num, set->used, PFM_MAX_REGS)
		pfm_reg_at(set, num)->left = pfm_reg_at(set, num)->switch_cnt;
	pfm_clock_arm(ctx, timeout);
}

static bool pfm_samples(const struct pfm_reg *reg)
{
	const struct perf_event *event = reg->event;

	return event && event->state == PERF_EVENT_STATE_ACTIVE &&
	       reg->kind != PFM_KIND_SW && event->attr.sample_period &&
	       event->hw.sample_period != PFM_NO_PERIOD;
}

static bool pfm_set_throttled(const struct pfm_set *set)
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

/*
 * Perf forgets that an event was throttled when it takes it off the PMU. So that
 * sets which take turns fast enough do not sample without a limit, the next one
 * waits for the tick that its predecessor would have waited for: all of its group,
 * as perf throttles groups, since the tick starts all of it.
 */
static void pfm_set_throttle(struct pfm_set *set)
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
		/* Those that went by in this step were for nobody else to use. */
		own = min_t(u64, div_u64(step, TICK_NSEC), ticks);
		ctx->longest_ns = min_t(u64, ctx->longest_ns, TICK_NSEC) >>
				  min(2 * (ticks - own), 63UL);
		ctx->steps_tick = tick;
		ctx->steps_ns = 0;
	}
	/* Of this one and of the longest so far, the longer waits. */
	ctx->steps_ns += min(step, ctx->longest_ns);
	ctx->longest_ns = max(step, ctx->longest_ns);
	return ctx->steps_ns >= PFM_STEPS_NS;
}

/*
 * Perf bounds how many overflows a tick may have. What they leave to pfm_step()
 * takes longer than a handler does, and on a slow machine the time of the whole
 * tick: with an eighth of that gone, the next overflow throttles its event.
 * Interrupts and handlers come on top.
 */
static void pfm_charge(struct pfm_context *ctx, u64 begin)
{
	struct pfm_set *set = ctx->active;
	struct pmu *pmu = set->leader ? set->leader->pmu_ctx->pmu : NULL;
	unsigned int num;

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

static void pfm_switch(struct pfm_context *ctx, struct pfm_set *to, bool restart)
{
	struct pfm_set *from = ctx->active;
	bool throttled = pfm_set_throttled(from);
	u64 begin = local_clock();

	pfm_account(ctx);
	if (from != to) {
		pfm_reset_pending(to, restart);
		pfm_run_set(ctx, from, to);
		pfm_reset_pending(from, restart);
	} else {
		/* What a handler stopped runs again in this way only. */
		pfm_run_set(ctx, from, NULL);
		pfm_reset_pending(to, restart);
		pfm_run_set(ctx, NULL, to);
	}
	if (throttled)
		pfm_set_throttle(to);
	pfm_activate(ctx, to, pfm_apart(ctx, to->timeout, local_clock() - begin));
}

static void pfm_notify(struct pfm_context *ctx)
{
	struct pfm_set *set = ctx->ovfl_set;
	union pfarg_msg msg = {
		.pfm_ovfl_msg = {
			.msg_type	= PFM_MSG_OVFL,
			.msg_ovfl_pid	= ctx->where.tgid,
			.msg_active_set	= set->id,
			.msg_ovfl_cpu	= ctx->where.cpu,
			.msg_ovfl_tid	= ctx->where.tid,
			.msg_ovfl_ip	= ctx->where.ip,
		},
	};

	if (!(ctx->flags & PFM_FL_OVFL_NO_MSG)) {
		bitmap_copy((unsigned long *)msg.pfm_ovfl_msg.msg_ovfl_pmds,
			    set->povfl, PFM_MAX_REGS);
		if (!pfm_msg_put(ctx, &msg))
			set->lost++;
	}
	if (ctx->flags & PFM_FL_NOTIFY_BLOCK) {
		WRITE_ONCE(ctx->blocked, true);
		set_bit(PFM_POST_BLOCK, &ctx->post);
	}
	set_bit(PFM_POST_WAKE, &ctx->post);
}

static void pfm_step_masked(struct pfm_context *ctx, unsigned long pend)
{
	pfm_pause(ctx);
	WRITE_ONCE(ctx->state, PFM_MASKED);
	ctx->deferred = pend & BIT(PFM_PEND_SWITCH);
	if (pend & BIT(PFM_PEND_NOTIFY))
		pfm_notify(ctx);
}

/**
 * pfm_step() - Do what overflow handlers have left to do
 * @ctx:	The context, loaded
 *
 * Context: Interrupts off, perf_event_context::lock of the context's events
 *          held, on the CPU where their target runs if it does. What
 *          event_function_call() gives to what it calls.
 */
void pfm_step(struct pfm_context *ctx)
{
	unsigned long pend;

	if (likely(!READ_ONCE(ctx->pend)))
		return;

	ctx->busy++;
	/* Handlers that come now leave what they have in pfm_context::pend. */
	barrier();
	if (test_and_clear_bit(PFM_PEND_LATE, &ctx->pend))
		pfm_overflow_late(ctx);
	pend = xchg(&ctx->pend, 0);
	/* Came just now, and has queued the irq_work again */
	if (pend & BIT(PFM_PEND_LATE))
		set_bit(PFM_PEND_LATE, &ctx->pend);

	if (ctx->state == PFM_LOADED && ctx->started) {
		if (pend & BIT(PFM_PEND_MASK))
			pfm_step_masked(ctx, pend);
		else if (pend & BIT(PFM_PEND_SWITCH))
			pfm_switch(ctx, ctx->active->next, false);
		else if (pend & BIT(PFM_PEND_RESET))
			pfm_reset_pending(ctx->active, false);
	}
	barrier();
	ctx->busy--;
}

/**
 * pfm_post_block() - See to it that the target waits before it is in user mode
 * @ctx:	The context, loaded on a thread
 *
 * Context: Any but NMI. The context is not unloaded meanwhile.
 */
void pfm_post_block(struct pfm_context *ctx)
{
	if (test_and_set_bit(0, &ctx->block_queued))
		return;

	refcount_inc(&ctx->ref);
	if (task_work_add(ctx->task, &ctx->block_work, TWA_RESUME | TWAF_NO_ALLOC)) {
		/* It will not come back to user mode. The caller has a reference. */
		clear_bit(0, &ctx->block_queued);
		refcount_dec(&ctx->ref);
	}
}

static void pfm_post(struct pfm_context *ctx)
{
	if (test_and_clear_bit(PFM_POST_WAKE, &ctx->post))
		irq_work_queue(&ctx->wake_work);
	if (test_and_clear_bit(PFM_POST_BLOCK, &ctx->post))
		pfm_post_block(ctx);
}

static void pfm_step_event(struct perf_event *event, struct perf_cpu_context *cpuctx,
			   struct perf_event_context *pctx, void *data)
{
	struct pfm_context *ctx = data;
	u64 begin = local_clock();

	if (ctx->dead)
		return;
	pfm_step(ctx);
	pfm_charge(ctx, begin);
}

/**
 * pfm_step_work() - Run pfm_step() where the target is
 * @work:	pfm_context::step_work
 *
 * Context: Interrupt.
 */
void pfm_step_work(struct irq_work *work)
{
	struct pfm_context *ctx = container_of(work, struct pfm_context, step_work);
	int cpu;

	/* Pairs with irq_work_sync() of whoever unloads. */
	if (READ_ONCE(ctx->state) == PFM_UNLOADED)
		return;
	if (perf_event_call_inatomic(ctx->clock, pfm_step_event, ctx, &cpu) == -EAGAIN)
		irq_work_queue_on(work, cpu);
	pfm_post(ctx);
}

struct pfm_call {
	struct pfm_context *ctx;
	event_f		func;
	void		*data;
	bool		called;
};

static void pfm_call_event(struct perf_event *event, struct perf_cpu_context *cpuctx,
			   struct perf_event_context *pctx, void *data)
{
	struct pfm_call *call = data;

	/* Perf has taken the events of a CPU that went offline out of it. */
	if (call->ctx->dead)
		return;
	call->called = true;
	call->func(event, cpuctx, pctx, call->data);
}

/**
 * pfm_call() - Run a function where pfm_step() may run
 * @ctx:	The context, loaded
 * @func:	The function
 * @data:	For it
 *
 * Context: pfm_context::mutex held. Sleeps.
 * Return: 0, or -ESRCH if the target is gone: nothing was called, and nothing
 *         else but the holder of the mutex touches the context's events.
 */
int pfm_call(struct pfm_context *ctx, event_f func, void *data)
{
	struct pfm_call call = { .ctx = ctx, .func = func, .data = data };
	struct perf_event_context *pctx;
	unsigned long flags;
	int cpu, ret;

	lockdep_assert_held(&ctx->mutex);

	/* No IPI for oneself, nor for who does not run */
	local_irq_save(flags);
	ret = perf_event_call_inatomic(ctx->clock, pfm_call_event, &call, &cpu);
	local_irq_restore(flags);
	if (ret == -EAGAIN) {
		pctx = perf_event_ctx_lock(ctx->clock);
		event_function_call(ctx->clock, pfm_call_event, &call);
		perf_event_ctx_unlock(ctx->clock, pctx);
	}
	pfm_post(ctx);
	return call.called ? 0 : -ESRCH;
}

struct pfm_run {
	struct pfm_context	*ctx;
	struct pfm_set		*set;
	int			ret;
};

static void pfm_start_loaded(struct pfm_context *ctx, struct pfm_set *set)
{
	if (ctx->started) {
		if (set != ctx->active) {
			pfm_switch(ctx, set, true);
			return;
		}
		if (!pfm_placed(set)) {
			/* There may be counters for it by now. */
			pfm_account(ctx);
			pfm_run_set(ctx, NULL, set);
		}
		pfm_clock_arm(ctx, set->timeout);
		return;
	}

	if (set != ctx->active)
		pfm_activate(ctx, set, set->timeout);
	else
		pfm_clock_arm(ctx, set->timeout);
	pfm_reset_pending(set, true);
	ctx->started = true;
	pfm_run(ctx);
}

static void pfm_start_event(struct perf_event *event, struct perf_cpu_context *cpuctx,
			    struct perf_event_context *pctx, void *data)
{
	struct pfm_run *run = data;
	struct pfm_context *ctx = run->ctx;
	struct pfm_set *set = run->set ?: ctx->active;

	pfm_step(ctx);
	ctx->busy++;
	barrier();
	run->ret = 0;
	if (ctx->state == PFM_MASKED) {
		/* Goes on with the restart, and with this set whichever was due */
		if (run->set)
			ctx->deferred = false;
		if (set != ctx->active)
			pfm_activate(ctx, set, set->timeout);
		ctx->started = true;
	} else {
		pfm_start_loaded(ctx, set);
		if (set->leader && set->leader->state == PERF_EVENT_STATE_ERROR) {
			pfm_pause(ctx);
			ctx->started = false;
			run->ret = -EBUSY;
		}
	}
	barrier();
	ctx->busy--;
}

/**
 * pfm_start() - Start monitoring
 * @ctx:	The context, loaded
 * @set:	Set to begin with, NULL for the active one
 *
 * Context: As pfm_call().
 * Return: 0, -EBUSY if the counters are taken, -ESRCH if the target is gone.
 */
int pfm_start(struct pfm_context *ctx, struct pfm_set *set)
{
	struct pfm_run run = { .ctx = ctx, .set = set, .ret = -ESRCH };

	pfm_call(ctx, pfm_start_event, &run);
	return run.ret;
}

static void pfm_stop_event(struct perf_event *event, struct perf_cpu_context *cpuctx,
			   struct perf_event_context *pctx, void *data)
{
	struct pfm_run *run = data;
	struct pfm_context *ctx = run->ctx;

	pfm_step(ctx);
	ctx->busy++;
	barrier();
	if (ctx->started && ctx->state == PFM_LOADED)
		pfm_pause(ctx);
	ctx->started = false;
	barrier();
	ctx->busy--;
	run->ret = 0;
}

/**
 * pfm_stop() - Stop monitoring
 * @ctx:	The context, loaded
 *
 * Context: As pfm_call().
 * Return: 0, or -ESRCH if the target is gone.
 */
int pfm_stop(struct pfm_context *ctx)
{
	struct pfm_run run = { .ctx = ctx, .ret = -ESRCH };

	pfm_call(ctx, pfm_stop_event, &run);
	return run.ret;
}

/**
 * pfm_stop_dead() - Stop monitoring on a CPU that goes offline
 * @ctx:	The context, loaded on this CPU
 *
 * Context: Interrupts off.
 */
void pfm_stop_dead(struct pfm_context *ctx)
{
	struct pfm_run run = { .ctx = ctx };
	int cpu;

	perf_event_call_inatomic(ctx->clock, pfm_stop_event, &run, &cpu);
}

static void pfm_halt_event(struct perf_event *event, struct perf_cpu_context *cpuctx,
			   struct perf_event_context *pctx, void *data)
{
	struct pfm_run *run = data;

	pfm_stop_event(event, cpuctx, pctx, data);
	WRITE_ONCE(run->ctx->state, PFM_UNLOADED);
}

/**
 * pfm_halt() - Stop monitoring for good
 * @ctx:	The context, loaded; no longer so when this returns
 *
 * Overflow handlers and pfm_step() leave the context alone after this.
 *
 * Context: As pfm_call(). The target may be gone.
 */
void pfm_halt(struct pfm_context *ctx)
{
	struct pfm_run run = { .ctx = ctx };

	if (pfm_call(ctx, pfm_halt_event, &run)) {
		if (ctx->started && ctx->state == PFM_LOADED)
			pfm_account(ctx);
		ctx->started = false;
		WRITE_ONCE(ctx->state, PFM_UNLOADED);
	}
	irq_work_sync(&ctx->step_work);
	ctx->pend = 0;
	WRITE_ONCE(ctx->blocked, false);
	wake_up_all(&ctx->block_wait);
}

static void pfm_unmask(struct pfm_context *ctx)
{
	WRITE_ONCE(ctx->state, PFM_LOADED);
	/* It may have been left since. */
	pfm_reset_pending(ctx->ovfl_set, true);
	pfm_reset_pending(ctx->active, true);
	if (ctx->deferred) {
		ctx->deferred = false;
		pfm_activate(ctx, ctx->active->next, ctx->active->next->timeout);
		pfm_reset_pending(ctx->active, false);
	}
	if (ctx->started)
		pfm_run(ctx);
}

static void pfm_restart_event(struct perf_event *event, struct perf_cpu_context *cpuctx,
			      struct perf_event_context *pctx, void *data)
{
	struct pfm_run *run = data;
	struct pfm_context *ctx = run->ctx;

	pfm_step(ctx);
	run->ret = -EBUSY;
	if (ctx->state != PFM_MASKED && !ctx->smpl)
		return;

	ctx->busy++;
	barrier();
	if (ctx->smpl)
		pfm_smpl_restart(ctx->smpl);
	if (ctx->state == PFM_MASKED)
		pfm_unmask(ctx);
	WRITE_ONCE(ctx->blocked, false);
	run->ret = 0;
	barrier();
	ctx->busy--;
}

/**
 * pfm_restart() - End what a notification began
 * @ctx:	The context, loaded
 *
 * Context: As pfm_call().
 * Return: 0, -EBUSY if there is nothing to restart, -ESRCH if the target is gone.
 */
int pfm_restart(struct pfm_context *ctx)
{
	struct pfm_run run = { .ctx = ctx, .ret = -ESRCH };

	pfm_call(ctx, pfm_restart_event, &run);
	wake_up_all(&ctx->block_wait);
	return run.ret;
}
