// SPDX-License-Identifier: GPL-2.0
/*
 * perf ring buffer selftests - the charge for a buffer that no process maps
 *
 * The buffer is charged to the user: to the allowance first, then the excess under
 * RLIMIT_MEMLOCK, whichever process has the file. Each test has a user of its own,
 * because a charge that a kernel leaks stays until reboot.
 */
#define _GNU_SOURCE

#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/socket.h>

#include "../kselftest_harness.h"
#include "ring_fault_helpers.h"
#include "ring_splice_helpers.h"

#define MLOCK_KB	"/proc/sys/kernel/perf_event_mlock_kb"
#define PARANOID	"/proc/sys/kernel/perf_event_paranoid"
#define FIRST_UID	60000
#define CGROUP		"/sys/fs/cgroup/ring_splice"

FIXTURE(ring_splice_acct)
{
	long mlock_kb;
	long paranoid;
	size_t allowance;	/* in pages */
	uid_t uid;
};

FIXTURE_SETUP(ring_splice_acct)
{
	SKIP_WITHOUT_SPLICE();
	if (geteuid())
		SKIP(return, "needs root to become a user without limits in use");

	self->mlock_kb = read_number(MLOCK_KB);
	self->paranoid = read_number(PARANOID);
	ASSERT_LT(0, self->mlock_kb);
	ASSERT_EQ(0, write_number(PARANOID, 2));
	/* Allow four buffers of eight pages for each CPU. */
	ASSERT_EQ(0, write_number(MLOCK_KB, 4 * charged_pages(8) * page_size() / 1024));
	self->allowance = 4 * charged_pages(8) * sysconf(_SC_NPROCESSORS_ONLN);
	self->uid = FIRST_UID + getpid();
}

/* Run this in the parent, which is still root. */
FIXTURE_TEARDOWN_PARENT(ring_splice_acct)
{
	if (!self->mlock_kb)
		return;
	write_number(MLOCK_KB, self->mlock_kb);
	write_number(PARANOID, self->paranoid);
}

/* Open an event with a buffer of @nr pages of data. Returns it or the negative errno. */
static int open_buffer(size_t nr)
{
	struct perf_event_attr attr = fault_attr();
	int fd = event_open(&attr), ret;

	if (fd < 0)
		return -errno;
	ret = ring_alloc(fd, nr);
	if (!ret)
		return fd;
	close(fd);
	return ret;
}

static int try_buffer(size_t nr)
{
	int fd = open_buffer(nr);

	if (fd < 0)
		return fd;
	close(fd);
	return 0;
}

static size_t pages_bytes(size_t nr)
{
	return nr * page_size();
}

/* A buffer is freed a grace period after its file, so try again. */
static int try_buffer_later(size_t nr)
{
	int ret, i;

	for (i = 0; i < 20; i++) {
		ret = try_buffer(nr);
		if (!ret)
			break;
		usleep(50000);
	}
	return ret;
}

TEST_F(ring_splice_acct, allowance_is_exact)
{
	int nr = self->allowance / charged_pages(8), i, fd = -1;

	ASSERT_EQ(0, become_user(self->uid, 0));
	for (i = 0; i < nr; i++) {
		fd = open_buffer(8);
		ASSERT_LE(0, fd);
	}
	EXPECT_EQ(-EPERM, open_buffer(1));
	EXPECT_EQ(-EPERM, open_buffer(8));
	EXPECT_EQ(0, vm_pin_kb());
	ASSERT_EQ(0, close(fd));
	EXPECT_EQ(0, try_buffer(8));
	EXPECT_EQ(-EPERM, try_buffer(16));
}

TEST_F(ring_splice_acct, allowance_is_that_of_mapped_buffers)
{
	struct perf_event_attr attr = fault_attr();
	int nr = self->allowance / charged_pages(8), i;
	struct ring ring;

	ASSERT_EQ(0, become_user(self->uid, 0));
	for (i = 0; i < nr; i++)
		ASSERT_LE(0, open_buffer(8));
	EXPECT_EQ(-EPERM, ring_map(&ring, event_open(&attr), 0));
}

TEST_F(ring_splice_acct, limit_is_exact)
{
	size_t beyond = charged_pages(64);
	int i, nr = self->allowance / charged_pages(8);

	ASSERT_EQ(0, become_user(self->uid, pages_bytes(beyond)));
	for (i = 0; i < nr; i++)
		ASSERT_LE(0, open_buffer(8));
	EXPECT_EQ(0, try_buffer(64));
	ASSERT_EQ(0, set_memlock(pages_bytes(beyond) - 1));
	EXPECT_EQ(-EPERM, try_buffer(64));
	EXPECT_EQ(0, try_buffer(32));
	ASSERT_EQ(0, set_memlock(0));
	EXPECT_EQ(-EPERM, try_buffer(1));
}

/* Buffers of files and mapped buffers share one limit, in either order. */
TEST_F(ring_splice_acct, mapped_buffers_have_the_same_limit)
{
	struct perf_event_attr attr = fault_attr();
	size_t beyond = charged_pages(64);
	int i, fd, mapped, nr = self->allowance / charged_pages(8);
	struct ring ring;

	ASSERT_EQ(0, become_user(self->uid, pages_bytes(beyond)));
	for (i = 0; i < nr; i++)
		ASSERT_LE(0, open_buffer(8));
	mapped = event_open(&attr);
	ASSERT_LE(0, mapped);
	fd = open_buffer(64);
	ASSERT_LE(0, fd);
	EXPECT_EQ(-EPERM, ring_map(&ring, mapped, 0));
	close(fd);
	ASSERT_EQ(0, try_buffer_later(64));
	ASSERT_EQ(0, ring_map(&ring, mapped, 0));
	EXPECT_EQ(-EPERM, try_buffer(64));
	ASSERT_EQ(0, ring_unmap(&ring));
	EXPECT_EQ(0, try_buffer(64));
	EXPECT_EQ(0, vm_pin_kb());
}

/* A privileged process has no limit, and does not use up the limit of others. */
TEST_F(ring_splice_acct, buffer_of_a_privileged_process_leaves_the_limit_alone)
{
	int i, nr = self->allowance / charged_pages(8);
	size_t beyond = charged_pages(8);

	/* The user, with some of root's privileges. */
	ASSERT_EQ(0, set_memlock(pages_bytes(beyond)));
	ASSERT_EQ(0, setresuid(self->uid, self->uid, 0));
	for (i = 0; i < nr; i++)
		ASSERT_LE(0, open_buffer(8));
	EXPECT_EQ(-EPERM, open_buffer(1024));
	ASSERT_EQ(0, setresuid(-1, 0, -1));
	ASSERT_LE(0, open_buffer(1024));
	ASSERT_EQ(0, setresuid(-1, self->uid, -1));
	EXPECT_EQ(0, try_buffer(8));
	EXPECT_EQ(-EPERM, try_buffer(16));
}

TEST_F(ring_splice_acct, privilege_lifts_the_limit)
{
	ASSERT_EQ(0, set_memlock(0));
	EXPECT_EQ(0, try_buffer(1024));
	ASSERT_EQ(0, write_number(PARANOID, -1));
	ASSERT_EQ(0, become_user(self->uid, 0));
	EXPECT_EQ(0, try_buffer(1024));
}

TEST_F_TIMEOUT(ring_splice_acct, cycles_leave_nothing_charged, 300)
{
	int i, nr = self->allowance / charged_pages(8), pipes[2];

	ASSERT_EQ(0, become_user(self->uid, 0));
	ASSERT_EQ(0, pipe_open(pipes, MIB / 2));
	for (i = 0; i < 100; i++) {
		struct ring ring;
		int fd = open_buffer(8);

		ASSERT_LE(0, fd);
		record_faults(fd, 1000);
		if (i & 1)
			ASSERT_EQ(0, ring_map(&ring, fd, 0));
		ASSERT_LT(0, ring_splice(fd, pipes[1], 8 * page_size()));
		close(fd);
		if (i & 1)
			ASSERT_EQ(0, ring_unmap(&ring));
		pipe_close(pipes);
		ASSERT_EQ(0, pipe_open(pipes, MIB / 2));
	}
	for (i = 0; i < nr; i++)
		ASSERT_LE(0, open_buffer(8));
	EXPECT_EQ(-EPERM, open_buffer(1));
}

static int send_fd(int to, int fd)
{
	char c = 'x', control[CMSG_SPACE(sizeof(int))] = {};
	struct iovec iov = { .iov_base = &c, .iov_len = 1 };
	struct msghdr msg = {
		.msg_iov	= &iov,
		.msg_iovlen	= 1,
		.msg_control	= control,
		.msg_controllen	= sizeof(control),
	};
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);

	cmsg->cmsg_level = SOL_SOCKET;
	cmsg->cmsg_type = SCM_RIGHTS;
	cmsg->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(cmsg), &fd, sizeof(fd));
	return sendmsg(to, &msg, 0) == 1 ? 0 : -errno;
}

/* Processes allocate a buffer up to the limit, pass it on, and exit. */
TEST_F(ring_splice_acct, processes_that_are_gone_still_pay)
{
	int sockets[2], status, i, made = 0;
	size_t nr = 64;

	ASSERT_EQ(0, become_user(self->uid, pages_bytes(charged_pages(nr))));
	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, sockets));
	for (i = 0; i < 20; i++) {
		pid_t pid = fork();

		ASSERT_LE(0, pid);
		if (!pid) {
			int fd = open_buffer(nr);

			_exit(fd < 0 || send_fd(sockets[1], fd));
		}
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		made += !status;
	}
	EXPECT_GE(self->allowance / charged_pages(nr) + 1, made);
	EXPECT_LE(1, made);
	/* The charge ends with the last file. */
	close(sockets[0]);
	close(sockets[1]);
	EXPECT_EQ(0, try_buffer_later(nr));
}

/* A program that executes itself repeatedly has another mm each time. */
TEST_F(ring_splice_acct, exec_frees_nobody_from_paying)
{
	struct perf_event_attr attr = fault_attr();
	int status, fd, nr = self->allowance / charged_pages(8), i;
	size_t beyond = charged_pages(8);
	pid_t pid;

	ASSERT_EQ(0, become_user(self->uid, pages_bytes(beyond)));
	for (i = 0; i < nr; i++)
		ASSERT_LE(0, open_buffer(8));
	fd = syscall(__NR_perf_event_open, &attr, 0, -1, -1, 0);
	ASSERT_LE(0, fd);
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		if (ring_alloc(fd, 8))
			_exit(1);
		/* The child has the file. */
		execl("/bin/sleep", "sleep", "1", NULL);
		_exit(2);
	}
	close(fd);
	usleep(500000);
	EXPECT_EQ(-EPERM, open_buffer(8));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_EQ(0, status);
	EXPECT_EQ(0, try_buffer_later(8));
}

TEST_F(ring_splice_acct, user_page_costs_nothing_more)
{
	struct ring first, second;
	int status, fd;
	pid_t pid;

	ASSERT_EQ(0, become_user(self->uid, pages_bytes(charged_pages(1024))));
	fd = open_buffer(1024);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, set_memlock(0));
	EXPECT_EQ(0, ring_map(&first, fd, 0));
	EXPECT_EQ(0, ring_map(&second, fd, 0));
	EXPECT_EQ(0, vm_pin_kb());
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid)
		_exit(ring_map(&first, fd, 0) ? 1 : 0);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	ASSERT_EQ(0, ring_unmap(&first));
	ASSERT_EQ(0, ring_unmap(&second));
	EXPECT_EQ(0, vm_pin_kb());
	close(fd);
}

static int write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY), ret;

	if (fd < 0)
		return -errno;
	ret = write(fd, text, strlen(text)) == (ssize_t)strlen(text) ? 0 : -errno;
	close(fd);
	return ret;
}

/* Leave room for @nr more pages in the cgroup whose memory.max is open as @limit. */
static int leave_room(int limit, size_t nr)
{
	char text[32];
	int len;

	len = snprintf(text, sizeof(text), "%lu",
		       read_number(CGROUP "/memory.current") + nr * page_size());
	return pwrite(limit, text, len, 0) == len ? 0 : -errno;
}

/*
 * Without room, anything else that takes memory, such as an open() or a page of the
 * stack, would end the program. So it does nothing else until there is room again.
 */
static int room_for_all(int limit)
{
	return pwrite(limit, "max", 3, 0) == 3 ? 0 : -errno;
}

/* At the limit splice(2) fails with ENOMEM, and the remaining data stays in the buffer. */
TEST_F_TIMEOUT(ring_splice_acct, memory_cgroup_refuses_and_loses_nothing, 300)
{
	const size_t nr = 256, room = 32;
	struct perf_event_attr attr = fault_attr();
	struct ring_sum sum = {};
	struct stream stream;
	int pipes[2], fd, other, limit, ret_other;
	size_t taken = 0, fill;
	char text[32];
	ssize_t ret;

	mount("cgroup2", "/sys/fs/cgroup", "cgroup2", 0, NULL);
	if (write_text("/sys/fs/cgroup/cgroup.subtree_control", "+memory"))
		SKIP(return, "no memory cgroups");
	ASSERT_EQ(true, !mkdir(CGROUP, 0700) || errno == EEXIST);
	ASSERT_EQ(0, stream_init(&stream, 2 * nr * page_size()));
	ASSERT_EQ(0, pipe_open(pipes, nr * page_size()));
	limit = open(CGROUP "/memory.max", O_WRONLY);
	ASSERT_LE(0, limit);
	snprintf(text, sizeof(text), "%d", getpid());
	ASSERT_EQ(0, write_text(CGROUP "/cgroup.procs", text));
	fd = open_buffer(nr);
	ASSERT_LE(0, fd);
	other = event_open(&attr);
	ASSERT_LE(0, other);
	fill = (nr * page_size() - 1) / SAMPLE_SIZE;
	record_faults(fd, fill);

	ASSERT_EQ(0, leave_room(limit, room));
	ret_other = ring_alloc(other, nr);
	ASSERT_EQ(0, room_for_all(limit));
	EXPECT_EQ(-ENOMEM, ret_other);

	ASSERT_EQ(0, leave_room(limit, room));
	while ((ret = ring_splice(fd, pipes[1], 16 * page_size())) > 0)
		taken += ret;
	ASSERT_EQ(0, room_for_all(limit));
	EXPECT_EQ(-ENOMEM, ret);
	EXPECT_GT((nr - room) * page_size(), taken);

	ASSERT_EQ(0, stream_read(&stream, pipes[0], taken));
	ASSERT_EQ(-EAGAIN, stream_drain(&stream, fd, pipes, MIB));
	stream_sum(&stream, &sum);
	EXPECT_EQ(fill, sum.samples);
	EXPECT_EQ(0, sum.lost);
	EXPECT_FALSE(sum.bad);
	EXPECT_EQ(0, ring_alloc(other, nr));
	close(other);
	close(fd);
	pipe_close(pipes);
	close(limit);
	snprintf(text, sizeof(text), "%d", getpid());
	write_text("/sys/fs/cgroup/cgroup.procs", text);
	rmdir(CGROUP);
}

TEST_F(ring_splice_acct, without_memory_there_is_no_buffer_and_nobody_pays)
{
	int nth_fd = open("/proc/self/fail-nth", O_RDWR);
	int nr = self->allowance / charged_pages(8);
	struct perf_event_attr attr = fault_attr();
	unsigned int failed = 0;
	int nth, ret, left = 0, fd;

	if (nth_fd < 0 || fault_setup())
		SKIP(return, "needs CONFIG_FAULT_INJECTION, FAILSLAB and FAIL_PAGE_ALLOC");
	write_number("/sys/kernel/debug/fail_usercopy/verbose", 0);
	ASSERT_EQ(0, become_user(self->uid, 0));
	for (nth = 1; !left && nth < 1000; nth++) {
		fd = event_open(&attr);
		ASSERT_LE(0, fd);
		ASSERT_EQ(0, fail_nth(nth_fd, nth));
		ret = ring_alloc(fd, 8);
		left = nth_end(nth_fd);
		ASSERT_LE(0, left);
		if (ret) {
			ASSERT_TRUE(ret == -ENOMEM || ret == -EFAULT) {
				TH_LOG("allocation %d: error %d", nth, -ret);
			}
			failed++;
			/* The failed call has left nothing behind. */
			EXPECT_EQ(0, ring_alloc(fd, 8));
		}
		close(fd);
	}
	EXPECT_LT(0, left);
	/* The pages and their management data were allocated. */
	EXPECT_LE(8 + 3, failed);

	ASSERT_EQ(0, try_buffer_later(8));
	for (; nr; nr--) {
		fd = open_buffer(8);
		EXPECT_LE(0, fd) {
			TH_LOG("%d buffers are missing", nr);
			break;
		}
	}
	EXPECT_EQ(-EPERM, open_buffer(1));
}

TEST_HARNESS_MAIN
