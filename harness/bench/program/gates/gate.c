// SPDX-License-Identifier: GPL-2.0
/*
 * Gates: what one firing of a trigger costs, beside the two other ways to the
 * same end, a BPF program at both edges and a pair of ioctls.
 *
 * The trigger is a counting tracepoint event at getppid(2) of this task. A
 * trigger that is starter and stopper of its targets at once flips them at
 * each firing, so half of the measured edges open and half close.
 */
#include "bench.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

#define FORMAT_GATE_TIME		BIT(5)
#define FORMAT_GATE_COUNT		BIT(6)
#define ATTR_START_PAUSED		BIT(40)

#define ENTER_GETPPID	"syscalls/sys_enter_getppid"
#define EXIT_GETPPID	"syscalls/sys_exit_getppid"
#define TARGETS		64

/* Kinds of targets: a count that the kernel has at hand, a clock, and a hardware counter. */
enum kind {
	PAGE_FAULTS,
	TASK_CLOCK,
	HARDWARE,
};

static const char * const kind_name[] = {
	[PAGE_FAULTS]	= "page-faults",
	[TASK_CLOCK]	= "task-clock",
	[HARDWARE]	= "hw",
};

static int open_target(enum kind kind, int i)
{
	static const __u64 raw_events[] = { 0x1001e, 0x20002, 0x3001e, 0x40002 };
	const __u64 format = FORMAT_GATE_TIME | FORMAT_GATE_COUNT;

	switch (kind) {
	case HARDWARE:
		return perf_count(PERF_TYPE_RAW, raw_events[i], -1, format, false);
	case TASK_CLOCK:
		return perf_count(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK, -1,
				  format, false);
	default:
		return perf_count(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS, -1,
				  format, false);
	}
}

/* @stopper is @starter for a trigger that flips. */
struct gate {
	int starter;
	int stopper;
	int target[TARGETS];
	int nr;
};

static void gate_close(struct gate *gate)
{
	while (gate->nr)
		close(gate->target[--gate->nr]);
	if (gate->stopper != gate->starter)
		close(gate->stopper);
	close(gate->starter);
}

/* Returns 0 or an errno. */
static int gate_open(struct gate *gate, bool flip, enum kind kind, int nr)
{
	int fd, error;

	gate->nr = 0;
	gate->starter = perf_count(PERF_TYPE_TRACEPOINT, tracepoint_id(ENTER_GETPPID), -1, 0,
				   false);
	gate->stopper = gate->starter;
	if (!flip)
		gate->stopper = perf_count(PERF_TYPE_TRACEPOINT, tracepoint_id(EXIT_GETPPID),
					   -1, 0, false);
	while (gate->nr < nr) {
		fd = open_target(kind, gate->nr);
		if (fd < 0)
			goto fail;
		gate->target[gate->nr++] = fd;
		if (ioctl(gate->starter, PERF_EVENT_IOC_SET_STARTER, fd) ||
		    ioctl(gate->stopper, PERF_EVENT_IOC_SET_STOPPER, fd))
			goto fail;
	}
	return 0;
fail:
	error = errno;
	gate_close(gate);
	return error;
}

/* All windows that the firings make must be in the target's own count of them. */
static void check_windows(struct gate *gate)
{
	__u64 value[3] = {}, firings = 0, windows;

	if (read(gate->starter, &firings, sizeof(firings)) < 0 ||
	    read(gate->target[0], value, sizeof(value)) < (ssize_t)sizeof(value)) {
		report_wrong("gate: cannot read its events: %s", strerror(errno));
		return;
	}
	windows = gate->starter == gate->stopper ? (firings + 1) / 2 : firings;
	if (value[2] != windows)
		report_wrong("gate: %llu windows counted, %llu made", value[2], windows);
}

static int measure_gate(struct cost base, bool flip, enum kind kind, int nr,
			struct cost *cost)
{
	const struct op op = { .run = getppid_run };
	struct gate gate;
	int error = gate_open(&gate, flip, kind, nr);

	if (error)
		return error;
	*cost = minus(measure(&op), base);
	check_windows(&gate);
	gate_close(&gate);
	return 0;
}

/* G1 and G2 for one kind of target. */
static void edges(struct cost base, enum kind kind)
{
	const bool hardware = kind == HARDWARE;
	const int most = hardware ? 4 : 8;
	const char *name = kind_name[kind];
	struct cost one, pair, many;
	int error;

	error = measure_gate(base, true, kind, 1, &one);
	if (!error)
		error = measure_gate(base, false, kind, 1, &pair);
	if (!error)
		error = measure_gate(base, true, kind, most, &many);
	if (error) {
		report_absent(kind == PAGE_FAULTS ? "G1" : "ref", error,
			      "gate edge, 1 %s target", name);
		report_absent(kind == TASK_CLOCK ? "ref" : "G2", error,
			      "gate edge, each further %s target", name);
		return;
	}
	/*
	 * The limit is for counts that the kernel has at hand. A clock is read
	 * at each edge like a counter, and costs about what BPF pays for it.
	 */
	if (kind != PAGE_FAULTS) {
		report("ref", one, "gate edge, 1 %s target", name);
		report("ref", divided(pair, 2), "gate edge, 1 %s target, two triggers", name);
	} else {
		report_limit("G1", one, ARCH_GATE_EDGE_LIMIT,
			     "gate edge, 1 %s target", name);
		report_limit("G1", divided(pair, 2), ARCH_GATE_EDGE_OF_TWO_LIMIT,
			     "gate edge, 1 %s target, two triggers", name);
	}
	report("ref", many, "gate edge, %d %s targets", most, name);
	if (kind == TASK_CLOCK)
		report("ref", divided(minus(many, one), most - 1),
		       "gate edge, each further %s target", name);
	else
		report_limit("G2", divided(minus(many, one), most - 1),
			     hardware ? ARCH_GATE_FURTHER_HARDWARE_LIMIT :
					ARCH_GATE_FURTHER_LIMIT,
			     "gate edge, each further %s target", name);
}

/* PERF_EVENT_IOC_SET_WINDOWS and its argument, which the headers here may not know. */
struct windows {
	__u32 size, flags, measure, reserved;
	__u64 min;
};

#define IOC_SET_WINDOWS		_IOW('$', 18, struct windows)
#define WINDOWS_HISTOGRAM	BIT(0)
#define WINDOWS_RECORD		BIT(1)
#define WINDOWS_COUNT		0
#define WINDOWS_WALL		2

static int measure_windows(struct cost base, const struct windows *windows, struct cost *cost)
{
	const struct op op = { .run = getppid_run };
	struct perf_event_mmap_page *ring;
	struct gate gate;
	int error = gate_open(&gate, true, PAGE_FAULTS, 1);

	if (error)
		return error;
	ring = ring_map(gate.target[0], RING_PAGES);
	error = ioctl(gate.target[0], IOC_SET_WINDOWS, windows) ? errno : 0;
	if (!error) {
		*cost = minus(measure(&op), base);
		check_windows(&gate);
	}
	ring_unmap(ring, RING_PAGES);
	gate_close(&gate);
	return error;
}

/* G10: what is added to an edge if windows are recorded; half of the edges end one. */
static void windows_edges(struct cost base)
{
	static const struct {
		const char *name;
		__u32 flags, measure;
		__u64 min;
		bool limit;
	} rows[] = {
		{ "a histogram of counts", WINDOWS_HISTOGRAM, WINDOWS_COUNT, 0, true },
		{ "a histogram by the clock", WINDOWS_HISTOGRAM, WINDOWS_WALL, 0, false },
		{ "records of slow windows, none of them", WINDOWS_RECORD, WINDOWS_COUNT, 1000,
		  true },
		{ "records of slow windows by the clock, none", WINDOWS_RECORD, WINDOWS_WALL,
		  1ULL << 60, false },
		{ "a record of each window", WINDOWS_RECORD, WINDOWS_COUNT, 0, false },
	};
	struct cost plain, cost;
	size_t i;
	int error;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		struct windows windows = {
			.size = sizeof(windows), .flags = rows[i].flags,
			.measure = rows[i].measure, .min = rows[i].min,
		}, none = { .size = sizeof(none) };

		/* The buffer of the event has its price without windows, too. */
		error = measure_windows(base, &none, &plain);
		if (!error)
			error = measure_windows(base, &windows, &cost);
		if (error)
			report_absent(rows[i].limit ? "G10" : "ref", error,
				      "added to a gate edge: %s", rows[i].name);
		else if (rows[i].limit)
			report_limit("G10", minus(cost, plain), 25,
				     "added to a gate edge: %s", rows[i].name);
		else
			report("ref", minus(cost, plain),
			       "added to a gate edge: %s", rows[i].name);
	}
}

/* G10: a window whose count goes to a histogram, at half of what BPF programs take */
static void window_in_histogram(struct cost base)
{
	const struct windows windows = {
		.size = sizeof(windows), .flags = WINDOWS_HISTOGRAM, .measure = WINDOWS_COUNT,
	};
	const struct op op = { .run = getppid_run };
	const char *operation = "a window of one task in a histogram";
	struct cost bpf = bpf_window(base);
	struct gate gate;
	int error = gate_open(&gate, false, PAGE_FAULTS, 1);

	if (!error && ioctl(gate.target[0], IOC_SET_WINDOWS, &windows)) {
		error = errno;
		gate_close(&gate);
	}
	if (error) {
		report_absent("G10", error, "%s", operation);
		return;
	}
	report_limit("G10", minus(measure(&op), base), bpf.insn / 2, "%s", operation);
	check_windows(&gate);
	gate_close(&gate);
}

/* The targets of one trigger, up to as many as it may have. */
static void growth(struct cost base)
{
	static const int sizes[] = { 2, 4, 16, 32, TARGETS };
	struct cost cost;
	size_t i;
	int error;

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		error = measure_gate(base, true, PAGE_FAULTS, sizes[i], &cost);
		if (error)
			report_absent("ref", error, "gate edge, %d page-faults targets", sizes[i]);
		else
			report("ref", cost, "gate edge, %d page-faults targets", sizes[i]);
	}
}

static int open_closed(__u64 sample_type)
{
	struct perf_event_attr attr;
	__u64 flags;
	/* All flags are the word after read_format, whatever names the header has for them. */
	char *word = (char *)&attr + offsetof(struct perf_event_attr, read_format) +
		     sizeof(attr.read_format);

	sampling_attr(&attr, PERF_TYPE_TRACEPOINT, tracepoint_id(ENTER_GETPPID), sample_type);
	if (!sample_type)
		attr.sample_period = 0;
	memcpy(&flags, word, sizeof(flags));
	flags |= ATTR_START_PAUSED;
	memcpy(word, &flags, sizeof(flags));
	return perf_open(&attr, -1);
}

/* G3: an event that happens while its gate is closed. */
static void closed_targets(struct cost base, struct cost counting)
{
	const struct op op = { .run = getppid_run };
	struct perf_event_mmap_page *ring;
	__u64 count = 1;
	int fd;

	fd = open_closed(0);
	if (fd < 0) {
		report_absent("G3", errno, "target hit while closed: count");
		report_absent("G3", errno, "target hit while closed: sample IP");
		return;
	}
	report_limit("G3", minus(measure(&op), base), counting.insn,
		     "target hit while closed: count");
	if (read(fd, &count, sizeof(count)) < 0 || count)
		report_wrong("gate: a closed target counted %llu", count);
	close(fd);

	fd = open_closed(PERF_SAMPLE_IP);
	ring = ring_map(fd, RING_PAGES);
	if (ring) {
		report_limit("G3", minus(measure(&op), base), counting.insn,
			     "target hit while closed: sample IP");
		if (ring_head(ring))
			report_wrong("gate: a closed target wrote %llu bytes", ring_head(ring));
		ring_unmap(ring, RING_PAGES);
	}
	close(fd);
}

/*
 * Another task holds a gate, or only its trigger, and waits. The task opens its
 * events itself, and tells through @ready whether that worked.
 */
static int other_task(bool gated, struct cost *cost)
{
	struct gate gate = { .starter = -1, .stopper = -1 };
	int ready[2], done[2], error = EPIPE;
	const struct op op = { .run = getppid_run };
	char byte;
	pid_t child;

	if (pipe(ready) || pipe(done))
		return errno;
	child = fork();
	if (!child) {
		close(done[1]);
		error = gate_open(&gate, true, PAGE_FAULTS, gated);
		if (write(ready[1], &error, sizeof(error)) == sizeof(error))
			error = read(done[0], &byte, 1);
		_exit(error);
	}
	if (read(ready[0], &error, sizeof(error)) != sizeof(error))
		report_wrong("gate: no word from the other task");
	if (!error)
		*cost = measure(&op);
	close(done[1]);
	waitpid(child, NULL, 0);
	close(done[0]);
	close(ready[0]);
	close(ready[1]);
	return error;
}

/* G4: a task that is not traced. */
static void untraced_task(struct cost base)
{
	struct cost counted, gated;
	int error;

	error = other_task(false, &counted);
	if (error) {
		report_wrong("gate: the other task has no event: %s", strerror(error));
		return;
	}
	counted = minus(counted, base);
	report("ref", counted, "untraced task, another one counts the tracepoint");
	error = other_task(true, &gated);
	if (error)
		report_absent("G4", error, "untraced task, another one is gated by it");
	else
		report_limit("G4", minus(gated, base), counted.insn,
			     "untraced task, another one is gated by it");
}

static void toggle_run(void *arg)
{
	int fd = *(int *)arg;

	call3(SYS_ioctl, fd, PERF_EVENT_IOC_DISABLE, 0);
	call3(SYS_ioctl, fd, PERF_EVENT_IOC_ENABLE, 0);
}

static void read8_run(void *arg)
{
	__u64 value[3];

	call3(SYS_read, *(int *)arg, (long)value, sizeof(value));
}

static void ioctl_edges(void)
{
	int fd = perf_software(PERF_COUNT_SW_PAGE_FAULTS);
	const struct op op = { .run = toggle_run, .arg = &fd };

	report("ref", measure(&op), "ioctl DISABLE + ENABLE, page-faults event");
	close(fd);
}

static void gated_read(void)
{
	struct gate gate;
	int error = gate_open(&gate, true, PAGE_FAULTS, 1);
	const struct op op = { .run = read8_run, .arg = &gate.target[0] };

	if (error) {
		report_absent("ref", error, "read(2) 24 bytes of a gated event");
		return;
	}
	report("ref", measure(&op), "read(2) 24 bytes of a gated event");
	gate_close(&gate);
}

static struct cost count_tracepoint(struct cost base)
{
	int fd = perf_count(PERF_TYPE_TRACEPOINT, tracepoint_id(ENTER_GETPPID), -1, 0, false);
	struct cost cost = minus(measure_getppid(), base);

	must_count(fd, 100, "tracepoint event");
	close(fd);
	return cost;
}

void bench_gate(void)
{
	struct cost base = measure_getppid(), counting;

	bpf_edges("ref", ARCH_HARDWARE);
	ioctl_edges();
	counting = count_tracepoint(base);
	report("ref", counting, "tracepoint event without a gate: count");
	edges(base, PAGE_FAULTS);
	windows_edges(base);
	window_in_histogram(base);
	growth(base);
	edges(base, TASK_CLOCK);
	if (ARCH_HARDWARE)
		edges(base, HARDWARE);
	closed_targets(base, counting);
	untraced_task(base);
	gated_read();
}
