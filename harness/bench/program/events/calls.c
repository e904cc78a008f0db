// SPDX-License-Identifier: GPL-2.0
/* System calls with no event open. */
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>

void getppid_run(void *arg)
{
	call0(SYS_getppid);
}

struct cost measure_getppid(void)
{
	const struct op op = { .run = getppid_run };

	return measure(&op);
}

static void read_run(void *arg)
{
	char buffer[8];

	call3(SYS_read, *(int *)arg, (long)buffer, sizeof(buffer));
}

static void write_run(void *arg)
{
	static const char buffer[8];

	call3(SYS_write, *(int *)arg, (long)buffer, sizeof(buffer));
}

static void bad_ioctl_run(void *arg)
{
	call3(SYS_ioctl, 999, 0, 0);
}

static void clock_gettime_run(void *arg)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
}

static void file_call(const char *path, int flags, void (*run)(void *arg),
		      const char *operation)
{
	int fd = open(path, flags);
	const struct op op = { .run = run, .arg = &fd };

	if (fd < 0) {
		report_wrong("%s: %s", path, strerror(errno));
		return;
	}
	report("Z0", measure(&op), "%s", operation);
	close(fd);
}

void bench_calls(void)
{
	const struct op bad_ioctl = { .run = bad_ioctl_run };
	const struct op clock = { .run = clock_gettime_run };

	report("Z0", measure_getppid(), "getppid(2)");
	file_call("/dev/zero", O_RDONLY, read_run, "read(2) 8 bytes, /dev/zero");
	file_call("/dev/null", O_WRONLY, write_run, "write(2) 8 bytes, /dev/null");
	report("Z0", measure(&bad_ioctl), "ioctl(2), no such file");
	report("Z0", measure(&clock), "clock_gettime(3)");
}
