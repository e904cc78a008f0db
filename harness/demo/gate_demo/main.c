// SPDX-License-Identifier: GPL-2.0
/*
 * gate_demo [--pmu] OUTPUT PROGRAM [ARGUMENT...]
 *
 * Run PROGRAM with its standard output in OUTPUT, report what it did inside and
 * outside of its write(2) calls, and check that the figures agree with each
 * other. With --pmu there must be hardware counters. Exit status: 0 if the
 * figures agree, 1 if not, 2 if there are none.
 */
#include "demo.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

/*
 * Clocks and hardware counters run while one firing goes from target to target,
 * some hundred ns apart, or longer if the host takes the guest's CPU away just
 * there. Events that count occurrences have no such excuse.
 */
#define SUM_TOLERANCE	0.02

/*
 * The record of an entry or exit is written next to its trigger, not in the
 * same instant, and the program may have to wait for the CPU within a window.
 */
#define TIME_TOLERANCE	0.05

enum { INSIDE, OUTSIDE, WHOLE, NR_WAYS };

struct quantity {
	const char *name;
	__u32 type;
	__u64 config;
	const char *tracepoint;
	double tolerance;
	/* The value of one unit of the report. */
	unsigned int unit;
	int fd[NR_WAYS];
	struct reading before[NR_WAYS];
	struct reading reading[NR_WAYS];
};

#define EXACT(_name, _type, _config, _tracepoint) \
	{ .name = _name, .type = _type, .config = _config, \
	  .tracepoint = _tracepoint, .unit = 1 }
#define CLOCK(_name, _type, _config, _unit) \
	{ .name = _name, .type = _type, .config = _config, \
	  .tolerance = SUM_TOLERANCE, .unit = _unit }

static struct quantity quantities[] = {
	EXACT("page faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS, NULL),
	EXACT("page allocations", PERF_TYPE_TRACEPOINT, 0, "kmem/mm_page_alloc"),
	CLOCK("task-clock, us", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK, 1000),
	CLOCK("cpu-clock, us", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, 1000),
	CLOCK("instructions", PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS, 1),
	CLOCK("cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, 1),
};

#define PAGE_FAULTS	0
#define CPU_CLOCK	3

/* Number of quantities that can be counted here. */
static size_t nr_quantities;
static int enter, leave;

static bool near(double a, double b, double tolerance)
{
	double difference = a > b ? a - b : b - a;

	return difference <= tolerance * b;
}

static double milliseconds(__u64 ns)
{
	return ns / 1e6;
}

static struct perf_event_attr quantity_attr(const struct quantity *quantity)
{
	struct perf_event_attr attr = event_attr(quantity->type, quantity->config);

	if (quantity->tracepoint)
		attr.config = tracepoint(quantity->tracepoint);
	attr.disabled = 1;
	attr.enable_on_exec = 1;
	return attr;
}

static void open_quantity(struct quantity *quantity, pid_t pid)
{
	struct perf_event_attr attr = quantity_attr(quantity);

	quantity->fd[WHOLE] = event_open(&attr, pid);
	attr.start_paused = 1;
	quantity->fd[INSIDE] = event_open(&attr, pid);
	quantity->fd[OUTSIDE] = event_open(&attr, pid);

	/*
	 * At both ends, move INSIDE before OUTSIDE: both count the time between the two
	 * moves at the entry, and neither counts it at the exit.
	 */
	set_starter(enter, quantity->fd[INSIDE]);
	set_stopper(enter, quantity->fd[OUTSIDE]);
	set_stopper(leave, quantity->fd[INSIDE]);
	set_starter(leave, quantity->fd[OUTSIDE]);
}

/*
 * Tell whether all events of the first NR quantities have counters of their
 * own. The kernel rejects a group that does not fit, but ignores members that
 * are off when it checks.
 */
static bool counters_suffice(size_t nr)
{
	int fds[NR_WAYS * ARRAY_SIZE(quantities)], leader = -1, nr_fds = 0;
	struct perf_event_attr attr;
	bool fit = true;

	for (size_t i = 0; i < nr; i++) {
		attr = quantity_attr(&quantities[i]);
		attr.disabled = 0;
		for (int way = 0; way < NR_WAYS && fit && attr.type == PERF_TYPE_HARDWARE; way++) {
			fds[nr_fds] = event_try_open(&attr, 0, leader);
			fit = fds[nr_fds] >= 0;
			leader = fds[0];
			nr_fds += fit;
		}
	}
	while (nr_fds--)
		close(fds[nr_fds]);
	return fit;
}

/*
 * Leave the hardware events out if there is no PMU and none is asked for, and
 * those that would have to take turns with others.
 */
static void count_quantities(bool need_pmu)
{
	struct perf_event_attr attr;
	int fd;

	for (nr_quantities = 0; nr_quantities < ARRAY_SIZE(quantities); nr_quantities++) {
		attr = quantity_attr(&quantities[nr_quantities]);
		fd = event_try_open(&attr, 0, -1);
		if (fd < 0 && errno == EINVAL)
			die("this kernel has no gates");
		if (fd < 0 && errno == ENOENT && !need_pmu &&
		    attr.type == PERF_TYPE_HARDWARE)
			return;
		if (fd < 0)
			die("%s: %s", quantities[nr_quantities].name, strerror(errno));
		close(fd);
		if (!counters_suffice(nr_quantities + 1))
			return;
	}
}

static void read_quantities(bool before)
{
	struct quantity *quantity;

	for (size_t i = 0; i < nr_quantities; i++) {
		quantity = &quantities[i];
		for (int way = 0; way < NR_WAYS; way++)
			(before ? quantity->before : quantity->reading)[way] =
				event_read(quantity->fd[way]);
	}
}

static void report_row(const char *name, __u64 inside, __u64 outside, __u64 whole,
		       unsigned int unit, bool exact)
{
	long long rest = inside + outside - whole;

	printf("  %-18s %13llu %13llu %13llu %8.2f %%", name, inside / unit,
	       outside / unit, whole / unit, 100.0 * inside / whole);
	if (exact)
		printf(" %+11lld\n", rest);
	else
		printf(" %+9.3f %%\n", 100.0 * rest / whole);
}

static void report_quantities(void)
{
	const struct reading *reading = quantities[PAGE_FAULTS].reading;

	printf("  %-18s %13s %13s %13s %10s %11s\n", "", "inside", "outside", "whole",
	       "inside/all", "sum-whole");
	report_row("time, us", reading[INSIDE].gate_time, reading[OUTSIDE].gate_time,
		   reading[WHOLE].running, 1000, false);
	for (size_t i = 0; i < nr_quantities; i++) {
		reading = quantities[i].reading;
		report_row(quantities[i].name, reading[INSIDE].value,
			   reading[OUTSIDE].value, reading[WHOLE].value,
			   quantities[i].unit, !quantities[i].tolerance);
	}
	if (nr_quantities < ARRAY_SIZE(quantities))
		printf("  no instructions and cycles: the emulated CPU has no PMU\n");
}

/* All gates moved as often as the program called write(2). */
static void check_windows(const struct timeline *timeline, __u64 nr_triggers[2])
{
	__u64 windows = quantities[PAGE_FAULTS].reading[INSIDE].gate_count -
			quantities[PAGE_FAULTS].before[INSIDE].gate_count;
	bool equal = true;

	for (size_t i = 0; i < nr_quantities; i++)
		for (int way = INSIDE; way <= OUTSIDE; way++)
			equal &= quantities[i].before[way].gate_count == 1 &&
				 quantities[i].reading[way].gate_count == windows + 1;
	check(windows && equal, "%llu windows by GATE_COUNT, the same for %zu targets",
	      windows, 2 * nr_quantities);
	check(timeline->nr_enter == windows && timeline->nr_exit == windows &&
	      nr_triggers[0] == windows && nr_triggers[1] == windows &&
	      timeline->ordered && !timeline->lost,
	      "as many as entries and exits sampled (%zu, %zu, %llu lost) and counted (%llu, %llu)",
	      timeline->nr_enter, timeline->nr_exit, timeline->lost, nr_triggers[0],
	      nr_triggers[1]);
}

/* Compare the time that gates tell with the time of the samples. */
static void check_times(const struct timeline *timeline)
{
	__u64 gate_time = quantities[PAGE_FAULTS].reading[INSIDE].gate_time;
	__u64 clock = quantities[CPU_CLOCK].reading[INSIDE].value;
	__u64 samples = timeline_open_time(timeline);

	check(near(gate_time, samples, TIME_TOLERANCE) && near(clock, samples, TIME_TOLERANCE),
	      "open %.2f ms by GATE_TIME, %.2f by cpu-clock, %.2f by samples (within %.0f %%)",
	      milliseconds(gate_time), milliseconds(clock), milliseconds(samples),
	      100 * TIME_TOLERANCE);
}

/* Compare the sum of two targets that were measured apart with one without a gate. */
static void check_sums(void)
{
	bool exact = true, close = true;
	const struct reading *reading;
	bool fits;

	for (size_t i = 0; i < nr_quantities; i++) {
		reading = quantities[i].reading;
		fits = near(reading[INSIDE].value + reading[OUTSIDE].value,
			    reading[WHOLE].value, quantities[i].tolerance);
		if (quantities[i].tolerance)
			close &= fits;
		else
			exact &= fits;
		close &= near(reading[INSIDE].gate_time + reading[OUTSIDE].gate_time,
			      reading[WHOLE].running, SUM_TOLERANCE);
	}
	check(exact, "inside + outside = whole for page faults and allocations, exactly");
	check(close, "inside + outside = whole for times, clocks and counters within %.0f %%",
	      100 * SUM_TOLERANCE);
}

/* Check what must be true of each event alone. */
static void check_parts(void)
{
	bool parts = true, ungated = true, running = true;
	const struct reading *reading, *whole;

	for (size_t i = 0; i < nr_quantities; i++) {
		reading = quantities[i].reading;
		whole = &reading[WHOLE];
		ungated &= whole->value && !whole->gate_count &&
			   whole->gate_time == whole->running;
		for (int way = 0; way < NR_WAYS; way++) {
			parts &= reading[way].value <= whole->value &&
				 reading[way].gate_time <= reading[way].running;
			running &= reading[way].running == reading[way].enabled;
		}
	}
	check(parts && ungated && running,
	      "no part above its whole, no gate where none was set, no counter shared");
}

static void report_edge(void)
{
	struct edge_cost cost = measure_edge();

	printf("  a gate edge takes %.2f us", cost.edge / 1000);
	printf(", an ioctl ENABLE or DISABLE %.2f us: %.1f times as long\n",
	       cost.ioctl / 1000, cost.ioctl / cost.edge);
	check(cost.windows == cost.calls && cost.edge > 0 && cost.edge < cost.ioctl,
	      "%llu windows in %llu calls of getppid(2), and an edge is cheaper than an ioctl",
	      cost.windows, cost.calls);
}

static void report_title(char **argv, const char *output)
{
	struct utsname uts;
	struct stat status;

	if (uname(&uts) || stat(output, &status) || !status.st_size)
		die("%s: no output", output);
	printf("%s, Linux %s:", uts.machine, uts.release);
	for (; *argv; argv++)
		printf(strchr(*argv, ' ') ? " '%s'" : " %s", *argv);
	printf("\n  writes %lld bytes", (long long)status.st_size);
}

static void report_windows(const struct timeline *timeline)
{
	const struct reading *reading = quantities[PAGE_FAULTS].reading;
	__u64 windows = reading[INSIDE].gate_count - 1;

	printf(" in %llu windows, open for %.2f of %.2f ms, %.2f us each\n", windows,
	       milliseconds(reading[INSIDE].gate_time),
	       milliseconds(timeline->end - timeline->start),
	       reading[INSIDE].gate_time / 1e3 / windows);
}

static struct timeline measure(char **argv, const char *output, __u64 nr_triggers[2])
{
	struct program program = program_fork(argv, output);
	struct perf_event_attr attr = event_attr(PERF_TYPE_TRACEPOINT,
						 tracepoint("syscalls/sys_enter_write"));
	struct recorder recorder;

	enter = event_open(&attr, program.pid);
	attr.config = tracepoint("syscalls/sys_exit_write");
	leave = event_open(&attr, program.pid);
	for (size_t i = 0; i < nr_quantities; i++)
		open_quantity(&quantities[i], program.pid);
	recorder = recorder_open(program.pid);

	/*
	 * A gate moves while its target is disabled. One write(2) before the
	 * targets begin leaves those for the outside open from the start.
	 */
	program_write_once(&program);
	read_quantities(true);
	nr_triggers[0] = -event_read(enter).value;
	nr_triggers[1] = -event_read(leave).value;
	program_run(&program);
	read_quantities(false);
	nr_triggers[0] += event_read(enter).value;
	nr_triggers[1] += event_read(leave).value;
	return recorder_read(&recorder);
}

int main(int argc, char **argv)
{
	bool need_pmu = argc > 1 && !strcmp(argv[1], "--pmu");
	struct timeline timeline;
	__u64 nr_triggers[2];

	argv += need_pmu;
	argc -= need_pmu;
	if (argc < 3)
		die("usage: gate_demo [--pmu] OUTPUT PROGRAM [ARGUMENT...]");
	count_quantities(need_pmu);
	timeline = measure(argv + 2, argv[1], nr_triggers);

	report_title(argv + 2, argv[1]);
	report_windows(&timeline);
	report_quantities();
	timeline_picture(&timeline);
	check_windows(&timeline, nr_triggers);
	check_times(&timeline);
	check_sums();
	check_parts();
	report_edge();
	timeline_dump(&timeline);
	return verdict("gates", "%zu windows, none missed; %zu quantities add up",
		       timeline.nr_exit, nr_quantities);
}
