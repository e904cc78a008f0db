// SPDX-License-Identifier: GPL-2.0
/*
 * perf user page selftests - counts that are read without a system call
 */
#define _GNU_SOURCE
#include <pthread.h>

#include "../kselftest_harness.h"
#include "user_page_helpers.h"

FIXTURE(count)
{
	int				fd;
	struct perf_event_mmap_page	*page;
	struct brackets			b;
};

FIXTURE_VARIANT(count)
{
	__u64 config;
};

FIXTURE_VARIANT_ADD(count, instructions) {
	.config = PERF_COUNT_HW_INSTRUCTIONS,
};

FIXTURE_VARIANT_ADD(count, cycles) {
	.config = PERF_COUNT_HW_CPU_CYCLES,
};

FIXTURE_SETUP(count)
{
	struct perf_event_attr attr = user_attr(PERF_TYPE_HARDWARE, variant->config);

	if (user_page_setup(_metadata))
		return;
	if (variant->config == PERF_COUNT_HW_INSTRUCTIONS && lacks_instructions())
		SKIP(return, "QEMU counts instructions of arm64 only with -icount");
	self->fd = user_open(&attr, 0, -1, -1);
	ASSERT_LE(0, self->fd);
	self->page = page_map(self->fd, 0);
	ASSERT_NE(MAP_FAILED, self->page);
}

FIXTURE_TEARDOWN(count)
{
}

TEST_F(count, page_tells_how_to_read_the_counter)
{
	const struct perf_event_mmap_page *page = self->page;

	EXPECT_TRUE(!!page->cap_user_rdpmc);
#ifdef __aarch64__
	/* user_open() asks for no more. */
	EXPECT_EQ(32, page->pmc_width);
#else
	EXPECT_LT(32, page->pmc_width);
	EXPECT_GE(64, page->pmc_width);
#endif
	EXPECT_LT(0, page->index);
#ifdef __powerpc__
	EXPECT_GE(6, page->index);
	EXPECT_TRUE(!!page->cap_user_time);
	EXPECT_TRUE(!!page->cap_user_time_zero);
#endif
	if (page->cap_user_time) {
		EXPECT_LT(0, page->time_mult);
		EXPECT_LT(0, page->time_shift);
		EXPECT_GE(32, page->time_shift);
	}
}

TEST_F(count, page_and_read_agree)
{
	ASSERT_TRUE(brackets_run(&self->b, user_reads(), self->fd, self->page));
	EXPECT_EQ(0, self->b.fallback);
	EXPECT_BRACKETS(&self->b);
}

TEST_F(count, page_and_read_agree_beside_a_competing_task)
{
	pid_t hog = start_child(hog_cpu, (void *)0);

	ASSERT_LT(0, hog);
	ASSERT_EQ(0, pin(0));
	EXPECT_TRUE(brackets_run(&self->b, user_reads(), self->fd, self->page));
	stop_child(hog);
	EXPECT_LT(0, self->b.direct);
	EXPECT_BRACKETS(&self->b);
}

TEST_F(count, page_and_read_agree_across_sleep_and_yield)
{
	const struct timespec moment = { .tv_nsec = 100000 };
	unsigned long i;

	for (i = 0; i < user_reads() / 20; i++) {
		ASSERT_TRUE(bracket(&self->b, self->fd, self->page));
		if (i % 10 == 0)
			nanosleep(&moment, NULL);
		else
			sched_yield();
		ASSERT_TRUE(bracket(&self->b, self->fd, self->page));
	}
	EXPECT_EQ(0, self->b.fallback);
	EXPECT_BRACKETS(&self->b);
}

TEST_F_TIMEOUT(count, page_and_read_agree_across_migration, 110)
{
	unsigned long i;

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		SKIP(return, "one CPU, nowhere to go");
	for (i = 0; i < user_reads(); i++) {
		if (i % 50 == 0)
			ASSERT_EQ(0, pin(i / 50 & 1));
		ASSERT_TRUE(bracket(&self->b, self->fd, self->page));
	}
	EXPECT_EQ(0, self->b.fallback);
	EXPECT_BRACKETS(&self->b);
}

TEST_F(count, reset_begins_at_zero)
{
	struct page_value value;
	__u64 before;
	int i;

	/* Count far enough from zero, so that a leftover shows. */
	work(10000000);
	for (i = 0; i < 500; i++) {
		ASSERT_TRUE(bracket(&self->b, self->fd, self->page));
		before = self->b.last;
		ASSERT_EQ(0, ioctl(self->fd, PERF_EVENT_IOC_RESET, 0));
		value = page_read(self->page);
		self->b.last = 0;
		ASSERT_TRUE(bracket(&self->b, self->fd, self->page));
		/* The first value is below the work, all others are below the limit. */
		if (value.index && !i)
			EXPECT_LT(value.count, before);
		if (value.index)
			ASSERT_LE(0, (__s64)value.count);
	}
	EXPECT_EQ(0, self->b.fallback);
	EXPECT_BRACKETS(&self->b);
}

TEST_F(count, first_mapping_after_a_read_agrees)
{
	__u64 value[3];

	page_unmap(self->page, 0);
	ASSERT_EQ(sizeof(value), read(self->fd, value, sizeof(value)));
	self->page = page_map(self->fd, 0);
	ASSERT_NE(MAP_FAILED, self->page);
	ASSERT_TRUE(brackets_run(&self->b, 100, self->fd, self->page));
	EXPECT_EQ(0, self->b.fallback);
	EXPECT_BRACKETS(&self->b);
}

TEST_F(count, disabled_event_has_no_index)
{
	struct page_value value;
	__u64 read_value[3];
	int i;

	for (i = 0; i < 200; i++) {
		ASSERT_EQ(0, ioctl(self->fd, PERF_EVENT_IOC_DISABLE, 0));
		value = page_read(self->page);
		ASSERT_EQ(sizeof(read_value), read(self->fd, read_value, sizeof(read_value)));
		ASSERT_EQ(0, value.index);
		ASSERT_EQ(read_value[0], value.count);
		ASSERT_EQ(read_value[1], value.enabled);
		ASSERT_EQ(read_value[2], value.running);
		ASSERT_EQ(0, ioctl(self->fd, PERF_EVENT_IOC_ENABLE, 0));
		ASSERT_TRUE(bracket(&self->b, self->fd, self->page));
	}
	EXPECT_EQ(0, self->b.fallback);
	EXPECT_BRACKETS(&self->b);
}

TEST_F(count, new_period_adds_nothing)
{
	struct perf_event_attr attr = user_attr(PERF_TYPE_HARDWARE, variant->config);
	__u64 before[3], after[3], most = 0, period;
	struct timespec begin, end;
	int fd, i;

	attr.sample_period = 1000000000;
	fd = user_open(&attr, 0, -1, -1);
	ASSERT_LE(0, fd);
	for (i = 0; i < 100;) {
		period = 1000000000 + i;
		clock_gettime(CLOCK_MONOTONIC, &begin);
		ASSERT_EQ(sizeof(before), read(fd, before, sizeof(before)));
		ASSERT_EQ(0, ioctl(fd, PERF_EVENT_IOC_PERIOD, &period));
		work(100);
		ASSERT_EQ(sizeof(after), read(fd, after, sizeof(after)));
		clock_gettime(CLOCK_MONOTONIC, &end);
		/* On a busy host it may take as long as a period. */
		if (1000000000LL * (end.tv_sec - begin.tv_sec) + end.tv_nsec - begin.tv_nsec >
		    50000000)
			continue;
		i++;
		if (after[0] - before[0] > most)
			most = after[0] - before[0];
	}
	EXPECT_GT(500000000, most);
	close(fd);
}

TEST_F(count, fork_leaves_the_page_of_the_parent_right)
{
	unsigned long i;
	pid_t child;

	for (i = 0; i < 1000; i++) {
		if (i % 50 == 0) {
			child = fork();
			if (!child)
				_exit(0);
			ASSERT_LT(0, child);
			waitpid(child, NULL, 0);
		}
		ASSERT_TRUE(bracket(&self->b, self->fd, self->page));
	}
	EXPECT_EQ(0, self->b.fallback);
	EXPECT_BRACKETS(&self->b);
}

struct other_thread {
	int		fd;
	volatile bool	stop;
	unsigned long	done;
};

static void *reset_elsewhere(void *arg)
{
	struct other_thread *other = arg;

	pin(1);
	while (!other->stop) {
		ioctl(other->fd, PERF_EVENT_IOC_RESET, 0);
		other->done++;
	}
	return NULL;
}

/* Two concurrent writers of a page could leave the index of one with the offset of the other. */
TEST_F_TIMEOUT(count, reset_on_another_cpu_leaves_a_whole_page, 110)
{
	struct other_thread other = { .fd = self->fd };
	unsigned long round, i;
	pthread_t thread;

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		SKIP(return, "one CPU, nothing at the same time");
	ASSERT_EQ(0, pin(0));
	for (round = 0; round < user_reads() / 100; round++) {
		other.stop = false;
		ASSERT_EQ(0, pthread_create(&thread, NULL, reset_elsewhere, &other));
		/* Each call accepts the other CPU's interrupts and writes the page here. */
		for (i = 0; i < 5 || other.done <= round; i++) {
			ioctl(self->fd, PERF_EVENT_IOC_DISABLE, 0);
			ioctl(self->fd, PERF_EVENT_IOC_ENABLE, 0);
		}
		other.stop = true;
		pthread_join(thread, NULL);
		self->b.last = 0;
		ASSERT_TRUE(bracket(&self->b, self->fd, self->page));
		if (self->b.low || self->b.high)
			break;
	}
	EXPECT_EQ(0, self->b.fallback);
	EXPECT_BRACKETS(&self->b);
}

struct own_event {
	const char	*error;
	__u64		config;
	int		cpu;
	struct brackets	b;
};

static void *read_own_event(void *arg)
{
	struct own_event *own = arg;
	struct perf_event_attr attr = user_attr(PERF_TYPE_HARDWARE, own->config);
	void *page;
	int fd;

	pin(own->cpu);
	fd = user_open(&attr, 0, -1, -1);
	page = page_map(fd, 0);
	if (page == MAP_FAILED)
		own->error = "no event or no page";
	else if (!brackets_run(&own->b, user_reads() / 2, fd, page))
		own->error = "read failed";
	close(fd);
	return NULL;
}

TEST_F(count, threads_read_their_own_events)
{
	struct own_event own[3] = {};
	pthread_t thread[3];
	int i;

	for (i = 0; i < 3; i++) {
		/* Two threads share a CPU. */
		own[i].cpu = i & 1;
		own[i].config = variant->config;
		ASSERT_EQ(0, pthread_create(&thread[i], NULL, read_own_event, &own[i]));
	}
	for (i = 0; i < 3; i++) {
		pthread_join(thread[i], NULL);
		EXPECT_EQ(NULL, own[i].error);
		EXPECT_LT(0, own[i].b.direct);
		EXPECT_BRACKETS(&own[i].b);
	}
}

#define NR_TURNS	12

TEST(page_and_read_agree_while_events_take_turns)
{
	struct perf_event_mmap_page *page[NR_TURNS];
	struct brackets b[NR_TURNS] = {}, sum = {};
	unsigned long i, rounds = 0;
	struct perf_event_attr attr;
	int fd[NR_TURNS], waited = 0;
	__u64 value[3];

	if (user_page_setup(_metadata))
		return;
	for (i = 0; i < NR_TURNS; i++) {
		attr = i & 1 ? cycles_attr() : instructions_attr();
		fd[i] = user_open(&attr, 0, -1, -1);
		ASSERT_LE(0, fd[i]);
		page[i] = page_map(fd[i], 0);
		ASSERT_NE(MAP_FAILED, page[i]);
	}
	do {
		for (i = 0; i < NR_TURNS; i++)
			ASSERT_TRUE(bracket(&b[i], fd[i], page[i]));
		rounds++;
	} while (rounds * NR_TURNS < user_reads());
	for (i = 0; i < NR_TURNS; i++) {
		sum.nr += b[i].nr;
		sum.direct += b[i].direct;
		sum.fallback += b[i].fallback;
		sum.low += b[i].low;
		sum.high += b[i].high;
		sum.back += b[i].back;
		sum.enabled += b[i].enabled;
		sum.running += b[i].running;
		if (b[i].worst > sum.worst)
			sum.worst = b[i].worst;
		ASSERT_EQ(sizeof(value), read(fd[i], value, sizeof(value)));
		waited += value[2] < value[1];
	}
	EXPECT_LT(0, sum.direct);
	EXPECT_LT(0, sum.fallback);
	EXPECT_LT(0, waited);
	EXPECT_BRACKETS(&sum);
	for (i = 0; i < NR_TURNS; i++)
		close(fd[i]);
}

FIXTURE(sampling)
{
	struct sample_limits		limits;
	int				fd;
	struct perf_event_mmap_page	*page;
	struct brackets			b;
};

FIXTURE_VARIANT(sampling)
{
	__u64 period;
};

FIXTURE_VARIANT_ADD(sampling, period_3000) { .period = 3000 };
FIXTURE_VARIANT_ADD(sampling, period_10000) { .period = 10000 };
FIXTURE_VARIANT_ADD(sampling, period_30000) { .period = 30000 };
FIXTURE_VARIANT_ADD(sampling, period_100000) { .period = 100000 };
FIXTURE_VARIANT_ADD(sampling, period_3000000000) { .period = 3000000000 };

FIXTURE_SETUP(sampling)
{
	struct perf_event_attr attr = cycles_attr();
	const char *reason = getenv("PERF_TEST_NO_PMU_INTERRUPTS");

	if (user_page_setup(_metadata))
		return;
	if (reason)
		SKIP(return, "%s", reason);
	if (geteuid())
		SKIP(return, "needs root to set the limit of samples");
	/* A throttled event has no readable counter. */
	ASSERT_EQ(0, sample_limits_set(&self->limits, "100000000", "0"));
	attr.sample_period = variant->period;
	attr.sample_type = PERF_SAMPLE_IP;
	self->fd = user_open(&attr, 0, -1, -1);
	ASSERT_LE(0, self->fd);
	self->page = page_map(self->fd, 1);
	ASSERT_NE(MAP_FAILED, self->page);
}

FIXTURE_TEARDOWN(sampling)
{
	EXPECT_EQ(0, sample_limits_restore(&self->limits));
}

#ifdef __powerpc__
/*
 * QEMU stops a counter of PowerPC in another thread than that of the processor, so a
 * value just read may be too high. This is rare and shows only once, whereas a wrong
 * page stays wrong.
 */
static bool bracket_beside_a_stop(struct brackets *b, int fd,
				  const volatile struct perf_event_mmap_page *page)
{
	unsigned long high = b->high, forgiven = b->nr / 1000 + 3;

	if (!bracket(b, fd, page))
		return false;
	if (b->high == high || b->taken_back >= forgiven)
		return true;
	if (!bracket(b, fd, page))
		return false;
	if (b->high == high + 1) {
		b->taken_back++;
		b->high = high;
	}
	return true;
}
#else
#define bracket_beside_a_stop	bracket
#endif

TEST_F(sampling, page_and_read_agree)
{
	unsigned long i;

	for (i = 0; i < user_reads(); i++) {
		ASSERT_TRUE(bracket_beside_a_stop(&self->b, self->fd, self->page));
		work(i % 37);
	}
	EXPECT_LT(0, self->b.direct);
	/* The test needs samples. */
	if (variant->period <= 100000)
		EXPECT_LT(0, self->page->data_head);
	EXPECT_BRACKETS(&self->b);
}

TEST_F(sampling, event_that_stopped_itself_has_no_index)
{
	struct page_value value;
	__u64 read_value[3], enabled;
	unsigned long i;

	if (variant->period > 100000)
		SKIP(return, "would take too long to stop");
	ASSERT_EQ(0, ioctl(self->fd, PERF_EVENT_IOC_DISABLE, 0));
	ASSERT_EQ(0, ioctl(self->fd, PERF_EVENT_IOC_REFRESH, 1));
	for (i = 0; i < 100000 && page_read(self->page).index; i++)
		work(10000);
	/* The interrupt has stopped the counter, and irq_work will disable the event. */
	for (i = 0, enabled = 0; i < 100000; i++) {
		ASSERT_EQ(sizeof(read_value), read(self->fd, read_value, sizeof(read_value)));
		if (read_value[1] == enabled)
			break;
		enabled = read_value[1];
	}
	value = page_read(self->page);
	EXPECT_EQ(0, value.index);
	EXPECT_EQ(read_value[0], value.count);
	EXPECT_EQ(read_value[1], value.enabled);
}

FIXTURE(throttled)
{
	struct sample_limits limits;
	struct perf_event_mmap_page *page;
	int fd;
};

FIXTURE_SETUP(throttled)
{
	struct perf_event_attr attr = cycles_attr();
	const char *reason = getenv("PERF_TEST_NO_PMU_INTERRUPTS");

	if (user_page_setup(_metadata))
		return;
	if (reason)
		SKIP(return, "%s", reason);
	if (geteuid())
		SKIP(return, "needs root to set the limit of samples");
	/* Many periods pass in a timer tick, and one sample is allowed. */
	ASSERT_EQ(0, sample_limits_set(&self->limits, "1", "25"));
	attr.sample_period = 100000;
	attr.sample_type = PERF_SAMPLE_IP;
	self->fd = user_open(&attr, 0, -1, -1);
	ASSERT_LE(0, self->fd);
	self->page = page_map(self->fd, 1);
	ASSERT_NE(MAP_FAILED, self->page);
}

FIXTURE_TEARDOWN(throttled)
{
	EXPECT_EQ(0, sample_limits_restore(&self->limits));
}

static bool records_tell_of_throttling(const struct perf_event_mmap_page *page)
{
	const char *ring = (const char *)page + page->data_offset;
	const struct perf_event_header *header;
	__u64 at;

	/* The first round alone, without any read. */
	for (at = 0; at < page->data_head; at += header->size) {
		header = (const void *)(ring + at);
		if (header->type == PERF_RECORD_THROTTLE)
			return true;
	}
	return false;
}

/*
 * The counter is stopped until the next tick. On some machines it stays readable, on
 * others the page must not name it.
 */
TEST_F(throttled, event_shows_its_last_count)
{
	const volatile struct perf_event_mmap_page *page = self->page;
	struct page_value before, after;
	unsigned long i, stopped = 0;
	struct brackets b = {};
	__u64 value[3];
	__u32 seq;

	for (i = 0; i < 10 * user_reads() && (stopped < 1000 || b.direct < 20); i++) {
		ASSERT_TRUE(bracket_beside_a_stop(&b, self->fd, page));
		seq = page->lock;
		before = page_read(page);
		ASSERT_EQ(sizeof(value), read(self->fd, value, sizeof(value)));
		work(i % 37);
		after = page_read(page);
		/* The event was updated meanwhile. */
		if (page->lock != seq)
			continue;
		if (before.count != after.count) {
			ASSERT_LT(0, after.index);
			continue;
		}
		stopped++;
		ASSERT_EQ(value[0], after.count);
#ifdef __powerpc__
		ASSERT_EQ(0, after.index);
#endif
	}
	TH_LOG("stood still at %lu of %lu reads", stopped, i);
	EXPECT_TRUE(records_tell_of_throttling(self->page));
	EXPECT_LE(1000, stopped);
	EXPECT_LE(20, b.direct);
	EXPECT_BRACKETS(&b);
}

TEST_HARNESS_MAIN
