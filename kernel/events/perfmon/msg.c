// SPDX-License-Identifier: GPL-2.0
/*
 * Messages of a context: a queue that pfm_notify() and the exit of the target fill,
 * and that read(2) empties.
 *
 * The lock nests inside of the lock of the perf context, so the handling of an
 * overflow queues the message, and an irq_work wakes the readers later.
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
	/* Keep one slot for PFM_MSG_END. */
	unsigned int depth = PFM_MSGQ_DEPTH + (msg->type == PFM_MSG_END);

	guard(raw_spinlock_irqsave)(&ctx->lock);
	if (ctx->msg_head - ctx->msg_tail >= depth)
		return false;
	ctx->msgs[ctx->msg_head++ % PFM_MSG_SLOTS] = *msg;
	return true;
}

/**
 * pfm_msg_peek() - Copy the next message without removing it
 * @ctx:	The context
 * @msg:	Receives the message
 * @tail:	Receives its position, for pfm_msg_drop()
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
 * pfm_msg_drop() - Remove a message, unless all were cleared meanwhile
 * @ctx:	The context
 * @tail:	Position from pfm_msg_peek()
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
 * pfm_msg_pending() - Tell whether there is a message
 * @ctx:	The context
 *
 * Context: Any.
 * Return: Whether there is one.
 */
bool pfm_msg_pending(struct pfm_context *ctx)
{
	return READ_ONCE(ctx->msg_head) != READ_ONCE(ctx->msg_tail);
}

/**
 * pfm_msg_clear() - Remove all messages
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
 * pfm_msg_end() - Queue the message that the target is gone
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
 * pfm_wake() - Wake the readers of messages
 * @work:	pfm_context::wake_work
 *
 * Context: Interrupt or process context.
 */
void pfm_wake(struct irq_work *work)
{
	struct pfm_context *ctx = container_of(work, struct pfm_context, wake_work);

	wake_up_interruptible_all(&ctx->msg_wait);
	kill_fasync(&ctx->fasync, SIGIO, POLL_IN);
}
