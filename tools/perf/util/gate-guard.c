// SPDX-License-Identifier: GPL-2.0
/*
 * The guard of --inside: are the windows those of the function?
 *
 * Each entry of the function begins a window or goes deeper into one, and each return
 * takes that back. A return that the kernel does not see leaves a window open for as long
 * as the thread lives, and all that the thread does is counted. The events that open and
 * close gates count themselves, so that perf can compare the two numbers.
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

/* How long a window of a running program has to end, in steps of milliseconds. */
#define SETTLE_STEPS	100
#define SETTLE_MS	10

struct balance {
	u64	entries;
	u64	returns;
	/* Some thread, or CPU, has more entries than returns, or fewer. */
	bool	open;
	bool	surplus;
};

static u64 count_at(struct gate_trigger **triggers, int nr, int x, int y)
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

/* Entries stand still, since what opens gates is disabled or its tasks are gone. */
static void gate__balance(struct gate *gate, struct balance *balance)
{
	struct evsel *first = gate_trigger__first(gate->on[0]);
	int x, y;

	memset(balance, 0, sizeof(*balance));
	if (!first || !first->core.fd)
		return;
	for (x = 0; x < xyarray__max_x(first->core.fd); x++) {
		for (y = 0; y < xyarray__max_y(first->core.fd); y++) {
			u64 entries = count_at(gate->on, gate->nr_on, x, y);
			u64 returns = count_at(gate->off, gate->nr_off, x, y);

			balance->entries += entries;
			balance->returns += returns;
			balance->open |= entries > returns;
			balance->surplus |= entries < returns;
		}
	}
}

static void gate__tell(struct gate *gate, struct balance *balance, u64 missed)
{
	pr_warning("%s: <not exact>: %" PRIu64 " entries, %" PRIu64 " returns", gate->where,
		   balance->entries, balance->returns);
	if (missed)
		pr_warning(", %" PRIu64 " returns missed by the kernel", missed);
	pr_warning(".\n");

	if (balance->surplus && !balance->open)
		pr_warning("Returns without an entry: it was running when perf began to look, or fork() in it made a\n"
			   "process that returned as well. The windows are right then; --inside-lax accepts them.\n");
	else if (strstarts(gate->where, "inside of kernel:"))
		pr_warning("A window that has not ended counts all that its thread does. Threads may still be in the\n"
			   "function: then the result is right, and --inside-lax accepts it.\n");
	else if (gate->by_return_address)
		pr_warning("A window that has not ended counts all that its thread does: recursion deeper than 64,\n"
			   "longjmp() or an exception left the function. If instead the program ended inside of it,\n"
			   "the result is right, and --inside-lax accepts it. Otherwise take two events with\n"
			   "--gate-on and --gate-off.\n");
	else
		pr_warning("A window that has not ended counts all that its thread does: longjmp() or an exception\n"
			   "left the function. If instead the program ended inside of it, the result is right, and\n"
			   "--inside-lax accepts it. Otherwise take two events with --gate-on and --gate-off.\n");
}

/**
 * evlist__check_gates - Compare how often functions were entered and left
 * @evlist:	A list that is disabled, or whose program has ended, and not yet closed
 * @target:	What was measured
 * @lax:	Accept the result in any case
 *
 * Windows of a program that goes on are given a second to end. Says so if some do not.
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

		/* main() cannot be left but by its return or with the program. */
		if (!gate->function || !strcmp(gate->function, "main"))
			continue;
		for (;; steps--) {
			gate__balance(gate, &balance);
			if (!balance.open || steps <= 0)
				break;
			usleep(SETTLE_MS * 1000);
		}
		for (i = 0; i < gate->nr_off; i++)
			missed += gate_trigger__missed(gate->off[i]);
		/* What was inside when perf came returns without having entered. */
		if (!target__none(target) && !target__has_cpu(target))
			balance.surplus = false;
		if (!balance.open && !balance.surplus && !missed)
			continue;
		if (lax) {
			pr_debug("%s: %" PRIu64 " entries, %" PRIu64 " returns\n", gate->where,
				 balance.entries, balance.returns);
			continue;
		}
		gate__tell(gate, &balance, missed);
		evlist->gates->not_exact = true;
	}
}

/**
 * evlist__gates_not_exact - Tell whether counts of windows are too high
 * @evlist:	The list
 *
 * Return: true if evlist__check_gates() has found that.
 */
bool evlist__gates_not_exact(struct evlist *evlist)
{
	return evlist->gates && evlist->gates->not_exact;
}
