// SPDX-License-Identifier: GPL-2.0
/*
 * perf ring buffer selftests - when splice(2) and poll(2) wait, and how it ends
 */
#define _GNU_SOURCE

#include <pthread.h>
#include <sys/socket.h>

#include "../kselftest_harness.h"
#include "ring_splice_helpers.h"

#define NR_PAGES	4
#define NR_ENDS		100
#define IN_AND_HUP	(POLLIN | POLLHUP)

FIXTURE(ring_splice_wait)
{
	struct perf_event_attr attr;
	struct stream stream;
	struct ring_sum sum;
	int pipes[2];
	int fd;
};

FIXTURE_SETUP(ring_splice_wait)
{
	SKIP_WITHOUT_SPLICE();
	self->attr = fault_attr();
	self->attr.read_format = PERF_FORMAT_LOST;
	self->fd = event_open(&self->attr);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, ring_alloc(self->fd, NR_PAGES));
	ASSERT_EQ(0, pipe_open(self->pipes, MIB));
	ASSERT_EQ(0, stream_init(&self->stream, MIB));
	memset(&self->sum, 0, sizeof(self->sum));
}

FIXTURE_TEARDOWN(ring_splice_wait)
{
	close(self->fd);
	pipe_close(self->pipes);
}

static unsigned int samples_to_fill(void)
{
	return (NR_PAGES * page_size() - 1) / SAMPLE_SIZE;
}

/* Number of the first sample that ends more than @watermark bytes into the buffer. */
static unsigned int sample_beyond(size_t watermark)
{
	return watermark / SAMPLE_SIZE + 1;
}

/* Take faults until poll() reports POLLIN, and return their number. */
static unsigned int faults_to_wakeup(int fd)
{
	unsigned int nr;

	for (nr = 1; nr <= 2 * samples_to_fill(); nr++) {
		record_faults(fd, 1);
		if (poll_now(fd) & POLLIN)
			return nr;
	}
	return 0;
}

TEST_F(ring_splice_wait, default_watermark_is_half_of_the_buffer)
{
	EXPECT_EQ(0, poll_now(self->fd));
	EXPECT_EQ(sample_beyond(NR_PAGES * page_size() / 2), faults_to_wakeup(self->fd));
}

TEST_F(ring_splice_wait, watermark_of_the_buffer_goes_before_that_of_the_event)
{
	struct perf_event_buffer buffer = splice_buffer(NR_PAGES);
	int fd;

	self->attr.watermark = 1;
	self->attr.wakeup_watermark = 2000;
	fd = event_open(&self->attr);
	ASSERT_EQ(0, ring_alloc(fd, NR_PAGES));
	EXPECT_EQ(sample_beyond(2000), faults_to_wakeup(fd));
	close(fd);

	fd = event_open(&self->attr);
	buffer.watermark = 1000;
	ASSERT_EQ(0, buffer_alloc(fd, &buffer));
	EXPECT_EQ(sample_beyond(1000), faults_to_wakeup(fd));
	close(fd);

	/* A larger watermark would never be reached. */
	fd = event_open(&self->attr);
	buffer.watermark = ~0U;
	ASSERT_EQ(0, buffer_alloc(fd, &buffer));
	EXPECT_EQ(sample_beyond(NR_PAGES * page_size() / 2), faults_to_wakeup(fd));
	close(fd);
}

TEST_F(ring_splice_wait, poll_says_so_until_it_is_read)
{
	unsigned int nr = faults_to_wakeup(self->fd), i;

	ASSERT_LT(0, nr);
	for (i = 0; i < 5; i++)
		EXPECT_EQ(POLLIN, poll_now(self->fd));
	ASSERT_EQ(page_size(), ring_splice(self->fd, self->pipes[1], page_size()));
	EXPECT_EQ(POLLIN, poll_now(self->fd));
	EXPECT_EQ(nr * SAMPLE_SIZE - page_size(), ring_splice(self->fd, self->pipes[1], MIB));
	EXPECT_EQ(0, poll_now(self->fd));
	/* Earlier records are not counted again. */
	record_faults(self->fd, 1);
	EXPECT_EQ(0, poll_now(self->fd));
	EXPECT_LT(1, faults_to_wakeup(self->fd));
}

TEST_F(ring_splice_wait, every_event_of_the_buffer_may_poll)
{
	int other = event_open(&self->attr);

	ASSERT_EQ(0, event_ioctl(other, PERF_EVENT_IOC_SET_OUTPUT, self->fd));
	ASSERT_LT(0, faults_to_wakeup(other));
	EXPECT_EQ(POLLIN, poll_now(other));
	EXPECT_EQ(POLLIN, poll_now(self->fd));
	EXPECT_EQ(POLLIN, poll_now(other));
	close(other);
}

TEST_F(ring_splice_wait, wakeup_events_count_samples)
{
	unsigned int i;
	int fd;

	self->attr.wakeup_events = 3;
	fd = event_open(&self->attr);
	ASSERT_EQ(0, ring_alloc(fd, NR_PAGES));
	for (i = 0; i < 20; i++) {
		EXPECT_EQ(3, faults_to_wakeup(fd));
		EXPECT_EQ(3 * SAMPLE_SIZE, ring_splice(fd, self->pipes[1], MIB));
	}
	close(fd);
}

TEST_F(ring_splice_wait, paused_buffer_can_be_drained)
{
	record_faults(self->fd, 3);
	EXPECT_EQ(0, poll_now(self->fd));
	ASSERT_EQ(0, event_ioctl(self->fd, PERF_EVENT_IOC_PAUSE_OUTPUT, 1));
	EXPECT_EQ(POLLIN, poll_now(self->fd));
	EXPECT_EQ(3 * SAMPLE_SIZE, ring_splice_flags(self->fd, self->pipes[1], MIB, 0));
	EXPECT_EQ(0, poll_now(self->fd));
	EXPECT_EQ(-EAGAIN, ring_splice(self->fd, self->pipes[1], MIB));
	record_faults(self->fd, 2);
	EXPECT_EQ(0, poll_now(self->fd));
	ASSERT_EQ(0, event_ioctl(self->fd, PERF_EVENT_IOC_PAUSE_OUTPUT, 0));
	record_faults(self->fd, 1);
	/* The pipe still has the data of the last call. */
	ASSERT_EQ(0, stream_read(&self->stream, self->pipes[0], 3 * SAMPLE_SIZE));
	ASSERT_EQ(-EAGAIN, stream_drain(&self->stream, self->fd, self->pipes, MIB));
	stream_sum(&self->stream, &self->sum);
	EXPECT_EQ(4, self->sum.samples);
	EXPECT_EQ(2, self->sum.lost);
	EXPECT_EQ(1, self->sum.lost_records);
}

/* A call that waits in a thread, and its result. */
struct waiter {
	pthread_t	thread;
	int		fd;
	int		to;
	volatile int	started;
	volatile int	done;
	ssize_t		ret;
};

static void no_action(int signal) { }

static void *run_waiter(void *arg)
{
	struct waiter *waiter = arg;

	waiter->started = 1;
	waiter->ret = ring_splice_flags(waiter->fd, waiter->to, MIB, 0);
	waiter->done = 1;
	return NULL;
}

static int waiter_start(struct waiter *waiter, int fd, int to)
{
	struct sigaction action = { .sa_handler = no_action };

	sigaction(SIGUSR1, &action, NULL);
	memset(waiter, 0, sizeof(*waiter));
	waiter->fd = fd;
	waiter->to = to;
	if (pthread_create(&waiter->thread, NULL, run_waiter, waiter))
		return -1;
	while (!waiter->started)
		usleep(1000);
	usleep(100000);
	return 0;
}

static ssize_t waiter_end(struct waiter *waiter)
{
	pthread_join(waiter->thread, NULL);
	return waiter->ret;
}

TEST_F(ring_splice_wait, splice_waits_for_the_watermark)
{
	unsigned int nr = sample_beyond(NR_PAGES * page_size() / 2);
	struct waiter waiter;

	ASSERT_EQ(0, waiter_start(&waiter, self->fd, self->pipes[1]));
	record_faults(self->fd, nr - 1);
	usleep(100000);
	EXPECT_EQ(0, waiter.done);
	record_faults(self->fd, 1);
	EXPECT_EQ(nr * SAMPLE_SIZE, waiter_end(&waiter));
}

TEST_F(ring_splice_wait, pause_ends_the_wait)
{
	struct waiter waiter;

	ASSERT_EQ(0, waiter_start(&waiter, self->fd, self->pipes[1]));
	record_faults(self->fd, 3);
	usleep(100000);
	EXPECT_EQ(0, waiter.done);
	ASSERT_EQ(0, event_ioctl(self->fd, PERF_EVENT_IOC_PAUSE_OUTPUT, 1));
	EXPECT_EQ(3 * SAMPLE_SIZE, waiter_end(&waiter));
}

TEST_F(ring_splice_wait, signal_ends_the_wait)
{
	struct waiter waiter;

	ASSERT_EQ(0, waiter_start(&waiter, self->fd, self->pipes[1]));
	pthread_kill(waiter.thread, SIGUSR1);
	EXPECT_EQ(-EINTR, waiter_end(&waiter));
	record_faults(self->fd, 3);
	EXPECT_EQ(3 * SAMPLE_SIZE, ring_splice(self->fd, self->pipes[1], MIB));
}

/* A call that waits for records does not block other users of the pipe. */
TEST_F(ring_splice_wait, pipe_is_free_meanwhile)
{
	struct pollfd pollfd = { .fd = self->pipes[0], .events = POLLIN };
	struct waiter waiter;
	char c = 'x';

	ASSERT_EQ(0, waiter_start(&waiter, self->fd, self->pipes[1]));
	ASSERT_EQ(1, write(self->pipes[1], &c, 1));
	ASSERT_EQ(1, poll(&pollfd, 1, 1000));
	ASSERT_EQ(1, read(self->pipes[0], &c, 1));
	EXPECT_EQ(0, waiter.done);
	pthread_kill(waiter.thread, SIGUSR1);
	EXPECT_EQ(-EINTR, waiter_end(&waiter));
}

TEST_F(ring_splice_wait, reader_of_the_pipe_may_go_meanwhile)
{
	struct waiter waiter;
	int pipes[2];

	signal(SIGPIPE, SIG_IGN);
	ASSERT_EQ(0, pipe(pipes));
	ASSERT_EQ(0, waiter_start(&waiter, self->fd, pipes[1]));
	ASSERT_EQ(0, close(pipes[0]));
	record_faults(self->fd, samples_to_fill());
	EXPECT_EQ(-EPIPE, waiter_end(&waiter));
	/* No data is lost. */
	EXPECT_EQ(samples_to_fill() * SAMPLE_SIZE,
		  ring_splice(self->fd, self->pipes[1], MIB));
	close(pipes[1]);
}

TEST_F(ring_splice_wait, pipe_may_fill_meanwhile)
{
	struct waiter waiter;
	char *page = malloc(page_size());
	int pipes[2];

	ASSERT_EQ(0, pipe_open(pipes, page_size()));
	ASSERT_EQ(0, waiter_start(&waiter, self->fd, pipes[1]));
	ASSERT_EQ(page_size(), write(pipes[1], page, page_size()));
	record_faults(self->fd, samples_to_fill());
	usleep(100000);
	EXPECT_EQ(0, waiter.done);
	ASSERT_EQ(page_size(), read(pipes[0], page, page_size()));
	EXPECT_EQ(page_size(), waiter_end(&waiter));
	pipe_close(pipes);
	free(page);
}

/* The length is limited by the room when the call continues. */
TEST_F(ring_splice_wait, room_that_comes_meanwhile_counts)
{
	unsigned int nr = sample_beyond(NR_PAGES * page_size() / 2);
	char *page = malloc(page_size());
	struct waiter waiter;
	int pipes[2], i;

	ASSERT_EQ(0, pipe_open(pipes, 16 * page_size()));
	for (i = 0; i < 15; i++)
		ASSERT_EQ(page_size(), write(pipes[1], page, page_size()));
	ASSERT_EQ(0, waiter_start(&waiter, self->fd, pipes[1]));
	for (i = 0; i < 15; i++)
		ASSERT_EQ(page_size(), read(pipes[0], page, page_size()));
	record_faults(self->fd, nr);
	EXPECT_EQ(nr * SAMPLE_SIZE, waiter_end(&waiter));
	pipe_close(pipes);
	free(page);
}

/* A child that faults @faults times on one command, and ends on another. */
struct child {
	pid_t	pid;
	int	to[2];
	int	from[2];
};

static int child_fault(struct child *child)
{
	char c = 'x';

	return write(child->to[1], &c, 1) == 1 && read(child->from[0], &c, 1) == 1 ? 0 : -1;
}

/*
 * Let the child run its code once before it waits, because a page of its own that is
 * not present would cause one more fault.
 */
static int child_start(struct child *child, unsigned int faults)
{
	char c;

	if (pipe(child->to) || pipe(child->from))
		return -1;
	child->pid = fork();
	if (child->pid < 0)
		return -1;
	if (!child->pid) {
		close(child->to[1]);
		while (read(child->to[0], &c, 1) == 1) {
			make_faults(faults);
			if (write(child->from[1], &c, 1) != 1)
				_exit(1);
		}
		_exit(0);
	}
	close(child->to[0]);
	close(child->from[1]);
	return child_fault(child);
}

static int child_end(struct child *child)
{
	int status = -1;

	close(child->to[1]);
	close(child->from[0]);
	waitpid(child->pid, &status, 0);
	return status;
}

/* Open an event of the child, with a buffer, that is not enabled yet. */
static int alloc_of_child(struct child *child, struct perf_event_attr *attr)
{
	int fd;

	attr->disabled = 1;
	fd = event_open_on(attr, child->pid, -1);
	if (fd >= 0 && ring_alloc(fd, NR_PAGES)) {
		close(fd);
		return -1;
	}
	return fd;
}

static int open_of_child(struct child *child, struct perf_event_attr *attr)
{
	int fd = alloc_of_child(child, attr);

	if (fd >= 0 && event_ioctl(fd, PERF_EVENT_IOC_ENABLE, 0)) {
		close(fd);
		return -1;
	}
	return fd;
}

/* Open an event of a new child, whose ten faults are all lost because output is paused. */
static int open_of_losing_child(struct child *child, struct perf_event_attr *attr)
{
	int fd;

	if (child_start(child, 10))
		return -1;
	fd = alloc_of_child(child, attr);
	if (fd < 0)
		return -1;
	if (event_ioctl(fd, PERF_EVENT_IOC_PAUSE_OUTPUT, 1) ||
	    event_ioctl(fd, PERF_EVENT_IOC_ENABLE, 0) || child_fault(child)) {
		close(fd);
		return -1;
	}
	return fd;
}

static __u64 lost_of(int fd, __u64 *count)
{
	__u64 values[2] = {};

	if (read(fd, values, sizeof(values)) != sizeof(values))
		return ~0ULL;
	*count = values[0];
	return values[1];
}

TEST_F(ring_splice_wait, end_of_the_task_is_end_of_file)
{
	struct child child;
	int fd;

	ASSERT_EQ(0, child_start(&child, 5));
	fd = open_of_child(&child, &self->attr);
	ASSERT_LE(0, fd);
	EXPECT_EQ(-EAGAIN, ring_splice(fd, self->pipes[1], MIB));
	ASSERT_EQ(0, child_fault(&child));
	ASSERT_EQ(0, child_end(&child));
	EXPECT_EQ(IN_AND_HUP, poll_now(fd));
	EXPECT_EQ(IN_AND_HUP, poll_now(fd));
	ASSERT_EQ(0, stream_drain(&self->stream, fd, self->pipes, 1000));
	EXPECT_EQ(POLLHUP, poll_now(fd));
	EXPECT_EQ(0, ring_splice(fd, self->pipes[1], MIB));
	EXPECT_EQ(0, ring_splice_flags(fd, self->pipes[1], MIB, 0));
	stream_sum(&self->stream, &self->sum);
	EXPECT_LE(5, self->sum.samples);
	EXPECT_FALSE(self->sum.bad);
	close(fd);
}

TEST_F(ring_splice_wait, end_of_the_task_ends_the_wait)
{
	struct waiter waiter;
	struct child child;
	int fd;

	ASSERT_EQ(0, child_start(&child, 5));
	fd = open_of_child(&child, &self->attr);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, child_fault(&child));
	ASSERT_EQ(0, waiter_start(&waiter, fd, self->pipes[1]));
	EXPECT_EQ(0, waiter.done);
	ASSERT_EQ(0, child_end(&child));
	EXPECT_LT(0, waiter_end(&waiter));
	ASSERT_EQ(0, waiter_start(&waiter, fd, self->pipes[1]));
	EXPECT_EQ(0, waiter_end(&waiter));
	close(fd);
}

/* After a loss at the very end, no next record reports it. */
TEST_F(ring_splice_wait, last_loss_is_told_before_the_end)
{
	struct ring_lost *last;
	struct child child;
	__u64 count, lost;
	int fd;

	ASSERT_EQ(0, child_start(&child, 3000));
	fd = open_of_child(&child, &self->attr);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, child_fault(&child));
	ASSERT_EQ(0, child_end(&child));
	ASSERT_EQ(0, stream_drain(&self->stream, fd, self->pipes, MIB));
	EXPECT_EQ(0, ring_splice(fd, self->pipes[1], MIB));
	lost = lost_of(fd, &count);
	stream_sum(&self->stream, &self->sum);
	EXPECT_LT(0, lost);
	EXPECT_EQ(1, self->sum.lost_records);
	EXPECT_EQ(lost, self->sum.lost);
	EXPECT_EQ(count, self->sum.samples + self->sum.lost);
	EXPECT_FALSE(self->sum.bad);
	last = (void *)(self->stream.data + self->stream.len - sizeof(*last));
	EXPECT_EQ(PERF_RECORD_LOST, last->header.type);
	EXPECT_EQ(sizeof(*last), last->header.size);
	close(fd);
}

TEST_F(ring_splice_wait, last_loss_is_told_of_a_paused_buffer)
{
	struct child child;
	__u64 count, lost;
	int fd;

	self->attr.sample_id_all = 1;
	self->attr.sample_type |= PERF_SAMPLE_TIME | PERF_SAMPLE_ID | PERF_SAMPLE_CPU;
	fd = open_of_losing_child(&child, &self->attr);
	ASSERT_LE(0, fd);
	EXPECT_EQ(0, poll_now(fd));
	ASSERT_EQ(0, child_end(&child));
	EXPECT_EQ(IN_AND_HUP, poll_now(fd));
	ASSERT_EQ(0, stream_drain(&self->stream, fd, self->pipes, MIB));
	EXPECT_EQ(POLLHUP, poll_now(fd));
	lost = lost_of(fd, &count);
	stream_sum(&self->stream, &self->sum);
	EXPECT_LE(10, lost);
	EXPECT_EQ(count, self->sum.lost);
	EXPECT_EQ(lost, self->sum.lost);
	EXPECT_FALSE(self->sum.bad);
	EXPECT_LT(sizeof(struct ring_lost), self->stream.len);
	close(fd);
}

struct filler {
	pthread_t thread;
	int pipe;
	int delay;
	bool go;
};

/* The pipe is full some microseconds after the other thread has called splice(2). */
static void *fill_pipe(void *arg)
{
	struct filler *filler = arg;
	char page[4096] = "";

	while (!__atomic_load_n(&filler->go, __ATOMIC_ACQUIRE))
		sched_yield();
	usleep(filler->delay);
	while (write(filler->pipe, page, sizeof(page)) > 0)
		;
	return NULL;
}

/*
 * The pipe is unlocked while the reader waits for the last writer. If others fill it
 * meanwhile, the record of the last loss has no room, and a non-blocking reader gets
 * EAGAIN.
 */
TEST_F_TIMEOUT(ring_splice_wait, pipe_may_fill_before_the_end, 60)
{
	int told = 0, round;

	for (round = 0; round < 40; round++) {
		struct filler filler = { .delay = 50 * (round % 8) };
		struct child child;
		ssize_t ret;
		int pipes[2];
		int fd;

		ASSERT_EQ(0, pipe_open(pipes, 16 * page_size()));
		filler.pipe = pipes[1];
		ASSERT_EQ(0, fcntl(pipes[1], F_SETFL, O_NONBLOCK));
		fd = open_of_losing_child(&child, &self->attr);
		ASSERT_LE(0, fd);
		ASSERT_EQ(0, pthread_create(&filler.thread, NULL, fill_pipe, &filler));
		ASSERT_EQ(0, child_end(&child));
		__atomic_store_n(&filler.go, true, __ATOMIC_RELEASE);
		ret = ring_splice(fd, pipes[1], MIB);
		pthread_join(filler.thread, NULL);
		pipe_close(pipes);
		if (ret == -EAGAIN) {
			told++;
			/* Data for which the pipe had no room is still in the buffer. */
			ret = ring_splice(fd, self->pipes[1], MIB);
			EXPECT_EQ(0, stream_read(&self->stream, self->pipes[0], ret));
		}
		EXPECT_LT(0, ret);
		close(fd);
	}
	stream_sum(&self->stream, &self->sum);
	EXPECT_EQ(told, self->sum.lost_records);
	EXPECT_FALSE(self->sum.bad);
}

TEST_F(ring_splice_wait, no_loss_needs_no_record)
{
	struct child child;
	int fd;

	ASSERT_EQ(0, child_start(&child, 1));
	fd = open_of_child(&child, &self->attr);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, child_end(&child));
	ASSERT_EQ(0, stream_drain(&self->stream, fd, self->pipes, MIB));
	stream_sum(&self->stream, &self->sum);
	EXPECT_EQ(0, self->sum.lost_records);
	close(fd);
}

/* The task of the owner is gone, but the task of the other event is not. */
TEST_F(ring_splice_wait, end_is_that_of_all_events)
{
	struct waiter waiter;
	struct child child;
	int owner, other;

	if (geteuid())
		SKIP(return, "needs root for events of a CPU");
	ASSERT_EQ(0, child_start(&child, 5));
	self->attr.disabled = 0;
	owner = event_open_on(&self->attr, child.pid, 0);
	ASSERT_LE(0, owner);
	ASSERT_EQ(0, ring_alloc(owner, NR_PAGES));
	self->attr.disabled = 1;
	other = event_open_on(&self->attr, 0, 0);
	ASSERT_LE(0, other);
	ASSERT_EQ(0, event_ioctl(other, PERF_EVENT_IOC_SET_OUTPUT, owner));
	ASSERT_EQ(0, child_end(&child));
	stream_drain(&self->stream, owner, self->pipes, MIB);
	EXPECT_EQ(-EAGAIN, ring_splice(owner, self->pipes[1], MIB));
	EXPECT_EQ(0, poll_now(owner));
	ASSERT_EQ(0, waiter_start(&waiter, owner, self->pipes[1]));
	EXPECT_EQ(0, waiter.done);
	ASSERT_EQ(0, close(other));
	EXPECT_EQ(0, waiter_end(&waiter));
	EXPECT_EQ(POLLHUP, poll_now(owner));
	close(owner);
}

/* Faults on CPU 0 until it is killed. */
static pid_t writer_start(void)
{
	pid_t pid = fork();

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		run_on(0);
		for (;;)
			make_faults(1);
	}
	return pid;
}

struct end_reader {
	pthread_t	thread;
	struct stream	stream;
	int		fd;
	int		*pipes;
	bool		writes_on;
};

/* Read until the end, and look for what comes after it. */
static void *read_beyond_the_end(void *arg)
{
	struct end_reader *reader = arg;
	ssize_t ret;
	int i;

	do {
		reader->stream.len = 0;
		ret = ring_splice(reader->fd, reader->pipes[1], MIB / 2);
		if (ret > 0 && stream_read(&reader->stream, reader->pipes[0], ret))
			abort();
	} while (ret);
	for (i = 0; i < 1000; i++)
		reader->writes_on |= ring_splice(reader->fd, reader->pipes[1], 1) != 0;
	return NULL;
}

/* An event that writes all the time leaves a buffer, which ends thereby. */
TEST_F_TIMEOUT(ring_splice_wait, event_that_leaves_writes_nothing_after_the_end, 120)
{
	struct end_reader reader = { .stream = self->stream, .pipes = self->pipes };
	int event, other, round;
	struct child child;
	pid_t writer;

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		SKIP(return, "needs two CPUs");
	ASSERT_EQ(0, child_start(&child, 1));
	reader.fd = event_open_on(&self->attr, child.pid, 0);
	ASSERT_LE(0, reader.fd);
	ASSERT_EQ(0, ring_alloc(reader.fd, NR_PAGES));
	ASSERT_EQ(0, child_end(&child));

	writer = writer_start();
	ASSERT_LT(0, writer);
	other = event_open_on(&self->attr, writer, 0);
	ASSERT_LE(0, other);
	ASSERT_EQ(0, ring_alloc(other, NR_PAGES));
	self->attr.disabled = 0;
	event = event_open_on(&self->attr, writer, 0);
	ASSERT_LE(0, event);
	run_on(1);
	for (round = 0; round < NR_ENDS && !reader.writes_on; round++) {
		ASSERT_EQ(0, event_ioctl(event, PERF_EVENT_IOC_SET_OUTPUT, reader.fd));
		ASSERT_EQ(0, pthread_create(&reader.thread, NULL, read_beyond_the_end, &reader));
		ASSERT_EQ(0, event_ioctl(event, PERF_EVENT_IOC_SET_OUTPUT, other));
		pthread_join(reader.thread, NULL);
	}
	EXPECT_FALSE(reader.writes_on) {
		TH_LOG("in round %d", round);
	}
	kill(writer, SIGKILL);
	waitpid(writer, NULL, 0);
	close(event);
	close(other);
	close(reader.fd);
}

/* The end comes when the last child is gone. */
TEST_F(ring_splice_wait, end_is_that_of_inherited_events_too)
{
	int fd, status, go[2];
	pid_t pid;
	char c;

	self->attr.inherit = 1;
	self->attr.disabled = 0;
	ASSERT_EQ(0, pipe(go));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		close(go[1]);
		/* The event is opened meanwhile, and the grandchild inherits it. */
		if (read(go[0], &c, 1) != 1)
			_exit(1);
		if (!fork())
			_exit(read(go[0], &c, 1));
		_exit(0);
	}
	close(go[0]);
	fd = event_open_on(&self->attr, pid, 0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, ring_alloc(fd, NR_PAGES));
	ASSERT_EQ(1, write(go[1], "x", 1));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_EQ(0, status);
	stream_drain(&self->stream, fd, self->pipes, MIB);
	EXPECT_EQ(-EAGAIN, ring_splice(fd, self->pipes[1], MIB));
	EXPECT_EQ(0, poll_now(fd) & POLLHUP);
	close(go[1]);
	/* The end comes after all of its records. */
	while (ring_splice_flags(fd, self->pipes[1], MIB, 0) > 0)
		;
	EXPECT_EQ(POLLHUP, poll_now(fd));
	close(fd);
}

TEST_HARNESS_MAIN
