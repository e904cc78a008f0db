/* SPDX-License-Identifier: GPL-2.0 */
/*
 * perf ring buffer selftests - children that end while others write
 *
 * Inherited events of a CPU write to one buffer: samples of children that fault on
 * that CPU, and a PERF_RECORD_READ of each child that exits or calls execve(), which
 * happens on another CPU.
 */
#ifndef _RING_CHILD_HELPERS_H
#define _RING_CHILD_HELPERS_H

#include "ring_helpers.h"

#define EVENT_CPU	0
#define OTHER_CPU	1
#define END_NOW		"RING_CHILD_END_NOW"

struct read_record {
	struct perf_event_header	header;
	__u32				pid;
	__u32				tid;
	__u64				values[3];
};

/* Records found in the buffer. */
struct child_sum {
	unsigned long	samples;
	unsigned long	reads;
	unsigned long	lost;
	bool		bad;
};

/* Shared with the children. */
struct child_work {
	bool		stop;
	unsigned long	ended;
};

/* The program that a child executes is this one, which ends before main(). */
static __attribute__((constructor)) void end_now(void)
{
	if (getenv(END_NOW))
		_exit(0);
}

static inline struct perf_event_attr child_attr(void)
{
	struct perf_event_attr attr = fault_attr();

	attr.inherit = 1;
	attr.inherit_stat = 1;
	return attr;
}

/* Let inherited events count, and leave their CPU. */
static inline void run_elsewhere(void)
{
	run_on(EVENT_CPU);
	run_on(OTHER_CPU);
}

/* Fork a child that ends on the other CPU. */
static inline pid_t child_elsewhere(unsigned int nr_faults)
{
	pid_t pid = fork();

	if (!pid) {
		run_elsewhere();
		make_faults(nr_faults);
		_exit(0);
	}
	return pid;
}

static inline void end_children(struct child_work *work, bool exec)
{
	pid_t pid;

	run_on(OTHER_CPU);
	while (!__atomic_load_n(&work->stop, __ATOMIC_RELAXED)) {
		pid = fork();
		if (!pid) {
			run_elsewhere();
			if (exec) {
				setenv(END_NOW, "1", 1);
				execl("/proc/self/exe", "ring_child", NULL);
			}
			_exit(0);
		}
		if (pid < 0 || waitpid(pid, NULL, 0) != pid)
			_exit(1);
		__atomic_add_fetch(&work->ended, 1, __ATOMIC_RELAXED);
	}
	_exit(0);
}

static inline void fault_for_ever(struct child_work *work)
{
	run_on(EVENT_CPU);
	while (!__atomic_load_n(&work->stop, __ATOMIC_RELAXED))
		make_faults(20);
	_exit(0);
}

/* Get the kind of a record, of which @size bytes are present. */
static inline void child_sum_record(struct child_sum *sum, const void *record)
{
	const struct perf_event_header *header = record;

	switch (header->type) {
	case PERF_RECORD_SAMPLE:
		sum->samples++;
		sum->bad |= header->size != SAMPLE_SIZE;
		break;
	case PERF_RECORD_READ:
		sum->reads++;
		break;
	case PERF_RECORD_LOST:
		sum->lost += ((struct ring_lost *)record)->lost;
		break;
	default:
		sum->bad = true;
	}
	sum->bad |= header->size < sizeof(*header) || header->size % 8;
}

/* Start three children that write or end for ever; the caller waits for them. */
static inline int start_children(struct child_work *work, pid_t pids[3])
{
	int i;

	for (i = 0; i < 3; i++) {
		pids[i] = fork();
		if (pids[i] < 0)
			return -errno;
		if (!pids[i]) {
			if (i == 2)
				fault_for_ever(work);
			end_children(work, i);
		}
	}
	return 0;
}

static inline struct child_work *child_work_map(void)
{
	void *work = mmap(NULL, page_size(), PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return work == MAP_FAILED ? NULL : work;
}

static inline time_t child_stress_end(void)
{
	const char *seconds = getenv("PERF_STRESS_SECONDS");

	return time(NULL) + (seconds ? atoi(seconds) : 4);
}

#endif
