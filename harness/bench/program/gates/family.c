// SPDX-License-Identifier: GPL-2.0
/*
 * Gates: what a task pays for events that it inherits along with a gate, beside
 * the same events without one. A section of its own: forks leave the page
 * allocator in another state.
 */
#include "bench.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

#define MOST_TARGETS	4

static void fork_run(void *arg)
{
	pid_t child = fork();

	if (!child)
		_exit(0);
	waitpid(child, NULL, 0);
}

/* A trigger and @nr targets, all inherited. */
struct family {
	int trigger;
	int target[MOST_TARGETS];
	int nr;
};

static void family_close(struct family *family)
{
	while (family->nr)
		close(family->target[--family->nr]);
	close(family->trigger);
}

/* Returns 0 or an errno. */
static int family_open(struct family *family, int nr, bool gated)
{
	int fd, error;

	family->nr = 0;
	family->trigger = perf_count(PERF_TYPE_TRACEPOINT,
				     tracepoint_id("syscalls/sys_enter_getppid"), -1, 0, true);
	while (family->nr < nr) {
		fd = perf_count(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS, -1, 0, true);
		if (fd < 0)
			goto fail;
		family->target[family->nr++] = fd;
		if (gated && (ioctl(family->trigger, PERF_EVENT_IOC_SET_STARTER, fd) ||
			      ioctl(family->trigger, PERF_EVENT_IOC_SET_STOPPER, fd)))
			goto fail;
	}
	return 0;
fail:
	error = errno;
	family_close(family);
	return error;
}

static int measure_fork(int nr, bool gated, struct cost *cost)
{
	const struct op op = { .run = fork_run, .batch = 1, .rounds = 400 };
	struct family family;
	int error = family_open(&family, nr, gated);

	if (error)
		return error;
	*cost = measure(&op);
	family_close(&family);
	return 0;
}

/* G6. The limit is 3 % over the plain events. */
static void forks(int nr)
{
	const char *gated_row = "fork + exit + wait, tracepoint gates %d page-faults, inherited";
	struct cost plain, gated;
	int error;

	if (measure_fork(nr, false, &plain)) {
		report_wrong("family: no inherited events");
		return;
	}
	report("Z1w", plain, "fork + exit + wait, tracepoint and %d page-faults inherited", nr);
	error = measure_fork(nr, true, &gated);
	if (error)
		report_absent(nr == 1 ? "G6" : "ref", error, gated_row, nr);
	else if (nr == 1)
		report_limit("G6", gated, plain.insn * 1.03, gated_row, nr);
	else
		report("ref", gated, gated_row, nr);
}

void bench_family(void)
{
	forks(1);
	forks(MOST_TARGETS);
}
