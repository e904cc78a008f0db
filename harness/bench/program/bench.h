/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Guest instructions per operation, measured from inside the guest.
 *
 * The program is the only process of the guest: it is init. Each section is
 * one file and runs in a child of its own, so that nothing a section opened is
 * still there in the next one. A section prints its results in lines, and a line
 * depends on nothing but the kernel and the program:
 *
 *	bench: section NAME
 *	bench: row CLASS RESOLUTION LIMIT COST OPERATION
 *	bench: absent CLASS OPERATION: REASON
 *	bench: fact NAME VALUE
 *	bench: wrong TEXT
 *	bench: end
 *
 * CLASS says how the row is judged when two kernels are compared:
 *
 *	Z0	nothing is open: equal
 *	Z0w	as Z0, but page and slab state feed the row: 0.25 %
 *	Z1	perf is in use, the feature is not: 0.5 % or 8 instructions
 *	Z1w	as Z1, but page and slab state feed the row: 1 %
 *	T1, T2	of counting tracepoints: COST is at most LIMIT
 *	G1..G9	of the feature: COST is at most LIMIT
 *	R1..R3	of reads without a system call: COST is at most LIMIT
 *	R4	what keeps a mapped page right: 1 %
 *	P1..P4	of event sets: COST is at most LIMIT
 *	S1, S2	of buffers that are read by splice(2): COST is at most LIMIT
 *	ref	to look at beside the others, not judged
 *
 * RESOLUTION is how far COST may be off: the clock may be coarser than an
 * instruction, and the operation may cost now more and now less.
 */
#ifndef BENCH_H
#define BENCH_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
/* __u64 is unsigned long long for printf() everywhere. */
#define __SANE_USERSPACE_TYPES__

#include <linux/perf_event.h>
#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "arch.h"

/* Every operation has the same parameter, and many have no use for it. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

#define ARRAY_SIZE(array)	(sizeof(array) / sizeof((array)[0]))
#define BIT(nr)			(1ULL << (nr))

/* The headers may be older than the feature. */
#ifndef PERF_EVENT_IOC_SET_STARTER
#define PERF_EVENT_IOC_SET_STARTER	_IO('$', 12)
#define PERF_EVENT_IOC_SET_STOPPER	_IO('$', 13)
#endif

#ifndef PERF_EVENT_IOC_ALLOC_BUFFER
struct perf_event_buffer {
	__u32	size;
	__u32	flags;
	__u64	data_size;
	__u32	watermark;
	__u32	__reserved;
};

#define PERF_BUFFER_F_SPLICE		1
#define PERF_EVENT_IOC_ALLOC_BUFFER	_IOW('$', 15, struct perf_event_buffer)
#endif

#define __noipa			__attribute__((noipa))
#define __format(text, args)	__attribute__(( \
	__format__(__printf__, text, args)))

/* Data pages of a ring: more than any batch of samples fills. */
#define RING_PAGES	64

/* measure.c */

/**
 * struct op - an operation to measure
 * @run:	does it once
 * @prepare:	called before each batch, not measured; may be NULL
 * @arg:	argument of both
 * @batch:	operations between two readings of the clock, 0: 100
 * @rounds:	batches, 0: 200
 * @percentile:	which of them counts in order of their costs, 0: the median
 */
struct op {
	void (*run)(void *arg);
	void (*prepare)(void *arg);
	void *arg;
	int batch;
	int rounds;
	int percentile;
};

/**
 * struct cost - the cost of one operation
 * @insn:	instructions
 * @resolution:	how far @insn may be off
 */
struct cost {
	double insn;
	double resolution;
};

void measure_quickly(void);
void check_clock(void);
struct cost measure(const struct op *op);
struct cost minus(struct cost cost, struct cost base);
struct cost divided(struct cost cost, double by);
double median(double *values, int nr);
int rounds_of(int rounds);

__format(3, 4)
void report(const char *class, struct cost cost, const char *operation, ...);
__format(4, 5)
void report_limit(const char *class, struct cost cost, double limit,
		  const char *operation, ...);
__format(3, 4)
void report_absent(const char *class, int error, const char *operation, ...);
__format(1, 2)
void report_wrong(const char *text, ...);
void report_fact(const char *name, long value);

/* perf.c */

extern long page_size;

int perf_open(struct perf_event_attr *attr, int group);
int perf_count(__u32 type, __u64 config, int group, __u64 read_format,
	       bool inherit);
int perf_software(__u64 config);
void sampling_attr(struct perf_event_attr *attr, __u32 type, __u64 config,
		   __u64 sample_type);

/**
 * struct group - the first @nr of a fixed list of events, each counting
 * @fd:		the first is the leader
 */
struct group {
	int fd[8];
	int nr;
};

bool group_open(struct group *group, int nr, bool hardware, __u64 read_format,
		bool inherit);
void group_close(struct group *group);

struct perf_event_mmap_page *ring_map(int fd, int pages);
void ring_unmap(struct perf_event_mmap_page *ring, int pages);
__u64 ring_head(struct perf_event_mmap_page *ring);
void ring_drain(void *ring);

long tracepoint_id(const char *name);
long read_number(const char *path);
int write_text(const char *path, const char *text);
void must_count(int fd, __u64 at_least, const char *what);

#define TRACING	"/sys/kernel/tracing/"

/* calls.c */
void getppid_run(void *arg);
struct cost measure_getppid(void);

/* bpf.c */
void bpf_edges(const char *class, bool hardware);
struct cost bpf_function(const struct op *op, struct cost base, int entry, int ret);
struct cost bpf_window(struct cost base);

/* The sections, one file each. */
void bench_calls(void);
void bench_reads(void);
void bench_userpage(void);
void bench_samples(void);
void bench_bpf(void);
void bench_switches(void);
void bench_tasks(void);
void bench_open(void);
void bench_rings(void);
void bench_ftrace(void);
void bench_probes(void);
void bench_gate(void);
void bench_family(void);
void bench_shared(void);
void bench_perfmon(void);

#endif /* BENCH_H */
