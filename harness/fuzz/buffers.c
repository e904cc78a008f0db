// SPDX-License-Identifier: GPL-2.0
/*
 * fuzz - user pages, ring buffers by mmap() and by splice(), AUX areas
 */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include <sys/ioctl.h>
#include <sys/mman.h>

#include "fuzz.h"

static size_t page_size(void)
{
	static size_t size;

	if (!size)
		size = sysconf(_SC_PAGESIZE);
	return size;
}

static void unmap(struct map *map)
{
	if (map->addr)
		munmap(map->addr, map->len);
	map->addr = NULL;
}

static long put_map(struct walk *walk, void *addr, size_t len, int prot, bool is_buffer)
{
	struct map *map = &walk->maps[below(walk, NR_MAPS)];

	if (addr == MAP_FAILED)
		return -1;
	unmap(map);
	*map = (struct map) { .addr = addr, .len = len, .prot = prot, .is_buffer = is_buffer };
	return 0;
}

static long map_buffer(struct walk *walk)
{
	size_t len = page_size() * (1 + (1 << below(walk, 5)));
	int prot = once_in(walk, 4) ? PROT_READ : PROT_READ | PROT_WRITE;

	if (once_in(walk, 8))
		len += page_size() * below(walk, 4);
	return put_map(walk, mmap(NULL, len, prot, MAP_SHARED, any_fd(walk), 0), len, prot, true);
}

static long map_page(struct walk *walk)
{
	int prot = once_in(walk, 2) ? PROT_READ : PROT_READ | PROT_WRITE;

	return put_map(walk, mmap(NULL, page_size(), prot, MAP_SHARED, any_fd(walk), 0),
		       page_size(), prot, true);
}

/* Pick a buffer of this thread whose page it may write to. */
static struct map *any_buffer(struct walk *walk)
{
	struct map *map = &walk->maps[below(walk, NR_MAPS)];

	return map->addr && map->is_buffer && map->prot & PROT_WRITE ? map : NULL;
}

/*
 * The page says where the area is to be, and any thread that has mapped the page may
 * change that meanwhile.
 */
static long map_aux(struct walk *walk)
{
	size_t data = page_size() * 5, len = page_size() << below(walk, 5), offset = page_size() * (64 + below(walk, 2));
	int prot = once_in(walk, 3) ? PROT_READ : PROT_READ | PROT_WRITE;
	struct map *map = any_buffer(walk);
	struct perf_event_mmap_page *page;
	int fd = any_fd(walk);

	if (once_in(walk, 2)) {
		page = mmap(NULL, data, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (put_map(walk, page, data, PROT_READ | PROT_WRITE, true))
			return -1;
	} else {
		if (!map)
			return -1;
		page = (void *)map->addr;
	}
	page->aux_offset = offset;
	page->aux_size = once_in(walk, 16) ? any_word(walk) : len;
	return put_map(walk, mmap(NULL, len, prot, MAP_SHARED, fd, offset), len, prot, false);
}

static long unmap_any(struct walk *walk)
{
	struct map *map = &walk->maps[below(walk, NR_MAPS)];
	size_t part = page_size();

	/* Sometimes unmap only the last page, which splits the VMA. */
	if (map->addr && map->len > part && once_in(walk, 3)) {
		munmap(map->addr + map->len - part, part);
		map->len -= part;
		return 0;
	}
	unmap(map);
	return 0;
}

static long read_page(struct walk *walk)
{
	struct map *map = &walk->maps[below(walk, NR_MAPS)];
	struct perf_event_mmap_page *page;
	unsigned int seq, tries = 10;
	volatile uint64_t sum;

	if (!map->addr || !map->is_buffer)
		return -1;
	page = (void *)map->addr;
	do {
		seq = __atomic_load_n(&page->lock, __ATOMIC_ACQUIRE);
		sum = page->offset + page->time_enabled + page->time_running + page->index;
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
	} while (page->lock != seq && --tries);
	(void)sum;
	return tries;
}

/* Set the tail to what was read, or to anything. */
static long move_tail(struct walk *walk)
{
	struct map *map = any_buffer(walk);
	struct perf_event_mmap_page *page;

	if (!map)
		return -1;
	page = (void *)map->addr;
	if (once_in(walk, 2))
		page->aux_tail = once_in(walk, 8) ? any_word(walk) : page->aux_head;
	else
		page->data_tail = once_in(walk, 8) ? any_word(walk) : page->data_head;
	return 0;
}

/* Overwrite all of the page now and then: nothing in the kernel may trust it. */
static long scribble(struct walk *walk)
{
	struct map *map = any_buffer(walk);

	if (!map)
		return -1;
	((volatile uint64_t *)map->addr)[below(walk, page_size() / 8)] = any_word(walk);
	return 0;
}

static long redirect(struct walk *walk)
{
	return ioctl(any_fd(walk), PERF_EVENT_IOC_SET_OUTPUT, once_in(walk, 6) ? -1 : any_fd(walk));
}

static long pause_output(struct walk *walk)
{
	return ioctl(any_fd(walk), PERF_EVENT_IOC_PAUSE_OUTPUT, below(walk, 2));
}

static long poll_any(struct walk *walk)
{
	struct pollfd fds[2] = {
		{ .fd = any_fd(walk), .events = POLLIN },
		{ .fd = any_fd(walk), .events = POLLIN },
	};

	return poll(fds, 2, below(walk, 3));
}

static long allocate(struct walk *walk)
{
	struct perf_event_buffer buffer = {
		.size = sizeof(buffer),
		.flags = PERF_BUFFER_F_SPLICE,
		.data_size = page_size() << below(walk, 6),
		.watermark = once_in(walk, 2) ? below(walk, 16384) : 0,
	};
	int fd = any_fd(walk);
	long ret;

	if (once_in(walk, 16))
		((unsigned char *)&buffer)[below(walk, sizeof(buffer))] = any_word(walk);
	ret = ioctl(fd, PERF_EVENT_IOC_ALLOC_BUFFER, &buffer);
	/* Other events may write to the buffer, too. */
	if (!ret && once_in(walk, 2))
		ioctl(any_fd(walk), PERF_EVENT_IOC_SET_OUTPUT, fd);
	return ret;
}

/* One call in 64 waits until its process is killed. */
static long take(struct walk *walk)
{
	unsigned int flags = once_in(walk, 64) ? 0 : SPLICE_F_NONBLOCK;
	size_t len = once_in(walk, 3) ? below(walk, 70000) : 1 << 20;

	return splice(any_fd(walk), NULL, walk->pipe[1], NULL, len, flags);
}

/* Move what is in the pipe elsewhere, read it, or duplicate it. */
static long give(struct walk *walk)
{
	static int nowhere = -1;
	char bytes[4096];

	if (nowhere < 0)
		nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
	switch (below(walk, 4)) {
	case 0:
		return read(walk->pipe[0], bytes, 1 + below(walk, sizeof(bytes)));
	case 1:
		return tee(walk->pipe[0], walk->pipe[1], below(walk, 70000), SPLICE_F_NONBLOCK);
	default:
		return splice(walk->pipe[0], NULL, nowhere, NULL, 1 << 20, SPLICE_F_NONBLOCK);
	}
}

static long snapshot(struct walk *walk)
{
	struct perf_event_aux_snapshot snapshot = {
		.size = sizeof(snapshot),
		.flags = once_in(walk, 4) ? PERF_AUX_SNAPSHOT_DISABLE : 0,
	};

	if (once_in(walk, 16))
		((unsigned char *)&snapshot)[below(walk, 8)] = any_word(walk);
	return ioctl(any_fd(walk), PERF_EVENT_IOC_AUX_SNAPSHOT, &snapshot);
}

/* Let the simulated PMU write a random number of bytes to its AUX area at once. */
static long tick_aux(struct walk *walk)
{
	char path[64], text[32];

	snprintf(path, sizeof(path), "/sys/kernel/debug/pmusim/cpu%u/tick", below(walk, 2));
	snprintf(text, sizeof(text), "pmusim_aux 0 %u", 8 * (1 + below(walk, 20000)));
	return write_text(path, text);
}

const struct action buffer_actions[] = {
	{ "map buffer",		RING | AUX,	8,	map_buffer },
	{ "map user page",	PAGE | GATE,	8,	map_page },
	{ "map AUX area",	AUX,		10,	map_aux },
	{ "unmap",		EVENTS,		4,	unmap_any },
	{ "read user page",	PAGE | GATE,	16,	read_page },
	{ "move tail",		RING | AUX,	8,	move_tail },
	{ "scribble",		RING | AUX | PAGE, 4,	scribble },
	{ "set output",		RING | AUX,	6,	redirect },
	{ "pause output",	RING | AUX,	2,	pause_output },
	{ "poll",		ALL,		2,	poll_any },
	{ "allocate buffer",	RING,		6,	allocate },
	{ "splice",		RING,		10,	take },
	{ "from the pipe",	RING,		8,	give },
	{ "AUX snapshot",	AUX,		8,	snapshot },
	{ "tick AUX",		AUX,		8,	tick_aux },
	{}
};
