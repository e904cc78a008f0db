// SPDX-License-Identifier: GPL-2.0
/*
 * The state and the times of event sets, as pfm_getinfo_evtsets(2) returns them.
 */
#include "internal.h"

static u64 pfm_timeout_left(const struct pfm_set *set)
{
	struct pfm_context *ctx = set->ctx;
	struct hw_perf_event *hwc;
	s64 left;

	if (!(set->flags & PFM_SETFL_TIME_SWITCH))
		return 0;
	if (set != ctx->active || !ctx->clock || !ctx->started)
		return set->timeout;

	hwc = &ctx->clock->hw;
	if (ctx->clock->state == PERF_EVENT_STATE_ACTIVE)
		left = ktime_to_ns(hrtimer_get_remaining(&hwc->hrtimer));
	else
		left = local64_read(&hwc->period_left);
	return max_t(s64, left, 0);
}

/* Get the times of a set: those of released events and the present ones of its leader. */
static void pfm_set_times(const struct pfm_set *set, struct pfarg_setinfo *info)
{
	struct perf_event *leader = set->leader;
	u64 now;

	info->set_enabled_ns = set->enabled;
	info->set_running_ns = set->running;
	if (!leader)
		return;

	info->set_enabled_ns += leader->total_time_enabled;
	info->set_running_ns += leader->total_time_running;
	if (leader->state < PERF_EVENT_STATE_INACTIVE)
		return;

	now = perf_event_ctx_time(leader) - leader->tstamp;
	info->set_enabled_ns += now;
	if (leader->state == PERF_EVENT_STATE_ACTIVE)
		info->set_running_ns += now;
}

static void pfm_set_info(const struct pfm_set *set, struct pfarg_setinfo *info)
{
	const struct pfm_context *ctx = set->ctx;

	memset(info, 0, sizeof(*info));
	info->set_id = set->id;
	info->set_id_next = set->next_id;
	info->set_flags = set->flags;
	if (set == ctx->active && pfm_state(ctx) != PFM_UNLOADED)
		info->set_flags |= PFM_SETFL_OUT_ACTIVE;
	if (set->leader && set->leader->state == PERF_EVENT_STATE_ERROR)
		info->set_flags |= PFM_SETFL_OUT_NOPMU;
	info->set_runs = set->runs;
	info->set_act_duration = set->duration;
	info->set_lost = set->lost;
	info->set_timeout = pfm_timeout_left(set);
	pfm_set_times(set, info);
	bitmap_copy((unsigned long *)info->set_ovfl_pmds,
		    ctx->compat ? set->last_ovfl : set->povfl, PFM_MAX_REGS);
}

/* Fill in the registers that are available, which are the same for all sets. */
static void pfm_info_avail(const struct pfm_context *ctx, struct pfarg_setinfo *info, int n)
{
	DECLARE_BITMAP(pmcs, PFM_MAX_REGS) = { };
	DECLARE_BITMAP(pmds, PFM_MAX_REGS) = { };
	u64 held = pfm_pmds_held(ctx);
	unsigned int num;
	int i;

	for (num = 0; num < PFM_MAX_REGS; num++) {
		__assign_bit(num, pmcs, pfm_pmc_exists(ctx, num));
		__assign_bit(num, pmds, pfm_pmd_exists(ctx, num));
	}
	/* Clear PMCs as well: programs look there for free counters. */
	for (num = 0; num < 64; num++) {
		if (!(held & BIT_ULL(num)))
			continue;
		__clear_bit(num, pmds);
		if (!(ctx->map->shared & BIT_ULL(num)))
			__clear_bit(num, pmcs);
	}
	for (i = 0; i < n; i++) {
		memcpy(info[i].set_avail_pmcs, pmcs, sizeof(pmcs));
		memcpy(info[i].set_avail_pmds, pmds, sizeof(pmds));
	}
}

struct pfm_getinfo {
	struct pfarg_setinfo	*info;
	int			n;
};

static void pfm_getinfo(struct pfm_context *ctx, void *data)
{
	struct pfm_getinfo *get = data;
	int i;

	for (i = 0; i < get->n; i++)
		pfm_set_info(pfm_set_find(ctx, get->info[i].set_id), &get->info[i]);
}

static void pfm_getinfo_here(struct pfm_context *ctx, void *data)
{
	pfm_step(ctx);
	pfm_account_time(ctx);
	pfm_getinfo(ctx, data);
}

/**
 * pfm_sets_getinfo() - Get the state and the times of event sets
 * @ctx:	The context
 * @vec:	Array of struct pfarg_setinfo that names the sets, receives the
 *		rest
 * @n:		Number of elements
 *
 * For a loaded context, all values are taken at the same time.
 *
 * Context: pfm_context::mutex held. Sleeps.
 * Return: 0, or -EINVAL if one of the sets does not exist.
 */
int pfm_sets_getinfo(struct pfm_context *ctx, void *vec, int n)
{
	struct pfarg_setinfo *info = vec;
	struct pfm_getinfo get = { .info = info, .n = n };
	int i;

	lockdep_assert_held(&ctx->mutex);
	for (i = 0; i < n; i++) {
		if (!pfm_set_find(ctx, info[i].set_id))
			return -EINVAL;
	}
	if (pfm_state(ctx) == PFM_UNLOADED ||
	    pfm_call_reader(ctx, pfm_getinfo_here, &get) == -ESRCH)
		pfm_getinfo(ctx, &get);
	pfm_info_avail(ctx, info, n);
	return 0;
}
