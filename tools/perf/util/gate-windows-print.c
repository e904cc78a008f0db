// SPDX-License-Identifier: GPL-2.0
/*
 * Output of perf stat about single windows: for readers, and for programs.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <linux/kernel.h>
#include <linux/perf_event.h>

#include "evlist.h"
#include "evsel.h"
#include "gate.h"
#include "gate-windows.h"

/* Width of the bars of a histogram, and the longest run of empty buckets that is shown */
#define BAR_WIDTH	40
#define MAX_EMPTY	3

/* Columns of the output: the minimum, three percentiles and the maximum */
static const struct {
	const char	*name;
	double		percent;
} columns[] = {
	{ "min", 0 }, { "p50", 50 }, { "p90", 90 }, { "p99", 99 }, { "max", 100 },
};

static double column_value(const struct evsel *evsel, int aggr_idx, unsigned int i)
{
	const struct gate_tally *tally = evsel__windows(evsel, aggr_idx);
	u64 value;

	if (!columns[i].percent)
		value = tally->windows.h.min;
	else if (columns[i].percent == 100)
		value = tally->windows.h.max;
	else
		value = gate_histogram__percentile(&tally->windows, columns[i].percent);
	return value * evsel->scale;
}

static bool has_fractions(const struct evsel *evsel)
{
	return floor(evsel->scale) != evsel->scale;
}

static const char *column_format(const struct evsel *evsel)
{
	return has_fractions(evsel) ? "%.3f" : "%.0f";
}

/**
 * evsel__time_kind - Tell gate_time and gate_wall apart for readers
 * @evsel:	The event
 *
 * Return: the text that follows "per window", empty for other events.
 */
const char *evsel__time_kind(const struct evsel *evsel)
{
	if (evsel__tool_event(evsel) == PERF_TOOL_GATE_TIME)
		return " on a CPU";
	if (evsel__tool_event(evsel) == PERF_TOOL_GATE_WALL)
		return " from begin to end";
	return "";
}

/**
 * evsel__print_windows - Describe the distribution of windows in words
 * @evsel:	The event
 * @aggr_idx:	A line of the output
 * @first:	Receives the number before the text
 * @text:	Receives the text: "min  402 p50  410 p90  11210 p99  21002 max  1 missed", or
 *		"missed"
 * @size:	Its size
 *
 * Return: the format of @first, NULL if there is nothing to tell.
 */
const char *evsel__print_windows(const struct evsel *evsel, int aggr_idx, double *first,
				 char *text, size_t size)
{
	const struct perf_event_histogram *h = evsel__shown_windows(evsel, aggr_idx);
	const struct gate_tally *tally = evsel__windows(evsel, aggr_idx);
	s64 missed = tally ? tally->windows.h.missed : 0;
	size_t len = 0;
	unsigned int i;

	if (!h || !h->windows) {
		*first = missed;
		scnprintf(text, size, "missed");
		return missed > 0 ? "%8.0f" : NULL;
	}
	for (i = 0; i < ARRAY_SIZE(columns); i++) {
		double value = column_value(evsel, aggr_idx, i);

		if (!i) {
			*first = value;
		} else {
			len += scnprintf(text + len, size - len, "  ");
			len += scnprintf(text + len, size - len, column_format(evsel), value);
			len += scnprintf(text + len, size - len, " ");
		}
		len += scnprintf(text + len, size - len, "%s", columns[i].name);
	}
	if (missed > 0)
		scnprintf(text + len, size - len, "  %" PRId64 " missed", missed);
	return has_fractions(evsel) ? "%8.3f" : "%8.0f";
}

/**
 * evsel__print_windows_csv - Print GATE_WINDOWS_COLUMNS columns
 * @evsel:	The event
 * @aggr_idx:	A line of the output
 * @sep:	The separator
 * @out:	Where the columns go, each of them after a separator
 */
void evsel__print_windows_csv(const struct evsel *evsel, int aggr_idx, const char *sep, FILE *out)
{
	const struct perf_event_histogram *h = evsel__shown_windows(evsel, aggr_idx);
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(columns); i++) {
		fputs(sep, out);
		if (h && h->windows)
			fprintf(out, column_format(evsel), column_value(evsel, aggr_idx, i));
	}
	fputs(sep, out);
	if (h)
		fprintf(out, "%" PRId64, (s64)h->missed);
}

/**
 * evsel__print_windows_json - Print the members of a JSON object
 * @evsel:	The event
 * @aggr_idx:	A line of the output
 * @out:	Where the members go, each of them followed by a comma
 */
void evsel__print_windows_json(const struct evsel *evsel, int aggr_idx, FILE *out)
{
	const struct perf_event_histogram *h = evsel__shown_windows(evsel, aggr_idx);
	double share = evsel__share_of_all(evsel, aggr_idx);
	const char *sep = "";
	unsigned int i;

	if (share >= 0)
		fprintf(out, "\"percent-of-all\" : %.2f, ", share);
	if (!h)
		return;
	fprintf(out, "\"windows\" : %" PRIu64 ", \"windows-missed\" : %" PRId64 ", ",
		(u64)h->windows, (s64)h->missed);
	if (!h->windows)
		return;
	for (i = 0; i < ARRAY_SIZE(columns); i++) {
		fprintf(out, "\"window-%s\" : ", columns[i].name);
		fprintf(out, column_format(evsel), column_value(evsel, aggr_idx, i));
		fputs(", ", out);
	}
	fputs("\"window-buckets\" : [", out);
	for (i = 0; i < PERF_EVENT_HISTOGRAM_BUCKETS; i++) {
		if (!h->bucket[i])
			continue;
		fprintf(out, "%s[", sep);
		fprintf(out, column_format(evsel), perf_event_histogram_bound(i) * evsel->scale);
		fprintf(out, ", %" PRIu64 "]", (u64)h->bucket[i]);
		sep = ", ";
	}
	fputs("], ", out);
}

static void print_bucket(const struct evsel *evsel, const struct perf_event_histogram *h, int i,
			 u64 most, FILE *out)
{
	int len = h->bucket[i] * BAR_WIDTH / most;
	char low[32], bar[BAR_WIDTH + 1];

	/* A single slow window is what the reader looks for, so it has a bar, too. */
	if (!len && h->bucket[i])
		len = 1;
	memset(bar, '#', len);
	bar[len] = 0;
	snprintf(low, sizeof(low), column_format(evsel),
		 perf_event_histogram_bound(i) * evsel->scale);
	fprintf(out, "%18s %10" PRIu64 " |%-*s|\n", low, (u64)h->bucket[i], BAR_WIDTH, bar);
}

static void print_histogram(const struct evsel *evsel, const struct perf_event_histogram *h,
			    FILE *out)
{
	int i, first = PERF_EVENT_HISTOGRAM_BUCKETS, last = 0, empty = 0;
	u64 most = 0;

	for (i = 0; i < PERF_EVENT_HISTOGRAM_BUCKETS; i++) {
		if (!h->bucket[i])
			continue;
		first = min(first, i);
		last = i;
		most = max_t(u64, most, h->bucket[i]);
	}
	for (i = first; i <= last; i++) {
		if (h->bucket[i]) {
			empty = 0;
		} else if (!empty) {
			for (empty = 1; !h->bucket[i + empty]; empty++)
				;
			if (empty > MAX_EMPTY) {
				fprintf(out, "%18s\n", "...");
				i += empty - 1;
				empty = 0;
				continue;
			}
		}
		print_bucket(evsel, h, i, most, out);
	}
}

/**
 * evlist__print_histograms - Print the windows of each event as bars
 * @evlist:	The list
 * @out:	Where they go
 *
 * A line has the lower bound of a bucket, whose upper bound is that of the next line.
 */
void evlist__print_histograms(struct evlist *evlist, FILE *out)
{
	const struct perf_event_histogram *h;
	struct evsel *evsel;
	int i;

	evlist__for_each_entry(evlist, evsel) {
		for (i = 0; i < evsel__nr_window_lines(evsel); i++) {
			h = evsel__shown_windows(evsel, i);
			if (!h || !h->windows)
				continue;
			fprintf(out, " %s%s%s, %s: %" PRIu64 " windows of at least\n",
				evsel__name(evsel), *evsel->unit ? " in " : "", evsel->unit,
				evsel->gate->where ?: "", (u64)h->windows);
			print_histogram(evsel, h, out);
			fputc('\n', out);
		}
	}
}
