/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _KERNEL_EVENTS_MMAP_CHARGE_H
#define _KERNEL_EVENTS_MMAP_CHARGE_H

struct mm_struct;
struct perf_mmap_charge;

struct perf_mmap_charge *perf_mmap_charge_new(struct mm_struct *mm,
					      unsigned long nr_pages);
struct perf_mmap_charge *perf_mmap_charge_file(unsigned long nr_pages);
void perf_mmap_charge_get(struct perf_mmap_charge *charge, struct mm_struct *mm);
void perf_mmap_charge_put(struct perf_mmap_charge *charge, struct mm_struct *mm);
void perf_mmap_charge_free(struct perf_mmap_charge *charge);

#endif /* _KERNEL_EVENTS_MMAP_CHARGE_H */
