// SPDX-License-Identifier: GPL-2.0
/* perfmon selftests - attaching to threads and CPUs, permissions and counts */
#define _GNU_SOURCE

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "../kselftest_harness.h"
#include "perfmon_helpers.h"

#define FAULTS	SW(PAGE_FAULTS)

static int open_faults(unsigned int flags)
{
	int fd = pfm_open(flags);

	if (fd >= 0 && pfm_set_pmd(fd, 0, FAULTS, 0)) {
		close(fd);
		return -1;
	}
	return fd;
}

/* The first round faults in all pages that must not fault in the second one. */
static void child_faults(struct shared *shared)
{
	struct pages pages;

	if (pages_map(&pages, 128))
		return;
	pages_touch(&pages, 37);
	raise(SIGSTOP);
	pages_touch(&pages, 37);
	raise(SIGSTOP);
}

static void child_spins(struct shared *shared)
{
	shared->tid = getpid();
	for (;;)
		shared->progress++;
}

static void child_pauses(struct shared *shared)
{
	for (;;)
		pause();
}

static void run_on(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

static void cont_and_wait(pid_t pid)
{
	int status;

	ptrace(PTRACE_CONT, pid, 0, 0);
	waitpid(pid, &status, 0);
}

TEST(traced_child_counts_exactly)
{
	struct shared *shared = shared_map();
	pid_t pid;
	int fd;

	fd = open_faults(0);
	ASSERT_LE(0, fd);
	pid = child_traced(child_faults, shared);
	cont_and_wait(pid);
	ASSERT_EQ(0, pfm_load_tid(fd, pid, 0));
	ASSERT_EQ(0, pfm_start(fd, NULL));
	cont_and_wait(pid);
	EXPECT_EQ(37, pfm_value(fd, 0, FAULTS));
	child_kill(pid);
	close(fd);
}

TEST(configuration_survives_detaching)
{
	struct pages pages;
	struct shared *shared = shared_map();
	pid_t pid;
	__u64 own;
	int fd;

	fd = open_faults(0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, pages_map(&pages, 128));
	ASSERT_EQ(0, pfm_load_self(fd));
	ASSERT_EQ(0, pfm_start(fd, NULL));
	pages_touch(&pages, 20);
	ASSERT_EQ(0, pfm_unload(fd));
	own = pfm_value(fd, 0, FAULTS);
	EXPECT_EQ(20, own);

	pid = child_traced(child_faults, shared);
	cont_and_wait(pid);
	ASSERT_EQ(0, pfm_load_tid(fd, pid, 0));
	EXPECT_EQ(20, pfm_value(fd, 0, FAULTS));
	ASSERT_EQ(0, pfm_start(fd, NULL));
	cont_and_wait(pid);
	EXPECT_EQ(20 + 37, pfm_value(fd, 0, FAULTS));
	EXPECT_EQ(2, pfm_info(fd, 0).set_runs);
	child_kill(pid);
	close(fd);
}

TEST(flags_resets_and_control_registers_survive_detaching)
{
	struct pfarg_pmd pmd = {
		.reg_num = FAULTS, .reg_flags = PFM_REGFL_OVFL_NOTIFY, .reg_value = -57ULL,
		.reg_long_reset = -1000ULL, .reg_reset_pmds[4] = 1ULL << (SW(CPU_MIGRATIONS) % 64),
	};
	struct pfarg_pmd other = { .reg_num = SW(CPU_MIGRATIONS), .reg_long_reset = 4242 };
	struct pfarg_pmc pmc = {
		.reg_num = SW(PAGE_FAULTS_MIN), .reg_flags = PFM_REGFL_EXCL_USER,
	};
	struct shared *shared = shared_map();
	struct pages pages;
	union pfarg_msg msg;
	pid_t pid;
	int fd;

	fd = pfm_open(0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, pages_map(&pages, 128));
	ASSERT_EQ(0, pfm_write_pmds(fd, &other, 1));
	ASSERT_EQ(0, pfm_write_pmds(fd, &pmd, 1));
	ASSERT_EQ(0, pfm_write_pmcs(fd, &pmc, 1));
	ASSERT_EQ(0, pfm_set_pmd(fd, 0, SW(PAGE_FAULTS_MIN), 0));
	ASSERT_EQ(0, pfm_load_self(fd));
	ASSERT_EQ(0, pfm_start(fd, NULL));
	pages_touch(&pages, 20);
	ASSERT_EQ(0, pfm_unload(fd));

	pid = child_traced(child_faults, shared);
	cont_and_wait(pid);
	ASSERT_EQ(0, pfm_load_tid(fd, pid, 0));
	ASSERT_EQ(0, pfm_start(fd, NULL));
	cont_and_wait(pid);
	/* This was the last fault. */
	EXPECT_EQ(0, pfm_value(fd, 0, FAULTS));
	msg = pfm_msg(fd);
	EXPECT_EQ(PFM_MSG_OVFL, msg.type);
	EXPECT_EQ(pid, msg.pfm_ovfl_msg.msg_ovfl_tid);
	EXPECT_EQ(0, pfm_restart(fd));
	EXPECT_EQ(-1000ULL, pfm_value(fd, 0, FAULTS));
	EXPECT_EQ(4242, pfm_value(fd, 0, SW(CPU_MIGRATIONS)));
	EXPECT_EQ(0, pfm_value(fd, 0, SW(PAGE_FAULTS_MIN)));
	child_kill(pid);
	close(fd);
}

TEST(target_that_is_not_stopped_is_refused)
{
	struct shared *shared = shared_map();
	int fd, status;
	pid_t pid;

	fd = open_faults(0);
	ASSERT_LE(0, fd);
	pid = child_run(child_spins, shared);
	EXPECT_EQ(-ESRCH, pfm_load_tid(fd, pid, 0));
	ASSERT_EQ(0, ptrace(PTRACE_ATTACH, pid, 0, 0));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_EQ(0, pfm_load_tid(fd, pid, 0));
	EXPECT_EQ(0, pfm_start(fd, NULL));
	ASSERT_EQ(0, ptrace(PTRACE_CONT, pid, 0, 0));
	while (!shared->progress)
		;
	EXPECT_EQ(-ESRCH, pfm_stop(fd));
	EXPECT_EQ(-ESRCH, pfm_start(fd, NULL));
	EXPECT_EQ(-ESRCH, pfm_set_pmd(fd, 0, FAULTS, 0));
	EXPECT_EQ(0xbad0000000000000ULL + ESRCH, pfm_value(fd, 0, FAULTS));
	EXPECT_EQ(-ESRCH, pfm_unload(fd));
	EXPECT_EQ(1, pfm_info(fd, 0).set_runs);
	child_kill(pid);
	close(fd);
}

TEST(remote_flag_drops_that_rule)
{
	struct shared *shared = shared_map();
	unsigned long seen;
	__u64 clock;
	pid_t pid;
	int fd;

	fd = pfm_open(PFM_FL_REMOTE);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, pfm_set_pmd(fd, 0, SW(TASK_CLOCK), 0));
	pid = child_run(child_spins, shared);
	ASSERT_EQ(0, pfm_load_tid(fd, pid, 0));
	ASSERT_EQ(0, pfm_start(fd, NULL));
	seen = shared->progress;
	while (shared->progress < seen + 100000)
		sched_yield();
	ASSERT_EQ(0, pfm_stop(fd));
	clock = pfm_value(fd, 0, SW(TASK_CLOCK));
	EXPECT_LT(0, clock);
	while (shared->progress < seen + 200000)
		sched_yield();
	EXPECT_EQ(clock, pfm_value(fd, 0, SW(TASK_CLOCK)));
	EXPECT_EQ(0, pfm_unload(fd));
	child_kill(pid);
	close(fd);
}

TEST(second_context_of_a_thread_is_refused)
{
	int a = open_faults(0), b = open_faults(0);

	ASSERT_LE(0, a);
	ASSERT_LE(0, b);
	ASSERT_EQ(0, pfm_load_self(a));
	EXPECT_EQ(-EEXIST, pfm_load_self(b));
	EXPECT_EQ(0, pfm_unload(a));
	EXPECT_EQ(0, pfm_load_self(b));
	close(a);
	close(b);
}

TEST(failed_load_leaves_the_thread_free)
{
	int fd = pfm_open(0);

	ASSERT_LE(0, fd);
	EXPECT_EQ(-EINVAL, pfm_load_tid(fd, getpid(), 5));
	ASSERT_EQ(0, pfm_make_set(fd, 1, PFM_SETFL_OVFL_SWITCH | PFM_SETFL_EXPL_NEXT, 0, 9));
	EXPECT_EQ(-EINVAL, pfm_load_self(fd));
	ASSERT_EQ(0, pfm_make_set(fd, 9, 0, 0, 0));
	EXPECT_EQ(0, pfm_load_self(fd));
	EXPECT_EQ(1, pfm_info(fd, 0).set_runs);
	close(fd);
}

/* Perfmon 2.8 allowed either threads or CPUs to be monitored, not both. */
TEST(thread_and_cpu_are_monitored_at_once)
{
	int thread = open_faults(0), cpu = open_faults(PFM_FL_SYSTEM_WIDE), more;
	struct pages pages;
	__u64 before;

	ASSERT_LE(0, thread);
	ASSERT_LE(0, cpu);
	ASSERT_EQ(0, pages_map(&pages, 128));
	run_on(0);
	ASSERT_EQ(0, pfm_load_tid(cpu, 0, 0));
	ASSERT_EQ(0, pfm_load_self(thread));
	ASSERT_EQ(0, pfm_start(cpu, NULL));
	before = pfm_value(cpu, 0, FAULTS);
	ASSERT_EQ(0, pfm_start(thread, NULL));
	pages_touch(&pages, 100);
	ASSERT_EQ(0, pfm_stop(thread));
	EXPECT_EQ(100, pfm_value(thread, 0, FAULTS));
	EXPECT_LE(100, pfm_value(cpu, 0, FAULTS) - before);

	/* A CPU may have more than one context. */
	more = open_faults(PFM_FL_SYSTEM_WIDE);
	ASSERT_LE(0, more);
	ASSERT_EQ(0, pfm_load_tid(more, 0, 0));
	ASSERT_EQ(0, pfm_start(more, NULL));
	before = pfm_value(cpu, 0, FAULTS);
	pages_touch(&pages, 28);
	EXPECT_LE(28, pfm_value(more, 0, FAULTS));
	EXPECT_LE(28, pfm_value(cpu, 0, FAULTS) - before);
	EXPECT_EQ(0, pfm_stop(more));
	EXPECT_EQ(0, pfm_stop(cpu));
	close(more);
	close(cpu);
	close(thread);
}

static void *thread_nothing(void *arg)
{
	*(int *)arg = syscall(__NR_gettid);
	return NULL;
}

TEST(targets_that_cannot_be)
{
	int fd = pfm_open(PFM_FL_REMOTE), blocking = pfm_open(PFM_FL_NOTIFY_BLOCK);
	pthread_t thread;
	pid_t pid;
	long ret;
	int tid;

	ASSERT_LE(0, fd);
	ASSERT_LE(0, blocking);
	EXPECT_EQ(-EINVAL, pfm_load_self(blocking));

	/*
	 * pthread_join() returns shortly before the thread is gone, so retry while it is
	 * still there.
	 */
	ASSERT_EQ(0, pthread_create(&thread, NULL, thread_nothing, &tid));
	ASSERT_EQ(0, pthread_join(thread, NULL));
	do
		ret = pfm_load_tid(fd, tid, 0);
	while (ret == -EBUSY);
	EXPECT_EQ(-ESRCH, ret);
	EXPECT_EQ(-ESRCH, pfm_load_tid(fd, 0x7fffffff, 0));

	/* kthreadd */
	EXPECT_EQ(-EPERM, pfm_load_tid(fd, 2, 0));

	pid = fork();
	if (!pid)
		_exit(0);
	usleep(1000);
	while (pfm_load_tid(fd, pid, 0) == 0) {
		pfm_unload(fd);
		usleep(1000);
	}
	EXPECT_EQ(-EBUSY, pfm_load_tid(fd, pid, 0));
	waitpid(pid, NULL, 0);
	close(fd);
	close(blocking);
}

TEST(other_users_thread_is_refused)
{
	struct shared *shared = shared_map();
	pid_t pid = child_run(child_pauses, shared);

	EXPECT_EQ(EPERM, AS_NOBODY(-pfm_load_tid(pfm_open(PFM_FL_REMOTE), pid, 0)));
	child_kill(pid);
}

#define YAMA	"/proc/sys/kernel/yama/ptrace_scope"

static int blocking_a_parent(int allow)
{
	int fd = pfm_open(PFM_FL_REMOTE), blocking = pfm_open(PFM_FL_REMOTE | PFM_FL_NOTIFY_BLOCK);
	int pid = getppid();
	char c;

	if (fd < 0 || blocking < 0)
		return 1;
	/* A child may monitor its parent, but not block it. */
	if (pfm_load_tid(fd, pid, 0) || pfm_unload(fd))
		return 2;
	if (pfm_load_tid(blocking, pid, 0) != -EPERM)
		return 3;
	if (write(allow, "", 1) != 1 || read(allow, &c, 1) != 1)
		return 4;
	return pfm_load_tid(blocking, pid, 0) || pfm_unload(blocking) ? 5 : 0;
}

static int blocking_by_a_child(void)
{
	int sock[2], status;
	pid_t pid;
	char c;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, sock))
		return 10;
	pid = fork();
	if (!pid) {
		close(sock[0]);
		_exit(blocking_a_parent(sock[1]));
	}
	close(sock[1]);
	if (read(sock[0], &c, 1) == 1 &&
	    (prctl(PR_SET_PTRACER, pid, 0, 0, 0) || write(sock[0], &c, 1) != 1))
		return 11;
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 12;
}

/* The two permissions differ for security modules only. */
TEST(blocking_takes_the_right_to_attach)
{
	char scope[16];
	int ret;

	if (read_file(YAMA, scope, sizeof(scope)))
		SKIP(return, "needs SECURITY_YAMA");
	if (write_file(YAMA, "1"))
		SKIP(return, "nobody may attach to anybody");
	ret = AS_NOBODY(blocking_by_a_child());
	write_file(YAMA, scope);
	EXPECT_EQ(0, ret);
}

static int unprivileged_kernel_counting(void)
{
	struct pfarg_pmc pmc = { .reg_num = FAULTS, .reg_flags = PFM_REGFL_EXCL_KERNEL };
	int fd = open_faults(0);

	if (fd < 0)
		return 1;
	if (pfm_load_self(fd) != -EACCES)
		return 2;
	if (pfm_write_pmcs(fd, &pmc, 1))
		return 3;
	if (pfm_load_self(fd))
		return 4;
	pmc.reg_flags = 0;
	if (pfm_write_pmcs(fd, &pmc, 1) != -EACCES)
		return 5;
	if (!(pmc.reg_flags & PFM_REGFL_RETFL_EINVAL))
		return 6;
	return pfm_start(fd, NULL) ? 7 : 0;
}

TEST(kernel_is_not_counted_without_permission)
{
	EXPECT_EQ(0, AS_NOBODY(unprivileged_kernel_counting()));
}

TEST(system_wide_needs_permission)
{
	EXPECT_EQ(EACCES, AS_NOBODY(-pfm_open(PFM_FL_SYSTEM_WIDE)));
}

TEST(group_knobs_restrict_who_may_create)
{
	ASSERT_EQ(0, write_file("/sys/kernel/pfm/task_group", "12345"));
	EXPECT_EQ(EPERM, AS_NOBODY(-pfm_open(0)));
	ASSERT_EQ(0, write_file("/sys/kernel/pfm/task_group", "65534"));
	EXPECT_EQ(0, AS_NOBODY(pfm_open(0) < 0));
	ASSERT_EQ(0, write_file("/sys/kernel/pfm/task_group", "-1"));
}

TEST(system_wide_context_counts_its_cpu)
{
	struct pages pages;
	__u64 value;
	int fd;

	fd = open_faults(PFM_FL_SYSTEM_WIDE);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, pages_map(&pages, 128));
	run_on(0);
	if (sysconf(_SC_NPROCESSORS_ONLN) > 1)
		EXPECT_EQ(-EINVAL, pfm_load_tid(fd, 1, 0));
	EXPECT_EQ(-EINVAL, pfm_load_tid(fd, 1000000, 0));
	ASSERT_EQ(0, pfm_load_tid(fd, 0, 0));
	ASSERT_EQ(0, pfm_start(fd, NULL));
	pages_touch(&pages, 100);
	if (sysconf(_SC_NPROCESSORS_ONLN) > 1) {
		run_on(1);
		EXPECT_EQ(-EBUSY, pfm_stop(fd));
		EXPECT_EQ(-EBUSY, pfm_start(fd, NULL));
		EXPECT_EQ(-EBUSY, pfm_restart(fd));
		EXPECT_EQ(-EBUSY, pfm_set_pmd(fd, 0, FAULTS, 0));
		EXPECT_EQ(-EBUSY, pfm_unload(fd));
		run_on(0);
	}
	ASSERT_EQ(0, pfm_stop(fd));
	value = pfm_value(fd, 0, FAULTS);
	EXPECT_LE(100, value);
	pages_touch(&pages, 20);
	EXPECT_EQ(value, pfm_value(fd, 0, FAULTS));
	EXPECT_EQ(0, pfm_unload(fd));
	close(fd);
}

TEST(remote_system_wide_context_works_from_anywhere)
{
	int fd, cpu;

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		SKIP(return, "one CPU");
	fd = pfm_open(PFM_FL_SYSTEM_WIDE | PFM_FL_REMOTE);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, pfm_set_pmd(fd, 0, SW(CPU_CLOCK), 0));
	for (cpu = 0; cpu < 2; cpu++) {
		run_on(!cpu);
		ASSERT_EQ(0, pfm_load_tid(fd, cpu, 0));
		ASSERT_EQ(0, pfm_set_pmd(fd, 0, SW(CPU_CLOCK), 0));
		ASSERT_EQ(0, pfm_start(fd, NULL));
		usleep(2000);
		ASSERT_EQ(0, pfm_stop(fd));
		EXPECT_LE(2000000, pfm_value(fd, 0, SW(CPU_CLOCK)));
		ASSERT_EQ(0, pfm_unload(fd));
	}
	close(fd);
}

TEST(offline_cpu_ends_the_context)
{
	union pfarg_msg msg;
	int fd;

	if (access("/sys/devices/system/cpu/cpu1/online", W_OK))
		SKIP(return, "CPU 1 cannot go offline");
	fd = open_faults(PFM_FL_SYSTEM_WIDE | PFM_FL_REMOTE);
	ASSERT_LE(0, fd);
	run_on(0);
	ASSERT_EQ(0, pfm_load_tid(fd, 1, 0));
	ASSERT_EQ(0, pfm_start(fd, NULL));
	ASSERT_EQ(0, write_file("/sys/devices/system/cpu/cpu1/online", "0"));
	/* Read first, because another call would unload the context and queue the message. */
	ASSERT_EQ((ssize_t)sizeof(msg), read(fd, &msg, sizeof(msg)));
	EXPECT_EQ(PFM_MSG_END, msg.type);
	EXPECT_EQ(0, pfm_msg(fd).type);
	EXPECT_EQ(-EINVAL, pfm_stop(fd));
	EXPECT_EQ(-ENODEV, pfm_load_tid(fd, 1, 0));
	ASSERT_EQ(0, write_file("/sys/devices/system/cpu/cpu1/online", "1"));
	EXPECT_EQ(0, pfm_load_tid(fd, 1, 0));
	EXPECT_EQ(0, pfm_start(fd, NULL));
	EXPECT_EQ(0, pfm_unload(fd));
	close(fd);
}

TEST(exit_ends_the_context)
{
	struct shared *shared = shared_map();
	const union pfarg_msg end = { .type = PFM_MSG_END };
	union pfarg_msg msg;
	struct pollfd p;
	pid_t pid;
	int fd;

	fd = open_faults(0);
	ASSERT_LE(0, fd);
	pid = child_traced(child_faults, shared);
	cont_and_wait(pid);
	ASSERT_EQ(0, pfm_load_tid(fd, pid, 0));
	ASSERT_EQ(0, pfm_start(fd, NULL));
	p = (struct pollfd) { .fd = fd, .events = POLLIN };
	EXPECT_EQ(0, poll(&p, 1, 0));
	child_kill(pid);
	ASSERT_EQ(1, poll(&p, 1, 10000));
	ASSERT_EQ((ssize_t)sizeof(msg), read(fd, &msg, sizeof(msg)));
	EXPECT_EQ(0, memcmp(&msg, &end, sizeof(msg)));
	EXPECT_EQ(-EINVAL, pfm_start(fd, NULL));
	EXPECT_EQ(-EINVAL, pfm_stop(fd));
	EXPECT_EQ(0, pfm_unload(fd));
	/* The context can be used again. */
	EXPECT_EQ(0, pfm_load_self(fd));
	close(fd);
}

/* A perf event makes the exit take longer. */
static void child_exits(struct shared *shared)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE, .size = sizeof(attr),
		.config = PERF_COUNT_SW_TASK_CLOCK,
	};

	volatile unsigned int spin;

	syscall(__NR_perf_event_open, &attr, 0, -1, -1, 0);
	shared->tid = getpid();
	while (!shared->go)
		;
	for (spin = shared->go; spin; spin--)
		;
}

#define EXITING_SIZE	(32UL << 20)

/* Use small pages, so that there are many. */
static void child_takes_long_to_exit(struct shared *shared)
{
	void *mem = mmap(NULL, EXITING_SIZE, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (mem == MAP_FAILED)
		return;
	madvise(mem, EXITING_SIZE, MADV_NOHUGEPAGE);
	memset(mem, 1, EXITING_SIZE);
	shared->tid = 1;
}

/*
 * Get the state as in field 3 of its stat file, or 'E' for an exiting thread that is not yet
 * a zombie.
 */
static char state_of(pid_t pid)
{
	unsigned int flags = 0;
	char path[32], state = 'X';
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	file = fopen(path, "r");
	if (!file)
		return 'X';
	if (fscanf(file, "%*d (%*[^)]) %c %*d %*d %*d %*d %*d %u", &state, &flags) != 2)
		state = 'X';
	fclose(file);
	/* PF_EXITING */
	return state != 'Z' && state != 'X' && (flags & 4) ? 'E' : state;
}

/*
 * A task with precedence on its CPU looks at it at any point. Its progress between two
 * looks differs by machine: with too little, it would only run while real-time tasks
 * are throttled, and not be seen.
 */
TEST(exiting_thread_is_busy)
{
	struct sched_param first = { .sched_priority = 1 };
	struct shared *shared = shared_map();
	int fd = open_faults(PFM_FL_REMOTE), i, seen = 0;
	pid_t pid;
	char state;

	ASSERT_LE(0, fd);
	run_on(0);
	if (sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &first))
		SKIP(return, "needs a real-time priority");
	for (i = 0; i < 500 && !seen; i++) {
		shared->tid = 0;
		pid = child_run(child_takes_long_to_exit, shared);
		do {
			usleep(1280 >> i % 4);
			state = state_of(pid);
		} while (state != 'E' && state != 'Z' && state != 'X');
		EXPECT_EQ(-EBUSY, pfm_load_tid(fd, pid, 0));
		/* The thread was still exiting when the call returned. */
		seen += state_of(pid) == 'E';
		EXPECT_EQ(-EINVAL, pfm_stop(fd));
		waitpid(pid, NULL, 0);
		ASSERT_EQ(1, shared->tid);
	}
	EXPECT_LT(0, seen);
	close(fd);
}

/*
 * A context that was loaded in time gets the message of the end, which no later event
 * would send.
 */
TEST(loading_races_with_the_exit)
{
	long before = read_knob("task_sessions_count");
	struct shared *shared = shared_map();
	__u64 begin = now_ns(CLOCK_MONOTONIC), spent = 0;
	unsigned int loaded = 0, refused = 0;
	bool late, later;
	volatile int wait;
	int lead = 4096, step = 4096;
	struct pollfd p;
	pid_t pid;
	long ret;
	int fd;

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		SKIP(return, "needs two CPUs");
	fd = open_faults(PFM_FL_REMOTE);
	ASSERT_LE(0, fd);
	p = (struct pollfd) { .fd = fd, .events = POLLIN };
	/* A slow kernel needs more time for both outcomes. */
	for (; spent < 1000 * NSEC_PER_MSEC || ((!loaded || !refused) && spent < 20000 * NSEC_PER_MSEC);
	     spent = now_ns(CLOCK_MONOTONIC) - begin) {
		shared->go = 0;
		shared->tid = 0;
		pid = child_run(child_exits, shared);
		while (!shared->tid)
			sched_yield();
		/* Start at the time at which one outcome turns into the other. */
		shared->go = 1 + rand() % 256 + (lead > 0 ? lead : 0);
		for (wait = lead; wait < 0; wait++)
			;
		ret = pfm_load_tid(fd, pid, 0);
		/* Increase the steps until they pass that time. */
		late = ret;
		later = step > 0;
		if (late != later)
			step = -step / 4;
		else if (abs(step) < 1 << 20)
			step *= 2;
		if (abs(step) < 64)
			step = ret ? 64 : -64;
		lead += step;
		if (!ret) {
			loaded++;
			ASSERT_EQ(1, poll(&p, 1, 5000)) {
				TH_LOG("after %u loads", loaded);
			}
			EXPECT_EQ(PFM_MSG_END, pfm_msg(fd).type);
		} else {
			refused++;
			EXPECT_TRUE(ret == -EBUSY || ret == -ESRCH) {
				TH_LOG("%ld", ret);
			}
		}
		EXPECT_EQ(-EINVAL, pfm_stop(fd));
		waitpid(pid, NULL, 0);
	}
	TH_LOG("%u loaded, %u refused", loaded, refused);
	EXPECT_LT(0, loaded);
	EXPECT_LT(0, refused);
	close(fd);
	EXPECT_EQ(before, read_knob("task_sessions_count"));
}

static void *thread_self(void *arg)
{
	int fd = *(int *)arg;

	if (pfm_load_self(fd) || pfm_start(fd, NULL))
		return (void *)1;
	return NULL;
}

TEST(self_monitoring_thread_gets_no_end_message)
{
	pthread_t thread;
	void *ret;
	int fd;

	fd = open_faults(0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, pthread_create(&thread, NULL, thread_self, &fd));
	ASSERT_EQ(0, pthread_join(thread, &ret));
	EXPECT_EQ(NULL, ret);
	/* join() returns before the exit is complete. Loading would discard messages. */
	while (pfm_stop(fd) != -EINVAL)
		usleep(1000);
	EXPECT_EQ(0, pfm_msg(fd).type);
	EXPECT_EQ(0, pfm_load_self(fd));
	EXPECT_EQ(0, pfm_unload(fd));
	close(fd);
}

TEST(fork_does_not_inherit)
{
	struct pages pages;
	int fd, status;
	pid_t pid;

	fd = open_faults(0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, pages_map(&pages, 2048));
	ASSERT_EQ(0, pfm_load_self(fd));
	ASSERT_EQ(0, pfm_start(fd, NULL));
	pid = fork();
	if (!pid) {
		pages_touch(&pages, 2000);
		close(fd);
		_exit(0);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	/* Copy on write after the fork faults too, but not 2000 times. */
	EXPECT_GT(500, pfm_value(fd, 0, FAULTS));
	EXPECT_EQ(0, pfm_stop(fd));
	EXPECT_EQ(0, pfm_unload(fd));
	close(fd);
}

static void child_execs(struct shared *shared)
{
	char *const argv[] = { "/bin/true", NULL };

	raise(SIGSTOP);
	execv(argv[0], argv);
	_exit(1);
}

TEST(exec_keeps_the_context_and_it_counts_on)
{
	struct shared *shared = shared_map();
	int fd, status;
	__u64 faults;
	pid_t pid;

	if (access("/bin/true", X_OK))
		SKIP(return, "no /bin/true to execute");
	fd = open_faults(0);
	ASSERT_LE(0, fd);
	pid = child_traced(child_execs, shared);
	cont_and_wait(pid);
	ASSERT_EQ(0, pfm_load_tid(fd, pid, 0));
	ASSERT_EQ(0, pfm_start(fd, NULL));
	/* The child stops at the exec. */
	cont_and_wait(pid);
	EXPECT_EQ(0, pfm_msg(fd).type);
	faults = pfm_value(fd, 0, FAULTS);
	ASSERT_EQ(0, ptrace(PTRACE_CONT, pid, 0, 0));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_TRUE(WIFEXITED(status));
	EXPECT_EQ(PFM_MSG_END, pfm_msg(fd).type);
	/* A new program faults in all of its pages. */
	EXPECT_LT(faults + 10, pfm_value(fd, 0, FAULTS));
	close(fd);
}

/* A program that monitors itself and then executes another user's program. */
static int exec_setuid(const char *path)
{
	char *const argv[] = { (char *)path, "10", NULL };
	struct pfarg_pmc pmc = { .reg_num = FAULTS, .reg_flags = PFM_REGFL_EXCL_KERNEL };
	int fd = open_faults(PFM_FL_REMOTE), status, ret = 0;
	union pfarg_msg msg;
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int pipefd[2];
	pid_t pid;
	char c;

	if (fd < 0 || pipe(pipefd) || pfm_write_pmcs(fd, &pmc, 1))
		return 1;
	pid = fork();
	if (!pid) {
		read(pipefd[0], &c, 1);
		execv(path, argv);
		_exit(1);
	}
	if (pfm_load_tid(fd, pid, 0))
		ret = 2;
	else if (pfm_start(fd, NULL))
		ret = 3;
	write(pipefd[1], "", 1);
	/* END comes while the program still runs, so the exec caused it. */
	if (!ret && (poll(&p, 1, 5000) != 1 || read(fd, &msg, sizeof(msg)) != sizeof(msg) ||
		     msg.type != PFM_MSG_END))
		ret = 4;
	if (!ret && waitpid(pid, &status, WNOHANG))
		ret = 5;
	if (!ret && pfm_load_tid(fd, pid, 0) != -EPERM)
		ret = 6;
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	return ret;
}

/* Use a program that is harmless with set-user-ID root. */
TEST(setuid_exec_ends_the_context)
{
	char directory[] = "/tmp/perfmonXXXXXX", path[64], command[128];
	struct statvfs vfs;
	int ret;

	if (access("/bin/sleep", X_OK))
		SKIP(return, "no /bin/sleep to execute");
	if (!statvfs("/tmp", &vfs) && (vfs.f_flag & ST_NOSUID))
		SKIP(return, "/tmp is mounted with nosuid");
	ASSERT_NE(NULL, mkdtemp(directory));
	ASSERT_EQ(0, chmod(directory, 0711));
	snprintf(path, sizeof(path), "%s/sleep", directory);
	snprintf(command, sizeof(command), "cp -L /bin/sleep %s && chmod 4755 %s", path, path);
	ret = system(command);
	if (!ret)
		ret = AS_NOBODY(exec_setuid(path));
	unlink(path);
	rmdir(directory);
	EXPECT_EQ(0, ret);
}

TEST(close_detaches)
{
	long before = read_knob("task_sessions_count");
	struct shared *shared = shared_map();
	pid_t pid;
	int fd;

	/* Fork before the open, so that the child does not have the descriptor. */
	pid = child_run(child_spins, shared);
	fd = open_faults(PFM_FL_REMOTE);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, pfm_load_tid(fd, pid, 0));
	ASSERT_EQ(0, pfm_start(fd, NULL));
	EXPECT_EQ(before + 1, read_knob("task_sessions_count"));
	close(fd);
	EXPECT_EQ(before, read_knob("task_sessions_count"));
	fd = open_faults(PFM_FL_REMOTE);
	EXPECT_EQ(0, pfm_load_tid(fd, pid, 0));
	child_kill(pid);
	close(fd);
}

TEST(context_lives_as_long_as_one_of_its_descriptors)
{
	long before = read_knob("task_sessions_count");
	struct pages pages;
	int fd, other;

	fd = open_faults(0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, pages_map(&pages, 64));
	other = dup(fd);
	ASSERT_LE(0, other);
	ASSERT_EQ(0, pfm_load_self(fd));
	ASSERT_EQ(0, pfm_start(fd, NULL));
	EXPECT_EQ(-EBUSY, pfm_load_self(other));
	pages_touch(&pages, 10);
	close(fd);
	EXPECT_EQ(-EBADF, pfm_stop(fd));
	EXPECT_EQ(before + 1, read_knob("task_sessions_count"));
	pages_touch(&pages, 10);
	EXPECT_EQ(0, pfm_stop(other));
	EXPECT_LE(20, pfm_value(other, 0, FAULTS));
	EXPECT_EQ(0, pfm_start(other, NULL));
	close(other);
	EXPECT_EQ(before, read_knob("task_sessions_count"));
	fd = open_faults(0);
	ASSERT_LE(0, fd);
	EXPECT_EQ(0, pfm_load_self(fd));
	close(fd);
}

TEST(active_time_is_the_time_on_the_cpu)
{
	int clock = perf_counter(PERF_COUNT_SW_TASK_CLOCK);
	struct pfarg_setinfo info;
	__u64 time[4];
	int fd;

	ASSERT_LE(0, clock);
	fd = open_faults(0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, pfm_load_self(fd));
	time[0] = perf_count(clock);
	ASSERT_EQ(0, pfm_start(fd, NULL));
	time[1] = perf_count(clock);
	burn(20 * NSEC_PER_MSEC);
	usleep(30000);
	time[2] = perf_count(clock);
	ASSERT_EQ(0, pfm_stop(fd));
	time[3] = perf_count(clock);
	info = pfm_info(fd, 0);
	EXPECT_LT(time[1], time[2]);
	EXPECT_LE(time[2] - time[1], info.set_act_duration);
	EXPECT_GE(time[3] - time[0], info.set_act_duration);
	EXPECT_EQ(info.set_enabled_ns, info.set_running_ns);
	burn(NSEC_PER_MSEC);
	EXPECT_EQ(info.set_act_duration, pfm_info(fd, 0).set_act_duration);
	close(fd);
	close(clock);
}

TEST_HARNESS_MAIN
