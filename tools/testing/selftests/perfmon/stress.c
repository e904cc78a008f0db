// SPDX-License-Identifier: GPL-2.0
/*
 * perfmon selftests - many threads, random calls, targets and CPUs that come and go
 *
 * The test checks that the kernel logs no complaint, that the calls return valid
 * results, and that nothing is left in the end. KASAN, lockdep and fault injection
 * find more.
 */
#define _GNU_SOURCE

#include "../kselftest_harness.h"
#include "perfmon_helpers.h"

#define NR_THREADS	8
#define NR_FDS		6
#define NR_TASK_FDS	4
#define NR_TARGETS	3

#define CPU1_ONLINE	"/sys/devices/system/cpu/cpu1/online"
#define STORM_BUF	16384
#define SIM_DIR		"/sys/kernel/debug/pmusim"

struct storm {
	volatile int stop;
	int pmu_type;
	volatile pid_t target[NR_TARGETS];
	int fd[NR_FDS];
	int bad;
	unsigned long calls;
	__u64 sum;
};

static void target_runs(struct shared *shared)
{
	struct pages pages;

	if (pages_map(&pages, 64))
		return;
	for (;;)
		pages_touch(&pages, 1);
}

/* Tell whether a result is allowed, with any calls of other threads. */
static bool is_allowed(long ret)
{
	static const int errors[] = {
		0, EINVAL, EBUSY, ESRCH, EEXIST, EPERM, ENODEV, ENOMEM, EACCES, EAGAIN, EINTR,
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(errors); i++) {
		if (ret == -errors[i])
			return true;
	}
	return false;
}

static long random_call(struct storm *storm, unsigned int *seed)
{
	int r = rand_r(seed), i = r % NR_FDS, fd = storm->fd[i], set = (r >> 4) % 3;
	struct pfarg_pmd pmd = {
		.reg_num = PFM_SW_BASE + (r >> 8) % 7, .reg_set = set,
		.reg_flags = (r >> 12) & 3, .reg_value = -(__u64)((r >> 14) % 200),
		.reg_short_reset = -50ULL, .reg_long_reset = -60ULL, .reg_random_mask = 15,
		.reg_ovfl_switch_cnt = (r >> 20) & 3,
	};
	struct pfarg_pmc pmc = {
		.reg_num = pmd.reg_num, .reg_set = set,
		.reg_flags = (r >> 12) & 1 ? PFM_REGFL_EXCL_KERNEL : 0,
	};
	struct pfarg_start start = { .start_set = set };
	union pfarg_msg msg;

	pmd.reg_smpl_pmds[4] = 0x7f & (r >> 6);
	pmd.reg_reset_pmds[4] = 0x7f & (r >> 6);
	/* Half of the registers are of the PMU, if there is one. */
	if (storm->pmu_type && r & 4) {
		pmd.reg_num = (r >> 8) % 4;
		pmd.reg_smpl_pmds[0] = 0xf & (r >> 6);
		pmd.reg_reset_pmds[0] = 0xf & (r >> 7);
		pmc.reg_num = pmd.reg_num;
		pmc.reg_value = ((r >> 16) & 1) | (__u64)((r >> 18) % 6) << 24;
	}
	switch (rand_r(seed) % 16) {
	case 0:
		return pfm_write_pmcs(fd, &pmc, 1);
	case 1:
		return pfm_write_pmds(fd, &pmd, 1);
	case 2:
		return pfm_read_pmds(fd, &pmd, 1);
	case 3:
		if (i >= NR_TASK_FDS)
			return pfm_load_tid(fd, (r >> 9) % 2, 0);
		return pfm_load_tid(fd, storm->target[(r >> 9) % NR_TARGETS], 0);
	case 4:
		return pfm_start(fd, &start);
	case 5:
		return pfm_start(fd, NULL);
	case 6:
		return pfm_stop(fd);
	case 7:
		return pfm_restart(fd);
	case 8:
		return pfm_make_set(fd, set, PFM_SETFL_TIME_SWITCH, 100000, 0);
	case 9:
		return pfm_make_set(fd, set, PFM_SETFL_OVFL_SWITCH, 0, 0);
	case 10:
		return (long)pfm_info(fd, set).set_runs < 0 ? -EINVAL : 0;
	case 11:
		return pfm_delete_evtsets(fd, &(struct pfarg_setdesc) { .set_id = set }, 1);
	case 12:
		return rand_r(seed) % 4 ? 0 : pfm_unload(fd);
	case 13:
		return pfm_load_self(fd);
	case 14:
		return read(fd, &msg, sizeof(msg)) < 0 ? -errno : 0;
	default:
		return pfm_restart(fd);
	}
}

static void *random_thread(void *arg)
{
	struct storm *storm = arg;
	unsigned int seed = syscall(__NR_gettid);
	unsigned long calls = 0;

	while (!storm->stop) {
		long ret = random_call(storm, &seed);

		calls++;
		if (!is_allowed(ret)) {
			storm->bad = ret;
			break;
		}
	}
	__atomic_fetch_add(&storm->calls, calls, __ATOMIC_RELAXED);
	return NULL;
}

/* Let the counters of one CPU of a simulated PMU count. */
static void *tick_thread(void *arg)
{
	struct storm *storm = arg;
	char text[32];
	unsigned int i;

	for (i = 0; !storm->stop; i++) {
		snprintf(text, sizeof(text), "%d %d", i % 4, 1 + i % 300);
		write_file(i & 4 ? SIM_DIR "/cpu1/tick" : SIM_DIR "/cpu0/tick", text);
	}
	return NULL;
}

static int storm_create(struct storm *storm, int i)
{
	struct pfm_dfl_smpl_arg arg = { .buf_size = STORM_BUF };
	/*
	 * One context needs its target to be stopped, so it can only be loaded on the
	 * calling thread.
	 */
	struct pfarg_ctx ctx = {
		.ctx_flags = (i == 2 ? 0 : PFM_FL_REMOTE) |
			     (i >= NR_TASK_FDS ? PFM_FL_SYSTEM_WIDE :
			      i & 1 ? PFM_FL_NOTIFY_BLOCK : 0),
		.ctx_pmu_type = storm->pmu_type,
	};
	int fd;

	fd = i & 2 ? pfm_create(&ctx, "default", &arg, sizeof(arg)) :
		     pfm_create(&ctx, NULL, NULL, 0);
	if (fd >= 0)
		fcntl(fd, F_SETFL, O_NONBLOCK);
	return fd;
}

/* Close contexts meanwhile, with and without a mapping. */
static void *renew_thread(void *arg)
{
	const struct pfm_dfl_smpl_hdr *hdr;
	struct storm *storm = arg;
	unsigned int i;
	int fd;

	for (i = 0; !storm->stop; i = (i + 1) % NR_FDS) {
		usleep(3000);
		hdr = MAP_FAILED;
		if (i & 2)
			hdr = mmap(NULL, STORM_BUF, PROT_READ, MAP_SHARED, storm->fd[i], 0);
		fd = storm_create(storm, i);
		if (fd < 0) {
			storm->bad = fd;
			break;
		}
		/* No thread uses the descriptor after its close, or another one in its place. */
		dup2(fd, storm->fd[i]);
		close(fd);
		if (hdr == MAP_FAILED)
			continue;
		storm->sum += *(volatile __u64 *)&hdr->hdr_count;
		munmap((void *)hdr, STORM_BUF);
	}
	return NULL;
}

static void *hotplug_thread(void *arg)
{
	struct storm *storm = arg;

	while (!storm->stop) {
		write_file(CPU1_ONLINE, "0");
		write_file(CPU1_ONLINE, "1");
	}
	return NULL;
}

static void storm_open(struct storm *storm)
{
	int i;

	for (i = 0; i < NR_FDS; i++)
		storm->fd[i] = storm_create(storm, i);
}

/* End when its threads are gone, and wake processes that still wait for it. */
static bool storm_unloaded(int fd)
{
	int tries = 5000;

	while (pfm_stop(fd) != -EINVAL && tries--)
		usleep(1000);
	return tries >= 0;
}

FIXTURE(stress)
{
	struct sample_rate rate;
};

/*
 * Clocks that sample each other cause each other's overflows, up to the limit in each
 * timer tick, which must leave enough time on an emulator.
 */
FIXTURE_SETUP(stress)
{
	if (geteuid())
		SKIP(return, "needs root to set the limit of samples");
	ASSERT_EQ(0, sample_rate_set(&self->rate, "4000"));
}

FIXTURE_TEARDOWN(stress)
{
	EXPECT_EQ(0, sample_rate_restore(&self->rate));
}

static int storm_seconds(void)
{
	const char *text = getenv("PERFMON_STRESS_SECONDS");

	return text ? atoi(text) : 5;
}

static void storm_run(struct __test_metadata *_metadata, struct storm *storm)
{
	__u64 end = now_ns(CLOCK_MONOTONIC) + storm_seconds() * 1000 * NSEC_PER_MSEC;
	long before = read_knob("task_sessions_count"), cpus = read_knob("sys_sessions_count");
	pthread_t thread[NR_THREADS + 3];
	int i, n = NR_THREADS;

	/* The first generation has no descriptor of a context, so closing is final. */
	for (i = 0; i < NR_TARGETS; i++)
		storm->target[i] = child_run(target_runs, NULL);
	storm_open(storm);
	for (i = 0; i < NR_FDS; i++)
		ASSERT_LE(0, storm->fd[i]);
	for (i = 0; i < NR_THREADS; i++)
		ASSERT_EQ(0, pthread_create(&thread[i], NULL, random_thread, storm));
	ASSERT_EQ(0, pthread_create(&thread[n++], NULL, renew_thread, storm));
	if (storm->pmu_type)
		ASSERT_EQ(0, pthread_create(&thread[n++], NULL, tick_thread, storm));
	if (!access(CPU1_ONLINE, W_OK))
		ASSERT_EQ(0, pthread_create(&thread[n++], NULL, hotplug_thread, storm));
	for (i = 0; now_ns(CLOCK_MONOTONIC) < end && !storm->bad; i++) {
		pid_t old = storm->target[i % NR_TARGETS];

		usleep(20000);
		storm->target[i % NR_TARGETS] = child_run(target_runs, NULL);
		child_kill(old);
	}
	storm->stop = 1;
	for (i = 0; i < n; i++)
		pthread_join(thread[i], NULL);
	write_file(CPU1_ONLINE, "1");
	for (i = 0; i < NR_TARGETS; i++)
		child_kill(storm->target[i]);
	/* All threads are gone: nothing is left on them. */
	for (i = 0; i < NR_TASK_FDS; i++)
		EXPECT_TRUE(storm_unloaded(storm->fd[i])) TH_LOG("context %d", i);
	for (i = 0; i < NR_FDS; i++)
		close(storm->fd[i]);
	EXPECT_EQ(0, storm->bad);
	TH_LOG("%lu calls", storm->calls);
	EXPECT_EQ(before, read_knob("task_sessions_count"));
	EXPECT_EQ(cpus, read_knob("sys_sessions_count"));
}

TEST_F_TIMEOUT(stress, random_calls_from_all_sides, 170)
{
	struct storm storm = { };

	storm_run(_metadata, &storm);
}

/* Overflows in every context that a PMU may interrupt in, NMI too */
TEST_F_TIMEOUT(stress, random_calls_on_a_simulated_pmu, 170)
{
	struct storm storm = { };
	char type[16];

	if (read_file("/sys/bus/event_source/devices/pmusim/type", type, sizeof(type)))
		SKIP(return, "no simulated PMU: needs PERF_PMUSIM");
	storm.pmu_type = atoi(type);
	storm_run(_metadata, &storm);
}

TEST_F_TIMEOUT(stress, cpus_come_and_go, 170)
{
	__u64 end = now_ns(CLOCK_MONOTONIC) + storm_seconds() * 500 * NSEC_PER_MSEC;
	long before = read_knob("sys_sessions_count");
	struct storm storm = { };
	unsigned int loads = 0;
	pthread_t thread;
	long ret = 0;
	int fd, i;

	if (access(CPU1_ONLINE, W_OK))
		SKIP(return, "CPU 1 cannot go offline");
	fd = pfm_open(PFM_FL_SYSTEM_WIDE | PFM_FL_REMOTE);
	ASSERT_LE(0, fd);
	for (i = 0; i < 2; i++) {
		ASSERT_EQ(0, pfm_make_set(fd, i, PFM_SETFL_TIME_SWITCH, 200000, 0));
		ASSERT_EQ(0, pfm_set_pmd(fd, i, SW(CPU_CLOCK), 0));
		ASSERT_EQ(0, pfm_set_pmd(fd, i, SW(CONTEXT_SWITCHES), 0));
	}
	ASSERT_EQ(0, pthread_create(&thread, NULL, hotplug_thread, &storm));
	while ((now_ns(CLOCK_MONOTONIC) < end || loads < 2) && is_allowed(ret)) {
		ret = pfm_load_tid(fd, 1, 0);
		loads += !ret;
		if (!ret)
			ret = pfm_start(fd, NULL);
		usleep(rand() % 3000);
		pfm_info(fd, 1);
		pfm_value(fd, 0, SW(CPU_CLOCK));
		if (rand() % 2)
			pfm_unload(fd);
	}
	storm.stop = 1;
	pthread_join(thread, NULL);
	write_file(CPU1_ONLINE, "1");
	EXPECT_TRUE(is_allowed(ret));
	EXPECT_LT(1, loads);
	close(fd);
	EXPECT_EQ(before, read_knob("sys_sessions_count"));
}

/* A vector that is too long for the stack, and a context of a CPU */
static long allocate_vectors(void)
{
	struct pfarg_setdesc desc[24];
	struct pfarg_setinfo info[8];
	struct pfarg_pmc pmc[30];
	long ret;
	int fd, i;

	memset(desc, 0, sizeof(desc));
	memset(info, 0, sizeof(info));
	memset(pmc, 0, sizeof(pmc));
	for (i = 0; i < 24; i++)
		desc[i].set_id = i + 1;
	for (i = 0; i < 8; i++)
		info[i].set_id = i;
	for (i = 0; i < 30; i++)
		pmc[i].reg_num = PFM_SW_BASE + i % 7;
	fd = pfm_open(PFM_FL_SYSTEM_WIDE | PFM_FL_REMOTE);
	if (fd < 0)
		return fd;
	ret = pfm_create_evtsets(fd, desc, 24) ?:
	      pfm_getinfo_evtsets(fd, info, 8) ?:
	      pfm_write_pmcs(fd, pmc, 30) ?:
	      pfm_set_pmd(fd, 0, SW(PAGE_FAULTS), 0) ?:
	      pfm_load_tid(fd, 0, 0) ?:
	      pfm_start(fd, NULL) ?:
	      pfm_unload(fd) ?:
	      pfm_delete_evtsets(fd, desc, 24);
	close(fd);
	return ret;
}

/* Do each call that allocates. Returns the first error. */
static long allocate_everything(void)
{
	struct pfm_dfl_smpl_arg arg = { .buf_size = 16384 };
	struct pfarg_pmd pmd[23];
	struct pfarg_ctx ctx = { };
	void *hdr;
	long ret;
	int fd, i;

	memset(pmd, 0, sizeof(pmd));
	for (i = 0; i < 23; i++)
		pmd[i].reg_num = PFM_SW_BASE + i % 7;
	fd = pfm_create(&ctx, "default", &arg, sizeof(arg));
	if (fd < 0)
		return fd;
	hdr = mmap(NULL, arg.buf_size, PROT_READ, MAP_SHARED, fd, 0);
	if (hdr == MAP_FAILED) {
		ret = -errno;
		close(fd);
		return ret;
	}
	ret = pfm_make_set(fd, 1, PFM_SETFL_TIME_SWITCH, 100000, 0) ?:
	      pfm_write_pmds(fd, pmd, 23) ?:
	      pfm_set_pmd(fd, 1, SW(PAGE_FAULTS), 0) ?:
	      pfm_load_self(fd) ?:
	      pfm_start(fd, NULL) ?:
	      pfm_set_pmd(fd, 0, SW(CGROUP_SWITCHES), 0) ?:
	      pfm_write_pmcs(fd, &(struct pfarg_pmc) { .reg_num = SW(PAGE_FAULTS),
						       .reg_flags = PFM_REGFL_EXCL_KERNEL }, 1) ?:
	      pfm_read_pmds(fd, pmd, 23) ?:
	      pfm_restart(fd) ?:
	      pfm_stop(fd) ?:
	      pfm_unload(fd);
	munmap(hdr, arg.buf_size);
	close(fd);
	return ret ?: allocate_vectors();
}

/*
 * This is the last test: if an allocation of kmemleak fails, it prints a warning, which
 * disables lockdep.
 */
TEST_F_TIMEOUT(stress, every_allocation_may_fail, 170)
{
	long tasks = read_knob("task_sessions_count"), mem = read_knob("smpl_buffer_mem_cur");
	int fd = open("/proc/thread-self/fail-nth", O_RDWR), n, failed = 0;
	char text[16];
	long ret;

	if (fd < 0)
		SKIP(return, "no /proc/thread-self/fail-nth: needs FAULT_INJECTION");
	write_file("/sys/kernel/debug/failslab/ignore-gfp-wait", "N");
	write_file("/sys/kernel/debug/fail_page_alloc/ignore-gfp-wait", "N");
	for (n = 1; n < 2000; n++) {
		snprintf(text, sizeof(text), "%d", n);
		ASSERT_LT(0, pwrite(fd, text, strlen(text), 0));
		ret = allocate_everything();
		/* The remaining n may hit these as well. */
		memset(text, 0, sizeof(text));
		if (pread(fd, text, sizeof(text) - 1, 0) <= 0)
			strcpy(text, "1");
		while (pwrite(fd, "0", 1, 0) != 1)
			;
		ASSERT_TRUE(ret == 0 || ret == -ENOMEM || ret == -EFAULT || ret == -EMFILE) {
			TH_LOG("allocation %d: %ld", n, ret);
		}
		failed += ret != 0;
		/* The remaining n was not reached, so all allocations have failed once. */
		if (atoi(text))
			break;
	}
	close(fd);
	TH_LOG("%d allocations, %d calls failed", n - 1, failed);
	EXPECT_LT(10, failed);
	EXPECT_EQ(tasks, read_knob("task_sessions_count"));
	EXPECT_EQ(mem, read_knob("smpl_buffer_mem_cur"));
	/* The thread is released, and everything works. */
	EXPECT_EQ(0, allocate_everything());
}

TEST_HARNESS_MAIN
