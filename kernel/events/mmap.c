// SPDX-License-Identifier: GPL-2.0
/*
 * Ring buffers in the memory of programs: mmap(2) of an event, and which events
 * write to a buffer.
 */
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

/**
 * ring_buffer_attach - Let an event write to a buffer, and to no other one
 * @event:	the event, not inherited
 * @rb:		the buffer, of which the event takes a reference, or NULL
 *
 * Context: Process, may sleep. perf_event::mmap_mutex of @event is held.
 */
void ring_buffer_attach(struct perf_event *event, struct perf_buffer *rb)
{
	struct perf_buffer *old_rb = NULL;
	unsigned long flags;

	WARN_ON_ONCE(event->parent);

	if (event->rb) {
		/*
		 * Should be impossible, we set this when removing
		 * event->rb_entry and wait/clear when adding event->rb_entry.
		 */
		WARN_ON_ONCE(event->rcu_pending);

		old_rb = event->rb;
		if (has_aux(event)) {
			mutex_lock(&old_rb->aux_mutex);
			/* While the record of it still goes to this buffer. */
			perf_aux_stop_family(event);
		}

		spin_lock_irqsave(&old_rb->event_lock, flags);
		list_del_rcu(&event->rb_entry);
		spin_unlock_irqrestore(&old_rb->event_lock, flags);

		event->rcu_batches = get_state_synchronize_rcu();
		event->rcu_pending = 1;
	}

	if (rb) {
		if (event->rcu_pending) {
			cond_synchronize_rcu(event->rcu_batches);
			event->rcu_pending = 0;
		}

		spin_lock_irqsave(&rb->event_lock, flags);
		list_add_rcu(&event->rb_entry, &rb->event_list);
		spin_unlock_irqrestore(&rb->event_lock, flags);
	}

	rcu_assign_pointer(event->rb, rb);

	/*
	 * Stop what has started meanwhile, and writes to the AUX area that
	 * event::rb has led to. It does not start there again.
	 * perf_mmap_close(AUX) waits for aux_mutex, or else comes first and has
	 * stopped it.
	 *
	 * Data will inevitably be lost when set_output is done in
	 * mid-air, but then again, whoever does it like this is
	 * not in for the data anyway.
	 */
	if (old_rb && has_aux(event)) {
		perf_aux_stop_family(event);
		mutex_unlock(&old_rb->aux_mutex);
	}

	if (old_rb) {
		perf_splice_wake(old_rb);
		ring_buffer_put(old_rb);
		/*
		 * Since we detached before setting the new rb, so that we
		 * could attach the new rb, we could have missed a wakeup.
		 * Provide it now.
		 */
		wake_up_all(&event->waitq);
	}
}

/**
 * ring_buffer_wakeup - Wake who waits for a buffer that an event writes to
 * @event:	the event, or one that inherited it
 *
 * Context: Any but NMI.
 */
void ring_buffer_wakeup(struct perf_event *event)
{
	struct perf_buffer *rb;

	if (event->parent)
		event = event->parent;

	rcu_read_lock();
	rb = rcu_dereference(event->rb);
	if (rb) {
		list_for_each_entry_rcu(event, &rb->event_list, rb_entry)
			wake_up_all(&event->waitq);
	}
	rcu_read_unlock();
}

struct perf_buffer *ring_buffer_get(struct perf_event *event)
{
	struct perf_buffer *rb;

	if (event->parent)
		event = event->parent;

	rcu_read_lock();
	rb = rcu_dereference(event->rb);
	if (rb) {
		if (!refcount_inc_not_zero(&rb->refcount))
			rb = NULL;
	}
	rcu_read_unlock();

	return rb;
}

void ring_buffer_put(struct perf_buffer *rb)
{
	if (!refcount_dec_and_test(&rb->refcount))
		return;

	WARN_ON_ONCE(!list_empty(&rb->event_list));

	call_rcu(&rb->rcu_head, rb_free_rcu);
}

static void perf_mmap_open(struct vm_area_struct *vma)
{
	struct perf_event *event = vma->vm_file->private_data;

	atomic_inc(&event->mmap_count);
	atomic_inc(&event->rb->mmap_count);

	perf_mmap_charge_copy(event->rb->charge, vma->vm_mm);

	if (vma->vm_pgoff) {
		atomic_inc(&event->rb->aux_mmap_count);
		perf_mmap_charge_copy(event->rb->aux_charge, vma->vm_mm);
	}

	if (event->pmu->event_mapped)
		event->pmu->event_mapped(event, vma->vm_mm);
}

/**
 * rb_detach_all - Take a buffer from all events, and give back what it costs
 * @rb:		buffer whose perf_buffer::mmap_count is 0, referenced
 *
 * No other mmap()s, detach from all other events that might redirect
 * into the now unreachable buffer. Somewhat complicated by the
 * fact that rb::event_lock otherwise nests inside mmap_mutex.
 *
 * Context: Process, may sleep.
 */
void rb_detach_all(struct perf_buffer *rb)
{
	struct perf_event *event;

again:
	rcu_read_lock();
	list_for_each_entry_rcu(event, &rb->event_list, rb_entry) {
		if (!atomic_long_inc_not_zero(&event->refcount)) {
			/*
			 * This event is en-route to free_event() which will
			 * detach it and remove it from the list.
			 */
			continue;
		}
		rcu_read_unlock();

		mutex_lock(&event->mmap_mutex);
		/*
		 * Check we didn't race with perf_event_set_output() which can
		 * swizzle the rb from under us while we were waiting to
		 * acquire mmap_mutex.
		 *
		 * If we find a different rb; ignore this event, a next
		 * iteration will no longer find it on the list. We have to
		 * still restart the iteration to make sure we're not now
		 * iterating the wrong list.
		 */
		if (event->rb == rb)
			ring_buffer_attach(event, NULL);

		mutex_unlock(&event->mmap_mutex);
		put_event(event);

		/*
		 * Restart the iteration; either we're on the wrong list or
		 * destroyed its integrity by doing a deletion.
		 */
		goto again;
	}
	rcu_read_unlock();

	/*
	 * It could be there's still a few 0-ref events on the list; they'll
	 * get cleaned up by free_event() -- they'll also still have their
	 * ref on the rb and will free it whenever they are done with it.
	 *
	 * Aside from that, this buffer is 'fully' detached and unmapped,
	 * undo the VM accounting.
	 */
	perf_mmap_charge_free(rb->charge);
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
	bool detach_rest;

	if (event->pmu->event_unmapped)
		event->pmu->event_unmapped(event, vma->vm_mm);

	if (vma->vm_pgoff)
		perf_mmap_charge_put(rb->aux_charge, vma->vm_mm);
	perf_mmap_charge_put(rb->charge, vma->vm_mm);

	/*
	 * The AUX buffer is strictly a sub-buffer, serialize using aux_mutex
	 * to avoid complications.
	 */
	if (vma->vm_pgoff &&
	    atomic_dec_and_mutex_lock(&rb->aux_mmap_count, &rb->aux_mutex)) {
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

		mutex_unlock(&rb->aux_mutex);
	}

	/*
	 * Two maps of the same event can get here at once from two mms, so
	 * either count may be the first one to drop to zero.
	 */
	detach_rest = atomic_dec_and_test(&rb->mmap_count);

	if (atomic_dec_and_mutex_lock(&event->mmap_count, &event->mmap_mutex)) {
		ring_buffer_attach(event, NULL);
		mutex_unlock(&event->mmap_mutex);
	}

	/* If there's still other mmap()s of this buffer, we're done. */
	if (detach_rest)
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

/**
 * perf_mmap - mmap(2) of an event: its buffer, or the AUX area of that
 * @file:	file of the event
 * @vma:	what is to be mapped; the offset tells which of the two
 *
 * Context: Process, may sleep. Takes perf_event::mmap_mutex.
 * Return: 0, -EINVAL for a size or an offset that cannot be, -EPERM beyond the
 *	   limits on locked memory, -EBUSY or -ENOMEM, or another error.
 */
int perf_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct perf_event *event = file->private_data;
	struct perf_mmap_charge *charge;
	struct perf_buffer *failed_rb = NULL;
	struct mutex *aux_mutex = NULL;
	struct perf_buffer *rb = NULL;
	unsigned long vma_size;
	unsigned long nr_pages;
	int ret = 0, flags = 0;

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

	if (vma->vm_pgoff == 0) {
		nr_pages = (vma_size / PAGE_SIZE) - 1;
	} else {
		/*
		 * AUX area mapping: if rb->aux_nr_pages != 0, it's already
		 * mapped, all subsequent mappings should have the same size
		 * and offset. Must be above the normal perf buffer.
		 */
		u64 aux_offset, aux_size;

		if (!event->rb)
			return -EINVAL;

		nr_pages = vma_size / PAGE_SIZE;
		if (nr_pages > INT_MAX)
			return -ENOMEM;

		mutex_lock(&event->mmap_mutex);
		ret = -EINVAL;

		rb = event->rb;
		if (!rb)
			goto aux_unlock;

		aux_mutex = &rb->aux_mutex;
		mutex_lock(aux_mutex);

		aux_offset = READ_ONCE(rb->user_page->aux_offset);
		aux_size = READ_ONCE(rb->user_page->aux_size);

		if (aux_offset < perf_data_size(rb) + PAGE_SIZE)
			goto aux_unlock;

		if (aux_offset != vma->vm_pgoff << PAGE_SHIFT)
			goto aux_unlock;

		/* already mapped with a different offset */
		if (rb_has_aux(rb) && rb->aux_pgoff != vma->vm_pgoff)
			goto aux_unlock;

		if (aux_size != vma_size || aux_size != nr_pages * PAGE_SIZE)
			goto aux_unlock;

		/* already mapped with a different size */
		if (rb_has_aux(rb) && rb->aux_nr_pages != nr_pages)
			goto aux_unlock;

		if (!is_power_of_2(nr_pages))
			goto aux_unlock;

		if (!atomic_inc_not_zero(&rb->mmap_count))
			goto aux_unlock;

		/* The AUX area keeps the data pages, in whatever mm it is mapped. */
		ret = perf_mmap_charge_get(rb->charge, vma->vm_mm);
		if (ret)
			goto unlock;

		if (rb_has_aux(rb)) {
			ret = perf_mmap_charge_get(rb->aux_charge, vma->vm_mm);
			if (ret)
				goto uncharge;
			atomic_inc(&rb->aux_mmap_count);
			goto unlock;
		}

		goto accounting;
	}

	/*
	 * If we have rb pages ensure they're a power-of-two number, so we
	 * can do bitmasks instead of modulo.
	 */
	if (nr_pages != 0 && !is_power_of_2(nr_pages))
		return -EINVAL;

	if (vma_size != PAGE_SIZE * (1 + nr_pages))
		return -EINVAL;

	WARN_ON_ONCE(event->ctx->parent_ctx);
again:
	mutex_lock(&event->mmap_mutex);
	if (event->rb) {
		ret = rb_may_mmap(event->rb, nr_pages);
		if (ret)
			goto unlock;

		if (!atomic_inc_not_zero(&event->rb->mmap_count)) {
			/*
			 * Raced against perf_mmap_close(); remove the
			 * event and try again.
			 */
			ring_buffer_attach(event, NULL);
			mutex_unlock(&event->mmap_mutex);
			goto again;
		}

		ret = perf_mmap_charge_get(event->rb->charge, vma->vm_mm);
		if (ret)
			rb = event->rb;
		goto unlock;
	}

	/* The user page */
	nr_pages++;

accounting:
	charge = perf_mmap_charge_new(vma->vm_mm, nr_pages);
	if (IS_ERR(charge)) {
		ret = PTR_ERR(charge);
		goto uncharge;
	}

	WARN_ON(!rb && event->rb);

	if (vma->vm_flags & VM_WRITE)
		flags |= RING_BUFFER_WRITABLE;

	if (!rb) {
		rb = rb_alloc(nr_pages - 1,
			      event->attr.watermark ? event->attr.wakeup_watermark : 0,
			      event->cpu, flags);

		if (!rb) {
			ret = -ENOMEM;
			goto uncharge_new;
		}

		atomic_set(&rb->mmap_count, 1);
		rb->charge = charge;

		perf_event_init_userpage(event, rb);
		ring_buffer_attach(event, rb);

		perf_event_publish(event, false);
	} else {
		ret = rb_alloc_aux(rb, event, vma->vm_pgoff, nr_pages,
				   event->attr.aux_watermark, flags);
		if (ret)
			goto uncharge_new;

		rb->aux_charge = charge;
		atomic_set_release(&rb->aux_mmap_count, 1);
	}

	goto unlock;

uncharge_new:
	perf_mmap_charge_put(charge, vma->vm_mm);
	perf_mmap_charge_free(charge);
uncharge:
	if (rb)
		perf_mmap_charge_put(rb->charge, vma->vm_mm);
unlock:
	if (!ret) {
		atomic_inc(&event->mmap_count);
	} else if (rb) {
		/* Not mapped after all, and this may be the last one that drops it */
		refcount_inc(&rb->refcount);
		failed_rb = rb;
	}
aux_unlock:
	if (aux_mutex)
		mutex_unlock(aux_mutex);
	mutex_unlock(&event->mmap_mutex);

	if (failed_rb) {
		if (atomic_dec_and_test(&failed_rb->mmap_count))
			rb_detach_all(failed_rb);
		ring_buffer_put(failed_rb);
	}

	if (ret)
		return ret;

	/*
	 * Since each mm pays for what it maps we cannot allow fork() to copy
	 * our vma.
	 */
	vm_flags_set(vma, VM_DONTCOPY | VM_DONTEXPAND | VM_DONTDUMP);
	vma->vm_ops = &perf_mmap_vmops;

	if (event->pmu->event_mapped)
		event->pmu->event_mapped(event, vma->vm_mm);

	return ret;
}
