// SPDX-License-Identifier: GPL-2.0
/*
 * perf ring buffer selftests - the lifetime of a spliced buffer
 *
 * The file of the event holds the buffer, a mapping of the user page holds the file,
 * and pipes and sockets hold the pages that were moved to them. Each may outlive the
 * others.
 */
#define _GNU_SOURCE

#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sys/socket.h>

#include "../kselftest_harness.h"
#include "ring_splice_helpers.h"

#define NR_PAGES	8
#define FILL		((NR_PAGES * page_size() - 1) / SAMPLE_SIZE)

FIXTURE(ring_splice_life)
{
	struct perf_event_attr attr;
	struct stream stream;
	int pipes[2];
	int fd;
};

FIXTURE_SETUP(ring_splice_life)
{
	SKIP_WITHOUT_SPLICE();
	self->attr = fault_attr();
	self->fd = event_open(&self->attr);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, ring_alloc(self->fd, NR_PAGES));
	ASSERT_EQ(0, pipe_open(self->pipes, MIB));
	ASSERT_EQ(0, stream_init(&self->stream, MIB));
}

FIXTURE_TEARDOWN(ring_splice_life)
{
	close(self->fd);
	pipe_close(self->pipes);
}

/* Use free pages for other memory. */
static void use_free_pages(void)
{
	size_t size = 16 * MIB;
	char *memory;

	memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return;
	memset(memory, 0x5a, size);
	munmap(memory, size);
}

static bool is_whole(const struct stream *stream, unsigned int samples)
{
	struct ring_sum sum = {};

	stream_sum(stream, &sum);
	return sum.samples == samples && !sum.lost_records && !sum.bad;
}

TEST_F(ring_splice_life, pipe_outlives_the_file)
{
	record_faults(self->fd, FILL);
	ASSERT_EQ(FILL * SAMPLE_SIZE, ring_splice(self->fd, self->pipes[1], MIB));
	ASSERT_EQ(0, close(self->fd));
	self->fd = -1;
	/* The buffer is freed after a grace period. */
	usleep(300000);
	use_free_pages();
	ASSERT_EQ(0, stream_read(&self->stream, self->pipes[0], FILL * SAMPLE_SIZE));
	EXPECT_TRUE(is_whole(&self->stream, FILL));
}

TEST_F(ring_splice_life, second_pipe_outlives_file_and_first_pipe)
{
	int copy[2];

	ASSERT_EQ(0, pipe_open(copy, MIB));
	record_faults(self->fd, FILL);
	ASSERT_EQ(FILL * SAMPLE_SIZE, ring_splice(self->fd, self->pipes[1], MIB));
	ASSERT_EQ(FILL * SAMPLE_SIZE, tee(self->pipes[0], copy[1], MIB, 0));
	pipe_close(self->pipes);
	ASSERT_EQ(0, close(self->fd));
	self->fd = -1;
	usleep(300000);
	use_free_pages();
	ASSERT_EQ(0, stream_read(&self->stream, copy[0], FILL * SAMPLE_SIZE));
	EXPECT_TRUE(is_whole(&self->stream, FILL));
	ASSERT_EQ(0, pipe(self->pipes));
	pipe_close(copy);
}

/* Move a page to a second pipe, and half of it to a third one. */
TEST_F(ring_splice_life, page_may_be_split_among_pipes)
{
	size_t half = page_size() / 2;
	int copy[2], last[2];
	unsigned int i;

	ASSERT_EQ(0, pipe_open(copy, MIB));
	ASSERT_EQ(0, pipe_open(last, MIB));
	record_faults(self->fd, FILL);
	ASSERT_EQ(FILL * SAMPLE_SIZE, ring_splice(self->fd, self->pipes[1], MIB));
	for (i = 0; i < 2 * (NR_PAGES - 1); i++) {
		int *to = i & 1 ? last : copy;

		ASSERT_EQ(half, splice(self->pipes[0], NULL, to[1], NULL, half, 0));
	}
	pipe_close(self->pipes);
	close(self->fd);
	self->fd = -1;
	usleep(300000);
	use_free_pages();
	for (i = 0; i < 2 * (NR_PAGES - 1); i++)
		ASSERT_EQ(0, stream_read(&self->stream, i & 1 ? last[0] : copy[0], half));
	self->stream.len -= self->stream.len % SAMPLE_SIZE;
	EXPECT_TRUE(is_whole(&self->stream, self->stream.len / SAMPLE_SIZE));
	ASSERT_EQ(0, pipe(self->pipes));
	pipe_close(copy);
	pipe_close(last);
}

TEST_F(ring_splice_life, mapped_user_page_keeps_the_file)
{
	int other = event_open(&self->attr);
	struct ring ring;

	ASSERT_EQ(0, ring_map(&ring, self->fd, 0));
	ASSERT_EQ(0, event_ioctl(other, PERF_EVENT_IOC_SET_OUTPUT, self->fd));
	ASSERT_EQ(0, close(self->fd));
	self->fd = -1;
	record_faults(other, 5);
	EXPECT_EQ(5 * SAMPLE_SIZE, ring_head(&ring));
	ASSERT_EQ(0, ring_unmap(&ring));
	/* Now the other event has no buffer, and may get one of its own. */
	EXPECT_EQ(-EINVAL, ring_splice(other, self->pipes[1], MIB));
	EXPECT_EQ(0, ring_alloc(other, NR_PAGES));
	close(other);
}

TEST_F(ring_splice_life, redirected_event_loses_the_buffer_with_its_file)
{
	int other = event_open(&self->attr);

	ASSERT_EQ(0, event_ioctl(other, PERF_EVENT_IOC_SET_OUTPUT, self->fd));
	record_faults(other, 5);
	EXPECT_EQ(0, poll_now(other));
	ASSERT_EQ(0, close(self->fd));
	self->fd = -1;
	EXPECT_EQ(POLLHUP, poll_now(other));
	record_faults(other, 5);
	EXPECT_EQ(-EINVAL, ring_splice(other, self->pipes[1], MIB));
	close(other);
}

/* Map through a redirected event, whose file does not read the buffer. */
TEST_F(ring_splice_life, user_page_of_another_event_cannot_be_mapped)
{
	int other = event_open(&self->attr), i;
	struct ring ring;

	ASSERT_EQ(0, event_ioctl(other, PERF_EVENT_IOC_SET_OUTPUT, self->fd));
	EXPECT_EQ(-EBUSY, ring_map(&ring, other, 0));
	ASSERT_EQ(0, close(self->fd));
	/* An event that reuses the memory of the first one must not be mistaken for it. */
	for (i = 0; i < 20; i++) {
		int fd = event_open(&self->attr);

		/* The buffer ended with the file that read it. */
		EXPECT_EQ(-EINVAL, event_ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, other));
		EXPECT_EQ(-EINVAL, ring_splice(fd, self->pipes[1], MIB));
		close(fd);
	}
	self->fd = -1;
	record_faults(other, FILL);
	EXPECT_EQ(-EINVAL, ring_splice(other, self->pipes[1], MIB));
	close(other);
}

static int send_fd(int to, int fd)
{
	char c = 'x', control[CMSG_SPACE(sizeof(int))] = {};
	struct iovec iov = { .iov_base = &c, .iov_len = 1 };
	struct msghdr msg = {
		.msg_iov	= &iov,
		.msg_iovlen	= 1,
		.msg_control	= control,
		.msg_controllen	= sizeof(control),
	};
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);

	cmsg->cmsg_level = SOL_SOCKET;
	cmsg->cmsg_type = SCM_RIGHTS;
	cmsg->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(cmsg), &fd, sizeof(fd));
	return sendmsg(to, &msg, 0) == 1 ? 0 : -errno;
}

static int receive_fd(int from)
{
	char c, control[CMSG_SPACE(sizeof(int))] = {};
	struct iovec iov = { .iov_base = &c, .iov_len = 1 };
	struct msghdr msg = {
		.msg_iov	= &iov,
		.msg_iovlen	= 1,
		.msg_control	= control,
		.msg_controllen	= sizeof(control),
	};
	int fd = -1;

	if (recvmsg(from, &msg, 0) == 1 && CMSG_FIRSTHDR(&msg))
		memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(fd));
	return fd;
}

/* A process that measures itself passes the file on, and exits. */
TEST_F(ring_splice_life, file_outlives_the_process_that_made_it)
{
	int sockets[2], fd, status;
	pid_t pid;

	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, sockets));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		fd = event_open(&self->attr);
		if (fd < 0 || ring_alloc(fd, NR_PAGES) || send_fd(sockets[1], fd))
			_exit(1);
		record_faults(fd, FILL);
		_exit(0);
	}
	fd = receive_fd(sockets[0]);
	ASSERT_LE(0, fd);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_EQ(0, status);
	use_free_pages();
	ASSERT_EQ(0, stream_drain(&self->stream, fd, self->pipes, MIB));
	EXPECT_TRUE(is_whole(&self->stream, FILL));
	close(fd);
	close(sockets[0]);
	close(sockets[1]);
}

TEST_F(ring_splice_life, buffer_outlives_exec)
{
	int status, sockets[2], fd;
	pid_t pid;

	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, sockets));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		struct ring ring;

		fd = event_open(&self->attr);
		if (fd < 0 || ring_alloc(fd, NR_PAGES) || ring_map(&ring, fd, 0) ||
		    send_fd(sockets[1], fd))
			_exit(1);
		record_faults(fd, FILL);
		/* The exec removes the mapping, and the end comes with the new program. */
		execl("/bin/true", "true", NULL);
		execl("/usr/bin/true", "true", NULL);
		_exit(2);
	}
	fd = receive_fd(sockets[0]);
	ASSERT_LE(0, fd);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_EQ(0, status);
	use_free_pages();
	ASSERT_EQ(0, stream_drain(&self->stream, fd, self->pipes, MIB));
	EXPECT_TRUE(is_whole(&self->stream, FILL));
	close(fd);
	close(sockets[0]);
	close(sockets[1]);
}

TEST_F(ring_splice_life, child_reads_the_buffer_of_its_parent)
{
	int status;
	pid_t pid;

	record_faults(self->fd, FILL);
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid)
		_exit(ring_splice(self->fd, self->pipes[1], MIB) == FILL * SAMPLE_SIZE ? 0 : 1);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_EQ(0, status);
	EXPECT_EQ(-EAGAIN, ring_splice(self->fd, self->pipes[1], MIB));
	ASSERT_EQ(0, stream_read(&self->stream, self->pipes[0], FILL * SAMPLE_SIZE));
	EXPECT_TRUE(is_whole(&self->stream, FILL));
}

/* The last reference is in a message to a socket that is never read. */
TEST_F(ring_splice_life, buffer_goes_with_the_last_file)
{
	int sockets[2], other = event_open(&self->attr);

	ASSERT_EQ(0, event_ioctl(other, PERF_EVENT_IOC_SET_OUTPUT, self->fd));
	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, sockets));
	ASSERT_EQ(0, send_fd(sockets[1], self->fd));
	ASSERT_EQ(0, close(self->fd));
	self->fd = -1;
	EXPECT_EQ(0, poll_now(other));
	close(sockets[0]);
	close(sockets[1]);
	/* Files of sockets may be closed a little later. */
	usleep(100000);
	EXPECT_EQ(POLLHUP, poll_now(other));
	close(other);
}

/* A thread that requests a buffer with a structure on a page that is not present yet. */
struct waiting_alloc {
	void		*arg;
	int		fd;
	int		ret;
};

static void *run_alloc(void *arg)
{
	struct waiting_alloc *alloc = arg;

	alloc->ret = buffer_alloc(alloc->fd, alloc->arg);
	return NULL;
}

static int catch_faults(void *page, size_t size)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register range = {
		.range	= { .start = (unsigned long)page, .len = size },
		.mode	= UFFDIO_REGISTER_MODE_MISSING,
	};
	int uffd = syscall(__NR_userfaultfd, O_CLOEXEC);

	if (uffd < 0)
		return -errno;
	if (ioctl(uffd, UFFDIO_API, &api) || ioctl(uffd, UFFDIO_REGISTER, &range))
		return -errno;
	return uffd;
}

/* fork() of the task that is observed needs the context of its events. */
TEST_F_TIMEOUT(ring_splice_life, fork_does_not_wait_for_an_allocation, 60)
{
	struct perf_event_buffer buffer = splice_buffer(1);
	struct waiting_alloc alloc = { .fd = event_open(&self->attr) };
	struct uffdio_copy copy = { .len = page_size() };
	struct uffd_msg fault;
	pthread_t thread;
	pid_t pid;
	char *source;
	int uffd;

	ASSERT_LE(0, alloc.fd);
	alloc.arg = mmap(NULL, page_size(), PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	source = malloc(page_size());
	memcpy(source, &buffer, sizeof(buffer));
	uffd = catch_faults(alloc.arg, page_size());
	if (uffd == -ENOSYS)
		SKIP(return, "needs CONFIG_USERFAULTFD");
	ASSERT_LE(0, uffd);
	ASSERT_EQ(0, pthread_create(&thread, NULL, run_alloc, &alloc));
	ASSERT_EQ(sizeof(fault), read(uffd, &fault, sizeof(fault)));

	pid = fork();
	if (!pid)
		_exit(0);
	wait_for_success(_metadata, pid);

	copy.dst = (unsigned long)alloc.arg;
	copy.src = (unsigned long)source;
	ASSERT_EQ(0, ioctl(uffd, UFFDIO_COPY, &copy));
	pthread_join(thread, NULL);
	EXPECT_EQ(0, alloc.ret);
	close(uffd);
	close(alloc.fd);
	free(source);
}

TEST_HARNESS_MAIN
