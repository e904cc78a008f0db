/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Performance event gates: an account follows the depth of its gate. A firing does this
 * for members that run where it is, settle.c for all others.
 */
#ifndef _KERNEL_EVENTS_GATE_SETTLE_H
#define _KERNEL_EVENTS_GATE_SETTLE_H

#include "gate.h"
#include "windows.h"

/*
 * Let the account follow the depth. @time is perf_event_ctx_time(). With @read, read
 * the PMU first. A firing that interrupts this and asks for another state queues irq_work.
 */
static __always_inline void
perf_gate_settle(struct perf_gate_account *account, u64 time, bool read)
{
	struct perf_event *event = account->event;
	bool open;

	perf_gate_defer_begin();
	open = perf_gate_wants_open(account);
	if (account->split[0].open != open) {
		if (read) {
			if (unlikely(account->records))
				perf_gate_flush(account);
			event->pmu->read(event);
			perf_gate_check_late(account, event, open);
		}
		if (unlikely(event->gate_window))
			perf_gate_window_settle(event, time, open);
		perf_gate_flip_account(account, event, time);
	}
	perf_gate_defer_end();
}

/*
 * Update the user page, which tells its reader where the counter is and what to add to
 * it. An NMI may have interrupted a writer of the page, so it leaves the update to
 * irq_work.
 */
static __always_inline void perf_gate_update_userpage(struct perf_gate_account *account)
{
	if (likely(!account->event->rb))
		return;

	if (!in_nmi())
		perf_event_update_userpage(account->event);
	else
		irq_work_queue(&account->work);
}

/* Let PMU and user page follow the account, which has moved. */
static __always_inline void perf_gate_follow(struct perf_gate_account *account,
					     enum perf_gate_context context)
{
	if (account->place == PERF_GATE_STEERED)
		perf_gate_steer(account, context);
	perf_gate_update_userpage(account);
}

#endif /* _KERNEL_EVENTS_GATE_SETTLE_H */
