// SPDX-License-Identifier: GPL-2.0
/*
 * Samples of slow windows: what was a function doing when it took long?
 *
 * A window is recorded where it ends, after its samples. So the file is read twice: first
 * for the windows alone, and then for the samples of those that took long.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <linux/err.h>
#include <linux/kernel.h>
#include <linux/zalloc.h>
#include <perf/event.h>
#include <subcmd/parse-options.h>

#include "data.h"
#include "debug.h"
#include "event.h"
#include "sample.h"
#include "session.h"
#include "slow-windows.h"
#include "tool.h"
#include "util/compress.h"

/**
 * window_time__parse - Parse a time with its unit
 * @str:	Such as 1ms, 250us, 1.5s or 800ns
 * @ns:		Receives the time in nanoseconds
 *
 * Return: 0, or -EINVAL after a message.
 */
int window_time__parse(const char *str, u64 *ns)
{
	static const struct {
		const char	*unit;
		double		ns;
	} units[] = {
		{ "ns", 1 }, { "us", 1e3 }, { "ms", 1e6 }, { "s", 1e9 },
	};
	unsigned int i;
	double value;
	char *end;

	value = strtod(str, &end);
	for (i = 0; i < ARRAY_SIZE(units); i++) {
		if (end == str || strcmp(end, units[i].unit))
			continue;
		value *= units[i].ns;
		if (!(value >= 0 && value < 1e18))
			break;
		*ns = value;
		return 0;
	}
	pr_err("'%s' is no time: give a number and ns, us, ms or s, such as 1ms\n", str);
	return -EINVAL;
}

/**
 * slow_windows__parse - Take the option --windows-longer-than
 * @opt:	The option, whose value is a struct slow_windows
 * @str:	Its argument
 * @unset:	It is --no-windows-longer-than
 *
 * Return: 0, or -1 after a message.
 */
int slow_windows__parse(const struct option *opt, const char *str, int unset)
{
	struct slow_windows *slow = opt->value;

	slow->chosen = !unset;
	return unset || !window_time__parse(str, &slow->longer_than) ? 0 : -1;
}

struct reader {
	struct perf_tool	tool;
	struct slow_windows	*slow;
};

static int slow_windows__add(struct slow_windows *slow, const struct slow_window *window)
{
	struct slow_window *windows;

	if (slow->nr == slow->allocated) {
		size_t more = slow->allocated * 2 ?: 64;

		windows = reallocarray(slow->windows, more, sizeof(*windows));
		if (!windows)
			return -ENOMEM;
		slow->windows = windows;
		slow->allocated = more;
	}
	slow->windows[slow->nr++] = *window;
	return 0;
}

static int read_window(const struct perf_tool *tool, union perf_event *event,
		       struct perf_sample *sample __maybe_unused,
		       struct machine *machine __maybe_unused)
{
	struct reader *reader = container_of(tool, struct reader, tool);
	struct slow_window window = {
		.tid	= event->gate.tid,
		.opened	= event->gate.opened,
		.closed	= event->gate.closed,
	};

	reader->slow->nr_records++;
	if (event->gate.wall <= reader->slow->longer_than)
		return 0;
	return slow_windows__add(reader->slow, &window);
}

static int compare_windows(const void *a, const void *b)
{
	const struct slow_window *x = a, *y = b;

	if (x->tid != y->tid)
		return x->tid < y->tid ? -1 : 1;
	return x->opened < y->opened ? -1 : x->opened > y->opened;
}

/* Merge windows: all events of a gate record them, and those of two gates may nest. */
static void slow_windows__merge(struct slow_windows *slow)
{
	size_t i, nr = 0;

	qsort(slow->windows, slow->nr, sizeof(*slow->windows), compare_windows);
	for (i = 0; i < slow->nr; i++) {
		struct slow_window *window = &slow->windows[i];
		struct slow_window *last = nr ? &slow->windows[nr - 1] : NULL;

		if (last && last->tid == window->tid && window->opened <= last->closed)
			last->closed = max(last->closed, window->closed);
		else
			slow->windows[nr++] = *window;
	}
	slow->nr = nr;
}

/**
 * slow_windows__read - Find the slow windows of a file
 * @slow:	Receives them, if the user has chosen a time
 * @data:	The file, which is opened once more
 *
 * Return: 0, or a negative error code after a message.
 */
int slow_windows__read(struct slow_windows *slow, const struct perf_data *data)
{
	struct perf_data again = {
		.path	= data->path,
		.mode	= PERF_DATA_MODE_READ,
		.force	= data->force,
	};
	struct reader reader = { .slow = slow };
	struct perf_session *session;
	int err;

	if (!slow->chosen)
		return 0;
	if (data->is_pipe) {
		pr_err("--windows-longer-than reads its input twice, which a pipe does not allow. Use a file.\n");
		return -EINVAL;
	}

	slow->nr = 0;
	slow->nr_records = 0;
	perf_tool__init(&reader.tool, /*ordered_events=*/false);
	reader.tool.gate = read_window;
	session = perf_session__new(&again, &reader.tool);
	if (IS_ERR(session))
		return PTR_ERR(session);
	if (zstd_init(&session->zstd_data, 0) < 0)
		pr_warning("Decompression initialization failed. Windows may be missing.\n");
	err = perf_session__process_events(session);
	zstd_fini(&session->zstd_data);
	perf_session__delete(session);
	if (err)
		return err;

	if (!slow->nr_records) {
		pr_err("--windows-longer-than: %s has no windows. Record them with perf record --windows.\n",
		       data->path ?: "perf.data");
		return -EINVAL;
	}
	slow_windows__merge(slow);
	return 0;
}

/**
 * slow_windows__discard - Tell whether a sample is outside of the slow windows
 * @slow:	The windows
 * @sample:	The sample
 *
 * Return: true if the user has chosen a time and the sample's thread was in no window that
 * took longer.
 */
bool slow_windows__discard(const struct slow_windows *slow, const struct perf_sample *sample)
{
	size_t low = 0, high = slow->nr;

	if (!slow->chosen)
		return false;

	/* Find the last window that does not begin after the sample. */
	while (low < high) {
		size_t mid = low + (high - low) / 2;
		const struct slow_window *window = &slow->windows[mid];

		if (window->tid < sample->tid ||
		    (window->tid == sample->tid && window->opened <= sample->time))
			low = mid + 1;
		else
			high = mid;
	}
	if (!low)
		return true;
	return slow->windows[low - 1].tid != sample->tid ||
	       slow->windows[low - 1].closed < sample->time;
}

/**
 * slow_windows__exit - Free the windows
 * @slow:	The windows
 */
void slow_windows__exit(struct slow_windows *slow)
{
	zfree(&slow->windows);
	slow->nr = 0;
	slow->allocated = 0;
}
