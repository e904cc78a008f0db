// SPDX-License-Identifier: GPL-2.0
/*
 * Performance event gates: gates that several events share.
 *
 *      trigger ---link---> gate that was joined <---state--- gate of a member
 *                           .depth, .nr_opened                .depth, a copy
 *                           .starter, .stopper                .acct
 *                           .members
 *
 * The events of one task on each CPU, and several events of one window, move
 * together. PERF_EVENT_IOC_JOIN_GATE makes an event a member of the gate of another
 * one. A firing moves one depth then, and settles those members that can run on its
 * CPU, however many CPUs there are. The members of other CPUs do not run, and copy
 * the depth when they come in: perf_gate_pmu_add().
 *
 * What all share is in the gate of the event that was joined. It stays when that
 * event is closed, for as long as it has members. Each member has an account of
 * its own. Its perf_gate::depth is a copy for those who ask on its CPU.
 *
 * Inherited events join as their parents have joined, so the events of a new task
 * share a gate that has one starter and one stopper, and no event: gate_task.c.
 *
 * Contexts:  A member comes and goes on the CPU of its context, where the firings
 *            are, or when it does not run any more. Firings walk the members of
 *            their CPU under RCU.
 * Locking:   perf_gate_mutex(), as for links.
 */

#include <linux/file.h>
#include <linux/perf_event.h>
#include <linux/rculist.h>
#include <linux/security.h>
#include <linux/slab.h>

#include "internal.h"
#include "gate.h"

#include <trace/events/perf_gate.h>

/* What event_function_call() is to do with a member. */
struct perf_gate_change {
	struct perf_gate	*gate;
	bool			open;
	bool			done;
};

static unsigned int perf_gate_count_load(struct perf_gate_members *members)
{
	size_t most = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		most = max(most, hlist_count_nodes(&members->cpu[cpu]));

	return most + hlist_count_nodes(&members->any);
}

/* The load of @gate with @event as a member. */
static unsigned int perf_gate_load_with(struct perf_gate *gate,
					struct perf_event *event)
{
	struct perf_gate_members *members = gate->members;
	size_t here;

	if (event->cpu < 0)
		return gate->load + 1;

	if (!members)
		return 1 + (gate->event->cpu < 0 || gate->event->cpu == event->cpu);

	here = hlist_count_nodes(&members->any) +
	       hlist_count_nodes(&members->cpu[event->cpu]) + 1;

	return max_t(size_t, gate->load, here);
}

/* The first one speaks for all. The load is for PERF_GATE_MAX_LINKS. */
static void perf_gate_update_members(struct perf_gate *gate)
{
	struct perf_gate *first;
	int more;

	first = list_first_entry_or_null(&gate->members->all, struct perf_gate,
					 member);
	WRITE_ONCE(gate->members->first, first ? first->event : NULL);
	if (!first)
		return;

	more = perf_gate_count_load(gate->members) - gate->load;
	WRITE_ONCE(gate->load, gate->load + more);
	if (gate->starter)
		gate->starter->trigger->nr_targets += more;
	if (gate->stopper && gate->stopper != gate->starter)
		gate->stopper->trigger->nr_targets += more;
}

static void perf_gate_list_member(struct perf_gate *gate, struct perf_gate *member)
{
	struct perf_event *event = member->event;

	if (!gate->common)
		list_add_tail(&member->member, &gate->members->all);
	else if (!(event->attach_state & PERF_ATTACH_CONTEXT))
		return;
	hlist_add_head_rcu(&member->run, perf_gate_run_list(gate->members, event));
}

/**
 * perf_gate_share() - Let a gate have members
 * @gate:	The gate, whose event is the first of them if it has one
 *
 * Context: Process context, perf_gate_mutex() held.
 * Return: 0, -ENOMEM.
 */
int perf_gate_share(struct perf_gate *gate)
{
	struct perf_gate_members *members;

	if (gate->members)
		return 0;

	members = kzalloc(struct_size(members, cpu, nr_cpu_ids), GFP_KERNEL);
	if (!members)
		return -ENOMEM;

	INIT_LIST_HEAD(&members->all);
	if (gate->event) {
		members->first = gate->event;
		list_add_tail(&gate->member, &members->all);
		hlist_add_head(&gate->run,
			       perf_gate_run_list(members, gate->event));
	}
	/* A firing takes it for the gate of one event or for that of one member. */
	smp_store_release(&gate->members, members);
	WRITE_ONCE(gate->spread, true);
	WRITE_ONCE(gate->found, PERF_GATE_FOUND_ELSEWHERE);

	return 0;
}

/**
 * perf_gate_put() - Let go of a gate
 * @gate:	The gate of an event that is gone, or one that was left
 *
 * Context: Any but NMI.
 */
void perf_gate_put(struct perf_gate *gate)
{
	if (!refcount_dec_and_test(&gate->refs))
		return;

	if (gate->common) {
		perf_gate_free_common(gate);
		return;
	}

	if (gate->members)
		kfree_rcu(gate->members, rcu);
	kfree_rcu(gate, rcu);
}

/* Those who had joined it have left, and nobody fires for @gate. Frees nothing. */
static void perf_gate_unshare(struct perf_gate *gate)
{
	WARN_ON_ONCE(!list_is_singular(&gate->members->all));

	hlist_del_rcu(&gate->run);
	list_del_init(&gate->member);
	WRITE_ONCE(gate->members, NULL);
}

/* Nobody fires for @member while this is done. */
static void perf_gate_enter(struct perf_gate *gate, struct perf_gate *member)
{
	if (member->members)
		perf_gate_unshare(member);
	refcount_inc(&gate->refs);
	/* Whoever finds the gate finds all of it: READ_ONCE() of perf_gate_follow(). */
	smp_store_release(&member->state, gate);
	perf_gate_list_member(gate, member);
	perf_gate_follow(member);
}

/* As perf_gate_enter(). With @open it is open then, or else keeps its state. */
static void perf_gate_quit(struct perf_gate *member, bool open)
{
	struct perf_gate *gate = member->state;
	u64 opened;
	int depth;

	hlist_del_init_rcu(&member->run);
	/* An NMI may move what it leaves. */
	do {
		opened = atomic64_read(&gate->nr_opened);
		depth = atomic_read(&gate->depth);
		atomic64_set(&member->nr_opened, opened + (open && !depth));
		atomic_set(&member->depth, open ? 1 : depth);
	} while (opened != atomic64_read(&gate->nr_opened) ||
		 depth != atomic_read(&gate->depth));
	/* Whoever finds its own state finds all of it. */
	smp_store_release(&member->state, member);
	if (open && !depth)
		trace_open(NULL, member->event);
}

static void __perf_gate_join(struct perf_event *event,
			     struct perf_cpu_context *cpuctx,
			     struct perf_event_context *ctx, void *info)
{
	struct perf_gate_change *change = info;

	perf_gate_enter(change->gate, event->gate);
	perf_gate_settle_any(event->gate);
	change->done = true;
}

static void __perf_gate_leave(struct perf_event *event,
			      struct perf_cpu_context *cpuctx,
			      struct perf_event_context *ctx, void *info)
{
	struct perf_gate_change *change = info;

	if (event->gate) {
		perf_gate_quit(event->gate, change->open);
		perf_gate_settle_any(event->gate);
	} else {
		perf_gate_give_back(event, change->open);
	}
	change->done = true;
}

/* After perf_gate_quit() */
static void perf_gate_left(struct perf_gate *gate, struct perf_gate *member)
{
	if (!gate->common) {
		if (list_is_singular(&gate->members->all))
			perf_gate_unlink_target(gate);
		list_del_init(&member->member);
		perf_gate_update_members(gate);
	}
	perf_gate_put(gate);
}

/**
 * perf_gate_forsake() - An event is no member any more and keeps its state
 * @member:	Its gate, which has members or has joined one that has
 *
 * Context: Process context, perf_gate_mutex() held. The event is in no context.
 */
void perf_gate_forsake(struct perf_gate *member)
{
	struct perf_gate_members *members = member->state->members;
	struct perf_gate *gate = member->state;

	if (member != gate) {
		perf_gate_quit(member, false);
		perf_gate_left(gate, member);
	} else if (list_is_singular(&members->all)) {
		perf_gate_unlink_target(gate);
		perf_gate_unshare(gate);
		kfree_rcu(members, rcu);
	} else {
		hlist_del_rcu(&gate->run);
		list_del_init(&gate->member);
		perf_gate_update_members(gate);
	}
}

/*
 * The context of a task that exits may be dead already: then nobody fires in it.
 * perf_event_context::mutex or perf_event::child_mutex as for perf_gate_set().
 */
static void perf_gate_join_one(struct perf_gate *gate, struct perf_gate *member)
{
	struct perf_gate_members *members = member->members;
	struct perf_gate_change change = { .gate = gate };

	perf_gate_unlink_target(member);
	if (!perf_gate_is_dead(member->event))
		event_function_call(member->event, __perf_gate_join, &change);
	if (!change.done)
		perf_gate_enter(gate, member);
	if (members)
		kfree_rcu(members, rcu);
	if (!gate->common)
		perf_gate_update_members(gate);
}

/* Locked as perf_gate_join_one(). If it has a gate of its own, perf_gate_left() is next. */
static void perf_gate_leave_one(struct perf_event *event, bool open)
{
	struct perf_gate_change change = { .open = open };

	if (!perf_gate_is_dead(event))
		event_function_call(event, __perf_gate_leave, &change);
	if (!change.done && event->gate)
		perf_gate_quit(event->gate, false);
}

/* The parent of @child has left the gate that it had joined. */
static void perf_gate_leave_child(struct perf_event *child, bool open)
{
	struct perf_gate *state = perf_gate_state(child);

	if (state && state->common) {
		perf_gate_leave_one(child, open);
		if (child->gate)
			perf_gate_left(state, child->gate);
	} else if (child->gate) {
		/* The fork of its task has not let it join yet. */
		perf_gate_unlink_target(child->gate);
		if (open)
			perf_gate_set(child, true);
	}
}

/**
 * perf_gate_leave() - Make an event and those inherited from it leave their gates
 * @event:	Event that is not inherited itself and is a member
 * @open:	Open their gates. Otherwise they keep their state.
 *
 * Each has a gate of its own then, without triggers.
 *
 * Context: Process context, perf_event_context::mutex and perf_gate_mutex() held.
 */
void perf_gate_leave(struct perf_event *event, bool open)
{
	struct perf_gate *gate = event->gate->state;
	struct perf_event *child;

	/* Who is inherited or ends meanwhile finds both of them in or both of them out. */
	scoped_guard(mutex, &event->child_mutex) {
		perf_gate_leave_one(event, open);
		list_for_each_entry(child, &event->child_list, child_list)
			perf_gate_leave_child(child, open);
	}

	perf_gate_left(gate, event->gate);
}

/**
 * perf_gate_dissolve() - Make all members of a gate leave it but the first
 * @gate:	The gate that they have joined
 * @open:	As for perf_gate_leave()
 *
 * Context: As perf_gate_leave().
 */
void perf_gate_dissolve(struct perf_gate *gate, bool open)
{
	struct perf_gate *member, *next;

	list_for_each_entry_safe_reverse(member, next, &gate->members->all, member) {
		if (member->event != gate->members->first)
			perf_gate_leave(member->event, open);
	}
}

/**
 * perf_gate_inherit_member() - Make an inherited event a member as its parent is
 * @event:	Event of a task that does not run yet, that has a gate of its own
 *
 * Context: Process context, perf_gate_mutex() held. Takes perf_event_context::lock.
 * Return: 0, -ENOMEM.
 */
int perf_gate_inherit_member(struct perf_event *event)
{
	struct perf_gate *pattern = event->parent->gate->state;
	struct perf_gate *member = event->gate;
	struct perf_gate *gate;

	/* It has shared one from the start, or PERF_EVENT_IOC_JOIN_GATE was faster. */
	if (member->state != member)
		return 0;

	gate = perf_gate_get_common(event->ctx, pattern, atomic_read(&member->depth), false);
	if (!gate)
		return -ENOMEM;

	perf_gate_unlink_target(member);
	raw_spin_lock_irq(&event->ctx->lock);
	perf_gate_enter(gate, member);
	raw_spin_unlock_irq(&event->ctx->lock);

	return 0;
}

/* The state of an event in the context of @child whose parent shares @gate, or NULL. */
static struct perf_gate *perf_gate_sibling(struct perf_event *child, struct perf_gate *gate)
{
	struct perf_gate *part, *state, *found = NULL;
	struct perf_event *event;

	guard(rcu)();

	list_for_each_entry_rcu(event, &child->ctx->event_list, event_entry) {
		if (!event->parent || event == child)
			continue;
		part = READ_ONCE(event->parent->gate);
		if (!part || READ_ONCE(part->state) != gate)
			continue;
		state = perf_gate_state(event);
		if (state && state->common)
			return state;
		found = found ?: state;
	}

	return found;
}

/* Find or make the gate that @child is to join. */
static int perf_gate_prepare_heir(struct perf_event *child, struct perf_gate *gate)
{
	struct perf_gate *sibling;
	int depth, ret;

	ret = perf_gate_ensure_own(child);
	if (ret)
		return ret;

	sibling = perf_gate_sibling(child, gate);
	if (sibling)
		depth = atomic_read(&sibling->depth);
	else
		depth = !gate->starter && atomic_read(&gate->depth);
	child->gate->heir = perf_gate_get_common(child->ctx, gate, depth,
						 !sibling || !sibling->common);

	return child->gate->heir ? 0 : -ENOMEM;
}

/* Make those inherited from @event join what those of @gate's members have. */
static int perf_gate_join_children(struct perf_event *event, struct perf_gate *gate)
{
	struct perf_gate *heir, *common;
	struct perf_event *child;
	int ret = 0;

	/* None of them exits, and none can be freed under perf_gate_mutex(). */
	guard(mutex)(&event->child_mutex);

	list_for_each_entry(child, &event->child_list, child_list) {
		ret = perf_gate_prepare_heir(child, gate);
		if (ret)
			break;
	}

	list_for_each_entry(child, &event->child_list, child_list) {
		heir = child->gate ? child->gate->heir : NULL;
		if (!heir)
			break;
		child->gate->heir = NULL;
		if (ret)
			continue;
		/* The others that had joined its parent's gate have left it. */
		if (child->gate->state->common) {
			common = child->gate->state;
			perf_gate_leave_one(child, false);
			perf_gate_left(common, child->gate);
		}
		perf_gate_join_one(heir, child->gate);
	}

	return ret;
}

static bool perf_gate_has_members(struct perf_gate *gate)
{
	return gate->members && !list_is_singular(&gate->members->all);
}

/* It has a gate that is not only there because it is a trigger. */
static bool perf_gate_is_target(struct perf_event *event)
{
	struct perf_gate *gate = event->gate;

	return gate && (event->attr.start_paused || gate->state != gate ||
			gate->starter || gate->stopper ||
			perf_gate_has_members(gate));
}

static bool perf_gate_is_busy(struct perf_gate *gate)
{
	return gate && (gate->state != gate || gate->starter || gate->stopper ||
			perf_gate_has_members(gate));
}

static int perf_gate_check_trigger(struct perf_gate_link *link,
				   struct perf_event *event, unsigned int more)
{
	if (!link)
		return 0;

	if (link->trigger->event == event ||
	    !perf_gate_same_scope(link->trigger->event, event))
		return -EINVAL;

	if (link->trigger->nr_targets + more > PERF_GATE_MAX_LINKS)
		return -ENOSPC;

	return 0;
}

/* May @event be a member of the gate of @other? */
static int perf_gate_check_join(struct perf_event *event, struct perf_event *other)
{
	struct perf_gate *gate;
	unsigned int more;
	int ret;

	lockdep_assert_held(perf_gate_mutex(event));

	if (!perf_gate_is_target(other))
		return -EINVAL;

	if (perf_gate_is_busy(event->gate))
		return -EBUSY;

	gate = other->gate->state;
	more = perf_gate_load_with(gate, event) - gate->load;
	if (gate->load + more > PERF_GATE_MAX_LINKS)
		return -ENOSPC;

	ret = perf_gate_check_trigger(gate->starter, event, more);
	if (!ret && gate->stopper != gate->starter)
		ret = perf_gate_check_trigger(gate->stopper, event, more);

	return ret;
}

static int perf_gate_join(struct perf_event *event, struct perf_event *other,
			  struct perf_gate **part)
{
	LIST_HEAD(starters);
	LIST_HEAD(stoppers);
	struct perf_gate *gate;
	int ret;

	ret = perf_gate_check_members(event, other);
	if (ret)
		return ret;

	guard(mutex)(perf_gate_mutex(event));

	ret = perf_gate_check_join(event, other);
	if (ret)
		return ret;

	gate = other->gate->state;
	ret = perf_gate_share(gate);
	if (ret)
		return ret;

	perf_gate_attach(event, part);

	/* A task that inherited this event alone has no link that it could share. */
	if (gate->starter)
		ret = perf_gate_prepare_children(gate->starter->trigger->event,
						 event, &starters);
	if (!ret && gate->stopper)
		ret = perf_gate_prepare_children(gate->stopper->trigger->event,
						 event, &stoppers);
	if (!ret)
		ret = perf_gate_join_children(event, gate);
	if (ret) {
		perf_gate_free_spares(&starters);
		perf_gate_free_spares(&stoppers);
		return ret;
	}

	perf_gate_join_one(gate, event->gate);
	perf_gate_link_children(&starters, PERF_GATE_STARTER);
	perf_gate_link_children(&stoppers, PERF_GATE_STOPPER);

	return 0;
}

/**
 * perf_gate_join_fd() - PERF_EVENT_IOC_JOIN_GATE
 * @event:	Event that is to share a gate
 * @fd:		File descriptor of the event that has it
 *
 * Context: Process context, no locks held.
 * Return: 0 or what Documentation/userspace-api/perf_gate.rst lists.
 */
long perf_gate_join_fd(struct perf_event *event, int fd)
{
	struct file *file __free(fput) = perf_event_get(fd);
	struct perf_event_context *ctx;
	struct perf_event *other;
	struct perf_gate *part;
	int ret;

	if (IS_ERR(file))
		return PTR_ERR(file);

	other = file->private_data;
	ret = security_perf_event_write(other);
	if (ret)
		return ret;

	part = perf_gate_alloc(event);
	if (!part)
		return -ENOMEM;

	ctx = perf_event_ctx_lock(event);
	ret = perf_gate_join(event, other, &part);
	perf_event_ctx_unlock(event, ctx);
	perf_gate_free(part);

	return ret;
}
