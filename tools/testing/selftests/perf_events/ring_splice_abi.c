// SPDX-License-Identifier: GPL-2.0
/* perf ring buffer selftests - conditions of a buffer for splice(2), and its effects */
#define _GNU_SOURCE

#include "../kselftest_harness.h"
#include "ring_splice_helpers.h"

#define NR_PAGES	4

FIXTURE(ring_splice_abi)
{
	struct perf_event_attr attr;
	struct perf_event_buffer buffer;
	struct ring ring;
	int pipes[2];
	int fd;
};

FIXTURE_SETUP(ring_splice_abi)
{
	SKIP_WITHOUT_SPLICE();
	self->attr = fault_attr();
	self->buffer = splice_buffer(NR_PAGES);
	self->fd = event_open(&self->attr);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, pipe_open(self->pipes, MIB));
}

FIXTURE_TEARDOWN(ring_splice_abi)
{
	close(self->fd);
	pipe_close(self->pipes);
}

TEST_F(ring_splice_abi, data_is_a_power_of_two_of_pages)
{
	static const size_t bad[] = { 0, 3, 5, 6, 7, 9, 12, 1000 };
	size_t nr;

	for (nr = 0; nr < ARRAY_SIZE(bad); nr++)
		EXPECT_EQ(-EINVAL, ring_alloc(self->fd, bad[nr]));
	self->buffer.data_size = page_size() / 2;
	EXPECT_EQ(-EINVAL, buffer_alloc(self->fd, &self->buffer));
	self->buffer.data_size = page_size() + 8;
	EXPECT_EQ(-EINVAL, buffer_alloc(self->fd, &self->buffer));
	for (nr = 1; nr <= 64; nr *= 2) {
		int fd = event_open(&self->attr);

		EXPECT_EQ(0, ring_alloc(fd, nr));
		close(fd);
	}
}

TEST_F(ring_splice_abi, size_that_no_kernel_has_is_enomem)
{
	if (geteuid())
		SKIP(return, "needs root, whom no limit stops");
	self->buffer.data_size = 1ULL << 62;
	EXPECT_EQ(-ENOMEM, buffer_alloc(self->fd, &self->buffer));
	self->buffer.data_size = 1ULL << 63;
	EXPECT_EQ(-ENOMEM, buffer_alloc(self->fd, &self->buffer));
}

TEST_F(ring_splice_abi, unknown_flags_are_refused)
{
	int bit;

	self->buffer.flags = 0;
	EXPECT_EQ(-EINVAL, buffer_alloc(self->fd, &self->buffer));
	for (bit = 1; bit < 32; bit++) {
		self->buffer.flags = PERF_BUFFER_F_SPLICE | 1U << bit;
		EXPECT_EQ(-EINVAL, buffer_alloc(self->fd, &self->buffer));
	}
	self->buffer = splice_buffer(NR_PAGES);
	self->buffer.__reserved = 1;
	EXPECT_EQ(-EINVAL, buffer_alloc(self->fd, &self->buffer));
	/* The rejected calls have left nothing behind. */
	EXPECT_EQ(0, ring_alloc(self->fd, NR_PAGES));
}

TEST_F(ring_splice_abi, structure_can_grow)
{
	struct {
		struct perf_event_buffer buffer;
		__u64 more;
	} large = { .buffer = splice_buffer(NR_PAGES) };

	large.buffer.size = sizeof(large.buffer) - 8;
	EXPECT_EQ(-EINVAL, buffer_alloc(self->fd, &large.buffer));
	large.buffer.size = 0;
	EXPECT_EQ(-EINVAL, buffer_alloc(self->fd, &large.buffer));
	large.buffer.size = page_size() + 8;
	EXPECT_EQ(-E2BIG, buffer_alloc(self->fd, &large.buffer));
	large.buffer.size = sizeof(large);
	large.more = 1;
	EXPECT_EQ(-E2BIG, buffer_alloc(self->fd, &large.buffer));
	large.more = 0;
	EXPECT_EQ(0, buffer_alloc(self->fd, &large.buffer));
}

TEST_F(ring_splice_abi, address_that_cannot_be_read_is_efault)
{
	EXPECT_EQ(-EFAULT, event_ioctl(self->fd, PERF_EVENT_IOC_ALLOC_BUFFER, 8));
}

TEST_F(ring_splice_abi, event_has_one_buffer)
{
	ASSERT_EQ(0, ring_alloc(self->fd, NR_PAGES));
	EXPECT_EQ(-EBUSY, ring_alloc(self->fd, NR_PAGES));
	EXPECT_EQ(-EBUSY, ring_alloc(self->fd, 2 * NR_PAGES));
}

TEST_F(ring_splice_abi, backward_event_is_refused)
{
	int fd;

	self->attr.write_backward = 1;
	fd = event_open(&self->attr);
	ASSERT_LE(0, fd);
	EXPECT_EQ(-EINVAL, ring_alloc(fd, NR_PAGES));
	close(fd);
}

TEST_F(ring_splice_abi, inherited_event_needs_a_cpu)
{
	int fd;

	self->attr.inherit = 1;
	fd = event_open(&self->attr);
	ASSERT_LE(0, fd);
	EXPECT_EQ(-EINVAL, ring_alloc(fd, NR_PAGES));
	close(fd);
	fd = event_open_on(&self->attr, 0, 0);
	ASSERT_LE(0, fd);
	EXPECT_EQ(0, ring_alloc(fd, NR_PAGES));
	close(fd);
}

TEST_F(ring_splice_abi, without_a_buffer_splice_is_einval)
{
	EXPECT_EQ(-EINVAL, ring_splice(self->fd, self->pipes[1], page_size()));
}

TEST_F(ring_splice_abi, empty_buffer_is_eagain)
{
	ASSERT_EQ(0, ring_alloc(self->fd, NR_PAGES));
	EXPECT_EQ(-EAGAIN, ring_splice(self->fd, self->pipes[1], page_size()));
	/* O_NONBLOCK of either side has the same effect as the flag. */
	ASSERT_EQ(0, fcntl(self->fd, F_SETFL, O_NONBLOCK));
	EXPECT_EQ(-EAGAIN, ring_splice_flags(self->fd, self->pipes[1], page_size(), 0));
	ASSERT_EQ(0, fcntl(self->fd, F_SETFL, 0));
	ASSERT_EQ(0, fcntl(self->pipes[1], F_SETFL, O_NONBLOCK));
	EXPECT_EQ(-EAGAIN, ring_splice_flags(self->fd, self->pipes[1], page_size(), 0));
}

TEST_F(ring_splice_abi, records_have_no_position)
{
	loff_t offset = 0;

	ASSERT_EQ(0, ring_alloc(self->fd, NR_PAGES));
	record_faults(self->fd, 10);
	EXPECT_EQ(-1, splice(self->fd, &offset, self->pipes[1], NULL, page_size(),
			     SPLICE_F_NONBLOCK));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(10 * SAMPLE_SIZE, ring_splice(self->fd, self->pipes[1], page_size()));
}

TEST_F(ring_splice_abi, nothing_else_reads_records)
{
	char record[64];

	ASSERT_EQ(0, ring_alloc(self->fd, NR_PAGES));
	record_faults(self->fd, 10);
	/* read() gives the count. */
	EXPECT_EQ(8, read(self->fd, record, sizeof(record)));
	EXPECT_EQ(-1, splice(self->pipes[0], NULL, self->fd, NULL, 1, SPLICE_F_NONBLOCK));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(10 * SAMPLE_SIZE, ring_splice(self->fd, self->pipes[1], page_size()));
}

TEST_F(ring_splice_abi, mapped_buffer_is_not_spliced)
{
	ASSERT_EQ(0, ring_map(&self->ring, self->fd, NR_PAGES));
	EXPECT_EQ(-EBUSY, ring_alloc(self->fd, NR_PAGES));
	record_faults(self->fd, 10);
	EXPECT_EQ(-EBUSY, ring_splice(self->fd, self->pipes[1], page_size()));
	ASSERT_EQ(0, ring_unmap(&self->ring));
	EXPECT_EQ(0, ring_alloc(self->fd, NR_PAGES));
}

TEST_F(ring_splice_abi, mapped_user_page_is_a_buffer)
{
	ASSERT_EQ(0, ring_map(&self->ring, self->fd, 0));
	EXPECT_EQ(-EBUSY, ring_alloc(self->fd, NR_PAGES));
	EXPECT_EQ(-EBUSY, ring_splice(self->fd, self->pipes[1], page_size()));
}

TEST_F(ring_splice_abi, data_is_not_mapped)
{
	struct ring ring;
	size_t nr;

	ASSERT_EQ(0, ring_alloc(self->fd, NR_PAGES));
	for (nr = 1; nr <= 2 * NR_PAGES; nr *= 2) {
		EXPECT_EQ(-EBUSY, ring_map(&ring, self->fd, nr));
		EXPECT_EQ(-EBUSY, ring_map_prot(&ring, self->fd, nr, PROT_READ));
	}
	EXPECT_EQ(-EINVAL, ring_map(&ring, self->fd, 3));
	/* Only the user page can be mapped. */
	EXPECT_EQ(MAP_FAILED, mmap(NULL, page_size(), PROT_READ, MAP_SHARED, self->fd,
				   page_size()));
	EXPECT_EQ(EINVAL, errno);
	record_faults(self->fd, 10);
	EXPECT_EQ(10 * SAMPLE_SIZE, ring_splice(self->fd, self->pipes[1], page_size()));
}

TEST_F(ring_splice_abi, user_page_alone_is_mapped)
{
	struct ring ring;

	ASSERT_EQ(0, ring_alloc(self->fd, NR_PAGES));
	ASSERT_EQ(0, ring_map(&ring, self->fd, 0));
	EXPECT_EQ(NR_PAGES * page_size(), ring.page->data_size);
	record_faults(self->fd, 10);
	EXPECT_EQ(10 * SAMPLE_SIZE, ring_head(&ring));
	EXPECT_EQ(MAP_FAILED, mremap(ring.page, page_size(), 2 * page_size(), MREMAP_MAYMOVE));
	EXPECT_EQ(EFAULT, errno);
	ASSERT_EQ(0, ring_unmap(&ring));
	/* The buffer stays after the mapping is gone. */
	EXPECT_EQ(-EBUSY, ring_alloc(self->fd, NR_PAGES));
	record_faults(self->fd, 10);
	EXPECT_EQ(20 * SAMPLE_SIZE, ring_splice(self->fd, self->pipes[1], page_size()));
}

/* Writes of a program to the user page have no effect on the buffer. */
TEST_F(ring_splice_abi, positions_are_the_kernels)
{
	struct ring_sum sum = {};
	struct stream stream;
	struct ring ring;
	int i;

	ASSERT_EQ(0, stream_init(&stream, MIB));
	ASSERT_EQ(0, ring_alloc(self->fd, NR_PAGES));
	ASSERT_EQ(0, ring_map(&ring, self->fd, 0));
	for (i = 0; i < 100; i++) {
		record_faults(self->fd, 50);
		ring.page->data_head = i * 0x123456789ULL;
		ring.page->data_tail = ~0ULL / (i + 1);
		ring.page->data_size = i;
		ASSERT_EQ(-EAGAIN, stream_drain(&stream, self->fd, self->pipes, MIB));
	}
	stream_sum(&stream, &sum);
	EXPECT_EQ(5000, sum.samples);
	EXPECT_EQ(0, sum.lost);
	EXPECT_FALSE(sum.bad);
}

TEST_F(ring_splice_abi, owner_cannot_be_redirected)
{
	int other = event_open(&self->attr);
	struct ring ring;

	ASSERT_LE(0, other);
	ASSERT_EQ(0, ring_map(&ring, other, NR_PAGES));
	ASSERT_EQ(0, ring_alloc(self->fd, NR_PAGES));
	EXPECT_EQ(-EINVAL, event_ioctl(self->fd, PERF_EVENT_IOC_SET_OUTPUT, other));
	EXPECT_EQ(-EINVAL, event_ioctl(self->fd, PERF_EVENT_IOC_SET_OUTPUT, -1));
	close(other);
}

TEST_F(ring_splice_abi, redirected_event_writes_and_does_not_read)
{
	int other = event_open(&self->attr);
	struct ring ring;

	ASSERT_LE(0, other);
	ASSERT_EQ(0, ring_alloc(self->fd, NR_PAGES));
	ASSERT_EQ(0, event_ioctl(other, PERF_EVENT_IOC_SET_OUTPUT, self->fd));
	record_faults(other, 10);
	record_faults(self->fd, 10);
	EXPECT_EQ(-EBUSY, ring_splice(other, self->pipes[1], page_size()));
	EXPECT_EQ(-EBUSY, ring_alloc(other, NR_PAGES));
	EXPECT_EQ(-EBUSY, ring_map(&ring, other, NR_PAGES));
	EXPECT_EQ(20 * SAMPLE_SIZE, ring_splice(self->fd, self->pipes[1], page_size()));

	ASSERT_EQ(0, event_ioctl(other, PERF_EVENT_IOC_SET_OUTPUT, -1));
	record_faults(other, 10);
	EXPECT_EQ(-EAGAIN, ring_splice(self->fd, self->pipes[1], page_size()));
	EXPECT_EQ(-EINVAL, ring_splice(other, self->pipes[1], page_size()));
	close(other);
}

TEST_F(ring_splice_abi, mapped_event_is_not_redirected_into_it)
{
	int other = event_open(&self->attr);
	struct ring ring;

	ASSERT_EQ(0, ring_alloc(self->fd, NR_PAGES));
	ASSERT_EQ(0, ring_map(&ring, other, NR_PAGES));
	EXPECT_EQ(-EINVAL, event_ioctl(other, PERF_EVENT_IOC_SET_OUTPUT, self->fd));
	close(other);
}

TEST_F(ring_splice_abi, file_is_not_sent_by_sendfile)
{
	int null = open("/dev/null", O_WRONLY);

	ASSERT_EQ(0, ring_alloc(self->fd, NR_PAGES));
	record_faults(self->fd, 10);
	EXPECT_EQ(-1, syscall(__NR_sendfile, null, self->fd, NULL, page_size()));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(10 * SAMPLE_SIZE, ring_splice(self->fd, self->pipes[1], page_size()));
	close(null);
}

TEST_HARNESS_MAIN
