// SPDX-License-Identifier: GPL-2.0
/*
 * perfmon selftests - the sampling buffer
 */
#define _GNU_SOURCE

#include "../kselftest_harness.h"
#include "perfmon_helpers.h"

#define FAULTS	SW(PAGE_FAULTS)
#define MINOR	SW(PAGE_FAULTS_MIN)
#define BIT_OF(num)	(1ULL << ((num) % 64))
#define BUF_SIZE	16384

FIXTURE(smpl)
{
	const struct pfm_dfl_smpl_hdr *hdr;
	struct pages pages;
	struct pfarg_pmd pmd;
	int fd;
};

FIXTURE_SETUP(smpl)
{
	struct pfm_dfl_smpl_arg arg = { .buf_size = BUF_SIZE };
	struct pfarg_pmd minor = { .reg_num = MINOR };
	struct pfarg_ctx ctx = { };

	ASSERT_EQ(0, pages_map(&self->pages, 512));
	self->fd = pfm_create(&ctx, "default", &arg, sizeof(arg));
	ASSERT_LE(0, self->fd);
	self->hdr = mmap(NULL, BUF_SIZE, PROT_READ, MAP_SHARED, self->fd, 0);
	ASSERT_NE(MAP_FAILED, self->hdr);
	self->pmd = (struct pfarg_pmd) {
		.reg_num = FAULTS,
		.reg_flags = PFM_REGFL_OVFL_NOTIFY,
		.reg_value = -10ULL,
		.reg_short_reset = -10ULL,
		.reg_long_reset = -10ULL,
	};
	self->pmd.reg_smpl_pmds[4] = BIT_OF(FAULTS) | BIT_OF(MINOR);
	ASSERT_EQ(0, pfm_write_pmds(self->fd, &self->pmd, 1));
	ASSERT_EQ(0, pfm_write_pmds(self->fd, &minor, 1));
}

FIXTURE_TEARDOWN(smpl)
{
	munmap((void *)self->hdr, BUF_SIZE);
	munmap(self->pages.mem, self->pages.size);
	close(self->fd);
}

struct entry {
	struct pfm_dfl_smpl_entry e;
	__u64 value[2];
};

static const struct entry *entries(const struct pfm_dfl_smpl_hdr *hdr)
{
	return (const struct entry *)(hdr + 1);
}

TEST_F(smpl, header_describes_the_buffer)
{
	EXPECT_EQ(0, self->hdr->hdr_count);
	EXPECT_EQ(sizeof(*self->hdr), self->hdr->hdr_cur_offs);
	EXPECT_EQ(0, self->hdr->hdr_overflows);
	EXPECT_EQ(BUF_SIZE, self->hdr->hdr_buf_size);
	EXPECT_EQ(PFM_DFL_SMPL_VERSION, self->hdr->hdr_version);
	EXPECT_LT(sizeof(struct pfm_dfl_smpl_entry), self->hdr->hdr_min_buf_space);
}

TEST_F(smpl, each_overflow_is_a_sample)
{
	const struct entry *entry = entries(self->hdr);
	__u64 last = 0;
	unsigned int i;

	ASSERT_EQ(0, pfm_load_self(self->fd));
	ASSERT_EQ(0, pfm_start(self->fd, NULL));
	pages_touch(&self->pages, 205);
	ASSERT_EQ(0, pfm_stop(self->fd));
	ASSERT_EQ(20, self->hdr->hdr_count);
	EXPECT_EQ(sizeof(*self->hdr) + 20 * sizeof(*entry), self->hdr->hdr_cur_offs);
	for (i = 0; i < 20; i++, entry++) {
		EXPECT_EQ(syscall(__NR_gettid), entry->e.pid);
		EXPECT_EQ(getpid(), entry->e.tgid);
		EXPECT_EQ(FAULTS, entry->e.ovfl_pmd);
		EXPECT_EQ(i ? -10ULL : 0, entry->e.last_reset_val);
		EXPECT_LE(last, entry->e.tstamp);
		EXPECT_EQ(0, entry->e.set);
		EXPECT_EQ(0, entry->e.reserved);
		EXPECT_NE(0, entry->e.ip);
		/* In order of the registers; the fault is a minor one after this. */
		EXPECT_EQ(0, entry->value[0]);
		EXPECT_EQ(10 * (i + 1) - 1, entry->value[1]);
		last = entry->e.tstamp;
	}
	EXPECT_EQ(-5ULL, pfm_value(self->fd, 0, FAULTS));
	EXPECT_EQ(0, pfm_msg(self->fd).type);
}

TEST_F(smpl, full_buffer_masks_and_restart_empties_it)
{
	unsigned long size = sizeof(struct entry), room, fit;
	const struct entry *entry = entries(self->hdr);
	unsigned int round;

	room = BUF_SIZE - sizeof(*self->hdr) - self->hdr->hdr_min_buf_space;
	fit = room / size + 1;
	ASSERT_EQ(0, pfm_load_self(self->fd));
	ASSERT_EQ(0, pfm_start(self->fd, NULL));
	for (round = 1; round <= 3; round++) {
		pages_touch(&self->pages, fit * 10 - 1);
		EXPECT_EQ(fit - 1, self->hdr->hdr_count);
		EXPECT_EQ(0, pfm_msg(self->fd).type);
		pages_touch(&self->pages, 1);
		EXPECT_EQ(PFM_MSG_OVFL, pfm_msg(self->fd).type);
		pages_touch(&self->pages, 100);
		/* The one that made it full is there. */
		EXPECT_EQ(fit, self->hdr->hdr_count);
		EXPECT_EQ(round, self->hdr->hdr_overflows);
		EXPECT_EQ(FAULTS, entry[fit - 1].e.ovfl_pmd);
		EXPECT_EQ(0, pfm_value(self->fd, 0, FAULTS));
		ASSERT_EQ(0, pfm_restart(self->fd));
		EXPECT_EQ(0, self->hdr->hdr_count);
		EXPECT_EQ(sizeof(*self->hdr), self->hdr->hdr_cur_offs);
	}
}

TEST_F(smpl, restart_empties_a_buffer_that_is_not_full)
{
	ASSERT_EQ(0, pfm_load_self(self->fd));
	ASSERT_EQ(0, pfm_start(self->fd, NULL));
	pages_touch(&self->pages, 55);
	EXPECT_EQ(5, self->hdr->hdr_count);
	ASSERT_EQ(0, pfm_restart(self->fd));
	EXPECT_EQ(0, self->hdr->hdr_count);
	EXPECT_EQ(-5ULL, pfm_value(self->fd, 0, FAULTS));
	pages_touch(&self->pages, 5);
	EXPECT_EQ(1, self->hdr->hdr_count);
}

TEST_F(smpl, samples_tell_their_set)
{
	static const int order[] = { 0, 5, 2, 0, 5, 2, 0 };
	const struct entry *entry = entries(self->hdr);
	unsigned int i;

	for (i = 0; i < 3; i++) {
		self->pmd.reg_set = order[i];
		self->pmd.reg_ovfl_switch_cnt = 2;
		ASSERT_EQ(0, pfm_make_set(self->fd, order[i],
					  PFM_SETFL_OVFL_SWITCH | PFM_SETFL_EXPL_NEXT, 0,
					  order[i + 1]));
		ASSERT_EQ(0, pfm_write_pmds(self->fd, &self->pmd, 1));
	}
	ASSERT_EQ(0, pfm_load_self(self->fd));
	usleep(1);
	ASSERT_EQ(0, pfm_start(self->fd, NULL));
	/* Each switch has its time, also where irq_work waits for the timer. */
	for (i = 0; i < 14; i++) {
		pages_touch(&self->pages, 10);
		usleep(10000);
	}
	ASSERT_EQ(14, self->hdr->hdr_count);
	for (i = 0; i < 14; i++)
		EXPECT_EQ(order[i / 2], entry[i].e.set);
}

TEST_F(smpl, mapping_is_read_only)
{
	EXPECT_EQ(MAP_FAILED, mmap(NULL, BUF_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED,
				   self->fd, 0));
	EXPECT_EQ(EPERM, errno);
	EXPECT_EQ(-1, mprotect((void *)self->hdr, BUF_SIZE, PROT_READ | PROT_WRITE));
	EXPECT_EQ(EACCES, errno);
	EXPECT_EQ(MAP_FAILED, mmap(NULL, BUF_SIZE + 65536, PROT_READ, MAP_SHARED, self->fd, 0));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(MAP_FAILED, mmap(NULL, getpagesize(), PROT_READ, MAP_SHARED, self->fd,
				   getpagesize()));
	EXPECT_EQ(EINVAL, errno);
}

TEST_F(smpl, memory_is_accounted_until_close)
{
	long used = read_knob("smpl_buffer_mem_cur");
	struct pfm_dfl_smpl_arg arg = { .buf_size = 100000 };
	struct pfarg_ctx ctx = { };
	int fd = pfm_create(&ctx, "default", &arg, sizeof(arg));
	long page = getpagesize();

	ASSERT_LE(0, fd);
	EXPECT_EQ(used + (100000 + page - 1) / page * page, read_knob("smpl_buffer_mem_cur"));
	close(fd);
	EXPECT_EQ(used, read_knob("smpl_buffer_mem_cur"));
}

TEST_F(smpl, mapping_outlives_the_descriptor)
{
	ASSERT_EQ(0, pfm_load_self(self->fd));
	ASSERT_EQ(0, pfm_start(self->fd, NULL));
	pages_touch(&self->pages, 50);
	munmap(self->pages.mem, 0);
	ASSERT_EQ(0, pfm_unload(self->fd));
	EXPECT_EQ(5, self->hdr->hdr_count);
}

TEST_HARNESS_MAIN
