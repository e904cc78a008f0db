// SPDX-License-Identifier: GPL-2.0
/* perfmon selftests - self-monitoring threads, and the effect of writes */
#define _GNU_SOURCE

#include "../kselftest_harness.h"
#include "perfmon_helpers.h"

#define FAULTS	SW(PAGE_FAULTS)

FIXTURE(counts)
{
	struct pages pages;
	int fd;
};

FIXTURE_SETUP(counts)
{
	self->fd = pfm_open(0);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, pfm_set_pmd(self->fd, 0, FAULTS, 0));
	ASSERT_EQ(0, pages_map(&self->pages, 1024));
}

FIXTURE_TEARDOWN(counts)
{
	close(self->fd);
}

TEST_F(counts, self_counts_page_faults_exactly)
{
	ASSERT_EQ(0, pfm_load_self(self->fd));
	pages_touch(&self->pages, 10);
	EXPECT_EQ(0, pfm_value(self->fd, 0, FAULTS));
	ASSERT_EQ(0, pfm_start(self->fd, NULL));
	pages_touch(&self->pages, 50);
	ASSERT_EQ(0, pfm_stop(self->fd));
	pages_touch(&self->pages, 10);
	EXPECT_EQ(50, pfm_value(self->fd, 0, FAULTS));
}

TEST_F(counts, stop_freezes_and_start_goes_on)
{
	unsigned int i;

	ASSERT_EQ(0, pfm_load_self(self->fd));
	for (i = 0; i < 100; i++) {
		ASSERT_EQ(0, pfm_start(self->fd, NULL));
		pages_touch(&self->pages, 3);
		ASSERT_EQ(0, pfm_stop(self->fd));
		pages_touch(&self->pages, 2);
		ASSERT_EQ(3 * (i + 1), pfm_value(self->fd, 0, FAULTS));
	}
}

TEST_F(counts, value_can_be_written_while_it_counts)
{
	ASSERT_EQ(0, pfm_load_self(self->fd));
	ASSERT_EQ(0, pfm_start(self->fd, NULL));
	pages_touch(&self->pages, 7);
	ASSERT_EQ(0, pfm_set_pmd(self->fd, 0, FAULTS, 1000));
	pages_touch(&self->pages, 7);
	EXPECT_EQ(1007, pfm_value(self->fd, 0, FAULTS));
}

TEST_F(counts, register_written_while_loaded_begins_to_count)
{
	ASSERT_EQ(0, pfm_load_self(self->fd));
	ASSERT_EQ(0, pfm_start(self->fd, NULL));
	pages_touch(&self->pages, 5);
	ASSERT_EQ(0, pfm_set_pmd(self->fd, 0, SW(PAGE_FAULTS_MIN), 0));
	pages_touch(&self->pages, 6);
	ASSERT_EQ(0, pfm_stop(self->fd));
	EXPECT_EQ(6, pfm_value(self->fd, 0, SW(PAGE_FAULTS_MIN)));
	EXPECT_EQ(11, pfm_value(self->fd, 0, FAULTS));
}

TEST_F(counts, control_register_written_while_counting_keeps_the_others_exact)
{
	struct pfarg_pmc pmc = { .reg_num = SW(PAGE_FAULTS_MIN) };
	unsigned int i;

	ASSERT_EQ(0, pfm_set_pmd(self->fd, 0, SW(PAGE_FAULTS_MIN), 0));
	ASSERT_EQ(0, pfm_load_self(self->fd));
	ASSERT_EQ(0, pfm_start(self->fd, NULL));
	for (i = 0; i < 50; i++) {
		pages_touch(&self->pages, 3);
		pmc.reg_flags = i & 1 ? PFM_REGFL_EXCL_USER : 0;
		ASSERT_EQ(0, pfm_write_pmcs(self->fd, &pmc, 1));
		pages_touch(&self->pages, 3);
	}
	ASSERT_EQ(0, pfm_stop(self->fd));
	EXPECT_EQ(300, pfm_value(self->fd, 0, FAULTS));
	EXPECT_LE(150, pfm_value(self->fd, 0, SW(PAGE_FAULTS_MIN)));
	EXPECT_GE(156, pfm_value(self->fd, 0, SW(PAGE_FAULTS_MIN)));
}

TEST_HARNESS_MAIN
