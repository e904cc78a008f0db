// SPDX-License-Identifier: GPL-2.0
/*
 * Permission: all checks of what a caller may do.
 *
 *   pfm_may_create()	May the caller have a context of this kind?
 *   pfm_may_open()	May the caller open events, on this target? Asked when a
 *			context is created, when it is loaded, and when the events of
 *			a set are created anew, because the target, the caller and
 *			kernel.perf_event_paranoid may have changed since.
 *   pfm_may_reopen()	The same, where events of the present target are created.
 *   pfm_may_read()	May values leave? Asked for each call that returns or maps them.
 *   pfm_may_write()	May the context be changed? Asked for each other call.
 *
 * Whether an event may count the kernel depends on the event: pfm_reg_attr() asks
 * perf_allow_kernel().
 *
 * A descriptor may be passed to other programs, so each check is about the present
 * caller. Security modules identify a perf event by the label that it got when it was
 * opened. A context keeps the label of its creator until it is closed, because its
 * values outlive its events.
 *
 * Locking: the answer of pfm_may_open() holds as long as the lock of the target's
 * credentials is held, see lock.c.
 */
#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/ptrace.h>
#include <linux/sched/signal.h>
#include <linux/security.h>
#include <linux/slab.h>

#include "internal.h"

int pfm_sys_group = -1;
int pfm_task_group = -1;

/**
 * pfm_label_create() - Label a context for security modules
 * @ctx:	The context, not yet known to others
 *
 * The hooks of security modules take an event, and use nothing but its label.
 *
 * Context: As pfm_mem_charge(). The label is that of the current task.
 * Return: 0, -ENOMEM, or an error of a security module.
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
 * Context: As pfm_mem_uncharge().
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
 * pfm_may_create() - Check that the caller may create a context
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
 * pfm_can_block() - Tell whether a thread returns to user mode and can be blocked
 * @task:	The thread
 *
 * The threads of io_uring and of vhost belong to a process and can be counted, but
 * never leave the kernel. If they waited, requests of other threads would stall.
 *
 * Context: Any.
 * Return: Whether it can be blocked.
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
	/* Blocking a thread needs more permission than reading its counts. */
	return ptrace_may_access(task, block ? PTRACE_MODE_ATTACH_REALCREDS :
					       PTRACE_MODE_READ_REALCREDS) ? 0 : -EPERM;
}

/**
 * pfm_may_open() - Check that the caller may open the events of a context
 * @ctx:	The context
 * @task:	Thread that they count, NULL for a CPU or without a target
 *
 * The checks are those of perf_event_open(2), in the same order. Some distributions
 * have levels of kernel.perf_event_paranoid above 2, at which only the administrator
 * may open events.
 *
 * Context: Process context. The answer holds as long as the exec_update_lock of @task
 *          is held, see pfm_lock_opening().
 * Return: 0, -EACCES, -EPERM, or an error of a security module.
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
 * pfm_may_reopen() - Check that the caller may open events on the present target
 * @ctx:	The context
 *
 * Context: Locked by pfm_lock_opening().
 * Return: As pfm_may_open().
 */
int pfm_may_reopen(const struct pfm_context *ctx)
{
	pfm_assert_opening(ctx, ctx->task);

	return ctx->refusal ?: pfm_may_open(ctx, ctx->task);
}

/**
 * pfm_may_read() - Check that the caller may read values of a context
 * @ctx:	The context
 *
 * Context: Process context.
 * Return: 0 or an error of a security module.
 */
int pfm_may_read(const struct pfm_context *ctx)
{
	return security_perf_event_read(ctx->label);
}

/**
 * pfm_may_write() - Check that the caller may change a context
 * @ctx:	The context
 *
 * Context: Process context.
 * Return: 0 or an error of a security module.
 */
int pfm_may_write(const struct pfm_context *ctx)
{
	return security_perf_event_write(ctx->label);
}
