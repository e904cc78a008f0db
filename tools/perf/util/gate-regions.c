// SPDX-License-Identifier: GPL-2.0
/*
 * Several --inside: each event counts separately in each region.
 *
 * An event has one gate, so perf opens each event once for each region, region after
 * region. Tool events, and events whose terms set or refuse a gate, are opened once, before
 * all regions; but a group stays whole.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/list.h>
#include <linux/string.h>
#include <linux/zalloc.h>
#include <subcmd/parse-options.h>

#include "debug.h"
#include "evlist.h"
#include "evsel.h"
#include "evsel_config.h"
#include "gate.h"

/**
 * gate_opts__add_inside - Take one option --inside
 * @opt:	The option, whose value is a struct gate_opts
 * @inside:	Its argument
 * @unset:	The option is --no-inside, which takes all of them back
 *
 * Return: 0, or -1 after a message.
 */
int gate_opts__add_inside(const struct option *opt, const char *inside, int unset)
{
	struct gate_opts *opts = opt->value;
	const char **new;
	int i;

	if (unset) {
		zfree(&opts->inside);
		opts->nr_inside = 0;
		return 0;
	}
	if (!*inside) {
		pr_err("--inside: name a function, such as parse, kernel:vfs_write or syscalls:write\n");
		return -1;
	}
	for (i = 0; i < opts->nr_inside; i++) {
		if (!strcmp(opts->inside[i], inside)) {
			pr_err("--inside %s: say it once\n", inside);
			return -1;
		}
	}
	new = reallocarray(opts->inside, opts->nr_inside + 1, sizeof(*new));
	if (!new)
		return -1;
	opts->inside = new;
	opts->inside[opts->nr_inside++] = inside;
	return 0;
}

/**
 * gate_opts__set_trigger - Parse --gate-on and --gate-off
 * @opt:	The option, whose value is the event
 * @event:	The event
 * @unset:	The option is negated
 *
 * Return: 0, or -1 after a message.
 */
int gate_opts__set_trigger(const struct option *opt, const char *event, int unset)
{
	const char **value = opt->value;

	if (!unset && *value) {
		pr_err("--%s %s: --%s %s was given before, and events have one gate each. Take the term of that name\n"
		       "for each event, such as -e cycles/%s=%s/.\n", opt->long_name, event,
		       opt->long_name, *value, opt->long_name, event);
		return -1;
	}
	*value = unset ? NULL : event;
	return 0;
}

/**
 * gate_opts__refuse - Refuse an option that another tool has
 * @opt:	The option, whose value is a message
 * @arg:	Its argument, if any
 * @unset:	The option is negated
 *
 * Return: -1 after a message, or 0 for the negation.
 */
int gate_opts__refuse(const struct option *opt, const char *arg, int unset)
{
	(void)arg;
	if (unset)
		return 0;
	pr_err("--%s: %s\n", opt->long_name, (const char *)opt->value);
	return -1;
}

/* Tell whether options, and not its own terms, set the gate of the event. */
static bool follows_options(struct evsel *evsel)
{
	return !evsel__is_tool(evsel) && !evsel__get_config_term(evsel, GATE_ON) &&
	       !evsel__get_config_term(evsel, GATE_OFF) &&
	       !evsel__get_config_term(evsel, NO_GATE);
}

static bool group_follows_options(struct evlist *evlist, struct evsel *leader)
{
	struct evsel *evsel;

	evlist__for_each_entry(evlist, evsel) {
		if (evsel__has_leader(evsel, leader) && follows_options(evsel))
			return true;
	}
	return false;
}

/* Move the events that are repeated for each region to @originals, leave the others. */
static void evlist__take_originals(struct evlist *evlist, struct evlist *originals)
{
	struct evsel *evsel, *next;

	evlist__splice_list_tail(originals, &evlist->core.entries);
	evlist->core.nr_entries = 0;
	evlist__for_each_entry_safe(originals, next, evsel) {
		if (!group_follows_options(originals, evsel__leader(evsel))) {
			evlist__remove(originals, evsel);
			evlist__add(evlist, evsel);
		}
	}
}

static int evlist__add_region(struct evlist *evlist, struct evlist *originals, struct gate *gate)
{
	struct evsel *evsel, *copy, *leader = NULL;

	evlist__for_each_entry(originals, evsel) {
		if (!list_empty(&evsel->bpf_filters)) {
			pr_err("--filter of %s works with one --inside alone: run perf once for each\n",
			       evsel__name(evsel));
			return -EINVAL;
		}
		copy = evsel__clone(evsel);
		if (!copy)
			return -ENOMEM;
		if (evsel__is_group_leader(evsel))
			leader = copy;
		evsel__set_leader(copy, leader);
		if (follows_options(evsel))
			copy->gate = gate;
		evlist__add(evlist, copy);
	}
	return 0;
}

/**
 * evlist__setup_regions - Let each event count in each of several regions
 * @evlist:	The list, whose gates are those of options
 * @opts:	Several --inside
 * @target:	The target to measure
 * @program:	The program that perf will start, or NULL
 *
 * Return: 0, or a negative error code after a message.
 */
int evlist__setup_regions(struct evlist *evlist, const struct gate_opts *opts,
			  struct target *target, const char *program)
{
	struct evlist *originals = evlist__new();
	struct gate *gate;
	int err = 0, i;

	if (!originals)
		return -ENOMEM;
	evlist__gates(evlist)->has_regions = true;
	evlist__take_originals(evlist, originals);
	for (i = 0; i < opts->nr_inside && !err; i++) {
		gate = gates__new_gate(evlist__gates(evlist));
		if (!gate) {
			err = -ENOMEM;
			break;
		}
		gate->of_options = true;
		gate->region = opts->inside[i];
		err = evlist__add_region(evlist, originals, gate);
	}
	evlist__delete(originals);

	/* A trigger may be an event of the list, which is complete from here on. */
	list_for_each_entry(gate, &evlist__gates(evlist)->gates, node) {
		if (!err)
			err = gate__set_inside(evlist, gate, gate->region, target, program);
	}
	return err;
}

/**
 * evlist__name_regions - Append the region to the name of each event
 * @evlist:	A list that is written to a file, which does not tell regions
 *
 * Return: 0 or -ENOMEM.
 */
int evlist__name_regions(struct evlist *evlist)
{
	struct evsel *evsel;
	char *name;

	evlist__for_each_entry(evlist, evsel) {
		const char *region = evsel__region(evsel);

		if (!region || !*region)
			continue;
		if (asprintf(&name, "%s inside of %s", evsel__name(evsel), region) < 0)
			return -ENOMEM;
		free(evsel->name);
		evsel->name = name;
	}
	return 0;
}
