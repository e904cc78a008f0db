// SPDX-License-Identifier: GPL-2.0
/*
 * perf gate selftests - numbers, layouts and errors of recorded windows
 */
#define _GNU_SOURCE

#include "../kselftest_harness.h"
#include "gate_family.h"
#include "gate_windows.h"

#define MLOCK_SYSCTL	"/proc/sys/kernel/perf_event_mlock_kb"
#define PARANOID_SYSCTL	"/proc/sys/kernel/perf_event_paranoid"
#define NOBODY		65534

FIXTURE(windows_abi)
{
	struct gate_triggers triggers;
	int target;
};

FIXTURE_SETUP(windows_abi)
{
	if (triggers_open(_metadata, &self->triggers))
		return;
	self->target = gate_open_counter(_metadata, &self->triggers, PERF_TYPE_SOFTWARE,
					 PERF_COUNT_SW_PAGE_FAULTS);
}

FIXTURE_TEARDOWN(windows_abi)
{
	close(self->target);
	triggers_close(&self->triggers);
}

TEST_F(windows_abi, numbers_are_fixed)
{
	EXPECT_EQ(_IOC(_IOC_WRITE, '$', 18, 24), PERF_EVENT_IOC_SET_WINDOWS);
	EXPECT_EQ(_IOC(_IOC_READ | _IOC_WRITE, '$', 19, 48), PERF_EVENT_IOC_GET_WINDOWS);
	EXPECT_EQ(23, PERF_RECORD_GATE);
	EXPECT_EQ(0x80, PERF_FORMAT_GATE_TOTAL);
	EXPECT_EQ(1, PERF_WINDOWS_HISTOGRAM);
	EXPECT_EQ(2, PERF_WINDOWS_RECORD);
	EXPECT_EQ(0, PERF_WINDOWS_COUNT);
	EXPECT_EQ(1, PERF_WINDOWS_RUNNING);
	EXPECT_EQ(2, PERF_WINDOWS_WALL);
	EXPECT_EQ(252, PERF_EVENT_HISTOGRAM_BUCKETS);
	EXPECT_EQ(48, sizeof(struct perf_event_histogram));
}

TEST_F(windows_abi, each_value_is_between_the_bounds_of_its_bucket)
{
	unsigned int bucket, bit, i;
	__u64 value;

	for (bit = 0; bit < 64; bit++) {
		for (i = 0; i < 16; i++) {
			value = (1ULL << bit) + (i < 8 ? (1ULL << bit) / 8 * i : i - 16ULL);
			bucket = perf_event_histogram_bucket(value);
			ASSERT_GT(NR_BUCKETS, bucket);
			EXPECT_LE(perf_event_histogram_bound(bucket), value);
			if (bucket + 1 < NR_BUCKETS)
				EXPECT_GT(perf_event_histogram_bound(bucket + 1), value);
		}
	}
	EXPECT_EQ(0, perf_event_histogram_bucket(0));
	EXPECT_EQ(NR_BUCKETS - 1, perf_event_histogram_bucket(-1ULL));
	for (i = 0; i < NR_BUCKETS; i++)
		EXPECT_EQ(i, perf_event_histogram_bucket(perf_event_histogram_bound(i)));
	EXPECT_EQ(-1ULL, perf_event_histogram_bound(NR_BUCKETS));
}

static int set(int fd, struct perf_event_windows *windows)
{
	return gate_ioctl(fd, PERF_EVENT_IOC_SET_WINDOWS, (unsigned long)windows);
}

TEST_F(windows_abi, set_refuses_what_it_does_not_know)
{
	struct perf_event_windows good = {
		.size = sizeof(good), .flags = PERF_WINDOWS_HISTOGRAM,
	}, in;

	EXPECT_EQ(0, set(self->target, &good));
	in = good;
	in.flags = 4;
	EXPECT_EQ(-EINVAL, set(self->target, &in));
	in = good;
	in.measure = 3;
	EXPECT_EQ(-EINVAL, set(self->target, &in));
	in = good;
	in.__reserved = 1;
	EXPECT_EQ(-EINVAL, set(self->target, &in));
	in = good;
	in.size = sizeof(in) - 1;
	EXPECT_EQ(-EINVAL, set(self->target, &in));
	in.size = sysconf(_SC_PAGESIZE) + 1;
	EXPECT_EQ(-EINVAL, set(self->target, &in));
	EXPECT_EQ(-EFAULT, set(self->target, NULL));
}

TEST_F(windows_abi, structures_may_grow_by_zeroes)
{
	struct {
		struct perf_event_windows windows;
		__u64 more;
	} in = { { .size = sizeof(in), .flags = PERF_WINDOWS_HISTOGRAM } };
	struct {
		__u32 size, nr_buckets;
		__u64 head[5], more, bucket[NR_BUCKETS];
	} out = { .size = 56, .nr_buckets = NR_BUCKETS };

	EXPECT_EQ(0, set(self->target, &in.windows));
	in.more = 1;
	EXPECT_EQ(-E2BIG, set(self->target, &in.windows));
	window_open();
	window_close();
	EXPECT_EQ(0, gate_ioctl(self->target, PERF_EVENT_IOC_GET_WINDOWS,
				(unsigned long)&out));
	EXPECT_EQ(48, out.size);
	EXPECT_EQ(1, out.bucket[0]);
	out.size = 56;
	out.more = 1;
	EXPECT_EQ(-E2BIG, gate_ioctl(self->target, PERF_EVENT_IOC_GET_WINDOWS,
				     (unsigned long)&out));
}

TEST_F(windows_abi, get_tells_how_many_buckets_there_are)
{
	struct histogram histogram;

	ASSERT_EQ(0, set_histogram(self->target, PERF_WINDOWS_COUNT));
	memset(&histogram, 0xff, sizeof(histogram));
	histogram.size = sizeof(struct perf_event_histogram);
	histogram.nr_buckets = NR_BUCKETS - 1;
	EXPECT_EQ(-ENOSPC, gate_ioctl(self->target, PERF_EVENT_IOC_GET_WINDOWS,
				      (unsigned long)&histogram));
	EXPECT_EQ(NR_BUCKETS, histogram.nr_buckets);
	EXPECT_EQ(-1ULL, histogram.bucket[0]);
	/* The call does not write to memory after the buckets. */
	EXPECT_EQ(0, gate_ioctl(self->target, PERF_EVENT_IOC_GET_WINDOWS,
				(unsigned long)&histogram));
	EXPECT_EQ(0, histogram.bucket[0]);
}

TEST_F(windows_abi, get_refuses_what_it_does_not_know)
{
	struct histogram histogram;

	/* Nothing is recorded. */
	EXPECT_EQ(-EINVAL, get_windows(self->target, &histogram));
	ASSERT_EQ(0, set_windows(self->target, PERF_WINDOWS_RECORD, PERF_WINDOWS_COUNT, 0));
	EXPECT_EQ(-EINVAL, get_windows(self->target, &histogram));
	ASSERT_EQ(0, set_histogram(self->target, PERF_WINDOWS_COUNT));
	EXPECT_EQ(0, get_windows(self->target, &histogram));
	histogram.size = sizeof(struct perf_event_histogram) - 1;
	EXPECT_EQ(-EINVAL, gate_ioctl(self->target, PERF_EVENT_IOC_GET_WINDOWS,
				      (unsigned long)&histogram));
	histogram.size = sysconf(_SC_PAGESIZE) + 1;
	EXPECT_EQ(-EINVAL, gate_ioctl(self->target, PERF_EVENT_IOC_GET_WINDOWS,
				      (unsigned long)&histogram));
	EXPECT_EQ(-EFAULT, gate_ioctl(self->target, PERF_EVENT_IOC_GET_WINDOWS, 0));
}

/* The structure is there, and the buckets reach into a page that is not. */
TEST_F(windows_abi, get_fails_without_memory_behind_the_structure)
{
	size_t page_size = sysconf(_SC_PAGESIZE);
	struct perf_event_histogram *out;
	char *mem;

	ASSERT_EQ(0, set_histogram(self->target, PERF_WINDOWS_COUNT));
	mem = mmap(NULL, 2 * page_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		   -1, 0);
	ASSERT_NE(MAP_FAILED, mem);
	munmap(mem + page_size, page_size);
	out = (void *)(mem + page_size - sizeof(*out));
	out->size = sizeof(*out);
	out->nr_buckets = NR_BUCKETS;
	EXPECT_EQ(-EFAULT, gate_ioctl(self->target, PERF_EVENT_IOC_GET_WINDOWS,
				      (unsigned long)out));
	mprotect(mem, page_size, PROT_READ);
	EXPECT_EQ(-EFAULT, gate_ioctl(self->target, PERF_EVENT_IOC_GET_WINDOWS,
				      (unsigned long)out));
	munmap(mem, page_size);
}

TEST_F(windows_abi, event_without_a_gate_has_no_windows)
{
	struct histogram histogram;
	int fd = gate_open_self(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS);

	ASSERT_LE(0, fd);
	EXPECT_EQ(-EINVAL, set_histogram(fd, PERF_WINDOWS_COUNT));
	EXPECT_EQ(-EINVAL, set_windows(fd, 0, 0, 0));
	EXPECT_EQ(-EINVAL, get_windows(fd, &histogram));
	close(fd);
	/* A trigger is not a member, either. */
	EXPECT_EQ(-EINVAL, set_histogram(self->triggers.starter, PERF_WINDOWS_COUNT));
}

TEST_F(windows_abi, zero_takes_it_away)
{
	struct histogram histogram;

	EXPECT_EQ(0, set_windows(self->target, 0, 0, 0));
	ASSERT_EQ(0, set_histogram(self->target, PERF_WINDOWS_COUNT));
	EXPECT_EQ(0, set_windows(self->target, 0, 0, 0));
	EXPECT_EQ(-EINVAL, get_windows(self->target, &histogram));
	/* This works for an event that has left its gate, too, but only once. */
	ASSERT_EQ(0, set_histogram(self->target, PERF_WINDOWS_COUNT));
	window_open();
	window_close();
	ASSERT_EQ(0, clear_gate(self->target));
	EXPECT_EQ(1, read_histogram(_metadata, self->target).windows);
	EXPECT_EQ(0, set_windows(self->target, 0, 0, 0));
	EXPECT_EQ(-EINVAL, get_windows(self->target, &histogram));
	EXPECT_EQ(-EINVAL, set_windows(self->target, 0, 0, 0));
}

TEST_F(windows_abi, event_that_records_joins_no_gate)
{
	struct perf_event_attr attr = gate_attr(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_DUMMY);
	int fd;

	gate_attr_set_bit(&attr, GATE_BIT_START_PAUSED);
	fd = gate_open(&attr, 0, -1);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, set_histogram(fd, PERF_WINDOWS_COUNT));
	EXPECT_EQ(-EBUSY, join_gate(fd, self->target));
	ASSERT_EQ(0, set_windows(fd, 0, 0, 0));
	EXPECT_EQ(0, join_gate(fd, self->target));
	/* A member of any gate may record. */
	EXPECT_EQ(0, set_histogram(fd, PERF_WINDOWS_COUNT));
	close(fd);
}

/* These clocks cannot be read in an NMI, where triggers fire. */
TEST_F(windows_abi, clock_has_to_be_readable_anywhere)
{
	static const int safe[] = { CLOCK_MONOTONIC, CLOCK_MONOTONIC_RAW };
	static const int unsafe[] = { CLOCK_REALTIME, CLOCK_BOOTTIME, CLOCK_TAI };
	struct perf_event_attr attr = gate_attr(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_DUMMY);
	unsigned int i;
	int fd;

	gate_attr_set_bit(&attr, GATE_BIT_START_PAUSED);
	attr.use_clockid = 1;
	for (i = 0; i < ARRAY_SIZE(unsafe); i++) {
		attr.clockid = unsafe[i];
		fd = gate_open(&attr, 0, -1);
		ASSERT_LE(0, fd);
		EXPECT_EQ(-EOPNOTSUPP, set_windows(fd, PERF_WINDOWS_RECORD, 0, 0));
		EXPECT_EQ(-EOPNOTSUPP, set_histogram(fd, PERF_WINDOWS_WALL));
		EXPECT_EQ(0, set_histogram(fd, PERF_WINDOWS_COUNT));
		EXPECT_EQ(0, set_histogram(fd, PERF_WINDOWS_RUNNING));
		close(fd);
	}
	for (i = 0; i < ARRAY_SIZE(safe); i++) {
		attr.clockid = safe[i];
		fd = gate_open(&attr, 0, -1);
		ASSERT_LE(0, fd);
		EXPECT_EQ(0, set_windows(fd, 3, PERF_WINDOWS_WALL, 0));
		close(fd);
	}
}

TEST_F(windows_abi, aux_event_records_no_windows)
{
	struct perf_event_attr attr = gate_attr(0, 0);
	int fd;

	if (pmu_type("pmusim_aux") < 0)
		SKIP(return, "needs the simulated PMUs");
	attr.type = pmu_type("pmusim_aux");
	gate_attr_set_bit(&attr, GATE_BIT_START_PAUSED);
	fd = gate_open(&attr, -1, nth_cpu(0));
	ASSERT_LE(0, fd);
	EXPECT_EQ(-EOPNOTSUPP, set_histogram(fd, PERF_WINDOWS_COUNT));
	close(fd);
}

/* Returns the number of the step that failed, 0 when none did. */
static int record_as_nobody(long room)
{
	struct perf_event_attr attr = gate_attr(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS);
	struct rlimit no_memory = {};
	struct perf_event_attr plain;
	struct histogram histogram;
	int fds[room + 1], gateless;
	long i;

	if (setrlimit(RLIMIT_MEMLOCK, &no_memory) || setresuid(NOBODY, NOBODY, NOBODY))
		return 1;
	attr.exclude_kernel = 1;
	attr.exclude_hv = 1;
	plain = attr;
	gate_attr_set_bit(&attr, GATE_BIT_START_PAUSED);
	for (i = 0; i <= room; i++) {
		fds[i] = gate_open(&attr, 0, -1);
		if (fds[i] < 0)
			return 2;
		if (i < room && set_histogram(fds[i], PERF_WINDOWS_COUNT))
			return 3;
	}
	if (set_histogram(fds[room], PERF_WINDOWS_COUNT) != -EPERM)
		return 4;
	/* An event without a gate is refused before anything is charged. */
	gateless = gate_open(&plain, 0, -1);
	if (gateless < 0 || set_histogram(gateless, PERF_WINDOWS_COUNT) != -EINVAL)
		return 9;
	close(gateless);
	/* Records are charged with the buffer. */
	if (set_windows(fds[room], PERF_WINDOWS_RECORD, 0, 0))
		return 5;
	/*
	 * A new histogram is charged before the old one is freed. If this fails, the old
	 * one stays.
	 */
	if (set_histogram(fds[0], PERF_WINDOWS_COUNT) != -EPERM ||
	    get_windows(fds[0], &histogram))
		return 6;
	/* A histogram that was removed is no longer charged. */
	if (set_windows(fds[0], 0, 0, 0) || set_histogram(fds[room], PERF_WINDOWS_COUNT))
		return 7;
	if (close(fds[room]) || set_histogram(fds[0], PERF_WINDOWS_COUNT))
		return 8;
	return 0;
}

static void write_number(const char *path, long number)
{
	char text[32];

	snprintf(text, sizeof(text), "%ld", number);
	write_text(path, text);
}

TEST_F(windows_abi, histogram_is_charged_to_its_user)
{
	long paranoid = read_number(PARANOID_SYSCTL), mlock_kb = read_number(MLOCK_SYSCTL);
	long page_size = sysconf(_SC_PAGESIZE), cpus = sysconf(_SC_NPROCESSORS_CONF);
	long size = cpus * (NR_BUCKETS + 3) * sizeof(__u64);
	pid_t child;
	int status;

	/*
	 * Allow as many histograms as there are CPUs: the kernel multiplies the allowance
	 * by that.
	 */
	write_number(MLOCK_SYSCTL, (size + page_size - 1) / page_size * page_size / 1024);
	write_number(PARANOID_SYSCTL, 2);
	child = fork();
	ASSERT_LE(0, child);
	if (!child)
		_exit(record_as_nobody(sysconf(_SC_NPROCESSORS_ONLN)));
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, status) {
		TH_LOG("step %d", WEXITSTATUS(status));
	}
	write_number(MLOCK_SYSCTL, mlock_kb);
	write_number(PARANOID_SYSCTL, paranoid);
}

/* KiB that the kernel has for values of each CPU. */
static long percpu_kb(void)
{
	char line[128];
	long kb = -1;
	FILE *file;

	file = fopen("/proc/meminfo", "r");
	if (!file)
		return -1;
	while (kb < 0 && fgets(line, sizeof(line), file))
		sscanf(line, "Percpu: %ld kB", &kb);
	fclose(file);
	return kb;
}

/* Memory that is no longer charged is free, so a loop cannot use up the memory. */
TEST_F(windows_abi, memory_of_a_histogram_goes_with_its_charge)
{
	int gateless = gate_open_self(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_DUMMY);
	long cpus = sysconf(_SC_NPROCESSORS_CONF);
	long before, most = 0, now;
	unsigned int i;

	ASSERT_LE(0, gateless);
	ASSERT_EQ(0, set_histogram(self->target, PERF_WINDOWS_COUNT));
	before = percpu_kb();
	if (before < 0)
		SKIP(return, "no Percpu in /proc/meminfo");
	for (i = 0; i < 20000; i++) {
		ASSERT_EQ(0, set_histogram(self->target, PERF_WINDOWS_COUNT));
		ASSERT_EQ(-EINVAL, set_histogram(gateless, PERF_WINDOWS_COUNT));
		if (i % 500)
			continue;
		now = percpu_kb();
		most = now > most ? now : most;
	}
	/* The allocator keeps a few pages of each CPU in hand. */
	EXPECT_GE(before + 128 + 64 * cpus, most);
	close(gateless);
}

TEST_HARNESS_MAIN
