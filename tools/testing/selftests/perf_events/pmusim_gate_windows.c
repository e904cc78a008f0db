// SPDX-License-Identifier: GPL-2.0
/*
 * pmusim selftests - windows that overflows open and close, as histograms and records
 *
 * The tests cover each context that an overflow can come in. Where the PMU of the target
 * may not be read there, irq_work ends the window.
 */
#define _GNU_SOURCE

#include "../kselftest_harness.h"
#include "pmusim_helpers.h"
#include "gate_windows.h"

/* The counters that the events are on */
enum { TARGET, STARTER, STOPPER, NR_EVENTS };

#define NR_WINDOWS	40

FIXTURE(windows)
{
	int fd[NR_EVENTS];
};

FIXTURE_VARIANT(windows)
{
	int context;
	const char *cap;
};

FIXTURE_VARIANT_ADD(windows, hardirq) { .context = SIM_HARDIRQ, .cap = "+gate_nmi" };

FIXTURE_VARIANT_ADD(windows, irq_work) { .context = SIM_IRQ_WORK, .cap = "+gate_nmi" };

FIXTURE_VARIANT_ADD(windows, task) { .context = SIM_TASK, .cap = "+gate_nmi" };

FIXTURE_VARIANT_ADD(windows, nmi) { .context = SIM_NMI, .cap = "+gate_nmi" };

FIXTURE_VARIANT_ADD(windows, hardirq_later) { .context = SIM_HARDIRQ, .cap = "-gate_nmi" };

FIXTURE_VARIANT_ADD(windows, nmi_later) { .context = SIM_NMI, .cap = "-gate_nmi" };

FIXTURE_SETUP(windows)
{
	struct perf_event_attr attr;
	int i;

	memset(self->fd, 0xff, sizeof(self->fd));
	if (sim_skips(_metadata))
		return;
	ASSERT_EQ(0, run_on(0));
	ASSERT_EQ(0, sim_put("pmusim/capabilities", variant->cap));
	for (i = 0; i < NR_EVENTS; i++) {
		attr = sim_attr("pmusim", SIM_MASK(1 << i) | SIM_OFLOW(variant->context));
		attr.sample_period = i == TARGET ? 0 : 1;
		self->fd[i] = sim_open(&attr, -1, 0, -1);
		if (self->fd[i] == -EOPNOTSUPP && variant->context == SIM_NMI) {
			sim_put("pmusim/capabilities", "+gate_nmi");
			SIM_SKIP("pmusim is a module, or this machine sends itself no NMIs");
		}
		ASSERT_LE(0, self->fd[i]);
	}
	ASSERT_EQ(0, sim_ioctl(self->fd[STARTER], PERF_EVENT_IOC_SET_STARTER,
			       self->fd[TARGET]));
	ASSERT_EQ(0, sim_ioctl(self->fd[STOPPER], PERF_EVENT_IOC_SET_STOPPER,
			       self->fd[TARGET]));
}

FIXTURE_TEARDOWN(windows)
{
	int i;

	for (i = 0; i < NR_EVENTS; i++)
		close(self->fd[i]);
	sim_put("pmusim/capabilities", "+gate_nmi");
	sim_defaults();
}

/* Work that a trigger defers is done in irq_work, which has run when a timer has. */
static int trigger(int counter, const char *cap)
{
	int ret = sim_tick(0, counter, 1);

	if (*cap == '-')
		sleep_ms(1);
	return ret;
}

TEST_F(windows, each_window_is_in_its_bucket_and_has_a_record)
{
	__u64 notes[NR_BUCKETS] = {}, sum = 0, last = 0;
	struct histogram histogram;
	static struct sim_record record;
	struct gate_record *window;
	struct sim_ring ring;
	unsigned int i;

	ASSERT_EQ(0, ring_map(&ring, self->fd[TARGET], 16));
	ASSERT_EQ(0, set_windows(self->fd[TARGET], PERF_WINDOWS_HISTOGRAM | PERF_WINDOWS_RECORD,
				 PERF_WINDOWS_COUNT, 30));
	for (i = 1; i <= NR_WINDOWS; i++) {
		ASSERT_EQ(0, sim_tick(0, TARGET, 1000));
		ASSERT_EQ(0, trigger(STARTER, variant->cap));
		ASSERT_EQ(0, sim_tick(0, TARGET, i));
		ASSERT_EQ(0, trigger(STOPPER, variant->cap));
		notes[perf_event_histogram_bucket(i)]++;
		sum += i;
		/* Fire rarely enough to avoid throttling. */
		sleep_ms(1);
	}
	histogram = read_histogram(_metadata, self->fd[TARGET]);
	EXPECT_EQ(NR_WINDOWS, histogram.windows);
	EXPECT_EQ(0, histogram.missed);
	EXPECT_EQ(sum, histogram.sum);
	for (i = 0; i < NR_BUCKETS; i++)
		EXPECT_EQ(notes[i], histogram.bucket[i]);
	for (i = 30; i <= NR_WINDOWS; i++) {
		ASSERT_TRUE(ring_next(&ring, &record));
		ASSERT_EQ(PERF_RECORD_GATE, record.header.type);
		window = (struct gate_record *)&record;
		EXPECT_EQ(i, window->value);
		EXPECT_LE(last, window->opened);
		EXPECT_LE(window->opened, window->closed);
		last = window->closed;
	}
	EXPECT_FALSE(ring_next(&ring, &record));
	ring_unmap(&ring);
}

/*
 * A sampling event that its PMU starts only when interrupts are on again has not counted at
 * the beginning of the window, so the window has no value and is not in the histogram.
 */
TEST_F(windows, window_in_which_the_event_starts_late_is_missed)
{
	struct perf_event_attr attr = sim_attr("pmusim", SIM_MASK(1 << TARGET));
	struct histogram histogram;
	unsigned int i;

	if (variant->context != SIM_HARDIRQ || *variant->cap == '-')
		SKIP(return, "needs a trigger that fires with interrupts off");
	for (i = 0; i < NR_EVENTS; i++)
		close(self->fd[i]);
	ASSERT_EQ(0, sim_put("pmusim/capabilities", "+gate_stop"));
	attr.sample_period = 1ULL << 40;
	self->fd[TARGET] = sim_open(&attr, -1, 0, -1);
	ASSERT_LE(0, self->fd[TARGET]);
	for (i = STARTER; i < NR_EVENTS; i++) {
		attr = sim_attr("pmusim", SIM_MASK(1 << i) | SIM_OFLOW(variant->context));
		attr.sample_period = 1;
		self->fd[i] = sim_open(&attr, -1, 0, -1);
		ASSERT_LE(0, self->fd[i]);
		ASSERT_EQ(0, sim_ioctl(self->fd[i], i == STARTER ? PERF_EVENT_IOC_SET_STARTER :
				       PERF_EVENT_IOC_SET_STOPPER, self->fd[TARGET]));
	}
	ASSERT_EQ(0, set_windows(self->fd[TARGET], PERF_WINDOWS_HISTOGRAM,
				 PERF_WINDOWS_COUNT, 0));
	for (i = 0; i < 10; i++) {
		ASSERT_EQ(0, trigger(STARTER, variant->cap));
		sleep_ms(1);
		ASSERT_EQ(0, sim_tick(0, TARGET, 5));
		ASSERT_EQ(0, trigger(STOPPER, variant->cap));
		sleep_ms(1);
	}
	histogram = read_histogram(_metadata, self->fd[TARGET]);
	EXPECT_EQ(0, histogram.windows);
	EXPECT_EQ(10, histogram.missed);
	for (i = 0; i < NR_EVENTS; i++) {
		close(self->fd[i]);
		self->fd[i] = -1;
	}
	EXPECT_EQ(0, sim_put("pmusim/capabilities", "-gate_stop"));
}

TEST_HARNESS_MAIN
