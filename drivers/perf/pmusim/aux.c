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
 * with the upper half changed by PMUSIM_AUX_PATTERN, so whoever finds it knows
 * where it belongs. The room that perf_aux_output_begin() grants is that of the
 * time of the call. Before the producer gives up it asks again, as hardware with
 * an interrupt some way ahead of the end does.
 *
 * Contexts:  All but pausing and snapshots runs on the CPU of the event with
 *            interrupts off. An NMI may pause or resume the producer between two
 *            words, and may copy what is there: a word is counted in
 *            pmusim_aux_cpu::pos after it is written. It finds a transaction only
 *            while pmusim_aux_cpu::running is set.
 */

#include <linux/bitfield.h>
#include <linux/slab.h>

#include "pmusim.h"

#define PMUSIM_AUX_PATTERN	(0x5aa5ULL << 48)

#define PMUSIM_AUX_MAX_CHUNK	SZ_1M

/* What a tick writes with interrupts off */
#define PMUSIM_AUX_STEP		SZ_64K

enum pmusim_aux_source {
	PMUSIM_AUX_MANUAL,
	PMUSIM_AUX_TIMER,
};

/* config2:0-7 */
#define PMUSIM_INJECT_TRUNCATED	BIT(0)
#define PMUSIM_INJECT_PARTIAL	BIT(1)
#define PMUSIM_INJECT_COLLISION	BIT(2)
#define PMUSIM_INJECT_EMPTY	BIT(3)
#define PMUSIM_INJECT_ALL	GENMASK(3, 0)

PMU_FORMAT_ATTR(event,		"config:0-7");
PMU_FORMAT_ATTR(align,		"config:8-13");
PMU_FORMAT_ATTR(lat,		"config:16-31");
PMU_FORMAT_ATTR(rate,		"config1:0-31");
PMU_FORMAT_ATTR(chunk,		"config1:32-63");
PMU_FORMAT_ATTR(inject,		"config2:0-7");
PMU_FORMAT_ATTR(inject_nth,	"config2:8-23");

static struct attribute *pmusim_aux_format_attrs[] = {
	&format_attr_event.attr,
	&format_attr_align.attr,
	&format_attr_lat.attr,
	&format_attr_rate.attr,
	&format_attr_chunk.attr,
	&format_attr_inject.attr,
	&format_attr_inject_nth.attr,
	NULL,
};

static const struct attribute_group pmusim_aux_format_group = {
	.name	= "format",
	.attrs	= pmusim_aux_format_attrs,
};

PMU_EVENT_ATTR_STRING(manual,	pmusim_aux_manual,	"event=0x00");
PMU_EVENT_ATTR_STRING(timer,	pmusim_aux_timer,	"event=0x01,rate=1000");

static struct attribute *pmusim_aux_event_attrs[] = {
	&pmusim_aux_manual.attr.attr,
	&pmusim_aux_timer.attr.attr,
	NULL,
};

static const struct attribute_group pmusim_aux_event_group = {
	.name	= "events",
	.attrs	= pmusim_aux_event_attrs,
};

static const struct attribute_group *pmusim_aux_groups[] = {
	&pmusim_aux_format_group,
	&pmusim_aux_event_group,
	NULL,
};

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
 * @sim:	The PMU that it is part of
 * @event:	The event that is on it
 * @buf:	The area of the transaction
 * @running:	There is a transaction
 * @paused:	pmu::stop() was called with PERF_EF_PAUSE
 * @pos:	Place in the stream: what comes next
 * @written:	Bytes of this transaction
 * @packets:	Overflows of events with attr.aux_output to write a chunk for
 * @handle:	The transaction
 * @timer:	Of PMUSIM_AUX_TIMER
 * @work:	Writes for @packets
 */
struct pmusim_aux_cpu {
	struct pmusim			*sim;
	struct perf_event		*event;
	struct pmusim_aux_buffer	*buf;
	bool				running;
	bool				paused;
	unsigned long			pos;
	unsigned long			written;
	atomic_t			packets;
	struct perf_output_handle	handle;
	struct hrtimer			timer;
	struct irq_work			work;
};

static struct pmusim_aux_cpu *pmusim_aux_this_cpu(struct perf_event *event)
{
	return this_cpu_ptr(to_pmusim(event->pmu)->aux_cpu);
}

static struct pmusim_aux_event *to_aux_event(struct perf_event *event)
{
	return event->pmu_private;
}

/* Open a transaction. Without one the event is stopped. */
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
		/* Without the room for it, the next write finds that. */
		if (skip)
			perf_aux_output_skip(&a->handle, skip);
	}
	a->pos = a->handle.head;
	a->written = 0;
	barrier();
	a->running = true;
	return true;
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
	/* The words are there before aux_head says so. */
	smp_wmb();
	perf_aux_output_end(&a->handle, a->written);
	a->written = 0;
}

/* The end of the event, not of a transaction: only start() helps. */
static void pmusim_aux_halt(struct pmusim_aux_cpu *a, u64 flags)
{
	pmusim_aux_end(a, flags);
	a->event->hw.state |= PERF_HES_STOPPED;
}

static u64 pmusim_aux_injection(struct pmusim_aux_event *ae)
{
	u64 flags = 0;

	if (!ae->inject || ++ae->ends % ae->inject_nth)
		return 0;
	if (ae->inject & PMUSIM_INJECT_TRUNCATED)
		flags |= PERF_AUX_FLAG_TRUNCATED;
	if (ae->inject & PMUSIM_INJECT_PARTIAL)
		flags |= PERF_AUX_FLAG_PARTIAL;
	if (ae->inject & PMUSIM_INJECT_COLLISION)
		flags |= PERF_AUX_FLAG_COLLISION;
	return flags;
}

/* Publish what is there and go on. False if that is not possible. */
static bool pmusim_aux_turn(struct pmusim_aux_cpu *a)
{
	struct pmusim_aux_event *ae = to_aux_event(a->event);
	u64 flags = pmusim_aux_injection(ae);

	if (flags & PERF_AUX_FLAG_TRUNCATED) {
		pmusim_aux_halt(a, flags);
		return false;
	}
	pmusim_aux_end(a, flags);
	if (!pmusim_aux_begin(a))
		return false;
	if (!(ae->inject & PMUSIM_INJECT_EMPTY))
		return true;
	pmusim_aux_end(a, 0);
	return pmusim_aux_begin(a);
}

/* Write up to @bytes and tell how much it was. */
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
		/* A snapshot in an NMI counts on the word being there. */
		barrier();
		WRITE_ONCE(a->pos, a->pos + sizeof(*word));
	}
	a->written += a->pos - begin;
	return a->pos - begin;
}

/*
 * What the hardware would do when it traces @bytes. What comes while it is paused
 * or stopped is gone.
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
			if (!pmusim_aux_turn(a))
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
		pmusim_aux_turn(a);
}

static enum hrtimer_restart pmusim_aux_timer_fn(struct hrtimer *timer)
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

	/* However much it is, half of the time is for others. */
	spent = ktime_sub(ktime_get(), begin);
	if (spent > ae->interval / 2)
		hrtimer_set_expires(timer, ktime_add(ktime_get(), spent));
	hrtimer_forward_now(timer, ae->interval);
	return HRTIMER_RESTART;
}

static void pmusim_aux_start(struct perf_event *event, int flags)
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
	if (WARN_ON_ONCE(a->event != event || a->running))
		return;

	/* An NMI may change both in between. */
	do {
		paused = READ_ONCE(event->hw.aux_paused);
		WRITE_ONCE(a->paused, paused);
		barrier();
	} while (paused != READ_ONCE(event->hw.aux_paused));

	event->hw.state = 0;
	if (!pmusim_aux_begin(a))
		return;
	if (ae->source == PMUSIM_AUX_TIMER)
		hrtimer_start(&a->timer, ktime_add(ae->interval, ae->latency),
			      HRTIMER_MODE_REL_PINNED_HARD);
}

static void pmusim_aux_stop(struct perf_event *event, int flags)
{
	struct pmusim_aux_cpu *a = pmusim_aux_this_cpu(event);

	pmusim_log(event->pmu, event, PMUSIM_OP_STOP, flags, 0);
	if (flags & PERF_EF_PAUSE) {
		if (READ_ONCE(a->event) == event)
			WRITE_ONCE(a->paused, true);
		return;
	}
	if (event->hw.state & PERF_HES_STOPPED)
		return;

	event->hw.state |= PERF_HES_STOPPED;
	/* It may be the timer that has called this. */
	hrtimer_try_to_cancel(&a->timer);
	if (a->running)
		pmusim_aux_end(a, pmusim_aux_injection(to_aux_event(event)));
}

static int pmusim_aux_place(struct pmusim_aux_cpu *a, struct perf_event *event)
{
	if (a->event)
		return -EBUSY;
	if (atomic_add_unless(&a->sim->fail_add, -1, 0))
		return -EAGAIN;
	return 0;
}

static int pmusim_aux_add(struct perf_event *event, int flags)
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

static void pmusim_aux_del(struct perf_event *event, int flags)
{
	struct pmusim_aux_cpu *a = pmusim_aux_this_cpu(event);

	pmusim_log(event->pmu, event, PMUSIM_OP_DEL, flags, 0);
	pmusim_aux_stop(event, PERF_EF_UPDATE);
	/* Of an event that had no room left it may still be queued. */
	hrtimer_try_to_cancel(&a->timer);
	a->event = NULL;
}

static void pmusim_aux_read(struct perf_event *event)
{
	pmusim_log(event->pmu, event, PMUSIM_OP_READ, 0, 0);
}

static void *pmusim_setup_aux(struct perf_event *event, void **pages,
			      int nr_pages, bool overwrite)
{
	struct pmusim_aux_buffer *buf;

	buf = kzalloc(sizeof(*buf), GFP_KERNEL);
	if (!buf)
		return NULL;
	buf->pages = pages;
	buf->size = (unsigned long)nr_pages << PAGE_SHIFT;
	buf->overwrite = overwrite;
	return buf;
}

static void pmusim_free_aux(void *aux)
{
	kfree(aux);
}

static long pmusim_snapshot_aux(struct perf_event *event,
				struct perf_output_handle *handle,
				unsigned long size)
{
	struct pmusim_aux_cpu *a = pmusim_aux_this_cpu(event);
	unsigned long pos, len, left = size;

	if (a->event == event && a->running) {
		pos = READ_ONCE(a->pos);
		return perf_output_copy_aux(&a->handle, handle, pos - size, pos);
	}

	/* The record has the room already, so something has to be in it. */
	while (left) {
		len = min(left, PAGE_SIZE);
		if (perf_output_copy(handle, page_address(ZERO_PAGE(0)), len))
			return -EFAULT;
		left -= len;
	}
	return size;
}

static void pmusim_aux_packets(struct irq_work *work)
{
	struct pmusim_aux_cpu *a = container_of(work, struct pmusim_aux_cpu, work);
	int packets = atomic_xchg(&a->packets, 0);

	while (packets-- && a->running)
		pmusim_aux_produce(a, to_aux_event(a->event)->chunk);
}

/**
 * pmusim_aux_packet() - An event with attr.aux_output has overflowed
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
 * @bytes:	How much
 *
 * Context: Interrupts off.
 * Return: How much of @bytes is left for the next call; 0 also if there is no
 *         event that wants to be told.
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
 * pmusim_aux_state() - Copy what the producer of this CPU has
 * @sim:	The PMU
 * @state:	Where to
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

#define PMUSIM_AUX_SOURCE	GENMASK_ULL(7, 0)
#define PMUSIM_AUX_ALIGN	GENMASK_ULL(13, 8)
#define PMUSIM_AUX_LAT		GENMASK_ULL(31, 16)
#define PMUSIM_AUX_RATE		GENMASK_ULL(31, 0)
#define PMUSIM_AUX_CHUNK	GENMASK_ULL(63, 32)
#define PMUSIM_AUX_INJECT	GENMASK_ULL(7, 0)
#define PMUSIM_AUX_INJECT_NTH	GENMASK_ULL(23, 8)

static int pmusim_aux_parse(struct pmusim_aux_event *ae,
			    const struct perf_event_attr *attr)
{
	u64 rate = FIELD_GET(PMUSIM_AUX_RATE, attr->config1);
	u64 align = FIELD_GET(PMUSIM_AUX_ALIGN, attr->config);

	if (attr->config & ~(PMUSIM_AUX_SOURCE | PMUSIM_AUX_ALIGN | PMUSIM_AUX_LAT) ||
	    attr->config2 & ~(PMUSIM_AUX_INJECT | PMUSIM_AUX_INJECT_NTH))
		return -EINVAL;

	ae->source = FIELD_GET(PMUSIM_AUX_SOURCE, attr->config);
	ae->latency = ns_to_ktime(FIELD_GET(PMUSIM_AUX_LAT, attr->config) *
				  NSEC_PER_USEC);
	ae->chunk = FIELD_GET(PMUSIM_AUX_CHUNK, attr->config1) ?: PAGE_SIZE;
	ae->inject = FIELD_GET(PMUSIM_AUX_INJECT, attr->config2);
	ae->inject_nth = FIELD_GET(PMUSIM_AUX_INJECT_NTH, attr->config2) ?: 1;

	if (align && (align < ilog2(sizeof(u64)) || align > PAGE_SHIFT))
		return -EINVAL;
	ae->align = align ? BIT(align) : 0;
	if (ae->chunk % sizeof(u64) || ae->chunk > PMUSIM_AUX_MAX_CHUNK)
		return -EINVAL;
	if (ae->inject & ~PMUSIM_INJECT_ALL)
		return -EINVAL;

	switch (ae->source) {
	case PMUSIM_AUX_MANUAL:
		return rate ? -EINVAL : 0;
	case PMUSIM_AUX_TIMER:
		if (!rate || rate > PMUSIM_MAX_RATE)
			return -EINVAL;
		ae->interval = ns_to_ktime(NSEC_PER_SEC / rate);
		return 0;
	default:
		return -EINVAL;
	}
}

static int pmusim_aux_event_init(struct perf_event *event)
{
	struct pmusim_aux_event *ae;
	int ret;

	if (event->attr.type != event->pmu->type)
		return -ENOENT;
	if (has_branch_stack(event))
		return -EOPNOTSUPP;

	ret = pmusim_get(to_pmusim(event->pmu));
	if (ret)
		return ret;
	ae = kzalloc(sizeof(*ae), GFP_KERNEL);
	event->pmu_private = ae;
	ret = ae ? pmusim_aux_parse(ae, &event->attr) : -ENOMEM;
	if (ret) {
		pmusim_put(event);
		return ret;
	}
	event->destroy = pmusim_put;
	return 0;
}

/**
 * pmusim_aux_setup() - Make what a PMU with an AUX area has on each CPU
 * @sim:	The PMU
 *
 * Context: Process context.
 * Return: 0 or -ENOMEM.
 */
int pmusim_aux_setup(struct pmusim *sim)
{
	struct pmusim_aux_cpu *a;
	int cpu;

	sim->aux_cpu = alloc_percpu(struct pmusim_aux_cpu);
	if (!sim->aux_cpu)
		return -ENOMEM;

	for_each_possible_cpu(cpu) {
		a = per_cpu_ptr(sim->aux_cpu, cpu);
		a->sim = sim;
		hrtimer_init(&a->timer, CLOCK_MONOTONIC,
			     HRTIMER_MODE_REL_PINNED_HARD);
		a->timer.function = pmusim_aux_timer_fn;
		a->work = IRQ_WORK_INIT_HARD(pmusim_aux_packets);
	}
	return 0;
}

/**
 * pmusim_aux_teardown() - Undo pmusim_aux_setup()
 * @sim:	The PMU, without events
 *
 * Context: Process context.
 */
void pmusim_aux_teardown(struct pmusim *sim)
{
	struct pmusim_aux_cpu *a;
	int cpu;

	for_each_possible_cpu(cpu) {
		a = per_cpu_ptr(sim->aux_cpu, cpu);
		irq_work_sync(&a->work);
		hrtimer_cancel(&a->timer);
	}
	free_percpu(sim->aux_cpu);
}

#define PMUSIM_AUX(_name, _capabilities) {				\
	.name		= _name,					\
	.settable	= PMUSIM_CAP_GATES,				\
	.pmu = {							\
		.module		= THIS_MODULE,				\
		.attr_groups	= pmusim_aux_groups,			\
		.task_ctx_nr	= perf_sw_context,			\
		.capabilities	= _capabilities,			\
		.event_init	= pmusim_aux_event_init,		\
		.add		= pmusim_aux_add,			\
		.del		= pmusim_aux_del,			\
		.start		= pmusim_aux_start,			\
		.stop		= pmusim_aux_stop,			\
		.read		= pmusim_aux_read,			\
		.setup_aux	= pmusim_setup_aux,			\
		.free_aux	= pmusim_free_aux,			\
		.snapshot_aux	= pmusim_snapshot_aux,			\
	},								\
}

struct pmusim pmusim_aux =
	PMUSIM_AUX("pmusim_aux", PERF_PMU_CAP_ITRACE | PERF_PMU_CAP_AUX_PAUSE);

struct pmusim pmusim_aux_nosg =
	PMUSIM_AUX("pmusim_aux_nosg", PERF_PMU_CAP_AUX_NO_SG);

struct pmusim pmusim_aux_large =
	PMUSIM_AUX("pmusim_aux_large", PERF_PMU_CAP_AUX_PREFER_LARGE);

struct pmusim pmusim_aux_excl =
	PMUSIM_AUX("pmusim_aux_excl", PERF_PMU_CAP_EXCLUSIVE | PERF_PMU_CAP_ITRACE);
