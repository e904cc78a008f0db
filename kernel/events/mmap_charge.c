// SPDX-License-Identifier: GPL-2.0
/*
 * Who pays for the memory of a perf buffer.
 *
 * The pages of a buffer, and those of its AUX area, are charged in two parts:
 *
 *   user_pages	to user_struct::perf_mlock of the user who mapped it first, as far
 *		as the allowance goes (perf_event_mlock_kb for each online CPU).
 *		Held until the last mapping of whatever process is gone.
 *   mm_pages	the excess, to mm_struct::pinned_vm, under RLIMIT_MEMLOCK. Held by
 *		each mm that has a mapping, for as long as it has one.
 *
 *	 perf_mmap_charge_new()
 *	  |
 *	  |    user: user_pages
 *	  |    +---------------------------------------------------------+
 *	  +--->| mm A: mm_pages, 2 mappings     mm B: mm_pages, 1 mapping | ...
 *	       +---------------------------------------------------------+
 *		 _get() and _put() of each mapping	 _free() after the last
 *
 * A file descriptor travels to other processes, and fork() leaves the mappings
 * behind. So the one that unmaps last need not be the one that mapped first, and
 * the one that mapped first may be long gone while the memory is still in use.
 * Charging each mm is what mlock() does with a shared page. Further mappings in
 * the same mm cost nothing.
 *
 * A buffer that a file holds, and no mapping, has no mm to pay. It would be the
 * wrong one as soon as the file is passed on, and one that execs or exits would give
 * its pages to nobody's account, as often as it likes. The user pays for the excess as
 * well, in user_struct::locked_vm, until the buffer is gone.
 *
 * Lifetime: an mm in the list has a mapping, hence a user; no reference is held.
 * A VMA stays in its mm for life, and mremap() opens the new one before it closes
 * the old one. VM_DONTCOPY keeps it from a child, unless madvise(MADV_DOFORK) has
 * taken that away: then the child pays for its copy like anybody else, but for
 * the limit, as there is no way to refuse.
 *
 * Locking: all but _new() and _free() take the charge's own mutex, which nests in
 * perf_event::mmap_mutex and perf_buffer::aux_mutex.
 */

#include <linux/cred.h>
#include <linux/list.h>
#include <linux/mm_types.h>
#include <linux/mutex.h>
#include <linux/perf_event.h>
#include <linux/sched/signal.h>
#include <linux/sched/user.h>
#include <linux/slab.h>

#include "mmap_charge.h"

/**
 * struct perf_mmap_payer - An mm that has mappings
 * @entry:	in perf_mmap_charge::mms
 * @mm:		not referenced, its mappings keep it
 * @nr:		number of mappings
 */
struct perf_mmap_payer {
	struct list_head	entry;
	struct mm_struct	*mm;
	unsigned long		nr;
};

/**
 * struct perf_mmap_charge - What a buffer, or its AUX area, costs
 * @user:	who pays @user_pages, referenced
 * @user_pages:	charged to @user, in pages
 * @locked_pages: charged to @user's locked_vm, in pages
 * @mm_pages:	charged to each of @mms, in pages
 * @lock:	protects @mms
 * @mms:	the struct perf_mmap_payer that have a mapping
 * @first:	one of them if its mm is set; most buffers need no other
 */
struct perf_mmap_charge {
	struct user_struct	*user;
	unsigned long		user_pages;
	unsigned long		locked_pages;
	unsigned long		mm_pages;
	struct mutex		lock;
	struct list_head	mms;
	struct perf_mmap_payer	first;
};

static bool exceeds_limit(unsigned long pages)
{
	return pages > rlimit(RLIMIT_MEMLOCK) >> PAGE_SHIFT &&
	       perf_is_paranoid() && !capable(CAP_IPC_LOCK);
}

/* Add first and look then: two that charge at once must not both fit. */
static int charge_mm(struct mm_struct *mm, unsigned long nr_pages, bool copy)
{
	unsigned long pinned;

	if (!nr_pages)
		return 0;

	pinned = atomic64_add_return(nr_pages, &mm->pinned_vm);
	if (!copy && exceeds_limit(pinned)) {
		atomic64_sub(nr_pages, &mm->pinned_vm);
		return -EPERM;
	}
	return 0;
}

static int charge_locked(struct perf_mmap_charge *charge, unsigned long nr_pages)
{
#ifdef CONFIG_PERF_EVENTS_SPLICE
	atomic_long_t *locked_vm = &charge->user->locked_vm;

	if (!nr_pages)
		return 0;

	if (exceeds_limit(atomic_long_add_return(nr_pages, locked_vm))) {
		atomic_long_sub(nr_pages, locked_vm);
		return -EPERM;
	}
	charge->locked_pages = nr_pages;
#endif
	return 0;
}

static void uncharge_locked(struct perf_mmap_charge *charge)
{
#ifdef CONFIG_PERF_EVENTS_SPLICE
	atomic_long_sub(charge->locked_pages, &charge->user->locked_vm);
#endif
}

/* Charge as many of @nr_pages as the user's allowance has left, and return them. */
static unsigned long charge_user(struct user_struct *user, unsigned long nr_pages)
{
	unsigned long limit = sysctl_perf_event_mlock >> (PAGE_SHIFT - 10);
	unsigned long fit;
	long locked;

	/* Increase the limit linearly with more CPUs. */
	limit *= num_online_cpus();

	/* The limit may have become smaller than what is charged already. */
	locked = atomic_long_read(&user->perf_mlock);
	do {
		fit = limit > locked ? min(limit - locked, nr_pages) : 0;
	} while (!atomic_long_try_cmpxchg(&user->perf_mlock, &locked, locked + fit));

	return fit;
}

static struct perf_mmap_payer *find_payer(struct perf_mmap_charge *charge,
					  struct mm_struct *mm)
{
	struct perf_mmap_payer *payer;

	lockdep_assert_held(&charge->lock);

	list_for_each_entry(payer, &charge->mms, entry) {
		if (payer->mm == mm)
			return payer;
	}
	return NULL;
}

static struct perf_mmap_payer *alloc_payer(struct perf_mmap_charge *charge, gfp_t gfp)
{
	if (!charge->first.mm)
		return &charge->first;

	return kmalloc(sizeof(struct perf_mmap_payer), GFP_KERNEL_ACCOUNT | gfp);
}

static void free_payer(struct perf_mmap_charge *charge, struct perf_mmap_payer *payer)
{
	if (payer == &charge->first)
		payer->mm = NULL;
	else
		kfree(payer);
}

static int add_payer(struct perf_mmap_charge *charge, struct mm_struct *mm, bool copy)
{
	struct perf_mmap_payer *payer;
	int ret;

	lockdep_assert_held(&charge->lock);

	payer = alloc_payer(charge, copy ? __GFP_NOFAIL : 0);
	if (!payer)
		return -ENOMEM;

	ret = charge_mm(mm, charge->mm_pages, copy);
	if (ret) {
		free_payer(charge, payer);
		return ret;
	}

	payer->mm = mm;
	payer->nr = 1;
	list_add(&payer->entry, &charge->mms);
	return 0;
}

static int get_payer(struct perf_mmap_charge *charge, struct mm_struct *mm, bool copy)
{
	struct perf_mmap_payer *payer;

	guard(mutex)(&charge->lock);

	payer = find_payer(charge, mm);
	if (!payer)
		return add_payer(charge, mm, copy);

	payer->nr++;
	return 0;
}

static struct perf_mmap_charge *alloc_charge(unsigned long nr_pages)
{
	struct perf_mmap_charge *charge;

	charge = kzalloc(sizeof(*charge), GFP_KERNEL_ACCOUNT);
	if (!charge)
		return NULL;

	mutex_init(&charge->lock);
	INIT_LIST_HEAD(&charge->mms);
	charge->user = get_current_user();
	charge->user_pages = charge_user(charge->user, nr_pages);
	return charge;
}

/**
 * perf_mmap_charge_new - Charge a buffer that is about to be allocated
 * @mm:		mm of its first mapping, the current one
 * @nr_pages:	its size in pages
 *
 * Charges the current user and @mm. The mapping holds one count of @mm, which
 * perf_mmap_charge_put() gives back.
 *
 * Context: May sleep. @mm's mmap_lock is held for writing.
 * Return: The charge, -EPERM if it exceeds the limits, or -ENOMEM.
 */
struct perf_mmap_charge *perf_mmap_charge_new(struct mm_struct *mm,
					      unsigned long nr_pages)
{
	struct perf_mmap_charge *charge;
	int ret;

	charge = alloc_charge(nr_pages);
	if (!charge)
		return ERR_PTR(-ENOMEM);

	charge->mm_pages = nr_pages - charge->user_pages;

	ret = get_payer(charge, mm, false);
	if (ret) {
		perf_mmap_charge_free(charge);
		return ERR_PTR(ret);
	}
	return charge;
}

/**
 * perf_mmap_charge_file - Charge a buffer that needs no mapping
 * @nr_pages:	its size in pages
 *
 * Charges the current user alone. A mapping of the user page costs nothing more.
 *
 * Context: May sleep.
 * Return: The charge, -EPERM if it exceeds the limits, or -ENOMEM.
 */
struct perf_mmap_charge *perf_mmap_charge_file(unsigned long nr_pages)
{
	struct perf_mmap_charge *charge;
	int ret;

	charge = alloc_charge(nr_pages);
	if (!charge)
		return ERR_PTR(-ENOMEM);

	ret = charge_locked(charge, nr_pages - charge->user_pages);
	if (ret) {
		perf_mmap_charge_free(charge);
		return ERR_PTR(ret);
	}
	return charge;
}

/**
 * perf_mmap_charge_get - Charge an mm for a mapping
 * @charge:	of the buffer or of its AUX area
 * @mm:		mm of the mapping, the current one
 *
 * Only the first mapping in @mm costs anything or can fail.
 *
 * Context: May sleep. @mm's mmap_lock is held for writing.
 * Return: 0, -EPERM if it exceeds RLIMIT_MEMLOCK, or -ENOMEM.
 */
int perf_mmap_charge_get(struct perf_mmap_charge *charge, struct mm_struct *mm)
{
	return get_payer(charge, mm, false);
}

/**
 * perf_mmap_charge_copy - Charge an mm for the copy of a mapping
 * @charge:	of the buffer or of its AUX area
 * @mm:		mm of the copy: that of the mapping, or that of a child
 *
 * The copy cannot be refused, so no limit counts. That of a child is charged all
 * the same: it has the memory when nobody else pays for it any more. As much as
 * its parent may have is what it can get, since it begins with nothing else.
 *
 * Context: May sleep. @mm's mmap_lock is held for writing.
 */
void perf_mmap_charge_copy(struct perf_mmap_charge *charge, struct mm_struct *mm)
{
	get_payer(charge, mm, true);
}

/**
 * perf_mmap_charge_put - Give back what perf_mmap_charge_get() has charged
 * @charge:	of the buffer or of its AUX area
 * @mm:		mm of the mapping that is gone
 *
 * Context: May sleep.
 */
void perf_mmap_charge_put(struct perf_mmap_charge *charge, struct mm_struct *mm)
{
	struct perf_mmap_payer *payer;

	guard(mutex)(&charge->lock);

	payer = find_payer(charge, mm);
	if (WARN_ON_ONCE(!payer))
		return;
	if (--payer->nr)
		return;

	atomic64_sub(charge->mm_pages, &mm->pinned_vm);
	list_del(&payer->entry);
	free_payer(charge, payer);
}

/**
 * perf_mmap_charge_free - Give back what the user was charged
 * @charge:	of a buffer, or of an AUX area, that has no mapping any more
 *
 * Context: Any in which a user_struct can be put.
 */
void perf_mmap_charge_free(struct perf_mmap_charge *charge)
{
	WARN_ON_ONCE(!list_empty(&charge->mms));

	uncharge_locked(charge);
	atomic_long_sub(charge->user_pages, &charge->user->perf_mlock);
	free_uid(charge->user);
	kfree(charge);
}
