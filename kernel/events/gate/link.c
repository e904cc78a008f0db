// SPDX-License-Identifier: GPL-2.0
/*
 * Performance event gates: events become triggers and members of gates.
 *
 *        trigger                                        member
 *      perf_event                                     perf_event
 *       .gate_links --> perf_gate_link --> perf_gate <-- .gate
 *                        .role              .links
 *                                           .members
 *
 * A gate has up to PERF_GATE_MAX starters and as many stoppers. A trigger may move
 * PERF_GATE_MAX members that can run on one CPU, summed over its gates. All of these
 * events are in one context, whose mutex serializes the changes that users make.
 *
 * Lock order: perf_event_context::mutex, perf_event::child_mutex of a member,
 *             perf_event_context::lock.
 */

#include <linux/mutex.h>
#include <linux/perf_event.h>
#include <linux/rculist.h>
#include <linux/slab.h>
#include <linux/trace_events.h>

#include "gate.h"

#include <trace/events/perf_gate.h>

static bool perf_gate_same_context(struct perf_event *a, struct perf_event *b)
{
#ifdef CONFIG_CGROUP_PERF
	if (a->cgrp != b->cgrp)
		return false;
#endif
	/* Only one of the two contexts is locked. The other event may be exiting. */
	return READ_ONCE(a->ctx) == READ_ONCE(b->ctx) && a->hw.target == b->hw.target;
}

/* Tell whether the trigger runs whenever the target does. */
static bool perf_gate_same_scope(struct perf_event *trigger, struct perf_event *target)
{
	return perf_gate_same_context(trigger, target) &&
	       (trigger->cpu == target->cpu || trigger->cpu == -1);
}

/* Tell whether both events behave alike at fork and exec. */
static bool perf_gate_same_lifetime(struct perf_event *a, struct perf_event *b)
{
	return a->attr.inherit == b->attr.inherit &&
	       a->attr.remove_on_exec == b->attr.remove_on_exec &&
	       /* The leader decides for its group. */
	       a->group_leader->attr.inherit_thread == b->group_leader->attr.inherit_thread &&
	       a->group_leader->attr.sigtrap == b->group_leader->attr.sigtrap;
}

/*
 * A software event fires at each occurrence. The core learns of other events by their
 * overflows only.
 */
static bool perf_gate_can_fire(struct perf_event *event)
{
	if (has_aux(event) || !perf_gate_can_overflow(event))
		return false;

#ifdef CONFIG_EVENT_TRACING
	/*
	 * A firing may queue irq_work, as a sample does. At the exit of the interrupt that runs
	 * irq_work, the next such interrupt would follow at once, for ever. The tracepoints
	 * there have perf_perm.
	 */
	if (event->tp_event && event->tp_event->perf_perm)
		return false;
#endif

	return perf_event_is_swevent(event) || is_sampling_event(event);
}

/*
 * Tell whether a link would serve no event any more. Clones exchange their contexts, so
 * the task of an event may be gone while events inherited from it live. The CPU of an
 * event may change its state meanwhile, but not across PERF_EVENT_STATE_EXIT while the
 * mutex of the context is held.
 */
static bool perf_gate_link_is_stale(struct perf_event *trigger, struct perf_event *target)
{
	if (READ_ONCE(trigger->ctx->task) != TASK_TOMBSTONE &&
	    READ_ONCE(trigger->state) > PERF_EVENT_STATE_EXIT &&
	    READ_ONCE(target->state) > PERF_EVENT_STATE_EXIT)
		return false;

	/* A link serves no event that is closed or whose PMU is gone. */
	if (!target->attr.inherit || READ_ONCE(trigger->state) < PERF_EVENT_STATE_EXIT ||
	    READ_ONCE(target->state) < PERF_EVENT_STATE_EXIT)
		return true;

	guard(mutex)(&target->child_mutex);

	return list_empty(&target->child_list);
}

/*
 * Check a trigger and its target, or a member of a gate and the event that joins it. @fits
 * is the result of checks that only the caller can make.
 */
static int perf_gate_check_pair(struct perf_event *trigger, struct perf_event *target,
				bool fits)
{
	if (trigger == target || !perf_gate_same_context(trigger, target))
		return -EINVAL;

	lockdep_assert_held(&trigger->ctx->mutex);

	if (perf_gate_link_is_stale(trigger, target))
		return -ESRCH;

	if (!fits || !perf_gate_same_lifetime(trigger, target))
		return -EINVAL;

	return perf_gate_can_filter(target) ? 0 : -EOPNOTSUPP;
}

/* Count the members that one firing of a trigger may have to move. */
static unsigned int perf_gate_trigger_load(struct perf_event *trigger)
{
	struct perf_gate_link *link;
	unsigned int load = 0;

	hlist_for_each_entry(link, &trigger->gate_links, node)
		load += link->gate->load;

	return load;
}

static struct perf_gate_link *perf_gate_find_link(struct perf_event *trigger,
						  struct perf_gate *gate)
{
	struct perf_gate_link *link;

	hlist_for_each_entry(link, &trigger->gate_links, node) {
		if (link->gate == gate)
			return link;
	}

	return NULL;
}

static int perf_gate_check_link(struct perf_event *trigger, struct perf_gate *gate,
				unsigned int role)
{
	struct perf_gate_member *member;
	struct perf_gate_link *link;

	if (!gate)
		return perf_gate_trigger_load(trigger) < PERF_GATE_MAX ? 0 : -ENOSPC;

	list_for_each_entry(member, &gate->members, node) {
		if (member->account.event == trigger ||
		    !perf_gate_same_scope(trigger, member->account.event))
			return -EINVAL;
	}

	link = perf_gate_find_link(trigger, gate);
	if (link && link->role & role)
		return -EEXIST;
	/* A toggled gate cannot nest: a firing would not tell in which direction. */
	if (link && gate->nest)
		return -EINVAL;
	if ((role == PERF_GATE_STARTER ? gate->nr_starters : gate->nr_stoppers) >= PERF_GATE_MAX)
		return -ENOSPC;
	if (!link && perf_gate_trigger_load(trigger) + gate->load > PERF_GATE_MAX)
		return -ENOSPC;

	return 0;
}

static void perf_gate_set_role(struct perf_gate_link *link, unsigned int role)
{
	struct perf_gate *gate = link->gate;

	/* fork(2) reads this without holding the mutex. */
	WRITE_ONCE(gate->nr_starters, gate->nr_starters + !!(role & PERF_GATE_STARTER) -
				      !!(link->role & PERF_GATE_STARTER));
	gate->nr_stoppers += !!(role & PERF_GATE_STOPPER) - !!(link->role & PERF_GATE_STOPPER);
	link->role = role;
	/* A firing may still use a removed link, so leave its act alone. */
	if (role)
		WRITE_ONCE(link->act, perf_gate_make_act(role, gate->nest));
}

/**
 * perf_gate_unlink() - Remove roles from a link; free it with its last role
 * @link:	The link
 * @roles:	PERF_GATE_STARTER, PERF_GATE_STOPPER or both
 *
 * Context: Process context, perf_event_context::mutex of the trigger held.
 */
void perf_gate_unlink(struct perf_gate_link *link, unsigned int roles)
{
	struct perf_gate *gate = link->gate;

	lockdep_assert_held(&link->trigger->ctx->mutex);

	trace_unlink(link->trigger, gate->id, link->role & roles);
	perf_gate_set_role(link, link->role & ~roles);
	if (link->role)
		return;

	hlist_del_rcu(&link->node);
	list_del(&link->gate_node);
	kfree_rcu(link, rcu);
	perf_gate_put(gate);
	perf_gate_put_key();
}

/**
 * perf_gate_unlink_trigger() - Remove a role of an event in all gates
 * @trigger:	The event
 * @role:	PERF_GATE_STARTER or PERF_GATE_STOPPER
 *
 * A gate that loses its last trigger opens, so that its members count as events without
 * a gate do.
 *
 * Context: Process context, perf_event_context::mutex of @trigger held.
 */
void perf_gate_unlink_trigger(struct perf_event *trigger, unsigned int role)
{
	struct perf_gate *open[PERF_GATE_MAX];
	struct perf_gate_link *link;
	struct hlist_node *next;
	struct perf_gate *gate;
	int nr_open = 0;

	hlist_for_each_entry_safe(link, next, &trigger->gate_links, node) {
		if (!(link->role & role))
			continue;

		/* The members hold references, so the gate stays. */
		gate = link->gate;
		perf_gate_unlink(link, role);
		if (list_empty(&gate->links))
			open[nr_open++] = gate;
	}
	if (!nr_open)
		return;

	/* A firing that found a link before its removal could close the gate for ever. */
	synchronize_rcu();
	while (nr_open--)
		perf_gate_set_all(open[nr_open], true);
}

/*
 * Memory and references to the key for a change, acquired before taking locks that do not
 * allow this.
 */
struct perf_gate_parts {
	struct perf_gate	*gate;
	struct perf_gate_member	*member;
	struct perf_gate_link	*link;
};

/* Allocate the parts of a change; @first is the first member if it creates a gate. */
static int perf_gate_alloc_parts(struct perf_gate_parts *parts, struct perf_event *first)
{
	*parts = (struct perf_gate_parts) {
		.gate	= perf_gate_alloc(first, 1),
		.member	= perf_gate_alloc_member(),
		.link	= perf_gate_zalloc(sizeof(*parts->link)),
	};
	if (parts->link)
		perf_gate_get_key();

	return parts->gate && parts->member && parts->link ? 0 : -ENOMEM;
}

/* Free the parts that the change did not use. The pointers to used parts are NULL. */
static void perf_gate_free_parts(struct perf_gate_parts *parts)
{
	perf_gate_free_member(parts->member);
	if (parts->link)
		perf_gate_put_key();
	kfree(parts->link);
	if (parts->gate)
		perf_gate_put(parts->gate);
}

static void perf_gate_make_link(struct perf_event *trigger, struct perf_gate *gate,
				unsigned int role, struct perf_gate_link **spare)
{
	struct perf_gate_link *link = perf_gate_find_link(trigger, gate);

	trace_link(trigger, gate->id, role);
	if (link) {
		perf_gate_set_role(link, PERF_GATE_TOGGLE);
		return;
	}

	link = *spare;
	*spare = NULL;
	refcount_inc(&gate->refs);
	link->gate = gate;
	link->trigger = trigger;
	perf_gate_set_role(link, role);
	list_add_tail(&link->gate_node, &gate->links);
	hlist_add_head_rcu(&link->node, &trigger->gate_links);
}

/* Tell whether the gate of an event has triggers or other members. */
static bool perf_gate_is_busy(struct perf_event *event)
{
	return event->gate && (!list_is_singular(&event->gate->members) ||
			       !list_empty(&event->gate->links));
}

/* Give a gate to an event that has none, or that has left its gate. */
static int perf_gate_assign(struct perf_event *event, struct perf_gate_parts *parts)
{
	struct perf_gate *gate = parts->gate;

	if (event->gate)
		return 0;

	/* An event that kept the closed state of a former gate starts closed. */
	if (event->gate_account)
		atomic_set(&gate->state.depth, event->gate_account->split[0].open);

	return perf_gate_enter(event, gate, atomic_read(&gate->state.depth), &parts->member);
}

static int perf_gate_link_locked(struct perf_event *trigger, struct perf_event *target,
				 unsigned int role, struct perf_gate_parts *parts)
{
	struct perf_gate *gate;
	int ret;

	if (!perf_gate_same_scope(trigger, target))
		return -EINVAL;
	ret = perf_gate_check_pair(trigger, target, perf_gate_can_fire(trigger));
	if (ret)
		return ret;

	/* The target is in the same context, whose mutex is held, so its gate stays. */
	gate = target->gate;
	ret = perf_gate_check_link(trigger, gate, role);
	if (ret)
		return ret;

	ret = perf_gate_assign(target, parts);
	if (ret)
		return ret;
	gate = target->gate;

	/* The first starter closes the gate; what was counted before stays counted. */
	if (role == PERF_GATE_STARTER && !gate->nr_starters)
		perf_gate_set_all(gate, false);
	perf_gate_make_link(trigger, gate, role, &parts->link);

	return 0;
}

/* Check that @event may be a member of the gate of @other. */
static int perf_gate_check_join(struct perf_event *event, struct perf_event *other)
{
	struct perf_gate_link *link;
	struct perf_gate *gate;
	unsigned int load;

	gate = other->gate;
	load = perf_gate_compute_load(gate, event);
	if (load > PERF_GATE_MAX)
		return -ENOSPC;

	list_for_each_entry(link, &gate->links, gate_node) {
		if (link->trigger == event || !perf_gate_same_scope(link->trigger, event))
			return -EINVAL;

		if (load > gate->load &&
		    perf_gate_trigger_load(link->trigger) + load - gate->load > PERF_GATE_MAX)
			return -ENOSPC;
	}

	return 0;
}

static int perf_gate_join_locked(struct perf_event *event, struct perf_event *other,
				 struct perf_gate_parts *parts)
{
	struct perf_gate *gate;
	int depth, ret;

	ret = perf_gate_check_pair(other, event,
				   event->attr.gate_nest == other->attr.gate_nest);
	if (ret)
		return ret;

	if (!other->attr.start_paused && !perf_gate_is_busy(other))
		return -EINVAL;

	/* Joining would replace the openings of the event by those of the other gate. */
	if (perf_gate_is_busy(event) || event->gate_window)
		return -EBUSY;

	ret = perf_gate_assign(other, parts);
	if (!ret)
		ret = perf_gate_check_join(event, other);
	if (ret)
		return ret;

	/* In a task that inherited @event only, a gate with starters begins closed. */
	gate = other->gate;
	depth = gate->nr_starters ? 0 : atomic_read(&gate->state.depth);

	return perf_gate_enter(event, gate, depth, &parts->member);
}

/**
 * perf_gate_link() - Make an event a trigger or a member of another one's gate
 * @event:	The event that is to fire, or to become a member
 * @other:	The event that has the gate, or gets one; the caller holds a reference
 * @role:	PERF_GATE_STARTER, PERF_GATE_STOPPER or PERF_GATE_MEMBER
 *
 * Context: Process context, no locks held: the static key must not be flipped
 *          under perf_event_context::mutex, which CPU hotplug takes inside of
 *          cpu_hotplug_lock.
 * Return: 0, or an error that Documentation/userspace-api/perf_gate.rst lists.
 */
int perf_gate_link(struct perf_event *event, struct perf_event *other, unsigned int role)
{
	struct perf_event_context *ctx;
	struct perf_gate_parts parts;
	int ret;

	ret = perf_gate_alloc_parts(&parts, other);
	if (!ret) {
		ctx = perf_event_ctx_lock(event);
		ret = role == PERF_GATE_MEMBER ?
		      perf_gate_join_locked(event, other, &parts) :
		      perf_gate_link_locked(event, other, role, &parts);
		perf_event_ctx_unlock(event, ctx);
	}
	perf_gate_free_parts(&parts);

	return ret;
}
