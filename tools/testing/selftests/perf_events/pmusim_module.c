// SPDX-License-Identifier: GPL-2.0
/*
 * pmusim selftests - the module stays while anything of it is in use
 */
#define _GNU_SOURCE

#include "../kselftest_harness.h"
#include "pmusim_helpers.h"

#define NR_PMUS	6

static const char * const pmus[NR_PMUS] = {
	"pmusim", "pmusim_unc", "pmusim_aux", "pmusim_aux_nosg",
	"pmusim_aux_large", "pmusim_aux_excl",
};

static int unload(void)
{
	return syscall(__NR_delete_module, "pmusim", O_NONBLOCK) ? -errno : 0;
}

FIXTURE(module)
{
	int unused;
};

FIXTURE_SETUP(module)
{
	if (sim_skips(_metadata))
		return;
	if (access("/sys/module/pmusim/refcnt", R_OK))
		SKIP(return, "pmusim is built in");
}

FIXTURE_TEARDOWN(module)
{
}

TEST_F(module, each_open_event_holds_it)
{
	struct perf_event_attr attr;
	unsigned int i;
	int fd;

	for (i = 0; i < NR_PMUS; i++) {
		attr = sim_attr(pmus[i], 0);
		fd = sim_open(&attr, -1, 0, -1);
		ASSERT_LE(0, fd);
		EXPECT_EQ(-EAGAIN, unload());
		close(fd);
	}
}

TEST_F(module, a_mapping_of_the_registers_holds_it)
{
	int fd = open(SIM_DIR "/pmusim/counters", O_RDONLY);
	void *mem;

	ASSERT_LE(0, fd);
	EXPECT_EQ(-EAGAIN, unload());
	mem = mmap(NULL, page_size(), PROT_READ, MAP_SHARED, fd, 0);
	ASSERT_NE(MAP_FAILED, mem);
	close(fd);
	EXPECT_EQ(-EAGAIN, unload());
	munmap(mem, page_size());
}

TEST_HARNESS_MAIN
