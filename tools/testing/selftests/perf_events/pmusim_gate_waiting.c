// SPDX-License-Identifier: GPL-2.0
/*
 * pmusim selftests - gates of events that do not run: throttled by the core, or
 * waiting for a counter that another one has
 *
 * Their gates move all the same, and start no event that the core has stopped.
 */
#define _GNU_SOURCE

#include "../kselftest_harness.h"
#include "pmusim_helpers.h"

#define NR_INSIDE	70
#define NR_OUTSIDE	30

#ifndef PERF_EVENT_IOC_SET_STARTER
#define PERF_EVENT_IOC_SET_STARTER	_IO('$', 12)
#define PERF_EVENT_IOC_SET_STOPPER	_IO('$', 13)
#define PERF_FORMAT_GATE_TIME		0x20
#define PERF_FORMAT_GATE_COUNT		0x40
#endif

static int set_both(int starter, int stopper, int target)
{
	int ret = sim_ioctl(starter, PERF_EVENT_IOC_SET_STARTER, target);

	return ret ?: sim_ioctl(stopper, PERF_EVENT_IOC_SET_STOPPER, target);
}

FIXTURE(gate_throttled)
{
	struct sim_ring ring;
	int starter, stopper, target;
	bool throttled;
};

static int open_tracepoint(const char *name)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_TRACEPOINT, .size = sizeof(attr),
	};
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), "/sys/kernel/tracing/events/syscalls/%s/id", name);
	if (access(path, F_OK))
		mount("tracefs", "/sys/kernel/tracing", "tracefs", 0, NULL);
	file = fopen(path, "r");
	if (!file)
		return -errno;
	if (fscanf(file, "%llu", &attr.config) != 1)
		attr.config = 0;
	fclose(file);
	return sim_open(&attr, -1, 0, -1);
}

/* Each count is a sample, and one sample is allowed in each timer tick. */
FIXTURE_SETUP(gate_throttled)
{
	struct perf_event_attr attr;

	if (sim_skips(_metadata))
		return;
	if (sim_put("pmusim/capabilities", "+gate_stop"))
		SIM_SKIP("a kernel without gates");
	sim_put("pmusim/capabilities", "+gate_nmi");
	ASSERT_EQ(0, run_on(0));
	self->starter = open_tracepoint("sys_enter_getuid");
	if (self->starter == -ENOENT) {
		sim_put("pmusim/capabilities", "-gate_stop");
		sim_put("pmusim/capabilities", "-gate_nmi");
		SIM_SKIP("no tracepoint syscalls/sys_enter_getuid");
	}
	ASSERT_LE(0, self->starter);
	self->stopper = open_tracepoint("sys_enter_geteuid");
	ASSERT_LE(0, self->stopper);
	attr = sim_attr("pmusim", SIM_OFLOW(SIM_HARDIRQ));
	attr.sample_period = 1;
	self->target = sim_open(&attr, -1, 0, -1);
	ASSERT_LE(0, self->target);
	ASSERT_EQ(0, ring_map(&self->ring, self->target, 16));
	ASSERT_EQ(0, set_both(self->starter, self->stopper, self->target));
	ASSERT_NE(0, max_sample_rate(1));
	syscall(__NR_getuid);
}

FIXTURE_TEARDOWN(gate_throttled)
{
	ring_unmap(&self->ring);
	close(self->target);
	sim_put("pmusim/capabilities", "-gate_stop");
	sim_put("pmusim/capabilities", "-gate_nmi");
	sim_defaults();
}

/* State of the target according to the records, of which more than one may be lost. */
static bool is_throttled(FIXTURE_DATA(gate_throttled) * self, unsigned int *unthrottled)
{
	static struct sim_record record;

	while (ring_next(&self->ring, &record)) {
		if (record.header.type == PERF_RECORD_THROTTLE) {
			self->throttled = true;
		} else if (record.header.type == PERF_RECORD_UNTHROTTLE) {
			self->throttled = false;
			++*unthrottled;
		}
	}
	return self->throttled;
}

/* Sample until the event is throttled; false if that does not happen. */
static bool throttle(FIXTURE_DATA(gate_throttled) * self, unsigned int *unthrottled)
{
	__u64 end = now_ns() + 10000000000ULL;

	do {
		while (is_throttled(self, unthrottled) && now_ns() < end)
			sleep_ms(1);
		if (sim_tick(0, 0, 100))
			return false;
		if (is_throttled(self, unthrottled))
			return true;
	} while (now_ns() < end);
	return false;
}

/* Number of calls to start the event */
static int nr_starts(__u64 id)
{
	struct sim_log line;
	FILE *log = log_open();
	int nr = 0;

	if (!log)
		return -1;
	while (log_next(log, &line))
		nr += line.id == id && !strcmp(line.op, "start");
	fclose(log);
	return nr;
}

/* Only the timer tick may start the event again, and it writes a record. */
TEST_F_TIMEOUT(gate_throttled, opening_does_not_start_it_again, 120)
{
	__u64 id = sim_id(self->target), end = now_ns() + 60000000000ULL;
	unsigned int unthrottled, before, conclusive = 0;
	int starts;

	while (conclusive < 20 && now_ns() < end) {
		ASSERT_EQ(0, log_on());
		unthrottled = 0;
		ASSERT_TRUE(throttle(self, &unthrottled));
		before = unthrottled;
		syscall(__NR_geteuid);
		syscall(__NR_getuid);
		/* If the tick came first, the opening may start the event. */
		is_throttled(self, &unthrottled);
		if (unthrottled != before)
			continue;
		conclusive++;
		starts = nr_starts(id);
		ASSERT_LE(0, starts);
		is_throttled(self, &unthrottled);
		ASSERT_GE(unthrottled, starts);
	}
	EXPECT_EQ(20, conclusive);
}

/* Tell whether the PMU has started an event, by its state on the first CPU. */
static bool is_started(__u64 id)
{
	char text[128], word[32];
	bool started = false;
	FILE *file;

	file = fopen(SIM_DIR "/cpu0/state", "r");
	if (!file)
		return true;
	snprintf(word, sizeof(word), " %llu ", id);
	while (fgets(text, sizeof(text), file)) {
		if (strstr(text, word) && strstr(text, "started"))
			started = true;
	}
	fclose(file);
	return started;
}

TEST_F_TIMEOUT(gate_throttled, end_of_the_throttling_does_not_start_a_closed_event, 120)
{
	__u64 id = sim_id(self->target), count, end = now_ns() + 60000000000ULL;
	unsigned int unthrottled = 0, conclusive = 0, i;

	EXPECT_TRUE(is_started(id));
	while (conclusive < 20 && now_ns() < end) {
		ASSERT_TRUE(throttle(self, &unthrottled));
		syscall(__NR_geteuid);
		/* This is inconclusive if the event was started before the gate closed. */
		conclusive += is_throttled(self, &unthrottled);
		for (i = 0; i < 1000 && is_throttled(self, &unthrottled); i++)
			sleep_ms(2);
		ASSERT_FALSE(self->throttled);
		ASSERT_FALSE(is_started(id));
		count = sim_count(self->target);
		/* Then the event continues at its position. */
		syscall(__NR_getuid);
		ASSERT_TRUE(is_started(id));
		ASSERT_EQ(0, sim_tick(0, 0, 1));
		EXPECT_EQ(count + 1, sim_count(self->target));
	}
	EXPECT_EQ(20, conclusive);
}

/* Four events share one counter. */
FIXTURE(gate_turns)
{
	int starter, stopper, target[4];
};

FIXTURE_SETUP(gate_turns)
{
	struct perf_event_attr attr;
	unsigned int i;

	if (sim_skips(_metadata))
		return;
	ASSERT_EQ(0, run_on(0));
	ASSERT_EQ(0, sim_put("pmusim/nr_counters", "1"));
	self->starter = open_tracepoint("sys_enter_getuid");
	if (self->starter == -ENOENT)
		SIM_SKIP("no tracepoint syscalls/sys_enter_getuid");
	ASSERT_LE(0, self->starter);
	self->stopper = open_tracepoint("sys_enter_geteuid");
	ASSERT_LE(0, self->stopper);
	attr = sim_attr("pmusim", SIM_MANUAL);
	attr.read_format |= PERF_FORMAT_GATE_TIME | PERF_FORMAT_GATE_COUNT;
	for (i = 0; i < 4; i++) {
		self->target[i] = sim_open(&attr, -1, 0, -1);
		ASSERT_LE(0, self->target[i]);
		ASSERT_EQ(0, set_both(self->starter, self->stopper, self->target[i]));
	}
}

FIXTURE_TEARDOWN(gate_turns)
{
	unsigned int i;

	for (i = 0; i < 4; i++)
		close(self->target[i]);
	sim_defaults();
}

struct turn {
	struct sim_value times;
	__u64 gate_time;
	__u64 gate_count;
};

/* Each count of a window belongs to the event that has the counter then. */
TEST_F_TIMEOUT(gate_turns, gates_move_while_their_events_have_no_counter, 120)
{
	__u64 end = now_ns() + 60000000000ULL, windows = 0, sum, had_turn;
	struct turn turn[4];
	unsigned int i;

	do {
		ASSERT_EQ(0, sim_tick(0, 0, NR_OUTSIDE));
		syscall(__NR_getuid);
		ASSERT_EQ(0, sim_tick(0, 0, NR_INSIDE));
		syscall(__NR_geteuid);
		windows++;
		for (i = 0, sum = 0, had_turn = 0; i < 4; i++) {
			ASSERT_EQ(sizeof(turn[i]),
				  read(self->target[i], &turn[i], sizeof(turn[i])));
			sum += turn[i].times.value;
			had_turn += !!turn[i].times.value;
		}
		ASSERT_EQ(windows * NR_INSIDE, sum);
	} while ((had_turn < 4 || windows < 1000) && now_ns() < end);
	EXPECT_EQ(4, had_turn);
	for (i = 0; i < 4; i++) {
		EXPECT_EQ(windows, turn[i].gate_count);
		EXPECT_LT(turn[i].times.running, turn[i].times.enabled);
		EXPECT_LE(turn[i].gate_time, turn[i].times.running);
	}
}

TEST_HARNESS_MAIN
