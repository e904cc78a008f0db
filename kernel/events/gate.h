/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Performance event gates: the hooks that the core calls. kernel/events/gate/gate.h
 * explains the objects.
 */
#ifndef _KERNEL_EVENTS_GATE_H
#define _KERNEL_EVENTS_GATE_H

#include <linux/jump_label_ratelimit.h>
#include <linux/perf_event.h>
#include <linux/sched.h>
#include <linux/slab.h>

#include "gate/split.h"

#ifdef CONFIG_PERF_EVENTS_GATE

extern struct static_key_false_deferred perf_gate_key;

/* fire.c */
void __perf_gate_fire(struct perf_event *event, unsigned long pass);
void __perf_gate_fire_throttled(struct perf_event *event);
void __perf_gate_pmu_enable(struct pmu *pmu);
void __perf_gate_pmu_read(struct perf_event *event);
void __perf_gate_call_deferring(void (*func)(void *), void *data);
bool __perf_gate_closed(struct perf_event *event);

/* settle.c */
int __perf_gate_pmu_add(struct perf_event *event);
void __perf_gate_pmu_del(struct perf_event *event);
void __perf_gate_catch_up(struct perf_event *event);

/* steer.c */
void perf_gate_pmu_start(struct perf_event *event, int flags);
bool __perf_gate_aux_pause(struct perf_event *event, bool pause);

/* account.c */
bool perf_gate_can_stop(struct perf_event *event);
u64 __perf_gate_count(struct perf_event *event);
u64 __perf_gate_tick_span(struct perf_event *event);
bool __perf_gate_hides_index(struct perf_event *event);
void __perf_gate_reset(struct perf_event *event);
void __perf_gate_sync_child(struct perf_event *child);
int perf_gate_add_values(struct perf_event *event, u64 read_format, u64 running,
			 bool self, u64 *values);
int perf_gate_read_values(struct perf_event *event, u64 read_format, u64 running,
			  u64 *values);

/* life.c */
int __perf_gate_init(struct perf_event *event);
void __perf_gate_release(struct perf_event *event);
void __perf_gate_detach(struct perf_event *event);
int __perf_gate_inherit(struct perf_event *child, struct perf_event *source);

/* windows.c */
void perf_gate_drop_window(struct perf_event *event);

/* ioctl.c */
long perf_gate_ioctl(struct perf_event *event, unsigned int cmd, unsigned long arg);

/*
 * perf_gate_get_key() waits for all sections that have interrupts off, so a firing
 * never interrupts a section that has seen the key off.
 */
static __always_inline bool perf_gates_exist(void)
{
	return static_branch_unlikely(&perf_gate_key.key);
}

/* Tell whether the event has an account. While no gate exists, the answer costs a NOP. */
static __always_inline bool perf_gate_has_account(struct perf_event *event)
{
	return perf_gates_exist() && READ_ONCE(event->gate_account);
}

/* Move the gates of an event that occurred, or whose overflow is at stage @pass. */
static __always_inline void perf_gate_fire(struct perf_event *event, unsigned long pass)
{
	if (perf_gates_exist() && !hlist_empty(&(event->parent ?: event)->gate_links))
		__perf_gate_fire(event, pass);
}

/* Fire for an event that overflowed while throttled, unless it has a BPF program. */
static __always_inline void perf_gate_fire_throttled(struct perf_event *event)
{
	if (perf_gates_exist())
		__perf_gate_fire_throttled(event);
}

/* Tell whether overflows of the event must be dropped. */
static __always_inline bool perf_gate_closed(struct perf_event *event)
{
	return perf_gate_has_account(event) && __perf_gate_closed(event);
}

/* Tell whether the user page must hide the counter of the event. */
static __always_inline bool perf_gate_hides_index(struct perf_event *event)
{
	return perf_gate_has_account(event) && __perf_gate_hides_index(event);
}

/* Call pmu::add(), after settling the account. */
static __always_inline int perf_gate_pmu_add(struct perf_event *event)
{
	if (perf_gate_has_account(event))
		return __perf_gate_pmu_add(event);

	return event->pmu->add(event, PERF_EF_START);
}

/* Call pmu::del(). The key is on as long as a running event has an account. */
static __always_inline void perf_gate_pmu_del(struct perf_event *event)
{
	if (perf_gate_has_account(event))
		__perf_gate_pmu_del(event);
	else
		event->pmu->del(event, 0);
}

/* Settle an event that is about to count although its task does not run here. */
static __always_inline void perf_gate_catch_up(struct perf_event *event)
{
	if (perf_gate_has_account(event))
		__perf_gate_catch_up(event);
}

/* Drop the window of an event that is being throttled, because its PMU stops it. */
static __always_inline void perf_gate_throttle(struct perf_event *event)
{
	if (perf_gate_has_account(event))
		perf_gate_drop_window(event);
}

/* Get the time in ns over which a tick computes the rate; 0 if it is too short. */
static __always_inline u64 perf_gate_tick_span(struct perf_event *event)
{
	return perf_gate_has_account(event) ? __perf_gate_tick_span(event) : TICK_NSEC;
}

/* Pause or resume an AUX area event by its account. Return false if it has none. */
static __always_inline bool perf_gate_aux_pause(struct perf_event *event, bool pause)
{
	return perf_gate_has_account(event) && __perf_gate_aux_pause(event, pause);
}

/* Enable a PMU with firings deferred: it is marked as enabled before it can be read. */
static __always_inline void perf_gate_pmu_enable(struct pmu *pmu)
{
	if (perf_gates_exist())
		__perf_gate_pmu_enable(pmu);
	else
		pmu->pmu_enable(pmu);
}

/* Update the count of an event that is active on this CPU. */
static __always_inline void perf_gate_pmu_read(struct perf_event *event)
{
	if (perf_gates_exist())
		__perf_gate_pmu_read(event);
	else
		event->pmu->read(event);
}

/* Call a function with firings deferred, because it changes counts or times of events. */
static __always_inline void perf_gate_call_deferring(void (*func)(void *), void *data)
{
	if (perf_gates_exist())
		__perf_gate_call_deferring(func, data);
	else
		func(data);
}

/* Read the count of the event inside of its windows. */
static __always_inline u64 perf_gate_count(struct perf_event *event)
{
	u64 count = local64_read(&event->count);

	if (!perf_gates_exist())
		return count;

	/*
	 * If the event had no account yet, its whole count lies inside. Pairs with
	 * smp_wmb() in perf_gate_install().
	 */
	smp_rmb();

	return READ_ONCE(event->gate_account) ? __perf_gate_count(event) : count;
}

static __always_inline bool perf_gate_reset(struct perf_event *event)
{
	if (!perf_gate_has_account(event))
		return false;

	__perf_gate_reset(event);
	return true;
}

/* Set up a new event. perf_gate_inherit() does this for an inherited event. */
static inline int perf_gate_init(struct perf_event *event)
{
	if (event->attr.read_format & PERF_FORMAT_GATE_TOTAL && perf_gate_can_stop(event))
		return -EINVAL;

	return event->attr.start_paused && !event->parent ? __perf_gate_init(event) : 0;
}

/* Set up the context of a new task. */
static inline void perf_gate_init_context(struct perf_event_context *ctx, u64 clone_flags)
{
	ctx->gate_thread = clone_flags & CLONE_THREAD;
}

/*
 * Tell whether a context has states of gates, so that it must stay with its task. The
 * caller holds perf_event_context::lock.
 */
static inline bool perf_gate_keeps_context(struct perf_event_context *ctx)
{
	return !RB_EMPTY_ROOT(&ctx->gate_states.tree[0]);
}

/* Free an event. This is not behind the key, because releasing an account drops the key. */
static inline void perf_gate_release(struct perf_event *event)
{
	if (event->gate_account)
		__perf_gate_release(event);
}

/* Detach an event that is closed or moves to the context of another CPU. */
static inline void perf_gate_detach(struct perf_event *event)
{
	if (event->gate || !hlist_empty(&event->gate_links))
		__perf_gate_detach(event);
}

/*
 * Free the account of an event after a grace period. The account of an opened event is
 * the first member of struct perf_gate_member, so this frees that as well.
 */
static inline void perf_gate_free_rcu(struct perf_event *event)
{
	kfree(event->gate_account);
	kfree(event->gate_window);
}

/* Set up @child, a copy of @source, which is an event of the task that forks. */
static inline int perf_gate_inherit(struct perf_event *child, struct perf_event *source)
{
	return perf_gates_exist() && child->parent->gate ?
	       __perf_gate_inherit(child, source) : 0;
}

/* Add the values of a child that ends to those of its parent. */
static inline void perf_gate_sync_child(struct perf_event *child)
{
	if (child->parent->gate_account)
		__perf_gate_sync_child(child);
}

#else /* !CONFIG_PERF_EVENTS_GATE */

static inline void perf_gate_fire(struct perf_event *event, unsigned long pass) { }
static inline void perf_gate_fire_throttled(struct perf_event *event) { }
static inline bool perf_gates_exist(void) { return false; }
static inline bool perf_gate_has_account(struct perf_event *event) { return false; }
static inline bool perf_gate_closed(struct perf_event *event) { return false; }
static inline bool perf_gate_hides_index(struct perf_event *event) { return false; }
static inline u64 perf_gate_tick_span(struct perf_event *event) { return TICK_NSEC; }
static inline void perf_gate_catch_up(struct perf_event *event) { }
static inline void perf_gate_throttle(struct perf_event *event) { }
static inline void perf_gate_sync_child(struct perf_event *child) { }
static inline void perf_gate_pmu_enable(struct pmu *pmu) { pmu->pmu_enable(pmu); }
static inline void perf_gate_pmu_read(struct perf_event *event) { event->pmu->read(event); }
static inline void perf_gate_pmu_del(struct perf_event *event) { event->pmu->del(event, 0); }
static inline void perf_gate_call_deferring(void (*func)(void *), void *data) { func(data); }
static inline bool perf_gate_reset(struct perf_event *event) { return false; }
static inline int perf_gate_init(struct perf_event *event) { return 0; }
static inline void perf_gate_init_context(struct perf_event_context *ctx, u64 clone_flags) { }
static inline bool perf_gate_keeps_context(struct perf_event_context *ctx) { return false; }
static inline void perf_gate_release(struct perf_event *event) { }
static inline void perf_gate_detach(struct perf_event *event) { }
static inline void perf_gate_free_rcu(struct perf_event *event) { }

static inline void perf_gate_pmu_start(struct perf_event *event, int flags)
{
	event->pmu->start(event, flags);
}

static inline int perf_gate_pmu_add(struct perf_event *event)
{
	return event->pmu->add(event, PERF_EF_START);
}

static inline bool perf_gate_aux_pause(struct perf_event *event, bool pause)
{
	return false;
}

static inline int perf_gate_inherit(struct perf_event *child, struct perf_event *source)
{
	return 0;
}

static inline u64 perf_gate_count(struct perf_event *event)
{
	return local64_read(&event->count);
}

static inline long perf_gate_ioctl(struct perf_event *event, unsigned int cmd,
				   unsigned long arg)
{
	return -ENOTTY;
}

/* perf_gate_check_attr() rejects read formats that ask for these values. */
static inline int perf_gate_add_values(struct perf_event *event, u64 read_format,
				       u64 running, bool self, u64 *values)
{
	return 0;
}

static inline int perf_gate_read_values(struct perf_event *event, u64 read_format,
					u64 running, u64 *values)
{
	return 0;
}

#endif /* CONFIG_PERF_EVENTS_GATE */

/* No other ioctl is in this range: those with such a number encode an argument size. */
static inline bool perf_gate_is_ioctl(unsigned int cmd)
{
	return cmd - PERF_EVENT_IOC_SET_STARTER <=
	       PERF_EVENT_IOC_JOIN_GATE - PERF_EVENT_IOC_SET_STARTER ||
	       cmd == PERF_EVENT_IOC_SET_WINDOWS || cmd == PERF_EVENT_IOC_GET_WINDOWS;
}

#define PERF_FORMAT_GATE	(PERF_FORMAT_GATE_TIME | PERF_FORMAT_GATE_COUNT | \
				 PERF_FORMAT_GATE_TOTAL)
/* Maximum number of values that these bits ask for */
#define PERF_GATE_NR_VALUES	3

/* Reject attributes that need gates in a kernel without them. */
static inline int perf_gate_check_attr(const struct perf_event_attr *attr)
{
	if (!attr->start_paused && !attr->gate_nest &&
	    !(attr->read_format & PERF_FORMAT_GATE))
		return 0;

	return IS_ENABLED(CONFIG_PERF_EVENTS_GATE) ? 0 : -EINVAL;
}

#endif /* _KERNEL_EVENTS_GATE_H */
