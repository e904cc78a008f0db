// SPDX-License-Identifier: GPL-2.0
/*
 * perf gate selftests - a sampling target is stopped while its gate is closed:
 * its period counts what happens inside of its windows, and only that
 */
#define _GNU_SOURCE

#include <linux/hw_breakpoint.h>

#include "../kselftest_harness.h"
#include "gate_helpers.h"

#define NR_WINDOWS	100
#define NR_INSIDE	7
#define NR_OUTSIDE	13
#define PERIOD		10
#define RING_PAGES	8

static volatile __u64 watched;

FIXTURE(gate_stop)
{
	struct gate_triggers triggers;
	struct gate_pages pages;
	struct gate_ring ring;
	int target;
};

enum target_kind { PAGE_FAULTS, TRACEPOINT, BREAKPOINT };

FIXTURE_VARIANT(gate_stop)
{
	enum target_kind kind;
};

FIXTURE_VARIANT_ADD(gate_stop, page_faults) { .kind = PAGE_FAULTS };
FIXTURE_VARIANT_ADD(gate_stop, tracepoint) { .kind = TRACEPOINT };
FIXTURE_VARIANT_ADD(gate_stop, breakpoint) { .kind = BREAKPOINT };

static struct perf_event_attr target_attr(enum target_kind kind)
{
	struct perf_event_attr attr = gate_attr(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS);

	attr.sample_period = PERIOD;
	attr.sample_type = PERF_SAMPLE_TIME;
	if (kind == TRACEPOINT) {
		attr.type = PERF_TYPE_TRACEPOINT;
		attr.config = tracepoint_id("syscalls/sys_enter_getppid");
	} else if (kind == BREAKPOINT) {
		attr.type = PERF_TYPE_BREAKPOINT;
		attr.config = 0;
		attr.bp_type = HW_BREAKPOINT_W;
		attr.bp_addr = (unsigned long)&watched;
		attr.bp_len = HW_BREAKPOINT_LEN_8;
		attr.exclude_kernel = 1;
	}
	return attr;
}

static void occur(const struct gate_pages *pages, enum target_kind kind, unsigned int times)
{
	if (kind == PAGE_FAULTS) {
		pages_touch(pages, times);
	} else if (kind == TRACEPOINT) {
		call_getppid(times);
	} else {
		while (times--)
			watched++;
	}
}

FIXTURE_SETUP(gate_stop)
{
	struct perf_event_attr attr = target_attr(variant->kind);

	if (triggers_open(_metadata, &self->triggers))
		return;
	ASSERT_EQ(0, pages_map(&self->pages, NR_OUTSIDE));
	self->target = gate_open(&attr, 0, -1);
	if (self->target < 0 && variant->kind == BREAKPOINT)
		SKIP(return, "no hardware breakpoints: %s", strerror(errno));
	ASSERT_LE(0, self->target);
	ASSERT_EQ(0, set_both(&self->triggers, self->target));
	ASSERT_EQ(0, ring_map(&self->ring, self->target, RING_PAGES));
	ring_drain(&self->ring, PERF_RECORD_SAMPLE);
}

FIXTURE_TEARDOWN(gate_stop)
{
	munmap(self->pages.mem, self->pages.size);
	triggers_close(&self->triggers);
}

static void run_windows(const struct gate_pages *pages, enum target_kind kind, unsigned int times)
{
	while (times--) {
		occur(pages, kind, NR_OUTSIDE);
		window_open();
		occur(pages, kind, NR_INSIDE);
		window_close();
	}
	occur(pages, kind, NR_OUTSIDE);
}

TEST_F(gate_stop, period_counts_what_is_inside)
{
	unsigned int start = gate_read_count(self->target);

	EXPECT_EQ(0, start);
	run_windows(&self->pages, variant->kind, NR_WINDOWS);
	EXPECT_EQ(NR_WINDOWS * NR_INSIDE, gate_read_count(self->target));
	EXPECT_EQ(NR_WINDOWS * NR_INSIDE / PERIOD, ring_drain(&self->ring, PERF_RECORD_SAMPLE));
}

/* A task switch does not change whether the event is stopped. */
TEST_F(gate_stop, task_switches_leave_the_event_stopped)
{
	unsigned int i;

	for (i = 0; i < NR_WINDOWS; i++) {
		sleep_for_certain();
		run_windows(&self->pages, variant->kind, 1);
	}
	EXPECT_EQ(NR_WINDOWS * NR_INSIDE, gate_read_count(self->target));
	EXPECT_EQ(NR_WINDOWS * NR_INSIDE / PERIOD, ring_drain(&self->ring, PERF_RECORD_SAMPLE));
}

TEST_F(gate_stop, task_switches_inside_of_a_window_lose_nothing)
{
	unsigned int i;

	for (i = 0; i < NR_WINDOWS; i++) {
		occur(&self->pages, variant->kind, NR_OUTSIDE);
		window_open();
		occur(&self->pages, variant->kind, NR_INSIDE - 3);
		sleep_for_certain();
		occur(&self->pages, variant->kind, 3);
		window_close();
	}
	EXPECT_EQ(NR_WINDOWS * NR_INSIDE, gate_read_count(self->target));
	EXPECT_EQ(NR_WINDOWS * NR_INSIDE / PERIOD, ring_drain(&self->ring, PERF_RECORD_SAMPLE));
}

/* The core stops and starts an event whose period changes. */
TEST_F(gate_stop, new_period_leaves_the_event_stopped)
{
	__u64 period = PERIOD / 2;

	ASSERT_EQ(0, ioctl(self->target, PERF_EVENT_IOC_PERIOD, &period));
	run_windows(&self->pages, variant->kind, NR_WINDOWS);
	EXPECT_EQ(NR_WINDOWS * NR_INSIDE, gate_read_count(self->target));
	EXPECT_EQ(NR_WINDOWS * NR_INSIDE / period, ring_drain(&self->ring, PERF_RECORD_SAMPLE));
}

TEST_F(gate_stop, disabling_and_enabling_leaves_the_event_stopped)
{
	unsigned int i;

	for (i = 0; i < NR_WINDOWS; i++) {
		ASSERT_EQ(0, ioctl(self->target, PERF_EVENT_IOC_DISABLE, 0));
		ASSERT_EQ(0, ioctl(self->target, PERF_EVENT_IOC_ENABLE, 0));
		run_windows(&self->pages, variant->kind, 1);
	}
	EXPECT_EQ(NR_WINDOWS * NR_INSIDE, gate_read_count(self->target));
	EXPECT_EQ(NR_WINDOWS * NR_INSIDE / PERIOD, ring_drain(&self->ring, PERF_RECORD_SAMPLE));
}

/* A gate that moves while the event is off its PMU has its new state when the event is back. */
TEST_F(gate_stop, event_that_was_disabled_in_a_window_is_stopped_behind_it)
{
	window_open();
	ASSERT_EQ(0, ioctl(self->target, PERF_EVENT_IOC_DISABLE, 0));
	window_close();
	ASSERT_EQ(0, ioctl(self->target, PERF_EVENT_IOC_ENABLE, 0));
	occur(&self->pages, variant->kind, NR_OUTSIDE);
	EXPECT_EQ(0, gate_read_count(self->target));
	EXPECT_EQ(0, ring_drain(&self->ring, PERF_RECORD_SAMPLE));

	ASSERT_EQ(0, ioctl(self->target, PERF_EVENT_IOC_DISABLE, 0));
	window_open();
	ASSERT_EQ(0, ioctl(self->target, PERF_EVENT_IOC_ENABLE, 0));
	occur(&self->pages, variant->kind, NR_OUTSIDE);
	window_close();
	EXPECT_EQ(NR_OUTSIDE, gate_read_count(self->target));
	EXPECT_EQ(NR_OUTSIDE / PERIOD, ring_drain(&self->ring, PERF_RECORD_SAMPLE));
}

TEST_F(gate_stop, cleared_gate_starts_the_event)
{
	occur(&self->pages, variant->kind, NR_OUTSIDE);
	ASSERT_EQ(0, clear_gate(self->target));
	occur(&self->pages, variant->kind, NR_OUTSIDE);
	EXPECT_EQ(NR_OUTSIDE, gate_read_count(self->target));
	EXPECT_EQ(NR_OUTSIDE / PERIOD, ring_drain(&self->ring, PERF_RECORD_SAMPLE));
}

FIXTURE(gate_stop_pmu)
{
	struct gate_triggers triggers;
	struct gate_ring ring;
	int target;
};

FIXTURE_SETUP(gate_stop_pmu)
{
	struct perf_event_attr attr = gate_attr(PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS);

	if (triggers_open(_metadata, &self->triggers))
		return;
	if (pmu_without_interrupts())
		SKIP(return, "%s", pmu_without_interrupts());
	/* Set the rate before samples come, each of which may lower it. */
	keep_sample_rate();
	attr.sample_period = 100000;
	attr.sample_type = PERF_SAMPLE_TIME;
	attr.exclude_kernel = 1;
	self->target = gate_open(&attr, 0, -1);
	if (self->target < 0) {
		limit_sample_time();
		SKIP(return, "no hardware event that samples: %s", strerror(errno));
	}
	ASSERT_EQ(0, set_both(&self->triggers, self->target));
	ASSERT_EQ(0, ring_map(&self->ring, self->target, 64));
	ring_drain(&self->ring, PERF_RECORD_SAMPLE);
}

FIXTURE_TEARDOWN(gate_stop_pmu)
{
	limit_sample_time();
	triggers_close(&self->triggers);
}

/*
 * 10^7 instructions would cause 100 interrupts. The NMI watchdog makes one on each CPU
 * every few seconds, hence those of one CPU are counted.
 */
TEST_F(gate_stop_pmu, closed_event_raises_no_interrupt)
{
	int cpu = nth_cpu(0);
	volatile unsigned long i;
	long before;

	ASSERT_EQ(0, pin_to_cpu(cpu));
	before = cpu_interrupts(cpu, PMU_INTERRUPTS);
	if (before < 0)
		SKIP(return, "/proc/interrupts does not tell of the PMU");
	window_open();
	for (i = 0; i < 2000000; i++)
		;
	window_close();
	EXPECT_LT(before + 20, cpu_interrupts(cpu, PMU_INTERRUPTS));

	before = cpu_interrupts(cpu, PMU_INTERRUPTS);
	for (i = 0; i < 2000000; i++)
		;
	EXPECT_EQ(pmu_events_run_on(), cpu_interrupts(cpu, PMU_INTERRUPTS) > before + 1);
	EXPECT_LT(0, ring_drain(&self->ring, PERF_RECORD_SAMPLE));
}

/* The rest of a period at the end of a window continues in the next one. */
TEST_F(gate_stop_pmu, period_counts_what_is_inside)
{
	unsigned int nr_samples, expected, slack, window;
	volatile unsigned long i;

	for (window = 0; window < 50; window++) {
		for (i = 0; i < 30000; i++)
			;
		window_open();
		for (i = 0; i < 15000; i++)
			;
		window_close();
	}
	nr_samples = ring_drain(&self->ring, PERF_RECORD_SAMPLE);
	expected = gate_read_count(self->target) / 100000;
	EXPECT_LT(10, expected);
	/*
	 * An interrupt that is late and hits the kernel gives no sample of user mode,
	 * and a debug kernel spends much time in the kernel.
	 */
	slack = expected / (access("/sys/kernel/debug/kmemleak", F_OK) ? 20 : 5) + 1;
	EXPECT_LE(expected - slack, nr_samples);
	EXPECT_GE(expected + 1, nr_samples);
}

TEST_HARNESS_MAIN
