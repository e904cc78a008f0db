// SPDX-License-Identifier: GPL-2.0
/* pmusim selftests - scheduling of events on the counters */
#define _GNU_SOURCE

#include "../kselftest_harness.h"
#include "pmusim_helpers.h"

#define NR_COUNTERS	4
#define MAX_EVENTS	8

FIXTURE(sched)
{
	int fd[MAX_EVENTS];
};

FIXTURE_SETUP(sched)
{
	if (sim_skips(_metadata))
		return;
}

FIXTURE_TEARDOWN(sched)
{
	sim_defaults();
}

/* Count how often each event got a counter, and the number of turns. */
static unsigned int count_turns(const __u64 *ids, unsigned int nr, unsigned int *turns)
{
	unsigned int i, failed = 0;
	struct sim_log line;
	FILE *log;

	memset(turns, 0, nr * sizeof(*turns));
	log = fopen(SIM_DIR "/log", "r");
	if (!log)
		return 0;
	while (log_next(log, &line)) {
		if (strcmp(line.op, "add"))
			continue;
		failed += line.result < 0;
		for (i = 0; i < nr; i++)
			turns[i] += ids[i] == line.id && !line.result;
	}
	fclose(log);
	return failed;
}

/* Tell whether four of six events ran at any time, all for about the same time. */
static bool times_are_even(const int *fd, const struct sim_value *since)
{
	__u64 running[6], enabled = 0, all = 0;
	struct sim_value value;
	unsigned int i;

	for (i = 0; i < 6; i++) {
		value = sim_read(fd[i]);
		running[i] = value.running - since[i].running;
		enabled += value.enabled - since[i].enabled;
		all += running[i];
	}
	if (all * 600 < enabled * 4 * 95 || all * 600 > enabled * 4 * 105)
		return false;
	for (i = 0; i < 6; i++) {
		if (running[i] * 600 < all * 95 || running[i] * 600 > all * 105)
			return false;
	}
	return true;
}

/* Number of simultaneous turns. Other load makes some of them longer. */
TEST_F_TIMEOUT(sched, six_events_share_four_counters_evenly, 130)
{
	__u64 ids[6], end = now_ns() + 60000000000ULL;
	unsigned int i, turns[6], all = 0;
	struct sim_value since[6], value;
	bool even;

	for (i = 0; i < 6; i++) {
		self->fd[i] = sim_open_cpu(0, 0);
		ASSERT_LE(0, self->fd[i]);
		ids[i] = sim_id(self->fd[i]);
	}
	for (i = 0; i < 6; i++)
		since[i] = sim_read(self->fd[i]);
	ASSERT_EQ(0, log_on());
	/* Each turn ends with an event that finds no counter. */
	do {
		sleep_ms(100);
	} while (count_turns(ids, 6, turns) < 120 && now_ns() < end);
	sim_put("log", "0");
	ASSERT_LE(120, count_turns(ids, 6, turns));

	for (i = 0; i < 6; i++)
		all += turns[i];
	for (i = 0; i < 6; i++) {
		EXPECT_LE(all * 95, turns[i] * 600);
		EXPECT_GE(all * 105, turns[i] * 600);
		value = sim_read(self->fd[i]);
		EXPECT_LT(0, value.running);
		EXPECT_GT(value.enabled, value.running);
	}
	/* The weight of a single long turn decreases with time. */
	end = now_ns() + 60000000000ULL;
	do {
		sleep_ms(100);
		even = times_are_even(self->fd, since);
	} while (!even && now_ns() < end);
	EXPECT_TRUE(even);
}

/*
 * A fork that fails in the middle of the parent's events must not stop their rotation.
 * The group cannot be inherited, because it does not fit; it was opened while groups
 * were not validated.
 */
TEST_F_TIMEOUT(sched, events_take_turns_after_a_fork_that_failed, 120)
{
	__u64 before[6], end = now_ns() + 20000000000ULL;
	struct perf_event_attr attr = sim_attr("pmusim", 0);
	unsigned int i, more;
	int group[5];
	pid_t pid;

	ASSERT_EQ(0, sim_put("pmusim/validate_group", "0"));
	attr.inherit = 1;
	for (i = 0; i < 5; i++) {
		attr.disabled = !i;
		group[i] = sim_open(&attr, 0, -1, i ? group[0] : -1);
		ASSERT_LE(0, group[i]);
	}
	ASSERT_EQ(0, sim_put("pmusim/validate_group", "1"));
	attr.inherit = 0;
	for (i = 0; i < 6; i++) {
		self->fd[i] = sim_open(&attr, 0, -1, -1);
		ASSERT_LE(0, self->fd[i]);
	}
	pid = fork();
	if (!pid)
		_exit(0);
	ASSERT_EQ(-1, pid);
	EXPECT_EQ(EINVAL, errno);

	for (i = 0; i < 6; i++)
		before[i] = sim_read(self->fd[i]).running;
	do {
		for (i = 0, more = 0; i < 6; i++)
			more += sim_read(self->fd[i]).running > before[i];
	} while (more < 6 && now_ns() < end);
	EXPECT_EQ(6, more);
}

TEST_F(sched, as_many_events_as_counters_need_no_turns)
{
	struct sim_value value;
	unsigned int i;

	ASSERT_EQ(0, sim_put("pmusim/nr_counters", "%d", MAX_EVENTS));
	for (i = 0; i < MAX_EVENTS; i++) {
		self->fd[i] = sim_open_cpu(0, 0);
		ASSERT_LE(0, self->fd[i]);
	}
	sleep_ms(100);
	for (i = 0; i < MAX_EVENTS; i++) {
		value = sim_read(self->fd[i]);
		EXPECT_EQ(value.enabled, value.running);
	}
	EXPECT_EQ(-EBUSY, sim_put("pmusim/nr_counters", "4"));
}

static int open_group(int *fd, unsigned int nr, __u64 config, int disabled)
{
	struct perf_event_attr attr = sim_attr("pmusim", config);
	unsigned int i;

	attr.disabled = disabled;
	for (i = 0; i < nr; i++) {
		fd[i] = sim_open(&attr, -1, 0, i ? fd[0] : -1);
		if (fd[i] < 0)
			return fd[i];
		attr.disabled = 0;
	}
	return 0;
}

/* Wait for the turn of an event, whose timer may be late. */
static bool has_its_turn(int fd)
{
	const __u64 end = now_ns() + 10000000000ULL;

	while (!sim_read(fd).running && now_ns() < end)
		sleep_ms(10);
	return sim_read(fd).running;
}

static bool waits_for_its_turn(int fd)
{
	const __u64 end = now_ns() + 10000000000ULL;
	struct sim_value value;

	do {
		sleep_ms(10);
		value = sim_read(fd);
	} while (value.enabled == value.running && now_ns() < end);
	return value.enabled > value.running;
}

TEST_F(sched, a_group_is_on_as_a_whole_or_not_at_all)
{
	struct sim_value first, other;
	unsigned int i;

	/* The groups do not fit at the same time, and one counter is left over. */
	ASSERT_EQ(0, open_group(self->fd, 3, 0, 1));
	ASSERT_EQ(0, open_group(self->fd + 3, 3, 0, 1));
	ASSERT_EQ(0, sim_enable(self->fd[0]));
	ASSERT_EQ(0, sim_enable(self->fd[3]));
	sleep_ms(500);
	for (i = 0; i < 6; i += 3) {
		EXPECT_TRUE(has_its_turn(self->fd[i]));
		EXPECT_TRUE(waits_for_its_turn(self->fd[i]));
	}
	ASSERT_EQ(0, sim_disable(self->fd[0]));
	ASSERT_EQ(0, sim_disable(self->fd[3]));

	for (i = 0; i < 6; i++) {
		first = sim_read(self->fd[i / 3 * 3]);
		other = sim_read(self->fd[i]);
		EXPECT_LT(0, other.running);
		EXPECT_GT(other.enabled, other.running);
		EXPECT_EQ(first.running, other.running);
	}
}

TEST_F(sched, a_group_with_a_member_that_fails_is_never_on)
{
	struct perf_event_attr fails = sim_attr("pmusim", SIM_FAIL);
	unsigned int i, adds = 0, dels = 0, cancels = 0;
	struct sim_log line;
	FILE *log;

	ASSERT_EQ(0, open_group(self->fd, 2, 0, 1));
	self->fd[2] = sim_open(&fails, -1, 0, self->fd[0]);
	ASSERT_LE(0, self->fd[2]);
	ASSERT_EQ(0, log_on());
	ASSERT_EQ(0, sim_enable(self->fd[0]));
	sleep_ms(50);
	ASSERT_EQ(0, sim_tick(0, 0, 1000));
	ASSERT_EQ(0, sim_disable(self->fd[0]));
	log = log_open();
	ASSERT_NE(NULL, log);

	for (i = 0; i < 3; i++) {
		EXPECT_EQ(0, sim_read(self->fd[i]).running);
		EXPECT_EQ(0, sim_read(self->fd[i]).value);
		EXPECT_LT(0, sim_read(self->fd[i]).enabled);
	}
	while (log_next(log, &line)) {
		adds += !strcmp(line.op, "add") && !line.result;
		dels += !strcmp(line.op, "del");
		cancels += !strcmp(line.op, "cancel_txn");
	}
	EXPECT_LT(0, cancels);
	EXPECT_EQ(2 * cancels, adds);
	EXPECT_EQ(adds, dels);
	fclose(log);
}

TEST_F(sched, a_group_whose_leader_fails_is_not_even_tried)
{
	struct perf_event_attr attr = sim_attr("pmusim", SIM_FAIL);
	unsigned int i, fails = 0, adds = 0, dels = 0;
	struct sim_value value;
	struct sim_log line;
	__u64 leader;
	FILE *log;

	attr.disabled = 1;
	self->fd[0] = sim_open(&attr, -1, 0, -1);
	ASSERT_LE(0, self->fd[0]);
	leader = sim_id(self->fd[0]);
	attr = sim_attr("pmusim", 0);
	for (i = 1; i < 3; i++) {
		self->fd[i] = sim_open(&attr, -1, 0, self->fd[0]);
		ASSERT_LE(0, self->fd[i]);
	}
	ASSERT_EQ(0, log_on());
	ASSERT_EQ(0, sim_enable(self->fd[0]));
	sleep_ms(50);
	ASSERT_EQ(0, sim_tick(0, 0, 1000));
	ASSERT_EQ(0, sim_disable(self->fd[0]));
	log = log_open();
	ASSERT_NE(NULL, log);

	for (i = 0; i < 3; i++) {
		value = sim_read(self->fd[i]);
		EXPECT_EQ(0, value.value);
		EXPECT_EQ(0, value.running);
		EXPECT_LT(0, value.enabled);
	}
	while (log_next(log, &line)) {
		if (!strcmp(line.op, "add") && line.id == leader)
			fails += line.result < 0;
		else
			adds += !strcmp(line.op, "add");
		dels += !strcmp(line.op, "del");
	}
	EXPECT_LT(0, fails);
	EXPECT_EQ(0, adds);
	EXPECT_EQ(0, dels);
	fclose(log);
}

TEST_F(sched, a_group_that_the_pmu_does_not_commit_is_taken_back)
{
	unsigned int i, adds = 0, dels = 0, cancels = 0;
	struct sim_log line;
	FILE *log;

	ASSERT_EQ(0, open_group(self->fd, 3, 0, 1));
	ASSERT_EQ(0, sim_put("pmusim/fail_commit", "1"));
	ASSERT_EQ(0, log_on());
	ASSERT_EQ(0, sim_enable(self->fd[0]));
	/* The next turn of the event comes without any action. */
	for (i = 0; i < 1000 && !sim_read(self->fd[0]).running; i++)
		sleep_ms(10);
	ASSERT_EQ(0, sim_disable(self->fd[0]));
	log = log_open();
	ASSERT_NE(NULL, log);

	for (i = 0; i < 3; i++)
		EXPECT_LT(0, sim_read(self->fd[i]).running);
	while (log_next(log, &line)) {
		adds += !strcmp(line.op, "add") && !line.result;
		dels += !strcmp(line.op, "del");
		cancels += !strcmp(line.op, "cancel_txn");
	}
	EXPECT_EQ(1, cancels);
	EXPECT_EQ(6, adds);
	EXPECT_EQ(6, dels);
	fclose(log);
}

TEST_F(sched, a_group_that_never_fits_is_refused)
{
	EXPECT_EQ(-EINVAL, open_group(self->fd, 5, 0, 0));
}

TEST_F(sched, a_group_with_one_counter_for_two_is_refused)
{
	EXPECT_EQ(-EINVAL, open_group(self->fd, 2, SIM_MASK(0x2), 0));
}

TEST_F(sched, without_validation_it_is_accepted_and_never_on)
{
	ASSERT_EQ(0, sim_put("pmusim/validate_group", "0"));
	ASSERT_EQ(0, open_group(self->fd, 5, 0, 1));
	ASSERT_EQ(0, sim_enable(self->fd[0]));
	sleep_ms(50);
	EXPECT_EQ(0, sim_read(self->fd[0]).running);
	EXPECT_LT(0, sim_read(self->fd[0]).enabled);
}

TEST_F(sched, a_pinned_event_without_a_counter_is_in_error)
{
	struct perf_event_attr attr = sim_attr("pmusim", SIM_MASK(0x1));
	struct sim_value value;

	attr.pinned = 1;
	self->fd[0] = sim_open(&attr, -1, 0, -1);
	ASSERT_LE(0, self->fd[0]);
	self->fd[1] = sim_open(&attr, -1, 0, -1);
	ASSERT_LE(0, self->fd[1]);
	ASSERT_EQ(0, sim_tick(0, 0, 100));

	EXPECT_EQ(100, sim_count(self->fd[0]));
	/* End of file reports the error state. */
	EXPECT_EQ(0, read(self->fd[1], &value, sizeof(value)));

	/* Once a counter is free, enabling the event helps. */
	close(self->fd[0]);
	EXPECT_EQ(0, read(self->fd[1], &value, sizeof(value)));
	ASSERT_EQ(0, sim_enable(self->fd[1]));
	ASSERT_EQ(0, sim_tick(0, 0, 10));
	EXPECT_EQ(10, sim_count(self->fd[1]));
}

/* Only the leader is pinned, and only the leader reports the error state. */
TEST_F(sched, a_pinned_group_is_in_error_as_a_whole)
{
	struct perf_event_attr attr = sim_attr("pmusim", SIM_MASK(0x1));
	struct sim_value before[2], value;
	unsigned int i;

	attr.pinned = 1;
	self->fd[0] = sim_open(&attr, -1, 0, -1);
	ASSERT_LE(0, self->fd[0]);
	attr.disabled = 1;
	attr.config = SIM_MASK(0x2);
	self->fd[1] = sim_open(&attr, -1, 0, -1);
	ASSERT_LE(0, self->fd[1]);
	/* The leader and one member would fit. */
	attr.pinned = 0;
	attr.disabled = 0;
	for (i = 2; i < 4; i++) {
		attr.config = SIM_MASK(i == 2 ? 0x4 : 0x1);
		self->fd[i] = sim_open(&attr, -1, 0, self->fd[1]);
		ASSERT_LE(0, self->fd[i]);
	}
	ASSERT_EQ(0, sim_enable(self->fd[1]));
	EXPECT_EQ(0, read(self->fd[1], &value, sizeof(value)));
	for (i = 0; i < 2; i++)
		before[i] = sim_read(self->fd[i + 2]);
	for (i = 0; i < 4; i++)
		ASSERT_EQ(0, sim_tick(0, i, 100));
	sleep_ms(50);
	EXPECT_EQ(100, sim_count(self->fd[0]));
	for (i = 0; i < 2; i++) {
		value = sim_read(self->fd[i + 2]);
		EXPECT_EQ(0, value.value);
		EXPECT_EQ(0, value.running);
		EXPECT_EQ(before[i].enabled, value.enabled);
	}

	/* The group does not run again when there is room, unless it is enabled. */
	close(self->fd[0]);
	sleep_ms(50);
	EXPECT_EQ(0, read(self->fd[1], &value, sizeof(value)));
	ASSERT_EQ(0, sim_enable(self->fd[1]));
	for (i = 0; i < 3; i++)
		ASSERT_EQ(0, sim_tick(0, i, 10));
	for (i = 1; i < 4; i++)
		EXPECT_EQ(10, sim_count(self->fd[i]));
}

TEST_F(sched, a_pinned_event_takes_the_counter_of_another)
{
	struct perf_event_attr attr = sim_attr("pmusim", SIM_MASK(0x1));
	struct sim_value value;

	self->fd[0] = sim_open(&attr, -1, 0, -1);
	ASSERT_LE(0, self->fd[0]);
	ASSERT_EQ(0, sim_tick(0, 0, 7));
	attr.pinned = 1;
	self->fd[1] = sim_open(&attr, -1, 0, -1);
	ASSERT_LE(0, self->fd[1]);
	ASSERT_EQ(0, sim_tick(0, 0, 100));
	sleep_ms(50);
	ASSERT_EQ(0, sim_tick(0, 0, 100));

	EXPECT_EQ(7, sim_count(self->fd[0]));
	value = sim_read(self->fd[1]);
	EXPECT_EQ(200, value.value);
	EXPECT_EQ(value.enabled, value.running);
}

TEST_F(sched, an_exclusive_event_blocks_all_others)
{
	struct perf_event_attr attr = sim_attr("pmusim", 0);
	struct sim_value value;

	attr.pinned = 1;
	attr.exclusive = 1;
	self->fd[0] = sim_open(&attr, -1, 0, -1);
	ASSERT_LE(0, self->fd[0]);
	self->fd[1] = sim_open_cpu(0, 0);
	ASSERT_LE(0, self->fd[1]);
	sleep_ms(100);

	value = sim_read(self->fd[0]);
	EXPECT_EQ(value.enabled, value.running);
	value = sim_read(self->fd[1]);
	EXPECT_LT(0, value.enabled);
	EXPECT_EQ(0, value.running);
	close(self->fd[0]);
	EXPECT_TRUE(has_its_turn(self->fd[1]));
}

TEST_F(sched, an_exclusive_event_is_never_on_with_another)
{
	struct perf_event_attr attr = sim_attr("pmusim", 0);
	struct sim_log line;
	unsigned int on = 0, turns = 0;
	bool exclusive = false;
	__u64 id;
	FILE *log;

	attr.disabled = 1;
	attr.exclusive = 1;
	self->fd[0] = sim_open(&attr, -1, 0, -1);
	attr.exclusive = 0;
	self->fd[1] = sim_open(&attr, -1, 0, -1);
	ASSERT_LE(0, self->fd[0]);
	ASSERT_LE(0, self->fd[1]);
	id = sim_id(self->fd[0]);
	ASSERT_EQ(0, log_on());
	ASSERT_EQ(0, sim_enable(self->fd[0]));
	ASSERT_EQ(0, sim_enable(self->fd[1]));
	sleep_ms(300);
	EXPECT_TRUE(has_its_turn(self->fd[0]));
	EXPECT_TRUE(has_its_turn(self->fd[1]));
	ASSERT_EQ(0, sim_disable(self->fd[0]));
	ASSERT_EQ(0, sim_disable(self->fd[1]));
	log = log_open();
	ASSERT_NE(NULL, log);

	while (log_next(log, &line)) {
		if (!strcmp(line.op, "add") && !line.result) {
			on++;
			exclusive |= line.id == id;
			turns += line.id != id;
		} else if (!strcmp(line.op, "del")) {
			on--;
			exclusive &= line.id != id;
		}
		ASSERT_FALSE(exclusive && on > 1);
	}
	EXPECT_LT(0, turns);
	EXPECT_LT(0, sim_read(self->fd[0]).running);
	fclose(log);
}

static unsigned int next_random(unsigned int *state)
{
	*state = *state * 1103515245 + 12345;
	return *state >> 16;
}

/* Try each way to give all events a counter. */
static bool fits(const unsigned int *mask, unsigned int nr, unsigned int used)
{
	unsigned int i;

	if (!nr)
		return true;
	for (i = 0; i < NR_COUNTERS; i++) {
		if (*mask & ~used & (1U << i) && fits(mask + 1, nr - 1, used | 1U << i))
			return true;
	}
	return false;
}

TEST_F_TIMEOUT(sched, a_group_is_accepted_exactly_if_its_masks_can_be_met, 110)
{
	unsigned int round, i, nr, seed = 1, accepted = 0, refused = 0;
	unsigned int mask[MAX_EVENTS];
	struct perf_event_attr attr;
	struct sim_value value;

	for (round = 0; round < 300; round++) {
		nr = 0;
		do {
			mask[nr] = next_random(&seed) % 15 + 1;
			/* Masks of a single counter make the placement hard. */
			if (next_random(&seed) % 2)
				mask[nr] &= -mask[nr];
			attr = sim_attr("pmusim", SIM_MASK(mask[nr]));
			self->fd[nr] = sim_open(&attr, -1, 0, nr ? self->fd[0] : -1);
			nr++;
			ASSERT_EQ(fits(mask, nr, 0), self->fd[nr - 1] >= 0);
		} while (self->fd[nr - 1] >= 0);
		ASSERT_EQ(-EINVAL, self->fd[--nr]);
		refused++;

		/* An accepted group is on its counters all the time, on any of them. */
		value = sim_read(self->fd[nr - 1]);
		EXPECT_EQ(value.enabled, value.running);
		accepted += nr;
		for (i = 0; i < nr; i++)
			close(self->fd[i]);
	}
	EXPECT_EQ(300, refused);
	EXPECT_LT(300, accepted);
}

TEST_F(sched, events_move_to_make_room)
{
	unsigned int i, counter, mask[] = { 0xf, 0x7, 0x3, 0x1 };
	struct perf_event_attr attr;

	/* Each event takes the counter of the previous one, which has another choice. */
	for (i = 0; i < 4; i++) {
		attr = sim_attr("pmusim", SIM_MASK(mask[i]));
		attr.pinned = 1;
		self->fd[i] = sim_open(&attr, -1, 0, -1);
		ASSERT_LE(0, self->fd[i]);
		for (counter = 0; counter < 4; counter++)
			ASSERT_EQ(0, sim_tick(0, counter, 1000));
	}
	for (i = 0; i < 4; i++)
		EXPECT_EQ((4 - i) * 1000, sim_count(self->fd[i]));
}

struct attempts {
	unsigned int	all;
	unsigned int	good;
	/* Number of attempts that had to fail with -EAGAIN and did not */
	unsigned int	wrong;
};

/* Count the attempts to put an event on the PMU, every @nth of which has to fail. */
static struct attempts count_attempts(__u64 id, unsigned int nth)
{
	FILE *log = fopen(SIM_DIR "/log", "r");
	struct attempts sum = {};
	struct sim_log line;

	if (!log)
		return sum;
	while (log_next(log, &line)) {
		if (strcmp(line.op, "add") || line.id != id)
			continue;
		sum.good += !line.result;
		sum.wrong += !(++sum.all % nth) && line.result != -EAGAIN;
	}
	fclose(log);
	return sum;
}

TEST_F(sched, each_so_many_th_attempt_fails_and_no_other)
{
	struct perf_event_attr attr = sim_attr("pmusim", 0);
	struct attempts sum;
	unsigned int nth, i;

	attr.disabled = 1;
	for (nth = 1; nth <= 3; nth++) {
		attr.config2 = nth;
		self->fd[0] = sim_open(&attr, -1, 0, -1);
		ASSERT_LE(0, self->fd[0]);
		ASSERT_EQ(0, log_on());
		/* The core may try an event again before it is disabled. */
		for (i = 0; i < 10; i++) {
			ASSERT_EQ(0, sim_enable(self->fd[0]));
			ASSERT_EQ(0, sim_disable(self->fd[0]));
		}
		sim_put("log", "0");
		sum = count_attempts(sim_id(self->fd[0]), nth);
		EXPECT_LE(10, sum.all);
		EXPECT_EQ(0, sum.wrong);
		/* No other event needs the counters. */
		EXPECT_EQ(sum.all - sum.all / nth, sum.good);
		close(self->fd[0]);
	}
}

TEST_F(sched, an_event_that_fails_now_and_then_gets_its_turns)
{
	__u64 id, end = now_ns() + 20000000000ULL;
	struct perf_event_attr attr = sim_attr("pmusim", 0);
	struct sim_value value;
	struct attempts sum;

	attr.config2 = 2;
	attr.disabled = 1;
	self->fd[0] = sim_open(&attr, -1, 0, -1);
	ASSERT_LE(0, self->fd[0]);
	id = sim_id(self->fd[0]);
	ASSERT_EQ(0, log_on());
	ASSERT_EQ(0, sim_enable(self->fd[0]));
	for (unsigned int i = 1; i < 6; i++) {
		self->fd[i] = sim_open_cpu(0, 0);
		ASSERT_LE(0, self->fd[i]);
	}
	do {
		sleep_ms(50);
		sum = count_attempts(id, 2);
	} while ((sum.all < 20 || sum.good < 4) && now_ns() < end);
	sim_put("log", "0");
	EXPECT_LE(20, sum.all);
	EXPECT_LE(4, sum.good);
	EXPECT_EQ(0, sum.wrong);
	value = sim_read(self->fd[0]);
	EXPECT_LT(0, value.running);
	EXPECT_GT(value.enabled, value.running);
}

/* Check the order in which the core calls the methods of each event. */
static const char *check_order(FILE *log, const __u64 *ids, unsigned int nr,
			       unsigned int *calls)
{
	bool added[MAX_EVENTS] = {}, started[MAX_EVENTS] = {};
	struct sim_log line;
	unsigned int i;

	while (log_next(log, &line)) {
		for (i = 0; i < nr && ids[i] != line.id; i++)
			;
		if (i == nr)
			continue;
		(*calls)++;
		if (!strcmp(line.op, "add")) {
			if (added[i])
				return "added twice";
			added[i] = !line.result;
		} else if (!added[i]) {
			return "called while it was not added";
		} else if (!strcmp(line.op, "start")) {
			if (started[i])
				return "started twice";
			started[i] = true;
		} else if (!strcmp(line.op, "stop")) {
			if (!started[i])
				return "stopped and not started";
			started[i] = false;
		} else if (!strcmp(line.op, "del")) {
			/* The stop of the event itself must follow. */
			if (!log_next(log, &line) || strcmp(line.op, "stop") ||
			    line.id != ids[i])
				return "deleted and not stopped";
			started[i] = false;
			added[i] = false;
		}
	}
	for (i = 0; i < nr; i++) {
		if (added[i])
			return "left behind";
	}
	return NULL;
}

/* Findings in logs, most of which no kernel should cause. */
static const struct {
	const char	*calls;
	const char	*wrong;
} wrong_logs[] = {
	{ "add start stop start del stop", NULL },
	{ "add start stop del stop", NULL },
	{ "add add", "added twice" },
	{ "start", "called while it was not added" },
	{ "add start del stop stop", "called while it was not added" },
	{ "add start start", "started twice" },
	{ "add stop", "stopped and not started" },
	{ "add start stop read stop", "stopped and not started" },
	{ "add start del", "deleted and not stopped" },
	{ "add start stop", "left behind" },
};

TEST(wrong_order_is_found)
{
	unsigned int i, nr, calls = 0;
	const char *wrong, *call;
	char text[64];
	__u64 id = 7;
	FILE *log;

	for (i = 0; i < sizeof(wrong_logs) / sizeof(*wrong_logs); i++) {
		log = tmpfile();
		ASSERT_NE(NULL, log);
		snprintf(text, sizeof(text), "%s", wrong_logs[i].calls);
		nr = 0;
		for (call = strtok(text, " "); call; call = strtok(NULL, " "))
			fprintf(log, "%u 0 pmusim %s %llu 0 0\n", nr++, call, id);
		rewind(log);
		wrong = check_order(log, &id, 1, &calls);
		EXPECT_STREQ(wrong_logs[i].wrong ?: "", wrong ?: "") {
			TH_LOG("%s", wrong_logs[i].calls);
		}
		fclose(log);
	}
}

static bool log_is_whole(FILE *log)
{
	bool whole = true;
	char text[256];

	while (fgets(text, sizeof(text), log))
		whole = whole && strncmp(text, "missed", 6);
	rewind(log);
	return whole;
}

TEST_F(sched, start_and_stop_come_between_add_and_del)
{
	struct perf_event_attr attr = sim_attr("pmusim", 0);
	unsigned int i, turn, calls = 0, again = 0;
	__u64 ids[6], period = 10;
	const char *wrong;
	FILE *log;

	ASSERT_EQ(0, run_on(0));
	attr.disabled = 1;
	for (i = 0; i < 6; i++) {
		/* Two sampling events of the task and two of the CPU. */
		attr.sample_period = i % 3 ? 0 : 10;
		self->fd[i] = sim_open(&attr, i % 2 ? 0 : -1, i % 2 ? -1 : 0, -1);
		ASSERT_LE(0, self->fd[i]);
		ids[i] = sim_id(self->fd[i]);
	}
	for (turn = 0; turn < 20; turn++) {
		ASSERT_EQ(0, log_on());
		for (i = 0; i < 6; i++)
			ASSERT_EQ(0, sim_enable(self->fd[i]));
		for (i = 0; i < 10; i++)
			ASSERT_EQ(0, sim_tick(0, turn % 4, 35));
		sleep_ms(8);
		for (i = 0; i < 6; i++)
			sim_count(self->fd[i]);
		/* Running events are stopped for the change, and started again. */
		for (i = 0; i < 6; i += 3)
			ASSERT_EQ(0, ioctl(self->fd[i], PERF_EVENT_IOC_PERIOD, &period));
		for (i = 0; i < 6; i++)
			ASSERT_EQ(0, sim_disable(self->fd[i]));
		log = log_open();
		ASSERT_NE(NULL, log);
		/*
		 * The events take turns all the time, and a guest that stalled for half
		 * a second has more calls than the log has room for.
		 */
		if (!log_is_whole(log)) {
			ASSERT_GT(20, again++);
			turn--;
			fclose(log);
			continue;
		}
		wrong = check_order(log, ids, 6, &calls);
		EXPECT_EQ(NULL, wrong) {
			TH_LOG("%s", wrong);
		}
		fclose(log);
	}
	EXPECT_LT(100, calls);
}

TEST_F(sched, hardware_events_never_land_on_it)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_HARDWARE,
		.size = sizeof(attr),
	};
	struct sim_log line;
	unsigned int calls = 0;
	FILE *log;
	int fd;

	ASSERT_EQ(0, log_on());
	fd = sim_open(&attr, -1, 0, -1);
	attr.type = PERF_TYPE_RAW;
	sim_open(&attr, -1, 0, -1);
	attr.type = PERF_TYPE_HW_CACHE;
	sim_open(&attr, -1, 0, -1);
	sleep_ms(20);
	log = log_open();
	ASSERT_NE(NULL, log);
	while (log_next(log, &line))
		calls++;
	EXPECT_EQ(0, calls);
	fclose(log);
	if (fd >= 0)
		close(fd);
}

TEST_HARNESS_MAIN
