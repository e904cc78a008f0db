// SPDX-License-Identifier: GPL-2.0
/*
 * The twelve system calls.
 *
 * Arguments are checked in a fixed order: the count, the descriptor, the size of the
 * vector, its memory, the state of the context, its elements. An input vector is only
 * copied back if an element is flagged, so that it may be constant otherwise.
 *
 * Arguments are pointers and ints, and structures have one layout, so 32-bit
 * programs need no wrappers.
 */
#include <linux/file.h>
#include <linux/nospec.h>
#include <linux/pid_namespace.h>
#include <linux/ptrace.h>
#include <linux/slab.h>
#include <linux/syscalls.h>

#include "internal.h"

/* Short vectors are on the stack, because frequent calls have to be cheap. */
#define PFM_STACK_REGS	8

/* Written by compat.c: new contexts are for programs for perfmon 2.8. */
bool pfm_compat;

/*
 * This bounds work that is done with interrupts off, so it must not depend on the page
 * size.
 */
unsigned int pfm_arg_mem_max = SZ_4K;

#define PFM_CALL_FLAGS	(PFM_FL_NOTIFY_BLOCK | PFM_FL_SYSTEM_WIDE | \
			 PFM_FL_OVFL_NO_MSG | PFM_FL_REMOTE | PFM_FL_CLOEXEC)

DEFINE_CLASS(pfm_fd, struct fd, fdput(_T),
	     ({
		struct fd f = fdget(fd);

		if (!fd_empty(f) && !pfm_ctx_of_file(fd_file(f))) {
			fdput(f);
			f = EMPTY_FD;
		}
		f;
	     }), int fd)

/* Lock the context. Return NULL if the caller was killed while waiting. */
static struct pfm_context *pfm_lock_or_null(struct pfm_context *ctx)
{
	return pfm_lock(ctx) ? NULL : ctx;
}

static void pfm_unlock(struct pfm_context *locked)
{
	if (locked)
		mutex_unlock(&locked->mutex);
}

DEFINE_CLASS(pfm_locked, struct pfm_context *, pfm_unlock(_T), pfm_lock_or_null(ctx),
	     struct pfm_context *ctx)

static struct pfm_context *pfm_ctx(struct fd f)
{
	return fd_file(f)->private_data;
}

static int pfm_get_format(const char __user *fmt, const void __user *uarg, size_t size,
			  struct pfm_dfl_smpl_arg *arg)
{
	char name[16];
	long len;

	if (!fmt)
		return uarg || size ? -EINVAL : 0;

	len = strncpy_from_user(name, fmt, sizeof(name));
	if (len < 0)
		return len;
	if (len == sizeof(name) || strcmp(name, "default") || size != sizeof(*arg))
		return -EINVAL;
	return copy_from_user(arg, uarg, sizeof(*arg)) ? -EFAULT : 0;
}

static int pfm_ctx_install_fd(struct pfm_context *ctx, struct pfarg_ctx *req,
			      struct pfarg_ctx __user *ureq)
{
	struct file *file;
	int fd;

	fd = get_unused_fd_flags(ctx->flags & PFM_FL_CLOEXEC ? O_CLOEXEC : 0);
	if (fd < 0)
		return fd;

	file = pfm_ctx_file(ctx);
	if (IS_ERR(file)) {
		put_unused_fd(fd);
		return PTR_ERR(file);
	}

	/* The descriptor is not installed yet, so this can still fail. */
	req->ctx_fd = fd;
	if (copy_to_user(ureq, req, sizeof(*req))) {
		put_unused_fd(fd);
		refcount_inc(&ctx->ref);
		fput(file);
		return -EFAULT;
	}
	fd_install(fd, file);
	return fd;
}

SYSCALL_DEFINE4(pfm_create_context, struct pfarg_ctx __user *, ureq,
		const char __user *, fmt, void __user *, uarg, size_t, size)
{
	struct pfm_dfl_smpl_arg arg;
	struct pfm_context *ctx;
	bool compat = READ_ONCE(pfm_compat);
	struct pfarg_ctx req;
	int ret;

	if (copy_from_user(&req, ureq, sizeof(req)))
		return -EFAULT;
	if (req.ctx_flags & ~PFM_CALL_FLAGS)
		return -EINVAL;
	if (!compat &&
	    (req.ctx_rsvd || memchr_inv(req.ctx_reserved, 0, sizeof(req.ctx_reserved))))
		return -EINVAL;
	if ((req.ctx_flags & PFM_FL_NOTIFY_BLOCK) && (req.ctx_flags & PFM_FL_SYSTEM_WIDE))
		return -EINVAL;
	ret = pfm_get_format(fmt, uarg, size, &arg);
	if (ret)
		return ret;

	ctx = pfm_ctx_create(req.ctx_flags, req.ctx_pmu_type, compat);
	if (IS_ERR(ctx))
		return PTR_ERR(ctx);
	ret = pfm_may_create(ctx);
	if (!ret && fmt)
		ret = pfm_smpl_create(ctx, &arg);
	if (!ret)
		ret = pfm_ctx_install_fd(ctx, &req, ureq);
	if (ret < 0)
		pfm_ctx_put(ctx);
	return ret;
}

/* Tell whether the caller traces the target and has stopped it. */
static bool pfm_target_traced(struct task_struct *task)
{
	bool ret;

	read_lock(&tasklist_lock);
	ret = task->ptrace && task->parent == current && task_is_traced(task);
	read_unlock(&tasklist_lock);
	return ret;
}

static int pfm_check_stopped(struct pfm_context *ctx, bool masked_too)
{
	if (pfm_state(ctx) == PFM_UNLOADED || ctx->task == current ||
	    (ctx->flags & PFM_FL_REMOTE))
		return 0;
	if (!ctx->task)
		return ctx->cpu == raw_smp_processor_id() ? 0 : -EBUSY;
	if (pfm_state(ctx) == PFM_MASKED && !masked_too)
		return 0;
	return pfm_target_traced(ctx->task) ? 0 : -ESRCH;
}

static int pfm_check_unloaded(struct pfm_context *ctx)
{
	return pfm_state(ctx) == PFM_UNLOADED ? 0 : -EBUSY;
}

/**
 * struct pfm_vec - description of a call that takes a vector
 */
struct pfm_vec {
	/** @size: size of an element */
	size_t		size;
	/** @unloaded: the call needs an unloaded context */
	bool		unloaded;
	/** @any_state: the call does not need the target to be stopped */
	bool		any_state;
	/** @opens: the call may open events */
	bool		opens;
	/** @answers: the call returns results in the elements, not only flags */
	bool		answers;
	/** @may: permission check */
	int		(*may)(const struct pfm_context *ctx);
	/** @func: implementation, with the vector in kernel memory */
	int		(*func)(struct pfm_context *ctx, void *vec, int n);
};

static const struct pfm_vec pfm_call_write_pmcs = {
	.size		= sizeof(struct pfarg_pmc),
	.opens		= true,
	.may		= pfm_may_write,
	.func		= pfm_pmcs_write,
};

static const struct pfm_vec pfm_call_write_pmds = {
	.size		= sizeof(struct pfarg_pmd),
	.opens		= true,
	.may		= pfm_may_write,
	.func		= pfm_pmds_write,
};

static const struct pfm_vec pfm_call_create_evtsets = {
	.size		= sizeof(struct pfarg_setdesc),
	.answers	= true,
	.unloaded	= true,
	.may		= pfm_may_write,
	.func		= pfm_sets_create,
};

static const struct pfm_vec pfm_call_getinfo_evtsets = {
	.size		= sizeof(struct pfarg_setinfo),
	.answers	= true,
	.any_state	= true,
	.may		= pfm_may_read,
	.func		= pfm_sets_getinfo,
};

static const struct pfm_vec pfm_call_delete_evtsets = {
	.size		= sizeof(struct pfarg_setdesc),
	.unloaded	= true,
	.may		= pfm_may_write,
	.func		= pfm_sets_delete,
};

static int pfm_vec_call(struct pfm_context *ctx, const struct pfm_vec *call,
			void *vec, int n)
{
	struct task_struct *creds = NULL;
	int ret;

	ret = call->may(ctx);
	if (!ret)
		ret = call->opens ? pfm_lock_opening(ctx, NULL, &creds) : pfm_lock(ctx);
	if (ret)
		return ret;
	if (call->unloaded)
		ret = pfm_check_unloaded(ctx);
	else if (!call->any_state)
		ret = pfm_check_stopped(ctx, false);
	if (!ret)
		ret = call->func(ctx, vec, n);
	pfm_unlock_opening(ctx, creds);
	return ret;
}

/* Both kinds of registers have their flags at the same offset. */
static_assert(offsetof(struct pfarg_pmc, reg_flags) == offsetof(struct pfarg_pmd, reg_flags));

static bool pfm_vec_flagged(const void *vec, int n, const struct pfm_vec *call)
{
	u32 flags = 0;

	if (!call->opens)
		return false;
	for (; n; n--, vec += call->size)
		flags |= ((const struct pfarg_pmc *)vec)->reg_flags;
	return flags & PFM_REGFL_RETFL_MASK;
}

static int pfm_vec_syscall(int fd, void __user *uvec, int n, const struct pfm_vec *call)
{
	/* Do not zero the array: that would cost more than the rest of a short call. */
	struct pfarg_pmd stack[PFM_STACK_REGS] __uninitialized;
	void *vec = stack;
	size_t size;
	bool back;
	int ret;

	if (n < 0 || n >= INT_MAX / call->size)
		return -EINVAL;
	CLASS(pfm_fd, f)(fd);
	if (fd_empty(f))
		return -EBADF;
	if (!n)
		return 0;

	size = n * call->size;
	if (size > READ_ONCE(pfm_arg_mem_max))
		return -E2BIG;
	if (size > sizeof(stack))
		vec = kmalloc(size, GFP_KERNEL);
	if (!vec)
		return -ENOMEM;

	ret = -EFAULT;
	if (!copy_from_user(vec, uvec, size)) {
		back = call->answers || pfm_vec_flagged(vec, n, call);
		ret = pfm_vec_call(pfm_ctx(f), call, vec, n);
		back |= pfm_vec_flagged(vec, n, call);
		if (back && copy_to_user(uvec, vec, size))
			ret = ret ?: -EFAULT;
	}
	if (vec != stack)
		kfree(vec);
	return ret;
}

SYSCALL_DEFINE3(pfm_write_pmcs, int, fd, struct pfarg_pmc __user *, vec, int, n)
{
	return pfm_vec_syscall(fd, vec, n, &pfm_call_write_pmcs);
}

SYSCALL_DEFINE3(pfm_write_pmds, int, fd, struct pfarg_pmd __user *, vec, int, n)
{
	return pfm_vec_syscall(fd, vec, n, &pfm_call_write_pmds);
}

SYSCALL_DEFINE3(pfm_create_evtsets, int, fd, struct pfarg_setdesc __user *, vec, int, n)
{
	return pfm_vec_syscall(fd, vec, n, &pfm_call_create_evtsets);
}

SYSCALL_DEFINE3(pfm_getinfo_evtsets, int, fd, struct pfarg_setinfo __user *, vec, int, n)
{
	return pfm_vec_syscall(fd, vec, n, &pfm_call_getinfo_evtsets);
}

SYSCALL_DEFINE3(pfm_delete_evtsets, int, fd, struct pfarg_setdesc __user *, vec, int, n)
{
	return pfm_vec_syscall(fd, vec, n, &pfm_call_delete_evtsets);
}

/*
 * Copy the fields that a read needs. Reads are the most frequent calls, so the other fields
 * are not copied.
 */
static int pfm_vals_get(struct pfm_pmd_val *vals, const struct pfarg_pmd __user *uvec, int n)
{
	int i;

	if (!user_read_access_begin(uvec, n * sizeof(*uvec)))
		return -EFAULT;
	for (i = 0; i < n; i++) {
		unsafe_get_user(vals[i].num, &uvec[i].reg_num, fault);
		unsafe_get_user(vals[i].set, &uvec[i].reg_set, fault);
		unsafe_get_user(vals[i].flags, &uvec[i].reg_flags, fault);
	}
	user_read_access_end();
	return 0;
fault:
	user_read_access_end();
	return -EFAULT;
}

/* Copy the results, up to the element that is flagged. Elements after it were not read. */
static int pfm_vals_put(const struct pfm_pmd_val *vals, struct pfarg_pmd __user *uvec, int n)
{
	int i;

	if (!user_write_access_begin(uvec, n * sizeof(*uvec)))
		return -EFAULT;
	for (i = 0; i < n; i++) {
		unsafe_put_user(vals[i].flags, &uvec[i].reg_flags, fault);
		if (vals[i].flags & PFM_REGFL_RETFL_MASK)
			break;
		unsafe_put_user(vals[i].value, &uvec[i].reg_value, fault);
		unsafe_put_user(vals[i].last_reset, &uvec[i].reg_last_reset_val, fault);
		unsafe_put_user(vals[i].left, &uvec[i].reg_ovfl_switch_cnt, fault);
	}
	user_write_access_end();
	return 0;
fault:
	user_write_access_end();
	return -EFAULT;
}

static int pfm_vals_read(struct pfm_context *ctx, struct pfm_pmd_val *vals,
			 struct pfarg_pmd __user *uvec, int n)
{
	int ret;

	ret = pfm_may_read(ctx) ?: pfm_lock(ctx);
	if (ret)
		return ret;
	ret = pfm_check_stopped(ctx, false);
	if (ret) {
		mutex_unlock(&ctx->mutex);
		return ret;
	}
	ret = pfm_pmds_read(ctx, vals, n);
	mutex_unlock(&ctx->mutex);
	return pfm_vals_put(vals, uvec, n) ?: ret;
}

SYSCALL_DEFINE3(pfm_read_pmds, int, fd, struct pfarg_pmd __user *, vec, int, n)
{
	struct pfm_pmd_val stack[PFM_STACK_REGS] __uninitialized;
	struct pfm_pmd_val *vals = stack;
	int ret;

	if (n < 0 || n >= INT_MAX / sizeof(*vec))
		return -EINVAL;
	CLASS(pfm_fd, f)(fd);
	if (fd_empty(f))
		return -EBADF;
	if (!n)
		return 0;

	if (n * sizeof(*vec) > READ_ONCE(pfm_arg_mem_max))
		return -E2BIG;
	if (n > ARRAY_SIZE(stack))
		vals = kmalloc_array(n, sizeof(*vals), GFP_KERNEL);
	if (!vals)
		return -ENOMEM;
	ret = pfm_vals_get(vals, vec, n) ?: pfm_vals_read(pfm_ctx(f), vals, vec, n);
	if (vals != stack)
		kfree(vals);
	return ret;
}

static int pfm_load_cpu(struct pfm_context *ctx, const struct pfarg_load *req)
{
	u32 cpu = req->load_pid;
	int ret;

	if (cpu >= nr_cpu_ids)
		return -EINVAL;
	cpu = array_index_nospec(cpu, nr_cpu_ids);
	if (!cpu_possible(cpu))
		return -EINVAL;

	CLASS(pfm_locked, locked)(ctx);
	if (!locked)
		return -EINTR;
	ret = pfm_check_unloaded(ctx);
	if (ret)
		return ret;
	if (!(ctx->flags & PFM_FL_REMOTE) && cpu != raw_smp_processor_id())
		return -EINVAL;
	ret = pfm_may_open(ctx, NULL);
	return ret ?: pfm_load(ctx, NULL, cpu, req->load_set);
}

static int pfm_load_allowed(struct pfm_context *ctx, struct task_struct *task)
{
	int ret;

	ret = pfm_check_unloaded(ctx);
	if (ret)
		return ret;
	if (task == current && (ctx->flags & PFM_FL_NOTIFY_BLOCK))
		return -EINVAL;
	ret = pfm_may_open(ctx, task);
	if (ret || task == current)
		return ret;
	if ((READ_ONCE(task->flags) & PF_EXITING) || READ_ONCE(task->exit_state))
		return -EBUSY;
	if (!(ctx->flags & PFM_FL_REMOTE) && !pfm_target_traced(task))
		return -ESRCH;
	return 0;
}

static int pfm_load_task(struct pfm_context *ctx, const struct pfarg_load *req)
{
	struct task_struct *task, *creds;
	int ret;

	task = find_get_task_by_vpid(req->load_pid);
	if (!task)
		return -ESRCH;

	/* Check permission before any lock of another user's process is taken. */
	ret = pfm_may_open(ctx, task);
	if (!ret)
		ret = pfm_lock_opening(ctx, task, &creds);
	if (ret)
		goto put;
	/* Check again, because the target may have changed its credentials before the lock. */
	ret = pfm_load_allowed(ctx, task);
	if (!ret)
		ret = pfm_load(ctx, task, -1, req->load_set);
	pfm_unlock_opening(ctx, creds);
put:
	put_task_struct(task);
	return ret;
}

SYSCALL_DEFINE2(pfm_load_context, int, fd, struct pfarg_load __user *, ureq)
{
	struct pfm_context *ctx;
	struct pfarg_load req;
	int ret;

	CLASS(pfm_fd, f)(fd);
	if (fd_empty(f))
		return -EBADF;
	if (copy_from_user(&req, ureq, sizeof(req)))
		return -EFAULT;
	ctx = pfm_ctx(f);
	if (!ctx->compat &&
	    (req.reserved1 || memchr_inv(req.reserved2, 0, sizeof(req.reserved2))))
		return -EINVAL;
	ret = pfm_may_write(ctx);
	if (ret)
		return ret;
	if (ctx->flags & PFM_FL_SYSTEM_WIDE)
		return pfm_load_cpu(ctx, &req);
	return pfm_load_task(ctx, &req);
}

static int pfm_start_locked(struct pfm_context *ctx, const struct pfarg_start *req)
{
	struct pfm_set *set = NULL;
	int ret;

	if (pfm_state(ctx) == PFM_UNLOADED)
		return -EINVAL;
	ret = pfm_check_stopped(ctx, false);
	if (ret)
		return ret;
	if (req) {
		set = pfm_set_find(ctx, req->start_set);
		if (!set)
			return -EINVAL;
	}
	ret = pfm_start(ctx, set);
	if (ret != -EBUSY || !ctx->compat)
		return ret;
	/* The context is stopped now, so no switch changes the active set. */
	return pfm_drop_stale(ctx, ctx->active) ?: pfm_start(ctx, set);
}

SYSCALL_DEFINE2(pfm_start, int, fd, struct pfarg_start __user *, ureq)
{
	struct task_struct *creds = NULL;
	struct pfarg_start req = { };
	struct pfm_context *ctx;
	int ret;

	CLASS(pfm_fd, f)(fd);
	if (fd_empty(f))
		return -EBADF;
	if (ureq && copy_from_user(&req, ureq, sizeof(req)))
		return -EFAULT;
	ctx = pfm_ctx(f);
	if (!ctx->compat && (req.reserved1 || req.reserved2 ||
			     memchr_inv(req.reserved3, 0, sizeof(req.reserved3))))
		return -EINVAL;
	ret = pfm_may_write(ctx);
	/* For a program for perfmon 2.8, events may have to be opened anew. */
	if (!ret)
		ret = ctx->compat ? pfm_lock_opening(ctx, NULL, &creds) : pfm_lock(ctx);
	if (ret)
		return ret;
	ret = pfm_start_locked(ctx, ureq ? &req : NULL);
	pfm_unlock_opening(ctx, creds);
	return ret;
}

/* Implementation of a call without arguments. Returns 0 or an error. */
typedef int (*pfm_control_func)(struct pfm_context *ctx);

static int pfm_control(int fd, pfm_control_func func)
{
	struct pfm_context *ctx;
	int ret;

	CLASS(pfm_fd, f)(fd);
	if (fd_empty(f))
		return -EBADF;

	ctx = pfm_ctx(f);
	ret = pfm_may_write(ctx) ?: pfm_lock(ctx);
	if (ret)
		return ret;
	ret = func(ctx);
	mutex_unlock(&ctx->mutex);
	return ret;
}

static int pfm_stop_locked(struct pfm_context *ctx)
{
	if (pfm_state(ctx) == PFM_UNLOADED)
		return -EINVAL;
	return pfm_check_stopped(ctx, false) ?: pfm_stop(ctx);
}

SYSCALL_DEFINE1(pfm_stop, int, fd)
{
	return pfm_control(fd, pfm_stop_locked);
}

static int pfm_restart_locked(struct pfm_context *ctx)
{
	if (pfm_state(ctx) == PFM_UNLOADED)
		return -EBUSY;
	if (!ctx->task && !(ctx->flags & PFM_FL_REMOTE) &&
	    ctx->cpu != raw_smp_processor_id())
		return -EBUSY;
	return pfm_restart(ctx);
}

SYSCALL_DEFINE1(pfm_restart, int, fd)
{
	return pfm_control(fd, pfm_restart_locked);
}

static int pfm_unload_locked(struct pfm_context *ctx)
{
	int ret = pfm_check_stopped(ctx, true);

	if (!ret)
		pfm_unload(ctx);
	return ret;
}

SYSCALL_DEFINE1(pfm_unload_context, int, fd)
{
	return pfm_control(fd, pfm_unload_locked);
}
