/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _KERNEL_EVENTS_PERFMON_INTERNAL_H
#define _KERNEL_EVENTS_PERFMON_INTERNAL_H

#include <linux/bitmap.h>
#include <linux/irq_work.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/nospec.h>
#include <linux/perf_event.h>
#include <linux/perfmon.h>
#include <linux/prandom.h>
#include <linux/refcount.h>
#include <linux/sizes.h>
#include <linux/string.h>
#include <linux/task_work.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "../internal.h"

/* Messages of overflows; one more has room, that of the end */
#define PFM_MSGQ_DEPTH		8
/* They and the last one. The power of two lets indices wrap. */
#define PFM_MSG_SLOTS		16
#define PFM_NR_SW		PERF_COUNT_SW_MAX

/*
 * Register numbers leave a gap between those of the PMU and those of the software
 * events. A set has a slot for each number that can exist.
 */
#define PFM_NR_HW		32
#define PFM_NR_SLOTS		(PFM_NR_HW + PFM_NR_SW)

/* hw_perf_event::interrupts of an event that perf has throttled */
#define PFM_THROTTLED		(~0ULL)

/* A period that nothing reaches */
#define PFM_NO_PERIOD		((u64)S64_MAX)
#define PFM_NO_TIMEOUT		BIT_ULL(62)

/*
 * User space names registers by vectors of __u64, the kernel by bitmaps of
 * long: the same words, because PERFMON depends on 64BIT.
 */
static_assert(PFM_BV_WORDS * sizeof(u64) ==
	      BITS_TO_LONGS(PFM_MAX_REGS) * sizeof(long));

enum pfm_state {
	PFM_UNLOADED	= 1,
	PFM_LOADED	= 2,
	PFM_MASKED	= 3,
};

/* How the period of a running event is changed */
enum pfm_kind {
	/* A handler may stop() it, start() has to wait */
	PFM_KIND_HW,
	/* The core counts each event in software */
	PFM_KIND_SW,
	/* An hrtimer, which must not be cancelled in its own callback */
	PFM_KIND_TIMER,
	/* A handler may read() it */
	PFM_KIND_DEFER,
};

/**
 * struct pfm_reg - a data register of one set
 * @num:		its number
 * @kind:		how its event is reprogrammed
 * @flags:		PFM_REGFL_*
 * @written:		it was written or named since the context was loaded last
 * @set:		the set
 * @event:		what counts while the context is loaded, or NULL
 * @base:		its value is this plus what @event counted
 * @long_reset:		value after a restart
 * @short_reset:	value after an overflow
 * @last_reset:		value after the last one of either, or that was written since
 * @period:		period that the PMU shall be told, 0 if it has the right one
 * @switch_cnt:		overflows until the set is switched
 * @left:		those left in this run of the set
 * @random_mask:	bits that vary in a reset value
 * @reset_pmds:		registers to reset with this one
 * @smpl_pmds:		registers to sample with this one
 */
struct pfm_reg {
	u16			num;
	u16			kind;
	u32			flags;
	bool			written;
	struct pfm_set		*set;
	struct perf_event	*event;
	u64			base;
	u64			long_reset;
	u64			short_reset;
	u64			last_reset;
	u64			period;
	u64			switch_cnt;
	u64			left;
	u64			random_mask;
	DECLARE_BITMAP(reset_pmds, PFM_MAX_REGS);
	DECLARE_BITMAP(smpl_pmds, PFM_MAX_REGS);
};

/**
 * struct pfm_pmd_val - what pfm_read_pmds(2) needs of struct pfarg_pmd
 * @num:	register
 * @set:	event set
 * @flags:	PFM_REGFL_*
 * @value:	its value
 * @last_reset:	what it was reset to
 * @left:	overflows until the set is switched
 */
struct pfm_pmd_val {
	u16		num;
	u16		set;
	u32		flags;
	u64		value;
	u64		last_reset;
	u64		left;
};

/**
 * struct pfm_pmcs - control registers of one set
 * @pmu:	of the PMU
 * @sw:		flags of those of the software events, which have no value
 */
struct pfm_pmcs {
	struct pfm_pmc_val	pmu[PFM_MAX_PMCS];
	u32			sw[PFM_NR_SW];
};

/**
 * struct pfm_set - an event set
 * @ctx:	its context
 * @node:	in pfm_context::sets, ordered by @id
 * @next:	the set that follows, valid while loaded
 * @leader:	of the group that has its events, NULL if it has none
 * @id:		name
 * @next_id:	with PFM_SETFL_EXPL_NEXT
 * @flags:	PFM_SETFL_*
 * @timeout:	ns
 * @runs:	how often it became active
 * @duration:	ns that it was active
 * @enabled:	ns, of events that are gone or were not placed
 * @running:	ns, of events that are gone
 * @lost:	overflows that nobody will hear of
 * @used:	registers that there are
 * @povfl:	registers that overflowed and were not reset
 * @last_ovfl:	registers of the last overflow, and of those before it that were
 *		not reset by then
 * @reset_pend:	registers that wait for their reset
 * @late:	registers whose overflow found the context busy
 * @retime:	registers whose PMU shall be told another period
 * @refused:	registers that no event could be had for while loaded; they
 *		count nothing until they are written again
 * @pmcs:	control registers
 * @rcu:	an interrupted handler may still look at it
 * @regs:	data registers, by pfm_slot()
 */
struct pfm_set {
	struct pfm_context	*ctx;
	struct list_head	node;
	struct pfm_set		*next;
	struct perf_event	*leader;
	u16			id;
	u16			next_id;
	u32			flags;
	u64			timeout;
	u64			runs;
	u64			duration;
	u64			enabled;
	u64			running;
	u64			lost;
	DECLARE_BITMAP(used, PFM_MAX_REGS);
	DECLARE_BITMAP(povfl, PFM_MAX_REGS);
	DECLARE_BITMAP(last_ovfl, PFM_MAX_REGS);
	DECLARE_BITMAP(reset_pend, PFM_MAX_REGS);
	DECLARE_BITMAP(late, PFM_MAX_REGS);
	DECLARE_BITMAP(retime, PFM_MAX_REGS);
	DECLARE_BITMAP(refused, PFM_MAX_REGS);
	struct pfm_pmcs		pmcs;
	struct rcu_head		rcu;
	struct pfm_reg		*regs[PFM_NR_SLOTS];
};

/* kmalloc() gives the next power of two, and a context may have many sets. */
static_assert(sizeof(struct pfm_set) <= SZ_2K);

static __always_inline unsigned int pfm_slot(unsigned int num)
{
	return num < PFM_NR_HW ? num : num - PFM_SW_BASE + PFM_NR_HW;
}

/* A register whose number is known to exist: a bit in one of the set's bitmaps */
static __always_inline struct pfm_reg *pfm_reg_at(const struct pfm_set *set, unsigned int num)
{
	return set->regs[pfm_slot(num)];
}

/* A register that user space has named, or NULL */
static inline struct pfm_reg *pfm_reg_find(const struct pfm_set *set, unsigned int num)
{
	unsigned int slot = pfm_slot(num);

	if ((num >= PFM_NR_HW && num < PFM_SW_BASE) || slot >= PFM_NR_SLOTS)
		return NULL;
	return set->regs[array_index_nospec(slot, PFM_NR_SLOTS)];
}

/* Bits of pfm_context::pend, what a handler leaves to pfm_step() */
enum pfm_pend {
	PFM_PEND_SWITCH,
	PFM_PEND_MASK,
	PFM_PEND_NOTIFY,
	PFM_PEND_RESET,
	PFM_PEND_LATE,
};

/* Bits of pfm_context::post, what must wait until the locks are dropped */
enum pfm_post {
	PFM_POST_WAKE,
	PFM_POST_BLOCK,
};

/**
 * struct pfm_where - where an overflow happened
 * @ip:		instruction pointer or 0
 * @tgid:	thread group
 * @tid:	thread
 * @cpu:	CPU
 */
struct pfm_where {
	u64			ip;
	u32			tgid;
	u32			tid;
	u16			cpu;
};

/**
 * struct pfm_charge - pages that a user pays for
 * @user:	the user
 * @allowed:	pages within the allowance of perf_event_mlock_kb
 * @locked:	pages beyond it, under RLIMIT_MEMLOCK
 */
struct pfm_charge {
	struct user_struct	*user;
	unsigned long		allowed;
	unsigned long		locked;
};

/**
 * struct pfm_context - a session, what a descriptor refers to
 *
 * The members are in groups of those that have the same writers.
 *
 * pfm_ctx_create() alone:
 *
 * @flags:	PFM_FL_*
 * @compat:	created while perfmon.compat was 1: what perfmon 2.8 did not look at
 *		is no error
 * @pmu_type:	of the events, 0 for the CPU's PMU
 * @map:	its registers
 * @ns:		PID namespace of messages and samples
 * @label:	security modules know the context by it; NULL without them
 * @smpl:	the sampling buffer or NULL
 *
 * The holder of @mutex, which serialises the system calls:
 *
 * @ref:	of the descriptor, of the task, of a pending block
 * @mutex:	see above
 * @sets:	event sets in order
 * @nr_sets:	how many
 * @charge:	pages of @mem and of the sampling buffer
 * @mem:	bytes of the context, its sets and their registers
 * @self:	the thread that loaded it is its target
 * @timed:	some set has a timeout, @clock a timer
 * @task:	target, or NULL
 * @cpu:	target, or -1
 * @clock:	runs with the target while started: gives sets their time, and
 *		is the timer that switches them. All else runs by its context.
 *
 * pfm_cpu_lock, for a context that is loaded on a CPU:
 *
 * @cpu_node:	in the list of such contexts
 * @dead:	the CPU went offline, nothing counts any more
 * @dead_work:	unloads the context then
 *
 * Functions that run where pfm_step() may run, and the holder of @mutex while the
 * context is not loaded:
 *
 * @state:	PFM_UNLOADED and so on
 * @active:	set that counts or will
 * @started:	pfm_start(2) was called
 * @deferred:	the switch that a mask has put off
 * @entered:	count of @clock up to which the active set's time is known
 * @post:	PFM_POST_*
 * @busy:	a function works on the context on the target's CPU: an overflow
 *		handler that interrupts it must only leave a note
 * @steps_tick:	the tick that @steps_ns is about
 * @steps_ns:	what pfm_step() has taken of it, but for the longest of its steps
 * @longest_ns:	that one, or what is left of the longest of the ticks before
 * @switch_ns:	what the last switch of sets has taken
 * @step_work:	runs pfm_step()
 * @wake_work:	wakes readers
 *
 * Overflow handlers and pfm_step():
 *
 * @pend:	PFM_PEND_*
 * @where:	of the overflow to be notified
 * @ovfl_set:	set of that overflow
 * @rnd:	varies reset values, used while @busy
 *
 * The target and the functions that let it wait or go on:
 *
 * @blocked:	the target shall wait
 * @block_work:	lets it do so
 * @block_queued: @block_work is
 * @block_yields: pfm_block() lets other task work of the thread run before it waits
 * @block_wait:	where it does
 *
 * The holder of @lock:
 *
 * @lock:	protects the messages
 * @msgs:	messages
 * @msg_head:	where the next one is put
 * @msg_tail:	where the next one is read
 *
 * Readers of messages:
 *
 * @msg_mutex:	held by a reader from the look at a message until it is stored
 * @msg_wait:	readers
 * @fasync:	receivers of SIGIO
 *
 * @rcu:	an interrupted handler may still look at it
 */
struct pfm_context {
	/* pfm_ctx_create() */
	u32			flags;
	bool			compat;
	u32			pmu_type;
	const struct pfm_pmu_map *map;
	struct pid_namespace	*ns;
	struct perf_event	*label;
	struct pfm_smpl		*smpl;

	/* The holder of the mutex */
	refcount_t		ref;
	struct mutex		mutex;
	struct list_head	sets;
	unsigned int		nr_sets;
	struct pfm_charge	charge;
	size_t			mem;
	bool			self;
	bool			timed;
	struct task_struct	*task;
	int			cpu;
	struct perf_event	*clock;

	/* pfm_cpu_lock */
	struct list_head	cpu_node;
	bool			dead;
	struct work_struct	dead_work;

	/* Functions that run where pfm_step() may run */
	enum pfm_state		state;
	struct pfm_set		*active;
	bool			started;
	bool			deferred;
	u64			entered;
	unsigned long		post;
	int			busy;
	unsigned long		steps_tick;
	u64			steps_ns;
	u64			longest_ns;
	u64			switch_ns;
	struct irq_work		step_work;
	struct irq_work		wake_work;

	/* Overflow handlers and pfm_step() */
	unsigned long		pend;
	struct pfm_where	where;
	struct pfm_set		*ovfl_set;
	struct rnd_state	rnd;

	/* The target and the functions that let it wait or go on */
	bool			blocked;
	struct callback_head	block_work;
	unsigned long		block_queued;
	bool			block_yields;
	wait_queue_head_t	block_wait;

	/* The holder of the lock */
	raw_spinlock_t		lock;
	union pfarg_msg		msgs[PFM_MSG_SLOTS];
	unsigned int		msg_head;
	unsigned int		msg_tail;

	/* Readers of messages */
	struct mutex		msg_mutex;
	wait_queue_head_t	msg_wait;
	struct fasync_struct	*fasync;

	struct rcu_head		rcu;
};

/*
 * For who has the mutex and nothing else: an overflow makes PFM_MASKED out of
 * PFM_LOADED at any time. All other changes are made under the mutex.
 */
static inline enum pfm_state pfm_state(const struct pfm_context *ctx)
{
	return READ_ONCE(ctx->state);
}

/**
 * pfm_value() - Value of a data register now
 * @reg:	The register
 *
 * Context: As pfm_step(), or pfm_context::mutex held and the context not loaded
 *          or its target gone.
 * Return: The value.
 */
static __always_inline u64 pfm_value(const struct pfm_reg *reg)
{
	struct perf_event *event = reg->event;

	if (!event)
		return reg->base;
	/* What software counts is up to date. */
	if (reg->kind != PFM_KIND_SW && event->state == PERF_EVENT_STATE_ACTIVE)
		event->pmu->read(event);
	return reg->base + local64_read(&event->count);
}

/* A timer of its own, if it is to overflow; whichever register it is */
static inline bool pfm_is_clock(u32 type, u64 config)
{
	return type == PERF_TYPE_SOFTWARE &&
	       (config == PERF_COUNT_SW_CPU_CLOCK || config == PERF_COUNT_SW_TASK_CLOCK);
}

static inline bool pfm_event_is_clock(const struct perf_event *event)
{
	return pfm_is_clock(event->orig_type, event->attr.config);
}

/* Is a field that must be zero not zero? */
static inline bool pfm_rsvd_used(bool compat, const void *field, size_t size)
{
	return !compat && memchr_inv(field, 0, size);
}

/*
 * The caller is where pfm_step() may run: handlers can interrupt it, nothing runs
 * beside it.
 */
static inline void pfm_assert_step(const struct pfm_context *ctx)
{
	lockdep_assert_irqs_disabled();
	lockdep_assert_held(&ctx->clock->ctx->lock);
}

/* A part of a system call that runs where pfm_step() may run */
typedef void (*pfm_func)(struct pfm_context *ctx, void *data);

/* ctx.c */
struct pfm_context *pfm_ctx_create(u32 flags, u32 pmu_type);
void pfm_ctx_put(struct pfm_context *ctx);

/* file.c */
struct pfm_context *pfm_ctx_of_file(struct file *file);
struct file *pfm_ctx_file(struct pfm_context *ctx);

/* msg.c */
bool pfm_msg_put(struct pfm_context *ctx, const union pfarg_msg *msg);
bool pfm_msg_peek(struct pfm_context *ctx, union pfarg_msg *msg, unsigned int *tail);
void pfm_msg_drop(struct pfm_context *ctx, unsigned int tail);
bool pfm_msg_pending(struct pfm_context *ctx);
void pfm_msg_end(struct pfm_context *ctx);
void pfm_msg_clear(struct pfm_context *ctx);
void pfm_wake(struct irq_work *work);

/* block.c */
void pfm_block(struct callback_head *head);
void pfm_post_block(struct pfm_context *ctx);
void pfm_block_cancel(struct pfm_context *ctx);

/* perm.c */
int pfm_label_create(struct pfm_context *ctx);
void pfm_label_free(struct pfm_context *ctx);
bool pfm_can_block(const struct task_struct *task);
int pfm_may_create(const struct pfm_context *ctx);
int pfm_may_open(const struct pfm_context *ctx, struct task_struct *task);
int pfm_may_read(const struct pfm_context *ctx);
int pfm_may_write(const struct pfm_context *ctx);
int pfm_lock_opening(struct pfm_context *ctx, struct task_struct *load,
		     struct task_struct **creds);
void pfm_unlock_opening(struct pfm_context *ctx, struct task_struct *creds);

/* charge.c */
void pfm_charge_init(struct pfm_charge *charge);
void pfm_charge_exit(struct pfm_charge *charge);
int pfm_charge_pages(struct pfm_charge *charge, unsigned long nr_pages);
void pfm_uncharge_pages(struct pfm_charge *charge, unsigned long nr_pages);
int pfm_mem_charge(struct pfm_context *ctx, size_t size);
void pfm_mem_uncharge(struct pfm_context *ctx, size_t size);

/* sets.c */
struct pfm_set *pfm_set_find(struct pfm_context *ctx, u16 id);
int pfm_set_create(struct pfm_context *ctx, struct pfarg_setdesc *desc);
int pfm_sets_create(struct pfm_context *ctx, void *vec, int n);
int pfm_sets_delete(struct pfm_context *ctx, void *vec, int n);
int pfm_sets_resolve(struct pfm_context *ctx);
void pfm_set_free(struct pfm_set *set);
int pfm_sets_getinfo(struct pfm_context *ctx, void *vec, int n);

/* map.c */
const struct pfm_pmu_map *pfm_map_find(u32 pmu_type);
bool pfm_pmd_exists(const struct pfm_context *ctx, unsigned int num);
bool pfm_pmc_exists(const struct pfm_context *ctx, unsigned int num);
u64 pfm_pmds_held(const struct pfm_context *ctx);
bool pfm_reg_wraps(const struct pfm_reg *reg);
int pfm_reg_attr(const struct pfm_set *set, const struct pfm_reg *reg,
		 struct perf_event_attr *attr);

/* regs.c */
int pfm_pmcs_write(struct pfm_context *ctx, void *arg, int n);
int pfm_pmds_write(struct pfm_context *ctx, void *arg, int n);
int pfm_pmds_read(struct pfm_context *ctx, struct pfm_pmd_val *vals, int n);

/* group.c */
int pfm_groups_create(struct pfm_context *ctx);
int pfm_group_rebuild(struct pfm_context *ctx, struct pfm_set *set);
void pfm_groups_release(struct pfm_context *ctx);

/* attach.c */
int pfm_load(struct pfm_context *ctx, struct task_struct *task, int cpu, u16 set);
void pfm_unload(struct pfm_context *ctx);
int pfm_lock(struct pfm_context *ctx);
void pfm_dead_work(struct work_struct *work);
extern atomic_t pfm_task_sessions;
extern atomic_t pfm_cpu_sessions;

/* run.c */
void pfm_step_work(struct irq_work *work);
int pfm_call(struct pfm_context *ctx, pfm_func func, void *data);
int pfm_peek(struct pfm_context *ctx, pfm_func func, void *data);
void pfm_step(struct pfm_context *ctx);
void pfm_halt(struct pfm_context *ctx);
void pfm_stop_dead(struct pfm_context *ctx);
void pfm_run_set(struct pfm_context *ctx, struct pfm_set *from, struct pfm_set *to);
void pfm_account(struct pfm_context *ctx);
int pfm_start(struct pfm_context *ctx, struct pfm_set *set);
int pfm_stop(struct pfm_context *ctx);
int pfm_restart(struct pfm_context *ctx);

/* throttle.c */
bool pfm_set_throttled(const struct pfm_set *set);
void pfm_set_throttle(struct pfm_set *set);
bool pfm_steps_too_long(struct pfm_context *ctx, unsigned long tick, u64 step);
void pfm_charge_step(struct pfm_context *ctx, u64 begin);
u64 pfm_apart(struct pfm_context *ctx, u64 timeout, u64 took);

/* ovfl.c */
u64 pfm_period(u64 value);
u64 pfm_value_about(const struct pfm_reg *reg);
u64 pfm_reset_value(const struct pfm_reg *reg, bool restart, u64 random);
void pfm_reg_set(struct pfm_reg *reg, u64 value);
void pfm_reset_pending(struct pfm_set *set, bool restart);
void pfm_overflow(struct perf_event *event, struct perf_sample_data *data,
		  struct pt_regs *regs);
void pfm_clock_overflow(struct perf_event *event, struct perf_sample_data *data,
			struct pt_regs *regs);
void pfm_overflow_late(struct pfm_context *ctx);
void pfm_clock_arm(struct pfm_context *ctx, u64 timeout);

/* smpl.c */
int pfm_smpl_create(struct pfm_context *ctx, const struct pfm_dfl_smpl_arg *arg);
int pfm_smpl_reserve(struct pfm_context *ctx, unsigned int nr_values);
void pfm_smpl_free(struct pfm_context *ctx);
bool pfm_smpl_add(struct pfm_context *ctx, const struct pfm_reg *reg,
		  const struct pfm_where *where);
void pfm_smpl_restart(struct pfm_smpl *smpl);
int pfm_smpl_mmap(struct pfm_smpl *smpl, struct vm_area_struct *vma);
u64 pfm_smpl_pages(void);

/* compat.c */
bool pfm_is_compat(void);

/* sysfs.c */
int pfm_sysfs_link(bool on);
extern unsigned int pfm_arg_mem_max;
extern unsigned int pfm_sets_max;
extern unsigned int pfm_events_max;
extern unsigned long pfm_smpl_mem_max;
extern unsigned int pfm_min_timeout;
extern int pfm_sys_group;
extern int pfm_task_group;

#endif /* _KERNEL_EVENTS_PERFMON_INTERNAL_H */
