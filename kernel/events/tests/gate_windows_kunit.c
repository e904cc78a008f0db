// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of the windows that performance event gates record.
 */

#include <kunit/test.h>
#include <linux/irqflags.h>
#include <linux/limits.h>
#include <linux/percpu.h>
#include <linux/perf_event.h>
#include <linux/prandom.h>
#include <linux/sched.h>
#include <linux/slab.h>

#include "../gate.h"
#include "../internal.h"
#include "../gate/gate.h"
#include "../gate/windows.h"

static void buckets_follow_each_other(struct kunit *test)
{
	u32 i;

	for (i = 0; i < PERF_EVENT_HISTOGRAM_BUCKETS; i++) {
		u64 bound = perf_event_histogram_bound(i);

		KUNIT_EXPECT_EQ(test, perf_event_histogram_bucket(bound), i);
		if (i)
			KUNIT_EXPECT_EQ(test, perf_event_histogram_bucket(bound - 1), i - 1);
	}
	KUNIT_EXPECT_EQ(test, perf_event_histogram_bucket(U64_MAX),
			PERF_EVENT_HISTOGRAM_BUCKETS - 1);
	/* The last bucket ends at U64_MAX, which no shift can compute. */
	KUNIT_EXPECT_EQ(test, perf_event_histogram_bound(i), U64_MAX);
	KUNIT_EXPECT_EQ(test, perf_event_histogram_bound(U32_MAX), U64_MAX);
}

static void bucket_is_a_quarter_wide_at_most(struct kunit *test)
{
	u32 i;

	for (i = 4; i < PERF_EVENT_HISTOGRAM_BUCKETS - 1; i++) {
		u64 bound = perf_event_histogram_bound(i);
		u64 width = perf_event_histogram_bound(i + 1) - bound;

		KUNIT_EXPECT_LE(test, width, bound / 4);
	}
}

static struct perf_event_histogram *new_sum(struct kunit *test)
{
	struct perf_event_histogram *sum;

	sum = kunit_kzalloc(test, struct_size(sum, bucket, PERF_EVENT_HISTOGRAM_BUCKETS),
			    GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, sum);
	sum->min = U64_MAX;

	return sum;
}

static void sum_has_the_windows_of_all_histograms(struct kunit *test)
{
	struct perf_event_histogram *sum = new_sum(test);
	struct perf_gate_histogram *histogram[2];
	struct rnd_state rnd;
	u64 total = 0, value;
	int i;

	for (i = 0; i < 2; i++) {
		histogram[i] = kunit_kzalloc(test, sizeof(*histogram[i]), GFP_KERNEL);
		KUNIT_ASSERT_NOT_NULL(test, histogram[i]);
		perf_gate_init_histogram(histogram[i]);
	}
	prandom_seed_state(&rnd, 20090323);
	for (i = 0; i < 10000; i++) {
		value = 10 + prandom_u32_state(&rnd) % 1000;
		total += value;
		perf_gate_count_window(histogram[i & 1], value);
	}
	perf_gate_count_window(histogram[0], 9);
	perf_gate_count_window(histogram[1], 5000);
	for (i = 0; i < 2; i++)
		perf_gate_add_histogram(histogram[i], sum);

	KUNIT_EXPECT_EQ(test, sum->windows, 10002);
	KUNIT_EXPECT_EQ(test, sum->sum, total + 5009);
	KUNIT_EXPECT_EQ(test, sum->min, 9);
	KUNIT_EXPECT_EQ(test, sum->max, 5000);
	KUNIT_EXPECT_EQ(test, sum->bucket[perf_event_histogram_bucket(5000)], 1);
}

/* An event that runs on this CPU, and records its windows. */
struct watched {
	struct perf_event		*event;
	struct perf_gate_windows	windows;
	struct perf_gate_window		window;
};

static int watched_init(struct kunit *test)
{
	struct perf_event_attr attr = {
		.type		= PERF_TYPE_SOFTWARE,
		.size		= sizeof(attr),
		.config		= PERF_COUNT_SW_DUMMY,
		.pinned		= 1,
		.start_paused	= 1,
	};
	struct watched *watched = kunit_kzalloc(test, sizeof(*watched), GFP_KERNEL);
	int cpu, i;

	test->priv = watched;
	if (!watched)
		return -ENOMEM;

	/* Pin the thread of this test, which ends with it, so nothing is restored. */
	cpu = raw_smp_processor_id();
	if (set_cpus_allowed_ptr(current, cpumask_of(cpu)))
		return -EINVAL;

	watched->windows.histogram = alloc_percpu(struct perf_gate_histogram);
	if (!watched->windows.histogram)
		return -ENOMEM;
	for_each_possible_cpu(i)
		perf_gate_init_histogram(per_cpu_ptr(watched->windows.histogram, i));
	watched->windows.flags = PERF_WINDOWS_HISTOGRAM;
	watched->window.windows = &watched->windows;
	watched->window.counts = watched->windows.histogram;
	watched->window.opened = U64_MAX;

	watched->event = perf_event_create_kernel_counter(&attr, cpu, NULL, NULL, NULL);
	if (IS_ERR(watched->event)) {
		watched->event = NULL;
		return -EINVAL;
	}
	watched->event->gate_window = &watched->window;

	return 0;
}

static void watched_exit(struct kunit *test)
{
	struct watched *watched = test->priv;

	if (!watched)
		return;

	if (watched->event) {
		watched->event->gate_window = NULL;
		perf_event_release_kernel(watched->event);
	}
	free_percpu(watched->windows.histogram);
}

/* Open or close the account after its gate has opened @opened times. */
static void move(struct watched *watched, bool open, int opened)
{
	struct perf_event *event = watched->event;

	guard(irqsave)();

	atomic64_add(opened, &event->gate_state->nr_opened);
	if (open)
		perf_gate_window_begin(event, perf_event_ctx_time(event));
	else
		perf_gate_window_end(event, perf_event_ctx_time(event));
}

static u64 nr_windows(struct kunit *test)
{
	struct perf_event_histogram *sum = new_sum(test);
	struct watched *watched = test->priv;
	int cpu;

	for_each_possible_cpu(cpu)
		perf_gate_add_histogram(per_cpu_ptr(watched->windows.histogram, cpu), sum);

	return sum->windows;
}

static void whole_window_is_counted(struct kunit *test)
{
	struct perf_event_histogram *sum = new_sum(test);
	struct watched *watched = test->priv;

	move(watched, true, 1);
	local64_add(7, &watched->event->count);
	move(watched, false, 0);
	perf_gate_add_histogram(per_cpu_ptr(watched->windows.histogram,
					    watched->event->cpu), sum);
	KUNIT_EXPECT_EQ(test, sum->windows, 1);
	KUNIT_EXPECT_EQ(test, sum->bucket[7], 1);
	KUNIT_EXPECT_EQ(test, sum->sum, 7);
}

static void close_without_an_opening_counts_nothing(struct kunit *test)
{
	struct watched *watched = test->priv;

	move(watched, false, 0);
	KUNIT_EXPECT_EQ(test, nr_windows(test), 0);
	move(watched, true, 1);
	move(watched, false, 0);
	move(watched, false, 0);
	KUNIT_EXPECT_EQ(test, nr_windows(test), 1);
}

/* The gate closed and opened again before the irq_work ran. */
static void two_windows_are_not_taken_for_one(struct kunit *test)
{
	struct watched *watched = test->priv;

	move(watched, true, 1);
	move(watched, false, 1);
	KUNIT_EXPECT_EQ(test, nr_windows(test), 0);
}

static void window_with_a_gap_is_not_counted(struct kunit *test)
{
	struct watched *watched = test->priv;
	struct perf_event *event = watched->event;

	/* The event was off its PMU while its context ran. */
	scoped_guard(irqsave)
		perf_gate_window_resume(event);
	move(watched, true, 1);
	scoped_guard(irqsave) {
		event->tstamp++;
		perf_gate_window_resume(event);
		event->tstamp--;
	}
	move(watched, false, 0);
	KUNIT_EXPECT_EQ(test, nr_windows(test), 0);
}

/* A task switch leaves no gap, because the time of the context stands still, too. */
static void window_without_a_gap_is_counted(struct kunit *test)
{
	struct watched *watched = test->priv;

	scoped_guard(irqsave)
		perf_gate_window_resume(watched->event);
	move(watched, true, 1);
	scoped_guard(irqsave)
		perf_gate_window_resume(watched->event);
	move(watched, false, 0);
	KUNIT_EXPECT_EQ(test, nr_windows(test), 1);
}

/* A firing that interrupts another one has the later time, but is handled first. */
static void window_that_ends_before_it_began_is_empty(struct kunit *test)
{
	struct perf_event_histogram *sum = new_sum(test);
	struct watched *watched = test->priv;
	struct perf_event *event = watched->event;

	watched->windows.measure = PERF_WINDOWS_RUNNING;
	watched->window.counts = NULL;
	move(watched, true, 1);
	scoped_guard(irqsave)
		perf_gate_window_end(event, watched->window.time - 1);
	perf_gate_add_histogram(per_cpu_ptr(watched->windows.histogram, event->cpu), sum);
	KUNIT_EXPECT_EQ(test, sum->windows, 1);
	KUNIT_EXPECT_EQ(test, sum->max, 0);
	KUNIT_EXPECT_EQ(test, sum->bucket[0], 1);
}

static void throttled_event_is_in_no_window(struct kunit *test)
{
	struct watched *watched = test->priv;
	struct perf_event *event = watched->event;

	/* Throttle the event within one window, and before another one begins. */
	move(watched, true, 1);
	scoped_guard(irqsave)
		perf_gate_throttle(event);
	move(watched, false, 0);
	event->hw.interrupts = MAX_INTERRUPTS;
	move(watched, true, 1);
	event->hw.interrupts = 0;
	move(watched, false, 0);
	KUNIT_EXPECT_EQ(test, nr_windows(test), 0);
	move(watched, true, 1);
	move(watched, false, 0);
	KUNIT_EXPECT_EQ(test, nr_windows(test), 1);
}

/* Another gate counts its openings from 0, and must not end a window of this one. */
static void window_does_not_outlive_its_gate(struct kunit *test)
{
	struct watched *watched = test->priv;
	struct perf_event_context *ctx;

	move(watched, true, 1);
	KUNIT_EXPECT_EQ(test, watched->window.opened, 1);
	ctx = perf_event_ctx_lock(watched->event);
	perf_gate_exit(watched->event, true);
	perf_event_ctx_unlock(watched->event, ctx);
	KUNIT_EXPECT_EQ(test, watched->window.opened, U64_MAX);
}

/* A reader may come after the kernel has stored the minimum but not the bucket. */
static void histogram_without_a_window_has_no_sentinel(struct kunit *test)
{
	struct perf_event_histogram *sum = new_sum(test);
	struct perf_gate_histogram *histogram;

	histogram = kunit_kzalloc(test, sizeof(*histogram), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, histogram);
	perf_gate_init_histogram(histogram);
	perf_gate_add_histogram(histogram, sum);
	KUNIT_EXPECT_EQ(test, sum->min, U64_MAX);
	perf_gate_count_window(histogram, 0);
	perf_gate_add_histogram(histogram, sum);
	KUNIT_EXPECT_EQ(test, sum->min, 0);
	KUNIT_EXPECT_EQ(test, sum->windows, 1);
}

/* A move that is settled while the event is off its PMU makes no window. */
static void window_begins_and_ends_on_the_pmu(struct kunit *test)
{
	struct watched *watched = test->priv;
	struct perf_event *event = watched->event;
	bool open = true;
	int i;

	for (i = 0; i < 2; i++, open = !open) {
		if (!open)
			move(watched, true, 1);
		perf_pmu_disable(event->pmu);
		scoped_guard(irqsave)
			perf_gate_window_settle(event, perf_event_ctx_time(event), open);
		perf_pmu_enable(event->pmu);
		if (open)
			move(watched, false, 0);
	}
	KUNIT_EXPECT_EQ(test, nr_windows(test), 0);
	for (i = 0; i < 2; i++) {
		scoped_guard(irqsave)
			perf_gate_window_settle(event, perf_event_ctx_time(event), !i);
	}
	KUNIT_EXPECT_EQ(test, nr_windows(test), 1);
}

/* The gate has closed, and the setting changes before irq_work runs. */
static void window_that_has_closed_is_of_the_former_setting(struct kunit *test)
{
	struct watched *watched = test->priv;
	struct perf_event *event = watched->event;
	struct perf_gate_window *window;
	struct perf_event_context *ctx;
	HLIST_HEAD(none);

	window = kmemdup(&watched->window, sizeof(*window), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, window);
	event->gate_window = window;
	ctx = perf_event_ctx_lock(event);
	scoped_guard(raw_spinlock_irq, &event->ctx->lock) {
		atomic64_inc(&event->gate_state->nr_opened);
		atomic_set(&event->gate_state->depth, 1);
		perf_gate_settle_event(event);
		KUNIT_EXPECT_EQ(test, window->opened, 1);
		atomic_set(&event->gate_state->depth, 0);
	}
	perf_gate_watch(event, &none);
	perf_event_ctx_unlock(event, ctx);
	KUNIT_EXPECT_NULL(test, event->gate_window);
	KUNIT_EXPECT_EQ(test, nr_windows(test), 1);
}

static struct kunit_case histogram_cases[] = {
	KUNIT_CASE(buckets_follow_each_other),
	KUNIT_CASE(bucket_is_a_quarter_wide_at_most),
	KUNIT_CASE(sum_has_the_windows_of_all_histograms),
	KUNIT_CASE(histogram_without_a_window_has_no_sentinel),
	{}
};

static struct kunit_suite histogram_suite = {
	.name		= "perf_gate_histogram",
	.test_cases	= histogram_cases,
};

static struct kunit_case window_cases[] = {
	KUNIT_CASE(whole_window_is_counted),
	KUNIT_CASE(close_without_an_opening_counts_nothing),
	KUNIT_CASE(two_windows_are_not_taken_for_one),
	KUNIT_CASE(window_with_a_gap_is_not_counted),
	KUNIT_CASE(window_without_a_gap_is_counted),
	KUNIT_CASE(window_that_ends_before_it_began_is_empty),
	KUNIT_CASE(throttled_event_is_in_no_window),
	KUNIT_CASE(window_does_not_outlive_its_gate),
	KUNIT_CASE(window_begins_and_ends_on_the_pmu),
	KUNIT_CASE(window_that_has_closed_is_of_the_former_setting),
	{}
};

static struct kunit_suite window_suite = {
	.name		= "perf_gate_window",
	.init		= watched_init,
	.exit		= watched_exit,
	.test_cases	= window_cases,
};

kunit_test_suites(&histogram_suite, &window_suite);
