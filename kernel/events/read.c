// SPDX-License-Identifier: GPL-2.0
/*
 * What a program reads of an event: through its file, with read(2) and poll(2),
 * and in the records of a ring buffer that tell the same values.
 */
#include <linux/perf_event.h>
#include <linux/poll.h>
#include <linux/security.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "internal.h"
#include "splice.h"

static u64 __perf_event_read_value(struct perf_event *event, u64 *enabled, u64 *running)
{
	struct perf_event *child;
	u64 total = 0;

	*enabled = 0;
	*running = 0;

	mutex_lock(&event->child_mutex);

	(void)perf_event_read(event, false);
	total += perf_event_count(event, false);

	*enabled += event->total_time_enabled +
			atomic64_read(&event->child_total_time_enabled);
	*running += event->total_time_running +
			atomic64_read(&event->child_total_time_running);

	list_for_each_entry(child, &event->child_list, child_list) {
		(void)perf_event_read(child, false);
		total += perf_event_count(child, false);
		*enabled += child->total_time_enabled;
		*running += child->total_time_running;
	}
	mutex_unlock(&event->child_mutex);

	return total;
}

u64 perf_event_read_value(struct perf_event *event, u64 *enabled, u64 *running)
{
	struct perf_event_context *ctx;
	u64 count;

	ctx = perf_event_ctx_lock(event);
	count = __perf_event_read_value(event, enabled, running);
	perf_event_ctx_unlock(event, ctx);

	return count;
}
EXPORT_SYMBOL_GPL(perf_event_read_value);

#define PERF_FORMAT_TAIL (PERF_FORMAT_LOST | PERF_FORMAT_GATE)

/*
 * What follows the value and the id of an event of a group, added to what
 * inherited events have. Few readers want any of it.
 */
static noinline int perf_read_group_tail(struct perf_event *event,
					 u64 read_format, u64 running,
					 bool self, u64 *values)
{
	int n = 0;

	if (read_format & PERF_FORMAT_LOST)
		values[n++] += atomic64_read(&event->lost_samples);
	if (read_format & PERF_FORMAT_GATE)
		n += perf_gate_add_values(event, read_format, running, self,
					  &values[n]);

	return n;
}

static __always_inline u64 *perf_read_group_entry(struct perf_event *event,
						  u64 read_format, u64 *values)
{
	*values++ += perf_event_count(event, false);
	if (read_format & PERF_FORMAT_ID)
		*values++ = primary_event_id(event);
	if (read_format & PERF_FORMAT_TAIL)
		values += perf_read_group_tail(event, read_format,
					       event->total_time_running, false,
					       values);

	return values;
}

/* Write {count,id} tuples for the leader and every sibling. */
static __always_inline void perf_read_group_entries(struct perf_event *leader,
						    u64 read_format, u64 *values)
{
	struct perf_event *sub;

	values = perf_read_group_entry(leader, read_format, values);
	for_each_sibling_event(sub, leader)
		values = perf_read_group_entry(sub, read_format, values);
}

static int __perf_read_group_add(struct perf_event *leader,
				 u64 read_format, u64 *values)
{
	struct perf_event_context *ctx = leader->ctx;
	struct perf_event *parent;
	unsigned long flags;
	int n = 1; /* skip @nr */
	int ret;

	ret = perf_event_read(leader, true);
	if (ret)
		return ret;

	raw_spin_lock_irqsave(&ctx->lock, flags);
	/*
	 * Verify the grouping between the parent and child (inherited)
	 * events is still in tact.
	 *
	 * Specifically:
	 *  - leader->ctx->lock pins leader->sibling_list
	 *  - parent->child_mutex pins parent->child_list
	 *  - parent->ctx->mutex pins parent->sibling_list
	 *
	 * Because parent->ctx != leader->ctx (and child_list nests inside
	 * ctx->mutex), group destruction is not atomic between children, also
	 * see perf_event_release_kernel(). Additionally, parent can grow the
	 * group.
	 *
	 * Therefore it is possible to have parent and child groups in a
	 * different configuration and summing over such a beast makes no sense
	 * what so ever.
	 *
	 * Reject this.
	 */
	parent = leader->parent;
	if (parent &&
	    (parent->group_generation != leader->group_generation ||
	     parent->nr_siblings != leader->nr_siblings)) {
		ret = -ECHILD;
		goto unlock;
	}

	/*
	 * Since we co-schedule groups, {enabled,running} times of siblings
	 * will be identical to those of the leader, so we only publish one
	 * set.
	 */
	if (read_format & PERF_FORMAT_TOTAL_TIME_ENABLED) {
		values[n++] += leader->total_time_enabled +
			atomic64_read(&leader->child_total_time_enabled);
	}

	if (read_format & PERF_FORMAT_TOTAL_TIME_RUNNING) {
		values[n++] += leader->total_time_running +
			atomic64_read(&leader->child_total_time_running);
	}

	perf_read_group_entries(leader, read_format, &values[n]);

unlock:
	raw_spin_unlock_irqrestore(&ctx->lock, flags);
	return ret;
}

static int perf_read_group(struct perf_event *event,
			   u64 read_format, char __user *buf)
{
	struct perf_event *leader = event->group_leader, *child;
	struct perf_event_context *ctx = leader->ctx;
	int ret;
	u64 *values;

	lockdep_assert_held(&ctx->mutex);

	values = kzalloc(event->read_size, GFP_KERNEL);
	if (!values)
		return -ENOMEM;

	values[0] = 1 + leader->nr_siblings;

	mutex_lock(&leader->child_mutex);

	ret = __perf_read_group_add(leader, read_format, values);
	if (ret)
		goto unlock;

	list_for_each_entry(child, &leader->child_list, child_list) {
		ret = __perf_read_group_add(child, read_format, values);
		if (ret)
			goto unlock;
	}

	mutex_unlock(&leader->child_mutex);

	ret = event->read_size;
	if (copy_to_user(buf, values, event->read_size))
		ret = -EFAULT;
	goto out;

unlock:
	mutex_unlock(&leader->child_mutex);
out:
	kfree(values);
	return ret;
}

/* @head: the first @n values. What follows is for inherited events as well. */
static noinline int perf_read_one_tail(struct perf_event *event, u64 read_format,
				       u64 running, const u64 *head, int n,
				       char __user *buf)
{
	u64 values[7];

	memcpy(values, head, n * sizeof(u64));
	if (read_format & PERF_FORMAT_LOST)
		values[n++] = atomic64_read(&event->lost_samples);
	if (read_format & PERF_FORMAT_GATE)
		n += perf_gate_read_values(event, read_format, running, &values[n]);

	if (copy_to_user(buf, values, n * sizeof(u64)))
		return -EFAULT;

	return n * sizeof(u64);
}

static int perf_read_one(struct perf_event *event,
			 u64 read_format, char __user *buf)
{
	u64 enabled, running;
	u64 values[4];
	int n = 0;

	values[n++] = __perf_event_read_value(event, &enabled, &running);
	if (read_format & PERF_FORMAT_TOTAL_TIME_ENABLED)
		values[n++] = enabled;
	if (read_format & PERF_FORMAT_TOTAL_TIME_RUNNING)
		values[n++] = running;
	if (read_format & PERF_FORMAT_ID)
		values[n++] = primary_event_id(event);
	if (read_format & PERF_FORMAT_TAIL)
		return perf_read_one_tail(event, read_format, running, values, n, buf);

	if (copy_to_user(buf, values, n * sizeof(u64)))
		return -EFAULT;

	return n * sizeof(u64);
}

static bool is_event_hup(struct perf_event *event)
{
	bool no_children;

	if (event->state > PERF_EVENT_STATE_EXIT)
		return false;

	mutex_lock(&event->child_mutex);
	no_children = list_empty(&event->child_list);
	mutex_unlock(&event->child_mutex);
	return no_children;
}

/*
 * Read the performance event - simple non blocking version for now
 */
static ssize_t
__perf_read(struct perf_event *event, char __user *buf, size_t count)
{
	u64 read_format = event->attr.read_format;
	int ret;

	/*
	 * Return end-of-file for a read on an event that is in
	 * error state (i.e. because it was pinned but it couldn't be
	 * scheduled on to the CPU at some point).
	 */
	if (event->state == PERF_EVENT_STATE_ERROR)
		return 0;

	if (count < event->read_size)
		return -ENOSPC;

	WARN_ON_ONCE(event->ctx->parent_ctx);
	if (read_format & PERF_FORMAT_GROUP)
		ret = perf_read_group(event, read_format, buf);
	else
		ret = perf_read_one(event, read_format, buf);

	return ret;
}

/**
 * perf_read() - read(2) of an event
 * @file:	Its file
 * @buf:	Where to write the values
 * @count:	Size of @buf in bytes
 * @ppos:	Not used: each call reads the values of now
 *
 * Context: Process context. Takes perf_event_context::mutex.
 * Return: The number of bytes written, 0 for an event in error state, -ENOSPC if
 *         @buf is too small, -EFAULT if it is not there, or what the security
 *         module or the PMU refuses with.
 */
ssize_t perf_read(struct file *file, char __user *buf, size_t count, loff_t *ppos)
{
	struct perf_event *event = file->private_data;
	struct perf_event_context *ctx;
	int ret;

	ret = security_perf_event_read(event);
	if (ret)
		return ret;

	ctx = perf_event_ctx_lock(event);
	ret = __perf_read(event, buf, count);
	perf_event_ctx_unlock(event, ctx);

	return ret;
}

/**
 * perf_poll() - poll(2) of an event
 * @file:	Its file
 * @wait:	What waits for perf_event::waitq
 *
 * Context: Process context. Takes perf_event::mmap_mutex.
 * Return: What its buffer has told since the last call. EPOLLHUP if it has no
 *         buffer, or if the event and all that inherited it are gone.
 */
__poll_t perf_poll(struct file *file, poll_table *wait)
{
	struct perf_event *event = file->private_data;
	struct perf_buffer *rb;
	__poll_t events = EPOLLHUP;
	bool hup;

	poll_wait(file, &event->waitq, wait);

	hup = is_event_hup(event);

	/*
	 * Pin the event->rb by taking event->mmap_mutex; otherwise
	 * perf_event_set_output() can swizzle our rb and make us miss wakeups.
	 */
	mutex_lock(&event->mmap_mutex);
	rb = event->rb;
	if (rb && rb_splice(rb))
		events = perf_splice_poll(rb);
	else if (rb && !hup)
		events = (__force __poll_t)atomic_xchg(&rb->poll, 0);
	mutex_unlock(&event->mmap_mutex);
	return events;
}

/* @sub is an event of the group whose member @event is sampled, or @event. */
static noinline void perf_output_read_tail(struct perf_output_handle *handle,
					   struct perf_event *event,
					   struct perf_event *sub, u64 running,
					   bool self)
{
	u64 values[3] = {};
	int n;

	n = perf_read_group_tail(sub, event->attr.read_format,
				 sub == event ? running : U64_MAX, self, values);
	__output_copy(handle, values, n * sizeof(u64));
}

static void perf_output_read_one(struct perf_output_handle *handle,
				 struct perf_event *event,
				 u64 enabled, u64 running)
{
	u64 read_format = event->attr.read_format;
	bool self = has_inherit_and_sample_read(&event->attr);
	u64 values[4];
	int n = 0;

	values[n++] = perf_event_count(event, self);
	if (read_format & PERF_FORMAT_TOTAL_TIME_ENABLED) {
		values[n++] = enabled +
			atomic64_read(&event->child_total_time_enabled);
	}
	if (read_format & PERF_FORMAT_TOTAL_TIME_RUNNING) {
		values[n++] = running +
			atomic64_read(&event->child_total_time_running);
	}
	if (read_format & PERF_FORMAT_ID)
		values[n++] = primary_event_id(event);

	__output_copy(handle, values, n * sizeof(u64));
	if (read_format & PERF_FORMAT_TAIL)
		perf_output_read_tail(handle, event, event, running, self);
}

static void perf_output_read_group(struct perf_output_handle *handle,
				   struct perf_event *event,
				   u64 enabled, u64 running)
{
	struct perf_event *leader = event->group_leader, *sub;
	u64 read_format = event->attr.read_format;
	unsigned long flags;
	u64 values[5];
	int n = 0;
	bool self = has_inherit_and_sample_read(&event->attr);

	/*
	 * Disabling interrupts avoids all counter scheduling
	 * (context switches, timer based rotation and IPIs).
	 */
	local_irq_save(flags);

	values[n++] = 1 + leader->nr_siblings;

	if (read_format & PERF_FORMAT_TOTAL_TIME_ENABLED)
		values[n++] = enabled;

	if (read_format & PERF_FORMAT_TOTAL_TIME_RUNNING)
		values[n++] = running;

	if (leader != event && !handle->skip_read)
		perf_pmu_read(leader);

	values[n++] = perf_event_count(leader, self);
	if (read_format & PERF_FORMAT_ID)
		values[n++] = primary_event_id(leader);

	__output_copy(handle, values, n * sizeof(u64));
	if (read_format & PERF_FORMAT_TAIL)
		perf_output_read_tail(handle, event, leader, running, self);

	for_each_sibling_event(sub, leader) {
		n = 0;

		if (sub != event && !handle->skip_read)
			perf_pmu_read(sub);

		values[n++] = perf_event_count(sub, self);
		if (read_format & PERF_FORMAT_ID)
			values[n++] = primary_event_id(sub);

		__output_copy(handle, values, n * sizeof(u64));
		if (read_format & PERF_FORMAT_TAIL)
			perf_output_read_tail(handle, event, sub, running, self);
	}

	local_irq_restore(flags);
}

#define PERF_FORMAT_TOTAL_TIMES (PERF_FORMAT_TOTAL_TIME_ENABLED | \
				 PERF_FORMAT_TOTAL_TIME_RUNNING)

/*
 * XXX PERF_SAMPLE_READ vs inherited events seems difficult.
 *
 * The problem is that its both hard and excessively expensive to iterate the
 * child list, not to mention that its impossible to IPI the children running
 * on another CPU, from interrupt/NMI context.
 *
 * Instead the combination of PERF_SAMPLE_READ and inherit will track per-thread
 * counts rather than attempting to accumulate some value across all children on
 * all cores.
 */

/**
 * perf_output_read() - Write to a record what read(2) of an event would tell
 * @handle:	The record, begun
 * @event:	The event
 *
 * Context: Any, NMI included. The event is on this CPU.
 */
void perf_output_read(struct perf_output_handle *handle, struct perf_event *event)
{
	u64 enabled = 0, running = 0, now;
	u64 read_format = event->attr.read_format;

	/*
	 * compute total_time_enabled, total_time_running
	 * based on snapshot values taken when the event
	 * was last scheduled in.
	 *
	 * we cannot simply called update_context_time()
	 * because of locking issue as we are called in
	 * NMI context
	 */
	if (read_format & (PERF_FORMAT_TOTAL_TIMES | PERF_FORMAT_GATE_TIME))
		calc_timer_values(event, &now, &enabled, &running);

	if (event->attr.read_format & PERF_FORMAT_GROUP)
		perf_output_read_group(handle, event, enabled, running);
	else
		perf_output_read_one(handle, event, enabled, running);
}
