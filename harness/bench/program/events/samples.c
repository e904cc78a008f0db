// SPDX-License-Identifier: GPL-2.0
/* Cost that an event adds to the operation that it counts or samples */
#include "bench.h"

#include <errno.h>
#include <linux/hw_breakpoint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#define ENTER_GETPPID	"syscalls/sys_enter_getppid"
#define SAMPLE_48	(PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | \
			 PERF_SAMPLE_CPU | PERF_SAMPLE_PERIOD)

/* The operation that the event is about; @what is its name in the rows. */
struct subject {
	struct op op;
	struct cost base;
	const char *what;
};

static void added(const struct subject *subject, struct perf_event_mmap_page *ring,
		  const char *event)
{
	struct op op = subject->op;

	if (ring) {
		op.prepare = ring_drain;
		op.arg = ring;
	}
	report("Z1", minus(measure(&op), subject->base), "%s: %s", subject->what,
	       event);
}

static void counted(const struct subject *subject, struct perf_event_attr *attr,
		    const char *event)
{
	int fd = perf_open(attr, -1);

	if (fd < 0) {
		report_absent("Z1", errno, "%s: %s", subject->what, event);
		return;
	}
	added(subject, NULL, event);
	must_count(fd, 100, event);
	close(fd);
}

static void sampled(const struct subject *subject, struct perf_event_attr *attr,
		    const char *event)
{
	struct perf_event_mmap_page *ring;
	int fd = perf_open(attr, -1);

	if (fd < 0) {
		report_absent("Z1", errno, "%s: %s", subject->what, event);
		return;
	}
	ring = ring_map(fd, RING_PAGES);
	if (ring) {
		added(subject, ring, event);
		if (ring_head(ring) < 100 * 16)
			report_wrong("%s: no samples", event);
		ring_unmap(ring, RING_PAGES);
	}
	close(fd);
}

/* Measures an event that does not sample now: disabled, then with its ring paused. */
static void idle(const struct subject *subject, struct perf_event_attr *attr)
{
	int fd = perf_open(attr, -1);
	struct perf_event_mmap_page *ring = ring_map(fd, RING_PAGES);
	__u64 head;

	if (!ring)
		goto out;
	ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
	head = ring_head(ring);
	added(subject, ring, "event disabled");
	ioctl(fd, PERF_EVENT_IOC_ENABLE, 0);
	ioctl(fd, PERF_EVENT_IOC_PAUSE_OUTPUT, 1);
	head -= ring_head(ring);
	added(subject, ring, "sample IP, output paused");
	if (head)
		report_wrong("a disabled event wrote samples");
	ring_unmap(ring, RING_PAGES);
out:
	close(fd);
}

/* T1 and T2: an event that counts needs no record, and each further one costs less. */
static void many_counted(const struct subject *subject, struct perf_event_attr *attr)
{
	static const int sizes[] = { 1, 8, 64 };
	struct cost one = {}, cost;
	int fds[64], nr = 0;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		while (nr < sizes[i])
			fds[nr++] = perf_open(attr, -1);
		cost = minus(measure(&subject->op), subject->base);
		must_count(fds[0], 100, "the first of many");
		must_count(fds[nr - 1], 100, "the last of many");
		if (i) {
			report("Z1", cost, "%s: count, %d events", subject->what, nr);
			continue;
		}
		one = cost;
		report_limit("T1", one, ARCH_COUNT_LIMIT, "%s: count", subject->what);
	}
	report_limit("T2", divided(minus(cost, one), nr - 1), ARCH_COUNT_FURTHER_LIMIT,
		     "%s: count, each further event", subject->what);
	while (nr)
		close(fds[--nr]);
}

/* Another event at the tracepoint needs a record of each hit. */
static void counted_beside(const struct subject *subject, struct perf_event_attr *attr)
{
	int other = perf_open(attr, -1);

	if (ioctl(other, PERF_EVENT_IOC_SET_FILTER, "common_pid == 0"))
		report_wrong("filter: %s", strerror(errno));
	counted(subject, attr, "count, another one has a filter");
	added(subject, NULL, "filter that does not match");
	close(other);
}

static void tracepoints(void)
{
	static const struct {
		__u64 sample_type;
		const char *event;
	} samples[] = {
		{ PERF_SAMPLE_IP, "sample IP" },
		{ SAMPLE_48, "sample IP TID TIME CPU PERIOD" },
		{ SAMPLE_48 | PERF_SAMPLE_RAW, "sample IP TID TIME CPU PERIOD RAW" },
		{ PERF_SAMPLE_IP | PERF_SAMPLE_CALLCHAIN, "sample IP CALLCHAIN" },
		{ PERF_SAMPLE_IP | PERF_SAMPLE_READ, "sample IP READ group" },
	};
	const struct subject getppid = {
		.op = { .run = getppid_run },
		.base = measure_getppid(),
		.what = "tracepoint",
	};
	struct perf_event_attr attr = {
		.type = PERF_TYPE_TRACEPOINT,
		.config = tracepoint_id(ENTER_GETPPID),
	};
	struct perf_event_attr other = attr;
	size_t i;

	many_counted(&getppid, &attr);
	counted_beside(&getppid, &attr);
	other.config = tracepoint_id("raw_syscalls/sys_enter");
	counted(&getppid, &other, "raw_syscalls:sys_enter, count");
	other.config = tracepoint_id("syscalls/sys_exit_getppid");
	counted(&getppid, &other, "exit of a system call, count");
	sampling_attr(&attr, attr.type, attr.config, PERF_SAMPLE_IP);
	counted(&getppid, &attr, "period 1 without a ring");
	for (i = 0; i < ARRAY_SIZE(samples); i++) {
		sampling_attr(&attr, attr.type, attr.config, samples[i].sample_type);
		if (samples[i].sample_type & PERF_SAMPLE_READ)
			attr.read_format = PERF_FORMAT_GROUP;
		sampled(&getppid, &attr, samples[i].event);
	}
	sampling_attr(&attr, attr.type, attr.config, PERF_SAMPLE_IP);
	idle(&getppid, &attr);
	attr.watermark = 0;
	attr.wakeup_events = 1;
	sampled(&getppid, &attr, "sample IP, wakeup at each");
	sampling_attr(&attr, attr.type, tracepoint_id("raw_syscalls/sys_enter"),
		      PERF_SAMPLE_IP);
	sampled(&getppid, &attr, "raw_syscalls:sys_enter, sample IP");
}

#define FAULTS	32

static char *faulting;
static int next_fault;

/* Map the pages again instead of calling madvise(2), which a small kernel may lack. */
static void fault_prepare(void *ring)
{
	if (ring)
		ring_drain(ring);
	faulting = mmap(faulting, FAULTS * page_size, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | (faulting ? MAP_FIXED : 0), -1, 0);
	next_fault = 0;
}

static void fault_run(void *arg)
{
	__atomic_store_n(&faulting[next_fault++ * page_size], 1, __ATOMIC_RELAXED);
}

static void page_faults(void)
{
	struct op op = {
		.run = fault_run,
		.prepare = fault_prepare,
		.batch = FAULTS,
		.rounds = 100,
	};
	struct perf_event_mmap_page *ring;
	struct perf_event_attr attr;
	struct cost base = measure(&op);
	int fd;

	report("Z1w", base, "page fault, anonymous page");
	fd = perf_software(PERF_COUNT_SW_PAGE_FAULTS);
	report("Z1w", minus(measure(&op), base), "page fault: count");
	must_count(fd, 100 / 5 * FAULTS, "page faults");
	close(fd);

	sampling_attr(&attr, PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS,
		      PERF_SAMPLE_IP);
	fd = perf_open(&attr, -1);
	ring = ring_map(fd, RING_PAGES);
	if (ring) {
		op.arg = ring;
		report("Z1w", minus(measure(&op), base), "page fault: sample IP");
		if (ring_head(ring) < FAULTS * 16)
			report_wrong("page fault: no samples");
		ring_unmap(ring, RING_PAGES);
	}
	close(fd);
}

static long watched;

static void store_run(void *arg)
{
	__atomic_store_n(&watched, 1, __ATOMIC_RELAXED);
}

static void breakpoint(void)
{
	struct subject store = { .op = { .run = store_run }, .what = "breakpoint" };
	struct perf_event_attr attr;

	store.base = measure(&store.op);
	sampling_attr(&attr, PERF_TYPE_BREAKPOINT, 0, PERF_SAMPLE_IP);
	attr.bp_type = HW_BREAKPOINT_W;
	attr.bp_addr = (unsigned long)&watched;
	attr.bp_len = HW_BREAKPOINT_LEN_8;
	attr.exclude_kernel = 1;
	sampled(&store, &attr, "sample IP at a store");
}

static void spin_run(void *arg)
{
	long i;

	for (i = 0; i < 200000; i++)
		asm volatile("" : : : "memory");
}

/*
 * Samples of the PMU come from its interrupt, so their number in a run varies
 * by one: the cost of a run beyond an unsampled one is divided by its own.
 */
static void hardware_samples(void)
{
	const char *operation = "hw event: sample IP TID TIME with its interrupt";
	const int rounds = rounds_of(50), record = 32;
	const struct op spin = { .run = spin_run, .batch = 1, .rounds = 50 };
	struct perf_event_mmap_page *ring;
	struct perf_event_attr attr;
	struct cost base, cost;
	double each[50];
	__u64 begin;
	int fd, i;

	sampling_attr(&attr, PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS,
		      PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME);
	attr.sample_period = 10000;
	attr.exclude_kernel = 1;
	base = measure(&spin);
	fd = perf_open(&attr, -1);
	ring = ring_map(fd, RING_PAGES);
	if (!ring)
		goto out;
	for (i = 0; i < rounds; i++) {
		ring_drain(ring);
		begin = ticks();
		spin_run(NULL);
		each[i] = (ticks() - begin) * ARCH_INSN_PER_TICK - base.insn;
		each[i] /= (ring_head(ring) - ring->data_tail) / record;
	}
	if (ring_head(ring) <= ring->data_tail) {
		/* QEMU's PMU raises its interrupt from version 8.1 on. */
		report_absent("Z1", ENODATA, "%s", operation);
	} else {
		cost.insn = median(each, rounds);
		cost.resolution = ARCH_TICK_ERROR * ARCH_INSN_PER_TICK;
		report("Z1", cost, "%s", operation);
	}
	ring_unmap(ring, RING_PAGES);
out:
	close(fd);
}

void bench_samples(void)
{
	tracepoints();
	page_faults();
	if (ARCH_BREAKPOINTS)
		breakpoint();
	if (ARCH_HARDWARE)
		hardware_samples();
}
