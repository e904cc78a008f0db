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
#include <linux/sched/signal.h>
#include <linux/sizes.h>
#include <linux/string.h>
#include <linux/task_work.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "../internal.h"

/* Overflow messages that the queue holds; one more slot is kept for PFM_MSG_END */
#define PFM_MSGQ_DEPTH		8
/* Slots for all of these messages; a power of two, so that the indices may wrap around */
#define PFM_MSG_SLOTS		16
#define PFM_NR_SW		PERF_COUNT_SW_MAX

/*
 * The numbers of the PMU's registers and those of software events leave a gap between
 * them. A set has a slot only for each number that can exist.
 */
#define PFM_NR_HW		PFM_MAX_PMDS
#define PFM_NR_SLOTS		(PFM_NR_HW + PFM_NR_SW)

/* hw_perf_event::interrupts of an event that perf has throttled */
#define PFM_THROTTLED		(~0ULL)

/* A period that no count reaches */
#define PFM_NO_PERIOD		((u64)S64_MAX)
#define PFM_NO_TIMEOUT		BIT_ULL(62)

/*
 * User space names registers by vectors of __u64 and the kernel by bitmaps of long.
 * Both have the same layout, because PERFMON depends on 64BIT.
 */
static_assert(PFM_BV_WORDS * sizeof(u64) ==
	      BITS_TO_LONGS(PFM_MAX_REGS) * sizeof(long));

enum pfm_state {
	PFM_UNLOADED	= 1,
	PFM_LOADED	= 2,
	PFM_MASKED	= 3,
};

/* Restrictions on what an overflow handler may do to the event of a register */
enum pfm_kind {
	/* The handler may call pmu::stop(), and leaves pmu::start() to pfm_step(). */
	PFM_KIND_HW,
	/* The core counts the event in software, so the handler may set its period. */
	PFM_KIND_SW,
	/* The event has an hrtimer, which must not be cancelled in its own callback. */
	PFM_KIND_TIMER,
	/* A handler may call pmu::read() and nothing else. */
	PFM_KIND_DEFER,
};

/**
 * struct pfm_reg - a data register of one set
 */
struct pfm_reg {
	/** @num: number of the register */
	u16			num;
	/** @kind: enum pfm_kind of its event */
	u16			kind;
	/** @flags: PFM_REGFL_* */
	u32			flags;
	/** @stale: pfm_set_refuse_stale() refuses an event to the register */
	bool			stale;
	/** @load: pfm_this_load() when the register was last written or named */
	u32			load;
	/** @set: set of the register */
	struct pfm_set		*set;
	/** @event: event that counts while the context is loaded, or NULL */
	struct perf_event	*event;
	/** @base: value without the count of @event */
	u64			base;
	/** @long_reset: value after a restart */
	u64			long_reset;
	/** @short_reset: value after an overflow */
	u64			short_reset;
	/** @last_reset: value of the last reset, or the value written since */
	u64			last_reset;
	/** @period: new period that the PMU does not have yet, or 0 */
	u64			period;
	/** @switch_cnt: overflows until PFM_SETFL_OVFL_SWITCH switches the set, or 0 */
	u64			switch_cnt;
	/** @left: rest of @switch_cnt in this run of the set */
	u64			left;
	/** @random_mask: bits of a reset value that are random */
	u64			random_mask;
	/** @reset_pmds: registers to reset with this one */
	DECLARE_BITMAP(reset_pmds, PFM_MAX_REGS);
	/** @smpl_pmds: registers to sample with this one */
	DECLARE_BITMAP(smpl_pmds, PFM_MAX_REGS);
};

/**
 * struct pfm_pmd_val - fields of struct pfarg_pmd that pfm_read_pmds(2) uses
 */
struct pfm_pmd_val {
	/** @num: register */
	u16		num;
	/** @set: event set */
	u16		set;
	/** @flags: PFM_REGFL_* */
	u32		flags;
	/** @value: value of the register */
	u64		value;
	/** @last_reset: value of the last reset */
	u64		last_reset;
	/** @left: overflows until the set is switched */
	u64		left;
};

/**
 * struct pfm_pmcs - control registers of one set
 */
struct pfm_pmcs {
	/** @pmu: registers of the PMU */
	struct pfm_pmc_val	pmu[PFM_MAX_PMCS];
	/** @sw: flags of the registers of software events, which have no value */
	u32			sw[PFM_NR_SW];
};

/**
 * struct pfm_set - an event set
 */
struct pfm_set {
	/** @ctx: context of the set */
	struct pfm_context	*ctx;
	/** @node: entry of pfm_context::sets, in the order of @id */
	struct list_head	node;
	/** @next: set that follows; valid while the context is loaded */
	struct pfm_set		*next;
	/** @leader: leader of the group of its events, NULL without events */
	struct perf_event	*leader;
	/** @id: number that names the set */
	u16			id;
	/** @next_id: number of the set that follows with PFM_SETFL_EXPL_NEXT */
	u16			next_id;
	/** @flags: PFM_SETFL_* */
	u32			flags;
	/** @timeout: timeout in ns */
	u64			timeout;
	/** @switch_ns: duration in ns of the last switch to the set */
	u64			switch_ns;
	/** @runs: number of times that the set became active */
	u64			runs;
	/** @duration: time in ns that the set was active */
	u64			duration;
	/** @enabled: enabled time in ns of released events, or while the group did not fit */
	u64			enabled;
	/** @running: running time in ns of released events */
	u64			running;
	/** @lost: number of overflows that are not reported */
	u64			lost;
	/** @used: registers that exist */
	DECLARE_BITMAP(used, PFM_MAX_REGS);
	/** @povfl: registers that overflowed and were not yet reset */
	DECLARE_BITMAP(povfl, PFM_MAX_REGS);
	/**
	 * @last_ovfl: copy of @povfl that resets do not clear; the next overflow that
	 * finds @povfl empty begins it anew
	 */
	DECLARE_BITMAP(last_ovfl, PFM_MAX_REGS);
	/** @reset_pend: registers with a pending reset */
	DECLARE_BITMAP(reset_pend, PFM_MAX_REGS);
	/** @late: registers that overflowed while the context was busy */
	DECLARE_BITMAP(late, PFM_MAX_REGS);
	/** @retime: registers with a new period for the PMU */
	DECLARE_BITMAP(retime, PFM_MAX_REGS);
	/**
	 * @refused: registers for which no event could be opened while loaded;
	 * they count nothing until they are written again
	 */
	DECLARE_BITMAP(refused, PFM_MAX_REGS);
	/** @pmcs: control registers */
	struct pfm_pmcs		pmcs;
	/** @rcu: frees the set after a grace period, because handlers may use it */
	struct rcu_head		rcu;
	/** @regs: data registers, by pfm_reg_index() */
	struct pfm_reg		*regs[PFM_NR_SLOTS];
};

/* A context may have many sets, and kmalloc() rounds up to the next power of two. */
static_assert(sizeof(struct pfm_set) <= SZ_2K);

static __always_inline unsigned int pfm_reg_index(unsigned int num)
{
	return num < PFM_NR_HW ? num : num - PFM_SW_BASE + PFM_NR_HW;
}

/* Get a register whose number is in one of the set's bitmaps. */
static __always_inline struct pfm_reg *pfm_reg_at(const struct pfm_set *set, unsigned int num)
{
	return set->regs[pfm_reg_index(num)];
}

/* Find the register that user space names. Return NULL if the set does not have it. */
static inline struct pfm_reg *pfm_reg_find(const struct pfm_set *set, unsigned int num)
{
	unsigned int slot = pfm_reg_index(num);

	if ((num >= PFM_NR_HW && num < PFM_SW_BASE) || slot >= PFM_NR_SLOTS)
		return NULL;
	return set->regs[array_index_nospec(slot, PFM_NR_SLOTS)];
}

/* Bits of pfm_context::pend: work that a handler leaves to pfm_step() */
enum pfm_pend {
	PFM_PEND_SWITCH,
	PFM_PEND_MASK,
	PFM_PEND_NOTIFY,
	PFM_PEND_RESET,
	PFM_PEND_LATE,
	PFM_PEND_THROTTLED,
};

/* Bits of pfm_context::post: work that must wait until the locks are dropped */
enum pfm_post {
	PFM_POST_WAKE,
	PFM_POST_BLOCK,
};

/**
 * struct pfm_where - place of an overflow
 */
struct pfm_where {
	/** @ip: instruction pointer or 0 */
	u64			ip;
	/** @tgid: thread group */
	u32			tgid;
	/** @tid: thread */
	u32			tid;
	/** @cpu: CPU */
	u16			cpu;
};

/**
 * struct pfm_charge - pages that are charged to a user
 */
struct pfm_charge {
	/** @user: user that is charged */
	struct user_struct	*user;
	/** @allowed: pages within the allowance of perf_event_mlock_kb */
	unsigned long		allowed;
	/** @locked: pages beyond that allowance, under RLIMIT_MEMLOCK */
	unsigned long		locked;
};

/**
 * struct pfm_context - a session, the object behind a descriptor
 *
 * The members are grouped by their writers.
 */
struct pfm_context {
	/* Constant while the context has a descriptor */
	/** @flags: PFM_FL_* */
	u32			flags;
	/**
	 * @compat: perfmon.compat was set when the context was created, so fields
	 * that perfmon 2.8 ignored are not checked
	 */
	bool			compat;
	/** @pmu_type: type of the PMU, 0 for the CPU's */
	u32			pmu_type;
	/** @map: registers of the PMU */
	const struct pfm_pmu_map *map;
	/** @ns: PID namespace of messages and samples */
	struct pid_namespace	*ns;
	/** @label: label of the context for security modules, NULL without them */
	struct perf_event	*label;
	/** @smpl: sampling buffer or NULL */
	struct pfm_smpl		*smpl;

	/* Written by the holder of @mutex, except for @ref */
	/** @ref: references of the descriptor, of the target and of pending work */
	refcount_t		ref;
	/** @mutex: serializes the system calls */
	struct mutex		mutex;
	/** @refusal: what pfm_may_open() has refused the present call with, or 0 */
	int			refusal;
	/** @sets: event sets in order */
	struct list_head	sets;
	/** @nr_sets: number of sets */
	unsigned int		nr_sets;
	/** @charge: charge for @mem and for the sampling buffer */
	struct pfm_charge	charge;
	/** @mem: size in bytes of the context, its sets and their registers */
	size_t			mem;
	/** @loads: number of loads that have succeeded */
	u32			loads;
	/** @self: the target is the thread that loaded the context */
	bool			self;
	/** @timed: some set has a timeout, so @clock has a timer */
	bool			timed;
	/** @task: target thread, or NULL */
	struct task_struct	*task;
	/** @cpu: target CPU, or -1 */
	int			cpu;
	/**
	 * @clock: event that runs with the target while started: it measures
	 * the time of sets, its timer switches them, and its perf context is
	 * the one whose lock pfm_step() needs
	 */
	struct perf_event	*clock;

	/* Written under pfm_cpu_lock, for a context that is loaded on a CPU */
	/** @cpu_node: entry of the list of contexts that are loaded on a CPU */
	struct list_head	cpu_node;
	/** @dead: the CPU went offline, so nothing counts any more */
	bool			dead;
	/** @dead_work: unloads the context after its CPU went offline */
	struct work_struct	dead_work;

	/* Written where pfm_step() may run, or under @mutex while the context is not loaded */
	/** @state: enum pfm_state */
	enum pfm_state		state;
	/** @active: set that counts, or will count when started or unmasked */
	struct pfm_set		*active;
	/** @started: pfm_start(2) was called */
	bool			started;
	/** @deferred: a switch of sets has to follow the restart */
	bool			deferred;
	/** @entered: count of @clock at the last update of the active set's time */
	u64			entered;
	/** @post: PFM_POST_* */
	unsigned long		post;
	/**
	 * @busy: nesting of functions that use the state on the target's CPU:
	 * an overflow handler that interrupts them defers its work
	 */
	int			busy;
	/** @steps_tick: tick in jiffies that @steps_ns belongs to */
	unsigned long		steps_tick;
	/** @steps_ns: time of pfm_step() in that tick in ns, without the longest step */
	u64			steps_ns;
	/**
	 * @longest_ns: duration of the longest step of that tick in ns, or what
	 * pfm_steps_too_long() has carried over from earlier ticks
	 */
	u64			longest_ns;
	/** @throttled: perf has throttled a set, last in the tick @throttled_tick in jiffies */
	bool			throttled;
	/** @throttled_tick: see @throttled */
	unsigned long		throttled_tick;
	/** @step_work: runs pfm_step() */
	struct irq_work		step_work;
	/** @wake_work: wakes readers */
	struct irq_work		wake_work;

	/* Written by overflow handlers and pfm_step() */
	/** @pend: PFM_PEND_* */
	unsigned long		pend;
	/** @where: place of the overflow that masks the context, for the message */
	struct pfm_where	where;
	/** @ovfl_set: set of the overflow that masks the context */
	struct pfm_set		*ovfl_set;
	/** @rnd: source of random bits of reset values, used while @busy */
	struct rnd_state	rnd;

	/* Written by the target and by functions that block or release it */
	/** @blocked: the target has to wait */
	bool			blocked;
	/** @waits_for_tick: target that has to wait for a tick, or NULL */
	struct task_struct	*waits_for_tick;
	/** @block_work: task work in which the target waits */
	struct callback_head	block_work;
	/** @block_target: task for which @block_work is queued, or NULL */
	struct task_struct	*block_target;
	/** @block_yields: pfm_block() lets other task work of the thread run before it waits */
	bool			block_yields;
	/** @block_wait: wait queue of the target */
	wait_queue_head_t	block_wait;

	/* Written by the holder of @lock */
	/** @lock: protects the messages */
	raw_spinlock_t		lock;
	/** @msgs: ring of messages */
	union pfarg_msg		msgs[PFM_MSG_SLOTS];
	/** @msg_head: index of the next message to be written */
	unsigned int		msg_head;
	/** @msg_tail: index of the next message to be read */
	unsigned int		msg_tail;

	/* Written by readers of messages */
	/** @msg_mutex: held by a reader from pfm_msg_peek() to pfm_msg_drop() */
	struct mutex		msg_mutex;
	/** @msg_wait: wait queue of readers */
	wait_queue_head_t	msg_wait;
	/** @fasync: receivers of SIGIO */
	struct fasync_struct	*fasync;

	/** @rcu: frees the context after a grace period, because handlers may use it */
	struct rcu_head		rcu;
};

/*
 * Read the state with only the mutex held. An overflow may change PFM_LOADED to
 * PFM_MASKED at any time. All other changes are made under the mutex.
 */
static inline enum pfm_state pfm_state(const struct pfm_context *ctx)
{
	return READ_ONCE(ctx->state);
}

/* Get the number of the present load, or of the next one if the context is not loaded. */
static inline u32 pfm_this_load(const struct pfm_context *ctx)
{
	lockdep_assert_held(&ctx->mutex);
	return ctx->loads + (pfm_state(ctx) == PFM_UNLOADED);
}

/*
 * Assert that the caller is where pfm_step() may run: overflow handlers can interrupt
 * it, but no other user of the context's state runs concurrently.
 */
static inline void pfm_assert_step_context(const struct pfm_context *ctx)
{
	lockdep_assert_irqs_disabled();
	lockdep_assert_held(&ctx->clock->ctx->lock);
}

/*
 * Assert that the caller may use the values of registers: in a handler or in a function
 * called by pfm_call(), where pfm_step() may run, or under the mutex while the context is
 * not loaded or its target is gone.
 */
static inline void pfm_assert_registers(const struct pfm_context *ctx)
{
	lockdep_assert(READ_ONCE(ctx->busy) || lockdep_is_held(&ctx->mutex) ||
		       lockdep_is_held(&ctx->clock->ctx->lock));
}

/*
 * Assert that pfm_lock_opening() has locked the context and, unless the caller may open
 * nothing, the credentials of @task.
 */
static inline void pfm_assert_opening(const struct pfm_context *ctx,
				      const struct task_struct *task)
{
	lockdep_assert_held(&ctx->mutex);
	if (task && task != current && !ctx->refusal)
		lockdep_assert_held(&task->signal->exec_update_lock);
}

/**
 * pfm_value() - Read the value of a data register
 * @reg:	The register
 *
 * Context: As pfm_step(), in a handler, or pfm_context::mutex held and the context not
 *          loaded or its target gone.
 * Return: The value.
 */
static __always_inline u64 pfm_value(const struct pfm_reg *reg)
{
	struct perf_event *event = reg->event;

	pfm_assert_registers(reg->set->ctx);
	if (!event)
		return reg->base;
	/* Counts of software events are always up to date. */
	if (reg->kind != PFM_KIND_SW && event->state == PERF_EVENT_STATE_ACTIVE)
		event->pmu->read(event);
	return reg->base + local64_read(&event->count);
}

/* Tell whether the event is a clock, which needs an hrtimer to overflow. */
static inline bool pfm_is_clock(u32 type, u64 config)
{
	return type == PERF_TYPE_SOFTWARE &&
	       (config == PERF_COUNT_SW_CPU_CLOCK || config == PERF_COUNT_SW_TASK_CLOCK);
}

static inline bool pfm_event_is_clock(const struct perf_event *event)
{
	return pfm_is_clock(event->orig_type, event->attr.config);
}

/* Tell whether a reserved field is used. With @compat, its value is ignored. */
static inline bool pfm_rsvd_used(bool compat, const void *field, size_t size)
{
	return !compat && memchr_inv(field, 0, size);
}

/* A part of a system call that runs where pfm_step() may run */
typedef void (*pfm_func)(struct pfm_context *ctx, void *data);

/*
 * The layers of files, from the highest to the lowest. A file calls functions of lower
 * layers, and of files to the right of it in its own layer.
 *
 *   compat.c  sysfs.c				settings
 *	v
 *   syscalls.c  file.c  ctx.c			calls, descriptors, creation
 *	v
 *   regs.c  info.c  lock.c			vectors, times, locks of a call
 *	v
 *   attach.c  group.c				targets, events
 *	v
 *   run.c  map.c				start, stop, switch; choice of events
 *	v
 *   ovfl.c  throttle.c  block.c		handlers, limits, waits
 *	v
 *   life.c					end of a context
 *	v
 *   sets.c  smpl.c  perm.c  msg.c  charge.c	parts of a context
 */

/* charge.c */
void pfm_charge_init(struct pfm_context *ctx);
void pfm_charge_exit(struct pfm_context *ctx);
int pfm_charge_pages(struct pfm_context *ctx, unsigned long nr_pages);
void pfm_uncharge_pages(struct pfm_context *ctx, unsigned long nr_pages);
int pfm_mem_charge(struct pfm_context *ctx, size_t size);
void pfm_mem_uncharge(struct pfm_context *ctx, size_t size);

/* sets.c */
extern unsigned int pfm_sets_max;
extern unsigned int pfm_min_timeout;
struct pfm_set *pfm_set_find(struct pfm_context *ctx, u16 id);
int pfm_set_create(struct pfm_context *ctx, struct pfarg_setdesc *desc);
int pfm_sets_create(struct pfm_context *ctx, void *vec, int n);
int pfm_sets_delete(struct pfm_context *ctx, void *vec, int n);
int pfm_sets_resolve(struct pfm_context *ctx);
void pfm_set_free(struct pfm_set *set);

/* smpl.c */
extern unsigned long pfm_smpl_mem_max;
int pfm_smpl_create(struct pfm_context *ctx, const struct pfm_dfl_smpl_arg *arg);
int pfm_smpl_reserve(struct pfm_context *ctx, unsigned int nr_values);
void pfm_smpl_free(struct pfm_context *ctx);
bool pfm_smpl_add(struct pfm_context *ctx, const struct pfm_reg *reg,
		  const struct pfm_where *where);
void pfm_smpl_restart(struct pfm_context *ctx);
int pfm_smpl_mmap(struct pfm_smpl *smpl, struct vm_area_struct *vma);
u64 pfm_smpl_pages(void);

/* perm.c */
extern int pfm_sys_group;
extern int pfm_task_group;
int pfm_label_create(struct pfm_context *ctx);
void pfm_label_free(struct pfm_context *ctx);
bool pfm_can_block(const struct task_struct *task);
int pfm_may_create(const struct pfm_context *ctx);
int pfm_may_open(const struct pfm_context *ctx, struct task_struct *task);
int pfm_may_reopen(const struct pfm_context *ctx);
int pfm_may_read(const struct pfm_context *ctx);
int pfm_may_write(const struct pfm_context *ctx);

/* msg.c */
bool pfm_msg_put(struct pfm_context *ctx, const union pfarg_msg *msg);
bool pfm_msg_peek(struct pfm_context *ctx, union pfarg_msg *msg, unsigned int *tail);
void pfm_msg_drop(struct pfm_context *ctx, unsigned int tail);
bool pfm_msg_pending(struct pfm_context *ctx);
void pfm_msg_end(struct pfm_context *ctx);
void pfm_msg_clear(struct pfm_context *ctx);
void pfm_wake(struct irq_work *work);

/* life.c */
void pfm_ctx_put(struct pfm_context *ctx);

/* ovfl.c */
u64 pfm_period(u64 value);
u64 pfm_value_estimate(const struct pfm_reg *reg);
u64 pfm_reset_value(const struct pfm_reg *reg, bool restart, u64 random);
void pfm_reg_set(struct pfm_reg *reg, u64 value);
void pfm_reset_pending(struct pfm_set *set, bool restart);
void pfm_overflow(struct perf_event *event, struct perf_sample_data *data,
		  struct pt_regs *regs);
void pfm_clock_overflow(struct perf_event *event, struct perf_sample_data *data,
			struct pt_regs *regs);
void pfm_overflow_late(struct pfm_context *ctx);
void pfm_clock_arm(struct pfm_context *ctx, u64 timeout);

/* throttle.c */
bool pfm_waits_when_throttled(const struct pfm_set *set);
void pfm_note_throttled(struct pfm_context *ctx);
bool pfm_inherit_throttling(struct pfm_set *set);
bool pfm_steps_too_long(struct pfm_context *ctx, unsigned long tick, u64 step);
void pfm_charge_step(struct pfm_context *ctx, u64 begin);
u64 pfm_limit_switches(struct pfm_set *set, u64 timeout, u64 took);

/* block.c */
void pfm_block(struct callback_head *head);
void pfm_post_block(struct pfm_context *ctx);
void pfm_block_cancel(struct pfm_context *ctx);

/* map.c */
const struct pfm_pmu_map *pfm_map_find(u32 pmu_type);
bool pfm_pmd_exists(const struct pfm_context *ctx, unsigned int num);
bool pfm_pmc_exists(const struct pfm_context *ctx, unsigned int num);
u64 pfm_pmds_held(const struct pfm_context *ctx);
bool pfm_reg_wraps(const struct pfm_reg *reg);
int pfm_reg_attr(const struct pfm_set *set, const struct pfm_reg *reg,
		 struct perf_event_attr *attr);

/* run.c */
void pfm_step_work(struct irq_work *work);
int pfm_call(struct pfm_context *ctx, pfm_func func, void *data);
int pfm_call_reader(struct pfm_context *ctx, pfm_func func, void *data);
void pfm_step(struct pfm_context *ctx);
void pfm_stop_for_unload(struct pfm_context *ctx);
void pfm_stop_offline(struct pfm_context *ctx);
void pfm_run_set(struct pfm_context *ctx, struct pfm_set *from, struct pfm_set *to);
void pfm_account_time(struct pfm_context *ctx);
int pfm_start(struct pfm_context *ctx, struct pfm_set *set);
int pfm_stop(struct pfm_context *ctx);
int pfm_restart(struct pfm_context *ctx);

/* group.c */
extern unsigned int pfm_events_max;
int pfm_groups_create(struct pfm_context *ctx);
int pfm_group_rebuild(struct pfm_context *ctx, struct pfm_set *set);
void pfm_groups_release(struct pfm_context *ctx);

/* attach.c */
extern atomic_t pfm_task_sessions;
extern atomic_t pfm_cpu_sessions;
int pfm_load(struct pfm_context *ctx, struct task_struct *task, int cpu, u16 set);
int pfm_drop_stale(struct pfm_context *ctx, struct pfm_set *set);
void pfm_unload(struct pfm_context *ctx);
void pfm_unload_dead(struct pfm_context *ctx);
void pfm_dead_work(struct work_struct *work);

/* lock.c */
int pfm_lock(struct pfm_context *ctx);
int pfm_lock_opening(struct pfm_context *ctx, struct task_struct *load,
		     struct task_struct **creds);
void pfm_unlock_opening(struct pfm_context *ctx, struct task_struct *creds);

/* regs.c */
int pfm_pmcs_write(struct pfm_context *ctx, void *arg, int n);
int pfm_pmds_write(struct pfm_context *ctx, void *arg, int n);
int pfm_pmds_read(struct pfm_context *ctx, struct pfm_pmd_val *vals, int n);

/* info.c */
int pfm_sets_getinfo(struct pfm_context *ctx, void *vec, int n);

/* ctx.c */
struct pfm_context *pfm_ctx_create(u32 flags, u32 pmu_type, bool compat);

/* file.c */
struct pfm_context *pfm_ctx_of_file(struct file *file);
struct file *pfm_ctx_file(struct pfm_context *ctx);

/* syscalls.c */
extern bool pfm_compat;
extern unsigned int pfm_arg_mem_max;

/* sysfs.c */
int pfm_sysfs_link(bool on);

#endif /* _KERNEL_EVENTS_PERFMON_INTERNAL_H */
