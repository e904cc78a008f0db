// SPDX-License-Identifier: GPL-2.0
/*
 * perf selftests on an x86 PMU with PEBS - gates of precise events
 *
 * The PMU writes a record when a period of a precise event is over, and its interrupt
 * comes a while later. Each record must go by the gate as it was when the record was made.
 * The tests run on an emulated PMU, which says with QEMU_PMU_PEBS=1 that it has PEBS, with
 * QEMU_PMU_PEBS_BASIC=1 that its records lack the baseline, and with QEMU_PMU_PMI_DELAY how
 * late its interrupts are, and on processors of Intel.
 */
#define _GNU_SOURCE

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "../kselftest_harness.h"
#include "gate_helpers.h"
#include "hw_gate_loops.h"
#include "x86_pmu_helpers.h"

#define RING_PAGES	256
#define SHORT		100ULL
#define PERIOD		1009ULL
/* An interrupt that is later than this finds the gate of a short window closed. */
#define LATE		1000

FIXTURE(x86_pmu_pebs)
{
	struct gate_triggers triggers;
	struct perf_event_attr attr;
	struct gate_ring ring;
	__u64 scale;
	int target;
};

FIXTURE_VARIANT(x86_pmu_pebs)
{
	__u64 config;
};

/* A fixed counter, if no other event has it */
FIXTURE_VARIANT_ADD(x86_pmu_pebs, instructions)
{
	.config	= PERF_COUNT_HW_INSTRUCTIONS,
};

/* A general counter on many processors, because the fixed one has no records */
FIXTURE_VARIANT_ADD(x86_pmu_pebs, cycles)
{
	.config = PERF_COUNT_HW_CPU_CYCLES,
};

/* The least of periods that are longer than an interrupt is late, in events */
static __u64 period_of(FIXTURE_DATA(x86_pmu_pebs) * self, __u64 instructions)
{
	__u64 period = instructions;

	while (period <= (__u64)pmi_delay() * 2)
		period += 1000;
	return period * self->scale;
}

/* An attribute like that of the target, without a gate */
static struct perf_event_attr plain_attr(FIXTURE_DATA(x86_pmu_pebs) * self, __u64 period,
					 int precise)
{
	struct perf_event_attr attr = gate_attr(self->attr.type, self->attr.config);

	attr.exclude_kernel = 1;
	attr.sample_period = period;
	attr.sample_type = PERF_SAMPLE_IP;
	attr.precise_ip = precise;
	return attr;
}

FIXTURE_SETUP(x86_pmu_pebs)
{
	struct perf_event_attr attr;
	long cpi = pmu_number("QEMU_PMU_CPI");
	int cpu = nth_cpu(0);

	self->target = -1;
	if (triggers_open(_metadata, &self->triggers))
		return;
	if (!is_intel())
		SKIP(return, "no PEBS: not a processor of Intel");
	ASSERT_EQ(0, pin_to_cpu(cpu));
	self->scale = variant->config == PERF_COUNT_HW_CPU_CYCLES && cpi ? cpi : 1;
	self->attr.type = PERF_TYPE_HARDWARE;
	self->attr.config = variant->config | core_pmu_of(cpu) << 32;
	attr = plain_attr(self, PERIOD * self->scale, 2);
	self->attr = attr;
	gate_attr_set_bit(&self->attr, GATE_BIT_START_PAUSED);
	self->target = gate_open(&attr, 0, -1);
	if (self->target < 0) {
		ASSERT_EQ(0, pmu_number("QEMU_PMU_PEBS")) {
			TH_LOG("the emulator has PEBS, the kernel does not use it: %s",
			       strerror(errno));
		}
		SKIP(return, "no precise events: %s", strerror(errno));
	}
	close(self->target);
	self->target = gate_open(&self->attr, 0, -1);
	if (self->target < 0 && errno == EOPNOTSUPP) {
		ASSERT_EQ(0, pmu_number("QEMU_PMU_PEBS"));
		SKIP(return, "records without the baseline of Ice Lake, and so no gates");
	}
	close(self->target);
	self->target = -1;
	keep_sample_rate();
}

FIXTURE_TEARDOWN(x86_pmu_pebs)
{
	limit_sample_time();
	close(self->target);
	triggers_close(&self->triggers);
}

static void open_target(struct __test_metadata *const _metadata,
			FIXTURE_DATA(x86_pmu_pebs) * self)
{
	self->target = gate_open(&self->attr, 0, -1);
	ASSERT_LE(0, self->target);
	ASSERT_EQ(0, ring_map(&self->ring, self->target, RING_PAGES));
	ASSERT_EQ(0, set_both(&self->triggers, self->target));
}

static void close_target(FIXTURE_DATA(x86_pmu_pebs) * self)
{
	munmap(self->ring.page, sysconf(_SC_PAGESIZE) + self->ring.size);
	close(self->target);
	self->target = -1;
}

/* @percent of the periods in @count, and one at either end */
static void expect_samples(struct __test_metadata *const _metadata, __u64 count, __u64 period,
			   unsigned int samples, unsigned int percent)
{
	__u64 expected = count / period;

	TH_LOG("%u of %llu samples, period %llu", samples, expected, period);
	EXPECT_LE(expected * percent / 100, samples + 1);
	EXPECT_GE(expected + expected / 50 + 1, samples);
}

/* Without a gate: what the other tests rely on */
TEST_F(x86_pmu_pebs, each_period_gives_a_sample)
{
	struct perf_event_attr attr;
	struct loop_records sum;
	int precise, wakeup;
	__u64 period = period_of(self, 10007), count;

	for (precise = 0; precise <= 2; precise++) {
		for (wakeup = 0; wakeup <= 1; wakeup++) {
			attr = plain_attr(self, period, precise);
			attr.wakeup_events = wakeup;
			attr.disabled = 1;
			self->target = gate_open(&attr, 0, -1);
			ASSERT_LE(0, self->target);
			ASSERT_EQ(0, ring_map(&self->ring, self->target, RING_PAGES));
			ASSERT_EQ(0, gate_ioctl(self->target, PERF_EVENT_IOC_ENABLE, 0));
			/* The interrupt of the last overflow comes as well. */
			run_inside(2000000 + 2 * pmi_delay());
			ASSERT_EQ(0, gate_ioctl(self->target, PERF_EVENT_IOC_DISABLE, 0));
			count = gate_read_count(self->target);
			sum = take_records(&self->ring);
			expect_samples(_metadata, count, period, sum.samples, 98);
			EXPECT_EQ(0, sum.lost);
			EXPECT_EQ(precise == 2 ? sum.samples : 0, sum.exact);
			if (precise)
				EXPECT_LE(sum.samples, sum.inside + 2);
			close_target(self);
		}
	}
}

/*
 * The events of periods that can have a record: one in each window if the interrupt comes
 * after the window.
 */
static __u64 recorded(__u64 count, __u64 period, unsigned int windows, __u64 instructions)
{
	__u64 most = windows * period;

	return (__u64)pmi_delay() > instructions && count > most ? most : count;
}

static void try_windows(struct __test_metadata *const _metadata,
			FIXTURE_DATA(x86_pmu_pebs) * self, unsigned int windows,
			__u64 instructions, __u64 period, unsigned int percent)
{
	struct gate_value value;
	struct loop_records sum;

	self->attr.sample_period = period;
	open_target(_metadata, self);
	run_windows(windows, instructions);
	value = gate_read(self->target);
	sum = take_records(&self->ring);
	EXPECT_EQ(windows, value.gate_count);
	EXPECT_LE(windows * instructions, value.value);
	expect_samples(_metadata, recorded(value.value, period, windows, instructions), period,
		       sum.samples, percent);
	EXPECT_EQ(sum.samples, sum.exact);
	EXPECT_EQ(0, sum.outside);
	EXPECT_EQ(0, sum.lost);
	EXPECT_LT(10, sum.samples);
	close_target(self);
}

/* The period that ends in the last instructions of a window has no record. */
TEST_F(x86_pmu_pebs, windows_of_100_have_their_samples)
{
	try_windows(_metadata, self, 4000, SHORT, PERIOD * self->scale, 92);
	try_windows(_metadata, self, 4000, SHORT, 4001 * self->scale, 90);
}

TEST_F(x86_pmu_pebs, windows_of_1000_have_their_samples)
{
	try_windows(_metadata, self, 2000, 1000, PERIOD * self->scale, 98);
	try_windows(_metadata, self, 2000, 1000, 4001 * self->scale, 97);
}

TEST_F(x86_pmu_pebs, windows_of_10000_have_their_samples)
{
	try_windows(_metadata, self, 400, 10000, period_of(self, PERIOD), 98);
	try_windows(_metadata, self, 400, 10000, 10007 * self->scale, 98);
}

/* In the interrupt of one event, another one with records starts, and stops. */
TEST_F(x86_pmu_pebs, overflow_of_another_event_starts_and_stops_it)
{
	__u64 window = 20011, period = period_of(self, 997), count;
	struct perf_event_attr attr = instructions_attr();
	struct gate_ring ring;
	struct loop_records sum;
	int toggle, plain;

	attr.sample_period = window;
	toggle = gate_open(&attr, 0, -1);
	ASSERT_LE(0, toggle);
	self->attr.sample_period = period;
	self->target = gate_open(&self->attr, 0, -1);
	ASSERT_LE(0, self->target);
	ASSERT_EQ(0, ring_map(&self->ring, self->target, RING_PAGES));
	ASSERT_EQ(0, set_starter(toggle, self->target));
	ASSERT_EQ(0, set_stopper(toggle, self->target));
	ASSERT_EQ(0, gate_ioctl(toggle, PERF_EVENT_IOC_ENABLE, 0));
	/* 100 windows, and the gate is closed at the end. */
	run_inside(200 * window + window / 2);
	ASSERT_EQ(0, gate_ioctl(toggle, PERF_EVENT_IOC_DISABLE, 0));
	EXPECT_EQ(100, gate_read(self->target).gate_count);
	count = gate_read_count(self->target);
	sum = take_records(&self->ring);
	/* The interrupt of the last period of a window may come behind that of the toggle. */
	expect_samples(_metadata, count, period, sum.samples, 96);
	EXPECT_LT(300, sum.samples);
	close_target(self);
	close(toggle);

	/* The counter is free for an event without records, which interrupts as ever. */
	attr = plain_attr(self, period, 0);
	attr.disabled = 1;
	plain = gate_open(&attr, 0, -1);
	ASSERT_LE(0, plain);
	ASSERT_EQ(0, ring_map(&ring, plain, RING_PAGES));
	ASSERT_EQ(0, gate_ioctl(plain, PERF_EVENT_IOC_ENABLE, 0));
	run_inside(1000000);
	ASSERT_EQ(0, gate_ioctl(plain, PERF_EVENT_IOC_DISABLE, 0));
	count = gate_read_count(plain);
	sum = take_records(&ring);
	expect_samples(_metadata, count, period, sum.samples, 98);
	EXPECT_EQ(0, sum.exact);
	close(plain);
}

/* One interrupt stands for one record of such an event, and for many of the other kind. */
TEST_F(x86_pmu_pebs, trigger_fires_at_each_record_or_is_refused)
{
	struct perf_event_attr attr = plain_attr(self, 20011 * self->scale, 2);
	int faults = gate_open_self(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS);
	struct gate_value value;
	int trigger;
	__u64 count;

	ASSERT_LE(0, faults);
	trigger = gate_open(&attr, 0, -1);
	ASSERT_LE(0, trigger);
	EXPECT_EQ(-EINVAL, set_starter(trigger, faults));
	close(trigger);
	attr.wakeup_events = 1;
	attr.disabled = 1;
	trigger = gate_open(&attr, 0, -1);
	ASSERT_LE(0, trigger);
	ASSERT_EQ(0, set_starter(trigger, faults));
	ASSERT_EQ(0, set_stopper(trigger, faults));
	gate_ioctl(trigger, PERF_EVENT_IOC_ENABLE, 0);
	run_inside(2000000);
	gate_ioctl(trigger, PERF_EVENT_IOC_DISABLE, 0);
	count = gate_read_count(trigger) / attr.sample_period;
	value = gate_read(faults);
	EXPECT_LE(count / 2, value.gate_count + 1);
	EXPECT_GE(count / 2 + 1, value.gate_count);
	EXPECT_LT(40, value.gate_count);
	close(trigger);
	close(faults);
}

/* Such an event is of no use for a gate, because its counter goes back at each record. */
TEST_F(x86_pmu_pebs, reloaded_counter_is_refused)
{
	struct perf_event_attr attr = plain_attr(self, PERIOD * self->scale, 2);
	int target;

	target = gate_open(&attr, 0, -1);
	ASSERT_LE(0, target);
	EXPECT_EQ(-EOPNOTSUPP, set_starter(self->triggers.starter, target));
	close(target);

	/* No record of a chain, so the buffer holds one record at most. */
	attr.sample_type |= PERF_SAMPLE_CALLCHAIN;
	target = gate_open(&attr, 0, -1);
	ASSERT_LE(0, target);
	EXPECT_EQ(-EOPNOTSUPP, set_starter(self->triggers.starter, target));
	EXPECT_EQ(-EOPNOTSUPP, set_stopper(self->triggers.stopper, target));
	close(target);

	attr.wakeup_events = 1;
	target = gate_open(&attr, 0, -1);
	ASSERT_LE(0, target);
	EXPECT_EQ(0, set_starter(self->triggers.starter, target));
	close(target);

	attr.wakeup_events = 0;
	attr.freq = 1;
	attr.sample_freq = 1000;
	target = gate_open(&attr, 0, -1);
	ASSERT_LE(0, target);
	EXPECT_EQ(0, set_starter(self->triggers.starter, target));
	close(target);
}

/* The kernel takes only records of Ice Lake on, which have what a sample needs. */
TEST(records_without_the_baseline_have_no_gate)
{
	struct perf_event_attr attr = gate_attr(PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS);
	int faults, precise;

	attr.exclude_kernel = 1;
	attr.sample_period = PERIOD;
	attr.sample_type = PERF_SAMPLE_IP;
	attr.precise_ip = 2;
	attr.wakeup_events = 1;
	precise = gate_open(&attr, 0, -1);
	if (precise < 0 || !pmu_number("QEMU_PMU_PEBS_BASIC")) {
		ASSERT_EQ(0, pmu_number("QEMU_PMU_PEBS_BASIC"));
		close(precise);
		SKIP(return, "no precise events whose records lack the baseline");
	}
	faults = gate_open_self(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS);
	ASSERT_LE(0, faults);
	EXPECT_EQ(-EOPNOTSUPP, set_starter(faults, precise));
	EXPECT_EQ(-EOPNOTSUPP, set_stopper(faults, precise));
	/* It may open the gates of others. */
	EXPECT_EQ(0, set_starter(precise, faults));
	close(precise);
	gate_attr_set_bit(&attr, GATE_BIT_START_PAUSED);
	EXPECT_EQ(-1, gate_open(&attr, 0, -1));
	EXPECT_EQ(EOPNOTSUPP, errno);
	close(faults);
}

/* Each record belongs to one of two events, and those of one are longer. */
TEST_F(x86_pmu_pebs, opposite_gates_share_the_records)
{
	struct perf_event_attr attr = plain_attr(self, PERIOD * self->scale, 2);
	struct loop_records inside, outside;
	struct gate_ring ring;
	int other, i;
	__u64 count;

	attr.wakeup_events = 1;
	attr.sample_period = period_of(self, BETWEEN);
	attr.sample_type |= PERF_SAMPLE_REGS_USER;
	attr.sample_regs_user = 0xff0fff;
	other = gate_open(&attr, 0, -1);
	ASSERT_LE(0, other);
	ASSERT_EQ(0, ring_map(&ring, other, 2 * RING_PAGES));
	ASSERT_EQ(0, set_starter(self->triggers.stopper, other));
	ASSERT_EQ(0, set_stopper(self->triggers.starter, other));
	open_target(_metadata, self);
	for (i = 0; i < 2000; i++) {
		run_outside(2000);
		window_open();
		run_inside(1000);
		window_close();
	}
	inside = take_records(&self->ring);
	outside = take_records(&ring);
	count = recorded(gate_read_count(self->target), self->attr.sample_period, 2000, 1000);
	expect_samples(_metadata, count, self->attr.sample_period, inside.samples, 97);
	expect_samples(_metadata, gate_read_count(other), attr.sample_period,
		       outside.samples, 96);
	EXPECT_EQ(0, inside.outside);
	EXPECT_EQ(0, outside.inside);
	EXPECT_EQ(inside.samples, inside.exact);
	EXPECT_EQ(outside.samples, outside.exact);
	close(other);
}

/* Run loop_outside() or loop_inside() and yield, until the parent kills this process. */
static pid_t fork_loop(bool is_inside, int start)
{
	char c;
	pid_t pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (read(start, &c, 1) != 1)
		_exit(1);
	for (;;) {
		if (is_inside)
			run_inside(20000);
		else
			run_outside(20000);
		sched_yield();
	}
}

/*
 * While a task has an event with a closed gate, the interrupts of the others do not wait
 * until the buffer is full, because nothing drains it when tasks are switched.
 */
TEST_F(x86_pmu_pebs, records_of_others_keep_their_task)
{
	struct {
		struct perf_event_header header;
		__u64 ip;
		__u32 pid, tid;
	} sample;
	struct perf_event_attr attr = plain_attr(self, period_of(self, 10007), 2);
	unsigned int nr_inside = 0, nr_outside = 0, wrong = 0;
	struct gate_ring ring;
	pid_t in, out;
	int pipe_fds[2];
	int other, i;

	ASSERT_EQ(0, pipe(pipe_fds));
	in = fork_loop(true, pipe_fds[0]);
	out = fork_loop(false, pipe_fds[0]);
	ASSERT_LT(0, in);
	ASSERT_LT(0, out);
	attr.sample_type |= PERF_SAMPLE_TID;
	other = gate_open(&attr, -1, nth_cpu(0));
	ASSERT_LE(0, other);
	ASSERT_EQ(0, ring_map(&ring, other, RING_PAGES));
	self->target = gate_open(&self->attr, in, -1);
	ASSERT_LE(0, self->target);
	ASSERT_EQ(2, write(pipe_fds[1], "gg", 2));
	for (i = 0; i < 600 && ring_head(&ring) < 400 * sizeof(sample); i++)
		usleep(50000);
	kill(in, SIGKILL);
	kill(out, SIGKILL);
	waitpid(in, NULL, 0);
	waitpid(out, NULL, 0);
	close(pipe_fds[0]);
	close(pipe_fds[1]);
	while (ring_next(&ring, &sample, sizeof(sample))) {
		if (sample.header.type != PERF_RECORD_SAMPLE)
			continue;
		if (sample.ip >= (unsigned long)loop_inside &&
		    sample.ip < (unsigned long)loop_outside) {
			nr_inside++;
			wrong += sample.tid != (__u32)in;
		} else if (sample.ip >= (unsigned long)loop_outside &&
			   sample.ip < (unsigned long)loop_outside_end) {
			nr_outside++;
			wrong += sample.tid != (__u32)out;
		}
	}
	TH_LOG("%u and %u samples", nr_inside, nr_outside);
	EXPECT_LT(100, nr_inside);
	EXPECT_LT(100, nr_outside);
	EXPECT_EQ(0, wrong);
	close(other);
}

/* The gate of an event that does not count in the kernel moves, and hands over the record. */
TEST_F(x86_pmu_pebs, record_of_the_kernel_keeps_its_callchain)
{
	struct {
		struct perf_event_header header;
		__u64 ip;
		__u64 nr;
		__u64 chain[PERF_MAX_STACK_DEPTH + 8];
	} sample;
	struct perf_event_attr attr = plain_attr(self, period_of(self, 20011), 2);
	int stopper = open_tracepoint("syscalls/sys_exit_getrandom");
	unsigned int all = 0, nr = 0, wrong = 0, i;
	__u64 value[8], due;
	struct gate_ring ring;
	char bytes[16];
	int other;

	ASSERT_LE(0, stopper);
	attr.exclude_kernel = 0;
	attr.wakeup_events = 1;
	attr.sample_type |= PERF_SAMPLE_CALLCHAIN;
	other = gate_open(&attr, 0, -1);
	ASSERT_LE(0, other);
	ASSERT_EQ(0, ring_map(&ring, other, 2 * RING_PAGES));
	self->target = gate_open(&self->attr, 0, -1);
	ASSERT_LE(0, self->target);
	ASSERT_EQ(0, set_starter(self->triggers.starter, self->target));
	ASSERT_EQ(0, set_stopper(stopper, self->target));
	for (i = 0; i < 4000; i++) {
		window_open();
		ASSERT_EQ((long)sizeof(bytes),
			  syscall(__NR_getrandom, bytes, sizeof(bytes), 0));
	}
	ASSERT_EQ(0, ioctl(other, PERF_EVENT_IOC_DISABLE, 0));
	ASSERT_LT(0, read(other, value, sizeof(value)));
	due = value[0] / attr.sample_period;
	while (ring_next(&ring, &sample, sizeof(sample))) {
		if (sample.header.type != PERF_RECORD_SAMPLE)
			continue;
		all++;
		if ((__s64)sample.ip > 0)
			continue;
		nr++;
		wrong += !sample.nr || sample.chain[0] != (__u64)PERF_CONTEXT_KERNEL;
	}
	TH_LOG("%u of %u begin elsewhere, %u of %llu samples", wrong, nr, all, due);
	/* No move of the gate ends the sampling of the other event. */
	EXPECT_LE(due - due / 16, all);
	EXPECT_LT(100, nr);
	/* A record behind the edge may have its interrupt in user mode. */
	EXPECT_GE(nr / 4, wrong);
	close(other);
	close(stopper);
}

/* The overflow of one of them closes the gate of the other, which may have a record. */
TEST_F(x86_pmu_pebs, record_closes_the_gate_of_another)
{
	struct perf_event_attr attr = self->attr;
	struct gate_ring ring;
	struct loop_records sum;
	/* Long enough that neither is throttled */
	__u64 period = period_of(self, 4001);
	int other, i;

	/* As long, so both may have their records in one buffer. */
	attr.sample_period = period;
	self->attr.sample_period = period;
	open_target(_metadata, self);
	other = gate_open(&attr, 0, -1);
	ASSERT_LE(0, other);
	ASSERT_EQ(0, ring_map(&ring, other, RING_PAGES));
	ASSERT_EQ(0, set_starter(self->triggers.starter, other));
	ASSERT_EQ(0, set_stopper(self->target, other));
	for (i = 0; i < 500; i++) {
		window_open();
		run_inside(8 * period / self->scale);
		window_close();
	}
	sum = take_records(&self->ring);
	expect_samples(_metadata, gate_read_count(self->target), period, sum.samples, 98);
	sum = take_records(&ring);
	EXPECT_EQ(500, gate_read(other).gate_count);
	/* At most one period in each window */
	EXPECT_GE(500, sum.samples);
	EXPECT_GE(500 * 2 * period, gate_read_count(other));
	close(other);
}

TEST_F(x86_pmu_pebs, limit_of_samples_counts_them)
{
	struct loop_records sum;
	__u64 value;

	self->attr.disabled = 1;
	open_target(_metadata, self);
	run_windows(100, SHORT);
	ASSERT_EQ(0, gate_ioctl(self->target, PERF_EVENT_IOC_REFRESH, 3));
	run_windows(1000, SHORT);
	sum = take_records(&self->ring);
	EXPECT_EQ(3, sum.samples);
	value = gate_read_count(self->target);
	EXPECT_LE(3 * self->attr.sample_period, value);
	/* A period may lose its record at the end of a window. */
	EXPECT_GE(5 * self->attr.sample_period, value);
}

TEST_F(x86_pmu_pebs, throttled_event_goes_on_in_later_windows)
{
	struct loop_records sum;
	int i;

	self->attr.sample_period = period_of(self, PERIOD);
	open_target(_metadata, self);
	limit_sample_time();
	ASSERT_TRUE(write_text(SAMPLE_RATE, "2000"));
	for (i = 0; i < 200; i++)
		run_windows(1, 100000);
	sum = take_records(&self->ring);
	EXPECT_LT(0, sum.throttled);
	EXPECT_LT(0, sum.unthrottled);
	EXPECT_EQ(0, sum.outside);
	keep_sample_rate();
	/* The next tick ends the throttling. */
	sleep_for_certain();
	run_windows(1, 1000000);
	take_records(&self->ring);
	gate_ioctl(self->target, PERF_EVENT_IOC_RESET, 0);
	run_windows(1000, 1000);
	sum = take_records(&self->ring);
	expect_samples(_metadata, gate_read_count(self->target), self->attr.sample_period,
		       sum.samples, 95);
}

/* The user is not told an address of the kernel where the gate closes. */
TEST_F(x86_pmu_pebs, callchain_is_that_of_user_mode)
{
	struct {
		struct perf_event_header header;
		__u64 ip;
		__u64 nr;
		__u64 chain[PERF_MAX_STACK_DEPTH + 8];
	} sample;
	unsigned int nr = 0, nr_kernel = 0, i;

	if (pmi_delay() < LATE)
		SKIP(return, "interrupts may come before the gate closes");
	self->attr.sample_type |= PERF_SAMPLE_CALLCHAIN;
	open_target(_metadata, self);
	run_windows(4000, SHORT);
	while (ring_next(&self->ring, &sample, sizeof(sample))) {
		bool kernel;

		if (sample.header.type != PERF_RECORD_SAMPLE)
			continue;
		nr++;
		kernel = (__s64)sample.ip <= 0;
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

TEST_F(x86_pmu_pebs, frequency_gives_samples_of_windows)
{
	struct loop_records sum;

	self->attr.freq = 1;
	self->attr.sample_freq = 20000;
	open_target(_metadata, self);
	run_windows(400, 100000);
	sum = take_records(&self->ring);
	EXPECT_LT(50, sum.samples);
	EXPECT_EQ(sum.samples, sum.exact);
	EXPECT_EQ(0, sum.outside);
}

/* A record whose interrupt has not come when the task is switched out is lost. */
TEST_F(x86_pmu_pebs, task_switches_in_windows)
{
	__u64 period = period_of(self, PERIOD);
	struct gate_value value;
	struct loop_records sum;
	int i;

	self->attr.sample_period = period;
	open_target(_metadata, self);
	for (i = 0; i < 400; i++) {
		window_open();
		run_inside(20000);
		usleep(10);
		run_inside(20000);
		window_close();
		run_outside(BETWEEN);
		usleep(10);
	}
	value = gate_read(self->target);
	sum = take_records(&self->ring);
	EXPECT_EQ(400, value.gate_count);
	expect_samples(_metadata, value.value, period, sum.samples, pmi_delay() < 100 ? 97 : 90);
	EXPECT_EQ(0, sum.outside);
	EXPECT_EQ(sum.samples, sum.exact);
}

TEST_HARNESS_MAIN
