// SPDX-License-Identifier: GPL-2.0
/*
 * perfmon selftests - overflows: messages, masks, resets, restart, blocking
 */
#define _GNU_SOURCE

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
	/* What reads a message is not to fault when faults are counted. */
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

TEST_F(ovfl, notified_overflow_masks)
{
	begin(_metadata, self->fd, &self->pmd);
	pages_touch(&self->pages, 100);
	EXPECT_EQ(0, pfm_value(self->fd, 0, FAULTS));
	pages_touch(&self->pages, 100);
	EXPECT_EQ(0, pfm_value(self->fd, 0, FAULTS));
	EXPECT_EQ(-EBUSY, pfm_load_self(self->fd));
}

TEST_F(ovfl, time_stands_still_while_masked)
{
	__u64 active;

	begin(_metadata, self->fd, &self->pmd);
	pages_touch(&self->pages, 10);
	active = pfm_info(self->fd, 0).set_act_duration;
	burn(2 * NSEC_PER_MSEC);
	EXPECT_EQ(active, pfm_info(self->fd, 0).set_act_duration);
	EXPECT_EQ(0, pfm_restart(self->fd));
	burn(2 * NSEC_PER_MSEC);
	EXPECT_LE(active + 2 * NSEC_PER_MSEC, pfm_info(self->fd, 0).set_act_duration);
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

TEST_F(ovfl, random_resets_stay_in_their_range)
{
	const __u64 mask = 0x1f, base = -100ULL;
	unsigned int i, differ = 0;
	__u64 sum = 0, last = 0;

	self->pmd.reg_flags |= PFM_REGFL_RANDOM;
	self->pmd.reg_value = -1ULL;
	self->pmd.reg_long_reset = base;
	self->pmd.reg_random_mask = mask;
	begin(_metadata, self->fd, &self->pmd);
	for (i = 0; i < 400; i++) {
		__u64 value;

		pages_touch(&self->pages, 132);
		ASSERT_EQ(PFM_MSG_OVFL, pfm_msg(self->fd).type);
		ASSERT_EQ(0, pfm_restart(self->fd));
		value = pfm_pmd(self->fd, 0, FAULTS).reg_last_reset_val;
		ASSERT_GE(base, value);
		ASSERT_LE(base - mask, value);
		sum += base - value;
		differ += value != last;
		last = value;
	}
	EXPECT_LT(300, differ);
	/* The mean of 400 is within 5 % of the range with six sigma. */
	EXPECT_LT(400 * 13, sum);
	EXPECT_GT(400 * 18, sum);
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
	/* The fault that overflows is a minor one just after it has done so. */
	EXPECT_EQ(6005, pfm_value(self->fd, 0, SW(PAGE_FAULTS_MIN)));
}

/* A clock is stopped and started by other means than a counter. */
TEST_F(ovfl, clocks_named_are_reset_too)
{
	struct pfarg_pmd clock = { .reg_num = SW(TASK_CLOCK), .reg_value = 1ULL << 62 };

	ASSERT_EQ(0, pfm_write_pmds(self->fd, &clock, 1));
	self->pmd.reg_reset_pmds[4] = BIT_OF(SW(TASK_CLOCK));
	self->pmd.reg_flags = 0;
	begin(_metadata, self->fd, &self->pmd);
	EXPECT_LT(1ULL << 62, pfm_value(self->fd, 0, SW(TASK_CLOCK)));
	pages_touch(&self->pages, 10);
	burn(NSEC_PER_MSEC);
	EXPECT_GT(1ULL << 61, pfm_value(self->fd, 0, SW(TASK_CLOCK)));
	EXPECT_LE(NSEC_PER_MSEC, pfm_value(self->fd, 0, SW(TASK_CLOCK)));
}

TEST_F(ovfl, clock_overflows)
{
	struct pfarg_pmd clock = {
		.reg_num = SW(TASK_CLOCK),
		.reg_flags = PFM_REGFL_OVFL_NOTIFY,
		.reg_value = -2 * NSEC_PER_MSEC,
		.reg_long_reset = -1 * NSEC_PER_MSEC,
	};
	__u64 before, active = 0;
	unsigned int i;

	begin(_metadata, self->fd, &clock);
	for (i = 0; i < 10; i++) {
		while (!pfm_msg(self->fd).type)
			burn(NSEC_PER_MSEC / 10);
		before = active;
		active = pfm_info(self->fd, 0).set_act_duration;
		/* Timers are late, not early. */
		EXPECT_LE((i ? 1 : 2) * NSEC_PER_MSEC / 100 * 99, active - before);
		ASSERT_EQ(0, pfm_restart(self->fd));
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
	/* The ninth has no place: it masks, and can still be restarted. */
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

	for (i = 0; i < 2; i++)
		ASSERT_EQ(0, pthread_create(&thread[i], NULL, reader, &self->fd));
	begin(_metadata, self->fd, &self->pmd);
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

/* The target touches pages and counts how often; the test is told by messages. */
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

/* Does the child stand still? Enough time to do much if it does not. */
static bool stands_still(struct shared *shared)
{
	unsigned long seen;

	usleep(20000);
	seen = shared->progress;
	usleep(20000);
	return shared->progress == seen;
}

static void wait_progress(struct shared *shared)
{
	unsigned long seen = shared->progress;

	while (shared->progress == seen)
		usleep(100);
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
	EXPECT_FALSE(stands_still(self->shared));
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
	EXPECT_FALSE(stands_still(self->shared));
}

TEST_F(blocking, unload_lets_the_target_go)
{
	EXPECT_TRUE(stands_still(self->shared));
	EXPECT_EQ(0, pfm_unload(self->fd));
	wait_progress(self->shared);
	EXPECT_FALSE(stands_still(self->shared));
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
