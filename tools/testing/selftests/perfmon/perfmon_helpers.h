/* SPDX-License-Identifier: GPL-2.0 */
#ifndef PERFMON_HELPERS_H
#define PERFMON_HELPERS_H

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <linux/perf_event.h>
#include <linux/perfmon.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <asm/unistd.h>

/* As in libpfm: a base number and the calls in order. */
#ifndef __NR_pfm_create_context
#define __NR_pfm_create_context	473
#endif
#define PFM_NR(n)		(__NR_pfm_create_context + (n))

#define SW(name)		(PFM_SW_BASE + PERF_COUNT_SW_##name)
#define NSEC_PER_MSEC		1000000ULL

/* Convert a result that is 0 or an error to a negative errno. */
static inline long pfm_ret(long ret)
{
	return ret < 0 ? -errno : ret;
}

static inline long pfm_create(struct pfarg_ctx *ctx, const char *fmt, void *arg, size_t size)
{
	return pfm_ret(syscall(PFM_NR(0), ctx, fmt, arg, size));
}

static inline long pfm_write_pmcs(int fd, struct pfarg_pmc *vec, int n)
{
	return pfm_ret(syscall(PFM_NR(1), fd, vec, n));
}

static inline long pfm_write_pmds(int fd, struct pfarg_pmd *vec, int n)
{
	return pfm_ret(syscall(PFM_NR(2), fd, vec, n));
}

static inline long pfm_read_pmds(int fd, struct pfarg_pmd *vec, int n)
{
	return pfm_ret(syscall(PFM_NR(3), fd, vec, n));
}

static inline long pfm_load(int fd, struct pfarg_load *load)
{
	return pfm_ret(syscall(PFM_NR(4), fd, load));
}

static inline long pfm_start(int fd, struct pfarg_start *start)
{
	return pfm_ret(syscall(PFM_NR(5), fd, start));
}

static inline long pfm_stop(int fd)
{
	return pfm_ret(syscall(PFM_NR(6), fd));
}

static inline long pfm_restart(int fd)
{
	return pfm_ret(syscall(PFM_NR(7), fd));
}

static inline long pfm_create_evtsets(int fd, struct pfarg_setdesc *vec, int n)
{
	return pfm_ret(syscall(PFM_NR(8), fd, vec, n));
}

static inline long pfm_getinfo_evtsets(int fd, struct pfarg_setinfo *vec, int n)
{
	return pfm_ret(syscall(PFM_NR(9), fd, vec, n));
}

static inline long pfm_delete_evtsets(int fd, struct pfarg_setdesc *vec, int n)
{
	return pfm_ret(syscall(PFM_NR(10), fd, vec, n));
}

static inline long pfm_unload(int fd)
{
	return pfm_ret(syscall(PFM_NR(11), fd));
}

#ifdef __x86_64__
/* Do a call as a 32-bit program does, with its table, registers and pointers. */
static inline long call32(int call, long a, long b, long c, long d)
{
	long ret;

	asm volatile("int $0x80"
		     : "=a" (ret)
		     : "a" (PFM_NR(call)), "b" (a), "c" (b), "d" (c), "S" (d)
		     : "memory", "r8", "r9", "r10", "r11");
	return ret;
}
#else
static inline long call32(int call, long a, long b, long c, long d)
{
	return -ENOSYS;
}
#endif

/* Try it in a child: without the 32-bit entry the attempt kills the program. */
static inline bool has_call32(void)
{
#ifdef __x86_64__
	int status = -1;
	pid_t pid = fork();

	if (!pid) {
		call32(0, 0, 0, 0, 0);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status);
#else
	return false;
#endif
}

static inline int pfm_open(unsigned int flags)
{
	struct pfarg_ctx ctx = { .ctx_flags = flags };

	return pfm_create(&ctx, NULL, NULL, 0);
}

static inline long pfm_set_pmd(int fd, int set, int num, __u64 value)
{
	struct pfarg_pmd pmd = { .reg_num = num, .reg_set = set, .reg_value = value };

	return pfm_write_pmds(fd, &pmd, 1);
}

static inline struct pfarg_pmd pfm_pmd(int fd, int set, int num)
{
	struct pfarg_pmd pmd = { .reg_num = num, .reg_set = set };
	long ret = pfm_read_pmds(fd, &pmd, 1);

	if (ret)
		pmd.reg_value = 0xbad0000000000000ULL - ret;
	return pmd;
}

static inline __u64 pfm_value(int fd, int set, int num)
{
	return pfm_pmd(fd, set, num).reg_value;
}

static inline struct pfarg_setinfo pfm_info(int fd, int set)
{
	struct pfarg_setinfo info = { .set_id = set };
	long ret = pfm_getinfo_evtsets(fd, &info, 1);

	if (ret)
		info.set_runs = -1;
	return info;
}

static inline long pfm_load_tid(int fd, int tid, int set)
{
	struct pfarg_load load = { .load_pid = tid, .load_set = set };

	return pfm_load(fd, &load);
}

static inline long pfm_load_self(int fd)
{
	return pfm_load_tid(fd, syscall(__NR_gettid), 0);
}

static inline long pfm_start_set(int fd, int set)
{
	struct pfarg_start start = { .start_set = set };

	return pfm_start(fd, &start);
}

static inline long pfm_make_set(int fd, int id, unsigned int flags, __u64 timeout, int next)
{
	struct pfarg_setdesc desc = {
		.set_id = id, .set_flags = flags, .set_timeout = timeout, .set_id_next = next,
	};

	return pfm_create_evtsets(fd, &desc, 1);
}

/* Read a message; type 0 if there is none yet. */
static inline union pfarg_msg pfm_msg_now(int fd)
{
	int flags = fcntl(fd, F_GETFL);
	union pfarg_msg msg = { };

	fcntl(fd, F_SETFL, flags | O_NONBLOCK);
	if (read(fd, &msg, sizeof(msg)) != sizeof(msg))
		msg.type = 0;
	fcntl(fd, F_SETFL, flags);
	return msg;
}

/* Wait for a message; type 0 if there is none. */
static inline union pfarg_msg pfm_msg(int fd)
{
	struct pollfd pollfd = { .fd = fd, .events = POLLIN };

	/* Wait, because irq_work may wait for the timer. */
	poll(&pollfd, 1, 100);
	return pfm_msg_now(fd);
}

/* Fresh pages: touching each for the first time is a page fault. */
struct pages {
	char *mem;
	size_t page;
	size_t size;
	size_t next;
};

/*
 * Pages of the program itself, few of which a fork leaves mapped, must not fault while
 * these are counted. An unprivileged user may not be able to lock memory.
 */
static inline int pages_map(struct pages *pages, unsigned int n)
{
	mlockall(MCL_CURRENT);
	pages->page = sysconf(_SC_PAGESIZE);
	pages->size = n * pages->page;
	pages->next = 0;
	pages->mem = mmap(NULL, pages->size, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (pages->mem == MAP_FAILED)
		return -1;
	return madvise(pages->mem, pages->size, MADV_NOHUGEPAGE) && errno != EINVAL ? -1 : 0;
}

/* When all pages are used, they are freed and fault again. */
static inline void pages_touch(struct pages *pages, unsigned int n)
{
	while (n--) {
		if (pages->next == pages->size) {
			madvise(pages->mem, pages->size, MADV_DONTNEED);
			pages->next = 0;
		}
		*(volatile char *)(pages->mem + pages->next) = 1;
		pages->next += pages->page;
	}
}

/* Data that the child shares with the test */
struct shared {
	volatile unsigned int go;
	volatile unsigned int done;
	volatile unsigned long progress;
	volatile int tid;
};

static inline struct shared *shared_map(void)
{
	return mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

/* Fork a child that is traced and stopped; it then runs @func. */
static inline pid_t child_traced(void (*func)(struct shared *), struct shared *shared)
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		raise(SIGSTOP);
		func(shared);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	return pid;
}

static inline pid_t child_run(void (*func)(struct shared *), struct shared *shared)
{
	pid_t pid = fork();

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		func(shared);
		_exit(0);
	}
	return pid;
}

static inline void child_kill(pid_t pid)
{
	int status;

	kill(pid, SIGKILL);
	while (waitpid(pid, &status, 0) == pid && !WIFEXITED(status) && !WIFSIGNALED(status))
		;
}

static inline __u64 now_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec * 1000000000ULL + ts.tv_nsec;
}

static inline int perf_counter(__u64 config)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE, .size = sizeof(attr), .config = config,
	};

	return syscall(__NR_perf_event_open, &attr, 0, -1, -1, 0);
}

static inline __u64 perf_count(int fd)
{
	__u64 count = -1;

	return read(fd, &count, sizeof(count)) == sizeof(count) ? count : -1;
}

/*
 * Number of times that this thread has lost the CPU. While it does not change, no clock
 * of perf was stopped and started.
 */
static inline long switches(void)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return usage.ru_nvcsw + usage.ru_nivcsw;
}

/*
 * Use this much time on the CPU, by the scheduler's clock of this thread. It stops and
 * starts at other instants than perf's clocks, and a machine may stall in between, so
 * the counts of perf may differ.
 */
static inline void burn(__u64 ns)
{
	__u64 end = now_ns(CLOCK_THREAD_CPUTIME_ID) + ns;
	volatile int i;

	while (now_ns(CLOCK_THREAD_CPUTIME_ID) < end) {
		for (i = 0; i < 1000; i++)
			;
	}
}

/* Number of loops in the given time in ns, including interrupts. */
static inline __u64 loops_in(__u64 ns)
{
	__u64 end = now_ns(CLOCK_MONOTONIC) + ns, n = 0;
	volatile int i;

	for (; now_ns(CLOCK_MONOTONIC) < end; n++) {
		for (i = 0; i < 100; i++)
			;
	}
	return n;
}

/* Data registers of the PMU below 64, whether other users hold them or not. */
static inline unsigned int nr_counters(void)
{
	unsigned int n = 0;
	glob_t dirs;

	if (!glob("/sys/kernel/pfm/pmu_desc/pmd*", 0, NULL, &dirs)) {
		n = dirs.gl_pathc;
		globfree(&dirs);
	}
	return n;
}

static inline int read_file(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY), n;

	if (fd < 0)
		return -errno;
	n = read(fd, text, size - 1);
	close(fd);
	if (n <= 0)
		return -EIO;
	text[n] = '\0';
	return 0;
}

static inline long read_knob(const char *name)
{
	char path[128], text[32];

	snprintf(path, sizeof(path), "/sys/kernel/pfm/%s", name);
	return read_file(path, text, sizeof(text)) ? -1 : strtol(text, NULL, 0);
}

static inline int write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);
	int ret;

	if (fd < 0)
		return -errno;
	ret = write(fd, text, strlen(text)) == (ssize_t)strlen(text) ? 0 : -errno;
	close(fd);
	return ret;
}

#define SYSCTL_TIME_PERCENT	"/proc/sys/kernel/perf_cpu_time_max_percent"
#define SYSCTL_SAMPLE_RATE	"/proc/sys/kernel/perf_event_max_sample_rate"

/* The limit of samples per second, which applies to the whole machine */
struct sample_rate {
	char percent[16];
	char rate[16];
};

/*
 * The rate cannot be set while the limit of time is off. With the limit on, the kernel
 * may lower it, on a slow machine below the rate of the tests.
 */
static inline int sample_rate_write(const char *rate, const char *percent)
{
	int ret = write_file(SYSCTL_TIME_PERCENT, "25");

	if (!ret)
		ret = write_file(SYSCTL_SAMPLE_RATE, rate);
	return ret ? ret : write_file(SYSCTL_TIME_PERCENT, percent);
}

static inline int sample_rate_set(struct sample_rate *old, const char *rate)
{
	int ret;

	ret = read_file(SYSCTL_TIME_PERCENT, old->percent, sizeof(old->percent));
	if (!ret)
		ret = read_file(SYSCTL_SAMPLE_RATE, old->rate, sizeof(old->rate));
	return ret ? ret : sample_rate_write(rate, "0");
}

static inline int sample_rate_restore(const struct sample_rate *old)
{
	return sample_rate_write(old->rate, old->percent);
}

static struct sample_rate rate_of_others;
/* PID of the program, not of its children; 0 if the rate was not changed. */
static pid_t rate_owner;

/* Earlier programs may have made perf lower the rate. */
static inline void __attribute__((constructor)) default_sample_rate(void)
{
	if (!sample_rate_set(&rate_of_others, "100000"))
		rate_owner = getpid();
}

static inline void __attribute__((destructor)) former_sample_rate(void)
{
	if (getpid() == rate_owner)
		sample_rate_restore(&rate_of_others);
}

/* The memory that a user may have without privileges */
static inline int limit_memlock(unsigned long bytes)
{
	struct rlimit limit = { bytes, bytes };

	return setrlimit(RLIMIT_MEMLOCK, &limit);
}

#define HOG_CONTEXTS	200

/* Contexts that take memory from their user */
struct hog {
	int fds[HOG_CONTEXTS];
	int n;
};

/* Write registers of sets @first to @last of a context, which take 192 bytes each. */
static inline long write_many(int fd, int first, int last)
{
	long ret = 0;
	int set, sw;

	for (set = first; set <= last && !ret; set++) {
		for (sw = 0; sw < PERF_COUNT_SW_BPF_OUTPUT && !ret; sw++)
			ret = pfm_set_pmd(fd, set, PFM_SW_BASE + sw, 0);
	}
	return ret;
}

/* Take all memory that the user may have, to the last page. */
static inline int hog_take(struct hog *hog)
{
	long ret = 0;
	int i, set;

	for (hog->n = 0; hog->n < HOG_CONTEXTS && !ret; hog->n++) {
		hog->fds[hog->n] = pfm_open(0);
		if (hog->fds[hog->n] < 0)
			break;
		for (set = 1; set < 65 && !ret; set++)
			ret = pfm_make_set(hog->fds[hog->n], set, 0, 0, 0);
	}
	/* A context that could not be created has left pages. */
	for (i = 0; i < hog->n; i++)
		ret = write_many(hog->fds[i], 0, 64);
	return hog->n && ret == -ENOMEM ? 0 : -1;
}

static inline void hog_free(struct hog *hog)
{
	while (hog->n)
		close(hog->fds[--hog->n]);
}

/* So many sets that their registers take more than a page, even of 64 KiB. They count nothing. */
#define IDLE_SETS	40

static inline long make_idle_sets(int fd)
{
	struct pfarg_pmc pmc = {
		.reg_flags = PFM_REGFL_EXCL_USER | PFM_REGFL_EXCL_KERNEL | PFM_REGFL_EXCL_HV,
	};
	long ret = 0;
	int set, sw;

	for (set = 1; set <= IDLE_SETS && !ret; set++) {
		ret = pfm_make_set(fd, set, 0, 0, 0);
		for (sw = 0; sw < PERF_COUNT_SW_BPF_OUTPUT && !ret; sw++) {
			pmc.reg_num = PFM_SW_BASE + sw;
			pmc.reg_set = set;
			ret = pfm_write_pmcs(fd, &pmc, 1);
		}
	}
	return ret;
}

/* Take all memory of the user, and what is left of the last page of a context. */
static inline int hog_take_all(struct hog *hog, int fd)
{
	return hog_take(hog) || write_many(fd, 1, IDLE_SETS) != -ENOMEM ? -1 : 0;
}

/* Run @code as another user; the value is its exit status. */
#define AS_NOBODY(code) ({						\
	int __status = -1;						\
	pid_t __pid = fork();						\
									\
	if (!__pid) {							\
		if (setresgid(65534, 65534, 65534) ||			\
		    setresuid(65534, 65534, 65534) ||			\
		    prctl(PR_SET_DUMPABLE, 1))				\
			_exit(99);					\
		_exit(({ code; }));					\
	}								\
	waitpid(__pid, &__status, 0);					\
	WIFEXITED(__status) ? WEXITSTATUS(__status) : -1;		\
})

#endif /* PERFMON_HELPERS_H */
