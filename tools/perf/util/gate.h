/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __PERF_GATE_H
#define __PERF_GATE_H

#include <linux/list.h>
#include <linux/types.h>
#include <stdbool.h>

struct evlist;
struct evsel;
struct gate_elf;
struct gate_function;
struct gate_guard;
struct option;
struct target;

/* Number of attempts to open the events of a task that creates threads meanwhile. */
#define GATE_MAX_REOPENED	3

/* Maximum number of starters, and of stoppers, that the kernel allows for a gate. */
#define GATE_MAX_TRIGGERS	64
/* One stopper is gate::leaver. */
#define GATE_MAX_STOPPERS	(GATE_MAX_TRIGGERS - 1)

/* Options for all events. */
struct gate_opts {
	/* Arguments of --inside; each event is counted separately for each of them. */
	const char	**inside;
	int		nr_inside;
	const char	*on;
	const char	*off;
	/* Accept windows that have not ended: leave the exit status alone. */
	bool		lax;
};

#define OPTS_GATE(opts)								\
	OPT_CALLBACK(0, "inside", (opts), "[path:]function",			\
		     "only inside of a function, of kernel:function, or of "	\
		     "syscalls:name; of several, each by itself",		\
		     gate_opts__add_inside),					\
	OPT_BOOLEAN(0, "inside-lax", &(opts)->lax,				\
		    "succeed even if entries and returns do not pair"),		\
	OPT_CALLBACK(0, "gate-on", &(opts)->on, "event",			\
		     "only from an occurrence of this event on",		\
		     gate_opts__set_trigger),					\
	OPT_CALLBACK(0, "gate-off", &(opts)->off, "event",			\
		     "only up to an occurrence of this event",			\
		     gate_opts__set_trigger)

/* An option of another tool, for which @message points to the one of this tool. */
#define OPT_GATE_ELSEWHERE(name, message)					\
	{									\
		.type		= OPTION_CALLBACK,				\
		.long_name	= (name),					\
		.value		= (char *)(message),				\
		.help		= (message),					\
		.flags		= PARSE_OPT_OPTARG | PARSE_OPT_HIDDEN,		\
		.callback	= gate_opts__refuse,				\
	}

/*
 * A trigger, which opens or closes gates. It is not part of the event list: it is not
 * printed, recorded or mapped. perf opens as many events for it as the targets need.
 */
struct gate_trigger {
	struct list_head	node;
	char			*name;
	/* Event to clone when the trigger is opened. */
	struct evsel		*proto;
	/* The event of the list that it copies, which may have a gate itself. */
	struct evsel		*source;
	/* The trigger closes gates. */
	bool			is_stopper;
	/* Path that the attributes of a probe point to. */
	char			*path;
	/* Name of a probe in tracefs, which has to be removed. */
	char			*tracefs_name;
	/* Open events of the trigger. */
	struct list_head	instances;
};

/* A function by which a thread leaves others without a return, or goes on with another context */
struct gate_escape {
	struct list_head	node;
	/* The program or library that has it */
	char			*path;
	const char		*name;
	u64			offset;
	/* The thread goes on with another context, and comes back to this one later. */
	bool			switches;
	/*
	 * Counts calls, or NULL. A call that leaves functions counts in a process that began in a
	 * window, and has not executed a program since.
	 */
	struct evsel		*evsel;
};

/* A program or library, which may have several names */
struct gate_file {
	dev_t			dev;
	ino_t			ino;
};

/* A gate: the windows of all events that the same triggers open and close. */
struct gate {
	struct list_head	node;
	struct gate_trigger	*on[GATE_MAX_TRIGGERS];
	struct gate_trigger	*off[GATE_MAX_STOPPERS];
	int			nr_on;
	int			nr_off;
	bool			nest;
	/* Closes the gate where a task leaves the function for good, or NULL. */
	struct gate_trigger	*leaver;
	/* Hidden events of the gate for the guard, or NULL. */
	struct gate_guard	*guard;
	/* Function whose entries and returns must match, or NULL. */
	char			*function;
	/* The function is main(), which ends by its return or with the program. */
	bool			ends_with_program;
	/* It is a function of the kernel. */
	bool			of_kernel;
	/* A uretprobe or kretprobe detects the returns. */
	bool			by_return_address;
	/* Description for headers and messages, such as "inside of parse" */
	char			*where;
	/* Options set up the gate, not the terms of an event. */
	bool			of_options;
	/* Region, such as "parse", if there are several --inside. */
	const char		*region;
	/* The event that provides gate_count and gate_time. */
	struct evsel		*reference;
	/* The reference is not in the list, as those in it may be multiplexed. */
	bool			has_own_reference;
	/* The tool event that prints gate_count. */
	struct evsel		*count;
	/* The gate was open at least once. */
	bool			was_open;
	/* How many entries had no return when they were last compared. */
	u64			nr_open;
	/* Some of these entries will have no return, so that counts are too high. */
	bool			not_exact;
};

/* All gates of an evlist, and the events that were opened to move them. */
struct gates {
	struct list_head	gates;
	struct list_head	triggers;
	/* Functions whose calls guards have to know of, and the files that were searched for them */
	struct list_head	escapes;
	struct gate_file	*files;
	int			nr_files;
	struct evlist		*evlist;
	/* --inside-lax was given. */
	bool			lax;
	/* There are several --inside, and the events of each are printed apart. */
	bool			has_regions;
	/* The caller is able to open all events again. */
	bool			may_retry;
};

int evlist__setup_gates(struct evlist *evlist, const struct gate_opts *opts,
			struct target *target, const char *program);
int evlist__open_gates(struct evlist *evlist, struct target *target, bool may_retry);
void evlist__enable_gates(struct evlist *evlist);
void evlist__disable_gates(struct evlist *evlist);
void evlist__close_gates(struct evlist *evlist);
void evlist__delete_gates(struct evlist *evlist);
const char *evlist__gate_where(struct evlist *evlist);

const char *evsel__region(struct evsel *evsel);
bool evsel__has_ignored_gate(struct evsel *evsel);
int evsel__ignored_gate_strerror(struct evsel *evsel, char *msg, size_t size);

/* For gate-*.c */
int evlist__new_gates(struct evlist *evlist);
struct gate *gates__new_gate(struct gates *gates);
int gates__link(struct gates *gates, struct gate *gate, struct evsel *evsel,
		struct target *target);
struct gate_trigger *gates__find_trigger(struct gates *gates, const char *name);
struct evsel *gate_trigger__instance(struct gate_trigger *trigger, struct evsel *evsel);
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

int gate__add_probe(struct gates *gates, struct gate *gate, const char *name,
		    const char *path, u64 offset, bool is_starter, bool at_return);
bool gate__can_probe(struct evsel *evsel, const char *path, u64 offset);

/* gate-escapes.c */
int gates__find_escapes(struct gates *gates, const char *path, struct target *target,
			const char *program);

/* gate-places.c */
int gate__refuse_go(struct gates *gates, struct gate_elf *ge, const char *where,
		    const char *path);
int gate__set_inlined(struct gates *gates, struct gate *gate, struct gate_elf *ge,
		      const char *path, const char *function,
		      const struct gate_function *functions, int nr_functions);
bool gate_places__are_copies(const char *path, const char *function,
			     const struct gate_function *functions, int nr);
int gate__set_lines(struct gates *gates, struct gate *gate, const char *path, const char *file,
		    int first, int last);
int gate__set_mark(struct gates *gates, struct gate *gate, const char *path, const char *name);
size_t gate_lines__parse(const char *where, int *first, int *last);

/* gate-regions.c */
int gate_opts__add_inside(const struct option *opt, const char *inside, int unset);
int gate_opts__set_trigger(const struct option *opt, const char *event, int unset);
int gate_opts__refuse(const struct option *opt, const char *arg, int unset);
int evlist__name_regions(struct evlist *evlist);
int evlist__setup_regions(struct evlist *evlist, const struct gate_opts *opts,
			  struct target *target, const char *program);

/* gate-kernel.c */
int gate__set_kernel_function(struct gates *gates, struct gate *gate, const char *inside,
			      const char *function);
void gate_trigger__delete_tracefs(struct gate_trigger *trigger);
u64 gate_trigger__missed(struct gate_trigger *trigger);

/* gate-guard.c */
int gate__set_leaver(struct gates *gates, struct gate *gate, struct target *target);
int evlist__open_guards(struct evlist *evlist, struct target *target);
int evlist__open_escapes(struct evlist *evlist, struct target *target);
void evlist__disable_escapes(struct evlist *evlist);
void evlist__enable_guards(struct evlist *evlist);
void evlist__close_guards(struct evlist *evlist);
void evlist__check_gates(struct evlist *evlist, struct target *target, bool lax);
void evlist__count_open(struct evlist *evlist, struct target *target);
bool evlist__gates_not_exact(struct evlist *evlist);

/* gate-stat.c */
int evlist__add_gate_tools(struct evlist *evlist);
int evsel__read_gate(struct evsel *evsel, int cpu_map_idx, int thread);
int evlist__mark_not_exact(struct evlist *evlist);
void evlist__scale_gates(struct evlist *evlist);
void evlist__warn_no_window(struct evlist *evlist);
int evlist__restore_gates(struct evlist *evlist);

static inline bool gate_opts__any(const struct gate_opts *opts)
{
	return opts->nr_inside || opts->on || opts->off;
}

#endif /* __PERF_GATE_H */
