// SPDX-License-Identifier: GPL-2.0
/*
 * Performance event gates: an event counts and samples only inside of windows
 * that other events open and close.
 *
 *                     starter fires (or detach, CLEAR_GATE)
 *             CLOSED ---------------------------------------> OPEN
 *               ^                                              |
 *               `----------------------------------------------'
 *                     stopper fires (or a starter is attached)
 *
 * An event whose firing moves a gate is a trigger, an event that has a gate is
 * a target, and an event may be both. gate_link.c ties them together; this
 * file moves the gates and tells what they have let through.
 *
 * Each target has two states. perf_gate::depth is the one that its triggers ask
 * for. It changes atomically in the context of the trigger, whatever the target
 * is doing, so no transition is lost, and overflows of a target whose depth is
 * 0 are dropped. perf_gate::acct is the state in force for counting. Moving it
 * takes the event's count and running time at that instant and nothing else:
 * the event stays on its PMU, so gating is exact on any PMU that can be read,
 * and does not depend on what pmu::stop() does or how long it takes.
 *
 * Contexts:  A trigger fires wherever its event does, NMI included, and has the
 *            context that it shares with its targets to itself: it runs on the
 *            CPU of the context, or holds its lock and fires for events that are
 *            of this CPU, where the task is not. So it leaves the accounts of a
 *            task's events on other CPUs to those: they do not run, and are
 *            settled before they count again. The account is moved at once
 *            if the count is at hand or the PMU of the target can be read here,
 *            otherwise in irq_work on the target's CPU. A target that its PMU
 *            does not run at the moment is left alone: neither its count nor its
 *            running time moves, and perf_gate_pmu_add() settles it before it
 *            runs again.
 * Lifetime:  A gate is allocated when its event becomes a trigger or a target
 *            and is freed with it, after an RCU grace period. Links hold no
 *            references.
 * Locking:   perf_gate_mutex() for links, inside of perf_event_context::mutex and
 *            outside of perf_event_context::lock. The account is written only
 *            on the CPU of the event, or under perf_event_context::lock while
 *            the event runs nowhere; perf_gate_hold() keeps off who interrupts
 *            a writer. Firing takes no lock.
 */

#include <linux/bpf.h>
#include <linux/perf_event.h>

#include "internal.h"
#include "gate.h"

#define CREATE_TRACE_POINTS
#include <trace/events/perf_gate.h>

/* On while a gate exists, so that nobody else pays. Off is not urgent. */
DEFINE_STATIC_KEY_DEFERRED_FALSE(perf_gate_key, HZ);

/*
 * Counts, times, counters or accounts of events on this CPU are in motion, by so many
 * instances. A firing that interrupts them leaves its targets to irq_work.
 */
static DEFINE_PER_CPU(unsigned int, perf_gate_held);

/* Who interrupts this puts back what he found. */
static __always_inline void perf_gate_hold(void)
{
	__this_cpu_inc(perf_gate_held);
	barrier();
}

static __always_inline void perf_gate_let_go(void)
{
	barrier();
	__this_cpu_dec(perf_gate_held);
}

/* The event is on this CPU and its PMU at work. */
static __always_inline bool perf_gate_on_pmu(struct perf_event *event)
{
	lockdep_assert_irqs_disabled();

	/*
	 * Between the update of ->oncpu and the end of pmu::add() or pmu::del()
	 * the event has no counter. That section runs with the PMU disabled.
	 */
	return READ_ONCE(event->oncpu) == smp_processor_id() &&
	       !*this_cpu_ptr(event->pmu->pmu_disable_count);
}

/*
 * The PMU may be read: the event is on it and fully there. A driver may assign counters
 * as late as in pmu::pmu_enable(). Who reads an event moves its totals one after the other.
 */
static bool perf_gate_readable(struct perf_event *event)
{
	return perf_gate_on_pmu(event) && !this_cpu_read(perf_gate_held);
}

/* Part by part, or the compiler takes the way over the stack for the padding. */
static __always_inline void
perf_gate_store(struct perf_gate_acct *to, const struct perf_gate_acct *acct)
{
	to->count = acct->count;
	to->running = acct->running;
	to->open = acct->open;
}

static __always_inline void
perf_gate_publish(struct perf_gate *gate, struct perf_gate_acct acct)
{
	write_seqcount_latch_begin(&gate->latch);
	perf_gate_store(&gate->acct[0], &acct);
	write_seqcount_latch(&gate->latch);
	perf_gate_store(&gate->acct[1], &acct);
	write_seqcount_latch_end(&gate->latch);
}

static __always_inline bool perf_gate_settled(struct perf_gate *gate)
{
	return gate->acct[0].open == !!atomic_read(&gate->depth);
}

/*
 * Move the account to the state @open, inside of perf_gate_hold(). Whoever interrupts
 * this and asks for another one has queued irq_work, or the event does not run.
 */
static __always_inline void
perf_gate_move(struct perf_gate *gate, struct perf_event *event, u64 time, bool open)
{
	if (gate->acct[0].open != open) {
		struct perf_gate_acct acct =
			perf_gate_flip(&gate->acct[0], local64_read(&event->count),
				       perf_gate_running(event, time));

		/* It is. This spares the compiler to find out. */
		acct.open = open;
		perf_gate_publish(gate, acct);
	}
}

/*
 * Let the account follow the depth. @time is perf_event_ctx_time(); with @read, the
 * count has to be fetched from the PMU.
 */
static __always_inline void
perf_gate_settle(struct perf_gate *gate, struct perf_event *event, u64 time, bool read)
{
	perf_gate_hold();
	if (!perf_gate_settled(gate)) {
		if (read)
			event->pmu->read(event);
		perf_gate_move(gate, event, time, !gate->acct[0].open);
	}
	perf_gate_let_go();
}

/*
 * The user page tells its reader where the counter is and what to add to it. An
 * NMI leaves it alone, it could have interrupted a writer.
 */
static __always_inline void
perf_gate_update_userpage(struct perf_gate *gate, struct perf_event *event)
{
	if (likely(!event->rb))
		return;

	/* Without a counter the page has nothing that changes with the gate. */
	if (READ_ONCE(event->oncpu) != smp_processor_id())
		return;

	if (!in_nmi())
		perf_event_update_userpage(event);
	else
		irq_work_queue(&gate->work);
}

/* Where a gate moves, as seen by the PMU driver of its event. */
enum perf_gate_place {
	/* The driver is not at work on this CPU. */
	PERF_GATE_OUTSIDE,
	/* It reports an overflow and expects events to be stopped and started. */
	PERF_GATE_IN_OVERFLOW,
	/* It may be interrupted anywhere and can be read at best. */
	PERF_GATE_ANYWHERE,
};

/* The event is to be off its PMU, but keep its counter or its AUX buffer. */
static bool perf_gate_wants_stop(struct perf_gate *gate)
{
	return !gate->acct[0].open || gate->aux_request;
}

static void perf_gate_start_or_stop(struct perf_gate *gate, bool stop)
{
	struct perf_event *event = gate->event;

	WRITE_ONCE(gate->stopped, stop);
	if (gate->aux) {
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

	/* The time while it was closed says nothing about its rate. */
	event->hw.freq_time_stamp = 0;
	/*
	 * Throttling and an exhausted event_limit are not for gates to end. But
	 * the core's own events count on while they are throttled.
	 */
	if ((gate->by_core || event->hw.interrupts != MAX_INTERRUPTS) &&
	    !event->pending_disable)
		event->pmu->start(event, PERF_EF_RELOAD);
}

/* Let the PMU follow the account of a gate that stops its event. */
static noinline void perf_gate_steer(struct perf_gate *gate,
				     enum perf_gate_place place)
{
	struct pmu *pmu = gate->event->pmu;

	if (gate->steering || perf_gate_wants_stop(gate) == gate->stopped)
		return;

	if (place == PERF_GATE_ANYWHERE) {
		irq_work_queue(&gate->work);
		return;
	}

	/* In an overflow the driver has done so, or does without. */
	if (place == PERF_GATE_OUTSIDE)
		perf_pmu_disable(pmu);

	/* Who interrupts this leaves the rest to the loop. */
	do {
		gate->steering = true;
		barrier();
		perf_gate_start_or_stop(gate, perf_gate_wants_stop(gate));
		barrier();
		gate->steering = false;
		barrier();
	} while (perf_gate_wants_stop(gate) != gate->stopped);

	if (place == PERF_GATE_OUTSIDE)
		perf_pmu_enable(pmu);
}

static void perf_gate_settle_here(struct perf_gate *gate, u64 time,
				  enum perf_gate_place place)
{
	perf_gate_settle(gate, gate->event, time, true);
	if (gate->stops)
		perf_gate_steer(gate, place);
	perf_gate_update_userpage(gate, gate->event);
}

/**
 * perf_gate_work() - Do what a firing could not do in its context
 * @work:	perf_gate::work
 *
 * Context: Interrupt.
 */
void perf_gate_work(struct irq_work *work)
{
	struct perf_gate *gate = container_of(work, struct perf_gate, work);
	int cpu = READ_ONCE(gate->event->oncpu);

	if (perf_gate_readable(gate->event)) {
		perf_gate_settle_here(gate, perf_event_ctx_time(gate->event),
				      PERF_GATE_OUTSIDE);
	} else if (cpu >= 0 && cpu != smp_processor_id()) {
		/*
		 * The event went elsewhere and was settled on arrival, but a
		 * firing there may have found this work pending here: for the
		 * account, for the PMU or for the user page.
		 */
		irq_work_queue_on(work, cpu);
	}
}

/* The core's own events only note that they are stopped. */
static void perf_gate_kick_by_core(struct perf_gate *gate, u64 time)
{
	/*
	 * Their counts are right at any instant, their times are not. An event
	 * that is not here or on its way out is settled when it comes in again.
	 */
	if (this_cpu_read(perf_gate_held)) {
		if (READ_ONCE(gate->event->oncpu) >= 0 ||
		    READ_ONCE(gate->event->state) == PERF_EVENT_STATE_ACTIVE)
			irq_work_queue(&gate->work);
		return;
	}

	perf_gate_settle(gate, gate->event, time, false);
	if (gate->stops && READ_ONCE(gate->event->oncpu) >= 0)
		perf_gate_steer(gate, perf_gate_readable(gate->event) ?
				      PERF_GATE_IN_OVERFLOW : PERF_GATE_ANYWHERE);
	perf_gate_update_userpage(gate, gate->event);
}

static enum perf_gate_place perf_gate_place(struct perf_gate *gate,
					    struct perf_event *trigger, bool direct)
{
	struct pmu *pmu = gate->event->pmu;

	if (direct)
		return PERF_GATE_OUTSIDE;

	/* Pausing is made for overflows of any other event. */
	if (gate->aux || pmu == trigger->pmu)
		return PERF_GATE_IN_OVERFLOW;

	return PERF_GATE_ANYWHERE;
}

/*
 * Bring the account of a gate whose depth changed up to date, or see to it that
 * somebody does. If interrupts were on when @trigger fired, by @flags, this CPU is
 * not inside of any PMU driver.
 */
static noinline void perf_gate_kick(struct perf_gate *gate,
				    struct perf_event *trigger,
				    unsigned long flags, u64 time)
{
	bool direct = !irqs_disabled_flags(flags);
	struct perf_event *event = gate->event;

	if (gate->by_core) {
		perf_gate_kick_by_core(gate, time);
		return;
	}

	if (READ_ONCE(event->oncpu) < 0)
		return;

	if (!perf_gate_readable(event) ||
	    !(direct || gate->aux ||
	      event->pmu->capabilities & PERF_PMU_CAP_GATE_NMI)) {
		irq_work_queue(&gate->work);
		return;
	}

	perf_gate_settle(gate, event, time, true);
	if (gate->stops)
		perf_gate_steer(gate, perf_gate_place(gate, trigger, direct));
	perf_gate_update_userpage(gate, event);
}

static void perf_gate_kick_members(struct hlist_head *list,
				   struct perf_event *trigger,
				   unsigned long flags, u64 time)
{
	struct perf_gate *member;

	hlist_for_each_entry_rcu(member, list, run) {
		perf_gate_follow(member);
		perf_gate_kick(member, trigger, flags, time);
	}
}

/*
 * perf_gate_kick() for those whose gate it is and who can run here. Other CPUs may
 * fire for theirs right now, see perf_tp_event(), and settle them when they come in.
 */
static noinline void perf_gate_kick_spread(struct perf_gate *gate,
					   struct perf_event *trigger,
					   unsigned long flags, u64 time)
{
	struct perf_gate_members *members = READ_ONCE(gate->members);
	int cpu = smp_processor_id();

	if (members) {
		perf_gate_kick_members(&members->any, trigger, flags, time);
		perf_gate_kick_members(&members->cpu[cpu], trigger, flags, time);
	} else if (gate->event->cpu < 0 || gate->event->cpu == cpu) {
		perf_gate_kick(gate, trigger, flags, time);
	}
}

/* Out of line, to leave its registers to those who do not trace. */
static noinline void perf_gate_trace(struct perf_event *trigger,
				     struct perf_gate *gate, bool open)
{
	struct perf_event *target = perf_gate_face(gate);

	if (open)
		trace_open(trigger, target);
	else
		trace_close(trigger, target);
}

/*
 * For a firing, which finds nothing in motion if it is one of these that fires. Return
 * whether the gate is to be open, which whoever interrupts the tracing may have changed.
 */
static noinline bool perf_gate_trace_held(struct perf_event *trigger,
					  struct perf_gate *gate, bool open)
{
	perf_gate_let_go();
	perf_gate_trace(trigger, gate, open);
	perf_gate_hold();

	return atomic_read(&gate->depth);
}

/*
 * Apply what a trigger does. Return whether the gate is to open or to close, and which
 * of them by @open.
 */
static __always_inline bool perf_gate_step(struct perf_gate *gate,
					   struct perf_event *trigger,
					   unsigned long act, bool *open)
{
	int old, new;

	/* Other CPUs look at it after a task switch, or with the context's lock. */
	if (act & PERF_GATE_TOGGLES) {
		/* This does not nest, so it knows the depths 0 and 1 only. */
		*open = !atomic_fetch_xor_relaxed(1, &gate->depth);
	} else {
		old = atomic_read(&gate->depth);
		do {
			new = perf_gate_next(old, act);
			if (new == old)
				return false;
		} while (!atomic_try_cmpxchg_relaxed(&gate->depth, &old, new));

		if (old && new)
			return false;
		*open = new;
	}

	if (*open) {
		atomic64_inc(&gate->nr_opened);
		if (tracepoint_enabled(open))
			*open = perf_gate_trace_held(trigger, gate, true);
	} else if (tracepoint_enabled(close)) {
		*open = perf_gate_trace_held(trigger, gate, false);
	}

	return true;
}

/*
 * Inside of perf_gate_hold(), with nothing in motion: bring the count of an event up to
 * date if moving the account is all that its gate takes. Interrupts were as in @flags.
 */
static __always_inline bool perf_gate_fetch(struct perf_gate *gate, unsigned long flags)
{
	struct perf_event *event;

	/* While a gate is being shared, either way moves the same account. */
	if (likely(data_race(gate->found) == PERF_GATE_FOUND_IN_CORE))
		return true;

	/* That it is elsewhere by now is as good. */
	if (data_race(gate->found) != PERF_GATE_FOUND_IN_PMU)
		return false;

	event = gate->event;
	if (!perf_gate_on_pmu(event) ||
	    (irqs_disabled_flags(flags) &&
	     !(event->pmu->capabilities & PERF_PMU_CAP_GATE_NMI)))
		return false;

	event->pmu->read(event);

	return true;
}

/* With @simple, nothing is in motion on this CPU. */
static __always_inline void
perf_gate_fire_links(struct perf_event *event, unsigned long pass,
		     unsigned long flags, bool simple)
{
	/* One instant for all targets, which share its context. */
	u64 time = perf_event_ctx_time(event);
	struct list_head *links = &event->gate->links;
	struct perf_event *counted;
	struct perf_gate_link *link;
	struct perf_gate *target;
	unsigned long act;
	bool open;

	perf_gate_hold();
	list_for_each_entry_rcu(link, links, node) {
		act = READ_ONCE(link->act);
		target = link->target;
		if (!(act & pass) || !perf_gate_step(target, event, act, &open))
			continue;

		if (simple && perf_gate_fetch(target, flags)) {
			counted = target->event;
			perf_gate_move(target, counted, time, open);
			perf_gate_update_userpage(target, counted);
			continue;
		}

		perf_gate_let_go();
		if (unlikely(READ_ONCE(target->spread)))
			perf_gate_kick_spread(target, event, flags, time);
		else
			perf_gate_kick(target, event, flags, time);
		perf_gate_hold();
	}
	perf_gate_let_go();
}

/*
 * One that is merely inactive fires: a tracepoint may be delivered to a task that
 * is not running, under the lock of its context. Not so if its group is disabled.
 */
static bool perf_gate_may_fire(struct perf_event *event)
{
	perf_gate_follow(event->gate);

	return event->state >= PERF_EVENT_STATE_INACTIVE &&
	       event->group_leader->state >= PERF_EVENT_STATE_INACTIVE;
}

/* Out of line, to leave its registers to those who interrupt nobody. */
static noinline void perf_gate_fire_held(struct perf_event *event, unsigned long pass)
{
	unsigned long flags;

	local_save_flags(flags);
	perf_gate_fire_links(event, pass, flags, false);
}

/* Interrupts are off, and were as in @flags when @event fired. */
static __always_inline void
perf_gate_fire_here(struct perf_event *event, unsigned long pass, unsigned long flags)
{
	guard(rcu)();

	if ((event->state != PERF_EVENT_STATE_ACTIVE && !perf_gate_may_fire(event)) ||
	    !atomic_read(&event->gate->depth))
		return;

	if (unlikely(this_cpu_read(perf_gate_held)))
		perf_gate_fire_held(event, pass);
	else
		perf_gate_fire_links(event, pass, flags, true);
}

/**
 * __perf_gate_fire() - An event occurred or overflowed: move its targets' gates
 * @event:	The event, which need not be a trigger
 * @pass:	PERF_GATE_BEFORE, PERF_GATE_AFTER or both
 *
 * An event that is disabled or whose own gate is closed does not fire.
 *
 * Context: Any, with preemption disabled. Takes no locks. Interrupts are off
 *          for at most PERF_GATE_MAX_LINKS reads of a PMU.
 */
void __perf_gate_fire(struct perf_event *event, unsigned long pass)
{
	unsigned long flags;

	/* What guard(irqsave) has saved cannot be looked at. */
	local_irq_save(flags);
	perf_gate_fire_here(event, pass, flags);
	local_irq_restore(flags);
}

/**
 * __perf_gate_fire_throttled() - An event overflowed that is throttled
 * @event:	The event, which need not be a trigger
 *
 * Context: As __perf_gate_fire().
 */
void __perf_gate_fire_throttled(struct perf_event *event)
{
	if (!event->prog || event->prog->type != BPF_PROG_TYPE_PERF_EVENT)
		perf_gate_fire(event, PERF_GATE_BEFORE | PERF_GATE_AFTER);
}

/**
 * __perf_gate_pmu_enable() - Enable a PMU behind firings
 * @pmu:	The PMU, which perf_pmu_enable() has counted as enabled already
 *
 * Context: Interrupts off.
 */
void __perf_gate_pmu_enable(struct pmu *pmu)
{
	perf_gate_hold();
	pmu->pmu_enable(pmu);
	perf_gate_let_go();
}

/**
 * __perf_gate_pmu_read() - Bring the count of an event up to date
 * @event:	Event that is active on this CPU
 *
 * Context: Interrupts off.
 */
void __perf_gate_pmu_read(struct perf_event *event)
{
	perf_gate_hold();
	event->pmu->read(event);
	perf_gate_let_go();
}

/**
 * __perf_gate_call_held() - Call a function that has events in motion
 * @func:	Changes counts or times of events of this CPU
 * @data:	For @func
 *
 * Context: Interrupts off.
 */
void __perf_gate_call_held(void (*func)(void *), void *data)
{
	perf_gate_hold();
	func(data);
	perf_gate_let_go();
}

/**
 * __perf_gate_pmu_add() - Settle the gate of an event and put it on its PMU
 * @event:	Event that has a gate, or gets one here
 *
 * Context: CPU of the event, interrupts off, perf_event_context::lock held,
 *          PMU of the event disabled.
 * Return: That of pmu::add(), -EAGAIN if there is no memory for its account.
 */
int __perf_gate_pmu_add(struct perf_event *event)
{
	struct perf_gate *gate = event->gate;

	lockdep_assert_held(&event->ctx->lock);

	if (unlikely(!gate)) {
		gate = perf_gate_first_run(event);
		if (!gate)
			return -EAGAIN;
	}

	perf_gate_follow(gate);
	/* If pmu::add() fails, the event has not run since ->tstamp. */
	perf_gate_settle(gate, event, event->tstamp, false);

	if (!gate->stops)
		return event->pmu->add(event, PERF_EF_START);

	/* Whatever changes this from here until the PMU is on queues irq_work. */
	do {
		gate->stopped = perf_gate_wants_stop(gate);
		barrier();
	} while (gate->stopped != perf_gate_wants_stop(gate));
	if (gate->aux)
		event->hw.aux_paused = gate->stopped;

	return event->pmu->add(event, gate->stopped && !gate->aux ? 0 : PERF_EF_START);
}

/**
 * __perf_gate_catch_up() - Settle the gate of an event that counts where it is not
 * @event:	Event of this CPU, whose task sleeps or is elsewhere
 *
 * A tracepoint that is delivered to another task counts in the events that this
 * task has on the CPU of the delivery. Triggers fired elsewhere since it left.
 *
 * Context: Interrupts off, perf_event_context::lock of the event held.
 * Return: False if it is not to count.
 */
bool __perf_gate_catch_up(struct perf_event *event)
{
	struct perf_gate *gate = READ_ONCE(event->gate);

	lockdep_assert_held(&event->ctx->lock);

	/* Without an account, all that it counts is inside. */
	if (!gate) {
		gate = event->common_gate;
		return !gate || atomic_read(&gate->depth);
	}

	if (event->state != PERF_EVENT_STATE_INACTIVE)
		return true;

	perf_gate_follow(gate);
	perf_gate_settle(gate, event, perf_event_ctx_time(event), false);
	if (gate->stops) {
		gate->stopped = perf_gate_wants_stop(gate);
		event->hw.state = gate->stopped ? PERF_HES_STOPPED : 0;
	}

	return true;
}

static bool perf_gate_keeps_stopped(struct perf_gate *gate)
{
	return gate && gate->stops && !gate->aux && READ_ONCE(gate->stopped);
}

/**
 * perf_gate_pmu_start() - Start an event unless its gate keeps it stopped
 * @event:	Event that the core stopped, or that was throttled
 * @flags:	For pmu::start()
 *
 * Context: CPU of the event, interrupts off.
 */
void perf_gate_pmu_start(struct perf_event *event, int flags)
{
	if (perf_gate_keeps_stopped(perf_gate_of(event)))
		return;

	event->pmu->start(event, flags);
	/* An NMI closed it after the test and before the start. */
	if (perf_gate_keeps_stopped(perf_gate_of(event)))
		event->pmu->stop(event, PERF_EF_UPDATE);
}

/**
 * __perf_gate_aux_pause() - Pause or resume an AUX area event that has a gate
 * @event:	The event
 * @pause:	What an event with attr.aux_pause or attr.aux_resume asks for
 *
 * It traces while its gate is open and nobody has paused it.
 *
 * Context: Any, on the CPU that @event runs on.
 * Return: False if @event has no gate and nothing was done.
 */
bool __perf_gate_aux_pause(struct perf_event *event, bool pause)
{
	struct perf_gate *gate = event->gate;

	if (!gate || !gate->aux)
		return false;

	guard(irqsave)();

	WRITE_ONCE(gate->aux_request, pause);
	perf_gate_steer(gate, perf_gate_readable(event) ? PERF_GATE_IN_OVERFLOW :
							  PERF_GATE_ANYWHERE);

	return true;
}

/**
 * perf_gate_settle_any() - Let a gate follow its depth wherever its event is
 * @gate:	The gate
 *
 * If the event does not run and only its PMU could tell its count, that is done
 * when it comes in.
 *
 * Context: CPU of the event's context, interrupts off, or perf_event_context::lock
 *          held while that is nowhere.
 */
void perf_gate_settle_any(struct perf_gate *gate)
{
	u64 time = perf_event_ctx_time(gate->event);

	if (perf_gate_readable(gate->event))
		perf_gate_settle_here(gate, time, PERF_GATE_OUTSIDE);
	else if (gate->by_core && !perf_gate_settled(gate))
		perf_gate_kick_by_core(gate, time);
}

static void perf_gate_settle_members(struct hlist_head *list)
{
	struct perf_gate *member;

	hlist_for_each_entry(member, list, run) {
		perf_gate_follow(member);
		perf_gate_settle_any(member);
	}
}

static void __perf_gate_set(struct perf_event *event,
			    struct perf_cpu_context *cpuctx,
			    struct perf_event_context *ctx, void *info)
{
	struct perf_gate *gate = perf_gate_state(event);
	bool open = *(bool *)info;
	bool was_open;

	was_open = atomic_xchg(&gate->depth, open);
	if (open && !was_open)
		atomic64_inc(&gate->nr_opened);
	if (open != was_open)
		perf_gate_trace(NULL, gate, open);

	if (!gate->members) {
		perf_gate_settle_any(gate);
		return;
	}

	perf_gate_settle_members(&gate->members->any);
	perf_gate_settle_members(&gate->members->cpu[smp_processor_id()]);
}

/**
 * perf_gate_is_dead() - An event is out of its context, or its task is gone
 * @event:	The event
 *
 * Its context may be without any event, and is not to be looked for.
 *
 * Context: Process context. perf_event_context::mutex of the event held, that of
 *          an inherited event's parent and its perf_event::child_mutex.
 * Return: Whether it is.
 */
bool perf_gate_is_dead(struct perf_event *event)
{
	lockdep_assert(event->parent ?
		       lockdep_is_held(&event->parent->child_mutex) :
		       lockdep_is_held(&event->ctx->mutex));

	/* Its CPU schedules it in and out meanwhile, and no more than that. */
	return READ_ONCE(event->state) <= PERF_EVENT_STATE_EXIT;
}

/**
 * perf_gate_set() - Open or close the gate of an event from process context
 * @event:	Event that has a gate or shares one
 * @open:	The state that it is to have
 *
 * The gate of an event that is out of its context, or whose task is gone, keeps
 * its state.
 *
 * Context: As perf_gate_is_dead().
 */
void perf_gate_set(struct perf_event *event, bool open)
{
	if (!perf_gate_is_dead(event))
		event_function_call(event, __perf_gate_set, &open);
}

static void perf_gate_zero(struct perf_event *event)
{
	struct perf_gate *gate = event->gate;
	struct perf_gate_acct acct;

	/*
	 * A reader finds one value or the other: the total stays, only the account
	 * tells that none of it is inside.
	 */
	acct = gate->acct[0];
	acct.count = acct.open ? local64_read(&event->count) : 0;
	perf_gate_publish(gate, acct);
}

static void __perf_gate_zero(struct perf_event *event,
			     struct perf_cpu_context *cpuctx,
			     struct perf_event_context *ctx, void *info)
{
	struct perf_gate *gate = event->gate;
	bool *done = info;

	if (perf_gate_readable(event))
		event->pmu->read(event);
	perf_gate_hold();
	perf_gate_zero(event);
	perf_gate_let_go();
	if (perf_gate_readable(event))
		perf_gate_settle_here(gate, perf_event_ctx_time(event),
				      PERF_GATE_OUTSIDE);
	else if (gate->by_core && !perf_gate_settled(gate))
		perf_gate_kick_by_core(gate, perf_event_ctx_time(event));
	else
		perf_event_update_userpage(event);
	*done = true;
}

/**
 * __perf_gate_reset() - Set the count of an event to zero
 * @event:	Event that has a gate
 *
 * Its times and the number of its windows stay, like time_running does.
 *
 * Context: Process context, perf_event_context::mutex held.
 */
void __perf_gate_reset(struct perf_event *event)
{
	bool done = false;

	if (!perf_gate_is_dead(event))
		event_function_call(event, __perf_gate_zero, &done);

	/* Gone, and with it all that could count or fire. */
	if (!done) {
		perf_gate_zero(event);
		perf_event_update_userpage(event);
	}
}
