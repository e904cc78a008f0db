// SPDX-License-Identifier: GPL-2.0
/* Moving 1 MiB of samples out of a ring. */
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>

#define MIB	0x100000L

static struct {
	char *data;
	int file;
	int null;
	int pipe[2];
} move;

static void rewrite_run(void *arg)
{
	lseek(move.file, 0, SEEK_SET);
	if (write(move.file, move.data, MIB) != MIB)
		report_wrong("the file took less than a ring");
}

static void write_new_run(void *arg)
{
	if (ftruncate(move.file, 0))
		report_wrong("the file keeps its pages");
	rewrite_run(arg);
}

static void empty_pipe(int from, ssize_t nr)
{
	ssize_t got;

	while (nr > 0) {
		got = splice(from, NULL, move.null, NULL, nr, 0);
		if (got <= 0) {
			report_wrong("splice to /dev/null: %s", strerror(errno));
			return;
		}
		nr -= got;
	}
}

static void through_pipe_run(void *arg)
{
	ssize_t done, nr;

	for (done = 0; done < MIB; done += nr) {
		nr = write(move.pipe[1], move.data + done, MIB - done);
		if (nr <= 0) {
			report_wrong("write to the pipe: %s", strerror(errno));
			return;
		}
		empty_pipe(move.pipe[0], nr);
	}
}

static void vmsplice_run(void *arg)
{
	struct iovec left = { .iov_base = move.data, .iov_len = MIB };
	ssize_t nr;

	while (left.iov_len) {
		nr = vmsplice(move.pipe[1], &left, 1, 0);
		if (nr <= 0) {
			report_wrong("vmsplice: %s", strerror(errno));
			return;
		}
		left.iov_base += nr;
		left.iov_len -= nr;
		empty_pipe(move.pipe[0], nr);
	}
}

static bool open_files(void)
{
	mkdir("/files", 0700);
	if (mount("bench", "/files", "tmpfs", 0, NULL)) {
		report_absent("Z1w", errno, "1 MiB of a ring to tmpfs");
		return false;
	}
	move.file = open("/files/data", O_RDWR | O_CREAT, 0600);
	move.null = open("/dev/null", O_WRONLY);
	if (pipe(move.pipe) || move.file < 0 || move.null < 0) {
		report_wrong("rings: no files");
		return false;
	}
	fcntl(move.pipe[1], F_SETPIPE_SZ, MIB);
	return true;
}

static void fill_ring(int fd, struct perf_event_mmap_page *ring)
{
	long left = MIB / 8;

	while (ring_head(ring) < MIB - 64 && left--)
		call0(SYS_getppid);
	if (left < 0)
		report_wrong("the ring does not fill");
	ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
}

/* A ring that is not mapped, and the bytes that it surely holds when it is full. */
#define SPLICED	(MIB - page_size)

static int spliced, small_pipe[2];

static void fill_spliced(void *arg)
{
	__u64 values[2] = {}, lost;

	if (read(spliced, values, sizeof(values)) != sizeof(values))
		report_wrong("the counts cannot be read");
	lost = values[1];
	ioctl(spliced, PERF_EVENT_IOC_ENABLE, 0);
	do {
		for (int i = 0; i < 100; i++)
			call0(SYS_getppid);
		if (read(spliced, values, sizeof(values)) != sizeof(values))
			break;
	} while (values[1] == lost);
	ioctl(spliced, PERF_EVENT_IOC_DISABLE, 0);
}

/* Splices as much at once as a pipe of the default size takes. */
static void splice_run(void *arg)
{
	ssize_t done, nr;

	for (done = 0; done < SPLICED; done += nr) {
		nr = splice(spliced, NULL, small_pipe[1], NULL, MIB, SPLICE_F_NONBLOCK);
		if (nr <= 0) {
			report_wrong("splice from the ring: %s", strerror(errno));
			return;
		}
		empty_pipe(small_pipe[0], nr);
	}
}

static void measure_splice(struct perf_event_attr *attr)
{
	static const char operation[] = "1 MiB of a ring, splice(2) to a pipe + to /dev/null";
	const struct op op = { .run = splice_run, .prepare = fill_spliced, .batch = 1,
			       .rounds = 7 };
	struct perf_event_buffer buffer = {
		.size		= sizeof(buffer),
		.flags		= PERF_BUFFER_F_SPLICE,
		.data_size	= MIB,
	};

	attr->read_format = PERF_FORMAT_LOST;
	attr->disabled = 1;
	spliced = perf_open(attr, -1);
	if (ioctl(spliced, PERF_EVENT_IOC_ALLOC_BUFFER, &buffer) || pipe(small_pipe))
		report_absent("S1", errno, "%s", operation);
	else
		report_limit("S1", measure(&op), 100000, "%s", operation);
	close(spliced);
}

#define REDIRECTED	1000

static int owner = -1, redirected[REDIRECTED];
static struct perf_event_mmap_page *owner_page;

/* An event with a buffer of one page, and many others that write to it. */
static bool redirect(bool mapped)
{
	struct perf_event_buffer buffer = {
		.size		= sizeof(buffer),
		.flags		= PERF_BUFFER_F_SPLICE,
		.data_size	= page_size,
	};

	for (int i = 0; owner >= 0 && i < REDIRECTED; i++)
		close(redirected[i]);
	owner = perf_software(PERF_COUNT_SW_DUMMY);
	if (mapped)
		owner_page = ring_map(owner, 1);
	else if (ioctl(owner, PERF_EVENT_IOC_ALLOC_BUFFER, &buffer))
		return false;
	for (int i = 0; i < REDIRECTED; i++) {
		redirected[i] = perf_software(PERF_COUNT_SW_DUMMY);
		if (ioctl(redirected[i], PERF_EVENT_IOC_SET_OUTPUT, owner))
			report_wrong("event %d is not redirected: %s", i, strerror(errno));
	}
	return true;
}

static void redirect_to_mapped(void *arg)
{
	if (owner >= 0)
		close(owner);
	redirect(true);
}

static void redirect_to_spliced(void *arg)
{
	redirect(false);
}

static void unmap_run(void *arg)
{
	ring_unmap(owner_page, 1);
}

static void close_run(void *arg)
{
	close(owner);
}

static void measure_detach(void)
{
	static const char operation[] = "close(2) of a spliced buffer";
	struct op op = { .run = unmap_run, .prepare = redirect_to_mapped, .batch = 1,
			 .rounds = 3 };
	struct rlimit limit = { 2 * REDIRECTED, 2 * REDIRECTED };
	struct cost mapped;

	setrlimit(RLIMIT_NOFILE, &limit);
	mapped = divided(measure(&op), REDIRECTED);
	report("Z1w", mapped, "munmap(2) of a ring, for each of %d redirected events",
	       REDIRECTED);
	close(owner);
	if (!redirect(false)) {
		report_absent("S2", errno, "%s, for each of %d redirected events", operation,
			      REDIRECTED);
		return;
	}
	close(owner);
	op.run = close_run;
	op.prepare = redirect_to_spliced;
	report_limit("S2", divided(measure(&op), REDIRECTED), 5 * mapped.insn,
		     "%s, for each of %d redirected events", operation, REDIRECTED);
}

static void measure_move(void (*run)(void *arg), const char *operation)
{
	const struct op op = { .run = run, .batch = 1, .rounds = 21 };

	report("Z1w", measure(&op), "1 MiB of a ring, %s", operation);
}

void bench_rings(void)
{
	const int pages = MIB / page_size;
	struct perf_event_mmap_page *ring;
	struct perf_event_attr attr;
	int fd;

	if (!open_files())
		return;
	sampling_attr(&attr, PERF_TYPE_TRACEPOINT, tracepoint_id("syscalls/sys_enter_getppid"),
		      PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME);
	fd = perf_open(&attr, -1);
	ring = ring_map(fd, pages);
	if (!ring)
		return;
	move.data = (char *)ring + page_size;
	fill_ring(fd, ring);
	measure_move(rewrite_run, "write(2) to tmpfs pages that are there");
	measure_move(write_new_run, "write(2) to new tmpfs pages");
	measure_move(through_pipe_run, "write(2) to a pipe + splice(2) to /dev/null");
	measure_move(vmsplice_run, "vmsplice(2) + splice(2) to /dev/null");
	ring_unmap(ring, pages);
	close(fd);
	measure_splice(&attr);
	measure_detach();
}
