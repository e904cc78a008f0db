// SPDX-License-Identifier: GPL-2.0
/*
 * Simulated PMUs with an AUX area.
 *
 *                begin()                    end()
 *     STOPPED ------------> RUNNING ---------------------> STOPPED
 *                             |  ^                            ^
 *                      end(), |  | begin()                    |
 *                             `--'  at a wakeup, or when the  |
 *                                   granted room is short     |
 *                             `------- no room left: end(TRUNCATED)
 *
 * The producer writes a stream of u64. Each word is its own place in the stream,
 * with the upper half changed by PMUSIM_AUX_PATTERN, so a reader can tell where
 * it belongs. perf_aux_output_begin() grants the room that exists at the time of
 * the call. Before the producer gives up it asks again, as hardware with an
 * interrupt some way ahead of the end does.
 *
 * Contexts:  All but pausing and snapshots runs on the CPU of the event with
 *            interrupts off. An NMI may pause or resume the producer between two
 *            words, and may copy what is there: a word is counted in
 *            pmusim_aux_cpu::pos after it is written. It finds a transaction only
 *            while pmusim_aux_cpu::running is set.
 */

#include <linux/mm.h>
#include <linux/sizes.h>

#include "pmusim_aux.h"

#define PMUSIM_AUX_PATTERN	(0x5aa5ULL << 48)

/* Number of bytes that a tick writes with interrupts off */
#define PMUSIM_AUX_STEP		SZ_64K

static struct pmusim_aux_cpu *pmusim_aux_this_cpu(struct perf_event *event)
{
	return this_cpu_ptr(to_pmusim(event->pmu)->aux_cpu);
}

static void pmusim_aux_end(struct pmusim_aux_cpu *a, u64 flags)
{
	a->running = false;
	barrier();

	if (flags)
		perf_aux_output_flag(&a->handle, flags);
	if (a->buf->overwrite) {
		a->handle.head = a->pos;
		a->written = min(a->written, a->buf->size);
	}
	pmusim_log(a->event->pmu, a->event, PMUSIM_OP_OUTPUT, flags,
		   min_t(unsigned long, a->written, INT_MAX));
	/* Store the words before aux_head covers them. */
	smp_wmb();
	perf_aux_output_end(&a->handle, a->written);
	a->written = 0;
}

/* Stop the event and not only the transaction, so that only pmu::start() resumes it. */
static void pmusim_aux_halt(struct pmusim_aux_cpu *a, u64 flags)
{
	pmusim_aux_end(a, flags);
	a->event->hw.state |= PERF_HES_STOPPED;
}

/* Open a transaction. If that fails, mark the event as stopped and return false. */
static bool pmusim_aux_begin(struct pmusim_aux_cpu *a)
{
	struct pmusim_aux_event *ae = to_aux_event(a->event);
	unsigned long skip;

	a->buf = perf_aux_output_begin(&a->handle, a->event);
	if (!a->buf) {
		a->event->hw.state |= PERF_HES_STOPPED;
		return false;
	}

	if (!a->buf->overwrite && ae->align) {
		skip = -a->handle.head & (ae->align - 1);
		/* If the room ends before the next aligned position, act as if there were none. */
		if (skip && perf_aux_output_skip(&a->handle, skip)) {
			a->written = 0;
			pmusim_aux_halt(a, PERF_AUX_FLAG_TRUNCATED);
			return false;
		}
	}
	a->pos = a->handle.head;
	a->written = 0;
	barrier();
	a->running = true;
	return true;
}

/* Return the PMUSIM_INJECT_* flags for this end of a transaction. */
static u32 pmusim_aux_injection(struct pmusim_aux_event *ae)
{
	return ae->inject && ++ae->ends % ae->inject_nth == 0 ? ae->inject : 0;
}

static u64 pmusim_aux_flags(u32 inject)
{
	u64 flags = 0;

	if (inject & PMUSIM_INJECT_TRUNCATED)
		flags |= PERF_AUX_FLAG_TRUNCATED;
	if (inject & PMUSIM_INJECT_PARTIAL)
		flags |= PERF_AUX_FLAG_PARTIAL;
	if (inject & PMUSIM_INJECT_COLLISION)
		flags |= PERF_AUX_FLAG_COLLISION;
	return flags;
}

/* Publish the data so far and go on. Return false if that is impossible. */
static bool pmusim_aux_restart(struct pmusim_aux_cpu *a)
{
	struct pmusim_aux_event *ae = to_aux_event(a->event);
	u32 inject = pmusim_aux_injection(ae);
	u64 flags = pmusim_aux_flags(inject);

	if (flags & PERF_AUX_FLAG_TRUNCATED) {
		pmusim_aux_halt(a, flags);
		return false;
	}
	pmusim_aux_end(a, flags);
	if (!pmusim_aux_begin(a))
		return false;
	if (!(inject & PMUSIM_INJECT_EMPTY))
		return true;
	pmusim_aux_end(a, 0);
	return pmusim_aux_begin(a);
}

/* Write up to @bytes and return how many were written. */
static unsigned long pmusim_aux_write(struct pmusim_aux_cpu *a,
				      unsigned long bytes)
{
	unsigned long offset, end = a->pos + bytes, begin = a->pos;
	unsigned long mask = a->buf->size - 1;
	void **pages = a->buf->pages;
	u64 *word;

	while (a->pos != end && !READ_ONCE(a->paused)) {
		offset = a->pos & mask;
		word = pages[offset >> PAGE_SHIFT] + offset_in_page(offset);
		WRITE_ONCE(*word, a->pos ^ PMUSIM_AUX_PATTERN);
		/*
		 * A snapshot in an NMI relies on the word being stored before @pos
		 * moves.
		 */
		barrier();
		WRITE_ONCE(a->pos, a->pos + sizeof(*word));
	}
	a->written += a->pos - begin;
	return a->pos - begin;
}

/*
 * Act as hardware that traces @bytes. Bytes that come while it is paused or stopped are
 * lost.
 */
static void pmusim_aux_produce(struct pmusim_aux_cpu *a, unsigned long bytes)
{
	unsigned long room, part;
	bool again = false;

	while (bytes && a->running && !READ_ONCE(a->paused)) {
		room = a->buf->overwrite ? bytes : a->handle.size - a->written;
		part = min(bytes, round_down(room, sizeof(u64)));
		if (part < bytes && !again) {
			/* The reader may have made room since begin(). */
			again = true;
			if (!pmusim_aux_restart(a))
				return;
			continue;
		}
		bytes -= part;
		pmusim_aux_write(a, part);
		if (bytes && !READ_ONCE(a->paused)) {
			pmusim_aux_halt(a, PERF_AUX_FLAG_TRUNCATED);
			return;
		}
	}

	if (a->running && !a->buf->overwrite && a->written &&
	    (long)(a->pos - a->handle.wakeup) >= 0)
		pmusim_aux_restart(a);
}

/**
 * pmusim_aux_timer_fn() - Write a chunk
 * @timer:	pmusim_aux_cpu::timer
 *
 * Context: Hard interrupt, on the CPU of the producer.
 * Return: Whether the timer goes on.
 */
enum hrtimer_restart pmusim_aux_timer_fn(struct hrtimer *timer)
{
	struct pmusim_aux_cpu *a = container_of(timer, struct pmusim_aux_cpu, timer);
	struct pmusim_aux_event *ae;
	ktime_t begin, spent;

	if (!a->running)
		return HRTIMER_NORESTART;

	ae = to_aux_event(a->event);
	begin = ktime_get();
	pmusim_aux_produce(a, ae->chunk);
	if (!a->running)
		return HRTIMER_NORESTART;

	/* Whatever the rate, leave half of the time to other work. */
	spent = ktime_sub(ktime_get(), begin);
	if (spent > ae->interval / 2)
		hrtimer_set_expires(timer, ktime_add(ktime_get(), spent));
	hrtimer_forward_now(timer, ae->interval);
	return HRTIMER_RESTART;
}

/**
 * pmusim_aux_start() - pmu::start() of AUX events
 * @event:	The event
 * @flags:	PERF_EF_RESUME to undo a pause, and nothing else
 *
 * Context: Interrupts off; NMIs to undo a pause.
 */
void pmusim_aux_start(struct perf_event *event, int flags)
{
	struct pmusim_aux_cpu *a = pmusim_aux_this_cpu(event);
	struct pmusim_aux_event *ae = to_aux_event(event);
	unsigned int paused;

	pmusim_log(event->pmu, event, PMUSIM_OP_START, flags, 0);
	if (flags & PERF_EF_RESUME) {
		if (READ_ONCE(a->event) == event)
			WRITE_ONCE(a->paused, false);
		return;
	}
	if (WARN_ON_ONCE(a->event != event ||
			 (a->running && !(ae->inject & PMUSIM_INJECT_KEEP))))
		return;

	/* An NMI may pause or resume the event meanwhile, so repeat until both are equal. */
	do {
		paused = READ_ONCE(event->hw.aux_paused);
		WRITE_ONCE(a->paused, paused);
		barrier();
	} while (paused != READ_ONCE(event->hw.aux_paused));

	event->hw.state = 0;
	if (!a->running && !pmusim_aux_begin(a))
		return;
	if (ae->source == PMUSIM_AUX_TIMER)
		hrtimer_start(&a->timer, ktime_add(ae->interval, ae->latency),
			      HRTIMER_MODE_REL_PINNED_HARD);
}

/**
 * pmusim_aux_stop() - pmu::stop() of AUX events
 * @event:	The event
 * @flags:	PERF_EF_PAUSE to pause it, and nothing else
 *
 * Context: Interrupts off; NMIs to pause.
 */
void pmusim_aux_stop(struct perf_event *event, int flags)
{
	struct pmusim_aux_cpu *a = pmusim_aux_this_cpu(event);
	u32 inject;

	pmusim_log(event->pmu, event, PMUSIM_OP_STOP, flags, 0);
	if (flags & PERF_EF_PAUSE) {
		if (READ_ONCE(a->event) == event)
			WRITE_ONCE(a->paused, true);
		return;
	}
	if (event->hw.state & PERF_HES_STOPPED)
		return;

	event->hw.state |= PERF_HES_STOPPED;
	/* The caller may be the timer itself, so do not wait for it. */
	hrtimer_try_to_cancel(&a->timer);
	if (!a->running)
		return;
	/* Keep the transaction: pmusim_aux_start() continues or pmusim_aux_del() ends it. */
	if (to_aux_event(event)->inject & PMUSIM_INJECT_KEEP) {
		WRITE_ONCE(a->paused, true);
		return;
	}
	inject = pmusim_aux_injection(to_aux_event(event));
	pmusim_aux_end(a, pmusim_aux_flags(inject));
}

static int pmusim_aux_place(struct pmusim_aux_cpu *a, struct perf_event *event)
{
	if (a->event)
		return -EBUSY;
	if (atomic_add_unless(&a->sim->fail_add, -1, 0))
		return -EAGAIN;
	return 0;
}

/**
 * pmusim_aux_add() - pmu::add() of AUX events
 * @event:	The event
 * @flags:	PERF_EF_START to start it
 *
 * Context: Interrupts off.
 * Return: 0, -EBUSY if this CPU has another AUX event, -EINVAL if there is no area or
 *         no room in it, -EAGAIN if fail_add in debugfs asks for a failure.
 */
int pmusim_aux_add(struct perf_event *event, int flags)
{
	struct pmusim_aux_cpu *a = pmusim_aux_this_cpu(event);
	int ret = pmusim_aux_place(a, event);

	pmusim_log(event->pmu, event, PMUSIM_OP_ADD, flags, ret);
	if (ret)
		return ret;

	a->event = event;
	event->hw.state = PERF_HES_STOPPED;
	if (!(flags & PERF_EF_START))
		return 0;
	pmusim_aux_start(event, 0);
	if (!(event->hw.state & PERF_HES_STOPPED))
		return 0;
	a->event = NULL;
	return -EINVAL;
}

/**
 * pmusim_aux_del() - pmu::del() of AUX events
 * @event:	The event
 * @flags:	Not used
 *
 * Context: Interrupts off.
 */
void pmusim_aux_del(struct perf_event *event, int flags)
{
	struct pmusim_aux_cpu *a = pmusim_aux_this_cpu(event);

	pmusim_log(event->pmu, event, PMUSIM_OP_DEL, flags, 0);
	pmusim_aux_stop(event, PERF_EF_UPDATE);
	if (a->running)
		pmusim_aux_end(a, 0);
	/* The timer may still be armed for an event that ran out of room. */
	hrtimer_try_to_cancel(&a->timer);
	a->event = NULL;
}

/**
 * pmusim_aux_read() - pmu::read() of AUX events, which count nothing
 * @event:	The event
 *
 * Context: Interrupts off, NMIs.
 */
void pmusim_aux_read(struct perf_event *event)
{
	pmusim_log(event->pmu, event, PMUSIM_OP_READ, 0, 0);
}

/**
 * pmusim_snapshot_aux() - pmu::snapshot_aux()
 * @event:	The event
 * @handle:	The record that the data goes to
 * @size:	Number of bytes to copy
 *
 * Context: Interrupts off, NMIs.
 * Return: @size, or -EFAULT if the record takes less.
 */
long pmusim_snapshot_aux(struct perf_event *event,
			 struct perf_output_handle *handle,
			 unsigned long size)
{
	struct pmusim_aux_cpu *a = pmusim_aux_this_cpu(event);
	unsigned long pos, len, left = size;

	if (a->event == event && a->running) {
		pos = READ_ONCE(a->pos);
		return perf_output_copy_aux(&a->handle, handle, pos - size, pos);
	}

	/* The record already has room for the data, so fill it with zeros. */
	while (left) {
		len = min(left, PAGE_SIZE);
		if (perf_output_copy(handle, page_address(ZERO_PAGE(0)), len))
			return -EFAULT;
		left -= len;
	}
	return size;
}

/**
 * pmusim_aux_packets() - Write the chunks that pmusim_aux_packet() asked for
 * @work:	pmusim_aux_cpu::work
 *
 * Context: Hard interrupt, on the CPU of the producer.
 */
void pmusim_aux_packets(struct irq_work *work)
{
	struct pmusim_aux_cpu *a = container_of(work, struct pmusim_aux_cpu, work);
	int packets = atomic_xchg(&a->packets, 0);

	while (packets-- && a->running)
		pmusim_aux_produce(a, to_aux_event(a->event)->chunk);
}

/**
 * pmusim_aux_packet() - Handle the overflow of an event with attr.aux_output
 * @event:	The event
 *
 * Its AUX event writes a chunk instead of a sample.
 *
 * Context: Interrupts off, NMIs.
 */
void pmusim_aux_packet(struct perf_event *event)
{
	struct pmusim_aux_cpu *a = this_cpu_ptr(pmusim_aux.aux_cpu);

	if (!event->aux_event || a->event != event->aux_event)
		return;
	atomic_inc(&a->packets);
	irq_work_queue(&a->work);
}

/**
 * pmusim_aux_tick() - Let the producer of this CPU write
 * @sim:	The PMU
 * @bytes:	Number of bytes
 *
 * Context: Interrupts off.
 * Return: Bytes left for the next call; 0 also if no event waits for them.
 */
unsigned long pmusim_aux_tick(struct pmusim *sim, unsigned long bytes)
{
	struct pmusim_aux_cpu *a = this_cpu_ptr(sim->aux_cpu);
	unsigned long step = min(bytes, PMUSIM_AUX_STEP);

	if (!a->running || to_aux_event(a->event)->source != PMUSIM_AUX_MANUAL)
		return 0;
	pmusim_aux_produce(a, step);
	return bytes - step;
}

/**
 * pmusim_aux_state() - Copy the state of the producer of this CPU
 * @sim:	The PMU
 * @state:	Destination
 *
 * Context: Interrupts off.
 */
void pmusim_aux_state(struct pmusim *sim, struct pmusim_state *state)
{
	struct pmusim_aux_cpu *a = this_cpu_ptr(sim->aux_cpu);

	if (!a->event)
		return;
	state->aux.id = a->event->id;
	state->aux.pos = a->pos;
	state->aux.running = a->running;
	state->aux.paused = a->paused;
}
