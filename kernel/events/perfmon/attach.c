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

/*
 * Registers that a program for perfmon 2.8 does not use any more. Such a program loads a
 * context again and writes the registers that it wants. It ignores the registers of
 * earlier loads, each of which had a hardware register of its own. Here they could occupy
 * the counters that the new registers need, so the context has to do without them.
 */

/*
 * Refuse events to registers of a set that were not written for the present load. Return
 * whether this leaves fewer registers than before, but some.
 */
static bool pfm_set_refuse_stale(struct pfm_set *set)
{
	u32 load = pfm_this_load(set->ctx);
	bool any = false, kept = false;
	unsigned int num;

	for_each_set_bit(num, set->used, PFM_MAX_REGS) {
		struct pfm_reg *reg = pfm_reg_at(set, num);

		reg->stale = reg->load != load && !test_and_set_bit(num, set->refused);
		any |= reg->stale;
		kept |= reg->load == load;
	}
	return any && kept;
}

/* Undo pfm_set_refuse_stale(). */
static void pfm_set_allow_stale(struct pfm_set *set)
{
	unsigned int num;

	for_each_set_bit(num, set->used, PFM_MAX_REGS) {
		struct pfm_reg *reg = pfm_reg_at(set, num);

		if (reg->stale)
			clear_bit(num, set->refused);
		reg->stale = false;
	}
}

static void pfm_allow_stale(struct pfm_context *ctx)
{
	struct pfm_set *set;

	list_for_each_entry(set, &ctx->sets, node)
		pfm_set_allow_stale(set);
}

/* Create events, without those of stale registers if the sets do not fit on the PMU. */
static int pfm_groups_load(struct pfm_context *ctx)
{
	int ret = pfm_groups_create(ctx);
	bool fewer = false;
	struct pfm_set *set;

	if (ret != -EINVAL || !ctx->compat)
		return ret;
	list_for_each_entry(set, &ctx->sets, node) {
		if (pfm_set_refuse_stale(set))
			fewer = true;
		else
			pfm_set_allow_stale(set);
	}
	if (fewer)
		ret = pfm_groups_create(ctx);
	if (ret)
		pfm_allow_stale(ctx);
	return ret;
}

/**
 * pfm_drop_stale() - Release the counters of registers that are not used any more
 * @ctx:	The context, loaded, for a program for perfmon 2.8
 * @set:	Set whose registers find no free counters
 *
 * Context: Locked by pfm_lock_opening(). Sleeps.
 * Return: 0, -EBUSY if there are no such registers, or another error. After an error
 *         nothing has changed.
 */
int pfm_drop_stale(struct pfm_context *ctx, struct pfm_set *set)
{
	int ret = -EBUSY;

	pfm_assert_opening(ctx, ctx->task);
	if (pfm_set_refuse_stale(set))
		ret = pfm_group_rebuild(ctx, set);
	if (ret)
		pfm_set_allow_stale(set);
	return ret;
}

/* Mark the context as loaded. Fail if its CPU went offline: the hotplug callback has run. */
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
 *         the context is still not loaded.
 */
int pfm_load(struct pfm_context *ctx, struct task_struct *task, int cpu, u16 id)
{
	struct pfm_set *set = pfm_set_find(ctx, id);
	int ret;

	pfm_assert_opening(ctx, task);
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
	pfm_smpl_restart(ctx);
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
	ctx->loads++;
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

	/* Wait even if killed, because no other path would detach the context later. */
	mutex_lock(&ctx->mutex);
	if (ctx->task == task && pfm_state(ctx) != PFM_UNLOADED) {
		pfm_unload(ctx);
		if (!ctx->self)
			pfm_msg_end(ctx);
	}
	mutex_unlock(&ctx->mutex);
	pfm_ctx_put(ctx);
}

/**
 * pfm_unload_dead() - Unload a context whose CPU went offline
 * @ctx:	The context, loaded or not
 *
 * Context: As pfm_unload().
 */
void pfm_unload_dead(struct pfm_context *ctx)
{
	lockdep_assert_held(&ctx->mutex);
	if (READ_ONCE(ctx->dead) && pfm_state(ctx) != PFM_UNLOADED) {
		pfm_unload(ctx);
		pfm_msg_end(ctx);
	}
}

/**
 * pfm_dead_work() - Unload a context after its CPU went offline
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
 * Stop the contexts of the CPU that goes offline, which is this one. The callback must not
 * wait for pfm_context::mutex, because the holder may wait for the end of all hotplug to
 * change a static key. So the next holder of the mutex unloads the context. A context
 * that is on the list and loaded keeps its clock as long as pfm_cpu_lock is held.
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
