// SPDX-License-Identifier: GPL-2.0
/* Probes as perf events: in this program, and in the kernel. */
#include "bench.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

#define DEVICES		"/sys/bus/event_source/devices/"
#define OPTIMIZATION	"/proc/sys/debug/kprobes-optimization"

__noipa
static void probed(void)
{
	asm volatile("nop\n\tnop" : : : "memory");
}

static void probed_run(void *arg)
{
	probed();
}

/* Finds the offset of an address in the file that it was mapped from. */
static long file_offset(unsigned long address)
{
	unsigned long begin, end, offset;
	FILE *file = fopen("/proc/self/maps", "r");
	long found = -1;
	char line[256];

	if (!file)
		return -1;
	while (found < 0 && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%lx-%lx %*s %lx", &begin, &end, &offset) == 3 &&
		    address >= begin && address < end)
			found = address - begin + offset;
	}
	fclose(file);
	return found;
}

static struct cost measure_probe(struct perf_event_attr *attr, const struct op *op,
				 struct cost base, const char *operation)
{
	struct perf_event_mmap_page *ring = NULL;
	int fd = perf_open(attr, -1);
	struct op probe = *op;
	struct cost cost = {};

	if (fd < 0) {
		report_absent("Z1", errno, "%s", operation);
		return cost;
	}
	if (attr->sample_period) {
		ring = ring_map(fd, RING_PAGES);
		probe.prepare = ring ? ring_drain : NULL;
		probe.arg = ring;
	}
	cost = minus(measure(&probe), base);
	report("Z1", cost, "%s", operation);
	must_count(fd, 100, operation);
	if (ring)
		ring_unmap(ring, RING_PAGES);
	close(fd);
	return cost;
}

/* G5: the probe flips the gate of a software event at each hit. */
static void gate_at_probe(const struct perf_event_attr *attr, const struct op *op,
			  struct cost base, struct cost counting)
{
	struct perf_event_attr trigger = *attr;
	int fd = perf_open(&trigger, -1), target;
	struct cost cost;

	target = perf_software(PERF_COUNT_SW_PAGE_FAULTS);
	if (ioctl(fd, PERF_EVENT_IOC_SET_STARTER, target) ||
	    ioctl(fd, PERF_EVENT_IOC_SET_STOPPER, target)) {
		report_absent("G5", errno, "uprobe at a nop: gate edge, 1 page-faults target");
	} else {
		cost = minus(measure(op), base);
		report_limit("G5", cost, counting.insn + 190,
			     "uprobe at a nop: gate edge, 1 page-faults target");
	}
	close(target);
	close(fd);
}

static bool uprobe_attr(struct perf_event_attr *attr)
{
	const long type = read_number(DEVICES "uprobe/type");

	if (type < 0)
		return false;
	sampling_attr(attr, type, 0, PERF_SAMPLE_IP);
	attr->uprobe_path = (unsigned long)"/proc/self/exe";
	attr->probe_offset = file_offset((unsigned long)probed);
	return true;
}

static struct cost uprobes(void)
{
	const struct op op = { .run = probed_run, .rounds = 100 };
	struct cost base = measure(&op), counting = {};
	struct perf_event_attr attr;

	if (!uprobe_attr(&attr)) {
		report_absent("Z1", errno, "uprobe");
		return counting;
	}
	measure_probe(&attr, &op, base, "uprobe at a nop: sample IP");
	attr.sample_period = 0;
	counting = measure_probe(&attr, &op, base, "uprobe at a nop: count");
	attr.config = 1;
	measure_probe(&attr, &op, base, "uretprobe: count");
	return counting;
}

/* @counting is what a uprobe costs that only counts. */
static void gated_uprobe(struct cost counting)
{
	const struct op op = { .run = probed_run, .rounds = 100 };
	struct cost base = measure(&op);
	struct perf_event_attr attr;

	if (counting.insn <= 0 || !uprobe_attr(&attr))
		return;
	attr.sample_period = 0;
	gate_at_probe(&attr, &op, base, counting);
}

/* Opens the events of both ends of probed(). */
static bool function_open(int fd[2])
{
	struct perf_event_attr attr;
	int i;

	if (!uprobe_attr(&attr))
		return false;
	attr.sample_period = 0;
	for (i = 0; i < 2; i++) {
		struct perf_event_attr copy = attr;

		copy.config = i;
		fd[i] = perf_open(&copy, -1);
		if (fd[i] < 0)
			report_wrong("uprobe: %s", strerror(errno));
	}
	return true;
}

static void function_close(int fd[2])
{
	close(fd[0]);
	close(fd[1]);
}

/*
 * G9: what `perf stat --inside` does, two events that a function opens and closes. @bpf
 * is the cost of BPF programs that read the events there.
 */
static void inside_function(const struct op *op, struct cost base, double bpf)
{
	const char *operation = "a function, gates of 2 software events at entry and return";
	int fd[2], target[2], i;
	bool linked = true;

	if (!function_open(fd))
		return;
	for (i = 0; i < 2; i++) {
		target[i] = perf_software(i ? PERF_COUNT_SW_CONTEXT_SWITCHES :
					  PERF_COUNT_SW_PAGE_FAULTS);
		linked = linked && !ioctl(fd[0], PERF_EVENT_IOC_SET_STARTER, target[i]) &&
			 !ioctl(fd[1], PERF_EVENT_IOC_SET_STOPPER, target[i]);
	}
	if (linked)
		report_limit("G9", minus(measure(op), base), bpf, "%s", operation);
	else
		report_absent("G9", errno, "%s", operation);
	for (i = 0; i < 2; i++)
		close(target[i]);
	function_close(fd);
}

static void functions(void)
{
	const struct op op = { .run = probed_run, .rounds = 100 };
	struct cost base = measure(&op), bpf;
	int fd[2];

	if (!function_open(fd))
		return;
	report("ref", minus(measure(&op), base), "a function, entry and return counted");
	bpf = bpf_function(&op, base, fd[0], fd[1]);
	function_close(fd);
	inside_function(&op, base, bpf.insn);
}

static void kprobe(long type, bool at_return, bool sample, const char *operation)
{
	const struct op op = { .run = getppid_run };
	struct cost base = measure(&op);
	struct perf_event_attr attr;

	sampling_attr(&attr, type, at_return, PERF_SAMPLE_IP);
	attr.kprobe_func = (unsigned long)ARCH_GETPPID_SYMBOL;
	if (!sample)
		attr.sample_period = 0;
	measure_probe(&attr, &op, base, operation);
}

static void kprobes(void)
{
	const long type = read_number(DEVICES "kprobe/type");

	if (type < 0) {
		report_absent("Z1", errno, "kprobe");
		return;
	}
	/* A worker may turn a probe into a jump, but not in the middle of a row. */
	write_text(OPTIMIZATION, "0");
	kprobe(type, false, false, "kprobe: count");
	kprobe(type, false, true, "kprobe: sample IP");
	kprobe(type, true, false, "kretprobe: count");
}

void bench_probes(void)
{
	const struct cost counting = uprobes();

	kprobes();
	/*
	 * Measure this last, because afterwards the kernel keeps its code for gates on for
	 * a while.
	 */
	gated_uprobe(counting);
	functions();
}
