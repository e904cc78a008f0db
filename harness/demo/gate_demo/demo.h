/* SPDX-License-Identifier: GPL-2.0 */
/*
 * gate_demo - a program measured inside and outside of its write(2) calls
 *
 *                 sys_enter_write                        sys_exit_write
 *   inside   - - - - - - -+=============================+- - - - - - - -
 *   outside  =============+- - - - - - - - - - - - - - -+===============
 *   whole    ============================================================
 *
 * Each quantity is counted three times: by a target that the entry opens and
 * the exit closes, by one with the roles exchanged, and by an event without
 * a gate. The first two are measured apart, and so their sum says something.
 */
#ifndef _GATE_DEMO_H
#define _GATE_DEMO_H

/* The same 64 bit types for printf() on all architectures. */
#define __SANE_USERSPACE_TYPES__

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "../lib/report.h"

/* The result of read(2) with the read_format of event_attr(). */
struct reading {
	__u64 value;
	__u64 enabled;
	__u64 running;
	__u64 lost;
	__u64 gate_time;
	__u64 gate_count;
};

/* One write(2), from the record of its entry to that of its exit. */
struct window {
	__u64 start;
	__u64 end;
};

/* One run of the program as the samples of the two tracepoints tell it. */
struct timeline {
	__u64 start;
	__u64 end;
	struct window *windows;
	/* Number of entries, the same as that of exits if no sample is missing. */
	size_t nr_enter;
	size_t nr_exit;
	__u64 lost;
	/* Each entry was followed by one exit, and the times never go back. */
	bool ordered;
};

/* Two tracepoints that record each entry and exit with its time. */
struct recorder {
	int enter;
	int exit;
	struct perf_event_mmap_page *ring;
};

/* Nanoseconds for one move of a gate and for one ENABLE or DISABLE. */
struct edge_cost {
	double edge;
	double ioctl;
	__u64 windows;
	__u64 calls;
};

/* A program that waits for its start. */
struct program {
	pid_t pid;
	int socket;
};

/* events.c */
struct perf_event_attr event_attr(__u32 type, __u64 config);
__u64 tracepoint(const char *name);
int event_try_open(struct perf_event_attr *attr, pid_t pid, int leader);
int event_open(struct perf_event_attr *attr, pid_t pid);
struct reading event_read(int fd);
void set_starter(int trigger, int target);
void set_stopper(int trigger, int target);

/* program.c */
struct program program_fork(char **argv, const char *output);
void program_write_once(struct program *program);
void program_run(struct program *program);

/* timeline.c */
struct recorder recorder_open(pid_t pid);
struct timeline recorder_read(struct recorder *recorder);
__u64 timeline_open_time(const struct timeline *timeline);
void timeline_picture(const struct timeline *timeline);
void timeline_dump(const struct timeline *timeline);

/* edge.c */
struct edge_cost measure_edge(void);

#endif /* _GATE_DEMO_H */
