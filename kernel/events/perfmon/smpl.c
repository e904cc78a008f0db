// SPDX-License-Identifier: GPL-2.0
/*
 * The sampling format "default": samples one after the other in a buffer that
 * the tool maps read-only.
 *
 * The state that the kernel needs to write the next sample is not in the mapped
 * pages. A sample is written with pfm_context::busy set, so one at a time. The
 * buffer is full when the largest sample would not fit any more. Then
 * monitoring is masked until pfm_restart(2) empties the buffer.
 */
#include <linux/mm.h>
#include <linux/sched/clock.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "internal.h"

unsigned long pfm_smpl_mem_max = SZ_16M;

static u64 pfm_entry_size(unsigned int nr_values)
{
	return sizeof(struct pfm_dfl_smpl_entry) + nr_values * sizeof(u64);
}

/**
 * struct pfm_smpl - the sampling buffer of a context
 */
struct pfm_smpl {
	/** @node: entry of the list of all buffers */
	struct list_head	node;
	/** @user: user that is charged, referenced by the context */
	struct user_struct	*user;
	/** @buf: mapped memory, begins with the header */
	void			*buf;
	/** @size: size in bytes */
	u64			size;
	/** @pages: size in pages */
	unsigned long		pages;
	/** @largest: size in bytes of the largest sample that the registers request */
	u64			largest;
	/** @offs: offset of the next sample */
	u64			offs;
	/** @count: number of samples */
	u64			count;
	/** @full: number of times that the buffer was full */
	u64			full;
};

/* Protects the list of all buffers and the sum of their pages, which sysfs shows. */
static DEFINE_MUTEX(pfm_smpl_lock);
static LIST_HEAD(pfm_smpl_list);
static unsigned long pfm_smpl_total;

/**
 * pfm_smpl_pages() - Get the number of pages of all buffers
 *
 * Context: Any.
 * Return: The number.
 */
u64 pfm_smpl_pages(void)
{
	return READ_ONCE(pfm_smpl_total);
}

/* Charge a buffer. The limit is per user, so that one user cannot take all memory. */
static int pfm_smpl_charge(struct pfm_context *ctx, struct pfm_smpl *smpl)
{
	struct user_struct *user = ctx->charge.user;
	unsigned long max = READ_ONCE(pfm_smpl_mem_max) >> PAGE_SHIFT;
	unsigned long held = smpl->pages;
	struct pfm_smpl *other;

	guard(mutex)(&pfm_smpl_lock);
	list_for_each_entry(other, &pfm_smpl_list, node) {
		if (other->user == user)
			held += other->pages;
	}
	if (held > max || pfm_charge_pages(ctx, smpl->pages))
		return -ENOMEM;

	smpl->user = user;
	list_add(&smpl->node, &pfm_smpl_list);
	WRITE_ONCE(pfm_smpl_total, pfm_smpl_total + smpl->pages);
	return 0;
}

static void pfm_smpl_uncharge(struct pfm_context *ctx, struct pfm_smpl *smpl)
{
	guard(mutex)(&pfm_smpl_lock);
	WRITE_ONCE(pfm_smpl_total, pfm_smpl_total - smpl->pages);
	list_del(&smpl->node);
	pfm_uncharge_pages(ctx, smpl->pages);
}

static void pfm_smpl_header(struct pfm_smpl *smpl)
{
	struct pfm_dfl_smpl_hdr *hdr = smpl->buf;

	WRITE_ONCE(hdr->hdr_cur_offs, smpl->offs);
	WRITE_ONCE(hdr->hdr_overflows, smpl->full);
	WRITE_ONCE(hdr->hdr_min_buf_space, READ_ONCE(smpl->largest));
	/* Write the samples before their number: pairs with the reader's barrier. */
	smp_store_release(&hdr->hdr_count, smpl->count);
}

/**
 * pfm_smpl_create() - Create the sampling buffer of a context
 * @ctx:	The context, not yet known to others
 * @arg:	Argument of pfm_create_context(2)
 *
 * Context: Process context.
 * Return: 0, -EINVAL, -ENOMEM.
 */
int pfm_smpl_create(struct pfm_context *ctx, const struct pfm_dfl_smpl_arg *arg)
{
	u64 largest = pfm_entry_size(hweight64(ctx->map->pmds));
	struct pfm_dfl_smpl_hdr *hdr;
	struct pfm_smpl *smpl;
	int ret = -ENOMEM;

	if (!ctx->compat && (arg->buf_flags || arg->reserved1 ||
			     memchr_inv(arg->reserved2, 0, sizeof(arg->reserved2))))
		return -EINVAL;
	if (arg->buf_size < sizeof(*hdr) + largest)
		return -EINVAL;
	if (arg->buf_size > READ_ONCE(pfm_smpl_mem_max))
		return -ENOMEM;

	guard(mutex)(&ctx->mutex);
	smpl = kzalloc(sizeof(*smpl), GFP_KERNEL_ACCOUNT);
	if (!smpl)
		return -ENOMEM;

	smpl->size = arg->buf_size;
	smpl->pages = PAGE_ALIGN(arg->buf_size) >> PAGE_SHIFT;
	smpl->offs = sizeof(*hdr);
	smpl->largest = largest;
	ret = pfm_smpl_charge(ctx, smpl);
	if (ret)
		goto err_free;
	smpl->buf = vmalloc_user(smpl->pages << PAGE_SHIFT);
	if (!smpl->buf) {
		ret = -ENOMEM;
		goto err_charge;
	}

	hdr = smpl->buf;
	hdr->hdr_buf_size = smpl->size;
	hdr->hdr_version = PFM_DFL_SMPL_VERSION;
	pfm_smpl_header(smpl);
	ctx->smpl = smpl;
	return 0;

err_charge:
	pfm_smpl_uncharge(ctx, smpl);
err_free:
	kfree(smpl);
	return ret;
}

/**
 * pfm_smpl_reserve() - Reserve room for samples of a given size
 * @ctx:	The context. It need not have a buffer.
 * @nr_values:	Number of values of a sample
 *
 * Context: pfm_context::mutex held, before a register requests such samples.
 * Return: 0, or -EINVAL if the buffer is too small.
 */
int pfm_smpl_reserve(struct pfm_context *ctx, unsigned int nr_values)
{
	u64 size = pfm_entry_size(nr_values);
	struct pfm_smpl *smpl = ctx->smpl;
	struct pfm_dfl_smpl_hdr *hdr;

	lockdep_assert_held(&ctx->mutex);
	if (!smpl || size <= smpl->largest)
		return 0;
	hdr = smpl->buf;
	if (smpl->size < sizeof(*hdr) + size)
		return -EINVAL;
	/* A handler writes samples of this size only after the register was changed. */
	WRITE_ONCE(smpl->largest, size);
	WRITE_ONCE(hdr->hdr_min_buf_space, size);
	return 0;
}

/**
 * pfm_smpl_free() - Free the buffer of a context
 * @ctx:	The context, no longer known to others. It need not have a buffer.
 *
 * Context: As pfm_uncharge_pages().
 */
void pfm_smpl_free(struct pfm_context *ctx)
{
	struct pfm_smpl *smpl = ctx->smpl;

	if (!smpl)
		return;
	pfm_smpl_uncharge(ctx, smpl);
	vfree(smpl->buf);
	kfree(smpl);
}

/**
 * pfm_smpl_add() - Write a sample
 * @ctx:	The context
 * @reg:	Register that overflowed
 * @where:	Place of the overflow
 *
 * Context: Any, NMI as well, with pfm_context::busy set.
 * Return: Whether the buffer is full now.
 */
bool pfm_smpl_add(struct pfm_context *ctx, const struct pfm_reg *reg,
		  const struct pfm_where *where)
{
	struct pfm_smpl *smpl = ctx->smpl;
	struct pfm_set *set = reg->set;
	u64 largest = READ_ONCE(smpl->largest);
	struct pfm_dfl_smpl_entry *entry;
	unsigned int num;
	u64 *values;

	lockdep_assert(ctx->busy);
	/* Monitoring is masked while the buffer is full, but a late overflow may come. */
	if (smpl->size - smpl->offs < largest) {
		set->lost++;
		return true;
	}

	entry = smpl->buf + smpl->offs;
	*entry = (struct pfm_dfl_smpl_entry) {
		.pid		= where->tid,
		.ovfl_pmd	= reg->num,
		.last_reset_val	= reg->last_reset,
		.ip		= where->ip,
		.tstamp		= local_clock(),
		.cpu		= where->cpu,
		.set		= set->id,
		.tgid		= where->tgid,
	};
	values = (u64 *)(entry + 1);
	for_each_set_bit(num, reg->smpl_pmds, PFM_MAX_REGS) {
		*values = pfm_value(pfm_reg_at(set, num));
		values++;
	}

	smpl->offs = (void *)values - smpl->buf;
	smpl->count++;
	if (smpl->size - smpl->offs < largest)
		smpl->full++;
	pfm_smpl_header(smpl);
	return smpl->size - smpl->offs < largest;
}

/**
 * pfm_smpl_restart() - Empty the buffer of a context
 * @ctx:	The context. It need not have a buffer.
 *
 * Context: As pfm_smpl_add(), or the context is not loaded.
 */
void pfm_smpl_restart(struct pfm_context *ctx)
{
	struct pfm_smpl *smpl = ctx->smpl;

	lockdep_assert(ctx->busy || pfm_state(ctx) == PFM_UNLOADED);
	if (!smpl)
		return;
	smpl->offs = sizeof(struct pfm_dfl_smpl_hdr);
	smpl->count = 0;
	pfm_smpl_header(smpl);
}

/**
 * pfm_smpl_mmap() - Map a buffer
 * @smpl:	The buffer
 * @vma:	Mapping
 *
 * Context: mmap(2).
 * Return: 0, -EPERM for a writable mapping, -EINVAL if it exceeds the buffer.
 */
int pfm_smpl_mmap(struct pfm_smpl *smpl, struct vm_area_struct *vma)
{
	if (vma->vm_flags & VM_WRITE)
		return -EPERM;
	if (vma->vm_pgoff || vma_pages(vma) > smpl->pages)
		return -EINVAL;

	vm_flags_mod(vma, VM_DONTCOPY | VM_DONTEXPAND | VM_DONTDUMP, VM_MAYWRITE);
	return remap_vmalloc_range(vma, smpl->buf, 0);
}
