// SPDX-License-Identifier: GPL-2.0
/*
 * perf ring buffer selftests - an AUX area beside records that are read by splice(2)
 *
 * The area is mapped as usual. Its PERF_RECORD_AUX goes to the pipe.
 */
#define _GNU_SOURCE

#include "../kselftest_harness.h"
#include "ring_aux_helpers.h"
#include "ring_splice_helpers.h"

#define DATA_PAGES	4
#define AUX_PAGES	8

FIXTURE(ring_splice_aux)
{
	struct perf_event_attr attr;
	struct aux_area area;
	struct ring ring;
	struct stream stream;
	int pipes[2];
	int fd;
};

FIXTURE_SETUP(ring_splice_aux)
{
	SKIP_WITHOUT_SPLICE();
	if (pmu_type("pmusim_aux") < 0)
		SKIP(return, "no PMU pmusim_aux, CONFIG_PERF_PMUSIM has it");
	run_on(0);
	self->attr = aux_attr("pmusim_aux");
	self->fd = event_open_on(&self->attr, -1, 0);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, ring_alloc(self->fd, DATA_PAGES));
	ASSERT_EQ(0, ring_map(&self->ring, self->fd, 0));
	ASSERT_EQ(0, pipe_open(self->pipes, MIB));
	ASSERT_EQ(0, stream_init(&self->stream, MIB));
}

FIXTURE_TEARDOWN(ring_splice_aux)
{
	close(self->fd);
	pipe_close(self->pipes);
}

/* Map the area after the data, which is not mapped itself. */
static int map_area(struct aux_area *area, struct ring *ring, int fd, int prot)
{
	return aux_map_at(area, ring, fd, (1 + DATA_PAGES) * page_size(),
			  AUX_PAGES * page_size(), prot);
}

TEST_F(ring_splice_aux, area_is_behind_the_data)
{
	EXPECT_EQ(-EINVAL, aux_map_at(&self->area, &self->ring, self->fd, page_size(),
				      AUX_PAGES * page_size(), PROT_READ | PROT_WRITE));
	EXPECT_EQ(-EINVAL, aux_map_at(&self->area, &self->ring, self->fd,
				      DATA_PAGES * page_size(), AUX_PAGES * page_size(),
				      PROT_READ | PROT_WRITE));
	EXPECT_EQ(0, map_area(&self->area, &self->ring, self->fd, PROT_READ | PROT_WRITE));
}

TEST_F(ring_splice_aux, stretches_are_told_in_the_stream)
{
	__u64 expected = 0;
	size_t at = 0;
	int i;

	ASSERT_EQ(0, map_area(&self->area, &self->ring, self->fd, PROT_READ | PROT_WRITE));
	for (i = 0; i < 40; i++) {
		size_t bytes = (i % 5 + 1) * 1024;

		ASSERT_EQ(0, event_enable(self->fd));
		ASSERT_EQ(0, aux_tick(bytes));
		ASSERT_EQ(0, event_disable(self->fd));
		ASSERT_EQ(-EAGAIN, stream_drain(&self->stream, self->fd, self->pipes, MIB));
		while (at < self->stream.len) {
			struct aux_record *record = (void *)(self->stream.data + at);

			if (record->header.type == PERF_RECORD_AUX && record->size) {
				ASSERT_EQ(expected, record->offset);
				ASSERT_EQ(true, aux_holds(&self->area, record->offset,
							  record->offset + record->size));
				expected += record->size;
				aux_set_tail(&self->ring, expected);
			}
			at += record->header.size;
		}
		ASSERT_EQ(aux_head(&self->ring), expected);
	}
	EXPECT_LT(2 * AUX_PAGES * page_size(), expected + AUX_PAGES * page_size());
	EXPECT_EQ(self->stream.len, at);
}

/* Output is paused, so no record reports the data in the area. */
TEST_F(ring_splice_aux, data_without_a_record_is_told)
{
	ASSERT_EQ(0, map_area(&self->area, &self->ring, self->fd, PROT_READ | PROT_WRITE));
	ASSERT_EQ(0, event_ioctl(self->fd, PERF_EVENT_IOC_PAUSE_OUTPUT, 1));
	ASSERT_EQ(0, event_enable(self->fd));
	ASSERT_EQ(0, aux_tick(page_size()));
	ASSERT_EQ(0, event_disable(self->fd));
	EXPECT_EQ(0, poll_now(self->fd));

	ASSERT_EQ(0, event_enable(self->fd));
	ASSERT_EQ(0, aux_tick(AUX_PAGES * page_size() / 2));
	ASSERT_EQ(0, event_disable(self->fd));
	EXPECT_EQ(POLLIN, poll_now(self->fd));
	EXPECT_EQ(POLLIN, poll_now(self->fd));
	EXPECT_EQ(-EAGAIN, ring_splice(self->fd, self->pipes[1], MIB));
	aux_set_tail(&self->ring, aux_head(&self->ring));
	EXPECT_EQ(0, poll_now(self->fd));
}

TEST_F(ring_splice_aux, area_and_user_page_may_go_in_either_order)
{
	struct ring ring;

	ASSERT_EQ(0, map_area(&self->area, &self->ring, self->fd, PROT_READ | PROT_WRITE));
	ASSERT_EQ(0, event_enable(self->fd));
	ASSERT_EQ(0, aux_tick(4096));
	ASSERT_EQ(0, ring_unmap(&self->ring));
	ASSERT_EQ(0, aux_tick(4096));
	ASSERT_EQ(0, aux_unmap(&self->area));
	EXPECT_EQ(-EBUSY, ring_map(&ring, self->fd, DATA_PAGES));
	EXPECT_EQ(-EBUSY, ring_alloc(self->fd, DATA_PAGES));
	EXPECT_LT(0, ring_splice(self->fd, self->pipes[1], MIB));

	ASSERT_EQ(0, ring_map(&ring, self->fd, 0));
	ASSERT_EQ(0, map_area(&self->area, &ring, self->fd, PROT_READ));
	ASSERT_EQ(0, aux_unmap(&self->area));
	ASSERT_EQ(0, ring_unmap(&ring));
}

TEST_F(ring_splice_aux, area_keeps_the_file)
{
	int other = event_open_on(&self->attr, -1, 0);

	ASSERT_EQ(0, event_ioctl(other, PERF_EVENT_IOC_SET_OUTPUT, self->fd));
	ASSERT_EQ(0, map_area(&self->area, &self->ring, self->fd, PROT_READ | PROT_WRITE));
	ASSERT_EQ(0, ring_unmap(&self->ring));
	ASSERT_EQ(0, close(self->fd));
	self->fd = -1;
	EXPECT_EQ(-EBUSY, ring_splice(other, self->pipes[1], MIB));
	ASSERT_EQ(0, aux_unmap(&self->area));
	EXPECT_EQ(-EINVAL, ring_splice(other, self->pipes[1], MIB));
	close(other);
}

TEST_HARNESS_MAIN
