// SPDX-License-Identifier: GPL-2.0
/* perfmon selftests - the memory of contexts and buffers, and its charge */
#define _GNU_SOURCE

#include "../kselftest_harness.h"
#include "perfmon_helpers.h"

#define MAX_CONTEXTS	200

/* Get the allowance of each user beyond RLIMIT_MEMLOCK in bytes, 0 if unknown. */
static unsigned long allowance(void)
{
	char text[32];

	if (read_file("/proc/sys/kernel/perf_event_mlock_kb", text, sizeof(text)))
		return 0;
	return strtoul(text, NULL, 0) * 1024 * sysconf(_SC_NPROCESSORS_ONLN);
}

/* Create all sets and all software registers that a context may have. */
static long fill_context(int fd)
{
	long ret = 0;
	int set, sw;

	for (set = 0; set < 65 && !ret; set++) {
		ret = pfm_make_set(fd, set, 0, 0, 0);
		for (sw = 0; sw < PERF_COUNT_SW_BPF_OUTPUT && !ret; sw++)
			ret = pfm_set_pmd(fd, set, PFM_SW_BASE + sw, 0);
	}
	return ret;
}

/* Number of such contexts that this user can have; the next one must fail with ENOMEM. */
static int contexts_until_refused(int fds[MAX_CONTEXTS])
{
	long ret = 0;
	int n;

	for (n = 0; n < MAX_CONTEXTS; n++) {
		fds[n] = pfm_open(0);
		ret = fds[n] < 0 ? fds[n] : fill_context(fds[n]);
		if (ret)
			break;
	}
	if (n < MAX_CONTEXTS && fds[n] >= 0)
		close(fds[n]);
	return n == MAX_CONTEXTS || ret == -ENOMEM ? n : -1;
}

/* Returns 0 if the user can have at least one context, and at most @bytes of contexts. */
static int contexts_fit(unsigned long bytes)
{
	int fds[MAX_CONTEXTS], round, last = 0, n, i;

	/* Closing a context gives its memory back. */
	for (round = 0; round < 3; round++) {
		n = contexts_until_refused(fds);
		for (i = 0; i < n; i++)
			close(fds[i]);
		if (n < 1)
			return 1;
		/* A set has more than a KiB, a register more than 128 bytes. */
		if (n * 65UL * (1024 + PERF_COUNT_SW_BPF_OUTPUT * 128) > bytes)
			return 2;
		if (round && n != last)
			return 3;
		last = n;
	}
	return 0;
}

TEST(context_that_is_not_loaded_is_charged)
{
	unsigned long bytes = allowance();

	ASSERT_NE(0, bytes);
	EXPECT_EQ(0, AS_NOBODY(limit_memlock(0) ? 99 : contexts_fit(bytes)));
	EXPECT_EQ(0, AS_NOBODY(limit_memlock(4 << 20) ? 99 : contexts_fit(bytes + (4 << 20))));
}

#define SETS_MAX	"/sys/kernel/pfm/sets_max"

FIXTURE(many)
{
	char sets[32];
};

FIXTURE_SETUP(many)
{
	ASSERT_EQ(0, read_file(SETS_MAX, self->sets, sizeof(self->sets)));
	ASSERT_EQ(0, write_file(SETS_MAX, "1024"));
}

FIXTURE_TEARDOWN(many)
{
	write_file(SETS_MAX, self->sets);
}

/* Returns 0 if the number of sets that fit is @bytes / 2 KiB, within a tenth. */
static int sets_fit(unsigned long bytes)
{
	unsigned long sets = 0;
	long ret = 0;
	int fd, set;

	while (sets * 2048 < 2 * bytes && !ret) {
		fd = pfm_open(0);
		ret = fd < 0 ? fd : 0;
		for (set = 0; set < 1025 && !ret; set++, sets++)
			ret = pfm_make_set(fd, set, 0, 0, 0);
	}
	if (ret != -ENOMEM)
		return 1;
	return sets * 2048 * 10 < bytes * 9 ? 2 : 0;
}

TEST_F(many, set_takes_two_kilobytes)
{
	unsigned long bytes = allowance();

	ASSERT_NE(0, bytes);
	EXPECT_EQ(0, AS_NOBODY(limit_memlock(0) ? 99 : sets_fit(bytes)));
}

/* A software event of user mode, which every user may count */
static long count_user(int fd, int set, int sw)
{
	struct pfarg_pmc pmc = {
		.reg_num = PFM_SW_BASE + sw,
		.reg_set = set,
		.reg_flags = PFM_REGFL_EXCL_KERNEL,
	};

	return pfm_write_pmcs(fd, &pmc, 1) ?: pfm_set_pmd(fd, set, pmc.reg_num, 0);
}

/*
 * Return 0 if a context with 200 registers can be loaded as long as the user may have more
 * memory, and cannot when others have taken it. The memory that unloading gives back
 * suffices to load it again.
 */
static int events_are_charged(void)
{
	struct hog hog;
	int fd, i, set, sw;
	long ret = 0;

	fd = pfm_open(0);
	for (set = 0; set < 20 && !ret; set++) {
		ret = pfm_make_set(fd, set, 0, 0, 0);
		for (sw = 0; sw < 10 && !ret; sw++)
			ret = count_user(fd, set, sw);
	}
	if (ret)
		return 1;
	for (i = 0; i < 20 && !ret; i++)
		ret = pfm_load_self(fd) ?: pfm_unload(fd);
	if (ret)
		return 2;
	if (hog_take(&hog) || pfm_load_self(fd) != -ENOMEM)
		return 3;
	/* A load that has failed has left nothing behind. */
	hog_free(&hog);
	return pfm_load_self(fd) ? 4 : 0;
}

TEST(events_of_a_loaded_context_are_charged)
{
	EXPECT_EQ(0, AS_NOBODY(limit_memlock(0) ? 99 : events_are_charged()));
}

/*
 * Return 0 if a context without registers cannot be loaded when its user has no memory for
 * its clock. A register takes less memory than a clock, so that registers cannot use up the
 * memory of the context's last page before its clock finds none there.
 */
static int clock_is_charged(void)
{
	int fd = pfm_open(0), set, sw;
	struct hog hog;
	long ret = 0;

	if (fd < 0 || make_idle_sets(fd) || hog_take(&hog))
		return 1;
	for (set = 1; set <= IDLE_SETS; set++) {
		for (sw = 0; sw < PERF_COUNT_SW_BPF_OUTPUT; sw++) {
			ret = pfm_load_self(fd);
			if (ret)
				goto full;
			ret = pfm_unload(fd) ?: pfm_set_pmd(fd, set, PFM_SW_BASE + sw, 0);
			if (ret)
				return 2;
		}
	}
	return 3;
full:
	if (ret != -ENOMEM)
		return 4;
	hog_free(&hog);
	return pfm_load_self(fd) ? 5 : 0;
}

TEST(clock_of_a_loaded_context_is_charged)
{
	EXPECT_EQ(0, AS_NOBODY(limit_memlock(0) ? 99 : clock_is_charged()));
}

/*
 * A register gets no event because its user may not count the kernel. When the user asks
 * for user mode alone, there is no memory for the event. Returns 0 if the write fails and
 * the register counts as soon as another write finds memory.
 */
static int event_without_memory(void)
{
	struct pfarg_pmc pmc = { .reg_num = SW(PAGE_FAULTS), .reg_flags = PFM_REGFL_EXCL_KERNEL };
	int fd = pfm_open(0);
	struct pages pages;
	struct hog hog;

	if (fd < 0 || make_idle_sets(fd) || pages_map(&pages, 64) ||
	    count_user(fd, 0, PERF_COUNT_SW_PAGE_FAULTS_MIN) || pfm_load_self(fd) ||
	    pfm_start(fd, NULL))
		return 1;
	if (pfm_set_pmd(fd, 0, SW(PAGE_FAULTS), 0) != -EACCES || pfm_write_pmcs(fd, &pmc, 1))
		return 2;
	if (hog_take_all(&hog, fd))
		return 3;
	if (pfm_set_pmd(fd, 0, SW(PAGE_FAULTS), 0) != -ENOMEM)
		return 4;
	pages_touch(&pages, 5);
	if (pfm_value(fd, 0, SW(PAGE_FAULTS)))
		return 5;
	hog_free(&hog);
	if (pfm_set_pmd(fd, 0, SW(PAGE_FAULTS_MIN), 0))
		return 6;
	pages_touch(&pages, 10);
	return pfm_value(fd, 0, SW(PAGE_FAULTS)) == 10 ? 0 : 7;
}

TEST(register_without_memory_for_its_event_counts_later)
{
	EXPECT_EQ(0, AS_NOBODY(limit_memlock(0) ? 99 : event_without_memory()));
}

TEST(privileged_user_is_not_limited)
{
	struct rlimit old;
	int fds[20], n, i;

	ASSERT_EQ(0, getrlimit(RLIMIT_MEMLOCK, &old));
	ASSERT_EQ(0, limit_memlock(0));
	for (n = 0; n < 20; n++) {
		fds[n] = pfm_open(0);
		ASSERT_LE(0, fds[n]);
		ASSERT_EQ(0, fill_context(fds[n]));
	}
	for (i = 0; i < n; i++)
		close(fds[i]);
	setrlimit(RLIMIT_MEMLOCK, &old);
}

static int open_buffer(size_t size)
{
	struct pfm_dfl_smpl_arg arg = { .buf_size = size };
	struct pfarg_ctx ctx = { };

	return pfm_create(&ctx, "default", &arg, sizeof(arg));
}

static void child_fills(struct shared *shared, int uid)
{
	if (limit_memlock(RLIM_INFINITY) || setresuid(uid, uid, uid))
		_exit(99);
	while (open_buffer(1 << 20) >= 0)
		shared->progress++;
	shared->done = 1;
	for (;;)
		pause();
}

TEST(buffers_of_other_users_leave_room)
{
	struct shared *shared[2];
	pid_t pid[2];
	int fd, i;

	for (i = 0; i < 2; i++) {
		shared[i] = shared_map();
		pid[i] = fork();
		if (!pid[i]) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			child_fills(shared[i], 65533 + i);
		}
		while (!shared[i]->done && waitpid(pid[i], NULL, WNOHANG) != pid[i])
			usleep(1000);
		EXPECT_LE(1, shared[i]->progress);
	}
	fd = open_buffer(1 << 20);
	EXPECT_LE(0, fd);
	close(fd);
	for (i = 0; i < 2; i++)
		child_kill(pid[i]);
}

TEST_HARNESS_MAIN
