// SPDX-License-Identifier: GPL-2.0
/*
 * Samples of each context that an overflow can come in. The n-th one must say
 * that n periods were counted: then none is missing, torn, or there twice.
 */
#include "demo.h"

#include <stdio.h>
#include <unistd.h>

#define PERIOD	100
/* Samples between two looks of the reader, which use all of the room. */
#define BURST	1000
#define BURSTS	10

/* config of pmusim, bits 24 to 26. */
static const char *const contexts[] = {
	"hard interrupts", "irq_work", "softirqs", "tasks", "NMIs",
};

static struct perf_event_attr sampling(unsigned int context)
{
	struct perf_event_attr attr = sim_attr("pmusim");

	attr.config = (__u64)context << 24;
	attr.sample_period = PERIOD;
	attr.sample_type = PERF_SAMPLE_PERIOD | PERF_SAMPLE_READ;
	attr.read_format = PERF_FORMAT_LOST;
	/* Nothing waits for records. */
	attr.watermark = 1;
	attr.wakeup_watermark = 1U << 31;
	return attr;
}

/* Read what there is. Return the number of samples; the last one has number *LAST. */
static unsigned long drain(struct ring *ring, unsigned long *last, unsigned long *lost,
			   bool *whole)
{
	unsigned long nr = 0;
	struct record record;

	while (ring_next(ring, &record)) {
		switch (record.header.type) {
		case PERF_RECORD_SAMPLE:
			/* PERIOD, then what READ gives: count and lost. */
			*whole &= record.word[0] == PERIOD;
			*last += 1 + *lost;
			*lost = 0;
			*whole &= record.word[1] == *last * PERIOD;
			nr++;
			break;
		case PERF_RECORD_LOST:
			/* id, and number. */
			*lost += record.word[1];
			break;
		default:
			*whole = false;
		}
	}
	return nr;
}

static bool read_all(unsigned int context, unsigned long *nr, double *laps)
{
	struct perf_event_attr attr = sampling(context);
	unsigned long last = 0, lost = 0, before = *nr;
	struct ring ring = ring_open(&attr);
	bool whole = true;

	event_ioctl(ring.fd, "ENABLE", PERF_EVENT_IOC_ENABLE, 0);
	for (int i = 0; i < BURSTS; i++) {
		sim_tick("pmusim", BURST * PERIOD);
		*nr += drain(&ring, &last, &lost, &whole);
	}
	*laps += (double)ring.tail / ring.size;
	ring_close(&ring);
	return whole && !lost && *nr - before == BURST * BURSTS;
}

/* A reader that comes too late learns how many are missing, and which. */
static void lose_some(void)
{
	struct perf_event_attr attr = sampling(0);
	unsigned long last = 0, lost = 0, kept, more, missing;
	struct ring ring = ring_open(&attr);
	__u64 value[2] = {};
	bool whole = true;

	event_ioctl(ring.fd, "ENABLE", PERF_EVENT_IOC_ENABLE, 0);
	sim_tick("pmusim", BURST * BURSTS * PERIOD);
	kept = drain(&ring, &last, &lost, &whole);
	missing = BURST * BURSTS - kept;
	sim_tick("pmusim", PERIOD);
	more = drain(&ring, &last, &lost, &whole);
	if (read(ring.fd, value, sizeof(value)) != sizeof(value))
		die("read of an event");
	check(whole && more == 1 && missing && last == BURST * BURSTS + 1 && value[1] == missing,
	      "a full buffer: %lu of %d kept, PERF_RECORD_LOST and read(2) tell of the other %lu",
	      kept, BURST * BURSTS, missing);
	figures.lost = missing;
	ring_close(&ring);
}

void show_samples(void)
{
	unsigned long nr = 0;
	double laps = 0;
	bool all = true;

	/* The samples must not be throttled, because their number is checked. */
	put_number("/proc/sys/kernel/perf_event_max_sample_rate", 10000000);
	for (size_t i = 0; i < ARRAY_SIZE(contexts); i++) {
		if (read_all(i, &nr, &laps))
			continue;
		all = false;
		check(false, "samples taken in %s", contexts[i]);
	}
	check(all, "%lu samples from interrupts, irq_work, softirqs, tasks and NMIs: each in its",
	      nr);
	printf("         place, none missing, in buffers of %d pages that wrapped %.0f times\n",
	       DATA_PAGES, laps);
	figures.samples = nr;
	lose_some();
}
