// SPDX-License-Identifier: GPL-2.0
/*
 * perf user page selftests - times, and events that have no counter to read
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <linux/hw_breakpoint.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "../kselftest_harness.h"
#include "user_page_helpers.h"

/* Skip a test that needs the time if the machine's clock does not provide it. */
#define SKIP_WITHOUT_TIME(page) do {					\
	if (!(page)->cap_user_time)					\
		SKIP(return, "no cap_user_time on this machine");	\
} while (0)

FIXTURE(times)
{
	struct sample_limits limits;
	struct perf_event_mmap_page *page;
	int fd;
};

FIXTURE_SETUP(times)
{
	user_page_setup(_metadata);
}

FIXTURE_TEARDOWN(times)
{
	EXPECT_EQ(0, sample_limits_restore(&self->limits));
}

/* Open the event and its page as self->fd and self->page. */
#define OPEN(attr, pid, cpu, nr_data) do {				\
	self->fd = user_open(attr, pid, cpu, -1);			\
	ASSERT_LE(0, self->fd);						\
	self->page = page_map(self->fd, nr_data);			\
	ASSERT_NE(MAP_FAILED, self->page);				\
} while (0)

TEST_F(times, page_and_read_agree)
{
	struct perf_event_attr attr = instructions_attr();
	struct brackets b = {};

	OPEN(&attr, 0, -1, 0);
	SKIP_WITHOUT_TIME(self->page);
	ASSERT_TRUE(brackets_run(&b, user_reads(), self->fd, self->page));
	EXPECT_EQ(0, b.enabled);
	EXPECT_EQ(0, b.running);
}

TEST_F_TIMEOUT(times, page_and_read_agree_while_sampling, 110)
{
	const char *reason = getenv("PERF_TEST_NO_PMU_INTERRUPTS");
	struct perf_event_attr attr = cycles_attr();
	struct brackets b = {};
	unsigned long i;

	if (reason)
		SKIP(return, "%s", reason);
	if (geteuid())
		SKIP(return, "needs root to set the limit of samples");
	ASSERT_EQ(0, sample_limits_set(&self->limits, "100000000", "0"));
	attr.sample_period = 3000;
	attr.sample_type = PERF_SAMPLE_IP;
	OPEN(&attr, 0, -1, 1);
	SKIP_WITHOUT_TIME(self->page);
	for (i = 0; i < 2 * user_reads(); i++) {
		ASSERT_TRUE(bracket(&b, self->fd, self->page));
		work(i % 37);
	}
	EXPECT_EQ(0, b.enabled);
	EXPECT_EQ(0, b.running);
}

TEST_F(times, disabled_event_stands_still)
{
	struct perf_event_attr attr = instructions_attr();
	struct page_value value;
	__u64 first[3];
	int i;

	OPEN(&attr, 0, -1, 0);
	ASSERT_EQ(0, ioctl(self->fd, PERF_EVENT_IOC_DISABLE, 0));
	ASSERT_EQ(sizeof(first), read(self->fd, first, sizeof(first)));
	for (i = 0; i < 100; i++) {
		work(1000);
		value = page_read(self->page);
		ASSERT_EQ(first[1], value.enabled);
		ASSERT_EQ(first[2], value.running);
	}
}

/* Programs do this to get the rate of the clock without a count. */
TEST_F(times, event_that_was_never_enabled_tells_the_clock)
{
	struct perf_event_attr attr = instructions_attr();

	OPEN(&attr, 0, -1, 0);
	SKIP_WITHOUT_TIME(self->page);
	attr.disabled = 1;
	OPEN(&attr, 0, -1, 0);
	EXPECT_TRUE(!!self->page->cap_user_time);
	EXPECT_LT(0, self->page->time_mult);
	EXPECT_EQ(0, self->page->index);
}

TEST_F(times, siblings_of_a_disabled_leader_stand_still)
{
	struct perf_event_attr attr = instructions_attr();
	struct page_value value;
	__u64 first[3];
	int leader;

	leader = user_open(&attr, 0, -1, -1);
	ASSERT_LE(0, leader);
	attr = cycles_attr();
	self->fd = user_open(&attr, 0, -1, leader);
	ASSERT_LE(0, self->fd);
	self->page = page_map(self->fd, 0);
	ASSERT_NE(MAP_FAILED, self->page);

	ASSERT_EQ(0, ioctl(leader, PERF_EVENT_IOC_DISABLE, 0));
	work(1000);
	value = page_read(self->page);
	ASSERT_EQ(sizeof(first), read(self->fd, first, sizeof(first)));
	EXPECT_EQ(0, value.index);
	EXPECT_EQ(first[1], value.enabled);
	EXPECT_EQ(first[2], value.running);
	EXPECT_FALSE(!!self->page->cap_user_time);

	ASSERT_EQ(0, ioctl(leader, PERF_EVENT_IOC_ENABLE, 0));
	value = page_read(self->page);
	EXPECT_LT(0, value.index);
	EXPECT_LE(first[1], value.enabled);
}

/* The leader is disabled in the middle of a switch, while its siblings still run. */
TEST_F(times, siblings_of_a_leader_that_stops_itself_stand_still)
{
	struct perf_event_attr attr = user_attr(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES);
	struct page_value value;
	__u64 now[3];
	int leader;

	attr.disabled = 1;
	attr.sample_period = 1;
	attr.exclude_kernel = 0;
	leader = user_open(&attr, 0, -1, -1);
	ASSERT_LE(0, leader);
	attr = instructions_attr();
	self->fd = user_open(&attr, 0, -1, leader);
	ASSERT_LE(0, self->fd);
	self->page = page_map(self->fd, 0);
	ASSERT_NE(MAP_FAILED, self->page);

	ASSERT_EQ(0, ioctl(leader, PERF_EVENT_IOC_REFRESH, 1));
	work(1000);
	usleep(20000);
	usleep(20000);
	work(1000);
	value = page_read(self->page);
	ASSERT_EQ(sizeof(now), read(self->fd, now, sizeof(now)));
	EXPECT_EQ(0, value.index);
	EXPECT_EQ(now[1], value.enabled);
	EXPECT_EQ(now[2], value.running);
	EXPECT_FALSE(!!self->page->cap_user_time);
}

/* The task of an enabled event may be on another CPU than the filter allows. */
TEST_F(times, cpu_filter_withdraws_the_time)
{
	struct perf_event_attr attr = instructions_attr();
	struct brackets b = {};

	ASSERT_EQ(0, pin(0));
	OPEN(&attr, 0, 0, 0);
	EXPECT_FALSE(!!self->page->cap_user_time);
	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		SKIP(return, "one CPU, nowhere to go");
	ASSERT_TRUE(brackets_run(&b, 100, self->fd, self->page));
	ASSERT_EQ(0, pin(1));
	EXPECT_EQ(0, self->page->index);
	ASSERT_TRUE(brackets_run(&b, 100, self->fd, self->page));
	ASSERT_EQ(0, pin(0));
	ASSERT_TRUE(brackets_run(&b, 100, self->fd, self->page));
	EXPECT_LE(100, b.fallback);
	EXPECT_BRACKETS(&b);
}

TEST_F(times, event_of_a_cpu_keeps_the_time)
{
	struct perf_event_attr attr = instructions_attr();

	OPEN(&attr, 0, -1, 0);
	SKIP_WITHOUT_TIME(self->page);
	OPEN(&attr, -1, 0, 0);
	EXPECT_TRUE(!!self->page->cap_user_time);
#ifdef __powerpc__
	EXPECT_FALSE(!!self->page->cap_user_rdpmc);
	EXPECT_EQ(0, self->page->index);
#endif
}

TEST_F(times, cgroup_withdraws_the_time)
{
	struct perf_event_attr attr = instructions_attr();
	int dir = open("/sys/fs/cgroup", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (dir < 0)
		SKIP(return, "no cgroups mounted: %s", strerror(errno));
	self->fd = syscall(__NR_perf_event_open, &attr, dir, 0, -1, PERF_FLAG_PID_CGROUP);
	if (self->fd < 0)
		SKIP(return, "no events of cgroups: %s", strerror(errno));
	self->page = page_map(self->fd, 0);
	ASSERT_NE(MAP_FAILED, self->page);
	EXPECT_FALSE(!!self->page->cap_user_time);
}

TEST_F(times, inherited_event_cannot_be_read_directly)
{
	struct perf_event_attr attr = instructions_attr();

	attr.inherit = 1;
	self->fd = user_open(&attr, 0, -1, -1);
	ASSERT_LE(0, self->fd);
	self->page = page_map(self->fd, 0);
	EXPECT_EQ(MAP_FAILED, self->page);
	EXPECT_EQ(EINVAL, errno);
	close(self->fd);

	OPEN(&attr, 0, 0, 0);
	EXPECT_FALSE(!!self->page->cap_user_time);
#ifdef __powerpc__
	EXPECT_FALSE(!!self->page->cap_user_rdpmc);
	EXPECT_EQ(0, self->page->index);
#endif
}

static void spin(void *arg)
{
	for (;;)
		work(1000);
}

/* The contexts of parent and child may have been exchanged. */
TEST_F(times, inherited_event_that_runs_elsewhere_is_read)
{
	struct perf_event_attr attr = instructions_attr();
	const struct timespec moment = { .tv_nsec = 20000000 };
	struct brackets b = {};
	pid_t child;
	int i;

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		SKIP(return, "one CPU, nowhere to go");
	attr.inherit = 1;
	ASSERT_EQ(0, pin(0));
	OPEN(&attr, 0, 0, 0);
	child = start_child(spin, NULL);
	ASSERT_LT(0, child);
	for (i = 0; i < 30; i++)
		sched_yield();
	nanosleep(&moment, NULL);
	ASSERT_EQ(0, pin(1));
	EXPECT_TRUE(brackets_run(&b, user_reads() / 5, self->fd, self->page));
	stop_child(child);
#ifdef __powerpc__
	EXPECT_EQ(0, b.direct);
	EXPECT_BRACKETS(&b);
#endif
}

TEST_F(times, software_event_has_no_counter)
{
	static const __u64 configs[] = {
		PERF_COUNT_SW_CPU_CLOCK, PERF_COUNT_SW_TASK_CLOCK,
		PERF_COUNT_SW_PAGE_FAULTS, PERF_COUNT_SW_DUMMY,
	};
	struct perf_event_attr attr;
	unsigned int i, times;

	for (i = 0; i < sizeof(configs) / sizeof(configs[0]); i++) {
		attr = user_attr(PERF_TYPE_SOFTWARE, configs[i]);
		attr.sample_period = 100000;
		OPEN(&attr, 0, -1, 1);
		/* The memory of the timer changes and may have any value. */
		for (times = 0; times < 200; times++) {
			ASSERT_FALSE(!!self->page->cap_user_rdpmc);
			ASSERT_EQ(0, self->page->index);
			work(10000);
			ASSERT_EQ(0, ioctl(self->fd, PERF_EVENT_IOC_RESET, 0));
		}
		page_unmap(self->page, 1);
		close(self->fd);
	}
}

static long number_in(const char *path)
{
	char text[32] = "";
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t len;

	if (fd < 0)
		return -1;
	len = read(fd, text, sizeof(text) - 1);
	close(fd);
	return len > 0 ? strtol(text, NULL, 0) : -1;
}

/* Open an event of a PMU for a task, or for a CPU if that fails. */
static int open_any_event(const char *pmu, long type)
{
	struct perf_event_attr attr = user_attr(type, 0);
	static __u64 watched;
	int fd;

	attr.exclude_kernel = 0;
	attr.exclude_hv = 0;
	if (!strcmp(pmu, "breakpoint")) {
		attr.bp_type = HW_BREAKPOINT_W;
		attr.bp_addr = (unsigned long)&watched;
		attr.bp_len = HW_BREAKPOINT_LEN_8;
	}
	if (!strcmp(pmu, "tracepoint"))
		attr.config = number_in("/sys/kernel/tracing/events/sched/sched_switch/id");
	fd = user_open(&attr, 0, -1, -1);
	return fd < 0 ? user_open(&attr, -1, 0, -1) : fd;
}

#define PMUS	"/sys/bus/event_source/devices"

/* Only counters of the processor are readable. Other PMUs use the same bits otherwise. */
TEST_F(times, other_pmus_have_no_counter)
{
	unsigned int seen = 0, times;
	struct dirent *entry;
	char path[512];
	long type;
	DIR *dir;

	dir = opendir(PMUS);
	ASSERT_NE(NULL, dir);
	while ((entry = readdir(dir))) {
		if (entry->d_name[0] == '.' || !strncmp(entry->d_name, "cpu", 3))
			continue;
		snprintf(path, sizeof(path), PMUS "/%s/type", entry->d_name);
		type = number_in(path);
		ASSERT_LE(0, type);
		self->fd = open_any_event(entry->d_name, type);
		if (self->fd < 0) {
			TH_LOG("not %s: %s", entry->d_name, strerror(errno));
			continue;
		}
		self->page = page_map(self->fd, 0);
		ASSERT_NE(MAP_FAILED, self->page);
		for (times = 0; times < 10; times++) {
			ASSERT_FALSE(!!self->page->cap_user_rdpmc) {
				TH_LOG("%s", entry->d_name);
			}
			work(10000);
			ASSERT_EQ(0, ioctl(self->fd, PERF_EVENT_IOC_RESET, 0));
		}
		page_unmap(self->page, 0);
		close(self->fd);
		seen++;
		TH_LOG("%s", entry->d_name);
	}
	closedir(dir);
	/* Software events exist everywhere. */
	EXPECT_LT(0, seen);
}

/* Slack, because both times are from sched_clock() and their last bits differ. */
#define CLOCK_SLACK	8

TEST_F(times, ticks_convert_to_the_time_of_a_sample)
{
	struct perf_event_attr attr = user_attr(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS);
	struct { struct perf_event_header header; __u64 time; } sample;
	size_t size = sysconf(_SC_PAGESIZE);
	__u64 before, after;
	char *ring, *mem;
	int i;

	attr.exclude_kernel = 0;
	attr.sample_period = 1;
	attr.sample_type = PERF_SAMPLE_TIME;
	attr.disabled = 1;
	OPEN(&attr, 0, -1, 1);
	if (!self->page->cap_user_time_zero)
		SKIP(return, "no cap_user_time_zero on this machine");
	mem = mmap(NULL, 100 * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, mem);
	ring = (char *)self->page + size;
	ASSERT_EQ(0, ioctl(self->fd, PERF_EVENT_IOC_ENABLE, 0));
	for (i = 0; i < 100; i++) {
		__u64 head = self->page->data_head;

		before = clock_ticks();
		*(volatile char *)(mem + i * size) = 1;
		after = clock_ticks();
		ASSERT_LT(head, self->page->data_head);
		/* Take the last sample, because the program may have faulted before. */
		head = self->page->data_head - sizeof(sample);
		memcpy(&sample, ring + head % size, sizeof(sample));
		ASSERT_EQ(PERF_RECORD_SAMPLE, sample.header.type);
		ASSERT_LE(self->page->time_zero + page_scale(self->page, before),
			  sample.time + CLOCK_SLACK);
		ASSERT_GE(self->page->time_zero + page_scale(self->page, after) + CLOCK_SLACK,
			  sample.time);
	}
}

TEST_HARNESS_MAIN
