// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of buffers that are read by splice(2): which pages leave, which stay, and
 * that the bytes are the right ones at every place where reader and writer can meet.
 *
 * Each word of a record holds its own position in the stream, so the pipe shows every
 * byte that is in the wrong place.
 */

#include <kunit/test.h>
#include <linux/circ_buf.h>
#include <linux/irq_work.h>
#include <linux/mm.h>
#include <linux/perf_event.h>
#include <linux/pipe_fs_i.h>
#include <linux/poll.h>
#include <linux/prandom.h>
#include <linux/slab.h>

#include "../internal.h"
#include "../splice.h"

#define EVENT_ID	4711
#define NR_PAGES	8
#define NR_LAPS		50
#define WORD		sizeof(u64)

struct splice_test {
	struct perf_event	event;
	struct perf_event	child;
	struct perf_buffer	*rb;
	struct pipe_inode_info	*pipe;
	struct perf_sample_data	data;
	/* Next word of the writer, and of the reader. */
	u64			written;
	u64			read;
	u64			words[2 * PAGE_SIZE / WORD];
};

static void no_wakeup(struct irq_work *work) { }

static void attach_event(struct splice_test *splice)
{
	guard(spinlock_irqsave)(&splice->rb->event_lock);

	list_add(&splice->event.rb_entry, &splice->rb->event_list);
	perf_splice_attach(splice->rb, &splice->event);
}

static void detach_event(struct splice_test *splice)
{
	guard(spinlock_irqsave)(&splice->rb->event_lock);

	list_del(&splice->event.rb_entry);
	perf_splice_detach(splice->rb, &splice->event);
}

/* The RCU callback queues another one if the last event has ended again meanwhile. */
static void wait_for_end(void)
{
	rcu_barrier();
	rcu_barrier();
}

static void event_ends(struct splice_test *splice)
{
	splice->event.state = PERF_EVENT_STATE_EXIT;
	perf_splice_event_ended(&splice->event);
	wait_for_end();
}

static void drop_buffer(struct splice_test *splice)
{
	irq_work_sync(&splice->event.pending_irq);
	RCU_INIT_POINTER(splice->event.rb, NULL);
	if (splice->rb) {
		wait_for_end();
		perf_splice_free_spares(splice->rb->splice);
		rb_free(splice->rb);
	}
	splice->rb = NULL;
}

static void splice_test_exit(struct kunit *test)
{
	struct splice_test *splice = test->priv;

	if (!splice)
		return;

	if (splice->pipe)
		free_pipe_info(splice->pipe);
	drop_buffer(splice);
	kvfree(splice);
}

static int splice_test_init(struct kunit *test)
{
	struct splice_test *splice;

	if (IS_ENABLED(CONFIG_PERF_USE_VMALLOC))
		kunit_skip(test, "buffers are not made of pages");

	splice = kvzalloc(sizeof(*splice), GFP_KERNEL);
	if (!splice)
		return -ENOMEM;

	test->priv = splice;
	splice->event.id = EVENT_ID;
	splice->event.cpu = -1;
	splice->event.state = PERF_EVENT_STATE_INACTIVE;
	INIT_LIST_HEAD(&splice->event.child_list);
	init_waitqueue_head(&splice->event.waitq);
	init_irq_work(&splice->event.pending_irq, no_wakeup);

	splice->pipe = alloc_pipe_info();
	if (!splice->pipe)
		return -ENOMEM;
	splice->pipe->readers = 1;

	splice->rb = rb_alloc(NR_PAGES, 0, -1, RING_BUFFER_WRITABLE);
	if (!splice->rb || perf_splice_init(splice->rb, &splice->event))
		return -ENOMEM;
	attach_event(splice);
	rcu_assign_pointer(splice->event.rb, splice->rb);
	return 0;
}

/* Set up the buffer as if @at bytes had been written and read. */
static void start_at(struct splice_test *splice, unsigned long at)
{
	struct perf_buffer *rb = splice->rb;

	local_set(&rb->head, at);
	local_set(&rb->wakeup, at);
	rb->published = at;
	rb->splice->tail = at;
	rb->splice->woken = at;
	splice->written = 0;
	splice->read = 0;
}

static int begin(struct splice_test *splice, struct perf_output_handle *handle,
		 unsigned int size)
{
	return perf_output_begin(handle, &splice->data, &splice->event, size);
}

static void fill(struct splice_test *splice, struct perf_output_handle *handle,
		 unsigned int size)
{
	unsigned int i;

	for (i = 0; i < size / WORD; i++)
		splice->words[i] = splice->written++;
	perf_output_copy(handle, splice->words, size);
}

static int write_record(struct splice_test *splice, unsigned int size)
{
	struct perf_output_handle handle;
	int ret = begin(splice, &handle, size);

	if (ret)
		return ret;
	fill(splice, &handle, size);
	perf_output_end(&handle);
	return 0;
}

/* Write whole words while there is room. Return the bytes written. */
static unsigned long write_all(struct splice_test *splice, unsigned int size)
{
	unsigned long bytes = 0;

	while (CIRC_SPACE(local_read(&splice->rb->head), splice->rb->splice->tail,
			  perf_data_size(splice->rb)) >= size) {
		if (write_record(splice, size))
			break;
		bytes += size;
	}
	return bytes;
}

static ssize_t take(struct splice_test *splice, size_t len)
{
	ssize_t ret;

	pipe_lock(splice->pipe);
	ret = perf_splice_take(splice->rb, splice->pipe, len);
	pipe_unlock(splice->pipe);
	return ret;
}

static struct pipe_buffer *first_buf(struct splice_test *splice)
{
	struct pipe_inode_info *pipe = splice->pipe;

	if (pipe_empty(pipe->head, pipe->tail))
		return NULL;
	return &pipe->bufs[pipe->tail & (pipe->ring_size - 1)];
}

/* Check that the bytes continue where the last ones ended. */
static bool goes_on(struct splice_test *splice, const char *bytes, unsigned int len)
{
	unsigned int i;

	for (i = 0; i < len; i++) {
		u64 word = splice->read / WORD;

		if (bytes[i] != ((char *)&word)[splice->read % WORD])
			return false;
		splice->read++;
	}
	return true;
}

static bool empty_pipe(struct splice_test *splice)
{
	struct pipe_inode_info *pipe = splice->pipe;
	struct pipe_buffer *buf;
	bool good = true;

	pipe_lock(pipe);
	while ((buf = first_buf(splice))) {
		good &= goes_on(splice, page_address(buf->page) + buf->offset, buf->len);
		pipe_buf_release(pipe, buf);
		pipe->tail++;
	}
	pipe_unlock(pipe);
	return good;
}

/* Read up to @max bytes from the pipe, possibly in pieces. */
static void copy_pipe(struct splice_test *splice, char *to, unsigned int max)
{
	struct pipe_inode_info *pipe = splice->pipe;
	struct pipe_buffer *buf;
	unsigned int i, len;

	for (i = pipe->tail; i != pipe->head && max; i++) {
		buf = &pipe->bufs[i & (pipe->ring_size - 1)];
		len = min(buf->len, max);
		memcpy(to, page_address(buf->page) + buf->offset, len);
		to += len;
		max -= len;
	}
}

/* Splice everything, at most @len bytes at once. */
static bool drain(struct splice_test *splice, size_t len)
{
	bool good = true;
	ssize_t ret;

	while ((ret = take(splice, len)) > 0)
		good &= empty_pipe(splice);
	return good && !ret;
}

static bool all_read(struct splice_test *splice)
{
	return splice->read == splice->written * WORD;
}

static void whole_page_leaves_and_another_comes(struct kunit *test)
{
	struct splice_test *splice = test->priv;
	struct perf_buffer *rb = splice->rb;
	void *old = rb->data_pages[0];

	write_all(splice, WORD);
	KUNIT_EXPECT_EQ(test, take(splice, PAGE_SIZE), PAGE_SIZE);
	KUNIT_EXPECT_PTR_EQ(test, first_buf(splice)->page, virt_to_page(old));
	KUNIT_EXPECT_EQ(test, first_buf(splice)->offset, 0);
	KUNIT_EXPECT_EQ(test, first_buf(splice)->len, PAGE_SIZE);
	KUNIT_EXPECT_EQ(test, first_buf(splice)->flags, 0);
	KUNIT_EXPECT_PTR_NE(test, rb->data_pages[0], old);
	KUNIT_EXPECT_TRUE(test, mem_is_zero(rb->data_pages[0], PAGE_SIZE));
	KUNIT_EXPECT_EQ(test, rb->splice->tail, PAGE_SIZE);
	KUNIT_EXPECT_TRUE(test, empty_pipe(splice));
}

static void part_of_a_page_is_copied(struct kunit *test)
{
	struct splice_test *splice = test->priv;
	struct perf_buffer *rb = splice->rb;
	void *old = rb->data_pages[0];

	write_all(splice, WORD);
	/* Take the front of the page, the middle, and the rest. */
	KUNIT_EXPECT_EQ(test, take(splice, 1000), 1000);
	KUNIT_EXPECT_EQ(test, take(splice, 1), 1);
	KUNIT_EXPECT_EQ(test, take(splice, PAGE_SIZE - 1001), PAGE_SIZE - 1001);
	KUNIT_EXPECT_PTR_EQ(test, rb->data_pages[0], old);
	KUNIT_EXPECT_PTR_NE(test, first_buf(splice)->page, virt_to_page(old));
	KUNIT_EXPECT_TRUE(test, empty_pipe(splice));
	KUNIT_EXPECT_TRUE(test, drain(splice, SIZE_MAX));
	KUNIT_EXPECT_TRUE(test, all_read(splice));
}

/* A page that is written to its last byte, and no further, is whole as well. */
static void last_page_may_be_whole(struct kunit *test)
{
	struct splice_test *splice = test->priv;
	void *old = splice->rb->data_pages[1];

	KUNIT_ASSERT_EQ(test, write_record(splice, PAGE_SIZE), 0);
	KUNIT_ASSERT_EQ(test, write_record(splice, PAGE_SIZE), 0);
	KUNIT_EXPECT_EQ(test, take(splice, SIZE_MAX), 2 * PAGE_SIZE);
	KUNIT_EXPECT_PTR_NE(test, splice->rb->data_pages[1], old);
	/* The writer has loaded the address of the next page, and does not use it. */
	write_all(splice, WORD);
	KUNIT_EXPECT_TRUE(test, drain(splice, SIZE_MAX));
	KUNIT_EXPECT_TRUE(test, all_read(splice));
}

/* The writer is a lap ahead, in a page that the reader has read only in part. */
static void page_that_is_partly_read_stays(struct kunit *test)
{
	struct splice_test *splice = test->priv;
	unsigned int lap;

	for (lap = 0; lap < NR_LAPS * NR_PAGES; lap++) {
		write_all(splice, WORD);
		KUNIT_ASSERT_EQ(test, take(splice, PAGE_SIZE / 2 + lap), PAGE_SIZE / 2 + lap);
		KUNIT_ASSERT_TRUE(test, empty_pipe(splice));
		write_all(splice, WORD);
		KUNIT_ASSERT_GT(test, take(splice, PAGE_SIZE), 0);
		KUNIT_ASSERT_TRUE(test, empty_pipe(splice));
	}
	KUNIT_EXPECT_TRUE(test, drain(splice, SIZE_MAX));
	KUNIT_EXPECT_TRUE(test, all_read(splice));
}

static void any_order_of_lengths_is_exact(struct kunit *test)
{
	struct splice_test *splice = test->priv;
	struct rnd_state rnd;
	unsigned int i;

	prandom_seed_state(&rnd, 1);
	for (i = 0; i < 20000; i++) {
		u32 what = prandom_u32_state(&rnd);
		unsigned int size = (what >> 8) % (what & 1 ? 64 : PAGE_SIZE) / 8 * 8 + 8;
		size_t len = (what >> 8) % (what & 2 ? 300 : 3 * PAGE_SIZE) + 1;

		if (what & 4)
			write_all(splice, size);
		else if (CIRC_SPACE(local_read(&splice->rb->head), splice->rb->splice->tail,
				    perf_data_size(splice->rb)) >= size)
			write_record(splice, size);
		take(splice, len);
		KUNIT_ASSERT_TRUE(test, empty_pipe(splice));
	}
	KUNIT_EXPECT_TRUE(test, drain(splice, SIZE_MAX));
	KUNIT_EXPECT_TRUE(test, all_read(splice));
	KUNIT_EXPECT_EQ(test, atomic64_read(&splice->event.lost_samples), 0);
}

static void positions_go_through_the_end_of_the_counter(struct kunit *test)
{
	struct splice_test *splice = test->priv;
	unsigned int i;

	start_at(splice, -5UL * PAGE_SIZE);
	for (i = 0; i < 10; i++) {
		write_all(splice, 24);
		KUNIT_ASSERT_TRUE(test, drain(splice, i & 1 ? 999 : 3 * PAGE_SIZE));
		KUNIT_ASSERT_TRUE(test, all_read(splice));
	}
	KUNIT_EXPECT_LT(test, splice->rb->splice->tail, 100UL * PAGE_SIZE);
}

static void room_is_what_was_taken(struct kunit *test)
{
	struct splice_test *splice = test->priv;

	KUNIT_EXPECT_EQ(test, write_all(splice, WORD), NR_PAGES * PAGE_SIZE - WORD);
	KUNIT_EXPECT_EQ(test, write_record(splice, WORD), -ENOSPC);
	/* A tail that a program writes to the user page makes no room. */
	splice->rb->user_page->data_tail = PAGE_SIZE;
	KUNIT_EXPECT_EQ(test, write_record(splice, WORD), -ENOSPC);
	splice->rb->user_page->data_head = 0;
	local_set(&splice->rb->lost, 0);
	KUNIT_EXPECT_EQ(test, take(splice, 100), 100);
	KUNIT_EXPECT_EQ(test, write_all(splice, WORD), 104);
	KUNIT_EXPECT_TRUE(test, empty_pipe(splice));
	KUNIT_EXPECT_TRUE(test, drain(splice, SIZE_MAX));
	KUNIT_EXPECT_TRUE(test, all_read(splice));
}

static void record_that_is_not_finished_stays(struct kunit *test)
{
	struct splice_test *splice = test->priv;
	struct perf_output_handle outer, inner;

	KUNIT_ASSERT_EQ(test, begin(splice, &outer, PAGE_SIZE), 0);
	fill(splice, &outer, PAGE_SIZE);
	KUNIT_ASSERT_EQ(test, begin(splice, &inner, PAGE_SIZE), 0);
	fill(splice, &inner, PAGE_SIZE);
	perf_output_end(&inner);
	KUNIT_EXPECT_EQ(test, splice->rb->published, 0);
	perf_output_end(&outer);
	KUNIT_EXPECT_EQ(test, take(splice, SIZE_MAX), 2 * PAGE_SIZE);
	KUNIT_EXPECT_TRUE(test, empty_pipe(splice));
	KUNIT_EXPECT_TRUE(test, all_read(splice));

	/* A writer on another CPU has reserved room and written nothing so far. */
	local_add(PAGE_SIZE, &splice->rb->head);
	KUNIT_EXPECT_EQ(test, take(splice, SIZE_MAX), 0);
}

static void pipe_takes_as_much_as_it_has_room_for(struct kunit *test)
{
	struct splice_test *splice = test->priv;
	unsigned int i;

	write_all(splice, WORD);
	for (i = 0; i < splice->pipe->max_usage; i++)
		KUNIT_ASSERT_EQ(test, take(splice, 8), 8);
	KUNIT_EXPECT_EQ(test, take(splice, SIZE_MAX), 0);
	KUNIT_EXPECT_TRUE(test, empty_pipe(splice));
	KUNIT_EXPECT_TRUE(test, drain(splice, SIZE_MAX));
	KUNIT_EXPECT_TRUE(test, all_read(splice));
}

static bool has_page(struct perf_buffer *rb, struct page *page)
{
	int i;

	for (i = 0; i < rb->nr_pages; i++) {
		if (virt_to_page(rb->data_pages[i]) == page)
			return true;
	}
	return false;
}

static void page_comes_back_when_nobody_has_it(struct kunit *test)
{
	struct splice_test *splice = test->priv;
	struct page *page = virt_to_page(splice->rb->data_pages[0]);

	write_all(splice, WORD);
	KUNIT_ASSERT_EQ(test, take(splice, PAGE_SIZE), PAGE_SIZE);
	KUNIT_EXPECT_EQ(test, splice->rb->splice->nr_spares, 0);
	KUNIT_EXPECT_TRUE(test, empty_pipe(splice));
	KUNIT_EXPECT_EQ(test, splice->rb->splice->nr_spares, 1);
	KUNIT_ASSERT_EQ(test, take(splice, PAGE_SIZE), PAGE_SIZE);
	KUNIT_EXPECT_TRUE(test, has_page(splice->rb, page));
	KUNIT_EXPECT_EQ(test, page_count(page), 1);
}

/* A socket to which the pipe has given the page may hold a reference like this. */
static void page_that_somebody_has_never_comes_back(struct kunit *test)
{
	struct splice_test *splice = test->priv;
	struct page *page = virt_to_page(splice->rb->data_pages[0]);
	unsigned int lap;
	char *copy;

	copy = kunit_kmalloc(test, PAGE_SIZE, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, copy);
	write_all(splice, WORD);
	KUNIT_ASSERT_EQ(test, take(splice, PAGE_SIZE), PAGE_SIZE);
	memcpy(copy, page_address(page), PAGE_SIZE);
	get_page(page);
	KUNIT_EXPECT_TRUE(test, empty_pipe(splice));
	for (lap = 0; lap < NR_LAPS; lap++) {
		write_all(splice, WORD);
		KUNIT_ASSERT_TRUE(test, drain(splice, lap & 1 ? 1000 : SIZE_MAX));
		KUNIT_ASSERT_FALSE(test, has_page(splice->rb, page));
	}
	KUNIT_EXPECT_MEMEQ(test, copy, page_address(page), PAGE_SIZE);
	KUNIT_EXPECT_EQ(test, page_count(page), 1);
	put_page(page);
}

/* Duplicate the pipe buffer as tee(2) does. */
static void page_of_two_pipes_comes_back_from_the_last(struct kunit *test)
{
	struct splice_test *splice = test->priv;
	struct perf_splice *state = splice->rb->splice;
	struct pipe_buffer copy;

	write_all(splice, WORD);
	KUNIT_ASSERT_EQ(test, take(splice, PAGE_SIZE), PAGE_SIZE);
	KUNIT_ASSERT_TRUE(test, pipe_buf_get(splice->pipe, first_buf(splice)));
	copy = *first_buf(splice);
	KUNIT_EXPECT_TRUE(test, empty_pipe(splice));
	KUNIT_EXPECT_EQ(test, state->nr_spares, 0);
	KUNIT_EXPECT_EQ(test, refcount_read(&state->refcount), 2);
	pipe_buf_release(splice->pipe, &copy);
	KUNIT_EXPECT_EQ(test, state->nr_spares, 1);
	KUNIT_EXPECT_EQ(test, refcount_read(&state->refcount), 1);
}

static void spares_are_as_many_as_were_charged(struct kunit *test)
{
	struct splice_test *splice = test->priv;
	unsigned int lap;

	for (lap = 0; lap < NR_LAPS; lap++) {
		write_all(splice, WORD);
		KUNIT_ASSERT_TRUE(test, drain(splice, SIZE_MAX));
		KUNIT_ASSERT_LE(test, splice->rb->splice->nr_spares, NR_PAGES / 4);
	}
	KUNIT_EXPECT_EQ(test, splice->rb->splice->nr_spares, NR_PAGES / 4);
}

static void nothing_comes_back_without_a_reader(struct kunit *test)
{
	struct splice_test *splice = test->priv;
	struct perf_splice *state = splice->rb->splice;

	write_all(splice, WORD);
	KUNIT_ASSERT_EQ(test, take(splice, PAGE_SIZE), PAGE_SIZE);
	KUNIT_EXPECT_TRUE(test, empty_pipe(splice));
	KUNIT_ASSERT_EQ(test, take(splice, PAGE_SIZE - WORD), PAGE_SIZE - WORD);
	KUNIT_ASSERT_EQ(test, take(splice, WORD), WORD);
	perf_splice_free_spares(state);
	KUNIT_EXPECT_EQ(test, state->nr_spares, 0);
	KUNIT_EXPECT_TRUE(test, empty_pipe(splice));
	KUNIT_EXPECT_EQ(test, state->nr_spares, 0);
}

static void pages_outlive_the_buffer(struct kunit *test)
{
	struct splice_test *splice = test->priv;

	write_all(splice, WORD);
	KUNIT_ASSERT_GT(test, take(splice, SIZE_MAX), 0);
	drop_buffer(splice);
	KUNIT_EXPECT_TRUE(test, empty_pipe(splice));
	KUNIT_EXPECT_TRUE(test, all_read(splice));
}

/* KUnit copies values to variables of their type, and sparse wants plain integers. */
static void expect_poll(struct kunit *test, struct perf_buffer *rb, __poll_t events)
{
	KUNIT_EXPECT_EQ(test, (__force u32)perf_splice_poll(rb), (__force u32)events);
}

static void poll_goes_by_the_last_wakeup(struct kunit *test)
{
	struct splice_test *splice = test->priv;
	struct perf_buffer *rb = splice->rb;
	unsigned long half = NR_PAGES / 2 * PAGE_SIZE;

	expect_poll(test, rb, 0);
	while (local_read(&rb->head) < half)
		write_record(splice, WORD);
	expect_poll(test, rb, 0);
	write_record(splice, WORD);
	expect_poll(test, rb, EPOLLIN | EPOLLRDNORM);
	write_record(splice, WORD);
	take(splice, half + WORD - 1);
	expect_poll(test, rb, EPOLLIN | EPOLLRDNORM);
	take(splice, 1);
	expect_poll(test, rb, 0);
	rb_toggle_paused(rb, true);
	expect_poll(test, rb, EPOLLIN | EPOLLRDNORM);
	take(splice, WORD);
	expect_poll(test, rb, 0);
}

static void end_is_when_nobody_can_write(struct kunit *test)
{
	struct splice_test *splice = test->priv;
	struct perf_buffer *rb = splice->rb;

	KUNIT_EXPECT_FALSE(test, perf_splice_at_end(rb));
	write_record(splice, WORD);
	list_add(&splice->child.child_list, &splice->event.child_list);
	event_ends(splice);
	KUNIT_EXPECT_FALSE(test, perf_splice_at_end(rb));
	expect_poll(test, rb, 0);
	list_del_init(&splice->child.child_list);
	event_ends(splice);
	KUNIT_EXPECT_FALSE(test, perf_splice_at_end(rb));
	expect_poll(test, rb, EPOLLHUP | EPOLLIN | EPOLLRDNORM);
	KUNIT_EXPECT_TRUE(test, drain(splice, SIZE_MAX));
	KUNIT_EXPECT_TRUE(test, perf_splice_at_end(rb));
	expect_poll(test, rb, EPOLLHUP);
}

/* A writer in the middle of a record is in an RCU read-side critical section. */
static void end_waits_for_the_last_writer(struct kunit *test)
{
	struct splice_test *splice = test->priv;
	struct perf_buffer *rb = splice->rb;
	struct perf_output_handle handle;

	KUNIT_ASSERT_EQ(test, begin(splice, &handle, WORD), 0);
	splice->event.state = PERF_EVENT_STATE_EXIT;
	perf_splice_event_ended(&splice->event);
	expect_poll(test, rb, EPOLLHUP);
	KUNIT_EXPECT_FALSE(test, perf_splice_at_end(rb));
	fill(splice, &handle, WORD);
	perf_output_end(&handle);
	wait_for_end();
	KUNIT_EXPECT_FALSE(test, perf_splice_at_end(rb));
	KUNIT_EXPECT_TRUE(test, drain(splice, SIZE_MAX));
	KUNIT_EXPECT_TRUE(test, perf_splice_at_end(rb));
}

/* A live event that attaches after the end reopens the buffer; a dead one does not. */
static void event_that_comes_ends_the_end(struct kunit *test)
{
	struct splice_test *splice = test->priv;
	struct perf_buffer *rb = splice->rb;

	event_ends(splice);
	KUNIT_EXPECT_TRUE(test, perf_splice_at_end(rb));
	detach_event(splice);
	attach_event(splice);
	KUNIT_EXPECT_TRUE(test, perf_splice_at_end(rb));

	detach_event(splice);
	splice->event.state = PERF_EVENT_STATE_INACTIVE;
	attach_event(splice);
	KUNIT_EXPECT_FALSE(test, perf_splice_at_end(rb));
	expect_poll(test, rb, 0);

	/* Let the last event end twice within one grace period. */
	detach_event(splice);
	attach_event(splice);
	detach_event(splice);
	KUNIT_EXPECT_FALSE(test, perf_splice_at_end(rb));
	wait_for_end();
	KUNIT_EXPECT_TRUE(test, perf_splice_at_end(rb));
	attach_event(splice);
}

static unsigned int nr_wakeups;

static int count_wakeup(struct wait_queue_entry *entry, unsigned int mode, int flags,
			void *key)
{
	nr_wakeups++;
	return 0;
}

static void only_the_last_event_that_leaves_wakes(struct kunit *test)
{
	struct splice_test *splice = test->priv;
	struct perf_buffer *rb = splice->rb;
	struct wait_queue_entry entry;
	struct perf_event *events;
	static struct pmu pmu;
	unsigned int i;

	events = kunit_kcalloc(test, NR_PAGES, sizeof(*events), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, events);
	for (i = 0; i < NR_PAGES; i++) {
		events[i].pmu = &pmu;
		events[i].state = PERF_EVENT_STATE_INACTIVE;
		INIT_LIST_HEAD(&events[i].child_list);
		init_waitqueue_head(&events[i].waitq);
		refcount_inc(&rb->refcount);
		ring_buffer_attach(&events[i], rb);
	}

	nr_wakeups = 0;
	init_waitqueue_func_entry(&entry, count_wakeup);
	add_wait_queue(&splice->event.waitq, &entry);
	for (i = 0; i < NR_PAGES; i++)
		ring_buffer_attach(&events[i], NULL);
	KUNIT_EXPECT_EQ(test, nr_wakeups, 0);
	event_ends(splice);
	KUNIT_EXPECT_EQ(test, nr_wakeups, 1);
	remove_wait_queue(&splice->event.waitq, &entry);
	/*
	 * KUnit frees the events after the test, and RCU readers may use them for a grace
	 * period.
	 */
	synchronize_rcu();
}

static void loss_is_told_before_the_end(struct kunit *test)
{
	struct splice_test *splice = test->priv;
	struct perf_buffer *rb = splice->rb;
	struct {
		struct perf_event_header header;
		u64 id;
		u64 lost;
		u64 sample_id;
	} record = {};
	unsigned int paused, i;

	splice->event.attr.sample_id_all = 1;
	splice->event.attr.sample_type = PERF_SAMPLE_ID;
	splice->event.id_header_size = sizeof(u64);
	for (paused = 0; paused < 2; paused++) {
		detach_event(splice);
		splice->event.state = PERF_EVENT_STATE_INACTIVE;
		attach_event(splice);
		write_all(splice, WORD);
		rb_toggle_paused(rb, paused);
		for (i = 0; i < 3; i++)
			KUNIT_EXPECT_EQ(test, write_record(splice, PAGE_SIZE), -ENOSPC);
		event_ends(splice);
		KUNIT_EXPECT_TRUE(test, drain(splice, SIZE_MAX));
		KUNIT_EXPECT_TRUE(test, all_read(splice));
		expect_poll(test, rb, EPOLLHUP | EPOLLIN | EPOLLRDNORM);
		KUNIT_EXPECT_FALSE(test, perf_splice_at_end(rb));
		KUNIT_ASSERT_EQ(test, take(splice, SIZE_MAX), sizeof(record));
		copy_pipe(splice, (char *)&record, sizeof(record));
		KUNIT_EXPECT_EQ(test, record.header.type, PERF_RECORD_LOST);
		KUNIT_EXPECT_EQ(test, record.header.size, sizeof(record));
		KUNIT_EXPECT_EQ(test, record.id, EVENT_ID);
		KUNIT_EXPECT_EQ(test, record.lost, 3);
		KUNIT_EXPECT_EQ(test, record.sample_id, EVENT_ID);
		empty_pipe(splice);
		KUNIT_EXPECT_TRUE(test, perf_splice_at_end(rb));
		KUNIT_EXPECT_EQ(test, rb->paused, paused);
		splice->read = splice->written * WORD;
		rb_toggle_paused(rb, false);
	}
}

/* Events of a PMU that has moved its events may be on two CPUs. */
static void writer_on_another_cpu_is_refused(struct kunit *test)
{
	struct splice_test *splice = test->priv;
	struct perf_buffer *rb = splice->rb;

	write_record(splice, WORD);
	rb->splice->moved = true;
	rb->splice->cpu = nr_cpu_ids;
	KUNIT_EXPECT_EQ(test, write_record(splice, WORD), -ENOSPC);
	KUNIT_EXPECT_EQ(test, rb->nest, 0);
	KUNIT_EXPECT_EQ(test, local_read(&rb->head), WORD);
	KUNIT_EXPECT_EQ(test, atomic64_read(&splice->event.lost_samples), 1);
	rb->splice->cpu = -1;
	KUNIT_EXPECT_EQ(test, write_record(splice, WORD), 0);
	KUNIT_EXPECT_TRUE(test, drain(splice, SIZE_MAX));
}

struct remote_write {
	struct perf_event	*event;
	int			ret;
};

static void write_word(void *info)
{
	struct remote_write *write = info;
	struct perf_output_handle handle;
	struct perf_sample_data data;

	write->ret = perf_output_begin(&handle, &data, write->event, WORD);
	if (write->ret)
		return;
	perf_output_skip(&handle, WORD);
	perf_output_end(&handle);
}

static int write_on_cpu(struct perf_event *event, int cpu)
{
	struct remote_write write = { .event = event };
	int ret = smp_call_function_single(cpu, write_word, &write, true);

	return ret ?: write.ret;
}

static void buffer_follows_an_event_that_migrates(struct kunit *test)
{
	struct perf_event_attr attr = {
		.type		= PERF_TYPE_SOFTWARE,
		.config		= PERF_COUNT_SW_CPU_CLOCK,
		.size		= sizeof(attr),
	};
	int from = cpumask_first(cpu_online_mask), to = cpumask_next(from, cpu_online_mask);
	struct perf_event *event;
	struct perf_buffer *rb;

	if (to >= nr_cpu_ids)
		kunit_skip(test, "needs two CPUs");

	event = perf_event_create_kernel_counter(&attr, from, NULL, NULL, NULL);
	KUNIT_ASSERT_FALSE(test, IS_ERR(event));
	rb = rb_alloc(NR_PAGES, 0, from, RING_BUFFER_WRITABLE);
	if (!rb || perf_splice_init(rb, event)) {
		perf_event_release_kernel(event);
		KUNIT_FAIL_AND_ABORT(test, "no memory");
	}
	ring_buffer_attach(event, rb);
	KUNIT_EXPECT_EQ(test, write_on_cpu(event, from), 0);

	perf_pmu_migrate_context(event->pmu, from, to);
	KUNIT_EXPECT_EQ(test, write_on_cpu(event, from), -ENOSPC);
	KUNIT_EXPECT_EQ(test, write_on_cpu(event, to), 0);
	perf_pmu_migrate_context(event->pmu, to, from);
	KUNIT_EXPECT_EQ(test, write_on_cpu(event, to), -ENOSPC);
	KUNIT_EXPECT_EQ(test, write_on_cpu(event, from), 0);

	KUNIT_EXPECT_EQ(test, local_read(&rb->head), 3 * WORD);
	KUNIT_EXPECT_EQ(test, atomic64_read(&event->lost_samples), 2);
	perf_event_release_kernel(event);
	/* The last writer's end is told a grace period later. */
	wait_for_end();
}

static struct kunit_case splice_cases[] = {
	KUNIT_CASE(whole_page_leaves_and_another_comes),
	KUNIT_CASE(part_of_a_page_is_copied),
	KUNIT_CASE(last_page_may_be_whole),
	KUNIT_CASE(page_that_is_partly_read_stays),
	KUNIT_CASE(any_order_of_lengths_is_exact),
	KUNIT_CASE(positions_go_through_the_end_of_the_counter),
	KUNIT_CASE(room_is_what_was_taken),
	KUNIT_CASE(record_that_is_not_finished_stays),
	KUNIT_CASE(pipe_takes_as_much_as_it_has_room_for),
	KUNIT_CASE(page_comes_back_when_nobody_has_it),
	KUNIT_CASE(page_that_somebody_has_never_comes_back),
	KUNIT_CASE(page_of_two_pipes_comes_back_from_the_last),
	KUNIT_CASE(spares_are_as_many_as_were_charged),
	KUNIT_CASE(nothing_comes_back_without_a_reader),
	KUNIT_CASE(pages_outlive_the_buffer),
	KUNIT_CASE(poll_goes_by_the_last_wakeup),
	KUNIT_CASE(end_is_when_nobody_can_write),
	KUNIT_CASE(end_waits_for_the_last_writer),
	KUNIT_CASE(event_that_comes_ends_the_end),
	KUNIT_CASE(only_the_last_event_that_leaves_wakes),
	KUNIT_CASE(writer_on_another_cpu_is_refused),
	KUNIT_CASE(buffer_follows_an_event_that_migrates),
	KUNIT_CASE(loss_is_told_before_the_end),
	{}
};

static struct kunit_suite splice_suite = {
	.name		= "perf_splice",
	.init		= splice_test_init,
	.exit		= splice_test_exit,
	.test_cases	= splice_cases,
};

kunit_test_suite(splice_suite);

MODULE_DESCRIPTION("KUnit tests of perf buffers that are read by splice");
MODULE_LICENSE("GPL");
