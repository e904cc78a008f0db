// SPDX-License-Identifier: GPL-2.0
/*
 * PERF_RECORD_AUX_LOST: for how long AUX area tracing stood still.
 *
 *	running --- no room, or TRUNCATED ---> stopped, event to be disabled
 *	   ^					  |	    |	      ^
 *	   |				    reader makes    |	      |
 *	   |				    room, ENABLE    +-- ENABLE without room
 *	   |					  v
 *	   +---- AUX_LOST is in the buffer ---- started
 *
 * The first stop after a record notes the time and the event; later ones are only
 * counted. A start that finds no room for the record in the data buffer leaves it to the
 * next start, so that the interval is never shorter than the truth. Where events share a
 * buffer, the event that starts need not be the event that stopped: the record tells for
 * how long the area stood still, and names the event that stopped, because that event has
 * to be enabled.
 *
 * Locking: perf_buffer::aux_nest. Both functions run between the points where an
 * AUX transaction begins and ends, of which a buffer has one at a time. Either can
 * run in an NMI.
 */

#include <linux/perf_event.h>

#include "internal.h"

struct perf_aux_lost_event {
	struct perf_event_header	header;
	u64				id;
	u64				aux_offset;
	u64				time_stop;
	u64				time_start;
	u64				nr_stops;
};

/**
 * perf_aux_stopped - Note that AUX area tracing stops by itself
 * @event:	the AUX event
 * @rb:		its buffer
 * @again:	the event is about to be disabled already, so a stop noted
 *		before belongs to the same interruption
 *
 * Context: Within an AUX transaction of @rb. Any, NMI included.
 */
void perf_aux_stopped(struct perf_event *event, struct perf_buffer *rb, bool again)
{
	if (!event->attr.aux_lost || (again && rb->aux_stops))
		return;

	if (rb->aux_stops++)
		return;
	rb->aux_stop_time = event->clock();
	rb->aux_stop_id = event->parent ? event->parent->id : event->id;
}

/**
 * perf_aux_log_lost - Write a PERF_RECORD_AUX_LOST
 * @event:	the AUX event that starts
 * @rb:		its buffer, in which a stop was noted
 *
 * A driver may start again in the interrupt that has seen the end of the
 * buffer, before the event is disabled. Such a start does not count.
 *
 * Context: Within an AUX transaction of @rb. Any, NMI included.
 */
void perf_aux_log_lost(struct perf_event *event, struct perf_buffer *rb)
{
	struct perf_aux_lost_event rec = {
		.id		= rb->aux_stop_id,
		.aux_offset	= rb->aux_head,
		.time_stop	= rb->aux_stop_time,
		.nr_stops	= rb->aux_stops,
	};
	struct perf_output_handle handle;
	struct perf_sample_data sample;

	if (event->pending_disable)
		return;

	rec.time_start = event->clock();
	perf_event_header__init(&rec.header, &sample, PERF_RECORD_AUX_LOST,
				/* misc= */ 0, sizeof(rec), event);
	if (perf_output_begin(&handle, &sample, event, rec.header.size))
		return;

	perf_output_put(&handle, rec);
	perf_event__output_id_sample(event, &handle, &sample);
	perf_output_end(&handle);

	rb->aux_stops = 0;
}
