// SPDX-License-Identifier: GPL-2.0
/*
 * Events that count and sample only between two other events: the kernel's gates.
 *
 * The event terms gate-on=, gate-off=, gate-nest and no-gate apply to one event, the
 * options --inside, --gate-on and --gate-off to all events without such a term.
 *
 * A trigger, an event that moves a gate, is never part of the event list. perf opens
 * a separate event, which writes no records, and which follows its task to all CPUs
 * even if the gated events are opened for each CPU.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/kernel.h>
#include <linux/list.h>
#include <linux/perf_event.h>
#include <linux/string.h>
#include <linux/zalloc.h>
#include <perf/cpumap.h>
#include <internal/evlist.h>
#include <internal/evsel.h>

#include "debug.h"
#include "evlist.h"
#include "evsel.h"
#include "evsel_config.h"
#include "gate.h"
#include "gate-windows.h"
#include "parse-events.h"
#include "perf_api_probe.h"
#include "pmu.h"
#include "target.h"

/* One open event of a trigger. */
struct gate_instance {
	struct list_head	node;
	struct evsel		*evsel;
};

static bool is_probe(struct evsel *evsel)
{
	struct perf_pmu *pmu = evsel__find_pmu(evsel);

	return pmu && (!strcmp(pmu->name, "uprobe") || !strcmp(pmu->name, "kprobe"));
}

/* Tell whether the kernel counts the event in software, so that each occurrence fires. */
static bool fires_always(struct evsel *evsel)
{
	struct perf_event_attr *attr = &evsel->core.attr;

	switch (attr->type) {
	case PERF_TYPE_SOFTWARE:
		return attr->config != PERF_COUNT_SW_CPU_CLOCK &&
		       attr->config != PERF_COUNT_SW_TASK_CLOCK;
	case PERF_TYPE_TRACEPOINT:
	case PERF_TYPE_BREAKPOINT:
		return true;
	default:
		return is_probe(evsel);
	}
}

/* Set up an event that only has to fire: at each occurrence, unless it has a period. */
static void set_trigger_attr(struct evsel *evsel)
{
	struct perf_event_attr *attr = &evsel->core.attr;
	struct evsel_config_term *term;

	evsel->core.leader = &evsel->core;
	evsel->core.nr_members = 0;
	attr->sample_type = 0;
	attr->read_format = 0;
	attr->sample_period = 0;
	attr->freq = 0;
	list_for_each_entry(term, &evsel->config_terms, list) {
		if (term->type == EVSEL__CONFIG_TERM_PERIOD) {
			attr->sample_period = term->val.period;
			attr->freq = 0;
		} else if (term->type == EVSEL__CONFIG_TERM_FREQ) {
			attr->sample_freq = term->val.freq;
			attr->freq = 1;
		}
	}
}

/**
 * gates__add_trigger - Add an event that can open and close gates
 * @gates:	Gates of the list
 * @name:	Name for messages and for look-ups
 * @proto:	Event to clone when it is opened; owned by this function even if
 *		it fails
 * @source:	The event of the list that the trigger copies, or NULL
 *
 * Return: the trigger, or NULL if there is no memory.
 */
struct gate_trigger *gates__add_trigger(struct gates *gates, const char *name,
					struct evsel *proto, struct evsel *source)
{
	struct gate_trigger *trigger = zalloc(sizeof(*trigger));

	if (trigger)
		trigger->name = strdup(name);
	if (!trigger || !trigger->name) {
		free(trigger);
		evsel__delete(proto);
		return NULL;
	}
	trigger->proto = proto;
	trigger->source = source;
	INIT_LIST_HEAD(&trigger->instances);
	list_add_tail(&trigger->node, &gates->triggers);
	set_trigger_attr(proto);
	return trigger;
}

/* Parse the text of exactly one event. */
static struct evsel *parse_one_event(const char *text, const char *what)
{
	struct parse_events_error err;
	struct evlist *evlist = evlist__new();
	struct evsel *evsel = NULL;

	if (!evlist)
		return NULL;

	parse_events_error__init(&err);
	if (parse_events(evlist, text, &err)) {
		pr_err("%s=%s: no event of the list has this name, and it is no event itself:\n",
		       what, text);
		parse_events_error__print(&err, text);
	} else if (evlist->core.nr_entries != 1) {
		pr_err("%s=%s: matches %d events, name a single one\n", what, text,
		       evlist->core.nr_entries);
	} else {
		evsel = evlist__first(evlist);
		evlist__remove(evlist, evsel);
	}
	parse_events_error__exit(&err);
	evlist__delete(evlist);
	return evsel;
}

/**
 * gates__find_trigger - Find the trigger of a name
 * @gates:	Gates of the list
 * @name:	The name
 *
 * Return: the trigger, or NULL.
 */
struct gate_trigger *gates__find_trigger(struct gates *gates, const char *name)
{
	struct gate_trigger *trigger;

	list_for_each_entry(trigger, &gates->triggers, node) {
		if (!strcmp(trigger->name, name))
			return trigger;
	}
	return NULL;
}

/**
 * evlist__gate_trigger - Find or create the trigger of a name
 * @evlist:	List whose events are searched for the name first
 * @name:	Name of an event of the list, or the text of any event
 * @what:	Option or term that the name belongs to, for messages
 *
 * Return: the trigger, or NULL after a message.
 */
struct gate_trigger *evlist__gate_trigger(struct evlist *evlist, const char *name,
					  const char *what)
{
	struct gates *gates = evlist__gates(evlist);
	struct gate_trigger *trigger;
	struct evsel *source, *proto;

	trigger = gates__find_trigger(gates, name);
	if (trigger)
		return trigger;

	source = evlist__find_evsel_by_str(evlist, name);
	proto = source ? evsel__clone(source) : parse_one_event(name, what);
	if (!proto)
		return NULL;

	trigger = gates__add_trigger(gates, name, proto, source);
	if (!trigger)
		return NULL;

	if (!fires_always(proto) && !proto->core.attr.sample_period && !proto->core.attr.freq) {
		pr_err("%s=%s: the kernel does not see each occurrence of this event. Give it a period,\n"
		       "such as %s=%s/period=100000/, or as a term: -e %s/period=100000,name=tick/ and %s=tick\n",
		       what, name, what, name, name, what);
		return NULL;
	}
	return trigger;
}

/**
 * gates__new_gate - Add a gate without triggers
 * @gates:	Gates of the list
 *
 * Return: the gate, or NULL if there is no memory.
 */
struct gate *gates__new_gate(struct gates *gates)
{
	struct gate *gate = zalloc(sizeof(*gate));

	if (gate)
		list_add_tail(&gate->node, &gates->gates);
	return gate;
}

/**
 * gate__add_starter - Let a trigger open a gate
 * @gate:	The gate
 * @trigger:	The trigger
 *
 * Return: 0, or -ENOSPC if the gate has the maximum that the kernel allows.
 */
int gate__add_starter(struct gate *gate, struct gate_trigger *trigger)
{
	if (gate->nr_on == GATE_MAX_TRIGGERS)
		return -ENOSPC;
	gate->on[gate->nr_on++] = trigger;
	return 0;
}

/**
 * gate__add_stopper - Let a trigger close a gate
 * @gate:	The gate
 * @trigger:	The trigger
 *
 * Return: 0, or -ENOSPC if the gate has the maximum that the kernel allows beside
 * gate::leaver.
 */
int gate__add_stopper(struct gate *gate, struct gate_trigger *trigger)
{
	if (gate->nr_off == GATE_MAX_STOPPERS)
		return -ENOSPC;
	gate->off[gate->nr_off++] = trigger;
	return 0;
}

/* Find or create the gate of two triggers, either of which may be missing. */
static struct gate *evlist__gate(struct evlist *evlist, const char *on, const char *off, bool nest,
				 const char *on_what, const char *off_what)
{
	struct gate_trigger *starter = NULL, *stopper = NULL;
	struct gates *gates = evlist__gates(evlist);
	struct gate *gate;
	int ret;

	if (on) {
		starter = evlist__gate_trigger(evlist, on, on_what);
		if (!starter)
			return NULL;
	}
	if (off) {
		stopper = evlist__gate_trigger(evlist, off, off_what);
		if (!stopper)
			return NULL;
	}

	list_for_each_entry(gate, &gates->gates, node) {
		if (gate->on[0] == starter && gate->off[0] == stopper &&
		    gate->nr_on <= 1 && gate->nr_off <= 1 && gate->nest == nest)
			return gate;
	}

	gate = gates__new_gate(gates);
	if (!gate)
		return NULL;
	if (starter)
		gate__add_starter(gate, starter);
	if (stopper)
		gate__add_stopper(gate, stopper);
	gate->nest = nest;
	if (!off)
		ret = asprintf(&gate->where, "from %s on", on);
	else if (!on)
		ret = asprintf(&gate->where, "up to %s", off);
	else
		ret = asprintf(&gate->where, "from %s to %s", on, off);
	if (ret < 0)
		gate->where = NULL;
	return gate;
}

/**
 * evlist__new_gates - Make room for the gates of a list
 * @evlist:	The list, which may have gates already
 *
 * Return: 0 or -ENOMEM.
 */
int evlist__new_gates(struct evlist *evlist)
{
	struct gates *gates;

	if (evlist__gates(evlist))
		return 0;

	gates = zalloc(sizeof(*gates));
	if (!gates)
		return -ENOMEM;
	INIT_LIST_HEAD(&gates->gates);
	INIT_LIST_HEAD(&gates->triggers);
	INIT_LIST_HEAD(&gates->escapes);
	gates->evlist = evlist__new();
	if (!gates->evlist) {
		free(gates);
		return -ENOMEM;
	}
	evlist__set_gates(evlist, gates);
	return 0;
}

static const char *term_str(struct evsel_config_term *term)
{
	return term ? term->val.str : NULL;
}

/* Set the gate of an event from its terms, or from the options. */
static int evsel__setup_gate(struct evsel *evsel, struct gate *all)
{
	struct evsel_config_term *nest = evsel__get_config_term(evsel, GATE_NEST);
	struct evsel_config_term *none = evsel__get_config_term(evsel, NO_GATE);
	const char *on = term_str(evsel__get_config_term(evsel, GATE_ON));
	const char *off = term_str(evsel__get_config_term(evsel, GATE_OFF));
	bool nests = nest && nest->val.gate_nest;
	struct gate *gate = all;

	if (on || off) {
		if (evlist__new_gates(evsel->evlist))
			return -ENOMEM;
		gate = evlist__gate(evsel->evlist, on, off, nests, "gate-on", "gate-off");
		if (!gate)
			return -EINVAL;
	} else if (none && none->val.no_gate) {
		gate = NULL;
	}

	evsel->gate = gate;
	evsel->gate_is_set_up = true;
	evsel->core.attr.start_paused = gate && gate->nr_on;
	evsel->core.attr.gate_nest = gate && (gate->nest || nests);
	return 0;
}

/**
 * evsel__has_ignored_gate - Tell whether a tool ignores the terms of gates
 * @evsel:	An event that is about to be opened
 *
 * Return: true if there are such terms, and the tool has not called evlist__setup_gates().
 */
bool evsel__has_ignored_gate(struct evsel *evsel)
{
	return !evsel->gate_is_set_up &&
	       (evsel__get_config_term(evsel, GATE_ON) ||
		evsel__get_config_term(evsel, GATE_OFF) ||
		evsel__get_config_term(evsel, GATE_NEST) ||
		evsel__get_config_term(evsel, NO_GATE));
}

/**
 * evsel__ignored_gate_strerror - Say which tools open and close gates
 * @evsel:	An event whose terms are ignored
 * @msg:	Where the message goes
 * @size:	Its size
 *
 * Return: the length of the message.
 */
int evsel__ignored_gate_strerror(struct evsel *evsel, char *msg, size_t size)
{
	return scnprintf(msg, size,
			 "%s: only perf stat and perf record open and close gates, and only those of the events that\n"
			 "they count or record. Take away the terms gate-on, gate-off, gate-nest and no-gate, or let\n"
			 "perf record write to perf report or perf script: perf record -o - ... | perf script",
			 evsel__name(evsel));
}

/* Set @all to the gate of options, unless each event gets several: one for each region. */
static int evlist__setup_all(struct evlist *evlist, const struct gate_opts *opts,
			     struct target *target, const char *program, struct gate **all)
{
	if (opts->nr_inside && (opts->on || opts->off)) {
		pr_err("--inside cannot be combined with --gate-on or --gate-off\n");
		return -EINVAL;
	}
	if (opts->lax && !opts->nr_inside) {
		pr_err("--inside-lax: there is no --inside whose result it could accept\n");
		return -EINVAL;
	}
	if (!gate_opts__any(opts))
		return 0;
	if (evlist__new_gates(evlist))
		return -ENOMEM;
	evlist__gates(evlist)->lax = opts->lax;
	if (opts->nr_inside > 1)
		return evlist__setup_regions(evlist, opts, target, program);

	if (opts->nr_inside) {
		*all = gates__new_gate(evlist__gates(evlist));
		if (!*all)
			return -ENOMEM;
		(*all)->of_options = true;
		return gate__set_inside(evlist, *all, opts->inside[0], target, program);
	}

	*all = evlist__gate(evlist, opts->on, opts->off, false, "--gate-on", "--gate-off");
	if (!*all)
		return -EINVAL;
	(*all)->of_options = true;
	return 0;
}

/**
 * evlist__setup_gates - Set the gates of events from terms and options
 * @evlist:	The list, complete except for events that perf adds itself
 * @opts:	The options for all events
 * @target:	The target to measure
 * @program:	The program that perf will start, or NULL
 *
 * Call this before the maps of CPUs and threads are created.
 *
 * Return: 0, or a negative error code after a message.
 */
int evlist__setup_gates(struct evlist *evlist, const struct gate_opts *opts,
			struct target *target, const char *program)
{
	struct gate *all = NULL;
	struct evsel *evsel;
	int err;

	err = evlist__setup_all(evlist, opts, target, program, &all);
	if (err)
		return err;

	evlist__for_each_entry(evlist, evsel) {
		if (evsel__is_tool(evsel))
			continue;
		err = evsel__setup_gate(evsel, evsel->gate ?: all);
		if (err)
			return err;
	}

	if (!evlist__gates(evlist))
		return 0;

	if (!perf_can_gate()) {
		pr_err("The kernel cannot open and close gates of events, which --inside, --gate-on, --gate-off\n"
		       "and the terms of these names need. It has to be built with CONFIG_PERF_EVENTS_GATE.\n");
		return -EOPNOTSUPP;
	}
	if (target__has_cpu(target) && !target->per_thread)
		pr_info("Note: windows are of CPUs, not of tasks: other tasks on the CPU count during a window, too.\n");

	return 0;
}

/**
 * evlist__gate_where - Describe the windows of all events
 * @evlist:	The list
 *
 * Return: for example "inside of parse"; NULL if they have no gate, or several.
 */
const char *evlist__gate_where(struct evlist *evlist)
{
	struct gates *gates = evlist__gates(evlist);

	if (!gates || !list_is_singular(&gates->gates))
		return NULL;
	return list_first_entry(&gates->gates, struct gate, node)->where;
}

/**
 * evsel__region - Get the region that an event counts in, if there are several
 * @evsel:	The event
 *
 * Return: what the option --inside called it, "" for an event that has none; NULL if there
 * are not several.
 */
const char *evsel__region(struct evsel *evsel)
{
	struct gates *gates = evsel->evlist ? evlist__gates(evsel->evlist) : NULL;

	if (!gates || !gates->has_regions)
		return NULL;
	return evsel->gate && evsel->gate->region ? evsel->gate->region : "";
}

static void trigger__open_strerror(struct gate_trigger *trigger, struct evsel *evsel,
				   struct target *target, int err)
{
	char msg[BUFSIZ];

	if ((err == EACCES || err == EPERM) && is_probe(evsel)) {
		pr_err("%s: probes of programs need root or CAP_SYS_ADMIN, probes of the kernel need at least\n"
		       "CAP_PERFMON. Without: system calls if tracefs is readable, software events\n"
		       "and breakpoints, see --gate-on and --gate-off in 'man perf-gate'.\n", trigger->name);
		return;
	}
	if (err == ENODEV && evsel->core.attr.type == PERF_TYPE_BREAKPOINT) {
		pr_err("%s: this processor has no breakpoints\n", trigger->name);
		return;
	}
	evsel__open_strerror(evsel, target, err, msg, sizeof(msg));
	pr_err("%s, which opens or closes a gate: %s\n", trigger->name, msg);
}

/* Get the gate that terms of the trigger's source set up, or NULL. */
static struct gate *trigger__own_gate(struct gate_trigger *trigger)
{
	struct gate *own = trigger->source ? trigger->source->gate : NULL;

	return own && !own->of_options ? own : NULL;
}

/* Open an event of a trigger for the targets of @evsel, with the same lifetime. */
static struct gate_instance *trigger__open(struct gates *gates, struct gate_trigger *trigger,
					   struct evsel *evsel, struct target *target)
{
	struct gate *own = trigger__own_gate(trigger);
	struct gate_instance *instance = zalloc(sizeof(*instance));
	struct perf_event_attr *attr;
	char msg[BUFSIZ];

	if (!instance)
		return NULL;

	instance->evsel = evsel__clone(trigger->proto);
	if (!instance->evsel) {
		free(instance);
		return NULL;
	}
	evlist__add(gates->evlist, instance->evsel);
	list_add_tail(&instance->node, &trigger->instances);

	attr = &instance->evsel->core.attr;
	instance->evsel->core.leader = &instance->evsel->core;
	instance->evsel->tracking = false;
	/* A trigger copies an event of the list, to which its terms were applied already. */
	instance->evsel->gate_is_set_up = true;
	attr->inherit = evsel->core.attr.inherit;
	attr->inherit_thread = evsel->core.attr.inherit_thread;
	attr->remove_on_exec = evsel->core.attr.remove_on_exec;
	attr->disabled = 1;
	attr->enable_on_exec = target__enable_on_exec(target);
	attr->start_paused = own && own->nr_on;
	attr->gate_nest = own && own->nest;

	while (evsel__open(instance->evsel, instance->evsel->core.cpus,
			   instance->evsel->core.threads) < 0) {
		/* Without privileges, fall back to user space only. */
		if (errno == EACCES && !is_probe(instance->evsel) &&
		    evsel__fallback(instance->evsel, target, errno, msg, sizeof(msg)))
			continue;
		trigger__open_strerror(trigger, instance->evsel, target, errno);
		return NULL;
	}
	if (instance->evsel->filter &&
	    perf_evsel__apply_filter(&instance->evsel->core, instance->evsel->filter)) {
		pr_err("failed to set filter \"%s\" on event %s: %m\n", instance->evsel->filter,
		       trigger->name);
		return NULL;
	}
	/* Link the instance when it is on the list, because events may gate each other. */
	if (own && gates__link(gates, own, instance->evsel, target))
		return NULL;
	return instance;
}

static bool same_lifetime(struct evsel *a, struct evsel *b)
{
	return a->core.attr.inherit == b->core.attr.inherit &&
	       a->core.attr.inherit_thread == b->core.attr.inherit_thread &&
	       a->core.attr.remove_on_exec == b->core.attr.remove_on_exec;
}

/*
 * Let @trigger move the gate of @evsel. The number of targets of an event is limited;
 * if it does not suffice, open another event of the trigger for the rest.
 */
static int trigger__link(struct gates *gates, struct gate_trigger *trigger, unsigned long ioc,
			 struct evsel *evsel, struct target *target)
{
	struct gate_instance *instance;
	int next = 0, err;

	if (ioc == PERF_EVENT_IOC_SET_STOPPER)
		trigger->is_stopper = true;

	list_for_each_entry(instance, &trigger->instances, node) {
		if (!same_lifetime(instance->evsel, evsel))
			continue;
		err = perf_evsel__link_gate(&instance->evsel->core, &evsel->core, ioc, &next);
		if (err != -ENOSPC)
			return err;
	}

	do {
		instance = trigger__open(gates, trigger, evsel, target);
		if (!instance)
			return -ECANCELED;
		err = perf_evsel__link_gate(&instance->evsel->core, &evsel->core, ioc, &next);
	} while (err == -ENOSPC);

	return err;
}

static int gate__strerror(struct gate_trigger *trigger, struct evsel *evsel,
			  struct target *target, int err)
{
	const char *name = evsel__name(evsel);
	char msg[BUFSIZ];

	switch (-err) {
	case ECANCELED:
		/* The reason has already been printed. */
		break;
	case EINVAL:
		pr_err("%s cannot gate %s: they must measure the same threads, CPUs and cgroup, and both or\n"
		       "neither of them must be inherited.\n", trigger->name, name);
		break;
	case EOPNOTSUPP:
		evsel__open_strerror(evsel, target, EOPNOTSUPP, msg, sizeof(msg));
		pr_err("%s\n", msg);
		break;
	case ESRCH:
		pr_err("The process has ended.\n");
		break;
	case ENOMEM:
		pr_err("No memory for the gate of %s.\n", name);
		break;
	case EACCES:
		pr_err("A security module does not allow %s to have a gate.\n", name);
		break;
	default:
		pr_err("Failed to make %s move the gate of %s: %s\n", trigger->name, name,
		       str_error_r(-err, msg, sizeof(msg)));
		break;
	}
	return err;
}

static int gates__link_all(struct gates *gates, struct gate_trigger **triggers, int nr,
			   unsigned long ioc, struct evsel *evsel, struct target *target)
{
	int i, err;

	for (i = 0; i < nr; i++) {
		err = trigger__link(gates, triggers[i], ioc, evsel, target);
		/* The kernel did not know that an event without a starter would have a gate. */
		if (err == -EOPNOTSUPP && evsel->precise_max && evsel->core.attr.precise_ip) {
			evsel->core.attr.precise_ip = 0;
			return -EAGAIN;
		}
		if (err)
			return gates->may_retry && err == -EINVAL ? -EAGAIN :
			       gate__strerror(triggers[i], evsel, target, err);
	}
	return 0;
}

/**
 * gates__link - Let the triggers of a gate move the gate of an event
 * @gates:	Gates of the list
 * @gate:	The gate
 * @evsel:	The event, which is open
 * @target:	The target to measure
 *
 * Return: 0, -EAGAIN to open all events again, or a negative error code after a message.
 */
int gates__link(struct gates *gates, struct gate *gate, struct evsel *evsel,
		struct target *target)
{
	int err = gates__link_all(gates, gate->on, gate->nr_on, PERF_EVENT_IOC_SET_STARTER,
				  evsel, target);

	err = err ?: gates__link_all(gates, gate->off, gate->nr_off,
				     PERF_EVENT_IOC_SET_STOPPER, evsel, target);
	return err ?: gates__link_all(gates, &gate->leaver, gate->leaver ? 1 : 0,
				      PERF_EVENT_IOC_SET_STOPPER, evsel, target);
}

/**
 * gate_trigger__instance - Get an event that was opened for a trigger
 * @trigger:	The trigger
 * @evsel:	The event must be inherited by the same children as this one
 *
 * Return: the event that was opened first, or NULL if there is none.
 */
struct evsel *gate_trigger__instance(struct gate_trigger *trigger, struct evsel *evsel)
{
	struct gate_instance *instance;

	list_for_each_entry(instance, &trigger->instances, node) {
		if (same_lifetime(instance->evsel, evsel))
			return instance->evsel;
	}
	return NULL;
}

/* Prefer a software event, because it is never multiplexed. */
static bool better_reference(struct evsel *evsel, struct evsel *reference)
{
	return !reference || (reference->core.attr.type != PERF_TYPE_SOFTWARE &&
			      evsel->core.attr.type == PERF_TYPE_SOFTWARE);
}

/*
 * Open an event that counts nothing, so that the number of windows and their time do not
 * depend on events that take turns on the counters of the CPU.
 */
static int gate__open_reference(struct gates *gates, struct gate *gate, struct target *target)
{
	struct perf_event_attr *target_attr = &gate->reference->core.attr;
	struct perf_event_attr attr = {
		.type		= PERF_TYPE_SOFTWARE,
		.config		= PERF_COUNT_SW_DUMMY,
		.size		= sizeof(attr),
		.read_format	= PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING |
				  PERF_FORMAT_GATE_TIME | PERF_FORMAT_GATE_COUNT,
		.disabled	= 1,
		.exclude_kernel	= 1,
		.enable_on_exec	= target__enable_on_exec(target),
		.inherit	= target_attr->inherit,
		.inherit_thread	= target_attr->inherit_thread,
		.remove_on_exec	= target_attr->remove_on_exec,
		.start_paused	= target_attr->start_paused,
		.gate_nest	= target_attr->gate_nest,
	};
	struct evsel *evsel = evsel__new(&attr);
	int err;

	if (!evsel)
		return -ENOMEM;
	evlist__add(gates->evlist, evsel);
	evsel->core.leader = &evsel->core;
	evsel->tracking = false;
	evsel->gate_is_set_up = true;
	gate->reference = evsel;
	gate->has_own_reference = true;
	err = evsel__open(evsel, evsel->core.cpus, evsel->core.threads);
	if (err < 0) {
		pr_err("Failed to open the event that measures windows: %s\n", strerror(-err));
		return err;
	}
	return gates__link(gates, gate, evsel, target);
}

/**
 * evlist__open_gates - Open the triggers and link them to the events
 * @evlist:	A list whose events are open and not yet enabled
 * @target:	The target to measure
 * @may_retry:	The caller is able to open all events again
 *
 * The kernel rejects a link if the task created a thread between the opening of the
 * two events. Then opening both again helps.
 *
 * Return: 0, or -EAGAIN to try again, or a negative error code after a message.
 */
int evlist__open_gates(struct evlist *evlist, struct target *target, bool may_retry)
{
	struct gates *gates = evlist__gates(evlist);
	struct perf_cpu_map *cpus;
	struct evsel *evsel;
	struct gate *gate;
	int err;

	if (!gates)
		return 0;

	/*
	 * A window may end on another CPU than the one on which it began. Triggers have
	 * no buffer, so they can follow their task.
	 */
	cpus = target__has_cpu(target) ? perf_cpu_map__get(evlist->core.user_requested_cpus) :
					 perf_cpu_map__new_any_cpu();
	perf_evlist__set_maps(&gates->evlist->core, cpus, evlist->core.threads);
	perf_cpu_map__put(cpus);

	gates->may_retry = may_retry && target__has_task(target);
	evlist__for_each_entry(evlist, evsel) {
		if (!evsel->gate || evsel__is_tool(evsel) || !evsel->supported)
			continue;
		err = gates__link(gates, evsel->gate, evsel, target);
		if (err)
			return err;
		if (better_reference(evsel, evsel->gate->reference))
			evsel->gate->reference = evsel;
	}
	list_for_each_entry(gate, &gates->gates, node) {
		if (!gate->count || !gate->reference ||
		    gate->reference->core.attr.type == PERF_TYPE_SOFTWARE)
			continue;
		err = gate__open_reference(gates, gate, target);
		if (err)
			return err;
	}
	err = evlist__open_guards(evlist, target);
	err = err ?: evlist__open_windows(evlist, target);
	return err ?: evlist__open_escapes(evlist, target);
}

static void gates__set_references(struct gates *gates, bool enable)
{
	struct gate *gate;

	list_for_each_entry(gate, &gates->gates, node) {
		if (!gate->has_own_reference)
			continue;
		if (enable)
			evsel__enable(gate->reference);
		else
			evsel__disable(gate->reference);
	}
}

static void gates__set_enabled(struct gates *gates, bool stoppers, bool enable)
{
	struct gate_instance *instance;
	struct gate_trigger *trigger;

	list_for_each_entry(trigger, &gates->triggers, node) {
		if (trigger->is_stopper != stoppers)
			continue;
		list_for_each_entry(instance, &trigger->instances, node) {
			if (enable)
				evsel__enable(instance->evsel);
			else
				evsel__disable(instance->evsel);
		}
	}
}

/**
 * evlist__enable_gates - Enable the triggers
 * @evlist:	List whose events are enabled
 *
 * The task keeps running meanwhile. Enable stoppers first: if a window opened whose
 * end is missed, a gate that nests would never close again.
 */
void evlist__enable_gates(struct evlist *evlist)
{
	if (evlist__gates(evlist)) {
		gates__set_references(evlist__gates(evlist), /*enable=*/true);
		evlist__enable_windows(evlist, /*enable=*/true);
		evlist__enable_guards(evlist);
		gates__set_enabled(evlist__gates(evlist), /*stoppers=*/true, /*enable=*/true);
		gates__set_enabled(evlist__gates(evlist), /*stoppers=*/false, /*enable=*/true);
	}
}

/**
 * evlist__disable_gates - Disable the starters
 * @evlist:	List whose events are about to be disabled
 *
 * Stoppers stay enabled, so that an open window ends at its regular end although the
 * events do not count any more. The gate is closed when events are enabled again.
 */
void evlist__disable_gates(struct evlist *evlist)
{
	if (evlist__gates(evlist)) {
		gates__set_enabled(evlist__gates(evlist), /*stoppers=*/false, /*enable=*/false);
		gates__set_references(evlist__gates(evlist), /*enable=*/false);
		evlist__enable_windows(evlist, /*enable=*/false);
		evlist__disable_escapes(evlist);
	}
}

/**
 * evlist__close_gates - Close the triggers
 * @evlist:	List whose events may be opened again
 */
void evlist__close_gates(struct evlist *evlist)
{
	struct gate_instance *instance, *next;
	struct gate_trigger *trigger;
	struct gate *gate;

	if (!evlist__gates(evlist))
		return;

	evlist__close_guards(evlist);
	evlist__close_windows(evlist);
	list_for_each_entry(trigger, &evlist__gates(evlist)->triggers, node) {
		list_for_each_entry_safe(instance, next, &trigger->instances, node) {
			evsel__close(instance->evsel);
			evlist__remove(evlist__gates(evlist)->evlist, instance->evsel);
			evsel__delete(instance->evsel);
			list_del(&instance->node);
			free(instance);
		}
	}
	list_for_each_entry(gate, &evlist__gates(evlist)->gates, node) {
		if (gate->has_own_reference) {
			evsel__close(gate->reference);
			evlist__remove(evlist__gates(evlist)->evlist, gate->reference);
			evsel__delete(gate->reference);
			gate->has_own_reference = false;
		}
		gate->reference = NULL;
		gate->was_open = false;
	}
}

/**
 * evlist__delete_gates - Free all gates and triggers
 * @evlist:	List whose events are closed and will not be opened again
 */
void evlist__delete_gates(struct evlist *evlist)
{
	struct gate_trigger *trigger, *next_trigger;
	struct gate_escape *escape, *next_escape;
	struct gate *gate, *next_gate;

	if (!evlist__gates(evlist))
		return;

	evlist__close_gates(evlist);
	list_for_each_entry_safe(trigger, next_trigger, &evlist__gates(evlist)->triggers, node) {
		list_del(&trigger->node);
		evsel__delete(trigger->proto);
		gate_trigger__delete_tracefs(trigger);
		free(trigger->path);
		free(trigger->name);
		free(trigger);
	}
	list_for_each_entry_safe(escape, next_escape, &evlist__gates(evlist)->escapes, node) {
		list_del(&escape->node);
		free(escape->path);
		free(escape);
	}
	free(evlist__gates(evlist)->files);
	list_for_each_entry_safe(gate, next_gate, &evlist__gates(evlist)->gates, node) {
		list_del(&gate->node);
		free(gate->function);
		free(gate->where);
		free(gate->guard);
		free(gate);
	}
	evlist__delete(evlist__gates(evlist)->evlist);
	free(evlist__gates(evlist));
	evlist__set_gates(evlist, NULL);
}
