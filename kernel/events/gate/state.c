// SPDX-License-Identifier: GPL-2.0
/*
 * Performance event gates: the states of a gate in contexts.
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
 * An event changes its state where its account is written: on its CPU, or under the lock
 * of its context while it does not run.
 */

#include <linux/mutex.h>
#include <linux/perf_event.h>
#include <linux/rculist.h>
#include <linux/slab.h>

#include "gate.h"
#include "windows.h"

static struct perf_gate_state *
perf_gate_try_get_state(struct perf_event_context *ctx, struct perf_gate *gate, int depth,
			bool guessed)
{
	struct perf_gate_state *state = perf_gate_find_state(ctx, gate);

	lockdep_assert_held(&ctx->lock);

	if (!state)
		return NULL;

	state->refs++;
	/* An ioctl created this state with a guess; fork(2) knows the depth. */
	if (state->guessed && !guessed) {
		atomic_set(&state->depth, depth);
		WRITE_ONCE(state->guessed, false);
	}

	return state;
}

/**
 * perf_gate_get_state() - Find or create the state of a gate in a context
 * @ctx:	Context of inherited events
 * @gate:	The gate
 * @depth:	Depth of a new state
 * @guessed:	JOIN_GATE guesses the depth; fork(2) knows it and corrects a guess
 *
 * Context: Process context, may sleep. Takes perf_event_context::lock.
 * Return: The state with a reference, or NULL if out of memory.
 */
struct perf_gate_state *perf_gate_get_state(struct perf_event_context *ctx,
					    struct perf_gate *gate, int depth, bool guessed)
{
	struct perf_gate_state *state, *new;

	/* fork(2) finds the state for all members of the gate but the first. */
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
		/* JOIN_GATE may have created the state meanwhile. */
		state = perf_gate_try_get_state(ctx, gate, depth, guessed);
		if (!state) {
			refcount_inc(&gate->refs);
			latch_tree_insert(&new->node, &ctx->gate_states, &perf_gate_state_ops);
			swap(state, new);
		}
	}
	kfree(new);

	return state;
}

/* Drop a reference. Return the state for perf_gate_free_state() if that was the last. */
static struct perf_gate_state *
perf_gate_put_state(struct perf_event_context *ctx, struct perf_gate_state *state)
{
	lockdep_assert_held(&ctx->lock);

	if (state == &state->gate->state || --state->refs)
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

/**
 * perf_gate_drop_state() - Drop a reference to a state
 * @ctx:	Context of the state
 * @state:	The state
 *
 * Context: Process context. Takes perf_event_context::lock.
 */
void perf_gate_drop_state(struct perf_event_context *ctx, struct perf_gate_state *state)
{
	scoped_guard(raw_spinlock_irq, &ctx->lock)
		state = perf_gate_put_state(ctx, state);
	perf_gate_free_state(state);
}

/* Install the account of an event, on its CPU or while the event does not run. */
static void perf_gate_install(struct perf_event *event, struct perf_gate_change *change)
{
	perf_gate_steer_init(change->account);
	if (event->gate_window)
		perf_gate_window_resume(event);
	/* Readers of the event must find an initialized account. */
	smp_store_release(&event->gate_account, change->account);
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
	/* Another gate counts openings from 0 and could reach this window's number. */
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
	perf_gate_flip_account(account, event, perf_event_ctx_time(event));
}

static void __perf_gate_change(struct perf_event *event, void *data)
{
	struct perf_gate_change *change = data;
	struct perf_gate_account *account;

	lockdep_assert_held(&event->ctx->lock);

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
	/* The account of a dead event is not opened. */
	if (change->open && !account->split[0].open && event->state > PERF_EVENT_STATE_EXIT)
		perf_gate_open_account(event);
	perf_gate_defer_end();
	perf_gate_settle_event(event);
}

/*
 * Tell whether an event or its task is gone. The CPU of the event may schedule it
 * meanwhile, which does not change the answer.
 */
static bool perf_gate_is_dead(struct perf_event *event)
{
	lockdep_assert(event->parent ?
		       lockdep_is_held(&event->parent->child_mutex) :
		       lockdep_is_held(&event->ctx->mutex));

	return READ_ONCE(event->state) <= PERF_EVENT_STATE_EXIT;
}

struct perf_gate_call {
	void		(*func)(struct perf_event *event, void *data);
	void		*data;
	bool		done;
};

static void __perf_gate_call(struct perf_event *event, struct perf_cpu_context *cpuctx,
			     struct perf_event_context *ctx, void *info)
{
	struct perf_gate_call *call = info;

	call->func(event, call->data);
	call->done = true;
}

/**
 * perf_gate_call() - Call a function that changes what firings read of an event
 * @event:	The event
 * @func:	The function. It runs with perf_event_context::lock of the event held, on
 *		the CPU of the event if that runs.
 * @data:	For @func
 *
 * Context: Process context, perf_event_context::mutex of the event held; for an
 *          inherited event, that mutex of its parent and its parent's
 *          perf_event::child_mutex. Takes perf_event_context::lock of the event.
 */
void perf_gate_call(struct perf_event *event,
		    void (*func)(struct perf_event *event, void *data), void *data)
{
	struct perf_gate_call call = { .func = func, .data = data };

	if (!perf_gate_is_dead(event))
		perf_event_function_call(event, __perf_gate_call, &call);
	/* Nothing of a dead event counts or fires any more, so this CPU may do it. */
	if (!call.done) {
		guard(raw_spinlock_irq)(&event->ctx->lock);
		func(event, data);
	}
}

/**
 * perf_gate_change() - Let an event enter or leave a state
 * @change:	The change
 *
 * Context: As perf_gate_call().
 */
void perf_gate_change(struct perf_gate_change *change)
{
	perf_gate_call(change->event, __perf_gate_change, change);
	perf_gate_free_state(change->left);
}

static void __perf_gate_set(struct perf_event *event, void *data)
{
	struct perf_gate_state *state = event->gate_state;
	struct perf_gate_account *account;
	bool open = *(bool *)data;
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

/* Set the state of a gate in an event's context, unless another member has done it. */
static void perf_gate_set(struct perf_event *event, bool open)
{
	struct perf_gate_state *state = event->gate_state;

	if (!state || perf_gate_is_dead(event) ||
	    (atomic_read(&state->depth) == open && !READ_ONCE(state->guessed)))
		return;

	perf_gate_call(event, __perf_gate_set, &open);
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
