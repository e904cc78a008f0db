// SPDX-License-Identifier: GPL-2.0
/*
 * Switch the tracepoint of task switches on and off while another CPU does nothing
 * but switch tasks, and count how often it was on and saw none of them: that CPU
 * runs code as it was before the kernel has patched it.
 *
 * Usage: stale-code SECONDS. Exit status: 0, 1 if it was seen, 2 on errors.
 */
#define _GNU_SOURCE

#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <linux/perf_event.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define ID	"/sys/kernel/tracing/events/sched/sched_switch/id"

static void run_on(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

static void wait_for(double seconds)
{
	double end = now() + seconds;

	while (now() < end)
		;
}

static int open_event(unsigned int type, unsigned long config)
{
	struct perf_event_attr attr = { .type = type, .size = sizeof(attr), .config = config };

	return syscall(__NR_perf_event_open, &attr, -1, 1, -1, 0);
}

static unsigned long long count(int fd)
{
	unsigned long long value = 0;

	if (read(fd, &value, sizeof(value)) != sizeof(value))
		exit(2);
	return value;
}

/* The second event finds the tracepoint on; the software event needs no patching. */
static bool is_stale(unsigned long id)
{
	int other = open_event(PERF_TYPE_TRACEPOINT, id);
	int switches = open_event(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES);
	bool stale;

	wait_for(0.05);
	stale = !count(other) && count(switches) > 10;
	close(other);
	close(switches);
	return stale;
}

int main(int argc, char *argv[])
{
	unsigned int nr = 0, nr_stale = 0, i;
	FILE *file = fopen(ID, "r");
	unsigned long id;
	double end;
	int fd;

	if (argc != 2 || !file || fscanf(file, "%lu", &id) != 1) {
		fprintf(stderr, "usage: stale-code SECONDS, with tracefs at %s\n", ID);
		return 2;
	}
	end = now() + atoi(argv[1]);
	for (i = 0; i < 2; i++) {
		if (fork())
			continue;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		run_on(1);
		for (;;)
			sched_yield();
	}
	run_on(0);
	for (; now() < end; nr++) {
		fd = open_event(PERF_TYPE_TRACEPOINT, id);
		if (fd < 0) {
			perror("perf_event_open");
			return 2;
		}
		wait_for(0.001);
		nr_stale += !count(fd) && is_stale(id);
		close(fd);
	}
	printf("switched on %u times, %u times without effect\n", nr, nr_stale);
	return nr_stale ? 1 : 0;
}
