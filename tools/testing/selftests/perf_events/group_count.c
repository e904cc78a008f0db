// SPDX-License-Identifier: GPL-2.0
/*
 * perf selftests - counts of groups, and of events that children inherit
 *
 * The tests use software events only, which any machine has. These have several PMUs: page
 * faults and the task clock are of different ones.
 */
#define _GNU_SOURCE

#include <signal.h>
#include <time.h>

#include <sys/ioctl.h>

#include "../kselftest_harness.h"
#include "event_helpers.h"

#define ROUNDS	20
#define PAGES	16

#define NR_MEMBERS	3

#define SAMPLE_RATE	"/proc/sys/kernel/perf_event_max_sample_rate"
#define SAMPLE_PERCENT	"/proc/sys/kernel/perf_cpu_time_max_percent"

struct group_values {
	__u64 nr;
	__u64 enabled;
	__u64 running;
	__u64 value[NR_MEMBERS];
};

static int software_event(__u64 config, int leader, bool disabled, bool inherit)
{
	struct perf_event_attr attr = {
		.type		= PERF_TYPE_SOFTWARE,
		.size		= sizeof(attr),
		.config		= config,
		.disabled	= disabled,
		.inherit	= inherit,
		.exclude_kernel	= 1,
	};

	if (inherit)
		attr.read_format = PERF_FORMAT_GROUP |
				   PERF_FORMAT_TOTAL_TIME_ENABLED |
				   PERF_FORMAT_TOTAL_TIME_RUNNING;

	return syscall(__NR_perf_event_open, &attr, 0, -1, leader, 0);
}

/* Take one page fault for each page. */
static void touch_pages(unsigned int nr)
{
	size_t size = nr * sysconf(_SC_PAGESIZE);
	volatile char *area;
	size_t i;

	area = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (area == MAP_FAILED)
		_exit(1);
	madvise((void *)area, size, MADV_NOHUGEPAGE);
	for (i = 0; i < size; i += size / nr)
		area[i] = 1;
	munmap((void *)area, size);
}

static __u64 count_of(struct __test_metadata *const _metadata, int fd)
{
	__u64 value = -1ULL;

	ASSERT_EQ(sizeof(value), read(fd, &value, sizeof(value)));
	return value;
}

static void write_number(const char *path, long number)
{
	FILE *file = fopen(path, "w");

	if (!file)
		return;
	fprintf(file, "%ld\n", number);
	fclose(file);
}

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}

/* A member of any PMU that joins a running group counts from then on. */
TEST(member_that_joins_late_counts)
{
	int i, leader, member;

	for (i = 0; i < ROUNDS; i++) {
		leader = software_event(PERF_COUNT_SW_TASK_CLOCK, -1, false, false);
		ASSERT_LE(0, leader);
		member = software_event(PERF_COUNT_SW_PAGE_FAULTS, leader, false, false);
		ASSERT_LE(0, member);
		touch_pages(PAGES);
		EXPECT_LE(PAGES, count_of(_metadata, member));
		close(member);
		close(leader);
	}
}

TEST(member_that_is_enabled_late_counts)
{
	int i, leader, member;

	for (i = 0; i < ROUNDS; i++) {
		leader = software_event(PERF_COUNT_SW_TASK_CLOCK, -1, false, false);
		ASSERT_LE(0, leader);
		member = software_event(PERF_COUNT_SW_PAGE_FAULTS, leader, true, false);
		ASSERT_LE(0, member);
		touch_pages(PAGES);
		EXPECT_EQ(0, count_of(_metadata, member));
		ASSERT_EQ(0, ioctl(member, PERF_EVENT_IOC_ENABLE, 0));
		touch_pages(PAGES);
		EXPECT_LE(PAGES, count_of(_metadata, member));
		close(member);
		close(leader);
	}
}

TEST(clock_that_joins_late_counts)
{
	int i, leader, member;

	for (i = 0; i < ROUNDS; i++) {
		leader = software_event(PERF_COUNT_SW_PAGE_FAULTS, -1, false, false);
		ASSERT_LE(0, leader);
		member = software_event(PERF_COUNT_SW_TASK_CLOCK, leader, false, false);
		ASSERT_LE(0, member);
		touch_pages(PAGES);
		EXPECT_LT(0, count_of(_metadata, member));
		close(member);
		close(leader);
	}
}

static void spin(double time)
{
	double end = seconds() + time;

	while (seconds() < end)
		;
}

/* Both clocks are started and stopped together, but only one of them samples. */
static void check_throttled_clock(struct __test_metadata *const _metadata, __u64 clock)
{
	struct perf_event_attr attr = {
		.type		= PERF_TYPE_SOFTWARE,
		.size		= sizeof(attr),
		.config		= clock,
		.sample_period	= 400000,
		.exclude_kernel	= 1,
	};
	__u64 leader, member;
	int fds[2];

	fds[0] = syscall(__NR_perf_event_open, &attr, 0, -1, -1, 0);
	ASSERT_LE(0, fds[0]);
	fds[1] = software_event(clock, fds[0], false, false);
	ASSERT_LE(0, fds[1]);
	spin(0.5);
	ioctl(fds[0], PERF_EVENT_IOC_DISABLE, 0);
	leader = count_of(_metadata, fds[0]);
	member = count_of(_metadata, fds[1]);
	EXPECT_LT(leader / 10 * 9, member);
	EXPECT_GT(leader / 9 * 10, member);
	/* Both clocks stood still for a while. */
	EXPECT_GT(490000000, leader);
	close(fds[1]);
	close(fds[0]);
}

TEST(clocks_of_a_throttled_group_keep_the_time_before)
{
	long rate = read_number(SAMPLE_RATE), percent = read_number(SAMPLE_PERCENT);
	int i;

	if (geteuid() || rate < 0)
		SKIP(return, "not root");
	/* A sample that is taken before the limit is off may lower the rate. */
	for (i = 0; i < 100 && read_number(SAMPLE_RATE) != 1000; i++) {
		write_number(SAMPLE_PERCENT, 25);
		write_number(SAMPLE_RATE, 1000);
		write_number(SAMPLE_PERCENT, 0);
	}
	check_throttled_clock(_metadata, PERF_COUNT_SW_CPU_CLOCK);
	check_throttled_clock(_metadata, PERF_COUNT_SW_TASK_CLOCK);
	write_number(SAMPLE_PERCENT, 25);
	write_number(SAMPLE_RATE, rate);
	write_number(SAMPLE_PERCENT, percent);
}

static void group_open(struct __test_metadata *const _metadata, int fds[NR_MEMBERS])
{
	int i;

	for (i = 0; i < NR_MEMBERS; i++) {
		fds[i] = software_event(PERF_COUNT_SW_PAGE_FAULTS, i ? fds[0] : -1, false, true);
		ASSERT_LE(0, fds[i]);
	}
}

static void group_close(int fds[NR_MEMBERS])
{
	int i;

	for (i = NR_MEMBERS - 1; i >= 0; i--)
		close(fds[i]);
}

static int group_read(int fd, struct group_values *values)
{
	int len = read(fd, values, sizeof(*values));

	if (len < 0)
		return -errno;
	return len == sizeof(*values) && values->nr == NR_MEMBERS ? 0 : -EPROTO;
}

/* Counts of ended children belong to the event. */
TEST(reset_takes_the_counts_of_children_as_well)
{
	struct group_values values;
	int i, fds[NR_MEMBERS];
	pid_t pid;

	group_open(_metadata, fds);
	pid = fork();
	if (!pid) {
		touch_pages(1000);
		_exit(0);
	}
	wait_for_success(_metadata, pid);
	ASSERT_EQ(0, group_read(fds[0], &values));
	for (i = 0; i < NR_MEMBERS; i++)
		EXPECT_LE(1000, values.value[i]);

	/* Reset the member alone, then the rest. */
	ASSERT_EQ(0, ioctl(fds[1], PERF_EVENT_IOC_RESET, 0));
	ASSERT_EQ(0, group_read(fds[0], &values));
	EXPECT_LE(1000, values.value[0]);
	EXPECT_GT(1000, values.value[1]);
	EXPECT_LE(1000, values.value[2]);
	ASSERT_EQ(0, ioctl(fds[0], PERF_EVENT_IOC_RESET, PERF_IOC_FLAG_GROUP));
	ASSERT_EQ(0, group_read(fds[0], &values));
	for (i = 0; i < NR_MEMBERS; i++)
		EXPECT_GT(1000, values.value[i]);
	/* The times are not reset, like those of the event itself. */
	EXPECT_LT(0, values.running);
	group_close(fds);
}

/* Start a child that keeps forking children, each of which inherits the group. */
static pid_t start_storm(void)
{
	pid_t pid = fork(), child;

	if (pid)
		return pid;
	for (;;) {
		child = fork();
		if (!child)
			_exit(0);
		if (child > 0)
			waitpid(child, NULL, 0);
	}
}

#define STORMS		4
#define MIN_READS	100

TEST(group_can_be_read_while_tasks_fork_and_exit)
{
	unsigned int reads = 0, refused = 0, other = 0, back = 0;
	struct group_values values, last = {};
	int i, ret, fds[NR_MEMBERS];
	pid_t storms[STORMS];
	double end;

	group_open(_metadata, fds);
	for (i = 0; i < STORMS; i++)
		storms[i] = start_storm();

	/* A slow machine needs more time for enough reads. */
	for (end = seconds() + 3; seconds() < end || reads <= MIN_READS; reads++) {
		ret = group_read(fds[0], &values);
		if (ret) {
			refused += ret == -ECHILD;
			other += ret != -ECHILD;
			continue;
		}
		for (i = 0; i < NR_MEMBERS; i++)
			back += values.value[i] < last.value[i];
		last = values;
	}

	for (i = 0; i < STORMS; i++)
		kill(storms[i], SIGKILL);
	for (i = 0; i < STORMS; i++)
		waitpid(storms[i], NULL, 0);
	TH_LOG("%u reads, %u refused with ECHILD", reads, refused);
	EXPECT_EQ(0, refused);
	EXPECT_EQ(0, other);
	EXPECT_EQ(0, back);
	group_close(fds);
}

TEST_HARNESS_MAIN
