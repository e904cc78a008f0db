// SPDX-License-Identifier: GPL-2.0
/*
 * perf ring buffer selftests - an AUX area that is full, and how it goes on
 */
#define _GNU_SOURCE
#include <limits.h>
#include <pthread.h>
#include <sched.h>

#include "../kselftest_harness.h"
#include "ring_aux_helpers.h"

#define DATA_PAGES	4
#define AUX_PAGES	16
#define PROT_RW		(PROT_READ | PROT_WRITE)
#define FAST_OVERRUNS	3000
#define FAST_SECONDS	60
#define STUCK_SECONDS	10

FIXTURE(ring_aux_full)
{
	struct perf_event_attr attr;
	struct ring ring;
	struct aux_area area;
	int fd;
};

FIXTURE_SETUP(ring_aux_full)
{
	self->fd = -1;
	if (pmu_type("pmusim_aux") < 0)
		SKIP(return, "no PMU pmusim_aux, CONFIG_PERF_PMUSIM has it");
	if (geteuid())
		SKIP(return, "needs root for the ticks of pmusim");
	self->attr = aux_attr("pmusim_aux");
	self->fd = event_open_on(&self->attr, -1, 0);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, ring_map(&self->ring, self->fd, DATA_PAGES));
}

FIXTURE_TEARDOWN(ring_aux_full)
{
	close(self->fd);
}

/* Write until the area is full and the event has stopped, and return the head. */
static __u64 overrun(struct ring *ring, struct aux_area *area)
{
	__u64 before, head;

	do {
		before = aux_head(ring);
		aux_tick(area->size);
		head = aux_head(ring);
	} while (head != before);
	return head;
}

static bool enabled_time_stands_still(int fd)
{
	__u64 first[2], second[2];

	if (read(fd, first, sizeof(first)) != sizeof(first))
		return false;
	usleep(1000);
	if (read(fd, second, sizeof(second)) != sizeof(second))
		return false;
	return first[1] == second[1];
}

/* The irq_work that disables the event may have to wait for the timer. */
static bool enabled_time_comes_to_an_end(int fd)
{
	int i;

	for (i = 0; i < 1000 && !enabled_time_stands_still(fd); i++)
		;
	return i < 1000;
}

TEST_F(ring_aux_full, overrun_disables_the_event)
{
	struct aux_record record = {};
	__u64 head;
	int fd;

	self->attr.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED;
	fd = event_open_on(&self->attr, -1, 0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, ring_map(&self->ring, fd, DATA_PAGES));
	ASSERT_EQ(0, aux_map(&self->area, &self->ring, fd, AUX_PAGES, PROT_RW));
	ASSERT_EQ(0, event_enable(fd));
	EXPECT_FALSE(enabled_time_stands_still(fd));
	head = overrun(&self->ring, &self->area);
	EXPECT_EQ(self->area.size - 8, head);
	EXPECT_TRUE(aux_holds(&self->area, 0, head));
	EXPECT_EQ(POLLIN, poll_now(fd));
	EXPECT_TRUE(enabled_time_comes_to_an_end(fd));
	while (!(record.flags & PERF_AUX_FLAG_TRUNCATED))
		ASSERT_TRUE(aux_next(&self->ring, PERF_RECORD_AUX, &record, sizeof(record)));
	close(fd);
}

/* Make room and enable the event, as perf record does. */
TEST_F(ring_aux_full, overrun_heals_with_enable_alone)
{
	__u64 head, more;
	int lap;

	ASSERT_EQ(0, aux_map(&self->area, &self->ring, self->fd, AUX_PAGES, PROT_RW));
	ASSERT_EQ(0, event_enable(self->fd));
	for (lap = 0; lap < 5; lap++) {
		head = overrun(&self->ring, &self->area);
		aux_set_tail(&self->ring, head);
		ASSERT_EQ(0, event_enable(self->fd));
		ASSERT_EQ(0, aux_tick(self->area.size / 2 + 8));
		more = aux_head(&self->ring);
		ASSERT_LT(head, more);
		EXPECT_TRUE(aux_holds(&self->area, head, more));
	}
}

static void run_on_cpu(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

struct fast_reader {
	struct ring *ring;
	int fd;
	volatile bool stop;
};

/*
 * Make room as soon as data arrives, and enable the event, often before it is disabled.
 * Only the record shows a stop that has added nothing to the trace.
 */
static void *read_fast(void *arg)
{
	struct fast_reader *reader = arg;
	__u64 head, tail = 0, records, told = 0;

	run_on_cpu(1);
	while (!reader->stop) {
		records = ring_head(reader->ring);
		head = aux_head(reader->ring);
		if (head == tail && records == told)
			continue;
		tail = head;
		told = records;
		ring_set_tail(reader->ring, told);
		aux_set_tail(reader->ring, tail);
		event_enable(reader->fd);
	}
	return NULL;
}

/* The reader is woken once for new data. It must not wait for ever then. */
TEST_F_TIMEOUT(ring_aux_full, enable_during_the_disabling_is_not_lost, 120)
{
	struct fast_reader reader = { .ring = &self->ring, .fd = self->fd };
	time_t moved = time(NULL), end = moved + FAST_SECONDS, stuck = 0;
	pthread_t thread;
	int still = 0, i;
	__u64 head;

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		SKIP(return, "needs a second CPU");
	ASSERT_EQ(0, aux_map(&self->area, &self->ring, self->fd, AUX_PAGES, PROT_RW));
	ASSERT_EQ(0, event_enable(self->fd));
	run_on_cpu(0);
	ASSERT_EQ(0, pthread_create(&thread, NULL, read_fast, &reader));
	for (i = 0; stuck < STUCK_SECONDS &&
		    (still || (i < FAST_OVERRUNS && time(NULL) < end)); i++) {
		head = aux_head(&self->ring);
		aux_tick(2 * self->area.size);
		if (aux_head(&self->ring) != head) {
			moved = time(NULL);
			still = 0;
		} else if (still++) {
			/* The reader may not have run yet. */
			usleep(1000);
		}
		stuck = time(NULL) - moved;
	}
	reader.stop = true;
	pthread_join(thread, NULL);
	EXPECT_GT(STUCK_SECONDS, stuck) {
		TH_LOG("stands still after %d ticks", i);
	}
}

/* Tick until data arrives: the core tries an event again that could not start. */
static __u64 tick_until_it_runs(struct ring *ring, int fd)
{
	__u64 head = aux_head(ring);
	int i;

	for (i = 0; i < 5000 && aux_head(ring) == head; i++) {
		aux_tick(64);
		event_disable(fd);
		event_enable(fd);
		usleep(1000);
	}
	return aux_head(ring) - head;
}

TEST_F(ring_aux_full, enable_without_room_is_harmless)
{
	__u64 head;
	int i;

	ASSERT_EQ(0, aux_map(&self->area, &self->ring, self->fd, AUX_PAGES, PROT_RW));
	ASSERT_EQ(0, event_enable(self->fd));
	head = overrun(&self->ring, &self->area);
	for (i = 0; i < 10; i++) {
		event_enable(self->fd);
		aux_tick(64);
		EXPECT_EQ(head, aux_head(&self->ring));
	}
	aux_set_tail(&self->ring, head);
	EXPECT_EQ(64, tick_until_it_runs(&self->ring, self->fd));
}

/* Write half of the area and disable the event. Return the head and a copy of the area. */
static __u64 write_half(struct ring *ring, struct aux_area *area, int fd, char **copy)
{
	event_enable(fd);
	aux_tick(area->size / 2);
	event_disable(fd);
	*copy = malloc(area->size);
	memcpy(*copy, area->data, area->size);
	return aux_head(ring);
}

/* A tail behind the head by the size or more, or ahead of it, leaves no room. */
TEST_F(ring_aux_full, tail_out_of_range_leaves_no_room)
{
	const long size = AUX_PAGES * page_size(), tails[] = {
		-size, -size - 1, -size - 8, -2 * size, 1, 8, size / 2, size, size + 8,
		1L << 30, LONG_MAX, LONG_MIN, LONG_MIN + 1,
	};
	__u64 head;
	char *copy;
	size_t i;

	ASSERT_EQ(0, aux_map(&self->area, &self->ring, self->fd, AUX_PAGES, PROT_RW));
	head = write_half(&self->ring, &self->area, self->fd, &copy);
	ASSERT_EQ(size / 2, head);
	for (i = 0; i < sizeof(tails) / sizeof(*tails); i++) {
		/* Test in the middle of a run that had room for 56 bytes. */
		aux_set_tail(&self->ring, head + 64 - size);
		ASSERT_EQ(0, event_enable(self->fd));
		aux_set_tail(&self->ring, head + tails[i]);
		poll_now(self->fd);
		ASSERT_EQ(0, aux_tick(64));
		EXPECT_EQ(POLLIN, poll_now(self->fd));
		/* Test at the beginning of a run as well. */
		ASSERT_EQ(0, event_disable(self->fd));
		ASSERT_EQ(0, event_enable(self->fd));
		ASSERT_EQ(0, aux_tick(64));
		ASSERT_EQ(0, event_disable(self->fd));
		EXPECT_EQ(head, aux_head(&self->ring)) {
			TH_LOG("tail at head + %ld", tails[i]);
		}
		EXPECT_EQ(0, memcmp(copy, self->area.data, size));
		head = aux_head(&self->ring);

		/* A valid tail works as before. */
		aux_set_tail(&self->ring, head);
		ASSERT_EQ(0, event_enable(self->fd));
		ASSERT_EQ(0, aux_tick(64));
		ASSERT_EQ(0, event_disable(self->fd));
		ASSERT_EQ(head + 64, aux_head(&self->ring));
		EXPECT_TRUE(aux_holds(&self->area, head, head + 64));
		memcpy(copy, self->area.data, size);
		head += 64;
	}
	free(copy);
}

/* A tail in range is trusted: the area from there to the head is not written. */
TEST_F(ring_aux_full, tail_in_range_protects_what_is_unread)
{
	char *copy;
	__u64 head;

	ASSERT_EQ(0, aux_map(&self->area, &self->ring, self->fd, AUX_PAGES, PROT_RW));
	head = write_half(&self->ring, &self->area, self->fd, &copy);
	ASSERT_EQ(self->area.size / 2, head);
	aux_set_tail(&self->ring, head + 64 - self->area.size);
	ASSERT_EQ(0, event_enable(self->fd));
	ASSERT_EQ(0, aux_tick(self->area.size));
	ASSERT_EQ(0, event_disable(self->fd));
	EXPECT_EQ(head + 56, aux_head(&self->ring));
	EXPECT_TRUE(aux_holds(&self->area, head, head + 56));
	memcpy(copy + head, self->area.data + head, 56);
	EXPECT_EQ(0, memcmp(copy, self->area.data, self->area.size));
	free(copy);
}

/* The event must not be disabled at the end of a run because an earlier one could not start. */
TEST_F(ring_aux_full, event_that_could_not_start_runs_on_once_it_does)
{
	__u64 head, seen;
	int i;

	ASSERT_EQ(0, aux_map(&self->area, &self->ring, self->fd, AUX_PAGES, PROT_RW));
	ASSERT_EQ(0, event_enable(self->fd));
	head = overrun(&self->ring, &self->area);
	ASSERT_EQ(0, event_enable(self->fd));
	aux_set_tail(&self->ring, head);

	/* The event starts when the CPU's events are scheduled again. */
	for (i = 0; i < 5000 && aux_head(&self->ring) - head < self->area.size / 4; i++) {
		aux_tick(self->area.size / 8);
		usleep(1000);
	}
	ASSERT_LT(head, aux_head(&self->ring));

	/* One more event on the CPU makes the core schedule all of them out and in. */
	for (i = 0; i < 20; i++) {
		struct perf_event_attr attr = fault_attr();
		int fd;

		attr.disabled = 0;
		attr.pinned = 1;
		fd = event_open_on(&attr, -1, 0);
		ASSERT_LE(0, fd);
		close(fd);
	}
	seen = aux_head(&self->ring);
	aux_set_tail(&self->ring, seen);
	aux_tick(self->area.size / 2);
	aux_tick(self->area.size / 2);
	EXPECT_LT(seen, aux_head(&self->ring));
}

static __u64 now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ULL + now.tv_nsec;
}

TEST_F(ring_aux_full, gap_is_measured)
{
	struct aux_lost_record record;
	__u64 before, full, start, after, head;
	int fd;

	self->attr.use_clockid = 1;
	self->attr.clockid = CLOCK_MONOTONIC;
	aux_attr_set_lost(&self->attr);
	fd = event_open_on(&self->attr, -1, 0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, ring_map(&self->ring, fd, DATA_PAGES));
	ASSERT_EQ(0, aux_map(&self->area, &self->ring, fd, AUX_PAGES, PROT_RW));
	ASSERT_EQ(0, event_enable(fd));

	before = now_ns();
	head = overrun(&self->ring, &self->area);
	full = now_ns();
	usleep(20000);
	aux_set_tail(&self->ring, head);
	start = now_ns();
	ASSERT_EQ(0, event_enable(fd));
	after = now_ns();

	ASSERT_TRUE(aux_next(&self->ring, PERF_RECORD_AUX_LOST, &record, sizeof(record)));
	EXPECT_EQ(sizeof(record), record.header.size);
	EXPECT_LE(before, record.time_stop);
	EXPECT_GE(full, record.time_stop);
	EXPECT_LE(start, record.time_start);
	EXPECT_GE(after, record.time_start);
	EXPECT_EQ(head, record.offset);
	EXPECT_LE(1, record.nr_stops);
	/* The gap is reported only once. */
	ASSERT_EQ(0, event_disable(fd));
	ASSERT_EQ(0, event_enable(fd));
	EXPECT_FALSE(aux_next(&self->ring, PERF_RECORD_AUX_LOST, &record, sizeof(record)));
	close(fd);
}

/* Tools that do not know the record must not get it. */
TEST_F(ring_aux_full, gap_is_not_told_unless_asked_for)
{
	struct aux_record record;
	__u64 head;

	ASSERT_EQ(0, aux_map(&self->area, &self->ring, self->fd, AUX_PAGES, PROT_RW));
	ASSERT_EQ(0, event_enable(self->fd));
	head = overrun(&self->ring, &self->area);
	aux_set_tail(&self->ring, head);
	ASSERT_EQ(0, event_enable(self->fd));
	ASSERT_EQ(0, aux_tick(self->area.size / 2 + 8));
	EXPECT_FALSE(aux_next(&self->ring, PERF_RECORD_AUX_LOST, &record, sizeof(record)));
}

TEST_F(ring_aux_full, gap_of_an_event_without_area_is_refused)
{
	struct perf_event_attr attr = fault_attr();

	aux_attr_set_lost(&attr);
	EXPECT_EQ(-1, event_open(&attr));
	EXPECT_EQ(EOPNOTSUPP, errno);
}

TEST_HARNESS_MAIN
