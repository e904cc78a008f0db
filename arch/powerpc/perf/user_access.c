// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * User space access to the counters of core-book3s.c: who may read a counter
 * without a system call, and what the user page tells about it.
 *
 * Since ISA 2.07, MMCR0[PMCC] closes all counters to user programs, or opens
 * all of them to all. There is one setting per CPU, and counters are not saved
 * at a context switch, so it has to follow the events that are on the PMU:
 *
 *	               a mapped event of the
 *	               task is put on the PMU
 *	   +--------+ ------------------------> +------+
 *	   | closed |                           | open |
 *	   +--------+ <------------------------ +------+
 *	               it leaves, or an event of
 *	               the whole CPU comes beside it
 *
 * closed	PMCC is 01. A read traps. The user pages give index 0, and their
 *		readers use read(2).
 * open		PMCC is 00. Counters may be read and not be written. Those in use
 *		count for this task, all others are zero. PMC6 runs when PMC5
 *		does and then shows cycles of this task.
 *
 * What the whole CPU does is nobody's own. Counters that show it close all
 * others, and while root runs "perf stat -a" tasks have their system calls.
 *
 * The state is computed anew whenever power_pmu_enable() writes MMCR0, from the
 * events alone, and a page is written before its reader can run. A reader that
 * took the index from the page and is stopped before its mfspr may find the
 * counters closed. It has done nothing wrong and must not die of it: the trap
 * gives zero to a task that has a user readable event. The sequence count of
 * the page has moved by then, and the reader begins again.
 *
 * sysctl kernel.perf_user_access: 0 keeps it closed, 1 is as above, 2 leaves
 * PMCC at 00 for all, as kernels did that had no such control. Processors before
 * ISA 2.07 have no PMCC: their counters are always open, and 0 hides the index.
 *
 * Events of event based branches have rights of their own, which
 * ebb_switch_in() gives, and are none of this file's business.
 */
#include <linux/cpu.h>
#include <linux/cpuhotplug.h>
#include <linux/perf_event.h>
#include <linux/smp.h>
#include <linux/swab.h>
#include <linux/sysctl.h>
#include <linux/uaccess.h>
#include <asm/pmc.h>
#include <asm/ppc-opcode.h>
#include <asm/reg.h>
#include <asm/time.h>

#include "user_access.h"

#ifdef CONFIG_PPC32
#define MMCR0_PMCC_CLOSED	0
#endif

enum {
	USER_ACCESS_NEVER,
	USER_ACCESS_OWN,
	USER_ACCESS_ALWAYS,
};

static int sysctl_perf_user_access = USER_ACCESS_OWN;

static struct pmu *power_pmu;
static void (*power_apply)(void *unused);
static bool power_revocable;

/*
 * What user pages say that seldom changes: the capabilities of events without
 * and with a counter, and how to get from the timebase to the clock.
 */
static struct power_user_page {
	u64 caps[2];
	u64 zero;
	u32 mult;
	u16 shift;
	bool exact;
} power_page;

/*
 * MMCR0[PMCC] of a CPU that runs no event of a task
 *
 * Zero where closing is not possible or not wanted. For KVM as well.
 */
unsigned long ppc_pmu_closed;
EXPORT_SYMBOL_GPL(ppc_pmu_closed);

static bool power_user_set_open(struct perf_event *event, bool open)
{
	struct hw_perf_event *hwc = &event->hw;

	if (open == !!(hwc->flags & POWER_EVENT_USER_OPEN))
		return false;
	hwc->flags ^= POWER_EVENT_USER_OPEN;
	/* Without a counter yet, it is published when it gets one. */
	return hwc->idx;
}

/**
 * power_user_access() - Decide on user space access to the counters
 * @events:	All events on the PMU of this CPU, none for event based branches
 * @nr:		Their number
 * @grant:	Set to what to write to MMCR0 and what else to do, if that is not
 *		what it says already: all closed
 *
 * Needs to be called only if one of the events may be, or was, open.
 *
 * Context: Interrupts and the PMU of this CPU are disabled.
 */
void power_user_access(struct perf_event **events, int nr,
		       struct power_user_grant *grant)
{
	int mode = READ_ONCE(sysctl_perf_user_access);
	bool shared = false, open = false;
	int i;

	for (i = 0; i < nr; i++) {
		struct perf_event *event = events[i];

		shared |= !(event->attach_state & PERF_ATTACH_TASK);
		open |= power_user_wanted(event);
	}
	if (mode == USER_ACCESS_NEVER || (mode == USER_ACCESS_OWN && shared))
		open = false;

	for (i = 0; i < nr; i++) {
		grant->publish |= power_user_set_open(events[i], open &&
						      power_user_wanted(events[i]));
	}
	if (open) {
		grant->open = true;
		grant->pmcc = 0;
	}
}

/**
 * power_user_access_init_event() - Mark an event that its task may read
 * @event:	Event of this PMU that is being opened, not one for event based
 *		branches
 *
 * An inherited event may count for the child when its context was exchanged
 * with that of the parent, who reads the page.
 *
 * Context: pmu::event_init().
 */
void power_user_access_init_event(struct perf_event *event)
{
	if ((event->attach_state & PERF_ATTACH_TASK) && !event->attr.inherit)
		event->hw.flags |= PERF_EVENT_FLAG_USER_READ_CNT;
}

/**
 * power_user_access_mapped() - Open the counter of an event that got a mapping
 * @event:	The event
 * @mm:		Whose mapping it is
 *
 * If the event leaves its CPU meanwhile, its next one does what is needed.
 * Nothing is done when the last mapping goes: the task keeps the right that
 * its event gives until the PMU is written next.
 *
 * Context: Process context, interrupts enabled.
 */
void power_user_access_mapped(struct perf_event *event, struct mm_struct *mm)
{
	int cpu;

	if (!(event->hw.flags & PERF_EVENT_FLAG_USER_READ_CNT))
		return;

	/* mmap_count before oncpu; event_sched_in() writes oncpu first. */
	smp_mb();
	cpu = READ_ONCE(event->oncpu);
	if (cpu >= 0)
		smp_call_function_single(cpu, power_apply, NULL, 1);
}

static u64 power_clock_zero(void)
{
	u64 tb = get_tb();

	return sched_clock_from_tb(tb) -
	       mul_u64_u32_shr(tb, power_page.mult, power_page.shift);
}

static __always_inline void
power_update_userpage(struct perf_event *event,
		      struct perf_event_mmap_page *userpg, u64 now, u64 zero)
{
	const struct power_user_page *page = &power_page;
	bool counter = event->pmu == power_pmu &&
		       event->hw.flags & PERF_EVENT_FLAG_USER_READ_CNT &&
		       READ_ONCE(sysctl_perf_user_access) != USER_ACCESS_NEVER;

	/* One address and one store of all bits: each context switch does this. */
	OPTIMIZER_HIDE_VAR(page);
	userpg->capabilities = page->caps[counter];
	userpg->pmc_width = counter ? 64 : 0;
	userpg->time_mult = page->mult;
	userpg->time_shift = page->shift;
	userpg->time_offset = zero - now;
	userpg->time_zero = zero;
	/* Samples of another clock cannot be compared with the timebase. */
	if (unlikely(event->attr.use_clockid))
		userpg->cap_user_time_zero = 0;
}

/* What 32 bits of the scale lose must not add up since boot. */
static noinline void
power_update_userpage_inexact(struct perf_event *event,
			      struct perf_event_mmap_page *userpg, u64 now)
{
	power_update_userpage(event, userpg, now, power_clock_zero());
}

/**
 * arch_perf_update_userpage() - Tell readers of the user page about this PMU
 * @event:	Event of any PMU
 * @userpg:	Its page, or that of the event to which its output goes
 * @now:	The event's clock, ns
 *
 * A counter runs from 0x80000000 minus what is left of the period and may be
 * beyond bit 31 until its interrupt has been taken. A reader that extended the
 * sign of 32 bits would be 2^32 too low then. mfspr gives all other bits as
 * zero, so 64 is the width of what is read.
 *
 * Context: Any, in the sequence count of the page.
 */
void arch_perf_update_userpage(struct perf_event *event,
			       struct perf_event_mmap_page *userpg, u64 now)
{
	if (likely(power_page.exact))
		power_update_userpage(event, userpg, now, power_page.zero);
	else
		power_update_userpage_inexact(event, userpg, now);
}

#ifdef CONFIG_PPC_BOOK3S_64
/* Problem state's numbers of PMC1 to PMC6, and the fields of an mfspr. */
#define UPMC_FIRST	771
#define UPMC_LAST	776
#define INSN_RT_SPR	0x03fff800

static bool power_user_has_event(void)
{
	struct perf_event_context *ctx;

	guard(rcu)();
	ctx = rcu_dereference(current->perf_event_ctxp);
	return ctx && READ_ONCE(ctx->nr_user) > 0;
}

/**
 * ppc_emulate_user_pmc_read() - Let a reader of the user page pass closed counters
 * @regs:	Registers of the task, which trapped because of MMCR0[PMCC]
 *
 * Only mfspr from PMC1 to PMC6, and only for a task that has an event which it
 * may read when the counters are open. All that it gets is zero. An instruction
 * in memory that can be executed and not be read is not emulated.
 *
 * Context: Process context, may sleep.
 * Return: Whether the instruction is done.
 */
bool ppc_emulate_user_pmc_read(struct pt_regs *regs)
{
	unsigned int spr;
	u32 insn;

	if (!power_user_has_event() ||
	    get_user(insn, (u32 __user *)regs->nip))
		return false;
	if ((regs->msr & MSR_LE) != (MSR_KERNEL & MSR_LE))
		insn = swab32(insn);
	if ((insn & ~INSN_RT_SPR) != PPC_RAW_MFSPR(0, 0))
		return false;
	spr = ((insn >> 16) & 0x1f) | ((insn >> 6) & 0x3e0);
	if (spr < UPMC_FIRST || spr > UPMC_LAST)
		return false;

	regs->gpr[(insn >> 21) & 0x1f] = 0;
	regs_add_return_ip(regs, 4);
	return true;
}
#endif /* CONFIG_PPC_BOOK3S_64 */

static void power_user_access_update_closed(void)
{
	bool close = power_revocable &&
		     sysctl_perf_user_access != USER_ACCESS_ALWAYS;

	WRITE_ONCE(ppc_pmu_closed, close ? MMCR0_PMCC_CLOSED : 0);
}

static int power_user_access_handler(const struct ctl_table *table, int write,
				     void *buffer, size_t *lenp, loff_t *ppos)
{
	static DEFINE_MUTEX(lock);
	int ret;

	guard(mutex)(&lock);
	ret = proc_dointvec_minmax(table, write, buffer, lenp, ppos);
	if (!ret && write) {
		guard(cpus_read_lock)();
		power_user_access_update_closed();
		on_each_cpu(power_apply, NULL, 1);
	}
	return ret;
}

static struct ctl_table power_user_access_table[] = {
	{
		.procname	= "perf_user_access",
		.data		= &sysctl_perf_user_access,
		.maxlen		= sizeof(sysctl_perf_user_access),
		.mode		= 0644,
		.proc_handler	= power_user_access_handler,
		.extra1		= SYSCTL_ZERO,
		.extra2		= SYSCTL_TWO,
	},
};

static int power_user_access_online(unsigned int cpu)
{
	unsigned long flags;

	local_irq_save(flags);
	power_apply(NULL);
	local_irq_restore(flags);
	return 0;
}

/**
 * power_user_access_init() - Tell this file which PMU there is
 * @pmu:	The PMU of the processor's counters
 * @apply:	Writes what power_user_access() says to this CPU's PMU; called
 *		with interrupts disabled
 * @revocable:	The processor has MMCR0[PMCC]
 *
 * Context: When the driver registers, before the first user program.
 */
void power_user_access_init(struct pmu *pmu, void (*apply)(void *unused),
			    bool revocable)
{
	power_pmu = pmu;
	power_apply = apply;
	power_revocable = revocable;
	power_user_access_update_closed();
}

static void __init power_user_init_caps(void)
{
	static struct perf_event_mmap_page page __initdata = {
		.cap_bit0_is_deprecated	= 1,
		.cap_user_time		= 1,
		.cap_user_time_zero	= 1,
	};

	power_page.caps[false] = page.capabilities;
	page.cap_user_rdpmc = 1;
	power_page.caps[true] = page.capabilities;
}

static int __init power_user_access_late_init(void)
{
	int ret;

	power_user_init_caps();
	power_page.exact = sched_clock_tb_scale(&power_page.mult,
						&power_page.shift);
	power_page.zero = power_clock_zero();
	if (!power_pmu)
		return 0;

	/* The setup of a processor closes what the sysctl may have opened. */
	ret = cpuhp_setup_state(CPUHP_AP_ONLINE_DYN, "perf/powerpc:user",
				power_user_access_online, NULL);
	if (ret < 0)
		return ret;
	register_sysctl("kernel", power_user_access_table);
	return 0;
}
late_initcall(power_user_access_late_init);
