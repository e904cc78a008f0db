// SPDX-License-Identifier: GPL-2.0
/*
 * Performance event gates: how a gate comes into being and goes.
 *
 *   attr.start_paused     __perf_gate_init() --.
 *   SET_STARTER/STOPPER   perf_gate_alloc() ---+--> perf_event::gate
 *   fork                  __perf_gate_inherit()'        |
 *                                                       v
 *                         __perf_gate_release(), RCU, perf_gate_free_rcu()
 *
 * An event keeps its gate until it is freed. Each gate but those of inherited
 * events holds the static key.
 */

#include <linux/irq_work.h>
#include <linux/perf_event.h>
#include <linux/slab.h>

#include "internal.h"
#include "gate.h"

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
	struct perf_gate *gate = perf_gate_alloc_nokey(event, 1);

	if (gate)
		static_branch_deferred_inc(&perf_gate_key);

	return gate;
}

/**
 * perf_gate_alloc_nokey() - perf_gate_alloc() for an inherited event
 * @event:	The event, whose parent has a gate
 * @depth:	Depth that the gate is to have
 *
 * The gate of the parent stays for longer than this one and keeps the static key
 * on, which may not be changed in the contexts that call this.
 *
 * Context: Process context.
 * Return: The gate, NULL without memory.
 */
struct perf_gate *perf_gate_alloc_nokey(struct perf_event *event, int depth)
{
	struct perf_gate *gate = kzalloc(sizeof(*gate), GFP_KERNEL);

	if (gate)
		perf_gate_setup(gate, event, depth);

	return gate;
}

/**
 * perf_gate_setup() - Make memory a gate
 * @gate:	The memory, all zero
 * @event:	The event that it is for
 * @depth:	Depth that it is to have
 *
 * Context: Any.
 */
void perf_gate_setup(struct perf_gate *gate, struct perf_event *event, int depth)
{
	bool by_core = perf_event_is_swevent(event);
	bool can_stop = is_sampling_event(event) &&
			(by_core || event->pmu->capabilities & PERF_PMU_CAP_GATE_STOP);

	gate->event = event;
	gate->nest = event->attr.gate_nest;
	gate->aux = has_aux(event);
	gate->aux_request = gate->aux && event->hw.aux_paused;
	gate->stops = gate->aux || can_stop;
	gate->stopped = gate->aux_request;
	gate->by_core = by_core;
	if (!gate->stops)
		gate->found = gate->by_core ? PERF_GATE_FOUND_IN_CORE : PERF_GATE_FOUND_IN_PMU;
	INIT_LIST_HEAD(&gate->links);
	INIT_LIST_HEAD(&gate->member);
	atomic_set(&gate->depth, depth);
	gate->state = gate;
	gate->load = 1;
	refcount_set(&gate->refs, 1);
	seqcount_latch_init(&gate->latch);
	gate->acct[0].open = depth;
	gate->acct[1].open = depth;
	gate->work = IRQ_WORK_INIT_HARD(perf_gate_work);
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
	if (has_aux(event))
		return event->pmu->capabilities & PERF_PMU_CAP_AUX_PAUSE;

	return !(event->event_caps & PERF_EV_CAP_NO_GATE) &&
	       !event->attr.aux_output &&
	       !event->attr.precise_ip && !perf_gate_is_bpf_output(event);
}

/**
 * __perf_gate_init() - Give a new event the gate that its attributes ask for
 * @event:	Event that nobody else knows, with attr.start_paused
 *
 * Context: Process context, as perf_gate_alloc().
 * Return: 0, -EOPNOTSUPP if a gate could not hold back its samples, -ENOMEM.
 */
int __perf_gate_init(struct perf_event *event)
{
	if (!perf_gate_can_filter(event))
		return -EOPNOTSUPP;

	event->gate = perf_gate_alloc_nokey(event, 0);
	if (!event->gate)
		return -ENOMEM;

	static_branch_deferred_inc(&perf_gate_key);

	return 0;
}

/**
 * __perf_gate_release() - Let go of the gate of an event that is being freed
 * @event:	Event that has a gate and is in no context any more
 *
 * The memory stays until perf_gate_free_rcu().
 *
 * Context: Process context. Takes perf_gate_mutex().
 */
void __perf_gate_release(struct perf_event *event)
{
	__perf_gate_sever(event, true);
	/* Queued only for running events, and this one will not run again. */
	irq_work_sync(&event->gate->work);
	/* What it is in stays for as long as its context, or longer: that is RCU, too. */
	if (event->gate->built_in)
		WRITE_ONCE(event->gate, NULL);
	if (!event->parent)
		static_branch_slow_dec_deferred(&perf_gate_key);
}
