// SPDX-License-Identifier: GPL-2.0
/* mmap(2) of an event: its ring buffer, and the AUX area of that buffer. */
#include <linux/mm.h>
#include <linux/perf_event.h>
#include <linux/security.h>

#include "internal.h"
#include "mmap_charge.h"
#include "splice.h"

static vm_fault_t perf_mmap_fault(struct vm_fault *vmf)
{
	struct perf_event *event = vmf->vma->vm_file->private_data;
	struct perf_buffer *rb;
	vm_fault_t ret = VM_FAULT_SIGBUS;

	if (vmf->flags & FAULT_FLAG_MKWRITE) {
		if (vmf->pgoff == 0)
			ret = 0;
		return ret;
	}

	rcu_read_lock();
	rb = rcu_dereference(event->rb);
	if (!rb)
		goto unlock;

	if (vmf->pgoff && (vmf->flags & FAULT_FLAG_WRITE))
		goto unlock;

	vmf->page = perf_mmap_to_page(rb, vmf->pgoff);
	if (!vmf->page)
		goto unlock;

	get_page(vmf->page);
	vmf->page->mapping = vmf->vma->vm_file->f_mapping;
	vmf->page->index   = vmf->pgoff;

	ret = 0;
unlock:
	rcu_read_unlock();

	return ret;
}

static void perf_mmap_open(struct vm_area_struct *vma)
{
	struct perf_event *event = vma->vm_file->private_data;

	atomic_inc(&event->mmap_count);
	atomic_inc(&event->rb->mmap_count);

	perf_mmap_charge_get(event->rb->charge, vma->vm_mm);

	if (vma->vm_pgoff) {
		atomic_inc(&event->rb->aux_mmap_count);
		perf_mmap_charge_get(event->rb->aux_charge, vma->vm_mm);
	}

	if (event->pmu->event_mapped)
		event->pmu->event_mapped(event, vma->vm_mm);
}

/* Drop a mapping of the AUX area, and free the area with its last mapping. */
static void perf_mmap_close_aux(struct perf_event *event, struct perf_buffer *rb,
				struct mm_struct *mm)
{
	guard(mutex)(&rb->aux_mutex);

	if (!atomic_dec_and_test(&rb->aux_mmap_count)) {
		perf_mmap_charge_put(rb->aux_charge, mm);
		return;
	}

	/*
	 * Stop all AUX events that are writing to this buffer,
	 * so that we can free its AUX pages and corresponding PMU
	 * data. Note that after rb::aux_mmap_count dropped to zero,
	 * they won't start any more (see perf_aux_output_begin()).
	 */
	perf_pmu_output_stop(event);

	/* now it's safe to free the pages */
	perf_mmap_charge_free(rb->aux_charge);

	/* this has to be the last one */
	rb_free_aux(rb);
	WARN_ON_ONCE(refcount_read(&rb->aux_refcount));
}

/* Drop a mapping of a buffer. Returns true if it was the last one. */
static bool perf_mmap_drop_count(struct perf_buffer *rb, struct mm_struct *mm)
{
	/*
	 * As soon as the count is dropped, the last mapping of another mm may
	 * free the charge.
	 */
	guard(rcu)();

	if (atomic_dec_and_test(&rb->mmap_count))
		return true;

	perf_mmap_charge_put(rb->charge, mm);
	return false;
}

/*
 * A buffer can be mmap()ed multiple times; either directly through the same
 * event, or through other events by use of perf_event_set_output().
 *
 * In order to undo the accounting done by perf_mmap() we need to destroy the
 * buffer here. This means we need to detach all events redirecting to us.
 */
static void perf_mmap_close(struct vm_area_struct *vma)
{
	struct perf_event *event = vma->vm_file->private_data;
	struct perf_buffer *rb = ring_buffer_get(event);

	if (event->pmu->event_unmapped)
		event->pmu->event_unmapped(event, vma->vm_mm);

	/*
	 * The AUX buffer is strictly a sub-buffer, serialize using aux_mutex
	 * to avoid complications.
	 */
	if (vma->vm_pgoff)
		perf_mmap_close_aux(event, rb, vma->vm_mm);

	/*
	 * Drop references in reverse order of perf_mmap() to prevent
	 * rb revival after rb->mmap_count reaches zero.
	 */
	if (atomic_dec_and_mutex_lock(&event->mmap_count, &event->mmap_mutex)) {
		ring_buffer_attach(event, NULL);
		mutex_unlock(&event->mmap_mutex);
	}

	/* If there's still other mmap()s of this buffer, we're done. */
	if (perf_mmap_drop_count(rb, vma->vm_mm))
		rb_detach_all(rb);

	ring_buffer_put(rb); /* could be last */
}

static int perf_mmap_may_split(struct vm_area_struct *vma, unsigned long addr)
{
	/*
	 * Forbid splitting perf mappings to prevent refcount leaks due to
	 * the resulting non-matching offsets and sizes. See open()/close().
	 */
	return -EINVAL;
}

static const struct vm_operations_struct perf_mmap_vmops = {
	.open		= perf_mmap_open,
	.close		= perf_mmap_close, /* non mergeable */
	.fault		= perf_mmap_fault,
	.page_mkwrite	= perf_mmap_fault,
	.may_split	= perf_mmap_may_split,
};

static int perf_mmap_rb(struct vm_area_struct *vma, struct perf_event *event,
			unsigned long nr_pages)
{
	struct perf_mmap_charge *charge;
	struct perf_buffer *rb;
	int ret, rb_flags = 0;

	nr_pages -= 1;

	/*
	 * If we have rb pages ensure they're a power-of-two number, so we
	 * can do bitmasks instead of modulo.
	 */
	if (nr_pages != 0 && !is_power_of_2(nr_pages))
		return -EINVAL;

	WARN_ON_ONCE(event->ctx->parent_ctx);

	if (event->rb) {
		ret = rb_may_mmap(event->rb, nr_pages);
		if (ret)
			return ret;

		/*
		 * If this event doesn't have mmap_count, we're attempting to
		 * create an alias of another event's mmap(); this would mean
		 * both events will end up scribbling the same user_page;
		 * which makes no sense.
		 */
		if (!atomic_read(&event->mmap_count) ||
		    event->rb->user_page_id != event->id)
			return -EBUSY;

		if (atomic_inc_not_zero(&event->rb->mmap_count)) {
			/*
			 * Success -- managed to mmap() the same buffer
			 * multiple times.
			 */
			perf_mmap_charge_get(event->rb->charge, vma->vm_mm);
			atomic_inc(&event->mmap_count);
			return 0;
		}

		/*
		 * Raced against perf_mmap_close()'s
		 * atomic_dec_and_mutex_lock() remove the
		 * event and continue as if !event->rb
		 */
		ring_buffer_attach(event, NULL);
	}

	/* Count the user page as well. */
	charge = perf_mmap_charge_new(vma->vm_mm, nr_pages + 1);
	if (IS_ERR(charge))
		return PTR_ERR(charge);

	if (vma->vm_flags & VM_WRITE)
		rb_flags |= RING_BUFFER_WRITABLE;

	rb = rb_alloc(nr_pages,
		      event->attr.watermark ? event->attr.wakeup_watermark : 0,
		      event->cpu, rb_flags);

	if (!rb) {
		perf_mmap_charge_free(charge);
		return -ENOMEM;
	}

	atomic_set(&rb->mmap_count, 1);
	rb->charge = charge;

	perf_event_init_userpage(event, rb);
	ring_buffer_attach(event, rb);

	perf_event_publish(event, false);

	atomic_set(&event->mmap_count, 1);

	return 0;
}

static int perf_mmap_aux(struct vm_area_struct *vma, struct perf_event *event,
			 unsigned long nr_pages)
{
	struct perf_mmap_charge *charge;
	u64 aux_offset, aux_size;
	struct perf_buffer *rb;
	int ret, rb_flags = 0;

	rb = event->rb;
	if (!rb)
		return -EINVAL;

	guard(mutex)(&rb->aux_mutex);

	/*
	 * AUX area mapping: if rb->aux_nr_pages != 0, it's already
	 * mapped, all subsequent mappings should have the same size
	 * and offset. Must be above the normal perf buffer.
	 */
	aux_offset = READ_ONCE(rb->user_page->aux_offset);
	aux_size = READ_ONCE(rb->user_page->aux_size);

	if (aux_offset < perf_data_size(rb) + PAGE_SIZE)
		return -EINVAL;

	if (aux_offset != vma->vm_pgoff << PAGE_SHIFT)
		return -EINVAL;

	/* already mapped with a different offset */
	if (rb_has_aux(rb) && rb->aux_pgoff != vma->vm_pgoff)
		return -EINVAL;

	if (aux_size != nr_pages * PAGE_SIZE)
		return -EINVAL;

	/* already mapped with a different size */
	if (rb_has_aux(rb) && rb->aux_nr_pages != nr_pages)
		return -EINVAL;

	if (!is_power_of_2(nr_pages))
		return -EINVAL;

	if (rb_has_aux(rb)) {
		if (!atomic_inc_not_zero(&rb->mmap_count))
			return -EINVAL;

		atomic_inc(&rb->aux_mmap_count);
		perf_mmap_charge_get(rb->aux_charge, vma->vm_mm);

	} else {
		charge = perf_mmap_charge_new(vma->vm_mm, nr_pages);
		if (IS_ERR(charge))
			return PTR_ERR(charge);

		if (vma->vm_flags & VM_WRITE)
			rb_flags |= RING_BUFFER_WRITABLE;

		ret = rb_alloc_aux(rb, event, vma->vm_pgoff, nr_pages,
				   event->attr.aux_watermark, rb_flags);
		if (ret) {
			perf_mmap_charge_free(charge);
			return ret;
		}

		/* The last mapping, of another event, may have gone meanwhile. */
		if (!atomic_inc_not_zero(&rb->mmap_count)) {
			rb_free_aux(rb);
			perf_mmap_charge_free(charge);
			return -EINVAL;
		}

		rb->aux_charge = charge;
		atomic_set_release(&rb->aux_mmap_count, 1);
	}

	/* The AUX area keeps the data pages, so it is one of their mappings. */
	perf_mmap_charge_get(rb->charge, vma->vm_mm);

	/*
	 * The buffer may belong to another event, and this may be the first mapping of
	 * this event.
	 */
	atomic_inc(&event->mmap_count);

	return 0;
}

/**
 * perf_mmap - Map the buffer of an event, or the AUX area of that buffer
 * @file:	file of the event
 * @vma:	new mapping; its offset selects buffer or AUX area
 *
 * Context: Process, may sleep. Takes perf_event::mmap_mutex.
 * Return: 0, -EINVAL for an invalid size or offset, -EPERM beyond the limits on
 *	   locked memory, -EBUSY or -ENOMEM, or another error.
 */
int perf_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct perf_event *event = file->private_data;
	unsigned long vma_size, nr_pages;
	int ret;

	/*
	 * Don't allow mmap() of inherited per-task counters. This would
	 * create a performance issue due to all children writing to the
	 * same rb.
	 */
	if (event->cpu == -1 && event->attr.inherit)
		return -EINVAL;

	if (!(vma->vm_flags & VM_SHARED))
		return -EINVAL;

	ret = security_perf_event_read(event);
	if (ret)
		return ret;

	vma_size = vma->vm_end - vma->vm_start;
	nr_pages = vma_size / PAGE_SIZE;

	if (nr_pages > INT_MAX)
		return -ENOMEM;

	if (vma_size != PAGE_SIZE * nr_pages)
		return -EINVAL;

	guard(mutex)(&event->mmap_mutex);

	if (!vma->vm_pgoff)
		ret = perf_mmap_rb(vma, event, nr_pages);
	else
		ret = perf_mmap_aux(vma, event, nr_pages);
	if (ret)
		return ret;

	/*
	 * A child of fork() has the descriptor, and maps the buffer itself if
	 * it wants to read it.
	 */
	vm_flags_set(vma, VM_DONTCOPY | VM_DONTEXPAND | VM_DONTDUMP);
	vma->vm_ops = &perf_mmap_vmops;

	if (event->pmu->event_mapped)
		event->pmu->event_mapped(event, vma->vm_mm);

	return 0;
}
