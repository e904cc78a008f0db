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
 * The account of an event says how its totals are to be split. Both belong to the
 * CPU of the event, where an NMI may move the account between any two
 * instructions; the latch gives every reader, the NMI included, a split that was
 * in force. An event that gets an account keeps it until it is freed. A fresh one
 * that is open splits off nothing, so readers need not know when it came.
 *
 * The account of each opened event holds the static key. Those of inherited
 * events go before that of their parent.
 */

#include <linux/mutex.h>
#include <linux/perf_event.h>
#include <linux/slab.h>

#include "gate.h"

/* On while an opened event has an account or a link. Turning it off is not urgent. */
DEFINE_STATIC_KEY_DEFERRED_FALSE(perf_gate_key, HZ);

static DEFINE_MUTEX(perf_gate_key_mutex);

/**
 * perf_gate_get_key() - Let the hooks of gates work
 *
 * A section that runs with interrupts off and has found the key off does not defer
 * firings. When this returns, the last of these sections is over. An NMI could fire in
 * one of them otherwise.
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
 * perf_gate_init_account() - Make zeroed memory an account
 * @account:	The memory
 * @event:	The event that it is for
 * @open:	The state that it is to have
 *
 * Context: Any, with the event or its perf_event_context::mutex to itself, or
 *          perf_event::child_mutex of its parent held.
 */
void perf_gate_init_account(struct perf_gate_account *account, struct perf_event *event,
			    bool open)
{
	bool by_core = perf_event_is_swevent(event);
	bool can_stop = is_sampling_event(event) &&
			(by_core || event->pmu->capabilities & PERF_PMU_CAP_GATE_STOP);

	seqcount_latch_init(&account->latch);
	account->event = event;
	account->by_core = by_core;
	account->aux = has_aux(event);
	if (!account->aux && !can_stop)
		account->place = by_core ? PERF_GATE_IN_CORE : PERF_GATE_IN_PMU;
	account->split[0].open = open;
	account->split[1].open = open;
	account->work = IRQ_WORK_INIT_HARD(perf_gate_work);
	perf_gate_steer_init(account);
}

/**
 * perf_gate_alloc_account() - Allocate the account of an inherited event
 * @event:	The event
 * @open:	The state that it is to have
 *
 * Context: Process context, may sleep.
 * Return: The account, NULL without memory.
 */
struct perf_gate_account *perf_gate_alloc_account(struct perf_event *event, bool open)
{
	struct perf_gate_account *account = kzalloc(sizeof(*account), GFP_KERNEL);

	if (account)
		perf_gate_init_account(account, event, open);

	return account;
}

/**
 * perf_gate_alloc_member() - Allocate the account of an opened event
 *
 * The caller calls perf_gate_init_account() where the event cannot lose its PMU.
 *
 * Context: Process context, neither cpu_hotplug_lock nor any
 *          perf_event_context::mutex held.
 * Return: The further part of the account, NULL without memory.
 */
struct perf_gate_member *perf_gate_alloc_member(void)
{
	struct perf_gate_member *member = kzalloc(sizeof(*member), GFP_KERNEL);

	/* perf_gate_free_rcu() frees the one by the address of the other. */
	BUILD_BUG_ON(offsetof(struct perf_gate_member, account));

	if (!member)
		return NULL;

	INIT_LIST_HEAD(&member->node);
	perf_gate_get_key();

	return member;
}

/**
 * perf_gate_free_member() - Free an account that no event got
 * @member:	The account or NULL
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

/**
 * __perf_gate_count() - The count of an event inside of its windows
 * @event:	Event that has an account
 *
 * Context: Any.
 * Return: The count, without those of inherited events.
 */
u64 __perf_gate_count(struct perf_event *event)
{
	struct perf_gate_account *account = event->gate_account;
	struct perf_gate_split split;
	unsigned int seq;
	u64 count;

	do {
		seq = read_seqcount_latch(&account->latch);
		split = account->split[seq & 1];
		/*
		 * A total that is older than the split would make the window
		 * smaller than nothing. Pairs with the barrier in
		 * write_seqcount_latch_begin().
		 */
		smp_rmb();
		count = perf_gate_inside(&split, local64_read(&event->count),
					 split.count);
	} while (read_seqcount_latch_retry(&account->latch, seq));

	return count;
}

/* Running time inside of the windows, without that of inherited events. */
static u64 perf_gate_time(struct perf_event *event)
{
	struct perf_gate_account *account = event->gate_account;
	struct perf_gate_split split;
	unsigned int seq;
	u64 inside;

	if (!account)
		return perf_gate_running(event, perf_event_ctx_time(event));

	/* The clock of another CPU may still be behind the latest opening. */
	do {
		seq = read_seqcount_latch(&account->latch);
		split = account->split[seq & 1];
		/* As in __perf_gate_count(). */
		smp_rmb();
		inside = perf_gate_running(event, perf_event_ctx_time(event));
		inside = perf_gate_inside(&split, inside, split.running);
	} while (read_seqcount_latch_retry(&account->latch, seq));

	return (s64)inside < 0 ? 0 : inside;
}

/**
 * __perf_gate_tick_span() - The time that the rate of an event can be told from
 * @event:	Event in frequency mode that has an account
 *
 * Windows may be far shorter than a tick, so their time is added up first.
 *
 * Context: CPU of the event, perf_event_context::lock held.
 * Return: ns inside of the windows since the last call that returned some, or 0
 *         if they are too few.
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
 * __perf_gate_hides_index() - Must the user page not tell which counter an event has?
 * @event:	Event that has an account
 *
 * Context: Any.
 * Return: Whether the account is closed.
 */
bool __perf_gate_hides_index(struct perf_event *event)
{
	return !READ_ONCE(event->gate_account->split[0].open);
}

/* The number of openings that an event itself has seen. */
static u64 perf_gate_opened(struct perf_event *event)
{
	struct perf_gate_state *state = READ_ONCE(event->gate_state);
	u64 opened = event->gate_account->opened;

	return state ? opened + atomic64_read(&state->nr_opened) : opened;
}

/**
 * perf_gate_add_values() - Add what read(2) and samples tell about a gate
 * @event:		The event, which need not have an account
 * @read_format:	PERF_FORMAT_GATE_TIME, PERF_FORMAT_GATE_COUNT or both
 * @running:		Running time of the event that the reader sees, in ns,
 *			U64_MAX if the reader sees none
 * @self:		Without the inherited events that are gone
 * @values:		The time in ns and the number of openings are added to these
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
		/* @running may be older than the latest opening. */
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

	return n;
}

/**
 * perf_gate_values() - perf_gate_add_values() to nothing
 * @event:		The event, which need not have an account
 * @read_format:	PERF_FORMAT_GATE_TIME, PERF_FORMAT_GATE_COUNT or both
 * @running:		Running time of the event that the reader sees, in ns,
 *			U64_MAX if the reader sees none
 * @self:		Without the inherited events that are gone
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
 * @event:		The event, which may run anywhere and need not have an account
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

/*
 * A reader finds one value or the other: the total stays, and the account alone tells
 * that none of it is inside.
 */
static void perf_gate_zero(struct perf_event *event)
{
	struct perf_gate_account *account = event->gate_account;
	struct perf_gate_split split = account->split[0];

	split.count = split.open ? local64_read(&event->count) : 0;
	perf_gate_publish(account, &split);
}

static void __perf_gate_zero(struct perf_event *event,
			     struct perf_cpu_context *cpuctx,
			     struct perf_event_context *ctx, void *info)
{
	bool *done = info;

	perf_gate_defer_begin();
	if (perf_gate_on_pmu(event))
		event->pmu->read(event);
	perf_gate_zero(event);
	perf_gate_defer_end();
	perf_gate_settle_event(event);
	perf_event_update_userpage(event);
	*done = true;
}

/**
 * __perf_gate_reset() - Set the count of an event to zero
 * @event:	Event that has an account
 *
 * Its times and the number of its windows stay, like time_running does.
 *
 * Context: Process context, perf_event_context::mutex held.
 */
void __perf_gate_reset(struct perf_event *event)
{
	bool done = false;

	if (!perf_gate_is_dead(event))
		perf_event_function_call(event, __perf_gate_zero, &done);

	/* The event is gone, and with it all that could count or fire. */
	if (!done) {
		guard(preempt)();
		perf_gate_defer_begin();
		perf_gate_zero(event);
		perf_gate_defer_end();
		perf_event_update_userpage(event);
	}
}

/**
 * __perf_gate_sync_child() - Add the account of an inherited event that ends
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
}
