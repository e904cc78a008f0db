/* SPDX-License-Identifier: GPL-2.0 */
/*
 * perf gate selftests - work of a known length on any processor: loops of LOOP_TURN
 * instructions each turn, and two to enter and leave
 */
#ifndef _HW_GATE_LOOPS_H
#define _HW_GATE_LOOPS_H

#include <stdio.h>
#include <string.h>

#include <linux/types.h>

#include "gate_helpers.h"

/* LOOP_TURN is 0 where the loop is not written yet, and its tests have to skip. */
#if defined(__x86_64__)
#define LOOP_TURN	2
#define LOOP_CODE	"1:	dec %rdi\n	jnz 1b\n	ret\n"
#elif defined(__powerpc64__) && _CALL_ELF == 2
#define LOOP_TURN	1
#define LOOP_CODE	"	mtctr 3\n1:	bdnz 1b\n	blr\n"
#elif defined(__aarch64__)
#define LOOP_TURN	2
#define LOOP_CODE	"1:	subs x0, x0, #1\n	b.ne 1b\n	ret\n"
#elif defined(__s390x__)
#define LOOP_TURN	1
#define LOOP_CODE	"1:	brctg %r2, 1b\n	br %r14\n"
#elif defined(__riscv) && __riscv_xlen == 64
#define LOOP_TURN	2
#define LOOP_CODE	"1:	addi a0, a0, -1\n	bnez a0, 1b\n	ret\n"
#else
#define LOOP_TURN	0
#define LOOP_CODE	""
#endif

void loop_inside(__u64 turns);
void loop_outside(__u64 turns);
extern char loop_outside_end[];
/* Global, because the compiler takes their addresses as those of other files. */
asm(".pushsection .text\n"
	".globl loop_inside, loop_outside, loop_outside_end\n"
	".balign 16\n"
	".type loop_inside, %function\n"
	"loop_inside:\n"
	"	nop\n"
	LOOP_CODE
	".size loop_inside, . - loop_inside\n"
	".balign 16\n"
	".type loop_outside, %function\n"
	"loop_outside:\n"
	LOOP_CODE
	"loop_outside_end:\n"
	".size loop_outside, . - loop_outside\n"
	".popsection");

/*
 * A call through this pointer enters the function at the nop, where a probe of it is. The nop
 * is not part of the loop.
 */
static void (*inside)(__u64 turns) = loop_inside;

static inline __u64 turns(__u64 instructions)
{
	return instructions / (LOOP_TURN ? LOOP_TURN : 1);
}

static inline void run_inside(__u64 instructions)
{
	__atomic_load_n(&inside, __ATOMIC_RELAXED)(turns(instructions));
}

static inline void run_outside(__u64 instructions)
{
	loop_outside(turns(instructions));
}

/* Instructions between two windows, more than any interrupt is late */
#define BETWEEN		5000ULL

static inline void run_windows(unsigned int nr, __u64 instructions)
{
	while (nr--) {
		run_outside(BETWEEN);
		window_open();
		run_inside(instructions);
		window_close();
	}
	run_outside(BETWEEN);
}

/* Records of a buffer, and where the samples among them lie */
struct loop_records {
	unsigned int samples, exact, inside, outside;
	unsigned int throttled, unthrottled, lost;
};

/* Take all records of a buffer whose samples have PERF_SAMPLE_IP first. */
static inline struct loop_records take_records(struct gate_ring *ring)
{
	struct {
		struct perf_event_header header;
		__u64 ip;
	} record;
	struct loop_records sum = {};

	while (ring_next(ring, &record, sizeof(record))) {
		sum.throttled += record.header.type == PERF_RECORD_THROTTLE;
		sum.unthrottled += record.header.type == PERF_RECORD_UNTHROTTLE;
		sum.lost += record.header.type == PERF_RECORD_LOST;
		if (record.header.type != PERF_RECORD_SAMPLE)
			continue;
		sum.samples++;
		sum.exact += !!(record.header.misc & PERF_RECORD_MISC_EXACT_IP);
		sum.inside += record.ip >= (unsigned long)loop_inside &&
			      record.ip < (unsigned long)loop_outside;
		sum.outside += record.ip >= (unsigned long)loop_outside &&
			       record.ip < (unsigned long)loop_outside_end;
	}
	return sum;
}

/*
 * Where there are several kinds of cores, the PMU of each has a file that names its CPUs, and
 * an event of the generic type may be one of another kind.
 */
static inline __u64 core_pmu_of(int cpu)
{
	static const char * const names[] = { "cpu_core", "cpu_atom", "cpu_lowpower" };
	char path[128], text[1024], *word;
	unsigned int i, first, last;
	FILE *file;

	for (i = 0; i < sizeof(names) / sizeof(*names); i++) {
		snprintf(path, sizeof(path), "/sys/bus/event_source/devices/%s/cpus", names[i]);
		file = fopen(path, "r");
		if (!file)
			continue;
		if (!fgets(text, sizeof(text), file))
			text[0] = '\0';
		fclose(file);
		for (word = strtok(text, ",\n"); word; word = strtok(NULL, ",\n")) {
			if (sscanf(word, "%u-%u", &first, &last) == 1)
				last = first;
			if (cpu >= (int)first && cpu <= (int)last)
				return pmu_type(names[i]);
		}
	}
	return 0;
}

#endif
