// SPDX-License-Identifier: GPL-2.0
/*
 * perf ring buffer selftests - spliced buffers, everything at once
 *
 * Processes that share the descriptors of a few events and of a few pipes allocate,
 * splice, tee, read, send to sockets, map, redirect, pause, close, fork and die at
 * random, while the events write. All data from a socket must consist of records, and
 * nothing may stay charged. KASAN, lockdep, KCSAN and kmemleak find other defects.
 *
 * PERF_STRESS_SECONDS sets the duration; the default is 4.
 */
#define _GNU_SOURCE

#include <sys/socket.h>
#include <sys/time.h>

#include "../kselftest_harness.h"
#include "ring_splice_helpers.h"

#define MLOCK_KB	"/proc/sys/kernel/perf_event_mlock_kb"
#define KMEMLEAK	"/sys/kernel/debug/kmemleak"
#define STRESS_UID	70000
#define NR_SHARED	6
#define NR_OWN		3
#define NR_EVENTS	(NR_SHARED + NR_OWN)
#define NR_PIPES	3
#define NR_WORKERS	4

struct worker {
	int		fds[NR_EVENTS];
	int		pipes[NR_PIPES][2];
	int		sockets[2];
	void		*page;
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

static int *pick_pipe(struct worker *worker)
{
	return worker->pipes[pick(worker, NR_PIPES)];
}

static size_t pick_len(struct worker *worker)
{
	return pick(worker, 3) ? MIB : pick(worker, 3 * page_size()) + 1;
}

/* Set a timer, so that a call that waits returns. */
static void wait_for_records(struct worker *worker)
{
	struct itimerval soon = { .it_value.tv_usec = 2000 };

	setitimer(ITIMER_REAL, &soon, NULL);
	ring_splice_flags(pick_fd(worker), pick_pipe(worker)[1], pick_len(worker), 0);
	soon.it_value.tv_usec = 0;
	setitimer(ITIMER_REAL, &soon, NULL);
}

static void read_pipe(struct worker *worker)
{
	static char bytes[64 * 1024];
	int from = pick_pipe(worker)[0];

	if (read(from, bytes, pick(worker, sizeof(bytes))) < 0)
		return;
}

static void through_socket(struct worker *worker)
{
	static char bytes[64 * 1024];

	splice(pick_pipe(worker)[0], NULL, worker->sockets[0], NULL, pick_len(worker),
	       SPLICE_F_NONBLOCK);
	while (recv(worker->sockets[1], bytes, sizeof(bytes), MSG_DONTWAIT) > 0) {
		if (pick(worker, 2))
			break;
	}
}

static void map_or_unmap(struct worker *worker)
{
	if (worker->page)
		munmap(worker->page, page_size());
	worker->page = mmap(NULL, page_size(), PROT_READ | PROT_WRITE, MAP_SHARED,
			    pick_fd(worker), 0);
	if (worker->page == MAP_FAILED)
		worker->page = NULL;
	else
		memset(worker->page, pick(worker, 256), page_size() / 4);
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
	ring_alloc(*fd, 1 << pick(worker, 4));
}

static void fork_one(struct worker *worker)
{
	pid_t pid = fork();

	if (!pid) {
		ring_splice(pick_fd(worker), pick_pipe(worker)[1], MIB);
		make_faults(5);
		_exit(0);
	}
	if (pid > 0)
		waitpid(pid, NULL, 0);
}

static void work(struct worker *worker)
{
	int fd = pick_fd(worker);

	switch (pick(worker, 16)) {
	case 0:
	case 1:
	case 2:
		ring_splice(fd, pick_pipe(worker)[1], pick_len(worker));
		break;
	case 3:
	case 4:
		read_pipe(worker);
		break;
	case 5:
		tee(pick_pipe(worker)[0], pick_pipe(worker)[1], pick_len(worker),
		    SPLICE_F_NONBLOCK);
		break;
	case 6:
		splice(pick_pipe(worker)[0], NULL, pick_pipe(worker)[1], NULL,
		       pick_len(worker), SPLICE_F_NONBLOCK);
		break;
	case 7:
		through_socket(worker);
		break;
	case 8:
		event_ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT,
			    pick(worker, 3) ? pick_fd(worker) : -1);
		break;
	case 9:
		event_ioctl(fd, PERF_EVENT_IOC_PAUSE_OUTPUT, pick(worker, 4) == 0);
		break;
	case 10:
		poll_now(fd);
		pick(worker, 8) ? event_enable(fd) : event_disable(fd);
		break;
	case 11:
		map_or_unmap(worker);
		break;
	case 12:
		if (!pick(worker, 8))
			fork_one(worker);
		make_faults(20);
		break;
	case 13:
		reopen(worker);
		break;
	case 14:
		ring_alloc(fd, 1 << pick(worker, 4));
		break;
	case 15:
		wait_for_records(worker);
		break;
	}
}

static void no_action(int signal) { }

/* Pass it by value, because the fixture is in shared memory. */
static void run_worker(struct worker worker)
{
	struct sigaction action = { .sa_handler = no_action };
	int i;

	sigaction(SIGALRM, &action, NULL);
	signal(SIGPIPE, SIG_IGN);
	for (i = NR_SHARED; i < NR_EVENTS; i++)
		worker.fds[i] = -1;
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, worker.sockets))
		_exit(1);
	fcntl(worker.sockets[0], F_SETFL, O_NONBLOCK);
	fault_page();
	while (time(NULL) < worker.end)
		work(&worker);
	_exit(0);
}

FIXTURE(ring_splice_stress)
{
	struct worker worker;
	int kmemleak;
	long mlock_kb;
	long cpus;
	uid_t uid;
};

/* See ring_stress.c. */
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

FIXTURE_SETUP(ring_splice_stress)
{
	struct perf_event_attr attr = fault_attr();
	int i;

	SKIP_WITHOUT_SPLICE();
	if (geteuid())
		SKIP(return, "needs root for events of a CPU");
	self->kmemleak = open(KMEMLEAK, O_RDWR);
	self->cpus = sysconf(_SC_NPROCESSORS_ONLN);
	self->uid = STRESS_UID + getpid();
	self->mlock_kb = read_number(MLOCK_KB);
	ASSERT_EQ(0, write_number(MLOCK_KB, 2 * charged_pages(8) * page_size() / 1024));

	attr.exclude_kernel = 0;
	attr.disabled = 0;
	attr.sample_type |= PERF_SAMPLE_TIME | PERF_SAMPLE_CPU;
	for (i = 0; i < NR_SHARED; i++) {
		/* Open three events for one CPU, so that they can be redirected to each other. */
		attr.config = i & 1 ? PERF_COUNT_SW_CONTEXT_SWITCHES :
				      PERF_COUNT_SW_PAGE_FAULTS;
		self->worker.fds[i] = event_open_on(&attr, -1, i / 3 % self->cpus);
		ASSERT_LE(0, self->worker.fds[i]);
	}
	for (i = 0; i < NR_PIPES; i++) {
		ASSERT_EQ(0, pipe2(self->worker.pipes[i], O_NONBLOCK));
		fcntl(self->worker.pipes[i][1], F_SETPIPE_SZ, (i + 1) * 16 * page_size());
	}
	ASSERT_EQ(0, become_user(self->uid, 40 * page_size()));
}

FIXTURE_TEARDOWN_PARENT(ring_splice_stress)
{
	if (self->mlock_kb)
		write_number(MLOCK_KB, self->mlock_kb);
}

static int try_buffer(size_t nr)
{
	struct perf_event_attr attr = fault_attr();

	return ring_alloc(event_open(&attr), nr);
}

TEST_F_TIMEOUT(ring_splice_stress, nothing_is_left_over, 900)
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
	for (i = 0; i < NR_PIPES; i++)
		pipe_close(self->worker.pipes[i]);

	EXPECT_EQ(0, vm_pin_kb());
	/* Exactly two buffers for each CPU fit. */
	ASSERT_EQ(0, set_memlock(0));
	for (i = 0; i < 2 * self->cpus; i++) {
		ASSERT_EQ(0, try_buffer(8)) {
			TH_LOG("buffer %d of %ld", i, 2 * self->cpus);
		}
	}
	EXPECT_EQ(-EPERM, try_buffer(1));

	if (self->kmemleak < 0)
		return;
	EXPECT_EQ(0, leaks_found(self->kmemleak, leaks, sizeof(leaks) - 1)) {
		TH_LOG("%s", leaks);
	}
}

TEST_HARNESS_MAIN
