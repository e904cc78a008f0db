// SPDX-License-Identifier: GPL-2.0
/*
 * perf gate selftests - links made, dropped and fired by everybody at once
 *
 * What goes wrong here shows in the kernel log or as a hang, and in an ioctl
 * that fails with an error it has no reason for. Gates must count exactly
 * afterwards. GATE_RACE_SECONDS makes each race longer than its 8 seconds.
 */
#define _GNU_SOURCE

#include <pthread.h>

#include "../kselftest_harness.h"
#include "gate_helpers.h"

#define SPINNER	"gate_race_spinner"

#define DEFAULT_SECONDS	8
#define MAX_SECONDS	3600
/* A race, and time to take down what it leaves on a slow machine. */
#define RACE_TIMEOUT	(MAX_SECONDS + 120)

#define NR_THREADS	4
#define NR_FIRING	2
#define POOL_SIZE	64

static const char *const tracepoints[] = {
	"syscalls/sys_enter_getuid",
	"syscalls/sys_enter_geteuid",
	"syscalls/sys_enter_getppid",
};

/*
 * One event of each of these stays open. Otherwise each one opened and closed
 * in a race would be the first and the last of its kind, and the kernel would
 * do little else than to patch itself for that, which emulators are slow at
 * and have been seen to get wrong.
 */
static const __u64 kept_kinds[] = {
	PERF_COUNT_SW_PAGE_FAULTS,
	PERF_COUNT_SW_CONTEXT_SWITCHES,
};

/* What the threads of a race share. */
struct race {
	const struct gate_triggers *triggers;
	__u64 end;
	int kept[ARRAY_SIZE(kept_kinds)];
	long tracepoint_ids[ARRAY_SIZE(tracepoints)];
	int pool[POOL_SIZE];
	pid_t firing[NR_FIRING];
	unsigned long surprises;
};

FIXTURE(gate_race)
{
	struct gate_triggers triggers;
	struct gate_pages pages;
	struct race race;
};

FIXTURE_SETUP(gate_race)
{
	const char *asked = getenv("GATE_RACE_SECONDS");
	__u64 seconds = asked ? strtoul(asked, NULL, 0) : DEFAULT_SECONDS;
	unsigned int i;

	if (triggers_open(_metadata, &self->triggers))
		return;
	if (seconds > MAX_SECONDS)
		seconds = MAX_SECONDS;
	ASSERT_EQ(0, pages_map(&self->pages, 16));
	/* Looked up here: during a race the only descriptors to come and go are events. */
	for (i = 0; i < ARRAY_SIZE(tracepoints); i++)
		self->race.tracepoint_ids[i] = tracepoint_id(tracepoints[i]);
	for (i = 0; i < ARRAY_SIZE(kept_kinds); i++) {
		self->race.kept[i] = gate_open_self(PERF_TYPE_SOFTWARE, kept_kinds[i]);
		ASSERT_LE(0, self->race.kept[i]);
	}
	for (i = 0; i < POOL_SIZE; i++)
		self->race.pool[i] = -1;
	self->race.triggers = &self->triggers;
	self->race.end = clock_ns(CLOCK_MONOTONIC) + seconds * NSEC_PER_SEC;
}

FIXTURE_TEARDOWN(gate_race)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(kept_kinds); i++)
		close(self->race.kept[i]);
	munmap(self->pages.mem, self->pages.size);
	triggers_close(&self->triggers);
}

static bool time_is_left(__u64 end)
{
	return clock_ns(CLOCK_MONOTONIC) < end;
}

/* Fires both triggers and feeds the targets, on this CPU and on that. */
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

/* A new event of a kind and with options that @seed picks. */
static int open_random(const struct race *race, unsigned int *seed)
{
	static const __u64 software[] = {
		PERF_COUNT_SW_PAGE_FAULTS,
		PERF_COUNT_SW_CONTEXT_SWITCHES,
		PERF_COUNT_SW_CPU_CLOCK,
		PERF_COUNT_SW_TASK_CLOCK,
	};
	pid_t pid = race->firing[rand_r(seed) % NR_FIRING];
	unsigned int kind = rand_r(seed) % 10;
	struct perf_event_attr attr;

	if (kind < 6)
		attr = gate_attr(PERF_TYPE_TRACEPOINT, race->tracepoint_ids[kind % 3]);
	else
		attr = gate_attr(PERF_TYPE_SOFTWARE, software[kind - 6]);
	/* Each of 1 .. 4 for events, 1 ms for clocks. */
	if (!(rand_r(seed) % 3))
		attr.sample_period = kind < 8 ? 1 + rand_r(seed) % 4 : NSEC_PER_MSEC;
	if (!(rand_r(seed) % 4))
		gate_attr_set_bit(&attr, GATE_BIT_START_PAUSED);
	if (!(rand_r(seed) % 4))
		gate_attr_set_bit(&attr, GATE_BIT_NEST);
	attr.disabled = !(rand_r(seed) % 8);
	return gate_open(&attr, pid, -1);
}

static bool error_is_expected(int error)
{
	switch (-error) {
	case 0:
	case EBADF:
	case EINVAL:
	case EEXIST:
	case EBUSY:
	case ENOSPC:
	case ESRCH:
		return true;
	default:
		return false;
	}
}

/*
 * Only the thread that takes a descriptor out of the pool closes it. The
 * others may use it meanwhile: its number may be closed then, or already be
 * that of another event, but never of anything else that is harmed by this.
 */
static void random_step(struct race *race, unsigned int *seed)
{
	int fd = __atomic_load_n(&race->pool[rand_r(seed) % POOL_SIZE], __ATOMIC_RELAXED);
	int other = __atomic_load_n(&race->pool[rand_r(seed) % POOL_SIZE], __ATOMIC_RELAXED);
	__u64 period = 1 + rand_r(seed) % 8;
	struct gate_value value;
	int old, error = 0;

	switch (rand_r(seed) % 20) {
	case 0 ... 3:
		old = __atomic_exchange_n(&race->pool[rand_r(seed) % POOL_SIZE],
					  open_random(race, seed), __ATOMIC_RELAXED);
		if (old >= 0)
			close(old);
		break;
	case 4 ... 7:
		error = set_starter(fd, other);
		break;
	case 8 ... 11:
		error = set_stopper(fd, other);
		break;
	case 12:
		error = set_starter(fd, -1);
		break;
	case 13:
		error = set_stopper(fd, -1);
		break;
	case 14:
		error = clear_gate(fd);
		break;
	case 15:
		if (read(fd, &value, sizeof(value)) < 0)
			error = -errno;
		break;
	case 16:
		error = gate_ioctl(fd, PERF_EVENT_IOC_RESET, 0);
		break;
	case 17:
		error = gate_ioctl(fd, PERF_EVENT_IOC_PERIOD, (unsigned long)&period);
		break;
	case 18:
		error = gate_ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
		break;
	case 19:
		error = gate_ioctl(fd, PERF_EVENT_IOC_ENABLE, 0);
		break;
	}
	if (!error_is_expected(error)) {
		fprintf(stderr, "# unexpected: %s\n", strerror(-error));
		__atomic_add_fetch(&race->surprises, 1, __ATOMIC_RELAXED);
	}
}

static void *step_until_end(void *data)
{
	struct race *race = data;
	unsigned int seed = (unsigned long)pthread_self() >> 12;

	while (time_is_left(race->end))
		random_step(race, &seed);
	return NULL;
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
	pthread_t threads[NR_THREADS];
	int i;

	for (i = 0; i < NR_FIRING; i++) {
		self->race.firing[i] = fork_firing(&self->pages);
		ASSERT_LE(0, self->race.firing[i]);
	}
	for (i = 0; i < NR_THREADS; i++)
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, step_until_end, &self->race));
	for (i = 0; i < NR_THREADS; i++)
		ASSERT_EQ(0, pthread_join(threads[i], NULL));
	for (i = 0; i < NR_FIRING; i++) {
		kill(self->race.firing[i], SIGKILL);
		ASSERT_EQ(self->race.firing[i], waitpid(self->race.firing[i], NULL, 0));
	}
	for (i = 0; i < POOL_SIZE; i++) {
		if (self->race.pool[i] >= 0)
			close(self->race.pool[i]);
	}
	EXPECT_EQ(0, self->race.surprises);
	expect_exact_count(_metadata, &self->triggers, &self->pages);
}

/* Links, reads and drops events of a task that is on its way out. */
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
	/* All ones would be a read that failed. */
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

	while (time_is_left(self->race.end)) {
		child = fork_firing(&self->pages);
		ASSERT_LE(0, child);
		for (i = 0; i < 2; i++) {
			attr = gate_attr(PERF_TYPE_TRACEPOINT, self->race.tracepoint_ids[i]);
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

	while (time_is_left(race->end)) {
		set_both(race->triggers, race->pool[0]);
		clear_gate(race->pool[0]);
	}
	return NULL;
}

/* The windows of this thread open and close in the middle of each link. */
TEST_F_TIMEOUT(gate_race, windows_run_while_the_gate_is_linked_and_cleared, RACE_TIMEOUT)
{
	struct gate_value value;
	pthread_t thread;
	__u64 all = 0;

	self->race.pool[0] = gate_open_self(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS);
	ASSERT_LE(0, self->race.pool[0]);
	ASSERT_EQ(0, pthread_create(&thread, NULL, link_until_end, &self->race));
	/* Takes out the faults of a new thread's stack. */
	gate_ioctl(self->race.pool[0], PERF_EVENT_IOC_RESET, 0);
	while (time_is_left(self->race.end)) {
		window_open();
		pages_touch(&self->pages, 2);
		window_close();
		pages_touch(&self->pages, 1);
		all += 3;
		value = gate_read(self->race.pool[0]);
		ASSERT_GE(all, value.value);
		ASSERT_LE(value.gate_time, value.running);
	}
	ASSERT_EQ(0, pthread_join(thread, NULL));
	ASSERT_EQ(0, clear_gate(self->race.pool[0]));
	value = gate_read(self->race.pool[0]);
	pages_touch(&self->pages, 5);
	EXPECT_EQ(value.value + 5, gate_read_count(self->race.pool[0]));
	expect_exact_count(_metadata, &self->triggers, &self->pages);
}

#define NR_TARGETS	2048
#define NR_TRIGGERS	(NR_TARGETS / GATE_MAX_TARGETS)

/*
 * The events are off while there are so many of them: each further one that
 * is on has the kernel reschedule all the others of the task.
 */
TEST_F_TIMEOUT(gate_race, thousands_of_links_of_one_process, RACE_TIMEOUT)
{
	struct rlimit limit = { 2 * NR_TARGETS, 2 * NR_TARGETS };
	struct perf_event_attr attr;
	int triggers[NR_TRIGGERS];
	int targets[NR_TARGETS];
	int i;

	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &limit));
	attr = gate_attr(PERF_TYPE_TRACEPOINT, self->race.tracepoint_ids[0]);
	attr.disabled = 1;
	for (i = 0; i < NR_TRIGGERS; i++) {
		triggers[i] = gate_open(&attr, 0, -1);
		ASSERT_LE(0, triggers[i]);
	}
	attr = gate_attr(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS);
	attr.disabled = 1;
	for (i = 0; i < NR_TARGETS; i++) {
		targets[i] = gate_open(&attr, 0, -1);
		ASSERT_LE(0, targets[i]);
		ASSERT_EQ(0, set_starter(triggers[i / GATE_MAX_TARGETS], targets[i])) {
			TH_LOG("target %d", i);
		}
	}
	for (i = 0; i < NR_TRIGGERS; i++)
		gate_ioctl(triggers[i], PERF_EVENT_IOC_ENABLE, 0);
	window_open();
	for (i = 0; i < NR_TARGETS; i++) {
		EXPECT_EQ(1, gate_read(targets[i]).gate_count) {
			TH_LOG("target %d", i);
		}
	}
	for (i = 0; i < NR_TARGETS; i++)
		close(targets[NR_TARGETS - 1 - i]);
	for (i = 0; i < NR_TRIGGERS; i++)
		close(triggers[i]);
	expect_exact_count(_metadata, &self->triggers, &self->pages);
}

/*
 * After exec(), the task has a context without any event in it. What is done to
 * an event that was in it must not go looking for it there.
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

/* What the test above executes: at work, so that its context would be active. */
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
