// SPDX-License-Identifier: GPL-2.0
/*
 * pmusim selftests - overflows open and close the gate of a counter, exactly
 *
 * The tests cover each context of an overflow, and targets whose PMU may or may
 * not be read in an NMI.
 */
#define _GNU_SOURCE

#include "../kselftest_harness.h"
#include "pmusim_helpers.h"

#ifndef PERF_EVENT_IOC_SET_STARTER
#define PERF_EVENT_IOC_SET_STARTER	_IO('$', 12)
#define PERF_EVENT_IOC_SET_STOPPER	_IO('$', 13)
#endif

/* The counters that the events are on */
enum { TARGET, STARTER, STOPPER, NR_EVENTS };

FIXTURE(gate)
{
	int fd[NR_EVENTS];
};

FIXTURE_VARIANT(gate)
{
	int context;
	const char *cap;
};

FIXTURE_VARIANT_ADD(gate, hardirq) { .context = SIM_HARDIRQ, .cap = "+gate_nmi" };

FIXTURE_VARIANT_ADD(gate, irq_work) { .context = SIM_IRQ_WORK, .cap = "+gate_nmi" };

FIXTURE_VARIANT_ADD(gate, softirq) { .context = SIM_SOFTIRQ, .cap = "+gate_nmi" };

FIXTURE_VARIANT_ADD(gate, task) { .context = SIM_TASK, .cap = "+gate_nmi" };

FIXTURE_VARIANT_ADD(gate, nmi_like) { .context = SIM_NMI_LIKE, .cap = "+gate_nmi" };

FIXTURE_VARIANT_ADD(gate, nmi) { .context = SIM_NMI, .cap = "+gate_nmi" };

FIXTURE_VARIANT_ADD(gate, hardirq_later) { .context = SIM_HARDIRQ, .cap = "-gate_nmi" };

FIXTURE_VARIANT_ADD(gate, nmi_like_later) { .context = SIM_NMI_LIKE, .cap = "-gate_nmi" };

FIXTURE_VARIANT_ADD(gate, nmi_later) { .context = SIM_NMI, .cap = "-gate_nmi" };

FIXTURE_SETUP(gate)
{
	struct perf_event_attr attr;

	if (sim_skips(_metadata))
		return;
	ASSERT_EQ(0, run_on(0));
	ASSERT_EQ(0, sim_put("pmusim/capabilities", variant->cap));
	attr = sim_attr("pmusim", SIM_OFLOW(variant->context));
	attr.sample_period = 1;
	self->fd[0] = sim_open(&attr, -1, 0, -1);
	if (self->fd[0] == -EOPNOTSUPP && variant->context >= SIM_NMI_LIKE) {
		sim_put("pmusim/capabilities", "+gate_nmi");
		SIM_SKIP("pmusim is a module, or this machine sends itself no NMIs");
	}
	ASSERT_LE(0, self->fd[0]);
	close(self->fd[0]);
}

FIXTURE_TEARDOWN(gate)
{
	int i;

	for (i = 0; i < NR_EVENTS; i++)
		close(self->fd[i]);
	sim_put("pmusim/capabilities", "+gate_nmi");
	sim_defaults();
}

static int open_events(int *fd, int context, pid_t pid, int cpu)
{
	struct perf_event_attr attr;
	int i, ret;

	for (i = 0; i < NR_EVENTS; i++) {
		attr = sim_attr("pmusim", SIM_MASK(1 << i) | SIM_OFLOW(context));
		attr.sample_period = i == TARGET ? 0 : 1;
		fd[i] = sim_open(&attr, pid, cpu, -1);
		if (fd[i] < 0)
			return fd[i];
	}
	ret = sim_ioctl(fd[STARTER], PERF_EVENT_IOC_SET_STARTER, fd[TARGET]);
	return ret ? ret : sim_ioctl(fd[STOPPER], PERF_EVENT_IOC_SET_STOPPER, fd[TARGET]);
}

/* Work that a trigger defers is done in irq_work, which has run when a timer has. */
static int trigger(int counter, bool later)
{
	int ret = sim_tick(0, counter, 1);

	if (later)
		sleep_ms(1);
	return ret;
}

static void run_windows(struct __test_metadata *_metadata, int fd, bool later)
{
	__u64 sum = 0;
	unsigned int i;

	for (i = 1; i <= 40; i++) {
		ASSERT_EQ(0, sim_tick(0, TARGET, 1000));
		ASSERT_EQ(0, trigger(STARTER, later));
		ASSERT_EQ(0, sim_tick(0, TARGET, i));
		sum += i;
		if (i % 2)
			ASSERT_EQ(sum, sim_count(fd));
		ASSERT_EQ(0, trigger(STOPPER, later));
		ASSERT_EQ(0, sim_tick(0, TARGET, 77));
		ASSERT_EQ(sum, sim_count(fd));
		/* Fire rarely enough to avoid throttling. */
		sleep_ms(1);
	}
}

TEST_F(gate, a_cpu_counts_what_is_between_two_overflows)
{
	int ret = open_events(self->fd, variant->context, -1, 0);

	if (ret == -ENOTTY)
		SKIP(return, "no gates, CONFIG_PERF_EVENTS_GATE");
	ASSERT_EQ(0, ret);
	run_windows(_metadata, self->fd[TARGET], *variant->cap == '-');
}

TEST_F(gate, a_task_counts_what_is_between_two_overflows)
{
	int ret = open_events(self->fd, variant->context, 0, -1);

	if (ret == -ENOTTY)
		SKIP(return, "no gates, CONFIG_PERF_EVENTS_GATE");
	ASSERT_EQ(0, ret);
	run_windows(_metadata, self->fd[TARGET], *variant->cap == '-');
}

TEST_HARNESS_MAIN
