// SPDX-License-Identifier: GPL-2.0
/*
 * Running a context: start, stop, restart, and switches of sets.
 *
 *	            start           notification, buffer full
 *	  stopped ---------> runs --------------------------> masked
 *	     ^                |  ^                              |
 *	     +----------------+  +------------------------------+
 *	            stop                     restart
 *
 * A loaded context has one group of perf events per set, of which at most one is
 * enabled, and a clock. The enabled group is changed under the lock of their
 * perf context, on the CPU where the target runs, or on any CPU while it does
 * not run: by pfm_call() for system calls, and by pfm_step_work() for overflow
 * handlers.
 *
 * The clock runs with the target as long as the context is started and not
 * masked. Its count between two switches is the time of the active set, so the
 * times of the sets add up to the clock. Its timer, which stops and continues
 * with the target, is the timeout of the active set.
 *
 * No task is woken under the lock, because the scheduler takes it inside of its
 * own locks: pfm_context::post records the work to do once it is dropped.
 */
#include <linux/sched/clock.h>
#include <linux/slab.h>

#include "internal.h"

static void pfm_account_time_as(struct pfm_context *ctx, bool placed)
{
	struct perf_event *clock = ctx->clock;
	struct pfm_set *set = ctx->active;
	u64 delta;

	if (clock->state == PERF_EVENT_STATE_ACTIVE)
		clock->pmu->read(clock);
	delta = local64_read(&clock->count) - ctx->entered;

	ctx->entered += delta;
	set->duration += delta;
	/* Perf counts no enabled time of a group that did not fit on the PMU. */
	if (!placed)
		set->enabled += delta;
}

static bool pfm_set_placed(const struct pfm_set *set)
{
	return !set->leader || set->leader->state != PERF_EVENT_STATE_ERROR;
}

/**
 * pfm_account_time() - Update the time of the active set
 * @ctx:	The context
 *
 * Context: As pfm_step(), or pfm_context::mutex held and the target gone.
 */
void pfm_account_time(struct pfm_context *ctx)
{
	lockdep_assert(lockdep_is_held(&ctx->clock->ctx->lock) ||
		       lockdep_is_held(&ctx->mutex));
	pfm_account_time_as(ctx, pfm_set_placed(ctx->active));
}

/**
 * pfm_run_set() - Stop the counters of one set and start those of another
 * @ctx:	The context
 * @from:	Set to stop or NULL
 * @to:		Set to run or NULL
 *
 * Context: As pfm_step().
 */
void pfm_run_set(struct pfm_context *ctx, struct pfm_set *from, struct pfm_set *to)
{
	struct perf_event *stop = from ? from->leader : NULL;
	struct perf_event *run = to ? to->leader : NULL;

	pfm_assert_step_context(ctx);
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
	bool placed = pfm_set_placed(ctx->active);

	pfm_run_set(ctx, ctx->active, NULL);
	perf_group_switch(ctx->clock, NULL);
	pfm_account_time_as(ctx, placed);
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

/* Make the target wait until perf no longer throttles its events. */
static void pfm_step_throttled(struct pfm_context *ctx)
{
	WRITE_ONCE(ctx->waits_for_tick, ctx->task);
	set_bit(PFM_POST_BLOCK, &ctx->post);
}

static void pfm_switch(struct pfm_context *ctx, struct pfm_set *to, bool restart)
{
	struct pfm_set *from = ctx->active;
	u64 begin = local_clock();

	pfm_account_time(ctx);
	if (from != to) {
		pfm_reset_pending(to, restart);
		pfm_run_set(ctx, from, to);
		pfm_reset_pending(from, restart);
	} else {
		/*
		 * Stop the whole set although it goes on, because only this restarts the
		 * counters that a handler has stopped.
		 */
		pfm_run_set(ctx, from, NULL);
		pfm_reset_pending(to, restart);
		pfm_run_set(ctx, NULL, to);
	}
	if (pfm_inherit_throttling(to) && pfm_waits_when_throttled(to))
		pfm_step_throttled(ctx);
	pfm_activate(ctx, to, pfm_limit_switches(to, to->timeout, local_clock() - begin));
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
 * pfm_step() - Do the work that overflow handlers have deferred
 * @ctx:	The context, loaded
 *
 * Context: Interrupts off, perf_event_context::lock of the context's events
 *          held, on the CPU where their target runs if it does, as in a
 *          function called by perf_event_function_call().
 */
void pfm_step(struct pfm_context *ctx)
{
	unsigned long pend;

	pfm_assert_step_context(ctx);
	if (likely(!READ_ONCE(ctx->pend)))
		return;

	ctx->busy++;
	/* Handlers that interrupt this defer their work by pfm_context::pend. */
	barrier();
	if (test_and_clear_bit(PFM_PEND_LATE, &ctx->pend))
		pfm_overflow_late(ctx);
	pend = xchg(&ctx->pend, 0);
	/* Keep a bit that a handler has set meanwhile: it has queued the irq_work again. */
	if (pend & BIT(PFM_PEND_LATE))
		set_bit(PFM_PEND_LATE, &ctx->pend);

	if (ctx->state == PFM_LOADED && ctx->started) {
		if (pend & BIT(PFM_PEND_MASK))
			pfm_step_masked(ctx, pend);
		else if (pend & BIT(PFM_PEND_SWITCH))
			pfm_switch(ctx, ctx->active->next, false);
		else if (pend & BIT(PFM_PEND_RESET))
			pfm_reset_pending(ctx->active, false);
		if (pend & BIT(PFM_PEND_THROTTLED) && ctx->state == PFM_LOADED)
			pfm_step_throttled(ctx);
	}
	barrier();
	ctx->busy--;
}

static void pfm_run_posted(struct pfm_context *ctx)
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
 * pfm_step_work() - Run pfm_step() on the CPU of the target
 * @work:	pfm_context::step_work
 *
 * Context: Interrupt.
 */
void pfm_step_work(struct irq_work *work)
{
	struct pfm_context *ctx = container_of(work, struct pfm_context, step_work);
	int cpu;

	/* Pairs with irq_work_sync() in pfm_stop_for_unload(). */
	if (READ_ONCE(ctx->state) == PFM_UNLOADED)
		return;
	if (perf_event_call_inatomic(ctx->clock, pfm_step_event, ctx, &cpu) == -EAGAIN)
		irq_work_queue_on(work, cpu);
	pfm_run_posted(ctx);
}

struct pfm_call {
	struct pfm_context	*ctx;
	pfm_func		func;
	void			*data;
	bool			called;
};

static void pfm_call_reader_event(struct perf_event *event, struct perf_cpu_context *cpuctx,
				  struct perf_event_context *pctx, void *data)
{
	struct pfm_call *call = data;

	/* The CPU went offline, so perf has removed its events. */
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
	/* Handlers that interrupt this defer their work. */
	barrier();
	pfm_call_reader_event(event, cpuctx, pctx, data);
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

	/* Avoid an IPI to this CPU, or for a target that does not run. */
	local_irq_save(flags);
	ret = perf_event_call_inatomic(ctx->clock, how, &call, &cpu);
	local_irq_restore(flags);
	if (ret == -EAGAIN) {
		pctx = perf_event_ctx_lock(ctx->clock);
		perf_event_function_call(ctx->clock, how, &call);
		perf_event_ctx_unlock(ctx->clock, pctx);
	}
	pfm_run_posted(ctx);
	return call.called ? 0 : -ESRCH;
}

/**
 * pfm_call() - Run a function that changes a context, on the CPU of its target
 * @ctx:	The context, loaded
 * @func:	The function. Work that handlers have deferred is done before it,
 *		and pfm_context::busy is set while it runs.
 * @data:	Argument of @func
 *
 * Context: pfm_context::mutex held. Sleeps.
 * Return: 0, or -ESRCH if the target is gone: @func was not called, and only the
 *         holder of the mutex uses the context's events.
 */
int pfm_call(struct pfm_context *ctx, pfm_func func, void *data)
{
	return pfm_call_as(ctx, func, data, pfm_call_event);
}

/**
 * pfm_call_reader() - Run a function that reads a context, on the CPU of its target
 * @ctx:	The context, loaded
 * @func:	The function
 * @data:	Argument of @func
 *
 * Unlike in pfm_call(), an overflow that interrupts the function is handled at once,
 * so that its new period begins in time and its instruction pointer is known. Work
 * that waits for pfm_step() is left to it, which keeps reads cheap: the caller could
 * have read the same values a moment earlier.
 *
 * Context: As pfm_call().
 * Return: As pfm_call().
 */
int pfm_call_reader(struct pfm_context *ctx, pfm_func func, void *data)
{
	return pfm_call_as(ctx, func, data, pfm_call_reader_event);
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
		if (!pfm_set_placed(set)) {
			/* Counters may have become free for the set. */
			pfm_account_time(ctx);
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
		/* The restart continues with this set and cancels a deferred switch. */
		if (run->set)
			ctx->deferred = false;
		if (set != ctx->active)
			pfm_activate(ctx, set, set->timeout);
		ctx->started = true;
		return;
	}

	pfm_start_loaded(ctx, set);
	if (!pfm_set_placed(set)) {
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
 * pfm_stop_offline() - Stop monitoring on a CPU that goes offline
 * @ctx:	The context, loaded on this CPU
 *
 * Context: Interrupts off. The caller excludes an unload by pfm_cpu_lock.
 */
void pfm_stop_offline(struct pfm_context *ctx)
{
	struct pfm_call call = { .ctx = ctx, .func = pfm_stop_here };
	int cpu;

	lockdep_assert_irqs_disabled();
	perf_event_call_inatomic(ctx->clock, pfm_call_event, &call, &cpu);
}

static void pfm_stop_for_unload_here(struct pfm_context *ctx, void *data)
{
	pfm_stop_here(ctx, data);
	WRITE_ONCE(ctx->state, PFM_UNLOADED);
}

/**
 * pfm_stop_for_unload() - Stop monitoring to unload a context
 * @ctx:	The context, loaded; unloaded when this returns
 *
 * Overflow handlers and pfm_step() do not use the context after this.
 *
 * Context: As pfm_call(). The target may be gone.
 */
void pfm_stop_for_unload(struct pfm_context *ctx)
{
	if (pfm_call(ctx, pfm_stop_for_unload_here, NULL)) {
		if (ctx->started && ctx->state == PFM_LOADED)
			pfm_account_time(ctx);
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
	/* The set of the overflow may not be the active one any more. */
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

	pfm_smpl_restart(ctx);
	if (ctx->state == PFM_MASKED)
		pfm_unmask(ctx);
	WRITE_ONCE(ctx->blocked, false);
	run->ret = 0;
}

/**
 * pfm_restart() - Unmask a context and empty its sampling buffer
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
