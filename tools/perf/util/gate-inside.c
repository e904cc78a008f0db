// SPDX-License-Identifier: GPL-2.0
/*
 * --inside WHERE: events for the entry and the returns of a function or a system
 * call.
 *
 * Functions need neither tracefs nor perf probe: a probe of the uprobe or kprobe PMU
 * ends with its descriptor, however perf ends.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>
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
#include "gate-elf.h"
#include "perf-sys.h"
#include "pmu.h"
#include "pmus.h"
#include "target.h"

/**
 * gate__new_probe - Create an event for an entry or a return
 * @pmu_name:		"uprobe" or "kprobe"
 * @name:		Name of the event in messages
 * @at_return:		Probe the return from the function that begins at @offset
 * @where:		The path of the file, or the function of the kernel; not
 *		copied
 * @offset:		Offset in the file or function
 * @ref_ctr_offset:	The semaphore of a marker, or 0
 *
 * Return: the event, or NULL after a message.
 */
struct evsel *gate__new_probe(const char *pmu_name, const char *name, bool at_return,
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

/**
 * gate__can_probe - Tell whether the kernel can probe an instruction
 * @evsel:	The event of the probe
 * @path:	The file
 * @offset:	Offset of the instruction in it
 *
 * The kernel checks a probed instruction when a process maps it, and skips the probe if it
 * cannot step over the instruction. So map the code here, where this is an error.
 *
 * Return: true if it can, or if perf cannot find out.
 */
bool gate__can_probe(struct evsel *evsel, const char *path, u64 offset)
{
	struct perf_event_attr attr = evsel->core.attr;
	size_t page = sysconf(_SC_PAGESIZE);
	void *code = MAP_FAILED;
	bool can = true;
	int fd;

	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		/* An instruction may continue on the next page. */
		code = mmap(NULL, 2 * page, PROT_READ, MAP_PRIVATE, fd, offset & ~(page - 1));
		close(fd);
	}
	if (code == MAP_FAILED)
		return true;
	attr.disabled = 1;
	fd = sys_perf_event_open(&attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	if (fd >= 0)
		close(fd);
	else
		can = errno != EINVAL && errno != 524 /* ENOTSUPP */;
	munmap(code, 2 * page);
	return can;
}

/**
 * gate__add_probe - Let a probe of a program move a gate
 * @gates:	All gates
 * @gate:	The gate
 * @name:	Name of the probe in messages
 * @path:	The program, which is copied
 * @offset:	The place in the file
 * @is_starter:	The probe opens the gate; otherwise, it closes it
 * @at_return:	Probe the return, by its address, from the function that begins there
 *
 * Return: 0, or a negative error code, for -EINVAL after a message.
 */
int gate__add_probe(struct gates *gates, struct gate *gate, const char *name,
		    const char *path, u64 offset, bool is_starter, bool at_return)
{
	struct gate_trigger *trigger;
	char *copy = strdup(path);
	struct evsel *evsel;

	if (!copy)
		return -ENOMEM;
	evsel = gate__new_probe("uprobe", name, at_return, copy, offset, 0);
	if (evsel && !gate__can_probe(evsel, path, offset)) {
		pr_err("--inside: the kernel cannot probe the instruction of %s at offset %#" PRIx64 " of %s.\n"
		       "Take a function that calls it or that it calls, or FILE:LINE-LINE.\n", name, offset, path);
		evsel__delete(evsel);
		evsel = NULL;
	}
	trigger = evsel ? gates__add_trigger(gates, evsel->name ?: name, evsel, NULL) : NULL;
	if (!trigger) {
		free(copy);
		return -EINVAL;
	}
	trigger->path = copy;
	return is_starter ? gate__add_starter(gate, trigger) : gate__add_stopper(gate, trigger);
}

/* Find the file that execvp() would execute. */
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
/* Add the events of one copy of the function. */
static int gate__add_function(struct gates *gates, struct gate *gate, const char *path,
			      const struct gate_function *function, bool by_return_address)
{
	char name[128];
	int err, i;

	err = gate__add_probe(gates, gate, function->name, path, function->offset,
			      /*is_starter=*/true, /*at_return=*/false);
	if (err)
		return err;
	if (by_return_address)
		return gate__add_probe(gates, gate, function->name, path, function->offset,
				       /*is_starter=*/false, /*at_return=*/true);
	for (i = 0; i < function->nr_returns && !err; i++) {
		snprintf(name, sizeof(name), "%s+%#" PRIx64, function->name,
			 function->returns[i] - function->offset);
		err = gate__add_probe(gates, gate, name, path, function->returns[i],
				      /*is_starter=*/false, /*at_return=*/false);
	}
	return err;
}

static void tell_functions(const struct gate_function *list, int nr)
{
	int i;

	for (i = 0; i < nr; i++)
		pr_err("  %#" PRIx64 " %s%s%s\n", list[i].start, list[i].name,
		       list[i].file ? " of " : "", list[i].file ?: "");
}

/* Find out if functions of one name are different functions, and refuse them then. */
static int gate__refuse_ambiguous(struct gates *gates, struct gate_elf *ge, const char *function,
				  const char *path, const struct gate_function *list, int nr)
{
	int i;

	if (nr <= 1 || gate_functions__are_copies(ge, list, nr) ||
	    gate_places__are_copies(path, function, list, nr))
		return 0;
	/* --inside-lax accepts possible copies, if symbols do not tell their file. */
	for (i = 0; gates->lax && i < nr && strcspn(list[i].symbol, ".@") ==
	     strcspn(list[0].symbol, ".@") && !strchr(list[i].symbol, '@') &&
	     (list[i].symbol[strcspn(list[i].symbol, ".")] || !list[i].unit); i++)
		;
	if (gates->lax && i == nr) {
		pr_info("Note: all functions that may be copies of %s are taken.\n", function);
		return 0;
	}
	pr_err("--inside: %s names %d functions of %s, which may differ:\n", function, nr, path);
	tell_functions(list, nr);
	pr_err("Name one of them: a function of C++ with its arguments, a static function of C with its file,\n"
	       "'%.*s@file.c', or any by its address, --inside %#" PRIx64 "; or several, with an --inside for\n"
	       "each. If the program is built with -g, perf can tell copies of one function.\n",
	       (int)strcspn(function, "@"), function, list[0].start);
	return -EINVAL;
}

static void tell_not_found(struct gate_elf *ge, const char *function, const char *path)
{
	char *near, *similar[8];
	bool is_near = false;
	int nr, i;

	if (!gate_elf__has_symbols(ge)) {
		pr_err("--inside: %s has no symbols: it is stripped. Use one that is not, or set probes by\n"
		       "address, perf probe -x %s in=0x..., for --gate-on and --gate-off.\n", path, path);
		return;
	}
	nr = gate_elf__similar(ge, function, similar, ARRAY_SIZE(similar));
	if (gate_elf__has_ifunc(ge, function)) {
		pr_err("--inside: the processor determines which code %s of %s is. Name that code%s\n",
		       function, path, nr ? ", perhaps" : ".");
	} else {
		pr_err("--inside: no function %s in %s. For a function of a library: LIBRARY:%s\n",
		       function, path, function);
		near = gate_elf__near(ge, function);
		if (near)
			pr_err("Did you mean %s?\n", near);
		else if (nr)
			pr_err("Functions whose name has that in it:\n");
		else
			pr_err("If the compiler has inlined it, no function of this name is left: name its caller.\n");
		is_near = near;
		free(near);
	}
	for (i = 0; i < nr; i++) {
		if (!is_near)
			pr_err("  %s\n", similar[i]);
		free(similar[i]);
	}
}

/* Tell the user about peculiarities of a function. */
static void tell_peculiar(struct gate_elf *ge, const struct gate_function *function)
{
	static const char * const coroutines[] = { ".actor", ".resume", ".destroy", ".cleanup" };
	const char *other = gate_elf__alias_of(ge, function);
	unsigned int i;

	if (other)
		pr_info("Note: %s and %s are the same code, so calls of both are counted.\n", function->name,
			other);
	for (i = 0; i < ARRAY_SIZE(coroutines); i++) {
		if (strstr(function->symbol, coroutines[i])) {
			pr_info("Note: %s is a coroutine: a window ends where it is suspended.\n",
				function->name);
			return;
		}
	}
}

/* A uretprobe can kill a program that unwinds its stack, so warn. */
static void warn_return_address(struct gate_elf *ge, const struct gate_function *function,
				const char *path)
{
	if (gate_elf__has_section(ge, ".gcc_except_table") ||
	    gate_elf__has_section(ge, ".rustc"))
		pr_warning("Note: the code of %s does not show its returns, so a uretprobe replaces its return\n"
			   "address: an exception or panic that leaves it ends %s.\n", function->name, path);
}

static int gate__set_functions(struct gates *gates, struct gate *gate, struct gate_elf *ge,
			       const char *path, struct gate_function *list, int nr)
{
	int err, i;

	for (i = 0; i < nr; i++) {
		if (gate_elf__find_returns(ge, &list[i]))
			gate->by_return_address = true;
	}
	for (i = 0; i < nr; i++) {
		if (list[i].is_first) {
			pr_err("--inside: the kernel begins the program with %s, which never returns. Use main.\n",
			       list[i].name);
			return -EINVAL;
		}
		tell_peculiar(ge, &list[i]);
		if (gate->by_return_address) {
			warn_return_address(ge, &list[i], path);
		} else if (!list[i].nr_returns) {
			pr_err("--inside: %s never returns, so nothing ends a window. Set a probe there, perf probe -x %s %s,\n"
			       "and count from it on with --gate-on.\n", list[i].name, path, list[i].name);
			return -EINVAL;
		}
		err = gate__add_function(gates, gate, path, &list[i], gate->by_return_address);
		if (err == -ENOSPC)
			pr_err("--inside: the compiler has made more copies of %s than a gate has room for\n",
			       list[i].name);
		if (err)
			return err;
	}
	gate->nest = true;
	return 0;
}

static bool is_function_name(const char *function)
{
	/* C++ names may contain any character, as in operator+. */
	return *function && *function != '+' && *function != '@' &&
	       (strstr(function, "::") || strchr(function, '(') ||
		!strpbrk(function, "+%;=* \t"));
}

static int gate__set_function(struct gates *gates, struct gate *gate, const char *path,
			      const char *function)
{
	struct gate_function *list = NULL;
	struct gate_elf *ge;
	int err = -EINVAL, nr;

	if (!is_function_name(function)) {
		pr_err("--inside: %s is not the name of a function\n", function);
		return -EINVAL;
	}
	ge = gate_elf__new(path);
	if (!ge) {
		pr_err("--inside: %s is not a program. If it is a script, name its interpreter:\n"
		       "--inside INTERPRETER:%s\n", path, function);
		return -EINVAL;
	}
	nr = gate_elf__find(ge, function, &list);
	if (nr > 0 && !strchr(list[0].symbol, '.') && gate_elf__has_ifunc(ge, function)) {
		/* The name is that of an ifunc; only an old version of it was found. */
		tell_not_found(ge, function, path);
	} else if (nr < 0) {
		err = nr;
	} else if (!nr) {
		err = gate__set_inlined(gates, gate, ge, path, function, NULL, 0);
		if (!err) {
			tell_not_found(ge, function, path);
			err = -EINVAL;
		}
	} else if (!gate__refuse_ambiguous(gates, ge, function, path, list, nr) &&
		   !gate__refuse_go(gates, ge, function, path)) {
		gate->function = strdup(function);
		gate->ends_with_program = !strcmp(function, "main");
		err = gate->function ?
		      gate__set_functions(gates, gate, ge, path, list, nr) : -ENOMEM;
		if (!err)
			err = gate__set_inlined(gates, gate, ge, path, function, list, nr);
	}
	gate_functions__free(list, max(nr, 0));
	gate_elf__delete(ge);
	return min(err, 0);
}
#else
int gates__find_escapes(struct gates *gates __maybe_unused, const char *path __maybe_unused,
			struct target *target __maybe_unused, const char *program __maybe_unused)
{
	return 0;
}

static int gate__set_function(struct gates *gates __maybe_unused, struct gate *gate __maybe_unused,
			      const char *path __maybe_unused, const char *function __maybe_unused)
{
	pr_err("--inside: perf was built without libelf, and cannot find functions\n");
	return -EINVAL;
}
#endif

static int gate__set_syscall(struct evlist *evlist, struct gate *gate, const char *syscall)
{
	/* They have an event at their end, which never happens. */
	static const char * const endless[] = { "exit", "exit_group", "rt_sigreturn", "sigreturn" };
	static const char * const ends[] = { "enter", "exit" };
	struct gate_trigger *trigger;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(endless); i++) {
		if (strcmp(syscall, endless[i]))
			continue;
		pr_err("--inside: the system call %s() does not return, so nothing ends a window. Count from it on with\n"
		       "--gate-on syscalls:sys_enter_%s.\n", syscall, syscall);
		return -EINVAL;
	}
	for (i = 0; i < ARRAY_SIZE(ends); i++) {
		char *name;

		if (asprintf(&name, "syscalls:sys_%s_%s", ends[i], syscall) < 0)
			return -ENOMEM;
		trigger = evlist__gate_trigger(evlist, name, "--inside");
		free(name);
		if (!trigger)
			return -EINVAL;
		if (i)
			gate__add_stopper(gate, trigger);
		else
			gate__add_starter(gate, trigger);
	}
	return 0;
}

/* Find the colon between file and function; skip the double colons of C++. */
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
		/* Use the file of the process itself, which may have another root than perf. */
		if (asprintf(&name, "/proc/%s/exe", target->pid) < 0)
			return NULL;
		path = access(name, R_OK) ? NULL : strdup(name);
		if (!path)
			pr_err("--inside: cannot find the program of process %s: %m\n", target->pid);
	} else {
		pr_err("--inside: name the program of the function: PROGRAM:%s\n", inside);
	}
	free(name);
	return path;
}

/**
 * gate__set_inside - Set the triggers of a gate for --inside
 * @evlist:	List whose gate it is
 * @gate:	The gate, which has no events yet
 * @inside:	[PATH:]FUNCTION, [PATH:]FILE:LINE-LINE, [PATH:]mark:NAME, kernel:FUNCTION or
 *		syscalls:NAME
 * @target:	The target to measure
 * @program:	The program that perf will start, or NULL
 *
 * Return: 0, or a negative error code after a message.
 */
int gate__set_inside(struct evlist *evlist, struct gate *gate, const char *inside,
		     struct target *target, const char *program)
{
	const char *colon = find_colon(inside), *name;
	int first, last, err;
	size_t len;
	char *path;

	if (asprintf(&gate->where, "inside of %s", inside) < 0) {
		gate->where = NULL;
		return -ENOMEM;
	}

	if (strstarts(inside, "syscalls:") && !strstarts(inside, "syscalls::"))
		return gate__set_syscall(evlist, gate, inside + strlen("syscalls:"));
	/* kernel::parse is a C++ name. */
	if (strstarts(inside, "kernel:") && !strstarts(inside, "kernel::")) {
		err = gate__set_kernel_function(evlist__gates(evlist), gate, inside,
						inside + strlen("kernel:"));
		return err ?: gate__set_leaver(evlist__gates(evlist), gate, target);
	}

	/* The first colon may be that of mark:NAME, or of FILE:LINE-LINE. */
	len = gate_lines__parse(inside, &first, &last);
	if (strstarts(inside, "mark:") || (len && colon == inside + len))
		colon = NULL;
	name = colon ? colon + 1 : inside;
	if (len && !last) {
		pr_err("--inside %s: say which lines, such as %s-%d\n", inside, name, first + 1);
		return -EINVAL;
	}

	path = find_file(inside, colon, target, program);
	if (!path)
		return -EINVAL;
	if (strstarts(name, "mark:")) {
		err = gate__set_mark(evlist__gates(evlist), gate, path, name + strlen("mark:"));
	} else if (len) {
		char *file = strndup(name, inside + len - name);

		err = file ? gate__set_lines(evlist__gates(evlist), gate, path, file, first, last) : -ENOMEM;
		free(file);
	} else {
		err = gate__set_function(evlist__gates(evlist), gate, path, name);
	}
	if (!err && !evlist__gates(evlist)->lax && !gate->ends_with_program) {
		char *started = target__none(target) && program ? find_program(program) : NULL;

		err = gates__find_escapes(evlist__gates(evlist), path, target, started);
		free(started);
	}
	free(path);
	return err ?: gate__set_leaver(evlist__gates(evlist), gate, target);
}
