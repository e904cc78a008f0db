/* SPDX-License-Identifier: GPL-2.0 */
/*
 * perf ring buffer selftests - buffers that are read by splice(2)
 */
#ifndef _RING_SPLICE_HELPERS_H
#define _RING_SPLICE_HELPERS_H

#include "ring_helpers.h"

#define MIB		(1UL << 20)
#define EXTRA_PAGES	16	/* charged for pages that come back, of a large buffer */

static inline struct perf_event_buffer splice_buffer(size_t nr)
{
	return (struct perf_event_buffer) {
		.size		= sizeof(struct perf_event_buffer),
		.flags		= PERF_BUFFER_F_SPLICE,
		.data_size	= nr * page_size(),
	};
}

static inline int buffer_alloc(int fd, const struct perf_event_buffer *buffer)
{
	return event_ioctl(fd, PERF_EVENT_IOC_ALLOC_BUFFER, (unsigned long)buffer);
}

/* Give the event a buffer of @nr pages of data. Returns 0 or the negative errno. */
static inline int ring_alloc(int fd, size_t nr)
{
	struct perf_event_buffer buffer = splice_buffer(nr);

	return buffer_alloc(fd, &buffer);
}

/* Further charge of ALLOC_BUFFER: the user page, and pages that come back from pipes. */
static inline size_t charged_pages(size_t nr)
{
	return 1 + nr + (nr / 4 < EXTRA_PAGES ? nr / 4 : EXTRA_PAGES);
}

/* Get the reason for which the kernel has no such buffers, or NULL. */
static inline const char *no_splice(void)
{
	struct perf_event_attr attr = fault_attr();
	const char *reason = NULL;
	int pipes[2], fd, ret;

	fd = event_open(&attr);
	if (fd < 0 || pipe(pipes))
		return "no event, or no pipe";
	ret = ring_alloc(fd, 1);
	if (ret == -ENOTTY &&
	    splice(fd, NULL, pipes[1], NULL, 1, SPLICE_F_NONBLOCK) < 0 && errno == EINVAL)
		reason = "the kernel has no such buffers: ENOTTY, and splice() EINVAL";
	if (ret == -EOPNOTSUPP)
		reason = "buffers are not made of pages here: EOPNOTSUPP";
	close(fd);
	close(pipes[0]);
	close(pipes[1]);
	return reason;
}

#define SKIP_WITHOUT_SPLICE()					\
	do {							\
		const char *reason = no_splice();		\
								\
		if (reason)					\
			SKIP(return, "%s", reason);		\
	} while (0)

static inline ssize_t ring_splice_flags(int fd, int to, size_t len, unsigned int flags)
{
	ssize_t ret = splice(fd, NULL, to, NULL, len, flags);

	return ret < 0 ? -errno : ret;
}

static inline ssize_t ring_splice(int fd, int to, size_t len)
{
	return ring_splice_flags(fd, to, len, SPLICE_F_NONBLOCK);
}

static inline int pipe_open(int pipes[2], size_t size)
{
	if (pipe(pipes))
		return -errno;
	return fcntl(pipes[1], F_SETPIPE_SZ, size) < 0 ? -errno : 0;
}

static inline void pipe_close(int pipes[2])
{
	close(pipes[0]);
	close(pipes[1]);
}

/* Data of a buffer, in one piece. */
struct stream {
	char	*data;
	size_t	len;
	size_t	max;
};

static inline int stream_init(struct stream *stream, size_t max)
{
	stream->data = mmap(NULL, max, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	stream->len = 0;
	stream->max = max;
	return stream->data == MAP_FAILED ? -errno : 0;
}

/* Read exactly @len bytes from the pipe. */
static inline int stream_read(struct stream *stream, int from, size_t len)
{
	while (len) {
		ssize_t ret = stream->len + len > stream->max ? -1 :
			      read(from, stream->data + stream->len, len);

		if (ret <= 0)
			return -1;
		stream->len += ret;
		len -= ret;
	}
	return 0;
}

/*
 * Move all data, at most @step bytes at once. Return the result of the last splice(): 0
 * at the end, or -EAGAIN.
 */
static inline ssize_t stream_drain(struct stream *stream, int fd, int pipes[2], size_t step)
{
	ssize_t ret;

	while ((ret = ring_splice(fd, pipes[1], step)) > 0) {
		if (stream_read(stream, pipes[0], ret))
			return -EIO;
	}
	return ret;
}

/* Add up the records, which must fill the stream exactly. @size is the size of a sample. */
static inline void stream_sum_size(const struct stream *stream, struct ring_sum *sum,
				   size_t size)
{
	struct perf_event_header *header;
	size_t at;

	for (at = 0; at + sizeof(*header) <= stream->len; at += header->size) {
		header = (void *)(stream->data + at);
		if (header->size < sizeof(*header) || at + header->size > stream->len)
			break;
		if (header->type == PERF_RECORD_SAMPLE) {
			sum->samples++;
			sum->bad |= header->size != size;
		} else if (header->type == PERF_RECORD_LOST) {
			sum->lost_records++;
			sum->lost += ((struct ring_lost *)header)->lost;
		} else {
			break;
		}
	}
	sum->bad |= at != stream->len;
}

static inline void stream_sum(const struct stream *stream, struct ring_sum *sum)
{
	stream_sum_size(stream, sum, SAMPLE_SIZE);
}

#endif
