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
 * freed without it; perf_gate_mutex serializes the two.
 */

#include <linux/file.h>
#include <linux/mutex.h>
#include <linux/perf_event.h>
#include <linux/rculist.h>
#include <linux/security.h>
#include <linux/slab.h>

#include "internal.h"
#include "gate.h"

static DEFINE_MUTEX(perf_gate_mutex);

static struct perf_gate_link **perf_gate_slot(struct perf_gate *target,
					      unsigned int role)
{
	return role == PERF_GATE_STARTER ? &target->starter : &target->stopper;
}

static void perf_gate_set_role(struct perf_gate_link *link, unsigned int role)
{
	WRITE_ONCE(link->role, role);
	WRITE_ONCE(link->pass, role == PERF_GATE_STOPPER ? PERF_GATE_BEFORE :
							   PERF_GATE_AFTER);
}

/* Take @roles from a link, and the link away with the last of them. */
static void perf_gate_unlink(struct perf_gate_link *link, unsigned int roles)
{
	lockdep_assert_held(&perf_gate_mutex);

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
	link->trigger->nr_links--;
	kfree_rcu(link, rcu);
}

/**
 * __perf_gate_sever() - Break all links of an event
 * @event:	Event that has a gate
 *
 * The gates on the other side keep their state, so that what was counted until
 * now can still be read.
 *
 * Context: Process context. Takes perf_gate_mutex.
 */
void __perf_gate_sever(struct perf_event *event)
{
	struct perf_gate *gate = event->gate;
	struct perf_gate_link *link, *next;

	guard(mutex)(&perf_gate_mutex);

	list_for_each_entry_safe(link, next, &gate->links, node)
		perf_gate_unlink(link, PERF_GATE_TOGGLE);

	if (gate->starter)
		perf_gate_unlink(gate->starter, PERF_GATE_STARTER);
	if (gate->stopper)
		perf_gate_unlink(gate->stopper, PERF_GATE_STOPPER);
}

/* A target that nobody controls is an event like any other. */
static void perf_gate_open_if_free(struct perf_gate *target)
{
	if (!target->starter && !target->stopper)
		perf_gate_set(target, true);
}

/* @event is no longer starter or stopper, as @role says, of anything. */
static int perf_gate_drop(struct perf_event *event, unsigned int role)
{
	struct perf_gate *gate = event->gate;
	struct perf_gate_link *link, *next;

	if (!gate)
		return 0;

	guard(mutex)(&perf_gate_mutex);

	list_for_each_entry_safe(link, next, &gate->links, node) {
		struct perf_gate *target = link->target;

		if (!(link->role & role))
			continue;

		perf_gate_unlink(link, role);
		perf_gate_open_if_free(target);
	}

	return 0;
}

/* @event has neither starter nor stopper any more, and is open. */
static int perf_gate_clear(struct perf_event *event)
{
	struct perf_gate *gate = event->gate;

	if (!gate)
		return 0;

	guard(mutex)(&perf_gate_mutex);

	if (gate->starter)
		perf_gate_unlink(gate->starter, PERF_GATE_STARTER);
	if (gate->stopper)
		perf_gate_unlink(gate->stopper, PERF_GATE_STOPPER);
	perf_gate_set(gate, true);

	return 0;
}

static bool perf_gate_same_scope(struct perf_event *a, struct perf_event *b)
{
#ifdef CONFIG_CGROUP_PERF
	if (a->cgrp != b->cgrp)
		return false;
#endif
	return a->ctx == b->ctx && a->cpu == b->cpu &&
	       a->hw.target == b->hw.target;
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
	if (has_aux(event) || event->attr.aux_output)
		return false;

	return perf_event_is_swevent(event) || is_sampling_event(event);
}

static int perf_gate_check_events(struct perf_event *trigger,
				  struct perf_event *target)
{
	lockdep_assert_held(&trigger->ctx->mutex);

	if (trigger == target || !perf_gate_same_scope(trigger, target))
		return -EINVAL;

	if (READ_ONCE(trigger->ctx->task) == TASK_TOMBSTONE ||
	    trigger->state <= PERF_EVENT_STATE_EXIT ||
	    target->state <= PERF_EVENT_STATE_EXIT)
		return -ESRCH;

	if (!perf_gate_same_life(trigger, target) || !perf_gate_can_fire(trigger))
		return -EINVAL;

	if (!perf_gate_can_filter(target) || target->attr.inherit)
		return -EOPNOTSUPP;

	return 0;
}

static int perf_gate_check_link(struct perf_event *trigger,
				struct perf_event *target, unsigned int role)
{
	struct perf_gate_link *link = NULL, *other = NULL;

	lockdep_assert_held(&perf_gate_mutex);

	if (target->gate) {
		link = *perf_gate_slot(target->gate, role);
		other = *perf_gate_slot(target->gate, role ^ PERF_GATE_TOGGLE);
	}

	if (link)
		return link->trigger->event == trigger ? -EEXIST : -EBUSY;

	/* Toggling has no direction that could nest, and needs no new link. */
	if (other && other->trigger->event == trigger)
		return target->attr.gate_nest ? -EINVAL : 0;

	if (trigger->gate && trigger->gate->nr_links == PERF_GATE_MAX_LINKS)
		return -ENOSPC;

	return 0;
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

static struct perf_gate *perf_gate_attach(struct perf_event *event,
					  struct perf_gate **part)
{
	if (!event->gate) {
		/* The event's readers find a gate that is set up. */
		smp_store_release(&event->gate, *part);
		*part = NULL;
	}

	return event->gate;
}

static int perf_gate_link(struct perf_event *trigger, struct perf_event *target,
			  unsigned int role, struct perf_gate_parts *parts)
{
	struct perf_gate_link **slot, *link;
	int ret;

	ret = perf_gate_check_events(trigger, target);
	if (ret)
		return ret;

	guard(mutex)(&perf_gate_mutex);

	ret = perf_gate_check_link(trigger, target, role);
	if (ret)
		return ret;

	perf_gate_attach(trigger, &parts->trigger);
	perf_gate_attach(target, &parts->target);

	/* From here on only the windows count, and what was counted stays. */
	if (role == PERF_GATE_STARTER)
		perf_gate_set(target->gate, false);

	slot = perf_gate_slot(target->gate, role);
	link = *perf_gate_slot(target->gate, role ^ PERF_GATE_TOGGLE);
	if (link && link->trigger == trigger->gate) {
		*slot = link;
		perf_gate_set_role(link, PERF_GATE_TOGGLE);
		return 0;
	}

	link = parts->link;
	parts->link = NULL;
	link->trigger = trigger->gate;
	link->target = target->gate;
	perf_gate_set_role(link, role);
	*slot = link;
	trigger->gate->nr_links++;
	list_add_tail_rcu(&link->node, &trigger->gate->links);

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

/**
 * perf_gate_ioctl() - PERF_EVENT_IOC_SET_STARTER, _SET_STOPPER and _CLEAR_GATE
 * @event:	Event of the file that the ioctl is done on: the trigger for the
 *		first two, the target for the last
 * @cmd:	One of the three
 * @arg:	Argument of the ioctl
 *
 * Context: Process context, no locks held: the static key must not be flipped
 *          under perf_event_context::mutex, which CPU hotplug takes inside of
 *          cpu_hotplug_lock.
 * Return: 0 or what Documentation/userspace-api/perf_gate.rst lists.
 */
long perf_gate_ioctl(struct perf_event *event, unsigned int cmd,
		     unsigned long arg)
{
	unsigned int role = cmd == PERF_EVENT_IOC_SET_STARTER ?
				PERF_GATE_STARTER : PERF_GATE_STOPPER;
	struct perf_event_context *ctx;
	int ret;

	if (cmd == PERF_EVENT_IOC_CLEAR_GATE && arg)
		return -EINVAL;

	/* A file descriptor is an int, also where the caller has 32 bits. */
	if (cmd != PERF_EVENT_IOC_CLEAR_GATE && (int)arg != -1)
		return perf_gate_link_fd(event, arg, role);

	ctx = perf_event_ctx_lock(event);
	if (cmd == PERF_EVENT_IOC_CLEAR_GATE)
		ret = perf_gate_clear(event);
	else
		ret = perf_gate_drop(event, role);
	perf_event_ctx_unlock(event, ctx);

	return ret;
}
