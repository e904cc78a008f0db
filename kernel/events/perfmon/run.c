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
	lockdep_assert(lockdep_is_held(&ctx->clock->ctx->lock) ||
		       lockdep_is_held(&ctx->mutex));
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

	pfm_assert_step(ctx);
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
 *          perf_event_function_call() gives to what it calls.
 */
void pfm_step(struct pfm_context *ctx)
{
	unsigned long pend;

	pfm_assert_step(ctx);
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
	pfm_charge_step(ctx, begin);
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
	struct pfm_context	*ctx;
	pfm_func		func;
	void			*data;
	bool			called;
};

static void pfm_peek_event(struct perf_event *event, struct perf_cpu_context *cpuctx,
			   struct perf_event_context *pctx, void *data)
{
	struct pfm_call *call = data;

	/* Perf has taken the events of a CPU that went offline out of it. */
	if (call->ctx->dead)
		return;
	call->called = true;
	call->func(call->ctx, call->data);
}

static void pfm_call_event(struct perf_event *event, struct perf_cpu_context *cpuctx,
			   struct perf_event_context *pctx, void *data)
{
	struct pfm_call *call = data;
	struct pfm_context *ctx = call->ctx;

	if (ctx->dead)
		return;
	pfm_step(ctx);
	ctx->busy++;
	/* Handlers that come now leave a note. */
	barrier();
	pfm_peek_event(event, cpuctx, pctx, data);
	barrier();
	ctx->busy--;
}

static int pfm_call_as(struct pfm_context *ctx, pfm_func func, void *data, event_f how)
{
	struct pfm_call call = { .ctx = ctx, .func = func, .data = data };
	struct perf_event_context *pctx;
	unsigned long flags;
	int cpu, ret;

	lockdep_assert_held(&ctx->mutex);

	/* No IPI for oneself, nor for a target that does not run */
	local_irq_save(flags);
	ret = perf_event_call_inatomic(ctx->clock, how, &call, &cpu);
	local_irq_restore(flags);
	if (ret == -EAGAIN) {
		pctx = perf_event_ctx_lock(ctx->clock);
		perf_event_function_call(ctx->clock, how, &call);
		perf_event_ctx_unlock(ctx->clock, pctx);
	}
	pfm_post(ctx);
	return call.called ? 0 : -ESRCH;
}

/**
 * pfm_call() - Run a function that changes a context where pfm_step() may run
 * @ctx:	The context, loaded
 * @func:	The function. What handlers have left to do is done before it, and
 *		pfm_context::busy is set while it runs.
 * @data:	For it
 *
 * Context: pfm_context::mutex held. Sleeps.
 * Return: 0, or -ESRCH if the target is gone: nothing was called, and nothing
 *         else but the holder of the mutex touches the context's events.
 */
int pfm_call(struct pfm_context *ctx, pfm_func func, void *data)
{
	return pfm_call_as(ctx, func, data, pfm_call_event);
}

/**
 * pfm_peek() - Run a function that handlers may interrupt where pfm_step() may run
 * @ctx:	The context, loaded
 * @func:	The function
 * @data:	For it
 *
 * For what only reads: an overflow that interrupts the function is dealt with at once,
 * begins its new period in time and keeps its instruction pointer. What waits for
 * pfm_step() changes no value that the caller could not have seen before, so reading
 * is cheap.
 *
 * Context: As pfm_call().
 * Return: As pfm_call().
 */
int pfm_peek(struct pfm_context *ctx, pfm_func func, void *data)
{
	return pfm_call_as(ctx, func, data, pfm_peek_event);
}

struct pfm_run {
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

static void pfm_start_here(struct pfm_context *ctx, void *data)
{
	struct pfm_run *run = data;
	struct pfm_set *set = run->set ?: ctx->active;

	run->ret = 0;
	if (ctx->state == PFM_MASKED) {
		/* Goes on with the restart, and with this set whichever was due */
		if (run->set)
			ctx->deferred = false;
		if (set != ctx->active)
			pfm_activate(ctx, set, set->timeout);
		ctx->started = true;
		return;
	}

	pfm_start_loaded(ctx, set);
	if (!pfm_placed(set)) {
		pfm_pause(ctx);
		ctx->started = false;
		run->ret = -EBUSY;
	}
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
	struct pfm_run run = { .set = set };

	return pfm_call(ctx, pfm_start_here, &run) ?: run.ret;
}

static void pfm_stop_here(struct pfm_context *ctx, void *data)
{
	if (ctx->started && ctx->state == PFM_LOADED)
		pfm_pause(ctx);
	ctx->started = false;
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
	return pfm_call(ctx, pfm_stop_here, NULL);
}

/**
 * pfm_stop_dead() - Stop monitoring on a CPU that goes offline
 * @ctx:	The context, loaded on this CPU
 *
 * Context: Interrupts off.
 */
void pfm_stop_dead(struct pfm_context *ctx)
{
	struct pfm_call call = { .ctx = ctx, .func = pfm_stop_here };
	int cpu;

	perf_event_call_inatomic(ctx->clock, pfm_call_event, &call, &cpu);
}

static void pfm_halt_here(struct pfm_context *ctx, void *data)
{
	pfm_stop_here(ctx, data);
	WRITE_ONCE(ctx->state, PFM_UNLOADED);
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
	if (pfm_call(ctx, pfm_halt_here, NULL)) {
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

static void pfm_restart_here(struct pfm_context *ctx, void *data)
{
	struct pfm_run *run = data;

	run->ret = -EBUSY;
	if (ctx->state != PFM_MASKED && !ctx->smpl)
		return;

	if (ctx->smpl)
		pfm_smpl_restart(ctx->smpl);
	if (ctx->state == PFM_MASKED)
		pfm_unmask(ctx);
	WRITE_ONCE(ctx->blocked, false);
	run->ret = 0;
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
	struct pfm_run run = { };
	int ret = pfm_call(ctx, pfm_restart_here, &run);

	wake_up_all(&ctx->block_wait);
	return ret ?: run.ret;
}
