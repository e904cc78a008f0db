// SPDX-License-Identifier: GPL-2.0
/* Control of the simulated PMUs, and buffers of their events. Any error ends the program. */
#include "demo.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

__u64 now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ULL + now.tv_nsec;
}

void put_number(const char *path, unsigned int number)
{
	FILE *file = fopen(path, "w");

	if (!file || fprintf(file, "%u\n", number) < 0 || fclose(file))
		die("%s: %s", path, strerror(errno));
}

struct perf_event_attr sim_attr(const char *pmu)
{
	struct perf_event_attr attr = { .size = sizeof(attr), .disabled = 1 };
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), "/sys/bus/event_source/devices/%s/type", pmu);
	file = fopen(path, "r");
	if (!file || fscanf(file, "%u", &attr.type) != 1)
		die("%s: %s", path, strerror(errno));
	fclose(file);
	return attr;
}

/* Let what is on the first CPU count, or write bytes. Done when this returns. */
void sim_tick(const char *pmu, __u64 amount)
{
	static const char path[] = "/sys/kernel/debug/pmusim/cpu0/tick";
	FILE *file = fopen(path, "w");

	if (!file || fprintf(file, "%s 0 %llu", pmu, amount) < 0 || fclose(file))
		die("%s: %s", path, strerror(errno));
}

void event_ioctl(int fd, const char *name, unsigned long command, unsigned long argument)
{
	if (ioctl(fd, command, argument))
		die("%s: %s", name, strerror(errno));
}

/* Open an event of the first CPU and its buffer. */
struct ring ring_open(struct perf_event_attr *attr)
{
	size_t page = sysconf(_SC_PAGESIZE);
	struct ring ring = { .size = DATA_PAGES * page };

	ring.fd = syscall(SYS_perf_event_open, attr, -1, 0, -1, PERF_FLAG_FD_CLOEXEC);
	if (ring.fd < 0)
		die("perf_event_open, type %u: %s", attr->type, strerror(errno));
	ring.page = mmap(NULL, page + ring.size, PROT_READ | PROT_WRITE, MAP_SHARED, ring.fd, 0);
	if (ring.page == MAP_FAILED)
		die("mmap of a ring: %s", strerror(errno));
	ring.data = (char *)ring.page + ring.page->data_offset;
	return ring;
}

void ring_map_aux(struct ring *ring, int protection)
{
	size_t page = sysconf(_SC_PAGESIZE);

	ring->aux_size = AUX_PAGES * page;
	ring->page->aux_offset = page + ring->size;
	ring->page->aux_size = ring->aux_size;
	ring->aux = mmap(NULL, ring->aux_size, protection, MAP_SHARED, ring->fd,
			 page + ring->size);
	if (ring->aux == MAP_FAILED)
		die("mmap of an AUX area: %s", strerror(errno));
}

/* Take the next record, and give its room back. False if there is none. */
bool ring_next(struct ring *ring, struct record *record)
{
	__u64 head = __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE);
	char *to = (char *)record;

	if (ring->tail == head)
		return false;
	memcpy(to, ring->data + ring->tail % ring->size, sizeof(record->header));
	if (record->header.size < sizeof(record->header) ||
	    record->header.size > sizeof(*record))
		die("a record of %u bytes", record->header.size);
	for (size_t i = 0; i < record->header.size; i++)
		to[i] = ring->data[(ring->tail + i) % ring->size];
	ring->tail += record->header.size;
	__atomic_store_n(&ring->page->data_tail, ring->tail, __ATOMIC_RELEASE);
	return true;
}

void ring_close(struct ring *ring)
{
	if (ring->aux)
		munmap(ring->aux, ring->aux_size);
	munmap(ring->page, (char *)ring->data + ring->size - (char *)ring->page);
	close(ring->fd);
}
