// SPDX-License-Identifier: GPL-2.0
/*
 * Charges for the memory of perf buffers.
 *
 * The pages of a buffer, and separately those of its AUX area, are charged to the mm and
 * the user that map them first. These two pay in two parts until the buffer is gone:
 *
 *   user_pages		to user_struct::perf_mlock, as far as the allowance goes
 *			(perf_event_mlock_kb for each online CPU).
 *   excess_pages	the rest, under RLIMIT_MEMLOCK. One of two counters has it:
 *
 *	 perf_mmap_charge_new()				perf_mmap_charge_file()
 *	  |							      |
 *	  v		the last mapping of the mm goes		      v
 *	 mm_struct::pinned_vm  ------------------------>  user_struct::perf_pinned
 *	  |		perf_mmap_charge_put()			      |
 *	  +----------------> perf_mmap_charge_free() <----------------+
 *
 * Other mappings cost nothing and cannot fail: further ones of the same mm, those of other
 * processes that were given the descriptor, and copies of fork() after
 * madvise(MADV_DOFORK). Profilers rely on that: a privileged helper maps a buffer and
 * passes its descriptor to a process whose limit is small.
 *
 * The first mm may unmap the buffer, exec or exit while another mm keeps it. If its charge
 * ended then, a helper process for each buffer, which maps, passes on and exits, would lock
 * memory without limit. Therefore the excess moves to the user, and a new charge must fit
 * into the limit together with it. So a user cannot lock more than the sum of what the
 * processes that ran at the same time could lock.
 *
 * The limit does not bind a process with CAP_IPC_LOCK, nor any process while
 * perf_event_paranoid is -1. Their excess is counted in the mm, but does not move:
 * otherwise a privileged profiler would use up the limit of unprivileged processes of the
 * same user.
 *
 * A buffer that is held by a file instead of a mapping has no mm to pay, so its excess is
 * charged to the user from the start.
 *
 * Lifetime: An mm that pays has a mapping, which keeps its mm_struct, so no reference is
 * held. perf_mmap_charge::mm is cleared with the last of its mappings: a new mm_struct at
 * the same address is not taken for it. A VMA stays in its mm for life; mremap() opens the
 * new one before it closes the old one.
 *
 * Locking: charge_lock makes the sums exact. One lock for all charges is enough, because
 * buffers come and go seldom. It nests inside of all other locks.
 */

#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/mm_types.h>
#include <linux/perf_event.h>
#include <linux/rcupdate.h>
#include <linux/sched/signal.h>
#include <linux/sched/user.h>
#include <linux/slab.h>
#include <linux/spinlock.h>

#include "mmap_charge.h"

/**
 * struct perf_mmap_charge - Charge for a buffer, or for its AUX area
 */
struct perf_mmap_charge {
	/** @user: user that pays, referenced */
	struct user_struct	*user;
	/** @user_pages: charged to @user's allowance, in pages */
	unsigned long		user_pages;
	/** @excess_pages: charged to @mm, or to @user when @mm is NULL, in pages */
	unsigned long		excess_pages;
	/** @exempt: the limit does not bind, so @user is not charged for @excess_pages */
	bool			exempt;
	/** @mm: mm that is charged, NULL when it has no mapping any more */
	struct mm_struct	*mm;
	/** @nr: number of mappings of @mm */
	unsigned long		nr;
	/** @rcu: frees the charge */
	struct rcu_head		rcu;
};

/* Protects perf_mmap_charge::mm and nr, and user_struct::perf_mlock and perf_pinned */
static DEFINE_SPINLOCK(charge_lock);

/*
 * Unlike capable(), this does not record the use of a privilege that may not be needed.
 */
static bool is_exempt(void)
{
	return !perf_is_paranoid() || has_capability_noaudit(current, CAP_IPC_LOCK);
}

static bool exceeds_limit(unsigned long pages)
{
	return pages > rlimit(RLIMIT_MEMLOCK) >> PAGE_SHIFT &&
	       perf_is_paranoid() && !capable(CAP_IPC_LOCK);
}

/* Charge as many of @nr_pages as the user's allowance has left. Return their number. */
static unsigned long charge_allowance(struct user_struct *user, unsigned long nr_pages)
{
	unsigned long limit = sysctl_perf_event_mlock >> (PAGE_SHIFT - 10);
	unsigned long locked = atomic_long_read(&user->perf_mlock);
	unsigned long fit;

	lockdep_assert_held(&charge_lock);

	/* Increase the limit linearly with more CPUs. */
	limit *= num_online_cpus();

	/* The limit may have become smaller than what is charged already. */
	fit = limit > locked ? min(limit - locked, nr_pages) : 0;
	atomic_long_add(fit, &user->perf_mlock);
	return fit;
}

/* Charge the allowance and @mm. Return how many pages must fit into the limit. */
static unsigned long charge_pages(struct perf_mmap_charge *charge, struct mm_struct *mm,
				  unsigned long nr_pages)
{
	guard(spinlock)(&charge_lock);

	charge->user_pages = charge_allowance(charge->user, nr_pages);
	charge->excess_pages = nr_pages - charge->user_pages;
	charge->mm = mm;
	charge->nr = 1;
	return atomic64_add_return(charge->excess_pages, &mm->pinned_vm) +
	       charge->user->perf_pinned;
}

static void uncharge_pages(struct perf_mmap_charge *charge)
{
	guard(spinlock)(&charge_lock);

	if (charge->mm)
		atomic64_sub(charge->excess_pages, &charge->mm->pinned_vm);
	else if (!charge->exempt)
		charge->user->perf_pinned -= charge->excess_pages;
	charge->mm = NULL;
	atomic_long_sub(charge->user_pages, &charge->user->perf_mlock);
}

/**
 * perf_mmap_charge_new - Charge a buffer that is about to be allocated
 * @mm:		mm of its first mapping, the current one
 * @nr_pages:	its size in pages
 *
 * Charges the current user and @mm for the first mapping. perf_mmap_charge_get() counts
 * further ones, perf_mmap_charge_put() takes each of them back.
 *
 * Context: Process, may sleep. @mm's mmap_lock is held for writing.
 * Return: The charge, -EPERM if it exceeds the limits, or -ENOMEM.
 */
struct perf_mmap_charge *perf_mmap_charge_new(struct mm_struct *mm,
					      unsigned long nr_pages)
{
	struct perf_mmap_charge *new;
	unsigned long pinned;

	new = kmalloc(sizeof(*new), GFP_KERNEL_ACCOUNT);
	if (!new)
		return ERR_PTR(-ENOMEM);

	new->user = get_current_user();
	new->exempt = is_exempt();

	/* Charge before the check, or two concurrent charges could both fit. */
	pinned = charge_pages(new, mm, nr_pages);
	if (new->excess_pages && exceeds_limit(pinned)) {
		perf_mmap_charge_free(new);
		return ERR_PTR(-EPERM);
	}
	return new;
}

/**
 * perf_mmap_charge_file - Charge a buffer that needs no mapping
 * @nr_pages:	its size in pages
 *
 * Charges the current user alone. Mappings of the buffer's user page cost nothing more.
 *
 * Context: Process with an mm, may sleep.
 * Return: The charge, -EPERM if it exceeds the limits, or -ENOMEM.
 */
struct perf_mmap_charge *perf_mmap_charge_file(unsigned long nr_pages)
{
	struct perf_mmap_charge *new = perf_mmap_charge_new(current->mm, nr_pages);

	if (!IS_ERR(new))
		perf_mmap_charge_put(new, current->mm);
	return new;
}

/**
 * perf_mmap_charge_get - Count a mapping of a buffer that is charged
 * @charge:	charge of the buffer or of its AUX area
 * @mm:		mm of the mapping
 *
 * Context: Any but interrupts. @mm's mmap_lock is held for writing, or nothing else uses
 *	    @mm yet. The buffer has a mapping.
 */
void perf_mmap_charge_get(struct perf_mmap_charge *charge, struct mm_struct *mm)
{
	guard(spinlock)(&charge_lock);

	if (charge->mm == mm)
		charge->nr++;
}

/**
 * perf_mmap_charge_put - Drop a mapping whose buffer stays
 * @charge:	charge of the buffer or of its AUX area
 * @mm:		mm of the mapping that is gone
 *
 * If it was the last one of the mm that pays, the user pays from now on. Where the buffer
 * is gone with its last mapping, perf_mmap_charge_free() is called instead, so that the
 * limit of the user's other processes is not used up in between.
 *
 * Context: Any but interrupts. @mm's mmap_lock is held, or @mm is about to be freed.
 *	    perf_mmap_charge_free() may run meanwhile if this is within an RCU read-side
 *	    critical section that began before the mapping was taken off the buffer's count.
 */
void perf_mmap_charge_put(struct perf_mmap_charge *charge, struct mm_struct *mm)
{
	guard(spinlock)(&charge_lock);

	if (charge->mm != mm || --charge->nr)
		return;

	if (!charge->exempt)
		charge->user->perf_pinned += charge->excess_pages;
	atomic64_sub(charge->excess_pages, &mm->pinned_vm);
	charge->mm = NULL;
}

/**
 * perf_mmap_charge_free - End a charge
 * @charge:	charge of a buffer or AUX area that has no mapping any more or got none
 *
 * Context: Any but interrupts.
 */
void perf_mmap_charge_free(struct perf_mmap_charge *charge)
{
	uncharge_pages(charge);
	free_uid(charge->user);
	kfree_rcu(charge, rcu);
}
