/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What kernel/events/gate.h names of the kernel, so far that a model can include it
 * for its pure functions. The <linux/...> that it includes are empty files.
 */
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint64_t u64;
typedef struct { int counter; } atomic_t;
typedef struct { long counter; } atomic64_t, local64_t;
typedef struct { int refs; } refcount_t;
typedef struct { unsigned int sequence; } seqcount_latch_t;

struct list_head { struct list_head *next; };
struct hlist_head { struct hlist_node *first; };
struct hlist_node { struct hlist_node *next; };
struct rcu_head { struct rcu_head *next; };
struct mutex { int owner; };
struct irq_work { int flags; };

struct perf_event;
struct pmu {
	void (*pmu_enable)(struct pmu *pmu);
	void (*read)(struct perf_event *event);
	void (*start)(struct perf_event *event, int flags);
};

struct perf_event_attr {
	unsigned int	type;
	u64		config;
	u64		read_format;
	bool		start_paused;
	bool		gate_nest;
};

struct perf_event {
	struct perf_event_attr	attr;
	struct pmu		*pmu;
	local64_t		count;
};

#ifndef __always_inline
#define __always_inline		inline __attribute__((always_inline))
#endif
#define IS_ENABLED(option)	0
#define local64_read(l)		((l)->counter)

enum {
	PERF_TYPE_SOFTWARE,
	PERF_COUNT_SW_BPF_OUTPUT,
	PERF_EF_START,
	PERF_FORMAT_GATE_TIME,
	PERF_FORMAT_GATE_COUNT,
	PERF_EVENT_IOC_SET_STARTER,
	PERF_EVENT_IOC_CLEAR_GATE,
	PERF_EVENT_IOC_JOIN_GATE,
	TICK_NSEC,
};

#include "gate.h"
