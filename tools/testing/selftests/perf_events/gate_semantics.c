// SPDX-License-Identifier: GPL-2.0
/* perf gate selftests - when gates open and close, and lifetimes of events and links */
#define _GNU_SOURCE

#include <pthread.h>

#include "../kselftest_harness.h"
#include "gate_helpers.h"

FIXTURE(gate)
{
	struct gate_triggers triggers;
	struct gate_pages pages;
	int target;
};

/* Each test links the target itself. */
FIXTURE_SETUP(gate)
{
	if (triggers_open(_metadata, &self->triggers))
		return;
	ASSERT_EQ(0, pages_map(&self->pages, 64));
	self->target = gate_open_self(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS);
	ASSERT_LE(0, self->target);
	ASSERT_EQ(0, gate_ioctl(self->target, PERF_EVENT_IOC_RESET, 0));
}

FIXTURE_TEARDOWN(gate)
{
	close(self->target);
	munmap(self->pages.mem, self->pages.size);
	triggers_close(&self->triggers);
}

/* Tell whether the gate is open, by whether the target counts. */
static bool is_open(const struct gate_pages *pages, int target)
{
	__u64 before = gate_read_count(target);

	pages_touch(pages, 1);
	return gate_read_count(target) - before == 1;
}

TEST_F(gate, starter_closes_the_gate_it_is_given)
{
	ASSERT_EQ(0, set_starter(self->triggers.starter, self->target));
	EXPECT_FALSE(is_open(&self->pages, self->target));
}

/* Model a function with three returns, each of which is a stopper. */
TEST_F(gate, each_of_several_stoppers_closes)
{
	int second = open_tracepoint("syscalls/sys_enter_getgid");
	int third = open_tracepoint("syscalls/sys_enter_getegid");

	ASSERT_LE(0, second);
	ASSERT_LE(0, third);
	ASSERT_EQ(0, set_both(&self->triggers, self->target));
	ASSERT_EQ(0, set_stopper(second, self->target));
	ASSERT_EQ(0, set_stopper(third, self->target));
	window_open();
	EXPECT_TRUE(is_open(&self->pages, self->target));
	syscall(__NR_getgid);
	EXPECT_FALSE(is_open(&self->pages, self->target));
	window_open();
	syscall(__NR_getegid);
	EXPECT_FALSE(is_open(&self->pages, self->target));
	/* Detaching one stopper leaves the others. */
	ASSERT_EQ(0, set_stopper(second, -1));
	window_open();
	syscall(__NR_getgid);
	EXPECT_TRUE(is_open(&self->pages, self->target));
	syscall(__NR_getegid);
	EXPECT_FALSE(is_open(&self->pages, self->target));
	ASSERT_EQ(0, close(third));
	window_open();
	window_close();
	EXPECT_FALSE(is_open(&self->pages, self->target));
	EXPECT_EQ(4, gate_read(self->target).gate_count);
	close(second);
}

TEST_F(gate, second_starter_does_not_close)
{
	int second = open_tracepoint("syscalls/sys_enter_getgid");

	ASSERT_LE(0, second);
	ASSERT_EQ(0, set_both(&self->triggers, self->target));
	window_open();
	ASSERT_EQ(0, set_starter(second, self->target));
	EXPECT_TRUE(is_open(&self->pages, self->target));
	window_close();
	syscall(__NR_getgid);
	EXPECT_TRUE(is_open(&self->pages, self->target));
	/* The gate opens when the last trigger is detached, and not before. */
	window_close();
	ASSERT_EQ(0, set_starter(second, -1));
	ASSERT_EQ(0, set_starter(self->triggers.starter, -1));
	EXPECT_FALSE(is_open(&self->pages, self->target));
	ASSERT_EQ(0, set_stopper(self->triggers.stopper, -1));
	EXPECT_TRUE(is_open(&self->pages, self->target));
	close(second);
}

TEST_F(gate, starter_keeps_the_count_so_far)
{
	pages_touch(&self->pages, 5);
	ASSERT_EQ(0, set_starter(self->triggers.starter, self->target));
	pages_touch(&self->pages, 64);
	EXPECT_EQ(5, gate_read_count(self->target));
	window_open();
	pages_touch(&self->pages, 3);
	EXPECT_EQ(8, gate_read_count(self->target));
}

TEST_F(gate, stopper_leaves_the_gate_open)
{
	ASSERT_EQ(0, set_stopper(self->triggers.stopper, self->target));
	EXPECT_TRUE(is_open(&self->pages, self->target));
}

TEST_F(gate, starter_after_stopper_closes_the_gate)
{
	ASSERT_EQ(0, set_stopper(self->triggers.stopper, self->target));
	ASSERT_EQ(0, set_starter(self->triggers.starter, self->target));
	EXPECT_FALSE(is_open(&self->pages, self->target));
}

TEST_F(gate, stopper_after_starter_leaves_the_gate_closed)
{
	ASSERT_EQ(0, set_starter(self->triggers.starter, self->target));
	ASSERT_EQ(0, set_stopper(self->triggers.stopper, self->target));
	EXPECT_FALSE(is_open(&self->pages, self->target));
}

TEST_F(gate, one_trigger_in_both_roles_toggles)
{
	unsigned int i;

	ASSERT_EQ(0, set_starter(self->triggers.starter, self->target));
	ASSERT_EQ(0, set_stopper(self->triggers.starter, self->target));
	for (i = 0; i < 101; i++) {
		window_open();
		pages_touch(&self->pages, i & 1 ? 7 : 3);
	}
	EXPECT_EQ(51 * 3, gate_read_count(self->target));
	EXPECT_EQ(51, gate_read(self->target).gate_count);
}

static void open_nested(struct __test_metadata *const _metadata,
			const struct gate_triggers *triggers, int *target)
{
	struct perf_event_attr attr = gate_attr(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS);

	gate_attr_set_bit(&attr, GATE_BIT_NEST);
	*target = gate_open_target(_metadata, triggers, &attr);
}

TEST_F(gate, nested_gate_closes_at_the_last_stop)
{
	int target, depth;

	open_nested(_metadata, &self->triggers, &target);
	for (depth = 0; depth < 5; depth++) {
		window_open();
		EXPECT_TRUE(is_open(&self->pages, target));
	}
	for (depth = 5; depth > 1; depth--) {
		window_close();
		EXPECT_TRUE(is_open(&self->pages, target));
	}
	window_close();
	EXPECT_FALSE(is_open(&self->pages, target));
	EXPECT_EQ(1, gate_read(target).gate_count);
}

TEST_F(gate, nested_gate_forgets_stops_without_a_start)
{
	int target;

	open_nested(_metadata, &self->triggers, &target);
	window_close();
	window_close();
	window_open();
	EXPECT_TRUE(is_open(&self->pages, target));
	window_close();
	EXPECT_FALSE(is_open(&self->pages, target));
}

TEST_F(gate, one_starter_opens_64_targets_alike)
{
	int targets[GATE_MAX_TARGETS];
	int i;

	for (i = 0; i < GATE_MAX_TARGETS; i++)
		targets[i] = gate_open_counter(_metadata, &self->triggers, PERF_TYPE_SOFTWARE,
					       PERF_COUNT_SW_PAGE_FAULTS);
	for (i = 0; i < 20; i++) {
		pages_touch(&self->pages, 8);
		window_open();
		pages_touch(&self->pages, 2);
		window_close();
	}
	for (i = 0; i < GATE_MAX_TARGETS; i++) {
		EXPECT_EQ(40, gate_read_count(targets[i])) {
			TH_LOG("target %d", i);
		}
	}
}

/*
 * A starts X and stops Y, B starts Y and stops X: each flips both gates, in
 * opposite directions. A model follows a random walk over both of them.
 */
TEST_F(gate, overlapping_gates_follow_their_model)
{
	__u64 x_expected = 0, y_expected = 0;
	bool x_open = false, y_open = false;
	int x, y, i;

	x = self->target;
	y = gate_open_self(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS);
	ASSERT_LE(0, y);
	ASSERT_EQ(0, set_starter(self->triggers.starter, x));
	ASSERT_EQ(0, set_starter(self->triggers.stopper, y));
	ASSERT_EQ(0, set_stopper(self->triggers.starter, y));
	ASSERT_EQ(0, set_stopper(self->triggers.stopper, x));
	srandom(1);
	for (i = 0; i < 10000; i++) {
		unsigned int step = random() % 4;

		if (step == 0) {
			window_open();
			x_open = true;
			y_open = false;
		} else if (step == 1) {
			window_close();
			x_open = false;
			y_open = true;
		} else {
			pages_touch(&self->pages, step);
			x_expected += x_open ? step : 0;
			y_expected += y_open ? step : 0;
		}
	}
	EXPECT_EQ(x_expected, gate_read_count(x));
	EXPECT_EQ(y_expected, gate_read_count(y));
}

/* getuid opens the gate of the getppid event, and getppid opens the target's. */
TEST_F(gate, closed_trigger_does_not_fire)
{
	int link = gate_open_counter(_metadata, &self->triggers, PERF_TYPE_TRACEPOINT,
				     tracepoint_id("syscalls/sys_enter_getppid"));

	ASSERT_EQ(0, set_starter(link, self->target));
	call_getppid(3);
	EXPECT_FALSE(is_open(&self->pages, self->target));
}

TEST_F(gate, open_trigger_of_a_chain_fires)
{
	int link = gate_open_counter(_metadata, &self->triggers, PERF_TYPE_TRACEPOINT,
				     tracepoint_id("syscalls/sys_enter_getppid"));

	ASSERT_EQ(0, set_starter(link, self->target));
	window_open();
	EXPECT_FALSE(is_open(&self->pages, self->target));
	call_getppid(1);
	EXPECT_TRUE(is_open(&self->pages, self->target));
}

TEST_F(gate, two_events_may_gate_each_other)
{
	int other = open_tracepoint("syscalls/sys_enter_getppid");

	ASSERT_LE(0, other);
	ASSERT_EQ(0, set_stopper(other, self->triggers.starter));
	ASSERT_EQ(0, set_starter(self->triggers.starter, other));
	window_open();
	call_getppid(2);
	window_open();
	EXPECT_EQ(2, gate_read_count(other));
	EXPECT_EQ(1, gate_read_count(self->triggers.starter));
}

TEST_F(gate, disabled_trigger_does_not_fire)
{
	ASSERT_EQ(0, set_both(&self->triggers, self->target));
	ASSERT_EQ(0, gate_ioctl(self->triggers.starter, PERF_EVENT_IOC_DISABLE, 0));
	window_open();
	EXPECT_FALSE(is_open(&self->pages, self->target));
	ASSERT_EQ(0, gate_ioctl(self->triggers.starter, PERF_EVENT_IOC_ENABLE, 0));
	window_open();
	EXPECT_TRUE(is_open(&self->pages, self->target));
}

TEST_F(gate, disabled_target_is_opened_all_the_same)
{
	ASSERT_EQ(0, set_both(&self->triggers, self->target));
	ASSERT_EQ(0, gate_ioctl(self->target, PERF_EVENT_IOC_DISABLE, 0));
	window_open();
	pages_touch(&self->pages, 9);
	EXPECT_EQ(0, gate_read_count(self->target));
	ASSERT_EQ(0, gate_ioctl(self->target, PERF_EVENT_IOC_ENABLE, 0));
	EXPECT_TRUE(is_open(&self->pages, self->target));
	EXPECT_EQ(1, gate_read(self->target).gate_count);
}

TEST_F(gate, disabled_target_is_closed_all_the_same)
{
	ASSERT_EQ(0, set_both(&self->triggers, self->target));
	window_open();
	ASSERT_EQ(0, gate_ioctl(self->target, PERF_EVENT_IOC_DISABLE, 0));
	window_close();
	ASSERT_EQ(0, gate_ioctl(self->target, PERF_EVENT_IOC_ENABLE, 0));
	EXPECT_FALSE(is_open(&self->pages, self->target));
}

TEST_F(gate, enabling_does_not_open_a_closed_gate)
{
	ASSERT_EQ(0, set_both(&self->triggers, self->target));
	ASSERT_EQ(0, gate_ioctl(self->target, PERF_EVENT_IOC_DISABLE, 0));
	ASSERT_EQ(0, gate_ioctl(self->target, PERF_EVENT_IOC_ENABLE, 0));
	ASSERT_EQ(0, prctl(PR_TASK_PERF_EVENTS_DISABLE));
	ASSERT_EQ(0, prctl(PR_TASK_PERF_EVENTS_ENABLE));
	EXPECT_FALSE(is_open(&self->pages, self->target));
}

/* Each sleep schedules the events of the task out and in. */
TEST_F(gate, gate_keeps_its_state_over_a_task_switch)
{
	int i;

	ASSERT_EQ(0, set_both(&self->triggers, self->target));
	for (i = 0; i < 10; i++) {
		sleep_for_certain();
		EXPECT_FALSE(is_open(&self->pages, self->target));
		window_open();
		sleep_for_certain();
		EXPECT_TRUE(is_open(&self->pages, self->target));
		window_close();
	}
	EXPECT_EQ(10, gate_read(self->target).gate_count);
}

TEST_F(gate, gate_keeps_its_state_over_a_cpu_change)
{
	int i;

	if (nth_cpu(1) < 0)
		SKIP(return, "needs two CPUs");
	ASSERT_EQ(0, set_both(&self->triggers, self->target));
	for (i = 0; i < 10; i++) {
		ASSERT_EQ(0, pin_to_cpu(0));
		window_open();
		ASSERT_EQ(0, pin_to_cpu(1));
		pages_touch(&self->pages, 4);
		window_close();
		pages_touch(&self->pages, 4);
	}
	EXPECT_EQ(40, gate_read_count(self->target));
}

TEST_F(gate, dropping_the_only_link_opens_the_gate)
{
	ASSERT_EQ(0, set_starter(self->triggers.starter, self->target));
	ASSERT_EQ(0, set_starter(self->triggers.starter, -1));
	EXPECT_TRUE(is_open(&self->pages, self->target));
}

TEST_F(gate, dropping_one_of_two_links_leaves_the_gate_as_it_is)
{
	ASSERT_EQ(0, set_both(&self->triggers, self->target));
	ASSERT_EQ(0, set_stopper(self->triggers.stopper, -1));
	EXPECT_FALSE(is_open(&self->pages, self->target));
	window_open();
	window_close();
	EXPECT_TRUE(is_open(&self->pages, self->target));
}

TEST_F(gate, dropped_trigger_does_not_fire)
{
	ASSERT_EQ(0, set_both(&self->triggers, self->target));
	ASSERT_EQ(0, set_starter(self->triggers.starter, -1));
	window_open();
	EXPECT_FALSE(is_open(&self->pages, self->target));
}

TEST_F(gate, clear_gate_opens_and_stays_open)
{
	ASSERT_EQ(0, set_both(&self->triggers, self->target));
	ASSERT_EQ(0, clear_gate(self->target));
	EXPECT_TRUE(is_open(&self->pages, self->target));
	window_close();
	EXPECT_TRUE(is_open(&self->pages, self->target));
}

TEST_F(gate, clear_gate_drops_no_other_target)
{
	int other = gate_open_counter(_metadata, &self->triggers, PERF_TYPE_SOFTWARE,
				      PERF_COUNT_SW_PAGE_FAULTS);

	ASSERT_EQ(0, set_both(&self->triggers, self->target));
	ASSERT_EQ(0, clear_gate(self->target));
	EXPECT_FALSE(is_open(&self->pages, other));
	window_open();
	EXPECT_TRUE(is_open(&self->pages, other));
}

/* If the gate opened later, the count would grow between this close() and the last read. */
TEST_F(gate, closing_the_triggers_freezes_a_closed_gate)
{
	struct gate_triggers triggers;

	triggers.starter = open_tracepoint("syscalls/sys_enter_getuid");
	triggers.stopper = open_tracepoint("syscalls/sys_enter_geteuid");
	ASSERT_EQ(0, set_both(&triggers, self->target));
	triggers_close(&triggers);
	EXPECT_FALSE(is_open(&self->pages, self->target));
	ASSERT_EQ(0, clear_gate(self->target));
	EXPECT_TRUE(is_open(&self->pages, self->target));
}

TEST_F(gate, closing_the_triggers_freezes_an_open_gate)
{
	struct gate_triggers triggers;

	triggers.starter = open_tracepoint("syscalls/sys_enter_getuid");
	triggers.stopper = open_tracepoint("syscalls/sys_enter_geteuid");
	ASSERT_EQ(0, set_both(&triggers, self->target));
	window_open();
	triggers_close(&triggers);
	EXPECT_TRUE(is_open(&self->pages, self->target));
}

TEST_F(gate, frozen_gate_takes_new_triggers)
{
	int starter = open_tracepoint("syscalls/sys_enter_getuid");

	ASSERT_LE(0, starter);
	ASSERT_EQ(0, set_starter(starter, self->target));
	close(starter);
	ASSERT_EQ(0, set_both(&self->triggers, self->target));
	EXPECT_FALSE(is_open(&self->pages, self->target));
	window_open();
	EXPECT_TRUE(is_open(&self->pages, self->target));
}

/* @order names the event that is closed in each step: starter, stopper, target. */
static void close_in_order(struct __test_metadata *const _metadata,
			   const struct gate_pages *pages, const int *order, bool open)
{
	struct gate_triggers triggers;
	__u64 expected = 0;
	int fds[3];
	int step;

	triggers.starter = open_tracepoint("syscalls/sys_enter_getuid");
	triggers.stopper = open_tracepoint("syscalls/sys_enter_geteuid");
	fds[0] = triggers.starter;
	fds[1] = triggers.stopper;
	fds[2] = gate_open_counter(_metadata, &triggers, PERF_TYPE_SOFTWARE,
				   PERF_COUNT_SW_PAGE_FAULTS);
	window_open();
	pages_touch(pages, 6);
	expected += 6;
	if (!open)
		window_close();
	for (step = 0; step < 3; step++) {
		ASSERT_EQ(0, close(fds[order[step]]));
		if (order[step] == 2)
			fds[2] = -1;
		pages_touch(pages, 4);
		expected += open ? 4 : 0;
		if (fds[2] >= 0) {
			EXPECT_EQ(expected, gate_read_count(fds[2])) {
				TH_LOG("order %d%d%d", order[0], order[1], order[2]);
			}
		}
	}
	window_open();
	window_close();
}

TEST_F(gate, events_may_be_closed_in_any_order)
{
	static const int orders[6][3] = {
		{ 0, 1, 2 }, { 0, 2, 1 }, { 1, 0, 2 },
		{ 1, 2, 0 }, { 2, 0, 1 }, { 2, 1, 0 },
	};
	int i;

	for (i = 0; i < 6; i++) {
		close_in_order(_metadata, &self->pages, orders[i], false);
		close_in_order(_metadata, &self->pages, orders[i], true);
	}
}

TEST_F(gate, exited_task_leaves_its_counts_readable)
{
	struct perf_event_attr attr = gate_attr(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS);
	struct gate_triggers triggers;
	int target, go[2];
	pid_t child;
	char byte;

	ASSERT_EQ(0, pipe(go));
	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		mlockall(MCL_CURRENT);
		munlock(self->pages.mem, self->pages.size);
		if (read(go[0], &byte, 1) != 1)
			_exit(1);
		window_open();
		pages_touch(&self->pages, 12);
		window_close();
		pages_touch(&self->pages, 30);
		_exit(0);
	}
	target = gate_open(&attr, child, -1);
	attr.type = PERF_TYPE_TRACEPOINT;
	attr.config = tracepoint_id("syscalls/sys_enter_getuid");
	triggers.starter = gate_open(&attr, child, -1);
	attr.config = tracepoint_id("syscalls/sys_enter_geteuid");
	triggers.stopper = gate_open(&attr, child, -1);
	ASSERT_EQ(0, set_both(&triggers, target));
	gate_ioctl(target, PERF_EVENT_IOC_RESET, 0);
	ASSERT_EQ(1, write(go[1], "", 1));
	ASSERT_EQ(child, waitpid(child, NULL, 0));
	EXPECT_EQ(12, gate_read_count(target));
	EXPECT_EQ(1, gate_read(target).gate_count);
	triggers_close(&triggers);
	EXPECT_EQ(12, gate_read_count(target));
}

struct page_watch {
	struct perf_event_mmap_page *page;
	bool stop;
};

/* Read the count by the user page, not by read(2). */
FIXTURE(gate_page)
{
	struct gate_triggers triggers;
	struct gate_pages pages;
	struct page_watch watch;
	int target;
};

FIXTURE_SETUP(gate_page)
{
	if (triggers_open(_metadata, &self->triggers))
		return;
	ASSERT_EQ(0, pages_map(&self->pages, 16));
	self->target = gate_open_counter(_metadata, &self->triggers, PERF_TYPE_SOFTWARE,
					 PERF_COUNT_SW_PAGE_FAULTS);
	self->watch.page = mmap(NULL, sysconf(_SC_PAGESIZE), PROT_READ, MAP_SHARED,
				self->target, 0);
	ASSERT_NE(MAP_FAILED, self->watch.page);
	/* Fault the page in here, not in a window. */
	ASSERT_EQ(0, self->watch.page->index);
}

FIXTURE_TEARDOWN(gate_page)
{
	munmap(self->watch.page, sysconf(_SC_PAGESIZE));
	close(self->target);
	munmap(self->pages.mem, self->pages.size);
	triggers_close(&self->triggers);
}

TEST_F(gate_page, closed_event_shows_its_count)
{
	int i;

	for (i = 1; i <= 50; i++) {
		window_open();
		pages_touch(&self->pages, 3);
		window_close();
		pages_touch(&self->pages, 8);
		EXPECT_EQ(0, self->watch.page->index);
		EXPECT_EQ(gate_read_count(self->target), self->watch.page->offset);
	}
	EXPECT_EQ(150, self->watch.page->offset);
}

struct page_values {
	__u64 offset;
	__u64 enabled;
	__u64 running;
};

static struct page_values read_page(struct perf_event_mmap_page *page)
{
	struct page_values values;
	__u32 seq;

	do {
		seq = __atomic_load_n(&page->lock, __ATOMIC_ACQUIRE);
		values.offset = __atomic_load_n(&page->offset, __ATOMIC_RELAXED);
		values.enabled = __atomic_load_n(&page->time_enabled, __ATOMIC_RELAXED);
		values.running = __atomic_load_n(&page->time_running, __ATOMIC_RELAXED);
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
	} while ((seq & 1) || seq != __atomic_load_n(&page->lock, __ATOMIC_RELAXED));
	return values;
}

/* An emulator that runs one CPU at a time switches to the next one here. */
static inline void cpu_relax(void)
{
#if defined(__x86_64__)
	__asm__ volatile("pause" ::: "memory");
#elif defined(__powerpc64__)
	__asm__ volatile("or 1,1,1; or 2,2,2" ::: "memory");
#elif defined(__aarch64__)
	__asm__ volatile("yield" ::: "memory");
#else
	__asm__ volatile("" ::: "memory");
#endif
}

/* Returns the number of reads that stepped back or were torn. */
static void *watch_page(void *data)
{
	struct page_watch *watch = data;
	struct page_values last = {}, values;
	unsigned long nr_bad = 0, nr;

	for (nr = 0; nr < 100000 || !__atomic_load_n(&watch->stop, __ATOMIC_RELAXED); nr++) {
		values = read_page(watch->page);
		nr_bad += values.offset < last.offset || values.enabled < last.enabled ||
			  values.running < last.running || values.running > values.enabled;
		last = values;
		cpu_relax();
	}
	return (void *)nr_bad;
}

TEST_F_TIMEOUT(gate_page, page_is_consistent_while_the_gate_flips, 120)
{
	pthread_t thread;
	void *nr_bad;
	int i;

	ASSERT_EQ(0, pthread_create(&thread, NULL, watch_page, &self->watch));
	for (i = 0; i < 5000; i++) {
		window_open();
		pages_touch(&self->pages, 1);
		window_close();
	}
	__atomic_store_n(&self->watch.stop, true, __ATOMIC_RELAXED);
	ASSERT_EQ(0, pthread_join(thread, &nr_bad));
	EXPECT_EQ(NULL, nr_bad);
	EXPECT_EQ(5000, self->watch.page->offset);
}

/*
 * The tracepoint is delivered to the task that is woken, by its events for the CPU of
 * the waker, which is the CPU of the timer.
 */
TEST_F(gate, member_of_a_disabled_group_does_not_fire)
{
	struct perf_event_attr attr = gate_attr(PERF_TYPE_TRACEPOINT,
						tracepoint_id("syscalls/sys_enter_getppid"));
	int leader, sibling, target, i;

	ASSERT_EQ(0, pin_to_cpu(nth_cpu(0)));
	attr.disabled = 1;
	leader = gate_open(&attr, 0, nth_cpu(0));
	ASSERT_LE(0, leader);
	attr.disabled = 0;
	attr.config = tracepoint_id("sched/sched_wakeup");
	sibling = gate_open_group(&attr, 0, nth_cpu(0), leader);
	ASSERT_LE(0, sibling);
	attr.type = PERF_TYPE_SOFTWARE;
	attr.config = PERF_COUNT_SW_PAGE_FAULTS;
	target = gate_open(&attr, 0, nth_cpu(0));
	ASSERT_LE(0, target);
	ASSERT_EQ(0, set_starter(sibling, target));
	for (i = 0; i < 5; i++)
		sleep_for_certain();
	EXPECT_EQ(0, gate_read(target).gate_count);
	ASSERT_EQ(0, ioctl(leader, PERF_EVENT_IOC_ENABLE, 0));
	for (i = 0; i < 5; i++)
		sleep_for_certain();
	EXPECT_EQ(1, gate_read(target).gate_count);
	close(target);
	close(sibling);
	close(leader);
}

TEST_HARNESS_MAIN
