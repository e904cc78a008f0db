// SPDX-License-Identifier: GPL-2.0
/* Reading and controlling events by system call: one event, and groups. */
#include "bench.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>

#define TIMES	(PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING)

/* One event, or a group with its leader first. */
static void read8_run(void *arg)
{
	__u64 value;

	call3(SYS_read, *(int *)arg, (long)&value, sizeof(value));
}

static void read24_run(void *arg)
{
	__u64 value[3];

	call3(SYS_read, *(int *)arg, (long)value, sizeof(value));
}

static void read_group_run(void *arg)
{
	struct group *group = arg;
	__u64 value[3 + 2 * ARRAY_SIZE(group->fd)];

	call3(SYS_read, group->fd[0], (long)value, sizeof(value));
}

static void read_each_run(void *arg)
{
	struct group *group = arg;
	__u64 value[3 + ARRAY_SIZE(group->fd)];
	int i;

	for (i = 0; i < group->nr; i++)
		call3(SYS_read, group->fd[i], (long)value, sizeof(value));
}

static void toggle_run(void *arg)
{
	int fd = *(int *)arg;

	call3(SYS_ioctl, fd, PERF_EVENT_IOC_DISABLE, 0);
	call3(SYS_ioctl, fd, PERF_EVENT_IOC_ENABLE, 0);
}

static void enable_run(void *arg)
{
	call3(SYS_ioctl, *(int *)arg, PERF_EVENT_IOC_ENABLE, 0);
}

static void reset_run(void *arg)
{
	call3(SYS_ioctl, *(int *)arg, PERF_EVENT_IOC_RESET, 0);
}

static void toggle_group_run(void *arg)
{
	struct group *group = arg;

	call3(SYS_ioctl, group->fd[0], PERF_EVENT_IOC_DISABLE, PERF_IOC_FLAG_GROUP);
	call3(SYS_ioctl, group->fd[0], PERF_EVENT_IOC_ENABLE, PERF_IOC_FLAG_GROUP);
}

static void toggle_leader_run(void *arg)
{
	struct group *group = arg;

	call3(SYS_ioctl, group->fd[0], PERF_EVENT_IOC_DISABLE, 0);
	call3(SYS_ioctl, group->fd[0], PERF_EVENT_IOC_ENABLE, 0);
}

static void toggle_task_run(void *arg)
{
	call3(SYS_prctl, PR_TASK_PERF_EVENTS_DISABLE, 0, 0);
	call3(SYS_prctl, PR_TASK_PERF_EVENTS_ENABLE, 0, 0);
}

static void measure_event(void (*run)(void *arg), int fd, const char *operation)
{
	const struct op op = { .run = run, .arg = &fd };

	report("Z1", measure(&op), "%s", operation);
}

static void one_software_event(void)
{
	int fd;

	fd = perf_software(PERF_COUNT_SW_TASK_CLOCK);
	measure_event(read8_run, fd, "read(2) 8 bytes, task-clock event");
	measure_event(toggle_run, fd, "ioctl DISABLE + ENABLE, task-clock event");
	must_count(fd, 1, "task-clock event");
	close(fd);

	fd = perf_software(PERF_COUNT_SW_PAGE_FAULTS);
	measure_event(read8_run, fd, "read(2) 8 bytes, page-faults event");
	measure_event(toggle_run, fd, "ioctl DISABLE + ENABLE, page-faults event");
	close(fd);

	fd = perf_count(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS, -1, TIMES,
			false);
	measure_event(read24_run, fd, "read(2) 24 bytes with times, page-faults event");
	measure_event(enable_run, fd, "ioctl ENABLE of an enabled event");
	measure_event(reset_run, fd, "ioctl RESET, page-faults event");
	call3(SYS_ioctl, fd, PERF_EVENT_IOC_DISABLE, 0);
	measure_event(read24_run, fd, "read(2) 24 bytes with times, disabled event");
	close(fd);

	fd = perf_count(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS, -1, 0, true);
	measure_event(read8_run, fd, "read(2) 8 bytes, inherited event without a child");
	close(fd);
}

static void one_hardware_event(void)
{
	int fd = perf_count(PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS, -1, 0,
			    false);

	if (fd < 0) {
		report_wrong("instructions event: %s", strerror(errno));
		return;
	}
	measure_event(read8_run, fd, "read(2) 8 bytes, instructions event");
	measure_event(toggle_run, fd, "ioctl DISABLE + ENABLE, instructions event");
	must_count(fd, 100000, "instructions event");
	close(fd);
}

static void measure_group(struct group *group, void (*run)(void *arg),
			  const char *operation, bool hardware)
{
	const struct op op = { .run = run, .arg = group };

	report("Z1", measure(&op), "%s, %d %s", operation, group->nr,
	       hardware ? "hw" : "sw");
}

static void groups(bool hardware)
{
	static const int sizes[] = { 1, 2, 4, 8 };
	struct group group;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		/* POWER9 programs four counters freely. */
		if (hardware && sizes[i] > 4)
			break;
		if (!group_open(&group, sizes[i], hardware, PERF_FORMAT_GROUP | TIMES,
				false))
			continue;
		measure_group(&group, read_group_run, "group read(2) with times", hardware);
		if (sizes[i] >= 4) {
			measure_group(&group, read_each_run, "read(2) of each event", hardware);
			measure_group(&group, toggle_group_run,
				      "ioctl DISABLE + ENABLE, flag GROUP", hardware);
			measure_group(&group, toggle_leader_run,
				      "ioctl DISABLE + ENABLE, the leader", hardware);
			measure_group(&group, toggle_task_run,
				      "prctl DISABLE + ENABLE", hardware);
		}
		group_close(&group);
	}
}

/* The kernel writes the words that follow each value separately. */
static void groups_with_ids(bool hardware)
{
	static const int sizes[] = { 1, 4, 8 };
	struct group group;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		if (hardware && sizes[i] > 4)
			break;
		if (!group_open(&group, sizes[i], hardware,
				PERF_FORMAT_GROUP | TIMES | PERF_FORMAT_ID, false))
			continue;
		measure_group(&group, read_group_run, "group read(2) with times and ids",
			      hardware);
		group_close(&group);
	}
}

void bench_reads(void)
{
	one_software_event();
	groups(false);
	groups_with_ids(false);
	if (!ARCH_HARDWARE)
		return;
	one_hardware_event();
	groups(true);
	groups_with_ids(true);
}
