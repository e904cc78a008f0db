// SPDX-License-Identifier: GPL-2.0
/*
 * Counts of gates: the events gate_count, gate_time and gate_wall, which tell the number
 * of windows and their total time, and the scaling of multiplexed events.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/kernel.h>
#include <linux/list.h>
#include <linux/perf_event.h>
#include <linux/zalloc.h>
#include <perf/cpumap.h>
#include <perf/threadmap.h>

#include "counts.h"
#include "debug.h"
#include "evlist.h"
#include "evsel.h"
#include "gate.h"
#include "gate-windows.h"
#include "perf_api_probe.h"

static struct evsel *evlist__add_gate_tool(struct evlist *evlist, struct gate *gate,
					   enum perf_tool_event event, bool only)
{
	struct perf_event_attr attr = {
		.type	= PERF_TYPE_SOFTWARE,
		.config	= PERF_COUNT_SW_DUMMY,
		.size	= sizeof(attr),
	};
	struct evsel *evsel = evsel__new_idx(&attr, evlist->core.nr_entries);
	const char *name = perf_tool_event__to_str(event);

	if (!evsel)
		return NULL;
	evsel->tool_event = event;
	evsel->gate = gate;
	if (asprintf(&evsel->name, only ? "%s" : "%s %s", name, gate->where ?: "") < 0)
		evsel->name = NULL;
	if (event != PERF_TOOL_GATE_COUNT) {
		free((char *)evsel->unit);
		evsel->unit = strdup("ns");
	}
	evlist__add(evlist, evsel);
	return evsel;
}

/* Move the tool events of each region after its other events. */
static void evlist__group_by_region(struct evlist *evlist)
{
	struct evsel *evsel, *next, *last;
	struct gate *gate;
	int idx = 0;

	list_for_each_entry(gate, &evlist__gates(evlist)->gates, node) {
		last = NULL;
		evlist__for_each_entry_safe(evlist, next, evsel) {
			if (evsel->gate != gate)
				continue;
			if (last && evsel__is_gate_tool(evsel))
				list_move(&evsel->core.node, &last->core.node);
			last = evsel;
		}
	}
	evlist__for_each_entry(evlist, evsel)
		evsel->core.idx = idx++;
}

/**
 * evlist__add_gate_tools - Add gate_count, gate_time and gate_wall for each gate
 * @evlist:	List whose gates are set up
 *
 * They are added at the end, because they use counts of events that are read
 * before. Events of the same name that the user listed are replaced.
 *
 * gate_wall needs a kernel that records windows, and a starter, because the kernel does not
 * record a window without a beginning.
 *
 * Return: 0, or a negative error code.
 */
int evlist__add_gate_tools(struct evlist *evlist)
{
	struct gates *gates = evlist__gates(evlist);
	struct evsel *evsel, *tmp;
	struct gate *gate;
	bool only;
	int idx = 0;

	evlist__for_each_entry_safe(evlist, tmp, evsel) {
		if (evsel__is_gate_tool(evsel)) {
			if (!gates) {
				pr_err("%s: no event has a gate, see --inside, --gate-on and --gate-off\n",
				       evsel__name(evsel));
				return -EINVAL;
			}
			evlist__remove(evlist, evsel);
			evsel__delete(evsel);
		} else {
			evsel->core.idx = idx++;
		}
	}

	if (!gates)
		return 0;

	only = list_is_singular(&gates->gates);
	list_for_each_entry(gate, &gates->gates, node) {
		gate->count = evlist__add_gate_tool(evlist, gate, PERF_TOOL_GATE_COUNT,
						    only || gate->region);
		if (!gate->count ||
		    !evlist__add_gate_tool(evlist, gate, PERF_TOOL_GATE_TIME,
					   only || gate->region))
			return -ENOMEM;
		if (gate->nr_on && perf_can_record_windows() &&
		    !evlist__add_gate_tool(evlist, gate, PERF_TOOL_GATE_WALL,
					   only || gate->region))
			return -ENOMEM;
	}
	if (gates->has_regions)
		evlist__group_by_region(evlist);
	return 0;
}

/* Read the reference for a CPU and thread. Return false if it is not on that CPU. */
static bool gate__read_reference(struct gate *gate, struct perf_cpu cpu, int thread,
				 struct perf_counts_values *count)
{
	struct evsel *reference = gate->reference;
	/* An uncore event is not on each CPU. */
	int idx = perf_cpu_map__idx(reference->core.cpus, cpu);

	if (idx < 0)
		return false;
	if (gate->has_own_reference)
		return !perf_evsel__read(&reference->core, idx, thread, count);
	*count = *perf_counts(reference->counts, idx, thread);
	return true;
}

/**
 * evsel__read_gate - Read gate_count, gate_time or gate_wall
 * @evsel:		The tool event
 * @cpu_map_idx:	Index of its CPU
 * @thread:		Index of its thread
 *
 * The reference event of the gate must have been read before.
 *
 * Return: 0, or -EINVAL if no event that has the gate is supported.
 */
int evsel__read_gate(struct evsel *evsel, int cpu_map_idx, int thread)
{
	struct perf_counts_values *count = perf_counts(evsel->counts, cpu_map_idx, thread);
	struct perf_counts_values value;
	int err;

	memset(count, 0, sizeof(*count));
	if (!evsel->gate || !evsel->gate->reference)
		return -EINVAL;
	if (!gate__read_reference(evsel->gate, perf_cpu_map__cpu(evsel->core.cpus, cpu_map_idx),
				  thread, &value))
		return 0;

	if (value.gate_count)
		evsel->gate->was_open = true;

	if (evsel__tool_event(evsel) == PERF_TOOL_GATE_WALL) {
		err = evsel__read_gate_wall(evsel, cpu_map_idx, thread);
		if (err)
			return err;
	} else if (evsel__tool_event(evsel) == PERF_TOOL_GATE_COUNT) {
		count->val = value.gate_count;
	} else if (value.run && value.run < value.ena) {
		count->val = (double)value.gate_time * value.ena / value.run;
	} else {
		count->val = value.gate_time;
	}
	count->ena = value.ena;
	count->run = value.ena;
	return 0;
}

/*
 * A multiplexed event misses some share of the windows, which differs from the share of
 * the total time that it misses. The reference runs in all windows. So take the time
 * inside of the reference as enabled time and the time inside of the event as running
 * time, and the usual scaling is right.
 */
static void evsel__scale_gate(struct evsel *evsel, struct perf_cpu cpu, int idx, int thread)
{
	struct perf_counts_values *count = perf_counts(evsel->counts, idx, thread);
	struct perf_counts_values whole;
	bool always = count->run == count->ena, never = !count->run;

	if (!count->ena || !gate__read_reference(evsel->gate, cpu, thread, &whole))
		return;

	/* Without a window, nothing is missed. */
	count->ena = whole.gate_time ?: 1;
	if (never)
		return;
	/* Hardware counters start and stop a little later than the clock. */
	if (always || !whole.gate_time || count->gate_time > count->ena)
		count->run = count->ena;
	else
		count->run = count->gate_time;

	/* The value must not be lower than at the end of the last interval. */
	if (evsel->prev_raw_counts)
		count->run = max(count->run,
				 perf_counts(evsel->prev_raw_counts, idx, thread)->run);
}

/**
 * evlist__scale_gates - Set the times by which gated counts are scaled
 * @evlist:	List whose events have just been read
 */
void evlist__scale_gates(struct evlist *evlist)
{
	struct evsel *evsel, *reference;
	struct perf_cpu cpu;
	int idx, thread;

	if (!evlist__gates(evlist))
		return;

	evlist__for_each_entry(evlist, evsel) {
		reference = evsel->gate ? evsel->gate->reference : NULL;
		if (!reference || evsel == reference || evsel__is_tool(evsel) ||
		    evsel->err || !evsel->supported ||
		    evsel->core.attr.type == PERF_TYPE_SOFTWARE ||
		    reference->core.attr.type != PERF_TYPE_SOFTWARE)
			continue;

		perf_cpu_map__for_each_cpu(cpu, idx, evsel->core.cpus) {
			for (thread = 0; thread < perf_thread_map__nr(evsel->core.threads); thread++)
				evsel__scale_gate(evsel, cpu, idx, thread);
		}
	}
}

/* Suffix that marks, in a file, the name of an event whose count is not exact */
#define NOT_EXACT	" <not exact>"

/**
 * evlist__mark_not_exact - Append to the names of events that their counts are not exact
 * @evlist:	A list that is written to a file, which tells this by names only
 *
 * Return: 0 or -ENOMEM.
 */
int evlist__mark_not_exact(struct evlist *evlist)
{
	struct evsel *evsel;
	char *name;

	evlist__for_each_entry(evlist, evsel) {
		if (!evsel->gate || !evsel->gate->not_exact)
			continue;
		if (asprintf(&name, "%s" NOT_EXACT, evsel__name(evsel)) < 0)
			return -ENOMEM;
		free(evsel->name);
		evsel->name = name;
	}
	return 0;
}

/* Remove the mark from the name of an event of a file. Return whether it had one. */
static bool evsel__take_mark(struct evsel *evsel)
{
	const char *name = evsel__name(evsel);
	size_t len = strlen(name), mark = strlen(NOT_EXACT);

	if (len <= mark || strcmp(name + len - mark, NOT_EXACT))
		return false;
	evsel->name[len - mark] = '\0';
	return true;
}

/* Get the gate's description from a name, after "gate_count "; NULL for other events */
static const char *tool_where(struct evsel *evsel, enum perf_tool_event event)
{
	const char *name = evsel__name(evsel), *tool = perf_tool_event__to_str(event);
	size_t len = strlen(tool);

	if (strncmp(name, tool, len) || (name[len] && name[len] != ' '))
		return NULL;
	return name[len] ? name + len + 1 : "";
}

/* Find the gate of an event of a file, by its name unless there is only one gate. */
static struct gate *gates__of_file(struct gates *gates, struct evsel *evsel)
{
	size_t len = strlen(evsel__name(evsel));
	struct gate *gate;

	if (list_is_singular(&gates->gates))
		return list_first_entry(&gates->gates, struct gate, node);
	list_for_each_entry(gate, &gates->gates, node) {
		size_t where = gate->where ? strlen(gate->where) : 0;

		if (where && where < len && !strcmp(evsel__name(evsel) + len - where, gate->where))
			return gate;
	}
	return NULL;
}

/**
 * evlist__restore_gates - Find out which events of a file counted in which windows
 * @evlist:	The events of the file
 *
 * Return: 0 or -ENOMEM.
 */
int evlist__restore_gates(struct evlist *evlist)
{
	struct gate *gate = NULL;
	struct evsel *evsel;
	const char *where;
	bool not_exact;

	if (evlist__gates(evlist))
		return 0;
	evlist__for_each_entry(evlist, evsel) {
		not_exact = evsel__take_mark(evsel);
		where = tool_where(evsel, PERF_TOOL_GATE_COUNT);
		if (where) {
			if (evlist__new_gates(evlist))
				return -ENOMEM;
			gate = gates__new_gate(evlist__gates(evlist));
			if (!gate)
				return -ENOMEM;
			/* With a single gate, event names do not contain its description. */
			if (*where)
				gate->where = strdup(where);
			gate->count = evsel;
			gate->not_exact = not_exact;
			evsel->gate = gate;
			evsel->tool_event = PERF_TOOL_GATE_COUNT;
		} else if (gate && tool_where(evsel, PERF_TOOL_GATE_TIME)) {
			evsel->gate = gate;
			evsel->tool_event = PERF_TOOL_GATE_TIME;
		} else if (gate && tool_where(evsel, PERF_TOOL_GATE_WALL)) {
			evsel->gate = gate;
			evsel->tool_event = PERF_TOOL_GATE_WALL;
		}
	}
	if (!evlist__gates(evlist))
		return 0;
	evlist__for_each_entry(evlist, evsel) {
		if (!evsel->gate && evsel->core.attr.read_format & PERF_FORMAT_GATE_COUNT)
			evsel->gate = gates__of_file(evlist__gates(evlist), evsel);
	}
	return 0;
}

/**
 * evlist__warn_no_window - Warn if a gate was never opened
 * @evlist:	List whose events were read for the last time
 */
void evlist__warn_no_window(struct evlist *evlist)
{
	struct gate *gate;

	if (!evlist__gates(evlist))
		return;

	list_for_each_entry(gate, &evlist__gates(evlist)->gates, node) {
		if (gate->nr_on && gate->reference && !gate->was_open)
			pr_warning("No window was opened: %s was not reached while events were enabled.\n",
				   gate->on[0]->name);
	}
}
