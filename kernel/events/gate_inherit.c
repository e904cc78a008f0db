// SPDX-License-Identifier: GPL-2.0
/*
 * Performance event gates: inheritance.
 *
 *      parent task       trigger -----link-----> target      what files refer to
 *                           ^                       ^
 *                           | parent                | parent
 *      child task        trigger -----link-----> target      in one context
 *
 * Inherited events are linked as their parents are, each pair within the context
 * of its task, so a task opens and closes its own gates only. A new task starts
 * with the state that the gates of the forking task have, and its gates count
 * for those of their parents: perf_gate_read_values() and sync_child_event().
 *
 * Three paths bring events and links together, and perf_gate_mutex() together with
 * perf_event::child_mutex makes sure that no pair is left out, whichever of them
 * comes first:
 *
 *   fork     An inherited event gets its gate and state with child_mutex held
 *            when it is put on the list of its parent. When all events of the
 *            task are there, they are linked as their parents are by then.
 *   SET_*    Pairs that exist are looked for with both child_mutexes held. None
 *            of their events is freed before they are linked, because that takes
 *            perf_gate_mutex(), too. A pair of which one event is still to come
 *            is left to the fork.
 *   exit     An event leaves the list of its parent under child_mutex, and
 *            breaks its links when it is freed.
 *
 * Contexts of clones are exchanged instead of scheduled where nobody can tell
 * them apart. The state of a gate can: a context with gates of inherited events
 * is counted in perf_event_context::nr_no_switch_fast.
 */

#include <linux/mutex.h>
#include <linux/perf_event.h>
#include <linux/rculist.h>
#include <linux/slab.h>

#include <asm/local.h>

#include "internal.h"
#include "gate.h"

/**
 * __perf_gate_pin() - Bind the context of an event to its task
 * @event:	Event that has a gate and is in the lists of its context
 *
 * Context: CPU of the context if that is active, perf_event_context::lock held.
 */
void __perf_gate_pin(struct perf_event *event)
{
	lockdep_assert_held(&event->ctx->lock);

	if (!event->attr.inherit || event->gate->pins)
		return;

	event->gate->pins = true;
	local_inc(&event->ctx->nr_no_switch_fast);
}

/**
 * __perf_gate_unpin() - Undo __perf_gate_pin()
 * @event:	Event that has a gate and leaves the lists of its context
 *
 * Context: As __perf_gate_pin().
 */
void __perf_gate_unpin(struct perf_event *event)
{
	lockdep_assert_held(&event->ctx->lock);

	if (!event->gate->pins)
		return;

	event->gate->pins = false;
	local_dec(&event->ctx->nr_no_switch_fast);
}

static void perf_gate_pin_function(struct perf_event *event,
				   struct perf_cpu_context *cpuctx,
				   struct perf_event_context *ctx, void *info)
{
	struct perf_gate *gate = event->gate;

	if (event->attach_state & PERF_ATTACH_CONTEXT)
		__perf_gate_pin(event);

	/* Whoever has paused it until now has not asked the gate. */
	if (gate->aux) {
		gate->aux_request = event->hw.aux_paused;
		gate->stopped = event->hw.aux_paused;
	}
}

/**
 * perf_gate_pin() - Take an event that got a gate as it is on its CPU
 * @event:	The event
 *
 * If it is inherited by new tasks, its context is bound to its task from here on.
 *
 * Context: Process context. perf_event_context::mutex of the event held, or that
 *          of its parent's context and perf_event::child_mutex of its parent.
 */
void perf_gate_pin(struct perf_event *event)
{
	if ((event->attr.inherit || has_aux(event)) &&
	    READ_ONCE(event->state) > PERF_EVENT_STATE_EXIT)
		event_function_call(event, perf_gate_pin_function, NULL);
}

/**
 * __perf_gate_inherit() - Give an inherited event the gate of its parent
 * @child:	The event, in no list yet
 * @source:	The event of the forking task that it is the copy of
 *
 * Context: Process context, perf_event::child_mutex of the parent held.
 * Return: 0, -ENOMEM.
 */
int __perf_gate_inherit(struct perf_event *child, struct perf_event *source)
{
	int depth = 1;

	lockdep_assert_held(&child->parent->child_mutex);

	if (source->gate)
		depth = atomic_read(&READ_ONCE(source->gate->state)->depth);

	child->gate = perf_gate_alloc_nokey(child, depth);

	return child->gate ? 0 : -ENOMEM;
}

/**
 * perf_gate_ensure() - Give an inherited event that is there a gate, which is open
 * @child:	The event
 *
 * Context: Process context, perf_gate_mutex() held, and perf_event::child_mutex of
 *          its parent or perf_event_context::mutex of a task that does not run yet.
 * Return: 0, -ENOMEM.
 */
int perf_gate_ensure(struct perf_event *child)
{
	struct perf_gate *gate;

	lockdep_assert_held(perf_gate_mutex(child));
	lockdep_assert(lockdep_is_held(&child->parent->child_mutex) ||
		       lockdep_is_held(&child->ctx->mutex));

	if (child->gate)
		return 0;

	gate = perf_gate_alloc_nokey(child, 1);
	if (!gate)
		return -ENOMEM;

	/* The event's readers find a gate that is set up. */
	smp_store_release(&child->gate, gate);
	perf_gate_pin(child);

	return 0;
}

/* Link an event of a new task to those that inherit from its parent's targets. */
static int perf_gate_inherit_from(struct perf_event *event)
{
	struct perf_gate_link *link, *spare;
	int ret;

	list_for_each_entry(link, &event->parent->gate->links, node) {
		struct perf_gate *heir = link->target->heir;

		if (!heir)
			continue;

		ret = perf_gate_ensure(event);
		if (ret)
			return ret;

		spare = kzalloc(sizeof(*spare), GFP_KERNEL);
		if (!spare)
			return -ENOMEM;

		if (link->role & PERF_GATE_STARTER)
			perf_gate_make_link(event->gate, heir,
					    PERF_GATE_STARTER, &spare);
		if (link->role & PERF_GATE_STOPPER)
			perf_gate_make_link(event->gate, heir,
					    PERF_GATE_STOPPER, &spare);
		kfree(spare);
	}

	return 0;
}

/* @event is to be linked as the events of this family are. */
static bool perf_gate_is_heir(struct perf_event *event, struct mutex *family)
{
	return READ_ONCE(event->parent->gate) && perf_gate_mutex(event) == family;
}

/* Link those events of @ctx whose parents are in one context. */
static int perf_gate_inherit_family(struct perf_event_context *ctx,
				    struct mutex *family)
{
	struct perf_event *event;
	struct perf_gate *gate;
	int ret = 0;

	guard(mutex)(family);

	/* An event whose gate others have joined has what they are to join here. */
	list_for_each_entry(event, &ctx->event_list, event_entry) {
		if (!perf_gate_is_heir(event, family) || !event->gate)
			continue;
		event->gate->linked = true;
		gate = event->parent->gate->state;
		if (event->gate->state != event->gate)
			gate->heir = event->gate->state;
		else if (event->parent->gate == gate && !gate->heir)
			gate->heir = event->gate;
	}

	list_for_each_entry(event, &ctx->event_list, event_entry) {
		if (!ret && event->gate && perf_gate_is_heir(event, family) &&
		    event->parent->gate->state->members)
			ret = perf_gate_inherit_member(event);
	}

	list_for_each_entry(event, &ctx->event_list, event_entry) {
		if (!ret && perf_gate_is_heir(event, family))
			ret = perf_gate_inherit_from(event);
	}

	list_for_each_entry(event, &ctx->event_list, event_entry) {
		if (perf_gate_is_heir(event, family))
			event->parent->gate->state->heir = NULL;
	}

	return ret;
}

/**
 * __perf_gate_inherit_links() - Link the events of a new task as their parents are
 * @ctx:	Context of a task that does not run yet
 *
 * Context: Process context, no perf_event_context::mutex held. Takes that of @ctx
 *          and perf_gate_mutex() of its events, one after the other.
 * Return: 0, -ENOMEM.
 */
int __perf_gate_inherit_links(struct perf_event_context *ctx)
{
	struct perf_event *event;
	int ret;

	guard(mutex)(&ctx->mutex);

	/*
	 * They are all on the lists of their parents, so whoever makes links from
	 * here on finds them, and whoever did before has left a gate there.
	 */
	list_for_each_entry(event, &ctx->event_list, event_entry) {
		if (!READ_ONCE(event->parent->gate) ||
		    (READ_ONCE(event->gate) && event->gate->linked))
			continue;

		ret = perf_gate_inherit_family(ctx, perf_gate_mutex(event));
		if (ret)
			return ret;
	}

	return 0;
}

/* The event of @ctx that inherits from @trigger. */
static struct perf_event *perf_gate_partner(struct perf_event *trigger,
					    struct perf_event_context *ctx)
{
	struct perf_event *event;

	/* It neither comes nor goes. */
	lockdep_assert_held(&trigger->child_mutex);

	guard(rcu)();

	list_for_each_entry_rcu(event, &ctx->event_list, event_entry) {
		if (event->parent == trigger)
			return event;
	}

	return NULL;
}

/* A walk over the members of families comes by at each gate once. */
static atomic64_t perf_gate_rounds;

/* perf_gate_prepare_children() for one event of those that share a gate. */
static int perf_gate_prepare_member(struct perf_event *trigger,
				    struct perf_event *target, u64 round,
				    struct list_head *spares)
{
	struct perf_event *child, *partner;
	struct perf_gate_link *spare;
	struct perf_gate *gate;
	int ret = 0;

	mutex_lock_nested(&target->child_mutex, SINGLE_DEPTH_NESTING);
	list_for_each_entry(child, &target->child_list, child_list) {
		ret = perf_gate_ensure(child);
		if (ret)
			break;

		gate = child->gate->state;
		partner = gate->round == round ? NULL :
						 perf_gate_partner(trigger, child->ctx);
		if (!partner)
			continue;

		gate->round = round;
		ret = perf_gate_ensure(partner);
		if (ret)
			break;

		spare = kzalloc(sizeof(*spare), GFP_KERNEL);
		if (!spare) {
			ret = -ENOMEM;
			break;
		}
		spare->trigger = partner->gate;
		spare->target = gate;
		list_add(&spare->node, spares);
		cond_resched();
	}
	mutex_unlock(&target->child_mutex);

	return ret;
}

/**
 * perf_gate_prepare_children() - Allocate what linking inherited events takes
 * @trigger:	The trigger
 * @target:	The target, which has a gate
 * @spares:	Receives a link for each pair, with perf_gate_link::trigger and
 *		perf_gate_link::target
 *
 * Gates that inherited events get here are open. Pairs that come later are linked
 * by the fork that they come with. Those that are here cannot be freed as long as
 * the lock of their family is held.
 *
 * Context: Process context, perf_event_context::mutex and perf_gate_mutex() held.
 *          Takes both perf_event::child_mutex.
 * Return: 0, -ENOMEM, which leaves @spares to perf_gate_free_spares().
 */
int perf_gate_prepare_children(struct perf_event *trigger,
			       struct perf_event *target,
			       struct list_head *spares)
{
	struct perf_gate *gate = target->gate->state;
	u64 round = atomic64_inc_return(&perf_gate_rounds);
	struct perf_gate *member;
	int ret = 0;

	guard(mutex)(&trigger->child_mutex);

	if (!gate->members)
		return perf_gate_prepare_member(trigger, target, round, spares);

	list_for_each_entry(member, &gate->members->all, member) {
		ret = perf_gate_prepare_member(trigger, member->event, round, spares);
		if (ret)
			break;
	}

	return ret;
}

/**
 * perf_gate_free_spares() - Free links that are not needed
 * @spares:	From perf_gate_prepare_children()
 *
 * Context: Process context.
 */
void perf_gate_free_spares(struct list_head *spares)
{
	struct perf_gate_link *spare, *next;

	list_for_each_entry_safe(spare, next, spares, node)
		kfree(spare);
}

/**
 * perf_gate_link_children() - Link inherited events as their parents are
 * @spares:	From perf_gate_prepare_children()
 * @role:	Role that the trigger has got
 *
 * Context: As perf_gate_prepare_children(), with perf_gate_mutex() held since then.
 */
void perf_gate_link_children(struct list_head *spares, unsigned int role)
{
	struct perf_gate_link *spare, *next;

	list_for_each_entry_safe(spare, next, spares, node) {
		list_del(&spare->node);
		perf_gate_make_link(spare->trigger, spare->target->state, role, &spare);
		kfree(spare);
	}
}

static void perf_gate_set_children(struct perf_event *target, bool open,
				   u64 round)
{
	struct perf_event *child;

	guard(mutex)(&target->child_mutex);

	list_for_each_entry(child, &target->child_list, child_list) {
		if (!child->gate || child->gate->state->round == round)
			continue;
		child->gate->state->round = round;
		perf_gate_set(child, open);
	}
}

/**
 * perf_gate_set_family() - Open or close the gates of an event and its heirs
 * @target:	Event that has a gate and is not inherited itself
 * @open:	The state that they are to have
 *
 * Context: Process context, perf_event_context::mutex and perf_gate_mutex() held.
 */
void perf_gate_set_family(struct perf_event *target, bool open)
{
	struct perf_gate *gate = target->gate->state;
	u64 round = atomic64_inc_return(&perf_gate_rounds);
	struct perf_gate *member;

	perf_gate_set(target, open);
	if (!gate->members) {
		perf_gate_set_children(target, open, round);
		return;
	}

	list_for_each_entry(member, &gate->members->all, member)
		perf_gate_set_children(member->event, open, round);
}

/**
 * __perf_gate_sync_child() - Fold the gate of an inherited event that ends
 * @child:	The event, which runs no more
 *
 * Context: perf_event::child_mutex of its parent and perf_event_context::lock
 *          held.
 */
void __perf_gate_sync_child(struct perf_event *child)
{
	struct perf_gate *gate = child->parent->gate;
	u64 values[2];

	lockdep_assert_held(&child->parent->child_mutex);

	perf_gate_values(child, PERF_FORMAT_GATE, U64_MAX, true, values);
	atomic64_add(values[0], &gate->child_running);
	atomic64_add(values[1], &gate->child_opened);
}
