// SPDX-License-Identifier: GPL-2.0
/*
 * Messages of a context: a queue that pfm_notify() and the end of the target fill,
 * and that read(2) empties.
 *
 * The lock is taken below that of the perf context, so a message is queued where the
 * overflow is dealt with, and readers are woken later by an irq_work.
 */
#include <linux/fs.h>

#include "internal.h"

/**
 * pfm_msg_put() - Queue a message
 * @ctx:	The context
 * @msg:	The message
 *
 * Context: Any but NMI. The caller wakes the readers.
 * Return: Whether there was room.
 */
bool pfm_msg_put(struct pfm_context *ctx, const union pfarg_msg *msg)
{
	/* One place is left for the last one. */
	unsigned int depth = PFM_MSGQ_DEPTH + (msg->type == PFM_MSG_END);

	guard(raw_spinlock_irqsave)(&ctx->lock);
	if (ctx->msg_head - ctx->msg_tail >= depth)
		return false;
	ctx->msgs[ctx->msg_head++ % PFM_MSG_SLOTS] = *msg;
	return true;
}

/**
 * pfm_msg_peek() - Look at the message that is next
 * @ctx:	The context
 * @msg:	Receives the message
 * @tail:	Receives what pfm_msg_drop() needs to know of it
 *
 * Context: Any but NMI.
 * Return: Whether there is a message.
 */
bool pfm_msg_peek(struct pfm_context *ctx, union pfarg_msg *msg, unsigned int *tail)
{
	guard(raw_spinlock_irqsave)(&ctx->lock);
	if (ctx->msg_head == ctx->msg_tail)
		return false;
	*tail = ctx->msg_tail;
	*msg = ctx->msgs[*tail % PFM_MSG_SLOTS];
	return true;
}

/**
 * pfm_msg_drop() - Drop a message, unless all were cleared meanwhile
 * @ctx:	The context
 * @tail:	As pfm_msg_peek() gave it
 *
 * Context: Any but NMI.
 */
void pfm_msg_drop(struct pfm_context *ctx, unsigned int tail)
{
	guard(raw_spinlock_irqsave)(&ctx->lock);
	if (ctx->msg_tail == tail)
		ctx->msg_tail++;
}

/**
 * pfm_msg_pending() - Is there a message?
 * @ctx:	The context
 *
 * Context: Any.
 * Return: Whether there is.
 */
bool pfm_msg_pending(struct pfm_context *ctx)
{
	return READ_ONCE(ctx->msg_head) != READ_ONCE(ctx->msg_tail);
}

/**
 * pfm_msg_clear() - Forget all messages
 * @ctx:	The context
 *
 * Context: Any but NMI.
 */
void pfm_msg_clear(struct pfm_context *ctx)
{
	guard(raw_spinlock_irqsave)(&ctx->lock);
	ctx->msg_tail = ctx->msg_head;
}

/**
 * pfm_msg_end() - Tell that the target is gone
 * @ctx:	The context, just unloaded
 *
 * Context: Process context.
 */
void pfm_msg_end(struct pfm_context *ctx)
{
	const union pfarg_msg msg = { .type = PFM_MSG_END };

	pfm_msg_put(ctx, &msg);
	pfm_wake(&ctx->wake_work);
}

/**
 * pfm_wake() - Wake those who wait for messages
 * @work:	pfm_context::wake_work
 *
 * Context: Any in which one can wake.
 */
void pfm_wake(struct irq_work *work)
{
	struct pfm_context *ctx = container_of(work, struct pfm_context, wake_work);

	wake_up_interruptible_all(&ctx->msg_wait);
	kill_fasync(&ctx->fasync, SIGIO, POLL_IN);
}
