// SPDX-License-Identifier: GPL-2.0
/*
 * perf ring buffer selftests - an AUX area of several events
 *
 * A software event has the buffer, and AUX area events are redirected into it. Their area
 * stays when they leave, and the event that set it up may be gone.
 */
#define _GNU_SOURCE

#include <sys/wait.h>

#include "../kselftest_harness.h"
#include "ring_aux_helpers.h"

#define DATA_PAGES	4
#define AUX_PAGES	16

FIXTURE(ring_aux_share)
{
	struct perf_event_attr attr;
	struct ring ring;
	struct aux_area area;
	int owner;
};

FIXTURE_SETUP(ring_aux_share)
{
	struct perf_event_attr attr = fault_attr();

	self->owner = -1;
	if (pmu_type("pmusim_aux") < 0)
		SKIP(return, "no PMU pmusim_aux, CONFIG_PERF_PMUSIM has it");
	if (geteuid())
		SKIP(return, "needs root for the ticks of pmusim");
	self->attr = aux_attr("pmusim_aux");
	self->owner = event_open_on(&attr, 0, 0);
	ASSERT_LE(0, self->owner);
	ASSERT_EQ(0, ring_map(&self->ring, self->owner, DATA_PAGES));
}

FIXTURE_TEARDOWN(ring_aux_share)
{
	close(self->owner);
}

static int redirect(int fd, int owner)
{
	return event_ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, owner);
}

/* The two events cannot share a buffer, but each can share one with an event without an area. */
TEST_F(ring_aux_share, area_is_of_the_pmu_that_set_it_up)
{
	struct perf_event_aux_snapshot snap = { .size = sizeof(snap) };
	struct perf_event_attr attr = aux_attr("pmusim_aux_nosg");
	struct aux_record record;
	int fd, other;

	run_on(0);
	fd = event_open_on(&self->attr, 0, 0);
	ASSERT_LE(0, fd);
	other = event_open_on(&attr, 0, 0);
	ASSERT_LE(0, other);
	EXPECT_EQ(-EINVAL, redirect(other, fd));
	ASSERT_EQ(0, redirect(fd, self->owner));
	ASSERT_EQ(0, redirect(other, self->owner));
	ASSERT_EQ(0, aux_map(&self->area, &self->ring, fd, AUX_PAGES, PROT_READ | PROT_WRITE));

	ASSERT_EQ(0, event_enable(other));
	EXPECT_EQ(0, aux_tick_of("pmusim_aux_nosg", 0, 640));
	ASSERT_EQ(0, event_disable(other));
	EXPECT_EQ(0, aux_head(&self->ring));
	/* The event has no area, so the snapshot fails as well. */
	EXPECT_EQ(0, event_ioctl(fd, PERF_EVENT_IOC_AUX_SNAPSHOT, (unsigned long)&snap));
	EXPECT_EQ(-EINVAL, event_ioctl(other, PERF_EVENT_IOC_AUX_SNAPSHOT, (unsigned long)&snap));

	ASSERT_EQ(0, event_enable(fd));
	ASSERT_EQ(0, aux_tick(64));
	ASSERT_EQ(0, event_disable(fd));
	EXPECT_EQ(64, aux_head(&self->ring));
	EXPECT_TRUE(aux_holds(&self->area, 0, 64));
	ASSERT_TRUE(aux_next(&self->ring, PERF_RECORD_AUX, &record, sizeof(record)));
	EXPECT_EQ(64, record.size);
	EXPECT_FALSE(aux_next(&self->ring, PERF_RECORD_AUX, &record, sizeof(record)));
	close(other);
	close(fd);
}

/*
 * The event leaves the buffer and the area stays, because it is mapped through the
 * owner of the buffer as well. The parent is on another CPU, so that its own event is
 * not active.
 */
static void leave(struct __test_metadata *_metadata, FIXTURE_DATA(ring_aux_share) * self,
		  bool unmap)
{
	const int prot = PROT_READ | PROT_WRITE;
	struct aux_record record;
	int fd, other = event_open_on(&self->attr, 0, 0);
	struct aux_area second;
	pid_t pid;

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		SKIP(return, "needs a second CPU");
	self->attr.inherit = 1;
	fd = event_open_on(&self->attr, 0, 0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, redirect(fd, self->owner));
	ASSERT_EQ(0, redirect(other, self->owner));
	ASSERT_EQ(0, aux_map(&self->area, &self->ring, unmap ? fd : other, AUX_PAGES, prot));
	ASSERT_EQ(0, aux_map(&second, &self->ring, self->owner, AUX_PAGES, prot));
	ASSERT_EQ(0, event_enable(fd));
	run_on(1);
	pid = aux_fork_on(0, 640);
	ASSERT_LT(0, pid);

	/* The transaction of the child ends. */
	EXPECT_EQ(0, unmap ? aux_unmap(&self->area) : redirect(fd, -1));
	EXPECT_EQ(640, aux_head(&self->ring));
	EXPECT_TRUE(aux_holds(&second, 0, 640));
	/* Its record is in the same buffer as the data. */
	EXPECT_TRUE(aux_next(&self->ring, PERF_RECORD_AUX, &record, sizeof(record)));
	EXPECT_EQ(640, record.size);

	/* So nothing holds the area after its last mapping, and its size can change. */
	if (!unmap)
		EXPECT_EQ(0, aux_unmap(&self->area));
	EXPECT_EQ(0, aux_unmap(&second));
	EXPECT_EQ(-EOPNOTSUPP, aux_map(&second, &self->ring, self->owner, 2 * AUX_PAGES, prot));
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(other);
	close(fd);
}

TEST_F(ring_aux_share, children_stop_when_their_event_is_unmapped)
{
	leave(_metadata, self, true);
}

TEST_F(ring_aux_share, children_stop_when_their_event_is_redirected)
{
	leave(_metadata, self, false);
}

TEST_HARNESS_MAIN
