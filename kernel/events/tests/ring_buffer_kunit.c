// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of the perf ring buffer: what a writer puts there, in which order it
 * shows, and when the reader is woken.
 *
 * To interrupt a writer, a test calls perf_output_begin() again before the first
 * perf_output_end(). An NMI does no more than that, but its place is not known.
 */

#include <kunit/test.h>
#include <linux/align.h>
#include <linux/cpu.h>
#include <linux/gfp.h>
#include <linux/hrtimer.h>
#include <linux/irq_work.h>
#include <linux/mm.h>
#include <linux/perf_event.h>
#include <linux/poll.h>
#include <linux/prandom.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/string.h>

#include "../internal.h"

#define EVENT_ID	4711
#define FENCE_BYTE	0xa5
#define HOSTILE_ROUNDS	20000

/* A sanitizer makes each access about ten times as slow. */
#if IS_ENABLED(CONFIG_KASAN) || IS_ENABLED(CONFIG_KCSAN)
#define NESTED_RECORDS	1000000
#define OFFSET_STEP	64
#else
#define NESTED_RECORDS	10000000
#define OFFSET_STEP	8
#endif

struct ring_test {
	struct perf_event	event;
	struct perf_buffer	*rb;
	struct perf_sample_data	data;
	unsigned int		wakeups;
	char			record[2 * SZ_64K];
};

static void count_wakeup(struct irq_work *work)
{
	struct perf_event *event = container_of(work, struct perf_event, pending_irq);
	struct ring_test *ring = container_of(event, struct ring_test, event);

	ring->wakeups++;
}

static int ring_test_init(struct kunit *test)
{
	struct ring_test *ring;

	ring = kvzalloc(sizeof(*ring), GFP_KERNEL);
	if (!ring)
		return -ENOMEM;

	ring->event.id = EVENT_ID;
	init_irq_work(&ring->event.pending_irq, count_wakeup);
	test->priv = ring;
	return 0;
}

static void ring_drop(struct ring_test *ring)
{
	irq_work_sync(&ring->event.pending_irq);
	RCU_INIT_POINTER(ring->event.rb, NULL);
	if (ring->rb)
		rb_free(ring->rb);
	ring->rb = NULL;
}

static void ring_test_exit(struct kunit *test)
{
	struct ring_test *ring = test->priv;

	if (!ring)
		return;

	ring_drop(ring);
	kvfree(ring);
}

/* Replace the buffer by an empty one of @nr_pages. */
static struct ring_test *ring_make(struct kunit *test, int nr_pages, long watermark,
				   int flags)
{
	struct ring_test *ring = test->priv;

	ring_drop(ring);
	ring->rb = rb_alloc(nr_pages, watermark, -1, flags);
	KUNIT_ASSERT_NOT_NULL(test, ring->rb);
	rcu_assign_pointer(ring->event.rb, ring->rb);
	ring->wakeups = 0;
	atomic64_set(&ring->event.lost_samples, 0);
	return ring;
}

static struct ring_test *ring_make_writable(struct kunit *test, int nr_pages)
{
	return ring_make(test, nr_pages, 0, RING_BUFFER_WRITABLE);
}

static u64 ring_head(struct ring_test *ring)
{
	return READ_ONCE(ring->rb->user_page->data_head);
}

static void ring_set_tail(struct ring_test *ring, u64 tail)
{
	WRITE_ONCE(ring->rb->user_page->data_tail, tail);
}

/* Set up the buffer as if @at bytes had been written and read. */
static void ring_start_at(struct ring_test *ring, unsigned long at)
{
	local_set(&ring->rb->head, at);
	local_set(&ring->rb->wakeup, at);
	ring->rb->user_page->data_head = at;
	ring_set_tail(ring, at);
}

static char *ring_at(struct ring_test *ring, unsigned long at)
{
	struct perf_buffer *rb = ring->rb;
	unsigned int shift = PAGE_SHIFT + page_order(rb);

	return (char *)rb->data_pages[(at >> shift) & (rb->nr_pages - 1)] +
	       (at & ((1UL << shift) - 1));
}

/* Sizes and offsets of records are multiples of 8, so no word spans two pages. */
static u64 ring_word(struct ring_test *ring, unsigned long at)
{
	return *(u64 *)ring_at(ring, at);
}

static int ring_begin(struct ring_test *ring, struct perf_output_handle *handle,
		      unsigned int size)
{
	struct perf_event_header header;

	perf_event_header__init(&header, &ring->data, PERF_RECORD_SAMPLE, 0, size, &ring->event);
	return perf_output_begin(handle, &ring->data, &ring->event, size);
}

static int ring_write(struct ring_test *ring, const void *record, unsigned int size)
{
	struct perf_output_handle handle;
	int ret = ring_begin(ring, &handle, size);

	if (ret)
		return ret;
	perf_output_copy(&handle, record, size);
	perf_output_end(&handle);
	return 0;
}

/* Fill the record with words that encode their position. */
static void ring_fill_size(struct ring_test *ring, u64 seed, unsigned int size)
{
	u64 *words = (u64 *)ring->record;
	unsigned int i;

	for (i = 0; i < size / sizeof(*words); i++)
		words[i] = (seed + i) * 0x9e3779b97f4a7c15ULL;
}

static void ring_fill(struct ring_test *ring, u64 seed)
{
	ring_fill_size(ring, seed, sizeof(ring->record));
}

static bool ring_equals(struct ring_test *ring, unsigned long at, unsigned int size)
{
	unsigned int done, len;

	for (done = 0; done < size; done += len) {
		len = min_t(unsigned int, size - done,
			    PAGE_SIZE - ((at + done) & (PAGE_SIZE - 1)));
		if (memcmp(ring_at(ring, at + done), ring->record + done, len))
			return false;
	}
	return true;
}

static void record_of_every_size_fits_at_every_offset(struct kunit *test)
{
	struct ring_test *ring = ring_make_writable(test, 1);
	unsigned int step = max_t(unsigned int, 8, PAGE_SIZE / 512);
	unsigned long size, offset;

	ring_fill(ring, 1);
	for (size = 8; size < PAGE_SIZE; size += step) {
		for (offset = 0; offset < PAGE_SIZE; offset += max(step, OFFSET_STEP)) {
			ring_start_at(ring, offset);
			if (ring_write(ring, ring->record, size) ||
			    ring_head(ring) != offset + size ||
			    !ring_equals(ring, offset, size))
				goto bad;
		}
		cond_resched();
	}
	return;
bad:
	KUNIT_FAIL(test, "size %lu at offset %lu", size, offset);
}

/*
 * Get the offset of the word to check after that at @at: the last of a page, the first
 * of the next page, or @last.
 */
static unsigned long next_border(unsigned long at, unsigned long last)
{
	at += 8;
	if (IS_ALIGNED(at, PAGE_SIZE))
		return at;
	return min(round_down(at, PAGE_SIZE) + PAGE_SIZE - 8, last);
}

/* Return a word that is never 0 and differs for each size, offset and place. */
static u64 border_word(unsigned long offset, unsigned long size, unsigned long at)
{
	return (u64)offset << 40 | (u64)size << 20 | at;
}

/*
 * Write only the ends of the record and the words on both sides of page borders, so
 * that each size at each offset is affordable.
 */
static bool borders_are_exact(struct ring_test *ring, unsigned long offset, unsigned long size)
{
	unsigned long at, next, last = offset + size - 8, total = perf_data_size(ring->rb);
	struct perf_output_handle handle;
	u64 word;

	*(u64 *)ring_at(ring, offset + size) = 0;
	*(u64 *)ring_at(ring, offset + total - 8) = 0;
	ring_start_at(ring, offset);
	if (ring_begin(ring, &handle, size))
		return false;
	for (at = offset; at < last; at = next) {
		next = next_border(at, last);
		word = border_word(offset, size, at);
		perf_output_put(&handle, word);
		perf_output_skip(&handle, next - at - 8);
	}
	word = border_word(offset, size, last);
	perf_output_put(&handle, word);
	perf_output_end(&handle);

	for (at = offset; at < last; at = next_border(at, last)) {
		if (ring_word(ring, at) != border_word(offset, size, at))
			return false;
	}
	/* With the largest record, both neighbours are the one word that is left. */
	return ring_head(ring) == offset + size && ring_word(ring, last) == word &&
	       !ring_word(ring, offset + size) && !ring_word(ring, offset + total - 8);
}

static void record_stays_within_its_bounds_on_two_pages(struct kunit *test)
{
	struct ring_test *ring = ring_make_writable(test, 2);
	unsigned int step = max_t(unsigned int, 8, PAGE_SIZE / 512);
	unsigned long size, offset;

	for (size = 8; size < 2 * PAGE_SIZE; size += step) {
		for (offset = 0; offset < 2 * PAGE_SIZE; offset += max(step, OFFSET_STEP)) {
			if (!borders_are_exact(ring, offset, size)) {
				KUNIT_FAIL(test, "size %lu at offset %lu", size, offset);
				return;
			}
		}
		cond_resched();
	}
}

/* Compare all of the content, for sizes that cross the page border in each way. */
static void content_is_whole_across_two_pages(struct kunit *test)
{
	static const unsigned long sizes[] = {
		8, 16, 72, PAGE_SIZE - 8, PAGE_SIZE, PAGE_SIZE + 8,
		2 * PAGE_SIZE - 16, 2 * PAGE_SIZE - 8,
	};
	struct ring_test *ring = ring_make_writable(test, 2);
	unsigned int step = max_t(unsigned int, 8, PAGE_SIZE / 512), i;
	unsigned long offset;

	for (offset = 0; offset < 2 * PAGE_SIZE; offset += step) {
		for (i = 0; i < ARRAY_SIZE(sizes); i++) {
			ring_fill_size(ring, offset * 8 + i, sizes[i]);
			ring_start_at(ring, offset);
			if (ring_write(ring, ring->record, sizes[i]) ||
			    ring_head(ring) != offset + sizes[i] ||
			    !ring_equals(ring, offset, sizes[i])) {
				KUNIT_FAIL(test, "size %lu at offset %lu", sizes[i], offset);
				return;
			}
		}
		cond_resched();
	}
}

static void buffer_is_never_filled_to_its_last_byte(struct kunit *test)
{
	struct ring_test *ring = ring_make_writable(test, 1);

	KUNIT_EXPECT_EQ(test, ring_write(ring, ring->record, PAGE_SIZE - 8), 0);
	KUNIT_EXPECT_EQ(test, ring_write(ring, ring->record, 8), -ENOSPC);
	ring = ring_make_writable(test, 1);
	KUNIT_EXPECT_EQ(test, ring_write(ring, ring->record, PAGE_SIZE), -ENOSPC);
}

struct boundary_row {
	const char	*name;
	u64		at;
};

/* On a 32-bit kernel, where positions wrap, 2^32 is the same as zero. */
static const struct boundary_row boundary_rows[] = {
	{ "zero", 0 },
	{ "2^32", 1ULL << 32 },
	{ "2^31", 1ULL << 31 },
};

static void boundary_row_name(const struct boundary_row *row, char *desc)
{
	strscpy(desc, row->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(boundary, boundary_rows, boundary_row_name);

static void head_counts_through_a_boundary(struct kunit *test)
{
	const struct boundary_row *row = test->param_value;
	struct ring_test *ring = ring_make_writable(test, 2);
	unsigned long at = (unsigned long)row->at - 3 * PAGE_SIZE - 48;
	unsigned int i;

	ring_start_at(ring, at);
	for (i = 0; i < 5 * PAGE_SIZE / 56; i++) {
		ring_fill(ring, i);
		KUNIT_ASSERT_EQ(test, ring_write(ring, ring->record, 56), 0);
		KUNIT_ASSERT_TRUE(test, ring_equals(ring, at, 56));
		at += 56;
		KUNIT_ASSERT_EQ(test, (unsigned long)ring_head(ring), at);
		ring_set_tail(ring, at);
	}
	/* The head has passed the boundary by now. */
	KUNIT_EXPECT_LT(test, at - (unsigned long)row->at, 2 * PAGE_SIZE);
	KUNIT_EXPECT_EQ(test, atomic64_read(&ring->event.lost_samples), 0);
	KUNIT_EXPECT_EQ(test, local_read(&ring->rb->lost), 0);
}

static void backward_head_counts_through_a_boundary(struct kunit *test)
{
	const struct boundary_row *row = test->param_value;
	struct ring_test *ring = ring_make_writable(test, 2);
	unsigned long at = (unsigned long)row->at + 3 * PAGE_SIZE + 48;
	unsigned int i;

	ring->event.attr.write_backward = 1;
	ring_start_at(ring, at);
	for (i = 0; i < 5 * PAGE_SIZE / 56; i++) {
		ring_fill(ring, i);
		KUNIT_ASSERT_EQ(test, ring_write(ring, ring->record, 56), 0);
		at -= 56;
		KUNIT_ASSERT_TRUE(test, ring_equals(ring, at, 56));
		KUNIT_ASSERT_EQ(test, (unsigned long)ring_head(ring), at);
		ring_set_tail(ring, at);
	}
	KUNIT_EXPECT_LT(test, (unsigned long)row->at - at, 2 * PAGE_SIZE);
	KUNIT_EXPECT_EQ(test, atomic64_read(&ring->event.lost_samples), 0);
	ring->event.attr.write_backward = 0;
}

static void buffer_across_a_boundary_is_full_when_it_is(struct kunit *test)
{
	const struct boundary_row *row = test->param_value;
	struct ring_test *ring = ring_make_writable(test, 1);
	unsigned int i, nr = (PAGE_SIZE - 1) / 64;

	ring_start_at(ring, (unsigned long)row->at - 1024);
	for (i = 0; i < nr; i++)
		KUNIT_ASSERT_EQ(test, ring_write(ring, ring->record, 64), 0);
	KUNIT_EXPECT_EQ(test, ring_write(ring, ring->record, 64), -ENOSPC);
}

static void loss_is_told_by_the_next_record(struct kunit *test)
{
	struct ring_test *ring = ring_make_writable(test, 1);
	struct perf_event_header *header;
	unsigned int i;
	u64 at;

	KUNIT_ASSERT_EQ(test, ring_write(ring, ring->record, PAGE_SIZE - 8), 0);
	for (i = 0; i < 7; i++)
		KUNIT_EXPECT_EQ(test, ring_write(ring, ring->record, 16), -ENOSPC);
	KUNIT_EXPECT_EQ(test, atomic64_read(&ring->event.lost_samples), 7);
	KUNIT_EXPECT_EQ(test, ring_head(ring), PAGE_SIZE - 8);

	at = ring_head(ring);
	ring_set_tail(ring, at);
	KUNIT_ASSERT_EQ(test, ring_write(ring, ring->record, 16), 0);
	KUNIT_EXPECT_EQ(test, ring_head(ring), at + 24 + 16);
	header = (struct perf_event_header *)ring_at(ring, at);
	KUNIT_EXPECT_EQ(test, header->type, PERF_RECORD_LOST);
	KUNIT_EXPECT_EQ(test, header->size, 24);
	KUNIT_EXPECT_EQ(test, header->misc, 0);
	KUNIT_EXPECT_EQ(test, ring_word(ring, at + 8), EVENT_ID);
	KUNIT_EXPECT_EQ(test, ring_word(ring, at + 16), 7);

	KUNIT_ASSERT_EQ(test, ring_write(ring, ring->record, 16), 0);
	KUNIT_EXPECT_EQ(test, ring_head(ring), at + 24 + 16 + 16);
}

static void loss_is_told_with_the_sample_id(struct kunit *test)
{
	struct ring_test *ring = ring_make_writable(test, 1);
	struct perf_event_header *header;

	ring->event.attr.sample_id_all = 1;
	ring->event.attr.sample_type = PERF_SAMPLE_ID;
	ring->event.id_header_size = 8;
	local_set(&ring->rb->lost, 3);
	KUNIT_ASSERT_EQ(test, ring_write(ring, ring->record, 16), 0);
	header = (struct perf_event_header *)ring_at(ring, 0);
	KUNIT_EXPECT_EQ(test, header->type, PERF_RECORD_LOST);
	KUNIT_EXPECT_EQ(test, header->size, 32);
	KUNIT_EXPECT_EQ(test, ring_word(ring, 16), 3);
	KUNIT_EXPECT_EQ(test, ring_word(ring, 24), EVENT_ID);
	KUNIT_EXPECT_EQ(test, ring_head(ring), 32 + 16);
	ring->event.attr.sample_id_all = 0;
}

static void paused_buffer_counts_what_it_drops(struct kunit *test)
{
	struct ring_test *ring = ring_make_writable(test, 1);

	rb_toggle_paused(ring->rb, true);
	KUNIT_EXPECT_EQ(test, ring_write(ring, ring->record, 16), -ENOSPC);
	KUNIT_EXPECT_EQ(test, atomic64_read(&ring->event.lost_samples), 1);
	rb_toggle_paused(ring->rb, false);
	KUNIT_EXPECT_EQ(test, ring_write(ring, ring->record, 16), 0);
	KUNIT_EXPECT_EQ(test, ring_word(ring, 16), 1);
}

static void buffer_without_pages_takes_nothing(struct kunit *test)
{
	struct ring_test *ring = ring_make_writable(test, 0);

	KUNIT_EXPECT_EQ(test, ring_write(ring, ring->record, 16), -ENOSPC);
	rb_toggle_paused(ring->rb, false);
	KUNIT_EXPECT_EQ(test, ring_write(ring, ring->record, 16), -ENOSPC);
	KUNIT_EXPECT_EQ(test, atomic64_read(&ring->event.lost_samples), 0);
}

static void backward_head_decreases(struct kunit *test)
{
	struct ring_test *ring = ring_make(test, 2, 0, 0);
	unsigned long head = 0;
	unsigned int i;

	ring->event.attr.write_backward = 1;
	for (i = 0; i < 6 * PAGE_SIZE / 72; i++) {
		ring_fill(ring, i);
		KUNIT_ASSERT_EQ(test, ring_write(ring, ring->record, 72), 0);
		head -= 72;
		KUNIT_ASSERT_EQ(test, (unsigned long)ring_head(ring), head);
		KUNIT_ASSERT_TRUE(test, ring_equals(ring, head, 72));
	}
	ring->event.attr.write_backward = 0;
}

static void backward_writer_stops_at_the_tail(struct kunit *test)
{
	struct ring_test *ring = ring_make_writable(test, 1);
	unsigned int i, nr = (PAGE_SIZE - 1) / 72;

	ring->event.attr.write_backward = 1;
	for (i = 0; i < nr; i++)
		KUNIT_ASSERT_EQ(test, ring_write(ring, ring->record, 72), 0);
	KUNIT_EXPECT_EQ(test, ring_write(ring, ring->record, 72), -ENOSPC);
	ring_set_tail(ring, -72UL);
	local_set(&ring->rb->lost, 0);
	KUNIT_EXPECT_EQ(test, ring_write(ring, ring->record, 72), 0);
	ring->event.attr.write_backward = 0;
}

/* With @left bytes of room, write a record that is too large and then one that fits. */
static void expect_backward_room(struct kunit *test, unsigned int left)
{
	struct ring_test *ring = ring_make_writable(test, 1);

	/* One byte always stays free, and so eight do: sizes are multiples of 8. */
	if (left < PAGE_SIZE - 8)
		KUNIT_ASSERT_EQ(test, ring_write(ring, ring->record, PAGE_SIZE - 8 - left), 0);
	KUNIT_EXPECT_EQ(test, ring_write(ring, ring->record, left + 8), -ENOSPC);
	/* Forget the loss, because its record would need room, too. */
	local_set(&ring->rb->lost, 0);
	KUNIT_EXPECT_EQ(test, left ? ring_write(ring, ring->record, left) : 0, 0);
	KUNIT_EXPECT_EQ(test, ring_write(ring, ring->record, 8), -ENOSPC);

	/* After one word has been read, there is room for exactly one word. */
	local_set(&ring->rb->lost, 0);
	ring_set_tail(ring, -8UL);
	KUNIT_EXPECT_EQ(test, ring_write(ring, ring->record, 8), 0);
	KUNIT_EXPECT_EQ(test, ring_write(ring, ring->record, 8), -ENOSPC);
	KUNIT_EXPECT_EQ(test, (unsigned long)ring_head(ring), -PAGE_SIZE);
}

static void backward_writer_has_all_but_the_last_byte(struct kunit *test)
{
	struct ring_test *ring = test->priv;

	ring->event.attr.write_backward = 1;
	expect_backward_room(test, 0);
	expect_backward_room(test, 8);
	expect_backward_room(test, 64);
	expect_backward_room(test, PAGE_SIZE - 8);
	ring->event.attr.write_backward = 0;
}

static void nested_records_show_with_the_outermost(struct kunit *test)
{
	struct ring_test *ring = ring_make_writable(test, 1);
	struct perf_output_handle handle[4];
	int depth, i;
	u64 at = 0;

	for (depth = 1; depth <= ARRAY_SIZE(handle); depth++) {
		for (i = 0; i < depth; i++) {
			u64 word = depth * 10 + i;

			KUNIT_ASSERT_EQ(test, ring_begin(ring, &handle[i], 16), 0);
			perf_output_put(&handle[i], word);
			perf_output_put(&handle[i], word);
			KUNIT_EXPECT_EQ(test, ring_head(ring), at);
		}
		for (i = depth - 1; i > 0; i--) {
			perf_output_end(&handle[i]);
			KUNIT_EXPECT_EQ(test, ring_head(ring), at);
		}
		perf_output_end(&handle[0]);
		KUNIT_EXPECT_EQ(test, ring_head(ring), at + 16 * depth);
		for (i = 0; i < depth; i++)
			KUNIT_EXPECT_EQ(test, ring_word(ring, at + 16 * i), depth * 10 + i);
		at += 16 * depth;
	}
	KUNIT_EXPECT_EQ(test, ring->rb->nest, 0);
}

/* Several records, one after the other, interrupt the outer writer at one place. */
static void sequence_of_nested_records_keeps_its_order(struct kunit *test)
{
	struct ring_test *ring = ring_make_writable(test, 1);
	struct perf_output_handle outer;
	u64 word = 1;
	int i;

	KUNIT_ASSERT_EQ(test, ring_begin(ring, &outer, 16), 0);
	perf_output_put(&outer, word);
	for (i = 0; i < 5; i++) {
		u64 inner[2] = { 100 + i, 200 + i };

		KUNIT_ASSERT_EQ(test, ring_write(ring, inner, 16), 0);
		KUNIT_EXPECT_EQ(test, ring_head(ring), 0);
	}
	word = 2;
	perf_output_put(&outer, word);
	perf_output_end(&outer);
	KUNIT_EXPECT_EQ(test, ring_head(ring), 6 * 16);
	KUNIT_EXPECT_EQ(test, ring_word(ring, 0), 1);
	KUNIT_EXPECT_EQ(test, ring_word(ring, 8), 2);
	for (i = 0; i < 5; i++)
		KUNIT_EXPECT_EQ(test, ring_word(ring, 16 * (i + 1) + 8), 200 + i);
}

struct nest_state {
	struct ring_test	*ring;
	struct rnd_state	rnd;
	u64			written;
	u64			read;
	unsigned long		tail;
};

/* Write a record that begins with its size in words and repeats its number to the end. */
static bool nest_write(struct nest_state *state, int depth)
{
	unsigned int words = 2 + prandom_u32_state(&state->rnd) % 14, i;
	struct perf_output_handle handle;
	u64 number = state->written, head;

	if (ring_begin(state->ring, &handle, words * 8))
		return false;
	state->written++;
	head = (u64)words << 48 | number;
	perf_output_put(&handle, head);
	for (i = 1; i < words; i++) {
		/* Another writer may interrupt at any word of the record. */
		if (depth < 4 && !(prandom_u32_state(&state->rnd) % 16) &&
		    !nest_write(state, depth + 1)) {
			perf_output_end(&handle);
			return false;
		}
		perf_output_put(&handle, number);
	}
	perf_output_end(&handle);
	return true;
}

/* Check that the records are whole, and in the order in which they were begun. */
static bool nest_read(struct nest_state *state)
{
	unsigned long head = ring_head(state->ring);
	unsigned int words, i;

	while (state->tail != head) {
		u64 word = ring_word(state->ring, state->tail);

		words = word >> 48;
		if ((word & GENMASK_ULL(47, 0)) != state->read || words < 2 || words > 15)
			return false;
		for (i = 1; i < words; i++) {
			if (ring_word(state->ring, state->tail + i * 8) != state->read)
				return false;
		}
		state->tail += words * 8;
		state->read++;
	}
	ring_set_tail(state->ring, state->tail);
	return true;
}

static void nested_writers_lose_and_tear_nothing(struct kunit *test)
{
	struct nest_state state = { .ring = ring_make_writable(test, 16) };
	u64 next = 0;

	prandom_seed_state(&state.rnd, 20090325);
	while (state.written < NESTED_RECORDS) {
		KUNIT_ASSERT_TRUE_MSG(test, nest_write(&state, 1), "record %llu",
				      state.written);
		if (prandom_u32_state(&state.rnd) % 64 && state.written - state.read < 100)
			continue;
		KUNIT_ASSERT_TRUE_MSG(test, nest_read(&state), "record %llu", state.read);
		if (state.read > next) {
			next = state.read + 10000;
			cond_resched();
		}
	}
	KUNIT_EXPECT_TRUE(test, nest_read(&state));
	KUNIT_EXPECT_EQ(test, state.read, state.written);
	KUNIT_EXPECT_EQ(test, atomic64_read(&state.ring->event.lost_samples), 0);
}

/*
 * Replace the pages of the buffer by contiguous ones with a guard page on each side.
 * Otherwise a copy that goes too far could land in a page of another user, where KASAN
 * finds nothing wrong.
 */
static char *fence_put(struct kunit *test, struct ring_test *ring, void **old)
{
	unsigned int i, nr = data_page_nr(ring->rb);
	char *fence = alloc_pages_exact((nr + 2) * PAGE_SIZE, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, fence);
	memset(fence, FENCE_BYTE, (nr + 2) * PAGE_SIZE);
	for (i = 0; i < ring->rb->nr_pages; i++) {
		old[i] = ring->rb->data_pages[i];
		ring->rb->data_pages[i] = fence + (i + 1) * PAGE_SIZE;
	}
	return fence;
}

/* Restore the pages of the buffer. Return whether both guard pages are unchanged. */
static bool fence_take(struct ring_test *ring, char *fence, void **old)
{
	unsigned int i, nr = data_page_nr(ring->rb);
	bool whole;

	whole = !memchr_inv(fence, FENCE_BYTE, PAGE_SIZE) &&
		!memchr_inv(fence + (nr + 1) * PAGE_SIZE, FENCE_BYTE, PAGE_SIZE);
	for (i = 0; i < ring->rb->nr_pages; i++)
		ring->rb->data_pages[i] = old[i];
	free_pages_exact(fence, (nr + 2) * PAGE_SIZE);
	return whole;
}

/* Return a size. Most are small; some are as large as the buffer, or do not fit. */
static unsigned int hostile_size(struct ring_test *ring, unsigned int i)
{
	if (i % 16)
		return 8 + 8 * (i % 100);
	return perf_data_size(ring->rb) - 16 + 8 * (i / 16 % 4);
}

static void expect_hostile_tail_is_harmless(struct kunit *test, int nr_pages)
{
	struct ring_test *ring = ring_make_writable(test, nr_pages);
	unsigned long head = 0, last = 0, moved;
	char *fence;
	void *old[2];
	struct rnd_state rnd;
	int i, lost = 0;

	fence = fence_put(test, ring, old);
	prandom_seed_state(&rnd, 1);
	for (i = 0; i < HOSTILE_ROUNDS; i++) {
		unsigned long tail = prandom_u32_state(&rnd);
		unsigned int size = hostile_size(ring, i);

		ring_set_tail(ring, i & 1 ? tail << 32 | tail : head + (int)tail);
		lost += !!ring_write(ring, ring->record, size);
		head = ring_head(ring);
		moved = is_write_backward(&ring->event) ? last - head : head - last;
		if (moved > size + 24)
			break;
		last = head;
	}
	KUNIT_EXPECT_TRUE(test, fence_take(ring, fence, old));
	KUNIT_EXPECT_EQ(test, i, HOSTILE_ROUNDS);
	KUNIT_EXPECT_GT(test, lost, 0);
	KUNIT_EXPECT_EQ(test, atomic64_read(&ring->event.lost_samples), lost);
}

static void hostile_tail_changes_nothing_but_the_room(struct kunit *test)
{
	struct ring_test *ring = test->priv;

	expect_hostile_tail_is_harmless(test, 1);
	expect_hostile_tail_is_harmless(test, 2);
	ring->event.attr.write_backward = 1;
	expect_hostile_tail_is_harmless(test, 1);
	expect_hostile_tail_is_harmless(test, 2);
	ring->event.attr.write_backward = 0;
}

/* Write each byte of the buffer, and check that none beyond it is written. */
static void records_stay_inside_of_the_fence(struct kunit *test)
{
	struct ring_test *ring = ring_make_writable(test, 2);
	unsigned int size = 2 * PAGE_SIZE - 8;
	unsigned long offset;
	char *fence;
	void *old[2];

	fence = fence_put(test, ring, old);
	for (offset = 0; offset < 2 * PAGE_SIZE; offset += max(8, PAGE_SIZE / 512)) {
		ring_start_at(ring, offset);
		ring_write(ring, ring->record, size);
	}
	KUNIT_EXPECT_TRUE(test, fence_take(ring, fence, old));
}

struct watermark_row {
	const char	*name;
	int		nr_pages;
	int		flags;
	long		watermark;
	long		want;
};

static const struct watermark_row watermark_rows[] = {
	{ "default", 4, RING_BUFFER_WRITABLE, 0, 2 * PAGE_SIZE },
	{ "one byte", 4, RING_BUFFER_WRITABLE, 1, 1 },
	{ "a page", 4, RING_BUFFER_WRITABLE, PAGE_SIZE, PAGE_SIZE },
	{ "just below the size", 4, RING_BUFFER_WRITABLE, 4 * PAGE_SIZE - 1, 4 * PAGE_SIZE - 1 },
	{ "the size", 4, RING_BUFFER_WRITABLE, 4 * PAGE_SIZE, 2 * PAGE_SIZE },
	{ "beyond the size", 4, RING_BUFFER_WRITABLE, 400 * PAGE_SIZE, 2 * PAGE_SIZE },
	{ "overwrite, the size", 4, 0, 4 * PAGE_SIZE, 4 * PAGE_SIZE },
	{ "overwrite, beyond the size", 4, 0, 400 * PAGE_SIZE, 4 * PAGE_SIZE },
	{ "no pages", 0, RING_BUFFER_WRITABLE, PAGE_SIZE, 0 },
};

static void watermark_row_name(const struct watermark_row *row, char *desc)
{
	strscpy(desc, row->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(watermark, watermark_rows, watermark_row_name);

static void watermark_can_be_reached(struct kunit *test)
{
	const struct watermark_row *row = test->param_value;
	struct ring_test *ring = ring_make(test, row->nr_pages, row->watermark, row->flags);

	KUNIT_EXPECT_EQ(test, ring->rb->watermark, row->want);
}

/* Wait for pending wakeups. Return the number of wakeups so far. */
static unsigned int ring_wakeups(struct ring_test *ring)
{
	irq_work_sync(&ring->event.pending_irq);
	return ring->wakeups;
}

static void wakeup_comes_beyond_the_watermark(struct kunit *test)
{
	struct ring_test *ring = ring_make(test, 4, 256, RING_BUFFER_WRITABLE);

	KUNIT_ASSERT_EQ(test, ring_write(ring, ring->record, 256), 0);
	KUNIT_EXPECT_EQ(test, ring_wakeups(ring), 0);
	KUNIT_ASSERT_EQ(test, ring_write(ring, ring->record, 8), 0);
	KUNIT_EXPECT_EQ(test, ring_wakeups(ring), 1);
	KUNIT_ASSERT_EQ(test, ring_write(ring, ring->record, 248), 0);
	KUNIT_EXPECT_EQ(test, ring_wakeups(ring), 1);
	KUNIT_ASSERT_EQ(test, ring_write(ring, ring->record, 8), 0);
	KUNIT_EXPECT_EQ(test, ring_wakeups(ring), 2);
	KUNIT_EXPECT_NE(test, atomic_read(&ring->rb->poll) & (__force int)EPOLLIN, 0);
}

static void nested_writer_wakes_with_the_outermost(struct kunit *test)
{
	struct ring_test *ring = ring_make(test, 4, 256, RING_BUFFER_WRITABLE);
	struct perf_output_handle outer;

	KUNIT_ASSERT_EQ(test, ring_begin(ring, &outer, 16), 0);
	perf_output_copy(&outer, ring->record, 16);
	KUNIT_ASSERT_EQ(test, ring_write(ring, ring->record, 512), 0);
	KUNIT_EXPECT_EQ(test, ring->wakeups, 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&ring->rb->poll), 0);
	perf_output_end(&outer);
	KUNIT_EXPECT_EQ(test, ring_wakeups(ring), 1);
}

static void first_loss_wakes(struct kunit *test)
{
	struct ring_test *ring = ring_make(test, 1, PAGE_SIZE - 1, RING_BUFFER_WRITABLE);
	unsigned int before;

	KUNIT_ASSERT_EQ(test, ring_write(ring, ring->record, PAGE_SIZE - 8), 0);
	KUNIT_EXPECT_EQ(test, ring_wakeups(ring), 0);
	KUNIT_EXPECT_EQ(test, ring_write(ring, ring->record, 64), -ENOSPC);
	KUNIT_EXPECT_EQ(test, ring_wakeups(ring), 1);
	KUNIT_EXPECT_EQ(test, ring_write(ring, ring->record, 64), -ENOSPC);
	KUNIT_EXPECT_EQ(test, ring_wakeups(ring), 1);
	/*
	 * The loss is recorded, which crosses the watermark, and then a record is lost
	 * again.
	 */
	ring_set_tail(ring, ring_head(ring));
	KUNIT_ASSERT_EQ(test, ring_write(ring, ring->record, 64), 0);
	before = ring_wakeups(ring);
	KUNIT_EXPECT_EQ(test, ring_write(ring, ring->record, PAGE_SIZE - 8), -ENOSPC);
	KUNIT_EXPECT_EQ(test, ring_wakeups(ring), before + 1);
}

/* Before the outermost writer ends, the reader would find nothing to read. */
static void nested_first_loss_wakes_with_the_outermost(struct kunit *test)
{
	struct ring_test *ring = ring_make(test, 1, PAGE_SIZE - 1, RING_BUFFER_WRITABLE);
	struct perf_output_handle outer;

	KUNIT_ASSERT_EQ(test, ring_begin(ring, &outer, 64), 0);
	perf_output_copy(&outer, ring->record, 64);
	KUNIT_EXPECT_EQ(test, ring_write(ring, ring->record, PAGE_SIZE), -ENOSPC);
	KUNIT_EXPECT_EQ(test, ring_wakeups(ring), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&ring->rb->poll), 0);
	perf_output_end(&outer);
	KUNIT_EXPECT_EQ(test, ring_head(ring), 64);
	KUNIT_EXPECT_EQ(test, ring_wakeups(ring), 1);
	KUNIT_EXPECT_EQ(test, ring_write(ring, ring->record, PAGE_SIZE), -ENOSPC);
	KUNIT_EXPECT_EQ(test, ring_wakeups(ring), 1);
}

/* A writer that interrupts another one may have moved the wakeup beyond its head. */
static void wakeup_beyond_the_head_stays_where_it_is(struct kunit *test)
{
	struct ring_test *ring = ring_make(test, 4, 256, RING_BUFFER_WRITABLE);

	local_set(&ring->rb->wakeup, 1024);
	KUNIT_ASSERT_EQ(test, ring_write(ring, ring->record, 64), 0);
	KUNIT_EXPECT_EQ(test, local_read(&ring->rb->wakeup), 1024);
	KUNIT_EXPECT_EQ(test, ring_wakeups(ring), 0);
	KUNIT_ASSERT_EQ(test, ring_write(ring, ring->record, 1224), 0);
	KUNIT_EXPECT_EQ(test, ring_wakeups(ring), 1);
	KUNIT_EXPECT_EQ(test, local_read(&ring->rb->wakeup), 1280);
}

/* A loss while paused wakes the reader as well, but later losses at this head do not. */
static void first_loss_wakes_while_paused(struct kunit *test)
{
	struct ring_test *ring = ring_make(test, 1, PAGE_SIZE - 1, RING_BUFFER_WRITABLE);

	KUNIT_ASSERT_EQ(test, ring_write(ring, ring->record, PAGE_SIZE - 8), 0);
	rb_toggle_paused(ring->rb, true);
	KUNIT_EXPECT_EQ(test, ring_write(ring, ring->record, 64), -ENOSPC);
	KUNIT_EXPECT_EQ(test, ring_wakeups(ring), 1);
	KUNIT_EXPECT_EQ(test, ring_write(ring, ring->record, 64), -ENOSPC);
	rb_toggle_paused(ring->rb, false);
	KUNIT_EXPECT_EQ(test, ring_write(ring, ring->record, 64), -ENOSPC);
	KUNIT_EXPECT_EQ(test, ring_wakeups(ring), 1);
	KUNIT_EXPECT_EQ(test, local_read(&ring->rb->lost), 3);

	/* A reader pauses an overwritten buffer itself, so it needs no wakeup. */
	ring = ring_make(test, 1, 0, 0);
	rb_toggle_paused(ring->rb, true);
	KUNIT_EXPECT_EQ(test, ring_write(ring, ring->record, 64), -ENOSPC);
	KUNIT_EXPECT_EQ(test, ring_wakeups(ring), 0);
}

/* A writer finds all of the buffer free if its size is not computed in full width. */
static void size_of_a_large_buffer_is_that_of_its_pages(struct kunit *test)
{
	struct perf_buffer *rb = kunit_kzalloc(test, sizeof(*rb), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, rb);
	rb->nr_pages = 1 << (31 - PAGE_SHIFT - page_order(rb));
	KUNIT_EXPECT_EQ(test, perf_data_size(rb), 1UL << 31);
	if (BITS_PER_LONG == 64) {
		rb->nr_pages <<= 4;
		KUNIT_EXPECT_EQ(test, (u64)perf_data_size(rb), 1ULL << 35);
	}
}

/* With 32 bits, the size of so many pointers would be that of none. */
static void too_many_pages_are_refused(struct kunit *test)
{
	if (IS_ENABLED(CONFIG_PERF_USE_VMALLOC))
		kunit_skip(test, "the buffer is not made of pages");
	KUNIT_EXPECT_NULL(test, rb_alloc(1 << 30, 0, -1, 0));
}

/* Before the first record, head and wakeup are equal although the reader was never woken. */
static void first_loss_wakes_before_any_record(struct kunit *test)
{
	struct ring_test *ring = ring_make(test, 1, PAGE_SIZE - 1, RING_BUFFER_WRITABLE);

	KUNIT_EXPECT_EQ(test, ring_write(ring, ring->record, PAGE_SIZE), -ENOSPC);
	KUNIT_EXPECT_EQ(test, ring_wakeups(ring), 1);
	KUNIT_EXPECT_EQ(test, ring_write(ring, ring->record, PAGE_SIZE), -ENOSPC);
	KUNIT_EXPECT_EQ(test, ring_wakeups(ring), 1);
}

static void page_of_an_offset_is_the_one_it_names(struct kunit *test)
{
	struct ring_test *ring = ring_make_writable(test, 2);
	struct perf_buffer *rb = ring->rb;
	struct page *user, *data;
	void *aux[2];

	user = perf_mmap_to_page(rb, 0);
	data = perf_mmap_to_page(rb, 2);
	KUNIT_EXPECT_PTR_EQ(test, page_address(user), (void *)rb->user_page);
	KUNIT_EXPECT_NULL(test, perf_mmap_to_page(rb, 3));

	aux[0] = (void *)get_zeroed_page(GFP_KERNEL);
	aux[1] = (void *)get_zeroed_page(GFP_KERNEL);
	rb->aux_pages = aux;
	rb->aux_nr_pages = 2;

	/* aux_nr_pages grows while pages are allocated, before aux_pgoff is set. */
	rb->aux_pgoff = 0;
	KUNIT_EXPECT_PTR_EQ(test, perf_mmap_to_page(rb, 0), user);
	KUNIT_EXPECT_PTR_EQ(test, perf_mmap_to_page(rb, 2), data);
	KUNIT_EXPECT_NULL(test, perf_mmap_to_page(rb, 3));

	rb->aux_pgoff = 8;
	KUNIT_EXPECT_PTR_EQ(test, perf_mmap_to_page(rb, 0), user);
	KUNIT_EXPECT_PTR_EQ(test, perf_mmap_to_page(rb, 2), data);
	KUNIT_EXPECT_NULL(test, perf_mmap_to_page(rb, 3));
	KUNIT_EXPECT_NULL(test, perf_mmap_to_page(rb, 7));
	KUNIT_EXPECT_PTR_EQ(test, perf_mmap_to_page(rb, 8), virt_to_page(aux[0]));
	KUNIT_EXPECT_PTR_EQ(test, perf_mmap_to_page(rb, 9), virt_to_page(aux[1]));
	KUNIT_EXPECT_NULL(test, perf_mmap_to_page(rb, 10));
	KUNIT_EXPECT_NULL(test, perf_mmap_to_page(rb, ULONG_MAX));

	rb->aux_nr_pages = 0;
	free_page((unsigned long)aux[0]);
	free_page((unsigned long)aux[1]);
}

static void count_overflow(struct perf_event *event, struct perf_sample_data *data,
			   struct pt_regs *regs)
{
	unsigned int *overflows = event->overflow_handler_context;

	(*overflows)++;
}

struct timer_run {
	struct hrtimer		*timer;
	enum hrtimer_restart	ret;
};

static void run_timer(void *info)
{
	struct timer_run *run = info;

	run->ret = run->timer->function(run->timer);
}

/* The timer of a clock may expire on a CPU that its task has left. */
static void timer_on_another_cpu_writes_nothing(struct kunit *test)
{
	struct perf_event_attr attr = {
		.type		= PERF_TYPE_SOFTWARE,
		.size		= sizeof(attr),
		.config		= PERF_COUNT_SW_CPU_CLOCK,
		.sample_period	= 3600ULL * NSEC_PER_SEC,
	};
	unsigned int cpu, other, overflows = 0;
	struct perf_event *event;
	struct timer_run run;

	if (num_online_cpus() < 2)
		kunit_skip(test, "needs two CPUs");
	cpus_read_lock();
	cpu = cpumask_first(cpu_online_mask);
	other = cpumask_next(cpu, cpu_online_mask);
	event = perf_event_create_kernel_counter(&attr, cpu, NULL, count_overflow, &overflows);
	if (IS_ERR(event)) {
		cpus_read_unlock();
		KUNIT_FAIL(test, "no clock event: %ld", PTR_ERR(event));
		return;
	}

	run.timer = &event->hw.hrtimer;
	hrtimer_cancel(run.timer);
	KUNIT_EXPECT_EQ(test, event->state, PERF_EVENT_STATE_ACTIVE);
	smp_call_function_single(other, run_timer, &run, true);
	KUNIT_EXPECT_EQ(test, run.ret, HRTIMER_NORESTART);
	KUNIT_EXPECT_EQ(test, overflows, 0);
	smp_call_function_single(cpu, run_timer, &run, true);
	KUNIT_EXPECT_EQ(test, run.ret, HRTIMER_RESTART);
	perf_event_release_kernel(event);
	cpus_read_unlock();
}

static struct kunit_case ring_buffer_cases[] = {
	KUNIT_CASE_SLOW(record_of_every_size_fits_at_every_offset),
	KUNIT_CASE_SLOW(record_stays_within_its_bounds_on_two_pages),
	KUNIT_CASE_SLOW(content_is_whole_across_two_pages),
	KUNIT_CASE(buffer_is_never_filled_to_its_last_byte),
	KUNIT_CASE_PARAM(head_counts_through_a_boundary, boundary_gen_params),
	KUNIT_CASE_PARAM(backward_head_counts_through_a_boundary, boundary_gen_params),
	KUNIT_CASE_PARAM(buffer_across_a_boundary_is_full_when_it_is, boundary_gen_params),
	KUNIT_CASE(loss_is_told_by_the_next_record),
	KUNIT_CASE(loss_is_told_with_the_sample_id),
	KUNIT_CASE(paused_buffer_counts_what_it_drops),
	KUNIT_CASE(buffer_without_pages_takes_nothing),
	KUNIT_CASE(backward_head_decreases),
	KUNIT_CASE(backward_writer_stops_at_the_tail),
	KUNIT_CASE(backward_writer_has_all_but_the_last_byte),
	KUNIT_CASE(nested_records_show_with_the_outermost),
	KUNIT_CASE(sequence_of_nested_records_keeps_its_order),
	KUNIT_CASE_SLOW(nested_writers_lose_and_tear_nothing),
	KUNIT_CASE(hostile_tail_changes_nothing_but_the_room),
	KUNIT_CASE(records_stay_inside_of_the_fence),
	KUNIT_CASE_PARAM(watermark_can_be_reached, watermark_gen_params),
	KUNIT_CASE(wakeup_comes_beyond_the_watermark),
	KUNIT_CASE(nested_writer_wakes_with_the_outermost),
	KUNIT_CASE(wakeup_beyond_the_head_stays_where_it_is),
	KUNIT_CASE(first_loss_wakes),
	KUNIT_CASE(nested_first_loss_wakes_with_the_outermost),
	KUNIT_CASE(first_loss_wakes_while_paused),
	KUNIT_CASE(first_loss_wakes_before_any_record),
	KUNIT_CASE(size_of_a_large_buffer_is_that_of_its_pages),
	KUNIT_CASE(too_many_pages_are_refused),
	KUNIT_CASE(page_of_an_offset_is_the_one_it_names),
	KUNIT_CASE(timer_on_another_cpu_writes_nothing),
	{}
};

static struct kunit_suite ring_buffer_suite = {
	.name		= "perf_ring_buffer",
	.init		= ring_test_init,
	.exit		= ring_test_exit,
	.test_cases	= ring_buffer_cases,
};

kunit_test_suite(ring_buffer_suite);

MODULE_DESCRIPTION("KUnit tests of the perf ring buffer");
MODULE_LICENSE("GPL");
