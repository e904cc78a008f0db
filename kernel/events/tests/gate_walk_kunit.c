// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit walk over the states that events, gates and contexts can be in.
 *
 *	open, close, SET_*, detach, JOIN_GATE, CLEAR_GATE   --.
 *	enable, disable                                       |
 *	fork, clone as thread, exec, exit                     +--> kernel --.
 *	CPU hotplug, migration to another CPU                 +--> model ---+--> equal?
 *	counting and firing, where the event runs, where    --'
 *	firings defer, and on another CPU
 *
 * Each step does one thing to the kernel and to a plain model of the drawing in
 * gate/gate.h, and then compares all of both: the gates, links, states, references,
 * accounts, counts and openings. Any step may lack memory for one of the allocations
 * that it makes, and then it must have changed nothing.
 *
 * The tasks obey one at a time and sleep otherwise. A place of the model is a context:
 * that of a CPU, or that of a task, which the task may exchange with one that it forks.
 *
 * gate_walk_kunit.seed= on the command line of the kernel takes another walk.
 */

#include <kunit/static_stub.h>
#include <kunit/test.h>
#include <linux/completion.h>
#include <linux/cpu.h>
#include <linux/irq_work.h>
#include <linux/kernel.h>
#include <linux/moduleparam.h>
#include <linux/perf_event.h>
#include <linux/prandom.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <linux/smp.h>

#include "../gate.h"
#include "../internal.h"
#include "../gate/gate.h"
#include "gate_walk_model.h"

#define WALK_ROUNDS	40
#define WALK_STEPS	200

static unsigned int walk_seed = 20091208;
module_param_named(seed, walk_seed, uint, 0);

static unsigned int pick(struct walk *walk, unsigned int n)
{
	return prandom_u32_state(&walk->rnd) % n;
}

static void *walk_zalloc(size_t size)
{
	struct walk *walk = kunit_get_current_test()->priv;

	if (walk->fail_nth && !--walk->fail_nth) {
		walk->failed = true;
		return NULL;
	}

	return kzalloc(size, GFP_KERNEL);
}

/* The tasks */

static int walk_obey(void *data);

static int walk_clone(struct walk_task *child, u64 flags, int exit_signal)
{
	struct kernel_clone_args args = {
		.flags		= flags | CLONE_UNTRACED,
		.exit_signal	= exit_signal,
		.fn		= walk_obey,
		.fn_arg		= child,
	};

	init_completion(&child->go);
	init_completion(&child->done);

	return kernel_clone(&args);
}

/* Count and fire, on the CPU of the event with preemption disabled. */
static void walk_fire(struct walk_firing *firing)
{
	local64_add(firing->count, &firing->copy->count);
	if (!firing->defer) {
		perf_gate_fire(firing->copy, PERF_GATE_BEFORE | PERF_GATE_AFTER);
		return;
	}

	guard(irqsave)();

	perf_gate_defer_begin();
	perf_gate_fire(firing->copy, PERF_GATE_BEFORE | PERF_GATE_AFTER);
	perf_gate_defer_end();
}

/* Tell whether an event that runs is active in its state, and its account has followed. */
static bool walk_follows(struct perf_event *event)
{
	struct perf_gate_account *account = event->gate_account;

	return !account ||
	       (hlist_unhashed(&account->active) == !event->gate_state &&
		account->split[0].open == perf_gate_wants_open(account));
}

/* Fire in a task. Return -EINVAL if an event of the task does not follow its gate. */
static int walk_fire_here(struct walk_firing *firing)
{
	struct perf_event *event;
	int ret = 0;

	guard(preempt)();

	walk_fire(firing);
	list_for_each_entry(event, &current->perf_event_ctxp->event_list, event_entry) {
		if (event->state < PERF_EVENT_STATE_INACTIVE)
			continue;
		/* Interrupts are on, so the work that the firing has queued is about to run. */
		while (event->gate_account && irq_work_is_busy(&event->gate_account->work))
			cpu_relax();
		if (!walk_follows(event))
			ret = -EINVAL;
	}

	return ret;
}

static void walk_fire_ipi(void *firing)
{
	walk_fire(firing);
}

/* Main function of the tasks. The test's thread, their parent, ignores their exit. */
static int walk_obey(void *data)
{
	struct walk_task *self = data;

	self->task = get_task_struct(current);
	for (;;) {
		complete(&self->done);
		wait_for_completion(&self->go);
		switch (self->action) {
		case WALK_FIRE:
			self->result = walk_fire_here(&self->firing);
			break;
		case WALK_RUN:
			complete(&self->done);
			while (!READ_ONCE(self->stop))
				cond_resched();
			break;
		case WALK_FORK:
			self->result = walk_clone(self->child, CLONE_PARENT, 0);
			break;
		case WALK_THREAD:
			self->result = walk_clone(self->child, CLONE_FS | CLONE_FILES | CLONE_VM |
						  CLONE_SIGHAND | CLONE_THREAD, 0);
			break;
		case WALK_EXEC:
			perf_event_exec();
			break;
		case WALK_EXIT:
			do_exit(0);
		}
	}
}

/* Wait until @task is off its CPU: a later switch from it could exchange contexts. */
static void walk_await(struct walk_task *task)
{
	wait_for_completion(&task->done);
	while (!wait_task_inactive(task->task, TASK_UNINTERRUPTIBLE))
		cond_resched();
}

static int walk_order(struct walk_task *task, enum walk_action action)
{
	task->action = action;
	complete(&task->go);
	walk_await(task);

	return task->result;
}

/* Let the task run, so that its events stay on its CPU until walk_stop(). */
static void walk_run(struct walk *walk, struct walk_task *task)
{
	int cpu = walk->cpus[raw_smp_processor_id() == walk->cpus[0]];

	/* On the CPU of the test, the task would not run during the step. */
	if (cpu != walk->offline)
		set_cpus_allowed_ptr(task->task, cpumask_of(cpu));
	task->stop = false;
	task->action = WALK_RUN;
	complete(&task->go);
	wait_for_completion(&task->done);
}

static void walk_stop(struct walk_task *task)
{
	WRITE_ONCE(task->stop, true);
	walk_await(task);
}

static void walk_end_task(struct walk_task *task)
{
	task->action = WALK_EXIT;
	complete(&task->go);
	while (!READ_ONCE(task->task->exit_state))
		schedule_timeout_uninterruptible(1);
	put_task_struct(task->task);
	task->task = NULL;
}

/* Return a random task, or NULL if there is none. */
static struct walk_task *pick_task(struct walk *walk)
{
	unsigned int i, first = pick(walk, WALK_TASKS);
	struct walk_task *task;

	for (i = 0; i < WALK_TASKS; i++) {
		task = &walk->tasks[(first + i) % WALK_TASKS];
		if (task->task)
			return task;
	}

	return NULL;
}

static int find_place(struct walk *walk, struct perf_event_context *ctx)
{
	int place;

	for (place = 0; place < WALK_PLACES; place++) {
		if (ctx && walk->places[place] == ctx)
			return place;
	}

	return NONE;
}

static int new_place(struct walk *walk, struct perf_event_context *ctx)
{
	int place = find_place(walk, ctx), i;

	if (place != NONE)
		return place;

	for (place = 0; place < WALK_PLACES; place++) {
		for (i = 0; i < WALK_EVENTS; i++) {
			if (walk->events[i].copies[place].there)
				break;
		}
		if (!walk->places[place] && i == WALK_EVENTS)
			break;
	}
	/* There are more places than tasks and events, so one of them is free. */
	walk->places[place] = ctx;

	return place;
}

/* The steps. Each returns whether the kernel answered as the model does. */

/* Return a random open event, or NULL if there is none. */
static struct walk_event *pick_event(struct walk *walk)
{
	unsigned int i, first = pick(walk, WALK_EVENTS);
	struct walk_event *event;

	for (i = 0; i < WALK_EVENTS; i++) {
		event = &walk->events[(first + i) % WALK_EVENTS];
		if (event->event)
			return event;
	}

	return NULL;
}

static void walk_init_attr(struct walk *walk, struct walk_event *event,
			   struct perf_event_attr *attr)
{
	*attr = (struct perf_event_attr) {
		.type		= PERF_TYPE_SOFTWARE,
		.size		= sizeof(*attr),
		.config		= PERF_COUNT_SW_DUMMY,
		.inherit	= event->inherit,
		.remove_on_exec	= event->remove_on_exec,
		.start_paused	= event->start_paused,
		.gate_nest	= event->nest,
	};
	if (event->clock)
		attr->config = event->cpu == NONE ? PERF_COUNT_SW_TASK_CLOCK :
						    PERF_COUNT_SW_CPU_CLOCK;
	else if (!pick(walk, 3))
		attr->sample_period = 1 << 30;
}

static bool step_open(struct walk *walk)
{
	struct walk_event *event = &walk->events[pick(walk, WALK_EVENTS)];
	struct task_struct *task = walk->tasks->task;
	struct perf_event_attr attr;
	struct perf_event *new;

	/* Open all events on the first task and two CPUs, so that many share a context. */
	if (event->event || !task)
		return true;

	*event = (struct walk_event) {
		.inherit	= walk->inherit ^ !pick(walk, 16),
		.remove_on_exec	= walk->remove_on_exec ^ !pick(walk, 16),
		.start_paused	= !pick(walk, 3),
		.nest		= walk->nest ^ !pick(walk, 16),
		.clock		= !pick(walk, 8),
		.cpu		= NONE,
		.gate		= NONE,
	};
	if (walk->on_cpus ^ !pick(walk, 8)) {
		event->cpu = walk->cpus[!!pick(walk, 4)];
		task = NULL;
	}
	walk_init_attr(walk, event, &attr);
	scnprintf(walk->step, sizeof(walk->step), "open %td on CPU %d", event - walk->events,
		  event->cpu);

	new = perf_event_create_kernel_counter(&attr, event->cpu, task, NULL, NULL);
	if (IS_ERR(new)) {
		if (walk->failed)
			return PTR_ERR(new) == -ENOMEM;
		return event->cpu == walk->offline && PTR_ERR(new) == -ENODEV;
	}

	event->event = new;
	event->target = task;
	event->home = new_place(walk, new->ctx);
	event->copies[event->home].there = true;
	event->copies[event->home].open = true;
	if (event->start_paused) {
		event->copies[event->home].open = false;
		model_begin(walk, event);
	}

	return !walk->failed && (event->cpu == NONE || event->cpu != walk->offline);
}

static void close_event(struct walk *walk, struct walk_event *event)
{
	perf_event_release_kernel(event->event);
	model_detach(walk, event);
	memset(event, 0, sizeof(*event));
}

static bool step_close(struct walk *walk)
{
	struct walk_event *event = pick_event(walk);

	if (event) {
		scnprintf(walk->step, sizeof(walk->step), "close %td", event - walk->events);
		close_event(walk, event);
	}

	return true;
}

static bool step_link(struct walk *walk)
{
	struct walk_event *trigger = pick_event(walk), *target = pick_event(walk);
	unsigned int role = pick(walk, 2) ? PERF_GATE_STARTER : PERF_GATE_STOPPER;
	struct walk_gate *gate;
	int want, ret;

	if (!trigger || !target)
		return true;

	scnprintf(walk->step, sizeof(walk->step), "link %td to %td as %u",
		  trigger - walk->events, target - walk->events, role);
	want = expect_link(walk, trigger, target, role);
	ret = perf_gate_link(trigger->event, target->event, role);
	if (walk->failed)
		return ret == -ENOMEM;
	if (ret || want)
		return ret == want;

	gate = model_begin(walk, target);
	if (role == PERF_GATE_STARTER && !nr_links(gate, PERF_GATE_STARTER))
		model_set_all(walk, gate, false);
	gate->roles[trigger - walk->events] |= role;

	return true;
}

static bool step_unlink(struct walk *walk)
{
	unsigned int role = pick(walk, 2) ? PERF_GATE_STARTER : PERF_GATE_STOPPER;
	struct walk_event *trigger = pick_event(walk);
	struct perf_event_context *ctx;
	struct walk_gate *gate;

	if (!trigger)
		return true;

	scnprintf(walk->step, sizeof(walk->step), "unlink %td as %u", trigger - walk->events,
		  role);
	ctx = perf_event_ctx_lock(trigger->event);
	perf_gate_unlink_trigger(trigger->event, role);
	perf_event_ctx_unlock(trigger->event, ctx);

	for (gate = walk->gates; gate < walk->gates + WALK_EVENTS; gate++) {
		if (!(gate->roles[trigger - walk->events] & role))
			continue;
		gate->roles[trigger - walk->events] &= ~role;
		if (!nr_links(gate, PERF_GATE_TOGGLE))
			model_set_all(walk, gate, true);
	}

	return true;
}

static bool step_join(struct walk *walk)
{
	struct walk_event *event = pick_event(walk), *other = pick_event(walk);
	struct walk_gate *gate = NULL;
	int want, ret;

	if (!event || !other)
		return true;

	scnprintf(walk->step, sizeof(walk->step), "join %td to %td", event - walk->events,
		  other - walk->events);
	want = expect_join(walk, event, other);
	ret = perf_gate_link(event->event, other->event, PERF_GATE_MEMBER);
	/* The kernel gives @other a gate before it checks whether @event can join. */
	if (!want && (!walk->failed || other->event->gate)) {
		gate = model_begin(walk, other);
		if (gate->roles[event - walk->events])
			want = -EINVAL;
	}
	if (walk->failed)
		return ret == -ENOMEM;
	if (!ret && !want)
		model_enter(walk, event, gate, nr_links(gate, PERF_GATE_STARTER) ?
					       0 : gate->depth[other->home]);

	return ret == want;
}

static bool step_clear(struct walk *walk)
{
	struct walk_event *event = pick_event(walk);
	struct perf_event_context *ctx;
	int place;

	if (!event)
		return true;

	scnprintf(walk->step, sizeof(walk->step), "clear %td", event - walk->events);
	ctx = perf_event_ctx_lock(event->event);
	perf_gate_exit(event->event, true);
	perf_event_ctx_unlock(event->event, ctx);

	model_leave(walk, event);
	for (place = 0; place < WALK_PLACES; place++) {
		struct walk_copy *copy = &event->copies[place];

		if (!copy->there || copy->dead || copy->open)
			continue;
		copy->open = true;
		copy->opened++;
	}

	return true;
}

static bool step_fork(struct walk *walk)
{
	struct walk_task *child = walk->tasks, *task = pick_task(walk);
	struct perf_event_context *ctx, *new;
	bool thread = pick(walk, 2), exchanged;
	int ret, place;

	while (child < walk->tasks + WALK_TASKS && child->task)
		child++;
	if (!task || child == walk->tasks + WALK_TASKS)
		return true;

	scnprintf(walk->step, sizeof(walk->step), "%s %td from %td", thread ? "thread" : "fork",
		  child - walk->tasks, task - walk->tasks);
	ctx = task->task->perf_event_ctxp;
	task->child = child;
	ret = walk_order(task, thread ? WALK_THREAD : WALK_FORK);
	if (ret < 0)
		return walk->failed && ret == -ENOMEM;

	walk_await(child);
	new = child->task->perf_event_ctxp;
	if (!ctx || !new)
		return !walk->failed;

	exchanged = new == ctx;
	if (exchanged)
		new = task->task->perf_event_ctxp;
	place = new_place(walk, new);
	model_fork(walk, find_place(walk, ctx), place, thread);

	/* Contexts that hold states stay with their tasks. */
	return !walk->failed && !(exchanged && nr_states(walk, place));
}

static bool step_exec(struct walk *walk)
{
	struct walk_task *task = pick_task(walk);
	int place;

	if (!task)
		return true;

	scnprintf(walk->step, sizeof(walk->step), "exec %td", task - walk->tasks);
	place = find_place(walk, task->task->perf_event_ctxp);
	walk_order(task, WALK_EXEC);
	if (place != NONE)
		model_end(walk, place, true);

	return true;
}

static void end_task(struct walk *walk, struct walk_task *task)
{
	int place = find_place(walk, task->task->perf_event_ctxp);

	walk_end_task(task);
	if (place == NONE)
		return;
	model_end(walk, place, false);
	walk->places[place] = NULL;
}

static bool step_exit(struct walk *walk)
{
	struct walk_task *task = pick_task(walk);

	/* Rarely end the first task: without it, few steps can do anything. */
	if (!task || (task == walk->tasks && pick(walk, 8)))
		return true;

	scnprintf(walk->step, sizeof(walk->step), "exit %td", task - walk->tasks);
	end_task(walk, task);

	return true;
}

/* Return @event, or the event inherited from it, that is in @ctx, or NULL. */
static struct perf_event *find_copy(struct walk_event *event, struct perf_event_context *ctx)
{
	struct perf_event *child;

	if (event->event->ctx == ctx)
		return event->event;

	list_for_each_entry(child, &event->event->child_list, child_list) {
		if (child->ctx == ctx)
			return child;
	}

	return NULL;
}

/*
 * Let the model count and fire what @firing asks for. An event that is disabled, or off its
 * CPU for good, does neither.
 */
static void expect_firing(struct walk *walk, struct walk_event *event, int place,
			  struct walk_firing *firing)
{
	struct walk_copy *copy = &event->copies[place];

	firing->count = is_off(copy) ? 0 : pick(walk, 100);
	firing->defer = !pick(walk, 3);
	if (is_off(copy))
		return;
	if (is_open(walk, event, place))
		copy->inside += firing->count;
	model_fire(walk, event, place);
}

/*
 * Wait for the irq_work of all events in a place. Return whether all events that run there
 * follow their gates.
 */
static bool sync_place(struct walk *walk, int place)
{
	struct perf_event_context *ctx = walk->places[place];
	struct walk_event *event;
	struct perf_event *copy;

	for (event = walk->events; event < walk->events + WALK_EVENTS; event++) {
		if (!event->event || !event->copies[place].there)
			continue;
		copy = find_copy(event, ctx);
		if (!copy || !copy->gate_account)
			continue;
		irq_work_sync(&copy->gate_account->work);

		guard(raw_spinlock_irq)(&ctx->lock);
		if (copy->state == PERF_EVENT_STATE_ACTIVE && !walk_follows(copy))
			return false;
	}

	return true;
}

static bool fire_on_cpu(struct walk *walk, struct walk_event *event)
{
	struct walk_firing firing = { .copy = event->event };

	if (event->cpu == walk->offline)
		return true;

	scnprintf(walk->step, sizeof(walk->step), "fire %td on CPU %d", event - walk->events,
		  event->cpu);
	expect_firing(walk, event, event->home, &firing);
	if (smp_call_function_single(event->cpu, walk_fire_ipi, &firing, true))
		return false;

	return sync_place(walk, event->home);
}

static bool step_fire(struct walk *walk)
{
	struct walk_event *event = pick_event(walk);
	struct walk_task *task = pick_task(walk);
	int place, tries = 0;

	if (event && event->cpu != NONE)
		return fire_on_cpu(walk, event);
	if (!task)
		return true;

	place = find_place(walk, task->task->perf_event_ctxp);
	do {
		event = pick_event(walk);
		if (place == NONE || !event || tries++ == WALK_EVENTS)
			return true;
	} while (event->clock || !event->copies[place].there || event->copies[place].dead);

	scnprintf(walk->step, sizeof(walk->step), "fire %td in %td", event - walk->events,
		  task - walk->tasks);
	task->firing.copy = find_copy(event, walk->places[place]);
	if (!task->firing.copy)
		return false;
	expect_firing(walk, event, place, &task->firing);

	return !walk_order(task, WALK_FIRE);
}

/*
 * Fire for a task from here, as perf_tp_event_target_task() does. The task may run on
 * another CPU meanwhile, so that its members follow by irq_work there.
 */
static bool step_deliver(struct walk *walk)
{
	unsigned int place = pick(walk, WALK_PLACES), tries = 0;
	struct walk_event *event = pick_event(walk);
	struct walk_firing firing = {};
	struct perf_event_context *ctx;

	if (!event || event->clock || event->cpu != NONE)
		return true;

	do {
		if (tries++ == WALK_PLACES)
			return true;
		place = (place + 1) % WALK_PLACES;
		ctx = walk->places[place];
	} while (!ctx || !event->copies[place].there || event->copies[place].dead);

	scnprintf(walk->step, sizeof(walk->step), "deliver to %td in place %u",
		  event - walk->events, place);
	firing.copy = find_copy(event, ctx);
	if (!firing.copy)
		return false;
	expect_firing(walk, event, place, &firing);
	firing.defer = false;
	scoped_guard(raw_spinlock_irq, &ctx->lock) {
		perf_gate_catch_up(firing.copy);
		walk_fire(&firing);
	}

	return sync_place(walk, place);
}

/* Enable or disable an opened event. An event of an offline CPU stays off when the CPU is back. */
static bool step_enable(struct walk *walk)
{
	struct walk_event *event = pick_event(walk);
	struct walk_copy *copy;

	if (!event)
		return true;

	copy = &event->copies[event->home];
	if (copy->dead || copy->removed)
		return true;

	scnprintf(walk->step, sizeof(walk->step), "%sable %td", copy->disabled ? "en" : "dis",
		  event - walk->events);
	if (copy->disabled)
		perf_event_enable(event->event);
	else
		perf_event_disable(event->event);
	copy->disabled = !copy->disabled;

	return true;
}

static bool set_online(struct walk *walk)
{
	if (walk->offline == NONE)
		return true;

	if (add_cpu(walk->offline))
		return false;
	walk->offline = NONE;

	return true;
}

static bool step_hotplug(struct walk *walk)
{
	struct walk_event *event;
	int cpu = walk->cpus[1];

	if (cpu == walk->cpus[0])
		return true;

	scnprintf(walk->step, sizeof(walk->step), "CPU %d goes %sline", cpu,
		  walk->offline == NONE ? "off" : "on");
	if (walk->offline != NONE)
		return set_online(walk);

	if (remove_cpu(cpu))
		return false;
	walk->offline = cpu;
	for (event = walk->events; event < walk->events + WALK_EVENTS; event++) {
		if (event->event && event->cpu == cpu)
			event->copies[event->home].removed = true;
	}

	return true;
}

/* Move the events that a PMU has on one CPU to the other, where they have no gate. */
static bool step_migrate(struct walk *walk)
{
	struct walk_event *event = pick_event(walk), *other;
	int from, to, place;

	if (!event || event->cpu == NONE || event->copies[event->home].removed ||
	    walk->offline != NONE)
		return true;

	from = event->cpu;
	to = walk->cpus[from == walk->cpus[0]];
	if (from == to)
		return true;

	scnprintf(walk->step, sizeof(walk->step), "migrate from CPU %d to %d", from, to);
	perf_pmu_migrate_context(event->event->pmu, from, to);
	for (other = walk->events; other < walk->events + WALK_EVENTS; other++) {
		if (!other->event || other->cpu != from || other->clock != event->clock ||
		    other->copies[other->home].removed)
			continue;
		model_detach(walk, other);
		place = new_place(walk, other->event->ctx);
		if (place == other->home)
			return false;
		other->copies[place] = other->copies[other->home];
		/* A migration enables the events. */
		other->copies[place].disabled = false;
		memset(&other->copies[other->home], 0, sizeof(other->copies[other->home]));
		other->home = place;
		other->cpu = to;
	}

	return true;
}

/* The comparison. Its functions return what differs, or NULL. */

static const char *differ_copy(struct walk *walk, struct walk_event *event, int place,
			       struct perf_event *copy)
{
	struct perf_gate_account *account = copy->gate_account;
	struct walk_gate *gate = gate_of(walk, event);
	struct perf_gate_state *state = copy->gate_state;

	if (!account != !event->account && place == event->home)
		return "account";
	if (!state != !gate)
		return "member";
	if (account && perf_gate_wants_open(account) != is_open(walk, event, place))
		return "open";
	if (is_off(&event->copies[place])) {
		if (account && !hlist_unhashed(&account->active))
			return "activity";
	} else if (event->cpu != NONE && !walk_follows(copy)) {
		return "account of an event that runs";
	}
	if (!state)
		return NULL;
	if (state->gate != event->event->gate)
		return "gate of a state";
	if (place != event->home && state != perf_gate_find_state(copy->ctx, state->gate))
		return "state of a context";
	if (place != event->home && state->refs != nr_copies(walk, gate, place, false))
		return "references of a state";
	if (atomic_read(&state->depth) != gate->depth[place])
		return "depth";
	if (atomic64_read(&state->nr_opened) != gate->opened[place])
		return "openings of a state";

	return NULL;
}

static const char *differ_event(struct walk *walk, struct walk_event *event)
{
	u64 inside = event->gone_inside, opened = event->gone_opened, enabled, running;
	struct perf_event_context *ctx;
	struct perf_event *copy;
	const char *what;
	/* One for each bit of PERF_FORMAT_GATE */
	u64 values[3];
	int place;

	for (place = 0; place < WALK_PLACES; place++) {
		if (!event->copies[place].there)
			continue;
		copy = place == event->home ? event->event :
					      find_copy(event, walk->places[place]);
		if (!copy)
			return "inherited event";
		what = differ_copy(walk, event, place, copy);
		if (what)
			return what;
		inside += event->copies[place].inside;
		opened += openings(walk, event, place);
	}

	if (!event->clock && perf_event_read_value(event->event, &enabled, &running) != inside)
		return "count";
	ctx = perf_event_ctx_lock(event->event);
	perf_gate_read_values(event->event, PERF_FORMAT_GATE_COUNT, U64_MAX, values);
	perf_event_ctx_unlock(event->event, ctx);

	return values[0] != opened ? "gate_count" : NULL;
}

static const char *differ_gate(struct walk *walk, struct walk_gate *gate)
{
	unsigned int members = nr_members(walk, gate), links = nr_links(gate, PERF_GATE_TOGGLE);
	struct perf_gate *real = gate->real;
	unsigned int states = 0;
	int place, home = NONE, i;

	for (i = 0; i < WALK_EVENTS; i++) {
		if (!is_member(&walk->events[i], walk, gate))
			continue;
		home = walk->events[i].home;
		if (walk->events[i].event->gate != real)
			return "gate";
	}
	for (place = 0; place < WALK_PLACES; place++)
		states += place != home && nr_copies(walk, gate, place, false);

	if (list_count_nodes(&real->members) != members || real->load != members)
		return "members";
	if (list_count_nodes(&real->links) != links)
		return "links";
	if (real->nr_starters != nr_links(gate, PERF_GATE_STARTER) ||
	    real->nr_stoppers != nr_links(gate, PERF_GATE_STOPPER))
		return "roles";
	if (refcount_read(&real->refs) != members + links + states + 1)
		return "references of a gate";

	return NULL;
}

static const char *differ(struct walk *walk)
{
	struct walk_event *event;
	struct walk_gate *gate;
	const char *what;
	int place;

	for (event = walk->events; event < walk->events + WALK_EVENTS; event++) {
		unsigned int links = 0;

		if (!event->event)
			continue;
		if (!event->event->gate != !gate_of(walk, event))
			return "gate of an event";
		what = differ_event(walk, event);
		if (!what && event->gate != NONE)
			what = differ_gate(walk, gate_of(walk, event));
		if (what)
			return what;
		for (gate = walk->gates; gate < walk->gates + WALK_EVENTS; gate++)
			links += !!gate->roles[event - walk->events];
		if (hlist_count_nodes(&event->event->gate_links) != links)
			return "links of an event";
	}

	if (walk->leaked)
		return "the end of a gate";

	/* A context holds the states of its inherited members' gates, and no others. */
	for (place = 0; place < WALK_PLACES; place++) {
		struct perf_event_context *ctx = walk->places[place];
		unsigned int has = 0;
		struct rb_node *node;

		if (!ctx)
			continue;
		for (node = rb_first(&ctx->gate_states.tree[0]); node; node = rb_next(node))
			has++;
		if (has != nr_states(walk, place))
			return "states of a context";
	}

	return NULL;
}

struct walk_step {
	bool		(*step)(struct walk *walk);
	unsigned int	weight;
	/* A task may run during the step. */
	bool		beside_task;
};

static const struct walk_step walk_steps[] = {
	{ step_open, 16, true },
	{ step_close, 4, true },
	{ step_link, 12, true },
	{ step_unlink, 2, true },
	{ step_join, 12, true },
	{ step_clear, 3, true },
	{ step_enable, 4, true },
	{ step_hotplug, 1, true },
	{ step_migrate, 2, true },
	{ step_fork, 16 },
	{ step_exec, 1 },
	{ step_exit, 5 },
	{ step_fire, 30 },
	{ step_deliver, 8, true },
};

static bool walk_take_step(struct walk *walk, bool first)
{
	const struct walk_step *step = walk_steps;
	struct walk_task *runs = NULL;
	unsigned int total = 0, nr, i;
	bool ret;

	for (i = 0; i < ARRAY_SIZE(walk_steps); i++)
		total += walk_steps[i].weight;
	/* The first steps of a round open events in one context. */
	for (nr = first ? 0 : pick(walk, total); nr >= step->weight; step++)
		nr -= step->weight;

	walk->failed = false;
	walk->fail_nth = pick(walk, 4) ? 0 : 1 + pick(walk, 6);
	if (step->beside_task && pick(walk, 2))
		runs = pick_task(walk);
	if (runs)
		walk_run(walk, runs);
	ret = step->step(walk);
	if (runs)
		walk_stop(runs);
	walk->fail_nth = 0;

	return ret;
}

/* Return what differs after the step that failed, or NULL. */
static const char *walk_round(struct walk *walk, unsigned int *nr)
{
	const char *what;

	for (*nr = 0; *nr < WALK_STEPS; ++*nr) {
		if (!walk_take_step(walk, *nr < WALK_EVENTS))
			return "answer";
		what = differ(walk);
		if (what)
			return what;
	}

	return NULL;
}

static int walk_begin(struct walk *walk, unsigned int seed)
{
	int ret;

	memset(walk, 0, sizeof(*walk));
	prandom_seed_state(&walk->rnd, seed);
	walk->inherit = pick(walk, 8);
	walk->remove_on_exec = !pick(walk, 4);
	walk->nest = !pick(walk, 4);
	walk->on_cpus = !pick(walk, 3);
	walk->offline = NONE;
	walk->cpus[0] = cpumask_first(cpu_online_mask);
	walk->cpus[1] = cpumask_last(cpu_online_mask);
	ret = walk_clone(walk->tasks, 0, SIGCHLD);
	if (ret < 0)
		return ret;
	walk_await(walk->tasks);

	return 0;
}

/* Close the events, either after their tasks have ended or before. */
static void walk_finish(struct walk *walk)
{
	bool offline = pick(walk, 2);
	bool tasks_first = pick(walk, 2);
	int i;

	/* Close some events while their CPU is offline. */
	if (!offline)
		set_online(walk);
	for (i = 0; tasks_first && i < WALK_TASKS; i++) {
		if (walk->tasks[i].task)
			end_task(walk, &walk->tasks[i]);
	}
	for (i = 0; i < WALK_EVENTS; i++) {
		if (walk->events[i].event)
			close_event(walk, &walk->events[i]);
	}
	for (i = 0; i < WALK_TASKS; i++) {
		if (walk->tasks[i].task)
			end_task(walk, &walk->tasks[i]);
	}
	set_online(walk);
}

static void kernel_and_model_agree_after_each_step(struct kunit *test)
{
	struct walk *walk = kunit_kzalloc(test, sizeof(*walk), GFP_KERNEL);
	unsigned int round, nr;
	const char *what;

	KUNIT_ASSERT_NOT_NULL(test, walk);
	test->priv = walk;
	kunit_activate_static_stub(test, perf_gate_zalloc, walk_zalloc);

	for (round = 0; round < WALK_ROUNDS; round++) {
		KUNIT_ASSERT_EQ(test, walk_begin(walk, walk_seed + round), 0);
		what = walk_round(walk, &nr);
		if (what)
			KUNIT_FAIL(test, "seed %u, step %u, %s%s: %s differs", walk_seed + round,
				   nr, walk->step, walk->failed ? " without memory" : "", what);
		walk_finish(walk);
		if (what)
			break;
	}
}

static struct kunit_case walk_cases[] = {
	KUNIT_CASE_SLOW(kernel_and_model_agree_after_each_step),
	{}
};

static struct kunit_suite walk_suite = {
	.name		= "perf_gate_walk",
	.test_cases	= walk_cases,
};

kunit_test_suite(walk_suite);

MODULE_DESCRIPTION("KUnit walk over the states of performance event gates");
MODULE_LICENSE("GPL");
