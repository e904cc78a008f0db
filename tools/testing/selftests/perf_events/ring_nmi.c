// SPDX-License-Identifier: GPL-2.0
/*
 * perf ring buffer selftests - writers in NMI that interrupt a writer in a task
 *
 * A software event writes a record for each page fault. Hardware events of the same
 * task are redirected to its buffer, and sample every few thousand instructions of
 * the kernel, hence in the middle of the software event's records as well. Nothing
 * may be torn, lost or out of order.
 *
 * PERF_STRESS_RECORDS tells how many faults, 100000 if it is not set.
 */
#define _GNU_SOURCE

#include "../kselftest_harness.h"
#include "ring_helpers.h"

#define MAX_NMI_EVENTS	4
#define NR_PAGES	256

struct nmi_sample {
	struct perf_event_header	header;
	__u64				id;
	__u64				value;
};

FIXTURE(ring_nmi)
{
	struct perf_event_attr attr;
	struct ring ring;
	long time_max;
	__u64 task_id;
	int task_fd;
	int fds[MAX_NMI_EVENTS];
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

static struct perf_event_attr nmi_attr(int i)
{
	/* Periods without a common divisor, so that all places are hit. */
	static const unsigned int periods[MAX_NMI_EVENTS] = { 5003, 7013, 9011, 11003 };

	return (struct perf_event_attr) {
		.type		= PERF_TYPE_HARDWARE,
		.size		= sizeof(struct perf_event_attr),
		.config		= PERF_COUNT_HW_INSTRUCTIONS,
		.sample_period	= periods[i],
		.sample_type	= PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_READ,
		.disabled	= 1,
	};
}

FIXTURE_SETUP(ring_nmi)
{
	int i;

	memset(self->fds, 0xff, sizeof(self->fds));
	self->task_fd = -1;
#ifndef __x86_64__
	SKIP(return, "x86 alone is known to take its samples in NMI");
#endif
	if (geteuid())
		SKIP(return, "needs root to sample the kernel");
	for (i = 0; i < variant->nr; i++) {
		struct perf_event_attr attr = nmi_attr(i);

		self->fds[i] = event_open(&attr);
		if (self->fds[i] < 0)
			SKIP(return, "no hardware PMU");
	}
	self->time_max = read_number(TIME_MAX);
	ASSERT_EQ(0, write_number(TIME_MAX, 0));
	self->attr = fault_attr();
	self->attr.sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_READ;
	self->task_fd = event_open(&self->attr);
	ASSERT_LE(0, self->task_fd);
	ASSERT_EQ(0, event_ioctl(self->task_fd, PERF_EVENT_IOC_ID, (unsigned long)&self->task_id));
	ASSERT_EQ(0, ring_map(&self->ring, self->task_fd, NR_PAGES));
	for (i = 0; i < variant->nr; i++)
		ASSERT_EQ(0, event_ioctl(self->fds[i], PERF_EVENT_IOC_SET_OUTPUT, self->task_fd));
}

FIXTURE_TEARDOWN(ring_nmi)
{
	int i;

	for (i = 0; i < MAX_NMI_EVENTS; i++)
		close(self->fds[i]);
	close(self->task_fd);
	if (self->time_max)
		write_number(TIME_MAX, self->time_max);
}

static unsigned int stress_records(void)
{
	const char *records = getenv("PERF_STRESS_RECORDS");

	return records ? atoi(records) : 100000;
}

struct nmi_sum {
	unsigned long long	task;
	unsigned long long	nmi;
	unsigned long long	lost;
	unsigned long long	other;
	bool			bad;
};

/* The samples of the faults are numbered by the event's count. */
static void drain(struct ring *ring, __u64 task_id, struct nmi_sum *sum)
{
	struct nmi_sample sample;
	__u32 type;

	while ((type = ring_next(ring, &sample, sizeof(sample))) != NO_RECORD && !sum->bad) {
		switch (type) {
		case PERF_RECORD_SAMPLE:
			sum->bad = sample.header.size != sizeof(sample);
			if (sample.id != task_id)
				sum->nmi++;
			else if (sample.value != ++sum->task)
				sum->bad = true;
			break;
		case PERF_RECORD_THROTTLE:
		case PERF_RECORD_UNTHROTTLE:
			sum->other++;
			break;
		default:
			sum->lost += type == PERF_RECORD_LOST;
			sum->bad = true;
		}
	}
}

TEST_F_TIMEOUT(ring_nmi, records_are_whole_and_in_order, 110)
{
	unsigned int records = stress_records(), done, i;
	struct nmi_sum sum = {};

	fault_page();
	for (i = 0; i < (unsigned int)variant->nr; i++)
		ASSERT_EQ(0, event_enable(self->fds[i]));
	ASSERT_EQ(0, event_enable(self->task_fd));
	for (done = 0; done < records && !sum.bad; done += 100) {
		make_faults(100);
		drain(&self->ring, self->task_id, &sum);
	}
	for (i = 0; i < (unsigned int)variant->nr; i++)
		ASSERT_EQ(0, event_disable(self->fds[i]));
	drain(&self->ring, self->task_id, &sum);
	EXPECT_FALSE(sum.bad) {
		TH_LOG("after %llu faults and %llu NMIs", sum.task, sum.nmi);
	}
	EXPECT_EQ(0, sum.lost);
	EXPECT_LE(done, sum.task);
	EXPECT_LT(records / 100, sum.nmi);
	TH_LOG("%llu faults, %llu NMIs, %llu throttlings", sum.task, sum.nmi, sum.other);
}

TEST_HARNESS_MAIN
