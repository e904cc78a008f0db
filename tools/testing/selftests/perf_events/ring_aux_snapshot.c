// SPDX-License-Identifier: GPL-2.0
/*
 * perf ring buffer selftests - the snapshot of a running event's AUX area
 */
#define _GNU_SOURCE

#include <pthread.h>

#include "../kselftest_harness.h"
#include "ring_aux_helpers.h"

#define DATA_PAGES	4
#define AUX_PAGES	16

FIXTURE(ring_snapshot)
{
	struct perf_event_attr attr;
	struct perf_event_aux_snapshot snap;
	struct ring ring;
	struct aux_area area;
	int fd;
};

FIXTURE_SETUP(ring_snapshot)
{
	self->fd = -1;
	if (pmu_type("pmusim_aux") < 0)
		SKIP(return, "no PMU pmusim_aux, CONFIG_PERF_PMUSIM has it");
	if (geteuid())
		SKIP(return, "needs root for the ticks of pmusim");
	self->attr = aux_attr("pmusim_aux");
	self->attr.use_clockid = 1;
	self->attr.clockid = CLOCK_MONOTONIC;
	self->fd = event_open_on(&self->attr, -1, 0);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, ring_map(&self->ring, self->fd, DATA_PAGES));
	ASSERT_EQ(0, aux_map(&self->area, &self->ring, self->fd, AUX_PAGES, PROT_READ));
}

FIXTURE_TEARDOWN(ring_snapshot)
{
	close(self->fd);
}

static int snapshot(int fd, struct perf_event_aux_snapshot *snap, __u32 flags)
{
	*snap = (struct perf_event_aux_snapshot) {
		.size	= sizeof(*snap),
		.flags	= flags,
		.head	= -1ULL,
		.time	= -1ULL,
		.wrapped = -1ULL,
	};
	return event_ioctl(fd, PERF_EVENT_IOC_AUX_SNAPSHOT, (unsigned long)snap);
}

static __u64 now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ULL + now.tv_nsec;
}

TEST_F(ring_snapshot, head_of_a_running_event_is_told)
{
	ASSERT_EQ(0, event_enable(self->fd));
	ASSERT_EQ(0, aux_tick(800));
	EXPECT_EQ(0, aux_head(&self->ring));
	ASSERT_EQ(0, snapshot(self->fd, &self->snap, 0));
	EXPECT_EQ(sizeof(self->snap), self->snap.size);
	EXPECT_EQ(800, self->snap.head);
	EXPECT_EQ(0, self->snap.wrapped);
	EXPECT_EQ(800, aux_head(&self->ring));
	EXPECT_TRUE(aux_holds(&self->area, 0, 800));
}

TEST_F(ring_snapshot, event_runs_on)
{
	__u64 head = 0;
	int i;

	ASSERT_EQ(0, event_enable(self->fd));
	for (i = 0; i < 100; i++) {
		ASSERT_EQ(0, aux_tick(8 * i));
		head += 8 * i;
		ASSERT_EQ(0, snapshot(self->fd, &self->snap, 0));
		ASSERT_EQ(head, self->snap.head);
	}
}

TEST_F(ring_snapshot, wrap_is_exact)
{
	__u64 size = self->area.size;

	ASSERT_EQ(0, event_enable(self->fd));
	ASSERT_EQ(0, aux_tick(size - 8));
	ASSERT_EQ(0, snapshot(self->fd, &self->snap, 0));
	EXPECT_EQ(0, self->snap.wrapped);
	ASSERT_EQ(0, aux_tick(8));
	ASSERT_EQ(0, snapshot(self->fd, &self->snap, 0));
	EXPECT_EQ(size, self->snap.head);
	EXPECT_EQ(1, self->snap.wrapped);
	ASSERT_EQ(0, aux_tick(24));
	ASSERT_EQ(0, snapshot(self->fd, &self->snap, 0));
	EXPECT_EQ(size + 24, self->snap.head);
	EXPECT_EQ(1, self->snap.wrapped);
	EXPECT_TRUE(aux_holds(&self->area, 24, size + 24));
}

/* Use a driver that knows its offset in the area, but not the number of turns. */
TEST_F(ring_snapshot, wrap_is_not_told_where_it_is_not_known)
{
	struct perf_event_attr attr = aux_attr("pmusim_aux_excl");
	__u64 size = self->area.size;

	ASSERT_EQ(0, aux_unmap(&self->area));
	close(self->fd);
	self->fd = event_open_on(&attr, -1, 0);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, ring_map(&self->ring, self->fd, DATA_PAGES));
	ASSERT_EQ(0, aux_map(&self->area, &self->ring, self->fd, AUX_PAGES, PROT_READ));
	ASSERT_EQ(0, event_enable(self->fd));
	ASSERT_EQ(0, aux_tick_of("pmusim_aux_excl", 0, 800));
	ASSERT_EQ(0, snapshot(self->fd, &self->snap, 0));
	EXPECT_EQ(800, self->snap.head);
	EXPECT_EQ(PERF_AUX_WRAPPED_UNKNOWN, self->snap.wrapped);
	ASSERT_EQ(0, aux_tick_of("pmusim_aux_excl", 0, size));
	ASSERT_EQ(0, snapshot(self->fd, &self->snap, 0));
	EXPECT_EQ(PERF_AUX_WRAPPED_YES, self->snap.wrapped);
}

/* aux_head of the buffer goes on, and says nothing about the new area. */
TEST_F(ring_snapshot, fresh_area_has_not_wrapped)
{
	__u64 size = self->area.size, head = 3 * size + 16;

	ASSERT_EQ(0, event_enable(self->fd));
	ASSERT_EQ(0, aux_tick(head));
	ASSERT_EQ(0, event_disable(self->fd));
	ASSERT_EQ(0, snapshot(self->fd, &self->snap, 0));
	EXPECT_EQ(1, self->snap.wrapped);
	ASSERT_EQ(0, aux_unmap(&self->area));
	ASSERT_EQ(0, aux_map(&self->area, &self->ring, self->fd, AUX_PAGES, PROT_READ));

	ASSERT_EQ(0, event_enable(self->fd));
	ASSERT_EQ(0, aux_tick(64));
	ASSERT_EQ(0, snapshot(self->fd, &self->snap, 0));
	EXPECT_EQ(head + 64, self->snap.head);
	EXPECT_EQ(0, self->snap.wrapped);
	EXPECT_TRUE(aux_holds(&self->area, head, head + 64));
}

TEST_F(ring_snapshot, time_is_that_of_the_stop)
{
	__u64 before, after;
	int i;

	ASSERT_EQ(0, event_enable(self->fd));
	for (i = 0; i < 50; i++) {
		before = now_ns();
		ASSERT_EQ(0, snapshot(self->fd, &self->snap, 0));
		after = now_ns();
		EXPECT_LE(before, self->snap.time);
		EXPECT_GE(after, self->snap.time);
	}
}

TEST_F(ring_snapshot, event_can_be_left_disabled)
{
	ASSERT_EQ(0, event_enable(self->fd));
	ASSERT_EQ(0, aux_tick(64));
	ASSERT_EQ(0, snapshot(self->fd, &self->snap, PERF_AUX_SNAPSHOT_DISABLE));
	EXPECT_EQ(64, self->snap.head);
	EXPECT_EQ(PERF_AUX_SNAPSHOT_DISABLE, self->snap.flags);
	ASSERT_EQ(0, aux_tick(64));
	ASSERT_EQ(0, snapshot(self->fd, &self->snap, 0));
	EXPECT_EQ(64, self->snap.head);
	ASSERT_EQ(0, event_enable(self->fd));
	ASSERT_EQ(0, aux_tick(64));
	ASSERT_EQ(0, snapshot(self->fd, &self->snap, 0));
	EXPECT_EQ(128, self->snap.head);
}

#define KEEPS_TRANSACTION	0x10

/* Use a driver that ends its output only when the event leaves the PMU. */
TEST_F(ring_snapshot, event_whose_output_does_not_end_is_refused)
{
	struct ring ring;
	int fd;

	self->attr.config2 = KEEPS_TRANSACTION;
	fd = event_open_on(&self->attr, -1, 0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, ring_map(&ring, fd, DATA_PAGES));
	ASSERT_EQ(0, aux_map(&self->area, &ring, fd, AUX_PAGES, PROT_READ));
	ASSERT_EQ(0, event_enable(fd));
	ASSERT_EQ(0, aux_tick(800));
	EXPECT_EQ(-EOPNOTSUPP, snapshot(fd, &self->snap, 0));
	/* The event keeps running. */
	ASSERT_EQ(0, aux_tick(64));
	EXPECT_EQ(0, snapshot(fd, &self->snap, PERF_AUX_SNAPSHOT_DISABLE));
	EXPECT_EQ(864, self->snap.head);
	EXPECT_EQ(864, aux_head(&ring));
	EXPECT_EQ(0, snapshot(fd, &self->snap, 0));
	EXPECT_EQ(864, self->snap.head);
	close(fd);
}

TEST_F(ring_snapshot, disabled_event_stays_disabled)
{
	ASSERT_EQ(0, snapshot(self->fd, &self->snap, 0));
	EXPECT_EQ(0, self->snap.head);
	ASSERT_EQ(0, aux_tick(64));
	ASSERT_EQ(0, snapshot(self->fd, &self->snap, PERF_AUX_SNAPSHOT_DISABLE));
	EXPECT_EQ(0, self->snap.head);
}

TEST_F(ring_snapshot, protected_area_is_flushed)
{
	struct aux_record record;

	ASSERT_EQ(0, aux_unmap(&self->area));
	ASSERT_EQ(0, aux_map(&self->area, &self->ring, self->fd, AUX_PAGES,
			     PROT_READ | PROT_WRITE));
	ASSERT_EQ(0, event_enable(self->fd));
	ASSERT_EQ(0, aux_tick(64));
	EXPECT_EQ(0, aux_head(&self->ring));
	ASSERT_EQ(0, snapshot(self->fd, &self->snap, 0));
	EXPECT_EQ(64, self->snap.head);
	EXPECT_EQ(0, self->snap.wrapped);
	ASSERT_TRUE(aux_next(&self->ring, PERF_RECORD_AUX, &record, sizeof(record)));
	EXPECT_EQ(64, record.size);
	ASSERT_EQ(0, aux_tick(self->area.size / 2));
	ASSERT_EQ(0, snapshot(self->fd, &self->snap, 0));
	EXPECT_EQ(0, self->snap.wrapped);
}

TEST_F(ring_snapshot, errors_are_told_apart)
{
	struct {
		struct perf_event_aux_snapshot	snap;
		__u64				more;
	} large = { .snap = { .size = sizeof(large) } };
	struct perf_event_attr attr = fault_attr();
	unsigned long cmd = PERF_EVENT_IOC_AUX_SNAPSHOT;
	int fd;

	EXPECT_EQ(-EINVAL, snapshot(self->fd, &self->snap, 2));
	EXPECT_EQ(-EINVAL, snapshot(self->fd, &self->snap, 1U << 31));
	self->snap.flags = 0;
	self->snap.size = sizeof(self->snap) - 1;
	EXPECT_EQ(-EINVAL, event_ioctl(self->fd, cmd, (unsigned long)&self->snap));
	self->snap.size = 0;
	EXPECT_EQ(-EINVAL, event_ioctl(self->fd, cmd, (unsigned long)&self->snap));
	EXPECT_EQ(-EFAULT, event_ioctl(self->fd, cmd, 8));

	EXPECT_EQ(0, event_ioctl(self->fd, cmd, (unsigned long)&large));
	EXPECT_EQ(sizeof(large.snap), large.snap.size);
	large.snap.size = sizeof(large);
	large.more = 1;
	EXPECT_EQ(-E2BIG, event_ioctl(self->fd, cmd, (unsigned long)&large));

	fd = event_open(&attr);
	ASSERT_LE(0, fd);
	EXPECT_EQ(-EOPNOTSUPP, snapshot(fd, &self->snap, 0));
	close(fd);

	fd = event_open_on(&self->attr, -1, 0);
	ASSERT_LE(0, fd);
	EXPECT_EQ(-EINVAL, snapshot(fd, &self->snap, 0));
	ASSERT_EQ(0, ring_map(&self->ring, fd, DATA_PAGES));
	EXPECT_EQ(-EINVAL, snapshot(fd, &self->snap, 0));
	close(fd);
}

struct storm {
	int		fd;
	unsigned int	rounds;
	bool		bad;
};

/* Heads and times of an event only grow, for any caller. */
static void *take_many(void *arg)
{
	struct perf_event_aux_snapshot snap;
	struct storm *storm = arg;
	__u64 head = 0, time = 0;
	unsigned int i;

	for (i = 0; i < storm->rounds && !storm->bad; i++) {
		storm->bad = snapshot(storm->fd, &snap, 0) || snap.head < head || snap.time < time;
		head = snap.head;
		time = snap.time;
	}
	return NULL;
}

TEST_F(ring_snapshot, many_readers_see_a_head_that_grows)
{
	struct storm storms[3];
	pthread_t threads[3];
	struct ring ring;
	int i, fd;

	self->attr.config = AUX_TIMER;
	self->attr.config1 = 5000 | (__u64)page_size() << 32;
	fd = event_open_on(&self->attr, -1, 0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, ring_map(&ring, fd, DATA_PAGES));
	ASSERT_EQ(0, aux_map(&self->area, &ring, fd, AUX_PAGES, PROT_READ));
	ASSERT_EQ(0, event_enable(fd));
	for (i = 0; i < 3; i++) {
		storms[i] = (struct storm) { .fd = fd, .rounds = 500 };
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, take_many, &storms[i]));
	}
	for (i = 0; i < 200; i++) {
		event_disable(fd);
		event_enable(fd);
	}
	for (i = 0; i < 3; i++) {
		ASSERT_EQ(0, pthread_join(threads[i], NULL));
		EXPECT_FALSE(storms[i].bad);
	}
	close(fd);
}

/* A child of the task writes to the area of the event that it has inherited. */
TEST_F(ring_snapshot, child_of_an_inherited_event_is_stopped)
{
	struct ring ring;
	pid_t pid;
	int fd;

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		SKIP(return, "needs a second CPU");
	self->attr.inherit = 1;
	fd = event_open_on(&self->attr, 0, 0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, ring_map(&ring, fd, DATA_PAGES));
	ASSERT_EQ(0, aux_map(&self->area, &ring, fd, AUX_PAGES, PROT_READ));
	ASSERT_EQ(0, event_enable(fd));
	run_on(1);
	pid = aux_fork_on(0, 640);
	ASSERT_LT(0, pid);
	EXPECT_EQ(0, snapshot(fd, &self->snap, 0));
	EXPECT_EQ(640, self->snap.head);
	EXPECT_EQ(0, snapshot(fd, &self->snap, PERF_AUX_SNAPSHOT_DISABLE));
	EXPECT_EQ(0, aux_tick(640));
	EXPECT_EQ(0, snapshot(fd, &self->snap, 0));
	EXPECT_EQ(640, self->snap.head);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(fd);
}

TEST_HARNESS_MAIN
