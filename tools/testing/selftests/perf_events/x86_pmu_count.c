// SPDX-License-Identifier: GPL-2.0
/*
 * perf selftests on an emulated x86 PMU - exact counts of known work
 */
#define _GNU_SOURCE

#include <sched.h>

#include "../kselftest_harness.h"
#include "x86_pmu_helpers.h"

#define NR_PAGES	1000
#define NR_CHILDREN	8

FIXTURE(x86_pmu_count)
{
	int fd;
};

/* The event of most tests: instructions in user mode. */
FIXTURE_SETUP(x86_pmu_count)
{
	struct perf_event_attr attr = instructions_attr();

	self->fd = -1;
	if (pmu_setup(_metadata))
		return;
	self->fd = pmu_open(&attr, -1);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, pmu_enable(self->fd));
	/* The first read(2) may take another path in libc. */
	pmu_read(self->fd);
}

FIXTURE_TEARDOWN(x86_pmu_count)
{
	close(self->fd);
}

/* Count of @fd from one read(2) to the next, with a loop in between. */
static __attribute_noinline__ __u64 gain(int fd, __u64 times)
{
	__u64 before = pmu_read(fd);

	work_loop(times);
	return pmu_read(fd) - before;
}

TEST_F(x86_pmu_count, each_instruction_counts_once)
{
	__u64 once = gain(self->fd, 1);
	unsigned int i;

	for (i = 0; i < 20; i++) {
		EXPECT_EQ(once, gain(self->fd, 1));
		EXPECT_EQ(2 * 99999, gain(self->fd, 100000) - once);
	}
}

TEST_F_TIMEOUT(x86_pmu_count, count_crosses_bit_31, 110)
{
	__u64 once = gain(self->fd, 1);

	EXPECT_EQ(2 * 1100000000ULL, gain(self->fd, 1100000001ULL) - once);
}

TEST_F(x86_pmu_count, raw_event_counts_the_same)
{
	struct perf_event_attr attr = pmu_attr(PERF_TYPE_RAW, RAW_INSTRUCTIONS);
	int raw = pmu_open(&attr, -1);

	ASSERT_LE(0, raw);
	ASSERT_EQ(0, pmu_enable(raw));
	gain(raw, 1);
	EXPECT_EQ(gain(self->fd, 1000), gain(raw, 1000));
	close(raw);
}

TEST_F(x86_pmu_count, disabled_event_counts_nothing)
{
	__u64 before;

	ASSERT_EQ(0, pmu_disable(self->fd));
	before = pmu_read(self->fd);
	work_loop(100000);
	EXPECT_EQ(before, pmu_read(self->fd));
}

TEST_F(x86_pmu_count, reset_begins_at_zero)
{
	work_loop(100000);
	ASSERT_EQ(0, ioctl(self->fd, PERF_EVENT_IOC_RESET, 0));
	EXPECT_GT(1000, pmu_read(self->fd));
}

static __attribute_noinline__ __u64 gain_of_touch(int fd, char *mem, unsigned long nr)
{
	__u64 before = pmu_read(fd);

	touch_pages(mem, nr);
	return pmu_read(fd) - before;
}

/* A store that faults is executed again, and retires once. */
TEST_F(x86_pmu_count, instruction_that_faults_counts_once)
{
	struct perf_event_attr attr = {
		.type	= PERF_TYPE_SOFTWARE,
		.size	= sizeof(attr),
		.config	= PERF_COUNT_SW_PAGE_FAULTS,
	};
	int faults = pmu_open(&attr, -1);
	__u64 nr_faults, first;
	char *mem;

	ASSERT_LE(0, faults);
	mem = mmap(NULL, NR_PAGES * 4096, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, mem);
	madvise(mem, NR_PAGES * 4096, MADV_NOHUGEPAGE);
	nr_faults = pmu_read(faults);
	first = gain_of_touch(self->fd, mem, NR_PAGES);
	EXPECT_EQ(NR_PAGES, pmu_read(faults) - nr_faults);
	EXPECT_EQ(first, gain_of_touch(self->fd, mem, NR_PAGES));
	EXPECT_EQ(NR_PAGES, pmu_read(faults) - nr_faults);
	EXPECT_EQ(6 * (NR_PAGES - 1), first - gain_of_touch(self->fd, mem, 1));
	munmap(mem, NR_PAGES * 4096);
	close(faults);
}

static __attribute_noinline__ __u64 gain_of_copy(int fd, char *to, const char *from,
						 unsigned long len)
{
	__u64 before = pmu_read(fd);

	asm volatile("rep movsb" : "+D" (to), "+S" (from), "+c" (len) : : "memory");
	return pmu_read(fd) - before;
}

TEST_F(x86_pmu_count, repeated_string_instruction_counts_once)
{
	static char to[4096], from[4096];

	gain_of_copy(self->fd, to, from, 1);
	EXPECT_EQ(gain_of_copy(self->fd, to, from, 1),
		  gain_of_copy(self->fd, to, from, sizeof(to)));
}

static __attribute_noinline__ __u64 gain_of_calls(int fd, unsigned int nr)
{
	__u64 before = pmu_read(fd);

	asm volatile("1:	mov %1, %%eax\n"
		     "	syscall\n"
		     "	dec %0\n"
		     "	jnz 1b"
		     : "+r" (nr) : "i" (__NR_getppid) : "rax", "rcx", "r11", "memory", "cc");
	return pmu_read(fd) - before;
}

TEST_F(x86_pmu_count, user_event_leaves_out_system_calls)
{
	__u64 once = gain_of_calls(self->fd, 1);

	EXPECT_EQ(4 * 1000, gain_of_calls(self->fd, 1001) - once);
}

/* Read all values of a group that is stopped and was never multiplexed. */
static void group_read(struct __test_metadata *const _metadata, int leader, __u64 *values,
		       unsigned int nr)
{
	struct {
		__u64	nr;
		__u64	enabled;
		__u64	running;
		__u64	values[8];
	} group;

	ASSERT_EQ((nr + 3) * sizeof(__u64), read(leader, &group, sizeof(group)));
	ASSERT_EQ(nr, group.nr);
	ASSERT_LT(0, group.running);
	ASSERT_EQ(group.enabled, group.running);
	memcpy(values, group.values, nr * sizeof(__u64));
}

static int group_add(struct __test_metadata *const _metadata, struct perf_event_attr attr,
		     int leader)
{
	int fd;

	attr.read_format = PERF_FORMAT_GROUP | PERF_FORMAT_TOTAL_TIME_ENABLED |
			   PERF_FORMAT_TOTAL_TIME_RUNNING;
	attr.disabled = leader < 0;
	fd = pmu_open(&attr, leader);
	ASSERT_LE(0, fd) {
		TH_LOG("type %u config %llu: %s", attr.type, attr.config, strerror(errno));
	}
	return fd;
}

static void mixed_work(void)
{
	unsigned int i;

	for (i = 0; i < 100; i++) {
		work_loop(10000);
		syscall(__NR_getppid);
	}
}

TEST_F(x86_pmu_count, user_and_kernel_add_up)
{
	struct perf_event_attr attr = pmu_attr(PERF_TYPE_RAW, RAW_INSTRUCTIONS);
	int both, user, kernel;
	__u64 values[3];

	/* The group would need one more counter. */
	ASSERT_EQ(0, pmu_disable(self->fd));
	attr.exclude_kernel = 0;
	both = group_add(_metadata, attr, -1);
	attr.exclude_kernel = 1;
	user = group_add(_metadata, attr, both);
	attr.exclude_kernel = 0;
	attr.exclude_user = 1;
	kernel = group_add(_metadata, attr, both);
	ASSERT_EQ(0, pmu_enable(both));
	mixed_work();
	ASSERT_EQ(0, pmu_disable(both));
	group_read(_metadata, both, values, 3);
	EXPECT_GE(counters_have_one_switch() ? 0 : 1000,
		  llabs((long long)(values[0] - values[1] - values[2])));
	EXPECT_LE(2000000, values[1]);
	EXPECT_GT(2010000, values[1]);
	EXPECT_LE(100 * 50, values[2]);
	close(kernel);
	close(user);
	close(both);
}

TEST_F(x86_pmu_count, group_counts_the_same_work)
{
	int fds[4], i;
	__u64 values[4];

	if (nr_instruction_counters() < 4)
		SKIP(return, "the NMI watchdog holds one of the four counters");
	ASSERT_EQ(0, pmu_disable(self->fd));
	fds[0] = group_add(_metadata, instructions_attr(), -1);
	for (i = 1; i < 4; i++)
		fds[i] = group_add(_metadata, pmu_attr(PERF_TYPE_RAW, RAW_INSTRUCTIONS), fds[0]);
	ASSERT_EQ(0, pmu_enable(fds[0]));
	mixed_work();
	ASSERT_EQ(0, pmu_disable(fds[0]));
	group_read(_metadata, fds[0], values, 4);
	EXPECT_LT(2000000, values[0]);
	for (i = 1; i < 4; i++)
		EXPECT_EQ(values[0], values[i]);
	for (i = 3; i >= 0; i--)
		close(fds[i]);
}

TEST_F(x86_pmu_count, cycles_are_not_instructions)
{
	long cpi = pmu_number("QEMU_PMU_CPI");
	int instructions, cycles;
	__u64 values[2];

	ASSERT_LT(1, cpi);
	instructions = group_add(_metadata, instructions_attr(), -1);
	cycles = group_add(_metadata, pmu_attr(PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES),
			   instructions);
	ASSERT_EQ(0, pmu_enable(instructions));
	mixed_work();
	ASSERT_EQ(0, pmu_disable(instructions));
	group_read(_metadata, instructions, values, 2);
	EXPECT_EQ(cpi * values[0], values[1]);
	close(cycles);
	close(instructions);
}

TEST_F(x86_pmu_count, reference_cycles_are_neither)
{
	long cpi = pmu_number("QEMU_PMU_REF_CPI");
	struct perf_event_attr attr = pmu_attr(PERF_TYPE_HARDWARE, PERF_COUNT_HW_REF_CPU_CYCLES);
	int instructions, cycles;
	__u64 values[2];

	ASSERT_LT(1, cpi);
	ASSERT_NE(pmu_number("QEMU_PMU_CPI"), cpi);
	cycles = pmu_open(&attr, -1);
	if (cycles < 0 && errno == ENOENT)
		SKIP(return, "this processor has no reference cycles");
	close(cycles);
	instructions = group_add(_metadata, instructions_attr(), -1);
	cycles = group_add(_metadata, attr, instructions);
	ASSERT_EQ(0, pmu_enable(instructions));
	mixed_work();
	ASSERT_EQ(0, pmu_disable(instructions));
	group_read(_metadata, instructions, values, 2);
	EXPECT_EQ(cpi * values[0], values[1]);
	close(cycles);
	close(instructions);
}

/* Use raw system calls, because the work of libc at a fork depends on its history. */
static __attribute_noinline__ void run_children(unsigned int nr, __u64 times)
{
	while (nr--) {
		long pid = syscall(__NR_fork);

		if (!pid) {
			work_loop(times);
			syscall(__NR_exit, 0);
		}
		syscall(__NR_wait4, pid, NULL, 0, NULL);
	}
}

static __u64 gain_of_children(int fd, __u64 times)
{
	__u64 before = pmu_read(fd);

	run_children(NR_CHILDREN, times);
	return pmu_read(fd) - before;
}

TEST_F(x86_pmu_count, inherited_event_counts_children)
{
	struct perf_event_attr attr = instructions_attr();
	__u64 once;
	int fd;

	attr.inherit = 1;
	fd = pmu_open(&attr, -1);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, pmu_enable(fd));
	gain_of_children(fd, 1);
	once = gain_of_children(fd, 1);
	EXPECT_EQ(NR_CHILDREN * 2 * 100000ULL, gain_of_children(fd, 100001) - once);
	close(fd);
}

TEST_F(x86_pmu_count, event_without_inherit_leaves_children_out)
{
	__u64 once;

	gain_of_children(self->fd, 1);
	once = gain_of_children(self->fd, 1);
	EXPECT_EQ(once, gain_of_children(self->fd, 100001));
}

/* Another task on the same CPU must not be counted, whenever it runs. */
TEST_F(x86_pmu_count, other_tasks_are_not_counted)
{
	pid_t pid = fork();
	unsigned int i;
	__u64 once;

	ASSERT_LE(0, pid);
	if (!pid) {
		for (;;)
			work_loop(1000000);
	}
	once = gain(self->fd, 1);
	for (i = 0; i < 20; i++) {
		EXPECT_EQ(2 * 1000000, gain(self->fd, 1000001) - once);
		sched_yield();
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

TEST_HARNESS_MAIN
