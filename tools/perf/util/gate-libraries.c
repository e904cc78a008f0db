// SPDX-License-Identifier: GPL-2.0
/*
 * Libraries that a program needs, and whether one of them switches stacks.
 *
 * A function may call a library of coroutines by way of others, so perf looks at each library that
 * the dynamic linker will load with the program: those that it names and those that these name, by
 * the order of ld.so(8). Libraries that a program loads later by dlopen(3) are not known before it
 * runs.
 */
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <fcntl.h>
#include <linux/kernel.h>
#include <linux/string.h>
#include <linux/zalloc.h>

#include "debug.h"
#include "gate-elf.h"

#define LD_CACHE	"/etc/ld.so.cache"
/* No program needs more; it bounds the time that perf spends. */
#define MAX_LIBRARIES	256

/* The libraries of a program, in the order in which they were found */
struct libraries {
	u16	machine;
	int	nr;
	char	*paths[MAX_LIBRARIES];
};

static bool is_library_of(const char *path, u16 machine)
{
	struct gate_elf *ge = gate_elf__new(path);
	bool is = ge && gate_elf__machine(ge) == machine;

	gate_elf__delete(ge);
	return is;
}

/* Find @name in directories that colons separate; $ORIGIN is that of the file which needs it. */
static char *find_in(const char *dirs, const char *name, const char *of, u16 machine)
{
	static const char * const origins[] = { "$ORIGIN", "${ORIGIN}" };
	char *copy = strdup(dirs ?: ""), *next = copy, *dir, *path = NULL;
	int of_len = strrchr(of, '/') ? strrchr(of, '/') - of : 0;

	while (!path && next && (dir = strsep(&next, ":"))) {
		bool is_origin = false;
		unsigned int i;
		int err;

		if (!*dir)
			continue;
		for (i = 0; i < ARRAY_SIZE(origins) && !is_origin; i++) {
			is_origin = strstarts(dir, origins[i]);
			if (is_origin)
				dir += strlen(origins[i]);
		}
		if (is_origin)
			err = asprintf(&path, "%.*s%s/%s", of_len, of, dir, name);
		else
			err = asprintf(&path, "%s/%s", dir, name);
		if (err < 0)
			path = NULL;
		else if (!is_library_of(path, machine))
			zfree(&path);
	}
	free(copy);
	return path;
}

/* The cache of the dynamic linker has the path of each library as a string. */
static char *find_in_cache(const char *name, u16 machine)
{
	int fd = open(LD_CACHE, O_RDONLY | O_CLOEXEC);
	size_t len = strlen(name);
	char *cache = MAP_FAILED, *path = NULL, *p, *start;
	struct stat st;

	if (fd < 0)
		return NULL;
	if (!fstat(fd, &st) && st.st_size)
		cache = mmap(NULL, st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (cache == MAP_FAILED)
		return NULL;
	for (p = cache; !path && (p = memmem(p, cache + st.st_size - p, name, len + 1)); p++) {
		for (start = p; start > cache && start[-1]; start--)
			;
		if (start == p || p[-1] != '/' || *start != '/')
			continue;
		if (is_library_of(start, machine))
			path = strdup(start);
	}
	munmap(cache, st.st_size);
	return path;
}

static char *find_library(struct gate_elf *ge, const char *of, const char *name, u16 machine)
{
	char *path = NULL;

	if (strchr(name, '/'))
		return is_library_of(name, machine) ? strdup(name) : NULL;
	/* DT_RPATH counts only without DT_RUNPATH. */
	if (!gate_elf__dynamic_string(ge, DT_RUNPATH, 0))
		path = find_in(gate_elf__dynamic_string(ge, DT_RPATH, 0), name, of, machine);
	path = path ?: find_in(getenv("LD_LIBRARY_PATH"), name, of, machine);
	path = path ?: find_in(gate_elf__dynamic_string(ge, DT_RUNPATH, 0), name, of, machine);
	path = path ?: find_in_cache(name, machine);
	return path ?: find_in("/lib64:/usr/lib64:/lib:/usr/lib", name, of, machine);
}

/* Add a library, unless it is there already. */
static void add_library(struct libraries *libraries, char *path)
{
	char *real = path ? realpath(path, NULL) : NULL;
	int i;

	free(path);
	for (i = 0; real && i < libraries->nr; i++) {
		if (!strcmp(libraries->paths[i], real))
			break;
	}
	if (real && i == libraries->nr && i < MAX_LIBRARIES)
		libraries->paths[libraries->nr++] = real;
	else
		free(real);
}

static void add_needed(struct libraries *libraries, struct gate_elf *ge, const char *of)
{
	const char *name;
	char *path;
	int i;

	for (i = 0; (name = gate_elf__dynamic_string(ge, DT_NEEDED, i)); i++) {
		path = find_library(ge, of, name, libraries->machine);
		if (!path)
			pr_debug("%s needs %s, which perf does not find\n", of, name);
		add_library(libraries, path);
	}
}

static void add_preloaded(struct libraries *libraries, struct gate_elf *ge, const char *of)
{
	char *names = strdup(getenv("LD_PRELOAD") ?: ""), *next = names, *name;

	while (next && (name = strsep(&next, ": "))) {
		if (*name)
			add_library(libraries, find_library(ge, of, name, libraries->machine));
	}
	free(names);
}

/**
 * gate_elf__find_library - Find the library that the dynamic linker would load
 * @ge:		The program or library that needs it
 * @of:		Its path
 * @name:	Name of the library
 *
 * Return: its path, for the caller to free; NULL if there is none.
 */
char *gate_elf__find_library(struct gate_elf *ge, const char *of, const char *name)
{
	return find_library(ge, of, name, gate_elf__machine(ge));
}

/**
 * gate_elf__visit_libraries - Visit each library that a program is loaded with
 * @ge:		The program, or the library that has the function
 * @path:	Its path
 * @visit:	Called for each library until it returns other than 0
 * @data:	For @visit
 *
 * Return: what @visit has returned last, or 0 if there are no libraries.
 */
int gate_elf__visit_libraries(struct gate_elf *ge, const char *path,
			      int (*visit)(struct gate_elf *library, const char *path, void *data),
			      void *data)
{
	struct libraries libraries = { .machine = gate_elf__machine(ge) };
	char *real = realpath(path, NULL);
	int i, ret = 0;

	if (gate_elf__dynamic_string(ge, DT_NEEDED, 0)) {
		add_preloaded(&libraries, ge, real ?: path);
		add_needed(&libraries, ge, real ?: path);
	}
	for (i = 0; i < libraries.nr && !ret; i++) {
		struct gate_elf *library = gate_elf__new(libraries.paths[i]);

		if (!library)
			continue;
		ret = visit(library, libraries.paths[i], data);
		add_needed(&libraries, library, libraries.paths[i]);
		gate_elf__delete(library);
	}
	for (i = 0; i < libraries.nr; i++)
		free(libraries.paths[i]);
	free(real);
	return ret;
}

static int find_switches(struct gate_elf *library, const char *path, void *data)
{
	const char *switches = gate_elf__switches_contexts(library, /*is_needed=*/true);
	char **found = data;

	if (switches && asprintf(found, "%s (%s)", path, switches) < 0)
		*found = NULL;
	return !!*found;
}

/**
 * gate_elf__library_switches - Find a library of a program that lets contexts take turns
 * @ge:		The program, or the library that has the function
 * @path:	Its path
 *
 * Return: the path of the library and, in parentheses, what switches, for the caller to free;
 * NULL if there is none.
 */
char *gate_elf__library_switches(struct gate_elf *ge, const char *path)
{
	char *found = NULL;

	gate_elf__visit_libraries(ge, path, find_switches, &found);
	return found;
}
