// SPDX-License-Identifier: GPL-2.0
/*
 * perf gate selftests - a task that moves between CPUs, and gates of several events
 *
 * A trigger that follows its task gates the events of the task for single CPUs,
 * each alone or as members of one gate.
 */
#define _GNU_SOURCE

#include "../kselftest_harness.h"
#include "gate_family.h"

#define NR_ROUNDS	20
#define NR_CPUS_USED	2

/* Open events for the calling task's page faults on each CPU, closed until a trigger fires. */
static void open_on_cpus(struct __test_metadata *const _metadata, int *fds,
			 const int *cpus, bool inherit)
{
	struct perf_event_attr attr = gate_attr(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS);
	int i;

	attr.inherit = inherit;
	gate_attr_set_bit(&attr, GATE_BIT_START_PAUSED);
	for (i = 0; i < NR_CPUS_USED; i++) {
		fds[i] = gate_open(&attr, 0, cpus[i]);
		ASSERT_LE(0, fds[i]);
	}
}

static __u64 sum_of(const int *fds)
{
	__u64 sum = 0;
	int i;

	for (i = 0; i < NR_CPUS_USED; i++)
		sum += gate_read_count(fds[i]);
	return sum;
}

/* Run windows with @inside faults on each of the CPUs, and more outside. */
static void windows_on_cpus(const struct gate_pages *pages, const int *cpus,
			    unsigned int nr, unsigned int inside)
{
	unsigned int i;

	for (i = 0; i < nr; i++) {
		pin_to_cpu(cpus[i % NR_CPUS_USED]);
		pages_touch(pages, 3 * inside);
		window_open();
		pages_touch(pages, inside);
		pin_to_cpu(cpus[(i + 1) % NR_CPUS_USED]);
		pages_touch(pages, inside);
		window_close();
		pages_touch(pages, 2 * inside);
	}
}

FIXTURE(gate_moving)
{
	struct gate_triggers triggers;
	struct gate_pages pages;
	int cpus[NR_CPUS_USED];
	int fds[NR_CPUS_USED];
};

FIXTURE_VARIANT(gate_moving)
{
	bool share;
};

FIXTURE_VARIANT_ADD(gate_moving, alone) {
	.share = false,
};

FIXTURE_VARIANT_ADD(gate_moving, shared) {
	.share = true,
};

FIXTURE_SETUP(gate_moving)
{
	int i;

	if (triggers_open(_metadata, &self->triggers))
		return;
	ASSERT_EQ(0, pages_map(&self->pages, 32));
	for (i = 0; i < NR_CPUS_USED; i++) {
		self->cpus[i] = nth_cpu(i);
		if (self->cpus[i] < 0)
			SKIP(return, "needs two CPUs");
	}
	/* Run once to fault in all pages of these functions. */
	windows_on_cpus(&self->pages, self->cpus, 2, 8);
}

FIXTURE_TEARDOWN(gate_moving)
{
	munmap(self->pages.mem, self->pages.size);
	triggers_close(&self->triggers);
}

static void link_all(struct __test_metadata *const _metadata,
		     const struct gate_triggers *triggers, const int *fds, bool share)
{
	int i;

	ASSERT_EQ(0, set_both(triggers, fds[0]));
	for (i = 1; i < NR_CPUS_USED; i++)
		ASSERT_EQ(0, share ? join_gate(fds[i], fds[0]) : set_both(triggers, fds[i]));
}

TEST_F(gate_moving, windows_that_change_the_cpu_are_counted_exactly)
{
	int i;

	open_on_cpus(_metadata, self->fds, self->cpus, false);
	link_all(_metadata, &self->triggers, self->fds, variant->share);
	windows_on_cpus(&self->pages, self->cpus, NR_ROUNDS, 8);
	EXPECT_EQ(2 * 8 * NR_ROUNDS, sum_of(self->fds));
	for (i = 0; i < NR_CPUS_USED; i++) {
		EXPECT_EQ(8 * NR_ROUNDS, gate_read_count(self->fds[i]));
		EXPECT_EQ(NR_ROUNDS, gate_read(self->fds[i]).gate_count);
	}
}

TEST_F(gate_moving, time_inside_is_that_of_the_cpu)
{
	struct gate_value value[2];

	open_on_cpus(_metadata, self->fds, self->cpus, false);
	link_all(_metadata, &self->triggers, self->fds, variant->share);
	pin_to_cpu(self->cpus[0]);
	window_open();
	spin_ns(5 * NSEC_PER_MSEC);
	pin_to_cpu(self->cpus[1]);
	window_close();
	spin_ns(5 * NSEC_PER_MSEC);
	value[0] = gate_read_whole(self->fds[0]);
	value[1] = gate_read_whole(self->fds[1]);
	/* The time of the task includes a task switch, during which the event does not run. */
	EXPECT_LE(4 * NSEC_PER_MSEC, value[0].gate_time);
	EXPECT_LE(value[0].gate_time, value[0].running);
	EXPECT_LE(value[1].gate_time + 4 * NSEC_PER_MSEC, value[1].running);
}

/* Link on another CPU than that of the event, while the task is on a third one. */
TEST_F(gate_moving, links_are_made_where_the_event_does_not_run)
{
	pin_to_cpu(self->cpus[1]);
	open_on_cpus(_metadata, self->fds, self->cpus, false);
	window_open();
	link_all(_metadata, &self->triggers, self->fds, variant->share);
	pages_touch(&self->pages, 4);
	pin_to_cpu(self->cpus[0]);
	pages_touch(&self->pages, 4);
	EXPECT_EQ(0, sum_of(self->fds));
	window_open();
	pages_touch(&self->pages, 4);
	pin_to_cpu(self->cpus[1]);
	pages_touch(&self->pages, 5);
	EXPECT_EQ(4, gate_read_count(self->fds[0]));
	EXPECT_EQ(5, gate_read_count(self->fds[1]));
	ASSERT_EQ(0, clear_gate(self->fds[0]));
	pages_touch(&self->pages, 6);
	pin_to_cpu(self->cpus[0]);
	window_close();
	pages_touch(&self->pages, 7);
	EXPECT_EQ(11, gate_read_count(self->fds[0]));
	EXPECT_EQ(11, gate_read_count(self->fds[1]));
}

TEST_F(gate_moving, samples_are_those_of_the_windows)
{
	struct perf_event_attr attr = gate_attr(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS);
	struct gate_ring rings[NR_CPUS_USED];
	int i;

	attr.sample_period = 1;
	gate_attr_set_bit(&attr, GATE_BIT_START_PAUSED);
	for (i = 0; i < NR_CPUS_USED; i++) {
		self->fds[i] = gate_open(&attr, 0, self->cpus[i]);
		ASSERT_LE(0, self->fds[i]);
		ASSERT_EQ(0, ring_map(&rings[i], self->fds[i], 16));
	}
	link_all(_metadata, &self->triggers, self->fds, variant->share);
	windows_on_cpus(&self->pages, self->cpus, NR_ROUNDS, 8);
	for (i = 0; i < NR_CPUS_USED; i++)
		EXPECT_EQ(8 * NR_ROUNDS, ring_drain(&rings[i], PERF_RECORD_SAMPLE));
}

TEST_F(gate_moving, children_that_move_are_counted_exactly)
{
	struct gate_pages *pages = &self->pages;
	pid_t children[8];
	__u64 faults;
	int i;

	triggers_inherit(_metadata, &self->triggers);
	open_on_cpus(_metadata, self->fds, self->cpus, true);
	link_all(_metadata, &self->triggers, self->fds, variant->share);
	for (i = 0; i < 8; i++) {
		children[i] = fork();
		ASSERT_LE(0, children[i]);
		if (!children[i]) {
			windows_on_cpus(pages, self->cpus, NR_ROUNDS, 8);
			_exit(0);
		}
	}
	for (i = 0; i < 8; i++)
		wait_for_success(_metadata, children[i]);
	faults = sum_of(self->fds);
	EXPECT_EQ(8 * 2 * 8 * NR_ROUNDS, faults);
	EXPECT_EQ(8 * NR_ROUNDS, gate_read(self->fds[0]).gate_count);
	EXPECT_EQ(8 * NR_ROUNDS, gate_read(self->fds[1]).gate_count);
}

TEST_F(gate_moving, opposite_is_refused)
{
	struct perf_event_attr attr = gate_attr(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_DUMMY);
	int trigger = gate_open(&attr, 0, self->cpus[0]);

	ASSERT_LE(0, trigger);
	open_on_cpus(_metadata, self->fds, self->cpus, false);
	EXPECT_EQ(0, set_starter(trigger, self->fds[0]));
	EXPECT_EQ(-EINVAL, set_starter(trigger, self->fds[1]));
	if (variant->share)
		EXPECT_EQ(-EINVAL, join_gate(self->fds[1], self->fds[0]));
}

FIXTURE(gate_share)
{
	struct gate_triggers triggers;
	struct gate_pages pages;
	struct perf_event_attr attr;
	int first;
	int member;
};

/* Both events count getppid(2), are closed, and have no trigger. */
FIXTURE_SETUP(gate_share)
{
	if (triggers_open(_metadata, &self->triggers))
		return;
	ASSERT_EQ(0, pages_map(&self->pages, 32));
	self->attr = gate_attr(PERF_TYPE_TRACEPOINT,
			       tracepoint_id("syscalls/sys_enter_getppid"));
	gate_attr_set_bit(&self->attr, GATE_BIT_START_PAUSED);
	self->first = gate_open(&self->attr, 0, -1);
	ASSERT_LE(0, self->first);
	self->member = gate_open(&self->attr, 0, -1);
	ASSERT_LE(0, self->member);
}

FIXTURE_TEARDOWN(gate_share)
{
	close(self->member);
	close(self->first);
	munmap(self->pages.mem, self->pages.size);
	triggers_close(&self->triggers);
}

static int open_getppid(bool paused, bool nest, bool inherit)
{
	struct perf_event_attr attr;

	attr = gate_attr(PERF_TYPE_TRACEPOINT, tracepoint_id("syscalls/sys_enter_getppid"));
	attr.inherit = inherit;
	if (paused)
		gate_attr_set_bit(&attr, GATE_BIT_START_PAUSED);
	if (nest)
		gate_attr_set_bit(&attr, GATE_BIT_NEST);
	return gate_open(&attr, 0, -1);
}

TEST_F(gate_share, only_the_gate_of_a_target_is_joined)
{
	int plain = open_getppid(false, false, false);
	int pipe_fds[2];

	ASSERT_LE(0, plain);
	ASSERT_EQ(0, pipe(pipe_fds));
	EXPECT_EQ(-EBADF, join_gate(self->member, -1));
	EXPECT_EQ(-EBADF, join_gate(self->member, pipe_fds[0]));
	EXPECT_EQ(-EINVAL, join_gate(self->member, self->member));
	EXPECT_EQ(-EINVAL, join_gate(self->member, plain));
	/* A trigger has a gate, too, which nothing moves. */
	EXPECT_EQ(0, set_starter(plain, self->first));
	EXPECT_EQ(-EINVAL, join_gate(self->member, plain));
	EXPECT_EQ(0, join_gate(self->member, self->first));
}

TEST_F(gate_share, members_are_of_one_kind_and_of_one_context)
{
	struct perf_event_attr attr = gate_attr(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS);
	int wide, wide_target;

	EXPECT_EQ(-EINVAL, join_gate(open_getppid(true, true, false), self->first));
	EXPECT_EQ(-EINVAL, join_gate(open_getppid(true, false, true), self->first));

	wide = gate_open(&attr, -1, nth_cpu(0));
	ASSERT_LE(0, wide);
	EXPECT_EQ(-EINVAL, join_gate(wide, self->first));
	gate_attr_set_bit(&attr, GATE_BIT_START_PAUSED);
	wide_target = gate_open(&attr, -1, nth_cpu(0));
	ASSERT_LE(0, wide_target);
	EXPECT_EQ(-EINVAL, join_gate(self->member, wide_target));
	EXPECT_EQ(0, join_gate(wide, wide_target));
	if (nth_cpu(1) >= 0)
		EXPECT_EQ(-EINVAL, join_gate(gate_open(&attr, -1, nth_cpu(1)), wide_target));
}

TEST_F(gate_share, event_that_could_not_be_a_target_is_refused)
{
	struct perf_event_attr attr = gate_attr(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_BPF_OUTPUT);
	int output;

	attr.sample_type = PERF_SAMPLE_RAW;
	output = gate_open(&attr, 0, -1);
	ASSERT_LE(0, output);
	EXPECT_EQ(-EOPNOTSUPP, join_gate(output, self->first));
}

TEST_F(gate_share, event_with_triggers_or_members_is_busy)
{
	int third = open_getppid(true, false, false);

	ASSERT_EQ(0, set_starter(self->triggers.starter, self->member));
	EXPECT_EQ(-EBUSY, join_gate(self->member, self->first));
	ASSERT_EQ(0, clear_gate(self->member));
	EXPECT_EQ(0, join_gate(self->member, self->first));
	EXPECT_EQ(-EBUSY, join_gate(self->member, self->first));
	EXPECT_EQ(-EBUSY, join_gate(self->first, third));
	EXPECT_EQ(-EBUSY, join_gate(self->member, third));
	/* Either of the two events names the same gate. */
	EXPECT_EQ(0, join_gate(third, self->member));
}

TEST_F(gate_share, trigger_of_the_gate_does_not_join_it)
{
	ASSERT_EQ(0, set_both(&self->triggers, self->first));
	EXPECT_EQ(-EINVAL, join_gate(self->triggers.stopper, self->first));
	ASSERT_EQ(0, join_gate(self->member, self->first));
	ASSERT_EQ(0, gate_ioctl(self->triggers.starter, PERF_EVENT_IOC_SET_STARTER, -1));
	EXPECT_EQ(-EINVAL, set_starter(self->member, self->first));
	EXPECT_EQ(-EINVAL, set_starter(self->first, self->member));
}

TEST_F(gate_share, events_of_an_exited_task_are_refused)
{
	pid_t child = fork();
	int first, member;

	if (!child) {
		for (;;)
			pause();
	}
	ASSERT_LE(0, child);
	first = gate_open(&self->attr, child, -1);
	member = gate_open(&self->attr, child, -1);
	EXPECT_LE(0, first);
	EXPECT_LE(0, member);
	kill(child, SIGKILL);
	ASSERT_EQ(child, waitpid(child, NULL, 0));
	EXPECT_EQ(-ESRCH, join_gate(member, first));
}

/* One event joins the gate before it has triggers, the other one later. */
TEST_F(gate_share, members_of_an_exited_task_can_leave)
{
	struct puppet puppet;
	int first, member;
	char byte;

	puppet_fork(_metadata, &puppet);
	first = gate_open(&self->attr, puppet.pid, -1);
	ASSERT_LE(0, first);
	member = gate_open(&self->attr, puppet.pid, -1);
	ASSERT_LE(0, member);
	ASSERT_EQ(0, join_gate(member, first));
	/* The task has exited and is not reaped. */
	ASSERT_EQ(1, write(puppet.tester_end, "x", 1));
	ASSERT_EQ(1, read(puppet.tester_end, &byte, 1));
	ASSERT_EQ(0, waitid(P_PID, puppet.pid, NULL, WEXITED | WNOWAIT));

	EXPECT_EQ(0, clear_gate(member));
	EXPECT_EQ(0, gate_read_count(member));
	EXPECT_EQ(0, clear_gate(first));
	EXPECT_EQ(0, gate_read_count(first));
	close(first);
	close(member);
	ASSERT_EQ(puppet.pid, waitpid(puppet.pid, NULL, 0));
	close(puppet.tester_end);
	close(puppet.puppet_end);
}

TEST_F(gate_share, members_move_together)
{
	int third = open_getppid(true, false, false);
	int fds[] = { self->first, self->member, third };
	int order;

	ASSERT_EQ(0, join_gate(self->member, self->first));
	ASSERT_EQ(0, set_both(&self->triggers, self->member));
	ASSERT_EQ(0, join_gate(third, self->first));
	for (order = 0; order < 3; order++) {
		EXPECT_EQ(-EEXIST, set_starter(self->triggers.starter, fds[order]));
		EXPECT_EQ(-EEXIST, set_stopper(self->triggers.stopper, fds[order]));
	}
	run_windows(10, 7, 5);
	EXPECT_EQ(70, gate_read_count(self->first));
	EXPECT_EQ(70, gate_read_count(self->member));
	EXPECT_EQ(70, gate_read_count(third));
	EXPECT_EQ(10, gate_read(self->first).gate_count);
	EXPECT_EQ(10, gate_read(self->member).gate_count);
}

TEST_F(gate_share, what_was_counted_before_stays)
{
	int open = open_getppid(false, false, false);

	ASSERT_LE(0, open);
	ASSERT_EQ(0, set_both(&self->triggers, self->first));
	call_getppid(5);
	ASSERT_EQ(0, join_gate(open, self->first));
	call_getppid(50);
	EXPECT_EQ(5, gate_read_count(open));
	window_open();
	call_getppid(2);
	EXPECT_EQ(7, gate_read_count(open));
	EXPECT_EQ(2, gate_read_count(self->first));
	/* Join an open gate. */
	ASSERT_EQ(0, join_gate(self->member, self->first));
	call_getppid(1);
	EXPECT_EQ(1, gate_read_count(self->member));
	window_close();
	call_getppid(50);
	EXPECT_EQ(1, gate_read_count(self->member));
	EXPECT_EQ(8, gate_read_count(open));
}

TEST_F(gate_share, member_that_is_cleared_leaves_and_is_open)
{
	ASSERT_EQ(0, set_both(&self->triggers, self->first));
	ASSERT_EQ(0, join_gate(self->member, self->first));
	run_windows(3, 2, 5);
	ASSERT_EQ(0, clear_gate(self->member));
	EXPECT_EQ(4, gate_read(self->member).gate_count);
	call_getppid(10);
	EXPECT_EQ(16, gate_read_count(self->member));
	EXPECT_EQ(6, gate_read_count(self->first));
	run_windows(1, 2, 0);
	EXPECT_EQ(18, gate_read_count(self->member));
	EXPECT_EQ(8, gate_read_count(self->first));
	/* No gate holds the event any more. */
	EXPECT_EQ(0, join_gate(self->member, self->first));
}

TEST_F(gate_share, clearing_the_first_leaves_the_gate_to_the_others)
{
	ASSERT_EQ(0, set_both(&self->triggers, self->first));
	ASSERT_EQ(0, join_gate(self->member, self->first));
	ASSERT_EQ(0, clear_gate(self->first));
	call_getppid(4);
	window_close();
	call_getppid(3);
	EXPECT_EQ(7, gate_read_count(self->first));
	EXPECT_EQ(0, gate_read_count(self->member));
	run_windows(2, 3, 1);
	EXPECT_EQ(7 + 2 * 4, gate_read_count(self->first));
	EXPECT_EQ(2 * 3, gate_read_count(self->member));
	/* The two events are unrelated again. */
	EXPECT_EQ(0, set_starter(self->triggers.starter, self->first));
	EXPECT_EQ(-EEXIST, set_starter(self->triggers.starter, self->member));
}

TEST_F(gate_share, detached_triggers_leave_all_open)
{
	ASSERT_EQ(0, join_gate(self->member, self->first));
	ASSERT_EQ(0, set_both(&self->triggers, self->first));
	ASSERT_EQ(0, gate_ioctl(self->triggers.starter, PERF_EVENT_IOC_SET_STARTER, -1));
	call_getppid(1);
	EXPECT_EQ(0, gate_read_count(self->member));
	ASSERT_EQ(0, gate_ioctl(self->triggers.stopper, PERF_EVENT_IOC_SET_STOPPER, -1));
	call_getppid(2);
	EXPECT_EQ(2, gate_read_count(self->first));
	EXPECT_EQ(2, gate_read_count(self->member));
}

TEST_F(gate_share, gate_stays_when_the_first_is_closed)
{
	int third = open_getppid(true, false, false);

	ASSERT_EQ(0, join_gate(self->member, self->first));
	ASSERT_EQ(0, set_both(&self->triggers, self->first));
	run_windows(2, 3, 4);
	ASSERT_EQ(0, close(self->first));
	run_windows(2, 3, 4);
	EXPECT_EQ(12, gate_read_count(self->member));
	EXPECT_EQ(-EEXIST, set_starter(self->triggers.starter, self->member));
	ASSERT_EQ(0, join_gate(third, self->member));
	run_windows(1, 3, 4);
	EXPECT_EQ(15, gate_read_count(self->member));
	EXPECT_EQ(3, gate_read_count(third));
	ASSERT_EQ(0, clear_gate(self->member));
	call_getppid(1);
	EXPECT_EQ(16, gate_read_count(self->member));
	EXPECT_EQ(3, gate_read_count(third));
	run_windows(1, 3, 4);
	EXPECT_EQ(6, gate_read_count(third));
	self->first = open_getppid(true, false, false);
}

/* Closing the last member frees the trigger for another gate. */
TEST_F(gate_share, gate_ends_with_its_last_member)
{
	int i;

	for (i = 0; i < GATE_MAX_TARGETS + 1; i++) {
		int first = open_getppid(true, false, false);
		int member = open_getppid(true, false, false);

		ASSERT_EQ(0, join_gate(member, first));
		ASSERT_EQ(0, set_both(&self->triggers, member));
		close(i % 2 ? first : member);
		run_windows(1, 1, 1);
		close(i % 2 ? member : first);
		run_windows(1, 1, 1);
	}
}

TEST_F(gate_share, nested_windows_of_members)
{
	int first = open_getppid(true, true, false);
	int member = open_getppid(true, true, false);

	ASSERT_EQ(0, join_gate(member, first));
	ASSERT_EQ(0, set_both(&self->triggers, first));
	window_open();
	window_open();
	window_close();
	call_getppid(1);
	window_close();
	call_getppid(1);
	EXPECT_EQ(1, gate_read_count(first));
	EXPECT_EQ(1, gate_read_count(member));
}

TEST_F(gate_share, member_gates_others_in_its_windows_only)
{
	struct perf_event_attr attr = gate_attr(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS);
	int faults;

	gate_attr_set_bit(&attr, GATE_BIT_START_PAUSED);
	faults = gate_open(&attr, 0, -1);
	ASSERT_LE(0, faults);
	ASSERT_EQ(0, join_gate(self->member, self->first));
	ASSERT_EQ(0, set_starter(self->member, faults));
	ASSERT_EQ(0, set_both(&self->triggers, self->first));
	call_getppid(1);
	pages_touch(&self->pages, 4);
	EXPECT_EQ(0, gate_read_count(faults));
	run_windows(1, 1, 0);
	pages_touch(&self->pages, 4);
	EXPECT_EQ(4, gate_read_count(faults));
}

TEST_F(gate_share, members_of_one_cpu_count_for_the_limit)
{
	int fds[GATE_MAX_TARGETS], i, extra = open_getppid(true, false, false);

	ASSERT_EQ(0, set_both(&self->triggers, self->first));
	for (i = 1; i < GATE_MAX_TARGETS; i++) {
		fds[i] = open_getppid(true, false, false);
		ASSERT_EQ(0, join_gate(fds[i], self->first));
	}
	EXPECT_EQ(-ENOSPC, join_gate(extra, self->first));
	EXPECT_EQ(-ENOSPC, set_starter(self->triggers.starter, extra));
	run_windows(1, 3, 3);
	EXPECT_EQ(3, gate_read_count(fds[GATE_MAX_TARGETS - 1]));
	/* Closing a member makes room for one. */
	close(fds[1]);
	EXPECT_EQ(0, join_gate(extra, self->first));
	EXPECT_EQ(-ENOSPC, set_starter(self->triggers.starter, self->member));
	ASSERT_EQ(0, clear_gate(extra));
	EXPECT_EQ(0, set_starter(self->triggers.starter, self->member));
}

TEST_F(gate_share, members_of_other_cpus_do_not_count_for_the_limit)
{
	int cpus[] = { nth_cpu(0), nth_cpu(1) };
	int i, cpu, fd, last[2];

	if (cpus[1] < 0)
		SKIP(return, "needs two CPUs");
	ASSERT_EQ(0, set_both(&self->triggers, self->first));
	for (i = 1; i < GATE_MAX_TARGETS; i++) {
		for (cpu = 0; cpu < 2; cpu++) {
			fd = gate_open(&self->attr, 0, cpus[cpu]);
			ASSERT_LE(0, fd);
			ASSERT_EQ(0, join_gate(fd, self->first));
			last[cpu] = fd;
		}
	}
	fd = gate_open(&self->attr, 0, cpus[1]);
	EXPECT_EQ(-ENOSPC, join_gate(fd, self->first));
	pin_to_cpu(cpus[0]);
	window_open();
	call_getppid(3);
	pin_to_cpu(cpus[1]);
	call_getppid(2);
	window_close();
	EXPECT_EQ(5, gate_read_count(self->first));
	EXPECT_EQ(3, gate_read_count(last[0]));
	EXPECT_EQ(2, gate_read_count(last[1]));
}

TEST_F(gate_share, full_trigger_is_refused_for_a_gate_that_is_shared)
{
	int i;

	ASSERT_EQ(0, join_gate(self->member, self->first));
	for (i = 1; i < GATE_MAX_TARGETS; i++)
		ASSERT_EQ(0, set_starter(self->triggers.starter,
					 open_getppid(true, false, false)));
	EXPECT_EQ(-ENOSPC, set_starter(self->triggers.starter, self->first));
	ASSERT_EQ(0, clear_gate(self->member));
	EXPECT_EQ(0, set_starter(self->triggers.starter, self->first));
	EXPECT_EQ(-EBUSY, join_gate(self->first, self->member));
	EXPECT_EQ(-EINVAL, join_gate(self->triggers.starter, self->first));
	EXPECT_EQ(-ENOSPC, join_gate(open_getppid(false, false, false), self->first));
}

/* The limit applies to a gate without triggers as well. */
TEST_F(gate_share, gate_without_triggers_has_the_limit_too)
{
	int i;

	for (i = 1; i < GATE_MAX_TARGETS; i++)
		ASSERT_EQ(0, join_gate(open_getppid(true, false, false), self->first));
	EXPECT_EQ(-ENOSPC, join_gate(self->member, self->first));
	EXPECT_EQ(0, set_both(&self->triggers, self->first));
}

TEST_F(gate_share, last_member_of_a_gate_without_triggers_is_free)
{
	int first = open_getppid(true, false, false);

	ASSERT_EQ(0, join_gate(self->member, first));
	EXPECT_EQ(-EBUSY, join_gate(self->member, self->first));
	ASSERT_EQ(0, close(first));
	EXPECT_EQ(0, join_gate(self->member, self->first));
	call_getppid(1);
	EXPECT_EQ(0, gate_read_count(self->member));
	ASSERT_EQ(0, clear_gate(self->member));
	call_getppid(1);
	EXPECT_EQ(1, gate_read_count(self->member));
	EXPECT_EQ(0, join_gate(self->member, self->first));
	call_getppid(1);
	EXPECT_EQ(1, gate_read_count(self->member));
}

/* A task that sleeps until another CPU wakes it, each time on its request. */
struct sleeper {
	int	waker[2];
	int	ready[2];
	pid_t	pid;
};

static void sleeper_start(struct __test_metadata *const _metadata,
			  struct sleeper *sleeper, int cpu)
{
	char byte;

	ASSERT_EQ(0, pipe(sleeper->waker));
	ASSERT_EQ(0, pipe(sleeper->ready));
	sleeper->pid = fork();
	ASSERT_LE(0, sleeper->pid);
	if (!sleeper->pid) {
		close(sleeper->ready[1]);
		pin_to_cpu(cpu);
		while (read(sleeper->ready[0], &byte, 1) == 1) {
			/* The other task sleeps by now, or soon. */
			usleep(20000);
			if (write(sleeper->waker[1], "", 1) != 1)
				break;
		}
		_exit(0);
	}
	close(sleeper->ready[0]);
}

/* Sleep outside of a window and inside, twice. */
static bool sleep_in_windows(const struct sleeper *sleeper)
{
	char byte;
	int i;

	for (i = 0; i < 4; i++) {
		if (i % 2)
			window_open();
		if (write(sleeper->ready[1], "", 1) != 1 ||
		    read(sleeper->waker[0], &byte, 1) != 1)
			return false;
		if (i % 2)
			window_close();
	}
	return true;
}

static void sleeper_end(struct __test_metadata *const _metadata,
			const struct sleeper *sleeper)
{
	close(sleeper->ready[1]);
	wait_for_success(_metadata, sleeper->pid);
}

/* Wakeups count on the CPU of the waker, in the events that the sleeper has for that CPU. */
static void count_wakeups(struct __test_metadata *const _metadata,
			  const struct gate_triggers *triggers, __u64 period)
{
	long id = tracepoint_id("sched/sched_waking");
	struct perf_event_attr attr = gate_attr(PERF_TYPE_TRACEPOINT, id);
	int cpus[] = { nth_cpu(0), nth_cpu(1) };
	struct sleeper sleeper;
	int fd;

	if (cpus[1] < 0 || id < 0)
		SKIP(return, "needs two CPUs and sched:sched_waking");
	sleeper_start(_metadata, &sleeper, cpus[0]);
	gate_attr_set_bit(&attr, GATE_BIT_START_PAUSED);
	attr.sample_period = period;
	pin_to_cpu(cpus[0]);
	fd = gate_open(&attr, 0, cpus[0]);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, set_both(triggers, fd));
	pin_to_cpu(cpus[1]);
	ASSERT_TRUE(sleep_in_windows(&sleeper));
	EXPECT_EQ(2, gate_read_count(fd));
	sleeper_end(_metadata, &sleeper);
}

TEST_F(gate_share, wakeup_from_another_cpu_counts_by_the_gate_of_now)
{
	count_wakeups(_metadata, &self->triggers, 0);
}

/* A sampling event is stopped while its gate is closed, on the CPU of the waker as well. */
TEST_F(gate_share, wakeup_from_another_cpu_counts_in_an_event_that_samples)
{
	count_wakeups(_metadata, &self->triggers, 1);
}

TEST_F(gate_share, reset_is_for_one_member)
{
	ASSERT_EQ(0, join_gate(self->member, self->first));
	ASSERT_EQ(0, set_both(&self->triggers, self->first));
	run_windows(1, 3, 3);
	ASSERT_EQ(0, ioctl(self->member, PERF_EVENT_IOC_RESET, 0));
	run_windows(1, 2, 3);
	EXPECT_EQ(5, gate_read_count(self->first));
	EXPECT_EQ(2, gate_read_count(self->member));
	EXPECT_EQ(2, gate_read(self->member).gate_count);
}

FIXTURE(gate_share_family)
{
	struct gate_triggers triggers;
	int first;
	int member;
};

FIXTURE_SETUP(gate_share_family)
{
	if (triggers_open(_metadata, &self->triggers))
		return;
	triggers_inherit(_metadata, &self->triggers);
	self->first = open_getppid(true, false, true);
	ASSERT_LE(0, self->first);
	self->member = open_getppid(true, false, true);
	ASSERT_LE(0, self->member);
}

FIXTURE_TEARDOWN(gate_share_family)
{
	close(self->member);
	close(self->first);
	triggers_close(&self->triggers);
}

TEST_F(gate_share_family, children_share_gates_of_their_own)
{
	struct puppet children[2];

	ASSERT_EQ(0, join_gate(self->member, self->first));
	ASSERT_EQ(0, set_both(&self->triggers, self->member));
	puppet_fork(_metadata, &children[0]);
	window_open();
	puppet_fork(_metadata, &children[1]);
	window_close();
	/* The second child was forked in a window. */
	ASSERT_TRUE(tell(&children[0], "gog"));
	ASSERT_TRUE(tell(&children[1], "ggcg"));
	ASSERT_TRUE(tell(&children[0], "gcg"));
	EXPECT_EQ(4, gate_read_count(self->first));
	EXPECT_EQ(4, gate_read_count(self->member));
	EXPECT_EQ(2, gate_read(self->member).gate_count);
	puppet_end(_metadata, &children[1]);
	puppet_end(_metadata, &children[0]);
	EXPECT_EQ(4, gate_read_count(self->first));
	EXPECT_EQ(4, gate_read_count(self->member));
	EXPECT_EQ(2, gate_read(self->first).gate_count);
}

TEST_F(gate_share_family, joining_takes_those_along_who_are_there)
{
	struct puppet child;

	puppet_fork(_metadata, &child);
	ASSERT_EQ(0, set_both(&self->triggers, self->first));
	ASSERT_EQ(0, join_gate(self->member, self->first));
	ASSERT_TRUE(tell(&child, "gogcg"));
	EXPECT_EQ(1, gate_read_count(self->first));
	EXPECT_EQ(1, gate_read_count(self->member));
	/* The members leave one by one. */
	ASSERT_EQ(0, clear_gate(self->first));
	ASSERT_TRUE(tell(&child, "gg"));
	EXPECT_EQ(3, gate_read_count(self->first));
	EXPECT_EQ(1, gate_read_count(self->member));
	ASSERT_EQ(0, clear_gate(self->member));
	ASSERT_TRUE(tell(&child, "gg"));
	EXPECT_EQ(5, gate_read_count(self->first));
	EXPECT_EQ(3, gate_read_count(self->member));
	puppet_end(_metadata, &child);
}

TEST_F(gate_share_family, links_reach_members_of_children)
{
	struct puppet child;

	ASSERT_EQ(0, join_gate(self->member, self->first));
	puppet_fork(_metadata, &child);
	ASSERT_EQ(0, set_both(&self->triggers, self->member));
	ASSERT_TRUE(tell(&child, "ggogcg"));
	EXPECT_EQ(1, gate_read_count(self->first));
	EXPECT_EQ(1, gate_read_count(self->member));
	ASSERT_EQ(0, clear_gate(self->member));
	ASSERT_TRUE(tell(&child, "gg"));
	EXPECT_EQ(1, gate_read_count(self->first));
	EXPECT_EQ(3, gate_read_count(self->member));
	ASSERT_TRUE(tell(&child, "ogcg"));
	EXPECT_EQ(2, gate_read_count(self->first));
	EXPECT_EQ(5, gate_read_count(self->member));
	puppet_end(_metadata, &child);
}

/* The child inherits the event that joins, but no event whose gate it could share. */
TEST_F(gate_share_family, child_without_the_first_has_a_gate_all_the_same)
{
	struct puppet child;
	int late;

	puppet_fork(_metadata, &child);
	late = open_getppid(true, false, true);
	ASSERT_LE(0, late);
	ASSERT_EQ(0, set_both(&self->triggers, late));
	ASSERT_EQ(0, join_gate(self->first, late));
	ASSERT_EQ(0, join_gate(self->member, late));
	ASSERT_TRUE(tell(&child, "gogcg"));
	EXPECT_EQ(0, gate_read_count(late));
	EXPECT_EQ(1, gate_read_count(self->first));
	EXPECT_EQ(1, gate_read_count(self->member));
	/* The event whose gate they would share is closed. */
	ASSERT_EQ(0, close(late));
	ASSERT_TRUE(tell(&child, "gogcg"));
	EXPECT_EQ(2, gate_read_count(self->first));
	EXPECT_EQ(2, gate_read_count(self->member));
	puppet_end(_metadata, &child);
	puppet_fork(_metadata, &child);
	ASSERT_TRUE(tell(&child, "gogcg"));
	EXPECT_EQ(3, gate_read_count(self->first));
	EXPECT_EQ(3, gate_read_count(self->member));
	ASSERT_EQ(0, gate_ioctl(self->triggers.starter, PERF_EVENT_IOC_SET_STARTER, -1));
	ASSERT_EQ(0, gate_ioctl(self->triggers.stopper, PERF_EVENT_IOC_SET_STOPPER, -1));
	ASSERT_TRUE(tell(&child, "g"));
	EXPECT_EQ(4, gate_read_count(self->first));
	EXPECT_EQ(4, gate_read_count(self->member));
	puppet_end(_metadata, &child);
}

TEST_F(gate_share_family, grandchildren_share_too)
{
	pid_t child;

	ASSERT_EQ(0, join_gate(self->member, self->first));
	ASSERT_EQ(0, set_both(&self->triggers, self->first));
	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		run_windows(2, 3, 4);
		child = fork();
		if (!child) {
			run_windows(2, 3, 4);
			_exit(0);
		}
		_exit(waitpid(child, NULL, 0) != child);
	}
	wait_for_success(_metadata, child);
	EXPECT_EQ(12, gate_read_count(self->first));
	EXPECT_EQ(12, gate_read_count(self->member));
	EXPECT_EQ(4, gate_read(self->member).gate_count);
}

/*
 * The events of a task for two CPUs share a gate. A new task has no gates of its own
 * for events that it does not run.
 */
FIXTURE(gate_share_cpus)
{
	struct gate_triggers triggers;
	struct puppet child;
	int cpus[NR_CPUS_USED];
	int fds[NR_CPUS_USED];
};

FIXTURE_SETUP(gate_share_cpus)
{
	struct perf_event_attr attr;
	int i;

	if (triggers_open(_metadata, &self->triggers))
		return;
	for (i = 0; i < NR_CPUS_USED; i++) {
		self->cpus[i] = nth_cpu(i);
		if (self->cpus[i] < 0)
			SKIP(return, "needs two CPUs");
	}
	pin_to_cpu(self->cpus[0]);
	self->child.cpus = self->cpus;
	triggers_inherit(_metadata, &self->triggers);
	attr = inherited_attr(PERF_TYPE_TRACEPOINT, tracepoint_id("syscalls/sys_enter_getppid"));
	gate_attr_set_bit(&attr, GATE_BIT_START_PAUSED);
	for (i = 0; i < NR_CPUS_USED; i++) {
		self->fds[i] = gate_open(&attr, 0, self->cpus[i]);
		ASSERT_LE(0, self->fds[i]);
	}
	ASSERT_EQ(0, join_gate(self->fds[1], self->fds[0]));
}

FIXTURE_TEARDOWN(gate_share_cpus)
{
	int i;

	for (i = 0; i < NR_CPUS_USED; i++)
		close(self->fds[i]);
	triggers_close(&self->triggers);
}

static void expect_windows(struct __test_metadata *const _metadata, int fd,
			   __u64 count, __u64 windows)
{
	EXPECT_EQ(count, gate_read_count(fd));
	EXPECT_EQ(windows, gate_read(fd).gate_count);
}

TEST_F(gate_share_cpus, event_that_never_runs_knows_its_windows)
{
	ASSERT_EQ(0, set_both(&self->triggers, self->fds[0]));
	puppet_fork(_metadata, &self->child);
	ASSERT_TRUE(tell(&self->child, "0gogcgogc"));
	expect_windows(_metadata, self->fds[0], 2, 2);
	expect_windows(_metadata, self->fds[1], 0, 2);
	EXPECT_EQ(0, gate_read_whole(self->fds[1]).gate_time);
	puppet_end(_metadata, &self->child);
	expect_windows(_metadata, self->fds[0], 2, 2);
	expect_windows(_metadata, self->fds[1], 0, 2);
	EXPECT_EQ(0, gate_read_whole(self->fds[1]).gate_time);
}

TEST_F(gate_share_cpus, event_that_comes_to_run_finds_the_gate_as_it_is)
{
	ASSERT_EQ(0, set_both(&self->triggers, self->fds[0]));
	puppet_fork(_metadata, &self->child);
	ASSERT_TRUE(tell(&self->child, "0go1gcg0gog1gc"));
	expect_windows(_metadata, self->fds[0], 1, 2);
	expect_windows(_metadata, self->fds[1], 2, 2);
	puppet_end(_metadata, &self->child);
	expect_windows(_metadata, self->fds[0], 1, 2);
	expect_windows(_metadata, self->fds[1], 2, 2);
}

/* The gate is closed when the task comes to CPU 1 for the first time. */
TEST_F(gate_share_cpus, event_that_comes_to_run_outside_counts_nothing)
{
	ASSERT_EQ(0, set_both(&self->triggers, self->fds[0]));
	puppet_fork(_metadata, &self->child);
	ASSERT_TRUE(tell(&self->child, "0ogc1gg0g"));
	expect_windows(_metadata, self->fds[0], 1, 1);
	expect_windows(_metadata, self->fds[1], 0, 1);
	puppet_end(_metadata, &self->child);
}

TEST_F(gate_share_cpus, event_that_has_not_run_can_leave)
{
	ASSERT_EQ(0, set_both(&self->triggers, self->fds[0]));
	puppet_fork(_metadata, &self->child);
	ASSERT_TRUE(tell(&self->child, "0ogcogcg"));
	/* Clearing opens the gate, which counts as one more window. */
	ASSERT_EQ(0, clear_gate(self->fds[1]));
	expect_windows(_metadata, self->fds[1], 0, 2 + 1 + 1);
	ASSERT_TRUE(tell(&self->child, "1gg0ogcg1g"));
	expect_windows(_metadata, self->fds[0], 3, 3);
	expect_windows(_metadata, self->fds[1], 3, 4);
	puppet_end(_metadata, &self->child);
	expect_windows(_metadata, self->fds[0], 3, 3);
	expect_windows(_metadata, self->fds[1], 3, 4);
}

TEST_F(gate_share_cpus, all_leave_events_that_have_not_run)
{
	ASSERT_EQ(0, set_both(&self->triggers, self->fds[0]));
	puppet_fork(_metadata, &self->child);
	ASSERT_TRUE(tell(&self->child, "0gogcg"));
	ASSERT_EQ(0, clear_gate(self->fds[0]));
	ASSERT_EQ(0, clear_gate(self->fds[1]));
	/* The child's triggers have no targets, either. */
	ASSERT_TRUE(tell(&self->child, "gocg1gocgg"));
	EXPECT_EQ(3, gate_read_count(self->fds[0]));
	EXPECT_EQ(3, gate_read_count(self->fds[1]));
	/* The event joins again, in a gate without the history of the last one. */
	ASSERT_EQ(0, join_gate(self->fds[1], self->fds[0]));
	ASSERT_EQ(0, set_both(&self->triggers, self->fds[1]));
	ASSERT_TRUE(tell(&self->child, "g0gog1gcg"));
	EXPECT_EQ(4, gate_read_count(self->fds[0]));
	EXPECT_EQ(4, gate_read_count(self->fds[1]));
	puppet_end(_metadata, &self->child);
	EXPECT_EQ(4, gate_read_count(self->fds[0]));
	EXPECT_EQ(4, gate_read_count(self->fds[1]));
}

TEST_F(gate_share_cpus, links_reach_events_that_have_not_run)
{
	puppet_fork(_metadata, &self->child);
	ASSERT_EQ(0, set_both(&self->triggers, self->fds[1]));
	ASSERT_TRUE(tell(&self->child, "0gog1gcg0g"));
	expect_windows(_metadata, self->fds[0], 1, 1);
	expect_windows(_metadata, self->fds[1], 1, 1);
	/* Only the trigger is closed, and the gate that it has opened stays open. */
	ASSERT_TRUE(tell(&self->child, "o"));
	ASSERT_EQ(0, gate_ioctl(self->triggers.stopper, PERF_EVENT_IOC_SET_STOPPER, -1));
	ASSERT_TRUE(tell(&self->child, "cg1g"));
	expect_windows(_metadata, self->fds[0], 2, 2);
	expect_windows(_metadata, self->fds[1], 2, 2);
	puppet_end(_metadata, &self->child);
}

/* A member that is a trigger as well has its links from the start, whether it has run or not. */
TEST_F(gate_share_cpus, member_that_has_not_run_is_a_trigger)
{
	struct perf_event_attr attr = inherited_attr(PERF_TYPE_SOFTWARE,
						     PERF_COUNT_SW_PAGE_FAULTS);
	int fd, before;

	gate_attr_set_bit(&attr, GATE_BIT_START_PAUSED);
	fd = gate_open(&attr, 0, self->cpus[1]);
	ASSERT_LE(0, fd);
	for (before = 0; before < 2; before++) {
		if (before)
			ASSERT_EQ(0, set_starter(self->fds[1], fd));
		puppet_fork(_metadata, &self->child);
		if (!before)
			ASSERT_EQ(0, set_starter(self->fds[1], fd));
		EXPECT_EQ(0, gate_read(fd).gate_count);
		ASSERT_EQ(0, set_both(&self->triggers, self->fds[0]));
		ASSERT_TRUE(tell(&self->child, "0gog1cg"));
		EXPECT_EQ(0, gate_read(fd).gate_count);
		ASSERT_TRUE(tell(&self->child, "ogc"));
		EXPECT_EQ(1, gate_read(fd).gate_count);
		puppet_end(_metadata, &self->child);
		ASSERT_EQ(0, clear_gate(self->fds[0]));
		ASSERT_EQ(0, clear_gate(self->fds[1]));
		ASSERT_EQ(0, join_gate(self->fds[1], self->fds[0]));
		close(fd);
		fd = gate_open(&attr, 0, self->cpus[1]);
		ASSERT_LE(0, fd);
	}
	close(fd);
}

/* The children of a new task have not run either, and start with its state. */
TEST_F(gate_share_cpus, grandchild_starts_with_a_gate_that_did_not_run)
{
	pid_t child;

	ASSERT_EQ(0, set_both(&self->triggers, self->fds[0]));
	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		window_open();
		child = fork();
		if (!child) {
			pin_to_cpu(self->cpus[1]);
			call_getppid(3);
			window_close();
			call_getppid(5);
			_exit(0);
		}
		_exit(waitpid(child, NULL, 0) != child);
	}
	wait_for_success(_metadata, child);
	EXPECT_EQ(0, gate_read_count(self->fds[0]));
	EXPECT_EQ(3, gate_read_count(self->fds[1]));
	EXPECT_EQ(1, gate_read(self->fds[1]).gate_count);
}

/*
 * The wakeup is delivered to the event that the child has for the waker's CPU, where it
 * never ran.
 */
static void count_wakeups_of_child(struct __test_metadata *const _metadata,
				   const struct gate_triggers *triggers,
				   const int *cpus, __u64 period)
{
	long id = tracepoint_id("sched/sched_waking");
	struct perf_event_attr attr;
	struct sleeper sleeper;
	int fds[NR_CPUS_USED], i;
	pid_t child;

	if (id < 0)
		SKIP(return, "needs sched:sched_waking");
	sleeper_start(_metadata, &sleeper, cpus[0]);
	attr = inherited_attr(PERF_TYPE_TRACEPOINT, id);
	attr.sample_period = period;
	pin_to_cpu(cpus[1]);
	for (i = 0; i < NR_CPUS_USED; i++) {
		fds[i] = gate_open(&attr, 0, cpus[i]);
		ASSERT_LE(0, fds[i]);
	}
	ASSERT_EQ(0, set_both(triggers, fds[0]));
	ASSERT_EQ(0, join_gate(fds[1], fds[0]));
	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		if (!sleep_in_windows(&sleeper))
			_exit(1);
		/* The count so far is inside of windows. */
		pin_to_cpu(cpus[0]);
		_exit(0);
	}
	wait_for_success(_metadata, child);
	expect_windows(_metadata, fds[0], 2, 2);
	sleeper_end(_metadata, &sleeper);
}

TEST_F(gate_share_cpus, wakeup_counts_in_an_event_that_has_not_run)
{
	count_wakeups_of_child(_metadata, &self->triggers, self->cpus, 0);
}

TEST_F(gate_share_cpus, wakeup_counts_in_a_sampling_event_that_has_not_run)
{
	count_wakeups_of_child(_metadata, &self->triggers, self->cpus, 1);
}

/* Join in the middle of a window of the child, which then includes the new member. */
TEST_F(gate_share_family, joining_finds_the_window_of_a_child)
{
	struct puppet child;

	ASSERT_EQ(0, set_both(&self->triggers, self->first));
	puppet_fork(_metadata, &child);
	ASSERT_TRUE(tell(&child, "og"));
	ASSERT_EQ(0, join_gate(self->member, self->first));
	ASSERT_TRUE(tell(&child, "gcg"));
	EXPECT_EQ(2, gate_read_count(self->first));
	EXPECT_EQ(1, gate_read_count(self->member));
	puppet_end(_metadata, &child);
	EXPECT_EQ(2, gate_read_count(self->first));
	EXPECT_EQ(1, gate_read_count(self->member));
}

/* A child's event leaves each gate for good, with all of its state. */
TEST_F(gate_share_family, member_of_a_child_goes_from_gate_to_gate)
{
	int third = open_getppid(true, false, true);
	struct puppet child;

	ASSERT_LE(0, third);
	ASSERT_EQ(0, set_both(&self->triggers, third));
	ASSERT_EQ(0, join_gate(self->first, self->member));
	puppet_fork(_metadata, &child);
	ASSERT_EQ(0, clear_gate(self->first));
	ASSERT_EQ(0, join_gate(self->member, third));
	ASSERT_TRUE(tell(&child, "gogcgogc"));
	EXPECT_EQ(2, gate_read_count(third));
	EXPECT_EQ(2, gate_read_count(self->member));
	EXPECT_EQ(2, gate_read(self->member).gate_count);
	EXPECT_EQ(4, gate_read_count(self->first));
	puppet_end(_metadata, &child);
	EXPECT_EQ(2, gate_read_count(self->member));
	close(third);
}

/* Kernel memory that cannot be reclaimed, in kB. */
static long slab_size(void)
{
	FILE *file = fopen("/proc/meminfo", "r");
	char line[128];
	long size = -1;

	while (file && size < 0 && fgets(line, sizeof(line), file))
		sscanf(line, "SUnreclaim: %ld", &size);
	if (file)
		fclose(file);
	return size;
}

/* Use two descriptors at a time, as any user may. */
TEST_F_TIMEOUT(gate_share_family, gates_that_are_gone_take_no_memory_in_children, 600)
{
	struct puppet children[32];
	long before = 0, round;
	unsigned int i;
	int fd;

	for (i = 0; i < ARRAY_SIZE(children); i++)
		puppet_fork(_metadata, &children[i]);
	for (round = 0; round < 600; round++) {
		fd = open_getppid(true, false, true);
		ASSERT_LE(0, fd);
		ASSERT_EQ(0, join_gate(self->member, fd));
		ASSERT_EQ(0, clear_gate(self->member));
		ASSERT_EQ(0, close(fd));
		if (round == 100)
			before = slab_size();
	}
	/* Wait, because memory in a grace period counts as used. */
	for (i = 0; i < 20 && slab_size() > before + 2048; i++)
		sleep(1);
	EXPECT_GE(before + 2048, slab_size());
	for (i = 0; i < ARRAY_SIZE(children); i++)
		puppet_end(_metadata, &children[i]);
}

#define NR_GRANDCHILDREN	200

/* For each byte, fork a task that waits for one more byte, works, and exits. */
static void fork_grandchildren(int orders, int answers)
{
	pid_t child;
	char byte;

	while (read(orders, &byte, 1) == 1) {
		child = fork();
		if (!child) {
			if (read(orders, &byte, 1) != 1)
				_exit(1);
			call_getppid(1);
			run_windows(1, 1, 1);
			_exit(0);
		}
		if (write(answers, "f", 1) != 1 || waitpid(child, NULL, 0) != child ||
		    write(answers, "d", 1) != 1)
			_exit(1);
	}
	_exit(0);
}

/* The fork and the ioctl run concurrently, and either of them may be first. */
TEST_F_TIMEOUT(gate_share_family, no_grandchild_is_left_out_of_a_gate, 600)
{
	int orders[2], answers[2];
	unsigned int wrong = 0;
	__u64 before;
	pid_t child;
	char byte;
	int i;

	ASSERT_EQ(0, set_both(&self->triggers, self->first));
	ASSERT_EQ(0, clear_gate(self->member));
	ASSERT_EQ(0, pipe(orders));
	ASSERT_EQ(0, pipe(answers));
	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		close(orders[1]);
		fork_grandchildren(orders[0], answers[1]);
	}
	for (i = 0; i < NR_GRANDCHILDREN; i++) {
		before = gate_read_count(self->member);
		ASSERT_EQ(1, write(orders[1], "f", 1));
		if (i % 4)
			spin_ns(i % 4 * 50000);
		ASSERT_EQ(0, join_gate(self->member, self->first));
		ASSERT_EQ(1, read(answers[0], &byte, 1));
		ASSERT_EQ(1, write(orders[1], "d", 1));
		ASSERT_EQ(1, read(answers[0], &byte, 1));
		wrong += gate_read_count(self->member) != before + 1;
		ASSERT_EQ(0, clear_gate(self->member));
	}
	close(orders[1]);
	wait_for_success(_metadata, child);
	EXPECT_EQ(0, wrong);
	EXPECT_EQ(NR_GRANDCHILDREN, gate_read_count(self->first));
	close(orders[0]);
	close(answers[0]);
	close(answers[1]);
}

TEST_HARNESS_MAIN
