// SPDX-License-Identifier: GPL-2.0
/* The guest's only process: mounts what the sections need, runs them, leaves. */
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>

static const struct section {
	const char *name;
	void (*run)(void);
} sections[] = {
	{ "calls",	bench_calls },
	{ "reads",	bench_reads },
	{ "userpage",	bench_userpage },
	{ "samples",	bench_samples },
	{ "bpf",	bench_bpf },
	{ "switches",	bench_switches },
	{ "tasks",	bench_tasks },
	{ "open",	bench_open },
	{ "rings",	bench_rings },
	{ "ftrace",	bench_ftrace },
	{ "probes",	bench_probes },
	{ "gate",	bench_gate },
	{ "family",	bench_family },
	{ "shared",	bench_shared },
	{ "perfmon",	bench_perfmon },
};

static void mount_at(const char *type, const char *path)
{
	mkdir(path, 0755);
	if (mount("bench", path, type, 0, NULL))
		report_wrong("mount of %s: %s", type, strerror(errno));
}

/*
 * The lines go to the terminal that the kernel's command line names: the
 * console has the kernel's log.
 */
static void open_output(void)
{
	const char *name = getenv("GUEST_OUT");
	struct termios mode;
	char path[64];
	int fd;

	if (!name)
		return;
	snprintf(path, sizeof(path), "/dev/%s", name);
	fd = open(path, O_RDWR | O_NOCTTY);
	if (fd < 0)
		return;
	/* Do not add carriage returns. */
	if (!tcgetattr(fd, &mode)) {
		cfmakeraw(&mode);
		tcsetattr(fd, TCSANOW, &mode);
	}
	dup2(fd, STDOUT_FILENO);
	dup2(fd, STDERR_FILENO);
	close(fd);
}

/* Does what init does in other guests: here this program is the first process. */
static void be_init(void)
{
	mount_at("proc", "/proc");
	mount_at("sysfs", "/sys");
	mount_at("devtmpfs", "/dev");
	mount_at("tracefs", TRACING);
	open_output();
}

/* The harness takes the last line for the guest's exit status. */
static void leave(void)
{
	printf("guest: exit 0\n");
	fflush(stdout);
	tcdrain(STDOUT_FILENO);
	sync();
	reboot(RB_AUTOBOOT);
}

static void print_facts(void)
{
	report_fact("perf_event_size", read_number("/sys/kernel/slab/perf_event/object_size"));
	report_fact("perf_events_per_slab",
		    read_number("/sys/kernel/slab/perf_event/objs_per_slab"));
}

/* @selected is a list with commas, or nothing for all. */
static bool is_selected(const char *name, const char *selected)
{
	const size_t length = strlen(name);
	const char *at;

	if (!selected)
		return true;
	for (at = selected; (at = strstr(at, name)); at += length) {
		if ((at == selected || at[-1] == ',') &&
		    (at[length] == ',' || !at[length]))
			return true;
	}
	return false;
}

static void run_section(const struct section *section)
{
	int status = 0;
	pid_t child;

	printf("bench: section %s\n", section->name);
	fflush(stdout);
	child = fork();
	if (!child) {
		section->run();
		exit(0);
	}
	waitpid(child, &status, 0);
	if (status)
		report_wrong("section %s: wait status %#x", section->name, status);
}

int main(int argc, char **argv)
{
	const char *selected = getenv("bench_sections");
	const bool is_init = getpid() == 1;
	size_t i;

	/* The exec rows run this program like this. */
	if (argc > 1 && !strcmp(argv[1], "exit"))
		_exit(0);

	page_size = sysconf(_SC_PAGESIZE);
	if (getenv("bench_quick"))
		measure_quickly();
	if (is_init)
		be_init();
	/* Keep the kernel from lowering the sample rate for the time that samples take. */
	write_text("/proc/sys/kernel/perf_cpu_time_max_percent", "0");
	print_facts();
	check_clock();
	for (i = 0; i < ARRAY_SIZE(sections); i++) {
		if (is_selected(sections[i].name, selected))
			run_section(&sections[i]);
	}
	printf("bench: end\n");
	fflush(stdout);
	if (is_init)
		leave();
	return 0;
}
