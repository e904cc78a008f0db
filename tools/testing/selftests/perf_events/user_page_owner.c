// SPDX-License-Identifier: GPL-2.0
/*
 * perf selftests - a user page belongs to one event, with any others in its
 * buffer
 *
 * An event whose output goes to the buffer of another one has that buffer, and
 * no page of its own. Software events are enough to see whose count the page
 * has, because their count is perf_event_mmap_page::offset.
 */
#define _GNU_SOURCE
#include <sys/ioctl.h>

#include "../kselftest_harness.h"
#include "event_helpers.h"

#define NR_FAULTS 5

FIXTURE(owner) {
	volatile struct perf_event_mmap_page *page;
	size_t length;
	int owner;
	int guest;
};

static int open_faults(void)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_PAGE_FAULTS,
		.size = sizeof(attr),
		.disabled = 1,
		.exclude_kernel = 1,
		.exclude_hv = 1,
	};

	return syscall(__NR_perf_event_open, &attr, 0, -1, -1, 0);
}

static __s64 value_of(int fd)
{
	__s64 value;

	return read(fd, &value, sizeof(value)) == sizeof(value) ? value : -1;
}

/* Take at least @nr page faults. */
static bool take_faults(unsigned int nr)
{
	size_t length = nr * sysconf(_SC_PAGESIZE);
	volatile char *memory;
	size_t at;

	memory = mmap(NULL, length, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return false;
	madvise((void *)memory, length, MADV_NOHUGEPAGE);
	for (at = 0; at < length; at += sysconf(_SC_PAGESIZE))
		memory[at] = 1;
	return !munmap((void *)memory, length);
}

FIXTURE_SETUP(owner)
{
	self->length = 2 * sysconf(_SC_PAGESIZE);
	self->owner = open_faults();
	ASSERT_LE(0, self->owner);
	self->guest = open_faults();
	ASSERT_LE(0, self->guest);
	self->page = mmap(NULL, self->length, PROT_READ | PROT_WRITE, MAP_SHARED,
			  self->owner, 0);
	ASSERT_NE(MAP_FAILED, (void *)self->page);

	ASSERT_EQ(0, ioctl(self->owner, PERF_EVENT_IOC_ENABLE, 0));
	ASSERT_TRUE(take_faults(NR_FAULTS));
	ASSERT_EQ(0, ioctl(self->owner, PERF_EVENT_IOC_DISABLE, 0));
	ASSERT_LE(NR_FAULTS, value_of(self->owner));
	ASSERT_EQ(value_of(self->owner), self->page->offset);

	ASSERT_EQ(0, ioctl(self->guest, PERF_EVENT_IOC_SET_OUTPUT, self->owner));
}

FIXTURE_TEARDOWN(owner)
{
	munmap((void *)self->page, self->length);
	close(self->guest);
	close(self->owner);
}

TEST_F(owner, reset_of_a_redirected_event_leaves_the_page_alone)
{
	ASSERT_EQ(0, ioctl(self->guest, PERF_EVENT_IOC_RESET, 0));
	EXPECT_EQ(value_of(self->owner), self->page->offset);
}

TEST_F(owner, redirected_event_that_runs_and_stops_leaves_the_page_alone)
{
	__u64 enabled = self->page->time_enabled;

	ASSERT_EQ(0, ioctl(self->guest, PERF_EVENT_IOC_ENABLE, 0));
	EXPECT_EQ(value_of(self->owner), self->page->offset);
	ASSERT_TRUE(take_faults(2 * NR_FAULTS));
	ASSERT_EQ(0, ioctl(self->guest, PERF_EVENT_IOC_DISABLE, 0));
	EXPECT_EQ(value_of(self->owner), self->page->offset);
	EXPECT_EQ(enabled, self->page->time_enabled);
	EXPECT_LE(2 * NR_FAULTS, value_of(self->guest));
}

TEST_F(owner, end_of_a_redirected_event_leaves_the_page_alone)
{
	ASSERT_EQ(0, ioctl(self->guest, PERF_EVENT_IOC_ENABLE, 0));
	ASSERT_EQ(0, close(self->guest));
	EXPECT_EQ(value_of(self->owner), self->page->offset);
	self->guest = open_faults();
}

TEST_F(owner, page_goes_on_with_its_own_event)
{
	__s64 before = value_of(self->owner);

	ASSERT_EQ(0, ioctl(self->guest, PERF_EVENT_IOC_ENABLE, 0));
	ASSERT_EQ(0, ioctl(self->owner, PERF_EVENT_IOC_ENABLE, 0));
	ASSERT_TRUE(take_faults(NR_FAULTS));
	ASSERT_EQ(0, ioctl(self->owner, PERF_EVENT_IOC_DISABLE, 0));
	ASSERT_EQ(0, ioctl(self->guest, PERF_EVENT_IOC_RESET, 0));
	EXPECT_LE(before + NR_FAULTS, value_of(self->owner));
	EXPECT_EQ(value_of(self->owner), self->page->offset);
}

/*
 * An event that is redirected cannot be mapped. The owner's mapping keeps its event
 * after the file is closed.
 */
TEST_F(owner, page_outlives_the_file_of_its_event)
{
	__s64 last = self->page->offset;

	EXPECT_EQ(MAP_FAILED, mmap(NULL, self->length, PROT_READ | PROT_WRITE, MAP_SHARED,
				   self->guest, 0));
	EXPECT_EQ(EBUSY, errno);
	ASSERT_EQ(0, close(self->owner));

	ASSERT_EQ(0, ioctl(self->guest, PERF_EVENT_IOC_ENABLE, 0));
	ASSERT_TRUE(take_faults(NR_FAULTS));
	ASSERT_EQ(0, ioctl(self->guest, PERF_EVENT_IOC_DISABLE, 0));
	EXPECT_EQ(last, self->page->offset);
	EXPECT_EQ(0, self->page->index);
	self->owner = open_faults();
}

TEST_F(owner, event_that_leaves_the_buffer_gets_a_page_of_its_own)
{
	volatile struct perf_event_mmap_page *page;

	ASSERT_EQ(0, ioctl(self->guest, PERF_EVENT_IOC_SET_OUTPUT, -1L));
	page = mmap(NULL, self->length, PROT_READ | PROT_WRITE, MAP_SHARED,
		    self->guest, 0);
	ASSERT_NE(MAP_FAILED, (void *)page);
	ASSERT_EQ(0, ioctl(self->guest, PERF_EVENT_IOC_ENABLE, 0));
	ASSERT_TRUE(take_faults(2 * NR_FAULTS));
	ASSERT_EQ(0, ioctl(self->guest, PERF_EVENT_IOC_DISABLE, 0));
	EXPECT_EQ(value_of(self->guest), page->offset);
	EXPECT_EQ(value_of(self->owner), self->page->offset);
	munmap((void *)page, self->length);
}

TEST_HARNESS_MAIN
