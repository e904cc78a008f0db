// SPDX-License-Identifier: GPL-2.0
/*
 * Contexts: their life, and their file.
 *
 *	            load                 notification
 *	  unloaded -------> loaded ---------------------> masked
 *	     ^ ^              | ^                           | |
 *	     | +--------------+ +---------------------------+ |
 *	     |     unload                  restart            |
 *	     +------------------------------------------------+
 *	                    unload
 *
 * Unloaded: all is software state, sets may come and go. Loaded: attached to a
 * thread or a CPU, where it counts once it is started. Masked: an overflow was
 * notified, nothing counts until pfm_restart(2). Exit of the thread, its exec of
 * a program with other privileges, the CPU going offline and close(2) unload.
 *
 * The descriptor has a reference, the target one, and a target on its way to
 * being blocked one.
 */
#include <linux/anon_inodes.h>
#include <linux/pid_namespace.h>
#include <linux/poll.h>
#include <linux/random.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/fs.h>

#include "internal.h"

/**
 * pfm_msg_put() - Queue a message
 * @ctx:	The context
 * @msg:	The message
 *
 * Context: Any but NMI. Wakes nobody.
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

static bool pfm_msg_peek(struct pfm_context *ctx, union pfarg_msg *msg, unsigned int *tail)
{
	guard(raw_spinlock_irqsave)(&ctx->lock);
	if (ctx->msg_head == ctx->msg_tail)
		return false;
	*tail = ctx->msg_tail;
	*msg = ctx->msgs[*tail % PFM_MSG_SLOTS];
	return true;
}

/* Drop the message that was seen at @tail, unless it was cleared meanwhile. */
static void pfm_msg_drop(struct pfm_context *ctx, unsigned int tail)
{
	guard(raw_spinlock_irqsave)(&ctx->lock);
	if (ctx->msg_tail == tail)
		ctx->msg_tail++;
}

static bool pfm_msg_pending(struct pfm_context *ctx)
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

static bool pfm_block_is_over(const struct pfm_context *ctx)
{
	return !READ_ONCE(ctx->blocked) || READ_ONCE(ctx->task) != current;
}

static void pfm_block_wait(struct pfm_context *ctx)
{
	while (wait_event_freezable(ctx->block_wait, pfm_block_is_over(ctx)) &&
	       !task_sigpending(current)) {
		/* What looked like a signal is work that somebody has for it. */
		clear_notify_signal();
		task_work_run();
	}
}

/* What would have let the target wait found the work on its way to its last one. */
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
	/* Whoever found it set has written before what is looked at now. */
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
 * pfm_ctx_create() - Create a context with set 0
 * @flags:	PFM_FL_*
 * @pmu_type:	PMU whose registers it shall have
 *
 * Context: Process context.
 * Return: The context with one reference, or -ENODEV, -ENOMEM, or what a security
 *         module says.
 */
struct pfm_context *pfm_ctx_create(u32 flags, u32 pmu_type)
{
	struct pfarg_setdesc set0 = { .set_id = 0 };
	struct pfm_context *ctx;
	int ret;

	ctx = kzalloc(sizeof(*ctx), GFP_KERNEL_ACCOUNT);
	if (!ctx)
		return ERR_PTR(-ENOMEM);

	refcount_set(&ctx->ref, 1);
	mutex_init(&ctx->mutex);
	mutex_init(&ctx->msg_mutex);
	raw_spin_lock_init(&ctx->lock);
	INIT_LIST_HEAD(&ctx->sets);
	init_waitqueue_head(&ctx->msg_wait);
	init_waitqueue_head(&ctx->block_wait);
	init_task_work(&ctx->block_work, pfm_block);
	ctx->step_work = IRQ_WORK_INIT_HARD(pfm_step_work);
	ctx->wake_work = IRQ_WORK_INIT(pfm_wake);
	INIT_WORK(&ctx->dead_work, pfm_dead_work);
	prandom_seed_state(&ctx->rnd, get_random_u64());
	ctx->ns = get_pid_ns(task_active_pid_ns(current));
	ctx->state = PFM_UNLOADED;
	ctx->flags = flags;
	ctx->pmu_type = pmu_type;
	ctx->cpu = -1;
	pfm_charge_init(&ctx->charge);

	ctx->map = pfm_map_find(pmu_type);
	ret = ctx->map ? 0 : -ENODEV;
	if (!ret)
		ret = pfm_mem_charge(ctx, sizeof(*ctx));
	if (!ret)
		ret = pfm_label_create(ctx);
	if (!ret)
		ret = pfm_set_create(ctx, &set0);
	if (ret) {
		pfm_ctx_put(ctx);
		return ERR_PTR(ret);
	}
	ctx->active = list_first_entry(&ctx->sets, struct pfm_set, node);
	return ctx;
}

static void pfm_ctx_free_rcu(struct rcu_head *rcu)
{
	struct pfm_context *ctx = container_of(rcu, struct pfm_context, rcu);

	put_pid_ns(ctx->ns);
	kfree(ctx);
}

/**
 * pfm_ctx_put() - Drop a reference
 * @ctx:	The context
 *
 * Context: Process context. May sleep.
 */
void pfm_ctx_put(struct pfm_context *ctx)
{
	struct pfm_set *set, *tmp;

	if (!refcount_dec_and_test(&ctx->ref))
		return;

	irq_work_sync(&ctx->wake_work);
	list_for_each_entry_safe(set, tmp, &ctx->sets, node)
		pfm_set_free(set);
	pfm_smpl_free(ctx);
	pfm_label_free(ctx);
	pfm_charge_exit(&ctx->charge);
	mutex_destroy(&ctx->msg_mutex);
	mutex_destroy(&ctx->mutex);
	call_rcu(&ctx->rcu, pfm_ctx_free_rcu);
}

static int pfm_release(struct inode *inode, struct file *file)
{
	struct pfm_context *ctx = file->private_data;

	/* A close cannot fail. No system call is in the context any more. */
	mutex_lock(&ctx->mutex);
	pfm_unload(ctx);
	mutex_unlock(&ctx->mutex);
	pfm_ctx_put(ctx);
	return 0;
}

/* A message that cannot be stored where the reader wants it stays. */
static ssize_t pfm_msg_read(struct pfm_context *ctx, char __user *buf)
{
	union pfarg_msg msg;
	unsigned int tail;

	if (!pfm_msg_peek(ctx, &msg, &tail))
		return -EAGAIN;
	if (copy_to_user(buf, &msg, sizeof(msg)))
		return -EFAULT;
	pfm_msg_drop(ctx, tail);
	return sizeof(msg);
}

static ssize_t pfm_read(struct file *file, char __user *buf, size_t size, loff_t *pos)
{
	struct pfm_context *ctx = file->private_data;
	bool wait = !(file->f_flags & O_NONBLOCK);
	ssize_t ret;

	if (size < sizeof(union pfarg_msg))
		return -EINVAL;
	ret = pfm_may_read(ctx);
	if (ret)
		return ret;

	do {
		/* Whoever has it may wait for a page of its memory. */
		if (!wait && !mutex_trylock(&ctx->msg_mutex))
			return -EAGAIN;
		if (wait && mutex_lock_interruptible(&ctx->msg_mutex))
			return -ERESTARTSYS;
		ret = pfm_msg_read(ctx, buf);
		mutex_unlock(&ctx->msg_mutex);
		if (ret != -EAGAIN || !wait)
			return ret;
	} while (!wait_event_interruptible(ctx->msg_wait, pfm_msg_pending(ctx)));

	return -ERESTARTSYS;
}

static __poll_t pfm_poll(struct file *file, poll_table *wait)
{
	struct pfm_context *ctx = file->private_data;

	poll_wait(file, &ctx->msg_wait, wait);
	return pfm_msg_pending(ctx) ? EPOLLIN | EPOLLRDNORM : 0;
}

static int pfm_fasync(int fd, struct file *file, int on)
{
	struct pfm_context *ctx = file->private_data;

	return fasync_helper(fd, file, on, &ctx->fasync);
}

static int pfm_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct pfm_context *ctx = file->private_data;

	if (!ctx->smpl)
		return -EINVAL;
	return pfm_may_read(ctx) ?: pfm_smpl_mmap(ctx->smpl, vma);
}

static const struct file_operations pfm_fops = {
	.owner		= THIS_MODULE,
	.release	= pfm_release,
	.read		= pfm_read,
	.poll		= pfm_poll,
	.fasync		= pfm_fasync,
	.mmap		= pfm_mmap,
};

/**
 * pfm_ctx_of_file() - The context that a file is
 * @file:	The file
 *
 * Context: Any.
 * Return: The context, NULL if it is another kind of file.
 */
struct pfm_context *pfm_ctx_of_file(struct file *file)
{
	return file->f_op == &pfm_fops ? file->private_data : NULL;
}

/**
 * pfm_ctx_file() - Make the file of a context
 * @ctx:	The context, whose reference goes to the file
 *
 * Context: Process context.
 * Return: The file or an error.
 */
struct file *pfm_ctx_file(struct pfm_context *ctx)
{
	return anon_inode_getfile("[perfmon]", &pfm_fops, ctx, O_RDWR);
}
