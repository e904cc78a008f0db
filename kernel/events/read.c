// SPDX-License-Identifier: GPL-2.0
/*
 * Reading an event: through its file, with read(2) and poll(2), and in the records of a
 * ring buffer that hold the same values.
 */
#include <linux/perf_event.h>
#include <linux/poll.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/security.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/topology.h>
#include <linux/uaccess.h>

#include "internal.h"
#include "splice.h"

struct perf_read_data {
	struct perf_event *event;
	bool group;
	int ret;
};

static int __perf_event_read_cpu(struct perf_event *event, int event_cpu)
{
	int local_cpu = smp_processor_id();
	u16 local_pkg, event_pkg;

	if ((unsigned int)event_cpu >= nr_cpu_ids)
		return event_cpu;

	if (event->group_caps & PERF_EV_CAP_READ_SCOPE) {
		const struct cpumask *cpumask;

		cpumask = perf_scope_cpu_topology_cpumask(event->pmu->scope, event_cpu);
		if (cpumask && cpumask_test_cpu(local_cpu, cpumask))
			return local_cpu;
	}

	if (event->group_caps & PERF_EV_CAP_READ_ACTIVE_PKG) {
		event_pkg = topology_physical_package_id(event_cpu);
		local_pkg = topology_physical_package_id(local_cpu);

		if (event_pkg == local_pkg)
			return local_cpu;
	}

	return event_cpu;
}

static void perf_event_read_this_cpu(void *info)
{
	struct perf_read_data *data = info;
	struct perf_event *sub, *event = data->event;
	struct perf_event_context *ctx = event->ctx;
	struct pmu *pmu;

	/*
	 * If this is a task context, we need to check whether it is
	 * the current task context of this cpu.  If not it has been
	 * scheduled out before the smp call arrived.  In that case
	 * event->count would have been updated to a recent sample
	 * when the event was scheduled out.
	 */
	if (ctx->task && perf_cpu_task_ctx() != ctx)
		return;

	guard(raw_spinlock)(&ctx->lock);
	/* __perf_event_read() defers firings, so no gate moves before the reads below. */
	__perf_event_update_times(event, data->group);

	if (event->state != PERF_EVENT_STATE_ACTIVE)
		return;

	if (!data->group) {
		event->pmu->read(event);
		data->ret = 0;
		return;
	}

	pmu = event->pmu_ctx->pmu;
	pmu->start_txn(pmu, PERF_PMU_TXN_READ);

	event->pmu->read(event);
	for_each_sibling_event(sub, event) {
		if (sub->state == PERF_EVENT_STATE_ACTIVE)
			sub->pmu->read(sub);
	}

	data->ret = pmu->commit_txn(pmu);
}

/*
 * Cross CPU call to read the hardware event
 */
static void __perf_event_read(void *info)
{
	perf_gate_call_deferring(perf_event_read_this_cpu, info);
}

/*
 * NMI-safe method to read a local event, that is an event that
 * is:
 *   - either for the current task, or for this CPU
 *   - does not have inherit set, for inherited task events
 *     will not be local and we cannot read them atomically
 *   - must not have a pmu::count method
 */
int perf_event_read_local(struct perf_event *event, u64 *value,
			  u64 *enabled, u64 *running)
{
	unsigned long flags;
	int event_oncpu;
	int event_cpu;
	int ret = 0;

	/*
	 * Disabling interrupts avoids all counter scheduling (context
	 * switches, timer based rotation and IPIs).
	 */
	local_irq_save(flags);

	/*
	 * It must not be an event with inherit set, we cannot read
	 * all child counters from atomic context.
	 */
	if (event->attr.inherit) {
		ret = -EOPNOTSUPP;
		goto out;
	}

	/* If this is a per-task event, it must be for current */
	if ((event->attach_state & PERF_ATTACH_TASK) &&
	    event->hw.target != current) {
		ret = -EINVAL;
		goto out;
	}

	/*
	 * Get the event CPU numbers, and adjust them to local if the event is
	 * a per-package event that can be read locally
	 */
	event_oncpu = __perf_event_read_cpu(event, event->oncpu);
	event_cpu = __perf_event_read_cpu(event, event->cpu);
	/*
	 * Read an event that has a gate on its CPU: a firing there takes no lock that could
	 * exclude a read elsewhere.
	 */
	if (perf_gate_has_account(event)) {
		event_oncpu = event->oncpu;
		event_cpu = event->cpu;
	}

	/* If this is a per-CPU event, it must be for this CPU */
	if (!(event->attach_state & PERF_ATTACH_TASK) &&
	    event_cpu != smp_processor_id()) {
		ret = -EINVAL;
		goto out;
	}

	/* If this is a pinned event it must be running on this CPU */
	if (event->attr.pinned && event_oncpu != smp_processor_id()) {
		ret = -EBUSY;
		goto out;
	}

	/*
	 * If the event is currently on this CPU, its either a per-task event,
	 * or local to this CPU. Furthermore it means its ACTIVE (otherwise
	 * oncpu == -1).
	 */
	if (event_oncpu == smp_processor_id())
		perf_gate_pmu_read(event);

	*value = perf_gate_count(event);
	if (enabled || running) {
		u64 __enabled, __running, __now;

		perf_calc_timer_values(event, &__now, &__enabled, &__running);
		if (enabled)
			*enabled = __enabled;
		if (running)
			*running = __running;
	}
out:
	local_irq_restore(flags);

	return ret;
}

/**
 * perf_event_read() - Bring the count and the times of an event up to date
 * @event:	The event
 * @group:	Whether to do the same for its siblings
 *
 * Context: Process context, interrupts on. perf_event_context::mutex held, or
 *          perf_event::child_mutex of the parent of an inherited event.
 * Return: 0, or the error of pmu::commit_txn() for a group.
 */
int perf_event_read(struct perf_event *event, bool group)
{
	enum perf_event_state state = READ_ONCE(event->state);
	int event_cpu, ret = 0;

	/*
	 * If event is enabled and currently active on a CPU, update the
	 * value in the event structure:
	 */
again:
	if (state == PERF_EVENT_STATE_ACTIVE) {
		struct perf_read_data data;

		/*
		 * Orders the ->state and ->oncpu loads such that if we see
		 * ACTIVE we must also see the right ->oncpu.
		 *
		 * Matches the smp_wmb() from event_sched_in().
		 */
		smp_rmb();

		event_cpu = READ_ONCE(event->oncpu);
		if ((unsigned int)event_cpu >= nr_cpu_ids)
			return 0;

		data = (struct perf_read_data){
			.event = event,
			.group = group,
			.ret = 0,
		};

		preempt_disable();
		/* Any member of the group may have a gate, see perf_event_read_local(). */
		if (!perf_gates_exist())
			event_cpu = __perf_event_read_cpu(event, event_cpu);

		/*
		 * Purposely ignore the smp_call_function_single() return
		 * value.
		 *
		 * If event_cpu isn't a valid CPU it means the event got
		 * scheduled out and that will have updated the event count.
		 *
		 * Therefore, either way, we'll have an up-to-date event count
		 * after this.
		 */
		(void)smp_call_function_single(event_cpu, __perf_event_read, &data, 1);
		preempt_enable();
		ret = data.ret;

	} else if (state == PERF_EVENT_STATE_INACTIVE) {
		struct perf_event_context *ctx = event->ctx;
		unsigned long flags;

		raw_spin_lock_irqsave(&ctx->lock, flags);
		state = event->state;
		if (state != PERF_EVENT_STATE_INACTIVE) {
			raw_spin_unlock_irqrestore(&ctx->lock, flags);
			goto again;
		}

		perf_event_update_times(event, group);
		raw_spin_unlock_irqrestore(&ctx->lock, flags);
	}

	return ret;
}

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
 * Add the fields that follow value and id of a group member, summed over inherited
 * events. Out of line, because few readers ask for them.
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

/*
 * The inherited group of @leader differs from that of its parent. Return 0 if it adds
 * nothing to the sum, -EAGAIN if the caller has to sum up once more, and -ECHILD if
 * the difference is permanent because the parent's group has changed since the fork.
 *
 * copy_process() links one member after the other, and a task has counted nothing
 * before it runs. An exiting task removes one member after the other and leaves the
 * count of each with the parent, which the reader may have read before.
 */
static int perf_child_group_differs(struct perf_event *leader)
{
	struct task_struct *task = leader->ctx->task;

	lockdep_assert_held(&leader->ctx->lock);

	if (task == TASK_TOMBSTONE)
		return -EAGAIN;

	return READ_ONCE(task->__state) == TASK_NEW ? 0 : -ECHILD;
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
		ret = perf_child_group_differs(leader);
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

static int perf_read_family(struct perf_event *leader, u64 read_format, u64 *values)
{
	struct perf_event *child;
	int ret;

	guard(mutex)(&leader->child_mutex);

	ret = __perf_read_group_add(leader, read_format, values);
	if (ret)
		return ret;

	list_for_each_entry(child, &leader->child_list, child_list) {
		ret = __perf_read_group_add(child, read_format, values);
		if (ret)
			return ret;
	}

	return 0;
}

/* Maximum number of ticks that a reader waits for exiting tasks */
#define PERF_READ_EXITS		100

static int perf_read_group(struct perf_event *event,
			   u64 read_format, char __user *buf)
{
	struct perf_event *leader = event->group_leader;
	struct perf_event_context *ctx = leader->ctx;
	unsigned int exits = 0;
	u64 *values;
	int ret;

	lockdep_assert_held(&ctx->mutex);

	values = kzalloc(event->read_size, GFP_KERNEL);
	if (!values)
		return -ENOMEM;

	for (;;) {
		values[0] = 1 + leader->nr_siblings;
		ret = perf_read_family(leader, read_format, values);
		if (ret != -EAGAIN)
			break;
		if (++exits > PERF_READ_EXITS || fatal_signal_pending(current)) {
			ret = -ECHILD;
			break;
		}
		/*
		 * Sleep, because the exiting task needs the child_mutex, and perhaps this
		 * CPU.
		 */
		schedule_timeout_uninterruptible(1);
		memset(values, 0, event->read_size);
	}

	if (!ret) {
		ret = event->read_size;
		if (copy_to_user(buf, values, event->read_size))
			ret = -EFAULT;
	}

	kfree(values);
	return ret;
}

/*
 * Copy the first @n values, which are in @head, and the fields after them, which include
 * inherited events, to the user.
 */
static noinline int perf_read_one_tail(struct perf_event *event, u64 read_format,
				       u64 running, const u64 *head, int n,
				       char __user *buf)
{
	u64 values[4 + 1 + PERF_GATE_NR_VALUES];

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
 * @ppos:	Not used: each call reads the current values
 *
 * Context: Process context. Takes perf_event_context::mutex.
 * Return: The number of bytes written, 0 for an event in error state, -ENOSPC if
 *         @buf is too small, -EFAULT if @buf is not writable, -ECHILD if the group
 *         has changed since a running child inherited it, or an error of the
 *         security module or the PMU.
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
 * @wait:	Poll table
 *
 * Context: Process context. Takes perf_event::mmap_mutex.
 * Return: The wakeups of its buffer since the last call. EPOLLHUP if it has no
 *         buffer, or if the event and all its inherited children are dead.
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

/*
 * Write the fields after the value and ID of @sub, which is the sampled @event itself or
 * another member of its group.
 */
static noinline void perf_output_read_tail(struct perf_output_handle *handle,
					   struct perf_event *event,
					   struct perf_event *sub, u64 running,
					   bool self)
{
	u64 values[1 + PERF_GATE_NR_VALUES] = {};
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
 * perf_output_read() - Write to a record the values that read(2) would return
 * @handle:	The record, which has been begun
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
		perf_calc_timer_values(event, &now, &enabled, &running);

	if (event->attr.read_format & PERF_FORMAT_GROUP)
		perf_output_read_group(handle, event, enabled, running);
	else
		perf_output_read_one(handle, event, enabled, running);
}
