// SPDX-License-Identifier: GPL-2.0
/*
 * perf selftests on an emulated x86 PMU - RDPMC through the user page
 */
#define _GNU_SOURCE

#include <setjmp.h>

#include "../kselftest_harness.h"
#include "x86_pmu_helpers.h"

/* Permission to use RDPMC, of the PMU that the kernel calls "cpu" */
static const char rdpmc_mode[] = "/sys/bus/event_source/devices/cpu/rdpmc";

FIXTURE(x86_pmu_rdpmc)
{
	struct perf_event_mmap_page *page;
	int fd;
};

FIXTURE_SETUP(x86_pmu_rdpmc)
{
	struct perf_event_attr attr = instructions_attr();

	self->fd = -1;
	self->page = MAP_FAILED;
	if (pmu_setup(_metadata))
		return;
	self->fd = pmu_open(&attr, -1);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, pmu_enable(self->fd));
	self->page = page_map(self->fd, 0);
	ASSERT_NE(MAP_FAILED, self->page);
}

FIXTURE_TEARDOWN(x86_pmu_rdpmc)
{
	if (self->page != MAP_FAILED)
		munmap(self->page, sysconf(_SC_PAGESIZE));
	close(self->fd);
}

TEST_F(x86_pmu_rdpmc, page_describes_the_counter)
{
	EXPECT_TRUE(!!self->page->cap_user_rdpmc);
	EXPECT_EQ(48, self->page->pmc_width);
	EXPECT_NE(0, self->page->index);
	ASSERT_EQ(0, pmu_disable(self->fd));
	EXPECT_EQ(0, self->page->index);
}

TEST_F(x86_pmu_rdpmc, counter_counts_each_instruction)
{
	__u32 counter = self->page->index - 1;
	__u32 with, without;

	asm volatile("rdpmc\n"
		     "	mov %%eax, %%r8d\n"
		     "	rdpmc\n"
		     "	sub %%r8d, %%eax"
		     : "=a" (without) : "c" (counter) : "rdx", "r8", "cc");
	asm volatile("rdpmc\n"
		     "	mov %%eax, %%r8d\n"
		     "	.rept 100\n"
		     "	nop\n"
		     "	.endr\n"
		     "	rdpmc\n"
		     "	sub %%r8d, %%eax"
		     : "=a" (with) : "c" (counter) : "rdx", "r8", "cc");
	EXPECT_EQ(2, without);
	EXPECT_EQ(102, with);
}

TEST_F(x86_pmu_rdpmc, page_and_read_agree_on_a_stopped_event)
{
	work_loop(12345);
	ASSERT_EQ(0, pmu_disable(self->fd));
	EXPECT_EQ(pmu_read(self->fd), page_read(self->page));
	EXPECT_LE(2 * 12345, page_read(self->page));
}

static __attribute_noinline__ __u64
page_then_read(int fd, const struct perf_event_mmap_page *page)
{
	__u64 before = page_read(page);

	return pmu_read(fd) - before;
}

static __attribute_noinline__ __u64
read_then_page(int fd, const struct perf_event_mmap_page *page)
{
	__u64 before = pmu_read(fd);

	return page_read(page) - before;
}

/* Between the two reads are always the same few instructions. */
TEST_F(x86_pmu_rdpmc, page_and_read_agree_on_a_running_event)
{
	__u64 forth, back;
	unsigned int i;

	page_then_read(self->fd, self->page);
	forth = undisturbed(page_then_read, self->fd, self->page);
	back = undisturbed(read_then_page, self->fd, self->page);
	EXPECT_GT(100, forth);
	EXPECT_GT(100, back);
	for (i = 0; i < 1000; i++) {
		EXPECT_EQ(forth, undisturbed(page_then_read, self->fd, self->page));
		EXPECT_EQ(back, undisturbed(read_then_page, self->fd, self->page));
		work_loop(100);
	}
}

static __attribute_noinline__ __u64
page_gain(const struct perf_event_mmap_page *page, __u64 times)
{
	__u64 before = page_read(page);

	work_loop(times);
	return page_read(page) - before;
}

/*
 * An overflow in the kernel may interrupt the read of the counter. Afterwards the page
 * is never below the value that read(2) has returned before.
 */
TEST_F_TIMEOUT(x86_pmu_rdpmc, page_keeps_up_with_read_beside_overflows, 110)
{
	struct perf_event_attr attr = instructions_attr();
	unsigned int i, behind = 0;
	__u64 before, now, most = 0;
	int fd;

	attr.exclude_kernel = 0;
	attr.sample_period = 4999;
	fd = pmu_open(&attr, -1);
	ASSERT_LE(0, fd);
	munmap(self->page, sysconf(_SC_PAGESIZE));
	self->page = page_map(fd, 0);
	ASSERT_NE(MAP_FAILED, self->page);
	ASSERT_EQ(0, pmu_enable(fd));
	for (i = 0; i < 60000; i++) {
		before = pmu_read(fd);
		now = page_read(self->page);
		if (now < before) {
			behind++;
			most = before - now > most ? before - now : most;
		}
		work_loop(1 + i % 89);
	}
	EXPECT_EQ(0, behind) {
		TH_LOG("behind by up to %llu", most);
	}
	close(fd);
}

TEST_F(x86_pmu_rdpmc, page_counts_each_instruction)
{
	unsigned int i, nr_exact = 0, wrong = 0;
	__u64 once;

	page_gain(self->page, 1);
	once = page_gain(self->page, 1);
	/* Read for long enough to be interrupted and to move to another processor. */
	for (i = 0; i < 1000; i++) {
		unsigned long retries = nr_page_retries;
		__u64 gain = page_gain(self->page, 100001);

		/* A reader that is interrupted while reading the page reads it again. */
		if (nr_page_retries != retries)
			continue;
		nr_exact++;
		wrong += gain - once != 2 * 100000;
	}
	EXPECT_EQ(0, wrong);
	EXPECT_LT(900, nr_exact);
}

TEST_F_TIMEOUT(x86_pmu_rdpmc, page_crosses_bit_31, 110)
{
	__u64 before = page_read(self->page), read_before = pmu_read(self->fd);

	work_loop(1100000000);
	EXPECT_LE(2200000000ULL, page_read(self->page) - before);
	EXPECT_GT(2200001000ULL, page_read(self->page) - before);
	EXPECT_GT(2200001000ULL, pmu_read(self->fd) - read_before);
}

static sigjmp_buf fault;

static void catch_fault(int signal)
{
	siglongjmp(fault, 1);
}

static bool rdpmc_faults(__u32 counter)
{
	if (sigsetjmp(fault, 1))
		return true;
	rdpmc(counter);
	return false;
}

TEST_F(x86_pmu_rdpmc, permission_ends_with_the_last_mapping)
{
	__u32 counter = self->page->index - 1;
	struct perf_event_mmap_page *again;

	ASSERT_NE(SIG_ERR, signal(SIGSEGV, catch_fault));
	again = page_map(self->fd, 0);
	ASSERT_NE(MAP_FAILED, again);
	EXPECT_FALSE(rdpmc_faults(counter));
	ASSERT_EQ(0, munmap(self->page, sysconf(_SC_PAGESIZE)));
	self->page = again;
	EXPECT_FALSE(rdpmc_faults(counter));
	ASSERT_EQ(0, munmap(self->page, sysconf(_SC_PAGESIZE)));
	self->page = MAP_FAILED;
	EXPECT_TRUE(rdpmc_faults(counter));
	self->page = page_map(self->fd, 0);
	ASSERT_NE(MAP_FAILED, self->page);
	EXPECT_FALSE(rdpmc_faults(counter));
}

/* Run @check in a child and return its result. */
static bool holds_in_child(bool (*check)(struct perf_event_mmap_page *),
			   struct perf_event_mmap_page *page)
{
	pid_t pid = fork();
	int status;

	if (!pid)
		_exit(check(page) ? 0 : 1);
	return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

static bool has_no_permission(struct perf_event_mmap_page *page)
{
	return rdpmc_faults(0);
}

/* The child does not inherit the mapping, and must not inherit its permission. */
TEST_F(x86_pmu_rdpmc, child_does_not_inherit_permission)
{
	ASSERT_NE(SIG_ERR, signal(SIGSEGV, catch_fault));
	EXPECT_TRUE(holds_in_child(has_no_permission, NULL));
	EXPECT_FALSE(rdpmc_faults(0));
}

static bool own_mapping_permits(struct perf_event_mmap_page *page)
{
	struct perf_event_attr attr = instructions_attr();
	int fd = pmu_open(&attr, -1);

	page = page_map(fd, 0);
	if (page == MAP_FAILED || rdpmc_faults(0))
		return false;
	munmap(page, sysconf(_SC_PAGESIZE));
	close(fd);
	return rdpmc_faults(0);
}

TEST_F(x86_pmu_rdpmc, permission_of_a_child_ends_with_its_own_mapping)
{
	ASSERT_NE(SIG_ERR, signal(SIGSEGV, catch_fault));
	EXPECT_TRUE(holds_in_child(own_mapping_permits, NULL));
	EXPECT_FALSE(rdpmc_faults(0));
}

static bool copied_mapping_permits(struct perf_event_mmap_page *page)
{
	if (rdpmc_faults(0))
		return false;
	munmap(page, sysconf(_SC_PAGESIZE));
	return rdpmc_faults(0);
}

TEST_F(x86_pmu_rdpmc, mapping_that_is_copied_permits_until_it_ends)
{
	ASSERT_NE(SIG_ERR, signal(SIGSEGV, catch_fault));
	ASSERT_EQ(0, madvise(self->page, sysconf(_SC_PAGESIZE), MADV_DOFORK));
	EXPECT_TRUE(holds_in_child(copied_mapping_permits, self->page));
	EXPECT_FALSE(rdpmc_faults(0));
}

TEST_F(x86_pmu_rdpmc, counter_that_does_not_exist_is_a_segmentation_fault)
{
	ASSERT_NE(SIG_ERR, signal(SIGSEGV, catch_fault));
	EXPECT_FALSE(rdpmc_faults(nr_general_counters() - 1));
	EXPECT_TRUE(rdpmc_faults(nr_general_counters()));
	EXPECT_TRUE(rdpmc_faults(1 << 30 | 3));
}

/* In hw_perf_event, the timer of a clock shares memory with the flags of a hardware event. */
TEST_F(x86_pmu_rdpmc, clock_that_samples_has_no_counter)
{
	struct perf_event_attr attr = {
		.type		= PERF_TYPE_SOFTWARE,
		.size		= sizeof(attr),
		.config		= PERF_COUNT_SW_CPU_CLOCK,
		.sample_period	= 10000000,
	};
	struct perf_event_mmap_page *page;
	int fd = pmu_open(&attr, -1);

	ASSERT_LE(0, fd);
	page = page_map(fd, 0);
	ASSERT_NE(MAP_FAILED, page);
	ASSERT_EQ(0, pmu_enable(fd));
	EXPECT_FALSE(!!page->cap_user_rdpmc);
	EXPECT_EQ(0, page->index);
	ASSERT_EQ(0, pmu_disable(fd));
	munmap(page, sysconf(_SC_PAGESIZE));
	close(fd);
}

TEST_F(x86_pmu_rdpmc, administrator_can_forbid_it)
{
	__u32 counter = self->page->index - 1;
	struct perf_event_attr attr = instructions_attr();
	struct perf_event_mmap_page *page;
	int fd;

	if (!write_file(rdpmc_mode, "0"))
		SKIP(return, "needs root to write %s", rdpmc_mode);
	signal(SIGSEGV, catch_fault);
	EXPECT_TRUE(rdpmc_faults(counter));
	fd = pmu_open(&attr, -1);
	EXPECT_LE(0, fd);
	page = page_map(fd, 0);
	EXPECT_FALSE(!!page->cap_user_rdpmc);
	close(fd);
	EXPECT_TRUE(write_file(rdpmc_mode, "1"));
	EXPECT_FALSE(rdpmc_faults(counter));
	munmap(page, sysconf(_SC_PAGESIZE));
}

TEST_F(x86_pmu_rdpmc, administrator_can_allow_it_to_all)
{
	if (!write_file(rdpmc_mode, "2"))
		SKIP(return, "needs root to write %s", rdpmc_mode);
	signal(SIGSEGV, catch_fault);
	munmap(self->page, sysconf(_SC_PAGESIZE));
	self->page = MAP_FAILED;
	EXPECT_FALSE(rdpmc_faults(0));
	EXPECT_TRUE(write_file(rdpmc_mode, "1"));
	EXPECT_TRUE(rdpmc_faults(0));
}

/* Each test starts in a process that has never had a mapping. */
TEST(x86_pmu_rdpmc_without_a_mapping_is_a_segmentation_fault)
{
	if (pmu_setup(_metadata))
		return;
	signal(SIGSEGV, catch_fault);
	EXPECT_TRUE(rdpmc_faults(0));
}

TEST_HARNESS_MAIN
