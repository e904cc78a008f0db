/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Performance event gates: the arithmetic of a gate's depth and of an event's split.
 * Nothing here depends on the kernel, so that models can use it as well.
 */
#ifndef _KERNEL_EVENTS_GATE_SPLIT_H
#define _KERNEL_EVENTS_GATE_SPLIT_H

#include <linux/limits.h>
#include <linux/types.h>

/*
 * A stopper acts before the work that its trigger does at an overflow, a
 * starter after it, so that this work stays outside of the window.
 */
#define PERF_GATE_BEFORE	2UL
#define PERF_GATE_AFTER		4UL

/* Roles of an event. A trigger that is both starter and stopper of a gate toggles it. */
#define PERF_GATE_MEMBER	0U
#define PERF_GATE_STARTER	1U
#define PERF_GATE_STOPPER	2U
#define PERF_GATE_TOGGLE	(PERF_GATE_STARTER | PERF_GATE_STOPPER)

/* Effect of a firing on the depth, combined with PERF_GATE_BEFORE or _AFTER. */
#define PERF_GATE_OPENS		1UL
#define PERF_GATE_TOGGLES	8UL
#define PERF_GATE_NESTS		16UL

/**
 * struct perf_gate_split - Split of an event's totals into inside and outside
 */
struct perf_gate_split {
	/** @count: open: the part of the count outside; closed: the part inside */
	u64			count;
	/** @running: the corresponding part of the running time, in ns */
	u64			running;
	/** @open: the gate is open, so these are the parts outside */
	bool			open;
};

/**
 * perf_gate_make_act() - Compute the effect of a firing on the gate of a link
 * @role:	Role of the trigger
 * @nest:	attr.gate_nest of the members
 *
 * Context: Any, without side effects.
 * Return: PERF_GATE_BEFORE or PERF_GATE_AFTER, with flags for perf_gate_next_depth().
 */
static inline unsigned long perf_gate_make_act(unsigned int role, bool nest)
{
	return (role == PERF_GATE_STOPPER ? PERF_GATE_BEFORE : PERF_GATE_AFTER) |
	       (role == PERF_GATE_STARTER ? PERF_GATE_OPENS : 0) |
	       (role == PERF_GATE_TOGGLE ? PERF_GATE_TOGGLES : 0) |
	       (nest ? PERF_GATE_NESTS : 0);
}

/**
 * perf_gate_next_depth() - Compute the depth of a gate after a trigger fired
 * @depth:	Depth before it fired, 0 for a closed gate
 * @act:	perf_gate_link::act
 *
 * Context: Any, without side effects.
 * Return: The new depth.
 */
static __always_inline int perf_gate_next_depth(int depth, unsigned long act)
{
	if (!(act & PERF_GATE_NESTS))
		return act & PERF_GATE_OPENS;

	if (act & PERF_GATE_OPENS)
		return depth < INT_MAX ? depth + 1 : depth;

	return depth ? depth - 1 : 0;
}

/**
 * perf_gate_flip() - Compute the split of an event whose gate changes its state
 * @split:	Split before the move
 * @count:	Count of the event at the move
 * @running:	Running time of the event at the move in ns
 *
 * Subtracting both parts from the totals makes opening and closing one operation.
 *
 * Context: Any, without side effects.
 * Return: The split after the move.
 */
static __always_inline struct perf_gate_split
perf_gate_flip(const struct perf_gate_split *split, u64 count, u64 running)
{
	return (struct perf_gate_split) {
		.count		= count - split->count,
		.running	= running - split->running,
		.open		= !split->open,
	};
}

/**
 * perf_gate_inside() - Compute the part of a total inside of the windows
 * @split:	Split of the event
 * @total:	Total of the event
 * @part:	The member of @split that belongs to @total
 *
 * Context: Any, without side effects.
 * Return: The part that is reported to the user of the event.
 */
static inline u64
perf_gate_inside(const struct perf_gate_split *split, u64 total, u64 part)
{
	return split->open ? total - part : part;
}

#endif /* _KERNEL_EVENTS_GATE_SPLIT_H */
