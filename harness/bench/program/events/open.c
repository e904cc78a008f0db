// SPDX-License-Identifier: GPL-2.0
/* Opening and closing events, mapping and unmapping rings. */
#include "bench.h"

#include <string.h>
#include <sys/mman.h>

static void open_close_run(void *arg)
{
	close(perf_software(PERF_COUNT_SW_PAGE_FAULTS));
}

static void open_close_group_run(void *arg)
{
	struct group group;

	group_open(&group, 8, false, 0, false);
	group_close(&group);
}

/*
 * Use a new ring for each measured mapping: mapping an event again waits for
 * RCU after its last unmapping, and the wait would not show as instructions.
 */
struct mapping {
	struct perf_event_attr attr;
	struct perf_event_mmap_page *ring;
	int pages;
	int fd;
};

static void mapping_prepare(void *arg)
{
	struct mapping *mapping = arg;

	if (mapping->ring)
		ring_unmap(mapping->ring, mapping->pages);
	mapping->ring = NULL;
	if (mapping->fd >= 0)
		close(mapping->fd);
	mapping->fd = perf_open(&mapping->attr, -1);
}

static void mapped_prepare(void *arg)
{
	struct mapping *mapping = arg;

	mapping_prepare(mapping);
	mapping->ring = ring_map(mapping->fd, mapping->pages);
}

static void map_run(void *arg)
{
	struct mapping *mapping = arg;

	mapping->ring = ring_map(mapping->fd, mapping->pages);
}

static void map_touch_run(void *arg)
{
	struct mapping *mapping = arg;
	char *page;
	int i;

	map_run(mapping);
	page = (char *)mapping->ring;
	for (i = 0; i <= mapping->pages; i++)
		__atomic_load_n(page + i * page_size, __ATOMIC_RELAXED);
}

static void unmap_run(void *arg)
{
	struct mapping *mapping = arg;

	ring_unmap(mapping->ring, mapping->pages);
	mapping->ring = NULL;
}

static void measure_mapping(int pages, void (*prepare)(void *arg), void (*run)(void *arg),
			    const char *operation)
{
	struct mapping mapping = { .pages = pages, .fd = -1 };
	const struct op op = {
		.run = run,
		.prepare = prepare,
		.arg = &mapping,
		.batch = 1,
		.rounds = 31,
	};

	sampling_attr(&mapping.attr, PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS,
		      PERF_SAMPLE_IP);
	report("Z1w", measure(&op), "%s 1+%d pages", operation, pages);
	if (mapping.ring)
		ring_unmap(mapping.ring, pages);
	close(mapping.fd);
}

void bench_open(void)
{
	const struct op one = { .run = open_close_run, .batch = 4, .rounds = 100 };
	const struct op group = { .run = open_close_group_run, .batch = 1, .rounds = 61 };
	static const int pages[] = { 1, 8, 64 };
	size_t i;

	report("Z1w", measure(&one), "perf_event_open + close");
	report("Z1w", measure(&group), "open a group of 8 + close");
	for (i = 0; i < ARRAY_SIZE(pages); i++) {
		measure_mapping(pages[i], mapping_prepare, map_run, "mmap");
		measure_mapping(pages[i], mapping_prepare, map_touch_run, "mmap + touch");
		measure_mapping(pages[i], mapped_prepare, unmap_run, "munmap");
	}
}
