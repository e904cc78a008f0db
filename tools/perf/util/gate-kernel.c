// SPDX-License-Identifier: GPL-2.0
/*
 * --inside kernel:FUNCTION: entry and return of a function of the kernel.
 *
 * A kretprobe follows a limited number of concurrent calls, which is set when it is
 * created. The kprobe PMU cannot set that number, so returns are lost if tens of threads
 * sleep in the function. tracefs can: perf creates the probe of the return there, under a
 * name of its own, and removes it at the end. If perf was killed, the next perf removes the
 * probe.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/stat.h>
#include <api/fs/tracing_path.h>
#include <linux/kernel.h>
#include <linux/perf_event.h>
#include <linux/string.h>
#include <linux/zalloc.h>

#include "debug.h"
#include "evsel.h"
#include "gate.h"

/* Maximum that the kernel accepts. */
#define MAX_ACTIVE	4096
#define GROUP		"perf_gate"

/* A function of the kernel or of a module */
struct kernel_function {
	u64	address;
	char	*symbol;
	/* "[MODULE]" or "" */
	char	*module;
};

/* How a symbol relates to the function: it is the function or a copy, or a part called alone */
enum match {
	MATCH_NONE,
	MATCH_FUNCTION,
	MATCH_PART,
};

static enum match match_symbol(const char *symbol, const char *function)
{
	size_t len = strlen(function);

	if (strncmp(symbol, function, len) || strstr(symbol + len, ".cold"))
		return MATCH_NONE;
	if (!symbol[len])
		return MATCH_FUNCTION;
	if (symbol[len] != '.')
		return MATCH_NONE;
	return strstr(symbol + len, ".part.") ? MATCH_PART : MATCH_FUNCTION;
}

static int add_function(struct kernel_function **list, int *nr, u64 address, const char *symbol,
			const char *module)
{
	struct kernel_function *new;
	int i;

	/* Several symbols may have one address, which is 0 for users without privileges. */
	for (i = 0; address && i < *nr; i++) {
		if ((*list)[i].address == address)
			return 0;
	}
	new = reallocarray(*list, *nr + 1, sizeof(*new));
	if (!new)
		return -ENOMEM;
	*list = new;
	new += (*nr)++;
	new->address = address;
	new->symbol = strdup(symbol);
	new->module = strdup(module);
	return new->symbol && new->module ? 0 : -ENOMEM;
}

static void free_functions(struct kernel_function *list, int nr)
{
	int i;

	for (i = 0; i < nr; i++) {
		free(list[i].symbol);
		free(list[i].module);
	}
	free(list);
}

/*
 * Find all functions that a name or an address may mean, and one part that the compiler has
 * split off from such a function. Return the number of functions, or -ENODATA if there are
 * no symbols.
 */
static int find_functions(const char *function, struct kernel_function **list, char **part)
{
	FILE *file = fopen("/proc/kallsyms", "r");
	bool by_address = strstarts(function, "0x");
	u64 wanted = by_address ? strtoull(function, NULL, 16) : 0;
	int nr = 0, err = 0;
	char *line = NULL;
	size_t size = 0;
	bool any = false;

	*list = NULL;
	*part = NULL;
	while (file && !err && getline(&line, &size, file) > 0) {
		char type, symbol[512], module[64] = "";
		enum match match;
		u64 address;

		if (sscanf(line, "%" SCNx64 " %c %511s %63s",
			   &address, &type, symbol, module) < 3 || !strchr("tTwW", type))
			continue;
		any = true;
		if (by_address)
			match = address == wanted ? MATCH_FUNCTION : MATCH_NONE;
		else
			match = match_symbol(symbol, function);
		if (match == MATCH_FUNCTION)
			err = add_function(list, &nr, address, symbol, module);
		else if (match == MATCH_PART && !*part)
			*part = strdup(symbol);
	}
	free(line);
	if (file)
		fclose(file);
	if (err || !any) {
		free_functions(*list, nr);
		*list = NULL;
		return err ?: -ENODATA;
	}
	return nr;
}

/*
 * Use the name of the function at an address if it is unique: on powerpc, callers may enter
 * the function a few instructions later, which the kernel takes into account for names only.
 */
static int name_function(const char *inside __maybe_unused,
			 const struct kernel_function *function, char **symbol)
{
	struct kernel_function *same;
	char *part;
	int nr = find_functions(function->symbol, &same, &part);

	if (nr > 0)
		free_functions(same, nr);
	free(part);
	if (nr < 0)
		return nr;
	if (nr == 1) {
		free(*symbol);
		*symbol = strdup(function->symbol);
		return 0;
	}
#ifdef __powerpc64__
	pr_err("--inside %s: on powerpc, the kernel finds the entry of a function by its name only, and %d\n"
	       "functions are named %s.\n", inside, nr, function->symbol);
	return -EINVAL;
#else
	return 0;
#endif
}

/* Find out which function is meant. Return 0 if it is clear, or -EINVAL after a message. */
static int check_function(struct gates *gates, const char *inside, const char *function,
			  char **symbol)
{
	struct kernel_function *list;
	char *part;
	int nr = find_functions(function, &list, &part), err = 0, i;

	/* Let the kernel judge what cannot be looked up. */
	if (nr == -ENODATA)
		return 0;
	if (nr < 0)
		return nr;
	if (!nr) {
		pr_err("--inside: the kernel has no function %s. It may be inlined, or its module not loaded.\n",
		       function);
		if (part)
			pr_err("A part of it is kernel:%s.\n", part);
		err = -EINVAL;
	} else if (nr > 1) {
		pr_err("--inside: %s names %d functions:\n", inside, nr);
		for (i = 0; i < nr; i++)
			pr_err("  %#" PRIx64 " %s %s\n", list[i].address, list[i].symbol,
			       list[i].module);
		pr_err("Name one of them by its address, --inside kernel:%#" PRIx64 ", or several, with an --inside\n"
		       "for each.\n", list[0].address);
		err = -EINVAL;
	} else if (part && !gates->lax) {
		pr_err("--inside: the compiler has split %s. Callers may have the beginning of it inlined, and call\n"
		       "%s alone. Name kernel:%s, or take --inside-lax, which counts the calls of %s that\n"
		       "are left.\n", inside, part, part, list[0].symbol);
		err = -EINVAL;
	} else if (strstarts(function, "0x")) {
		err = name_function(inside, &list[0], symbol);
	} else if (strcmp(function, list[0].symbol)) {
		pr_info("Note: of %s, the kernel has the copy %s alone.\n", inside, list[0].symbol);
		free(*symbol);
		*symbol = strdup(list[0].symbol);
	}
	free_functions(list, nr);
	free(part);
	return err ?: *symbol ? 0 : -ENOMEM;
}

/* Write one line to the kernel's list of probes. */
static int write_probe(const char *line)
{
	char *path = get_tracing_file("kprobe_events");
	int fd, err = 0;

	if (!path)
		return -ENOMEM;
	fd = open(path, O_WRONLY | O_APPEND);
	put_tracing_file(path);
	if (fd < 0)
		return -errno;
	if (write(fd, line, strlen(line)) < 0)
		err = -errno;
	close(fd);
	return err;
}

/* Processes of different PID namespaces may have the same ID. */
static unsigned int pid_namespace(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) ? 0 : st.st_ino;
}

/* Remove the probes of processes that are gone. */
static void delete_stale_probes(void)
{
	char *path = get_tracing_file("kprobe_events"), *line = NULL;
	FILE *file = path ? fopen(path, "r") : NULL;
	size_t size = 0;

	put_tracing_file(path);
	while (file && getline(&line, &size, file) > 0) {
		char *group = strstr(line, ":" GROUP "/inside_"), command[128];
		unsigned int namespace;
		pid_t pid;

		if (!group ||
		    sscanf(group, ":" GROUP "/inside_%x_%d_", &namespace, &pid) != 2 ||
		    namespace != pid_namespace() || !kill(pid, 0) || errno != ESRCH)
			continue;
		group++;
		snprintf(command, sizeof(command), "-:%.*s\n", (int)strcspn(group, " "), group);
		write_probe(command);
	}
	free(line);
	if (file)
		fclose(file);
}

/* Make a name that no other perf uses: an event of a shared name fires for both functions. */
static char *new_name(void)
{
	static int number;
	struct timespec now;
	char *name;

	clock_gettime(CLOCK_BOOTTIME, &now);
	if (asprintf(&name, GROUP "/inside_%x_%d_%llx_%d", pid_namespace(), getpid(),
		     now.tv_sec * 1000000000ULL + now.tv_nsec, number++) < 0)
		return NULL;
	return name;
}

/* Create a probe of the return of @function by tracefs; NULL on errors. */
static struct evsel *new_tracefs_return(const char *function, char **name)
{
	struct perf_event_attr attr = {
		.type	= PERF_TYPE_TRACEPOINT,
		.size	= sizeof(attr),
	};
	char *line = NULL, *file = NULL, *path = NULL, buf[32];
	struct evsel *evsel = NULL;
	int fd = -1;
	ssize_t len;

	*name = new_name();
	if (!*name || asprintf(&line, "r%d:%s %s\n", MAX_ACTIVE, *name, function) < 0)
		goto out;

	delete_stale_probes();
	if (write_probe(line)) {
		zfree(name);
		goto out;
	}
	if (asprintf(&file, "events/%s/id", *name) >= 0)
		path = get_tracing_file(file);
	if (path)
		fd = open(path, O_RDONLY);
	put_tracing_file(path);
	len = fd < 0 ? -1 : read(fd, buf, sizeof(buf) - 1);
	if (len > 0) {
		buf[len] = '\0';
		attr.config = strtoull(buf, NULL, 10);
		evsel = evsel__new(&attr);
	}
	if (fd >= 0)
		close(fd);
out:
	free(line);
	free(file);
	return evsel;
}

/**
 * gate_trigger__delete_tracefs - Remove the probe that was created for a trigger
 * @trigger:	A trigger whose events are closed
 */
void gate_trigger__delete_tracefs(struct gate_trigger *trigger)
{
	char command[128];

	if (!trigger->tracefs_name)
		return;
	snprintf(command, sizeof(command), "-:%s\n", trigger->tracefs_name);
	if (write_probe(command))
		pr_debug("cannot delete the probe %s: %m\n", trigger->tracefs_name);
	zfree(&trigger->tracefs_name);
}

/**
 * gate_trigger__missed - Get the number of occurrences that the kernel missed
 * @trigger:	The trigger
 *
 * Return: the number for a kretprobe of tracefs; 0 for other triggers.
 */
u64 gate_trigger__missed(struct gate_trigger *trigger)
{
	char *path, *line = NULL, *name = trigger->tracefs_name;
	u64 hits, missed = 0;
	size_t size = 0;
	FILE *file;

	if (!name)
		return 0;
	path = get_tracing_file("kprobe_profile");
	file = path ? fopen(path, "r") : NULL;
	put_tracing_file(path);
	/* kprobe_profile has the name without the group; no other probe has this name. */
	name = strchr(name, '/') + 1;
	while (file && getline(&line, &size, file) > 0) {
		char event[64];
		u64 m;

		if (sscanf(line, " %63s %" SCNu64 " %" SCNu64, event, &hits, &m) == 3 &&
		    !strcmp(event, name))
			missed += m;
	}
	free(line);
	if (file)
		fclose(file);
	return missed;
}

/**
 * gate__set_kernel_function - Let entry and return of a kernel function move a gate
 * @gates:	All gates
 * @gate:	The gate, which has no events yet
 * @inside:	The function as the user wrote it
 * @function:	The function
 *
 * Return: 0, or a negative error code after a message.
 */
int gate__set_kernel_function(struct gates *gates, struct gate *gate, const char *inside,
			      const char *function)
{
	char *symbol = strdup(function), *tracefs_name = NULL, *name = NULL;
	struct gate_trigger *trigger;
	struct evsel *evsel;
	u64 address;
	int err;

	if (!symbol)
		return -ENOMEM;
	if (!*function) {
		pr_err("--inside %s: name a function, such as kernel:vfs_write\n", inside);
		free(symbol);
		return -EINVAL;
	}
	err = check_function(gates, inside, function, &symbol);
	if (err) {
		free(symbol);
		return err;
	}
	address = strstarts(symbol, "0x") ? strtoull(symbol, NULL, 16) : 0;
	gate->function = strdup(function);
	gate->of_kernel = true;
	gate->by_return_address = true;
	gate->nest = true;

	evsel = gate__new_probe("kprobe", inside, /*at_return=*/false, address ? NULL : symbol,
				address, 0);
	trigger = evsel ? gates__add_trigger(gates, inside, evsel, NULL) : NULL;
	if (!trigger) {
		free(symbol);
		return -EINVAL;
	}
	trigger->path = symbol;
	gate__add_starter(gate, trigger);

	evsel = new_tracefs_return(symbol, &tracefs_name);
	if (!evsel)
		evsel = gate__new_probe("kprobe", inside, /*at_return=*/true,
					address ? NULL : symbol, address, 0);
	if (evsel && asprintf(&name, "%s%%return", inside) >= 0) {
		trigger = gates__add_trigger(gates, name, evsel, NULL);
		free(name);
		if (trigger) {
			trigger->tracefs_name = tracefs_name;
			gate__add_stopper(gate, trigger);
			return 0;
		}
	}
	free(tracefs_name);
	return -EINVAL;
}
