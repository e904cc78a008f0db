// SPDX-License-Identifier: GPL-2.0
/*
 * Histograms of windows, as the kernel records them.
 */
#include <string.h>
#include <linux/kernel.h>
#include <linux/perf_event.h>
#include <linux/types.h>

#include "gate-windows.h"

/**
 * gate_histogram__prepare - Prepare a histogram for the kernel to fill
 * @histogram:	The histogram, which is empty afterwards
 */
void gate_histogram__prepare(union gate_histogram *histogram)
{
	memset(histogram, 0, sizeof(*histogram));
	histogram->h.size = sizeof(histogram->h);
	histogram->h.nr_buckets = PERF_EVENT_HISTOGRAM_BUCKETS;
}

/**
 * gate_histogram__add - Add windows
 * @to:		The histogram that they are added to
 * @from:	The windows
 */
void gate_histogram__add(union gate_histogram *to, const union gate_histogram *from)
{
	int i;

	if (from->h.windows) {
		to->h.min = to->h.windows ? min(to->h.min, from->h.min) : from->h.min;
		to->h.max = max(to->h.max, from->h.max);
	}
	to->h.windows += from->h.windows;
	to->h.sum += from->h.sum;
	to->h.missed += from->h.missed;
	for (i = 0; i < PERF_EVENT_HISTOGRAM_BUCKETS; i++)
		to->h.bucket[i] += from->h.bucket[i];
}

/* Narrow the minimum and the maximum of an interval to the bounds of its buckets. */
static void histogram__narrow(union gate_histogram *histogram)
{
	int i, first = -1, last = -1;

	for (i = 0; i < PERF_EVENT_HISTOGRAM_BUCKETS; i++) {
		if (!histogram->h.bucket[i])
			continue;
		if (first < 0)
			first = i;
		last = i;
	}
	if (first < 0) {
		histogram->h.min = 0;
		histogram->h.max = 0;
		return;
	}
	histogram->h.min = max_t(u64, histogram->h.min, perf_event_histogram_bound(first));
	histogram->h.max = min_t(u64, histogram->h.max,
				 perf_event_histogram_bound(last + 1) - 1);
}

/**
 * gate_histogram__subtract - Subtract the windows of earlier intervals
 * @from:	The histogram, which receives the windows since then
 * @last:	The windows at the last interval
 *
 * A window that was open at the last interval was missed then and is not any more, so the
 * number of missed windows can be negative.
 */
void gate_histogram__subtract(union gate_histogram *from, const union gate_histogram *last)
{
	int i;

	from->h.windows -= last->h.windows;
	from->h.sum -= last->h.sum;
	from->h.missed -= last->h.missed;
	for (i = 0; i < PERF_EVENT_HISTOGRAM_BUCKETS; i++)
		from->h.bucket[i] -= last->h.bucket[i];
	if (last->h.windows)
		histogram__narrow(from);
}

/**
 * gate_histogram__percentile - Get the value that a share of the windows does not exceed
 * @histogram:	The histogram
 * @percent:	The share, from 0 to 100
 *
 * The value lies in the bucket of the window that has this rank: where it would be if the
 * windows were spread evenly over the bucket.
 *
 * Return: the value, 0 if there are no windows.
 */
u64 gate_histogram__percentile(const union gate_histogram *histogram, double percent)
{
	const struct perf_event_histogram *h = &histogram->h;
	double exact = h->windows * percent / 100;
	u64 rank = exact, before = 0;
	int i;

	if (rank < exact || !rank)
		rank++;

	for (i = 0; i < PERF_EVENT_HISTOGRAM_BUCKETS; i++) {
		u64 low = perf_event_histogram_bound(i);
		u64 width = perf_event_histogram_bound(i + 1) - low;

		if (before + h->bucket[i] < rank) {
			before += h->bucket[i];
			continue;
		}
		low += width * ((rank - before - 0.5) / h->bucket[i]);
		return min_t(u64, max_t(u64, low, h->min), h->max);
	}
	return 0;
}
