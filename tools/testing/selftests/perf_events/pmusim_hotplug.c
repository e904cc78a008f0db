// SPDX-License-Identifier: GPL-2.0
/* pmusim selftests - CPUs that go offline with events on them */
#define _GNU_SOURCE

#include <pthread.h>

#include "../kselftest_harness.h"
#include "pmusim_helpers.h"

#define ROUNDS	5

FIXTURE(hotplug)
{
	int unused;
};

FIXTURE_SETUP(hotplug)
{
	if (sim_skips(_metadata))
		return;
	if (access(SIM_ONLINE, W_OK))
		SIM_SKIP("no second CPU that can go offline");
	ASSERT_EQ(0, run_on(0));
}

FIXTURE_TEARDOWN(hotplug)
{
	sim_set_online(1);
	sim_defaults();
}

static int read_state(void)
{
	int ret, fd = open(SIM_DIR "/cpu1/state", O_RDONLY);
	char text[64];

	if (fd < 0)
		return -errno;
	ret = read(fd, text, sizeof(text)) < 0 ? -errno : 0;
	close(fd);
	return ret;
}

TEST_F(hotplug, a_stream_ends_with_its_cpu)
{
	struct perf_event_attr attr = sim_attr("pmusim_aux", SIM_AUX_TIMER);
	struct sim_ring ring;
	unsigned int round;
	__u64 head, end;
	int fd;

	attr.config1 = 5000 | SIM_CHUNK(2048);
	for (round = 0; round < ROUNDS; round++) {
		attr.disabled = 1;
		fd = sim_open(&attr, -1, 1, -1);
		ASSERT_LE(0, fd);
		ASSERT_EQ(0, ring_map(&ring, fd, 4));
		ASSERT_EQ(0, ring_map_aux(&ring, 16 * page_size(),
					  PROT_READ | (round % 2 ? 0 : PROT_WRITE)));
		ASSERT_EQ(0, sim_enable(fd));
		end = now_ns() + 10000000000ULL;
		do {
			sleep_ms(5);
		} while (!aux_head(&ring) && now_ns() < end);
		ASSERT_EQ(0, sim_set_online(0));
		head = aux_head(&ring);
		EXPECT_LT(0, head);
		/* All data was reported before the CPU went offline. */
		EXPECT_EQ(head, aux_verify(&ring, head > ring.aux_size ?
					   head - ring.aux_size : 0, head));
		sleep_ms(5);
		EXPECT_EQ(head, aux_head(&ring));
		EXPECT_EQ(-ENXIO, sim_tick(1, 0, 1));
		EXPECT_EQ(-ENXIO, read_state());
		ASSERT_EQ(0, sim_set_online(1));
		ring_unmap(&ring);
		close(fd);
	}
}

struct mapper {
	struct perf_event_attr	attr;
	unsigned int		rounds;
	int			wrong;
	int			done;
};

/* Opening an event fails while its CPU is offline, but nothing else does. */
static void *map_and_unmap(void *arg)
{
	struct mapper *mapper = arg;
	struct sim_ring ring;
	int fd, ret;

	while (!__atomic_load_n(&mapper->done, __ATOMIC_RELAXED) && !mapper->wrong) {
		fd = sim_open(&mapper->attr, -1, 1, -1);
		if (fd == -ENODEV)
			continue;
		if (fd < 0) {
			mapper->wrong = fd;
			break;
		}
		ret = ring_map(&ring, fd, 4);
		if (!ret)
			ret = ring_map_aux(&ring, 16 * page_size(), mapper->rounds % 2 ?
					   PROT_READ : PROT_READ | PROT_WRITE);
		if (!ret)
			ret = sim_enable(fd);
		sleep_ms(mapper->rounds % 4);
		ring_unmap(&ring);
		close(fd);
		mapper->wrong = ret;
		mapper->rounds++;
	}
	return NULL;
}

TEST_F(hotplug, areas_come_and_go_with_their_cpu)
{
	struct mapper mapper = { .attr = sim_attr("pmusim_aux", SIM_AUX_TIMER) };
	unsigned int round, before;
	struct sim_ring ring;
	pthread_t thread;
	__u64 end;
	int fd;

	mapper.attr.config1 = 5000 | SIM_CHUNK(2048);
	mapper.attr.disabled = 1;
	ASSERT_EQ(0, pthread_create(&thread, NULL, map_and_unmap, &mapper));
	for (round = 0; round < ROUNDS; round++) {
		/* Take the CPU offline in the middle of another round each time. */
		before = __atomic_load_n(&mapper.rounds, __ATOMIC_RELAXED);
		end = now_ns() + 10000000000ULL;
		while (__atomic_load_n(&mapper.rounds, __ATOMIC_RELAXED) < before + 4 &&
		       now_ns() < end)
			sleep_ms(1);
		ASSERT_EQ(0, sim_set_online(0));
		sleep_ms(round);
		ASSERT_EQ(0, sim_set_online(1));
	}
	__atomic_store_n(&mapper.done, 1, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	EXPECT_EQ(0, mapper.wrong);
	EXPECT_LE(4 * ROUNDS, mapper.rounds);

	/* The CPU works as before. */
	mapper.attr.config = 0;
	mapper.attr.config1 = 0;
	fd = sim_open(&mapper.attr, -1, 1, -1);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, ring_map(&ring, fd, 4));
	ASSERT_EQ(0, ring_map_aux(&ring, 16 * page_size(), PROT_READ | PROT_WRITE));
	ASSERT_EQ(0, sim_enable(fd));
	ASSERT_EQ(0, sim_tick_pmu("pmusim_aux", 1, 0, 4096));
	ASSERT_EQ(0, sim_disable(fd));
	EXPECT_EQ(4096, aux_head(&ring));
	EXPECT_TRUE(aux_drain(&ring));
	ring_unmap(&ring);
	close(fd);
}

/* The next event on the counter gets its own overflows, and no others. */
static void expect_fresh_counter(struct __test_metadata *_metadata, int context)
{
	struct perf_event_attr attr = sim_attr("pmusim", SIM_OFLOW(context));
	struct sim_ring ring;
	int fd;

	attr.sample_period = 1;
	fd = sim_open(&attr, -1, 1, -1);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, ring_map(&ring, fd, 16));
	ASSERT_EQ(0, sim_tick(1, 0, 5));
	EXPECT_EQ(5, sim_count(fd));
	EXPECT_EQ(5, ring_count(&ring, PERF_RECORD_SAMPLE));
	ring_unmap(&ring);
	close(fd);
}

TEST_F(hotplug, overflows_under_way_are_dropped_with_the_cpu)
{
	struct perf_event_attr attr = sim_attr("pmusim", SIM_TIMER);
	__u64 samples, count, end;
	struct sim_ring ring;
	int fd, context;

	attr.config1 = 10000;
	attr.sample_period = 1;
	for (context = SIM_HARDIRQ; context <= SIM_NMI; context++) {
		attr.config = SIM_TIMER | SIM_OFLOW(context);
		fd = sim_open(&attr, -1, 1, -1);
		if (fd == -EOPNOTSUPP)
			continue;
		ASSERT_LE(0, fd);
		ASSERT_EQ(0, ring_map(&ring, fd, 64));
		samples = 0;
		end = now_ns() + 20000000000ULL;
		while (samples < 10 && now_ns() < end) {
			sleep_ms(10);
			samples += ring_count(&ring, PERF_RECORD_SAMPLE);
		}
		EXPECT_LE(10, samples);

		ASSERT_EQ(0, sim_set_online(0));
		/* The last overflow may not have been handled. */
		count = sim_count(fd);
		samples += ring_count(&ring, PERF_RECORD_SAMPLE);
		EXPECT_LE(samples, count);
		sleep_ms(2);
		EXPECT_EQ(count, sim_count(fd));
		EXPECT_EQ(0, ring_count(&ring, PERF_RECORD_SAMPLE));

		/* The overflow does not come later, either, to this event or to another. */
		ASSERT_EQ(0, sim_set_online(1));
		expect_fresh_counter(_metadata, context);
		EXPECT_EQ(count, sim_count(fd));
		EXPECT_EQ(0, ring_count(&ring, PERF_RECORD_SAMPLE));
		ring_unmap(&ring);
		close(fd);
	}
}

TEST_F(hotplug, an_uncore_event_goes_on_elsewhere)
{
	struct perf_event_attr attr = sim_attr("pmusim_unc", 0);
	unsigned int round;
	int fd, last, other;
	__u64 sum = 0;

	/* The last CPU has the PMU, which may differ from the CPU that goes offline. */
	last = sim_uncore_cpu();
	ASSERT_LE(1, last);
	fd = sim_open(&attr, -1, 0, -1);
	ASSERT_LE(0, fd);
	for (round = 0; round < ROUNDS; round++) {
		ASSERT_EQ(0, sim_tick_pmu("pmusim_unc", last, 0, 100));
		sum += 100;
		EXPECT_EQ(sum, sim_count(fd));
		ASSERT_EQ(0, sim_set_online(0));
		other = sim_uncore_cpu();
		EXPECT_EQ(last == 1 ? 0 : last, other);
		ASSERT_EQ(0, sim_tick_pmu("pmusim_unc", other, 0, 20));
		sum += 20;
		EXPECT_EQ(sum, sim_count(fd));
		ASSERT_EQ(0, sim_set_online(1));
		EXPECT_EQ(last, sim_uncore_cpu());
	}
	close(fd);
}

TEST_HARNESS_MAIN
