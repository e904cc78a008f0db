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
 *   fork     An inherited event gets its gate, or one to share, and its state with
 *            child_mutex held when it is put on the list of its parent. When all
 *            events of the task are there, they are linked as their parents are by
 *            then.
 *   SET_*    Pairs that exist are looked for with both child_mutexes held. None
 *            of their triggers is freed before they are linked, because that takes
 *            perf_gate_mutex(), too, as it does for a target that has a gate of its
 *            own. One that all of a task share stays with the trigger's context. A
 *            pair of which one event is still to come is left to the fork.
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
	struct perf_gate *gate = event->gate;

	lockdep_assert_held(&event->ctx->lock);

	if (gate->pins) {
		gate->pins = false;
		local_dec(&event->ctx->nr_no_switch_fast);
	}
	/* Firings look for it no more. */
	if (gate->state->common)
		hlist_del_init_rcu(&gate->run);
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

/* @child is the first of those that share a gate, or shares none. */
static noinline int perf_gate_inherit_first(struct perf_event *child,
					    struct perf_event *source,
					    struct perf_gate *pattern)
{
	struct perf_gate *state = perf_gate_state(source);
	int depth = state ? atomic_read(&state->depth) : 1;

	if (READ_ONCE(pattern->members))
		return perf_gate_share_common(child, pattern, depth);

	child->gate = perf_gate_alloc_nokey(child, depth);

	return child->gate ? 0 : -ENOMEM;
}

/**
 * __perf_gate_inherit() - Give an inherited event its gate, or a gate to share
 * @child:	The event, in no list yet
 * @source:	The event of the forking task that it is the copy of
 *
 * Context: Process context, perf_event::child_mutex of the parent held.
 * Return: 0, -ENOMEM.
 */
int __perf_gate_inherit(struct perf_event *child, struct perf_event *source)
{
	struct perf_gate *pattern, *state;

	lockdep_assert_held(&child->parent->child_mutex);

	pattern = READ_ONCE(child->parent->gate->state);
	state = perf_gate_find_common(child->ctx, pattern);
	if (likely(state && READ_ONCE(state->pins))) {
		child->common_gate = state;
		return 0;
	}

	return perf_gate_inherit_first(child, source, pattern);
}

/**
 * perf_gate_ensure() - Give an inherited event that is there a gate, which is open
 * @child:	The event, which may share a common gate instead
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

	if (perf_gate_state(child))
		return 0;

	gate = perf_gate_alloc_nokey(child, 1);
	if (!gate)
		return -ENOMEM;

	/* The event's readers find a gate that is set up. */
	smp_store_release(&child->gate, gate);
	perf_gate_pin(child);

	return 0;
}

/**
 * perf_gate_ensure_own() - perf_gate_ensure(), and let the event not do without
 * @child:	The event
 *
 * Context: As perf_gate_ensure().
 * Return: 0, -ENOMEM.
 */
int perf_gate_ensure_own(struct perf_event *child)
{
	int ret = perf_gate_ensure(child);

	return ret || READ_ONCE(child->gate) ? ret : perf_gate_adopt(child);
}

/* What stands for the target of a link in @ctx, or NULL. */
static struct perf_gate *perf_gate_heir(struct perf_event_context *ctx,
					struct perf_gate *target)
{
	return perf_gate_find_common(ctx, target) ?: target->heir;
}

/* Link an event of a new task to those that inherit from its parent's targets. */
static int perf_gate_inherit_from(struct perf_event *event)
{
	struct perf_gate_link *link, *spare;
	int ret;

	list_for_each_entry(link, &event->parent->gate->links, node) {
		struct perf_gate *heir = perf_gate_heir(event->ctx, link->target);

		if (!heir)
			continue;

		ret = perf_gate_ensure_own(event);
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

/*
 * An event of a new task may have to be linked. One that shares a common gate may not,
 * unless its parent is a trigger, too.
 */
static bool perf_gate_is_unlinked(struct perf_event *event)
{
	struct perf_gate *part = READ_ONCE(event->parent->gate);
	struct perf_gate *gate = READ_ONCE(event->gate);

	if (!part)
		return false;

	if (gate)
		return !gate->linked;

	return READ_ONCE(part->nr_links) || !READ_ONCE(event->common_gate);
}

/* Link those events on @list, by the member of their gates, whose lock is @family. */
static int perf_gate_inherit_family(struct list_head *list, struct mutex *family)
{
	struct perf_gate *gate, *next;
	LIST_HEAD(heirs);
	int ret = 0;

	guard(mutex)(family);

	list_for_each_entry_safe(gate, next, list, member) {
		if (perf_gate_mutex(gate->event) != family)
			continue;

		list_move_tail(&gate->member, &heirs);
		gate->linked = true;
		gate->event->parent->gate->heir = gate;
		/* Its parent has come to share a gate since it was inherited. */
		if (!ret && gate->event->parent->gate->state->members)
			ret = perf_gate_inherit_member(gate->event);
	}

	list_for_each_entry(gate, &heirs, member) {
		if (!ret)
			ret = perf_gate_inherit_from(gate->event);
	}

	list_for_each_entry_safe(gate, next, &heirs, member) {
		gate->event->parent->gate->heir = NULL;
		list_del_init(&gate->member);
	}

	return ret;
}

/* Put those events of a new task on @list that may have to be linked. */
static int perf_gate_find_unlinked(struct perf_event_context *ctx, struct list_head *list)
{
	struct perf_event *event;
	int ret;

	/*
	 * They are all on the lists of their parents, so whoever makes links from
	 * here on finds them, and whoever did before has left a gate there.
	 */
	list_for_each_entry(event, &ctx->event_list, event_entry) {
		if (!perf_gate_is_unlinked(event))
			continue;

		guard(mutex)(perf_gate_mutex(event));

		ret = perf_gate_ensure_own(event);
		if (ret)
			return ret;
		list_add_tail(&event->gate->member, list);
	}

	return 0;
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
	struct perf_gate *gate, *next;
	LIST_HEAD(list);
	int ret;

	/* None of its events is freed, or looked at as a member, meanwhile. */
	guard(mutex)(&ctx->mutex);

	ret = perf_gate_find_unlinked(ctx, &list);
	while (!ret && !list_empty(&list)) {
		gate = list_first_entry(&list, struct perf_gate, member);
		ret = perf_gate_inherit_family(&list, perf_gate_mutex(gate->event));
	}

	list_for_each_entry_safe(gate, next, &list, member)
		list_del_init(&gate->member);

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

		gate = perf_gate_state(child);
		partner = gate->round == round ? NULL :
						 perf_gate_partner(trigger, child->ctx);
		if (!partner)
			continue;

		gate->round = round;
		ret = perf_gate_ensure_own(partner);
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
	struct perf_gate *gate;

	guard(mutex)(&target->child_mutex);

	list_for_each_entry(child, &target->child_list, child_list) {
		gate = perf_gate_state(child);
		if (!gate || gate->round == round)
			continue;
		gate->round = round;
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

/* One that has run, or that has had a gate of its own from the start. */
static noinline void perf_gate_sync_values(struct perf_event *child)
{
	struct perf_gate *gate = child->parent->gate;
	u64 values[2];

	perf_gate_values(child, PERF_FORMAT_GATE, U64_MAX, true, values);
	atomic64_add(values[0], &gate->child_running);
	atomic64_add(values[1], &gate->child_opened);
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
	lockdep_assert_held(&child->parent->child_mutex);

	if (!child->gate && child->common_gate &&
	    !atomic64_read(&child->common_gate->nr_opened))
		return;

	perf_gate_sync_values(child);
}
