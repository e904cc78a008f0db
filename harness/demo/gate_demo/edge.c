// SPDX-License-Identifier: GPL-2.0
/*
 * The cost of moving a gate: a system call whose entry and exit are triggers, with a
 * target and without, and the same with ioctls.
 *
 * The rounds alternate and the best of each kind counts, because a guest does
 * not always have its host's CPU.
 */
#include "demo.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS	9
#define CALLS	10000

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1e9 + time.tv_nsec;
}

static double time_calls(void)
{
	double start = now();

	for (int i = 0; i < CALLS; i++)
		syscall(SYS_getppid);
	return now() - start;
}

static double time_ioctls(int fd)
{
	double start = now();

	for (int i = 0; i < CALLS; i++)
		if (ioctl(fd, PERF_EVENT_IOC_ENABLE, 0) ||
		    ioctl(fd, PERF_EVENT_IOC_DISABLE, 0))
			die("ENABLE, DISABLE: %s", strerror(errno));
	return now() - start;
}

static int open_self(__u32 type, __u64 config)
{
	struct perf_event_attr attr = event_attr(type, config);

	return event_open(&attr, 0);
}

static double least(double best, double time)
{
	return best && best < time ? best : time;
}

struct edge_cost measure_edge(void)
{
	int enter = open_self(PERF_TYPE_TRACEPOINT, tracepoint("syscalls/sys_enter_getppid"));
	int exit = open_self(PERF_TYPE_TRACEPOINT, tracepoint("syscalls/sys_exit_getppid"));
	int target = open_self(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS);
	int plain = open_self(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS);
	double bare = 0, gated = 0, switched = 0;
	struct edge_cost cost;

	for (int i = 0; i < ROUNDS; i++) {
		bare = least(bare, time_calls());
		set_starter(enter, target);
		set_stopper(exit, target);
		gated = least(gated, time_calls());
		if (ioctl(target, PERF_EVENT_IOC_CLEAR_GATE, 0))
			die("CLEAR_GATE: %s", strerror(errno));
		switched = least(switched, time_ioctls(plain));
	}
	cost.edge = (gated - bare) / (2 * CALLS);
	cost.ioctl = switched / (2 * CALLS);
	cost.calls = ROUNDS * CALLS;
	/* Taking a gate away opens it once more. */
	cost.windows = event_read(target).gate_count - ROUNDS;
	close(enter);
	close(exit);
	close(target);
	close(plain);
	return cost;
}
