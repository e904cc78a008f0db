// SPDX-License-Identifier: GPL-2.0
/* perf gate selftests - kinds of triggers, and their conditions */
#define _GNU_SOURCE

#include <linux/bpf.h>
#include <linux/hw_breakpoint.h>

#include "../kselftest_harness.h"
#include "gate_helpers.h"

#define NR_INSIDE	16
#define NR_OUTSIDE	64

FIXTURE(gate_trigger)
{
	struct gate_triggers triggers;
	struct gate_pages pages;
	int target;
};

FIXTURE_SETUP(gate_trigger)
{
	if (triggers_open(_metadata, &self->triggers))
		return;
	ASSERT_EQ(0, pages_map(&self->pages, NR_OUTSIDE));
	self->target = gate_open_self(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS);
	ASSERT_LE(0, self->target);
	ASSERT_EQ(0, gate_ioctl(self->target, PERF_EVENT_IOC_RESET, 0));
}

FIXTURE_TEARDOWN(gate_trigger)
{
	limit_sample_time();
	close(self->target);
	munmap(self->pages.mem, self->pages.size);
	triggers_close(&self->triggers);
}

static __u64 gate_openings(int target)
{
	return gate_read(target).gate_count;
}

/* Open a sampling event of the tracepoint that opens windows. */
static int open_sampling_starter(__u64 period)
{
	struct perf_event_attr attr = gate_attr(PERF_TYPE_TRACEPOINT, 0);

	attr.config = tracepoint_id("syscalls/sys_enter_getuid");
	attr.sample_period = period;
	return gate_open(&attr, 0, -1);
}

TEST_F(gate_trigger, sampling_trigger_fires_at_each_overflow)
{
	int starter = open_sampling_starter(3);
	int i;

	ASSERT_LE(0, starter);
	ASSERT_EQ(0, set_starter(starter, self->target));
	ASSERT_EQ(0, set_stopper(self->triggers.stopper, self->target));
	for (i = 0; i < 30; i++) {
		window_open();
		window_close();
	}
	EXPECT_EQ(10, gate_openings(self->target));
}

TEST_F(gate_trigger, refreshed_trigger_opens_the_first_windows)
{
	struct perf_event_attr attr = gate_attr(PERF_TYPE_TRACEPOINT, 0);
	int starter, i;

	attr.config = tracepoint_id("syscalls/sys_enter_getuid");
	attr.sample_period = 1;
	attr.disabled = 1;
	starter = gate_open(&attr, 0, -1);
	ASSERT_LE(0, starter);
	ASSERT_EQ(0, set_starter(starter, self->target));
	ASSERT_EQ(0, set_stopper(self->triggers.stopper, self->target));
	ASSERT_EQ(0, gate_ioctl(starter, PERF_EVENT_IOC_REFRESH, 3));
	for (i = 0; i < 10; i++) {
		window_open();
		pages_touch(&self->pages, 2);
		window_close();
		/* An event at its limit is off at the latest when its task has slept. */
		if (i == 2)
			sleep_for_certain();
	}
	EXPECT_EQ(3, gate_openings(self->target));
	EXPECT_EQ(6, gate_read_count(self->target));
}

TEST_F(gate_trigger, paused_output_does_not_keep_a_trigger_from_firing)
{
	int starter = open_sampling_starter(1);
	struct gate_ring ring;

	ASSERT_LE(0, starter);
	ASSERT_EQ(0, ring_map(&ring, starter, 1));
	ASSERT_EQ(0, set_starter(starter, self->target));
	ASSERT_EQ(0, gate_ioctl(starter, PERF_EVENT_IOC_PAUSE_OUTPUT, 1));
	window_open();
	EXPECT_EQ(1, gate_openings(self->target));
}

TEST_F(gate_trigger, full_buffer_does_not_keep_a_trigger_from_firing)
{
	int starter = open_sampling_starter(1);
	struct gate_ring ring;
	int i;

	ASSERT_LE(0, starter);
	ASSERT_EQ(0, ring_map(&ring, starter, 1));
	ASSERT_EQ(0, set_starter(starter, self->target));
	ASSERT_EQ(0, set_stopper(self->triggers.stopper, self->target));
	for (i = 0; i < 20000; i++) {
		window_open();
		window_close();
	}
	EXPECT_EQ(20000, gate_openings(self->target));
}

TEST_F(gate_trigger, filtered_occurrence_does_not_fire)
{
	int starter = open_tracepoint("syscalls/sys_enter_getpgid");
	int i;

	if (starter < 0)
		SKIP(return, "no tracepoint syscalls/sys_enter_getpgid");
	ASSERT_EQ(0, set_starter(starter, self->target));
	ASSERT_EQ(0, set_stopper(self->triggers.stopper, self->target));
	ASSERT_EQ(0, ioctl(starter, PERF_EVENT_IOC_SET_FILTER, "pid == 1")) {
		TH_LOG("filter: %s", strerror(errno));
	}
	for (i = 0; i < 40; i++) {
		syscall(__NR_getpgid, i % 4);
		window_close();
	}
	EXPECT_EQ(10, gate_openings(self->target));
}

/* Load a program of two instructions, which always returns @verdict. */
static int load_program(enum bpf_prog_type type, int verdict)
{
	struct bpf_insn insns[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = verdict },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	union bpf_attr attr = {
		.prog_type	= type,
		.insns		= (__u64)(unsigned long)insns,
		.insn_cnt	= 2,
		.license	= (__u64)(unsigned long)"GPL",
	};

	return syscall(__NR_bpf, BPF_PROG_LOAD, &attr, sizeof(attr));
}

FIXTURE(gate_bpf)
{
	struct gate_triggers triggers;
	struct gate_pages pages;
	int target;
};

FIXTURE_VARIANT(gate_bpf)
{
	int verdict;
};

FIXTURE_VARIANT_ADD(gate_bpf, drop) {
	.verdict = 0,
};

FIXTURE_VARIANT_ADD(gate_bpf, keep) {
	.verdict = 1,
};

FIXTURE_SETUP(gate_bpf)
{
	if (triggers_open(_metadata, &self->triggers))
		return;
	ASSERT_EQ(0, pages_map(&self->pages, 1));
	self->target = gate_open_self(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS);
	ASSERT_LE(0, self->target);
}

FIXTURE_TEARDOWN(gate_bpf)
{
	close(self->target);
	munmap(self->pages.mem, self->pages.size);
	triggers_close(&self->triggers);
}

TEST_F(gate_bpf, program_decides_whether_an_overflow_fires)
{
	struct perf_event_attr attr = gate_attr(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS);
	int program = load_program(BPF_PROG_TYPE_PERF_EVENT, variant->verdict);
	int starter, i;

	if (program < 0)
		SKIP(return, "no BPF program for perf events: %s", strerror(errno));
	attr.sample_period = 1;
	starter = gate_open(&attr, 0, -1);
	ASSERT_LE(0, starter);
	ASSERT_EQ(0, gate_ioctl(starter, PERF_EVENT_IOC_SET_BPF, program));
	ASSERT_EQ(0, set_starter(starter, self->target));
	ASSERT_EQ(0, set_stopper(self->triggers.stopper, self->target));
	for (i = 0; i < 10; i++) {
		pages_touch(&self->pages, 1);
		window_close();
	}
	EXPECT_EQ(variant->verdict ? 10 : 0, gate_openings(self->target));
}

/* The program is attached to the tracepoint, so it runs before all events. */
TEST_F(gate_bpf, program_decides_whether_a_tracepoint_fires)
{
	int program = load_program(BPF_PROG_TYPE_TRACEPOINT, variant->verdict);
	int i;

	if (program < 0)
		SKIP(return, "no BPF program for tracepoints: %s", strerror(errno));
	ASSERT_EQ(0, gate_ioctl(self->triggers.starter, PERF_EVENT_IOC_SET_BPF, program));
	ASSERT_EQ(0, set_both(&self->triggers, self->target));
	for (i = 0; i < 10; i++) {
		window_open();
		window_close();
	}
	EXPECT_EQ(variant->verdict ? 10 : 0, gate_openings(self->target));
}

static int open_uprobe(void (*function)(int), bool on_return)
{
	return open_probe("uprobe", on_return, (unsigned long)"/proc/self/exe",
			  file_offset((unsigned long)function));
}

/*
 * Call the function by a pointer that the compiler must load each time: a direct call
 * may skip the entry with the probe.
 */
static void recurse(int depth);
static void (*probed)(int) = recurse;

static void recurse(int depth)
{
	call_getppid(1);
	if (depth > 1)
		__atomic_load_n(&probed, __ATOMIC_RELAXED)(depth - 1);
	call_getppid(1);
}

static void call_probed(int depth)
{
	__atomic_load_n(&probed, __ATOMIC_RELAXED)(depth);
}

FIXTURE(gate_uprobe)
{
	struct gate_triggers triggers;
	struct gate_triggers probes;
	struct perf_event_attr attr;
};

FIXTURE_SETUP(gate_uprobe)
{
	if (triggers_open(_metadata, &self->triggers))
		return;
	if (pmu_type("uprobe") < 0)
		SKIP(return, "no uprobe PMU");
	self->probes.starter = open_uprobe(recurse, false);
	ASSERT_LE(0, self->probes.starter);
	self->probes.stopper = open_uprobe(recurse, true);
	ASSERT_LE(0, self->probes.stopper);
	self->attr = gate_attr(PERF_TYPE_TRACEPOINT, tracepoint_id("syscalls/sys_enter_getppid"));
}

FIXTURE_TEARDOWN(gate_uprobe)
{
	triggers_close(&self->probes);
	triggers_close(&self->triggers);
}

TEST_F(gate_uprobe, function_is_the_window)
{
	int target = gate_open_target(_metadata, &self->probes, &self->attr);
	int i;

	for (i = 0; i < 20; i++) {
		call_probed(1);
		call_getppid(NR_OUTSIDE);
	}
	EXPECT_EQ(40, gate_read_count(target));
	EXPECT_EQ(20, gate_openings(target));
}

TEST_F(gate_uprobe, recursion_ends_the_window_at_the_first_return)
{
	int target = gate_open_target(_metadata, &self->probes, &self->attr);

	call_probed(5);
	EXPECT_EQ(6, gate_read_count(target));
	EXPECT_EQ(1, gate_openings(target));
}

TEST_F(gate_uprobe, nested_recursion_is_one_window)
{
	int target, i;

	gate_attr_set_bit(&self->attr, GATE_BIT_NEST);
	target = gate_open_target(_metadata, &self->probes, &self->attr);
	for (i = 0; i < 20; i++) {
		call_probed(5);
		call_getppid(NR_OUTSIDE);
	}
	EXPECT_EQ(200, gate_read_count(target));
	EXPECT_EQ(20, gate_openings(target));
}

/* A read of /dev/zero makes the kernel fault in the pages. */
static void read_zeroes(const struct gate_pages *pages, int zero, unsigned int nr)
{
	madvise(pages->mem, pages->size, MADV_DONTNEED);
	if (read(zero, pages->mem, nr * pages->page_size) < 0)
		perror("/dev/zero");
}

TEST_F(gate_trigger, kernel_function_is_the_window)
{
	int zero = open("/dev/zero", O_RDONLY);
	struct gate_triggers probes;
	int i;

	ASSERT_LE(0, zero);
	probes.starter = open_probe("kprobe", false, (unsigned long)"vfs_read", 0);
	if (probes.starter < 0)
		SKIP(return, "no kprobe on vfs_read: %s", strerror(errno));
	probes.stopper = open_probe("kprobe", true, (unsigned long)"vfs_read", 0);
	ASSERT_LE(0, probes.stopper);
	ASSERT_EQ(0, set_both(&probes, self->target));
	for (i = 0; i < 20; i++) {
		read_zeroes(&self->pages, zero, NR_INSIDE);
		pages_touch(&self->pages, NR_OUTSIDE);
	}
	/* Close the probes, so that the reads below are not windows. */
	triggers_close(&probes);
	EXPECT_EQ(20, gate_openings(self->target));
	EXPECT_EQ(20 * NR_INSIDE, gate_read_count(self->target));
}

static int watch(__u64 *variable)
{
	struct perf_event_attr attr = gate_attr(PERF_TYPE_BREAKPOINT, 0);

	attr.bp_type = HW_BREAKPOINT_RW;
	attr.bp_addr = (unsigned long)variable;
	attr.bp_len = HW_BREAKPOINT_LEN_8;
	attr.exclude_kernel = 1;
	attr.exclude_hv = 1;
	return gate_open(&attr, 0, -1);
}

TEST_F(gate_trigger, access_to_a_variable_opens_the_window)
{
	static __u64 watched;
	int starter, i;

	starter = watch(&watched);
	if (starter < 0)
		SKIP(return, "no data breakpoint: %s", strerror(errno));
	ASSERT_EQ(0, set_starter(starter, self->target));
	ASSERT_EQ(0, set_stopper(self->triggers.stopper, self->target));
	for (i = 0; i < 20; i++) {
		pages_touch(&self->pages, NR_OUTSIDE);
		__atomic_store_n(&watched, i, __ATOMIC_RELAXED);
		pages_touch(&self->pages, NR_INSIDE);
		window_close();
	}
	EXPECT_EQ(20, gate_openings(self->target));
	EXPECT_EQ(20 * NR_INSIDE, gate_read_count(self->target));
}

/* Releases of QEMU repeat watchpoints. The emulator that has a PMU does not. */
static bool emulator_repeats_watchpoints(void)
{
#ifdef __x86_64__
	return getenv("QEMU_VERSION") && !getenv("QEMU_PMU");
#else
	return false;
#endif
}

TEST_F(gate_trigger, accesses_to_two_variables_bound_the_window)
{
	struct gate_triggers accesses;
	static __u64 watched[2];
	int i;

	if (emulator_repeats_watchpoints())
		SKIP(return, "QEMU %s reports a watchpoint again when another one is hit",
		     getenv("QEMU_VERSION"));
	accesses.starter = watch(&watched[0]);
	accesses.stopper = watch(&watched[1]);
	if (accesses.starter < 0 || accesses.stopper < 0)
		SKIP(return, "no two data breakpoints: %s", strerror(errno));
	ASSERT_EQ(0, set_both(&accesses, self->target));
	for (i = 0; i < 20; i++) {
		pages_touch(&self->pages, NR_OUTSIDE);
		__atomic_store_n(&watched[0], i, __ATOMIC_RELAXED);
		pages_touch(&self->pages, NR_INSIDE);
		__atomic_store_n(&watched[1], i, __ATOMIC_RELAXED);
	}
	EXPECT_EQ(20, gate_read_count(accesses.starter));
	EXPECT_EQ(20, gate_read_count(accesses.stopper));
	EXPECT_EQ(20, gate_openings(self->target));
	EXPECT_EQ(20 * NR_INSIDE, gate_read_count(self->target));
	triggers_close(&accesses);
}

/* Spin until the ring has a record, but not for ever. */
static bool wait_for_record(const struct gate_ring *ring, __u64 head)
{
	__u64 end = clock_ns(CLOCK_MONOTONIC) + 5 * NSEC_PER_SEC;

	while (ring_head(ring) == head) {
		if (clock_ns(CLOCK_MONOTONIC) > end)
			return false;
	}
	return true;
}

/*
 * The starter is off except during the wait: it must not overflow by chance while pages
 * are touched outside.
 */
TEST_F(gate_trigger, hardware_overflow_opens_the_window)
{
	struct perf_event_attr attr = gate_attr(PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS);
	struct gate_ring ring;
	int starter, i;
	__u64 head;

	attr.sample_period = 1000000;
	attr.disabled = 1;
	starter = gate_open(&attr, 0, -1);
	if (starter < 0)
		SKIP(return, "no hardware event that samples: %s", strerror(errno));
	if (pmu_without_interrupts())
		SKIP(return, "%s", pmu_without_interrupts());
	ASSERT_EQ(0, ring_map(&ring, starter, 8));
	ASSERT_EQ(0, set_starter(starter, self->target));
	ASSERT_EQ(0, set_stopper(self->triggers.stopper, self->target));
	/* A throttled trigger opens nothing. */
	keep_sample_rate();
	for (i = 0; i < 10; i++) {
		pages_touch(&self->pages, NR_OUTSIDE);
		head = ring_head(&ring);
		ASSERT_EQ(0, gate_ioctl(starter, PERF_EVENT_IOC_ENABLE, 0));
		ASSERT_TRUE(wait_for_record(&ring, head));
		ASSERT_EQ(0, gate_ioctl(starter, PERF_EVENT_IOC_DISABLE, 0));
		pages_touch(&self->pages, NR_INSIDE);
		window_close();
	}
	EXPECT_EQ(10, gate_openings(self->target));
	EXPECT_EQ(10 * NR_INSIDE, gate_read_count(self->target));
}

/*
 * The timer of the trigger opens the gate of a clock with a timer of its own: stopping
 * or starting the latter here would wait for a lock that this CPU holds.
 */
TEST_F_TIMEOUT(gate_trigger, clock_gates_clocks_without_waiting_for_itself, 60)
{
	struct perf_event_attr attr = gate_attr(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK);
	const __u64 end = clock_ns(CLOCK_MONOTONIC) + 20 * NSEC_PER_SEC;
	int starter, counting, sampling, i;
	struct gate_value value;

	keep_sample_rate();
	counting = gate_open(&attr, 0, -1);
	ASSERT_LE(0, counting);
	attr.freq = 1;
	attr.sample_freq = 1000;
	attr.disabled = 1;
	starter = gate_open(&attr, 0, -1);
	ASSERT_LE(0, starter);
	attr.disabled = 0;
	sampling = gate_open(&attr, 0, -1);
	ASSERT_LE(0, sampling);
	ASSERT_EQ(0, set_starter(starter, counting));
	ASSERT_EQ(0, set_stopper(self->triggers.stopper, counting));
	ASSERT_EQ(0, set_starter(starter, sampling));
	ASSERT_EQ(0, set_stopper(self->triggers.stopper, sampling));
	/* Both gates are closed now, so each firing opens both or none. */
	ASSERT_EQ(0, gate_ioctl(starter, PERF_EVENT_IOC_ENABLE, 0));
	/* Wait until the end for a timer that is late. */
	for (i = 0; i < 500 || (gate_openings(counting) < 250 &&
				clock_ns(CLOCK_MONOTONIC) < end); i++) {
		spin_ns(4 * NSEC_PER_MSEC);
		window_close();
	}
	ASSERT_EQ(0, gate_ioctl(starter, PERF_EVENT_IOC_DISABLE, 0));
	value = gate_read_whole(counting);
	EXPECT_LE(250, value.gate_count);
	EXPECT_LE(value.gate_time, value.running);
	EXPECT_LT(0, value.value);
	EXPECT_EQ(value.gate_count, gate_openings(sampling));
}

/*
 * Fork a task of the given name that stops itself, so that the CPU switches to it by
 * that name before it makes the first of its calls.
 */
static pid_t fork_caller(const char *name, int cpu, unsigned int calls)
{
	pid_t child = fork();

	if (!child) {
		prctl(PR_SET_NAME, name);
		if (pin_to_cpu(cpu))
			_exit(1);
		raise(SIGSTOP);
		while (calls--) {
			call_getppid(1);
			sched_yield();
		}
		_exit(0);
	}
	waitpid(child, NULL, WUNTRACED);
	return child;
}

TEST_F(gate_trigger, filtered_task_switches_select_one_task_of_a_cpu)
{
	struct perf_event_attr attr = gate_attr(PERF_TYPE_TRACEPOINT, 0);
	long sched_switch = tracepoint_id("sched/sched_switch");
	int starter, stopper, target, cpu = nth_cpu(0);
	pid_t inside, outside;

	if (sched_switch < 0)
		SKIP(return, "no tracepoint sched/sched_switch");
	attr.config = sched_switch;
	starter = gate_open(&attr, -1, cpu);
	ASSERT_LE(0, starter);
	stopper = gate_open(&attr, -1, cpu);
	ASSERT_LE(0, stopper);
	attr.config = tracepoint_id("syscalls/sys_enter_getppid");
	target = gate_open(&attr, -1, cpu);
	ASSERT_LE(0, target);
	ASSERT_EQ(0, ioctl(starter, PERF_EVENT_IOC_SET_FILTER, "next_comm == \"gate_in\""));
	ASSERT_EQ(0, ioctl(stopper, PERF_EVENT_IOC_SET_FILTER, "prev_comm == \"gate_in\""));
	ASSERT_EQ(0, set_starter(starter, target));
	ASSERT_EQ(0, set_stopper(stopper, target));

	inside = fork_caller("gate_in", cpu, 500);
	ASSERT_LE(0, inside);
	outside = fork_caller("gate_out", cpu, 2000);
	ASSERT_LE(0, outside);
	kill(inside, SIGCONT);
	kill(outside, SIGCONT);
	ASSERT_EQ(inside, waitpid(inside, NULL, 0));
	ASSERT_EQ(outside, waitpid(outside, NULL, 0));
	EXPECT_EQ(500, gate_read_count(target));
}

/*
 * A wakeup is an event of the woken task, and happens on the waker's CPU. It must not
 * touch the events of a task that runs on another CPU.
 */
TEST_F(gate_trigger, wakeup_from_another_cpu_does_no_harm)
{
	struct perf_event_attr attr = gate_attr(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS);
	long wakeup = tracepoint_id("sched/sched_wakeup");
	int starter, stopper, target, pipe_fds[2], i;
	struct gate_value value;
	pid_t child;
	char byte;

	if (wakeup < 0)
		SKIP(return, "no tracepoint sched/sched_wakeup");
	if (nth_cpu(1) < 0)
		SKIP(return, "needs two CPUs");
	ASSERT_EQ(0, pipe(pipe_fds));
	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		pin_to_cpu(nth_cpu(1));
		close(pipe_fds[1]);
		while (read(pipe_fds[0], &byte, 1) == 1) {
			pages_touch(&self->pages, 2);
			window_close();
			pages_touch(&self->pages, 2);
		}
		_exit(0);
	}
	target = gate_open(&attr, child, -1);
	ASSERT_LE(0, target);
	attr.type = PERF_TYPE_TRACEPOINT;
	attr.config = wakeup;
	starter = gate_open(&attr, child, -1);
	ASSERT_LE(0, starter);
	attr.config = tracepoint_id("syscalls/sys_enter_geteuid");
	stopper = gate_open(&attr, child, -1);
	ASSERT_LE(0, stopper);
	ASSERT_EQ(0, set_starter(starter, target));
	ASSERT_EQ(0, set_stopper(stopper, target));
	gate_ioctl(target, PERF_EVENT_IOC_RESET, 0);
	pin_to_cpu(nth_cpu(0));
	for (i = 0; i < 5000; i++)
		ASSERT_EQ(1, write(pipe_fds[1], "", 1));
	close(pipe_fds[1]);
	ASSERT_EQ(child, waitpid(child, NULL, 0));
	value = gate_read(target);
	EXPECT_GE(4 * 5000, value.value);
	EXPECT_GE(5000, value.gate_count);
	EXPECT_LE(value.gate_time, value.running);
	EXPECT_LE(value.running, value.enabled);
}

TEST_HARNESS_MAIN
