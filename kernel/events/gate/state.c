// SPDX-License-Identifier: GPL-2.0
/*
 * Performance event gates: the members of a gate, and its states in contexts.
 *
 *      parent task's context        trigger     target --> gate (.state)
 *                                      ^           ^         ^
 *                                      | parent    | parent  | perf_gate_state::gate
 *      child task's context         trigger     target --> state
 *
 * Inherited events have neither links nor a gate of their own: the firing of a child's
 * trigger walks the links of its parent, and moves the state of each gate in the
 * child's context. So a task opens and closes its own windows only, and links are
 * changed in one place.
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
#include <linux/rculist.h>
#include <linux/slab.h>

#include "gate.h"

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
 * Return: The gate with one reference, NULL without memory.
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

static struct perf_gate_state *
perf_gate_try_get_state(struct perf_event_context *ctx, struct perf_gate *gate, int depth,
			bool guessed)
{
	struct perf_gate_state *state = perf_gate_find_state(ctx, gate);

	lockdep_assert_held(&ctx->lock);

	if (!state)
		return NULL;

	state->refs++;
	/* JOIN_GATE created this state during the fork; now the depth is known. */
	if (state->guessed && !guessed) {
		atomic_set(&state->depth, depth);
		WRITE_ONCE(state->guessed, false);
	}

	return state;
}

/*
 * Find the state of a gate in a context of inherited events, or create it with @depth.
 * For JOIN_GATE the depth is @guessed; fork(2) knows it and corrects a guess. Return
 * the state with a reference, or NULL without memory.
 */
static struct perf_gate_state *
perf_gate_get_state(struct perf_event_context *ctx, struct perf_gate *gate, int depth,
		    bool guessed)
{
	struct perf_gate_state *state, *new;

	scoped_guard(raw_spinlock_irq, &ctx->lock)
		state = perf_gate_try_get_state(ctx, gate, depth, guessed);
	if (state)
		return state;

	new = perf_gate_zalloc(sizeof(*new));
	if (!new)
		return NULL;

	atomic_set(&new->depth, depth);
	new->guessed = guessed;
	new->refs = 1;
	new->gate = gate;
	scoped_guard(raw_spinlock_irq, &ctx->lock) {
		state = perf_gate_try_get_state(ctx, gate, depth, guessed);
		if (!state) {
			refcount_inc(&gate->refs);
			latch_tree_insert(&new->node, &ctx->gate_states,
					  &perf_gate_state_ops);
		}
	}
	if (!state)
		return new;

	kfree(new);

	return state;
}

/* Drop a reference. Return the state for perf_gate_free_state() if that was the last. */
static struct perf_gate_state *
perf_gate_put_state(struct perf_event_context *ctx, struct perf_gate_state *state)
{
	lockdep_assert_held(&ctx->lock);

	if (--state->refs || state == &state->gate->state)
		return NULL;

	latch_tree_erase(&state->node, &ctx->gate_states, &perf_gate_state_ops);

	return state;
}

/* Call this without the lock of a context: kfree_rcu() may wake a task. */
static void perf_gate_free_state(struct perf_gate_state *state)
{
	if (!state)
		return;

	perf_gate_put(state->gate);
	kfree_rcu(state, rcu);
}

/* Install the account of an event, on its CPU. */
static void perf_gate_install(struct perf_event *event, struct perf_gate_change *change)
{
	if (event->gate_account)
		return;

	perf_gate_steer_init(change->account);
	if (event->gate_window) {
		perf_gate_window_resume(event);
		perf_gate_set_watched(change->account, true);
	}
	/* Readers of the event must find an initialized account. */
	smp_store_release(&event->gate_account, change->account);
	change->account = NULL;
	/*
	 * Counts after this may lie outside, so a reader that sees them must see the
	 * account, too. Pairs with smp_rmb() in perf_gate_count().
	 */
	smp_wmb();
}

/*
 * Let the event leave its state and keep the number of openings. An NMI in between
 * reads a number that is too small, but never counts openings twice.
 */
static void perf_gate_leave_state(struct perf_event *event, struct perf_gate_change *change)
{
	struct perf_gate_account *account = event->gate_account;
	struct perf_gate_state *state = event->gate_state;

	hlist_del_init_rcu(&account->active);
	/* Another gate counts its openings from 0. */
	perf_gate_drop_window(event);
	WRITE_ONCE(event->gate_state, NULL);
	barrier();
	account->opened += atomic64_read(&state->nr_opened);
	change->left = perf_gate_put_state(event->ctx, state);
}

/* Open an account that has left its gate. The caller defers firings. */
static void perf_gate_open_account(struct perf_event *event)
{
	struct perf_gate_account *account = event->gate_account;

	account->opened++;
	if (perf_gate_on_pmu(event))
		event->pmu->read(event);
	perf_gate_flip_account(account, event, perf_event_ctx_time(event), true);
}

static void __perf_gate_change(struct perf_event *event,
			       struct perf_cpu_context *cpuctx,
			       struct perf_event_context *ctx, void *info)
{
	struct perf_gate_change *change = info;
	struct perf_gate_account *account;

	lockdep_assert_held(&event->ctx->lock);

	change->done = true;
	if (change->account)
		perf_gate_install(event, change);
	account = event->gate_account;
	if (!account)
		return;

	/* Settle with the old state before the event leaves it. */
	perf_gate_settle_event(event);
	perf_gate_defer_begin();
	if (event->gate_state)
		perf_gate_leave_state(event, change);
	if (change->joins)
		account->opened = 0;
	barrier();
	WRITE_ONCE(event->gate_state, change->state);
	if (change->state && event->state == PERF_EVENT_STATE_ACTIVE)
		hlist_add_head_rcu(&account->active, &change->state->active);
	if (change->open && !account->split[0].open)
		perf_gate_open_account(event);
	perf_gate_defer_end();
	perf_gate_settle_event(event);
}

/**
 * perf_gate_is_dead() - Tell whether an event or its task is gone
 * @event:	The event
 *
 * Context: Process context, perf_event_context::mutex of the event held; for an
 *          inherited event, that mutex of its parent and its parent's
 *          perf_event::child_mutex.
 * Return: Whether it is.
 */
bool perf_gate_is_dead(struct perf_event *event)
{
	lockdep_assert(event->parent ?
		       lockdep_is_held(&event->parent->child_mutex) :
		       lockdep_is_held(&event->ctx->mutex));

	/* The CPU of the event may schedule it meanwhile, which does not change the answer. */
	return READ_ONCE(event->state) <= PERF_EVENT_STATE_EXIT;
}

/**
 * perf_gate_change() - Let an event enter or leave a state
 * @event:	The event
 * @change:	The change
 *
 * Context: As perf_gate_is_dead(). Takes perf_event_context::lock of the event.
 */
void perf_gate_change(struct perf_event *event, struct perf_gate_change *change)
{
	if (!perf_gate_is_dead(event))
		perf_event_function_call(event, __perf_gate_change, change);
	/* A dead event keeps its state. */
	if (!change->done) {
		change->open = false;
		guard(raw_spinlock_irq)(&event->ctx->lock);
		__perf_gate_change(event, NULL, event->ctx, change);
	}
	perf_gate_free_state(change->left);
}

/* Drop the references that the children up to @end got for the states to enter. */
static void perf_gate_unprepare_children(struct perf_event *event, struct perf_gate *gate,
					 struct perf_event *end, struct hlist_head *accounts)
{
	struct perf_gate_account *account;
	struct perf_gate_state *state;
	struct perf_event *child;
	struct hlist_node *next;

	list_for_each_entry(child, &event->child_list, child_list) {
		if (!child->gate_account) {
			kfree(child->gate_window);
			child->gate_window = NULL;
		}
		if (child == end)
			break;
		scoped_guard(raw_spinlock_irq, &child->ctx->lock) {
			state = perf_gate_find_state(child->ctx, gate);
			state = perf_gate_put_state(child->ctx, state);
		}
		perf_gate_free_state(state);
	}

	hlist_for_each_entry_safe(account, next, accounts, active)
		kfree(account);
}

/*
 * Allocate the accounts and states that the children of an event need in a gate, and
 * windows if these are recorded. The window of an event without an account is not in use.
 */
static int perf_gate_prepare_children(struct perf_event *event, struct perf_gate *gate,
				      int depth, struct hlist_head *accounts)
{
	struct perf_gate_account *account;
	struct perf_event *child;

	list_for_each_entry(child, &event->child_list, child_list) {
		if (!child->gate_account) {
			account = perf_gate_alloc_account(child, true);
			if (!account)
				goto error;
			hlist_add_head(&account->active, accounts);
			if (perf_gate_inherit_window(child))
				goto error;
		}
		if (!perf_gate_get_state(child->ctx, gate, depth, true))
			goto error;
		cond_resched();
	}

	return 0;

error:
	perf_gate_unprepare_children(event, gate, child, accounts);

	return -ENOMEM;
}

/* Take the account that perf_gate_prepare_children() has allocated for @child. */
static struct perf_gate_account *
perf_gate_take_account(struct perf_event *child, struct hlist_head *accounts)
{
	struct perf_gate_account *account;

	if (child->gate_account)
		return NULL;

	account = hlist_entry(accounts->first, struct perf_gate_account, active);
	hlist_del_init(&account->active);
	/* Any prepared account fits: all children of one event have the same PMU. */
	account->event = child;

	return account;
}

static void perf_gate_count_load(struct perf_gate *gate)
{
	unsigned int any = 0, here = 0, most = 0;
	struct perf_gate_member *member;
	int cpu = -1;

	list_for_each_entry(member, &gate->members, node) {
		struct perf_event *event = member->account.event;

		if (event->cpu < 0) {
			any++;
			continue;
		}
		here = event->cpu == cpu ? here + 1 : 1;
		cpu = event->cpu;
		most = max(most, here);
	}
	gate->load = any + most;
}

/* Sort members by CPU: perf_gate_count_load() and JOIN_GATE rely on it. */
static void perf_gate_add_member(struct perf_gate *gate, struct perf_event *event)
{
	struct perf_gate_member *member;

	list_for_each_entry(member, &gate->members, node) {
		if (member->account.event->cpu >= event->cpu)
			break;
	}
	list_add_tail(&perf_gate_member(event)->node, &member->node);
	perf_gate_count_load(gate);
}

/* Remove a member. The last one removes the links, so the gate ends. */
static void perf_gate_del_member(struct perf_gate *gate, struct perf_event *event)
{
	struct perf_gate_link *link, *next;

	list_del_init(&perf_gate_member(event)->node);
	perf_gate_count_load(gate);
	if (list_empty(&gate->members)) {
		list_for_each_entry_safe(link, next, &gate->links, gate_node)
			perf_gate_unlink(link, PERF_GATE_TOGGLE);
	}
	perf_gate_put(gate);
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
	bool joins = !list_empty(&gate->members);
	struct perf_gate_change change = { .state = &gate->state, .joins = joins };
	struct perf_gate *former = event->gate;
	struct perf_event *child;
	HLIST_HEAD(accounts);
	int ret;

	lockdep_assert_held(&event->ctx->mutex);

	guard(mutex)(&event->child_mutex);

	ret = perf_gate_prepare_children(event, gate, depth, &accounts);
	if (ret)
		return ret;

	if (!event->gate_account) {
		change.account = &(*member)->account;
		perf_gate_init_account(change.account, event, true);
		/* So far the windows of inherited events covered all of their time. */
		atomic64_set(&(*member)->child_running,
			     atomic64_read(&event->child_total_time_running));
		atomic64_set(&(*member)->child_total, atomic64_read(&event->child_count));
		*member = NULL;
	} else if (joins) {
		/* From now on the openings of the gate count, for ended children as well. */
		atomic64_set(&perf_gate_member(event)->child_opened, 0);
	}
	scoped_guard(raw_spinlock_irq, &event->ctx->lock)
		gate->state.refs++;
	perf_gate_change(event, &change);

	if (former)
		perf_gate_del_member(former, event);
	refcount_inc(&gate->refs);
	WRITE_ONCE(event->gate, gate);
	perf_gate_add_member(gate, event);

	list_for_each_entry(child, &event->child_list, child_list) {
		change = (struct perf_gate_change) {
			.account	= perf_gate_take_account(child, &accounts),
			.joins		= joins,
		};
		/* perf_gate_prepare_children() got a reference, so the state stays. */
		scoped_guard(rcu)
			change.state = perf_gate_find_state(child->ctx, gate);
		perf_gate_change(child, &change);
		cond_resched();
	}

	return 0;
}

/**
 * perf_gate_exit() - Let an event and its children leave their gate
 * @event:	Opened event that is a member of a gate, or has left one
 * @open:	Open them. Otherwise they keep their state.
 *
 * Context: Process context, perf_event_context::mutex of @event held unless it has no
 *          context yet. Takes perf_event::child_mutex.
 */
void perf_gate_exit(struct perf_event *event, bool open)
{
	struct perf_gate *gate = event->gate;
	struct perf_gate_change change = { .open = open };
	struct perf_event *child;

	guard(mutex)(&event->child_mutex);

	WRITE_ONCE(event->gate, NULL);
	perf_gate_change(event, &change);
	list_for_each_entry(child, &event->child_list, child_list) {
		change = (struct perf_gate_change) { .open = open };
		perf_gate_change(child, &change);
		cond_resched();
	}
	if (gate)
		perf_gate_del_member(gate, event);
}

static void __perf_gate_set(struct perf_event *event,
			    struct perf_cpu_context *cpuctx,
			    struct perf_event_context *ctx, void *info)
{
	struct perf_gate_state *state = event->gate_state;
	struct perf_gate_account *account;
	bool open = *(bool *)info;
	bool was_open;

	WRITE_ONCE(state->guessed, false);
	was_open = atomic_xchg(&state->depth, open);
	if (open == was_open)
		return;
	if (open)
		atomic64_inc(&state->nr_opened);
	perf_gate_trace_move(NULL, state->gate, open);

	hlist_for_each_entry(account, &state->active, active)
		perf_gate_settle_event(account->event);
}

/* Set the state of the context of an event, unless another member has done it. */
static void perf_gate_set(struct perf_event *event, bool open)
{
	struct perf_gate_state *state = event->gate_state;

	if (!state || perf_gate_is_dead(event) ||
	    (atomic_read(&state->depth) == open && !READ_ONCE(state->guessed)))
		return;

	perf_event_function_call(event, __perf_gate_set, &open);
}

/**
 * perf_gate_set_all() - Open or close a gate in all contexts
 * @gate:	The gate
 * @open:	New state of the gate
 *
 * In a context whose members are all dead, the gate keeps its state.
 *
 * Context: Process context, perf_event_context::mutex of the members held. Takes
 *          perf_event::child_mutex of each.
 */
void perf_gate_set_all(struct perf_gate *gate, bool open)
{
	struct perf_gate_member *member;
	struct perf_event *event, *child;

	list_for_each_entry(member, &gate->members, node) {
		event = member->account.event;
		perf_gate_set(event, open);

		guard(mutex)(&event->child_mutex);

		list_for_each_entry(child, &event->child_list, child_list) {
			perf_gate_set(child, open);
			cond_resched();
		}
	}
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
	gate->state.refs = 1;
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
	struct perf_gate_account *account;
	struct perf_gate_state *state;
	int depth;

	lockdep_assert_held(&child->parent->child_mutex);

	account = perf_gate_alloc_account(child, true);
	if (!account || perf_gate_inherit_window(child)) {
		kfree(account);
		return -ENOMEM;
	}
	perf_gate_set_watched(account, child->gate_window);

	depth = source->gate_state ? atomic_read(&source->gate_state->depth) : 1;
	if (child->ctx->gate_thread && READ_ONCE(gate->nr_starters))
		depth = 0;
	state = perf_gate_get_state(child->ctx, gate, depth, false);
	if (!state) {
		kfree(account);
		return -ENOMEM;
	}

	/* The event has no count yet, so its account can start in the state of the gate. */
	account->split[0].open = atomic_read(&state->depth);
	account->split[1].open = account->split[0].open;
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
		scoped_guard(raw_spinlock_irq, &event->ctx->lock)
			state = perf_gate_put_state(event->ctx, state);
		perf_gate_free_state(state);
	}
	/* A firing queues the work only for running events, and this event will not run again. */
	irq_work_sync(&event->gate_account->work);
	perf_gate_release_window(event);
	if (!event->parent)
		perf_gate_put_key();
}
