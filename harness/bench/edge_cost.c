// SPDX-License-Identifier: GPL-2.0
/*
 * Print the cost of gates and readings on this machine in nanoseconds: perf-events-tests --cost.
 *
 * The program fails if it cannot measure, and never because of a figure. It prints the reason for an
 * operation that the machine does not have.
 */
#include "program/arch.h"

#include <err.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NR_BATCHES	31
#define BATCH		2000
/* No counter overflows meanwhile, because the cost of interrupts is not measured. */
#define LONG_PERIOD	0x7fffffffULL

#define LOAD(field)	__atomic_load_n(&(field), __ATOMIC_RELAXED)

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1e9 + time.tv_nsec;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* The median of batches, so that interrupts and task switches do not show. */
static double measure(void (*run)(void *arg), void *arg)
{
	double ns[NR_BATCHES];
	int i, j;

	for (i = -1; i < NR_BATCHES; i++) {
		double begin = now();

		for (j = 0; j < BATCH; j++)
			run(arg);
		/* The first batch warms the caches. */
		if (i >= 0)
			ns[i] = (now() - begin) / BATCH;
	}
	qsort(ns, NR_BATCHES, sizeof(*ns), compare);
	return ns[NR_BATCHES / 2];
}

static void print(double ns, const char *operation)
{
	printf("%9.1f ns  %s\n", ns, operation);
}

static void print_absent(const char *operation, const char *reason)
{
	printf("%9s     %s: %s\n", "-", operation, reason);
}

static struct perf_event_attr event_attr(__u32 type, __u64 config)
{
	return (struct perf_event_attr) {
		.type		= type,
		.size		= sizeof(struct perf_event_attr),
		.config		= config,
		.exclude_kernel	= type == PERF_TYPE_HARDWARE,
		.exclude_hv	= type == PERF_TYPE_HARDWARE,
	};
}

static int event_open(struct perf_event_attr *attr)
{
	return syscall(__NR_perf_event_open, attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

static int open_tracepoint(const char *call)
{
	struct perf_event_attr attr;
	unsigned int id;
	char path[128];
	FILE *file;
	int fd;

	snprintf(path, sizeof(path), "/sys/kernel/tracing/events/syscalls/sys_enter_%s/id", call);
	file = fopen(path, "r");
	if (!file || fscanf(file, "%u", &id) != 1)
		err(2, "%s: no such tracepoint, or no permission", path);
	fclose(file);
	attr = event_attr(PERF_TYPE_TRACEPOINT, id);
	fd = event_open(&attr);
	if (fd < 0)
		err(2, "sys_enter_%s", call);
	return fd;
}

/* One edge of the gate, if there is one, by each call */
static void two_calls(void *arg)
{
	(void)arg;
	call0(__NR_getuid);
	call0(__NR_geteuid);
}

static double cost_of_call(void)
{
	return measure(two_calls, NULL) / 2;
}

static void edge(const char *kind, __u32 type, __u64 config, __u64 period, const int *triggers, double bare)
{
	struct perf_event_attr attr = event_attr(type, config);
	struct { __u64 value, nr; } value;
	char operation[128];
	double ns;
	int fd;

	snprintf(operation, sizeof(operation), "an edge of a gate: %s", kind);
	attr.sample_period = period;
	attr.read_format = PERF_FORMAT_GATE_COUNT;
	fd = event_open(&attr);
	if (fd < 0 && errno != EINVAL) {
		print_absent(operation, strerror(errno));
		return;
	}
	if (fd < 0 || ioctl(triggers[0], PERF_EVENT_IOC_SET_STARTER, fd) ||
	    ioctl(triggers[1], PERF_EVENT_IOC_SET_STOPPER, fd))
		err(2, "%s: this kernel has no gate for it", kind);
	ns = cost_of_call() - bare;
	if (read(fd, &value, sizeof(value)) != sizeof(value))
		err(2, "%s: cannot be read", kind);
	if (value.nr != (NR_BATCHES + 1) * BATCH)
		errx(2, "%s: the gate opened %llu times instead of %d", kind, (unsigned long long)value.nr,
		     (NR_BATCHES + 1) * BATCH);
	print(ns, operation);
	close(fd);
}

static void read_by_call(void *arg)
{
	__u64 value;

	if (read(*(int *)arg, &value, sizeof(value)) != sizeof(value))
		err(2, "cannot read");
}

static volatile __u64 sink;

static void read_by_page(void *arg)
{
	const struct perf_event_mmap_page *page = arg;
	__u32 sequence, index;
	__u64 count;

	do {
		sequence = LOAD(page->lock);
		page_barrier();
		index = LOAD(page->index);
		count = LOAD(page->offset);
		if (index) {
			int unused = 64 - LOAD(page->pmc_width);

			count += (__s64)(counter_register(index) << unused) >> unused;
		}
		page_barrier();
	} while (LOAD(page->lock) != sequence);
	sink = count;
}

static void readings(void)
{
	struct perf_event_attr attr = event_attr(PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS);
	struct perf_event_mmap_page *page;
	bool direct;
	int fd;

	fd = event_open(&attr);
	if (fd < 0) {
		print_absent("readings of a counter", strerror(errno));
		return;
	}
	print(measure(read_by_call, &fd), "a reading by read(2)");
	page = mmap(NULL, sysconf(_SC_PAGESIZE), PROT_READ, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED)
		err(2, "mmap");
	direct = page->cap_user_rdpmc && page->index;
	if (direct)
		print(measure(read_by_page, page), "a reading by the user page");
	else
		print_absent("a reading by the user page", "the counter is not open to programs");
	close(fd);
}

/* A machine with several kinds of cores would show a mixture of their counters. */
static void stay_here(void)
{
	int cpu = sched_getcpu();
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (cpu < 0 || sched_setaffinity(0, sizeof(set), &set))
		err(2, "cannot stay on one CPU");
}

int main(void)
{
	int triggers[2];
	double bare;

	stay_here();
	print(cost_of_call(), "a system call, getuid(2)");
	triggers[0] = open_tracepoint("getuid");
	triggers[1] = open_tracepoint("geteuid");
	bare = cost_of_call();
	print(bare, "the same with an event of its tracepoint, which is in none of these:");
	edge("a software event", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS, 0, triggers, bare);
	edge("a hardware event that counts", PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS, 0, triggers, bare);
	edge("a hardware event that samples", PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS, LONG_PERIOD,
	     triggers, bare);
	readings();
	return 0;
}
