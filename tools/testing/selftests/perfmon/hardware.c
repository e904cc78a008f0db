// SPDX-License-Identifier: GPL-2.0
/*
 * perfmon selftests - counters of the CPU
 *
 * On x86 any architectural PMU will do, on PowerPC a book3s one.
 */
#define _GNU_SOURCE

#include "../kselftest_harness.h"
#include "perfmon_helpers.h"

enum what { INSTRUCTIONS, CYCLES };
enum level { USER = 1, KERNEL = 2 };

#if defined(__x86_64__) || defined(__i386__)
#define FIRST	0

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

static struct pfarg_pmc hw_pmc(int slot, enum what what, unsigned int levels)
{
	static const __u64 code[] = { 0x2, 0x1e };

	return (struct pfarg_pmc) {
		.reg_num = FIRST + slot,
		.reg_value = code[what],
		.reg_flags = PFM_REGFL_EXCL_HV | (levels & USER ? 0 : PFM_REGFL_EXCL_USER) |
			     (levels & KERNEL ? 0 : PFM_REGFL_EXCL_KERNEL),
	};
}
#else
#define FIRST	0

static struct pfarg_pmc hw_pmc(int slot, enum what what, unsigned int levels)
{
	return (struct pfarg_pmc) { .reg_num = slot };
}
#endif

FIXTURE(hw)
{
	int fd;
};

FIXTURE_SETUP(hw)
{
#if !defined(__x86_64__) && !defined(__i386__)
	SKIP(return, "its loops and bounds are those of x86");
#endif
	self->fd = pfm_open(0);
	ASSERT_LE(0, self->fd);
	if (!pfm_info(self->fd, 0).set_avail_pmds[0])
		SKIP(return, "no PMU of the CPU");
}

FIXTURE_TEARDOWN(hw)
{
	close(self->fd);
}

#define NEED_INTERRUPTS() do {						\
	if (getenv("PERF_TEST_NO_PMU_INTERRUPTS"))			\
		SKIP(return, "%s", getenv("PERF_TEST_NO_PMU_INTERRUPTS")); \
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

static int perf_instructions(void)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_HARDWARE, .size = sizeof(attr),
		.config = PERF_COUNT_HW_INSTRUCTIONS, .exclude_kernel = 1, .exclude_hv = 1,
	};

	return syscall(__NR_perf_event_open, &attr, 0, -1, -1, 0);
}

static __u64 perf_count(int fd)
{
	__u64 count = -1;

	return read(fd, &count, sizeof(count)) == sizeof(count) ? count : -1;
}

static void work(unsigned long loops)
{
	while (loops--)
		asm volatile("" ::: "memory");
}

#define NEAR(a, b, permille) do {					\
	__u64 __a = (a), __b = (b);					\
									\
	EXPECT_LE(__b - __b / 1000 * (permille), __a);			\
	EXPECT_GE(__b + __b / 1000 * (permille), __a);			\
} while (0)

TEST_F(hw, instructions_agree_with_perf)
{
	__u64 whole;
	int perf;

	ASSERT_EQ(0, hw_reg(self->fd, 0, 0, INSTRUCTIONS, 0, 0, 0));
	ASSERT_EQ(0, pfm_load_self(self->fd));
	perf = perf_instructions();
	ASSERT_LE(0, perf);
	ASSERT_EQ(0, pfm_start(self->fd, NULL));
	whole = -perf_count(perf);
	work(5000000);
	whole += perf_count(perf);
	ASSERT_EQ(0, pfm_stop(self->fd));
	NEAR(pfm_value(self->fd, 0, FIRST), whole, 1);
	EXPECT_LT(5000000, whole);
	close(perf);
}

TEST_F(hw, all_counters_count_at_once)
{
	__u64 mask = pfm_info(self->fd, 0).set_avail_pmds[0];
	__u64 value[64], lowest = -1, highest = 0;
	unsigned int i, n = 0;

	while (mask & 1ULL << (FIRST + n) && n < 4)
		n++;
	for (i = 0; i < n; i++)
		ASSERT_EQ(0, hw_reg(self->fd, 0, i, i & 1 ? CYCLES : INSTRUCTIONS, 0, 0, 0));
	ASSERT_EQ(0, pfm_load_self(self->fd));
	ASSERT_EQ(0, pfm_start(self->fd, NULL));
	work(1000000);
	ASSERT_EQ(0, pfm_stop(self->fd));
	for (i = 0; i < n; i += 2) {
		value[i] = pfm_value(self->fd, 0, FIRST + i);
		lowest = value[i] < lowest ? value[i] : lowest;
		highest = value[i] > highest ? value[i] : highest;
	}
	EXPECT_LT(1000000, lowest);
	EXPECT_GE(lowest + lowest / 100, highest);
	for (i = 1; i < n; i += 2)
		EXPECT_LT(1000000, pfm_value(self->fd, 0, FIRST + i));
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
	pmc = hw_pmc(0, CYCLES, USER);
	ASSERT_EQ(0, pfm_write_pmcs(self->fd, &pmc, 1));
	work(100000);
	EXPECT_LT(value + 100000, pfm_value(self->fd, 0, FIRST));
}

TEST_F(hw, masked_value_is_that_of_the_overflow)
{
	unsigned int i;
	__u64 value;

	NEED_INTERRUPTS();
	ASSERT_EQ(0, hw_reg(self->fd, 0, 0, INSTRUCTIONS, -100000ULL, PFM_REGFL_OVFL_NOTIFY, 0));
	ASSERT_EQ(0, hw_reg(self->fd, 0, 1, INSTRUCTIONS, 0, 0, 0));
	ASSERT_EQ(0, pfm_load_self(self->fd));
	ASSERT_EQ(0, pfm_start(self->fd, NULL));
	for (i = 1; i <= 20; i++) {
		work(400000);
		ASSERT_EQ(PFM_MSG_OVFL, pfm_msg(self->fd).type);
		ASSERT_EQ(0, pfm_msg(self->fd).type);
		value = pfm_value(self->fd, 0, FIRST);
		EXPECT_GT(1000, value);
		work(400000);
		EXPECT_EQ(value, pfm_value(self->fd, 0, FIRST));
		ASSERT_EQ(0, pfm_restart(self->fd));
	}
}

TEST_F(hw, ip_is_where_the_loop_is)
{
	unsigned long func = (unsigned long)work, ip;
	volatile unsigned long loops = 400000;

	NEED_INTERRUPTS();
	ASSERT_EQ(0, hw_reg(self->fd, 0, 0, INSTRUCTIONS, -300000ULL, PFM_REGFL_OVFL_NOTIFY, 0));
	ASSERT_EQ(0, pfm_load_self(self->fd));
	ASSERT_EQ(0, pfm_start(self->fd, NULL));
	work(loops);
	ip = pfm_msg(self->fd).pfm_ovfl_msg.msg_ovfl_ip;
	/* In this program, not in the kernel. work() may be inlined. */
	EXPECT_GT(16 << 20, (long)(ip > func ? ip - func : func - ip));
}

/* An emulator is slow enough for perf to lower the rate of all sampling. */
static void let_interrupts_be(void)
{
	/* In this order: without a limit of time the rate cannot be set. */
	write_file("/proc/sys/kernel/perf_cpu_time_max_percent", "25");
	write_file("/proc/sys/kernel/perf_event_max_sample_rate", "100000");
	write_file("/proc/sys/kernel/perf_cpu_time_max_percent", "0");
}

TEST_F(hw, sampling_period_is_exact)
{
	const unsigned int period = 50000;
	struct pfm_dfl_smpl_arg arg = { .buf_size = 1 << 20 };
	const struct pfm_dfl_smpl_hdr *hdr;
	struct pfarg_ctx ctx = { };
	struct pfarg_pmd pmd;
	struct {
		struct pfm_dfl_smpl_entry e;
		__u64 value;
	} *entry;
	__u64 first, last;
	int fd;

	NEED_INTERRUPTS();
	let_interrupts_be();
	fd = pfm_create(&ctx, "default", &arg, sizeof(arg));
	ASSERT_LE(0, fd);
	hdr = mmap(NULL, arg.buf_size, PROT_READ, MAP_SHARED, fd, 0);
	ASSERT_NE(MAP_FAILED, hdr);
	ASSERT_EQ(0, hw_reg(fd, 0, 1, INSTRUCTIONS, 0, 0, 0));
	ASSERT_EQ(0, hw_reg(fd, 0, 0, INSTRUCTIONS, 0, 0, 0));
	pmd = (struct pfarg_pmd) {
		.reg_num = FIRST, .reg_value = -(__u64)period, .reg_short_reset = -(__u64)period,
		.reg_smpl_pmds[0] = 1 << (FIRST + 1),
	};
	ASSERT_EQ(0, pfm_write_pmds(fd, &pmd, 1));
	ASSERT_EQ(0, pfm_load_self(fd));
	ASSERT_EQ(0, pfm_start(fd, NULL));
	while (hdr->hdr_count < 500)
		work(100000);
	ASSERT_EQ(0, pfm_stop(fd));
	entry = (void *)(hdr + 1);
	first = entry[0].value;
	last = entry[499].value;
	TH_LOG("%llu instructions in 499 periods of %u", last - first, period);
	NEAR(last - first, 499ULL * period, 1);
	EXPECT_EQ(0, pfm_info(fd, 0).set_lost);
	close(fd);
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
	/* The last run of the first set did not end. */
	of_a = pfm_value(self->fd, 0, FIRST + 1);
	of_b = pfm_value(self->fd, 1, FIRST + 1);
	of_a -= 1000000 - -pfm_value(self->fd, 0, FIRST);
	TH_LOG("%llu and %llu instructions in 30 runs each", of_a, of_b);
	EXPECT_LE(30 * 1000000ULL, of_a);
	EXPECT_GE(30 * 1000010ULL, of_a);
	EXPECT_LE(30 * 2000000ULL, of_b);
	EXPECT_GE(30 * 2000010ULL, of_b);
}

TEST_F(hw, timed_sets_together_count_all)
{
	__u64 whole, sum = 0, runs;
	int perf, i;

	for (i = 0; i < 3; i++) {
		ASSERT_EQ(0, pfm_make_set(self->fd, i, PFM_SETFL_TIME_SWITCH, NSEC_PER_MSEC, 0));
		ASSERT_EQ(0, hw_reg(self->fd, i, 0, INSTRUCTIONS, 0, 0, 0));
		ASSERT_EQ(0, hw_reg(self->fd, i, 1, CYCLES, 0, 0, 0));
	}
	ASSERT_EQ(0, pfm_load_self(self->fd));
	perf = perf_instructions();
	ASSERT_LE(0, perf);
	ASSERT_EQ(0, pfm_start(self->fd, NULL));
	whole = -perf_count(perf);
	do {
		work(100000);
		runs = pfm_info(self->fd, 2).set_runs;
	} while (runs < 10);
	whole += perf_count(perf);
	ASSERT_EQ(0, pfm_stop(self->fd));
	for (i = 0; i < 3; i++)
		sum += pfm_value(self->fd, i, FIRST);
	TH_LOG("%llu instructions, %llu in the sets", whole, sum);
	NEAR(sum, whole, 1);
	close(perf);
}

TEST_F(hw, kernel_may_be_left_out)
{
	struct pfarg_pmc pmc[2] = { hw_pmc(0, INSTRUCTIONS, USER), hw_pmc(1, INSTRUCTIONS, KERNEL) };
	unsigned int i;
	__u64 user, kernel;

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

/* Pinned events of the CPU that take all counters */
static int take_the_pmu(int *fds, int max)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_HARDWARE, .size = sizeof(attr),
		.config = PERF_COUNT_HW_CPU_CYCLES, .pinned = 1, .disabled = 1,
	};
	int n;

	for (n = 0; n < max; n++) {
		fds[n] = syscall(__NR_perf_event_open, &attr, -1, 0, -1, 0);
		if (fds[n] < 0)
			break;
	}
	return n;
}

TEST_F(hw, taken_counters_are_told)
{
	struct pfarg_setinfo info;
	int fds[32], n, i;
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(0, &cpus);
	ASSERT_EQ(0, sched_setaffinity(0, sizeof(cpus), &cpus));
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

	/* The sets still take turns, and say that they did not count. */
	do {
		work(10000);
		info = pfm_info(self->fd, 1);
	} while (info.set_runs < 5);
	EXPECT_EQ(PFM_SETFL_OUT_NOPMU,
		  (pfm_info(self->fd, 0).set_flags | info.set_flags) & PFM_SETFL_OUT_NOPMU);
	EXPECT_GT(info.set_enabled_ns, info.set_running_ns);

	for (i = 0; i < n; i++)
		close(fds[i]);
	/* Back with the next turn */
	i = info.set_runs + 2;
	do {
		work(10000);
		info = pfm_info(self->fd, 1);
	} while ((int)info.set_runs < i);
	EXPECT_EQ(0, info.set_flags & PFM_SETFL_OUT_NOPMU);
	ASSERT_EQ(0, pfm_stop(self->fd));
	EXPECT_LT(5, pfm_value(self->fd, 1, FIRST));
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
	ASSERT_EQ(0, pfm_unload(self->fd));
	EXPECT_EQ(-EINVAL, pfm_load_self(self->fd));
	/* In two sets they can be. */
	pmc[1].reg_set = 1;
	ASSERT_EQ(0, pfm_make_set(self->fd, 1, 0, 0, 0));
	pmc[0].reg_num = 2;
	ASSERT_EQ(0, pfm_write_pmcs(self->fd, pmc, 2));
}
#endif

#if defined(__x86_64__) || defined(__i386__)
TEST_F(hw, control_register_values_are_checked)
{
	struct pfarg_pmc pmc = hw_pmc(0, CYCLES, USER);

	pmc.reg_value &= ~(1 << 22);
	EXPECT_EQ(-EINVAL, pfm_write_pmcs(self->fd, &pmc, 1));
	EXPECT_EQ(PFM_REGFL_RETFL_EINVAL, pmc.reg_flags);
	pmc = hw_pmc(0, CYCLES, 0);
	EXPECT_EQ(-EINVAL, pfm_write_pmcs(self->fd, &pmc, 1));
	pmc = hw_pmc(0, CYCLES, USER);
	pmc.reg_flags = PFM_REGFL_EXCL_KERNEL;
	EXPECT_EQ(-EINVAL, pfm_write_pmcs(self->fd, &pmc, 1));
	pmc = hw_pmc(0, CYCLES, USER);
	pmc.reg_value |= 1ULL << 40;
	EXPECT_EQ(-EINVAL, pfm_write_pmcs(self->fd, &pmc, 1));
	pmc = hw_pmc(0, CYCLES, USER);
	EXPECT_EQ(0, pfm_write_pmcs(self->fd, &pmc, 1));
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
