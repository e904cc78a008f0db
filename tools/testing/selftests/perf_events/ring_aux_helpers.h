/* SPDX-License-Identifier: GPL-2.0 */
/*
 * perf ring buffer selftests - AUX areas of the simulated PMU
 *
 * pmusim_aux writes as many bytes as its tick file requests, at once and on the CPU of
 * the file. Each word of the stream holds its own position.
 */
#ifndef _RING_AUX_HELPERS_H
#define _RING_AUX_HELPERS_H

#include "ring_helpers.h"

#ifndef PERF_EVENT_IOC_AUX_SNAPSHOT
/* With older headers the tests build, and fail on the kernel of these headers. */
struct perf_event_aux_snapshot {
	__u32	size;
	__u32	flags;
	__u64	head;
	__u64	time;
	__u64	wrapped;
};

#define PERF_EVENT_IOC_AUX_SNAPSHOT	_IOWR('$', 16, struct perf_event_aux_snapshot)
#define PERF_AUX_SNAPSHOT_DISABLE	1
#define PERF_RECORD_AUX_LOST		24
#endif

#define AUX_PATTERN	(0x5aa5ULL << 48)
#define AUX_BIT_LOST	31

/* config of pmusim_aux: data is written by the tick file, or by a timer. */
#define AUX_MANUAL	0
#define AUX_TIMER	1

struct aux_area {
	char	*data;
	size_t	size;
};

struct aux_record {
	struct perf_event_header	header;
	__u64				offset;
	__u64				size;
	__u64				flags;
};

struct aux_lost_record {
	struct perf_event_header	header;
	__u64				id;
	__u64				offset;
	__u64				time_stop;
	__u64				time_start;
	__u64				nr_stops;
};

static inline struct perf_event_attr aux_attr(const char *pmu)
{
	return (struct perf_event_attr) {
		.type		= pmu_type(pmu),
		.size		= sizeof(struct perf_event_attr),
		.config		= AUX_MANUAL,
		.disabled	= 1,
	};
}

/* Use the number of the bit, so that older headers suffice. */
static inline void aux_attr_set_lost(struct perf_event_attr *attr)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	__u32 bit = 1;
#else
	__u32 bit = 1U << AUX_BIT_LOST;
#endif
	size_t offset = offsetof(struct perf_event_attr, aux_sample_size) + sizeof(__u32);

	memcpy((char *)attr + offset, &bit, sizeof(bit));
}

/* Let the producer of @cpu write @bytes. Returns 0 or the negative errno. */
static inline int aux_tick_of(const char *pmu, int cpu, size_t bytes)
{
	char path[64], text[64];
	int fd, len, ret;

	snprintf(path, sizeof(path), "/sys/kernel/debug/pmusim/cpu%d/tick", cpu);
	fd = open(path, O_WRONLY);
	if (fd < 0)
		return -errno;
	len = snprintf(text, sizeof(text), "%s 0 %zu", pmu, bytes);
	ret = write(fd, text, len) == len ? 0 : -errno;
	close(fd);
	return ret;
}

static inline int aux_tick(size_t bytes)
{
	return aux_tick_of("pmusim_aux", 0, bytes);
}

/* Set up the user page and map the area. Returns 0 or the negative errno. */
static inline int aux_map_at(struct aux_area *area, struct ring *ring, int fd, size_t offset,
			     size_t size, int prot)
{
	void *data;

	ring->page->aux_offset = offset;
	ring->page->aux_size = size;
	data = mmap(NULL, size, prot, MAP_SHARED, fd, offset);
	memset(area, 0, sizeof(*area));
	if (data == MAP_FAILED)
		return -errno;
	area->data = data;
	area->size = size;
	return 0;
}

/* Map @nr pages right after the data. */
static inline int aux_map(struct aux_area *area, struct ring *ring, int fd, size_t nr, int prot)
{
	return aux_map_at(area, ring, fd, ring->size + page_size(), nr * page_size(), prot);
}

static inline int aux_unmap(struct aux_area *area)
{
	return munmap(area->data, area->size) ? -errno : 0;
}

static inline __u64 aux_head(const struct ring *ring)
{
	return __atomic_load_n(&ring->page->aux_head, __ATOMIC_ACQUIRE);
}

static inline void aux_set_tail(struct ring *ring, __u64 tail)
{
	__atomic_store_n(&ring->page->aux_tail, tail, __ATOMIC_RELEASE);
}

/* Tell whether the area has the right words at these positions. */
static inline bool aux_holds(const struct aux_area *area, __u64 from, __u64 to)
{
	for (; from < to; from += sizeof(__u64)) {
		if (*(__u64 *)(area->data + from % area->size) != (from ^ AUX_PATTERN))
			return false;
	}
	return true;
}

/*
 * Fork a child that writes @bytes on @cpu and stays there, so that its event is active.
 * No other task runs in between, which would end the transaction.
 */
static inline pid_t aux_fork_on(int cpu, size_t bytes)
{
	struct sched_param param = { .sched_priority = 1 };
	int ready[2];
	pid_t pid;
	char c;

	if (pipe(ready))
		return -1;
	pid = fork();
	if (!pid) {
		run_on(cpu);
		sched_setscheduler(0, SCHED_FIFO, &param);
		aux_tick_of("pmusim_aux", cpu, bytes);
		c = write(ready[1], "r", 1);
		for (;;)
			;
	}
	close(ready[1]);
	if (read(ready[0], &c, 1) != 1)
		pid = -1;
	close(ready[0]);
	return pid;
}

/* Get the next record of @type and drop others. Returns false if there is none. */
static inline bool aux_next(struct ring *ring, __u32 want, void *record, size_t max)
{
	__u32 type;

	do {
		type = ring_next(ring, record, max);
	} while (type != NO_RECORD && type != want);
	return type == want;
}

#endif
