// SPDX-License-Identifier: GPL-2.0
/*
 * Each window of a gated event: its share of the whole count, and its distribution.
 *
 * The kernel adds each window to a histogram of the event. perf reads all of them where
 * it reads counts, subtracts what it read at the last interval, and adds them up like
 * counts: for each CPU, thread or group of CPUs that has a line in the output.
 *
 * An event measures one quantity of a window. So gate_wall, the time from beginning to end,
 * has an event of its own, which counts nothing and is not part of the event list.
 *
 * perf record lets events write each window to their buffers instead.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/kernel.h>
#include <linux/list.h>
#include <linux/perf_event.h>
#include <linux/zalloc.h>
#include <internal/xyarray.h>
#include <perf/cpumap.h>
#include <perf/evsel.h>
#include <perf/threadmap.h>

#include "counts.h"
#include "cpumap.h"
#include "debug.h"
#include "evlist.h"
#include "evsel.h"
#include "gate.h"
#include "gate-windows.h"
#include "perf_api_probe.h"
#include "stat.h"
#include "target.h"

/* The windows of an event, as perf stat and perf record see them. */
struct gate_windows {
	/* Setting of the kernel, which records nothing if there are no flags. */
	struct perf_event_windows	set;
	/* The event, or the hidden one that measures gate_wall, if it is open. */
	struct evsel			*event;
	/* The output shows the distribution. */
	bool				shown;
	/* struct gate_tally of each CPU and thread, as read at the last interval. */
	struct xyarray			*last;
	/* struct gate_tally of each line of the output. */
	void				*lines;
	int				nr_lines;
	size_t				tally_size;
};

static struct gate_tally *windows__line(const struct gate_windows *windows, int aggr_idx)
{
	return windows->lines + aggr_idx * windows->tally_size;
}

static bool windows__has_histogram(const struct gate_windows *windows)
{
	return windows->set.flags & PERF_WINDOWS_HISTOGRAM;
}

static struct gate_windows *evsel__new_windows(struct evsel *evsel)
{
	struct gate_windows *windows = zalloc(sizeof(*windows));

	if (windows) {
		windows->set.size = sizeof(windows->set);
		windows->tally_size = offsetof(struct gate_tally, windows);
		evsel->windows = windows;
	}
	return windows;
}

/**
 * evlist__setup_windows - Choose what perf stat records of windows
 * @evlist:	A list whose gates are set up, with gate_count and the other tool events
 * @per_window:	Show the distribution of each event
 *
 * Return: 0, or a negative error code after a message.
 */
int evlist__setup_windows(struct evlist *evlist, bool per_window)
{
	struct gate_windows *windows;
	struct evsel *evsel;

	if (per_window && !evlist__gates(evlist)) {
		pr_err("--per-window: no event has a gate, see --inside, --gate-on and --gate-off\n");
		return -EINVAL;
	}
	if (per_window && !perf_can_record_windows()) {
		pr_err("The kernel cannot record each window of a gate, which --per-window needs.\n");
		return -EOPNOTSUPP;
	}
	if (!evlist__gates(evlist))
		return 0;

	evlist__for_each_entry(evlist, evsel) {
		bool wall = evsel__tool_event(evsel) == PERF_TOOL_GATE_WALL;

		if (!evsel->gate || (evsel__is_tool(evsel) && !wall))
			continue;
		windows = evsel__new_windows(evsel);
		if (!windows)
			return -ENOMEM;
		windows->shown = per_window;
		if (wall)
			windows->set.measure = PERF_WINDOWS_WALL;
		if (wall || per_window) {
			windows->set.flags = PERF_WINDOWS_HISTOGRAM;
			windows->tally_size = sizeof(struct gate_tally);
		}
	}
	return 0;
}

/**
 * evlist__setup_window_records - Let perf record write each window to its file
 * @evlist:	A list whose gates are set up
 * @target:	The target to measure
 * @min:	Record only windows that take at least this many ns
 *
 * Return: 0, or a negative error code after a message.
 */
int evlist__setup_window_records(struct evlist *evlist, struct target *target, u64 min)
{
	struct gate_windows *windows;
	struct evsel *evsel;

	if (!evlist__gates(evlist)) {
		pr_err("--windows: no event has a gate, see --inside, --gate-on and --gate-off\n");
		return -EINVAL;
	}
	if (!perf_can_record_windows()) {
		pr_err("The kernel cannot record each window of a gate, which --windows needs.\n");
		return -EOPNOTSUPP;
	}
	if (target__has_cpu(target)) {
		pr_err("--windows: with -a and -C a window is one of a CPU, and its samples are those of all tasks that\n"
		       "run there meanwhile. Name a program, or processes with -p.\n");
		return -EINVAL;
	}

	evlist__for_each_entry(evlist, evsel) {
		if (!evsel->gate || evsel__is_tool(evsel))
			continue;
		windows = evsel__new_windows(evsel);
		if (!windows)
			return -ENOMEM;
		windows->set.flags = PERF_WINDOWS_RECORD;
		windows->set.measure = PERF_WINDOWS_WALL;
		windows->set.min = min;
	}
	return 0;
}

/**
 * evsel__nr_windows - Count the windows that an event has measured, recorded or not
 * @evsel:	The event of a gate that counts them
 *
 * Return: their number on all CPUs and threads.
 */
u64 evsel__nr_windows(struct evsel *evsel)
{
	union gate_histogram histogram;
	u64 nr = 0;
	int x, y;

	for (x = 0; x < xyarray__max_x(evsel->core.fd); x++) {
		for (y = 0; y < xyarray__max_y(evsel->core.fd); y++) {
			gate_histogram__prepare(&histogram);
			if (!perf_evsel__read_windows(&evsel->core, x, y, &histogram.h))
				nr += histogram.h.windows;
		}
	}
	return nr;
}

/* Open the event that measures gate_wall for the gate of @reference. */
static struct evsel *gates__open_wall(struct gates *gates, struct evsel *reference,
				      struct target *target)
{
	struct perf_event_attr *from = &reference->core.attr, attr = {
		.type		= PERF_TYPE_SOFTWARE,
		.config		= PERF_COUNT_SW_DUMMY,
		.size		= sizeof(attr),
		.exclude_kernel	= 1,
		.disabled	= 1,
		.enable_on_exec	= target__enable_on_exec(target),
		.start_paused	= from->start_paused,
		.gate_nest	= from->gate_nest,
		.inherit	= from->inherit,
		.inherit_thread	= from->inherit_thread,
		.remove_on_exec	= from->remove_on_exec,
	};
	struct evsel *evsel = evsel__new_idx(&attr, gates->evlist->core.nr_entries);

	if (!evsel)
		return NULL;
	evsel->name = strdup("gate_wall");
	evsel->gate_is_set_up = true;
	evlist__add(gates->evlist, evsel);
	if (evsel__open(evsel, evsel->core.cpus, evsel->core.threads) < 0) {
		pr_err("gate_wall: %m\n");
		evlist__remove(gates->evlist, evsel);
		evsel__delete(evsel);
		return NULL;
	}
	return evsel;
}

static int evsel__set_windows(struct evsel *evsel, const struct perf_event_windows *set)
{
	int err = perf_evsel__set_windows(&evsel->core, set);

	if (err == -EPERM)
		pr_err("%s: its histogram of windows takes more memory than you may lock. Raise the limit, 'ulimit -l',\n"
		       "or /proc/sys/kernel/perf_event_mlock_kb.\n", evsel__name(evsel));
	else if (err == -EOPNOTSUPP)
		pr_err("%s: the kernel cannot time its windows by the clock of -k. Use CLOCK_MONOTONIC or\n"
		       "CLOCK_MONOTONIC_RAW, or leave the option out.\n", evsel__name(evsel));
	else if (err)
		pr_err("%s: the kernel does not record its windows: %s\n", evsel__name(evsel),
		       strerror(-err));
	return err;
}

static int evsel__open_windows(struct evsel *evsel, struct gates *gates, struct target *target)
{
	struct gate_windows *windows = evsel->windows;
	struct evsel *reference;
	int err;

	if (!windows)
		return 0;
	reference = evsel->gate->reference;
	if (windows->last)
		xyarray__reset(windows->last);
	if (!evsel__is_tool(evsel)) {
		windows->event = evsel->supported ? evsel : NULL;
	} else if (reference) {
		windows->event = gates__open_wall(gates, reference, target);
		if (!windows->event)
			return -EINVAL;
		err = gates__link(gates, evsel->gate, windows->event, target);
		if (err)
			return err;
	}
	if (!windows->event || !windows->set.flags)
		return 0;
	/* Not all windows get records, so let one event of the gate count them, too. */
	if (windows->set.flags & PERF_WINDOWS_RECORD && evsel == reference)
		windows->set.flags |= PERF_WINDOWS_HISTOGRAM;
	/* The user has not asked for gate_wall, so it need not be there. */
	if (evsel__is_tool(evsel) && !windows->shown) {
		err = perf_evsel__set_windows(&windows->event->core, &windows->set);
		if (err)
			pr_debug("gate_wall is not counted: %s\n", strerror(-err));
		return 0;
	}
	return evsel__set_windows(windows->event, &windows->set);
}

/**
 * evlist__open_windows - Let the kernel begin to record windows
 * @evlist:	A list whose events are open, have their gates and are not yet enabled
 * @target:	The target to measure
 *
 * Return: 0, -EAGAIN to open all events again, or a negative error code after a message.
 */
int evlist__open_windows(struct evlist *evlist, struct target *target)
{
	struct evsel *evsel;
	int err;

	evlist__for_each_entry(evlist, evsel) {
		err = evsel__open_windows(evsel, evlist__gates(evlist), target);
		if (err)
			return err;
	}
	return 0;
}

/* Get the hidden event of gate_wall, or NULL. */
static struct evsel *evsel__wall(struct evsel *evsel)
{
	struct gate_windows *windows = evsel->windows;

	return windows && windows->event != evsel ? windows->event : NULL;
}

/**
 * evlist__enable_windows - Enable or disable the events that measure gate_wall
 * @evlist:	A list whose starters are disabled
 * @enable:	Whether to enable the events
 */
void evlist__enable_windows(struct evlist *evlist, bool enable)
{
	struct evsel *evsel, *wall;

	evlist__for_each_entry(evlist, evsel) {
		wall = evsel__wall(evsel);
		if (wall && enable)
			evsel__enable(wall);
		else if (wall)
			evsel__disable(wall);
	}
}

/**
 * evlist__close_windows - Close the events that measure gate_wall
 * @evlist:	The list, whose windows have been read
 */
void evlist__close_windows(struct evlist *evlist)
{
	struct evsel *evsel, *wall;

	evlist__for_each_entry(evlist, evsel) {
		wall = evsel__wall(evsel);
		if (wall) {
			evsel__close(wall);
			evlist__remove(evlist__gates(evlist)->evlist, wall);
			evsel__delete(wall);
		}
		if (evsel->windows)
			evsel->windows->event = NULL;
	}
}

/**
 * evsel__delete_windows - Free what is known of the windows of an event
 * @evsel:	The event
 */
void evsel__delete_windows(struct evsel *evsel)
{
	if (!evsel->windows)
		return;
	xyarray__delete(evsel->windows->last);
	free(evsel->windows->lines);
	zfree(&evsel->windows);
}

/*
 * The hidden event of gate_wall may be open on more CPUs than @evsel, whose PMU need not be
 * on each CPU, so its index is looked up by the CPU.
 */
static int read_histogram(struct evsel *evsel, int cpu_map_idx, int thread,
			  union gate_histogram *histogram)
{
	struct evsel *event = evsel->windows->event;
	int idx = cpu_map_idx;

	gate_histogram__prepare(histogram);
	if (!event)
		return -EINVAL;
	if (event != evsel)
		idx = perf_cpu_map__idx(event->core.cpus,
					perf_cpu_map__cpu(evsel->core.cpus, cpu_map_idx));
	return perf_evsel__read_windows(&event->core, idx, thread, &histogram->h);
}

/**
 * evsel__read_gate_wall - Read the time from the beginning to the end of windows
 * @evsel:		The tool event gate_wall
 * @cpu_map_idx:	Index of its CPU
 * @thread:		Index of its thread
 *
 * Return: 0, or a negative error code if there is no open event that measures it.
 */
int evsel__read_gate_wall(struct evsel *evsel, int cpu_map_idx, int thread)
{
	union gate_histogram histogram;
	int err;

	if (!evsel->windows)
		return -EINVAL;
	err = read_histogram(evsel, cpu_map_idx, thread, &histogram);
	if (!err)
		perf_counts(evsel->counts, cpu_map_idx, thread)->val = histogram.h.sum;
	return err;
}

static int evsel__alloc_tallies(struct evsel *evsel)
{
	struct gate_windows *windows = evsel->windows;

	if (!windows->lines) {
		windows->nr_lines = evsel->stats->nr_aggr;
		windows->lines = calloc(windows->nr_lines, windows->tally_size);
	}
	if (!windows->last)
		windows->last = xyarray__new(perf_cpu_map__nr(evsel->core.cpus),
					     perf_thread_map__nr(evsel->core.threads),
					     windows->tally_size);
	return windows->lines && windows->last ? 0 : -ENOMEM;
}

/* Get the line of the output that a CPU and thread belong to, or -1. */
static int evsel__aggr_idx(struct evsel *evsel, struct perf_stat_config *config, int cpu_map_idx,
			   int thread)
{
	struct aggr_cpu_id id;
	int i;

	if (config->aggr_mode == AGGR_THREAD)
		return thread;

	id = config->aggr_get_id(config, perf_cpu_map__cpu(evsel->core.cpus, cpu_map_idx));
	for (i = 0; i < evsel->windows->nr_lines; i++) {
		if (aggr_cpu_id__equal(&id, &config->aggr_map->map[i]))
			return i;
	}
	return -1;
}

static void tally__add(struct gate_tally *to, const struct gate_tally *from, bool has_histogram)
{
	to->inside += from->inside;
	to->total += from->total;
	if (has_histogram)
		gate_histogram__add(&to->windows, &from->windows);
}

static void evsel__read_tally(struct evsel *evsel, struct perf_stat_config *config,
			      int cpu_map_idx, int thread)
{
	struct perf_counts_values *count = perf_counts(evsel->counts, cpu_map_idx, thread);
	struct gate_windows *windows = evsel->windows;
	bool has_histogram = windows__has_histogram(windows);
	struct gate_tally *last = xyarray__entry(windows->last, cpu_map_idx, thread);
	int line = evsel__aggr_idx(evsel, config, cpu_map_idx, thread);
	struct gate_tally now = {
		.inside	= count->val,
		.total	= count->gate_total,
	}, whole;

	if (line < 0)
		return;
	/* The thread may have ended before it was measured. */
	if (has_histogram && read_histogram(evsel, cpu_map_idx, thread, &now.windows))
		return;

	memcpy(&whole, &now, windows->tally_size);
	now.inside -= last->inside;
	now.total -= last->total;
	if (has_histogram)
		gate_histogram__subtract(&now.windows, &last->windows);
	memcpy(last, &whole, windows->tally_size);
	tally__add(windows__line(windows, line), &now, has_histogram);
}

typedef void (*tally_fn_t)(struct evsel *evsel, struct perf_stat_config *config, int cpu_map_idx,
			   int thread);

/* Call @fn for each CPU and thread of each event whose windows are recorded. */
static int evlist__visit_tallies(struct evlist *evlist, struct perf_stat_config *config,
				 tally_fn_t fn)
{
	int idx, thread, nr_threads;
	struct evsel *evsel;

	evlist__for_each_entry(evlist, evsel) {
		if (!evsel->windows || !evsel->windows->event || evsel->err)
			continue;
		if (evsel__alloc_tallies(evsel))
			return -ENOMEM;
		nr_threads = perf_thread_map__nr(evsel->core.threads);
		for (idx = 0; idx < perf_cpu_map__nr(evsel->core.cpus); idx++) {
			for (thread = 0; thread < nr_threads; thread++)
				fn(evsel, config, idx, thread);
		}
	}
	return 0;
}

/**
 * evlist__read_windows - Read the windows since the last interval
 * @evlist:	A list whose counts have just been read
 * @config:	Tells what a line of the output is
 *
 * Return: 0 or -ENOMEM.
 */
int evlist__read_windows(struct evlist *evlist, struct perf_stat_config *config)
{
	return evlist__visit_tallies(evlist, config, evsel__read_tally);
}

static void evsel__sum_tally(struct evsel *evsel, struct perf_stat_config *config, int cpu_map_idx,
			     int thread)
{
	struct gate_windows *windows = evsel->windows;
	int line = evsel__aggr_idx(evsel, config, cpu_map_idx, thread);

	if (line >= 0)
		tally__add(windows__line(windows, line),
			   xyarray__entry(windows->last, cpu_map_idx, thread),
			   windows__has_histogram(windows));
}

/**
 * evlist__sum_windows - Sum up the windows of all intervals
 * @evlist:	A list whose counts are those of all intervals
 * @config:	Tells what a line of the output is
 *
 * Return: 0 or -ENOMEM.
 */
int evlist__sum_windows(struct evlist *evlist, struct perf_stat_config *config)
{
	evlist__reset_windows(evlist);
	return evlist__visit_tallies(evlist, config, evsel__sum_tally);
}

/**
 * evlist__reset_windows - Clear the windows of all lines of the output
 * @evlist:	The list
 */
void evlist__reset_windows(struct evlist *evlist)
{
	struct evsel *evsel;

	evlist__for_each_entry(evlist, evsel) {
		struct gate_windows *windows = evsel->windows;

		if (windows && windows->lines)
			memset(windows->lines, 0, windows->nr_lines * windows->tally_size);
	}
}

static const struct gate_tally *evsel__tally(const struct evsel *evsel, int aggr_idx)
{
	const struct gate_windows *windows = evsel->windows;

	if (!windows || !windows->lines || aggr_idx < 0 || aggr_idx >= windows->nr_lines)
		return NULL;
	return windows__line(windows, aggr_idx);
}

/**
 * evsel__windows - Get the windows of a line of the output
 * @evsel:	The event
 * @aggr_idx:	The line
 *
 * Return: the windows, NULL if no histogram was recorded.
 */
const struct gate_tally *evsel__windows(const struct evsel *evsel, int aggr_idx)
{
	const struct gate_tally *tally = evsel__tally(evsel, aggr_idx);

	return tally && windows__has_histogram(evsel->windows) ? tally : NULL;
}

/**
 * evsel__share_of_all - Get the share of the count that lies inside of windows
 * @evsel:	The event
 * @aggr_idx:	A line of the output
 *
 * Return: the share in percent, negative if it is not known.
 */
double evsel__share_of_all(const struct evsel *evsel, int aggr_idx)
{
	const struct gate_tally *tally = evsel__tally(evsel, aggr_idx);

	return tally && tally->total ? 100.0 * tally->inside / tally->total : -1;
}

/**
 * evsel__shown_windows - Get the windows of a line, if their distribution is shown
 * @evsel:	The event
 * @aggr_idx:	The line of the output
 *
 * Return: the windows or NULL.
 */
const struct perf_event_histogram *evsel__shown_windows(const struct evsel *evsel, int aggr_idx)
{
	const struct gate_tally *tally = evsel__windows(evsel, aggr_idx);

	if (!tally || !evsel->windows->shown)
		return NULL;
	return &tally->windows.h;
}

/**
 * evsel__nr_window_lines - Get the number of lines of the output that windows were read for
 * @evsel:	The event
 *
 * Return: the number, 0 if the event has no gate.
 */
int evsel__nr_window_lines(const struct evsel *evsel)
{
	return evsel->windows ? evsel->windows->nr_lines : 0;
}
