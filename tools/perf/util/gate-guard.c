// SPDX-License-Identifier: GPL-2.0
/*
 * The guard of --inside: check that windows match calls of the function.
 *
 * Each entry of the function begins a window or a nested level, and each return ends one.
 * A return that the kernel misses leaves a window open for as long as the thread lives,
 * and everything that the thread does is counted. The events that open and close gates
 * count as well, so perf can compare the two numbers.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <linux/kernel.h>
#include <linux/list.h>
#include <linux/string.h>
#include <internal/evsel.h>
#include <internal/xyarray.h>
#include <perf/evsel.h>

#include "debug.h"
#include "evlist.h"
#include "evsel.h"
#include "gate.h"
#include "target.h"

/* Time that perf waits for the last windows of a running program to end. */
#define SETTLE_STEPS	100
#define SETTLE_MS	10

struct balance {
	u64	entries;
	u64	returns;
	/* More entries than returns on some thread or CPU */
	bool	open;
	/* Fewer entries than returns on some thread or CPU */
	bool	surplus;
};

static u64 sum_counts(struct gate_trigger **triggers, int nr, int x, int y)
{
	u64 sum = 0;
	int i;

	for (i = 0; i < nr; i++) {
		struct perf_counts_values count = { .val = 0 };
		struct evsel *evsel = gate_trigger__first(triggers[i]);

		if (evsel && evsel->core.fd && x < xyarray__max_x(evsel->core.fd) &&
		    y < xyarray__max_y(evsel->core.fd) &&
		    !perf_evsel__read(&evsel->core, x, y, &count))
			sum += count.val;
	}
	return sum;
}

/* Sum up entries and returns, and tell if they differ on some thread or CPU. */
static void gate__count_balance(struct gate *gate, struct balance *balance)
{
	struct evsel *first = gate_trigger__first(gate->on[0]);
	int x, y;

	memset(balance, 0, sizeof(*balance));
	if (!first || !first->core.fd)
		return;
	for (x = 0; x < xyarray__max_x(first->core.fd); x++) {
		for (y = 0; y < xyarray__max_y(first->core.fd); y++) {
			u64 entries = sum_counts(gate->on, gate->nr_on, x, y);
			u64 returns = sum_counts(gate->off, gate->nr_off, x, y);

			balance->entries += entries;
			balance->returns += returns;
			balance->open |= entries > returns;
			balance->surplus |= entries < returns;
		}
	}
}

static void gate__warn_not_exact(struct gate *gate, struct balance *balance, u64 missed)
{
	pr_warning("%s: <not exact>: %" PRIu64 " entries, %" PRIu64 " returns", gate->where,
		   balance->entries, balance->returns);
	if (missed)
		pr_warning(", %" PRIu64 " returns missed by the kernel", missed);
	pr_warning(".\n");

	if (balance->surplus && !balance->open)
		pr_warning("Returns without an entry: it was running when perf began, or a child of fork() in it\n"
			   "returned as well. Then the windows are right, and --inside-lax accepts them.\n");
	else if (strstarts(gate->where, "inside of kernel:"))
		pr_warning("A window that has not ended counts all that its thread does. Threads may still be in the\n"
			   "function: then the result is right, and --inside-lax accepts it.\n");
	else if (gate->by_return_address)
		pr_warning("A window that has not ended counts all that its thread does: recursion deeper than 64,\n"
			   "longjmp() or an exception left the function. If instead the program ended inside of it,\n"
			   "the result is right, and --inside-lax accepts it. Otherwise use two events with\n"
			   "--gate-on and --gate-off.\n");
	else
		pr_warning("A window that has not ended counts all that its thread does: longjmp() or an exception\n"
			   "left the function. If instead the program ended inside of it, the result is right, and\n"
			   "--inside-lax accepts it. Otherwise use two events with --gate-on and --gate-off.\n");
}

/**
 * evlist__check_gates - Compare the numbers of entries and returns
 * @evlist:	A list that is disabled, or whose program has ended, and not yet closed
 * @target:	The measured target
 * @lax:	Accept the result in any case
 *
 * The windows of a program that keeps running get a second to end. A warning is
 * printed if some do not.
 */
void evlist__check_gates(struct evlist *evlist, struct target *target, bool lax)
{
	struct balance balance;
	struct gate *gate;
	int steps, i;

	if (!evlist->gates)
		return;

	steps = target__none(target) ? 0 : SETTLE_STEPS;
	list_for_each_entry(gate, &evlist->gates->gates, node) {
		u64 missed = 0;

		if (!gate->function || gate->ends_with_program)
			continue;
		for (;; steps--) {
			gate__count_balance(gate, &balance);
			if (!balance.open || steps <= 0)
				break;
			usleep(SETTLE_MS * 1000);
		}
		gate->nr_open = balance.entries > balance.returns ?
				balance.entries - balance.returns : 0;
		for (i = 0; i < gate->nr_off; i++)
			missed += gate_trigger__missed(gate->off[i]);
		/* Calls that were in progress when perf attached return without an entry. */
		if (!target__none(target) && !target__has_cpu(target))
			balance.surplus = false;
		if (!balance.open && !balance.surplus && !missed)
			continue;
		if (lax) {
			pr_debug("%s: %" PRIu64 " entries, %" PRIu64 " returns\n", gate->where,
				 balance.entries, balance.returns);
			continue;
		}
		gate__warn_not_exact(gate, &balance, missed);
		gate->not_exact = true;
	}
}

/**
 * evlist__count_open - Compare how often functions were entered and left so far
 * @evlist:	A list that counts
 *
 * A window that is open at the end of an interval is not an error unless it stays open. Only
 * remember the number here; evlist__check_gates() judges it at the end.
 */
void evlist__count_open(struct evlist *evlist)
{
	struct balance balance;
	struct gate *gate;

	if (!evlist->gates)
		return;

	list_for_each_entry(gate, &evlist->gates->gates, node) {
		if (!gate->function)
			continue;
		gate__count_balance(gate, &balance);
		gate->nr_open = balance.entries > balance.returns ?
				balance.entries - balance.returns : 0;
	}
}

/**
 * evlist__gates_not_exact - Tell whether counts of windows are too high
 * @evlist:	The list
 *
 * Return: true if evlist__check_gates() has found such a gate.
 */
bool evlist__gates_not_exact(struct evlist *evlist)
{
	struct gate *gate;

	if (!evlist->gates)
		return false;
	list_for_each_entry(gate, &evlist->gates->gates, node) {
		if (gate->not_exact)
			return true;
	}
	return false;
}
