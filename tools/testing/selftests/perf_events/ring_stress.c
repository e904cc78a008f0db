// SPDX-License-Identifier: GPL-2.0
/*
 * perf ring buffer selftests - everything at once
 *
 * Processes that share the descriptors of a few events, and have some of their own,
 * map, read, unmap, redirect, close, fork and die at random, while the events write.
 * With pmusim two of the shared events have AUX areas, of which snapshots are taken
 * all the time. Nothing may be left over: the user can lock as much as in the
 * beginning, and kmemleak, if the kernel has it, must not report anything. KASAN,
 * lockdep and KCSAN find other defects.
 *
 * PERF_STRESS_SECONDS sets the duration; the default is 4.
 */
#define _GNU_SOURCE

#include "../kselftest_harness.h"
#include "ring_aux_helpers.h"

#define MLOCK_KB	"/proc/sys/kernel/perf_event_mlock_kb"
#define KMEMLEAK	"/sys/kernel/debug/kmemleak"
#define STRESS_UID	40000
#define NR_SOFTWARE	6
#define NR_AUX		2
#define NR_SHARED	(NR_SOFTWARE + NR_AUX)
#define NR_OWN		3
#define NR_EVENTS	(NR_SHARED + NR_OWN)
#define NR_WORKERS	4
#define NR_RINGS	4

/* A mapped buffer, and the AUX area after it. */
struct place {
	struct ring	ring;
	struct aux_area	area;
	int		fd;
};

struct worker {
	int		fds[NR_EVENTS];
	struct place	places[NR_RINGS];
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

static struct place *pick_place(struct worker *worker)
{
	return &worker->places[pick(worker, NR_RINGS)];
}

/* The AUX area may stay, or be unmapped later. */
static void map_or_unmap(struct worker *worker)
{
	struct place *place = pick_place(worker);

	if (place->ring.page)
		ring_unmap(&place->ring);
	place->ring.page = NULL;
	if (!pick(worker, 4))
		return;
	place->fd = pick_fd(worker);
	ring_map(&place->ring, place->fd, pick(worker, 3) ? 2 : 8);
}

static void map_or_unmap_area(struct worker *worker)
{
	int prot = pick(worker, 2) ? PROT_READ : PROT_READ | PROT_WRITE;
	struct place *place = pick_place(worker);

	if (place->area.data)
		aux_unmap(&place->area);
	place->area.data = NULL;
	if (place->ring.page && place->ring.size)
		aux_map(&place->area, &place->ring, place->fd, 4, prot);
}

static void snapshot(struct worker *worker)
{
	struct perf_event_aux_snapshot snap = { .size = sizeof(snap) };
	int fd = worker->fds[NR_SOFTWARE + pick(worker, NR_AUX)];

	if (!pick(worker, 8))
		snap.flags = PERF_AUX_SNAPSHOT_DISABLE;
	event_ioctl(fd, PERF_EVENT_IOC_AUX_SNAPSHOT, (unsigned long)&snap);
	if (snap.flags)
		event_enable(fd);
}

/* These events belong to the worker alone, so that a close releases them. */
static void reopen(struct worker *worker)
{
	int *fd = &worker->fds[NR_SHARED + pick(worker, NR_OWN)];
	struct perf_event_attr attr = fault_attr();

	close(*fd);
	attr.disabled = 0;
	attr.inherit = pick(worker, 2);
	*fd = event_open_on(&attr, 0, attr.inherit ? 0 : -1);
}

/* Stop at invalid data, because other readers move the tail as well. */
static void read_some(struct worker *worker)
{
	struct ring *ring = &pick_place(worker)->ring;
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
	aux_set_tail(ring, pick(worker, 16) ? aux_head(ring) : pick(worker, 1U << 31));
	ring->tail = ring_head(ring);
}

static void move(struct worker *worker)
{
	struct ring *ring = &pick_place(worker)->ring;
	size_t size = ring->size + page_size();
	void *to, *page;

	if (!ring->page)
		return;
	to = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (to == MAP_FAILED)
		return;
	page = mremap(ring->page, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, to);
	if (page == MAP_FAILED) {
		munmap(to, size);
		return;
	}
	ring->page = page;
	ring->data = (char *)page + page_size();
}

/* The child inherits the descriptors, but no mappings. */
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

	switch (pick(worker, 14)) {
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
	case 10:
		reopen(worker);
		break;
	case 11:
	case 12:
		map_or_unmap_area(worker);
		break;
	case 13:
		snapshot(worker);
		break;
	}
}

/* Pass it by value, because the fixture is in shared memory. */
static void run_worker(struct worker worker)
{
	int i;

	memset(worker.places, 0, sizeof(worker.places));
	for (i = NR_SHARED; i < NR_EVENTS; i++)
		worker.fds[i] = -1;
	fault_page();
	while (time(NULL) < worker.end)
		work(&worker);
	_exit(0);
}

FIXTURE(ring_stress)
{
	struct worker worker;
	int kmemleak;
	long mlock_kb;
	long cpus;
	uid_t uid;
};

/*
 * Get the length of kmemleak's report, 0 if it is off. kmemleak ignores memory that is
 * younger than five seconds, or that has changed since the last scan.
 */
static ssize_t leaks_found(int fd, char *text, size_t size)
{
	int i;

	sleep(6);
	for (i = 0; i < 2; i++) {
		if (write(fd, "scan", 4) != 4)
			return errno == EPERM ? 0 : -errno;
	}
	return pread(fd, text, size, 0);
}

FIXTURE_SETUP(ring_stress)
{
	struct perf_event_attr attr = fault_attr();
	int i;

	if (geteuid())
		SKIP(return, "needs root for events of a CPU");
	/* Open it as root. The file does not exist without CONFIG_DEBUG_KMEMLEAK. */
	self->kmemleak = open(KMEMLEAK, O_RDWR);
	self->cpus = sysconf(_SC_NPROCESSORS_ONLN);
	self->uid = STRESS_UID + getpid();
	self->mlock_kb = read_number(MLOCK_KB);
	ASSERT_EQ(0, write_number(MLOCK_KB, 8 * page_size() / 1024));

	attr.exclude_kernel = 0;
	attr.disabled = 0;
	attr.sample_type |= PERF_SAMPLE_TIME | PERF_SAMPLE_CPU;
	for (i = 0; i < NR_SOFTWARE; i++) {
		/* Open three events for one CPU, so that they can be redirected to each other. */
		attr.config = i & 1 ? PERF_COUNT_SW_CONTEXT_SWITCHES :
				      PERF_COUNT_SW_PAGE_FAULTS;
		self->worker.fds[i] = event_open_on(&attr, -1, i / 3 % self->cpus);
		ASSERT_LE(0, self->worker.fds[i]);
	}
	for (; i < NR_SHARED; i++) {
		self->worker.fds[i] = -1;
		if (pmu_type("pmusim_aux") < 0)
			continue;
		attr = aux_attr("pmusim_aux");
		attr.config = AUX_TIMER;
		attr.config1 = 2000 | 512ULL << 32;
		attr.disabled = 0;
		self->worker.fds[i] = event_open_on(&attr, -1, 0);
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

TEST_F_TIMEOUT(ring_stress, nothing_is_left_over, 900)
{
	pid_t pids[NR_WORKERS];
	char leaks[4096] = "";
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
	for (i = 0; i < NR_SHARED; i++)
		close(self->worker.fds[i]);

	EXPECT_EQ(0, vm_pin_kb());
	/* Exactly eight pages for each CPU fit. */
	ASSERT_EQ(0, set_memlock(0));
	for (i = 0; i < 8 * self->cpus; i++) {
		ASSERT_EQ(0, try_map(0)) {
			TH_LOG("page %d of %ld", i, 8 * self->cpus);
		}
	}
	EXPECT_EQ(-EPERM, try_map(0));

	if (self->kmemleak < 0)
		return;
	EXPECT_EQ(0, leaks_found(self->kmemleak, leaks, sizeof(leaks) - 1)) {
		TH_LOG("%s", leaks);
	}
}

TEST_HARNESS_MAIN
