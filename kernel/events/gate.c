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
 *            CPU of the context, or holds its lock. The account is moved at once
 *            if the count is at hand or the PMU of the target can be read here,
 *            otherwise in irq_work on the target's CPU. A target that its PMU
 *            does not run at the moment is left alone: neither its count nor its
 *            running time moves, and perf_gate_sched_in() settles it before it
 *            runs again.
 * Lifetime:  A gate is allocated when its event becomes a trigger or a target
 *            and is freed with it, after an RCU grace period. Links hold no
 *            references.
 * Locking:   perf_gate_mutex for links, inside of perf_event_context::mutex and
 *            outside of perf_event_context::lock. The account is written only
 *            on the CPU of the event, or under perf_event_context::lock while
 *            the event runs nowhere; perf_gate::busy orders nested writers.
 *            Firing takes no lock.
 */

#include <linux/perf_event.h>
#include <linux/slab.h>

#include "internal.h"
#include "gate.h"

/* On while a gate exists, so that nobody else pays. Off is not urgent. */
DEFINE_STATIC_KEY_DEFERRED_FALSE(perf_gate_key, HZ);

/* The PMU may be read: the event is on this CPU and fully there. */
static bool perf_gate_readable(struct perf_event *event)
{
	lockdep_assert_irqs_disabled();

	/*
	 * Between the update of ->oncpu and the end of pmu::add() or pmu::del()
	 * the event has no counter. That section runs with the PMU disabled.
	 */
	return READ_ONCE(event->oncpu) == smp_processor_id() &&
	       !*this_cpu_ptr(event->pmu->pmu_disable_count);
}

static __always_inline void
perf_gate_publish(struct perf_gate *gate, struct perf_gate_acct acct)
{
	write_seqcount_latch_begin(&gate->latch);
	gate->acct[0] = acct;
	write_seqcount_latch(&gate->latch);
	gate->acct[1] = acct;
	write_seqcount_latch_end(&gate->latch);
}

/* An event whose group leader is off is not active, so its own state will do. */
static __always_inline u64 perf_gate_running(struct perf_event *event, u64 time)
{
	u64 running = event->total_time_running;

	if (event->state == PERF_EVENT_STATE_ACTIVE)
		running += time - event->tstamp;

	return running;
}

static __always_inline bool perf_gate_settled(struct perf_gate *gate)
{
	return gate->acct[0].open == !!atomic_read(&gate->depth);
}

/*
 * Move the account to its other state, and on until it has the one that the
 * triggers ask for. @time is perf_event_ctx_time(); with @read, the count has to
 * be fetched from the PMU. If somebody else has moved the account since the
 * caller looked, the first move makes a window without any extent.
 */
static __always_inline void
perf_gate_move(struct perf_gate *gate, struct perf_event *event, u64 time,
	       bool read)
{
	/* The instance that this one interrupted looks at the depth again. */
	if (gate->busy)
		return;

	do {
		gate->busy = true;
		barrier();
		if (read)
			event->pmu->read(event);
		perf_gate_publish(gate, perf_gate_flip(&gate->acct[0],
						       local64_read(&event->count),
						       perf_gate_running(event, time)));
		/* Whoever interrupts from here on moves it by itself. */
		barrier();
		gate->busy = false;
		barrier();
	} while (!perf_gate_settled(gate));
}

/*
 * The user page tells its reader where the counter is and what to add to it.
 * NMIs must not write it, they could interrupt a writer.
 */
static __always_inline void
perf_gate_update_userpage(struct perf_gate *gate, struct perf_event *event)
{
	if (likely(!event->rb))
		return;

	if (!in_nmi())
		perf_event_update_userpage(event);
	else if (READ_ONCE(event->oncpu) == smp_processor_id())
		irq_work_queue(&gate->work);
}

static void perf_gate_settle_here(struct perf_gate *gate, u64 time)
{
	if (!perf_gate_settled(gate))
		perf_gate_move(gate, gate->event, time, true);
	perf_gate_update_userpage(gate, gate->event);
}

static void perf_gate_work(struct irq_work *work)
{
	struct perf_gate *gate = container_of(work, struct perf_gate, work);
	int cpu = READ_ONCE(gate->event->oncpu);

	if (perf_gate_readable(gate->event)) {
		perf_gate_settle_here(gate, perf_event_ctx_time(gate->event));
	} else if (cpu >= 0 && cpu != smp_processor_id() &&
		   !perf_gate_settled(gate)) {
		/*
		 * The event went elsewhere and was settled on arrival, but a
		 * firing there has found this work pending here.
		 */
		irq_work_queue_on(work, cpu);
	}
}

/*
 * Bring the account of a gate whose depth changed up to date, or see to it that
 * somebody does. With @direct, interrupts were on when the trigger fired, so this
 * CPU is not inside of any PMU driver.
 */
static void perf_gate_kick(struct perf_gate *gate, bool direct, u64 time)
{
	struct perf_event *event = gate->event;

	if (READ_ONCE(event->oncpu) < 0)
		return;

	if (perf_gate_readable(event) &&
	    (direct || event->pmu->capabilities & PERF_PMU_CAP_GATE_NMI))
		perf_gate_settle_here(gate, time);
	else
		irq_work_queue(&gate->work);
}

/* Apply a trigger's role. Return whether the gate is to open or to close. */
static __always_inline bool perf_gate_step(struct perf_gate *gate,
					   unsigned int role)
{
	int old = atomic_read(&gate->depth);
	int new;

	do {
		new = perf_gate_next(old, role, gate->nest);
		if (new == old)
			return false;
	} while (!atomic_try_cmpxchg(&gate->depth, &old, new));

	if (!old)
		atomic64_inc(&gate->nr_opened);

	return !old || !new;
}

/**
 * __perf_gate_fire() - An event occurred or overflowed: move its targets' gates
 * @event:	The event, which need not be a trigger
 * @pass:	PERF_GATE_BEFORE, PERF_GATE_AFTER or both
 *
 * An event that is disabled or whose own gate is closed does not fire. One that
 * is merely inactive does: a tracepoint may be delivered to a task that is not
 * running, under the lock of its context.
 *
 * Context: Any, with preemption disabled. Takes no locks. Interrupts are off
 *          for at most PERF_GATE_MAX_LINKS reads of a PMU.
 */
void __perf_gate_fire(struct perf_event *event, unsigned int pass)
{
	struct perf_gate *gate = event->gate, *target;
	bool direct = !irqs_disabled();
	struct perf_gate_link *link;
	struct perf_event *dst;
	u64 time;

	guard(irqsave)();
	guard(rcu)();

	if (event->state < PERF_EVENT_STATE_INACTIVE || !atomic_read(&gate->depth))
		return;

	/* One instant for all targets, which share its context. */
	time = perf_event_ctx_time(event);

	list_for_each_entry_rcu(link, &gate->links, node) {
		target = link->target;
		if (!(READ_ONCE(link->pass) & pass) ||
		    !perf_gate_step(target, READ_ONCE(link->role)))
			continue;

		if (target->by_core) {
			dst = target->event;
			perf_gate_move(target, dst, time, false);
			perf_gate_update_userpage(target, dst);
		} else {
			perf_gate_kick(target, direct, time);
		}
	}
}

/**
 * __perf_gate_sched_in() - Settle the gate of an event that starts to run
 * @event:	Event that has a gate and whose pmu::add() is about to be called
 *
 * Context: CPU of the event, interrupts off, perf_event_context::lock held,
 *          PMU of the event disabled.
 */
void __perf_gate_sched_in(struct perf_event *event)
{
	lockdep_assert_held(&event->ctx->lock);

	/* If pmu::add() fails, the event has not run since ->tstamp. */
	if (!perf_gate_settled(event->gate))
		perf_gate_move(event->gate, event, event->tstamp, false);
}

/**
 * __perf_gate_count() - The count of an event inside of its windows
 * @event:	Event that has a gate
 *
 * Context: Any.
 * Return: The count, without those of inherited events.
 */
u64 __perf_gate_count(struct perf_event *event)
{
	struct perf_gate *gate = event->gate;
	const struct perf_gate_acct *acct;
	unsigned int seq;
	u64 count;

	do {
		seq = read_seqcount_latch(&gate->latch);
		acct = &gate->acct[seq & 1];
		count = perf_gate_inside(acct, local64_read(&event->count),
					 acct->count);
	} while (read_seqcount_latch_retry(&gate->latch, seq));

	return count;
}

/* At most @running, which the caller reports beside it. */
static u64 perf_gate_time(struct perf_event *event, u64 running)
{
	struct perf_gate *gate = event->gate;
	const struct perf_gate_acct *acct;
	unsigned int seq;
	u64 inside;

	if (!gate)
		return min(perf_gate_running(event, perf_event_ctx_time(event)), running);

	/*
	 * @running may be older than the latest opening, so take the time once
	 * more. The clock of another CPU may still be behind that opening.
	 */
	do {
		seq = read_seqcount_latch(&gate->latch);
		acct = &gate->acct[seq & 1];
		inside = perf_gate_running(event, perf_event_ctx_time(event));
		inside = perf_gate_inside(acct, inside, acct->running);
	} while (read_seqcount_latch_retry(&gate->latch, seq));

	return (s64)inside < 0 ? 0 : min(inside, running);
}

/**
 * perf_gate_values() - What read(2) and samples tell about a gate
 * @event:		The event, which need not have a gate
 * @read_format:	PERF_FORMAT_GATE_TIME, PERF_FORMAT_GATE_COUNT or both
 * @running:		Running time of the event that the reader sees, in ns,
 *			U64_MAX if he sees none
 * @values:		Receives the time in ns and the number of openings
 *
 * Context: Any on the CPU of the event, elsewhere perf_event_context::lock held.
 * Return: The number of values written.
 */
int perf_gate_values(struct perf_event *event, u64 read_format, u64 running,
		     u64 *values)
{
	int n = 0;

	if (read_format & PERF_FORMAT_GATE_TIME)
		values[n++] = perf_gate_time(event, running);
	if (read_format & PERF_FORMAT_GATE_COUNT)
		values[n++] = event->gate ? atomic64_read(&event->gate->nr_opened) : 0;

	return n;
}

/**
 * perf_gate_read_values() - perf_gate_values() for an event that may run anywhere
 * @event:		The event, which need not have a gate
 * @read_format:	PERF_FORMAT_GATE_TIME, PERF_FORMAT_GATE_COUNT or both
 * @running:		Running time of the event that the reader sees, in ns
 * @values:		Receives the time in ns and the number of openings
 *
 * Context: Process context, perf_event_context::mutex held. Takes
 *          perf_event_context::lock.
 * Return: The number of values written.
 */
int perf_gate_read_values(struct perf_event *event, u64 read_format, u64 running,
			  u64 *values)
{
	int n;

	raw_spin_lock_irq(&event->ctx->lock);
	n = perf_gate_values(event, read_format, running, values);
	raw_spin_unlock_irq(&event->ctx->lock);

	return n;
}

static void __perf_gate_set(struct perf_event *event,
			    struct perf_cpu_context *cpuctx,
			    struct perf_event_context *ctx, void *info)
{
	struct perf_gate *gate = event->gate;
	bool open = *(bool *)info;

	if (!atomic_xchg(&gate->depth, open) && open)
		atomic64_inc(&gate->nr_opened);

	if (gate->by_core || perf_gate_readable(event))
		perf_gate_settle_here(gate, perf_event_ctx_time(event));
}

/* Its context may be without any event, and is not to be looked for. */
static bool perf_gate_is_dead(struct perf_event *event)
{
	lockdep_assert_held(&event->ctx->mutex);

	return event->state <= PERF_EVENT_STATE_EXIT;
}

/**
 * perf_gate_set() - Open or close a gate from process context
 * @gate:	Gate of an event
 * @open:	The state that it is to have
 *
 * The gate of an event that is out of its context, or whose task is gone, keeps
 * its state.
 *
 * Context: Process context, perf_event_context::mutex of the event held.
 */
void perf_gate_set(struct perf_gate *gate, bool open)
{
	if (!perf_gate_is_dead(gate->event))
		event_function_call(gate->event, __perf_gate_set, &open);
}

static void perf_gate_zero(struct perf_event *event)
{
	struct perf_gate *gate = event->gate;
	struct perf_gate_acct acct;

	/* A firing that interrupts this leaves the account alone. */
	gate->busy = true;
	barrier();
	acct = gate->acct[0];
	acct.count = 0;
	local64_set(&event->count, 0);
	perf_gate_publish(gate, acct);
	barrier();
	gate->busy = false;
	barrier();
}

static void __perf_gate_zero(struct perf_event *event,
			     struct perf_cpu_context *cpuctx,
			     struct perf_event_context *ctx, void *info)
{
	struct perf_gate *gate = event->gate;
	bool *done = info;

	if (perf_gate_readable(event))
		event->pmu->read(event);
	perf_gate_zero(event);
	if (gate->by_core || perf_gate_readable(event))
		perf_gate_settle_here(gate, perf_event_ctx_time(event));
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

/**
 * perf_gate_alloc() - Allocate the gate of an event, which is open
 * @event:	The event
 *
 * The caller attaches it to the event, or gives it to perf_gate_free().
 *
 * Context: Process context, neither cpu_hotplug_lock nor any
 *          perf_event_context::mutex held.
 * Return: The gate, NULL without memory.
 */
struct perf_gate *perf_gate_alloc(struct perf_event *event)
{
	struct perf_gate *gate = kzalloc(sizeof(*gate), GFP_KERNEL);

	if (!gate)
		return NULL;

	gate->event = event;
	gate->nest = event->attr.gate_nest;
	gate->by_core = perf_event_is_swevent(event);
	INIT_LIST_HEAD(&gate->links);
	atomic_set(&gate->depth, 1);
	seqcount_latch_init(&gate->latch);
	gate->acct[0].open = true;
	gate->acct[1].open = true;
	gate->work = IRQ_WORK_INIT_HARD(perf_gate_work);
	static_branch_deferred_inc(&perf_gate_key);

	return gate;
}

/**
 * perf_gate_free() - Free a gate that no event got
 * @gate:	The gate or NULL
 *
 * Context: Process context.
 */
void perf_gate_free(struct perf_gate *gate)
{
	if (!gate)
		return;

	static_branch_slow_dec_deferred(&perf_gate_key);
	kfree(gate);
}

/**
 * perf_gate_can_filter() - Would a closed gate hold back all samples of an event?
 * @event:	The event
 *
 * Context: Any.
 * Return: False if samples do not pass through an overflow of their own each:
 *         the PMU hands them over in bulk or to the AUX area, or a BPF program
 *         writes them.
 */
bool perf_gate_can_filter(struct perf_event *event)
{
	return !has_aux(event) && !event->attr.aux_output &&
	       !event->attr.precise_ip &&
	       !(event->attr.type == PERF_TYPE_SOFTWARE &&
		 event->attr.config == PERF_COUNT_SW_BPF_OUTPUT);
}

/**
 * perf_gate_init() - Give a new event the gate that its attributes ask for
 * @event:	Event that nobody else knows
 *
 * Context: Process context, as perf_gate_alloc().
 * Return: 0, -EOPNOTSUPP if a gate could not hold back its samples, -ENOMEM.
 */
int perf_gate_init(struct perf_event *event)
{
	if (event->parent || !event->attr.start_paused)
		return 0;

	if (!perf_gate_can_filter(event))
		return -EOPNOTSUPP;

	event->gate = perf_gate_alloc(event);
	if (!event->gate)
		return -ENOMEM;

	atomic_set(&event->gate->depth, 0);
	event->gate->acct[0].open = false;
	event->gate->acct[1].open = false;

	return 0;
}

/**
 * __perf_gate_release() - Let go of the gate of an event that is being freed
 * @event:	Event that has a gate and is in no context any more
 *
 * The memory stays until perf_gate_free_rcu().
 *
 * Context: Process context. Takes perf_gate_mutex.
 */
void __perf_gate_release(struct perf_event *event)
{
	__perf_gate_sever(event);
	/* Queued only for running events, and this one will not run again. */
	irq_work_sync(&event->gate->work);
	static_branch_slow_dec_deferred(&perf_gate_key);
}
