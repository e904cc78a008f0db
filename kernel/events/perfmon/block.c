// SPDX-License-Identifier: GPL-2.0
/*
 * Blocking: a notification lets the target of a context with PFM_FL_NOTIFY_BLOCK wait
 * on its way to user mode.
 *
 * A task work of the target does the waiting. As long as it is queued or runs it has
 * a reference of the context. pfm_context::block_queued says that it is queued, and
 * is cleared by the work itself or by the unload that has cancelled it.
 */
#include <linux/freezer.h>
#include <linux/sched/signal.h>

#include "internal.h"

static bool pfm_block_is_over(const struct pfm_context *ctx)
{
	return !READ_ONCE(ctx->blocked) || READ_ONCE(ctx->task) != current;
}

/* Let @task run pfm_block(). The caller has a reference of the context. */
static void pfm_queue_block(struct pfm_context *ctx, struct task_struct *task)
{
	if (test_and_set_bit(0, &ctx->block_queued))
		return;

	refcount_inc(&ctx->ref);
	if (task_work_add(task, &ctx->block_work, TWA_RESUME | TWAF_NO_ALLOC)) {
		/* The task exits, and does not come back to user mode. */
		clear_bit(0, &ctx->block_queued);
		refcount_dec(&ctx->ref);
	}
}

/*
 * Other task work of the thread ends the wait like a signal. It must not be run from
 * here, because pfm_block() could then be in it and wait one level deeper each time.
 * task_work_run() runs it when pfm_block() has returned, and calls pfm_block() again.
 * As it begins with the latest work, pfm_block() lets one turn pass: block_yields.
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

/*
 * The overflow of the present target did not queue the work, because the last target
 * still had it. The last target queues it for the present one.
 */
static void pfm_block_target(struct pfm_context *ctx)
{
	/* A thread that is killed here waits for the mutex when it exits, if it has to. */
	if (mutex_lock_killable(&ctx->mutex))
		return;
	if (ctx->task && ctx->task != current && READ_ONCE(ctx->blocked))
		pfm_post_block(ctx);
	mutex_unlock(&ctx->mutex);
}

/**
 * pfm_block() - Let the target wait for a restart
 * @head:	pfm_context::block_work
 *
 * Context: The target, on its way to user mode. A signal ends the wait: the
 *          thread handles it and goes on, still masked.
 */
void pfm_block(struct callback_head *head)
{
	struct pfm_context *ctx = container_of(head, struct pfm_context, block_work);

	clear_bit(0, &ctx->block_queued);
	/* An overflow that found the bit set has written pfm_context::blocked before. */
	smp_mb__after_atomic();
	/* It was about to block when the context went to another thread. */
	if (READ_ONCE(ctx->task) != current)
		pfm_block_target(ctx);
	/* No signal reaches a thread that exits, and it runs this on its way. */
	else if (!(current->flags & (PF_EXITING | PF_POSTCOREDUMP)))
		pfm_block_wait(ctx);
	pfm_ctx_put(ctx);
}

/**
 * pfm_post_block() - Make the target wait before it returns to user mode
 * @ctx:	The context, loaded on a thread
 *
 * Context: Any but NMI. The context is not unloaded meanwhile.
 */
void pfm_post_block(struct pfm_context *ctx)
{
	pfm_queue_block(ctx, ctx->task);
}

/**
 * pfm_block_cancel() - A thread that is not yet blocked shall not be
 * @ctx:	The context, about to be unloaded
 *
 * Context: pfm_context::mutex held.
 */
void pfm_block_cancel(struct pfm_context *ctx)
{
	lockdep_assert_held(&ctx->mutex);
	if (ctx->task && task_work_cancel(ctx->task, &ctx->block_work)) {
		clear_bit(0, &ctx->block_queued);
		refcount_dec(&ctx->ref);
	}
}
