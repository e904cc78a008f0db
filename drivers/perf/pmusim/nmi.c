// SPDX-License-Identifier: GPL-2.0
/*
 * Simulated PMUs: overflows in a real NMI.
 *
 * The local APIC sends an NMI to its own CPU. It lands between two instructions of
 * whatever runs there, interrupts off or not, soon after the counter overflowed.
 *
 * The handler is registered only while there are events that need it, so that other
 * NMIs cost no more than without this driver.
 */

#include <linux/cpufeature.h>
#include <linux/cpumask.h>
#include <linux/mutex.h>
#include <linux/nmi.h>
#include <linux/sched/clock.h>
#include <linux/smp.h>
#include <linux/time64.h>

#include <asm/apic.h>

#include "pmusim.h"

/*
 * An NMI with another source may arrive between the sending of an NMI and its arrival,
 * find the overflow and handle it. The NMI that was sent then finds nothing and must
 * not be reported as unknown. Each sent NMI excuses only one NMI without a source, and
 * only for this time, otherwise unknown NMIs of other devices would be hidden.
 */
#define PMUSIM_NMI_LATE_NS	(100 * NSEC_PER_MSEC)

struct pmusim_nmi {
	u64	sent;
	bool	due;
};

static DEFINE_PER_CPU(struct pmusim_nmi, pmusim_nmi);

static DEFINE_MUTEX(pmusim_nmi_mutex);
static unsigned int pmusim_nmi_users;

/**
 * pmusim_nmi_raise() - Send an NMI to this CPU
 *
 * Context: Interrupts off, NMIs.
 */
void pmusim_nmi_raise(void)
{
	__this_cpu_write(pmusim_nmi.sent, local_clock());
	__this_cpu_write(pmusim_nmi.due, true);
	__apic_send_IPI_mask(cpumask_of(smp_processor_id()), NMI_VECTOR);
}

static int pmusim_nmi_handler(unsigned int cmd, struct pt_regs *regs)
{
	struct pmusim_nmi *nmi = this_cpu_ptr(&pmusim_nmi);

	if (nmi->due) {
		nmi->due = false;
		pmusim_handle(this_cpu_ptr(pmusim_counters.cpu), PMUSIM_NMI, regs);
		return NMI_HANDLED;
	}
	if (!nmi->sent || local_clock() - nmi->sent >= PMUSIM_NMI_LATE_NS)
		return NMI_DONE;

	nmi->sent = 0;
	return NMI_HANDLED;
}

/**
 * pmusim_nmi_get() - Register the NMI handler for an event
 *
 * Context: Process context.
 * Return: 0, -EOPNOTSUPP if this machine cannot send NMIs, or another error.
 */
int pmusim_nmi_get(void)
{
	int ret = 0;

	if (!boot_cpu_has(X86_FEATURE_APIC))
		return -EOPNOTSUPP;

	mutex_lock(&pmusim_nmi_mutex);
	if (!pmusim_nmi_users)
		ret = register_nmi_handler(NMI_LOCAL, pmusim_nmi_handler, 0,
					   "pmusim");
	if (!ret)
		pmusim_nmi_users++;
	mutex_unlock(&pmusim_nmi_mutex);

	return ret;
}

/**
 * pmusim_nmi_put() - Undo pmusim_nmi_get()
 *
 * Context: Process context.
 */
void pmusim_nmi_put(void)
{
	mutex_lock(&pmusim_nmi_mutex);
	if (!--pmusim_nmi_users)
		unregister_nmi_handler(NMI_LOCAL, "pmusim");
	mutex_unlock(&pmusim_nmi_mutex);
}
