// SPDX-License-Identifier: GPL-2.0
/* Reading a counter through its mapped page, without a system call. */
#include "bench.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#ifndef __always_inline
#define __always_inline	inline __attribute__((__always_inline__))
#endif

/* Makes the compiler believe that a value is used. */
static inline void keep(__u64 value)
{
	asm volatile("" : : "r" (value));
}

#define LOAD(field)	__atomic_load_n(&(field), __ATOMIC_RELAXED)

static __u64 page_read(const struct perf_event_mmap_page *page)
{
	__u32 sequence, index;
	__u64 count, value;

	do {
		sequence = LOAD(page->lock);
		page_barrier();
		index = LOAD(page->index);
		count = LOAD(page->offset);
		if (index) {
			value = counter_register(index);
			/* The counters are 32 bits wide where a page of the base tells none. */
			count += (__s64)(__s32)value;
		}
		page_barrier();
	} while (LOAD(page->lock) != sequence);
	return count;
}

/* The same with what a reader of scaled counts takes from the page in addition. */
static __u64 page_read_times(const struct perf_event_mmap_page *page,
			     __u64 *enabled, __u64 *running)
{
	__u64 count, value, now, delta, rest;
	__u32 sequence, index, mult;
	__u16 width, shift;

	do {
		sequence = LOAD(page->lock);
		page_barrier();
		*enabled = LOAD(page->time_enabled);
		*running = LOAD(page->time_running);
		now = ticks();
		delta = LOAD(page->time_offset);
		mult = LOAD(page->time_mult);
		shift = LOAD(page->time_shift);
		index = LOAD(page->index);
		count = LOAD(page->offset);
		if (index) {
			value = counter_register(index);
			width = LOAD(page->pmc_width);
			if (!width)
				width = 32;
			count += (__s64)(value << (64 - width)) >> (64 - width);
		}
		page_barrier();
	} while (LOAD(page->lock) != sequence);

	rest = now & ((1ULL << shift) - 1);
	delta += (now >> shift) * mult + ((rest * mult) >> shift);
	*enabled += delta;
	if (index)
		*running += delta;
	return count;
}

/*
 * The reader of samples/perf_events/self_read.c, without the times and with
 * them. False where it would have to use read(2).
 */
static __always_inline bool self_read(const struct perf_event_mmap_page *page, __u64 *count)
{
	__u32 seq, index, drop;

	do {
		seq = LOAD(page->lock);
		page_barrier();
		index = LOAD(page->index);
		if (!page->cap_user_rdpmc || !index)
			return false;
		drop = 64 - LOAD(page->pmc_width);
		*count = LOAD(page->offset) +
			 ((__s64)(counter_register(index) << drop) >> drop);
		page_barrier();
	} while (LOAD(page->lock) != seq);
	return true;
}

static __always_inline bool self_read_times(const struct perf_event_mmap_page *page, __u64 *value)
{
	__u64 now, delta;
	__u32 seq, index, drop;

	do {
		seq = LOAD(page->lock);
		page_barrier();
		index = LOAD(page->index);
		if (!page->cap_user_rdpmc || !index)
			return false;
		drop = 64 - LOAD(page->pmc_width);
		value[0] = LOAD(page->offset) +
			   ((__s64)(counter_register(index) << drop) >> drop);
		value[1] = LOAD(page->time_enabled);
		value[2] = LOAD(page->time_running);
		delta = 0;
		if (page->cap_user_time) {
			now = ticks();
			delta = LOAD(page->time_offset) +
				(now >> page->time_shift) * page->time_mult +
				(((now & ((1ULL << page->time_shift) - 1)) *
				  page->time_mult) >> page->time_shift);
		}
		page_barrier();
	} while (LOAD(page->lock) != seq);
	value[1] += delta;
	value[2] += delta;
	return true;
}

static __u64 sink;

static void self_run(void *arg)
{
	__u64 count;

	if (self_read(arg, &count))
		keep(count);
}

static void self_times_run(void *arg)
{
	__u64 value[3];

	if (self_read_times(arg, value)) {
		keep(value[0]);
		keep(value[1]);
		keep(value[2]);
	}
}

static void page_run(void *arg)
{
	sink = page_read(arg);
}

static void page_times_run(void *arg)
{
	__u64 enabled, running;

	sink = page_read_times(arg, &enabled, &running);
	sink += enabled + running;
}

struct pages {
	struct perf_event_mmap_page *page[4];
};

static void four_pages_run(void *arg)
{
	struct pages *pages = arg;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(pages->page); i++)
		sink = page_read(pages->page[i]);
}

static void register_run(void *arg)
{
	struct perf_event_mmap_page *page = arg;

	sink = counter_register(LOAD(page->index));
}

static void measure_page(const char *class, void (*run)(void *arg), void *arg,
			 const char *operation)
{
	const struct op op = { .run = run, .arg = arg, .batch = 1000, .rounds = 50 };

	report(class, measure(&op), "%s", operation);
}

/* While an event is mapped, the kernel keeps its page right as well. */
static void toggle_run(void *arg)
{
	int fd = *(int *)arg;

	call3(SYS_ioctl, fd, PERF_EVENT_IOC_DISABLE, 0);
	call3(SYS_ioctl, fd, PERF_EVENT_IOC_ENABLE, 0);
}

static void read_run(void *arg)
{
	__u64 value[3 + ARRAY_SIZE(((struct group *)NULL)->fd)];

	call3(SYS_read, *(int *)arg, (long)value, sizeof(value));
}

static struct cost times(struct cost cost, double by)
{
	return divided(cost, 1 / by);
}

static void mapped_toggle(void)
{
	int fd = perf_count(PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS, -1, 0, false);
	const struct op op = { .run = toggle_run, .arg = &fd };
	struct perf_event_mmap_page *page = ring_map(fd, 0);

	if (page) {
		report("R4", measure(&op), "ioctl DISABLE + ENABLE, hw event, mapped");
		ring_unmap(page, 0);
	}
	close(fd);
}

static void self_reads(void)
{
	int fd = perf_count(PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS, -1,
			    PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
			    false);
	const struct op by_call = { .run = read_run, .arg = &fd };
	struct perf_event_mmap_page *page = ring_map(fd, 0);
	struct op op = { .arg = page, .batch = 1000, .rounds = 50 };
	struct cost cost, call;
	__u64 count;

	if (!page)
		goto out;
	if (!self_read(page, &count)) {
		report_absent("R1", EOPNOTSUPP, "self_read");
		report_absent("R2", EOPNOTSUPP, "self_read with times");
		goto unmap;
	}
	call = measure(&by_call);
	op.run = self_run;
	cost = measure(&op);
	report_limit("R1", cost, 40, "self_read");
	report_limit("R1", times(cost, 38), call.insn, "38 times self_read, against one read(2)");
	op.run = self_times_run;
	report_limit("R2", measure(&op), 60, "self_read with times");
unmap:
	ring_unmap(page, 0);
out:
	close(fd);
}

static void software_page(void)
{
	int fd = perf_software(PERF_COUNT_SW_PAGE_FAULTS);
	struct perf_event_mmap_page *page = ring_map(fd, 0);

	if (page) {
		measure_page("Z0", page_run, page, "user page, page-faults event");
		ring_unmap(page, 0);
	}
	close(fd);
}

static void hardware_page(void)
{
	int fd = perf_count(PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS, -1, 0,
			    false);
	struct perf_event_mmap_page *page = ring_map(fd, 0);

	if (!page)
		goto out;
	if (!LOAD(page->index)) {
		report_absent("Z1", EOPNOTSUPP, "user page, instructions event");
		goto unmap;
	}
	measure_page("Z1", page_run, page, "user page, instructions event");
	measure_page("Z1", page_times_run, page,
		     "user page, instructions event with times");
	measure_page("ref", register_run, page, "the counter's register alone");
unmap:
	ring_unmap(page, 0);
out:
	close(fd);
}

static void four_self_reads_run(void *arg)
{
	struct pages *pages = arg;
	__u64 count;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(pages->page); i++) {
		if (self_read(pages->page[i], &count))
			keep(count);
	}
}

static void four_self_reads(void)
{
	struct op op = { .batch = 1000, .rounds = 50 };
	struct pages pages = {};
	struct cost cost, call;
	struct group group;
	bool direct = true;
	__u64 count;
	size_t i;

	if (!group_open(&group, ARRAY_SIZE(pages.page), true,
			PERF_FORMAT_GROUP, false))
		return;
	for (i = 0; i < ARRAY_SIZE(pages.page); i++)
		pages.page[i] = ring_map(group.fd[i], 0);
	for (i = 0; i < ARRAY_SIZE(pages.page); i++)
		direct = direct && pages.page[i] && self_read(pages.page[i], &count);
	if (direct) {
		op.run = read_run;
		op.arg = &group.fd[0];
		op.batch = 100;
		call = measure(&op);
		op.run = four_self_reads_run;
		op.arg = &pages;
		op.batch = 1000;
		cost = measure(&op);
		report_limit("R3", cost, 160, "self_read of 4 hw events");
		report_limit("R3", times(cost, 18), call.insn,
			     "18 times self_read of 4 hw events, against one group read(2)");
	} else {
		report_absent("R3", EOPNOTSUPP, "self_read of 4 hw events");
	}
	for (i = 0; i < ARRAY_SIZE(pages.page); i++) {
		if (pages.page[i])
			ring_unmap(pages.page[i], 0);
	}
	group_close(&group);
}

static void four_hardware_pages(void)
{
	struct pages pages = {};
	struct group group;
	bool mapped = true;
	size_t i;

	if (!group_open(&group, ARRAY_SIZE(pages.page), true, PERF_FORMAT_GROUP, false))
		return;
	for (i = 0; i < ARRAY_SIZE(pages.page); i++) {
		pages.page[i] = ring_map(group.fd[i], 0);
		mapped = mapped && pages.page[i] && LOAD(pages.page[i]->index);
	}
	if (mapped)
		measure_page("Z1", four_pages_run, &pages, "4 user pages, hw events");
	else
		report_absent("Z1", EOPNOTSUPP, "4 user pages, hw events");
	for (i = 0; i < ARRAY_SIZE(pages.page); i++) {
		if (pages.page[i])
			ring_unmap(pages.page[i], 0);
	}
	group_close(&group);
}

void bench_userpage(void)
{
	software_page();
	if (!ARCH_HARDWARE)
		return;
	hardware_page();
	four_hardware_pages();
	self_reads();
	four_self_reads();
	mapped_toggle();
}
