// SPDX-License-Identifier: GPL-2.0
/*
 * perf ring buffer selftests - when a reader is woken, and what is lost
 */
#define _GNU_SOURCE

#include <limits.h>
#include <pthread.h>

#include "../kselftest_harness.h"
#include "ring_helpers.h"

#define NR_PAGES	4

FIXTURE(ring_poll)
{
	struct perf_event_attr attr;
	struct ring ring;
	int fd;
};

FIXTURE_SETUP(ring_poll)
{
	self->attr = fault_attr();
	self->fd = -1;
}

FIXTURE_TEARDOWN(ring_poll)
{
	close(self->fd);
}

static int open_ring(struct perf_event_attr *attr, struct ring *ring)
{
	int fd = event_open(attr);

	if (fd >= 0 && ring_map(ring, fd, NR_PAGES)) {
		close(fd);
		return -1;
	}
	return fd;
}

/*
 * Take faults until poll() reports POLLIN, and return their number, or 0 if the buffer
 * is filled twice without it.
 */
static unsigned int faults_to_wakeup(int fd, const struct ring *ring)
{
	unsigned int nr, max = 2 * ring->size / SAMPLE_SIZE;

	for (nr = 1; nr <= max; nr++) {
		record_faults(fd, 1);
		if (poll_now(fd) & POLLIN)
			return nr;
	}
	return 0;
}

/* Number of the first sample that ends more than @watermark bytes into the buffer. */
static unsigned int sample_beyond(size_t watermark)
{
	return watermark / SAMPLE_SIZE + 1;
}

TEST_F(ring_poll, event_without_buffer_hangs_up)
{
	self->fd = event_open(&self->attr);
	ASSERT_LE(0, self->fd);
	EXPECT_EQ(POLLHUP, poll_now(self->fd));
}

TEST_F(ring_poll, default_watermark_is_half_of_the_buffer)
{
	self->fd = open_ring(&self->attr, &self->ring);
	ASSERT_LE(0, self->fd);
	EXPECT_EQ(0, poll_now(self->fd));
	EXPECT_EQ(sample_beyond(NR_PAGES * page_size() / 2),
		  faults_to_wakeup(self->fd, &self->ring));
}

/* The other half has room for records that come before the reader has read. */
TEST_F(ring_poll, one_page_wakes_at_its_half)
{
	struct ring_sum sum = {};
	unsigned int want, lap;

	want = sample_beyond(page_size() / 2);
	self->fd = event_open(&self->attr);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, ring_map(&self->ring, self->fd, 1));
	EXPECT_EQ(0, poll_now(self->fd));
	EXPECT_EQ(want, faults_to_wakeup(self->fd, &self->ring));
	ring_drain(&self->ring, &sum);
	/* Repeat this with records around the end of the page. */
	for (lap = 2; lap < 6; lap++) {
		want = sample_beyond(lap * page_size() / 2) -
		       sample_beyond((lap - 1) * page_size() / 2);
		EXPECT_EQ(want, faults_to_wakeup(self->fd, &self->ring));
		ring_drain(&self->ring, &sum);
	}
	EXPECT_EQ(sample_beyond(5 * page_size() / 2), sum.samples);
	EXPECT_EQ(0, sum.lost_records);
	EXPECT_FALSE(sum.bad);
}

TEST_F(ring_poll, watermark_is_exact)
{
	size_t watermark = page_size();
	unsigned int lap;

	self->attr.watermark = 1;
	self->attr.wakeup_watermark = watermark;
	self->fd = open_ring(&self->attr, &self->ring);
	ASSERT_LE(0, self->fd);
	EXPECT_EQ(sample_beyond(watermark), faults_to_wakeup(self->fd, &self->ring));
	/* The next watermarks are at multiples, not at a distance from the wakeup. */
	for (lap = 2; lap < NR_PAGES; lap++) {
		unsigned int want = sample_beyond(lap * watermark) -
				    sample_beyond((lap - 1) * watermark);

		EXPECT_EQ(want, faults_to_wakeup(self->fd, &self->ring));
	}
}

TEST_F(ring_poll, wakeup_events_counts_samples)
{
	unsigned int i;

	self->attr.wakeup_events = 3;
	self->fd = open_ring(&self->attr, &self->ring);
	ASSERT_LE(0, self->fd);
	for (i = 0; i < 10; i++)
		EXPECT_EQ(3, faults_to_wakeup(self->fd, &self->ring));
}

/* Write PERF_RECORD_COMM with a name of one letter, which is as long as a sample. */
static void record_names(int fd, unsigned int nr)
{
	event_enable(fd);
	while (nr--)
		prctl(PR_SET_NAME, "x");
	event_disable(fd);
}

TEST_F(ring_poll, wakeup_events_does_not_count_other_records)
{
	unsigned int i, records = 0;

	/* Fault in the page of this code. */
	ASSERT_EQ(0, prctl(PR_SET_NAME, "x"));
	self->attr.wakeup_events = 3;
	self->attr.comm = 1;
	self->fd = open_ring(&self->attr, &self->ring);
	ASSERT_LE(0, self->fd);
	/* Half of the buffer would wake the reader, too. */
	for (i = 1; i < 10; i++) {
		record_names(self->fd, 4);
		EXPECT_EQ(0, poll_now(self->fd));
		record_faults(self->fd, 1);
		EXPECT_EQ(i % 3 ? 0 : POLLIN, poll_now(self->fd));
		records += 5;
	}
	EXPECT_EQ(records * SAMPLE_SIZE, ring_head(&self->ring));
}

/* A poll() consumes the wakeup. Unread data alone is not reported. */
TEST_F(ring_poll, wakeup_is_told_once)
{
	self->attr.wakeup_events = 1;
	self->fd = open_ring(&self->attr, &self->ring);
	ASSERT_LE(0, self->fd);
	record_faults(self->fd, 5);
	EXPECT_EQ(POLLIN, poll_now(self->fd));
	EXPECT_EQ(0, poll_now(self->fd));
	EXPECT_EQ(5 * SAMPLE_SIZE, ring_head(&self->ring));
}

FIXTURE(ring_full)
{
	struct perf_event_attr attr;
	struct ring ring;
	int fd;
};

FIXTURE_VARIANT(ring_full)
{
	/* Number that is added to the size of the buffer. */
	int more;
};

/* This is not a multiple of the samples' size, so the buffer is never that full. */
FIXTURE_VARIANT_ADD(ring_full, just_below_the_size) {
	.more = -1,
};

FIXTURE_VARIANT_ADD(ring_full, the_size) {
	.more = 0,
};

FIXTURE_VARIANT_ADD(ring_full, far_beyond_the_size) {
	.more = 100000,
};

FIXTURE_SETUP(ring_full)
{
	self->attr = fault_attr();
	self->attr.watermark = 1;
	self->attr.wakeup_watermark = NR_PAGES * page_size() + variant->more;
	self->fd = open_ring(&self->attr, &self->ring);
	ASSERT_LE(0, self->fd);
}

FIXTURE_TEARDOWN(ring_full)
{
	close(self->fd);
}

TEST_F(ring_full, watermark_out_of_reach_wakes)
{
	EXPECT_NE(0, faults_to_wakeup(self->fd, &self->ring));
}

TEST_F(ring_full, reader_keeps_up_for_ever)
{
	struct ring_sum sum = {};
	unsigned int lap, nr, faults = 0;

	for (lap = 0; lap < 5; lap++) {
		nr = faults_to_wakeup(self->fd, &self->ring);
		ASSERT_NE(0, nr);
		faults += nr;
		ring_drain(&self->ring, &sum);
	}
	/* The next record reports the last loss. */
	record_faults(self->fd, 1);
	ring_drain(&self->ring, &sum);
	EXPECT_EQ(faults + 1, sum.samples + sum.lost);
	EXPECT_FALSE(sum.bad);
}

static void *wait_for_input(void *arg)
{
	struct pollfd pollfd = { .fd = *(int *)arg, .events = POLLIN };

	/* Long enough for any machine, short enough for the harness. */
	return (void *)(long)(poll(&pollfd, 1, 20000) == 1);
}

TEST_F(ring_full, sleeping_reader_is_woken)
{
	pthread_t thread;
	void *woken;

	ASSERT_EQ(0, pthread_create(&thread, NULL, wait_for_input, &self->fd));
	record_faults(self->fd, 2 * self->ring.size / SAMPLE_SIZE);
	ASSERT_EQ(0, pthread_join(thread, &woken));
	EXPECT_NE(NULL, woken);
}

TEST_F(ring_poll, loss_wakes_once_until_it_is_told)
{
	struct ring_sum sum = {};
	unsigned int fit;

	self->attr.watermark = 1;
	self->attr.wakeup_watermark = NR_PAGES * page_size() - 1;
	self->fd = open_ring(&self->attr, &self->ring);
	ASSERT_LE(0, self->fd);
	fit = (self->ring.size - 1) / SAMPLE_SIZE;

	record_faults(self->fd, fit);
	EXPECT_EQ(0, poll_now(self->fd));
	record_faults(self->fd, 1);
	EXPECT_EQ(POLLIN, poll_now(self->fd));
	record_faults(self->fd, 100);
	EXPECT_EQ(0, poll_now(self->fd));

	ring_drain(&self->ring, &sum);
	EXPECT_EQ(fit, sum.samples);
	EXPECT_EQ(0, sum.lost_records);
	/* First comes the record that reports the loss, and then the next loss. */
	record_faults(self->fd, 1);
	ring_drain(&self->ring, &sum);
	EXPECT_EQ(1, sum.lost_records);
	EXPECT_EQ(101, sum.lost);
	EXPECT_NE(0, faults_to_wakeup(self->fd, &self->ring));
}

/* A watermark below the size of the buffer is used as given. */
TEST_F(ring_poll, overwritten_buffer_takes_any_watermark)
{
	self->attr.watermark = 1;
	self->attr.wakeup_watermark = NR_PAGES * page_size();
	self->fd = event_open(&self->attr);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, ring_map_prot(&self->ring, self->fd, NR_PAGES, PROT_READ));
	EXPECT_EQ(sample_beyond(self->ring.size), faults_to_wakeup(self->fd, &self->ring));
}

TEST_F(ring_poll, lost_counts_add_up)
{
	struct ring_sum sum = {};
	struct {
		__u64	count;
		__u64	lost;
	} value;
	unsigned int lap;

	self->attr.read_format = PERF_FORMAT_LOST;
	self->fd = open_ring(&self->attr, &self->ring);
	ASSERT_LE(0, self->fd);
	for (lap = 0; lap < 3; lap++) {
		record_faults(self->fd, self->ring.size / SAMPLE_SIZE + 50);
		ring_drain(&self->ring, &sum);
		record_faults(self->fd, 1);
		ring_drain(&self->ring, &sum);
		ASSERT_EQ(sizeof(value), read(self->fd, &value, sizeof(value)));
		EXPECT_EQ(value.lost, sum.lost);
		EXPECT_EQ(value.count, sum.samples + sum.lost);
	}
	EXPECT_EQ(3, sum.lost_records);
	/* Losses that no record has reported yet are in the count already. */
	record_faults(self->fd, self->ring.size / SAMPLE_SIZE + 50);
	ASSERT_EQ(sizeof(value), read(self->fd, &value, sizeof(value)));
	ring_drain(&self->ring, &sum);
	EXPECT_LT(sum.lost, value.lost);
	EXPECT_EQ(value.count, sum.samples + value.lost);
	EXPECT_FALSE(sum.bad);
}

/* Losses of children belong to the event with the buffer, and are reported once. */
TEST_F(ring_poll, losses_of_a_group_outlive_an_inherited_one)
{
	struct {
		__u64	nr;
		__u64	count;
		__u64	lost;
	} before, after;
	cpu_set_t set;
	int end[2];
	pid_t pid;
	char c;

	/* An inherited event can have a buffer for one CPU only. */
	CPU_ZERO(&set);
	CPU_SET(0, &set);
	ASSERT_EQ(0, sched_setaffinity(0, sizeof(set), &set));
	self->attr.inherit = 1;
	self->attr.read_format = PERF_FORMAT_GROUP | PERF_FORMAT_LOST;
	self->fd = event_open_on(&self->attr, 0, 0);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, ring_map(&self->ring, self->fd, NR_PAGES));
	record_faults(self->fd, self->ring.size / SAMPLE_SIZE + 50);
	ASSERT_EQ(sizeof(before), read(self->fd, &before, sizeof(before)));
	EXPECT_LT(0, before.lost);
	ASSERT_EQ(0, pipe(end));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		close(end[1]);
		_exit(read(end[0], &c, 1));
	}
	ASSERT_EQ(sizeof(after), read(self->fd, &after, sizeof(after)));
	EXPECT_LE(before.lost, after.lost);
	close(end[1]);
	ASSERT_EQ(pid, waitpid(pid, NULL, 0));
	ASSERT_EQ(sizeof(after), read(self->fd, &after, sizeof(after)));
	EXPECT_LE(before.lost, after.lost);
}

TEST_F(ring_poll, paused_buffer_loses_and_tells)
{
	struct ring_sum sum = {};

	self->fd = open_ring(&self->attr, &self->ring);
	ASSERT_LE(0, self->fd);
	record_faults(self->fd, 3);
	ASSERT_EQ(0, event_ioctl(self->fd, PERF_EVENT_IOC_PAUSE_OUTPUT, 1));
	record_faults(self->fd, 10);
	EXPECT_EQ(3 * SAMPLE_SIZE, ring_head(&self->ring));
	ASSERT_EQ(0, event_ioctl(self->fd, PERF_EVENT_IOC_PAUSE_OUTPUT, 0));
	record_faults(self->fd, 4);
	ring_drain(&self->ring, &sum);
	EXPECT_EQ(7, sum.samples);
	EXPECT_EQ(1, sum.lost_records);
	EXPECT_EQ(10, sum.lost);
}

TEST_F(ring_poll, loss_before_any_record_wakes)
{
	self->fd = open_ring(&self->attr, &self->ring);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, event_ioctl(self->fd, PERF_EVENT_IOC_PAUSE_OUTPUT, 1));
	record_faults(self->fd, 1);
	EXPECT_EQ(POLLIN, poll_now(self->fd) & POLLIN);
}

TEST_F(ring_poll, dead_task_hangs_up_and_leaves_its_records)
{
	struct ring_sum sum = {};
	int go[2];
	pid_t pid;
	char c;

	fault_page();
	ASSERT_EQ(0, pipe(go));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		read(go[0], &c, 1);
		make_faults(10);
		_exit(0);
	}
	self->fd = event_open_on(&self->attr, pid, -1);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, ring_map(&self->ring, self->fd, NR_PAGES));
	ASSERT_EQ(0, event_enable(self->fd));
	EXPECT_EQ(0, poll_now(self->fd));
	ASSERT_EQ(1, write(go[1], "x", 1));
	ASSERT_EQ(pid, waitpid(pid, NULL, 0));
	EXPECT_EQ(POLLHUP, poll_now(self->fd));
	ring_drain(&self->ring, &sum);
	/* The child takes more faults than the requested ones. */
	EXPECT_LE(10, sum.samples);
	EXPECT_EQ(POLLHUP, poll_now(self->fd));
}

struct poller {
	int		fd;
	pthread_t	thread;
};

static void *poll_until_input(void *arg)
{
	struct poller *poller = arg;

	return wait_for_input(&poller->fd);
}

/* A buffer has one state, which the first poll() consumes. */
TEST_F(ring_poll, redirected_events_share_the_wakeup)
{
	int guest;

	self->attr.wakeup_events = 1;
	self->fd = open_ring(&self->attr, &self->ring);
	ASSERT_LE(0, self->fd);
	guest = event_open(&self->attr);
	ASSERT_LE(0, guest);
	ASSERT_EQ(0, event_ioctl(guest, PERF_EVENT_IOC_SET_OUTPUT, self->fd));

	record_faults(guest, 1);
	EXPECT_EQ(POLLIN, poll_now(self->fd));
	EXPECT_EQ(0, poll_now(guest));
	record_faults(self->fd, 1);
	EXPECT_EQ(POLLIN, poll_now(guest));
	EXPECT_EQ(0, poll_now(self->fd));
	close(guest);
}

TEST_F(ring_poll, reader_of_either_redirected_event_is_woken)
{
	struct poller poller;
	int fds[2], i;
	void *woken;

	self->attr.wakeup_events = 1;
	self->fd = open_ring(&self->attr, &self->ring);
	ASSERT_LE(0, self->fd);
	fds[0] = self->fd;
	fds[1] = event_open(&self->attr);
	ASSERT_LE(0, fds[1]);
	ASSERT_EQ(0, event_ioctl(fds[1], PERF_EVENT_IOC_SET_OUTPUT, fds[0]));

	for (i = 0; i < 4; i++) {
		poller.fd = fds[i & 1];
		ASSERT_EQ(0, pthread_create(&poller.thread, NULL, poll_until_input, &poller));
		record_faults(fds[i / 2], 1);
		ASSERT_EQ(0, pthread_join(poller.thread, &woken));
		EXPECT_NE(NULL, woken);
	}
	close(fds[1]);
}

static volatile sig_atomic_t nr_in, nr_hup, nr_other;

static void on_signal(int sig, siginfo_t *info, void *context)
{
	/* After a hangup there is nothing to read. */
	if (info->si_code == POLL_IN && !nr_hup)
		nr_in++;
	else if (info->si_code == POLL_HUP)
		nr_hup++;
	else
		nr_other++;
}

static int signal_from(int fd)
{
	struct sigaction action = {
		.sa_sigaction	= on_signal,
		.sa_flags	= SA_SIGINFO,
	};

	if (sigaction(SIGRTMIN, &action, NULL) || fcntl(fd, F_SETSIG, SIGRTMIN) ||
	    fcntl(fd, F_SETOWN, getpid()) ||
	    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_ASYNC))
		return -1;
	/* Fault in the stack of the handler now. */
	raise(SIGRTMIN);
	nr_in = 0;
	nr_hup = 0;
	nr_other = 0;
	return 0;
}

/*
 * The work of an overflow is done in irq_work, which on some machines runs in the next
 * timer interrupt.
 */
static void make_faults_apart(unsigned int times)
{
	while (times--) {
		make_faults(1);
		usleep(10000);
	}
}

/* This holds for any watermark. */
TEST_F(ring_poll, signal_comes_with_each_overflow)
{
	self->attr.wakeup_events = 2;
	self->fd = open_ring(&self->attr, &self->ring);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, signal_from(self->fd));
	/* This faults in the pages of the code. */
	make_faults_apart(2);
	ASSERT_EQ(0, event_ioctl(self->fd, PERF_EVENT_IOC_ENABLE, 0));
	make_faults_apart(10);
	ASSERT_EQ(0, event_ioctl(self->fd, PERF_EVENT_IOC_DISABLE, 0));
	EXPECT_EQ(10, nr_in);
	EXPECT_EQ(0, nr_hup + nr_other);
}

TEST_F(ring_poll, refresh_ends_with_a_hangup)
{
	__u64 count;

	self->fd = open_ring(&self->attr, &self->ring);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, signal_from(self->fd));
	/* Two samples at once could give one signal, so fault in the code's pages first. */
	make_faults_apart(2);
	ASSERT_EQ(0, event_ioctl(self->fd, PERF_EVENT_IOC_REFRESH, 3));
	make_faults_apart(10);
	/* The last of the three samples gives the hangup in place of its own signal. */
	EXPECT_EQ(1, nr_hup);
	EXPECT_EQ(2, nr_in);
	EXPECT_EQ(0, nr_other);
	ASSERT_EQ(sizeof(count), read(self->fd, &count, sizeof(count)));
	EXPECT_EQ(3, count);
	EXPECT_EQ(3 * SAMPLE_SIZE, ring_head(&self->ring));
}

/* A reader may write any value to the user page. */
TEST_F(ring_poll, hostile_tail_does_no_harm)
{
	static const long tails[] = {
		1, 7, SAMPLE_SIZE - 1, 1L << 20, 1L << 40, -1, -8, -4096,
		LONG_MAX, LONG_MIN, LONG_MIN + 1,
	};
	unsigned int i, total = 0;
	__u64 head, last = 0, count;

	self->fd = open_ring(&self->attr, &self->ring);
	ASSERT_LE(0, self->fd);
	srand(1);
	for (i = 0; i < 2000; i++) {
		if (i < 200)
			ring_set_tail(&self->ring, tails[i % (sizeof(tails) / sizeof(*tails))]);
		else
			ring_set_tail(&self->ring, last + (rand() - RAND_MAX / 2));
		record_faults(self->fd, 5);
		total += 5;
		head = ring_head(&self->ring);
		ASSERT_LE(last, head);
		ASSERT_GE(5 * (SAMPLE_SIZE + sizeof(struct ring_lost)), head - last);
		last = head;
	}
	ASSERT_EQ(sizeof(count), read(self->fd, &count, sizeof(count)));
	EXPECT_EQ(total, count);
}

/* A reader may overwrite the rest of the user page as well. */
TEST_F(ring_poll, hostile_user_page_does_no_harm)
{
	struct ring_sum sum = {};

	self->fd = open_ring(&self->attr, &self->ring);
	ASSERT_LE(0, self->fd);
	memset(self->ring.page, 0xff, page_size());
	self->ring.page->data_tail = 0;
	record_faults(self->fd, 5);
	EXPECT_EQ(5 * SAMPLE_SIZE, ring_head(&self->ring));
	ring_drain(&self->ring, &sum);
	EXPECT_EQ(5, sum.samples);
	EXPECT_EQ(0, ring_unmap(&self->ring));
}

TEST_HARNESS_MAIN
