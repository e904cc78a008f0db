// SPDX-License-Identifier: GPL-2.0
/*
 * The guard of --inside: check that windows match calls of the function.
 *
 * Each entry of the function begins a window or a nested level, and each return ends one. A
 * task can leave the function in other ways, and then its window stays open for as long as it
 * lives, and everything that it does is counted. Two comparisons show that:
 *
 *   windows begun =	The kernel counts the windows that entries open, and measures those that
 *   windows ended	end. It does not measure a window that a process has from its parent.
 *   entries + forks =	A process begins at the depth of its parent, which is 1 unless some entry
 *   returns + execs	was a nested one. So each fork inside takes a return of its own, or the
 *			execution of a program.
 *
 * Forks and executions are counted by two events that have the same gate. A call of the function
 * moves them as well, which takes the kernel some 350 instructions on x86_64. The one for forks
 * counts in the new process, as that begins: the gate of a new thread is closed there.
 *
 * Windows can match although they counted something else: a thread went on with another context
 * and came back, or a new process left the function, and executed a program later. So further
 * events count the calls of the functions that do so, which gate-escapes.c finds. They do not have
 * this gate, which would add to the cost of each window. The events for contexts count everywhere.
 * The events for jumps count in a process that begins in a window, until it executes a program.
 *
 * A program that is executed is not in the function: gate::leaver closes the gate. A nested
 * window stays open then. A task that executes a program in a function of the kernel leaves the
 * function as usual. There, a new process is not in the function, and gate::leaver closes the
 * gate where the process begins.
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <api/fs/fs.h>
#include <api/fs/tracing_path.h>
#include <linux/kernel.h>
#include <linux/list.h>
#include <linux/perf_event.h>
#include <linux/string.h>
#include <linux/zalloc.h>
#include <internal/evsel.h>
#include <internal/xyarray.h>
#include <perf/evsel.h>

#include "debug.h"
#include "evlist.h"
#include "evsel.h"
#include "gate.h"
#include "gate-windows.h"
#include "pmus.h"
#include "target.h"

/* Time that perf waits for the last windows of a running program to end. */
#define SETTLE_STEPS	100
#define SETTLE_MS	10

/* Tracepoints of execve(2): after the point of no return, and before it, still in the window */
#define EXECUTED	"sched/sched_process_exec"
#define EXECUTES	"sched/sched_prepare_exec"
/* A new task calls this function of the kernel as soon as its events run. */
#define BEGINS		"calculate_sigpending"

/* Hidden events of a gate. They are open whenever an event of the gate is open. */
struct gate_guard {
	/* Counts the processes that begin in windows, and knows which windows have ended. */
	struct evsel	*forks;
	/* Counts the programs that are executed in windows. */
	struct evsel	*execs;
	/* There is no tracefs, or there are no kprobes, and so no events. */
	bool		is_blind;
	/* The kernel tells which windows have ended. */
	bool		sees_windows;
};

struct balance {
	u64	entries;
	u64	returns;
	u64	forks;
	u64	execs;
	/* Windows that entries opened, and how many of them have not ended */
	u64	windows;
	u64	unended;
	/* A window has not ended, or there are more entries than returns on some thread or CPU. */
	bool	open;
	/* Fewer entries than returns on some thread or CPU */
	bool	surplus;
	/* A process that was made in a window may have left it without ending it. */
	bool	children;
	/* A task executed a program in a window of its own; it may have left the function before. */
	bool	replaced;
	/* Calls by which a thread went on with another context, perhaps in a window */
	u64	switches;
	/* Calls by which processes that began in windows may have left the function */
	u64	jumps;
};

static struct evsel *new_tracepoint(const char *name)
{
	char file[64], *path;
	struct perf_event_attr attr = {
		.type	= PERF_TYPE_TRACEPOINT,
		.size	= sizeof(attr),
	};
	int id, err;

	snprintf(file, sizeof(file), "events/%s/id", name);
	path = get_tracing_file(file);
	err = path ? filename__read_int(path, &id) : -1;
	put_tracing_file(path);
	if (err)
		return NULL;
	attr.config = id;
	return evsel__new(&attr);
}

static int gate__set_trigger(struct gates *gates, struct gate *gate, const char *name,
			     bool is_tracepoint)
{
	struct evsel *evsel;

	gate->leaver = gates__find_trigger(gates, name);
	if (gate->leaver)
		return 0;
	evsel = is_tracepoint ? new_tracepoint(EXECUTED) :
		gate__new_probe("kprobe", name, /*at_return=*/false, BEGINS, 0, 0);
	gate->leaver = evsel ? gates__add_trigger(gates, name, evsel, NULL) : NULL;
	return gate->leaver ? 0 : -EINVAL;
}

/* Tell whether kprobes work: where they are switched off, they open and never fire. */
static bool has_kprobes(void)
{
	const char *debugfs = debugfs__mountpoint();
	char path[PATH_MAX];
	int value;

	if (!perf_pmus__find("kprobe"))
		return false;
	if (!sysctl__read_int("kernel/ftrace_enabled", &value) && !value)
		return false;
	if (!debugfs)
		return true;
	snprintf(path, sizeof(path), "%s/kprobes/enabled", debugfs);
	return filename__read_int(path, &value) || value;
}

/**
 * gate__set_leaver - Close a gate where a task leaves it for good, and prepare its guard
 * @gates:	All gates
 * @gate:	A gate of --inside, but not of a system call
 * @target:	The target to measure
 *
 * Users without tracefs may be without other things as well. So open the gate's events first,
 * whose errors tell more, and let evlist__open_guards() fail.
 *
 * Return: 0, or a negative error code after a message.
 */
int gate__set_leaver(struct gates *gates, struct gate *gate, struct target *target)
{
	/* The gate of a CPU has windows of all tasks. */
	if (target__has_cpu(target))
		return 0;
	if (gate->of_kernel)
		return gate__set_trigger(gates, gate, "the begin of a process",
					 /*is_tracepoint=*/false);

	gate->guard = zalloc(sizeof(*gate->guard));
	if (!gate->guard)
		return -ENOMEM;
	gate->guard->is_blind = gate__set_trigger(gates, gate, "the execution of a program",
						  /*is_tracepoint=*/true);
	gate->guard->is_blind |= !has_kprobes();
	return 0;
}

/*
 * Open an event that is not in the list, for the tasks of a gate. If that fails, delete it and
 * return NULL with errno set.
 */
static struct evsel *gate__open_hidden(struct gates *gates, struct gate *gate,
				       struct target *target, struct evsel *evsel)
{
	struct perf_event_attr *attr = &evsel->core.attr, *from = &gate->reference->core.attr;
	int err;

	attr->disabled = 1;
	attr->enable_on_exec = target__enable_on_exec(target);
	attr->inherit = from->inherit;
	attr->inherit_thread = from->inherit_thread;
	attr->remove_on_exec = from->remove_on_exec;
	evsel->core.leader = &evsel->core;
	evsel->tracking = false;
	evsel->gate_is_set_up = true;
	evlist__add(gates->evlist, evsel);
	if (evsel__open(evsel, evsel->core.cpus, evsel->core.threads) < 0) {
		err = errno;
		evlist__remove(gates->evlist, evsel);
		evsel__delete(evsel);
		errno = err;
		return NULL;
	}
	return evsel;
}

static void close_event(struct gates *gates, struct evsel **evsel)
{
	if (!*evsel)
		return;
	evsel__close(*evsel);
	evlist__remove(gates->evlist, *evsel);
	evsel__delete(*evsel);
	*evsel = NULL;
}

/* Open an event that shall have the gate. */
static struct evsel *gate__open_guard_event(struct gates *gates, struct gate *gate,
					    struct target *target, const char *name,
					    struct evsel *evsel)
{
	int err;

	if (!evsel) {
		pr_err("%s: cannot find %s\n", gate->where, name);
		errno = ENOENT;
		return NULL;
	}
	evsel->core.attr.start_paused = gate->reference->core.attr.start_paused;
	evsel->core.attr.gate_nest = gate->reference->core.attr.gate_nest;
	free(evsel->name);
	evsel->name = strdup(name);
	evsel = gate__open_hidden(gates, gate, target, evsel);
	/* A thread may have ended. */
	if (!evsel && !(gates->may_retry && errno == ESRCH)) {
		err = errno;
		pr_err("%s: cannot open %s: %m\n", gate->where, name);
		errno = err;
	}
	return evsel;
}

static int gate__open_guard(struct gates *gates, struct gate *gate, struct target *target)
{
	struct perf_event_windows windows = {
		.size	= sizeof(windows),
		.flags	= PERF_WINDOWS_HISTOGRAM,
	};
	struct gate_guard *guard = gate->guard;
	int err;

	/* main() ends with its process, whatever ends it. */
	if (gate->ends_with_program && gate->leaver)
		return 0;
	if (guard->is_blind && gates->lax) {
		pr_debug("%s: processes and programs that begin inside are not counted\n", gate->where);
		return 0;
	}
	if (guard->is_blind) {
		pr_err("%s: perf cannot see that a task forks or executes a program inside. It needs tracefs,\n"
		       "mount -t tracefs none /sys/kernel/tracing; and kprobes, CONFIG_KPROBE_EVENTS, the sysctl\n"
		       "kernel.ftrace_enabled and kprobes/enabled of debugfs. Or take --inside-lax, without tracefs\n"
		       "it counts all that such tasks do.\n", gate->where);
		return -EINVAL;
	}

	guard->forks = gate__open_guard_event(gates, gate, target, BEGINS,
					      gate__new_probe("kprobe", BEGINS, /*at_return=*/false,
							      BEGINS, 0, 0));
	if (!guard->forks)
		return gates->may_retry && errno == ESRCH ? -EAGAIN : -EINVAL;
	guard->execs = gate__open_guard_event(gates, gate, target, EXECUTES,
					      new_tracepoint(EXECUTES));
	if (!guard->execs)
		return gates->may_retry && errno == ESRCH ? -EAGAIN : -EINVAL;
	err = gates__link(gates, gate, guard->forks, target);
	err = err ?: gates__link(gates, gate, guard->execs, target);
	if (err)
		return err;
	guard->sees_windows = !perf_evsel__set_windows(&guard->forks->core, &windows);
	if (!guard->sees_windows)
		pr_debug("%s: the kernel does not tell which windows have ended\n", gate->where);
	return 0;
}

/**
 * evlist__open_guards - Open the events that tell whether windows match calls
 * @evlist:	A list whose events are open, have their gates and are not yet enabled
 * @target:	The target to measure
 *
 * Return: 0, -EAGAIN to open all events again, or a negative error code after a message.
 */
int evlist__open_guards(struct evlist *evlist, struct target *target)
{
	struct gate *gate;
	int err;

	list_for_each_entry(gate, &evlist__gates(evlist)->gates, node) {
		if (!gate->guard || !gate->reference)
			continue;
		err = gate__open_guard(evlist__gates(evlist), gate, target);
		if (err)
			return err;
	}
	return 0;
}

/*
 * Let the event of an escape count in a process that begins in a window, until it executes a
 * program.
 */
static int gates__link_escape(struct gates *gates, struct gate_escape *escape,
			      struct target *target)
{
	struct gate executes = {}, *gate;
	int err;

	list_for_each_entry(gate, &gates->gates, node) {
		if (!gate->guard || !gate->guard->forks)
			continue;
		err = perf_evsel__set_starter(&gate->guard->forks->core, &escape->evsel->core);
		if (err)
			return err;
		executes.leaver = gate->leaver;
	}
	return gates__link(gates, &executes, escape->evsel, target);
}

static int gates__open_escape(struct gates *gates, struct gate *gate, struct gate_escape *escape,
			      struct target *target)
{
	struct evsel *evsel = gate__new_probe("uprobe", escape->name, /*at_return=*/false,
					      escape->path, escape->offset, 0);

	if (!evsel)
		return -EINVAL;
	if (!gate__can_probe(evsel, escape->path, escape->offset)) {
		evsel__delete(evsel);
		return -EOPNOTSUPP;
	}
	evsel->core.attr.start_paused = !escape->switches;
	escape->evsel = gate__open_hidden(gates, gate, target, evsel);
	if (!escape->evsel)
		return -errno;
	return escape->switches ? 0 : gates__link_escape(gates, escape, target);
}

/**
 * evlist__open_escapes - Open the events that see how windows count something else and still match
 * @evlist:	A list whose guards are open
 * @target:	The target to measure
 *
 * perf says so where it cannot, and measures without them.
 *
 * Return: 0, -EAGAIN to open all events again, or a negative error code after a message.
 */
int evlist__open_escapes(struct evlist *evlist, struct target *target)
{
	struct gates *gates = evlist__gates(evlist);
	struct gate *gate, *guarded = NULL;
	struct gate_escape *escape;
	char msg[BUFSIZ];
	int err;

	list_for_each_entry(gate, &gates->gates, node) {
		if (gate->guard && gate->guard->forks)
			guarded = gate;
	}
	if (!guarded)
		return 0;
	list_for_each_entry(escape, &gates->escapes, node) {
		err = gates__open_escape(gates, guarded, escape, target);
		if (!err)
			continue;
		/* A thread ended meanwhile. */
		if (gates->may_retry && (err == -ESRCH || err == -EINVAL || err == -EAGAIN))
			return -EAGAIN;
		close_event(gates, &escape->evsel);
		pr_warning("Cannot count calls of %s() of %s: %s. Counts that such\n"
			   "calls make wrong will not be marked.\n", escape->name, escape->path,
			   str_error_r(-err, msg, sizeof(msg)));
	}
	return 0;
}

/**
 * evlist__enable_guards - Enable the events of guards
 * @evlist:	A list whose starters are disabled
 *
 * They stay enabled, so that they see the end of each window.
 */
void evlist__enable_guards(struct evlist *evlist)
{
	struct gate_escape *escape;
	struct gate *gate;

	list_for_each_entry(gate, &evlist__gates(evlist)->gates, node) {
		if (gate->guard && gate->guard->forks)
			evsel__enable(gate->guard->forks);
		if (gate->guard && gate->guard->execs)
			evsel__enable(gate->guard->execs);
	}
	list_for_each_entry(escape, &evlist__gates(evlist)->escapes, node) {
		if (escape->evsel)
			evsel__enable(escape->evsel);
	}
}

/**
 * evlist__disable_escapes - Disable the events that count switches of contexts
 * @evlist:	A list whose events are about to be disabled
 *
 * evlist__enable_guards() enables them again.
 */
void evlist__disable_escapes(struct evlist *evlist)
{
	struct gate_escape *escape;

	list_for_each_entry(escape, &evlist__gates(evlist)->escapes, node) {
		if (escape->evsel && escape->switches)
			evsel__disable(escape->evsel);
	}
}

/**
 * evlist__close_guards - Close the events of guards
 * @evlist:	The list, whose gates have been checked
 */
void evlist__close_guards(struct evlist *evlist)
{
	struct gate_escape *escape;
	struct gate *gate;

	list_for_each_entry(gate, &evlist__gates(evlist)->gates, node) {
		if (gate->guard) {
			close_event(evlist__gates(evlist), &gate->guard->forks);
			close_event(evlist__gates(evlist), &gate->guard->execs);
		}
	}
	list_for_each_entry(escape, &evlist__gates(evlist)->escapes, node)
		close_event(evlist__gates(evlist), &escape->evsel);
}

static u64 read_count(struct evsel *evsel, int x, int y)
{
	struct perf_counts_values count = { .val = 0 };

	if (!evsel || !evsel->core.fd || x >= xyarray__max_x(evsel->core.fd) ||
	    y >= xyarray__max_y(evsel->core.fd) || perf_evsel__read(&evsel->core, x, y, &count))
		return 0;
	return count.val;
}

static u64 sum_triggers(struct gate *gate, struct gate_trigger **triggers, int nr, int x, int y)
{
	u64 sum = 0;
	int i;

	for (i = 0; i < nr; i++)
		sum += read_count(gate_trigger__instance(triggers[i], gate->reference), x, y);
	return sum;
}

/* Sum up entries and returns, and tell if they differ on some thread or CPU. */
static void gate__count_calls(struct gate *gate, struct balance *balance)
{
	struct evsel *first = gate_trigger__instance(gate->on[0], gate->reference);
	int x, y;

	if (!first || !first->core.fd)
		return;
	for (x = 0; x < xyarray__max_x(first->core.fd); x++) {
		for (y = 0; y < xyarray__max_y(first->core.fd); y++) {
			u64 entries = sum_triggers(gate, gate->on, gate->nr_on, x, y);
			u64 returns = sum_triggers(gate, gate->off, gate->nr_off, x, y);

			balance->entries += entries;
			balance->returns += returns;
			balance->open |= entries > returns;
			balance->surplus |= entries < returns;
		}
	}
}

static void guard__count(struct gate_guard *guard, struct balance *balance)
{
	union gate_histogram histogram;
	int x, y;

	for (x = 0; x < xyarray__max_x(guard->forks->core.fd); x++) {
		for (y = 0; y < xyarray__max_y(guard->forks->core.fd); y++) {
			balance->forks += read_count(guard->forks, x, y);
			balance->execs += read_count(guard->execs, x, y);
			gate_histogram__prepare(&histogram);
			if (!guard->sees_windows ||
			    perf_evsel__read_windows(&guard->forks->core, x, y, &histogram.h))
				continue;
			balance->unended += histogram.h.missed;
			balance->windows += histogram.h.windows + histogram.h.missed;
		}
	}
}

/* Entries do not increase any more: the starters are disabled or their tasks are gone. */
static void gate__count_balance(struct gate *gate, struct target *target,
				struct balance *balance)
{
	struct gate_guard *guard = gate->guard;
	u64 begun, ended;
	bool may_differ;

	memset(balance, 0, sizeof(*balance));
	if (!gate->reference)
		return;
	if (gate->function)
		gate__count_calls(gate, balance);
	if (!guard || !guard->forks)
		return;
	guard__count(guard, balance);

	begun = balance->entries + balance->forks;
	ended = balance->returns + balance->execs;
	balance->open = guard->sees_windows ? balance->unended : begun > ended;
	balance->surplus = ended > begun;
	balance->replaced = balance->execs > balance->forks;
	if (!gate->function || !balance->forks)
		return;
	/* With a nested entry a process may have begun at a depth that takes several returns. */
	may_differ = !guard->sees_windows || balance->entries > balance->windows;
	/* Calls that were in progress when perf attached make up for missing returns. */
	may_differ |= !target__none(target) && balance->execs < balance->forks;
	balance->children = may_differ || begun > ended;
}

static u64 read_sum(struct evsel *evsel)
{
	u64 sum = 0;
	int x, y;

	for (x = 0; evsel && evsel->core.fd && x < xyarray__max_x(evsel->core.fd); x++) {
		for (y = 0; y < xyarray__max_y(evsel->core.fd); y++)
			sum += read_count(evsel, x, y);
	}
	return sum;
}

/* Count the calls by which windows may have counted something else, although they match. */
static void gates__count_escapes(struct gates *gates, struct balance *balance)
{
	struct gate_escape *escape;

	list_for_each_entry(escape, &gates->escapes, node) {
		if (!escape->switches)
			balance->jumps += read_sum(escape->evsel);
		else if (balance->entries || balance->windows)
			balance->switches += read_sum(escape->evsel);
	}
	/* A process that left the function has a window until it executes a program. */
	if (!balance->forks || !balance->execs)
		balance->jumps = 0;
}

static u64 balance__nr_open(const struct balance *balance)
{
	u64 begun = balance->entries + balance->forks, ended = balance->returns + balance->execs;

	return max(balance->unended, begun > ended ? begun - ended : 0);
}

static void gate__explain_not_exact(struct gate *gate, struct balance *balance)
{
	if (balance->switches && !balance->open) {
		pr_warning("A thread with contexts that take turns counts in a window what another context does\n"
			   "meanwhile. If none of them runs while the function waits, the result is right, and\n"
			   "--inside-lax accepts it.\n");
		return;
	}
	if (balance->jumps && !balance->open) {
		pr_warning("A process that began in the window of its parent has called longjmp() or thrown an exception.\n"
			   "If it left the function by that, all is counted that it did until it executed a program.\n"
			   "If it returned from the function or executed the program inside, the result is right, and\n"
			   "--inside-lax accepts it.\n");
		return;
	}
	if (balance->children && !balance->open) {
		pr_warning("A process begins in the windows of its parent, and perf cannot tell that all of them have\n"
			   "ended. If each process returned from the function or ended inside, by _exit(), the result\n"
			   "is right, and --inside-lax accepts it. If one left it by longjmp(), or executed a program\n"
			   "in a nested call, all that it did is counted.\n");
		return;
	}
	if (balance->replaced && !balance->open) {
		pr_warning("A task executed a program in a window that it had opened, which ended it. If the task had\n"
			   "left the function by longjmp() before, all that it did in between is counted. If it executed\n"
			   "the program inside of the function, the result is right, and --inside-lax accepts it.\n");
		return;
	}
	if (balance->surplus && !balance->open) {
		pr_warning("Returns without an entry: it was running when perf began, or is entered in a way that\n"
			   "perf does not see. If it was running, the windows are right, and --inside-lax accepts them.\n");
		return;
	}
	if (gate->of_kernel)
		pr_warning("A window that has not ended counts all that its thread does. Threads may still be in the\n"
			   "function: then the result is right, and --inside-lax accepts it.\n");
	else if (gate->by_return_address)
		pr_warning("A window that has not ended counts all that its thread does: recursion deeper than 64,\n"
			   "longjmp() or an exception left the function. If instead the program or a thread ended\n"
			   "inside of it, the result is right, and --inside-lax accepts it. Otherwise use two events\n"
			   "with --gate-on and --gate-off.\n");
	else
		pr_warning("A window that has not ended counts all that its thread does: longjmp() or an exception\n"
			   "left the function. If instead the program or a thread ended inside of it, the result is\n"
			   "right, and --inside-lax accepts it. Otherwise use two events with --gate-on and --gate-off.\n");
}

/* Continue a list of numbers. */
static void warn_of(const char **separator, u64 nr, const char *what)
{
	pr_warning("%s%" PRIu64 " %s", *separator, nr, what);
	*separator = ", ";
}

static void gate__warn_not_exact(struct gate *gate, struct balance *balance, u64 missed)
{
	const char *separator = ": ";

	pr_warning("%s: <not exact>", gate->where);
	if (gate->function)
		warn_of(&separator, balance->entries, "entries");
	if (balance->forks)
		warn_of(&separator, balance->forks, "processes forked inside");
	if (gate->function)
		warn_of(&separator, balance->returns, "returns");
	if (balance->execs)
		warn_of(&separator, balance->execs, "programs executed inside");
	if (balance->unended)
		warn_of(&separator, balance->unended, "windows not ended");
	if (balance->switches)
		warn_of(&separator, balance->switches, "calls of setcontext() and swapcontext()");
	if (balance->jumps)
		warn_of(&separator, balance->jumps, "calls of longjmp() or exceptions in these");
	if (missed)
		warn_of(&separator, missed, "returns missed by the kernel");
	pr_warning(".\n");
	gate__explain_not_exact(gate, balance);
}

/**
 * evlist__check_gates - Find out whether windows match calls
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

	if (!evlist__gates(evlist))
		return;

	steps = target__none(target) ? 0 : SETTLE_STEPS;
	list_for_each_entry(gate, &evlist__gates(evlist)->gates, node) {
		u64 missed = 0;

		if ((!gate->function && !gate->guard) || gate->ends_with_program)
			continue;
		for (;; steps--) {
			gate__count_balance(gate, target, &balance);
			if (!(balance.open || balance.children) || steps <= 0)
				break;
			usleep(SETTLE_MS * 1000);
		}
		gate->nr_open = balance__nr_open(&balance);
		if (gate->guard)
			gates__count_escapes(evlist__gates(evlist), &balance);
		for (i = 0; i < gate->nr_off; i++)
			missed += gate_trigger__missed(gate->off[i]);
		/* Calls that were in progress when perf attached return without an entry. */
		if (balance.surplus && !target__none(target) && !target__has_cpu(target)) {
			pr_info("Note: %s, calls that were running when perf began are not counted.\n",
				gate->where);
			balance.surplus = false;
		}
		if (!balance.open && !balance.surplus && !balance.children && !balance.replaced &&
		    !balance.switches && !balance.jumps && !missed)
			continue;
		if (lax) {
			pr_debug("%s: %" PRIu64 " entries, %" PRIu64 " processes forked inside, %" PRIu64
				 " returns, %" PRIu64 " programs executed inside, %" PRIu64 " windows not ended\n",
				 gate->where, balance.entries, balance.forks, balance.returns,
				 balance.execs, balance.unended);
			continue;
		}
		gate__warn_not_exact(gate, &balance, missed);
		gate->not_exact = true;
	}
}

/**
 * evlist__count_open - Compare how often functions were entered and left so far
 * @evlist:	A list that counts
 * @target:	The measured target
 *
 * A window that is open at the end of an interval is not an error unless it stays open. Only
 * remember the number here; evlist__check_gates() judges it at the end.
 */
void evlist__count_open(struct evlist *evlist, struct target *target)
{
	struct balance balance;
	struct gate *gate;

	if (!evlist__gates(evlist))
		return;

	list_for_each_entry(gate, &evlist__gates(evlist)->gates, node) {
		if (!gate->function)
			continue;
		gate__count_balance(gate, target, &balance);
		gate->nr_open = balance__nr_open(&balance);
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

	if (!evlist__gates(evlist))
		return false;
	list_for_each_entry(gate, &evlist__gates(evlist)->gates, node) {
		if (gate->not_exact)
			return true;
	}
	return false;
}
