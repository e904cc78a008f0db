// SPDX-License-Identifier: GPL-2.0
/*
 * perf gate selftests - threads make, drop and fire links concurrently
 *
 * Gates must count exactly afterwards. GATE_RACE_SECONDS makes each race longer
 * than its 8 seconds.
 */
#define _GNU_SOURCE

#include "../kselftest_harness.h"
#include "gate_pool.h"

#define SPINNER	"gate_race_spinner"

/* Time of a race, and of its cleanup on a slow machine. */
#define RACE_TIMEOUT	(POOL_MAX_SECONDS + 120)

#define NR_FIRING	2

/* Data that the threads of a race share. */
struct race {
	struct pool pool;
	const struct gate_triggers *triggers;
	pid_t firing[NR_FIRING];
};

FIXTURE(gate_race)
{
	struct gate_triggers triggers;
	struct gate_pages pages;
	struct race race;
};

FIXTURE_SETUP(gate_race)
{
	if (triggers_open(_metadata, &self->triggers))
		return;
	ASSERT_EQ(0, pages_map(&self->pages, 16));
	pool_init(_metadata, &self->race.pool);
	self->race.triggers = &self->triggers;
}

FIXTURE_TEARDOWN(gate_race)
{
	pool_close(&self->race.pool);
	munmap(self->pages.mem, self->pages.size);
	triggers_close(&self->triggers);
}

/* Fire both triggers and feed the targets, on two CPUs in turn. */
static void fire_until_killed(const struct gate_pages *pages)
{
	unsigned int round;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (round = 0;; round++) {
		window_open();
		pages_touch(pages, 1);
		call_getppid(1);
		window_close();
		if (!(round % 512) && nth_cpu(1) >= 0)
			pin_to_cpu(nth_cpu(0) + (round / 512) % 2);
	}
}

static pid_t fork_firing(const struct gate_pages *pages)
{
	pid_t child = fork();

	if (!child)
		fire_until_killed(pages);
	return child;
}

static int open_of_firing(struct pool *pool, struct perf_event_attr *attr, unsigned int *seed)
{
	struct race *race = (struct race *)pool;

	return gate_open(attr, race->firing[rand_r(seed) % NR_FIRING],
			 rand_r(seed) % 3 ? -1 : nth_cpu(rand_r(seed) % 2));
}

static void expect_exact_count(struct __test_metadata *const _metadata,
			       const struct gate_triggers *triggers,
			       const struct gate_pages *pages)
{
	int target = gate_open_counter(_metadata, triggers, PERF_TYPE_SOFTWARE,
				       PERF_COUNT_SW_PAGE_FAULTS);
	int i;

	gate_ioctl(target, PERF_EVENT_IOC_RESET, 0);
	for (i = 0; i < 100; i++) {
		window_open();
		pages_touch(pages, 2);
		window_close();
		pages_touch(pages, 3);
	}
	EXPECT_EQ(200, gate_read_count(target));
	close(target);
}

TEST_F_TIMEOUT(gate_race, everything_at_once_on_a_pool_of_events, RACE_TIMEOUT)
{
	int i;

	for (i = 0; i < NR_FIRING; i++) {
		self->race.firing[i] = fork_firing(&self->pages);
		ASSERT_LE(0, self->race.firing[i]);
	}
	self->race.pool.open = open_of_firing;
	pool_use(_metadata, &self->race.pool);
	for (i = 0; i < NR_FIRING; i++) {
		kill(self->race.firing[i], SIGKILL);
		ASSERT_EQ(self->race.firing[i], waitpid(self->race.firing[i], NULL, 0));
	}
	expect_exact_count(_metadata, &self->triggers, &self->pages);
}

/* Link, read and drop events of a task that exits. */
static void *use_dying_events(void *data)
{
	int *fds = data;
	int error;

	error = set_starter(fds[0], fds[2]);
	if (!error_is_expected(error))
		return "SET_STARTER";
	error = set_stopper(fds[1], fds[2]);
	if (!error_is_expected(error))
		return "SET_STOPPER";
	/* A failed read gives all ones. */
	if (gate_read_count(fds[2]) == ~0ULL)
		return "read";
	error = set_starter(fds[0], -1);
	if (!error_is_expected(error))
		return "drop";
	return NULL;
}

TEST_F_TIMEOUT(gate_race, task_exits_while_its_events_are_linked, RACE_TIMEOUT)
{
	struct perf_event_attr attr;
	unsigned int seed = 1, i;
	pthread_t thread;
	void *failed;
	pid_t child;
	int fds[3];

	while (pool_has_time(&self->race.pool)) {
		child = fork_firing(&self->pages);
		ASSERT_LE(0, child);
		for (i = 0; i < 2; i++) {
			attr = gate_attr(PERF_TYPE_TRACEPOINT, self->race.pool.tracepoint_ids[i]);
			fds[i] = gate_open(&attr, child, -1);
			ASSERT_LE(0, fds[i]);
		}
		attr = gate_attr(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS);
		fds[2] = gate_open(&attr, child, -1);
		ASSERT_LE(0, fds[2]);
		ASSERT_EQ(0, pthread_create(&thread, NULL, use_dying_events, fds));
		for (i = rand_r(&seed) % 64; i; i--)
			sched_yield();
		kill(child, SIGKILL);
		ASSERT_EQ(child, waitpid(child, NULL, 0));
		ASSERT_EQ(0, pthread_join(thread, &failed));
		ASSERT_EQ(NULL, failed) {
			TH_LOG("%s failed in an unexpected way", (char *)failed);
		}
		for (i = 0; i < 3; i++)
			close(fds[(i + seed) % 3]);
	}
	expect_exact_count(_metadata, &self->triggers, &self->pages);
}

static void *link_until_end(void *data)
{
	struct race *race = data;

	while (pool_has_time(&race->pool)) {
		set_both(race->triggers, race->pool.fds[0]);
		clear_gate(race->pool.fds[0]);
	}
	return NULL;
}

/* The windows of this thread open and close while links are made. */
TEST_F_TIMEOUT(gate_race, windows_run_while_the_gate_is_linked_and_cleared, RACE_TIMEOUT)
{
	struct gate_value value;
	pthread_t thread;
	__u64 all = 0;

	self->race.pool.fds[0] = gate_open_self(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS);
	ASSERT_LE(0, self->race.pool.fds[0]);
	ASSERT_EQ(0, pthread_create(&thread, NULL, link_until_end, &self->race));
	/* Clear the count of faults on the stack of a new thread. */
	gate_ioctl(self->race.pool.fds[0], PERF_EVENT_IOC_RESET, 0);
	while (pool_has_time(&self->race.pool)) {
		window_open();
		pages_touch(&self->pages, 2);
		window_close();
		pages_touch(&self->pages, 1);
		all += 3;
		value = gate_read(self->race.pool.fds[0]);
		ASSERT_GE(all, value.value);
		ASSERT_LE(value.gate_time, value.running);
	}
	ASSERT_EQ(0, pthread_join(thread, NULL));
	ASSERT_EQ(0, clear_gate(self->race.pool.fds[0]));
	value = gate_read(self->race.pool.fds[0]);
	pages_touch(&self->pages, 5);
	EXPECT_EQ(value.value + 5, gate_read_count(self->race.pool.fds[0]));
	expect_exact_count(_metadata, &self->triggers, &self->pages);
}

/*
 * After exec(), the task has a context without events. An operation on an event that
 * was in it must not look for the event there.
 */
TEST(event_removed_on_exec_keeps_its_state)
{
	struct perf_event_attr attr = gate_attr(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS);
	int closed, open, running[2], i;
	pid_t child;
	char byte;

	attr.remove_on_exec = 1;
	ASSERT_EQ(0, pipe(running));
	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		raise(SIGSTOP);
		dup2(running[1], STDOUT_FILENO);
		execl("/proc/self/exe", SPINNER, NULL);
		_exit(1);
	}
	ASSERT_EQ(child, waitpid(child, NULL, WUNTRACED));
	open = gate_open(&attr, child, -1);
	ASSERT_LE(0, open);
	gate_attr_set_bit(&attr, GATE_BIT_START_PAUSED);
	closed = gate_open(&attr, child, -1);
	ASSERT_LE(0, closed);
	ASSERT_EQ(0, kill(child, SIGCONT));
	ASSERT_EQ(1, read(running[0], &byte, 1));

	for (i = 0; i < 100; i++) {
		EXPECT_EQ(0, clear_gate(closed));
		EXPECT_EQ(0, gate_ioctl(closed, PERF_EVENT_IOC_RESET, 0));
		EXPECT_EQ(0, set_starter(closed, -1));
		EXPECT_EQ(-ESRCH, set_starter(open, closed));
	}
	EXPECT_EQ(0, gate_read(closed).gate_count);
	EXPECT_EQ(0, gate_read_count(closed));
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

/* Program that the test above executes. It keeps running, so that its context would be active. */
static int spin(void)
{
	if (write(STDOUT_FILENO, "", 1) != 1)
		return 1;
	for (;;)
		;
}

#define main test_main
TEST_HARNESS_MAIN
#undef main

int main(int argc, char **argv)
{
	return !strcmp(argv[0], SPINNER) ? spin() : test_main(argc, argv);
}
