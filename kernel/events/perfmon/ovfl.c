// SPDX-License-Identifier: GPL-2.0
/*
 * Overflows: what the overflow handlers of a context's events do.
 *
 * A handler runs in an NMI, in the interrupt of a timer, or in the context that
 * caused a software event. It takes no locks. It decides what shall become of
 * the overflow and does what must be exact:
 *
 *  - nothing but a reset follows: it resets, and the new period begins with the
 *    overflow. The PMU goes on with the period that it has, because not all
 *    drivers can start a counter in their interrupt. If the new value has
 *    another period, pfm_step() tells the PMU;
 *  - monitoring is masked, or the set switched: it stops the counters of the
 *    set, so that their values are those of this moment. pfm_step(), which runs
 *    soon after, does the rest. If the overflow comes while the target is being
 *    taken off its CPU, and another one has it before that, they count until then.
 *
 * The state that handlers and pfm_step() share is only used on the CPU where the
 * target runs, or anywhere while it does not run. So one can interrupt the other
 * but not run beside it: pfm_context::busy tells a handler that it interrupted
 * somebody, and then it only notes which register overflowed.
 */
#include <linux/pid_namespace.h>
#include <linux/uaccess.h>

#include "internal.h"

/**
 * pfm_period() - Events until a value wraps
 * @value:	The value
 *
 * Context: Any.
 * Return: A period that perf events can have.
 */
u64 pfm_period(u64 value)
{
	return value > 1ULL << 63 ? -value : PFM_NO_PERIOD;
}

/**
 * pfm_value_about() - Value of a data register when perf looked at it last
 * @reg:	The register
 *
 * Context: Any, but the value is only of use where pfm_value() may be called,
 *          or as a guess.
 * Return: The value.
 */
u64 pfm_value_about(const struct pfm_reg *reg)
{
	/* As a guess it may be read while the register overflows elsewhere. */
	return READ_ONCE(reg->base) +
	       (reg->event ? local64_read(&reg->event->count) : 0);
}

/**
 * pfm_reset_value() - What a register shall be reset to
 * @reg:	The register
 * @restart:	After a restart, not just after an overflow
 * @random:	Bits for PFM_REGFL_RANDOM
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

static void pfm_event_set(struct perf_event *event, u64 period, s64 left)
{
	event->hw.sample_period = period;
	event->hw.last_period = period;
	local64_set(&event->hw.period_left, left);
}

static void pfm_event_start(struct perf_event *event)
{
	event->pmu->start(event, PERF_EF_RELOAD);
	/* The core will start it again, with what start() wrote. */
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

	if (!event) {
		reg->base = value;
		return;
	}

	active = event->state == PERF_EVENT_STATE_ACTIVE;
	if (!event->attr.sample_period) {
		if (active)
			event->pmu->read(event);
	} else if (reg->kind == PFM_KIND_SW) {
		/* Software counts up to zero. */
		pfm_event_set(event, period, -(s64)period);
	} else {
		if (active)
			event->pmu->stop(event, PERF_EF_UPDATE);
		/*
		 * The whole period is left. Zero would mean an overflow at
		 * once to some PMUs. But a timer with zero has a period that
		 * perf can afford, and one with a nanosecond that nanosecond.
		 */
		pfm_event_set(event, period, reg->kind == PFM_KIND_TIMER ? 0 : period);
		if (active)
			pfm_event_start(event);
	}
	reg->base = value - local64_read(&event->count);
	reg->period = 0;
}

/* Give the PMU the period that a handler has chosen. What is frozen stays so. */
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
	left = -(s64)pfm_value_about(reg);
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
 * pfm_reset_pending() - Do the resets of a set that were put off
 * @set:	The set
 * @restart:	After a restart
 *
 * Context: As pfm_step(), with pfm_context::busy set.
 */
void pfm_reset_pending(struct pfm_set *set, bool restart)
{
	struct pmu *pmu = set->leader ? set->leader->pmu_ctx->pmu : NULL;
	unsigned int num;

	pfm_assert_step(set->ctx);
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

/* Stop a counter, and forget what it counted since it was read. */
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
 * Stop the counters of a set where they are. In its interrupt a PMU stands still
 * until one of them is touched: so all are read before the first one is stopped.
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

static void pfm_pend(struct pfm_context *ctx, enum pfm_pend what)
{
	set_bit(what, &ctx->pend);
	irq_work_queue(&ctx->step_work);
}

/* All that is reset with a register waits for pfm_step(). */
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
	pfm_pend(reg->set->ctx, PFM_PEND_LATE);
}

/*
 * Reset a register that counts on. Events since its own overflow belong to the
 * new period, unless that is so short that they fill it: then it begins now.
 */
static void pfm_reset_counting(struct pfm_reg *reg, bool overflowed)
{
	struct hw_perf_event *hwc = &reg->event->hw;
	u64 now = overflowed ? pfm_value_about(reg) : pfm_value(reg);
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

/* Reset a timer in its callback: perf begins the period that it finds then. */
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
 * Reset a register and those that are reset with it, as far as one can here: in
 * the handler of its overflow, or late.
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
		pfm_pend(set->ctx, PFM_PEND_RESET);
}

/*
 * A register that has a period has overflowed if its value has wrapped. Drivers
 * give a period of their own to an event that only counts.
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
 * Decide about one overflow. Notification always masks, and nothing else does
 * but a full buffer: who masks must have told somebody who can restart. Return
 * whether the set is to stop.
 */
static bool pfm_decide(struct pfm_context *ctx, struct pfm_reg *reg,
		       const struct pfm_where *where)
{
	struct pfm_set *set = reg->set;
	bool notify = reg->flags & PFM_REGFL_OVFL_NOTIFY;
	bool mask = notify;
	bool next = false;

	pfm_note_overflow(reg);
	if (reg->event->hw.interrupts == PFM_THROTTLED)
		set->lost++;

	if ((set->flags & PFM_SETFL_OVFL_SWITCH) && reg->left)
		next = !--reg->left;

	if (ctx->smpl) {
		mask = pfm_smpl_add(ctx, reg, where);
		notify &= mask;
	}

	if (next)
		pfm_pend(ctx, PFM_PEND_SWITCH);
	if (mask) {
		if (!test_bit(PFM_PEND_MASK, &ctx->pend)) {
			ctx->where = *where;
			ctx->ovfl_set = set;
		}
		if (notify)
			set_bit(PFM_PEND_NOTIFY, &ctx->pend);
		pfm_pend(ctx, PFM_PEND_MASK);
	}
	return mask || next;
}

/*
 * One interrupt may be that of several counters, and a driver passes over those
 * that are stopped: take for them what their handlers would have.
 */
static void pfm_take_stopped(struct pfm_context *ctx, struct pfm_set *set,
			     const struct pfm_where *where)
{
	unsigned int num;

	for_each_set_bit(num, set->used, PFM_MAX_REGS) {
		struct pfm_reg *reg = pfm_reg_at(set, num);

		if (reg->kind != PFM_KIND_HW || !reg->event ||
		    !(reg->event->hw.state & PERF_HES_STOPPED) ||
		    test_bit(num, set->povfl) || !pfm_wrapped_late(reg))
			continue;
		pfm_decide(ctx, reg, where);
		pfm_reset_later(reg);
	}
}

static void pfm_take(struct pfm_context *ctx, struct pfm_reg *reg,
		     const struct pfm_where *where, bool late)
{
	if (pfm_decide(ctx, reg, where)) {
		pfm_reset_later(reg);
		pfm_freeze(reg->set);
		pfm_take_stopped(ctx, reg->set, where);
	} else {
		pfm_reset_now(reg, late);
	}
}

static void pfm_where_now(struct pfm_context *ctx, struct perf_event *event,
			  struct pt_regs *regs, struct pfm_where *where)
{
	/*
	 * An interrupt can come late, when a task whose kernel may not be
	 * looked at is in it. And a PMU that has sampled the address itself may
	 * have done so in the kernel although it has interrupted the user.
	 */
	bool hidden = !regs || (event->attr.exclude_kernel && !user_mode(regs));

	where->ip = hidden ? 0 : perf_instruction_pointer(regs);
	if (event->attr.exclude_kernel && where->ip >= TASK_SIZE_MAX)
		where->ip = 0;
	where->tgid = __task_pid_nr_ns(current, PIDTYPE_TGID, ctx->ns);
	where->tid = __task_pid_nr_ns(current, PIDTYPE_PID, ctx->ns);
	where->cpu = smp_processor_id();
}

/* What is known of an overflow when its handler has returned */
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
 * Another overflow after the mask or the switch that this one or others asked for,
 * before it was done: no new decision, but it must not be forgotten.
 */
static void pfm_take_more(struct pfm_context *ctx, struct pfm_reg *reg)
{
	pfm_note_overflow(reg);
	pfm_reset_later(reg);
	/* It leaves no sample. */
	if (ctx->smpl)
		reg->set->lost++;
	if (!(reg->flags & PFM_REGFL_OVFL_NOTIFY) || ctx->smpl)
		return;
	if (!test_bit(PFM_PEND_MASK, &ctx->pend)) {
		ctx->where = pfm_where_late(ctx);
		ctx->ovfl_set = reg->set;
	}
	set_bit(PFM_PEND_NOTIFY, &ctx->pend);
	pfm_pend(ctx, PFM_PEND_MASK);
}

static bool pfm_wrapped(const struct pfm_reg *reg)
{
	/*
	 * A timer may be early against the clock that its event counts. All
	 * else comes when the value has wrapped, or is of an old period.
	 */
	return reg->kind == PFM_KIND_TIMER || (s64)pfm_value(reg) >= 0;
}

/**
 * pfm_overflow() - Overflow handler of the events that are data registers
 * @event:	The event
 * @data:	Not used
 * @regs:	Registers of what was interrupted
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
	if (READ_ONCE(ctx->busy)) {
		set_bit(reg->num, set->late);
		pfm_pend(ctx, PFM_PEND_LATE);
		goto out;
	}

	/* Whoever stops or leaves a set does so on this CPU. */
	if (ctx->state != PFM_LOADED || !ctx->started || ctx->active != set ||
	    reg->event != event)
		goto out;

	ctx->busy++;
	/* For an NMI that comes now */
	barrier();
	if (pfm_wrapped(reg)) {
		bool stops = ctx->pend & (BIT(PFM_PEND_MASK) | BIT(PFM_PEND_SWITCH));

		if (stops && test_bit(reg->num, set->povfl)) {
			pfm_take_more(ctx, reg);
		} else {
			pfm_where_now(ctx, event, regs, &where);
			/* Else in the same interrupt, of a PMU that goes on counting */
			if (!stops) {
				pfm_take(ctx, reg, &where, false);
			} else {
				pfm_decide(ctx, reg, &where);
				pfm_reset_later(reg);
			}
		}
	} else if (!reg->period && reg->kind != PFM_KIND_SW) {
		/* Too early: the PMU has begun a whole period where a part is left. */
		pfm_retime_later(reg, event->hw.sample_period);
	}
	barrier();
	ctx->busy--;
out:
	raw_local_irq_restore(flags);
}

static void pfm_reg_late(struct pfm_context *ctx, struct pfm_reg *reg)
{
	struct pfm_where where = pfm_where_late(ctx);

	if (!reg->event)
		return;
	if (ctx->state == PFM_LOADED && pfm_wrapped_late(reg)) {
		/* It was just stopped, or its set left, when its overflow came. */
		if (!ctx->started || reg->set != ctx->active ||
		    ctx->pend & (BIT(PFM_PEND_MASK) | BIT(PFM_PEND_SWITCH)))
			pfm_take_more(ctx, reg);
		else
			pfm_take(ctx, reg, &where, true);
	}
}

/**
 * pfm_overflow_late() - Take what handlers have left about registers
 * @ctx:	The context
 *
 * Overflows that found the context busy, and periods that are to be others. What
 * has wrapped since then is not taken here: perf must count each interrupt, or
 * short periods would keep the CPU in here without a limit.
 *
 * Context: As pfm_step(), with pfm_context::busy set.
 */
void pfm_overflow_late(struct pfm_context *ctx)
{
	struct pfm_set *set;
	unsigned int num;

	pfm_assert_step(ctx);
	list_for_each_entry(set, &ctx->sets, node) {
		for_each_set_bit(num, set->late, PFM_MAX_REGS) {
			clear_bit(num, set->late);
			pfm_reg_late(ctx, pfm_reg_at(set, num));
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
	 * Never throttled: that would stop the sets, and starting a clock again
	 * loses time. pfm_step() starts the timer for the set that follows.
	 */
	event->hw.interrupts = 0;
	if (READ_ONCE(ctx->state) == PFM_LOADED)
		pfm_pend(ctx, PFM_PEND_SWITCH);
}

/**
 * pfm_clock_arm() - Let a context's timer begin anew
 * @ctx:	The context
 * @timeout:	Of the active set in ns, 0 for none
 *
 * Context: As pfm_step().
 */
void pfm_clock_arm(struct pfm_context *ctx, u64 timeout)
{
	struct perf_event *clock = ctx->clock;
	bool active = clock->state == PERF_EVENT_STATE_ACTIVE;

	pfm_assert_step(ctx);
	if (!ctx->timed)
		return;
	if (active)
		clock->pmu->stop(clock, PERF_EF_UPDATE);
	timeout = timeout ?: PFM_NO_TIMEOUT;
	pfm_event_set(clock, timeout, timeout);
	if (active)
		clock->pmu->start(clock, PERF_EF_RELOAD);
}
