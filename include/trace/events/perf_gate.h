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
 * A trigger is named by the ID that PERF_EVENT_IOC_ID returns. An inherited trigger has
 * the ID of its parent, and the task of the trace event tells the two apart. 0 stands
 * for a system call. A gate is named by the ID of its first member.
 */
static inline u64 perf_gate_event_id(const struct perf_event *event)
{
	if (!event)
		return 0;

	return event->parent ? event->parent->id : event->id;
}
#endif

DECLARE_EVENT_CLASS(perf_gate_link_class,

	TP_PROTO(struct perf_event *trigger, u64 gate, unsigned int role),

	TP_ARGS(trigger, gate, role),

	TP_STRUCT__entry(
		__field(u64,		trigger)
		__field(u64,		gate)
		__field(unsigned int,	role)
	),

	TP_fast_assign(
		__entry->trigger = perf_gate_event_id(trigger);
		__entry->gate = gate;
		__entry->role = role;
	),

	TP_printk("trigger=%llu gate=%llu role=%s", __entry->trigger,
		  __entry->gate,
		  __print_symbolic(__entry->role, { 1, "starter" },
				   { 2, "stopper" }, { 3, "toggle" }))
);

DEFINE_EVENT(perf_gate_link_class, link,
	TP_PROTO(struct perf_event *trigger, u64 gate, unsigned int role),
	TP_ARGS(trigger, gate, role)
);

DEFINE_EVENT(perf_gate_link_class, unlink,
	TP_PROTO(struct perf_event *trigger, u64 gate, unsigned int role),
	TP_ARGS(trigger, gate, role)
);

DECLARE_EVENT_CLASS(perf_gate_class,

	TP_PROTO(struct perf_event *trigger, u64 gate),

	TP_ARGS(trigger, gate),

	TP_STRUCT__entry(
		__field(u64,	trigger)
		__field(u64,	gate)
	),

	TP_fast_assign(
		__entry->trigger = perf_gate_event_id(trigger);
		__entry->gate = gate;
	),

	TP_printk("trigger=%llu gate=%llu", __entry->trigger, __entry->gate)
);

DEFINE_EVENT(perf_gate_class, open,
	TP_PROTO(struct perf_event *trigger, u64 gate),
	TP_ARGS(trigger, gate)
);

DEFINE_EVENT(perf_gate_class, close,
	TP_PROTO(struct perf_event *trigger, u64 gate),
	TP_ARGS(trigger, gate)
);

#endif /* _TRACE_PERF_GATE_H */

#include <trace/define_trace.h>
