// SPDX-License-Identifier: GPL-2.0
/*
 * self_read - count the instructions of a loop without a system call
 *
 * The first page of an event's mapping tells where its counter is, what to add
 * to it, and what to add to its times. These change when the event moves, so
 * the reader checks the page's sequence count before and after.
 *
 * The values and their cost are compared with read(2).
 */
#define __SANE_USERSPACE_TYPES__

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LOAD(field)	__atomic_load_n(&(field), __ATOMIC_RELAXED)
/* The kernel writes the page on this CPU, so a compiler barrier suffices. */
#define barrier()	asm volatile("" : : : "memory")

struct value {
	__u64 count, enabled, running;
};

#if defined(__x86_64__) || defined(__i386__)
static inline __u64 counter(__u32 index)
{
	__u32 low, high;

	asm volatile("rdpmc" : "=a" (low), "=d" (high) : "c" (index - 1));
	return low | (__u64)high << 32;
}

static inline __u64 ticks(void)
{
	return __builtin_ia32_rdtsc();
}
#elif defined(__powerpc64__)
#define SPR(nr)	({ __u64 v; asm volatile("mfspr %0, %1" : "=r" (v) : "i" (nr)); v; })
#define PMC(x, index) case index: return SPR(770 + (index))
#define ticks()	SPR(268)
#elif defined(__aarch64__)
#define MRS(reg) ({ __u64 v; asm volatile("mrs %0, " reg : "=r" (v)); v; })
#define PMC(x, index) case index: return MRS("pmevcntr" #x "_el0")
#define ticks()	MRS("cntvct_el0")
#elif defined(__riscv) && __riscv_xlen == 64
#define CSR(nr)	({ __u64 v; asm volatile("csrr %0, %1" : "=r" (v) : "i" (nr)); v; })
#define PMC(x, index) case index: return CSR(0xc00 + (index) - 1)
#define ticks()	CSR(0xc01)
#else
/* Programs cannot read counters on this architecture, so use read(2). */
#define NO_COUNTERS
#define PMC(x, index) case index: return 0
#define ticks()	0ULL
#endif

#ifdef PMC
/* The instruction encodes the number of the register. */
static inline __u64 counter(__u32 index)
{
	switch (index) {
	PMC(0, 1); PMC(1, 2); PMC(2, 3); PMC(3, 4); PMC(4, 5); PMC(5, 6);
	PMC(6, 7); PMC(7, 8);
#ifndef __powerpc64__
	PMC(8, 9); PMC(9, 10); PMC(10, 11); PMC(11, 12);
	PMC(12, 13); PMC(13, 14); PMC(14, 15); PMC(15, 16); PMC(16, 17);
	PMC(17, 18); PMC(18, 19); PMC(19, 20); PMC(20, 21); PMC(21, 22);
	PMC(22, 23); PMC(23, 24); PMC(24, 25); PMC(25, 26); PMC(26, 27);
	PMC(27, 28); PMC(28, 29); PMC(29, 30); PMC(30, 31);
#ifdef __aarch64__
	case 32: return MRS("pmccntr_el0");
#else
	PMC(31, 32);
#endif
#endif
	}
	return 0;
}
#endif

/* Return false if the counter cannot be read: the event has none, or the access is denied. */
static bool read_page(const struct perf_event_mmap_page *page, struct value *value)
{
	__u64 delta, cyc, width;
	__u32 seq, index;

#ifdef NO_COUNTERS
	return false;
#endif
	do {
		seq = LOAD(page->lock);
		barrier();
		index = LOAD(page->index);
		if (!page->cap_user_rdpmc || !index)
			return false;
		width = LOAD(page->pmc_width);
		value->count = LOAD(page->offset);
		value->count += (__s64)(counter(index) << (64 - width)) >> (64 - width);
		value->enabled = LOAD(page->time_enabled);
		value->running = LOAD(page->time_running);
		delta = 0;
		if (page->cap_user_time) {
			cyc = ticks();
			/*
			 * For a clock of fewer than 64 bits, compute the time since the
			 * last update.
			 */
			if (page->cap_user_time_short)
				cyc = LOAD(page->time_cycles) +
				      ((cyc - LOAD(page->time_cycles)) & LOAD(page->time_mask));
			delta = LOAD(page->time_offset) + (cyc >> page->time_shift) * page->time_mult +
				(((cyc & ((1ULL << page->time_shift) - 1)) * page->time_mult) >>
				 page->time_shift);
		}
		barrier();
	} while (LOAD(page->lock) != seq);

	value->enabled += delta;
	value->running += delta;
	return true;
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1e9 + time.tv_nsec;
}

/* Compare the mean time of a read from the user page with that of read(2). */
static void compare_cost(int fd, const struct perf_event_mmap_page *page)
{
	double start, by_page, by_call;
	struct value value;
	int i;

	start = now();
	for (i = 0; i < 10000; i++)
		read_page(page, &value);
	by_page = (now() - start) / 10000;
	start = now();
	for (i = 0; i < 10000; i++)
		if (read(fd, &value, sizeof(value)) != sizeof(value))
			return;
	by_call = (now() - start) / 10000;
	printf("a value takes %.0f ns from the user page, %.0f ns by read(2)\n", by_page, by_call);
}

int main(void)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_HARDWARE, .size = sizeof(attr),
		.config = PERF_COUNT_HW_INSTRUCTIONS,
		.exclude_kernel = 1, .exclude_hv = 1,
		.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
#ifdef __aarch64__
		.config1 = 2,
#endif
	};
	int fd = syscall(__NR_perf_event_open, &attr, 0, -1, -1, 0), i;
	struct perf_event_mmap_page *page;
	struct value before, call, after;
	bool direct;

	page = mmap(NULL, sysconf(_SC_PAGESIZE), PROT_READ, MAP_SHARED, fd, 0);
	if (fd < 0 || page == MAP_FAILED) {
		perror("self_read");
		return 1;
	}
	printf("%14s %14s %14s %16s %14s\n", "user page", "read(2)", "user page",
	       "user page, ns", "read(2), ns");
	for (i = 0; i < 5; i++) {
		for (volatile int work = 0; work < 100000; work++)
			;
		/* Read the page once before the call and once after. */
		direct = read_page(page, &before);
		if (read(fd, &call, sizeof(call)) != sizeof(call))
			return 1;
		direct &= read_page(page, &after);
		if (!direct) {
			before = call;
			after = call;
		}
		printf("%14llu %14llu %14llu %16llu %14llu", before.count, call.count,
		       after.count, before.running, call.running);
		/* Multiplexed events count for a part of the time. */
		if (call.running < call.enabled)
			printf(" %.1f %% of the time", 100.0 * call.running / call.enabled);
		printf(direct ? "\n" : " all by read(2)\n");
	}
	compare_cost(fd, page);
	return 0;
}
