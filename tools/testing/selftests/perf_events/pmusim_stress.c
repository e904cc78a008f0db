// SPDX-License-Identifier: GPL-2.0
/*
 * pmusim selftests - everything at the same time
 *
 * Defects show in the kernel's log, above all with KASAN and lockdep. The test
 * checks that streams stay intact and that the PMU counts as before in the end.
 * PMUSIM_STRESS_SECONDS makes it longer.
 */
#define _GNU_SOURCE

#include <pthread.h>

#include "../kselftest_harness.h"
#include "pmusim_helpers.h"

#define NR_COUNTERS	6
#define NR_THREADS	3
#define MAX_CPUS	2

struct storm {
	int		cpu;
	int		leader;
	struct sim_ring	ring;
	int		fd[NR_COUNTERS];
	struct sim_ring	samples[NR_COUNTERS];
};

FIXTURE(stress)
{
	struct storm storm[MAX_CPUS];
	unsigned int nr_cpus;
	pthread_t thread[NR_THREADS];
};

static int stop;

FIXTURE_SETUP(stress)
{
	if (sim_skips(_metadata))
		return;
	self->nr_cpus = sysconf(_SC_NPROCESSORS_ONLN) > 1 ? 2 : 1;
}

FIXTURE_TEARDOWN(stress)
{
	sim_defaults();
}

static unsigned int seconds(void)
{
	const char *text = getenv("PMUSIM_STRESS_SECONDS");

	return text ? atoi(text) : 2;
}

static unsigned int next_random(unsigned int *state)
{
	*state = *state * 1103515245 + 12345;
	return *state >> 16;
}

/* Sources of pauses, resumes, samples and writes to the area, in one context each. */
static int open_counter(struct storm *storm, unsigned int i, int context)
{
	struct perf_event_attr attr;
	int ret;

	attr = sim_attr("pmusim", (i % 2 ? SIM_TIMER : SIM_CLOCK) | SIM_OFLOW(context));
	attr.config1 = i % 2 ? 3000 + 500 * i : 0;
	attr.sample_period = i % 2 ? 1 : 400000;
	attr.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TIME | PERF_SAMPLE_READ;
	if (i == 1)
		attr.aux_pause = 1;
	if (i == 2)
		attr.aux_resume = 1;
	if (i == 3) {
		attr.sample_type |= PERF_SAMPLE_AUX;
		attr.aux_sample_size = 1024;
	}
	if (i == 4)
		attr.aux_output = 1;
	storm->fd[i] = sim_open(&attr, -1, storm->cpu, i && i < 5 ? storm->leader : -1);
	if (storm->fd[i] < 0)
		return storm->fd[i];
	ret = ring_map(&storm->samples[i], storm->fd[i], 8);
	return ret;
}

static int open_storm(struct storm *storm, int cpu, int nr_contexts)
{
	struct perf_event_attr aux = sim_attr("pmusim_aux", SIM_AUX_TIMER);
	unsigned int i;
	int ret;

	storm->cpu = cpu;
	aux.config1 = 2000 | SIM_CHUNK(1024);
	storm->leader = sim_open(&aux, -1, cpu, -1);
	if (storm->leader < 0)
		return storm->leader;
	ret = ring_map(&storm->ring, storm->leader, 8);
	if (!ret)
		ret = ring_map_aux(&storm->ring, 64 * page_size(), PROT_READ | PROT_WRITE);
	for (i = 0; i < NR_COUNTERS && !ret; i++)
		ret = open_counter(storm, i, (i + cpu * 3) % nr_contexts);
	return ret;
}

static void *disturb(void *arg)
{
	unsigned int seed = now_ns(), what;
	struct storm *storm = arg;
	__u64 period;
	int fd;

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		what = next_random(&seed) % 64;
		fd = next_random(&seed) % 8 ? storm->fd[next_random(&seed) % NR_COUNTERS] :
					      storm->leader;
		if (what < 20) {
			sim_disable(fd);
		} else if (what < 42) {
			sim_enable(fd);
		} else if (what < 46) {
			period = next_random(&seed) % 100000 + 1;
			sim_ioctl(fd, PERF_EVENT_IOC_PERIOD, (unsigned long)&period);
		} else if (what < 48) {
			sim_ioctl(fd, PERF_EVENT_IOC_RESET, 0);
		} else if (what < 50) {
			sim_ioctl(fd, PERF_EVENT_IOC_REFRESH, 3);
		} else if (what < 52) {
			sim_put("pmusim/fail_add", "1");
		} else if (what < 54) {
			run_on(next_random(&seed) % MAX_CPUS);
		} else if (what < 55) {
			sim_put("log", "1");
		} else {
			sim_count(fd);
		}
	}
	return NULL;
}

static bool drain(struct storm *storm)
{
	static struct sim_record record;
	unsigned int i;

	for (i = 0; i < NR_COUNTERS; i++) {
		while (ring_next(&storm->samples[i], &record))
			;
	}
	while (ring_next(&storm->ring, &record))
		;
	return aux_drain(&storm->ring);
}

TEST_F_TIMEOUT(stress, nothing_breaks, 600)
{
	struct perf_event_attr probe = sim_attr("pmusim", SIM_OFLOW(SIM_NMI));
	int fd, nr_contexts = SIM_NMI + 1;
	unsigned int i, cpu;
	__u64 end;

	/* Use all contexts that the machine has. */
	fd = sim_open(&probe, -1, 0, -1);
	if (fd < 0) {
		probe.config = SIM_OFLOW(SIM_NMI_LIKE);
		fd = sim_open(&probe, -1, 0, -1);
		nr_contexts = fd < 0 ? SIM_NMI_LIKE : SIM_NMI;
	}
	if (fd >= 0)
		close(fd);

	for (cpu = 0; cpu < self->nr_cpus; cpu++)
		ASSERT_EQ(0, open_storm(&self->storm[cpu], cpu, nr_contexts));
	for (i = 0; i < NR_THREADS; i++)
		ASSERT_EQ(0, pthread_create(&self->thread[i], NULL, disturb,
					    &self->storm[i % self->nr_cpus]));

	end = now_ns() + seconds() * 1000000000ULL;
	while (now_ns() < end) {
		for (cpu = 0; cpu < self->nr_cpus; cpu++)
			ASSERT_TRUE(drain(&self->storm[cpu]));
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (i = 0; i < NR_THREADS; i++)
		pthread_join(self->thread[i], NULL);

	for (cpu = 0; cpu < self->nr_cpus; cpu++) {
		sim_disable(self->storm[cpu].leader);
		EXPECT_TRUE(drain(&self->storm[cpu]));
		EXPECT_LT(0, aux_head(&self->storm[cpu].ring));
		for (i = 0; i < NR_COUNTERS; i++)
			close(self->storm[cpu].fd[i]);
		for (i = 0; i < NR_COUNTERS; i++)
			ring_unmap(&self->storm[cpu].samples[i]);
		ring_unmap(&self->storm[cpu].ring);
		close(self->storm[cpu].leader);
	}

	sim_defaults();
	for (cpu = 0; cpu < self->nr_cpus; cpu++) {
		fd = sim_open_cpu(0, cpu);
		ASSERT_LE(0, fd);
		ASSERT_EQ(0, sim_tick(cpu, 0, 1000));
		EXPECT_EQ(1000, sim_count(fd));
		close(fd);
	}
}

TEST_HARNESS_MAIN
