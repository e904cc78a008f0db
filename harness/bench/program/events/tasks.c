// SPDX-License-Identifier: GPL-2.0
/* The life of a task, with events that it inherits. */
#include "bench.h"

#include <stdlib.h>
#include <sys/wait.h>

static void fork_run(void *arg)
{
	pid_t child = fork();

	if (!child)
		_exit(0);
	waitpid(child, NULL, 0);
}

static void vfork_run(void *arg)
{
	pid_t child = vfork();

	if (!child)
		_exit(0);
	waitpid(child, NULL, 0);
}

static void exec_run(void *arg)
{
	/* main() leaves at once when it is called like this. */
	static char * const argv[] = { "/proc/self/exe", "exit", NULL };
	static char * const envp[] = { NULL };
	pid_t child = vfork();

	if (!child) {
		execve(argv[0], (char **)argv, (char **)envp);
		_exit(1);
	}
	waitpid(child, NULL, 0);
}

static void measure_life(void (*run)(void *arg), int nr, bool hardware,
			 const char *operation)
{
	const struct op op = { .run = run, .batch = 1, .rounds = nr ? 200 : 1000 };
	struct cost cost = measure(&op);

	if (nr)
		report("Z1w", cost, "%s, %d %s inherited", operation, nr,
		       hardware ? "hw" : "sw");
	else
		report("Z0w", cost, "%s", operation);
}

static void lives(int nr, bool hardware)
{
	struct group group;

	if (!group_open(&group, nr, hardware, 0, true))
		return;
	measure_life(fork_run, nr, hardware, "fork + exit + wait");
	if (!hardware && (!nr || nr == 8)) {
		measure_life(vfork_run, nr, hardware, "vfork + exit + wait");
		measure_life(exec_run, nr, hardware, "vfork + exec + exit + wait");
	}
	group_close(&group);
}

void bench_tasks(void)
{
	lives(0, false);
	lives(1, false);
	lives(4, false);
	lives(8, false);
	if (!ARCH_HARDWARE)
		return;
	lives(1, true);
	lives(4, true);
}
