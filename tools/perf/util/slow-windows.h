/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __PERF_SLOW_WINDOWS_H
#define __PERF_SLOW_WINDOWS_H

#include <stdbool.h>
#include <stddef.h>
#include <linux/types.h>

struct option;
struct perf_data;
struct perf_sample;

/* A time in which a thread was in a slow window. */
struct slow_window {
	u32	tid;
	u64	opened;
	u64	closed;
};

/* The windows of a file that took longer than the user's limit. */
struct slow_windows {
	bool			chosen;
	/* ns */
	u64			longer_than;
	/* Disjoint, sorted by thread and time. */
	struct slow_window	*windows;
	size_t			nr;
	size_t			allocated;
	/* Records of windows of any length. */
	size_t			nr_records;
};

#define OPT_SLOW_WINDOWS(slow)							\
	OPT_CALLBACK(0, "windows-longer-than", (slow), "time",			\
		     "only samples in windows that took longer, such as 1ms",	\
		     slow_windows__parse)

int window_time__parse(const char *str, u64 *ns);
int slow_windows__parse(const struct option *opt, const char *str, int unset);
int slow_windows__read(struct slow_windows *slow, const struct perf_data *data);
bool slow_windows__discard(const struct slow_windows *slow, const struct perf_sample *sample);
void slow_windows__exit(struct slow_windows *slow);

#endif /* __PERF_SLOW_WINDOWS_H */
