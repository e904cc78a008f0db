// SPDX-License-Identifier: GPL-2.0
/*
 * perf gate selftests - overflows that a window ends before their interrupt
 *
 * The interrupt of an overflow comes a while after it, on processors hundreds of
 * instructions. Windows of one hundred instructions are over by then, and yet each period
 * that passes in them must give a sample. An emulated PMU says with QEMU_PMU_PMI_DELAY how
 * late its interrupts are.
 */
#define _GNU_SOURCE

#include "../kselftest_harness.h"
#include "gate_helpers.h"
#include "hw_gate_loops.h"

#define RING_PAGES	256
/* An interrupt that is later than this finds the gate closed, if the window is short. */
#define LATE		1000
#define SHORT		100ULL
#define PERIOD		1009ULL

FIXTURE(hw_gate_late)
{
	struct gate_triggers triggers;
	struct perf_event_attr attr;
	struct gate_ring ring;
	int target;
};

static long interrupt_delay(void)
{
	const char *delay = getenv("QEMU_PMU_PMI_DELAY");

	return delay ? atol(delay) : 0;
}

/* Tell whether the PMU leaves the kernel out; emulated PMUs of PowerPC do not. */
static bool kernel_is_excluded(int fd)
{
	__u64 before = gate_read_count(fd);

	call_getppid(1000);
	return gate_read_count(fd) - before < 1000 * 100;
}

FIXTURE_SETUP(hw_gate_late)
{
	int cpu = nth_cpu(0);

	self->target = -1;
	if (triggers_open(_metadata, &self->triggers))
		return;
	if (!LOOP_TURN)
		SKIP(return, "no loop of a known length for this architecture");
	if (pmu_without_interrupts())
		SKIP(return, "%s", pmu_without_interrupts());
	if (pmu_events_run_on())
		SKIP(return, "perf_gate_stop=0, so periods are not those of windows");
	ASSERT_EQ(0, pin_to_cpu(cpu));
	self->attr = gate_attr(PERF_TYPE_HARDWARE,
			       PERF_COUNT_HW_INSTRUCTIONS | core_pmu_of(cpu) << 32);
	self->attr.exclude_kernel = 1;
	self->attr.exclude_hv = 1;
	self->target = gate_open(&self->attr, 0, -1);
	if (self->target < 0)
		SKIP(return, "no hardware event: %s", strerror(errno));
	if (!kernel_is_excluded(self->target))
		SKIP(return, "the PMU counts the kernel although the event excludes it");
	close(self->target);
	self->target = -1;
	self->attr.sample_period = PERIOD;
	self->attr.sample_type = PERF_SAMPLE_IP;
	keep_sample_rate();
}

FIXTURE_TEARDOWN(hw_gate_late)
{
	limit_sample_time();
	close(self->target);
	triggers_close(&self->triggers);
}

static void open_target(struct __test_metadata *const _metadata,
			FIXTURE_DATA(hw_gate_late) * self)
{
	self->target = gate_open(&self->attr, 0, -1);
	ASSERT_LE(0, self->target);
	ASSERT_EQ(0, ring_map(&self->ring, self->target, RING_PAGES));
	ASSERT_EQ(0, set_both(&self->triggers, self->target));
	gate_ioctl(self->target, PERF_EVENT_IOC_RESET, 0);
	ring_drain(&self->ring, PERF_RECORD_SAMPLE);
}

struct late_sample {
	struct perf_event_header header;
	__u64 ip;
};

/* Count the samples of a buffer, and those of code that is outside. */
static unsigned int count_samples(struct gate_ring *ring, unsigned int *nr_outside)
{
	struct late_sample sample;
	unsigned int nr = 0;

	*nr_outside = 0;
	while (ring_next(ring, &sample, sizeof(sample))) {
		if (sample.header.type != PERF_RECORD_SAMPLE)
			continue;
		nr++;
		*nr_outside += sample.ip >= (unsigned long)loop_outside &&
			       sample.ip < (unsigned long)loop_outside_end;
	}
	return nr;
}

/* 2 percent, and one at either end */
static void expect_about(struct __test_metadata *const _metadata, __u64 expected, __u64 nr)
{
	EXPECT_LE(expected, nr + expected / 50 + 1);
	EXPECT_GE(expected + expected / 50 + 1, nr);
}

static void try_windows(struct __test_metadata *const _metadata,
			FIXTURE_DATA(hw_gate_late) * self,
			unsigned int windows, __u64 instructions, __u64 period)
{
	__u64 delay = interrupt_delay(), length, expected, least;
	struct gate_value value;
	unsigned int nr, outside;

	self->attr.sample_period = period;
	open_target(_metadata, self);
	run_windows(windows, instructions);
	value = gate_read(self->target);
	nr = count_samples(&self->ring, &outside);
	expected = value.value / period;
	TH_LOG("%u of %llu samples, %u windows of %llu instructions, period %llu",
	       nr, expected, windows, instructions, period);
	EXPECT_EQ(windows, value.gate_count);
	EXPECT_EQ(0, outside);
	/* With and without gates, periods that end before an interrupt share its sample. */
	length = value.value / windows;
	least = expected;
	if (delay >= period && length > period)
		least = value.value / (period + (delay < length ? delay : length));
	EXPECT_LE(least, nr + least / 50 + 1);
	EXPECT_GE(expected + expected / 50 + 1, nr);
	EXPECT_LT(10, nr);
	munmap(self->ring.page, sysconf(_SC_PAGESIZE) + self->ring.size);
	close(self->target);
	self->target = -1;
}

TEST_F(hw_gate_late, each_period_in_windows_of_100_gives_a_sample)
{
	try_windows(_metadata, self, 4000, 100, 1009);
	try_windows(_metadata, self, 4000, 100, 251);
	try_windows(_metadata, self, 4000, 100, 9973);
}

TEST_F(hw_gate_late, each_period_in_windows_of_1000_gives_a_sample)
{
	try_windows(_metadata, self, 1000, 1000, 1009);
	try_windows(_metadata, self, 1000, 1000, 251);
	try_windows(_metadata, self, 1000, 1000, 9973);
}

TEST_F(hw_gate_late, each_period_in_windows_of_10000_gives_a_sample)
{
	try_windows(_metadata, self, 200, 10000, 1009);
	try_windows(_metadata, self, 200, 10000, 9973);
	try_windows(_metadata, self, 200, 10000, 50021);
}

/*
 * When an interrupt finds the gate closed, the sample shows where the task was in user
 * mode, although the task is in the kernel.
 */
TEST_F(hw_gate_late, event_that_excludes_the_kernel_shows_no_address_of_it)
{
	struct {
		struct perf_event_header header;
		__u64 ip;
		__u64 nr;
		__u64 chain[PERF_MAX_STACK_DEPTH + 8];
	} sample;
	unsigned int nr = 0, nr_kernel = 0, i;
	bool kernel;

	if (interrupt_delay() < LATE)
		SKIP(return, "interrupts may come in the kernel before the gate closes");
	self->attr.sample_type |= PERF_SAMPLE_CALLCHAIN;
	open_target(_metadata, self);
	run_windows(4000, SHORT);
	while (ring_next(&self->ring, &sample, sizeof(sample))) {
		if (sample.header.type != PERF_RECORD_SAMPLE)
			continue;
		nr++;
		kernel = (sample.header.misc & PERF_RECORD_MISC_CPUMODE_MASK) !=
			 PERF_RECORD_MISC_USER;
		kernel |= (__s64)sample.ip <= 0;
		for (i = 0; i < sample.nr; i++)
			kernel |= (__s64)sample.chain[i] < 0 &&
				  sample.chain[i] != (__u64)PERF_CONTEXT_USER;
		nr_kernel += kernel;
		/* The context and the address at least */
		EXPECT_LE(2, sample.nr);
	}
	EXPECT_LT(100, nr);
	/* A tick in a window is long enough for the interrupt, which comes in the kernel. */
	EXPECT_GE(nr / 50, nr_kernel);
}

TEST_F(hw_gate_late, limit_of_samples_counts_them)
{
	unsigned int outside;
	__u64 value;

	self->attr.disabled = 1;
	open_target(_metadata, self);
	run_windows(100, SHORT);
	ASSERT_EQ(0, gate_ioctl(self->target, PERF_EVENT_IOC_REFRESH, 3));
	run_windows(1000, SHORT);
	EXPECT_EQ(3, count_samples(&self->ring, &outside));
	value = gate_read_count(self->target);
	EXPECT_LE(3 * PERIOD, value);
	EXPECT_GE(3 * PERIOD + 3 * SHORT, value);
}

/* A target that is late opens another gate, and the next window closes that. */
TEST_F(hw_gate_late, late_overflow_opens_another_gate)
{
	unsigned int nr, outside;
	int faults;

	faults = gate_open_self(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS);
	ASSERT_LE(0, faults);
	open_target(_metadata, self);
	ASSERT_EQ(0, set_starter(self->target, faults));
	ASSERT_EQ(0, set_stopper(self->triggers.starter, faults));
	run_windows(4000, SHORT);
	nr = count_samples(&self->ring, &outside);
	EXPECT_LT(100, nr);
	EXPECT_EQ(nr, gate_read(faults).gate_count);
	close(faults);
}

/* Overflows of the kind that counts close the gate, in the interrupt of the target or not. */
TEST_F(hw_gate_late, overflow_that_closes_the_gate_loses_none)
{
	struct perf_event_attr attr = self->attr;
	unsigned int nr, outside, i;
	__u64 expected;
	int stopper;

	/*
	 * The stopper's period differs from the target's, so that either event overflows
	 * first at times.
	 */
	attr.sample_period = 2003;
	attr.disabled = 1;
	attr.sample_type = 0;
	open_target(_metadata, self);
	stopper = gate_open(&attr, 0, -1);
	ASSERT_LE(0, stopper);
	ASSERT_EQ(0, set_stopper(stopper, self->target));
	for (i = 0; i < 2000; i++) {
		window_open();
		gate_ioctl(stopper, PERF_EVENT_IOC_REFRESH, 1);
		run_inside(10000);
		window_close();
	}
	nr = count_samples(&self->ring, &outside);
	expected = gate_read_count(self->target) / PERIOD;
	TH_LOG("%u of %llu samples", nr, expected);
	EXPECT_EQ(2000, gate_read(self->target).gate_count);
	/* Periods that end before an interrupt share its sample. */
	if (interrupt_delay() < (long)PERIOD)
		EXPECT_LE(expected, nr + expected / 50 + 1);
	EXPECT_LE(1000, nr);
	EXPECT_GE(expected + expected / 50 + 1, nr);
	close(stopper);
}

static int nr_signals;

static void on_trap(int sig, siginfo_t *info, void *context)
{
	__atomic_fetch_add(&nr_signals, 1, __ATOMIC_RELAXED);
}

/* Triggers of an event that sends signals must be able to, though they do not. */
static int open_signalling_trigger(const char *name)
{
	struct perf_event_attr attr = gate_attr(PERF_TYPE_TRACEPOINT, tracepoint_id(name));

	attr.sigtrap = 1;
	attr.remove_on_exec = 1;
	return gate_open(&attr, 0, -1);
}

TEST_F(hw_gate_late, each_period_sends_its_signal)
{
	struct sigaction action = {
		.sa_sigaction	= on_trap,
		.sa_flags	= SA_SIGINFO,
	};
	__u64 expected;

	ASSERT_EQ(0, sigaction(SIGTRAP, &action, NULL));
	self->attr.sigtrap = 1;
	self->attr.remove_on_exec = 1;
	triggers_close(&self->triggers);
	self->triggers.starter = open_signalling_trigger("syscalls/sys_enter_getuid");
	self->triggers.stopper = open_signalling_trigger("syscalls/sys_enter_geteuid");
	ASSERT_LE(0, self->triggers.starter);
	ASSERT_LE(0, self->triggers.stopper);
	nr_signals = 0;
	open_target(_metadata, self);
	run_windows(4000, SHORT);
	expected = gate_read_count(self->target) / PERIOD;
	EXPECT_LT(100, expected);
	expect_about(_metadata, expected, __atomic_load_n(&nr_signals, __ATOMIC_RELAXED));
}

TEST_F(hw_gate_late, frequency_gives_samples_of_short_windows)
{
	unsigned int nr, outside;

	self->attr.freq = 1;
	self->attr.sample_freq = 10000;
	open_target(_metadata, self);
	run_windows(4000, SHORT);
	nr = count_samples(&self->ring, &outside);
	EXPECT_EQ(0, outside);
	EXPECT_LT(10, nr);
}

/* The counter goes on where the next window begins, across task switches. */
TEST_F(hw_gate_late, task_that_sleeps_between_windows_loses_none)
{
	unsigned int nr, outside, i;
	__u64 expected;

	open_target(_metadata, self);
	for (i = 0; i < 1000; i++) {
		run_windows(4, SHORT);
		syscall(__NR_sched_yield);
		if (!(i % 10))
			usleep(100);
	}
	nr = count_samples(&self->ring, &outside);
	expected = gate_read_count(self->target) / PERIOD;
	EXPECT_EQ(0, outside);
	expect_about(_metadata, expected, nr);
}

static int open_trigger_of_cpu(const char *name, int cpu)
{
	struct perf_event_attr attr = gate_attr(PERF_TYPE_TRACEPOINT, tracepoint_id(name));

	return gate_open(&attr, -1, cpu);
}

/* An event of a CPU goes on when the task switch that ends a window is done. */
TEST_F(hw_gate_late, task_switch_that_ends_a_window_gives_no_sample_of_another_task)
{
	unsigned int nr = 0, nr_others = 0, i;
	int cpu = nth_cpu(0);
	struct {
		struct perf_event_header header;
		__u64 ip;
		__u32 pid, tid;
	} sample;
	pid_t other;

	triggers_close(&self->triggers);
	self->triggers.starter = open_trigger_of_cpu("syscalls/sys_enter_getuid", cpu);
	self->triggers.stopper = open_trigger_of_cpu("sched/sched_switch", cpu);
	ASSERT_LE(0, self->triggers.starter);
	ASSERT_LE(0, self->triggers.stopper);
	self->attr.sample_type |= PERF_SAMPLE_TID;
	self->attr.sample_period = 97;
	self->target = gate_open(&self->attr, -1, cpu);
	ASSERT_LE(0, self->target);
	ASSERT_EQ(0, ring_map(&self->ring, self->target, RING_PAGES));
	ASSERT_EQ(0, set_both(&self->triggers, self->target));
	other = fork();
	ASSERT_LE(0, other);
	while (!other) {
		run_outside(SHORT);
		syscall(__NR_sched_yield);
	}
	ring_drain(&self->ring, PERF_RECORD_SAMPLE);
	for (i = 0; i < 4000; i++) {
		window_open();
		run_inside(SHORT);
		syscall(__NR_sched_yield);
	}
	kill(other, SIGKILL);
	waitpid(other, NULL, 0);
	while (ring_next(&self->ring, &sample, sizeof(sample))) {
		if (sample.header.type != PERF_RECORD_SAMPLE)
			continue;
		nr++;
		nr_others += sample.tid != (__u32)getpid();
	}
	TH_LOG("%u samples, %llu windows", nr, gate_read(self->target).gate_count);
	EXPECT_EQ(0, nr_others);
	if (!interrupt_delay())
		EXPECT_LT(100, nr);
}

TEST_HARNESS_MAIN
