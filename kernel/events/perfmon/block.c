// SPDX-License-Identifier: GPL-2.0
/*
 * Blocking: a notification makes the target of a context with PFM_FL_NOTIFY_BLOCK wait
 * on its way to user mode.
 *
 * Such a target also waits for one or two ticks when perf has throttled its events, so
 * that no sample is lost. Perf unthrottles the events of a thread when that thread comes
 * back to a CPU. pfm_waits_when_throttled() tells when it does.
 *
 * A task work of the target does the waiting. As long as it is queued or runs, it holds
 * a reference to the context. pfm_context::block_target is the task that it is queued for, and
 * is cleared by the work itself or by the unload that has cancelled it.
 */
#include <linux/freezer.h>
#include <linux/sched/signal.h>

#include "internal.h"

static bool pfm_block_is_over(const struct pfm_context *ctx)
{
	return !READ_ONCE(ctx->blocked) || READ_ONCE(ctx->task) != current;
}

/* Make @task run pfm_block() as task work. The caller has a reference to the context. */
static void pfm_queue_block(struct pfm_context *ctx, struct task_struct *task)
{
	if (cmpxchg(&ctx->block_target, NULL, task))
		return;

	refcount_inc(&ctx->ref);
	if (task_work_add(task, &ctx->block_work, TWA_RESUME | TWAF_NO_ALLOC)) {
		/* The task exits, and does not come back to user mode. */
		WRITE_ONCE(ctx->block_target, NULL);
		refcount_dec(&ctx->ref);
	}
}

/*
 * Wait. Other task work of the thread ends the wait as a signal does. Do not run that work
 * from here: it could include pfm_block(), which would then wait one level deeper each
 * time. Instead queue pfm_block() again and return, so that task_work_run() runs the
 * other work. Because it begins with the work that was queued last, the next call of
 * pfm_block() only queues itself once more, because of block_yields.
 */
static void pfm_block_wait(struct pfm_context *ctx)
{
	if (ctx->block_yields) {
		ctx->block_yields = false;
		pfm_queue_block(ctx, current);
		return;
	}

	if (wait_event_freezable(ctx->block_wait, pfm_block_is_over(ctx)) &&
	    !task_sigpending(current)) {
		clear_notify_signal();
		ctx->block_yields = true;
		pfm_queue_block(ctx, current);
	}
}

/* Wait for a tick. Signals do not end this, because the events are still throttled. */
static void pfm_block_until_tick(struct pfm_context *ctx)
{
	if (READ_ONCE(ctx->waits_for_tick) == current) {
		WRITE_ONCE(ctx->waits_for_tick, NULL);
		schedule_timeout_killable(1);
	}
}

/*
 * Queue the work for the present target. Its overflow could not queue it, because the
 * work was still queued for the last target, which runs this.
 */
static void pfm_block_target(struct pfm_context *ctx)
{
	/* The mutex may be held for any time, see lock.c, so let a fatal signal end the wait. */
	if (mutex_lock_killable(&ctx->mutex))
		return;
	if (ctx->task && ctx->task != current && READ_ONCE(ctx->blocked))
		pfm_post_block(ctx);
	mutex_unlock(&ctx->mutex);
}

/**
 * pfm_block() - Make the target wait for a restart or for the next tick
 * @head:	pfm_context::block_work
 *
 * Context: The target, on its way to user mode. A signal ends the wait for a restart: the
 *          thread handles it and goes on, still masked.
 */
void pfm_block(struct callback_head *head)
{
	struct pfm_context *ctx = container_of(head, struct pfm_context, block_work);

	/* Clear this before loading blocked: an overflow stores blocked, then tests this. */
	xchg(&ctx->block_target, NULL);
	if (READ_ONCE(ctx->task) != current) {
		/* The context went to another thread before this one blocked. */
		pfm_block_target(ctx);
	} else if (!(current->flags & (PF_EXITING | PF_POSTCOREDUMP))) {
		/* An exiting thread runs its task work, too, but no signal could end its wait. */
		pfm_block_until_tick(ctx);
		pfm_block_wait(ctx);
	}
	pfm_ctx_put(ctx);
}

/**
 * pfm_post_block() - Make the target wait before it returns to user mode
 * @ctx:	The context, loaded on a thread
 *
 * Context: pfm_context::mutex held, or the interrupt of pfm_context::step_work, for which
 *          an unload waits.
 */
void pfm_post_block(struct pfm_context *ctx)
{
	lockdep_assert(in_hardirq() || lockdep_is_held(&ctx->mutex));
	pfm_queue_block(ctx, ctx->task);
}

/**
 * pfm_block_cancel() - Cancel the wait of a target that has not yet begun to block
 * @ctx:	The context, about to be unloaded
 *
 * Context: pfm_context::mutex held.
 */
void pfm_block_cancel(struct pfm_context *ctx)
{
	lockdep_assert_held(&ctx->mutex);
	if (ctx->task && task_work_cancel(ctx->task, &ctx->block_work)) {
		WRITE_ONCE(ctx->block_target, NULL);
		refcount_dec(&ctx->ref);
	}
	WRITE_ONCE(ctx->waits_for_tick, NULL);
}
