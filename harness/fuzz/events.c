// SPDX-License-Identifier: GPL-2.0
/*
 * fuzz - events of all kinds, their gates, and what lets them count
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <linux/hw_breakpoint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "fuzz.h"

#define TRACING		"/sys/kernel/tracing/events/syscalls/"

volatile uint64_t watched[4];

/* A target of probes, with an address of its own, and more than a jump to begin with. */
__attribute__((noinline)) void probed(void)
{
	asm volatile("" : : : "memory");
	watched[3]++;
}

static unsigned int tracepoint_id(const char *name)
{
	char path[128], text[16] = "";
	int fd;

	snprintf(path, sizeof(path), TRACING "%s/id", name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	if (read(fd, text, sizeof(text) - 1) < 1)
		text[0] = 0;
	close(fd);
	return atoi(text);
}

/* Get the offset of a function in the file of this program, which is not relocated. */
static uint64_t file_offset(void (*function)(void))
{
	extern char __executable_start[];
	uint64_t address = (uintptr_t)function;

#if defined(__powerpc64__)
	/* Skip the instructions that set up the pointer to the table of contents. */
	address += 8;
#endif
	return address - (uintptr_t)__executable_start;
}

#define NR_TRACEPOINTS	3

/* The first two begin and end what fire() does most. */
static unsigned int nth_tracepoint(unsigned int which)
{
	static const char *const names[NR_TRACEPOINTS] = {
		"sys_enter_getuid", "sys_exit_getuid", "sys_enter_getppid",
	};
	static unsigned int ids[NR_TRACEPOINTS];

	if (!ids[which])
		ids[which] = tracepoint_id(names[which]);
	return ids[which];
}

/* Prefer events that any user may open, because two of them can be linked. */
static void pick_kind(struct walk *walk, struct perf_event_attr *attr)
{
	static unsigned int sim, sim_aux, uprobe;
	unsigned int kind;

	if (!sim) {
		uprobe = pmu_type("uprobe");
		sim_aux = pmu_type("pmusim_aux");
		sim = pmu_type("pmusim");
	}
	attr->sample_period = once_in(walk, 2) ? 1 + below(walk, 100) : 0;
	kind = below(walk, 16);
	/* A walk that is kept to one area prefers the event with which it can do most. */
	if (once_in(walk, 2)) {
		switch (walk->areas) {
		case RING:
			attr->type = PERF_TYPE_SOFTWARE;
			attr->config = PERF_COUNT_SW_PAGE_FAULTS;
			attr->sample_period = 1 + below(walk, 2);
			return;
		case AUX:
			kind = 15;
			break;
		case PAGE:
			kind = 10 + below(walk, 4);
			break;
		}
	}
	switch (kind) {
	case 0 ... 3:
		attr->type = PERF_TYPE_SOFTWARE;
		attr->config = once_in(walk, 2) ? PERF_COUNT_SW_PAGE_FAULTS :
						  below(walk, PERF_COUNT_SW_MAX);
		/* The period of a clock is a time. */
		if (attr->config <= PERF_COUNT_SW_TASK_CLOCK && attr->sample_period)
			attr->sample_period = NSEC_PER_MSEC * (1 + below(walk, 10));
		break;
	case 4 ... 7:
		attr->type = PERF_TYPE_TRACEPOINT;
		attr->config = nth_tracepoint(below(walk, NR_TRACEPOINTS));
		break;
	case 8:
		attr->type = PERF_TYPE_BREAKPOINT;
		attr->bp_type = HW_BREAKPOINT_W;
		attr->bp_addr = (uintptr_t)&watched[below(walk, 4)];
		attr->bp_len = HW_BREAKPOINT_LEN_4 << below(walk, 2);
		break;
	case 9:
		attr->type = uprobe;
		attr->config = below(walk, 2);
		attr->uprobe_path = (uintptr_t)"/proc/self/exe";
		attr->probe_offset = file_offset(probed);
		break;
	case 10:
		attr->type = PERF_TYPE_HARDWARE;
		attr->config = below(walk, PERF_COUNT_HW_MAX);
		if (attr->sample_period)
			attr->sample_period = 100000 * (1 + below(walk, 10));
		break;
	case 11 ... 13:
		attr->type = sim;
		attr->config = below(walk, 4);
		break;
	default:
		attr->type = sim_aux;
		attr->config = below(walk, 2);
	}
}

/* Half of the events are plain, so that there is much that can be done with them. */
static void pick_attributes(struct walk *walk, struct perf_event_attr *attr)
{
	attr->size = sizeof(*attr);
	attr->exclude_kernel = once_in(walk, 2);
	attr->gate_nest = once_in(walk, 4);
	attr->aux_lost = attr->type == pmu_type("pmusim_aux") && once_in(walk, 3);
	attr->read_format = below(walk, PERF_FORMAT_MAX) & ~PERF_FORMAT_GROUP;
	attr->sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME;
	if (once_in(walk, 2))
		return;
	attr->sample_type = any_word(walk) & (PERF_SAMPLE_MAX - 1) &
			    ~(PERF_SAMPLE_BRANCH_STACK | PERF_SAMPLE_REGS_USER |
			      PERF_SAMPLE_REGS_INTR | PERF_SAMPLE_STACK_USER | PERF_SAMPLE_AUX |
			      PERF_SAMPLE_DATA_SRC | PERF_SAMPLE_WEIGHT_STRUCT);
	attr->disabled = once_in(walk, 3);
	attr->inherit = once_in(walk, 3);
	attr->inherit_thread = attr->inherit && once_in(walk, 3);
	attr->inherit_stat = attr->inherit && once_in(walk, 6);
	attr->pinned = once_in(walk, 12);
	attr->exclusive = once_in(walk, 24);
	attr->exclude_user = once_in(walk, 12);
	attr->mmap = once_in(walk, 6);
	attr->comm = once_in(walk, 6);
	attr->task = once_in(walk, 6);
	attr->context_switch = once_in(walk, 8);
	attr->enable_on_exec = once_in(walk, 6);
	attr->sample_id_all = once_in(walk, 2);
	attr->write_backward = once_in(walk, 10);
	attr->remove_on_exec = once_in(walk, 10);
	attr->sigtrap = attr->remove_on_exec && once_in(walk, 2);
	attr->start_paused = once_in(walk, 6);
	if (attr->inherit)
		attr->sample_type &= ~PERF_SAMPLE_READ;
	else
		attr->read_format |= once_in(walk, 3) ? PERF_FORMAT_GROUP : 0;
	if (once_in(walk, 3)) {
		attr->watermark = 1;
		attr->wakeup_watermark = below(walk, 16384);
	} else {
		attr->wakeup_events = below(walk, 4);
	}
	/* Try something that no test was written for. */
	if (once_in(walk, 32))
		((unsigned char *)attr)[below(walk, sizeof(*attr))] ^= 1 << below(walk, 8);
}

static long open_event(struct walk *walk)
{
	struct perf_event_attr attr = {};
	unsigned long flags = once_in(walk, 2) ? PERF_FLAG_FD_CLOEXEC : 0;
	int group = once_in(walk, 4) ? any_fd(walk) : -1, cpu = -1, fd;
	pid_t pid = 0;

	pick_kind(walk, &attr);
	pick_attributes(walk, &attr);
	switch (below(walk, 8)) {
	case 0:
		pid = -1;
		cpu = below(walk, 2);
		break;
	case 1:
		pid = walk->board->pids[below(walk, NR_WORKERS)];
		break;
	case 2:
		cpu = below(walk, 2);
		break;
	case 3:
		if (group >= 0)
			flags |= once_in(walk, 2) ? PERF_FLAG_FD_OUTPUT : PERF_FLAG_FD_NO_GROUP;
		break;
	}
	fd = syscall(__NR_perf_event_open, &attr, pid, cpu, group, flags);
	if (fd >= 0)
		put_fd(walk, fd);
	return fd;
}

static long close_any(struct walk *walk)
{
	put_fd(walk, -1);
	return 0;
}

static long copy_any(struct walk *walk)
{
	int fd = dup(any_fd(walk));

	if (fd >= 0)
		put_fd(walk, fd);
	return fd;
}

/* Make one of the plain ioctls, one in 16 with an invalid argument. */
static long control(struct walk *walk)
{
	static const unsigned long commands[] = {
		PERF_EVENT_IOC_ENABLE, PERF_EVENT_IOC_DISABLE, PERF_EVENT_IOC_RESET,
		PERF_EVENT_IOC_REFRESH,
	};
	unsigned long arg = once_in(walk, 4) ? PERF_IOC_FLAG_GROUP : below(walk, 3);

	if (once_in(walk, 16))
		arg = any_word(walk);
	return ioctl(any_fd(walk), commands[below(walk, 4)], arg);
}

static long change(struct walk *walk)
{
	struct perf_event_attr attr = {};
	uint64_t word = 1 + below(walk, 1000000);
	int fd = any_fd(walk);

	switch (below(walk, 6)) {
	case 0:
		return ioctl(fd, PERF_EVENT_IOC_PERIOD, &word);
	case 1:
		return ioctl(fd, PERF_EVENT_IOC_ID, &word);
	case 2:
		return ioctl(fd, PERF_EVENT_IOC_SET_FILTER, once_in(walk, 2) ? "common_pid > 1" : "0");
	case 3:
		pick_kind(walk, &attr);
		pick_attributes(walk, &attr);
		return ioctl(fd, PERF_EVENT_IOC_MODIFY_ATTRIBUTES, &attr);
	case 4:
		return fcntl(fd, F_SETFL, once_in(walk, 2) ? O_NONBLOCK | O_ASYNC : O_NONBLOCK);
	default:
		return prctl(once_in(walk, 2) ? PR_TASK_PERF_EVENTS_DISABLE :
						PR_TASK_PERF_EVENTS_ENABLE);
	}
}

static long read_value(struct walk *walk)
{
	uint64_t values[256];

	return read(any_fd(walk), values, once_in(walk, 8) ? below(walk, 64) : sizeof(values));
}

static unsigned long any_target(struct walk *walk)
{
	if (once_in(walk, 24))
		return any_word(walk);
	return once_in(walk, 16) ? -1UL : (unsigned long)any_fd(walk);
}

static long link_gate(struct walk *walk)
{
	unsigned long command = once_in(walk, 2) ? PERF_EVENT_IOC_SET_STARTER :
						   PERF_EVENT_IOC_SET_STOPPER;

	return ioctl(any_fd(walk), command, any_target(walk));
}

/* Link a starter and a stopper at once, so that there are gates that open and close. */
static long link_both(struct walk *walk)
{
	unsigned long target = any_fd(walk);
	long ret = ioctl(any_fd(walk), PERF_EVENT_IOC_SET_STARTER, target);

	return ioctl(any_fd(walk), PERF_EVENT_IOC_SET_STOPPER, target) & ret;
}

static long join_gate(struct walk *walk)
{
	return ioctl(any_fd(walk), PERF_EVENT_IOC_JOIN_GATE, any_target(walk));
}

/* Open a gate as perf does: two triggers on any CPU, and targets that share it. */
static long open_gate(struct walk *walk)
{
	const struct perf_event_attr plain = {
		.size = sizeof(plain), .inherit = once_in(walk, 2), .gate_nest = once_in(walk, 4),
		.read_format = PERF_FORMAT_GATE_TIME | PERF_FORMAT_GATE_COUNT,
	};
	pid_t pid = once_in(walk, 3) ? walk->board->pids[below(walk, NR_WORKERS)] : 0;
	unsigned int nr = 1 + below(walk, 4);
	struct perf_event_attr attr;
	int ends[2], first = -1, fd;

	for (unsigned int i = 0; i < 2; i++) {
		attr = plain;
		attr.type = PERF_TYPE_TRACEPOINT;
		attr.config = nth_tracepoint(once_in(walk, 4) ? below(walk, NR_TRACEPOINTS) : i);
		ends[i] = syscall(__NR_perf_event_open, &attr, pid, -1, -1, 0);
		if (ends[i] >= 0)
			put_fd(walk, ends[i]);
	}
	while (nr--) {
		attr = plain;
		pick_kind(walk, &attr);
		fd = syscall(__NR_perf_event_open, &attr, pid, (int)below(walk, 3) - 1, -1, 0);
		if (fd < 0)
			continue;
		put_fd(walk, fd);
		if (first >= 0)
			ioctl(fd, PERF_EVENT_IOC_JOIN_GATE, first);
		else if (!ioctl(ends[0], PERF_EVENT_IOC_SET_STARTER, fd) &&
			 !ioctl(ends[1], PERF_EVENT_IOC_SET_STOPPER, fd))
			first = fd;
	}
	return first;
}

static long clear_gate(struct walk *walk)
{
	return ioctl(any_fd(walk), PERF_EVENT_IOC_CLEAR_GATE, once_in(walk, 8) ? any_word(walk) : 0);
}

/* Set what is recorded of each window, mostly with valid values. */
static long set_windows(struct walk *walk)
{
	struct perf_event_windows windows = {
		.size = sizeof(windows), .flags = below(walk, 4), .measure = below(walk, 3),
		.min = once_in(walk, 2) ? 0 : below(walk, 100000),
	};

	if (once_in(walk, 16))
		((unsigned char *)&windows)[below(walk, sizeof(windows))] ^= 1 << below(walk, 8);
	return ioctl(any_fd(walk), PERF_EVENT_IOC_SET_WINDOWS,
		     once_in(walk, 64) ? any_word(walk) : (unsigned long)&windows);
}

static long get_windows(struct walk *walk)
{
	static struct {
		struct perf_event_histogram head;
		__u64 bucket[PERF_EVENT_HISTOGRAM_BUCKETS];
	} histogram;

	memset(&histogram.head, 0, sizeof(histogram.head));
	histogram.head.size = once_in(walk, 16) ? any_word(walk) : sizeof(histogram.head);
	histogram.head.nr_buckets = once_in(walk, 16) ? any_word(walk) :
							PERF_EVENT_HISTOGRAM_BUCKETS;
	return ioctl(any_fd(walk), PERF_EVENT_IOC_GET_WINDOWS,
		     once_in(walk, 64) ? any_word(walk) : (unsigned long)&histogram);
}

/* Do something that a trigger or a target may count. */
static long fire(struct walk *walk)
{
	static const char *const ticks[] = { "cpu0/tick", "cpu1/tick" };
	unsigned int nr = 1 + below(walk, 8);
	char path[64], text[32];
	char *page;

	switch (below(walk, 6)) {
	case 0:
		while (nr--)
			syscall(__NR_getuid);
		return 0;
	case 1:
		while (nr--)
			syscall(__NR_getppid);
		return 0;
	case 2:
		page = mmap(NULL, nr * 65536UL, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (page == MAP_FAILED)
			return -1;
		for (unsigned int i = 0; i < nr; i++)
			*(volatile char *)(page + i * 65536UL) = 1;
		return munmap(page, nr * 65536UL);
	case 3:
		while (nr--)
			watched[nr % 4] = nr;
		return 0;
	case 4:
		while (nr--)
			probed();
		return 0;
	default:
		snprintf(path, sizeof(path), "/sys/kernel/debug/pmusim/%s", ticks[below(walk, 2)]);
		snprintf(text, sizeof(text), "%u %u", below(walk, 4), 1 + below(walk, 300));
		return write_text(path, text);
	}
}

static long migrate(struct walk *walk)
{
	cpu_set_t set;

	if (once_in(walk, 3))
		return sched_yield();
	CPU_ZERO(&set);
	CPU_SET(below(walk, 2), &set);
	if (once_in(walk, 4))
		CPU_SET(0, &set);
	return sched_setaffinity(0, sizeof(set), &set);
}

const struct action event_actions[] = {
	{ "open event",		EVENTS,		10,	open_event },
	{ "open for gate",	GATE,		10,	open_event },
	{ "close",		ALL,		4,	close_any },
	{ "dup",		ALL,		2,	copy_any },
	{ "enable, disable",	EVENTS,		6,	control },
	{ "change",		EVENTS,		4,	change },
	{ "read",		ALL,		4,	read_value },
	{ "link",		GATE,		8,	link_gate },
	{ "link both",		GATE,		8,	link_both },
	{ "join gate",		GATE,		8,	join_gate },
	{ "open gate",		GATE,		6,	open_gate },
	{ "clear gate",		GATE,		2,	clear_gate },
	{ "set windows",	GATE,		6,	set_windows },
	{ "get windows",	GATE,		4,	get_windows },
	{ "fire",		ALL,		12,	fire },
	{ "migrate",		ALL,		2,	migrate },
	{}
};
