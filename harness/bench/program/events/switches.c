// SPDX-License-Identifier: GPL-2.0
/* Two tasks that pass one byte back and forth: two context switches a round trip. */
#include "bench.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* The tasks that have events, which a switch takes off the PMU and puts on it */
enum owner {
	OWNER_NOBODY,
	OWNER_BOTH,
	OWNER_MAPPED,
	OWNER_ONE,
	OWNER_INHERITED,
};

static const char * const owner_name[] = {
	[OWNER_BOTH]		= "own in both tasks",
	[OWNER_MAPPED]		= "mapped in both tasks",
	[OWNER_ONE]		= "in one task",
	[OWNER_INHERITED]	= "inherited",
};

struct pair {
	int to_child[2];
	int to_parent[2];
};

static void round_trip_run(void *arg)
{
	struct pair *pair = arg;
	char byte = 'a';

	call3(SYS_write, pair->to_child[1], (long)&byte, 1);
	call3(SYS_read, pair->to_parent[0], (long)&byte, 1);
}

static void echo(struct pair *pair)
{
	char byte;

	close(pair->to_child[1]);
	while (call3(SYS_read, pair->to_child[0], (long)&byte, 1) == 1)
		call3(SYS_write, pair->to_parent[1], (long)&byte, 1);
	_exit(0);
}

static void measure_pair(struct pair *pair, int nr, bool hardware, enum owner owner)
{
	const struct op op = {
		.run = round_trip_run,
		.arg = pair,
		/* Batches of one, so that a timer tick affects only one of them. */
		.batch = 1,
		.rounds = 400,
		/*
		 * Each wakeup costs six more while the scheduler takes the CPU for
		 * overloaded, see add_nr_running(), which it does for a while after
		 * another task wanted to run at the wrong moment.
		 */
		.percentile = 10,
	};
	struct cost cost = measure(&op), again;
	int i;

	/* An overload may last for a whole row: an exact one takes the least of several. */
	for (i = 0; i < 4 && owner == OWNER_NOBODY; i++) {
		usleep(50000);
		again = measure(&op);
		if (again.insn < cost.insn)
			cost = again;
	}
	if (owner == OWNER_NOBODY)
		report("Z0", cost, "ping-pong round trip");
	else
		report(owner == OWNER_MAPPED ? "R4" : "Z1w", cost, "ping-pong round trip, %d %s %s", nr,
		       hardware ? "hw" : "sw", owner_name[owner]);
}

/* Opens the events that a task has of its own; the mappings go with the task. */
static void open_own(struct group *group, int nr, bool hardware, enum owner owner)
{
	int i;

	if (owner == OWNER_INHERITED)
		return;
	group_open(group, nr, hardware, 0, false);
	for (i = 0; owner == OWNER_MAPPED && i < group->nr; i++)
		ring_map(group->fd[i], 0);
}

static void ping_pong(int nr, bool hardware, enum owner owner)
{
	struct group group = {};
	struct pair pair;
	pid_t child;

	if (pipe(pair.to_child) || pipe(pair.to_parent)) {
		report_wrong("ping-pong: no pipe");
		return;
	}
	/* A child's context can be swapped with its parent's if it was cloned from it. */
	if (owner == OWNER_INHERITED)
		group_open(&group, nr, hardware, 0, true);
	child = fork();
	if (!child) {
		if (owner == OWNER_BOTH || owner == OWNER_MAPPED)
			open_own(&group, nr, hardware, owner);
		echo(&pair);
	}
	if (owner != OWNER_NOBODY)
		open_own(&group, nr, hardware, owner);
	if (group.nr == nr)
		measure_pair(&pair, nr, hardware, owner);
	close(pair.to_child[1]);
	waitpid(child, NULL, 0);
	close(pair.to_child[0]);
	close(pair.to_parent[0]);
	close(pair.to_parent[1]);
	group_close(&group);
}

static void owners(int nr, bool hardware)
{
	ping_pong(nr, hardware, OWNER_BOTH);
	ping_pong(nr, hardware, OWNER_ONE);
	ping_pong(nr, hardware, OWNER_INHERITED);
}

/*
 * Among fair tasks, how long both have run decides whether a wakeup preempts the waker. This
 * time depends on the measured kernel, so use SCHED_FIFO.
 */
static void no_wakeup_preemption(void)
{
	const struct sched_param param = { .sched_priority = 1 };

	write_text("/proc/sys/kernel/sched_rt_runtime_us", "-1");
	if (sched_setscheduler(0, SCHED_FIFO, &param))
		report_wrong("SCHED_FIFO: %s", strerror(errno));
}

void bench_switches(void)
{
	no_wakeup_preemption();
	ping_pong(0, false, OWNER_NOBODY);
	owners(1, false);
	owners(4, false);
	owners(8, false);
	if (!ARCH_HARDWARE)
		return;
	owners(1, true);
	owners(4, true);
	ping_pong(1, true, OWNER_MAPPED);
	ping_pong(4, true, OWNER_MAPPED);
}
