// SPDX-License-Identifier: GPL-2.0
/*
 * perf selftests - events at tracepoints and probes that count
 *
 * A counting event needs no data of a hit. Other events, filters and BPF
 * programs need data, come and go meanwhile, and must not affect the count.
 */
#define _GNU_SOURCE

#include "../kselftest_harness.h"
#include "event_helpers.h"
#include "trace_event_helpers.h"

#define HITS	100

FIXTURE(tracepoint_count)
{
	struct perf_event_attr attr;
	int fd;
};

FIXTURE_VARIANT(tracepoint_count)
{
	enum trace_class class;
};

FIXTURE_VARIANT_ADD(tracepoint_count, syscall_enter) {
	.class = TRACE_SYSCALL_ENTER,
};

FIXTURE_VARIANT_ADD(tracepoint_count, syscall_exit) {
	.class = TRACE_SYSCALL_EXIT,
};

FIXTURE_VARIANT_ADD(tracepoint_count, tracepoint) {
	.class = TRACE_TRACEPOINT,
};

FIXTURE_VARIANT_ADD(tracepoint_count, kprobe) {
	.class = TRACE_KPROBE,
};

FIXTURE_VARIANT_ADD(tracepoint_count, kretprobe) {
	.class = TRACE_KRETPROBE,
};

FIXTURE_VARIANT_ADD(tracepoint_count, uprobe) {
	.class = TRACE_UPROBE,
};

FIXTURE_VARIANT_ADD(tracepoint_count, uretprobe) {
	.class = TRACE_URETPROBE,
};

FIXTURE_SETUP(tracepoint_count)
{
	self->fd = -1;
	if (getuid())
		SKIP(return, "needs root for tracepoints and probes");
	self->attr = trace_attr(variant->class);
	if (self->attr.type == -1U)
		SKIP(return, "no such trace event");
	self->fd = trace_open(&self->attr, 0, -1);
	ASSERT_LE(0, self->fd) {
		TH_LOG("perf_event_open: %s", strerror(errno));
	}
}

FIXTURE_TEARDOWN(tracepoint_count)
{
	close(self->fd);
}

TEST_F(tracepoint_count, each_hit_counts_once)
{
	trace_hit(variant->class, HITS);
	EXPECT_EQ(HITS, trace_count(self->fd));
	trace_hit(variant->class, 1);
	EXPECT_EQ(HITS + 1, trace_count(self->fd));
}

TEST_F(tracepoint_count, many_events_count_the_same)
{
	int fds[64];
	size_t i;

	for (i = 0; i < 64; i++) {
		fds[i] = trace_open(&self->attr, 0, -1);
		ASSERT_LE(0, fds[i]);
	}
	trace_hit(variant->class, HITS);
	for (i = 0; i < 64; i++) {
		EXPECT_EQ(HITS, trace_count(fds[i]));
		close(fds[i]);
	}
	trace_hit(variant->class, HITS);
	EXPECT_EQ(2 * HITS, trace_count(self->fd));
}

TEST_F(tracepoint_count, disabled_event_counts_nothing)
{
	int other = trace_open(&self->attr, 0, -1);

	ASSERT_LE(0, other);
	ASSERT_EQ(0, ioctl(self->fd, PERF_EVENT_IOC_DISABLE, 0));
	trace_hit(variant->class, HITS);
	ASSERT_EQ(0, ioctl(self->fd, PERF_EVENT_IOC_ENABLE, 0));
	trace_hit(variant->class, HITS);
	EXPECT_EQ(HITS, trace_count(self->fd));
	EXPECT_EQ(2 * HITS, trace_count(other));
	close(other);
}

TEST_F(tracepoint_count, exclude_kernel_leaves_out_the_kernel_alone)
{
	struct perf_event_attr attr = self->attr;
	int user, kernel;

	attr.exclude_kernel = 1;
	user = trace_open(&attr, 0, -1);
	ASSERT_LE(0, user);
	/* Hits in the kernel on behalf of one program do not count for the other. */
	attr.exclude_kernel = 0;
	attr.exclude_user = 1;
	kernel = trace_open(&attr, 0, -1);
	ASSERT_LE(0, kernel);
	trace_hit(variant->class, HITS);
	EXPECT_EQ(is_in_user_mode(variant->class) ? HITS : 0, trace_count(user));
	EXPECT_EQ(HITS, trace_count(kernel));
	EXPECT_EQ(HITS, trace_count(self->fd));
	close(kernel);
	close(user);
}

TEST_F(tracepoint_count, sampling_event_comes_and_goes)
{
	struct trace_sampler sampler;
	int i;

	for (i = 1; i <= 4; i++) {
		trace_hit(variant->class, HITS);
		ASSERT_EQ(0, sampler_open(&sampler, self->attr, 0, -1));
		trace_hit(variant->class, HITS);
		EXPECT_EQ(HITS, sampler_read(&sampler));
		EXPECT_EQ(HITS, trace_count(sampler.fd));

		ASSERT_EQ(0, ioctl(sampler.fd, PERF_EVENT_IOC_DISABLE, 0));
		trace_hit(variant->class, HITS);
		EXPECT_EQ(0, sampler_read(&sampler));

		ASSERT_EQ(0, ioctl(sampler.fd, PERF_EVENT_IOC_ENABLE, 0));
		trace_hit(variant->class, HITS);
		EXPECT_EQ(HITS, sampler_read(&sampler));
		EXPECT_EQ(2 * HITS, trace_count(sampler.fd));
		sampler_close(&sampler);
		EXPECT_EQ(4 * i * HITS, trace_count(self->fd));
	}
}

/* While one of the events samples, each hit is sampled. */
TEST_F(tracepoint_count, last_of_many_samplers_has_its_samples)
{
	struct trace_sampler samplers[3];
	int i, j;

	for (i = 0; i < 3; i++)
		ASSERT_EQ(0, sampler_open(&samplers[i], self->attr, 0, -1));
	for (i = 0; i < 3; i++) {
		trace_hit(variant->class, HITS);
		for (j = i; j < 3; j++)
			EXPECT_EQ(HITS, sampler_read(&samplers[j]));
		sampler_close(&samplers[i]);
	}
	trace_hit(variant->class, HITS);
	EXPECT_EQ(4 * HITS, trace_count(self->fd));
}

TEST_F(tracepoint_count, period_of_a_sampler_is_kept)
{
	struct perf_event_attr attr = self->attr;
	struct trace_sampler sampler;

	attr.sample_period = 10;
	ASSERT_EQ(0, sampler_open(&sampler, attr, 0, -1));
	trace_hit(variant->class, 10 * HITS);
	EXPECT_EQ(10 * HITS, trace_count(sampler.fd));
	EXPECT_EQ(HITS, sampler_read(&sampler));
	EXPECT_EQ(10 * HITS, trace_count(self->fd));
	sampler_close(&sampler);
}

TEST_F(tracepoint_count, filter_comes_and_goes)
{
	char mine[64];
	int none, all;
	int i;

	snprintf(mine, sizeof(mine), "common_pid == %d", getpid());
	for (i = 1; i <= 4; i++) {
		none = trace_open(&self->attr, 0, -1);
		all = trace_open(&self->attr, 0, -1);
		ASSERT_LE(0, none);
		ASSERT_LE(0, all);
		trace_hit(variant->class, HITS);
		ASSERT_EQ(0, ioctl(none, PERF_EVENT_IOC_SET_FILTER, "common_pid == 0")) {
			TH_LOG("filter: %s", strerror(errno));
		}
		trace_hit(variant->class, HITS);
		ASSERT_EQ(0, ioctl(all, PERF_EVENT_IOC_SET_FILTER, mine));
		trace_hit(variant->class, HITS);
		EXPECT_EQ(HITS, trace_count(none));
		EXPECT_EQ(3 * HITS, trace_count(all));

		close(all);
		trace_hit(variant->class, HITS);
		EXPECT_EQ(HITS, trace_count(none));
		close(none);
		trace_hit(variant->class, HITS);
		EXPECT_EQ(5 * i * HITS, trace_count(self->fd));
	}
}

TEST_F(tracepoint_count, filter_that_is_refused_is_none)
{
	struct trace_sampler sampler;

	EXPECT_EQ(-1, ioctl(self->fd, PERF_EVENT_IOC_SET_FILTER, "no_such_field == 1"));
	EXPECT_EQ(EINVAL, errno);
	trace_hit(variant->class, HITS);
	ASSERT_EQ(0, ioctl(self->fd, PERF_EVENT_IOC_SET_FILTER, "common_pid == 0"));
	EXPECT_EQ(-1, ioctl(self->fd, PERF_EVENT_IOC_SET_FILTER, "common_pid != 0"));
	EXPECT_EQ(EEXIST, errno);
	trace_hit(variant->class, HITS);
	EXPECT_EQ(HITS, trace_count(self->fd));
	ASSERT_EQ(0, sampler_open(&sampler, self->attr, 0, -1));
	trace_hit(variant->class, HITS);
	EXPECT_EQ(HITS, sampler_read(&sampler));
	EXPECT_EQ(HITS, trace_count(self->fd));
	sampler_close(&sampler);
}

/* A child's event has the filter of the opened event. */
TEST_F(tracepoint_count, inherited_events_have_the_filter)
{
	struct perf_event_attr attr = self->attr;
	int plain, filtered;
	pid_t child;

	attr.inherit = 1;
	plain = trace_open(&attr, 0, -1);
	filtered = trace_open(&attr, 0, -1);
	ASSERT_LE(0, plain);
	ASSERT_LE(0, filtered);
	ASSERT_EQ(0, ioctl(filtered, PERF_EVENT_IOC_SET_FILTER, "common_pid == 0"));
	child = fork();
	if (!child) {
		/* Hit only here, not in the parent, whose events count this task as well. */
		trace_hit(variant->class, HITS);
		_exit(0);
	}
	wait_for_success(_metadata, child);
	trace_hit(variant->class, HITS);
	EXPECT_EQ(2 * HITS, trace_count(plain));
	EXPECT_EQ(0, trace_count(filtered));
	EXPECT_EQ(HITS, trace_count(self->fd));
	close(filtered);
	close(plain);
}

/* Set a filter while a child runs that has inherited the event. */
TEST_F(tracepoint_count, filter_reaches_a_running_child)
{
	struct perf_event_attr attr = self->attr;
	int go[2], done[2], fd, i;
	__u64 counted = HITS;
	char byte;
	pid_t child;

	/* A probe of write(2) also counts the two words over the pipes. */
	if (variant->class == TRACE_KPROBE || variant->class == TRACE_KRETPROBE)
		counted += 2;
	attr.inherit = 1;
	fd = trace_open(&attr, 0, -1);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, pipe(go));
	ASSERT_EQ(0, pipe(done));
	child = fork();
	if (!child) {
		for (i = 0; i < 2; i++) {
			if (read(go[0], &byte, 1) != 1)
				_exit(1);
			trace_hit(variant->class, HITS);
			if (write(done[1], "", 1) != 1)
				_exit(1);
		}
		_exit(0);
	}
	for (i = 0; i < 2; i++) {
		if (i) {
			/*
			 * The parent may read the child's word before the write(2) of
			 * the child has returned.
			 */
			while (trace_count(fd) < counted)
				sched_yield();
			ASSERT_EQ(0, ioctl(fd, PERF_EVENT_IOC_SET_FILTER, "common_pid == 0"));
		}
		ASSERT_EQ(1, write(go[1], "", 1));
		ASSERT_EQ(1, read(done[0], &byte, 1));
	}
	wait_for_success(_metadata, child);
	EXPECT_EQ(counted, trace_count(fd));
	close(fd);
}

static void be_counted_with_a_program(struct __test_metadata *const _metadata,
				      const struct perf_event_attr *common,
				      enum trace_class class, int verdict, int fd)
{
	struct perf_event_attr attr = *common;
	int program, carrier;
	__u64 counted;

	program = trace_load_program(class, verdict);
	if (program < 0)
		SKIP(return, "BPF: %s", strerror(errno));
	/*
	 * Each opened event has a probe of its own, with its own programs; all events
	 * share a tracepoint.
	 */
	carrier = is_probe(class) ? fd : trace_open(&attr, 0, -1);
	ASSERT_LE(0, carrier);
	counted = trace_count(fd);
	ASSERT_EQ(0, ioctl(carrier, PERF_EVENT_IOC_SET_BPF, program)) {
		TH_LOG("SET_BPF: %s", strerror(errno));
	}
	trace_hit(class, HITS);
	counted += verdict * HITS;
	EXPECT_EQ(counted, trace_count(fd));
	if (carrier != fd) {
		close(carrier);
		trace_hit(class, HITS);
		EXPECT_EQ(counted + HITS, trace_count(fd));
	}
	close(program);
}

TEST_F(tracepoint_count, program_decides_as_long_as_it_is_attached)
{
	int i;

	trace_hit(variant->class, HITS);
	EXPECT_EQ(HITS, trace_count(self->fd));
	for (i = 0; i < 3; i++) {
		be_counted_with_a_program(_metadata, &self->attr, variant->class, 0, self->fd);
		if (is_probe(variant->class))
			return;
		be_counted_with_a_program(_metadata, &self->attr, variant->class, 1, self->fd);
	}
}

TEST_F(tracepoint_count, program_that_agrees_changes_nothing)
{
	be_counted_with_a_program(_metadata, &self->attr, variant->class, 1, self->fd);
}

TEST_F(tracepoint_count, inherited_events_count_beside_a_sampling_one)
{
	struct perf_event_attr attr = self->attr;
	struct trace_sampler sampler;
	pid_t child;
	int fd, i;

	attr.inherit = 1;
	fd = trace_open(&attr, 0, -1);
	ASSERT_LE(0, fd);
	for (i = 1; i <= 8; i++) {
		child = fork();
		if (!child) {
			trace_hit(variant->class, HITS);
			if (sampler_open(&sampler, self->attr, 0, -1))
				_exit(1);
			trace_hit(variant->class, HITS);
			_exit(sampler_read(&sampler) != HITS);
		}
		wait_for_success(_metadata, child);
		EXPECT_EQ(2 * i * HITS, trace_count(fd));
	}
	EXPECT_EQ(0, trace_count(self->fd));
	close(fd);
}

TEST_HARNESS_MAIN
