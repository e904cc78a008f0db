// SPDX-License-Identifier: GPL-2.0
/*
 * Performance event gates: those that the inherited events of a task share.
 *
 *      files refer to         gate that was joined <--------- gates of members
 *                               ^
 *                               | pattern
 *      a child's context ---> common gate                     events that have not run
 *                               ^  .spares                    |
 *                               |    |                        | run for the first time
 *                               |    v                        v
 *                               `-- gate of its own <-------- event
 *
 * Most tasks run on few CPUs, and perf opens events for all of them. So a new task gets
 * one gate for all inherited events whose parents share one, and some spare ones. An
 * event that does not run has no count to split, and needs no gate of its own. It takes
 * a spare one when pmu::add() is about to be called.
 *
 * The common gate has no event. It is in perf_event_context::gates from the first event
 * on that is inherited into that context, and goes when the context is freed, which is
 * after all of its events and their links. Its first spare gates, enough for two CPUs,
 * are in the same memory.
 *
 * Locking:  perf_event_context::lock for who gets a gate of its own,
 *           perf_event::child_mutex of the parent for who shares which common gate,
 *           perf_gate_mutex() for the links of the common gate.
 */

#include <linux/irq_work.h>
#include <linux/llist.h>
#include <linux/perf_event.h>
#include <linux/rculist.h>
#include <linux/slab.h>

#include <asm/local.h>

#include "internal.h"
#include "gate.h"

#include <trace/events/perf_gate.h>

static void perf_gate_add_spare(struct perf_gate_common *common, struct perf_gate *gate)
{
	llist_add(&gate->spare, &common->spares);
	atomic_inc(&common->nr_spares);
}

static void perf_gate_refill(struct irq_work *work)
{
	struct perf_gate_common *common =
		container_of(work, struct perf_gate_common, refill);
	struct perf_gate *gate;

	while (atomic_read(&common->nr_spares) < common->nr_wanted) {
		gate = kzalloc(sizeof(*gate), GFP_NOWAIT | __GFP_NOWARN);
		/* Who comes to run and finds none asks again. */
		if (!gate)
			break;
		perf_gate_add_spare(common, gate);
	}
	perf_gate_put(&common->gate);
}

/* Interrupts are off. */
static void perf_gate_order_spares(struct perf_gate_common *common)
{
	/* If it is queued, it runs here when they are on again. */
	if (irq_work_queue(&common->refill))
		refcount_inc(&common->gate.refs);
}

static struct perf_gate_common *
perf_gate_alloc_common(struct perf_gate *pattern)
{
	struct perf_gate_common *common;
	struct perf_gate *gate, *spares;
	size_t size;
	int nr, i;

	size = ALIGN(struct_size(common, members.cpu, nr_cpu_ids), sizeof(u64));
	nr = 2 * max(READ_ONCE(pattern->load), 1U);
	common = kvzalloc(size + nr * sizeof(*spares), GFP_KERNEL);
	if (!common)
		return NULL;

	refcount_inc(&pattern->refs);
	common->pattern = pattern;
	common->nr_wanted = nr;
	init_irq_work(&common->refill, perf_gate_refill);
	spares = (void *)common + size;
	for (i = 0; i < nr; i++) {
		spares[i].built_in = true;
		perf_gate_add_spare(common, &spares[i]);
	}

	gate = &common->gate;
	gate->common = true;
	gate->linked = true;
	gate->spread = true;
	gate->nest = pattern->nest;
	gate->state = gate;
	gate->members = &common->members;
	refcount_set(&gate->refs, 1);
	INIT_LIST_HEAD(&gate->links);

	return common;
}

/**
 * perf_gate_free_common() - Free what a common gate has
 * @gate:	The gate, which nobody refers to any more
 *
 * Context: Any but NMI.
 */
void perf_gate_free_common(struct perf_gate *gate)
{
	struct perf_gate_common *common = perf_gate_common(gate);
	struct perf_gate *spare, *next;

	llist_for_each_entry_safe(spare, next, llist_del_all(&common->spares), spare) {
		if (!spare->built_in)
			kfree(spare);
	}
	perf_gate_put(common->pattern);
	kvfree_rcu(common, gate.rcu);
}

/**
 * __perf_gate_free_context() - Let go of the common gates of a context
 * @ctx:	The context, which nobody refers to any more
 *
 * Context: RCU callback.
 */
void __perf_gate_free_context(struct perf_event_context *ctx)
{
	struct perf_gate_common *common, *next;

	for (common = ctx->gates; common; common = next) {
		next = common->next;
		perf_gate_put(&common->gate);
	}
}

/* The one for @pattern among those from @common on and before @end, or NULL. */
static struct perf_gate *perf_gate_search(struct perf_gate_common *common,
					  const struct perf_gate_common *end,
					  const struct perf_gate *pattern)
{
	for (; common != end; common = common->next) {
		if (common->pattern == pattern)
			return &common->gate;
	}

	return NULL;
}

/* No event shares it so far. perf_event_context::lock is held. */
static void perf_gate_renew_common(struct perf_gate *gate, int depth)
{
	atomic_set(&gate->depth, depth);
	atomic64_set(&gate->nr_opened, 0);
}

/**
 * perf_gate_get_common() - Find or make the gate that the heirs of members share
 * @ctx:	Context of a task that inherits events
 * @pattern:	The gate that their parents share
 * @depth:	Depth that it is to have if no event of @ctx shares it so far
 * @fresh:	No event of @ctx does, even if it is there
 *
 * Context: Process context, with a reference on @ctx. Takes perf_event_context::lock.
 * Return: The gate, which goes when @ctx is freed, NULL without memory.
 */
struct perf_gate *perf_gate_get_common(struct perf_event_context *ctx,
				       struct perf_gate *pattern,
				       int depth, bool fresh)
{
	struct perf_gate_common *known, *new = NULL;
	struct perf_gate *gate;

	/* Pairs with the store below. */
	known = smp_load_acquire(&ctx->gates);
	gate = perf_gate_search(known, NULL, pattern);
	/* There may be half as many of them as there are events. */
	cond_resched();

	if (!gate) {
		new = perf_gate_alloc_common(pattern);
		if (!new)
			return NULL;
	}

	raw_spin_lock_irq(&ctx->lock);
	if (!gate)
		gate = perf_gate_search(ctx->gates, known, pattern);
	if (!gate) {
		gate = &new->gate;
		new->next = ctx->gates;
		/* Whoever finds it finds all of it: perf_gate_find_common(). */
		smp_store_release(&ctx->gates, new);
		new = NULL;
		fresh = true;
	}
	if (fresh)
		perf_gate_renew_common(gate, depth);
	raw_spin_unlock_irq(&ctx->lock);

	if (new)
		perf_gate_put(&new->gate);

	return gate;
}

/**
 * perf_gate_share_common() - Let an event of a new task share a gate until it runs
 * @event:	Event that is in no list yet, of a task that does not run yet
 * @pattern:	The gate that its parent shares
 * @depth:	Depth that the gate is to have if no event of the task shares it so far
 *
 * The context is bound to its task until it is without events: what has moved for one
 * task must not go on to another one.
 *
 * Context: As perf_gate_get_common().
 * Return: 0, -ENOMEM.
 */
int perf_gate_share_common(struct perf_event *event, struct perf_gate *pattern, int depth)
{
	struct perf_event_context *ctx = event->ctx;
	struct perf_gate *gate;

	gate = perf_gate_get_common(ctx, pattern, depth, false);
	if (!gate)
		return -ENOMEM;

	raw_spin_lock_irq(&ctx->lock);
	if (!gate->pins) {
		perf_gate_renew_common(gate, depth);
		WRITE_ONCE(gate->pins, true);
		local_inc(&ctx->nr_no_switch_fast);
	}
	raw_spin_unlock_irq(&ctx->lock);
	event->common_gate = gate;

	return 0;
}

/**
 * __perf_gate_unpin_context() - A context is without events, and may go from task to task
 * @ctx:	The context, which has common gates
 *
 * Context: perf_event_context::lock held.
 */
void __perf_gate_unpin_context(struct perf_event_context *ctx)
{
	struct perf_gate_common *common;

	lockdep_assert_held(&ctx->lock);

	for (common = ctx->gates; common; common = common->next) {
		if (!common->gate.pins)
			continue;
		WRITE_ONCE(common->gate.pins, false);
		local_dec(&ctx->nr_no_switch_fast);
	}
}

/* Give @event, which has not run so far, a gate of its own. */
static void perf_gate_take(struct perf_event *event, struct perf_gate *gate)
{
	struct perf_gate *state = event->common_gate;

	lockdep_assert_held(&event->ctx->lock);

	perf_gate_setup(gate, event, 1);
	gate->linked = true;
	gate->state = state;
	refcount_inc(&state->refs);
	perf_gate_follow(gate);
	if (event->attach_state & PERF_ATTACH_CONTEXT)
		hlist_add_head_rcu(&gate->run, perf_gate_run_list(state->members, event));

	/* The event's readers find a gate that is set up. */
	smp_store_release(&event->gate, gate);
	/* Who finds a count that is not all inside finds it, too: perf_gate_count(). */
	smp_wmb();
}

/**
 * perf_gate_first_run() - Give an event a gate of its own that is about to run
 * @event:	Event that shares a common gate and has none of its own
 *
 * Context: CPU of the event, interrupts off, perf_event_context::lock held.
 * Return: The gate. NULL if none is there, then one may be the next time.
 */
struct perf_gate *perf_gate_first_run(struct perf_event *event)
{
	struct perf_gate_common *common = perf_gate_common(event->common_gate);
	struct llist_node *node = llist_del_first(&common->spares);
	struct perf_gate *gate;

	if (!node) {
		perf_gate_order_spares(common);
		return NULL;
	}

	if (2 * atomic_dec_return(&common->nr_spares) < common->nr_wanted)
		perf_gate_order_spares(common);

	gate = llist_entry(node, struct perf_gate, spare);
	perf_gate_take(event, gate);

	return gate;
}

/**
 * perf_gate_adopt() - Give an event a gate of its own that has not run so far
 * @event:	Event that shares a common gate
 *
 * Context: Process context, perf_gate_mutex() held.
 * Return: 0, -ENOMEM.
 */
int perf_gate_adopt(struct perf_event *event)
{
	struct perf_gate *gate = kzalloc(sizeof(*gate), GFP_KERNEL);

	if (!gate)
		return -ENOMEM;

	raw_spin_lock_irq(&event->ctx->lock);
	if (!event->gate) {
		perf_gate_take(event, gate);
		gate = NULL;
	}
	raw_spin_unlock_irq(&event->ctx->lock);
	kfree(gate);

	return 0;
}

/**
 * perf_gate_give_back() - An event that has no gate of its own shares one no more
 * @event:	The event
 * @open:	It is to be open. It is in any case, and this counts.
 *
 * What it knows of its windows is its parent's from here on.
 *
 * Context: perf_event_context::lock and perf_event::child_mutex of the parent held.
 */
void perf_gate_give_back(struct perf_event *event, bool open)
{
	struct perf_gate *state = event->common_gate;
	u64 opened;
	int depth;

	lockdep_assert_held(&event->parent->child_mutex);

	/* An NMI may move it. */
	do {
		opened = atomic64_read(&state->nr_opened);
		depth = atomic_read(&state->depth);
	} while (opened != atomic64_read(&state->nr_opened) ||
		 depth != atomic_read(&state->depth));

	open &= !depth;
	atomic64_add(opened + open, &event->parent->gate->child_opened);
	WRITE_ONCE(event->common_gate, NULL);
	if (open)
		trace_open(NULL, event);
}
