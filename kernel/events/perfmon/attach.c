// SPDX-License-Identifier: GPL-2.0
/*
 * Attaching a context to a thread or to a CPU. It is detached by a system call, the
 * close of the descriptor, the exit of the thread, its exec of a program with other
 * privileges, or the CPU going offline.
 *
 * task_struct::pfm_ctx holds a reference to the context. The path that clears the
 * pointer owns the reference, so the exit of the thread may race with all other
 * paths.
 *
 * Locks, outermost first: signal_struct::exec_update_lock, pfm_context::mutex,
 * perf_event_context::mutex, pfm_cpu_lock, perf_event_context::lock,
 * pfm_context::lock. System calls only try the first one, with the second one held:
 * see pfm_lock_opening().
 */
#include <linux/cpu.h>
#include <linux/slab.h>

#include "internal.h"

atomic_t pfm_task_sessions = ATOMIC_INIT(0);
atomic_t pfm_cpu_sessions = ATOMIC_INIT(0);

/* Contexts that are loaded on a CPU, and the CPUs that accept no more contexts */
static LIST_HEAD(pfm_cpu_list);
static DEFINE_RAW_SPINLOCK(pfm_cpu_lock);
static cpumask_t pfm_cpu_dead;

static int pfm_target_get(struct pfm_context *ctx, struct task_struct *task, int cpu)
{
	if (task) {
		if (cmpxchg(&task->pfm_ctx, NULL, ctx))
			return -EEXIST;
		refcount_inc(&ctx->ref);
		ctx->task = get_task_struct(task);
		ctx->cpu = -1;
		atomic_inc(&pfm_task_sessions);
		return 0;
	}

	guard(raw_spinlock_irq)(&pfm_cpu_lock);
	if (!cpu_online(cpu) || cpumask_test_cpu(cpu, &pfm_cpu_dead))
		return -ENODEV;
	list_add_tail(&ctx->cpu_node, &pfm_cpu_list);
	ctx->cpu = cpu;
	ctx->dead = false;
	atomic_inc(&pfm_cpu_sessions);
	return 0;
}

static void pfm_target_put(struct pfm_context *ctx)
{
	struct task_struct *task = ctx->task;

	if (task) {
		ctx->task = NULL;
		atomic_dec(&pfm_task_sessions);
		/* The exit of the thread may have taken the reference first. */
		if (cmpxchg(&task->pfm_ctx, ctx, NULL) == ctx)
			pfm_ctx_put(ctx);
		put_task_struct(task);
		return;
	}

	raw_spin_lock_irq(&pfm_cpu_lock);
	list_del(&ctx->cpu_node);
	raw_spin_unlock_irq(&pfm_cpu_lock);
	ctx->cpu = -1;
	atomic_dec(&pfm_cpu_sessions);
}

static void pfm_forget_overflows(struct pfm_context *ctx)
{
	struct pfm_set *set;
	unsigned int num;

	ctx->pend = 0;
	ctx->post = 0;
	ctx->deferred = false;
	ctx->blocked = false;
	pfm_msg_clear(ctx);
	list_for_each_entry(set, &ctx->sets, node) {
		bitmap_zero(set->povfl, PFM_MAX_REGS);
		bitmap_zero(set->last_ovfl, PFM_MAX_REGS);
		bitmap_zero(set->reset_pend, PFM_MAX_REGS);
		bitmap_zero(set->late, PFM_MAX_REGS);
		bitmap_zero(set->retime, PFM_MAX_REGS);
		for_each_set_bit(num, set->used, PFM_MAX_REGS) {
			struct pfm_reg *reg = pfm_reg_at(set, num);

			reg->left = reg->switch_cnt;
		}
	}
}

static void pfm_forget_writes(struct pfm_context *ctx)
{
	struct pfm_set *set;
	unsigned int num;

	list_for_each_entry(set, &ctx->sets, node) {
		for_each_set_bit(num, set->used, PFM_MAX_REGS)
			pfm_reg_at(set, num)->written = false;
	}
}

/*
 * Disable registers that were not written since the last load. Return whether this
 * leaves fewer registers than before, but some.
 */
static bool pfm_refuse_stale(struct pfm_context *ctx)
{
	bool any = false, kept = false;
	struct pfm_set *set;
	unsigned int num;

	list_for_each_entry(set, &ctx->sets, node) {
		for_each_set_bit(num, set->used, PFM_MAX_REGS) {
			struct pfm_reg *reg = pfm_reg_at(set, num);

			reg->stale = !reg->written && !test_and_set_bit(num, set->refused);
			any |= reg->stale;
			kept |= reg->written;
		}
	}
	return any && kept;
}

/* Undo pfm_refuse_stale(). */
static void pfm_allow_stale(struct pfm_context *ctx)
{
	struct pfm_set *set;
	unsigned int num;

	list_for_each_entry(set, &ctx->sets, node) {
		for_each_set_bit(num, set->used, PFM_MAX_REGS) {
			struct pfm_reg *reg = pfm_reg_at(set, num);

			if (reg->stale)
				clear_bit(num, set->refused);
			reg->stale = false;
		}
	}
}

/*
 * A program for perfmon 2.8 that loads a context again writes the registers that it
 * wants and ignores the registers of the last load, each of which had a hardware
 * register of its own. Here they could occupy the counters that the new registers need.
 */
static int pfm_groups_load(struct pfm_context *ctx)
{
	int ret = pfm_groups_create(ctx);

	if (ret != -EINVAL || !ctx->compat)
		return ret;
	if (pfm_refuse_stale(ctx))
		ret = pfm_groups_create(ctx);
	if (ret)
		pfm_allow_stale(ctx);
	return ret;
}

/* Mark the context as loaded, unless its CPU went offline: the hotplug callback has run. */
static bool pfm_loaded(struct pfm_context *ctx)
{
	guard(raw_spinlock_irq)(&pfm_cpu_lock);
	if (ctx->dead && !ctx->task)
		return false;
	WRITE_ONCE(ctx->state, PFM_LOADED);
	return true;
}

/**
 * pfm_load() - Attach a context
 * @ctx:	The context, not loaded
 * @task:	Thread to attach it to, NULL for a CPU
 * @cpu:	CPU to attach it to if @task is NULL
 * @id:		Set to activate
 *
 * Context: Locked by pfm_lock_opening(). Sleeps.
 * Return: 0, or -EINVAL, -EEXIST, -ENODEV, -E2BIG, -ESRCH, -EACCES, -ENOMEM and
 *         nothing has changed.
 */
int pfm_load(struct pfm_context *ctx, struct task_struct *task, int cpu, u16 id)
{
	struct pfm_set *set = pfm_set_find(ctx, id);
	int ret;

	lockdep_assert_held(&ctx->mutex);
	if (!set)
		return -EINVAL;
	ret = pfm_sets_resolve(ctx);
	if (ret)
		return ret;
	ret = pfm_target_get(ctx, task, cpu);
	if (ret)
		return ret;

	ret = pfm_groups_load(ctx);
	if (ret) {
		pfm_target_put(ctx);
		return ret;
	}

	pfm_forget_overflows(ctx);
	if (ctx->smpl)
		pfm_smpl_restart(ctx->smpl);
	ctx->self = task == current;
	ctx->started = false;
	ctx->entered = 0;
	ctx->active = set;
	if (!pfm_loaded(ctx)) {
		pfm_allow_stale(ctx);
		pfm_target_put(ctx);
		pfm_groups_release(ctx);
		return -ENODEV;
	}
	pfm_forget_writes(ctx);
	set->runs++;
	return 0;
}

/**
 * pfm_unload() - Detach a context
 * @ctx:	The context, loaded or not
 *
 * Its registers keep their values.
 *
 * Context: pfm_context::mutex held, and the caller has a reference. Sleeps.
 */
void pfm_unload(struct pfm_context *ctx)
{
	lockdep_assert_held(&ctx->mutex);
	if (pfm_state(ctx) == PFM_UNLOADED)
		return;
	pfm_stop_for_unload(ctx);
	pfm_block_cancel(ctx);
	pfm_target_put(ctx);
	pfm_groups_release(ctx);
}

/**
 * __perfmon_exit_task() - Unload the context of a thread that loses its events
 * @task:	The thread, which is the current one; it exits, or has become
 *		more privileged
 *
 * Context: Process context, exec_update_lock may be held. Sleeps.
 */
void __perfmon_exit_task(struct task_struct *task)
{
	struct pfm_context *ctx = xchg(&task->pfm_ctx, NULL);

	if (!ctx)
		return;

	/* The exit cannot wait, and no other path detaches the context later. */
	mutex_lock(&ctx->mutex);
	if (ctx->task == task && pfm_state(ctx) != PFM_UNLOADED) {
		pfm_unload(ctx);
		if (!ctx->self)
			pfm_msg_end(ctx);
	}
	mutex_unlock(&ctx->mutex);
	pfm_ctx_put(ctx);
}

static void pfm_unload_dead(struct pfm_context *ctx)
{
	if (READ_ONCE(ctx->dead) && pfm_state(ctx) != PFM_UNLOADED) {
		pfm_unload(ctx);
		pfm_msg_end(ctx);
	}
}

/**
 * pfm_lock() - Lock a context
 * @ctx:	The context
 *
 * A context whose CPU went offline is unloaded first. The holder of the mutex may
 * sleep in a page fault that a program can delay for any time.
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
 * pfm_dead_work() - Unload a context whose CPU went offline
 * @work:	pfm_context::dead_work
 *
 * Context: Workqueue. Owns a reference.
 */
void pfm_dead_work(struct work_struct *work)
{
	struct pfm_context *ctx = container_of(work, struct pfm_context, dead_work);

	mutex_lock(&ctx->mutex);
	pfm_unload_dead(ctx);
	mutex_unlock(&ctx->mutex);
	pfm_ctx_put(ctx);
}

static int pfm_cpu_online(unsigned int cpu)
{
	guard(raw_spinlock_irq)(&pfm_cpu_lock);
	cpumask_clear_cpu(cpu, &pfm_cpu_dead);
	return 0;
}

/*
 * This runs on the CPU that goes offline. It must not wait for pfm_context::mutex,
 * because its holder may wait for the end of all hotplug to change a static key. So it
 * stops the context, and the next holder of the mutex unloads it. A context that is on
 * the list and loaded has its clock as long as the lock is held.
 */
static int pfm_cpu_offline(unsigned int cpu)
{
	struct pfm_context *ctx;

	guard(raw_spinlock_irq)(&pfm_cpu_lock);
	cpumask_set_cpu(cpu, &pfm_cpu_dead);
	list_for_each_entry(ctx, &pfm_cpu_list, cpu_node) {
		if (ctx->cpu != cpu)
			continue;
		if (pfm_state(ctx) != PFM_UNLOADED)
			pfm_stop_offline(ctx);
		WRITE_ONCE(ctx->dead, true);
		refcount_inc(&ctx->ref);
		if (!schedule_work(&ctx->dead_work))
			refcount_dec(&ctx->ref);
	}
	return 0;
}

static int __init pfm_attach_init(void)
{
	int ret;

	ret = cpuhp_setup_state_nocalls(CPUHP_AP_ONLINE_DYN, "perf/perfmon:online",
					pfm_cpu_online, pfm_cpu_offline);
	return ret < 0 ? ret : 0;
}
core_initcall(pfm_attach_init);
