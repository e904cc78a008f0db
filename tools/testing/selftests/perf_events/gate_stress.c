// SPDX-License-Identifier: GPL-2.0
/*
 * perf gate selftests - families of tasks fork, fire and exit under random events
 *
 * Four threads open, link, drop, read and close a pool of 64 events of tasks that
 * fork, start threads and exit all the time. In addition each family has a gate
 * that the threads do not touch. In the end it must have counted each window of
 * each task, and no event may be left over.
 *
 * GATE_RACE_SECONDS makes it longer than its 8 seconds.
 */
#define _GNU_SOURCE

#include "../kselftest_harness.h"
#include "gate_family.h"
#include "gate_pool.h"

#define NR_FAMILIES	2
#define STRESS_TIMEOUT	(POOL_MAX_SECONDS + 300)

/* Work of a family, recorded by its tasks in shared memory. */
struct family {
	struct gate_triggers	triggers;
	int			target;
	pid_t			pid;
	int			go[2];
	__u64			calls;
	__u64			windows;
	__u64			tasks;
	bool			stop;
};

struct stress {
	struct pool		pool;
	struct family		*families;
	/* Work of a process that kills its children in the middle of their windows. */
	pid_t			killer;
};

FIXTURE(gate_stress)
{
	struct stress		stress;
	long			objects;
};

FIXTURE_SETUP(gate_stress)
{
	struct gate_triggers triggers;

	if (triggers_open(_metadata, &triggers))
		return;
	triggers_close(&triggers);
	self->objects = count_events();
	pool_init(_metadata, &self->stress.pool);
	self->stress.families = mmap(NULL, NR_FAMILIES * sizeof(struct family),
				     PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, self->stress.families);
}

FIXTURE_TEARDOWN(gate_stress)
{
}

/* Work of a task of a family: some windows, moves to another CPU, and the sums. */
static void work(struct family *family, unsigned int seed)
{
	unsigned int nr = 1 + rand_r(&seed) % 4, inside, i;

	for (i = 0; i < nr; i++) {
		inside = rand_r(&seed) % 8;
		if (!(rand_r(&seed) % 8) && nth_cpu(1) >= 0)
			pin_to_cpu(nth_cpu(rand_r(&seed) % 2));
		run_windows(1, inside, rand_r(&seed) % 16);
		__atomic_add_fetch(&family->calls, inside, __ATOMIC_RELAXED);
		__atomic_add_fetch(&family->windows, 1, __ATOMIC_RELAXED);
	}
	__atomic_add_fetch(&family->tasks, 1, __ATOMIC_RELAXED);
}

struct thread_work {
	struct family	*family;
	unsigned int	seed;
};

static void *work_as_thread(void *data)
{
	struct thread_work *todo = data;

	work(todo->family, todo->seed);
	return NULL;
}

/* Run a thread and two generations of children in each round. */
static void live(struct family *family, unsigned int seed)
{
	struct thread_work todo = { family };
	cpu_set_t all_cpus;
	pthread_t thread;
	pid_t child;

	sched_getaffinity(0, sizeof(all_cpus), &all_cpus);
	while (!__atomic_load_n(&family->stop, __ATOMIC_RELAXED)) {
		sched_setaffinity(0, sizeof(all_cpus), &all_cpus);
		todo.seed = rand_r(&seed);
		if (pthread_create(&thread, NULL, work_as_thread, &todo))
			_exit(1);
		child = fork();
		if (!child) {
			child = fork();
			work(family, seed);
			_exit(child > 0 && waitpid(child, NULL, 0) != child);
		}
		work(family, rand_r(&seed));
		pthread_join(thread, NULL);
		if (child < 0 || waitpid(child, NULL, 0) != child)
			_exit(1);
	}
}

static void family_start(struct __test_metadata *const _metadata, struct family *family,
			 const struct stress *stress, unsigned int number)
{
	struct perf_event_attr attr = inherited_attr(PERF_TYPE_TRACEPOINT, 0);
	pid_t pid;
	char byte;

	ASSERT_EQ(0, pipe(family->go));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (read(family->go[0], &byte, 1) != 1)
			_exit(1);
		live(family, number);
		_exit(0);
	}
	family->pid = pid;
	attr.config = stress->pool.tracepoint_ids[0];
	family->triggers.starter = gate_open(&attr, family->pid, -1);
	ASSERT_LE(0, family->triggers.starter);
	attr.config = stress->pool.tracepoint_ids[1];
	family->triggers.stopper = gate_open(&attr, family->pid, -1);
	ASSERT_LE(0, family->triggers.stopper);
	attr.config = stress->pool.tracepoint_ids[2];
	family->target = gate_open(&attr, family->pid, -1);
	ASSERT_LE(0, family->target);
	ASSERT_EQ(0, set_both(&family->triggers, family->target));
}

static pid_t fork_killer(void)
{
	pid_t killer = fork(), child;
	unsigned int seed = 1;

	if (killer)
		return killer;
	killer = getpid();
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;) {
		child = fork();
		if (!child) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			/* The parent may have died before it could kill this child. */
			if (getppid() != killer)
				_exit(0);
			for (;;)
				run_windows(1, 3, 3);
		}
		usleep(rand_r(&seed) % 4000);
		if (child > 0) {
			kill(child, SIGKILL);
			waitpid(child, NULL, 0);
		}
	}
}

static int open_of_family(struct pool *pool, struct perf_event_attr *attr, unsigned int *seed)
{
	struct stress *stress = (struct stress *)pool;
	unsigned int of = rand_r(seed) % (NR_FAMILIES + 1);

	attr->inherit = !!(rand_r(seed) % 4);
	attr->inherit_thread = attr->inherit && !(rand_r(seed) % 8);
	return gate_open(attr, of < NR_FAMILIES ? stress->families[of].pid : stress->killer,
			 rand_r(seed) % 3 ? -1 : nth_cpu(rand_r(seed) % 2));
}

static void family_end(struct __test_metadata *const _metadata, struct family *family)
{
	struct gate_value value;

	family->stop = true;
	wait_for_success(_metadata, family->pid);
	value = gate_read(family->target);
	TH_LOG("%llu tasks, %llu windows", (unsigned long long)family->tasks,
	       (unsigned long long)family->windows);
	EXPECT_LT(0, family->windows);
	EXPECT_EQ(family->calls, value.value);
	EXPECT_EQ(family->windows, value.gate_count);
	EXPECT_LE(value.gate_time, value.running);
	close(family->target);
	triggers_close(&family->triggers);
	close(family->go[0]);
	close(family->go[1]);
}

/* All events of the test are closed, and all of its children are gone. */
static void expect_no_event(struct __test_metadata *const _metadata, long objects)
{
	if (objects < 0)
		TH_LOG("no " EVENT_SLAB "objects: events are not counted");
	else
		EXPECT_TRUE(events_go_down_to(objects));
}

TEST_F_TIMEOUT(gate_stress, families_fork_and_exit_under_random_events, STRESS_TIMEOUT)
{
	struct stress *stress = &self->stress;
	int i;

	stress->pool.open = open_of_family;
	for (i = 0; i < NR_FAMILIES; i++)
		family_start(_metadata, &stress->families[i], stress, i);
	stress->killer = fork_killer();
	ASSERT_LE(0, stress->killer);
	ASSERT_EQ(0, prctl(PR_SET_CHILD_SUBREAPER, 1));
	for (i = 0; i < NR_FAMILIES; i++)
		ASSERT_EQ(1, write(stress->families[i].go[1], "", 1));

	pool_use(_metadata, &stress->pool);

	for (i = 0; i < NR_FAMILIES; i++)
		family_end(_metadata, &stress->families[i]);
	kill(stress->killer, SIGKILL);
	ASSERT_EQ(stress->killer, waitpid(stress->killer, NULL, 0));
	/* Wait for its last child. */
	while (wait(NULL) > 0)
		;
	pool_close(&stress->pool);
	expect_no_event(_metadata, self->objects);
}

#define NR_LINKS	2048

/* Open the tracepoint events of a child that executes commands, or sleeps. */
static int open_of_child(struct __test_metadata *const _metadata, long id, pid_t child)
{
	struct perf_event_attr attr = gate_attr(PERF_TYPE_TRACEPOINT, id);
	int fd = gate_open(&attr, child, -1);

	ASSERT_LE(0, fd);
	return fd;
}

/*
 * All of this may take two seconds on an idle machine, and a minute or two on an
 * emulator. The child sleeps while its events are opened, because each new event of a
 * running task makes the kernel reschedule all others.
 */
TEST_F_TIMEOUT(gate_stress, thousands_of_links_of_one_process, STRESS_TIMEOUT)
{
	struct rlimit limit = { 2 * NR_LINKS + 64, 2 * NR_LINKS + 64 };
	int starters[NR_LINKS], targets[NR_LINKS];
	struct gate_value value;
	long *ids = self->stress.pool.tracepoint_ids;
	struct puppet puppet;
	__u64 begin, time;
	int i, wrong = 0;

	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &limit));
	puppet_fork(_metadata, &puppet);
	ASSERT_TRUE(tell(&puppet, "g"));
	begin = clock_ns(CLOCK_MONOTONIC);
	for (i = 0; i < NR_LINKS; i++) {
		starters[i] = open_of_child(_metadata, ids[i % 2], puppet.pid);
		targets[i] = open_of_child(_metadata, ids[2], puppet.pid);
		ASSERT_EQ(0, set_starter(starters[i], targets[i])) {
			TH_LOG("link %d", i);
		}
	}
	/* Events of even numbers see five calls, the others the last two of them. */
	ASSERT_TRUE(tell(&puppet, "ggogggcgg"));
	for (i = 0; i < NR_LINKS; i++) {
		value = gate_read(targets[i]);
		wrong += value.value != (i % 2 ? 2 : 5) || value.gate_count != 1;
	}
	EXPECT_EQ(0, wrong);
	/* Either side of a link may be closed first. */
	for (i = 0; i < NR_LINKS; i++) {
		close(i % 4 < 2 ? starters[i] : targets[i]);
		close(i % 4 < 2 ? targets[i] : starters[i]);
	}
	time = clock_ns(CLOCK_MONOTONIC) - begin;
	TH_LOG("%d events, %d links: %llu ms", 2 * NR_LINKS, NR_LINKS,
	       (unsigned long long)(time / NSEC_PER_MSEC));
	EXPECT_GE(120 * NSEC_PER_SEC, time);
	puppet_end(_metadata, &puppet);
	pool_close(&self->stress.pool);
	expect_no_event(_metadata, self->objects);
}

TEST_HARNESS_MAIN
