// SPDX-License-Identifier: GPL-2.0
/*
 * perf ring buffer selftests - children that end while splice(2) takes the records
 *
 * A page in a pipe must have no writer, whatever CPU a child ends on. The bytes go
 * through a socket, which frees the pages for other use, and must be whole records.
 *
 * PERF_STRESS_SECONDS sets the duration; the default is 4.
 */
#define _GNU_SOURCE

#include <sys/socket.h>

#include "../kselftest_harness.h"
#include "ring_splice_helpers.h"
#include "ring_child_helpers.h"

#define NR_PAGES	16
#define NR_BYTES	MIB
#define NR_MEMBERS	320
#define NR_CHILDREN	8
#define NR_ENDS		20

FIXTURE(ring_splice_child)
{
	struct perf_event_attr attr;
	struct child_sum sum;
	char *bytes;
	size_t len;
	int fds[NR_MEMBERS];
	int pipes[2];
	int sockets[2];
	bool at_end;
	int nr;
};

FIXTURE_SETUP(ring_splice_child)
{
	SKIP_WITHOUT_SPLICE();
	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		SKIP(return, "needs two CPUs");
	self->attr = child_attr();
	self->attr.disabled = 0;
	memset(&self->sum, 0, sizeof(self->sum));
	self->bytes = malloc(NR_BYTES);
	self->len = 0;
	self->nr = 0;
	ASSERT_NE(NULL, self->bytes);
	ASSERT_EQ(0, pipe_open(self->pipes, MIB));
	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, self->sockets));
}

FIXTURE_TEARDOWN(ring_splice_child)
{
	int i;

	for (i = 0; i < self->nr; i++)
		close(self->fds[i]);
	pipe_close(self->pipes);
	pipe_close(self->sockets);
	free(self->bytes);
}

static void add_event_of(struct __test_metadata *const _metadata,
			 struct _test_data_ring_splice_child *self, pid_t pid)
{
	int leader = self->nr ? self->fds[0] : -1;
	int fd;

	fd = syscall(__NR_perf_event_open, &self->attr, pid, EVENT_CPU, leader, 0);
	ASSERT_LE(0, fd) {
		TH_LOG("open: %s", strerror(errno));
	}
	self->fds[self->nr++] = fd;
	if (leader < 0) {
		struct perf_event_buffer buffer = splice_buffer(NR_PAGES);

		buffer.watermark = 1;
		ASSERT_EQ(0, buffer_alloc(fd, &buffer));
	}
}

static void add_event(struct __test_metadata *const _metadata,
		      struct _test_data_ring_splice_child *self)
{
	add_event_of(_metadata, self, 0);
}

/* Add up whole records of the data so far, and keep the rest. */
static void add_up(struct _test_data_ring_splice_child *self)
{
	struct perf_event_header *header;
	size_t at = 0;

	while (!self->sum.bad && at + sizeof(*header) <= self->len) {
		header = (void *)(self->bytes + at);
		if (at + header->size > self->len)
			break;
		child_sum_record(&self->sum, header);
		at += header->size;
	}
	self->len -= at;
	memmove(self->bytes, self->bytes + at, self->len);
}

/* Take data, and return whether there was any. */
static bool take(struct __test_metadata *const _metadata,
		 struct _test_data_ring_splice_child *self)
{
	ssize_t ret, sent, got;

	ret = ring_splice(self->fds[0], self->pipes[1], MIB);
	self->at_end = !ret;
	if (ret == -EAGAIN || !ret)
		return false;
	EXPECT_LT(0, ret) {
		self->sum.bad = true;
	}
	while (ret > 0) {
		sent = splice(self->pipes[0], NULL, self->sockets[0], NULL,
			      ret < 4096 ? ret : 4096, 0);
		if (sent <= 0) {
			self->sum.bad = true;
			break;
		}
		ret -= sent;
		while (sent > 0) {
			got = recv(self->sockets[1], self->bytes + self->len,
				   NR_BYTES - self->len, 0);
			if (got <= 0)
				break;
			self->len += got;
			sent -= got;
			add_up(self);
		}
	}
	return true;
}

TEST_F_TIMEOUT(ring_splice_child, children_end_beside_a_writer, 900)
{
	struct child_work *work = child_work_map();
	struct child_sum *sum = &self->sum;
	time_t end, moved;
	pid_t pids[3];
	int i;

	self->attr.remove_on_exec = 1;
	add_event(_metadata, self);
	ASSERT_NE(NULL, work);
	ASSERT_EQ(0, start_children(work, pids));

	end = child_stress_end();
	moved = time(NULL);
	while (!sum->bad && time(NULL) < end && time(NULL) <= moved + 20) {
		if (take(_metadata, self))
			moved = time(NULL);
		else
			sched_yield();
	}
	__atomic_store_n(&work->stop, true, __ATOMIC_RELAXED);
	for (i = 0; i < 3; i++)
		wait_for_success(_metadata, pids[i]);

	while (!sum->bad && take(_metadata, self))
		;
	ASSERT_FALSE(sum->bad) {
		TH_LOG("after %lu samples and %lu reads", sum->samples, sum->reads);
	}
	EXPECT_EQ(0, self->len);
	sum->samples = 0;
	run_on(EVENT_CPU);
	make_faults(1);
	take(_metadata, self);
	EXPECT_LE(1, sum->samples);
	EXPECT_FALSE(sum->bad);
	EXPECT_LE(work->ended, sum->reads + sum->lost);
	EXPECT_LT(0, work->ended);
	TH_LOG("%lu children ended, %lu of them told, %lu records lost", work->ended,
	       sum->reads, sum->lost);
}

/* A task that forks two children and ends; they end together, when @go is closed. */
static pid_t parent_of_two(int go[2])
{
	pid_t pid = fork();
	char c;
	int i;

	if (pid)
		return pid;
	close(go[1]);
	/* The event is opened meanwhile. */
	if (read(go[0], &c, 1) != 1)
		_exit(1);
	for (i = 0; i < 2; i++) {
		if (fork())
			continue;
		run_elsewhere();
		run_on(OTHER_CPU + i * (EVENT_CPU - OTHER_CPU));
		if (read(go[0], &c, 1))
			_exit(1);
		setenv(END_NOW, "1", 1);
		execl("/proc/self/exe", "ring_splice_child", NULL);
	}
	_exit(0);
}

/* Each child ends alone as far as it can tell; the buffer ends with the last record. */
TEST_F_TIMEOUT(ring_splice_child, end_comes_after_the_records_of_all_children, 120)
{
	int round, go[2], status;
	pid_t pid;

	self->attr.remove_on_exec = 1;
	self->attr.sample_period = 0;
	for (round = 1; round <= NR_ENDS; round++) {
		ASSERT_EQ(0, pipe(go));
		pid = parent_of_two(go);
		ASSERT_LT(0, pid);
		add_event_of(_metadata, self, pid);
		close(go[0]);
		ASSERT_EQ(1, write(go[1], "x", 1));
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		ASSERT_EQ(0, status);
		close(go[1]);
		/* Unlike splice(), poll() waits for a child that is about to end. */
		while (take(_metadata, self) || !self->at_end)
			sched_yield();
		EXPECT_EQ(2 * round, self->sum.reads);
		EXPECT_EQ(0, self->len);
		EXPECT_FALSE(self->sum.bad);
		close(self->fds[--self->nr]);
	}
}

/* Use records of many pages, which take long to write. */
TEST_F_TIMEOUT(ring_splice_child, large_groups_end_beside_a_writer, 900)
{
	struct child_work *work = child_work_map();
	pid_t writer, pid;
	int i, nr;

	self->attr.read_format = PERF_FORMAT_GROUP | PERF_FORMAT_ID | PERF_FORMAT_LOST |
				 PERF_FORMAT_GATE_TIME | PERF_FORMAT_GATE_COUNT;
	add_event(_metadata, self);
	self->attr.sample_period = 0;
	for (i = 1; i < NR_MEMBERS; i++)
		add_event(_metadata, self);
	ASSERT_NE(NULL, work);
	writer = fork();
	if (!writer)
		fault_for_ever(work);

	for (nr = 0; nr < NR_CHILDREN && !self->sum.bad; nr++) {
		pid = child_elsewhere(0);
		ASSERT_LT(0, pid);
		while (waitpid(pid, NULL, WNOHANG) == 0)
			take(_metadata, self);
		while (take(_metadata, self))
			;
	}
	__atomic_store_n(&work->stop, true, __ATOMIC_RELAXED);
	while (waitpid(writer, NULL, WNOHANG) == 0)
		take(_metadata, self);
	while (take(_metadata, self))
		;
	EXPECT_FALSE(self->sum.bad);
	EXPECT_EQ(0, self->len);
	EXPECT_LE(NR_CHILDREN, self->sum.reads + self->sum.lost);
	EXPECT_LT(0, self->sum.reads);
}

TEST_HARNESS_MAIN
