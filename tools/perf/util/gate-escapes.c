// SPDX-License-Identifier: GPL-2.0
/*
 * Functions of libraries that end a call of another function, or interrupt it, without a return.
 *
 * Entries and returns may pair although a thread did other things in a window: it went on with
 * another context and came back, or it is a process which left the function by longjmp() or an
 * exception, and whose window was ended when it executed a program. Code that is loaded by
 * dlopen(3) does so by the functions of these libraries as well. So perf counts their calls. A
 * call outside of windows counts, too: a context may have begun before, and come back in a
 * window.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <linux/kernel.h>

#include "gate.h"
#include "gate-elf.h"

#define LIBC	"libc.so.6"
#define UNWIND	"libgcc_s.so.1"

static const struct {
	const char		*library;
	const char		*function;
	enum gate_escape	escape;
} escapes[] = {
	{ LIBC,		"setcontext",			GATE_ESCAPE_SWITCHES },
	{ LIBC,		"swapcontext",			GATE_ESCAPE_SWITCHES },
	{ LIBC,		"longjmp",			GATE_ESCAPE_JUMPS },
	{ LIBC,		"__longjmp_chk",		GATE_ESCAPE_JUMPS },
	{ UNWIND,	"_Unwind_RaiseException",	GATE_ESCAPE_JUMPS },
	{ UNWIND,	"_Unwind_Resume_or_Rethrow",	GATE_ESCAPE_JUMPS },
};

static int gates__add_escape(struct gates *gates, const char *path, int n)
{
	struct gate_elf *ge = gate_elf__new(path);
	struct gate_trigger *trigger;
	struct gate_function *list;
	int nr = ge ? gate_elf__find(ge, escapes[n].function, &list) : 0;
	int i, err = 0;

	for (i = 0; i < nr && !err; i++) {
		char *copy = strdup(path);
		struct evsel *evsel = copy ? gate__new_probe("uprobe", list[i].symbol,
							     /*at_return=*/false, copy,
							     list[i].offset, 0) : NULL;

		trigger = evsel ? gates__add_trigger(gates, escapes[n].function, evsel, NULL) : NULL;
		if (!trigger) {
			free(copy);
			err = -ENOMEM;
			break;
		}
		trigger->path = copy;
		trigger->is_stopper = true;
		trigger->escape = escapes[n].escape;
	}
	if (nr > 0)
		gate_functions__free(list, nr);
	gate_elf__delete(ge);
	return err;
}

static bool gates__have_escape(struct gates *gates, const char *path, const char *function)
{
	struct gate_trigger *trigger;

	list_for_each_entry(trigger, &gates->triggers, node) {
		if (trigger->escape && !strcmp(trigger->name, function) &&
		    !strcmp(trigger->path, path))
			return true;
	}
	return false;
}

/**
 * gates__add_escapes - Prepare to count the calls that leave functions without a return
 * @gates:	All gates
 * @path:	A file that has a function of --inside
 *
 * A program that is linked statically may have such functions itself.
 *
 * Return: 0, or a negative error code.
 */
int gates__add_escapes(struct gates *gates, const char *path)
{
	struct gate_elf *ge = gate_elf__new(path);
	int err = 0;
	size_t i;

	for (i = 0; ge && i < ARRAY_SIZE(escapes) && !err; i++) {
		char *library = gate_elf__find_library(ge, path, escapes[i].library);
		const char *file = library ?: path;

		if (!gates__have_escape(gates, file, escapes[i].function))
			err = gates__add_escape(gates, file, i);
		free(library);
	}
	gate_elf__delete(ge);
	return err;
}
