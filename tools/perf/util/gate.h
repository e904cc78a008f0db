/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __PERF_GATE_H
#define __PERF_GATE_H

#include <linux/list.h>
#include <linux/types.h>
#include <stdbool.h>

struct evlist;
struct evsel;
struct target;

/* How often to open the events of a task again that makes threads meanwhile. */
#define GATE_MAX_REOPENED	3

/* The kernel lets a gate have so many starters, and as many stoppers. */
#define GATE_MAX_TRIGGERS	64

/* What options say about all events. */
struct gate_opts {
	const char	*inside;
	const char	*on;
	const char	*off;
	/* Windows that have not ended are no reason for an exit status of 1. */
	bool		lax;
};

#define OPTS_GATE(opts)								\
	OPT_STRING(0, "inside", &(opts)->inside, "[path:]function",		\
		   "only inside of a function, of kernel:function, or of "	\
		   "syscalls:name"),						\
	OPT_BOOLEAN(0, "inside-lax", &(opts)->lax,				\
		    "succeed even if entries and returns do not pair"),		\
	OPT_STRING(0, "gate-on", &(opts)->on, "event",				\
		   "only from an occurrence of this event on"),			\
	OPT_STRING(0, "gate-off", &(opts)->off, "event",			\
		   "only up to an occurrence of this event")

/*
 * An event that opens or closes gates. It is none of the list: it is not printed,
 * recorded or mapped. perf opens as many of it as the targets need.
 */
struct gate_trigger {
	struct list_head	node;
	char			*name;
	/* How to open it. */
	struct evsel		*proto;
	/* The event of the list that it was made from, which may have a gate itself. */
	struct evsel		*source;
	/* It closes gates. */
	bool			is_stopper;
	/* What the attributes of a probe point to. */
	char			*path;
	/* It is a probe that tracefs made, which must be taken away. */
	char			*tracefs_name;
	/* Those that are open. */
	struct list_head	instances;
};

/* What the events have in common that the same events open and close. */
struct gate {
	struct list_head	node;
	struct gate_trigger	*on[GATE_MAX_TRIGGERS];
	struct gate_trigger	*off[GATE_MAX_TRIGGERS];
	int			nr_on;
	int			nr_off;
	bool			nest;
	/* Each entry of this function has a return, or the windows are wrong. */
	char			*function;
	/* Returns are seen by a uretprobe, or a kretprobe. */
	bool			by_return_address;
	/* "inside of parse", for headers and messages */
	char			*where;
	/* The event that tells gate_count and gate_time. */
	struct evsel		*reference;
	/* The tool event that prints the first of them. */
	struct evsel		*count;
	/* There was a window. */
	bool			was_open;
};

/* All gates of an evlist, and the events that were opened to move them. */
struct gates {
	struct list_head	gates;
	struct list_head	triggers;
	struct evlist		*evlist;
	/* That of the options, which does not keep a trigger from firing. */
	struct gate		*all;
	/* It may help to open all events again. */
	bool			may_retry;
	/* Some windows have not ended, so that counts are too high. */
	bool			not_exact;
};

int evlist__setup_gates(struct evlist *evlist, const struct gate_opts *opts,
			struct target *target, const char *program);
int evlist__open_gates(struct evlist *evlist, struct target *target, bool may_retry);
void evlist__enable_gates(struct evlist *evlist);
void evlist__disable_gates(struct evlist *evlist);
void evlist__close_gates(struct evlist *evlist);
void evlist__delete_gates(struct evlist *evlist);
const char *evlist__gate_where(struct evlist *evlist);

/* For gate-*.c */
struct gate *gates__new_gate(struct gates *gates);
struct evsel *gate_trigger__first(struct gate_trigger *trigger);
int gate__add_starter(struct gate *gate, struct gate_trigger *trigger);
int gate__add_stopper(struct gate *gate, struct gate_trigger *trigger);
struct gate_trigger *gates__add_trigger(struct gates *gates, const char *name,
					struct evsel *proto, struct evsel *source);
struct gate_trigger *evlist__gate_trigger(struct evlist *evlist, const char *name,
					  const char *what);

/* gate-inside.c */
struct evsel *gate__new_probe(const char *pmu_name, const char *name, bool at_return,
			      const char *where, u64 offset, u64 ref_ctr_offset);
int gate__set_inside(struct evlist *evlist, struct gate *gate, const char *inside,
		     struct target *target, const char *program);

/* gate-kernel.c */
int gate__set_kernel_function(struct gates *gates, struct gate *gate, const char *inside,
			      const char *function);
void gate_trigger__delete_tracefs(struct gate_trigger *trigger);
u64 gate_trigger__missed(struct gate_trigger *trigger);

/* gate-guard.c */
void evlist__check_gates(struct evlist *evlist, struct target *target, bool lax);
bool evlist__gates_not_exact(struct evlist *evlist);

/* gate-stat.c */
int evlist__add_gate_tools(struct evlist *evlist);
int evsel__read_gate(struct evsel *evsel, int cpu_map_idx, int thread);
void evlist__scale_gates(struct evlist *evlist);
void evlist__warn_no_window(struct evlist *evlist);

static inline bool gate_opts__any(const struct gate_opts *opts)
{
	return opts->inside || opts->on || opts->off;
}

#endif /* __PERF_GATE_H */
