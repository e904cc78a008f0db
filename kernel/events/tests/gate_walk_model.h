/* SPDX-License-Identifier: GPL-2.0 */
/*
 * KUnit walk over the states of gates: the model.
 *
 * It knows events, their copies in contexts, gates, and the depth of each gate in each
 * context, and changes them as Documentation/userspace-api/perf_gate.rst says.
 */
#ifndef _KERNEL_EVENTS_TESTS_GATE_WALK_MODEL_H
#define _KERNEL_EVENTS_TESTS_GATE_WALK_MODEL_H

#include <linux/completion.h>
#include <linux/errno.h>
#include <linux/perf_event.h>
#include <linux/prandom.h>
#include <linux/refcount.h>
#include <linux/sched.h>
#include <linux/string.h>

#include "../gate/gate.h"

#define WALK_EVENTS	7
#define WALK_TASKS	5
#define WALK_PLACES	16
#define NONE		-1

/* An event in one context: the opened one in its home, or one inherited from it. */
struct walk_copy {
	bool			there;
	/* The opened event is out of its context, or its task is gone. */
	bool			dead;
	/* The CPU of the opened event has been offline since. */
	bool			removed;
	bool			disabled;
	/* The state of the account, if the event is a member of no gate. */
	bool			open;
	u64			opened;
	u64			inside;
};

struct walk_event {
	struct perf_event	*event;
	bool			inherit;
	bool			remove_on_exec;
	bool			start_paused;
	bool			nest;
	/* The event is a clock, which counts by itself and cannot fire. */
	bool			clock;
	bool			account;
	/* The task that the event was opened on, or NULL, and its CPU, or NONE. */
	struct task_struct	*target;
	int			cpu;
	int			home;
	int			gate;
	u64			gone_inside;
	u64			gone_opened;
	struct walk_copy	copies[WALK_PLACES];
};

struct walk_gate {
	bool			used;
	/* The kernel's gate, with a reference, so that the model can see when it ends. */
	struct perf_gate	*real;
	unsigned int		roles[WALK_EVENTS];
	int			depth[WALK_PLACES];
	u64			opened[WALK_PLACES];
};

enum walk_action { WALK_FIRE, WALK_RUN, WALK_FORK, WALK_THREAD, WALK_EXEC, WALK_EXIT };

struct walk_firing {
	/* The event that fires, and how much it counts before. */
	struct perf_event	*copy;
	unsigned int		count;
	/* Its members have to follow by irq_work. */
	bool			defer;
};

struct walk_task {
	struct task_struct	*task;
	struct completion	go;
	struct completion	done;
	enum walk_action	action;
	/* WALK_RUN: the task runs until this is set */
	bool			stop;
	/* WALK_FIRE: what fires */
	struct walk_firing	firing;
	/* WALK_FORK, WALK_THREAD: the new task */
	struct walk_task	*child;
	int			result;
};

struct walk {
	struct rnd_state	rnd;
	/* Flags of most events of a round, because events that differ do not link. */
	bool			inherit;
	bool			remove_on_exec;
	bool			nest;
	bool			on_cpus;
	/* CPUs that have events. At times the second goes offline, and is @offline then. */
	int			cpus[2];
	int			offline;
	struct walk_event	events[WALK_EVENTS];
	struct walk_gate	gates[WALK_EVENTS];
	struct perf_event_context *places[WALK_PLACES];
	struct walk_task	tasks[WALK_TASKS];
	/* Number of the allocation of this step that fails, or 0. */
	unsigned int		fail_nth;
	bool			failed;
	/* A gate had references left after its last member. */
	bool			leaked;
	char			step[80];
};

static inline bool is_member(struct walk_event *event, struct walk *walk,
			     struct walk_gate *gate)
{
	return event->event && event->gate != NONE && &walk->gates[event->gate] == gate;
}

static inline unsigned int nr_members(struct walk *walk, struct walk_gate *gate)
{
	unsigned int i, n = 0;

	for (i = 0; i < WALK_EVENTS; i++)
		n += is_member(&walk->events[i], walk, gate);

	return n;
}

/* Count the members of a gate in a context; with @alive, only those that are not dead. */
static inline unsigned int nr_copies(struct walk *walk, struct walk_gate *gate, int place,
				     bool alive)
{
	unsigned int i, n = 0;

	for (i = 0; i < WALK_EVENTS; i++) {
		struct walk_copy *copy = &walk->events[i].copies[place];

		n += is_member(&walk->events[i], walk, gate) && copy->there &&
		     !(alive && copy->dead);
	}

	return n;
}

static inline unsigned int nr_links(struct walk_gate *gate, unsigned int role)
{
	unsigned int i, n = 0;

	for (i = 0; i < WALK_EVENTS; i++)
		n += !!(gate->roles[i] & role);

	return n;
}

static inline bool is_home(struct walk *walk, struct walk_gate *gate, int place)
{
	unsigned int i;

	for (i = 0; i < WALK_EVENTS; i++) {
		if (is_member(&walk->events[i], walk, gate) && walk->events[i].home == place)
			return true;
	}

	return false;
}

/* Count the states that a context holds for inherited members. */
static inline unsigned int nr_states(struct walk *walk, int place)
{
	struct walk_gate *gate;
	unsigned int n = 0;

	for (gate = walk->gates; gate < walk->gates + WALK_EVENTS; gate++)
		n += nr_copies(walk, gate, place, false) && !is_home(walk, gate, place);

	return n;
}

static inline struct walk_gate *gate_of(struct walk *walk, struct walk_event *event)
{
	return event->gate == NONE ? NULL : &walk->gates[event->gate];
}

/* Tell whether an event does not count, even if its task or its CPU runs. */
static inline bool is_off(struct walk_copy *copy)
{
	return copy->dead || copy->removed || copy->disabled;
}

static inline bool is_open(struct walk *walk, struct walk_event *event, int place)
{
	struct walk_gate *gate = gate_of(walk, event);

	return gate ? gate->depth[place] : event->copies[place].open;
}

static inline u64 openings(struct walk *walk, struct walk_event *event, int place)
{
	struct walk_gate *gate = gate_of(walk, event);

	return event->copies[place].opened + (gate ? gate->opened[place] : 0);
}

/* A gate ends with its last member, a state with its last copy. */
static inline void model_forget(struct walk *walk, struct walk_gate *gate)
{
	int place;

	for (place = 0; place < WALK_PLACES; place++) {
		if (!nr_copies(walk, gate, place, false)) {
			gate->depth[place] = 0;
			gate->opened[place] = 0;
		}
	}
	if (nr_members(walk, gate))
		return;

	walk->leaked |= refcount_read(&gate->real->refs) != 1;
	perf_gate_put(gate->real);
	memset(gate, 0, sizeof(*gate));
}

static inline void model_leave(struct walk *walk, struct walk_event *event)
{
	struct walk_gate *gate = gate_of(walk, event);
	int place;

	if (!gate)
		return;

	for (place = 0; place < WALK_PLACES; place++) {
		event->copies[place].opened = openings(walk, event, place);
		event->copies[place].open = gate->depth[place];
	}
	event->gate = NONE;
	model_forget(walk, gate);
}

/* An event that is closed, or moves to another CPU, has no links and no gate any more. */
static inline void model_detach(struct walk *walk, struct walk_event *event)
{
	struct walk_gate *gate;

	for (gate = walk->gates; gate < walk->gates + WALK_EVENTS; gate++)
		gate->roles[event - walk->events] = 0;
	model_leave(walk, event);
}

static inline void model_enter(struct walk *walk, struct walk_event *event,
			       struct walk_gate *gate, int depth)
{
	bool joins = nr_members(walk, gate);
	int place;

	for (place = 0; place < WALK_PLACES; place++) {
		if (event->copies[place].there && place != event->home &&
		    !nr_copies(walk, gate, place, false))
			gate->depth[place] = depth;
	}
	model_leave(walk, event);
	event->gate = gate - walk->gates;
	event->account = true;
	if (!joins)
		return;

	event->gone_opened = 0;
	for (place = 0; place < WALK_PLACES; place++)
		event->copies[place].opened = 0;
}

/* Get the gate of a target of SET_* or JOIN_GATE, which create it if there is none. */
static inline struct walk_gate *model_begin(struct walk *walk, struct walk_event *event)
{
	struct walk_gate *gate;

	if (event->gate != NONE)
		return gate_of(walk, event);

	for (gate = walk->gates; gate->used; gate++)
		;
	gate->used = true;
	gate->real = event->event->gate;
	refcount_inc(&gate->real->refs);
	gate->depth[event->home] = event->copies[event->home].open;
	model_enter(walk, event, gate, gate->depth[event->home]);

	return gate;
}

static inline void model_set_all(struct walk *walk, struct walk_gate *gate, bool open)
{
	int place;

	for (place = 0; place < WALK_PLACES; place++) {
		if (!nr_copies(walk, gate, place, true))
			continue;
		gate->opened[place] += open && !gate->depth[place];
		gate->depth[place] = open;
	}
}

static inline void model_fire(struct walk *walk, struct walk_event *event, int place)
{
	struct walk_gate *gate;

	if (!is_open(walk, event, place))
		return;

	for (gate = walk->gates; gate < walk->gates + WALK_EVENTS; gate++) {
		unsigned int role = gate->roles[event - walk->events];
		int *depth = &gate->depth[place];
		bool was_open = *depth;
		bool nest = false;
		int i;

		if (!role || !nr_copies(walk, gate, place, false))
			continue;
		for (i = 0; i < WALK_EVENTS; i++)
			nest |= is_member(&walk->events[i], walk, gate) && walk->events[i].nest;
		if (role == PERF_GATE_TOGGLE)
			*depth = !*depth;
		else if (role == PERF_GATE_STARTER)
			*depth = nest ? *depth + 1 : 1;
		else
			*depth = nest && *depth ? *depth - 1 : 0;
		gate->opened[place] += !was_open && *depth;
	}
}

static inline void model_fork(struct walk *walk, int from, int to, bool thread)
{
	struct walk_event *event;

	for (event = walk->events; event < walk->events + WALK_EVENTS; event++) {
		struct walk_gate *gate = gate_of(walk, event);
		struct walk_copy *copy = &event->copies[from];

		if (!event->event || !event->inherit || !copy->there || copy->dead)
			continue;
		if (gate && !nr_copies(walk, gate, to, false))
			gate->depth[to] = thread && nr_links(gate, PERF_GATE_STARTER) ?
					  0 : gate->depth[from];
		event->copies[to] = (struct walk_copy) {
			.there		= true,
			.open		= true,
			.disabled	= copy->disabled,
		};
	}
}

/*
 * When a task ends, its opened event keeps its state, and an inherited event adds its
 * counts to its parent and is gone.
 */
static inline void model_end(struct walk *walk, int place, bool exec)
{
	struct walk_event *event;

	for (event = walk->events; event < walk->events + WALK_EVENTS; event++) {
		struct walk_gate *gate = gate_of(walk, event);
		struct walk_copy *copy = &event->copies[place];

		if (!event->event || !copy->there || (exec && !event->remove_on_exec))
			continue;
		if (place == event->home) {
			copy->dead = true;
			continue;
		}
		event->gone_inside += copy->inside;
		event->gone_opened += openings(walk, event, place);
		memset(copy, 0, sizeof(*copy));
		if (gate)
			model_forget(walk, gate);
	}
}

static inline bool is_over(struct walk *walk, struct walk_event *trigger,
			   struct walk_event *target)
{
	int place;

	if (walk->places[trigger->home] && !trigger->copies[trigger->home].dead &&
	    !target->copies[target->home].dead)
		return false;

	for (place = 0; place < WALK_PLACES; place++) {
		if (target->copies[place].there && place != target->home)
			return false;
	}

	return true;
}

static inline bool is_busy(struct walk *walk, struct walk_event *event)
{
	struct walk_gate *gate = gate_of(walk, event);

	return gate && (nr_members(walk, gate) > 1 || nr_links(gate, PERF_GATE_TOGGLE));
}

static inline bool in_one_context(struct walk_event *a, struct walk_event *b)
{
	return a->home == b->home && a->target == b->target;
}

static inline int expect_link(struct walk *walk, struct walk_event *trigger,
			      struct walk_event *target, unsigned int role)
{
	struct walk_gate *gate = gate_of(walk, target);
	unsigned int has;

	if (trigger == target || !in_one_context(trigger, target))
		return -EINVAL;
	if (is_over(walk, trigger, target))
		return -ESRCH;
	if (trigger->inherit != target->inherit ||
	    trigger->remove_on_exec != target->remove_on_exec || trigger->clock)
		return -EINVAL;
	if (!gate)
		return 0;
	if (trigger->gate == target->gate)
		return -EINVAL;
	has = gate->roles[trigger - walk->events];
	if (has & role)
		return -EEXIST;

	return has && target->nest ? -EINVAL : 0;
}

static inline int expect_join(struct walk *walk, struct walk_event *event,
			      struct walk_event *other)
{
	if (event == other || !in_one_context(event, other))
		return -EINVAL;
	if (is_over(walk, other, event))
		return -ESRCH;
	if (event->inherit != other->inherit || event->nest != other->nest ||
	    event->remove_on_exec != other->remove_on_exec)
		return -EINVAL;
	if (!other->start_paused && !is_busy(walk, other))
		return -EINVAL;
	if (is_busy(walk, event))
		return -EBUSY;

	return 0;
}

#endif /* _KERNEL_EVENTS_TESTS_GATE_WALK_MODEL_H */
