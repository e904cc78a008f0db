// SPDX-License-Identifier: GPL-2.0
/*
 * Simulated PMUs: which event gets which counter.
 *
 * An event may use the counters of its mask. A new event may find them taken by
 * events that could use other counters; these move. An event is refused only if
 * the counters cannot hold it together with all events that are there.
 */

#include "pmusim.h"

/*
 * Find a counter in @mask, moving events in @slot if that helps; @seen has the
 * counters that were looked at.
 */
static int pmusim_find_counter(struct perf_event **slot, unsigned int nr,
			       unsigned long mask, unsigned long *seen)
{
	int i, to;

	for_each_set_bit(i, &mask, nr) {
		if (!slot[i])
			return i;
	}
	for_each_set_bit(i, &mask, nr) {
		if (__test_and_set_bit(i, seen))
			continue;
		to = pmusim_find_counter(slot, nr,
					 to_pmusim_event(slot[i])->ctrmask, seen);
		if (to < 0)
			continue;
		slot[to] = slot[i];
		slot[i] = NULL;
		return i;
	}
	return -EAGAIN;
}

/* Move events to the counters that @slot assigns. */
static void pmusim_move_events(struct pmusim_cpu *c, struct perf_event **slot)
{
	unsigned long started = 0, pending = 0;
	u64 reg[PMUSIM_MAX_COUNTERS] = {};
	int i, old;

	for (i = 0; i < PMUSIM_MAX_COUNTERS; i++) {
		old = slot[i] ? slot[i]->hw.idx : -1;
		if (old < 0)
			continue;
		reg[i] = local64_read(&c->reg[old]);
		__assign_bit(i, &started, test_bit(old, &c->started));
		__assign_bit(i, &pending, test_bit(old, &c->pending));
	}

	c->started = started;
	c->pending = pending;
	for (i = 0; i < PMUSIM_MAX_COUNTERS; i++) {
		c->event[i] = slot[i];
		local64_set(&c->reg[i], reg[i]);
		old = slot[i] ? slot[i]->hw.idx : i;
		if (old == i)
			continue;
		slot[i]->hw.idx = i;
		if (old >= 0)
			perf_event_update_userpage(slot[i]);
	}
}

static bool pmusim_should_fail(atomic_t *failures)
{
	return atomic_add_unless(failures, -1, 0);
}

static int pmusim_place(struct pmusim_cpu *c, struct perf_event *event)
{
	struct pmusim_event *pe = to_pmusim_event(event);
	struct perf_event *slot[PMUSIM_MAX_COUNTERS];
	unsigned long seen = 0;
	int idx;

	if (pe->source == PMUSIM_SOURCE_FAIL || pmusim_should_fail(&c->sim->fail_add))
		return -EAGAIN;
	if (pe->fail_nth && !(++pe->adds % pe->fail_nth))
		return -EAGAIN;

	memcpy(slot, c->event, sizeof(slot));
	idx = pmusim_find_counter(slot, c->sim->nr_counters, pe->ctrmask, &seen);
	if (idx < 0)
		return idx;

	slot[idx] = event;
	event->hw.idx = -1;
	pmusim_move_events(c, slot);
	return 0;
}

/**
 * pmusim_add() - pmu::add() of counters
 * @event:	The event
 * @flags:	PERF_EF_START to start it
 *
 * Context: Interrupts off, PMU disabled.
 * Return: 0, or -EAGAIN if there is no counter for it or a failure is injected.
 */
int pmusim_add(struct perf_event *event, int flags)
{
	struct pmusim_cpu *c = pmusim_this_cpu(event);
	int ret = pmusim_place(c, event);

	pmusim_log(event->pmu, event, PMUSIM_OP_ADD, flags, ret);
	if (ret)
		return ret;

	event->hw.state = PERF_HES_STOPPED | PERF_HES_UPTODATE;
	local64_set(&event->hw.prev_count, 0);
	if (to_pmusim_event(event)->source == PMUSIM_SOURCE_SWITCH)
		perf_sched_cb_inc(event->pmu);
	if (flags & PERF_EF_START)
		pmusim_start(event, PERF_EF_RELOAD);
	return 0;
}

/**
 * pmusim_del() - pmu::del() of counters
 * @event:	The event
 * @flags:	Not used
 *
 * Context: Interrupts off, PMU disabled.
 */
void pmusim_del(struct perf_event *event, int flags)
{
	struct pmusim_cpu *c = pmusim_this_cpu(event);
	bool pending = test_bit(event->hw.idx, &c->pending);

	pmusim_log(event->pmu, event, PMUSIM_OP_DEL, flags, 0);
	pmusim_stop(event, PERF_EF_UPDATE);
	/* No gate stops the event here, so none reports the overflow: keep it. */
	if (pending && local64_read(&event->hw.period_left) <= 0)
		to_pmusim_event(event)->owed = true;
	/* The timer is still queued if the event was stopped in an NMI. */
	hrtimer_try_to_cancel(&to_pmusim_event(event)->timer);
	if (to_pmusim_event(event)->source == PMUSIM_SOURCE_SWITCH)
		perf_sched_cb_dec(event->pmu);
	c->event[event->hw.idx] = NULL;
	local64_set(&c->reg[event->hw.idx], 0);
	event->hw.idx = -1;
	perf_event_update_userpage(event);
}

/**
 * pmusim_disable() - pmu::pmu_disable() of counters: overflows have to wait
 * @pmu:	The PMU
 *
 * Context: Preemption off, NMIs.
 */
void pmusim_disable(struct pmu *pmu)
{
	struct pmusim_cpu *c = this_cpu_ptr(to_pmusim(pmu)->cpu);

	WRITE_ONCE(c->disabled, true);
	/* An NMI on this CPU changes nothing from here on. */
	barrier();
}

/**
 * pmusim_enable() - pmu::pmu_enable() of counters
 * @pmu:	The PMU
 *
 * Context: Preemption off, NMIs.
 */
void pmusim_enable(struct pmu *pmu)
{
	struct pmusim_cpu *c = this_cpu_ptr(to_pmusim(pmu)->cpu);

	barrier();
	WRITE_ONCE(c->disabled, false);
	if (READ_ONCE(c->pending))
		pmusim_kick_pending(c);
}

/**
 * pmusim_start_txn() - pmu::start_txn() of counters
 * @pmu:	The PMU
 * @flags:	PERF_PMU_TXN_ADD or PERF_PMU_TXN_READ
 *
 * Context: Interrupts off.
 */
void pmusim_start_txn(struct pmu *pmu, unsigned int flags)
{
	struct pmusim_cpu *c = this_cpu_ptr(to_pmusim(pmu)->cpu);

	pmusim_log(pmu, NULL, PMUSIM_OP_START_TXN, flags, 0);
	WARN_ON_ONCE(c->txn);
	c->txn = flags;
	if (flags & PERF_PMU_TXN_ADD)
		perf_pmu_disable(pmu);
}

static void pmusim_end_txn(struct pmusim_cpu *c)
{
	unsigned int flags = c->txn;

	WARN_ON_ONCE(!flags);
	c->txn = 0;
	if (flags & PERF_PMU_TXN_ADD)
		perf_pmu_enable(&c->sim->pmu);
}

/**
 * pmusim_commit_txn() - pmu::commit_txn() of counters
 * @pmu:	The PMU
 *
 * Each pmu::add() has found a counter already, so only an injected failure is left.
 *
 * Context: Interrupts off.
 * Return: 0, or -EAGAIN if a failure is injected.
 */
int pmusim_commit_txn(struct pmu *pmu)
{
	struct pmusim_cpu *c = this_cpu_ptr(to_pmusim(pmu)->cpu);
	int ret = 0;

	if ((c->txn & PERF_PMU_TXN_ADD) &&
	    pmusim_should_fail(&c->sim->fail_commit))
		ret = -EAGAIN;

	pmusim_log(pmu, NULL, PMUSIM_OP_COMMIT_TXN, c->txn, ret);
	if (!ret)
		pmusim_end_txn(c);
	return ret;
}

/**
 * pmusim_cancel_txn() - pmu::cancel_txn() of counters
 * @pmu:	The PMU
 *
 * Context: Interrupts off.
 */
void pmusim_cancel_txn(struct pmu *pmu)
{
	struct pmusim_cpu *c = this_cpu_ptr(to_pmusim(pmu)->cpu);

	pmusim_log(pmu, NULL, PMUSIM_OP_CANCEL_TXN, c->txn, 0);
	pmusim_end_txn(c);
}

/**
 * pmusim_sched_task() - pmu::sched_task() of counters
 * @pmu_ctx:	The PMU's part of a context
 * @task:	The task that is scheduled in or out
 * @sched_in:	The task is scheduled in
 *
 * Context: Interrupts off, PMU disabled.
 */
void pmusim_sched_task(struct perf_event_pmu_context *pmu_ctx,
		       struct task_struct *task, bool sched_in)
{
	struct pmusim_cpu *c = this_cpu_ptr(to_pmusim(pmu_ctx->pmu)->cpu);
	unsigned long started = c->started;
	int i;

	if (!sched_in)
		return;
	for_each_set_bit(i, &started, PMUSIM_MAX_COUNTERS) {
		if (to_pmusim_event(c->event[i])->source == PMUSIM_SOURCE_SWITCH)
			pmusim_advance(c, i, 1);
	}
}

static bool pmusim_fits(struct perf_event **slot, struct perf_event *event,
			struct pmu *pmu)
{
	unsigned int nr = to_pmusim(pmu)->nr_counters;
	unsigned long seen = 0;
	int idx;

	if (event->pmu != pmu)
		return true;
	idx = pmusim_find_counter(slot, nr, to_pmusim_event(event)->ctrmask, &seen);
	if (idx < 0)
		return false;
	slot[idx] = event;
	return true;
}

/**
 * pmusim_validate_group() - Tell whether a group fits on otherwise unused
 * counters
 * @event:	A new event, not yet among the siblings of its leader
 *
 * Context: Process context, perf_event_context::mutex of the leader held.
 * Return: 0, or -EINVAL.
 */
int pmusim_validate_group(struct perf_event *event)
{
	struct perf_event *leader = event->group_leader, *sibling;
	struct perf_event *slot[PMUSIM_MAX_COUNTERS] = {};

	if (!pmusim_fits(slot, event, event->pmu))
		return -EINVAL;
	if (leader == event)
		return 0;
	if (!pmusim_fits(slot, leader, event->pmu))
		return -EINVAL;
	for_each_sibling_event(sibling, leader) {
		if (!pmusim_fits(slot, sibling, event->pmu))
			return -EINVAL;
	}
	return 0;
}
