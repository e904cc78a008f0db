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
 * as some of it is read, tail lets the writer in there, a lap later, while the reader
 * still has the rest.
 *
 * A page that was given away is not the buffer's any more, and never changes. When the
 * last pipe lets go of it and nobody else refers to it, it becomes a spare, which
 * takes the place of another page later on. What records leave out of a page is zero
 * in a fresh one, and shows older records of the same buffer in a spare.
 *
 * Writers see tail in __perf_output_begin(), on one CPU, in any context. A writer that
 * has seen a tail sees the pages that were exchanged before it. It does not go into
 * a page until tail is at its end, so a page that is given away has no writer.
 *
 * End of file: all events that write to the buffer are dead, and it is drained. There
 * is nobody left to write the PERF_RECORD_LOST that is due, so the reader does.
 *
 * Lifetime: the file of the event owns the buffer. It holds one perf_buffer::mmap_count
 * and perf_event::mmap_count, as a mapping would. struct perf_splice goes with the last
 * of the buffer and its pages in pipes.
 *
 * Locking: pipe_inode_info::mutex, which is let go to sleep for records, then
 * perf_splice::lock, one reader at a time. perf_buffer::event_lock keeps events from
 * coming while the reader writes. Writers take no lock.
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

/* Whether @page, which only the caller refers to, is kept. */
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
 * A socket, or a second pipe by tee(2), may still refer to the page. If nobody does,
 * nobody can: it is mapped nowhere. Then all reading of it is over, and the branch
 * orders what is written to it later.
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

/* Nobody steals a page: it is charged as kernel memory, which no page cache expects. */
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

/*
 * Up to @len bytes of one page to the pipe, which has room, and whose mutex keeps its
 * readers from the page until the caller has counted it in perf_splice::refcount.
 * The bytes, or -ENOMEM.
 */
static ssize_t take_some(struct perf_buffer *rb, struct pipe_inode_info *pipe, size_t len)
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
	 * Pairs with the acquire in rb_tail(): a writer who goes on to here finds
	 * the new page, and what was copied is read.
	 */
	smp_store_release(&splice->tail, tail + len);

	/* As splice_to_pipe() does it: add_to_pipe() looks at the pipe again. */
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
 * @pipe:	where to, has a reader
 * @len:	how many bytes at most
 *
 * Takes what is there at the beginning. If that is less than @len, and the pipe has
 * room and a page can be had, the end is one of a record.
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

	/* Pairs with smp_wmb() (B) in perf_output_put_handle(): the records are there. */
	head = smp_load_acquire(&rb->published);
	len = min_t(size_t, len, head - splice->tail);
	while (done < len && pipe_has_room(pipe)) {
		ret = take_some(rb, pipe, len - done);
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

/*
 * Neither an event, nor a child of it, can write to the buffer. What they have written
 * may not show so far.
 */
static bool all_dead(struct perf_buffer *rb)
{
	struct perf_event *event;

	lockdep_assert_held(&rb->event_lock);

	list_for_each_entry(event, &rb->event_list, rb_entry) {
		if (READ_ONCE(event->state) > PERF_EVENT_STATE_EXIT ||
		    !list_empty_careful(&event->child_list))
			return false;
	}
	return true;
}

static bool is_dead(struct perf_buffer *rb)
{
	guard(spinlock_irqsave)(&rb->event_lock);

	return all_dead(rb);
}

/*
 * A reader who waits is content: something is unread of what was there at the last
 * wakeup, or no more comes for now, or ever. As poll() and splice() say the same,
 * a wakeup is taken by nobody who does not read.
 */
static bool splice_ready(struct perf_buffer *rb)
{
	/* Pairs with the release in perf_splice_woken(). */
	unsigned long woken = smp_load_acquire(&rb->splice->woken);

	if (has_unread(rb) &&
	    ((long)(woken - READ_ONCE(rb->splice->tail)) > 0 || READ_ONCE(rb->paused)))
		return true;

	return is_dead(rb);
}

/*
 * perf_output_begin() puts a PERF_RECORD_LOST in front of any record, here in front
 * of none. The buffer is drained, so that there is room for it.
 */
static void tell_lost(struct perf_buffer *rb)
{
	struct perf_output_handle handle;
	struct perf_sample_data sample;
	int paused = rb->paused;

	lockdep_assert_held(&rb->event_lock);

	WRITE_ONCE(rb->paused, 0);
	if (!perf_output_begin(&handle, &sample, rb->splice->owner, 0))
		perf_output_end(&handle);
	WRITE_ONCE(rb->paused, paused);
}

/**
 * perf_splice_at_end - Whether all is read, and no more will come
 * @rb:		buffer that is read by splice(2), found to be drained
 *
 * If it is so but for losses that nobody has told, writes the record of them.
 *
 * Context: Process, may sleep. The file of the event that owns @rb is open.
 * Return: true at the end, false if there may be something to read.
 */
bool perf_splice_at_end(struct perf_buffer *rb)
{
	if (!is_dead(rb))
		return false;

	/* Writers are readers of RCU: what the last one did shows after this. */
	synchronize_rcu();
	if (has_unread(rb))
		return false;

	/* An event that comes later writes after it. */
	scoped_guard(spinlock_irqsave, &rb->event_lock) {
		if (!all_dead(rb))
			return false;
		if (local_read(&rb->lost))
			tell_lost(rb);
	}
	return !has_unread(rb);
}

/* With the pipe unlocked, so that others can use it meanwhile. */
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

/* As splice(2) has done before it called, but the pipe was unlocked. */
static int wait_for_room(struct pipe_inode_info *pipe)
{
	for (;;) {
		if (!pipe->readers) {
			send_sig(SIGPIPE, current, 0);
			return -EPIPE;
		}
		if (pipe_has_room(pipe))
			return 0;
		if (signal_pending(current))
			return -ERESTARTSYS;
		pipe_wait_writable(pipe);
	}
}

static ssize_t splice_records(struct perf_event *event, struct perf_buffer *rb,
			      struct pipe_inode_info *pipe, size_t len, bool wait)
{
	ssize_t ret;

	for (;;) {
		if (wait) {
			ret = wait_for_records(event, rb, pipe) ?: wait_for_room(pipe);
			if (ret)
				return ret;
		}

		ret = perf_splice_take(rb, pipe, len);
		if (ret)
			return ret;
		if (perf_splice_at_end(rb))
			return 0;
		if (!wait && !has_unread(rb))
			return -EAGAIN;
	}
}

/**
 * perf_splice_read - Move records from an event's buffer to a pipe
 * @file:	of the event
 * @ppos:	not used, records have no position
 * @pipe:	where to
 * @len:	how many bytes at most
 * @flags:	SPLICE_F_NONBLOCK
 *
 * Waits until the reader would be woken, unless SPLICE_F_NONBLOCK or O_NONBLOCK says
 * to take what is there.
 *
 * Context: Process, may sleep. pipe_inode_info::mutex of @pipe is held, and has a
 *	    reader and room. It is let go to wait.
 * Return: Bytes, 0 at the end, -EINVAL if the event has no buffer, -EBUSY if it is
 * mapped or that of another event, -EAGAIN, -ENOMEM, -EPIPE, or -ERESTARTSYS.
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
 * perf_splice_poll - What poll(2) says of a buffer that is read by splice(2)
 * @rb:		the buffer
 *
 * Context: Process.
 * Return: EPOLLIN for as long as splice(2) would not wait, but for the end, and
 * EPOLLHUP when all events are dead.
 */
__poll_t perf_splice_poll(struct perf_buffer *rb)
{
	__poll_t events = 0;
	bool in;

	if (is_dead(rb)) {
		events = EPOLLHUP;
		in = has_unread(rb) || local_read(&rb->lost);
	} else {
		in = splice_ready(rb);
	}
	return in ? events | EPOLLIN | EPOLLRDNORM : events;
}

/* All events of the buffer, of which the owner is one for as long as somebody waits. */
void __perf_splice_wake(struct perf_buffer *rb)
{
	struct perf_event *event;

	guard(rcu)();

	list_for_each_entry_rcu(event, &rb->event_list, rb_entry)
		wake_up_all(&event->waitq);
}

/* What PERF_EVENT_IOC_ALLOC_BUFFER charges besides the pages of data and the user page. */
static unsigned int max_spares(unsigned long nr_pages)
{
	return min(nr_pages / 4, PERF_SPLICE_SPARES);
}

/**
 * perf_splice_init - Make a buffer one that is read by splice(2)
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
	splice->node = owner->cpu < 0 ? NUMA_NO_NODE : cpu_to_node(owner->cpu);
	splice->max_spares = max_spares(rb->nr_pages);
	mutex_init(&splice->lock);
	spin_lock_init(&splice->spare_lock);
	refcount_set(&splice->refcount, 1);
	rb->splice = splice;
	return 0;
}

/**
 * perf_splice_free_spares - Free what waits to be written to again, and keep no more
 * @splice:	of a buffer that nobody reads any more
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

/* The buffer is about to be freed. Its pages in pipes go on without it. */
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

static int attach_new_buffer(struct perf_event *event, unsigned long nr_pages,
			     long watermark)
{
	struct perf_buffer *rb;

	guard(mutex)(&event->mmap_mutex);

	if (event->rb)
		return -EBUSY;

	rb = new_buffer(event, nr_pages, watermark);
	if (IS_ERR(rb))
		return PTR_ERR(rb);

	atomic_set(&rb->mmap_count, 1);
	atomic_inc(&event->mmap_count);
	perf_event_init_userpage(event, rb);
	ring_buffer_attach(event, rb);
	perf_event_publish(event, false);
	return 0;
}

static int copy_buffer(struct perf_event_buffer *to, struct perf_event_buffer __user *arg)
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
	if (to->data_size & ~PAGE_MASK || !is_power_of_2(to->data_size))
		return -EINVAL;

	return 0;
}

/**
 * perf_splice_alloc - Give an event a buffer that is read by splice(2)
 * @event:	the event
 * @arg:	of PERF_EVENT_IOC_ALLOC_BUFFER
 *
 * Context: Process, perf_event_context::mutex of @event is held.
 * Return: 0, -EINVAL for what no buffer can be and for events that cannot be mapped
 * either or write backward, -E2BIG for bytes behind the known ones that are not zero,
 * -EBUSY if there is a buffer, -EPERM if it exceeds the limits, -ENOMEM, -EFAULT, or
 * -EOPNOTSUPP where buffers are not made of pages.
 */
long perf_splice_alloc(struct perf_event *event, struct perf_event_buffer __user *arg)
{
	struct perf_event_buffer buffer = {};
	long watermark;
	int ret;

	lockdep_assert_held(&event->ctx->mutex);

	ret = security_perf_event_read(event);
	if (ret)
		return ret;

	ret = copy_buffer(&buffer, arg);
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
 * The owner's file is closed, or never was: then another event's buffer is left alone.
 * Events that were redirected here lose it now, or with the last mapping of the
 * user page or of the AUX area through one of them.
 */
void __perf_splice_release(struct perf_event *event)
{
	struct perf_buffer *rb;

	scoped_guard(mutex, &event->mmap_mutex) {
		rb = event->rb;
		if (!rb || !rb->splice || rb->splice->owner != event)
			return;

		/* The event's memory may become another one's. */
		rb->splice->owner = NULL;
		refcount_inc(&rb->refcount);
		atomic_dec(&event->mmap_count);
		ring_buffer_attach(event, NULL);
	}

	perf_splice_free_spares(rb->splice);
	if (atomic_dec_and_test(&rb->mmap_count))
		rb_detach_all(rb);
	ring_buffer_put(rb);
}
