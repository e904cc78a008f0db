/* SPDX-License-Identifier: GPL-2.0 */
/*
 * pmusim selftests - the PMUs, their control files, ring buffers and AUX areas
 */
#ifndef _PMUSIM_HELPERS_H
#define _PMUSIM_HELPERS_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
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
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define SIM_DIR		"/sys/kernel/debug/pmusim"
#define SIM_PATTERN	(0x5aa5ULL << 48)
#define SIM_WORD	8

/* Fields of config and config1 of a counter; see format/ in sysfs. */
#define SIM_MANUAL	0ULL
#define SIM_CLOCK	1ULL
#define SIM_TIMER	2ULL
#define SIM_SWITCH	3ULL
#define SIM_FAIL	0xffULL
#define SIM_MASK(m)	((__u64)(m) << 8)
#define SIM_WIDTH(w)	((__u64)(w) << 16)
#define SIM_OFLOW(c)	((__u64)(c) << 24)
#define SIM_SKID(s)	((__u64)(s) << 32)

enum { SIM_HARDIRQ, SIM_IRQ_WORK, SIM_SOFTIRQ, SIM_TASK, SIM_NMI_LIKE, SIM_NMI };

/* Fields of a producer. */
#define SIM_AUX_TIMER	1ULL
#define SIM_ALIGN(a)	((__u64)(a) << 8)
#define SIM_CHUNK(c)	((__u64)(c) << 32)
#define SIM_INJECT(i)	((__u64)(i))
#define SIM_NTH(n)	((__u64)(n) << 8)

#define SIM_TIMES	(PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING)

/* Values that read(2) returns with SIM_TIMES. */
struct sim_value {
	__u64	value;
	__u64	enabled;
	__u64	running;
};

struct sim_ring {
	int				fd;
	struct perf_event_mmap_page	*page;
	size_t				size;
	__u64				tail;
	char				*aux;
	size_t				aux_size;
	__u64				aux_tail;
};

/* A record in one piece, without a wrap at the end of the buffer. */
struct sim_record {
	struct perf_event_header	header;
	__u64				word[511 + 8192];
};

struct sim_log {
	int		nr;
	int		cpu;
	char		pmu[32];
	char		op[16];
	__u64		id;
	unsigned int	flags;
	int		result;
};

static inline size_t page_size(void)
{
	return sysconf(_SC_PAGESIZE);
}

static inline __u64 now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ULL + now.tv_nsec;
}

static inline void sleep_ms(unsigned int ms)
{
	struct timespec t = { ms / 1000, ms % 1000 * 1000000L };

	nanosleep(&t, NULL);
}

static inline int sim_type(const char *pmu)
{
	char path[128], text[32] = "";
	int fd, type = -1;

	snprintf(path, sizeof(path), "/sys/bus/event_source/devices/%s/type", pmu);
	fd = open(path, O_RDONLY);
	if (fd < 0)
		return -1;
	if (read(fd, text, sizeof(text) - 1) > 0)
		type = atoi(text);
	close(fd);
	return type;
}

/* Returns 0 or the negative errno, like most functions here. */
static inline int sim_put(const char *file, const char *format, ...)
{
	char path[128], text[128];
	va_list args;
	int fd, ret, len;

	va_start(args, format);
	len = vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	snprintf(path, sizeof(path), SIM_DIR "/%s", file);
	fd = open(path, O_WRONLY);
	if (fd < 0)
		return -errno;
	ret = write(fd, text, len) == len ? 0 : -errno;
	close(fd);
	return ret;
}

static inline int sim_tick(int cpu, int counter, unsigned long long n)
{
	char file[32];

	snprintf(file, sizeof(file), "cpu%d/tick", cpu);
	return sim_put(file, "%d %llu", counter, n);
}

static inline int sim_tick_pmu(const char *pmu, int cpu, int counter,
			       unsigned long long n)
{
	char file[32];

	snprintf(file, sizeof(file), "cpu%d/tick", cpu);
	return sim_put(file, "%s %d %llu", pmu, counter, n);
}

static inline struct perf_event_attr sim_attr(const char *pmu, __u64 config)
{
	return (struct perf_event_attr) {
		.type		= sim_type(pmu),
		.size		= sizeof(struct perf_event_attr),
		.config		= config,
		.read_format	= SIM_TIMES,
	};
}

static inline int sim_open(const struct perf_event_attr *attr, pid_t pid, int cpu,
			   int leader)
{
	int fd = syscall(__NR_perf_event_open, attr, pid, cpu, leader,
			 PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

/* Open and start an event of a CPU. */
static inline int sim_open_cpu(__u64 config, int cpu)
{
	struct perf_event_attr attr = sim_attr("pmusim", config);

	return sim_open(&attr, -1, cpu, -1);
}

/* How often this thread has left its CPU */
static inline __u64 nr_switches(void)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return usage.ru_nvcsw + usage.ru_nivcsw;
}

static inline int sim_ioctl(int fd, unsigned long cmd, unsigned long arg)
{
	return ioctl(fd, cmd, arg) < 0 ? -errno : 0;
}

static inline int sim_enable(int fd)
{
	return sim_ioctl(fd, PERF_EVENT_IOC_ENABLE, 0);
}

static inline int sim_disable(int fd)
{
	return sim_ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
}

static inline __u64 sim_id(int fd)
{
	__u64 id = 0;

	ioctl(fd, PERF_EVENT_IOC_ID, &id);
	return id;
}

/* A read that fails shows as all ones, which no test takes for an answer. */
static inline struct sim_value sim_read(int fd)
{
	struct sim_value value;

	if (read(fd, &value, sizeof(value)) != sizeof(value))
		memset(&value, 0xff, sizeof(value));
	return value;
}

static inline __u64 sim_count(int fd)
{
	return sim_read(fd).value;
}

/* Open a clock on @cpu that samples so often that it is throttled. */
static inline int sim_clock(int leader, int cpu)
{
	struct perf_event_attr attr = {
		.type		= PERF_TYPE_SOFTWARE,
		.size		= sizeof(attr),
		.config		= PERF_COUNT_SW_CPU_CLOCK,
		.sample_period	= 10000,
		.read_format	= PERF_FORMAT_TOTAL_TIME_ENABLED |
				  PERF_FORMAT_TOTAL_TIME_RUNNING,
	};

	return sim_open(&attr, -1, cpu, leader);
}

static inline int run_on(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return sched_setaffinity(0, sizeof(set), &set) ? -errno : 0;
}

/* The CPU that goes offline and online. */
#define SIM_ONLINE	"/sys/devices/system/cpu/cpu1/online"

static inline int sim_set_online(int on)
{
	int ret, fd = open(SIM_ONLINE, O_WRONLY);

	if (fd < 0)
		return -errno;
	ret = write(fd, on ? "1" : "0", 1) == 1 ? 0 : -errno;
	close(fd);
	return ret;
}

/* Get the CPU that has the events of pmusim_unc. */
static inline int sim_uncore_cpu(void)
{
	FILE *file = fopen("/sys/bus/event_source/devices/pmusim_unc/cpumask", "r");
	int cpu = -1;

	if (!file || fscanf(file, "%d", &cpu) != 1)
		cpu = -1;
	if (file)
		fclose(file);
	return cpu;
}

static inline int ring_map(struct sim_ring *ring, int fd, unsigned int pages)
{
	void *mem;

	memset(ring, 0, sizeof(*ring));
	mem = mmap(NULL, (pages + 1) * page_size(), PROT_READ | PROT_WRITE,
		   MAP_SHARED, fd, 0);
	if (mem == MAP_FAILED)
		return -errno;
	ring->fd = fd;
	ring->page = mem;
	ring->size = pages * page_size();
	return 0;
}

static inline int ring_map_aux(struct sim_ring *ring, size_t size, int prot)
{
	size_t offset = ring->size + page_size();
	void *mem;

	ring->page->aux_offset = offset;
	ring->page->aux_size = size;
	mem = mmap(NULL, size, prot, MAP_SHARED, ring->fd, offset);
	if (mem == MAP_FAILED)
		return -errno;
	ring->aux = mem;
	ring->aux_size = size;
	return 0;
}

static inline void ring_unmap_aux(struct sim_ring *ring)
{
	if (ring->aux)
		munmap(ring->aux, ring->aux_size);
	ring->aux = NULL;
}

static inline void ring_unmap(struct sim_ring *ring)
{
	ring_unmap_aux(ring);
	if (ring->page)
		munmap(ring->page, ring->size + page_size());
	ring->page = NULL;
}

/* Get the next record; false if there is none. */
static inline bool ring_next(struct sim_ring *ring, struct sim_record *record)
{
	__u64 head = __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE);
	char *data = (char *)ring->page + page_size();
	char *to = (char *)record;
	size_t i, size;

	if (ring->tail == head)
		return false;
	/* Records are aligned to 8, so the header never wraps. */
	memcpy(to, data + ring->tail % ring->size, sizeof(record->header));
	size = record->header.size;
	for (i = 0; i < size && i < sizeof(*record); i++)
		to[i] = data[(ring->tail + i) % ring->size];
	ring->tail += size;
	__atomic_store_n(&ring->page->data_tail, ring->tail, __ATOMIC_RELEASE);
	return size;
}

/* Count the records of a type and drop all records. */
static inline unsigned int ring_count(struct sim_ring *ring, __u32 type)
{
	static struct sim_record record;
	unsigned int n = 0;

	while (ring_next(ring, &record))
		n += record.header.type == type;
	return n;
}

static inline __u64 aux_head(struct sim_ring *ring)
{
	return __atomic_load_n(&ring->page->aux_head, __ATOMIC_ACQUIRE);
}

/* Find the first position of the stream with a wrong word, @to if there is none. */
static inline __u64 aux_verify(struct sim_ring *ring, __u64 from, __u64 to)
{
	for (; from < to; from += SIM_WORD) {
		if (*(__u64 *)(ring->aux + (from & (ring->aux_size - 1))) !=
		    (from ^ SIM_PATTERN))
			break;
	}
	return from;
}

/* Check the data and release its room; false if it is wrong. */
static inline bool aux_drain(struct sim_ring *ring)
{
	__u64 head = aux_head(ring);

	if (aux_verify(ring, ring->aux_tail, head) != head)
		return false;
	ring->aux_tail = head;
	__atomic_store_n(&ring->page->aux_tail, head, __ATOMIC_RELEASE);
	return true;
}

static inline int log_on(void)
{
	return sim_put("log", "1");
}

static inline FILE *log_open(void)
{
	sim_put("log", "0");
	return fopen(SIM_DIR "/log", "r");
}

static inline void sim_defaults(void);

/*
 * Get the next line of the log; false at its end. A log that misses calls proves
 * nothing, and fails the test.
 */
static inline bool log_next(FILE *file, struct sim_log *line)
{
	char text[256];

	if (!fgets(text, sizeof(text), file))
		return false;
	if (sscanf(text, "%d %d %31s %15s %llu %x %d", &line->nr, &line->cpu,
		   line->pmu, line->op, &line->id, &line->flags, &line->result) == 7)
		return true;
	fprintf(stderr, "# the log is not whole: %s", text);
	/* Restore the defaults, because the teardown does not run. */
	sim_defaults();
	_exit(KSFT_FAIL);
}

/* Write @value to a file that holds a number. Returns the old number, or -1. */
static inline int swap_number(const char *path, int value)
{
	FILE *file = fopen(path, "r+");
	int old;

	if (!file)
		return -1;
	if (fscanf(file, "%d", &old) != 1)
		old = -1;
	rewind(file);
	fprintf(file, "%d\n", value);
	return fclose(file) ? -1 : old;
}

static inline int get_number(const char *path)
{
	FILE *file = fopen(path, "r");
	int number;

	if (!file)
		return -1;
	if (fscanf(file, "%d", &number) != 1)
		number = -1;
	fclose(file);
	return number;
}

#define SIM_TIME_PERCENT	"/proc/sys/kernel/perf_cpu_time_max_percent"
#define SIM_SAMPLE_RATE		"/proc/sys/kernel/perf_event_max_sample_rate"

/*
 * Set the maximum sample rate. Returns the old rate, 0 on errors. The rate cannot be
 * set while the limit of time is off. With the limit on, the kernel lowers the rate if
 * it takes a stall of the machine for a long interrupt.
 */
static inline unsigned int max_sample_rate(unsigned int rate)
{
	int i, set, old = -1;

	/* A sample that is taken before the limit is off may lower the rate again. */
	for (i = 0; i < 100; i++) {
		swap_number(SIM_TIME_PERCENT, 25);
		set = swap_number(SIM_SAMPLE_RATE, rate);
		swap_number(SIM_TIME_PERCENT, 0);
		if (!i)
			old = set;
		if (get_number(SIM_SAMPLE_RATE) == (int)rate)
			break;
	}
	return old < 0 ? 0 : old;
}

/* Earlier tests may have left a rate that would throttle exact tests. */
static unsigned int sim_old_rate;

static int sim_old_percent;
static pid_t sim_program;

static inline void __attribute__((constructor)) sim_begin(void)
{
	sim_program = getpid();
	sim_old_percent = swap_number(SIM_TIME_PERCENT, 25);
	if (sim_old_percent >= 0)
		swap_number(SIM_TIME_PERCENT, sim_old_percent);
}

/* Do nothing in children of a test. */
static inline void __attribute__((destructor)) sim_end(void)
{
	if (getpid() == sim_program && sim_old_percent >= 0)
		swap_number(SIM_TIME_PERCENT, sim_old_percent);
}

/* Restore the settings that tests change. */
static inline void sim_defaults(void)
{
	sim_put("log", "0");
	sim_put("pmusim/fail_add", "0");
	sim_put("pmusim/fail_commit", "0");
	sim_put("pmusim/validate_group", "1");
	sim_put("pmusim/nr_counters", "4");
	sim_put("pmusim/capabilities", "-no_interrupt");
	sim_put("pmusim/capabilities", "-no_exclude");
	if (sim_old_rate)
		max_sample_rate(sim_old_rate);
}

/* Get the reason for which a test cannot run, or NULL. */
static inline const char *sim_missing(void)
{
	if (sim_type("pmusim") < 0)
		return "no pmusim, CONFIG_PERF_PMUSIM";
	if (geteuid())
		return "not root";
	if (access(SIM_DIR, F_OK))
		mount("debugfs", "/sys/kernel/debug", "debugfs", 0, NULL);
	if (access(SIM_DIR, F_OK))
		return "no debugfs";
	return NULL;
}

/* Tell whether the test has to be skipped; a setup begins with this. */
static inline bool sim_skips(struct __test_metadata *_metadata)
{
	const char *missing = sim_missing();

	if (missing)
		SKIP(return true, "%s", missing);
	sim_defaults();
	sim_old_rate = max_sample_rate(1000000);
	/* A killed test has left its own rate. */
	if (sim_old_rate < 1000)
		sim_old_rate = 100000;
	return false;
}

/* Skip in a setup after sim_skips(), without a teardown */
#define SIM_SKIP(...) do {						\
	sim_defaults();							\
	SKIP(return, __VA_ARGS__);					\
} while (0)

#endif /* _PMUSIM_HELPERS_H */
