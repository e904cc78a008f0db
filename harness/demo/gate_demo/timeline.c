// SPDX-License-Identifier: GPL-2.0
/*
 * When the windows were: two sampling events, apart from the triggers, that
 * write one record at each entry and each exit into a common ring.
 */
#include "demo.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

/* For 2 MB of records, more than the program makes. */
#define RING_PAGES	512

/* Columns of the picture, and windows in its second line. */
#define PICTURE_WIDTH	68
#define NR_ZOOMED	12

/* With sample_id_all all records but samples end with these. */
struct sample_id {
	__u64 time;
	__u64 identifier;
};

struct sample {
	struct perf_event_header header;
	__u64 identifier;
	__u64 time;
};

static int open_sampler(const char *name, pid_t pid, bool program)
{
	struct perf_event_attr attr = event_attr(PERF_TYPE_TRACEPOINT,
						 tracepoint(name));

	attr.sample_period = 1;
	attr.sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TIME;
	attr.sample_id_all = 1;
	attr.disabled = 1;
	attr.enable_on_exec = 1;
	/* Nothing waits for records. */
	attr.watermark = 1;
	attr.wakeup_watermark = 1U << 31;
	/* Record the beginning and the end of the program, to have the whole run. */
	attr.comm = program;
	attr.comm_exec = program;
	attr.task = program;
	return event_open(&attr, pid);
}

struct recorder recorder_open(pid_t pid)
{
	struct recorder recorder = {
		.enter = open_sampler("syscalls/sys_enter_write", pid, true),
		.exit = open_sampler("syscalls/sys_exit_write", pid, false),
	};

	recorder.ring = mmap(NULL, (1 + RING_PAGES) * sysconf(_SC_PAGESIZE),
			     PROT_READ | PROT_WRITE, MAP_SHARED, recorder.enter, 0);
	if (recorder.ring == MAP_FAILED)
		die("mmap of a ring: %s", strerror(errno));
	if (ioctl(recorder.exit, PERF_EVENT_IOC_SET_OUTPUT, recorder.enter))
		die("SET_OUTPUT: %s", strerror(errno));
	return recorder;
}

static __u64 event_id(int fd)
{
	__u64 id;

	if (ioctl(fd, PERF_EVENT_IOC_ID, &id))
		die("IOC_ID: %s", strerror(errno));
	return id;
}

static void add_sample(struct timeline *timeline, const struct sample *sample,
		       __u64 enter_id)
{
	struct window *window;

	if (sample->identifier == enter_id) {
		timeline->ordered &= timeline->nr_enter == timeline->nr_exit;
		window = &timeline->windows[timeline->nr_enter++];
		timeline->ordered &= sample->time >= timeline->start;
		window->start = sample->time;
	} else {
		window = &timeline->windows[timeline->nr_exit++];
		timeline->ordered &= timeline->nr_exit == timeline->nr_enter &&
				     sample->time >= window->start;
		window->end = sample->time;
	}
}

static void add_record(struct timeline *timeline, const void *record,
		       __u64 enter_id)
{
	const struct perf_event_header *header = record;
	const struct sample_id *id = record + header->size - sizeof(*id);

	switch (header->type) {
	case PERF_RECORD_SAMPLE:
		add_sample(timeline, record, enter_id);
		break;
	case PERF_RECORD_COMM:
		if (header->misc & PERF_RECORD_MISC_COMM_EXEC)
			timeline->start = id->time;
		break;
	case PERF_RECORD_EXIT:
		timeline->end = id->time;
		break;
	}
}

/* Read the records of a program that has ended, so that no more are written. */
struct timeline recorder_read(struct recorder *recorder)
{
	const char *data = (char *)recorder->ring + recorder->ring->data_offset;
	const struct perf_event_header *header;
	struct timeline timeline = { .ordered = true };
	__u64 head = recorder->ring->data_head;
	__u64 enter_id = event_id(recorder->enter);

	/* Nothing is read before, so a record that does not fit is lost. */
	timeline.windows = calloc(head / sizeof(struct sample) + 1,
				  sizeof(*timeline.windows));
	if (!timeline.windows)
		die("no memory for the windows");
	for (__u64 tail = 0; tail < head; tail += header->size) {
		header = (const void *)(data + tail);
		add_record(&timeline, header, enter_id);
	}
	timeline.lost = event_read(recorder->enter).lost +
			event_read(recorder->exit).lost;
	if (!timeline.nr_enter || !timeline.start || timeline.end <= timeline.start)
		die("the samples tell of no run");
	return timeline;
}

__u64 timeline_open_time(const struct timeline *timeline)
{
	__u64 sum = 0;

	for (size_t i = 0; i < timeline->nr_exit; i++)
		sum += timeline->windows[i].end - timeline->windows[i].start;
	return sum;
}

/* Compute the share of each column of [START, END) in which a window is open. */
static void fill_columns(const struct timeline *timeline, double *columns,
			 double start, double end)
{
	double width = (end - start) / PICTURE_WIDTH;
	const struct window *window;
	double from, to;

	for (size_t i = 0; i < timeline->nr_exit; i++) {
		window = &timeline->windows[i];
		for (int column = 0; column < PICTURE_WIDTH; column++) {
			from = start + column * width;
			to = from + width;
			from = window->start > from ? window->start : from;
			to = window->end < to ? window->end : to;
			if (from < to)
				columns[column] += (to - from) / width;
		}
	}
}

/* Print one line, as dark as there is open time. Set *MOST to the largest share of a column. */
static void picture_line(const struct timeline *timeline, double start,
			 double end, double *most)
{
	static const char levels[] = " .:-=+*#%@";
	const int darkest = sizeof(levels) - 2;
	double columns[PICTURE_WIDTH] = {};
	char line[PICTURE_WIDTH + 1] = {};

	fill_columns(timeline, columns, start, end);
	*most = 0;
	for (int i = 0; i < PICTURE_WIDTH; i++)
		*most = columns[i] > *most ? columns[i] : *most;
	/* Round up, so that even the shortest window is visible. */
	for (int i = 0; i < PICTURE_WIDTH; i++)
		line[i] = levels[(int)(columns[i] / *most * darkest + 0.999)];
	printf("  %8.2f ms |%s| %.2f ms\n", (start - timeline->start) / 1e6, line,
	       (end - timeline->start) / 1e6);
}

/* Print the whole run, and some windows from the middle of it. */
void timeline_picture(const struct timeline *timeline)
{
	size_t first = timeline->nr_exit / 2;
	size_t last = first + NR_ZOOMED - 1;
	double most, most_zoomed;

	if (last >= timeline->nr_exit)
		last = timeline->nr_exit - 1;
	picture_line(timeline, timeline->start, timeline->end, &most);
	picture_line(timeline, timeline->windows[first].start,
		     timeline->windows[last].end, &most_zoomed);
	printf("  the whole run (@: %.0f %% of the time open) and %zu windows of it (@: %.0f %%)\n",
	       100 * most, last - first + 1, 100 * most_zoomed);
}

/* Print all windows, for a finer picture, in ns of the run. */
void timeline_dump(const struct timeline *timeline)
{
	const struct window *window;

	printf("timeline %llu\n", timeline->end - timeline->start);
	for (size_t i = 0; i < timeline->nr_exit; i++) {
		window = &timeline->windows[i];
		printf("window %llu %llu\n", window->start - timeline->start,
		       window->end - timeline->start);
	}
}
