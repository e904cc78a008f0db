// SPDX-License-Identifier: GPL-2.0
/*
 * Functions by which a thread leaves another function without a return, or goes on with another
 * context.
 *
 * Entries and returns may pair although a window has counted something else: the thread took
 * turns with another context and came back, or a new process left the function by longjmp() or by
 * an exception, and executed a program, which ended the window. So perf counts the calls of such
 * functions. A library that the program loads by dlopen(3) calls those of libc and of libgcc_s,
 * too. perf looks for the functions in the program, in the libraries that it needs, in libgcc_s
 * and in what a running process has mapped.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>
#include <linux/kernel.h>
#include <linux/zalloc.h>

#include "debug.h"
#include "evsel.h"
#include "gate.h"
#include "gate-elf.h"
#include "target.h"

static const struct {
	const char	*name;
	bool		switches;
} escapes[] = {
	{ "setcontext",			true },
	{ "swapcontext",		true },
	{ "longjmp",			false },
	{ "__longjmp_chk",		false },
	{ "_Unwind_RaiseException",	false },
	{ "_Unwind_Resume_or_Rethrow",	false },
};

/* The file that is searched for such functions */
struct search {
	struct gates	*gates;
	const char	*path;
};

static int gates__add_escape(struct gates *gates, const char *path, u64 offset, int n)
{
	struct gate_escape *escape;

	list_for_each_entry(escape, &gates->escapes, node) {
		/* The function has several symbols. */
		if (escape->offset == offset && !strcmp(escape->path, path))
			return 0;
	}
	escape = zalloc(sizeof(*escape));
	if (!escape)
		return -ENOMEM;
	escape->path = strdup(path);
	if (!escape->path) {
		free(escape);
		return -ENOMEM;
	}
	escape->name = escapes[n].name;
	escape->switches = escapes[n].switches;
	escape->offset = offset;
	list_add_tail(&escape->node, &gates->escapes);
	return 0;
}

static int visit_function(const char *symbol, u64 offset, void *data)
{
	struct search *search = data;
	/* A library appends the version of its interface. */
	size_t len = strcspn(symbol, "@");
	unsigned int n;

	for (n = 0; n < ARRAY_SIZE(escapes); n++) {
		if (strlen(escapes[n].name) == len && !strncmp(symbol, escapes[n].name, len))
			return gates__add_escape(search->gates, search->path, offset, n);
	}
	return 0;
}

/* Remember a file. Return 1 if it is not new, or cannot be read. */
static int gates__add_file(struct gates *gates, const char *path)
{
	struct gate_file *files;
	struct stat st;
	int i;

	if (stat(path, &st))
		return 1;
	for (i = 0; i < gates->nr_files; i++) {
		if (gates->files[i].dev == st.st_dev && gates->files[i].ino == st.st_ino)
			return 1;
	}
	files = reallocarray(gates->files, gates->nr_files + 1, sizeof(*files));
	if (!files)
		return -ENOMEM;
	files[gates->nr_files].dev = st.st_dev;
	files[gates->nr_files++].ino = st.st_ino;
	gates->files = files;
	return 0;
}

static int visit_library(struct gate_elf *ge, const char *path, void *data)
{
	struct search search = { .gates = data, .path = path };
	int err = gates__add_file(search.gates, path);

	return err ? min(err, 0) : gate_elf__visit_functions(ge, visit_function, &search);
}

/* Visit a program, and the libraries that it needs or is likely to load. */
static int visit_program(struct gates *gates, const char *path)
{
	struct gate_elf *ge = gate_elf__new(path), *unwinder = NULL;
	char *library;
	int err;

	if (!ge)
		return 0;
	err = visit_library(ge, path, gates);
	err = err ?: gate_elf__visit_libraries(ge, path, visit_library, gates);
	/* A library of C++ that the program loads needs it. */
	library = gate_elf__find_library(ge, path, "libgcc_s.so.1");
	if (!err && library)
		unwinder = gate_elf__new(library);
	if (unwinder)
		err = visit_library(unwinder, library, gates);
	gate_elf__delete(unwinder);
	free(library);
	gate_elf__delete(ge);
	return err;
}

/* Open a file that a task has mapped, which may be gone, or have another path for perf. */
static char *mapped_path(const char *task, const char *name, u64 start, u64 end)
{
	char *path;

	if (asprintf(&path, "/proc/%s/root%s", task, name) < 0)
		return NULL;
	if (!access(path, R_OK))
		return path;
	free(path);
	if (!access(name, R_OK))
		return strdup(name);
	if (asprintf(&path, "/proc/%s/map_files/%" PRIx64 "-%" PRIx64, task, start, end) < 0)
		return NULL;
	return path;
}

static int visit_mapped_file(struct gates *gates, const char *path, const char *name)
{
	struct gate_elf *ge;
	int err;

	if (access(path, R_OK)) {
		pr_warning("Cannot read %s: %m. Counts that calls of its functions make wrong will not be marked.\n",
			   name);
		return 0;
	}
	ge = gate_elf__new(path);
	err = ge ? visit_library(ge, path, gates) : 0;
	gate_elf__delete(ge);
	return err;
}

/* Visit what a process has mapped as code. */
static int visit_process(struct gates *gates, const char *task)
{
	char maps[64], perms[5], *line = NULL, *path;
	size_t size = 0;
	int name, err = 0;
	u64 start, end;
	FILE *file;

	snprintf(maps, sizeof(maps), "/proc/%s/maps", task);
	file = fopen(maps, "r");
	if (!file) {
		pr_warning("Cannot read %s: %m. Counts that longjmp() or swapcontext() make wrong will not be\n"
			   "marked.\n", maps);
		return 0;
	}
	while (!err && getline(&line, &size, file) > 0) {
		line[strcspn(line, "\n")] = '\0';
		name = 0;
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %*s %*s %*s %n", &start, &end, perms,
			   &name) != 3 || !name || perms[2] != 'x' || line[name] != '/')
			continue;
		path = mapped_path(task, line + name, start, end);
		err = path ? visit_mapped_file(gates, path, line + name) : -ENOMEM;
		free(path);
	}
	free(line);
	fclose(file);
	return err;
}

/**
 * gates__find_escapes - Find the functions by which threads leave others without a return
 * @gates:	All gates
 * @path:	The file that has the function of one of them
 * @target:	The target to measure
 * @program:	The program that perf will start, or NULL
 *
 * Return: 0, or -ENOMEM.
 */
int gates__find_escapes(struct gates *gates, const char *path, struct target *target,
			const char *program)
{
	const char *tasks = target->pid ?: target->tid;
	char *copy, *next, *task;
	int err = 0;

	/* There are no guards. */
	if (target__has_cpu(target))
		return 0;

	if (!tasks) {
		err = visit_program(gates, path);
		if (!err && program)
			err = visit_program(gates, program);
		return err;
	}
	copy = strdup(tasks);
	if (!copy)
		return -ENOMEM;
	next = copy;
	while (!err && (task = strsep(&next, ",")))
		err = visit_process(gates, task);
	free(copy);
	return err;
}
