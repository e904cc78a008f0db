/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * Event set system calls: structures and flags.
 *
 * Every structure has the same layout for 32-bit and 64-bit programs. Reserved
 * fields must be zero. See Documentation/userspace-api/perfmon.rst.
 */
#ifndef _UAPI_LINUX_PERFMON_H
#define _UAPI_LINUX_PERFMON_H

#include <linux/types.h>

#define PFM_VERSION_MAJ			2
/* A number, not a fraction; clients of 2.8 know 80 to 89. */
#define PFM_VERSION_MIN			83
#define PFM_VERSION			((PFM_VERSION_MAJ << 16) | PFM_VERSION_MIN)

/* Registers: a bit vector names 320 of them, software events begin at 256. */
#define PFM_BV_WORDS			5
#define PFM_MAX_REGS			(PFM_BV_WORDS * 64)
#define PFM_SW_BASE			256

/* pfarg_ctx.ctx_flags */
#define PFM_FL_NOTIFY_BLOCK		0x001
#define PFM_FL_SYSTEM_WIDE		0x002
#define PFM_FL_OVFL_NO_MSG		0x080
#define PFM_FL_REMOTE			0x100
#define PFM_FL_CLOEXEC			0x200

/**
 * struct pfarg_ctx - pfm_create_context(2)
 * @ctx_flags:		PFM_FL_*
 * @ctx_fd:		out: the descriptor, as returned
 * @ctx_pmu_type:	0 for the PMU of the CPU, else a type of perf events
 * @ctx_rsvd:		0
 * @ctx_reserved:	0
 */
struct pfarg_ctx {
	__u32	ctx_flags;
	__s32	ctx_fd;
	__u32	ctx_pmu_type;
	__u32	ctx_rsvd;
	__u64	ctx_reserved[6];
};

/* pfarg_pmc.reg_flags */
#define PFM_REGFL_EXCL_USER		0x00010000
#define PFM_REGFL_EXCL_KERNEL		0x00020000
#define PFM_REGFL_EXCL_HV		0x00040000

/* pfarg_pmd.reg_flags */
#define PFM_REGFL_OVFL_NOTIFY		0x00000001
#define PFM_REGFL_RANDOM		0x00000002

/* Both, out: why the vector was not taken as a whole */
#define PFM_REGFL_RETFL_NOTAVAIL	0x80000000
#define PFM_REGFL_RETFL_EINVAL		0x40000000
#define PFM_REGFL_RETFL_NOSET		0x20000000
#define PFM_REGFL_RETFL_MASK		0xe0000000

/**
 * struct pfarg_pmc - pfm_write_pmcs(2): what a counter counts
 * @reg_num:	register
 * @reg_set:	event set
 * @reg_flags:	in: PFM_REGFL_EXCL_*, out: PFM_REGFL_RETFL_*
 * @reg_value:	value, as the machine or the PMU defines it
 * @reserved:	0
 */
struct pfarg_pmc {
	__u16	reg_num;
	__u16	reg_set;
	__u32	reg_flags;
	__u64	reg_value;
	__u64	reserved[4];
};

/**
 * struct pfarg_pmd - pfm_write_pmds(2), pfm_read_pmds(2): a 64-bit counter
 * @reg_num:		register
 * @reg_set:		event set
 * @reg_flags:		in: PFM_REGFL_OVFL_NOTIFY, _RANDOM, out: _RETFL_*
 * @reg_value:		value; overflows when it wraps
 * @reg_long_reset:	value after pfm_restart(2)
 * @reg_short_reset:	value after an overflow that is not masked
 * @reg_last_reset_val:	out: what the last reset or pfm_write_pmds(2) has written
 * @reg_ovfl_switch_cnt: overflows until PFM_SETFL_OVFL_SWITCH switches, 0 never
 * @reg_reset_pmds:	registers that are reset with this one
 * @reg_smpl_pmds:	registers whose values go into a sample of this one
 * @reg_smpl_eventid:	for the sampling format
 * @reg_random_mask:	bits of the reset value that PFM_REGFL_RANDOM varies
 * @reg_random_seed:	ignored
 * @reserved:		0
 */
struct pfarg_pmd {
	__u16	reg_num;
	__u16	reg_set;
	__u32	reg_flags;
	__u64	reg_value;
	__u64	reg_long_reset;
	__u64	reg_short_reset;
	__u64	reg_last_reset_val;
	__u64	reg_ovfl_switch_cnt;
	__u64	reg_reset_pmds[PFM_BV_WORDS];
	__u64	reg_smpl_pmds[PFM_BV_WORDS];
	__u64	reg_smpl_eventid;
	__u64	reg_random_mask;
	__u32	reg_random_seed;
	__u32	reserved[7];
};

/**
 * struct pfarg_start - pfm_start(2)
 * @start_set:	event set to begin with
 * @reserved1:	0
 * @reserved2:	0
 * @reserved3:	0
 */
struct pfarg_start {
	__u16	start_set;
	__u16	reserved1;
	__u32	reserved2;
	__u64	reserved3[3];
};

/**
 * struct pfarg_load - pfm_load_context(2)
 * @load_pid:	thread, or CPU with PFM_FL_SYSTEM_WIDE
 * @load_set:	event set that is active first
 * @reserved1:	0
 * @reserved2:	0
 */
struct pfarg_load {
	__u32	load_pid;
	__u16	load_set;
	__u16	reserved1;
	__u64	reserved2[3];
};

/* pfarg_setdesc.set_flags */
#define PFM_SETFL_OVFL_SWITCH		0x00000001
#define PFM_SETFL_TIME_SWITCH		0x00000002
#define PFM_SETFL_EXPL_NEXT		0x00000004

/* pfarg_setinfo.set_flags, out */
#define PFM_SETFL_OUT_ACTIVE		0x80000000
#define PFM_SETFL_OUT_NOPMU		0x40000000

/**
 * struct pfarg_setdesc - pfm_create_evtsets(2), pfm_delete_evtsets(2)
 * @set_id:		name and place in the order of sets
 * @set_id_next:	set that follows with PFM_SETFL_EXPL_NEXT, else 0
 * @set_flags:		PFM_SETFL_*
 * @set_timeout:	ns of PFM_SETFL_TIME_SWITCH, out: as rounded
 * @reserved:		0
 */
struct pfarg_setdesc {
	__u16	set_id;
	__u16	set_id_next;
	__u32	set_flags;
	__u64	set_timeout;
	__u64	reserved[6];
};

/**
 * struct pfarg_setinfo - pfm_getinfo_evtsets(2); all but @set_id are out
 * @set_id:		event set
 * @set_id_next:	as created
 * @set_flags:		PFM_SETFL_*
 * @set_ovfl_pmds:	registers that overflowed since their last reset; with
 *			perfmon.compat=1 those of the last overflow
 * @set_runs:		how often the set became active
 * @set_timeout:	ns left until the next switch
 * @set_act_duration:	ns that the set was active while the target ran
 * @set_avail_pmcs:	control registers there are
 * @set_avail_pmds:	data registers there are, but for counters that others hold
 * @set_enabled_ns:	ns that the counters of the set should have counted
 * @set_running_ns:	ns that they did
 * @set_lost:		overflows that perf throttled, samples without space
 * @reserved:		0
 */
struct pfarg_setinfo {
	__u16	set_id;
	__u16	set_id_next;
	__u32	set_flags;
	__u64	set_ovfl_pmds[PFM_BV_WORDS];
	__u64	set_runs;
	__u64	set_timeout;
	__u64	set_act_duration;
	__u64	set_avail_pmcs[PFM_BV_WORDS];
	__u64	set_avail_pmds[PFM_BV_WORDS];
	__u64	set_enabled_ns;
	__u64	set_running_ns;
	__u64	set_lost;
	__u64	reserved[3];
};

/* What read(2) gives */
#define PFM_MSG_OVFL			1
#define PFM_MSG_END			2

/**
 * struct pfarg_ovfl_msg - a counter overflowed, its notification was requested
 * @msg_type:		PFM_MSG_OVFL
 * @msg_ovfl_pid:	thread group
 * @msg_active_set:	event set that overflowed
 * @msg_ovfl_cpu:	CPU
 * @msg_ovfl_tid:	thread
 * @msg_ovfl_ip:	instruction pointer, 0 if it may not be known
 * @msg_ovfl_pmds:	registers that overflowed
 */
struct pfarg_ovfl_msg {
	__u32	msg_type;
	__u32	msg_ovfl_pid;
	__u16	msg_active_set;
	__u16	msg_ovfl_cpu;
	__u32	msg_ovfl_tid;
	__u64	msg_ovfl_ip;
	__u64	msg_ovfl_pmds[PFM_BV_WORDS];
};

/**
 * union pfarg_msg - message
 * @type:		PFM_MSG_*
 * @pfm_ovfl_msg:	of PFM_MSG_OVFL; all but the type is 0 for PFM_MSG_END
 */
union pfarg_msg {
	__u32			type;
	struct pfarg_ovfl_msg	pfm_ovfl_msg;
};

/**
 * struct pfm_dfl_smpl_arg - argument of the sampling format "default"
 * @buf_size:	bytes, with the header
 * @buf_flags:	0
 * @reserved1:	0
 * @reserved2:	0
 */
struct pfm_dfl_smpl_arg {
	__u64	buf_size;
	__u32	buf_flags;
	__u32	reserved1;
	__u64	reserved2[6];
};

#define PFM_DFL_SMPL_VERSION		0x10000

/**
 * struct pfm_dfl_smpl_hdr - begin of the buffer
 * @hdr_count:		samples
 * @hdr_cur_offs:	bytes in use, with the header
 * @hdr_overflows:	how often the buffer was full
 * @hdr_buf_size:	bytes there are
 * @hdr_min_buf_space:	bytes of the largest sample that the registers ask for, at least
 *			of one with all data registers of the PMU
 * @hdr_version:	PFM_DFL_SMPL_VERSION
 * @hdr_buf_flags:	as in the argument
 * @hdr_reserved:	0
 */
struct pfm_dfl_smpl_hdr {
	__u64	hdr_count;
	__u64	hdr_cur_offs;
	__u64	hdr_overflows;
	__u64	hdr_buf_size;
	__u64	hdr_min_buf_space;
	__u32	hdr_version;
	__u32	hdr_buf_flags;
	__u64	hdr_reserved[10];
};

/**
 * struct pfm_dfl_smpl_entry - sample; values of reg_smpl_pmds follow in order
 * @pid:		thread
 * @ovfl_pmd:		register that overflowed
 * @reserved:		0
 * @last_reset_val:	what the register was last reset to, or written with
 * @ip:			instruction pointer, 0 if it may not be known
 * @tstamp:		ns
 * @cpu:		CPU
 * @set:		event set
 * @tgid:		thread group
 */
struct pfm_dfl_smpl_entry {
	__u32	pid;
	__u16	ovfl_pmd;
	__u16	reserved;
	__u64	last_reset_val;
	__u64	ip;
	__u64	tstamp;
	__u16	cpu;
	__u16	set;
	__u32	tgid;
};

#endif /* _UAPI_LINUX_PERFMON_H */
