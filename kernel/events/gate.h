/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Performance event gates: the calls that the core makes. kernel/events/gate/gate.h
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
int __perf_gate_pmu_add(struct perf_event *event);
void __perf_gate_pmu_del(struct perf_event *event);
void __perf_gate_pmu_enable(struct pmu *pmu);
void __perf_gate_pmu_read(struct perf_event *event);
void __perf_gate_call_deferring(void (*func)(void *), void *data);
bool __perf_gate_closed(struct perf_event *event);
void __perf_gate_catch_up(struct perf_event *event);

/* steer.c */
void perf_gate_pmu_start(struct perf_event *event, int flags);
bool __perf_gate_aux_pause(struct perf_event *event, bool pause);

/* account.c */
u64 __perf_gate_count(struct perf_event *event);
u64 __perf_gate_tick_span(struct perf_event *event);
bool __perf_gate_hides_index(struct perf_event *event);
void __perf_gate_reset(struct perf_event *event);
void __perf_gate_sync_child(struct perf_event *child);
int perf_gate_add_values(struct perf_event *event, u64 read_format, u64 running,
			 bool self, u64 *values);
int perf_gate_read_values(struct perf_event *event, u64 read_format, u64 running,
			  u64 *values);

/* state.c */
int __perf_gate_init(struct perf_event *event);
void __perf_gate_release(struct perf_event *event);
void __perf_gate_sever(struct perf_event *event);
int __perf_gate_inherit(struct perf_event *child, struct perf_event *source);

/* link.c */
long perf_gate_ioctl(struct perf_event *event, unsigned int cmd, unsigned long arg);

/*
 * Turning the key on waits for all sections with interrupts off, so a firing never
 * interrupts one that took the key for off: perf_gate_get_key().
 */
static __always_inline bool perf_gates_exist(void)
{
	return static_branch_unlikely(&perf_gate_key.key);
}

/* The event has an account; while no gate exists, the answer costs a NOP. */
static __always_inline bool perf_gate_has_account(struct perf_event *event)
{
	return perf_gates_exist() && READ_ONCE(event->gate_account);
}

/* The event occurred, or does a part of its overflow as PERF_GATE_{BEFORE,AFTER}. */
static __always_inline void perf_gate_fire(struct perf_event *event, unsigned long pass)
{
	if (perf_gates_exist() && !hlist_empty(&(event->parent ?: event)->gate_links))
		__perf_gate_fire(event, pass);
}

/* The event overflowed while it is throttled, so no BPF program was asked. */
static __always_inline void perf_gate_fire_throttled(struct perf_event *event)
{
	if (perf_gates_exist())
		__perf_gate_fire_throttled(event);
}

/* The overflows of the event are to be dropped. */
static __always_inline bool perf_gate_closed(struct perf_event *event)
{
	return perf_gate_has_account(event) && __perf_gate_closed(event);
}

/* The user page of the event must not tell which counter it has. */
static __always_inline bool perf_gate_hides_index(struct perf_event *event)
{
	return perf_gate_has_account(event) && __perf_gate_hides_index(event);
}

/* pmu::add() of the event. */
static __always_inline int perf_gate_pmu_add(struct perf_event *event)
{
	if (perf_gate_has_account(event))
		return __perf_gate_pmu_add(event);

	return event->pmu->add(event, PERF_EF_START);
}

/* pmu::del() of the event. The account outlives the key. */
static __always_inline void perf_gate_pmu_del(struct perf_event *event)
{
	if (perf_gate_has_account(event))
		__perf_gate_pmu_del(event);
	else
		event->pmu->del(event, 0);
}

/* The event is about to count although its task does not run here. */
static __always_inline void perf_gate_catch_up(struct perf_event *event)
{
	if (perf_gate_has_account(event))
		__perf_gate_catch_up(event);
}

/* For how many ns the event has counted since the last tick; 0 if it is too early to say. */
static __always_inline u64 perf_gate_tick_span(struct perf_event *event)
{
	return perf_gate_has_account(event) ? __perf_gate_tick_span(event) : TICK_NSEC;
}

/* True if the gate of the event pauses and resumes it. */
static __always_inline bool perf_gate_aux_pause(struct perf_event *event, bool pause)
{
	return perf_gate_has_account(event) && __perf_gate_aux_pause(event, pause);
}

/* A firing must not read the PMU before it runs again, though it counts as enabled. */
static __always_inline void perf_gate_pmu_enable(struct pmu *pmu)
{
	if (perf_gates_exist())
		__perf_gate_pmu_enable(pmu);
	else
		pmu->pmu_enable(pmu);
}

/* Bring the count of the event, which is active here, up to date. */
static __always_inline void perf_gate_pmu_read(struct perf_event *event)
{
	if (perf_gates_exist())
		__perf_gate_pmu_read(event);
	else
		event->pmu->read(event);
}

/* Call a function that has counts or times of this CPU in motion. */
static __always_inline void perf_gate_call_deferring(void (*func)(void *), void *data)
{
	if (perf_gates_exist())
		__perf_gate_call_deferring(func, data);
	else
		func(data);
}

/* The count of the event inside of its windows. */
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

/* The event is new. perf_gate_inherit() takes care of an inherited one. */
static inline int perf_gate_init(struct perf_event *event)
{
	return event->attr.start_paused && !event->parent ? __perf_gate_init(event) : 0;
}

/* The context is that of a new task. */
static inline void perf_gate_init_context(struct perf_event_context *ctx, u64 clone_flags)
{
	ctx->gate_thread = clone_flags & CLONE_THREAD;
}

/* The context belongs to its task, because its gates do. perf_event_context::lock is held. */
static inline bool perf_gate_keeps_context(struct perf_event_context *ctx)
{
	return !RB_EMPTY_ROOT(&ctx->gate_states.tree[0]);
}

/* The event is being freed. Not behind the key, because releasing a gate drops the key. */
static inline void perf_gate_release(struct perf_event *event)
{
	if (event->gate_account)
		__perf_gate_release(event);
}

/* The event is closed, or moves to the context of another CPU. */
static inline void perf_gate_sever(struct perf_event *event)
{
	if (event->gate || !hlist_empty(&event->gate_links))
		__perf_gate_sever(event);
}

/* RCU readers of the event are gone. An opened event's account begins its member. */
static inline void perf_gate_free_rcu(struct perf_event *event)
{
	kfree(event->gate_account);
}

/* The child is a copy of the source, an event of the task that forks. */
static inline int perf_gate_inherit(struct perf_event *child, struct perf_event *source)
{
	return perf_gates_exist() && child->parent->gate ?
	       __perf_gate_inherit(child, source) : 0;
}

/* The child is gone, except for its part in the values of its parent. */
static inline void perf_gate_sync_child(struct perf_event *child)
{
	if (child->parent->gate_account)
		__perf_gate_sync_child(child);
}

#else /* !CONFIG_PERF_EVENTS_GATE */

static inline void perf_gate_fire(struct perf_event *event, unsigned long pass) { }
static inline void perf_gate_fire_throttled(struct perf_event *event) { }
static inline bool perf_gate_closed(struct perf_event *event) { return false; }
static inline bool perf_gate_hides_index(struct perf_event *event) { return false; }
static inline u64 perf_gate_tick_span(struct perf_event *event) { return TICK_NSEC; }
static inline void perf_gate_catch_up(struct perf_event *event) { }
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
static inline void perf_gate_sever(struct perf_event *event) { }
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

/* perf_gate_check_attr() refuses the bits that ask for values. */
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

/* The numbers in between are of ioctls that have a size in theirs. */
static inline bool perf_gate_is_ioctl(unsigned int cmd)
{
	return cmd - PERF_EVENT_IOC_SET_STARTER <=
	       PERF_EVENT_IOC_JOIN_GATE - PERF_EVENT_IOC_SET_STARTER;
}

#define PERF_FORMAT_GATE	(PERF_FORMAT_GATE_TIME | PERF_FORMAT_GATE_COUNT)

/* The kernel has all features of gates that the attributes ask for. */
static inline int perf_gate_check_attr(const struct perf_event_attr *attr)
{
	if (!attr->start_paused && !attr->gate_nest &&
	    !(attr->read_format & PERF_FORMAT_GATE))
		return 0;

	return IS_ENABLED(CONFIG_PERF_EVENTS_GATE) ? 0 : -EINVAL;
}

#endif /* _KERNEL_EVENTS_GATE_H */
