/* SPDX-License-Identifier: GPL-2.0 */
/*
 * perf selftests - files of the kernel, and the end of children
 *
 * Include this after kselftest_harness.h, whose assertions it uses.
 */
#ifndef _EVENT_HELPERS_H
#define _EVENT_HELPERS_H

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <linux/perf_event.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* Read a file that holds one number; -1 without such a file. */
static inline long read_number(const char *path)
{
	long number = -1;
	FILE *file;

	file = fopen(path, "r");
	if (!file)
		return -1;
	if (fscanf(file, "%ld", &number) != 1)
		number = -1;
	fclose(file);
	return number;
}

/* Get the type of a PMU such as "uprobe", -1 if it does not exist. */
static inline long pmu_type(const char *name)
{
	char path[256];

	snprintf(path, sizeof(path), "/sys/bus/event_source/devices/%s/type", name);
	return read_number(path);
}

/* Get the offset in the program's file of the code at @address, 0 if unknown. */
static inline __u64 file_offset(unsigned long address)
{
	unsigned long start, end, offset;
	char line[512], mode[8];
	__u64 found = 0;
	FILE *maps;

	maps = fopen("/proc/self/maps", "r");
	if (!maps)
		return 0;
	while (!found && fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%lx-%lx %7s %lx", &start, &end, mode, &offset) == 4 &&
		    address >= start && address < end)
			found = address - start + offset;
	}
	fclose(maps);
	return found;
}

static inline void wait_for_success(struct __test_metadata *const _metadata, pid_t pid)
{
	int status;

	ASSERT_LE(0, pid) {
		TH_LOG("fork: %s", strerror(errno));
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_EQ(0, status);
}

#endif
