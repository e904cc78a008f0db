// SPDX-License-Identifier: GPL-2.0
/*
 * Performance event gates: a user asks for the windows of an event, and reads them.
 *
 *      PERF_EVENT_IOC_SET_WINDOWS    perf_event::gate_window of the event and of those
 *                                    inherited from it, set or removed
 *      fork                          perf_event::gate_window of the inherited event
 *      PERF_EVENT_IOC_GET_WINDOWS    the sum of the histograms of all CPUs
 *
 * windows.c has the states of a window, lifetime and locking.
 */

#include <linux/math.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/perf_event.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "gate.h"
#include "windows.h"
#include "../mmap_charge.h"

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
 * perf_gate_release_window() - Free perf_gate_windows with the event that owns it
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

/* Exchange perf_event::gate_window and the window that @data points to. */
static void __perf_gate_watch(struct perf_event *event, void *data)
{
	struct perf_gate_window **window = data;

	lockdep_assert_held(&event->ctx->lock);

	/* A window that has closed belongs to the former setting, though irq_work is to end it. */
	perf_gate_settle_event(event);
	/* An NMI that finds the account watched finds the window, too. */
	if (!*window)
		perf_gate_set_watched(event->gate_account, false);
	else
		(*window)->lag = perf_gate_lag(event);
	barrier();
	swap(event->gate_window, *window);
	barrier();
	if (event->gate_window)
		perf_gate_set_watched(event->gate_account, true);
}

/**
 * perf_gate_watch() - Let an event begin or stop recording its windows
 * @event:	The event
 * @windows:	List whose first window the event takes over, none if the list is empty
 *
 * The former window is not in use any more, because a firing uses it where the exchange
 * is made, with interrupts off.
 *
 * Context: As perf_gate_is_dead(). Takes perf_event_context::lock of the event.
 */
void perf_gate_watch(struct perf_event *event, struct hlist_head *windows)
{
	struct perf_gate_window *window =
		hlist_entry_safe(windows->first, struct perf_gate_window, spare);

	/* A child inherited after CLEAR_GATE has no account, and so no windows. */
	if (!event->gate_account)
		return;

	if (window)
		hlist_del(&window->spare);
	perf_gate_call(event, __perf_gate_watch, &window);
	kfree(window);
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

/*
 * Let the event record windows as @windows asks, or stop if that is NULL. The event owns
 * @windows afterwards unless this fails.
 */
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

/* Tell whether an NMI can read the clock of the event, because triggers fire in NMIs. */
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

	/* An AUX area event has no count, and its PMU takes a while to pause it. */
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

	/* An event that has left its gate can only stop recording. */
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
 * perf_gate_set_windows() - Handle PERF_EVENT_IOC_SET_WINDOWS
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

/*
 * Copy a histogram to the user. The buckets follow the structure, of which the user knows
 * @size bytes, and has room for @room buckets.
 */
static int perf_gate_copy_histogram(void __user *arg, u32 size, u32 room,
				    struct perf_event_histogram *out)
{
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
 * perf_gate_get_windows() - Handle PERF_EVENT_IOC_GET_WINDOWS
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

	ctx = perf_event_ctx_lock(event);
	ret = perf_gate_read_windows(event, out);
	perf_event_ctx_unlock(event, ctx);

	return ret ?: perf_gate_copy_histogram(arg, size, room, out);
}
