// SPDX-License-Identifier: GPL-2.0
/* ftrace is the other user of tracepoints: perf must not make it slower. */
#include "bench.h"

#include <errno.h>
#include <string.h>

#define EVENT	TRACING "events/syscalls/sys_enter_getppid/"

static void measure_ftrace(struct cost base, const char *operation)
{
	report("Z0", minus(measure_getppid(), base), "ftrace: %s", operation);
}

static void set(const char *path, const char *text)
{
	if (write_text(path, text))
		report_wrong("%s into %s: %s", text, path, strerror(errno));
}

void bench_ftrace(void)
{
	struct cost base;

	set(TRACING "buffer_size_kb", "4096");
	base = measure_getppid();
	set(EVENT "enable", "1");
	measure_ftrace(base, "record");
	set(TRACING "tracing_on", "0");
	measure_ftrace(base, "tracing_on 0");
	set(TRACING "tracing_on", "1");
	set(EVENT "enable", "0");
	if (write_text(EVENT "trigger", "traceon")) {
		report_absent("Z0", errno, "ftrace: traceon trigger");
		return;
	}
	measure_ftrace(base, "traceon trigger");
	set(EVENT "trigger", "!traceon");
}
