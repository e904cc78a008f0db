// SPDX-License-Identifier: GPL-2.0
/*
 * What gates are to counts: the events gate_count and gate_time, which tell how many
 * windows there were and for how long, and the scaling of events that took turns.
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
	if (event == PERF_TOOL_GATE_TIME) {
		free((char *)evsel->unit);
		evsel->unit = strdup("ns");
	}
	evlist__add(evlist, evsel);
	return evsel;
}

/**
 * evlist__add_gate_tools - Add gate_count and gate_time for each gate
 * @evlist:	Whose gates are set up
 *
 * They come last, since they are read from counts that are read before them; those
 * that the user asked for make way.
 *
 * Return: 0 or -ENOMEM.
 */
int evlist__add_gate_tools(struct evlist *evlist)
{
	struct gates *gates = evlist->gates;
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
		gate->count = evlist__add_gate_tool(evlist, gate, PERF_TOOL_GATE_COUNT, only);
		if (!gate->count ||
		    !evlist__add_gate_tool(evlist, gate, PERF_TOOL_GATE_TIME, only))
			return -ENOMEM;
	}
	return 0;
}

/**
 * evsel__read_gate - Read gate_count or gate_time
 * @evsel:		The tool event
 * @cpu_map_idx:	Index of its CPU
 * @thread:		Index of its thread
 *
 * The event that is the gate's reference was read before.
 *
 * Return: 0, or -EINVAL if no event that has the gate is supported.
 */
int evsel__read_gate(struct evsel *evsel, int cpu_map_idx, int thread)
{
	struct perf_counts_values *count = perf_counts(evsel->counts, cpu_map_idx, thread);
	struct evsel *reference = evsel->gate ? evsel->gate->reference : NULL;
	struct perf_counts_values *value = NULL;
	int idx;

	memset(count, 0, sizeof(*count));
	if (!reference)
		return -EINVAL;

	/* An uncore event is not on each CPU. */
	idx = perf_cpu_map__idx(reference->core.cpus,
				perf_cpu_map__cpu(evsel->core.cpus, cpu_map_idx));
	if (idx >= 0)
		value = perf_counts(reference->counts, idx, thread);
	if (!value)
		return 0;

	if (value->gate_count)
		evsel->gate->was_open = true;

	if (evsel__tool_event(evsel) == PERF_TOOL_GATE_COUNT)
		count->val = value->gate_count;
	else if (value->run && value->run < value->ena)
		count->val = (double)value->gate_time * value->ena / value->run;
	else
		count->val = value->gate_time;
	count->ena = value->ena;
	count->run = value->ena;
	return 0;
}

/*
 * An event that shares counters with others has missed a part of the windows, and that
 * is not the part that it has missed of all time. The reference ran in all of them:
 * let its time inside be the time enabled, and that of the event the time running, and
 * all that scales counts is right.
 */
static void evsel__scale_gate(struct evsel *evsel, struct evsel *reference, int idx, int ref,
			      int thread)
{
	struct perf_counts_values *count = perf_counts(evsel->counts, idx, thread);
	struct perf_counts_values *whole = perf_counts(reference->counts, ref, thread);
	bool always = count->run == count->ena, never = !count->run;

	if (!count->ena)
		return;

	/* Without a window there is nothing that could be missed. */
	count->ena = whole->gate_time ?: 1;
	if (never)
		return;
	/* Counters of hardware start and stop a little later. */
	if (always || !whole->gate_time || count->gate_time > count->ena)
		count->run = count->ena;
	else
		count->run = count->gate_time;

	/* What was told at the end of an interval does not become less. */
	if (evsel->prev_raw_counts)
		count->run = max(count->run,
				 perf_counts(evsel->prev_raw_counts, idx, thread)->run);
}

/**
 * evlist__scale_gates - Prepare what was read for being scaled
 * @evlist:	Whose events were just read
 */
void evlist__scale_gates(struct evlist *evlist)
{
	struct evsel *evsel, *reference;
	struct perf_cpu cpu;
	int idx, ref, thread;

	if (!evlist->gates)
		return;

	evlist__for_each_entry(evlist, evsel) {
		reference = evsel->gate ? evsel->gate->reference : NULL;
		if (!reference || evsel == reference || evsel__is_tool(evsel) ||
		    evsel->err || !evsel->supported ||
		    evsel->core.attr.type == PERF_TYPE_SOFTWARE ||
		    reference->core.attr.type != PERF_TYPE_SOFTWARE)
			continue;

		perf_cpu_map__for_each_cpu(cpu, idx, evsel->core.cpus) {
			ref = perf_cpu_map__idx(reference->core.cpus, cpu);
			if (ref < 0)
				continue;
			for (thread = 0; thread < perf_thread_map__nr(evsel->core.threads); thread++)
				evsel__scale_gate(evsel, reference, idx, ref, thread);
		}
	}
}

/**
 * evlist__warn_no_window - Say so if a gate has never been opened
 * @evlist:	Whose events are read for the last time
 */
void evlist__warn_no_window(struct evlist *evlist)
{
	struct gate *gate;

	if (!evlist->gates)
		return;

	list_for_each_entry(gate, &evlist->gates->gates, node) {
		if (gate->nr_on && gate->reference && !gate->was_open)
			pr_warning("No window was opened: %s was not reached while events were enabled.\n",
				   gate->on[0]->name);
	}
}
