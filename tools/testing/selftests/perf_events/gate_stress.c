// SPDX-License-Identifier: GPL-2.0
/*
 * perf gate selftests - families of tasks fork, fire and exit under random events
 *
 * Four threads open, link, drop, read and close a pool of 64 events of tasks that
 * fork, start threads and exit all the time. What goes wrong shows in the kernel
 * log, as a hang, or as an error that has no reason. Beside the pool, each family
 * has a gate that nobody touches. It must have counted each window of each task
 * in the end, and no event may be left over.
 *
 * GATE_RACE_SECONDS makes it longer than its 8 seconds.
 */
#define _GNU_SOURCE

#include <pthread.h>

#include "../kselftest_harness.h"
#include "gate_family.h"

#define DEFAULT_SECONDS	8
#define MAX_SECONDS	3600
#define NR_THREADS	4
#define NR_FAMILIES	2
#define POOL_SIZE	64

/* What a family has done, told by itself in shared memory. */
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
	struct family		*families;
	/* Of a process that kills its children in the middle of their windows. */
	pid_t			killer;
	long			tracepoint_ids[3];
	__u64			end;
	int			pool[POOL_SIZE];
	unsigned long		surprises;
};

FIXTURE(gate_stress)
{
	struct gate_triggers	triggers;
	struct stress		stress;
	long			objects;
};

FIXTURE_SETUP(gate_stress)
{
	const char *asked = getenv("GATE_RACE_SECONDS");
	__u64 seconds = asked ? strtoul(asked, NULL, 0) : DEFAULT_SECONDS;
	unsigned int i;

	self->triggers = (struct gate_triggers) { -1, -1 };
	if (triggers_open(_metadata, &self->triggers))
		return;
	triggers_close(&self->triggers);
	self->objects = count_events();
	/* Each kind of event that the pool has stays open, see gate_race.c. */
	self->triggers.starter = gate_open_self(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS);
	self->triggers.stopper = gate_open_self(PERF_TYPE_SOFTWARE,
						PERF_COUNT_SW_CONTEXT_SWITCHES);
	self->stress.tracepoint_ids[0] = tracepoint_id("syscalls/sys_enter_getuid");
	self->stress.tracepoint_ids[1] = tracepoint_id("syscalls/sys_enter_geteuid");
	self->stress.tracepoint_ids[2] = tracepoint_id("syscalls/sys_enter_getppid");
	self->stress.families = mmap(NULL, NR_FAMILIES * sizeof(struct family),
				     PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, self->stress.families);
	for (i = 0; i < POOL_SIZE; i++)
		self->stress.pool[i] = -1;
	self->stress.end = clock_ns(CLOCK_MONOTONIC) +
			   (seconds < MAX_SECONDS ? seconds : MAX_SECONDS) * NSEC_PER_SEC;
}

FIXTURE_TEARDOWN(gate_stress)
{
	triggers_close(&self->triggers);
}

/* A task of a family: some windows, moves to another CPU, and the sum of it. */
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

/* A thread and two generations of children in each round. */
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
	attr.config = stress->tracepoint_ids[0];
	family->triggers.starter = gate_open(&attr, family->pid, -1);
	ASSERT_LE(0, family->triggers.starter);
	attr.config = stress->tracepoint_ids[1];
	family->triggers.stopper = gate_open(&attr, family->pid, -1);
	ASSERT_LE(0, family->triggers.stopper);
	attr.config = stress->tracepoint_ids[2];
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
			/* It may have died before it could take this one along. */
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

/* A new event of a kind and with options that @seed picks. */
static int open_random(const struct stress *stress, unsigned int *seed)
{
	static const __u64 software[] = {
		PERF_COUNT_SW_PAGE_FAULTS,
		PERF_COUNT_SW_CONTEXT_SWITCHES,
		PERF_COUNT_SW_CPU_CLOCK,
		PERF_COUNT_SW_TASK_CLOCK,
	};
	unsigned int kind = rand_r(seed) % 10, of = rand_r(seed) % (NR_FAMILIES + 1);
	struct perf_event_attr attr;

	if (kind < 6)
		attr = gate_attr(PERF_TYPE_TRACEPOINT, stress->tracepoint_ids[kind % 3]);
	else
		attr = gate_attr(PERF_TYPE_SOFTWARE, software[kind - 6]);
	attr.inherit = !!(rand_r(seed) % 4);
	attr.inherit_thread = attr.inherit && !(rand_r(seed) % 8);
	/* Each of 1 .. 4 for events, 1 ms for clocks. */
	if (!(rand_r(seed) % 3))
		attr.sample_period = kind < 8 ? 1 + rand_r(seed) % 4 : NSEC_PER_MSEC;
	if (!(rand_r(seed) % 4))
		gate_attr_set_bit(&attr, GATE_BIT_START_PAUSED);
	if (!(rand_r(seed) % 4))
		gate_attr_set_bit(&attr, GATE_BIT_NEST);
	attr.disabled = !(rand_r(seed) % 8);
	return gate_open(&attr, of < NR_FAMILIES ? stress->families[of].pid : stress->killer, -1);
}

static bool error_is_expected(int error)
{
	switch (-error) {
	case 0:
	case EBADF:
	case EINVAL:
	case EEXIST:
	case EBUSY:
	case ENOSPC:
	case ESRCH:
		return true;
	default:
		return false;
	}
}

static int control_random(int fd, unsigned int *seed)
{
	__u64 period = 1 + rand_r(seed) % 8;
	struct gate_value value;

	switch (rand_r(seed) % 8) {
	case 0:
		return set_starter(fd, -1);
	case 1:
		return set_stopper(fd, -1);
	case 2:
		return clear_gate(fd);
	case 3:
		return gate_ioctl(fd, PERF_EVENT_IOC_RESET, 0);
	case 4:
		return gate_ioctl(fd, PERF_EVENT_IOC_PERIOD, (unsigned long)&period);
	case 5:
		return gate_ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
	case 6:
		return gate_ioctl(fd, PERF_EVENT_IOC_ENABLE, 0);
	default:
		return read(fd, &value, sizeof(value)) < 0 ? -errno : 0;
	}
}

/*
 * Only the thread that takes a descriptor out of the pool closes it, so its number
 * may be closed for the others, or be that of another event of the pool.
 */
static void random_step(struct stress *stress, unsigned int *seed)
{
	int *slot = &stress->pool[rand_r(seed) % POOL_SIZE], old, error = 0;
	int fd = __atomic_load_n(&stress->pool[rand_r(seed) % POOL_SIZE], __ATOMIC_RELAXED);
	int other = __atomic_load_n(&stress->pool[rand_r(seed) % POOL_SIZE], __ATOMIC_RELAXED);

	switch (rand_r(seed) % 20) {
	case 0 ... 3:
		old = __atomic_exchange_n(slot, open_random(stress, seed), __ATOMIC_RELAXED);
		if (old >= 0)
			close(old);
		break;
	case 4 ... 7:
		error = set_starter(fd, other);
		break;
	case 8 ... 11:
		error = set_stopper(fd, other);
		break;
	default:
		error = control_random(fd, seed);
		break;
	}
	if (!error_is_expected(error)) {
		fprintf(stderr, "# unexpected: %s\n", strerror(-error));
		__atomic_add_fetch(&stress->surprises, 1, __ATOMIC_RELAXED);
	}
}

static void *step_until_end(void *data)
{
	struct stress *stress = data;
	unsigned int seed = (unsigned long)pthread_self() >> 12;

	while (clock_ns(CLOCK_MONOTONIC) < stress->end)
		random_step(stress, &seed);
	return NULL;
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

TEST_F_TIMEOUT(gate_stress, families_fork_and_exit_under_random_events, MAX_SECONDS + 300)
{
	struct stress *stress = &self->stress;
	pthread_t threads[NR_THREADS];
	int i;

	for (i = 0; i < NR_FAMILIES; i++)
		family_start(_metadata, &stress->families[i], stress, i);
	stress->killer = fork_killer();
	ASSERT_LE(0, stress->killer);
	ASSERT_EQ(0, prctl(PR_SET_CHILD_SUBREAPER, 1));
	for (i = 0; i < NR_FAMILIES; i++)
		ASSERT_EQ(1, write(stress->families[i].go[1], "", 1));

	for (i = 0; i < NR_THREADS; i++)
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, step_until_end, stress));
	for (i = 0; i < NR_THREADS; i++)
		ASSERT_EQ(0, pthread_join(threads[i], NULL));

	for (i = 0; i < NR_FAMILIES; i++)
		family_end(_metadata, &stress->families[i]);
	kill(stress->killer, SIGKILL);
	ASSERT_EQ(stress->killer, waitpid(stress->killer, NULL, 0));
	/* Its last child. */
	while (wait(NULL) > 0)
		;
	for (i = 0; i < POOL_SIZE; i++) {
		if (stress->pool[i] >= 0)
			close(stress->pool[i]);
	}
	triggers_close(&self->triggers);
	self->triggers = (struct gate_triggers) { -1, -1 };
	EXPECT_EQ(0, stress->surprises);
	if (self->objects < 0)
		TH_LOG("no " EVENT_SLAB "objects: events are not counted");
	else
		EXPECT_TRUE(events_go_down_to(self->objects));
}

TEST_HARNESS_MAIN
