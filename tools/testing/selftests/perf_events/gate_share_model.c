// SPDX-License-Identifier: GPL-2.0
/*
 * perf gate selftests - a random walk of a task over CPUs and shared gates, and a model
 *
 * The model follows Documentation/userspace-api/perf_gate.rst on shared gates, for
 * counts of getppid(2) on one CPU or on any. It predicts each count and each number of
 * openings.
 *
 * GATE_MODEL_SEED repeats a walk, whose seed each run prints; GATE_MODEL_STEPS
 * makes it longer.
 */
#define _GNU_SOURCE

#include <stdarg.h>

#include "../kselftest_harness.h"
#include "gate_helpers.h"

#define DEFAULT_STEPS	10000
#define MAX_MEMBERS	24
#define MAX_GATES	4
#define MAX_CPUS	8
#define TRACE_LINES	64

/* Triggers that open and close a gate, as seen by the two calls that fire. */
enum kind {
	OPENED_BY_FIRST,
	OPENED_BY_SECOND,
	TOGGLED_BY_FIRST,
	NESTED,
	NR_KINDS,
};

struct member {
	bool		used;
	int		fd;
	int		cpu;
	bool		nest;
	int		gate;
	unsigned int	openings;
	__u64		count;
};

struct gate {
	bool		used;
	enum kind	kind;
	unsigned int	depth;
	unsigned int	openings;
};

FIXTURE(gate_share_model)
{
	struct gate_triggers triggers;
	struct member members[MAX_MEMBERS];
	struct gate gates[MAX_GATES];
	struct perf_event_attr attr;
	char trace[TRACE_LINES][80];
	int cpus[MAX_CPUS];
	unsigned int nr_cpus;
	unsigned int cpu;
	unsigned int seed;
	unsigned int step;
	bool idle;
};

#define MODEL FIXTURE_DATA(gate_share_model)

static unsigned int pick(MODEL *model, unsigned int below)
{
	return rand_r(&model->seed) / 7 % below;
}

/* A step that does nothing is not counted. */
__printf(2, 3)
static void trace(MODEL *model, const char *text, ...)
{
	va_list args;

	va_start(args, text);
	vsnprintf(model->trace[model->step % TRACE_LINES], sizeof(model->trace[0]), text, args);
	va_end(args);
	model->idle = false;
}

static void print_trace(const MODEL *model)
{
	unsigned int step = model->step < TRACE_LINES ? 0 : model->step - TRACE_LINES + 1;

	for (; step <= model->step; step++)
		fprintf(stderr, "# step %u: %s\n", step, model->trace[step % TRACE_LINES]);
}

static void forget_empty_gates(MODEL *model)
{
	bool has[MAX_GATES] = {};
	unsigned int i;

	for (i = 0; i < MAX_MEMBERS; i++) {
		if (model->members[i].used && model->members[i].gate >= 0)
			has[model->members[i].gate] = true;
	}
	for (i = 0; i < MAX_GATES; i++)
		model->gates[i].used &= has[i];
}

/* Open an event of the task, closed, with no trigger and in no gate. */
static bool open_member(MODEL *model, struct member *member, bool nest)
{
	struct perf_event_attr attr = model->attr;
	unsigned int where = pick(model, model->nr_cpus + 1);

	*member = (struct member) {
		.cpu	= where == model->nr_cpus ? -1 : model->cpus[where],
		.nest	= nest,
		.gate	= -1,
	};
	gate_attr_set_bit(&attr, GATE_BIT_START_PAUSED);
	if (nest)
		gate_attr_set_bit(&attr, GATE_BIT_NEST);
	member->fd = gate_open(&attr, 0, member->cpu);
	member->used = member->fd >= 0;
	return member->used;
}

/* Create a gate with triggers, and its first member. */
static bool step_found(MODEL *model)
{
	struct gate *gate = &model->gates[pick(model, MAX_GATES)];
	struct member *member = &model->members[pick(model, MAX_MEMBERS)];
	int first = model->triggers.starter, second = model->triggers.stopper;
	enum kind kind = pick(model, NR_KINDS);

	if (gate->used || member->used)
		return true;
	trace(model, "gate %td of kind %u with member %td", gate - model->gates, kind,
	      member - model->members);
	if (!open_member(model, member, kind == NESTED))
		return false;
	*gate = (struct gate) { .used = true, .kind = kind };
	member->gate = gate - model->gates;
	if (kind == OPENED_BY_SECOND)
		return !set_starter(second, member->fd) && !set_stopper(first, member->fd);
	if (kind == TOGGLED_BY_FIRST)
		return !set_starter(first, member->fd) && !set_stopper(first, member->fd);
	return !set_starter(first, member->fd) && !set_stopper(second, member->fd);
}

/* A new event, or an event that has left a gate and keeps its count. */
static bool step_join(MODEL *model)
{
	struct member *member = &model->members[pick(model, MAX_MEMBERS)];
	struct member *other = &model->members[pick(model, MAX_MEMBERS)];
	bool new = !member->used, other_kind = !pick(model, 8);
	int expected = 0, error;

	if (member == other || !other->used || other->gate < 0)
		return true;
	if (new && !open_member(model, member, other->nest ^ other_kind))
		return false;
	if (member->gate >= 0)
		expected = -EBUSY;
	else if (member->nest != other->nest)
		expected = -EINVAL;
	error = join_gate(member->fd, other->fd);
	trace(model, "%td on CPU %d joins %td: %d, expected %d", member - model->members,
	      member->cpu, other - model->members, error, expected);
	if (!expected) {
		member->gate = other->gate;
	} else if (new) {
		/* No trigger would open it again. */
		member->used = false;
		close(member->fd);
	}
	return error == expected || (member->gate >= 0 && error == -EINVAL);
}

static void leave(MODEL *model, struct member *member)
{
	struct gate *gate = &model->gates[member->gate];

	member->openings = gate->openings + !gate->depth;
	member->gate = -1;
}

/* The gate ends with its last member. */
static bool step_clear(MODEL *model)
{
	struct member *member = &model->members[pick(model, MAX_MEMBERS)];

	if (!member->used || member->gate < 0)
		return true;
	trace(model, "%td leaves gate %d", member - model->members, member->gate);
	leave(model, member);
	forget_empty_gates(model);
	return !clear_gate(member->fd);
}

static bool step_close(MODEL *model)
{
	struct member *member = &model->members[pick(model, MAX_MEMBERS)];

	if (!member->used)
		return true;
	trace(model, "close %td", member - model->members);
	member->used = false;
	forget_empty_gates(model);
	return !close(member->fd);
}

static void move_gate(struct gate *gate, bool first)
{
	unsigned int old = gate->depth;

	switch (gate->kind) {
	case OPENED_BY_FIRST:
		gate->depth = first;
		break;
	case OPENED_BY_SECOND:
		gate->depth = !first;
		break;
	case TOGGLED_BY_FIRST:
		gate->depth ^= first;
		break;
	default:
		if (first)
			gate->depth++;
		else if (gate->depth)
			gate->depth--;
		break;
	}
	gate->openings += !old && gate->depth;
}

static bool step_fire(MODEL *model)
{
	bool first = pick(model, 2);
	unsigned int i;

	trace(model, "%s trigger fires", first ? "first" : "second");
	for (i = 0; i < MAX_GATES; i++) {
		if (model->gates[i].used)
			move_gate(&model->gates[i], first);
	}
	if (first)
		window_open();
	else
		window_close();
	return true;
}

static bool step_hit(MODEL *model)
{
	unsigned int times = 1 + pick(model, 4);
	struct member *member;

	trace(model, "%u hits on CPU %d", times, model->cpus[model->cpu]);
	for (member = model->members; member < model->members + MAX_MEMBERS; member++) {
		if (!member->used ||
		    (member->cpu >= 0 && member->cpu != model->cpus[model->cpu]))
			continue;
		if (member->gate < 0 || model->gates[member->gate].depth)
			member->count += times;
	}
	call_getppid(times);
	return true;
}

static bool step_move(MODEL *model)
{
	model->cpu = pick(model, model->nr_cpus);
	trace(model, "to CPU %d", model->cpus[model->cpu]);
	return !pin_to_cpu(model->cpus[model->cpu]);
}

static bool check_member(const MODEL *model, unsigned int nr)
{
	const struct member *member = &model->members[nr];
	unsigned int openings;
	struct gate_value value;

	if (!member->used)
		return true;
	openings = member->gate < 0 ? member->openings : model->gates[member->gate].openings;
	value = gate_read(member->fd);
	if (value.value == member->count && value.gate_count == openings)
		return true;
	fprintf(stderr, "# member %u on CPU %d: count %+lld, openings %+lld against the model\n",
		nr, member->cpu, (long long)(value.value - member->count),
		(long long)(value.gate_count - openings));
	return false;
}

static bool check_all(const MODEL *model)
{
	unsigned int nr;

	for (nr = 0; nr < MAX_MEMBERS; nr++) {
		if (!check_member(model, nr))
			return false;
	}
	return true;
}

static bool take_step(MODEL *model)
{
	model->idle = true;
	switch (pick(model, 40)) {
	case 0 ... 1:
		return step_found(model);
	case 2 ... 6:
		return step_join(model);
	case 7:
		return step_clear(model);
	case 8:
		return step_close(model);
	case 9 ... 14:
		return step_move(model);
	case 15 ... 18:
		trace(model, "read");
		return check_member(model, pick(model, MAX_MEMBERS));
	case 19 ... 27:
		return step_fire(model);
	default:
		return step_hit(model);
	}
}

FIXTURE_SETUP(gate_share_model)
{
	const char *asked = getenv("GATE_MODEL_SEED");

	if (triggers_open(_metadata, &self->triggers))
		return;
	self->attr = gate_attr(PERF_TYPE_TRACEPOINT,
			       tracepoint_id("syscalls/sys_enter_getppid"));
	for (self->nr_cpus = 0; self->nr_cpus < MAX_CPUS; self->nr_cpus++) {
		self->cpus[self->nr_cpus] = nth_cpu(self->nr_cpus);
		if (self->cpus[self->nr_cpus] < 0)
			break;
	}
	ASSERT_EQ(0, pin_to_cpu(self->cpus[0]));
	self->seed = asked ? strtoul(asked, NULL, 0) : clock_ns(CLOCK_REALTIME) / 1000;
	TH_LOG("GATE_MODEL_SEED=%u", self->seed);
}

FIXTURE_TEARDOWN(gate_share_model)
{
	triggers_close(&self->triggers);
}

TEST_F_TIMEOUT(gate_share_model, random_walk_agrees_with_its_model, 3600)
{
	const char *asked = getenv("GATE_MODEL_STEPS");
	unsigned int steps = asked ? strtoul(asked, NULL, 0) : DEFAULT_STEPS;

	for (; self->step < steps; self->step += !self->idle) {
		ASSERT_TRUE(take_step(self) && (self->step % 20 || check_all(self))) {
			print_trace(self);
		}
	}
	EXPECT_TRUE(check_all(self));
}

TEST_HARNESS_MAIN
