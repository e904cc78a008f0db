// SPDX-License-Identifier: GPL-2.0
/* perf ring buffer selftests - which mappings are allowed */
#define _GNU_SOURCE

#include "../kselftest_harness.h"
#include "ring_helpers.h"

FIXTURE(ring_mmap)
{
	struct perf_event_attr attr;
	struct ring ring;
	int fd;
};

FIXTURE_SETUP(ring_mmap)
{
	self->attr = fault_attr();
	self->fd = event_open(&self->attr);
	ASSERT_LE(0, self->fd);
}

FIXTURE_TEARDOWN(ring_mmap)
{
	close(self->fd);
}

static int map_pages(int fd, size_t nr)
{
	void *page = mmap(NULL, nr * page_size(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (page == MAP_FAILED)
		return -errno;
	munmap(page, nr * page_size());
	return 0;
}

/* Run @function in a child and return its status of wait(2). */
static int child_status(void (*function)(struct ring *, int), struct ring *ring, int fd)
{
	int status = -1;
	pid_t pid;

	pid = fork();
	if (!pid) {
		function(ring, fd);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	return status;
}

TEST_F(ring_mmap, size_is_one_page_and_a_power_of_two)
{
	size_t nr, data;
	int want;

	for (nr = 1; nr <= 65; nr++) {
		data = nr - 1;
		want = data & (data - 1) ? -EINVAL : 0;
		EXPECT_EQ(want, map_pages(self->fd, nr)) {
			TH_LOG("%zu pages", nr);
		}
	}
}

TEST_F(ring_mmap, part_of_a_page_counts_as_a_page)
{
	size_t size = 3 * page_size();

	EXPECT_NE(MAP_FAILED, mmap(NULL, size - 1, PROT_READ, MAP_SHARED, self->fd, 0));
	EXPECT_EQ(MAP_FAILED, mmap(NULL, size + 1, PROT_READ, MAP_SHARED, self->fd, 0));
	EXPECT_EQ(EINVAL, errno);
}

TEST_F(ring_mmap, private_mapping_is_refused)
{
	EXPECT_EQ(MAP_FAILED, mmap(NULL, 3 * page_size(), PROT_READ, MAP_PRIVATE, self->fd, 0));
	EXPECT_EQ(EINVAL, errno);
}

TEST_F(ring_mmap, user_page_tells_where_the_data_is)
{
	ASSERT_EQ(0, ring_map(&self->ring, self->fd, 4));
	EXPECT_EQ(page_size(), self->ring.page->data_offset);
	EXPECT_EQ(4 * page_size(), self->ring.page->data_size);
	EXPECT_EQ(0, self->ring.page->data_head);
	EXPECT_EQ(0, self->ring.page->aux_size);
	EXPECT_TRUE(!!self->ring.page->cap_bit0_is_deprecated);
}

TEST_F(ring_mmap, later_mapping_has_the_size_of_the_first)
{
	ASSERT_EQ(0, ring_map(&self->ring, self->fd, 2));
	EXPECT_EQ(-EINVAL, map_pages(self->fd, 1));
	EXPECT_EQ(-EINVAL, map_pages(self->fd, 2));
	EXPECT_EQ(-EINVAL, map_pages(self->fd, 5));
	EXPECT_EQ(0, map_pages(self->fd, 3));
}

TEST_F(ring_mmap, size_can_change_after_the_last_unmap)
{
	struct ring second;

	ASSERT_EQ(0, ring_map(&self->ring, self->fd, 2));
	ASSERT_EQ(0, ring_map(&second, self->fd, 2));
	ASSERT_EQ(0, ring_unmap(&self->ring));
	EXPECT_EQ(-EINVAL, map_pages(self->fd, 5));
	ASSERT_EQ(0, ring_unmap(&second));
	EXPECT_EQ(0, map_pages(self->fd, 5));
	EXPECT_EQ(0, map_pages(self->fd, 1));
}

TEST_F(ring_mmap, mappings_of_one_event_show_the_same_pages)
{
	struct ring second;

	ASSERT_EQ(0, ring_map(&self->ring, self->fd, 2));
	ASSERT_EQ(0, ring_map(&second, self->fd, 2));
	record_faults(self->fd, 10);
	EXPECT_EQ(10 * SAMPLE_SIZE, ring_head(&self->ring));
	EXPECT_EQ(10 * SAMPLE_SIZE, ring_head(&second));
	EXPECT_EQ(0, memcmp(self->ring.data, second.data, second.size));
	ring_set_tail(&second, SAMPLE_SIZE);
	EXPECT_EQ(SAMPLE_SIZE, self->ring.page->data_tail);
}

TEST_F(ring_mmap, mapping_outlives_the_descriptor)
{
	ASSERT_EQ(0, ring_map(&self->ring, self->fd, 2));
	record_faults(self->fd, 3);
	ASSERT_EQ(0, close(self->fd));
	self->fd = -1;
	EXPECT_EQ(3 * SAMPLE_SIZE, ring_head(&self->ring));
	EXPECT_EQ(0, ring_unmap(&self->ring));
}

TEST_F(ring_mmap, inherited_event_needs_a_cpu)
{
	int any, bound;

	self->attr.inherit = 1;
	any = event_open(&self->attr);
	ASSERT_LE(0, any);
	EXPECT_EQ(-EINVAL, map_pages(any, 3));
	bound = event_open_on(&self->attr, 0, 0);
	ASSERT_LE(0, bound);
	EXPECT_EQ(0, map_pages(bound, 3));
	close(bound);
	close(any);
}

static void read_user_page(struct ring *ring, int fd)
{
	ring_head(ring);
}

static void write_data(struct ring *ring, int fd)
{
	if (ring_map(ring, fd, 2))
		_exit(1);
	__atomic_store_n(ring->data, 1, __ATOMIC_RELAXED);
}

static void write_user_page(struct ring *ring, int fd)
{
	if (ring_map(ring, fd, 2))
		_exit(1);
	ring_set_tail(ring, 0);
}

TEST_F(ring_mmap, child_has_no_mapping)
{
	int status;

	ASSERT_EQ(0, ring_map(&self->ring, self->fd, 2));
	status = child_status(read_user_page, &self->ring, self->fd);
	ASSERT_TRUE(WIFSIGNALED(status));
	EXPECT_EQ(SIGSEGV, WTERMSIG(status));
}

TEST_F(ring_mmap, only_the_user_page_can_be_written)
{
	int status;

	ASSERT_EQ(0, ring_map(&self->ring, self->fd, 2));
	EXPECT_EQ(0, child_status(write_user_page, &self->ring, self->fd));
	status = child_status(write_data, &self->ring, self->fd);
	ASSERT_TRUE(WIFSIGNALED(status));
	EXPECT_EQ(SIGBUS, WTERMSIG(status));
}

TEST_F(ring_mmap, mapping_is_all_or_nothing)
{
	size_t size = 3 * page_size();
	char *start;

	ASSERT_EQ(0, ring_map(&self->ring, self->fd, 2));
	start = (char *)self->ring.page;
	EXPECT_EQ(-1, munmap(start, page_size()));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-1, munmap(start + page_size(), page_size()));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-1, mprotect(start + page_size(), page_size(), PROT_READ));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(MAP_FAILED, mremap(start, size, 2 * size, MREMAP_MAYMOVE));
	EXPECT_EQ(EFAULT, errno);
	EXPECT_EQ(0, ring_unmap(&self->ring));
}

TEST_F(ring_mmap, mapping_can_move)
{
	size_t size = 3 * page_size();
	struct ring_sum sum = {};
	void *place, *page;

	ASSERT_EQ(0, ring_map(&self->ring, self->fd, 2));
	place = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, place);
	page = mremap(self->ring.page, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, place);
	ASSERT_EQ(place, page);
	self->ring.page = page;
	self->ring.data = (char *)page + page_size();
	record_faults(self->fd, 7);
	ring_drain(&self->ring, &sum);
	EXPECT_EQ(7, sum.samples);
	EXPECT_FALSE(sum.bad);
	EXPECT_EQ(0, ring_unmap(&self->ring));
	EXPECT_EQ(0, map_pages(self->fd, 9));
}

TEST_F(ring_mmap, mapping_is_not_in_core_dumps)
{
	int dontdump;

	ASSERT_EQ(0, ring_map(&self->ring, self->fd, 2));
	/* VM_DONTEXPAND forbids any change. */
	ASSERT_EQ(-1, madvise(self->ring.page, 3 * page_size(), MADV_DODUMP));
	ASSERT_EQ(EINVAL, errno);
	dontdump = vm_has_flag(self->ring.page, "dd");
	if (dontdump < 0)
		SKIP(return, "no VmFlags, CONFIG_PROC_PAGE_MONITOR has them");
	EXPECT_EQ(1, dontdump);
}

/* Number of records that does not fit into the two pages of data. */
static unsigned int too_many(void)
{
	return 2 * page_size() / SAMPLE_SIZE + 100;
}

TEST_F(ring_mmap, writable_first_mapping_protects_what_is_unread)
{
	/* The last byte of the buffer is never used. */
	unsigned int fit = (2 * page_size() - 1) / SAMPLE_SIZE;
	struct ring_sum sum = {};
	struct ring second;

	ASSERT_EQ(0, ring_map(&self->ring, self->fd, 2));
	ASSERT_EQ(0, ring_map_prot(&second, self->fd, 2, PROT_READ));
	record_faults(self->fd, too_many());
	EXPECT_EQ(fit * SAMPLE_SIZE, ring_head(&second));
	ring_drain(&self->ring, &sum);
	EXPECT_EQ(fit, sum.samples);
	EXPECT_EQ(0, sum.lost);
	/* The next record that fits comes after a record of the losses. */
	record_faults(self->fd, 1);
	ring_drain(&self->ring, &sum);
	EXPECT_EQ(fit + 1, sum.samples);
	EXPECT_EQ(1, sum.lost_records);
	EXPECT_EQ(too_many() - fit, sum.lost);
	EXPECT_FALSE(sum.bad);
}

TEST_F(ring_mmap, read_only_first_mapping_is_overwritten)
{
	ASSERT_EQ(0, ring_map_prot(&self->ring, self->fd, 2, PROT_READ));
	record_faults(self->fd, too_many());
	EXPECT_EQ(too_many() * SAMPLE_SIZE, ring_head(&self->ring));
}

TEST_F(ring_mmap, later_writable_mapping_does_not_protect)
{
	struct ring second;

	ASSERT_EQ(0, ring_map_prot(&self->ring, self->fd, 2, PROT_READ));
	ASSERT_EQ(0, ring_map(&second, self->fd, 2));
	ASSERT_EQ(0, mprotect(self->ring.page, 3 * page_size(), PROT_READ | PROT_WRITE));
	record_faults(self->fd, too_many());
	EXPECT_EQ(too_many() * SAMPLE_SIZE, ring_head(&second));
}

TEST_F(ring_mmap, backward_buffer_is_read_from_the_head_on)
{
	struct perf_event_header header;
	unsigned int nr = 0;
	__u64 at, head;
	int fd;

	self->attr.write_backward = 1;
	fd = event_open(&self->attr);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, ring_map_prot(&self->ring, fd, 2, PROT_READ));
	record_faults(fd, too_many());
	head = ring_head(&self->ring);
	EXPECT_EQ(-(__u64)(too_many() * SAMPLE_SIZE), head);
	for (at = head; at - head + SAMPLE_SIZE <= self->ring.size; at += header.size) {
		ring_copy(&self->ring, &header, at, sizeof(header));
		ASSERT_EQ(PERF_RECORD_SAMPLE, header.type);
		ASSERT_EQ(SAMPLE_SIZE, header.size);
		nr++;
	}
	EXPECT_EQ(self->ring.size / SAMPLE_SIZE, nr);
	close(fd);
}

TEST_F(ring_mmap, user_page_alone_takes_no_records)
{
	ASSERT_EQ(0, ring_map(&self->ring, self->fd, 0));
	record_faults(self->fd, 100);
	EXPECT_EQ(0, ring_head(&self->ring));
	EXPECT_EQ(-EINVAL, event_ioctl(self->fd, PERF_EVENT_IOC_PAUSE_OUTPUT, 0));
	EXPECT_EQ(0, self->ring.page->data_size);
}

TEST_F(ring_mmap, one_data_page_is_enough)
{
	struct ring_sum sum = {};

	ASSERT_EQ(0, ring_map(&self->ring, self->fd, 1));
	record_faults(self->fd, 20);
	ring_drain(&self->ring, &sum);
	EXPECT_EQ(20, sum.samples);
}

TEST_F(ring_mmap, read_gives_the_count_and_no_record)
{
	__u64 count;

	ASSERT_EQ(0, ring_map(&self->ring, self->fd, 1));
	record_faults(self->fd, 20);
	ASSERT_EQ(sizeof(count), read(self->fd, &count, sizeof(count)));
	EXPECT_EQ(20, count);
	EXPECT_EQ(20 * SAMPLE_SIZE, ring_head(&self->ring));
}

TEST_F(ring_mmap, event_without_aux_area_has_none)
{
	size_t offset = 3 * page_size(), size = 4 * page_size();

	ASSERT_EQ(0, ring_map(&self->ring, self->fd, 2));
	self->ring.page->aux_offset = offset;
	self->ring.page->aux_size = size;
	EXPECT_EQ(MAP_FAILED, mmap(NULL, size, PROT_READ, MAP_SHARED, self->fd, offset));
	EXPECT_EQ(EOPNOTSUPP, errno);
	self->ring.page->aux_offset = offset - page_size();
	EXPECT_EQ(MAP_FAILED, mmap(NULL, size, PROT_READ, MAP_SHARED, self->fd,
				   offset - page_size()));
	EXPECT_EQ(EINVAL, errno);
	/* The failure must not have damaged the buffer. */
	record_faults(self->fd, 5);
	EXPECT_EQ(5 * SAMPLE_SIZE, ring_head(&self->ring));
}

/* The second of two events writes to the buffer of the first. */
FIXTURE(ring_output)
{
	struct perf_event_attr attr;
	struct ring ring;
	int owner;
	int guest;
};

FIXTURE_SETUP(ring_output)
{
	self->attr = fault_attr();
	self->owner = event_open(&self->attr);
	ASSERT_LE(0, self->owner);
	self->guest = event_open(&self->attr);
	ASSERT_LE(0, self->guest);
	ASSERT_EQ(0, ring_map(&self->ring, self->owner, 2));
}

FIXTURE_TEARDOWN(ring_output)
{
	close(self->guest);
	close(self->owner);
}

static int set_output(int fd, unsigned long output)
{
	return event_ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, output);
}

TEST_F(ring_output, redirected_event_writes_to_the_other_buffer)
{
	ASSERT_EQ(0, set_output(self->guest, self->owner));
	record_faults(self->guest, 5);
	EXPECT_EQ(5 * SAMPLE_SIZE, ring_head(&self->ring));
}

TEST_F(ring_output, redirected_event_maps_no_buffer)
{
	ASSERT_EQ(0, set_output(self->guest, self->owner));
	EXPECT_EQ(-EINVAL, map_pages(self->guest, 5));
	EXPECT_EQ(-EBUSY, map_pages(self->guest, 3));
	/* The rejected calls have left nothing behind. */
	record_faults(self->guest, 5);
	EXPECT_EQ(5 * SAMPLE_SIZE, ring_head(&self->ring));
	ASSERT_EQ(0, set_output(self->guest, -1L));
	EXPECT_EQ(0, map_pages(self->guest, 3));
}

TEST_F(ring_output, mapped_event_cannot_be_redirected)
{
	struct ring second;

	ASSERT_EQ(0, ring_map(&second, self->guest, 2));
	EXPECT_EQ(-EINVAL, set_output(self->guest, self->owner));
	EXPECT_EQ(-EINVAL, set_output(self->guest, -1L));
	ASSERT_EQ(0, ring_unmap(&second));
	EXPECT_EQ(0, set_output(self->guest, self->owner));
}

TEST_F(ring_output, redirection_ends_with_minus_one)
{
	ASSERT_EQ(0, set_output(self->guest, self->owner));
	ASSERT_EQ(0, set_output(self->guest, -1L));
	record_faults(self->guest, 5);
	EXPECT_EQ(0, ring_head(&self->ring));
}

/* The value of a variadic int -1 on a 64-bit machine, and of a 32-bit program. */
TEST_F(ring_output, minus_one_is_an_int)
{
	ASSERT_EQ(0, set_output(self->guest, self->owner));
	EXPECT_EQ(0, set_output(self->guest, 0xffffffffUL));
	record_faults(self->guest, 5);
	EXPECT_EQ(0, ring_head(&self->ring));
}

/* Children of the event would write to one buffer on many CPUs, as with a mapping. */
TEST_F(ring_output, inherited_event_of_a_task_is_not_redirected)
{
	struct ring ring;
	int owner, guest;

	self->attr.inherit = 1;
	guest = event_open(&self->attr);
	ASSERT_LE(0, guest);
	EXPECT_EQ(-EINVAL, set_output(guest, self->owner));
	EXPECT_EQ(0, set_output(guest, -1));
	close(guest);

	owner = event_open_on(&self->attr, 0, 0);
	ASSERT_LE(0, owner);
	ASSERT_EQ(0, ring_map(&ring, owner, 2));
	guest = event_open_on(&self->attr, 0, 0);
	ASSERT_LE(0, guest);
	EXPECT_EQ(0, set_output(guest, owner));
	close(guest);
	ring_unmap(&ring);
	close(owner);
}

TEST_F(ring_output, buffer_that_nobody_maps_ends_the_redirection)
{
	ASSERT_EQ(0, set_output(self->guest, self->owner));
	ASSERT_EQ(0, ring_unmap(&self->ring));
	EXPECT_EQ(POLLHUP, poll_now(self->guest));
	EXPECT_EQ(0, map_pages(self->guest, 9));
}

TEST_F(ring_output, closed_owner_keeps_the_buffer)
{
	ASSERT_EQ(0, set_output(self->guest, self->owner));
	ASSERT_EQ(0, close(self->owner));
	self->owner = -1;
	record_faults(self->guest, 5);
	EXPECT_EQ(5 * SAMPLE_SIZE, ring_head(&self->ring));
}

TEST_F(ring_output, what_does_not_fit_together_is_refused)
{
	struct perf_event_attr attr = self->attr;
	int fd;

	EXPECT_EQ(-EINVAL, set_output(self->owner, self->owner));
	EXPECT_EQ(-EBADF, set_output(self->guest, 1000));
	EXPECT_EQ(-EBADF, set_output(self->guest, STDOUT_FILENO));

	fd = event_open_on(&attr, 0, 0);
	ASSERT_LE(0, fd);
	EXPECT_EQ(-EINVAL, set_output(fd, self->owner));
	close(fd);

	attr.write_backward = 1;
	fd = event_open(&attr);
	ASSERT_LE(0, fd);
	EXPECT_EQ(-EINVAL, set_output(fd, self->owner));
	close(fd);

	attr.write_backward = 0;
	attr.use_clockid = 1;
	attr.clockid = CLOCK_MONOTONIC;
	fd = event_open(&attr);
	ASSERT_LE(0, fd);
	EXPECT_EQ(-EINVAL, set_output(fd, self->owner));
	close(fd);
}

TEST_F(ring_output, other_task_is_refused)
{
	struct perf_event_attr attr = self->attr;
	pid_t pid;
	int fd;

	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		pause();
		_exit(0);
	}
	fd = event_open_on(&attr, pid, -1);
	EXPECT_LE(0, fd);
	EXPECT_EQ(-EINVAL, set_output(fd, self->owner));
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(fd);
}

TEST_F(ring_output, buffer_that_does_not_exist_is_refused)
{
	int fd = event_open(&self->attr);

	ASSERT_LE(0, fd);
	EXPECT_EQ(-EINVAL, set_output(self->guest, fd));
	close(fd);
}

struct id_sample {
	struct perf_event_header	header;
	__u64				id;
};

/* Return the number of samples, or -1 if one of them has another ID. */
static int samples_with_id(struct ring *ring, __u64 id)
{
	struct id_sample sample;
	int samples = 0;

	while (ring_next(ring, &sample, sizeof(sample)) == PERF_RECORD_SAMPLE) {
		if (sample.id != id)
			return -1;
		samples++;
	}
	return samples;
}

/* One page fault is a sample of both events. */
TEST_F(ring_mmap, samples_of_two_software_events_have_their_own_ids)
{
	struct perf_event_attr attr = fault_attr();
	struct ring ring[2];
	__u64 id[2];
	int fd[2], i;

	attr.sample_type = PERF_SAMPLE_IDENTIFIER;
	for (i = 0; i < 2; i++) {
		attr.sample_period = 1 + i;
		fd[i] = event_open(&attr);
		ASSERT_LE(0, fd[i]);
		ASSERT_EQ(0, ioctl(fd[i], PERF_EVENT_IOC_ID, &id[i]));
		ASSERT_EQ(0, ring_map(&ring[i], fd[i], 4));
	}
	make_faults(1);
	for (i = 0; i < 2; i++)
		ASSERT_EQ(0, event_enable(fd[i]));
	make_faults(100);
	for (i = 0; i < 2; i++)
		ASSERT_EQ(0, event_disable(fd[i]));
	EXPECT_LE(100, samples_with_id(&ring[0], id[0]));
	EXPECT_LE(50, samples_with_id(&ring[1], id[1]));
	for (i = 0; i < 2; i++) {
		ring_unmap(&ring[i]);
		close(fd[i]);
	}
}

TEST_HARNESS_MAIN
