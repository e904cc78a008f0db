// SPDX-License-Identifier: GPL-2.0
/*
 * perf ring buffer selftests - everything at once
 *
 * Processes that share the descriptors of a few events map, read, unmap, redirect,
 * fork and die as they like, while the events write. Nothing of it may be left over:
 * what the user may lock in the end is what it was in the beginning. The rest is for
 * KASAN, lockdep, KCSAN and kmemleak to find.
 *
 * PERF_STRESS_SECONDS tells for how long, 4 if it is not set.
 */
#define _GNU_SOURCE

#include "../kselftest_harness.h"
#include "ring_helpers.h"

#define MLOCK_KB	"/proc/sys/kernel/perf_event_mlock_kb"
#define STRESS_UID	40000
#define NR_EVENTS	6
#define NR_WORKERS	4
#define NR_RINGS	4

struct worker {
	int		fds[NR_EVENTS];
	struct ring	rings[NR_RINGS];
	unsigned int	seed;
	time_t		end;
};

static unsigned int stress_seconds(void)
{
	const char *seconds = getenv("PERF_STRESS_SECONDS");

	return seconds ? atoi(seconds) : 4;
}

static unsigned int pick(struct worker *worker, unsigned int below)
{
	return rand_r(&worker->seed) % below;
}

static int pick_fd(struct worker *worker)
{
	return worker->fds[pick(worker, NR_EVENTS)];
}

static void map_or_unmap(struct worker *worker)
{
	struct ring *ring = &worker->rings[pick(worker, NR_RINGS)];

	if (ring->page)
		ring_unmap(ring);
	ring->page = NULL;
	if (pick(worker, 4))
		ring_map(ring, pick_fd(worker), pick(worker, 3) ? 2 : 8);
}

/* A reader that finds nonsense stops reading; others move the tail as well. */
static void read_some(struct worker *worker)
{
	struct ring *ring = &worker->rings[pick(worker, NR_RINGS)];
	struct perf_event_header header;
	unsigned int nr;

	if (!ring->page || !ring->size)
		return;
	for (nr = 0; nr < 1000 && ring->tail != ring_head(ring); nr++) {
		ring_copy(ring, &header, ring->tail, sizeof(header));
		if (!header.size)
			break;
		ring->tail += header.size;
	}
	ring_set_tail(ring, pick(worker, 16) ? ring_head(ring) : pick(worker, 1U << 31));
	ring->tail = ring_head(ring);
}

static void move(struct worker *worker)
{
	struct ring *ring = &worker->rings[pick(worker, NR_RINGS)];
	size_t size = ring->size + page_size();
	void *place, *page;

	if (!ring->page)
		return;
	place = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (place == MAP_FAILED)
		return;
	page = mremap(ring->page, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, place);
	if (page == MAP_FAILED) {
		munmap(place, size);
		return;
	}
	ring->page = page;
	ring->data = (char *)page + page_size();
}

/* The mappings are not inherited, so that the child has the descriptors alone. */
static void fork_one(struct worker *worker)
{
	struct ring ring;
	pid_t pid = fork();

	if (!pid) {
		ring_map(&ring, pick_fd(worker), 2);
		make_faults(1);
		_exit(0);
	}
	if (pid > 0)
		waitpid(pid, NULL, 0);
}

static void work(struct worker *worker)
{
	int fd = pick_fd(worker);

	switch (pick(worker, 10)) {
	case 0:
	case 1:
	case 2:
		map_or_unmap(worker);
		break;
	case 3:
	case 4:
		read_some(worker);
		break;
	case 5:
		event_ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT,
			    pick(worker, 3) ? pick_fd(worker) : -1);
		break;
	case 6:
		event_ioctl(fd, PERF_EVENT_IOC_PAUSE_OUTPUT, pick(worker, 4) == 0);
		break;
	case 7:
		poll_now(fd);
		pick(worker, 8) ? event_enable(fd) : event_disable(fd);
		break;
	case 8:
		move(worker);
		break;
	case 9:
		if (!pick(worker, 8))
			fork_one(worker);
		make_faults(5);
		break;
	}
}

/* By value: what the fixture holds is shared memory. */
static void run_worker(struct worker worker)
{
	memset(worker.rings, 0, sizeof(worker.rings));
	fault_page();
	while (time(NULL) < worker.end)
		work(&worker);
	_exit(0);
}

FIXTURE(ring_stress)
{
	struct worker worker;
	long mlock_kb;
	long cpus;
	uid_t uid;
};

FIXTURE_SETUP(ring_stress)
{
	struct perf_event_attr attr = fault_attr();
	int i;

	if (geteuid())
		SKIP(return, "needs root for events of a CPU");
	self->cpus = sysconf(_SC_NPROCESSORS_ONLN);
	self->uid = STRESS_UID + getpid();
	self->mlock_kb = read_number(MLOCK_KB);
	ASSERT_EQ(0, write_number(MLOCK_KB, 8 * page_size() / 1024));

	attr.exclude_kernel = 0;
	attr.disabled = 0;
	attr.sample_type |= PERF_SAMPLE_TIME | PERF_SAMPLE_CPU;
	for (i = 0; i < NR_EVENTS; i++) {
		/* Three of one CPU, so that they can be redirected to each other. */
		attr.config = i & 1 ? PERF_COUNT_SW_CONTEXT_SWITCHES :
				      PERF_COUNT_SW_PAGE_FAULTS;
		self->worker.fds[i] = event_open_on(&attr, -1, i / 3 % self->cpus);
		ASSERT_LE(0, self->worker.fds[i]);
	}
	ASSERT_EQ(0, become_user(self->uid, 40 * page_size()));
}

FIXTURE_TEARDOWN_PARENT(ring_stress)
{
	if (self->mlock_kb)
		write_number(MLOCK_KB, self->mlock_kb);
}

static int try_map(size_t nr)
{
	struct perf_event_attr attr = fault_attr();
	struct ring ring;

	return ring_map(&ring, event_open(&attr), nr);
}

TEST_F_TIMEOUT(ring_stress, nothing_is_left_over, 110)
{
	pid_t pids[NR_WORKERS];
	int i, status;

	self->worker.end = time(NULL) + stress_seconds();
	for (i = 0; i < NR_WORKERS; i++) {
		self->worker.seed = i + 1;
		pids[i] = fork();
		ASSERT_LE(0, pids[i]);
		if (!pids[i])
			run_worker(self->worker);
	}
	for (i = 0; i < NR_WORKERS; i++) {
		ASSERT_EQ(pids[i], waitpid(pids[i], &status, 0));
		EXPECT_EQ(0, status);
	}
	for (i = 0; i < NR_EVENTS; i++)
		close(self->worker.fds[i]);

	EXPECT_EQ(0, vm_pin_kb());
	/* Eight pages for each CPU and not one more. */
	ASSERT_EQ(0, set_memlock(0));
	for (i = 0; i < 8 * self->cpus; i++) {
		ASSERT_EQ(0, try_map(0)) {
			TH_LOG("page %d of %ld", i, 8 * self->cpus);
		}
	}
	EXPECT_EQ(-EPERM, try_map(0));
}

TEST_HARNESS_MAIN
