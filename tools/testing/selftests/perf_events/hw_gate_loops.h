/* SPDX-License-Identifier: GPL-2.0 */
/*
 * perf gate selftests - loops of LOOP_TURN instructions each turn, and two to enter and leave
 */
#ifndef _HW_GATE_LOOPS_H
#define _HW_GATE_LOOPS_H

#include <linux/types.h>

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
asm(".pushsection .text\n"
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

#endif
