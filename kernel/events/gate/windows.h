/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Performance event gates: windows of events, see windows.c for their states.
 */
#ifndef _KERNEL_EVENTS_GATE_WINDOWS_H
#define _KERNEL_EVENTS_GATE_WINDOWS_H

#include <linux/perf_event.h>
#include <linux/u64_stats_sync.h>

#include "gate.h"

/**
 * struct perf_gate_histogram - Windows that ended on one CPU
 */
struct perf_gate_histogram {
	/** @syncp: lets readers on 32 bits see whole values */
	struct u64_stats_sync	syncp;
	/** @sum: sum of the measured values */
	u64			sum;
	/** @min: smallest measured value, U64_MAX if there was no window */
	u64			min;
	/** @max: largest measured value */
	u64			max;
	/** @bucket: number of windows by perf_event_histogram_bucket() of their value */
	u64			bucket[PERF_EVENT_HISTOGRAM_BUCKETS];
};

/**
 * struct perf_gate_windows - Request of PERF_EVENT_IOC_SET_WINDOWS
 *
 * An opened event and the events inherited from it share one object, which is constant.
 */
struct perf_gate_windows {
	/** @flags: PERF_WINDOWS_HISTOGRAM, PERF_WINDOWS_RECORD or both */
	u32			flags;
	/** @measure: enum perf_event_windows_measure */
	u32			measure;
	/** @timed: the records or the measure need the clock of the event */
	bool			timed;
	/** @min: a window with a smaller measured value gets no record */
	u64			min;
	/** @nr_before: openings of the gate before the event began to record */
	u64			nr_before;
	/** @histogram: one for each CPU, or NULL */
	struct perf_gate_histogram __percpu *histogram;
	/** @charge: memory charged to the user for @histogram, or NULL */
	struct perf_mmap_charge	*charge;
};

/* Value of perf_gate_window::opened if no window is under way that may be counted */
#define PERF_GATE_NO_WINDOW	U64_MAX

/**
 * struct perf_gate_window - The window that an event is in
 *
 * Writers follow the rules of struct perf_gate_account.
 */
struct perf_gate_window {
	/** @windows: what to record */
	struct perf_gate_windows *windows;
	/** @counts: the histogram, if windows only add their count to it, or NULL */
	struct perf_gate_histogram __percpu *counts;
	/** @opened: perf_gate_state::nr_opened of this window, or PERF_GATE_NO_WINDOW */
	u64			opened;
	/** @count: count of the event when the window began */
	u64			count;
	/** @time: perf_event_ctx_time() when the window began */
	u64			time;
	/** @lag: perf_gate_lag() when the event was last put on its PMU, in ns */
	u64			lag;
	union {
		/** @clock: the event's clock when the window began, if windows->timed */
		u64			clock;
		/** @spare: entry of a list of windows that no event has yet */
		struct hlist_node	spare;
	};
};

/*
 * Return for how long the context had run without the event when the times of the event
 * were last updated. The value grows while the event is disabled or waits for a counter,
 * and stays the same while the event is on its PMU.
 */
static inline u64 perf_gate_lag(struct perf_event *event)
{
	return event->tstamp - event->total_time_running;
}

/* windows.c */
void perf_gate_init_histogram(struct perf_gate_histogram *histogram);
void perf_gate_count_window(struct perf_gate_histogram *histogram, u64 value);
void perf_gate_add_histogram(struct perf_gate_histogram *histogram,
			     struct perf_event_histogram *out);
void perf_gate_window_begin(struct perf_event *event, u64 time);
void perf_gate_window_end(struct perf_event *event, u64 time);
void perf_gate_window_settle(struct perf_event *event, u64 time, bool open);
void perf_gate_window_resume(struct perf_event *event);
void perf_gate_set_watched(struct perf_gate_account *account, bool watched);

/* watch.c */
void perf_gate_watch(struct perf_event *event, struct hlist_head *windows);
int perf_gate_inherit_window(struct perf_event *child);
void perf_gate_release_window(struct perf_event *event);
int perf_gate_set_windows(struct perf_event *event, struct perf_event_windows __user *arg);
int perf_gate_get_windows(struct perf_event *event, struct perf_event_histogram __user *arg);

#endif /* _KERNEL_EVENTS_GATE_WINDOWS_H */
