// SPDX-License-Identifier: GPL-2.0
/*
 * Simulated PMUs, to test the core of perf events without hardware.
 *
 *     debugfs tick --.                            .-> hrtimer ---.
 *     clock, timer --+-> counter --- overflow ----+-> irq_work --+
 *     sched_task ----'   counter.c   overflow.c   +-> softirq ---+-> sample
 *                                                 +-> task ------+
 *     debugfs tick --.                            `-> NMI -------'
 *     timer ---------+-> producer -> AUX area           nmi.c
 *     aux_output ----'    aux.c
 *
 * There are PMUs with counters, pmusim and pmusim_unc (uncore.c), and PMUs with an
 * AUX area, pmusim_aux and its flavours. control.c makes them count and fail, and shows
 * their state; log.c records which of their methods the core calls, and in which
 * order.
 *
 * Contexts:  All state belongs to a CPU and is written there with interrupts
 *            off. NMIs handle overflows, pause and resume AUX events and take
 *            snapshots; see struct pmusim_cpu and struct pmusim_aux_cpu for how
 *            they get along with what they interrupt.
 * Lifetime:  An event holds the module, so all are gone when it is unloaded.
 *            The driver's data of an event is freed by perf_event::destroy, when the
 *            event is on no CPU and its timer is stopped.
 * Locking:   None in the methods of the PMUs. A mutex per CPU orders the writers
 *            of ticks, and each PMU's settings change only while it has no event.
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>

#include "pmusim.h"

struct pmusim *pmusim_instances[] = {
	&pmusim_counters,
	&pmusim_uncore,
	&pmusim_aux,
	&pmusim_aux_nosg,
	&pmusim_aux_large,
	&pmusim_aux_excl,
	NULL,
};

/**
 * pmusim_get() - Take a reference to a PMU for a new event
 * @sim:	The PMU
 *
 * Pairs with pmusim_put(). While a PMU has events its settings stay.
 *
 * Context: Process context.
 * Return: 0, or -EBUSY while the settings are being changed.
 */
int pmusim_get(struct pmusim *sim)
{
	return atomic_inc_unless_negative(&sim->events) ? 0 : -EBUSY;
}

/**
 * pmusim_put() - Free the driver's data of an event and drop its reference to the PMU
 * @event:	The event
 *
 * Context: Process context.
 */
void pmusim_put(struct perf_event *event)
{
	kfree(event->pmu_private);
	event->pmu_private = NULL;
	atomic_dec(&to_pmusim(event->pmu)->events);
}

static int __init pmusim_register(struct pmusim *sim)
{
	int ret;

	ret = sim->pmu.setup_aux ? pmusim_aux_setup(sim) :
				   pmusim_counter_setup(sim);
	if (ret)
		return ret;

	ret = perf_pmu_register(&sim->pmu, sim->name, -1);
	if (!ret)
		return 0;

	if (sim->pmu.setup_aux)
		pmusim_aux_teardown(sim);
	else
		pmusim_counter_teardown(sim);
	return ret;
}

static void pmusim_unregister(struct pmusim *sim)
{
	perf_pmu_unregister(&sim->pmu);
	if (sim->pmu.setup_aux)
		pmusim_aux_teardown(sim);
	else
		pmusim_counter_teardown(sim);
}

static int __init pmusim_init(void)
{
	int i, ret;

	ret = pmusim_log_setup();
	if (ret)
		return ret;
	/*
	 * The uncore setup chooses the CPU of new events, so it precedes the
	 * registration of the PMU.
	 */
	ret = pmusim_uncore_setup();
	if (ret)
		goto err_log;

	for (i = 0; pmusim_instances[i]; i++) {
		ret = pmusim_register(pmusim_instances[i]);
		if (ret)
			goto err_unregister;
	}

	pmusim_control_setup();
	pr_info("simulated PMUs for tests, they count nothing that happens in this machine and get no event of PERF_TYPE_HARDWARE\n");
	return 0;

err_unregister:
	while (i--)
		pmusim_unregister(pmusim_instances[i]);
	pmusim_uncore_teardown();
err_log:
	pmusim_log_teardown();
	return ret;
}

static void __exit pmusim_exit(void)
{
	int i;

	pmusim_control_teardown();
	for (i = 0; pmusim_instances[i]; i++)
		pmusim_unregister(pmusim_instances[i]);
	pmusim_uncore_teardown();
	pmusim_log_teardown();
}

module_init(pmusim_init);
module_exit(pmusim_exit);

MODULE_DESCRIPTION("Simulated PMUs for tests of perf events");
MODULE_LICENSE("GPL");
