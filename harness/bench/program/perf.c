// SPDX-License-Identifier: GPL-2.0
/* Opening events, mapping their rings, and the small files around them. */
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

long page_size;

int perf_open(struct perf_event_attr *attr, int group)
{
	attr->size = sizeof(*attr);
	return syscall(SYS_perf_event_open, attr, 0, -1, group, 0);
}

int perf_count(__u32 type, __u64 config, int group, __u64 read_format,
	       bool inherit)
{
	struct perf_event_attr attr = {
		.type = type,
		.config = config,
		.read_format = read_format,
		.inherit = inherit,
	};

	return perf_open(&attr, group);
}

int perf_software(__u64 config)
{
	return perf_count(PERF_TYPE_SOFTWARE, config, -1, 0, false);
}

/* Asks for a sample at each occurrence, and for no wakeup, because nothing waits. */
void sampling_attr(struct perf_event_attr *attr, __u32 type, __u64 config,
		   __u64 sample_type)
{
	memset(attr, 0, sizeof(*attr));
	attr->type = type;
	attr->config = config;
	attr->sample_period = 1;
	attr->sample_type = sample_type;
	attr->watermark = 1;
	attr->wakeup_watermark = 1 << 30;
}

static int open_member(int i, bool hardware, int leader, __u64 read_format,
		       bool inherit)
{
	static const __u64 software_events[] = {
		PERF_COUNT_SW_TASK_CLOCK,
		PERF_COUNT_SW_PAGE_FAULTS,
		PERF_COUNT_SW_CONTEXT_SWITCHES,
		PERF_COUNT_SW_CPU_MIGRATIONS,
		PERF_COUNT_SW_PAGE_FAULTS_MIN,
		PERF_COUNT_SW_PAGE_FAULTS_MAJ,
		PERF_COUNT_SW_ALIGNMENT_FAULTS,
		PERF_COUNT_SW_EMULATION_FAULTS,
	};
	/* POWER9: cycles and instructions, one event for each programmable counter. */
	static const __u64 raw_events[] = {
		0x1001e, 0x20002, 0x3001e, 0x40002,
	};

	if (!hardware)
		return perf_count(PERF_TYPE_SOFTWARE, software_events[i], leader,
				  read_format, inherit);
	return perf_count(PERF_TYPE_RAW, raw_events[i], leader, read_format, inherit);
}

bool group_open(struct group *group, int nr, bool hardware, __u64 read_format,
		bool inherit)
{
	int fd;

	for (group->nr = 0; group->nr < nr; group->nr++) {
		fd = open_member(group->nr, hardware, group->nr ? group->fd[0] : -1,
				 read_format, inherit);
		if (fd < 0) {
			report_wrong("event %d of a %s group: %s", group->nr,
				     hardware ? "hardware" : "software", strerror(errno));
			group_close(group);
			return false;
		}
		group->fd[group->nr] = fd;
	}
	return true;
}

void group_close(struct group *group)
{
	while (group->nr)
		close(group->fd[--group->nr]);
}

struct perf_event_mmap_page *ring_map(int fd, int pages)
{
	void *ring = mmap(NULL, (1 + pages) * page_size, PROT_READ | PROT_WRITE,
			  MAP_SHARED, fd, 0);

	if (ring == MAP_FAILED) {
		report_wrong("a ring of %d pages: %s", pages, strerror(errno));
		return NULL;
	}
	return ring;
}

void ring_unmap(struct perf_event_mmap_page *ring, int pages)
{
	munmap(ring, (1 + pages) * page_size);
}

__u64 ring_head(struct perf_event_mmap_page *ring)
{
	return __atomic_load_n(&ring->data_head, __ATOMIC_ACQUIRE);
}

/* Takes everything out of the ring; shaped to be the prepare() of an operation. */
void ring_drain(void *ring)
{
	struct perf_event_mmap_page *page = ring;

	__atomic_store_n(&page->data_tail, ring_head(page), __ATOMIC_RELEASE);
}

static ssize_t read_text(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t nr;

	if (fd < 0)
		return -1;
	nr = read(fd, text, size - 1);
	close(fd);
	if (nr >= 0)
		text[nr] = '\0';
	return nr;
}

long read_number(const char *path)
{
	char text[64];

	if (read_text(path, text, sizeof(text)) <= 0)
		return -1;
	return strtol(text, NULL, 0);
}

long tracepoint_id(const char *name)
{
	char path[128];
	long id;

	snprintf(path, sizeof(path), TRACING "events/%s/id", name);
	id = read_number(path);
	if (id < 0)
		report_wrong("tracepoint %s: %s", name, strerror(errno));
	return id;
}

int write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	ssize_t nr;

	if (fd < 0)
		return -1;
	nr = write(fd, text, strlen(text));
	close(fd);
	return nr == (ssize_t)strlen(text) ? 0 : -1;
}

/* A row about an event that did not happen would look good: make sure that it did. */
void must_count(int fd, __u64 at_least, const char *what)
{
	__u64 count = 0;

	if (read(fd, &count, sizeof(count)) < (ssize_t)sizeof(count))
		report_wrong("%s: cannot read the event", what);
	else if (count < at_least)
		report_wrong("%s: counted %llu, at least %llu happened", what, count,
			     at_least);
}
