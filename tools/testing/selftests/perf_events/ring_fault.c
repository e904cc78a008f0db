// SPDX-License-Identifier: GPL-2.0
/*
 * perf ring buffer selftests - every allocation that can fail, failing
 *
 * fail-nth lets the n-th allocation of one system call fail. A call is repeated with
 * n = 1, 2, ... until it has fewer allocations than n: each failure must be a clean
 * ENOMEM that leaves nothing charged, and what follows must work. A kernel with
 * CONFIG_FAULT_INJECTION_USERCOPY counts copies from and to the user, too: they fail
 * with EFAULT.
 */
#define _GNU_SOURCE

#include "../kselftest_harness.h"
#include "ring_aux_helpers.h"
#include "ring_fault_helpers.h"

#define MLOCK_KB	"/proc/sys/kernel/perf_event_mlock_kb"
#define FAULT_UID	30000
#define FAULT_PAGES	64
#define MAX_ALLOCATIONS	2000
#define USERCOPY	"/sys/kernel/debug/fail_usercopy"

enum fault_step {
	FAULT_OPEN,
	FAULT_MMAP,
	FAULT_MMAP_AGAIN,
	FAULT_SET_OUTPUT,
	FAULT_ENABLE,
	FAULT_AUX_MMAP,
	FAULT_AUX_MMAP_AGAIN,
	FAULT_AUX_ENABLE,
	FAULT_AUX_SNAPSHOT,
};

FIXTURE(ring_fault)
{
	struct perf_event_attr attr;
	struct ring ring;
	long mlock_kb;
	long pinned;
	bool usercopy;
	int nth_fd;
	int fd;
};

FIXTURE_VARIANT(ring_fault)
{
	enum fault_step step;
	bool inherit;
	/* The user has an allowance, which covers everything. */
	bool allowance;
};

FIXTURE_VARIANT_ADD(ring_fault, open) {
	.step = FAULT_OPEN,
};

FIXTURE_VARIANT_ADD(ring_fault, open_inherited) {
	.step = FAULT_OPEN,
	.inherit = true,
};

FIXTURE_VARIANT_ADD(ring_fault, mmap) {
	.step = FAULT_MMAP,
};

FIXTURE_VARIANT_ADD(ring_fault, second_mmap) {
	.step = FAULT_MMAP_AGAIN,
};

FIXTURE_VARIANT_ADD(ring_fault, set_output) {
	.step = FAULT_SET_OUTPUT,
};

FIXTURE_VARIANT_ADD(ring_fault, enable) {
	.step = FAULT_ENABLE,
};

FIXTURE_VARIANT_ADD(ring_fault, aux_mmap) {
	.step = FAULT_AUX_MMAP,
};

FIXTURE_VARIANT_ADD(ring_fault, second_aux_mmap) {
	.step = FAULT_AUX_MMAP_AGAIN,
};

FIXTURE_VARIANT_ADD(ring_fault, aux_enable) {
	.step = FAULT_AUX_ENABLE,
};

FIXTURE_VARIANT_ADD(ring_fault, aux_snapshot) {
	.step = FAULT_AUX_SNAPSHOT,
};

FIXTURE_VARIANT_ADD(ring_fault, mmap_within_the_allowance) {
	.step = FAULT_MMAP,
	.allowance = true,
};

FIXTURE_VARIANT_ADD(ring_fault, second_mmap_within_the_allowance) {
	.step = FAULT_MMAP_AGAIN,
	.allowance = true,
};

FIXTURE_VARIANT_ADD(ring_fault, aux_mmap_within_the_allowance) {
	.step = FAULT_AUX_MMAP,
	.allowance = true,
};

FIXTURE_VARIANT_ADD(ring_fault, second_aux_mmap_within_the_allowance) {
	.step = FAULT_AUX_MMAP_AGAIN,
	.allowance = true,
};

/* Size in kB of a buffer of FAULT_PAGES and its user page for each CPU. */
static long allowance_kb(void)
{
	return (FAULT_PAGES + 1) * page_size() / 1024;
}

FIXTURE_SETUP(ring_fault)
{
	if (variant->step >= FAULT_AUX_MMAP && pmu_type("pmusim_aux") < 0)
		SKIP(return, "no PMU pmusim_aux, CONFIG_PERF_PMUSIM has it");
	self->nth_fd = open("/proc/self/fail-nth", O_RDWR);
	if (self->nth_fd < 0)
		SKIP(return, "needs CONFIG_FAULT_INJECTION, FAILSLAB and FAIL_PAGE_ALLOC");
	if (geteuid())
		SKIP(return, "needs root to choose what fails");
	if (fault_setup())
		SKIP(return, "needs CONFIG_FAULT_INJECTION_DEBUG_FS");
	self->usercopy = !write_number(USERCOPY "/verbose", 0);
	/* Everything is beyond the allowance, which is 0. */
	self->mlock_kb = read_number(MLOCK_KB);
	ASSERT_EQ(0, write_number(MLOCK_KB, variant->allowance ? allowance_kb() : 0));
	ASSERT_EQ(0, mlockall(MCL_CURRENT));
	self->attr = fault_attr();
	if (variant->step >= FAULT_AUX_MMAP) {
		self->attr = aux_attr("pmusim_aux");
		self->attr.exclude_kernel = 1;
	}
	ASSERT_EQ(0, become_user(FAULT_UID + getpid(), 8 * FAULT_PAGES * page_size()));
	self->pinned = vm_pin_kb();
}

FIXTURE_TEARDOWN_PARENT(ring_fault)
{
	if (self->mlock_kb)
		write_number(MLOCK_KB, self->mlock_kb);
}

struct fault_state {
	struct perf_event_attr	*attr;
	struct ring		ring;
	struct ring		again;
	struct aux_area		area;
	struct aux_area		area_again;
	int			owner;
	int			guest;
};

static int map_area(struct aux_area *area, struct fault_state *state)
{
	return aux_map(area, &state->ring, state->owner, FAULT_PAGES, PROT_READ);
}

static int prepare(struct fault_state *state, enum fault_step step)
{
	int ret;

	state->owner = -1;
	state->guest = -1;
	state->ring.page = NULL;
	state->again.page = NULL;
	state->area.data = NULL;
	state->area_again.data = NULL;
	if (step == FAULT_OPEN)
		return 0;
	state->owner = event_open(state->attr);
	if (state->owner < 0)
		return -errno;
	if (step == FAULT_MMAP)
		return 0;
	if (step == FAULT_SET_OUTPUT) {
		state->guest = event_open(state->attr);
		if (state->guest < 0)
			return -errno;
	}
	ret = ring_map(&state->ring, state->owner, FAULT_PAGES);
	if (ret || step <= FAULT_AUX_MMAP)
		return ret;
	ret = map_area(&state->area, state);
	if (!ret && step == FAULT_AUX_SNAPSHOT)
		ret = event_enable(state->owner);
	return ret;
}

static int act(struct fault_state *state, enum fault_step step)
{
	struct perf_event_aux_snapshot snap = { .size = sizeof(snap) };

	switch (step) {
	case FAULT_OPEN:
		state->owner = event_open(state->attr);
		return state->owner < 0 ? -errno : 0;
	case FAULT_MMAP:
		return ring_map(&state->ring, state->owner, FAULT_PAGES);
	case FAULT_MMAP_AGAIN:
		return ring_map(&state->again, state->owner, FAULT_PAGES);
	case FAULT_SET_OUTPUT:
		return event_ioctl(state->guest, PERF_EVENT_IOC_SET_OUTPUT, state->owner);
	case FAULT_ENABLE:
	case FAULT_AUX_ENABLE:
		return event_enable(state->owner);
	case FAULT_AUX_MMAP:
		return map_area(&state->area, state);
	case FAULT_AUX_MMAP_AGAIN:
		return map_area(&state->area_again, state);
	case FAULT_AUX_SNAPSHOT:
		return event_ioctl(state->owner, PERF_EVENT_IOC_AUX_SNAPSHOT,
				   (unsigned long)&snap);
	}
	return -EINVAL;
}

static void undo(struct fault_state *state)
{
	if (state->area_again.data)
		aux_unmap(&state->area_again);
	if (state->area.data)
		aux_unmap(&state->area);
	if (state->again.page)
		ring_unmap(&state->again);
	if (state->ring.page)
		ring_unmap(&state->ring);
	if (state->guest >= 0)
		close(state->guest);
	if (state->owner >= 0)
		close(state->owner);
}

static int try_map(struct perf_event_attr *attr, size_t nr)
{
	struct ring ring;

	return ring_map(&ring, event_open(attr), nr);
}

/* Number of buffers of FAULT_PAGES that fit into the allowance, after which no page does. */
static long buffers_in_allowance(void)
{
	struct perf_event_attr attr = fault_attr();
	long nr = 0;

	if (set_memlock(0))
		return -1;
	while (!try_map(&attr, FAULT_PAGES))
		nr++;
	return try_map(&attr, 0) == -EPERM ? nr : -1;
}

TEST_F(ring_fault, failed_allocation_is_enomem_and_leaves_nothing)
{
	struct fault_state state = { .attr = &self->attr };
	unsigned int failed = 0;
	int nth, ret, left;

	self->attr.inherit = variant->inherit;
	for (nth = 1; nth < MAX_ALLOCATIONS; nth++) {
		ASSERT_EQ(0, prepare(&state, variant->step));
		ASSERT_EQ(0, fail_nth(self->nth_fd, nth));
		ret = act(&state, variant->step);
		left = nth_end(self->nth_fd);
		ASSERT_LE(0, left);
		/* The failure of an allocation for a cache has no effect. */
		if (ret) {
			ASSERT_TRUE(ret == -ENOMEM || (self->usercopy && ret == -EFAULT)) {
				TH_LOG("allocation %d: error %d", nth, -ret);
			}
			ASSERT_EQ(0, left);
			failed++;
		}
		undo(&state);
		ASSERT_EQ(self->pinned, vm_pin_kb()) {
			TH_LOG("allocation %d", nth);
		}
		if (left)
			break;
	}
	ASSERT_GT(MAX_ALLOCATIONS, nth);
	TH_LOG("%d allocations, %u of which were missed", nth - 1, failed);
	if (variant->step != FAULT_SET_OUTPUT && variant->step != FAULT_ENABLE &&
	    variant->step != FAULT_AUX_ENABLE)
		EXPECT_LT(0, failed);
	/* Without a failure the call succeeds, so all charges were undone. */
	ASSERT_EQ(0, prepare(&state, variant->step));
	EXPECT_EQ(0, act(&state, variant->step));
	undo(&state);
	EXPECT_EQ(self->pinned, vm_pin_kb());
	if (variant->allowance)
		EXPECT_EQ(sysconf(_SC_NPROCESSORS_ONLN), buffers_in_allowance());
}

TEST_HARNESS_MAIN
