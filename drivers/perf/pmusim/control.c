// SPDX-License-Identifier: GPL-2.0
/*
 * Simulated PMUs: the files in debugfs.
 *
 *	pmusim/log			the methods that the core called
 *	pmusim/cpuN/tick		let a counter or a producer go on
 *	pmusim/cpuN/state		events and positions of counters and producers
 *	pmusim/PMU/capabilities		PERF_PMU_CAP_* that the PMU declares
 *	pmusim/PMU/fail_add		number of calls of pmu::add() that will fail
 *	pmusim/PMU/fail_commit		number of calls of pmu::commit_txn() that will fail
 *	pmusim/PMU/nr_counters		number of counters of each CPU
 *	pmusim/PMU/validate_group	refuse groups that will never fit
 *	pmusim/PMU/counters		the registers, a page per CPU, for mmap()
 *
 * Only root may open them.
 */

#include <linux/debugfs.h>
#include <linux/delay.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/sched/signal.h>
#include <linux/seq_file.h>
#include <linux/smp.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>

#include "pmusim.h"

/* Time that a tick waits for an overflow to be handled */
#define PMUSIM_TICK_TIMEOUT_MS	5000

/* Part of that time that a tick spins, because a task that sleeps takes its events away */
#define PMUSIM_TICK_SPIN_US	1000

static struct dentry *pmusim_dir;

/* Each CPU gets one tick at a time. */
static DEFINE_PER_CPU(struct mutex, pmusim_tick_mutex);

struct pmusim_tick_args {
	struct pmusim	*sim;
	int		idx;
	u64		left;
	bool		waiting;
};

/* Do a tick on its CPU, which may be the CPU of the writer. Interrupts are off. */
static void pmusim_tick_here(void *info)
{
	struct pmusim_tick_args *args = info;
	struct pmusim_cpu *c;

	if (!args->sim->cpu) {
		args->left = pmusim_aux_tick(args->sim, args->left);
		return;
	}

	c = this_cpu_ptr(args->sim->cpu);
	if (!args->waiting)
		args->left = pmusim_tick(c, args->idx, args->left);
	/* On its own CPU the writer runs this itself, so this is the context of a task. */
	if (in_task())
		pmusim_handle(c, PMUSIM_TASK, NULL);
	args->waiting = READ_ONCE(c->pending) & READ_ONCE(c->started) &
			BIT(args->idx);
}

static int pmusim_tick_cpu(int cpu, struct pmusim_tick_args *args)
{
	ktime_t begin = ktime_get();
	s64 waited;
	int ret;

	do {
		ret = smp_call_function_single(cpu, pmusim_tick_here, args, true);
		if (ret)
			return ret;
		if (fatal_signal_pending(current))
			return -EINTR;
		if (!args->waiting) {
			begin = ktime_get();
			cond_resched();
			continue;
		}
		waited = ktime_us_delta(ktime_get(), begin);
		if (waited > PMUSIM_TICK_TIMEOUT_MS * USEC_PER_MSEC)
			return -ETIMEDOUT;
		if (waited > PMUSIM_TICK_SPIN_US)
			usleep_range(50, 100);
		else
			cpu_relax();
	} while (args->left || args->waiting);

	return 0;
}

static struct pmusim *pmusim_find_instance(const char *name)
{
	struct pmusim **sim;

	for (sim = pmusim_instances; *sim; sim++) {
		if (!strcmp((*sim)->name, name))
			break;
	}
	return *sim;
}

/* Parse "[PMU] COUNTER AMOUNT". */
static int pmusim_parse_tick(char *text, struct pmusim_tick_args *args)
{
	char name[32];
	int idx;

	args->sim = &pmusim_counters;
	if (sscanf(text, "%31s %d %llu", name, &idx, &args->left) == 3)
		args->sim = pmusim_find_instance(name);
	else if (sscanf(text, "%d %llu", &idx, &args->left) != 2)
		return -EINVAL;
	args->idx = idx;

	if (!args->sim)
		return -ENODEV;
	if (!args->sim->cpu)
		return idx || args->left % sizeof(u64) ? -EINVAL : 0;
	return idx < 0 || idx >= PMUSIM_MAX_COUNTERS ? -EINVAL : 0;
}

static ssize_t pmusim_tick_write(struct file *file, const char __user *ubuf,
				 size_t count, loff_t *ppos)
{
	int ret, cpu = (long)file_inode(file)->i_private;
	struct pmusim_tick_args args = {};
	char text[64];

	if (count >= sizeof(text))
		return -EINVAL;
	if (copy_from_user(text, ubuf, count))
		return -EFAULT;
	text[count] = '\0';
	ret = pmusim_parse_tick(text, &args);
	if (ret)
		return ret;

	ret = mutex_lock_interruptible(per_cpu_ptr(&pmusim_tick_mutex, cpu));
	if (ret)
		return ret;
	ret = pmusim_tick_cpu(cpu, &args);
	mutex_unlock(per_cpu_ptr(&pmusim_tick_mutex, cpu));

	return ret ?: count;
}

static const struct file_operations pmusim_tick_fops = {
	.owner	= THIS_MODULE,
	.open	= simple_open,
	.write	= pmusim_tick_write,
	.llseek	= noop_llseek,
};

struct pmusim_state_args {
	struct pmusim		*sim;
	struct pmusim_state	state;
};

static void pmusim_state_here(void *info)
{
	struct pmusim_state_args *args = info;
	struct pmusim_cpu *c;
	int i;

	if (!args->sim->cpu) {
		pmusim_aux_state(args->sim, &args->state);
		return;
	}

	c = this_cpu_ptr(args->sim->cpu);
	args->state.disabled = c->disabled;
	for (i = 0; i < PMUSIM_MAX_COUNTERS; i++) {
		if (!c->event[i])
			continue;
		args->state.counter[i].id = c->event[i]->id;
		args->state.counter[i].reg = local64_read(&c->reg[i]);
		args->state.counter[i].started = test_bit(i, &c->started);
		args->state.counter[i].pending = test_bit(i, &c->pending);
	}
}

static void pmusim_state_print(struct seq_file *m, struct pmusim_state_args *args)
{
	struct pmusim_state *state = &args->state;
	int i;

	for (i = 0; i < PMUSIM_MAX_COUNTERS; i++) {
		if (state->counter[i].id)
			seq_printf(m, "%s %d %llu %#llx%s%s\n", args->sim->name, i,
				   state->counter[i].id, state->counter[i].reg,
				   state->counter[i].started ? " started" : "",
				   state->counter[i].pending ? " pending" : "");
	}
	if (state->aux.id)
		seq_printf(m, "%s 0 %llu %#llx%s%s\n", args->sim->name,
			   state->aux.id, state->aux.pos,
			   state->aux.running ? " started" : "",
			   state->aux.paused ? " paused" : "");
	if (state->disabled)
		seq_printf(m, "%s disabled\n", args->sim->name);
}

static int pmusim_state_show(struct seq_file *m, void *unused)
{
	int ret, cpu = (long)m->private;
	struct pmusim_state_args args;
	struct pmusim **sim;

	for (sim = pmusim_instances; *sim; sim++) {
		memset(&args, 0, sizeof(args));
		args.sim = *sim;
		ret = smp_call_function_single(cpu, pmusim_state_here, &args, true);
		if (ret)
			return ret;
		pmusim_state_print(m, &args);
	}
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(pmusim_state);

/* Keep new events away while settings change. Fail if events exist, which use them. */
static int pmusim_lock_settings(struct pmusim *sim)
{
	return atomic_cmpxchg(&sim->events, 0, -1) ? -EBUSY : 0;
}

static void pmusim_unlock_settings(struct pmusim *sim)
{
	atomic_set(&sim->events, 0);
}

static int pmusim_nr_counters_get(void *data, u64 *val)
{
	*val = ((struct pmusim *)data)->nr_counters;
	return 0;
}

static int pmusim_nr_counters_set(void *data, u64 val)
{
	struct pmusim *sim = data;
	int ret;

	if (!val || val > PMUSIM_MAX_COUNTERS)
		return -EINVAL;
	ret = pmusim_lock_settings(sim);
	if (ret)
		return ret;
	WRITE_ONCE(sim->nr_counters, val);
	pmusim_unlock_settings(sim);
	return 0;
}
DEFINE_DEBUGFS_ATTRIBUTE(pmusim_nr_counters_fops, pmusim_nr_counters_get,
			 pmusim_nr_counters_set, "%llu\n");

static const struct {
	const char	*name;
	int		cap;
} pmusim_capabilities[] = {
	{ "no_interrupt",	PERF_PMU_CAP_NO_INTERRUPT },
	{ "no_exclude",		PERF_PMU_CAP_NO_EXCLUDE },
	{ "gate_nmi",		PERF_PMU_CAP_GATE_NMI },
	{ "gate_stop",		PERF_PMU_CAP_GATE_STOP },
	{ "gate_overflow",	PERF_PMU_CAP_GATE_OVERFLOW },
};

static int pmusim_capabilities_show(struct seq_file *m, void *unused)
{
	struct pmusim *sim = m->private;
	int i;

	for (i = 0; i < ARRAY_SIZE(pmusim_capabilities); i++) {
		if (sim->settable & pmusim_capabilities[i].cap)
			seq_printf(m, "%c%s\n", sim->pmu.capabilities &
				   pmusim_capabilities[i].cap ? '+' : '-',
				   pmusim_capabilities[i].name);
	}
	return 0;
}

static int pmusim_capabilities_open(struct inode *inode, struct file *file)
{
	return single_open(file, pmusim_capabilities_show, inode->i_private);
}

static int pmusim_set_capability(struct pmusim *sim, const char *text)
{
	int i, ret;

	for (i = 0; i < ARRAY_SIZE(pmusim_capabilities); i++) {
		if (!strcmp(text + 1, pmusim_capabilities[i].name))
			break;
	}
	if ((*text != '+' && *text != '-') || i == ARRAY_SIZE(pmusim_capabilities))
		return -EINVAL;
	if (!(sim->settable & pmusim_capabilities[i].cap))
		return -EOPNOTSUPP;

	ret = pmusim_lock_settings(sim);
	if (ret)
		return ret;
	if (*text == '+')
		sim->pmu.capabilities |= pmusim_capabilities[i].cap;
	else
		sim->pmu.capabilities &= ~pmusim_capabilities[i].cap;
	pmusim_unlock_settings(sim);
	return 0;
}

/* Set or clear the capability of "+NAME" or "-NAME". */
static ssize_t pmusim_capabilities_write(struct file *file,
					 const char __user *ubuf, size_t count,
					 loff_t *ppos)
{
	struct pmusim *sim = file_inode(file)->i_private;
	char text[32];
	int ret;

	if (!count || count >= sizeof(text))
		return -EINVAL;
	if (copy_from_user(text, ubuf, count))
		return -EFAULT;
	text[count] = '\0';
	ret = pmusim_set_capability(sim, strim(text));
	return ret ?: count;
}

static const struct file_operations pmusim_capabilities_fops = {
	.owner		= THIS_MODULE,
	.open		= pmusim_capabilities_open,
	.read		= seq_read,
	.write		= pmusim_capabilities_write,
	.llseek		= seq_lseek,
	.release	= single_release,
};

static int pmusim_counters_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct pmusim *sim = file_inode(file)->i_private;

	if (vma->vm_flags & VM_WRITE)
		return -EACCES;
	vm_flags_clear(vma, VM_MAYWRITE);
	return remap_vmalloc_range(vma, sim->regs, vma->vm_pgoff);
}

/* The file holds the module, so the pages stay as long as a mapping does. */
static const struct file_operations pmusim_counters_fops = {
	.owner	= THIS_MODULE,
	.open	= simple_open,
	.mmap	= pmusim_counters_mmap,
	.llseek	= noop_llseek,
};

static void pmusim_control_pmu(struct pmusim *sim)
{
	struct dentry *dir = debugfs_create_dir(sim->name, pmusim_dir);

	debugfs_create_file("capabilities", 0600, dir, sim,
			    &pmusim_capabilities_fops);
	debugfs_create_atomic_t("fail_add", 0600, dir, &sim->fail_add);
	if (!sim->cpu)
		return;
	debugfs_create_atomic_t("fail_commit", 0600, dir, &sim->fail_commit);
	debugfs_create_file_unsafe("nr_counters", 0600, dir, sim,
				   &pmusim_nr_counters_fops);
	debugfs_create_bool("validate_group", 0600, dir, &sim->validate_group);
	debugfs_create_file_unsafe("counters", 0400, dir, sim,
				   &pmusim_counters_fops);
}

/**
 * pmusim_control_setup() - Create the files
 *
 * Errors are ignored: without the files the PMUs exist, but are of little use.
 *
 * Context: Process context.
 */
void pmusim_control_setup(void)
{
	struct pmusim **sim;
	struct dentry *dir;
	char name[32];
	long cpu;

	pmusim_dir = debugfs_create_dir("pmusim", NULL);
	debugfs_create_file("log", 0600, pmusim_dir, NULL, &pmusim_log_fops);
	for (sim = pmusim_instances; *sim; sim++)
		pmusim_control_pmu(*sim);

	for_each_possible_cpu(cpu) {
		mutex_init(per_cpu_ptr(&pmusim_tick_mutex, cpu));
		snprintf(name, sizeof(name), "cpu%ld", cpu);
		dir = debugfs_create_dir(name, pmusim_dir);
		debugfs_create_file("tick", 0200, dir, (void *)cpu,
				    &pmusim_tick_fops);
		debugfs_create_file("state", 0400, dir, (void *)cpu,
				    &pmusim_state_fops);
	}
}

/**
 * pmusim_control_teardown() - Remove the files
 *
 * Context: Process context.
 */
void pmusim_control_teardown(void)
{
	debugfs_remove(pmusim_dir);
}
