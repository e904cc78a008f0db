// SPDX-License-Identifier: GPL-2.0
/*
 * Event sets of a context: an ordered list, which changes only while the context
 * is not loaded.
 *
 * Set 0 always exists. Sets follow each other in the order of their numbers, and
 * the first one follows the last. PFM_SETFL_EXPL_NEXT names another successor,
 * which must exist when the context is loaded.
 */
#include <linux/slab.h>

#include "internal.h"

unsigned int pfm_sets_max = 64;
unsigned int pfm_min_timeout = 100000;

/**
 * pfm_set_find() - Find an event set
 * @ctx:	The context
 * @id:		Number of the set
 *
 * Context: pfm_context::mutex held, by the caller or by the caller of pfm_call(). The
 *          latter may be another task, so this does not assert it.
 * Return: The set or NULL.
 */
struct pfm_set *pfm_set_find(struct pfm_context *ctx, u16 id)
{
	struct pfm_set *set;

	list_for_each_entry(set, &ctx->sets, node) {
		if (set->id == id)
			return set;
	}
	return NULL;
}

/*
 * Check a description. Unused fields must be zero, except for a program for perfmon 2.8,
 * which ignored them.
 */
static int pfm_setdesc_check(const struct pfm_context *ctx, const struct pfarg_setdesc *desc)
{
	const u32 switches = PFM_SETFL_OVFL_SWITCH | PFM_SETFL_TIME_SWITCH;
	u32 flags = desc->set_flags;

	if (flags & ~(switches | PFM_SETFL_EXPL_NEXT))
		return -EINVAL;
	if ((flags & switches) == switches)
		return -EINVAL;
	if ((flags & PFM_SETFL_EXPL_NEXT) && !(flags & switches))
		return -EINVAL;
	if ((flags & PFM_SETFL_TIME_SWITCH) &&
	    (!desc->set_timeout || desc->set_timeout >= PFM_NO_TIMEOUT))
		return -EINVAL;

	if (ctx->compat)
		return 0;
	if (memchr_inv(desc->reserved, 0, sizeof(desc->reserved)))
		return -EINVAL;
	if (!(flags & PFM_SETFL_EXPL_NEXT) && desc->set_id_next)
		return -EINVAL;
	return !(flags & PFM_SETFL_TIME_SWITCH) && desc->set_timeout ? -EINVAL : 0;
}

static void pfm_set_insert(struct pfm_context *ctx, struct pfm_set *set)
{
	struct pfm_set *pos;

	list_for_each_entry(pos, &ctx->sets, node) {
		if (pos->id > set->id)
			break;
	}
	list_add_tail(&set->node, &pos->node);
	ctx->nr_sets++;
}

static struct pfm_set *pfm_set_alloc(struct pfm_context *ctx, u16 id)
{
	struct pfm_set *set;
	int ret;

	if (ctx->nr_sets > pfm_sets_max)
		return ERR_PTR(-ENOSPC);
	ret = pfm_mem_charge(ctx, sizeof(*set));
	if (ret)
		return ERR_PTR(ret);
	set = kzalloc(sizeof(*set), GFP_KERNEL_ACCOUNT);
	if (!set) {
		pfm_mem_uncharge(ctx, sizeof(*set));
		return ERR_PTR(-ENOMEM);
	}
	set->ctx = ctx;
	set->id = id;
	return set;
}

/**
 * pfm_set_create() - Create an event set or change an existing one
 * @ctx:	The context, not loaded
 * @desc:	Description of the set, receives the timeout as it will be used
 *
 * The run count and the time of an existing set are reset, its registers stay.
 *
 * Context: pfm_context::mutex held. Sleeps.
 * Return: 0, -EINVAL, -ENOSPC, -ENOMEM.
 */
int pfm_set_create(struct pfm_context *ctx, struct pfarg_setdesc *desc)
{
	struct pfm_set *set;
	int ret;

	lockdep_assert_held(&ctx->mutex);
	ret = pfm_setdesc_check(ctx, desc);
	if (ret)
		return ret;

	set = pfm_set_find(ctx, desc->set_id);
	if (!set) {
		set = pfm_set_alloc(ctx, desc->set_id);
		if (IS_ERR(set))
			return PTR_ERR(set);
		pfm_set_insert(ctx, set);
	}

	if (desc->set_flags & PFM_SETFL_TIME_SWITCH)
		desc->set_timeout = max_t(u64, desc->set_timeout,
					  READ_ONCE(pfm_min_timeout));
	set->next_id = desc->set_flags & PFM_SETFL_EXPL_NEXT ? desc->set_id_next : 0;
	set->flags = desc->set_flags;
	set->timeout = desc->set_flags & PFM_SETFL_TIME_SWITCH ? desc->set_timeout : 0;
	set->runs = 0;
	set->duration = 0;
	set->enabled = 0;
	set->running = 0;
	set->lost = 0;
	return 0;
}

static void pfm_set_free_rcu(struct rcu_head *rcu)
{
	struct pfm_set *set = container_of(rcu, struct pfm_set, rcu);
	unsigned int num;

	for_each_set_bit(num, set->used, PFM_MAX_REGS)
		kfree(pfm_reg_at(set, num));
	kfree(set);
}

/**
 * pfm_set_free() - Free an event set and its registers
 * @set:	The set, which has no events and is on no list
 *
 * Context: As pfm_mem_uncharge(). The memory is freed after a grace period,
 *          because a handler may still use the set.
 */
void pfm_set_free(struct pfm_set *set)
{
	unsigned int num;

	for_each_set_bit(num, set->used, PFM_MAX_REGS)
		pfm_mem_uncharge(set->ctx, sizeof(struct pfm_reg));
	pfm_mem_uncharge(set->ctx, sizeof(*set));
	call_rcu(&set->rcu, pfm_set_free_rcu);
}

/**
 * pfm_sets_create() - Create event sets
 * @ctx:	The context, not loaded
 * @vec:	Array of struct pfarg_setdesc, as for pfm_set_create()
 * @n:		Number of elements
 *
 * Context: pfm_context::mutex held. Sleeps.
 * Return: As pfm_set_create(); sets before the invalid one are created.
 */
int pfm_sets_create(struct pfm_context *ctx, void *vec, int n)
{
	struct pfarg_setdesc *desc = vec;
	int i, ret = 0;

	lockdep_assert_held(&ctx->mutex);
	for (i = 0; i < n && !ret; i++)
		ret = pfm_set_create(ctx, &desc[i]);
	return ret;
}

static int pfm_set_delete(struct pfm_context *ctx, const struct pfarg_setdesc *desc)
{
	struct pfm_set *set;

	if (!desc->set_id ||
	    pfm_rsvd_used(ctx->compat, desc->reserved, sizeof(desc->reserved)))
		return -EINVAL;

	set = pfm_set_find(ctx, desc->set_id);
	if (!set)
		return -EINVAL;

	if (ctx->active == set)
		ctx->active = list_first_entry(&ctx->sets, struct pfm_set, node);
	list_del(&set->node);
	ctx->nr_sets--;
	pfm_set_free(set);
	return 0;
}

/**
 * pfm_sets_delete() - Delete event sets
 * @ctx:	The context, not loaded
 * @vec:	Array of struct pfarg_setdesc that names the sets
 * @n:		Number of elements
 *
 * Context: pfm_context::mutex held.
 * Return: 0, or -EINVAL for set 0 and for a set that does not exist; sets before
 *         it are deleted.
 */
int pfm_sets_delete(struct pfm_context *ctx, void *vec, int n)
{
	const struct pfarg_setdesc *desc = vec;
	int i, ret = 0;

	lockdep_assert_held(&ctx->mutex);
	for (i = 0; i < n && !ret; i++)
		ret = pfm_set_delete(ctx, &desc[i]);
	return ret;
}

/**
 * pfm_sets_resolve() - Set the successor of each set
 * @ctx:	The context, about to be loaded
 *
 * Context: pfm_context::mutex held.
 * Return: 0, or -EINVAL if a set names a successor that does not exist.
 */
int pfm_sets_resolve(struct pfm_context *ctx)
{
	struct pfm_set *set;

	lockdep_assert_held(&ctx->mutex);
	ctx->timed = false;
	list_for_each_entry(set, &ctx->sets, node) {
		if (set->flags & PFM_SETFL_TIME_SWITCH)
			ctx->timed = true;
		if (set->flags & PFM_SETFL_EXPL_NEXT)
			set->next = pfm_set_find(ctx, set->next_id);
		else if (list_is_last(&set->node, &ctx->sets))
			set->next = list_first_entry(&ctx->sets, struct pfm_set, node);
		else
			set->next = list_next_entry(set, node);
		if (!set->next)
			return -EINVAL;
	}
	return 0;
}
