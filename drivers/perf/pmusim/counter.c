// SPDX-License-Identifier: GPL-2.0
/*
 * Simulated PMUs with counters.
 *
 * A counter is a register of 8 to 63 bits that starts at minus the rest of the
 * period, or at minus half of its range if that is less, and overflows when it passes
 * zero; overflow.c handles that. The difference to its last value,
 * perf_event::hw.prev_count, is added to the count. Most hardware does the same, so
 * the core and readers in user space see no difference.
 *
 * A register that is not negative has an overflow that has not been handled.
 */

#include <linux/sched/clock.h>

#include "pmusim.h"

/* Shorter periods of a clock would keep a CPU from doing anything else. */
#define PMUSIM_MIN_CLOCK_NS	10000

static u64 pmusim_sign_extend(const struct pmusim_event *pe, u64 value)
{
	return sign_extend64(value, pe->width - 1);
}

/**
 * pmusim_advance() - Let a counter count
 * @c:		The CPU, which is this one
 * @idx:	The counter, with an event that is started
 * @n:		Amount; at most up to the first overflow, otherwise an overflow
 *		goes unnoticed
 *
 * Context: Interrupts off. NMIs only for an event without a skid.
 */
void pmusim_advance(struct pmusim_cpu *c, int idx, u64 n)
{
	struct pmusim_event *pe = to_pmusim_event(c->event[idx]);
	u64 mask = pmusim_mask(pe);
	u64 new, old = local64_read(&c->reg[idx]);
	bool overflow;

	/* An NMI may give the register another value in between. */
	do {
		new = (old + n) & mask;
	} while (!local64_try_cmpxchg(&c->reg[idx], &old, new));

	if (pe->skid_left) {
		pe->skid_left -= min_t(u64, pe->skid_left, n);
		overflow = !pe->skid_left;
	} else {
		overflow = n > mask - old;
		if (overflow && pe->skid) {
			pe->skid_left = pe->skid;
			overflow = false;
		}
	}
	if (overflow)
		pmusim_raise(c, idx);
}

/* Limit for one call, because a large amount overflows a narrow register very often */
#define PMUSIM_TICK_OVERFLOWS	1024

/**
 * pmusim_tick() - Let a counter count until its next interrupt
 * @c:		The CPU, which is this one
 * @idx:	The counter
 * @n:		Amount
 *
 * A counter without a started event, or with one that has another source, counts
 * nothing.
 *
 * Context: Interrupts off.
 * Return: The part of @n that is left, for after the interrupt, or for another
 *         call if there are many overflows without one.
 */
u64 pmusim_tick(struct pmusim_cpu *c, int idx, u64 n)
{
	unsigned int overflows = 0;
	struct pmusim_event *pe;
	u64 step;

	while (n && overflows++ < PMUSIM_TICK_OVERFLOWS) {
		if (!test_bit(idx, &c->started))
			return 0;
		pe = to_pmusim_event(c->event[idx]);
		if (pe->source != PMUSIM_SOURCE_MANUAL)
			return 0;
		if (test_bit(idx, &c->pending))
			break;

		step = pe->skid_left ?:
		       pmusim_mask(pe) - local64_read(&c->reg[idx]) + 1;
		step = min(step, n);
		pmusim_advance(c, idx, step);
		n -= step;
	}
	return n;
}

/* Bring the register of a clock up to date, because the clock advances by itself. */
static void pmusim_update_clock(struct pmusim_cpu *c, int idx)
{
	struct pmusim_event *pe = to_pmusim_event(c->event[idx]);
	u64 old, now;

	if (pe->source != PMUSIM_SOURCE_CLOCK)
		return;

	/* Do not count again what an NMI has counted meanwhile. */
	old = local64_read(&pe->clock);
	do {
		now = max(local_clock(), old);
	} while (!local64_try_cmpxchg(&pe->clock, &old, now));

	pmusim_advance(c, idx, now - old);
}

/**
 * pmusim_update() - Bring the count of an event up to date
 * @event:	An event on a counter of this CPU
 *
 * Context: Interrupts off, NMIs.
 */
void pmusim_update(struct perf_event *event)
{
	struct pmusim_cpu *c = pmusim_this_cpu(event);
	struct pmusim_event *pe = to_pmusim_event(event);
	struct hw_perf_event *hwc = &event->hw;
	u64 new, prev;
	s64 delta;

	/* An NMI may update the count meanwhile; do not add its part again. */
	prev = local64_read(&hwc->prev_count);
	do {
		new = pmusim_sign_extend(pe, local64_read(&c->reg[hwc->idx]));
	} while (!local64_try_cmpxchg(&hwc->prev_count, &prev, new));

	/*
	 * An NMI between the read of the register and the exchange may have begun the
	 * next period and given prev_count its old value back. This delta is then too
	 * large by as much as the next one will be too small.
	 */
	delta = pmusim_sign_extend(pe, new - prev);
	local64_add(delta, &event->count);
	local64_sub(delta, &hwc->period_left);
}

/**
 * pmusim_set_period() - Set the register of an event to the rest of its period
 * @event:	An event on a counter of this CPU, its count up to date
 *
 * Context: Interrupts off, NMIs.
 * Return: Whether a period has ended.
 */
bool pmusim_set_period(struct perf_event *event)
{
	struct pmusim_cpu *c = pmusim_this_cpu(event);
	struct pmusim_event *pe = to_pmusim_event(event);
	struct hw_perf_event *hwc = &event->hw;
	s64 left, period = hwc->sample_period;
	bool ended;

	/* A read in an NMI must not find only one of prev_count and the register changed. */
	pe->busy = true;
	barrier();
	left = local64_read(&hwc->period_left);
	ended = left <= 0;
	if (left <= -period)
		left = period;
	else if (left <= 0)
		left += period;
	if (ended) {
		local64_set(&hwc->period_left, left);
		hwc->last_period = period;
	}

	left = min_t(s64, left, pmusim_mask(pe) >> 1);
	local64_set(&hwc->prev_count, -left);
	local64_set(&c->reg[hwc->idx], -left & pmusim_mask(pe));
	pe->skid_left = 0;
	barrier();
	pe->busy = false;

	pmusim_arm(event);
	perf_event_update_userpage(event);

	return ended;
}

/* Tell whether there is an overflow that has to be handled. */
static bool pmusim_overflowed(struct pmusim_cpu *c, struct perf_event *event)
{
	struct pmusim_event *pe = to_pmusim_event(event);
	u64 reg = local64_read(&c->reg[event->hw.idx]);

	return pe->owed || !(pe->skid_left || reg & BIT_ULL(pe->width - 1));
}

/**
 * pmusim_arm() - Start the timer of an event that needs one
 * @event:	An event on a counter of this CPU
 *
 * An NMI leaves the timer to irq_work.
 *
 * Context: Interrupts off, NMIs.
 */
void pmusim_arm(struct perf_event *event)
{
	struct pmusim_cpu *c = pmusim_this_cpu(event);
	struct pmusim_event *pe = to_pmusim_event(event);
	ktime_t delay = pe->interval;
	u64 reg;

	if (pe->source != PMUSIM_SOURCE_CLOCK && pe->source != PMUSIM_SOURCE_TIMER)
		return;
	if (!test_bit(event->hw.idx, &c->started))
		return;
	if (in_nmi()) {
		irq_work_queue(&c->work);
		return;
	}
	if (pe->source == PMUSIM_SOURCE_CLOCK) {
		reg = local64_read(&c->reg[event->hw.idx]);
		delay = max(pmusim_mask(pe) - reg + 1, PMUSIM_MIN_CLOCK_NS);
		/* The event was stopped before its overflow was handled, so do that soon. */
		if (pmusim_overflowed(c, event))
			delay = PMUSIM_MIN_CLOCK_NS;
	} else if (hrtimer_active(&pe->timer)) {
		/* The timer goes on with its old expiry. */
		return;
	}
	hrtimer_start(&pe->timer, delay, HRTIMER_MODE_REL_PINNED_HARD);
}

/**
 * pmusim_timer_fn() - Advance an event whose source is the clock or a timer
 * @timer:	pmusim_event::timer
 *
 * Context: Hard interrupt, on the CPU that the event is on.
 * Return: Whether the timer goes on.
 */
enum hrtimer_restart pmusim_timer_fn(struct hrtimer *timer)
{
	struct pmusim_event *pe = container_of(timer, struct pmusim_event, timer);
	struct pmusim_cpu *c = pmusim_this_cpu(pe->event);
	int idx = pe->event->hw.idx;
	u64 n;

	/* An NMI could not cancel the timer when it stopped the event. */
	if (idx < 0 || c->event[idx] != pe->event || !test_bit(idx, &c->started))
		return HRTIMER_NORESTART;

	if (pe->source == PMUSIM_SOURCE_CLOCK) {
		pmusim_update_clock(c, idx);
		if (pmusim_overflowed(c, pe->event))
			pmusim_raise(c, idx);
		/* If there was an overflow, its handler starts the timer again. */
		if (!test_bit(idx, &c->pending) && !hrtimer_is_queued(timer))
			pmusim_arm(pe->event);
		return HRTIMER_NORESTART;
	}

	n = hrtimer_forward_now(timer, pe->interval);
	pmusim_advance(c, idx, n);
	/*
	 * An overflow in NMI-like context is handled right here, and may stop the
	 * event.
	 */
	return test_bit(idx, &c->started) ? HRTIMER_RESTART : HRTIMER_NORESTART;
}

/**
 * pmusim_start() - pmu::start() of counters
 * @event:	An event on a counter of this CPU
 * @flags:	PERF_EF_RELOAD to set the counter to what is left of the period
 *
 * Context: Interrupts off, NMIs.
 */
void pmusim_start(struct perf_event *event, int flags)
{
	struct pmusim_cpu *c = pmusim_this_cpu(event);
	struct pmusim_event *pe = to_pmusim_event(event);
	struct hw_perf_event *hwc = &event->hw;

	pmusim_log(event->pmu, event, PMUSIM_OP_START, flags, 0);
	if (WARN_ON_ONCE(hwc->idx < 0 || !(hwc->state & PERF_HES_STOPPED)))
		return;

	if (flags & PERF_EF_RELOAD) {
		WARN_ON_ONCE(!(hwc->state & PERF_HES_UPTODATE));
		pmusim_set_period(event);
	}

	hwc->state = 0;
	local64_set(&pe->clock, local_clock());
	set_bit(hwc->idx, &c->started);
	pmusim_arm(event);
	perf_event_update_userpage(event);
	/* Leave a clock's overflow to its timer: repeated starts could loop otherwise. */
	if (pe->source != PMUSIM_SOURCE_CLOCK && pmusim_overflowed(c, event))
		pmusim_raise(c, hwc->idx);
}

/**
 * pmusim_stop() - pmu::stop() of counters
 * @event:	An event on a counter of this CPU
 * @flags:	PERF_EF_UPDATE to bring its count up to date
 *
 * Context: Interrupts off, NMIs.
 */
void pmusim_stop(struct perf_event *event, int flags)
{
	struct pmusim_cpu *c = pmusim_this_cpu(event);
	struct pmusim_event *pe = to_pmusim_event(event);
	struct hw_perf_event *hwc = &event->hw;

	pmusim_log(event->pmu, event, PMUSIM_OP_STOP, flags, 0);
	if (!(hwc->state & PERF_HES_STOPPED)) {
		/* The next start handles an overflow that this update finds. */
		clear_bit(hwc->idx, &c->started);
		pmusim_update_clock(c, hwc->idx);
		/* The caller may be the timer itself, so do not wait for it. */
		if (!in_nmi())
			hrtimer_try_to_cancel(&pe->timer);
		hwc->state |= PERF_HES_STOPPED;
	}

	if ((flags & PERF_EF_UPDATE) && !(hwc->state & PERF_HES_UPTODATE)) {
		pmusim_update(event);
		hwc->state |= PERF_HES_UPTODATE;
		/* With the capability, the gate that stops the event reports the overflow. */
		if (test_and_clear_bit(hwc->idx, &c->pending) &&
		    local64_read(&hwc->period_left) <= 0 &&
		    !(event->pmu->capabilities & PERF_PMU_CAP_GATE_STOP))
			pe->owed = true;
	}
}

/**
 * pmusim_read() - pmu::read() of counters
 * @event:	An event on a counter of this CPU
 *
 * Context: Interrupts off, NMIs.
 */
void pmusim_read(struct perf_event *event)
{
	struct pmusim_cpu *c = pmusim_this_cpu(event);

	pmusim_log(event->pmu, event, PMUSIM_OP_READ, 0, 0);
	/* The code that this NMI interrupted has updated the count already. */
	if (event->hw.state & PERF_HES_UPTODATE || to_pmusim_event(event)->busy)
		return;
	if (test_bit(event->hw.idx, &c->started))
		pmusim_update_clock(c, event->hw.idx);
	pmusim_update(event);
}
