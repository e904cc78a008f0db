// SPDX-License-Identifier: GPL-2.0
/*
 * perf selftests on AMD's Instruction Based Sampling - gates of its events
 *
 * The hardware keeps a sample until its interrupt comes, which is a while later. A gate that
 * closes meanwhile has the sample reported, stops the event and lets its period go on in the
 * next window. The tests run on an emulated PMU, which says with QEMU_PMU_IBS=1 that it has IBS
 * and with QEMU_PMU_PMI_DELAY how late its interrupts are, and on processors of AMD.
 */
#define _GNU_SOURCE

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "../kselftest_harness.h"
#include "gate_helpers.h"
#include "hw_gate_loops.h"
#include "x86_pmu_helpers.h"

#define RING_PAGES	256
#define CNT_CTL		(1ULL << 19)
/* A multiple of 16, as the hardware wants it. The kernel's part of each sample counts, too. */
#define PERIOD		20064ULL
/* In enum perf_event_x86_regs */
#define X86_SP		7
#define X86_IP		8
/* The operations of the kernel between the move of a gate and that of the event, at most */
#define MOVE		250
/* The operations of the kernel between an NMI and the sampler that goes on, at most */
#define HANDLER		2500

FIXTURE(x86_pmu_ibs)
{
	struct gate_triggers triggers;
	struct perf_event_attr attr;
	struct gate_ring ring;
	__u64 scale;
	int target;
	int log;
};

FIXTURE_VARIANT(x86_pmu_ibs)
{
	__u64 config;
};

FIXTURE_VARIANT_ADD(x86_pmu_ibs, operations) { .config = CNT_CTL };
FIXTURE_VARIANT_ADD(x86_pmu_ibs, cycles) { };

/*
 * How often the kernel told of an NMI that no handler wanted, since @log was last
 * read. It limits how often it tells.
 */
static unsigned int nr_unknown_nmis(int log)
{
	/* No message is longer. EPIPE tells of messages that are gone. */
	static char text[8192];
	unsigned int nr = 0;
	ssize_t len;

	do {
		len = read(log, text, sizeof(text) - 1);
		text[len > 0 ? len : 0] = '\0';
		nr += !!strstr(text, "NMI received for unknown reason");
	} while (len > 0 || errno == EPIPE);
	return nr;
}

FIXTURE_SETUP(x86_pmu_ibs)
{
	long cpi = pmu_number("QEMU_PMU_CPI");
	long type = pmu_type("ibs_op");

	self->target = -1;
	self->log = -1;
	if (triggers_open(_metadata, &self->triggers))
		return;
	if (type < 0) {
		ASSERT_EQ(0, pmu_number("QEMU_PMU_IBS")) {
			TH_LOG("the emulator has IBS, the kernel does not use it");
		}
		SKIP(return, "no Instruction Based Sampling");
	}
	ASSERT_EQ(0, pin_to_cpu(nth_cpu(0)));
	self->scale = !variant->config && cpi ? cpi : 1;
	self->attr = gate_attr(type, variant->config);
	self->attr.sample_period = PERIOD * self->scale;
	self->attr.sample_type = PERF_SAMPLE_IP;
	keep_sample_rate();
	self->log = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	ASSERT_LE(0, self->log);
	ASSERT_LE(0, lseek(self->log, 0, SEEK_END));
}

FIXTURE_TEARDOWN(x86_pmu_ibs)
{
	limit_sample_time();
	close(self->target);
	/* An interrupt may come when the sampler has been stopped, and started again. */
	if (self->log >= 0)
		EXPECT_EQ(0, nr_unknown_nmis(self->log));
	close(self->log);
	triggers_close(&self->triggers);
}

static void open_target(struct __test_metadata *const _metadata,
			FIXTURE_DATA(x86_pmu_ibs) * self)
{
	self->target = gate_open(&self->attr, 0, -1);
	ASSERT_LE(0, self->target);
	ASSERT_EQ(0, ring_map(&self->ring, self->target, RING_PAGES));
	ASSERT_EQ(0, set_both(&self->triggers, self->target));
}

/*
 * @percent of the periods in @count, and one at either end. A period goes on while the event
 * follows its gate, in @windows, which is not part of the count. If it ends there, it has no
 * sample.
 */
static void expect_samples(struct __test_metadata *const _metadata,
			   FIXTURE_DATA(x86_pmu_ibs) * self, __u64 count, unsigned int windows,
			   unsigned int samples, unsigned int percent)
{
	__u64 period = self->attr.sample_period, expected = count / period;
	__u64 moves = windows * MOVE * self->scale / period;

	TH_LOG("%u of %llu samples", samples, expected);
	EXPECT_LE(expected * percent / 100, samples + 1 + moves / 2);
	EXPECT_GE(expected + expected / 50 + moves + 1, samples);
}

static void open_plain(struct __test_metadata *const _metadata,
		       FIXTURE_DATA(x86_pmu_ibs) * self)
{
	self->attr.disabled = 1;
	self->target = gate_open(&self->attr, 0, -1);
	ASSERT_LE(0, self->target);
	ASSERT_EQ(0, ring_map(&self->ring, self->target, RING_PAGES));
	ASSERT_EQ(0, gate_ioctl(self->target, PERF_EVENT_IOC_ENABLE, 0));
}

/* Without a gate: what the other tests rely on */
TEST_F(x86_pmu_ibs, each_period_gives_a_sample)
{
	struct loop_records sum;
	__u64 count;

	open_plain(_metadata, self);
	run_inside(4000000);
	ASSERT_EQ(0, gate_ioctl(self->target, PERF_EVENT_IOC_DISABLE, 0));
	count = gate_read_count(self->target);
	if (pmu_number("QEMU_PMU") > 0 && !pmi_delay())
		EXPECT_LE(4000000 * self->scale, count);
	sum = take_records(&self->ring);
	expect_samples(_metadata, self, count, 0, sum.samples, 98);
	EXPECT_LT(150, sum.samples);
	EXPECT_EQ(sum.samples, sum.exact);
	EXPECT_LE(sum.samples * 9 / 10, sum.inside);
}

/* A task that is switched out often has the samples of all its periods, too. */
TEST_F(x86_pmu_ibs, period_goes_on_after_a_task_switch)
{
	struct loop_records sum;
	int i;

	if (pmi_delay() > 200)
		SKIP(return, "a sample whose interrupt comes after the task switch is lost");
	/* Many of them end shortly after a switch. */
	self->attr.sample_period = 1024 * self->scale;
	open_plain(_metadata, self);
	for (i = 0; i < 1000; i++) {
		run_inside(100);
		usleep(1);
	}
	ASSERT_EQ(0, gate_ioctl(self->target, PERF_EVENT_IOC_DISABLE, 0));
	sum = take_records(&self->ring);
	expect_samples(_metadata, self, gate_read_count(self->target), 0, sum.samples,
		       pmi_delay() ? 90 : 98);
	EXPECT_LT(50, sum.samples);
}

static void try_windows(struct __test_metadata *const _metadata,
			FIXTURE_DATA(x86_pmu_ibs) * self, unsigned int windows,
			__u64 instructions)
{
	struct perf_event_attr attr = gate_attr(PERF_TYPE_HARDWARE,
						PERF_COUNT_HW_INSTRUCTIONS);
	struct gate_value value;
	struct loop_records sum;
	int counter;
	__u64 count, waits;
	unsigned int i;

	/* In the emulator, an operation is an instruction. */
	counter = gate_open(&attr, 0, -1);
	ASSERT_LE(0, counter);
	ASSERT_EQ(0, set_both(&self->triggers, counter));
	open_target(_metadata, self);
	/* Windows of different lengths have samples in all of their parts. */
	for (i = 0; i < windows; i++)
		run_windows(1, instructions + i * 37 % instructions);
	value = gate_read(self->target);
	count = gate_read_count(counter) * self->scale;
	sum = take_records(&self->ring);
	EXPECT_EQ(windows, value.gate_count);
	if (pmu_number("QEMU_PMU") > 0) {
		EXPECT_GE(count + count / 100, value.value);
		/* The sampler waits until the kernel has taken a sample. */
		waits = sum.samples * (pmi_delay() + HANDLER) * self->scale;
		EXPECT_LE(count - count / 100, value.value + waits);
	}
	expect_samples(_metadata, self, value.value, windows, sum.samples, 97);
	EXPECT_EQ(sum.samples, sum.exact);
	EXPECT_EQ(0, sum.outside);
	EXPECT_EQ(0, sum.lost);
	EXPECT_LT(50, sum.samples);
	close(counter);
}

TEST_F(x86_pmu_ibs, windows_of_100_have_their_samples)
{
	try_windows(_metadata, self, 8000, 100);
}

TEST_F(x86_pmu_ibs, windows_of_1000_have_their_samples)
{
	try_windows(_metadata, self, 4000, 1000);
}

TEST_F(x86_pmu_ibs, windows_of_10000_have_their_samples)
{
	try_windows(_metadata, self, 1000, 10000);
}

/* The generic event with precise_ip becomes one of IBS. */
TEST_F(x86_pmu_ibs, precise_cycles_have_a_gate)
{
	if (variant->config)
		SKIP(return, "cycles are another kind of event");
	self->attr.type = PERF_TYPE_HARDWARE;
	self->attr.config = PERF_COUNT_HW_CPU_CYCLES;
	self->attr.precise_ip = 2;
	try_windows(_metadata, self, 1000, 10000);
}

TEST_F(x86_pmu_ibs, no_sample_while_the_gate_is_closed)
{
	struct loop_records sum;
	__u64 count;

	open_target(_metadata, self);
	run_windows(100, 10000);
	count = gate_read_count(self->target);
	sum = take_records(&self->ring);
	EXPECT_LT(10, sum.samples);
	run_outside(10000000);
	sum = take_records(&self->ring);
	EXPECT_EQ(0, sum.samples);
	EXPECT_EQ(count, gate_read_count(self->target));
}

/* In the interrupt of a counter, the sampler is started and stopped by irq_work. */
TEST_F(x86_pmu_ibs, overflow_of_a_counter_opens_and_closes)
{
	struct perf_event_attr attr = instructions_attr();
	struct gate_value value;
	struct loop_records sum;
	int toggle;

	attr.sample_period = 100003;
	toggle = gate_open(&attr, 0, -1);
	ASSERT_LE(0, toggle);
	self->target = gate_open(&self->attr, 0, -1);
	ASSERT_LE(0, self->target);
	ASSERT_EQ(0, ring_map(&self->ring, self->target, RING_PAGES));
	ASSERT_EQ(0, set_starter(toggle, self->target));
	ASSERT_EQ(0, set_stopper(toggle, self->target));
	ASSERT_EQ(0, gate_ioctl(toggle, PERF_EVENT_IOC_ENABLE, 0));
	/* 100 windows, and the gate is closed at the end. */
	run_inside(200 * attr.sample_period + attr.sample_period / 2);
	ASSERT_EQ(0, gate_ioctl(toggle, PERF_EVENT_IOC_DISABLE, 0));
	value = gate_read(self->target);
	EXPECT_EQ(100, value.gate_count);
	sum = take_records(&self->ring);
	expect_samples(_metadata, self, value.value, 100, sum.samples, 95);
	close(toggle);
}

/* Interrupts come when a window has ended, and in the next one. The teardown judges them. */
TEST_F(x86_pmu_ibs, late_interrupts_are_not_unknown)
{
	struct loop_records sum;
	int i, j;

	open_target(_metadata, self);
	for (i = 0; i < 100; i++) {
		for (j = 0; j < 1000; j++) {
			run_outside(50);
			window_open();
			run_inside(50);
			window_close();
		}
		sum = take_records(&self->ring);
		EXPECT_LT(0, sum.samples);
		EXPECT_EQ(0, sum.outside);
	}
	EXPECT_EQ(100000, gate_read(self->target).gate_count);
}

/* The interrupt of an operation of user mode may come in the kernel, where the gate closes. */
TEST_F(x86_pmu_ibs, sample_of_user_mode_shows_nothing_of_the_kernel)
{
	struct {
		struct perf_event_header header;
		__u64 ip;
		__u64 nr;
		/* The callchain, and behind it the ABI of the registers, SP and IP */
		__u64 chain[PERF_MAX_STACK_DEPTH + 16];
	} sample;
	unsigned int nr = 0, nr_kernel = 0, i;

	self->attr.sample_type |= PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_REGS_INTR;
	self->attr.sample_regs_intr = 1 << X86_SP | 1 << X86_IP;
	open_target(_metadata, self);
	/* Windows of different lengths have samples in all of their parts. */
	for (i = 0; i < 4000; i++)
		run_windows(1, 1000 + i * 37 % 1000);
	while (ring_next(&self->ring, &sample, sizeof(sample))) {
		bool kernel = false;

		if (sample.header.type != PERF_RECORD_SAMPLE || (__s64)sample.ip < 0)
			continue;
		nr++;
		for (i = 0; i < sample.nr; i++)
			kernel |= (__s64)sample.chain[i] < 0 &&
				  sample.chain[i] != (__u64)PERF_CONTEXT_USER;
		for (i = 1; i <= 2; i++)
			kernel |= (__s64)sample.chain[sample.nr + i] < 0;
		nr_kernel += kernel;
	}
	EXPECT_LT(50, nr);
	EXPECT_EQ(0, nr_kernel);
}

TEST_HARNESS_MAIN
