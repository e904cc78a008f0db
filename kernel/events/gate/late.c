// SPDX-License-Identifier: GPL-2.0
/*
 * Performance event gates: overflows of a window that ends before their interrupt.
 *
 *                      overflow       account closes   irq_work      interrupt
 *       period runs ------>------ LATE ------>------------>-------------->
 *                                                     delivers     finds nothing
 *
 * The interrupt of a PMU comes a while after the overflow, on processors 0.1 to
 * some microseconds. If the gate closes in between, the driver finds the event
 * stopped and reports nothing, which would lose the samples of short windows. So
 * perf_gate_account::late is set
 *
 *  - when the account closes and the count has passed the period, as
 *    hw_perf_event::period_left tells, and
 *  - when the driver reports an overflow after the trigger has fired, but before
 *    the account has closed. The core drops this report.
 *
 * irq_work, which follows the firing at once where interrupts are enabled, calls
 * perf_event_overflow() in place of the driver. The period is not touched:
 * pmu::start() begins the next one, as it does after a task switch. An event that
 * leaves its PMU before the work runs loses the overflow, as it does without gates.
 *
 * A PMU that records the sample itself, as Intel's PEBS does, knows better than a
 * delivery of this kind could where the overflow was, and its driver forgets what
 * it has of an event that is stopped. So pmu::flush() hands over the records
 * before the account moves, and such an event is never LATE: an overflow that has
 * no record yet has no sample.
 *
 * Contexts:  The flag is set on the CPU of the event, where the trigger fires or
 *            in the interrupt of the PMU. The overflow is delivered in interrupt
 *            context with the PMU disabled, so it is never part of another
 *            overflow whose sample is under way, and firings in it defer.
 */

#include <linux/perf_event.h>
#include <linux/sched/task_stack.h>

#include <asm/irq_regs.h>

#include "gate.h"

/* The event whose late overflow is being delivered on this CPU */
DEFINE_PER_CPU(struct perf_event *, perf_gate_late_event);

/*
 * The registers of the code that an interrupt has interrupted. Where the architecture keeps
 * none, and outside of interrupts, those of the caller, which are stored in @here.
 */
static struct pt_regs *perf_gate_regs(struct pt_regs *here)
{
	struct pt_regs *regs = get_irq_regs();

	if (!regs) {
		perf_fetch_caller_regs(here);
		regs = here;
	}

	return regs;
}

/*
 * An event that does not count in the kernel gets the registers of user mode, so that no
 * address of the kernel is in its sample. Other events get those of the code that the
 * work interrupted.
 */
static struct pt_regs *perf_gate_late_regs(struct perf_event *event, struct pt_regs *here)
{
	struct pt_regs *regs = perf_gate_regs(here);

	if (!event->attr.exclude_kernel)
		return event->attr.exclude_user && user_mode(regs) ? NULL : regs;

	if (user_mode(regs))
		return regs;
	if (!is_user_task(current))
		return NULL;
	regs = task_pt_regs(current);
	return user_mode(regs) ? regs : NULL;
}

/**
 * perf_gate_flush() - Report the records of an event before its account moves
 * @account:	Account of the event, which is perf_gate_readable()
 *
 * Context: Interrupts off, CPU of the event. The caller defers firings.
 */
noinline void perf_gate_flush(struct perf_gate_account *account)
{
	struct perf_event *event = account->event;
	struct pt_regs here = {};

	event->pmu->flush(event, perf_gate_regs(&here));
}

/**
 * perf_gate_set_late() - Note that an overflow has come in a window that ends
 * @account:	Account of the event, which is perf_gate_may_be_late()
 *
 * Context: Any, on the CPU of the event.
 */
noinline void perf_gate_set_late(struct perf_gate_account *account)
{
	struct perf_gate_state *state = READ_ONCE(account->event->gate_state);

	if (state) {
		state->late_task = current;
		state->late_ip = is_user_task(current) ?
				 instruction_pointer(task_pt_regs(current)) : 0;
	}
	account->late = true;
	irq_work_queue(&account->work);
}

/**
 * perf_gate_deliver_late() - Deliver the late overflow of an event
 * @account:	Account of the event, which is perf_gate_readable()
 *
 * Context: Interrupt.
 */
void perf_gate_deliver_late(struct perf_gate_account *account)
{
	struct perf_event *event = account->event;
	struct perf_gate_state *state = READ_ONCE(event->gate_state);
	struct perf_sample_data data;
	struct pt_regs *regs, here = {};

	account->late = false;
	/* An event that is throttled or about to be disabled reports no overflow. */
	if (event->hw.interrupts == MAX_INTERRUPTS || event->pending_disable)
		return;

	/* An event of a CPU stays on its PMU while tasks are switched. */
	if (state && state->late_task != current) {
		atomic64_inc(&event->lost_samples);
		return;
	}

	/* A SIGTRAP that is already pending stands for this overflow, too. */
	if (event->attr.sigtrap && event->pending_work)
		return;

	regs = perf_gate_late_regs(event, &here);
	if (!regs)
		return;

	/* Derive no rate from the time since the driver accounted this overflow. */
	event->hw.freq_time_stamp = 0;
	perf_sample_data_init(&data, 0, event->hw.last_period);
	/*
	 * Where irq_work waits for a timer, as on PowerPC, user mode may have gone on to code
	 * behind the window.
	 */
	if (user_mode(regs) && state && state->late_ip) {
		data.ip = state->late_ip;
		data.sample_flags |= PERF_SAMPLE_IP;
	}
	perf_pmu_disable(event->pmu);
	this_cpu_write(perf_gate_late_event, event);
	if (perf_event_overflow(event, &data, regs))
		event->pmu->stop(event, 0);
	this_cpu_write(perf_gate_late_event, NULL);
	perf_pmu_enable(event->pmu);
}
