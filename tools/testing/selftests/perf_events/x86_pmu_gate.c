// SPDX-License-Identifier: GPL-2.0
/*
 * perf selftests on an emulated x86 PMU - gates of events that count exactly
 *
 * Windows open and close in system calls, and the events count user code only, so
 * that a window of known code has a known number of instructions in it.
 */
#define _GNU_SOURCE

#include "../kselftest_harness.h"
#include "gate_helpers.h"
#include "x86_pmu_helpers.h"

#define LOOPS		1000000
/* Maximum distance from an overflow to the move of the gate. */
#define MAX_SKID	(300 + pmi_delay())

FIXTURE(x86_pmu_gate)
{
	struct gate_triggers triggers;
	struct perf_event_attr attr;
	int target;
};

FIXTURE_SETUP(x86_pmu_gate)
{
	self->target = -1;
	self->triggers = (struct gate_triggers) { -1, -1 };
	if (pmu_setup(_metadata))
		return;
	if (triggers_open(_metadata, &self->triggers))
		return;
	self->attr = instructions_attr();
	self->attr.disabled = 0;
	self->attr.read_format = GATE_READ_FORMAT;
	gate_attr_set_bit(&self->attr, GATE_BIT_START_PAUSED);
	self->target = gate_open(&self->attr, 0, -1);
	ASSERT_LE(0, self->target);
}

FIXTURE_TEARDOWN(x86_pmu_gate)
{
	close(self->target);
	triggers_close(&self->triggers);
}

static __attribute_noinline__ __u64 window_gain(int target, __u64 times)
{
	__u64 before = gate_read_count(target);

	window_open();
	work_loop(times);
	window_close();
	return gate_read_count(target) - before;
}

TEST_F(x86_pmu_gate, each_instruction_of_a_window_counts_once)
{
	__u64 once;
	int i;

	ASSERT_EQ(0, set_both(&self->triggers, self->target));
	window_gain(self->target, 1);
	once = window_gain(self->target, 1);
	for (i = 0; i < 20; i++) {
		EXPECT_EQ(2 * LOOPS, window_gain(self->target, LOOPS + 1) - once);
		work_loop(LOOPS);
	}
	EXPECT_EQ(22, gate_read(self->target).gate_count);
}

TEST_F(x86_pmu_gate, windows_are_exact_over_task_switches)
{
	__u64 once, with;
	int i;

	ASSERT_EQ(0, set_both(&self->triggers, self->target));
	window_gain(self->target, 1);
	once = window_gain(self->target, 1);
	for (i = 0; i < 10; i++) {
		/* Switch out with a closed gate, and back for a window. */
		usleep(1000);
		with = window_gain(self->target, LOOPS + 1);
		EXPECT_EQ(2 * LOOPS, with - once);
		work_loop(1000);
	}
}

static int open_sampling(__u64 period)
{
	struct perf_event_attr attr = instructions_attr();

	attr.sample_period = period;
	return gate_open(&attr, 0, -1);
}

/* The target is read in the NMI of the overflow. */
TEST_F(x86_pmu_gate, overflow_opens_the_gate_where_it_happens)
{
	struct gate_value value = {}, last;
	int starter = open_sampling(LOOPS), i;

	ASSERT_LE(0, starter);
	ASSERT_EQ(0, set_starter(starter, self->target));
	ASSERT_EQ(0, set_stopper(self->triggers.stopper, self->target));
	for (i = 0; i < 10; i++) {
		last = value;
		/* Run one period from its beginning, and three quarters more. */
		ASSERT_EQ(0, gate_ioctl(starter, PERF_EVENT_IOC_REFRESH, 1));
		work_loop(LOOPS * 7 / 8);
		window_close();
		work_loop(LOOPS);
		value = gate_read(self->target);
		EXPECT_EQ(i + 1, value.gate_count);
		EXPECT_LE(LOOPS * 3 / 4 - MAX_SKID, value.value - last.value);
		EXPECT_GE(LOOPS * 3 / 4 + MAX_SKID, value.value - last.value);
	}
	close(starter);
}

TEST_F(x86_pmu_gate, overflow_closes_the_gate_where_it_happens)
{
	struct gate_value value = {}, last;
	int stopper = open_sampling(LOOPS), i;

	ASSERT_LE(0, stopper);
	ASSERT_EQ(0, set_starter(self->triggers.starter, self->target));
	ASSERT_EQ(0, set_stopper(stopper, self->target));
	for (i = 0; i < 10; i++) {
		last = value;
		ASSERT_EQ(0, gate_ioctl(stopper, PERF_EVENT_IOC_REFRESH, 1));
		window_open();
		work_loop(LOOPS);
		value = gate_read(self->target);
		EXPECT_EQ(i + 1, value.gate_count);
		EXPECT_LE(LOOPS - MAX_SKID, value.value - last.value);
		EXPECT_GE(LOOPS + MAX_SKID, value.value - last.value);
	}
	close(stopper);
}

static __attribute_noinline__ __u64
page_then_read(int fd, const struct perf_event_mmap_page *page)
{
	__u64 before = page_read(page);

	return gate_read_count(fd) - before;
}

TEST_F(x86_pmu_gate, page_tells_the_gated_count)
{
	struct perf_event_mmap_page *page = page_map(self->target, 0);
	__u64 apart;
	int i;

	ASSERT_NE(MAP_FAILED, page);
	ASSERT_EQ(0, set_both(&self->triggers, self->target));
	page_then_read(self->target, page);
	window_open();
	page_then_read(self->target, page);
	apart = undisturbed(page_then_read, self->target, page);
	window_close();
	EXPECT_GT(100, apart);
	for (i = 0; i < 100; i++) {
		EXPECT_EQ(0, page->index);
		EXPECT_EQ(gate_read_count(self->target), page_read(page));
		work_loop(1000);
		EXPECT_EQ(gate_read_count(self->target), page_read(page));
		window_open();
		EXPECT_NE(0, page->index);
		work_loop(1000);
		EXPECT_EQ(apart, undisturbed(page_then_read, self->target, page));
		window_close();
	}
	munmap(page, sysconf(_SC_PAGESIZE));
}

/* Events other than a task switch read a running counter as well. */
TEST_F(x86_pmu_gate, page_is_right_after_a_reset)
{
	struct perf_event_mmap_page *page = page_map(self->target, 0);
	__u64 apart;
	int i;

	ASSERT_NE(MAP_FAILED, page);
	ASSERT_EQ(0, clear_gate(self->target));
	page_then_read(self->target, page);
	apart = undisturbed(page_then_read, self->target, page);
	EXPECT_GT(100, apart);
	for (i = 0; i < 20; i++) {
		work_loop(1000);
		ASSERT_EQ(0, gate_ioctl(self->target, PERF_EVENT_IOC_RESET, 0));
		EXPECT_EQ(apart, undisturbed(page_then_read, self->target, page));
		EXPECT_GT(1000, gate_read_count(self->target));
	}
	munmap(page, sysconf(_SC_PAGESIZE));
}

/* A timer toggles the gate in the middle of reads of the page. */
TEST_F(x86_pmu_gate, page_is_consistent_while_interrupts_flip_the_gate)
{
	struct perf_event_attr attr = gate_attr(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK);
	struct perf_event_mmap_page *page = page_map(self->target, 0);
	__u64 last = 0, value, step, largest = 0;
	const __u64 end = clock_ns(CLOCK_MONOTONIC) + 10 * NSEC_PER_SEC;
	__u64 opened = 0;
	unsigned int i, nr_back = 0;
	int timer;

	ASSERT_NE(MAP_FAILED, page);
	attr.sample_period = NSEC_PER_MSEC;
	timer = gate_open(&attr, 0, -1);
	ASSERT_LE(0, timer);
	ASSERT_EQ(0, set_starter(timer, self->target));
	ASSERT_EQ(0, set_stopper(timer, self->target));
	/* The timer may be late. */
	for (i = 0; i < 200000 || (opened <= 2 && clock_ns(CLOCK_MONOTONIC) < end); i++) {
		value = page_read(page);
		nr_back += value < last;
		step = value - last;
		if (value > last && step > largest)
			largest = step;
		last = value;
		if (!(i % 1000)) {
			opened = gate_read(self->target).gate_count;
			last = page_read(page);
		}
	}
	EXPECT_EQ(0, nr_back);
	/* Two reads are some instructions apart, however long the gate was closed. */
	EXPECT_GT(1000, largest);
	EXPECT_LT(2, opened);
	close(timer);
	munmap(page, sysconf(_SC_PAGESIZE));
}

/*
 * With more events than counters, the gates of waiting events move as well, and all of
 * their counts are inside of windows.
 */
TEST_F(x86_pmu_gate, multiplexed_events_miss_no_flip)
{
	enum { NR_EVENTS = 10, NR_WINDOWS = 100 };
	const __u64 nr_counters = nr_instruction_counters();
	struct gate_value value;
	int fds[NR_EVENTS], i;
	__u64 sum = 0;

	self->attr.type = PERF_TYPE_RAW;
	self->attr.config = RAW_INSTRUCTIONS;
	for (i = 0; i < NR_EVENTS; i++) {
		fds[i] = gate_open(&self->attr, 0, -1);
		ASSERT_LE(0, fds[i]);
		ASSERT_EQ(0, set_both(&self->triggers, fds[i]));
	}
	for (i = 0; i < NR_WINDOWS; i++) {
		work_loop(3 * LOOPS);
		window_open();
		work_loop(LOOPS);
		window_close();
	}
	for (i = 0; i < NR_EVENTS; i++) {
		value = gate_read(fds[i]);
		EXPECT_EQ(NR_WINDOWS, value.gate_count);
		EXPECT_GE(NR_WINDOWS * (2 * LOOPS + 1000), value.value);
		EXPECT_LT(value.running, value.enabled);
		EXPECT_LE(value.gate_time, value.running);
		sum += value.value;
		close(fds[i]);
	}
	EXPECT_GE(nr_counters * NR_WINDOWS * (2 * LOOPS + 1000), sum);
	EXPECT_LE((nr_counters - 2) * NR_WINDOWS * 2 * LOOPS, sum);
}

TEST_HARNESS_MAIN
