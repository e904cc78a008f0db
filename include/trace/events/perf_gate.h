/* SPDX-License-Identifier: GPL-2.0 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM perf_gate

#if !defined(_TRACE_PERF_GATE_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_PERF_GATE_H

#include <linux/perf_event.h>
#include <linux/tracepoint.h>

#ifndef _TRACE_PERF_GATE_ID
#define _TRACE_PERF_GATE_ID
/*
 * Events are named by what PERF_EVENT_IOC_ID returns, an inherited one by the ID
 * of its parent: the task tells which it is. 0 stands for a system call.
 */
static inline u64 perf_gate_event_id(const struct perf_event *event)
{
	if (!event)
		return 0;

	return event->parent ? event->parent->id : event->id;
}
#endif

DECLARE_EVENT_CLASS(perf_gate_link_class,

	TP_PROTO(struct perf_event *trigger, struct perf_event *target,
		 unsigned int role),

	TP_ARGS(trigger, target, role),

	TP_STRUCT__entry(
		__field(u64,		trigger)
		__field(u64,		target)
		__field(unsigned int,	role)
	),

	TP_fast_assign(
		__entry->trigger = perf_gate_event_id(trigger);
		__entry->target = perf_gate_event_id(target);
		__entry->role = role;
	),

	TP_printk("trigger=%llu target=%llu role=%s", __entry->trigger,
		  __entry->target,
		  __print_symbolic(__entry->role, { 1, "starter" },
				   { 2, "stopper" }, { 3, "toggle" }))
);

DEFINE_EVENT(perf_gate_link_class, link,
	TP_PROTO(struct perf_event *trigger, struct perf_event *target,
		 unsigned int role),
	TP_ARGS(trigger, target, role)
);

DEFINE_EVENT(perf_gate_link_class, unlink,
	TP_PROTO(struct perf_event *trigger, struct perf_event *target,
		 unsigned int role),
	TP_ARGS(trigger, target, role)
);

DECLARE_EVENT_CLASS(perf_gate_class,

	TP_PROTO(struct perf_event *trigger, struct perf_event *target),

	TP_ARGS(trigger, target),

	TP_STRUCT__entry(
		__field(u64,	trigger)
		__field(u64,	target)
	),

	TP_fast_assign(
		__entry->trigger = perf_gate_event_id(trigger);
		__entry->target = perf_gate_event_id(target);
	),

	TP_printk("trigger=%llu target=%llu", __entry->trigger, __entry->target)
);

DEFINE_EVENT(perf_gate_class, open,
	TP_PROTO(struct perf_event *trigger, struct perf_event *target),
	TP_ARGS(trigger, target)
);

DEFINE_EVENT(perf_gate_class, close,
	TP_PROTO(struct perf_event *trigger, struct perf_event *target),
	TP_ARGS(trigger, target)
);

#endif /* _TRACE_PERF_GATE_H */

#include <trace/define_trace.h>
