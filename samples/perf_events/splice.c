// SPDX-License-Identifier: GPL-2.0
/*
 * Sends the samples of a command to a receiver that stalls, once from a mapped buffer by
 * write(), once by splice() through a pipe, and tells what was lost on the way.
 *
 *	splice				an example: 50000 page faults with a part of the stack
 *	splice COMMAND...		those of a command
 *
 * The receiver sleeps for 10 of each 20 ms. While write() waits for it, the buffer is not
 * read. splice() continues as long as the pipe has room, so the pipe enlarges the buffer,
 * and no byte is copied until the receiver reads it.
 *
 * Needs CONFIG_PERF_EVENTS_SPLICE in the kernel that it runs on. See
 * Documentation/userspace-api/perf_ring_buffer_rules.rst.
 */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define BUFFER_SIZE	(128 << 10)
#define STACK_SIZE	128
#define PIPE_SIZE	(1 << 20)
#define SOCKET_SIZE	(16 << 10)

static long page_size;

static void fault(void)
{
	char *page = mmap(NULL, page_size, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int i;

	for (i = 0; i < 50000; i++) {
		*(volatile char *)page = 1;
		madvise(page, page_size, MADV_DONTNEED);
	}
}

static pid_t start(char **command, int *go)
{
	int wait_for[2];
	pid_t pid;
	char c;

	if (pipe(wait_for))
		err(1, "pipe");
	pid = fork();
	if (pid < 0)
		err(1, "fork");
	*go = wait_for[1];
	if (pid) {
		close(wait_for[0]);
		return pid;
	}
	close(wait_for[1]);
	if (read(wait_for[0], &c, 1) != 1)
		exit(1);
	if (!*command) {
		fault();
		exit(0);
	}
	execvp(*command, command);
	err(1, "%s", *command);
}

static pid_t start_receiver(int from, int other_end)
{
	static char bytes[1 << 16];
	struct timespec begin, now;
	pid_t pid = fork();

	if (pid)
		return pid;
	close(other_end);
	clock_gettime(CLOCK_MONOTONIC, &begin);
	while (read(from, bytes, sizeof(bytes)) > 0) {
		clock_gettime(CLOCK_MONOTONIC, &now);
		if ((now.tv_nsec - begin.tv_nsec + 1000000000) % 20000000 < 10000000)
			usleep(10000);
	}
	exit(0);
}

/* Send from a mapping by write(). */
static void write_all(int fd, int to)
{
	size_t size = BUFFER_SIZE;
	struct perf_event_mmap_page *page;
	struct pollfd ready = { .fd = fd, .events = POLLIN };
	__u64 head, tail = 0;
	bool end;

	page = mmap(NULL, size + page_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED)
		err(1, "mmap");
	do {
		poll(&ready, 1, -1);
		end = ready.revents & POLLHUP;
		head = __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE);
		while (tail != head) {
			size_t at = tail % size, len = head - tail;
			ssize_t ret;

			if (len > size - at)
				len = size - at;
			ret = write(to, (char *)page + page_size + at, len);
			if (ret < 0)
				err(1, "write");
			tail += ret;
			__atomic_store_n(&page->data_tail, tail, __ATOMIC_RELEASE);
		}
	} while (!end);
}

/* Move data from the pipe to the receiver, whenever it has room. */
static pid_t start_mover(const int pipes[2], int to)
{
	pid_t pid = fork();

	if (pid < 0)
		err(1, "fork");
	if (pid)
		return pid;
	close(pipes[1]);
	while (splice(pipes[0], NULL, to, NULL, PIPE_SIZE, 0) > 0)
		;
	exit(0);
}

/* Move whole pages to a pipe, as long as it has room. */
static void splice_all(int fd, int to)
{
	struct perf_event_buffer buffer = {
		.size		= sizeof(buffer),
		.flags		= PERF_BUFFER_F_SPLICE,
		.data_size	= BUFFER_SIZE,
	};
	struct pollfd ready = { .fd = fd, .events = POLLIN };
	struct pollfd room = { .events = POLLOUT };
	int pipes[2];
	ssize_t ret;
	pid_t mover;

	if (ioctl(fd, PERF_EVENT_IOC_ALLOC_BUFFER, &buffer))
		err(1, "PERF_EVENT_IOC_ALLOC_BUFFER");
	if (pipe(pipes) || fcntl(pipes[1], F_SETPIPE_SZ, PIPE_SIZE) < 0)
		err(1, "pipe");
	mover = start_mover(pipes, to);
	room.fd = pipes[1];
	do {
		poll(&ready, 1, -1);
		ret = splice(fd, NULL, pipes[1], NULL, PIPE_SIZE, SPLICE_F_NONBLOCK);
		if (ret < 0 && errno == EAGAIN)
			poll(&room, 1, -1);
		else if (ret < 0)
			err(1, "splice");
	} while (ret);
	close(pipes[1]);
	waitpid(mover, NULL, 0);
	close(pipes[0]);
}

static void record(const char *how, void (*move)(int fd, int to), char **command)
{
	struct perf_event_attr attr = {
		.type		= PERF_TYPE_SOFTWARE,
		.size		= sizeof(attr),
		.config		= PERF_COUNT_SW_PAGE_FAULTS,
		.sample_period	= 1,
		.sample_type	= PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_STACK_USER,
		.sample_stack_user = STACK_SIZE,
		.wakeup_watermark = BUFFER_SIZE / 4,
		.watermark	= 1,
		.read_format	= PERF_FORMAT_LOST,
		.exclude_kernel	= 1,
		.exclude_hv	= 1,
	};
	int sockets[2], go, size = SOCKET_SIZE, fd;
	__u64 values[2] = {};
	pid_t pid, receiver;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets))
		err(1, "socketpair");
	setsockopt(sockets[1], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	pid = start(command, &go);
	fd = syscall(__NR_perf_event_open, &attr, pid, -1, -1, PERF_FLAG_FD_CLOEXEC);
	if (fd < 0)
		err(1, "perf_event_open");
	receiver = start_receiver(sockets[0], sockets[1]);
	close(sockets[0]);
	if (write(go, "x", 1) != 1)
		err(1, "write");
	move(fd, sockets[1]);
	close(sockets[1]);
	waitpid(pid, NULL, 0);
	waitpid(receiver, NULL, 0);
	if (read(fd, values, sizeof(values)) != sizeof(values))
		err(1, "read");
	printf("%-16s %8llu samples, %8llu lost\n", how, values[0], values[1]);
	close(fd);
}

int main(int argc, char **argv)
{
	/* Flush now, because children inherit the buffer of stdout. */
	setvbuf(stdout, NULL, _IOLBF, 0);
	page_size = sysconf(_SC_PAGESIZE);
	record("mmap + write", write_all, argv + 1);
	record("splice", splice_all, argv + 1);
	return 0;
}
