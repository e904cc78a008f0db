// SPDX-License-Identifier: GPL-2.0
/* perfmon selftests - presence of the system calls, on any kernel */
#define _GNU_SOURCE
#include "../kselftest_harness.h"
#include "perfmon_helpers.h"

TEST(calls_of_later_kernels_are_absent)
{
	int nr;

	for (nr = PFM_NR(0) - 10; nr < PFM_NR(0); nr++) {
		EXPECT_EQ(-1, syscall(nr, 0, 0, 0, 0, 0, 0));
		EXPECT_EQ(ENOSYS, errno);
	}
	EXPECT_EQ(-1, syscall(PFM_NR(12), 0, 0, 0, 0, 0, 0));
	EXPECT_EQ(ENOSYS, errno);
}

/* The arguments do not matter: they may be nonsense, or would create a context. */
TEST(all_twelve_calls_are_there_or_none)
{
	bool there = !access("/sys/kernel/pfm", F_OK);
	bool entry32 = has_call32();
	struct pfarg_ctx ctx = { };
	int i;

	for (i = 0; i < 12; i++) {
		long bad = pfm_ret(syscall(PFM_NR(i), -1, 8, -1, 8));

		EXPECT_EQ(there, bad != -ENOSYS) TH_LOG("call %d gives %ld", i, bad);
		if (!entry32)
			continue;
		bad = call32(i, -1, 8, -1, 8);
		EXPECT_EQ(there, bad != -ENOSYS) TH_LOG("32-bit call %d gives %ld", i, bad);
	}
	EXPECT_EQ(there, pfm_create(&ctx, NULL, NULL, 0) >= 0);
}

TEST_HARNESS_MAIN
