// SPDX-License-Identifier: GPL-2.0
/*
 * Ranges of code, as --inside needs them: by which instructions the flow of control comes
 * into them, and where it goes on when it leaves.
 *
 * A range is the code of an inlined function, or of some lines. It has neither a beginning
 * that all must pass nor returns. So look at each instruction of the function that the range
 * is in: where one outside goes on inside there is an entry, and where one inside goes on
 * outside there is an exit. A probe is set on each of them.
 *
 * If all that leads to an entry is outside, and all that leads to an exit is inside, each
 * entry has an exit, as the entry of a function has a return. Where code beside the range
 * goes on at an exit, too, the last instruction inside is the exit if it always leaves.
 * Otherwise, or if a loop passes an entry again, the gate does not nest. Then perf could not
 * see that a function called inside never comes back, so there must be no call.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/kernel.h>
#include <linux/string.h>
#include <linux/types.h>
#include <linux/zalloc.h>

#include "gate-dwarf.h"
#include "gate-elf.h"

/* Maximum number of parts of a function, such as a hot and a cold one */
#define MAX_PARTS	4

/* A way out of the ranges */
struct leave {
	u64	from;
	u64	to;
	/* The instruction at @from goes nowhere else, and nothing is called by it. */
	bool	always;
	/* Code outside of the ranges leads to @to, too. */
	bool	shared;
};

struct walk {
	struct gate_elf		*ge;
	const struct gate_range	*ranges;
	int			nr_ranges;
	struct gate_range	parts[MAX_PARTS];
	int			nr_parts;
	const char		*symbol;
	struct leave		leaves[GATE_MAX_RETURNS];
	int			nr_leaves;
	/* The edges are known, and the walk checks what else leads to them. */
	bool			check;
	struct gate_edges	*edges;
	char			**why;
};

static bool is_inside(struct walk *walk, u64 address)
{
	int i;

	for (i = 0; i < walk->nr_ranges; i++) {
		if (address >= walk->ranges[i].start && address < walk->ranges[i].end)
			return true;
	}
	return false;
}

static int refuse(struct walk *walk, int err, const char *what, u64 address)
{
	if (!*walk->why && asprintf(walk->why, "%s at %#" PRIx64 " (%s)", what, address,
				    walk->symbol) < 0)
		*walk->why = NULL;
	return err;
}

static int add_edge(struct walk *walk, u64 *list, int *nr, u64 address)
{
	u64 offset;
	int i;

	if (gate_elf__offset(walk->ge, address, &offset))
		return refuse(walk, -EINVAL, "no code", address);
	for (i = 0; i < *nr; i++) {
		if (list[i] == offset)
			return 0;
	}
	if (*nr == GATE_MAX_RETURNS)
		return refuse(walk, -ENOSPC, "more edges than a gate has room for", address);
	list[(*nr)++] = offset;
	return 0;
}

static bool is_edge(struct walk *walk, const u64 *list, int nr, u64 address)
{
	u64 offset;
	int i;

	if (gate_elf__offset(walk->ge, address, &offset))
		return false;
	for (i = 0; i < nr; i++) {
		if (list[i] == offset)
			return true;
	}
	return false;
}

/* Tell whether @address is in the walked function, and add the .cold part that has it. */
static bool is_in_function(struct walk *walk, u64 address)
{
	struct gate_range range;
	const char *symbol;
	size_t a, b;
	int i;

	for (i = 0; i < walk->nr_parts; i++) {
		if (address >= walk->parts[i].start && address < walk->parts[i].end)
			return true;
	}
	if (walk->nr_parts == MAX_PARTS)
		return false;
	symbol = gate_elf__function_at(walk->ge, address, &range);
	if (!symbol)
		return false;
	a = strstr(symbol, ".cold") ? (size_t)(strstr(symbol, ".cold") - symbol) : strlen(symbol);
	b = strstr(walk->symbol, ".cold") ? (size_t)(strstr(walk->symbol, ".cold") - walk->symbol) :
					    strlen(walk->symbol);
	if (a != b || strncmp(symbol, walk->symbol, a) || !strcmp(symbol, walk->symbol))
		return false;
	walk->parts[walk->nr_parts++] = range;
	return true;
}

static int add_leave(struct walk *walk, u64 from, u64 to, bool always)
{
	int i;

	for (i = 0; i < walk->nr_leaves; i++) {
		if (walk->leaves[i].from == from && walk->leaves[i].to == to)
			return 0;
	}
	if (walk->nr_leaves == GATE_MAX_RETURNS)
		return refuse(walk, -ENOSPC, "more ways out than a gate has room for", from);
	walk->leaves[walk->nr_leaves++] = (struct leave){
		.from = from, .to = to, .always = always,
	};
	return 0;
}

static void check_step(struct walk *walk, u64 to, bool inside)
{
	struct gate_edges *edges = walk->edges;
	int i;

	if (inside) {
		if (is_edge(walk, edges->on, edges->nr_on, to))
			edges->pair = false;
		return;
	}
	for (i = 0; i < walk->nr_leaves; i++)
		walk->leaves[i].shared |= walk->leaves[i].to == to;
}

/* Handle a possible step of the flow of control from one instruction to another. */
static int step(struct walk *walk, u64 from, u64 to, enum gate_flow flow)
{
	struct gate_edges *edges = walk->edges;
	bool inside = is_inside(walk, from);

	if (!is_in_function(walk, to)) {
		/* The last instruction may call a function that does not return. */
		if (!inside || flow == GATE_FLOW_CALL)
			return 0;
		return refuse(walk, -EOPNOTSUPP, "a jump to another function", from);
	}
	if (walk->check) {
		check_step(walk, to, inside);
		return 0;
	}
	if (inside == is_inside(walk, to))
		return 0;
	if (!inside)
		return add_edge(walk, edges->on, &edges->nr_on, to);
	return add_leave(walk, from, to, flow == GATE_FLOW_NEXT || flow == GATE_FLOW_JUMP);
}

static int walk_part(struct walk *walk, const struct gate_range *part)
{
	unsigned char *code = gate_elf__read(walk->ge, part);
	size_t size = part->end - part->start, at;
	int length, err = 0;

	if (!code)
		return refuse(walk, -EINVAL, "no code", part->start);

	for (at = 0; at < size && !err; at += length) {
		u64 address = part->start + at, target = 0;
		enum gate_flow flow = gate_elf__flow(walk->ge, code + at, size - at, NULL, address,
						     &length, &target);
		bool inside = is_inside(walk, address);

		switch (flow) {
		case GATE_FLOW_CALL:
			walk->edges->calls |= inside;
			err = step(walk, address, address + length, flow);
			break;
		case GATE_FLOW_NEXT:
			err = step(walk, address, address + length, flow);
			break;
		case GATE_FLOW_BRANCH:
			err = step(walk, address, address + length, flow) ?:
			      step(walk, address, target, flow);
			break;
		case GATE_FLOW_JUMP:
			err = step(walk, address, target, flow);
			break;
		case GATE_FLOW_RETURN:
			if (inside && !walk->check)
				err = add_leave(walk, address, address, /*always=*/true);
			break;
		case GATE_FLOW_MAY_RETURN:
			err = inside ? refuse(walk, -EOPNOTSUPP, "a conditional return", address) :
			      step(walk, address, address + length, flow);
			break;
		case GATE_FLOW_TABLE:
		case GATE_FLOW_UNKNOWN:
		default:
			err = refuse(walk, -EOPNOTSUPP, "a jump whose target is not in the code",
				     address);
			break;
		}
	}
	free(code);
	return err;
}

/* Find the instruction at which each way out is seen. */
static int set_exits(struct walk *walk)
{
	struct gate_edges *edges = walk->edges;
	int i, j, err;

	for (i = 0; i < walk->nr_leaves; i++) {
		struct leave *leave = &walk->leaves[i];
		u64 at = leave->to;

		if (leave->shared) {
			bool always = true;

			for (j = 0; j < walk->nr_leaves; j++) {
				if (walk->leaves[j].to == leave->to)
					always &= walk->leaves[j].always;
			}
			if (always)
				at = leave->from;
			else
				edges->pair = false;
		}
		if (is_edge(walk, edges->on, edges->nr_on, at))
			return refuse(walk, -EOPNOTSUPP, "an entry that is an exit", at);
		err = add_edge(walk, edges->off, &edges->nr_off, at);
		if (err)
			return err;
	}
	return 0;
}

/* Find the edges of all ranges in the function that contains @range. */
static int walk_function(struct walk *walk, const struct gate_range *range)
{
	int i, pass, err;

	walk->symbol = gate_elf__function_at(walk->ge, range->start, &walk->parts[0]);
	if (!walk->symbol) {
		walk->symbol = "no function";
		return refuse(walk, -EOPNOTSUPP, "code", range->start);
	}
	walk->nr_parts = 1;
	for (pass = 0; pass < 2; pass++) {
		walk->check = pass;
		/* A jump may add a part. */
		for (i = 0; i < walk->nr_parts; i++) {
			u64 start = walk->parts[i].start;
			bool cold = strstr(gate_elf__function_at(walk->ge, start,
								 &walk->parts[i]) ?: "", ".cold");

			/* Callers enter a part at its beginning, unless it is a cold part. */
			if (!pass && !cold && is_inside(walk, start)) {
				err = add_edge(walk, walk->edges->on, &walk->edges->nr_on, start);
				if (err)
					return err;
			}
			err = walk_part(walk, &walk->parts[i]);
			if (err)
				return err;
		}
	}
	return 0;
}

/**
 * gate_elf__find_edges - Find where the flow of control enters and leaves ranges of code
 * @ge:		The program
 * @ranges:	The ranges
 * @nr:		Number of ranges
 * @edges:	Set to the edges
 * @why:	Set to the reason if they cannot be told, which the caller frees, or NULL
 *
 * Return: 0, or a negative error code.
 */
int gate_elf__find_edges(struct gate_elf *ge, const struct gate_range *ranges, int nr,
			 struct gate_edges *edges, char **why)
{
	struct walk walk = {
		.ge		= ge,
		.ranges		= ranges,
		.nr_ranges	= nr,
		.edges		= edges,
		.why		= why,
	};
	int i, j, err = 0;

	*why = NULL;
	memset(edges, 0, sizeof(*edges));
	edges->pair = true;
	for (i = 0; i < nr; i++) {
		struct gate_range part;
		const char *symbol = gate_elf__function_at(ge, ranges[i].start, &part);

		/* Skip a range of a function that was walked for an earlier range. */
		for (j = 0; symbol && j < i; j++) {
			if (ranges[j].start >= part.start && ranges[j].start < part.end)
				break;
		}
		if (symbol && j < i)
			continue;
		err = walk_function(&walk, &ranges[i]);
		if (err)
			return err;
	}
	err = set_exits(&walk);
	if (err)
		return err;
	if (!edges->nr_on || !edges->nr_off) {
		walk.symbol = walk.symbol ?: "no function";
		return refuse(&walk, -EOPNOTSUPP, edges->nr_on ? "no way out of the code" :
			      "no way into the code", nr ? ranges[0].start : 0);
	}
	if (!edges->pair && edges->calls)
		return refuse(&walk, -EOPNOTSUPP,
			      "code that other code shares an edge with, and that calls functions",
			      ranges[0].start);
	return 0;
}
