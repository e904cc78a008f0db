/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Sizes and offsets, the same in programs of 32 and of 64 bits: nothing depends on
 * the size of a pointer, nor on how the machine aligns 64 bits.
 */
#ifndef PERFMON_LAYOUT_H
#define PERFMON_LAYOUT_H

#include <linux/perfmon.h>

#define SIZE(type, size)							\
	_Static_assert(sizeof(struct type) == (size), "size of " #type)
#define AT(type, field, offset)							\
	_Static_assert(__builtin_offsetof(struct type, field) == (offset), #type "::" #field)

SIZE(pfarg_ctx, 64);
AT(pfarg_ctx, ctx_flags, 0);
AT(pfarg_ctx, ctx_fd, 4);
AT(pfarg_ctx, ctx_pmu_type, 8);
AT(pfarg_ctx, ctx_rsvd, 12);
AT(pfarg_ctx, ctx_reserved, 16);

SIZE(pfarg_pmc, 48);
AT(pfarg_pmc, reg_num, 0);
AT(pfarg_pmc, reg_set, 2);
AT(pfarg_pmc, reg_flags, 4);
AT(pfarg_pmc, reg_value, 8);
AT(pfarg_pmc, reserved, 16);

SIZE(pfarg_pmd, 176);
AT(pfarg_pmd, reg_num, 0);
AT(pfarg_pmd, reg_set, 2);
AT(pfarg_pmd, reg_flags, 4);
AT(pfarg_pmd, reg_value, 8);
AT(pfarg_pmd, reg_long_reset, 16);
AT(pfarg_pmd, reg_short_reset, 24);
AT(pfarg_pmd, reg_last_reset_val, 32);
AT(pfarg_pmd, reg_ovfl_switch_cnt, 40);
AT(pfarg_pmd, reg_reset_pmds, 48);
AT(pfarg_pmd, reg_smpl_pmds, 88);
AT(pfarg_pmd, reg_smpl_eventid, 128);
AT(pfarg_pmd, reg_random_mask, 136);
AT(pfarg_pmd, reg_random_seed, 144);
AT(pfarg_pmd, reserved, 148);

SIZE(pfarg_start, 32);
AT(pfarg_start, start_set, 0);
AT(pfarg_start, reserved1, 2);
AT(pfarg_start, reserved2, 4);
AT(pfarg_start, reserved3, 8);

SIZE(pfarg_load, 32);
AT(pfarg_load, load_pid, 0);
AT(pfarg_load, load_set, 4);
AT(pfarg_load, reserved1, 6);
AT(pfarg_load, reserved2, 8);

SIZE(pfarg_setdesc, 64);
AT(pfarg_setdesc, set_id, 0);
AT(pfarg_setdesc, set_id_next, 2);
AT(pfarg_setdesc, set_flags, 4);
AT(pfarg_setdesc, set_timeout, 8);
AT(pfarg_setdesc, reserved, 16);

SIZE(pfarg_setinfo, 200);
AT(pfarg_setinfo, set_id, 0);
AT(pfarg_setinfo, set_id_next, 2);
AT(pfarg_setinfo, set_flags, 4);
AT(pfarg_setinfo, set_ovfl_pmds, 8);
AT(pfarg_setinfo, set_runs, 48);
AT(pfarg_setinfo, set_timeout, 56);
AT(pfarg_setinfo, set_act_duration, 64);
AT(pfarg_setinfo, set_avail_pmcs, 72);
AT(pfarg_setinfo, set_avail_pmds, 112);
AT(pfarg_setinfo, set_enabled_ns, 152);
AT(pfarg_setinfo, set_running_ns, 160);
AT(pfarg_setinfo, set_lost, 168);
AT(pfarg_setinfo, reserved, 176);

SIZE(pfarg_ovfl_msg, 64);
AT(pfarg_ovfl_msg, msg_type, 0);
AT(pfarg_ovfl_msg, msg_ovfl_pid, 4);
AT(pfarg_ovfl_msg, msg_active_set, 8);
AT(pfarg_ovfl_msg, msg_ovfl_cpu, 10);
AT(pfarg_ovfl_msg, msg_ovfl_tid, 12);
AT(pfarg_ovfl_msg, msg_ovfl_ip, 16);
AT(pfarg_ovfl_msg, msg_ovfl_pmds, 24);

SIZE(pfm_dfl_smpl_arg, 64);
AT(pfm_dfl_smpl_arg, buf_size, 0);
AT(pfm_dfl_smpl_arg, buf_flags, 8);
AT(pfm_dfl_smpl_arg, reserved1, 12);
AT(pfm_dfl_smpl_arg, reserved2, 16);

SIZE(pfm_dfl_smpl_hdr, 128);
AT(pfm_dfl_smpl_hdr, hdr_count, 0);
AT(pfm_dfl_smpl_hdr, hdr_cur_offs, 8);
AT(pfm_dfl_smpl_hdr, hdr_overflows, 16);
AT(pfm_dfl_smpl_hdr, hdr_buf_size, 24);
AT(pfm_dfl_smpl_hdr, hdr_min_buf_space, 32);
AT(pfm_dfl_smpl_hdr, hdr_version, 40);
AT(pfm_dfl_smpl_hdr, hdr_buf_flags, 44);
AT(pfm_dfl_smpl_hdr, hdr_reserved, 48);

SIZE(pfm_dfl_smpl_entry, 40);
AT(pfm_dfl_smpl_entry, pid, 0);
AT(pfm_dfl_smpl_entry, ovfl_pmd, 4);
AT(pfm_dfl_smpl_entry, reserved, 6);
AT(pfm_dfl_smpl_entry, last_reset_val, 8);
AT(pfm_dfl_smpl_entry, ip, 16);
AT(pfm_dfl_smpl_entry, tstamp, 24);
AT(pfm_dfl_smpl_entry, cpu, 32);
AT(pfm_dfl_smpl_entry, set, 34);
AT(pfm_dfl_smpl_entry, tgid, 36);

_Static_assert(sizeof(union pfarg_msg) == 64, "size of pfarg_msg");

#undef AT
#undef SIZE

#endif /* PERFMON_LAYOUT_H */
