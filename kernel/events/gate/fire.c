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

#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <linux/rculist.h>

#include "gate.h"

#define CREATE_TRACE_POINTS
#include <trace/events/perf_gate.h>

/* Nesting depth of the sections on this CPU in which firings defer. */
DEFINE_PER_CPU(unsigned int, perf_gate_deferring);

/*
 * Move the account to the state @open; the caller defers firings. A firing that
 * interrupts this and asks for another state queues irq_work.
 */
static __always_inline void
perf_gate_move(struct perf_gate_account *account, struct perf_event *event, u64 time,
	       bool open)
{
	if (account->split[0].open != open)
		perf_gate_flip_account(account, event, time, open);
}

/*
 * Let the account follow the depth. @time is perf_event_ctx_time(). With @read, read
 * the PMU first.
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
			event->pmu->read(event);
			perf_gate_check_late(account, event, open);
		}
		if (unlikely(event->gate_window))
			perf_gate_window_settle(event, time, open);
		perf_gate_move(account, event, time, open);
	}
	perf_gate_defer_end();
}

/*
 * The user page tells its reader where the counter is and what to add to it. An NMI may
 * have interrupted a writer of the page, so it leaves the update to irq_work.
 */
static __always_inline void
perf_gate_update_userpage(struct perf_gate_account *account, struct perf_event *event)
{
	if (likely(!event->rb))
		return;

	if (!in_nmi())
		perf_event_update_userpage(event);
	else
		irq_work_queue(&account->work);
}

/**
 * perf_gate_settle_here() - Let an event that runs on this CPU follow its gate
 * @account:	Account of the event, which is perf_gate_readable()
 * @time:	perf_event_ctx_time()
 *
 * Context: Interrupts off, not inside of a PMU driver.
 */
void perf_gate_settle_here(struct perf_gate_account *account, u64 time)
{
	perf_gate_settle(account, time, true);
	if (account->place == PERF_GATE_STEERED)
		perf_gate_steer(account, PERF_GATE_OUTSIDE);
	perf_gate_update_userpage(account, account->event);
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
	u64 time = perf_event_ctx_time(event);

	lockdep_assert_held(&event->ctx->lock);

	if (READ_ONCE(event->oncpu) < 0)
		perf_gate_settle(account, time, false);
	else if (perf_gate_readable(event))
		perf_gate_settle_here(account, time);
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
		perf_gate_settle_here(account, perf_event_ctx_time(account->event));
		if (perf_gate_may_be_late(account) && account->late)
			perf_gate_deliver_late(account);
	} else if (cpu >= 0 && cpu != smp_processor_id()) {
		irq_work_queue_on(work, cpu);
	}
}

/* Settle an event of a software PMU, whose pmu::stop() only sets a flag. */
static void perf_gate_settle_in_core(struct perf_gate_account *account, u64 time)
{
	/* The count is valid at any instant, but the clock of the context may be changing. */
	if (this_cpu_read(perf_gate_deferring)) {
		irq_work_queue(&account->work);
		return;
	}

	perf_gate_settle(account, time, false);
	if (account->place == PERF_GATE_STEERED)
		perf_gate_steer(account, perf_gate_readable(account->event) ?
					 PERF_GATE_IN_OVERFLOW : PERF_GATE_ANYWHERE);
	perf_gate_update_userpage(account, account->event);
}

/* With @direct, interrupts were on, so the firing interrupted no PMU driver. */
static enum perf_gate_context
perf_gate_context(struct perf_gate_account *account, struct perf_event *trigger, bool direct)
{
	if (direct)
		return PERF_GATE_OUTSIDE;

	/* PMUs support a pause in the overflow of any other event. */
	if (account->aux || account->event->pmu == trigger->pmu)
		return PERF_GATE_IN_OVERFLOW;

	return PERF_GATE_ANYWHERE;
}

/*
 * Settle an active member, or queue irq_work on the CPU that it runs on. Interrupts
 * were as in @flags when @trigger fired.
 */
static noinline void perf_gate_settle_active(struct perf_gate_account *account,
					     struct perf_event *trigger,
					     unsigned long flags, u64 time)
{
	struct perf_event *event = account->event;
	bool direct = !irqs_disabled_flags(flags);
	int cpu = READ_ONCE(event->oncpu);

	if (cpu != smp_processor_id()) {
		/* The trigger was delivered to a task that runs on another CPU. */
		if (cpu >= 0 && !in_nmi())
			irq_work_queue_on(&account->work, cpu);
		return;
	}

	if (account->by_core) {
		perf_gate_settle_in_core(account, time);
		return;
	}

	if (!perf_gate_readable(event) ||
	    !(direct || account->aux ||
	      event->pmu->capabilities & PERF_PMU_CAP_GATE_NMI)) {
		irq_work_queue(&account->work);
		return;
	}

	perf_gate_settle(account, time, true);
	if (account->place == PERF_GATE_STEERED)
		perf_gate_steer(account, perf_gate_context(account, trigger, direct));
	perf_gate_update_userpage(account, event);
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
 * Trace outside of the section that defers, so that a trigger on perf_gate:open may
 * fire. Return the state that the gate must have, because a firing of such a trigger
 * may change it.
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

	if (*open) {
		atomic64_inc(&state->nr_opened);
		if (tracepoint_enabled(open))
			*open = perf_gate_trace_step(trigger, state, true);
	} else if (tracepoint_enabled(close)) {
		*open = perf_gate_trace_step(trigger, state, false);
	}

	return true;
}

/*
 * Update the count of an active event, if nothing but its account has to follow the
 * gate. The caller defers firings. @flags has the state of interrupts when the trigger
 * fired.
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

/* As perf_gate_update_count(), for an account whose windows are recorded and that is to move. */
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

/* With @simple, @event runs on this CPU and interrupted no section that defers. */
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
				perf_gate_move(account, account->event, time, open);
				perf_gate_update_userpage(account, account->event);
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
 * not run, under the lock of its context. An event of a disabled group does not.
 */
static bool perf_gate_may_fire(struct perf_event *event)
{
	return event->state >= PERF_EVENT_STATE_INACTIVE &&
	       event->group_leader->state >= PERF_EVENT_STATE_INACTIVE;
}

/* Out of line, to keep register pressure off the common path. */
static noinline void perf_gate_fire_slowly(struct perf_event *event, unsigned long pass,
					   unsigned long flags)
{
	if (perf_gate_may_fire(event))
		perf_gate_fire_links(event, pass, flags, false);
}

/* Tell whether overflows of an event are reported: they happen in a window, or did. */
static bool perf_gate_reports(struct perf_gate_account *account)
{
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
 * __perf_gate_fire_throttled() - Move the gates of an event that is throttled
 * @event:	The event, which need not be a trigger
 *
 * An event with a BPF program does not fire, because the program did not run.
 *
 * Context: As __perf_gate_fire().
 */
void __perf_gate_fire_throttled(struct perf_event *event)
{
	if (!event->prog || event->prog->type != BPF_PROG_TYPE_PERF_EVENT)
		perf_gate_fire(event, PERF_GATE_BEFORE | PERF_GATE_AFTER);
}

/**
 * __perf_gate_pmu_enable() - Enable a PMU while firings defer
 * @pmu:	The PMU, which perf_pmu_enable() has counted as enabled already
 *
 * Context: Interrupts off.
 */
void __perf_gate_pmu_enable(struct pmu *pmu)
{
	perf_gate_defer_begin();
	pmu->pmu_enable(pmu);
	perf_gate_defer_end();
}

/**
 * __perf_gate_pmu_read() - Bring the count of an event up to date
 * @event:	Event that is active on this CPU
 *
 * Context: Interrupts off.
 */
void __perf_gate_pmu_read(struct perf_event *event)
{
	perf_gate_defer_begin();
	event->pmu->read(event);
	perf_gate_defer_end();
}

/**
 * __perf_gate_call_deferring() - Call a function while firings defer
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
	/* If pmu::add() fails, the event has not run since ->tstamp. */
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
