// SPDX-License-Identifier: GPL-2.0
/*
 * Tests that need no target: the order of sets, the arithmetic of values, the queue of
 * messages, the translation of registers.
 */
#include <kunit/test.h>
#include <linux/slab.h>

#include "../perfmon/internal.h"

static int perfmon_init(struct kunit *test)
{
	struct pfm_context *ctx = pfm_ctx_create(0, 0, false);

	KUNIT_ASSERT_FALSE(test, IS_ERR(ctx));
	test->priv = ctx;
	return 0;
}

static void perfmon_exit(struct kunit *test)
{
	if (test->priv)
		pfm_ctx_put(test->priv);
}

static int make_set(struct pfm_context *ctx, u16 id, u32 flags, u16 next)
{
	struct pfarg_setdesc desc = { .set_id = id, .set_id_next = next, .set_flags = flags };

	return pfm_set_create(ctx, &desc);
}

static void sets_follow_in_order_whatever_their_creation(struct kunit *test)
{
	static const u16 made[] = { 7, 65535, 3, 500, 1 };
	static const u16 order[] = { 0, 1, 3, 7, 500, 65535, 0 };
	struct pfm_context *ctx = test->priv;
	struct pfm_set *set;
	int i;

	guard(mutex)(&ctx->mutex);
	for (i = 0; i < ARRAY_SIZE(made); i++)
		KUNIT_ASSERT_EQ(test, 0, make_set(ctx, made[i], 0, 0));
	KUNIT_ASSERT_EQ(test, 0, pfm_sets_resolve(ctx));
	set = pfm_set_find(ctx, 0);
	for (i = 0; i < ARRAY_SIZE(order); i++, set = set->next)
		KUNIT_EXPECT_EQ(test, order[i], set->id);
	KUNIT_EXPECT_EQ(test, 6, ctx->nr_sets);
}

static void explicit_successor_is_followed(struct kunit *test)
{
	const u32 flags = PFM_SETFL_OVFL_SWITCH | PFM_SETFL_EXPL_NEXT;
	struct pfm_context *ctx = test->priv;

	guard(mutex)(&ctx->mutex);
	KUNIT_ASSERT_EQ(test, 0, make_set(ctx, 0, flags, 9));
	KUNIT_EXPECT_EQ(test, -EINVAL, pfm_sets_resolve(ctx));
	KUNIT_ASSERT_EQ(test, 0, make_set(ctx, 5, 0, 0));
	KUNIT_ASSERT_EQ(test, 0, make_set(ctx, 9, flags, 9));
	KUNIT_ASSERT_EQ(test, 0, pfm_sets_resolve(ctx));
	KUNIT_EXPECT_EQ(test, 9, pfm_set_find(ctx, 0)->next->id);
	KUNIT_EXPECT_EQ(test, 9, pfm_set_find(ctx, 9)->next->id);
	KUNIT_EXPECT_EQ(test, 9, pfm_set_find(ctx, 5)->next->id);
}

static void deleted_set_is_not_active(struct kunit *test)
{
	struct pfarg_setdesc desc = { .set_id = 5 };
	struct pfm_context *ctx = test->priv;

	guard(mutex)(&ctx->mutex);
	KUNIT_ASSERT_EQ(test, 0, make_set(ctx, 5, 0, 0));
	ctx->active = pfm_set_find(ctx, 5);
	KUNIT_EXPECT_EQ(test, 0, pfm_sets_delete(ctx, &desc, 1));
	KUNIT_EXPECT_PTR_EQ(test, pfm_set_find(ctx, 0), ctx->active);
	KUNIT_EXPECT_EQ(test, -EINVAL, pfm_sets_delete(ctx, &desc, 1));
}

static void period_is_what_is_left_to_zero(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, 1ULL, pfm_period(-1ULL));
	KUNIT_EXPECT_EQ(test, 1000ULL, pfm_period(-1000ULL));
	KUNIT_EXPECT_EQ(test, (1ULL << 63) - 1, pfm_period((1ULL << 63) + 1));
	KUNIT_EXPECT_EQ(test, PFM_NO_PERIOD, pfm_period(1ULL << 63));
	KUNIT_EXPECT_EQ(test, PFM_NO_PERIOD, pfm_period((1ULL << 63) - 1));
	KUNIT_EXPECT_EQ(test, PFM_NO_PERIOD, pfm_period(1));
	KUNIT_EXPECT_EQ(test, PFM_NO_PERIOD, pfm_period(0));
}

static void random_bits_make_a_period_longer(struct kunit *test)
{
	struct pfm_reg reg = { .long_reset = -100ULL, .short_reset = -10ULL,
			       .random_mask = 0xff };

	KUNIT_EXPECT_EQ(test, -100ULL, pfm_reset_value(&reg, true, -1ULL));
	KUNIT_EXPECT_EQ(test, -10ULL, pfm_reset_value(&reg, false, -1ULL));
	reg.flags = PFM_REGFL_RANDOM;
	KUNIT_EXPECT_EQ(test, -355ULL, pfm_reset_value(&reg, true, -1ULL));
	KUNIT_EXPECT_EQ(test, -100ULL, pfm_reset_value(&reg, true, 0xff00));
	reg.random_mask = 0;
	KUNIT_EXPECT_EQ(test, -100ULL, pfm_reset_value(&reg, true, -1ULL));
	reg.random_mask = -1ULL;
	KUNIT_EXPECT_EQ(test, -99ULL, pfm_reset_value(&reg, true, -1ULL));
}

static void ninth_message_finds_no_place_but_the_end_does(struct kunit *test)
{
	union pfarg_msg msg = { .type = PFM_MSG_OVFL };
	struct pfm_context *ctx = test->priv;
	int round, i;

	for (round = 0; round < 3; round++) {
		for (i = 0; i < 8; i++)
			KUNIT_EXPECT_TRUE(test, pfm_msg_put(ctx, &msg));
		KUNIT_EXPECT_FALSE(test, pfm_msg_put(ctx, &msg));
		msg.type = PFM_MSG_END;
		KUNIT_EXPECT_TRUE(test, pfm_msg_put(ctx, &msg));
		KUNIT_EXPECT_FALSE(test, pfm_msg_put(ctx, &msg));
		msg.type = PFM_MSG_OVFL;
		pfm_msg_clear(ctx);
	}
}

/*
 * Do @nr steps of @step ns, one every @every ticks. Return the number of the first step,
 * from 1, that pfm_steps_too_long() rejects, or 0.
 */
static int first_tick_too_long(struct pfm_context *ctx, int nr, int every, u64 step)
{
	int i;

	ctx->longest_ns = 0;
	for (i = 1; i <= nr; i++) {
		if (pfm_steps_too_long(ctx, ctx->steps_tick + every, step))
			return i;
	}
	return 0;
}

static void longest_step_is_forgiven(struct kunit *test)
{
	struct pfm_context *ctx = test->priv;
	unsigned long tick = 100;
	int i;

	/* Short steps that add up to an eighth of a tick pass, and so does one long step. */
	for (i = 0; i < 31; i++)
		KUNIT_EXPECT_FALSE(test, pfm_steps_too_long(ctx, tick, TICK_NSEC / 256));
	KUNIT_EXPECT_FALSE(test, pfm_steps_too_long(ctx, tick, 50 * TICK_NSEC));
	KUNIT_EXPECT_TRUE(test, pfm_steps_too_long(ctx, tick, TICK_NSEC / 256 + 64));
	/* The long step of the last tick has no effect on the short steps of this tick. */
	tick++;
	for (i = 0; i < 31; i++)
		KUNIT_EXPECT_FALSE(test, pfm_steps_too_long(ctx, tick, TICK_NSEC / 256));
	KUNIT_EXPECT_TRUE(test, pfm_steps_too_long(ctx, tick, TICK_NSEC / 256 + 64));
	/* The next long step is left out again. */
	KUNIT_EXPECT_FALSE(test, pfm_steps_too_long(ctx, tick + 2, TICK_NSEC));
	KUNIT_EXPECT_FALSE(test, pfm_steps_too_long(ctx, tick + 2, TICK_NSEC / 256));
}

static void steps_of_a_tick_each_are_too_long(struct kunit *test)
{
	struct pfm_context *ctx = test->priv;

	KUNIT_EXPECT_EQ(test, 2, first_tick_too_long(ctx, 9, 1, TICK_NSEC));
	KUNIT_EXPECT_EQ(test, 2, first_tick_too_long(ctx, 9, 1, TICK_NSEC / 2));
	KUNIT_EXPECT_EQ(test, 2, first_tick_too_long(ctx, 9, 3, 3 * TICK_NSEC));
	KUNIT_EXPECT_EQ(test, 2, first_tick_too_long(ctx, 9, 20, 20 * TICK_NSEC));
	/* Rare long steps are accepted, because they happen in guests. */
	KUNIT_EXPECT_EQ(test, 0, first_tick_too_long(ctx, 9, 10, TICK_NSEC));
	KUNIT_EXPECT_EQ(test, 0, first_tick_too_long(ctx, 9, 1000, 3 * TICK_NSEC));
}

static void one_long_switch_makes_no_timeout_longer(struct kunit *test)
{
	struct pfm_set *set = pfm_set_find(test->priv, 0);

	KUNIT_EXPECT_EQ(test, 100000ULL, pfm_limit_switches(set, 100000, 5000));
	KUNIT_EXPECT_EQ(test, 100000ULL, pfm_limit_switches(set, 100000, 4000000));
	KUNIT_EXPECT_EQ(test, 100000ULL, pfm_limit_switches(set, 100000, 5000));
	/* Two long switches in a row extend the timeout. */
	KUNIT_EXPECT_EQ(test, 100000ULL, pfm_limit_switches(set, 100000, 50000));
	KUNIT_EXPECT_EQ(test, 160000ULL, pfm_limit_switches(set, 100000, 40000));
	KUNIT_EXPECT_EQ(test, 160000ULL, pfm_limit_switches(set, 100000, 60000));
	KUNIT_EXPECT_EQ(test, 1000000ULL, pfm_limit_switches(set, 1000000, 60000));
	/* A set without a timeout gets none. */
	KUNIT_EXPECT_EQ(test, 0ULL, pfm_limit_switches(set, 0, 60000));
}

/* Switches to another set, which are short, do not hide long ones. */
static void long_switches_to_one_of_two_sets_make_its_timeout_longer(struct kunit *test)
{
	struct pfm_set *heavy = pfm_set_find(test->priv, 0);
	struct pfm_set *light = kunit_kzalloc(test, sizeof(*light), GFP_KERNEL);
	int i;

	KUNIT_ASSERT_NOT_NULL(test, light);
	for (i = 0; i < 3; i++) {
		KUNIT_EXPECT_EQ(test, i ? 400000ULL : 100000ULL,
				pfm_limit_switches(heavy, 100000, 100000));
		KUNIT_EXPECT_EQ(test, 100000ULL, pfm_limit_switches(light, 100000, 1000));
	}
}

static int refuse_a_period_of_one(struct perf_event *event, u64 value)
{
	return value == 1 ? -EINVAL : 0;
}

/* On x86, branches with a period of 1 request a trace, which a register must not do. */
static void period_of_one_is_not_forced_on_a_pmu(struct kunit *test)
{
	struct pfarg_pmd pmd = { .reg_num = PFM_SW_BASE };
	struct pfm_context *ctx = test->priv;
	struct perf_event *event;
	struct pfm_reg *reg;
	struct pmu *pmu;

	pmu = kunit_kzalloc(test, sizeof(*pmu), GFP_KERNEL);
	event = kunit_kzalloc(test, sizeof(*event), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, pmu);
	KUNIT_ASSERT_NOT_NULL(test, event);
	guard(mutex)(&ctx->mutex);
	KUNIT_ASSERT_EQ(test, 0, pfm_pmds_write(ctx, &pmd, 1));
	reg = pfm_reg_find(pfm_set_find(ctx, 0), PFM_SW_BASE);
	KUNIT_ASSERT_NOT_NULL(test, reg);
	pmu->check_period = refuse_a_period_of_one;
	event->pmu = pmu;
	event->state = PERF_EVENT_STATE_OFF;
	event->attr.sample_period = 2;
	reg->event = event;
	reg->kind = PFM_KIND_HW;
	pfm_reg_set(reg, -1ULL);
	KUNIT_EXPECT_EQ(test, 2, event->hw.sample_period);
	KUNIT_EXPECT_EQ(test, 2, local64_read(&event->hw.period_left));
	pfm_reg_set(reg, -3ULL);
	KUNIT_EXPECT_EQ(test, 3, event->hw.sample_period);
	KUNIT_EXPECT_EQ(test, 3, local64_read(&event->hw.period_left));
	reg->event = NULL;
}

static void threads_that_stay_in_the_kernel_cannot_block(struct kunit *test)
{
	struct task_struct *task;

	task = kunit_kzalloc(test, sizeof(*task), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, task);
	KUNIT_EXPECT_TRUE(test, pfm_can_block(task));
	task->flags = PF_FORKNOEXEC | PF_SUPERPRIV;
	KUNIT_EXPECT_TRUE(test, pfm_can_block(task));
	task->flags = PF_KTHREAD;
	KUNIT_EXPECT_FALSE(test, pfm_can_block(task));
	task->flags = PF_USER_WORKER;
	KUNIT_EXPECT_FALSE(test, pfm_can_block(task));
	task->flags = PF_USER_WORKER | PF_IO_WORKER;
	KUNIT_EXPECT_FALSE(test, pfm_can_block(task));
}

static void register_is_found_by_its_number_alone(struct kunit *test)
{
	struct pfarg_pmd pmd = { .reg_num = PFM_SW_BASE + PERF_COUNT_SW_PAGE_FAULTS };
	struct pfm_context *ctx = test->priv;
	struct pfm_set *set = pfm_set_find(ctx, 0);
	unsigned int num;

	guard(mutex)(&ctx->mutex);
	KUNIT_ASSERT_EQ(test, 0, pfm_pmds_write(ctx, &pmd, 1));
	for (num = 0; num <= U16_MAX; num++) {
		struct pfm_reg *reg = pfm_reg_find(set, num);

		KUNIT_EXPECT_EQ(test, num == pmd.reg_num, !!reg);
		if (reg)
			KUNIT_EXPECT_EQ(test, num, reg->num);
	}
}

static void each_object_of_a_context_is_charged(struct kunit *test)
{
	struct pfarg_pmd pmd = { .reg_num = PFM_SW_BASE };
	struct pfarg_setdesc desc = { .set_id = 5 };
	struct pfm_context *ctx = test->priv;
	size_t mem = ctx->mem;

	guard(mutex)(&ctx->mutex);
	KUNIT_EXPECT_LT(test, sizeof(*ctx), mem);
	KUNIT_ASSERT_EQ(test, 0, make_set(ctx, 5, 0, 0));
	KUNIT_EXPECT_EQ(test, mem + SZ_2K, ctx->mem);
	/* The write creates two registers: that of reg_num and that in reg_smpl_pmds. */
	pmd.reg_set = 5;
	__set_bit(PFM_SW_BASE + 1, (unsigned long *)pmd.reg_smpl_pmds);
	KUNIT_ASSERT_EQ(test, 0, pfm_pmds_write(ctx, &pmd, 1));
	KUNIT_EXPECT_EQ(test, mem + SZ_2K + 2 * kmalloc_size_roundup(sizeof(struct pfm_reg)),
			ctx->mem);
	KUNIT_ASSERT_EQ(test, 0, pfm_pmds_write(ctx, &pmd, 1));
	KUNIT_EXPECT_EQ(test, PFN_UP(ctx->mem), ctx->charge.allowed + ctx->charge.locked);
	KUNIT_ASSERT_EQ(test, 0, pfm_sets_delete(ctx, &desc, 1));
	KUNIT_EXPECT_EQ(test, mem, ctx->mem);
	KUNIT_EXPECT_EQ(test, PFN_UP(ctx->mem), ctx->charge.allowed + ctx->charge.locked);
}

#ifdef CONFIG_X86
static void x86_levels_come_from_the_value(struct kunit *test)
{
	const struct pfm_pmu_map *map = pfm_arch_map();
	struct pfm_pmc_val *pmcs;
	struct perf_event_attr attr = { };

	if (!map)
		kunit_skip(test, "no PMU of the CPU");
	pmcs = kunit_kcalloc(test, PFM_MAX_PMCS, sizeof(*pmcs), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, pmcs);
	KUNIT_EXPECT_EQ(test, -ENOENT, map->to_attr(0, pmcs, &attr));
	pmcs[0] = (struct pfm_pmc_val) { .value = 0x5101c2, .used = true };
	KUNIT_EXPECT_EQ(test, 0, map->to_attr(0, pmcs, &attr));
	KUNIT_EXPECT_EQ(test, PERF_TYPE_RAW, attr.type);
	KUNIT_EXPECT_EQ(test, 0x1c2ULL, attr.config);
	KUNIT_EXPECT_FALSE(test, attr.exclude_user);
	KUNIT_EXPECT_TRUE(test, attr.exclude_kernel);
	pmcs[0].value = 0x15201c2;
	KUNIT_EXPECT_EQ(test, 0, map->to_attr(0, pmcs, &attr));
	KUNIT_EXPECT_EQ(test, 0x10001c2ULL, attr.config);
	KUNIT_EXPECT_TRUE(test, attr.exclude_user);
	KUNIT_EXPECT_FALSE(test, attr.exclude_kernel);
	KUNIT_EXPECT_EQ(test, 0x100000ULL, map->pmc_dfl(0));
	KUNIT_EXPECT_EQ(test, 0x100000ULL, map->pmc_rsvd(0) & 0xd00000);
}

static void x86_counter_is_off_without_a_level_or_enable(struct kunit *test)
{
	/* With both bits; without INT, which perf sets; three ways to be off */
	static const struct {
		u64 value;
		int ret;
	} wrote[] = {
		{ 0x5100c0, 0 }, { 0x4100c0, 0 }, { 0x1100c0, -ENOENT },
		{ 0x5000c0, -ENOENT }, { 0, -ENOENT },
	};
	const struct pfm_pmu_map *map = pfm_arch_map();
	struct perf_event_attr attr = { };
	struct pfm_pmc_val *pmcs;
	int i;

	if (!map)
		kunit_skip(test, "no PMU of the CPU");
	pmcs = kunit_kcalloc(test, PFM_MAX_PMCS, sizeof(*pmcs), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, pmcs);
	for (i = 0; i < ARRAY_SIZE(wrote); i++) {
		pmcs[0] = (struct pfm_pmc_val) { .value = wrote[i].value, .used = true };
		KUNIT_EXPECT_EQ(test, 0, map->check(0, wrote[i].value, 0));
		KUNIT_EXPECT_EQ(test, wrote[i].ret, map->to_attr(0, pmcs, &attr));
	}
	/* The PMI bits of some counters, of all, of none */
	KUNIT_EXPECT_EQ(test, 0, map->check(16, 0x0b0, 0));
	KUNIT_EXPECT_EQ(test, 0, map->check(16, 0xbbb, 0));
	KUNIT_EXPECT_EQ(test, 0, map->check(16, 0x030, 0));
	KUNIT_EXPECT_EQ(test, -EINVAL, map->check(16, 0x004, 0));
	KUNIT_EXPECT_EQ(test, -EINVAL, map->check(0, 0x5100c0 | BIT_ULL(50), 0));
}
#endif

#ifdef CONFIG_ARM_PMUV3
static void arm_levels_come_from_the_value(struct kunit *test)
{
	const struct pfm_pmu_map *map = pfm_arch_map();
	const u64 p = BIT_ULL(31), u = BIT_ULL(30), nsh = BIT_ULL(27);
	struct perf_event_attr attr = { };
	struct pfm_pmc_val *pmcs;

	if (!map)
		kunit_skip(test, "no PMU of the CPU, or several kinds of cores");
	pmcs = kunit_kcalloc(test, PFM_MAX_PMCS, sizeof(*pmcs), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, pmcs);
	KUNIT_EXPECT_EQ(test, -ENOENT, map->to_attr(0, pmcs, &attr));
	pmcs[0] = (struct pfm_pmc_val) { .value = p | 0x4008, .used = true };
	KUNIT_EXPECT_EQ(test, 0, map->to_attr(0, pmcs, &attr));
	KUNIT_EXPECT_EQ(test, PERF_TYPE_RAW, attr.type);
	KUNIT_EXPECT_EQ(test, 0x4008ULL, attr.config);
	KUNIT_EXPECT_FALSE(test, attr.exclude_user);
	KUNIT_EXPECT_TRUE(test, attr.exclude_kernel);
	KUNIT_EXPECT_TRUE(test, attr.exclude_hv);
	pmcs[0].value = u | nsh | 0x4008;
	KUNIT_EXPECT_EQ(test, 0, map->to_attr(0, pmcs, &attr));
	KUNIT_EXPECT_TRUE(test, attr.exclude_user);
	KUNIT_EXPECT_FALSE(test, attr.exclude_kernel);
	KUNIT_EXPECT_FALSE(test, attr.exclude_hv);
	pmcs[0].value = p | u | nsh | 0x4008;
	KUNIT_EXPECT_EQ(test, -ENOENT, map->to_attr(0, pmcs, &attr));
	pmcs[31] = (struct pfm_pmc_val) { .value = p, .used = true };
	KUNIT_EXPECT_EQ(test, 0, map->to_attr(31, pmcs, &attr));
	KUNIT_EXPECT_EQ(test, 0x11ULL, attr.config);
	KUNIT_EXPECT_EQ(test, ~(p | u | nsh | 0xffff), map->pmc_rsvd(0));
	KUNIT_EXPECT_EQ(test, ~(p | u | nsh), map->pmc_rsvd(31));
	KUNIT_EXPECT_EQ(test, -EINVAL, map->check(31, 0x11, 0));
	KUNIT_EXPECT_EQ(test, -EINVAL, map->check(0, 0x11, PFM_REGFL_EXCL_USER));
	KUNIT_EXPECT_EQ(test, 0, map->check(0, p | 0x11, 0));
}
#endif

static void each_register_of_a_map_has_a_slot_of_its_own(struct kunit *test)
{
	static const struct pfm_pmu_map all = { .pmcs = ~0ULL, .pmds = ~0ULL };
	DECLARE_BITMAP(slots, PFM_NR_SLOTS) = { };
	struct pfm_context *ctx = test->priv;
	const struct pfm_pmu_map *map = ctx->map;
	unsigned int num, slot;

	ctx->map = &all;
	for (num = 0; num < PFM_MAX_REGS; num++) {
		if (!pfm_pmd_exists(ctx, num))
			continue;
		slot = pfm_reg_index(num);
		KUNIT_ASSERT_LT_MSG(test, slot, PFM_NR_SLOTS, "register %u", num);
		KUNIT_EXPECT_FALSE_MSG(test, __test_and_set_bit(slot, slots), "register %u", num);
	}
	/* The instruction counter of arm64 */
	KUNIT_EXPECT_TRUE(test, pfm_pmd_exists(ctx, 32));
	KUNIT_EXPECT_FALSE(test, pfm_pmd_exists(ctx, 63));
	KUNIT_EXPECT_FALSE(test, pfm_pmc_exists(ctx, 64));
	ctx->map = map;
}

static struct kunit_case perfmon_cases[] = {
	KUNIT_CASE(sets_follow_in_order_whatever_their_creation),
	KUNIT_CASE(explicit_successor_is_followed),
	KUNIT_CASE(deleted_set_is_not_active),
	KUNIT_CASE(period_is_what_is_left_to_zero),
	KUNIT_CASE(random_bits_make_a_period_longer),
	KUNIT_CASE(ninth_message_finds_no_place_but_the_end_does),
	KUNIT_CASE(longest_step_is_forgiven),
	KUNIT_CASE(steps_of_a_tick_each_are_too_long),
	KUNIT_CASE(one_long_switch_makes_no_timeout_longer),
	KUNIT_CASE(long_switches_to_one_of_two_sets_make_its_timeout_longer),
	KUNIT_CASE(period_of_one_is_not_forced_on_a_pmu),
	KUNIT_CASE(threads_that_stay_in_the_kernel_cannot_block),
	KUNIT_CASE(register_is_found_by_its_number_alone),
	KUNIT_CASE(each_register_of_a_map_has_a_slot_of_its_own),
	KUNIT_CASE(each_object_of_a_context_is_charged),
#ifdef CONFIG_X86
	KUNIT_CASE(x86_levels_come_from_the_value),
	KUNIT_CASE(x86_counter_is_off_without_a_level_or_enable),
#endif
#ifdef CONFIG_ARM_PMUV3
	KUNIT_CASE(arm_levels_come_from_the_value),
#endif
	{}
};

static struct kunit_suite perfmon_suite = {
	.name		= "perfmon",
	.init		= perfmon_init,
	.exit		= perfmon_exit,
	.test_cases	= perfmon_cases,
};

kunit_test_suite(perfmon_suite);

MODULE_DESCRIPTION("KUnit tests of the event set system calls");
MODULE_LICENSE("GPL");
