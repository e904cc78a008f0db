// SPDX-License-Identifier: GPL-2.0
/* Opening, linking and reading events. Errors end the program, except in event_try_open(). */
#include "demo.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

struct perf_event_attr event_attr(__u32 type, __u64 config)
{
	return (struct perf_event_attr) {
		.type = type,
		.size = sizeof(struct perf_event_attr),
		.config = config,
		.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED |
			       PERF_FORMAT_TOTAL_TIME_RUNNING |
			       PERF_FORMAT_LOST |
			       PERF_FORMAT_GATE_TIME |
			       PERF_FORMAT_GATE_COUNT,
	};
}

/* The configuration that stands for a tracepoint, named "system/event". */
__u64 tracepoint(const char *name)
{
	char path[128];
	__u64 id;
	FILE *file;

	snprintf(path, sizeof(path), "/sys/kernel/tracing/events/%s/id", name);
	file = fopen(path, "r");
	if (!file || fscanf(file, "%llu", &id) != 1)
		die("%s: %s", path, strerror(errno));
	fclose(file);
	return id;
}

int event_try_open(struct perf_event_attr *attr, pid_t pid, int leader)
{
	return syscall(SYS_perf_event_open, attr, pid, -1, leader,
		       PERF_FLAG_FD_CLOEXEC);
}

int event_open(struct perf_event_attr *attr, pid_t pid)
{
	int fd = event_try_open(attr, pid, -1);

	if (fd < 0)
		die("perf_event_open, type %u, config %llu: %s", attr->type,
		    attr->config, strerror(errno));
	return fd;
}

struct reading event_read(int fd)
{
	struct reading reading;

	if (read(fd, &reading, sizeof(reading)) != sizeof(reading))
		die("read of an event: %s", strerror(errno));
	return reading;
}

void set_starter(int trigger, int target)
{
	if (ioctl(trigger, PERF_EVENT_IOC_SET_STARTER, target))
		die("SET_STARTER: %s", strerror(errno));
}

void set_stopper(int trigger, int target)
{
	if (ioctl(trigger, PERF_EVENT_IOC_SET_STOPPER, target))
		die("SET_STOPPER: %s", strerror(errno));
}
