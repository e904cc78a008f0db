/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __PERF_GATE_WINDOWS_H
#define __PERF_GATE_WINDOWS_H

#include <stdbool.h>
#include <stdio.h>
#include <linux/perf_event.h>
#include <linux/types.h>

struct evlist;
struct evsel;
struct gate;
struct gates;
struct perf_stat_config;
struct target;

/* A histogram with room for its buckets. */
union gate_histogram {
	struct perf_event_histogram	h;
	u64				words[sizeof(struct perf_event_histogram) / sizeof(u64) +
					      PERF_EVENT_HISTOGRAM_BUCKETS];
};

/* An event's measurements in its windows, on one CPU and thread or on several. */
struct gate_tally {
	/* Count inside of windows, and in total */
	u64			inside;
	u64			total;
	/* Only if the kernel records a histogram. */
	union gate_histogram	windows;
};

/* gate-histogram.c */
void gate_histogram__prepare(union gate_histogram *histogram);
void gate_histogram__add(union gate_histogram *to, const union gate_histogram *from);
void gate_histogram__subtract(union gate_histogram *from, const union gate_histogram *last);
u64 gate_histogram__percentile(const union gate_histogram *histogram, double percent);

/* For perf stat */
int evlist__setup_windows(struct evlist *evlist, bool per_window);
int evlist__read_windows(struct evlist *evlist, struct perf_stat_config *config);
int evlist__sum_windows(struct evlist *evlist, struct perf_stat_config *config);
void evlist__reset_windows(struct evlist *evlist);
int evsel__read_gate_wall(struct evsel *evsel, int cpu_map_idx, int thread);
const struct gate_tally *evsel__windows(const struct evsel *evsel, int aggr_idx);
double evsel__share_of_all(const struct evsel *evsel, int aggr_idx);
const struct perf_event_histogram *evsel__shown_windows(const struct evsel *evsel, int aggr_idx);
int evsel__nr_window_lines(const struct evsel *evsel);

/* Columns of evsel__print_windows_csv() */
#define GATE_WINDOWS_COLUMNS	6

/* gate-windows-print.c */
const char *evsel__time_kind(const struct evsel *evsel);
const char *evsel__print_windows(const struct evsel *evsel, int aggr_idx, double *first,
				 char *text, size_t size);
void evsel__print_windows_csv(const struct evsel *evsel, int aggr_idx, const char *sep, FILE *out);
void evsel__print_windows_json(const struct evsel *evsel, int aggr_idx, FILE *out);
void evlist__print_histograms(struct evlist *evlist, FILE *out);

/* For perf record */
int evlist__setup_window_records(struct evlist *evlist, struct target *target, u64 min);
u64 evsel__nr_windows(struct evsel *evsel);

/* For gate.c */
int evlist__open_windows(struct evlist *evlist, struct target *target);
void evlist__enable_windows(struct evlist *evlist, bool enable);
void evlist__close_windows(struct evlist *evlist);
void evsel__delete_windows(struct evsel *evsel);

#endif /* __PERF_GATE_WINDOWS_H */
