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
/* The minor version is an integer, not a fraction; clients of 2.8 accept 80 to 89. */
#define PFM_VERSION_MIN			83
#define PFM_VERSION			((PFM_VERSION_MAJ << 16) | PFM_VERSION_MIN)

/* A bit vector names 320 registers; those of software events begin at 256. */
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
 */
struct pfarg_ctx {
	/** @ctx_flags: PFM_FL_* */
	__u32	ctx_flags;
	/** @ctx_fd: out: the descriptor, as returned */
	__s32	ctx_fd;
	/** @ctx_pmu_type: type of a PMU of perf events, 0 for the PMU of the CPU */
	__u32	ctx_pmu_type;
	/** @ctx_rsvd: must be 0 */
	__u32	ctx_rsvd;
	/** @ctx_reserved: must be 0 */
	__u64	ctx_reserved[6];
};

/* pfarg_pmc.reg_flags */
#define PFM_REGFL_EXCL_USER		0x00010000
#define PFM_REGFL_EXCL_KERNEL		0x00020000
#define PFM_REGFL_EXCL_HV		0x00040000

/* pfarg_pmd.reg_flags */
#define PFM_REGFL_OVFL_NOTIFY		0x00000001
#define PFM_REGFL_RANDOM		0x00000002

/* Both kinds of reg_flags, out: reason for which the rest of the vector was not processed */
#define PFM_REGFL_RETFL_NOTAVAIL	0x80000000
#define PFM_REGFL_RETFL_EINVAL		0x40000000
#define PFM_REGFL_RETFL_NOSET		0x20000000
#define PFM_REGFL_RETFL_MASK		0xe0000000

/**
 * struct pfarg_pmc - pfm_write_pmcs(2): event of a counter
 */
struct pfarg_pmc {
	/** @reg_num: register */
	__u16	reg_num;
	/** @reg_set: event set */
	__u16	reg_set;
	/** @reg_flags: in: PFM_REGFL_EXCL_*, out: PFM_REGFL_RETFL_* */
	__u32	reg_flags;
	/** @reg_value: value, as the machine or the PMU defines it */
	__u64	reg_value;
	/** @reserved: must be 0 */
	__u64	reserved[4];
};

/**
 * struct pfarg_pmd - pfm_write_pmds(2), pfm_read_pmds(2): a 64-bit counter
 */
struct pfarg_pmd {
	/** @reg_num: register */
	__u16	reg_num;
	/** @reg_set: event set */
	__u16	reg_set;
	/** @reg_flags: in: PFM_REGFL_OVFL_NOTIFY, _RANDOM, out: _RETFL_* */
	__u32	reg_flags;
	/** @reg_value: value of the counter, which overflows when it wraps */
	__u64	reg_value;
	/** @reg_long_reset: value after pfm_restart(2) */
	__u64	reg_long_reset;
	/** @reg_short_reset: value after an overflow that does not mask the context */
	__u64	reg_short_reset;
	/** @reg_last_reset_val: out: value written by the last reset or pfm_write_pmds(2) */
	__u64	reg_last_reset_val;
	/** @reg_ovfl_switch_cnt: overflows until PFM_SETFL_OVFL_SWITCH switches; 0: never */
	__u64	reg_ovfl_switch_cnt;
	/** @reg_reset_pmds: registers that are reset with this one */
	__u64	reg_reset_pmds[PFM_BV_WORDS];
	/** @reg_smpl_pmds: registers whose values go into a sample of this one */
	__u64	reg_smpl_pmds[PFM_BV_WORDS];
	/** @reg_smpl_eventid: ignored */
	__u64	reg_smpl_eventid;
	/** @reg_random_mask: bits of the reset value that PFM_REGFL_RANDOM changes */
	__u64	reg_random_mask;
	/** @reg_random_seed: ignored */
	__u32	reg_random_seed;
	/** @reserved: must be 0 */
	__u32	reserved[7];
};

/**
 * struct pfarg_start - pfm_start(2)
 */
struct pfarg_start {
	/** @start_set: event set to begin with */
	__u16	start_set;
	/** @reserved1: must be 0 */
	__u16	reserved1;
	/** @reserved2: must be 0 */
	__u32	reserved2;
	/** @reserved3: must be 0 */
	__u64	reserved3[3];
};

/**
 * struct pfarg_load - pfm_load_context(2)
 */
struct pfarg_load {
	/** @load_pid: thread, or CPU with PFM_FL_SYSTEM_WIDE */
	__u32	load_pid;
	/** @load_set: event set that is active first */
	__u16	load_set;
	/** @reserved1: must be 0 */
	__u16	reserved1;
	/** @reserved2: must be 0 */
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
 */
struct pfarg_setdesc {
	/** @set_id: number of the set, which orders the sets */
	__u16	set_id;
	/** @set_id_next: set that follows with PFM_SETFL_EXPL_NEXT, else 0 */
	__u16	set_id_next;
	/** @set_flags: PFM_SETFL_* */
	__u32	set_flags;
	/** @set_timeout: timeout of PFM_SETFL_TIME_SWITCH in ns, out: as it will be used */
	__u64	set_timeout;
	/** @reserved: must be 0 */
	__u64	reserved[6];
};

/**
 * struct pfarg_setinfo - pfm_getinfo_evtsets(2); all but @set_id are out
 */
struct pfarg_setinfo {
	/** @set_id: event set */
	__u16	set_id;
	/** @set_id_next: as for pfm_create_evtsets(2) */
	__u16	set_id_next;
	/** @set_flags: PFM_SETFL_* */
	__u32	set_flags;
	/**
	 * @set_ovfl_pmds: registers that overflowed since their last reset;
	 * with perfmon.compat=1 those of the last overflow
	 */
	__u64	set_ovfl_pmds[PFM_BV_WORDS];
	/** @set_runs: number of times that the set became active */
	__u64	set_runs;
	/** @set_timeout: rest of the timeout in ns, all of it while the set is not active */
	__u64	set_timeout;
	/** @set_act_duration: time in ns that the set was active while the target ran */
	__u64	set_act_duration;
	/**
	 * @set_avail_pmcs: control registers that exist, without those of counters
	 * held by others
	 */
	__u64	set_avail_pmcs[PFM_BV_WORDS];
	/** @set_avail_pmds: data registers that exist, without counters held by others */
	__u64	set_avail_pmds[PFM_BV_WORDS];
	/** @set_enabled_ns: time in ns that the counters of the set were enabled */
	__u64	set_enabled_ns;
	/** @set_running_ns: time in ns that these counters counted */
	__u64	set_running_ns;
	/** @set_lost: overflows that perf throttled or that no sample or message reports */
	__u64	set_lost;
	/** @reserved: 0 */
	__u64	reserved[3];
};

/* Type of a message that read(2) returns */
#define PFM_MSG_OVFL			1
#define PFM_MSG_END			2

/**
 * struct pfarg_ovfl_msg - message of an overflow with PFM_REGFL_OVFL_NOTIFY
 */
struct pfarg_ovfl_msg {
	/** @msg_type: PFM_MSG_OVFL */
	__u32	msg_type;
	/** @msg_ovfl_pid: thread group */
	__u32	msg_ovfl_pid;
	/** @msg_active_set: event set that overflowed */
	__u16	msg_active_set;
	/** @msg_ovfl_cpu: CPU */
	__u16	msg_ovfl_cpu;
	/** @msg_ovfl_tid: thread */
	__u32	msg_ovfl_tid;
	/** @msg_ovfl_ip: instruction pointer, 0 if it is unknown or hidden */
	__u64	msg_ovfl_ip;
	/** @msg_ovfl_pmds: registers that overflowed */
	__u64	msg_ovfl_pmds[PFM_BV_WORDS];
};

/**
 * union pfarg_msg - message
 */
union pfarg_msg {
	/** @type: PFM_MSG_* */
	__u32			type;
	/** @pfm_ovfl_msg: message of PFM_MSG_OVFL; with PFM_MSG_END, the rest of it is 0 */
	struct pfarg_ovfl_msg	pfm_ovfl_msg;
};

/**
 * struct pfm_dfl_smpl_arg - argument of the sampling format "default"
 */
struct pfm_dfl_smpl_arg {
	/** @buf_size: size in bytes, with the header */
	__u64	buf_size;
	/** @buf_flags: must be 0 */
	__u32	buf_flags;
	/** @reserved1: must be 0 */
	__u32	reserved1;
	/** @reserved2: must be 0 */
	__u64	reserved2[6];
};

#define PFM_DFL_SMPL_VERSION		0x10000

/**
 * struct pfm_dfl_smpl_hdr - header of the buffer
 */
struct pfm_dfl_smpl_hdr {
	/** @hdr_count: number of samples */
	__u64	hdr_count;
	/** @hdr_cur_offs: bytes in use, with the header */
	__u64	hdr_cur_offs;
	/** @hdr_overflows: number of times that the buffer was full */
	__u64	hdr_overflows;
	/** @hdr_buf_size: size in bytes */
	__u64	hdr_buf_size;
	/**
	 * @hdr_min_buf_space: size in bytes of the largest sample that the
	 * registers request, and at least that of a sample with all data
	 * registers of the PMU
	 */
	__u64	hdr_min_buf_space;
	/** @hdr_version: PFM_DFL_SMPL_VERSION */
	__u32	hdr_version;
	/** @hdr_buf_flags: 0, like buf_flags of the argument */
	__u32	hdr_buf_flags;
	/** @hdr_reserved: 0 */
	__u64	hdr_reserved[10];
};

/**
 * struct pfm_dfl_smpl_entry - sample, followed by the values of reg_smpl_pmds
 */
struct pfm_dfl_smpl_entry {
	/** @pid: thread */
	__u32	pid;
	/** @ovfl_pmd: register that overflowed */
	__u16	ovfl_pmd;
	/** @reserved: 0 */
	__u16	reserved;
	/** @last_reset_val: value that the register got by its last reset or write */
	__u64	last_reset_val;
	/** @ip: instruction pointer, 0 if it is unknown or hidden */
	__u64	ip;
	/** @tstamp: time in ns */
	__u64	tstamp;
	/** @cpu: CPU */
	__u16	cpu;
	/** @set: event set */
	__u16	set;
	/** @tgid: thread group */
	__u32	tgid;
};

#endif /* _UAPI_LINUX_PERFMON_H */
