// SPDX-License-Identifier: GPL-2.0
/*
 * Event sets: vectors of registers, start and stop, and switching sets, beside
 * what a group of perf events takes for the same, and what is left to a program
 * while sets switch without end. The limits are fractions of what comparable
 * operations cost in the same boot.
 */
#include "bench.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>

/* The headers may be older than the calls. */
#define NR_CREATE	473
#define NR_WRITE_PMCS	474
#define NR_WRITE_PMDS	475
#define NR_READ_PMDS	476
#define NR_LOAD		477
#define NR_START	478
#define NR_STOP		479
#define NR_EVTSETS	481
#define SW_BASE		256
#define MAX_REGS	8
#define SET_OVFL_SWITCH	0x1

/* As in linux/perfmon.h */
struct ctx {
	__u32 flags;
	__s32 fd;
	__u32 pmu_type;
	__u32 reserved1;
	__u64 reserved2[6];
};

struct pmc {
	__u16 num;
	__u16 set;
	__u32 flags;
	__u64 value;
	__u64 reserved[4];
};

struct pmd {
	__u16 num;
	__u16 set;
	__u32 flags;
	__u64 value;
	__u64 long_reset;
	__u64 short_reset;
	__u64 last_reset;
	__u64 switch_cnt;
	__u64 rest[16];
};

struct setdesc {
	__u16 id;
	__u16 next;
	__u32 flags;
	__u64 timeout;
	__u64 reserved[6];
};

struct load {
	__u32 pid;
	__u16 set;
	__u16 reserved1;
	__u64 reserved2[3];
};

struct start {
	__u16 set;
	__u16 reserved1;
	__u32 reserved2;
	__u64 reserved3[3];
};

struct session {
	struct pmd pmd[MAX_REGS];
	struct start start[2];
	int fd;
	int nr;
};

/* A simulated PMU's counter @n, which counts nanoseconds, and where it overflows */
#define SIM_CLOCK(n, context)	(1 | BIT(8 + (n)) | (__u64)(context) << 24)
#define SIM_TYPE		"/sys/bus/event_source/devices/pmusim/type"
#define HARDIRQ			0
#define SOFTIRQ			2

/* The events of group_open(), in the same order */
static const __u16 registers[MAX_REGS] = {
	SW_BASE + PERF_COUNT_SW_TASK_CLOCK, SW_BASE + PERF_COUNT_SW_PAGE_FAULTS,
	SW_BASE + PERF_COUNT_SW_CONTEXT_SWITCHES, SW_BASE + PERF_COUNT_SW_CPU_MIGRATIONS,
	SW_BASE + PERF_COUNT_SW_PAGE_FAULTS_MIN, SW_BASE + PERF_COUNT_SW_PAGE_FAULTS_MAJ,
	SW_BASE + PERF_COUNT_SW_ALIGNMENT_FAULTS, SW_BASE + PERF_COUNT_SW_EMULATION_FAULTS,
};

/* Loads and starts two sets of @nr registers each. Returns 0 or an errno. */
static int session_open(struct session *session, int nr)
{
	struct setdesc desc = { .id = 1 };
	struct load load = { .pid = getpid() };
	struct ctx ctx = { };
	int i, set;

	memset(session, 0, sizeof(*session));
	session->nr = nr;
	session->start[1].set = 1;
	session->fd = syscall(NR_CREATE, &ctx, NULL, NULL, 0);
	if (session->fd < 0)
		return errno;
	if (syscall(NR_EVTSETS, session->fd, &desc, 1))
		return errno;
	for (set = 1; set >= 0; set--) {
		for (i = 0; i < nr; i++) {
			session->pmd[i].num = registers[i];
			session->pmd[i].set = set;
		}
		if (syscall(NR_WRITE_PMDS, session->fd, session->pmd, nr))
			return errno;
	}
	if (syscall(NR_LOAD, session->fd, &load) || syscall(NR_START, session->fd, NULL))
		return errno;
	return 0;
}

static void read_run(void *arg)
{
	struct session *session = arg;

	call3(NR_READ_PMDS, session->fd, (long)session->pmd, session->nr);
}

static void stop_start_run(void *arg)
{
	struct session *session = arg;

	call3(NR_STOP, session->fd, 0, 0);
	call3(NR_START, session->fd, 0, 0);
}

static void switch_run(void *arg)
{
	struct session *session = arg;

	call3(NR_START, session->fd, (long)&session->start[1], 0);
	call3(NR_START, session->fd, (long)&session->start[0], 0);
}

static void read_group_run(void *arg)
{
	struct group *group = arg;
	__u64 values[3 + MAX_REGS];

	call3(SYS_read, group->fd[0], (long)values, sizeof(values));
}

static void toggle_leader_run(void *arg)
{
	struct group *group = arg;

	call3(SYS_ioctl, group->fd[0], PERF_EVENT_IOC_DISABLE, 0);
	call3(SYS_ioctl, group->fd[0], PERF_EVENT_IOC_ENABLE, 0);
}

static struct cost cost_of(void (*run)(void *arg), void *arg)
{
	const struct op op = { .run = run, .arg = arg };

	return measure(&op);
}

static void one_size(int nr, double read_part)
{
	struct cost read_group, toggle_leader;
	struct session session;
	struct group group;
	int error;

	if (!group_open(&group, nr, false,
			PERF_FORMAT_GROUP | PERF_FORMAT_TOTAL_TIME_ENABLED |
			PERF_FORMAT_TOTAL_TIME_RUNNING, false))
		return;
	read_group = cost_of(read_group_run, &group);
	toggle_leader = cost_of(toggle_leader_run, &group);
	group_close(&group);

	error = session_open(&session, nr);
	if (error) {
		report_absent("P1", error, "pfm_read_pmds, %d registers", nr);
		report_absent("P2", error, "pfm_stop + pfm_start, %d registers", nr);
		report_absent("P3", error, "pfm_start of another set, %d registers", nr);
	} else {
		report_limit("P1", cost_of(read_run, &session), read_group.insn * read_part,
			     "pfm_read_pmds, %d registers", nr);
		report("P2", cost_of(stop_start_run, &session),
		       "pfm_stop + pfm_start, %d registers", nr);
		report_limit("P3", divided(cost_of(switch_run, &session), 2),
			     toggle_leader.insn,
			     "pfm_start of another set, %d registers", nr);
	}
	close(session.fd);
}

static void loop_run(void *arg)
{
	volatile int i;

	for (i = 0; i < 100; i++)
		;
}

/*
 * Loads and starts @sets sets of @regs registers that overflow as soon as they
 * count, each of which asks for the next set. Returns 0 or an errno.
 */
static int short_sets_open(struct session *session, int sets, int regs, int context)
{
	struct ctx ctx = { .pmu_type = read_number(SIM_TYPE) };
	struct load load = { .pid = getpid() };
	int i, set;

	session->fd = syscall(NR_CREATE, &ctx, NULL, NULL, 0);
	if (session->fd < 0)
		return errno;
	for (set = 0; set < sets; set++) {
		struct setdesc desc = { .id = set, .flags = SET_OVFL_SWITCH };

		if (syscall(NR_EVTSETS, session->fd, &desc, 1))
			return errno;
		for (i = 0; i < regs; i++) {
			struct pmc pmc = {
				.num = i, .set = set, .value = SIM_CLOCK(i, context),
			};
			struct pmd pmd = {
				.num = i, .set = set, .value = -50ULL, .short_reset = -40ULL,
				.switch_cnt = 1,
			};

			if (syscall(NR_WRITE_PMCS, session->fd, &pmc, 1) ||
			    syscall(NR_WRITE_PMDS, session->fd, &pmd, 1))
				return errno;
		}
	}
	if (syscall(NR_LOAD, session->fd, &load) || syscall(NR_START, session->fd, NULL))
		return errno;
	return 0;
}

/*
 * Measures how much of a CPU is left to a program while sets switch as fast as they
 * can: the limit is half of it. A batch takes several ticks.
 */
static void short_sets(int sets, int regs, int context, const char *name)
{
	const struct op op = { .run = loop_run, .batch = 50000, .rounds = 9 };
	struct cost alone = measure(&op);
	struct session session;
	int error;

	error = short_sets_open(&session, sets, regs, context);
	if (error)
		report_absent("P4", error, "a loop beside %d sets of %d registers, %s",
			      sets, regs, name);
	else
		report_limit("P4", measure(&op), alone.insn * 2,
			     "a loop beside %d sets of %d registers, %s", sets, regs, name);
	close(session.fd);
}

void bench_perfmon(void)
{
	one_size(4, 0.85);
	one_size(8, 0.80);
	short_sets(4, 4, HARDIRQ, "hard interrupt");
	short_sets(4, 4, SOFTIRQ, "soft interrupt");
	short_sets(64, 1, HARDIRQ, "hard interrupt");
	short_sets(64, 1, SOFTIRQ, "soft interrupt");
}
