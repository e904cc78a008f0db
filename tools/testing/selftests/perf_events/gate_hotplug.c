// SPDX-License-Identifier: GPL-2.0
/*
 * perf gate selftests - CPUs that go offline and come back
 *
 * A task whose CPU goes offline moves to another one with its events, which must
 * not affect its gates. The events of a CPU are removed when it goes offline.
 */
#define _GNU_SOURCE

#include <pthread.h>

#include "../kselftest_harness.h"
#include "gate_helpers.h"

#define NR_ROUNDS	8

/* A CPU that a thread takes offline and online. */
struct coming_cpu {
	int cpu;
	bool stop;
};

FIXTURE(gate_hotplug)
{
	struct gate_triggers triggers;
	struct gate_pages pages;
	cpu_set_t all_cpus;
	struct coming_cpu coming;
	int cpu;
};

static int set_online(int cpu, bool online)
{
	char path[64];
	int fd, ret;

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/online", cpu);
	fd = open(path, O_WRONLY);
	if (fd < 0)
		return -errno;
	ret = write(fd, online ? "1" : "0", 1) == 1 ? 0 : -errno;
	close(fd);
	return ret;
}

/* The last CPU goes offline and online; the test itself runs on another one. */
FIXTURE_SETUP(gate_hotplug)
{
	int n, ret;

	if (triggers_open(_metadata, &self->triggers))
		return;
	ASSERT_EQ(0, pages_map(&self->pages, 16));
	for (n = 1, self->cpu = -1; nth_cpu(n) >= 0; n++)
		self->cpu = nth_cpu(n);
	if (self->cpu < 0)
		SKIP(return, "needs two CPUs");
	ret = set_online(self->cpu, false);
	if (ret)
		SKIP(return, "CPU %d cannot go offline: %s", self->cpu, strerror(-ret));
	self->coming.cpu = self->cpu;
	ASSERT_EQ(0, set_online(self->cpu, true));
	ASSERT_EQ(0, sched_getaffinity(0, sizeof(self->all_cpus), &self->all_cpus));
}

FIXTURE_TEARDOWN(gate_hotplug)
{
	if (self->cpu >= 0)
		set_online(self->cpu, true);
	munmap(self->pages.mem, self->pages.size);
	triggers_close(&self->triggers);
}

/* Run a window with @inside faults, and twice as many outside. */
static void one_window(const struct gate_pages *pages, unsigned int inside)
{
	window_open();
	pages_touch(pages, inside);
	window_close();
	pages_touch(pages, 2 * inside);
}

TEST_F_TIMEOUT(gate_hotplug, gate_follows_its_task_off_an_offline_cpu, 300)
{
	int target, i;

	target = gate_open_counter(_metadata, &self->triggers, PERF_TYPE_SOFTWARE,
				   PERF_COUNT_SW_PAGE_FAULTS);
	gate_ioctl(target, PERF_EVENT_IOC_RESET, 0);
	for (i = 0; i < NR_ROUNDS; i++) {
		/*
		 * The task is back on the CPU, may use both, and is in a window when
		 * the CPU goes offline.
		 */
		ASSERT_EQ(0, pin_to_cpu(self->cpu));
		sched_setaffinity(0, sizeof(self->all_cpus), &self->all_cpus);
		one_window(&self->pages, 3);
		window_open();
		pages_touch(&self->pages, 2);
		/* Writing to sysfs may fault in this task. */
		window_close();
		ASSERT_EQ(0, set_online(self->cpu, false));
		window_open();
		pages_touch(&self->pages, 2);
		window_close();
		one_window(&self->pages, 3);
		ASSERT_EQ(0, set_online(self->cpu, true));
	}
	EXPECT_EQ(10 * NR_ROUNDS, gate_read_count(target));
	EXPECT_EQ(4 * NR_ROUNDS, gate_read(target).gate_count);
	close(target);
}

static void *come_and_go(void *data)
{
	struct coming_cpu *coming = data;
	unsigned long failed = 0;
	int i;

	for (i = 0; i < NR_ROUNDS; i++) {
		failed += !!set_online(coming->cpu, false);
		usleep(20000);
		failed += !!set_online(coming->cpu, true);
		usleep(20000);
	}
	__atomic_store_n(&coming->stop, true, __ATOMIC_RELAXED);
	return (void *)failed;
}

/* Report where and for how long the events were off, if they were. */
static void tell_first_loss(struct __test_metadata *const _metadata,
			    const struct gate_triggers *triggers, int target, __u64 windows)
{
	struct gate_value trigger = gate_read(triggers->starter), value = gate_read(target);

	TH_LOG("CPU %d, after %llu windows: %llu counted, %llu openings",
	       sched_getcpu(), windows, value.gate_count, trigger.value);
	TH_LOG("ran for %llu of %llu ns, the starter for %llu of %llu ns", value.running,
	       value.enabled, trigger.running, trigger.enabled);
}

TEST_F_TIMEOUT(gate_hotplug, windows_are_exact_while_a_cpu_comes_and_goes, 300)
{
	bool lost = false;
	__u64 windows = 0;
	pthread_t thread;
	void *failed;
	int target;

	target = gate_open_counter(_metadata, &self->triggers, PERF_TYPE_SOFTWARE,
				   PERF_COUNT_SW_PAGE_FAULTS);
	ASSERT_EQ(0, pthread_create(&thread, NULL, come_and_go, &self->coming));
	gate_ioctl(target, PERF_EVENT_IOC_RESET, 0);
	while (!__atomic_load_n(&self->coming.stop, __ATOMIC_RELAXED)) {
		one_window(&self->pages, 3);
		/* Go to the CPU whenever it is online. */
		if (!(windows++ % 64))
			pin_to_cpu(self->cpu);
		else if (windows % 64 == 32)
			sched_setaffinity(0, sizeof(self->all_cpus), &self->all_cpus);
		if (!lost && windows % 16 == 0 && gate_read(target).gate_count != windows) {
			tell_first_loss(_metadata, &self->triggers, target, windows);
			lost = true;
		}
	}
	ASSERT_EQ(0, pthread_join(thread, &failed));
	EXPECT_EQ(NULL, failed);
	EXPECT_LT(0, windows);
	if (lost)
		tell_first_loss(_metadata, &self->triggers, target, windows);
	EXPECT_EQ(3 * windows, gate_read_count(target));
	EXPECT_EQ(windows, gate_read(target).gate_count);
	close(target);
}

/*
 * The first and the last gate patch the kernel's code, which waits for hotplug, and
 * hotplug waits for the mutex of the context under which links are made.
 */
TEST_F_TIMEOUT(gate_hotplug, gates_are_made_while_a_cpu_comes_and_goes, 300)
{
	struct perf_event_attr attr = gate_attr(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS);
	pthread_t thread;
	void *failed;
	int target;

	ASSERT_EQ(0, pthread_create(&thread, NULL, come_and_go, &self->coming));
	while (!__atomic_load_n(&self->coming.stop, __ATOMIC_RELAXED)) {
		target = gate_open(&attr, 0, -1);
		ASSERT_LE(0, target);
		ASSERT_EQ(0, set_both(&self->triggers, target));
		gate_ioctl(target, PERF_EVENT_IOC_RESET, 0);
		one_window(&self->pages, 2);
		ASSERT_EQ(2, gate_read_count(target));
		ASSERT_EQ(0, clear_gate(target));
		close(target);
	}
	ASSERT_EQ(0, pthread_join(thread, &failed));
	EXPECT_EQ(NULL, failed);
}

/*
 * Events of a CPU count all tasks there, and daemons that learn of a CPU that came back
 * call getpid(2) and the like on it. No other program makes the system calls used here.
 */
struct cpu_events {
	struct gate_triggers triggers;
	int target;
};

static void call_getscheduler(unsigned int times)
{
	while (times--)
		syscall(__NR_sched_getscheduler, 0);
}

static void one_window_of_cpu(unsigned int inside, unsigned int outside)
{
	syscall(__NR_sched_get_priority_max, 0);
	call_getscheduler(inside);
	syscall(__NR_sched_get_priority_min, 0);
	call_getscheduler(outside);
}

static void open_on_cpu(struct __test_metadata *const _metadata, struct cpu_events *events,
			int cpu)
{
	struct perf_event_attr attr = gate_attr(PERF_TYPE_TRACEPOINT, 0);

	attr.config = tracepoint_id("syscalls/sys_enter_sched_get_priority_max");
	events->triggers.starter = gate_open(&attr, -1, cpu);
	ASSERT_LE(0, events->triggers.starter);
	attr.config = tracepoint_id("syscalls/sys_enter_sched_get_priority_min");
	events->triggers.stopper = gate_open(&attr, -1, cpu);
	ASSERT_LE(0, events->triggers.stopper);
	attr.config = tracepoint_id("syscalls/sys_enter_sched_getscheduler");
	events->target = gate_open(&attr, -1, cpu);
	ASSERT_LE(0, events->target);
	ASSERT_EQ(0, set_both(&events->triggers, events->target));
}

static void close_on_cpu(struct cpu_events *events)
{
	close(events->target);
	triggers_close(&events->triggers);
}

TEST_F_TIMEOUT(gate_hotplug, events_of_an_offline_cpu_keep_their_counts, 300)
{
	struct cpu_events events;
	struct gate_value value;
	int i;

	open_on_cpu(_metadata, &events, self->cpu);
	ASSERT_EQ(0, pin_to_cpu(self->cpu));
	for (i = 0; i < 5; i++)
		one_window_of_cpu(4, 9);
	ASSERT_EQ(0, pin_to_cpu(nth_cpu(0)));
	sched_setaffinity(0, sizeof(self->all_cpus), &self->all_cpus);
	ASSERT_EQ(0, set_online(self->cpu, false));
	value = gate_read(events.target);
	EXPECT_EQ(20, value.value);
	EXPECT_EQ(5, value.gate_count);
	EXPECT_LE(value.gate_time, value.running);
	close_on_cpu(&events);
	ASSERT_EQ(0, set_online(self->cpu, true));
}

/* No operation on the events uses their CPU meanwhile, or waits for it. */
TEST_F_TIMEOUT(gate_hotplug, events_of_an_offline_cpu_can_be_handled, 300)
{
	struct cpu_events events, late;
	int i;

	for (i = 0; i < NR_ROUNDS; i++) {
		open_on_cpu(_metadata, &events, self->cpu);
		ASSERT_EQ(0, set_online(self->cpu, false));
		EXPECT_EQ(0, gate_ioctl(events.target, PERF_EVENT_IOC_RESET, 0));
		EXPECT_EQ(0, set_starter(events.triggers.starter, -1));
		EXPECT_EQ(0, set_stopper(events.triggers.stopper, -1));
		EXPECT_EQ(0, clear_gate(events.target));
		/* Links to an event without a context may fail, but do no harm. */
		set_both(&events.triggers, events.target);
		EXPECT_EQ(0, gate_read_count(events.target));
		if (i & 1)
			close_on_cpu(&events);
		ASSERT_EQ(0, set_online(self->cpu, true));
		if (!(i & 1))
			close_on_cpu(&events);

		open_on_cpu(_metadata, &late, self->cpu);
		ASSERT_EQ(0, pin_to_cpu(self->cpu));
		one_window_of_cpu(2, 0);
		EXPECT_EQ(2, gate_read_count(late.target));
		sched_setaffinity(0, sizeof(self->all_cpus), &self->all_cpus);
		close_on_cpu(&late);
	}
}

/* Use events of one task, on a CPU that goes offline and on another one. */
TEST_F_TIMEOUT(gate_hotplug, members_of_a_cpu_that_comes_and_goes_share_on, 300)
{
	struct perf_event_attr attr = gate_attr(PERF_TYPE_TRACEPOINT,
						tracepoint_id("syscalls/sys_enter_getppid"));
	int other = nth_cpu(0), first, member, i;

	first = gate_open(&attr, 0, other);
	ASSERT_LE(0, first);
	member = gate_open(&attr, 0, self->cpu);
	ASSERT_LE(0, member);
	ASSERT_EQ(0, set_both(&self->triggers, first));
	ASSERT_EQ(0, join_gate(member, first));
	for (i = 0; i < NR_ROUNDS; i++) {
		ASSERT_EQ(0, pin_to_cpu(self->cpu));
		window_open();
		call_getppid(3);
		ASSERT_EQ(0, set_online(self->cpu, false));
		ASSERT_EQ(0, pin_to_cpu(other));
		call_getppid(4);
		window_close();
		call_getppid(5);
		/* The CPU of the member is offline while the gate moves. */
		window_open();
		ASSERT_EQ(0, set_online(self->cpu, true));
		ASSERT_EQ(0, pin_to_cpu(self->cpu));
		call_getppid(6);
		window_close();
		call_getppid(7);
	}
	EXPECT_EQ(4 * NR_ROUNDS, gate_read_count(first));
	EXPECT_EQ(9 * NR_ROUNDS, gate_read_count(member));
	EXPECT_EQ(2 * NR_ROUNDS, gate_read(first).gate_count);
	EXPECT_EQ(2 * NR_ROUNDS, gate_read(member).gate_count);
	close(member);
	close(first);
}

TEST_HARNESS_MAIN
