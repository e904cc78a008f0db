/* SPDX-License-Identifier: GPL-2.0 */
/*
 * perf ring buffer selftests - make the n-th allocation of this task fail
 */
#ifndef _RING_FAULT_HELPERS_H
#define _RING_FAULT_HELPERS_H

#include "ring_helpers.h"

struct knob {
	const char	*path;
	long		value;
};

/* Make allocations that may sleep fail as well, without a message in the log. */
static const struct knob fault_knobs[] = {
	{ "/sys/kernel/debug/failslab/ignore-gfp-wait", 'N' },
	{ "/sys/kernel/debug/failslab/verbose", 0 },
	{ "/sys/kernel/debug/fail_page_alloc/ignore-gfp-wait", 'N' },
	{ "/sys/kernel/debug/fail_page_alloc/ignore-gfp-highmem", 'N' },
	{ "/sys/kernel/debug/fail_page_alloc/min-order", 0 },
	{ "/sys/kernel/debug/fail_page_alloc/verbose", 0 },
};

static inline int turn(const struct knob *knob)
{
	char text[2] = "N";
	int fd, ret;

	if (knob->value != 'N')
		return write_number(knob->path, knob->value);
	fd = open(knob->path, O_WRONLY);
	if (fd < 0)
		return -errno;
	ret = write(fd, text, 1) == 1 ? 0 : -errno;
	close(fd);
	return ret;
}

/* Returns 0, or an error if the kernel cannot inject failures. */
static inline int fault_setup(void)
{
	size_t i;
	int ret = 0;

	for (i = 0; i < sizeof(fault_knobs) / sizeof(*fault_knobs) && !ret; i++)
		ret = turn(&fault_knobs[i]);
	return ret;
}

static inline int fail_nth(int fd, int nth)
{
	char text[16];
	int len = snprintf(text, sizeof(text), "%d", nth);

	return pwrite(fd, text, len, 0) == len ? 0 : -errno;
}

/*
 * Get the rest of n: 0 if the failure has happened. Reading and writing it copy data as
 * well, so a remaining failure hits them.
 */
static inline int nth_end(int fd)
{
	char text[16] = "";
	int left = 1;

	if (pread(fd, text, sizeof(text) - 1, 0) >= 0)
		left = atoi(text);
	else if (errno != EFAULT)
		return -errno;
	if (fail_nth(fd, 0) && fail_nth(fd, 0))
		return -errno;
	return left;
}

#endif /* _RING_FAULT_HELPERS_H */
