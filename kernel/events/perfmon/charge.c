// SPDX-License-Identifier: GPL-2.0
/*
 * Memory accounting: a context is charged to the user that creates it.
 *
 * A context, its sets, their registers and its sampling buffer are kernel memory that
 * lives as long as a descriptor does, and a loaded context has an event for each
 * register that counts. All of it is charged in pages, as a perf buffer is:
 * first to user_struct::perf_mlock, within the allowance of perf_event_mlock_kb
 * for each online CPU, and the excess to user_struct::locked_vm under RLIMIT_MEMLOCK.
 * The excess is not charged to an mm, because a descriptor outlives the mm of the
 * program that has opened it. CAP_IPC_LOCK and a kernel.perf_event_paranoid of -1 lift
 * the limit.
 *
 * Small objects are summed up for each context and charged when the sum needs another
 * page.
 *
 * Locking: pfm_context::mutex protects the charge. The counters of the user are atomic.
 */
#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/sched/signal.h>
#include <linux/sched/user.h>
#include <linux/slab.h>

#include "internal.h"

/**
 * pfm_charge_init() - Charge a context to the current user from now on
 * @ctx:	The context, not yet known to others
 *
 * Context: Process context.
 */
void pfm_charge_init(struct pfm_context *ctx)
{
	ctx->charge.user = get_uid(current_user());
}

/**
 * pfm_charge_exit() - Uncharge everything
 * @ctx:	The context, no longer known to others
 *
 * Context: As pfm_charge_pages().
 */
void pfm_charge_exit(struct pfm_context *ctx)
{
	pfm_uncharge_pages(ctx, ctx->charge.allowed + ctx->charge.locked);
	free_uid(ctx->charge.user);
}

/* Charge as many of the pages as fit to the user's allowance. Return their number. */
static unsigned long pfm_charge_allowed(struct user_struct *user, unsigned long nr_pages)
{
	unsigned long limit = sysctl_perf_event_mlock >> (PAGE_SHIFT - 10);
	unsigned long fit;
	long held;

	limit *= num_online_cpus();

	/* The limit may have become smaller than what is charged already. */
	held = atomic_long_read(&user->perf_mlock);
	do {
		fit = limit > held ? min(limit - held, nr_pages) : 0;
	} while (!atomic_long_try_cmpxchg(&user->perf_mlock, &held, held + fit));

	return fit;
}

static bool pfm_beyond_limit(unsigned long nr_pages)
{
	return nr_pages > rlimit(RLIMIT_MEMLOCK) >> PAGE_SHIFT &&
	       perf_is_paranoid() && !capable(CAP_IPC_LOCK);
}

/**
 * pfm_charge_pages() - Charge the user of a context
 * @ctx:	The context
 * @nr_pages:	Number of pages
 *
 * Context: Process context, pfm_context::mutex held.
 * Return: 0, or -ENOMEM above the limit of the user and nothing is charged.
 */
int pfm_charge_pages(struct pfm_context *ctx, unsigned long nr_pages)
{
	struct pfm_charge *charge = &ctx->charge;
	struct user_struct *user = charge->user;
	unsigned long allowed, locked;

	lockdep_assert_held(&ctx->mutex);
	allowed = pfm_charge_allowed(user, nr_pages);
	locked = nr_pages - allowed;
	/* Add before the check, or two concurrent tasks could both take the last page. */
	if (locked && pfm_beyond_limit(atomic_long_add_return(locked, &user->locked_vm))) {
		atomic_long_sub(locked, &user->locked_vm);
		atomic_long_sub(allowed, &user->perf_mlock);
		return -ENOMEM;
	}
	charge->allowed += allowed;
	charge->locked += locked;
	return 0;
}

/**
 * pfm_uncharge_pages() - Uncharge pages
 * @ctx:	The context
 * @nr_pages:	Number of pages, at most as many as are charged
 *
 * Context: As pfm_charge_pages().
 */
void pfm_uncharge_pages(struct pfm_context *ctx, unsigned long nr_pages)
{
	struct pfm_charge *charge = &ctx->charge;
	unsigned long locked = min(nr_pages, charge->locked);
	unsigned long allowed = nr_pages - locked;

	lockdep_assert_held(&ctx->mutex);
	atomic_long_sub(locked, &charge->user->locked_vm);
	atomic_long_sub(allowed, &charge->user->perf_mlock);
	charge->locked -= locked;
	charge->allowed -= allowed;
}

/**
 * pfm_mem_charge() - Charge the user for an object of a context
 * @ctx:	The context
 * @size:	Size that is passed to kmalloc()
 *
 * Context: As pfm_charge_pages().
 * Return: 0 or -ENOMEM.
 */
int pfm_mem_charge(struct pfm_context *ctx, size_t size)
{
	size_t mem = ctx->mem + kmalloc_size_roundup(size);
	int ret;

	ret = pfm_charge_pages(ctx, PFN_UP(mem) - PFN_UP(ctx->mem));
	if (!ret)
		ctx->mem = mem;
	return ret;
}

/**
 * pfm_mem_uncharge() - Uncharge an object of a context
 * @ctx:	The context
 * @size:	Size that was charged
 *
 * Context: As pfm_charge_pages().
 */
void pfm_mem_uncharge(struct pfm_context *ctx, size_t size)
{
	size_t mem = ctx->mem - kmalloc_size_roundup(size);

	pfm_uncharge_pages(ctx, PFN_UP(ctx->mem) - PFN_UP(mem));
	ctx->mem = mem;
}
