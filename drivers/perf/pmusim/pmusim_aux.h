/* SPDX-License-Identifier: GPL-2.0 */
/* Simulated PMUs with an AUX area: events, areas and producers. */
#ifndef _PMUSIM_AUX_H
#define _PMUSIM_AUX_H

#include "pmusim.h"

enum pmusim_aux_source {
	PMUSIM_AUX_MANUAL,
	PMUSIM_AUX_TIMER,
};

/* Errors to inject: config2:0-7 */
#define PMUSIM_INJECT_TRUNCATED	BIT(0)
#define PMUSIM_INJECT_PARTIAL	BIT(1)
#define PMUSIM_INJECT_COLLISION	BIT(2)
#define PMUSIM_INJECT_EMPTY	BIT(3)
#define PMUSIM_INJECT_KEEP	BIT(4)
#define PMUSIM_INJECT_ALL	GENMASK(4, 0)

/* perf_event::pmu_private of an AUX event */
struct pmusim_aux_event {
	enum pmusim_aux_source	source;
	unsigned long		align;
	unsigned long		chunk;
	ktime_t			latency;
	ktime_t			interval;
	unsigned int		inject;
	unsigned int		inject_nth;
	unsigned int		ends;
};

/* An AUX area as setup_aux() got it */
struct pmusim_aux_buffer {
	void			**pages;
	unsigned long		size;
	bool			overwrite;
};

/**
 * struct pmusim_aux_cpu - the producer of one CPU
 */
struct pmusim_aux_cpu {
	/** @sim: The PMU that it is part of */
	struct pmusim			*sim;
	/** @event: The event that is on it */
	struct perf_event		*event;
	/** @buf: The area of the transaction */
	struct pmusim_aux_buffer	*buf;
	/** @running: A transaction is open */
	bool				running;
	/** @paused: pmu::stop() was called with PERF_EF_PAUSE */
	bool				paused;
	/** @pos: Position of the next word in the stream */
	unsigned long			pos;
	/** @written: Bytes written in this transaction */
	unsigned long			written;
	/** @packets: Chunks still to write for overflows of events with attr.aux_output */
	atomic_t			packets;
	/** @handle: The transaction */
	struct perf_output_handle	handle;
	/** @timer: Timer of PMUSIM_AUX_TIMER */
	struct hrtimer			timer;
	/** @work: Writes the chunks of @packets */
	struct irq_work			work;
};

static inline struct pmusim_aux_event *to_aux_event(struct perf_event *event)
{
	return event->pmu_private;
}

/* aux.c */
void pmusim_aux_start(struct perf_event *event, int flags);
void pmusim_aux_stop(struct perf_event *event, int flags);
int pmusim_aux_add(struct perf_event *event, int flags);
void pmusim_aux_del(struct perf_event *event, int flags);
void pmusim_aux_read(struct perf_event *event);
long pmusim_snapshot_aux(struct perf_event *event,
			 struct perf_output_handle *handle,
			 unsigned long size);
enum hrtimer_restart pmusim_aux_timer_fn(struct hrtimer *timer);
void pmusim_aux_packets(struct irq_work *work);

#endif /* _PMUSIM_AUX_H */
