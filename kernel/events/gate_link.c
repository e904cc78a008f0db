// SPDX-License-Identifier: GPL-2.0
/*
 * Performance event gates: the links between triggers and targets.
 *
 *        trigger                       target
 *      perf_event                    perf_event
 *          |                             |
 *          v          link               v
 *      perf_gate --> [role] ---------> perf_gate
 *        .links                          .starter
 *                                        .stopper
 *
 * A target has one starter and one stopper, a trigger any number of targets up
 * to PERF_GATE_MAX_LINKS. Both sides of a link are in the same context, so the
 * context's mutex is held whenever a user makes or breaks links. Events are
 * freed without it, and tasks fork without it; perf_event_context::gate_mutex
 * serializes those.
 *
 * The links of events with attr.inherit are also the pattern for those of their
 * inherited events: see gate_inherit.c. All of them are of one family, whose lock
 * is that of the context that its files' events are in. So whoever links the
 * events of a task with many children makes nobody wait but these.
 *
 * Lock order: perf_event_context::mutex, perf_event_context::gate_mutex,
 *             perf_event::child_mutex of a trigger, that of a target,
 *             perf_event_context::lock.
 */

#include <linux/file.h>
#include <linux/mutex.h>
#include <linux/perf_event.h>
#include <linux/rculist.h>
#include <linux/security.h>
#include <linux/slab.h>

#include "internal.h"
#include "gate.h"

#include <trace/events/perf_gate.h>

/**
 * perf_gate_mutex() - The lock of the links that an event may have
 * @event:	Event that has a context
 *
 * It serializes changes of links and the search for inherited events.
 *
 * Context: Any. perf_event_context::mutex of the event held, or nobody else can
 *          get at the event. An event that changes its context has no links while
 *          it does.
 * Return: perf_event_context::gate_mutex of the event's family.
 */
struct mutex *perf_gate_mutex(struct perf_event *event)
{
	return &(event->parent ?: event)->ctx->gate_mutex;
}

static struct perf_gate_link **perf_gate_slot(struct perf_gate *target,
					      unsigned int role)
{
	return role == PERF_GATE_STARTER ? &target->starter : &target->stopper;
}

static void perf_gate_set_role(struct perf_gate_link *link, unsigned int role)
{
	link->role = role;
	WRITE_ONCE(link->act, perf_gate_act(role, link->target->nest));
}

/**
 * perf_gate_unlink() - Take roles from a link, and the link away with the last
 * @link:	The link
 * @roles:	PERF_GATE_STARTER, PERF_GATE_STOPPER or both
 *
 * Context: Process context, perf_gate_mutex() held.
 */
void perf_gate_unlink(struct perf_gate_link *link, unsigned int roles)
{
	lockdep_assert_held(perf_gate_mutex(link->trigger->event));

	trace_unlink(link->trigger->event, perf_gate_face(link->target),
		     link->role & roles);
	if (roles & PERF_GATE_STARTER && link->target->starter == link)
		link->target->starter = NULL;
	if (roles & PERF_GATE_STOPPER && link->target->stopper == link)
		link->target->stopper = NULL;

	roles = link->role & ~roles;
	if (roles) {
		perf_gate_set_role(link, roles);
		return;
	}

	/* Whoever is walking over it may still fire it. */
	list_del_rcu(&link->node);
	WRITE_ONCE(link->trigger->nr_links, link->trigger->nr_links - 1);
	link->trigger->nr_targets -= link->target->load;
	kfree_rcu(link, rcu);
}

/**
 * __perf_gate_sever() - Break all links of an event
 * @event:	Event that has a gate and is in no context
 * @gone:	It will not come into one again
 *
 * The gates on the other side keep their state, so that what was counted until
 * now can still be read. A gate that others have joined stays theirs if its event
 * is gone. If that lives on, they leave it.
 *
 * Context: Process context. Takes perf_gate_mutex().
 */
void __perf_gate_sever(struct perf_event *event, bool gone)
{
	struct perf_gate *gate = event->gate;
	struct perf_gate_link *link, *next;

	/* It did not get as far as a context. */
	if (!event->ctx)
		return;

	guard(mutex)(perf_gate_mutex(event));

	list_for_each_entry_safe(link, next, &gate->links, node)
		perf_gate_unlink(link, PERF_GATE_TOGGLE);

	if (gate->members && !gone)
		perf_gate_dissolve(gate, false);
	if (!gate->state->members)
		perf_gate_unlink_target(gate);
	else if (gate->state != gate || !list_empty(&gate->member))
		perf_gate_forsake(gate);
}

/* Break the links that stand for @link in the tasks that inherit its events. */
static void perf_gate_unlink_heirs(struct perf_gate_link *link)
{
	struct perf_event *trigger = link->trigger->event;
	struct perf_gate_link *heir, *next;
	struct perf_event *child;

	guard(mutex)(&trigger->child_mutex);

	list_for_each_entry(child, &trigger->child_list, child_list) {
		if (!child->gate)
			continue;
		list_for_each_entry_safe(heir, next, &child->gate->links, node) {
			if (heir->target->common &&
			    perf_gate_common(heir->target)->pattern == link->target)
				perf_gate_unlink(heir, PERF_GATE_TOGGLE);
		}
	}
}

/**
 * perf_gate_unlink_target() - Break the links of an event as target
 * @target:	Its gate. If others share it, those who inherit do so no more.
 *
 * Context: Process context, perf_gate_mutex() held. Takes perf_event::child_mutex of the
 *          triggers if others share @target.
 */
void perf_gate_unlink_target(struct perf_gate *target)
{
	if (target->members && target->starter)
		perf_gate_unlink_heirs(target->starter);
	if (target->members && target->stopper && target->stopper != target->starter)
		perf_gate_unlink_heirs(target->stopper);
	if (target->starter)
		perf_gate_unlink(target->starter, PERF_GATE_STARTER);
	if (target->stopper)
		perf_gate_unlink(target->stopper, PERF_GATE_STOPPER);
}

/**
 * perf_gate_unlink_trigger() - Break the links of an event as trigger
 * @trigger:	Its gate
 * @role:	Role that it is to lose
 * @targets:	Receives those that have no trigger any more and are not about to
 *		be freed, at most PERF_GATE_MAX_LINKS, or NULL
 *
 * Context: Process context, perf_gate_mutex() held.
 * Return: The number of @targets.
 */
unsigned int perf_gate_unlink_trigger(struct perf_gate *trigger,
				      unsigned int role,
				      struct perf_gate **targets)
{
	struct perf_gate_link *link, *next;
	unsigned int n = 0;

	list_for_each_entry_safe(link, next, &trigger->links, node) {
		struct perf_gate *target = link->target;

		if (!(link->role & role))
			continue;

		perf_gate_unlink(link, role);
		if (targets && !target->starter && !target->stopper &&
		    READ_ONCE(perf_gate_face(target)->state) != PERF_EVENT_STATE_DEAD)
			targets[n++] = target;
	}

	return n;
}

/* @event is no longer starter or stopper, as @role says, of anything. */
static int perf_gate_drop(struct perf_event *event, unsigned int role)
{
	struct perf_gate *targets[PERF_GATE_MAX_LINKS];
	struct perf_event *child;
	unsigned int n, i;

	if (!event->gate)
		return 0;

	guard(mutex)(perf_gate_mutex(event));

	n = perf_gate_unlink_trigger(event->gate, role, targets);

	scoped_guard(mutex, &event->child_mutex) {
		list_for_each_entry(child, &event->child_list, child_list) {
			if (child->gate)
				perf_gate_unlink_trigger(child->gate, role, NULL);
		}
	}

	/*
	 * A target that nobody controls is an event like any other. The mutex of
	 * the context keeps them all from being freed.
	 */
	for (i = 0; i < n; i++)
		perf_gate_set_family(perf_gate_face(targets[i]), true);

	return 0;
}

/*
 * @event has neither starter nor stopper any more, and is open. A member leaves its
 * gate for that, and the one that the others have joined sends them away.
 */
static int perf_gate_clear(struct perf_event *event)
{
	struct perf_event *child;
	struct perf_gate *gate;

	if (!event->gate)
		return 0;

	guard(mutex)(perf_gate_mutex(event));

	gate = event->gate->state;
	if (perf_gate_face(gate) != event) {
		perf_gate_leave(event, true);
		return 0;
	}

	if (gate->members)
		perf_gate_dissolve(gate, true);
	perf_gate_unlink_target(gate);

	scoped_guard(mutex, &event->child_mutex) {
		list_for_each_entry(child, &event->child_list, child_list) {
			if (child->gate && child->gate->state == child->gate)
				perf_gate_unlink_target(child->gate);
		}
	}
	perf_gate_set_family(event, true);
	/* The one that it had joined is closed. */
	if (gate != event->gate)
		perf_gate_leave(event, true);

	return 0;
}

static bool perf_gate_same_context(struct perf_event *a, struct perf_event *b)
{
#ifdef CONFIG_CGROUP_PERF
	if (a->cgrp != b->cgrp)
		return false;
#endif
	return a->ctx == b->ctx && a->hw.target == b->hw.target;
}

/**
 * perf_gate_same_scope() - May one event gate the other by what they measure?
 * @trigger:	The event that would fire
 * @target:	The event that would be moved
 *
 * Context: perf_event_context::mutex of one of them held.
 * Return: Whether @trigger is there whenever @target runs.
 */
bool perf_gate_same_scope(struct perf_event *trigger, struct perf_event *target)
{
	return perf_gate_same_context(trigger, target) &&
	       (trigger->cpu == target->cpu || trigger->cpu == -1);
}

/* Both or neither follow the task through fork and exec. */
static bool perf_gate_same_life(struct perf_event *a, struct perf_event *b)
{
	return a->attr.inherit == b->attr.inherit &&
	       a->attr.inherit_thread == b->attr.inherit_thread &&
	       a->attr.remove_on_exec == b->attr.remove_on_exec &&
	       a->group_leader->attr.sigtrap == b->group_leader->attr.sigtrap;
}

/*
 * An event that the core itself counts fires at each occurrence. Any other
 * makes itself known at an overflow only.
 */
static bool perf_gate_can_fire(struct perf_event *event)
{
	if (has_aux(event) || event->attr.aux_output ||
	    event->event_caps & PERF_EV_CAP_NO_GATE ||
	    perf_gate_is_bpf_output(event))
		return false;

	return perf_event_is_swevent(event) || is_sampling_event(event);
}

/*
 * Nothing is left that the link could serve. Clones exchange their contexts, so
 * that the task of an event may be gone while those inherited from it live. The
 * event's CPU changes the states meanwhile, but with the mutex of the context
 * held no event passes PERF_EVENT_STATE_EXIT.
 */
static bool perf_gate_is_over(struct perf_event *trigger,
			      struct perf_event *target)
{
	if (READ_ONCE(trigger->ctx->task) != TASK_TOMBSTONE &&
	    READ_ONCE(trigger->state) > PERF_EVENT_STATE_EXIT &&
	    READ_ONCE(target->state) > PERF_EVENT_STATE_EXIT)
		return false;

	if (!target->attr.inherit ||
	    READ_ONCE(target->state) == PERF_EVENT_STATE_DEAD)
		return true;

	guard(mutex)(&target->child_mutex);

	return list_empty(&target->child_list);
}

static int perf_gate_check_events(struct perf_event *trigger,
				  struct perf_event *target)
{
	lockdep_assert_held(&trigger->ctx->mutex);

	if (trigger == target || !perf_gate_same_scope(trigger, target))
		return -EINVAL;

	if (perf_gate_is_over(trigger, target))
		return -ESRCH;

	if (!perf_gate_same_life(trigger, target) || !perf_gate_can_fire(trigger))
		return -EINVAL;

	return perf_gate_can_filter(target) ? 0 : -EOPNOTSUPP;
}

/**
 * perf_gate_check_members() - May two events be members of one gate?
 * @event:	One of them
 * @other:	The other
 *
 * Context: Process context, perf_event_context::mutex of @event held.
 * Return: 0, -EINVAL, -ESRCH, -EOPNOTSUPP.
 */
int perf_gate_check_members(struct perf_event *event, struct perf_event *other)
{
	lockdep_assert_held(&event->ctx->mutex);

	if (event == other || !perf_gate_same_context(event, other))
		return -EINVAL;

	if (perf_gate_is_over(other, event))
		return -ESRCH;

	if (!perf_gate_same_life(event, other) ||
	    event->attr.gate_nest != other->attr.gate_nest)
		return -EINVAL;

	return perf_gate_can_filter(event) ? 0 : -EOPNOTSUPP;
}

/* Others share the gate that @trigger is to move. */
static int perf_gate_check_shared(struct perf_event *trigger, struct perf_gate *gate)
{
	struct perf_gate *member;

	list_for_each_entry(member, &gate->members->all, member) {
		if (member->event == trigger ||
		    !perf_gate_same_scope(trigger, member->event))
			return -EINVAL;
	}

	return 0;
}

static int perf_gate_check_link(struct perf_event *trigger,
				struct perf_gate *target, unsigned int role,
				bool nest)
{
	struct perf_gate_link *link = NULL, *other = NULL;
	unsigned int nr = trigger->gate ? trigger->gate->nr_targets : 0;
	unsigned int load = 1;
	int ret;

	if (target) {
		link = *perf_gate_slot(target, role);
		other = *perf_gate_slot(target, role ^ PERF_GATE_TOGGLE);
		load = target->load;
	}

	if (target && target->members) {
		ret = perf_gate_check_shared(trigger, target);
		if (ret)
			return ret;
	}

	if (link)
		return link->trigger->event == trigger ? -EEXIST : -EBUSY;

	/* Toggling has no direction that could nest, and needs no new link. */
	if (other && other->trigger->event == trigger)
		return nest ? -EINVAL : 0;

	return nr + load > PERF_GATE_MAX_LINKS ? -ENOSPC : 0;
}

/* What making a link may need, allocated where sleeping and patching is fine. */
struct perf_gate_parts {
	struct perf_gate	*trigger;
	struct perf_gate	*target;
	struct perf_gate_link	*link;
};

static int perf_gate_prepare(struct perf_gate_parts *parts,
			     struct perf_event *trigger,
			     struct perf_event *target)
{
	parts->trigger = perf_gate_alloc(trigger);
	parts->target = perf_gate_alloc(target);
	parts->link = kzalloc(sizeof(*parts->link), GFP_KERNEL);

	return parts->trigger && parts->target && parts->link ? 0 : -ENOMEM;
}

/* Whatever was used is not there any more. */
static void perf_gate_finish(struct perf_gate_parts *parts)
{
	perf_gate_free(parts->trigger);
	perf_gate_free(parts->target);
	kfree(parts->link);
}

/**
 * perf_gate_attach() - Give an event a gate unless it has one
 * @event:	The event
 * @part:	From perf_gate_alloc(); set to NULL if it was used
 *
 * Context: Process context, perf_event_context::mutex and perf_gate_mutex() held.
 */
void perf_gate_attach(struct perf_event *event, struct perf_gate **part)
{
	struct perf_gate *gate = *part;

	if (event->gate)
		return;

	/* Until now the windows of inherited events were all of their time. */
	atomic64_set(&gate->child_running,
		     atomic64_read(&event->child_total_time_running));
	/* The event's readers find a gate that is set up. */
	smp_store_release(&event->gate, gate);
	*part = NULL;
	perf_gate_pin(event);
}

/**
 * perf_gate_make_link() - Make an event the starter or stopper of another
 * @trigger:	Gate of the event that is to fire
 * @target:	Gate of the event that is to be moved
 * @role:	PERF_GATE_STARTER or PERF_GATE_STOPPER
 * @spare:	An allocated link; set to NULL if it was used
 *
 * Nothing is done if @target has a trigger in this role.
 *
 * Context: Process context, perf_gate_mutex() held.
 */
void perf_gate_make_link(struct perf_gate *trigger, struct perf_gate *target,
			 unsigned int role, struct perf_gate_link **spare)
{
	struct perf_gate_link **slot = perf_gate_slot(target, role);
	struct perf_gate_link *link;

	lockdep_assert_held(perf_gate_mutex(trigger->event));

	if (*slot)
		return;

	trace_link(trigger->event, perf_gate_face(target), role);
	link = *perf_gate_slot(target, role ^ PERF_GATE_TOGGLE);
	if (link && link->trigger == trigger) {
		*slot = link;
		perf_gate_set_role(link, PERF_GATE_TOGGLE);
		return;
	}

	link = *spare;
	*spare = NULL;
	link->trigger = trigger;
	link->target = target;
	if (!target->members && trigger->event->cpu != target->event->cpu) {
		WRITE_ONCE(target->found, PERF_GATE_FOUND_ELSEWHERE);
		WRITE_ONCE(target->spread, true);
	}
	perf_gate_set_role(link, role);
	*slot = link;
	WRITE_ONCE(trigger->nr_links, trigger->nr_links + 1);
	trigger->nr_targets += target->load;
	list_add_tail_rcu(&link->node, &trigger->links);
}

static int perf_gate_link(struct perf_event *trigger, struct perf_event *target,
			  unsigned int role, struct perf_gate_parts *parts)
{
	LIST_HEAD(spares);
	int ret;

	ret = perf_gate_check_events(trigger, target);
	if (ret)
		return ret;

	guard(mutex)(perf_gate_mutex(trigger));

	ret = perf_gate_check_link(trigger, target->gate ? target->gate->state : NULL,
				   role, target->attr.gate_nest);
	if (ret)
		return ret;

	/* A task that forks from here on links its events after these are. */
	perf_gate_attach(trigger, &parts->trigger);
	perf_gate_attach(target, &parts->target);

	ret = perf_gate_prepare_children(trigger, target, &spares);
	if (ret) {
		perf_gate_free_spares(&spares);
		return ret;
	}

	/* From here on only the windows count, and what was counted stays. */
	if (role == PERF_GATE_STARTER)
		perf_gate_set_family(target, false);

	perf_gate_make_link(trigger->gate, target->gate->state, role, &parts->link);
	perf_gate_link_children(&spares, role);

	return 0;
}

static long perf_gate_link_fd(struct perf_event *trigger, int fd,
			      unsigned int role)
{
	struct file *file __free(fput) = perf_event_get(fd);
	struct perf_event_context *ctx;
	struct perf_gate_parts parts;
	struct perf_event *target;
	int ret;

	if (IS_ERR(file))
		return PTR_ERR(file);

	target = file->private_data;
	ret = security_perf_event_write(target);
	if (ret)
		return ret;

	ret = perf_gate_prepare(&parts, trigger, target);
	if (!ret) {
		ctx = perf_event_ctx_lock(trigger);
		ret = perf_gate_link(trigger, target, role, &parts);
		perf_event_ctx_unlock(trigger, ctx);
	}
	perf_gate_finish(&parts);

	return ret;
}

/* A file descriptor is an int, also where the caller has 32 bits. */
static long perf_gate_ioctl_set(struct perf_event *trigger, int fd, unsigned int role)
{
	struct perf_event_context *ctx;
	int ret;

	if (fd != -1)
		return perf_gate_link_fd(trigger, fd, role);

	ctx = perf_event_ctx_lock(trigger);
	ret = perf_gate_drop(trigger, role);
	perf_event_ctx_unlock(trigger, ctx);

	return ret;
}

/**
 * perf_gate_ioctl() - PERF_EVENT_IOC_SET_STARTER, _SET_STOPPER, _CLEAR_GATE and
 *		       _JOIN_GATE
 * @event:	Event of the file that the ioctl is done on: the trigger for the
 *		first two, the target for the others
 * @cmd:	One of the four
 * @arg:	Argument of the ioctl
 *
 * Context: Process context, no locks held: the static key must not be flipped
 *          under perf_event_context::mutex, which CPU hotplug takes inside of
 *          cpu_hotplug_lock.
 * Return: 0, -ENOTTY for another @cmd, or what
 *	   Documentation/userspace-api/perf_gate.rst lists.
 */
long perf_gate_ioctl(struct perf_event *event, unsigned int cmd,
		     unsigned long arg)
{
	struct perf_event_context *ctx;
	int ret;

	switch (cmd) {
	case PERF_EVENT_IOC_SET_STARTER:
		return perf_gate_ioctl_set(event, arg, PERF_GATE_STARTER);
	case PERF_EVENT_IOC_SET_STOPPER:
		return perf_gate_ioctl_set(event, arg, PERF_GATE_STOPPER);
	case PERF_EVENT_IOC_CLEAR_GATE:
		if (arg)
			return -EINVAL;
		ctx = perf_event_ctx_lock(event);
		ret = perf_gate_clear(event);
		perf_event_ctx_unlock(event, ctx);
		return ret;
	case PERF_EVENT_IOC_JOIN_GATE:
		return perf_gate_join_fd(event, arg);
	default:
		return -ENOTTY;
	}
}
