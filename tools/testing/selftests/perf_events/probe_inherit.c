// SPDX-License-Identifier: GPL-2.0
/*
 * perf selftests - kprobe and uprobe events that are inherited
 *
 * Such an event names its function or file by a pointer, which is valid during
 * the system call that opens it. A later fork, in a program that knows nothing
 * of the event, must not use it.
 */
#define _GNU_SOURCE

#include "../kselftest_harness.h"
#include "event_helpers.h"

FIXTURE(probe_inherit)
{
	int fd;
};

FIXTURE_VARIANT(probe_inherit)
{
	const char *pmu;
	bool at_return;
};

FIXTURE_VARIANT_ADD(probe_inherit, uprobe) {
	.pmu = "uprobe",
};

FIXTURE_VARIANT_ADD(probe_inherit, uretprobe) {
	.pmu = "uprobe",
	.at_return = true,
};

FIXTURE_VARIANT_ADD(probe_inherit, kprobe) {
	.pmu = "kprobe",
};

FIXTURE_VARIANT_ADD(probe_inherit, kretprobe) {
	.pmu = "kprobe",
	.at_return = true,
};

/* Call it by a pointer that is loaded each time, so that it is not inlined. */
static void probed(void)
{
	asm volatile("nop\n\tnop" : : : "memory");
}

static void (*call_probed)(void) = probed;

static int null = -1;

/* Call the function of this program, and the kernel's vfs_write(). */
static void be_probed(unsigned int times)
{
	while (times--) {
		__atomic_load_n(&call_probed, __ATOMIC_RELAXED)();
		if (write(null, "", 1) != 1)
			_exit(1);
	}
}

/* Open a probe and unmap the page with its name. */
static int open_probe(const char *pmu, bool at_return)
{
	bool user = !strcmp(pmu, "uprobe");
	size_t page_size = sysconf(_SC_PAGESIZE);
	struct perf_event_attr attr = {
		.type		= pmu_type(pmu),
		.size		= sizeof(attr),
		.config		= at_return,
		.inherit	= 1,
	};
	char *name;
	int fd;

	name = mmap(NULL, page_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (name == MAP_FAILED)
		return -1;
	snprintf(name, page_size, "%s", user ? "/proc/self/exe" : "vfs_write");
	if (user) {
		attr.uprobe_path = (unsigned long)name;
		attr.probe_offset = file_offset((unsigned long)probed);
	} else {
		attr.kprobe_func = (unsigned long)name;
	}
	fd = syscall(__NR_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	munmap(name, page_size);
	return fd;
}

FIXTURE_SETUP(probe_inherit)
{
	self->fd = -1;
	if (getuid())
		SKIP(return, "needs root for probes");
	if (pmu_type(variant->pmu) < 0)
		SKIP(return, "no %s PMU", variant->pmu);
	null = open("/dev/null", O_WRONLY);
	ASSERT_LE(0, null);
	self->fd = open_probe(variant->pmu, variant->at_return);
	ASSERT_LE(0, self->fd) {
		TH_LOG("%s: %s", variant->pmu, strerror(errno));
	}
}

FIXTURE_TEARDOWN(probe_inherit)
{
	close(self->fd);
	close(null);
}

static __u64 count(int fd)
{
	__u64 value;

	return read(fd, &value, sizeof(value)) == sizeof(value) ? value : ~0ULL;
}

TEST_F(probe_inherit, children_are_counted)
{
	__u64 expected = 0;
	unsigned int i;
	pid_t child;

	for (i = 1; i <= 8; i++) {
		child = fork();
		if (!child) {
			be_probed(i);
			_exit(0);
		}
		wait_for_success(_metadata, child);
		expected += i;
		EXPECT_EQ(expected, count(self->fd));
	}
}

TEST_F(probe_inherit, grandchildren_are_counted)
{
	pid_t child, grandchild;
	int status;

	child = fork();
	if (!child) {
		be_probed(1);
		grandchild = fork();
		if (!grandchild) {
			be_probed(3);
			_exit(0);
		}
		if (waitpid(grandchild, &status, 0) != grandchild)
			_exit(1);
		be_probed(2);
		_exit(status);
	}
	wait_for_success(_metadata, child);
	EXPECT_EQ(1 + 2 + 3, count(self->fd));
}

/*
 * Two children with equal events may exchange them when one of them follows the other
 * on a CPU. The exit of one child must not remove the probe of the other.
 */
TEST_F(probe_inherit, child_is_counted_after_another_one_has_gone)
{
	enum { NR_ROUNDS = 20, NR_YIELDS = 20 };
	pid_t child, other;
	cpu_set_t cpus;
	int i, round;

	/* Run all tasks on one CPU. */
	CPU_ZERO(&cpus);
	CPU_SET(sched_getcpu(), &cpus);
	ASSERT_EQ(0, sched_setaffinity(0, sizeof(cpus), &cpus));
	for (round = 1; round <= NR_ROUNDS; round++) {
		other = fork();
		if (!other) {
			for (i = 0; i < NR_YIELDS; i++)
				sched_yield();
			_exit(0);
		}
		child = fork();
		if (!child) {
			for (i = 0; i < NR_YIELDS; i++)
				sched_yield();
			/* Wait until the other child is gone. */
			usleep(10000);
			be_probed(5);
			_exit(0);
		}
		wait_for_success(_metadata, other);
		wait_for_success(_metadata, child);
		ASSERT_EQ(5 * round, count(self->fd));
	}
}

/* The tracer of a task is privileged; the task need not be. */
TEST_F(probe_inherit, task_without_privileges_can_fork)
{
	pid_t child, grandchild;
	int status;

	child = fork();
	if (!child) {
		if (setresuid(65534, 65534, 65534))
			_exit(1);
		grandchild = fork();
		if (!grandchild) {
			be_probed(5);
			_exit(0);
		}
		_exit(waitpid(grandchild, &status, 0) != grandchild || status);
	}
	wait_for_success(_metadata, child);
	EXPECT_EQ(5, count(self->fd));
}

/* The probe ends with the opened event, and so do its children. */
TEST_F(probe_inherit, event_can_be_closed_while_a_child_runs)
{
	int go[2], i;
	pid_t child;
	char byte;

	ASSERT_EQ(0, pipe(go));
	child = fork();
	if (!child) {
		close(go[1]);
		for (i = 0; read(go[0], &byte, 1) == 1; i++)
			be_probed(1);
		_exit(i != 20);
	}
	ASSERT_LE(0, child);
	for (i = 0; i < 20; i++) {
		ASSERT_EQ(1, write(go[1], "", 1));
		if (i == 10) {
			close(self->fd);
			self->fd = -1;
		}
	}
	close(go[1]);
	close(go[0]);
	wait_for_success(_metadata, child);
}

TEST_HARNESS_MAIN
