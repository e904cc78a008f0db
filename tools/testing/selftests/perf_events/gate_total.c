// SPDX-License-Identifier: GPL-2.0
/*
 * perf gate selftests - PERF_FORMAT_GATE_TOTAL, what an event counted in all
 */
#define _GNU_SOURCE

#include "../kselftest_harness.h"
#include "gate_family.h"

struct total_value {
	__u64	value;
	__u64	total;
};

FIXTURE(gate_total)
{
	struct gate_triggers triggers;
	struct perf_event_attr attr;
};

FIXTURE_SETUP(gate_total)
{
	if (triggers_open(_metadata, &self->triggers))
		return;
	self->attr = gate_attr(PERF_TYPE_TRACEPOINT,
			       tracepoint_id("syscalls/sys_enter_getppid"));
	self->attr.read_format = PERF_FORMAT_GATE_TOTAL;
}

FIXTURE_TEARDOWN(gate_total)
{
	triggers_close(&self->triggers);
}

static struct total_value total_read(int fd)
{
	struct total_value value;

	if (read(fd, &value, sizeof(value)) != sizeof(value))
		memset(&value, 0xff, sizeof(value));
	return value;
}

TEST_F(gate_total, total_is_inside_and_outside)
{
	int target = gate_open(&self->attr, 0, -1);

	ASSERT_LE(0, target);
	call_getppid(4);
	EXPECT_EQ(4, total_read(target).value);
	EXPECT_EQ(4, total_read(target).total);
	ASSERT_EQ(0, set_both(&self->triggers, target));
	run_windows(10, 2, 3);
	EXPECT_EQ(24, total_read(target).value);
	EXPECT_EQ(54, total_read(target).total);
	/* A reset keeps the total, like the time and the number of the windows. */
	gate_ioctl(target, PERF_EVENT_IOC_RESET, 0);
	EXPECT_EQ(0, total_read(target).value);
	EXPECT_EQ(54, total_read(target).total);
	close(target);
}

TEST_F(gate_total, total_without_a_gate_is_the_value)
{
	int fd = gate_open(&self->attr, 0, -1);

	ASSERT_LE(0, fd);
	call_getppid(4);
	gate_ioctl(fd, PERF_EVENT_IOC_RESET, 0);
	call_getppid(3);
	EXPECT_EQ(3, total_read(fd).value);
	EXPECT_EQ(3, total_read(fd).total);
	close(fd);
}

TEST_F(gate_total, children_add_to_the_total)
{
	struct puppet before, after;
	pid_t child;
	int target;

	triggers_inherit(_metadata, &self->triggers);
	self->attr.inherit = 1;
	target = gate_open(&self->attr, 0, -1);
	ASSERT_LE(0, target);
	/* One child ends before the gate exists, and another one lives through its creation. */
	child = fork();
	if (!child) {
		call_getppid(100);
		_exit(0);
	}
	wait_for_success(_metadata, child);
	puppet_fork(_metadata, &before);
	EXPECT_TRUE(tell(&before, "gg"));
	ASSERT_EQ(0, set_both(&self->triggers, target));
	puppet_fork(_metadata, &after);
	EXPECT_TRUE(tell(&before, "gogcg"));
	EXPECT_TRUE(tell(&after, "ggoggcg"));
	EXPECT_EQ(102 + 3, total_read(target).value);
	EXPECT_EQ(102 + 3 + 5, total_read(target).total);
	puppet_end(_metadata, &before);
	puppet_end(_metadata, &after);
	EXPECT_EQ(102 + 3, total_read(target).value);
	EXPECT_EQ(102 + 3 + 5, total_read(target).total);
	close(target);
}

TEST_F(gate_total, members_of_a_group_have_theirs)
{
	struct {
		__u64 nr;
		struct total_value entry[2];
	} group;
	int leader, second;

	self->attr.read_format |= PERF_FORMAT_GROUP;
	leader = gate_open(&self->attr, 0, -1);
	second = gate_open_group(&self->attr, 0, -1, leader);
	ASSERT_LE(0, second);
	ASSERT_EQ(0, set_both(&self->triggers, second));
	run_windows(10, 2, 3);
	ASSERT_EQ(sizeof(group), read(leader, &group, sizeof(group)));
	EXPECT_EQ(50, group.entry[0].value);
	EXPECT_EQ(50, group.entry[0].total);
	EXPECT_EQ(20, group.entry[1].value);
	EXPECT_EQ(50, group.entry[1].total);
	close(second);
	close(leader);
}

/*
 * The samples of a clock without a gate hold the values of its group, of which one member
 * has a gate.
 */
TEST_F(gate_total, samples_tell_the_total)
{
	struct perf_event_attr attr = gate_attr(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK);
	struct {
		struct perf_event_header header;
		__u64 nr;
		struct {
			__u64 value, gate_time, gate_count, total;
		} entry[2];
	} sample;
	unsigned int nr = 0;
	struct gate_ring ring;
	int leader, target;

	attr.read_format = PERF_FORMAT_GROUP | PERF_FORMAT_GATE_TIME |
			   PERF_FORMAT_GATE_COUNT | PERF_FORMAT_GATE_TOTAL;
	attr.sample_type = PERF_SAMPLE_READ;
	attr.sample_period = NSEC_PER_MSEC;
	leader = gate_open(&attr, 0, -1);
	ASSERT_LE(0, leader);
	ASSERT_EQ(0, ring_map(&ring, leader, 16));
	attr = self->attr;
	attr.read_format = PERF_FORMAT_GROUP | PERF_FORMAT_GATE_TOTAL;
	target = gate_open_group(&attr, 0, -1, leader);
	ASSERT_LE(0, target);
	ASSERT_EQ(0, set_both(&self->triggers, target));
	run_windows(10, 2, 3);
	ring_drain(&ring, 0);
	spin_ns(20 * NSEC_PER_MSEC);
	while (ring_next(&ring, &sample, sizeof(sample))) {
		nr++;
		ASSERT_EQ(sizeof(sample), sample.header.size);
		EXPECT_EQ(2, sample.nr);
		EXPECT_EQ(sample.entry[0].value, sample.entry[0].total);
		EXPECT_EQ(0, sample.entry[0].gate_count);
		EXPECT_EQ(20, sample.entry[1].value);
		EXPECT_EQ(10, sample.entry[1].gate_count);
		EXPECT_EQ(50, sample.entry[1].total);
	}
	EXPECT_LT(0, nr);
	close(target);
	close(leader);
}

/* An event that the gate stops counts nothing outside. */
TEST_F(gate_total, events_that_stop_have_none)
{
	self->attr.sample_period = 1;
	EXPECT_EQ(-1, gate_open(&self->attr, 0, -1));
	EXPECT_EQ(EINVAL, errno);
	if (pmu_type("pmusim_aux") < 0)
		SKIP(return, "needs the simulated PMUs");
	self->attr.sample_period = 0;
	self->attr.type = pmu_type("pmusim_aux");
	self->attr.config = 0;
	EXPECT_EQ(-1, gate_open(&self->attr, -1, nth_cpu(0)));
	EXPECT_EQ(EINVAL, errno);
	self->attr.read_format = 0;
	EXPECT_LE(0, gate_open(&self->attr, -1, nth_cpu(0)));
}

TEST_HARNESS_MAIN
