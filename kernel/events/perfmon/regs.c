// SPDX-License-Identifier: GPL-2.0
/*
 * Vectors of registers: writing and reading them.
 *
 * An invalid element of a vector is flagged, and elements before it stay
 * applied.
 */
#include <linux/slab.h>

#include "internal.h"

/* Get the value to write. Perfmon 2.8 ignores writes to reserved bits. */
static u64 pfm_pmc_value(const struct pfm_context *ctx, const struct pfarg_pmc *arg)
{
	const struct pfm_pmu_map *map = ctx->map;
	u64 rsvd;

	if (!ctx->compat || !map->pmc_rsvd)
		return arg->reg_value;
	rsvd = map->pmc_rsvd(arg->reg_num);
	return (arg->reg_value & ~rsvd) | (map->pmc_dfl(arg->reg_num) & rsvd);
}

static int pfm_pmc_check(const struct pfm_context *ctx, const struct pfarg_pmc *arg)
{
	const u32 levels = PFM_REGFL_EXCL_USER | PFM_REGFL_EXCL_KERNEL |
			   PFM_REGFL_EXCL_HV;
	const struct pfm_pmu_map *map = ctx->map;
	u32 flags = arg->reg_flags & ~PFM_REGFL_RETFL_MASK;

	if ((flags & ~levels) ||
	    pfm_rsvd_used(ctx->compat, arg->reserved, sizeof(arg->reserved)))
		return -EINVAL;
	if (arg->reg_num >= PFM_SW_BASE)
		return arg->reg_value ? -EINVAL : 0;
	return map->check ? map->check(arg->reg_num, pfm_pmc_value(ctx, arg), flags) : 0;
}

static bool pfm_sw_pmc_write(struct pfm_set *set, unsigned int sw, u32 flags)
{
	u32 *pmc = &set->pmcs.sw[array_index_nospec(sw, PFM_NR_SW)];
	u32 old = *pmc;

	*pmc = flags;
	return old != flags;
}

/*
 * Write a control register. Return whether its value or flags changed. The caller has
 * checked the number, but the CPU may speculate past that check.
 */
static bool pfm_pmc_write(struct pfm_set *set, const struct pfarg_pmc *arg)
{
	u32 flags = arg->reg_flags & ~PFM_REGFL_RETFL_MASK;
	unsigned int num = arg->reg_num;
	struct pfm_pmc_val old, *pmc;

	if (num >= PFM_SW_BASE)
		return pfm_sw_pmc_write(set, num - PFM_SW_BASE, flags);

	pmc = &set->pmcs.pmu[array_index_nospec(num, PFM_MAX_PMCS)];
	old = *pmc;
	pmc->value = pfm_pmc_value(set->ctx, arg);
	pmc->flags = flags;
	pmc->used = true;
	return !old.used || old.value != pmc->value || old.flags != pmc->flags;
}

/* Flag the last element of @vec that names @set. */
static void pfm_pmcs_flag(struct pfarg_pmc *vec, int n, u16 set)
{
	while (n--) {
		if (vec[n].reg_set == set) {
			vec[n].reg_flags |= PFM_REGFL_RETFL_EINVAL;
			return;
		}
	}
}

/* Write those of the first @n elements of @vec that name @set. */
static int pfm_pmcs_write_set(struct pfm_context *ctx, struct pfm_set *set,
			      struct pfarg_pmc *vec, int n)
{
	struct pfm_pmcs *old = NULL;
	bool changed = false;
	int i, ret = 0;

	if (pfm_state(ctx) != PFM_UNLOADED) {
		old = kmemdup(&set->pmcs, sizeof(set->pmcs), GFP_KERNEL);
		if (!old)
			return -ENOMEM;
	}
	for (i = 0; i < n; i++) {
		if (vec[i].reg_set == set->id)
			changed |= pfm_pmc_write(set, &vec[i]);
	}
	if (old && changed)
		ret = pfm_group_rebuild(ctx, set);
	if (ret) {
		set->pmcs = *old;
		pfm_pmcs_flag(vec, n, set->id);
	}
	kfree(old);
	return ret;
}

/* Tell whether element @i is the first one of its set. */
static bool pfm_first_of_set(const struct pfarg_pmc *vec, int i)
{
	int k;

	for (k = 0; k < i; k++) {
		if (vec[k].reg_set == vec[i].reg_set)
			return false;
	}
	return true;
}

/**
 * pfm_pmcs_write() - Write control registers
 * @ctx:	The context
 * @arg:	Array of struct pfarg_pmc with the values, receives flags
 * @n:		Number of elements
 *
 * While the context is loaded, all events of each changed set are created
 * again. If the PMU rejects an event, the registers of the set keep their
 * values.
 *
 * Context: Locked by pfm_lock_opening(). Sleeps.
 * Return: 0, -EINVAL, -EACCES, -ENOMEM, or an error of the PMU.
 */
int pfm_pmcs_write(struct pfm_context *ctx, void *arg, int n)
{
	struct pfarg_pmc *vec = arg;
	int i, good, ret = 0, err = 0;

	pfm_assert_opening(ctx, ctx->task);
	for (good = 0; good < n; good++) {
		struct pfarg_pmc *pmc = &vec[good];
		u32 flag = 0;

		pmc->reg_flags &= ~PFM_REGFL_RETFL_MASK;
		if (!pfm_set_find(ctx, pmc->reg_set))
			flag = PFM_REGFL_RETFL_NOSET;
		else if (!pfm_pmc_exists(ctx, pmc->reg_num))
			flag = PFM_REGFL_RETFL_NOTAVAIL;
		else if (pfm_pmc_check(ctx, pmc))
			flag = PFM_REGFL_RETFL_EINVAL;
		if (flag) {
			pmc->reg_flags |= flag;
			ret = -EINVAL;
			break;
		}
	}

	for (i = 0; i < good && !err; i++) {
		if (pfm_first_of_set(vec, i))
			err = pfm_pmcs_write_set(ctx, pfm_set_find(ctx, vec[i].reg_set),
						 vec, good);
	}
	return err ?: ret;
}

/* Create a register unless it exists. The caller has checked its number. */
static int pfm_reg_create(struct pfm_set *set, unsigned int num)
{
	struct pfm_reg *reg = pfm_reg_find(set, num);
	unsigned int slot = pfm_reg_index(num);
	int ret;

	if (reg)
		return 0;

	ret = pfm_mem_charge(set->ctx, sizeof(*reg));
	if (ret)
		return ret;
	reg = kzalloc(sizeof(*reg), GFP_KERNEL_ACCOUNT);
	if (!reg) {
		pfm_mem_uncharge(set->ctx, sizeof(*reg));
		return -ENOMEM;
	}

	reg->num = num;
	reg->set = set;
	WRITE_ONCE(set->regs[array_index_nospec(slot, PFM_NR_SLOTS)], reg);
	/* Set the pointer before the bit, because pfm_overflow() may run at any time. */
	smp_wmb();
	set_bit(num, set->used);
	return 0;
}

static int pfm_mask_check(const struct pfm_context *ctx, const u64 *mask)
{
	unsigned int num;

	for_each_set_bit(num, (const unsigned long *)mask, PFM_MAX_REGS) {
		if (!pfm_pmd_exists(ctx, num))
			return -EINVAL;
	}
	return 0;
}

static int pfm_pmd_check(const struct pfm_context *ctx, const struct pfarg_pmd *arg)
{
	u32 flags = arg->reg_flags & ~PFM_REGFL_RETFL_MASK;

	if ((flags & ~(PFM_REGFL_OVFL_NOTIFY | PFM_REGFL_RANDOM)) ||
	    pfm_rsvd_used(ctx->compat, arg->reserved, sizeof(arg->reserved)))
		return -EINVAL;
	return pfm_mask_check(ctx, arg->reg_reset_pmds) ?:
	       pfm_mask_check(ctx, arg->reg_smpl_pmds);
}

/* Create the register and the registers that it names. */
static int pfm_pmd_prepare(struct pfm_set *set, const struct pfarg_pmd *arg)
{
	DECLARE_BITMAP(named, PFM_MAX_REGS);
	unsigned int num;
	int ret;

	ret = pfm_smpl_reserve(set->ctx, bitmap_weight((const unsigned long *)arg->reg_smpl_pmds,
						       PFM_MAX_REGS));
	if (ret)
		return ret;
	bitmap_or(named, (const unsigned long *)arg->reg_reset_pmds,
		  (const unsigned long *)arg->reg_smpl_pmds, PFM_MAX_REGS);
	__set_bit(array_index_nospec(arg->reg_num, PFM_MAX_REGS), named);
	for_each_set_bit(num, named, PFM_MAX_REGS) {
		ret = pfm_reg_create(set, num);
		if (ret)
			return ret;
		clear_bit(num, set->refused);
		pfm_reg_find(set, num)->load = pfm_this_load(set->ctx);
	}
	return 0;
}

static void pfm_pmd_apply(struct pfm_reg *reg, const struct pfarg_pmd *arg)
{
	reg->flags = arg->reg_flags & ~PFM_REGFL_RETFL_MASK;
	reg->long_reset = arg->reg_long_reset;
	reg->short_reset = arg->reg_short_reset;
	reg->switch_cnt = arg->reg_ovfl_switch_cnt;
	reg->left = arg->reg_ovfl_switch_cnt;
	reg->random_mask = arg->reg_random_mask;
	bitmap_copy(reg->reset_pmds, (const unsigned long *)arg->reg_reset_pmds,
		    PFM_MAX_REGS);
	bitmap_copy(reg->smpl_pmds, (const unsigned long *)arg->reg_smpl_pmds,
		    PFM_MAX_REGS);
	pfm_reg_set(reg, arg->reg_value);
	/* The first period begins with this value. */
	reg->last_reset = arg->reg_value;
	clear_bit(reg->num, reg->set->povfl);
	clear_bit(reg->num, reg->set->reset_pend);
	/* Drop a pending overflow, because it belongs to the old value. */
	clear_bit(reg->num, reg->set->late);
}

struct pfm_pmds {
	struct pfarg_pmd	*vec;
	int			n;
};

static void pfm_pmds_apply(struct pfm_context *ctx, void *data)
{
	const struct pfm_pmds *pmds = data;
	int i;

	for (i = 0; i < pmds->n; i++) {
		const struct pfarg_pmd *arg = &pmds->vec[i];

		pfm_pmd_apply(pfm_reg_find(pfm_set_find(ctx, arg->reg_set),
					   arg->reg_num), arg);
	}
}

/* Tell whether the event of a register has to be replaced. */
static bool pfm_reg_outdated(const struct pfm_set *set, const struct pfm_reg *reg)
{
	struct perf_event_attr attr;

	if (!reg->event)
		return pfm_reg_attr(set, reg, &attr) != -ENOENT;
	return pfm_event_is_clock(reg->event) && !reg->event->attr.sample_period &&
	       pfm_reg_wraps(reg);
}

static bool pfm_set_outdated(const struct pfm_set *set)
{
	unsigned int num;

	for_each_set_bit(num, set->used, PFM_MAX_REGS) {
		if (pfm_reg_outdated(set, pfm_reg_at(set, num)))
			return true;
	}
	return false;
}

/*
 * Refuse the new registers of a set after no events could be opened for them. They exist,
 * because other registers may name them, but count nothing. The old events keep
 * counting.
 */
static void pfm_regs_refuse(struct pfm_set *set)
{
	unsigned int num;

	for_each_set_bit(num, set->used, PFM_MAX_REGS) {
		const struct pfm_reg *reg = pfm_reg_at(set, num);

		if (!reg->event && pfm_reg_outdated(set, reg))
			set_bit(num, set->refused);
	}
}

/* Open events for registers that were written for the first time. */
static int pfm_pmds_rebuild(struct pfm_context *ctx, struct pfarg_pmd *vec, int n)
{
	int i, ret;

	for (i = 0; i < n; i++) {
		struct pfm_set *set = pfm_set_find(ctx, vec[i].reg_set);

		if (!pfm_set_outdated(set))
			continue;
		ret = pfm_group_rebuild(ctx, set);
		if (ret) {
			/* If memory or the target was missing, a later call tries again. */
			if (ret != -ENOMEM && ret != -ESRCH)
				pfm_regs_refuse(set);
			vec[i].reg_flags |= PFM_REGFL_RETFL_EINVAL;
			return ret;
		}
	}
	return 0;
}

static bool pfm_pmd_has_period(const struct pfarg_pmd *arg)
{
	return pfm_period(arg->reg_value) != PFM_NO_PERIOD ||
	       pfm_period(arg->reg_long_reset) != PFM_NO_PERIOD ||
	       pfm_period(arg->reg_short_reset) != PFM_NO_PERIOD;
}

static bool pfm_pmd_samples(const struct pfarg_pmd *arg)
{
	return (arg->reg_flags & (PFM_REGFL_OVFL_NOTIFY | PFM_REGFL_RANDOM)) ||
	       arg->reg_ovfl_switch_cnt || pfm_pmd_has_period(arg);
}

/*
 * Check the permission to sample with registers that have events. The target may have
 * changed since the load into one that the caller may not trace, which matters for
 * registers that have only counted so far. A program without permission to sample the
 * kernel may have got the context from a program with it.
 */
static int pfm_may_sample(struct pfm_context *ctx, const struct pfarg_pmd *vec, int n)
{
	int i, ret = 0;

	for (i = 0; i < n && !ret; i++) {
		struct pfm_set *set = pfm_set_find(ctx, vec[i].reg_set);
		struct pfm_reg *reg = set ? pfm_reg_find(set, vec[i].reg_num) : NULL;

		if (!reg || !pfm_pmd_samples(&vec[i]))
			continue;
		if (!pfm_reg_wraps(reg))
			ret = pfm_may_reopen(ctx);
		if (!ret && reg->event && !reg->event->attr.exclude_kernel)
			ret = perf_allow_kernel();
	}
	return ret;
}

/* Tell whether overflows are requested of a PMU that has no interrupts. */
static bool pfm_pmd_is_mute(const struct pfm_set *set, const struct pfarg_pmd *arg)
{
	const struct pfm_reg *reg = pfm_reg_find(set, arg->reg_num);

	if (!reg || !reg->event || reg->event->attr.sample_period ||
	    pfm_event_is_clock(reg->event))
		return false;
	if (arg->reg_flags & (PFM_REGFL_OVFL_NOTIFY | PFM_REGFL_RANDOM))
		return true;
	return arg->reg_ovfl_switch_cnt || (set->ctx->smpl && pfm_pmd_has_period(arg));
}

static int pfm_pmds_write_some(struct pfm_context *ctx, struct pfarg_pmd *vec, int n)
{
	struct pfm_pmds pmds = { .vec = vec };
	int ret = 0, err = 0;

	for (; pmds.n < n && !ret; pmds.n++) {
		struct pfarg_pmd *pmd = &vec[pmds.n];
		struct pfm_set *set = pfm_set_find(ctx, pmd->reg_set);
		u32 flag = 0;

		pmd->reg_flags &= ~PFM_REGFL_RETFL_MASK;
		if (!set)
			flag = PFM_REGFL_RETFL_NOSET;
		else if (!pfm_pmd_exists(ctx, pmd->reg_num))
			flag = PFM_REGFL_RETFL_NOTAVAIL;
		else if (pfm_pmd_check(ctx, pmd) || pfm_pmd_is_mute(set, pmd))
			flag = PFM_REGFL_RETFL_EINVAL;
		if (flag) {
			pmd->reg_flags |= flag;
			ret = -EINVAL;
			break;
		}
		ret = pfm_pmd_prepare(set, pmd);
		if (ret == -EINVAL)
			pmd->reg_flags |= PFM_REGFL_RETFL_EINVAL;
		if (ret)
			break;
	}

	if (pfm_state(ctx) == PFM_UNLOADED ||
	    pfm_call(ctx, pfm_pmds_apply, &pmds) == -ESRCH)
		pfm_pmds_apply(ctx, &pmds);
	else
		err = pfm_pmds_rebuild(ctx, vec, pmds.n);
	return err ?: ret;
}

/* Tell whether an element names a register that does not exist yet or was refused. */
static bool pfm_pmds_are_new(const struct pfm_set *set, const struct pfarg_pmd *arg)
{
	DECLARE_BITMAP(named, PFM_MAX_REGS);
	unsigned int num;

	bitmap_or(named, (const unsigned long *)arg->reg_reset_pmds,
		  (const unsigned long *)arg->reg_smpl_pmds, PFM_MAX_REGS);
	if (arg->reg_num < PFM_MAX_REGS)
		__set_bit(array_index_nospec(arg->reg_num, PFM_MAX_REGS), named);
	for_each_set_bit(num, named, PFM_MAX_REGS) {
		if (!pfm_reg_find(set, num) || test_bit(num, set->refused))
			return true;
	}
	return false;
}

/**
 * pfm_pmds_write() - Write data registers
 * @ctx:	The context
 * @arg:	Array of struct pfarg_pmd with the values, receives flags
 * @n:		Number of elements
 *
 * Context: Locked by pfm_lock_opening(). Sleeps.
 * Return: As pfm_pmcs_write(), or -EPERM if the target must not be sampled.
 */
int pfm_pmds_write(struct pfm_context *ctx, void *arg, int n)
{
	struct pfarg_pmd *vec = arg;
	int i = 0, ret = 0;

	pfm_assert_opening(ctx, ctx->task);
	if (pfm_state(ctx) != PFM_UNLOADED)
		ret = pfm_may_sample(ctx, vec, n);
	if (ret)
		return ret;
	for (; i < n && pfm_state(ctx) != PFM_UNLOADED; i++) {
		struct pfm_set *set = pfm_set_find(ctx, vec[i].reg_set);

		if (set && pfm_pmds_are_new(set, &vec[i]))
			break;
	}
	if (i == n || pfm_state(ctx) == PFM_UNLOADED)
		return pfm_pmds_write_some(ctx, vec, n);

	/* Write one by one, to stop at the first register that cannot count. */
	for (i = 0; i < n && !ret; i++)
		ret = pfm_pmds_write_some(ctx, &vec[i], 1);
	return ret;
}

/**
 * struct pfm_vals - argument of pfm_vals_get()
 */
struct pfm_vals {
	/** @vals: registers to read, receives their values */
	struct pfm_pmd_val	*vals;
	/** @n: number of registers */
	int			n;
	/** @ret: result, 0 or -EINVAL */
	int			ret;
};

/* Read one register. Return PFM_REGFL_RETFL_*. */
static u32 pfm_val_get(const struct pfm_context *ctx, const struct pfm_set *set,
		       struct pfm_pmd_val *val)
{
	struct pfm_reg *reg;

	if (!set)
		return PFM_REGFL_RETFL_NOSET;
	reg = pfm_reg_find(set, val->num);
	if (!reg)
		return pfm_pmd_exists(ctx, val->num) ? PFM_REGFL_RETFL_EINVAL :
						       PFM_REGFL_RETFL_NOTAVAIL;
	val->value = pfm_value(reg);
	val->last_reset = reg->last_reset;
	val->left = reg->left;
	return 0;
}

static void pfm_vals_get(struct pfm_context *ctx, void *data)
{
	struct pfm_vals *vals = data;
	struct pfm_set *set = NULL;
	int i;

	for (i = 0; i < vals->n; i++) {
		struct pfm_pmd_val *val = &vals->vals[i];
		u32 flag;

		if (!set || set->id != val->set)
			set = pfm_set_find(ctx, val->set);
		flag = pfm_val_get(ctx, set, val);
		val->flags = (val->flags & ~PFM_REGFL_RETFL_MASK) | flag;
		if (flag) {
			vals->ret = -EINVAL;
			return;
		}
	}
}

/**
 * pfm_pmds_read() - Read data registers
 * @ctx:	The context
 * @vals:	Registers to read, receives their values and flags
 * @n:		Number of registers
 *
 * All values are taken at the same time, across sets as well.
 *
 * Context: pfm_context::mutex held. Sleeps.
 * Return: 0, or -EINVAL and the register that failed is flagged.
 */
int pfm_pmds_read(struct pfm_context *ctx, struct pfm_pmd_val *vals, int n)
{
	struct pfm_vals read = { .vals = vals, .n = n };

	lockdep_assert_held(&ctx->mutex);
	if (pfm_state(ctx) == PFM_UNLOADED || pfm_call_reader(ctx, pfm_vals_get, &read) == -ESRCH)
		pfm_vals_get(ctx, &read);
	return read.ret;
}
