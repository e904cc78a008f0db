/* SPDX-License-Identifier: GPL-2.0 */
/*
 * perf gate selftests - what is recorded of each window
 */
#ifndef _GATE_WINDOWS_H
#define _GATE_WINDOWS_H

#include <errno.h>
#include <string.h>

#include <linux/perf_event.h>
#include <sys/ioctl.h>

#define NR_BUCKETS	PERF_EVENT_HISTOGRAM_BUCKETS

struct histogram {
	__u32	size;
	__u32	nr_buckets;
	__u64	windows;
	__u64	sum;
	__u64	min;
	__u64	max;
	__u64	missed;
	__u64	bucket[NR_BUCKETS];
};

/* PERF_RECORD_GATE without a sample_id */
struct gate_record {
	struct perf_event_header header;
	__u32	pid, tid;
	__u64	id;
	__u64	opened;
	__u64	closed;
	__u64	value;
	__u64	running;
	__u64	wall;
};

static inline int set_windows(int fd, __u32 flags, __u32 measure, __u64 min)
{
	struct perf_event_windows windows = {
		.size = sizeof(windows), .flags = flags, .measure = measure, .min = min,
	};

	return ioctl(fd, PERF_EVENT_IOC_SET_WINDOWS, &windows) ? -errno : 0;
}

static inline int set_histogram(int fd, __u32 measure)
{
	return set_windows(fd, PERF_WINDOWS_HISTOGRAM, measure, 0);
}

static inline int get_windows(int fd, struct histogram *histogram)
{
	memset(histogram, 0, sizeof(*histogram));
	histogram->size = sizeof(struct perf_event_histogram);
	histogram->nr_buckets = NR_BUCKETS;
	return ioctl(fd, PERF_EVENT_IOC_GET_WINDOWS, histogram) ? -errno : 0;
}

/* The histogram of an event, with what has to hold for each. */
static inline struct histogram read_histogram(struct __test_metadata *const _metadata, int fd)
{
	struct histogram histogram;
	__u64 windows = 0, low = 0, high = 0;
	unsigned int i;

	EXPECT_EQ(0, get_windows(fd, &histogram));
	for (i = 0; i < NR_BUCKETS; i++) {
		windows += histogram.bucket[i];
		low += histogram.bucket[i] * perf_event_histogram_bound(i);
		high += histogram.bucket[i] * (perf_event_histogram_bound(i + 1) - 1);
	}
	EXPECT_EQ(windows, histogram.windows);
	EXPECT_LE(low, histogram.sum);
	EXPECT_GE(high, histogram.sum);
	if (windows) {
		EXPECT_NE(0, histogram.bucket[perf_event_histogram_bucket(histogram.min)]);
		EXPECT_NE(0, histogram.bucket[perf_event_histogram_bucket(histogram.max)]);
	}
	return histogram;
}

/* The bucket in which the part @percent of the windows ends. */
static inline unsigned int percentile(const struct histogram *histogram, unsigned int percent)
{
	__u64 nr = 0;
	unsigned int i;

	for (i = 0; i < NR_BUCKETS; i++) {
		nr += histogram->bucket[i];
		if (nr && 100 * nr >= percent * histogram->windows)
			break;
	}
	return i;
}

#endif
