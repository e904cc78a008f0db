// SPDX-License-Identifier: GPL-2.0
/*
 * Measure more events than the PMU has counters, with the time that each was
 * counted, and beside it what perf's own multiplexing says of the same events.
 *
 *	event_sets [MILLISECONDS]
 *
 * Each event has a set of its own; the kernel switches them every millisecond of
 * the program's time on the CPU. See Documentation/userspace-api/perfmon.rst.
 */
#define _GNU_SOURCE

#include <errno.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <linux/perfmon.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PFM_CALL(n)	(__NR_pfm_create_context + (n))
#define NSEC_PER_MSEC	1000000ULL

/* Software events, so that the program says something on every machine */
static const struct {
	const char	*name;
	uint64_t	event;
} events[] = {
	{ "page faults",	PERF_COUNT_SW_PAGE_FAULTS },
	{ "minor faults",	PERF_COUNT_SW_PAGE_FAULTS_MIN },
	{ "context switches",	PERF_COUNT_SW_CONTEXT_SWITCHES },
	{ "task clock, ns",	PERF_COUNT_SW_TASK_CLOCK },
};

#define NR_EVENTS	(sizeof(events) / sizeof(events[0]))

static long check(const char *what, long ret)
{
	if (ret < 0) {
		fprintf(stderr, "%s: %s\n", what, strerror(errno));
		exit(1);
	}
	return ret;
}

static uint64_t cpu_time(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return ts.tv_sec * 1000000000ULL + ts.tv_nsec;
}

/* What is measured: memory that is touched, given back and touched again */
static void work(unsigned long msec)
{
	size_t page = sysconf(_SC_PAGESIZE), size = 64 * page, i;
	uint64_t end = cpu_time() + msec * NSEC_PER_MSEC;
	volatile char *mem;

	mem = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (mem == MAP_FAILED)
		exit(1);
	while (cpu_time() < end) {
		for (i = 0; i < size; i += page)
			mem[i] = 1;
		madvise((void *)mem, size, MADV_DONTNEED);
	}
}

static int sets_open(void)
{
	struct pfarg_load load = { .load_pid = syscall(__NR_gettid) };
	struct pfarg_ctx ctx = { };
	unsigned int i;
	int fd;

	fd = check("pfm_create_context",
		   syscall(PFM_CALL(0), &ctx, NULL, NULL, 0));
	for (i = 0; i < NR_EVENTS; i++) {
		struct pfarg_setdesc set = {
			.set_id = i, .set_flags = PFM_SETFL_TIME_SWITCH,
			.set_timeout = NSEC_PER_MSEC,
		};
		struct pfarg_pmd pmd = {
			.reg_num = PFM_SW_BASE + events[i].event, .reg_set = i,
		};

		check("pfm_create_evtsets", syscall(PFM_CALL(8), fd, &set, 1));
		check("pfm_write_pmds", syscall(PFM_CALL(2), fd, &pmd, 1));
	}
	check("pfm_load_context", syscall(PFM_CALL(4), fd, &load));
	return fd;
}

int main(int argc, char **argv)
{
	unsigned long msec = argc > 1 ? strtoul(argv[1], NULL, 0) : 200;
	struct pfarg_setinfo info[NR_EVENTS] = { };
	struct pfarg_pmd pmd[NR_EVENTS] = { };
	struct perf_event_attr attr = { };
	int perf[NR_EVENTS], fd;
	uint64_t total = 0, whole;
	unsigned int i;

	fd = sets_open();
	attr.type = PERF_TYPE_SOFTWARE;
	attr.size = sizeof(attr);
	for (i = 0; i < NR_EVENTS; i++) {
		attr.config = events[i].event;
		perf[i] = check("perf_event_open",
				syscall(__NR_perf_event_open, &attr, 0, -1, -1, 0));
		info[i].set_id = i;
		pmd[i].reg_set = i;
		pmd[i].reg_num = PFM_SW_BASE + events[i].event;
	}

	check("pfm_start", syscall(PFM_CALL(5), fd, NULL));
	work(msec);
	check("pfm_stop", syscall(PFM_CALL(6), fd));
	check("pfm_read_pmds", syscall(PFM_CALL(3), fd, pmd, NR_EVENTS));
	check("pfm_getinfo_evtsets", syscall(PFM_CALL(9), fd, info, NR_EVENTS));

	for (i = 0; i < NR_EVENTS; i++)
		total += info[i].set_act_duration;
	printf("%-18s %8s %12s %14s %14s %14s\n", "event", "runs", "time, ns",
	       "counted", "scaled", "perf");
	for (i = 0; i < NR_EVENTS; i++) {
		double scale = (double)total / info[i].set_act_duration;

		if (read(perf[i], &whole, sizeof(whole)) != sizeof(whole))
			whole = 0;
		printf("%-18s %8" PRIu64 " %12" PRIu64 " %14" PRIu64 " %14.0f %14" PRIu64 "\n",
		       events[i].name, (uint64_t)info[i].set_runs,
		       (uint64_t)info[i].set_act_duration, (uint64_t)pmd[i].reg_value,
		       pmd[i].reg_value * scale, whole);
	}
	printf("%-18s %8s %12" PRIu64 "\n", "all sets", "", total);
	return 0;
}
