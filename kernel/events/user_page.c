// SPDX-License-Identifier: GPL-2.0
/*
 * The user page: the first page of an event's mapping, which tells a program which
 * counter to read and what to add to it.
 *
 *		     mmap(2)
 *			|  perf_event_init_userpage(): sizes, capabilities,
 *			|  before the event has the buffer
 *			v
 *	+---------------------------------+
 *	| STILL	 index 0		  |<---------------------+
 *	|	 offset is the count	  |			|
 *	|	 times stand, and so	  |	off its PMU:	|
 *	|	 cap_user_time is not set |	pmu::del(), or	|
 *	|	 if the event is off	  |	off for good:	|
 *	+---------------------------------+	perf_event_	|
 *			|			set_state()	|
 *			|  on its PMU: pmu::add(), pmu::start()	|
 *			v					|
 *	+---------------------------------+			|
 *	| RUNNING			  |---------------------+
 *	|	 index is counter + 1, if |
 *	|	 programs may read it	  |<---+
 *	|	 offset is what they add  |    | overflow, reset, a gate
 *	|	 times are those of when  |    | that moves, a new period:
 *	|	 the event went on	  |----+ index and offset again
 *	+---------------------------------+
 *
 * Writers:   perf_event_update_userpage() alone, apart from the sizes and the
 *	      first capabilities, which it finds there. It runs where the event
 *	      is: on its CPU with interrupts off, or with the lock of its context
 *	      while it is on none. mmap() and PERF_EVENT_IOC_RESET go there by
 *	      perf_event_publish(). So there is one writer, and only an NMI on the
 *	      same CPU can interrupt it, in which a driver counts and publishes the
 *	      same event.
 * Nesting:   An NMI leaves the times alone, which the interrupted code may have
 *	      half changed. It writes index and offset and counts itself in
 *	      perf_event::userpage_updates; the interrupted update sees that and
 *	      writes both again. Nothing that a program can write is looked at to
 *	      decide whether to go on: the page is its memory.
 * Readers:   A program on the CPU of the event, which copies what it needs between
 *	      two equal values of perf_event_mmap_page::lock, an NMI included:
 *	      the lock ends an update with another value than it began with, and an
 *	      NMI that interrupts leaves it as much ahead. It may trust all that it
 *	      copied: index, offset and width belong together, and the count is the
 *	      sum; the times are those of an enabled event until now if
 *	      cap_user_time is set, or else of the last update. A program on another
 *	      CPU may trust none of it: nothing orders the stores for it, and the
 *	      lock is even while an NMI is in the middle of an update.
 * Drivers:   An NMI in the middle of pmu::read() publishes a count that the
 *	      interrupted read() is about to add to. A driver whose NMIs count keeps
 *	      them out, as that of PowerPC does, or publishes again when
 *	      perf_event::userpage_updates has moved, as that of x86 does. Otherwise
 *	      the page is low by that much until the next update.
 * Lifetime:  The page is part of perf_buffer and is freed with it. It describes the
 *	      event that the buffer was made for, even when that event is gone and
 *	      events that were redirected there still have the buffer. An event
 *	      without a mapping has no page, and an update returns at once.
 */
#include <linux/perf_event.h>
#include <linux/sched/clock.h>

#include "internal.h"
#include "gate.h"

static int perf_event_index(struct perf_event *event)
{
	if (event->hw.state & PERF_HES_STOPPED)
		return 0;

	if (event->state != PERF_EVENT_STATE_ACTIVE)
		return 0;

	if (perf_gate_hides_index(event))
		return 0;

	return event->pmu->event_idx(event);
}

void __weak arch_perf_update_userpage(struct perf_event *event,
				      struct perf_event_mmap_page *userpg, u64 now)
{
}

/*
 * Readers sign-extend the value of the counter. In prev_count a driver may keep a start
 * value of 64 bits, and a value read from the counter that has only the counter's
 * width, so extend both in the same way.
 */
static s64 perf_userpage_prev_count(struct perf_event *event,
				    struct perf_event_mmap_page *userpg)
{
	s64 prev = local64_read(&event->hw.prev_count);
	unsigned int width = READ_ONCE(userpg->pmc_width);

	/*
	 * The program may have written any value there, because the page is its memory.
	 */
	if (!width || width >= 64)
		return prev;
	return sign_extend64(prev, width - 1);
}

/*
 * With cap_user_time, readers add to time_enabled what the clock has advanced
 * since the page was written. This is right only if each stop of the time and
 * each start of it is published. An event that its CPU filter or its cgroup
 * keeps off the PMU is not published. An inherited event that has a mapping
 * also has a CPU filter.
 */
static bool perf_userpage_times_run(struct perf_event *event)
{
	if ((event->attach_state & PERF_ATTACH_TASK) && event->cpu != -1)
		return false;
#ifdef CONFIG_CGROUP_PERF
	if (event->cgrp)
		return false;
#endif
	return true;
}

/* Capabilities that the page of an event never has, whatever the PMU offers */
enum perf_userpage_limits {
	PERF_USERPAGE_NO_RDPMC	= 1,
	PERF_USERPAGE_NO_TIME	= 2,
};

static unsigned int perf_userpage_limits(struct perf_event *event)
{
	return (is_software_event(event) ? PERF_USERPAGE_NO_RDPMC : 0) |
	       (perf_userpage_times_run(event) ? 0 : PERF_USERPAGE_NO_TIME);
}

static void
perf_event_fill_caps(struct perf_event *event,
		     struct perf_event_mmap_page *userpg, u64 now)
{
	arch_perf_update_userpage(event, userpg, now);
	if (event->userpage_limits & PERF_USERPAGE_NO_RDPMC)
		userpg->cap_user_rdpmc = 0;
	if (event->userpage_limits & PERF_USERPAGE_NO_TIME)
		userpg->cap_user_time = 0;
}

/**
 * perf_event_init_userpage() - Write the constant fields of an event's user page
 * @event:	The event
 * @rb:		The buffer that it is about to get
 *
 * No update finds the buffer yet and no program has it mapped, so the page is
 * neither seen half initialized nor written to.
 *
 * Context: Process context, perf_event::mmap_mutex held. rcu_assign_pointer() of
 *	    perf_event::rb follows.
 */
void perf_event_init_userpage(struct perf_event *event, struct perf_buffer *rb)
{
	struct perf_event_mmap_page *userpg = rb->user_page;

	rb->user_page_id = event->id;
	event->userpage_limits = perf_userpage_limits(event);

	/* Allow new userspace to detect that bit 0 is deprecated */
	userpg->cap_bit0_is_deprecated = 1;
	userpg->size = offsetof(struct perf_event_mmap_page, __reserved);
	userpg->data_offset = PAGE_SIZE;
	userpg->data_size = perf_data_size(rb);
	/*
	 * Fill in the capabilities of a disabled event, too, because its updates leave
	 * them alone.
	 */
	perf_event_fill_caps(event, userpg, local_clock());
}

static __always_inline void
perf_event_fill_times(struct perf_event *event, struct perf_event_mmap_page *userpg)
{
	u64 enabled, running;

	if (likely(__perf_effective_state(event) == PERF_EVENT_STATE_ACTIVE &&
		   !event->userpage_limits)) {
		struct perf_event_context *ctx = event->ctx;
		u64 now;

		/*
		 * The caller's clock reading is a valid start for readers. Other CPUs
		 * may update the context meanwhile, which does not change its offset,
		 * but reading its time and its timestamp separately could mix two
		 * updates.
		 */
		if (IS_ENABLED(CONFIG_64BIT))
			now = READ_ONCE(ctx->timestamp);
		else
			now = local_clock();
		__perf_update_times(event, now + READ_ONCE(ctx->timeoffset),
				    &enabled, &running);
		arch_perf_update_userpage(event, userpg, now);
	} else if (__perf_effective_state(event) > PERF_EVENT_STATE_OFF) {
		u64 now;

		perf_calc_timer_values(event, &now, &enabled, &running);
		perf_event_fill_caps(event, userpg, now);
	} else {
		enabled = event->total_time_enabled;
		running = event->total_time_running;
		/*
		 * The times of this event stand still, and a reader would add to them.
		 * An event that was never enabled keeps the capability, for programs
		 * that only need the scale of the clock.
		 */
		if (enabled)
			userpg->cap_user_time = 0;
	}

	userpg->time_enabled = enabled +
			atomic64_read(&event->child_total_time_enabled);

	userpg->time_running = running +
			atomic64_read(&event->child_total_time_running);
}

static __always_inline void
perf_event_fill_count(struct perf_event *event, struct perf_event_mmap_page *userpg)
{
	u32 index = perf_event_index(event);
	s64 offset = perf_event_count(event, false);

	if (index)
		offset -= perf_userpage_prev_count(event, userpg);
	userpg->index = index;
	userpg->offset = offset;
}

/**
 * perf_event_update_userpage() - Publish the state of an event in its user page
 * @event:	The event
 *
 * Does nothing unless the event has a mapping. An update may be interrupted by
 * one of the same event, which a driver makes in an NMI. The values that the
 * interrupted update has read may then be inconsistent, so it begins again. The
 * interruption is noted in kernel memory, because a program could write to the
 * page's own lock and make the update loop for ever.
 *
 * Context: Any, NMI included. The event is on this CPU, or it is not active and
 *	    perf_event_context::lock is held.
 */
void perf_event_update_userpage(struct perf_event *event)
{
	struct perf_event_mmap_page *userpg;
	struct perf_buffer *rb;
	unsigned int updates;

	rcu_read_lock();
	rb = rcu_dereference(event->rb);
	if (!rb || event->userpage_waits)
		goto unlock;
	/* Other events whose output goes to the same buffer have no page. */
	if (rb->user_page_id != event->id)
		goto unlock;

	userpg = rb->user_page;
	/*
	 * Disable preemption to guarantee consistent time stamps are stored to
	 * the user page.
	 */
	preempt_disable();
	++userpg->lock;
	barrier();
	/*
	 * An NMI may have interrupted perf_event_update_time(). The times that were
	 * published when the event became active are still right.
	 */
	if (!in_nmi())
		perf_event_fill_times(event, userpg);
	do {
		updates = READ_ONCE(event->userpage_updates);
		barrier();
		perf_event_fill_count(event, userpg);
		barrier();
	} while (updates != READ_ONCE(event->userpage_updates));
	/* An NMI from here on leaves a complete page behind. */
	WRITE_ONCE(event->userpage_updates, updates + 1);
	barrier();
	++userpg->lock;
	preempt_enable();
unlock:
	rcu_read_unlock();
}
EXPORT_SYMBOL_GPL(perf_event_update_userpage);

/**
 * perf_event_update_group_userpage() - Publish that a group is off
 * @leader:	Its leader, or another event that has no siblings of its own
 *
 * Context: perf_event_context::lock held, interrupts off.
 */
void perf_event_update_group_userpage(struct perf_event *leader)
{
	struct perf_event *sibling;

	leader->userpage_waits = false;
	perf_event_update_userpage(leader);
	for_each_sibling_event(sibling, leader)
		perf_event_update_userpage(sibling);
}

struct perf_publish_data {
	struct perf_event *event;
	bool reset;
};

static int __perf_event_publish(void *info)
{
	struct perf_publish_data *data = info;
	struct perf_event *event = data->event;
	struct perf_event_context *ctx = event->ctx;
	int ret = -EAGAIN;

	/* As in perf_event_read_this_cpu(), the event may have left this CPU. */
	if (ctx->task && perf_cpu_task_ctx() != ctx)
		return ret;

	raw_spin_lock(&ctx->lock);
	if (event->state == PERF_EVENT_STATE_ACTIVE &&
	    event->oncpu == smp_processor_id()) {
		perf_event_publish_locked(event, ctx, data->reset);
		ret = 0;
	}
	raw_spin_unlock(&ctx->lock);

	return ret;
}

/**
 * perf_event_publish() - Write the user page on the CPU of its event
 * @event:	The event
 * @reset:	Set the count to zero first
 *
 * Runs on the event's CPU, or on this one while the event is not active.
 *
 * Context: Process context. perf_event_context::mutex need not be held, and
 *	    perf_mmap() cannot take it.
 */
void perf_event_publish(struct perf_event *event, bool reset)
{
	struct perf_publish_data data = {
		.event	= event,
		.reset	= reset,
	};
	struct perf_event_context *ctx;
	bool off_cpu;
	int cpu;

	might_sleep();

	do {
		cpu = READ_ONCE(event->oncpu);
		if ((unsigned int)cpu < nr_cpu_ids &&
		    !perf_cpu_function_call(cpu, __perf_event_publish, &data))
			return;

		rcu_read_lock();
		ctx = READ_ONCE(event->ctx);
		raw_spin_lock_irq(&ctx->lock);
		off_cpu = event->ctx == ctx && event->state != PERF_EVENT_STATE_ACTIVE;
		if (off_cpu)
			perf_event_publish_locked(event, ctx, reset);
		raw_spin_unlock_irq(&ctx->lock);
		rcu_read_unlock();
	} while (!off_cpu);
}
