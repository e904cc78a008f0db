// SPDX-License-Identifier: GPL-2.0
/*
 * perf selftests - events at tracepoints that count on many CPUs and for others
 *
 * Counts on one CPU must not depend on sampling events of another CPU, on events
 * that come and go meanwhile, nor on the CPU being online all the time. Wakeups
 * count for the task that is woken, too.
 */
#define _GNU_SOURCE

#include <pthread.h>
#include <sys/eventfd.h>
#include <time.h>

#include "../kselftest_harness.h"
#include "event_helpers.h"
#include "trace_event_helpers.h"

#define MAX_CPUS	4
#define HITS		100

static int pin_to(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return sched_setaffinity(0, sizeof(set), &set);
}

/* Find up to MAX_CPUS on which this task may run. */
static int find_cpus(int *cpus)
{
	cpu_set_t set;
	int cpu, nr = 0;

	if (sched_getaffinity(0, sizeof(set), &set))
		return 0;
	for (cpu = 0; cpu < CPU_SETSIZE && nr < MAX_CPUS; cpu++) {
		if (CPU_ISSET(cpu, &set))
			cpus[nr++] = cpu;
	}
	return nr;
}

static struct perf_event_attr tracepoint_attr(const char *name)
{
	long id = trace_event_id(name);

	return (struct perf_event_attr) {
		.type	= id < 0 ? -1U : PERF_TYPE_TRACEPOINT,
		.size	= sizeof(struct perf_event_attr),
		.config	= id,
	};
}

/* Open an event of all tasks on a CPU: see trace_attr(). */
FIXTURE(tracepoint_cpus)
{
	struct perf_event_attr attr;
	int cpus[MAX_CPUS];
	int fds[MAX_CPUS];
	int nr;
};

FIXTURE_SETUP(tracepoint_cpus)
{
	int i;

	if (getuid())
		SKIP(return, "needs root for events of CPUs");
	self->attr = trace_attr(TRACE_SYSCALL_ENTER);
	if (self->attr.type == -1U)
		SKIP(return, "no such trace event");
	self->nr = find_cpus(self->cpus);
	for (i = 0; i < self->nr; i++) {
		self->fds[i] = trace_open(&self->attr, -1, self->cpus[i]);
		ASSERT_LE(0, self->fds[i]);
	}
}

FIXTURE_TEARDOWN(tracepoint_cpus)
{
	while (self->nr)
		close(self->fds[--self->nr]);
}

TEST_F(tracepoint_cpus, sampling_on_one_cpu_is_nothing_to_others)
{
	struct trace_sampler sampler;
	int with, i, n;

	for (with = 0; with < self->nr; with++) {
		ASSERT_EQ(0, sampler_open(&sampler, self->attr, -1, self->cpus[with]));
		for (i = 0; i < self->nr; i++) {
			ASSERT_EQ(0, pin_to(self->cpus[i]));
			trace_hit(TRACE_SYSCALL_ENTER, HITS);
			EXPECT_EQ(i == with ? HITS : 0, sampler_read(&sampler));
		}
		sampler_close(&sampler);
		for (i = 0; i < self->nr; i++) {
			ASSERT_EQ(0, pin_to(self->cpus[i]));
			trace_hit(TRACE_SYSCALL_ENTER, HITS);
			n = 2 * (with + 1) * HITS;
			EXPECT_EQ(n, trace_count(self->fds[i]));
		}
	}
}

/* The sampling event of a task follows it to any CPU. */
TEST_F(tracepoint_cpus, sampler_moves_with_its_task)
{
	struct trace_sampler sampler;
	int i;

	ASSERT_EQ(0, sampler_open(&sampler, self->attr, 0, -1));
	for (i = 0; i < 8 * self->nr; i++) {
		ASSERT_EQ(0, pin_to(self->cpus[i % self->nr]));
		trace_hit(TRACE_SYSCALL_ENTER, HITS);
		EXPECT_EQ(HITS, sampler_read(&sampler));
	}
	EXPECT_EQ(8 * self->nr * HITS, trace_count(sampler.fd));
	for (i = 0; i < self->nr; i++)
		EXPECT_EQ(8 * HITS, trace_count(self->fds[i]));
	sampler_close(&sampler);
}

struct hitter {
	struct perf_event_attr attr;
	pthread_t thread;
	__u64 counted;
	__u64 hits;
	bool *stop;
	int cpu;
};

/* Count hits by an event of the thread, beside that of the CPU. */
static void *hit_until_stopped(void *data)
{
	struct hitter *hitter = data;
	int fd;

	if (pin_to(hitter->cpu))
		return NULL;
	fd = trace_open(&hitter->attr, 0, -1);
	while (!__atomic_load_n(hitter->stop, __ATOMIC_RELAXED)) {
		trace_hit(TRACE_SYSCALL_ENTER, 10);
		hitter->hits += 10;
	}
	hitter->counted = trace_count(fd);
	close(fd);
	return NULL;
}

/* Events that need records come to a CPU and leave it: a sampler, a filter or a program. */
static int disturb(const struct perf_event_attr *attr, int cpu, int program, int round)
{
	static const char * const filters[] = { "common_pid == 0", "common_pid != 0" };
	struct trace_sampler sampler;
	int fd;

	if (round % 4 == 0) {
		if (sampler_open(&sampler, *attr, -1, cpu))
			return -1;
		sched_yield();
		sampler_close(&sampler);
		return 0;
	}
	fd = trace_open((struct perf_event_attr *)attr, -1, cpu);
	if (fd < 0)
		return -1;
	if (round % 4 == 3) {
		if (program >= 0 && ioctl(fd, PERF_EVENT_IOC_SET_BPF, program))
			return -1;
	} else if (ioctl(fd, PERF_EVENT_IOC_SET_FILTER, filters[round % 4 - 1])) {
		return -1;
	}
	sched_yield();
	close(fd);
	return 0;
}

TEST_F_TIMEOUT(tracepoint_cpus, counts_are_exact_whatever_comes_and_goes, 120)
{
	const char *wanted = getenv("PERF_STRESS_SECONDS");
	time_t end = time(NULL) + (wanted ? atoi(wanted) : 3);
	struct hitter hitters[MAX_CPUS] = {};
	int program, round = 0, i;
	bool stop = false;

	program = trace_load_program(TRACE_SYSCALL_ENTER, 1);
	for (i = 0; i < self->nr; i++) {
		hitters[i].attr = self->attr;
		hitters[i].cpu = self->cpus[i];
		hitters[i].stop = &stop;
		ASSERT_EQ(0, pthread_create(&hitters[i].thread, NULL, hit_until_stopped,
					    &hitters[i]));
	}
	do {
		i = self->cpus[round / 4 % self->nr];
		EXPECT_EQ(0, disturb(&self->attr, i, program, round)) {
			TH_LOG("round %d: %s", round, strerror(errno));
		}
		round++;
	} while (time(NULL) < end);
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	for (i = 0; i < self->nr; i++) {
		pthread_join(hitters[i].thread, NULL);
		EXPECT_LT(0, hitters[i].hits);
		EXPECT_EQ(hitters[i].hits, hitters[i].counted);
		EXPECT_EQ(hitters[i].hits, trace_count(self->fds[i]));
	}
	TH_LOG("%d rounds, %llu hits on the first CPU", round, hitters[0].hits);
	if (program >= 0)
		close(program);
}

static int set_online(int cpu, bool online)
{
	char path[64];
	int fd, ret;

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/online", cpu);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	ret = write(fd, online ? "1" : "0", 1) == 1 ? 0 : -errno;
	close(fd);
	return ret;
}

/*
 * The events of a CPU are removed with it, in any state. Events that are opened when it
 * is back are not affected by them.
 */
TEST_F_TIMEOUT(tracepoint_cpus, cpu_that_comes_back_starts_afresh, 120)
{
	int cpu = self->cpus[self->nr - 1], fd, i, ret;
	struct trace_sampler old, sampler, mine;

	if (self->nr < 2)
		SKIP(return, "needs two CPUs");
	for (i = 0; i < 3; i++) {
		ASSERT_EQ(0, sampler_open(&old, self->attr, -1, cpu));
		/* Be on the CPU when it goes offline. */
		ASSERT_EQ(0, sampler_open(&mine, self->attr, 0, -1));
		ASSERT_EQ(0, pin_to(cpu));
		trace_hit(TRACE_SYSCALL_ENTER, HITS);
		EXPECT_EQ(HITS, sampler_read(&old));
		EXPECT_EQ(HITS, sampler_read(&mine));
		ret = set_online(cpu, false);
		if (ret)
			SKIP(break, "CPU %d cannot go offline: %s", cpu, strerror(-ret));
		trace_hit(TRACE_SYSCALL_ENTER, HITS);
		EXPECT_EQ(HITS, sampler_read(&mine));
		ASSERT_EQ(0, set_online(cpu, true));
		ASSERT_EQ(0, pin_to(cpu));

		/* Count, sample, and count again. */
		fd = trace_open(&self->attr, -1, cpu);
		ASSERT_LE(0, fd);
		trace_hit(TRACE_SYSCALL_ENTER, HITS);
		ASSERT_EQ(0, sampler_open(&sampler, self->attr, -1, cpu));
		trace_hit(TRACE_SYSCALL_ENTER, HITS);
		EXPECT_EQ(HITS, sampler_read(&sampler));
		EXPECT_EQ(2 * HITS, sampler_read(&mine));
		sampler_close(&old);
		trace_hit(TRACE_SYSCALL_ENTER, HITS);
		EXPECT_EQ(HITS, sampler_read(&sampler));
		sampler_close(&mine);
		trace_hit(TRACE_SYSCALL_ENTER, HITS);
		EXPECT_EQ(HITS, sampler_read(&sampler));
		sampler_close(&sampler);
		trace_hit(TRACE_SYSCALL_ENTER, HITS);
		EXPECT_EQ(5 * HITS, trace_count(fd));
		close(fd);
	}
}

/*
 * The sleeper waits for one word after the other and wakes no task; the waker checks
 * its progress. Both are on one CPU, so that each word finds the sleeper asleep. A
 * wakeup by other tasks is delivered to the events of a task that are for one CPU.
 */
FIXTURE(tracepoint_wakeup)
{
	struct perf_event_attr attr;
	unsigned int *awake;
	pid_t sleeper;
	int word;
	int cpu;
};

FIXTURE_SETUP(tracepoint_wakeup)
{
	eventfd_t value;

	self->sleeper = 0;
	if (getuid())
		SKIP(return, "needs root for tracepoints");
	self->attr = tracepoint_attr("sched/sched_wakeup");
	if (self->attr.type == -1U)
		SKIP(return, "no tracepoint sched/sched_wakeup");
	self->cpu = sched_getcpu();
	ASSERT_EQ(0, pin_to(self->cpu));
	self->awake = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, self->awake);
	self->word = eventfd(0, EFD_CLOEXEC);
	ASSERT_LE(0, self->word);
	self->sleeper = fork();
	if (!self->sleeper) {
		while (!eventfd_read(self->word, &value))
			__atomic_fetch_add(self->awake, 1, __ATOMIC_RELAXED);
		_exit(1);
	}
	ASSERT_LE(0, self->sleeper);
}

FIXTURE_TEARDOWN(tracepoint_wakeup)
{
	if (self->sleeper > 0) {
		kill(self->sleeper, SIGKILL);
		waitpid(self->sleeper, NULL, 0);
	}
	close(self->word);
	munmap(self->awake, 4096);
}

static bool is_asleep(pid_t pid)
{
	char path[64], state = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	file = fopen(path, "r");
	if (!file)
		return false;
	if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
		state = 0;
	fclose(file);
	return state == 'S';
}

static void wake_sleeper(struct __test_metadata *const _metadata, unsigned int *awake, int word,
			 pid_t sleeper)
{
	unsigned int i, before;

	for (i = 0; i < HITS; i++) {
		/* A word that the task reads without sleeping causes no wakeup. */
		while (!is_asleep(sleeper))
			sched_yield();
		before = __atomic_load_n(awake, __ATOMIC_RELAXED);
		ASSERT_EQ(0, eventfd_write(word, 1));
		while (__atomic_load_n(awake, __ATOMIC_RELAXED) == before)
			sched_yield();
	}
}

/* Any task may wake threads of the kernel, so the count may be higher. */
#define EXPECT_WAKEUPS(_count) do {		\
	__u64 _wakeups = (_count);		\
						\
	EXPECT_LE(HITS, _wakeups);		\
	EXPECT_GT(20 * HITS, _wakeups);		\
} while (0)

TEST_F(tracepoint_wakeup, task_that_is_woken_counts_it)
{
	int fd = trace_open(&self->attr, self->sleeper, self->cpu);

	ASSERT_LE(0, fd);
	wake_sleeper(_metadata, self->awake, self->word, self->sleeper);
	EXPECT_WAKEUPS(trace_count(fd));
	close(fd);
}

TEST_F(tracepoint_wakeup, waker_and_woken_both_count_it)
{
	int waker = trace_open(&self->attr, 0, -1), fd;

	ASSERT_LE(0, waker);
	fd = trace_open(&self->attr, self->sleeper, self->cpu);
	ASSERT_LE(0, fd);
	wake_sleeper(_metadata, self->awake, self->word, self->sleeper);
	EXPECT_WAKEUPS(trace_count(fd));
	EXPECT_WAKEUPS(trace_count(waker));
	close(fd);
	close(waker);
}

TEST_F(tracepoint_wakeup, waker_counts_one_who_is_not_traced)
{
	int waker = trace_open(&self->attr, 0, -1);

	ASSERT_LE(0, waker);
	wake_sleeper(_metadata, self->awake, self->word, self->sleeper);
	EXPECT_WAKEUPS(trace_count(waker));
	close(waker);
}

/* All events of the waker count; the event of the other task would sample if it ran. */
TEST_F(tracepoint_wakeup, sampling_event_of_a_woken_task_counts_it)
{
	int waker = trace_open(&self->attr, 0, -1);
	struct trace_sampler sampler;

	ASSERT_LE(0, waker);
	ASSERT_EQ(0, sampler_open(&sampler, self->attr, self->sleeper, self->cpu));
	wake_sleeper(_metadata, self->awake, self->word, self->sleeper);
	EXPECT_WAKEUPS(trace_count(sampler.fd));
	EXPECT_WAKEUPS(trace_count(waker));
	sampler_close(&sampler);
	close(waker);
}

/* The filter of the woken task's event applies, too. */
TEST_F(tracepoint_wakeup, filter_of_a_woken_task_decides)
{
	int waker = trace_open(&self->attr, 0, -1), none, all;
	char filter[64];

	ASSERT_LE(0, waker);
	/* The sleeper may wake threads of the kernel before the filters are there. */
	self->attr.disabled = 1;
	none = trace_open(&self->attr, self->sleeper, self->cpu);
	all = trace_open(&self->attr, self->sleeper, self->cpu);
	ASSERT_LE(0, none);
	ASSERT_LE(0, all);
	ASSERT_EQ(0, ioctl(none, PERF_EVENT_IOC_SET_FILTER, "pid == 0"));
	snprintf(filter, sizeof(filter), "pid == %d", self->sleeper);
	ASSERT_EQ(0, ioctl(all, PERF_EVENT_IOC_SET_FILTER, filter));
	ASSERT_EQ(0, ioctl(none, PERF_EVENT_IOC_ENABLE, 0));
	ASSERT_EQ(0, ioctl(all, PERF_EVENT_IOC_ENABLE, 0));
	wake_sleeper(_metadata, self->awake, self->word, self->sleeper);
	EXPECT_EQ(0, trace_count(none));
	EXPECT_EQ(HITS, trace_count(all));
	EXPECT_WAKEUPS(trace_count(waker));
	close(all);
	close(none);
	close(waker);
}

/* This event counts in nanoseconds that the task has run. */
TEST(trace_event_adds_what_it_counts_in)
{
	struct perf_event_attr clock_attr = {
		.type	= PERF_TYPE_SOFTWARE,
		.size	= sizeof(clock_attr),
		.config	= PERF_COUNT_SW_TASK_CLOCK,
	};
	struct perf_event_attr attr = tracepoint_attr("sched/sched_stat_runtime");
	__u64 ran, counted;
	int fd, clock;

	if (attr.type == -1U || getuid())
		SKIP(return, "needs root, and tracepoint sched/sched_stat_runtime");
	fd = trace_open(&attr, 0, -1);
	ASSERT_LE(0, fd);
	clock = trace_open(&clock_attr, 0, -1);
	ASSERT_LE(0, clock);
	do {
		ran = trace_count(clock);
	} while (ran < 200000000);
	counted = trace_count(fd);
	EXPECT_LE(ran / 2, counted);
	EXPECT_GE(ran + ran / 2, counted);
	close(clock);
	close(fd);
}

TEST_HARNESS_MAIN
