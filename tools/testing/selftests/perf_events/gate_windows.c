// SPDX-License-Identifier: GPL-2.0
/*
 * perf gate selftests - histograms and records of windows, against known work
 */
#define _GNU_SOURCE

#include <linux/hw_breakpoint.h>
#include <pthread.h>

#include "../kselftest_harness.h"
#include "gate_family.h"
#include "gate_windows.h"

#define NR_PAGES	64
#define NR_CHILDREN	4
#define NR_THREADS	8
#define NR_WINDOWS	100

FIXTURE(windows)
{
	struct gate_triggers triggers;
	struct gate_pages pages;
	int target;
};

FIXTURE_SETUP(windows)
{
	self->target = -1;
	if (triggers_open(_metadata, &self->triggers))
		return;
	ASSERT_EQ(0, pages_map(&self->pages, NR_PAGES));
	self->target = gate_open_counter(_metadata, &self->triggers, PERF_TYPE_SOFTWARE,
					 PERF_COUNT_SW_PAGE_FAULTS);
	/* Clear the counts from before the first trigger was attached. */
	gate_ioctl(self->target, PERF_EVENT_IOC_RESET, 0);
}

FIXTURE_TEARDOWN(windows)
{
	close(self->target);
	munmap(self->pages.mem, self->pages.size);
	triggers_close(&self->triggers);
}

static void one_window(const struct gate_pages *pages, unsigned int inside)
{
	window_open();
	pages_touch(pages, inside);
	window_close();
	pages_touch(pages, 5);
}

TEST_F(windows, each_window_is_in_its_bucket)
{
	__u64 notes[NR_BUCKETS] = {}, sum = 0;
	struct histogram histogram;
	struct gate_value value;
	unsigned int i, nr;

	ASSERT_EQ(0, set_histogram(self->target, PERF_WINDOWS_COUNT));
	/* Ten of a thousand windows are slow, which a mean would hide. */
	for (i = 0; i < 1000; i++) {
		nr = i % 100 == 50 ? NR_PAGES : i % 3;
		one_window(&self->pages, nr);
		notes[perf_event_histogram_bucket(nr)]++;
		sum += nr;
	}
	value = gate_read(self->target);
	histogram = read_histogram(_metadata, self->target);
	for (i = 0; i < NR_BUCKETS; i++)
		EXPECT_EQ(notes[i], histogram.bucket[i]) {
			TH_LOG("bucket %u", i);
		}
	EXPECT_EQ(1000, histogram.windows);
	EXPECT_EQ(value.gate_count, histogram.windows);
	EXPECT_EQ(0, histogram.missed);
	EXPECT_EQ(sum, histogram.sum);
	EXPECT_EQ(value.value, histogram.sum);
	EXPECT_EQ(0, histogram.min);
	EXPECT_EQ(NR_PAGES, histogram.max);
	EXPECT_EQ(perf_event_histogram_bucket(1), percentile(&histogram, 50));
	EXPECT_EQ(perf_event_histogram_bucket(2), percentile(&histogram, 98));
	EXPECT_EQ(perf_event_histogram_bucket(NR_PAGES), percentile(&histogram, 100));
}

TEST_F(windows, empty_histogram_is_zero)
{
	struct histogram histogram;

	ASSERT_EQ(0, set_histogram(self->target, PERF_WINDOWS_COUNT));
	histogram = read_histogram(_metadata, self->target);
	EXPECT_EQ(0, histogram.windows);
	EXPECT_EQ(0, histogram.sum);
	EXPECT_EQ(0, histogram.min);
	EXPECT_EQ(0, histogram.max);
	EXPECT_EQ(0, histogram.missed);
}

TEST_F(windows, window_that_is_open_is_missed_until_it_closes)
{
	struct histogram histogram;

	/* A window that began before the request is neither recorded nor missed. */
	window_open();
	ASSERT_EQ(0, set_histogram(self->target, PERF_WINDOWS_COUNT));
	EXPECT_EQ(0, read_histogram(_metadata, self->target).missed);
	window_close();
	histogram = read_histogram(_metadata, self->target);
	EXPECT_EQ(0, histogram.windows);
	EXPECT_EQ(0, histogram.missed);

	window_open();
	pages_touch(&self->pages, 3);
	histogram = read_histogram(_metadata, self->target);
	EXPECT_EQ(0, histogram.windows);
	EXPECT_EQ(1, histogram.missed);
	window_close();
	histogram = read_histogram(_metadata, self->target);
	EXPECT_EQ(1, histogram.windows);
	EXPECT_EQ(0, histogram.missed);
	EXPECT_EQ(3, histogram.sum);
}

TEST_F(windows, event_that_was_off_has_missed_its_window)
{
	struct histogram histogram;

	ASSERT_EQ(0, set_histogram(self->target, PERF_WINDOWS_COUNT));
	/* Disable the event within a window, across its beginning, and across its end. */
	window_open();
	gate_ioctl(self->target, PERF_EVENT_IOC_DISABLE, 0);
	spin_ns(NSEC_PER_MSEC);
	gate_ioctl(self->target, PERF_EVENT_IOC_ENABLE, 0);
	window_close();

	gate_ioctl(self->target, PERF_EVENT_IOC_DISABLE, 0);
	window_open();
	gate_ioctl(self->target, PERF_EVENT_IOC_ENABLE, 0);
	window_close();

	window_open();
	gate_ioctl(self->target, PERF_EVENT_IOC_DISABLE, 0);
	window_close();
	gate_ioctl(self->target, PERF_EVENT_IOC_ENABLE, 0);

	one_window(&self->pages, 7);
	histogram = read_histogram(_metadata, self->target);
	EXPECT_EQ(3, histogram.missed);
	EXPECT_EQ(1, histogram.windows);
	EXPECT_EQ(7, histogram.sum);
	EXPECT_EQ(4, gate_read(self->target).gate_count);
}

/* There are more events than counters, so each event runs for some of the time. */
TEST_F(windows, multiplexed_event_tells_the_windows_that_it_missed)
{
	struct perf_event_attr attr = gate_attr(0, 0);
	struct histogram histogram;
	int fds[8], target, i;

	if (pmu_type("pmusim") < 0)
		SKIP(return, "needs the simulated PMUs");
	attr.type = pmu_type("pmusim");
	for (i = 0; i < 8; i++)
		fds[i] = gate_open(&attr, 0, -1);
	target = gate_open_target(_metadata, &self->triggers, &attr);
	ASSERT_EQ(0, set_histogram(target, PERF_WINDOWS_RUNNING));
	/* Use long windows, in each of which the event has to wait, and then short ones. */
	for (i = 0; i < 5; i++) {
		window_open();
		spin_ns(100 * NSEC_PER_MSEC);
		window_close();
	}
	EXPECT_EQ(5, read_histogram(_metadata, target).missed);
	for (i = 0; i < 200; i++) {
		window_open();
		window_close();
		spin_ns(NSEC_PER_MSEC / 2);
	}
	histogram = read_histogram(_metadata, target);
	EXPECT_EQ(205, histogram.windows + histogram.missed);
	EXPECT_LT(0, histogram.windows);
	EXPECT_LT(5, histogram.missed);
	/* None of the long windows was measured. */
	EXPECT_GT(100 * NSEC_PER_MSEC, histogram.max);
	close(target);
	for (i = 0; i < 8; i++)
		close(fds[i]);
}

TEST_F(windows, times_on_the_cpu_and_by_the_clock_differ)
{
	struct histogram wall, running;
	__u64 before;
	int i, second;

	second = gate_open_counter(_metadata, &self->triggers, PERF_TYPE_SOFTWARE,
				   PERF_COUNT_SW_DUMMY);
	/* The second event was open until its gate got a starter. */
	before = gate_read(second).gate_time;
	ASSERT_EQ(0, set_histogram(self->target, PERF_WINDOWS_WALL));
	ASSERT_EQ(0, set_histogram(second, PERF_WINDOWS_RUNNING));
	for (i = 0; i < 5; i++) {
		window_open();
		usleep(20000);
		window_close();
	}
	wall = read_histogram(_metadata, self->target);
	running = read_histogram(_metadata, second);
	EXPECT_EQ(5, wall.windows);
	EXPECT_EQ(5, running.windows);
	EXPECT_LE(20 * NSEC_PER_MSEC, wall.min);
	EXPECT_GT(wall.min, running.max);
	EXPECT_LT(0, running.min);
	EXPECT_EQ(gate_read(second).gate_time - before, running.sum);
	close(second);
}

TEST_F(windows, setting_again_begins_anew_and_reset_does_not)
{
	ASSERT_EQ(0, set_histogram(self->target, PERF_WINDOWS_COUNT));
	one_window(&self->pages, 1);
	gate_ioctl(self->target, PERF_EVENT_IOC_RESET, 0);
	one_window(&self->pages, 2);
	EXPECT_EQ(2, read_histogram(_metadata, self->target).windows);
	EXPECT_EQ(3, read_histogram(_metadata, self->target).sum);
	ASSERT_EQ(0, set_histogram(self->target, PERF_WINDOWS_COUNT));
	EXPECT_EQ(0, read_histogram(_metadata, self->target).windows);
	EXPECT_EQ(0, read_histogram(_metadata, self->target).missed);
	one_window(&self->pages, 4);
	EXPECT_EQ(1, read_histogram(_metadata, self->target).windows);
	EXPECT_EQ(4, read_histogram(_metadata, self->target).sum);
}

/* Only the windows of the outermost calls count. */
TEST_F(windows, nested_windows_are_one)
{
	struct perf_event_attr attr = gate_attr(PERF_TYPE_SOFTWARE,
						PERF_COUNT_SW_PAGE_FAULTS);
	struct histogram histogram;
	int target;

	gate_attr_set_bit(&attr, GATE_BIT_NEST);
	target = gate_open_target(_metadata, &self->triggers, &attr);
	ASSERT_EQ(0, set_histogram(target, PERF_WINDOWS_COUNT));
	window_open();
	pages_touch(&self->pages, 1);
	window_open();
	pages_touch(&self->pages, 1);
	window_close();
	pages_touch(&self->pages, 1);
	window_close();
	histogram = read_histogram(_metadata, target);
	EXPECT_EQ(1, histogram.windows);
	EXPECT_EQ(3, histogram.sum);
	close(target);
}

/* One event both opens and closes the gate. */
TEST_F(windows, toggled_gate_has_a_window_each_other_time)
{
	struct perf_event_attr attr = gate_attr(PERF_TYPE_SOFTWARE,
						PERF_COUNT_SW_PAGE_FAULTS);
	int toggle = open_tracepoint("syscalls/sys_enter_getpgid");
	struct histogram histogram;
	int target, i;

	if (toggle < 0)
		SKIP(return, "no tracepoint syscalls/sys_enter_getpgid");
	target = gate_open(&attr, 0, -1);
	ASSERT_LE(0, target);
	ASSERT_EQ(0, set_starter(toggle, target));
	ASSERT_EQ(0, set_stopper(toggle, target));
	ASSERT_EQ(0, set_histogram(target, PERF_WINDOWS_COUNT));
	for (i = 0; i < 10; i++) {
		syscall(__NR_getpgid, 0);
		pages_touch(&self->pages, 3);
		syscall(__NR_getpgid, 0);
		pages_touch(&self->pages, 5);
	}
	histogram = read_histogram(_metadata, target);
	EXPECT_EQ(10, histogram.windows);
	EXPECT_EQ(10, histogram.bucket[3]);
	EXPECT_EQ(0, histogram.missed);
	close(target);
	close(toggle);
}

/*
 * A leader that samples too often is stopped until a tick, and its group with it, so the
 * window lacks the counts of that time.
 */
TEST_F(windows, throttled_event_has_missed_its_window)
{
	struct perf_event_attr attr = gate_attr(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK);
	struct histogram histogram;
	int leader, target, i;

	limit_sample_time();
	ASSERT_TRUE(write_text(SAMPLE_RATE, "1000"));
	attr.sample_period = NSEC_PER_MSEC / 10;
	leader = gate_open(&attr, 0, -1);
	ASSERT_LE(0, leader);
	attr.config = PERF_COUNT_SW_PAGE_FAULTS;
	attr.sample_period = 0;
	target = gate_open_group(&attr, 0, -1, leader);
	ASSERT_LE(0, target);
	ASSERT_EQ(0, set_both(&self->triggers, target));
	ASSERT_EQ(0, set_histogram(target, PERF_WINDOWS_COUNT));
	for (i = 0; i < 5; i++) {
		window_open();
		spin_ns(50 * NSEC_PER_MSEC);
		pages_touch(&self->pages, NR_PAGES);
		window_close();
	}
	histogram = read_histogram(_metadata, target);
	EXPECT_EQ(0, histogram.windows);
	EXPECT_EQ(5, histogram.missed);
	/* It is throttled no more after a tick. */
	keep_sample_rate();
	spin_ns(50 * NSEC_PER_MSEC);
	window_open();
	pages_touch(&self->pages, 3);
	window_close();
	histogram = read_histogram(_metadata, target);
	EXPECT_EQ(1, histogram.windows);
	EXPECT_EQ(5, histogram.missed);
	EXPECT_EQ(3, histogram.sum);
	close(target);
	close(leader);
}

/*
 * A breakpoint closes a first gate. The tracepoint of this move opens a second gate. Then the
 * breakpoint closes the second gate, too, with the time at which it fired, which is earlier.
 */
TEST_F(windows, window_that_ends_before_it_began_is_empty)
{
	struct perf_event_attr attr = gate_attr(PERF_TYPE_BREAKPOINT, 0);
	int breakpoint, watcher, second, i;
	struct histogram histogram;
	struct gate_record record;
	struct gate_ring ring;
	static __u64 watched;
	char filter[64];
	__u64 id;

	attr.bp_type = HW_BREAKPOINT_RW;
	attr.bp_addr = (unsigned long)&watched;
	attr.bp_len = HW_BREAKPOINT_LEN_8;
	attr.exclude_kernel = 1;
	attr.exclude_hv = 1;
	breakpoint = gate_open(&attr, 0, -1);
	if (breakpoint < 0)
		SKIP(return, "no data breakpoint: %s", strerror(errno));
	watcher = open_tracepoint("perf_gate/close");
	ASSERT_LE(0, watcher);
	ASSERT_EQ(0, ioctl(self->target, PERF_EVENT_IOC_ID, &id));
	snprintf(filter, sizeof(filter), "gate == %llu", id);
	ASSERT_EQ(0, ioctl(watcher, PERF_EVENT_IOC_SET_FILTER, filter));
	second = gate_open_self(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_DUMMY);
	ASSERT_LE(0, second);
	ASSERT_EQ(0, ring_map(&ring, second, 16));
	/* The last link is walked first. */
	ASSERT_EQ(0, set_starter(watcher, second));
	ASSERT_EQ(0, set_stopper(breakpoint, second));
	ASSERT_EQ(0, set_stopper(breakpoint, self->target));
	ASSERT_EQ(0, set_windows(second, 3, PERF_WINDOWS_RUNNING, 0));
	for (i = 0; i < 20; i++) {
		window_open();
		__atomic_store_n(&watched, i, __ATOMIC_RELAXED);
	}
	histogram = read_histogram(_metadata, second);
	EXPECT_EQ(20, histogram.windows);
	EXPECT_GT(NSEC_PER_SEC, histogram.max);
	for (i = 0; i < 20; i++) {
		ASSERT_TRUE(ring_next(&ring, &record, sizeof(record)));
		EXPECT_GT(NSEC_PER_SEC, record.running);
		EXPECT_GT(NSEC_PER_SEC, record.wall);
	}
	close(second);
	close(watcher);
	close(breakpoint);
}

static void child_windows(unsigned int nr)
{
	run_windows(NR_WINDOWS, nr, 2);
	_exit(0);
}

TEST_F(windows, children_add_to_the_histogram)
{
	struct perf_event_attr attr;
	struct histogram histogram;
	struct puppet puppet;
	struct gate_value value;
	pid_t pids[NR_CHILDREN];
	int target, i;

	triggers_inherit(_metadata, &self->triggers);
	puppet_fork(_metadata, &puppet);
	attr = inherited_attr(PERF_TYPE_TRACEPOINT,
			      tracepoint_id("syscalls/sys_enter_getppid"));
	target = gate_open_target(_metadata, &self->triggers, &attr);
	ASSERT_EQ(0, set_histogram(target, PERF_WINDOWS_COUNT));
	for (i = 0; i < NR_CHILDREN; i++) {
		pids[i] = fork();
		ASSERT_LE(0, pids[i]);
		if (!pids[i])
			child_windows(i + 1);
	}
	for (i = 0; i < NR_CHILDREN; i++)
		wait_for_success(_metadata, pids[i]);
	puppet_end(_metadata, &puppet);
	/* This child exits within a window, which therefore never ends. */
	pids[0] = fork();
	if (!pids[0]) {
		window_open();
		call_getppid(3);
		_exit(0);
	}
	wait_for_success(_metadata, pids[0]);

	value = gate_read(target);
	histogram = read_histogram(_metadata, target);
	EXPECT_EQ(NR_CHILDREN * NR_WINDOWS, histogram.windows);
	EXPECT_EQ(1, histogram.missed);
	EXPECT_EQ(value.gate_count, histogram.windows + histogram.missed);
	EXPECT_EQ(value.value - 3, histogram.sum);
	for (i = 0; i < NR_CHILDREN; i++)
		EXPECT_EQ(NR_WINDOWS, histogram.bucket[i + 1]);
	close(target);
}

/* The child exists before the histogram is requested. */
TEST_F(windows, recording_extends_to_the_tasks_that_exist)
{
	struct perf_event_attr attr;
	struct histogram histogram;
	struct puppet puppet;
	int target;

	triggers_inherit(_metadata, &self->triggers);
	attr = inherited_attr(PERF_TYPE_TRACEPOINT,
			      tracepoint_id("syscalls/sys_enter_getppid"));
	target = gate_open_target(_metadata, &self->triggers, &attr);
	puppet_fork(_metadata, &puppet);
	EXPECT_TRUE(tell(&puppet, "ogc"));
	ASSERT_EQ(0, set_histogram(target, PERF_WINDOWS_COUNT));
	EXPECT_TRUE(tell(&puppet, "ogggc"));
	histogram = read_histogram(_metadata, target);
	EXPECT_EQ(1, histogram.windows);
	EXPECT_EQ(0, histogram.missed);
	EXPECT_EQ(3, histogram.sum);
	/* A new request drops the open window of the child as well. */
	EXPECT_TRUE(tell(&puppet, "og"));
	ASSERT_EQ(0, set_histogram(target, PERF_WINDOWS_COUNT));
	EXPECT_TRUE(tell(&puppet, "c"));
	EXPECT_EQ(0, read_histogram(_metadata, target).windows);
	EXPECT_TRUE(tell(&puppet, "oggc"));
	EXPECT_EQ(2, read_histogram(_metadata, target).sum);
	ASSERT_EQ(0, set_windows(target, 0, 0, 0));
	EXPECT_TRUE(tell(&puppet, "ogc"));
	puppet_end(_metadata, &puppet);
	close(target);
}

/* A child is forked after the event has left its gate, and before the event gets a gate again. */
TEST_F(windows, child_of_the_time_without_a_gate_records)
{
	struct perf_event_attr attr;
	struct histogram histogram;
	struct puppet puppet;
	__u64 missed;
	int target;

	triggers_inherit(_metadata, &self->triggers);
	attr = inherited_attr(PERF_TYPE_TRACEPOINT,
			      tracepoint_id("syscalls/sys_enter_getppid"));
	target = gate_open_target(_metadata, &self->triggers, &attr);
	ASSERT_EQ(0, set_histogram(target, PERF_WINDOWS_COUNT));
	ASSERT_EQ(0, clear_gate(target));
	puppet_fork(_metadata, &puppet);
	EXPECT_TRUE(tell(&puppet, "ogc"));
	ASSERT_EQ(0, set_both(&self->triggers, target));
	missed = read_histogram(_metadata, target).missed;
	EXPECT_TRUE(tell(&puppet, "ogggcoggc"));
	histogram = read_histogram(_metadata, target);
	EXPECT_EQ(2, histogram.windows);
	EXPECT_EQ(5, histogram.sum);
	EXPECT_EQ(missed, histogram.missed);
	/* A window of the child does no harm after the recording has stopped. */
	ASSERT_EQ(0, set_windows(target, 0, 0, 0));
	EXPECT_TRUE(tell(&puppet, "ogc"));
	puppet_end(_metadata, &puppet);
	close(target);
}

static int filter_own(int fd)
{
	char filter[64];

	snprintf(filter, sizeof(filter), "common_pid == %d", getpid());
	return ioctl(fd, PERF_EVENT_IOC_SET_FILTER, filter);
}

static int open_of_cpu(const char *tracepoint, int cpu)
{
	struct perf_event_attr attr = gate_attr(PERF_TYPE_TRACEPOINT,
						tracepoint_id(tracepoint));
	int fd = gate_open(&attr, -1, cpu);

	return fd < 0 || filter_own(fd) ? -1 : fd;
}

/* The events are not of a task, and what they record is set up from another CPU. */
TEST_F(windows, events_of_a_cpu_record_their_windows)
{
	int cpu = nth_cpu(0), other = nth_cpu(1), target;
	struct gate_triggers triggers;
	struct histogram histogram;
	struct gate_record record;
	struct gate_ring ring;

	triggers.starter = open_of_cpu("syscalls/sys_enter_getuid", cpu);
	triggers.stopper = open_of_cpu("syscalls/sys_enter_geteuid", cpu);
	target = open_of_cpu("syscalls/sys_enter_getppid", cpu);
	ASSERT_LE(0, triggers.starter);
	ASSERT_LE(0, triggers.stopper);
	ASSERT_LE(0, target);
	ASSERT_EQ(0, ring_map(&ring, target, 16));
	ASSERT_EQ(0, pin_to_cpu(other < 0 ? cpu : other));
	ASSERT_EQ(0, set_both(&triggers, target));
	ASSERT_EQ(0, set_windows(target, 3, PERF_WINDOWS_COUNT, 3));
	ASSERT_EQ(0, pin_to_cpu(cpu));
	run_windows(NR_WINDOWS, 2, 3);
	run_windows(1, 3, 1);
	histogram = read_histogram(_metadata, target);
	EXPECT_EQ(NR_WINDOWS + 1, histogram.windows);
	EXPECT_EQ(NR_WINDOWS, histogram.bucket[2]);
	EXPECT_EQ(0, histogram.missed);
	ASSERT_TRUE(ring_next(&ring, &record, sizeof(record)));
	EXPECT_EQ(getpid(), record.pid);
	EXPECT_EQ(3, record.value);
	EXPECT_FALSE(ring_next(&ring, &record, sizeof(record)));
	close(target);
	triggers_close(&triggers);
}

/* The buffer of one event has the records of two, of their task and of its child. */
TEST_F(windows, records_of_children_and_of_other_events_are_told_apart)
{
	int cpus[] = { nth_cpu(0) }, fds[2], i, nr = 0;
	struct puppet puppet = { .cpus = cpus };
	struct perf_event_attr attr;
	struct gate_record record;
	struct gate_ring ring;
	__u64 ids[2];

	triggers_inherit(_metadata, &self->triggers);
	attr = inherited_attr(PERF_TYPE_TRACEPOINT,
			      tracepoint_id("syscalls/sys_enter_getppid"));
	for (i = 0; i < 2; i++) {
		fds[i] = gate_open(&attr, 0, cpus[0]);
		ASSERT_LE(0, fds[i]);
		ASSERT_EQ(0, i ? join_gate(fds[1], fds[0]) :
				 set_both(&self->triggers, fds[0]));
		ASSERT_EQ(0, ioctl(fds[i], PERF_EVENT_IOC_ID, &ids[i]));
		attr.config = tracepoint_id("syscalls/sys_enter_getpgid");
	}
	ASSERT_EQ(0, ring_map(&ring, fds[0], 16));
	ASSERT_EQ(0, ioctl(fds[1], PERF_EVENT_IOC_SET_OUTPUT, fds[0]));
	for (i = 0; i < 2; i++)
		ASSERT_EQ(0, set_windows(fds[i], PERF_WINDOWS_RECORD, PERF_WINDOWS_COUNT, 0));
	puppet_fork(_metadata, &puppet);
	EXPECT_TRUE(tell(&puppet, "0oggc"));
	while (ring_next(&ring, &record, sizeof(record))) {
		ASSERT_EQ(PERF_RECORD_GATE, record.header.type);
		EXPECT_EQ(puppet.pid, record.pid);
		EXPECT_EQ(puppet.pid, record.tid);
		EXPECT_EQ(record.id == ids[0] ? 2 : 0, record.value);
		EXPECT_TRUE(record.id == ids[0] || record.id == ids[1]);
		nr++;
	}
	EXPECT_EQ(2, nr);
	pin_to_cpu(cpus[0]);
	run_windows(1, 1, 0);
	for (i = 0; i < 2; i++) {
		ASSERT_TRUE(ring_next(&ring, &record, sizeof(record)));
		EXPECT_EQ(getpid(), record.pid);
		EXPECT_EQ(record.id == ids[0], record.value);
	}
	EXPECT_FALSE(ring_next(&ring, &record, sizeof(record)));
	puppet_end(_metadata, &puppet);
	for (i = 0; i < 2; i++)
		close(fds[i]);
}

static void *thread_windows(void *arg)
{
	run_windows(NR_WINDOWS, (long)arg, 1);
	return NULL;
}

TEST_F(windows, threads_count_nothing_twice)
{
	struct perf_event_attr attr;
	struct histogram histogram;
	pthread_t threads[NR_THREADS];
	long i;
	int target;

	triggers_inherit(_metadata, &self->triggers);
	attr = inherited_attr(PERF_TYPE_TRACEPOINT,
			      tracepoint_id("syscalls/sys_enter_getppid"));
	target = gate_open_target(_metadata, &self->triggers, &attr);
	ASSERT_EQ(0, set_histogram(target, PERF_WINDOWS_COUNT));
	for (i = 0; i < NR_THREADS; i++)
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, thread_windows, (void *)i));
	/* A reader meanwhile sees no more windows than there were, measured or missed. */
	for (i = 0; i < 20; i++) {
		ASSERT_EQ(0, get_windows(target, &histogram));
		EXPECT_GE(NR_THREADS * NR_WINDOWS, histogram.windows + histogram.missed);
	}
	for (i = 0; i < NR_THREADS; i++)
		pthread_join(threads[i], NULL);
	histogram = read_histogram(_metadata, target);
	EXPECT_EQ(NR_THREADS * NR_WINDOWS, histogram.windows);
	EXPECT_EQ(0, histogram.missed);
	EXPECT_EQ(gate_read(target).value, histogram.sum);
	for (i = 0; i < 4; i++)
		EXPECT_EQ(NR_WINDOWS, histogram.bucket[i]);
	close(target);
}

TEST_F(windows, each_window_has_a_record)
{
	struct gate_record record;
	struct gate_ring ring;
	__u64 last = 0, id;
	unsigned int i;

	ASSERT_EQ(0, ring_map(&ring, self->target, 16));
	ASSERT_EQ(0, ioctl(self->target, PERF_EVENT_IOC_ID, &id));
	ASSERT_EQ(0, set_windows(self->target, PERF_WINDOWS_RECORD, PERF_WINDOWS_COUNT, 0));
	for (i = 0; i < 10; i++) {
		window_open();
		pages_touch(&self->pages, i);
		sleep_for_certain();
		window_close();
	}
	for (i = 0; i < 10; i++) {
		ASSERT_TRUE(ring_next(&ring, &record, sizeof(record)));
		ASSERT_EQ(PERF_RECORD_GATE, record.header.type);
		EXPECT_EQ(sizeof(record), record.header.size);
		EXPECT_EQ(getpid(), record.pid);
		EXPECT_EQ(syscall(__NR_gettid), record.tid);
		EXPECT_EQ(id, record.id);
		EXPECT_EQ(i, record.value);
		EXPECT_LT(last, record.opened);
		EXPECT_EQ(record.closed - record.opened, record.wall);
		EXPECT_LE(NSEC_PER_MSEC, record.wall);
		EXPECT_GT(record.wall, record.running);
		EXPECT_LT(0, record.running);
		last = record.closed;
	}
	EXPECT_FALSE(ring_next(&ring, &record, sizeof(record)));
}

TEST_F(windows, records_carry_a_sample_id)
{
	struct perf_event_attr attr = gate_attr(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_DUMMY);
	struct {
		struct gate_record record;
		__u32 pid, tid;
		__u64 time;
	} both;
	struct gate_ring ring;
	int target;

	attr.sample_id_all = 1;
	attr.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME;
	attr.use_clockid = 1;
	attr.clockid = CLOCK_MONOTONIC;
	target = gate_open_target(_metadata, &self->triggers, &attr);
	ASSERT_EQ(0, ring_map(&ring, target, 1));
	ASSERT_EQ(0, set_windows(target, PERF_WINDOWS_RECORD, PERF_WINDOWS_WALL, 0));
	window_open();
	window_close();
	ASSERT_TRUE(ring_next(&ring, &both, sizeof(both)));
	EXPECT_EQ(sizeof(both), both.record.header.size);
	EXPECT_EQ(getpid(), both.pid);
	EXPECT_LE(both.record.closed, both.time);
	EXPECT_GE(clock_ns(CLOCK_MONOTONIC), both.time);
	close(target);
}

/* The histogram counts the windows without a record as well. */
TEST_F(windows, fast_windows_have_no_record)
{
	struct gate_record record;
	struct gate_ring ring;
	unsigned int i;

	ASSERT_EQ(0, ring_map(&ring, self->target, 16));
	ASSERT_EQ(0, set_windows(self->target, PERF_WINDOWS_RECORD | PERF_WINDOWS_HISTOGRAM,
				 PERF_WINDOWS_COUNT, 8));
	for (i = 0; i <= 10; i++)
		one_window(&self->pages, i);
	for (i = 8; i <= 10; i++) {
		ASSERT_TRUE(ring_next(&ring, &record, sizeof(record)));
		EXPECT_EQ(i, record.value);
	}
	EXPECT_FALSE(ring_next(&ring, &record, sizeof(record)));
	EXPECT_EQ(11, read_histogram(_metadata, self->target).windows);
	/* No window takes a minute by the clock. */
	ASSERT_EQ(0, set_windows(self->target, PERF_WINDOWS_RECORD, PERF_WINDOWS_WALL,
				 60 * NSEC_PER_SEC));
	one_window(&self->pages, 9);
	ASSERT_EQ(0, set_windows(self->target, PERF_WINDOWS_RECORD, PERF_WINDOWS_RUNNING,
				 60 * NSEC_PER_SEC));
	one_window(&self->pages, 9);
	EXPECT_FALSE(ring_next(&ring, &record, sizeof(record)));
	ASSERT_EQ(0, set_windows(self->target, PERF_WINDOWS_RECORD, PERF_WINDOWS_RUNNING, 1));
	one_window(&self->pages, 9);
	EXPECT_TRUE(ring_next(&ring, &record, sizeof(record)));
}

/* Each window has a record or is counted as lost because the buffer was full. */
TEST_F(windows, full_buffer_tells_its_losses)
{
	struct {
		struct perf_event_header header;
		__u64 id, lost;
		char rest[128];
	} record;
	struct gate_ring ring;
	__u64 seen = 0, lost = 0;
	unsigned int i;

	ASSERT_EQ(0, ring_map(&ring, self->target, 1));
	ASSERT_EQ(0, set_windows(self->target, 3, PERF_WINDOWS_COUNT, 0));
	for (i = 0; i < 1000; i++) {
		window_open();
		window_close();
	}
	/* The record of the losses precedes the next record that finds room. */
	for (i = 0; i < 2; i++) {
		while (ring_next(&ring, &record, sizeof(record))) {
			seen += record.header.type == PERF_RECORD_GATE;
			if (record.header.type == PERF_RECORD_LOST)
				lost += record.lost;
		}
		window_open();
		window_close();
	}
	EXPECT_LT(0, lost);
	/* The last one is still in the buffer. */
	EXPECT_EQ(1001, seen + lost);
	EXPECT_EQ(1002, read_histogram(_metadata, self->target).windows);
	EXPECT_EQ(0, read_histogram(_metadata, self->target).missed);
}

TEST_F(windows, record_without_a_buffer_is_dropped)
{
	ASSERT_EQ(0, set_windows(self->target, 3, PERF_WINDOWS_COUNT, 0));
	one_window(&self->pages, 3);
	EXPECT_EQ(3, read_histogram(_metadata, self->target).sum);
}

/* A sampling event is stopped and started by its gate. */
TEST_F(windows, sampling_event_records_its_windows)
{
	struct perf_event_attr attr = gate_attr(PERF_TYPE_SOFTWARE,
						PERF_COUNT_SW_PAGE_FAULTS);
	struct gate_record record;
	struct histogram histogram;
	unsigned int i, nr = 0;
	struct gate_ring ring;
	int target;

	attr.sample_period = 1;
	target = gate_open_target(_metadata, &self->triggers, &attr);
	ASSERT_EQ(0, ring_map(&ring, target, 16));
	ASSERT_EQ(0, set_windows(target, 3, PERF_WINDOWS_COUNT, 0));
	for (i = 1; i <= 10; i++)
		one_window(&self->pages, i);
	for (i = 1; i <= 10; i++, nr = 0) {
		while (ring_next(&ring, &record, sizeof(record)) &&
		       record.header.type == PERF_RECORD_SAMPLE)
			nr++;
		EXPECT_EQ(i, nr);
		EXPECT_EQ(PERF_RECORD_GATE, record.header.type);
		EXPECT_EQ(i, record.value);
	}
	histogram = read_histogram(_metadata, target);
	EXPECT_EQ(10, histogram.windows);
	EXPECT_EQ(55, histogram.sum);
	close(target);
}

/* Spin until an event has counted more. The time of a thread differs where it is preempted. */
static void spin_event(int fd, __u64 more)
{
	__u64 end = gate_read_count(fd) + more;

	while (gate_read_count(fd) < end)
		;
}

TEST_F(windows, clock_event_records_its_windows)
{
	struct perf_event_attr attr = gate_attr(PERF_TYPE_SOFTWARE,
						PERF_COUNT_SW_TASK_CLOCK);
	struct histogram histogram;
	int clock = gate_open(&attr, 0, -1), target, i;

	ASSERT_LE(0, clock);
	target = gate_open_target(_metadata, &self->triggers, &attr);
	ASSERT_EQ(0, set_histogram(target, PERF_WINDOWS_COUNT));
	gate_ioctl(target, PERF_EVENT_IOC_RESET, 0);
	for (i = 0; i < 5; i++) {
		window_open();
		spin_event(clock, 5 * NSEC_PER_MSEC);
		window_close();
		spin_event(clock, 5 * NSEC_PER_MSEC);
	}
	histogram = read_histogram(_metadata, target);
	EXPECT_EQ(5, histogram.windows);
	EXPECT_LE(5 * NSEC_PER_MSEC, histogram.min);
	EXPECT_EQ(gate_read(target).value, histogram.sum);
	close(target);
	close(clock);
}

/* Each member of a gate that is shared has a histogram of its own. */
TEST_F(windows, members_of_a_gate_record_each)
{
	struct perf_event_attr attr = gate_attr(PERF_TYPE_TRACEPOINT,
				tracepoint_id("syscalls/sys_enter_getppid"));
	int second = gate_open(&attr, 0, -1);

	ASSERT_LE(0, second);
	ASSERT_EQ(0, join_gate(second, self->target));
	ASSERT_EQ(0, set_histogram(self->target, PERF_WINDOWS_COUNT));
	ASSERT_EQ(0, set_histogram(second, PERF_WINDOWS_COUNT));
	window_open();
	pages_touch(&self->pages, 3);
	call_getppid(5);
	window_close();
	EXPECT_EQ(3, read_histogram(_metadata, self->target).sum);
	EXPECT_EQ(5, read_histogram(_metadata, second).sum);
	close(second);
}

/* An event that a system call opens counts on, in a window that has no end. */
TEST_F(windows, window_that_a_system_call_opens_is_missed)
{
	struct histogram histogram;

	ASSERT_EQ(0, set_histogram(self->target, PERF_WINDOWS_COUNT));
	one_window(&self->pages, 2);
	ASSERT_EQ(0, clear_gate(self->target));
	pages_touch(&self->pages, 5);
	histogram = read_histogram(_metadata, self->target);
	EXPECT_EQ(1, histogram.windows);
	EXPECT_EQ(1, histogram.missed);
	/* The event has a gate again, so its windows are recorded again. */
	ASSERT_EQ(0, set_both(&self->triggers, self->target));
	one_window(&self->pages, 4);
	histogram = read_histogram(_metadata, self->target);
	EXPECT_EQ(2, histogram.windows);
	EXPECT_EQ(6, histogram.sum);
	EXPECT_EQ(1, histogram.missed);
	EXPECT_EQ(3, gate_read(self->target).gate_count);
}

FIXTURE(windows_cpu)
{
	int online;
};

static int set_online(const char *value)
{
	return write_text("/sys/devices/system/cpu/cpu1/online", value) ? 0 : -errno;
}

FIXTURE_SETUP(windows_cpu)
{
}

FIXTURE_TEARDOWN(windows_cpu)
{
	set_online("1");
}

/* A window that ended on a CPU that is offline is in the histogram all the same. */
TEST_F(windows_cpu, windows_of_an_offline_cpu_stay)
{
	struct gate_triggers triggers;
	struct histogram histogram;
	cpu_set_t all_cpus;
	int target, i;

	if (triggers_open(_metadata, &triggers))
		return;
	sched_getaffinity(0, sizeof(all_cpus), &all_cpus);
	if (nth_cpu(1) != 1)
		SKIP(return, "needs two CPUs");
	target = gate_open_counter(_metadata, &triggers, PERF_TYPE_SOFTWARE,
				   PERF_COUNT_SW_DUMMY);
	ASSERT_EQ(0, set_histogram(target, PERF_WINDOWS_COUNT));
	for (i = 0; i < 4; i++) {
		ASSERT_EQ(0, pin_to_cpu(1));
		sched_setaffinity(0, sizeof(all_cpus), &all_cpus);
		run_windows(10, 0, 0);
		/* The CPU goes offline during a window. */
		window_open();
		if (set_online("0"))
			SKIP(return, "CPU 1 cannot go offline");
		window_close();
		run_windows(10, 0, 0);
		ASSERT_EQ(0, set_online("1"));
	}
	histogram = read_histogram(_metadata, target);
	EXPECT_EQ(gate_read(target).gate_count, histogram.windows + histogram.missed);
	EXPECT_EQ(84, histogram.windows);
	EXPECT_EQ(0, histogram.missed);
	close(target);
	triggers_close(&triggers);
}

TEST_HARNESS_MAIN
