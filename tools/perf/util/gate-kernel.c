// SPDX-License-Identifier: GPL-2.0
/*
 * --inside kernel:FUNCTION: entry and return of a function of the kernel.
 *
 * A kretprobe follows a limited number of concurrent calls, which is set when it is
 * created. The kprobe PMU cannot set that number, so returns are lost if tens of threads
 * sleep in the function. tracefs can: perf creates the probe of the return there, under a
 * name with its process ID, and removes it at the end. If perf was killed, the next perf
 * removes the probe.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
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
#define GROUP		"perf_gate_"

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

/* Remove the probes of processes that are gone. */
static void delete_stale_probes(void)
{
	char *path = get_tracing_file("kprobe_events"), *line = NULL;
	FILE *file = path ? fopen(path, "r") : NULL;
	size_t size = 0;

	put_tracing_file(path);
	while (file && getline(&line, &size, file) > 0) {
		char *group = strstr(line, ":" GROUP), *end, command[128];
		pid_t pid;

		if (!group)
			continue;
		group++;
		pid = strtol(group + strlen(GROUP), &end, 10);
		if (*end != '/' || !kill(pid, 0) || errno != ESRCH)
			continue;
		snprintf(command, sizeof(command), "-:%.*s\n", (int)strcspn(group, " "), group);
		write_probe(command);
	}
	free(line);
	if (file)
		fclose(file);
}

/* Create a probe of the return of @function by tracefs; NULL on errors. */
static struct evsel *new_tracefs_return(const char *function, char **name)
{
	static int number;
	struct perf_event_attr attr = {
		.type	= PERF_TYPE_TRACEPOINT,
		.size	= sizeof(attr),
	};
	char *line = NULL, *file = NULL, *path = NULL, buf[32];
	struct evsel *evsel = NULL;
	int fd = -1;
	ssize_t len;

	*name = NULL;
	if (asprintf(name, GROUP "%d/inside%d", getpid(), number++) < 0)
		goto out;
	if (asprintf(&line, "r%d:%s %s\n", MAX_ACTIVE, *name, function) < 0)
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
	/* kprobe_profile has the name without the group. */
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
 * @inside:	The function in the words of the user
 * @function:	The function
 *
 * Return: 0, or a negative error code after a message.
 */
int gate__set_kernel_function(struct gates *gates, struct gate *gate, const char *inside,
			      const char *function)
{
	struct gate_trigger *trigger;
	char *path = strdup(function), *tracefs_name = NULL, *name = NULL;
	struct evsel *evsel;

	if (!path)
		return -ENOMEM;
	if (!*function) {
		pr_err("--inside %s: name a function, such as kernel:vfs_write\n", inside);
		free(path);
		return -EINVAL;
	}
	gate->function = strdup(function);
	gate->by_return_address = true;
	gate->nest = true;

	evsel = gate__new_probe("kprobe", inside, /*at_return=*/false, path, 0, 0);
	trigger = evsel ? gates__add_trigger(gates, inside, evsel, NULL) : NULL;
	if (!trigger) {
		free(path);
		return -EINVAL;
	}
	trigger->path = path;
	gate__add_starter(gate, trigger);

	evsel = new_tracefs_return(function, &tracefs_name);
	if (!evsel)
		evsel = gate__new_probe("kprobe", inside, /*at_return=*/true, path, 0, 0);
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
