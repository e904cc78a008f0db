// SPDX-License-Identifier: GPL-2.0
/*
 * Performance event gates: accounts follow the gate where no firing can see to it.
 *
 *      a firing had to leave it to irq_work              perf_gate_settle_work()
 *      a system call changes the gate                    perf_gate_settle_event()
 *      the event comes to run                            __perf_gate_pmu_add()
 *      a tracepoint is delivered to a task that sleeps   __perf_gate_catch_up()
 *
 * A member that its PMU runs is on perf_gate_state::active. It gets there before
 * its account is settled, so a firing in between finds it, and leaves after
 * pmu::del(), so its account is right until the last count.
 *
 * Contexts:  CPU of the event, interrupts off.
 */

#include <linux/perf_event.h>
#include <linux/rculist.h>

#include "gate.h"
#include "settle.h"

/* Settle an event that runs on this CPU and is perf_gate_readable(). */
static void perf_gate_settle_here(struct perf_gate_account *account)
{
	perf_gate_settle(account, perf_event_ctx_time(account->event), true);
	perf_gate_follow(account, PERF_GATE_OUTSIDE);
}

/**
 * perf_gate_settle_event() - Let an event follow its gate, running or not
 * @event:	Event that has an account
 *
 * Context: Interrupts off, perf_event_context::lock of the event held. CPU of the
 *          event's context if that is active.
 */
void perf_gate_settle_event(struct perf_event *event)
{
	struct perf_gate_account *account = event->gate_account;

	lockdep_assert_held(&event->ctx->lock);

	if (READ_ONCE(event->oncpu) < 0)
		perf_gate_settle(account, perf_event_ctx_time(event), false);
	else if (perf_gate_readable(event))
		perf_gate_settle_here(account);
	else
		irq_work_queue(&account->work);
}

/**
 * perf_gate_settle_work() - Settle a member that a firing had to leave to irq_work
 * @work:	perf_gate_account::work
 *
 * Context: Interrupt.
 */
void perf_gate_settle_work(struct irq_work *work)
{
	struct perf_gate_account *account =
		container_of(work, struct perf_gate_account, work);
	int cpu = READ_ONCE(account->event->oncpu);

	/*
	 * If the event moved to another CPU, pmu::add() settled it there. But a firing
	 * on that CPU may have found this work pending here, so pass the work on.
	 */
	if (perf_gate_readable(account->event)) {
		perf_gate_settle_here(account);
		if (perf_gate_may_be_late(account) && account->late)
			perf_gate_deliver_late(account);
	} else if (cpu >= 0 && cpu != smp_processor_id()) {
		irq_work_queue_on(work, cpu);
	}
}

/**
 * __perf_gate_pmu_add() - Settle the account of an event and put it on its PMU
 * @event:	Event that has an account
 *
 * The event becomes active before it is settled, so a firing in between finds it.
 *
 * Context: CPU of the event, interrupts off, perf_event_context::lock held,
 *          PMU of the event disabled.
 * Return: The result of pmu::add().
 */
int __perf_gate_pmu_add(struct perf_event *event)
{
	struct perf_gate_account *account = event->gate_account;
	struct perf_gate_state *state = event->gate_state;
	int ret;

	lockdep_assert_held(&event->ctx->lock);

	if (state)
		hlist_add_head_rcu(&account->active, &state->active);
	if (unlikely(event->gate_window))
		perf_gate_window_resume(event);
	/* Use ->tstamp, because the event has not run since if pmu::add() fails. */
	perf_gate_settle(account, event->tstamp, false);
	if (account->place == PERF_GATE_STEERED)
		ret = perf_gate_steer_add(account);
	else
		ret = event->pmu->add(event, PERF_EF_START);
	if (ret && state)
		hlist_del_init_rcu(&account->active);

	return ret;
}

/**
 * __perf_gate_pmu_del() - Take an event off its PMU
 * @event:	Event that has an account
 *
 * Context: As __perf_gate_pmu_add().
 */
void __perf_gate_pmu_del(struct perf_event *event)
{
	event->pmu->del(event, 0);
	if (event->gate_state)
		hlist_del_init_rcu(&event->gate_account->active);
}

/**
 * __perf_gate_catch_up() - Settle an event that counts while its task is not here
 * @event:	Event of this CPU that has an account, whose task sleeps or runs on
 *		another CPU
 *
 * A tracepoint that is delivered to another task counts in the events that this task
 * has on the CPU of the delivery. Since the task left that CPU, its triggers may
 * have fired on others.
 *
 * Context: Interrupts off, perf_event_context::lock of the event held.
 */
void __perf_gate_catch_up(struct perf_event *event)
{
	struct perf_gate_account *account = event->gate_account;

	lockdep_assert_held(&event->ctx->lock);

	if (event->state != PERF_EVENT_STATE_INACTIVE)
		return;

	perf_gate_settle(account, perf_event_ctx_time(event), false);
	if (account->place == PERF_GATE_STEERED) {
		account->stopped = !account->split[0].open;
		event->hw.state = account->stopped ? PERF_HES_STOPPED : 0;
	}
}
