// SPDX-License-Identifier: GPL-2.0
/* perf selftests on an emulated x86 PMU - samples, and counters that stop in the NMI */
#define _GNU_SOURCE

#include "../kselftest_harness.h"
#include "x86_pmu_helpers.h"

#define RING_PAGES	64
#define EFLAGS_IF	0x200
/* PERF_REG_X86_FLAGS of asm/perf_regs.h */
#define REG_FLAGS	9
/* The emulator detects an overflow at the end of a basic block, and reports it later. */
#define MAX_SKID	(64 + pmi_delay())

static const char time_limit[] = "/proc/sys/kernel/perf_cpu_time_max_percent";
static const char rate_limit[] = "/proc/sys/kernel/perf_event_max_sample_rate";

struct sample {
	struct perf_event_header	header;
	__u64				ip;
	union {
		__u64			count;
		struct {
			__u64		abi;
			__u64		flags;
		} regs;
	};
};

FIXTURE(x86_pmu_sample)
{
	struct perf_event_attr attr;
	struct perf_event_mmap_page *page;
	__u64 nr_samples;
	__u64 nr_in_loop;
	__u64 nr_irqs_off;
	__u64 nr_late;
	__u64 nr_other;
	long watchdog;
	long percent;
	long rate;
	int fd;
};

static void restore(const char *path, long number)
{
	char text[24];

	snprintf(text, sizeof(text), "%ld", number);
	if (number >= 0)
		write_file(path, text);
}

FIXTURE_SETUP(x86_pmu_sample)
{
	self->fd = -1;
	self->page = MAP_FAILED;
	self->watchdog = -1;
	self->percent = -1;
	self->attr = instructions_attr();
	self->attr.sample_period = 100000;
	self->attr.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_READ;
	if (pmu_setup(_metadata))
		return;
	self->watchdog = number_in(NMI_WATCHDOG);
	self->percent = number_in(time_limit);
	self->rate = number_in(rate_limit);
	/* Interrupts of the NMI watchdog would be counted with those of samples. */
	if (self->watchdog > 0)
		write_file(NMI_WATCHDOG, "0");
	/*
	 * An NMI takes long in an emulator, and throttled events lose samples. Each
	 * earlier overflow may have lowered the rate, which cannot be written while the
	 * limit of time is off.
	 */
	write_file(time_limit, "25");
	if (!write_file(rate_limit, "1000000") || !write_file(time_limit, "0"))
		SKIP(return, "needs root to turn off the limits of samples");
}

FIXTURE_TEARDOWN(x86_pmu_sample)
{
	if (self->page != MAP_FAILED)
		munmap(self->page, (1 + RING_PAGES) * sysconf(_SC_PAGESIZE));
	close(self->fd);
	restore(NMI_WATCHDOG, self->watchdog);
	if (self->percent < 0)
		return;
	write_file(time_limit, "25");
	restore(rate_limit, self->rate);
	restore(time_limit, self->percent);
}

static void open_event(struct __test_metadata *const _metadata,
		       FIXTURE_DATA(x86_pmu_sample) * self)
{
	self->fd = pmu_open(&self->attr, -1);
	ASSERT_LE(0, self->fd);
	self->page = page_map(self->fd, RING_PAGES);
	ASSERT_NE(MAP_FAILED, self->page);
}

static void look_at(FIXTURE_DATA(x86_pmu_sample) * self, const struct sample *sample)
{
	__u64 due = ++self->nr_samples * self->attr.sample_period;

	self->nr_in_loop += in_work_loop(sample->ip);
	if (self->attr.sample_type & PERF_SAMPLE_READ)
		self->nr_late += sample->count < due || sample->count - due > MAX_SKID;
	else
		self->nr_irqs_off += !(sample->regs.flags & EFLAGS_IF);
}

/* Read all records. The buffer is large enough not to wrap in any test. */
static void read_samples(FIXTURE_DATA(x86_pmu_sample) * self)
{
	const char *data = (const char *)self->page + sysconf(_SC_PAGESIZE);
	__u64 head = __atomic_load_n(&self->page->data_head, __ATOMIC_ACQUIRE);
	__u64 tail = self->page->data_tail;

	while (tail < head) {
		const struct sample *sample = (const struct sample *)(data + tail);

		if (sample->header.type == PERF_RECORD_SAMPLE)
			look_at(self, sample);
		else
			self->nr_other++;
		tail += sample->header.size;
	}
	self->page->data_tail = tail;
}

/* Work until the interrupt of an overflow at the end is there as well. */
static void work_past_overflow(__u64 times)
{
	work_loop(times);
	work_loop(1 + pmi_delay());
}

TEST_F(x86_pmu_sample, each_period_gives_one_sample)
{
	__u64 count;

	open_event(_metadata, self);
	ASSERT_EQ(0, pmu_enable(self->fd));
	work_past_overflow(10000000);
	ASSERT_EQ(0, pmu_disable(self->fd));
	count = pmu_read(self->fd);
	read_samples(self);
	EXPECT_LE(20000000, count);
	EXPECT_EQ(count / self->attr.sample_period, self->nr_samples);
	EXPECT_EQ(200, self->nr_samples);
	/* A late interrupt may come in a timer tick. */
	EXPECT_LE(pmi_delay() ? 190 : 200, self->nr_in_loop);
	EXPECT_EQ(0, self->nr_late);
	EXPECT_EQ(0, self->nr_other);
}

TEST_F(x86_pmu_sample, short_periods_are_as_exact)
{
	__u64 count;

	self->attr.sample_period = 10007;
	open_event(_metadata, self);
	ASSERT_EQ(0, pmu_enable(self->fd));
	work_loop(1000000);
	ASSERT_EQ(0, pmu_disable(self->fd));
	count = pmu_read(self->fd);
	read_samples(self);
	EXPECT_EQ(count / self->attr.sample_period, self->nr_samples);
	EXPECT_EQ(199, self->nr_samples);
	EXPECT_EQ(0, self->nr_late);
	EXPECT_EQ(0, self->nr_other);
}

TEST_F(x86_pmu_sample, period_can_be_changed_between_samples)
{
	__u64 period = 50000;

	open_event(_metadata, self);
	ASSERT_EQ(0, pmu_enable(self->fd));
	work_loop(525000);
	read_samples(self);
	EXPECT_EQ(10, self->nr_samples);
	ASSERT_EQ(0, ioctl(self->fd, PERF_EVENT_IOC_PERIOD, &period));
	work_loop(525000);
	ASSERT_EQ(0, pmu_disable(self->fd));
	read_samples(self);
	/* The period that began at 1000000 may already be the new one. */
	EXPECT_LE(30, self->nr_samples);
	EXPECT_GE(31, self->nr_samples);
}

static int nr_signals;

static void count_signal(int signal)
{
	__atomic_fetch_add(&nr_signals, 1, __ATOMIC_RELAXED);
}

TEST_F(x86_pmu_sample, each_sample_sends_one_signal)
{
	self->attr.wakeup_events = 1;
	open_event(_metadata, self);
	ASSERT_NE(SIG_ERR, signal(SIGIO, count_signal));
	ASSERT_EQ(0, fcntl(self->fd, F_SETFL, O_ASYNC));
	ASSERT_EQ(0, fcntl(self->fd, F_SETOWN, getpid()));
	ASSERT_EQ(0, pmu_enable(self->fd));
	work_past_overflow(2500000);
	ASSERT_EQ(0, pmu_disable(self->fd));
	read_samples(self);
	EXPECT_EQ(50, self->nr_samples);
	EXPECT_EQ(50, __atomic_load_n(&nr_signals, __ATOMIC_RELAXED));
}

/* Sum over all processors of a line in /proc/interrupts. */
static long nr_interrupts(const char *name)
{
	char line[512];
	long sum = -1;
	FILE *file;

	file = fopen("/proc/interrupts", "r");
	if (!file)
		return -1;
	while (sum < 0 && fgets(line, sizeof(line), file)) {
		char *next, *end = strstr(line, name);
		long number;

		if (!end)
			continue;
		sum = 0;
		end += strlen(name);
		do {
			next = end;
			number = strtol(next, &end, 10);
			sum += number;
		} while (end != next);
	}
	fclose(file);
	return sum;
}

TEST_F(x86_pmu_sample, each_sample_is_a_non_maskable_interrupt)
{
	long before = nr_interrupts("NMI:");

	ASSERT_LE(0, before);
	open_event(_metadata, self);
	ASSERT_EQ(0, pmu_enable(self->fd));
	work_past_overflow(5000000);
	ASSERT_EQ(0, pmu_disable(self->fd));
	read_samples(self);
	EXPECT_EQ(100, self->nr_samples);
	EXPECT_EQ(100, nr_interrupts("NMI:") - before);
}

/* Fork, because the kernel often turns interrupts off while it creates a task. */
TEST_F(x86_pmu_sample, samples_arrive_with_interrupts_off)
{
	int i;

	self->attr.exclude_kernel = 0;
	self->attr.exclude_user = 1;
	self->attr.sample_period = 10007;
	self->attr.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_REGS_INTR;
	self->attr.sample_regs_intr = 1ULL << REG_FLAGS;
	open_event(_metadata, self);
	ASSERT_EQ(0, pmu_enable(self->fd));
	for (i = 0; i < 100; i++) {
		pid_t pid = fork();

		ASSERT_LE(0, pid);
		if (!pid)
			_exit(0);
		ASSERT_EQ(pid, waitpid(pid, NULL, 0));
	}
	ASSERT_EQ(0, pmu_disable(self->fd));
	read_samples(self);
	EXPECT_LT(50, self->nr_samples);
	EXPECT_LT(0, self->nr_irqs_off);
	EXPECT_GT(self->nr_samples, self->nr_irqs_off);
}

/* The handler of the third overflow itself stops the counter. */
TEST_F(x86_pmu_sample, refresh_stops_the_counter_in_the_nmi)
{
	__u64 count;

	self->attr.sample_period = 10000;
	open_event(_metadata, self);
	ASSERT_EQ(0, ioctl(self->fd, PERF_EVENT_IOC_REFRESH, 3));
	work_loop(1000000);
	count = pmu_read(self->fd);
	EXPECT_LE(30000, count);
	EXPECT_GE(30000 + MAX_SKID, count);
	EXPECT_EQ(0, self->page->index);
	work_loop(1000000);
	EXPECT_EQ(count, pmu_read(self->fd));
	read_samples(self);
	EXPECT_EQ(3, self->nr_samples);
	EXPECT_EQ(0, self->nr_late);
}

TEST_F(x86_pmu_sample, refresh_stops_the_group_at_the_same_instruction)
{
	struct perf_event_attr attr = pmu_attr(PERF_TYPE_RAW, RAW_INSTRUCTIONS);
	int sibling;

	self->attr.sample_period = 25000;
	open_event(_metadata, self);
	attr.disabled = 0;
	sibling = pmu_open(&attr, self->fd);
	ASSERT_LE(0, sibling);
	ASSERT_EQ(0, ioctl(self->fd, PERF_EVENT_IOC_REFRESH, 2));
	work_loop(1000000);
	EXPECT_LE(50000, pmu_read(self->fd));
	EXPECT_GE(50000 + MAX_SKID, pmu_read(self->fd));
	EXPECT_EQ(pmu_read(self->fd), pmu_read(sibling));
	close(sibling);
}

/* A member that samples too often is stopped until the next tick, together with the group. */
TEST_F(x86_pmu_sample, throttled_group_counts_the_same_work)
{
	struct perf_event_attr attr = pmu_attr(PERF_TYPE_RAW, RAW_INSTRUCTIONS);
	int leader;

	ASSERT_TRUE(write_file(time_limit, "25"));
	ASSERT_TRUE(write_file(rate_limit, "1000"));
	leader = pmu_open(&attr, -1);
	ASSERT_LE(0, leader);
	self->attr.sample_period = 1000;
	self->attr.disabled = 0;
	self->fd = pmu_open(&self->attr, leader);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, pmu_enable(leader));
	work_loop(5000000);
	ASSERT_EQ(0, pmu_disable(leader));
	EXPECT_EQ(pmu_read(leader), pmu_read(self->fd));
	EXPECT_GT(2 * 5000000, pmu_read(self->fd));
	close(leader);
}

static unsigned int count_samples(struct perf_event_mmap_page *page)
{
	const char *data = (const char *)page + sysconf(_SC_PAGESIZE);
	__u64 at, head = __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE);
	unsigned int nr = 0;

	for (at = 0; at < head; at += ((struct perf_event_header *)(data + at))->size)
		nr += ((struct perf_event_header *)(data + at))->type == PERF_RECORD_SAMPLE;
	return nr;
}

/* Both overflow at one instruction, and the handler of the first one stops both. */
TEST_F(x86_pmu_sample, members_of_a_throttled_group_go_on_sampling)
{
	struct perf_event_attr attr = pmu_attr(PERF_TYPE_RAW, RAW_INSTRUCTIONS);
	struct perf_event_mmap_page *page;
	int leader;

	ASSERT_TRUE(write_file(time_limit, "25"));
	ASSERT_TRUE(write_file(rate_limit, "1000"));
	attr.sample_period = 1000;
	attr.sample_type = PERF_SAMPLE_IP;
	leader = pmu_open(&attr, -1);
	ASSERT_LE(0, leader);
	page = page_map(leader, RING_PAGES);
	ASSERT_NE(MAP_FAILED, page);
	attr.disabled = 0;
	self->fd = pmu_open(&attr, leader);
	ASSERT_LE(0, self->fd);
	self->page = page_map(self->fd, RING_PAGES);
	ASSERT_NE(MAP_FAILED, self->page);
	ASSERT_EQ(0, pmu_enable(leader));
	work_loop(20000000);
	ASSERT_EQ(0, pmu_disable(leader));
	EXPECT_LT(10, count_samples(page));
	EXPECT_LT(count_samples(page) / 2, count_samples(self->page));
	munmap(page, (1 + RING_PAGES) * sysconf(_SC_PAGESIZE));
	close(leader);
}

/* A clock is not in the handler of the PMU, whose fixed counters stop with the others. */
TEST_F(x86_pmu_sample, group_of_a_throttled_clock_counts_the_same_work)
{
	struct perf_event_attr attr = pmu_attr(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK);
	struct perf_event_attr raw = pmu_attr(PERF_TYPE_RAW, RAW_INSTRUCTIONS);
	struct perf_event_attr fixed = instructions_attr();
	int leader, member;

	ASSERT_TRUE(write_file(time_limit, "25"));
	ASSERT_TRUE(write_file(rate_limit, "1000"));
	attr.sample_period = 10000;
	leader = pmu_open(&attr, -1);
	ASSERT_LE(0, leader);
	raw.disabled = 0;
	fixed.disabled = 0;
	self->fd = pmu_open(&fixed, leader);
	ASSERT_LE(0, self->fd);
	member = pmu_open(&raw, leader);
	ASSERT_LE(0, member);
	ASSERT_EQ(0, pmu_enable(leader));
	work_loop(20000000);
	ASSERT_EQ(0, pmu_disable(leader));
	EXPECT_GT(2 * 20000000, pmu_read(member));
	EXPECT_EQ(pmu_read(member), pmu_read(self->fd));
	close(member);
	close(leader);
}

TEST_F(x86_pmu_sample, refresh_starts_again_where_it_stopped)
{
	__u64 count;

	self->attr.sample_period = 10000;
	open_event(_metadata, self);
	ASSERT_EQ(0, ioctl(self->fd, PERF_EVENT_IOC_REFRESH, 3));
	work_loop(1000000);
	ASSERT_EQ(0, ioctl(self->fd, PERF_EVENT_IOC_REFRESH, 2));
	work_loop(1000000);
	count = pmu_read(self->fd);
	EXPECT_LE(50000, count);
	EXPECT_GE(50000 + MAX_SKID, count);
	read_samples(self);
	EXPECT_EQ(5, self->nr_samples);
	EXPECT_EQ(0, self->nr_late);
}

TEST_HARNESS_MAIN
