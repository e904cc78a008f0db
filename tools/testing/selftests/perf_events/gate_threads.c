// SPDX-License-Identifier: GPL-2.0
/*
 * perf gate selftests - inherited gates of threads, over exec(), in groups, in
 * samples, in time, and of tasks whose fork fails
 */
#define _GNU_SOURCE

#include <pthread.h>

#include "../kselftest_harness.h"
#include "gate_family.h"

#define EXECUTED	"gate_threads_executed"

#define NR_THREADS	8
/* GATE_SWITCHES in the environment changes this number. */
#define NR_SWITCHES	20000

FIXTURE(gate_threads)
{
	struct gate_triggers triggers;
	struct perf_event_attr attr;
	int target;
};

FIXTURE_SETUP(gate_threads)
{
	if (triggers_open(_metadata, &self->triggers))
		return;
	triggers_inherit(_metadata, &self->triggers);
	self->attr = inherited_attr(PERF_TYPE_TRACEPOINT,
				    tracepoint_id("syscalls/sys_enter_getppid"));
	self->target = gate_open(&self->attr, 0, -1);
	ASSERT_LE(0, self->target);
	ASSERT_EQ(0, set_both(&self->triggers, self->target));
}

FIXTURE_TEARDOWN(gate_threads)
{
	close(self->target);
	triggers_close(&self->triggers);
}

static void fork_windows(struct __test_metadata *const _metadata,
			 unsigned int nr, unsigned int inside, unsigned int outside)
{
	pid_t child = fork();

	ASSERT_LE(0, child);
	if (!child) {
		run_windows(nr, inside, outside);
		_exit(0);
	}
	wait_for_success(_metadata, child);
}

static void *puppet_thread(void *puppet)
{
	puppet_live(puppet);
	return NULL;
}

static pthread_t puppet_start(struct __test_metadata *const _metadata,
			      struct puppet *puppet)
{
	pthread_t thread;

	puppet_prepare(_metadata, puppet);
	ASSERT_EQ(0, pthread_create(&thread, NULL, puppet_thread, puppet));
	return thread;
}

/* pthread_join() returns before the exit of a thread is complete in the kernel. */
static void wait_for_threads(void)
{
	char line[256];
	int nr = 0;
	FILE *file;

	do {
		file = fopen("/proc/self/status", "r");
		while (file && fgets(line, sizeof(line), file))
			sscanf(line, "Threads: %d", &nr);
		if (file)
			fclose(file);
		sched_yield();
	} while (file && nr > 1);
}

TEST_F(gate_threads, threads_have_windows_of_their_own)
{
	struct puppet puppets[2];
	pthread_t threads[2];
	int i;

	for (i = 0; i < 2; i++)
		threads[i] = puppet_start(_metadata, &puppets[i]);
	ASSERT_TRUE(tell(&puppets[0], "og"));
	ASSERT_TRUE(tell(&puppets[1], "ggg"));
	call_getppid(7);
	EXPECT_EQ(1, gate_read_count(self->target));
	window_open();
	call_getppid(2);
	ASSERT_TRUE(tell(&puppets[0], "cg"));
	ASSERT_TRUE(tell(&puppets[1], "g"));
	EXPECT_EQ(3, gate_read_count(self->target));
	for (i = 0; i < 2; i++) {
		ASSERT_TRUE(tell(&puppets[i], "ogx"));
		ASSERT_EQ(0, pthread_join(threads[i], NULL));
	}
	wait_for_threads();
	EXPECT_EQ(5, gate_read_count(self->target));
	EXPECT_EQ(4, gate_read(self->target).gate_count);
}

/* A thread is not in the functions of its creator, and does not return from them. */
TEST_F(gate_threads, thread_created_in_a_window_starts_closed)
{
	struct puppet puppet;
	pthread_t thread;

	window_open();
	thread = puppet_start(_metadata, &puppet);
	ASSERT_TRUE(tell(&puppet, "ggg"));
	EXPECT_EQ(0, gate_read_count(self->target));
	call_getppid(2);
	EXPECT_EQ(2, gate_read_count(self->target));
	ASSERT_TRUE(tell(&puppet, "ogcg"));
	EXPECT_EQ(3, gate_read_count(self->target));
	ASSERT_TRUE(tell(&puppet, "x"));
	ASSERT_EQ(0, pthread_join(thread, NULL));
	window_close();
	wait_for_threads();
	EXPECT_EQ(3, gate_read_count(self->target));
	EXPECT_EQ(2, gate_read(self->target).gate_count);
}

/* A gate with only a stopper stays closed, because no trigger opens it. */
TEST_F(gate_threads, thread_starts_open_if_nothing_opens_its_gate)
{
	struct puppet puppet;
	pthread_t thread;

	ASSERT_EQ(0, clear_gate(self->target));
	ASSERT_EQ(0, set_stopper(self->triggers.stopper, self->target));
	thread = puppet_start(_metadata, &puppet);
	ASSERT_TRUE(tell(&puppet, "gcgx"));
	ASSERT_EQ(0, pthread_join(thread, NULL));
	wait_for_threads();
	EXPECT_EQ(1, gate_read_count(self->target));
}

/* A child of vfork(2) or posix_spawn(3) returns from the functions of its parent. */
TEST_F(gate_threads, child_that_shares_memory_starts_as_its_parent_is)
{
	pid_t child;

	window_open();
	child = syscall(__NR_clone, CLONE_VFORK | SIGCHLD, 0, 0, 0, 0);
	ASSERT_LE(0, child);
	if (!child) {
		call_getppid(3);
		_exit(0);
	}
	wait_for_success(_metadata, child);
	window_close();
	EXPECT_EQ(3, gate_read_count(self->target));
}

/* One of many equal threads on one CPU. */
struct yielder {
	pthread_t thread;
	unsigned int number;
	__u64 calls;
	__u64 windows;
	long switches;
};

static void yield(struct yielder *self, unsigned int *seed)
{
	unsigned int times = rand_r(seed) % 3;

	while (times--)
		sched_yield();
}

/*
 * Use different numbers in each thread and on both sides of a window, so that errors do
 * not cancel out.
 */
static void *yield_in_windows(void *data)
{
	struct yielder *self = data;
	unsigned int seed = self->number;
	struct rusage usage;

	do {
		yield(self, &seed);
		window_open();
		yield(self, &seed);
		call_getppid(1 + self->number);
		yield(self, &seed);
		window_close();
		yield(self, &seed);
		call_getppid(11 + self->number);
		self->calls += 1 + self->number;
		self->windows++;
		getrusage(RUSAGE_THREAD, &usage);
	} while (usage.ru_nvcsw + usage.ru_nivcsw < self->switches);
	self->switches = usage.ru_nvcsw + usage.ru_nivcsw;
	return NULL;
}

/*
 * The kernel treats the contexts of two threads that inherited the same events as
 * equal, and a switch between them may leave the events where they are and exchange
 * their owners. With gates one task would then continue in the window of the other. The
 * tester itself must have inherited events only.
 */
TEST_F_TIMEOUT(gate_threads, windows_do_not_leak_between_threads_of_a_cpu, 600)
{
	struct yielder yielders[NR_THREADS] = {};
	const char *asked = getenv("GATE_SWITCHES");
	long wanted = asked ? strtol(asked, NULL, 0) : NR_SWITCHES;
	__u64 calls = 0, windows = 0;
	long switches = 0;
	int i;

	ASSERT_EQ(0, pin_to_cpu(nth_cpu(0)));
	for (i = 0; i < NR_THREADS; i++) {
		yielders[i].number = i;
		yielders[i].switches = wanted / NR_THREADS;
		ASSERT_EQ(0, pthread_create(&yielders[i].thread, NULL, yield_in_windows,
					    &yielders[i]));
	}
	for (i = 0; i < NR_THREADS; i++) {
		ASSERT_EQ(0, pthread_join(yielders[i].thread, NULL));
		calls += yielders[i].calls;
		windows += yielders[i].windows;
		switches += yielders[i].switches;
	}
	wait_for_threads();
	TH_LOG("%ld task switches, %llu windows", switches, (unsigned long long)windows);
	EXPECT_EQ(calls, gate_read_count(self->target));
	EXPECT_EQ(windows, gate_read(self->target).gate_count);
}

static void open_all_thread_only(struct __test_metadata *const _metadata,
				 struct gate_triggers *triggers, int *target)
{
	struct perf_event_attr attr;

	attr = inherited_attr(PERF_TYPE_TRACEPOINT, 0);
	attr.inherit_thread = 1;
	attr.config = tracepoint_id("syscalls/sys_enter_getuid");
	triggers->starter = gate_open(&attr, 0, -1);
	ASSERT_LE(0, triggers->starter);
	attr.config = tracepoint_id("syscalls/sys_enter_geteuid");
	triggers->stopper = gate_open(&attr, 0, -1);
	ASSERT_LE(0, triggers->stopper);
	attr.config = tracepoint_id("syscalls/sys_enter_getppid");
	*target = gate_open(&attr, 0, -1);
	ASSERT_LE(0, *target);
}

TEST_F(gate_threads, inherit_thread_gates_threads_and_no_children)
{
	struct gate_triggers triggers;
	struct puppet puppet;
	pthread_t thread;
	int target;

	open_all_thread_only(_metadata, &triggers, &target);
	ASSERT_EQ(0, set_both(&triggers, target));
	thread = puppet_start(_metadata, &puppet);
	ASSERT_TRUE(tell(&puppet, "ggogggcgx"));
	ASSERT_EQ(0, pthread_join(thread, NULL));
	fork_windows(_metadata, 3, 5, 7);
	wait_for_threads();
	EXPECT_EQ(3, gate_read_count(target));
	EXPECT_EQ(1, gate_read(target).gate_count);
}

TEST_F(gate_threads, inherit_thread_must_be_equal)
{
	struct gate_triggers triggers;
	int target;

	open_all_thread_only(_metadata, &triggers, &target);
	EXPECT_EQ(-EINVAL, set_stopper(self->triggers.stopper, target));
	EXPECT_EQ(-EINVAL, set_stopper(triggers.stopper, self->target));
}

/* Program that is executed below: as in gate_inherit.c, with other numbers. */
static int executed(void)
{
	run_windows(5, 3, 17);
	return 0;
}

static void fork_exec(struct __test_metadata *const _metadata)
{
	pid_t child = fork();

	ASSERT_LE(0, child);
	if (!child) {
		run_windows(2, 10, 20);
		window_open();
		execl("/proc/self/exe", EXECUTED, NULL);
		_exit(1);
	}
	wait_for_success(_metadata, child);
}

TEST_F(gate_threads, windows_go_on_over_exec)
{
	fork_exec(_metadata);
	EXPECT_EQ(2 * 10 + 5 * 3, gate_read_count(self->target));
	/* The program starts in the window that was open at the exec(). */
	EXPECT_EQ(2 + 5, gate_read(self->target).gate_count);
}

/* Open triggers and a target that differ from those of the fixture by @prepare. */
static void open_alike(struct __test_metadata *const _metadata,
		       struct perf_event_attr attr, int *target)
{
	struct gate_triggers triggers;

	attr.config = tracepoint_id("syscalls/sys_enter_getuid");
	triggers.starter = gate_open(&attr, 0, -1);
	ASSERT_LE(0, triggers.starter);
	attr.config = tracepoint_id("syscalls/sys_enter_geteuid");
	triggers.stopper = gate_open(&attr, 0, -1);
	ASSERT_LE(0, triggers.stopper);
	attr.config = tracepoint_id("syscalls/sys_enter_getppid");
	gate_attr_set_bit(&attr, GATE_BIT_START_PAUSED);
	*target = gate_open(&attr, 0, -1);
	ASSERT_LE(0, *target);
	ASSERT_EQ(0, set_both(&triggers, *target));
}

TEST_F(gate_threads, events_removed_on_exec_keep_their_windows)
{
	int target;

	self->attr.remove_on_exec = 1;
	open_alike(_metadata, self->attr, &target);
	fork_exec(_metadata);
	EXPECT_EQ(2 * 10, gate_read_count(target));
	EXPECT_EQ(2 + 1, gate_read(target).gate_count);
}

TEST_F(gate_threads, events_enabled_on_exec_count_windows_from_there)
{
	int target;

	self->attr.disabled = 1;
	self->attr.enable_on_exec = 1;
	open_alike(_metadata, self->attr, &target);
	fork_exec(_metadata);
	EXPECT_EQ(5 * 3, gate_read_count(target));
	EXPECT_EQ(5, gate_read(target).gate_count);
}

/* The leader has no gate: it counts everything, also what the siblings must leave out. */
TEST_F(gate_threads, siblings_of_an_inherited_group_count_the_same_windows)
{
	struct gate_group group;
	int fds[4], i;

	self->attr.read_format |= PERF_FORMAT_GROUP;
	gate_attr_set_bit(&self->attr, GATE_BIT_START_PAUSED);
	fds[0] = gate_open(&self->attr, 0, -1);
	ASSERT_LE(0, fds[0]);
	ASSERT_EQ(0, clear_gate(fds[0]));
	for (i = 1; i < 4; i++) {
		fds[i] = gate_open_group(&self->attr, 0, -1, fds[0]);
		ASSERT_LE(0, fds[i]);
		ASSERT_EQ(0, set_both(&self->triggers, fds[i]));
	}
	run_windows(2, 3, 4);
	fork_windows(_metadata, 5, 6, 7);
	fork_windows(_metadata, 8, 9, 10);
	ASSERT_EQ(sizeof(group), read(fds[0], &group, sizeof(group)));
	ASSERT_EQ(4, group.nr);
	EXPECT_EQ(2 * 7 + 5 * 13 + 8 * 19, group.entry[0].value);
	EXPECT_EQ(1, group.entry[0].gate_count);
	for (i = 1; i < 4; i++) {
		EXPECT_EQ(2 * 3 + 5 * 6 + 8 * 9, group.entry[i].value) {
			TH_LOG("sibling %d", i);
		}
		EXPECT_EQ(15, group.entry[i].gate_count);
		EXPECT_EQ(group.entry[1].gate_time, group.entry[i].gate_time);
		EXPECT_LE(group.entry[i].gate_time, group.running);
	}
}

/*
 * With PERF_SAMPLE_READ, the samples of an inherited event hold the count of their own
 * task. Its buffer is for one CPU.
 */
TEST_F(gate_threads, samples_hold_the_windows_of_their_own_task)
{
	struct {
		struct perf_event_header header;
		__u32 pid, tid;
		struct gate_value read;
	} sample;
	struct gate_triggers triggers;
	struct gate_ring ring;
	int target, cpu = nth_cpu(0), nr = 0;
	__u64 last = 0;
	pid_t pid = 0;

	ASSERT_EQ(0, pin_to_cpu(cpu));
	self->attr.config = tracepoint_id("syscalls/sys_enter_getuid");
	triggers.starter = gate_open(&self->attr, 0, cpu);
	ASSERT_LE(0, triggers.starter);
	self->attr.config = tracepoint_id("syscalls/sys_enter_geteuid");
	triggers.stopper = gate_open(&self->attr, 0, cpu);
	ASSERT_LE(0, triggers.stopper);
	self->attr.config = tracepoint_id("syscalls/sys_enter_getppid");
	self->attr.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_READ;
	self->attr.sample_period = 1;
	target = gate_open(&self->attr, 0, cpu);
	ASSERT_LE(0, target) {
		TH_LOG("PERF_SAMPLE_READ and inherit: %s", strerror(errno));
	}
	ASSERT_EQ(0, set_both(&triggers, target));
	ASSERT_EQ(0, ring_map(&ring, target, 16));
	run_windows(2, 3, 5);
	fork_windows(_metadata, 3, 4, 5);
	fork_windows(_metadata, 1, 6, 7);
	while (ring_next(&ring, &sample, sizeof(sample))) {
		if (sample.header.type != PERF_RECORD_SAMPLE)
			continue;
		if (sample.pid != pid)
			last = 0;
		pid = sample.pid;
		EXPECT_EQ(last + 1, sample.read.value) {
			TH_LOG("sample %d, of task %d", nr, pid);
		}
		EXPECT_LE(sample.read.gate_count, sample.read.value);
		EXPECT_LE(sample.read.gate_time, sample.read.running);
		last = sample.read.value;
		nr++;
	}
	EXPECT_EQ(2 * 3 + 3 * 4 + 6, nr);
	EXPECT_EQ(nr, gate_read_count(target));
}

/* Bounds for the windows of a child, measured by an event of its own. */
struct measured {
	__u64 inner;
	__u64 outer;
};

/*
 * An event of the task without a gate is in the same context as the gated events, so it
 * has the same times: a task switch ends both in the same instant. Only the moves of
 * the gate are between the two pairs of readings.
 */
static void measure_windows(struct measured *measured)
{
	__u64 begin, inner, outer;
	int fd, i;

	fd = gate_open_self(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_DUMMY);
	if (fd < 0)
		_exit(1);
	for (i = 0; i < 10; i++) {
		spin_ns(5 * NSEC_PER_MSEC);
		begin = gate_read(fd).running;
		window_open();
		inner = gate_read(fd).running;
		spin_ns(2 * NSEC_PER_MSEC);
		inner = gate_read(fd).running - inner;
		window_close();
		outer = gate_read(fd).running - begin;
		measured->inner += inner;
		measured->outer += outer;
	}
}

TEST_F(gate_threads, open_time_of_children_adds_up)
{
	struct measured *measured, sum = {};
	struct gate_value before, value;
	pid_t children[4];
	__u64 open_time;
	int i;

	measured = mmap(NULL, sizeof(*measured) * ARRAY_SIZE(children),
			PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, measured);
	/* The gate was open until it was linked. */
	before = gate_read(self->target);
	for (i = 0; i < ARRAY_SIZE(children); i++) {
		children[i] = fork();
		ASSERT_LE(0, children[i]);
		if (!children[i]) {
			measure_windows(&measured[i]);
			_exit(0);
		}
	}
	for (i = 0; i < ARRAY_SIZE(children); i++) {
		wait_for_success(_metadata, children[i]);
		sum.inner += measured[i].inner;
		sum.outer += measured[i].outer;
	}
	value = gate_read(self->target);
	EXPECT_EQ(10 * ARRAY_SIZE(children), value.gate_count);
	EXPECT_LT(0, sum.inner);
	open_time = value.gate_time - before.gate_time;
	EXPECT_LE(sum.inner, open_time);
	EXPECT_LE(open_time, sum.outer);
	EXPECT_LE(value.gate_time, value.running);
}

/*
 * A fork fails after the events were copied, because the caller must not create a
 * namespace. The copies must be freed, and the gates of the caller must not change.
 */
TEST_F_TIMEOUT(gate_threads, failed_fork_leaves_the_gates_alone, 300)
{
	int status, i;
	pid_t child;

	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		if (setresuid(65534, 65534, 65534))
			_exit(2);
		for (i = 0; i < 300; i++) {
			if (i % 3 == 0)
				window_open();
			if (i % 3 == 2)
				window_close();
			if (syscall(__NR_clone, CLONE_NEWUTS | SIGCHLD, 0, 0, 0, 0) != -1)
				_exit(3);
			call_getppid(1);
		}
		_exit(errno != EPERM);
	}
	ASSERT_EQ(child, waitpid(child, &status, 0));
	ASSERT_EQ(0, status);
	EXPECT_EQ(200, gate_read_count(self->target));
	EXPECT_EQ(100, gate_read(self->target).gate_count);
}

#define main test_main
TEST_HARNESS_MAIN
#undef main

int main(int argc, char **argv)
{
	return !strcmp(argv[0], EXECUTED) ? executed() : test_main(argc, argv);
}
