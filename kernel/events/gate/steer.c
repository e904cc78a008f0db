// SPDX-License-Identifier: GPL-2.0
/*
 * Performance event gates: let the PMU of an event follow its account.
 *
 *                 account closes, or aux_pause
 *      STARTED ------------------------------------> STOPPED
 *         ^                                             |
 *         `---------------------------------------------'
 *            account is open and nothing asks for a pause
 *
 * Counts are exact without this. It spares a sampling event the overflows that
 * would be dropped, by pmu::stop() and pmu::start(), and it stops the tracing of
 * an AUX area event, by a pause. The event keeps its counter or its buffer.
 *
 * Contexts:  CPU of the event. A firing that interrupts the PMU driver leaves
 *            this to irq_work; one that interrupts perf_gate_steer() leaves it to
 *            the loop there.
 */

#include <linux/perf_event.h>

#include "gate.h"

/* Tell whether the PMU must have the event stopped. */
static bool perf_gate_wants_stop(struct perf_gate_account *account)
{
	return !account->split[0].open || (account->aux && account->aux_request);
}

static void perf_gate_start_or_stop(struct perf_gate_account *account, bool stop)
{
	struct perf_event *event = account->event;

	WRITE_ONCE(account->stopped, stop);
	if (account->aux) {
		event->hw.aux_paused = stop;
		if (stop)
			event->pmu->stop(event, PERF_EF_PAUSE);
		else
			event->pmu->start(event, PERF_EF_RESUME);
		return;
	}

	if (stop) {
		event->pmu->stop(event, PERF_EF_UPDATE);
		return;
	}

	/* Leave the time of the closed gate out of the estimate of the event's rate. */
	event->hw.freq_time_stamp = 0;
	/* A gate must not end throttling or an exhausted event_limit. */
	if (event->hw.interrupts != MAX_INTERRUPTS && !event->pending_disable)
		event->pmu->start(event, PERF_EF_RELOAD);
}

/**
 * perf_gate_steer() - Let the PMU follow the account of a steered event
 * @account:	The account
 * @context:	Place where the gate moved
 *
 * Context: CPU of the event, interrupts off.
 */
noinline void perf_gate_steer(struct perf_gate_account *account,
			      enum perf_gate_context context)
{
	struct pmu *pmu = account->event->pmu;

	if (account->steering || perf_gate_wants_stop(account) == account->stopped)
		return;

	if (context == PERF_GATE_ANYWHERE) {
		/* The event starts late, so its window is not whole. */
		if (!perf_gate_wants_stop(account))
			perf_gate_drop_window(account->event);
		irq_work_queue(&account->work);
		return;
	}

	/* In an overflow the driver has already disabled the PMU, if it needs that. */
	if (context == PERF_GATE_OUTSIDE)
		perf_pmu_disable(pmu);

	/* A firing that interrupts this moves the account only; the loop sees it. */
	do {
		account->steering = true;
		barrier();
		perf_gate_start_or_stop(account, perf_gate_wants_stop(account));
		barrier();
		account->steering = false;
		barrier();
	} while (perf_gate_wants_stop(account) != account->stopped);

	if (context == PERF_GATE_OUTSIDE)
		perf_pmu_enable(pmu);
}

/**
 * perf_gate_steer_add() - Put a steered event on its PMU
 * @account:	Account of the event
 *
 * Context: As __perf_gate_pmu_add().
 * Return: The result of pmu::add().
 */
int perf_gate_steer_add(struct perf_gate_account *account)
{
	struct perf_event *event = account->event;

	/* A firing that moves the account after the loop queues irq_work. */
	do {
		account->stopped = perf_gate_wants_stop(account);
		barrier();
	} while (account->stopped != perf_gate_wants_stop(account));
	if (account->aux)
		event->hw.aux_paused = account->stopped;
	else
		account->late = false;

	return event->pmu->add(event, account->stopped && !account->aux ? 0 : PERF_EF_START);
}

/**
 * perf_gate_steer_init() - Take over the present state of an event's PMU
 * @account:	Account that is about to be installed
 *
 * Context: CPU of the event, interrupts off, or the event does not run.
 */
void perf_gate_steer_init(struct perf_gate_account *account)
{
	if (!account->aux)
		return;

	account->aux_request = account->event->hw.aux_paused;
	account->stopped = account->aux_request;
}

static bool perf_gate_keeps_stopped(struct perf_event *event)
{
	struct perf_gate_account *account;

	if (!perf_gate_has_account(event))
		return false;

	account = event->gate_account;

	return account->place == PERF_GATE_STEERED && !account->aux &&
	       READ_ONCE(account->stopped);
}

/**
 * perf_gate_pmu_start() - Start an event unless its gate keeps it stopped
 * @event:	Event that the core stopped or throttled
 * @flags:	Flags of pmu::start()
 *
 * Context: CPU of the event, interrupts off.
 */
void perf_gate_pmu_start(struct perf_event *event, int flags)
{
	if (perf_gate_keeps_stopped(event))
		return;

	event->pmu->start(event, flags);
	/* An NMI may have closed the gate between the test and the start. */
	if (perf_gate_keeps_stopped(event))
		event->pmu->stop(event, PERF_EF_UPDATE);
}

/**
 * __perf_gate_aux_pause() - Pause or resume an AUX area event that has an account
 * @event:	The event
 * @pause:	True for attr.aux_pause of the event that asks, false for attr.aux_resume
 *
 * The event traces while its gate is open and no other event has paused it.
 *
 * Context: Any, on the CPU that @event runs on.
 * Return: False if @event writes to no AUX area, so nothing was done.
 */
bool __perf_gate_aux_pause(struct perf_event *event, bool pause)
{
	struct perf_gate_account *account = event->gate_account;

	if (!account->aux)
		return false;

	guard(irqsave)();

	WRITE_ONCE(account->aux_request, pause);
	perf_gate_steer(account, perf_gate_readable(event) ? PERF_GATE_IN_OVERFLOW :
							     PERF_GATE_ANYWHERE);

	return true;
}
