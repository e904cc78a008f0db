/* SPDX-License-Identifier: GPL-2.0 */
/*
 * perf gate selftests - a model of events, gates and the tasks that have them
 *
 * The model follows Documentation/userspace-api/perf_gate.rst, for tracepoint
 * events of system calls. It does not use the kernel.
 */
#ifndef _GATE_MODEL_H
#define _GATE_MODEL_H

#include <stdarg.h>

#include "gate_family.h"

#define MAX_TASKS	6
#define MAX_EVENTS	14
#define TRACE_LINES	64

static const struct {
	const char	*tracepoint;
	long		number;
} calls[] = {
	{ "syscalls/sys_enter_getuid",	__NR_getuid },
	{ "syscalls/sys_enter_geteuid",	__NR_geteuid },
	{ "syscalls/sys_enter_getgid",	__NR_getgid },
	{ "syscalls/sys_enter_getegid",	__NR_getegid },
	{ "syscalls/sys_enter_getppid",	__NR_getppid },
	{ "syscalls/sys_enter_getsid",	__NR_getsid },
};

enum role {
	STARTER,
	STOPPER,
};

/* One event in one task. */
struct instance {
	bool		there;
	unsigned int	depth;
	unsigned int	hits;
	__u64		count;
	__u64		openings;
};

/*
 * @gone are the counts of tasks that have exited, @exited tells whether there are any.
 * @triggers has a bit for each event in each role.
 */
struct event {
	bool		used;
	int		fd;
	unsigned int	call;
	unsigned int	period;
	bool		inherit;
	bool		nest;
	bool		enabled;
	bool		exited;
	unsigned int	births;
	unsigned int	triggers[2];
	struct instance	in[MAX_TASKS];
	struct instance	gone;
};

struct task {
	bool		alive;
	unsigned int	process;
	pid_t		pid;
	pid_t		tid;
	struct puppet	puppet;
};

/* Command for a task, which answers with its own thread ID. */
struct command {
	char		action;
	unsigned int	argument;
	unsigned int	times;
};

struct model {
	struct event	events[MAX_EVENTS];
	struct task	tasks[MAX_TASKS];
	long		tracepoint_ids[ARRAY_SIZE(calls)];
	char		trace[TRACE_LINES][96];
	unsigned int	seed;
	unsigned int	step;
	unsigned int	births;
	bool		idle;
};

static inline unsigned int pick(struct model *model, unsigned int below)
{
	return rand_r(&model->seed) / 7 % below;
}

__printf(2, 3)
static inline void trace(struct model *model, const char *text, ...)
{
	char *line = model->trace[model->step % TRACE_LINES];
	va_list args;

	va_start(args, text);
	vsnprintf(line, sizeof(model->trace[0]), text, args);
	va_end(args);
	model->idle = false;
}

static inline void print_trace(const struct model *model)
{
	unsigned int step = model->step < TRACE_LINES ? 0 : model->step - TRACE_LINES + 1;

	for (; step <= model->step; step++)
		fprintf(stderr, "# step %u: %s\n", step, model->trace[step % TRACE_LINES]);
}

static inline void move_gate(struct event *event, struct instance *in, bool start, bool stop)
{
	unsigned int old = in->depth;

	if (start && stop)
		in->depth = !old;
	else if (!event->nest)
		in->depth = start;
	else if (start)
		in->depth++;
	else if (old)
		in->depth--;
	in->openings += !old && in->depth;
}

static inline void fire(struct model *model, unsigned int trigger, unsigned int task)
{
	struct event *event;
	bool start, stop;
	unsigned int i;

	for (i = 0; i < MAX_EVENTS; i++) {
		event = &model->events[i];
		start = event->used && event->triggers[STARTER] & 1U << trigger;
		stop = event->used && event->triggers[STOPPER] & 1U << trigger;
		if ((start || stop) && event->in[task].there)
			move_gate(event, &event->in[task], start, stop);
	}
}

static inline void hit_once(struct model *model, unsigned int task, unsigned int call)
{
	struct event *event;
	struct instance *in;
	unsigned int i;

	for (i = 0; i < MAX_EVENTS; i++) {
		event = &model->events[i];
		in = &event->in[task];
		if (!event->used || event->call != call || !in->there || !event->enabled ||
		    !in->depth)
			continue;
		in->count++;
		if (!event->period || !(++in->hits % event->period))
			fire(model, i, task);
	}
}

static inline void set_gates(struct event *event, bool open)
{
	unsigned int task;

	for (task = 0; task < MAX_TASKS; task++) {
		if (!event->in[task].there)
			continue;
		event->in[task].openings += open && !event->in[task].depth;
		event->in[task].depth = open;
	}
}

static inline void open_if_free(struct event *event)
{
	if (!event->triggers[STARTER] && !event->triggers[STOPPER])
		set_gates(event, true);
}

#endif
