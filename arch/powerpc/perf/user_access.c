// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * User space access to the counters of core-book3s.c: which task may read a
 * counter without a system call, and what the user page tells about it.
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
 *	               it leaves, or an event of the
 *	               whole CPU or of another opener
 *	               comes beside it
 *
 * closed	PMCC is 01. A read traps. The user pages give index 0, and their
 *		readers use read(2).
 * open		PMCC is 00. Counters may be read but not written. Counters in
 *		use count for this task, all others are zero. PMC5 and PMC6 both
 *		run when one of them is in use, so MMCR2 freezes the other one.
 *
 * An event of the whole CPU belongs to no task, and an event that another process
 * has opened for the task may count what the task must not know. Such an event
 * closes all counters: while root runs "perf stat -a", or "perf stat -p" on them,
 * tasks use system calls.
 *
 * The state is computed anew whenever power_pmu_enable() writes MMCR0, from the
 * events alone, and a page is written before its reader can run. A reader that
 * took the index from the page and is stopped before its mfspr may find the
 * counters closed. The task must not be killed for that: the trap gives zero to
 * a task that has a user readable event. The sequence count of the page has
 * moved by then, and the reader begins again.
 *
 * sysctl kernel.perf_user_access: 0 keeps counters closed, 1 is as above, 2
 * leaves PMCC at 00 for all, as kernels without this control did. Processors
 * before ISA 2.07 have no PMCC: their counters are always open, and 0 hides the
 * index.
 *
 * Events of event based branches get their access from ebb_switch_in(), not from
 * this file.
 */
#include <linux/cpu.h>
#include <linux/cpuhotplug.h>
#include <linux/perf_event.h>
#include <linux/sched/mm.h>
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

static void (*power_apply)(void *unused);
static bool power_revocable;

/*
 * Fields of user pages that seldom change: the capabilities of events without and with
 * a counter, and the conversion of the timebase to the clock.
 */
static struct power_user_page {
	struct pmu *pmu;
	u64 caps[2];
	u64 cap_counter;
	u64 cap_time;
	/* Copy of @caps, or 0 if an update changes more fields than time_offset. */
	u64 steady[2];
	u64 zero;
	u32 mult;
	u16 shift;
} power_page;

/*
 * MMCR0[PMCC] of a CPU that runs no event of a task
 *
 * It is zero if closing is impossible or not wanted. KVM uses it as well.
 */
unsigned long ppc_pmu_closed;
EXPORT_SYMBOL_GPL(ppc_pmu_closed);

/* Counters are closed if this many events on the PMU are not the running task's own. */
unsigned int power_user_system_limit = 1;

/**
 * power_user_access_init_event() - Note the owner of an event, and if its task may
 * read it
 * @event:	Event of this PMU that is being opened, not one for event based
 *		branches
 *
 * The contexts of parent and child may be exchanged, so an inherited event may count
 * for the parent, which reads the page. All events of a family have the opener of
 * the first.
 *
 * Context: pmu::event_init(), when nothing can fail any more and perf_event::destroy
 *	    is set.
 */
void power_user_access_init_event(struct perf_event *event)
{
	struct mm_struct *mm = current->mm;

	if (!(event->attach_state & PERF_ATTACH_TASK))
		return;

	if (!event->attr.inherit)
		event->hw.flags |= PERF_EVENT_FLAG_USER_READ_CNT;
	/* An event that can be inherited keeps its owner, so no lock is needed. */
	if (event->parent)
		mm = event->parent->pmu_private;
	/*
	 * The mm is only compared. The reference keeps its address from being reused.
	 */
	if (mm)
		mmgrab(mm);
	event->pmu_private = mm;
}

/**
 * power_user_access_destroy_event() - Drop the owner of an event
 * @event:	The event
 *
 * Context: perf_event::destroy(), process context.
 */
void power_user_access_destroy_event(struct perf_event *event)
{
	if (event->pmu_private)
		mmdrop(event->pmu_private);
	event->pmu_private = NULL;
}

/**
 * power_user_access_mapped() - Open the counter of an event that got a mapping
 * @event:	The event
 * @mm:		The mm of the mapping
 *
 * If the event leaves its CPU meanwhile, its next CPU opens the counter. When
 * the last mapping goes, the task keeps its access until the event leaves the
 * PMU. An event that is put on the PMU at the same moment may miss the mapping
 * and be missed here; excluding that would take a full barrier in each context
 * switch. Its reader then uses system calls until the event is scheduled in again.
 *
 * Context: Process context, interrupts enabled.
 */
void power_user_access_mapped(struct perf_event *event, struct mm_struct *mm)
{
	int cpu;

	if (!(event->hw.flags & PERF_EVENT_FLAG_USER_READ_CNT) ||
	    READ_ONCE(event->hw.target->mm) != mm)
		return;

	if (READ_ONCE(event->pmu_private) != mm) {
		struct mm_struct *old;

		mmgrab(mm);
		old = xchg(&event->pmu_private, mm);
		if (old)
			mmdrop(old);
	}
	/* Store mmap_count and pmu_private before oncpu is loaded. */
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

/*
 * Tell whether readers may be given the counter. Only events of this PMU have the flag, and
 * readers do not know the registers of 32-bit processors.
 */
static __always_inline bool power_user_counter(struct perf_event *event)
{
	return IS_ENABLED(CONFIG_PPC64) &&
	       event->hw.flags & PERF_EVENT_FLAG_USER_READ_CNT;
}

static noinline void
power_fill_userpage(struct perf_event *event, struct perf_event_mmap_page *userpg,
		    u64 now, bool counter)
{
	const struct power_user_page *page = &power_page;
	u64 caps = READ_ONCE(page->caps[counter]);
	u64 zero = page->zero;

	/* The error of the 32-bit scale must not accumulate since boot. */
	if (!page->steady[0])
		zero = power_clock_zero();
	userpg->pmc_width = caps & page->cap_counter ? 64 : 0;
	userpg->time_mult = page->mult;
	userpg->time_shift = page->shift;
	userpg->time_offset = zero - now;
	userpg->time_zero = zero;
	userpg->capabilities = caps;
	/* Samples of another clock cannot be compared with the timebase. */
	if (event->attr.use_clockid)
		userpg->cap_user_time_zero = 0;
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
	const struct power_user_page *page = &power_page;
	bool counter;
	u64 caps;

	/* Take the address once, because each context switch runs this. */
	OPTIMIZER_HIDE_VAR(page);
	counter = power_user_counter(event);
	caps = READ_ONCE(page->steady[counter]);
	/*
	 * The capabilities are stored last, after the fields that they vouch for. The
	 * core clears cap_user_time while the event is disabled.
	 */
	if (likely((userpg->capabilities | page->cap_time) == caps)) {
		userpg->time_offset = page->zero - now;
		userpg->capabilities = caps;
	} else {
		power_fill_userpage(event, userpg, now, counter);
	}
}

#ifdef CONFIG_PPC_BOOK3S_64
/* Numbers of PMC1 to PMC6 in problem state, and the operand fields of mfspr */
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
 * ppc_emulate_user_pmc_read() - Emulate a read of a closed counter as zero
 * @regs:	Registers of the task, which trapped because of MMCR0[PMCC]
 *
 * The emulated instruction is mfspr from PMC1 to PMC6, and the task must have an event
 * which it may read when the counters are open. The task always reads zero. An
 * instruction in memory that can be executed but not read is not emulated. If the task
 * has no such event, the kernel logs that once, and the task gets a signal.
 *
 * Context: Process context, may sleep.
 * Return: True if the instruction has been emulated.
 */
bool ppc_emulate_user_pmc_read(struct pt_regs *regs)
{
	unsigned int spr;
	u32 insn;

	if (!power_user_has_event()) {
		/* Older kernels let the task read what was in the counters. */
		pr_notice_once("perf: %s[%d] reads counters that are closed to it, see kernel.perf_user_access\n",
			       current->comm, task_pid_nr(current));
		return false;
	}
	if (get_user(insn, (u32 __user *)regs->nip))
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

/* Apply the sysctl to everything but the events that are on a PMU. */
static void power_user_access_update(void)
{
	struct power_user_page *page = &power_page;
	int mode = sysctl_perf_user_access;
	bool close = power_revocable && mode != USER_ACCESS_ALWAYS;
	u64 caps = page->caps[false];

	WRITE_ONCE(ppc_pmu_closed, close ? MMCR0_PMCC_CLOSED : 0);
	if (mode != USER_ACCESS_NEVER)
		caps |= page->cap_counter;
	WRITE_ONCE(power_user_system_limit,
		   mode == USER_ACCESS_ALWAYS ? UINT_MAX : mode);
	WRITE_ONCE(page->caps[true], caps);
	WRITE_ONCE(page->steady[true], page->steady[false] ? caps : 0);
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
		power_user_access_update();
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
 * power_user_access_init() - Register the PMU whose counters tasks may read
 * @pmu:	The PMU of the processor's counters
 * @apply:	Writes the result of power_user_access() to this CPU's PMU;
 *		called with interrupts disabled
 * @revocable:	The processor has MMCR0[PMCC]
 *
 * Context: When the driver registers, before the first user program.
 */
void power_user_access_init(struct pmu *pmu, void (*apply)(void *unused),
			    bool revocable)
{
	power_page.pmu = pmu;
	power_apply = apply;
	power_revocable = revocable;
	power_user_access_update();
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
	power_page.cap_counter = page.capabilities & ~power_page.caps[false];
	page.cap_user_time = 0;
	power_page.cap_time = power_page.caps[false] & ~page.capabilities;
}

static int __init power_user_access_late_init(void)
{
	int ret;

	power_user_init_caps();
	if (sched_clock_tb_scale(&power_page.mult, &power_page.shift))
		power_page.steady[false] = power_page.caps[false];
	power_page.zero = power_clock_zero();
	power_user_access_update();
	if (!power_page.pmu)
		return 0;

	/* The setup of a CPU closes the counters, which the sysctl may have opened. */
	ret = cpuhp_setup_state(CPUHP_AP_ONLINE_DYN, "perf/powerpc:user",
				power_user_access_online, NULL);
	if (ret < 0)
		return ret;
	register_sysctl("kernel", power_user_access_table);
	return 0;
}
late_initcall(power_user_access_late_init);
