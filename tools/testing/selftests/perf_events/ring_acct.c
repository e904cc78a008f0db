// SPDX-License-Identifier: GPL-2.0
/*
 * perf ring buffer selftests - the processes and users to which memory is charged
 *
 * A user has an allowance, perf_event_mlock_kb for each CPU. The excess is charged to the
 * process that maps first, under RLIMIT_MEMLOCK, and moves to the user if that process
 * unmaps while others keep the buffer. Each test has a user of its own, because a charge
 * that a kernel leaks stays until reboot.
 */
#define _GNU_SOURCE

#include <linux/capability.h>

#include "../kselftest_harness.h"
#include "ring_helpers.h"

#define MLOCK_KB	"/proc/sys/kernel/perf_event_mlock_kb"
#define PARANOID	"/proc/sys/kernel/perf_event_paranoid"
#define FIRST_UID	20000

FIXTURE(ring_acct)
{
	long mlock_kb;
	long paranoid;
	size_t allowance;	/* in pages */
	size_t big;		/* pages of data, twice the allowance at least */
	uid_t uid;
};

FIXTURE_SETUP(ring_acct)
{
	if (geteuid())
		SKIP(return, "needs root to become a user without limits in use");

	self->mlock_kb = read_number(MLOCK_KB);
	self->paranoid = read_number(PARANOID);
	ASSERT_LT(0, self->mlock_kb);
	ASSERT_EQ(0, write_number(PARANOID, 2));
	self->allowance = self->mlock_kb * 1024 / page_size() * sysconf(_SC_NPROCESSORS_ONLN);
	for (self->big = 1; self->big < 2 * self->allowance; self->big *= 2)
		;
	self->uid = FIRST_UID + getpid();
}

/* Run this in the parent, which is still root. */
FIXTURE_TEARDOWN_PARENT(ring_acct)
{
	write_number(MLOCK_KB, self->mlock_kb);
	write_number(PARANOID, self->paranoid);
}

static int open_fault_event(void)
{
	struct perf_event_attr attr = fault_attr();

	return event_open(&attr);
}

/* Tell whether the caller could map an event with @nr pages of data. */
static int try_map(size_t nr)
{
	int fd = open_fault_event(), ret;
	struct ring ring;

	if (fd < 0)
		return -errno;
	ret = ring_map(&ring, fd, nr);
	if (!ret)
		ring_unmap(&ring);
	close(fd);
	return ret;
}

/* Pinned memory in kB while such a mapping exists. */
static long pin_of(size_t nr)
{
	int fd = open_fault_event(), ret;
	struct ring ring;
	long kb;

	if (fd < 0)
		return -errno;
	ret = ring_map(&ring, fd, nr);
	kb = vm_pin_kb();
	if (!ret)
		ring_unmap(&ring);
	close(fd);
	return ret ? ret : kb;
}

static long pages_kb(size_t nr)
{
	return nr * page_size() / 1024;
}

/* Excess of @nr pages of data and the user page beyond the allowance. */
static long excess_kb(size_t nr, size_t allowance)
{
	return pages_kb(nr + 1 - allowance);
}

/*
 * A child in lockstep with the test: it runs a function, reports that, and waits for a
 * command to continue.
 */
struct helper {
	pid_t	pid;
	int	to[2];
	int	from[2];
};

static void helper_wait(struct helper *helper)
{
	char c = 'x';

	if (write(helper->from[1], &c, 1) != 1 || read(helper->to[0], &c, 1) != 1)
		_exit(2);
}

/* Returns true in the child. */
static bool helper_start(struct helper *helper)
{
	if (pipe(helper->to) || pipe(helper->from))
		return false;
	helper->pid = fork();
	if (!helper->pid) {
		close(helper->to[1]);
		close(helper->from[0]);
		return true;
	}
	close(helper->to[0]);
	close(helper->from[1]);
	return false;
}

static int helper_reached(struct helper *helper)
{
	char c;

	return read(helper->from[0], &c, 1) == 1 ? 0 : -1;
}

static int helper_go_on(struct helper *helper)
{
	return write(helper->to[1], "x", 1) == 1 ? 0 : -1;
}

/* Let the child run to its end and return its exit status. */
static int helper_end(struct helper *helper)
{
	int status = -1;

	close(helper->to[1]);
	close(helper->from[0]);
	waitpid(helper->pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static size_t pages_bytes(size_t nr)
{
	return nr * page_size();
}

TEST_F(ring_acct, allowance_is_exact)
{
	int cpus = sysconf(_SC_NPROCESSORS_ONLN), i;
	long page_kb = page_size() / 1024;
	struct ring ring;

	/* Allow nine pages for each CPU, for buffers of nine pages. */
	ASSERT_EQ(0, write_number(MLOCK_KB, 9 * page_kb));
	ASSERT_EQ(0, become_user(self->uid, 0));
	for (i = 0; i < cpus; i++)
		ASSERT_EQ(0, ring_map(&ring, open_fault_event(), 8));
	EXPECT_EQ(-EPERM, try_map(0));
	EXPECT_EQ(-EPERM, try_map(8));
	EXPECT_EQ(0, vm_pin_kb());
	ASSERT_EQ(0, ring_unmap(&ring));
	EXPECT_EQ(0, try_map(8));
	EXPECT_EQ(-EPERM, try_map(16));
}

TEST_F(ring_acct, limit_of_the_process_is_exact)
{
	size_t excess = self->big + 1 - self->allowance;

	ASSERT_EQ(0, become_user(self->uid, pages_bytes(excess)));
	EXPECT_EQ(0, try_map(self->big));
	ASSERT_EQ(0, set_memlock(pages_bytes(excess) - 1));
	EXPECT_EQ(-EPERM, try_map(self->big));
	EXPECT_EQ(0, try_map(1));
}

TEST_F(ring_acct, excess_is_pinned_while_it_is_mapped)
{
	struct ring ring;
	int fd;

	ASSERT_EQ(0, become_user(self->uid, pages_bytes(self->big + 1)));
	fd = open_fault_event();
	ASSERT_EQ(0, vm_pin_kb());
	ASSERT_EQ(0, ring_map(&ring, fd, self->big));
	EXPECT_EQ(excess_kb(self->big, self->allowance), vm_pin_kb());
	/* Closing the descriptor has no effect on the charge. */
	ASSERT_EQ(0, close(fd));
	EXPECT_EQ(excess_kb(self->big, self->allowance), vm_pin_kb());
	ASSERT_EQ(0, ring_unmap(&ring));
	EXPECT_EQ(0, vm_pin_kb());
}

TEST_F(ring_acct, allowance_that_shrinks_charges_the_process)
{
	struct ring first, second;
	struct helper helper;

	/* The child is root and changes the limit, because the parent is not permitted to. */
	if (helper_start(&helper)) {
		helper_wait(&helper);
		_exit(write_number(MLOCK_KB, page_size() / 1024) ? 1 : 0);
	}
	/* Begin with enough for any page size. */
	ASSERT_EQ(0, write_number(MLOCK_KB, pages_kb(64)));
	ASSERT_EQ(0, become_user(self->uid, pages_bytes(64)));
	ASSERT_EQ(0, ring_map(&first, open_fault_event(), 32));
	EXPECT_EQ(0, vm_pin_kb());
	ASSERT_EQ(0, helper_reached(&helper));
	ASSERT_EQ(0, helper_go_on(&helper));
	ASSERT_EQ(0, helper_end(&helper));
	/* The charge stays, and no further page fits. */
	ASSERT_EQ(0, ring_map(&second, open_fault_event(), 8));
	EXPECT_EQ(pages_kb(9), vm_pin_kb());
	ASSERT_EQ(0, ring_unmap(&second));
	EXPECT_EQ(0, vm_pin_kb());
	ASSERT_EQ(0, ring_unmap(&first));
	EXPECT_EQ(0, vm_pin_kb());
}

TEST_F(ring_acct, root_is_above_the_limits)
{
	ASSERT_EQ(0, set_memlock(0));
	/* The memory is counted. The rest of the system may use root's allowance. */
	EXPECT_LE(excess_kb(self->big, self->allowance), pin_of(self->big));
	EXPECT_EQ(0, vm_pin_kb());
}

TEST_F(ring_acct, not_paranoid_means_no_limit)
{
	ASSERT_EQ(0, write_number(PARANOID, -1));
	ASSERT_EQ(0, become_user(self->uid, 0));
	EXPECT_EQ(excess_kb(self->big, self->allowance), pin_of(self->big));
	EXPECT_EQ(0, vm_pin_kb());
}

/* Like become_user(), but keep root's capabilities in @mask. */
static int become_user_with(uid_t uid, __u64 mask)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
	unsigned int i;

	if (prctl(PR_SET_KEEPCAPS, 1) || become_user(uid, 0) ||
	    syscall(__NR_capget, &header, data))
		return -1;
	for (i = 0; i < _LINUX_CAPABILITY_U32S_3; i++) {
		data[i].permitted &= mask >> 32 * i;
		data[i].effective = data[i].permitted;
		data[i].inheritable = 0;
	}
	return syscall(__NR_capset, &header, data);
}

TEST_F(ring_acct, one_capability_lifts_the_limit)
{
	ASSERT_EQ(0, become_user_with(self->uid, 1ULL << CAP_IPC_LOCK));
	EXPECT_EQ(excess_kb(self->big, self->allowance), pin_of(self->big));
	EXPECT_EQ(0, vm_pin_kb());
	ASSERT_EQ(0, become_user_with(self->uid, 0));
	EXPECT_EQ(-EPERM, try_map(self->big));
}

TEST_F(ring_acct, all_other_capabilities_do_not)
{
	ASSERT_EQ(0, become_user_with(self->uid, ~(1ULL << CAP_IPC_LOCK)));
	EXPECT_EQ(-EPERM, try_map(self->big));
	EXPECT_EQ(0, try_map(1));
}

TEST_F(ring_acct, allowance_returns_after_each_mapping)
{
	int pages = 16 * sysconf(_SC_NPROCESSORS_ONLN), i, fd;
	struct ring first, second;

	ASSERT_EQ(0, write_number(MLOCK_KB, pages_kb(16)));
	ASSERT_EQ(0, become_user(self->uid, 0));
	for (i = 0; i < 200; i++) {
		fd = open_fault_event();
		ASSERT_EQ(0, ring_map(&first, fd, 8)) {
			TH_LOG("mapping %d", i);
		}
		ASSERT_EQ(0, ring_unmap(&first));
		close(fd);
	}
	/* Later kernels charge the second mapping and do not uncharge it. */
	for (i = 0; i < 200; i++) {
		fd = open_fault_event();
		ASSERT_EQ(0, ring_map(&first, fd, 8)) {
			TH_LOG("double mapping %d", i);
		}
		ASSERT_EQ(0, ring_map(&second, fd, 8));
		ASSERT_EQ(0, ring_unmap(i & 1 ? &first : &second));
		ASSERT_EQ(0, ring_unmap(i & 1 ? &second : &first));
		close(fd);
	}
	EXPECT_EQ(0, vm_pin_kb());
	/* The whole allowance is available again, to the page. */
	for (i = 0; i < pages; i++) {
		fd = open_fault_event();
		ASSERT_EQ(0, ring_map(&first, fd, 0)) {
			TH_LOG("page %d of %d", i, pages);
		}
		close(fd);
	}
	EXPECT_EQ(-EPERM, try_map(0));
	EXPECT_EQ(0, vm_pin_kb());
}

TEST_F(ring_acct, second_mapping_in_a_process_is_free)
{
	long want = excess_kb(self->big, self->allowance);
	size_t excess = self->big + 1 - self->allowance;
	struct ring first, second;
	int fd;

	ASSERT_EQ(0, become_user(self->uid, pages_bytes(excess)));
	fd = open_fault_event();
	ASSERT_EQ(0, ring_map(&first, fd, self->big));
	ASSERT_EQ(0, ring_map(&second, fd, self->big));
	EXPECT_EQ(want, vm_pin_kb());
	ASSERT_EQ(0, ring_unmap(&first));
	EXPECT_EQ(want, vm_pin_kb());
	ASSERT_EQ(0, ring_unmap(&second));
	EXPECT_EQ(0, vm_pin_kb());
}

TEST_F(ring_acct, moved_mapping_is_the_same_mapping)
{
	size_t size = (self->big + 1) * page_size();
	struct ring ring;
	void *place;

	ASSERT_EQ(0, become_user(self->uid, pages_bytes(self->big)));
	ASSERT_EQ(0, ring_map(&ring, open_fault_event(), self->big));
	place = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, place);
	ASSERT_EQ(place, mremap(ring.page, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, place));
	EXPECT_EQ(excess_kb(self->big, self->allowance), vm_pin_kb());
	ASSERT_EQ(0, munmap(place, size));
	EXPECT_EQ(0, vm_pin_kb());
}

/* A process that was charged, left and comes back is not charged again. */
TEST_F(ring_acct, payer_that_maps_again_is_not_charged_again)
{
	size_t excess = self->big + 1 - self->allowance;
	struct helper helper;
	struct ring ring;
	int fd;

	ASSERT_EQ(0, become_user(self->uid, pages_bytes(excess)));
	fd = open_fault_event();
	ASSERT_EQ(0, ring_map(&ring, fd, self->big));
	if (helper_start(&helper)) {
		if (ring_map(&ring, fd, self->big))
			_exit(1);
		helper_wait(&helper);
		_exit(vm_pin_kb() ? 2 : 0);
	}
	ASSERT_EQ(0, helper_reached(&helper));
	ASSERT_EQ(0, ring_unmap(&ring));
	EXPECT_EQ(0, vm_pin_kb());
	ASSERT_EQ(0, ring_map(&ring, fd, self->big));
	EXPECT_EQ(0, vm_pin_kb());
	EXPECT_EQ(-EPERM, try_map(0));
	ASSERT_EQ(0, helper_go_on(&helper));
	ASSERT_EQ(0, helper_end(&helper));
	EXPECT_EQ(-EPERM, try_map(0));
	ASSERT_EQ(0, ring_unmap(&ring));
	EXPECT_EQ(0, vm_pin_kb());
	EXPECT_EQ(0, try_map(self->big));
}

/* madvise() can make a child inherit the mapping. The child is not charged. */
TEST_F(ring_acct, copy_that_a_child_gets_costs_nothing)
{
	size_t size = (self->big + 1) * page_size();
	size_t excess = self->big + 1 - self->allowance;
	struct helper helper;
	struct ring ring;

	ASSERT_EQ(0, become_user(self->uid, pages_bytes(excess)));
	ASSERT_EQ(0, ring_map(&ring, open_fault_event(), self->big));
	ASSERT_EQ(0, madvise(ring.page, size, MADV_DOFORK));
	if (helper_start(&helper)) {
		if (vm_pin_kb())
			_exit(1);
		helper_wait(&helper);
		if (vm_pin_kb() || ring_head(&ring))
			_exit(3);
		if (munmap(ring.page, size) || vm_pin_kb())
			_exit(4);
		_exit(0);
	}
	ASSERT_EQ(0, helper_reached(&helper));
	EXPECT_EQ(excess_kb(self->big, self->allowance), vm_pin_kb());
	ASSERT_EQ(0, ring_unmap(&ring));
	EXPECT_EQ(0, vm_pin_kb());
	/* The child has the memory, so it is still charged to the user. */
	EXPECT_EQ(-EPERM, try_map(0));
	ASSERT_EQ(0, helper_go_on(&helper));
	EXPECT_EQ(0, helper_end(&helper));
	EXPECT_EQ(0, try_map(self->big));
}

FIXTURE(ring_shared)
{
	size_t allowance;
	size_t big;
	long excess_kb;
	uid_t uid;
};

/* Way in which the child drops its mapping. */
enum child_end {
	UNMAPS,
	EXITS,
	EXECS,
};

FIXTURE_VARIANT(ring_shared)
{
	bool child_is_first;
	bool child_goes_last;
	enum child_end end;
};

FIXTURE_VARIANT_ADD(ring_shared, parent_maps_child_unmaps_last) {
	.child_goes_last = true,
	.end = UNMAPS,
};

FIXTURE_VARIANT_ADD(ring_shared, parent_maps_and_unmaps_last) {
	.end = UNMAPS,
};

FIXTURE_VARIANT_ADD(ring_shared, child_maps_parent_unmaps_last) {
	.child_is_first = true,
	.end = UNMAPS,
};

FIXTURE_VARIANT_ADD(ring_shared, child_maps_and_unmaps_last) {
	.child_is_first = true,
	.child_goes_last = true,
	.end = UNMAPS,
};

FIXTURE_VARIANT_ADD(ring_shared, child_maps_first_and_exits) {
	.child_is_first = true,
	.end = EXITS,
};

FIXTURE_VARIANT_ADD(ring_shared, child_maps_first_and_exits_last) {
	.child_is_first = true,
	.child_goes_last = true,
	.end = EXITS,
};

FIXTURE_VARIANT_ADD(ring_shared, child_maps_last_and_exits) {
	.child_goes_last = true,
	.end = EXITS,
};

FIXTURE_VARIANT_ADD(ring_shared, child_maps_last_and_exits_first) {
	.end = EXITS,
};

FIXTURE_VARIANT_ADD(ring_shared, child_maps_first_and_execs) {
	.child_is_first = true,
	.end = EXECS,
};

FIXTURE_VARIANT_ADD(ring_shared, child_maps_first_and_execs_last) {
	.child_is_first = true,
	.child_goes_last = true,
	.end = EXECS,
};

FIXTURE_VARIANT_ADD(ring_shared, child_maps_last_and_execs) {
	.child_goes_last = true,
	.end = EXECS,
};

FIXTURE_VARIANT_ADD(ring_shared, child_maps_last_and_execs_first) {
	.end = EXECS,
};

FIXTURE_SETUP(ring_shared)
{
	if (geteuid())
		SKIP(return, "needs root to become a user without limits in use");
	self->allowance = read_number(MLOCK_KB) * 1024 / page_size() *
			  sysconf(_SC_NPROCESSORS_ONLN);
	for (self->big = 1; self->big < 2 * self->allowance; self->big *= 2)
		;
	self->excess_kb = excess_kb(self->big, self->allowance);
	self->uid = FIRST_UID + getpid();
	ASSERT_EQ(0, become_user(self->uid, pages_bytes(2 * self->big)));
}

FIXTURE_TEARDOWN(ring_shared)
{
}

static void child_of_shared(struct helper *helper, int fd, size_t big, long want,
			    enum child_end end)
{
	struct ring ring;

	if (ring_map(&ring, fd, big) || vm_pin_kb() != want)
		_exit(3);
	helper_wait(helper);
	/* This holds whatever the parent has done meanwhile. */
	if (vm_pin_kb() != want)
		_exit(4);
	if (end == EXECS) {
		execl("/proc/self/exe", "ring_acct", "--exec-probe", NULL);
		_exit(5);
	}
	if (end == UNMAPS && (ring_unmap(&ring) || vm_pin_kb()))
		_exit(6);
	_exit(0);
}

/* The process that maps first is charged, then its user, until both have unmapped. */
TEST_F(ring_shared, first_process_pays_until_the_buffer_is_gone)
{
	long of_child = variant->child_is_first ? self->excess_kb : 0;
	long of_parent = self->excess_kb - of_child;
	struct helper helper;
	struct ring ring;
	int fd;

	fd = open_fault_event();
	ASSERT_LE(0, fd);
	if (!variant->child_is_first)
		ASSERT_EQ(0, ring_map(&ring, fd, self->big));
	if (helper_start(&helper))
		child_of_shared(&helper, fd, self->big, of_child, variant->end);
	ASSERT_EQ(0, helper_reached(&helper));
	/* From now on there is room for the excess of one buffer. */
	ASSERT_EQ(0, set_memlock(pages_bytes(self->big + 1 - self->allowance)));
	if (variant->child_is_first) {
		EXPECT_EQ(0, vm_pin_kb());
		ASSERT_EQ(0, ring_map(&ring, fd, self->big));
	}
	EXPECT_EQ(of_parent, vm_pin_kb());

	if (variant->child_goes_last) {
		ASSERT_EQ(0, ring_unmap(&ring));
		EXPECT_EQ(0, vm_pin_kb());
		/* The child's mapping uses the allowance, and its charge the whole limit. */
		EXPECT_EQ(-EPERM, try_map(self->big));
		EXPECT_EQ(variant->child_is_first ? 0 : -EPERM, try_map(0));
	}
	ASSERT_EQ(0, helper_go_on(&helper));
	EXPECT_EQ(0, helper_end(&helper));
	if (!variant->child_goes_last) {
		EXPECT_EQ(of_parent, vm_pin_kb());
		/* The parent's mapping uses the allowance, and its charge the whole limit. */
		EXPECT_EQ(-EPERM, try_map(0));
		ASSERT_EQ(0, ring_unmap(&ring));
	}
	EXPECT_EQ(0, vm_pin_kb());
	/* The whole allowance and the whole limit are available again. */
	EXPECT_EQ(0, try_map(self->big));
}

TEST_F(ring_acct, second_process_needs_no_limit)
{
	struct helper helper;
	struct ring ring;
	int fd;

	ASSERT_EQ(0, become_user(self->uid, pages_bytes(self->big)));
	fd = open_fault_event();
	ASSERT_EQ(0, ring_map(&ring, fd, self->big));
	if (helper_start(&helper)) {
		if (set_memlock(0))
			_exit(255);
		_exit(ring_map(&ring, fd, self->big) ? 1 : !!vm_pin_kb());
	}
	EXPECT_EQ(0, helper_end(&helper));
	EXPECT_EQ(excess_kb(self->big, self->allowance), vm_pin_kb());
	ASSERT_EQ(0, ring_unmap(&ring));
	EXPECT_EQ(0, vm_pin_kb());
}

#define NR_PASSED	40

/*
 * A privileged profiler opens events, maps their buffers, and passes the descriptors to
 * the program that it observes, whose limit is small (async-profiler's --fdtransfer).
 * The profiler may end first.
 */
static void map_passed(struct __test_metadata *_metadata, FIXTURE_DATA(ring_acct) * self,
		       uid_t profilers_uid)
{
	const size_t limit = 64 << 10;
	struct helper profiler, program;
	struct ring rings[NR_PASSED];
	int fds[NR_PASSED], i;

	/* The allowance does not suffice for all buffers. */
	ASSERT_EQ(0, write_number(MLOCK_KB, pages_kb(16)));
	for (i = 0; i < NR_PASSED; i++) {
		fds[i] = open_fault_event();
		ASSERT_LE(0, fds[i]);
	}
	if (helper_start(&profiler)) {
		if (profilers_uid && become_user_with(profilers_uid, 1ULL << CAP_IPC_LOCK))
			_exit(1);
		for (i = 0; i < NR_PASSED; i++) {
			if (ring_map(&rings[i], fds[i], 8))
				_exit(2);
		}
		helper_wait(&profiler);
		_exit(0);
	}
	ASSERT_EQ(0, helper_reached(&profiler));
	if (helper_start(&program)) {
		if (become_user(self->uid, limit))
			_exit(1);
		for (i = 0; i < NR_PASSED; i++) {
			if (ring_map(&rings[i], fds[i], 8))
				_exit(10 + i);
		}
		if (vm_pin_kb())
			_exit(2);
		helper_wait(&program);
		if (vm_pin_kb())
			_exit(3);
		/* Buffers that the profiler left behind do not count against the limit. */
		if (try_map(0) || try_map(256) != -EPERM)
			_exit(4);
		_exit(0);
	}
	EXPECT_EQ(0, helper_reached(&program));
	ASSERT_EQ(0, helper_go_on(&profiler));
	EXPECT_EQ(0, helper_end(&profiler));
	helper_go_on(&program);
	EXPECT_EQ(0, helper_end(&program)) {
		TH_LOG("10 and more: the mapping that has failed, from 0 on");
	}
}

TEST_F(ring_acct, buffers_of_a_privileged_helper_are_mapped_without_a_limit)
{
	signal(SIGPIPE, SIG_IGN);
	map_passed(_metadata, self, 0);
}

/* In a container without a user namespace, both processes may be root for the kernel. */
TEST_F(ring_acct, privileged_helper_of_the_same_user_leaves_the_limit_alone)
{
	signal(SIGPIPE, SIG_IGN);
	map_passed(_metadata, self, self->uid);
}

/* Another user maps and keeps the buffer of a user. */
TEST_F(ring_acct, second_user_pays_nothing)
{
	size_t excess = self->big + 1 - self->allowance;
	uid_t second_uid = self->uid + 100000;
	struct helper first, second;
	struct ring ring;
	int fd, i;

	fd = open_fault_event();
	ASSERT_LE(0, fd);
	if (helper_start(&first)) {
		if (become_user(self->uid, pages_bytes(excess)) ||
		    ring_map(&ring, fd, self->big) ||
		    vm_pin_kb() != excess_kb(self->big, self->allowance))
			_exit(1);
		helper_wait(&first);
		_exit(0);
	}
	ASSERT_EQ(0, helper_reached(&first));
	if (helper_start(&second)) {
		if (become_user(second_uid, 0) || ring_map(&ring, fd, self->big) || vm_pin_kb())
			_exit(1);
		helper_wait(&second);
		/* The allowance of this user is not used. */
		if (try_map(self->big / 4) || try_map(self->big) != -EPERM)
			_exit(2);
		_exit(vm_pin_kb() ? 3 : 0);
	}
	ASSERT_EQ(0, helper_reached(&second));
	ASSERT_EQ(0, helper_go_on(&first));
	EXPECT_EQ(0, helper_end(&first));
	/* The first user is charged until the second one unmaps. */
	for (i = 0; i < 2; i++) {
		if (helper_start(&first)) {
			if (become_user(self->uid, pages_bytes(excess)))
				_exit(1);
			_exit(-(i ? try_map(self->big) : try_map(0)));
		}
		EXPECT_EQ(i ? 0 : EPERM, helper_end(&first));
		if (!i) {
			ASSERT_EQ(0, helper_go_on(&second));
			EXPECT_EQ(0, helper_end(&second));
		}
	}
}

/*
 * The helper maps first and is charged, and the caller unmaps last and is credited:
 * after a few rounds, the caller could lock any amount.
 */
TEST_F(ring_acct, limit_holds_after_hand_overs)
{
	struct helper helper;
	struct ring ring;
	int fd, i;

	ASSERT_EQ(0, become_user(self->uid, pages_bytes(self->big)));
	EXPECT_EQ(-EPERM, try_map(4 * self->big));
	for (i = 0; i < 5; i++) {
		fd = open_fault_event();
		if (helper_start(&helper)) {
			if (ring_map(&ring, fd, self->big))
				_exit(1);
			helper_wait(&helper);
			_exit(0);
		}
		ASSERT_EQ(0, helper_reached(&helper));
		ASSERT_EQ(0, ring_map(&ring, fd, self->big));
		ASSERT_EQ(0, helper_go_on(&helper));
		ASSERT_EQ(0, helper_end(&helper));
		ASSERT_EQ(0, ring_unmap(&ring));
		close(fd);
	}
	EXPECT_EQ(0, vm_pin_kb());
	EXPECT_EQ(-EPERM, try_map(4 * self->big));
}

/* A helper for each buffer is charged for it, passes it on, and exits. */
TEST_F(ring_acct, limit_holds_for_buffers_of_helpers_that_are_gone)
{
	struct ring rings[4];
	int fd, i, nr = 0, ret = 0;
	struct helper helper;

	/* The limit suffices for the first buffer. */
	ASSERT_EQ(0, become_user(self->uid, pages_bytes(self->big)));
	for (i = 0; i < 4 && !ret; i++) {
		fd = open_fault_event();
		if (helper_start(&helper)) {
			ret = ring_map(&rings[i], fd, self->big / 2);
			helper_wait(&helper);
			_exit(-ret);
		}
		ASSERT_EQ(0, helper_reached(&helper));
		ret = ring_map(&rings[i], fd, self->big / 2);
		nr += !ret;
		ASSERT_EQ(0, helper_go_on(&helper));
		ret = helper_end(&helper);
	}
	EXPECT_EQ(EPERM, ret);
	EXPECT_GE(3, nr);
	EXPECT_LE(2, nr);
	EXPECT_GE(pages_kb(self->big), vm_pin_kb());
	for (i = 0; i < nr; i++)
		ASSERT_EQ(0, ring_unmap(&rings[i]));
	EXPECT_EQ(0, vm_pin_kb());
	EXPECT_EQ(0, try_map(self->big));
}

static int map_and_unmap(int fd, size_t nr, unsigned int rounds)
{
	struct ring ring;

	while (rounds--) {
		if (ring_map(&ring, fd, nr) || ring_unmap(&ring) || vm_pin_kb())
			return 1;
	}
	return 0;
}

/* Each process is charged again and again, and the charge moves in the middle of it. */
TEST_F_TIMEOUT(ring_acct, processes_that_race_leave_nothing_charged, 300)
{
	int fd, status, i;
	pid_t pids[4];

	/* Buffers that are being freed are charged, too. */
	ASSERT_EQ(0, become_user(self->uid, pages_bytes(6 * self->big)));
	fd = open_fault_event();
	for (i = 0; i < 4; i++) {
		pids[i] = fork();
		ASSERT_LE(0, pids[i]);
		if (!pids[i])
			_exit(map_and_unmap(fd, self->big, 300));
	}
	for (i = 0; i < 4; i++) {
		ASSERT_EQ(pids[i], waitpid(pids[i], &status, 0));
		EXPECT_EQ(0, status);
	}
	EXPECT_EQ(0, vm_pin_kb());
	ASSERT_EQ(0, set_memlock(pages_bytes(self->big + 1 - self->allowance)));
	EXPECT_EQ(0, try_map(self->big));
}

TEST_F(ring_acct, exec_ends_what_was_charged)
{
	struct helper helper;
	struct ring ring;

	ASSERT_EQ(0, become_user(self->uid, pages_bytes(self->big)));
	if (helper_start(&helper)) {
		if (ring_map(&ring, open_fault_event(), self->big))
			_exit(1);
		/* The mm is gone with the exec, and the allowance must be free again. */
		execl("/proc/self/exe", "ring_acct", "--exec-probe", NULL);
		_exit(2);
	}
	EXPECT_EQ(0, helper_end(&helper));
	EXPECT_EQ(0, try_map(self->big));
}

/* Program of a child that mapped a buffer: the same amount can be mapped again. */
static int exec_probe(void)
{
	size_t allowance, big;

	allowance = read_number(MLOCK_KB) * 1024 / page_size() * sysconf(_SC_NPROCESSORS_ONLN);
	for (big = 1; big < 2 * allowance; big *= 2)
		;
	return vm_pin_kb() ? 1 : -try_map(big);
}

static void __attribute__((constructor)) maybe_exec_probe(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "--exec-probe"))
		_exit(exec_probe());
}

TEST_HARNESS_MAIN
