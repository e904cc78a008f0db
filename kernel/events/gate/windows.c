// SPDX-License-Identifier: GPL-2.0
/*
 * Performance event gates: each window of an event, as a histogram and as records.
 *
 *      perf_event (opened)                    perf_event (inherited)
 *       .gate_window                           .gate_window
 *            |                                      |
 *            v                                      v
 *      perf_gate_window --> perf_gate_windows <-- perf_gate_window
 *                            .histogram: one for each CPU
 *
 * A window lies between two moves of the account: the first opens it, the second closes
 * it. perf_gate_window has the totals of the event at the first move; the second move
 * subtracts them.
 *
 *                  opens while the event is on its PMU
 *         NONE ------------------------------------------> BEGUN
 *          ^                                                 |
 *          `-------------------------------------------------'
 *                  closes: counted if the window is whole
 *
 * A window is whole if the event was on its PMU for all of the time that its context
 * ran, the moves included, and was not throttled, and if the gate was not opened again
 * in between, which a member that is settled by irq_work may overlook. A window that is
 * not whole leaves no trace here: the gate counts openings, so the reader knows how many
 * are missing.
 *
 * Contexts:  The account moves in any context, on the CPU of the event, with interrupts
 *            off and inside of perf_gate_defer_begin(). Since events of one family that
 *            are on their PMU at the same time are on different CPUs, each histogram
 *            has one writer.
 * Lifetime:  The opened event owns perf_gate_windows, and outlives the events that
 *            inherit from it.
 * Locking:   perf_event::gate_window changes with perf_event_context::mutex and
 *            perf_event::child_mutex of the opened event held, on the CPU of the event
 *            or under perf_event_context::lock.
 */

#include <linux/math.h>
#include <linux/percpu.h>
#include <linux/perf_event.h>
#include <linux/u64_stats_sync.h>

#include "gate.h"
#include "windows.h"

/* u64_stats_update_begin() without lockdep, which an NMI may have interrupted. */
static __always_inline void perf_gate_histogram_begin(struct perf_gate_histogram *histogram)
{
#if BITS_PER_LONG == 32
	raw_write_seqcount_begin(&histogram->syncp.seq);
#endif
}

static __always_inline void perf_gate_histogram_end(struct perf_gate_histogram *histogram)
{
#if BITS_PER_LONG == 32
	raw_write_seqcount_end(&histogram->syncp.seq);
#endif
}

/**
 * perf_gate_init_histogram() - Initialize a histogram in zeroed memory
 * @histogram:	The memory
 *
 * Context: Any.
 */
void perf_gate_init_histogram(struct perf_gate_histogram *histogram)
{
	u64_stats_init(&histogram->syncp);
	histogram->min = U64_MAX;
}

/**
 * perf_gate_count_window() - Count a window
 * @histogram:	Histogram of this CPU
 * @value:	Measured value of the window
 *
 * Context: Any, with interrupts off.
 */
void perf_gate_count_window(struct perf_gate_histogram *histogram, u64 value)
{
	u64 *bucket = &histogram->bucket[perf_event_histogram_bucket(value)];

	perf_gate_histogram_begin(histogram);
	if (value < histogram->min)
		WRITE_ONCE(histogram->min, value);
	if (value > histogram->max)
		WRITE_ONCE(histogram->max, value);
	WRITE_ONCE(histogram->sum, histogram->sum + value);
	/* A reader that finds the window in its bucket finds it in the other values, too. */
	smp_wmb();
	WRITE_ONCE(*bucket, *bucket + 1);
	perf_gate_histogram_end(histogram);
}

/* Read a value, which on 32 bits could change between the reads of its halves. */
static u64 perf_gate_read_value(struct perf_gate_histogram *histogram, const u64 *value)
{
	unsigned int seq;
	u64 ret;

	do {
		seq = u64_stats_fetch_begin(&histogram->syncp);
		ret = READ_ONCE(*value);
	} while (u64_stats_fetch_retry(&histogram->syncp, seq));

	return ret;
}

/**
 * perf_gate_add_histogram() - Add the histogram of one CPU to that of the reader
 * @histogram:	The histogram, which may change meanwhile
 * @out:	The sum; size, nr_buckets and missed stay. Its min is U64_MAX at first.
 *
 * Context: Process context.
 */
void perf_gate_add_histogram(struct perf_gate_histogram *histogram,
			     struct perf_event_histogram *out)
{
	unsigned int i;
	u64 windows;

	for (i = 0; i < PERF_EVENT_HISTOGRAM_BUCKETS; i++) {
		windows = perf_gate_read_value(histogram, &histogram->bucket[i]);
		out->bucket[i] += windows;
		out->windows += windows;
	}
	/* Pairs with the barrier in perf_gate_count_window(). */
	smp_rmb();
	out->sum += perf_gate_read_value(histogram, &histogram->sum);
	out->min = min(out->min, perf_gate_read_value(histogram, &histogram->min));
	out->max = max(out->max, perf_gate_read_value(histogram, &histogram->max));
}

/*
 * Compute the running time of a window that closes at @time. It is 0 if a firing that
 * interrupted the closing one opened the window later than @time.
 */
static u64 perf_gate_window_running(struct perf_gate_window *window, u64 time)
{
	return max_t(s64, time - window->time, 0);
}

struct perf_gate_record {
	struct perf_event_header	header;
	u32				pid;
	u32				tid;
	u64				id;
	u64				opened;
	u64				closed;
	u64				value;
	u64				running;
	u64				wall;
};

static noinline void perf_gate_output(struct perf_event *event,
				      struct perf_gate_window *window, u64 time, u64 closed)
{
	struct perf_gate_record record = {
		.id	= primary_event_id(event),
		.opened	= window->clock,
		.closed	= closed,
		.value	= local64_read(&event->count) - window->count,
		.running = perf_gate_window_running(window, time),
		/* The clock of another CPU may be behind. */
		.wall	= max_t(s64, closed - window->clock, 0),
	};
	struct perf_output_handle handle;
	struct perf_sample_data sample;

	perf_event_header__init(&record.header, &sample, PERF_RECORD_GATE, 0, sizeof(record),
				event);
	if (perf_output_begin(&handle, &sample, event, record.header.size))
		return;

	record.pid = perf_event_pid(event, current);
	record.tid = perf_event_tid(event, current);
	perf_output_put(&handle, record);
	perf_event__output_id_sample(event, &handle, &sample);
	perf_output_end(&handle);
}

/* End a window whose measure is a time, or that may have a record. */
static noinline void perf_gate_window_end_slowly(struct perf_event *event,
						 struct perf_gate_window *window, u64 time,
						 u64 value)
{
	struct perf_gate_windows *windows = window->windows;
	u64 closed = 0;

	if (windows->measure == PERF_WINDOWS_RUNNING) {
		value = perf_gate_window_running(window, time);
	} else if (windows->measure == PERF_WINDOWS_WALL) {
		closed = event->clock();
		value = max_t(s64, closed - window->clock, 0);
	}
	if (windows->flags & PERF_WINDOWS_HISTOGRAM)
		perf_gate_count_window(this_cpu_ptr(windows->histogram), value);
	if (windows->flags & PERF_WINDOWS_RECORD && value >= windows->min)
		perf_gate_output(event, window, time, closed ?: event->clock());
}

/**
 * perf_gate_window_begin() - Begin a window as the account of an event is about to open
 * @event:	Event on its PMU that has perf_event::gate_window, and whose count is up to
 *		date
 * @time:	perf_event_ctx_time()
 *
 * Context: Any on the CPU of @event, interrupts off, inside of perf_gate_defer_begin().
 */
void perf_gate_window_begin(struct perf_event *event, u64 time)
{
	struct perf_gate_window *window = event->gate_window;

	window->opened = atomic64_read(&event->gate_state->nr_opened);
	/* A throttling NMI is seen below if it came before, or else drops the window. */
	barrier();
	/* A throttled event does not count until a tick, so its window is not whole. */
	if (unlikely(event->hw.interrupts == MAX_INTERRUPTS))
		window->opened = PERF_GATE_NO_WINDOW;
	window->count = local64_read(&event->count);
	window->time = time;
	if (unlikely(!window->counts) && window->windows->timed)
		window->clock = event->clock();
}

/**
 * perf_gate_window_end() - End a window as the account of an event is about to close
 * @event:	As for perf_gate_window_begin()
 * @time:	perf_event_ctx_time()
 *
 * Context: As perf_gate_window_begin().
 */
void perf_gate_window_end(struct perf_event *event, u64 time)
{
	struct perf_gate_window *window = event->gate_window;
	struct perf_gate_windows *windows;
	bool whole = window->opened == atomic64_read(&event->gate_state->nr_opened);
	u64 value;

	window->opened = PERF_GATE_NO_WINDOW;
	if (!whole)
		return;

	value = local64_read(&event->count) - window->count;
	if (likely(window->counts)) {
		perf_gate_count_window(this_cpu_ptr(window->counts), value);
		return;
	}

	windows = window->windows;
	if (windows->measure || value >= windows->min ||
	    windows->flags & PERF_WINDOWS_HISTOGRAM)
		perf_gate_window_end_slowly(event, window, time, value);
}

/**
 * perf_gate_drop_window() - Give up the window that an event is in, so it is not counted
 * @event:	Event that need not have perf_event::gate_window, nor be in a window
 *
 * Context: Any on the CPU of @event, interrupts off; elsewhere the event does not run and
 *          perf_event_context::lock is held.
 */
void perf_gate_drop_window(struct perf_event *event)
{
	if (event->gate_window)
		event->gate_window->opened = PERF_GATE_NO_WINDOW;
}

/**
 * perf_gate_window_settle() - Begin, end or drop a window as the account of an event is
 *			       about to move
 * @event:	Event that has perf_event::gate_window
 * @time:	perf_event_ctx_time()
 * @open:	Whether the account opens
 *
 * If the account moves while the event is off its PMU, the window has a gap: drop it.
 *
 * Context: Interrupts off, inside of perf_gate_defer_begin(); perf_event_context::lock
 *          held if the event is not on this CPU.
 */
void perf_gate_window_settle(struct perf_event *event, u64 time, bool open)
{
	if (!perf_gate_on_pmu(event))
		perf_gate_drop_window(event);
	else if (open)
		perf_gate_window_begin(event, time);
	else
		perf_gate_window_end(event, time);
}

/**
 * perf_gate_window_resume() - Drop the window of an event that has missed a part of it
 * @event:	Event that has perf_event::gate_window, and is about to be put on its PMU
 *
 * A task switch leaves no gap in the window of an event of the task.
 *
 * Context: CPU of @event, interrupts off, perf_event_context::lock held.
 */
void perf_gate_window_resume(struct perf_event *event)
{
	struct perf_gate_window *window = event->gate_window;
	u64 lag = perf_gate_lag(event);

	if (window->lag != lag)
		window->opened = PERF_GATE_NO_WINDOW;
	window->lag = lag;
}

/**
 * perf_gate_set_watched() - Set what a firing has to do for an event
 * @account:	Account of the event
 * @watched:	Whether the event has perf_event::gate_window
 *
 * Context: CPU of the event, interrupts off; or the event does not run and its
 *          perf_event_context::lock is held, or nothing refers to the account yet.
 */
void perf_gate_set_watched(struct perf_gate_account *account, bool watched)
{
	if (account->place == PERF_GATE_STEERED)
		return;

	if (watched)
		account->place = account->by_core ? PERF_GATE_WATCHED_IN_CORE :
						    PERF_GATE_WATCHED_IN_PMU;
	else
		account->place = account->by_core ? PERF_GATE_IN_CORE : PERF_GATE_IN_PMU;
}
