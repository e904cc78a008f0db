// SPDX-License-Identifier: GPL-2.0
/*
 * perfmon selftests - counters of a simulated PMU, on any machine
 *
 * The PMU counts the amounts that the test writes to its tick file, so each
 * count and each overflow is known exactly. The overflows come in each context
 * that a PMU may interrupt in.
 */
#define _GNU_SOURCE

#include <sys/mount.h>

#include "../kselftest_harness.h"
#include "perfmon_helpers.h"

#define COMPAT		"/proc/sys/kernel/perfmon_compat"
#define DEBUGFS		"/sys/kernel/debug"

/* Parts of config, see Documentation/admin-guide/perf/pmusim.rst */
#define COUNTER(n)	(1ULL << (8 + (n)))
#define OFLOW(context)	((__u64)(context) << 24)
#define CLOCK		1ULL

enum context { HARDIRQ, IRQ_WORK, SOFTIRQ, TASK, NMI_LIKE, NMI };

static int sim_type(const char *pmu)
{
	char path[128], text[16];

	snprintf(path, sizeof(path), "/sys/bus/event_source/devices/%s/type", pmu);
	return read_file(path, text, sizeof(text)) ? -1 : atoi(text);
}

static int sim_write(const char *file, const char *format, int a, int b)
{
	char path[128], text[64];

	snprintf(path, sizeof(path), DEBUGFS "/pmusim/%s", file);
	snprintf(text, sizeof(text), format, a, b);
	return write_file(path, text);
}

static int sim_pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return sched_setaffinity(0, sizeof(set), &set);
}

/* Find the control files of the PMU, and move to CPU 0. */
static int sim_begin(void)
{
	if (access(DEBUGFS "/pmusim", F_OK))
		mount("debugfs", DEBUGFS, "debugfs", 0, NULL);
	if (access(DEBUGFS "/pmusim", F_OK))
		return -errno;
	return sim_pin(0);
}

/* Set a capability, which needs a PMU without events; their release may take a moment. */
static int sim_cap(const char *text)
{
	int ret, tries = 1000;

	do {
		ret = write_file(DEBUGFS "/pmusim/pmusim/capabilities", text);
		if (ret == -EBUSY)
			usleep(1000);
	} while (ret == -EBUSY && tries--);
	return ret;
}

static int sim_open(const char *pmu, unsigned int flags)
{
	struct pfarg_ctx ctx = { .ctx_flags = flags, .ctx_pmu_type = sim_type(pmu) };

	return pfm_create(&ctx, NULL, NULL, 0);
}

/* Counter @num of the PMU is PMD @num, and overflows in @context. */
static int sim_pmc(int fd, int set, int num, enum context context)
{
	struct pfarg_pmc pmc = {
		.reg_num = num, .reg_set = set, .reg_value = COUNTER(num) | OFLOW(context),
	};

	return pfm_write_pmcs(fd, &pmc, 1);
}

static int sim_reg(int fd, int set, int num, enum context context, __u64 period,
		   unsigned int flags, unsigned int cnt)
{
	struct pfarg_pmd pmd = {
		.reg_num = num, .reg_set = set, .reg_flags = flags, .reg_value = -period,
		.reg_long_reset = -period, .reg_short_reset = -period,
		.reg_ovfl_switch_cnt = cnt,
	};

	return sim_pmc(fd, set, num, context) ?: pfm_write_pmds(fd, &pmd, 1);
}

FIXTURE(sim)
{
	int fd;
};

FIXTURE_VARIANT(sim)
{
	enum context context;
	/* An overflow handler may stop the counters. */
	bool stops;
};

FIXTURE_VARIANT_ADD(sim, hardirq) { .context = HARDIRQ, .stops = true };
FIXTURE_VARIANT_ADD(sim, irq_work) { .context = IRQ_WORK, .stops = true };
FIXTURE_VARIANT_ADD(sim, softirq) { .context = SOFTIRQ, .stops = true };
FIXTURE_VARIANT_ADD(sim, task) { .context = TASK, .stops = true };
FIXTURE_VARIANT_ADD(sim, nmi_like) { .context = NMI_LIKE, .stops = true };
FIXTURE_VARIANT_ADD(sim, nmi) { .context = NMI, .stops = true };
FIXTURE_VARIANT_ADD(sim, hardirq_goes_on) { .context = HARDIRQ };
FIXTURE_VARIANT_ADD(sim, nmi_like_goes_on) { .context = NMI_LIKE };

/* Tell whether the machine supports the context. */
static bool sim_has(enum context context)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr), .type = sim_type("pmusim"), .config = OFLOW(context),
		.sample_period = 1000,
	};
	int fd = syscall(__NR_perf_event_open, &attr, 0, -1, -1, 0);

	if (fd < 0)
		return false;
	close(fd);
	return true;
}

FIXTURE_SETUP(sim)
{
	self->fd = -1;
	if (sim_type("pmusim") < 0)
		SKIP(return, "no simulated PMU: needs PERF_PMUSIM");
	ASSERT_EQ(0, sim_begin());
	ASSERT_EQ(0, sim_cap(variant->stops ? "+gate_stop" : "-gate_stop"));
	if (!sim_has(variant->context))
		SKIP(return, "the simulated PMU cannot interrupt in that context here");
	self->fd = sim_open("pmusim", 0);
	ASSERT_LE(0, self->fd);
}

FIXTURE_TEARDOWN(sim)
{
	if (self->fd >= 0) {
		close(self->fd);
		EXPECT_EQ(0, sim_cap("-gate_stop"));
	}
}

/* Let a counter of this CPU count, and wait for work that its overflow has deferred. */
static int sim_tick_on(int fd, int cpu, int num, unsigned int n)
{
	int ret = sim_write(cpu ? "cpu1/tick" : "cpu0/tick", "%d %d", num, n);

	pfm_info(fd, 0);
	return ret;
}

static int sim_tick(int fd, int num, unsigned int n)
{
	return sim_tick_on(fd, 0, num, n);
}

TEST_F(sim, counts_what_there_is)
{
	int i;

	for (i = 0; i < 4; i++)
		ASSERT_EQ(0, sim_reg(self->fd, 0, i, variant->context, 0, 0, 0));
	ASSERT_EQ(0, pfm_load_self(self->fd));
	ASSERT_EQ(0, sim_tick(self->fd, 0, 100));
	ASSERT_EQ(0, pfm_start(self->fd, NULL));
	for (i = 0; i < 4; i++)
		ASSERT_EQ(0, sim_tick(self->fd, i, 1000 + i));
	ASSERT_EQ(0, pfm_stop(self->fd));
	ASSERT_EQ(0, sim_tick(self->fd, 0, 100));
	for (i = 0; i < 4; i++)
		EXPECT_EQ(1000 + i, pfm_value(self->fd, 0, i));
}

TEST_F(sim, masked_registers_stand_still)
{
	struct pfarg_pmd pmd;
	long before;
	bool stops;
	int i;

	ASSERT_EQ(0, sim_reg(self->fd, 0, 0, variant->context, 1000, PFM_REGFL_OVFL_NOTIFY, 0));
	ASSERT_EQ(0, sim_reg(self->fd, 0, 1, variant->context, 0, 0, 0));
	ASSERT_EQ(0, pfm_load_self(self->fd));
	ASSERT_EQ(0, pfm_start(self->fd, NULL));
	for (i = 1; i <= 5; i++) {
		ASSERT_EQ(0, sim_tick(self->fd, 1, 10));
		ASSERT_EQ(0, sim_tick(self->fd, 0, 999));
		ASSERT_EQ(-EBUSY, pfm_restart(self->fd));
		/*
		 * Counts beyond the overflow are left out, unless the thread is switched out
		 * before the overflow is handled, in ksoftirqd or by an interrupt that is late.
		 */
		before = switches();
		ASSERT_EQ(0, sim_tick(self->fd, 0, 100));
		ASSERT_EQ(PFM_MSG_OVFL, pfm_msg(self->fd).type);
		stops = variant->stops && switches() == before;
		ASSERT_EQ(0, sim_tick(self->fd, 1, 10));
		EXPECT_GE(stops ? 0 : 99, pfm_value(self->fd, 0, 0));
		EXPECT_EQ(10 * i, pfm_value(self->fd, 0, 1));
		EXPECT_EQ(1, pfm_info(self->fd, 0).set_ovfl_pmds[0]);
		ASSERT_EQ(0, pfm_restart(self->fd));
		pmd = pfm_pmd(self->fd, 0, 0);
		EXPECT_EQ(-1000ULL, pmd.reg_value);
		EXPECT_EQ(-1000ULL, pmd.reg_last_reset_val);
	}
	EXPECT_EQ(0, pfm_msg(self->fd).type);
}

#define SAMPLING_SIZE	65536

/* Create a context with a sampling buffer. */
static int sampling_open(const struct pfm_dfl_smpl_hdr **hdr, unsigned int flags)
{
	struct pfm_dfl_smpl_arg arg = { .buf_size = SAMPLING_SIZE };
	struct pfarg_ctx ctx = { .ctx_flags = flags, .ctx_pmu_type = sim_type("pmusim") };
	int fd;

	fd = pfm_create(&ctx, "default", &arg, sizeof(arg));
	if (fd < 0)
		return fd;
	*hdr = mmap(NULL, arg.buf_size, PROT_READ, MAP_SHARED, fd, 0);
	if (*hdr == MAP_FAILED) {
		close(fd);
		return -errno;
	}
	return fd;
}

/* Unmap as well, because the mapping would keep the context and its events. */
static void sampling_close(int fd, const struct pfm_dfl_smpl_hdr *hdr)
{
	munmap((void *)hdr, SAMPLING_SIZE);
	close(fd);
}

TEST_F(sim, each_period_is_exact)
{
	struct pfarg_pmd pmd = {
		.reg_value = -100ULL, .reg_short_reset = -70ULL,
	};
	const struct pfm_dfl_smpl_hdr *hdr;
	int fd, i;

	fd = sampling_open(&hdr, 0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, sim_pmc(fd, 0, 0, variant->context));
	ASSERT_EQ(0, pfm_write_pmds(fd, &pmd, 1));
	ASSERT_EQ(0, pfm_load_self(fd));
	ASSERT_EQ(0, pfm_start(fd, NULL));
	ASSERT_EQ(0, sim_tick(fd, 0, 99));
	EXPECT_EQ(0, hdr->hdr_count);
	ASSERT_EQ(0, sim_tick(fd, 0, 1));
	EXPECT_EQ(1, hdr->hdr_count);
	/* A new period begins here, which differs from the PMU's period. */
	for (i = 2; i <= 20; i++) {
		ASSERT_EQ(0, sim_tick(fd, 0, 69));
		EXPECT_EQ(i - 1, hdr->hdr_count);
		EXPECT_EQ(-1ULL, pfm_value(fd, 0, 0));
		ASSERT_EQ(0, sim_tick(fd, 0, 1));
		EXPECT_EQ(i, hdr->hdr_count);
		EXPECT_EQ(-70ULL, pfm_value(fd, 0, 0));
	}
	/* Count many periods at once, with the period that the PMU has now. */
	ASSERT_EQ(0, sim_tick(fd, 0, 700));
	EXPECT_EQ(30, hdr->hdr_count);
	sampling_close(fd, hdr);
}

TEST_F(sim, random_periods_are_exact)
{
	struct pfarg_pmd pmd = {
		.reg_value = -100ULL, .reg_short_reset = -100ULL,
		.reg_flags = PFM_REGFL_RANDOM, .reg_random_mask = 0x3f,
	};
	const struct pfm_dfl_smpl_hdr *hdr;
	__u64 period, seen = 0;
	int fd, i;

	fd = sampling_open(&hdr, 0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, sim_pmc(fd, 0, 0, variant->context));
	ASSERT_EQ(0, pfm_write_pmds(fd, &pmd, 1));
	ASSERT_EQ(0, pfm_load_self(fd));
	ASSERT_EQ(0, pfm_start(fd, NULL));
	for (i = 1; i <= 50; i++) {
		period = -pfm_value(fd, 0, 0);
		ASSERT_LE(100, period);
		ASSERT_GE(100 + 0x3f, period);
		seen |= 1ULL << (period - 100);
		ASSERT_EQ(0, sim_tick(fd, 0, period - 1));
		EXPECT_EQ(i - 1, hdr->hdr_count);
		ASSERT_EQ(0, sim_tick(fd, 0, 1));
		EXPECT_EQ(i, hdr->hdr_count);
	}
	EXPECT_LT(10, __builtin_popcountll(seen));
	sampling_close(fd, hdr);
}

TEST_F(sim, registers_named_are_reset_at_the_overflow)
{
	struct pfarg_pmd pmd[3] = {
		{ .reg_num = 0, .reg_value = -100ULL, .reg_short_reset = -100ULL,
		  .reg_reset_pmds[0] = 6, .reg_smpl_pmds[0] = 6 },
		{ .reg_num = 1, .reg_value = 5, .reg_short_reset = 7 },
		{ .reg_num = 2, .reg_value = -50ULL, .reg_short_reset = -60ULL },
	};
	const struct pfm_dfl_smpl_hdr *hdr;
	const struct {
		struct pfm_dfl_smpl_entry e;
		__u64 value[2];
	} *sample;
	int fd, i;

	fd = sampling_open(&hdr, 0);
	ASSERT_LE(0, fd);
	sample = (const void *)(hdr + 1);
	for (i = 0; i < 3; i++)
		ASSERT_EQ(0, sim_pmc(fd, 0, i, variant->context));
	ASSERT_EQ(0, pfm_write_pmds(fd, pmd, 3));
	ASSERT_EQ(0, pfm_load_self(fd));
	ASSERT_EQ(0, pfm_start(fd, NULL));
	ASSERT_EQ(0, sim_tick(fd, 1, 1000));
	for (i = 0; i < 10; i++) {
		/* Count less than a period repeatedly, so that it never overflows. */
		ASSERT_EQ(0, sim_tick(fd, 2, 49));
		ASSERT_EQ(0, sim_tick(fd, 1, 3));
		ASSERT_EQ(0, sim_tick(fd, 0, 100));
		ASSERT_EQ(i + 1, hdr->hdr_count);
		EXPECT_EQ(0, sample[i].e.ovfl_pmd);
		EXPECT_EQ(i ? 7 + 3 : 5 + 1003, sample[i].value[0]);
		EXPECT_EQ(i ? -60ULL + 49 : -50ULL + 49, sample[i].value[1]);
		EXPECT_EQ(7, pfm_value(fd, 0, 1));
		EXPECT_EQ(-60ULL, pfm_value(fd, 0, 2));
	}
	ASSERT_EQ(0, sim_tick(fd, 2, 60));
	EXPECT_EQ(11, hdr->hdr_count);
	sampling_close(fd, hdr);
}

TEST_F(sim, overflow_switches_sets_at_that_event)
{
	struct pfarg_setinfo info;
	int i;

	for (i = 0; i < 2; i++) {
		ASSERT_EQ(0, pfm_make_set(self->fd, i, PFM_SETFL_OVFL_SWITCH, 0, 0));
		ASSERT_EQ(0, sim_reg(self->fd, i, 0, variant->context, 100 + i, 0, 2));
		ASSERT_EQ(0, sim_reg(self->fd, i, 1, variant->context, 0, 0, 0));
	}
	ASSERT_EQ(0, pfm_load_self(self->fd));
	ASSERT_EQ(0, pfm_start(self->fd, NULL));
	for (i = 0; i < 20; i++) {
		ASSERT_EQ(0, sim_tick(self->fd, 1, 10));
		ASSERT_EQ(0, sim_tick(self->fd, 0, 2 * (100 + i % 2) - 1));
		info = pfm_info(self->fd, i % 2);
		EXPECT_EQ(PFM_SETFL_OUT_ACTIVE, info.set_flags & PFM_SETFL_OUT_ACTIVE);
		ASSERT_EQ(0, sim_tick(self->fd, 0, 1));
		info = pfm_info(self->fd, i % 2);
		EXPECT_EQ(0, info.set_flags & PFM_SETFL_OUT_ACTIVE);
	}
	ASSERT_EQ(0, pfm_stop(self->fd));
	EXPECT_EQ(11, pfm_info(self->fd, 0).set_runs);
	EXPECT_EQ(10, pfm_info(self->fd, 1).set_runs);
	for (i = 0; i < 2; i++)
		EXPECT_EQ(100, pfm_value(self->fd, i, 1));
}

/* The counters stand still on one CPU, and the restart finds the thread on another one. */
TEST_F(sim, restart_reaches_a_thread_that_has_migrated)
{
	int i, cpu;

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		SKIP(return, "one CPU");
	ASSERT_EQ(0, sim_reg(self->fd, 0, 0, variant->context, 100, PFM_REGFL_OVFL_NOTIFY, 0));
	ASSERT_EQ(0, sim_reg(self->fd, 0, 1, variant->context, 0, 0, 0));
	ASSERT_EQ(0, pfm_load_self(self->fd));
	ASSERT_EQ(0, pfm_start(self->fd, NULL));
	for (i = 0; i < 6; i++) {
		cpu = i % 2;
		ASSERT_EQ(0, sim_tick_on(self->fd, cpu, 1, 10));
		ASSERT_EQ(0, sim_tick_on(self->fd, cpu, 0, 100));
		ASSERT_EQ(PFM_MSG_OVFL, pfm_msg(self->fd).type);
		ASSERT_EQ(0, sim_pin(!cpu));
		EXPECT_EQ(1, pfm_info(self->fd, 0).set_ovfl_pmds[0]);
		ASSERT_EQ(0, pfm_restart(self->fd));
		EXPECT_EQ(-100ULL, pfm_value(self->fd, 0, 0));
	}
	ASSERT_EQ(0, pfm_stop(self->fd));
	EXPECT_EQ(60, pfm_value(self->fd, 0, 1));
	EXPECT_EQ(0, pfm_msg(self->fd).type);
}

TEST_F(sim, register_that_overflows_alone_does_not_concern_the_others)
{
	struct pfarg_setinfo info;
	union pfarg_msg msg;

	ASSERT_EQ(0, sim_reg(self->fd, 0, 0, variant->context, 100, PFM_REGFL_OVFL_NOTIFY, 0));
	ASSERT_EQ(0, sim_reg(self->fd, 0, 1, variant->context, 100, 0, 0));
	ASSERT_EQ(0, pfm_load_self(self->fd));
	ASSERT_EQ(0, pfm_start(self->fd, NULL));
	ASSERT_EQ(0, sim_tick(self->fd, 1, 250));
	EXPECT_EQ(0, pfm_msg(self->fd).type);
	EXPECT_EQ(-50ULL, pfm_value(self->fd, 0, 1));
	ASSERT_EQ(0, sim_tick(self->fd, 0, 100));
	msg = pfm_msg(self->fd);
	EXPECT_EQ(PFM_MSG_OVFL, msg.type);
	EXPECT_EQ(1, msg.pfm_ovfl_msg.msg_ovfl_pmds[0]);
	info = pfm_info(self->fd, 0);
	EXPECT_EQ(1, info.set_ovfl_pmds[0]);
	EXPECT_EQ(-50ULL, pfm_value(self->fd, 0, 1));
}

/*
 * Allow one sample in each timer tick. Perf restarts the first event of a group after
 * each tick, and must restart the others, too. For the context of a CPU, no task switch
 * clears the throttling.
 */
FIXTURE(slow)
{
	struct sample_rate rate;
	bool slow;
};

FIXTURE_VARIANT(slow)
{
	enum context context;
	unsigned int flags;
	int num;
};

FIXTURE_VARIANT_ADD(slow, thread_hardirq_first) { .context = HARDIRQ };
FIXTURE_VARIANT_ADD(slow, thread_nmi_like_first) { .context = NMI_LIKE };
FIXTURE_VARIANT_ADD(slow, thread_hardirq_second) { .context = HARDIRQ, .num = 1 };
FIXTURE_VARIANT_ADD(slow, cpu_hardirq_first) { .context = HARDIRQ, .flags = PFM_FL_SYSTEM_WIDE };
FIXTURE_VARIANT_ADD(slow, cpu_hardirq_second)
{
	.context = HARDIRQ, .flags = PFM_FL_SYSTEM_WIDE, .num = 1,
};

FIXTURE_VARIANT_ADD(slow, cpu_nmi_like_second)
{
	.context = NMI_LIKE, .flags = PFM_FL_SYSTEM_WIDE, .num = 1,
};

FIXTURE_VARIANT_ADD(slow, cpu_nmi_second)
{
	.context = NMI, .flags = PFM_FL_SYSTEM_WIDE, .num = 1,
};

FIXTURE_SETUP(slow)
{
	if (sim_type("pmusim") < 0)
		SKIP(return, "no simulated PMU: needs PERF_PMUSIM");
	ASSERT_EQ(0, sim_begin());
	if (!sim_has(variant->context))
		SKIP(return, "the simulated PMU cannot interrupt in that context here");
	ASSERT_EQ(0, sample_rate_set(&self->rate, "1"));
	self->slow = true;
}

FIXTURE_TEARDOWN(slow)
{
	if (self->slow)
		EXPECT_EQ(0, sample_rate_restore(&self->rate));
}

/* Get the length of a timer tick. */
static __u64 tick_ns(void)
{
	struct timespec tick;

	return clock_getres(CLOCK_MONOTONIC_COARSE, &tick) ? NSEC_PER_MSEC : tick.tv_nsec;
}

/*
 * Overflow register @num more often than allowed, until ten overflows were reported. Return
 * the number of ticks that this took, each of which allows one sample.
 */
static __u64 slow_ticks(int fd, int num, __u64 (*done)(int fd, void *arg), void *arg)
{
	__u64 start = now_ns(CLOCK_MONOTONIC), now;
	int i = 0;

	do {
		sim_tick(fd, num, 10);
		now = now_ns(CLOCK_MONOTONIC);
	} while (now < start + 20000 * NSEC_PER_MSEC && (i++ < 1000 || done(fd, arg) < 10));
	return (now - start) / tick_ns() + 2;
}

static __u64 runs_done(int fd, void *arg)
{
	return pfm_info(fd, 0).set_runs + pfm_info(fd, 1).set_runs;
}

TEST_F(slow, switching_obeys_the_sample_rate)
{
	__u64 ticks, runs, lost;
	int fd, i;

	fd = sim_open("pmusim", variant->flags);
	ASSERT_LE(0, fd);
	for (i = 0; i < 2; i++) {
		ASSERT_EQ(0, pfm_make_set(fd, i, PFM_SETFL_OVFL_SWITCH, 0, 0));
		ASSERT_EQ(0, sim_reg(fd, i, 0, variant->context, 0, 0, 0));
		ASSERT_EQ(0, sim_reg(fd, i, variant->num, variant->context, 10, 0, 1));
	}
	ASSERT_EQ(0, pfm_load_tid(fd, variant->flags ? 0 : getpid(), 0));
	ASSERT_EQ(0, pfm_start(fd, NULL));
	ticks = slow_ticks(fd, variant->num, runs_done, NULL);
	ASSERT_EQ(0, pfm_stop(fd));
	runs = runs_done(fd, NULL);
	lost = pfm_info(fd, 0).set_lost + pfm_info(fd, 1).set_lost;
	TH_LOG("%llu runs in %llu ticks, %llu overflows lost", runs, ticks, lost);
	EXPECT_LE(10, runs);
	EXPECT_GE(2 * ticks + 2, runs);
	EXPECT_LT(0, lost);
	close(fd);
}

/* Only sets that sample wait for the tick. */
TEST_F(slow, set_that_only_counts_is_not_throttled)
{
	struct pages pages;
	__u64 touched = 0, end;
	int fd;

	if (variant->flags)
		SKIP(return, "counts the page faults of a thread");
	ASSERT_EQ(0, pages_map(&pages, 64));
	fd = sim_open("pmusim", 0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, pfm_make_set(fd, 0, PFM_SETFL_OVFL_SWITCH, 0, 0));
	ASSERT_EQ(0, sim_reg(fd, 0, 0, variant->context, 0, 0, 0));
	ASSERT_EQ(0, sim_reg(fd, 0, variant->num, variant->context, 10, 0, 1));
	ASSERT_EQ(0, pfm_make_set(fd, 1, PFM_SETFL_TIME_SWITCH, NSEC_PER_MSEC, 0));
	ASSERT_EQ(0, pfm_write_pmds(fd, &(struct pfarg_pmd) {
		.reg_num = PFM_SW_BASE + PERF_COUNT_SW_PAGE_FAULTS, .reg_set = 1 }, 1));
	ASSERT_EQ(0, pfm_load_self(fd));
	ASSERT_EQ(0, pfm_start(fd, NULL));
	end = now_ns(CLOCK_MONOTONIC) + 20000 * NSEC_PER_MSEC;
	while (touched < 200 && now_ns(CLOCK_MONOTONIC) < end) {
		__u64 before, after;

		/* Set 0 is throttled, and switches to set 1 at once. */
		sim_tick(fd, variant->num, 10);
		if (!(pfm_info(fd, 1).set_flags & PFM_SETFL_OUT_ACTIVE))
			continue;
		before = pfm_info(fd, 1).set_runs;
		pages_touch(&pages, 1);
		after = pfm_info(fd, 1).set_runs;
		if (before == after && pfm_info(fd, 1).set_flags & PFM_SETFL_OUT_ACTIVE)
			touched++;
	}
	ASSERT_EQ(0, pfm_stop(fd));
	EXPECT_LE(200, touched);
	EXPECT_LE(touched, pfm_value(fd, 1, PFM_SW_BASE + PERF_COUNT_SW_PAGE_FAULTS));
	close(fd);
}

static __u64 samples_done(int fd, void *arg)
{
	return ((const struct pfm_dfl_smpl_hdr *)arg)->hdr_count;
}

TEST_F(slow, sampling_obeys_the_sample_rate)
{
	const struct pfm_dfl_smpl_hdr *hdr;
	__u64 ticks;
	int fd;

	fd = sampling_open(&hdr, variant->flags);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, sim_reg(fd, 0, 0, variant->context, 0, 0, 0));
	ASSERT_EQ(0, sim_reg(fd, 0, variant->num, variant->context, 10, 0, 0));
	ASSERT_EQ(0, pfm_load_tid(fd, variant->flags ? 0 : getpid(), 0));
	ASSERT_EQ(0, pfm_start(fd, NULL));
	ticks = slow_ticks(fd, variant->num, samples_done, (void *)hdr);
	ASSERT_EQ(0, pfm_stop(fd));
	TH_LOG("%llu samples in %llu ticks", hdr->hdr_count, ticks);
	EXPECT_LE(10, hdr->hdr_count);
	EXPECT_GE(2 * ticks + 2, hdr->hdr_count);
	EXPECT_LT(0, pfm_info(fd, 0).set_lost);
	sampling_close(fd, hdr);
}

/* Perf forgets that an event was throttled when another set takes its place. */
TEST_F(slow, sets_that_are_switched_by_time_obey_the_sample_rate)
{
	const struct pfm_dfl_smpl_hdr *hdr;
	__u64 ticks, runs;
	int fd, i;

	fd = sampling_open(&hdr, variant->flags);
	ASSERT_LE(0, fd);
	for (i = 0; i < 2; i++) {
		ASSERT_EQ(0, pfm_make_set(fd, i, PFM_SETFL_TIME_SWITCH, tick_ns() / 4, 0));
		ASSERT_EQ(0, sim_reg(fd, i, 0, variant->context, 0, 0, 0));
		ASSERT_EQ(0, sim_reg(fd, i, variant->num, variant->context, 10, 0, 0));
	}
	ASSERT_EQ(0, pfm_load_tid(fd, variant->flags ? 0 : getpid(), 0));
	ASSERT_EQ(0, pfm_start(fd, NULL));
	ticks = slow_ticks(fd, variant->num, samples_done, (void *)hdr);
	ASSERT_EQ(0, pfm_stop(fd));
	runs = runs_done(fd, NULL);
	TH_LOG("%llu samples in %llu ticks and %llu runs", hdr->hdr_count, ticks, runs);
	EXPECT_LE(10, hdr->hdr_count);
	EXPECT_LE(10, runs);
	EXPECT_GE(2 * ticks + 2, hdr->hdr_count);
	sampling_close(fd, hdr);
}

/* A clock passes its period before the overflow can be handled. */
TEST_F(sim, periods_too_short_to_handle_leave_the_cpu_to_the_program)
{
	struct pfarg_pmc pmc = { .reg_value = COUNTER(0) | OFLOW(variant->context) | CLOCK };
	struct pfarg_pmd pmd = {
		.reg_value = -50ULL, .reg_short_reset = -40ULL,
		.reg_flags = PFM_REGFL_RANDOM, .reg_random_mask = 15,
	};

	if (variant->context == TASK)
		SKIP(return, "each overflow takes the CPU from the thread for a worker");
	ASSERT_EQ(0, pfm_write_pmcs(self->fd, &pmc, 1));
	ASSERT_EQ(0, pfm_write_pmds(self->fd, &pmd, 1));
	ASSERT_EQ(0, pfm_load_self(self->fd));
	ASSERT_EQ(0, pfm_start(self->fd, NULL));
	burn(50 * NSEC_PER_MSEC);
	EXPECT_EQ(0, pfm_stop(self->fd));
}

/*
 * Perfmon does not limit the time of interrupts and handlers, which take most of the
 * time on a loaded emulator, more so with a debug kernel. A starved program would get
 * no time at all.
 */
#define LEAST_SHARE	400

/* Create sets whose registers overflow at their first count. */
static void too_short(struct __test_metadata *const _metadata, int fd, enum context context,
		      int sets, int regs)
{
	struct pfarg_pmd pmd = {
		.reg_value = -50ULL, .reg_short_reset = -40ULL, .reg_ovfl_switch_cnt = 1,
		.reg_flags = PFM_REGFL_RANDOM, .reg_random_mask = 15,
	};
	struct pfarg_pmc pmc = { };
	__u64 with = 0, without = 0, runs = 0, end;
	int i;

	for (i = 0; i < sets * regs; i++) {
		if (i % regs == 0)
			ASSERT_EQ(0, pfm_make_set(fd, i / regs, PFM_SETFL_OVFL_SWITCH, 0, 0));
		pmc.reg_num = i % regs;
		pmc.reg_set = i / regs;
		pmc.reg_value = COUNTER(i % regs) | OFLOW(context) | CLOCK;
		pmd.reg_num = pmc.reg_num;
		pmd.reg_set = pmc.reg_set;
		ASSERT_EQ(0, pfm_write_pmcs(fd, &pmc, 1));
		ASSERT_EQ(0, pfm_write_pmds(fd, &pmd, 1));
	}
	ASSERT_EQ(0, pfm_load_self(fd));
	/* Measure in turns, because the machine may be slower for a while. */
	end = now_ns(CLOCK_MONOTONIC) + 20000 * NSEC_PER_MSEC;
	for (i = 0; i < 10 || ((!runs || without < 100 * LEAST_SHARE) &&
			       now_ns(CLOCK_MONOTONIC) < end); i++) {
		ASSERT_EQ(0, pfm_start(fd, NULL));
		with += loops_in(20 * NSEC_PER_MSEC);
		EXPECT_EQ(0, pfm_stop(fd));
		without += loops_in(20 * NSEC_PER_MSEC);
		runs = pfm_info(fd, 1).set_runs;
	}
	TH_LOG("%llu turns beside %llu, runs %llu", with, without, runs);
	/* Require at least one turn in each round, otherwise the test proves nothing. */
	EXPECT_LE(100 * LEAST_SHARE, without);
	EXPECT_LT(without / LEAST_SHARE, with);
	EXPECT_LE(1, runs);
}

/*
 * Each overflow causes work for all registers together, while perf counts overflows one
 * by one.
 */
TEST_F(sim, sets_too_short_to_switch_leave_the_cpu_to_the_program)
{
	if (variant->context == TASK)
		SKIP(return, "each overflow takes the CPU from the thread for a worker");
	too_short(_metadata, self->fd, variant->context, 4, 4);
}

/* Use so many sets that each has its next turn in another tick. */
TEST_F(sim, many_sets_too_short_to_switch_leave_the_cpu_to_the_program)
{
	if (variant->context == TASK)
		SKIP(return, "each overflow takes the CPU from the thread for a worker");
	too_short(_metadata, self->fd, variant->context, 64, 1);
}

TEST_F(sim, group_that_finds_no_place_is_told)
{
	ASSERT_EQ(0, sim_reg(self->fd, 0, 0, variant->context, 0, 0, 0));
	ASSERT_EQ(0, sim_reg(self->fd, 0, 1, variant->context, 0, 0, 0));
	ASSERT_EQ(0, pfm_load_self(self->fd));
	ASSERT_EQ(0, sim_write("pmusim/fail_commit", "%d", 100, 0));
	EXPECT_EQ(-EBUSY, pfm_start(self->fd, NULL));
	ASSERT_EQ(0, sim_write("pmusim/fail_commit", "%d", 0, 0));
	EXPECT_EQ(0, pfm_start(self->fd, NULL));
	ASSERT_EQ(0, sim_tick(self->fd, 1, 10));
	EXPECT_EQ(10, pfm_value(self->fd, 0, 1));
}

TEST_F(sim, counters_that_others_have_are_busy)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr), .type = sim_type("pmusim"),
		.config = COUNTER(0), .pinned = 1,
	};
	int perf;

	perf = syscall(__NR_perf_event_open, &attr, -1, 0, -1, 0);
	ASSERT_LE(0, perf);
	ASSERT_EQ(0, sim_reg(self->fd, 0, 0, variant->context, 0, 0, 0));
	ASSERT_EQ(0, pfm_load_self(self->fd));
	EXPECT_EQ(-EBUSY, pfm_start(self->fd, NULL));
	close(perf);
	EXPECT_EQ(0, pfm_start(self->fd, NULL));
	EXPECT_EQ(0, pfm_info(self->fd, 0).set_flags & PFM_SETFL_OUT_NOPMU);
}

TEST_F(sim, registers_that_never_fit_are_refused)
{
	struct pfarg_pmc pmc = { .reg_num = 1, .reg_value = COUNTER(0) };

	ASSERT_EQ(0, sim_reg(self->fd, 0, 0, variant->context, 0, 0, 0));
	ASSERT_EQ(0, pfm_set_pmd(self->fd, 0, 1, 0));
	ASSERT_EQ(0, pfm_write_pmcs(self->fd, &pmc, 1));
	EXPECT_EQ(-EINVAL, pfm_load_self(self->fd));
	pmc.reg_value = COUNTER(1);
	ASSERT_EQ(0, pfm_write_pmcs(self->fd, &pmc, 1));
	EXPECT_EQ(0, pfm_load_self(self->fd));
	/* A later write fails as well, and the register keeps its value. */
	pmc.reg_value = COUNTER(0);
	EXPECT_EQ(-EINVAL, pfm_write_pmcs(self->fd, &pmc, 1));
	EXPECT_EQ(PFM_REGFL_RETFL_EINVAL, pmc.reg_flags);
	ASSERT_EQ(0, pfm_start(self->fd, NULL));
	ASSERT_EQ(0, sim_tick(self->fd, 1, 10));
	EXPECT_EQ(10, pfm_value(self->fd, 0, 1));
}

TEST_F(sim, vector_is_written_up_to_the_register_that_is_wrong)
{
	struct pfarg_pmc pmc[3] = {
		{ .reg_num = 0, .reg_value = COUNTER(3) | OFLOW(variant->context) },
		{ .reg_num = 1, .reg_value = COUNTER(0) | OFLOW(variant->context) },
		{ .reg_num = 2, .reg_set = 1 },
	};
	int i;

	for (i = 0; i < 3; i++)
		ASSERT_EQ(0, sim_reg(self->fd, 0, i, variant->context, 0, 0, 0));
	ASSERT_EQ(0, pfm_load_self(self->fd));
	EXPECT_EQ(-EINVAL, pfm_write_pmcs(self->fd, pmc, 3));
	EXPECT_EQ(0, pmc[0].reg_flags);
	EXPECT_EQ(0, pmc[1].reg_flags);
	EXPECT_EQ(PFM_REGFL_RETFL_NOSET, pmc[2].reg_flags);
	ASSERT_EQ(0, pfm_start(self->fd, NULL));
	for (i = 0; i < 4; i++)
		ASSERT_EQ(0, sim_tick(self->fd, i, 1000 + i));
	EXPECT_EQ(1003, pfm_value(self->fd, 0, 0));
	EXPECT_EQ(1000, pfm_value(self->fd, 0, 1));
	EXPECT_EQ(1002, pfm_value(self->fd, 0, 2));
}

TEST_F(sim, registers_thrown_out_come_back_with_the_next_start)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr), .type = sim_type("pmusim"),
		.config = COUNTER(0), .pinned = 1,
	};
	struct pfarg_setinfo info;
	int perf;

	ASSERT_EQ(0, sim_reg(self->fd, 0, 0, variant->context, 0, 0, 0));
	ASSERT_EQ(0, pfm_load_self(self->fd));
	ASSERT_EQ(0, pfm_start(self->fd, NULL));
	ASSERT_EQ(0, sim_tick(self->fd, 0, 7));
	perf = syscall(__NR_perf_event_open, &attr, -1, 0, -1, 0);
	ASSERT_LE(0, perf);
	EXPECT_EQ(PFM_SETFL_OUT_NOPMU, pfm_info(self->fd, 0).set_flags & PFM_SETFL_OUT_NOPMU);
	ASSERT_EQ(0, sim_tick(self->fd, 0, 100));
	EXPECT_EQ(7, pfm_value(self->fd, 0, 0));
	info = pfm_info(self->fd, 0);
	EXPECT_GT(info.set_enabled_ns, info.set_running_ns);
	close(perf);
	EXPECT_EQ(0, pfm_start(self->fd, NULL));
	EXPECT_EQ(0, pfm_info(self->fd, 0).set_flags & PFM_SETFL_OUT_NOPMU);
	ASSERT_EQ(0, sim_tick(self->fd, 0, 10));
	EXPECT_EQ(17, pfm_value(self->fd, 0, 0));
}

TEST_F(sim, refused_register_leaves_the_set_as_it_was)
{
	struct pfarg_pmd pmd[2] = { { .reg_num = 0, .reg_value = 5 }, { .reg_num = 1 } };
	struct pfarg_pmc pmc = { .reg_num = 1, .reg_value = COUNTER(0) };

	ASSERT_EQ(0, sim_reg(self->fd, 0, 0, variant->context, 0, 0, 0));
	ASSERT_EQ(0, pfm_write_pmcs(self->fd, &pmc, 1));
	ASSERT_EQ(0, pfm_load_self(self->fd));
	ASSERT_EQ(0, pfm_start(self->fd, NULL));
	/* Two events need the same counter. */
	EXPECT_EQ(-EINVAL, pfm_write_pmds(self->fd, pmd, 2));
	EXPECT_EQ(0, pmd[0].reg_flags);
	EXPECT_EQ(PFM_REGFL_RETFL_EINVAL, pmd[1].reg_flags);
	ASSERT_EQ(0, sim_tick(self->fd, 0, 10));
	EXPECT_EQ(15, pfm_value(self->fd, 0, 0));
	EXPECT_EQ(0, pfm_set_pmd(self->fd, 0, 0, 20));
	EXPECT_EQ(0, pfm_set_pmd(self->fd, 0, 2, 30));
	ASSERT_EQ(0, sim_tick(self->fd, 0, 10));
	EXPECT_EQ(30, pfm_value(self->fd, 0, 0));
	ASSERT_EQ(0, pfm_unload(self->fd));
	EXPECT_EQ(0, pfm_load_self(self->fd));
}

/*
 * A register may have no event because the PMU rejected it, or because it has no
 * control register yet.
 */
TEST_F(sim, refused_register_does_not_take_along_one_without_control_register)
{
	struct pfarg_pmd pmd[2] = { { .reg_num = 2, .reg_value = 5 }, { .reg_num = 1 } };
	struct pfarg_pmc pmc = { .reg_num = 1, .reg_value = COUNTER(0) };

	ASSERT_EQ(0, sim_reg(self->fd, 0, 0, variant->context, 0, 0, 0));
	ASSERT_EQ(0, pfm_write_pmcs(self->fd, &pmc, 1));
	ASSERT_EQ(0, pfm_load_self(self->fd));
	ASSERT_EQ(0, pfm_start(self->fd, NULL));
	ASSERT_EQ(-EINVAL, pfm_write_pmds(self->fd, pmd, 2));
	EXPECT_EQ(0, pmd[0].reg_flags);
	EXPECT_EQ(PFM_REGFL_RETFL_EINVAL, pmd[1].reg_flags);
	ASSERT_EQ(0, sim_tick(self->fd, 2, 10));
	EXPECT_EQ(5, pfm_value(self->fd, 0, 2));
	ASSERT_EQ(0, sim_pmc(self->fd, 0, 2, variant->context));
	ASSERT_EQ(0, sim_tick(self->fd, 2, 10));
	EXPECT_EQ(15, pfm_value(self->fd, 0, 2));
	/* The rejected register is left out until it is written again. */
	ASSERT_EQ(0, sim_pmc(self->fd, 0, 1, variant->context));
	ASSERT_EQ(0, sim_tick(self->fd, 1, 10));
	EXPECT_EQ(0, pfm_value(self->fd, 0, 1));
	ASSERT_EQ(0, pfm_set_pmd(self->fd, 0, 1, 7));
	ASSERT_EQ(0, sim_tick(self->fd, 1, 10));
	ASSERT_EQ(0, sim_tick(self->fd, 2, 10));
	EXPECT_EQ(17, pfm_value(self->fd, 0, 1));
	EXPECT_EQ(25, pfm_value(self->fd, 0, 2));
}

FIXTURE(caps)
{
	int fd;
};

FIXTURE_SETUP(caps)
{
	self->fd = -1;
	if (sim_type("pmusim") < 0)
		SKIP(return, "no simulated PMU: needs PERF_PMUSIM");
	ASSERT_EQ(0, sim_begin());
	ASSERT_EQ(0, sim_cap("-gate_stop"));
	self->fd = sim_open("pmusim", 0);
	ASSERT_LE(0, self->fd);
}

FIXTURE_TEARDOWN(caps)
{
	if (self->fd < 0)
		return;
	close(self->fd);
	EXPECT_EQ(0, sim_cap("-no_interrupt"));
	EXPECT_EQ(0, sim_cap("-no_exclude"));
	EXPECT_EQ(0, sim_cap("-gate_stop"));
}

TEST_F(caps, without_interrupts_there_are_only_counts)
{
	struct pfarg_pmd bad[3] = {
		{ .reg_flags = PFM_REGFL_OVFL_NOTIFY },
		{ .reg_flags = PFM_REGFL_RANDOM },
		{ .reg_ovfl_switch_cnt = 1 },
	};
	int i;

	ASSERT_EQ(0, sim_cap("+no_interrupt"));
	ASSERT_EQ(0, sim_pmc(self->fd, 0, 0, HARDIRQ));
	for (i = 0; i < 3; i++) {
		ASSERT_EQ(0, pfm_write_pmds(self->fd, &bad[i], 1));
		EXPECT_EQ(-EINVAL, pfm_load_self(self->fd));
	}
	ASSERT_EQ(0, pfm_set_pmd(self->fd, 0, 0, 5));
	ASSERT_EQ(0, pfm_load_self(self->fd));
	ASSERT_EQ(0, pfm_start(self->fd, NULL));
	ASSERT_EQ(0, sim_tick(self->fd, 0, 100));
	EXPECT_EQ(105, pfm_value(self->fd, 0, 0));
	ASSERT_EQ(0, pfm_set_pmd(self->fd, 0, 0, 7));
	ASSERT_EQ(0, sim_tick(self->fd, 0, 100));
	EXPECT_EQ(107, pfm_value(self->fd, 0, 0));
}

TEST_F(caps, without_interrupts_there_are_only_counts_while_loaded_too)
{
	struct pfarg_pmd bad[3] = {
		{ .reg_value = 9, .reg_flags = PFM_REGFL_OVFL_NOTIFY },
		{ .reg_value = 9, .reg_flags = PFM_REGFL_RANDOM },
		{ .reg_value = 9, .reg_ovfl_switch_cnt = 1 },
	};
	int i;

	ASSERT_EQ(0, sim_cap("+no_interrupt"));
	ASSERT_EQ(0, sim_pmc(self->fd, 0, 0, HARDIRQ));
	ASSERT_EQ(0, pfm_set_pmd(self->fd, 0, 0, 5));
	ASSERT_EQ(0, pfm_load_self(self->fd));
	ASSERT_EQ(0, pfm_start(self->fd, NULL));
	for (i = 0; i < 3; i++) {
		EXPECT_EQ(-EINVAL, pfm_write_pmds(self->fd, &bad[i], 1));
		EXPECT_TRUE(bad[i].reg_flags & PFM_REGFL_RETFL_EINVAL);
	}
	ASSERT_EQ(0, sim_tick(self->fd, 0, 100));
	EXPECT_EQ(105, pfm_value(self->fd, 0, 0));
	ASSERT_EQ(0, pfm_unload(self->fd));
	EXPECT_EQ(0, pfm_load_self(self->fd));
}

TEST_F(caps, without_interrupts_there_are_no_samples)
{
	struct pfarg_pmd bad[3] = {
		{ .reg_value = -100ULL },
		{ .reg_short_reset = -100ULL },
		{ .reg_long_reset = -100ULL },
	};
	const struct pfm_dfl_smpl_hdr *hdr;
	int fd, i;

	ASSERT_EQ(0, sim_cap("+no_interrupt"));
	fd = sampling_open(&hdr, 0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, sim_pmc(fd, 0, 0, HARDIRQ));
	ASSERT_EQ(0, pfm_set_pmd(fd, 0, 0, -100ULL));
	EXPECT_EQ(-EINVAL, pfm_load_self(fd));
	ASSERT_EQ(0, pfm_set_pmd(fd, 0, 0, 100));
	EXPECT_EQ(0, pfm_load_self(fd));
	/* The write fails while loaded as well, for each of the values that could wrap. */
	for (i = 0; i < 3; i++) {
		EXPECT_EQ(-EINVAL, pfm_write_pmds(fd, &bad[i], 1));
		EXPECT_EQ(PFM_REGFL_RETFL_EINVAL, bad[i].reg_flags);
	}
	EXPECT_EQ(100, pfm_value(fd, 0, 0));
	EXPECT_EQ(0, pfm_set_pmd(fd, 0, 0, 101));
	sampling_close(fd, hdr);
}

/* The driver gives a counting event a period, which is not a real one. */
TEST_F(caps, count_beside_an_overflow_is_not_lost)
{
	struct pfarg_pmd pmd = {
		.reg_num = SW(PAGE_FAULTS), .reg_value = -5ULL, .reg_long_reset = -5ULL,
		.reg_flags = PFM_REGFL_OVFL_NOTIFY,
	};
	struct pages pages;
	union pfarg_msg msg;

	ASSERT_EQ(0, sim_cap("+no_interrupt"));
	ASSERT_EQ(0, sim_cap("+gate_stop"));
	ASSERT_EQ(0, pages_map(&pages, 100));
	ASSERT_EQ(0, sim_pmc(self->fd, 0, 0, HARDIRQ));
	ASSERT_EQ(0, pfm_set_pmd(self->fd, 0, 0, 5));
	ASSERT_EQ(0, pfm_write_pmds(self->fd, &pmd, 1));
	ASSERT_EQ(0, pfm_load_self(self->fd));
	ASSERT_EQ(0, pfm_start(self->fd, NULL));
	ASSERT_EQ(0, sim_tick(self->fd, 0, 100));
	pages_touch(&pages, 50);
	msg = pfm_msg(self->fd);
	ASSERT_EQ(PFM_MSG_OVFL, msg.type);
	EXPECT_EQ(0, msg.pfm_ovfl_msg.msg_ovfl_pmds[0]);
	EXPECT_EQ(105, pfm_value(self->fd, 0, 0));
	ASSERT_EQ(0, pfm_restart(self->fd));
	EXPECT_EQ(105, pfm_value(self->fd, 0, 0));
	ASSERT_EQ(0, sim_tick(self->fd, 0, 10));
	EXPECT_EQ(115, pfm_value(self->fd, 0, 0));
}

#define TOGETHER_NS	(20 * NSEC_PER_MSEC)

/*
 * One interrupt handles two overflows: that of a clock, which waits for a worker that
 * cannot run, and that of a tick, which handles both.
 */
static void together_make(struct __test_metadata *const _metadata, int fd, int set,
			  unsigned int flags, unsigned int cnt)
{
	struct pfarg_pmc pmc = {
		.reg_num = 1, .reg_set = set, .reg_value = COUNTER(1) | OFLOW(TASK) | CLOCK,
	};
	struct pfarg_pmd pmd = {
		.reg_num = 1, .reg_set = set, .reg_flags = flags, .reg_value = -TOGETHER_NS,
		.reg_long_reset = -TOGETHER_NS, .reg_short_reset = -TOGETHER_NS,
	};

	ASSERT_EQ(0, sim_reg(fd, set, 0, TASK, 100, flags, cnt));
	ASSERT_EQ(0, pfm_write_pmcs(fd, &pmc, 1));
	ASSERT_EQ(0, pfm_write_pmds(fd, &pmd, 1));
}

static void together_start(struct __test_metadata *const _metadata, int fd)
{
	struct sched_param param = { .sched_priority = 1 };

	ASSERT_EQ(0, sched_setscheduler(0, SCHED_FIFO, &param));
	ASSERT_EQ(0, pfm_load_self(fd));
	ASSERT_EQ(0, pfm_start(fd, NULL));
}

/*
 * The value of the clock passes zero before its timer fires. The overflow comes with the
 * timer.
 */
static bool sim_overflow_waits(void)
{
	char text[1024];

	return !read_file(DEBUGFS "/pmusim/cpu0/state", text, sizeof(text)) &&
	       strstr(text, "pending");
}

static void together_overflow(struct __test_metadata *const _metadata, int fd, int set)
{
	while ((__s64)pfm_value(fd, set, 1) < 0 || !sim_overflow_waits())
		;
	ASSERT_EQ(0, sim_tick(fd, 0, 100));
}

static void two_are_one_message(struct __test_metadata *const _metadata, int fd)
{
	union pfarg_msg msg;
	int i;

	together_make(_metadata, fd, 0, PFM_REGFL_OVFL_NOTIFY, 0);
	together_start(_metadata, fd);
	for (i = 0; i < 5; i++) {
		together_overflow(_metadata, fd, 0);
		msg = pfm_msg(fd);
		ASSERT_EQ(PFM_MSG_OVFL, msg.type);
		EXPECT_EQ(3, msg.pfm_ovfl_msg.msg_ovfl_pmds[0]);
		EXPECT_EQ(3, pfm_info(fd, 0).set_ovfl_pmds[0]);
		ASSERT_EQ(0, pfm_restart(fd));
		EXPECT_EQ(0, pfm_info(fd, 0).set_ovfl_pmds[0]);
		EXPECT_EQ(-100ULL, pfm_value(fd, 0, 0));
		EXPECT_EQ(-TOGETHER_NS, pfm_pmd(fd, 0, 1).reg_last_reset_val);
		EXPECT_EQ(-EBUSY, pfm_restart(fd));
		EXPECT_EQ(0, pfm_msg(fd).type);
	}
}

TEST_F(caps, two_overflows_in_one_interrupt_are_one_message)
{
	ASSERT_EQ(0, sim_cap("+gate_stop"));
	two_are_one_message(_metadata, self->fd);
}

TEST_F(caps, two_overflows_in_one_interrupt_that_stops_nothing_are_one_message)
{
	two_are_one_message(_metadata, self->fd);
}

/* The first overflow switches the set, which must not lose the other one. */
static void two_are_two_samples(struct __test_metadata *const _metadata)
{
	const struct pfm_dfl_smpl_hdr *hdr;
	int fd, i;

	fd = sampling_open(&hdr, 0);
	ASSERT_LE(0, fd);
	for (i = 0; i < 2; i++) {
		ASSERT_EQ(0, pfm_make_set(fd, i, PFM_SETFL_OVFL_SWITCH, 0, 0));
		together_make(_metadata, fd, i, 0, 1);
	}
	together_start(_metadata, fd);
	for (i = 1; i <= 6; i++) {
		together_overflow(_metadata, fd, (i - 1) % 2);
		EXPECT_EQ(2 * i, hdr->hdr_count + pfm_info(fd, 0).set_lost +
				 pfm_info(fd, 1).set_lost);
		EXPECT_EQ(i / 2, pfm_info(fd, 1).set_runs - i % 2);
	}
	sampling_close(fd, hdr);
}

TEST_F(caps, two_overflows_in_one_interrupt_are_two_samples)
{
	ASSERT_EQ(0, sim_cap("+gate_stop"));
	two_are_two_samples(_metadata);
}

TEST_F(caps, two_overflows_in_one_interrupt_that_stops_nothing_are_two_samples)
{
	two_are_two_samples(_metadata);
}

TEST_F(caps, pmu_that_knows_no_levels_counts)
{
	struct pfarg_pmc pmc = { .reg_value = COUNTER(0), .reg_flags = PFM_REGFL_EXCL_KERNEL };

	ASSERT_EQ(0, sim_cap("+no_exclude"));
	ASSERT_EQ(0, pfm_set_pmd(self->fd, 0, 0, 5));
	ASSERT_EQ(0, pfm_write_pmcs(self->fd, &pmc, 1));
	EXPECT_EQ(-EINVAL, pfm_load_self(self->fd));
	ASSERT_EQ(0, sim_pmc(self->fd, 0, 0, HARDIRQ));
	ASSERT_EQ(0, pfm_load_self(self->fd));
	ASSERT_EQ(0, pfm_start(self->fd, NULL));
	ASSERT_EQ(0, sim_tick(self->fd, 0, 100));
	EXPECT_EQ(105, pfm_value(self->fd, 0, 0));
}

/* A context that is used again by a program for perfmon 2.8 */
FIXTURE(again)
{
	bool set;
	int fd;
};

FIXTURE_SETUP(again)
{
	if (sim_type("pmusim") < 0)
		SKIP(return, "no simulated PMU: needs PERF_PMUSIM");
	ASSERT_EQ(0, sim_begin());
	ASSERT_EQ(0, write_file(COMPAT, "1"));
	self->set = true;
	self->fd = sim_open("pmusim", 0);
	ASSERT_LE(0, self->fd);
}

FIXTURE_TEARDOWN(again)
{
	if (!self->set)
		return;
	close(self->fd);
	EXPECT_EQ(0, write_file(COMPAT, "0"));
}

/* Register @num counts counter @counter in user mode, as an unprivileged user may. */
static long again_pmc(int fd, int num, int counter)
{
	struct pfarg_pmc pmc = {
		.reg_num = num, .reg_value = COUNTER(counter),
		.reg_flags = PFM_REGFL_EXCL_KERNEL | PFM_REGFL_EXCL_HV,
	};

	return pfm_write_pmcs(fd, &pmc, 1);
}

/* Use registers 0 and 1 in a first load. */
static long again_first_load(int fd, int tid)
{
	return again_pmc(fd, 0, 0) ?: again_pmc(fd, 1, 1) ?: pfm_set_pmd(fd, 0, 0, 0) ?:
	       pfm_set_pmd(fd, 0, 1, 0) ?: pfm_load_tid(fd, tid, 0) ?: pfm_unload(fd);
}

static int take_counter(int num)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr), .type = sim_type("pmusim"),
		.config = COUNTER(num), .pinned = 1,
	};

	return syscall(__NR_perf_event_open, &attr, -1, 0, -1, 0);
}

TEST_F(again, counters_of_old_registers_may_be_taken_by_others)
{
	int perf, fd = self->fd;

	ASSERT_EQ(0, again_first_load(fd, getpid()));
	perf = take_counter(0);
	ASSERT_LE(0, perf);
	ASSERT_EQ(0, pfm_set_pmd(fd, 0, 1, 0));
	ASSERT_EQ(0, pfm_load_self(fd));
	ASSERT_EQ(0, pfm_start(fd, NULL));
	ASSERT_EQ(0, sim_tick(fd, 1, 10));
	EXPECT_EQ(10, pfm_value(fd, 0, 1));
	EXPECT_EQ(0, pfm_info(fd, 0).set_flags & PFM_SETFL_OUT_NOPMU);
	ASSERT_EQ(0, pfm_unload(fd));
	/* The old register counts again once it is written. */
	close(perf);
	ASSERT_EQ(0, pfm_set_pmd(fd, 0, 0, 0));
	ASSERT_EQ(0, pfm_load_self(fd));
	ASSERT_EQ(0, pfm_start(fd, NULL));
	ASSERT_EQ(0, sim_tick(fd, 0, 10));
	EXPECT_EQ(10, pfm_value(fd, 0, 0));
}

TEST_F(again, counters_of_registers_in_use_are_busy)
{
	int perf, fd = self->fd;

	ASSERT_EQ(0, again_first_load(fd, getpid()));
	perf = take_counter(0);
	ASSERT_LE(0, perf);
	/* Both registers are written for this load. */
	ASSERT_EQ(0, pfm_set_pmd(fd, 0, 0, 0));
	ASSERT_EQ(0, pfm_set_pmd(fd, 0, 1, 0));
	ASSERT_EQ(0, pfm_load_self(fd));
	EXPECT_EQ(-EBUSY, pfm_start(fd, NULL));
	ASSERT_EQ(0, pfm_unload(fd));
	/* No register is written for this load. */
	ASSERT_EQ(0, pfm_load_self(fd));
	EXPECT_EQ(-EBUSY, pfm_start(fd, NULL));
	close(perf);
	ASSERT_EQ(0, pfm_start(fd, NULL));
	ASSERT_EQ(0, sim_tick(fd, 0, 10));
	EXPECT_EQ(10, pfm_value(fd, 0, 0));
}

TEST_F(again, registers_are_kept_without_compat)
{
	int perf, fd;

	ASSERT_EQ(0, write_file(COMPAT, "0"));
	fd = sim_open("pmusim", 0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, again_first_load(fd, getpid()));
	perf = take_counter(0);
	ASSERT_LE(0, perf);
	ASSERT_EQ(0, pfm_set_pmd(fd, 0, 1, 0));
	ASSERT_EQ(0, pfm_load_self(fd));
	EXPECT_EQ(-EBUSY, pfm_start(fd, NULL));
	close(perf);
	EXPECT_EQ(0, pfm_start(fd, NULL));
	close(fd);
}

/* Return 0 if a start that gets neither a counter nor memory fails and can be repeated. */
static int start_without_memory(int type)
{
	struct pfarg_ctx ctx = { .ctx_pmu_type = type };
	struct hog hog;
	int fd;

	fd = pfm_create(&ctx, NULL, NULL, 0);
	if (fd < 0 || make_idle_sets(fd) || again_first_load(fd, getpid()) ||
	    pfm_set_pmd(fd, 0, 1, 0) || pfm_load_self(fd))
		return 1;
	if (hog_take_all(&hog, fd))
		return 2;
	if (pfm_start(fd, NULL) != -ENOMEM)
		return 3;
	hog_free(&hog);
	return pfm_start(fd, NULL) ? 4 : 0;
}

TEST_F(again, start_without_memory_is_told_and_can_be_repeated)
{
	int perf, type = sim_type("pmusim");

	perf = take_counter(0);
	ASSERT_LE(0, perf);
	EXPECT_EQ(0, AS_NOBODY(limit_memlock(0) ? 99 : start_without_memory(type)));
	close(perf);
}

TEST_F(again, load_never_leaves_all_registers)
{
	int fd = self->fd;

	ASSERT_EQ(0, again_first_load(fd, getpid()));
	/* Registers 0 and 1 cannot share a counter, and neither is written. */
	ASSERT_EQ(0, again_pmc(fd, 1, 0));
	EXPECT_EQ(-EINVAL, pfm_load_self(fd));
	ASSERT_EQ(0, again_pmc(fd, 1, 1));
	ASSERT_EQ(0, pfm_load_self(fd));
	ASSERT_EQ(0, pfm_start(fd, NULL));
	ASSERT_EQ(0, sim_tick(fd, 0, 10));
	ASSERT_EQ(0, sim_tick(fd, 1, 20));
	EXPECT_EQ(10, pfm_value(fd, 0, 0));
	EXPECT_EQ(20, pfm_value(fd, 0, 1));
}

#define CPU1_ONLINE	"/sys/devices/system/cpu/cpu1/online"

TEST_F(again, load_on_an_offline_cpu_forgets_no_write)
{
	int fd;

	if (access(CPU1_ONLINE, W_OK))
		SKIP(return, "CPU 1 cannot go offline");
	fd = sim_open("pmusim", PFM_FL_SYSTEM_WIDE);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, again_first_load(fd, 1));
	/* Only register 1 is written for the next load, which register 0 would prevent. */
	ASSERT_EQ(0, again_pmc(fd, 1, 0));
	ASSERT_EQ(0, pfm_set_pmd(fd, 0, 1, 0));
	ASSERT_EQ(0, write_file(CPU1_ONLINE, "0"));
	EXPECT_EQ(-ENODEV, pfm_load_tid(fd, 1, 0));
	ASSERT_EQ(0, write_file(CPU1_ONLINE, "1"));
	EXPECT_EQ(0, pfm_load_tid(fd, 1, 0));
	EXPECT_EQ(0, pfm_start(fd, NULL));
	close(fd);
}

TEST(counters_of_the_machine_are_refused)
{
	int fd, cpu, last = sysconf(_SC_NPROCESSORS_ONLN) - 1;

	if (sim_type("pmusim_unc") < 0)
		SKIP(return, "no simulated PMU: needs PERF_PMUSIM");
	fd = sim_open("pmusim_unc", PFM_FL_SYSTEM_WIDE | PFM_FL_REMOTE);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, sim_pmc(fd, 0, 0, HARDIRQ));
	ASSERT_EQ(0, pfm_set_pmd(fd, 0, 0, 0));
	for (cpu = 0; cpu <= last; cpu++)
		EXPECT_EQ(-EINVAL, pfm_load_tid(fd, cpu, 0));
	close(fd);
}

TEST_HARNESS_MAIN
