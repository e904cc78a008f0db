// SPDX-License-Identifier: GPL-2.0
/*
 * perfmon selftests - counters of the CPU
 *
 * On x86 any architectural PMU will do, on PowerPC a book3s one, on arm64 a PMUv3.
 */
#define _GNU_SOURCE

#include "../kselftest_harness.h"
#include "perfmon_helpers.h"

enum what { INSTRUCTIONS, CYCLES };
enum level { USER = 1, KERNEL = 2 };

#if defined(__x86_64__) || defined(__i386__)
#define FIRST	0
#define COUNTERS	2

static bool is_amd(void)
{
	char text[4096] = "";
	int fd = open("/proc/cpuinfo", O_RDONLY);

	if (fd >= 0) {
		if (read(fd, text, sizeof(text) - 1) < 0)
			text[0] = '\0';
		close(fd);
	}
	return strstr(text, "AuthenticAMD");
}

static struct pfarg_pmc hw_pmc(int slot, enum what what, unsigned int levels)
{
	const __u64 code[] = { 0xc0, is_amd() ? 0x76 : 0x3c };

	return (struct pfarg_pmc) {
		.reg_num = slot,
		.reg_value = code[what] | 1 << 20 | 1 << 22 |
			     (levels & USER ? 1 << 16 : 0) | (levels & KERNEL ? 1 << 17 : 0),
	};
}
#elif defined(__powerpc64__)
#define FIRST	1
#define COUNTERS	6

/* The first two events can use any of four counters, the last two have one counter each. */
static struct pfarg_pmc hw_pmc(int slot, enum what what, unsigned int levels)
{
	static const __u64 code[] = { 0x2, 0x1e, 0x500fa, 0x600f4 };

	return (struct pfarg_pmc) {
		.reg_num = FIRST + slot,
		.reg_value = code[slot < 4 ? what : what + 2],
		.reg_flags = PFM_REGFL_EXCL_HV | (levels & USER ? 0 : PFM_REGFL_EXCL_USER) |
			     (levels & KERNEL ? 0 : PFM_REGFL_EXCL_KERNEL),
	};
}
#elif defined(__aarch64__)
#define FIRST	0
#define COUNTERS	4

static struct pfarg_pmc hw_pmc(int slot, enum what what, unsigned int levels)
{
	static const __u64 code[] = { 0x8, 0x11 };

	return (struct pfarg_pmc) {
		.reg_num = slot,
		.reg_value = code[what] | (levels & USER ? 0 : 1 << 30) |
			     (levels & KERNEL ? 0 : 1ULL << 31),
	};
}
#else
#define FIRST	0
#define COUNTERS	0

static struct pfarg_pmc hw_pmc(int slot, enum what what, unsigned int levels)
{
	return (struct pfarg_pmc) { .reg_num = slot };
}
#endif

/*
 * Tell whether interrupts may be late: an emulator that counts time as instructions of
 * the kernel may miss the next period.
 */
static bool is_late(void)
{
#ifdef __powerpc__
	return !access("/sys/kernel/debug/kmemleak", F_OK);
#else
	return false;
#endif
}

static int perf_event(enum what what)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_HARDWARE, .size = sizeof(attr),
		.config = what == CYCLES ? PERF_COUNT_HW_CPU_CYCLES : PERF_COUNT_HW_INSTRUCTIONS,
		.exclude_kernel = 1, .exclude_hv = 1,
	};

	return syscall(__NR_perf_event_open, &attr, 0, -1, -1, 0);
}

static bool counts_instructions(void)
{
	int fd = perf_event(INSTRUCTIONS);

	if (fd < 0)
		return errno != ENOENT;
	close(fd);
	return true;
}

FIXTURE(hw)
{
	struct sample_rate rate;
	int fd;
};

FIXTURE_SETUP(hw)
{
	self->fd = pfm_open(0);
	ASSERT_LE(0, self->fd);
	if (!pfm_info(self->fd, 0).set_avail_pmds[0])
		SKIP(return, "no PMU of the CPU");
	if (geteuid())
		SKIP(return, "needs root to set the limit of samples");
	if (!counts_instructions())
		SKIP(return, "the PMU counts no instructions, as QEMU's of arm64 without -icount");
	/* Set the rate, because perf lowers it on a slow emulator. */
	ASSERT_EQ(0, sample_rate_set(&self->rate, "2000000"));
	ASSERT_EQ(0, write_file(SYSCTL_TIME_PERCENT, "0"));
}

FIXTURE_TEARDOWN(hw)
{
	close(self->fd);
	EXPECT_EQ(0, sample_rate_restore(&self->rate));
}

#define NEED_INTERRUPTS() do {						\
	if (getenv("PERF_TEST_NO_PMU_INTERRUPTS"))			\
		SKIP(return, "%s", getenv("PERF_TEST_NO_PMU_INTERRUPTS")); \
} while (0)

/*
 * Tell whether the CPUs of an emulator take turns while its counters advance for all of
 * them. The interrupt of an overflow in the turn of another CPU comes after that turn.
 */
static bool counts_turns_of_others(void)
{
#ifdef __aarch64__
	return getenv("QEMU_ICOUNT") && sysconf(_SC_NPROCESSORS_ONLN) > 1;
#else
	return false;
#endif
}

#define NEED_PROMPT_INTERRUPTS() do {					\
	NEED_INTERRUPTS();						\
	if (counts_turns_of_others())					\
		SKIP(return, "QEMU counts for the CPUs of arm64 together, CPUS=1 is exact"); \
} while (0)

static long hw_reg(int fd, int set, int slot, enum what what, __u64 value, unsigned int flags,
		   __u64 cnt)
{
	struct pfarg_pmc pmc = hw_pmc(slot, what, USER);
	struct pfarg_pmd pmd = {
		.reg_num = FIRST + slot, .reg_set = set, .reg_flags = flags, .reg_value = value,
		.reg_long_reset = value, .reg_short_reset = value, .reg_ovfl_switch_cnt = cnt,
	};

	pmc.reg_set = set;
	return pfm_write_pmcs(fd, &pmc, 1) ?: pfm_write_pmds(fd, &pmd, 1);
}

/* Execute more instructions than loops, for any compiler. */
static void work(unsigned long loops)
{
	while (loops--)
		asm volatile("nop" ::: "memory");
}

/* Tell whether privilege levels work: emulated PMUs of PowerPC always count the kernel. */
static bool levels_work(void)
{
	int perf = perf_event(INSTRUCTIONS), i;
	__u64 count;

	for (i = 0; i < 1000; i++)
		syscall(__NR_getppid);
	count = perf_count(perf);
	close(perf);
	return count < 50 * 1000;
}

/* Instructions between an overflow and its interrupt, as an emulated PMU reports it */
static __u64 interrupt_delay(void)
{
	const char *delay = getenv("QEMU_PMU_PMI_DELAY");

	return delay ? strtoull(delay, NULL, 10) : 0;
}

#define NEAR_OF(a, b, permille, periods) do {				\
	__u64 __a = (a), __b = (b);					\
	__u64 __off = __b / 1000 * (permille) + (periods) * interrupt_delay();	\
									\
	EXPECT_LE(__b - __off, __a);					\
	EXPECT_GE(__b + __off, __a);					\
} while (0)

#define NEAR(a, b, permille)	NEAR_OF(a, b, permille, 1)

/*
 * The count of perf is read before the start, after it, before the stop and after it:
 * the value is not less than the inner and not more than the outer difference.
 */
static void agrees_with_perf(struct __test_metadata *const _metadata, int fd, enum what what)
{
	__u64 inner, outer, value;
	int perf;

	ASSERT_EQ(0, hw_reg(fd, 0, 0, what, 0, 0, 0));
	ASSERT_EQ(0, pfm_load_self(fd));
	perf = perf_event(what);
	ASSERT_LE(0, perf);
	outer = -perf_count(perf);
	ASSERT_EQ(0, pfm_start(fd, NULL));
	inner = -perf_count(perf);
	work(20000000);
	inner += perf_count(perf);
	ASSERT_EQ(0, pfm_stop(fd));
	outer += perf_count(perf);
	value = pfm_value(fd, 0, FIRST);
	TH_LOG("%llu, %llu to %llu beside", value, inner, outer);
	EXPECT_LE(inner - inner / 1000, value);
	EXPECT_GE(outer + outer / 1000, value);
	/* Cycles may be unrelated to instructions: in an emulator they are time. */
	EXPECT_LT(what == INSTRUCTIONS ? 20000000 : 1000000, value);
	close(perf);
}

TEST_F(hw, instructions_agree_with_perf)
{
	agrees_with_perf(_metadata, self->fd, INSTRUCTIONS);
}

TEST_F(hw, cycles_agree_with_perf)
{
	agrees_with_perf(_metadata, self->fd, CYCLES);
}

static long stay_on_cpu_0(void)
{
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(0, &cpus);
	return sched_setaffinity(0, sizeof(cpus), &cpus);
}

/* The counters of the CPU that are left: the NMI watchdog, for one, may have any of them. */
static unsigned int count_at_once(struct __test_metadata *const _metadata, int fd)
{
	__u64 mask = pfm_info(fd, 0).set_avail_pmds[0];
	__u64 value, lowest[2] = { -1, -1 }, highest[2] = { };
	unsigned int i, slot[6], what, n = 0;

	for (i = 0; i < 6; i++) {
		if (mask & 1ULL << (FIRST + i))
			slot[n++] = i;
	}
	for (i = 0; i < n; i++)
		ASSERT_EQ(0, hw_reg(fd, 0, slot[i], slot[i] & 1 ? CYCLES : INSTRUCTIONS,
				    0, 0, 0));
	ASSERT_EQ(0, pfm_load_self(fd));
	ASSERT_EQ(0, pfm_start(fd, NULL));
	work(1000000);
	ASSERT_EQ(0, pfm_stop(fd));
	for (i = 0; i < n; i++) {
		value = pfm_value(fd, 0, FIRST + slot[i]);
		what = slot[i] & 1;
		lowest[what] = value < lowest[what] ? value : lowest[what];
		highest[what] = value > highest[what] ? value : highest[what];
	}
	EXPECT_LT(1000000, lowest[INSTRUCTIONS]);
	EXPECT_LT(0, lowest[CYCLES]);
	for (i = 0; i < 2; i++)
		EXPECT_GE(lowest[i] + lowest[i] / 100, highest[i]);
	return n;
}

TEST_F(hw, all_counters_count_at_once)
{
	ASSERT_EQ(0, stay_on_cpu_0());
	EXPECT_LE(COUNTERS, count_at_once(_metadata, self->fd));
}

/* The first one is taken, where no fixed counter has the cycles. */
TEST_F(hw, counters_that_are_left_count_at_once)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_HARDWARE, .size = sizeof(attr), .pinned = 1,
		.config = PERF_COUNT_HW_CPU_CYCLES,
	};
	int perf;

	ASSERT_EQ(0, stay_on_cpu_0());
	perf = syscall(__NR_perf_event_open, &attr, -1, 0, -1, 0);
	ASSERT_LE(0, perf);
	EXPECT_LE(COUNTERS - 1, count_at_once(_metadata, self->fd));
	close(perf);
}

TEST_F(hw, hardware_and_software_share_a_set)
{
	struct pages pages;

	ASSERT_EQ(0, pages_map(&pages, 64));
	ASSERT_EQ(0, pfm_set_pmd(self->fd, 0, SW(PAGE_FAULTS), 0));
	ASSERT_EQ(0, hw_reg(self->fd, 0, 0, INSTRUCTIONS, 0, 0, 0));
	ASSERT_EQ(0, pfm_load_self(self->fd));
	ASSERT_EQ(0, pfm_start(self->fd, NULL));
	pages_touch(&pages, 40);
	ASSERT_EQ(0, pfm_stop(self->fd));
	EXPECT_EQ(40, pfm_value(self->fd, 0, SW(PAGE_FAULTS)));
	EXPECT_LT(40, pfm_value(self->fd, 0, FIRST));
}

TEST_F(hw, register_without_an_event_keeps_its_value)
{
	ASSERT_EQ(0, pfm_set_pmd(self->fd, 0, FIRST, 17));
	ASSERT_EQ(0, pfm_load_self(self->fd));
	ASSERT_EQ(0, pfm_start(self->fd, NULL));
	work(10000);
	EXPECT_EQ(17, pfm_value(self->fd, 0, FIRST));
}

TEST_F(hw, event_chosen_while_counting_begins_to_count)
{
	struct pfarg_pmc pmc = hw_pmc(0, INSTRUCTIONS, USER);
	__u64 value;

	ASSERT_EQ(0, pfm_set_pmd(self->fd, 0, FIRST, 17));
	ASSERT_EQ(0, pfm_load_self(self->fd));
	ASSERT_EQ(0, pfm_start(self->fd, NULL));
	ASSERT_EQ(0, pfm_write_pmcs(self->fd, &pmc, 1));
	work(100000);
	value = pfm_value(self->fd, 0, FIRST);
	EXPECT_LT(100000, value);
	/* If cycles are those of a clock, there are fewer cycles than instructions. */
	pmc = hw_pmc(0, CYCLES, USER);
	ASSERT_EQ(0, pfm_write_pmcs(self->fd, &pmc, 1));
	work(1000000);
	EXPECT_LT(value + 100000, pfm_value(self->fd, 0, FIRST));
}

TEST_F(hw, masked_value_is_that_of_the_overflow)
{
	unsigned int i;
	__u64 value;

	NEED_PROMPT_INTERRUPTS();
	ASSERT_EQ(0, hw_reg(self->fd, 0, 0, INSTRUCTIONS, -100000ULL, PFM_REGFL_OVFL_NOTIFY, 0));
	ASSERT_EQ(0, hw_reg(self->fd, 0, 1, INSTRUCTIONS, 0, 0, 0));
	ASSERT_EQ(0, pfm_load_self(self->fd));
	ASSERT_EQ(0, pfm_start(self->fd, NULL));
	for (i = 1; i <= 20; i++) {
		work(400000);
		ASSERT_EQ(PFM_MSG_OVFL, pfm_msg(self->fd).type);
		ASSERT_EQ(0, pfm_msg(self->fd).type);
		value = pfm_value(self->fd, 0, FIRST);
		EXPECT_GT(1000 + interrupt_delay(), value);
		work(400000);
		EXPECT_EQ(value, pfm_value(self->fd, 0, FIRST));
		ASSERT_EQ(0, pfm_restart(self->fd));
	}
}

TEST_F(hw, counters_that_overflow_together_are_one_message)
{
	unsigned int i, slot, together = 0;
	union pfarg_msg msg;
	__u64 wrapped;

	NEED_INTERRUPTS();
	/* Use a period that no system call completes, if the kernel is counted too. */
	for (slot = 0; slot < 2; slot++)
		ASSERT_EQ(0, hw_reg(self->fd, 0, slot, INSTRUCTIONS, -1000000ULL,
				    PFM_REGFL_OVFL_NOTIFY, 0));
	ASSERT_EQ(0, pfm_load_self(self->fd));
	ASSERT_EQ(0, pfm_start(self->fd, NULL));
	for (i = 1; i <= 20; i++) {
		work(1500000);
		msg = pfm_msg(self->fd);
		ASSERT_EQ(PFM_MSG_OVFL, msg.type);
		wrapped = 0;
		for (slot = 0; slot < 2; slot++) {
			if ((__s64)pfm_value(self->fd, 0, FIRST + slot) >= 0)
				wrapped |= 1ULL << (FIRST + slot);
		}
		together += wrapped == 3ULL << FIRST;
		EXPECT_EQ(wrapped, msg.pfm_ovfl_msg.msg_ovfl_pmds[0]);
		ASSERT_EQ(0, pfm_restart(self->fd));
		/* All of them are complete now. */
		EXPECT_EQ(0, pfm_info(self->fd, 0).set_ovfl_pmds[0]);
		EXPECT_EQ(-EBUSY, pfm_restart(self->fd));
		for (slot = 0; slot < 2; slot++)
			EXPECT_GT(0, (__s64)pfm_value(self->fd, 0, FIRST + slot));
	}
	TH_LOG("%u of 20 times they did", together);
	EXPECT_LT(0, together);
}

TEST_F(hw, ip_is_where_the_loop_is)
{
	unsigned long func = (unsigned long)work, ip;
	unsigned int i, near = 0;

	NEED_INTERRUPTS();
	ASSERT_EQ(0, hw_reg(self->fd, 0, 0, INSTRUCTIONS, -300000ULL, PFM_REGFL_OVFL_NOTIFY, 0));
	ASSERT_EQ(0, pfm_load_self(self->fd));
	ASSERT_EQ(0, pfm_start(self->fd, NULL));
	/* The number of overflows in the kernel depends on other load. */
	for (i = 0; i < 200 && near < 10; i++) {
		work(400000);
		ip = pfm_msg(self->fd).pfm_ovfl_msg.msg_ovfl_ip;
		/*
		 * The address must be in this program, not in the kernel. work() may be
		 * inlined.
		 */
		if (ip || levels_work())
			EXPECT_GT(16 << 20, (long)(ip > func ? ip - func : func - ip));
		near += !!ip;
		ASSERT_EQ(0, pfm_restart(self->fd));
	}
	TH_LOG("%u of %u in the program", near, i);
	EXPECT_EQ(10, near);
}

/* Samples of the first counter, each with the value of the second counter */
struct samples {
	int fd;
	const struct pfm_dfl_smpl_hdr *hdr;
	const struct sample {
		struct pfm_dfl_smpl_entry e;
		__u64 value;
	} *sample;
};

static int samples_open(struct samples *samples)
{
	struct pfm_dfl_smpl_arg arg = { .buf_size = 1 << 20 };
	struct pfarg_ctx ctx = { };

	samples->fd = pfm_create(&ctx, "default", &arg, sizeof(arg));
	if (samples->fd < 0)
		return samples->fd;
	samples->hdr = mmap(NULL, arg.buf_size, PROT_READ, MAP_SHARED, samples->fd, 0);
	if (samples->hdr == MAP_FAILED)
		return -errno;
	samples->sample = (const void *)(samples->hdr + 1);
	return hw_reg(samples->fd, 0, 1, INSTRUCTIONS, 0, 0, 0) ?:
	       hw_reg(samples->fd, 0, 0, INSTRUCTIONS, 0, 0, 0);
}

static int samples_take(struct samples *samples, struct pfarg_pmd *pmd, unsigned int n)
{
	int ret;

	pmd->reg_num = FIRST;
	pmd->reg_smpl_pmds[0] = 1 << (FIRST + 1);
	ret = pfm_write_pmds(samples->fd, pmd, 1) ?: pfm_load_self(samples->fd) ?:
	      pfm_start(samples->fd, NULL);
	/* pfm_info() completes work that irq_work may not have done yet. */
	while (!ret && samples->hdr->hdr_count < n) {
		work(5000);
		pfm_info(samples->fd, 0);
	}
	return ret ?: pfm_stop(samples->fd);
}

TEST_F(hw, sampling_period_is_exact)
{
	struct pfarg_pmd pmd = { .reg_value = -50000ULL, .reg_short_reset = -50000ULL };
	struct samples samples;
	__u64 counted;

	NEED_INTERRUPTS();
	ASSERT_EQ(0, samples_open(&samples));
	ASSERT_EQ(0, samples_take(&samples, &pmd, 500));
	counted = samples.sample[499].value - samples.sample[0].value;
	TH_LOG("%llu instructions in 499 periods of 50000", counted);
	NEAR(counted, 499 * 50000ULL, 1);
	EXPECT_EQ(0, pfm_info(samples.fd, 0).set_lost);
	close(samples.fd);
}

TEST_F(hw, a_thousand_messages_are_a_thousand_periods)
{
	const unsigned int n = 1000, period = 50000;
	unsigned int i;
	__u64 counted;

	if (is_late())
		SKIP(return, "a debug kernel takes interrupts late on an emulated PowerPC");
	NEED_PROMPT_INTERRUPTS();
	ASSERT_EQ(0, hw_reg(self->fd, 0, 0, INSTRUCTIONS, -(__u64)period, PFM_REGFL_OVFL_NOTIFY,
			    0));
	ASSERT_EQ(0, hw_reg(self->fd, 0, 1, INSTRUCTIONS, 0, 0, 0));
	ASSERT_EQ(0, pfm_load_self(self->fd));
	ASSERT_EQ(0, pfm_start(self->fd, NULL));
	for (i = 0; i < n; i++) {
		work(period);
		ASSERT_EQ(PFM_MSG_OVFL, pfm_msg(self->fd).type);
		if (i < n - 1)
			ASSERT_EQ(0, pfm_restart(self->fd));
	}
	/* The last overflow has masked both counters, which keep their values. */
	counted = pfm_value(self->fd, 0, FIRST + 1);
	TH_LOG("%llu instructions in %u periods of %u", counted, n, period);
	EXPECT_LE((__u64)n * period, counted);
	NEAR_OF(counted, (__u64)n * period, 1, n);
	EXPECT_EQ(0, pfm_info(self->fd, 0).set_lost);
}

TEST_F(hw, period_of_the_reset_follows_that_of_the_write)
{
	struct pfarg_pmd pmd = { .reg_value = -300000ULL, .reg_short_reset = -50000ULL };
	struct samples samples;
	unsigned int i;

	NEED_INTERRUPTS();
	ASSERT_EQ(0, samples_open(&samples));
	ASSERT_EQ(0, samples_take(&samples, &pmd, 20));
	NEAR(samples.sample[0].value, 300000, 5);
	for (i = 1; i < 20; i++)
		NEAR(samples.sample[i].value - samples.sample[i - 1].value, 50000, 5);
	close(samples.fd);
}

TEST_F(hw, period_is_what_the_last_reset_says)
{
	struct pfarg_pmd pmd = {
		.reg_value = -50000ULL, .reg_short_reset = -50000ULL,
		.reg_flags = PFM_REGFL_RANDOM, .reg_random_mask = 0x7fff,
	};
	__u64 sum = 0, said = 0, lowest = -1ULL, highest = 0, period;
	struct samples samples;
	unsigned int i;

	if (is_late())
		SKIP(return, "a debug kernel takes interrupts late on an emulated PowerPC");
	NEED_PROMPT_INTERRUPTS();
	ASSERT_EQ(0, samples_open(&samples));
	ASSERT_EQ(0, samples_take(&samples, &pmd, 200));
	for (i = 1; i < 200; i++) {
		period = samples.sample[i].value - samples.sample[i - 1].value;
		NEAR(period, -samples.sample[i].e.last_reset_val, 5);
		lowest = period < lowest ? period : lowest;
		highest = period > highest ? period : highest;
		said -= samples.sample[i].e.last_reset_val;
		sum += period;
	}
	TH_LOG("periods from %llu to %llu, %llu instructions in %llu", lowest, highest, sum, said);
	NEAR(sum, said, 1);
	EXPECT_LT(lowest + 0x4000, highest);
	close(samples.fd);
}

TEST_F(hw, counter_that_another_one_resets_begins_anew)
{
	struct pfarg_pmd pmd = {
		.reg_value = -50000ULL, .reg_short_reset = -50000ULL,
		.reg_reset_pmds[0] = 1 << (FIRST + 1),
	}, other = {
		.reg_num = FIRST + 1, .reg_value = -80000ULL, .reg_short_reset = -80000ULL,
	};
	struct samples samples;
	unsigned int i;

	NEED_INTERRUPTS();
	ASSERT_EQ(0, samples_open(&samples));
	ASSERT_EQ(0, pfm_write_pmds(samples.fd, &other, 1));
	ASSERT_EQ(0, samples_take(&samples, &pmd, 50));
	/* This counter never overflows, and is read before its reset. */
	for (i = 0; i < 50; i++) {
		EXPECT_EQ(FIRST, samples.sample[i].e.ovfl_pmd);
		NEAR(samples.sample[i].value + 80000, 50000, 5);
	}
	other = pfm_pmd(samples.fd, 0, FIRST + 1);
	EXPECT_EQ(-80000ULL, other.reg_last_reset_val);
	close(samples.fd);
}

TEST_F(hw, overflow_switching_is_exact)
{
	struct pfarg_setinfo a, b;
	__u64 of_a, of_b;

	NEED_INTERRUPTS();
	ASSERT_EQ(0, pfm_make_set(self->fd, 0, PFM_SETFL_OVFL_SWITCH, 0, 0));
	ASSERT_EQ(0, pfm_make_set(self->fd, 1, PFM_SETFL_OVFL_SWITCH, 0, 0));
	ASSERT_EQ(0, hw_reg(self->fd, 0, 0, INSTRUCTIONS, -1000000ULL, 0, 1));
	ASSERT_EQ(0, hw_reg(self->fd, 0, 1, INSTRUCTIONS, 0, 0, 0));
	ASSERT_EQ(0, hw_reg(self->fd, 1, 0, INSTRUCTIONS, -2000000ULL, 0, 1));
	ASSERT_EQ(0, hw_reg(self->fd, 1, 1, INSTRUCTIONS, 0, 0, 0));
	ASSERT_EQ(0, pfm_load_self(self->fd));
	ASSERT_EQ(0, pfm_start(self->fd, NULL));
	do {
		work(100000);
		a = pfm_info(self->fd, 0);
	} while (a.set_runs < 31);
	ASSERT_EQ(0, pfm_stop(self->fd));
	b = pfm_info(self->fd, 1);
	ASSERT_EQ(30, b.set_runs);
	/* The last run of the first set is incomplete. */
	of_a = pfm_value(self->fd, 0, FIRST + 1);
	of_b = pfm_value(self->fd, 1, FIRST + 1);
	of_a -= 1000000 - -pfm_value(self->fd, 0, FIRST);
	TH_LOG("%llu and %llu instructions in 30 runs each", of_a, of_b);
	EXPECT_LE(30 * 1000000ULL, of_a);
	EXPECT_GE(30 * (1000010 + interrupt_delay()), of_a);
	EXPECT_LE(30 * 2000000ULL, of_b);
	EXPECT_GE(30 * (2000010 + interrupt_delay()), of_b);
}

TEST_F(hw, each_run_until_an_overflow_is_exact)
{
	/*
	 * If the host stalls in more than one switch of a timer tick, the switches take
	 * too much of it, and a set is throttled until the next tick.
	 */
	const __u64 periods[2] = { 1000000, 2000000 };
	struct pfarg_pmd pmd = {
		.reg_num = FIRST, .reg_smpl_pmds[0] = 1 << (FIRST + 1), .reg_ovfl_switch_cnt = 1,
	};
	__u64 last[2] = { 0 }, run, longest = 0;
	struct samples samples;
	unsigned int i, set;

	NEED_PROMPT_INTERRUPTS();
	ASSERT_EQ(0, samples_open(&samples));
	for (set = 0; set < 2; set++) {
		ASSERT_EQ(0, pfm_make_set(samples.fd, set, PFM_SETFL_OVFL_SWITCH, 0, 0));
		ASSERT_EQ(0, hw_reg(samples.fd, set, 0, INSTRUCTIONS, 0, 0, 0));
		ASSERT_EQ(0, hw_reg(samples.fd, set, 1, INSTRUCTIONS, 0, 0, 0));
	}
	pmd.reg_set = 1;
	pmd.reg_value = -periods[1];
	pmd.reg_short_reset = pmd.reg_value;
	ASSERT_EQ(0, pfm_write_pmds(samples.fd, &pmd, 1));
	pmd.reg_set = 0;
	pmd.reg_value = -periods[0];
	pmd.reg_short_reset = pmd.reg_value;
	ASSERT_EQ(0, samples_take(&samples, &pmd, 60));
	for (i = 0; i < 60; i++) {
		set = samples.sample[i].e.set;
		ASSERT_EQ(i % 2, set);
		run = samples.sample[i].value - last[set];
		last[set] = samples.sample[i].value;
		EXPECT_LE(periods[set], run);
		/* The excess is below 10 per run in total. A loaded emulator took 37. */
		EXPECT_GE(periods[set] + 1000 + interrupt_delay(), run);
		if (run - periods[set] > longest)
			longest = run - periods[set];
	}
	TH_LOG("no run of 60 is more than %llu instructions longer than its period", longest);
	close(samples.fd);
}

TEST_F(hw, timed_sets_together_count_all)
{
	__u64 inner, outer, sum = 0, runs;
	int perf, i;

	if (is_late())
		SKIP(return, "a debug kernel takes interrupts late on an emulated PowerPC");
	for (i = 0; i < 3; i++) {
		ASSERT_EQ(0, pfm_make_set(self->fd, i, PFM_SETFL_TIME_SWITCH, NSEC_PER_MSEC, 0));
		ASSERT_EQ(0, hw_reg(self->fd, i, 0, INSTRUCTIONS, 0, 0, 0));
		ASSERT_EQ(0, hw_reg(self->fd, i, 1, CYCLES, 0, 0, 0));
	}
	ASSERT_EQ(0, pfm_load_self(self->fd));
	perf = perf_event(INSTRUCTIONS);
	ASSERT_LE(0, perf);
	outer = perf_count(perf);
	ASSERT_EQ(0, pfm_start(self->fd, NULL));
	inner = perf_count(perf);
	do {
		work(100000);
		runs = pfm_info(self->fd, 2).set_runs;
	} while (runs < 10);
	inner = perf_count(perf) - inner;
	ASSERT_EQ(0, pfm_stop(self->fd));
	outer = perf_count(perf) - outer;
	for (i = 0; i < 3; i++)
		sum += pfm_value(self->fd, i, FIRST);
	TH_LOG("%llu to %llu instructions, %llu in the sets", inner, outer, sum);
	EXPECT_LE(inner - inner / 1000, sum);
	EXPECT_GE(outer + outer / 1000, sum);
	close(perf);
}

TEST_F(hw, kernel_may_be_left_out)
{
	struct pfarg_pmc pmc[2] = {
		hw_pmc(0, INSTRUCTIONS, USER), hw_pmc(1, INSTRUCTIONS, KERNEL),
	};
	unsigned int i;
	__u64 user, kernel;

	if (!levels_work())
		SKIP(return, "the PMU counts the kernel for perf_event_open(2) as well");
	ASSERT_EQ(0, pfm_write_pmcs(self->fd, pmc, 2));
	for (i = 0; i < 2; i++)
		ASSERT_EQ(0, pfm_set_pmd(self->fd, 0, FIRST + i, 0));
	ASSERT_EQ(0, pfm_load_self(self->fd));
	ASSERT_EQ(0, pfm_start(self->fd, NULL));
	for (i = 0; i < 1000; i++)
		syscall(__NR_getppid);
	ASSERT_EQ(0, pfm_stop(self->fd));
	user = pfm_value(self->fd, 0, FIRST);
	kernel = pfm_value(self->fd, 0, FIRST + 1);
	EXPECT_LT(1000, user);
	EXPECT_LT(50 * 1000, kernel);
	ASSERT_EQ(0, pfm_start(self->fd, NULL));
	work(1000000);
	ASSERT_EQ(0, pfm_stop(self->fd));
	EXPECT_LT(user + 1000000, pfm_value(self->fd, 0, FIRST));
}

/* Open pinned events of the CPU until all counters for cycles are taken. */
static int take_the_pmu(int *fds, int max)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_HARDWARE, .size = sizeof(attr),
		.config = PERF_COUNT_HW_CPU_CYCLES, .pinned = 1, .disabled = 1,
	};
	int n = 0;

#ifdef __powerpc64__
	/* PM_RUN_CYC, which the driver may use instead of cycles in an event of a thread */
	attr.type = PERF_TYPE_RAW;
	attr.config = 0x600f4;
	fds[n] = syscall(__NR_perf_event_open, &attr, -1, 0, -1, 0);
	if (fds[n] >= 0)
		n++;
	attr.type = PERF_TYPE_HARDWARE;
	attr.config = PERF_COUNT_HW_CPU_CYCLES;
#endif
	for (; n < max; n++) {
		fds[n] = syscall(__NR_perf_event_open, &attr, -1, 0, -1, 0);
		if (fds[n] < 0)
			break;
	}
	return n;
}

TEST_F(hw, taken_counters_are_told)
{
	struct pfarg_setinfo info;
	unsigned int flags = 0;
	int fds[32], n, i;

	ASSERT_EQ(0, stay_on_cpu_0());
	ASSERT_EQ(0, pfm_make_set(self->fd, 0, PFM_SETFL_TIME_SWITCH, NSEC_PER_MSEC, 0));
	ASSERT_EQ(0, pfm_make_set(self->fd, 1, PFM_SETFL_TIME_SWITCH, NSEC_PER_MSEC, 0));
	ASSERT_EQ(0, hw_reg(self->fd, 0, 0, CYCLES, 5, 0, 0));
	ASSERT_EQ(0, hw_reg(self->fd, 1, 0, CYCLES, 5, 0, 0));
	ASSERT_EQ(0, pfm_load_self(self->fd));
	n = take_the_pmu(fds, 32);
	for (i = 0; i < n; i++)
		ioctl(fds[i], PERF_EVENT_IOC_ENABLE, 0);
	EXPECT_EQ(-EBUSY, pfm_start(self->fd, NULL));
	for (i = 0; i < n; i++)
		ioctl(fds[i], PERF_EVENT_IOC_DISABLE, 0);
	ASSERT_EQ(0, pfm_start(self->fd, NULL));
	for (i = 0; i < n; i++)
		ioctl(fds[i], PERF_EVENT_IOC_ENABLE, 0);

	/*
	 * The sets still take turns, and the active set reports that it does not count.
	 * A turn may begin between the two calls, and a host that stalls skips many
	 * turns.
	 */
	do {
		work(10000);
		flags |= pfm_info(self->fd, 0).set_flags;
		info = pfm_info(self->fd, 1);
		flags |= info.set_flags;
	} while (info.set_runs < (flags & PFM_SETFL_OUT_NOPMU ? 5 : 1000));
	EXPECT_EQ(PFM_SETFL_OUT_NOPMU, flags & PFM_SETFL_OUT_NOPMU);
	EXPECT_GT(info.set_enabled_ns, info.set_running_ns);

	for (i = 0; i < n; i++)
		close(fds[i]);
	/* The counters are back at the next turn. */
	i = info.set_runs + 2;
	do {
		work(10000);
		info = pfm_info(self->fd, 1);
	} while ((int)info.set_runs < i);
	EXPECT_EQ(0, info.set_flags & PFM_SETFL_OUT_NOPMU);
	ASSERT_EQ(0, pfm_stop(self->fd));
	EXPECT_LT(5, pfm_value(self->fd, 1, FIRST));
}

/* A perf event that is pinned to a CPU holds a counter for good. */
TEST_F(hw, counter_that_another_has_is_not_available)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_HARDWARE, .size = sizeof(attr), .pinned = 1,
		.config = PERF_COUNT_HW_INSTRUCTIONS,
	};
	const __u64 fixed_ctrl = 1ULL << 16;
	__u64 before, before_pmcs, with;
	struct pfarg_setinfo info;
	int perf, second;

	ASSERT_EQ(0, stay_on_cpu_0());
	info = pfm_info(self->fd, 0);
	before = info.set_avail_pmds[0];
	before_pmcs = info.set_avail_pmcs[0];
	perf = syscall(__NR_perf_event_open, &attr, -1, 0, -1, 0);
	ASSERT_LE(0, perf);
	with = pfm_info(self->fd, 0).set_avail_pmds[0];
	EXPECT_EQ(__builtin_popcountll(before) - 1, __builtin_popcountll(with));
	EXPECT_EQ(with, with & before);
	/* Programs look for free counters among the control registers, too. */
	second = syscall(__NR_perf_event_open, &attr, -1, 0, -1, 0);
	ASSERT_LE(0, second);
	info = pfm_info(self->fd, 0);
	with = before & ~info.set_avail_pmds[0] & ~fixed_ctrl;
	EXPECT_EQ(before_pmcs & ~with, info.set_avail_pmcs[0]);
	EXPECT_NE(before_pmcs, info.set_avail_pmcs[0]);
	close(second);
	close(perf);
	EXPECT_EQ(before, pfm_info(self->fd, 0).set_avail_pmds[0]);
	EXPECT_EQ(before_pmcs, pfm_info(self->fd, 0).set_avail_pmcs[0]);
	/* Counters of the context itself are available to it. */
	close(self->fd);
	self->fd = pfm_open(PFM_FL_SYSTEM_WIDE);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, hw_reg(self->fd, 0, 0, INSTRUCTIONS, 0, 0, 0));
	ASSERT_EQ(0, pfm_load_tid(self->fd, 0, 0));
	ASSERT_EQ(0, pfm_start(self->fd, NULL));
	EXPECT_EQ(before, pfm_info(self->fd, 0).set_avail_pmds[0]);
}

#ifdef __powerpc64__
TEST_F(hw, events_that_exclude_each_other_are_refused)
{
	struct pfarg_pmc pmc[2] = {
		{ .reg_num = 1, .reg_value = 0x1001e, .reg_flags = PFM_REGFL_EXCL_HV },
		{ .reg_num = 2, .reg_value = 0x100fe, .reg_flags = PFM_REGFL_EXCL_HV },
	};

	ASSERT_EQ(0, pfm_write_pmcs(self->fd, pmc, 2));
	ASSERT_EQ(0, pfm_set_pmd(self->fd, 0, 1, 0));
	EXPECT_EQ(0, pfm_load_self(self->fd));
	EXPECT_EQ(-EINVAL, pfm_set_pmd(self->fd, 0, 2, 0));
	/* After the rejection the register is as if it had never been written. */
	EXPECT_EQ(0, pfm_set_pmd(self->fd, 0, 1, 0));
	ASSERT_EQ(0, pfm_unload(self->fd));
	EXPECT_EQ(0, pfm_load_self(self->fd));
	ASSERT_EQ(0, pfm_unload(self->fd));
	ASSERT_EQ(0, pfm_set_pmd(self->fd, 0, 2, 0));
	EXPECT_EQ(-EINVAL, pfm_load_self(self->fd));
	/* Both events fit in two sets. */
	pmc[1].reg_set = 1;
	ASSERT_EQ(0, pfm_make_set(self->fd, 1, 0, 0, 0));
	pmc[0].reg_num = 2;
	ASSERT_EQ(0, pfm_write_pmcs(self->fd, pmc, 2));
}

/*
 * Two events that need the first counter take turns, and the count of each is scaled by
 * its time. Both count cycles, because emulators are slower if they count instructions.
 * If the emulator waits for its host in one turn, the scaling is wrong, but not each
 * time.
 */
TEST_F(hw, events_that_exclude_each_other_take_turns)
{
	struct pfarg_pmc pmc[2] = {
		{ .reg_num = 1, .reg_value = 0x1001e, .reg_flags = PFM_REGFL_EXCL_HV },
		{ .reg_num = 1, .reg_set = 1, .reg_value = 0x100f0,
		  .reg_flags = PFM_REGFL_EXCL_HV },
	};
	/* The same event on a counter without any other event */
	struct perf_event_attr attr = {
		.type = PERF_TYPE_RAW, .size = sizeof(attr), .config = 0x600f4, .exclude_hv = 1,
	};
	struct pfarg_setinfo info[2];
	__u64 whole, scaled[2], time;
	bool near = false;
	int perf, i, tries;

	ASSERT_EQ(0, pfm_make_set(self->fd, 1, 0, 0, 0));
	ASSERT_EQ(0, pfm_write_pmcs(self->fd, pmc, 2));
	perf = syscall(__NR_perf_event_open, &attr, 0, -1, -1, 0);
	ASSERT_LE(0, perf);
	for (tries = 0; tries < 20 && !near; tries++) {
		for (i = 0; i < 2; i++) {
			ASSERT_EQ(0, pfm_make_set(self->fd, i, PFM_SETFL_TIME_SWITCH,
						  NSEC_PER_MSEC, 0));
			ASSERT_EQ(0, pfm_set_pmd(self->fd, i, 1, 0));
		}
		ASSERT_EQ(0, pfm_load_self(self->fd));
		whole = -perf_count(perf);
		ASSERT_EQ(0, pfm_start(self->fd, NULL));
		do
			work(10000);
		while (pfm_info(self->fd, 1).set_runs < 50);
		ASSERT_EQ(0, pfm_stop(self->fd));
		whole += perf_count(perf);
		ASSERT_EQ(0, pfm_unload(self->fd));
		for (i = 0; i < 2; i++)
			info[i] = pfm_info(self->fd, i);
		time = info[0].set_act_duration + info[1].set_act_duration;
		near = true;
		for (i = 0; i < 2; i++) {
			EXPECT_EQ(info[i].set_enabled_ns, info[i].set_running_ns);
			scaled[i] = pfm_value(self->fd, i, 1) * ((double)time /
				    info[i].set_act_duration);
			near &= scaled[i] > whole / 100 * 98 && scaled[i] < whole / 100 * 102;
		}
		TH_LOG("%llu and %llu cycles of %llu", scaled[0], scaled[1], whole);
	}
	EXPECT_TRUE(near);
	close(perf);
}
#endif

#ifdef __aarch64__
#define CYCLE_COUNTER	31
#define PMC_P		(1ULL << 31)
#define PMC_U		(1ULL << 30)
#define PMC_NSH		(1ULL << 27)

TEST_F(hw, control_register_values_are_checked)
{
	const __u64 good[] = { 0x11, 0xffff | PMC_P, 0x8 | PMC_U, 0x8 | PMC_P | PMC_NSH };
	const __u64 bad[] = { 1 << 16, 1 << 25, 1 << 26, 1ULL << 28, 1ULL << 29, 1ULL << 32 };
	struct pfarg_pmc pmc;
	unsigned int i;

	for (i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		pmc = hw_pmc(0, CYCLES, USER);
		pmc.reg_value |= bad[i];
		EXPECT_EQ(-EINVAL, pfm_write_pmcs(self->fd, &pmc, 1));
		EXPECT_EQ(PFM_REGFL_RETFL_EINVAL, pmc.reg_flags & PFM_REGFL_RETFL_MASK);
	}
	pmc = hw_pmc(0, CYCLES, USER);
	pmc.reg_flags = PFM_REGFL_EXCL_KERNEL;
	EXPECT_EQ(-EINVAL, pfm_write_pmcs(self->fd, &pmc, 1));
	for (i = 0; i < sizeof(good) / sizeof(*good); i++) {
		pmc = (struct pfarg_pmc) { .reg_num = 1, .reg_value = good[i] };
		EXPECT_EQ(0, pfm_write_pmcs(self->fd, &pmc, 1));
	}
}

TEST_F(hw, cycle_counter_has_no_event_to_choose)
{
	struct pfarg_pmc pmc = { .reg_num = CYCLE_COUNTER, .reg_value = PMC_P };
	__u64 value;

	ASSERT_EQ(0, pfm_write_pmcs(self->fd, &pmc, 1));
	pmc.reg_value = 0x11;
	EXPECT_EQ(-EINVAL, pfm_write_pmcs(self->fd, &pmc, 1));
	ASSERT_EQ(0, pfm_set_pmd(self->fd, 0, CYCLE_COUNTER, 0));
	ASSERT_EQ(0, hw_reg(self->fd, 0, 0, CYCLES, 0, 0, 0));
	ASSERT_EQ(0, pfm_load_self(self->fd));
	ASSERT_EQ(0, pfm_start(self->fd, NULL));
	work(1000000);
	ASSERT_EQ(0, pfm_stop(self->fd));
	value = pfm_value(self->fd, 0, CYCLE_COUNTER);
	EXPECT_LT(1000, value);
	NEAR(pfm_value(self->fd, 0, 0), value, 10);
}

/* A counter with P and U is off: other counters go on, and it may be turned on again. */
TEST_F(hw, counter_can_be_off)
{
	struct pfarg_pmc off = hw_pmc(0, INSTRUCTIONS, 0), on = hw_pmc(0, INSTRUCTIONS, USER);
	__u64 value, other;

	ASSERT_EQ(0, hw_reg(self->fd, 0, 0, INSTRUCTIONS, 0, 0, 0));
	ASSERT_EQ(0, hw_reg(self->fd, 0, 1, INSTRUCTIONS, 0, 0, 0));
	ASSERT_EQ(0, pfm_load_self(self->fd));
	ASSERT_EQ(0, pfm_start(self->fd, NULL));
	ASSERT_EQ(0, pfm_write_pmcs(self->fd, &off, 1));
	value = pfm_value(self->fd, 0, 0);
	other = pfm_value(self->fd, 0, 1);
	work(100000);
	EXPECT_EQ(value, pfm_value(self->fd, 0, 0));
	EXPECT_LT(other + 100000, pfm_value(self->fd, 0, 1));
	ASSERT_EQ(0, pfm_write_pmcs(self->fd, &on, 1));
	work(100000);
	EXPECT_LT(value + 100000, pfm_value(self->fd, 0, 0));
}
#endif

#if defined(__x86_64__) || defined(__i386__)
TEST_F(hw, control_register_values_are_checked)
{
	struct pfarg_pmc pmc = hw_pmc(0, CYCLES, USER);

	pmc.reg_flags = PFM_REGFL_EXCL_KERNEL;
	EXPECT_EQ(-EINVAL, pfm_write_pmcs(self->fd, &pmc, 1));
	EXPECT_EQ(PFM_REGFL_RETFL_EINVAL, pmc.reg_flags & PFM_REGFL_RETFL_MASK);
	pmc = hw_pmc(0, CYCLES, USER);
	pmc.reg_value |= 1ULL << 50;
	EXPECT_EQ(-EINVAL, pfm_write_pmcs(self->fd, &pmc, 1));
	pmc = hw_pmc(0, CYCLES, USER);
	pmc.reg_value |= 1 << 19;
	EXPECT_EQ(-EINVAL, pfm_write_pmcs(self->fd, &pmc, 1));
	pmc = hw_pmc(0, CYCLES, USER);
	EXPECT_EQ(0, pfm_write_pmcs(self->fd, &pmc, 1));
	/* Perf owns the interrupt bit. */
	pmc.reg_value &= ~(1 << 20);
	EXPECT_EQ(0, pfm_write_pmcs(self->fd, &pmc, 1));
}

/* Event codes have twelve bits on AMD from family 10h on, and eight bits on others. */
static bool has_twelve_bits(void)
{
	char text[4096], *family;

	if (!is_amd() || read_file("/proc/cpuinfo", text, sizeof(text)))
		return false;
	family = strstr(text, "cpu family\t: ");
	return family && atoi(family + strlen("cpu family\t: ")) >= 0x10;
}

TEST_F(hw, events_have_as_many_bits_as_the_processor_knows)
{
	struct pfarg_pmc pmc = hw_pmc(0, CYCLES, USER);
	int ret = has_twelve_bits() ? 0 : -EINVAL;

	pmc.reg_value |= 1ULL << 32;
	EXPECT_EQ(ret, pfm_write_pmcs(self->fd, &pmc, 1));
	pmc.reg_value |= 1ULL << 36;
	EXPECT_EQ(-EINVAL, pfm_write_pmcs(self->fd, &pmc, 1));
}

/* Perf chooses which guests a counter of AMD counts, and whether it interrupts. */
TEST_F(hw, guests_of_an_amd_counter_may_have_any_value)
{
	struct pfarg_pmc pmc = hw_pmc(0, INSTRUCTIONS, USER);

	pmc.reg_value |= 3ULL << 40;
	if (!is_amd()) {
		EXPECT_EQ(-EINVAL, pfm_write_pmcs(self->fd, &pmc, 1));
		return;
	}
	ASSERT_EQ(0, pfm_write_pmcs(self->fd, &pmc, 1));
	ASSERT_EQ(0, pfm_set_pmd(self->fd, 0, 0, 0));
	ASSERT_EQ(0, pfm_load_self(self->fd));
	ASSERT_EQ(0, pfm_start(self->fd, NULL));
	work(100000);
	EXPECT_LT(100000, pfm_value(self->fd, 0, 0));
}

/*
 * A counter is off if EN is clear or it has no level: other counters continue, and it
 * may be turned on again.
 */
TEST_F(hw, counter_can_be_off)
{
	struct pfarg_pmc off[2] = { hw_pmc(0, INSTRUCTIONS, USER), hw_pmc(0, INSTRUCTIONS, 0) };
	struct pfarg_pmc on = hw_pmc(0, INSTRUCTIONS, USER);
	__u64 value, other;
	int i;

	off[0].reg_value &= ~(1 << 22);
	ASSERT_EQ(0, hw_reg(self->fd, 0, 0, INSTRUCTIONS, 0, 0, 0));
	ASSERT_EQ(0, hw_reg(self->fd, 0, 1, INSTRUCTIONS, 0, 0, 0));
	ASSERT_EQ(0, pfm_load_self(self->fd));
	ASSERT_EQ(0, pfm_start(self->fd, NULL));
	for (i = 0; i < 2; i++) {
		ASSERT_EQ(0, pfm_write_pmcs(self->fd, &off[i], 1));
		value = pfm_value(self->fd, 0, 0);
		other = pfm_value(self->fd, 0, 1);
		work(100000);
		EXPECT_EQ(value, pfm_value(self->fd, 0, 0));
		EXPECT_LT(other + 100000, pfm_value(self->fd, 0, 1));
		ASSERT_EQ(0, pfm_write_pmcs(self->fd, &on, 1));
		work(100000);
		EXPECT_LT(value + 100000, pfm_value(self->fd, 0, 0));
	}
}

TEST_F(hw, fixed_counters_have_one_control_register)
{
	struct pfarg_pmc pmc = { .reg_num = 16, .reg_value = 0xaaa };
	struct pfarg_setinfo info = pfm_info(self->fd, 0);
	int i;

	if (!(info.set_avail_pmcs[0] & 1 << 16))
		SKIP(return, "no fixed counters");
	ASSERT_EQ(0, pfm_write_pmcs(self->fd, &pmc, 1));
	for (i = 16; i < 18; i++)
		ASSERT_EQ(0, pfm_set_pmd(self->fd, 0, i, 0));
	ASSERT_EQ(0, pfm_load_self(self->fd));
	ASSERT_EQ(0, pfm_start(self->fd, NULL));
	work(1000000);
	ASSERT_EQ(0, pfm_stop(self->fd));
	for (i = 16; i < 18; i++)
		EXPECT_LT(1000000, pfm_value(self->fd, 0, i));
}
#endif

TEST_HARNESS_MAIN
