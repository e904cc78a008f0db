// SPDX-License-Identifier: GPL-2.0
/*
 * Simulated PMUs: overflows in a real NMI.
 *
 * The local APIC sends an NMI to its own CPU. It lands between two instructions of
 * whatever runs there, interrupts off or not, soon after the counter overflowed.
 */

#include <linux/cpumask.h>
#include <linux/smp.h>

#include <linux/sched/clock.h>
#include <linux/time64.h>

#include <asm/apic.h>
#include <asm/cpufeature.h>
#include <asm/nmi.h>

#include "pmusim.h"

/*
 * An NMI that comes for another reason, after one was sent and before it is here,
 * finds the overflow and handles it. The one that was sent then finds nothing, and
 * must not be reported as unknown.
 */
#define PMUSIM_NMI_LATE_NS	(100 * NSEC_PER_MSEC)

struct pmusim_nmi {
	u64	sent;
	bool	due;
};

static DEFINE_PER_CPU(struct pmusim_nmi, pmusim_nmi);
static bool pmusim_nmi_registered;

/**
 * pmusim_nmi_available() - Can this machine send NMIs?
 *
 * Context: Any.
 * Return: Whether it can.
 */
bool pmusim_nmi_available(void)
{
	return pmusim_nmi_registered;
}

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
	if (nmi->sent && local_clock() - nmi->sent < PMUSIM_NMI_LATE_NS)
		return NMI_HANDLED;

	return NMI_DONE;
}

/**
 * pmusim_nmi_setup() - Be told of NMIs
 *
 * Context: Process context.
 * Return: 0, also if the machine has none, or a negative error.
 */
int pmusim_nmi_setup(void)
{
	int ret;

	if (!boot_cpu_has(X86_FEATURE_APIC))
		return 0;
	ret = register_nmi_handler(NMI_LOCAL, pmusim_nmi_handler, 0, "pmusim");
	pmusim_nmi_registered = !ret;
	return ret;
}

/**
 * pmusim_nmi_teardown() - Undo pmusim_nmi_setup()
 *
 * Context: Process context.
 */
void pmusim_nmi_teardown(void)
{
	if (pmusim_nmi_registered)
		unregister_nmi_handler(NMI_LOCAL, "pmusim");
	pmusim_nmi_registered = false;
}
