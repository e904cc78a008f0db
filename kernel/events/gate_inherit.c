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
 * Three paths bring events and links together, and perf_gate_mutex together with
 * perf_event::child_mutex makes sure that no pair is left out, whichever of them
 * comes first:
 *
 *   fork     An inherited event gets its gate and state with child_mutex held
 *            when it is put on the list of its parent. When all events of the
 *            task are there, they are linked as their parents are by then.
 *   SET_*    Both child_mutexes are held, so no inherited event comes or goes
 *            while the pairs that exist are linked. A pair of which one event
 *            is still to come is left to the fork.
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
		depth = atomic_read(&source->gate->depth);

	child->gate = perf_gate_alloc_nokey(child, depth);

	return child->gate ? 0 : -ENOMEM;
}

/*
 * An inherited event that is there already gets a gate, which is open. Either
 * nothing leaves the list of its parent, or its task does not run yet.
 */
static int perf_gate_ensure(struct perf_event *child)
{
	struct perf_gate *gate;

	lockdep_assert_held(&perf_gate_mutex);
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

/* A parent of an event of @ctx has a gate. */
static bool perf_gate_is_heir(struct perf_event_context *ctx)
{
	struct perf_event *event;

	list_for_each_entry(event, &ctx->event_list, event_entry) {
		if (READ_ONCE(event->parent->gate))
			return true;
	}

	return false;
}

/**
 * __perf_gate_inherit_links() - Link the events of a new task as their parents are
 * @ctx:	Context of a task that does not run yet
 *
 * Context: Process context, no perf_event_context::mutex held. Takes that of @ctx
 *          and perf_gate_mutex.
 * Return: 0, -ENOMEM.
 */
int __perf_gate_inherit_links(struct perf_event_context *ctx)
{
	struct perf_event *event;
	int ret = 0;

	guard(mutex)(&ctx->mutex);

	/*
	 * They are all on the lists of their parents, so whoever makes links from
	 * here on finds them, and whoever did before has left a gate there.
	 */
	if (!perf_gate_is_heir(ctx))
		return 0;

	guard(mutex)(&perf_gate_mutex);

	list_for_each_entry(event, &ctx->event_list, event_entry) {
		if (event->gate)
			event->parent->gate->heir = event->gate;
	}

	list_for_each_entry(event, &ctx->event_list, event_entry) {
		if (!ret && event->parent->gate)
			ret = perf_gate_inherit_from(event);
	}

	list_for_each_entry(event, &ctx->event_list, event_entry) {
		if (event->parent->gate)
			event->parent->gate->heir = NULL;
	}

	return ret;
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

/**
 * perf_gate_prepare_children() - Allocate what linking inherited events takes
 * @trigger:	The trigger
 * @target:	The target
 * @spares:	Receives a link for each pair, with perf_gate_link::trigger and
 *		perf_gate_link::target; invalid if this fails
 *
 * Gates that inherited events get here are open.
 *
 * Context: Process context, perf_event_context::mutex, perf_gate_mutex and both
 *          perf_event::child_mutex held.
 * Return: 0, -ENOMEM.
 */
int perf_gate_prepare_children(struct perf_event *trigger,
			       struct perf_event *target,
			       struct list_head *spares)
{
	struct perf_event *child, *partner;
	struct perf_gate_link *spare, *next;

	list_for_each_entry(child, &target->child_list, child_list) {
		if (perf_gate_ensure(child))
			goto nomem;

		partner = perf_gate_partner(trigger, child->ctx);
		if (!partner)
			continue;

		if (perf_gate_ensure(partner))
			goto nomem;

		spare = kzalloc(sizeof(*spare), GFP_KERNEL);
		if (!spare)
			goto nomem;
		spare->trigger = partner->gate;
		spare->target = child->gate;
		list_add(&spare->node, spares);
		cond_resched();
	}

	return 0;

nomem:
	list_for_each_entry_safe(spare, next, spares, node)
		kfree(spare);

	return -ENOMEM;
}

/**
 * perf_gate_link_children() - Link inherited events as their parents are
 * @spares:	From perf_gate_prepare_children()
 * @role:	Role that the trigger has got
 *
 * Context: As perf_gate_prepare_children(), without any of the locks released
 *          since.
 */
void perf_gate_link_children(struct list_head *spares, unsigned int role)
{
	struct perf_gate_link *spare, *next;

	list_for_each_entry_safe(spare, next, spares, node) {
		list_del(&spare->node);
		perf_gate_make_link(spare->trigger, spare->target, role, &spare);
		kfree(spare);
	}
}

/**
 * __perf_gate_set_family() - Open or close the gates of an event and its heirs
 * @target:	Event that has a gate and is not inherited itself
 * @open:	The state that they are to have
 *
 * Context: Process context, perf_event_context::mutex and perf_event::child_mutex
 *          held.
 */
void __perf_gate_set_family(struct perf_event *target, bool open)
{
	struct perf_event *child;

	lockdep_assert_held(&target->child_mutex);

	perf_gate_set(target->gate, open);
	list_for_each_entry(child, &target->child_list, child_list) {
		if (child->gate)
			perf_gate_set(child->gate, open);
	}
}

/**
 * perf_gate_set_family() - __perf_gate_set_family() without perf_event::child_mutex
 * @target:	Event that has a gate and is not inherited itself
 * @open:	The state that they are to have
 *
 * Context: Process context, perf_event_context::mutex held.
 */
void perf_gate_set_family(struct perf_event *target, bool open)
{
	guard(mutex)(&target->child_mutex);

	__perf_gate_set_family(target, open);
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
