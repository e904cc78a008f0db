// SPDX-License-Identifier: GPL-2.0
/* perf ring buffer selftests - read(2), and the layout of records */
#define _GNU_SOURCE

#include "../kselftest_harness.h"
#include "ring_helpers.h"

/* The largest multiple of 8 that the u16 of a header holds. */
#define MAX_SIZE	65528
#define DATA_SIZE	(256 * 1024)
#define NR_ROUNDS	32

FIXTURE(ring_splice)
{
	struct perf_event_attr attr;
	struct ring ring;
	int pipe[2];
	int fd;
};

FIXTURE_SETUP(ring_splice)
{
	self->attr = fault_attr();
	self->fd = event_open(&self->attr);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, pipe(self->pipe));
}

FIXTURE_TEARDOWN(ring_splice)
{
	close(self->pipe[0]);
	close(self->pipe[1]);
	close(self->fd);
}

static int splice_all(int from, int to)
{
	ssize_t len = splice(from, NULL, to, NULL, page_size(), SPLICE_F_NONBLOCK);

	return len < 0 ? -errno : len;
}

TEST_F(ring_splice, event_without_buffer_is_refused)
{
	EXPECT_EQ(-EINVAL, splice_all(self->fd, self->pipe[1]));
	record_faults(self->fd, 5);
	EXPECT_EQ(-EINVAL, splice_all(self->fd, self->pipe[1]));
}

/* With buffers for splice(), the error is EBUSY, because this buffer is mapped. */
static bool is_refused(ssize_t ret)
{
	return ret == -EINVAL || ret == -EBUSY;
}

TEST_F(ring_splice, buffer_is_refused_and_keeps_its_records)
{
	struct ring_sum sum = {};

	ASSERT_EQ(0, ring_map(&self->ring, self->fd, 2));
	EXPECT_TRUE(is_refused(splice_all(self->fd, self->pipe[1])));
	record_faults(self->fd, 5);
	EXPECT_TRUE(is_refused(splice_all(self->fd, self->pipe[1])));
	EXPECT_EQ(0, self->ring.page->data_tail);
	ring_drain(&self->ring, &sum);
	EXPECT_EQ(5, sum.samples);
	EXPECT_FALSE(sum.bad);
}

/* An event cannot be written to, either. */
TEST_F(ring_splice, pipe_into_an_event_is_refused)
{
	ASSERT_EQ(1, write(self->pipe[1], "x", 1));
	EXPECT_EQ(-EINVAL, splice_all(self->pipe[0], self->fd));
}

/* Sizes of dumped stacks. The last two do not fit beside the rest of a sample. */
static const __u32 stack_sizes[] = { 8, 1000, 4096, 30000, MAX_SIZE - 8, MAX_SIZE };

#define NR_SIZES	(sizeof(stack_sizes) / sizeof(*stack_sizes))

/* The callchain, the size of the dump, the dump, and the size of its valid part follow. */
struct sample {
	struct perf_event_header	header;
	__u64				ip;
	__u32				pid;
	__u32				tid;
	__u64				nr;
	__u64				words[(MAX_SIZE - 32) / 8];
};

FIXTURE(ring_record)
{
	struct ring ring;
	int fds[NR_SIZES];
};

static struct perf_event_attr stack_attr(__u32 size)
{
	struct perf_event_attr attr = fault_attr();

	attr.sample_type |= PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_STACK_USER;
	attr.sample_stack_user = size;
	return attr;
}

/* Open an event for each size, and use one buffer for all. */
FIXTURE_SETUP(ring_record)
{
	struct perf_event_attr attr;
	size_t i;

	memset(self->fds, -1, sizeof(self->fds));
	for (i = 0; i < NR_SIZES; i++) {
		attr = stack_attr(stack_sizes[i]);
		self->fds[i] = event_open(&attr);
		/* Some architectures do not support this, and return another error. */
		if (self->fds[i] < 0 && errno != EINVAL)
			SKIP(return, "no samples of the stack: %s", strerror(errno));
		ASSERT_LE(0, self->fds[i]);
	}
	ASSERT_EQ(0, ring_map(&self->ring, self->fds[0], DATA_SIZE / page_size()));
	for (i = 1; i < NR_SIZES; i++)
		ASSERT_EQ(0, event_ioctl(self->fds[i], PERF_EVENT_IOC_SET_OUTPUT, self->fds[0]));
}

FIXTURE_TEARDOWN(ring_record)
{
	size_t i;

	for (i = 0; i < NR_SIZES; i++)
		close(self->fds[i]);
}

/* Record callchains of different lengths, if the kernel can unwind the frames. */
static void record_at_depth(int fd, unsigned int depth)
{
	if (depth)
		record_at_depth(fd, depth - 1);
	else
		record_faults(fd, 1);
	/* This prevents a tail call. */
	asm volatile("" : : : "memory");
}

/* Fill more stack than can be dumped with words that tell their position. */
static void record_with_stack(const int *fds, unsigned int round)
{
	__u64 words[2 * MAX_SIZE / sizeof(__u64)];
	size_t i;

	for (i = 0; i < sizeof(words) / sizeof(*words); i++)
		words[i] = i;
	asm volatile("" : : "r" (words) : "memory");
	for (i = 0; i < NR_SIZES; i++)
		record_at_depth(fds[i], (round + i) % 8);
}

/* Get the size of the dump, or -1 if the sizes of the parts do not match the sample. */
static long stack_of(const struct sample *sample)
{
	size_t nr = sample->header.size / sizeof(__u64), len, i;
	const __u64 *dump = sample->words + sample->nr + 1;

	if (sample->header.size % sizeof(__u64) || sample->pid != (__u32)getpid())
		return -1;
	/* Six words always exist: those before the callchain, and both sizes. */
	if (nr < 6 || sample->nr > nr - 6)
		return -1;
	len = nr - 6 - sample->nr;
	if (dump[-1] != len * sizeof(__u64) || dump[len] != dump[-1])
		return -1;
	/* The first part of the stack belongs to the called functions. */
	for (i = 0; len >= 512 && i < len / 4; i++) {
		if (dump[len - 1 - i] != dump[len - 1] - i)
			return -1;
	}
	return dump[-1];
}

TEST_F(ring_record, records_of_all_sizes_are_whole)
{
	static struct sample sample;
	unsigned int round, wraps = 0;
	long stack, fit;
	__u64 from, head;
	size_t i;

	for (round = 0; round < NR_ROUNDS; round++) {
		record_with_stack(self->fds, round);
		head = ring_head(&self->ring);
		for (i = 0; i < NR_SIZES; i++) {
			from = self->ring.tail;
			ASSERT_EQ(PERF_RECORD_SAMPLE,
				  ring_next(&self->ring, &sample, sizeof(sample)));
			ASSERT_GE(head, self->ring.tail);
			stack = stack_of(&sample);
			ASSERT_LE(0, stack) {
				TH_LOG("round %u: %u bytes, stack %u", round,
				       sample.header.size, stack_sizes[i]);
			}
			/* The requested size, or the space that the other parts leave. */
			fit = MAX_SIZE - (sample.header.size - stack);
			EXPECT_EQ(stack_sizes[i] < fit ? stack_sizes[i] : fit, stack);
			wraps += from / DATA_SIZE != (self->ring.tail - 1) / DATA_SIZE;
		}
		/* Check that there is no other record. */
		ASSERT_EQ(head, self->ring.tail);
	}
	EXPECT_LT(0, wraps);
}

/* The size must be a multiple of a word, and fit into a record. */
TEST_F(ring_record, stack_that_fits_into_no_record_is_refused)
{
	static const __u32 sizes[] = { 1, 12, MAX_SIZE + 7, MAX_SIZE + 8, 1 << 20, -8 };
	struct perf_event_attr attr;
	size_t i;

	for (i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		attr = stack_attr(sizes[i]);
		EXPECT_EQ(-1, event_open(&attr)) {
			TH_LOG("%u bytes", sizes[i]);
		}
		EXPECT_EQ(EINVAL, errno);
	}
}

TEST_HARNESS_MAIN
