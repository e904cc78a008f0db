// SPDX-License-Identifier: GPL-2.0
/*
 * perf gate selftests - gates of children
 *
 * A child has its own copy of each inherited event, trigger or target, and its
 * own windows. The parent's event includes the counts of the child, while it runs
 * and after it has ended.
 */
#define _GNU_SOURCE

#include "../kselftest_harness.h"
#include "gate_family.h"

#define NR_CHILDREN	8

FIXTURE(gate_inherit)
{
	struct gate_triggers triggers;
	struct gate_pages pages;
	struct perf_event_attr attr;
	int target;
};

/* The target counts getppid(2), which children call only on request, and is not linked. */
FIXTURE_SETUP(gate_inherit)
{
	if (triggers_open(_metadata, &self->triggers))
		return;
	ASSERT_EQ(0, pages_map(&self->pages, 32));
	triggers_inherit(_metadata, &self->triggers);
	self->attr = inherited_attr(PERF_TYPE_TRACEPOINT,
				    tracepoint_id("syscalls/sys_enter_getppid"));
	self->target = gate_open(&self->attr, 0, -1);
	ASSERT_LE(0, self->target);
}

FIXTURE_TEARDOWN(gate_inherit)
{
	close(self->target);
	munmap(self->pages.mem, self->pages.size);
	triggers_close(&self->triggers);
}

static pid_t fork_windows(unsigned int nr, unsigned int inside, unsigned int outside)
{
	pid_t child = fork();

	if (!child) {
		run_windows(nr, inside, outside);
		_exit(0);
	}
	return child;
}

/* Stack and data of a child fault as well, in the first round, which has no windows. */
static pid_t fork_faulting(const struct gate_pages *pages, unsigned int inside)
{
	pid_t child = fork();
	int round;

	if (!child) {
		for (round = 0; round < 4; round++) {
			pages_touch(pages, 30);
			if (round)
				window_open();
			pages_touch(pages, inside);
			if (round)
				window_close();
		}
		_exit(0);
	}
	return child;
}

TEST_F(gate_inherit, windows_of_100_children_are_counted_exactly)
{
	__u64 calls = 0, windows = 0;
	struct gate_value value;
	pid_t children[100];
	unsigned int i;

	ASSERT_EQ(0, set_both(&self->triggers, self->target));
	for (i = 0; i < ARRAY_SIZE(children); i++) {
		children[i] = fork_windows(1 + i % 5, i, 70);
		ASSERT_LE(0, children[i]);
		windows += 1 + i % 5;
		calls += (1 + i % 5) * i;
	}
	for (i = 0; i < ARRAY_SIZE(children); i++)
		wait_for_success(_metadata, children[i]);
	value = gate_read(self->target);
	EXPECT_EQ(calls, value.value);
	EXPECT_EQ(windows, value.gate_count);
	EXPECT_LE(value.gate_time, value.running);
	EXPECT_LE(value.running, value.enabled);
}

TEST_F(gate_inherit, page_faults_of_children_are_counted_in_windows_only)
{
	struct perf_event_attr attr;
	int target, i;

	attr = inherited_attr(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS);
	gate_attr_set_bit(&attr, GATE_BIT_START_PAUSED);
	target = gate_open(&attr, 0, -1);
	ASSERT_LE(0, target);
	ASSERT_EQ(0, set_both(&self->triggers, target));
	for (i = 0; i < NR_CHILDREN; i++)
		wait_for_success(_metadata, fork_faulting(&self->pages, 10 + i));
	EXPECT_EQ(3 * (NR_CHILDREN * 10 + NR_CHILDREN * (NR_CHILDREN - 1) / 2),
		  gate_read_count(target));
	EXPECT_EQ(3 * NR_CHILDREN, gate_read(target).gate_count);
}

TEST_F(gate_inherit, windows_of_a_running_child_are_counted)
{
	struct puppet child;

	ASSERT_EQ(0, set_both(&self->triggers, self->target));
	puppet_fork(_metadata, &child);
	ASSERT_TRUE(tell(&child, "ggogg"));
	EXPECT_EQ(2, gate_read_count(self->target));
	EXPECT_EQ(1, gate_read(self->target).gate_count);
	ASSERT_TRUE(tell(&child, "cgggog"));
	EXPECT_EQ(3, gate_read_count(self->target));
	EXPECT_EQ(2, gate_read(self->target).gate_count);
	puppet_end(_metadata, &child);
	EXPECT_EQ(3, gate_read_count(self->target));
	EXPECT_EQ(2, gate_read(self->target).gate_count);
}

TEST_F(gate_inherit, child_forked_in_a_window_starts_open)
{
	struct puppet child;

	ASSERT_EQ(0, set_both(&self->triggers, self->target));
	window_open();
	puppet_fork(_metadata, &child);
	ASSERT_TRUE(tell(&child, "ggg"));
	EXPECT_EQ(3, gate_read_count(self->target));
	/* The gate was open from the beginning, so this does not count as an opening. */
	EXPECT_EQ(1, gate_read(self->target).gate_count);
	ASSERT_TRUE(tell(&child, "cgg"));
	EXPECT_EQ(3, gate_read_count(self->target));
	puppet_end(_metadata, &child);
	EXPECT_EQ(1, gate_read(self->target).gate_count);
}

TEST_F(gate_inherit, child_forked_between_windows_starts_closed)
{
	struct puppet child;

	ASSERT_EQ(0, set_both(&self->triggers, self->target));
	run_windows(3, 2, 5);
	puppet_fork(_metadata, &child);
	ASSERT_TRUE(tell(&child, "ggg"));
	EXPECT_EQ(6, gate_read_count(self->target));
	puppet_end(_metadata, &child);
	EXPECT_EQ(6, gate_read_count(self->target));
	EXPECT_EQ(3, gate_read(self->target).gate_count);
}

TEST_F(gate_inherit, child_in_a_window_is_counted_until_it_exits)
{
	struct puppet child;

	ASSERT_EQ(0, set_both(&self->triggers, self->target));
	puppet_fork(_metadata, &child);
	ASSERT_TRUE(tell(&child, "ogggg"));
	puppet_end(_metadata, &child);
	EXPECT_EQ(4, gate_read_count(self->target));
}

TEST_F(gate_inherit, parent_and_children_have_windows_of_their_own)
{
	struct puppet first, second;

	ASSERT_EQ(0, set_both(&self->triggers, self->target));
	puppet_fork(_metadata, &first);
	puppet_fork(_metadata, &second);
	window_open();
	ASSERT_TRUE(tell(&first, "gg"));
	ASSERT_TRUE(tell(&second, "gg"));
	EXPECT_EQ(0, gate_read_count(self->target));
	ASSERT_TRUE(tell(&first, "oggg"));
	EXPECT_EQ(3, gate_read_count(self->target));
	window_close();
	ASSERT_TRUE(tell(&second, "g"));
	ASSERT_TRUE(tell(&first, "g"));
	call_getppid(5);
	EXPECT_EQ(4, gate_read_count(self->target));
	ASSERT_TRUE(tell(&first, "cg"));
	ASSERT_TRUE(tell(&second, "og"));
	EXPECT_EQ(5, gate_read_count(self->target));
	puppet_end(_metadata, &first);
	puppet_end(_metadata, &second);
	EXPECT_EQ(5, gate_read_count(self->target));
	EXPECT_EQ(3, gate_read(self->target).gate_count);
}

TEST_F(gate_inherit, grandchildren_are_gated_too)
{
	pid_t child, grandchild;
	int status;

	ASSERT_EQ(0, set_both(&self->triggers, self->target));
	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		window_open();
		grandchild = fork();
		if (!grandchild) {
			/* Close the window of the child, not that of its parent. */
			call_getppid(3);
			window_close();
			run_windows(4, 5, 9);
			_exit(0);
		}
		window_close();
		call_getppid(9);
		waitpid(grandchild, &status, 0);
		_exit(grandchild < 0 || status);
	}
	wait_for_success(_metadata, child);
	EXPECT_EQ(3 + 4 * 5, gate_read_count(self->target));
	EXPECT_EQ(1 + 4, gate_read(self->target).gate_count);
}

TEST_F(gate_inherit, child_of_an_exited_task_stays_gated)
{
	struct puppet orphan;
	int running[2];
	pid_t child;

	ASSERT_EQ(0, set_both(&self->triggers, self->target));
	ASSERT_EQ(0, prctl(PR_SET_CHILD_SUBREAPER, 1));
	ASSERT_EQ(0, pipe(running));
	puppet_prepare(_metadata, &orphan);
	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		orphan.pid = fork();
		if (!orphan.pid) {
			puppet_live(&orphan);
			_exit(0);
		}
		_exit(write(running[1], &orphan.pid, sizeof(pid_t)) != sizeof(pid_t));
	}
	wait_for_success(_metadata, child);
	ASSERT_EQ(sizeof(pid_t), read(running[0], &orphan.pid, sizeof(pid_t)));
	ASSERT_TRUE(tell(&orphan, "ggogggcg"));
	EXPECT_EQ(3, gate_read_count(self->target));
	puppet_end(_metadata, &orphan);
	EXPECT_EQ(3, gate_read_count(self->target));
}

/* A child starts with the depth of its parent, and changes it independently. */
TEST_F(gate_inherit, child_inherits_the_depth)
{
	struct puppet child;
	int target;

	gate_attr_set_bit(&self->attr, GATE_BIT_NEST);
	target = gate_open(&self->attr, 0, -1);
	ASSERT_LE(0, target);
	ASSERT_EQ(0, set_both(&self->triggers, target));
	window_open();
	window_open();
	puppet_fork(_metadata, &child);
	window_close();
	window_close();
	ASSERT_TRUE(tell(&child, "gcgcg"));
	EXPECT_EQ(2, gate_read_count(target));
	ASSERT_TRUE(tell(&child, "oogcg"));
	EXPECT_EQ(4, gate_read_count(target));
	puppet_end(_metadata, &child);
}

TEST_F(gate_inherit, child_toggles_its_own_gate)
{
	struct puppet child;

	ASSERT_EQ(0, set_starter(self->triggers.starter, self->target));
	ASSERT_EQ(0, set_stopper(self->triggers.starter, self->target));
	window_open();
	puppet_fork(_metadata, &child);
	window_open();
	ASSERT_TRUE(tell(&child, "gogogogg"));
	EXPECT_EQ(2, gate_read_count(self->target));
	puppet_end(_metadata, &child);
}

TEST_F(gate_inherit, child_has_all_64_targets)
{
	int targets[GATE_MAX_TARGETS], i;

	for (i = 0; i < GATE_MAX_TARGETS; i++) {
		targets[i] = gate_open(&self->attr, 0, -1);
		ASSERT_LE(0, targets[i]);
		ASSERT_EQ(0, set_both(&self->triggers, targets[i]));
	}
	wait_for_success(_metadata, fork_windows(3, 4, 5));
	wait_for_success(_metadata, fork_windows(2, 1, 5));
	for (i = 0; i < GATE_MAX_TARGETS; i++) {
		EXPECT_EQ(14, gate_read_count(targets[i])) {
			TH_LOG("target %d", i);
		}
		EXPECT_EQ(5, gate_read(targets[i]).gate_count);
	}
}

/* getuid opens the gate of the getgid event, which opens the target's. */
TEST_F(gate_inherit, chain_of_gates_is_inherited)
{
	int middle = open_inherited("syscalls/sys_enter_getgid");
	pid_t child;

	ASSERT_LE(0, middle);
	ASSERT_EQ(0, set_both(&self->triggers, middle));
	ASSERT_EQ(0, set_starter(middle, self->target));
	ASSERT_EQ(0, set_stopper(self->triggers.stopper, self->target));
	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		syscall(__NR_getgid);
		call_getppid(5);
		window_open();
		call_getppid(5);
		syscall(__NR_getgid);
		call_getppid(3);
		window_close();
		call_getppid(5);
		_exit(0);
	}
	wait_for_success(_metadata, child);
	EXPECT_EQ(3, gate_read_count(self->target));
	EXPECT_EQ(1, gate_read_count(middle));
	/* The gates of the parent did not move. */
	syscall(__NR_getgid);
	call_getppid(5);
	EXPECT_EQ(3, gate_read_count(self->target));
}

TEST_F(gate_inherit, start_paused_without_links_never_counts_a_child)
{
	struct gate_value value;
	int target;

	gate_attr_set_bit(&self->attr, GATE_BIT_START_PAUSED);
	target = gate_open(&self->attr, 0, -1);
	ASSERT_LE(0, target);
	wait_for_success(_metadata, fork_windows(5, 5, 5));
	value = gate_read(target);
	EXPECT_EQ(0, value.value);
	EXPECT_EQ(0, value.gate_time);
	EXPECT_EQ(0, value.gate_count);
	EXPECT_LT(0, value.running);
}

TEST_F(gate_inherit, child_without_gates_has_its_running_time_as_gate_time)
{
	struct gate_value value;

	wait_for_success(_metadata, fork_windows(5, 5, 5));
	value = gate_read(self->target);
	EXPECT_EQ(50, value.value);
	EXPECT_EQ(0, value.gate_count);
	/* The calling task runs between the two reads. */
	EXPECT_LE(value.gate_time, value.running);
	EXPECT_LE(value.running - value.running / 10, value.gate_time);
}

static void fork_puppets(struct __test_metadata *const _metadata,
			 struct puppet *children)
{
	int i;

	for (i = 0; i < NR_CHILDREN; i++)
		puppet_fork(_metadata, &children[i]);
}

static void tell_all(struct __test_metadata *const _metadata,
		     const struct puppet *children, const char *letters)
{
	int i;

	for (i = 0; i < NR_CHILDREN; i++)
		ASSERT_TRUE(tell(&children[i], letters));
}

static void end_puppets(struct __test_metadata *const _metadata,
			const struct puppet *children)
{
	int i;

	for (i = 0; i < NR_CHILDREN; i++)
		puppet_end(_metadata, &children[i]);
}

TEST_F(gate_inherit, links_reach_children_that_exist)
{
	struct puppet children[NR_CHILDREN];

	fork_puppets(_metadata, children);
	tell_all(_metadata, children, "gg");
	ASSERT_EQ(0, set_both(&self->triggers, self->target));
	tell_all(_metadata, children, "ggg");
	EXPECT_EQ(2 * NR_CHILDREN, gate_read_count(self->target));
	tell_all(_metadata, children, "ogggcggog");
	EXPECT_EQ(6 * NR_CHILDREN, gate_read_count(self->target));
	EXPECT_EQ(2 * NR_CHILDREN, gate_read(self->target).gate_count);
	end_puppets(_metadata, children);
	EXPECT_EQ(6 * NR_CHILDREN, gate_read_count(self->target));
	EXPECT_EQ(2 * NR_CHILDREN, gate_read(self->target).gate_count);
}

TEST_F(gate_inherit, dropping_the_links_opens_children)
{
	struct puppet children[NR_CHILDREN];

	ASSERT_EQ(0, set_both(&self->triggers, self->target));
	fork_puppets(_metadata, children);
	ASSERT_EQ(0, set_stopper(self->triggers.stopper, -1));
	tell_all(_metadata, children, "gg");
	EXPECT_EQ(0, gate_read_count(self->target));
	ASSERT_EQ(0, set_starter(self->triggers.starter, -1));
	tell_all(_metadata, children, "gg");
	EXPECT_EQ(2 * NR_CHILDREN, gate_read_count(self->target));
	tell_all(_metadata, children, "ogcg");
	EXPECT_EQ(4 * NR_CHILDREN, gate_read_count(self->target));
	end_puppets(_metadata, children);
	/* The gate of the parent opened together with theirs. */
	EXPECT_EQ(NR_CHILDREN + 1, gate_read(self->target).gate_count);
}

TEST_F(gate_inherit, clear_gate_opens_children)
{
	struct puppet children[NR_CHILDREN];

	ASSERT_EQ(0, set_both(&self->triggers, self->target));
	fork_puppets(_metadata, children);
	tell_all(_metadata, children, "g");
	ASSERT_EQ(0, clear_gate(self->target));
	tell_all(_metadata, children, "gcg");
	EXPECT_EQ(2 * NR_CHILDREN, gate_read_count(self->target));
	/* The events can be linked again. */
	ASSERT_EQ(0, set_both(&self->triggers, self->target));
	tell_all(_metadata, children, "gogcg");
	EXPECT_EQ(3 * NR_CHILDREN, gate_read_count(self->target));
	end_puppets(_metadata, children);
	wait_for_success(_metadata, fork_windows(1, 10, 20));
	EXPECT_EQ(3 * NR_CHILDREN + 10, gate_read_count(self->target));
}

TEST_F(gate_inherit, closing_the_triggers_freezes_children)
{
	struct puppet open, closed;

	ASSERT_EQ(0, set_both(&self->triggers, self->target));
	puppet_fork(_metadata, &open);
	puppet_fork(_metadata, &closed);
	ASSERT_TRUE(tell(&open, "og"));
	triggers_close(&self->triggers);
	ASSERT_TRUE(tell(&open, "cg"));
	ASSERT_TRUE(tell(&closed, "og"));
	EXPECT_EQ(2, gate_read_count(self->target));
	puppet_end(_metadata, &open);
	puppet_end(_metadata, &closed);
	EXPECT_EQ(2, gate_read_count(self->target));
	/* The fixture must not close them again. */
	self->triggers.starter = -1;
	self->triggers.stopper = -1;
}

TEST_F(gate_inherit, reset_empties_the_windows_of_running_children)
{
	struct puppet child;

	ASSERT_EQ(0, set_both(&self->triggers, self->target));
	puppet_fork(_metadata, &child);
	ASSERT_TRUE(tell(&child, "ogggcggogg"));
	ASSERT_EQ(0, gate_ioctl(self->target, PERF_EVENT_IOC_RESET, 0));
	EXPECT_EQ(0, gate_read_count(self->target));
	ASSERT_TRUE(tell(&child, "gcggog"));
	EXPECT_EQ(2, gate_read_count(self->target));
	puppet_end(_metadata, &child);
	EXPECT_EQ(2, gate_read_count(self->target));
	EXPECT_EQ(3, gate_read(self->target).gate_count);
}

TEST_F(gate_inherit, disabled_trigger_does_not_fire_in_children)
{
	struct puppet child;

	ASSERT_EQ(0, set_both(&self->triggers, self->target));
	puppet_fork(_metadata, &child);
	ASSERT_EQ(0, gate_ioctl(self->triggers.starter, PERF_EVENT_IOC_DISABLE, 0));
	ASSERT_TRUE(tell(&child, "og"));
	wait_for_success(_metadata, fork_windows(2, 3, 4));
	EXPECT_EQ(0, gate_read_count(self->target));
	ASSERT_EQ(0, gate_ioctl(self->triggers.starter, PERF_EVENT_IOC_ENABLE, 0));
	ASSERT_TRUE(tell(&child, "og"));
	EXPECT_EQ(1, gate_read_count(self->target));
	puppet_end(_metadata, &child);
}

TEST_HARNESS_MAIN
