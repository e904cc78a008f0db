// SPDX-License-Identifier: GPL-2.0
/* pmusim selftests - exact counts by read(2) and by the user page */
#define _GNU_SOURCE

#include <pthread.h>

#include "../kselftest_harness.h"
#include "pmusim_helpers.h"

FIXTURE(count)
{
	struct perf_event_attr attr;
};

FIXTURE_SETUP(count)
{
	if (sim_skips(_metadata))
		return;
	ASSERT_EQ(0, run_on(0));
	self->attr = sim_attr("pmusim", 0);
}

FIXTURE_TEARDOWN(count)
{
	sim_defaults();
}

FIXTURE(width)
{
	int fd;
};

FIXTURE_VARIANT(width)
{
	unsigned int bits;
	unsigned long long step;
	unsigned int nr;
};

FIXTURE_VARIANT_ADD(width, 8) { .bits = 8, .step = 101, .nr = 400 };

FIXTURE_VARIANT_ADD(width, 13) { .bits = 13, .step = 5003, .nr = 300 };

FIXTURE_VARIANT_ADD(width, 16) { .bits = 16, .step = 40009, .nr = 300 };

FIXTURE_VARIANT_ADD(width, 32) { .bits = 32, .step = 3000000019ULL, .nr = 300 };

FIXTURE_VARIANT_ADD(width, 63) { .bits = 63, .step = 1ULL << 60, .nr = 15 };

FIXTURE_SETUP(width)
{
	if (sim_skips(_metadata))
		return;
	ASSERT_EQ(0, run_on(0));
	self->fd = sim_open_cpu(SIM_WIDTH(variant->bits), 0);
	ASSERT_LE(0, self->fd);
}

FIXTURE_TEARDOWN(width)
{
	sim_defaults();
}

TEST_F(width, a_counter_that_wraps_loses_nothing)
{
	__u64 sum = 0;
	unsigned int i;

	for (i = 0; i < variant->nr; i++) {
		ASSERT_EQ(0, sim_tick(0, 0, variant->step + i));
		sum += variant->step + i;
		/* A read in between must not matter. */
		if (i % 3)
			ASSERT_EQ(sum, sim_count(self->fd));
	}
	EXPECT_EQ(sum, sim_count(self->fd));
}

TEST_F(width, what_was_counted_survives_turns)
{
	__u64 sum = 0;
	unsigned int i;

	for (i = 0; i < variant->nr; i++) {
		ASSERT_EQ(0, sim_disable(self->fd));
		ASSERT_EQ(0, sim_tick(0, 0, 77777));
		ASSERT_EQ(0, sim_enable(self->fd));
		ASSERT_EQ(0, sim_tick(0, 0, variant->step + i));
		sum += variant->step + i;
	}
	EXPECT_EQ(sum, sim_count(self->fd));
}

TEST_F(count, other_counters_and_cpus_are_not_meant)
{
	int fd = sim_open_cpu(SIM_MASK(0x2), 0);

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, sim_tick(0, 0, 1));
	ASSERT_EQ(0, sim_tick(0, 1, 20));
	ASSERT_EQ(0, sim_tick(0, 2, 300));
	sim_tick(1, 1, 4000);
	EXPECT_EQ(20, sim_count(fd));
}

TEST_F(count, a_task_counts_while_it_runs)
{
	int fd = sim_open(&self->attr, 0, -1, -1);
	int status;

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, sim_tick(0, 0, 100));
	if (!fork()) {
		/* Now another task runs on this CPU. */
		_exit(sim_tick(0, 0, 1000) ? 1 : 0);
	}
	wait(&status);
	ASSERT_EQ(0, status);
	EXPECT_EQ(100, sim_count(fd));
}

TEST_F(count, inherited_events_add_up)
{
	int fd, status;

	self->attr.inherit = 1;
	fd = sim_open(&self->attr, 0, -1, -1);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, sim_tick(0, 0, 100));
	for (unsigned int i = 1; i <= 5; i++) {
		if (!fork()) {
			int ret = sim_tick(0, 0, 1000 * i);

			if (!fork())
				_exit(sim_tick(0, 0, 10) ? 1 : 0);
			wait(&status);
			_exit(ret || status);
		}
		wait(&status);
		ASSERT_EQ(0, status);
	}
	EXPECT_EQ(100 + 15000 + 50, sim_count(fd));
}

TEST_F(count, enable_on_exec_counts_from_the_exec)
{
	int fd, status, go[2];
	char byte = 0;
	pid_t child;

	ASSERT_EQ(0, pipe(go));
	child = fork();
	if (!child) {
		if (read(go[0], &byte, 1) != 1 || sim_tick(0, 0, 50))
			_exit(1);
		/* The shell itself writes, so the tick happens in its context. */
		execl("/bin/sh", "sh", "-c", "echo 0 1000 >" SIM_DIR "/cpu0/tick", NULL);
		_exit(2);
	}
	self->attr.disabled = 1;
	self->attr.enable_on_exec = 1;
	fd = sim_open(&self->attr, child, -1, -1);
	ASSERT_LE(0, fd);
	ASSERT_EQ(1, write(go[1], &byte, 1));
	waitpid(child, &status, 0);
	ASSERT_EQ(0, status);
	EXPECT_EQ(1000, sim_count(fd));
}

TEST_F(count, a_group_is_read_in_one_transaction)
{
	__u64 value[1 + 3 + 3];
	unsigned int i, reads = 0, opens = 0, commits = 0;
	struct sim_log line;
	FILE *log;
	int fd[3];

	self->attr.read_format = PERF_FORMAT_GROUP;
	for (i = 0; i < 3; i++) {
		fd[i] = sim_open(&self->attr, -1, 0, i ? fd[0] : -1);
		ASSERT_LE(0, fd[i]);
	}
	for (i = 0; i < 3; i++)
		ASSERT_EQ(0, sim_tick(0, i, 10 + i));
	ASSERT_EQ(0, log_on());
	ASSERT_EQ(4 * sizeof(__u64), read(fd[0], value, sizeof(value)));
	log = log_open();
	ASSERT_NE(NULL, log);
	EXPECT_EQ(3, value[0]);
	for (i = 0; i < 3; i++)
		EXPECT_EQ(10 + i, value[1 + i]);
	while (log_next(log, &line)) {
		opens += !strcmp(line.op, "start_txn") && line.flags == 2;
		reads += !strcmp(line.op, "read") && opens == 1 && !commits;
		commits += !strcmp(line.op, "commit_txn") && line.flags == 2;
	}
	EXPECT_EQ(1, opens);
	EXPECT_EQ(3, reads);
	EXPECT_EQ(1, commits);
	fclose(log);
}

TEST_F(count, the_clock_counts_the_time_it_ran)
{
	unsigned int round, good = 0;
	struct sim_value value;
	__u64 begin;
	int fd;

	self->attr.config = SIM_CLOCK;
	self->attr.disabled = 1;
	/* The machine may stall between the reads of the time and of the counter. */
	for (round = 0; round < 20 && !good; round++) {
		fd = sim_open(&self->attr, 0, -1, -1);
		ASSERT_LE(0, fd);
		ASSERT_EQ(0, sim_enable(fd));
		begin = now_ns();
		while (now_ns() - begin < 20000000)
			;
		ASSERT_EQ(0, sim_disable(fd));
		value = sim_read(fd);
		good = value.value > value.running / 20 * 19 &&
		       value.value < value.running / 20 * 21;
		close(fd);
	}
	EXPECT_TRUE(good) {
		TH_LOG("%llu of %llu", value.value, value.running);
	}
}

TEST_F(count, the_clock_samples)
{
	struct sim_ring ring;
	unsigned int samples;
	struct sim_value value;
	__u64 begin;
	int fd;

	self->attr.config = SIM_CLOCK;
	self->attr.sample_period = 1000000;
	fd = sim_open(&self->attr, -1, 0, -1);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, ring_map(&ring, fd, 16));
	begin = now_ns();
	while (now_ns() - begin < 100000000 ||
	       (!ring.page->data_head && now_ns() - begin < 10000000000ULL))
		;
	ASSERT_EQ(0, sim_disable(fd));
	value = sim_read(fd);
	samples = ring_count(&ring, PERF_RECORD_SAMPLE);
	EXPECT_LE(1, samples);
	/* A late timer skips samples of the periods that it missed. */
	EXPECT_GE(value.value / 1000000, samples);
}

TEST_F(count, the_timer_counts_at_its_rate)
{
	__u64 time[4], before, counted;
	bool good;
	int fd;

	self->attr.config = SIM_TIMER;
	self->attr.config1 = 1000;
	fd = sim_open(&self->attr, -1, 0, -1);
	ASSERT_LE(0, fd);
	time[0] = now_ns();
	before = sim_count(fd);
	time[1] = now_ns();
	do {
		sleep_ms(50);
		time[2] = now_ns();
		counted = sim_count(fd) - before;
		time[3] = now_ns();
		/* One expiration in each ms: never more, and not less in the long run. */
		EXPECT_GE((time[3] - time[0]) / 1000000 + 1, counted);
		good = time[2] - time[1] >= 500000000 &&
		       counted >= (time[2] - time[1]) / 1000000 / 20 * 19;
	} while (!good && time[3] - time[0] < 20000000000ULL);
	EXPECT_TRUE(good) {
		TH_LOG("%llu in %llu ns", counted, time[2] - time[1]);
	}
}

TEST_F(count, each_switch_to_a_task_counts)
{
	__u64 count, inside, outside;
	unsigned int i;
	int fd;

	self->attr.config = SIM_SWITCH;
	fd = sim_open(&self->attr, 0, -1, -1);
	ASSERT_LE(0, fd);
	outside = nr_switches();
	count = sim_count(fd);
	inside = nr_switches();
	for (i = 0; i < 50; i++)
		sleep_ms(1);
	inside = nr_switches() - inside;
	count = sim_count(fd) - count;
	outside = nr_switches() - outside;
	EXPECT_LE(inside, count);
	EXPECT_GE(outside, count);
	EXPECT_LT(0, count);
}

/* Let the uncore PMU count, which is on one of the CPUs. */
static void tick_uncore(__u64 events)
{
	for (long cpu = 0; cpu < sysconf(_SC_NPROCESSORS_CONF); cpu++)
		sim_tick_pmu("pmusim_unc", cpu, 0, events);
}

TEST_F(count, an_uncore_event_is_of_a_cpu)
{
	struct perf_event_attr attr = sim_attr("pmusim_unc", 0);
	int fd;

	EXPECT_EQ(-EINVAL, sim_open(&attr, 0, -1, -1));
	EXPECT_EQ(-EINVAL, sim_open(&attr, 0, 0, -1));
	fd = sim_open(&attr, -1, 0, -1);
	ASSERT_LE(0, fd);
	/* The event is on the CPU of the PMU, for any given CPU. */
	tick_uncore(123);
	EXPECT_EQ(123, sim_count(fd));
	attr.sample_period = 100;
	EXPECT_EQ(-EOPNOTSUPP, sim_open(&attr, -1, 0, -1));
	attr.sample_period = 0;
	attr.config = SIM_SWITCH;
	EXPECT_EQ(-EINVAL, sim_open(&attr, -1, 0, -1));
	attr.config = SIM_MANUAL;
	attr.exclude_user = 1;
	EXPECT_EQ(-EINVAL, sim_open(&attr, -1, 0, -1));
}

TEST_F(count, what_makes_no_sense_is_refused)
{
	static const struct {
		__u64 config, config1, config2;
	} bad[] = {
		{ 4, 0, 0 },
		{ 1ULL << 27, 0, 0 },
		{ SIM_OFLOW(6), 0, 0 },
		{ SIM_OFLOW(7), 0, 0 },
		{ SIM_WIDTH(7), 0, 0 },
		{ SIM_CLOCK | SIM_WIDTH(31), 0, 0 },
		{ SIM_CLOCK, 1000, 0 },
		{ SIM_CLOCK, SIM_SKID(1), 0 },
		{ SIM_TIMER, 0, 0 },
		{ SIM_TIMER, 100001, 0 },
		{ SIM_MANUAL, 1000, 0 },
		{ SIM_MASK(0xf0), 0, 0 },
		{ 0, 1ULL << 40, 0 },
		{ 0, 0, 1ULL << 16 },
	};

	for (unsigned int i = 0; i < ARRAY_SIZE(bad); i++) {
		self->attr.config = bad[i].config;
		self->attr.config1 = bad[i].config1;
		self->attr.config2 = bad[i].config2;
		EXPECT_EQ(-EINVAL, sim_open(&self->attr, -1, 0, -1)) {
			TH_LOG("number %u", i);
		}
	}
}

TEST_F(count, a_stream_that_makes_no_sense_is_refused)
{
	static const struct {
		__u64 config, config1, config2;
	} bad[] = {
		{ 2, 0, 0 },
		{ 1ULL << 14, 0, 0 },
		{ 1ULL << 32, 0, 0 },
		{ SIM_ALIGN(2), 0, 0 },
		{ SIM_ALIGN(63), 0, 0 },
		{ SIM_MANUAL, 1000, 0 },
		{ SIM_MANUAL, SIM_CHUNK(7), 0 },
		{ SIM_MANUAL, SIM_CHUNK((1 << 20) + 8), 0 },
		{ SIM_MANUAL, 0, SIM_INJECT(0x80) },
		{ SIM_MANUAL, 0, 1ULL << 24 },
		{ SIM_AUX_TIMER, 0, 0 },
		{ SIM_AUX_TIMER, 100001, 0 },
	};
	struct perf_event_attr attr = sim_attr("pmusim_aux", 0);

	for (unsigned int i = 0; i < ARRAY_SIZE(bad); i++) {
		attr.config = bad[i].config;
		attr.config1 = bad[i].config1;
		attr.config2 = bad[i].config2;
		EXPECT_EQ(-EINVAL, sim_open(&attr, -1, 0, -1)) {
			TH_LOG("number %u", i);
		}
	}
}

TEST_F(count, there_are_no_branches)
{
	const char * const pmus[] = { "pmusim", "pmusim_unc", "pmusim_aux" };
	struct perf_event_attr attr;

	for (unsigned int i = 0; i < ARRAY_SIZE(pmus); i++) {
		attr = sim_attr(pmus[i], 0);
		attr.sample_type = PERF_SAMPLE_BRANCH_STACK;
		attr.branch_sample_type = PERF_SAMPLE_BRANCH_USER | PERF_SAMPLE_BRANCH_ANY;
		EXPECT_EQ(-EOPNOTSUPP, sim_open(&attr, -1, 0, -1)) {
			TH_LOG("%s", pmus[i]);
		}
	}
}

/* Returns the error as an exit code, 0 for success. */
static int open_as_user(const struct perf_event_attr *attr)
{
	int fd, status;

	if (!fork()) {
		if (setresuid(1000, 1000, 1000))
			_exit(255);
		fd = sim_open(attr, 0, -1, -1);
		_exit(fd < 0 ? -fd : 0);
	}
	wait(&status);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

TEST_F(count, a_user_without_cap_perfmon_gets_no_high_rate)
{
	struct perf_event_attr aux = sim_attr("pmusim_aux", SIM_AUX_TIMER);

	self->attr.exclude_kernel = 1;
	self->attr.config = SIM_TIMER;
	self->attr.config1 = 1000;
	if (open_as_user(&self->attr) == EACCES)
		SKIP(return, "perf_event_paranoid lets users open no events");
	EXPECT_EQ(0, open_as_user(&self->attr));
	self->attr.config1 = 1001;
	EXPECT_EQ(EACCES, open_as_user(&self->attr));

	aux.exclude_kernel = 1;
	aux.config1 = 1000 | SIM_CHUNK(65536);
	EXPECT_EQ(0, open_as_user(&aux));
	aux.config1 = 1000 | SIM_CHUNK(65536 + 8);
	EXPECT_EQ(EACCES, open_as_user(&aux));
	aux.config1 = 1001 | SIM_CHUNK(64);
	EXPECT_EQ(EACCES, open_as_user(&aux));
	aux.config1 = 1001 | SIM_CHUNK((1 << 20) + 8);
	EXPECT_EQ(-EINVAL, sim_open(&aux, -1, 0, -1));

	aux.config = SIM_MANUAL;
	aux.config1 = SIM_CHUNK(65536);
	EXPECT_EQ(0, open_as_user(&aux));
	aux.config1 = SIM_CHUNK(65536 + 8);
	EXPECT_EQ(EACCES, open_as_user(&aux));

	/* Without a leader, root cannot open the event either. */
	self->attr.config = SIM_CLOCK;
	self->attr.config1 = 0;
	self->attr.aux_output = 1;
	EXPECT_EQ(EACCES, open_as_user(&self->attr));
	EXPECT_EQ(-EINVAL, sim_open(&self->attr, 0, -1, -1));
}

TEST_F(count, a_tick_of_endless_overflows_can_be_killed)
{
	struct perf_event_attr attr = sim_attr("pmusim_unc", SIM_WIDTH(8));
	int status;
	pid_t pid;

	ASSERT_LE(0, sim_open(&attr, -1, 0, -1));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		tick_uncore(-1ULL);
		_exit(1);
	}
	usleep(100000);
	EXPECT_EQ(0, kill(pid, SIGKILL));
	EXPECT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_TRUE(WIFSIGNALED(status));
}

TEST_F(count, a_tick_that_makes_no_sense_is_refused)
{
	EXPECT_EQ(-EINVAL, sim_put("cpu0/tick", "nothing"));
	EXPECT_EQ(-EINVAL, sim_put("cpu0/tick", "8 1"));
	EXPECT_EQ(-EINVAL, sim_put("cpu0/tick", "-1 1"));
	EXPECT_EQ(-ENODEV, sim_put("cpu0/tick", "pmusim_none 0 1"));
	EXPECT_EQ(-EINVAL, sim_put("cpu0/tick", "pmusim_aux 1 8"));
	EXPECT_EQ(-EINVAL, sim_put("cpu0/tick", "pmusim_aux 0 7"));
	EXPECT_EQ(-EINVAL, sim_put("pmusim/nr_counters", "0"));
	EXPECT_EQ(-EINVAL, sim_put("pmusim/nr_counters", "9"));
	EXPECT_EQ(-EINVAL, sim_put("pmusim/capabilities", "gate_nmi"));
	EXPECT_EQ(-EINVAL, sim_put("pmusim/capabilities", "+none"));
	EXPECT_EQ(-EOPNOTSUPP, sim_put("pmusim_unc/capabilities", "+no_exclude"));
}

#define load(x) __atomic_load_n(&(x), __ATOMIC_RELAXED)

/* The loop that Documentation and the header tell readers to use. */
static __u64 read_user_page(struct perf_event_mmap_page *page, const __u64 *reg,
			    unsigned int width)
{
	__u32 seq, index;
	__u64 count;
	__s64 pmc;

	do {
		seq = load(page->lock);
		__sync_synchronize();
		index = load(page->index);
		count = load(page->offset);
		if (index) {
			pmc = load(reg[index - 1]);
			pmc <<= 64 - width;
			pmc >>= 64 - width;
			count += pmc;
		}
		__sync_synchronize();
	} while (load(page->lock) != seq);

	return count;
}

static void *tick_for_ever(void *stop)
{
	/* Run on the other CPU if there is one, otherwise in turns. */
	run_on(1);
	while (!__atomic_load_n((int *)stop, __ATOMIC_RELAXED)) {
		if (sim_tick(0, 0, 3))
			break;
	}
	return NULL;
}

FIXTURE(user_page)
{
	const __u64 *reg;
};

FIXTURE_VARIANT(user_page)
{
	unsigned int width;
	int context;
};

FIXTURE_VARIANT_ADD(user_page, bits_48) { .width = 48, .context = SIM_HARDIRQ };

FIXTURE_VARIANT_ADD(user_page, bits_9) { .width = 9, .context = SIM_HARDIRQ };

FIXTURE_VARIANT_ADD(user_page, bits_9_nmi) { .width = 9, .context = SIM_NMI_LIKE };

FIXTURE_SETUP(user_page)
{
	void *mem;
	int fd;

	if (sim_skips(_metadata))
		return;
	ASSERT_EQ(0, run_on(0));
	fd = open(SIM_DIR "/pmusim/counters", O_RDONLY);
	ASSERT_LE(0, fd);
	EXPECT_EQ(MAP_FAILED, mmap(NULL, page_size(), PROT_READ | PROT_WRITE,
				   MAP_SHARED, fd, 0));
	mem = mmap(NULL, page_size(), PROT_READ, MAP_SHARED, fd, 0);
	ASSERT_NE(MAP_FAILED, mem);
	EXPECT_EQ(-1, mprotect(mem, page_size(), PROT_READ | PROT_WRITE));
	close(fd);
	self->reg = mem;
}

FIXTURE_TEARDOWN(user_page)
{
	sim_defaults();
}

TEST_F(user_page, the_count_never_goes_backwards)
{
	__u64 config = SIM_WIDTH(variant->width) | SIM_OFLOW(variant->context);
	struct perf_event_attr attr = sim_attr("pmusim", config);
	const __u64 end = now_ns() + 10000000000ULL;
	unsigned int i, changes = 0;
	__u64 count, last = 0;
	struct sim_ring ring;
	pthread_t thread;
	int fd, stop = 0;

	fd = sim_open(&attr, 0, -1, -1);
	if (fd == -EOPNOTSUPP)
		SKIP(return, "pmusim is a module");
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, ring_map(&ring, fd, 0));
	ASSERT_EQ(0, pthread_create(&thread, NULL, tick_for_ever, &stop));

	/* The thread may have to wait for its turn. */
	for (i = 0; i < 1000000 || (!changes && now_ns() < end); i++) {
		count = read_user_page(ring.page, self->reg, variant->width);
		if (count < last)
			break;
		changes += count != last;
		last = count;
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	EXPECT_LE(last, count) {
		TH_LOG("%llu after %llu", count, last);
	}
	EXPECT_LT(0, changes);
	EXPECT_EQ(sim_count(fd), read_user_page(ring.page, self->reg, variant->width));
}

TEST_F(user_page, it_has_no_index_while_the_event_is_stopped)
{
	struct perf_event_attr attr = sim_attr("pmusim", SIM_MASK(0x4));
	struct sim_ring ring;
	int fd;

	fd = sim_open(&attr, 0, -1, -1);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, ring_map(&ring, fd, 0));
	EXPECT_EQ(3, ring.page->index);
	ASSERT_EQ(0, sim_tick(0, 2, 99));
	ASSERT_EQ(0, sim_disable(fd));
	EXPECT_EQ(0, ring.page->index);
	EXPECT_EQ(99, ring.page->offset);
}

TEST_HARNESS_MAIN
