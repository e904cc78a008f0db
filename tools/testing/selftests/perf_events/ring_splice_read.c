// SPDX-License-Identifier: GPL-2.0
/* perf ring buffer selftests - data that splice(2) moves, and data that stays */
#define _GNU_SOURCE

#include <pthread.h>
#include <sys/socket.h>

#include "../kselftest_harness.h"
#include "ring_splice_helpers.h"

#define NR_PAGES	8
#define NR_LAPS		50

FIXTURE(ring_splice_read)
{
	struct perf_event_attr attr;
	struct stream stream;
	struct ring_sum sum;
	int pipes[2];
	int fd;
};

FIXTURE_SETUP(ring_splice_read)
{
	SKIP_WITHOUT_SPLICE();
	self->attr = fault_attr();
	self->attr.read_format = PERF_FORMAT_LOST;
	self->fd = event_open(&self->attr);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, pipe_open(self->pipes, MIB));
	ASSERT_EQ(0, stream_init(&self->stream, 8 * MIB));
	memset(&self->sum, 0, sizeof(self->sum));
}

FIXTURE_TEARDOWN(ring_splice_read)
{
	close(self->fd);
	pipe_close(self->pipes);
}

static unsigned int samples_in(size_t bytes)
{
	return bytes / SAMPLE_SIZE;
}

/* Maximum number of samples that fit into the buffer without a reader. */
static unsigned int samples_to_fill(size_t nr_pages)
{
	return (nr_pages * page_size() - 1) / SAMPLE_SIZE;
}

static void read_counts(int fd, __u64 *count, __u64 *lost)
{
	__u64 values[2] = {};

	if (read(fd, values, sizeof(values)) != sizeof(values))
		values[0] = ~0ULL;
	*count = values[0];
	*lost = values[1];
}

TEST_F_TIMEOUT(ring_splice_read, stream_is_that_of_a_mapped_buffer, 300)
{
	int mapped = event_open(&self->attr), i;
	struct stream *stream = &self->stream;
	size_t at = 0, len;
	struct ring ring;
	char bytes[4096];

	ASSERT_EQ(0, ring_map(&ring, mapped, NR_PAGES));
	ASSERT_EQ(0, ring_alloc(self->fd, NR_PAGES));
	for (i = 0; i < 40; i++) {
		make_faults(1);
		event_enable(mapped);
		event_enable(self->fd);
		make_faults(200 + i);
		event_disable(mapped);
		event_disable(self->fd);
		ASSERT_EQ(-EAGAIN, stream_drain(stream, self->fd, self->pipes, MIB));
		for (; at < stream->len; at += len) {
			len = stream->len - at < sizeof(bytes) ? stream->len - at :
								 sizeof(bytes);
			ring_copy(&ring, bytes, at, len);
			ASSERT_EQ(0, memcmp(bytes, stream->data + at, len));
		}
		ASSERT_EQ(ring_head(&ring), at);
		ring_set_tail(&ring, at);
	}
	close(mapped);
}

TEST_F_TIMEOUT(ring_splice_read, any_length_gives_the_same_stream, 300)
{
	const size_t lens[] = { 1, 7, 8, 24, 1000, page_size() - 1, page_size(),
				page_size() + 1, 3 * page_size(), MIB };
	unsigned int nr, i, faults = 0;

	ASSERT_EQ(0, ring_alloc(self->fd, NR_PAGES));
	for (i = 0; i < ARRAY_SIZE(lens); i++) {
		for (nr = 0; nr < (lens[i] < 100 ? 2 : 40); nr++) {
			unsigned int some = 97 + nr * 13;

			record_faults(self->fd, some);
			faults += some;
			ASSERT_EQ(-EAGAIN, stream_drain(&self->stream, self->fd,
							self->pipes, lens[i])) {
				TH_LOG("length %zu", lens[i]);
			}
		}
	}
	stream_sum(&self->stream, &self->sum);
	EXPECT_EQ(faults, self->sum.samples);
	EXPECT_EQ(0, self->sum.lost);
	EXPECT_FALSE(self->sum.bad);
}

/* Mix lengths in each lap, so that pages are moved and copied at any position. */
TEST_F_TIMEOUT(ring_splice_read, lengths_mix, 300)
{
	unsigned int seed = 1, faults = 0, i;

	ASSERT_EQ(0, ring_alloc(self->fd, NR_PAGES));
	for (i = 0; i < 400; i++) {
		unsigned int some = rand_r(&seed) % samples_in(page_size());
		size_t len = rand_r(&seed) % 3 ? MIB : rand_r(&seed) % (2 * page_size()) + 1;
		ssize_t ret;

		record_faults(self->fd, some);
		faults += some;
		/* Do not take all data, so that the writer reaches the reader. */
		ret = ring_splice(self->fd, self->pipes[1], len);
		if (ret == -EAGAIN)
			continue;
		ASSERT_LT(0, ret);
		ASSERT_EQ(0, stream_read(&self->stream, self->pipes[0], ret));
	}
	ASSERT_EQ(-EAGAIN, stream_drain(&self->stream, self->fd, self->pipes, MIB));
	record_faults(self->fd, 1);
	ASSERT_EQ(-EAGAIN, stream_drain(&self->stream, self->fd, self->pipes, MIB));
	stream_sum(&self->stream, &self->sum);
	EXPECT_EQ(faults + 1, self->sum.samples + self->sum.lost);
	EXPECT_LT(faults / 2, self->sum.samples);
	EXPECT_FALSE(self->sum.bad);
}

/*
 * The reader takes some bytes of a page, the writer fills the buffer up to this
 * position, in the same page, and only then the reader continues.
 */
TEST_F_TIMEOUT(ring_splice_read, page_that_is_partly_read_stays, 300)
{
	unsigned int faults = samples_to_fill(NR_PAGES), lap;
	ssize_t ret;

	ASSERT_EQ(0, ring_alloc(self->fd, NR_PAGES));
	record_faults(self->fd, faults);
	for (lap = 0; lap < NR_LAPS; lap++) {
		size_t some = page_size() / 2 + lap * 8;

		ret = ring_splice(self->fd, self->pipes[1], some);
		ASSERT_EQ(some, ret);
		ASSERT_EQ(0, stream_read(&self->stream, self->pipes[0], ret));
		record_faults(self->fd, samples_in(some) - 1);
		faults += samples_in(some) - 1;
		/* Take all but the last page of the buffer. */
		ret = ring_splice(self->fd, self->pipes[1], (NR_PAGES - 1) * page_size());
		ASSERT_EQ((NR_PAGES - 1) * page_size(), ret);
		ASSERT_EQ(0, stream_read(&self->stream, self->pipes[0], ret));
		record_faults(self->fd, samples_in(ret) - 1);
		faults += samples_in(ret) - 1;
	}
	ASSERT_EQ(-EAGAIN, stream_drain(&self->stream, self->fd, self->pipes, MIB));
	stream_sum(&self->stream, &self->sum);
	EXPECT_EQ(faults, self->sum.samples);
	EXPECT_EQ(0, self->sum.lost);
	EXPECT_FALSE(self->sum.bad);
}

TEST_F_TIMEOUT(ring_splice_read, short_return_ends_with_a_record, 300)
{
	unsigned int i;

	ASSERT_EQ(0, ring_alloc(self->fd, NR_PAGES));
	for (i = 0; i < 100; i++) {
		struct ring_sum sum = {};
		ssize_t ret;

		record_faults(self->fd, i * 7 + 1);
		ret = ring_splice(self->fd, self->pipes[1], MIB);
		ASSERT_EQ((i * 7 + 1) * SAMPLE_SIZE, ret);
		self->stream.len = 0;
		ASSERT_EQ(0, stream_read(&self->stream, self->pipes[0], ret));
		stream_sum(&self->stream, &sum);
		EXPECT_EQ(i * 7 + 1, sum.samples);
		EXPECT_FALSE(sum.bad);
	}
}

TEST_F(ring_splice_read, full_pipe_loses_nothing)
{
	unsigned int faults = samples_to_fill(NR_PAGES);
	int small[2];
	ssize_t ret;

	ASSERT_EQ(0, pipe_open(small, page_size()));
	ASSERT_EQ(0, ring_alloc(self->fd, NR_PAGES));
	record_faults(self->fd, faults);
	for (;;) {
		ret = ring_splice(self->fd, small[1], MIB);
		if (ret == -EAGAIN)
			break;
		ASSERT_EQ(true, ret > 0 && ret <= page_size());
		EXPECT_EQ(-EAGAIN, ring_splice(self->fd, small[1], MIB));
		ASSERT_EQ(0, stream_read(&self->stream, small[0], ret));
	}
	stream_sum(&self->stream, &self->sum);
	EXPECT_EQ(faults, self->sum.samples);
	EXPECT_FALSE(self->sum.bad);
	pipe_close(small);
}

TEST_F(ring_splice_read, pipe_without_reader_takes_nothing)
{
	int broken[2];

	signal(SIGPIPE, SIG_IGN);
	ASSERT_EQ(0, pipe(broken));
	close(broken[0]);
	ASSERT_EQ(0, ring_alloc(self->fd, NR_PAGES));
	record_faults(self->fd, 500);
	EXPECT_EQ(-EPIPE, ring_splice(self->fd, broken[1], MIB));
	EXPECT_EQ(-EPIPE, ring_splice_flags(self->fd, broken[1], MIB, 0));
	EXPECT_EQ(500 * SAMPLE_SIZE, ring_splice(self->fd, self->pipes[1], MIB));
	close(broken[1]);
}

/* Copy the data in the pipe, and leave it there. */
static int peek(struct stream *stream, int from, size_t len)
{
	int copy[2], ret = -1;

	if (pipe_open(copy, MIB))
		return -1;
	if (tee(from, copy[1], len, 0) == len)
		ret = stream_read(stream, copy[0], len);
	pipe_close(copy);
	return ret;
}

/* Fill the buffer @laps times and discard the records. */
static int go_round(int fd, unsigned int laps)
{
	struct stream stream;
	int pipes[2], ret = 0;
	unsigned int i;

	if (pipe_open(pipes, MIB) || stream_init(&stream, MIB))
		return -1;
	for (i = 0; i < 2 * laps; i++) {
		record_faults(fd, samples_to_fill(NR_PAGES) / 2);
		stream.len = 0;
		/* Move no page every other time. */
		if (stream_drain(&stream, fd, pipes, i & 1 ? page_size() / 2 : MIB) != -EAGAIN)
			ret = -1;
	}
	munmap(stream.data, stream.max);
	pipe_close(pipes);
	return ret;
}

TEST_F_TIMEOUT(ring_splice_read, bytes_in_a_pipe_never_change, 300)
{
	unsigned int faults = samples_to_fill(NR_PAGES);
	size_t len = faults * SAMPLE_SIZE;
	int copy[2];

	ASSERT_EQ(0, ring_alloc(self->fd, NR_PAGES));
	ASSERT_EQ(0, pipe_open(copy, MIB));
	record_faults(self->fd, faults);
	ASSERT_EQ(len, ring_splice(self->fd, self->pipes[1], MIB));
	ASSERT_EQ(0, peek(&self->stream, self->pipes[0], len));
	/* Two pipes hold the pages; one of them drops them after a while. */
	ASSERT_EQ(len, tee(self->pipes[0], copy[1], len, 0));
	ASSERT_EQ(0, go_round(self->fd, NR_LAPS / 2));
	ASSERT_EQ(0, stream_read(&self->stream, copy[0], len));
	ASSERT_EQ(0, go_round(self->fd, NR_LAPS / 2));
	ASSERT_EQ(0, stream_read(&self->stream, self->pipes[0], len));
	EXPECT_EQ(0, memcmp(self->stream.data, self->stream.data + len, len));
	EXPECT_EQ(0, memcmp(self->stream.data, self->stream.data + 2 * len, len));
	pipe_close(copy);
}

/* The socket holds the pages, while the pipe has dropped them. */
TEST_F_TIMEOUT(ring_splice_read, bytes_in_a_socket_never_change, 300)
{
	unsigned int faults = 4 * samples_in(page_size());
	size_t len = faults * SAMPLE_SIZE, done, sent = MIB;
	int sockets[2];
	ssize_t ret;

	ASSERT_EQ(0, ring_alloc(self->fd, NR_PAGES));
	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, sockets));
	setsockopt(sockets[0], SOL_SOCKET, SO_SNDBUF, &sent, sizeof(int));
	record_faults(self->fd, faults);
	ASSERT_EQ(len, ring_splice(self->fd, self->pipes[1], MIB));
	ASSERT_EQ(0, peek(&self->stream, self->pipes[0], len));
	for (done = 0; done < len; done += ret) {
		ret = splice(self->pipes[0], NULL, sockets[0], NULL, len - done, 0);
		ASSERT_LT(0, ret);
	}
	ASSERT_EQ(0, go_round(self->fd, NR_LAPS));
	ASSERT_EQ(0, stream_read(&self->stream, sockets[1], len));
	EXPECT_EQ(0, memcmp(self->stream.data, self->stream.data + len, len));
	close(sockets[0]);
	close(sockets[1]);
}

/*
 * Request a dump that is larger than the stack, so that a sample has the whole stack.
 * The rest must be zero even if the page was used before.
 */
TEST_F(ring_splice_read, hole_in_a_record_shows_no_memory)
{
	const size_t dump = 48 * 1024, old = 16 * MIB, nr = 512 * 1024 / page_size();
	struct perf_event_header *header;
	__u64 size, dyn_size;
	size_t i, bytes = 0;
	char *stack;

	/* Free pages with non-zero contents. */
	stack = mmap(NULL, old, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, stack);
	memset(stack, 0xa5, old);
	munmap(stack, old);

	close(self->fd);
	self->attr.sample_type = PERF_SAMPLE_STACK_USER;
	self->attr.sample_stack_user = dump;
	self->fd = event_open(&self->attr);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, ring_alloc(self->fd, nr));
	record_faults(self->fd, 5);
	ASSERT_EQ(-EAGAIN, stream_drain(&self->stream, self->fd, self->pipes, MIB));
	header = (void *)self->stream.data;
	while ((char *)header < self->stream.data + self->stream.len) {
		ASSERT_EQ(PERF_RECORD_SAMPLE, header->type);
		stack = (char *)(header + 1);
		memcpy(&size, stack, sizeof(size));
		ASSERT_EQ(dump, size);
		memcpy(&dyn_size, stack + 8 + size, sizeof(dyn_size));
		ASSERT_GT(size, dyn_size);
		for (i = dyn_size; i < size; i++) {
			ASSERT_EQ(0, stack[8 + i]) {
				TH_LOG("byte %zu of %llu", i, size);
			}
		}
		bytes += size - dyn_size;
		header = (void *)((char *)header + header->size);
	}
	EXPECT_LT(5, bytes);
}

/* A child that faults, and waits for a command to end. */
struct child {
	pid_t	pid;
	int	go[2];
};

static int child_start(struct child *child, unsigned int faults)
{
	char c;

	if (pipe(child->go))
		return -1;
	child->pid = fork();
	if (child->pid < 0)
		return -1;
	if (!child->pid) {
		close(child->go[1]);
		if (read(child->go[0], &c, 1) == 1)
			make_faults(faults);
		/* The child ends when the other end of the pipe is closed. */
		_exit(read(child->go[0], &c, 1) ? 1 : 0);
	}
	close(child->go[0]);
	return 0;
}

static void child_go(struct child *child)
{
	if (write(child->go[1], "x", 1) != 1)
		exit(1);
}

static int child_end(struct child *child)
{
	int status = -1;

	close(child->go[1]);
	waitpid(child->pid, &status, 0);
	return status;
}

/* Open the event disabled, because the child may still be at its first instructions. */
static int open_of_child(struct child *child, struct perf_event_attr *attr, size_t nr)
{
	int fd;

	attr->disabled = 1;
	fd = event_open_on(attr, child->pid, -1);
	if (fd >= 0 && (ring_alloc(fd, nr) || event_ioctl(fd, PERF_EVENT_IOC_ENABLE, 0))) {
		close(fd);
		return -1;
	}
	return fd;
}

TEST_F_TIMEOUT(ring_splice_read, writer_on_another_cpu_is_read_whole, 300)
{
	size_t lens[] = { MIB, 1000, page_size(), 3 * page_size() + 40 };
	unsigned int i = 0;
	struct child child;
	__u64 count, lost;
	ssize_t ret;

	close(self->fd);
	ASSERT_EQ(0, child_start(&child, 60000));
	self->fd = open_of_child(&child, &self->attr, NR_PAGES);
	ASSERT_LE(0, self->fd);
	child_go(&child);
	close(child.go[1]);
	child.go[1] = -1;
	do {
		i++;
		ret = ring_splice_flags(self->fd, self->pipes[1], lens[i % 4],
					i % 3 ? SPLICE_F_NONBLOCK : 0);
		if (ret > 0)
			ASSERT_EQ(0, stream_read(&self->stream, self->pipes[0], ret));
	} while (ret > 0 || ret == -EAGAIN);
	EXPECT_EQ(0, ret);
	EXPECT_EQ(0, child_end(&child));
	read_counts(self->fd, &count, &lost);
	stream_sum(&self->stream, &self->sum);
	EXPECT_EQ(count, self->sum.samples + self->sum.lost);
	EXPECT_EQ(lost, self->sum.lost);
	EXPECT_LE(60000, count);
	EXPECT_FALSE(self->sum.bad);
}

struct reader {
	pthread_t	thread;
	struct stream	stream;
	int		pipes[2];
	int		fd;
	ssize_t		last;
};

static void *run_reader(void *arg)
{
	struct reader *reader = arg;
	ssize_t ret;

	while ((ret = ring_splice_flags(reader->fd, reader->pipes[1], MIB, 0)) > 0) {
		if (stream_read(&reader->stream, reader->pipes[0], ret))
			break;
	}
	reader->last = ret;
	return NULL;
}

TEST_F_TIMEOUT(ring_splice_read, two_readers_share_the_stream, 300)
{
	struct reader readers[2];
	struct child child;
	__u64 count, lost;
	int i;

	close(self->fd);
	ASSERT_EQ(0, child_start(&child, 30000));
	self->fd = open_of_child(&child, &self->attr, NR_PAGES);
	ASSERT_LE(0, self->fd);
	for (i = 0; i < 2; i++) {
		readers[i].fd = self->fd;
		ASSERT_EQ(0, stream_init(&readers[i].stream, 4 * MIB));
		ASSERT_EQ(0, pipe_open(readers[i].pipes, MIB));
		ASSERT_EQ(0, pthread_create(&readers[i].thread, NULL, run_reader,
					    &readers[i]));
	}
	child_go(&child);
	EXPECT_EQ(0, child_end(&child));
	for (i = 0; i < 2; i++) {
		pthread_join(readers[i].thread, NULL);
		EXPECT_EQ(0, readers[i].last);
		stream_sum(&readers[i].stream, &self->sum);
		pipe_close(readers[i].pipes);
	}
	read_counts(self->fd, &count, &lost);
	EXPECT_EQ(count, self->sum.samples + self->sum.lost);
	EXPECT_EQ(lost, self->sum.lost);
	EXPECT_FALSE(self->sum.bad);
}

TEST_HARNESS_MAIN
