// SPDX-License-Identifier: GPL-2.0
/*
 * perfmon selftests - programs that were written for perfmon 2.8
 *
 * This code does the same as their library: it looks for the calls in sysfs, turns events
 * into values of registers without the bits that 2.8 forced, and does not clear fields
 * that 2.8 ignored. The tests are the sequences of calls of its examples.
 */
#define _GNU_SOURCE

#include "../kselftest_harness.h"
#include "perfmon_helpers.h"

#define COMPAT		"/proc/sys/kernel/perfmon_compat"
#define OLD_DIR		"/sys/kernel/perfmon"
#define NEW_DIR		"/sys/kernel/pfm"
#define FAULTS		SW(PAGE_FAULTS)
#define MINOR		SW(PAGE_FAULTS_MIN)
#define NOISE		0xa5

/* ---- the library: the calls ---- */

static long call_base;

/* Without the file the library uses a built-in number, which is another system call. */
static int lib_init(void)
{
	char text[64];
	unsigned int major, minor;

	call_base = -1;
	if (read_file(OLD_DIR "/version", text, sizeof(text)) ||
	    sscanf(text, "%u.%u", &major, &minor) != 2 || major != 2 || minor < 3)
		return -1;
	if (read_file(OLD_DIR "/syscall", text, sizeof(text)))
		return -1;
	call_base = strtol(text, NULL, 0);
	return call_base > 0 ? 0 : -1;
}

#define LIB_CALL(n, ...)	pfm_ret(syscall(call_base + (n), ##__VA_ARGS__))

/* ---- the library: events ---- */

enum what { INSTRUCTIONS, CYCLES };
enum level { USER = 1, KERNEL = 2 };

struct events {
	unsigned int n_pmcs;
	unsigned int n_pmds;
	struct pfarg_pmc pmc[8];
	struct pfarg_pmd pmd[8];
};

static void noise_pmc(struct pfarg_pmc *pmc)
{
	memset(pmc, NOISE, sizeof(*pmc));
	pmc->reg_set = 0;
	pmc->reg_flags = 0;
}

static void noise_pmd(struct pfarg_pmd *pmd)
{
	memset(pmd, 0, sizeof(*pmd));
	memset(pmd->reserved, NOISE, sizeof(pmd->reserved));
	pmd->reg_random_seed = NOISE;
}

#if defined(__x86_64__) || defined(__i386__)
static bool has_text(const char *path, const char *what)
{
	char text[4096] = "";

	return !read_file(path, text, sizeof(text)) && strstr(text, what);
}

/* Fixed counters have one control register, of which only the used nibbles are set. */
static void events_fixed(struct events *events, const enum what *what, unsigned int n,
			 unsigned int levels)
{
	unsigned int i, fixed;
	__u64 value = 0;

	for (i = 0; i < n; i++) {
		fixed = what[i] == INSTRUCTIONS ? 0 : 1;
		value |= (8 | (levels & USER ? 2 : 0) | (levels & KERNEL ? 1 : 0)) << (4 * fixed);
		noise_pmd(&events->pmd[i]);
		events->pmd[i].reg_num = 16 + fixed;
	}
	noise_pmc(&events->pmc[0]);
	events->pmc[0].reg_num = 16;
	events->pmc[0].reg_value = value;
	events->n_pmcs = 1;
	events->n_pmds = n;
}

static void events_general(struct events *events, const enum what *what, unsigned int n,
			   unsigned int levels)
{
	const __u64 code[] = { 0xc0, has_text("/proc/cpuinfo", "AuthenticAMD") ? 0x76 : 0x3c };
	unsigned int i;

	for (i = 0; i < n; i++) {
		noise_pmc(&events->pmc[i]);
		events->pmc[i].reg_num = i;
		events->pmc[i].reg_value = code[what[i]] | 1 << 20 | 1 << 22 |
					   (levels & USER ? 1 << 16 : 0) |
					   (levels & KERNEL ? 1 << 17 : 0);
		noise_pmd(&events->pmd[i]);
		events->pmd[i].reg_num = i;
	}
	events->n_pmcs = n;
	events->n_pmds = n;
}

static bool have_fixed(void)
{
	return !access(OLD_DIR "/pmu_desc/pmc16", F_OK);
}
#else
#ifdef __aarch64__
#define FIRST	0

static void choose_event(struct pfarg_pmc *pmc, enum what what, unsigned int levels)
{
	static const __u64 code[] = { 0x8, 0x11 };

	pmc->reg_value = code[what] | (levels & USER ? 0 : 1 << 30) |
			 (levels & KERNEL ? 0 : 1ULL << 31);
}
#else
#define FIRST	1

static void choose_event(struct pfarg_pmc *pmc, enum what what, unsigned int levels)
{
	static const __u64 code[] = { 0x2, 0x1e };

	pmc->reg_value = code[what];
	pmc->reg_flags = PFM_REGFL_EXCL_HV | (levels & USER ? 0 : PFM_REGFL_EXCL_USER) |
			 (levels & KERNEL ? 0 : PFM_REGFL_EXCL_KERNEL);
}
#endif

static void events_general(struct events *events, const enum what *what, unsigned int n,
			   unsigned int levels)
{
	unsigned int i;

	for (i = 0; i < n; i++) {
		noise_pmc(&events->pmc[i]);
		events->pmc[i].reg_num = FIRST + i;
		choose_event(&events->pmc[i], what[i], levels);
		noise_pmd(&events->pmd[i]);
		events->pmd[i].reg_num = FIRST + i;
	}
	events->n_pmcs = n;
	events->n_pmds = n;
}

static void events_fixed(struct events *events, const enum what *what, unsigned int n,
			 unsigned int levels)
{
	events_general(events, what, n, levels);
}

static bool have_fixed(void)
{
	return false;
}
#endif

static const enum what both[] = { INSTRUCTIONS, CYCLES };

/* Choose registers as the library does: fixed counters if the machine has them. */
static void dispatch(struct events *events, unsigned int n, unsigned int levels)
{
	if (have_fixed())
		events_fixed(events, both, n, levels);
	else
		events_general(events, both, n, levels);
}

static int lib_create(unsigned int flags, const char *fmt, void *arg, size_t size)
{
	struct pfarg_ctx ctx;

	/* Files of 2.8 that this kernel does not have; the fourth word tells which it has. */
	memset(&ctx, NOISE, sizeof(ctx));
	ctx.ctx_flags = flags;
	ctx.ctx_pmu_type = 0;
	return LIB_CALL(0, &ctx, fmt, arg, size);
}

static void set_period(struct pfarg_pmd *pmd, __u64 period)
{
	pmd->reg_value = -period;
	pmd->reg_long_reset = -period;
	pmd->reg_short_reset = -period;
}

static long lib_write(int fd, struct events *events)
{
	return LIB_CALL(1, fd, events->pmc, events->n_pmcs) ?:
	       LIB_CALL(2, fd, events->pmd, events->n_pmds);
}

static long lib_load(int fd, unsigned int target)
{
	struct pfarg_load load;

	memset(&load, NOISE, sizeof(load));
	load.load_pid = target;
	load.load_set = 0;
	return LIB_CALL(4, fd, &load);
}

static void work(unsigned long loops)
{
	while (loops--)
		asm volatile("nop" ::: "memory");
}

/* ---- how programs find perfmon ---- */

TEST(directory_of_old_programs_is_not_there_by_default)
{
	char text[64];

	if (has_call32() && access(NEW_DIR, F_OK))
		SKIP(return, "no perfmon");
	ASSERT_EQ(0, read_file(COMPAT, text, sizeof(text)));
	EXPECT_STREQ("0\n", text);
	EXPECT_EQ(0, access(NEW_DIR "/version", R_OK));
	EXPECT_NE(0, access(OLD_DIR, F_OK));
	EXPECT_NE(0, lib_init());
}

FIXTURE(compat)
{
	char level[16];
};

FIXTURE_SETUP(compat)
{
	if (geteuid())
		SKIP(return, "needs root to set perfmon_compat");
	ASSERT_EQ(0, write_file(COMPAT, "1"));
	ASSERT_EQ(0, lib_init());
}

FIXTURE_TEARDOWN(compat)
{
	EXPECT_EQ(0, write_file(COMPAT, "0"));
}

TEST_F(compat, version_and_number_are_those_that_clients_take)
{
	char text[64];

	ASSERT_EQ(0, read_file(OLD_DIR "/version", text, sizeof(text)));
	/* One client compares the first three characters. */
	EXPECT_EQ(0, strncmp(text, "2.8", 3));
	EXPECT_EQ(__NR_pfm_create_context, call_base);
	EXPECT_EQ(0, access(OLD_DIR "/pmu_desc/model", R_OK));
	EXPECT_EQ(0, access(OLD_DIR "/formats/default/version", R_OK));
	/* A second write changes nothing, and the directory disappears again. */
	EXPECT_EQ(0, write_file(COMPAT, "1"));
	EXPECT_EQ(0, access(OLD_DIR "/version", R_OK));
	EXPECT_EQ(0, write_file(COMPAT, "0"));
	EXPECT_NE(0, access(OLD_DIR, F_OK));
	EXPECT_EQ(0, write_file(COMPAT, "1"));
}

TEST_F(compat, others_may_not_set_it)
{
	EXPECT_EQ(EACCES, AS_NOBODY(-write_file(COMPAT, "0")));
}

/* ---- fields that perfmon 2.8 ignored ---- */

static long fields_unset(int fd)
{
	struct pfarg_setdesc desc;
	struct pfarg_start start;
	struct pfarg_pmc pmc;
	struct pfarg_pmd pmd;

	memset(&desc, NOISE, sizeof(desc));
	desc.set_id = 1;
	desc.set_flags = 0;
	noise_pmc(&pmc);
	pmc.reg_num = FAULTS;
	pmc.reg_value = 0;
	noise_pmd(&pmd);
	pmd.reg_num = FAULTS;
	memset(&start, NOISE, sizeof(start));
	start.start_set = 0;
	return LIB_CALL(8, fd, &desc, 1) ?: LIB_CALL(1, fd, &pmc, 1) ?: LIB_CALL(2, fd, &pmd, 1) ?:
	       LIB_CALL(10, fd, &desc, 1) ?: lib_load(fd, getpid()) ?: LIB_CALL(5, fd, &start) ?:
	       LIB_CALL(6, fd) ?: LIB_CALL(11, fd);
}

TEST_F(compat, fields_that_are_not_used_may_hold_anything)
{
	struct pfm_dfl_smpl_arg arg;
	int fd;

	memset(&arg, NOISE, sizeof(arg));
	arg.buf_size = 65536;
	fd = lib_create(0, "default", &arg, sizeof(arg));
	ASSERT_LE(0, fd);
	EXPECT_EQ(0, fields_unset(fd));
	/* A leftover timeout is ignored, too. */
	EXPECT_EQ(0, pfm_make_set(fd, 3, 0, 1234567, 9));
	EXPECT_EQ(0, pfm_info(fd, 3).set_timeout);
	EXPECT_EQ(0, pfm_info(fd, 3).set_id_next);
	close(fd);
}

TEST_F(compat, values_are_still_checked)
{
	struct pfarg_pmd pmd = { .reg_num = FAULTS, .reg_flags = 0x100 };
	int fd = lib_create(0, NULL, NULL, 0);

	ASSERT_LE(0, fd);
	EXPECT_EQ(-EINVAL, pfm_write_pmds(fd, &pmd, 1));
	EXPECT_EQ(-EINVAL, pfm_make_set(fd, 1, 8, 0, 0));
	EXPECT_EQ(-EINVAL, pfm_make_set(fd, 1, PFM_SETFL_TIME_SWITCH, 0, 0));
	EXPECT_EQ(-EINVAL, pfm_open(0x40));
	EXPECT_EQ(-EINVAL, pfm_load_tid(fd, getpid(), 7));
	close(fd);
}

TEST_F(compat, context_keeps_what_it_was_created_with)
{
	int old, new;

	old = lib_create(0, NULL, NULL, 0);
	ASSERT_LE(0, old);
	ASSERT_EQ(0, write_file(COMPAT, "0"));
	EXPECT_EQ(0, fields_unset(old));
	EXPECT_EQ(-EINVAL, lib_create(0, NULL, NULL, 0));
	new = pfm_open(0);
	ASSERT_LE(0, new);
	ASSERT_EQ(0, write_file(COMPAT, "1"));
	EXPECT_EQ(-EINVAL, fields_unset(new));
	close(new);
	close(old);
}

/* ---- targets ---- */

static void child_spins(struct shared *shared)
{
	shared->go = 1;
	for (;;)
		shared->progress++;
}

/* Attach, count for a while, and detach, without stopping the target. */
static long attach_while_it_runs(int tid)
{
	int fd = lib_create(0, NULL, NULL, 0);
	long ret;

	if (fd < 0)
		return fd;
	ret = pfm_set_pmd(fd, 0, SW(TASK_CLOCK), 0) ?: lib_load(fd, tid) ?: LIB_CALL(5, fd, NULL);
	if (!ret) {
		usleep(50000);
		ret = LIB_CALL(6, fd) ?: (pfm_value(fd, 0, SW(TASK_CLOCK)) ? 0 : -ENODATA) ?:
		      LIB_CALL(11, fd);
	}
	close(fd);
	return ret;
}

TEST_F(compat, thread_need_not_be_stopped)
{
	struct shared *shared = shared_map();
	pid_t pid = child_run(child_spins, shared);
	int fd;

	while (!shared->go)
		usleep(1000);
	EXPECT_EQ(0, attach_while_it_runs(pid));
	/* Otherwise the target has to be stopped. */
	ASSERT_EQ(0, write_file(COMPAT, "0"));
	fd = pfm_open(0);
	EXPECT_EQ(-ESRCH, pfm_load_tid(fd, pid, 0));
	close(fd);
	ASSERT_EQ(0, write_file(COMPAT, "1"));
	child_kill(pid);
}

TEST_F(compat, thread_of_another_user_is_as_safe_as_ever)
{
	struct shared *shared = shared_map();
	pid_t pid = child_run(child_spins, shared);

	while (!shared->go)
		usleep(1000);
	EXPECT_EQ(EPERM, AS_NOBODY(-attach_while_it_runs(pid)));
	child_kill(pid);
}

static int cpu_load(int cpu)
{
	int fd = lib_create(PFM_FL_SYSTEM_WIDE, NULL, NULL, 0);
	long ret;

	if (fd < 0)
		return fd;
	ret = pfm_set_pmd(fd, 0, SW(CPU_CLOCK), 0) ?: lib_load(fd, cpu) ?:
	      LIB_CALL(5, fd, NULL) ?: LIB_CALL(6, fd) ?: LIB_CALL(11, fd);
	close(fd);
	return ret;
}

TEST_F(compat, cpu_need_not_be_the_callers)
{
	cpu_set_t set;

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		SKIP(return, "needs two CPUs");
	CPU_ZERO(&set);
	CPU_SET(0, &set);
	ASSERT_EQ(0, sched_setaffinity(0, sizeof(set), &set));
	EXPECT_EQ(0, cpu_load(1));
	EXPECT_EQ(0, cpu_load(0));
	EXPECT_EQ(EACCES, AS_NOBODY(-cpu_load(1)));
}

/* ---- values of sets ---- */

TEST_F(compat, overflows_are_told_until_the_next_one)
{
	struct pfarg_pmd pmd[2] = {
		{ .reg_num = FAULTS, .reg_flags = PFM_REGFL_OVFL_NOTIFY,
		  .reg_value = -10ULL, .reg_long_reset = -30ULL },
		{ .reg_num = MINOR, .reg_flags = PFM_REGFL_OVFL_NOTIFY,
		  .reg_value = -20ULL, .reg_long_reset = -1000ULL },
	};
	const __u64 faults = 1ULL << (FAULTS % 64), minor = 1ULL << (MINOR % 64);
	int fd = lib_create(0, NULL, NULL, 0);
	struct pages pages;

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, pages_map(&pages, 64));
	ASSERT_EQ(0, pfm_write_pmds(fd, pmd, 2));
	ASSERT_EQ(0, lib_load(fd, getpid()));
	ASSERT_EQ(0, LIB_CALL(5, fd, NULL));
	EXPECT_EQ(0, pfm_info(fd, 0).set_ovfl_pmds[4]);
	pages_touch(&pages, 10);
	EXPECT_EQ(PFM_MSG_OVFL, pfm_msg(fd).type);
	EXPECT_EQ(faults, pfm_info(fd, 0).set_ovfl_pmds[4]);
	ASSERT_EQ(0, LIB_CALL(7, fd));
	EXPECT_EQ(faults, pfm_info(fd, 0).set_ovfl_pmds[4]);
	/* The fault that overflowed stopped this register before it was counted. */
	pages_touch(&pages, 11);
	EXPECT_EQ(PFM_MSG_OVFL, pfm_msg(fd).type);
	EXPECT_EQ(minor, pfm_info(fd, 0).set_ovfl_pmds[4]);
	ASSERT_EQ(0, LIB_CALL(7, fd));
	EXPECT_EQ(minor, pfm_info(fd, 0).set_ovfl_pmds[4]);
	ASSERT_EQ(0, LIB_CALL(11, fd));
	ASSERT_EQ(0, lib_load(fd, getpid()));
	EXPECT_EQ(0, pfm_info(fd, 0).set_ovfl_pmds[4]);
	close(fd);
}

/* ---- the examples ---- */

FIXTURE(hw)
{
	struct sample_rate rate;
	struct events events;
	bool set;
	int fd;
};

FIXTURE_SETUP(hw)
{
	if (geteuid())
		SKIP(return, "needs root to set perfmon_compat");
	ASSERT_EQ(0, write_file(COMPAT, "1"));
	self->set = true;
	ASSERT_EQ(0, lib_init());
	self->fd = lib_create(0, NULL, NULL, 0);
	ASSERT_LE(0, self->fd);
	if (!pfm_info(self->fd, 0).set_avail_pmds[0]) {
		write_file(COMPAT, "0");
		SKIP(return, "no PMU of the CPU");
	}
	/* Set the rate, because perf lowers it on a slow emulator. */
	ASSERT_EQ(0, sample_rate_set(&self->rate, "2000000"));
	ASSERT_EQ(0, write_file(SYSCTL_TIME_PERCENT, "0"));
}

FIXTURE_TEARDOWN(hw)
{
	close(self->fd);
	EXPECT_EQ(0, sample_rate_restore(&self->rate));
	EXPECT_EQ(0, write_file(COMPAT, "0"));
}

#define NEED_INTERRUPTS() do {						\
	if (getenv("PERF_TEST_NO_PMU_INTERRUPTS"))			\
		SKIP(return, "%s", getenv("PERF_TEST_NO_PMU_INTERRUPTS")); \
} while (0)

static void run_self(struct __test_metadata *const _metadata, int fd, struct events *events)
{
	unsigned int i;

	ASSERT_EQ(0, lib_write(fd, events));
	ASSERT_EQ(0, lib_load(fd, getpid()));
	ASSERT_EQ(0, LIB_CALL(5, fd, NULL));
	work(3000000);
	ASSERT_EQ(0, LIB_CALL(6, fd));
	ASSERT_EQ(0, LIB_CALL(3, fd, events->pmd, events->n_pmds));
	for (i = 0; i < events->n_pmds; i++) {
		TH_LOG("PMD%u %llu", events->pmd[i].reg_num, events->pmd[i].reg_value);
		EXPECT_LT(300000, events->pmd[i].reg_value);
	}
	EXPECT_LT(3000000, events->pmd[0].reg_value);
	ASSERT_EQ(0, LIB_CALL(11, fd));
}

TEST_F(hw, self)
{
	dispatch(&self->events, 2, USER);
	run_self(_metadata, self->fd, &self->events);
}

TEST_F(hw, self_with_the_kernel)
{
	dispatch(&self->events, 2, USER | KERNEL);
	run_self(_metadata, self->fd, &self->events);
}

TEST_F(hw, self_with_one_event)
{
	dispatch(&self->events, 1, USER | KERNEL);
	run_self(_metadata, self->fd, &self->events);
}

TEST_F(hw, self_with_general_counters)
{
	events_general(&self->events, both, 2, USER);
	run_self(_metadata, self->fd, &self->events);
}

static void child_works(struct shared *shared)
{
	work(3000000);
}

TEST_F(hw, task)
{
	pid_t pid = child_traced(child_works, shared_map());
	union pfarg_msg msg = { };
	int status;

	dispatch(&self->events, 2, USER);
	ASSERT_EQ(0, lib_write(self->fd, &self->events));
	ASSERT_EQ(0, lib_load(self->fd, pid));
	ASSERT_EQ(0, LIB_CALL(5, self->fd, NULL));
	ASSERT_EQ(0, ptrace(PTRACE_DETACH, pid, NULL, 0));
	ASSERT_EQ(sizeof(msg), read(self->fd, &msg, sizeof(msg)));
	EXPECT_EQ(PFM_MSG_END, msg.type);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_EQ(0, LIB_CALL(3, self->fd, self->events.pmd, self->events.n_pmds));
	EXPECT_LT(3000000, self->events.pmd[0].reg_value);
	EXPECT_GT(6000000 * 3, self->events.pmd[0].reg_value);
	EXPECT_LT(300000, self->events.pmd[1].reg_value);
}

static volatile unsigned int notified, wrong;
static int notify_fd;
static unsigned int notify_pmd;

static void on_sigio(int sig)
{
	union pfarg_msg msg;

	if (read(notify_fd, &msg, sizeof(msg)) != sizeof(msg) || msg.type != PFM_MSG_OVFL ||
	    !(msg.pfm_ovfl_msg.msg_ovfl_pmds[0] & 1ULL << notify_pmd))
		wrong++;
	else
		notified++;
	/* The last overflow leaves the context masked. */
	if (notified < 10 && LIB_CALL(7, notify_fd))
		wrong++;
}

static int sigio_on(int fd, unsigned int pmd)
{
	notify_fd = fd;
	notify_pmd = pmd;
	notified = 0;
	wrong = 0;
	signal(SIGIO, on_sigio);
	return fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_ASYNC) ||
	       fcntl(fd, F_SETOWN, getpid());
}

TEST_F(hw, notify_self)
{
	struct pfarg_pmd *pmd = self->events.pmd;
	unsigned int i;

	NEED_INTERRUPTS();
	dispatch(&self->events, 2, USER);
	pmd[0].reg_flags |= PFM_REGFL_OVFL_NOTIFY;
	pmd[0].reg_reset_pmds[0] = 1ULL << pmd[1].reg_num;
	set_period(&pmd[0], 500000);
	ASSERT_EQ(0, lib_write(self->fd, &self->events));
	ASSERT_EQ(0, sigio_on(self->fd, pmd[0].reg_num));
	ASSERT_EQ(0, lib_load(self->fd, getpid()));
	ASSERT_EQ(0, LIB_CALL(5, self->fd, NULL));
	/* A context that is throttled goes on with the next tick. */
	for (i = 0; i < 2000 && notified < 10; i++)
		work(500000);
	EXPECT_EQ(10, notified);
	EXPECT_EQ(0, wrong);
	ASSERT_EQ(0, LIB_CALL(6, self->fd));
	signal(SIGIO, SIG_DFL);
}

/* Sample: entries with the value of the second register; the buffer is emptied when full. */
struct sampling {
	const struct pfm_dfl_smpl_hdr *hdr;
	int fd;
	__u64 samples;
	__u64 value;
};

static void take_samples(struct sampling *s)
{
	const struct {
		struct pfm_dfl_smpl_entry e;
		__u64 value;
	} *entry = (const void *)(s->hdr + 1);
	__u64 i;

	for (i = 0; i < s->hdr->hdr_count; i++)
		s->value += entry[i].value;
	s->samples += s->hdr->hdr_count;
}

#define PERIOD		20000
#define BUFFER		4096

static int sampling_open(struct sampling *s, unsigned int flags, struct events *events)
{
	struct pfm_dfl_smpl_arg arg;
	struct pfarg_pmd *pmd = events->pmd;

	memset(&arg, NOISE, sizeof(arg));
	arg.buf_size = BUFFER;
	s->fd = lib_create(flags, "default", &arg, sizeof(arg));
	if (s->fd < 0)
		return s->fd;
	s->hdr = mmap(NULL, BUFFER, PROT_READ, MAP_PRIVATE, s->fd, 0);
	if (s->hdr == MAP_FAILED)
		return -errno;
	dispatch(events, 2, USER);
	pmd[0].reg_flags |= PFM_REGFL_OVFL_NOTIFY;
	pmd[0].reg_smpl_pmds[0] = 1ULL << pmd[1].reg_num;
	pmd[0].reg_reset_pmds[0] = 1ULL << pmd[1].reg_num;
	set_period(&pmd[0], PERIOD);
	return lib_write(s->fd, events);
}

TEST_F(hw, self_smpl)
{
	struct sampling s = { };
	__u64 total = 0;
	unsigned int i;

	NEED_INTERRUPTS();
	ASSERT_EQ(0, sampling_open(&s, 0, &self->events));
	ASSERT_EQ(0, lib_load(s.fd, getpid()));
	ASSERT_EQ(0, LIB_CALL(5, s.fd, NULL));
	for (i = 0; i < 200 && total < 3; i++) {
		work(100000);
		if (pfm_msg_now(s.fd).type != PFM_MSG_OVFL)
			continue;
		take_samples(&s);
		total++;
		ASSERT_EQ(total, s.hdr->hdr_overflows);
		ASSERT_EQ(0, LIB_CALL(7, s.fd));
	}
	ASSERT_EQ(0, LIB_CALL(6, s.fd));
	TH_LOG("%llu samples in %llu buffers", s.samples, total);
	EXPECT_EQ(3, total);
	EXPECT_LT(3 * 50, s.samples);
	EXPECT_LT(0, s.value);
	close(s.fd);
}

/* An emulated PowerPC takes the interrupts of its decrementer when its host lets it. */
static bool interrupts_are_late(void)
{
	char text[8192];

	return !read_file("/proc/cpuinfo", text, sizeof(text)) &&
	       strstr(text, "emulated by qemu");
}

static void child_works_long(struct shared *shared)
{
	work(20000000);
}

/* A thread that is throttled takes a tick for each period. */
static void child_works_less(struct shared *shared)
{
	work(2000000);
}

/* Let a thread run that is blocked while the tool empties the buffer. */
static void sample_blocked(struct __test_metadata *const _metadata, struct sampling *s,
			   void (*child)(struct shared *), __u64 *periods)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_HARDWARE, .size = sizeof(attr),
		.config = PERF_COUNT_HW_INSTRUCTIONS, .exclude_kernel = 1, .exclude_hv = 1,
	};
	union pfarg_msg msg;
	int perf, status, ret = 0;
	pid_t pid;

	pid = child_traced(child, shared_map());
	perf = syscall(__NR_perf_event_open, &attr, pid, -1, -1, 0);
	ASSERT_LE(0, perf);
	ASSERT_EQ(0, lib_load(s->fd, pid));
	ASSERT_EQ(0, LIB_CALL(5, s->fd, NULL));
	ASSERT_EQ(0, ptrace(PTRACE_DETACH, pid, NULL, 0));
	for (;;) {
		ASSERT_EQ(sizeof(msg), read(s->fd, &msg, sizeof(msg)));
		take_samples(s);
		if (msg.type == PFM_MSG_END)
			break;
		ret = LIB_CALL(7, s->fd);
		if (ret)
			break;
	}
	/* An interrupt during the exit of the thread does not block it. */
	if (ret) {
		ASSERT_TRUE(ret == -EBUSY || ret == -ESRCH) TH_LOG("restart: %d", ret);
		ASSERT_EQ(sizeof(msg), read(s->fd, &msg, sizeof(msg)));
		ASSERT_EQ(PFM_MSG_END, msg.type);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	*periods = perf_count(perf) / PERIOD;
	TH_LOG("%llu samples, %llu periods, %llu lost", s->samples, *periods,
	       pfm_info(s->fd, 0).set_lost);
	close(perf);
}

/* The number of samples equals the number of periods that a perf event counts. */
static void expect_all_samples(struct __test_metadata *const _metadata,
			       const struct sampling *s, __u64 periods)
{
	/*
	 * The thread is stopped by an interrupt that the handler of the overflow asks
	 * for. Where that is late, the thread executes more that is in no period.
	 */
	if (!interrupts_are_late())
		EXPECT_LE(periods / 100 * 98, s->samples);
	EXPECT_EQ(0, pfm_info(s->fd, 0).set_lost);
}

TEST_F_TIMEOUT(hw, blocked_thread_loses_no_sample, 120)
{
	struct sampling s = { };
	__u64 periods;

	NEED_INTERRUPTS();
	ASSERT_EQ(0, sampling_open(&s, PFM_FL_NOTIFY_BLOCK, &self->events));
	sample_blocked(_metadata, &s, child_works_long, &periods);
	expect_all_samples(_metadata, &s, periods);
	close(s.fd);
}

/*
 * Perf lowers the rate by itself on a loaded machine. A thread that may be blocked waits
 * for the next tick, of which there are at most 1000 in a second.
 */
TEST_F_TIMEOUT(hw, blocked_thread_waits_while_it_is_throttled, 120)
{
	struct sampling s = { };
	__u64 begin, periods;

	NEED_INTERRUPTS();
	ASSERT_EQ(0, sample_rate_write("1", "0"));
	ASSERT_EQ(0, sampling_open(&s, PFM_FL_NOTIFY_BLOCK, &self->events));
	begin = now_ns(CLOCK_MONOTONIC);
	sample_blocked(_metadata, &s, child_works_less, &periods);
	EXPECT_LE(s.samples * NSEC_PER_MSEC / 10 * 9, now_ns(CLOCK_MONOTONIC) - begin);
	expect_all_samples(_metadata, &s, periods);
	close(s.fd);
}

/*
 * A thread cannot wait in the kernel for events that count there: they would be throttled
 * again in each wait. So its samples are lost, and it goes on.
 */
TEST_F_TIMEOUT(hw, blocked_thread_that_is_sampled_in_the_kernel_goes_on, 120)
{
	struct sampling s = { };
	__u64 periods;

	NEED_INTERRUPTS();
	ASSERT_EQ(0, sample_rate_write("1", "0"));
	ASSERT_EQ(0, sampling_open(&s, PFM_FL_NOTIFY_BLOCK, &self->events));
	dispatch(&self->events, 2, USER | KERNEL);
	self->events.pmd[0].reg_flags |= PFM_REGFL_OVFL_NOTIFY;
	set_period(&self->events.pmd[0], 500);
	ASSERT_EQ(0, lib_write(s.fd, &self->events));
	sample_blocked(_metadata, &s, child_works_less, &periods);
	EXPECT_LT(0, pfm_info(s.fd, 0).set_lost);
	close(s.fd);
}

TEST_F(hw, multiplex2)
{
	struct pfarg_setdesc desc[2];
	struct pfarg_setinfo info[2];
	struct events other;
	__u64 sum, scaled[2];
	unsigned int i, k;

	dispatch(&self->events, 2, USER);
	events_general(&other, both, 2, USER);
	for (i = 0; i < 2; i++) {
		other.pmc[i].reg_set = 1;
		other.pmd[i].reg_set = 1;
		memset(&desc[i], NOISE, sizeof(desc[i]));
		desc[i].set_id = i;
		desc[i].set_flags = PFM_SETFL_TIME_SWITCH;
		desc[i].set_timeout = NSEC_PER_MSEC;
		memset(&info[i], NOISE, sizeof(info[i]));
		info[i].set_id = i;
	}
	ASSERT_EQ(0, LIB_CALL(8, self->fd, desc, 2));
	ASSERT_EQ(0, lib_write(self->fd, &self->events));
	ASSERT_EQ(0, lib_write(self->fd, &other));
	ASSERT_EQ(0, lib_load(self->fd, getpid()));
	ASSERT_EQ(0, LIB_CALL(5, self->fd, NULL));
	do
		work(100000);
	while (pfm_info(self->fd, 1).set_runs < 20);
	ASSERT_EQ(0, LIB_CALL(6, self->fd));
	ASSERT_EQ(0, LIB_CALL(3, self->fd, self->events.pmd, 2));
	ASSERT_EQ(0, LIB_CALL(3, self->fd, other.pmd, 2));
	ASSERT_EQ(0, LIB_CALL(9, self->fd, info, 2));
	sum = info[0].set_act_duration + info[1].set_act_duration;
	for (i = 0; i < 2; i++) {
		const struct events *events = i ? &other : &self->events;

		EXPECT_LE(19, info[i].set_runs);
		for (k = 0; k < 2; k++)
			scaled[k] = events->pmd[k].reg_value *
				    ((double)sum / info[i].set_act_duration);
		TH_LOG("set %u: %llu runs, %llu instructions, %llu cycles", i, info[i].set_runs,
		       scaled[0], scaled[1]);
		EXPECT_LT(100000, events->pmd[0].reg_value);
		EXPECT_LT(10000, events->pmd[1].reg_value);
	}
}

#if defined(__x86_64__) || defined(__i386__)
#define RDPMC		"/sys/bus/event_source/devices/cpu/rdpmc"
#define FL_INSECURE	0x10000

static void on_fault(int sig)
{
	_exit(0);
}

/* Return 1 if a program that monitors itself can use RDPMC, 0 if that faults. */
static int reads_counter(int fd)
{
	unsigned int low, high;
	int status = -1;
	pid_t pid;

	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (lib_load(fd, getpid()) || LIB_CALL(5, fd, NULL))
			_exit(2);
		/* The kernel logs a fault that is not handled. */
		signal(SIGSEGV, on_fault);
		asm volatile("rdpmc" : "=a" (low), "=d" (high) : "c" (0));
		_exit(1);
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* RDPMC of any counter reads what other users count, so a context must not enable it. */
TEST_F(hw, counters_cannot_be_read_in_user_mode)
{
	char old[16];
	int open;

	EXPECT_EQ(-EINVAL, lib_create(FL_INSECURE, NULL, NULL, 0));
	ASSERT_EQ(0, read_file(RDPMC, old, sizeof(old)));
	events_general(&self->events, both, 2, USER);
	ASSERT_EQ(0, lib_write(self->fd, &self->events));
	/* The administrator may enable it for all, which shows that the attack works. */
	ASSERT_EQ(0, write_file(RDPMC, "2"));
	open = reads_counter(self->fd);
	ASSERT_EQ(0, write_file(RDPMC, "1"));
	EXPECT_EQ(1, open);
	EXPECT_EQ(0, reads_counter(self->fd));
	EXPECT_EQ(0, write_file(RDPMC, old));
}
#endif

TEST_F(hw, syst)
{
	cpu_set_t set;
	int fd;

	CPU_ZERO(&set);
	CPU_SET(0, &set);
	ASSERT_EQ(0, sched_setaffinity(0, sizeof(set), &set));
	fd = lib_create(PFM_FL_SYSTEM_WIDE, NULL, NULL, 0);
	ASSERT_LE(0, fd);
	dispatch(&self->events, 2, USER | KERNEL);
	ASSERT_EQ(0, lib_write(fd, &self->events));
	ASSERT_EQ(0, lib_load(fd, 0));
	ASSERT_EQ(0, LIB_CALL(5, fd, NULL));
	work(3000000);
	ASSERT_EQ(0, LIB_CALL(6, fd));
	ASSERT_EQ(0, LIB_CALL(3, fd, self->events.pmd, 2));
	EXPECT_LT(3000000, self->events.pmd[0].reg_value);
	EXPECT_LT(300000, self->events.pmd[1].reg_value);
	ASSERT_EQ(0, LIB_CALL(11, fd));
	close(fd);
}

#ifdef __powerpc64__
/* Both events can use the first counter only, so they exclude each other. */
static struct pfarg_pmc exclusive_pmc(int i)
{
	return (struct pfarg_pmc) {
		.reg_num = 1 + i, .reg_value = i ? 0x100fe : 0x1001e,
		.reg_flags = PFM_REGFL_EXCL_HV,
	};
}

TEST_F(hw, context_that_is_used_again_may_leave_old_registers)
{
	struct pfarg_pmc old = exclusive_pmc(0), new = exclusive_pmc(1);

	ASSERT_EQ(0, LIB_CALL(1, self->fd, &old, 1));
	ASSERT_EQ(0, pfm_set_pmd(self->fd, 0, 1, 0));
	ASSERT_EQ(0, lib_load(self->fd, getpid()));
	ASSERT_EQ(0, LIB_CALL(11, self->fd));
	ASSERT_EQ(0, LIB_CALL(1, self->fd, &new, 1));
	ASSERT_EQ(0, pfm_set_pmd(self->fd, 0, 2, 0));
	ASSERT_EQ(0, lib_load(self->fd, getpid()));
	ASSERT_EQ(0, LIB_CALL(5, self->fd, NULL));
	work(1000000);
	ASSERT_EQ(0, LIB_CALL(6, self->fd));
	EXPECT_LT(0, pfm_value(self->fd, 0, 2));
	EXPECT_EQ(0, pfm_value(self->fd, 0, 1));
}
#endif

TEST_HARNESS_MAIN
