// SPDX-License-Identifier: GPL-2.0
/*
 * pmusim selftests - gates that overflows move from any context, of counters that
 * are stopped or only read, and of AUX areas
 */
#define _GNU_SOURCE

#include <time.h>

#include "../kselftest_harness.h"
#include "pmusim_helpers.h"

#define PERIOD		100
#define NR_WINDOWS	50
#define NR_INSIDE	70
#define NR_OUTSIDE	30
#define AUX_PAGES	64

#ifndef PERF_EVENT_IOC_SET_STARTER
#define PERF_EVENT_IOC_SET_STARTER	_IO('$', 12)
#define PERF_EVENT_IOC_SET_STOPPER	_IO('$', 13)
#define PERF_EVENT_IOC_CLEAR_GATE	_IO('$', 14)
#define PERF_EVENT_IOC_JOIN_GATE	_IO('$', 17)
#endif

/* Counters in the order in which the events are opened. */
enum { STARTER, STOPPER, TARGET };

FIXTURE(gate)
{
	struct perf_event_attr trigger;
	struct sim_ring ring;
	int starter, stopper;
	int target;
};

FIXTURE_VARIANT(gate)
{
	int context;
	/* Capabilities of the PMU */
	bool nmi, stop, overflow;
};

FIXTURE_VARIANT_ADD(gate, hardirq) { .context = SIM_HARDIRQ };
FIXTURE_VARIANT_ADD(gate, irq_work) { .context = SIM_IRQ_WORK };
FIXTURE_VARIANT_ADD(gate, softirq) { .context = SIM_SOFTIRQ };
FIXTURE_VARIANT_ADD(gate, task) { .context = SIM_TASK };
FIXTURE_VARIANT_ADD(gate, nmi_like) { .context = SIM_NMI_LIKE };
FIXTURE_VARIANT_ADD(gate, nmi) { .context = SIM_NMI };
FIXTURE_VARIANT_ADD(gate, hardirq_read) { .context = SIM_HARDIRQ, .nmi = true };
FIXTURE_VARIANT_ADD(gate, nmi_read) { .context = SIM_NMI, .nmi = true };

FIXTURE_VARIANT_ADD(gate, hardirq_stop) {
	.context = SIM_HARDIRQ, .nmi = true, .stop = true, .overflow = true
};

FIXTURE_VARIANT_ADD(gate, hardirq_stop_later) {
	.context = SIM_HARDIRQ, .nmi = true, .stop = true
};

FIXTURE_VARIANT_ADD(gate, softirq_stop) {
	.context = SIM_SOFTIRQ, .nmi = true, .stop = true, .overflow = true
};

FIXTURE_VARIANT_ADD(gate, nmi_like_stop) {
	.context = SIM_NMI_LIKE, .nmi = true, .stop = true, .overflow = true
};

FIXTURE_VARIANT_ADD(gate, nmi_stop) {
	.context = SIM_NMI, .nmi = true, .stop = true, .overflow = true
};

FIXTURE_VARIANT_ADD(gate, nmi_stop_later) {
	.context = SIM_NMI, .nmi = true, .stop = true
};

static int set_both(int starter, int stopper, int target)
{
	int ret = sim_ioctl(starter, PERF_EVENT_IOC_SET_STARTER, target);

	return ret ?: sim_ioctl(stopper, PERF_EVENT_IOC_SET_STOPPER, target);
}

/* No event of the PMU may be open. */
static int set_capabilities(bool nmi, bool stop, bool overflow)
{
	int ret = sim_put("pmusim/capabilities", "%cgate_nmi", nmi ? '+' : '-');

	ret = ret ?: sim_put("pmusim/capabilities", "%cgate_stop", stop ? '+' : '-');
	return ret ?: sim_put("pmusim/capabilities", "%cgate_overflow", overflow ? '+' : '-');
}

FIXTURE_SETUP(gate)
{
	int ret;

	if (sim_skips(_metadata))
		return;
	ret = set_capabilities(variant->nmi, variant->stop, variant->overflow);
	if (ret == -EOPNOTSUPP)
		SIM_SKIP("a kernel without gates");
	ASSERT_EQ(0, ret);
	/* An interrupt of the CPU of the events ends a sleep here. */
	ASSERT_EQ(0, run_on(0));
	self->trigger = sim_attr("pmusim", SIM_OFLOW(variant->context));
	self->trigger.sample_period = PERIOD;
	self->starter = sim_open(&self->trigger, -1, 0, -1);
	if (self->starter == -EOPNOTSUPP && variant->context >= SIM_NMI_LIKE) {
		set_capabilities(true, false, false);
		SIM_SKIP("pmusim is a module, or this machine sends itself no NMIs");
	}
	ASSERT_LE(0, self->starter);
	self->stopper = sim_open(&self->trigger, -1, 0, -1);
	ASSERT_LE(0, self->stopper);
}

FIXTURE_TEARDOWN(gate)
{
	ring_unmap(&self->ring);
	close(self->target);
	close(self->stopper);
	close(self->starter);
	EXPECT_EQ(0, set_capabilities(true, false, false));
	sim_defaults();
}

/*
 * When the sleep is over, deferred overflows are handled, and gates whose PMU cannot be
 * read at once are settled.
 */
static int fire(int counter, bool later)
{
	int ret = sim_tick(0, counter, PERIOD);

	if (later)
		sleep_ms(5);
	return ret;
}

/* The answer to a read of an event with PERF_FORMAT_LOST alone */
struct count_and_lost {
	__u64 count, lost;
};

/*
 * Stay on the CPU until the kernel has delivered a sample of @target or lost one more than in
 * @value, at most 2 s of its time. Return the number of both, and read @target into @value.
 */
static unsigned int spin_for_samples(struct sim_ring *ring, int target,
				     struct count_and_lost *value)
{
	clock_t end = clock() + 2 * CLOCKS_PER_SEC;
	__u64 lost = value->lost;
	unsigned int n;

	do {
		n = ring_count(ring, PERF_RECORD_SAMPLE);
		if (read(target, value, sizeof(*value)) != sizeof(*value))
			return 0;
	} while (!n && value->lost == lost && clock() < end);
	return n + value->lost - lost;
}

static bool moves_later(int context, bool nmi)
{
	return !nmi || context == SIM_SOFTIRQ || context == SIM_TASK;
}

/* Tell whether a sampling target that can be stopped is stopped only after the overflow. */
static bool stops_later(const FIXTURE_VARIANT(gate) * variant)
{
	return moves_later(variant->context, variant->nmi) ||
	       (variant->stop && !variant->overflow);
}

static int run_windows(bool later, unsigned int times)
{
	int ret = 0;

	while (times-- && !ret) {
		ret = ret ?: sim_tick(0, TARGET, NR_OUTSIDE);
		ret = ret ?: fire(STARTER, later);
		ret = ret ?: sim_tick(0, TARGET, NR_INSIDE);
		ret = ret ?: fire(STOPPER, later);
	}
	return ret ?: sim_tick(0, TARGET, NR_OUTSIDE);
}

TEST_F(gate, counting_target_counts_what_is_inside)
{
	struct perf_event_attr attr = sim_attr("pmusim", SIM_MANUAL);

	self->target = sim_open(&attr, -1, 0, -1);
	ASSERT_LE(0, self->target);
	ASSERT_EQ(0, set_both(self->starter, self->stopper, self->target));
	ASSERT_EQ(0, run_windows(moves_later(variant->context, variant->nmi), NR_WINDOWS));
	EXPECT_EQ(NR_WINDOWS * NR_INSIDE, sim_count(self->target));
}

TEST_F(gate, sampling_target_samples_what_is_inside)
{
	struct perf_event_attr attr = sim_attr("pmusim", SIM_OFLOW(SIM_HARDIRQ));
	unsigned int n, want;

	attr.sample_period = 1;
	self->target = sim_open(&attr, -1, 0, -1);
	ASSERT_LE(0, self->target);
	ASSERT_EQ(0, ring_map(&self->ring, self->target, 64));
	ASSERT_EQ(0, set_both(self->starter, self->stopper, self->target));
	ASSERT_EQ(0, run_windows(stops_later(variant), 10));
	want = 10 * NR_INSIDE;
	EXPECT_EQ(want, sim_count(self->target));
	n = ring_count(&self->ring, PERF_RECORD_SAMPLE);
	EXPECT_EQ(want, n);
}

/* A PMU that cannot be stopped continues its period between the windows. */
TEST_F(gate, period_of_a_stopped_target_counts_what_is_inside)
{
	struct perf_event_attr attr = sim_attr("pmusim", SIM_OFLOW(SIM_HARDIRQ));
	unsigned int n, want;

	attr.sample_period = PERIOD;
	self->target = sim_open(&attr, -1, 0, -1);
	ASSERT_LE(0, self->target);
	ASSERT_EQ(0, ring_map(&self->ring, self->target, 8));
	ASSERT_EQ(0, set_both(self->starter, self->stopper, self->target));
	ASSERT_EQ(0, run_windows(stops_later(variant), NR_WINDOWS));
	EXPECT_EQ(NR_WINDOWS * NR_INSIDE, sim_count(self->target));
	/* Otherwise each period ends with a window. */
	want = variant->stop ? NR_WINDOWS * NR_INSIDE / PERIOD : NR_WINDOWS;
	n = ring_count(&self->ring, PERF_RECORD_SAMPLE);
	EXPECT_EQ(want, n);
}

/* The interrupt of the target comes when it has counted more, so the gate closes first. */
TEST_F(gate, overflow_that_the_window_ends_before_its_interrupt_is_sampled)
{
	struct perf_event_attr attr = sim_attr("pmusim", SIM_OFLOW(SIM_HARDIRQ));
	bool later = stops_later(variant);
	struct count_and_lost value = {};
	__u64 lost, switches;
	int i;

	if (!variant->stop)
		SKIP(return, "a PMU that counts on drops the sample of its interrupt");
	attr.sample_period = PERIOD;
	attr.read_format = PERF_FORMAT_LOST;
	attr.config1 = SIM_SKID(30);
	self->target = sim_open(&attr, -1, 0, -1);
	ASSERT_LE(0, self->target);
	ASSERT_EQ(0, ring_map(&self->ring, self->target, 8));
	ASSERT_EQ(0, set_both(self->starter, self->stopper, self->target));
	for (i = 0; i < 10; i++) {
		ASSERT_EQ(0, fire(STARTER, later));
		ASSERT_EQ(0, sim_tick(0, TARGET, PERIOD - 1));
		ASSERT_EQ(0, fire(STOPPER, later));
		EXPECT_EQ(0, ring_count(&self->ring, PERF_RECORD_SAMPLE));
		ASSERT_EQ(0, fire(STARTER, later));
		ASSERT_EQ(0, sim_tick(0, TARGET, 1));
		/*
		 * irq_work delivers it while this task is on the CPU, for which PowerPC waits
		 * for a timer. If ksoftirqd closed the gate or another task was on the CPU
		 * meanwhile, the kernel counts the sample as lost.
		 */
		switches = nr_switches();
		lost = value.lost;
		ASSERT_EQ(0, fire(STOPPER, false));
		EXPECT_EQ(1, spin_for_samples(&self->ring, self->target, &value));
		if (nr_switches() == switches)
			EXPECT_EQ(lost, value.lost);
		if (later)
			sleep_ms(5);
		ASSERT_EQ(0, sim_tick(0, TARGET, 3 * PERIOD));
		EXPECT_EQ(0, ring_count(&self->ring, PERF_RECORD_SAMPLE));
	}
	ASSERT_EQ(sizeof(value), read(self->target, &value, sizeof(value)));
	EXPECT_EQ(10 * PERIOD, value.count);
}

/*
 * Starts and stops of the target alternate in the log. The entry of a trigger's overflow follows
 * the start or stop that it causes only if the PMU allows these in an overflow.
 */
TEST_F(gate, driver_sees_starts_and_stops_in_turn)
{
	struct perf_event_attr attr = sim_attr("pmusim", SIM_OFLOW(SIM_HARDIRQ));
	unsigned int nr_starts = 0, nr_stops = 0, nr_fired = 0;
	struct sim_log line;
	bool running = false;
	FILE *log;
	__u64 id;

	attr.sample_period = PERIOD;
	self->target = sim_open(&attr, -1, 0, -1);
	ASSERT_LE(0, self->target);
	id = sim_id(self->target);
	ASSERT_EQ(0, set_both(self->starter, self->stopper, self->target));
	ASSERT_EQ(0, log_on());
	ASSERT_EQ(0, run_windows(stops_later(variant), 20));
	log = log_open();
	ASSERT_NE(NULL, log);
	while (log_next(log, &line)) {
		if (line.id != id) {
			nr_fired += !strcmp(line.op, "overflow");
			continue;
		}
		if (!strcmp(line.op, "start")) {
			EXPECT_FALSE(running);
			EXPECT_EQ(variant->overflow, nr_fired == nr_starts + nr_stops);
			running = true;
			nr_starts++;
		} else if (!strcmp(line.op, "stop")) {
			EXPECT_TRUE(running);
			EXPECT_EQ(variant->overflow, nr_fired == nr_starts + nr_stops);
			running = false;
			nr_stops++;
		}
	}
	fclose(log);
	EXPECT_EQ(40, nr_fired);
	EXPECT_EQ(variant->stop ? 20 : 0, nr_starts);
	EXPECT_EQ(nr_starts, nr_stops);
}

FIXTURE(gate_aux)
{
	struct perf_event_attr attr;
	struct sim_ring ring;
	int target, starter, stopper;
};

FIXTURE_VARIANT(gate_aux)
{
	int context;
};

FIXTURE_VARIANT_ADD(gate_aux, hardirq) { .context = SIM_HARDIRQ };
FIXTURE_VARIANT_ADD(gate_aux, nmi_like) { .context = SIM_NMI_LIKE };
FIXTURE_VARIANT_ADD(gate_aux, nmi) { .context = SIM_NMI };

FIXTURE_SETUP(gate_aux)
{
	struct perf_event_attr trigger;

	if (sim_skips(_metadata))
		return;
	trigger = sim_attr("pmusim", SIM_OFLOW(variant->context));
	trigger.sample_period = PERIOD;
	self->starter = sim_open(&trigger, -1, 0, -1);
	if (self->starter == -EOPNOTSUPP && variant->context >= SIM_NMI_LIKE)
		SIM_SKIP("pmusim is a module, or this machine sends itself no NMIs");
	ASSERT_LE(0, self->starter);
	self->stopper = sim_open(&trigger, -1, 0, -1);
	ASSERT_LE(0, self->stopper);
	self->attr = sim_attr("pmusim_aux", 0);
}

FIXTURE_TEARDOWN(gate_aux)
{
	ring_unmap(&self->ring);
	sim_defaults();
}

static int open_aux(struct perf_event_attr *attr, struct sim_ring *ring)
{
	int fd = sim_open(attr, -1, 0, -1);
	int ret;

	if (fd < 0)
		return fd;
	ret = ring_map(ring, fd, 8);
	if (!ret)
		ret = ring_map_aux(ring, AUX_PAGES * page_size(), PROT_READ | PROT_WRITE);
	return ret ?: fd;
}

static int tick_aux(unsigned long long bytes)
{
	return sim_tick_pmu("pmusim_aux", 0, 0, bytes);
}

TEST_F(gate_aux, bytes_come_only_in_windows)
{
	unsigned int i;
	__u64 sum = 0;

	self->target = open_aux(&self->attr, &self->ring);
	ASSERT_LE(0, self->target);
	ASSERT_EQ(0, set_both(self->starter, self->stopper, self->target));
	/* The event would stop without room for the stream. */
	ASSERT_EQ(0, sim_disable(self->target));
	ASSERT_EQ(0, sim_enable(self->target));
	for (i = 1; i < 50; i++) {
		ASSERT_EQ(0, tick_aux(1024));
		ASSERT_EQ(0, sim_tick(0, STARTER, PERIOD));
		ASSERT_EQ(0, tick_aux(i * SIM_WORD));
		sum += i * SIM_WORD;
		ASSERT_EQ(0, sim_tick(0, STOPPER, PERIOD));
		ASSERT_EQ(0, tick_aux(2048));
	}
	ASSERT_EQ(0, sim_disable(self->target));
	EXPECT_EQ(sum, aux_head(&self->ring));
	EXPECT_TRUE(aux_drain(&self->ring));
}

/* The events that pause and resume the AUX event are members of its group. */
TEST_F(gate_aux, it_traces_while_open_and_resumed)
{
	struct perf_event_attr pause = sim_attr("pmusim", SIM_OFLOW(variant->context));
	struct perf_event_attr resume;
	int fd_pause, fd_resume;
	unsigned int step;
	__u64 sum = 0;

	self->attr.disabled = 1;
	self->target = open_aux(&self->attr, &self->ring);
	ASSERT_LE(0, self->target);
	pause.sample_period = PERIOD;
	resume = pause;
	pause.aux_pause = 1;
	resume.aux_resume = 1;
	fd_pause = sim_open(&pause, -1, 0, self->target);
	ASSERT_LE(0, fd_pause);
	fd_resume = sim_open(&resume, -1, 0, self->target);
	ASSERT_LE(0, fd_resume);
	ASSERT_EQ(0, set_both(self->starter, self->stopper, self->target));
	ASSERT_EQ(0, sim_enable(self->target));

	for (step = 0; step < 64; step++) {
		bool open = step & 1, resumed = step & 2;

		ASSERT_EQ(0, sim_tick(0, open ? STARTER : STOPPER, PERIOD));
		ASSERT_EQ(0, sim_tick(0, resumed ? 3 : 2, PERIOD));
		ASSERT_EQ(0, tick_aux(64));
		if (open && resumed)
			sum += 64;
		/* The same in the other order. */
		ASSERT_EQ(0, sim_tick(0, resumed ? 2 : 3, PERIOD));
		ASSERT_EQ(0, sim_tick(0, open ? STOPPER : STARTER, PERIOD));
		ASSERT_EQ(0, tick_aux(64));
		if (!open && !resumed)
			sum += 64;
	}
	ASSERT_EQ(0, sim_disable(self->target));
	EXPECT_EQ(sum, aux_head(&self->ring));
	EXPECT_TRUE(aux_drain(&self->ring));
}

TEST_F(gate_aux, being_disabled_and_enabled_does_not_open_it)
{
	self->target = open_aux(&self->attr, &self->ring);
	ASSERT_LE(0, self->target);
	ASSERT_EQ(0, set_both(self->starter, self->stopper, self->target));
	ASSERT_EQ(0, sim_disable(self->target));
	ASSERT_EQ(0, sim_enable(self->target));
	ASSERT_EQ(0, tick_aux(512));
	ASSERT_EQ(0, sim_disable(self->target));
	EXPECT_EQ(0, aux_head(&self->ring));
	/* The event is enabled in an open window. */
	ASSERT_EQ(0, sim_tick(0, STARTER, PERIOD));
	ASSERT_EQ(0, sim_enable(self->target));
	ASSERT_EQ(0, tick_aux(512));
	ASSERT_EQ(0, sim_disable(self->target));
	EXPECT_EQ(512, aux_head(&self->ring));
}

TEST_F(gate_aux, pmu_that_cannot_pause_is_no_target)
{
	struct perf_event_attr attr = sim_attr("pmusim_aux_nosg", 0);
	int fd;

	fd = sim_open(&attr, -1, 0, -1);
	ASSERT_LE(0, fd);
	EXPECT_EQ(-EOPNOTSUPP, sim_ioctl(self->starter, PERF_EVENT_IOC_SET_STARTER, fd));
	EXPECT_EQ(-EOPNOTSUPP, sim_ioctl(self->stopper, PERF_EVENT_IOC_SET_STOPPER, fd));
}

TEST_F(gate_aux, aux_event_is_no_trigger)
{
	struct perf_event_attr attr = sim_attr("pmusim", SIM_MANUAL);
	int fd;

	self->target = open_aux(&self->attr, &self->ring);
	ASSERT_LE(0, self->target);
	fd = sim_open(&attr, -1, 0, -1);
	ASSERT_LE(0, fd);
	EXPECT_EQ(-EINVAL, sim_ioctl(self->target, PERF_EVENT_IOC_SET_STARTER, fd));
}

FIXTURE(gate_uncore)
{
	int unused;
};

FIXTURE_SETUP(gate_uncore)
{
	if (sim_skips(_metadata))
		return;
	if (access(SIM_ONLINE, W_OK) || sim_uncore_cpu() != 1)
		SIM_SKIP("pmusim_unc is not on a CPU that can go offline");
	if (sim_put("pmusim/capabilities", "-gate_stop"))
		SIM_SKIP("a kernel without gates");
	ASSERT_EQ(0, run_on(0));
}

FIXTURE_TEARDOWN(gate_uncore)
{
	sim_set_online(1);
	sim_defaults();
}

/* Open a trigger for the CPU of an uncore event. */
static int open_trigger(int cpu)
{
	struct perf_event_attr attr = sim_attr("pmusim", 0);

	attr.sample_period = 100;
	return sim_open(&attr, -1, cpu, -1);
}

/* The trigger does not move with the event, and the gate keeps its state. */
TEST_F(gate_uncore, gates_stay_as_they_are_elsewhere)
{
	struct perf_event_attr attr = sim_attr("pmusim_unc", 0);
	int starter, target, member, alone;

	alone = sim_open(&attr, -1, 1, -1);
	ASSERT_LE(0, alone);
	attr.start_paused = 1;
	target = sim_open(&attr, -1, 1, -1);
	ASSERT_LE(0, target);
	member = sim_open(&attr, -1, 1, -1);
	ASSERT_LE(0, member);
	starter = open_trigger(1);
	ASSERT_LE(0, starter);
	ASSERT_EQ(0, sim_ioctl(starter, PERF_EVENT_IOC_SET_STARTER, target));
	ASSERT_EQ(0, sim_ioctl(member, PERF_EVENT_IOC_JOIN_GATE, target));
	ASSERT_EQ(0, sim_tick_pmu("pmusim_unc", 1, 0, 7));
	ASSERT_EQ(0, sim_tick_pmu("pmusim_unc", 1, 1, 7));
	ASSERT_EQ(0, sim_tick_pmu("pmusim_unc", 1, 2, 7));
	EXPECT_EQ(7, sim_count(alone));

	ASSERT_EQ(0, sim_set_online(0));
	close(starter);
	for (unsigned int i = 0; i < 3; i++)
		ASSERT_EQ(0, sim_tick_pmu("pmusim_unc", 0, i, 20));
	EXPECT_EQ(27, sim_count(alone));
	EXPECT_EQ(0, sim_count(target));
	EXPECT_EQ(0, sim_count(member));

	/* Old links do not prevent new ones. */
	starter = open_trigger(0);
	ASSERT_LE(0, starter);
	ASSERT_EQ(0, sim_ioctl(starter, PERF_EVENT_IOC_SET_STARTER, target));
	ASSERT_EQ(0, sim_tick(0, 0, 100));
	sleep_ms(5);
	for (unsigned int i = 0; i < 3; i++)
		ASSERT_EQ(0, sim_tick_pmu("pmusim_unc", 0, i, 5));
	EXPECT_EQ(5, sim_count(target));
	EXPECT_EQ(0, sim_count(member));
	ASSERT_EQ(0, sim_ioctl(member, PERF_EVENT_IOC_JOIN_GATE, target));
	sleep_ms(5);
	for (unsigned int i = 0; i < 3; i++)
		ASSERT_EQ(0, sim_tick_pmu("pmusim_unc", 0, i, 3));
	EXPECT_EQ(8, sim_count(target));
	EXPECT_EQ(3, sim_count(member));
	EXPECT_EQ(35, sim_count(alone));

	/* The gate is open when the event moves back, and stays open. */
	ASSERT_EQ(0, sim_set_online(1));
	for (unsigned int i = 0; i < 3; i++)
		ASSERT_EQ(0, sim_tick_pmu("pmusim_unc", 1, i, 2));
	EXPECT_EQ(10, sim_count(target));
	EXPECT_EQ(5, sim_count(member));
	EXPECT_EQ(37, sim_count(alone));
	close(starter);
	close(alone);
	close(target);
	close(member);
}

TEST_HARNESS_MAIN
