/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * User space access to the counters of core-book3s.c
 */
#ifndef _POWERPC_PERF_USER_ACCESS_H
#define _POWERPC_PERF_USER_ACCESS_H

#include <linux/perf_event.h>
#include <linux/sched.h>
#include <linux/types.h>

/* Of perf_event::hw.flags: cpu_hw_events::n_user includes this event. */
#define POWER_EVENT_USER_COUNTED	0x00000001

/**
 * power_user_wanted() - Does the event's task read the counter by itself?
 * @event:	Event of this PMU
 *
 * A mapping of somebody else, who may count what the task is not to know, gives
 * it no right.
 *
 * Context: On the CPU where the event's task runs. The mapping may come and go.
 * Return: Whether it may and has had a mapping of its own, and there still is one.
 */
static __always_inline bool power_user_wanted(struct perf_event *event)
{
	return (event->hw.flags & PERF_EVENT_FLAG_USER_READ_CNT) &&
	       atomic_read(&event->mmap_count) && current->mm &&
	       READ_ONCE(event->pmu_private) == current->mm;
}

extern unsigned int power_user_system_limit;

/**
 * power_user_access() - Decide on user space access to the counters
 * @nr_system:	How many events on the PMU are not of the running task alone
 *
 * Needs to be called only if another event there may be open.
 *
 * Context: Interrupts and the PMU of this CPU are disabled.
 * Return: Whether the counters are to be open.
 */
static inline bool power_user_access(unsigned int nr_system)
{
	return nr_system < READ_ONCE(power_user_system_limit);
}

void power_user_access_init_event(struct perf_event *event);
void power_user_access_mapped(struct perf_event *event, struct mm_struct *mm);
void power_user_access_init(struct pmu *pmu, void (*apply)(void *unused),
			    bool revocable);

#endif /* _POWERPC_PERF_USER_ACCESS_H */
