/* SPDX-License-Identifier: GPL-2.0 */
/*
 * perf gate selftests - triggers, windows, work and ring buffers of all files
 *
 * A window is the time between a getuid(2) and a geteuid(2). Nothing else in
 * these tests makes those calls, and libc is not asked to make them, so that
 * the number of windows is exactly the number of calls written down in a test.
 */
#ifndef _GATE_HELPERS_H
#define _GATE_HELPERS_H

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
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
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "event_helpers.h"

#ifdef PERF_EVENT_IOC_SET_STARTER
#define GATE_UAPI
#else
/* With headers without gates the tests build, and fail on the kernel of these headers. */
#define PERF_EVENT_IOC_SET_STARTER	_IO('$', 12)
#define PERF_EVENT_IOC_SET_STOPPER	_IO('$', 13)
#define PERF_EVENT_IOC_CLEAR_GATE	_IO('$', 14)
#define PERF_FORMAT_GATE_TIME		0x20
#define PERF_FORMAT_GATE_COUNT		0x40
#endif

#ifndef PERF_EVENT_IOC_JOIN_GATE
#define PERF_EVENT_IOC_JOIN_GATE	_IO('$', 17)
#endif

#define GATE_BIT_START_PAUSED	40
#define GATE_BIT_NEST		41
#define GATE_MAX_TARGETS	64

#define GATE_READ_FORMAT						\
	(PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING | \
	 PERF_FORMAT_ID | PERF_FORMAT_LOST |				\
	 PERF_FORMAT_GATE_TIME | PERF_FORMAT_GATE_COUNT)

#define NSEC_PER_MSEC	1000000ULL
#define NSEC_PER_SEC	1000000000ULL

/* Values that read(2) returns with GATE_READ_FORMAT. */
struct gate_value {
	__u64	value;
	__u64	enabled;
	__u64	running;
	__u64	id;
	__u64	lost;
	__u64	gate_time;
	__u64	gate_count;
};

/* Values of a group of four, with PERF_FORMAT_GROUP as well. */
struct gate_group {
	__u64	nr;
	__u64	enabled;
	__u64	running;
	struct {
		__u64	value;
		__u64	id;
		__u64	lost;
		__u64	gate_time;
		__u64	gate_count;
	} entry[4];
};

/* The counting tracepoints that open and close the gates of the calling task. */
struct gate_triggers {
	int	starter;
	int	stopper;
};

struct gate_pages {
	char	*mem;
	size_t	page_size;
	size_t	size;
};

struct gate_ring {
	struct perf_event_mmap_page	*page;
	size_t				size;
	__u64				tail;
};

static inline struct perf_event_attr gate_attr(__u32 type, __u64 config)
{
	return (struct perf_event_attr) {
		.type		= type,
		.size		= sizeof(struct perf_event_attr),
		.config		= config,
		.read_format	= GATE_READ_FORMAT,
	};
}

/* Use the bit's number, not its name: programs that were built elsewhere rely on the number. */
static inline void gate_attr_set_bit(struct perf_event_attr *attr, unsigned int bit)
{
	size_t offset = offsetof(struct perf_event_attr, read_format) + sizeof(__u64);
	__u64 flags;

#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	bit = 63 - bit;
#endif
	memcpy(&flags, (char *)attr + offset, sizeof(flags));
	flags |= 1ULL << bit;
	memcpy((char *)attr + offset, &flags, sizeof(flags));
}

static inline int gate_open_group(struct perf_event_attr *attr, pid_t pid, int cpu, int leader)
{
	return syscall(__NR_perf_event_open, attr, pid, cpu, leader, PERF_FLAG_FD_CLOEXEC);
}

static inline int gate_open(struct perf_event_attr *attr, pid_t pid, int cpu)
{
	return gate_open_group(attr, pid, cpu, -1);
}

static inline int gate_open_self(__u32 type, __u64 config)
{
	struct perf_event_attr attr = gate_attr(type, config);

	return gate_open(&attr, 0, -1);
}

/* Returns 0 or the negative errno, so that an expectation names the error. */
static inline int gate_ioctl(int fd, unsigned long cmd, unsigned long arg)
{
	return ioctl(fd, cmd, arg) < 0 ? -errno : 0;
}

static inline int set_starter(int trigger, int target)
{
	return gate_ioctl(trigger, PERF_EVENT_IOC_SET_STARTER, target);
}

static inline int set_stopper(int trigger, int target)
{
	return gate_ioctl(trigger, PERF_EVENT_IOC_SET_STOPPER, target);
}

static inline int set_both(const struct gate_triggers *triggers, int target)
{
	int ret = set_starter(triggers->starter, target);

	return ret ? ret : set_stopper(triggers->stopper, target);
}

static inline int join_gate(int event, int other)
{
	return gate_ioctl(event, PERF_EVENT_IOC_JOIN_GATE, other);
}

static inline int clear_gate(int target)
{
	return gate_ioctl(target, PERF_EVENT_IOC_CLEAR_GATE, 0);
}

/* A read that fails gives all ones, which no test expects. */
static inline struct gate_value gate_read(int fd)
{
	struct gate_value value;

	if (read(fd, &value, sizeof(value)) != sizeof(value))
		memset(&value, 0xff, sizeof(value));
	return value;
}

static inline long task_switches(void)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return usage.ru_nvcsw + usage.ru_nivcsw;
}

/*
 * Get all values of one instant: read(2) takes the times one after the other, and a
 * preemptible kernel may switch tasks in between.
 */
static inline struct gate_value gate_read_whole(int fd)
{
	struct gate_value value;
	long before;

	do {
		before = task_switches();
		value = gate_read(fd);
	} while (task_switches() != before);
	return value;
}

/* Read an event without a read_format. */
static inline __u64 raw_count(int fd)
{
	__u64 value = 0;

	if (read(fd, &value, sizeof(value)) != sizeof(value))
		return 0;
	return value;
}

static inline __u64 gate_read_count(int fd)
{
	return gate_read(fd).value;
}

/* System calls that open windows, close them, and are counted in them. */
static inline void window_open(void)
{
	syscall(__NR_getuid);
}

static inline void window_close(void)
{
	syscall(__NR_geteuid);
}

static inline void call_getppid(unsigned int times)
{
	while (times--)
		syscall(__NR_getppid);
}

static inline __u64 clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * NSEC_PER_SEC + now.tv_nsec;
}

/* Use the time on the CPU, so that other load does not shorten the work. */
static inline void spin_ns(__u64 ns)
{
	__u64 end = clock_ns(CLOCK_THREAD_CPUTIME_ID) + ns;

	while (clock_ns(CLOCK_THREAD_CPUTIME_ID) < end)
		;
}

/*
 * Yield the CPU and come back. On a slow machine a timer may fire before the task is
 * asleep, and no task switch happens, so check it.
 */
static inline void sleep_for_certain(void)
{
	struct rusage before, after;

	getrusage(RUSAGE_THREAD, &before);
	do {
		usleep(1000);
		getrusage(RUSAGE_THREAD, &after);
	} while (after.ru_nvcsw == before.ru_nvcsw);
}

/* Write to a file of the kernel with one write(2). */
static inline bool write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_TRUNC);
	bool done;

	if (fd < 0)
		return false;
	done = write(fd, text, strlen(text)) == (ssize_t)strlen(text);
	close(fd);
	return done;
}

#define SAMPLE_TIME_PERCENT	"/proc/sys/kernel/perf_cpu_time_max_percent"
#define SAMPLE_RATE		"/proc/sys/kernel/perf_event_max_sample_rate"

static inline void limit_sample_time(void)
{
	write_text(SAMPLE_TIME_PERCENT, "25");
}

/*
 * A slow machine lowers the sample rate until samples are missing, unless the limit of
 * the time is off; but then the rate cannot be set either. The ticks of an emulator may
 * stand still while its processor runs, so the rate allows a multiple of what is needed.
 */
static inline void keep_sample_rate(void)
{
	int i;

	/* A sample that is taken before the limit is off may lower the rate again. */
	for (i = 0; i < 100; i++) {
		limit_sample_time();
		write_text(SAMPLE_RATE, "1000000");
		write_text(SAMPLE_TIME_PERCENT, "0");
		if (read_number(SAMPLE_RATE) == 1000000)
			break;
	}
}

/* Get the ID of a tracepoint such as "syscalls/sys_enter_getuid", -1 if it does not exist. */
static inline long tracepoint_id(const char *name)
{
	const char *root = "/sys/kernel/tracing";
	char path[256];

	snprintf(path, sizeof(path), "%s/events", root);
	if (access(path, F_OK))
		mount("tracefs", root, "tracefs", 0, NULL);
	snprintf(path, sizeof(path), "%s/events/%s/id", root, name);
	return read_number(path);
}

/*
 * An emulated PMU may count and never interrupt, which looks like a kernel that loses
 * its interrupts. The environment of the tests gives the reason then.
 */
static inline const char *pmu_without_interrupts(void)
{
	return getenv("PERF_TEST_NO_PMU_INTERRUPTS");
}

static inline int open_tracepoint(const char *name)
{
	long id = tracepoint_id(name);

	if (id < 0) {
		errno = ENOENT;
		return -1;
	}
	return gate_open_self(PERF_TYPE_TRACEPOINT, id);
}

/* A probe of the PMU @name, -1 with errno when there is none of its kind. */
static inline int open_probe(const char *name, bool on_return, unsigned long config1,
			     __u64 config2)
{
	long type = pmu_type(name);
	struct perf_event_attr attr = gate_attr(type, on_return);

	if (type < 0) {
		errno = ENOENT;
		return -1;
	}
	attr.config1 = config1;
	attr.config2 = config2;
	return gate_open(&attr, 0, -1);
}

static inline int pin_to_cpu(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return sched_setaffinity(0, sizeof(set), &set);
}

/* Whether sampling events of a PMU run on while their gates are closed, by perf_gate_stop=0 */
static inline bool pmu_events_run_on(void)
{
	FILE *file = fopen("/sys/module/kernel/parameters/perf_gate_stop", "r");
	bool run_on = file && fgetc(file) == 'N';

	if (file)
		fclose(file);
	return run_on;
}

/* Get the n-th CPU, from 0, that this task may run on, or -1. */
static inline int nth_cpu(int n)
{
	cpu_set_t set;
	int cpu;

	if (sched_getaffinity(0, sizeof(set), &set))
		return -1;
	for (cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (CPU_ISSET(cpu, &set) && !n--)
			return cpu;
	}
	return -1;
}

#define SPACES	"\n "

#ifdef __aarch64__
#define PMU_INTERRUPTS	"arm-pmu"
#else
#define PMU_INTERRUPTS	"PMI:"
#endif

/*
 * Interrupts that /proc/interrupts counts of the online CPU @cpu: those of the lines that
 * have the text @name, or of all lines when it is NULL. -1 without a line or the file.
 */
static inline long cpu_interrupts(int cpu, const char *name)
{
	unsigned int column = 0, i;
	char *line = NULL, *word;
	size_t size = 0;
	long sum = -1;
	FILE *file;

	file = fopen("/proc/interrupts", "r");
	if (!file)
		return -1;
	/* The first line names the CPUs that are online. */
	if (getline(&line, &size, file) > 0) {
		for (word = strtok(line, SPACES); word; word = strtok(NULL, SPACES)) {
			if (!strncmp(word, "CPU", 3) && atoi(word + 3) == cpu)
				break;
			column++;
		}
	}
	while (getline(&line, &size, file) > 0) {
		if (name && !strstr(line, name))
			continue;
		word = strtok(line, SPACES);
		for (i = 0; word && i <= column; i++)
			word = strtok(NULL, SPACES);
		if (word)
			sum = (sum < 0 ? 0 : sum) + strtol(word, NULL, 10);
	}
	free(line);
	fclose(file);
	return sum;
}

/* Map small pages only, so that each page that is touched takes one page fault. */
static inline int pages_map(struct gate_pages *pages, unsigned int nr)
{
	pages->page_size = sysconf(_SC_PAGESIZE);
	pages->size = nr * pages->page_size;
	pages->mem = mmap(NULL, pages->size, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (pages->mem == MAP_FAILED)
		return -1;
	madvise(pages->mem, pages->size, MADV_NOHUGEPAGE);
	return 0;
}

/* Take exactly @nr page faults. */
static inline void pages_touch(const struct gate_pages *pages, unsigned int nr)
{
	unsigned int i;

	madvise(pages->mem, pages->size, MADV_DONTNEED);
	for (i = 0; i < nr; i++)
		__atomic_store_n(pages->mem + i * pages->page_size, 1, __ATOMIC_RELAXED);
}

static inline int ring_map(struct gate_ring *ring, int fd, unsigned int nr_pages)
{
	size_t page_size = sysconf(_SC_PAGESIZE);

	ring->size = nr_pages * page_size;
	ring->tail = 0;
	ring->page = mmap(NULL, page_size + ring->size, PROT_READ | PROT_WRITE,
			  MAP_SHARED, fd, 0);
	return ring->page == MAP_FAILED ? -1 : 0;
}

static inline __u64 ring_head(const struct gate_ring *ring)
{
	return __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE);
}

static inline void ring_copy(const struct gate_ring *ring, void *to, __u64 from, size_t len)
{
	const char *data = (const char *)ring->page + sysconf(_SC_PAGESIZE);
	size_t i;

	for (i = 0; i < len; i++)
		((char *)to)[i] = data[(from + i) % ring->size];
}

/*
 * Copy the next record, at most @max bytes of it. Returns false if there is none. The
 * header has the length of the record, so copy it first.
 */
static inline bool ring_next(struct gate_ring *ring, void *record, size_t max)
{
	struct perf_event_header header;
	size_t len;

	if (ring->tail == ring_head(ring))
		return false;
	ring_copy(ring, &header, ring->tail, sizeof(header));
	len = header.size < max ? header.size : max;
	ring_copy(ring, record, ring->tail, len);
	ring->tail += header.size;
	__atomic_store_n(&ring->page->data_tail, ring->tail, __ATOMIC_RELEASE);
	return true;
}

/* Drop all records and return the number of records of @type. */
static inline unsigned int ring_drain(struct gate_ring *ring, __u32 type)
{
	struct perf_event_header header;
	unsigned int nr = 0;

	while (ring_next(ring, &header, sizeof(header)))
		nr += header.type == type;
	return nr;
}

/*
 * Open the triggers. Returns non-zero if the test cannot run here, and passes
 * the reason to the harness. A kernel without gates is a failure, not such a
 * reason.
 *
 * Later faults on pages of the test program, or copies after the harness's
 * fork(), would add to exact counts, so mlockall() brings in all pages before.
 */
static inline int triggers_open(struct __test_metadata *const _metadata,
				struct gate_triggers *triggers)
{
	struct perf_event_attr attr = {
		.type	= PERF_TYPE_SOFTWARE,
		.size	= sizeof(attr),
		.config	= PERF_COUNT_SW_DUMMY,
	};
	int dummy;

	if (syscall(__NR_getuid))
		SKIP(return -1, "needs root for tracepoints and other tasks' events");

	dummy = gate_open(&attr, 0, -1);
	ASSERT_LE(0, dummy);
	ASSERT_EQ(0, set_starter(dummy, -1)) {
		TH_LOG("this kernel has no perf gates");
	}
	close(dummy);

	if (tracepoint_id("syscalls/sys_enter_getuid") < 0)
		SKIP(return -1, "no tracepoint syscalls/sys_enter_getuid");

	triggers->starter = open_tracepoint("syscalls/sys_enter_getuid");
	ASSERT_LE(0, triggers->starter);
	triggers->stopper = open_tracepoint("syscalls/sys_enter_geteuid");
	ASSERT_LE(0, triggers->stopper);
	ASSERT_EQ(0, mlockall(MCL_CURRENT));
	return 0;
}

static inline void triggers_close(const struct gate_triggers *triggers)
{
	close(triggers->stopper);
	close(triggers->starter);
}

/* Open an event of the calling task with both triggers, which is closed. */
static inline int gate_open_target(struct __test_metadata *const _metadata,
				   const struct gate_triggers *triggers,
				   struct perf_event_attr *attr)
{
	int fd = gate_open(attr, 0, -1);

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, set_both(triggers, fd));
	return fd;
}

static inline int gate_open_counter(struct __test_metadata *const _metadata,
				    const struct gate_triggers *triggers,
				    __u32 type, __u64 config)
{
	struct perf_event_attr attr = gate_attr(type, config);

	return gate_open_target(_metadata, triggers, &attr);
}

#endif
