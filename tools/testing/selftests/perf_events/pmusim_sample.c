// SPDX-License-Identifier: GPL-2.0
/*
 * pmusim selftests - overflows give exactly the samples that they must
 */
#define _GNU_SOURCE

#include "../kselftest_harness.h"
#include "pmusim_helpers.h"

#define PERIOD		100
#define NR_SAMPLES	200

/* Flags of the log for the context that handled an overflow. */
#define IN_HARDIRQ	1
#define IN_SOFTIRQ	2
#define IN_NMI		4

static struct perf_event_attr sampling(__u64 config)
{
	struct perf_event_attr attr = sim_attr("pmusim", config);

	attr.sample_period = PERIOD;
	attr.sample_type = PERF_SAMPLE_PERIOD | PERF_SAMPLE_READ;
	return attr;
}

FIXTURE(overflow)
{
	struct perf_event_attr attr;
	int fd;
	struct sim_ring ring;
};

FIXTURE_VARIANT(overflow)
{
	int context;
	unsigned int in;
	unsigned int not_in;
};

FIXTURE_VARIANT_ADD(overflow, hardirq) {
	.context = SIM_HARDIRQ, .in = IN_HARDIRQ, .not_in = IN_NMI,
};

FIXTURE_VARIANT_ADD(overflow, irq_work) {
	.context = SIM_IRQ_WORK, .in = IN_HARDIRQ, .not_in = IN_NMI,
};

FIXTURE_VARIANT_ADD(overflow, softirq) {
	.context = SIM_SOFTIRQ, .in = IN_SOFTIRQ, .not_in = IN_HARDIRQ | IN_NMI,
};

FIXTURE_VARIANT_ADD(overflow, task) {
	.context = SIM_TASK, .not_in = IN_HARDIRQ | IN_SOFTIRQ | IN_NMI,
};

FIXTURE_VARIANT_ADD(overflow, nmi_like) {
	.context = SIM_NMI_LIKE, .in = IN_NMI,
};

FIXTURE_VARIANT_ADD(overflow, nmi) {
	.context = SIM_NMI, .in = IN_NMI,
};

FIXTURE_SETUP(overflow)
{
	int fd;

	if (sim_skips(_metadata))
		return;
	self->attr = sampling(SIM_OFLOW(variant->context));
	fd = sim_open(&self->attr, -1, 0, -1);
	if (fd == -EOPNOTSUPP && variant->context >= SIM_NMI_LIKE)
		SIM_SKIP("pmusim is a module, or this machine sends itself no NMIs");
	ASSERT_LE(0, fd);
	close(fd);
}

FIXTURE_TEARDOWN(overflow)
{
	ring_unmap(&self->ring);
	sim_defaults();
}

/* Check that each sample comes at its exact count. */
static void check_samples(struct __test_metadata *_metadata, struct sim_ring *ring,
			  unsigned int nr)
{
	static struct sim_record record;
	unsigned int i = 0;

	while (ring_next(ring, &record)) {
		ASSERT_EQ(PERF_RECORD_SAMPLE, record.header.type);
		i++;
		/* PERIOD comes first, then the values of READ, beginning with the count. */
		EXPECT_EQ(PERIOD, record.word[0]);
		EXPECT_EQ(i * PERIOD, record.word[1]);
	}
	EXPECT_EQ(nr, i);
}

TEST_F(overflow, each_period_of_a_cpu_is_one_sample)
{
	struct sim_log line;
	unsigned int n = 0;
	FILE *log;

	self->fd = sim_open(&self->attr, -1, 0, -1);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, ring_map(&self->ring, self->fd, 16));
	ASSERT_EQ(0, log_on());
	ASSERT_EQ(0, sim_tick(0, 0, NR_SAMPLES * PERIOD));
	log = log_open();
	ASSERT_NE(NULL, log);

	EXPECT_EQ(NR_SAMPLES * PERIOD, sim_count(self->fd));
	check_samples(_metadata, &self->ring, NR_SAMPLES);

	while (log_next(log, &line)) {
		if (strcmp(line.op, "overflow"))
			continue;
		n++;
		EXPECT_EQ(variant->in, line.flags & variant->in);
		EXPECT_EQ(0, line.flags & variant->not_in);
		EXPECT_EQ(0, line.cpu);
	}
	EXPECT_EQ(NR_SAMPLES, n);
	fclose(log);
}

TEST_F(overflow, each_period_of_a_task_is_one_sample)
{
	ASSERT_EQ(0, run_on(0));
	self->fd = sim_open(&self->attr, 0, -1, -1);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, ring_map(&self->ring, self->fd, 16));
	ASSERT_EQ(0, sim_tick(0, 0, NR_SAMPLES * PERIOD));
	EXPECT_EQ(NR_SAMPLES * PERIOD, sim_count(self->fd));
	check_samples(_metadata, &self->ring, NR_SAMPLES);
}

TEST_F(overflow, a_tick_may_end_anywhere_in_a_period)
{
	unsigned int i, sum = 0;

	self->fd = sim_open(&self->attr, -1, 0, -1);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, ring_map(&self->ring, self->fd, 16));
	for (i = 1; i < 150; i++) {
		ASSERT_EQ(0, sim_tick(0, 0, i));
		sum += i;
		ASSERT_EQ(sum, sim_count(self->fd));
	}
	check_samples(_metadata, &self->ring, sum / PERIOD);
}

TEST_F(overflow, two_events_overflow_at_the_same_count)
{
	struct sim_ring other = {};
	int fd;

	self->fd = sim_open(&self->attr, -1, 0, -1);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, ring_map(&self->ring, self->fd, 16));
	fd = sim_open(&self->attr, -1, 0, -1);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, ring_map(&other, fd, 16));
	ASSERT_EQ(0, sim_tick(0, 0, 10 * PERIOD));
	ASSERT_EQ(0, sim_tick(0, 1, 20 * PERIOD));
	check_samples(_metadata, &self->ring, 10);
	check_samples(_metadata, &other, 20);
	ring_unmap(&other);
}

struct throttling {
	unsigned int	samples;
	unsigned int	stops;
	unsigned int	starts;
};

static void count_records(struct sim_ring *ring, struct throttling *sum)
{
	static struct sim_record record;

	while (ring_next(ring, &record)) {
		sum->samples += record.header.type == PERF_RECORD_SAMPLE;
		sum->stops += record.header.type == PERF_RECORD_THROTTLE;
		sum->starts += record.header.type == PERF_RECORD_UNTHROTTLE;
	}
}

TEST_F(overflow, too_many_samples_throttle_until_the_next_timer_tick)
{
	struct throttling sum = {};
	unsigned int i;
	__u64 count, end;

	self->attr.sample_period = 1;
	self->attr.sample_type = 0;
	self->fd = sim_open(&self->attr, -1, 0, -1);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, ring_map(&self->ring, self->fd, 64));
	ASSERT_NE(0, max_sample_rate(1000));

	/* Allow a few samples in each timer tick, and cause far more. */
	end = now_ns() + 10000000000ULL;
	while (!sum.stops && now_ns() < end) {
		ASSERT_EQ(0, sim_tick(0, 0, 100));
		count_records(&self->ring, &sum);
	}
	EXPECT_NE(0, sum.stops);

	/* The event counts nothing while it is stopped, and then continues. */
	for (i = 0; i < 1000 && sum.starts < sum.stops; i++) {
		sleep_ms(10);
		count_records(&self->ring, &sum);
	}
	EXPECT_EQ(sum.stops, sum.starts);
	count = sim_count(self->fd);
	EXPECT_EQ(sum.samples, count);
	max_sample_rate(1000000);
	ASSERT_EQ(0, sim_tick(0, 0, 1));
	EXPECT_EQ(count + 1, sim_count(self->fd));
}

/* The timer that the event counts also stops it. */
TEST_F(overflow, a_timer_that_is_too_fast_is_throttled_again_and_again)
{
	struct throttling sum = {};
	__u64 end;

	self->attr.config |= SIM_TIMER;
	self->attr.config1 = 20000;
	self->attr.sample_period = 1;
	self->attr.sample_type = 0;
	self->attr.disabled = 1;
	ASSERT_NE(0, max_sample_rate(1));
	self->fd = sim_open(&self->attr, -1, 0, -1);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, ring_map(&self->ring, self->fd, 64));
	ASSERT_EQ(0, sim_enable(self->fd));
	end = now_ns() + 20000000000ULL;
	while (sum.starts < 10 && now_ns() < end) {
		sleep_ms(5);
		count_records(&self->ring, &sum);
	}
	EXPECT_LE(10, sum.starts);
	ASSERT_EQ(0, sim_disable(self->fd));
	count_records(&self->ring, &sum);
	EXPECT_LE(sum.starts, sum.stops);
	EXPECT_GE(sum.starts + 1, sum.stops);
	/* An event that each sample throttles has at least one sample in each run. */
	EXPECT_LE(sum.stops, sum.samples);
}

/* The timer tick must find the member of the group. */
TEST_F(overflow, a_throttled_member_of_a_group_goes_on_too)
{
	struct perf_event_attr counting = self->attr;
	struct throttling sum = {};
	__u64 end;
	int leader;

	counting.sample_period = 0;
	leader = sim_open(&counting, -1, 0, -1);
	ASSERT_LE(0, leader);
	self->attr.config |= SIM_TIMER;
	self->attr.config1 = 20000;
	self->attr.sample_period = 1;
	self->attr.sample_type = 0;
	ASSERT_NE(0, max_sample_rate(1));
	self->fd = sim_open(&self->attr, -1, 0, leader);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, ring_map(&self->ring, self->fd, 64));
	/* A kernel that throttles whole groups writes the record for the leader. */
	ASSERT_EQ(0, ioctl(leader, PERF_EVENT_IOC_SET_OUTPUT, self->fd));
	end = now_ns() + 20000000000ULL;
	while (sum.starts < 10 && now_ns() < end) {
		sleep_ms(5);
		count_records(&self->ring, &sum);
	}
	EXPECT_LE(10, sum.starts);
	ASSERT_EQ(0, sim_disable(self->fd));
	close(leader);
}

FIXTURE(sample)
{
	struct sim_ring ring;
};

FIXTURE_SETUP(sample)
{
	if (sim_skips(_metadata))
		return;
	ASSERT_EQ(0, run_on(0));
}

FIXTURE_TEARDOWN(sample)
{
	ring_unmap(&self->ring);
	sim_defaults();
}

TEST_F(sample, the_skid_is_counted_before_the_sample)
{
	struct perf_event_attr attr = sampling(0);
	static struct sim_record record;
	unsigned int i = 0;
	int fd;

	attr.config1 = SIM_SKID(7);
	fd = sim_open(&attr, -1, 0, -1);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, ring_map(&self->ring, fd, 16));
	ASSERT_EQ(0, sim_tick(0, 0, 10 * PERIOD + 50));
	EXPECT_EQ(10 * PERIOD + 50, sim_count(fd));
	while (ring_next(&self->ring, &record)) {
		i++;
		EXPECT_EQ(i * PERIOD + 7, record.word[1]);
	}
	EXPECT_EQ(10, i);
}

/* Drivers of uncore PMUs stop an event only to take it off the PMU. */
TEST_F(sample, a_throttled_clock_leaves_a_member_of_an_uncore_pmu_running)
{
	struct perf_event_attr member = sim_attr("pmusim_unc", SIM_MANUAL);
	struct perf_event_attr clock = {
		.type = PERF_TYPE_SOFTWARE, .size = sizeof(clock),
		.config = PERF_COUNT_SW_CPU_CLOCK, .sample_period = 100000,
	};
	int cpu = sysconf(_SC_NPROCESSORS_ONLN) - 1, leader, fd;
	struct throttling sum = {};
	__u64 ticks = 0, end;

	/* Each sample throttles the group. */
	ASSERT_NE(0, max_sample_rate(1));
	leader = sim_open(&clock, -1, cpu, -1);
	ASSERT_LE(0, leader);
	ASSERT_EQ(0, ring_map(&self->ring, leader, 64));
	fd = sim_open(&member, -1, cpu, leader);
	ASSERT_LE(0, fd);
	end = now_ns() + 20000000000ULL;
	while (sum.stops < 10 && now_ns() < end) {
		ASSERT_EQ(0, sim_tick_pmu("pmusim_unc", cpu, 0, 7));
		ticks++;
		count_records(&self->ring, &sum);
	}
	EXPECT_LE(10, sum.stops);
	EXPECT_EQ(ticks * 7, sim_count(fd));
	close(leader);
	close(fd);
}

TEST_F(sample, a_narrow_counter_samples_a_long_period)
{
	struct perf_event_attr attr = sampling(SIM_WIDTH(8));
	int fd;

	attr.sample_period = 1000;
	fd = sim_open(&attr, -1, 0, -1);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, ring_map(&self->ring, fd, 16));
	ASSERT_EQ(0, sim_tick(0, 0, 9999));
	EXPECT_EQ(9, ring_count(&self->ring, PERF_RECORD_SAMPLE));
	ASSERT_EQ(0, sim_tick(0, 0, 1));
	EXPECT_EQ(1, ring_count(&self->ring, PERF_RECORD_SAMPLE));
	EXPECT_EQ(10000, sim_count(fd));
}

TEST_F(sample, a_new_period_counts_from_where_it_was_set)
{
	struct perf_event_attr attr = sampling(0);
	__u64 period = 10;
	int fd;

	fd = sim_open(&attr, -1, 0, -1);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, ring_map(&self->ring, fd, 16));
	ASSERT_EQ(0, sim_tick(0, 0, PERIOD / 2));
	ASSERT_EQ(0, sim_ioctl(fd, PERF_EVENT_IOC_PERIOD, (unsigned long)&period));
	EXPECT_EQ(0, ring_count(&self->ring, PERF_RECORD_SAMPLE));
	ASSERT_EQ(0, sim_tick(0, 0, 100));
	EXPECT_EQ(10, ring_count(&self->ring, PERF_RECORD_SAMPLE));
}

static void spin_ms(unsigned int ms)
{
	__u64 end = now_ns() + ms * 1000000ULL;

	while (now_ns() < end)
		;
}

/* Many events come, and then few: a sample must come long before the present period is over. */
TEST_F(sample, a_frequency_adapts_to_what_comes_no_more)
{
	struct perf_event_attr attr = sampling(0);
	unsigned int i, n = 16, few;
	int fd;

	attr.freq = 1;
	attr.sample_freq = 100;
	fd = sim_open(&attr, -1, 0, -1);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, ring_map(&self->ring, fd, 64));
	/* While the CPU is not idle, each timer tick adapts the period by an eighth. */
	for (i = 0; i < 60; i++) {
		ASSERT_EQ(0, sim_tick(0, 0, n));
		if (n < 200000)
			n += n / 4;
		spin_ms(8);
	}
	ring_count(&self->ring, PERF_RECORD_SAMPLE);
	for (few = 0; few < 400; few++) {
		ASSERT_EQ(0, sim_tick(0, 0, 1));
		spin_ms(8);
		if (ring_count(&self->ring, PERF_RECORD_SAMPLE))
			break;
	}
	EXPECT_GT(400, few);
	close(fd);
}

TEST_F(sample, the_kernel_is_not_sampled_if_excluded)
{
	struct perf_event_attr attr = sampling(0);
	int fd;

	attr.exclude_kernel = 1;
	fd = sim_open(&attr, 0, -1, -1);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, ring_map(&self->ring, fd, 16));
	/* A task that writes to a file is in the kernel. */
	ASSERT_EQ(0, sim_tick(0, 0, 10 * PERIOD));
	EXPECT_EQ(0, ring_count(&self->ring, PERF_RECORD_SAMPLE));
}

TEST_F(sample, no_interrupt_means_no_sampling)
{
	struct perf_event_attr attr = sampling(0);
	int fd;

	ASSERT_EQ(0, sim_put("pmusim/capabilities", "+no_interrupt"));
	EXPECT_EQ(-EOPNOTSUPP, sim_open(&attr, -1, 0, -1));
	attr.sample_period = 0;
	fd = sim_open(&attr, -1, 0, -1);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, sim_tick(0, 0, 12345));
	EXPECT_EQ(12345, sim_count(fd));
	EXPECT_EQ(-EBUSY, sim_put("pmusim/capabilities", "-no_interrupt"));
	close(fd);
}

/* The leader has no interrupts and needs no tick, but its member does. */
TEST_F(sample, a_member_of_a_leader_without_interrupts_is_unthrottled)
{
	struct perf_event_attr attr = sim_attr("pmusim", 0);
	int i, leader, clock;
	__u64 before;

	ASSERT_EQ(0, sim_put("pmusim/capabilities", "+no_interrupt"));
	leader = sim_open(&attr, -1, 0, -1);
	ASSERT_LE(0, leader);
	clock = sim_clock(leader, 0);
	ASSERT_LE(0, clock);
	ASSERT_LT(0, max_sample_rate(1000));
	usleep(100000);
	before = sim_count(clock);
	/* It runs for some samples in each tick. */
	for (i = 0; i < 100 && sim_count(clock) == before; i++)
		usleep(20000);
	EXPECT_LT(before, sim_count(clock));
	close(clock);
	close(leader);
}

TEST_F(sample, each_overflow_is_a_packet_of_the_aux_output)
{
	struct perf_event_attr aux = sim_attr("pmusim_aux", 0);
	struct perf_event_attr attr = sampling(0);
	int leader, fd;

	aux.config1 = SIM_CHUNK(256);
	aux.disabled = 1;
	leader = sim_open(&aux, -1, 0, -1);
	ASSERT_LE(0, leader);
	ASSERT_EQ(0, ring_map(&self->ring, leader, 16));
	ASSERT_EQ(0, ring_map_aux(&self->ring, 16 * page_size(),
				  PROT_READ | PROT_WRITE));
	attr.aux_output = 1;
	fd = sim_open(&attr, -1, 0, leader);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, sim_enable(leader));
	ASSERT_EQ(0, sim_tick(0, 0, 10 * PERIOD));
	/* irq_work writes the packet, in the next interrupt at the latest. */
	sleep_ms(1);
	ASSERT_EQ(0, sim_disable(leader));
	EXPECT_EQ(10 * 256, aux_head(&self->ring));
	EXPECT_TRUE(aux_drain(&self->ring));
	EXPECT_EQ(0, ring_count(&self->ring, PERF_RECORD_SAMPLE));
}

TEST_HARNESS_MAIN
