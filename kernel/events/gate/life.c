// SPDX-License-Identifier: GPL-2.0
/*
 * Performance event gates: the life of a gate, and of its members.
 *
 *      opened event                                 inherited event
 *
 *      start_paused         __perf_gate_init()
 *      SET_*, JOIN_GATE     perf_gate_enter()       fork: __perf_gate_inherit()
 *                 |                                           |
 *      CLEAR_GATE           perf_gate_exit()                  |
 *      close                __perf_gate_detach()              |
 *                 |                                           |
 *                 `-----------> __perf_gate_release() <-------'
 *                                        |
 *                               perf_gate_free_rcu()
 *
 * A gate lives as long as a member, a link or the state of a context refers to it.
 *
 * Two paths make inherited events members. perf_event::child_mutex of the parent
 * ensures that no event is left out, whichever path runs first:
 *
 *   fork              __perf_gate_inherit() reads perf_event::gate of the parent in
 *                     the section that puts the child on the list of its parent.
 *   SET_*, JOIN_GATE  perf_gate_enter() sets perf_event::gate in the section that
 *                     walks this list.
 *
 * An event that ends leaves this list under child_mutex as well, and drops its
 * reference to the state when it is freed. perf_gate_enter() allocates before it
 * changes anything, so it succeeds as a whole or changes nothing.
 */

#include <linux/mutex.h>
#include <linux/perf_event.h>
#include <linux/slab.h>

#include "gate.h"
#include "windows.h"

/**
 * perf_gate_put() - Drop a reference to a gate
 * @gate:	The gate
 *
 * Context: Process context, perf_event_context::lock not held.
 */
void perf_gate_put(struct perf_gate *gate)
{
	if (refcount_dec_and_test(&gate->refs))
		kfree_rcu(gate, rcu);
}

/**
 * perf_gate_alloc() - Allocate a gate
 * @event:	The event that becomes its first member
 * @depth:	Its initial depth
 *
 * Context: Process context, may sleep.
 * Return: The gate with one reference, or NULL if out of memory.
 */
struct perf_gate *perf_gate_alloc(struct perf_event *event, int depth)
{
	struct perf_gate *gate = perf_gate_zalloc(sizeof(*gate));

	if (!gate)
		return NULL;

	atomic_set(&gate->state.depth, depth);
	gate->state.gate = gate;
	gate->id = event->id;
	gate->nest = event->attr.gate_nest;
	refcount_set(&gate->refs, 1);
	INIT_LIST_HEAD(&gate->links);
	INIT_LIST_HEAD(&gate->members);

	return gate;
}

/**
 * perf_gate_compute_load() - Compute perf_gate::load
 * @gate:	The gate
 * @more:	Event to be counted as one more member, or NULL
 *
 * Context: Process context, perf_event_context::mutex of the members held.
 * Return: The maximum number of members that can run on one CPU.
 */
unsigned int perf_gate_compute_load(struct perf_gate *gate, struct perf_event *more)
{
	unsigned int any = more && more->cpu < 0, most = more && more->cpu >= 0, here = 0;
	struct perf_gate_member *member;
	int last = -1;

	list_for_each_entry(member, &gate->members, node) {
		int cpu = member->account.event->cpu;

		if (cpu < 0) {
			any++;
			continue;
		}
		if (cpu != last)
			here = more && more->cpu == cpu;
		last = cpu;
		most = max(most, ++here);
	}

	return any + most;
}

/* Add a member in the order of CPUs, on which perf_gate_compute_load() relies. */
static void perf_gate_add_member(struct perf_gate *gate, struct perf_event *event)
{
	struct perf_gate_member *member;

	list_for_each_entry(member, &gate->members, node) {
		if (member->account.event->cpu >= event->cpu)
			break;
	}
	list_add_tail(&perf_gate_member(event)->node, &member->node);
	gate->load = perf_gate_compute_load(gate, NULL);
}

/* Remove a member. With the last member remove the links, so that the gate ends. */
static void perf_gate_del_member(struct perf_gate *gate, struct perf_event *event)
{
	struct perf_gate_link *link, *next;

	list_del_init(&perf_gate_member(event)->node);
	gate->load = perf_gate_compute_load(gate, NULL);
	if (list_empty(&gate->members)) {
		list_for_each_entry_safe(link, next, &gate->links, gate_node)
			perf_gate_unlink(link, PERF_GATE_TOGGLE);
	}
	perf_gate_put(gate);
}

/*
 * Prepare a change for each child of an event: the state of @gate in its context, and an
 * account if it has none, with a window if these are recorded. The window of an event
 * without an account is not in use.
 */
static int perf_gate_prepare_children(struct perf_event *event, struct perf_gate *gate,
				      int depth, struct hlist_head *changes)
{
	struct perf_gate_change *change;
	struct perf_event *child;

	list_for_each_entry(child, &event->child_list, child_list) {
		change = perf_gate_zalloc(sizeof(*change));
		if (!change)
			return -ENOMEM;

		hlist_add_head(&change->node, changes);
		change->event = child;
		change->joins = !list_empty(&gate->members);
		if (!child->gate_account) {
			if (perf_gate_inherit_window(child))
				return -ENOMEM;
			change->account = perf_gate_alloc_account(child, true);
			if (!change->account)
				return -ENOMEM;
		}
		change->state = perf_gate_get_state(child->ctx, gate, depth, true);
		if (!change->state)
			return -ENOMEM;

		cond_resched();
	}

	return 0;
}

/* Undo what perf_gate_prepare_children() did for one child. */
static void perf_gate_cancel_change(struct perf_gate_change *change)
{
	struct perf_event *event = change->event;

	if (!event->gate_account) {
		kfree(event->gate_window);
		event->gate_window = NULL;
		kfree(change->account);
	}
	if (change->state)
		perf_gate_drop_state(event->ctx, change->state);
}

/* Let the event itself enter a gate. */
static void perf_gate_enter_alone(struct perf_event *event, struct perf_gate *gate,
				  struct perf_gate_member **member)
{
	struct perf_gate_change change = {
		.event	= event,
		.state	= &gate->state,
		.joins	= !list_empty(&gate->members),
	};
	struct perf_gate *former = event->gate;

	if (!event->gate_account) {
		change.account = &(*member)->account;
		perf_gate_init_account(change.account, event, true);
		/* So far the windows of inherited events covered all of their time. */
		atomic64_set(&(*member)->child_running,
			     atomic64_read(&event->child_total_time_running));
		atomic64_set(&(*member)->child_total, atomic64_read(&event->child_count));
		*member = NULL;
	} else if (change.joins) {
		/* From now on the openings of the gate count, for ended children as well. */
		atomic64_set(&perf_gate_member(event)->child_opened, 0);
	}
	perf_gate_change(&change);

	if (former)
		perf_gate_del_member(former, event);
	refcount_inc(&gate->refs);
	WRITE_ONCE(event->gate, gate);
	perf_gate_add_member(gate, event);
}

/**
 * perf_gate_enter() - Make an event and its children members of a gate
 * @event:	Opened event that has no gate, or is the only member of a gate
 *		without links
 * @gate:	The gate
 * @depth:	Depth of the gate in contexts that have no member so far
 * @member:	Account for the event; set to NULL if it was used
 *
 * Context: Process context, perf_event_context::mutex of @event held. Takes
 *          perf_event::child_mutex.
 * Return: 0, or -ENOMEM and nothing has changed.
 */
int perf_gate_enter(struct perf_event *event, struct perf_gate *gate, int depth,
		    struct perf_gate_member **member)
{
	struct perf_gate_change *change;
	struct hlist_node *next;
	HLIST_HEAD(changes);
	int ret;

	lockdep_assert_held(&event->ctx->mutex);

	guard(mutex)(&event->child_mutex);

	ret = perf_gate_prepare_children(event, gate, depth, &changes);
	if (!ret)
		perf_gate_enter_alone(event, gate, member);
	hlist_for_each_entry_safe(change, next, &changes, node) {
		if (ret)
			perf_gate_cancel_change(change);
		else
			perf_gate_change(change);
		kfree(change);
		cond_resched();
	}

	return ret;
}

/**
 * perf_gate_exit() - Let an event and its children leave their gate
 * @event:	Opened event that is a member of a gate, or has left one
 * @open:	Whether to open them. Otherwise they keep their state.
 *
 * Context: Process context, perf_event_context::mutex of @event held unless it has no
 *          context yet. Takes perf_event::child_mutex.
 */
void perf_gate_exit(struct perf_event *event, bool open)
{
	struct perf_gate *gate = event->gate;
	struct perf_gate_change change = { .event = event, .open = open };
	struct perf_event *child;

	guard(mutex)(&event->child_mutex);

	WRITE_ONCE(event->gate, NULL);
	perf_gate_change(&change);
	list_for_each_entry(child, &event->child_list, child_list) {
		change = (struct perf_gate_change) { .event = child, .open = open };
		perf_gate_change(&change);
		cond_resched();
	}
	if (gate)
		perf_gate_del_member(gate, event);
}

/**
 * __perf_gate_init() - Give a new event a gate of its own, which is closed
 * @event:	Event that nothing else refers to, with attr.start_paused
 *
 * Context: Process context, as perf_gate_alloc_member().
 * Return: 0, -EOPNOTSUPP if a gate could not drop its samples, -ENOMEM.
 */
int __perf_gate_init(struct perf_event *event)
{
	struct perf_gate_member *member;
	struct perf_gate *gate;

	if (!perf_gate_can_filter(event))
		return -EOPNOTSUPP;

	gate = perf_gate_alloc(event, 0);
	if (!gate)
		return -ENOMEM;

	member = perf_gate_alloc_member();
	if (!member) {
		kfree(gate);
		return -ENOMEM;
	}

	perf_gate_init_account(&member->account, event, false);
	event->gate_account = &member->account;
	event->gate_state = &gate->state;
	event->gate = gate;
	perf_gate_add_member(gate, event);

	return 0;
}

/**
 * __perf_gate_inherit() - Make an inherited event a member of the gate of its parent
 * @child:	The event, not yet on any list
 * @source:	The event of the forking task that @child is a copy of
 *
 * A new process starts with the state of the task that forks, because it returns from
 * the same functions. A new thread starts outside of the windows that triggers open.
 *
 * Context: Process context, perf_event::child_mutex of the parent held.
 * Return: 0, -ENOMEM.
 */
int __perf_gate_inherit(struct perf_event *child, struct perf_event *source)
{
	struct perf_gate *gate = child->parent->gate;
	struct perf_gate_account *account = NULL;
	struct perf_gate_state *state;
	int depth;

	lockdep_assert_held(&child->parent->child_mutex);

	depth = source->gate_state ? atomic_read(&source->gate_state->depth) : 1;
	if (child->ctx->gate_thread && READ_ONCE(gate->nr_starters))
		depth = 0;
	state = perf_gate_get_state(child->ctx, gate, depth, false);
	if (!state)
		return -ENOMEM;

	/* The event has no count yet, so its account can start in the state of the gate. */
	if (!perf_gate_inherit_window(child))
		account = perf_gate_alloc_account(child, atomic_read(&state->depth));
	if (!account) {
		kfree(child->gate_window);
		child->gate_window = NULL;
		perf_gate_drop_state(child->ctx, state);
		return -ENOMEM;
	}
	child->gate_account = account;
	child->gate_state = state;

	return 0;
}

/**
 * __perf_gate_detach() - Remove an event's links and let it leave its gate
 * @event:	Event with links or a gate, on no list of a context
 *
 * The gates that the event moved keep their state, so that their counts do not
 * change. The account of the event keeps its state, too.
 *
 * Context: Process context, perf_event_context::mutex of @event held.
 */
void __perf_gate_detach(struct perf_event *event)
{
	struct perf_gate_link *link;
	struct hlist_node *next;

	hlist_for_each_entry_safe(link, next, &event->gate_links, node)
		perf_gate_unlink(link, PERF_GATE_TOGGLE);
	if (event->gate)
		perf_gate_exit(event, false);
}

/**
 * __perf_gate_release() - Let an event that is being freed leave its state
 * @event:	Event on no list of a context, without other references
 *
 * The account stays until perf_gate_free_rcu().
 *
 * Context: Process context. Takes perf_event_context::lock of an inherited event.
 */
void __perf_gate_release(struct perf_event *event)
{
	struct perf_gate_state *state = event->gate_state;

	/* perf_gate_detach() did this for events that were in a context. */
	if (!event->parent && event->gate) {
		event->gate_state = NULL;
		list_del(&perf_gate_member(event)->node);
		perf_gate_put(event->gate);
	} else if (state) {
		perf_gate_drop_state(event->ctx, state);
	}
	/* A firing queues the work only for running events, and this event will not run again. */
	irq_work_sync(&event->gate_account->work);
	perf_gate_release_window(event);
	if (!event->parent)
		perf_gate_put_key();
}
