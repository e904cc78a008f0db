// SPDX-License-Identifier: GPL-2.0
/*
 * --inside of code that is not a function of its own: a function where the compiler has inlined
 * it, and lines of a file.
 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/kernel.h>
#include <linux/string.h>
#include <linux/zalloc.h>

#include "debug.h"
#include "gate.h"
#include "gate-dwarf.h"
#include "gate-elf.h"

#ifdef HAVE_LIBELF_SUPPORT
/* Put the ranges of all places in one list. Return NULL if there is no memory. */
static struct gate_range *all_ranges(const struct gate_place *list, int nr, int *nr_ranges)
{
	struct gate_range *ranges;
	int i;

	*nr_ranges = 0;
	for (i = 0; i < nr; i++)
		*nr_ranges += list[i].nr_ranges;
	ranges = calloc(*nr_ranges ?: 1, sizeof(*ranges));
	if (!ranges)
		return NULL;
	*nr_ranges = 0;
	for (i = 0; i < nr; i++) {
		memcpy(ranges + *nr_ranges, list[i].ranges, list[i].nr_ranges * sizeof(*ranges));
		*nr_ranges += list[i].nr_ranges;
	}
	return ranges;
}

static int gate__add_edges(struct gates *gates, struct gate *gate, const char *name,
			   const char *path, const struct gate_edges *edges)
{
	int err = 0, i;
	char what[160];

	/* Add all edges or none: a starter without its stopper would leave the gate open. */
	if (gate->nr_on + edges->nr_on > GATE_MAX_TRIGGERS ||
	    gate->nr_off + edges->nr_off > GATE_MAX_STOPPERS)
		return -ENOSPC;
	for (i = 0; i < edges->nr_on && !err; i++) {
		snprintf(what, sizeof(what), "%s at %#" PRIx64, name, edges->on[i]);
		err = gate__add_probe(gates, gate, what, path, edges->on[i],
				      /*is_starter=*/true, /*at_return=*/false);
	}
	for (i = 0; i < edges->nr_off && !err; i++) {
		snprintf(what, sizeof(what), "end of %s at %#" PRIx64, name, edges->off[i]);
		err = gate__add_probe(gates, gate, what, path, edges->off[i],
				      /*is_starter=*/false, /*at_return=*/false);
	}
	return err;
}

static void tell_places(const struct gate_place *list, int nr)
{
	int i;

	for (i = 0; i < nr && i < 8; i++)
		pr_err("  in %s, %s:%d\n", list[i].caller ?: "?", list[i].file ?: "?",
		       list[i].line);
	if (i < nr)
		pr_err("  and %d more\n", nr - i);
}

/* Tell whether the places are of several static or overloaded functions. */
static bool is_ambiguous(const struct gate_place *list, int nr, bool is_function)
{
	bool has_own = false;
	int i;

	for (i = 0; i < nr; i++) {
		if (strcmp(list[i].declared, list[0].declared))
			return true;
		has_own |= list[i].is_own;
	}
	/* Another function, of a file without debugging information, may be called. */
	return is_function && !has_own && !list[0].is_external;
}

static const char *declared_at(const struct gate_place *list, int nr, u64 address)
{
	int i, j;

	for (i = 0; i < nr; i++) {
		for (j = 0; list[i].is_own && j < list[i].nr_ranges; j++) {
			if (address >= list[i].ranges[j].start && address < list[i].ranges[j].end)
				return list[i].declared;
		}
	}
	return NULL;
}

/**
 * gate_places__are_copies - Tell whether functions are copies of one function in the source
 * @path:	The program
 * @function:	The name of the functions, as gate_elf__find() takes it
 * @functions:	The functions
 * @nr:		Number of functions
 *
 * Return: true if the debugging information says so.
 */
bool gate_places__are_copies(const char *path, const char *function,
			     const struct gate_function *functions, int nr)
{
	const char *first, *declared;
	struct gate_place *list;
	int nr_places, i;
	bool same;

	nr_places = gate_dwarf__inlined(path, function, &list);
	if (nr_places <= 0)
		return false;
	first = declared_at(list, nr_places, functions[0].start);
	same = first;
	for (i = 1; i < nr && same; i++) {
		declared = declared_at(list, nr_places, functions[i].start);
		same = declared && !strcmp(first, declared);
	}
	gate_places__free(list, nr_places);
	return same;
}

/*
 * Drop the function itself and the copies inlined into it: its own probes cover them. Keep
 * the copies inlined elsewhere.
 */
static int drop_own(struct gate_place *list, int nr, const char *function)
{
	int i, kept = 0;

	for (i = 0; i < nr; i++) {
		struct gate_place this = list[i];

		if (!this.is_own && this.nr_ranges &&
		    !(this.caller && gate_elf__name_matches(this.caller, function))) {
			list[i] = list[kept];
			list[kept++] = this;
		}
	}
	for (i = kept; i < nr; i++)
		gate_place__exit(&list[i]);
	return kept;
}

static bool is_inlined(const struct gate_place *list, int nr)
{
	int i;

	for (i = 0; i < nr; i++) {
		if (!list[i].is_own)
			return true;
	}
	return false;
}

/**
 * gate__refuse_go - Refuse a program that changes threads or contexts in a window
 * @gates:	All gates
 * @ge:		The program
 * @where:	FUNCTION or FILE of it
 * @path:	Its path
 *
 * Return: 0, or -EINVAL after a message.
 */
int gate__refuse_go(struct gates *gates, struct gate_elf *ge, const char *where,
		    const char *path)
{
	const char *switches;
	char *library;

	if (gate_elf__has_section(ge, ".gopclntab")) {
		pr_err("--inside: %s is a program of Go, whose goroutines leave their thread inside of functions: a\n"
		       "window would count another goroutine. Use --inside syscalls:NAME, or set two probes at\n"
		       "a stretch that does not wait, perf probe -x %s %s, for --gate-on and --gate-off.\n",
		       path, path, where);
		return -EINVAL;
	}
	if (gates->lax)
		return 0;
	switches = gate_elf__switches_contexts(ge, /*is_needed=*/false);
	library = switches ? NULL : gate_elf__library_switches(ge, path);
	if (!switches && !library)
		return 0;
	if (switches)
		pr_err("--inside: %s has contexts that take turns on a thread (%s): a window would count what\n"
		       "another one does. If %s does not switch, --inside-lax accepts the result.\n",
		       path, switches, where);
	else
		pr_err("--inside: %s needs a library that has contexts which take turns on a thread:\n  %s\n"
		       "A window would count what another one does. If %s does not switch, --inside-lax accepts\n"
		       "the result.\n", path, library, where);
	free(library);
	return -EINVAL;
}

/*
 * Refuse a function that the compiler has split if perf does not know where callers have
 * inlined its beginning. Such callers call the split part alone, so their calls would not
 * open a window.
 */
static int gate__refuse_part(struct gates *gates, struct gate_elf *ge, const char *function,
			     const struct gate_function *functions, int nr)
{
	const char *part = NULL;
	int i;

	for (i = 0; i < nr && !part; i++)
		part = gate_elf__part_of(ge, &functions[i]);
	if (!part || gates->lax)
		return 0;
	pr_err("--inside: the compiler has split %s. Callers may have the beginning of it inlined, and call\n"
	       "%s alone. Build the program with -g, so that perf sees where, and take a perf with libdw;\n"
	       "or name %s, or take --inside-lax, which counts the calls of %s that are left.\n",
	       function, part, part, function);
	return -EINVAL;
}

/**
 * gate__set_inlined - Let the edges of an inlined function move a gate
 * @gates:	All gates
 * @gate:	The gate, which has the events of the function's own code, if it has any
 * @ge:		The program
 * @path:	Its path
 * @function:	The function
 * @functions:	The copies of it that are functions, too
 * @nr_functions: Number of these functions
 *
 * Return: how many places there are; 0 if it is not inlined, or a negative error code after
 * a message.
 */
int gate__set_inlined(struct gates *gates, struct gate *gate, struct gate_elf *ge,
		      const char *path, const char *function,
		      const struct gate_function *functions, int nr_functions)
{
	bool is_function = nr_functions;
	struct gate_range *ranges = NULL;
	struct gate_edges edges;
	struct gate_place *list;
	int nr, nr_ranges, err;
	char *why = NULL;

	if (!is_function && gate__refuse_go(gates, ge, function, path))
		return -EINVAL;
	nr = gate_dwarf__inlined(path, function, &list);
	if (nr == -EBADF)
		pr_info("Note: perf cannot read all of the debugging information of %s. Calls of %s that are\n"
			"inlined there are not counted.\n", path, function);
	if (nr == -EOPNOTSUPP && gate_elf__has_section(ge, ".debug_info"))
		pr_info("Note: this perf was built without libdw, and cannot tell if calls of %s are inlined.\n"
			"Those are not counted.\n", function);
	if (nr <= 0 && is_function && gate__refuse_part(gates, ge, function, functions, nr_functions))
		return -EINVAL;
	if (nr <= 0)
		return nr == -ENOMEM ? nr : 0;

	if (is_inlined(list, nr) && is_ambiguous(list, nr, is_function)) {
		pr_err("--inside: several functions have the name %s, and some of them are inlined:\n",
		       function);
		tell_places(list, nr);
		pr_err("Name one of them, a function of C++ with its arguments, a static function of C with its\n"
		       "file: '%s@file.c'.\n", function);
		gate_places__free(list, nr);
		return -EINVAL;
	}
	nr = drop_own(list, nr, function);
	if (!nr) {
		gate_places__free(list, nr);
		return 0;
	}

	ranges = all_ranges(list, nr, &nr_ranges);
	err = ranges ? gate_elf__find_edges(ge, ranges, nr_ranges, &edges, &why) : -ENOMEM;
	/* The gate must nest, because a window may enter the function's own code. */
	if (!err && is_function && !edges.pair) {
		err = -EOPNOTSUPP;
		why = strdup("other code shares an edge with it");
	}
	if (!err)
		err = gate__add_edges(gates, gate, function, path, &edges);
	if (!err && !is_function) {
		gate->nest = edges.pair;
		gate->function = edges.pair ? strdup(function) : NULL;
	}
	if (!err && edges.nr_on > nr)
		pr_info("Note: the code of %s is in %d pieces. A window is a stay in one of them, and a call may\n"
			"have several.\n", function, edges.nr_on);
	if (err && err != -ENOMEM && is_function && gates->lax) {
		pr_info("Note: the calls of %s that are inlined are not counted: %s.\n", function,
			why ?: "too many edges");
		err = 0;
	} else if (err) {
		pr_err("--inside: the compiler has inlined %s where perf cannot tell it from what is around it:\n"
		       "%s.\n", function, why ?: "too many edges, or no memory");
		tell_places(list, nr);
		if (is_function)
			pr_err("Name what it is inlined in, or build the program with __attribute__((noinline)) for %s,\n"
			       "or take --inside-lax, which counts the calls that are left.\n", function);
		else
			pr_err("Name what it is inlined in, or build the program with __attribute__((noinline)) for %s.\n",
			       function);
	}
	free(why);
	free(ranges);
	gate_places__free(list, nr);
	return err ?: nr;
}

/**
 * gate__set_mark - Let the marks of a region move a gate
 * @gates:	All gates
 * @gate:	The gate
 * @path:	The program
 * @name:	The name that PERF_MARK_BEGIN() and PERF_MARK_END() give the region
 *
 * Return: 0, or a negative error code after a message.
 */
int gate__set_mark(struct gates *gates, struct gate *gate, const char *path, const char *name)
{
	struct gate_elf *ge = gate_elf__new(path);
	struct gate_edges edges;
	char what[160];

	if (!ge) {
		pr_err("--inside: %s is not a program\n", path);
		return -EINVAL;
	}
	snprintf(what, sizeof(what), "%s_begin", name);
	edges.nr_on = gate_elf__find_mark(ge, what, edges.on);
	snprintf(what, sizeof(what), "%s_end", name);
	edges.nr_off = gate_elf__find_mark(ge, what, edges.off);
	gate_elf__delete(ge);

	if (edges.nr_on < 0 || edges.nr_off < 0) {
		pr_err("--inside: %s has more marks of the name %s than a gate has room for\n", path, name);
		return -EINVAL;
	}
	if (!edges.nr_on || !edges.nr_off) {
		pr_err("--inside: %s has no PERF_MARK_%s(%s). The macros are in <perf/mark.h>; for a probe of another\n"
		       "kind take --gate-on and --gate-off.\n", path, edges.nr_on ? "END" : "BEGIN", name);
		return -EINVAL;
	}
	gate->nest = true;
	gate->function = strdup(name);
	return gate->function ? gate__add_edges(gates, gate, name, path, &edges) : -ENOMEM;
}

/**
 * gate__set_lines - Let the edges of some lines move a gate
 * @gates:	All gates
 * @gate:	The gate
 * @path:	The program
 * @file:	The source file
 * @first:	The first line
 * @last:	The last line
 *
 * Return: 0, or a negative error code after a message.
 */
int gate__set_lines(struct gates *gates, struct gate *gate, const char *path, const char *file,
		    int first, int last)
{
	struct gate_elf *ge = gate_elf__new(path);
	struct gate_range *ranges = NULL;
	struct gate_place *list = NULL;
	int nr, nr_ranges = 0, err = -EINVAL, i;
	char *paths[2] = {}, *why = NULL;
	struct gate_edges edges;

	if (!ge) {
		pr_err("--inside: %s is not a program\n", path);
		return -EINVAL;
	}
	if (gate__refuse_go(gates, ge, file, path)) {
		gate_elf__delete(ge);
		return -EINVAL;
	}
	nr = gate_dwarf__lines(path, file, first, last, &list, paths);
	for (i = 0; i < nr; i++)
		nr_ranges += list[i].nr_ranges;
	if (nr == -EOPNOTSUPP) {
		pr_err("--inside: perf was built without libdw, and cannot find lines\n");
	} else if (nr == -EBADF) {
		pr_err("--inside: perf cannot read all of the debugging information of %s: build it\n"
		       "without -gsplit-dwarf\n", path);
	} else if (nr == -ENODATA) {
		pr_err("--inside: %s has no debugging information: build it with -g\n", path);
	} else if (paths[1]) {
		pr_err("--inside: several files of %s are named %s:\n  %s\n  %s\n"
		       "Name more of the directories: '%s:%d-%d'\n", path, file, paths[0], paths[1],
		       paths[0], first, last);
	} else if (!nr_ranges) {
		pr_err("--inside: there is no code of lines %d to %d of %s in %s\n", first, last, file,
		       path);
	} else {
		ranges = all_ranges(list, nr, &nr_ranges);
		err = ranges ? gate_elf__find_edges(ge, ranges, nr_ranges, &edges, &why) : -ENOMEM;
		if (!err)
			err = gate__add_edges(gates, gate, file, path, &edges);
		if (err)
			pr_err("--inside: perf cannot tell where the flow of control leaves lines %d to %d of %s:\n"
			       "%s. Take other lines, such as all of a block, or set two probes,\n"
			       "perf probe -x %s %s:%d, for --gate-on and --gate-off.\n",
			       first, last, file, why ?: "too many edges, or no memory", path, file,
			       first);
	}
	if (!err) {
		gate->nest = edges.pair;
		gate->function = edges.pair ? strdup(file) : NULL;
		if (edges.nr_on > 1)
			pr_info("Note: the code of the lines is in %d pieces. A window is a stay in one of them.\n",
				edges.nr_on);
	}
	free(why);
	free(paths[0]);
	free(paths[1]);
	free(ranges);
	gate_places__free(list, max(nr, 0));
	gate_elf__delete(ge);
	return err;
}
#else
int gate__set_mark(struct gates *gates __maybe_unused, struct gate *gate __maybe_unused,
		   const char *path __maybe_unused, const char *name __maybe_unused)
{
	pr_err("--inside: perf was built without libelf, and cannot find marks\n");
	return -EINVAL;
}

int gate__set_lines(struct gates *gates __maybe_unused, struct gate *gate __maybe_unused,
		    const char *path __maybe_unused, const char *file __maybe_unused,
		    int first __maybe_unused, int last __maybe_unused)
{
	pr_err("--inside: perf was built without libelf, and cannot find lines\n");
	return -EINVAL;
}
#endif

/**
 * gate_lines__parse - Tell FILE:LINE-LINE from the name of a function
 * @where:	The argument, which may name lines
 * @first:	Set to the first line
 * @last:	Set to the last line, or 0 if a single line was named
 *
 * Return: the length of the file's name, or 0 if it is something else.
 */
size_t gate_lines__parse(const char *where, int *first, int *last)
{
	const char *colon = strrchr(where, ':');
	char *end;

	if (!colon || colon == where || colon[-1] == ':' || !isdigit(colon[1]))
		return 0;
	*first = strtol(colon + 1, &end, 10);
	*last = 0;
	if (*end == '-' && isdigit(end[1]))
		*last = strtol(end + 1, &end, 10);
	return *end ? 0 : colon - where;
}
