// SPDX-License-Identifier: GPL-2.0
/*
 * splice(2) of a perf buffer: records leave for a pipe, page by page.
 *
 * A buffer of PERF_EVENT_IOC_ALLOC_BUFFER is not mapped. The kernel owns its tail, and
 * moves it when splice(2) takes records:
 *
 *	data_pages	| r r r r | r r r r | r r . . | . . . . |
 *			  ^ tail		^ published
 *
 *	a whole page from tail on	goes to the pipe as it is, another one takes its
 *					place, and tail goes to its end
 *	anything less			is copied to a page of its own
 *
 * Only a page that is unread from its first byte to its last one is given away. As soon
 * as a part of it is read, tail lets the writer enter that part, a lap later, while the
 * rest is still unread.
 *
 * A page that was given away no longer belongs to the buffer, and never changes. When
 * the last pipe releases it and nothing else refers to it, it becomes a spare, which
 * replaces another page later. Bytes that records leave out are zero in a fresh page,
 * and hold older records of the same buffer in a spare.
 *
 * Writers see tail in __perf_output_begin(), on one CPU, in any context. A writer that
 * has seen a tail sees the pages that were exchanged before it. It does not go into
 * a page until tail is at its end, so a page that is given away has no writer. A writer
 * on another CPU could be in the page, so __perf_output_begin() refuses writers there.
 *
 * End of file: all events that write to the buffer are dead, and it is drained.
 *
 *	live	  perf_splice::nr_live events may write
 *	 |  ^		the last one ends, or leaves the buffer
 *	 v  |
 *	ending	  no event begins a record; a grace period lets the writers finish
 *	 |  ^		mark_dead_rcu() sets perf_splice::dead
 *	 v  | an event is redirected here
 *	dead	  the reader writes the PERF_RECORD_LOST that is due, and sees the end
 *
 * Lifetime: the file of the event owns the buffer. It holds one perf_buffer::mmap_count
 * and perf_event::mmap_count, as a mapping would. struct perf_splice is freed with the
 * last of the buffer and its pages in pipes.
 *
 * Locking: pipe_inode_info::mutex, which is released to sleep for records, then
 * perf_splice::lock, one reader at a time. perf_buffer::event_lock protects the number
 * of live events, and keeps events from attaching while the reader writes. Writers take
 * no lock.
 */

#include <linux/mm.h>
#include <linux/perf_event.h>
#include <linux/pipe_fs_i.h>
#include <linux/security.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/splice.h>
#include <linux/uaccess.h>

#include "internal.h"
#include "mmap_charge.h"
#include "splice.h"

static void put_splice(struct perf_splice *splice)
{
	if (refcount_dec_and_test(&splice->refcount))
		kfree(splice);
}

/* Keep @page as a spare if there is room. The caller has the last reference. */
static bool keep_spare(struct perf_splice *splice, struct page *page)
{
	guard(spinlock)(&splice->spare_lock);

	if (splice->nr_spares >= splice->max_spares)
		return false;

	splice->spares[splice->nr_spares++] = page;
	return true;
}

static struct page *take_spare(struct perf_splice *splice)
{
	guard(spinlock)(&splice->spare_lock);

	return splice->nr_spares ? splice->spares[--splice->nr_spares] : NULL;
}

/*
 * Release a page of a pipe. A socket, or a second pipe by tee(2), may still refer to the
 * page. If there is no such reference, none can appear, because the page is mapped
 * nowhere. Then all reads of it are over, and the branch orders later stores after them.
 */
static void splice_buf_release(struct pipe_inode_info *pipe, struct pipe_buffer *buf)
{
	struct perf_splice *splice = (struct perf_splice *)buf->private;
	struct page *page = buf->page;

	if (page_count(page) != 1 || !keep_spare(splice, page))
		put_page(page);

	put_splice(splice);
}

static bool splice_buf_get(struct pipe_inode_info *pipe, struct pipe_buffer *buf)
{
	struct perf_splice *splice = (struct perf_splice *)buf->private;

	if (!generic_pipe_buf_get(pipe, buf))
		return false;

	refcount_inc(&splice->refcount);
	return true;
}

/*
 * A page cannot be stolen: it is charged as kernel memory, which no page cache expects.
 */
static const struct pipe_buf_operations splice_buf_ops = {
	.release	= splice_buf_release,
	.get		= splice_buf_get,
};

static struct page *new_page(struct perf_buffer *rb)
{
	struct perf_splice *splice = rb->splice;
	struct page *page = take_spare(splice);

	if (page)
		return page;

	return alloc_pages_node(splice->node, GFP_KERNEL_ACCOUNT | __GFP_ZERO |
				__GFP_NORETRY | __GFP_NOWARN, 0);
}

static bool pipe_has_room(struct pipe_inode_info *pipe)
{
	return !pipe_full(pipe->head, pipe->tail, pipe->max_usage);
}

static size_t pipe_room(struct pipe_inode_info *pipe)
{
	unsigned int used = pipe_occupancy(pipe->head, pipe->tail);

	return used < pipe->max_usage ? (pipe->max_usage - used) * PAGE_SIZE : 0;
}

/*
 * Move up to @len bytes of one page to the pipe, which has room. Its mutex keeps the
 * pipe's readers from the page until the caller has counted it in
 * perf_splice::refcount. Return the bytes moved, or -ENOMEM.
 */
static ssize_t move_to_pipe(struct perf_buffer *rb, struct pipe_inode_info *pipe, size_t len)
{
	struct perf_splice *splice = rb->splice;
	unsigned long tail = splice->tail;
	unsigned int offset = offset_in_page(tail);
	struct page *page;
	void **slot;

	page = new_page(rb);
	if (!page)
		return -ENOMEM;

	slot = &rb->data_pages[(tail >> PAGE_SHIFT) & (rb->nr_pages - 1)];
	len = min_t(size_t, len, PAGE_SIZE - offset);
	if (len == PAGE_SIZE) {
		void *given = *slot;

		WRITE_ONCE(*slot, page_address(page));
		page = virt_to_page(given);
	} else {
		memcpy(page_address(page), *slot + offset, len);
	}

	/*
	 * Pairs with the acquire in rb_tail(): a writer that advances to here finds the
	 * new page, and the copy is complete before it overwrites the old one.
	 */
	smp_store_release(&splice->tail, tail + len);

	/* Fill a slot like splice_to_pipe(): add_to_pipe() would check the pipe again. */
	pipe->bufs[pipe->head++ & (pipe->ring_size - 1)] = (struct pipe_buffer) {
		.page		= page,
		.len		= len,
		.ops		= &splice_buf_ops,
		.private	= (unsigned long)splice,
	};
	return len;
}

/**
 * perf_splice_take - Move records to a pipe
 * @rb:		buffer that is read by splice(2)
 * @pipe:	destination, which has a reader
 * @len:	largest number of bytes to move
 *
 * Takes the records that are there at the beginning. If those are less than @len bytes,
 * the pipe has room and no allocation fails, it stops at the end of a record.
 *
 * Context: Process, may sleep. pipe_inode_info::mutex of @pipe is held.
 * Return: Bytes, 0 if there are none or @pipe is full, or -ENOMEM.
 */
ssize_t perf_splice_take(struct perf_buffer *rb, struct pipe_inode_info *pipe,
			 size_t len)
{
	struct perf_splice *splice = rb->splice;
	unsigned int nr_pages = 0;
	unsigned long head;
	size_t done = 0;
	ssize_t ret = 0;

	guard(mutex)(&splice->lock);

	/*
	 * Pairs with smp_wmb() (B) in perf_output_put_handle(): the records precede the
	 * head.
	 */
	head = smp_load_acquire(&rb->published);
	len = min_t(size_t, len, head - splice->tail);
	while (done < len && pipe_has_room(pipe)) {
		ret = move_to_pipe(rb, pipe, len - done);
		if (ret < 0)
			break;
		done += ret;
		nr_pages++;
	}
	if (!nr_pages)
		return ret;

	refcount_add(nr_pages, &splice->refcount);
	return done;
}

static bool has_unread(struct perf_buffer *rb)
{
	return READ_ONCE(rb->published) != READ_ONCE(rb->splice->tail);
}

/* Tell whether neither the event nor a child of it will ever write again. */
static bool event_is_dead(struct perf_event *event)
{
	return READ_ONCE(event->state) <= PERF_EVENT_STATE_EXIT &&
	       list_empty_careful(&event->child_list);
}

static void mark_dead_rcu(struct rcu_head *rcu)
{
	struct perf_splice *splice = container_of(rcu, struct perf_splice, rcu);
	struct perf_buffer *rb = splice->rb;

	scoped_guard(spinlock_irqsave, &rb->event_lock) {
		if (splice->ending_again) {
			splice->ending_again = false;
			call_rcu_hurry(&splice->rcu, mark_dead_rcu);
			return;
		}
		splice->ending = false;
		WRITE_ONCE(splice->dead, !splice->nr_live);
	}

	__perf_splice_wake(rb);
	ring_buffer_put(rb);
}

/*
 * Without a live event, the buffer ends when the last writers are done. A grace period
 * waits for them, because they are RCU readers. Without an owner, no reader is left to
 * see the end.
 */
static void end_if_no_event_is_live(struct perf_buffer *rb)
{
	struct perf_splice *splice = rb->splice;

	lockdep_assert_held(&rb->event_lock);

	if (splice->nr_live || splice->dead || !READ_ONCE(splice->owner))
		return;

	splice->ending_again = splice->ending;
	if (splice->ending)
		return;

	splice->ending = true;
	refcount_inc(&rb->refcount);
	call_rcu_hurry(&splice->rcu, mark_dead_rcu);
}

void __perf_splice_attach(struct perf_buffer *rb, struct perf_event *event)
{
	struct perf_splice *splice = rb->splice;

	lockdep_assert_held(&rb->event_lock);

	WRITE_ONCE(event->live_rb, rb);
	/*
	 * Pairs with the barrier in perf_splice_event_ended(): either this sees
	 * that @event is dead, or the task that makes it so sees perf_event::live_rb.
	 */
	smp_mb();
	if (event_is_dead(event)) {
		WRITE_ONCE(event->live_rb, NULL);
	} else {
		WRITE_ONCE(splice->nr_live, splice->nr_live + 1);
		WRITE_ONCE(splice->dead, false);
	}
	end_if_no_event_is_live(rb);
}

bool __perf_splice_detach(struct perf_buffer *rb, struct perf_event *event)
{
	lockdep_assert_held(&rb->event_lock);

	if (!event->live_rb)
		return false;

	WRITE_ONCE(event->live_rb, NULL);
	WRITE_ONCE(rb->splice->nr_live, rb->splice->nr_live - 1);
	end_if_no_event_is_live(rb);
	return !rb->splice->nr_live;
}

/**
 * __perf_splice_event_ended - Stop counting an event as live if it will write no more
 * @event:	event that is not inherited, whose task or last child has ended
 *
 * Context: Process. Takes perf_buffer::event_lock.
 */
void __perf_splice_event_ended(struct perf_event *event)
{
	struct perf_buffer *rb;

	guard(rcu)();

	rb = READ_ONCE(event->live_rb);
	if (!rb)
		return;

	guard(spinlock_irqsave)(&rb->event_lock);
	/* The event may have moved to another buffer, so check there again. */
	if (event->live_rb == rb && event_is_dead(event))
		__perf_splice_detach(rb, event);
}

/*
 * Refuse writers on other CPUs than that of @owner, or all writers if that is NULL. The
 * refusals cause no warning.
 */
static void change_writer_cpu(struct perf_buffer *rb, struct perf_event *owner)
{
	struct perf_splice *splice = rb->splice;

	guard(spinlock_irqsave)(&rb->event_lock);

	WRITE_ONCE(splice->moved, true);
	/* Pairs with the barrier in perf_splice_foreign(). */
	smp_wmb();
	WRITE_ONCE(splice->cpu, owner ? READ_ONCE(owner->cpu) : nr_cpu_ids);
}

/**
 * perf_splice_event_moves - Refuse writers of a buffer whose event changes its CPU
 * @event:	the event, which does not run
 *
 * Writers that have begun are done after a grace period.
 *
 * Context: Process. perf_splice_event_moved() follows a grace period later.
 */
void perf_splice_event_moves(struct perf_event *event)
{
	struct perf_buffer *rb;

	guard(rcu)();

	rb = rcu_dereference(event->rb);
	if (rb && rb->splice)
		change_writer_cpu(rb, NULL);
}

/**
 * perf_splice_event_moved - Let the writers on the CPU of a buffer's owner go on
 * @event:	the event, which has another CPU now
 *
 * The buffer follows its owner. Other events of the buffer may stay on another CPU,
 * and lose their records from then on.
 *
 * Context: Process.
 */
void perf_splice_event_moved(struct perf_event *event)
{
	struct perf_event *owner;
	struct perf_buffer *rb;

	/* Pairs with the barrier in attach_buffer(). */
	smp_mb();

	guard(rcu)();

	rb = rcu_dereference(event->rb);
	owner = rb && rb->splice ? READ_ONCE(rb->splice->owner) : NULL;
	if (owner)
		change_writer_cpu(rb, owner);
}

static bool no_event_is_live(struct perf_buffer *rb)
{
	return !READ_ONCE(rb->splice->nr_live);
}

static bool buffer_is_dead(struct perf_buffer *rb)
{
	return READ_ONCE(rb->splice->dead);
}

/*
 * Tell whether a reader of the AUX area is ready: data up to its last wakeup is unread,
 * or there is so much data that the trace stands still. The PERF_RECORD_AUX may be lost.
 */
static bool aux_ready(struct perf_buffer *rb)
{
	unsigned long tail = READ_ONCE(rb->user_page->aux_tail);

	if (!rb_has_aux(rb) || rb->aux_overwrite)
		return false;

	return READ_ONCE(rb->aux_wakeup) - (long)tail > 0 ||
	       READ_ONCE(rb->aux_head) - tail >= perf_aux_size(rb) - 1;
}

/*
 * A reader is ready when records up to the last wakeup are unread, when any record is
 * unread and output is paused, so that no wakeup will follow, or when no event is live.
 * poll() and splice() agree about records, so that a poll() does not consume another
 * reader's wakeup.
 */
static bool splice_ready(struct perf_buffer *rb)
{
	/* Pairs with the release in perf_splice_woken(). */
	unsigned long woken = smp_load_acquire(&rb->splice->woken);

	if (has_unread(rb) &&
	    ((long)(woken - READ_ONCE(rb->splice->tail)) > 0 || READ_ONCE(rb->paused)))
		return true;

	return no_event_is_live(rb);
}

/*
 * perf_output_begin() writes a PERF_RECORD_LOST in front of the next record, which is
 * empty here and only gives its ID. The buffer is drained, so there is room, and it has
 * no other writer, so this CPU may act as the CPU of the writers.
 */
static void write_last_lost(struct perf_buffer *rb)
{
	struct perf_splice *splice = rb->splice;
	struct perf_event_header header;
	struct perf_output_handle handle;
	struct perf_sample_data sample;
	int paused = rb->paused;
	int cpu = splice->cpu;

	lockdep_assert_held(&rb->event_lock);

	WRITE_ONCE(rb->paused, 0);
	WRITE_ONCE(splice->cpu, smp_processor_id());
	perf_event_header__init(&header, &sample, PERF_RECORD_LOST, 0, 0, splice->owner);
	if (!perf_output_begin(&handle, &sample, splice->owner, 0))
		perf_output_end(&handle);
	WRITE_ONCE(splice->cpu, cpu);
	WRITE_ONCE(rb->paused, paused);
}

/**
 * perf_splice_at_end - Tell whether all is read, and no more will come
 * @rb:		buffer that is read by splice(2), found to be drained
 *
 * If only losses remain that no record has reported, write their PERF_RECORD_LOST.
 *
 * Context: Process. The file of the event that owns @rb is open.
 * Return: true at the end, false if there may be something to read.
 */
bool perf_splice_at_end(struct perf_buffer *rb)
{
	if (!buffer_is_dead(rb))
		return false;

	/* The lock keeps out events that attach later and would write as well. */
	scoped_guard(spinlock_irqsave, &rb->event_lock) {
		if (!buffer_is_dead(rb))
			return false;
		if (!has_unread(rb) && local_read(&rb->lost))
			write_last_lost(rb);
	}
	return !has_unread(rb);
}

/* Sleep with the pipe unlocked, so that its other users can go on meanwhile. */
static int wait_for_records(struct perf_event *event, struct perf_buffer *rb,
			    struct pipe_inode_info *pipe)
{
	int ret;

	if (splice_ready(rb))
		return 0;

	pipe_unlock(pipe);
	ret = wait_event_interruptible(event->waitq, splice_ready(rb));
	pipe_lock(pipe);
	return ret;
}

/*
 * Wait for the last writers, which are done after a grace period. Unlock the pipe, which
 * they do not need, so that its other users can go on meanwhile.
 */
static int wait_for_end(struct perf_event *event, struct perf_buffer *rb,
			struct pipe_inode_info *pipe)
{
	int ret;

	pipe_unlock(pipe);
	ret = wait_event_interruptible(event->waitq, buffer_is_dead(rb) || !no_event_is_live(rb));
	pipe_lock(pipe);
	return ret;
}

/*
 * Check again what splice(2) checked before perf_splice_read(), because the pipe was
 * unlocked.
 */
static int wait_for_room(struct pipe_inode_info *pipe, bool wait)
{
	for (;;) {
		if (!pipe->readers) {
			send_sig(SIGPIPE, current, 0);
			return -EPIPE;
		}
		if (pipe_has_room(pipe))
			return 0;
		if (!wait)
			return -EAGAIN;
		if (signal_pending(current))
			return -ERESTARTSYS;
		pipe_wait_writable(pipe);
	}
}

/*
 * splice(2) has cut @len to the @room that the pipe had. If the pipe's reader made more
 * room during the wait, @len bytes may end within a record although the pipe could hold
 * the rest. So restart the call with the length that the caller asked for. Workers of
 * io_uring cannot restart it.
 */
static bool length_is_stale(struct pipe_inode_info *pipe, size_t len, size_t room)
{
	return len == room && pipe_room(pipe) > room &&
	       !(current->flags & (PF_KTHREAD | PF_USER_WORKER));
}

static ssize_t splice_records(struct perf_event *event, struct perf_buffer *rb,
			      struct pipe_inode_info *pipe, size_t len, bool wait)
{
	size_t room = pipe_room(pipe);
	ssize_t ret;

	for (;;) {
		if (wait) {
			ret = wait_for_records(event, rb, pipe) ?: wait_for_room(pipe, true);
			if (ret)
				return ret;
		}
		if (length_is_stale(pipe, len, room))
			return restart_syscall();

		ret = perf_splice_take(rb, pipe, len);
		if (ret)
			return ret;
		if (no_event_is_live(rb) && !buffer_is_dead(rb)) {
			ret = wait_for_end(event, rb, pipe) ?: wait_for_room(pipe, wait);
			if (ret)
				return ret;
			continue;
		}
		if (perf_splice_at_end(rb))
			return 0;
		if (!wait && !has_unread(rb))
			return -EAGAIN;
	}
}

/**
 * perf_splice_read - Move records from an event's buffer to a pipe
 * @file:	file of the event
 * @ppos:	not used, records have no position
 * @pipe:	destination
 * @len:	largest number of bytes to move
 * @flags:	SPLICE_F_NONBLOCK
 *
 * Waits until the reader would be woken, unless SPLICE_F_NONBLOCK or O_NONBLOCK says
 * to take what is there. Before the end it always waits for the last writers, for a
 * grace period at most.
 *
 * Context: Process, may sleep. pipe_inode_info::mutex of @pipe is held, and has a
 *	    reader and room. It is released while waiting.
 * Return: Bytes, 0 at the end, -EINVAL if the event has no buffer, -EBUSY if it is
 * mapped or that of another event, -EAGAIN, -ENOMEM, -EPIPE, -ERESTARTSYS, or
 * -ERESTARTNOINTR.
 */
ssize_t perf_splice_read(struct file *file, loff_t *ppos, struct pipe_inode_info *pipe,
			 size_t len, unsigned int flags)
{
	bool wait = !(flags & SPLICE_F_NONBLOCK) && !(file->f_flags & O_NONBLOCK);
	struct perf_event *event = file->private_data;
	struct perf_buffer *rb;
	ssize_t ret;

	ret = security_perf_event_read(event);
	if (ret)
		return ret;

	rb = ring_buffer_get(event);
	if (!rb)
		return -EINVAL;

	ret = -EBUSY;
	if (rb->splice && rb->splice->owner == event)
		ret = splice_records(event, rb, pipe, len, wait);

	ring_buffer_put(rb);
	return ret;
}

/**
 * perf_splice_poll - poll(2) of a buffer that is read by splice(2)
 * @rb:		the buffer
 *
 * Context: Process.
 * Return: EPOLLIN while AUX data is unread, or while splice(2) would not wait, except at
 * the end; EPOLLHUP when all events are dead.
 */
__poll_t perf_splice_poll(struct perf_buffer *rb)
{
	__poll_t events = 0;
	bool in;

	if (no_event_is_live(rb)) {
		events = EPOLLHUP;
		in = has_unread(rb) || local_read(&rb->lost);
	} else {
		in = splice_ready(rb);
	}
	return in || aux_ready(rb) ? events | EPOLLIN | EPOLLRDNORM : events;
}

/* A splice(2) waits on the owner, a poll(2) on any event of the buffer, so wake all. */
void __perf_splice_wake(struct perf_buffer *rb)
{
	struct perf_event *event;

	guard(rcu)();

	list_for_each_entry_rcu(event, &rb->event_list, rb_entry)
		wake_up_all(&event->waitq);
}

/*
 * Get the number of spare pages, which PERF_EVENT_IOC_ALLOC_BUFFER charges besides the
 * data and the user page.
 */
static unsigned int max_spares(unsigned long nr_pages)
{
	return min(nr_pages / 4, PERF_SPLICE_SPARES);
}

/**
 * perf_splice_init - Prepare a buffer for being read by splice(2)
 * @rb:		buffer that no event writes to so far
 * @owner:	event whose file will read it
 *
 * Context: Process, may sleep.
 * Return: 0 or -ENOMEM.
 */
int perf_splice_init(struct perf_buffer *rb, struct perf_event *owner)
{
	struct perf_splice *splice;

	splice = kzalloc(sizeof(*splice), GFP_KERNEL_ACCOUNT);
	if (!splice)
		return -ENOMEM;

	splice->owner = owner;
	splice->rb = rb;
	splice->cpu = owner->cpu;
	splice->node = owner->cpu < 0 ? NUMA_NO_NODE : cpu_to_node(owner->cpu);
	splice->max_spares = max_spares(rb->nr_pages);
	mutex_init(&splice->lock);
	spin_lock_init(&splice->spare_lock);
	refcount_set(&splice->refcount, 1);
	rb->splice = splice;
	return 0;
}

/**
 * perf_splice_free_spares - Free the spare pages, and keep no more
 * @splice:	state of a buffer that has no reader any more
 *
 * Context: Process.
 */
void perf_splice_free_spares(struct perf_splice *splice)
{
	struct page *page;

	scoped_guard(spinlock, &splice->spare_lock)
		splice->max_spares = 0;

	while ((page = take_spare(splice)))
		__free_page(page);
}

/* Drop the reference of a buffer that is being freed; pages in pipes hold others. */
void __perf_splice_free(struct perf_buffer *rb)
{
	put_splice(rb->splice);
}

static struct perf_buffer *new_buffer(struct perf_event *event, unsigned long nr_pages,
				      long watermark)
{
	struct perf_mmap_charge *charge;
	struct perf_buffer *rb;

	charge = perf_mmap_charge_file(1 + nr_pages + max_spares(nr_pages));
	if (IS_ERR(charge))
		return ERR_CAST(charge);

	rb = rb_alloc(nr_pages, watermark, event->cpu,
		      RING_BUFFER_WRITABLE | RING_BUFFER_ACCOUNT);
	if (!rb)
		goto free_charge;
	if (perf_splice_init(rb, event))
		goto free_rb;

	rb->charge = charge;
	return rb;

free_rb:
	rb_free(rb);
free_charge:
	perf_mmap_charge_free(charge);
	return ERR_PTR(-ENOMEM);
}

static int attach_buffer(struct perf_event *event, struct perf_buffer *rb)
{
	guard(mutex)(&event->mmap_mutex);

	if (event->rb)
		return -EBUSY;

	atomic_set(&rb->mmap_count, 1);
	atomic_inc(&event->mmap_count);
	perf_event_init_userpage(event, rb);
	ring_buffer_attach(event, rb);
	/*
	 * Pairs with the barrier in perf_splice_event_moved(): the CPU may have changed.
	 */
	smp_mb();
	scoped_guard(spinlock_irqsave, &rb->event_lock)
		WRITE_ONCE(rb->splice->cpu, READ_ONCE(event->cpu));
	perf_event_publish(event, false);
	return 0;
}

/*
 * Allocate and attach a buffer. The allocation takes long, so hold no lock meanwhile that
 * others may wait for.
 */
static int attach_new_buffer(struct perf_event *event, unsigned long nr_pages,
			     long watermark)
{
	struct perf_buffer *rb;
	int ret;

	if (READ_ONCE(event->rb))
		return -EBUSY;

	rb = new_buffer(event, nr_pages, watermark);
	if (IS_ERR(rb))
		return PTR_ERR(rb);

	ret = attach_buffer(event, rb);
	if (ret) {
		perf_mmap_charge_free(rb->charge);
		rb_free(rb);
	}
	return ret;
}

static int copy_buffer_arg(struct perf_event_buffer *to, struct perf_event_buffer __user *arg)
{
	u32 size;
	int ret;

	if (get_user(size, &arg->size))
		return -EFAULT;
	if (size < sizeof(*to))
		return -EINVAL;
	if (size > PAGE_SIZE)
		return -E2BIG;

	ret = copy_struct_from_user(to, sizeof(*to), arg, size);
	if (ret)
		return ret;
	if (to->flags != PERF_BUFFER_F_SPLICE || to->__reserved)
		return -EINVAL;
	if (to->data_size & ~PAGE_MASK || hweight64(to->data_size) != 1)
		return -EINVAL;

	return 0;
}

/**
 * perf_splice_alloc - Give an event a buffer that is read by splice(2)
 * @event:	the event
 * @arg:	argument of PERF_EVENT_IOC_ALLOC_BUFFER
 *
 * Context: Process, may sleep. Takes perf_event::mmap_mutex.
 * Return: 0; -EINVAL if @arg is invalid, or the event cannot be mapped or writes
 * backward; -E2BIG if @arg has bytes that this kernel does not know and that are not
 * zero; -EBUSY if the event has a buffer; -EPERM if the buffer exceeds the limits;
 * -EOPNOTSUPP where buffers are not made of pages; -ENOMEM; -EFAULT.
 */
long perf_splice_alloc(struct perf_event *event, struct perf_event_buffer __user *arg)
{
	struct perf_event_buffer buffer = {};
	long watermark;
	int ret;

	ret = security_perf_event_read(event);
	if (ret)
		return ret;

	ret = copy_buffer_arg(&buffer, arg);
	if (ret)
		return ret;
	if (is_write_backward(event) || (event->cpu == -1 && event->attr.inherit))
		return -EINVAL;
	if (IS_ENABLED(CONFIG_PERF_USE_VMALLOC))
		return -EOPNOTSUPP;
	if (buffer.data_size >> PAGE_SHIFT > INT_MAX)
		return -ENOMEM;

	watermark = buffer.watermark;
	if (!watermark && event->attr.watermark)
		watermark = event->attr.wakeup_watermark;

	return attach_new_buffer(event, buffer.data_size >> PAGE_SHIFT, watermark);
}

/*
 * Release the buffer of an event whose file is closed. If the event owns no buffer, leave
 * that of another event alone. Events that were redirected here lose the buffer now, or
 * with the last mapping of the AUX area through one of them.
 */
void __perf_splice_release(struct perf_event *event)
{
	struct perf_buffer *rb;

	scoped_guard(mutex, &event->mmap_mutex) {
		rb = event->rb;
		if (!rb || !rb->splice || rb->splice->owner != event)
			return;

		/*
		 * The memory of the event may be reused for another event, so clear the
		 * pointer to it.
		 */
		WRITE_ONCE(rb->splice->owner, NULL);
		refcount_inc(&rb->refcount);
		atomic_dec(&event->mmap_count);
		ring_buffer_attach(event, NULL);
	}

	perf_splice_free_spares(rb->splice);
	if (atomic_dec_and_test(&rb->mmap_count))
		rb_detach_all(rb);
	ring_buffer_put(rb);
}
