// SPDX-License-Identifier: GPL-2.0
/*
 * perfmon selftests - the sampling buffer
 */
#define _GNU_SOURCE

#include "../kselftest_harness.h"
#include "perfmon_helpers.h"

#define FAULTS	SW(PAGE_FAULTS)
#define MINOR	SW(PAGE_FAULTS_MIN)
#define BIT_OF(num)	(1ULL << ((num) % 64))
#define BUF_SIZE	16384

FIXTURE(smpl)
{
	const struct pfm_dfl_smpl_hdr *hdr;
	struct pages pages;
	struct pfarg_pmd pmd;
	int fd;
};

FIXTURE_SETUP(smpl)
{
	struct pfm_dfl_smpl_arg arg = { .buf_size = BUF_SIZE };
	struct pfarg_pmd minor = { .reg_num = MINOR };
	struct pfarg_ctx ctx = { };

	ASSERT_EQ(0, pages_map(&self->pages, 512));
	self->fd = pfm_create(&ctx, "default", &arg, sizeof(arg));
	ASSERT_LE(0, self->fd);
	self->hdr = mmap(NULL, BUF_SIZE, PROT_READ, MAP_SHARED, self->fd, 0);
	ASSERT_NE(MAP_FAILED, self->hdr);
	self->pmd = (struct pfarg_pmd) {
		.reg_num = FAULTS,
		.reg_flags = PFM_REGFL_OVFL_NOTIFY,
		.reg_value = -10ULL,
		.reg_short_reset = -10ULL,
		.reg_long_reset = -10ULL,
	};
	self->pmd.reg_smpl_pmds[4] = BIT_OF(FAULTS) | BIT_OF(MINOR);
	ASSERT_EQ(0, pfm_write_pmds(self->fd, &self->pmd, 1));
	ASSERT_EQ(0, pfm_write_pmds(self->fd, &minor, 1));
}

FIXTURE_TEARDOWN(smpl)
{
	munmap((void *)self->hdr, BUF_SIZE);
	munmap(self->pages.mem, self->pages.size);
	close(self->fd);
}

struct entry {
	struct pfm_dfl_smpl_entry e;
	__u64 value[2];
};

static const struct entry *entries(const struct pfm_dfl_smpl_hdr *hdr)
{
	return (const struct entry *)(hdr + 1);
}

TEST_F(smpl, header_describes_the_buffer)
{
	EXPECT_EQ(0, self->hdr->hdr_count);
	EXPECT_EQ(sizeof(*self->hdr), self->hdr->hdr_cur_offs);
	EXPECT_EQ(0, self->hdr->hdr_overflows);
	EXPECT_EQ(BUF_SIZE, self->hdr->hdr_buf_size);
	EXPECT_EQ(PFM_DFL_SMPL_VERSION, self->hdr->hdr_version);
	EXPECT_LT(sizeof(struct pfm_dfl_smpl_entry), self->hdr->hdr_min_buf_space);
}

/*
 * The smallest buffer has room for all registers of the PMU, or for a sample of
 * software registers.
 */
TEST(samples_that_cannot_fit_are_refused)
{
	struct pfm_dfl_smpl_arg arg = {
		.buf_size = sizeof(struct pfm_dfl_smpl_hdr) + sizeof(struct pfm_dfl_smpl_entry),
	};
	struct pfarg_pmd pmd = { .reg_num = FAULTS };
	struct pfarg_ctx ctx = { };
	unsigned int i, n;
	int fd;

	n = nr_counters() + 2;
	arg.buf_size += n * 8;
	fd = pfm_create(&ctx, "default", &arg, sizeof(arg));
	ASSERT_LE(0, fd);
	for (i = 0; i < PERF_COUNT_SW_BPF_OUTPUT; i++) {
		pmd.reg_smpl_pmds[4] |= 1ULL << i;
		EXPECT_EQ(i < n ? 0 : -EINVAL, pfm_write_pmds(fd, &pmd, 1));
		EXPECT_EQ(i < n ? 0 : PFM_REGFL_RETFL_EINVAL, pmd.reg_flags);
	}
	close(fd);
}

TEST_F(smpl, each_overflow_is_a_sample)
{
	const struct entry *entry = entries(self->hdr);
	__u64 last = 0;
	unsigned int i;

	ASSERT_EQ(0, pfm_load_self(self->fd));
	ASSERT_EQ(0, pfm_start(self->fd, NULL));
	pages_touch(&self->pages, 205);
	ASSERT_EQ(0, pfm_stop(self->fd));
	ASSERT_EQ(20, self->hdr->hdr_count);
	EXPECT_EQ(sizeof(*self->hdr) + 20 * sizeof(*entry), self->hdr->hdr_cur_offs);
	for (i = 0; i < 20; i++, entry++) {
		EXPECT_EQ(syscall(__NR_gettid), entry->e.pid);
		EXPECT_EQ(getpid(), entry->e.tgid);
		EXPECT_EQ(FAULTS, entry->e.ovfl_pmd);
		/* The first period is the written value. */
		EXPECT_EQ(-10ULL, entry->e.last_reset_val);
		EXPECT_LE(last, entry->e.tstamp);
		EXPECT_EQ(0, entry->e.set);
		EXPECT_EQ(0, entry->e.reserved);
		EXPECT_NE(0, entry->e.ip);
		/*
		 * Values are in the order of registers. The fault that overflows is counted as a
		 * minor fault only afterwards.
		 */
		EXPECT_EQ(0, entry->value[0]);
		EXPECT_EQ(10 * (i + 1) - 1, entry->value[1]);
		last = entry->e.tstamp;
	}
	EXPECT_EQ(-5ULL, pfm_value(self->fd, 0, FAULTS));
	EXPECT_EQ(0, pfm_msg(self->fd).type);
}

struct sampled {
	struct pages *pages;
	int fd;
	int tid;
};

static void *thread_samples(void *arg)
{
	struct sampled *s = arg;

	s->tid = syscall(__NR_gettid);
	if (pfm_load_self(s->fd) || pfm_start(s->fd, NULL))
		return (void *)1;
	pages_touch(s->pages, 20);
	return NULL;
}

TEST_F(smpl, sample_tells_the_process_and_its_thread)
{
	const struct entry *entry = entries(self->hdr);
	struct sampled s = { .pages = &self->pages, .fd = self->fd };
	pthread_t thread;
	void *ret;

	ASSERT_EQ(0, pthread_create(&thread, NULL, thread_samples, &s));
	ASSERT_EQ(0, pthread_join(thread, &ret));
	ASSERT_EQ(NULL, ret);
	ASSERT_NE(getpid(), s.tid);
	ASSERT_LE(2, self->hdr->hdr_count);
	EXPECT_EQ(s.tid, entry->e.pid);
	EXPECT_EQ(getpid(), entry->e.tgid);
}

#define MEAN_SAMPLES	5000

/*
 * The mean of this many samples is within 5 % of half of the mask at six standard
 * deviations; fewer samples would fail by chance.
 */
FIXTURE(mean) {
};

FIXTURE_SETUP(mean)
{
}

FIXTURE_TEARDOWN(mean)
{
}

TEST_F_TIMEOUT(mean, mean_of_random_periods_is_in_the_middle, 170)
{
	struct pfm_dfl_smpl_arg arg = { .buf_size = 512 << 10 };
	const struct pfm_dfl_smpl_entry *entry;
	const struct pfm_dfl_smpl_hdr *hdr;
	const __u64 mask = 0x1f, base = -1ULL;
	struct pfarg_pmd pmd = {
		.reg_num = FAULTS, .reg_flags = PFM_REGFL_RANDOM, .reg_random_mask = mask,
		.reg_value = base, .reg_short_reset = base,
	};
	struct pfarg_ctx ctx = { };
	__u64 value, sum = 0, faults = 0;
	struct pages pages;
	unsigned int i;
	int fd;

	fd = pfm_create(&ctx, "default", &arg, sizeof(arg));
	ASSERT_LE(0, fd);
	hdr = mmap(NULL, arg.buf_size, PROT_READ, MAP_SHARED, fd, 0);
	ASSERT_NE(MAP_FAILED, hdr);
	ASSERT_EQ(0, pages_map(&pages, 512));
	ASSERT_EQ(0, pfm_write_pmds(fd, &pmd, 1));
	ASSERT_EQ(0, pfm_set_pmd(fd, 0, MINOR, 0));
	entry = (const void *)(hdr + 1);
	ASSERT_EQ(0, pfm_load_self(fd));
	ASSERT_EQ(0, pfm_start(fd, NULL));
	while (hdr->hdr_count <= MEAN_SAMPLES) {
		pages_touch(&pages, 1);
		faults++;
	}
	ASSERT_EQ(0, pfm_stop(fd));
	ASSERT_EQ(MEAN_SAMPLES + 1, hdr->hdr_count);
	EXPECT_EQ(faults, pfm_value(fd, 0, MINOR));
	/* A sample has the period that it ended; the first one has the written value. */
	for (i = 1; i <= MEAN_SAMPLES; i++) {
		value = base - entry[i].last_reset_val;
		ASSERT_GE(mask, value);
		sum += value;
	}
	TH_LOG("mean of %u from 0 to %llu is %llu.%02llu", MEAN_SAMPLES, mask, sum / MEAN_SAMPLES,
	       sum * 100 / MEAN_SAMPLES % 100);
	/* The periods add up to the count. */
	EXPECT_EQ(faults, sum + MEAN_SAMPLES + 1);
	EXPECT_LE(MEAN_SAMPLES * mask * 95 / 200, sum);
	EXPECT_GE(MEAN_SAMPLES * mask * 105 / 200, sum);
	close(fd);
}

TEST_F(smpl, full_buffer_masks_and_restart_empties_it)
{
	unsigned long size = sizeof(struct entry), room, fit;
	const struct entry *entry = entries(self->hdr);
	unsigned int round;

	room = BUF_SIZE - sizeof(*self->hdr) - self->hdr->hdr_min_buf_space;
	fit = room / size + 1;
	ASSERT_EQ(0, pfm_load_self(self->fd));
	ASSERT_EQ(0, pfm_start(self->fd, NULL));
	for (round = 1; round <= 3; round++) {
		pages_touch(&self->pages, fit * 10 - 1);
		EXPECT_EQ(fit - 1, self->hdr->hdr_count);
		EXPECT_EQ(0, pfm_msg(self->fd).type);
		pages_touch(&self->pages, 1);
		EXPECT_EQ(PFM_MSG_OVFL, pfm_msg(self->fd).type);
		pages_touch(&self->pages, 100);
		/* The sample that filled the buffer is in it. */
		EXPECT_EQ(fit, self->hdr->hdr_count);
		EXPECT_EQ(round, self->hdr->hdr_overflows);
		EXPECT_EQ(FAULTS, entry[fit - 1].e.ovfl_pmd);
		EXPECT_EQ(0, pfm_value(self->fd, 0, FAULTS));
		ASSERT_EQ(0, pfm_restart(self->fd));
		EXPECT_EQ(0, self->hdr->hdr_count);
		EXPECT_EQ(sizeof(*self->hdr), self->hdr->hdr_cur_offs);
	}
}

TEST_F(smpl, restart_empties_a_buffer_that_is_not_full)
{
	ASSERT_EQ(0, pfm_load_self(self->fd));
	ASSERT_EQ(0, pfm_start(self->fd, NULL));
	pages_touch(&self->pages, 55);
	EXPECT_EQ(5, self->hdr->hdr_count);
	ASSERT_EQ(0, pfm_restart(self->fd));
	EXPECT_EQ(0, self->hdr->hdr_count);
	EXPECT_EQ(-5ULL, pfm_value(self->fd, 0, FAULTS));
	pages_touch(&self->pages, 5);
	EXPECT_EQ(1, self->hdr->hdr_count);
}

TEST_F(smpl, samples_tell_their_set)
{
	static const int order[] = { 0, 5, 2, 0, 5, 2, 0 };
	const struct entry *entry = entries(self->hdr);
	unsigned int i;

	for (i = 0; i < 3; i++) {
		self->pmd.reg_set = order[i];
		self->pmd.reg_ovfl_switch_cnt = 2;
		ASSERT_EQ(0, pfm_make_set(self->fd, order[i],
					  PFM_SETFL_OVFL_SWITCH | PFM_SETFL_EXPL_NEXT, 0,
					  order[i + 1]));
		ASSERT_EQ(0, pfm_write_pmds(self->fd, &self->pmd, 1));
	}
	ASSERT_EQ(0, pfm_load_self(self->fd));
	usleep(1);
	ASSERT_EQ(0, pfm_start(self->fd, NULL));
	/* Leave time for each switch, because irq_work may wait for the timer. */
	for (i = 0; i < 14; i++) {
		pages_touch(&self->pages, 10);
		usleep(10000);
	}
	ASSERT_EQ(14, self->hdr->hdr_count);
	for (i = 0; i < 14; i++)
		EXPECT_EQ(order[i / 2], entry[i].e.set);
}

TEST_F(smpl, mapping_is_read_only)
{
	EXPECT_EQ(MAP_FAILED, mmap(NULL, BUF_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED,
				   self->fd, 0));
	EXPECT_EQ(EPERM, errno);
	EXPECT_EQ(-1, mprotect((void *)self->hdr, BUF_SIZE, PROT_READ | PROT_WRITE));
	EXPECT_EQ(EACCES, errno);
	EXPECT_EQ(MAP_FAILED, mmap(NULL, BUF_SIZE + 65536, PROT_READ, MAP_SHARED, self->fd, 0));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(MAP_FAILED, mmap(NULL, getpagesize(), PROT_READ, MAP_SHARED, self->fd,
				   getpagesize()));
	EXPECT_EQ(EINVAL, errno);
}

TEST_F(smpl, memory_is_accounted_until_close)
{
	long used = read_knob("smpl_buffer_mem_cur");
	struct pfm_dfl_smpl_arg arg = { .buf_size = 100000 };
	struct pfarg_ctx ctx = { };
	int fd = pfm_create(&ctx, "default", &arg, sizeof(arg));
	long page = getpagesize();

	ASSERT_LE(0, fd);
	EXPECT_EQ(used + (100000 + page - 1) / page * page, read_knob("smpl_buffer_mem_cur"));
	close(fd);
	EXPECT_EQ(used, read_knob("smpl_buffer_mem_cur"));
}

TEST_F(smpl, mapping_outlives_the_descriptor)
{
	ASSERT_EQ(0, pfm_load_self(self->fd));
	ASSERT_EQ(0, pfm_start(self->fd, NULL));
	pages_touch(&self->pages, 50);
	ASSERT_EQ(0, pfm_unload(self->fd));
	ASSERT_EQ(0, close(self->fd));
	self->fd = -1;
	EXPECT_EQ(5, self->hdr->hdr_count);
}

/* A mapping acts as a descriptor: the context ends with the last of them. */
TEST_F(smpl, mapping_keeps_the_context)
{
	long tasks = read_knob("task_sessions_count"), mem = read_knob("smpl_buffer_mem_cur");

	ASSERT_EQ(0, pfm_load_self(self->fd));
	ASSERT_EQ(0, pfm_start(self->fd, NULL));
	ASSERT_EQ(0, close(self->fd));
	self->fd = -1;
	pages_touch(&self->pages, 50);
	EXPECT_EQ(5, self->hdr->hdr_count);
	EXPECT_EQ(tasks + 1, read_knob("task_sessions_count"));
	ASSERT_EQ(0, munmap((void *)self->hdr, BUF_SIZE));
	self->hdr = NULL;
	EXPECT_EQ(tasks, read_knob("task_sessions_count"));
	EXPECT_GT(mem, read_knob("smpl_buffer_mem_cur"));
}

TEST_F(smpl, child_does_not_get_the_mapping)
{
	unsigned char present;
	int status;
	pid_t pid;

	ASSERT_EQ(0, mincore((void *)self->hdr, 1, &present));
	pid = fork();
	if (!pid)
		_exit(mincore((void *)self->hdr, 1, &present) && errno == ENOMEM ? 0 : 1);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
}

FIXTURE(clock)
{
	struct sample_rate rate;
	bool slow;
};

FIXTURE_VARIANT(clock)
{
	unsigned int flags;
	/* Another register leads the perf group. */
	bool second;
};

FIXTURE_VARIANT_ADD(clock, of_a_thread) { };
FIXTURE_VARIANT_ADD(clock, of_a_thread_and_second) { .second = true };
FIXTURE_VARIANT_ADD(clock, of_a_cpu) { .flags = PFM_FL_SYSTEM_WIDE };
FIXTURE_VARIANT_ADD(clock, of_a_cpu_and_second) { .flags = PFM_FL_SYSTEM_WIDE, .second = true };

FIXTURE_SETUP(clock)
{
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(0, &cpus);
	ASSERT_EQ(0, sched_setaffinity(0, sizeof(cpus), &cpus));
	ASSERT_EQ(0, sample_rate_set(&self->rate, "1"));
	self->slow = true;
}

FIXTURE_TEARDOWN(clock)
{
	if (self->slow)
		EXPECT_EQ(0, sample_rate_restore(&self->rate));
}

TEST_F(clock, samples_obey_the_sample_rate)
{
	struct pfm_dfl_smpl_arg arg = { .buf_size = 4 << 20 };
	struct pfarg_pmd clock = {
		.reg_num = SW(TASK_CLOCK), .reg_value = -20000ULL, .reg_short_reset = -20000ULL,
	};
	struct pfarg_ctx ctx = { .ctx_flags = variant->flags };
	struct pfm_dfl_smpl_hdr *hdr;
	__u64 start, ticks;
	int fd;

	fd = pfm_create(&ctx, "default", &arg, sizeof(arg));
	ASSERT_LE(0, fd);
	hdr = mmap(NULL, arg.buf_size, PROT_READ, MAP_SHARED, fd, 0);
	ASSERT_NE(MAP_FAILED, hdr);
	if (variant->second)
		ASSERT_EQ(0, pfm_set_pmd(fd, 0, SW(CPU_CLOCK), 0));
	ASSERT_EQ(0, pfm_write_pmds(fd, &clock, 1));
	ASSERT_EQ(0, variant->flags ? pfm_load_tid(fd, 0, 0) : pfm_load_self(fd));
	start = now_ns(CLOCK_MONOTONIC);
	ASSERT_EQ(0, pfm_start(fd, NULL));
	burn(200 * NSEC_PER_MSEC);
	/* Sampling continues at each tick, of which an emulator may have few. */
	while (hdr->hdr_count < 10 && now_ns(CLOCK_MONOTONIC) < start + 20000 * NSEC_PER_MSEC)
		burn(10 * NSEC_PER_MSEC);
	ASSERT_EQ(0, pfm_stop(fd));
	/* There are not more than 1000 ticks in a second, with one sample in each. */
	ticks = (now_ns(CLOCK_MONOTONIC) - start) / NSEC_PER_MSEC + 2;
	TH_LOG("%llu samples in %llu ms, %llu lost", hdr->hdr_count, ticks,
	       pfm_info(fd, 0).set_lost);
	EXPECT_LE(10, hdr->hdr_count);
	EXPECT_GE(2 * ticks + 2, hdr->hdr_count);
	EXPECT_LT(0, pfm_info(fd, 0).set_lost);
	/* The clock itself keeps counting. */
	EXPECT_LT(0, pfm_info(fd, 0).set_act_duration);
	close(fd);
}

TEST_HARNESS_MAIN
