// SPDX-License-Identifier: GPL-2.0
/*
 * PERF_EVENT_IOC_AUX_SNAPSHOT: what an overwritten AUX area holds right now.
 *
 * The head of an overwritten AUX area moves only when a transaction ends, and a
 * transaction lasts for as long as the event runs. So the event is stopped on its
 * CPU, with interrupts off, the head is taken, and the event is started again or
 * disabled. Everything happens in one call to that CPU:
 *
 *	pmu::stop()	perf_aux_output_end() moves the head
 *	head, time
 *	pmu::start()	perf_aux_output_begin()
 *	   or event_sched_out() for PERF_AUX_SNAPSHOT_DISABLE
 *
 * A driver that keeps its transaction open until pmu::del(), as that of s390 does,
 * leaves a head behind that is older than the stop. The snapshot of a running event
 * is refused then, and that of an event which is left disabled is taken after
 * pmu::del().
 *
 * An event that does not run has ended its transaction, and the head is there. The
 * children of an inherited event write to the AUX area of their parent, one at a
 * time since the buffer belongs to one CPU. The snapshot stops the event of the
 * family that runs.
 *
 * Locking: perf_event_context::mutex of the caller, then the child_mutex, so that
 * children stay; mmap_mutex and aux_mutex, so that the buffer and its AUX area do.
 */

#include <linux/perf_event.h>
#include <linux/uaccess.h>

#include "internal.h"

struct aux_snapshot {
	struct perf_buffer	*rb;
	u32			flags;
	u64			head;
	u64			time;
	u64			wrapped;
	bool			taken;
	int			ret;
};

/*
 * aux_written tells how much of an overwritten area is valid, whatever head the driver
 * reports. For drivers that report offsets it is a lower bound.
 */
static void note_position(struct aux_snapshot *snap, struct perf_event *event)
{
	struct perf_buffer *rb = snap->rb;
	u64 written;

	snap->time = event->clock();
	if (!rb->aux_overwrite) {
		snap->head = READ_ONCE(rb->aux_head);
		return;
	}

	written = READ_ONCE(rb->aux_written);
	snap->head = rb->aux_origin + written;
	if (written >= perf_aux_size(rb))
		snap->wrapped = PERF_AUX_WRAPPED_YES;
	else if (event->pmu->capabilities & PERF_PMU_CAP_AUX_HEAD_COUNTS)
		snap->wrapped = PERF_AUX_WRAPPED_NO;
	else
		snap->wrapped = PERF_AUX_WRAPPED_UNKNOWN;
}

/*
 * Stop an event, read the head, and start or disable the event. This runs on the CPU of
 * the event with interrupts off, or anywhere while the task of the event does not run.
 */
static void aux_snapshot_event(struct perf_event *event,
			       struct perf_cpu_context *cpuctx,
			       struct perf_event_context *ctx, void *info)
{
	bool disable = event->state > PERF_EVENT_STATE_OFF;
	bool active = event->state == PERF_EVENT_STATE_ACTIVE;
	struct aux_snapshot *snap = info;

	disable &= !!(snap->flags & PERF_AUX_SNAPSHOT_DISABLE);

	if (active)
		event->pmu->stop(event, PERF_EF_UPDATE);
	if (disable)
		__perf_event_disable(event, cpuctx, ctx, NULL);
	if (!active)
		return;

	/* The head does not yet cover the bytes of a transaction that is still open. */
	if (READ_ONCE(snap->rb->aux_nest)) {
		snap->ret = -EOPNOTSUPP;
	} else {
		note_position(snap, event);
		snap->taken = true;
	}

	if (!disable)
		event->pmu->start(event, 0);
}

static int aux_snapshot_family(struct perf_event *event, struct aux_snapshot *snap)
{
	struct perf_event *child;
	struct perf_buffer *rb;

	guard(mutex)(&event->child_mutex);
	guard(mutex)(&event->mmap_mutex);

	rb = event->rb;
	if (!rb)
		return -EINVAL;

	guard(mutex)(&rb->aux_mutex);

	if (!rb_has_aux(rb) || rb->aux_pmu != event->pmu)
		return -EINVAL;

	snap->rb = rb;
	perf_event_function_call(event, aux_snapshot_event, snap);
	list_for_each_entry(child, &event->child_list, child_list)
		perf_event_function_call(child, aux_snapshot_event, snap);
	if (snap->ret)
		return snap->ret;
	if (!snap->taken)
		note_position(snap, event);

	return 0;
}

/**
 * perf_aux_snapshot - Tell what an AUX area holds
 * @event:	event with an AUX area
 * @arg:	argument of the ioctl, read and written
 *
 * Context: Process, perf_event_context::mutex of @event is held.
 * Return: 0, -EOPNOTSUPP if the PMU has no AUX area or cannot end its output while the
 * event runs, -EINVAL for unknown flags, a size that is too small, or if no AUX area of
 * its PMU is mapped, -E2BIG for bytes after the known ones that are not zero, or
 * -EFAULT.
 */
long perf_aux_snapshot(struct perf_event *event,
		       struct perf_event_aux_snapshot __user *arg)
{
	struct perf_event_aux_snapshot out = {};
	struct aux_snapshot snap = {};
	u32 size;
	int ret;

	lockdep_assert_held(&event->ctx->mutex);

	/* A driver that never samples may have no pmu::stop(). */
	if (!event->pmu->setup_aux || !event->pmu->stop)
		return -EOPNOTSUPP;

	if (get_user(size, &arg->size))
		return -EFAULT;
	if (size < sizeof(out) || size > PAGE_SIZE)
		return -EINVAL;

	ret = copy_struct_from_user(&out, sizeof(out), arg, size);
	if (ret)
		return ret;
	if (out.flags & ~PERF_AUX_SNAPSHOT_DISABLE)
		return -EINVAL;

	snap.flags = out.flags;
	ret = aux_snapshot_family(event, &snap);
	if (ret)
		return ret;

	out.size = sizeof(out);
	out.head = snap.head;
	out.time = snap.time;
	out.wrapped = snap.wrapped;
	return copy_to_user(arg, &out, sizeof(out)) ? -EFAULT : 0;
}
