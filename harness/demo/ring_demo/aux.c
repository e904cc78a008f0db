// SPDX-License-Identifier: GPL-2.0
/*
 * AUX areas. The word at place p of the stream is known, p and a pattern, so
 * each byte can be compared with what it must be.
 */
#include "demo.h"

#include <stdio.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define PATTERN		(0x5aa5ULL << 48)
#define PROT_RW		(PROT_READ | PROT_WRITE)

/* The area without one page, so that there is always room */
#define CHUNK		((AUX_PAGES - 1) * 4096ULL / 2)
#define NR_CHUNKS	600
#define NR_GAPS		5
#define NR_SNAPSHOTS	100

static __u64 aux_head(const struct ring *ring)
{
	return __atomic_load_n(&ring->page->aux_head, __ATOMIC_ACQUIRE);
}

static void aux_set_tail(struct ring *ring, __u64 tail)
{
	__atomic_store_n(&ring->page->aux_tail, tail, __ATOMIC_RELEASE);
}

/* Tell whether the area has the words of these places. */
static bool aux_holds(const struct ring *ring, __u64 from, __u64 to)
{
	for (; from < to; from += sizeof(__u64))
		if (*(__u64 *)(ring->aux + from % ring->aux_size) != (from ^ PATTERN))
			return false;
	return true;
}

static struct ring aux_open(bool tell_gaps, int protection)
{
	struct perf_event_attr attr = sim_attr("pmusim_aux");
	struct ring ring;

	attr.aux_lost = tell_gaps;
	attr.use_clockid = 1;
	attr.clockid = CLOCK_MONOTONIC;
	attr.aux_watermark = 4096;
	ring = ring_open(&attr);
	ring_map_aux(&ring, protection);
	event_ioctl(ring.fd, "ENABLE", PERF_EVENT_IOC_ENABLE, 0);
	return ring;
}

/* Check that each PERF_RECORD_AUX follows the one before: offset, size, flags. */
static bool records_join(struct ring *ring, __u64 *end)
{
	struct record record;

	while (ring_next(ring, &record)) {
		/* This record comes once, before all others. */
		if (record.header.type == PERF_RECORD_ITRACE_START)
			continue;
		if (record.header.type != PERF_RECORD_AUX || record.word[0] != *end ||
		    record.word[2])
			return false;
		*end += record.word[1];
	}
	return true;
}

void show_stream(void)
{
	struct ring ring = aux_open(false, PROT_RW);
	__u64 head = 0, tail = 0, told = 0;
	bool same = true, joined = true;

	for (int i = 0; i < NR_CHUNKS; i++) {
		sim_tick("pmusim_aux", CHUNK);
		head = aux_head(&ring);
		same &= aux_holds(&ring, tail, head);
		joined &= records_join(&ring, &told);
		tail = head;
		aux_set_tail(&ring, tail);
	}
	event_ioctl(ring.fd, "DISABLE", PERF_EVENT_IOC_DISABLE, 0);
	head = aux_head(&ring);
	same &= aux_holds(&ring, tail, head);
	joined &= records_join(&ring, &told);
	check(same && head == NR_CHUNKS * CHUNK,
	      "AUX: a stream of %.1f MB, byte for byte, through an area of %zu KB",
	      head / 1e6, ring.aux_size / 1024);
	check(joined && told == head, "PERF_RECORD_AUX names each stretch of it once, in order");
	figures.megabytes = head / 1e6;
	ring_close(&ring);
}

/* Write until the area is full and the event stands still. */
static __u64 overrun(struct ring *ring)
{
	__u64 before, head;

	do {
		before = aux_head(ring);
		sim_tick("pmusim_aux", ring->aux_size);
		head = aux_head(ring);
	} while (head != before);
	return head;
}

/* Get the gap from the record: id, place, stop, start, number of stops. */
static double gap_of_record(struct ring *ring, __u64 place, __u64 stop[2], __u64 start[2])
{
	struct record record;
	double gap = 0;

	while (ring_next(ring, &record)) {
		if (record.header.type != PERF_RECORD_AUX_LOST)
			continue;
		if (record.word[1] != place || record.word[2] < stop[0] ||
		    record.word[2] > stop[1] || record.word[3] < start[0] ||
		    record.word[3] > start[1])
			return -1;
		gap += record.word[3] - record.word[2];
	}
	return gap;
}

void show_gaps(void)
{
	struct ring ring = aux_open(true, PROT_RW);
	double gap, sum = 0, least = 0, most = 0;
	__u64 stop[2], start[2], head;
	int nr = 0;

	for (int i = 0; i < NR_GAPS; i++) {
		stop[0] = now_ns();
		head = overrun(&ring);
		stop[1] = now_ns();
		usleep(10000 * (i + 1));
		aux_set_tail(&ring, head);
		start[0] = now_ns();
		event_ioctl(ring.fd, "ENABLE", PERF_EVENT_IOC_ENABLE, 0);
		start[1] = now_ns();
		gap = gap_of_record(&ring, head, stop, start);
		nr += gap > 0;
		sum += gap;
		/* The reader's own clock gives these bounds. */
		least += start[0] - stop[1];
		most += start[1] - stop[0];
	}
	check(nr == NR_GAPS && sum >= least && sum <= most,
	      "PERF_RECORD_AUX_LOST: %d gaps of %.2f ms; by the reader's clock %.2f to %.2f ms",
	      nr, sum / 1e6, least / 1e6, most / 1e6);
	figures.gap_ms = sum / 1e6;
	ring_close(&ring);
}

/* An area that is overwritten while it is looked at: each look is of one moment. */
void show_snapshots(void)
{
	struct ring ring = aux_open(false, PROT_READ);
	struct perf_event_aux_snapshot snapshot;
	bool same = true, heads = true;
	__u64 written = 0, from, bytes = 0;

	for (int i = 0; i < NR_SNAPSHOTS; i++) {
		/* Lengths differ, so that the place is anywhere in the area. */
		sim_tick("pmusim_aux", 8 * (1 + 997 * i % 6000));
		written += 8 * (1 + 997 * i % 6000);
		snapshot = (struct perf_event_aux_snapshot) { .size = sizeof(snapshot) };
		event_ioctl(ring.fd, "AUX_SNAPSHOT", PERF_EVENT_IOC_AUX_SNAPSHOT,
			    (unsigned long)&snapshot);
		heads &= snapshot.head == written &&
			 snapshot.wrapped == (written >= ring.aux_size);
		from = snapshot.wrapped ? snapshot.head - ring.aux_size : 0;
		same &= aux_holds(&ring, from, snapshot.head);
		bytes += snapshot.head - from;
	}
	check(same && heads,
	      "AUX_SNAPSHOT: %d of a running event, %.1f MB: each is the end of the stream",
	      NR_SNAPSHOTS, bytes / 1e6);
	figures.snapshots = NR_SNAPSHOTS;
	ring_close(&ring);
}
