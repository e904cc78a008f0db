// SPDX-License-Identifier: GPL-2.0
/*
 * Contexts: states and lifetime.
 *
 *	            load                 notification
 *	  unloaded -------> loaded ---------------------> masked
 *	     ^ ^              | ^                           | |
 *	     | +--------------+ +---------------------------+ |
 *	     |     unload                  restart            |
 *	     +------------------------------------------------+
 *	                    unload
 *
 * Unloaded: all state is in memory, sets may be created and deleted. Loaded:
 * attached to a thread or a CPU, counting while started. Masked: an overflow was
 * notified, nothing counts until pfm_restart(2). Exit of the thread, its exec of
 * a program with other privileges, the CPU going offline and close(2) unload.
 *
 * See life.c for the references.
 */
#include <linux/pid_namespace.h>
#include <linux/random.h>
#include <linux/slab.h>

#include "internal.h"

/* Charge a context to the caller, and create its parts. */
static int pfm_ctx_fill(struct pfm_context *ctx)
{
	struct pfarg_setdesc set0 = { .set_id = 0 };

	ctx->map = pfm_map_find(ctx->pmu_type);
	if (!ctx->map)
		return -ENODEV;
	/* No other path knows the context. Lock it because the charge requires that. */
	guard(mutex)(&ctx->mutex);
	return pfm_mem_charge(ctx, sizeof(*ctx)) ?: pfm_label_create(ctx) ?:
	       pfm_set_create(ctx, &set0);
}

/**
 * pfm_ctx_create() - Create a context with set 0
 * @flags:	PFM_FL_*
 * @pmu_type:	Type of the PMU whose registers it has
 * @compat:	The context is for a program for perfmon 2.8
 *
 * Context: Process context.
 * Return: The context with one reference, or -ENODEV, -ENOMEM, or an error of a
 *         security module.
 */
struct pfm_context *pfm_ctx_create(u32 flags, u32 pmu_type, bool compat)
{
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
	/* Perfmon 2.8 has no such flag: its programs may run anywhere, so set it for them. */
	ctx->compat = compat;
	ctx->flags = compat ? flags | PFM_FL_REMOTE : flags;
	ctx->pmu_type = pmu_type;
	ctx->cpu = -1;
	pfm_charge_init(ctx);

	ret = pfm_ctx_fill(ctx);
	if (ret) {
		pfm_ctx_put(ctx);
		return ERR_PTR(ret);
	}
	ctx->active = list_first_entry(&ctx->sets, struct pfm_set, node);
	return ctx;
}
