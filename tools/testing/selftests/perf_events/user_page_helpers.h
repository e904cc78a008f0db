/* SPDX-License-Identifier: GPL-2.0 */
/*
 * perf user page selftests - the documented reader, and brackets around read(2)
 *
 * Counts of a program differ in each run, and an emulator has errors of its
 * own. But the order holds everywhere: a value from the user page, one from
 * read(2) and one more from the user page never step back.
 */
#ifndef _USER_PAGE_HELPERS_H
#define _USER_PAGE_HELPERS_H

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define USER_ACCESS		"/proc/sys/kernel/perf_user_access"
/* The rate cannot be set when the time is not limited. */
#define SYSCTL_TIME_PERCENT	"/proc/sys/kernel/perf_cpu_time_max_percent"
#define SYSCTL_SAMPLE_RATE	"/proc/sys/kernel/perf_event_max_sample_rate"

#if defined(__powerpc__)
static inline __u64 counter_read(__u32 index)
{
	unsigned long value = 0;

	/* The instruction encodes the register's number. */
	switch (index) {
	case 1:
		asm volatile("mfspr %0, 771" : "=r" (value) : : "memory");
		break;
	case 2:
		asm volatile("mfspr %0, 772" : "=r" (value) : : "memory");
		break;
	case 3:
		asm volatile("mfspr %0, 773" : "=r" (value) : : "memory");
		break;
	case 4:
		asm volatile("mfspr %0, 774" : "=r" (value) : : "memory");
		break;
	case 5:
		asm volatile("mfspr %0, 775" : "=r" (value) : : "memory");
		break;
	case 6:
		asm volatile("mfspr %0, 776" : "=r" (value) : : "memory");
		break;
	}
	return value;
}

static inline void counter_write(unsigned long value)
{
	asm volatile("mtspr 771, %0" : : "r" (value));
}

static inline __u64 clock_ticks(void)
{
	__u64 ticks;

	asm volatile("mfspr %0, 268" : "=r" (ticks) : : "memory");
	return ticks;
}
#elif defined(__x86_64__) || defined(__i386__)
static inline __u64 counter_read(__u32 index)
{
	__u32 low, high;

	asm volatile("rdpmc" : "=a" (low), "=d" (high) : "c" (index - 1) : "memory");
	return low | (__u64)high << 32;
}

static inline __u64 clock_ticks(void)
{
	__u32 low, high;

	asm volatile("rdtsc" : "=a" (low), "=d" (high) : : "memory");
	return low | (__u64)high << 32;
}
#elif defined(__aarch64__)
#define PAGE_COUNTER(n)							\
	case (n) + 1:							\
		asm volatile("mrs %0, pmevcntr" #n "_el0" : "=r" (value) : : "memory"); \
		break

static inline __u64 counter_read(__u32 index)
{
	__u64 value = 0;

	/* The instruction encodes the register's number. */
	switch (index) {
	PAGE_COUNTER(0);
	PAGE_COUNTER(1);
	PAGE_COUNTER(2);
	PAGE_COUNTER(3);
	PAGE_COUNTER(4);
	PAGE_COUNTER(5);
	PAGE_COUNTER(6);
	PAGE_COUNTER(7);
	PAGE_COUNTER(8);
	PAGE_COUNTER(9);
	PAGE_COUNTER(10);
	PAGE_COUNTER(11);
	PAGE_COUNTER(12);
	PAGE_COUNTER(13);
	PAGE_COUNTER(14);
	PAGE_COUNTER(15);
	PAGE_COUNTER(16);
	PAGE_COUNTER(17);
	PAGE_COUNTER(18);
	PAGE_COUNTER(19);
	PAGE_COUNTER(20);
	PAGE_COUNTER(21);
	PAGE_COUNTER(22);
	PAGE_COUNTER(23);
	PAGE_COUNTER(24);
	PAGE_COUNTER(25);
	PAGE_COUNTER(26);
	PAGE_COUNTER(27);
	PAGE_COUNTER(28);
	PAGE_COUNTER(29);
	PAGE_COUNTER(30);
	case 32:
		asm volatile("mrs %0, pmccntr_el0" : "=r" (value) : : "memory");
		break;
	}
	return value;
}

static inline void counter_write(unsigned long value)
{
	asm volatile("msr pmevcntr0_el0, %0" : : "r" (value));
}

static inline __u64 clock_ticks(void)
{
	__u64 ticks;

	/* The barrier keeps the processor from reading the clock early. */
	asm volatile("isb; mrs %0, cntvct_el0" : "=r" (ticks) : : "memory");
	return ticks;
}
#else
#error "no user access to counters known for this architecture"
#endif

/* A value as read(2) gives it with this read_format. */
#define USER_PAGE_READ_FORMAT	\
	(PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING)

struct page_value {
	__u64	count;
	__u64	enabled;
	__u64	running;
	__u32	index;
	bool	timed;
};

#define page_barrier()	asm volatile("" : : : "memory")

static inline __u64 page_scale(const struct perf_event_mmap_page *page, __u64 ticks)
{
	__u64 rest = ticks & ((1ULL << page->time_shift) - 1);

	return (ticks >> page->time_shift) * page->time_mult +
	       ((rest * page->time_mult) >> page->time_shift);
}

static inline struct page_value page_read(const volatile struct perf_event_mmap_page *page)
{
	struct page_value value;
	__u64 delta;
	__u32 seq;

	do {
		seq = page->lock;
		page_barrier();
		value.enabled = page->time_enabled;
		value.running = page->time_running;
		value.timed = page->cap_user_time;
		delta = 0;
		if (value.timed)
			delta = page->time_offset +
				page_scale((const void *)page, clock_ticks());
		value.index = page->index;
		value.count = page->offset;
		if (page->cap_user_rdpmc && value.index) {
			unsigned int drop = 64 - page->pmc_width;

			value.count += (__s64)(counter_read(value.index) << drop) >> drop;
		}
		page_barrier();
	} while (page->lock != seq);

	value.enabled += delta;
	if (value.index)
		value.running += delta;
	return value;
}

/* A series of brackets. From @low on: numbers of errors, and the last value. */
struct brackets {
	unsigned long	nr;
	unsigned long	direct;
	unsigned long	fallback;
	unsigned long	low;
	unsigned long	high;
	unsigned long	back;
	unsigned long	enabled;
	unsigned long	running;
	unsigned long	taken_back;
	__u64		worst;
	__u64		last;
};

static inline void brackets_worst(struct brackets *b, __u64 more, __u64 less)
{
	if (more - less > b->worst)
		b->worst = more - less;
}

/* Bracket a read(2); false if it fails. */
static inline bool bracket(struct brackets *b, int fd,
			   const volatile struct perf_event_mmap_page *page)
{
	struct page_value before, after;
	__u64 value[3];

	before = page_read(page);
	if (read(fd, value, sizeof(value)) != sizeof(value))
		return false;
	after = page_read(page);

	b->nr++;
	if (before.index && before.count > value[0]) {
		b->high++;
		brackets_worst(b, before.count, value[0]);
	}
	if (after.index && after.count < value[0]) {
		b->low++;
		brackets_worst(b, value[0], after.count);
	}
	if (before.index && before.count < b->last)
		b->back++;
	if (after.index) {
		b->direct++;
		b->last = after.count;
	} else {
		b->fallback++;
		b->last = value[0];
	}
	if ((before.timed && before.enabled > value[1]) ||
	    (after.timed && after.enabled < value[1]))
		b->enabled++;
	if ((before.timed && before.index && before.running > value[2]) ||
	    (after.timed && after.index && after.running < value[2]))
		b->running++;
	return true;
}

static inline bool brackets_run(struct brackets *b, unsigned long nr, int fd,
				const volatile struct perf_event_mmap_page *page)
{
	while (nr--) {
		if (!bracket(b, fd, page))
			return false;
	}
	return true;
}

#define EXPECT_BRACKETS(b) do {						\
	EXPECT_EQ(0, (b)->low);						\
	EXPECT_EQ(0, (b)->high);					\
	EXPECT_EQ(0, (b)->back);					\
	EXPECT_EQ(0, (b)->enabled);					\
	EXPECT_EQ(0, (b)->running) {					\
		TH_LOG("worst %llu", (b)->worst);			\
	}								\
	TH_LOG("%lu reads, %lu without a system call, worst %llu",	\
	       (b)->nr, (b)->direct, (b)->worst);			\
} while (0)

/* PERF_USER_READS in the environment sets the number of reads. */
static inline unsigned long user_reads(void)
{
	const char *value = getenv("PERF_USER_READS");

	return value ? strtoul(value, NULL, 0) : 10000;
}

static inline struct perf_event_attr user_attr(__u32 type, __u64 config)
{
	return (struct perf_event_attr) {
		.type		= type,
		.size		= sizeof(struct perf_event_attr),
		.config		= config,
		.exclude_kernel	= 1,
		.exclude_hv	= 1,
		.read_format	= USER_PAGE_READ_FORMAT,
	};
}

static inline struct perf_event_attr cycles_attr(void)
{
	return user_attr(PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES);
}

/* On arm64 an event is opened for the access of its task, with a counter of 32 bits. */
#define CONFIG1_USER_ACCESS	2

static inline int user_open(const struct perf_event_attr *attr, pid_t pid, int cpu, int leader)
{
	struct perf_event_attr copy = *attr;

#ifdef __aarch64__
	if (pid != -1 && (attr->type == PERF_TYPE_HARDWARE || attr->type == PERF_TYPE_RAW))
		copy.config1 = CONFIG1_USER_ACCESS;
#endif
	return syscall(__NR_perf_event_open, &copy, pid, cpu, leader, PERF_FLAG_FD_CLOEXEC);
}

/* QEMU's PMU of arm64 counts instructions only with -icount. */
static inline bool lacks_instructions(void)
{
#ifdef __aarch64__
	struct perf_event_attr attr = user_attr(PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS);
	int fd;

	if (!getenv("QEMU_VERSION") || getenv("QEMU_ICOUNT"))
		return false;
	fd = user_open(&attr, 0, -1, -1);
	if (fd >= 0)
		close(fd);
	return fd < 0 && errno == ENOENT;
#else
	return false;
#endif
}

/* For tests that need only some counter of the processor that steps forward */
static inline struct perf_event_attr instructions_attr(void)
{
	return user_attr(PERF_TYPE_HARDWARE, lacks_instructions() ? PERF_COUNT_HW_CPU_CYCLES :
							 PERF_COUNT_HW_INSTRUCTIONS);
}

static inline void *page_map(int fd, unsigned int nr_data)
{
	size_t size = sysconf(_SC_PAGESIZE);

	return mmap(NULL, (1 + nr_data) * size, PROT_READ | (nr_data ? PROT_WRITE : 0),
		    MAP_SHARED, fd, 0);
}

static inline void page_unmap(void *page, unsigned int nr_data)
{
	munmap(page, (1 + nr_data) * sysconf(_SC_PAGESIZE));
}

static inline int pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return sched_setaffinity(0, sizeof(set), &set);
}

static inline void work(unsigned long times)
{
	while (times--)
		page_barrier();
}

/* Returns 0 or the negative errno. */
static inline int write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC), ret = 0;

	if (fd < 0)
		return -errno;
	if (write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		ret = -errno;
	close(fd);
	return ret;
}

static inline int read_text(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t len;

	if (fd < 0)
		return -errno;
	len = read(fd, text, size - 1);
	close(fd);
	text[len > 0 ? len : 0] = '\0';
	return len > 0 ? 0 : -EIO;
}

/* The limits of sampling, which apply to the whole machine */
struct sample_limits {
	char percent[16];
	char rate[16];
};

static inline int sample_limits_write(const char *rate, const char *percent)
{
	int ret = write_file(SYSCTL_TIME_PERCENT, "25");

	if (!ret)
		ret = write_file(SYSCTL_SAMPLE_RATE, rate);
	return ret ? ret : write_file(SYSCTL_TIME_PERCENT, percent);
}

static inline int sample_limits_set(struct sample_limits *old, const char *rate,
				    const char *percent)
{
	int ret = read_text(SYSCTL_TIME_PERCENT, old->percent, sizeof(old->percent));

	if (!ret)
		ret = read_text(SYSCTL_SAMPLE_RATE, old->rate, sizeof(old->rate));
	return ret ? ret : sample_limits_write(rate, percent);
}

/* Do nothing if the limits were not set. */
static inline int sample_limits_restore(const struct sample_limits *old)
{
	return old->rate[0] ? sample_limits_write(old->rate, old->percent) : 0;
}

/* Start a child that calls @run until it is killed or the test program ends. */
static inline pid_t start_child(void (*run)(void *arg), void *arg)
{
	pid_t child = fork();

	if (child)
		return child;
	alarm(100);
	run(arg);
	_exit(0);
}

static inline void stop_child(pid_t child)
{
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

/* Never returns. */
static inline void hog_cpu(void *cpu)
{
	pin((long)cpu);
	for (;;)
		work(1000);
}

/* Powerpc and arm64 close counters to a program, which gets SIGILL. */
#if defined(__powerpc__) || defined(__aarch64__)
static sigjmp_buf user_page_signal;

static inline void user_page_on_signal(int sig)
{
	siglongjmp(user_page_signal, sig);
}

/* Read a counter and return the signal that this causes, 0 for none. */
static inline int signal_of_read(int counter, __u64 *value)
{
	struct sigaction action = { .sa_handler = user_page_on_signal }, old;
	int sig;

	sigaction(SIGILL, &action, &old);
	sig = sigsetjmp(user_page_signal, 1);
	if (!sig)
		*value = counter_read(counter);
	sigaction(SIGILL, &old, NULL);
	return sig;
}

/* Write to the first counter and return the signal that this causes, 0 for none. */
static inline int signal_of_write(void)
{
	struct sigaction action = { .sa_handler = user_page_on_signal }, old;
	int sig;

	sigaction(SIGILL, &action, &old);
	sig = sigsetjmp(user_page_signal, 1);
	if (!sig)
		counter_write(5);
	sigaction(SIGILL, &old, NULL);
	return sig;
}

/* Let an event of CPU 0, which closes its counters, come and go. Never returns. */
static inline void toggle_event_of_cpu(void *arg)
{
	struct perf_event_attr attr = cycles_attr();
	const struct timespec moment = { .tv_nsec = 200000 };
	int fd;

	pin(1);
	for (;;) {
		fd = user_open(&attr, -1, 0, -1);
		nanosleep(&moment, NULL);
		close(fd);
		nanosleep(&moment, NULL);
	}
}

/* Let the administrator forbid and allow access. Never returns. */
static inline void toggle_access(void *arg)
{
	pin(1);
	for (;;) {
		write_file(USER_ACCESS, "0");
		write_file(USER_ACCESS, "1");
	}
}

/*
 * Read the page while a child calls @change. With @both, go on until a read found the counter
 * open and another one found it closed, for which the child may have to wait for its turn.
 */
static inline void user_page_reads_during(struct __test_metadata *const _metadata,
					  void (*change)(void *arg), int fd,
					  const volatile struct perf_event_mmap_page *page,
					  bool both)
{
	pid_t child = start_child(change, NULL);
	time_t end = time(NULL) + 10;
	struct brackets b = {};
	unsigned long i;

	ASSERT_LT(0, child);
	EXPECT_TRUE(brackets_run(&b, user_reads(), fd, page));
	while (both && !(b.direct && b.fallback) && time(NULL) < end)
		ASSERT_TRUE(brackets_run(&b, 100, fd, page));
	/* Use no system calls in between, to be in the loop most of the time. */
	for (i = 0; !both && i < user_reads(); i++)
		page_read(page);
	stop_child(child);
	EXPECT_LT(0, b.direct);
	if (both)
		EXPECT_LT(0, b.fallback);
	EXPECT_BRACKETS(&b);
}
#endif

#ifdef __aarch64__
/* The kernel keeps counters closed by default. The machine gets its setting back. */
static char user_access_before[16];
static pid_t user_access_setter;

static inline void __attribute__((constructor)) user_access_allow(void)
{
	if (!read_text(USER_ACCESS, user_access_before, sizeof(user_access_before)) &&
	    !write_file(USER_ACCESS, "1"))
		user_access_setter = getpid();
}

static inline void __attribute__((destructor)) user_access_restore(void)
{
	if (user_access_setter == getpid())
		write_file(USER_ACCESS, user_access_before);
}
#endif

/*
 * Returns non-zero if the test cannot run here, and passes the reason to the harness.
 * POWER8 and later always have a PMU, and x86 has one if the emulator declares it.
 */
static inline int user_page_setup(struct __test_metadata *const _metadata)
{
	struct perf_event_attr attr = cycles_attr();
	int fd;

#ifdef __aarch64__
	if (!user_access_before[0])
		SKIP(return -1, "no PMU of arm64");
	if (access(USER_ACCESS, W_OK))
		SKIP(return -1, "needs root to let programs read counters");
#endif
	fd = user_open(&attr, 0, -1, -1);
	if (fd < 0 && (errno == ENOENT || errno == EOPNOTSUPP) &&
	    !getenv("QEMU_PMU"))
		SKIP(return -1, "no hardware counters: %s", strerror(errno));
	ASSERT_LE(0, fd) {
		TH_LOG("no cycles event: %s", strerror(errno));
	}
	close(fd);
	return 0;
}

#endif
