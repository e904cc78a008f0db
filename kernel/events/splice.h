/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _KERNEL_EVENTS_SPLICE_H
#define _KERNEL_EVENTS_SPLICE_H

#include <linux/mutex.h>
#include <linux/poll.h>
#include <linux/rcupdate.h>
#include <linux/refcount.h>
#include <linux/smp.h>
#include <linux/spinlock.h>

#include "internal.h"

struct pipe_inode_info;

/* Maximum number of pages that come back from pipes and are kept for reuse */
#define PERF_SPLICE_SPARES	16

/**
 * struct perf_splice - State of a buffer that is read by splice(2)
 */
struct perf_splice {
	/** @owner: event whose file reads the buffer, NULL when that is closed */
	struct perf_event	*owner;
	/** @cpu: CPU of all writers, -1 if the task that the events observe is the writer */
	int			cpu;
	/**
	 * @moved: an event has moved to another CPU with its PMU, so that the
	 * events of the buffer need not be on one CPU any more
	 */
	bool			moved;
	/**
	 * @tail: position up to which records are read; stored with release
	 * under @lock, loaded with acquire by writers
	 */
	unsigned long		tail;
	/** @woken: perf_buffer::head at the last wakeup, stored by writers */
	unsigned long		woken;
	/** @node: NUMA node of the pages of the buffer */
	int			node;
	/** @lock: serializes readers */
	struct mutex		lock;
	/** @refcount: one for the buffer, and one for each page in a pipe */
	refcount_t		refcount;
	/** @rb: the buffer */
	struct perf_buffer	*rb;
	/** @rcu: callback after the grace period, sets @dead */
	struct rcu_head		rcu;
	/**
	 * @nr_live: number of events that may write to the buffer;
	 * perf_buffer::event_lock protects it and the next three
	 */
	unsigned int		nr_live;
	/** @ending: the callback of @rcu is pending */
	bool			ending;
	/** @ending_again: @nr_live has become zero once more since @ending was set */
	bool			ending_again;
	/** @dead: @nr_live is zero and all writers are done */
	bool			dead;
	/** @spare_lock: protects the members below; taken in process context only */
	spinlock_t		spare_lock;
	/** @max_spares: largest number of pages in @spares, 0 when @owner is NULL */
	unsigned int		max_spares;
	/** @nr_spares: number of pages in @spares */
	unsigned int		nr_spares;
	/** @spares: pages with records of this buffer that have no other reference */
	struct page		*spares[PERF_SPLICE_SPARES];
};

#ifdef CONFIG_PERF_EVENTS_SPLICE
long perf_splice_alloc(struct perf_event *event, struct perf_event_buffer __user *arg);
ssize_t perf_splice_read(struct file *file, loff_t *ppos, struct pipe_inode_info *pipe,
			 size_t len, unsigned int flags);
__poll_t perf_splice_poll(struct perf_buffer *rb);
void __perf_splice_wake(struct perf_buffer *rb);
void __perf_splice_attach(struct perf_buffer *rb, struct perf_event *event);
bool __perf_splice_detach(struct perf_buffer *rb, struct perf_event *event);
void __perf_splice_event_ended(struct perf_event *event);
void perf_splice_event_moves(struct perf_event *event);
void perf_splice_event_moved(struct perf_event *event);
void __perf_splice_release(struct perf_event *event);
void __perf_splice_free(struct perf_buffer *rb);
int perf_splice_init(struct perf_buffer *rb, struct perf_event *owner);
ssize_t perf_splice_take(struct perf_buffer *rb, struct pipe_inode_info *pipe,
			 size_t len);
void perf_splice_free_spares(struct perf_splice *splice);
bool perf_splice_at_end(struct perf_buffer *rb);

static __always_inline struct perf_splice *rb_splice(struct perf_buffer *rb)
{
	return rb->splice;
}

static inline void perf_splice_event_ended(struct perf_event *event)
{
	/* Pairs with the barrier in __perf_splice_attach(). */
	smp_mb();
	if (READ_ONCE(event->live_rb))
		__perf_splice_event_ended(event);
}

/*
 * Publish the head to the kernel's readers as well, in memory that programs cannot write
 * to through a mapping of the user page.
 */
static __always_inline void perf_splice_publish(struct perf_buffer *rb,
						unsigned long head)
{
	WRITE_ONCE(rb->published, head);
}
#else
static inline long perf_splice_alloc(struct perf_event *event,
				     struct perf_event_buffer __user *arg)
{
	return -ENOTTY;
}

static inline __poll_t perf_splice_poll(struct perf_buffer *rb)
{
	return 0;
}

static inline void __perf_splice_wake(struct perf_buffer *rb) { }
static inline void __perf_splice_attach(struct perf_buffer *rb,
					struct perf_event *event) { }
static inline bool __perf_splice_detach(struct perf_buffer *rb,
					struct perf_event *event)
{
	return false;
}

static inline void perf_splice_event_ended(struct perf_event *event) { }
static inline void perf_splice_event_moves(struct perf_event *event) { }
static inline void perf_splice_event_moved(struct perf_event *event) { }
static inline void __perf_splice_release(struct perf_event *event) { }
static inline void __perf_splice_free(struct perf_buffer *rb) { }

static __always_inline struct perf_splice *rb_splice(struct perf_buffer *rb)
{
	return NULL;
}

static __always_inline void perf_splice_publish(struct perf_buffer *rb,
						unsigned long head) { }

#define perf_splice_read	NULL
#endif /* CONFIG_PERF_EVENTS_SPLICE */

/**
 * rb_tail - Get the position of the first byte that a writer must not overwrite
 * @rb:		a buffer
 *
 * For a mapped buffer, the branch that depends on the tail orders the stores of the
 * record after the load of the tail. In a buffer that is read by splice(2), a new page
 * replaces each page that was taken. The load of perf_buffer::data_pages must then follow
 * that of the tail; no branch orders two loads, but the acquire does.
 *
 * Context: Any, NMI included.
 * Return: The position of the first byte that is not read.
 */
static __always_inline unsigned long rb_tail(struct perf_buffer *rb)
{
	struct perf_splice *splice = rb_splice(rb);

	if (unlikely(splice)) {
		/* Pairs with the release in move_to_pipe(). */
		return smp_load_acquire(&splice->tail);
	}

	return READ_ONCE(rb->user_page->data_tail);
}

/**
 * perf_splice_woken - Note that the reader is about to be woken
 * @rb:		a buffer
 *
 * Everything written so far counts as ready until it is read, see splice_ready().
 * A writer that interrupts this one may have noted a later position, which must
 * not be lost.
 *
 * Context: Any, NMI included. A writer of the buffer, after it has published.
 */
static __always_inline void perf_splice_woken(struct perf_buffer *rb)
{
	struct perf_splice *splice = rb_splice(rb);
	unsigned long head;

	if (likely(!splice))
		return;

	do {
		head = local_read(&rb->head);
		/* Pairs with the acquire in splice_ready(): the records come first. */
		smp_store_release(&splice->woken, head);
		barrier();
	} while (head != local_read(&rb->head));
}

/**
 * perf_splice_foreign - Tell whether a writer is on the wrong CPU
 * @rb:		a buffer
 *
 * A page has no writer once the tail is at its end, because all writers are on one
 * CPU. A writer on another CPU might still write to a page that a pipe has. Only
 * CPU hotplug, when a PMU moves its events, brings a writer to another CPU.
 *
 * Context: Any, NMI included, without preemption.
 * Return: true if the caller has to refuse the record.
 */
static __always_inline bool perf_splice_foreign(struct perf_buffer *rb)
{
	struct perf_splice *splice = rb_splice(rb);
	int cpu;

	if (likely(!splice))
		return false;

	cpu = READ_ONCE(splice->cpu);
	if (likely(cpu < 0 || cpu == raw_smp_processor_id()))
		return false;

	/* Pairs with the barrier in change_writer_cpu(). */
	smp_rmb();
	WARN_ON_ONCE(!READ_ONCE(splice->moved));
	return true;
}

/* Account @event, which is on perf_buffer::event_list and does not write to @rb yet. */
static inline void perf_splice_attach(struct perf_buffer *rb, struct perf_event *event)
{
	if (rb_splice(rb))
		__perf_splice_attach(rb, event);
}

/*
 * Account that @event has left perf_buffer::event_list. Returns true if no writing
 * event is left.
 */
static inline bool perf_splice_detach(struct perf_buffer *rb, struct perf_event *event)
{
	return rb_splice(rb) && __perf_splice_detach(rb, event);
}

/*
 * Wake readers to check again whether output is paused, and whether an event is left.
 */
static inline void perf_splice_wake(struct perf_buffer *rb)
{
	if (rb_splice(rb))
		__perf_splice_wake(rb);
}

/* Release the buffer of @event, whose file is closed for good. */
static inline void perf_splice_release(struct perf_event *event)
{
	if (IS_ENABLED(CONFIG_PERF_EVENTS_SPLICE) && READ_ONCE(event->rb))
		__perf_splice_release(event);
}

static inline void perf_splice_free(struct perf_buffer *rb)
{
	if (rb_splice(rb))
		__perf_splice_free(rb);
}

/* Return 0 if @rb may be mapped with @nr_pages of data, or a negative errno. */
static inline int rb_may_mmap(struct perf_buffer *rb, unsigned long nr_pages)
{
	if (rb_splice(rb))
		return nr_pages ? -EBUSY : 0;

	return data_page_nr(rb) == nr_pages ? 0 : -EINVAL;
}

#endif /* _KERNEL_EVENTS_SPLICE_H */
