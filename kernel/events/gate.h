/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _KERNEL_EVENTS_GATE_H
#define _KERNEL_EVENTS_GATE_H

#include <linux/atomic.h>
#include <linux/bits.h>
#include <linux/irq_work.h>
#include <linux/jump_label_ratelimit.h>
#include <linux/list.h>
#include <linux/llist.h>
#include <linux/mutex.h>
#include <linux/perf_event.h>
#include <linux/rcupdate.h>
#include <linux/refcount.h>
#include <linux/seqlock.h>

/*
 * What a trigger is to a target. One event that is both starter and stopper
 * of the same target toggles its gate.
 */
#define PERF_GATE_STARTER	1U
#define PERF_GATE_STOPPER	2U
#define PERF_GATE_TOGGLE	(PERF_GATE_STARTER | PERF_GATE_STOPPER)

/*
 * A stopper acts before the work that its trigger does at an overflow, a
 * starter after it, so that this work stays outside of the window.
 */
#define PERF_GATE_BEFORE	2UL
#define PERF_GATE_AFTER		4UL

/* What it then does to the gate, in one word with one of these. */
#define PERF_GATE_OPENS		1UL
#define PERF_GATE_TOGGLES	8UL
#define PERF_GATE_NESTS		16UL

/* Bounds the targets of one firing on its CPU. Interrupts are off meanwhile. */
#define PERF_GATE_MAX_LINKS	64

struct perf_event_context;

/**
 * struct perf_gate_acct - What the windows of a gate have let through
 * @count:	Open: the part of the event's count that lies outside of the
 *		windows. Closed: the part that lies inside.
 * @running:	The same for the event's running time in ns
 * @open:	Which of the two it is
 *
 * A flip subtracts both parts from the totals, so opening and closing are the
 * same operation.
 */
struct perf_gate_acct {
	u64			count;
	u64			running;
	bool			open;
};

/**
 * struct perf_gate_members - The events that share a gate
 * @first:	The one that is in it for the longest time and speaks for all
 * @all:	All of them, in the order in which they came
 * @rcu:	A firing may still walk over it
 * @any:	Those that may run on any CPU, by perf_gate::run; RCU
 * @cpu:	Those of each CPU; RCU
 */
struct perf_gate_members {
	struct perf_event	*first;
	struct list_head	all;
	struct rcu_head		rcu;
	struct hlist_head	any;
	struct hlist_head	cpu[];
};

/* Where a firing finds the count of a target, if it has to do no more than to read it. */
enum perf_gate_found {
	PERF_GATE_FOUND_ELSEWHERE,
	PERF_GATE_FOUND_IN_CORE,
	PERF_GATE_FOUND_IN_PMU,
};

/**
 * struct perf_gate - An event's part in gating, as trigger, target or both
 * @event:	The event, which may be gone if others have joined its gate
 * @links:	As trigger: its links, by perf_gate_link::node; RCU
 * @nr_links:	As trigger: the number of @links
 * @nr_targets:	As trigger: its targets, those that share a gate as @load of it
 * @starter:	As target: the link of its starter
 * @stopper:	As target: the link of its stopper
 * @nest:	As target: attr.gate_nest
 * @by_core:	As target: perf_event_is_swevent(), so that perf_event::count is
 *		up to date in any context
 * @stops:	As target: its PMU is stopped while the gate is closed, which spares
 *		a sampling event its overflows and an AUX area event its trace
 * @found:	As target: where its count is, or PERF_GATE_FOUND_ELSEWHERE if it
 *		@stops or is @spread
 * @spread: As target: its triggers fire on CPUs where its event is not, or it has
 *		@members
 * @aux:	As target: it is an AUX area event
 * @aux_request: As target: it was paused by attr.aux_pause or aux_start_paused
 * @stopped:	As target: the state of the PMU that @stops is about
 * @freq_time:	As target: time inside at the last timer tick that adapted the
 *		period
 * @steering:	As target: perf_gate_steer() is at work on the event's CPU
 * @pins:	Counted in perf_event_context::nr_no_switch_fast, because state of
 *		this task must not go on to another one with its context
 * @linked:	Of an inherited event: fork(2) has linked its family
 * @common:	It has no event, and is the first part of a struct perf_gate_common
 * @built_in:	It is in the memory of one of those
 * @depth:	As target: the state that the triggers ask for; open if not 0,
 *		and above 1 only with attr.gate_nest; of a member, a copy
 * @latch:	As target: lets readers in any context see a whole @acct
 * @acct:	As target: the state that is in force
 * @nr_opened:	As target: how often @depth left 0
 * @child_running: As target: time inside of the windows of inherited events
 *		that are gone
 * @child_opened: As target: the sum of their @nr_opened
 * @work:	As target: settles where the trigger could not
 * @state:	The gate that has been joined, or this one
 * @members:	Those who share this gate, or NULL
 * @load:	The most members that one CPU may have to settle
 * @refs:	The event and the members
 * @round:	The last walk over all gates of a family that came by here
 * @member:	In perf_gate_members::all of @state
 * @rcu:	In its place, when it is in no list: a firing may still walk over @run
 * @spare:	In its place, when no event has got it yet
 * @run:	In one of the other two lists
 * @heir:	Gate of the inherited event in the context at hand
 *
 * Links, members and what tells of them belong to perf_gate_mutex(): @links,
 * @nr_links, @nr_targets, @starter, @stopper, @state, @members, @load, @round, @heir,
 * @linked.
 */
struct perf_gate {
	struct perf_event	*event;
	struct list_head	links;
	unsigned int		nr_links;
	unsigned int		nr_targets;
	struct perf_gate_link	*starter;
	struct perf_gate_link	*stopper;
	bool			nest;
	bool			by_core;
	bool			stops;
	enum perf_gate_found	found;
	bool			spread;
	bool			aux;
	bool			aux_request;
	bool			stopped;
	bool			steering;
	bool			pins;
	bool			linked;
	bool			common;
	bool			built_in;
	atomic_t		depth;
	seqcount_latch_t	latch;
	struct perf_gate_acct	acct[2];
	u64			freq_time;
	atomic64_t		nr_opened;
	atomic64_t		child_running;
	atomic64_t		child_opened;
	struct irq_work		work;
	struct perf_gate	*state;
	struct perf_gate_members *members;
	unsigned int		load;
	refcount_t		refs;
	u64			round;
	union {
		struct list_head	member;
		struct rcu_head		rcu;
		struct llist_node	spare;
	};
	struct hlist_node	run;
	struct perf_gate	*heir;
};

/**
 * struct perf_gate_common - The gate that inherited events of a task share
 * @gate:	What moves, without an account
 * @pattern:	The gate that their parents share
 * @next:	In perf_event_context::gates
 * @spares:	Gates for those who come to run, by perf_gate::spare
 * @nr_spares:	Their number
 * @nr_wanted:	What that should be: what may come to run on two CPUs
 * @refill:	Makes it so
 * @members:	Those of @gate that have gates of their own
 *
 * It is the perf_event::common_gate of those who share it until they run, and stays for
 * as long as its context. perf_event_context::lock is for who is in
 * perf_gate_members::cpu, for perf_event::common_gate, and for who takes of @spares.
 */
struct perf_gate_common {
	struct perf_gate	gate;
	struct perf_gate	*pattern;
	struct perf_gate_common	*next;
	struct llist_head	spares;
	atomic_t		nr_spares;
	int			nr_wanted;
	struct irq_work		refill;
	struct perf_gate_members members;
};

/**
 * struct perf_gate_link - A trigger's hold on a target
 * @node:	In perf_gate::links of the trigger
 * @trigger:	The gate of the event that fires
 * @target:	The gate that moves
 * @role:	PERF_GATE_STARTER, PERF_GATE_STOPPER or both
 * @act:	perf_gate_act() of @role
 * @rcu:	A firing may still walk over a link that is gone
 *
 * A link holds no reference on either event. It goes when the first of them
 * is freed.
 */
struct perf_gate_link {
	struct list_head	node;
	struct perf_gate	*trigger;
	struct perf_gate	*target;
	unsigned int		role;
	unsigned long		act;
	struct rcu_head		rcu;
};

/**
 * perf_gate_act() - What a firing does to the target of a link
 * @role:	Role of the trigger
 * @nest:	attr.gate_nest of the target
 *
 * Context: Any, without side effects.
 * Return: PERF_GATE_BEFORE or PERF_GATE_AFTER, with flags for perf_gate_next().
 */
static inline unsigned long perf_gate_act(unsigned int role, bool nest)
{
	return (role == PERF_GATE_STOPPER ? PERF_GATE_BEFORE : PERF_GATE_AFTER) |
	       (role == PERF_GATE_STARTER ? PERF_GATE_OPENS : 0) |
	       (role == PERF_GATE_TOGGLE ? PERF_GATE_TOGGLES : 0) |
	       (nest ? PERF_GATE_NESTS : 0);
}

/**
 * perf_gate_next() - The depth of a gate after a trigger fired
 * @depth:	Depth before it fired, 0 for a closed gate
 * @act:	perf_gate_link::act
 *
 * Context: Any, without side effects.
 * Return: The new depth.
 */
static __always_inline int perf_gate_next(int depth, unsigned long act)
{
	if (!(act & PERF_GATE_NESTS))
		return act & PERF_GATE_OPENS;

	if (act & PERF_GATE_OPENS)
		return depth < INT_MAX ? depth + 1 : depth;

	return depth ? depth - 1 : 0;
}

/**
 * perf_gate_flip() - The account of a gate that moves to its other state
 * @acct:	Account before the move
 * @count:	Count of the event at the move
 * @running:	Running time of the event at the move in ns
 *
 * Context: Any, without side effects.
 * Return: The account after the move.
 */
static __always_inline struct perf_gate_acct
perf_gate_flip(const struct perf_gate_acct *acct, u64 count, u64 running)
{
	return (struct perf_gate_acct) {
		.count		= count - acct->count,
		.running	= running - acct->running,
		.open		= !acct->open,
	};
}

/**
 * perf_gate_inside() - The part of a total that lies inside of the windows
 * @acct:	Account of the gate
 * @total:	Total of the event
 * @part:	The member of @acct that belongs to @total
 *
 * Context: Any, without side effects.
 * Return: What the event's user is to see.
 */
static inline u64
perf_gate_inside(const struct perf_gate_acct *acct, u64 total, u64 part)
{
	return acct->open ? total - part : part;
}

/* A BPF program writes its samples, and nothing else happens to it. */
static inline bool perf_gate_is_bpf_output(struct perf_event *event)
{
	return event->attr.type == PERF_TYPE_SOFTWARE &&
	       event->attr.config == PERF_COUNT_SW_BPF_OUTPUT;
}

#ifdef CONFIG_PERF_EVENTS_GATE

extern struct static_key_false_deferred perf_gate_key;

/* An event whose group leader is off is not active, so its own state will do. */
static __always_inline u64 perf_gate_running(struct perf_event *event, u64 time)
{
	u64 running = event->total_time_running;

	if (event->state == PERF_EVENT_STATE_ACTIVE)
		running += time - event->tstamp;

	return running;
}

void __perf_gate_fire(struct perf_event *event, unsigned long pass);
void __perf_gate_fire_throttled(struct perf_event *event);
int __perf_gate_pmu_add(struct perf_event *event);
void perf_gate_pmu_start(struct perf_event *event, int flags);
bool __perf_gate_aux_pause(struct perf_event *event, bool pause);
void __perf_gate_reset(struct perf_event *event);
bool __perf_gate_catch_up(struct perf_event *event);
void __perf_gate_pmu_enable(struct pmu *pmu);
void __perf_gate_pmu_read(struct perf_event *event);
void __perf_gate_call_held(void (*func)(void *), void *data);
bool perf_gate_is_dead(struct perf_event *event);
void perf_gate_settle_any(struct perf_gate *gate);
void perf_gate_set(struct perf_event *event, bool open);
void perf_gate_work(struct irq_work *work);

/* gate_read.c */
u64 __perf_gate_count(struct perf_event *event);
u64 __perf_gate_tick_span(struct perf_event *event);
int perf_gate_add_values(struct perf_event *event, u64 read_format, u64 running,
			 bool self, u64 *values);
int perf_gate_values(struct perf_event *event, u64 read_format, u64 running,
		     bool self, u64 *values);
int perf_gate_read_values(struct perf_event *event, u64 read_format, u64 running,
			  u64 *values);

/* gate_alloc.c */
struct perf_gate *perf_gate_alloc(struct perf_event *event);
struct perf_gate *perf_gate_alloc_nokey(struct perf_event *event, int depth);
void perf_gate_setup(struct perf_gate *gate, struct perf_event *event, int depth);
void perf_gate_free(struct perf_gate *gate);
bool perf_gate_can_filter(struct perf_event *event);
int __perf_gate_init(struct perf_event *event);
void __perf_gate_release(struct perf_event *event);

/* gate_link.c */
struct mutex *perf_gate_mutex(struct perf_event *event);
void __perf_gate_sever(struct perf_event *event, bool gone);
void perf_gate_make_link(struct perf_gate *trigger, struct perf_gate *target,
			 unsigned int role, struct perf_gate_link **spare);
void perf_gate_attach(struct perf_event *event, struct perf_gate **part);
bool perf_gate_same_scope(struct perf_event *trigger, struct perf_event *target);
int perf_gate_check_members(struct perf_event *event, struct perf_event *other);
void perf_gate_unlink(struct perf_gate_link *link, unsigned int roles);
void perf_gate_unlink_target(struct perf_gate *target);
unsigned int perf_gate_unlink_trigger(struct perf_gate *trigger,
				      unsigned int role,
				      struct perf_gate **targets);
long perf_gate_ioctl(struct perf_event *event, unsigned int cmd,
		     unsigned long arg);

/* gate_inherit.c */
int __perf_gate_inherit(struct perf_event *child, struct perf_event *source);
int __perf_gate_inherit_links(struct perf_event_context *ctx);
void __perf_gate_pin(struct perf_event *event);
void __perf_gate_unpin(struct perf_event *event);
void __perf_gate_sync_child(struct perf_event *child);
void perf_gate_pin(struct perf_event *event);
int perf_gate_ensure(struct perf_event *child);
int perf_gate_ensure_own(struct perf_event *child);
int perf_gate_prepare_children(struct perf_event *trigger,
			       struct perf_event *target,
			       struct list_head *spares);
void perf_gate_free_spares(struct list_head *spares);
void perf_gate_link_children(struct list_head *spares, unsigned int role);
void perf_gate_set_family(struct perf_event *target, bool open);

/* gate_share.c */
int perf_gate_share(struct perf_gate *gate);
void perf_gate_put(struct perf_gate *gate);
void perf_gate_leave(struct perf_event *event, bool open);
void perf_gate_dissolve(struct perf_gate *gate, bool open);
void perf_gate_forsake(struct perf_gate *member);
int perf_gate_inherit_member(struct perf_event *event);
long perf_gate_join_fd(struct perf_event *event, int fd);

/* gate_task.c */
struct perf_gate *perf_gate_get_common(struct perf_event_context *ctx,
				       struct perf_gate *pattern,
				       int depth, bool fresh);
int perf_gate_share_common(struct perf_event *event, struct perf_gate *pattern, int depth);
struct perf_gate *perf_gate_first_run(struct perf_event *event);
int perf_gate_adopt(struct perf_event *event);
void perf_gate_give_back(struct perf_event *event, bool open);
void perf_gate_free_common(struct perf_gate *gate);
void __perf_gate_unpin_context(struct perf_event_context *ctx);
void __perf_gate_free_context(struct perf_event_context *ctx);

static inline struct perf_gate_common *perf_gate_common(struct perf_gate *gate)
{
	return container_of(gate, struct perf_gate_common, gate);
}

/* The gate that events of @ctx share whose parents share @pattern, or NULL. */
static __always_inline struct perf_gate *
perf_gate_find_common(struct perf_event_context *ctx, struct perf_gate *pattern)
{
	struct perf_gate_common *common;

	/* Pairs with perf_gate_get_common(). */
	for (common = smp_load_acquire(&ctx->gates); common; common = common->next) {
		if (common->pattern == pattern)
			return &common->gate;
	}

	return NULL;
}

/*
 * What @event's triggers move, or NULL: the state of its gate, or if it has none of its
 * own the one that it shares. For the latter, the answer lasts under
 * perf_event_context::lock or perf_event::child_mutex of its parent.
 */
static inline struct perf_gate *perf_gate_state(struct perf_event *event)
{
	struct perf_gate *gate = READ_ONCE(event->gate);

	return gate ? READ_ONCE(gate->state) : READ_ONCE(event->common_gate);
}

/* Who speaks for a gate. NULL if nobody is left. */
static inline struct perf_event *perf_gate_face(struct perf_gate *gate)
{
	struct perf_gate_members *members;

	if (gate->common)
		gate = perf_gate_common(gate)->pattern;
	members = READ_ONCE(gate->members);

	return members ? READ_ONCE(members->first) : gate->event;
}

static inline struct hlist_head *
perf_gate_run_list(struct perf_gate_members *members, struct perf_event *event)
{
	return event->cpu < 0 ? &members->any : &members->cpu[event->cpu];
}

/* Copy the depth that @gate shares. An NMI may move it meanwhile. */
static __always_inline void perf_gate_follow(struct perf_gate *gate)
{
	struct perf_gate *state = READ_ONCE(gate->state);
	int depth;

	if (state == gate)
		return;

	do {
		depth = atomic_read(&state->depth);
		atomic_set(&gate->depth, depth);
		barrier();
	} while (depth != atomic_read(&state->depth));
}

/*
 * Where an NMI can fire a trigger, on x86, this does not turn true while interrupts
 * are off here: patching the code waits for all CPUs.
 */
static __always_inline bool perf_gates_exist(void)
{
	return static_branch_unlikely(&perf_gate_key.key);
}

/* The gate of @event if it has one, at the cost of a NOP while nobody gates. */
static __always_inline struct perf_gate *perf_gate_of(struct perf_event *event)
{
	if (!perf_gates_exist())
		return NULL;

	return READ_ONCE(event->gate);
}

/* An occurrence of @event, or a part of it as PERF_GATE_{BEFORE,AFTER}. */
static __always_inline void
perf_gate_fire(struct perf_event *event, unsigned long pass)
{
	struct perf_gate *gate = perf_gate_of(event);

	if (gate && READ_ONCE(gate->nr_links))
		__perf_gate_fire(event, pass);
}

/* It did not get as far as asking a BPF program, so with one it does not fire. */
static __always_inline void perf_gate_fire_throttled(struct perf_event *event)
{
	if (perf_gates_exist())
		__perf_gate_fire_throttled(event);
}

/* The overflows of @event are to be dropped. */
static __always_inline bool perf_gate_closed(struct perf_event *event)
{
	struct perf_gate *gate = perf_gate_of(event);

	return gate && !atomic_read(&gate->depth);
}

/* The user page of @event must not tell which counter it has. */
static __always_inline bool perf_gate_hides_index(struct perf_event *event)
{
	struct perf_gate *gate = perf_gate_of(event);

	return gate && !READ_ONCE(gate->acct[0].open);
}

/* pmu::add() of @event. */
static __always_inline int perf_gate_pmu_add(struct perf_event *event)
{
	if (perf_gates_exist() && (READ_ONCE(event->gate) || event->common_gate))
		return __perf_gate_pmu_add(event);

	return event->pmu->add(event, PERF_EF_START);
}

/* @event, which does not run, is to count all the same: its CPU has the context. */
static __always_inline bool perf_gate_catch_up(struct perf_event *event)
{
	return !perf_gates_exist() || __perf_gate_catch_up(event);
}

/* For how many ns @event has counted since the last tick, 0 if it is too early to say. */
static __always_inline u64 perf_gate_tick_span(struct perf_event *event)
{
	return perf_gate_of(event) ? __perf_gate_tick_span(event) : TICK_NSEC;
}

/* True if the gate of @event takes care of it. */
static __always_inline bool
perf_gate_aux_pause(struct perf_event *event, bool pause)
{
	return perf_gates_exist() &&
	       __perf_gate_aux_pause(event, pause);
}

/* @pmu is to run, and a firing must not take it for running before it does. */
static __always_inline void perf_gate_pmu_enable(struct pmu *pmu)
{
	if (perf_gates_exist())
		__perf_gate_pmu_enable(pmu);
	else
		pmu->pmu_enable(pmu);
}

/* Bring the count of @event, which is active, up to date. */
static __always_inline void perf_gate_pmu_read(struct perf_event *event)
{
	if (perf_gates_exist())
		__perf_gate_pmu_read(event);
	else
		event->pmu->read(event);
}

/* Call @func, which has the times of @event in motion. */
static __always_inline void perf_gate_call_moving(struct perf_event *event,
						  void (*func)(void *))
{
	if (perf_gate_of(event))
		__perf_gate_call_held(func, event);
	else
		func(event);
}

/* Call @func, which has the events of this CPU in motion. */
static __always_inline void perf_gate_call_held(void (*func)(void *), void *data)
{
	if (perf_gates_exist())
		__perf_gate_call_held(func, data);
	else
		func(data);
}

static __always_inline u64 perf_gate_count(struct perf_event *event)
{
	u64 count = local64_read(&event->count);

	if (!perf_gates_exist())
		return count;

	/* All of it is inside if there was no gate by then: perf_gate_take(). */
	smp_rmb();

	return READ_ONCE(event->gate) ? __perf_gate_count(event) : count;
}

static __always_inline bool perf_gate_reset(struct perf_event *event)
{
	if (!perf_gate_of(event))
		return false;

	__perf_gate_reset(event);
	return true;
}

/* @event is new. That of an inherited one comes with perf_gate_inherit(). */
static inline int perf_gate_init(struct perf_event *event)
{
	return event->attr.start_paused && !event->parent ? __perf_gate_init(event) : 0;
}

static inline void perf_gate_init_context(struct perf_event_context *ctx)
{
	mutex_init(&ctx->gate_mutex);
}

/* Its events are gone, and nobody walks over their gates any more. */
static inline void perf_gate_free_context(struct perf_event_context *ctx)
{
	if (ctx->gates)
		__perf_gate_free_context(ctx);
}

/* Not behind the static key: it is this that lets go of it. */
static inline void perf_gate_release(struct perf_event *event)
{
	if (event->gate)
		__perf_gate_release(event);
}

/* @event is closed, or else goes to another CPU. */
static inline void perf_gate_sever(struct perf_event *event, bool gone)
{
	if (event->gate)
		__perf_gate_sever(event, gone);
}

static inline void perf_gate_free_rcu(struct perf_event *event)
{
	if (event->gate)
		perf_gate_put(event->gate);
}

/* @source is the event of the parent task that @child is the copy of. */
static inline int perf_gate_inherit(struct perf_event *child,
				    struct perf_event *source)
{
	return perf_gate_of(child->parent) ? __perf_gate_inherit(child, source) : 0;
}

/* All events of the new context @ctx are there. */
static inline int perf_gate_inherit_links(struct perf_event_context *ctx)
{
	if (!ctx || !perf_gates_exist())
		return 0;

	return __perf_gate_inherit_links(ctx);
}

/* @event, which is in no context's lists yet, comes into its context. */
static inline void perf_gate_list_add(struct perf_event *event)
{
	if (event->gate)
		__perf_gate_pin(event);
}

static inline void perf_gate_list_del(struct perf_event *event)
{
	if (event->gate)
		__perf_gate_unpin(event);
	if (!event->ctx->nr_events && event->ctx->gates)
		__perf_gate_unpin_context(event->ctx);
}

/* @child is gone, but for its part in what its parent tells. */
static inline void perf_gate_sync_child(struct perf_event *child)
{
	if (child->parent->gate)
		__perf_gate_sync_child(child);
}

#else /* !CONFIG_PERF_EVENTS_GATE */

static inline void perf_gate_fire(struct perf_event *event, unsigned long pass) { }
static inline void perf_gate_fire_throttled(struct perf_event *event) { }
static inline bool perf_gate_closed(struct perf_event *event) { return false; }
static inline bool perf_gate_hides_index(struct perf_event *event) { return false; }
static inline bool perf_gates_exist(void) { return false; }
static inline u64 perf_gate_tick_span(struct perf_event *event) { return TICK_NSEC; }
static inline void perf_gate_list_add(struct perf_event *event) { }
static inline bool perf_gate_catch_up(struct perf_event *event) { return true; }
static inline void perf_gate_list_del(struct perf_event *event) { }
static inline void perf_gate_sync_child(struct perf_event *child) { }
static inline void perf_gate_pmu_enable(struct pmu *pmu) { pmu->pmu_enable(pmu); }
static inline void perf_gate_pmu_read(struct perf_event *event) { event->pmu->read(event); }
static inline void perf_gate_call_held(void (*func)(void *), void *data) { func(data); }
static inline bool perf_gate_reset(struct perf_event *event) { return false; }
static inline int perf_gate_init(struct perf_event *event) { return 0; }
static inline void perf_gate_init_context(struct perf_event_context *ctx) { }
static inline void perf_gate_free_context(struct perf_event_context *ctx) { }
static inline void perf_gate_release(struct perf_event *event) { }
static inline void perf_gate_sever(struct perf_event *event, bool gone) { }
static inline void perf_gate_free_rcu(struct perf_event *event) { }

static inline void perf_gate_pmu_start(struct perf_event *event, int flags)
{
	event->pmu->start(event, flags);
}

static inline int perf_gate_pmu_add(struct perf_event *event)
{
	return event->pmu->add(event, PERF_EF_START);
}

static inline void perf_gate_call_moving(struct perf_event *event, void (*func)(void *))
{
	func(event);
}

static inline bool perf_gate_aux_pause(struct perf_event *event, bool pause)
{
	return false;
}

static inline int perf_gate_inherit(struct perf_event *child,
				    struct perf_event *source)
{
	return 0;
}

static inline int perf_gate_inherit_links(struct perf_event_context *ctx)
{
	return 0;
}

static inline u64 perf_gate_count(struct perf_event *event)
{
	return local64_read(&event->count);
}

static inline long perf_gate_ioctl(struct perf_event *event, unsigned int cmd,
				   unsigned long arg)
{
	return -ENOTTY;
}

/* No event has the bits: perf_gate_check_attr(). */
static inline int perf_gate_add_values(struct perf_event *event, u64 read_format,
				       u64 running, bool self, u64 *values)
{
	return 0;
}

static inline int perf_gate_values(struct perf_event *event, u64 read_format,
				   u64 running, bool self, u64 *values)
{
	return 0;
}

static inline int perf_gate_read_values(struct perf_event *event, u64 read_format,
					u64 running, u64 *values)
{
	return 0;
}

#endif /* CONFIG_PERF_EVENTS_GATE */

/* The numbers in between are of ioctls that have a size in theirs. */
static inline bool perf_gate_is_ioctl(unsigned int cmd)
{
	return cmd - PERF_EVENT_IOC_SET_STARTER <=
	       PERF_EVENT_IOC_JOIN_GATE - PERF_EVENT_IOC_SET_STARTER;
}

#define PERF_FORMAT_GATE	(PERF_FORMAT_GATE_TIME | PERF_FORMAT_GATE_COUNT)

/* What attr asks of gating is there. */
static inline int perf_gate_check_attr(const struct perf_event_attr *attr)
{
	if (!attr->start_paused && !attr->gate_nest &&
	    !(attr->read_format & PERF_FORMAT_GATE))
		return 0;

	return IS_ENABLED(CONFIG_PERF_EVENTS_GATE) ? 0 : -EINVAL;
}

#endif /* _KERNEL_EVENTS_GATE_H */
