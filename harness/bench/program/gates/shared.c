// SPDX-License-Identifier: GPL-2.0
/*
 * Gates that events of many CPUs share, as perf record opens them: a task has one
 * trigger, and a target for each CPU. A section of its own, in a guest with 64 CPUs.
 * This task stays on one of them, and the others idle.
 */
#define _GNU_SOURCE
#include "bench.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

#ifndef PERF_EVENT_IOC_JOIN_GATE
#define PERF_EVENT_IOC_JOIN_GATE	_IO('$', 17)
#endif
#define FORMAT_GATE_COUNT		BIT(6)
#define MOST_CPUS			64

/* A trigger, and events of this task on each CPU, which are its targets or not. */
struct crowd {
	int trigger;
	int event[2 * MOST_CPUS];
	int nr;
};

static void crowd_close(struct crowd *crowd)
{
	while (crowd->nr)
		close(crowd->event[--crowd->nr]);
	close(crowd->trigger);
}

/* The first event of a kind is the target, and those of other CPUs share its gate. */
static int crowd_link(struct crowd *crowd, int first, int fd)
{
	if (fd != first)
		return ioctl(fd, PERF_EVENT_IOC_JOIN_GATE, first);

	return ioctl(crowd->trigger, PERF_EVENT_IOC_SET_STARTER, fd) ||
	       ioctl(crowd->trigger, PERF_EVENT_IOC_SET_STOPPER, fd) ? -1 : 0;
}

/* Returns 0 or an errno. */
static int crowd_open(struct crowd *crowd, int cpus, int kinds, bool inherit, bool gated)
{
	static const __u64 configs[] = { PERF_COUNT_SW_PAGE_FAULTS, PERF_COUNT_SW_PAGE_FAULTS_MIN };
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.read_format = gated ? FORMAT_GATE_COUNT : 0,
		.inherit = inherit,
	};
	int kind, cpu, fd, first = -1, error;

	crowd->nr = 0;
	crowd->trigger = perf_count(PERF_TYPE_TRACEPOINT,
				    tracepoint_id("syscalls/sys_enter_getppid"), -1, 0, inherit);
	for (kind = 0; kind < kinds; kind++) {
		attr.config = configs[kind];
		for (cpu = 0; cpu < cpus; cpu++) {
			fd = syscall(SYS_perf_event_open, &attr, 0, cpu, -1, 0);
			if (fd < 0)
				goto fail;
			crowd->event[crowd->nr++] = fd;
			if (!cpu)
				first = fd;
			if (gated && crowd_link(crowd, first, fd))
				goto fail;
		}
	}
	return 0;
fail:
	error = errno;
	crowd_close(crowd);
	return error;
}

/* All windows that the firings make must be in the count of the gate. */
static void check_windows(struct crowd *crowd)
{
	__u64 value[2] = {}, firings = 0;

	if (read(crowd->trigger, &firings, sizeof(firings)) < 0 ||
	    read(crowd->event[0], value, sizeof(value)) < (ssize_t)sizeof(value))
		report_wrong("shared gate: cannot read its events: %s", strerror(errno));
	else if (!firings || value[1] != (firings + 1) / 2)
		report_wrong("shared gate: %llu windows counted, %llu made", value[1],
			     (firings + 1) / 2);
}

static int measure_edge(int cpus, struct cost *cost)
{
	const struct op op = { .run = getppid_run };
	struct crowd crowd;
	int error = crowd_open(&crowd, cpus, 1, false, true);

	if (error)
		return error;
	*cost = measure(&op);
	check_windows(&crowd);
	crowd_close(&crowd);
	return 0;
}

/* G7. Targets of other CPUs cost nothing here. */
static void edges(const int *cpus, int n)
{
	const char *row = "gate edge, a target on each of %d CPUs";
	struct cost base = measure_getppid(), few = {}, all;
	int i, error;

	for (i = 0; i < n; i++) {
		error = measure_edge(cpus[i], &all);
		if (error) {
			report_absent(i ? "G7" : "ref", error, row, cpus[i]);
			continue;
		}
		all = minus(all, base);
		if (i) {
			report_limit("G7", all, few.insn + 5, row, cpus[i]);
			continue;
		}
		few = all;
		report("ref", few, row, cpus[i]);
	}
}

static void fork_run(void *arg)
{
	pid_t child = fork();

	if (!child)
		_exit(0);
	waitpid(child, NULL, 0);
}

static int measure_fork(int cpus, bool gated, struct cost *cost)
{
	const struct op op = { .run = fork_run, .batch = 1, .rounds = 100 };
	struct crowd crowd;
	int error = crowd_open(&crowd, cpus, 2, true, gated);

	if (error)
		return error;
	*cost = measure(&op);
	crowd_close(&crowd);
	return 0;
}

/*
 * G8. The limit is 3 % over the plain events. With fewer events, the cost that does not
 * depend on their number is more than that: a task with gates keeps its context, and does
 * not exchange it with the next one.
 */
static void forks(int cpus)
{
	const char *row = "fork + exit + wait, 2 events on each of %d CPUs, inherited, gated";
	struct cost plain, gated;
	int error;

	error = measure_fork(cpus, false, &plain);
	if (error) {
		report_wrong("shared gate: no inherited events: %s", strerror(error));
		return;
	}
	report("ref", plain, "fork + exit + wait, 2 events on each of %d CPUs, inherited", cpus);
	error = measure_fork(cpus, true, &gated);
	if (error)
		report_absent(cpus == MOST_CPUS ? "G8" : "ref", error, row, cpus);
	else if (cpus == MOST_CPUS)
		report_limit("G8", gated, plain.insn * 1.03, row, cpus);
	else
		report("ref", gated, row, cpus);
}

void bench_shared(void)
{
	const int cpus[] = { 2, 16, MOST_CPUS };
	unsigned int n = 0;
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(0, &one);
	if (sched_setaffinity(0, sizeof(one), &one)) {
		report_wrong("shared gate: cannot stay on a CPU: %s", strerror(errno));
		return;
	}
	while (n < ARRAY_SIZE(cpus) && cpus[n] <= sysconf(_SC_NPROCESSORS_ONLN))
		n++;
	if (n < ARRAY_SIZE(cpus))
		report_wrong("shared gate: the guest has no %d CPUs", cpus[n]);
	edges(cpus, n);
	while (n--)
		forks(cpus[n]);
}
