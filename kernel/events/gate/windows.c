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
 * A window is what lies between two moves of the account, of which the first one opens
 * it. perf_gate_window has what the totals of the event were at that move; the second
 * one subtracts.
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
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/perf_event.h>
#include <linux/slab.h>
#include <linux/u64_stats_sync.h>
#include <linux/uaccess.h>

#include "gate.h"
#include "../mmap_charge.h"

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
 * perf_gate_init_histogram() - Make zeroed memory a histogram
 * @histogram:	The memory
 *
 * Context: Any.
 */
void perf_gate_init_histogram(struct perf_gate_histogram *histogram)
{
	u64_stats_init(&histogram->syncp);
	histogram->min = U64_MAX;
}

/* Part of the path of a firing, see perf_gate_publish(). */
static __always_inline void __perf_gate_count_window(struct perf_gate_histogram *histogram,
						     u64 value)
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

/**
 * perf_gate_count_window() - Count a window
 * @histogram:	Histogram of this CPU
 * @value:	Measured value of the window
 *
 * Context: Any, with interrupts off.
 */
void perf_gate_count_window(struct perf_gate_histogram *histogram, u64 value)
{
	__perf_gate_count_window(histogram, value);
}

/* A firing that interrupted the one of @time may have opened the window after it. */
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

/* Windows that a time measures, and those that may have a record. */
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
 * perf_gate_window_begin() - The account of an event is about to open
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
	/* An NMI may throttle the event on either side of this. */
	barrier();
	/* The PMU has stopped an event that is throttled, and starts it at a tick. */
	if (unlikely(event->hw.interrupts == MAX_INTERRUPTS))
		window->opened = PERF_GATE_NO_WINDOW;
	window->count = local64_read(&event->count);
	window->time = time;
	if (unlikely(!window->counts) && window->windows->timed)
		window->clock = event->clock();
}

/**
 * perf_gate_window_end() - The account of an event is about to close
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
		__perf_gate_count_window(this_cpu_ptr(window->counts), value);
		return;
	}

	windows = window->windows;
	if (windows->measure || value >= windows->min ||
	    windows->flags & PERF_WINDOWS_HISTOGRAM)
		perf_gate_window_end_slowly(event, window, time, value);
}

/**
 * perf_gate_drop_window() - Do not count the window that an event is in
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
 * perf_gate_window_settle() - The account of an event that may be off its PMU is about to
 *			       move
 * @event:	Event that has perf_event::gate_window
 * @time:	perf_event_ctx_time()
 * @open:	Whether the account opens
 *
 * The gate moved at a time when the event was not on its PMU, or a system call moved it.
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

/*
 * For how long the context of an event that is on its PMU ran without it. It grows
 * while the event is disabled or waits for a counter.
 */
static u64 perf_gate_lag(struct perf_event *event)
{
	return event->tstamp - event->total_time_running;
}

/**
 * perf_gate_window_resume() - An event comes to run
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
 * @watched:	It has perf_event::gate_window
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

static struct perf_gate_window *perf_gate_alloc_window(struct perf_gate_windows *windows)
{
	struct perf_gate_window *window = kzalloc(sizeof(*window), GFP_KERNEL_ACCOUNT);

	if (window) {
		window->windows = windows;
		if (!windows->timed && windows->measure == PERF_WINDOWS_COUNT)
			window->counts = windows->histogram;
		window->opened = PERF_GATE_NO_WINDOW;
	}

	return window;
}

/**
 * perf_gate_inherit_window() - Let an inherited event record its windows with its parent
 * @child:	The event, which has no account yet
 *
 * Context: Process context, perf_event::child_mutex of the parent held.
 * Return: 0, -ENOMEM.
 */
int perf_gate_inherit_window(struct perf_event *child)
{
	struct perf_gate_window *window = child->parent->gate_window;

	lockdep_assert_held(&child->parent->child_mutex);

	if (!window)
		return 0;

	child->gate_window = perf_gate_alloc_window(window->windows);

	return child->gate_window ? 0 : -ENOMEM;
}

static void perf_gate_free_windows(struct perf_gate_windows *windows)
{
	if (!windows)
		return;

	free_percpu(windows->histogram);
	if (windows->charge)
		perf_mmap_charge_free(windows->charge);
	kfree(windows);
}

/**
 * perf_gate_release_window() - Free what an event that is being freed has recorded
 * @event:	Event on no list of a context, without other references
 *
 * perf_event::gate_window itself stays until perf_gate_free_rcu().
 *
 * Context: Process context.
 */
void perf_gate_release_window(struct perf_event *event)
{
	if (event->gate_window && !event->parent)
		perf_gate_free_windows(event->gate_window->windows);
}

struct perf_gate_watch {
	struct perf_gate_window	*window;
	bool			done;
};

/* Exchange perf_event::gate_window and that of @info. */
static void __perf_gate_watch(struct perf_event *event,
			      struct perf_cpu_context *cpuctx,
			      struct perf_event_context *ctx, void *info)
{
	struct perf_gate_watch *watch = info;

	lockdep_assert_held(&event->ctx->lock);

	watch->done = true;
	/* An NMI that finds the account watched finds the window, too. */
	if (!watch->window)
		perf_gate_set_watched(event->gate_account, false);
	else
		watch->window->lag = perf_gate_lag(event);
	barrier();
	swap(event->gate_window, watch->window);
	barrier();
	if (event->gate_window)
		perf_gate_set_watched(event->gate_account, true);
}

/*
 * Give an event the first window of a list, or take its window away if the list is empty.
 * The former window is not in use any more, because a firing uses it where the exchange
 * is made, with interrupts off.
 */
static void perf_gate_watch(struct perf_event *event, struct hlist_head *windows)
{
	struct perf_gate_watch watch = {
		.window = hlist_entry_safe(windows->first, struct perf_gate_window, spare),
	};

	/* A child of the time after CLEAR_GATE has nothing to watch. */
	if (!event->gate_account)
		return;

	if (watch.window)
		hlist_del(&watch.window->spare);
	if (!perf_gate_is_dead(event))
		perf_event_function_call(event, __perf_gate_watch, &watch);
	if (!watch.done) {
		guard(raw_spinlock_irq)(&event->ctx->lock);
		__perf_gate_watch(event, NULL, event->ctx, &watch);
	}
	kfree(watch.window);
	cond_resched();
}

static void perf_gate_free_spares(struct hlist_head *spares)
{
	struct perf_gate_window *window;
	struct hlist_node *next;

	hlist_for_each_entry_safe(window, next, spares, spare)
		kfree(window);
}

/* Allocate the windows of an event and of those inherited from it. */
static int perf_gate_alloc_spares(struct perf_event *event,
				  struct perf_gate_windows *windows,
				  struct hlist_head *spares)
{
	struct perf_gate_window *window;
	unsigned int nr = 1;

	nr += list_count_nodes(&event->child_list);
	while (nr--) {
		window = perf_gate_alloc_window(windows);
		if (!window) {
			perf_gate_free_spares(spares);
			return -ENOMEM;
		}
		hlist_add_head(&window->spare, spares);
		cond_resched();
	}

	return 0;
}

static u64 perf_gate_nr_opened(struct perf_event *event)
{
	u64 values[PERF_GATE_NR_VALUES];

	perf_gate_read_values(event, PERF_FORMAT_GATE_COUNT, U64_MAX, values);

	return values[0];
}

/* @windows belongs to the event afterwards unless this fails; NULL for none. */
static int perf_gate_record(struct perf_event *event, struct perf_gate_windows *windows)
{
	struct perf_gate_windows *former = NULL;
	struct perf_event *child;
	HLIST_HEAD(spares);
	int ret;

	lockdep_assert_held(&event->ctx->mutex);

	/* An opening that comes before the event starts to record counts as missed. */
	if (windows)
		windows->nr_before = perf_gate_nr_opened(event);

	guard(mutex)(&event->child_mutex);

	if (windows) {
		ret = perf_gate_alloc_spares(event, windows, &spares);
		if (ret)
			return ret;
	}

	if (event->gate_window)
		former = event->gate_window->windows;
	list_for_each_entry(child, &event->child_list, child_list)
		perf_gate_watch(child, &spares);
	perf_gate_watch(event, &spares);
	perf_gate_free_windows(former);

	return 0;
}

static int perf_gate_alloc_histogram(struct perf_gate_windows *windows)
{
	size_t size = num_possible_cpus() * sizeof(*windows->histogram);
	struct perf_mmap_charge *charge;
	int cpu;

	charge = perf_mmap_charge_file(DIV_ROUND_UP(size, PAGE_SIZE));
	if (IS_ERR(charge))
		return PTR_ERR(charge);
	windows->charge = charge;

	windows->histogram = alloc_percpu_gfp(struct perf_gate_histogram, GFP_KERNEL_ACCOUNT);
	if (!windows->histogram)
		return -ENOMEM;

	for_each_possible_cpu(cpu)
		perf_gate_init_histogram(per_cpu_ptr(windows->histogram, cpu));

	return 0;
}

/* A firing reads the clock in an NMI, too. */
static bool perf_gate_clock_is_safe(struct perf_event *event)
{
	return !event->attr.use_clockid || event->attr.clockid == CLOCK_MONOTONIC ||
	       event->attr.clockid == CLOCK_MONOTONIC_RAW;
}

static int perf_gate_check_windows(struct perf_event *event,
				   const struct perf_event_windows *in)
{
	if (in->flags & ~(PERF_WINDOWS_HISTOGRAM | PERF_WINDOWS_RECORD) ||
	    in->measure > PERF_WINDOWS_WALL || in->__reserved)
		return -EINVAL;

	/* The AUX area is no count, and pausing it takes its time. */
	if (has_aux(event))
		return -EOPNOTSUPP;

	if ((in->flags & PERF_WINDOWS_RECORD || in->measure == PERF_WINDOWS_WALL) &&
	    !perf_gate_clock_is_safe(event))
		return -EOPNOTSUPP;

	return 0;
}

static struct perf_gate_windows *perf_gate_alloc_windows(const struct perf_event_windows *in)
{
	struct perf_gate_windows *windows = kzalloc(sizeof(*windows), GFP_KERNEL_ACCOUNT);
	int ret;

	if (!windows)
		return ERR_PTR(-ENOMEM);

	windows->flags = in->flags;
	windows->measure = in->measure;
	windows->min = in->min;
	windows->timed = in->flags & PERF_WINDOWS_RECORD || in->measure == PERF_WINDOWS_WALL;
	if (in->flags & PERF_WINDOWS_HISTOGRAM) {
		ret = perf_gate_alloc_histogram(windows);
		if (ret) {
			perf_gate_free_windows(windows);
			return ERR_PTR(ret);
		}
	}

	return windows;
}

static int perf_gate_set_windows_locked(struct perf_event *event,
					const struct perf_event_windows *in)
{
	struct perf_gate_windows *windows = NULL;
	int ret;

	/* An event that has left its gate can stop to record. */
	if (!event->gate && (in->flags || !event->gate_window))
		return -EINVAL;

	if (in->flags) {
		windows = perf_gate_alloc_windows(in);
		if (IS_ERR(windows))
			return PTR_ERR(windows);
	}
	ret = perf_gate_record(event, windows);
	if (ret)
		perf_gate_free_windows(windows);

	return ret;
}

/**
 * perf_gate_set_windows() - PERF_EVENT_IOC_SET_WINDOWS
 * @event:	The event
 * @arg:	Argument of the ioctl
 *
 * Context: Process context, no locks held.
 * Return: 0, or an error that Documentation/userspace-api/perf_gate.rst lists, which
 *         leaves everything as it was.
 */
int perf_gate_set_windows(struct perf_event *event, struct perf_event_windows __user *arg)
{
	struct perf_event_context *ctx;
	struct perf_event_windows in;
	u32 size;
	int ret;

	if (get_user(size, &arg->size))
		return -EFAULT;
	if (size < sizeof(in) || size > PAGE_SIZE)
		return -EINVAL;
	ret = copy_struct_from_user(&in, sizeof(in), arg, size);
	if (ret)
		return ret;
	ret = perf_gate_check_windows(event, &in);
	if (ret)
		return ret;

	ctx = perf_event_ctx_lock(event);
	ret = perf_gate_set_windows_locked(event, &in);
	perf_event_ctx_unlock(event, ctx);

	return ret;
}

/* On 32 bits, a value that changes meanwhile could be read in two halves. */
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
 * @out:	Receives all but @size, @nr_buckets and @missed; @min is U64_MAX at first
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

static int perf_gate_read_windows(struct perf_event *event,
				  struct perf_event_histogram *out)
{
	struct perf_gate_windows *windows;
	u64 opened;
	int cpu;

	lockdep_assert_held(&event->ctx->mutex);

	if (!event->gate_window)
		return -EINVAL;
	windows = event->gate_window->windows;
	if (!(windows->flags & PERF_WINDOWS_HISTOGRAM))
		return -EINVAL;

	out->min = U64_MAX;
	for_each_possible_cpu(cpu) {
		perf_gate_add_histogram(per_cpu_ptr(windows->histogram, cpu), out);
		cond_resched();
	}
	if (out->min == U64_MAX)
		out->min = 0;

	/*
	 * Read the number of openings after the buckets. Each window opens before it is
	 * counted, so missed cannot be negative.
	 */
	opened = perf_gate_nr_opened(event) - windows->nr_before;
	out->missed = opened > out->windows ? opened - out->windows : 0;

	return 0;
}

/* The buckets begin where the structure ends that the user knows. */
static int perf_gate_copy_histogram(void __user *arg, u32 size,
				    struct perf_event_histogram *out)
{
	u32 room = out->nr_buckets;

	out->size = sizeof(*out);
	out->nr_buckets = PERF_EVENT_HISTOGRAM_BUCKETS;
	if (copy_to_user(arg, out, sizeof(*out)))
		return -EFAULT;
	if (room < PERF_EVENT_HISTOGRAM_BUCKETS)
		return -ENOSPC;

	return copy_to_user(arg + size, out->bucket,
			    PERF_EVENT_HISTOGRAM_BUCKETS * sizeof(u64)) ? -EFAULT : 0;
}

/**
 * perf_gate_get_windows() - PERF_EVENT_IOC_GET_WINDOWS
 * @event:	The event
 * @arg:	Argument of the ioctl
 *
 * Context: Process context, no locks held.
 * Return: 0, or an error that Documentation/userspace-api/perf_gate.rst lists.
 */
int perf_gate_get_windows(struct perf_event *event, struct perf_event_histogram __user *arg)
{
	struct perf_event_histogram *out __free(kfree) = NULL;
	struct perf_event_context *ctx;
	u32 size, room;
	int ret;

	if (get_user(size, &arg->size))
		return -EFAULT;
	if (size < sizeof(*out) || size > PAGE_SIZE)
		return -EINVAL;

	out = kzalloc(struct_size(out, bucket, PERF_EVENT_HISTOGRAM_BUCKETS), GFP_KERNEL);
	if (!out)
		return -ENOMEM;
	ret = copy_struct_from_user(out, sizeof(*out), arg, size);
	if (ret)
		return ret;
	room = out->nr_buckets;
	memset(out, 0, sizeof(*out));
	out->nr_buckets = room;

	ctx = perf_event_ctx_lock(event);
	ret = perf_gate_read_windows(event, out);
	perf_event_ctx_unlock(event, ctx);

	return ret ?: perf_gate_copy_histogram(arg, size, out);
}
