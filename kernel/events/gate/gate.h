/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Performance event gates: their objects, and the states these can be in.
 *
 *   opened by a user                                 inherited by a task
 *
 *    trigger event ---perf_gate_link---.               trigger event
 *                                      v                 (has no links:
 *    target event ---------------> perf_gate              its parent's count)
 *      |        `--.                 .state
 *      |           `------------------^   ^             target event
 *      v                                  |               |      |
 *    perf_gate_member                     |.gate          |      v
 *      .account                   perf_gate_state <-------' perf_gate_account
 *                                  in perf_event_context::gate_states
 *
 * perf_gate is the definition of a window, one object whatever the number of
 * tasks and CPUs. perf_gate_state is the state that firings move, one object
 * for each context and gate; the state of the context in which the members were
 * opened is part of the gate. perf_gate_account splits the totals of one event.
 * It is allocated before its event can run, so scheduling never waits for
 * memory.
 *
 * States of an event as target, each of them with the operation that moves it:
 *
 *                 SET_*, JOIN_GATE, start_paused, fork from a MEMBER
 *       UNGATED ------------------------------------------------> MEMBER
 *          ^                                                      |    |
 *          |         CLEAR_GATE: opens it                         |    |
 *          |<-----------------------------------------------------'    |
 *          |                                                           |
 *          |  CLEAR_GATE, SET_*, JOIN_GATE          close, PMU migrates|
 *          `------------------------------ FROZEN <--------------------'
 *
 *   UNGATED	perf_event::gate_state is NULL; the account, if there is one, is
 *		open, and all further counts are inside.
 *   MEMBER	perf_event::gate_state is the state of the event's context. A
 *		member that its PMU runs is on perf_gate_state::active, and its
 *		account follows perf_gate_state::depth at once or by irq_work.
 *		A member that does not run follows when pmu::add() is due.
 *   FROZEN	perf_event::gate_state is NULL and the account may be closed. It
 *		stays as the gate was when the event left it.
 *
 * States of a gate: it begins with its first member and ends with its last
 * member, which removes its links. In between, the gate is open or closed in
 * each context separately, by perf_gate_state::depth. A member changes its gate
 * by JOIN_GATE only, if its former gate has no other member and no trigger.
 *
 * States of a context: it holds one state for each gate that has an inherited
 * event of this context as a member. The first such event creates the state and
 * the last one frees it. A context with a state is never exchanged with the
 * context of another task.
 *
 * Locking:
 *
 *   perf_event_context::mutex	of the opened events: links, members, everything
 *				of perf_gate but its state. All events that a
 *				gate has to do with are opened in one context.
 *   perf_event::child_mutex	inside of it: perf_event::gate of the event, and
 *				perf_event::gate_state of those inherited from
 *				it. fork(2) holds nothing but this one.
 *   perf_event_context::lock	inside of both: perf_event::gate_state and
 *				perf_event::gate_account of the events of the
 *				context, perf_event_context::gate_states,
 *				perf_gate_state::active and ::refs.
 *
 * Firings take no lock. They read links, states and accounts under RCU.
 *
 * Memory: an event pins at most one account, one gate if it was opened, and one
 * state for its context. A link belongs to the trigger, and the 64 that a gate
 * takes of each role and the 64 members that a trigger may move bound their
 * number. All of this memory is freed with the events.
 */
#ifndef _KERNEL_EVENTS_GATE_GATE_H
#define _KERNEL_EVENTS_GATE_GATE_H

#include <linux/atomic.h>
#include <linux/irq_work.h>
#include <linux/jump_label_ratelimit.h>
#include <linux/list.h>
#include <linux/perf_event.h>
#include <linux/rbtree_latch.h>
#include <linux/rcupdate.h>
#include <linux/refcount.h>
#include <linux/seqlock.h>

#include "../internal.h"
#include "split.h"

/*
 * Limit for each of three numbers: the members on one CPU that a firing may move, summed
 * over all gates of its trigger; the starters of one gate; and the stoppers of one gate.
 * It bounds the work that a firing does with interrupts off.
 */
#define PERF_GATE_MAX		64

/* Place from which a firing gets the count of an event, if reading it there is enough */
enum perf_gate_place {
	/* A read does not suffice: the event has to be stopped and started. */
	PERF_GATE_STEERED,
	/* perf_event::count is up to date in any context. */
	PERF_GATE_IN_CORE,
	/* pmu::read() fetches the count. */
	PERF_GATE_IN_PMU,
	/* As the two values above, for an event whose windows are recorded. */
	PERF_GATE_WATCHED_IN_CORE,
	PERF_GATE_WATCHED_IN_PMU,
};

/**
 * struct perf_gate_account - Split of an event's totals by its windows
 *
 * The account is written on the CPU of its event, or under
 * perf_event_context::lock while the event does not run.
 */
struct perf_gate_account {
	/** @latch: gives readers in any context a consistent @split */
	seqcount_latch_t	latch;
	/** @place: enum perf_gate_place */
	u8			place:3;
	/** @by_core: perf_event_is_swevent() of the event, constant */
	u8			by_core:1;
	/** @aux: the event writes to an AUX area, constant */
	u8			aux:1;
	/** @records: pmu::flush() hands over samples of the event, constant */
	u8			records:1;
	union {
		/**
		 * @aux_request: with @aux, attr.aux_pause of another event or
		 * attr.aux_start_paused of this one has paused the event
		 */
		bool		aux_request;
		/**
		 * @late: without @aux, irq_work has to deliver an overflow of a window
		 * that has ended
		 */
		bool		late;
	};
	/** @stopped: the PMU of a steered event has stopped or paused it */
	bool			stopped;
	/** @steering: perf_gate_steer() is at work on the CPU of the event */
	bool			steering;
	/** @split: the two copies of the split for @latch */
	struct perf_gate_split	split[2];
	/** @work: settles and steers the event if a firing could not */
	struct irq_work		work;
	/** @active: entry of perf_gate_state::active while the event runs */
	struct hlist_node	active;
	/** @event: the event */
	struct perf_event	*event;
	/** @freq_time: time inside of windows when a tick last set the period, in ns */
	u64			freq_time;
	/** @opened: number of openings of the gates that the event has left */
	u64			opened;
};

/**
 * struct perf_gate_member - The account of an event that was opened by a user
 */
struct perf_gate_member {
	/** @account: perf_event::gate_account */
	struct perf_gate_account account;
	/** @node: entry of perf_gate::members */
	struct list_head	node;
	/** @child_running: time inside of inherited events that have ended, in ns */
	atomic64_t		child_running;
	/** @child_opened: openings seen by inherited events that have ended */
	atomic64_t		child_opened;
	/** @child_total: counts of inherited events that are gone, inside and outside */
	atomic64_t		child_total;
};

/**
 * struct perf_gate_state - State of a gate in one context
 */
struct perf_gate_state {
	/** @depth: nesting depth, 0 if closed; above 1 only with attr.gate_nest */
	atomic_t		depth;
	/**
	 * @refs: number of events that have, or will get, this perf_event::gate_state; not
	 * used in perf_gate::state
	 */
	unsigned int		refs;
	/** @nr_opened: number of times that @depth has left 0 */
	atomic64_t		nr_opened;
	/** @active: accounts of the members that are on their PMU; read under RCU */
	struct hlist_head	active;
	/** @gate: the gate; a reference in a context of inherited events */
	struct perf_gate	*gate;
	/** @node: entry of perf_event_context::gate_states */
	struct latch_tree_node	node;
	/** @late_task: task of the last late overflow, to be compared with others only */
	const void		*late_task;
	/** @late_ip: address at which its user mode went on after the window, or 0 */
	unsigned long		late_ip;
	/** @guessed: an ioctl created the state with a depth that fork(2) may correct */
	bool			guessed;
	/** @rcu: delays the release past firings that use the state */
	struct rcu_head		rcu;
};

/**
 * struct perf_gate - The definition of a window
 */
struct perf_gate {
	/** @state: state of the context in which the members were opened */
	struct perf_gate_state	state;
	/** @id: perf_event::id of the first member, for tracing */
	u64			id;
	/** @refs: references of members, links, and states of other contexts */
	refcount_t		refs;
	/** @load: maximum number of members that can run on one CPU */
	unsigned int		load;
	/** @nr_starters: number of links with PERF_GATE_STARTER; read by fork(2) */
	u8			nr_starters;
	/** @nr_stoppers: number of links with PERF_GATE_STOPPER */
	u8			nr_stoppers;
	/** @nest: attr.gate_nest of the members */
	bool			nest;
	/** @links: links of starters and stoppers */
	struct list_head	links;
	/** @members: perf_gate_member::node of the opened events, sorted by CPU */
	struct list_head	members;
	/** @rcu: delays the release past firings that use @state */
	struct rcu_head		rcu;
};

/**
 * struct perf_gate_link - Link of a starter or stopper to a gate
 *
 * A link holds no reference to its trigger, because the trigger removes its
 * links when it ends.
 */
struct perf_gate_link {
	/** @node: entry of perf_event::gate_links of the trigger; RCU */
	struct hlist_node	node;
	union {
		/** @gate_node: entry of perf_gate::links */
		struct list_head	gate_node;
		/** @rcu: delays the release past firings that use the link */
		struct rcu_head		rcu;
	};
	/** @gate: the gate, a reference */
	struct perf_gate	*gate;
	/** @trigger: the event that fires */
	struct perf_event	*trigger;
	/** @act: perf_gate_make_act() of @role */
	unsigned long		act;
	/** @role: PERF_GATE_STARTER, PERF_GATE_STOPPER or both */
	unsigned int		role;
};

/*
 * Compute the running time of an event at @time. No member of a disabled group is active,
 * so the state of the event itself suffices.
 */
static __always_inline u64 perf_gate_running(struct perf_event *event, u64 time)
{
	u64 running = event->total_time_running;

	if (event->state == PERF_EVENT_STATE_ACTIVE)
		running += time - event->tstamp;

	return running;
}

/* Tell whether the account of an event must be open. */
static __always_inline bool perf_gate_wants_open(struct perf_gate_account *account)
{
	struct perf_gate_state *state = READ_ONCE(account->event->gate_state);

	return state ? atomic_read(&state->depth) : account->split[0].open;
}

/*
 * Put a split in force. The caller defers firings, and runs on the CPU of the event, or
 * holds the lock of its context while the event does not run. Inline, because the call
 * would cost a firing as much as the body of this function does.
 */
static __always_inline void
perf_gate_publish(struct perf_gate_account *account, const struct perf_gate_split *split)
{
	write_seqcount_latch_begin(&account->latch);
	account->split[0] = *split;
	write_seqcount_latch(&account->latch);
	account->split[1] = *split;
	write_seqcount_latch_end(&account->latch);
}

/* Open an account that is closed, or close one that is open. */
static __always_inline void
perf_gate_flip_account(struct perf_gate_account *account, struct perf_event *event, u64 time)
{
	struct perf_gate_split split = perf_gate_flip(&account->split[0],
						      local64_read(&event->count),
						      perf_gate_running(event, time));

	perf_gate_publish(account, &split);
}

/* Get the member that contains the account of an opened event. */
static inline struct perf_gate_member *perf_gate_member(struct perf_event *event)
{
	return container_of(event->gate_account, struct perf_gate_member, account);
}

/*
 * Tell whether each sample of an event without AUX area comes with an overflow of its own.
 * A BPF program writes the samples of PERF_COUNT_SW_BPF_OUTPUT, which never overflows.
 */
static inline bool perf_gate_can_overflow(struct perf_event *event)
{
	return !(event->event_caps & PERF_EV_CAP_NO_GATE) && !event->attr.aux_output &&
	       !(event->attr.type == PERF_TYPE_SOFTWARE &&
		 event->attr.config == PERF_COUNT_SW_BPF_OUTPUT);
}

/* fire.c */
/* Tell whether the event is on this CPU and its PMU is enabled. */
static __always_inline bool perf_gate_on_pmu(struct perf_event *event)
{
	lockdep_assert_irqs_disabled();

	/*
	 * Between the update of ->oncpu and the end of pmu::add() or pmu::del() the
	 * event has no counter. The PMU is disabled for that section.
	 */
	return READ_ONCE(event->oncpu) == smp_processor_id() &&
	       !*this_cpu_ptr(event->pmu->pmu_disable_count);
}

/*
 * Tell whether pmu::read() is allowed: the event is on its PMU, and no section that
 * defers is interrupted. Such a section covers pmu::pmu_enable() as well, where some
 * drivers assign counters.
 */
static inline bool perf_gate_readable(struct perf_event *event)
{
	return perf_gate_on_pmu(event) && !this_cpu_read(perf_gate_deferring);
}

void perf_gate_trace_move(struct perf_event *trigger, struct perf_gate *gate, bool open);

/* settle.c */
void perf_gate_settle_event(struct perf_event *event);
void perf_gate_settle_work(struct irq_work *work);

/* late.c */
DECLARE_PER_CPU(struct perf_event *, perf_gate_late_event);

void perf_gate_set_late(struct perf_gate_account *account);
void perf_gate_deliver_late(struct perf_gate_account *account);
void perf_gate_flush(struct perf_gate_account *account);

/*
 * Tell whether a closed gate makes the driver of the event miss an overflow. The sample of
 * an event with records is its record, or it has none.
 */
static __always_inline bool perf_gate_may_be_late(struct perf_gate_account *account)
{
	return account->place == PERF_GATE_STEERED && !account->by_core && !account->aux &&
	       !account->records;
}

/*
 * The account is about to get the state @open, and pmu::read() has brought the event up to
 * date. Check whether an overflow waits for its interrupt.
 */
static __always_inline void
perf_gate_check_late(struct perf_gate_account *account, struct perf_event *event, bool open)
{
	if (!perf_gate_may_be_late(account) || local64_read(&event->hw.period_left) > 0 ||
	    event->hw.state & PERF_HES_STOPPED)
		return;

	/*
	 * An event that was not stopped meanwhile reports the overflow itself once its gate
	 * is open.
	 */
	if (open)
		account->late = false;
	else
		perf_gate_set_late(account);
}

/* steer.c */
/* Place where a gate moves, as seen by the PMU driver of the member. */
enum perf_gate_context {
	/* The driver is not at work on this CPU. */
	PERF_GATE_OUTSIDE,
	/* The driver reports an overflow and expects events to be stopped and started. */
	PERF_GATE_IN_OVERFLOW,
	/* The trigger may have interrupted the driver: read the counter at most, do not stop it. */
	PERF_GATE_ANYWHERE,
};

void perf_gate_steer(struct perf_gate_account *account, enum perf_gate_context context);
int perf_gate_steer_add(struct perf_gate_account *account);
void perf_gate_steer_init(struct perf_gate_account *account);

/* account.c */
bool perf_gate_can_filter(struct perf_event *event);
void perf_gate_get_key(void);
void perf_gate_put_key(void);
void *perf_gate_zalloc(size_t size);
void perf_gate_init_account(struct perf_gate_account *account, struct perf_event *event,
			    bool open);
struct perf_gate_account *perf_gate_alloc_account(struct perf_event *event, bool open);
struct perf_gate_member *perf_gate_alloc_member(void);
void perf_gate_free_member(struct perf_gate_member *member);

/* state.c */
/**
 * struct perf_gate_change - A change of the gate that an event is a member of
 */
struct perf_gate_change {
	/** @node: entry of the changes that perf_gate_prepare_children() makes */
	struct hlist_node	node;
	/** @event: the event */
	struct perf_event	*event;
	/** @state: state to enter, a reference that goes to the event, or NULL */
	struct perf_gate_state	*state;
	/** @account: account for an event that has none */
	struct perf_gate_account *account;
	/** @left: state that the event has left, if that has to be freed */
	struct perf_gate_state	*left;
	/** @open: if the event enters no state, open its account, unless the event is dead */
	bool			open;
	/** @joins: the gate has other members, whose openings count for the event */
	bool			joins;
};

void perf_gate_call(struct perf_event *event,
		    void (*func)(struct perf_event *event, void *data), void *data);
struct perf_gate_state *perf_gate_get_state(struct perf_event_context *ctx,
					    struct perf_gate *gate, int depth, bool guessed);
void perf_gate_drop_state(struct perf_event_context *ctx, struct perf_gate_state *state);
void perf_gate_change(struct perf_gate_change *change);
void perf_gate_set_all(struct perf_gate *gate, bool open);

static __always_inline bool
perf_gate_state_less(struct latch_tree_node *a, struct latch_tree_node *b)
{
	return container_of(a, struct perf_gate_state, node)->gate <
	       container_of(b, struct perf_gate_state, node)->gate;
}

static __always_inline int perf_gate_state_comp(void *key, struct latch_tree_node *node)
{
	struct perf_gate *gate = container_of(node, struct perf_gate_state, node)->gate;

	return (void *)gate == key ? 0 : key < (void *)gate ? -1 : 1;
}

static const struct latch_tree_ops perf_gate_state_ops = {
	.less	= perf_gate_state_less,
	.comp	= perf_gate_state_comp,
};

/* Find the state of a gate in a context of inherited events, or NULL; under RCU. */
static __always_inline struct perf_gate_state *
perf_gate_find_state(struct perf_event_context *ctx, struct perf_gate *gate)
{
	struct latch_tree_node *node;

	node = latch_tree_find(gate, &ctx->gate_states, &perf_gate_state_ops);

	return node ? container_of(node, struct perf_gate_state, node) : NULL;
}

/* life.c */
struct perf_gate *perf_gate_alloc(struct perf_event *event, int depth);
void perf_gate_put(struct perf_gate *gate);
unsigned int perf_gate_compute_load(struct perf_gate *gate, struct perf_event *more);
int perf_gate_enter(struct perf_event *event, struct perf_gate *gate, int depth,
		    struct perf_gate_member **member);
void perf_gate_exit(struct perf_event *event, bool open);

/* link.c */
void perf_gate_unlink(struct perf_gate_link *link, unsigned int roles);
int perf_gate_link(struct perf_event *event, struct perf_event *other, unsigned int role);
void perf_gate_unlink_trigger(struct perf_event *trigger, unsigned int role);

#endif /* _KERNEL_EVENTS_GATE_GATE_H */
