// SPDX-License-Identifier: GPL-2.0
/*
 * The end of a context.
 *
 * The descriptor holds a reference, the target holds one, and so does the pending work
 * that blocks a target or that unloads a context whose CPU went offline.
 */
#include <linux/pid_namespace.h>
#include <linux/slab.h>

#include "internal.h"

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
	/* No other path uses the context. Lock it because the charge requires that. */
	mutex_lock(&ctx->mutex);
	list_for_each_entry_safe(set, tmp, &ctx->sets, node)
		pfm_set_free(set);
	pfm_smpl_free(ctx);
	pfm_label_free(ctx);
	pfm_charge_exit(ctx);
	mutex_unlock(&ctx->mutex);
	mutex_destroy(&ctx->msg_mutex);
	mutex_destroy(&ctx->mutex);
	call_rcu(&ctx->rcu, pfm_ctx_free_rcu);
}
