// SPDX-License-Identifier: GPL-2.0
/*
 * perf gate selftests - a gated count is the sum over the windows, exactly
 */
#define _GNU_SOURCE

#include <linux/bpf.h>

#include "../kselftest_harness.h"
#include "gate_helpers.h"

#define NR_WINDOWS	100
#define NR_INSIDE	16
#define NR_OUTSIDE	64

FIXTURE(gate_count)
{
	struct gate_triggers triggers;
	struct gate_pages pages;
};

FIXTURE_SETUP(gate_count)
{
	if (triggers_open(_metadata, &self->triggers))
		return;
	ASSERT_EQ(0, pages_map(&self->pages, NR_OUTSIDE));
}

FIXTURE_TEARDOWN(gate_count)
{
	munmap(self->pages.mem, self->pages.size);
	triggers_close(&self->triggers);
}

/* Take the same number of page faults and getppid(2) calls. */
static void run_windows(const struct gate_pages *pages, unsigned int times)
{
	while (times--) {
		pages_touch(pages, NR_OUTSIDE);
		call_getppid(NR_OUTSIDE);
		window_open();
		pages_touch(pages, NR_INSIDE);
		call_getppid(NR_INSIDE);
		window_close();
	}
	pages_touch(pages, NR_OUTSIDE);
	call_getppid(NR_OUTSIDE);
}

TEST_F(gate_count, page_faults_are_counted_in_windows_only)
{
	int target = gate_open_counter(_metadata, &self->triggers, PERF_TYPE_SOFTWARE,
				       PERF_COUNT_SW_PAGE_FAULTS);

	run_windows(&self->pages, NR_WINDOWS);
	EXPECT_EQ(NR_WINDOWS * NR_INSIDE, gate_read_count(target));
}

TEST_F(gate_count, tracepoint_is_counted_in_windows_only)
{
	int target = gate_open_counter(_metadata, &self->triggers, PERF_TYPE_TRACEPOINT,
				       tracepoint_id("syscalls/sys_enter_getppid"));

	run_windows(&self->pages, NR_WINDOWS);
	EXPECT_EQ(NR_WINDOWS * NR_INSIDE, gate_read_count(target));
}

/* Use events of the CPU, not of a task. */
TEST_F(gate_count, cpu_wide_event_is_counted_in_windows_only)
{
	struct perf_event_attr attr = gate_attr(PERF_TYPE_TRACEPOINT, 0);
	struct gate_triggers triggers;
	int cpu = nth_cpu(0);
	int target;

	ASSERT_EQ(0, pin_to_cpu(cpu));
	attr.config = tracepoint_id("syscalls/sys_enter_getuid");
	triggers.starter = gate_open(&attr, -1, cpu);
	ASSERT_LE(0, triggers.starter);
	attr.config = tracepoint_id("syscalls/sys_enter_geteuid");
	triggers.stopper = gate_open(&attr, -1, cpu);
	ASSERT_LE(0, triggers.stopper);
	attr.config = tracepoint_id("syscalls/sys_enter_getppid");
	target = gate_open(&attr, -1, cpu);
	ASSERT_LE(0, target);
	ASSERT_EQ(0, set_both(&triggers, target));
	run_windows(&self->pages, NR_WINDOWS);
	EXPECT_EQ(NR_WINDOWS * NR_INSIDE, gate_read_count(target));
}

TEST_F(gate_count, window_without_events_counts_nothing)
{
	int target = gate_open_counter(_metadata, &self->triggers, PERF_TYPE_SOFTWARE,
				       PERF_COUNT_SW_PAGE_FAULTS);
	int i;

	for (i = 0; i < NR_WINDOWS; i++) {
		pages_touch(&self->pages, NR_INSIDE);
		window_open();
		window_close();
	}
	EXPECT_EQ(0, gate_read_count(target));
	EXPECT_EQ(NR_WINDOWS, gate_read(target).gate_count);
}

TEST_F(gate_count, gate_count_is_the_number_of_windows)
{
	int target = gate_open_counter(_metadata, &self->triggers, PERF_TYPE_SOFTWARE,
				       PERF_COUNT_SW_PAGE_FAULTS);

	run_windows(&self->pages, NR_WINDOWS);
	EXPECT_EQ(NR_WINDOWS, gate_read(target).gate_count);
}

TEST_F(gate_count, redundant_starts_and_stops_are_not_counted)
{
	int target = gate_open_counter(_metadata, &self->triggers, PERF_TYPE_SOFTWARE,
				       PERF_COUNT_SW_PAGE_FAULTS);
	int i;

	for (i = 0; i < NR_WINDOWS; i++) {
		window_open();
		window_open();
		pages_touch(&self->pages, 1);
		window_open();
		window_close();
		window_close();
		pages_touch(&self->pages, 1);
	}
	EXPECT_EQ(NR_WINDOWS, gate_read(target).gate_count);
	EXPECT_EQ(NR_WINDOWS, gate_read_count(target));
}

TEST_F(gate_count, open_window_is_counted_before_it_ends)
{
	int target = gate_open_counter(_metadata, &self->triggers, PERF_TYPE_SOFTWARE,
				       PERF_COUNT_SW_PAGE_FAULTS);

	run_windows(&self->pages, 1);
	window_open();
	pages_touch(&self->pages, 3);
	EXPECT_EQ(NR_INSIDE + 3, gate_read_count(target));
	EXPECT_EQ(2, gate_read(target).gate_count);
}

static int bpf(enum bpf_cmd cmd, union bpf_attr *attr)
{
	return syscall(__NR_bpf, cmd, attr, sizeof(*attr));
}

static int bpf_map(enum bpf_map_type type, unsigned int value_size)
{
	union bpf_attr attr = {
		.map_type	= type,
		.key_size	= 4,
		.value_size	= value_size,
		.max_entries	= 1,
	};

	return bpf(BPF_MAP_CREATE, &attr);
}

/* map_result[0] = bpf_perf_event_read(map_event, 0) */
static int bpf_reader(int map_event, int map_result)
{
	struct bpf_insn insns[] = {
		{ .code = BPF_LD | BPF_DW | BPF_IMM, .dst_reg = BPF_REG_1,
		  .src_reg = BPF_PSEUDO_MAP_FD, .imm = map_event }, { },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_2 },
		{ .code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_perf_event_read },
		{ .code = BPF_STX | BPF_MEM | BPF_DW, .dst_reg = BPF_REG_10,
		  .src_reg = BPF_REG_0, .off = -8 },
		{ .code = BPF_ST | BPF_MEM | BPF_W, .dst_reg = BPF_REG_10, .off = -16 },
		{ .code = BPF_LD | BPF_DW | BPF_IMM, .dst_reg = BPF_REG_1,
		  .src_reg = BPF_PSEUDO_MAP_FD, .imm = map_result }, { },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_X, .dst_reg = BPF_REG_2,
		  .src_reg = BPF_REG_10 },
		{ .code = BPF_ALU64 | BPF_ADD | BPF_K, .dst_reg = BPF_REG_2, .imm = -16 },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_X, .dst_reg = BPF_REG_3,
		  .src_reg = BPF_REG_10 },
		{ .code = BPF_ALU64 | BPF_ADD | BPF_K, .dst_reg = BPF_REG_3, .imm = -8 },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_4 },
		{ .code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_map_update_elem },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	union bpf_attr attr = {
		.prog_type	= BPF_PROG_TYPE_TRACEPOINT,
		.insns		= (__u64)(unsigned long)insns,
		.insn_cnt	= sizeof(insns) / sizeof(*insns),
		.license	= (__u64)(unsigned long)"GPL",
	};

	return bpf(BPF_PROG_LOAD, &attr);
}

static __u64 bpf_result(int map)
{
	__u32 key = 0;
	__u64 value = -1ULL;
	union bpf_attr attr = {
		.map_fd	= map,
		.key	= (__u64)(unsigned long)&key,
		.value	= (__u64)(unsigned long)&value,
	};

	return bpf(BPF_MAP_LOOKUP_ELEM, &attr) ? -1ULL : value;
}

/* The BPF program reads the event at each getpgid(2), without a system call or an interrupt. */
TEST_F(gate_count, program_reads_what_is_inside)
{
	int events, result, program, probe, target;
	union bpf_attr attr = { };
	__u32 key = 0;

	events = bpf_map(BPF_MAP_TYPE_PERF_EVENT_ARRAY, 4);
	result = bpf_map(BPF_MAP_TYPE_ARRAY, 8);
	program = bpf_reader(events, result);
	if (program < 0)
		SKIP(return, "no BPF program that reads events: %s", strerror(errno));
	target = gate_open_counter(_metadata, &self->triggers, PERF_TYPE_TRACEPOINT,
				   tracepoint_id("syscalls/sys_enter_getppid"));
	attr.map_fd = events;
	attr.key = (__u64)(unsigned long)&key;
	attr.value = (__u64)(unsigned long)&target;
	ASSERT_EQ(0, bpf(BPF_MAP_UPDATE_ELEM, &attr));
	probe = gate_open_self(PERF_TYPE_TRACEPOINT, tracepoint_id("syscalls/sys_enter_getpgid"));
	ASSERT_LE(0, probe);
	ASSERT_EQ(0, gate_ioctl(probe, PERF_EVENT_IOC_SET_BPF, program));

	call_getppid(NR_OUTSIDE);
	getpgid(0);
	EXPECT_EQ(0, bpf_result(result));
	run_windows(&self->pages, NR_WINDOWS);
	getpgid(0);
	EXPECT_EQ(NR_WINDOWS * NR_INSIDE, bpf_result(result));
	window_open();
	call_getppid(3);
	getpgid(0);
	EXPECT_EQ(NR_WINDOWS * NR_INSIDE + 3, bpf_result(result));
	window_close();
	call_getppid(NR_OUTSIDE);
	getpgid(0);
	EXPECT_EQ(NR_WINDOWS * NR_INSIDE + 3, bpf_result(result));
	EXPECT_EQ(NR_WINDOWS * NR_INSIDE + 3, gate_read_count(target));
}

TEST_F(gate_count, stopper_alone_counts_until_the_first_stop)
{
	int target = gate_open_self(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS);
	__u64 before;

	ASSERT_LE(0, target);
	ASSERT_EQ(0, set_stopper(self->triggers.stopper, target));
	before = gate_read_count(target);
	pages_touch(&self->pages, NR_INSIDE);
	window_close();
	run_windows(&self->pages, 3);
	EXPECT_EQ(before + NR_INSIDE, gate_read_count(target));
}

TEST_F(gate_count, start_paused_without_links_never_counts)
{
	struct perf_event_attr attr = gate_attr(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS);
	struct gate_value first, last;
	int target;

	gate_attr_set_bit(&attr, GATE_BIT_START_PAUSED);
	target = gate_open(&attr, 0, -1);
	ASSERT_LE(0, target);
	first = gate_read(target);
	run_windows(&self->pages, 3);
	spin_ns(NSEC_PER_MSEC);
	last = gate_read(target);
	EXPECT_EQ(0, last.value);
	EXPECT_EQ(0, last.gate_time);
	EXPECT_EQ(0, last.gate_count);
	EXPECT_LT(first.enabled, last.enabled);
}

TEST_F(gate_count, start_paused_counts_from_the_first_start)
{
	struct perf_event_attr attr = gate_attr(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS);
	int target;

	gate_attr_set_bit(&attr, GATE_BIT_START_PAUSED);
	target = gate_open(&attr, 0, -1);
	ASSERT_LE(0, target);
	pages_touch(&self->pages, NR_OUTSIDE);
	ASSERT_EQ(0, set_both(&self->triggers, target));
	run_windows(&self->pages, NR_WINDOWS);
	EXPECT_EQ(NR_WINDOWS * NR_INSIDE, gate_read_count(target));
}

TEST_F(gate_count, reset_in_a_window_drops_what_came_before)
{
	int target = gate_open_counter(_metadata, &self->triggers, PERF_TYPE_SOFTWARE,
				       PERF_COUNT_SW_PAGE_FAULTS);

	run_windows(&self->pages, 2);
	window_open();
	pages_touch(&self->pages, 5);
	ASSERT_EQ(0, gate_ioctl(target, PERF_EVENT_IOC_RESET, 0));
	pages_touch(&self->pages, 7);
	window_close();
	pages_touch(&self->pages, NR_OUTSIDE);
	EXPECT_EQ(7, gate_read_count(target));
	run_windows(&self->pages, 1);
	EXPECT_EQ(7 + NR_INSIDE, gate_read_count(target));
}

TEST_F(gate_count, reset_between_windows_starts_from_zero)
{
	int target = gate_open_counter(_metadata, &self->triggers, PERF_TYPE_SOFTWARE,
				       PERF_COUNT_SW_PAGE_FAULTS);

	run_windows(&self->pages, 2);
	ASSERT_EQ(0, gate_ioctl(target, PERF_EVENT_IOC_RESET, 0));
	pages_touch(&self->pages, NR_OUTSIDE);
	EXPECT_EQ(0, gate_read_count(target));
	run_windows(&self->pages, 1);
	EXPECT_EQ(NR_INSIDE, gate_read_count(target));
}

TEST_F(gate_count, reset_keeps_times_and_openings)
{
	int target = gate_open_counter(_metadata, &self->triggers, PERF_TYPE_SOFTWARE,
				       PERF_COUNT_SW_PAGE_FAULTS);
	struct gate_value before, after;

	run_windows(&self->pages, 4);
	before = gate_read(target);
	ASSERT_EQ(0, gate_ioctl(target, PERF_EVENT_IOC_RESET, 0));
	after = gate_read(target);
	EXPECT_EQ(before.gate_time, after.gate_time);
	EXPECT_EQ(4, after.gate_count);
	EXPECT_LE(before.enabled, after.enabled);
}

/* The leader has no gate: it counts everything, also what the siblings must leave out. */
TEST_F(gate_count, siblings_of_a_group_count_the_same_windows)
{
	struct perf_event_attr attr = gate_attr(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS);
	struct gate_group group;
	int fds[4];
	int i;

	attr.read_format |= PERF_FORMAT_GROUP;
	attr.disabled = 1;
	fds[0] = gate_open(&attr, 0, -1);
	ASSERT_LE(0, fds[0]);
	attr.disabled = 0;
	fds[1] = gate_open_group(&attr, 0, -1, fds[0]);
	attr.config = PERF_COUNT_SW_PAGE_FAULTS_MIN;
	fds[2] = gate_open_group(&attr, 0, -1, fds[0]);
	attr.type = PERF_TYPE_TRACEPOINT;
	attr.config = tracepoint_id("syscalls/sys_enter_getppid");
	fds[3] = gate_open_group(&attr, 0, -1, fds[0]);
	for (i = 1; i < 4; i++) {
		ASSERT_LE(0, fds[i]);
		ASSERT_EQ(0, set_both(&self->triggers, fds[i]));
	}
	ASSERT_EQ(0, gate_ioctl(fds[0], PERF_EVENT_IOC_ENABLE, 0));

	run_windows(&self->pages, NR_WINDOWS);
	ASSERT_EQ(sizeof(group), read(fds[0], &group, sizeof(group)));
	EXPECT_EQ(4, group.nr);
	EXPECT_EQ(NR_WINDOWS * NR_INSIDE + (NR_WINDOWS + 1) * NR_OUTSIDE, group.entry[0].value);
	for (i = 1; i < 4; i++) {
		EXPECT_EQ(NR_WINDOWS * NR_INSIDE, group.entry[i].value) {
			TH_LOG("sibling %d", i);
		}
		EXPECT_EQ(NR_WINDOWS, group.entry[i].gate_count);
		EXPECT_LE(group.entry[i].gate_time, group.running);
	}
}

/*
 * The events count instructions; some PMUs cannot stop them without removing them.
 * The event that is read around the windows has no gate. Its reads bracket what the
 * gated event may have seen, interrupts in the window included. The slack of 1 % is
 * for emulated counters that advance in blocks of code; what runs outside is ten
 * times what runs inside.
 */
static void spin_loops(unsigned long loops)
{
	unsigned long i;

	for (i = 0; i < loops; i++)
		asm volatile("" : : : "memory");
}

TEST_F(gate_count, instructions_are_counted_in_windows_only)
{
	struct perf_event_attr attr = gate_attr(PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS);
	__u64 inner = 0, outer = 0, gated;
	int target, whole, i;

	target = gate_open(&attr, 0, -1);
	if (target < 0)
		SKIP(return, "no hardware event: %s", strerror(errno));
	attr.read_format = 0;
	whole = gate_open(&attr, 0, -1);
	ASSERT_LE(0, whole);
	ASSERT_EQ(0, set_both(&self->triggers, target));
	gate_ioctl(target, PERF_EVENT_IOC_RESET, 0);
	for (i = 0; i < 10; i++) {
		spin_loops(5000000);
		outer -= raw_count(whole);
		window_open();
		inner -= raw_count(whole);
		spin_loops(1000000);
		inner += raw_count(whole);
		window_close();
		outer += raw_count(whole);
		spin_loops(5000000);
	}
	gated = gate_read_count(target);
	EXPECT_LE(inner - inner / 100, gated);
	EXPECT_GE(outer + outer / 100, gated);
}

/* Compare the count of a clock with the time that the gate reports. */
FIXTURE(gate_clock)
{
	struct gate_triggers triggers;
	int target;
	int whole;
};

FIXTURE_VARIANT(gate_clock)
{
	__u64 clock;
};

FIXTURE_VARIANT_ADD(gate_clock, cpu_clock) {
	.clock = PERF_COUNT_SW_CPU_CLOCK,
};

FIXTURE_VARIANT_ADD(gate_clock, task_clock) {
	.clock = PERF_COUNT_SW_TASK_CLOCK,
};

FIXTURE_SETUP(gate_clock)
{
	struct perf_event_attr attr = gate_attr(PERF_TYPE_SOFTWARE, variant->clock);

	if (triggers_open(_metadata, &self->triggers))
		return;
	self->target = gate_open_counter(_metadata, &self->triggers, PERF_TYPE_SOFTWARE,
					 variant->clock);
	attr.config = PERF_COUNT_SW_TASK_CLOCK;
	attr.read_format = 0;
	self->whole = gate_open(&attr, 0, -1);
	ASSERT_LE(0, self->whole);
}

FIXTURE_TEARDOWN(gate_clock)
{
	close(self->whole);
	close(self->target);
	triggers_close(&self->triggers);
}

/*
 * Each window is measured twice, without and with the two calls that bound it, by an
 * event in the context of the target, whose clock stops and starts together with the
 * times of all events there.
 */
struct measured {
	__u64 inner;
	__u64 outer;
	__u64 wall;
	struct gate_value gated;
	bool switched;
};

static struct measured measure_window(int target, int whole)
{
	struct gate_value before = gate_read(target);
	struct measured window = { .switched = true };
	long begin;

	spin_ns(4 * NSEC_PER_MSEC);
	begin = task_switches();
	window.wall -= clock_ns(CLOCK_MONOTONIC);
	window.outer -= raw_count(whole);
	window_open();
	window.inner -= raw_count(whole);
	spin_ns(2 * NSEC_PER_MSEC);
	window.inner += raw_count(whole);
	window_close();
	window.outer += raw_count(whole);
	window.wall += clock_ns(CLOCK_MONOTONIC);
	window.switched = task_switches() != begin;
	usleep(1000);
	window.gated = gate_read(target);
	window.gated.value -= before.value;
	window.gated.gate_time -= before.gate_time;
	return window;
}

/*
 * The clock of a CPU begins and ends with its event, one event after the other, and a
 * machine may stall between them. For windows in which the task lost the CPU, only
 * check that no event outruns the wall clock.
 */
TEST_F(gate_clock, count_agrees_with_the_measured_open_time)
{
	struct measured window;
	int whole = 0;

	while (whole < NR_WINDOWS) {
		window = measure_window(self->target, self->whole);
		EXPECT_GE(window.wall + window.wall / 1000, window.gated.value);
		if (window.switched)
			continue;
		EXPECT_LE(window.inner, window.gated.value);
		EXPECT_GE(window.outer, window.gated.value);
		whole++;
	}
}

TEST_F(gate_clock, gate_time_agrees_with_the_measured_open_time)
{
	struct measured window;
	int i;

	for (i = 0; i < NR_WINDOWS; i++) {
		window = measure_window(self->target, self->whole);
		EXPECT_LE(window.inner, window.gated.gate_time) {
			TH_LOG("opened %llu times by %llu firings, closed by %llu, running %llu",
			       (unsigned long long)window.gated.gate_count,
			       (unsigned long long)gate_read_count(self->triggers.starter),
			       (unsigned long long)gate_read_count(self->triggers.stopper),
			       (unsigned long long)window.gated.running);
		}
		EXPECT_GE(window.outer, window.gated.gate_time);
	}
}

TEST_F(gate_clock, gate_time_is_part_of_the_running_time)
{
	struct gate_value value;
	int i;

	for (i = 0; i < NR_WINDOWS; i++) {
		window_open();
		value = gate_read_whole(self->target);
		EXPECT_LE(value.gate_time, value.running);
		EXPECT_LE(value.running, value.enabled);
		window_close();
		value = gate_read_whole(self->target);
		EXPECT_LE(value.gate_time, value.running);
		EXPECT_LE(value.running, value.enabled);
	}
}

/*
 * Sleep for one half of the time and be busy for the other: sleep alone would not
 * detect a running clock.
 */
TEST_F(gate_clock, closed_clock_stands_still)
{
	struct gate_value before, after;

	measure_window(self->target, self->whole);
	before = gate_read(self->target);
	usleep(100000);
	spin_ns(100 * NSEC_PER_MSEC);
	after = gate_read(self->target);
	EXPECT_EQ(before.value, after.value);
	EXPECT_EQ(before.gate_time, after.gate_time);
}

/* Open the same event twice in one group, once as programs without gates do. */
FIXTURE(gate_none)
{
	struct gate_triggers triggers;
	struct gate_pages pages;
	int gated;
};

FIXTURE_VARIANT(gate_none)
{
	__u64 config;
	bool time;
};

FIXTURE_VARIANT_ADD(gate_none, cpu_clock) {
	.config = PERF_COUNT_SW_CPU_CLOCK,
	.time = true,
};

FIXTURE_VARIANT_ADD(gate_none, task_clock) {
	.config = PERF_COUNT_SW_TASK_CLOCK,
	.time = true,
};

FIXTURE_VARIANT_ADD(gate_none, page_faults) {
	.config = PERF_COUNT_SW_PAGE_FAULTS,
};

FIXTURE_VARIANT_ADD(gate_none, minor_faults) {
	.config = PERF_COUNT_SW_PAGE_FAULTS_MIN,
};

FIXTURE_VARIANT_ADD(gate_none, context_switches) {
	.config = PERF_COUNT_SW_CONTEXT_SWITCHES,
};

FIXTURE_VARIANT_ADD(gate_none, cpu_migrations) {
	.config = PERF_COUNT_SW_CPU_MIGRATIONS,
};

/* The gate of another event turns the gate code on for the whole kernel. */
FIXTURE_SETUP(gate_none)
{
	if (triggers_open(_metadata, &self->triggers))
		return;
	ASSERT_EQ(0, pages_map(&self->pages, NR_OUTSIDE));
	self->gated = gate_open_counter(_metadata, &self->triggers, PERF_TYPE_SOFTWARE,
					PERF_COUNT_SW_PAGE_FAULTS);
}

FIXTURE_TEARDOWN(gate_none)
{
	close(self->gated);
	munmap(self->pages.mem, self->pages.size);
	triggers_close(&self->triggers);
}

static bool differs(__u64 count, __u64 plain, unsigned int part)
{
	return (count > plain ? count - plain : plain - count) > plain / part;
}

TEST_F(gate_none, event_without_a_gate_counts_as_ever)
{
	struct perf_event_attr attr = gate_attr(PERF_TYPE_SOFTWARE, variant->config);
	int first = nth_cpu(0), second = nth_cpu(1), attempts = 5;
	__u64 plain_count, count;
	int leader, sibling, i;

	if (variant->config == PERF_COUNT_SW_CPU_MIGRATIONS && second < 0)
		SKIP(return, "needs two CPUs");
	attr.disabled = 1;
	attr.read_format = 0;
	leader = gate_open(&attr, 0, -1);
	ASSERT_LE(0, leader);
	attr.disabled = 0;
	attr.read_format = GATE_READ_FORMAT;
	sibling = gate_open_group(&attr, 0, -1, leader);
	ASSERT_LE(0, sibling);

again:
	ASSERT_EQ(0, gate_ioctl(leader, PERF_EVENT_IOC_ENABLE, 0));
	for (i = 0; i < 10; i++) {
		run_windows(&self->pages, 1);
		pin_to_cpu(i & 1 && second >= 0 ? second : first);
		usleep(1000);
	}
	ASSERT_EQ(0, gate_ioctl(leader, PERF_EVENT_IOC_DISABLE, 0));

	plain_count = raw_count(leader);
	count = gate_read_count(sibling);
	EXPECT_LE(9, plain_count);
	if (variant->time) {
		/*
		 * One of two clocks starts and stops later at each switch, and the host
		 * may stop the guest in between, but hardly five times in a row.
		 */
		if (differs(count, plain_count, 20) && --attempts) {
			gate_ioctl(leader, PERF_EVENT_IOC_RESET, 0);
			gate_ioctl(sibling, PERF_EVENT_IOC_RESET, 0);
			goto again;
		}
		EXPECT_FALSE(differs(count, plain_count, 20)) {
			TH_LOG("%llu and %llu ns", plain_count, count);
		}
	} else {
		EXPECT_EQ(plain_count, count);
	}
}

TEST_HARNESS_MAIN
