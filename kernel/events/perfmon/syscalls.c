// SPDX-License-Identifier: GPL-2.0
/*
 * The twelve system calls.
 *
 * What is wrong is told in this order, whatever else is wrong: the count, the
 * descriptor, the size of the vector, its memory, the state of the context, its
 * elements. A vector is copied back even if the call fails, because its flags
 * tell why.
 *
 * Arguments are pointers and ints, and structures have one layout, so 32-bit
 * programs need no wrappers.
 */
#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/file.h>
#include <linux/pid_namespace.h>
#include <linux/ptrace.h>
#include <linux/security.h>
#include <linux/slab.h>
#include <linux/syscalls.h>

#include "internal.h"

/* Vectors up to this live on the stack: what is done often is to be cheap. */
#define PFM_STACK_REGS	8

#define PFM_CALL_FLAGS	(PFM_FL_NOTIFY_BLOCK | PFM_FL_SYSTEM_WIDE | \
			 PFM_FL_OVFL_NO_MSG | PFM_FL_REMOTE)

DEFINE_CLASS(pfm_fd, struct fd, fdput(_T),
	     ({
		struct fd f = fdget(fd);

		if (!fd_empty(f) && !pfm_ctx_of_file(fd_file(f))) {
			fdput(f);
			f = EMPTY_FD;
		}
		f;
	     }), int fd)

DEFINE_GUARD(pfm, struct pfm_context *, pfm_lock(_T), mutex_unlock(&_T->mutex))

static struct pfm_context *pfm_ctx(struct fd f)
{
	return fd_file(f)->private_data;
}

static bool pfm_in_group(int gid)
{
	return gid < 0 || in_egroup_p(make_kgid(&init_user_ns, gid)) || capable(CAP_SYS_ADMIN);
}

static int pfm_may_create(u32 flags)
{
	int ret;

	ret = security_perf_event_open(PERF_SECURITY_OPEN);
	if (ret)
		return ret;
	if (!(flags & PFM_FL_SYSTEM_WIDE))
		return pfm_in_group(READ_ONCE(pfm_task_group)) ? 0 : -EPERM;
	if (!pfm_in_group(READ_ONCE(pfm_sys_group)))
		return -EPERM;
	return perf_allow_cpu();
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

static int pfm_install(struct pfm_context *ctx, struct pfarg_ctx *req,
		       struct pfarg_ctx __user *ureq)
{
	struct file *file;
	int fd;

	fd = get_unused_fd_flags(0);
	if (fd < 0)
		return fd;

	file = pfm_ctx_file(ctx);
	if (IS_ERR(file)) {
		put_unused_fd(fd);
		return PTR_ERR(file);
	}

	/* Nobody has seen the descriptor yet, so this can still fail. */
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
	struct pfarg_ctx req;
	int ret;

	if (copy_from_user(&req, ureq, sizeof(req)))
		return -EFAULT;
	if ((req.ctx_flags & ~PFM_CALL_FLAGS) || req.ctx_rsvd ||
	    memchr_inv(req.ctx_reserved, 0, sizeof(req.ctx_reserved)))
		return -EINVAL;
	if ((req.ctx_flags & PFM_FL_NOTIFY_BLOCK) && (req.ctx_flags & PFM_FL_SYSTEM_WIDE))
		return -EINVAL;
	ret = pfm_get_format(fmt, uarg, size, &arg);
	if (ret)
		return ret;
	ret = pfm_may_create(req.ctx_flags);
	if (ret)
		return ret;

	ctx = pfm_ctx_create(req.ctx_flags, req.ctx_pmu_type);
	if (IS_ERR(ctx))
		return PTR_ERR(ctx);
	ret = fmt ? pfm_smpl_create(ctx, &arg) : 0;
	if (!ret)
		ret = pfm_install(ctx, &req, ureq);
	if (ret < 0)
		pfm_ctx_put(ctx);
	return ret;
}

/* Can the caller rely on the target standing still? */
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
 * struct pfm_vec - what a call that takes a vector does
 * @size:	of an element
 * @unloaded:	the context must be unloaded
 * @any_state:	the target need not stand still
 * @func:	the call, with the vector in the memory of the kernel
 */
struct pfm_vec {
	size_t		size;
	bool		unloaded;
	bool		any_state;
	int		(*func)(struct pfm_context *ctx, void *vec, int n);
};

static const struct pfm_vec pfm_call_write_pmcs = {
	.size		= sizeof(struct pfarg_pmc),
	.func		= pfm_pmcs_write,
};

static const struct pfm_vec pfm_call_write_pmds = {
	.size		= sizeof(struct pfarg_pmd),
	.func		= pfm_pmds_write,
};

static const struct pfm_vec pfm_call_create_evtsets = {
	.size		= sizeof(struct pfarg_setdesc),
	.unloaded	= true,
	.func		= pfm_sets_create,
};

static const struct pfm_vec pfm_call_getinfo_evtsets = {
	.size		= sizeof(struct pfarg_setinfo),
	.any_state	= true,
	.func		= pfm_sets_getinfo,
};

static const struct pfm_vec pfm_call_delete_evtsets = {
	.size		= sizeof(struct pfarg_setdesc),
	.unloaded	= true,
	.func		= pfm_sets_delete,
};

static int pfm_vec_call(struct pfm_context *ctx, const struct pfm_vec *call,
			void *vec, int n)
{
	int ret = 0;

	guard(pfm)(ctx);
	if (call->unloaded)
		ret = pfm_check_unloaded(ctx);
	else if (!call->any_state)
		ret = pfm_check_stopped(ctx, false);
	return ret ?: call->func(ctx, vec, n);
}

static int pfm_vec(int fd, void __user *uvec, int n, const struct pfm_vec *call)
{
	/* Zeroing it would cost more than the rest of a short call. */
	struct pfarg_pmd stack[PFM_STACK_REGS] __uninitialized;
	void *vec = stack;
	size_t size;
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
		ret = pfm_vec_call(pfm_ctx(f), call, vec, n);
		if (copy_to_user(uvec, vec, size))
			ret = -EFAULT;
	}
	if (vec != stack)
		kfree(vec);
	return ret;
}

SYSCALL_DEFINE3(pfm_write_pmcs, int, fd, struct pfarg_pmc __user *, vec, int, n)
{
	return pfm_vec(fd, vec, n, &pfm_call_write_pmcs);
}

SYSCALL_DEFINE3(pfm_write_pmds, int, fd, struct pfarg_pmd __user *, vec, int, n)
{
	return pfm_vec(fd, vec, n, &pfm_call_write_pmds);
}

SYSCALL_DEFINE3(pfm_create_evtsets, int, fd, struct pfarg_setdesc __user *, vec, int, n)
{
	return pfm_vec(fd, vec, n, &pfm_call_create_evtsets);
}

SYSCALL_DEFINE3(pfm_getinfo_evtsets, int, fd, struct pfarg_setinfo __user *, vec, int, n)
{
	return pfm_vec(fd, vec, n, &pfm_call_getinfo_evtsets);
}

SYSCALL_DEFINE3(pfm_delete_evtsets, int, fd, struct pfarg_setdesc __user *, vec, int, n)
{
	return pfm_vec(fd, vec, n, &pfm_call_delete_evtsets);
}

/*
 * Reading is what is done most, and most of an element is of no use for it: only
 * what it needs is copied.
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

/* Those before the one that is flagged have been read, and have all of their values. */
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

	scoped_guard(pfm, ctx) {
		ret = pfm_check_stopped(ctx, false);
		if (ret)
			return ret;
		ret = pfm_pmds_read(ctx, vals, n);
	}
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
	int ret;

	if (req->load_pid >= nr_cpu_ids || !cpu_possible(req->load_pid))
		return -EINVAL;

	guard(pfm)(ctx);
	ret = pfm_check_unloaded(ctx);
	if (ret)
		return ret;
	if (!(ctx->flags & PFM_FL_REMOTE) && req->load_pid != raw_smp_processor_id())
		return -EINVAL;
	ret = perf_allow_cpu();
	return ret ?: pfm_load(ctx, NULL, req->load_pid, req->load_set);
}

static int pfm_load_allowed(struct pfm_context *ctx, struct task_struct *task)
{
	int ret;

	ret = pfm_check_unloaded(ctx);
	if (ret)
		return ret;
	if (task == current)
		return ctx->flags & PFM_FL_NOTIFY_BLOCK ? -EINVAL : 0;
	/* This one is for life, the others change. */
	if (data_race(task->flags) & PF_KTHREAD)
		return -EPERM;
	/* To make it wait is more than to look at it. */
	if (!ptrace_may_access(task, ctx->flags & PFM_FL_NOTIFY_BLOCK ?
				     PTRACE_MODE_ATTACH_REALCREDS :
				     PTRACE_MODE_READ_REALCREDS))
		return -EPERM;
	if ((READ_ONCE(task->flags) & PF_EXITING) || READ_ONCE(task->exit_state))
		return -EBUSY;
	if (!(ctx->flags & PFM_FL_REMOTE) && !pfm_target_traced(task))
		return -ESRCH;
	return 0;
}

static int pfm_load_task(struct pfm_context *ctx, const struct pfarg_load *req)
{
	struct task_struct *task;
	int ret;

	task = find_get_task_by_vpid(req->load_pid);
	if (!task)
		return -ESRCH;

	/* The credentials of the target stay what they were when checked. */
	ret = down_read_killable(&task->signal->exec_update_lock);
	if (ret)
		goto put;
	pfm_lock(ctx);
	ret = pfm_load_allowed(ctx, task);
	if (!ret)
		ret = pfm_load(ctx, task, -1, req->load_set);
	mutex_unlock(&ctx->mutex);
	up_read(&task->signal->exec_update_lock);
put:
	put_task_struct(task);
	return ret;
}

SYSCALL_DEFINE2(pfm_load_context, int, fd, struct pfarg_load __user *, ureq)
{
	struct pfm_context *ctx;
	struct pfarg_load req;

	CLASS(pfm_fd, f)(fd);
	if (fd_empty(f))
		return -EBADF;
	if (copy_from_user(&req, ureq, sizeof(req)))
		return -EFAULT;
	if (req.reserved1 || memchr_inv(req.reserved2, 0, sizeof(req.reserved2)))
		return -EINVAL;

	ctx = pfm_ctx(f);
	if (ctx->flags & PFM_FL_SYSTEM_WIDE)
		return pfm_load_cpu(ctx, &req);
	return pfm_load_task(ctx, &req);
}

SYSCALL_DEFINE2(pfm_start, int, fd, struct pfarg_start __user *, ureq)
{
	struct pfarg_start req = { };
	struct pfm_set *set = NULL;
	struct pfm_context *ctx;
	int ret;

	CLASS(pfm_fd, f)(fd);
	if (fd_empty(f))
		return -EBADF;
	if (ureq && copy_from_user(&req, ureq, sizeof(req)))
		return -EFAULT;
	if (req.reserved1 || req.reserved2 ||
	    memchr_inv(req.reserved3, 0, sizeof(req.reserved3)))
		return -EINVAL;

	ctx = pfm_ctx(f);
	guard(pfm)(ctx);
	if (pfm_state(ctx) == PFM_UNLOADED)
		return -EINVAL;
	ret = pfm_check_stopped(ctx, false);
	if (ret)
		return ret;
	if (ureq) {
		set = pfm_set_find(ctx, req.start_set);
		if (!set)
			return -EINVAL;
	}
	return pfm_start(ctx, set);
}

SYSCALL_DEFINE1(pfm_stop, int, fd)
{
	struct pfm_context *ctx;
	int ret;

	CLASS(pfm_fd, f)(fd);
	if (fd_empty(f))
		return -EBADF;

	ctx = pfm_ctx(f);
	guard(pfm)(ctx);
	if (pfm_state(ctx) == PFM_UNLOADED)
		return -EINVAL;
	ret = pfm_check_stopped(ctx, false);
	return ret ?: pfm_stop(ctx);
}

SYSCALL_DEFINE1(pfm_restart, int, fd)
{
	struct pfm_context *ctx;

	CLASS(pfm_fd, f)(fd);
	if (fd_empty(f))
		return -EBADF;

	ctx = pfm_ctx(f);
	guard(pfm)(ctx);
	if (pfm_state(ctx) == PFM_UNLOADED)
		return -EBUSY;
	if (!ctx->task && !(ctx->flags & PFM_FL_REMOTE) &&
	    ctx->cpu != raw_smp_processor_id())
		return -EBUSY;
	return pfm_restart(ctx);
}

SYSCALL_DEFINE1(pfm_unload_context, int, fd)
{
	struct pfm_context *ctx;
	int ret;

	CLASS(pfm_fd, f)(fd);
	if (fd_empty(f))
		return -EBADF;

	ctx = pfm_ctx(f);
	guard(pfm)(ctx);
	ret = pfm_check_stopped(ctx, true);
	if (!ret)
		pfm_unload(ctx);
	return ret;
}
