/* SPDX-License-Identifier: GPL-2.0 */
/*
 * perf ring buffer selftests - events, buffers, and work of all files
 *
 * The records come from page faults of the calling task, which need no hardware:
 * one sample of SAMPLE_SIZE bytes for each fault, and as many faults as asked for.
 */
#ifndef _RING_HELPERS_H
#define _RING_HELPERS_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "event_helpers.h"

/* Header, PERF_SAMPLE_IP, PERF_SAMPLE_TID. */
#define SAMPLE_SIZE	24

/* This is not in PERF_RECORD_*, so no record has it. */
#define NO_RECORD	0

struct ring {
	struct perf_event_mmap_page	*page;
	char				*data;
	size_t				size;
	__u64				tail;
};

struct ring_lost {
	struct perf_event_header	header;
	__u64				id;
	__u64				lost;
};

static inline size_t page_size(void)
{
	return sysconf(_SC_PAGESIZE);
}

static inline struct perf_event_attr fault_attr(void)
{
	return (struct perf_event_attr) {
		.type		= PERF_TYPE_SOFTWARE,
		.size		= sizeof(struct perf_event_attr),
		.config		= PERF_COUNT_SW_PAGE_FAULTS,
		.sample_period	= 1,
		.sample_type	= PERF_SAMPLE_IP | PERF_SAMPLE_TID,
		.exclude_kernel	= 1,
		.exclude_hv	= 1,
		.disabled	= 1,
	};
}

static inline int event_open_on(struct perf_event_attr *attr, pid_t pid, int cpu)
{
	return syscall(__NR_perf_event_open, attr, pid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
}

static inline int event_open(struct perf_event_attr *attr)
{
	return event_open_on(attr, 0, -1);
}

/* Returns 0 or the negative errno, so that an expectation names the error. */
static inline int event_ioctl(int fd, unsigned long cmd, unsigned long arg)
{
	return ioctl(fd, cmd, arg) < 0 ? -errno : 0;
}

static inline int event_enable(int fd)
{
	return event_ioctl(fd, PERF_EVENT_IOC_ENABLE, 0);
}

static inline int event_disable(int fd)
{
	return event_ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
}

/* Map the user page and @nr pages of data. Returns 0 or the negative errno. */
static inline int ring_map_prot(struct ring *ring, int fd, size_t nr, int prot)
{
	void *page = mmap(NULL, (nr + 1) * page_size(), prot, MAP_SHARED, fd, 0);

	memset(ring, 0, sizeof(*ring));
	if (page == MAP_FAILED)
		return -errno;
	ring->page = page;
	ring->data = (char *)page + page_size();
	ring->size = nr * page_size();
	return 0;
}

static inline int ring_map(struct ring *ring, int fd, size_t nr)
{
	return ring_map_prot(ring, fd, nr, PROT_READ | PROT_WRITE);
}

static inline int ring_unmap(struct ring *ring)
{
	return munmap(ring->page, ring->size + page_size()) ? -errno : 0;
}

static inline __u64 ring_head(const struct ring *ring)
{
	return __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE);
}

static inline void ring_set_tail(struct ring *ring, __u64 tail)
{
	__atomic_store_n(&ring->page->data_tail, tail, __ATOMIC_RELEASE);
}

static inline void ring_copy(const struct ring *ring, void *to, __u64 from, size_t len)
{
	size_t i;

	for (i = 0; i < len; i++)
		((char *)to)[i] = ring->data[(from + i) % ring->size];
}

/* Copy @max bytes of the next record and return its type, or NO_RECORD. */
static inline __u32 ring_next(struct ring *ring, void *record, size_t max)
{
	struct perf_event_header header;
	size_t len;

	if (ring->tail == ring_head(ring))
		return NO_RECORD;
	ring_copy(ring, &header, ring->tail, sizeof(header));
	len = header.size < max ? header.size : max;
	ring_copy(ring, record, ring->tail, len);
	ring->tail += header.size;
	ring_set_tail(ring, ring->tail);
	return header.type;
}

struct ring_sum {
	unsigned int	samples;
	unsigned int	lost_records;
	__u64		lost;
	bool		bad;
};

/* Take all records and add them up. */
static inline void ring_drain(struct ring *ring, struct ring_sum *sum)
{
	struct ring_lost record;
	__u32 type;

	while ((type = ring_next(ring, &record, sizeof(record))) != NO_RECORD) {
		if (type == PERF_RECORD_SAMPLE) {
			sum->samples++;
			sum->bad |= record.header.size != SAMPLE_SIZE;
		} else if (type == PERF_RECORD_LOST) {
			sum->lost_records++;
			sum->lost += record.lost;
		} else {
			sum->bad = true;
			break;
		}
	}
}

/* Get a page that is faulted in again and again. */
static inline char *fault_page(void)
{
	static char *page;

	if (!page) {
		page = mmap(NULL, page_size(), PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		__atomic_store_n(page, 1, __ATOMIC_RELAXED);
	}
	return page;
}

/* Take exactly @nr page faults, all by one instruction of this function. */
static inline void make_faults(unsigned int nr)
{
	char *page = fault_page();

	while (nr--) {
		madvise(page, page_size(), MADV_DONTNEED);
		__atomic_store_n(page, 1, __ATOMIC_RELAXED);
	}
}

static inline void run_on(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		abort();
}

/* Number of faults that the event counts: the program takes no others meanwhile. */
static inline void record_faults(int fd, unsigned int nr)
{
	make_faults(1);
	event_enable(fd);
	make_faults(nr);
	event_disable(fd);
}

static inline int poll_now(int fd)
{
	struct pollfd pollfd = { .fd = fd, .events = POLLIN };

	return poll(&pollfd, 1, 0) < 0 ? -errno : pollfd.revents;
}

/* Get a line of /proc/self/status in kB. */
static inline long status_kb(const char *name)
{
	size_t len = strlen(name);
	long value = -1;
	char line[256];
	FILE *file;

	file = fopen("/proc/self/status", "r");
	if (!file)
		return -1;
	while (fgets(line, sizeof(line), file)) {
		if (!strncmp(line, name, len) && line[len] == ':')
			value = strtol(line + len + 1, NULL, 10);
	}
	fclose(file);
	return value;
}

static inline long vm_pin_kb(void)
{
	return status_kb("VmPin");
}

/* Tell whether VmFlags of the mapping at @start has @flag; -1 without VmFlags. */
static inline int vm_has_flag(const void *start, const char *flag)
{
	unsigned long from, to;
	char line[512], word[8];
	bool inside = false;
	int has = -1;
	FILE *file;

	file = fopen("/proc/self/smaps", "r");
	if (!file)
		return -1;
	snprintf(word, sizeof(word), " %s ", flag);
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
			inside = from == (unsigned long)start;
		else if (inside && !strncmp(line, "VmFlags:", 8))
			has = !!strstr(line, word);
	}
	fclose(file);
	return has;
}

static inline int write_number(const char *path, long number)
{
	char text[32];
	int fd, len, ret;

	fd = open(path, O_WRONLY);
	if (fd < 0)
		return -errno;
	len = snprintf(text, sizeof(text), "%ld", number);
	ret = write(fd, text, len) == len ? 0 : -errno;
	close(fd);
	return ret;
}

static inline int set_memlock(size_t bytes)
{
	struct rlimit limit = { .rlim_cur = bytes, .rlim_max = bytes };

	return setrlimit(RLIMIT_MEMLOCK, &limit);
}

/* Become an unprivileged user with a limit of @bytes for the rest of the test. */
static inline int become_user(uid_t uid, size_t bytes)
{
	if (set_memlock(bytes))
		return -1;
	/* A process must be dumpable to read its own /proc files. */
	if (setresuid(uid, uid, uid))
		return -1;
	return prctl(PR_SET_DUMPABLE, 1);
}

#endif
