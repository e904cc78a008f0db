// SPDX-License-Identifier: GPL-2.0
/*
 * Performance event gates: the accounts of events, for read(2), samples, BPF
 * programs and the user page.
 *
 *   SET_*, JOIN_GATE, start_paused    perf_gate_alloc_member() ---.
 *   fork, children of a new member    perf_gate_alloc_account() --+--> event
 *                                                                       |
 *            free_event_rcu() <------ RCU <------ perf_gate_release() <-'
 *
 * The account of an event tells how its totals are split. Account and totals are
 * written on the CPU of the event, where an NMI may move the account between any
 * two instructions; the latch gives every reader, the NMI included, a split that
 * was in force. An event that gets an account keeps it until it is freed. A new
 * account that is open splits off nothing, so readers need not know when it was
 * added.
 *
 * The account of each opened event holds the static key. The accounts of
 * inherited events are freed before that of their parent.
 */

#include <kunit/static_stub.h>
#include <linux/moduleparam.h>
#include <linux/mutex.h>
#include <linux/perf_event.h>
#include <linux/slab.h>

#include "gate.h"
#include "windows.h"

/* The key is on while an opened event has an account or a link. It may go off late. */
DEFINE_STATIC_KEY_DEFERRED_FALSE(perf_gate_key, HZ);

static DEFINE_MUTEX(perf_gate_key_mutex);

/*
 * Whether a PMU stops its sampling events while their gates are closed, if it can. It
 * stops those that have records in any case, whose counters begin anew at each record.
 */
static bool perf_gate_stops_pmus __ro_after_init = true;
core_param(perf_gate_stop, perf_gate_stops_pmus, bool, 0444);

/**
 * perf_gate_get_key() - Turn the hooks of gates on
 *
 * A section that runs with interrupts off and has seen the key off does not defer
 * firings. No such section is left when this returns; otherwise an NMI could fire
 * inside of one.
 *
 * Context: Process context, neither cpu_hotplug_lock nor any
 *          perf_event_context::mutex held. Waits for RCU if the key was off.
 */
void perf_gate_get_key(void)
{
	guard(mutex)(&perf_gate_key_mutex);

	static_branch_deferred_inc(&perf_gate_key);
	if (static_key_count(&perf_gate_key.key.key) == 1)
		synchronize_rcu();
}

/**
 * perf_gate_put_key() - Undo perf_gate_get_key()
 *
 * Context: Process context.
 */
void perf_gate_put_key(void)
{
	static_branch_slow_dec_deferred(&perf_gate_key);
}

/**
 * perf_gate_zalloc() - Allocate zeroed memory for one of the objects of gates
 * @size:	Bytes
 *
 * KUnit tests make it fail.
 *
 * Context: Process context, may sleep.
 * Return: The memory, or NULL if there is none.
 */
void *perf_gate_zalloc(size_t size)
{
	KUNIT_STATIC_STUB_REDIRECT(perf_gate_zalloc, size);

	return kzalloc(size, GFP_KERNEL);
}

/**
 * perf_gate_can_filter() - Tell whether a closed gate can drop all samples
 * @event:	The event
 *
 * Context: Any.
 * Return: False if some samples are not written by an overflow of their own:
 *         the PMU delivers them in bulk or to the AUX area, or a BPF program
 *         writes them.
 */
bool perf_gate_can_filter(struct perf_event *event)
{
	if (has_aux(event))
		return event->pmu->capabilities & PERF_PMU_CAP_AUX_PAUSE;

	return perf_gate_can_overflow(event) &&
	       !(event->event_caps & PERF_EV_CAP_NO_GATE_TARGET);
}

/**
 * perf_gate_can_stop() - Tell whether a closed gate stops an event on its PMU
 * @event:	The event
 *
 * Context: Any.
 * Return: Whether it does. Otherwise the event counts on outside of the windows.
 */
bool perf_gate_can_stop(struct perf_event *event)
{
	return has_aux(event) ||
	       (is_sampling_event(event) &&
		(perf_event_is_swevent(event) ||
		 ((perf_gate_stops_pmus || event->event_caps & PERF_EV_CAP_RECORDS) &&
		  event->pmu->capabilities & PERF_PMU_CAP_GATE_STOP)));
}

/**
 * perf_gate_init_account() - Initialize an account
 * @account:	The account, zeroed
 * @event:	The event that gets the account; has its window already if it records these
 * @open:	State of the account
 *
 * Context: Any. Nothing else refers to the event yet, or its perf_event_context::mutex
 *          or perf_event::child_mutex of its parent is held.
 */
void perf_gate_init_account(struct perf_gate_account *account, struct perf_event *event,
			    bool open)
{
	bool by_core = perf_event_is_swevent(event);

	seqcount_latch_init(&account->latch);
	account->event = event;
	account->records = event->event_caps & PERF_EV_CAP_RECORDS && !has_aux(event);
	account->by_core = by_core;
	account->aux = has_aux(event);
	if (!perf_gate_can_stop(event))
		account->place = by_core ? PERF_GATE_IN_CORE : PERF_GATE_IN_PMU;
	if (event->gate_window)
		perf_gate_set_watched(account, true);
	account->split[0].open = open;
	account->split[1].open = open;
	account->work = IRQ_WORK_INIT_HARD(perf_gate_settle_work);
	perf_gate_steer_init(account);
}

/**
 * perf_gate_alloc_account() - Allocate the account of an inherited event
 * @event:	The event
 * @open:	State of the account
 *
 * Context: Process context, may sleep.
 * Return: The account, or NULL if out of memory.
 */
struct perf_gate_account *perf_gate_alloc_account(struct perf_event *event, bool open)
{
	struct perf_gate_account *account = perf_gate_zalloc(sizeof(*account));

	if (account)
		perf_gate_init_account(account, event, open);

	return account;
}

/**
 * perf_gate_alloc_member() - Allocate the account of an opened event
 *
 * The caller initializes the account by perf_gate_init_account() where the event
 * cannot lose its PMU.
 *
 * Context: Process context, neither cpu_hotplug_lock nor any
 *          perf_event_context::mutex held.
 * Return: The member that contains the account, or NULL if out of memory.
 */
struct perf_gate_member *perf_gate_alloc_member(void)
{
	struct perf_gate_member *member = perf_gate_zalloc(sizeof(*member));

	/* perf_gate_free_rcu() frees the member by the address of its account. */
	BUILD_BUG_ON(offsetof(struct perf_gate_member, account));

	if (!member)
		return NULL;

	INIT_LIST_HEAD(&member->node);
	perf_gate_get_key();

	return member;
}

/**
 * perf_gate_free_member() - Free an account that was not installed
 * @member:	The member that contains the account, or NULL
 *
 * Context: Process context.
 */
void perf_gate_free_member(struct perf_gate_member *member)
{
	if (!member)
		return;

	perf_gate_put_key();
	kfree(member);
}

/* Read the count of an event inside of its windows, or with @time the running time. */
static __always_inline u64 perf_gate_read(struct perf_event *event, bool time)
{
	struct perf_gate_account *account = event->gate_account;
	struct perf_gate_split split;
	unsigned int seq;
	u64 total;

	do {
		seq = read_seqcount_latch(&account->latch);
		split = account->split[seq & 1];
		/*
		 * Read the total after the split: an older total would give a negative
		 * count. Pairs with the barrier in write_seqcount_latch_begin().
		 */
		smp_rmb();
		total = time ? perf_gate_running(event, perf_event_ctx_time(event)) :
			       local64_read(&event->count);
	} while (read_seqcount_latch_retry(&account->latch, seq));

	return perf_gate_inside(&split, total, time ? split.running : split.count);
}

/**
 * __perf_gate_count() - Read the count of an event inside of its windows
 * @event:	Event that has an account
 *
 * Context: Any.
 * Return: The count, without the counts of inherited events.
 */
u64 __perf_gate_count(struct perf_event *event)
{
	return perf_gate_read(event, false);
}

/* Read the running time inside of the windows, without that of inherited events. */
static u64 perf_gate_time(struct perf_event *event)
{
	if (!event->gate_account)
		return perf_gate_running(event, perf_event_ctx_time(event));

	/* The clock of another CPU may lag behind the last opening, so clamp at 0. */
	return max_t(s64, perf_gate_read(event, true), 0);
}

/**
 * __perf_gate_tick_span() - Compute the time base for the rate of an event
 * @event:	Event in frequency mode that has an account
 *
 * Windows may be far shorter than a tick, so add up their time until it is long enough.
 *
 * Context: CPU of the event, perf_event_context::lock held.
 * Return: Time in ns inside of the windows since the last call that did not
 *         return 0, or 0 if it is too short.
 */
u64 __perf_gate_tick_span(struct perf_event *event)
{
	struct perf_gate_account *account = event->gate_account;
	u64 time = perf_gate_time(event);
	u64 span = time - account->freq_time;

	if ((s64)span < TICK_NSEC / 16)
		return 0;
	account->freq_time = time;

	return span;
}

/**
 * __perf_gate_hides_index() - Tell whether the user page must hide the counter
 * @event:	Event that has an account
 *
 * Context: Any.
 * Return: Whether the account is closed.
 */
bool __perf_gate_hides_index(struct perf_event *event)
{
	return !READ_ONCE(event->gate_account->split[0].open);
}

/* Read the number of openings that the event itself has seen. */
static u64 perf_gate_opened(struct perf_event *event)
{
	struct perf_gate_state *state = READ_ONCE(event->gate_state);
	u64 opened = event->gate_account->opened;

	return state ? opened + atomic64_read(&state->nr_opened) : opened;
}

/**
 * perf_gate_add_values() - Add the gate values of an event to given values
 * @event:		The event, which need not have an account
 * @read_format:	Bits of PERF_FORMAT_GATE
 * @running:		Running time of the event that is reported with the values, in ns,
 *			U64_MAX if none is
 * @self:		Leave out inherited events that have ended
 * @values:		The time in ns, the number of openings and the whole count are added
 *			to these
 *
 * Context: Any on the CPU of the event, elsewhere perf_event_context::lock held.
 * Return: The number of values written.
 */
int perf_gate_add_values(struct perf_event *event, u64 read_format, u64 running,
			 bool self, u64 *values)
{
	bool has_account = event->gate_account;
	int n = 0;
	u64 time;

	if (read_format & PERF_FORMAT_GATE_TIME) {
		/* @running was taken earlier, and the time inside must not exceed it. */
		time = min(perf_gate_time(event), running);
		if (!self && !event->parent)
			time += atomic64_read(has_account ?
					      &perf_gate_member(event)->child_running :
					      &event->child_total_time_running);
		values[n++] += time;
	}

	if (read_format & PERF_FORMAT_GATE_COUNT) {
		if (has_account)
			values[n] += perf_gate_opened(event);
		if (has_account && !self && !event->parent)
			values[n] += atomic64_read(&perf_gate_member(event)->child_opened);
		n++;
	}

	if (read_format & PERF_FORMAT_GATE_TOTAL) {
		values[n] += local64_read(&event->count);
		if (!self && !event->parent)
			values[n] += atomic64_read(has_account ?
						   &perf_gate_member(event)->child_total :
						   &event->child_count);
		n++;
	}

	return n;
}

/**
 * perf_gate_read_values() - Get the values that read(2) reports of a gate
 * @event:		The event, which may run anywhere and need not have an account
 * @read_format:	Bits of PERF_FORMAT_GATE
 * @running:		Running time reported for the event and its children, in ns
 * @values:		Receives the time in ns, the number of openings and the whole
 *			count; has room for PERF_GATE_NR_VALUES
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

	memset(values, 0, PERF_GATE_NR_VALUES * sizeof(*values));

	guard(mutex)(&event->child_mutex);

	scoped_guard(raw_spinlock_irq, &event->ctx->lock)
		n = perf_gate_add_values(event, read_format, running, false, values);

	list_for_each_entry(child, &event->child_list, child_list) {
		guard(raw_spinlock_irq)(&child->ctx->lock);
		perf_gate_add_values(child, read_format, running, true, values);
	}

	if (read_format & PERF_FORMAT_GATE_TIME)
		values[0] = min(values[0], running);

	return n;
}

/*
 * Set the count inside of the windows to 0. A concurrent reader gets the old count or 0:
 * the total stays, and a single update of the account makes all of it count as outside.
 */
static void perf_gate_zero(struct perf_event *event, void *unused)
{
	struct perf_gate_account *account = event->gate_account;
	struct perf_gate_split split;

	perf_gate_defer_begin();
	if (perf_gate_on_pmu(event))
		event->pmu->read(event);
	split = account->split[0];
	split.count = split.open ? local64_read(&event->count) : 0;
	perf_gate_publish(account, &split);
	perf_gate_defer_end();
	perf_gate_settle_event(event);
	perf_event_update_userpage(event);
}

/**
 * __perf_gate_reset() - Set the count of an event to zero
 * @event:	Event that has an account
 *
 * The times and the number of windows stay, as time_running does.
 *
 * Context: Process context, perf_event_context::mutex held.
 */
void __perf_gate_reset(struct perf_event *event)
{
	perf_gate_call(event, perf_gate_zero, NULL);
}

/**
 * __perf_gate_sync_child() - Add the values of an inherited event to its parent
 * @child:	The event, which runs no more, and whose parent has an account
 *
 * Context: perf_event::child_mutex of its parent and perf_event_context::lock
 *          held.
 */
void __perf_gate_sync_child(struct perf_event *child)
{
	struct perf_gate_member *member = perf_gate_member(child->parent);
	struct perf_gate_account *account = child->gate_account;
	u64 running = child->total_time_running;

	lockdep_assert_held(&child->parent->child_mutex);

	if (account) {
		running = perf_gate_inside(&account->split[0], running,
					   account->split[0].running);
		atomic64_add(perf_gate_opened(child), &member->child_opened);
	}
	atomic64_add(running, &member->child_running);
	atomic64_add(local64_read(&child->count), &member->child_total);
}
