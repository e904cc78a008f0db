// SPDX-License-Identifier: GPL-2.0
/*
 * perfmon selftests - overflows: messages, masks, resets, restart, blocking
 */
#define _GNU_SOURCE

#include <dirent.h>
#include <linux/io_uring.h>
#include <sys/eventfd.h>

#include "../kselftest_harness.h"
#include "perfmon_helpers.h"

#define FAULTS	SW(PAGE_FAULTS)
#define BIT_OF(num)	(1ULL << ((num) % 64))

static struct pfarg_pmd notify_pmd(__u64 period)
{
	return (struct pfarg_pmd) {
		.reg_num = FAULTS,
		.reg_flags = PFM_REGFL_OVFL_NOTIFY,
		.reg_value = -period,
		.reg_long_reset = -period,
		.reg_short_reset = -period,
	};
}

FIXTURE(ovfl)
{
	struct pages pages;
	struct pfarg_pmd pmd;
	int fd;
};

FIXTURE_SETUP(ovfl)
{
	ASSERT_EQ(0, pages_map(&self->pages, 512));
	self->fd = pfm_open(0);
	ASSERT_LE(0, self->fd);
	self->pmd = notify_pmd(10);
}

FIXTURE_TEARDOWN(ovfl)
{
	close(self->fd);
	munmap(self->pages.mem, self->pages.size);
}

static void begin(struct __test_metadata *const _metadata, int fd, struct pfarg_pmd *pmd)
{
	ASSERT_EQ(0, pfm_write_pmds(fd, pmd, 1));
	ASSERT_EQ(0, pfm_load_self(fd));
	/* Code that reads a message must not fault while faults are counted. */
	pfm_msg(fd);
	ASSERT_EQ(0, pfm_start(fd, NULL));
}

TEST_F(ovfl, one_overflow_gives_one_message)
{
	union pfarg_msg msg;

	begin(_metadata, self->fd, &self->pmd);
	pages_touch(&self->pages, 9);
	EXPECT_EQ(0, pfm_msg(self->fd).type);
	pages_touch(&self->pages, 1);
	msg = pfm_msg(self->fd);
	ASSERT_EQ(PFM_MSG_OVFL, msg.type);
	EXPECT_EQ(getpid(), msg.pfm_ovfl_msg.msg_ovfl_pid);
	EXPECT_EQ(syscall(__NR_gettid), msg.pfm_ovfl_msg.msg_ovfl_tid);
	EXPECT_EQ(0, msg.pfm_ovfl_msg.msg_active_set);
	EXPECT_GT(sysconf(_SC_NPROCESSORS_CONF), msg.pfm_ovfl_msg.msg_ovfl_cpu);
	EXPECT_EQ(BIT_OF(FAULTS), msg.pfm_ovfl_msg.msg_ovfl_pmds[4]);
	EXPECT_EQ(0, msg.pfm_ovfl_msg.msg_ovfl_pmds[0]);
	pages_touch(&self->pages, 100);
	EXPECT_EQ(0, pfm_msg(self->fd).type);
	EXPECT_EQ(BIT_OF(FAULTS), pfm_info(self->fd, 0).set_ovfl_pmds[4]);
}

static __attribute__((noinline)) void touch_ten(volatile char *mem, size_t step)
{
	unsigned int i;

	for (i = 0; i < 10; i++)
		mem[i * step] = 1;
}

TEST_F(ovfl, message_tells_where_it_was)
{
	unsigned long func = (unsigned long)touch_ten, ip;

	begin(_metadata, self->fd, &self->pmd);
	touch_ten(self->pages.mem, self->pages.page);
	ip = pfm_msg(self->fd).pfm_ovfl_msg.msg_ovfl_ip;
	EXPECT_LE(func, ip);
	EXPECT_GT(func + 256, ip);
}

struct overflowing {
	struct pages *pages;
	int fd;
	int tid;
};

static void *thread_overflows(void *arg)
{
	struct overflowing *o = arg;

	o->tid = syscall(__NR_gettid);
	if (pfm_load_self(o->fd) || pfm_start(o->fd, NULL))
		return (void *)1;
	pages_touch(o->pages, 10);
	return NULL;
}

/* PID and TID differ only for a thread that is not the first of its process. */
TEST_F(ovfl, message_tells_the_process_and_its_thread)
{
	struct overflowing o = { .pages = &self->pages, .fd = self->fd };
	union pfarg_msg msg;
	pthread_t thread;
	void *ret;

	ASSERT_EQ(0, pfm_write_pmds(self->fd, &self->pmd, 1));
	ASSERT_EQ(0, pthread_create(&thread, NULL, thread_overflows, &o));
	ASSERT_EQ(0, pthread_join(thread, &ret));
	ASSERT_EQ(NULL, ret);
	ASSERT_NE(getpid(), o.tid);
	/* pthread_join() waits neither for the end of the exit nor for irq_work. */
	pfm_info(self->fd, 0);
	msg = pfm_msg(self->fd);
	ASSERT_EQ(PFM_MSG_OVFL, msg.type);
	EXPECT_EQ(getpid(), msg.pfm_ovfl_msg.msg_ovfl_pid);
	EXPECT_EQ(o.tid, msg.pfm_ovfl_msg.msg_ovfl_tid);
}

TEST_F(ovfl, notified_overflow_masks)
{
	struct pfarg_setdesc desc = { .set_id = 1 };

	begin(_metadata, self->fd, &self->pmd);
	pages_touch(&self->pages, 100);
	EXPECT_EQ(0, pfm_value(self->fd, 0, FAULTS));
	pages_touch(&self->pages, 100);
	EXPECT_EQ(0, pfm_value(self->fd, 0, FAULTS));
	EXPECT_EQ(-EBUSY, pfm_load_self(self->fd));
	EXPECT_EQ(-EBUSY, pfm_create_evtsets(self->fd, &desc, 1));
	EXPECT_EQ(-EBUSY, pfm_delete_evtsets(self->fd, &desc, 1));
}

TEST_F(ovfl, time_stands_still_while_masked)
{
	int clock = perf_counter(PERF_COUNT_SW_TASK_CLOCK);
	__u64 active, time[4];

	ASSERT_LE(0, clock);
	begin(_metadata, self->fd, &self->pmd);
	pages_touch(&self->pages, 10);
	active = pfm_info(self->fd, 0).set_act_duration;
	burn(2 * NSEC_PER_MSEC);
	EXPECT_EQ(active, pfm_info(self->fd, 0).set_act_duration);
	time[0] = perf_count(clock);
	EXPECT_EQ(0, pfm_restart(self->fd));
	time[1] = perf_count(clock);
	burn(2 * NSEC_PER_MSEC);
	time[2] = perf_count(clock);
	active = pfm_info(self->fd, 0).set_act_duration - active;
	time[3] = perf_count(clock);
	EXPECT_LT(time[1], time[2]);
	EXPECT_LE(time[2] - time[1], active);
	EXPECT_GE(time[3] - time[0], active);
	close(clock);
}

TEST_F(ovfl, restart_applies_the_long_reset)
{
	struct pfarg_pmd pmd;

	self->pmd.reg_long_reset = -1000ULL;
	self->pmd.reg_short_reset = -77ULL;
	begin(_metadata, self->fd, &self->pmd);
	pages_touch(&self->pages, 10);
	ASSERT_EQ(0, pfm_restart(self->fd));
	pages_touch(&self->pages, 5);
	ASSERT_EQ(0, pfm_stop(self->fd));
	pmd = pfm_pmd(self->fd, 0, FAULTS);
	EXPECT_EQ(-995ULL, pmd.reg_value);
	EXPECT_EQ(-1000ULL, pmd.reg_last_reset_val);
	EXPECT_EQ(-EBUSY, pfm_restart(self->fd));
	EXPECT_EQ(0, pfm_info(self->fd, 0).set_ovfl_pmds[4]);
}

TEST_F(ovfl, value_that_is_written_counts_as_a_reset)
{
	struct pfarg_pmd pmd;

	self->pmd.reg_short_reset = -77ULL;
	self->pmd.reg_flags = 0;
	ASSERT_EQ(0, pfm_write_pmds(self->fd, &self->pmd, 1));
	EXPECT_EQ(-10ULL, pfm_pmd(self->fd, 0, FAULTS).reg_last_reset_val);
	begin(_metadata, self->fd, &self->pmd);
	pages_touch(&self->pages, 5);
	EXPECT_EQ(-10ULL, pfm_pmd(self->fd, 0, FAULTS).reg_last_reset_val);
	pages_touch(&self->pages, 20);
	ASSERT_EQ(0, pfm_stop(self->fd));
	EXPECT_EQ(-77ULL, pfm_pmd(self->fd, 0, FAULTS).reg_last_reset_val);

	pmd = self->pmd;
	pmd.reg_value = 4242;
	ASSERT_EQ(0, pfm_write_pmds(self->fd, &pmd, 1));
	EXPECT_EQ(4242, pfm_pmd(self->fd, 0, FAULTS).reg_last_reset_val);
}

TEST_F(ovfl, each_period_after_a_restart_is_exact)
{
	unsigned int i;

	begin(_metadata, self->fd, &self->pmd);
	for (i = 0; i < 50; i++) {
		pages_touch(&self->pages, 9);
		ASSERT_EQ(0, pfm_msg(self->fd).type);
		pages_touch(&self->pages, 1);
		ASSERT_EQ(PFM_MSG_OVFL, pfm_msg(self->fd).type);
		ASSERT_EQ(0, pfm_restart(self->fd));
	}
	EXPECT_EQ(-EBUSY, pfm_restart(self->fd));
}

TEST_F(ovfl, overflow_that_nobody_wants_resets_short_and_goes_on)
{
	struct pfarg_pmd pmd;

	self->pmd.reg_flags = 0;
	self->pmd.reg_short_reset = -30ULL;
	begin(_metadata, self->fd, &self->pmd);
	pages_touch(&self->pages, 10 + 30 * 7 + 4);
	ASSERT_EQ(0, pfm_stop(self->fd));
	pmd = pfm_pmd(self->fd, 0, FAULTS);
	EXPECT_EQ(-26ULL, pmd.reg_value);
	EXPECT_EQ(-30ULL, pmd.reg_last_reset_val);
	EXPECT_EQ(0, pfm_msg(self->fd).type);
}

/* sample.c tests the mean, because it has more samples. */
TEST_F(ovfl, random_resets_stay_in_their_range)
{
	const __u64 mask = 0x1f, base = -10ULL;
	unsigned int i, differ = 0;
	__u64 last = 0, seen = 0;

	self->pmd.reg_flags |= PFM_REGFL_RANDOM;
	self->pmd.reg_value = -1ULL;
	self->pmd.reg_long_reset = base;
	self->pmd.reg_random_mask = mask;
	begin(_metadata, self->fd, &self->pmd);
	for (i = 0; i < 400; i++) {
		__u64 value;

		pages_touch(&self->pages, 42);
		ASSERT_EQ(PFM_MSG_OVFL, pfm_msg(self->fd).type);
		ASSERT_EQ(0, pfm_restart(self->fd));
		value = pfm_pmd(self->fd, 0, FAULTS).reg_last_reset_val;
		ASSERT_GE(base, value);
		ASSERT_LE(base - mask, value);
		seen |= 1ULL << (base - value);
		differ += value != last;
		last = value;
	}
	EXPECT_LT(300, differ);
	/* The probability that one of them never comes is 1 to 10000. */
	EXPECT_LE(31, __builtin_popcountll(seen));
}

TEST_F(ovfl, random_mask_of_zero_varies_nothing)
{
	self->pmd.reg_flags |= PFM_REGFL_RANDOM;
	begin(_metadata, self->fd, &self->pmd);
	pages_touch(&self->pages, 10);
	ASSERT_EQ(0, pfm_restart(self->fd));
	EXPECT_EQ(-10ULL, pfm_pmd(self->fd, 0, FAULTS).reg_last_reset_val);
}

TEST_F(ovfl, registers_named_are_reset_too)
{
	struct pfarg_pmd other = {
		.reg_num = SW(PAGE_FAULTS_MIN),
		.reg_long_reset = 5000,
		.reg_short_reset = 6000,
	};

	ASSERT_EQ(0, pfm_write_pmds(self->fd, &other, 1));
	self->pmd.reg_reset_pmds[4] = BIT_OF(SW(PAGE_FAULTS_MIN));
	begin(_metadata, self->fd, &self->pmd);
	pages_touch(&self->pages, 10);
	ASSERT_EQ(0, pfm_restart(self->fd));
	pages_touch(&self->pages, 3);
	EXPECT_EQ(5003, pfm_value(self->fd, 0, SW(PAGE_FAULTS_MIN)));

	self->pmd.reg_flags = 0;
	ASSERT_EQ(0, pfm_write_pmds(self->fd, &self->pmd, 1));
	pages_touch(&self->pages, 14);
	/* The fault that overflows counts as a minor fault only after the overflow. */
	EXPECT_EQ(6005, pfm_value(self->fd, 0, SW(PAGE_FAULTS_MIN)));
}

/* Clocks are stopped and started in another way than counters. */
TEST_F(ovfl, clocks_named_are_reset_too)
{
	struct pfarg_pmd clock = { .reg_num = SW(TASK_CLOCK), .reg_value = 1ULL << 62 };
	int perf = perf_counter(PERF_COUNT_SW_TASK_CLOCK);
	__u64 time[2], value;

	ASSERT_LE(0, perf);
	ASSERT_EQ(0, pfm_write_pmds(self->fd, &clock, 1));
	self->pmd.reg_reset_pmds[4] = BIT_OF(SW(TASK_CLOCK));
	self->pmd.reg_flags = 0;
	begin(_metadata, self->fd, &self->pmd);
	EXPECT_LT(1ULL << 62, pfm_value(self->fd, 0, SW(TASK_CLOCK)));
	pages_touch(&self->pages, 10);
	/* pfm_info() completes work that irq_work may not have done yet. */
	pfm_info(self->fd, 0);
	time[0] = perf_count(perf);
	burn(NSEC_PER_MSEC);
	time[1] = perf_count(perf);
	value = pfm_value(self->fd, 0, SW(TASK_CLOCK));
	EXPECT_LT(time[0], time[1]);
	EXPECT_LE(time[1] - time[0], value);
	EXPECT_GT(1ULL << 61, value);
	close(perf);
}

TEST_F(ovfl, clock_overflows)
{
	struct pfarg_pmd clock = {
		.reg_num = SW(TASK_CLOCK),
		.reg_flags = PFM_REGFL_OVFL_NOTIFY,
		.reg_value = -2 * NSEC_PER_MSEC,
		.reg_long_reset = -1 * NSEC_PER_MSEC,
	};
	__u64 before, active = 0, period = 2 * NSEC_PER_MSEC;
	unsigned int whole = 0;
	long began;

	ASSERT_EQ(0, pfm_write_pmds(self->fd, &clock, 1));
	ASSERT_EQ(0, pfm_load_self(self->fd));
	began = switches();
	ASSERT_EQ(0, pfm_start(self->fd, NULL));
	while (whole < 10) {
		while (!pfm_msg_now(self->fd).type)
			burn(NSEC_PER_MSEC / 10);
		before = active;
		active = pfm_info(self->fd, 0).set_act_duration;
		/* Timers are late, not early, unless the thread leaves the CPU. */
		if (switches() == began) {
			EXPECT_LE(period / 1000 * 999, active - before);
			whole++;
		}
		period = NSEC_PER_MSEC;
		began = switches();
		ASSERT_EQ(0, pfm_restart(self->fd));
	}
}

/*
 * Maximum progress of the thread in a fixed time: other load may take most of some
 * periods, but not of all.
 */
#define NR_ROUNDS	10

static void most_loops(unsigned long *most)
{
	__u64 end = now_ns(CLOCK_MONOTONIC) + 20 * NSEC_PER_MSEC;
	unsigned long loops = 0;
	volatile int i;

	for (; now_ns(CLOCK_MONOTONIC) < end; loops++) {
		for (i = 0; i < 100; i++)
			;
	}
	if (loops > *most)
		*most = loops;
}

static int open_clock(__u64 config)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = config,
		.sample_period = 1,
	};

	return syscall(__NR_perf_event_open, &attr, 0, -1, -1, 0);
}

/*
 * Perf rounds each period up to 10 us, and so does a reset, otherwise the task would
 * make no progress.
 */
TEST_F(ovfl, periods_of_one_nanosecond_leave_the_task_its_time)
{
	static const int clocks[] = { PERF_COUNT_SW_CPU_CLOCK, PERF_COUNT_SW_TASK_CLOCK };
	unsigned long with_perf = 0, with_us = 0;
	int fd[ARRAY_SIZE(clocks)];
	unsigned int i, round;

	for (i = 0; i < ARRAY_SIZE(clocks); i++) {
		struct pfarg_pmd clock = {
			.reg_num = PFM_SW_BASE + clocks[i],
			.reg_value = -1ULL,
			.reg_short_reset = -1ULL,
		};

		ASSERT_EQ(0, pfm_write_pmds(self->fd, &clock, 1));
	}
	ASSERT_EQ(0, pfm_load_self(self->fd));
	for (round = 0; round < NR_ROUNDS; round++) {
		for (i = 0; i < ARRAY_SIZE(clocks); i++) {
			fd[i] = open_clock(clocks[i]);
			ASSERT_LE(0, fd[i]);
		}
		most_loops(&with_perf);
		for (i = 0; i < ARRAY_SIZE(clocks); i++)
			close(fd[i]);

		ASSERT_EQ(0, pfm_start(self->fd, NULL));
		most_loops(&with_us);
		ASSERT_EQ(0, pfm_stop(self->fd));
	}
	TH_LOG("%lu loops beside perf's own clocks, %lu here", with_perf, with_us);
	EXPECT_LT(with_perf / 4, with_us);
}

/* Use the same events by control registers of the software PMU. */
TEST(clocks_chosen_by_a_control_register_are_clocks_too)
{
	struct pfarg_ctx ctx = { .ctx_pmu_type = PERF_TYPE_SOFTWARE };
	struct pfm_dfl_smpl_arg arg = { .buf_size = 65536 };
	struct pfarg_pmd pmd = { .reg_value = -20000ULL, .reg_short_reset = -1ULL };
	unsigned long with_perf, with_us;
	struct pfarg_pmc pmc = { };
	int fd, perf, i, round;

	for (i = 0; i < 2; i++) {
		with_perf = 0;
		with_us = 0;
		pmc.reg_value = i ? PERF_COUNT_SW_TASK_CLOCK : PERF_COUNT_SW_CPU_CLOCK;
		fd = i ? pfm_create(&ctx, "default", &arg, sizeof(arg)) :
			 pfm_create(&ctx, NULL, NULL, 0);
		ASSERT_LE(0, fd);
		ASSERT_EQ(0, pfm_write_pmcs(fd, &pmc, 1));
		ASSERT_EQ(0, pfm_write_pmds(fd, &pmd, 1));
		ASSERT_EQ(0, pfm_load_self(fd));
		for (round = 0; round < NR_ROUNDS; round++) {
			perf = open_clock(pmc.reg_value);
			ASSERT_LE(0, perf);
			most_loops(&with_perf);
			close(perf);

			ASSERT_EQ(0, pfm_start(fd, NULL));
			most_loops(&with_us);
			ASSERT_EQ(0, pfm_stop(fd));
		}
		TH_LOG("%lu loops beside perf's own clock, %lu here", with_perf, with_us);
		EXPECT_LT(with_perf / 4, with_us);
		close(fd);
	}
}

static volatile sig_atomic_t sigio;

static void on_sigio(int sig)
{
	sigio++;
}

static void want_sigio(int fd)
{
	sigio = 0;
	signal(SIGIO, on_sigio);
	fcntl(fd, F_SETOWN, getpid());
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_ASYNC);
}

static void wait_sigio(int n)
{
	while (sigio < n)
		usleep(100);
}

TEST_F(ovfl, notification_raises_sigio)
{
	want_sigio(self->fd);
	begin(_metadata, self->fd, &self->pmd);
	pages_touch(&self->pages, 10);
	wait_sigio(1);
	EXPECT_EQ(PFM_MSG_OVFL, pfm_msg(self->fd).type);
}

TEST(no_msg_gives_no_message_but_the_rest)
{
	struct pfarg_pmd pmd = notify_pmd(10);
	struct pages pages;
	int fd;

	fd = pfm_open(PFM_FL_OVFL_NO_MSG);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, pages_map(&pages, 64));
	want_sigio(fd);
	begin(_metadata, fd, &pmd);
	pages_touch(&pages, 20);
	wait_sigio(1);
	EXPECT_EQ(0, pfm_msg(fd).type);
	EXPECT_EQ(0, pfm_value(fd, 0, FAULTS));
	EXPECT_EQ(0, pfm_restart(fd));
	EXPECT_EQ(-10ULL, pfm_value(fd, 0, FAULTS));
	close(fd);
}

TEST_F(ovfl, poll_tells_of_messages)
{
	struct pollfd p = { .fd = self->fd, .events = POLLIN };

	begin(_metadata, self->fd, &self->pmd);
	EXPECT_EQ(0, poll(&p, 1, 0));
	pages_touch(&self->pages, 10);
	EXPECT_EQ(1, poll(&p, 1, 5000));
	EXPECT_EQ(POLLIN, p.revents);
	EXPECT_EQ(PFM_MSG_OVFL, pfm_msg(self->fd).type);
	EXPECT_EQ(0, poll(&p, 1, 0));
}

TEST_F(ovfl, messages_wait_until_they_are_read)
{
	unsigned int i;

	begin(_metadata, self->fd, &self->pmd);
	for (i = 0; i < 8; i++) {
		pages_touch(&self->pages, 10);
		ASSERT_EQ(0, pfm_restart(self->fd));
	}
	/* The ninth message has no slot: the overflow masks, and a restart still works. */
	EXPECT_EQ(0, pfm_info(self->fd, 0).set_lost);
	pages_touch(&self->pages, 20);
	EXPECT_EQ(1, pfm_info(self->fd, 0).set_lost);
	EXPECT_EQ(0, pfm_value(self->fd, 0, FAULTS));
	for (i = 0; i < 8; i++)
		EXPECT_EQ(PFM_MSG_OVFL, pfm_msg(self->fd).type);
	EXPECT_EQ(0, pfm_msg(self->fd).type);
	EXPECT_EQ(0, pfm_restart(self->fd));
	pages_touch(&self->pages, 10);
	EXPECT_EQ(PFM_MSG_OVFL, pfm_msg(self->fd).type);
}

static void *reader(void *arg)
{
	union pfarg_msg msg;
	int fd = *(int *)arg;

	if (read(fd, &msg, sizeof(msg)) != sizeof(msg) || msg.type != PFM_MSG_OVFL)
		return (void *)1;
	return NULL;
}

TEST_F(ovfl, each_of_two_readers_gets_one)
{
	pthread_t thread[2];
	unsigned int i;
	void *ret;

	ASSERT_EQ(0, pfm_write_pmds(self->fd, &self->pmd, 1));
	ASSERT_EQ(0, pfm_load_self(self->fd));
	/* As begin(), but with the file of the writer. */
	pfm_msg(self->fd);
	for (i = 0; i < 2; i++)
		ASSERT_EQ(0, pthread_create(&thread[i], NULL, reader, &self->fd));
	ASSERT_EQ(0, pfm_start(self->fd, NULL));
	for (i = 0; i < 2; i++) {
		pages_touch(&self->pages, 10);
		ASSERT_EQ(0, pfm_restart(self->fd));
	}
	for (i = 0; i < 2; i++) {
		ASSERT_EQ(0, pthread_join(thread[i], &ret));
		EXPECT_EQ(NULL, ret);
	}
}

TEST_F(ovfl, loading_forgets_old_messages)
{
	begin(_metadata, self->fd, &self->pmd);
	pages_touch(&self->pages, 10);
	ASSERT_EQ(0, pfm_unload(self->fd));
	EXPECT_EQ(-EBUSY, pfm_restart(self->fd));
	ASSERT_EQ(0, pfm_load_self(self->fd));
	EXPECT_EQ(0, pfm_msg(self->fd).type);
	EXPECT_EQ(-EBUSY, pfm_restart(self->fd));
}

TEST_F(ovfl, stop_and_start_leave_the_mask)
{
	begin(_metadata, self->fd, &self->pmd);
	pages_touch(&self->pages, 10);
	ASSERT_EQ(0, pfm_stop(self->fd));
	ASSERT_EQ(0, pfm_start(self->fd, NULL));
	pages_touch(&self->pages, 10);
	EXPECT_EQ(0, pfm_value(self->fd, 0, FAULTS));
	ASSERT_EQ(0, pfm_stop(self->fd));
	ASSERT_EQ(0, pfm_restart(self->fd));
	pages_touch(&self->pages, 5);
	EXPECT_EQ(-10ULL, pfm_value(self->fd, 0, FAULTS));
	ASSERT_EQ(0, pfm_start(self->fd, NULL));
	pages_touch(&self->pages, 5);
	EXPECT_EQ(-5ULL, pfm_value(self->fd, 0, FAULTS));
}

TEST_F(ovfl, period_of_one_works)
{
	unsigned int i;

	self->pmd = notify_pmd(1);
	begin(_metadata, self->fd, &self->pmd);
	for (i = 0; i < 20; i++) {
		pages_touch(&self->pages, 1);
		ASSERT_EQ(PFM_MSG_OVFL, pfm_msg(self->fd).type);
		ASSERT_EQ(0, pfm_restart(self->fd));
	}
}

TEST_F(ovfl, values_far_from_wrapping_do_not_overflow)
{
	static const __u64 values[] = { 0, 1, (1ULL << 63) - 1, 1ULL << 63, (1ULL << 63) + 1 };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(values); i++) {
		self->pmd.reg_value = values[i];
		ASSERT_EQ(0, pfm_write_pmds(self->fd, &self->pmd, 1));
		ASSERT_EQ(0, pfm_load_self(self->fd));
		ASSERT_EQ(0, pfm_start(self->fd, NULL));
		pages_touch(&self->pages, 50);
		ASSERT_EQ(0, pfm_unload(self->fd));
		EXPECT_EQ(values[i] + 50, pfm_value(self->fd, 0, FAULTS));
		EXPECT_EQ(0, pfm_msg(self->fd).type);
	}
}

/* The target touches pages and counts them; messages notify the test. */
static void child_touches(struct shared *shared)
{
	struct pages pages;

	if (pages_map(&pages, 64))
		return;
	shared->tid = getpid();
	while (!shared->go)
		usleep(100);
	for (;;) {
		pages_touch(&pages, 1);
		shared->progress++;
	}
}

static void on_usr1(int sig)
{
}

static void child_touches_usr1(struct shared *shared)
{
	struct sigaction act = { .sa_handler = on_usr1 };

	sigaction(SIGUSR1, &act, NULL);
	child_touches(shared);
}

FIXTURE(blocking)
{
	struct shared *shared;
	pid_t pid;
	int fd;
};

FIXTURE_SETUP(blocking)
{
	struct pfarg_pmd pmd = notify_pmd(100);
	union pfarg_msg msg;

	self->shared = shared_map();
	ASSERT_NE(MAP_FAILED, self->shared);
	self->pid = child_run(child_touches_usr1, self->shared);
	while (!self->shared->tid)
		usleep(100);
	self->fd = pfm_open(PFM_FL_NOTIFY_BLOCK | PFM_FL_REMOTE);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, pfm_write_pmds(self->fd, &pmd, 1));
	ASSERT_EQ(0, pfm_load_tid(self->fd, self->pid, 0));
	ASSERT_EQ(0, pfm_start(self->fd, NULL));
	self->shared->go = 1;
	ASSERT_EQ((ssize_t)sizeof(msg), read(self->fd, &msg, sizeof(msg)));
	ASSERT_EQ(PFM_MSG_OVFL, msg.type);
	ASSERT_EQ(self->pid, msg.pfm_ovfl_msg.msg_ovfl_tid);
}

FIXTURE_TEARDOWN(blocking)
{
	child_kill(self->pid);
	close(self->fd);
}

/* Tell whether the child stands still, after enough time for much progress. */
static bool stands_still(struct shared *shared)
{
	unsigned long seen;

	usleep(20000);
	seen = shared->progress;
	usleep(20000);
	return shared->progress == seen;
}

/* Wait until the child has moved, because a child without a CPU seems to stand still. */
static void wait_progress_by(struct shared *shared, unsigned long steps)
{
	unsigned long seen = shared->progress;

	while (shared->progress < seen + steps)
		usleep(100);
}

static void wait_progress(struct shared *shared)
{
	wait_progress_by(shared, 1);
}

TEST_F(blocking, target_waits_for_the_restart)
{
	union pfarg_msg msg;
	unsigned int i;

	for (i = 0; i < 5; i++) {
		EXPECT_TRUE(stands_still(self->shared));
		EXPECT_EQ(0, pfm_value(self->fd, 0, FAULTS));
		ASSERT_EQ(0, pfm_restart(self->fd));
		ASSERT_EQ((ssize_t)sizeof(msg), read(self->fd, &msg, sizeof(msg)));
	}
}

TEST_F(blocking, signal_ends_the_wait_without_a_reset)
{
	EXPECT_TRUE(stands_still(self->shared));
	ASSERT_EQ(0, kill(self->pid, SIGUSR1));
	wait_progress(self->shared);
	EXPECT_EQ(0, pfm_value(self->fd, 0, FAULTS));
	wait_progress_by(self->shared, 1000);
	EXPECT_EQ(0, pfm_restart(self->fd));
	while (!pfm_msg(self->fd).type)
		usleep(100);
	EXPECT_TRUE(stands_still(self->shared));
}

TEST_F(blocking, target_can_be_killed)
{
	int status;

	EXPECT_TRUE(stands_still(self->shared));
	ASSERT_EQ(0, kill(self->pid, SIGKILL));
	ASSERT_EQ(self->pid, waitpid(self->pid, &status, 0));
	EXPECT_EQ(PFM_MSG_END, pfm_msg(self->fd).type);
}

TEST_F(blocking, close_lets_the_target_go)
{
	EXPECT_TRUE(stands_still(self->shared));
	close(self->fd);
	wait_progress(self->shared);
	wait_progress_by(self->shared, 1000);
}

TEST_F(blocking, unload_lets_the_target_go)
{
	EXPECT_TRUE(stands_still(self->shared));
	EXPECT_EQ(0, pfm_unload(self->fd));
	wait_progress(self->shared);
	wait_progress_by(self->shared, 1000);
}

/*
 * A thread whose next fault is in the kernel, in a call that then sleeps. It has
 * done the same before, so that nothing else faults.
 */
struct sleeper {
	struct pollfd *poll[2];
	struct shared *shared;
	int pipe[2];
};

static struct sleeper *sleeper;

static void child_sleeps(struct shared *shared)
{
	unsigned int i;

	for (i = 0; i < 2; i++) {
		while (shared->go <= i)
			;
		poll(sleeper->poll[i], 1, i ? -1 : 0);
		shared->tid = getpid();
	}
	for (;;)
		shared->progress++;
}

static int sleeper_make(struct sleeper *s)
{
	int i, page = getpagesize();

	s->shared = shared_map();
	if (s->shared == MAP_FAILED || pipe(s->pipe))
		return -1;
	s->shared->go = 1;
	for (i = 0; i < 2; i++) {
		s->poll[i] = mmap(NULL, page, PROT_READ | PROT_WRITE,
				  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		if (s->poll[i] == MAP_FAILED)
			return -1;
		*s->poll[i] = (struct pollfd) { .fd = s->pipe[0], .events = POLLIN };
	}
	sleeper = s;
	return 0;
}

static void target_ready(struct shared *shared)
{
	while (!shared->tid)
		usleep(100);
}

TEST(blocking_context_blocks_its_target_and_nobody_else)
{
	struct pfarg_pmd pmd = notify_pmd(1);
	struct shared *other = shared_map();
	struct sleeper sleeper;
	union pfarg_msg msg;
	pid_t first, second;
	int fd;

	ASSERT_NE(MAP_FAILED, other);
	ASSERT_EQ(0, sleeper_make(&sleeper));
	first = child_run(child_sleeps, sleeper.shared);
	second = child_run(child_touches_usr1, other);
	target_ready(sleeper.shared);
	target_ready(other);
	fd = pfm_open(PFM_FL_NOTIFY_BLOCK | PFM_FL_REMOTE);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, pfm_write_pmds(fd, &pmd, 1));
	ASSERT_EQ(0, pfm_load_tid(fd, first, 0));
	ASSERT_EQ(0, pfm_start(fd, NULL));
	sleeper.shared->go = 2;
	ASSERT_EQ((ssize_t)sizeof(msg), read(fd, &msg, sizeof(msg)));
	ASSERT_EQ(first, msg.pfm_ovfl_msg.msg_ovfl_tid);
	/* The address is in the kernel. */
	ASSERT_GT(0, (__s64)msg.pfm_ovfl_msg.msg_ovfl_ip);

	/* The thread sleeps before the point where it would block, and is released. */
	ASSERT_EQ(0, pfm_unload(fd));
	pmd = notify_pmd(100);
	ASSERT_EQ(0, pfm_write_pmds(fd, &pmd, 1));
	ASSERT_EQ(0, pfm_load_tid(fd, second, 0));
	ASSERT_EQ(0, pfm_start(fd, NULL));
	other->go = 1;
	ASSERT_EQ((ssize_t)sizeof(msg), read(fd, &msg, sizeof(msg)));
	ASSERT_EQ(second, msg.pfm_ovfl_msg.msg_ovfl_tid);
	EXPECT_TRUE(stands_still(other));
	EXPECT_EQ(0, sleeper.shared->progress);
	ASSERT_EQ(1, write(sleeper.pipe[1], "", 1));
	usleep(20000);
	wait_progress_by(sleeper.shared, 1000);
	EXPECT_TRUE(stands_still(other));
	ASSERT_EQ(0, pfm_restart(fd));
	ASSERT_EQ((ssize_t)sizeof(msg), read(fd, &msg, sizeof(msg)));
	child_kill(first);
	child_kill(second);
	close(fd);
}

/* Load on the same thread again: work that was queued before has no effect. */
TEST(blocking_context_blocks_a_target_that_it_comes_back_to)
{
	struct pfarg_pmd pmd = notify_pmd(1);
	struct sleeper sleeper;
	union pfarg_msg msg;
	pid_t pid;
	int fd;

	ASSERT_EQ(0, sleeper_make(&sleeper));
	pid = child_run(child_sleeps, sleeper.shared);
	target_ready(sleeper.shared);
	fd = pfm_open(PFM_FL_NOTIFY_BLOCK | PFM_FL_REMOTE);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, pfm_write_pmds(fd, &pmd, 1));
	ASSERT_EQ(0, pfm_load_tid(fd, pid, 0));
	ASSERT_EQ(0, pfm_start(fd, NULL));
	sleeper.shared->go = 2;
	ASSERT_EQ((ssize_t)sizeof(msg), read(fd, &msg, sizeof(msg)));
	ASSERT_EQ(0, pfm_unload(fd));
	ASSERT_EQ(0, pfm_load_tid(fd, pid, 0));
	ASSERT_EQ(1, write(sleeper.pipe[1], "", 1));
	wait_progress(sleeper.shared);
	wait_progress_by(sleeper.shared, 1000);
	child_kill(pid);
	close(fd);
}

#define COMPLETIONS	200

/*
 * A ring of io_uring with one request, which the child submits and the test completes
 * again and again. The number of completions is in memory that both of them share.
 */
struct ring {
	unsigned int *completed;
	int event;
	int fd;
};

static struct ring ring;

/* Return: 0, or -1 if there is no io_uring */
static int ring_make(void)
{
	struct io_uring_params params = {
		.flags = IORING_SETUP_CQSIZE,
		.cq_entries = 2 * COMPLETIONS,
	};
	unsigned int *array, *tail;
	struct io_uring_sqe *sqe;
	char *map;

	ring.event = eventfd(0, 0);
	ring.fd = syscall(__NR_io_uring_setup, 4, &params);
	if (ring.event < 0 || ring.fd < 0 || !(params.features & IORING_FEAT_SINGLE_MMAP))
		return -1;
	map = mmap(NULL, params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe),
		   PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring.fd,
		   IORING_OFF_SQ_RING);
	sqe = mmap(NULL, 4 * sizeof(*sqe), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
		   ring.fd, IORING_OFF_SQES);
	if (map == MAP_FAILED || sqe == MAP_FAILED)
		return -1;
	sqe->opcode = IORING_OP_POLL_ADD;
	sqe->fd = ring.event;
	sqe->len = IORING_POLL_ADD_MULTI;
	sqe->poll32_events = POLLIN;
	array = (unsigned int *)(map + params.sq_off.array);
	tail = (unsigned int *)(map + params.sq_off.tail);
	array[0] = 0;
	__atomic_store_n(tail, 1, __ATOMIC_RELEASE);
	ring.completed = (unsigned int *)(map + params.cq_off.tail);
	return 0;
}

static void child_touches_ring(struct shared *shared)
{
	if (syscall(__NR_io_uring_enter, ring.fd, 1, 0, 0, NULL, 0) != 1)
		shared->done = 1;
	child_touches(shared);
}

/* The kernel completes the request in work that the target runs, as it would for a signal. */
static void ring_complete(unsigned int number)
{
	const __u64 one = 1;

	if (write(ring.event, &one, sizeof(one)) != sizeof(one))
		return;
	while (__atomic_load_n(ring.completed, __ATOMIC_ACQUIRE) < number)
		usleep(100);
}

TEST(completions_of_the_target_do_not_end_its_wait)
{
	struct pfarg_pmd pmd = notify_pmd(100);
	struct shared *shared = shared_map();
	union pfarg_msg msg;
	unsigned int i;
	pid_t pid;
	int fd;

	ASSERT_NE(MAP_FAILED, shared);
	if (ring_make())
		SKIP(return, "no io_uring");
	pid = child_run(child_touches_ring, shared);
	target_ready(shared);
	ASSERT_EQ(0, shared->done);
	fd = pfm_open(PFM_FL_NOTIFY_BLOCK | PFM_FL_REMOTE);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, pfm_write_pmds(fd, &pmd, 1));
	ASSERT_EQ(0, pfm_load_tid(fd, pid, 0));
	ASSERT_EQ(0, pfm_start(fd, NULL));
	shared->go = 1;
	ASSERT_EQ((ssize_t)sizeof(msg), read(fd, &msg, sizeof(msg)));
	EXPECT_TRUE(stands_still(shared));
	/* More often than the stack of the kernel has room for waits within waits. */
	for (i = 1; i <= COMPLETIONS; i++)
		ring_complete(i);
	EXPECT_TRUE(stands_still(shared));
	EXPECT_EQ(0, pfm_value(fd, 0, FAULTS));
	ASSERT_EQ(0, pfm_restart(fd));
	ASSERT_EQ((ssize_t)sizeof(msg), read(fd, &msg, sizeof(msg)));
	child_kill(pid);
	close(fd);
	close(ring.fd);
	close(ring.event);
}

static void child_polls_ring(struct shared *shared)
{
	struct io_uring_params params = { .flags = IORING_SETUP_SQPOLL };

	shared->go = syscall(__NR_io_uring_setup, 4, &params);
	shared->done = 1;
	for (;;)
		pause();
}

/* A thread of the process other than its first one */
static int other_thread(pid_t pid)
{
	struct dirent *entry;
	char path[64];
	int tid = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	dir = opendir(path);
	while (dir && (entry = readdir(dir))) {
		if (atoi(entry->d_name) && atoi(entry->d_name) != pid)
			tid = atoi(entry->d_name);
	}
	if (dir)
		closedir(dir);
	return tid;
}

/* The thread never returns to user mode, where it could wait. */
TEST(thread_of_io_uring_cannot_be_blocked)
{
	int counting = pfm_open(PFM_FL_REMOTE), blocking, tid;
	struct shared *shared = shared_map();
	pid_t pid;

	ASSERT_NE(MAP_FAILED, shared);
	ASSERT_LE(0, counting);
	blocking = pfm_open(PFM_FL_NOTIFY_BLOCK | PFM_FL_REMOTE);
	ASSERT_LE(0, blocking);
	pid = child_run(child_polls_ring, shared);
	while (!shared->done)
		usleep(1000);
	tid = other_thread(pid);
	if ((int)shared->go < 0 || !tid) {
		child_kill(pid);
		SKIP(return, "no io_uring");
	}
	EXPECT_EQ(-EPERM, pfm_load_tid(blocking, tid, 0));
	EXPECT_EQ(0, pfm_load_tid(counting, tid, 0));
	EXPECT_EQ(0, pfm_unload(counting));
	EXPECT_EQ(0, pfm_load_tid(blocking, pid, 0));
	child_kill(pid);
	close(counting);
	close(blocking);
}

TEST(restart_of_another_thread_is_done_when_it_returns)
{
	struct shared *shared = shared_map();
	struct pfarg_pmd pmd = notify_pmd(50);
	struct pfarg_pmd other = { .reg_num = SW(CPU_MIGRATIONS), .reg_long_reset = 4242 };
	union pfarg_msg msg;
	pid_t pid;
	int fd;

	fd = pfm_open(0);
	ASSERT_LE(0, fd);
	pid = child_traced(child_touches, shared);
	shared->go = 1;
	pmd.reg_long_reset = -1000000000ULL;
	pmd.reg_reset_pmds[4] = BIT_OF(SW(CPU_MIGRATIONS));
	ASSERT_EQ(0, pfm_write_pmds(fd, &other, 1));
	ASSERT_EQ(0, pfm_write_pmds(fd, &pmd, 1));
	ASSERT_EQ(0, pfm_load_tid(fd, pid, 0));
	ASSERT_EQ(0, pfm_start(fd, NULL));
	ASSERT_EQ(0, ptrace(PTRACE_CONT, pid, 0, 0));
	ASSERT_EQ((ssize_t)sizeof(msg), read(fd, &msg, sizeof(msg)));
	/* The target is stopped, so it does not take part in the restart. */
	ASSERT_EQ(0, kill(pid, SIGSTOP));
	ASSERT_EQ(pid, waitpid(pid, NULL, 0));
	EXPECT_EQ(0, pfm_value(fd, 0, FAULTS));
	ASSERT_EQ(0, pfm_restart(fd));
	EXPECT_EQ(-1000000000ULL, pfm_value(fd, 0, FAULTS));
	EXPECT_EQ(4242, pfm_value(fd, 0, SW(CPU_MIGRATIONS)));
	EXPECT_EQ(0, pfm_info(fd, 0).set_ovfl_pmds[4]);
	EXPECT_EQ(-EBUSY, pfm_restart(fd));
	/* The target is counted again from its first step on. */
	ASSERT_EQ(0, ptrace(PTRACE_CONT, pid, 0, 0));
	/* The first step may touch a page that was touched before. */
	wait_progress(shared);
	wait_progress(shared);
	ASSERT_EQ(0, kill(pid, SIGSTOP));
	ASSERT_EQ(pid, waitpid(pid, NULL, 0));
	EXPECT_LT(-1000000000ULL, pfm_value(fd, 0, FAULTS));
	child_kill(pid);
	close(fd);
}

TEST(masked_context_needs_no_stopped_target)
{
	struct shared *shared = shared_map();
	struct pfarg_pmd pmd = notify_pmd(50);
	union pfarg_msg msg;
	pid_t pid;
	int fd;

	fd = pfm_open(0);
	ASSERT_LE(0, fd);
	pid = child_traced(child_touches, shared);
	shared->go = 1;
	ASSERT_EQ(0, pfm_write_pmds(fd, &pmd, 1));
	ASSERT_EQ(0, pfm_load_tid(fd, pid, 0));
	ASSERT_EQ(0, pfm_start(fd, NULL));
	ASSERT_EQ(0, ptrace(PTRACE_CONT, pid, 0, 0));
	ASSERT_EQ((ssize_t)sizeof(msg), read(fd, &msg, sizeof(msg)));
	EXPECT_EQ(0, pfm_value(fd, 0, FAULTS));
	EXPECT_EQ(0, pfm_set_pmd(fd, 0, FAULTS, 7));
	EXPECT_EQ(7, pfm_value(fd, 0, FAULTS));
	EXPECT_EQ(0, pfm_stop(fd));
	EXPECT_EQ(-ESRCH, pfm_unload(fd));
	EXPECT_EQ(0, pfm_restart(fd));
	EXPECT_EQ(-ESRCH, pfm_stop(fd));
	child_kill(pid);
	close(fd);
}

TEST_HARNESS_MAIN
