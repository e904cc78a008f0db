// SPDX-License-Identifier: GPL-2.0
/*
 * pmusim selftests - writers of one buffer that interrupt each other
 *
 * A task writes records as fast as it can, interrupts and NMIs add theirs in the
 * middle of it, and a reader on another CPU checks each record. All records must
 * be whole and in order, and their number must be that of the overflows less the
 * reported losses. PMUSIM_NESTED_RECORDS makes the test longer.
 */
#define _GNU_SOURCE

#include <pthread.h>

#include "../kselftest_harness.h"
#include "pmusim_helpers.h"

#define NR_WRITERS	4
#define BATCH		200

struct sample {
	struct perf_event_header	header;
	__u64				id;
	__u64				time;
	__u64				cpu;
	__u64				value;
	__u64				lost;
};

/* An event, and the values of its last sample. */
struct writer {
	int	fd;
	__u64	id;
	__u64	samples;
	__u64	value;
	__u64	time;
	__u64	lost;
};

struct reader {
	struct writer	writer[NR_WRITERS];
	unsigned int	nr;
	struct sim_ring	ring;
	const char	*wrong;
	__u64		lost_records;
	int		done;
};

FIXTURE(nested)
{
	struct reader reader;
};

FIXTURE_VARIANT(nested)
{
	unsigned int pages;
};

/* A small buffer is full most of the time, so records are lost as well. */
FIXTURE_VARIANT_ADD(nested, one_page) { .pages = 1 };

FIXTURE_VARIANT_ADD(nested, many_pages) { .pages = 128 };

static int open_writer(__u64 config, __u64 rate)
{
	struct perf_event_attr attr = sim_attr("pmusim", config);

	attr.config1 = rate;
	attr.sample_period = 1;
	attr.sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TIME |
			   PERF_SAMPLE_CPU | PERF_SAMPLE_READ;
	attr.read_format = PERF_FORMAT_LOST;
	attr.disabled = 1;
	return sim_open(&attr, -1, 0, -1);
}

FIXTURE_SETUP(nested)
{
	static const int contexts[NR_WRITERS] = {
		SIM_TASK, SIM_HARDIRQ, SIM_NMI_LIKE, SIM_NMI,
	};
	struct reader *reader = &self->reader;
	unsigned int i;
	int fd;

	if (sim_skips(_metadata))
		return;
	ASSERT_EQ(0, run_on(0));
	/* The samples of all events in one timer tick must not exceed the limit. */
	ASSERT_NE(0, max_sample_rate(100000000));
	for (i = 0; i < NR_WRITERS; i++) {
		/* The first event is ticked, the others have timers. */
		fd = open_writer(SIM_OFLOW(contexts[i]) | (i ? SIM_TIMER : 0),
				 i ? 2000 + 700 * i : 0);
		if (fd == -EOPNOTSUPP && contexts[i] >= SIM_NMI_LIKE)
			continue;
		ASSERT_LE(0, fd);
		reader->writer[reader->nr].fd = fd;
		reader->writer[reader->nr].id = sim_id(fd);
		if (!reader->nr++) {
			ASSERT_EQ(0, ring_map(&reader->ring, fd, variant->pages));
			continue;
		}
		ASSERT_EQ(0, sim_ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT,
				       reader->writer[0].fd));
	}
}

FIXTURE_TEARDOWN(nested)
{
	ring_unmap(&self->reader.ring);
	sim_defaults();
}

static struct writer *find_writer(struct reader *reader, __u64 id)
{
	unsigned int i;

	for (i = 0; i < reader->nr; i++) {
		if (reader->writer[i].id == id)
			return &reader->writer[i];
	}
	return NULL;
}

/*
 * Check each word of a sample. A writer never interrupts itself, so its values only
 * increase, and each of its overflows is a sample or is lost. Only a late timer counts
 * more than that.
 */
static const char *check_sample(struct reader *reader, const struct sample *sample)
{
	struct writer *writer;
	__u64 overflows;

	if (sample->header.size != sizeof(*sample))
		return "size";
	writer = find_writer(reader, sample->id);
	if (!writer)
		return "id";
	if (sample->cpu)
		return "cpu";
	if (sample->value <= writer->value)
		return "order";
	if (sample->time < writer->time)
		return "time";
	if (sample->lost < writer->lost)
		return "loss";
	overflows = ++writer->samples + sample->lost;
	if (overflows > sample->value ||
	    (writer == reader->writer && overflows != sample->value))
		return "number of those lost";
	writer->value = sample->value;
	writer->time = sample->time;
	writer->lost = sample->lost;
	return NULL;
}

/* Returns NULL, or the fault of a record. */
static const char *check_record(struct reader *reader, const struct sim_record *record)
{
	switch (record->header.type) {
	case PERF_RECORD_LOST:
		if (!find_writer(reader, record->word[0]) || !record->word[1])
			return "loss";
		reader->lost_records += record->word[1];
		return NULL;
	case PERF_RECORD_THROTTLE:
	case PERF_RECORD_UNTHROTTLE:
		return "throttled";
	case PERF_RECORD_SAMPLE:
		return check_sample(reader, (const void *)record);
	default:
		return "type";
	}
}

static void check_records(struct reader *reader)
{
	static struct sim_record record;

	while (!reader->wrong && ring_next(&reader->ring, &record))
		reader->wrong = check_record(reader, &record);
}

static void *read_records(void *arg)
{
	struct reader *reader = arg;
	bool last;

	run_on(1);
	do {
		last = __atomic_load_n(&reader->done, __ATOMIC_ACQUIRE);
		check_records(reader);
	} while (!last && !reader->wrong);
	return NULL;
}

/* Time of a sample without an interrupt. All other samples come before or after it. */
static __u64 sample_alone(struct reader *reader)
{
	if (sim_tick(0, 0, 1))
		reader->wrong = "tick";
	check_records(reader);
	return reader->writer[0].time;
}

static unsigned int nr_records(void)
{
	const char *text = getenv("PMUSIM_NESTED_RECORDS");

	return text ? atoi(text) : 10000;
}

/* Number of records that are written before the first read, so that the small buffer is full. */
static unsigned int nr_unread(const struct reader *reader, unsigned int pages)
{
	return pages == 1 ? reader->ring.size / sizeof(struct sample) + 1 : 0;
}

TEST_F_TIMEOUT(nested, each_record_is_whole_and_none_is_missing, 3600)
{
	__u64 value[2], samples = 0, lost = 0, began, time;
	struct reader *reader = &self->reader;
	unsigned int i, n, unread;
	pthread_t thread;

	unread = nr_unread(reader, variant->pages);
	ASSERT_EQ(0, sim_enable(reader->writer[0].fd));
	time = sample_alone(reader);
	EXPECT_LT(0, time);
	began = time;
	for (i = 1; i < reader->nr; i++) {
		reader->writer[i].time = time;
		ASSERT_EQ(0, sim_enable(reader->writer[i].fd));
	}
	for (n = 0; n < unread; n += BATCH)
		ASSERT_EQ(0, sim_tick(0, 0, BATCH));
	ASSERT_EQ(0, pthread_create(&thread, NULL, read_records, reader));
	for (i = 0; i < nr_records() && !reader->wrong; i += BATCH, n += BATCH)
		ASSERT_EQ(0, sim_tick(0, 0, BATCH));
	for (i = 1; i < reader->nr; i++)
		ASSERT_EQ(0, sim_disable(reader->writer[i].fd));
	__atomic_store_n(&reader->done, 1, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
	time = sample_alone(reader);
	EXPECT_LT(began, time);
	for (i = 1; i < reader->nr; i++)
		EXPECT_LE(reader->writer[i].time, time);
	ASSERT_EQ(0, sim_disable(reader->writer[0].fd));
	/* Records that interrupted no other. */
	n += 2;
	EXPECT_EQ(NULL, reader->wrong) {
		TH_LOG("a record with a wrong %s", reader->wrong);
	}

	for (i = 0; i < reader->nr; i++) {
		ASSERT_EQ(sizeof(value), read(reader->writer[i].fd, value, sizeof(value)));
		/* A late timer counts more than one period in a sample. */
		if (!i) {
			EXPECT_EQ(n, value[0]);
			EXPECT_EQ(n, reader->writer[i].samples + value[1]);
		} else {
			EXPECT_GE(value[0], reader->writer[i].samples + value[1]);
		}
		EXPECT_LT(0, value[0]);
		EXPECT_LE(reader->writer[i].lost, value[1]);
		samples += reader->writer[i].samples;
		lost += value[1];
	}
	EXPECT_LT(0, samples);
	/* The last record came after all losses. */
	EXPECT_EQ(reader->lost_records, lost);
	if (unread)
		EXPECT_LT(0, reader->lost_records);
}

TEST_HARNESS_MAIN
