// SPDX-License-Identifier: GPL-2.0
/*
 * perf gate selftests - which events may be linked, and the errors for others
 */
#define _GNU_SOURCE

#include <mntent.h>

#include "../kselftest_harness.h"
#include "gate_helpers.h"

/* Either of the two ioctls that link a trigger and a target. */
FIXTURE(gate_link)
{
	struct gate_triggers triggers;
	int target;
};

FIXTURE_VARIANT(gate_link)
{
	unsigned int cmd;
};

FIXTURE_VARIANT_ADD(gate_link, starter) {
	.cmd = PERF_EVENT_IOC_SET_STARTER,
};

FIXTURE_VARIANT_ADD(gate_link, stopper) {
	.cmd = PERF_EVENT_IOC_SET_STOPPER,
};

FIXTURE_SETUP(gate_link)
{
	if (triggers_open(_metadata, &self->triggers))
		return;
	self->target = gate_open_self(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS);
	ASSERT_LE(0, self->target);
}

FIXTURE_TEARDOWN(gate_link)
{
	close(self->target);
	triggers_close(&self->triggers);
}

TEST_F(gate_link, closed_fd_is_refused)
{
	int fd = dup(self->target);

	ASSERT_EQ(0, close(fd));
	EXPECT_EQ(-EBADF, gate_ioctl(self->triggers.starter, variant->cmd, fd));
}

TEST_F(gate_link, fd_of_another_kind_is_refused)
{
	int pipe_fds[2];

	ASSERT_EQ(0, pipe(pipe_fds));
	EXPECT_EQ(-EBADF, gate_ioctl(self->triggers.starter, variant->cmd, pipe_fds[0]));
}

TEST_F(gate_link, detach_without_links_succeeds)
{
	EXPECT_EQ(0, gate_ioctl(self->triggers.starter, variant->cmd, -1));
}

/* The -1 of a 32-bit program reaches the kernel without the upper half. */
TEST_F(gate_link, detach_compares_32_bits)
{
	ASSERT_EQ(0, gate_ioctl(self->triggers.starter, variant->cmd, self->target));
	ASSERT_EQ(0, gate_ioctl(self->triggers.starter, variant->cmd, 0xffffffffUL));
	EXPECT_EQ(0, gate_ioctl(self->triggers.stopper, variant->cmd, self->target));
}

#ifdef __x86_64__
/* ioctl(2) through the 32-bit entry, which takes the low halves only. */
static int ioctl_32(int fd, unsigned int cmd, unsigned int arg)
{
	int ret;

	asm volatile("int $0x80"
		     : "=a" (ret)
		     : "a" (54), "b" (fd), "c" (cmd), "d" (arg)
		     : "memory", "r8", "r9", "r10", "r11");
	return ret;
}

TEST_F(gate_link, detach_works_from_a_32_bit_program)
{
	int status;
	pid_t child;

	ASSERT_EQ(0, gate_ioctl(self->triggers.starter, variant->cmd, self->target));
	child = fork();
	ASSERT_LE(0, child);
	if (!child)
		_exit(-ioctl_32(self->triggers.starter, variant->cmd, -1));
	ASSERT_EQ(child, waitpid(child, &status, 0));
	if (WIFSIGNALED(status))
		SKIP(return, "this kernel runs no 32-bit programs");
	ASSERT_EQ(0, WEXITSTATUS(status));
	EXPECT_EQ(0, gate_ioctl(self->triggers.stopper, variant->cmd, self->target));
}
#endif

TEST_F(gate_link, event_cannot_trigger_itself)
{
	EXPECT_EQ(-EINVAL, gate_ioctl(self->target, variant->cmd, self->target));
}

TEST_F(gate_link, refused_link_leaves_the_gate_open)
{
	struct gate_pages pages;

	ASSERT_EQ(0, pages_map(&pages, 8));
	ASSERT_NE(0, gate_ioctl(self->target, variant->cmd, self->target));
	gate_ioctl(self->target, PERF_EVENT_IOC_RESET, 0);
	pages_touch(&pages, 8);
	EXPECT_EQ(8, gate_read_count(self->target));
}

static pid_t fork_sleeper(void)
{
	pid_t child = fork();

	if (!child) {
		for (;;)
			pause();
	}
	return child;
}

TEST_F(gate_link, event_of_another_task_is_refused)
{
	struct perf_event_attr attr = gate_attr(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS);
	pid_t child = fork_sleeper();
	int target;

	ASSERT_LE(0, child);
	target = gate_open(&attr, child, -1);
	EXPECT_LE(0, target);
	EXPECT_EQ(-EINVAL, gate_ioctl(self->triggers.starter, variant->cmd, target));
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

/* Both events have lost their task, which must not make them match. */
TEST_F(gate_link, events_of_an_exited_task_are_refused)
{
	struct perf_event_attr attr = gate_attr(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS);
	pid_t child = fork_sleeper();
	int trigger, target;

	ASSERT_LE(0, child);
	trigger = gate_open(&attr, child, -1);
	EXPECT_LE(0, trigger);
	target = gate_open(&attr, child, -1);
	EXPECT_LE(0, target);
	kill(child, SIGKILL);
	ASSERT_EQ(child, waitpid(child, NULL, 0));
	EXPECT_EQ(-ESRCH, gate_ioctl(trigger, variant->cmd, target));
}

/* Such a trigger would miss the occurrences on other CPUs. */
TEST_F(gate_link, trigger_of_one_cpu_does_not_gate_a_task_everywhere)
{
	struct perf_event_attr attr = gate_attr(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS);
	int trigger = gate_open(&attr, 0, nth_cpu(0));

	ASSERT_LE(0, trigger);
	EXPECT_EQ(-EINVAL, gate_ioctl(trigger, variant->cmd, self->target));
}

TEST_F(gate_link, trigger_that_follows_its_task_gates_events_of_one_cpu)
{
	struct perf_event_attr attr = gate_attr(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS);
	int target = gate_open(&attr, 0, nth_cpu(0));

	ASSERT_LE(0, target);
	EXPECT_EQ(0, gate_ioctl(self->triggers.starter, variant->cmd, target));
}

TEST_F(gate_link, events_on_two_cpus_are_refused)
{
	struct perf_event_attr attr = gate_attr(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS);
	int trigger, target;

	if (nth_cpu(1) < 0)
		SKIP(return, "needs two CPUs");
	trigger = gate_open(&attr, -1, nth_cpu(0));
	ASSERT_LE(0, trigger);
	target = gate_open(&attr, -1, nth_cpu(1));
	ASSERT_LE(0, target);
	EXPECT_EQ(-EINVAL, gate_ioctl(trigger, variant->cmd, target));
}

TEST_F(gate_link, task_and_cpu_wide_events_do_not_mix)
{
	struct perf_event_attr attr = gate_attr(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS);
	int cpu_wide = gate_open(&attr, -1, nth_cpu(0));

	ASSERT_LE(0, cpu_wide);
	EXPECT_EQ(-EINVAL, gate_ioctl(self->triggers.starter, variant->cmd, cpu_wide));
	EXPECT_EQ(-EINVAL, gate_ioctl(cpu_wide, variant->cmd, self->target));
}

/* Open the root of a hierarchy with the perf_event controller, or return -1. */
static int open_perf_cgroup(void)
{
	struct mntent *entry;
	FILE *mounts;
	int fd = -1;

	mounts = setmntent("/proc/mounts", "r");
	if (!mounts)
		return -1;
	while (fd < 0 && (entry = getmntent(mounts))) {
		if (!strcmp(entry->mnt_type, "cgroup2") ||
		    (!strcmp(entry->mnt_type, "cgroup") && hasmntopt(entry, "perf_event")))
			fd = open(entry->mnt_dir, O_RDONLY | O_DIRECTORY);
	}
	endmntent(mounts);
	return fd;
}

TEST_F(gate_link, events_of_different_cgroups_do_not_mix)
{
	struct perf_event_attr attr = gate_attr(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS);
	int cgroup = open_perf_cgroup();
	int target, trigger;

	if (cgroup < 0)
		SKIP(return, "no cgroup hierarchy with perf_event is mounted");
	target = syscall(__NR_perf_event_open, &attr, cgroup, nth_cpu(0), -1,
			 PERF_FLAG_PID_CGROUP);
	if (target < 0)
		SKIP(return, "no events of a cgroup: %s", strerror(errno));
	trigger = gate_open(&attr, -1, nth_cpu(0));
	ASSERT_LE(0, trigger);
	EXPECT_EQ(-EINVAL, gate_ioctl(trigger, variant->cmd, target));
}

TEST_F(gate_link, inherit_must_be_equal)
{
	struct perf_event_attr attr = gate_attr(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS);
	int inherited;

	attr.read_format = 0;
	attr.inherit = 1;
	inherited = gate_open(&attr, 0, -1);
	ASSERT_LE(0, inherited);
	EXPECT_EQ(-EINVAL, gate_ioctl(self->triggers.starter, variant->cmd, inherited));
	EXPECT_EQ(-EINVAL, gate_ioctl(inherited, variant->cmd, self->target));
}

TEST_F(gate_link, inherited_events_are_linked)
{
	struct perf_event_attr attr = gate_attr(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS);
	int trigger, target;

	attr.read_format = 0;
	attr.inherit = 1;
	trigger = gate_open(&attr, 0, -1);
	ASSERT_LE(0, trigger);
	target = gate_open(&attr, 0, -1);
	ASSERT_LE(0, target);
	EXPECT_EQ(0, gate_ioctl(trigger, variant->cmd, target));
}

TEST_F(gate_link, remove_on_exec_must_be_equal)
{
	struct perf_event_attr attr = gate_attr(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS);
	int target;

	attr.remove_on_exec = 1;
	target = gate_open(&attr, 0, -1);
	ASSERT_LE(0, target);
	EXPECT_EQ(-EINVAL, gate_ioctl(self->triggers.starter, variant->cmd, target));
}

/* A child inherits the target, but not a trigger with sigtrap. */
TEST_F(gate_link, sigtrap_must_be_equal)
{
	struct perf_event_attr attr = gate_attr(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS);
	int trigger, target;

	attr.remove_on_exec = 1;
	target = gate_open(&attr, 0, -1);
	ASSERT_LE(0, target);
	attr.sigtrap = 1;
	trigger = gate_open(&attr, 0, -1);
	ASSERT_LE(0, trigger);
	EXPECT_EQ(-EINVAL, gate_ioctl(trigger, variant->cmd, target));
}

/* A BPF program writes its records without regard to gates. */
TEST_F(gate_link, bpf_output_event_is_refused)
{
	struct perf_event_attr attr = gate_attr(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_BPF_OUTPUT);
	int target;

	attr.sample_type = PERF_SAMPLE_RAW;
	attr.sample_period = 1;
	target = gate_open(&attr, 0, -1);
	ASSERT_LE(0, target);
	EXPECT_EQ(-EOPNOTSUPP, gate_ioctl(self->triggers.starter, variant->cmd, target));
	gate_attr_set_bit(&attr, GATE_BIT_START_PAUSED);
	EXPECT_EQ(-1, gate_open(&attr, 0, -1));
	EXPECT_EQ(EOPNOTSUPP, errno);
}

TEST_F(gate_link, counting_clock_cannot_trigger)
{
	int trigger = gate_open_self(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK);

	ASSERT_LE(0, trigger);
	EXPECT_EQ(-EINVAL, gate_ioctl(trigger, variant->cmd, self->target));
}

TEST_F(gate_link, sampling_clock_can_trigger)
{
	struct perf_event_attr attr = gate_attr(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK);
	int trigger;

	attr.sample_period = NSEC_PER_SEC;
	trigger = gate_open(&attr, 0, -1);
	ASSERT_LE(0, trigger);
	EXPECT_EQ(0, gate_ioctl(trigger, variant->cmd, self->target));
}

TEST_F(gate_link, counting_hardware_event_cannot_trigger)
{
	int trigger = gate_open_self(PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS);

	if (trigger < 0)
		SKIP(return, "no hardware event: %s", strerror(errno));
	EXPECT_EQ(-EINVAL, gate_ioctl(trigger, variant->cmd, self->target));
}

TEST_F(gate_link, same_link_twice_is_refused)
{
	ASSERT_EQ(0, gate_ioctl(self->triggers.starter, variant->cmd, self->target));
	EXPECT_EQ(-EEXIST, gate_ioctl(self->triggers.starter, variant->cmd, self->target));
}

TEST_F(gate_link, role_takes_64_triggers_and_no_more)
{
	int trigger, i;

	for (i = 0; i < GATE_MAX_TARGETS; i++) {
		trigger = gate_open_self(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_DUMMY);
		ASSERT_LE(0, trigger);
		ASSERT_EQ(0, gate_ioctl(trigger, variant->cmd, self->target));
		ASSERT_EQ(-EEXIST, gate_ioctl(trigger, variant->cmd, self->target));
	}
	EXPECT_EQ(-ENOSPC, gate_ioctl(self->triggers.starter, variant->cmd, self->target));
	/* There is room for the other role, and closing a trigger makes room for one more. */
	EXPECT_EQ(0, gate_ioctl(self->triggers.starter,
				variant->cmd ^ PERF_EVENT_IOC_SET_STARTER ^
				PERF_EVENT_IOC_SET_STOPPER, self->target));
	ASSERT_EQ(0, close(trigger));
	EXPECT_EQ(0, gate_ioctl(self->triggers.starter, variant->cmd, self->target));
}

TEST_F(gate_link, dropped_target_can_be_linked_again)
{
	ASSERT_EQ(0, gate_ioctl(self->triggers.starter, variant->cmd, self->target));
	ASSERT_EQ(0, gate_ioctl(self->triggers.starter, variant->cmd, -1));
	EXPECT_EQ(0, gate_ioctl(self->triggers.stopper, variant->cmd, self->target));
}

TEST_F(gate_link, cleared_target_can_be_linked_again)
{
	ASSERT_EQ(0, gate_ioctl(self->triggers.starter, variant->cmd, self->target));
	ASSERT_EQ(0, clear_gate(self->target));
	EXPECT_EQ(0, gate_ioctl(self->triggers.stopper, variant->cmd, self->target));
}

TEST_F(gate_link, trigger_takes_64_targets_and_no_more)
{
	int target, i;

	for (i = 0; i < GATE_MAX_TARGETS; i++) {
		target = gate_open_self(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS);
		ASSERT_LE(0, target);
		ASSERT_EQ(0, gate_ioctl(self->triggers.starter, variant->cmd, target));
	}
	EXPECT_EQ(-ENOSPC, gate_ioctl(self->triggers.starter, variant->cmd, self->target));
}

TEST_F(gate_link, place_of_a_closed_target_is_free_again)
{
	int target, i;

	for (i = 0; i < 2 * GATE_MAX_TARGETS; i++) {
		target = gate_open_self(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS);
		ASSERT_LE(0, target);
		ASSERT_EQ(0, gate_ioctl(self->triggers.starter, variant->cmd, target)) {
			TH_LOG("target %d", i);
		}
		close(target);
	}
}

TEST_HARNESS_MAIN
