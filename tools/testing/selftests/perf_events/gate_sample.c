// SPDX-License-Identifier: GPL-2.0
/*
 * perf gate selftests - a sampling target leaves records in its windows only
 */
#define _GNU_SOURCE

#include "../kselftest_harness.h"
#include "gate_helpers.h"

#define NR_WINDOWS	100
#define NR_INSIDE	16
#define NR_OUTSIDE	64
#define RING_PAGES	64

struct sample {
	struct perf_event_header	header;
	__u64				id;
	__u64				time;
};

FIXTURE(gate_sample)
{
	struct gate_triggers triggers;
	struct gate_pages pages;
	struct gate_ring ring;
	struct perf_event_attr attr;
};

FIXTURE_SETUP(gate_sample)
{
	if (triggers_open(_metadata, &self->triggers))
		return;
	ASSERT_EQ(0, pages_map(&self->pages, NR_OUTSIDE));
	keep_sample_rate();
	self->attr = gate_attr(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS);
	self->attr.sample_period = 1;
	self->attr.sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TIME;
}

FIXTURE_TEARDOWN(gate_sample)
{
	limit_sample_time();
	munmap(self->pages.mem, self->pages.size);
	triggers_close(&self->triggers);
}

static void run_windows(const struct gate_pages *pages, unsigned int times)
{
	while (times--) {
		pages_touch(pages, NR_OUTSIDE);
		window_open();
		pages_touch(pages, NR_INSIDE);
		window_close();
	}
	pages_touch(pages, NR_OUTSIDE);
}

/* Open a sampling trigger, whose records mark the beginning or the end of windows. */
static int open_marker(struct perf_event_attr attr, const char *tracepoint)
{
	attr.type = PERF_TYPE_TRACEPOINT;
	attr.config = tracepoint_id(tracepoint);
	return gate_open(&attr, 0, -1);
}

static __u64 event_id(int fd)
{
	__u64 id = 0;

	ioctl(fd, PERF_EVENT_IOC_ID, &id);
	return id;
}

/* All events write to one buffer, so that their records are in order of time. */
TEST_F(gate_sample, every_sample_lies_between_a_start_and_a_stop)
{
	__u64 opened = 0, closed = ~0ULL, start_id, stop_id, target_id;
	unsigned int nr_inside = 0, nr_windows = 0;
	int starter, stopper, target;
	struct sample sample;
	bool open = false;

	starter = open_marker(self->attr, "syscalls/sys_enter_getuid");
	ASSERT_LE(0, starter);
	stopper = open_marker(self->attr, "syscalls/sys_enter_geteuid");
	ASSERT_LE(0, stopper);
	target = gate_open(&self->attr, 0, -1);
	ASSERT_LE(0, target);
	ASSERT_EQ(0, set_starter(starter, target));
	ASSERT_EQ(0, set_stopper(stopper, target));
	ASSERT_EQ(0, ring_map(&self->ring, target, RING_PAGES));
	ASSERT_EQ(0, gate_ioctl(starter, PERF_EVENT_IOC_SET_OUTPUT, target));
	ASSERT_EQ(0, gate_ioctl(stopper, PERF_EVENT_IOC_SET_OUTPUT, target));
	start_id = event_id(starter);
	stop_id = event_id(stopper);
	target_id = event_id(target);

	ring_drain(&self->ring, PERF_RECORD_SAMPLE);
	run_windows(&self->pages, NR_WINDOWS);
	while (ring_next(&self->ring, &sample, sizeof(sample))) {
		ASSERT_EQ(PERF_RECORD_SAMPLE, sample.header.type);
		if (sample.id == start_id) {
			opened = sample.time;
			open = true;
			nr_windows++;
		} else if (sample.id == stop_id) {
			closed = sample.time;
			EXPECT_LE(opened, closed);
			open = false;
		} else {
			ASSERT_EQ(target_id, sample.id);
			EXPECT_TRUE(open);
			EXPECT_LE(opened, sample.time);
			nr_inside++;
		}
	}
	EXPECT_EQ(NR_WINDOWS, nr_windows);
	EXPECT_EQ(NR_WINDOWS * NR_INSIDE, nr_inside);
}

TEST_F(gate_sample, period_1_samples_every_event_of_the_windows)
{
	int target = gate_open_target(_metadata, &self->triggers, &self->attr);

	ASSERT_EQ(0, ring_map(&self->ring, target, RING_PAGES));
	run_windows(&self->pages, NR_WINDOWS);
	EXPECT_EQ(NR_WINDOWS * NR_INSIDE, ring_drain(&self->ring, PERF_RECORD_SAMPLE));
	EXPECT_EQ(NR_WINDOWS * NR_INSIDE, gate_read_count(target));
}

TEST_F(gate_sample, closed_gate_leaves_no_record)
{
	int target = gate_open_target(_metadata, &self->triggers, &self->attr);

	ASSERT_EQ(0, ring_map(&self->ring, target, RING_PAGES));
	run_windows(&self->pages, 1);
	ring_drain(&self->ring, PERF_RECORD_SAMPLE);
	pages_touch(&self->pages, NR_OUTSIDE);
	EXPECT_EQ(self->ring.tail, ring_head(&self->ring));
}

/* Keep the window open until there is a sample, however late its interrupt is. */
static void sample_in_a_window(const struct gate_ring *ring)
{
	__u64 head = ring_head(ring), end = clock_ns(CLOCK_MONOTONIC) + 10 * NSEC_PER_SEC;

	window_open();
	do
		spin_ns(5 * NSEC_PER_MSEC);
	while (ring_head(ring) == head && clock_ns(CLOCK_MONOTONIC) < end);
	window_close();
}

/* Each task switch could restart the timer of a sampling clock. */
TEST_F(gate_sample, closed_clock_leaves_no_record)
{
	unsigned int i;
	int target;

	self->attr.config = PERF_COUNT_SW_CPU_CLOCK;
	self->attr.sample_period = NSEC_PER_MSEC;
	target = gate_open_target(_metadata, &self->triggers, &self->attr);
	ASSERT_EQ(0, ring_map(&self->ring, target, RING_PAGES));
	sample_in_a_window(&self->ring);
	EXPECT_LT(0, ring_drain(&self->ring, PERF_RECORD_SAMPLE));
	for (i = 0; i < 20; i++) {
		usleep(1000);
		spin_ns(5 * NSEC_PER_MSEC);
	}
	EXPECT_EQ(0, ring_drain(&self->ring, PERF_RECORD_SAMPLE));
}

/* An overflow that the PMU reports late still belongs to a closed gate. */
TEST_F(gate_sample, closed_hardware_event_leaves_no_record)
{
	int target, i;

	self->attr.type = PERF_TYPE_HARDWARE;
	self->attr.config = PERF_COUNT_HW_INSTRUCTIONS;
	self->attr.sample_period = 100000;
	target = gate_open(&self->attr, 0, -1);
	if (target < 0)
		SKIP(return, "no hardware event that samples: %s", strerror(errno));
	if (pmu_without_interrupts())
		SKIP(return, "%s", pmu_without_interrupts());
	ASSERT_EQ(0, set_both(&self->triggers, target));
	ASSERT_EQ(0, ring_map(&self->ring, target, RING_PAGES));
	ring_drain(&self->ring, PERF_RECORD_SAMPLE);
	for (i = 0; i < 10; i++) {
		spin_ns(5 * NSEC_PER_MSEC);
		EXPECT_EQ(0, ring_drain(&self->ring, PERF_RECORD_SAMPLE));
		sample_in_a_window(&self->ring);
		EXPECT_LT(0, ring_drain(&self->ring, PERF_RECORD_SAMPLE));
	}
}

static void touch_for(const struct gate_pages *pages, __u64 ns)
{
	__u64 end = clock_ns(CLOCK_THREAD_CPUTIME_ID) + ns;

	while (clock_ns(CLOCK_THREAD_CPUTIME_ID) < end)
		pages_touch(pages, NR_OUTSIDE);
}

/*
 * If the closed time counted as time without events, the period would drop to 1, and a
 * burst of samples would throttle the event when the gate opens. The accuracy of the
 * rate depends on the ticks that the machine loses, so compare with an event without a
 * gate.
 */
TEST_F(gate_sample, frequency_survives_a_closed_time)
{
	unsigned int nr_samples = 0, nr_throttled = 0, nr_reference;
	struct perf_event_header header;
	struct gate_ring reference_ring;
	int target, reference;

	self->attr.freq = 1;
	self->attr.sample_freq = 500;
	reference = gate_open(&self->attr, 0, -1);
	ASSERT_LE(0, reference);
	ASSERT_EQ(0, ring_map(&reference_ring, reference, RING_PAGES));
	target = gate_open_target(_metadata, &self->triggers, &self->attr);
	ASSERT_EQ(0, ring_map(&self->ring, target, RING_PAGES));
	window_open();
	touch_for(&self->pages, NSEC_PER_SEC / 2);
	window_close();
	touch_for(&self->pages, NSEC_PER_SEC);
	ring_drain(&reference_ring, PERF_RECORD_SAMPLE);
	ring_drain(&self->ring, PERF_RECORD_SAMPLE);
	window_open();
	touch_for(&self->pages, NSEC_PER_SEC);
	window_close();
	nr_reference = ring_drain(&reference_ring, PERF_RECORD_SAMPLE);
	while (ring_next(&self->ring, &header, sizeof(header))) {
		nr_samples += header.type == PERF_RECORD_SAMPLE;
		nr_throttled += header.type == PERF_RECORD_THROTTLE;
	}
	EXPECT_EQ(0, nr_throttled);
	EXPECT_LE(nr_reference - nr_reference / 5, nr_samples);
	EXPECT_GE(nr_reference + nr_reference / 5, nr_samples);
}

/*
 * The windows are shorter than a tick, and than the time between two samples, so the
 * period has to be learnt from many of them. Time that the host takes away belongs to
 * the window but has no events, so only the first millisecond of each has to be sampled
 * often enough.
 */
TEST_F_TIMEOUT(gate_sample, frequency_is_that_of_many_short_windows, 120)
{
	unsigned int nr_samples = 0, least, most, window;
	__u64 at, before, open = 0, worked = 0;
	bool learnt = false;
	int target;

	self->attr.freq = 1;
	self->attr.sample_freq = 200;
	self->attr.read_format = GATE_READ_FORMAT;
	target = gate_open_target(_metadata, &self->triggers, &self->attr);
	ASSERT_EQ(0, ring_map(&self->ring, target, RING_PAGES));
	at = gate_read(target).gate_time;
	do {
		for (window = 0; window < 100; window++) {
			window_open();
			pages_touch(&self->pages, 5);
			window_close();
			before = at;
			at = gate_read(target).gate_time;
			open += at - before;
			worked += at - before < NSEC_PER_MSEC ? at - before : NSEC_PER_MSEC;
		}
		nr_samples += ring_drain(&self->ring, PERF_RECORD_SAMPLE);
		/* The first periods are guesses, and can be far too long. */
		if (!learnt && nr_samples > 30) {
			learnt = true;
			nr_samples = 0;
			open = 0;
			worked = 0;
		}
	} while (!learnt || worked < NSEC_PER_SEC);
	least = worked * self->attr.sample_freq / NSEC_PER_SEC / 3;
	most = open * self->attr.sample_freq / NSEC_PER_SEC * 3;
	TH_LOG("%u samples, between %u and %u were asked for", nr_samples, least, most);
	EXPECT_LE(least, nr_samples);
	EXPECT_GE(most, nr_samples);
}

/*
 * A throttled event is stopped until the next tick, a software event as well. After
 * that it counts inside of its windows only.
 */
TEST_F(gate_sample, throttled_event_counts_in_the_next_window)
{
	struct perf_event_attr attr = gate_attr(PERF_TYPE_TRACEPOINT,
						tracepoint_id("sched/sched_stat_runtime"));
	__u64 outer, inner, inside, before, now, end, closed = 0;
	int target, reference;

	reference = gate_open(&attr, 0, -1);
	ASSERT_LE(0, reference);
	attr.sample_period = 1000;
	target = gate_open_target(_metadata, &self->triggers, &attr);
	window_open();
	outer = gate_read_count(reference);
	inside = gate_read_count(target);
	inner = gate_read_count(reference);
	end = clock_ns(CLOCK_MONOTONIC) + NSEC_PER_SEC / 2;
	do {
		spin_ns(NSEC_PER_MSEC / 2);
		before = gate_read_count(reference);
		window_close();
		window_open();
		now = gate_read_count(reference);
		closed += now - before;
	} while (now - inner - closed < NSEC_PER_SEC / 20 || clock_ns(CLOCK_MONOTONIC) < end);
	inner = gate_read_count(reference) - inner;
	inside = gate_read_count(target) - inside;
	outer = gate_read_count(reference) - outer;
	TH_LOG("%llu of %llu", inside, inner - closed);
	EXPECT_LT(0, inside);
	EXPECT_LE(inside, outer);
	close(target);
	close(reference);
}

TEST_F(gate_sample, new_period_does_not_open_a_closed_gate)
{
	int target = gate_open_target(_metadata, &self->triggers, &self->attr);
	__u64 period = 2;

	ASSERT_EQ(0, ring_map(&self->ring, target, RING_PAGES));
	ASSERT_EQ(0, ioctl(target, PERF_EVENT_IOC_PERIOD, &period));
	pages_touch(&self->pages, NR_OUTSIDE);
	EXPECT_EQ(0, ring_drain(&self->ring, PERF_RECORD_SAMPLE));
}

TEST_F(gate_sample, new_period_of_a_closed_clock_starts_no_timer)
{
	__u64 period = NSEC_PER_MSEC / 2;
	int target;

	self->attr.config = PERF_COUNT_SW_CPU_CLOCK;
	self->attr.sample_period = NSEC_PER_MSEC;
	target = gate_open_target(_metadata, &self->triggers, &self->attr);
	ASSERT_EQ(0, ring_map(&self->ring, target, RING_PAGES));
	ring_drain(&self->ring, PERF_RECORD_SAMPLE);
	ASSERT_EQ(0, ioctl(target, PERF_EVENT_IOC_PERIOD, &period));
	spin_ns(20 * NSEC_PER_MSEC);
	EXPECT_EQ(0, ring_drain(&self->ring, PERF_RECORD_SAMPLE));
}

TEST_F(gate_sample, new_period_holds_when_the_gate_opens)
{
	int target = gate_open_target(_metadata, &self->triggers, &self->attr);
	__u64 period = 4;

	ASSERT_EQ(0, ring_map(&self->ring, target, RING_PAGES));
	ASSERT_EQ(0, ioctl(target, PERF_EVENT_IOC_PERIOD, &period));
	window_open();
	pages_touch(&self->pages, 4 * NR_INSIDE);
	window_close();
	EXPECT_LE(NR_INSIDE - 1, ring_drain(&self->ring, PERF_RECORD_SAMPLE));
}

/*
 * Run a window of @nr page faults. An event that reaches its limit in it is turned off
 * by an interrupt soon after, at the latest when its task sleeps.
 */
static void run_limited_window(const struct gate_pages *pages, unsigned int nr)
{
	pages_touch(pages, NR_OUTSIDE);
	window_open();
	pages_touch(pages, nr);
	window_close();
	sleep_for_certain();
}

static int open_limited_target(struct __test_metadata *const _metadata,
			       FIXTURE_DATA(gate_sample) * self, int limit)
{
	int target;

	self->attr.disabled = 1;
	target = gate_open_target(_metadata, &self->triggers, &self->attr);
	ASSERT_EQ(0, ring_map(&self->ring, target, RING_PAGES));
	ASSERT_EQ(0, gate_ioctl(target, PERF_EVENT_IOC_REFRESH, limit));
	return target;
}

/* Only overflows that leave a record count for the limit, not dropped ones. */
TEST_F(gate_sample, refresh_counts_overflows_in_windows)
{
	open_limited_target(_metadata, self, 6);
	run_limited_window(&self->pages, 3);
	EXPECT_EQ(3, ring_drain(&self->ring, PERF_RECORD_SAMPLE));
	run_limited_window(&self->pages, 3);
	EXPECT_EQ(3, ring_drain(&self->ring, PERF_RECORD_SAMPLE));
}

TEST_F(gate_sample, opening_does_not_restart_an_event_at_its_limit)
{
	open_limited_target(_metadata, self, 3);
	run_limited_window(&self->pages, 3);
	ring_drain(&self->ring, PERF_RECORD_SAMPLE);
	run_windows(&self->pages, NR_WINDOWS);
	EXPECT_EQ(0, ring_drain(&self->ring, PERF_RECORD_SAMPLE));
}

TEST_F(gate_sample, refresh_between_windows_allows_more)
{
	int target = open_limited_target(_metadata, self, 3);

	run_limited_window(&self->pages, 3);
	ring_drain(&self->ring, PERF_RECORD_SAMPLE);
	ASSERT_EQ(0, gate_ioctl(target, PERF_EVENT_IOC_REFRESH, 2));
	run_limited_window(&self->pages, 2);
	EXPECT_EQ(2, ring_drain(&self->ring, PERF_RECORD_SAMPLE));
}

struct read_sample {
	struct perf_event_header	header;
	__u64				nr;
	struct {
		__u64			value;
		__u64			gate_count;
	} entry[2];
};

/*
 * Open a leader whose records hold the counts of its group, and set @attr for its
 * sibling. A group that is created while its leader is off runs as a whole once the
 * leader is enabled; a sibling of another PMU that joins a running leader may have to
 * wait for the next task switch.
 */
static int open_reading_leader(struct perf_event_attr *attr, const char *tracepoint)
{
	int leader;

	attr->type = PERF_TYPE_TRACEPOINT;
	attr->config = tracepoint_id(tracepoint);
	attr->sample_type = PERF_SAMPLE_READ;
	attr->read_format = PERF_FORMAT_GROUP | PERF_FORMAT_GATE_COUNT;
	attr->disabled = 1;
	leader = gate_open(attr, 0, -1);
	*attr = gate_attr(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS);
	return leader;
}

/* The stopper leads the group of its target, so each of its samples has the target's count. */
TEST_F(gate_sample, sample_of_the_stopper_holds_the_gated_count)
{
	struct read_sample sample;
	/* Values of the group: their number, and a value and a gate_count of each event */
	__u64 group[5] = { };
	int stopper, target;
	unsigned int nr = 0;

	stopper = open_reading_leader(&self->attr, "syscalls/sys_enter_geteuid");
	ASSERT_LE(0, stopper);
	target = gate_open_group(&self->attr, 0, -1, stopper);
	ASSERT_LE(0, target);
	ASSERT_EQ(0, ring_map(&self->ring, stopper, RING_PAGES));
	ASSERT_EQ(0, set_starter(self->triggers.starter, target));
	ASSERT_EQ(0, set_stopper(stopper, target));
	ASSERT_EQ(0, gate_ioctl(stopper, PERF_EVENT_IOC_ENABLE, 0));

	run_windows(&self->pages, NR_WINDOWS);
	while (ring_next(&self->ring, &sample, sizeof(sample))) {
		nr++;
		ASSERT_EQ(PERF_RECORD_SAMPLE, sample.header.type);
		ASSERT_EQ(sizeof(sample), sample.header.size);
		ASSERT_EQ(2, sample.nr);
		EXPECT_EQ(nr * NR_INSIDE, sample.entry[1].value);
		EXPECT_EQ(nr, sample.entry[1].gate_count);
	}
	EXPECT_EQ(NR_WINDOWS, nr) {
		read(stopper, group, sizeof(group));
		TH_LOG("the stopper counted %llu, another one %llu, the target %llu in %llu windows",
		       group[1], gate_read_count(self->triggers.stopper), group[3], group[4]);
	}
}

/* In the same group with a starter as leader, its record precedes the window. */
TEST_F(gate_sample, sample_of_the_starter_precedes_its_window)
{
	struct read_sample sample;
	int starter, target;
	unsigned int nr = 0;

	starter = open_reading_leader(&self->attr, "syscalls/sys_enter_getuid");
	ASSERT_LE(0, starter);
	target = gate_open_group(&self->attr, 0, -1, starter);
	ASSERT_LE(0, target);
	ASSERT_EQ(0, ring_map(&self->ring, starter, RING_PAGES));
	ASSERT_EQ(0, set_starter(starter, target));
	ASSERT_EQ(0, set_stopper(self->triggers.stopper, target));
	ASSERT_EQ(0, gate_ioctl(starter, PERF_EVENT_IOC_ENABLE, 0));

	run_windows(&self->pages, NR_WINDOWS);
	while (ring_next(&self->ring, &sample, sizeof(sample))) {
		ASSERT_EQ(PERF_RECORD_SAMPLE, sample.header.type);
		EXPECT_EQ(nr * NR_INSIDE, sample.entry[1].value);
		EXPECT_EQ(nr, sample.entry[1].gate_count);
		nr++;
	}
	EXPECT_EQ(NR_WINDOWS, nr);
}

/* A record of the target is written while its gate is open and includes the present count. */
TEST_F(gate_sample, sample_of_the_target_holds_its_own_gated_count)
{
	struct {
		struct perf_event_header header;
		__u64 value;
		__u64 gate_count;
	} sample;
	unsigned int nr = 0;
	int target;

	self->attr.sample_type = PERF_SAMPLE_READ;
	self->attr.read_format = PERF_FORMAT_GATE_COUNT;
	self->attr.disabled = 1;
	target = gate_open_target(_metadata, &self->triggers, &self->attr);
	ASSERT_EQ(0, ring_map(&self->ring, target, RING_PAGES));
	gate_ioctl(target, PERF_EVENT_IOC_ENABLE, 0);
	run_windows(&self->pages, NR_WINDOWS);
	while (ring_next(&self->ring, &sample, sizeof(sample))) {
		nr++;
		ASSERT_EQ(PERF_RECORD_SAMPLE, sample.header.type);
		EXPECT_EQ(nr, sample.value);
		EXPECT_EQ((nr - 1) / NR_INSIDE + 1, sample.gate_count);
	}
	EXPECT_EQ(NR_WINDOWS * NR_INSIDE, nr);
}

/* Use a buffer that is written backward, which needs its own overflow handler. */
TEST_F(gate_sample, write_backward_trigger_keeps_its_overflow_handler)
{
	struct perf_event_attr attr = self->attr;
	int starter, target;

	attr.type = PERF_TYPE_TRACEPOINT;
	attr.config = tracepoint_id("syscalls/sys_enter_getuid");
	attr.write_backward = 1;
	starter = gate_open(&attr, 0, -1);
	ASSERT_LE(0, starter);
	self->ring.page = mmap(NULL, 2 * self->pages.page_size, PROT_READ, MAP_SHARED, starter, 0);
	ASSERT_NE(MAP_FAILED, self->ring.page);
	target = gate_open_self(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS);
	ASSERT_LE(0, target);
	ASSERT_EQ(0, set_starter(starter, target));
	ASSERT_EQ(0, set_stopper(self->triggers.stopper, target));
	run_windows(&self->pages, 3);
	EXPECT_EQ(-3 * sizeof(struct sample), ring_head(&self->ring));
	ASSERT_EQ(0, set_starter(starter, -1));
	window_open();
	EXPECT_EQ(-4 * sizeof(struct sample), ring_head(&self->ring));
}

TEST_HARNESS_MAIN
