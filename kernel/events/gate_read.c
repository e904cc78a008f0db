// SPDX-License-Identifier: GPL-2.0
/*
 * Performance event gates: what they have let through, for read(2), samples,
 * BPF programs and the user page.
 *
 * The account of a gate says how its event's totals are to be split. Both belong
 * to the CPU of the event, where an NMI may move the account between any two
 * instructions; the latch of the gate gives every reader, the NMI included, an
 * account that was in force.
 */

#include <linux/mutex.h>
#include <linux/perf_event.h>

#include "internal.h"
#include "gate.h"

/**
 * __perf_gate_count() - The count of an event inside of its windows
 * @event:	Event that has a gate
 *
 * Context: Any.
 * Return: The count, without those of inherited events.
 */
u64 __perf_gate_count(struct perf_event *event)
{
	struct perf_gate *gate = event->gate;
	struct perf_gate_acct acct;
	unsigned int seq;
	u64 count;

	do {
		seq = read_seqcount_latch(&gate->latch);
		acct = gate->acct[seq & 1];
		/*
		 * A total that is older than the account would make the window
		 * smaller than nothing. Pairs with the barrier in
		 * write_seqcount_latch_begin().
		 */
		smp_rmb();
		count = perf_gate_inside(&acct, local64_read(&event->count),
					 acct.count);
	} while (read_seqcount_latch_retry(&gate->latch, seq));

	return count;
}

/* Running time inside of the windows, without that of inherited events. */
static u64 perf_gate_time(struct perf_event *event)
{
	struct perf_gate *gate = event->gate;
	struct perf_gate_acct acct;
	unsigned int seq;
	u64 inside;

	if (!gate)
		return perf_gate_running(event, perf_event_ctx_time(event));

	/* The clock of another CPU may still be behind the latest opening. */
	do {
		seq = read_seqcount_latch(&gate->latch);
		acct = gate->acct[seq & 1];
		/* As in __perf_gate_count(). */
		smp_rmb();
		inside = perf_gate_running(event, perf_event_ctx_time(event));
		inside = perf_gate_inside(&acct, inside, acct.running);
	} while (read_seqcount_latch_retry(&gate->latch, seq));

	return (s64)inside < 0 ? 0 : inside;
}

/**
 * __perf_gate_tick_span() - The time that the rate of an event can be told from
 * @event:	Event in frequency mode that has a gate
 *
 * Windows may be far shorter than a tick, so their time is added up first.
 *
 * Context: CPU of the event, perf_event_context::lock held.
 * Return: ns inside of the windows since the last call that returned some, or 0
 *         if they are too few.
 */
u64 __perf_gate_tick_span(struct perf_event *event)
{
	struct perf_gate *gate = event->gate;
	u64 time = perf_gate_time(event);
	u64 span = time - gate->freq_time;

	if ((s64)span < TICK_NSEC / 16)
		return 0;
	gate->freq_time = time;

	return span;
}

/**
 * perf_gate_add_values() - Add what read(2) and samples tell about a gate
 * @event:		The event, which need not have a gate
 * @read_format:	PERF_FORMAT_GATE_TIME, PERF_FORMAT_GATE_COUNT or both
 * @running:		Running time of the event that the reader sees, in ns,
 *			U64_MAX if he sees none
 * @self:		Without those inherited events that are gone
 * @values:		The time in ns and the number of openings are added to these
 *
 * Context: Any on the CPU of the event, elsewhere perf_event_context::lock held.
 * Return: The number of values written.
 */
int perf_gate_add_values(struct perf_event *event, u64 read_format, u64 running,
			 bool self, u64 *values)
{
	struct perf_gate *state, *gate = event->gate;
	u64 time, opened = 0;
	int n = 0;

	if (read_format & PERF_FORMAT_GATE_TIME) {
		/* @running may be older than the latest opening. */
		time = min(perf_gate_time(event), running);
		if (!self)
			time += gate ? atomic64_read(&gate->child_running) :
				       atomic64_read(&event->child_total_time_running);
		values[n++] += time;
	}

	if (read_format & PERF_FORMAT_GATE_COUNT) {
		state = perf_gate_state(event);
		if (state)
			opened = atomic64_read(&state->nr_opened);
		if (gate && !self)
			opened += atomic64_read(&gate->child_opened);
		values[n++] += opened;
	}

	return n;
}

/**
 * perf_gate_values() - perf_gate_add_values() to nothing
 * @event:		The event, which need not have a gate
 * @read_format:	PERF_FORMAT_GATE_TIME, PERF_FORMAT_GATE_COUNT or both
 * @running:		Running time of the event that the reader sees, in ns,
 *			U64_MAX if he sees none
 * @self:		Without those inherited events that are gone
 * @values:		Receives the time in ns and the number of openings, has room
 *			for both
 *
 * Context: As perf_gate_add_values().
 * Return: The number of values written.
 */
int perf_gate_values(struct perf_event *event, u64 read_format, u64 running,
		     bool self, u64 *values)
{
	values[0] = 0;
	values[1] = 0;

	return perf_gate_add_values(event, read_format, running, self, values);
}

/**
 * perf_gate_read_values() - perf_gate_values() with those of inherited events
 * @event:		The event, which may run anywhere and need not have a gate
 * @read_format:	PERF_FORMAT_GATE_TIME, PERF_FORMAT_GATE_COUNT or both
 * @running:		Running time that the reader sees for all of them, in ns
 * @values:		Receives the time in ns and the number of openings
 *
 * Context: Process context, perf_event_context::mutex held. Takes
 *          perf_event::child_mutex and perf_event_context::lock.
 * Return: The number of values written.
 */
int perf_gate_read_values(struct perf_event *event, u64 read_format, u64 running,
			  u64 *values)
{
	struct perf_event *child;
	int n;

	guard(mutex)(&event->child_mutex);

	raw_spin_lock_irq(&event->ctx->lock);
	n = perf_gate_values(event, read_format, running, false, values);
	raw_spin_unlock_irq(&event->ctx->lock);

	list_for_each_entry(child, &event->child_list, child_list) {
		raw_spin_lock_irq(&child->ctx->lock);
		perf_gate_add_values(child, read_format, running, true, values);
		raw_spin_unlock_irq(&child->ctx->lock);
	}

	if (read_format & PERF_FORMAT_GATE_TIME)
		values[0] = min(values[0], running);

	return n;
}
