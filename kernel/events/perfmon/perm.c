// SPDX-License-Identifier: GPL-2.0
/*
 * Permission: each question about what a caller may do is asked here.
 *
 *   pfm_may_create()	May the caller have a context of this kind?
 *   pfm_may_open()	May the caller open events, on this target? Asked when a
 *			context is created, when it is loaded, and when the events of
 *			a set are created anew, because the target, the caller and
 *			kernel.perf_event_paranoid may have changed since.
 *   pfm_may_read()	May values leave? Asked for each call that returns or maps them.
 *   pfm_may_write()	May the context be changed? Asked for each other call.
 *
 * Whether an event may count the kernel depends on the event: pfm_reg_attr() asks
 * perf_allow_kernel().
 *
 * A descriptor travels to other programs, so each answer is about the caller of the
 * moment. Security modules know a perf event by the label that it got when it was
 * opened. A context has one label, that of its creator, from create to close: its
 * values outlive its events.
 *
 * Locking: the credentials of a target stay what they were when asked as long as the
 * signal_struct::exec_update_lock of the target is held. An exec holds that lock
 * while it waits for pfm_context::mutex, so it is the outer one. But a user can keep
 * the mutex locked for any time, by a page fault that takes that time. A process that
 * the caller may not trace must not wait for that: no lock of the target is touched
 * before pfm_may_open() has allowed it, and none is held while the caller waits for the
 * mutex. pfm_lock_opening() takes the mutex first and only tries the lock of the target.
 */
#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/ptrace.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/security.h>
#include <linux/slab.h>

#include "internal.h"

/**
 * pfm_label_create() - Label a context for security modules
 * @ctx:	The context, not yet known to others
 *
 * The hooks of security modules take an event, of which they look at the label.
 *
 * Context: Process context. The label is that of the current task.
 * Return: 0, -ENOMEM, or what the module says.
 */
int pfm_label_create(struct pfm_context *ctx)
{
	struct perf_event *label;
	int ret;

	if (!IS_ENABLED(CONFIG_SECURITY))
		return 0;

	ret = pfm_mem_charge(ctx, sizeof(*label));
	if (ret)
		return ret;
	label = kzalloc(sizeof(*label), GFP_KERNEL_ACCOUNT);
	ret = -ENOMEM;
	if (label) {
		label->attr.type = PERF_TYPE_SOFTWARE;
		label->attr.config = PERF_COUNT_SW_DUMMY;
		ret = security_perf_event_alloc(label);
	}
	if (ret) {
		kfree(label);
		pfm_mem_uncharge(ctx, sizeof(*label));
		return ret;
	}
	ctx->label = label;
	return 0;
}

/**
 * pfm_label_free() - Remove the label of a context
 * @ctx:	The context, no longer known to others
 *
 * Context: Process context.
 */
void pfm_label_free(struct pfm_context *ctx)
{
	if (!ctx->label)
		return;
	security_perf_event_free(ctx->label);
	kfree(ctx->label);
	pfm_mem_uncharge(ctx, sizeof(*ctx->label));
	ctx->label = NULL;
}

static bool pfm_in_group(int gid)
{
	return gid < 0 || in_egroup_p(make_kgid(&init_user_ns, gid)) || capable(CAP_SYS_ADMIN);
}

/**
 * pfm_may_create() - May the caller have such a context?
 * @ctx:	The context, not yet known to others
 *
 * Context: Process context.
 * Return: 0, -EPERM if the caller is not in the group, or as pfm_may_open().
 */
int pfm_may_create(const struct pfm_context *ctx)
{
	int gid = ctx->flags & PFM_FL_SYSTEM_WIDE ? READ_ONCE(pfm_sys_group) :
						     READ_ONCE(pfm_task_group);

	return pfm_in_group(gid) ? pfm_may_open(ctx, NULL) : -EPERM;
}

/**
 * pfm_can_block() - Does a thread return to user mode, where it can be blocked?
 * @task:	The thread
 *
 * The threads of io_uring and of vhost belong to a process, and may be counted, but
 * never leave the kernel. A wait there would stop the requests of other threads.
 *
 * Context: Any.
 * Return: Whether it does.
 */
bool pfm_can_block(const struct task_struct *task)
{
	/* These bits never change, others may, hence data_race(). */
	return !(data_race(task->flags) & (PF_KTHREAD | PF_USER_WORKER | PF_IO_WORKER));
}

static int pfm_may_attach(const struct pfm_context *ctx, struct task_struct *task)
{
	bool block = ctx->flags & PFM_FL_NOTIFY_BLOCK;

	/* PF_KTHREAD never changes, other bits of flags may, hence data_race(). */
	if (data_race(task->flags) & PF_KTHREAD)
		return -EPERM;
	if (block && !pfm_can_block(task))
		return -EPERM;
	/* To make a thread wait is more than to look at it. */
	return ptrace_may_access(task, block ? PTRACE_MODE_ATTACH_REALCREDS :
					       PTRACE_MODE_READ_REALCREDS) ? 0 : -EPERM;
}

/**
 * pfm_may_open() - May the caller open the events of a context?
 * @ctx:	The context
 * @task:	Thread that they count, NULL if there is none or it is a CPU
 *
 * Asks the questions of perf_event_open(2) in the same order. Distributions have
 * levels of kernel.perf_event_paranoid above 2, at which only the administrator may
 * open events.
 *
 * Context: Process context. The answer holds as long as the exec_update_lock of @task
 *          is held, see pfm_lock_opening().
 * Return: 0, -EACCES, -EPERM, or what a security module says.
 */
int pfm_may_open(const struct pfm_context *ctx, struct task_struct *task)
{
	int ret;

	if (sysctl_perf_event_paranoid > 2 && !capable(CAP_SYS_ADMIN))
		return -EACCES;
	ret = security_perf_event_open(PERF_SECURITY_OPEN);
	if (ret)
		return ret;
	if (ctx->flags & PFM_FL_SYSTEM_WIDE)
		return perf_allow_cpu();
	return task && task != current ? pfm_may_attach(ctx, task) : 0;
}

/**
 * pfm_may_read() - May values of a context go to the caller?
 * @ctx:	The context
 *
 * Context: Process context.
 * Return: 0 or what a security module says.
 */
int pfm_may_read(const struct pfm_context *ctx)
{
	return security_perf_event_read(ctx->label);
}

/**
 * pfm_may_write() - May the caller change a context?
 * @ctx:	The context
 *
 * Context: Process context.
 * Return: 0 or what a security module says.
 */
int pfm_may_write(const struct pfm_context *ctx)
{
	return security_perf_event_write(ctx->label);
}

/**
 * pfm_lock_opening() - Lock a context of which events may be opened
 * @ctx:	The context
 * @load:	Thread that it will be loaded on, NULL for the target that it has
 * @creds:	Receives the thread whose credentials are locked, or NULL
 *
 * Takes pfm_context::mutex, and the exec_update_lock of the target unless that is
 * the caller. Waits for either with none of them held.
 *
 * Context: Process context. Sleeps. pfm_unlock_opening() drops the locks.
 * Return: 0, or -EINTR if the caller was killed, and then no lock is held.
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
		task = load ?: ctx->task;
		if (!task || task == current)
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
 * pfm_unlock_opening() - Drop what pfm_lock_opening() has taken
 * @ctx:	The context
 * @creds:	As pfm_lock_opening() has set it
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
