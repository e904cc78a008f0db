// SPDX-License-Identifier: GPL-2.0
/*
 * perf selftests on an emulated x86 PMU - more events than counters
 *
 * All events are enabled by one exec() and end with the task that did it, at
 * the same two instructions. A pinned event gives the right count, and the sum
 * of each counter agrees to the instruction, whichever events have used it.
 */
#define _GNU_SOURCE

#include "../kselftest_harness.h"
#include "x86_pmu_helpers.h"

#define MAX_EVENTS	12
#define WORK_VARIABLE	"X86_PMU_TURNS_WORK"
/* Some 50 times the interval at which events take turns. */
#define WORK_TIMES	200000000

struct turn {
	__u64	value;
	__u64	enabled;
	__u64	running;
};

FIXTURE(x86_pmu_turns)
{
	struct turn pinned;
	struct turn turns[MAX_EVENTS];
	pid_t child;
	int start;
	int pinned_fd;
	int fds[MAX_EVENTS];
};

/* The child executes this program again, which ends before main(). */
static __attribute__((constructor)) void work_after_exec(void)
{
	if (!getenv(WORK_VARIABLE))
		return;
	work_loop(WORK_TIMES);
	_exit(0);
}

static pid_t start_child(int *start)
{
	static char *const argv[] = { "work", NULL };
	static char *const envp[] = { WORK_VARIABLE "=1", NULL };
	int fds[2];
	pid_t pid;
	char byte;

	if (pipe2(fds, O_CLOEXEC))
		return -1;
	pid = fork();
	if (!pid) {
		close(fds[1]);
		if (read(fds[0], &byte, 1) == 1)
			execve("/proc/self/exe", argv, envp);
		_exit(1);
	}
	close(fds[0]);
	*start = fds[1];
	return pid;
}

static int open_for(pid_t pid, bool pinned, int leader)
{
	struct perf_event_attr attr = pmu_attr(PERF_TYPE_RAW, RAW_INSTRUCTIONS);

	attr.pinned = pinned;
	attr.disabled = leader < 0;
	attr.enable_on_exec = leader < 0;
	attr.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
	return syscall(__NR_perf_event_open, &attr, pid, -1, leader, PERF_FLAG_FD_CLOEXEC);
}

FIXTURE_SETUP(x86_pmu_turns)
{
	int i;

	self->child = -1;
	self->start = -1;
	self->pinned_fd = -1;
	for (i = 0; i < MAX_EVENTS; i++)
		self->fds[i] = -1;
	if (pmu_setup(_metadata))
		return;
	self->child = start_child(&self->start);
	ASSERT_LT(0, self->child);
	self->pinned_fd = open_for(self->child, true, -1);
	ASSERT_LE(0, self->pinned_fd);
}

FIXTURE_TEARDOWN(x86_pmu_turns)
{
	int i;

	close(self->start);
	if (self->child > 0)
		waitpid(self->child, NULL, 0);
	close(self->pinned_fd);
	for (i = 0; i < MAX_EVENTS; i++)
		close(self->fds[i]);
}

/* Number of counters for the other events: the pinned event has one. */
static int nr_counters(void)
{
	return nr_instruction_counters() - 1;
}

/* Open groups of @size events; a group has consecutive slots. */
static void open_events(struct __test_metadata *const _metadata,
			FIXTURE_DATA(x86_pmu_turns) * self, int nr, int size)
{
	int i;

	ASSERT_GE(MAX_EVENTS, nr);
	for (i = 0; i < nr; i++) {
		int leader = i % size ? self->fds[i - i % size] : -1;

		self->fds[i] = open_for(self->child, false, leader);
		ASSERT_LE(0, self->fds[i]);
	}
}

static void read_turn(struct __test_metadata *const _metadata, int fd, struct turn *turn)
{
	ASSERT_EQ(sizeof(*turn), read(fd, turn, sizeof(*turn)));
}

/*
 * Run the child, and check that all events were enabled for the same time and that the
 * pinned event ran.
 */
static void run_child(struct __test_metadata *const _metadata,
		      FIXTURE_DATA(x86_pmu_turns) * self, int nr)
{
	int status, i;

	ASSERT_EQ(1, write(self->start, "", 1));
	ASSERT_EQ(self->child, waitpid(self->child, &status, 0));
	self->child = -1;
	ASSERT_EQ(0, status);
	read_turn(_metadata, self->pinned_fd, &self->pinned);
	EXPECT_LT(2ULL * WORK_TIMES, self->pinned.value);
	EXPECT_EQ(self->pinned.enabled, self->pinned.running);
	for (i = 0; i < nr; i++) {
		read_turn(_metadata, self->fds[i], &self->turns[i]);
		EXPECT_EQ(self->pinned.enabled, self->turns[i].enabled);
	}
}

/* Sum over the events at first, first + step and so on. */
static struct turn sum_of_turns(FIXTURE_DATA(x86_pmu_turns) * self, int nr, int first, int step)
{
	struct turn sum = {};
	int i;

	for (i = first; i < nr; i += step) {
		sum.value += self->turns[i].value;
		sum.running += self->turns[i].running;
	}
	return sum;
}

TEST_F(x86_pmu_turns, events_that_fit_run_all_the_time)
{
	int nr = nr_counters(), i;

	ASSERT_LE(2, nr);
	open_events(_metadata, self, nr, 1);
	run_child(_metadata, self, nr);
	for (i = 0; i < nr; i++) {
		EXPECT_EQ(self->pinned.value, self->turns[i].value);
		EXPECT_EQ(self->pinned.enabled, self->turns[i].running);
	}
}

TEST_F(x86_pmu_turns, each_event_has_its_turn)
{
	int i;

	open_events(_metadata, self, 10, 1);
	run_child(_metadata, self, 10);
	for (i = 0; i < 10; i++) {
		EXPECT_LT(0, self->turns[i].value);
		EXPECT_GT(self->pinned.value, self->turns[i].value);
		EXPECT_LT(0, self->turns[i].running);
		EXPECT_GT(self->pinned.enabled, self->turns[i].running);
	}
}

TEST_F(x86_pmu_turns, no_counter_is_ever_idle)
{
	struct turn sum;

	open_events(_metadata, self, 10, 1);
	run_child(_metadata, self, 10);
	sum = sum_of_turns(self, 10, 0, 1);
	EXPECT_EQ(nr_counters() * self->pinned.value, sum.value);
	EXPECT_EQ(nr_counters() * self->pinned.enabled, sum.running);
}

/* One event always waits for a counter, in turn. */
TEST_F(x86_pmu_turns, one_event_too_many_makes_all_take_turns)
{
	int nr = nr_counters() + 1, i;
	struct turn sum;

	open_events(_metadata, self, nr, 1);
	run_child(_metadata, self, nr);
	sum = sum_of_turns(self, nr, 0, 1);
	EXPECT_EQ(nr_counters() * self->pinned.value, sum.value);
	EXPECT_EQ(nr_counters() * self->pinned.enabled, sum.running);
	for (i = 0; i < nr; i++)
		EXPECT_GT(self->pinned.value, self->turns[i].value);
}

TEST_F(x86_pmu_turns, groups_have_their_turn_as_a_whole)
{
	int nr = 8, at_once = nr_counters() / 2, i;
	struct turn sum;

	open_events(_metadata, self, nr, 2);
	run_child(_metadata, self, nr);
	for (i = 0; i < nr; i += 2) {
		EXPECT_LT(0, self->turns[i].value);
		EXPECT_EQ(self->turns[i].value, self->turns[i + 1].value);
		EXPECT_EQ(self->turns[i].running, self->turns[i + 1].running);
	}
	sum = sum_of_turns(self, nr, 0, 2);
	EXPECT_EQ(at_once * self->pinned.value, sum.value);
	EXPECT_EQ(at_once * self->pinned.enabled, sum.running);
}

TEST_HARNESS_MAIN
