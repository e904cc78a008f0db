// SPDX-License-Identifier: GPL-2.0
/*
 * perf user page selftests - access to the counters of a POWER processor
 *
 * The access bits serve a whole CPU, so the access of a task depends on other
 * events there, and may change at any instruction.
 */
#define _GNU_SOURCE
#include "../kselftest_harness.h"
#include "user_page_helpers.h"

#define NR_COUNTERS	6
/* Config of a raw event for event based branches. */
#define CONFIG_EBB	(1ULL << 63)

/* Read MMCR0 as problem state sees it. */
static int signal_of_control_read(void)
{
	struct sigaction action = { .sa_handler = user_page_on_signal }, old;
	unsigned long value;
	int sig;

	sigaction(SIGILL, &action, &old);
	sig = sigsetjmp(user_page_signal, 1);
	if (!sig)
		asm volatile("mfspr %0, 779" : "=r" (value));
	sigaction(SIGILL, &old, NULL);
	return sig;
}

/* Number of counters that a task without an event can read. */
static int counters_of_a_stranger(int cpu)
{
	int status, i, readable = 0;
	__u64 value;
	pid_t child;

	child = fork();
	if (!child) {
		pin(cpu);
		for (i = 1; i <= NR_COUNTERS; i++)
			readable += !signal_of_read(i, &value);
		_exit(readable);
	}
	waitpid(child, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

FIXTURE(access)
{
	struct perf_event_mmap_page *page;
	int fd;
};

FIXTURE_SETUP(access)
{
	struct perf_event_attr attr = instructions_attr();

	if (user_page_setup(_metadata))
		return;
	ASSERT_EQ(0, pin(0));
	/* A kernel without the control fails here, because it cannot close counters. */
	if (!access(USER_ACCESS, F_OK))
		ASSERT_EQ(0, write_file(USER_ACCESS, "1"));
	self->fd = user_open(&attr, 0, -1, -1);
	ASSERT_LE(0, self->fd);
	self->page = page_map(self->fd, 0);
	ASSERT_NE(MAP_FAILED, self->page);
}

FIXTURE_TEARDOWN(access)
{
	write_file(USER_ACCESS, "1");
}

TEST_F(access, child_cannot_read_the_parents_counters)
{
	EXPECT_EQ(0, counters_of_a_stranger(0));
	EXPECT_EQ(0, counters_of_a_stranger(1));
}

TEST_F(access, stranger_reads_nothing_of_a_whole_cpu)
{
	struct perf_event_attr attr = user_attr(PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS);
	int all;

	attr.exclude_kernel = 0;
	all = user_open(&attr, -1, 0, -1);
	ASSERT_LE(0, all);
	EXPECT_EQ(0, counters_of_a_stranger(0));
	attr.config = PERF_COUNT_HW_CPU_CYCLES;
	ASSERT_LE(0, user_open(&attr, -1, 0, -1));
	EXPECT_EQ(0, counters_of_a_stranger(0));
}

TEST_F(access, closed_event_leaves_no_access)
{
	__u64 value;

	page_unmap(self->page, 0);
	close(self->fd);
	EXPECT_EQ(SIGILL, signal_of_read(1, &value));
	EXPECT_EQ(SIGILL, signal_of_control_read());
}

TEST_F(access, event_without_mapping_shows_nothing)
{
	__u64 value;
	int i;

	page_unmap(self->page, 0);
	/* This holds at the next write of the PMU, for any reason. */
	ASSERT_EQ(0, ioctl(self->fd, PERF_EVENT_IOC_DISABLE, 0));
	ASSERT_EQ(0, ioctl(self->fd, PERF_EVENT_IOC_ENABLE, 0));
	for (i = 1; i <= NR_COUNTERS; i++) {
		ASSERT_EQ(0, signal_of_read(i, &value));
		ASSERT_EQ(0, value);
	}
	EXPECT_EQ(SIGILL, signal_of_control_read());
}

/* A profiler may count something that its target must not know. */
TEST_F(access, mapping_of_another_process_shows_nothing)
{
	struct perf_event_attr attr = instructions_attr();
	struct perf_event_mmap_page *page;
	int fd, i, round, status, seen = 0;
	__u64 value, values[3];
	int begin[2];
	pid_t child;

	ASSERT_EQ(0, pipe(begin));
	child = fork();
	if (!child) {
		pin(0);
		if (read(begin[0], &i, sizeof(i)) != sizeof(i))
			_exit(255);
		for (round = 0; round < 20; round++) {
			work(100000);
			for (i = 1; i <= NR_COUNTERS; i++)
				seen += !signal_of_read(i, &value) && value;
			sched_yield();
		}
		_exit(seen);
	}
	fd = user_open(&attr, child, -1, -1);
	ASSERT_LE(0, fd);
	page = page_map(fd, 0);
	ASSERT_NE(MAP_FAILED, page);
	ASSERT_EQ((ssize_t)sizeof(i), write(begin[1], &i, sizeof(i)));
	ASSERT_EQ(child, waitpid(child, &status, 0));
	ASSERT_TRUE(WIFEXITED(status));
	EXPECT_EQ(0, WEXITSTATUS(status));
	ASSERT_EQ((ssize_t)sizeof(values), read(fd, values, sizeof(values)));
	EXPECT_LT(20 * 100000, values[0]);
	page_unmap(page, 0);
	close(fd);
}

/* Another process that counts this one, until it gets a command or this process ends. */
struct observer {
	pid_t	pid;
	int	ready[2];
	int	end[2];
};

static bool observer_start(struct observer *o, struct perf_event_attr *attr)
{
	char c;

	if (pipe(o->ready) || pipe(o->end))
		return false;
	o->pid = fork();
	if (!o->pid) {
		close(o->end[1]);
		pin(1);
		c = user_open(attr, getppid(), -1, -1) < 0;
		if (write(o->ready[1], &c, 1) == 1)
			c = read(o->end[0], &c, 1);
		_exit(0);
	}
	return read(o->ready[0], &c, 1) == 1 && !c;
}

static void observer_stop(struct observer *o)
{
	close(o->end[1]);
	waitpid(o->pid, NULL, 0);
	close(o->end[0]);
	close(o->ready[0]);
	close(o->ready[1]);
}

/* A task must not read the counts of root's perf stat -p. */
TEST_F(access, event_of_another_opener_closes_the_counters)
{
	struct perf_event_attr attr = user_attr(PERF_TYPE_RAW, 0x1001e);
	struct brackets b = {};
	struct observer o;
	__u64 value;
	int i, round;

	attr.exclude_kernel = 0;
	for (round = 0; round < 10; round++) {
		EXPECT_LT(0, self->page->index);
		ASSERT_TRUE(observer_start(&o, &attr));
		work(100000);
		EXPECT_EQ(0, self->page->index);
		for (i = 1; i <= NR_COUNTERS; i++) {
			ASSERT_EQ(0, signal_of_read(i, &value));
			EXPECT_EQ(0, value) {
				TH_LOG("PMC%d", i);
			}
		}
		ASSERT_TRUE(brackets_run(&b, 100, self->fd, self->page));
		observer_stop(&o);
	}
	EXPECT_EQ(0, b.direct);
	EXPECT_LT(0, self->page->index);
	ASSERT_TRUE(brackets_run(&b, 100, self->fd, self->page));
	EXPECT_EQ(100, b.direct);
	EXPECT_BRACKETS(&b);
}

/* A second event of the task itself may count anything. */
TEST_F(access, own_events_close_nothing)
{
	struct perf_event_attr attr = user_attr(PERF_TYPE_RAW, 0x1001e);
	int fd;

	attr.inherit = 1;
	fd = user_open(&attr, 0, -1, -1);
	ASSERT_LE(0, fd);
	EXPECT_LT(0, self->page->index);
	/* Schedule the event again, beside the other one. */
	ASSERT_EQ(0, ioctl(self->fd, PERF_EVENT_IOC_DISABLE, 0));
	ASSERT_EQ(0, ioctl(self->fd, PERF_EVENT_IOC_ENABLE, 0));
	EXPECT_LT(0, self->page->index);
	close(fd);
}

/* The parent opened it, and the child may have fewer privileges. */
TEST_F(access, inherited_event_of_the_parent_closes_the_counters)
{
	struct perf_event_attr attr = user_attr(PERF_TYPE_RAW, 0x1001e);
	struct perf_event_mmap_page *page;
	int parent, fd, status;
	pid_t child;

	attr.inherit = 1;
	parent = user_open(&attr, 0, -1, -1);
	ASSERT_LE(0, parent);
	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		attr = instructions_attr();
		fd = user_open(&attr, 0, -1, -1);
		page = page_map(fd, 0);
		_exit(page == MAP_FAILED ? 1 : page->index ? 2 : 0);
	}
	ASSERT_EQ(child, waitpid(child, &status, 0));
	ASSERT_TRUE(WIFEXITED(status));
	EXPECT_EQ(0, WEXITSTATUS(status));
	close(parent);
}

/* In problem state, MMCR2 shows which counters do not run there. */
static __u64 counters_frozen(void)
{
	__u64 mmcr2;

	asm volatile("mfspr %0, 769" : "=r" (mmcr2));
	return mmcr2;
}

#define FROZEN(counter)	(1ULL << (62 - 9 * ((counter) - 1)))

/* MMCR0 runs PMC5 and PMC6 both. An emulator that does not know MMCR2 does so, too. */
TEST_F(access, counter_beside_that_of_an_event_is_frozen)
{
	static const struct {
		__u64	config;
		int	used;
		int	unused;
	} rows[] = { { 0x500fa, 5, 6 }, { 0x600f4, 6, 5 } };
	struct perf_event_attr attr = user_attr(PERF_TYPE_RAW, 0);
	struct perf_event_mmap_page *page;
	int i, fd;

	page_unmap(self->page, 0);
	close(self->fd);
	for (i = 0; i < 2; i++) {
		attr.config = rows[i].config;
		fd = user_open(&attr, 0, -1, -1);
		ASSERT_LE(0, fd);
		page = page_map(fd, 0);
		ASSERT_NE(MAP_FAILED, page);
		ASSERT_EQ(rows[i].used, page->index);
		EXPECT_EQ(FROZEN(rows[i].unused),
			  counters_frozen() & (FROZEN(5) | FROZEN(6)));
		page_unmap(page, 0);
		close(fd);
	}
	self->fd = -1;
}

/* One of two running events leaves, after which MMCR0 is not recomputed. */
TEST_F(access, counter_that_an_event_has_left_is_frozen)
{
	struct perf_event_attr attr = user_attr(PERF_TYPE_RAW, 0x500fa);
	struct perf_event_mmap_page *page;
	int fd, other;

	page_unmap(self->page, 0);
	close(self->fd);
	fd = user_open(&attr, 0, -1, -1);
	ASSERT_LE(0, fd);
	page = page_map(fd, 0);
	ASSERT_NE(MAP_FAILED, page);
	attr.config = 0x600f4;
	other = user_open(&attr, 0, -1, -1);
	ASSERT_LE(0, other);
	EXPECT_EQ(0, counters_frozen() & (FROZEN(5) | FROZEN(6)));
	close(other);
	ASSERT_EQ(5, page->index);
	EXPECT_EQ(FROZEN(6), counters_frozen() & (FROZEN(5) | FROZEN(6)));
	page_unmap(page, 0);
	close(fd);
	self->fd = -1;
}

/* Tell whether the kernel's log has the line, which comes once after boot. */
static bool log_has(const char *text)
{
	int fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	bool found = false;
	char line[1024];
	ssize_t length;

	while (!found && (length = read(fd, line, sizeof(line) - 1)) > 0) {
		line[length] = '\0';
		found = strstr(line, text);
	}
	close(fd);
	return found;
}

TEST_F(access, log_tells_whom_the_control_has_stopped)
{
	EXPECT_EQ(0, counters_of_a_stranger(0));
	EXPECT_TRUE(log_has("see kernel.perf_user_access"));
}

TEST_F(access, unused_counters_are_zero)
{
	struct perf_event_attr attr = cycles_attr();
	__u64 value;
	int all, i;

	/* Leave values in the counters. */
	all = user_open(&attr, -1, 0, -1);
	ASSERT_LE(0, all);
	work(100000);
	close(all);
	ASSERT_LT(0, self->page->index);
	for (i = 1; i <= NR_COUNTERS; i++) {
		/* Without MMCR2, PMC6 runs whenever PMC5 does. */
		if (i == self->page->index || (i == 6 && self->page->index == 5))
			continue;
		ASSERT_EQ(0, signal_of_read(i, &value));
		/* The event may have moved to this counter meanwhile, at a task switch. */
		if (i == self->page->index)
			continue;
		ASSERT_EQ(0, value) {
			TH_LOG("PMC%d beside PMC%u", i, self->page->index);
		}
	}
}

/* PMC6 runs with PMC5, and belongs to no event when the event that ran both has left. */
TEST_F(access, counters_that_an_event_has_left_are_zero)
{
	struct perf_event_attr attr = user_attr(PERF_TYPE_RAW, 0x1001e);
	struct perf_event_mmap_page *page;
	__u64 value;
	int other, i, round;

	page_unmap(self->page, 0);
	close(self->fd);
	self->fd = user_open(&attr, 0, -1, -1);
	ASSERT_LE(0, self->fd);
	page = page_map(self->fd, 0);
	ASSERT_NE(MAP_FAILED, page);
	ASSERT_EQ(1, page->index);
	attr.config = 0x500fa;
	for (round = 0; round < 10; round++) {
		other = user_open(&attr, 0, -1, -1);
		ASSERT_LE(0, other);
		work(100000);
		for (i = 5; i <= 6; i++) {
			ASSERT_EQ(0, signal_of_read(i, &value));
			EXPECT_LT(0, value);
		}
		close(other);
		for (i = 2; i <= NR_COUNTERS; i++) {
			ASSERT_EQ(0, signal_of_read(i, &value));
			EXPECT_EQ(0, value) {
				TH_LOG("PMC%d", i);
			}
		}
	}
	ASSERT_EQ(1, page->index);
}

/* An event that stays keeps the PMU in use while the other two come and go. */
TEST_F(access, counter_that_ran_for_the_whole_cpu_is_zero)
{
	struct perf_event_attr attr = user_attr(PERF_TYPE_RAW, 0x20002);
	struct perf_event_mmap_page *page;
	int stays, all, round;
	__u64 value;

	page_unmap(self->page, 0);
	close(self->fd);
	stays = user_open(&attr, 0, -1, -1);
	ASSERT_LE(0, stays);
	attr.config = 0x1001e;
	self->fd = user_open(&attr, 0, -1, -1);
	ASSERT_LE(0, self->fd);
	page = page_map(self->fd, 0);
	ASSERT_NE(MAP_FAILED, page);
	attr.config = 0x500fa;
	for (round = 0; round < 20; round++) {
		ASSERT_EQ(1, page->index);
		all = user_open(&attr, -1, 0, -1);
		ASSERT_LE(0, all);
		ASSERT_EQ(0, page->index);
		work(100000);
		ASSERT_EQ(0, ioctl(self->fd, PERF_EVENT_IOC_DISABLE, 0));
		close(all);
		ASSERT_EQ(0, ioctl(self->fd, PERF_EVENT_IOC_ENABLE, 0));
		ASSERT_EQ(1, page->index);
		ASSERT_EQ(0, signal_of_read(6, &value));
		EXPECT_EQ(0, value);
	}
}

TEST_F(access, event_of_the_cpu_closes_the_counters)
{
	struct perf_event_attr attr = cycles_attr();
	struct brackets b = {};
	__u64 value = 1;
	int all, i;

	EXPECT_LT(0, self->page->index);
	attr.exclude_kernel = 0;
	all = user_open(&attr, -1, 0, -1);
	ASSERT_LE(0, all);
	EXPECT_EQ(0, self->page->index);
	EXPECT_TRUE(!!self->page->cap_user_rdpmc);
	for (i = 1; i <= NR_COUNTERS; i++) {
		EXPECT_EQ(0, signal_of_read(i, &value));
		EXPECT_EQ(0, value);
	}
	ASSERT_TRUE(brackets_run(&b, 1000, self->fd, self->page));
	EXPECT_EQ(0, b.direct);
	if (sysconf(_SC_NPROCESSORS_ONLN) > 1) {
		ASSERT_EQ(0, pin(1));
		EXPECT_LT(0, self->page->index);
		ASSERT_EQ(0, pin(0));
		EXPECT_EQ(0, self->page->index);
	}
	close(all);
	EXPECT_LT(0, self->page->index);
	ASSERT_TRUE(brackets_run(&b, 1000, self->fd, self->page));
	EXPECT_EQ(1000, b.direct);
	EXPECT_BRACKETS(&b);
}

TEST_F(access, reader_survives_events_of_the_cpu)
{
	user_page_reads_during(_metadata, toggle_event_of_cpu, self->fd, self->page, true);
}

TEST_F(access, reader_survives_changes_of_access)
{
	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		SKIP(return, "one CPU, nothing at the same time");
	ASSERT_EQ(0, access(USER_ACCESS, W_OK));
	user_page_reads_during(_metadata, toggle_access, self->fd, self->page, false);
}

TEST_F(access, mode_0_closes_all)
{
	struct brackets b = {};
	__u64 value = 1;

	ASSERT_EQ(0, write_file(USER_ACCESS, "0"));
	EXPECT_FALSE(!!self->page->cap_user_rdpmc);
	EXPECT_EQ(0, self->page->index);
	EXPECT_EQ(0, self->page->pmc_width);
	EXPECT_EQ(0, signal_of_read(1, &value));
	EXPECT_EQ(0, value);
	ASSERT_TRUE(brackets_run(&b, 100, self->fd, self->page));
	EXPECT_EQ(0, b.direct);
	EXPECT_EQ(0, counters_of_a_stranger(0));
	ASSERT_EQ(0, write_file(USER_ACCESS, "1"));
	EXPECT_TRUE(!!self->page->cap_user_rdpmc);
	EXPECT_LT(0, self->page->index);
	EXPECT_BRACKETS(&b);
}

TEST_F(access, mode_2_opens_all)
{
	struct brackets b = {};

	ASSERT_EQ(0, write_file(USER_ACCESS, "2"));
	EXPECT_EQ(NR_COUNTERS, counters_of_a_stranger(0));
	EXPECT_EQ(NR_COUNTERS, counters_of_a_stranger(1));
	EXPECT_EQ(SIGILL, signal_of_write());
	ASSERT_TRUE(brackets_run(&b, 1000, self->fd, self->page));
	EXPECT_EQ(0, b.fallback);
	ASSERT_EQ(0, write_file(USER_ACCESS, "1"));
	EXPECT_EQ(0, counters_of_a_stranger(0));
	EXPECT_EQ(0, counters_of_a_stranger(1));
	EXPECT_BRACKETS(&b);
}

TEST_F(access, other_modes_are_refused)
{
	EXPECT_EQ(-EINVAL, write_file(USER_ACCESS, "-1"));
	EXPECT_EQ(-EINVAL, write_file(USER_ACCESS, "3"));
	EXPECT_EQ(-EINVAL, write_file(USER_ACCESS, "often"));
	EXPECT_LT(0, self->page->index);
}

TEST_F(access, only_root_sets_the_mode)
{
	ASSERT_EQ(0, seteuid(65534));
	EXPECT_EQ(-EACCES, write_file(USER_ACCESS, "2"));
	ASSERT_EQ(0, seteuid(0));
}

TEST_F(access, counter_cannot_be_written)
{
	EXPECT_EQ(SIGILL, signal_of_write());
	ASSERT_LE(0, user_open(&(struct perf_event_attr) {
		.type = PERF_TYPE_HARDWARE,
		.size = sizeof(struct perf_event_attr),
		.config = PERF_COUNT_HW_CPU_CYCLES,
	}, -1, 0, -1));
	EXPECT_EQ(SIGILL, signal_of_write());
}

TEST_F(access, event_based_branches_keep_their_rights)
{
	struct perf_event_attr attr = {
		.type		= PERF_TYPE_RAW,
		.size		= sizeof(attr),
		.config		= 0x1001e | CONFIG_EBB,
		.pinned		= 1,
		.exclusive	= 1,
		.exclude_kernel	= 1,
		.exclude_idle	= 1,
		.exclude_hv	= 1,
	};
	struct perf_event_mmap_page *page;
	__u64 value;
	int fd, i;

	close(self->fd);
	page_unmap(self->page, 0);
	fd = user_open(&attr, 0, -1, -1);
	if (fd < 0 && errno == EINVAL)
		SKIP(return, "no event based branches on this processor");
	ASSERT_LE(0, fd);
	page = page_map(fd, 0);
	ASSERT_NE(MAP_FAILED, page);
	EXPECT_FALSE(!!page->cap_user_rdpmc);
	EXPECT_LT(0, page->index);
	EXPECT_EQ(0, signal_of_write());
	for (i = 1; i <= NR_COUNTERS; i++)
		EXPECT_EQ(0, signal_of_read(i, &value));
	ASSERT_EQ(0, write_file(USER_ACCESS, "0"));
	EXPECT_EQ(0, signal_of_write());
	page_unmap(page, 0);
	close(fd);
	EXPECT_EQ(SIGILL, signal_of_read(5, &value));
}

/* Test counters in which event based branches have left values. */
TEST_F(access, what_was_written_to_a_counter_does_not_stay)
{
	struct perf_event_attr attr = {
		.type		= PERF_TYPE_RAW,
		.size		= sizeof(attr),
		.config		= 0x1001e | CONFIG_EBB,
		.pinned		= 1,
		.exclusive	= 1,
		.exclude_kernel	= 1,
		.exclude_idle	= 1,
		.exclude_hv	= 1,
	};
	int i, status;
	__u64 value;
	pid_t child;

	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		if (user_open(&attr, 0, -1, -1) < 0)
			_exit(errno);
		asm volatile("mtspr 772, %0; mtspr 773, %0; mtspr 774, %0" : : "r" (12345L));
		_exit(0);
	}
	ASSERT_EQ(child, waitpid(child, &status, 0));
	ASSERT_TRUE(WIFEXITED(status));
	if (WEXITSTATUS(status) == EINVAL)
		SKIP(return, "no event based branches on this processor");
	ASSERT_EQ(0, WEXITSTATUS(status));
	for (i = 2; i <= 4; i++) {
		ASSERT_EQ(0, signal_of_read(i, &value));
		if (i != self->page->index)
			ASSERT_EQ(0, value);
	}
}

#define EVENT_VARIABLE	"USER_PAGE_EVENT"

/* Program of a task after exec(): it maps the event that it had before, and reads it. */
static __attribute__((constructor)) void read_after_exec(void)
{
	const char *fd = getenv(EVENT_VARIABLE);
	__u64 before[3], after[3];
	struct page_value value;
	void *page;
	int i;

	if (!fd)
		return;
	page = page_map(atoi(fd), 0);
	if (page == MAP_FAILED)
		_exit(2);
	for (i = 0; i < 1000; i++) {
		work(1000);
		if (read(atoi(fd), before, sizeof(before)) != sizeof(before))
			_exit(3);
		value = page_read(page);
		if (read(atoi(fd), after, sizeof(after)) != sizeof(after))
			_exit(3);
		if (value.count < before[0] || value.count > after[0])
			_exit(4);
		if (value.index)
			_exit(0);
	}
	_exit(1);
}

TEST_F(access, event_that_was_there_before_exec_is_read)
{
	struct perf_event_attr attr = instructions_attr();
	char text[16];
	int fd, status;
	pid_t child;

	child = fork();
	if (!child) {
		pin(0);
		fd = user_open(&attr, 0, -1, -1);
		if (fd < 0 || fcntl(fd, F_SETFD, 0))
			_exit(5);
		snprintf(text, sizeof(text), "%d", fd);
		setenv(EVENT_VARIABLE, text, 1);
		execl("/proc/self/exe", "reader", NULL);
		_exit(6);
	}
	ASSERT_EQ(child, waitpid(child, &status, 0));
	ASSERT_TRUE(WIFEXITED(status));
	EXPECT_EQ(0, WEXITSTATUS(status));
}

TEST_HARNESS_MAIN
