// SPDX-License-Identifier: GPL-2.0
/*
 * perf user page selftests - access to the counters of an Arm PMUv3
 *
 * PMUSERENR_EL0 opens all counters of a CPU or none, so the access of a task depends on
 * the other events there, and may change at any instruction.
 */
#define _GNU_SOURCE
#include "../kselftest_harness.h"
#include "user_page_helpers.h"

/* Indices of the user page: event counters that each PMU here has, and the cycle counter */
static const int counters[] = { 1, 2, 3, 4, 32 };
#define NR_COUNTERS	(sizeof(counters) / sizeof(*counters))

/* Number of counters that this task can read. */
static int counters_readable(void)
{
	int readable = 0;
	unsigned int i;
	__u64 value;

	for (i = 0; i < NR_COUNTERS; i++)
		readable += !signal_of_read(counters[i], &value);
	return readable;
}

/* Number of counters that a task without an event can read. */
static int counters_of_a_stranger(int cpu)
{
	pid_t child;
	int status;

	child = fork();
	if (!child) {
		pin(cpu);
		_exit(counters_readable());
	}
	waitpid(child, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Number of counters that show something to this task, or a signal as -1. */
static int counters_with_a_value(unsigned int but_for)
{
	unsigned int i;
	__u64 value;
	int n = 0;

	for (i = 0; i < NR_COUNTERS; i++) {
		if (signal_of_read(counters[i], &value))
			return -1;
		n += value && counters[i] != (int)but_for;
	}
	return n;
}

FIXTURE(access)
{
	struct perf_event_mmap_page *page;
	int fd;
};

FIXTURE_SETUP(access)
{
	struct perf_event_attr attr = cycles_attr();

	if (user_page_setup(_metadata))
		return;
	ASSERT_EQ(0, pin(0));
	self->fd = user_open(&attr, 0, -1, -1);
	ASSERT_LE(0, self->fd);
	self->page = page_map(self->fd, 0);
	ASSERT_NE(MAP_FAILED, self->page);
	ASSERT_LT(0, self->page->index);
}

FIXTURE_TEARDOWN(access)
{
	close(self->fd);
	write_file(USER_ACCESS, "1");
}

TEST_F(access, task_without_an_event_reads_nothing)
{
	EXPECT_EQ(0, counters_of_a_stranger(0));
	EXPECT_EQ(0, counters_of_a_stranger(1));
}

TEST_F(access, closed_event_leaves_no_access)
{
	__u64 value;

	page_unmap(self->page, 0);
	close(self->fd);
	EXPECT_EQ(SIGILL, signal_of_read(1, &value));
	EXPECT_EQ(SIGILL, signal_of_read(32, &value));
	EXPECT_EQ(0, counters_of_a_stranger(0));
}

/* Runs without an event until the pipe's other end is closed, returns 1 if it could read. */
static int stranger_in_turns(int from, int to)
{
	int readable = 0;
	char c;

	pin(0);
	while (read(from, &c, 1) == 1) {
		readable |= !!counters_readable();
		if (write(to, &c, 1) != 1)
			break;
	}
	return readable;
}

/*
 * The event counts the kernel as well, so that some overflows come when the kernel has
 * stopped the PMU to take the event off the CPU.
 */
TEST_F(access, task_after_overflows_reads_nothing)
{
	struct perf_event_attr attr = cycles_attr();
	unsigned long i, nr_turns = user_reads() / 4;
	int there[2], back[2], fd, status;
	struct sample_limits old = {};
	pid_t child;
	char c = 0;

	ASSERT_EQ(0, sample_limits_set(&old, "1000000", "0"));
	attr.exclude_kernel = 0;
	attr.sample_period = 10007;
	fd = user_open(&attr, 0, -1, -1);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, pipe(there));
	ASSERT_EQ(0, pipe(back));
	child = fork();
	if (!child) {
		close(there[1]);
		_exit(stranger_in_turns(there[0], back[1]));
	}
	for (i = 0; i < nr_turns; i++) {
		if (write(there[1], &c, 1) != 1 || read(back[0], &c, 1) != 1)
			break;
	}
	EXPECT_EQ(nr_turns, i);
	EXPECT_LT(0, self->page->index);
	close(there[1]);
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, status);
	close(fd);
	EXPECT_EQ(0, sample_limits_restore(&old));
}

TEST_F(access, counters_cannot_be_written)
{
	EXPECT_EQ(SIGILL, signal_of_write());
}

TEST_F(access, event_of_the_cpu_closes_the_counters)
{
	struct perf_event_attr attr = cycles_attr();
	struct brackets b = {};
	int all, round;

	attr.exclude_kernel = 0;
	for (round = 0; round < 10; round++) {
		all = user_open(&attr, -1, 0, -1);
		ASSERT_LE(0, all);
		work(100000);
		EXPECT_EQ(0, self->page->index);
		EXPECT_TRUE(!!self->page->cap_user_rdpmc);
		EXPECT_EQ(0, counters_with_a_value(0));
		ASSERT_TRUE(brackets_run(&b, 100, self->fd, self->page));
		EXPECT_EQ(SIGILL, signal_of_write());
		close(all);
		EXPECT_LT(0, self->page->index);
	}
	EXPECT_EQ(0, b.direct);
	ASSERT_TRUE(brackets_run(&b, 100, self->fd, self->page));
	EXPECT_EQ(100, b.direct);
	EXPECT_BRACKETS(&b);
}

TEST_F(access, event_of_the_cpu_closes_the_counters_of_its_cpu_alone)
{
	struct perf_event_attr attr = cycles_attr();
	int all;

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		SKIP(return, "one CPU, nowhere to go");
	all = user_open(&attr, -1, 0, -1);
	ASSERT_LE(0, all);
	ASSERT_EQ(0, pin(1));
	EXPECT_LT(0, self->page->index);
	ASSERT_EQ(0, pin(0));
	EXPECT_EQ(0, self->page->index);
	close(all);
}

/* A counter keeps what root's event has counted there, unless it is cleared. */
TEST_F(access, counter_that_ran_for_the_whole_cpu_is_zero)
{
	struct perf_event_attr attr = cycles_attr();
	int all, round;

	for (round = 0; round < 10; round++) {
		all = user_open(&attr, -1, 0, -1);
		ASSERT_LE(0, all);
		work(100000);
		close(all);
		ASSERT_LT(0, self->page->index);
		EXPECT_EQ(0, counters_with_a_value(self->page->index));
	}
}

/* A task must not read the counts of root's perf stat -p. */
TEST_F(access, event_of_another_opener_closes_the_counters)
{
	struct perf_event_attr attr = cycles_attr();
	int ready[2], end[2], status;
	pid_t observer;
	char c = 0;

	attr.exclude_kernel = 0;
	ASSERT_EQ(0, pipe(ready));
	ASSERT_EQ(0, pipe(end));
	observer = fork();
	if (!observer) {
		close(end[1]);
		c = syscall(__NR_perf_event_open, &attr, getppid(), -1, -1, 0) < 0;
		if (write(ready[1], &c, 1) == 1)
			c = read(end[0], &c, 1);
		_exit(0);
	}
	ASSERT_EQ(1, read(ready[0], &c, 1));
	ASSERT_EQ(0, c);
	work(100000);
	EXPECT_EQ(0, self->page->index);
	EXPECT_EQ(0, counters_with_a_value(0));
	close(end[1]);
	ASSERT_EQ(observer, waitpid(observer, &status, 0));
	EXPECT_LT(0, self->page->index);
}

/* Contexts of parent and child are exchanged, so the event may be another task's. */
TEST_F(access, inherited_event_has_no_counter)
{
	struct perf_event_attr attr = cycles_attr();
	struct perf_event_mmap_page *page;
	int fd;

	/* Without a CPU it cannot be mapped. */
	attr.inherit = 1;
	fd = user_open(&attr, 0, 0, -1);
	ASSERT_LE(0, fd);
	page = page_map(fd, 0);
	ASSERT_NE(MAP_FAILED, page);
	EXPECT_EQ(0, page->index);
	EXPECT_FALSE(!!page->cap_user_rdpmc);
	page_unmap(page, 0);
	close(fd);
}

TEST_F(access, reader_survives_events_of_the_cpu)
{
	user_page_reads_during(_metadata, toggle_event_of_cpu, self->fd, self->page, true);
}

TEST_F(access, reader_survives_changes_of_access)
{
	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		SKIP(return, "one CPU, nothing at the same time");
	ASSERT_EQ(0, access(USER_ACCESS, W_OK));
	user_page_reads_during(_metadata, toggle_access, self->fd, self->page, false);
}

TEST_F(access, mode_0_closes_all)
{
	struct brackets b = {};

	ASSERT_EQ(0, write_file(USER_ACCESS, "0"));
	EXPECT_EQ(0, self->page->index);
	EXPECT_EQ(0, counters_with_a_value(0));
	ASSERT_TRUE(brackets_run(&b, 100, self->fd, self->page));
	EXPECT_EQ(0, b.direct);
	ASSERT_EQ(0, write_file(USER_ACCESS, "1"));
	EXPECT_LT(0, self->page->index);
	ASSERT_TRUE(brackets_run(&b, 100, self->fd, self->page));
	EXPECT_EQ(100, b.direct);
	EXPECT_BRACKETS(&b);
}

TEST_HARNESS_MAIN
