// SPDX-License-Identifier: GPL-2.0
/*
 * Locking a context for a system call.
 *
 * signal_struct::exec_update_lock of a target keeps its credentials from changing after
 * pfm_may_open() has checked them. An exec holds that lock while it waits for
 * pfm_context::mutex, so it is the outer lock. But a user can make the holder of the
 * mutex wait for any time: the holder takes perf_event_context::mutex, under which
 * read(2) of a perf event may take a slow page fault. A process that the caller may not
 * trace must not wait for that: no lock of the target is taken before pfm_may_open()
 * has allowed it for this call, and none is held while the caller waits for the mutex.
 * So pfm_lock_opening() takes the mutex first and only tries the lock of the target.
 */
#include <linux/sched/signal.h>
#include <linux/sched/task.h>

#include "internal.h"

/**
 * pfm_lock() - Lock a context
 * @ctx:	The context
 *
 * A context whose CPU went offline is unloaded first. The holder of the mutex may
 * sleep in a page fault that a program can delay for any time, so the caller can be
 * killed while it waits.
 *
 * Context: Process context. No lock of another process is held.
 * Return: 0, or -EINTR if the caller was killed.
 */
int pfm_lock(struct pfm_context *ctx)
{
	if (mutex_lock_killable(&ctx->mutex))
		return -EINTR;
	pfm_unload_dead(ctx);
	return 0;
}

/**
 * pfm_lock_opening() - Lock a context to open its events
 * @ctx:	The context
 * @load:	Thread that it will be loaded on, NULL for its present target
 * @creds:	Receives the thread whose credentials are locked, or NULL
 *
 * Take pfm_context::mutex, and exec_update_lock of the target unless the target
 * is the caller. Neither lock is held while waiting for the other one. A caller without
 * permission to open events of the present target gets the mutex alone, and
 * pfm_may_reopen() refuses. Before a load, the caller has asked pfm_may_open() already.
 *
 * Context: Process context. Sleeps. pfm_unlock_opening() drops the locks, and
 *          pfm_assert_opening() checks them.
 * Return: 0, or -EINTR if the caller was killed and no lock is held.
 */
int pfm_lock_opening(struct pfm_context *ctx, struct task_struct *load,
		     struct task_struct **creds)
{
	struct task_struct *task;
	int ret;

	for (;;) {
		*creds = NULL;
		ret = pfm_lock(ctx);
		if (ret)
			return ret;
		ctx->refusal = 0;
		task = load ?: ctx->task;
		if (!task || task == current)
			return 0;
		if (!load)
			ctx->refusal = pfm_may_open(ctx, task);
		if (ctx->refusal)
			return 0;

		get_task_struct(task);
		if (down_read_trylock(&task->signal->exec_update_lock)) {
			*creds = task;
			return 0;
		}
		mutex_unlock(&ctx->mutex);
		ret = down_read_killable(&task->signal->exec_update_lock);
		if (!ret)
			up_read(&task->signal->exec_update_lock);
		put_task_struct(task);
		if (ret)
			return ret;
	}
}

/**
 * pfm_unlock_opening() - Drop the locks of pfm_lock_opening()
 * @ctx:	The context
 * @creds:	Thread that pfm_lock_opening() returned
 *
 * Context: Process context.
 */
void pfm_unlock_opening(struct pfm_context *ctx, struct task_struct *creds)
{
	mutex_unlock(&ctx->mutex);
	if (!creds)
		return;
	up_read(&creds->signal->exec_update_lock);
	put_task_struct(creds);
}
