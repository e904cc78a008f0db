/* SPDX-License-Identifier: GPL-2.0 */
/* Simulated PMUs: what the files of the driver share. */
#ifndef _PMUSIM_H
#define _PMUSIM_H

#include <linux/hrtimer.h>
#include <linux/irq_work.h>
#include <linux/module.h>
#include <linux/perf_event.h>
#include <linux/workqueue.h>

#define PMUSIM_MAX_COUNTERS	8
#define PMUSIM_DEFAULT_WIDTH	48
#define PMUSIM_MAX_RATE		100000
/* Limit without CAP_PERFMON, because all events of a CPU take time from other tasks */
#define PMUSIM_MAX_RATE_USER	1000

/* A kernel without gates or large AUX areas lacks these capabilities: make them 0. */
#ifndef PERF_PMU_CAP_GATE_NMI
#define PERF_PMU_CAP_GATE_NMI	0
#define PERF_PMU_CAP_GATE_STOP	0
#define PERF_PMU_CAP_GATE_OVERFLOW	0
#endif
#ifndef PERF_PMU_CAP_AUX_LARGE
#define PERF_PMU_CAP_AUX_LARGE	0
#define PERF_PMU_CAP_AUX_HEAD_COUNTS	0
#endif

#define PMUSIM_CAP_GATES	(PERF_PMU_CAP_GATE_NMI | PERF_PMU_CAP_GATE_STOP | \
				 PERF_PMU_CAP_GATE_OVERFLOW)

/* Source of a counter: config:0-7 */
enum pmusim_source {
	PMUSIM_SOURCE_MANUAL	= 0,
	PMUSIM_SOURCE_CLOCK	= 1,
	PMUSIM_SOURCE_TIMER	= 2,
	PMUSIM_SOURCE_SWITCH	= 3,
	PMUSIM_SOURCE_FAIL	= 0xff,
};

/* Context in which an overflow is handled: config:24-26 */
enum pmusim_context {
	PMUSIM_HARDIRQ,
	PMUSIM_IRQ_WORK,
	PMUSIM_SOFTIRQ,
	PMUSIM_TASK,
	PMUSIM_NMI_LIKE,
	PMUSIM_NMI,
	PMUSIM_NR_CONTEXTS,
};

enum pmusim_op {
	PMUSIM_OP_ADD,
	PMUSIM_OP_DEL,
	PMUSIM_OP_START,
	PMUSIM_OP_STOP,
	PMUSIM_OP_READ,
	PMUSIM_OP_START_TXN,
	PMUSIM_OP_COMMIT_TXN,
	PMUSIM_OP_CANCEL_TXN,
	PMUSIM_OP_OVERFLOW,
	PMUSIM_OP_OUTPUT,
	PMUSIM_NR_OPS,
};

struct pmusim_cpu;
struct pmusim_aux_cpu;

/**
 * struct pmusim - one simulated PMU
 */
struct pmusim {
	/** @pmu: The PMU as the core knows it */
	struct pmu			pmu;
	/** @name: Its name in sysfs and in debugfs */
	const char			*name;
	/** @settable: The capabilities that debugfs may change */
	int				settable;
	/** @events: Number of events, or -1 while the settings change */
	atomic_t			events;
	/** @nr_counters: Number of counters of each CPU, at most PMUSIM_MAX_COUNTERS */
	unsigned int			nr_counters;
	/** @validate_group: Refuse groups that will never fit on the counters */
	bool				validate_group;
	/** @fail_add: Number of next calls of pmu::add() that will fail */
	atomic_t			fail_add;
	/** @fail_commit: Number of next calls of pmu::commit_txn() that will fail */
	atomic_t			fail_commit;
	/** @cpu: The counters of each CPU; NULL for a PMU with an AUX area */
	struct pmusim_cpu __percpu	*cpu;
	/** @regs: Registers of the counters, a page per CPU, which user space may map */
	void				*regs;
	/** @aux_cpu: The producer of each CPU; NULL for a PMU with counters */
	struct pmusim_aux_cpu __percpu	*aux_cpu;
};

/**
 * struct pmusim_cpu - the counters of one CPU
 *
 * Written only on its own CPU and with interrupts off, so only an NMI can interrupt a
 * writer. An NMI may change a register and clear bits of @started and @pending, but does
 * nothing while @disabled is set. Code that an NMI must not interrupt disables the PMU.
 */
struct pmusim_cpu {
	/** @sim: The PMU that the counters are part of */
	struct pmusim			*sim;
	/** @reg: The registers, each as wide as its event asks for */
	local64_t			*reg;
	/** @event: The event on each counter */
	struct perf_event		*event[PMUSIM_MAX_COUNTERS];
	/** @started: Bit per counter: its event is started */
	unsigned long			started;
	/** @pending: Bit per counter: its overflow has not been handled yet */
	unsigned long			pending;
	/** @disabled: pmu::pmu_disable() was called, overflows wait */
	bool				disabled;
	/** @txn: Flags of the transaction under way */
	unsigned int			txn;
	/** @timer: Handles overflows in a timer's hard interrupt */
	struct hrtimer			timer;
	/** @work: Handles overflows in irq_work, and passes on those for @bh and @task */
	struct irq_work			work;
	/** @bh: Handles overflows in softirq context */
	struct work_struct		bh;
	/** @task: Handles overflows in a task */
	struct work_struct		task;
};

/**
 * struct pmusim_event - perf_event::pmu_private of an event with a counter
 */
struct pmusim_event {
	/** @event: The event */
	struct perf_event		*event;
	/** @source: Source of its counts */
	enum pmusim_source		source;
	/** @context: Context in which its overflows are handled */
	enum pmusim_context		context;
	/** @width: Width of its counter in bits */
	unsigned int			width;
	/** @ctrmask: Counters that it may use */
	unsigned long			ctrmask;
	/** @skid: Amount that it counts between an overflow and its interrupt */
	unsigned int			skid;
	/** @skid_left: Rest of @skid until the interrupt; 0 if no interrupt is due */
	unsigned int			skid_left;
	/** @fail_nth: One in @fail_nth calls of pmu::add() fails; 0 for none */
	unsigned int			fail_nth;
	/** @adds: Number of calls of pmu::add() so far */
	unsigned int			adds;
	/** @busy: Its period and its register are changing */
	bool				busy;
	/** @nmi: The event has called pmusim_nmi_get() */
	bool				nmi;
	/** @owed: The event was stopped before the end of a period was handled */
	bool				owed;
	/** @clock: local_clock() up to which PMUSIM_SOURCE_CLOCK has counted */
	local64_t			clock;
	/** @interval: Period of PMUSIM_SOURCE_TIMER */
	ktime_t				interval;
	/** @timer: Timer of PMUSIM_SOURCE_CLOCK and PMUSIM_SOURCE_TIMER */
	struct hrtimer			timer;
};

/* Snapshot of the state of one CPU, for a reader on another CPU */
struct pmusim_state {
	struct {
		u64	id;
		u64	reg;
		bool	started;
		bool	pending;
	} counter[PMUSIM_MAX_COUNTERS];
	bool		disabled;
	struct {
		u64	id;
		u64	pos;
		bool	running;
		bool	paused;
	} aux;
};

/* All PMUs, NULL at the end */
extern struct pmusim *pmusim_instances[];

static inline struct pmusim *to_pmusim(struct pmu *pmu)
{
	return container_of(pmu, struct pmusim, pmu);
}

static inline struct pmusim_event *to_pmusim_event(struct perf_event *event)
{
	return event->pmu_private;
}

static inline struct pmusim_cpu *pmusim_this_cpu(struct perf_event *event)
{
	return this_cpu_ptr(to_pmusim(event->pmu)->cpu);
}

/* Get the mask of the bits of an event's counter. */
static inline u64 pmusim_mask(const struct pmusim_event *pe)
{
	return GENMASK_ULL(pe->width - 1, 0);
}

/* core.c */
int pmusim_get(struct pmusim *sim);
void pmusim_put(struct perf_event *event);

/* counter.c */
void pmusim_advance(struct pmusim_cpu *c, int idx, u64 n);
u64 pmusim_tick(struct pmusim_cpu *c, int idx, u64 n);
void pmusim_update(struct perf_event *event);
bool pmusim_set_period(struct perf_event *event);
void pmusim_arm(struct perf_event *event);
enum hrtimer_restart pmusim_timer_fn(struct hrtimer *timer);
void pmusim_start(struct perf_event *event, int flags);
void pmusim_stop(struct perf_event *event, int flags);
void pmusim_read(struct perf_event *event);

/* schedule.c */
int pmusim_validate_group(struct perf_event *event);
int pmusim_add(struct perf_event *event, int flags);
void pmusim_del(struct perf_event *event, int flags);
void pmusim_disable(struct pmu *pmu);
void pmusim_enable(struct pmu *pmu);
void pmusim_start_txn(struct pmu *pmu, unsigned int flags);
int pmusim_commit_txn(struct pmu *pmu);
void pmusim_cancel_txn(struct pmu *pmu);
void pmusim_sched_task(struct perf_event_pmu_context *pmu_ctx,
		       struct task_struct *task, bool sched_in);

/* event.c */
extern struct pmusim pmusim_counters;
extern const struct attribute_group pmusim_format_group;
extern const struct attribute_group pmusim_event_group;
extern const struct attribute_group pmusim_caps_group;
int pmusim_event_init(struct perf_event *event);
int pmusim_event_idx(struct perf_event *event);
int pmusim_counter_setup(struct pmusim *sim);
void pmusim_counter_teardown(struct pmusim *sim);

#define PMUSIM_COUNTER_METHODS						\
	.module		= THIS_MODULE,					\
	.add		= pmusim_add,					\
	.del		= pmusim_del,					\
	.start		= pmusim_start,					\
	.stop		= pmusim_stop,					\
	.read		= pmusim_read,					\
	.pmu_enable	= pmusim_enable,				\
	.pmu_disable	= pmusim_disable,				\
	.start_txn	= pmusim_start_txn,				\
	.commit_txn	= pmusim_commit_txn,				\
	.cancel_txn	= pmusim_cancel_txn,				\
	.event_idx	= pmusim_event_idx

/* uncore.c */
extern struct pmusim pmusim_uncore;
int pmusim_uncore_setup(void);
void pmusim_uncore_teardown(void);

/* overflow.c */
void pmusim_overflow_setup(struct pmusim_cpu *c);
void pmusim_overflow_teardown(struct pmusim_cpu *c);
void pmusim_raise(struct pmusim_cpu *c, int idx);
void pmusim_kick(struct pmusim_cpu *c, enum pmusim_context context);
void pmusim_kick_pending(struct pmusim_cpu *c);
bool pmusim_handle(struct pmusim_cpu *c, enum pmusim_context context,
		   struct pt_regs *regs);

/* aux.c */
extern struct pmusim pmusim_aux;
extern struct pmusim pmusim_aux_nosg;
extern struct pmusim pmusim_aux_large;
extern struct pmusim pmusim_aux_excl;
int pmusim_aux_setup(struct pmusim *sim);
void pmusim_aux_teardown(struct pmusim *sim);
unsigned long pmusim_aux_tick(struct pmusim *sim, unsigned long bytes);
void pmusim_aux_packet(struct perf_event *event);
void pmusim_aux_state(struct pmusim *sim, struct pmusim_state *state);

/* control.c */
void pmusim_control_setup(void);
void pmusim_control_teardown(void);

/* log.c */
extern const struct file_operations pmusim_log_fops;
void pmusim_log(struct pmu *pmu, struct perf_event *event, enum pmusim_op op,
		unsigned int flags, int result);
int pmusim_log_setup(void);
void pmusim_log_teardown(void);

/* nmi.c */
#ifdef CONFIG_PERF_PMUSIM_NMI
void pmusim_nmi_raise(void);
int pmusim_nmi_get(void);
void pmusim_nmi_put(void);
#else
static inline void pmusim_nmi_raise(void) { }
static inline int pmusim_nmi_get(void) { return -EOPNOTSUPP; }
static inline void pmusim_nmi_put(void) { }
#endif

#endif /* _PMUSIM_H */
