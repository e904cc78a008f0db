// SPDX-License-Identifier: GPL-2.0
/*
 * pmusim selftests - the rules for mapping an AUX area, and for events with one
 */
#define _GNU_SOURCE

#include "../kselftest_harness.h"
#include "pmusim_helpers.h"

#define DATA_PAGES	4
#define RW		(PROT_READ | PROT_WRITE)

FIXTURE(aux_map)
{
	struct perf_event_attr attr;
	struct sim_ring ring;
	size_t page;
	int fd;
};

FIXTURE_SETUP(aux_map)
{
	if (sim_skips(_metadata))
		return;
	self->page = page_size();
	self->attr = sim_attr("pmusim_aux", 0);
	self->attr.disabled = 1;
	self->fd = sim_open(&self->attr, -1, 0, -1);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, ring_map(&self->ring, self->fd, DATA_PAGES));
}

FIXTURE_TEARDOWN(aux_map)
{
	ring_unmap(&self->ring);
	close(self->fd);
	sim_defaults();
}

/* Set the position of the area, then map @pages at @offset; all numbers are in pages. */
static int try_map(struct sim_ring *ring, __u64 aux_offset, __u64 aux_pages,
		   __u64 offset, __u64 pages)
{
	size_t page = page_size();
	void *mem;

	ring->page->aux_offset = aux_offset * page;
	ring->page->aux_size = aux_pages * page;
	mem = mmap(NULL, pages * page, RW, MAP_SHARED, ring->fd, offset * page);
	if (mem == MAP_FAILED)
		return -errno;
	munmap(mem, pages * page);
	return 0;
}

TEST_F(aux_map, the_user_page_says_where_and_how_large_it_is)
{
	struct sim_ring *ring = &self->ring;

	EXPECT_EQ(-EINVAL, try_map(ring, 0, 0, 5, 4));
	EXPECT_EQ(0, try_map(ring, 5, 4, 5, 4));
	EXPECT_EQ(-EINVAL, try_map(ring, 5, 4, 8, 4));
	EXPECT_EQ(-EINVAL, try_map(ring, 5, 4, 5, 8));
	EXPECT_EQ(-EINVAL, try_map(ring, 5, 8, 5, 4));
}

TEST_F(aux_map, it_begins_after_the_data)
{
	struct sim_ring *ring = &self->ring;

	EXPECT_EQ(-EINVAL, try_map(ring, 4, 4, 4, 4));
	EXPECT_EQ(-EINVAL, try_map(ring, 1, 4, 1, 4));
	EXPECT_EQ(0, try_map(ring, 6, 4, 6, 4));
	/* A hole is not charged. */
	EXPECT_EQ(0, try_map(ring, (1ULL << 40) / self->page, 4,
			     (1ULL << 40) / self->page, 4));
}

TEST_F(aux_map, it_is_a_power_of_two_of_whole_pages)
{
	struct perf_event_mmap_page *page = self->ring.page;
	size_t offset = 5 * self->page;
	unsigned int pages;

	for (pages = 1; pages <= 16; pages++)
		EXPECT_EQ(pages & (pages - 1) ? -EINVAL : 0,
			  try_map(&self->ring, 5, pages, 5, pages));

	page->aux_offset = offset + 8;
	page->aux_size = 4 * self->page;
	EXPECT_EQ(MAP_FAILED, mmap(NULL, 4 * self->page, RW, MAP_SHARED, self->fd, offset));
	EXPECT_EQ(EINVAL, errno);
	page->aux_offset = offset;
	page->aux_size = 4 * self->page - 8;
	EXPECT_EQ(MAP_FAILED, mmap(NULL, 4 * self->page, RW, MAP_SHARED, self->fd, offset));
	EXPECT_EQ(EINVAL, errno);
}

TEST_F(aux_map, a_second_mapping_is_the_same)
{
	struct sim_ring *ring = &self->ring;

	ASSERT_EQ(0, ring_map_aux(ring, 4 * self->page, RW));
	EXPECT_EQ(0, try_map(ring, 5, 4, 5, 4));
	EXPECT_EQ(-EINVAL, try_map(ring, 8, 4, 8, 4));
	EXPECT_EQ(-EINVAL, try_map(ring, 5, 8, 5, 8));
	EXPECT_EQ(-EINVAL, try_map(ring, 5, 2, 5, 2));
	EXPECT_EQ(0, try_map(ring, 5, 4, 5, 4));
}

TEST_F(aux_map, data_is_mapped_first)
{
	size_t size = 4 * self->page;

	ring_unmap(&self->ring);
	EXPECT_EQ(MAP_FAILED, mmap(NULL, size, RW, MAP_SHARED, self->fd, 5 * self->page));
	EXPECT_EQ(EINVAL, errno);
}

TEST_F(aux_map, a_pmu_without_areas_has_none)
{
	struct perf_event_attr attr = sim_attr("pmusim", 0);
	struct sim_ring ring;
	int fd = sim_open(&attr, -1, 0, -1);

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, ring_map(&ring, fd, DATA_PAGES));
	EXPECT_EQ(-EOPNOTSUPP, try_map(&ring, 5, 4, 5, 4));
	/* An invalid size is found first. */
	EXPECT_EQ(-EINVAL, try_map(&ring, 5, 3, 5, 3));
	ring_unmap(&ring);
	close(fd);
}

TEST_F(aux_map, it_outlives_the_data)
{
	struct sim_ring *ring = &self->ring;
	size_t size = (DATA_PAGES + 1) * self->page;
	void *mem;

	ASSERT_EQ(0, ring_map_aux(ring, 4 * self->page, RW));
	ASSERT_EQ(0, munmap(ring->page, size));
	ring->page = NULL;
	EXPECT_EQ(0, ring->aux[0]);

	/* The buffer still exists, so its size cannot change. */
	mem = mmap(NULL, 9 * self->page, RW, MAP_SHARED, self->fd, 0);
	EXPECT_EQ(MAP_FAILED, mem);
	EXPECT_EQ(EINVAL, errno);
	mem = mmap(NULL, size, RW, MAP_SHARED, self->fd, 0);
	ASSERT_NE(MAP_FAILED, mem);
	ASSERT_EQ(0, munmap(mem, size));
	ring_unmap_aux(ring);

	mem = mmap(NULL, 9 * self->page, RW, MAP_SHARED, self->fd, 0);
	ASSERT_NE(MAP_FAILED, mem);
	ASSERT_EQ(0, munmap(mem, 9 * self->page));
}

static int start_stream(struct sim_ring *ring, int fd, int prot)
{
	int ret = ring_map_aux(ring, 16 * page_size(), prot);

	return ret ? ret : sim_enable(fd);
}

/* Open a producer that writes all the time. */
static int open_stream(struct perf_event_attr *attr)
{
	attr->config = SIM_AUX_TIMER;
	attr->config1 = 5000 | SIM_CHUNK(2048);
	return sim_open(attr, -1, 0, -1);
}

/* Size of an area for 100 ms, at 5000 times 2048 bytes in a second */
#define AREA_OF_100_MS	(1UL << 20)

/* Tell whether the head has moved from @head; the area may be full again by now. */
static bool moves_from(struct sim_ring *ring, __u64 head)
{
	__u64 end = now_ns() + 10000000000ULL;

	while (aux_head(ring) == head && now_ns() < end)
		sleep_ms(1);
	return aux_head(ring) != head;
}

TEST_F(aux_map, unmapping_stops_the_stream_and_mapping_lets_it_start_again)
{
	struct sim_ring ring;
	unsigned int round;
	unsigned int running = 0;
	__u64 head = 0;
	int fd;

	fd = open_stream(&self->attr);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, ring_map(&ring, fd, DATA_PAGES));
	for (round = 0; round < 30; round++) {
		ASSERT_EQ(0, ring_map_aux(&ring, AREA_OF_100_MS, RW));
		ASSERT_EQ(0, sim_enable(fd));
		ASSERT_TRUE(moves_from(&ring, head));
		ring_unmap_aux(&ring);
		/* An area that is full now had stopped before. */
		running += aux_head(&ring) - head < AREA_OF_100_MS;
		head = aux_head(&ring);
		sleep_ms(2);
		EXPECT_EQ(head, aux_head(&ring));
		/* The event is still enabled and has no room. */
		ASSERT_EQ(0, sim_disable(fd));
		ring.page->aux_tail = head;
	}
	EXPECT_LE(10, running);
	ring_unmap(&ring);
	close(fd);
}

TEST_F(aux_map, both_orders_of_unmapping_end_the_stream)
{
	struct sim_ring ring;
	unsigned int round;
	int fd;

	for (round = 0; round < 20; round++) {
		fd = open_stream(&self->attr);
		ASSERT_LE(0, fd);
		ASSERT_EQ(0, ring_map(&ring, fd, DATA_PAGES));
		/* Overwritten areas never stop by themselves. */
		ASSERT_EQ(0, start_stream(&ring, fd, round % 2 ? RW : PROT_READ));
		sleep_ms(3);
		if (round % 4 < 2) {
			munmap(ring.page, ring.size + page_size());
			ring.page = NULL;
			sleep_ms(1);
			ring_unmap_aux(&ring);
		} else {
			ring_unmap(&ring);
		}
		if (round % 3)
			ASSERT_EQ(0, sim_disable(fd));
		close(fd);
	}
}

static int tick(size_t bytes)
{
	return sim_tick_pmu("pmusim_aux", 0, 0, bytes);
}

/* The stream needs only the area. A new mapping of the data shows its position. */
TEST_F(aux_map, stream_goes_on_without_the_data)
{
	static const int prots[] = { RW, PROT_READ };
	size_t size = (DATA_PAGES + 1) * self->page;
	struct sim_ring *ring = &self->ring;
	unsigned int i;

	for (i = 0; i < 2; i++) {
		ASSERT_EQ(0, start_stream(ring, self->fd, prots[i]));
		ASSERT_EQ(0, tick(2048));
		ASSERT_EQ(0, munmap(ring->page, size));
		ASSERT_EQ(0, tick(2048));
		EXPECT_EQ(4096, aux_verify(ring, 0, 4096));

		ring->page = mmap(NULL, size, RW, MAP_SHARED, self->fd, 0);
		ASSERT_NE(MAP_FAILED, (void *)ring->page);
		ASSERT_EQ(0, tick(2048));
		ASSERT_EQ(0, sim_disable(self->fd));
		EXPECT_EQ(6144, aux_head(ring));
		EXPECT_EQ(6144, aux_verify(ring, 0, 6144));

		/* Unmap the area last, in the middle of the stream. */
		ASSERT_EQ(0, sim_enable(self->fd));
		ASSERT_EQ(0, munmap(ring->page, size));
		ASSERT_EQ(0, tick(2048));
		EXPECT_EQ(8192, aux_verify(ring, 0, 8192));
		ring_unmap_aux(ring);
		ASSERT_EQ(0, tick(2048));
		/* The next buffer contains no data of the last one. */
		ASSERT_EQ(0, ring_map(ring, self->fd, DATA_PAGES));
		ASSERT_EQ(0, tick(2048));
		ASSERT_EQ(0, sim_disable(self->fd));
		EXPECT_EQ(0, aux_head(ring));
		EXPECT_EQ(0, ring->page->data_head);
	}
}

TEST_F(aux_map, stream_ends_with_the_area_and_the_data_tells_it)
{
	static const int prots[] = { RW, PROT_READ };
	struct sim_ring *ring = &self->ring;
	unsigned int i;

	for (i = 0; i < 2; i++) {
		ASSERT_EQ(0, start_stream(ring, self->fd, prots[i]));
		ASSERT_EQ(0, tick(4096));
		EXPECT_EQ(4096, aux_verify(ring, 0, 4096));
		ring_unmap_aux(ring);
		EXPECT_EQ(4096, aux_head(ring));
		ASSERT_EQ(0, tick(4096));
		ASSERT_EQ(0, sim_disable(self->fd));
		EXPECT_EQ(4096, aux_head(ring));
		EXPECT_EQ(1, ring_count(ring, PERF_RECORD_AUX));
		ring_unmap(ring);
		ASSERT_EQ(0, ring_map(ring, self->fd, DATA_PAGES));
		EXPECT_EQ(0, aux_head(ring));
	}
}

TEST_F(aux_map, closing_the_event_first_leaves_the_mapping)
{
	size_t half = 8 * self->page;
	struct sim_ring ring;
	int fd;

	fd = sim_open(&self->attr, -1, 0, -1);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, ring_map(&ring, fd, DATA_PAGES));
	ASSERT_EQ(0, start_stream(&ring, fd, RW));
	ASSERT_EQ(0, tick(half));
	EXPECT_EQ(half, aux_head(&ring));
	close(fd);
	/* The mapping holds the file, and the file holds the event. */
	ASSERT_TRUE(aux_drain(&ring));
	ASSERT_EQ(0, tick(half));
	EXPECT_EQ(2 * half, aux_head(&ring));
	EXPECT_TRUE(aux_drain(&ring));
	ring_unmap(&ring);
}

static int redirect(int fd, int to)
{
	return sim_ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, to);
}

TEST_F(aux_map, two_events_with_areas_share_output_only_if_of_one_pmu)
{
	struct perf_event_attr attr = sim_attr("pmusim_aux_large", 0);
	int other, same;

	attr.disabled = 1;
	other = sim_open(&attr, -1, 0, -1);
	ASSERT_LE(0, other);
	same = sim_open(&self->attr, -1, 0, -1);
	ASSERT_LE(0, same);
	EXPECT_EQ(-EINVAL, redirect(other, self->fd));
	EXPECT_EQ(0, redirect(same, self->fd));
	close(other);
	close(same);
}

TEST_F(aux_map, a_mapped_event_keeps_its_buffer)
{
	struct sim_ring ring;
	int same = sim_open(&self->attr, -1, 0, -1);

	ASSERT_LE(0, same);
	ASSERT_EQ(0, ring_map(&ring, same, DATA_PAGES));
	EXPECT_EQ(-EINVAL, redirect(same, self->fd));
	ring_unmap(&ring);
	EXPECT_EQ(0, redirect(same, self->fd));
	close(same);
}

/* The page would tell the counter of the other event. */
TEST_F(aux_map, a_redirected_event_maps_the_area_and_not_the_page_of_the_other)
{
	struct sim_ring *ring = &self->ring;
	size_t offset = 5 * self->page, size = 4 * self->page;
	void *area;
	int same;

	same = sim_open(&self->attr, -1, 0, -1);
	ASSERT_LE(0, same);
	ASSERT_EQ(0, redirect(same, self->fd));
	ring->page->aux_offset = offset;
	ring->page->aux_size = size;
	area = mmap(NULL, size, RW, MAP_SHARED, same, offset);
	ASSERT_NE(MAP_FAILED, area);
	EXPECT_EQ(MAP_FAILED, mmap(NULL, ring->size + self->page, RW, MAP_SHARED, same, 0));
	EXPECT_EQ(EBUSY, errno);
	munmap(area, size);
	close(same);
}

TEST_F(aux_map, a_redirected_event_writes_to_the_area_of_the_other)
{
	int same = sim_open(&self->attr, -1, 0, -1);

	ASSERT_LE(0, same);
	ASSERT_EQ(0, redirect(same, self->fd));
	ASSERT_EQ(0, ring_map_aux(&self->ring, 16 * self->page, RW));
	ASSERT_EQ(0, sim_enable(same));
	ASSERT_EQ(0, sim_tick_pmu("pmusim_aux", 0, 0, 4096));
	ASSERT_EQ(0, sim_disable(same));
	EXPECT_EQ(4096, aux_head(&self->ring));
	EXPECT_TRUE(aux_drain(&self->ring));
	close(same);
}

TEST_F(aux_map, another_cpu_has_its_own_buffer)
{
	int far = sim_open(&self->attr, -1, 1, -1);

	if (far == -ENODEV)
		SKIP(return, "no second CPU");
	ASSERT_LE(0, far);
	EXPECT_EQ(-EINVAL, redirect(far, self->fd));
	close(far);
}

FIXTURE(aux_rules)
{
	struct perf_event_attr aux;
	struct perf_event_attr counter;
};

FIXTURE_SETUP(aux_rules)
{
	if (sim_skips(_metadata))
		return;
	self->aux = sim_attr("pmusim_aux", 0);
	self->counter = sim_attr("pmusim", 0);
}

FIXTURE_TEARDOWN(aux_rules)
{
}

TEST_F(aux_rules, nothing_can_both_pause_and_resume)
{
	int leader = sim_open(&self->aux, -1, 0, -1);

	ASSERT_LE(0, leader);
	self->counter.aux_pause = 1;
	self->counter.aux_resume = 1;
	EXPECT_EQ(-EINVAL, sim_open(&self->counter, -1, 0, leader));
	close(leader);
}

TEST_F(aux_rules, a_pmu_that_cannot_pause_refuses_start_paused)
{
	self->aux = sim_attr("pmusim_aux_nosg", 0);
	self->aux.aux_start_paused = 1;
	EXPECT_EQ(-EOPNOTSUPP, sim_open(&self->aux, -1, 0, -1));
}

TEST_F(aux_rules, only_the_aux_event_starts_paused)
{
	self->counter.aux_start_paused = 1;
	EXPECT_EQ(-EOPNOTSUPP, sim_open(&self->counter, -1, 0, -1));
}

TEST_F(aux_rules, nothing_pauses_a_pmu_that_cannot_pause)
{
	int leader;

	self->aux = sim_attr("pmusim_aux_nosg", 0);
	leader = sim_open(&self->aux, -1, 0, -1);
	ASSERT_LE(0, leader);
	self->counter.aux_pause = 1;
	EXPECT_EQ(-EINVAL, sim_open(&self->counter, -1, 0, leader));
	close(leader);
}

TEST_F(aux_rules, what_pauses_needs_a_leader_with_an_area)
{
	int leader = sim_open(&self->counter, -1, 0, -1);

	ASSERT_LE(0, leader);
	self->counter.aux_pause = 1;
	EXPECT_EQ(-EINVAL, sim_open(&self->counter, -1, 0, -1));
	EXPECT_EQ(-EINVAL, sim_open(&self->counter, -1, 0, leader));
	self->aux.aux_pause = 1;
	EXPECT_EQ(-EINVAL, sim_open(&self->aux, -1, 0, -1));
	close(leader);
}

TEST_F(aux_rules, a_sample_of_an_area_needs_a_leader_that_has_one)
{
	int leader = sim_open(&self->counter, -1, 0, -1);

	ASSERT_LE(0, leader);
	self->counter.sample_period = 100;
	self->counter.sample_type = PERF_SAMPLE_AUX;
	self->counter.aux_sample_size = 512;
	EXPECT_EQ(-EINVAL, sim_open(&self->counter, -1, 0, leader));
	EXPECT_EQ(-EINVAL, sim_open(&self->counter, -1, 0, -1));
	close(leader);
}

TEST_F(aux_rules, an_exclusive_pmu_has_one_kind_of_event_at_a_time)
{
	struct perf_event_attr attr = sim_attr("pmusim_aux_excl", 0);
	int cpu, task;

	attr.disabled = 1;
	cpu = sim_open(&attr, -1, 0, -1);
	ASSERT_LE(0, cpu);
	EXPECT_EQ(-EBUSY, sim_open(&attr, 0, -1, -1));
	close(cpu);
	task = sim_open(&attr, 0, -1, -1);
	ASSERT_LE(0, task);
	EXPECT_EQ(-EBUSY, sim_open(&attr, -1, 0, -1));
	close(task);
}

TEST_HARNESS_MAIN
