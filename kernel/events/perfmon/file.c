// SPDX-License-Identifier: GPL-2.0
/*
 * The file of a context: messages are read from it, the sampling buffer is mapped
 * from it, and its last close ends the session.
 */
#include <linux/anon_inodes.h>
#include <linux/fs.h>
#include <linux/poll.h>

#include "internal.h"

static int pfm_release(struct inode *inode, struct file *file)
{
	struct pfm_context *ctx = file->private_data;

	/* close(2) cannot fail, and no system call uses the context any more. */
	mutex_lock(&ctx->mutex);
	pfm_unload(ctx);
	mutex_unlock(&ctx->mutex);
	pfm_ctx_put(ctx);
	return 0;
}

/* Drop a message only after it was copied, so that a fault does not lose it. */
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
		/*
		 * Do not wait with O_NONBLOCK: the holder of the mutex may sleep in a
		 * page fault.
		 */
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
 * pfm_ctx_of_file() - Get the context of a file
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
 * pfm_ctx_file() - Create the file of a context
 * @ctx:	The context, a reference that goes to the file
 *
 * Context: Process context.
 * Return: The file or an error.
 */
struct file *pfm_ctx_file(struct pfm_context *ctx)
{
	return anon_inode_getfile("[perfmon]", &pfm_fops, ctx, O_RDWR);
}
