// SPDX-License-Identifier: GPL-2.0
/*
 * perf ring buffer selftests - writers in NMI that interrupt a writer in a task
 *
 * A software event writes a record for each page fault. Hardware events of the same
 * task are redirected to its buffer, and sample every few thousand instructions of
 * the kernel, hence in the middle of the software event's records as well. Nothing
 * may be torn, lost or out of order. No word of a record is left unchecked. All are
 * known beforehand but the count of instructions, which has to grow.
 *
 * PERF_STRESS_RECORDS sets the number of faults; the default is 100000.
 */
#define _GNU_SOURCE

#include "../kselftest_harness.h"
#include "ring_helpers.h"

#define MAX_NMI_EVENTS	4
#define NR_EVENTS	(1 + MAX_NMI_EVENTS)
#define NR_PAGES	1024
#define SAMPLE_TYPE	(PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TID | PERF_SAMPLE_ID | \
			 PERF_SAMPLE_STREAM_ID | PERF_SAMPLE_PERIOD | PERF_SAMPLE_READ)

struct nmi_sample {
	struct perf_event_header	header;
	__u64				identifier;
	__u32				pid;
	__u32				tid;
	__u64				id;
	__u64				stream_id;
	__u64				period;
	__u64				value;
};

/* An event, and the expected values of its samples. */
struct source {
	int			fd;
	__u64			id;
	__u64			period;
	__u64			value;
	unsigned long long	samples;
};

FIXTURE(ring_nmi)
{
	struct ring ring;
	long time_max;
	/* The software event of the task comes first. */
	struct source sources[NR_EVENTS];
};

FIXTURE_VARIANT(ring_nmi)
{
	int nr;
};

FIXTURE_VARIANT_ADD(ring_nmi, one_writer) {
	.nr = 1,
};

FIXTURE_VARIANT_ADD(ring_nmi, two_writers) {
	.nr = 2,
};

FIXTURE_VARIANT_ADD(ring_nmi, four_writers) {
	.nr = 4,
};

#define TIME_MAX	"/proc/sys/kernel/perf_cpu_time_max_percent"

static int open_source(struct source *source, struct perf_event_attr *attr)
{
	attr->sample_type = SAMPLE_TYPE;
	source->fd = event_open(attr);
	if (source->fd < 0)
		return -errno;
	source->period = attr->sample_period;
	return event_ioctl(source->fd, PERF_EVENT_IOC_ID, (unsigned long)&source->id);
}

static int open_nmi_source(struct source *source, int i)
{
	/*
	 * The periods have no common divisor, so that all positions are hit. Four NMIs
	 * must take less than a period, also with KASAN, otherwise nothing else would
	 * run.
	 */
	static const unsigned int periods[MAX_NMI_EVENTS] = {
		80021, 112019, 144013, 176021,
	};
	struct perf_event_attr attr = {
		.type		= PERF_TYPE_HARDWARE,
		.size		= sizeof(struct perf_event_attr),
		.config		= PERF_COUNT_HW_INSTRUCTIONS,
		.sample_period	= periods[i],
		.disabled	= 1,
	};

	return open_source(source, &attr);
}

FIXTURE_SETUP(ring_nmi)
{
	struct perf_event_attr attr = fault_attr();
	struct source *task = &self->sources[0];
	int i;

	for (i = 0; i < NR_EVENTS; i++)
		self->sources[i].fd = -1;
#ifndef __x86_64__
	SKIP(return, "x86 alone is known to take its samples in NMI");
#endif
	if (geteuid())
		SKIP(return, "needs root to sample the kernel");
	for (i = 0; i < variant->nr; i++) {
		if (open_nmi_source(&self->sources[i + 1], i))
			SKIP(return, "no hardware PMU");
	}
	self->time_max = read_number(TIME_MAX);
	ASSERT_EQ(0, write_number(TIME_MAX, 0));
	ASSERT_EQ(0, open_source(task, &attr));
	ASSERT_EQ(0, ring_map(&self->ring, task->fd, NR_PAGES));
	for (i = 1; i <= variant->nr; i++)
		ASSERT_EQ(0, event_ioctl(self->sources[i].fd, PERF_EVENT_IOC_SET_OUTPUT,
					 task->fd));
}

FIXTURE_TEARDOWN(ring_nmi)
{
	int i;

	for (i = 0; i < NR_EVENTS; i++)
		close(self->sources[i].fd);
	if (self->time_max)
		write_number(TIME_MAX, self->time_max);
}

static unsigned int stress_records(void)
{
	const char *records = getenv("PERF_STRESS_RECORDS");

	return records ? atoi(records) : 100000;
}

struct nmi_sum {
	unsigned long long	lost;
	unsigned long long	other;
	const char		*wrong;
};

/* Returns NULL, or the fault of a sample. */
static const char *check_sample(const struct nmi_sample *sample, struct source *sources)
{
	struct source *source = NULL;
	int i;

	if (sample->header.size != sizeof(*sample))
		return "size";
	for (i = 0; i < NR_EVENTS; i++) {
		if (sources[i].fd >= 0 && sources[i].id == sample->id)
			source = &sources[i];
	}
	if (!source)
		return "id";
	if (sample->identifier != source->id || sample->stream_id != source->id)
		return "other id";
	if (sample->pid != (__u32)getpid() || sample->tid != sample->pid)
		return "task";
	if (sample->period != source->period)
		return "period";
	source->samples++;
	/* The value grows by a period for each sample, and by counts until the interrupt. */
	if (sample->value <= source->value ||
	    sample->value < source->samples * source->period)
		return "count";
	/* The faults are numbered. */
	if (source == sources && sample->value != source->samples)
		return "number";
	source->value = sample->value;
	return NULL;
}

static void drain(struct ring *ring, struct source *sources, struct nmi_sum *sum)
{
	struct nmi_sample sample;
	__u32 type;

	while (!sum->wrong) {
		type = ring_next(ring, &sample, sizeof(sample));
		switch (type) {
		case NO_RECORD:
			return;
		case PERF_RECORD_SAMPLE:
			sum->wrong = check_sample(&sample, sources);
			break;
		case PERF_RECORD_THROTTLE:
		case PERF_RECORD_UNTHROTTLE:
			sum->other++;
			break;
		default:
			sum->lost += type == PERF_RECORD_LOST;
			sum->wrong = "type";
		}
	}
}

TEST_F_TIMEOUT(ring_nmi, records_are_whole_and_in_order, 3600)
{
	unsigned int records = stress_records(), done;
	unsigned long long nmis = 0;
	struct nmi_sum sum = {};
	__u64 count;
	int i;

	fault_page();
	for (i = variant->nr; i >= 0; i--)
		ASSERT_EQ(0, event_enable(self->sources[i].fd));
	for (done = 0; done < records && !sum.wrong; done += 100) {
		make_faults(100);
		drain(&self->ring, self->sources, &sum);
	}
	for (i = variant->nr; i >= 0; i--)
		ASSERT_EQ(0, event_disable(self->sources[i].fd));
	drain(&self->ring, self->sources, &sum);
	for (i = 1; i <= variant->nr; i++) {
		EXPECT_LT(0, self->sources[i].samples);
		nmis += self->sources[i].samples;
	}
	EXPECT_EQ(NULL, sum.wrong) {
		TH_LOG("wrong %s after %llu faults and %llu NMIs", sum.wrong,
		       self->sources[0].samples, nmis);
	}
	EXPECT_EQ(0, sum.lost);
	EXPECT_LE(done, self->sources[0].samples);
	/* No sample is missing: the last one has the count of the event. */
	ASSERT_EQ(sizeof(count), read(self->sources[0].fd, &count, sizeof(count)));
	EXPECT_EQ(count, self->sources[0].samples);
	EXPECT_LT(records / 100, nmis);
	TH_LOG("%llu faults, %llu NMIs, %llu throttlings", self->sources[0].samples, nmis,
	       sum.other);
}

TEST_HARNESS_MAIN
