// SPDX-License-Identifier: GPL-2.0
/*
 * Overflows: the handlers of a context's events.
 *
 * A handler runs in an NMI, in the interrupt of a timer, or in the context that
 * caused a software event. It takes no locks. It decides how the overflow is
 * handled, and does the part that must be exact:
 *
 *  - If only a reset follows, the handler resets, and the new period begins with
 *    the overflow. The PMU continues with its period, because not all drivers can
 *    start a counter in their interrupt. If the new value has another period,
 *    pfm_step() gives it to the PMU.
 *  - If monitoring is masked or the set is switched, the handler stops the
 *    counters of the set, so that they keep their values. pfm_step() runs soon
 *    after and does the rest. If the target is being scheduled out, its counters
 *    may be scheduled in on another CPU before pfm_step() runs, and count until
 *    then.
 *
 * The state that handlers and pfm_step() share is only used on the CPU where the
 * target runs, or on any one CPU while it does not run. So a handler can
 * interrupt pfm_step(), but both never run concurrently. pfm_context::busy tells
 * a handler that it interrupted a user of the state; it then only records the
 * register that overflowed.
 */
#include <linux/pid_namespace.h>
#include <linux/uaccess.h>

#include "internal.h"

/**
 * pfm_period() - Compute the number of events until a value wraps
 * @value:	The value
 *
 * Context: Any.
 * Return: The number, as a valid period of a perf event.
 */
u64 pfm_period(u64 value)
{
	return value > 1ULL << 63 ? -value : PFM_NO_PERIOD;
}

/**
 * pfm_value_estimate() - Get the value of a data register at perf's last update
 * @reg:	The register
 *
 * Context: Any, but the value is only an estimate where pfm_value() is not
 *          allowed.
 * Return: The value.
 */
u64 pfm_value_estimate(const struct pfm_reg *reg)
{
	/* The register may overflow on another CPU at the same time. */
	return READ_ONCE(reg->base) +
	       (reg->event ? local64_read(&reg->event->count) : 0);
}

/**
 * pfm_reset_value() - Compute the value for the reset of a register
 * @reg:	The register
 * @restart:	The reset belongs to a restart, not to an overflow
 * @random:	Random bits for PFM_REGFL_RANDOM
 *
 * Context: Any.
 * Return: The value. Random bits make the period longer.
 */
u64 pfm_reset_value(const struct pfm_reg *reg, bool restart, u64 random)
{
	u64 value = restart ? reg->long_reset : reg->short_reset;

	if (reg->flags & PFM_REGFL_RANDOM)
		value -= random & reg->random_mask;
	return value;
}

/*
 * Set the period of an event. With a period of 1, some PMUs trace branches, which has to be
 * requested when the event is opened. If the PMU rejects 1 for that reason, use 2.
 */
static void pfm_event_set(struct perf_event *event, u64 period, s64 left)
{
	if (period == 1 && event->pmu->check_period(event, period)) {
		period = 2;
		left = left == 1 ? 2 : left;
	}
	event->hw.sample_period = period;
	event->hw.last_period = period;
	local64_set(&event->hw.period_left, left);
}

static void pfm_event_start(struct perf_event *event)
{
	event->pmu->start(event, PERF_EF_RELOAD);
	/* Stop a throttled event again. The core starts it at a tick, with this period. */
	if (event->hw.interrupts == PFM_THROTTLED)
		event->pmu->stop(event, 0);
}

/**
 * pfm_reg_set() - Write the value of a data register
 * @reg:	The register
 * @value:	The value
 *
 * Context: As pfm_value(). In a handler for PFM_KIND_SW only.
 */
void pfm_reg_set(struct pfm_reg *reg, u64 value)
{
	struct perf_event *event = reg->event;
	u64 period = pfm_period(value);
	bool active;

	pfm_assert_registers(reg->set->ctx);
	if (!event) {
		reg->base = value;
		return;
	}

	active = event->state == PERF_EVENT_STATE_ACTIVE;
	if (!event->attr.sample_period) {
		if (active)
			event->pmu->read(event);
	} else if (reg->kind == PFM_KIND_SW) {
		/* A software event counts its period_left up to zero. */
		pfm_event_set(event, period, -(s64)period);
	} else {
		if (active)
			event->pmu->stop(event, PERF_EF_UPDATE);
		/*
		 * Begin a whole period. Some PMUs overflow at once if period_left is 0. For a
		 * timer, 0 means a full period, which perf raises to a sane minimum, whereas
		 * perf would use a period_left of a nanosecond as it is.
		 */
		pfm_event_set(event, period, reg->kind == PFM_KIND_TIMER ? 0 : period);
		if (active)
			pfm_event_start(event);
	}
	reg->base = value - local64_read(&event->count);
	reg->period = 0;
}

/* Give the PMU the period that a handler has chosen. Stopped counters stay stopped. */
static void pfm_reg_retime(struct pfm_reg *reg)
{
	struct perf_event *event = reg->event;
	struct pmu *pmu = event->pmu;
	s64 left;
	bool runs;

	runs = event->state == PERF_EVENT_STATE_ACTIVE &&
	       !(event->hw.state & PERF_HES_STOPPED);
	perf_pmu_disable(pmu);
	if (runs)
		pmu->stop(event, PERF_EF_UPDATE);
	left = -(s64)pfm_value_estimate(reg);
	pfm_event_set(event, reg->period, clamp_t(s64, left, 1, reg->period));
	reg->period = 0;
	if (runs)
		pfm_event_start(event);
	perf_pmu_enable(pmu);
}

static u64 pfm_next_reset(struct pfm_reg *reg, bool restart)
{
	struct rnd_state *rnd = &reg->set->ctx->rnd;
	u64 random = 0;

	if (reg->flags & PFM_REGFL_RANDOM)
		random = (u64)prandom_u32_state(rnd) << 32 | prandom_u32_state(rnd);
	reg->last_reset = pfm_reset_value(reg, restart, random);
	return reg->last_reset;
}

static void pfm_reg_reset(struct pfm_reg *reg, bool restart)
{
	pfm_reg_set(reg, pfm_next_reset(reg, restart));
	clear_bit(reg->num, reg->set->povfl);
}

/**
 * pfm_reset_pending() - Do the pending resets of a set
 * @set:	The set
 * @restart:	The resets belong to a restart
 *
 * Context: As pfm_step(), with pfm_context::busy set.
 */
void pfm_reset_pending(struct pfm_set *set, bool restart)
{
	struct pmu *pmu = set->leader ? set->leader->pmu_ctx->pmu : NULL;
	unsigned int num;

	pfm_assert_step_context(set->ctx);
	lockdep_assert(set->ctx->busy);
	if (bitmap_empty(set->reset_pend, PFM_MAX_REGS))
		return;

	if (pmu)
		perf_pmu_disable(pmu);
	for_each_set_bit(num, set->reset_pend, PFM_MAX_REGS) {
		clear_bit(num, set->reset_pend);
		pfm_reg_reset(pfm_reg_at(set, num), restart);
	}
	if (pmu)
		perf_pmu_enable(pmu);
}

static bool pfm_can_freeze(const struct pfm_reg *reg)
{
	struct perf_event *event = reg->event;

	if (!event || event->state != PERF_EVENT_STATE_ACTIVE ||
	    (event->hw.state & PERF_HES_STOPPED))
		return false;
	return reg->kind == PFM_KIND_SW ||
	       (reg->kind == PFM_KIND_HW && event->hw.idx >= 0);
}

/* Stop a counter, and discard what it has counted since pfm_freeze() read it. */
static void pfm_freeze_read(struct pfm_reg *reg)
{
	struct perf_event *event = reg->event;
	u64 count = local64_read(&event->count);
	u64 value = reg->base + count;

	event->pmu->stop(event, PERF_EF_UPDATE);
	count -= local64_read(&event->count);
	if (!count)
		return;
	reg->base += count;
	if ((s64)value < 0 && event->hw.sample_period != PFM_NO_PERIOD)
		local64_set(&event->hw.period_left, -value);
}

/*
 * Stop the counters of a set at their present values. A PMU that is in its interrupt stands
 * still until one of its counters is stopped, so read all of them first.
 */
static void pfm_freeze(struct pfm_set *set)
{
	unsigned int num;

	for_each_set_bit(num, set->used, PFM_MAX_REGS) {
		if (pfm_can_freeze(pfm_reg_at(set, num)))
			pfm_value(pfm_reg_at(set, num));
	}
	for_each_set_bit(num, set->used, PFM_MAX_REGS) {
		if (pfm_can_freeze(pfm_reg_at(set, num)))
			pfm_freeze_read(pfm_reg_at(set, num));
	}
}

static void pfm_queue_step(struct pfm_context *ctx, enum pfm_pend what)
{
	set_bit(what, &ctx->pend);
	irq_work_queue(&ctx->step_work);
}

/* Leave the reset of a register, and of registers reset with it, to pfm_step(). */
static void pfm_reset_later(struct pfm_reg *reg)
{
	struct pfm_set *set = reg->set;

	bitmap_or(set->reset_pend, set->reset_pend, reg->reset_pmds, PFM_MAX_REGS);
	__set_bit(reg->num, set->reset_pend);
}

static void pfm_retime_later(struct pfm_reg *reg, u64 period)
{
	reg->period = period;
	set_bit(reg->num, reg->set->retime);
	pfm_queue_step(reg->set->ctx, PFM_PEND_LATE);
}

/*
 * Reset a register that keeps counting. Events since its overflow belong to the new
 * period. If they exceed it, the period begins now.
 */
static void pfm_reset_counting(struct pfm_reg *reg, bool overflowed)
{
	struct hw_perf_event *hwc = &reg->event->hw;
	u64 now = overflowed ? pfm_value_estimate(reg) : pfm_value(reg);
	u64 value = pfm_next_reset(reg, false);
	u64 since = overflowed ? now : 0;
	u64 period = pfm_period(value);
	bool in_time = overflowed;

	if ((s64)value < 0 && (s64)(value + since) >= 0) {
		since = 0;
		in_time = false;
	}
	reg->base += value + since - now;
	clear_bit(reg->num, reg->set->povfl);

	if (period == PFM_NO_PERIOD)
		in_time = true;
	if (reg->event->attr.sample_period &&
	    (hwc->sample_period != period || !in_time))
		pfm_retime_later(reg, period);
}

/* Reset a timer in its callback, after which perf arms it with the new period. */
static void pfm_reset_timer(struct pfm_reg *reg)
{
	struct perf_event *event = reg->event;
	u64 value = pfm_next_reset(reg, false);

	event->hw.sample_period = pfm_period(value);
	event->hw.last_period = event->hw.sample_period;
	reg->base = value - local64_read(&event->count);
	clear_bit(reg->num, reg->set->povfl);
}

/*
 * Reset a register and the registers reset with it, as far as this is possible in the
 * handler of its overflow, or, with @late, in pfm_step(). Leave the rest to pfm_step().
 */
static void pfm_reset_now(struct pfm_reg *reg, bool late)
{
	struct pfm_set *set = reg->set;
	unsigned int num;

	pfm_reset_later(reg);
	for_each_set_bit(num, set->reset_pend, PFM_MAX_REGS) {
		struct pfm_reg *other = pfm_reg_at(set, num);

		if (!other->event || other->kind == PFM_KIND_SW)
			pfm_reg_reset(other, false);
		else if (other->kind != PFM_KIND_TIMER || !other->event->attr.sample_period)
			pfm_reset_counting(other, other == reg);
		else if (other == reg && !late)
			pfm_reset_timer(other);
		else
			continue;
		clear_bit(num, set->reset_pend);
	}
	if (!bitmap_empty(set->reset_pend, PFM_MAX_REGS))
		pfm_queue_step(set->ctx, PFM_PEND_RESET);
}

/*
 * Tell whether a register has overflowed: it has a period and its value has wrapped.
 * Drivers set a period for events that only count, so sample_period of the attributes
 * is checked first.
 */
static bool pfm_wrapped_late(const struct pfm_reg *reg)
{
	u64 period = reg->period ?: reg->event->hw.sample_period;

	return reg->event->attr.sample_period && period != PFM_NO_PERIOD &&
	       (s64)pfm_value(reg) >= 0;
}

static void pfm_note_overflow(struct pfm_reg *reg)
{
	struct pfm_set *set = reg->set;

	if (bitmap_empty(set->povfl, PFM_MAX_REGS))
		bitmap_zero(set->last_ovfl, PFM_MAX_REGS);
	__set_bit(reg->num, set->last_ovfl);
	__set_bit(reg->num, set->povfl);
}

/*
 * Decide how to handle an overflow. Nothing but a notification or a full buffer masks the
 * context. With a buffer, the notification waits until the buffer is full. Return whether
 * the set has to stop.
 */
static bool pfm_decide_overflow(struct pfm_context *ctx, struct pfm_reg *reg,
				const struct pfm_where *where)
{
	struct pfm_set *set = reg->set;
	bool notify = reg->flags & PFM_REGFL_OVFL_NOTIFY;
	bool mask = notify;
	bool next = false;

	pfm_note_overflow(reg);
	if (reg->event->hw.interrupts == PFM_THROTTLED && !pfm_waits_when_throttled(set))
		set->lost++;

	if ((set->flags & PFM_SETFL_OVFL_SWITCH) && reg->left)
		next = !--reg->left;

	if (ctx->smpl) {
		mask = pfm_smpl_add(ctx, reg, where);
		notify &= mask;
	}

	if (next)
		pfm_queue_step(ctx, PFM_PEND_SWITCH);
	if (mask) {
		if (!test_bit(PFM_PEND_MASK, &ctx->pend)) {
			ctx->where = *where;
			ctx->ovfl_set = set;
		}
		if (notify)
			set_bit(PFM_PEND_NOTIFY, &ctx->pend);
		pfm_queue_step(ctx, PFM_PEND_MASK);
	}
	return mask || next;
}

/*
 * One interrupt may be for several counters, and a driver skips counters that are
 * stopped. So handle their overflows here.
 */
static void pfm_handle_stopped(struct pfm_context *ctx, struct pfm_set *set,
			       const struct pfm_where *where)
{
	unsigned int num;

	for_each_set_bit(num, set->used, PFM_MAX_REGS) {
		struct pfm_reg *reg = pfm_reg_at(set, num);

		if (reg->kind != PFM_KIND_HW || !reg->event ||
		    !(reg->event->hw.state & PERF_HES_STOPPED) ||
		    test_bit(num, set->povfl) || !pfm_wrapped_late(reg))
			continue;
		pfm_decide_overflow(ctx, reg, where);
		pfm_reset_later(reg);
	}
}

static void pfm_handle_overflow(struct pfm_context *ctx, struct pfm_reg *reg,
				const struct pfm_where *where, bool late)
{
	if (pfm_decide_overflow(ctx, reg, where)) {
		pfm_reset_later(reg);
		pfm_freeze(reg->set);
		pfm_handle_stopped(ctx, reg->set, where);
	} else {
		pfm_reset_now(reg, late);
	}
}

static void pfm_fill_where(struct pfm_context *ctx, struct perf_event *event,
			   struct pt_regs *regs, struct pfm_where *where)
{
	/*
	 * An interrupt can be late and hit the kernel although the event excludes it.
	 * And a PMU that records addresses itself may have recorded an address in the
	 * kernel although it interrupted user mode. Hide the address in both cases.
	 */
	bool hidden = !regs || (event->attr.exclude_kernel && !user_mode(regs));

	where->ip = hidden ? 0 : perf_instruction_pointer(regs);
	if (event->attr.exclude_kernel && where->ip >= TASK_SIZE_MAX)
		where->ip = 0;
	where->tgid = __task_pid_nr_ns(current, PIDTYPE_TGID, ctx->ns);
	where->tid = __task_pid_nr_ns(current, PIDTYPE_PID, ctx->ns);
	where->cpu = smp_processor_id();
}

/* Get the place of an overflow as far as it is known after the handler has returned. */
static struct pfm_where pfm_where_late(const struct pfm_context *ctx)
{
	struct pfm_where where = { .cpu = smp_processor_id() };

	if (ctx->task) {
		where.tgid = __task_pid_nr_ns(ctx->task, PIDTYPE_TGID, ctx->ns);
		where.tid = __task_pid_nr_ns(ctx->task, PIDTYPE_PID, ctx->ns);
	}
	return where;
}

/*
 * Handle a further overflow of a register while a mask or a switch is pending: it
 * changes no decision, but must not be lost.
 */
static void pfm_handle_further(struct pfm_context *ctx, struct pfm_reg *reg)
{
	pfm_note_overflow(reg);
	pfm_reset_later(reg);
	/* This overflow gets no sample. */
	if (ctx->smpl)
		reg->set->lost++;
	if (!(reg->flags & PFM_REGFL_OVFL_NOTIFY) || ctx->smpl)
		return;
	if (!test_bit(PFM_PEND_MASK, &ctx->pend)) {
		ctx->where = pfm_where_late(ctx);
		ctx->ovfl_set = reg->set;
	}
	set_bit(PFM_PEND_NOTIFY, &ctx->pend);
	pfm_queue_step(ctx, PFM_PEND_MASK);
}

static bool pfm_wrapped(const struct pfm_reg *reg)
{
	/*
	 * A timer may fire early, as seen by the clock that its event counts. Any other
	 * overflow comes after the value has wrapped, or belongs to an old period.
	 */
	return reg->kind == PFM_KIND_TIMER || (s64)pfm_value(reg) >= 0;
}

/**
 * pfm_overflow() - Overflow handler of the events of data registers
 * @event:	The event
 * @data:	Not used
 * @regs:	Registers of the interrupted context
 *
 * Context: Any, NMI as well.
 */
void pfm_overflow(struct perf_event *event, struct perf_sample_data *data,
		  struct pt_regs *regs)
{
	struct pfm_reg *reg = event->overflow_handler_context;
	struct pfm_set *set = reg->set;
	struct pfm_context *ctx = set->ctx;
	struct pfm_where where;
	unsigned long flags;

	raw_local_irq_save(flags);
	if (event->hw.interrupts == PFM_THROTTLED) {
		pfm_note_throttled(ctx);
		if (pfm_waits_when_throttled(set))
			pfm_queue_step(ctx, PFM_PEND_THROTTLED);
	}
	if (READ_ONCE(ctx->busy)) {
		set_bit(reg->num, set->late);
		pfm_queue_step(ctx, PFM_PEND_LATE);
		goto out;
	}

	/* Sets are stopped and switched on this CPU, so the checks need no lock. */
	if (ctx->state != PFM_LOADED || !ctx->started || ctx->active != set ||
	    reg->event != event)
		goto out;

	ctx->busy++;
	/* Make the change visible to an NMI that comes now. */
	barrier();
	if (pfm_wrapped(reg)) {
		bool stops = ctx->pend & (BIT(PFM_PEND_MASK) | BIT(PFM_PEND_SWITCH));

		if (stops && test_bit(reg->num, set->povfl)) {
			pfm_handle_further(ctx, reg);
		} else {
			pfm_fill_where(ctx, event, regs, &where);
			/*
			 * If a stop is pending, a PMU that keeps counting reports another
			 * register. Leave the reset of that register to pfm_step().
			 */
			if (!stops) {
				pfm_handle_overflow(ctx, reg, &where, false);
			} else {
				pfm_decide_overflow(ctx, reg, &where);
				pfm_reset_later(reg);
			}
		}
	} else if (!reg->period && reg->kind != PFM_KIND_SW) {
		/*
		 * The interrupt is early: the PMU has begun a whole new period, but a part of
		 * the old one is left.
		 */
		pfm_retime_later(reg, event->hw.sample_period);
	}
	barrier();
	ctx->busy--;
out:
	raw_local_irq_restore(flags);
}

static void pfm_reg_handle_late(struct pfm_context *ctx, struct pfm_reg *reg)
{
	struct pfm_where where = pfm_where_late(ctx);

	if (!reg->event)
		return;
	if (ctx->state == PFM_LOADED && pfm_wrapped_late(reg)) {
		/*
		 * Monitoring has stopped, another set is active, or a mask or switch is
		 * pending.
		 */
		if (!ctx->started || reg->set != ctx->active ||
		    ctx->pend & (BIT(PFM_PEND_MASK) | BIT(PFM_PEND_SWITCH)))
			pfm_handle_further(ctx, reg);
		else
			pfm_handle_overflow(ctx, reg, &where, true);
	}
}

/**
 * pfm_overflow_late() - Do the work on registers that handlers have deferred
 * @ctx:	The context
 *
 * This handles overflows that found the context busy, and gives new periods to
 * the PMU. Registers that wrapped later are left to their interrupts: perf must
 * count and throttle these, otherwise short periods could keep the CPU in here.
 *
 * Context: As pfm_step(), with pfm_context::busy set.
 */
void pfm_overflow_late(struct pfm_context *ctx)
{
	struct pfm_set *set;
	unsigned int num;

	pfm_assert_step_context(ctx);
	lockdep_assert(ctx->busy);
	list_for_each_entry(set, &ctx->sets, node) {
		for_each_set_bit(num, set->late, PFM_MAX_REGS) {
			clear_bit(num, set->late);
			pfm_reg_handle_late(ctx, pfm_reg_at(set, num));
		}
		for_each_set_bit(num, set->retime, PFM_MAX_REGS) {
			clear_bit(num, set->retime);
			if (pfm_reg_at(set, num)->event && pfm_reg_at(set, num)->period)
				pfm_reg_retime(pfm_reg_at(set, num));
		}
	}
}

/**
 * pfm_clock_overflow() - Overflow handler of a context's clock
 * @event:	The clock
 * @data:	Not used
 * @regs:	Not used
 *
 * Context: Interrupt.
 */
void pfm_clock_overflow(struct perf_event *event, struct perf_sample_data *data,
			struct pt_regs *regs)
{
	struct pfm_context *ctx = event->overflow_handler_context;

	/*
	 * Never let perf throttle the clock: that would stop the sets, and restarting a
	 * clock loses time. pfm_step() arms the timer for the set that follows.
	 */
	event->hw.interrupts = 0;
	if (READ_ONCE(ctx->state) == PFM_LOADED)
		pfm_queue_step(ctx, PFM_PEND_SWITCH);
}

/**
 * pfm_clock_arm() - Restart the timer of a context
 * @ctx:	The context
 * @timeout:	Timeout of the active set in ns, 0 for none
 *
 * Context: As pfm_step().
 */
void pfm_clock_arm(struct pfm_context *ctx, u64 timeout)
{
	struct perf_event *clock = ctx->clock;
	bool active = clock->state == PERF_EVENT_STATE_ACTIVE;

	pfm_assert_step_context(ctx);
	if (!ctx->timed)
		return;
	if (active)
		clock->pmu->stop(clock, PERF_EF_UPDATE);
	timeout = timeout ?: PFM_NO_TIMEOUT;
	pfm_event_set(clock, timeout, timeout);
	if (active)
		clock->pmu->start(clock, PERF_EF_RELOAD);
}
