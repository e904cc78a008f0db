// SPDX-License-Identifier: GPL-2.0
/*
 * Performance event gates: a trigger fires, and the members that run follow.
 *
 *                     starter fires (or detach, CLEAR_GATE)
 *             CLOSED ---------------------------------------> OPEN
 *               ^                                              |
 *               `----------------------------------------------'
 *                     stopper fires (or a starter is attached)
 *
 * A gate has two states in each context. perf_gate_state::depth is the one that
 * its triggers ask for. It changes atomically in the context of the trigger,
 * whatever the members are doing, so no transition is lost, and overflows of a
 * member whose gate has depth 0 are dropped, unless they are late, see late.c.
 * perf_gate_account::split is the state in force for counting. Moving it takes
 * the event's count and running time at that instant and nothing else: the
 * event stays on its PMU, so gating is exact on any PMU that can be read, and
 * does not depend on what pmu::stop() does or how long it takes.
 *
 * Contexts:  A trigger fires wherever its event does, NMI included. It runs on
 *            the CPU of its context, or perf_tp_event() delivers it to another
 *            task with perf_event_context::lock held. In the first case all
 *            active members of the gate are on this CPU, too. The firing settles
 *            a member at once if the count is at hand or the PMU can be read
 *            here, otherwise by irq_work on the CPU of the member. A member that
 *            does not run is not active: neither its count nor its running time
 *            moves, and __perf_gate_pmu_add() settles it before it runs again.
 * Lifetime:  Links, states, gates and accounts are freed after an RCU grace
 *            period, and a firing is an RCU reader.
 * Locking:   A firing takes no lock. It walks the links of its trigger, at most
 *            PERF_GATE_MAX, and the active members of their gates, at most
 *            PERF_GATE_MAX together.
 */

#include <linux/perf_event.h>
#include <linux/rculist.h>

#include "gate.h"
#include "settle.h"

#define CREATE_TRACE_POINTS
#include <trace/events/perf_gate.h>

/* Nesting depth of the sections on this CPU in which firings defer. */
DEFINE_PER_CPU(unsigned int, perf_gate_deferring);

/* Place of a firing as the PMU driver of a member sees it, see perf_gate_settle_active(). */
static enum perf_gate_context
perf_gate_context(struct perf_gate_account *account, struct perf_event *trigger, bool direct)
{
	/* The pmu::stop() of a software PMU only sets a flag. */
	if (account->by_core)
		return perf_gate_readable(account->event) ? PERF_GATE_IN_OVERFLOW :
							    PERF_GATE_ANYWHERE;
	if (direct)
		return PERF_GATE_OUTSIDE;

	/*
	 * A PMU can pause AUX area tracing in the overflow of any event, and stop its
	 * other events in an overflow of its own.
	 */
	if (account->aux ||
	    (account->event->pmu == trigger->pmu &&
	     trigger->pmu->capabilities & PERF_PMU_CAP_GATE_OVERFLOW))
		return PERF_GATE_IN_OVERFLOW;

	return PERF_GATE_ANYWHERE;
}

/*
 * Tell whether the count of an active member is at hand. A software event has it at any
 * instant, but the clock of the context may be changing.
 */
static bool perf_gate_can_settle(struct perf_gate_account *account, bool direct)
{
	struct perf_event *event = account->event;

	if (account->by_core)
		return !this_cpu_read(perf_gate_deferring);

	return perf_gate_readable(event) &&
	       (direct || account->aux || event->pmu->capabilities & PERF_PMU_CAP_GATE_NMI);
}

/*
 * Settle an active member, or queue irq_work on the CPU that it runs on. Interrupts
 * were as in @flags when @trigger fired. If they were on, the firing is @direct: it
 * interrupted no PMU driver.
 */
static noinline void perf_gate_settle_active(struct perf_gate_account *account,
					     struct perf_event *trigger,
					     unsigned long flags, u64 time)
{
	bool direct = !irqs_disabled_flags(flags);
	int cpu = READ_ONCE(account->event->oncpu);

	if (cpu != smp_processor_id()) {
		/* The trigger was delivered to a task that runs on another CPU. */
		if (cpu >= 0 && !in_nmi())
			irq_work_queue_on(&account->work, cpu);
	} else if (perf_gate_can_settle(account, direct)) {
		perf_gate_settle(account, time, !account->by_core);
		perf_gate_follow(account, perf_gate_context(account, trigger, direct));
	} else {
		irq_work_queue(&account->work);
	}
}

/**
 * perf_gate_trace_move() - Trace that a gate opens or closes
 * @trigger:	The event that fired, NULL for a system call
 * @gate:	The gate
 * @open:	Whether it opens
 *
 * Out of line, to keep register pressure off the path that does not trace.
 *
 * Context: Any.
 */
noinline void perf_gate_trace_move(struct perf_event *trigger, struct perf_gate *gate,
				   bool open)
{
	if (open)
		trace_open(trigger, gate->id);
	else
		trace_close(trigger, gate->id);
}

/*
 * Trace outside of the section that defers, so that a trigger on perf_gate:open may fire.
 * Return the state of the gate afterwards, because a firing of such a trigger may change
 * it.
 */
static noinline bool perf_gate_trace_step(struct perf_event *trigger,
					  struct perf_gate_state *state, bool open)
{
	perf_gate_defer_end();
	perf_gate_trace_move(trigger, state->gate, open);
	perf_gate_defer_begin();

	return atomic_read(&state->depth);
}

/*
 * Apply a firing to the depth. Return whether the gate changes its state, and set @open
 * to the new state. Other CPUs read the depth after a task switch, or under the lock of
 * the context, so relaxed operations suffice.
 */
static __always_inline bool perf_gate_update_depth(struct perf_gate_state *state,
						   struct perf_event *trigger,
						   unsigned long act, bool *open)
{
	int old, new;

	if (act & PERF_GATE_TOGGLES) {
		/* A gate that is toggled does not nest, so its depth is 0 or 1. */
		*open = !atomic_fetch_xor_relaxed(1, &state->depth);
	} else {
		old = atomic_read(&state->depth);
		do {
			new = perf_gate_next_depth(old, act);
			if (new == old)
				return false;
		} while (!atomic_try_cmpxchg_relaxed(&state->depth, &old, new));

		if (old && new)
			return false;
		*open = new;
	}

	if (*open)
		atomic64_inc(&state->nr_opened);
	if (*open ? tracepoint_enabled(open) : tracepoint_enabled(close))
		*open = perf_gate_trace_step(trigger, state, *open);

	return true;
}

/*
 * Update the count of an active event, unless more than its account has to follow the
 * gate. The caller defers firings. @flags has the state of interrupts when the trigger
 * fired. Return whether the account can move at once.
 */
static __always_inline bool perf_gate_update_count(struct perf_gate_account *account,
						   struct perf_event *event, unsigned long flags)
{
	if (likely(account->place == PERF_GATE_IN_CORE))
		return true;

	if (account->place != PERF_GATE_IN_PMU || !perf_gate_on_pmu(event) ||
	    (irqs_disabled_flags(flags) &&
	     !(event->pmu->capabilities & PERF_PMU_CAP_GATE_NMI)))
		return false;

	event->pmu->read(event);

	return true;
}

/*
 * As perf_gate_update_count(), for software events whose windows are recorded: begin or
 * end a window if the account is to move.
 */
static __always_inline bool
perf_gate_fetch_watched(struct perf_gate_account *account, struct perf_event *event,
			u64 time, bool open)
{
	if (account->place != PERF_GATE_WATCHED_IN_CORE)
		return false;

	if (account->split[0].open == open)
		return true;

	if (open)
		perf_gate_window_begin(event, time);
	else
		perf_gate_window_end(event, time);

	return true;
}

/* Get the state that a link moves when @event fires, or NULL. */
static __always_inline struct perf_gate_state *
perf_gate_link_state(struct perf_gate_link *link, struct perf_event *event)
{
	if (!event->parent)
		return &link->gate->state;

	return perf_gate_find_state(event->ctx, link->gate);
}

/*
 * Move the gates of @event and their active members. With @simple, @event runs on this
 * CPU and interrupted no section that defers.
 */
static __always_inline void
perf_gate_fire_links(struct perf_event *event, unsigned long pass,
		     unsigned long flags, bool simple)
{
	struct perf_gate_account *account;
	struct perf_gate_state *state;
	struct perf_gate_link *link;
	unsigned long act;
	bool open;
	u64 time;

	perf_gate_defer_begin();
	/*
	 * Take the time once: all members share the context of @event. An NMI moves no
	 * account from here on, so no account has a later time.
	 */
	time = perf_event_ctx_time(event);
	hlist_for_each_entry_rcu(link, &(event->parent ?: event)->gate_links, node) {
		act = READ_ONCE(link->act);
		if (!(act & pass))
			continue;

		state = perf_gate_link_state(link, event);
		if (!state || !perf_gate_update_depth(state, event, act, &open))
			continue;

		hlist_for_each_entry_rcu(account, &state->active, active) {
			if (simple &&
			    (perf_gate_update_count(account, account->event, flags) ||
			     perf_gate_fetch_watched(account, account->event, time, open))) {
				if (account->split[0].open != open)
					perf_gate_flip_account(account, account->event, time);
				perf_gate_update_userpage(account);
				continue;
			}

			perf_gate_defer_end();
			perf_gate_settle_active(account, event, flags, time);
			perf_gate_defer_begin();
			/* An NMI may have moved the gate and members that follow in the list. */
			open = atomic_read(&state->depth);
		}
	}
	perf_gate_defer_end();
}

/*
 * An inactive event fires, because a tracepoint may be delivered to a task that does
 * not run, under the lock of its context. An event of a disabled group does not. Out of
 * line, to keep register pressure off the common path.
 */
static noinline void perf_gate_fire_slowly(struct perf_event *event, unsigned long pass,
					   unsigned long flags)
{
	if (event->state >= PERF_EVENT_STATE_INACTIVE &&
	    event->group_leader->state >= PERF_EVENT_STATE_INACTIVE)
		perf_gate_fire_links(event, pass, flags, false);
}

/*
 * Tell whether an overflow of an event is reported: it is in a window, or it was in one
 * and is delivered late. A record may be of the time before the trigger fired, so all
 * records are reported until the account moves, and none is afterwards.
 */
static bool perf_gate_reports(struct perf_gate_account *account)
{
	if (account->records)
		return account->split[0].open;

	return perf_gate_wants_open(account) ||
	       this_cpu_read(perf_gate_late_event) == account->event;
}

/**
 * __perf_gate_closed() - Tell whether overflows of an event must be dropped
 * @event:	Event that has an account
 *
 * Context: Any, with preemption disabled.
 * Return: Whether its gate is closed.
 */
bool __perf_gate_closed(struct perf_event *event)
{
	struct perf_gate_account *account = event->gate_account;

	guard(rcu)();

	if (perf_gate_reports(account))
		return false;

	/* The overflow is inside, like all counts until the account closes. */
	if (account->split[0].open && perf_gate_may_be_late(account))
		perf_gate_set_late(account);

	return true;
}

/**
 * perf_event_gate_closed() - Tell whether samples of an event must be dropped
 * @event:	Event whose driver writes samples by other means than perf_event_overflow()
 *
 * Context: Any, with preemption disabled, on the CPU that @event runs on.
 * Return: Whether its gate is closed.
 */
bool perf_event_gate_closed(struct perf_event *event)
{
	return perf_gate_closed(event);
}

/**
 * __perf_gate_fire() - Move the gates of an event that occurred or overflowed
 * @event:	The event
 * @pass:	PERF_GATE_BEFORE, PERF_GATE_AFTER or both
 *
 * An event that is disabled or whose own gate is closed does not fire.
 *
 * Context: Any, with preemption disabled. Takes no locks. Interrupts are off
 *          for at most PERF_GATE_MAX reads of a PMU, and as many records of windows
 *          with two reads of a clock each.
 */
void __perf_gate_fire(struct perf_event *event, unsigned long pass)
{
	unsigned long flags;

	/* guard(irqsave) does not give access to the flags. */
	local_irq_save(flags);
	rcu_read_lock();
	if (event->gate_account && !perf_gate_reports(event->gate_account))
		goto unlock;
	if (likely(event->state == PERF_EVENT_STATE_ACTIVE &&
		   event->oncpu == smp_processor_id() &&
		   !this_cpu_read(perf_gate_deferring)))
		perf_gate_fire_links(event, pass, flags, true);
	else
		perf_gate_fire_slowly(event, pass, flags);
unlock:
	rcu_read_unlock();
	local_irq_restore(flags);
}

/**
 * __perf_gate_call_deferring() - Call a function with firings deferred
 * @func:	Function that changes counts or times of events of this CPU
 * @data:	For @func
 *
 * Context: Interrupts off.
 */
void __perf_gate_call_deferring(void (*func)(void *), void *data)
{
	perf_gate_defer_begin();
	func(data);
	perf_gate_defer_end();
}
