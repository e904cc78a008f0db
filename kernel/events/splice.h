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

/* Pages that come back from pipes and wait to be written to again. */
#define PERF_SPLICE_SPARES	16

/**
 * struct perf_splice - What a buffer that is read by splice(2) has more than others
 * @owner:	event whose file reads the buffer, NULL when that is closed
 * @cpu:	CPU of all writers, -1 if they are the task that the events observe
 * @moved:	an event has moved to another CPU with its PMU, so that the events
 *		of the buffer need not be on one CPU any more
 * @tail:	what is in front of it is read: stored with release under @lock,
 *		loaded with acquire by writers
 * @woken:	perf_buffer::head at the last wakeup, stored by writers
 * @node:	where its pages are
 * @lock:	of readers
 * @refcount:	one of the buffer, and one for each page in a pipe
 * @rb:		the buffer
 * @rcu:	of the grace period after which @dead is set
 * @nr_live:	events of the buffer that may write to it, under
 *		perf_buffer::event_lock as the following three
 * @ending:	a callback of @rcu is on its way
 * @ending_again: @nr_live has become zero once more since
 * @dead:	@nr_live is zero and all writers are done
 * @spare_lock:	protects the following, in process context
 * @max_spares:	how many pages @spares takes, 0 when @owner is NULL
 * @nr_spares:	how many it has
 * @spares:	pages with records of this buffer that have no other reference
 */
struct perf_splice {
	struct perf_event	*owner;
	int			cpu;
	bool			moved;
	unsigned long		tail;
	unsigned long		woken;
	int			node;
	struct mutex		lock;
	refcount_t		refcount;
	struct perf_buffer	*rb;
	struct rcu_head		rcu;
	unsigned int		nr_live;
	bool			ending;
	bool			ending_again;
	bool			dead;
	spinlock_t		spare_lock;
	unsigned int		max_spares;
	unsigned int		nr_spares;
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

/* A copy of the head that programs cannot change by a mapping of the user page. */
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
 * rb_tail - What a writer must not overwrite begins here
 * @rb:		a buffer
 *
 * For a buffer that is mapped, the branch that depends on it orders the stores of the
 * record after it. One that is read by splice(2) has another page in the place of each
 * that was taken, and a load of perf_buffer::data_pages is not ordered by a branch. The
 * acquire is for the page.
 *
 * Context: Any, NMI included.
 * Return: The position of the first byte that is not read.
 */
static __always_inline unsigned long rb_tail(struct perf_buffer *rb)
{
	struct perf_splice *splice = rb_splice(rb);

	if (unlikely(splice)) {
		/* Pairs with the release in take_some(). */
		return smp_load_acquire(&splice->tail);
	}

	return READ_ONCE(rb->user_page->data_tail);
}

/**
 * perf_splice_woken - Note that the reader is about to be woken
 * @rb:		a buffer
 *
 * What is written so far is there to be read until it is read: see splice_ready().
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
 * perf_splice_foreign - Whether a writer is on the wrong CPU
 * @rb:		a buffer
 *
 * A page has no writer once the tail is at its end, because all writers are on one
 * CPU: one on another CPU might still write to a page that a pipe has. Nothing but
 * the offlining of a CPU brings one there, when a PMU moves its events.
 *
 * Context: Any, NMI included, without preemption.
 * Return: true if the record is to be refused.
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

	/* Pairs with the barrier in set_cpu(). */
	smp_rmb();
	WARN_ON_ONCE(!READ_ONCE(splice->moved));
	return true;
}

/* @event is on perf_buffer::event_list, and does not write to @rb so far. */
static inline void perf_splice_attach(struct perf_buffer *rb, struct perf_event *event)
{
	if (rb_splice(rb))
		__perf_splice_attach(rb, event);
}

/* @event has left perf_buffer::event_list. Return whether no other is left that writes. */
static inline bool perf_splice_detach(struct perf_buffer *rb, struct perf_event *event)
{
	return rb_splice(rb) && __perf_splice_detach(rb, event);
}

/* Readers look again: output is paused or goes on, or no event is left that writes. */
static inline void perf_splice_wake(struct perf_buffer *rb)
{
	if (rb_splice(rb))
		__perf_splice_wake(rb);
}

/* The file of @event is closed for good. */
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

/* Whether @rb may be mapped with @nr_pages of data. 0 or the negative errno. */
static inline int rb_may_mmap(struct perf_buffer *rb, unsigned long nr_pages)
{
	if (rb_splice(rb))
		return nr_pages ? -EBUSY : 0;

	return data_page_nr(rb) == nr_pages ? 0 : -EINVAL;
}

#endif /* _KERNEL_EVENTS_SPLICE_H */
