// SPDX-License-Identifier: GPL-2.0
/*
 * perf user page selftests - counters of gated events, read without a system call
 *
 * A closed gate removes the counter from the page: index 0, and the count at the
 * closing. An open gate restores it. The count that a program computes by the
 * rules must agree with read(2).
 */
#define _GNU_SOURCE

#include "../kselftest_harness.h"
#include "gate_helpers.h"
#include "user_page_helpers.h"

#define NR_READS	100000

FIXTURE(user_page_gate)
{
	struct gate_triggers triggers;
	struct perf_event_attr attr;
	struct perf_event_mmap_page *page;
	int fd;
};

FIXTURE_SETUP(user_page_gate)
{
	if (user_page_setup(_metadata) || triggers_open(_metadata, &self->triggers))
		return;
	self->attr = instructions_attr();
	/* The cost of a system call differs from kernel to kernel. */
	self->attr.exclude_kernel = 1;
	self->fd = user_open(&self->attr, 0, -1, -1);
	ASSERT_LE(0, self->fd);
	self->page = page_map(self->fd, 0);
	ASSERT_NE(MAP_FAILED, self->page);
	if (!self->page->cap_user_rdpmc)
		SKIP(return, "the administrator forbids to read counters");
}

FIXTURE_TEARDOWN(user_page_gate)
{
	page_unmap(self->page, 0);
	close(self->fd);
	triggers_close(&self->triggers);
}

static __u64 read_count(int fd)
{
	__u64 value[3];

	return read(fd, value, sizeof(value)) == sizeof(value) ? value[0] : ~0ULL;
}

TEST_F(user_page_gate, closed_event_has_no_counter_and_its_last_count)
{
	__u64 count;
	int i;

	ASSERT_EQ(0, set_both(&self->triggers, self->fd));
	for (i = 0; i < 100; i++) {
		window_open();
		work(1000);
		window_close();
		EXPECT_EQ(0, self->page->index);
		count = page_read(self->page).count;
		EXPECT_EQ(read_count(self->fd), count);
		work(1000);
		EXPECT_EQ(count, page_read(self->page).count);
	}
	/*
	 * The count is at least an instruction for each round, and includes the cost of
	 * windows: an emulator may count the kernel as well, which is slow with KASAN.
	 */
	EXPECT_LE(100 * 1000, count);
	EXPECT_GE(100 * 200000, count);
}

TEST_F(user_page_gate, open_event_is_read_directly)
{
	struct brackets b = {};
	int i;

	ASSERT_EQ(0, set_both(&self->triggers, self->fd));
	for (i = 0; i < 100; i++) {
		window_open();
		EXPECT_NE(0, page_read(self->page).index);
		ASSERT_TRUE(brackets_run(&b, 20, self->fd, self->page));
		window_close();
		work(1000);
	}
	EXPECT_BRACKETS(&b);
	/* A reader that is preempted may see another value once. */
	EXPECT_LE(b.nr - b.nr / 10, b.direct);
}

/* A timer moves the gate between any two instructions of a reader. */
TEST_F_TIMEOUT(user_page_gate, values_never_step_back_while_the_gate_flips, 300)
{
	struct perf_event_attr attr = gate_attr(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK);
	struct perf_event_attr watch = gate_attr(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_DUMMY);
	const __u64 end = clock_ns(CLOCK_MONOTONIC) + 10 * NSEC_PER_SEC;
	__u64 last = 0, count, opened = 0;
	unsigned long i, back = 0;
	struct brackets b = {};
	int timer, flips;

	attr.sample_period = NSEC_PER_MSEC / 4;
	timer = gate_open(&attr, 0, -1);
	ASSERT_LE(0, timer);
	flips = gate_open(&watch, 0, -1);
	ASSERT_LE(0, flips);
	for (i = 0; i < 2; i++) {
		int fd = i ? flips : self->fd;

		ASSERT_EQ(0, set_starter(timer, fd));
		ASSERT_EQ(0, set_stopper(timer, fd));
	}
	/* The timer may be late. */
	for (i = 0; i < NR_READS || (opened <= 2 && clock_ns(CLOCK_MONOTONIC) < end); i++) {
		count = page_read(self->page).count;
		back += count < last;
		last = count;
		if (!(i % 1000))
			opened = gate_read(flips).gate_count;
		if (!(i % 16)) {
			ASSERT_TRUE(bracket(&b, self->fd, self->page));
			last = b.last;
		}
	}
	EXPECT_EQ(0, back);
	EXPECT_BRACKETS(&b);
	EXPECT_LT(2, gate_read(flips).gate_count);
	close(flips);
	close(timer);
}

TEST_HARNESS_MAIN
