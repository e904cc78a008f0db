// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of the perf user page: its contents, when it is written, and what a
 * program finds that reads it during an update.
 *
 * The test makes the event by hand, with a PMU whose pmu::event_idx() tells the counter.
 * The kernel calls it in the middle of each update, so this is where tests let another
 * writer interrupt the update.
 */

#include <kunit/test.h>
#include <linux/cpumask.h>
#include <linux/hrtimer.h>
#include <linux/jiffies.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/perf_event.h>
#include <linux/preempt.h>
#include <linux/prandom.h>
#include <linux/sched.h>
#include <linux/sched/clock.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "../internal.h"

#define EVENT_ID	4711
#define NR_DATA_PAGES	2

struct user_page_test {
	struct perf_event		event;
	struct perf_event_context	ctx;
	struct pmu			pmu;
	struct perf_buffer		*rb;
	struct perf_event_mmap_page	*page;
	/* Hook that is called once, in the middle of the next update. */
	void				(*interrupt)(struct user_page_test *up);
	/* Lock in the page and CPU, as seen inside of the last update. */
	u32				lock_inside;
	int				cpu;
};

static int test_event_idx(struct perf_event *event)
{
	struct user_page_test *up = container_of(event->pmu, struct user_page_test, pmu);
	void (*interrupt)(struct user_page_test *up) = up->interrupt;
	int idx = event->hw.idx;

	up->lock_inside = READ_ONCE(up->page->lock);
	up->cpu = raw_smp_processor_id();
	if (interrupt) {
		up->interrupt = NULL;
		interrupt(up);
	}
	/* The interrupted update must not see a change. */
	return idx;
}

static void test_read(struct perf_event *event)
{
}

static void user_page_event(struct user_page_test *up, struct perf_event *event, u64 id)
{
	event->id = id;
	event->pmu = &up->pmu;
	event->ctx = &up->ctx;
	event->group_leader = event;
	INIT_LIST_HEAD(&event->sibling_list);
	INIT_LIST_HEAD(&event->active_list);
	event->cpu = -1;
	event->oncpu = -1;
	event->attach_state = PERF_ATTACH_TASK;
	event->state = PERF_EVENT_STATE_ACTIVE;
}

static u64 *ctx_time(struct user_page_test *up)
{
	return &up->ctx.time;
}

static u64 *ctx_timestamp(struct user_page_test *up)
{
	return &up->ctx.timestamp;
}

static int user_page_test_init(struct kunit *test)
{
	struct user_page_test *up = kvzalloc(sizeof(*up), GFP_KERNEL);

	if (!up)
		return -ENOMEM;

	test->priv = up;
	up->pmu.event_idx = test_event_idx;
	up->pmu.read = test_read;
	raw_spin_lock_init(&up->ctx.lock);
	user_page_event(up, &up->event, EVENT_ID);
	up->rb = rb_alloc(NR_DATA_PAGES, 0, -1, RING_BUFFER_WRITABLE);
	if (!up->rb)
		return -ENOMEM;

	up->page = up->rb->user_page;
	perf_event_init_userpage(&up->event, up->rb);
	rcu_assign_pointer(up->event.rb, up->rb);
	return 0;
}

static void user_page_test_exit(struct kunit *test)
{
	struct user_page_test *up = test->priv;

	if (!up)
		return;

	if (up->rb)
		rb_free(up->rb);
	kvfree(up);
}

static void update(struct user_page_test *up)
{
	unsigned long flags;

	local_irq_save(flags);
	perf_event_update_userpage(&up->event);
	local_irq_restore(flags);
}

/* Act as a driver that is called in an NMI. */
static void update_in_nmi(struct user_page_test *up)
{
	unsigned long flags;

	local_irq_save(flags);
	__preempt_count_add(NMI_OFFSET);
	perf_event_update_userpage(&up->event);
	__preempt_count_sub(NMI_OFFSET);
	local_irq_restore(flags);
}

/* Give the event another counter and another count, never the same pair twice. */
static void move_counter(struct user_page_test *up, u32 round)
{
	up->event.hw.idx = 1 + round % 6;
	local64_set(&up->event.count, 1000000ULL * round);
	local64_set(&up->event.hw.prev_count, 7 * round);
}

static void move_times(struct user_page_test *up, u32 round)
{
	*ctx_timestamp(up) = 1000ULL * round;
}

/*
 * Values that a reader has copied from the page. counter_is() and times_are() tell of
 * which round of move_counter() and move_times() they are.
 */
struct page_copy {
	u32	lock;
	u32	index;
	s64	offset;
	u64	enabled;
	u64	running;
};

static bool counter_is(const struct page_copy *copy, u32 round)
{
	return copy->index == 1 + round % 6 &&
	       copy->offset == 1000000LL * round - 7 * round;
}

/* 32-bit kernels read the clock for both times, so a test knows only that they agree. */
static bool times_are(const struct page_copy *copy, u32 round)
{
	if (!IS_ENABLED(CONFIG_64BIT))
		return copy->enabled == copy->running;
	return copy->enabled == 1000ULL * round && copy->running == 1000ULL * round;
}

static void take_copy(struct user_page_test *up, struct page_copy *copy)
{
	copy->lock = READ_ONCE(up->page->lock);
	copy->index = READ_ONCE(up->page->index);
	copy->offset = READ_ONCE(up->page->offset);
	copy->enabled = READ_ONCE(up->page->time_enabled);
	copy->running = READ_ONCE(up->page->time_running);
}

/* Layout and init */

static u64 word_at(struct user_page_test *up, unsigned int offset, unsigned int size)
{
	const void *at = (void *)up->page + offset;

	return size == 8 ? *(u64 *)at : size == 4 ? *(u32 *)at : *(u16 *)at;
}

/* Existing programs have these offsets built in. */
static void fields_are_where_programs_look(struct kunit *test)
{
	struct user_page_test *up = test->priv;

	up->event.hw.idx = 3;
	local64_set(&up->event.count, 0x1122334455667788);
	*ctx_timestamp(up) = 5000;
	up->event.total_time_enabled = 300;
	up->event.total_time_running = 200;
	update(up);

	KUNIT_EXPECT_EQ(test, word_at(up, 0, 4), 0);
	KUNIT_EXPECT_EQ(test, word_at(up, 4, 4), 0);
	KUNIT_EXPECT_EQ(test, word_at(up, 8, 4), 2);
	KUNIT_EXPECT_EQ(test, word_at(up, 12, 4), 3);
	KUNIT_EXPECT_EQ(test, word_at(up, 16, 8), 0x1122334455667788);
	KUNIT_EXPECT_EQ(test, word_at(up, 24, 8) - word_at(up, 32, 8), 100);
	KUNIT_EXPECT_EQ(test, word_at(up, 32, 8), up->page->time_running);
	KUNIT_EXPECT_EQ(test, word_at(up, 40, 8), up->page->capabilities);
	KUNIT_EXPECT_EQ(test, word_at(up, 48, 2), up->page->pmc_width);
	KUNIT_EXPECT_EQ(test, word_at(up, 72, 4), 96);
	KUNIT_EXPECT_EQ(test, word_at(up, 1024, 8), 0);
	KUNIT_EXPECT_EQ(test, word_at(up, 1040, 8), PAGE_SIZE);
	KUNIT_EXPECT_EQ(test, word_at(up, 1048, 8), NR_DATA_PAGES * PAGE_SIZE);
	KUNIT_EXPECT_EQ(test, word_at(up, 1072, 8), 0);
}

static void fresh_page_says_that_bit_0_is_deprecated(struct kunit *test)
{
	struct user_page_test *up = test->priv;

	KUNIT_EXPECT_FALSE(test, up->page->cap_bit0);
	KUNIT_EXPECT_TRUE(test, up->page->cap_bit0_is_deprecated);
	update(up);
	KUNIT_EXPECT_FALSE(test, up->page->cap_bit0);
	KUNIT_EXPECT_TRUE(test, up->page->cap_bit0_is_deprecated);
}

static void unmapped_event_has_nothing_to_write(struct kunit *test)
{
	struct user_page_test *up = test->priv;
	u32 lock = up->page->lock;

	RCU_INIT_POINTER(up->event.rb, NULL);
	update(up);
	KUNIT_EXPECT_EQ(test, up->page->lock, lock);
}

/* Capabilities */

struct limits_row {
	const char	*name;
	bool		software;
	bool		task;
	int		cpu;
	bool		cgroup;
	bool		counter;
	bool		time;
};

static const struct limits_row limits_rows[] = {
	{ "task",		false, true,  -1, false, true,  true },
	{ "task on one CPU",	false, true,   0, false, true,  false },
	{ "whole CPU",		false, false,  0, false, true,  true },
	{ "cgroup",		false, false,  0, true,  true,  false },
	{ "software",		true,  true,  -1, false, false, true },
	{ "software on one CPU", true, true,   0, false, false, false },
};

static void limits_row_name(const struct limits_row *row, char *desc)
{
	strscpy(desc, row->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(limits, limits_rows, limits_row_name);

/* The page must offer what the architecture offers, except what the event cannot keep. */
static void page_promises_only_what_its_event_keeps(struct kunit *test)
{
	const struct limits_row *row = test->param_value;
	struct user_page_test *up = test->priv;
	struct perf_event *event = &up->event;
	struct perf_event_mmap_page *arch;

	arch = kunit_kzalloc(test, sizeof(*arch), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, arch);
	if (row->software)
		event->event_caps |= PERF_EV_CAP_SOFTWARE;
	if (!row->task)
		event->attach_state = 0;
	event->cpu = row->cpu;
#ifdef CONFIG_CGROUP_PERF
	/* The kernel only compares this with NULL as long as the times stand still. */
	if (row->cgroup)
		event->cgrp = (void *)event;
#else
	if (row->cgroup)
		kunit_skip(test, "needs CONFIG_CGROUP_PERF");
#endif
	event->hw.flags = PERF_EVENT_FLAG_USER_READ_CNT;
	arch_perf_update_userpage(event, up->page, 0);
	/* Without either capability the test could not see the limits. */
	up->page->cap_user_rdpmc = 1;
	up->page->cap_user_time = 1;
	*arch = *up->page;
	arch_perf_update_userpage(event, arch, 0);

	perf_event_init_userpage(event, up->rb);
	KUNIT_EXPECT_EQ(test, (bool)up->page->cap_user_rdpmc, row->counter && arch->cap_user_rdpmc);
	KUNIT_EXPECT_EQ(test, (bool)up->page->cap_user_time, row->time && arch->cap_user_time);
	KUNIT_EXPECT_EQ(test, up->page->pmc_width, arch->pmc_width);
	KUNIT_EXPECT_EQ(test, up->page->time_mult, arch->time_mult);
	KUNIT_EXPECT_EQ(test, up->page->time_shift, arch->time_shift);
#ifdef CONFIG_CGROUP_PERF
	if (event->cgrp) {
		event->cgrp = NULL;
		return;
	}
#endif
	up->page->capabilities = 0;
	update(up);
	KUNIT_EXPECT_EQ(test, (bool)up->page->cap_user_rdpmc, row->counter && arch->cap_user_rdpmc);
	KUNIT_EXPECT_EQ(test, (bool)up->page->cap_user_time, row->time && arch->cap_user_time);
}

/* The index and the offset of the user page */

static void offset_and_counter_make_the_count(struct kunit *test)
{
	struct user_page_test *up = test->priv;

	up->event.hw.idx = 2;
	local64_set(&up->event.count, 1000);
	local64_set(&up->event.hw.prev_count, 40);
	update(up);
	KUNIT_EXPECT_EQ(test, up->page->index, 2);
	KUNIT_EXPECT_EQ(test, up->page->offset + 40, 1000);
}

static void event_without_counter_is_all_offset(struct kunit *test)
{
	struct user_page_test *up = test->priv;

	local64_set(&up->event.count, 1000);
	local64_set(&up->event.hw.prev_count, 40);
	update(up);
	KUNIT_EXPECT_EQ(test, up->page->index, 0);
	KUNIT_EXPECT_EQ(test, up->page->offset, 1000);
}

static void stopped_event_has_no_index(struct kunit *test)
{
	struct user_page_test *up = test->priv;

	move_counter(up, 9);
	update(up);
	KUNIT_ASSERT_NE(test, up->page->index, 0);
	up->event.hw.state = PERF_HES_STOPPED;
	update(up);
	KUNIT_EXPECT_EQ(test, up->page->index, 0);
	KUNIT_EXPECT_EQ(test, up->page->offset, 9000000);
}

static void event_off_its_pmu_has_no_index(struct kunit *test)
{
	static const enum perf_event_state states[] = {
		PERF_EVENT_STATE_DEAD, PERF_EVENT_STATE_EXIT, PERF_EVENT_STATE_ERROR,
		PERF_EVENT_STATE_OFF, PERF_EVENT_STATE_INACTIVE,
	};
	struct user_page_test *up = test->priv;
	int i;

	move_counter(up, 9);
	for (i = 0; i < ARRAY_SIZE(states); i++) {
		up->event.state = PERF_EVENT_STATE_ACTIVE;
		update(up);
		KUNIT_ASSERT_NE(test, up->page->index, 0);
		up->event.state = states[i];
		update(up);
		KUNIT_EXPECT_EQ(test, up->page->index, 0);
		KUNIT_EXPECT_EQ(test, up->page->offset, 9000000);
	}
}

struct width_row {
	const char	*name;
	u16		width;
	s64		prev;
	s64		counter;
};

/* A reader computes @counter if the hardware counter holds @prev. */
static const struct width_row width_rows[] = {
	{ "48 bits, as started",	48, -100, -100 },
	{ "48 bits, as read",		48, (1LL << 48) - 100, -100 },
	{ "48 bits, positive",		48, 100, 100 },
	{ "32 bits, as read",		32, (1LL << 32) - 1, -1 },
	{ "64 bits",			64, 1LL << 48, 1LL << 48 },
	{ "no width",			0, 1LL << 48, 1LL << 48 },
	{ "a width that the user wrote", 1000, 1LL << 48, 1LL << 48 },
};

static void width_row_name(const struct width_row *row, char *desc)
{
	strscpy(desc, row->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(width, width_rows, width_row_name);

/* Update in an NMI, which does not change the width that the architecture has set. */
static void counter_is_taken_as_wide_as_readers_take_it(struct kunit *test)
{
	const struct width_row *row = test->param_value;
	struct user_page_test *up = test->priv;

	up->event.hw.idx = 1;
	local64_set(&up->event.count, 5000);
	local64_set(&up->event.hw.prev_count, row->prev);
	up->page->pmc_width = row->width;
	update_in_nmi(up);
	KUNIT_EXPECT_EQ(test, up->page->offset + row->counter, 5000);
}

/* Times */

static void times_of_a_running_event_go_to_the_last_switch(struct kunit *test)
{
	struct user_page_test *up = test->priv;

	if (!IS_ENABLED(CONFIG_64BIT))
		kunit_skip(test, "the clock is read in its place");
	up->event.total_time_enabled = 300;
	up->event.total_time_running = 200;
	up->event.tstamp = 1500;
	*ctx_timestamp(up) = 10000;
	up->ctx.timeoffset = -8000;
	update(up);
	KUNIT_EXPECT_EQ(test, up->page->time_enabled, 800);
	KUNIT_EXPECT_EQ(test, up->page->time_running, 700);
}

/* The two values differ in their upper and in their lower halves. */
static const u64 far_times[] = { (5000ULL << 32) - 1, 5000ULL << 32 };

static int bring_context_up_to_date(void *data)
{
	struct user_page_test *up = data;
	unsigned int i = 0;

	while (!kthread_should_stop()) {
		WRITE_ONCE(*ctx_timestamp(up), far_times[i++ % 2]);
		if (!(i % 1024))
			cond_resched();
	}
	return 0;
}

/* read(2) of an inactive event updates the time of the context, on any CPU. */
static void time_is_never_made_of_two_halves(struct kunit *test)
{
	struct user_page_test *up = test->priv;
	unsigned long end = jiffies + HZ / 2;
	struct task_struct *other;
	u64 enabled;

	*ctx_timestamp(up) = far_times[0];
	other = kthread_run(bring_context_up_to_date, up, "user_page_kunit");
	KUNIT_ASSERT_FALSE(test, IS_ERR(other));
	do {
		update(up);
		enabled = up->page->time_enabled;
		cond_resched();
	} while (time_before(jiffies, end) &&
		 (enabled == far_times[0] || enabled == far_times[1] ||
		  enabled <= local_clock()));
	kthread_stop(other);
	KUNIT_EXPECT_TRUE_MSG(test, time_after_eq(jiffies, end), "%llx", enabled);
}

static void waiting_event_is_enabled_and_does_not_run(struct kunit *test)
{
	struct user_page_test *up = test->priv;

	up->event.state = PERF_EVENT_STATE_INACTIVE;
	up->event.total_time_enabled = 300;
	up->event.total_time_running = 200;
	up->event.tstamp = 1500;
	*ctx_time(up) = 2000;
	update(up);
	KUNIT_EXPECT_EQ(test, up->page->time_enabled, 800);
	KUNIT_EXPECT_EQ(test, up->page->time_running, 200);
}

/* Readers would add the clock, which goes on, so the page must not offer it. */
static void times_of_a_disabled_event_stand(struct kunit *test)
{
	struct user_page_test *up = test->priv;

	up->event.state = PERF_EVENT_STATE_OFF;
	up->event.total_time_enabled = 300;
	up->event.total_time_running = 200;
	up->event.tstamp = 1500;
	*ctx_time(up) = 2000;
	*ctx_timestamp(up) = 2000;
	up->page->cap_user_time = 1;
	update(up);
	KUNIT_EXPECT_EQ(test, up->page->time_enabled, 300);
	KUNIT_EXPECT_EQ(test, up->page->time_running, 200);
	KUNIT_EXPECT_FALSE(test, up->page->cap_user_time);
}

static void event_never_enabled_keeps_what_tells_of_the_clock(struct kunit *test)
{
	struct user_page_test *up = test->priv;

	up->event.state = PERF_EVENT_STATE_OFF;
	*ctx_time(up) = 2000;
	up->page->cap_user_time = 1;
	update(up);
	KUNIT_EXPECT_EQ(test, up->page->time_enabled, 0);
	KUNIT_EXPECT_TRUE(test, up->page->cap_user_time);
}

static void times_of_a_member_stand_with_its_leader(struct kunit *test)
{
	struct user_page_test *up = test->priv;
	struct perf_event *leader = kunit_kzalloc(test, sizeof(*leader), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, leader);
	user_page_event(up, leader, EVENT_ID + 1);
	leader->state = PERF_EVENT_STATE_OFF;
	up->event.group_leader = leader;
	up->event.state = PERF_EVENT_STATE_INACTIVE;
	up->event.total_time_enabled = 300;
	up->event.tstamp = 1500;
	*ctx_time(up) = 2000;
	up->page->cap_user_time = 1;
	update(up);
	KUNIT_EXPECT_EQ(test, up->page->time_enabled, 300);
	KUNIT_EXPECT_FALSE(test, up->page->cap_user_time);
}

static void children_that_have_ended_are_included(struct kunit *test)
{
	struct user_page_test *up = test->priv;

	up->event.attr.inherit = 1;
	up->event.state = PERF_EVENT_STATE_OFF;
	up->event.total_time_enabled = 300;
	up->event.total_time_running = 200;
	local64_set(&up->event.count, 1000);
	atomic64_set(&up->event.child_total_time_enabled, 5000);
	atomic64_set(&up->event.child_total_time_running, 4000);
	atomic64_set(&up->event.child_count, 70000);
	update(up);
	KUNIT_EXPECT_EQ(test, up->page->time_enabled, 5300);
	KUNIT_EXPECT_EQ(test, up->page->time_running, 4200);
	KUNIT_EXPECT_EQ(test, up->page->offset, 71000);
}

/* The task has exited, or the descriptor was closed. */
static void times_of_a_closed_event_stand(struct kunit *test)
{
	static const enum perf_event_state states[] = {
		PERF_EVENT_STATE_EXIT, PERF_EVENT_STATE_DEAD,
	};
	struct user_page_test *up = test->priv;
	int i;

	up->event.total_time_enabled = 300;
	up->event.total_time_running = 200;
	for (i = 0; i < ARRAY_SIZE(states); i++) {
		up->event.state = states[i];
		up->page->cap_user_time = 1;
		*ctx_time(up) += 1000;
		update(up);
		KUNIT_EXPECT_EQ(test, up->page->time_enabled, 300);
		KUNIT_EXPECT_EQ(test, up->page->time_running, 200);
		KUNIT_EXPECT_FALSE(test, up->page->cap_user_time);
	}
}

/* With PERF_EVENT_IOC_SET_OUTPUT an event writes to the buffer of another one. */
static void redirected_event_leaves_the_page_alone(struct kunit *test)
{
	struct user_page_test *up = test->priv;
	struct perf_event *guest = kunit_kzalloc(test, sizeof(*guest), GFP_KERNEL);
	struct perf_event_mmap_page *before;
	struct page_copy copy;

	before = kunit_kmalloc(test, PAGE_SIZE, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, before);
	KUNIT_ASSERT_NOT_NULL(test, guest);
	user_page_event(up, guest, EVENT_ID + 1);
	move_counter(up, 1);
	move_times(up, 1);
	update(up);
	memcpy(before, up->page, PAGE_SIZE);

	rcu_assign_pointer(guest->rb, up->rb);
	move_times(up, 2);
	guest->hw.idx = 5;
	local64_set(&guest->count, 42);
	perf_event_update_userpage(guest);
	guest->state = PERF_EVENT_STATE_OFF;
	guest->total_time_enabled = 1;
	perf_event_update_userpage(guest);
	KUNIT_EXPECT_MEMEQ(test, up->page, before, PAGE_SIZE);

	update(up);
	take_copy(up, &copy);
	KUNIT_EXPECT_TRUE(test, counter_is(&copy, 1));
	KUNIT_EXPECT_TRUE(test, times_are(&copy, 2));
}

/* In __perf_event_disable(), a driver may update the page before the event is off. */
static void page_waits_until_the_event_is_off(struct kunit *test)
{
	struct user_page_test *up = test->priv;
	struct page_copy copy;

	move_counter(up, 1);
	move_times(up, 1);
	update(up);
	up->event.userpage_waits = true;
	move_counter(up, 2);
	update(up);
	take_copy(up, &copy);
	KUNIT_EXPECT_TRUE(test, counter_is(&copy, 1));

	up->event.state = PERF_EVENT_STATE_OFF;
	perf_event_update_group_userpage(&up->event);
	KUNIT_EXPECT_EQ(test, up->page->index, 0);
	KUNIT_EXPECT_EQ(test, up->page->offset, 2000000);
	KUNIT_EXPECT_FALSE(test, up->event.userpage_waits);
}

static void members_are_published_with_their_leader(struct kunit *test)
{
	struct user_page_test *up = test->priv;
	struct perf_event *leader = kunit_kzalloc(test, sizeof(*leader), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, leader);
	user_page_event(up, leader, EVENT_ID + 1);
	list_add_tail(&up->event.sibling_list, &leader->sibling_list);
	up->event.group_leader = leader;
	leader->state = PERF_EVENT_STATE_OFF;
	up->event.state = PERF_EVENT_STATE_INACTIVE;
	up->event.total_time_enabled = 300;
	perf_event_update_group_userpage(leader);
	KUNIT_EXPECT_EQ(test, up->page->time_enabled, 300);
	list_del_init(&up->event.sibling_list);
}

/* On which CPU the page is written */

static void page_of_an_event_that_waits_is_written_here(struct kunit *test)
{
	struct user_page_test *up = test->priv;

	up->event.state = PERF_EVENT_STATE_INACTIVE;
	*ctx_time(up) = 2000;
	local64_set(&up->event.count, 1000);
	perf_event_publish(&up->event, false);
	KUNIT_EXPECT_EQ(test, up->page->offset, 1000);
	KUNIT_EXPECT_EQ(test, up->page->time_enabled, 2000);
	KUNIT_EXPECT_TRUE(test, up->event.has_userpage);
	perf_event_publish(&up->event, true);
	KUNIT_EXPECT_EQ(test, up->page->offset, 0);
	KUNIT_EXPECT_EQ(test, up->page->lock, 4);
}

static void page_of_a_running_event_is_written_on_its_cpu(struct kunit *test)
{
	struct user_page_test *up = test->priv;
	int cpu;

	for_each_online_cpu(cpu) {
		up->event.oncpu = cpu;
		up->cpu = -1;
		perf_event_publish(&up->event, false);
		KUNIT_EXPECT_EQ(test, up->cpu, cpu);
	}
}

/* The publish protocol */

static void lock_is_even_outside_of_updates(struct kunit *test)
{
	struct user_page_test *up = test->priv;
	u32 round, before;

	KUNIT_EXPECT_EQ(test, up->page->lock, 0);
	for (round = 1; round < 100; round++) {
		before = up->page->lock;
		move_counter(up, round);
		if (round % 3)
			update(up);
		else
			update_in_nmi(up);
		KUNIT_ASSERT_EQ(test, up->page->lock % 2, 0);
		KUNIT_ASSERT_NE(test, up->page->lock, before);
	}
}

static void lock_is_odd_inside_of_an_update(struct kunit *test)
{
	struct user_page_test *up = test->priv;

	update(up);
	KUNIT_EXPECT_EQ(test, up->lock_inside % 2, 1);
	update_in_nmi(up);
	KUNIT_EXPECT_EQ(test, up->lock_inside % 2, 1);
}

static void lock_goes_on_beyond_its_end(struct kunit *test)
{
	struct user_page_test *up = test->priv;

	up->page->lock = U32_MAX - 1;
	update(up);
	KUNIT_EXPECT_EQ(test, up->lock_inside, U32_MAX);
	KUNIT_EXPECT_EQ(test, up->page->lock, 0);
}

/* The page is memory of the program, which may write any value to it. */
static void update_ends_whatever_the_program_writes(struct kunit *test)
{
	struct user_page_test *up = test->priv;
	struct page_copy copy;

	memset(up->page, 0xff, sizeof(*up->page));
	move_counter(up, 3);
	move_times(up, 3);
	update(up);
	take_copy(up, &copy);
	KUNIT_EXPECT_TRUE(test, counter_is(&copy, 3));
	KUNIT_EXPECT_TRUE(test, times_are(&copy, 3));
}

#define READER_STEPS	6

/* Read the page as programs do, with a writer that comes before step @at. */
static bool read_once(struct user_page_test *up, struct page_copy *copy,
		      int at, void (*write)(struct user_page_test *up))
{
	int step;

	for (step = 0; step < READER_STEPS; step++) {
		if (step == at)
			write(up);
		switch (step) {
		case 0:
			copy->lock = READ_ONCE(up->page->lock);
			break;
		case 1:
			copy->index = READ_ONCE(up->page->index);
			break;
		case 2:
			copy->offset = READ_ONCE(up->page->offset);
			break;
		case 3:
			copy->enabled = READ_ONCE(up->page->time_enabled);
			break;
		case 4:
			copy->running = READ_ONCE(up->page->time_running);
			break;
		}
	}
	return READ_ONCE(up->page->lock) == copy->lock;
}

static void write_second(struct user_page_test *up)
{
	move_counter(up, 2);
	move_times(up, 2);
	update(up);
}

static void write_second_in_nmi(struct user_page_test *up)
{
	move_counter(up, 2);
	update_in_nmi(up);
}

/* Update the page, and let an NMI within this update write the second counter. */
static void write_second_interrupted(struct user_page_test *up)
{
	move_counter(up, 3);
	move_times(up, 2);
	up->interrupt = write_second_in_nmi;
	update(up);
}

struct writer_row {
	const char	*name;
	void		(*write)(struct user_page_test *up);
	u32		times;
};

static const struct writer_row writer_rows[] = {
	{ "update",		write_second, 2 },
	{ "NMI",		write_second_in_nmi, 1 },
	{ "update with an NMI",	write_second_interrupted, 2 },
};

static void writer_row_name(const struct writer_row *row, char *desc)
{
	strscpy(desc, row->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(writer, writer_rows, writer_row_name);

static void reader_never_takes_parts_of_two_updates(struct kunit *test)
{
	const struct writer_row *row = test->param_value;
	struct user_page_test *up = test->priv;
	int at, again = 0;

	for (at = 0; at <= READER_STEPS; at++) {
		struct page_copy copy;

		move_counter(up, 1);
		move_times(up, 1);
		update(up);
		if (!read_once(up, &copy, at, row->write)) {
			again++;
			KUNIT_EXPECT_TRUE(test, read_once(up, &copy, -1, NULL));
		}
		if (at < READER_STEPS) {
			KUNIT_EXPECT_TRUE_MSG(test, counter_is(&copy, 2), "step %d", at);
			KUNIT_EXPECT_TRUE_MSG(test, times_are(&copy, row->times),
					      "step %d", at);
		} else {
			KUNIT_EXPECT_TRUE(test, counter_is(&copy, 1));
			KUNIT_EXPECT_TRUE(test, times_are(&copy, 1));
		}
	}
	/* All writers but those before and after the read make the reader retry. */
	KUNIT_EXPECT_EQ(test, again, READER_STEPS - 1);
}

/* Interrupted writers */

static void interrupted_update_leaves_what_the_nmi_found(struct kunit *test)
{
	struct user_page_test *up = test->priv;
	struct page_copy copy;

	move_counter(up, 3);
	move_times(up, 3);
	up->interrupt = write_second_in_nmi;
	update(up);
	take_copy(up, &copy);
	KUNIT_EXPECT_TRUE(test, counter_is(&copy, 2));
	KUNIT_EXPECT_TRUE(test, times_are(&copy, 3));
	KUNIT_EXPECT_EQ(test, copy.lock % 2, 0);
}

/* The code that an NMI interrupts may have changed some of the times, but not others. */
static void nmi_leaves_the_times_alone(struct kunit *test)
{
	struct user_page_test *up = test->priv;
	struct page_copy copy;

	move_counter(up, 1);
	move_times(up, 1);
	update(up);
	up->page->cap_user_time = 1;
	up->event.total_time_enabled = 12345;
	up->event.userpage_limits = 2;
	move_counter(up, 2);
	update_in_nmi(up);
	take_copy(up, &copy);
	KUNIT_EXPECT_TRUE(test, counter_is(&copy, 2));
	KUNIT_EXPECT_TRUE(test, times_are(&copy, 1));
	KUNIT_EXPECT_TRUE(test, up->page->cap_user_time);
}

struct storm {
	struct hrtimer		timer;
	struct user_page_test	*up;
	struct rnd_state	rnd;
	unsigned int		inside;
};

static enum hrtimer_restart storm_interrupt(struct hrtimer *timer)
{
	struct storm *storm = container_of(timer, struct storm, timer);
	struct user_page_test *up = storm->up;

	if (READ_ONCE(up->page->lock) % 2)
		storm->inside++;
	move_counter(up, prandom_u32_state(&storm->rnd) % 100000);
	update_in_nmi(up);
	hrtimer_forward_now(timer, ns_to_ktime(30 * NSEC_PER_USEC));
	return HRTIMER_RESTART;
}

static bool page_has_the_counter(struct user_page_test *up)
{
	struct perf_event *event = &up->event;
	unsigned long flags;
	bool ret;

	local_irq_save(flags);
	ret = up->page->index == event->hw.idx &&
	      up->page->offset == local64_read(&event->count) -
				  local64_read(&event->hw.prev_count) &&
	      !(up->page->lock % 2);
	local_irq_restore(flags);
	return ret;
}

/* Timer interrupts, which come anywhere in the code, stand for NMIs. */
static void update_may_be_interrupted_anywhere(struct kunit *test)
{
	unsigned long end = jiffies + 20 * HZ, updates = 0;
	struct user_page_test *up = test->priv;
	struct storm storm = { .up = up };

	prandom_seed_state(&storm.rnd, 20090323);
	hrtimer_init_on_stack(&storm.timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_PINNED_HARD);
	storm.timer.function = storm_interrupt;
	migrate_disable();
	hrtimer_start(&storm.timer, ns_to_ktime(30 * NSEC_PER_USEC),
		      HRTIMER_MODE_REL_PINNED_HARD);
	while (READ_ONCE(storm.inside) < 300 && time_before(jiffies, end)) {
		perf_event_update_userpage(&up->event);
		updates++;
		if (!page_has_the_counter(up))
			break;
	}
	hrtimer_cancel(&storm.timer);
	migrate_enable();
	destroy_hrtimer_on_stack(&storm.timer);

	KUNIT_EXPECT_TRUE(test, page_has_the_counter(up));
	KUNIT_EXPECT_GT_MSG(test, storm.inside, 0, "none of %lu updates was interrupted", updates);
	kunit_info(test, "%u of %lu updates were interrupted", storm.inside, updates);
}

static struct kunit_case page_cases[] = {
	KUNIT_CASE(fields_are_where_programs_look),
	KUNIT_CASE(fresh_page_says_that_bit_0_is_deprecated),
	KUNIT_CASE(unmapped_event_has_nothing_to_write),
	KUNIT_CASE_PARAM(page_promises_only_what_its_event_keeps, limits_gen_params),
	KUNIT_CASE(offset_and_counter_make_the_count),
	KUNIT_CASE(event_without_counter_is_all_offset),
	KUNIT_CASE(stopped_event_has_no_index),
	KUNIT_CASE(event_off_its_pmu_has_no_index),
	KUNIT_CASE_PARAM(counter_is_taken_as_wide_as_readers_take_it, width_gen_params),
	{}
};

static struct kunit_suite page_suite = {
	.name		= "perf_user_page",
	.init		= user_page_test_init,
	.exit		= user_page_test_exit,
	.test_cases	= page_cases,
};

static struct kunit_case times_cases[] = {
	KUNIT_CASE(times_of_a_running_event_go_to_the_last_switch),
	KUNIT_CASE(time_is_never_made_of_two_halves),
	KUNIT_CASE(waiting_event_is_enabled_and_does_not_run),
	KUNIT_CASE(times_of_a_disabled_event_stand),
	KUNIT_CASE(event_never_enabled_keeps_what_tells_of_the_clock),
	KUNIT_CASE(times_of_a_member_stand_with_its_leader),
	KUNIT_CASE(children_that_have_ended_are_included),
	KUNIT_CASE(times_of_a_closed_event_stand),
	KUNIT_CASE(redirected_event_leaves_the_page_alone),
	{}
};

static struct kunit_suite times_suite = {
	.name		= "perf_user_page_times",
	.init		= user_page_test_init,
	.exit		= user_page_test_exit,
	.test_cases	= times_cases,
};

static struct kunit_case publish_cases[] = {
	KUNIT_CASE(page_waits_until_the_event_is_off),
	KUNIT_CASE(members_are_published_with_their_leader),
	KUNIT_CASE(page_of_an_event_that_waits_is_written_here),
	KUNIT_CASE(page_of_a_running_event_is_written_on_its_cpu),
	KUNIT_CASE(lock_is_even_outside_of_updates),
	KUNIT_CASE(lock_is_odd_inside_of_an_update),
	KUNIT_CASE(lock_goes_on_beyond_its_end),
	KUNIT_CASE(update_ends_whatever_the_program_writes),
	KUNIT_CASE_PARAM(reader_never_takes_parts_of_two_updates, writer_gen_params),
	KUNIT_CASE(interrupted_update_leaves_what_the_nmi_found),
	KUNIT_CASE(nmi_leaves_the_times_alone),
	KUNIT_CASE(update_may_be_interrupted_anywhere),
	{}
};

static struct kunit_suite publish_suite = {
	.name		= "perf_user_page_publish",
	.init		= user_page_test_init,
	.exit		= user_page_test_exit,
	.test_cases	= publish_cases,
};

kunit_test_suites(&page_suite, &times_suite, &publish_suite);

MODULE_DESCRIPTION("KUnit tests of the perf user page");
MODULE_LICENSE("GPL");
