// SPDX-License-Identifier: GPL-2.0
/*
 * perf gate selftests - failed allocations while events are opened, linked and forked
 *
 * /proc/thread-self/fail-nth makes the n-th allocation of the task fail. Each test
 * tries every n until the operation makes fewer allocations than n. An operation
 * that fails must change nothing.
 */
#define _GNU_SOURCE

#include "../kselftest_harness.h"
#include "gate_family.h"
#include "gate_windows.h"

#define DEBUGFS		"/sys/kernel/debug/"
#define KMEMLEAK	DEBUGFS "kmemleak"
#define MAX_NTH		1000

FIXTURE(gate_fault)
{
	struct gate_triggers triggers;
	struct gate_pages pages;
	struct perf_event_attr attr;
	int fail_nth;
	long objects;
	unsigned int failures;
};

FIXTURE_SETUP(gate_fault)
{
	if (triggers_open(_metadata, &self->triggers))
		return;
	triggers_close(&self->triggers);
	self->fail_nth = open("/proc/thread-self/fail-nth", O_RDWR);
	if (self->fail_nth < 0)
		SKIP(return, "kernel without CONFIG_FAULT_INJECTION");
	/* Fail allocations that may sleep as well, without a stack trace for each. */
	if (!write_text(DEBUGFS "failslab/ignore-gfp-wait", "N") ||
	    !write_text(DEBUGFS "failslab/verbose", "0"))
		SKIP(return, "no " DEBUGFS "failslab, see CONFIG_FAULT_INJECTION_DEBUG_FS");
	write_text(DEBUGFS "fail_page_alloc/verbose", "0");
	write_text(DEBUGFS "fail_usercopy/verbose", "0");
	ASSERT_EQ(0, pages_map(&self->pages, 16));
	self->objects = count_events();
	self->attr = gate_attr(PERF_TYPE_TRACEPOINT, 0);
	self->triggers.starter = open_tracepoint("syscalls/sys_enter_getuid");
	self->triggers.stopper = open_tracepoint("syscalls/sys_enter_geteuid");
	self->attr.config = tracepoint_id("syscalls/sys_enter_getppid");
}

/* kmemleak reports memory without references after five seconds. */
static bool nothing_leaked(void)
{
	bool found = false;
	char line[512];
	FILE *leaks;

	if (access(KMEMLEAK, W_OK))
		return true;
	sleep(6);
	write_text(KMEMLEAK, "scan");
	write_text(KMEMLEAK, "scan");
	leaks = fopen(KMEMLEAK, "r");
	if (!leaks)
		return true;
	while (fgets(line, sizeof(line), leaks)) {
		fprintf(stderr, "# %s", line);
		found |= !!strstr(line, "gate_fault");
	}
	fclose(leaks);
	return !found;
}

FIXTURE_TEARDOWN(gate_fault)
{
	triggers_close(&self->triggers);
	if (self->fail_nth >= 0) {
		EXPECT_TRUE(self->objects < 0 || events_go_down_to(self->objects));
		EXPECT_TRUE(nothing_leaked());
	}
	close(self->fail_nth);
	munmap(self->pages.mem, self->pages.size);
}

static void arm(int fail_nth, unsigned int nth)
{
	char text[16];
	int len = snprintf(text, sizeof(text), "%u", nth);

	if (pwrite(fail_nth, text, len, 0) != len)
		perror("fail-nth");
}

/* Tell whether an allocation has failed since. The read itself may fail. */
static bool disarm(int fail_nth)
{
	unsigned int left = 1;
	char text[16] = "";

	if (pread(fail_nth, text, sizeof(text) - 1, 0) > 0)
		left = strtoul(text, NULL, 0);
	while (pwrite(fail_nth, "0", 1, 0) != 1)
		;
	return !left;
}

/*
 * The n-th allocation differs from one call to the next, because the slab and kmemleak
 * allocate as well. Several rounds cover all of them.
 */
#define ROUNDS	3

/* Expect that the n-th allocation failed, and that the operation returned @error. */
static void expect_clean_error(struct __test_metadata *const _metadata,
			       unsigned int *failures, unsigned int nth, int error)
{
	if (!error)
		return;
	(*failures)++;
	EXPECT_TRUE(error == -ENOMEM || error == -EFAULT) {
		TH_LOG("allocation %u: %s", nth, strerror(-error));
	}
}

TEST_F_TIMEOUT(gate_fault, open_without_memory_leaves_nothing, 300)
{
	unsigned int nth;
	bool fired = true;
	int fd, error;

	gate_attr_set_bit(&self->attr, GATE_BIT_START_PAUSED);
	for (nth = 1; fired && nth < MAX_NTH; nth++) {
		arm(self->fail_nth, nth);
		fd = gate_open(&self->attr, 0, -1);
		error = fd < 0 ? -errno : 0;
		fired = disarm(self->fail_nth);
		if (fd >= 0) {
			/* The failed allocation was not needed. */
			call_getppid(3);
			EXPECT_EQ(0, gate_read_count(fd));
			EXPECT_EQ(0, set_both(&self->triggers, fd));
			run_windows(1, 2, 3);
			EXPECT_EQ(2, gate_read_count(fd));
			close(fd);
		}
		expect_clean_error(_metadata, &self->failures, nth, error);
	}
	EXPECT_FALSE(fired);
	/* At least the event and its gate were allocated. */
	EXPECT_LE(4, self->failures);
}

static void expect_ungated(struct __test_metadata *const _metadata,
			   const struct gate_triggers *triggers, int target)
{
	__u64 before = gate_read_count(target);

	run_windows(1, 2, 3);
	EXPECT_EQ(before + 5, gate_read_count(target));
	EXPECT_EQ(0, gate_read(target).gate_count);
	EXPECT_EQ(0, set_starter(triggers->starter, -1));
	EXPECT_EQ(0, set_both(triggers, target));
	before = gate_read_count(target);
	run_windows(1, 2, 3);
	EXPECT_EQ(before + 2, gate_read_count(target));
}

TEST_F_TIMEOUT(gate_fault, link_without_memory_leaves_the_gate_open, 300)
{
	struct gate_triggers triggers;
	bool fired;
	unsigned int nth, round;
	int target, error;

	for (round = 0; round < ROUNDS; round++) {
		fired = true;
		for (nth = 1; fired && nth < MAX_NTH; nth++) {
			/*
			 * Use new events without gates each time, so that all three
			 * parts are allocated.
			 */
			triggers.starter = open_tracepoint("syscalls/sys_enter_getuid");
			ASSERT_LE(0, triggers.starter);
			triggers.stopper = open_tracepoint("syscalls/sys_enter_geteuid");
			ASSERT_LE(0, triggers.stopper);
			target = gate_open(&self->attr, 0, -1);
			ASSERT_LE(0, target);
			arm(self->fail_nth, nth);
			error = set_starter(triggers.starter, target);
			fired = disarm(self->fail_nth);
			if (error)
				expect_ungated(_metadata, &triggers, target);
			expect_clean_error(_metadata, &self->failures, nth, error);
			close(target);
			triggers_close(&triggers);
		}
		EXPECT_FALSE(fired);
	}
	/* At least a gate for either event and the link were allocated. */
	EXPECT_LE(3, self->failures);
}

/* Open inherited triggers and an inherited target, without links. */
static int open_family(struct __test_metadata *const _metadata,
		       struct perf_event_attr *attr, struct gate_triggers *triggers)
{
	int target;

	triggers->starter = open_inherited("syscalls/sys_enter_getuid");
	ASSERT_LE(0, triggers->starter);
	triggers->stopper = open_inherited("syscalls/sys_enter_geteuid");
	ASSERT_LE(0, triggers->stopper);
	attr->inherit = 1;
	target = gate_open(attr, 0, -1);
	ASSERT_LE(0, target);
	return target;
}

/* Either all tasks are linked, or none is. */
TEST_F_TIMEOUT(gate_fault, link_without_memory_reaches_no_child, 300)
{
	struct gate_triggers triggers;
	struct puppet children[3];
	bool fired;
	unsigned int nth, round;
	int target, error, i;

	for (round = 0; round < ROUNDS; round++) {
		fired = true;
		for (nth = 1; fired && nth < MAX_NTH; nth++) {
			target = open_family(_metadata, &self->attr, &triggers);
			for (i = 0; i < ARRAY_SIZE(children); i++)
				puppet_fork(_metadata, &children[i]);
			arm(self->fail_nth, nth);
			error = set_starter(triggers.starter, target);
			fired = disarm(self->fail_nth);
			for (i = 0; i < ARRAY_SIZE(children); i++)
				EXPECT_TRUE(tell(&children[i], "gg"));
			EXPECT_EQ(error ? 2 * ARRAY_SIZE(children) : 0, gate_read_count(target)) {
				TH_LOG("allocation %u", nth);
			}
			if (error)
				expect_ungated(_metadata, &triggers, target);
			expect_clean_error(_metadata, &self->failures, nth, error);
			for (i = 0; i < ARRAY_SIZE(children); i++)
				puppet_end(_metadata, &children[i]);
			close(target);
			triggers_close(&triggers);
		}
		EXPECT_FALSE(fired);
	}
	/* Each task has its own gates and link. */
	EXPECT_LE(3 * (1 + ARRAY_SIZE(children)), self->failures);
}

/*
 * Either all inherited events join as well, or none does. The children of the second
 * half have no event that they could join: they get a gate without an event of its own.
 */
TEST_F_TIMEOUT(gate_fault, join_without_memory_reaches_no_child, 600)
{
	struct gate_triggers triggers;
	struct puppet children[2];
	unsigned int nth, round;
	int first, member, error, i;
	bool fired, alone;

	for (round = 0; round < 2 * ROUNDS; round++) {
		fired = true;
		alone = round >= ROUNDS;
		for (nth = 1; fired && nth < MAX_NTH; nth++) {
			self->attr.inherit = 1;
			member = gate_open(&self->attr, 0, -1);
			ASSERT_LE(0, member);
			for (i = 0; alone && i < ARRAY_SIZE(children); i++)
				puppet_fork(_metadata, &children[i]);
			first = open_family(_metadata, &self->attr, &triggers);
			ASSERT_EQ(0, set_both(&triggers, first));
			for (i = 0; !alone && i < ARRAY_SIZE(children); i++)
				puppet_fork(_metadata, &children[i]);
			arm(self->fail_nth, nth);
			error = join_gate(member, first);
			fired = disarm(self->fail_nth);
			call_getppid(1);
			for (i = 0; i < ARRAY_SIZE(children); i++)
				EXPECT_TRUE(tell(&children[i], "gg"));
			EXPECT_EQ(error ? 1 + 2 * ARRAY_SIZE(children) : 0,
				  gate_read_count(member)) {
				TH_LOG("allocation %u of round %u: %s", nth, round,
				       strerror(-error));
			}
			EXPECT_EQ(0, gate_read_count(first));
			if (error)
				EXPECT_EQ(0, join_gate(member, first));
			expect_clean_error(_metadata, &self->failures, nth, error);
			for (i = 0; i < ARRAY_SIZE(children); i++)
				puppet_end(_metadata, &children[i]);
			close(member);
			close(first);
			triggers_close(&triggers);
		}
		EXPECT_FALSE(fired);
	}
	/* At least a gate for the member of each task was allocated. */
	EXPECT_LE(2 * (1 + ARRAY_SIZE(children)), self->failures);
}

/*
 * The event that the others have joined is closed, so the events of a new task share a
 * new gate.
 */
TEST_F_TIMEOUT(gate_fault, fork_of_members_without_memory_leaves_nothing, 300)
{
	unsigned int nth, expected = 0;
	struct gate_triggers triggers;
	int first, members[2], i;
	bool fired = true;
	pid_t child;

	first = open_family(_metadata, &self->attr, &triggers);
	ASSERT_EQ(0, set_both(&triggers, first));
	for (i = 0; i < ARRAY_SIZE(members); i++) {
		members[i] = gate_open(&self->attr, 0, -1);
		ASSERT_LE(0, members[i]);
		ASSERT_EQ(0, join_gate(members[i], first));
	}
	close(first);
	for (nth = 1; fired && nth < MAX_NTH; nth++) {
		arm(self->fail_nth, nth);
		child = syscall(__NR_clone, SIGCHLD, 0, 0, 0, 0);
		if (!child) {
			run_windows(2, 3, 4);
			_exit(0);
		}
		fired = disarm(self->fail_nth);
		if (child > 0) {
			wait_for_success(_metadata, child);
			expected += 6;
		} else {
			self->failures++;
		}
		run_windows(1, 1, 2);
		expected++;
		for (i = 0; i < ARRAY_SIZE(members); i++)
			ASSERT_EQ(expected, gate_read_count(members[i])) {
				TH_LOG("allocation %u", nth);
			}
	}
	EXPECT_FALSE(fired);
	/* At least four events, the gates of two, the shared gate, and links were allocated. */
	EXPECT_LE(9, self->failures);
	for (i = 0; i < ARRAY_SIZE(members); i++)
		close(members[i]);
	triggers_close(&triggers);
}

/* Either all tasks begin a new histogram, or the former one goes on in all of them. */
TEST_F_TIMEOUT(gate_fault, windows_without_memory_leave_the_former_ones, 300)
{
	struct gate_triggers triggers;
	struct histogram histogram;
	struct puppet children[2];
	bool fired = true;
	unsigned int nth;
	int target, error, i;

	target = open_family(_metadata, &self->attr, &triggers);
	ASSERT_EQ(0, set_both(&triggers, target));
	for (i = 0; i < ARRAY_SIZE(children); i++)
		puppet_fork(_metadata, &children[i]);
	for (nth = 1; fired && nth < MAX_NTH; nth++) {
		ASSERT_EQ(0, set_histogram(target, PERF_WINDOWS_COUNT));
		EXPECT_TRUE(tell(&children[0], "ogc"));
		arm(self->fail_nth, nth);
		error = set_histogram(target, PERF_WINDOWS_COUNT);
		fired = disarm(self->fail_nth);
		for (i = 0; i < ARRAY_SIZE(children); i++)
			EXPECT_TRUE(tell(&children[i], "oggc"));
		run_windows(1, 3, 1);
		histogram = read_histogram(_metadata, target);
		EXPECT_EQ(!!error, histogram.bucket[1]) {
			TH_LOG("allocation %u", nth);
		}
		EXPECT_EQ(ARRAY_SIZE(children), histogram.bucket[2]);
		EXPECT_EQ(1, histogram.bucket[3]);
		EXPECT_EQ(0, histogram.missed);
		expect_clean_error(_metadata, &self->failures, nth, error);
	}
	EXPECT_FALSE(fired);
	/* At least the request, its charge, and a window for each task were allocated. */
	EXPECT_LE(3 + ARRAY_SIZE(children), self->failures);
	for (i = 0; i < ARRAY_SIZE(children); i++)
		puppet_end(_metadata, &children[i]);
	close(target);
	triggers_close(&triggers);
}

/* Children that were made while the event had no gate need a window each when it gets one. */
TEST_F_TIMEOUT(gate_fault, link_without_memory_gives_no_child_a_window, 300)
{
	struct gate_triggers triggers;
	struct puppet children[2];
	bool fired = true;
	__u64 windows;
	unsigned int nth;
	int target, error, i;

	for (nth = 1; fired && nth < MAX_NTH; nth++) {
		target = open_family(_metadata, &self->attr, &triggers);
		ASSERT_EQ(0, set_both(&triggers, target));
		ASSERT_EQ(0, set_histogram(target, PERF_WINDOWS_COUNT));
		ASSERT_EQ(0, clear_gate(target));
		for (i = 0; i < ARRAY_SIZE(children); i++)
			puppet_fork(_metadata, &children[i]);
		arm(self->fail_nth, nth);
		error = set_starter(triggers.starter, target);
		fired = disarm(self->fail_nth);
		if (!error)
			ASSERT_EQ(0, set_stopper(triggers.stopper, target));
		for (i = 0; i < ARRAY_SIZE(children); i++)
			EXPECT_TRUE(tell(&children[i], "oggc"));
		windows = read_histogram(_metadata, target).windows;
		EXPECT_EQ(error ? 0 : ARRAY_SIZE(children), windows) {
			TH_LOG("allocation %u", nth);
		}
		expect_clean_error(_metadata, &self->failures, nth, error);
		for (i = 0; i < ARRAY_SIZE(children); i++)
			puppet_end(_metadata, &children[i]);
		close(target);
		triggers_close(&triggers);
	}
	EXPECT_FALSE(fired);
	/* At least an account and a window for each child were allocated. */
	EXPECT_LE(2 * ARRAY_SIZE(children), self->failures);
}

/* Fail allocations that may not sleep, of any task. */
static void fail_atomic(bool fail)
{
	if (!fail)
		write_text(DEBUGFS "failslab/probability", "0");
	write_text(DEBUGFS "failslab/ignore-gfp-wait", fail ? "Y" : "N");
	write_text(DEBUGFS "failslab/times", fail ? "-1" : "1");
	if (fail)
		write_text(DEBUGFS "failslab/probability", "100");
}

/* A task has gates for two CPUs from its fork on, and gets more when these are in use. */
TEST_F_TIMEOUT(gate_fault, member_that_comes_to_run_waits_for_memory, 60)
{
	int cpus[] = { nth_cpu(0), nth_cpu(1), nth_cpu(2) };
	struct puppet child = { .cpus = cpus };
	int fds[ARRAY_SIZE(cpus)], i;
	struct gate_triggers triggers;
	struct gate_value value;

	if (cpus[2] < 0)
		SKIP(return, "needs three CPUs");
	triggers.starter = open_inherited("syscalls/sys_enter_getuid");
	ASSERT_LE(0, triggers.starter);
	triggers.stopper = open_inherited("syscalls/sys_enter_geteuid");
	ASSERT_LE(0, triggers.stopper);
	self->attr.inherit = 1;
	for (i = 0; i < ARRAY_SIZE(cpus); i++) {
		fds[i] = gate_open(&self->attr, 0, cpus[i]);
		ASSERT_LE(0, fds[i]);
		ASSERT_EQ(0, i ? join_gate(fds[i], fds[0]) : set_both(&triggers, fds[0]));
	}
	pin_to_cpu(cpus[0]);
	puppet_fork(_metadata, &child);
	ASSERT_TRUE(tell(&child, "0ogc"));
	fail_atomic(true);
	EXPECT_TRUE(tell(&child, "1ogc2ogc"));
	fail_atomic(false);
	EXPECT_EQ(1, gate_read_count(fds[0]));
	EXPECT_EQ(1, gate_read_count(fds[1]));
	value = gate_read_whole(fds[2]);
	EXPECT_EQ(0, value.value);
	EXPECT_EQ(0, value.running);
	EXPECT_LT(0, value.enabled);
	EXPECT_EQ(3, value.gate_count);
	/* The task requests a gate, and then has one. */
	ASSERT_TRUE(tell(&child, "..ogc"));
	EXPECT_EQ(1, gate_read_count(fds[2]));
	puppet_end(_metadata, &child);
	EXPECT_EQ(1, gate_read_count(fds[2]));
	EXPECT_EQ(4, gate_read(fds[2]).gate_count);
	for (i = 0; i < ARRAY_SIZE(cpus); i++)
		close(fds[i]);
	triggers_close(&triggers);
}

TEST_F_TIMEOUT(gate_fault, fork_without_memory_leaves_nothing, 300)
{
	struct gate_triggers triggers;
	unsigned int nth, expected = 0;
	bool fired = true;
	pid_t child;
	int target, error;

	target = open_family(_metadata, &self->attr, &triggers);
	ASSERT_EQ(0, set_both(&triggers, target));
	for (nth = 1; fired && nth < MAX_NTH; nth++) {
		arm(self->fail_nth, nth);
		/* Bypass the C library, which allocates memory itself. */
		child = syscall(__NR_clone, SIGCHLD, 0, 0, 0, 0);
		if (!child) {
			run_windows(2, 3, 4);
			_exit(0);
		}
		error = child < 0 ? -errno : 0;
		fired = disarm(self->fail_nth);
		if (child > 0) {
			wait_for_success(_metadata, child);
			expected += 6;
		} else if (error == -EAGAIN) {
			/* The kernel returns EAGAIN if it gets no PID or stack. */
			error = -ENOMEM;
		}
		run_windows(1, 1, 2);
		expected++;
		ASSERT_EQ(expected, gate_read_count(target)) {
			TH_LOG("allocation %u: %s", nth, strerror(-error));
		}
		expect_clean_error(_metadata, &self->failures, nth, error);
	}
	EXPECT_FALSE(fired);
	/* At least three events and their gates and links were allocated. */
	EXPECT_LE(8, self->failures);
	close(target);
	triggers_close(&triggers);
}

TEST_HARNESS_MAIN
