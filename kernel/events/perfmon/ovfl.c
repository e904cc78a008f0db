// SPDX-License-Identifier: GPL-2.0
/*
 * Overflows: what the overflow handlers of a context's events do.
 *
 * A handler runs in an NMI, in the interrupt of a timer, or in the context that
 * caused a software event. It takes no locks. It decides what shall become of
 * the overflow and does what must be exact:
 *
 *  - nothing but a reset follows: it resets, so that the new period begins here;
 *  - monitoring is masked, or the set switched: it stops the counters of the
 *    set, so that their values are those of this moment. pfm_step(), which runs
 *    soon after, does the rest.
 *
 * The state that handlers and pfm_step() share is only used on the CPU where the
 * target runs, or anywhere while it does not run. So one can interrupt the other
 * but not run beside it: pfm_context::busy tells a handler that it interrupted
 * somebody, and then it only notes which register overflowed.
 */
#include <linux/pid_namespace.h>

#include "internal.h"

/* Of perf events: throttled */
#define PFM_THROTTLED		(~0ULL)

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
 * pfm_value() - Value of a data register now
 * @reg:	The register
 *
 * Context: As pfm_step(), or pfm_context::mutex held and the context not loaded
 *          or its target gone.
 * Return: The value.
 */
u64 pfm_value(const struct pfm_reg *reg)
{
	struct perf_event *event = reg->event;

	if (!event)
		return reg->base;
	/* What software counts is up to date. */
	if (reg->kind != PFM_KIND_SW && event->state == PERF_EVENT_STATE_ACTIVE)
		event->pmu->read(event);
	return reg->base + local64_read(&event->count);
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

/**
 * pfm_reg_set() - Write the value of a data register
 * @reg:	The register
 * @value:	The value
 *
 * Context: As pfm_value(). In a handler for PFM_KIND_HW and PFM_KIND_SW only.
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
		 * once to some PMUs.
		 */
		pfm_event_set(event, period, period);
		if (active)
			event->pmu->start(event, PERF_EF_RELOAD);
		/* The core will start it again, with what start() wrote. */
		if (active && event->hw.interrupts == PFM_THROTTLED)
			event->pmu->stop(event, 0);
	}
	reg->base = value - local64_read(&event->count);
}

static void pfm_reg_reset(struct pfm_reg *reg, bool restart)
{
	struct rnd_state *rnd = &reg->set->ctx->rnd;
	u64 random = 0;

	if (reg->flags & PFM_REGFL_RANDOM)
		random = (u64)prandom_u32_state(rnd) << 32 | prandom_u32_state(rnd);
	reg->last_reset = pfm_reset_value(reg, restart, random);
	pfm_reg_set(reg, reg->last_reset);
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

	if (bitmap_empty(set->reset_pend, PFM_MAX_REGS))
		return;

	if (pmu)
		perf_pmu_disable(pmu);
	for_each_set_bit(num, set->reset_pend, PFM_MAX_REGS) {
		clear_bit(num, set->reset_pend);
		pfm_reg_reset(set->regs[num], restart);
	}
	if (pmu)
		perf_pmu_enable(pmu);
}

/* Stop the counters of a set where they are. */
static void pfm_freeze(struct pfm_set *set)
{
	unsigned int num;

	for_each_set_bit(num, set->used, PFM_MAX_REGS) {
		struct pfm_reg *reg = set->regs[num];
		struct perf_event *event = reg->event;

		if (!event || event->state != PERF_EVENT_STATE_ACTIVE ||
		    (event->hw.state & PERF_HES_STOPPED))
			continue;
		if (reg->kind == PFM_KIND_SW ||
		    (reg->kind == PFM_KIND_HW && event->hw.idx >= 0))
			event->pmu->stop(event, PERF_EF_UPDATE);
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

/* Reset a register and those that are reset with it, as far as one can here. */
static void pfm_reset_now(struct pfm_reg *reg)
{
	struct pfm_set *set = reg->set;
	unsigned int num;

	pfm_reset_later(reg);
	for_each_set_bit(num, set->reset_pend, PFM_MAX_REGS) {
		struct pfm_reg *other = set->regs[num];

		if (other->event && other->kind != PFM_KIND_HW &&
		    other->kind != PFM_KIND_SW)
			continue;
		clear_bit(num, set->reset_pend);
		pfm_reg_reset(other, false);
	}
	if (!bitmap_empty(set->reset_pend, PFM_MAX_REGS))
		pfm_pend(set->ctx, PFM_PEND_RESET);
}

/*
 * Decide about one overflow. Notification always masks, and nothing else does
 * but a full buffer: who masks must have told somebody who can restart.
 */
static void pfm_take(struct pfm_context *ctx, struct pfm_reg *reg,
		     const struct pfm_where *where)
{
	struct pfm_set *set = reg->set;
	bool notify = reg->flags & PFM_REGFL_OVFL_NOTIFY;
	bool mask = notify;
	bool next = false;

	__set_bit(reg->num, set->povfl);
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

	if (mask || next) {
		pfm_reset_later(reg);
		pfm_freeze(set);
	} else {
		pfm_reset_now(reg);
	}
}

static void pfm_where_now(struct pfm_context *ctx, struct perf_event *event,
			  struct pt_regs *regs, struct pfm_where *where)
{
	/*
	 * An interrupt can come late, when a task whose kernel may not be
	 * looked at is in it.
	 */
	bool hidden = !regs || (event->attr.exclude_kernel && !user_mode(regs));

	where->ip = hidden ? 0 : perf_instruction_pointer(regs);
	where->tgid = __task_pid_nr_ns(current, PIDTYPE_TGID, ctx->ns);
	where->tid = __task_pid_nr_ns(current, PIDTYPE_PID, ctx->ns);
	where->cpu = smp_processor_id();
}

/*
 * An overflow after the mask or the switch that others asked for, before it
 * was done: no new decision, but it must not be forgotten.
 */
static void pfm_take_more(struct pfm_context *ctx, struct pfm_reg *reg)
{
	__set_bit(reg->num, reg->set->povfl);
	pfm_reset_later(reg);
	if (!(reg->flags & PFM_REGFL_OVFL_NOTIFY) || ctx->smpl)
		return;
	if (!test_bit(PFM_PEND_MASK, &ctx->pend)) {
		ctx->where = (struct pfm_where) { .cpu = smp_processor_id() };
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
		if (ctx->pend & (BIT(PFM_PEND_MASK) | BIT(PFM_PEND_SWITCH))) {
			pfm_take_more(ctx, reg);
		} else {
			pfm_where_now(ctx, event, regs, &where);
			pfm_take(ctx, reg, &where);
		}
	}
	/* The timer is programmed from this when the core's callback returns. */
	if (reg->kind == PFM_KIND_TIMER)
		event->hw.interrupts = 0;
	barrier();
	ctx->busy--;
out:
	raw_local_irq_restore(flags);
}

/**
 * pfm_overflow_late() - Take the overflows that found the context busy
 * @ctx:	The context
 *
 * Context: As pfm_step(), with pfm_context::busy set.
 */
void pfm_overflow_late(struct pfm_context *ctx)
{
	struct pfm_where where = { .cpu = smp_processor_id() };
	struct pfm_set *set;
	unsigned int num;

	list_for_each_entry(set, &ctx->sets, node) {
		for_each_set_bit(num, set->late, PFM_MAX_REGS) {
			struct pfm_reg *reg = set->regs[num];

			clear_bit(num, set->late);
			if (set != ctx->active || ctx->state != PFM_LOADED ||
			    !ctx->started || !reg->event || (s64)pfm_value(reg) < 0)
				continue;
			if (ctx->pend & (BIT(PFM_PEND_MASK) | BIT(PFM_PEND_SWITCH)))
				pfm_take_more(ctx, reg);
			else
				pfm_take(ctx, reg, &where);
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

	if (!ctx->timed)
		return;
	if (active)
		clock->pmu->stop(clock, PERF_EF_UPDATE);
	timeout = timeout ?: PFM_NO_TIMEOUT;
	pfm_event_set(clock, timeout, timeout);
	if (active)
		clock->pmu->start(clock, PERF_EF_RELOAD);
}
