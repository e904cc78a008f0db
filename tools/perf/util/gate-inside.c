// SPDX-License-Identifier: GPL-2.0
/*
 * --inside WHERE: the two events that begin and end a function or a system call.
 *
 * Functions need neither tracefs nor perf probe: an event of the uprobe or kprobe PMU
 * is gone with its descriptor, however perf ends.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>
#include <linux/kernel.h>
#include <linux/perf_event.h>
#include <linux/string.h>
#include <linux/zalloc.h>
#include <subcmd/parse-options.h>

#include "debug.h"
#include "evlist.h"
#include "evsel.h"
#include "gate.h"
#include "pmu.h"
#include "pmus.h"
#include "probe-event.h"
#include "target.h"

static struct evsel *new_probe(const char *pmu_name, const char *name, bool at_return,
			       const char *where, u64 offset, u64 ref_ctr_offset)
{
	struct perf_pmu *pmu = perf_pmus__find(pmu_name);
	struct perf_event_attr attr = {
		.size		= sizeof(attr),
		.config		= at_return | ref_ctr_offset << 32,
		.uprobe_path	= (uintptr_t)where,
		.probe_offset	= offset,
	};
	struct evsel *evsel;

	if (!pmu) {
		pr_err("--inside: the kernel has no %ss (CONFIG_%s_EVENTS)\n", pmu_name,
		       pmu_name[0] == 'u' ? "UPROBE" : "KPROBE");
		return NULL;
	}
	attr.type = pmu->type;
	evsel = evsel__new(&attr);
	if (evsel && asprintf(&evsel->name, "%s%s", name, at_return ? "%return" : "") < 0)
		evsel->name = NULL;
	return evsel;
}

/* Entry and return of what is at @offset of the file @where, or of the kernel's function @where. */
static int gate__set_probes(struct gates *gates, struct gate *gate, const char *pmu_name,
			    const char *name, const char *where, u64 offset, u64 ref_ctr_offset)
{
	struct gate_trigger **triggers[] = { &gate->on, &gate->off };
	char *path = strdup(where);
	unsigned int i;

	if (!path)
		return -ENOMEM;

	for (i = 0; i < ARRAY_SIZE(triggers); i++) {
		struct evsel *evsel = new_probe(pmu_name, name, i, path, offset, ref_ctr_offset);

		if (evsel)
			*triggers[i] = gates__add_trigger(gates, evsel->name ?: name, evsel, NULL);
		if (!*triggers[i]) {
			if (!i)
				free(path);
			return -EINVAL;
		}
		/* The other points to it as well, and goes at the same time. */
		if (!i)
			gate->on->path = path;
	}
	gate->nest = true;
	return 0;
}

/* The file that execvp() would take. */
static char *find_program(const char *name)
{
	char *found = NULL, *dirs, *dir, *next;
	struct stat st;

	if (strchr(name, '/'))
		return realpath(name, NULL);

	dirs = strdup(getenv("PATH") ?: "/usr/local/bin:/bin:/usr/bin");
	for (next = dirs; !found && next && (dir = strsep(&next, ":"));) {
		char *full;

		if (asprintf(&full, "%s/%s", *dir ? dir : ".", name) < 0)
			break;
		if (!stat(full, &st) && S_ISREG(st.st_mode) && !access(full, X_OK))
			found = realpath(full, NULL);
		free(full);
	}
	free(dirs);
	return found;
}

#ifdef HAVE_LIBELF_SUPPORT
static int gate__set_function(struct gates *gates, struct gate *gate, const char *path,
			      const char *function)
{
	struct perf_probe_event pev = { .uprobes = true };
	int err = -EINVAL, i;

	if (init_probe_symbol_maps(/*user_only=*/true) < 0)
		return -EINVAL;
	/* More than one is too many, but all are shown. */
	if (!probe_conf.max_probes)
		probe_conf.max_probes = 128;

	pev.target = strdup(path);
	if (!pev.target || parse_perf_probe_command(function, &pev) < 0)
		goto out;
	if (!pev.point.function || pev.point.offset || pev.point.line || pev.point.retprobe ||
	    pev.point.lazy_line || pev.nargs) {
		pr_err("--inside: %s is not the name of a function\n", function);
		goto out;
	}
	if (convert_perf_probe_events(&pev, 1) < 0 || pev.ntevs < 1) {
		pr_err("--inside: no function %s in %s. If it is one of a library, say so: LIBRARY:%s\n",
		       function, path, function);
		goto out;
	}
	if (pev.ntevs > 1) {
		pr_err("--inside: %s is at %d places of %s:\n", function, pev.ntevs, path);
		for (i = 0; i < pev.ntevs; i++)
			pr_err("  %#" PRIx64 "\n", (u64)pev.tevs[i].point.address);
		pr_err("Make one event of them:\n"
		       "  perf probe -x %s in=%s; perf probe -x %s out=%s%%return\n"
		       "and give these two to --gate-on and --gate-off.\n",
		       path, function, path, function);
		goto out;
	}
	err = gate__set_probes(gates, gate, "uprobe", function, path, pev.tevs[0].point.address,
			       pev.tevs[0].point.ref_ctr_offset);
out:
	cleanup_perf_probe_events(&pev, 1);
	return err;
}
#else
static int gate__set_function(struct gates *gates __maybe_unused, struct gate *gate __maybe_unused,
			      const char *path __maybe_unused, const char *function __maybe_unused)
{
	pr_err("--inside: perf was built without libelf, and cannot find functions\n");
	return -EINVAL;
}
#endif

static int gate__set_syscall(struct evlist *evlist, struct gate *gate, const char *syscall)
{
	struct gate_trigger **triggers[] = { &gate->on, &gate->off };
	static const char * const ends[] = { "enter", "exit" };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(triggers); i++) {
		char *name;

		if (asprintf(&name, "syscalls:sys_%s_%s", ends[i], syscall) < 0)
			return -ENOMEM;
		*triggers[i] = evlist__gate_trigger(evlist, name, "--inside");
		free(name);
		if (!*triggers[i])
			return -EINVAL;
	}
	return 0;
}

/* The colon between file and function. Those of C++ come in pairs. */
static const char *find_colon(const char *inside)
{
	const char *p;

	for (p = inside; (p = strchr(p, ':')); p += 2) {
		if (p[1] != ':')
			return p;
	}
	return NULL;
}

static char *find_file(const char *inside, const char *colon, struct target *target,
		       const char *program)
{
	char *name = NULL, *path = NULL;

	if (colon) {
		name = strndup(inside, colon - inside);
		path = name ? find_program(name) : NULL;
		if (!path)
			pr_err("--inside: no file %s\n", name);
	} else if (target__none(target) && program) {
		path = find_program(program);
		if (!path)
			pr_err("--inside: no program %s\n", program);
	} else if (target->pid && !strchr(target->pid, ',')) {
		if (asprintf(&name, "/proc/%s/exe", target->pid) < 0)
			return NULL;
		path = realpath(name, NULL);
		if (!path)
			pr_err("--inside: cannot tell the program of process %s: %m\n", target->pid);
	} else {
		pr_err("--inside: a function of which program? Say PROGRAM:%s\n", inside);
	}
	free(name);
	return path;
}

/**
 * gate__set_inside - Find what opens and closes a gate
 * @evlist:	Whose gate it is
 * @gate:	The gate, which has no events yet
 * @inside:	[PATH:]FUNCTION, kernel:FUNCTION or syscalls:NAME
 * @target:	What is measured
 * @program:	The program that perf will start, or NULL
 *
 * Return: 0, or a negative error code after a message.
 */
int gate__set_inside(struct evlist *evlist, struct gate *gate, const char *inside,
		     struct target *target, const char *program)
{
	const char *colon = find_colon(inside);
	char *path;
	int err;

	if (asprintf(&gate->where, "inside of %s", inside) < 0) {
		gate->where = NULL;
		return -ENOMEM;
	}

	if (strstarts(inside, "syscalls:"))
		return gate__set_syscall(evlist, gate, colon + 1);
	if (strstarts(inside, "kernel:"))
		return gate__set_probes(evlist->gates, gate, "kprobe", inside, colon + 1, 0, 0);

	path = find_file(inside, colon, target, program);
	if (!path)
		return -EINVAL;
	err = gate__set_function(evlist->gates, gate, path, colon ? colon + 1 : inside);
	free(path);
	return err;
}
