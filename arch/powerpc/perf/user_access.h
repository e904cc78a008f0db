/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * User space access to the counters of core-book3s.c
 */
#ifndef _POWERPC_PERF_USER_ACCESS_H
#define _POWERPC_PERF_USER_ACCESS_H

#include <linux/err.h>
#include <linux/perf_event.h>
#include <linux/sched.h>
#include <linux/types.h>

/*
 * Flags in perf_event::hw.flags: cpu_hw_events::n_user includes the event, or n_system
 * does.
 */
#define POWER_EVENT_USER_COUNTED	0x00000001
#define POWER_EVENT_SYSTEM_COUNTED	0x00000002

/**
 * power_user_own() - Tell whether the running task may know the count of an event
 * @event:	Event of this PMU
 *
 * An event that another process has opened for a task may count what the task must not
 * know. perf_event::pmu_private is the mm of the process that opened the event for a task,
 * or, if the process of that task got the descriptor and has mapped it, the mm of
 * that process. An event that the kernel opened has an error pointer as perf_event::owner.
 *
 * Context: On the CPU of the event. If the event counts a task, that task is running.
 * Return: True if the task may know it, false for any event of a whole CPU.
 */
static __always_inline bool power_user_own(struct perf_event *event)
{
	const void *mm = READ_ONCE(event->pmu_private);

	return mm && mm == current->mm && !IS_ERR(READ_ONCE(event->owner));
}

/**
 * power_user_wanted() - Tell whether the running task may read the counter
 * itself
 * @event:	Event of this PMU that is its own
 *
 * Context: Any. The mapping may come and go.
 * Return: True if the task may read it and a mapping exists.
 */
static __always_inline bool power_user_wanted(struct perf_event *event)
{
	return (event->hw.flags & PERF_EVENT_FLAG_USER_READ_CNT) &&
	       atomic_read(&event->mmap_count);
}

extern unsigned int power_user_system_limit;

/**
 * power_user_access() - Decide on user space access to the counters
 * @nr_system:	Number of events on the PMU that do not belong to the running
 *		task
 *
 * Call this only if an event on the PMU may be open to its task.
 *
 * Context: Interrupts and the PMU of this CPU are disabled.
 * Return: True if the counters have to be open.
 */
static inline bool power_user_access(unsigned int nr_system)
{
	return nr_system < READ_ONCE(power_user_system_limit);
}

void power_user_access_init_event(struct perf_event *event);
void power_user_access_destroy_event(struct perf_event *event);
void power_user_access_mapped(struct perf_event *event, struct mm_struct *mm);
void power_user_access_init(struct pmu *pmu, void (*apply)(void *unused),
			    bool revocable);

#endif /* _POWERPC_PERF_USER_ACCESS_H */
