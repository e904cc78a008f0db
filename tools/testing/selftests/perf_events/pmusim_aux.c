// SPDX-License-Identifier: GPL-2.0
/* pmusim selftests - data that comes through an AUX area */
#define _GNU_SOURCE

#include "../kselftest_harness.h"
#include "pmusim_helpers.h"

#define AUX_PAGES	16
#define RW		(PROT_READ | PROT_WRITE)

struct aux_record {
	__u64	offset;
	__u64	size;
	__u64	flags;
};

/* Get the next PERF_RECORD_AUX; false if there is none. */
static bool next_aux(struct sim_ring *ring, struct aux_record *aux)
{
	static struct sim_record record;

	while (ring_next(ring, &record)) {
		if (record.header.type != PERF_RECORD_AUX)
			continue;
		memcpy(aux, record.word, sizeof(*aux));
		return true;
	}
	return false;
}

FIXTURE(aux)
{
	struct perf_event_attr attr;
	size_t size;
	int fd;
	struct sim_ring ring;
};

FIXTURE_VARIANT(aux)
{
	const char *pmu;
	__u64 stream;
};

FIXTURE_VARIANT_ADD(aux, sg) { .pmu = "pmusim_aux", .stream = 100 << 20 };

FIXTURE_VARIANT_ADD(aux, no_sg) { .pmu = "pmusim_aux_nosg", .stream = 10 << 20 };

FIXTURE_VARIANT_ADD(aux, prefer_large) { .pmu = "pmusim_aux_large", .stream = 10 << 20 };

FIXTURE_VARIANT_ADD(aux, exclusive) { .pmu = "pmusim_aux_excl", .stream = 10 << 20 };

FIXTURE_SETUP(aux)
{
	if (sim_skips(_metadata))
		return;
	self->size = AUX_PAGES * page_size();
	self->attr = sim_attr(variant->pmu, 0);
	self->attr.disabled = 1;
	self->fd = -1;
}

FIXTURE_TEARDOWN(aux)
{
	if (self->fd >= 0)
		close(self->fd);
	ring_unmap(&self->ring);
	sim_defaults();
}

static int open_aux(struct perf_event_attr *attr, struct sim_ring *ring, size_t size,
		    int prot)
{
	int fd = sim_open(attr, -1, 0, -1);
	int ret;

	if (fd < 0)
		return fd;
	ret = ring_map(ring, fd, 16);
	if (!ret)
		ret = ring_map_aux(ring, size, prot);
	if (ret)
		close(fd);
	return ret ? ret : fd;
}

TEST_F_TIMEOUT(aux, a_stream_arrives_byte_for_byte, 110)
{
	struct aux_record aux;
	struct pollfd poll_fd;
	__u64 sum = 0, head;

	self->size = 1 << 20;
	self->attr.config = SIM_AUX_TIMER;
	self->attr.config1 = 2000 | SIM_CHUNK(128 << 10);
	self->fd = open_aux(&self->attr, &self->ring, self->size, RW);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, sim_enable(self->fd));
	poll_fd = (struct pollfd) { self->fd, POLLIN, 0 };

	while (self->ring.aux_tail < variant->stream) {
		ASSERT_EQ(1, poll(&poll_fd, 1, 10000));
		ASSERT_TRUE(aux_drain(&self->ring));
		while (next_aux(&self->ring, &aux)) {
			ASSERT_EQ(sum, aux.offset);
			sum += aux.size;
			if (!(aux.flags & PERF_AUX_FLAG_TRUNCATED))
				continue;
			/* The reader was too slow, which is not an error. */
			ASSERT_TRUE(aux_drain(&self->ring));
			ASSERT_EQ(0, sim_disable(self->fd));
			ASSERT_EQ(0, sim_enable(self->fd));
		}
	}

	ASSERT_EQ(0, sim_disable(self->fd));
	ASSERT_TRUE(aux_drain(&self->ring));
	head = aux_head(&self->ring);
	while (next_aux(&self->ring, &aux))
		sum += aux.size;
	EXPECT_EQ(head, sum);
	EXPECT_LE(variant->stream, head);
}

/* A transaction in the AUX area can be ended by its PMU alone. */
TEST_F(aux, a_trace_goes_on_while_its_group_is_throttled)
{
	struct sim_value value;
	unsigned int stops = 0;
	struct sim_log line;
	__u64 id, sum = 0;
	int i, clock;
	FILE *log;

	ASSERT_EQ(0, run_on(0));
	self->fd = open_aux(&self->attr, &self->ring, self->size, RW);
	ASSERT_LE(0, self->fd);
	id = sim_id(self->fd);
	clock = sim_clock(self->fd, 0);
	ASSERT_LE(0, clock);
	ASSERT_LT(0, max_sample_rate(1000));
	ASSERT_EQ(0, sim_enable(self->fd));
	ASSERT_EQ(0, log_on());
	for (i = 0; i < 20; i++) {
		usleep(5000);
		ASSERT_EQ(0, sim_tick_pmu(variant->pmu, 0, 0, SIM_WORD));
		sum += SIM_WORD;
	}
	log = log_open();
	ASSERT_NE(NULL, log);
	while (log_next(log, &line))
		stops += line.id == id && !strcmp(line.op, "stop");
	fclose(log);
	EXPECT_EQ(0, stops);
	/* The clock stood still while it was throttled. */
	value = sim_read(clock);
	EXPECT_GT(value.running / 2, value.value);
	ASSERT_EQ(0, sim_disable(self->fd));
	ASSERT_TRUE(aux_drain(&self->ring));
	EXPECT_EQ(sum, aux_head(&self->ring));
	close(clock);
}

TEST_F(aux, a_tick_is_written_exactly)
{
	__u64 sum = 0;
	unsigned int i;

	self->fd = open_aux(&self->attr, &self->ring, self->size, RW);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, sim_enable(self->fd));
	for (i = 1; i < 500; i++) {
		ASSERT_EQ(0, sim_tick_pmu(variant->pmu, 0, 0, i * SIM_WORD));
		sum += i * SIM_WORD;
		ASSERT_TRUE(aux_drain(&self->ring));
	}
	ASSERT_EQ(0, sim_disable(self->fd));
	ASSERT_TRUE(aux_drain(&self->ring));
	EXPECT_EQ(sum, aux_head(&self->ring));
}

/* The room was granted once at the beginning, and has become larger since. */
TEST_F(aux, room_that_the_reader_makes_in_time_is_used)
{
	size_t half = self->size / 2;
	unsigned int i;

	self->attr.aux_watermark = self->size;
	self->fd = open_aux(&self->attr, &self->ring, self->size, RW);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, sim_enable(self->fd));
	for (i = 0; i < 10; i++) {
		ASSERT_EQ(0, sim_tick_pmu(variant->pmu, 0, 0, half));
		/* No wakeup is due, so the PMU requests room at the end of the granted room. */
		self->ring.page->aux_tail = (i + 1) * half;
	}
	ASSERT_EQ(0, sim_disable(self->fd));
	EXPECT_EQ(10 * half, aux_head(&self->ring));
}

TEST_F(aux, without_room_the_record_is_truncated_and_it_stops)
{
	struct aux_record aux;
	__u64 sum = 0, flags = 0;

	self->fd = open_aux(&self->attr, &self->ring, self->size, RW);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, sim_enable(self->fd));
	ASSERT_EQ(0, sim_tick_pmu(variant->pmu, 0, 0, 2 * self->size));
	while (next_aux(&self->ring, &aux)) {
		EXPECT_EQ(0, flags);
		EXPECT_EQ(sum, aux.offset);
		sum += aux.size;
		flags = aux.flags;
	}
	EXPECT_EQ(PERF_AUX_FLAG_TRUNCATED, flags & PERF_AUX_FLAG_TRUNCATED);
	/* One byte stays free, so one word does. */
	EXPECT_EQ(self->size - SIM_WORD, sum);
	EXPECT_EQ(sum, aux_head(&self->ring));
	ASSERT_TRUE(aux_drain(&self->ring));

	/* No record follows. */
	ASSERT_EQ(0, sim_tick_pmu(variant->pmu, 0, 0, 4096));
	EXPECT_EQ(sum, aux_head(&self->ring));
	ASSERT_EQ(0, sim_disable(self->fd));
	EXPECT_EQ(sum, aux_head(&self->ring));
	ASSERT_EQ(0, sim_enable(self->fd));
	ASSERT_EQ(0, sim_tick_pmu(variant->pmu, 0, 0, 4096));
	ASSERT_EQ(0, sim_disable(self->fd));
	EXPECT_EQ(sum + 4096, aux_head(&self->ring));
	ASSERT_TRUE(aux_drain(&self->ring));
}

TEST_F(aux, overwritten_areas_hold_the_last_bytes_at_each_stop)
{
	__u64 sum = 0, head, from;
	unsigned int i;

	self->fd = open_aux(&self->attr, &self->ring, self->size, PROT_READ);
	ASSERT_LE(0, self->fd);
	for (i = 0; i < 64; i++) {
		ASSERT_EQ(0, sim_enable(self->fd));
		/* Use odd positions, some of them many rounds later. */
		ASSERT_EQ(0, sim_tick_pmu(variant->pmu, 0, 0, (i * i * 13 + 1) * SIM_WORD));
		EXPECT_EQ(sum, aux_head(&self->ring));
		ASSERT_EQ(0, sim_disable(self->fd));
		sum += (i * i * 13 + 1) * SIM_WORD;
		head = aux_head(&self->ring);
		ASSERT_EQ(sum, head);
		from = head > self->size ? head - self->size : 0;
		ASSERT_EQ(head, aux_verify(&self->ring, from, head));
	}
}

/* Check that records cover all published data, one after the other. */
static void take_records(struct __test_metadata *_metadata, struct sim_ring *ring,
			 __u64 *sum)
{
	struct aux_record aux;

	while (next_aux(ring, &aux)) {
		ASSERT_EQ(*sum, aux.offset);
		ASSERT_LT(0, aux.size);
		ASSERT_EQ(0, aux.flags);
		*sum += aux.size;
	}
	ASSERT_EQ(aux_head(ring), *sum);
}

/* Each watermark from a page to half of the area, 0 for the default of half. */
TEST_F(aux, the_reader_wakes_at_each_watermark)
{
	size_t mark, expected, step = 512;
	struct pollfd poll_fd;
	__u64 head, sum;

	for (mark = 0; mark < self->size; mark = mark ? mark * 2 : page_size()) {
		expected = mark ? mark : self->size / 2;
		self->attr.aux_watermark = mark;
		self->fd = open_aux(&self->attr, &self->ring, self->size, RW);
		ASSERT_LE(0, self->fd);
		poll_fd = (struct pollfd) { self->fd, POLLIN, 0 };
		ASSERT_EQ(0, sim_enable(self->fd));
		sum = 0;
		for (head = step; head <= 4 * self->size; head += step) {
			ASSERT_EQ(0, sim_tick_pmu(variant->pmu, 0, 0, step));
			ASSERT_EQ(!(head % expected), poll(&poll_fd, 1, 0));
			ASSERT_LE(head / expected * expected, aux_head(&self->ring));
			if (head % expected)
				continue;
			take_records(_metadata, &self->ring, &sum);
			ASSERT_TRUE(aux_drain(&self->ring));
		}
		close(self->fd);
		self->fd = -1;
		ring_unmap(&self->ring);
	}
}

TEST_F(aux, a_watermark_of_the_whole_area_is_never_reached)
{
	struct pollfd poll_fd;

	self->attr.aux_watermark = self->size;
	self->fd = open_aux(&self->attr, &self->ring, self->size, RW);
	ASSERT_LE(0, self->fd);
	poll_fd = (struct pollfd) { self->fd, POLLIN, 0 };
	ASSERT_EQ(0, sim_enable(self->fd));
	ASSERT_EQ(0, sim_tick_pmu(variant->pmu, 0, 0, self->size - SIM_WORD));
	EXPECT_EQ(0, aux_head(&self->ring));
	EXPECT_EQ(0, poll(&poll_fd, 1, 0));
	/* Then the full area wakes the reader. */
	ASSERT_EQ(0, sim_tick_pmu(variant->pmu, 0, 0, SIM_WORD));
	EXPECT_EQ(self->size - SIM_WORD, aux_head(&self->ring));
	EXPECT_EQ(1, poll(&poll_fd, 1, 1000));
}

TEST_F(aux, the_flags_of_the_pmu_arrive)
{
	__u64 flags = PERF_AUX_FLAG_PARTIAL | PERF_AUX_FLAG_COLLISION;
	struct aux_record aux;
	unsigned int i;

	/* Inject PARTIAL and COLLISION at every second end. */
	self->attr.config2 = SIM_INJECT(2 | 4) | SIM_NTH(2);
	self->attr.aux_watermark = page_size();
	self->fd = open_aux(&self->attr, &self->ring, self->size, RW);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, sim_enable(self->fd));
	for (i = 1; i <= 10; i++) {
		ASSERT_EQ(0, sim_tick_pmu(variant->pmu, 0, 0, page_size()));
		ASSERT_TRUE(next_aux(&self->ring, &aux));
		EXPECT_EQ(i % 2 ? 0 : flags, aux.flags);
		EXPECT_EQ(page_size(), aux.size);
		ASSERT_TRUE(aux_drain(&self->ring));
	}
}

TEST_F(aux, an_injected_truncation_stops_it)
{
	struct aux_record aux;

	self->attr.config2 = SIM_INJECT(1) | SIM_NTH(3);
	self->attr.aux_watermark = page_size();
	self->fd = open_aux(&self->attr, &self->ring, self->size, RW);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, sim_enable(self->fd));
	for (unsigned int i = 0; i < 5; i++)
		ASSERT_EQ(0, sim_tick_pmu(variant->pmu, 0, 0, page_size()));
	EXPECT_EQ(3 * page_size(), aux_head(&self->ring));
	ASSERT_TRUE(next_aux(&self->ring, &aux));
	ASSERT_TRUE(next_aux(&self->ring, &aux));
	EXPECT_EQ(0, aux.flags);
	ASSERT_TRUE(next_aux(&self->ring, &aux));
	EXPECT_EQ(PERF_AUX_FLAG_TRUNCATED, aux.flags);
	EXPECT_FALSE(next_aux(&self->ring, &aux));
}

/* Only the log shows them: one after every @nth of eight transactions with a page of data. */
static void expect_empty_ones(struct __test_metadata *_metadata, __u64 id, unsigned int nth)
{
	unsigned int i, full = 0, want;
	struct sim_log line;
	bool empty = false;
	FILE *log;

	log = log_open();
	ASSERT_NE(NULL, log);
	for (i = 0; log_next(log, &line);) {
		if (strcmp(line.op, "output") || line.id != id)
			continue;
		i++;
		/* The last transaction has ended because the event was disabled. */
		want = empty || full == 8 ? 0 : page_size();
		ASSERT_EQ(want, line.result);
		ASSERT_EQ(0, line.flags);
		full += !!want;
		empty = want && !(full % nth);
	}
	EXPECT_EQ(8 + 8 / nth + 1, i);
	fclose(log);
}

TEST_F(aux, an_empty_transaction_leaves_no_record)
{
	struct aux_record aux;
	unsigned int i, nth;
	__u64 sum;

	self->attr.aux_watermark = page_size();
	for (nth = 1; nth <= 4; nth *= 2) {
		/* 0 stands for each end as well. */
		self->attr.config2 = SIM_INJECT(8) | SIM_NTH(nth == 1 ? 0 : nth);
		self->fd = open_aux(&self->attr, &self->ring, self->size, RW);
		ASSERT_LE(0, self->fd);
		ASSERT_EQ(0, log_on());
		ASSERT_EQ(0, sim_enable(self->fd));
		for (i = 0; i < 8; i++)
			ASSERT_EQ(0, sim_tick_pmu(variant->pmu, 0, 0, page_size()));
		ASSERT_EQ(0, sim_disable(self->fd));
		expect_empty_ones(_metadata, sim_id(self->fd), nth);
		for (i = 0, sum = 0; next_aux(&self->ring, &aux); i++) {
			EXPECT_EQ(sum, aux.offset);
			EXPECT_EQ(page_size(), aux.size);
			sum += aux.size;
		}
		EXPECT_EQ(8, i);
		close(self->fd);
		self->fd = -1;
		ring_unmap(&self->ring);
	}
}

TEST_F(aux, what_is_skipped_for_alignment_is_in_no_record)
{
	struct aux_record aux;
	__u64 end = 0;

	/* Align to 128 bytes: each transaction begins at the next boundary. */
	self->attr.config = SIM_ALIGN(7);
	self->fd = open_aux(&self->attr, &self->ring, self->size, RW);
	ASSERT_LE(0, self->fd);
	for (unsigned int i = 0; i < 20; i++) {
		ASSERT_EQ(0, sim_enable(self->fd));
		ASSERT_EQ(0, sim_tick_pmu(variant->pmu, 0, 0, 40));
		ASSERT_EQ(0, sim_disable(self->fd));
		ASSERT_TRUE(next_aux(&self->ring, &aux));
		EXPECT_EQ(i * 128, aux.offset);
		EXPECT_EQ(40, aux.size);
		end = aux.offset + aux.size;
		EXPECT_EQ(end, aux_verify(&self->ring, aux.offset, end));
	}
	EXPECT_EQ(end, aux_head(&self->ring));
}

TEST_F(aux, without_room_for_the_alignment_there_is_no_data)
{
	struct aux_record aux;

	/* One transaction ends 40 bytes before the end, and the next one has no room to begin. */
	self->attr.config = SIM_ALIGN(7);
	self->attr.aux_watermark = self->size - 64;
	self->fd = open_aux(&self->attr, &self->ring, self->size, RW);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, sim_enable(self->fd));
	ASSERT_EQ(0, sim_tick_pmu(variant->pmu, 0, 0, self->size - 40));
	ASSERT_TRUE(next_aux(&self->ring, &aux));
	EXPECT_EQ(0, aux.offset);
	EXPECT_EQ(self->size - 40, aux.size);
	EXPECT_EQ(0, aux.flags);
	ASSERT_TRUE(next_aux(&self->ring, &aux));
	EXPECT_EQ(self->size - 40, aux.offset);
	EXPECT_EQ(0, aux.size);
	EXPECT_EQ(PERF_AUX_FLAG_TRUNCATED, aux.flags);

	/* The event stops then, as without any room. */
	ASSERT_EQ(0, sim_tick_pmu(variant->pmu, 0, 0, SIM_WORD));
	EXPECT_FALSE(next_aux(&self->ring, &aux));
	EXPECT_EQ(self->size - 40, aux_head(&self->ring));
	ASSERT_TRUE(aux_drain(&self->ring));
	ASSERT_EQ(0, sim_disable(self->fd));
	ASSERT_EQ(0, sim_enable(self->fd));
	ASSERT_EQ(0, sim_tick_pmu(variant->pmu, 0, 0, 40));
	ASSERT_EQ(0, sim_disable(self->fd));
	ASSERT_TRUE(next_aux(&self->ring, &aux));
	EXPECT_EQ(self->size, aux.offset);
	EXPECT_EQ(40, aux.size);
	EXPECT_EQ(0, aux.flags);
	EXPECT_EQ(self->size + 40, aux_verify(&self->ring, self->size, self->size + 40));
}

TEST_F(aux, overwritten_areas_are_not_aligned)
{
	self->attr.config = SIM_ALIGN(7);
	self->fd = open_aux(&self->attr, &self->ring, self->size, PROT_READ);
	ASSERT_LE(0, self->fd);
	for (unsigned int i = 1; i <= 20; i++) {
		ASSERT_EQ(0, sim_enable(self->fd));
		ASSERT_EQ(0, sim_tick_pmu(variant->pmu, 0, 0, 40));
		ASSERT_EQ(0, sim_disable(self->fd));
		ASSERT_EQ(i * 40, aux_head(&self->ring));
	}
	EXPECT_EQ(20 * 40, aux_verify(&self->ring, 0, 20 * 40));
}

TEST_F(aux, the_first_data_comes_after_the_latency)
{
	__u64 begin, end;

	self->attr.config = SIM_AUX_TIMER | 30000ULL << 16;
	self->attr.config1 = 1000 | SIM_CHUNK(page_size());
	self->attr.aux_watermark = page_size();
	self->fd = open_aux(&self->attr, &self->ring, self->size, RW);
	ASSERT_LE(0, self->fd);
	begin = now_ns();
	ASSERT_EQ(0, sim_enable(self->fd));
	do {
		end = now_ns();
	} while (!aux_head(&self->ring) && end < begin + 20000000000ULL);
	end = now_ns();
	EXPECT_LT(0, aux_head(&self->ring));
	EXPECT_LE(begin + 30000000, end);
}

TEST_F(aux, two_of_them_cannot_be_on_one_cpu)
{
	struct perf_event_attr attr = self->attr;
	struct sim_ring ring = {};
	int fd;

	self->fd = open_aux(&self->attr, &self->ring, self->size, RW);
	ASSERT_LE(0, self->fd);
	fd = open_aux(&attr, &ring, self->size, RW);
	if (!strcmp(variant->pmu, "pmusim_aux_excl")) {
		EXPECT_EQ(-EBUSY, fd);
		return;
	}
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, sim_enable(self->fd));
	ASSERT_EQ(0, sim_enable(fd));
	ASSERT_EQ(0, sim_tick_pmu(variant->pmu, 0, 0, 4096));
	sleep_ms(50);
	ASSERT_EQ(0, sim_disable(self->fd));
	ASSERT_EQ(0, sim_disable(fd));
	EXPECT_EQ(4096, aux_head(&self->ring) + aux_head(&ring));
	ring_unmap(&ring);
	close(fd);
}

FIXTURE(aux_group)
{
	struct perf_event_attr aux;
	struct perf_event_attr counter;
	size_t size;
	int leader;
	struct sim_ring ring;
	struct sim_ring samples;
};

FIXTURE_VARIANT(aux_group)
{
	int context;
};

FIXTURE_VARIANT_ADD(aux_group, hardirq) { .context = SIM_HARDIRQ };

FIXTURE_VARIANT_ADD(aux_group, nmi_like) { .context = SIM_NMI_LIKE };

FIXTURE_VARIANT_ADD(aux_group, nmi) { .context = SIM_NMI };

FIXTURE_SETUP(aux_group)
{
	int fd;

	if (sim_skips(_metadata))
		return;
	self->size = AUX_PAGES * page_size();
	self->aux = sim_attr("pmusim_aux", 0);
	self->aux.disabled = 1;
	self->counter = sim_attr("pmusim", SIM_OFLOW(variant->context));
	self->counter.sample_period = 100;
	fd = sim_open(&self->counter, -1, 0, -1);
	if (fd == -EOPNOTSUPP && variant->context >= SIM_NMI_LIKE)
		SIM_SKIP("pmusim is a module, or this machine sends itself no NMIs");
	ASSERT_LE(0, fd);
	close(fd);
}

FIXTURE_TEARDOWN(aux_group)
{
	ring_unmap(&self->ring);
	ring_unmap(&self->samples);
	sim_defaults();
}

static int tick_aux(unsigned long long bytes)
{
	return sim_tick_pmu("pmusim_aux", 0, 0, bytes);
}

/* The area has data only of the time while the event was not paused. */
TEST_F(aux_group, bytes_come_only_while_it_is_resumed)
{
	struct perf_event_attr pause = self->counter, resume = self->counter;
	int fd_pause, fd_resume;
	unsigned int i;
	__u64 sum = 0;

	self->aux.aux_start_paused = 1;
	self->leader = open_aux(&self->aux, &self->ring, self->size, RW);
	ASSERT_LE(0, self->leader);
	pause.aux_pause = 1;
	fd_pause = sim_open(&pause, -1, 0, self->leader);
	ASSERT_LE(0, fd_pause);
	resume.aux_resume = 1;
	fd_resume = sim_open(&resume, -1, 0, self->leader);
	ASSERT_LE(0, fd_resume);
	ASSERT_EQ(0, sim_enable(self->leader));

	for (i = 1; i < 50; i++) {
		ASSERT_EQ(0, tick_aux(1024));
		ASSERT_EQ(0, sim_tick(0, 1, 100));
		ASSERT_EQ(0, tick_aux(i * SIM_WORD));
		sum += i * SIM_WORD;
		ASSERT_EQ(0, sim_tick(0, 0, 100));
		ASSERT_EQ(0, tick_aux(2048));
	}
	/* The position stays when the event is scheduled out and in. */
	ASSERT_EQ(0, sim_disable(self->leader));
	EXPECT_EQ(sum, aux_head(&self->ring));
	ASSERT_EQ(0, sim_enable(self->leader));
	ASSERT_EQ(0, tick_aux(1024));
	ASSERT_EQ(0, sim_disable(self->leader));
	EXPECT_EQ(sum, aux_head(&self->ring));
	EXPECT_TRUE(aux_drain(&self->ring));
}

TEST_F(aux_group, a_sample_has_the_last_bytes_of_the_area)
{
	static struct sim_record record;
	unsigned int i, n = 0, size = 4096;
	__u64 place;
	int fd;

	self->leader = open_aux(&self->aux, &self->ring, self->size, PROT_READ);
	ASSERT_LE(0, self->leader);
	self->counter.sample_type = PERF_SAMPLE_AUX;
	self->counter.aux_sample_size = size;
	fd = sim_open(&self->counter, -1, 0, self->leader);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, ring_map(&self->samples, fd, 16));
	ASSERT_EQ(0, sim_enable(self->leader));

	for (i = 1; i < 40; i++) {
		ASSERT_EQ(0, tick_aux(i * 1016));
		ASSERT_EQ(0, sim_tick(0, 0, 100));
		place = i * (i + 1) / 2 * 1016;
		while (ring_next(&self->samples, &record)) {
			ASSERT_EQ(PERF_RECORD_SAMPLE, record.header.type);
			ASSERT_EQ(size, record.word[0]);
			n++;
			/* Positions before the first one were never written. */
			for (unsigned int w = 0; w < size / SIM_WORD; w++) {
				__u64 at = place - size + w * SIM_WORD;

				ASSERT_EQ((__s64)at < 0 ? 0 : at ^ SIM_PATTERN,
					  record.word[1 + w]);
			}
		}
	}
	EXPECT_EQ(39, n);
}

TEST_F(aux_group, a_sample_of_a_full_area_is_all_of_it)
{
	static struct sim_record record;
	__u64 end = 4 * page_size() + 8 * SIM_WORD;
	int fd;

	self->size = 4 * page_size();
	if (self->size > 32768)
		SKIP(return, "pages of %zu bytes: four do not fit into a record", page_size());
	self->leader = open_aux(&self->aux, &self->ring, self->size, PROT_READ);
	ASSERT_LE(0, self->leader);
	self->counter.sample_type = PERF_SAMPLE_AUX;
	self->counter.aux_sample_size = 65000;
	fd = sim_open(&self->counter, -1, 0, self->leader);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, ring_map(&self->samples, fd, 16));
	ASSERT_EQ(0, sim_enable(self->leader));
	ASSERT_EQ(0, tick_aux(end));
	ASSERT_EQ(0, sim_tick(0, 0, 100));
	ASSERT_TRUE(ring_next(&self->samples, &record));
	ASSERT_EQ(self->size, record.word[0]);
	for (unsigned int w = 0; w < self->size / SIM_WORD; w++)
		ASSERT_EQ((end - self->size + w * SIM_WORD) ^ SIM_PATTERN, record.word[1 + w]);
}

TEST_HARNESS_MAIN
