/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The parts that differ between the two architectures: the clock, a bare system call,
 * and a counter register read from user space.
 *
 * Under QEMU's -icount shift=0 the guest's clock advances by one nanosecond
 * per instruction. The x86 TSC shows it as it is (1 GHz); the PowerPC timebase
 * shows it divided down to 512 MHz, so one tick stands for 1.953 instructions
 * and a difference of two readings can be one tick off at either end.
 */
#ifndef BENCH_ARCH_H
#define BENCH_ARCH_H

#include <linux/types.h>
#include <stdlib.h>

#if defined(__x86_64__)

#define ARCH_INSN_PER_TICK	1.0
#define ARCH_TICK_ERROR		0
#define ARCH_GETPPID_SYMBOL	"__x64_sys_getppid"
#define ARCH_COUNT_LIMIT	200
#define ARCH_COUNT_FURTHER_LIMIT	30
#define ARCH_GATE_EDGE_LIMIT	370
#define ARCH_GATE_EDGE_OF_TWO_LIMIT	345
#define ARCH_GATE_FURTHER_LIMIT	50
#define ARCH_GATE_FURTHER_HARDWARE_LIMIT	150
#define ARCH_BREAKPOINTS	1
/* harness/vm/boot sets QEMU_PMU if the emulator has a PMU. */
#define ARCH_HARDWARE		(getenv("QEMU_PMU") != NULL)

static inline __u64 ticks(void)
{
	unsigned int low, high;

	asm volatile("rdtsc" : "=a" (low), "=d" (high) : : "memory");
	return (__u64)high << 32 | low;
}

static inline long call3(long number, long a, long b, long c)
{
	long ret;

	asm volatile("syscall"
		     : "=a" (ret)
		     : "a" (number), "D" (a), "S" (b), "d" (c)
		     : "rcx", "r11", "memory");
	return ret;
}

static inline long call0(long number)
{
	long ret;

	asm volatile("syscall" : "=a" (ret) : "a" (number)
		     : "rcx", "r11", "memory");
	return ret;
}

/* x86 is strongly ordered and the page's writer runs on the same CPU. */
static inline void page_barrier(void)
{
	asm volatile("" : : : "memory");
}

static inline __u64 counter_register(unsigned int index)
{
	unsigned int low, high;

	asm volatile("rdpmc" : "=a" (low), "=d" (high) : "c" (index - 1));
	return (__u64)high << 32 | low;
}

#elif defined(__powerpc64__)

#define ARCH_INSN_PER_TICK	(1000.0 / 512)
#define ARCH_TICK_ERROR		2
#define ARCH_GETPPID_SYMBOL	"sys_getppid"
#define ARCH_COUNT_LIMIT	399
#define ARCH_COUNT_FURTHER_LIMIT	40
#define ARCH_GATE_EDGE_LIMIT	677
#define ARCH_GATE_EDGE_OF_TWO_LIMIT	677
#define ARCH_GATE_FURTHER_LIMIT	70
#define ARCH_GATE_FURTHER_HARDWARE_LIMIT	250
#define ARCH_BREAKPOINTS	0
#define ARCH_HARDWARE		1

static inline __u64 ticks(void)
{
	__u64 now;

	asm volatile("mftb %0" : "=r" (now) : : "memory");
	return now;
}

static inline long call3(long number, long a, long b, long c)
{
	register long r0 asm("r0") = number;
	register long r3 asm("r3") = a;
	register long r4 asm("r4") = b;
	register long r5 asm("r5") = c;

	/* An error is a positive errno in r3 with the summary overflow set. */
	asm volatile("sc\n\t"
		     "bns+ 1f\n\t"
		     "neg 3,3\n"
		     "1:"
		     : "+r" (r0), "+r" (r3), "+r" (r4), "+r" (r5)
		     :
		     : "r6", "r7", "r8", "r9", "r10", "r11", "r12", "cr0",
		       "ctr", "xer", "memory");
	return r3;
}

static inline long call0(long number)
{
	return call3(number, 0, 0, 0);
}

/* The kernel writes the page on this CPU: only the compiler could change the order. */
static inline void page_barrier(void)
{
	asm volatile("" : : : "memory");
}

static inline __u64 counter_register(unsigned int index)
{
	__u64 value = 0;

	/* The register's number is part of the instruction. */
	switch (index) {
	case 1:
		asm volatile("mfspr %0,771" : "=r" (value));
		break;
	case 2:
		asm volatile("mfspr %0,772" : "=r" (value));
		break;
	case 3:
		asm volatile("mfspr %0,773" : "=r" (value));
		break;
	case 4:
		asm volatile("mfspr %0,774" : "=r" (value));
		break;
	case 5:
		asm volatile("mfspr %0,775" : "=r" (value));
		break;
	case 6:
		asm volatile("mfspr %0,776" : "=r" (value));
		break;
	}
	return value;
}

#else
#error "no clock for this architecture"
#endif

#endif /* BENCH_ARCH_H */
