// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of the AUX area: the transactions of a driver, the records that they leave
 * in the data buffer, and the allocation.
 */

#include <kunit/test.h>
#include <linux/irq_work.h>
#include <linux/mm.h>
#include <linux/perf_event.h>
#include <linux/sched/signal.h>
#include <linux/sizes.h>
#include <linux/slab.h>

#include "../internal.h"

#define EVENT_ID	815
#define DATA_PAGES	1
#define AUX_PAGES	4
#define AUX_SIZE	(AUX_PAGES * PAGE_SIZE)
#define AUX_PGOFF	8

/* Size of a pretended area, which exceeds the range of an int. */
#define FAR_SIZE	(8ULL << 30)
#define FAR_NR_PAGES	((int)(FAR_SIZE >> PAGE_SHIFT))
#define FAR_ORDER	3

struct aux_test {
	struct perf_event		event;
	struct pmu			pmu;
	struct perf_buffer		*rb;
	struct perf_output_handle	handle;
	unsigned int			wakeups;
	unsigned int			disables;
	bool				setup_fails;
	bool				alive;
	u64				read;
	/* Page table of the far area, or NULL, and the pages that it refers to. */
	void				**far;
	void				*far_pages;
};

/* Time of test_clock(); global, because perf_event::clock has no argument. */
static u64 test_time;

static u64 test_clock(void)
{
	return test_time;
}

/* Return the test as the driver's private data, from which test_free_aux() finds it. */
static void *test_setup_aux(struct perf_event *event, void **pages, int nr_pages,
			    bool overwrite)
{
	struct aux_test *aux = container_of(event, struct aux_test, event);

	if (aux->setup_fails)
		return NULL;
	aux->alive = true;
	return aux;
}

static void test_free_aux(void *priv)
{
	struct aux_test *aux = priv;

	aux->alive = false;
}

static void count_wakeup(struct irq_work *work)
{
	struct perf_event *event = container_of(work, struct perf_event, pending_irq);

	container_of(event, struct aux_test, event)->wakeups++;
}

static void count_disable(struct irq_work *work)
{
	struct perf_event *event = container_of(work, struct perf_event, pending_disable_irq);

	container_of(event, struct aux_test, event)->disables++;
}

static int aux_test_init(struct kunit *test)
{
	struct aux_test *aux = kunit_kzalloc(test, sizeof(*aux), GFP_KERNEL);

	if (!aux)
		return -ENOMEM;

	aux->pmu.setup_aux = test_setup_aux;
	aux->pmu.free_aux = test_free_aux;
	aux->event.pmu = &aux->pmu;
	aux->event.id = EVENT_ID;
	aux->event.cpu = -1;
	aux->event.clock = test_clock;
	init_irq_work(&aux->event.pending_irq, count_wakeup);
	init_irq_work(&aux->event.pending_disable_irq, count_disable);
	test_time = 1000;

	aux->rb = rb_alloc(DATA_PAGES, 0, -1, RING_BUFFER_WRITABLE);
	if (!aux->rb)
		return -ENOMEM;
	rcu_assign_pointer(aux->event.rb, aux->rb);
	test->priv = aux;
	return 0;
}

static void settle(struct aux_test *aux)
{
	irq_work_sync(&aux->event.pending_irq);
	irq_work_sync(&aux->event.pending_disable_irq);
}

/* Exchange the tables of the real and the far area, and set the size to @nr_pages. */
static void far_swap(struct aux_test *aux, int nr_pages)
{
	swap(aux->rb->aux_pages, aux->far);
	aux->rb->aux_nr_pages = nr_pages;
}

static void far_free(struct aux_test *aux)
{
	free_pages((unsigned long)aux->far_pages, FAR_ORDER);
	kvfree(aux->far);
}

static void aux_test_exit(struct kunit *test)
{
	struct aux_test *aux = test->priv;

	if (!aux)
		return;
	settle(aux);
	if (aux->rb->aux_nr_pages == FAR_NR_PAGES)
		far_swap(aux, 1);
	far_free(aux);
	RCU_INIT_POINTER(aux->event.rb, NULL);
	if (rb_has_aux(aux->rb))
		rb_free_aux(aux->rb);
	rb_free(aux->rb);
}

static int aux_alloc(struct aux_test *aux, int nr_pages, long watermark, int flags)
{
	int ret;

	ret = rb_alloc_aux(aux->rb, &aux->event, AUX_PGOFF, nr_pages, watermark, flags);
	if (!ret)
		atomic_set(&aux->rb->aux_mmap_count, 1);
	return ret;
}

/* Allocate an area of four pages. */
static struct aux_test *aux_make(struct kunit *test, long watermark, int flags)
{
	struct aux_test *aux = test->priv;

	KUNIT_ASSERT_EQ(test, aux_alloc(aux, AUX_PAGES, watermark, flags), 0);
	return aux;
}

static void *aux_begin(struct aux_test *aux)
{
	return perf_aux_output_begin(&aux->handle, &aux->event);
}

static void aux_end(struct aux_test *aux, unsigned long size)
{
	perf_aux_output_end(&aux->handle, size);
}

static u64 aux_head(struct aux_test *aux)
{
	return READ_ONCE(aux->rb->user_page->aux_head);
}

static void aux_set_tail(struct aux_test *aux, u64 tail)
{
	WRITE_ONCE(aux->rb->user_page->aux_tail, tail);
}

/* Return the payload of the next record if it has @type and @size, otherwise NULL. */
static const u64 *next_record(struct aux_test *aux, u32 type, u16 size)
{
	const struct perf_event_header *header;

	if (aux->read == READ_ONCE(aux->rb->user_page->data_head))
		return NULL;
	header = aux->rb->data_pages[0] + aux->read;
	if (header->type != type || header->size != size)
		return NULL;
	aux->read += size;
	WRITE_ONCE(aux->rb->user_page->data_tail, aux->read);
	return (const u64 *)(header + 1);
}

static void expect_no_record(struct kunit *test, struct aux_test *aux)
{
	KUNIT_EXPECT_EQ(test, READ_ONCE(aux->rb->user_page->data_head), aux->read);
}

static void expect_aux_record(struct kunit *test, struct aux_test *aux, u64 offset,
			      u64 size, u64 flags)
{
	const u64 *record = next_record(aux, PERF_RECORD_AUX, 32);

	KUNIT_ASSERT_NOT_NULL(test, record);
	KUNIT_EXPECT_EQ(test, record[0], offset);
	KUNIT_EXPECT_EQ(test, record[1], size);
	KUNIT_EXPECT_EQ(test, record[2], flags);
}

static void begin_needs_an_area_that_is_mapped(struct kunit *test)
{
	struct aux_test *aux = test->priv;

	KUNIT_EXPECT_NULL(test, aux_begin(aux));
	KUNIT_EXPECT_NULL(test, perf_get_aux(&aux->handle));
	aux_make(test, 0, RING_BUFFER_WRITABLE);
	atomic_set(&aux->rb->aux_mmap_count, 0);
	KUNIT_EXPECT_NULL(test, aux_begin(aux));
	atomic_set(&aux->rb->aux_mmap_count, 1);
	KUNIT_EXPECT_PTR_EQ(test, aux_begin(aux), (void *)aux);
	KUNIT_EXPECT_PTR_EQ(test, perf_get_aux(&aux->handle), (void *)aux);
	aux_end(aux, 0);
	KUNIT_EXPECT_EQ(test, refcount_read(&aux->rb->refcount), 1);
	KUNIT_EXPECT_EQ(test, refcount_read(&aux->rb->aux_refcount), 1);
}

static void begin_grants_the_room_up_to_the_tail(struct kunit *test)
{
	struct aux_test *aux = aux_make(test, 0, RING_BUFFER_WRITABLE);

	KUNIT_ASSERT_NOT_NULL(test, aux_begin(aux));
	KUNIT_EXPECT_EQ(test, aux->handle.head, 0);
	KUNIT_EXPECT_EQ(test, aux->handle.size, AUX_SIZE - 1);
	aux_end(aux, 3 * PAGE_SIZE);
	KUNIT_EXPECT_EQ(test, aux_head(aux), 3 * PAGE_SIZE);

	KUNIT_ASSERT_NOT_NULL(test, aux_begin(aux));
	KUNIT_EXPECT_EQ(test, aux->handle.head, 3 * PAGE_SIZE);
	KUNIT_EXPECT_EQ(test, aux->handle.size, PAGE_SIZE - 1);
	aux_end(aux, 0);

	aux_set_tail(aux, 2 * PAGE_SIZE);
	KUNIT_ASSERT_NOT_NULL(test, aux_begin(aux));
	KUNIT_EXPECT_EQ(test, aux->handle.size, 3 * PAGE_SIZE - 1);
	aux_end(aux, 0);
}

/* A reader may write any tail. Valid ones are less than an area behind the head. */
static void tail_beyond_the_area_grants_nothing(struct kunit *test)
{
	struct aux_test *aux = aux_make(test, 0, RING_BUFFER_WRITABLE);
	/*
	 * Invalid tails while the head is 0: in front of it, and a whole area or more
	 * behind it.
	 */
	static const unsigned long tails[] = {
		1, 2, AUX_SIZE / 2, AUX_SIZE, 100 * AUX_SIZE, LONG_MAX,
		LONG_MIN, -100 * AUX_SIZE, -AUX_SIZE - 1, -AUX_SIZE,
	};
	int i;

	for (i = 0; i < ARRAY_SIZE(tails); i++) {
		aux_set_tail(aux, tails[i]);
		KUNIT_ASSERT_NULL_MSG(test, aux_begin(aux), "tail %#lx", tails[i]);
		settle(aux);
		KUNIT_EXPECT_EQ(test, aux->disables, i + 1);
		aux->event.pending_disable = 0;
	}
	KUNIT_EXPECT_EQ(test, aux_head(aux), 0);
}

/* A tail behind the head means that the bytes from it to the head are not yet read. */
static void tail_behind_the_head_grants_the_rest(struct kunit *test)
{
	struct aux_test *aux = aux_make(test, 0, RING_BUFFER_WRITABLE);
	static const unsigned long unread[] = { 0, 1, 8, AUX_SIZE / 2, AUX_SIZE - 2 };
	int i;

	for (i = 0; i < ARRAY_SIZE(unread); i++) {
		aux_set_tail(aux, -unread[i]);
		KUNIT_ASSERT_NOT_NULL(test, aux_begin(aux));
		KUNIT_EXPECT_EQ(test, aux->handle.size, AUX_SIZE - 1 - unread[i]);
		aux_end(aux, 0);
	}
	/* One byte always stays free, so this tail leaves no room. */
	aux_set_tail(aux, -(AUX_SIZE - 1));
	KUNIT_EXPECT_NULL(test, aux_begin(aux));
}

static void end_writes_a_record(struct kunit *test)
{
	struct aux_test *aux = aux_make(test, 0, RING_BUFFER_WRITABLE);

	KUNIT_ASSERT_NOT_NULL(test, aux_begin(aux));
	aux_end(aux, 100);
	expect_aux_record(test, aux, 0, 100, 0);
	KUNIT_ASSERT_NOT_NULL(test, aux_begin(aux));
	perf_aux_output_flag(&aux->handle, PERF_AUX_FLAG_PARTIAL);
	perf_aux_output_flag(&aux->handle, PERF_AUX_FLAG_COLLISION);
	aux_end(aux, 28);
	expect_aux_record(test, aux, 100, 28, PERF_AUX_FLAG_PARTIAL | PERF_AUX_FLAG_COLLISION);
	KUNIT_EXPECT_EQ(test, aux_head(aux), 128);
	expect_no_record(test, aux);
}

static void flags_do_not_outlive_the_transaction(struct kunit *test)
{
	struct aux_test *aux = aux_make(test, 0, RING_BUFFER_WRITABLE);

	KUNIT_ASSERT_NOT_NULL(test, aux_begin(aux));
	perf_aux_output_flag(&aux->handle, PERF_AUX_FLAG_PARTIAL);
	aux_end(aux, 8);
	expect_aux_record(test, aux, 0, 8, PERF_AUX_FLAG_PARTIAL);
	KUNIT_ASSERT_NOT_NULL(test, aux_begin(aux));
	aux_end(aux, 8);
	expect_aux_record(test, aux, 8, 8, 0);
}

static void empty_transaction_is_silent(struct kunit *test)
{
	struct aux_test *aux = aux_make(test, 0, RING_BUFFER_WRITABLE);

	KUNIT_ASSERT_NOT_NULL(test, aux_begin(aux));
	aux_end(aux, 0);
	expect_no_record(test, aux);
	/* A format flag without data makes no record. */
	KUNIT_ASSERT_NOT_NULL(test, aux_begin(aux));
	perf_aux_output_flag(&aux->handle, PERF_AUX_FLAG_CORESIGHT_FORMAT_RAW);
	aux_end(aux, 0);
	expect_no_record(test, aux);
	KUNIT_ASSERT_NOT_NULL(test, aux_begin(aux));
	perf_aux_output_flag(&aux->handle, PERF_AUX_FLAG_PARTIAL);
	aux_end(aux, 0);
	expect_aux_record(test, aux, 0, 0, PERF_AUX_FLAG_PARTIAL);
}

static void truncated_end_disables_the_event(struct kunit *test)
{
	struct aux_test *aux = aux_make(test, 0, RING_BUFFER_WRITABLE);

	KUNIT_ASSERT_NOT_NULL(test, aux_begin(aux));
	perf_aux_output_flag(&aux->handle, PERF_AUX_FLAG_TRUNCATED);
	aux_end(aux, 8);
	settle(aux);
	KUNIT_EXPECT_EQ(test, aux->disables, 1);
	KUNIT_EXPECT_EQ(test, aux->wakeups, 1);
	KUNIT_EXPECT_EQ(test, aux->event.pending_disable, 1);
	expect_aux_record(test, aux, 0, 8, PERF_AUX_FLAG_TRUNCATED);
}

static void begin_without_room_disables_the_event(struct kunit *test)
{
	struct aux_test *aux = aux_make(test, 0, RING_BUFFER_WRITABLE);

	KUNIT_ASSERT_NOT_NULL(test, aux_begin(aux));
	aux_end(aux, AUX_SIZE - 1);
	settle(aux);
	KUNIT_EXPECT_EQ(test, aux->disables, 0);
	aux->wakeups = 0;

	KUNIT_EXPECT_NULL(test, aux_begin(aux));
	settle(aux);
	KUNIT_EXPECT_EQ(test, aux->disables, 1);
	KUNIT_EXPECT_EQ(test, aux->wakeups, 1);
	KUNIT_EXPECT_EQ(test, aux->event.pending_disable, 1);
	KUNIT_EXPECT_EQ(test, aux->rb->aux_nest, 0);
	KUNIT_EXPECT_EQ(test, refcount_read(&aux->rb->aux_refcount), 1);

	aux->event.pending_disable = 0;
	aux_set_tail(aux, PAGE_SIZE);
	KUNIT_ASSERT_NOT_NULL(test, aux_begin(aux));
	KUNIT_EXPECT_EQ(test, aux->handle.size, PAGE_SIZE);
	aux_end(aux, 0);
}

static void wakeup_comes_at_the_watermark(struct kunit *test)
{
	struct aux_test *aux = aux_make(test, PAGE_SIZE, RING_BUFFER_WRITABLE);

	KUNIT_ASSERT_NOT_NULL(test, aux_begin(aux));
	KUNIT_EXPECT_EQ(test, aux->handle.wakeup, PAGE_SIZE);
	aux_end(aux, PAGE_SIZE - 8);
	settle(aux);
	KUNIT_EXPECT_EQ(test, aux->wakeups, 0);
	KUNIT_ASSERT_NOT_NULL(test, aux_begin(aux));
	aux_end(aux, 8);
	settle(aux);
	KUNIT_EXPECT_EQ(test, aux->wakeups, 1);
	KUNIT_ASSERT_NOT_NULL(test, aux_begin(aux));
	KUNIT_EXPECT_EQ(test, aux->handle.wakeup, 2 * PAGE_SIZE);
	aux_end(aux, 0);
}

static void default_watermark_is_half_of_the_area(struct kunit *test)
{
	struct aux_test *aux = aux_make(test, 0, RING_BUFFER_WRITABLE);

	KUNIT_EXPECT_EQ(test, aux->rb->aux_watermark, AUX_SIZE / 2);
}

static void skip_moves_the_head_without_a_record(struct kunit *test)
{
	struct aux_test *aux = aux_make(test, PAGE_SIZE, RING_BUFFER_WRITABLE);

	KUNIT_ASSERT_NOT_NULL(test, aux_begin(aux));
	KUNIT_EXPECT_EQ(test, perf_aux_output_skip(&aux->handle, AUX_SIZE), -ENOSPC);
	KUNIT_EXPECT_EQ(test, perf_aux_output_skip(&aux->handle, 64), 0);
	KUNIT_EXPECT_EQ(test, aux->handle.head, 64);
	KUNIT_EXPECT_EQ(test, aux->handle.size, AUX_SIZE - 1 - 64);
	KUNIT_EXPECT_EQ(test, aux_head(aux), 64);
	KUNIT_EXPECT_EQ(test, perf_aux_output_skip(&aux->handle, PAGE_SIZE), 0);
	settle(aux);
	KUNIT_EXPECT_EQ(test, aux->wakeups, 1);
	KUNIT_EXPECT_EQ(test, aux->handle.wakeup, 2 * PAGE_SIZE);
	aux_end(aux, 8);
	expect_aux_record(test, aux, PAGE_SIZE + 64, 8, 0);
}

static void overwritten_area_takes_the_drivers_head(struct kunit *test)
{
	struct aux_test *aux = aux_make(test, 0, 0);

	KUNIT_ASSERT_NOT_NULL(test, aux_begin(aux));
	KUNIT_EXPECT_EQ(test, aux->handle.size, 0);
	aux->handle.head = 10 * AUX_SIZE + 24;
	aux_end(aux, 0);
	KUNIT_EXPECT_EQ(test, aux_head(aux), 10 * AUX_SIZE + 24);
	expect_no_record(test, aux);
	settle(aux);
	KUNIT_EXPECT_EQ(test, aux->wakeups, 0);

	KUNIT_ASSERT_NOT_NULL(test, aux_begin(aux));
	KUNIT_EXPECT_EQ(test, aux->handle.head, 10 * AUX_SIZE + 24);
	aux->handle.head = 16;
	aux_end(aux, AUX_SIZE);
	expect_aux_record(test, aux, 16, AUX_SIZE, PERF_AUX_FLAG_OVERWRITE);
}

/* Do one transaction whose driver reports its head as an offset. Return aux_written. */
static u64 written_at(struct kunit *test, struct aux_test *aux, unsigned long offset)
{
	KUNIT_ASSERT_NOT_NULL(test, aux_begin(aux));
	aux->handle.head = offset;
	aux_end(aux, 0);
	return aux->rb->aux_written;
}

static void offsets_are_added_up(struct kunit *test)
{
	struct aux_test *aux = aux_make(test, 0, 0);

	if (!IS_ENABLED(CONFIG_PERF_AUX_SNAPSHOT))
		kunit_skip(test, "needs CONFIG_PERF_AUX_SNAPSHOT");

	KUNIT_EXPECT_EQ(test, written_at(test, aux, AUX_SIZE - 64), AUX_SIZE - 64);
	KUNIT_EXPECT_EQ(test, written_at(test, aux, AUX_SIZE - 64), AUX_SIZE - 64);
	KUNIT_EXPECT_EQ(test, written_at(test, aux, 16), AUX_SIZE + 16);
	KUNIT_EXPECT_EQ(test, written_at(test, aux, 24), AUX_SIZE + 24);
	KUNIT_EXPECT_EQ(test, written_at(test, aux, 0), 2 * AUX_SIZE);
	/* A head that is larger than the area is a count and grows by the difference. */
	KUNIT_EXPECT_EQ(test, written_at(test, aux, 3 * AUX_SIZE), 5 * AUX_SIZE);
}

/* A new area of a buffer begins at the aux_head that the previous area has left. */
static void offsets_begin_where_the_head_was(struct kunit *test)
{
	struct aux_test *aux = aux_make(test, 0, 0);

	if (!IS_ENABLED(CONFIG_PERF_AUX_SNAPSHOT))
		kunit_skip(test, "needs CONFIG_PERF_AUX_SNAPSHOT");

	aux->rb->aux_head = 3 * AUX_SIZE - 64;
	perf_aux_mark_origin(aux->rb);
	KUNIT_EXPECT_EQ(test, written_at(test, aux, 64), 128);
	KUNIT_EXPECT_EQ(test, written_at(test, aux, AUX_SIZE - 72), AUX_SIZE - 8);
	KUNIT_EXPECT_EQ(test, written_at(test, aux, AUX_SIZE - 64), AUX_SIZE);
}

static void other_pmus_get_no_handle(struct kunit *test)
{
	struct aux_test *aux = aux_make(test, 0, RING_BUFFER_WRITABLE);
	struct pmu other = aux->pmu;

	aux->event.pmu = &other;
	KUNIT_EXPECT_NULL(test, aux_begin(aux));
	aux->event.pmu = &aux->pmu;
	KUNIT_EXPECT_EQ(test, refcount_read(&aux->rb->aux_refcount), 1);
	KUNIT_ASSERT_NOT_NULL(test, aux_begin(aux));
	aux_end(aux, 8);
	expect_aux_record(test, aux, 0, 8, 0);
}

static void copy_follows_the_wrap(struct kunit *test)
{
	struct aux_test *aux = aux_make(test, 0, RING_BUFFER_WRITABLE);
	struct perf_output_handle to;
	struct perf_sample_data data;
	unsigned long from = 9 * AUX_SIZE - 16;
	u64 *words;

	*(u64 *)(aux->rb->aux_pages[AUX_PAGES - 1] + PAGE_SIZE - 16) = 1;
	*(u64 *)(aux->rb->aux_pages[AUX_PAGES - 1] + PAGE_SIZE - 8) = 2;
	*(u64 *)aux->rb->aux_pages[0] = 3;
	KUNIT_ASSERT_NOT_NULL(test, aux_begin(aux));
	KUNIT_ASSERT_EQ(test, perf_output_begin(&to, &data, &aux->event, 24), 0);
	KUNIT_EXPECT_EQ(test, perf_output_copy_aux(&aux->handle, &to, from, from + 24), 24);
	perf_output_end(&to);
	aux_end(aux, 0);
	words = aux->rb->data_pages[0];
	KUNIT_EXPECT_EQ(test, words[0], 1);
	KUNIT_EXPECT_EQ(test, words[1], 2);
	KUNIT_EXPECT_EQ(test, words[2], 3);
}

/* perf_aux_size() must not overflow an int. */
static void size_of_a_large_area_is_no_int(struct kunit *test)
{
	struct aux_test *aux = test->priv;

	aux->rb->aux_nr_pages = 1 << (32 - PAGE_SHIFT);
	KUNIT_EXPECT_EQ(test, (u64)perf_aux_size(aux->rb), 1ULL << 32);
	aux->rb->aux_nr_pages = 0;
}

/* Offsets with a distinct page on each side; all other entries refer to one page. */
static const u64 far_borders[] = { 2ULL << 30, 4ULL << 30, FAR_SIZE };

static void far_fill(struct aux_test *aux)
{
	void *page = aux->far_pages, **first, **second;
	int i;

	for (i = 0; i < FAR_NR_PAGES; i++)
		aux->far[i] = page;
	for (i = 0; i < ARRAY_SIZE(far_borders); i++) {
		first = &aux->far[(far_borders[i] >> PAGE_SHIFT) - 1];
		second = &aux->far[(far_borders[i] >> PAGE_SHIFT) & (FAR_NR_PAGES - 1)];
		*first = page + (2 * i + 1) * PAGE_SIZE;
		*second = page + (2 * i + 2) * PAGE_SIZE;
		*(u64 *)(*first + PAGE_SIZE - 8) = 100 + i;
		*(u64 *)*second = 200 + i;
	}
}

static struct aux_test *far_make(struct kunit *test)
{
	struct aux_test *aux = test->priv;

	if (!IS_ENABLED(CONFIG_64BIT))
		kunit_skip(test, "no such area fits");
	aux->far = kvcalloc(FAR_NR_PAGES, sizeof(*aux->far), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, aux->far);
	aux->far_pages = (void *)__get_free_pages(GFP_KERNEL | __GFP_ZERO, FAR_ORDER);
	KUNIT_ASSERT_NOT_NULL(test, aux->far_pages);
	far_fill(aux);
	KUNIT_ASSERT_EQ(test, aux_alloc(aux, 1, 0, RING_BUFFER_WRITABLE), 0);
	far_swap(aux, FAR_NR_PAGES);
	return aux;
}

static void copy_crosses_what_an_int_can_tell(struct kunit *test)
{
	struct aux_test *aux = far_make(test);
	struct perf_output_handle to;
	struct perf_sample_data data;
	u64 *words, at;
	int i;

	KUNIT_ASSERT_NOT_NULL(test, aux_begin(aux));
	for (i = 0; i < ARRAY_SIZE(far_borders); i++) {
		at = far_borders[i];
		KUNIT_ASSERT_EQ(test, perf_output_begin(&to, &data, &aux->event, 16), 0);
		KUNIT_EXPECT_EQ(test, perf_output_copy_aux(&aux->handle, &to, at - 8, at + 8), 16);
		perf_output_end(&to);
		words = aux->rb->data_pages[0] + 16 * i;
		KUNIT_EXPECT_EQ(test, words[0], 100 + i);
		KUNIT_EXPECT_EQ(test, words[1], 200 + i);
	}
	aux_end(aux, 0);
}

static void stream_crosses_what_an_int_can_tell(struct kunit *test)
{
	struct aux_test *aux = far_make(test);
	const u64 gb = 1 << 30;

	KUNIT_ASSERT_NOT_NULL(test, aux_begin(aux));
	KUNIT_EXPECT_EQ(test, (u64)aux->handle.size, 8 * gb - 1);
	aux_end(aux, 5 * gb);
	expect_aux_record(test, aux, 0, 5 * gb, 0);
	KUNIT_EXPECT_EQ(test, aux_head(aux), 5 * gb);
	KUNIT_ASSERT_NOT_NULL(test, aux_begin(aux));
	KUNIT_EXPECT_EQ(test, (u64)aux->handle.size, 3 * gb - 1);
	aux_end(aux, 0);

	aux_set_tail(aux, 4 * gb);
	KUNIT_ASSERT_NOT_NULL(test, aux_begin(aux));
	KUNIT_EXPECT_EQ(test, (u64)aux->handle.size, 7 * gb - 1);
	aux_end(aux, 6 * gb);
	expect_aux_record(test, aux, 5 * gb, 6 * gb, 0);
	KUNIT_EXPECT_EQ(test, aux_head(aux), 11 * gb);
}

static void area_without_scatter_gather_is_one_chunk(struct kunit *test)
{
	struct aux_test *aux = test->priv;
	int i, ret;

	aux->pmu.capabilities = PERF_PMU_CAP_AUX_NO_SG;
	ret = aux_alloc(aux, 8, 0, 0);
	if (ret == -ENOMEM)
		kunit_skip(test, "no eight pages in a row");
	KUNIT_ASSERT_EQ(test, ret, 0);
	KUNIT_EXPECT_EQ(test, page_private(virt_to_page(aux->rb->aux_pages[0])), 3);
	for (i = 1; i < 8; i++)
		KUNIT_EXPECT_PTR_EQ(test, aux->rb->aux_pages[i],
				    aux->rb->aux_pages[0] + i * PAGE_SIZE);
}

/* No chunk is larger than MAX_PAGE_ORDER, however much memory is free. */
static void area_that_cannot_be_one_chunk_is_refused(struct kunit *test)
{
	struct aux_test *aux = test->priv;

	aux->pmu.capabilities = PERF_PMU_CAP_AUX_NO_SG;
	KUNIT_EXPECT_EQ(test, aux_alloc(aux, 2 << MAX_PAGE_ORDER, 0, 0), -ENOMEM);
	KUNIT_EXPECT_FALSE(test, aux->alive);
	KUNIT_EXPECT_FALSE(test, rb_has_aux(aux->rb));
	KUNIT_EXPECT_NULL(test, aux->rb->aux_pages);
	KUNIT_EXPECT_EQ(test, aux->rb->aux_pgoff, 0);
	KUNIT_EXPECT_NULL(test, aux_begin(aux));

	/* A writable area may have several chunks, and a single page is one chunk. */
	KUNIT_EXPECT_EQ(test, aux_alloc(aux, 2 << MAX_PAGE_ORDER, 0, RING_BUFFER_WRITABLE), 0);
	KUNIT_EXPECT_TRUE(test, aux->alive);
	rb_free_aux(aux->rb);
	KUNIT_EXPECT_EQ(test, aux_alloc(aux, 1, 0, 0), 0);
}

static void large_chunks_follow_the_watermark(struct kunit *test)
{
	struct aux_test *aux = test->priv;
	void **pages, *pair;
	int i;

	aux->pmu.capabilities = PERF_PMU_CAP_AUX_PREFER_LARGE;
	KUNIT_ASSERT_EQ(test, aux_alloc(aux, 8, 2 * PAGE_SIZE, RING_BUFFER_WRITABLE), 0);
	pages = aux->rb->aux_pages;
	for (i = 0; i < 8; i += 2) {
		/* Single pages are correct if no pairs are free. */
		pair = (void *)__get_free_pages(GFP_KERNEL | __GFP_NORETRY | __GFP_NOWARN, 1);
		if (!pair)
			kunit_skip(test, "no two pages in a row");
		free_pages((unsigned long)pair, 1);
		KUNIT_EXPECT_EQ(test, page_private(virt_to_page(pages[i])), 1);
		KUNIT_EXPECT_PTR_EQ(test, pages[i + 1], pages[i] + PAGE_SIZE);
	}
}

static void chunks_are_pages_unless_asked_for(struct kunit *test)
{
	struct aux_test *aux = test->priv;
	int i;

	KUNIT_ASSERT_EQ(test, aux_alloc(aux, 8, 2 * PAGE_SIZE, RING_BUFFER_WRITABLE), 0);
	for (i = 0; i < 8; i++)
		KUNIT_EXPECT_EQ(test, page_private(virt_to_page(aux->rb->aux_pages[i])), 0);
}

static void failed_setup_leaves_nothing(struct kunit *test)
{
	struct aux_test *aux = test->priv;

	aux->setup_fails = true;
	KUNIT_EXPECT_EQ(test, aux_alloc(aux, AUX_PAGES, 0, 0), -ENOMEM);
	KUNIT_EXPECT_FALSE(test, rb_has_aux(aux->rb));
	KUNIT_EXPECT_NULL(test, aux->rb->aux_pages);
	KUNIT_EXPECT_NULL(test, aux_begin(aux));
	aux->setup_fails = false;
	KUNIT_EXPECT_EQ(test, aux_alloc(aux, AUX_PAGES, 0, 0), 0);
	KUNIT_EXPECT_TRUE(test, aux->alive);
}

/* Allocate while a SIGKILL is pending for this thread. */
static int aux_alloc_killed(struct aux_test *aux, int nr_pages)
{
	struct sighand_struct *sighand = rcu_dereference_raw(current->sighand);
	int ret;

	spin_lock_irq(&sighand->siglock);
	sigaddset(&current->pending.signal, SIGKILL);
	set_tsk_thread_flag(current, TIF_SIGPENDING);
	spin_unlock_irq(&sighand->siglock);
	ret = aux_alloc(aux, nr_pages, 0, 0);
	spin_lock_irq(&sighand->siglock);
	sigdelset(&current->pending.signal, SIGKILL);
	recalc_sigpending();
	spin_unlock_irq(&sighand->siglock);
	return ret;
}

static void fatal_signal_ends_the_allocation(struct kunit *test)
{
	struct aux_test *aux = test->priv;

	KUNIT_EXPECT_EQ(test, aux_alloc_killed(aux, AUX_PAGES), -EINTR);
	KUNIT_EXPECT_FALSE(test, aux->alive);
	KUNIT_EXPECT_FALSE(test, rb_has_aux(aux->rb));
	KUNIT_EXPECT_NULL(test, aux->rb->aux_pages);
	KUNIT_EXPECT_EQ(test, aux_alloc(aux, AUX_PAGES, 0, 0), 0);
}

static void last_reference_frees_the_area(struct kunit *test)
{
	struct aux_test *aux = aux_make(test, 0, 0);

	/* The transaction holds the second reference. */
	KUNIT_ASSERT_NOT_NULL(test, aux_begin(aux));
	rb_free_aux(aux->rb);
	KUNIT_ASSERT_TRUE(test, aux->alive);
	KUNIT_ASSERT_TRUE(test, rb_has_aux(aux->rb));
	aux_end(aux, 0);
	KUNIT_EXPECT_FALSE(test, aux->alive);
	KUNIT_EXPECT_FALSE(test, rb_has_aux(aux->rb));
}

static void area_beyond_the_memory_is_refused(struct kunit *test)
{
	struct aux_test *aux = test->priv;

	KUNIT_EXPECT_EQ(test, aux_alloc(aux, 1 << 30, 0, 0), -ENOMEM);
	aux->pmu.capabilities = PERF_PMU_CAP_AUX_LARGE;
	KUNIT_EXPECT_EQ(test, aux_alloc(aux, 1 << 30, 0, 0), -ENOMEM);
	KUNIT_EXPECT_EQ(test, aux_alloc(aux, 0, 0, 0), -EINVAL);
	KUNIT_EXPECT_EQ(test, aux_alloc(aux, -1, 0, 0), -EINVAL);
	aux->pmu.setup_aux = NULL;
	KUNIT_EXPECT_EQ(test, aux_alloc(aux, 4, 0, 0), -EOPNOTSUPP);
}

/*
 * An allowed area reaches the allocation and fails there, because a signal is pending;
 * a rejected area fails earlier. totalram_pages_add() makes a small machine look large
 * enough.
 */
static void large_area_is_for_drivers_that_ask_for_it(struct kunit *test)
{
	const int limit = (PAGE_SIZE << MAX_PAGE_ORDER) / sizeof(void *);
	struct aux_test *aux = test->priv;
	int fits, exceeds, large;

	if (limit > SZ_64M / sizeof(void *))
		kunit_skip(test, "a table of that size takes all memory");
	totalram_pages_add(limit + 1);
	fits = aux_alloc_killed(aux, limit);
	exceeds = aux_alloc_killed(aux, limit + 1);
	aux->pmu.capabilities = PERF_PMU_CAP_AUX_LARGE;
	large = aux_alloc_killed(aux, limit + 1);
	totalram_pages_add(-(limit + 1));

	KUNIT_EXPECT_EQ(test, fits, -EINTR);
	KUNIT_EXPECT_EQ(test, exceeds, -ENOMEM);
	KUNIT_EXPECT_EQ(test, large, -EINTR);
	KUNIT_EXPECT_FALSE(test, aux->alive);
	KUNIT_EXPECT_NULL(test, aux->rb->aux_pages);
}

/* Fill the area, then try @times transactions, which must find no room. */
static void run_full(struct kunit *test, struct aux_test *aux, int times)
{
	KUNIT_ASSERT_NOT_NULL(test, aux_begin(aux));
	aux_end(aux, aux->handle.size);
	KUNIT_ASSERT_NOT_NULL(test, next_record(aux, PERF_RECORD_AUX, 32));
	while (times--) {
		KUNIT_ASSERT_NULL(test, aux_begin(aux));
		settle(aux);
		KUNIT_EXPECT_EQ(test, aux->event.pending_disable, 1);
		/* Do what the irq_work of a real event does. */
		aux->event.pending_disable = 0;
		test_time += 100;
	}
}

static void ask_for_gaps(struct kunit *test, struct aux_test *aux)
{
	if (!IS_ENABLED(CONFIG_PERF_AUX_LOST))
		kunit_skip(test, "needs CONFIG_PERF_AUX_LOST");
	aux->event.attr.aux_lost = 1;
}

static void stop_is_told_when_it_goes_on(struct kunit *test)
{
	struct aux_test *aux = aux_make(test, 0, RING_BUFFER_WRITABLE);
	const u64 *record;

	ask_for_gaps(test, aux);
	run_full(test, aux, 3);
	expect_no_record(test, aux);
	aux_set_tail(aux, AUX_SIZE - 1);
	KUNIT_ASSERT_NOT_NULL(test, aux_begin(aux));
	record = next_record(aux, PERF_RECORD_AUX_LOST, 48);
	KUNIT_ASSERT_NOT_NULL(test, record);
	KUNIT_EXPECT_EQ(test, record[0], EVENT_ID);
	KUNIT_EXPECT_EQ(test, record[1], AUX_SIZE - 1);
	KUNIT_EXPECT_EQ(test, record[2], 1000);
	KUNIT_EXPECT_EQ(test, record[3], 1300);
	KUNIT_EXPECT_EQ(test, record[4], 3);
	aux_end(aux, 0);
	KUNIT_ASSERT_NOT_NULL(test, aux_begin(aux));
	aux_end(aux, 0);
	expect_no_record(test, aux);
}

/*
 * PERF_EVENT_IOC_SET_OUTPUT lets events share an area. The record must name the event
 * that stopped, because the reader has to enable that event again.
 */
static void stop_is_told_of_the_event_that_stopped(struct kunit *test)
{
	struct aux_test *aux = aux_make(test, 0, RING_BUFFER_WRITABLE);
	const u64 *record;

	ask_for_gaps(test, aux);
	run_full(test, aux, 1);
	aux_set_tail(aux, AUX_SIZE - 1);
	aux->event.id = EVENT_ID + 1;
	KUNIT_ASSERT_NOT_NULL(test, aux_begin(aux));
	aux->event.id = EVENT_ID;
	record = next_record(aux, PERF_RECORD_AUX_LOST, 48);
	KUNIT_ASSERT_NOT_NULL(test, record);
	KUNIT_EXPECT_EQ(test, record[0], EVENT_ID);
	aux_end(aux, 0);
}

static void stop_is_not_told_unless_asked_for(struct kunit *test)
{
	struct aux_test *aux = aux_make(test, 0, RING_BUFFER_WRITABLE);

	run_full(test, aux, 1);
	aux_set_tail(aux, AUX_SIZE - 1);
	KUNIT_ASSERT_NOT_NULL(test, aux_begin(aux));
	aux_end(aux, 0);
	expect_no_record(test, aux);
}

/* A driver may begin anew in the interrupt that truncated, before it is disabled. */
static void start_before_the_disabling_is_none(struct kunit *test)
{
	struct aux_test *aux = aux_make(test, 0, RING_BUFFER_WRITABLE);
	const u64 *record;

	ask_for_gaps(test, aux);
	KUNIT_ASSERT_NOT_NULL(test, aux_begin(aux));
	perf_aux_output_flag(&aux->handle, PERF_AUX_FLAG_TRUNCATED);
	aux_end(aux, 64);
	expect_aux_record(test, aux, 0, 64, PERF_AUX_FLAG_TRUNCATED);
	test_time += 10;
	KUNIT_ASSERT_NOT_NULL(test, aux_begin(aux));
	aux_end(aux, 0);
	expect_no_record(test, aux);

	settle(aux);
	aux->event.pending_disable = 0;
	test_time += 990;
	KUNIT_ASSERT_NOT_NULL(test, aux_begin(aux));
	aux_end(aux, 0);
	record = next_record(aux, PERF_RECORD_AUX_LOST, 48);
	KUNIT_ASSERT_NOT_NULL(test, record);
	KUNIT_EXPECT_EQ(test, record[1], 64);
	KUNIT_EXPECT_EQ(test, record[3] - record[2], 1000);
	KUNIT_EXPECT_EQ(test, record[4], 1);
}

/* A transaction that finds no room while a stop is pending is not a second stop. */
static void stop_is_counted_once(struct kunit *test)
{
	struct aux_test *aux = aux_make(test, 0, RING_BUFFER_WRITABLE);
	const u64 *record;

	ask_for_gaps(test, aux);
	KUNIT_ASSERT_NOT_NULL(test, aux_begin(aux));
	perf_aux_output_flag(&aux->handle, PERF_AUX_FLAG_TRUNCATED);
	aux_end(aux, aux->handle.size);
	KUNIT_ASSERT_NOT_NULL(test, next_record(aux, PERF_RECORD_AUX, 32));
	test_time += 10;
	KUNIT_ASSERT_NULL(test, aux_begin(aux));
	settle(aux);
	aux->event.pending_disable = 0;
	aux_set_tail(aux, AUX_SIZE - 1);
	test_time += 990;
	KUNIT_ASSERT_NOT_NULL(test, aux_begin(aux));
	aux_end(aux, 0);
	record = next_record(aux, PERF_RECORD_AUX_LOST, 48);
	KUNIT_ASSERT_NOT_NULL(test, record);
	KUNIT_EXPECT_EQ(test, record[3] - record[2], 1000);
	KUNIT_EXPECT_EQ(test, record[4], 1);
}

/* The event finds no room while it is about to be disabled for another reason. */
static void stop_beside_another_disabling_is_counted(struct kunit *test)
{
	struct aux_test *aux = aux_make(test, 0, RING_BUFFER_WRITABLE);
	const u64 *record;

	ask_for_gaps(test, aux);
	KUNIT_ASSERT_NOT_NULL(test, aux_begin(aux));
	aux_end(aux, aux->handle.size);
	KUNIT_ASSERT_NOT_NULL(test, next_record(aux, PERF_RECORD_AUX, 32));
	aux->event.pending_disable = 1;
	KUNIT_ASSERT_NULL(test, aux_begin(aux));
	settle(aux);
	aux->event.pending_disable = 0;
	aux_set_tail(aux, AUX_SIZE - 1);
	KUNIT_ASSERT_NOT_NULL(test, aux_begin(aux));
	aux_end(aux, 0);
	record = next_record(aux, PERF_RECORD_AUX_LOST, 48);
	KUNIT_ASSERT_NOT_NULL(test, record);
	KUNIT_EXPECT_EQ(test, record[4], 1);
}

static void stop_that_finds_no_room_is_told_later(struct kunit *test)
{
	struct aux_test *aux = aux_make(test, 0, RING_BUFFER_WRITABLE);
	const u64 *record;

	ask_for_gaps(test, aux);
	run_full(test, aux, 1);
	rb_toggle_paused(aux->rb, true);
	aux_set_tail(aux, AUX_SIZE - 1);
	KUNIT_ASSERT_NOT_NULL(test, aux_begin(aux));
	aux_end(aux, 0);
	expect_no_record(test, aux);

	rb_toggle_paused(aux->rb, false);
	local_set(&aux->rb->lost, 0);
	test_time = 5000;
	KUNIT_ASSERT_NOT_NULL(test, aux_begin(aux));
	aux_end(aux, 0);
	record = next_record(aux, PERF_RECORD_AUX_LOST, 48);
	KUNIT_ASSERT_NOT_NULL(test, record);
	KUNIT_EXPECT_EQ(test, record[2], 1000);
	KUNIT_EXPECT_EQ(test, record[3], 5000);
}

static struct kunit_case aux_cases[] = {
	KUNIT_CASE(begin_needs_an_area_that_is_mapped),
	KUNIT_CASE(begin_grants_the_room_up_to_the_tail),
	KUNIT_CASE(tail_beyond_the_area_grants_nothing),
	KUNIT_CASE(tail_behind_the_head_grants_the_rest),
	KUNIT_CASE(end_writes_a_record),
	KUNIT_CASE(flags_do_not_outlive_the_transaction),
	KUNIT_CASE(empty_transaction_is_silent),
	KUNIT_CASE(truncated_end_disables_the_event),
	KUNIT_CASE(begin_without_room_disables_the_event),
	KUNIT_CASE(wakeup_comes_at_the_watermark),
	KUNIT_CASE(default_watermark_is_half_of_the_area),
	KUNIT_CASE(skip_moves_the_head_without_a_record),
	KUNIT_CASE(overwritten_area_takes_the_drivers_head),
	KUNIT_CASE(offsets_are_added_up),
	KUNIT_CASE(offsets_begin_where_the_head_was),
	KUNIT_CASE(other_pmus_get_no_handle),
	KUNIT_CASE(copy_follows_the_wrap),
	KUNIT_CASE(size_of_a_large_area_is_no_int),
	KUNIT_CASE(copy_crosses_what_an_int_can_tell),
	KUNIT_CASE(stream_crosses_what_an_int_can_tell),
	KUNIT_CASE(area_without_scatter_gather_is_one_chunk),
	KUNIT_CASE(area_that_cannot_be_one_chunk_is_refused),
	KUNIT_CASE(large_chunks_follow_the_watermark),
	KUNIT_CASE(chunks_are_pages_unless_asked_for),
	KUNIT_CASE(failed_setup_leaves_nothing),
	KUNIT_CASE(fatal_signal_ends_the_allocation),
	KUNIT_CASE(last_reference_frees_the_area),
	KUNIT_CASE(area_beyond_the_memory_is_refused),
	KUNIT_CASE(large_area_is_for_drivers_that_ask_for_it),
	KUNIT_CASE(stop_is_told_when_it_goes_on),
	KUNIT_CASE(stop_is_told_of_the_event_that_stopped),
	KUNIT_CASE(stop_is_not_told_unless_asked_for),
	KUNIT_CASE(start_before_the_disabling_is_none),
	KUNIT_CASE(stop_is_counted_once),
	KUNIT_CASE(stop_beside_another_disabling_is_counted),
	KUNIT_CASE(stop_that_finds_no_room_is_told_later),
	{}
};

static struct kunit_suite aux_suite = {
	.name		= "perf_aux",
	.init		= aux_test_init,
	.exit		= aux_test_exit,
	.test_cases	= aux_cases,
};

kunit_test_suite(aux_suite);

MODULE_DESCRIPTION("KUnit tests of the perf AUX area");
MODULE_LICENSE("GPL");
