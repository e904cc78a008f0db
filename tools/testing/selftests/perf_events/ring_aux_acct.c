// SPDX-License-Identifier: GPL-2.0
/* perf ring buffer selftests - charge, size and position of an AUX area */
#define _GNU_SOURCE

#include <sys/sysinfo.h>

#include "../kselftest_harness.h"
#include "ring_aux_helpers.h"

#define MLOCK_KB	"/proc/sys/kernel/perf_event_mlock_kb"
#define AUX_UID		50000
#define DATA_PAGES	4
#define AUX_PAGES	64
#define PROT_RW		(PROT_READ | PROT_WRITE)

FIXTURE(ring_aux_acct)
{
	struct perf_event_attr attr;
	struct ring ring;
	struct aux_area area;
	long mlock_kb;
	long data_kb;
	long aux_kb;
	int fd;
};

FIXTURE_SETUP(ring_aux_acct)
{
	self->fd = -1;
	if (pmu_type("pmusim_aux") < 0)
		SKIP(return, "no PMU pmusim_aux, CONFIG_PERF_PMUSIM has it");
	if (geteuid())
		SKIP(return, "needs root to open the event and to become a user");
	self->mlock_kb = read_number(MLOCK_KB);
	ASSERT_EQ(0, write_number(MLOCK_KB, 0));
	self->data_kb = (DATA_PAGES + 1) * page_size() / 1024;
	self->aux_kb = AUX_PAGES * page_size() / 1024;
	self->attr = aux_attr("pmusim_aux");
	self->fd = event_open_on(&self->attr, -1, 0);
	ASSERT_LE(0, self->fd);
}

FIXTURE_TEARDOWN_PARENT(ring_aux_acct)
{
	if (self->mlock_kb)
		write_number(MLOCK_KB, self->mlock_kb);
}

TEST_F(ring_aux_acct, area_is_charged_as_data_is)
{
	ASSERT_EQ(0, become_user(AUX_UID + getpid(), (self->data_kb + self->aux_kb) * 1024));
	ASSERT_EQ(0, ring_map(&self->ring, self->fd, DATA_PAGES));
	EXPECT_EQ(self->data_kb, vm_pin_kb());
	EXPECT_EQ(-EPERM, aux_map(&self->area, &self->ring, self->fd, 2 * AUX_PAGES, PROT_RW));
	EXPECT_EQ(self->data_kb, vm_pin_kb());
	ASSERT_EQ(0, aux_map(&self->area, &self->ring, self->fd, AUX_PAGES, PROT_RW));
	EXPECT_EQ(self->data_kb + self->aux_kb, vm_pin_kb());
	ASSERT_EQ(0, aux_unmap(&self->area));
	EXPECT_EQ(self->data_kb, vm_pin_kb());
	ASSERT_EQ(0, ring_unmap(&self->ring));
	EXPECT_EQ(0, vm_pin_kb());
}

/* Otherwise the data pages would not be charged. */
TEST_F(ring_aux_acct, area_keeps_the_charge_of_the_data)
{
	ASSERT_EQ(0, become_user(AUX_UID + getpid(), (self->data_kb + self->aux_kb) * 1024));
	ASSERT_EQ(0, ring_map(&self->ring, self->fd, DATA_PAGES));
	ASSERT_EQ(0, aux_map(&self->area, &self->ring, self->fd, AUX_PAGES, PROT_RW));
	ASSERT_EQ(0, ring_unmap(&self->ring));
	EXPECT_EQ(self->data_kb + self->aux_kb, vm_pin_kb());
	ASSERT_EQ(0, aux_unmap(&self->area));
	EXPECT_EQ(0, vm_pin_kb());
}

/* Map the area alone, read-only, of @nr pages. */
static void *map_area(int fd, size_t nr)
{
	return mmap(NULL, nr * page_size(), PROT_READ, MAP_SHARED, fd,
		    (1 + DATA_PAGES) * page_size());
}

/* A child in lockstep maps the area only, and is not charged. */
static void child_of_area(int fd, int ready, int go)
{
	void *area;
	char c;

	if (set_memlock(0))
		_exit(1);
	area = map_area(fd, AUX_PAGES);
	if (area == MAP_FAILED || vm_pin_kb())
		_exit(2);
	if (write(ready, "r", 1) != 1 || read(go, &c, 1) < 0)
		_exit(3);
	if (vm_pin_kb() || munmap(area, AUX_PAGES * page_size()) || vm_pin_kb())
		_exit(4);
	_exit(0);
}

TEST_F(ring_aux_acct, second_process_pays_for_neither)
{
	int status, ready[2], go[2], other;
	struct aux_area area;
	struct ring ring;
	pid_t pid;
	char c;

	other = event_open_on(&self->attr, -1, 0);
	ASSERT_LE(0, other);
	ASSERT_EQ(0, become_user(AUX_UID + getpid(), (self->data_kb + self->aux_kb) * 1024));
	ASSERT_EQ(0, ring_map(&self->ring, self->fd, DATA_PAGES));
	ASSERT_EQ(0, aux_map(&self->area, &self->ring, self->fd, AUX_PAGES, PROT_RW));
	ASSERT_EQ(0, pipe(ready));
	ASSERT_EQ(0, pipe(go));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		close(go[1]);
		child_of_area(self->fd, ready[1], go[0]);
	}
	close(ready[1]);
	ASSERT_EQ(1, read(ready[0], &c, 1));
	EXPECT_EQ(self->data_kb + self->aux_kb, vm_pin_kb());

	/* The child uses the area, so both stay charged to the user. */
	ASSERT_EQ(0, aux_unmap(&self->area));
	EXPECT_EQ(self->data_kb, vm_pin_kb());
	ASSERT_EQ(0, ring_unmap(&self->ring));
	EXPECT_EQ(0, vm_pin_kb());
	EXPECT_EQ(-EPERM, ring_map(&ring, other, 0));

	close(go[1]);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	ASSERT_EQ(0, ring_map(&ring, other, DATA_PAGES));
	EXPECT_EQ(0, aux_map(&area, &ring, other, AUX_PAGES, PROT_RW));
	EXPECT_EQ(self->data_kb + self->aux_kb, vm_pin_kb());
}

/* A helper for each area is charged for it, passes it on, and exits. */
TEST_F(ring_aux_acct, limit_holds_for_areas_of_helpers_that_are_gone)
{
	int fds[4], status, nr = 0, ready[2], go[2];
	size_t i;
	pid_t pid;
	char c;

	for (i = 0; i < ARRAY_SIZE(fds); i++) {
		fds[i] = event_open_on(&self->attr, -1, 0);
		ASSERT_LE(0, fds[i]);
	}
	/* The limit suffices for two areas. */
	ASSERT_EQ(0, become_user(AUX_UID + getpid(), 2 * (self->data_kb + self->aux_kb) * 1024));
	for (i = 0; i < ARRAY_SIZE(fds); i++) {
		ASSERT_EQ(0, pipe(ready));
		ASSERT_EQ(0, pipe(go));
		pid = fork();
		ASSERT_LE(0, pid);
		if (!pid) {
			close(go[1]);
			if (ring_map(&self->ring, fds[i], DATA_PAGES) ||
			    aux_map(&self->area, &self->ring, fds[i], AUX_PAGES, PROT_RW))
				_exit(errno);
			if (write(ready[1], "r", 1) != 1 || read(go[0], &c, 1) < 0)
				_exit(255);
			_exit(0);
		}
		close(ready[1]);
		close(go[0]);
		if (read(ready[0], &c, 1) == 1 && map_area(fds[i], AUX_PAGES) != MAP_FAILED)
			nr++;
		close(go[1]);
		close(ready[0]);
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		ASSERT_TRUE(WIFEXITED(status));
		EXPECT_EQ(i < 2 ? 0 : EPERM, WEXITSTATUS(status));
	}
	EXPECT_EQ(2, nr);
	EXPECT_EQ(0, vm_pin_kb());
}

/* Map the area of one user in the buffer of another one. */
TEST_F(ring_aux_acct, each_user_gets_his_own_back)
{
	uid_t first = AUX_UID + getpid(), second = first + 100000;
	size_t too_many = 1;
	int status, i;
	pid_t pid;

	/* Set an allowance of the area's size for each CPU. */
	ASSERT_EQ(0, write_number(MLOCK_KB, self->aux_kb));
	for (i = 0; i < 20; i++) {
		pid = fork();
		ASSERT_LE(0, pid);
		if (!pid) {
			/*
			 * Root opens the event, the first user maps the data, the
			 * second one the area.
			 */
			if (setresuid(first, first, 0) || set_memlock(0) ||
			    ring_map(&self->ring, self->fd, DATA_PAGES))
				_exit(1);
			if (setresuid(0, 0, 0) || setresuid(second, second, 0))
				_exit(2);
			if (aux_map(&self->area, &self->ring, self->fd, AUX_PAGES, PROT_RW))
				_exit(3);
			if (vm_pin_kb() || aux_unmap(&self->area) || ring_unmap(&self->ring))
				_exit(4);
			_exit(0);
		}
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		ASSERT_EQ(0, status) {
			TH_LOG("round %d", i);
		}
	}
	/* The charge of the second user was not credited to the first one. */
	while (too_many < AUX_PAGES * (size_t)sysconf(_SC_NPROCESSORS_ONLN))
		too_many *= 2;
	ASSERT_EQ(0, become_user(first, 0));
	EXPECT_EQ(-EPERM, ring_map(&self->ring, self->fd, too_many));
}

/* The offset needs more than 32 bits. */
TEST_F(ring_aux_acct, hole_of_a_tebibyte_costs_nothing)
{
	size_t far = 1UL << 40, size = AUX_PAGES * page_size();

	ASSERT_EQ(0, ring_map(&self->ring, self->fd, DATA_PAGES));
	ASSERT_EQ(0, aux_map_at(&self->area, &self->ring, self->fd, far, size, PROT_RW));
	EXPECT_EQ(self->data_kb + self->aux_kb, vm_pin_kb());
	ASSERT_EQ(0, event_enable(self->fd));
	ASSERT_EQ(0, aux_tick(size - 8));
	ASSERT_EQ(0, event_disable(self->fd));
	EXPECT_EQ(size - 8, aux_head(&self->ring));
	EXPECT_TRUE(aux_holds(&self->area, 0, size - 8));
	ASSERT_EQ(0, aux_unmap(&self->area));
	EXPECT_EQ(self->data_kb, vm_pin_kb());
}

TEST_F(ring_aux_acct, area_is_not_in_core_dumps)
{
	int dontdump;

	ASSERT_EQ(0, ring_map(&self->ring, self->fd, DATA_PAGES));
	ASSERT_EQ(0, aux_map(&self->area, &self->ring, self->fd, AUX_PAGES, PROT_RW));
	ASSERT_EQ(-1, madvise(self->area.data, self->area.size, MADV_DODUMP));
	ASSERT_EQ(EINVAL, errno);
	dontdump = vm_has_flag(self->area.data, "dd");
	if (dontdump < 0)
		SKIP(return, "no VmFlags, CONFIG_PROC_PAGE_MONITOR has them");
	EXPECT_EQ(1, dontdump);
}

TEST_F(ring_aux_acct, more_than_the_memory_is_enomem)
{
	size_t pages = 1;

	while (pages * page_size() <= (size_t)sysconf(_SC_PHYS_PAGES) * page_size())
		pages *= 2;
	ASSERT_EQ(0, ring_map(&self->ring, self->fd, DATA_PAGES));
	EXPECT_EQ(-ENOMEM, aux_map(&self->area, &self->ring, self->fd, pages, PROT_READ));
	EXPECT_EQ(-ENOMEM, aux_map(&self->area, &self->ring, self->fd, 1UL << 30, PROT_READ));
	EXPECT_EQ(self->data_kb, vm_pin_kb());
	EXPECT_EQ(0, aux_map(&self->area, &self->ring, self->fd, AUX_PAGES, PROT_READ));
}

static long switches(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_nivcsw;
}

/* A rival task that needs this CPU again and again, with precedence. */
static pid_t start_rival(void)
{
	struct sched_param param = { .sched_priority = 1 };
	cpu_set_t set;
	pid_t pid;

	CPU_ZERO(&set);
	CPU_SET(0, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		return -1;
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (sched_setscheduler(0, SCHED_FIFO, &param))
			_exit(1);
		for (;;)
			usleep(100);
	}
	return pid;
}

/*
 * A call that never yields the CPU is preempted only at its entry, at its exit and
 * where it releases a lock. On a busy machine that may happen more often, and the rival
 * may oversleep, so three calls of five decide.
 */
#define A_FEW_SWITCHES	10

struct votes {
	unsigned int	many;
	unsigned int	few;
	long		last;
};

static void vote(struct votes *votes, long before)
{
	votes->last = switches() - before;
	if (votes->last > A_FEW_SWITCHES)
		votes->many++;
	else
		votes->few++;
}

static bool has_majority(const struct votes *votes)
{
	return votes->many >= 3 || votes->few >= 3;
}

/* Number of pages: up to 512 MB, but at most a third of the free memory */
static size_t many_pages(void)
{
	size_t pages = 1, bytes = get_avphys_pages() * page_size() / 3;

	while (2 * pages * page_size() <= bytes && pages * page_size() < 512UL << 20)
		pages *= 2;
	return pages * page_size() < 64UL << 20 ? 0 : pages;
}

/* Each call takes much longer than the rival sleeps. */
TEST_F_TIMEOUT(ring_aux_acct, others_run_while_it_is_allocated_and_freed, 300)
{
	struct votes area = { }, freed = { }, data = { };
	size_t pages = many_pages();
	struct ring large;
	long before;
	pid_t rival;
	int fd;

	if (!pages)
		SKIP(return, "needs 192 MB of free memory");
	ASSERT_EQ(0, ring_map(&self->ring, self->fd, DATA_PAGES));
	rival = start_rival();
	ASSERT_LT(0, rival);
	while (!has_majority(&area) || !has_majority(&freed)) {
		sched_yield();
		before = switches();
		ASSERT_EQ(0, aux_map(&self->area, &self->ring, self->fd, pages, PROT_READ));
		vote(&area, before);
		sched_yield();
		before = switches();
		ASSERT_EQ(0, aux_unmap(&self->area));
		vote(&freed, before);
	}
	while (!has_majority(&data)) {
		fd = event_open_on(&self->attr, -1, 0);
		ASSERT_LE(0, fd);
		sched_yield();
		before = switches();
		ASSERT_EQ(0, ring_map(&large, fd, pages));
		vote(&data, before);
		ASSERT_EQ(0, ring_unmap(&large));
		close(fd);
	}
	kill(rival, SIGKILL);
	waitpid(rival, NULL, 0);
	TH_LOG("%zu pages: switched from %ld, %ld and %ld times", pages, area.last,
	       freed.last, data.last);
	EXPECT_LT(area.few, area.many);
	EXPECT_LT(freed.few, freed.many);
	EXPECT_LT(data.few, data.many);
}

/* Start a process that maps the given amount and exits. */
static pid_t start_mapping(int fd, size_t pages)
{
	struct aux_area area;
	struct ring ring;
	pid_t pid = fork();

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		run_on(0);
		_exit(ring_map(&ring, fd, DATA_PAGES) ||
		      aux_map(&area, &ring, fd, pages, PROT_READ));
	}
	return pid;
}

/*
 * The sampling of free memory may miss it on a busy machine, so three processes of five
 * decide. Memory of the previous process may be freed late, so take the maximum that
 * was free since the start.
 */
TEST_F_TIMEOUT(ring_aux_acct, process_that_is_killed_takes_no_more, 300)
{
	size_t pages = many_pages(), most, taken, now;
	unsigned int stopped = 0, went_on = 0;
	int status;
	pid_t pid;

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		SKIP(return, "needs a second CPU");
	if (!pages)
		SKIP(return, "needs 192 MB of free memory");
	run_on(1);
	while (stopped < 3 && went_on < 3) {
		most = 0;
		taken = 0;
		pid = start_mapping(self->fd, pages);
		ASSERT_LT(0, pid);
		do {
			now = get_avphys_pages();
			if (now > most)
				most = now;
			if (most - now > taken)
				taken = most - now;
			if (taken >= pages / 8)
				kill(pid, SIGKILL);
		} while (!waitpid(pid, &status, WNOHANG));
		ASSERT_TRUE(WIFSIGNALED(status) || !WEXITSTATUS(status));
		if (WIFSIGNALED(status) && taken < pages / 2)
			stopped++;
		else
			went_on++;
	}
	TH_LOG("%zu of %zu pages at the last one", taken, pages);
	EXPECT_EQ(3, stopped);
}

/*
 * Use more than 2 GiB, where kcalloc() cannot allocate the table of pages. The stream
 * goes around the area once, so all of it is written.
 */
TEST_F_TIMEOUT(ring_aux_acct, area_of_four_gigabytes, 600)
{
	const size_t size = 4UL << 30, window = 64UL << 10, two = 2UL << 30;
	struct perf_event_aux_snapshot snap = { .size = sizeof(snap) };

	if ((size_t)get_avphys_pages() * page_size() < size + (256UL << 20))
		SKIP(return, "needs 4.3 GB of free memory");
	ASSERT_EQ(0, ring_map(&self->ring, self->fd, DATA_PAGES));
	ASSERT_EQ(0, aux_map(&self->area, &self->ring, self->fd, size / page_size(), PROT_READ));
	EXPECT_EQ(self->data_kb + (long)(size / 1024), vm_pin_kb());
	ASSERT_EQ(0, event_enable(self->fd));
	ASSERT_EQ(0, aux_tick(size - window));
	ASSERT_EQ(0, event_ioctl(self->fd, PERF_EVENT_IOC_AUX_SNAPSHOT, (unsigned long)&snap));
	EXPECT_EQ(size - window, snap.head);
	EXPECT_EQ(0, snap.wrapped);
	EXPECT_TRUE(aux_holds(&self->area, 0, window));
	/* Check around the limits of an int and of an unsigned int. */
	EXPECT_TRUE(aux_holds(&self->area, two - window, two + window));
	EXPECT_TRUE(aux_holds(&self->area, size - 2 * window, size - window));
	EXPECT_EQ(0, *(__u64 *)(self->area.data + size - window));

	ASSERT_EQ(0, aux_tick(2 * window));
	ASSERT_EQ(0, event_ioctl(self->fd, PERF_EVENT_IOC_AUX_SNAPSHOT, (unsigned long)&snap));
	EXPECT_EQ(size + window, snap.head);
	EXPECT_EQ(1, snap.wrapped);
	EXPECT_TRUE(aux_holds(&self->area, size - window, size + window));
	EXPECT_TRUE(aux_holds(&self->area, window, 2 * window));
	ASSERT_EQ(0, event_disable(self->fd));
	EXPECT_EQ(size + window, aux_head(&self->ring));
	ASSERT_EQ(0, aux_unmap(&self->area));
	EXPECT_EQ(self->data_kb, vm_pin_kb());
}

TEST_HARNESS_MAIN
