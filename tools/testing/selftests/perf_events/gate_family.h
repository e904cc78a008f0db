/* SPDX-License-Identifier: GPL-2.0 */
/*
 * perf gate selftests - inherited events, and tasks under remote control
 *
 * A puppet is a child or a thread that makes the calls which its tester names
 * by one letter each, and reports when each call is done. Between two letters
 * it sleeps, so that a window contains nothing else of it.
 */
#ifndef _GATE_FAMILY_H
#define _GATE_FAMILY_H

#include <ctype.h>
#include <sys/socket.h>

#include "gate_helpers.h"

#define EVENT_SLAB	"/sys/kernel/slab/perf_event/"

struct puppet {
	pid_t		pid;
	int		tester_end;
	int		puppet_end;
	const int	*cpus;
};

static inline struct perf_event_attr inherited_attr(__u32 type, __u64 config)
{
	struct perf_event_attr attr = gate_attr(type, config);

	attr.inherit = 1;
	return attr;
}

static inline int open_inherited(const char *tracepoint)
{
	struct perf_event_attr attr;

	attr = inherited_attr(PERF_TYPE_TRACEPOINT, tracepoint_id(tracepoint));
	return gate_open(&attr, 0, -1);
}

/*
 * Replace the triggers of triggers_open(). With an event that is not inherited, the
 * kernel would not treat the contexts of two threads as equal.
 */
static inline void triggers_inherit(struct __test_metadata *const _metadata,
				    struct gate_triggers *triggers)
{
	triggers_close(triggers);
	triggers->starter = open_inherited("syscalls/sys_enter_getuid");
	ASSERT_LE(0, triggers->starter) {
		TH_LOG("inherited events with read_format of gates: %s", strerror(errno));
	}
	triggers->stopper = open_inherited("syscalls/sys_enter_geteuid");
	ASSERT_LE(0, triggers->stopper);
}

/* Run @nr windows with @inside calls of getppid(2) in each and @outside calls after each. */
static inline void run_windows(unsigned int nr, unsigned int inside, unsigned int outside)
{
	while (nr--) {
		window_open();
		call_getppid(inside);
		window_close();
		call_getppid(outside);
	}
}

static inline void puppet_prepare(struct __test_metadata *const _metadata,
				  struct puppet *puppet)
{
	int ends[2];

	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
	puppet->tester_end = ends[0];
	puppet->puppet_end = ends[1];
}

/* Commands: 'o'pen or 'c'lose a window, 'g'etppid, a digit to go to that CPU, e'x'it. */
static inline void puppet_live(const struct puppet *puppet)
{
	char letter = 0;

	while (letter != 'x' && read(puppet->puppet_end, &letter, 1) == 1) {
		if (letter == 'o')
			window_open();
		else if (letter == 'c')
			window_close();
		else if (letter == 'g')
			call_getppid(1);
		else if (isdigit(letter))
			pin_to_cpu(puppet->cpus[letter - '0']);
		if (write(puppet->puppet_end, &letter, 1) != 1)
			break;
	}
}

static inline void puppet_fork(struct __test_metadata *const _metadata,
			       struct puppet *puppet)
{
	puppet_prepare(_metadata, puppet);
	puppet->pid = fork();
	ASSERT_LE(0, puppet->pid);
	if (!puppet->pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		puppet_live(puppet);
		_exit(0);
	}
}

/* Returns when the puppet has executed all commands, or false if it is gone. */
static inline bool tell(const struct puppet *puppet, const char *letters)
{
	char done;

	for (; *letters; letters++) {
		if (write(puppet->tester_end, letters, 1) != 1 ||
		    read(puppet->tester_end, &done, 1) != 1)
			return false;
	}
	return true;
}

/* Wait until the puppet has exited and its counts belong to its parent's event. */
static inline void puppet_end(struct __test_metadata *const _metadata,
			      const struct puppet *puppet)
{
	EXPECT_TRUE(tell(puppet, "x"));
	wait_for_success(_metadata, puppet->pid);
	close(puppet->tester_end);
	close(puppet->puppet_end);
}

/* Number of events in the system, -1 if the kernel does not provide it. */
static inline long count_events(void)
{
	int fd = open(EVENT_SLAB "shrink", O_WRONLY);

	if (fd < 0)
		return -1;
	/* Flush per-CPU caches, whose objects would count as in use. */
	if (write(fd, "1", 1) != 1)
		perror(EVENT_SLAB "shrink");
	close(fd);
	return read_number(EVENT_SLAB "objects");
}

/* Events are freed after a grace period, and tasks end after their parent was notified. */
static inline bool events_go_down_to(long wanted)
{
	__u64 end = clock_ns(CLOCK_MONOTONIC) + 20 * NSEC_PER_SEC;
	long nr;

	while ((nr = count_events()) > wanted) {
		if (clock_ns(CLOCK_MONOTONIC) > end) {
			fprintf(stderr, "# %ld events, %ld at the start\n", nr, wanted);
			return false;
		}
		usleep(100000);
	}
	return true;
}

#endif
