// SPDX-License-Identifier: GPL-2.0
/*
 * Measure more events than the PMU has counters in three ways: by event sets,
 * with the time of each; by perf's own multiplexing; and one set after the other
 * in separate runs, which is exact.
 *
 *	event_sets [ROUNDS [PER_SET EVENT...]]
 *
 * PER_SET events share a set. EVENT is one of /sys/bus/event_source/devices/cpu/
 * events, or a software event as below. The kernel switches the sets every
 * millisecond of the program's time on the CPU. See
 * Documentation/userspace-api/perfmon.rst.
 */
#define _GNU_SOURCE
#define __SANE_USERSPACE_TYPES__

#include <errno.h>
#include <linux/perf_event.h>
#include <linux/perfmon.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PFM_CALL(n)	(__NR_pfm_create_context + (n))
#define NSEC_PER_MSEC	1000000ULL
#define MAX_EVENTS	32
#define PER_SET_MAX	8

/* Values that read(2) returns for a perf event. */
struct reading {
	__u64		value;
	__u64		enabled;
	__u64		running;
};

struct event {
	const char	*name;
	__u32		type;
	__u64		config;
	unsigned int	set;
	unsigned int	reg;
	int		fd;
	double		exact;
	struct pfarg_pmd pmd;
	struct reading	perf;
};

static struct event events[MAX_EVENTS];
static struct pfarg_setinfo sets[MAX_EVENTS];
static unsigned int nr_events, nr_sets, per_set;

static const struct {
	const char	*name;
	__u64		config;
} software[] = {
	{ "page-faults",	PERF_COUNT_SW_PAGE_FAULTS },
	{ "minor-faults",	PERF_COUNT_SW_PAGE_FAULTS_MIN },
	{ "context-switches",	PERF_COUNT_SW_CONTEXT_SWITCHES },
	{ "task-clock",		PERF_COUNT_SW_TASK_CLOCK },
};

#define NR_SOFTWARE	(sizeof(software) / sizeof(software[0]))

static long check(const char *what, long ret)
{
	if (ret < 0) {
		fprintf(stderr, "%s: %s\n", what, strerror(errno));
		exit(1);
	}
	return ret;
}

/* The same work in each run: a loop, and memory that is touched and freed. */
static __u64 work(unsigned int rounds)
{
	size_t page = sysconf(_SC_PAGESIZE), size = 64 * page, i;
	struct timespec start, end;
	volatile char *mem;

	mem = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	check("mmap", mem == MAP_FAILED ? -1 : 0);
	madvise((void *)mem, size, MADV_NOHUGEPAGE);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start);
	while (rounds--) {
		for (volatile unsigned int loop = 0; loop < 50000; loop++)
			;
		for (i = 0; i < size; i += page)
			mem[i] = 1;
		madvise((void *)mem, size, MADV_DONTNEED);
	}
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
	munmap((void *)mem, size);
	return (end.tv_sec - start.tv_sec) * 1000000000ULL + end.tv_nsec - start.tv_nsec;
}

/* Parse a description such as "event=0xc0,umask=0x01". */
static __u64 find_hardware(const char *name)
{
	char path[128], text[128] = "", *umask;
	FILE *file;
	__u64 code;

	snprintf(path, sizeof(path), "/sys/bus/event_source/devices/cpu/events/%s", name);
	file = fopen(path, "r");
	check(path, file ? 0 : -1);
	if (!fgets(text, sizeof(text), file) || sscanf(text, "event=%llx", &code) != 1) {
		fprintf(stderr, "%s: not an event code\n", path);
		exit(1);
	}
	fclose(file);
	umask = strstr(text, "umask=");
	return umask ? code | strtoull(umask + 6, NULL, 16) << 8 : code;
}

static void add_event(const char *name)
{
	struct event *event = &events[nr_events];
	unsigned int i;

	event->name = name;
	event->set = nr_events / per_set;
	nr_sets = event->set + 1;
	for (i = 0; i < NR_SOFTWARE && strcmp(name, software[i].name); i++)
		;
	if (i < NR_SOFTWARE) {
		event->type = PERF_TYPE_SOFTWARE;
		event->config = software[i].config;
		event->reg = PFM_SW_BASE + event->config;
	} else {
		event->type = PERF_TYPE_RAW;
		event->config = find_hardware(name);
		event->reg = nr_events % per_set;
	}
	nr_events++;
}

/* Count user mode only, if the event supports it. */
static void open_event(struct event *event)
{
	struct perf_event_attr attr = {
		.type		= event->type,
		.size		= sizeof(attr),
		.config		= event->config,
		.disabled	= 1,
		.exclude_kernel	= event->type == PERF_TYPE_RAW,
		.exclude_hv	= event->type == PERF_TYPE_RAW,
		.read_format	= PERF_FORMAT_TOTAL_TIME_ENABLED |
				  PERF_FORMAT_TOTAL_TIME_RUNNING,
	};

	event->fd = check("perf_event_open",
			  syscall(__NR_perf_event_open, &attr, 0, -1, -1, 0));
}

/* Open each event alone, so that perf multiplexes them if there are too few counters. */
static void run_with_perf(unsigned int first, unsigned int last, unsigned int rounds)
{
	unsigned int i;

	for (i = first; i < last; i++)
		open_event(&events[i]);
	for (i = first; i < last; i++)
		check("ENABLE", ioctl(events[i].fd, PERF_EVENT_IOC_ENABLE, 0));
	work(rounds);
	for (i = first; i < last; i++)
		check("DISABLE", ioctl(events[i].fd, PERF_EVENT_IOC_DISABLE, 0));
	for (i = first; i < last; i++) {
		check("read", read(events[i].fd, &events[i].perf, sizeof(struct reading)));
		close(events[i].fd);
	}
}

static void run_exactly(unsigned int rounds)
{
	unsigned int first, last, i;

	for (first = 0; first < nr_events; first = last) {
		last = first + per_set < nr_events ? first + per_set : nr_events;
		run_with_perf(first, last, rounds);
		for (i = first; i < last; i++) {
			events[i].exact = events[i].perf.value;
			if (events[i].perf.running != events[i].perf.enabled)
				fprintf(stderr, "%s: no counter of its own\n", events[i].name);
		}
	}
}

static int sets_open(void)
{
	struct pfarg_ctx ctx = { .ctx_pmu_type = PERF_TYPE_RAW };
	struct pfarg_load load = { .load_pid = syscall(__NR_gettid) };
	struct event *event;
	unsigned int i;
	int fd;

	fd = check("pfm_create_context",
		   syscall(PFM_CALL(0), &ctx, NULL, NULL, 0));
	for (i = 0; i < nr_sets; i++) {
		struct pfarg_setdesc set = {
			.set_id = i, .set_flags = PFM_SETFL_TIME_SWITCH,
			.set_timeout = NSEC_PER_MSEC,
		};

		check("pfm_create_evtsets", syscall(PFM_CALL(8), fd, &set, 1));
		sets[i].set_id = i;
	}
	for (event = events; event < events + nr_events; event++) {
		struct pfarg_pmc pmc = {
			.reg_num = event->reg, .reg_set = event->set, .reg_value = event->config,
			.reg_flags = PFM_REGFL_EXCL_KERNEL | PFM_REGFL_EXCL_HV,
		};

		event->pmd.reg_num = event->reg;
		event->pmd.reg_set = event->set;
		if (event->type == PERF_TYPE_RAW)
			check("pfm_write_pmcs", syscall(PFM_CALL(1), fd, &pmc, 1));
		check("pfm_write_pmds", syscall(PFM_CALL(2), fd, &event->pmd, 1));
	}
	check("pfm_load_context", syscall(PFM_CALL(4), fd, &load));
	return fd;
}

static __u64 run_with_sets(unsigned int rounds)
{
	int fd = sets_open();
	unsigned int i;
	__u64 time;

	check("pfm_start", syscall(PFM_CALL(5), fd, NULL));
	time = work(rounds);
	check("pfm_stop", syscall(PFM_CALL(6), fd));
	for (i = 0; i < nr_events; i++)
		check("pfm_read_pmds", syscall(PFM_CALL(3), fd, &events[i].pmd, 1));
	check("pfm_getinfo_evtsets", syscall(PFM_CALL(9), fd, sets, nr_sets));
	close(fd);
	return time;
}

/* Print a value that was counted for @part of @whole, scaled, and its error. */
static void print_scaled(const struct event *event, double value, double part, double whole)
{
	double scaled = part ? value * whole / part : 0;

	printf(" %6.2f %14.0f", 100 * part / whole, scaled);
	if (event->exact)
		printf(" %+8.3f", 100 * (scaled / event->exact - 1));
	else
		printf(" %8s", "-");
}

static void print_table(__u64 time)
{
	const struct event *event;
	__u64 total = 0;
	unsigned int i;

	for (i = 0; i < nr_sets; i++)
		total += sets[i].set_act_duration;
	printf("%-17s %14s | %6s %14s %8s | %6s %14s %8s\n", "event", "exact",
	       "% time", "by event sets", "error %", "% time", "by perf", "error %");
	for (event = events; event < events + nr_events; event++) {
		printf("%-17s %14.0f |", event->name, event->exact);
		print_scaled(event, event->pmd.reg_value,
			     sets[event->set].set_act_duration, total);
		printf(" |");
		print_scaled(event, event->perf.value, event->perf.running, event->perf.enabled);
		printf("\n");
	}
	for (i = 0; i < nr_sets; i++)
		printf("set %u: %llu runs, %llu ns, its counters %llu of %llu ns\n", i,
		       sets[i].set_runs, sets[i].set_act_duration, sets[i].set_running_ns,
		       sets[i].set_enabled_ns);
	printf("all sets: %llu ns, the program says %llu\n", total, time);
}

int main(int argc, char **argv)
{
	unsigned int rounds = argc > 1 ? strtoul(argv[1], NULL, 0) : 500, i;
	__u64 time;

	per_set = argc > 3 ? strtoul(argv[2], NULL, 0) : 1;
	if (!rounds || !per_set || per_set > PER_SET_MAX || argc == 3 ||
	    argc > 3 + MAX_EVENTS) {
		fprintf(stderr, "usage: %s [ROUNDS [PER_SET EVENT...]]\n", argv[0]);
		return 1;
	}
	for (i = 3; i < (unsigned int)argc; i++)
		add_event(argv[i]);
	for (i = 0; i < NR_SOFTWARE && argc < 4; i++)
		add_event(software[i].name);

	run_exactly(rounds);
	time = run_with_sets(rounds);
	run_with_perf(0, nr_events, rounds);
	print_table(time);
	return 0;
}
