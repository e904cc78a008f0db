// SPDX-License-Identifier: GPL-2.0
/*
 * Simulated PMUs: overflows of counters, in the context that the event asks for.
 *
 * The code that makes a counter overflow sets its bit in pmusim_cpu::pending and
 * arranges a call of pmusim_handle() in that context on the same CPU. While the PMU
 * is disabled no overflow is handled, and pmusim_enable() arranges the call again.
 *
 * The next step of a tick waits until the bits are gone, so a tick gives the same
 * samples each time. If the context is a worker, a task's event has left the CPU by
 * then: an overflow that is pending when its event leaves is handled when it is back.
 */

#include <linux/hardirq.h>

#include <asm/irq_regs.h>

#include "pmusim.h"

static bool pmusim_excluded(struct perf_event *event, struct pt_regs *regs)
{
	return user_mode(regs) ? event->attr.exclude_user :
				 event->attr.exclude_kernel;
}

/* Get the context as bits for the log: 1 hard interrupt, 2 softirq, 4 NMI, 0 task. */
static unsigned int pmusim_contexts(void)
{
	return (in_hardirq() ? 1 : 0) | (in_serving_softirq() ? 2 : 0) |
	       (in_nmi() ? 4 : 0);
}

static void pmusim_handle_one(struct perf_event *event, struct pt_regs *regs)
{
	struct pmusim_event *pe = to_pmusim_event(event);
	struct perf_sample_data data;
	int ret;

	pmusim_update(event);
	if (!pmusim_set_period(event) && !pe->owed)
		return;
	pe->owed = false;

	if (pmusim_excluded(event, regs))
		return;
	if (event->attr.aux_output) {
		pmusim_aux_packet(event);
		return;
	}
	perf_sample_data_init(&data, 0, event->hw.last_period);
	ret = perf_event_overflow(event, &data, regs);
	pmusim_log(event->pmu, event, PMUSIM_OP_OVERFLOW, pmusim_contexts(), ret);
	if (ret)
		pmusim_stop(event, 0);
}

/**
 * pmusim_handle() - Handle the overflows that are for a context
 * @c:		The CPU, which is this one
 * @context:	The context
 * @regs:	Registers of the interrupted code, NULL if there are none
 *
 * Context: Interrupts off, in @context.
 * Return: Whether any overflow was handled.
 */
bool pmusim_handle(struct pmusim_cpu *c, enum pmusim_context context,
		   struct pt_regs *regs)
{
	struct perf_event *event;
	unsigned long pending;
	struct pt_regs here = {};
	bool handled = false;
	int i;

	if (READ_ONCE(c->disabled))
		return false;

	if (!regs) {
		perf_fetch_caller_regs(&here);
		regs = &here;
	}
	pending = READ_ONCE(c->pending) & READ_ONCE(c->started);
	for_each_set_bit(i, &pending, PMUSIM_MAX_COUNTERS) {
		event = c->event[i];
		if (to_pmusim_event(event)->context != context)
			continue;
		if (!test_and_clear_bit(i, &c->pending))
			continue;
		pmusim_handle_one(event, regs);
		handled = true;
	}
	return handled;
}

static void pmusim_handle_nmi_like(struct pmusim_cpu *c)
{
#if IS_BUILTIN(CONFIG_PERF_PMUSIM)
	nmi_enter();
	pmusim_handle(c, PMUSIM_NMI_LIKE, get_irq_regs());
	nmi_exit();
#endif
}

/**
 * pmusim_kick() - Make a context handle pending overflows
 * @c:		The CPU, which is this one
 * @context:	The context
 *
 * Context: Interrupts off, NMIs.
 */
void pmusim_kick(struct pmusim_cpu *c, enum pmusim_context context)
{
	if (c->disabled)
		return;

	switch (context) {
	case PMUSIM_HARDIRQ:
		if (!in_nmi()) {
			hrtimer_start(&c->timer, 0, HRTIMER_MODE_REL_PINNED_HARD);
			break;
		}
		fallthrough;
	case PMUSIM_IRQ_WORK:
	case PMUSIM_SOFTIRQ:
	case PMUSIM_TASK:
		irq_work_queue(&c->work);
		break;
	case PMUSIM_NMI_LIKE:
		pmusim_handle_nmi_like(c);
		break;
	case PMUSIM_NMI:
		pmusim_nmi_raise();
		break;
	default:
		break;
	}
}

/**
 * pmusim_kick_pending() - Do pmusim_kick() for each context with pending
 * overflows
 * @c:		The CPU, which is this one
 *
 * Context: Interrupts off, NMIs.
 */
void pmusim_kick_pending(struct pmusim_cpu *c)
{
	unsigned long pending = READ_ONCE(c->pending) & READ_ONCE(c->started);
	unsigned long contexts = 0;
	int i;

	for_each_set_bit(i, &pending, PMUSIM_MAX_COUNTERS)
		__set_bit(to_pmusim_event(c->event[i])->context, &contexts);
	for_each_set_bit(i, &contexts, PMUSIM_NR_CONTEXTS)
		pmusim_kick(c, i);
}

/**
 * pmusim_raise() - Request the handling of a counter's overflow
 * @c:		The CPU, which is this one
 * @idx:	The counter
 *
 * Context: Interrupts off, NMIs.
 */
void pmusim_raise(struct pmusim_cpu *c, int idx)
{
	if (c->sim->pmu.capabilities & PERF_PMU_CAP_NO_INTERRUPT)
		return;

	set_bit(idx, &c->pending);
	pmusim_kick(c, to_pmusim_event(c->event[idx])->context);
}

static enum hrtimer_restart pmusim_overflow_timer(struct hrtimer *timer)
{
	struct pmusim_cpu *c = container_of(timer, struct pmusim_cpu, timer);

	pmusim_handle(c, PMUSIM_HARDIRQ, get_irq_regs());
	return HRTIMER_NORESTART;
}

static void pmusim_overflow_work(struct irq_work *work)
{
	struct pmusim_cpu *c = container_of(work, struct pmusim_cpu, work);
	unsigned long started, pending;
	int i;

	pmusim_handle(c, PMUSIM_IRQ_WORK, get_irq_regs());

	/* Start the timers that an NMI could not start. */
	started = READ_ONCE(c->started);
	for_each_set_bit(i, &started, PMUSIM_MAX_COUNTERS)
		pmusim_arm(c->event[i]);

	pending = READ_ONCE(c->pending) & READ_ONCE(c->started);
	for_each_set_bit(i, &pending, PMUSIM_MAX_COUNTERS) {
		switch (to_pmusim_event(c->event[i])->context) {
		case PMUSIM_HARDIRQ:
			pmusim_kick(c, PMUSIM_HARDIRQ);
			break;
		case PMUSIM_SOFTIRQ:
			queue_work_on(smp_processor_id(), system_bh_highpri_wq,
				      &c->bh);
			break;
		case PMUSIM_TASK:
			queue_work_on(smp_processor_id(), system_highpri_wq,
				      &c->task);
			break;
		default:
			break;
		}
	}
}

/* Do nothing in a worker that has left its CPU: that is offline and has no events. */
static void pmusim_handle_here(struct pmusim_cpu *c, enum pmusim_context context)
{
	unsigned long flags;

	local_irq_save(flags);
	if (c == this_cpu_ptr(c->sim->cpu))
		pmusim_handle(c, context, NULL);
	local_irq_restore(flags);
}

static void pmusim_overflow_bh(struct work_struct *work)
{
	pmusim_handle_here(container_of(work, struct pmusim_cpu, bh),
			   PMUSIM_SOFTIRQ);
}

static void pmusim_overflow_task(struct work_struct *work)
{
	pmusim_handle_here(container_of(work, struct pmusim_cpu, task),
			   PMUSIM_TASK);
}

/**
 * pmusim_overflow_setup() - Initialize the handling of overflows of one CPU
 * @c:		The counters of the CPU
 *
 * Context: Process context.
 */
void pmusim_overflow_setup(struct pmusim_cpu *c)
{
	hrtimer_init(&c->timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_PINNED_HARD);
	c->timer.function = pmusim_overflow_timer;
	c->work = IRQ_WORK_INIT_HARD(pmusim_overflow_work);
	INIT_WORK(&c->bh, pmusim_overflow_bh);
	INIT_WORK(&c->task, pmusim_overflow_task);
}

/**
 * pmusim_overflow_teardown() - Wait until no overflow is being handled
 * @c:		The counters of a CPU, without events
 *
 * Context: Process context.
 */
void pmusim_overflow_teardown(struct pmusim_cpu *c)
{
	hrtimer_cancel(&c->timer);
	irq_work_sync(&c->work);
	hrtimer_cancel(&c->timer);
	cancel_work_sync(&c->bh);
	cancel_work_sync(&c->task);
}
