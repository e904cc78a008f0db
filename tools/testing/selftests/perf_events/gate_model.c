// SPDX-License-Identifier: GPL-2.0
/*
 * perf gate selftests - a random walk over events, links and tasks, and a model
 *
 * The model follows Documentation/userspace-api/perf_gate.rst, for tracepoint
 * events of system calls. It predicts each count, each number of openings and each
 * error. It leaves out two cases that are not specified: a target that counts the
 * occurrence that moves its gate, and a gate that two triggers move at one
 * occurrence.
 *
 * GATE_MODEL_SEED repeats a walk, whose seed each run prints; GATE_MODEL_STEPS
 * makes it longer.
 */
#define _GNU_SOURCE

#include <pthread.h>
#include <sys/time.h>

#include "../kselftest_harness.h"
#include "gate_model.h"

#define DEFAULT_STEPS	10000

FIXTURE(gate_model)
{
	struct model model;
};

FIXTURE_VARIANT(gate_model)
{
	bool inherit;
};

FIXTURE_VARIANT_ADD(gate_model, one_task) {
	.inherit = false,
};

FIXTURE_VARIANT_ADD(gate_model, family) {
	.inherit = true,
};

/* The tasks */

static struct task *tasks_of_all;

static void obey(struct task *task);

static void *obey_as_thread(void *task)
{
	obey(task);
	return NULL;
}

/*
 * Children have the tester as their parent, whatever task forks them, so that it can
 * wait for them. The C library does not know them.
 */
static bool make_task(char action, struct task *task)
{
	pthread_attr_t attr;
	pthread_t thread;
	long child;

	if (action == 'f') {
		child = syscall(__NR_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0);
		if (!child) {
			obey(task);
			_exit(0);
		}
		return child > 0;
	}
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	return !pthread_create(&thread, &attr, obey_as_thread, task);
}

static void obey(struct task *task)
{
	pid_t tid = syscall(__NR_gettid);
	int fd = task->puppet.puppet_end;
	struct command command;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (write(fd, &tid, sizeof(tid)) == sizeof(tid) &&
	       read(fd, &command, sizeof(command)) == sizeof(command)) {
		switch (command.action) {
		case 'h':
			while (command.times--)
				syscall(calls[command.argument].number, 0);
			break;
		case 'm':
			pin_to_cpu(command.argument);
			break;
		case 'f':
		case 't':
			if (!make_task(command.action, &tasks_of_all[command.argument]))
				_exit(1);
			break;
		case 'x':
			return;
		}
	}
}

/* Returns false if the task does not answer. */
static bool order(struct task *task, char action, unsigned int argument, unsigned int times)
{
	struct command command = { action, argument, times };
	pid_t tid;

	if (write(task->puppet.tester_end, &command, sizeof(command)) != sizeof(command))
		return false;
	return action == 'x' ||
	       read(task->puppet.tester_end, &tid, sizeof(tid)) == sizeof(tid);
}

/* Each step does the same in the kernel and in the model, and returns whether both agree. */

static bool step_open(struct model *model, bool inherit)
{
	struct perf_event_attr attr = gate_attr(PERF_TYPE_TRACEPOINT, 0);
	struct event *event = &model->events[pick(model, MAX_EVENTS)];
	bool paused;

	if (event->used)
		return true;
	*event = (struct event) { .used = true, .births = model->births };
	event->enabled = pick(model, 8);
	event->call = pick(model, ARRAY_SIZE(calls));
	event->inherit = inherit && pick(model, 4);
	paused = !pick(model, 4);
	if (!pick(model, 4))
		event->period = 1 + pick(model, 3);
	else
		event->nest = !pick(model, 3);
	/*
	 * Sampling events are used as triggers only, because a closed one might or
	 * might not fire.
	 */
	paused &= !event->period;
	event->in[0] = (struct instance) { .there = true, .depth = !paused };

	attr.config = model->tracepoint_ids[event->call];
	attr.sample_period = event->period;
	attr.inherit = event->inherit;
	attr.disabled = !event->enabled;
	if (paused)
		gate_attr_set_bit(&attr, GATE_BIT_START_PAUSED);
	if (event->nest)
		gate_attr_set_bit(&attr, GATE_BIT_NEST);
	event->fd = gate_open(&attr, model->tasks[0].pid, -1);
	trace(model, "open %td: call %u period %u%s%s%s%s", event - model->events, event->call,
	      event->period, event->inherit ? " inherit" : "", event->nest ? " nest" : "",
	      paused ? " paused" : "", event->enabled ? "" : " disabled");
	return event->fd >= 0;
}

/* The gates that it moved keep their state. */
static bool step_close(struct model *model)
{
	unsigned int nr = pick(model, MAX_EVENTS), i;
	struct event *event = &model->events[nr];

	if (!event->used)
		return true;
	trace(model, "close %u", nr);
	event->used = false;
	for (i = 0; i < MAX_EVENTS; i++) {
		model->events[i].triggers[STARTER] &= ~(1U << nr);
		model->events[i].triggers[STOPPER] &= ~(1U << nr);
	}
	return !close(event->fd);
}

static bool in_same_tasks(const struct event *a, const struct event *b)
{
	unsigned int task;

	for (task = 0; task < MAX_TASKS; task++) {
		if (a->in[task].there != b->in[task].there)
			return false;
	}
	return true;
}

static bool is_specified(const struct model *model, const struct event *trigger,
			 const struct event *target)
{
	unsigned int all = target->triggers[STARTER] | target->triggers[STOPPER], i;

	if (trigger == target || trigger->inherit != target->inherit)
		return true;
	if (target->period || trigger->call == target->call || !in_same_tasks(trigger, target))
		return false;
	/* Equal tasks that exchanged their contexts exchanged the phases of periods, too. */
	if (trigger->inherit && trigger->period > 1 && trigger->births != model->births)
		return false;
	for (i = 0; i < MAX_EVENTS; i++) {
		if (all & 1U << i && &model->events[i] != trigger &&
		    model->events[i].call == trigger->call)
			return false;
	}
	return true;
}

static int link_error(const struct event *trigger, const struct event *target,
		      enum role role, int nr)
{
	if (trigger == target || trigger->inherit != target->inherit)
		return -EINVAL;
	if (target->triggers[role] & 1U << nr)
		return -EEXIST;
	if (target->triggers[!role] & 1U << nr && target->nest)
		return -EINVAL;
	return 0;
}

static bool step_link(struct model *model)
{
	unsigned int nr = pick(model, MAX_EVENTS), to = pick(model, MAX_EVENTS);
	struct event *trigger = &model->events[nr], *target = &model->events[to];
	enum role role = pick(model, 2);
	int expected, error;

	if (!trigger->used || !target->used || !is_specified(model, trigger, target))
		return true;
	expected = link_error(trigger, target, role, nr);
	if (role == STARTER)
		error = set_starter(trigger->fd, target->fd);
	else
		error = set_stopper(trigger->fd, target->fd);
	trace(model, "%s %u of %u: %d, expected %d", role ? "stopper" : "starter", nr, to,
	      error, expected);
	/*
	 * Equal tasks may have exchanged their contexts between the opening of the two
	 * events. This error is found before any other.
	 */
	if (error == -EINVAL && trigger->inherit &&
	    trigger->births != target->births)
		return true;
	if (!expected) {
		if (role == STARTER && !target->triggers[STARTER])
			set_gates(target, false);
		target->triggers[role] |= 1U << nr;
	}
	return error == expected;
}

static bool step_drop(struct model *model)
{
	unsigned int nr = pick(model, MAX_EVENTS), i;
	enum role role = pick(model, 2);

	if (!model->events[nr].used)
		return true;
	trace(model, "drop %u as %s", nr, role ? "stopper" : "starter");
	for (i = 0; i < MAX_EVENTS; i++) {
		if (!model->events[i].used || !(model->events[i].triggers[role] & 1U << nr))
			continue;
		model->events[i].triggers[role] &= ~(1U << nr);
		open_if_free(&model->events[i]);
	}
	return !(role ? set_stopper(model->events[nr].fd, -1) :
			set_starter(model->events[nr].fd, -1));
}

static bool step_control(struct model *model)
{
	unsigned int nr = pick(model, MAX_EVENTS), what = pick(model, 5), task;
	struct event *event = &model->events[nr];

	if (!event->used)
		return true;
	trace(model, "control %u: %s", nr, what < 2 ? "enable" : what == 2 ? "disable" :
	      what == 3 ? "reset" : "clear gate");
	switch (what) {
	case 0 ... 1:
		event->enabled = true;
		return !gate_ioctl(event->fd, PERF_EVENT_IOC_ENABLE, 0);
	case 2:
		event->enabled = false;
		return !gate_ioctl(event->fd, PERF_EVENT_IOC_DISABLE, 0);
	case 3:
		/*
		 * Threads exchange contexts together with their counts. So the counts
		 * of ended threads that are not reset may belong to a thread that
		 * lives.
		 */
		if (event->exited)
			return true;
		for (task = 0; task < MAX_TASKS; task++)
			event->in[task].count = 0;
		return !gate_ioctl(event->fd, PERF_EVENT_IOC_RESET, 0);
	default:
		event->triggers[STARTER] = 0;
		event->triggers[STOPPER] = 0;
		open_if_free(event);
		return !clear_gate(event->fd);
	}
}

/* Pick an existing task, the first one more often than others. */
static unsigned int pick_task(struct model *model)
{
	unsigned int nr = pick(model, MAX_TASKS);

	return model->tasks[nr].alive ? nr : 0;
}

static bool step_hit(struct model *model)
{
	unsigned int call = pick(model, ARRAY_SIZE(calls)), times = 1 + pick(model, 4), i;
	unsigned int task = pick_task(model);

	trace(model, "task %u: %u times call %u", task, times, call);
	for (i = 0; i < times; i++)
		hit_once(model, task, call);
	return order(&model->tasks[task], 'h', call, times);
}

static bool step_move(struct model *model)
{
	unsigned int task = pick_task(model);
	int cpu = nth_cpu(pick(model, 2));

	if (cpu < 0)
		return true;
	trace(model, "task %u: to CPU %d", task, cpu);
	return order(&model->tasks[task], 'm', cpu, 0);
}

/* Copy each inherited event; a process starts in the state of the task that forks. */
static bool step_birth(struct model *model)
{
	unsigned int from = pick_task(model), nr = pick(model, MAX_TASKS), i;
	struct task *task = &model->tasks[nr];
	char action = pick(model, 2) ? 'f' : 't';
	struct event *event;

	if (task->alive)
		return true;
	trace(model, "task %u: %s task %u", from, action == 'f' ? "forks" : "starts", nr);
	if (!order(&model->tasks[from], action, nr, 0) ||
	    read(task->puppet.tester_end, &task->tid, sizeof(pid_t)) != sizeof(pid_t))
		return false;
	model->births++;
	task->alive = true;
	task->process = action == 'f' ? nr : model->tasks[from].process;
	task->pid = model->tasks[task->process].tid;
	for (i = 0; i < MAX_EVENTS; i++) {
		event = &model->events[i];
		event->in[nr] = (struct instance) {
			.there = event->inherit && event->in[from].there,
			.depth = event->in[from].depth,
		};
		/* A thread starts outside of the windows that triggers open. */
		if (action == 't' && event->triggers[STARTER])
			event->in[nr].depth = 0;
	}
	return true;
}

static void forget_task(struct model *model, unsigned int nr)
{
	unsigned int i;

	for (i = 0; i < MAX_EVENTS; i++) {
		struct event *event = &model->events[i];

		event->exited |= event->in[nr].there;
		event->gone.count += event->in[nr].count;
		event->gone.openings += event->in[nr].openings;
		event->in[nr] = (struct instance) {};
	}
	model->tasks[nr].alive = false;
}

/* A thread has exited when its ID is free, a process when all of its threads have exited. */
static bool step_death(struct model *model)
{
	unsigned int nr = pick(model, MAX_TASKS), i;
	struct task *task = &model->tasks[nr];
	int status = 0;

	if (!task->alive || !nr)
		return true;
	trace(model, "task %u exits", nr);
	if (!order(task, 'x', 0, 0))
		return false;
	if (task->process == nr) {
		for (i = 0; i < MAX_TASKS; i++) {
			if (model->tasks[i].alive && model->tasks[i].process == nr)
				forget_task(model, i);
		}
		return waitpid(task->pid, &status, 0) == task->pid && !status;
	}
	forget_task(model, nr);
	while (!syscall(__NR_tgkill, task->pid, task->tid, 0))
		sched_yield();
	return true;
}

static bool check_event(const struct model *model, unsigned int nr)
{
	const struct event *event = &model->events[nr];
	__u64 count = event->gone.count, openings = event->gone.openings;
	struct gate_value value;
	unsigned int task;
	int tries = 10;

	if (!event->used)
		return true;
	for (task = 0; task < MAX_TASKS; task++) {
		count += event->in[task].count;
		openings += event->in[task].openings;
	}
	/*
	 * read(2) takes the times one after the other, and a task that goes to sleep
	 * may be switched out in between.
	 */
	do
		value = gate_read(event->fd);
	while (value.running > value.enabled && tries--);
	if (value.value == count && value.gate_count == openings &&
	    value.gate_time <= value.running && value.running <= value.enabled)
		return true;
	fprintf(stderr, "# event %u: count %+lld, openings %+lld against the model\n",
		nr, (long long)(value.value - count), (long long)(value.gate_count - openings));
	fprintf(stderr, "# call %u, triggers %d %d, %s %s %s\n", event->call,
		event->triggers[STARTER], event->triggers[STOPPER],
		event->inherit ? "inherited" : "alone", event->nest ? "nested" : "flat",
		event->enabled ? "on" : "off");
	for (task = 0; task < MAX_TASKS; task++) {
		if (event->in[task].there)
			fprintf(stderr, "# task %u: depth %u, count %llu, openings %llu\n", task,
				event->in[task].depth,
				(unsigned long long)event->in[task].count,
				(unsigned long long)event->in[task].openings);
	}
	fprintf(stderr, "# gate time %llu, running %llu, enabled %llu\n",
		(unsigned long long)value.gate_time, (unsigned long long)value.running,
		(unsigned long long)value.enabled);
	return false;
}

static bool check_all(const struct model *model)
{
	unsigned int nr;

	for (nr = 0; nr < MAX_EVENTS; nr++) {
		if (!check_event(model, nr))
			return false;
	}
	return true;
}

/* A step that the state of the model does not allow is not counted. */
static bool take_step(struct model *model, bool inherit)
{
	model->idle = true;
	switch (pick(model, 40)) {
	case 0 ... 3:
		return step_open(model, inherit);
	case 4:
		return step_close(model);
	case 5 ... 9:
		return step_link(model);
	case 10:
		return step_drop(model);
	case 11 ... 12:
		return step_control(model);
	case 13 ... 14:
		return !inherit || step_birth(model);
	case 15:
		return step_death(model);
	case 16:
		return step_move(model);
	case 17 ... 20:
		trace(model, "read");
		return check_event(model, pick(model, MAX_EVENTS));
	default:
		return step_hit(model);
	}
}

FIXTURE_SETUP(gate_model)
{
	struct model *model = &self->model;
	const struct timeval patience = { .tv_sec = 60 };
	const char *asked = getenv("GATE_MODEL_SEED");
	struct gate_triggers triggers = { -1, -1 };
	unsigned int i;

	if (triggers_open(_metadata, &triggers))
		return;
	triggers_close(&triggers);
	for (i = 0; i < ARRAY_SIZE(calls); i++) {
		model->tracepoint_ids[i] = tracepoint_id(calls[i].tracepoint);
		ASSERT_LE(0, model->tracepoint_ids[i]);
	}
	for (i = 0; i < MAX_TASKS; i++) {
		puppet_prepare(_metadata, &model->tasks[i].puppet);
		setsockopt(model->tasks[i].puppet.tester_end, SOL_SOCKET, SO_RCVTIMEO, &patience,
			   sizeof(patience));
	}
	tasks_of_all = model->tasks;
	model->seed = asked ? strtoul(asked, NULL, 0) : clock_ns(CLOCK_REALTIME) / 1000;
	TH_LOG("GATE_MODEL_SEED=%u", model->seed);

	model->tasks[0].pid = fork();
	ASSERT_LE(0, model->tasks[0].pid);
	if (!model->tasks[0].pid) {
		obey(&model->tasks[0]);
		_exit(0);
	}
	model->tasks[0].alive = true;
	ASSERT_EQ(sizeof(pid_t), read(model->tasks[0].puppet.tester_end, &model->tasks[0].tid,
				      sizeof(pid_t)));
}

FIXTURE_TEARDOWN(gate_model)
{
	kill(self->model.tasks[0].pid, SIGKILL);
}

TEST_F_TIMEOUT(gate_model, random_walk_agrees_with_its_model, 3600)
{
	struct model *model = &self->model;
	const char *asked = getenv("GATE_MODEL_STEPS");
	unsigned int steps = asked ? strtoul(asked, NULL, 0) : DEFAULT_STEPS;

	for (; model->step < steps; model->step += !model->idle) {
		ASSERT_TRUE(take_step(model, variant->inherit) &&
			    (model->step % 20 || check_all(model))) {
			print_trace(model);
		}
	}
	EXPECT_TRUE(check_all(model));
}

TEST_HARNESS_MAIN
