// SPDX-License-Identifier: GPL-2.0
/*
 * perf ring buffer selftests - records of children that end
 *
 * PERF_STRESS_SECONDS sets for how long children end beside a writer; the default is 4.
 */
#define _GNU_SOURCE

#include "../kselftest_harness.h"
#include "ring_child_helpers.h"

#define NR_CHILDREN	4
#define NR_FAULTS	3
#define NR_MEMBERS	3
#define NR_MANY		64
#define RING_PAGES	64

FIXTURE(ring_child) {
	struct perf_event_attr attr;
	int fds[NR_MANY];
	int nr;
	struct ring ring;
};

FIXTURE_SETUP(ring_child)
{
	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		SKIP(return, "needs two CPUs");
	self->attr = child_attr();
	self->nr = 0;
}

FIXTURE_TEARDOWN(ring_child)
{
	int i;

	for (i = 0; i < self->nr; i++)
		close(self->fds[i]);
}

/* Open the next event of the group; the first one gets a buffer. */
static void add_event(struct __test_metadata *const _metadata,
		      struct _test_data_ring_child *self)
{
	int leader = self->nr ? self->fds[0] : -1;
	int fd;

	fd = syscall(__NR_perf_event_open, &self->attr, 0, EVENT_CPU, leader, 0);
	ASSERT_LE(0, fd) {
		TH_LOG("open: %s", strerror(errno));
	}
	self->fds[self->nr++] = fd;
	ASSERT_EQ(0, leader < 0 ? ring_map(&self->ring, fd, RING_PAGES) :
				  event_ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, leader));
}

/* Get the next PERF_RECORD_READ and skip samples before it. */
static __u32 next_read(struct ring *ring, void *record, size_t size)
{
	__u32 type;

	do {
		type = ring_next(ring, record, size);
	} while (type == PERF_RECORD_SAMPLE);
	return type;
}

TEST_F(ring_child, each_child_that_exits_is_told)
{
	struct read_record record;
	int i, status;
	pid_t pid;

	self->attr.disabled = 0;
	add_event(_metadata, self);
	for (i = 0; i < NR_CHILDREN; i++) {
		pid = child_elsewhere(NR_FAULTS);
		ASSERT_LT(0, pid);
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		ASSERT_EQ(PERF_RECORD_READ,
			  next_read(&self->ring, &record, sizeof(record)));
		EXPECT_EQ(pid, record.pid);
		EXPECT_EQ(pid, record.tid);
	}
	EXPECT_EQ(NO_RECORD, next_read(&self->ring, &record, sizeof(record)));
}

/* The CPU of the event may be one that the task is not allowed to interrupt. */
TEST_F(ring_child, child_that_never_ran_on_the_cpu_of_the_event_is_not_told)
{
	struct read_record record;
	int i, status;
	pid_t pid;

	self->attr.disabled = 0;
	run_on(OTHER_CPU);
	add_event(_metadata, self);
	for (i = 0; i < NR_CHILDREN; i++) {
		pid = fork();
		if (!pid)
			_exit(0);
		ASSERT_LT(0, pid);
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
	}
	EXPECT_EQ(NO_RECORD, next_read(&self->ring, &record, sizeof(record)));
}

/* The child faults on the CPU of the event, and exits there or on another CPU. */
TEST_F(ring_child, count_of_a_child_is_told)
{
	struct read_record record;
	__u64 total;
	pid_t pid;
	int end;

	self->attr.disabled = 0;
	self->attr.sample_period = 0;
	self->attr.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED;
	add_event(_metadata, self);

	for (end = EVENT_CPU; end <= OTHER_CPU; end++) {
		__u64 before[2], after[2];

		run_on(OTHER_CPU);
		ASSERT_EQ(sizeof(before), read(self->fds[0], before, sizeof(before)));
		pid = fork();
		if (!pid) {
			run_on(EVENT_CPU);
			make_faults(NR_FAULTS);
			run_on(end);
			_exit(0);
		}
		ASSERT_LT(0, pid);
		wait_for_success(_metadata, pid);
		ASSERT_EQ(sizeof(after), read(self->fds[0], after, sizeof(after)));
		ASSERT_EQ(PERF_RECORD_READ,
			  next_read(&self->ring, &record, sizeof(record)));
		total = after[0] - before[0];
		EXPECT_EQ(total, record.values[0]);
		EXPECT_LE(NR_FAULTS, record.values[0]);
		EXPECT_LT(0, record.values[1]);
		/* The event of the parent was enabled meanwhile, so its times grow as well. */
		EXPECT_GE(after[1] - before[1], record.values[1]);
	}
}

/* The child never runs on the CPU of the event, which waits for it all the time. */
TEST_F(ring_child, time_of_a_child_that_never_counted_is_kept)
{
	__u64 before[2], after[2];
	struct timespec sleep = { .tv_nsec = 20 * 1000 * 1000 };
	pid_t pid;

	self->attr.disabled = 0;
	self->attr.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED;
	add_event(_metadata, self);

	/* The time of a context stands still while its task sleeps. */
	run_on(OTHER_CPU);
	ASSERT_EQ(sizeof(before), read(self->fds[0], before, sizeof(before)));
	pid = fork();
	if (!pid) {
		struct timespec now, end;

		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
		end.tv_nsec += sleep.tv_nsec;
		do {
			clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
		} while (now.tv_sec == end.tv_sec && now.tv_nsec < end.tv_nsec);
		_exit(0);
	}
	ASSERT_LT(0, pid);
	wait_for_success(_metadata, pid);
	ASSERT_EQ(sizeof(after), read(self->fds[0], after, sizeof(after)));
	EXPECT_LE(sleep.tv_nsec, after[1] - before[1]);
}

TEST_F(ring_child, group_of_a_child_is_told_whole)
{
	struct {
		struct read_record	read;
		__u64			more[NR_MEMBERS];
	} record;
	unsigned int i;
	pid_t pid;

	self->attr.disabled = 0;
	self->attr.sample_period = 0;
	self->attr.read_format = PERF_FORMAT_GROUP;
	for (i = 0; i < NR_MEMBERS; i++)
		add_event(_metadata, self);

	pid = fork();
	if (!pid) {
		run_on(EVENT_CPU);
		make_faults(NR_FAULTS);
		run_on(OTHER_CPU);
		_exit(0);
	}
	ASSERT_LT(0, pid);
	wait_for_success(_metadata, pid);

	ASSERT_EQ(PERF_RECORD_READ, next_read(&self->ring, &record, sizeof(record)));
	EXPECT_EQ(NR_MEMBERS, record.read.values[0]);
	EXPECT_LE(NR_FAULTS, record.read.values[1]);
	for (i = 1; i < NR_MEMBERS; i++)
		EXPECT_EQ(record.read.values[1], record.read.values[1 + i]);
}

/* Another task runs on the CPU of the event at that moment. */
TEST_F(ring_child, record_is_signed_by_the_child)
{
	struct {
		struct perf_event_header	header;
		__u32				pid, tid;
		__u64				value;
		__u32				id_pid, id_tid;
		__u32				cpu, reserved;
	} record;
	pid_t pid;

	self->attr.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_CPU;
	self->attr.sample_period = 0;
	self->attr.sample_id_all = 1;
	self->attr.disabled = 0;
	add_event(_metadata, self);
	pid = child_elsewhere(0);
	ASSERT_LT(0, pid);
	wait_for_success(_metadata, pid);

	ASSERT_EQ(PERF_RECORD_READ, next_read(&self->ring, &record, sizeof(record)));
	EXPECT_EQ(sizeof(record), record.header.size);
	EXPECT_EQ(pid, record.pid);
	EXPECT_EQ(pid, record.id_pid);
	EXPECT_EQ(pid, record.id_tid);
	EXPECT_EQ(EVENT_CPU, record.cpu);
}

/* The task that runs on the CPU of the event may be another user's. */
TEST_F(ring_child, loss_before_the_record_names_no_other_task)
{
	struct {
		struct perf_event_header	header;
		__u64				id, lost;
		__u32				id_pid, id_tid;
		char				rest[64];
	} record;
	__u64 period = 1ULL << 40;
	pid_t pid;
	int fd;

	self->attr.sample_type = PERF_SAMPLE_TID;
	self->attr.sample_id_all = 1;
	self->attr.disabled = 0;
	fd = syscall(__NR_perf_event_open, &self->attr, 0, EVENT_CPU, -1, 0);
	ASSERT_LE(0, fd);
	self->fds[self->nr++] = fd;
	ASSERT_EQ(0, ring_map(&self->ring, fd, 1));
	/* A sample takes 16 bytes. */
	run_on(EVENT_CPU);
	make_faults(sysconf(_SC_PAGESIZE) / 16 + 10);
	run_on(OTHER_CPU);
	while (ring_next(&self->ring, &record, sizeof(record)) != NO_RECORD)
		;
	/* The child takes no sample. */
	ASSERT_EQ(0, ioctl(fd, PERF_EVENT_IOC_PERIOD, &period));
	pid = child_elsewhere(0);
	ASSERT_LT(0, pid);
	wait_for_success(_metadata, pid);

	ASSERT_EQ(PERF_RECORD_LOST, ring_next(&self->ring, &record, sizeof(record)));
	EXPECT_EQ(pid, record.id_pid);
	EXPECT_EQ(pid, record.id_tid);
	EXPECT_EQ(PERF_RECORD_READ, ring_next(&self->ring, &record, sizeof(record)));
}

/* Add up all records, and return whether there were any. */
static bool drain(struct ring *ring, struct child_sum *sum)
{
	struct read_record record;
	bool any = false;

	while (!sum->bad && ring_next(ring, &record, sizeof(record)) != NO_RECORD) {
		child_sum_record(sum, &record);
		any = true;
	}
	return any;
}

TEST_F_TIMEOUT(ring_child, children_end_beside_a_writer, 900)
{
	struct child_sum sum = {};
	struct child_work *work;
	time_t end, stuck;
	pid_t pids[3];
	int i;

	/* Long records make it likely that writers meet. */
	self->attr.disabled = 0;
	self->attr.remove_on_exec = 1;
	self->attr.read_format = PERF_FORMAT_GROUP;
	add_event(_metadata, self);
	self->attr.sample_period = 0;
	while (self->nr < NR_MANY)
		add_event(_metadata, self);
	work = child_work_map();
	ASSERT_NE(NULL, work);
	ASSERT_EQ(0, start_children(work, pids));

	end = child_stress_end();
	stuck = time(NULL);
	while (!sum.bad && time(NULL) < end) {
		if (drain(&self->ring, &sum))
			stuck = time(NULL);
		else
			sched_yield();
		if (time(NULL) > stuck + 20)
			break;
	}
	__atomic_store_n(&work->stop, true, __ATOMIC_RELAXED);
	for (i = 0; i < 3; i++)
		wait_for_success(_metadata, pids[i]);

	/* One more record shows that the head still moves. */
	drain(&self->ring, &sum);
	ASSERT_FALSE(sum.bad) {
		TH_LOG("after %lu samples and %lu reads", sum.samples, sum.reads);
	}
	TH_LOG("%lu children ended, %lu records tell of them, %lu of samples, %lu lost",
	       work->ended, sum.reads, sum.samples, sum.lost);
	sum.samples = 0;
	run_on(EVENT_CPU);
	make_faults(1);
	drain(&self->ring, &sum);
	EXPECT_FALSE(sum.bad);
	EXPECT_LE(1, sum.samples);
	EXPECT_LE(work->ended, sum.reads + sum.lost);
	EXPECT_LT(0, work->ended);
}

TEST_HARNESS_MAIN
