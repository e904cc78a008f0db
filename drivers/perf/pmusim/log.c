// SPDX-License-Identifier: GPL-2.0
/*
 * Simulated PMUs: a log of the methods that the core calls.
 *
 * The log is off until "on" is written to the file "log", which also empties the log.
 * An entry is claimed by an atomic increment, so NMIs can log. A full log keeps what it
 * has and counts what it misses, because a test compares from the beginning.
 */

#include <linux/debugfs.h>
#include <linux/mutex.h>
#include <linux/seq_file.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>

#include "pmusim.h"

#define PMUSIM_LOG_ENTRIES	16384

/**
 * struct pmusim_log_entry - one call
 */
struct pmusim_log_entry {
	/** @pmu: The PMU */
	struct pmu		*pmu;
	/** @id: perf_event::id, 0 for none */
	u64			id;
	/** @cpu: CPU of the call */
	int			cpu;
	/** @flags: The argument of the method */
	unsigned int		flags;
	/** @result: Return value of the method */
	int			result;
	/** @op: The method */
	enum pmusim_op		op;
	/** @valid: All other members are written */
	bool			valid;
};

static const char * const pmusim_op_names[PMUSIM_NR_OPS] = {
	[PMUSIM_OP_ADD]		= "add",
	[PMUSIM_OP_DEL]		= "del",
	[PMUSIM_OP_START]	= "start",
	[PMUSIM_OP_STOP]	= "stop",
	[PMUSIM_OP_READ]	= "read",
	[PMUSIM_OP_START_TXN]	= "start_txn",
	[PMUSIM_OP_COMMIT_TXN]	= "commit_txn",
	[PMUSIM_OP_CANCEL_TXN]	= "cancel_txn",
	[PMUSIM_OP_OVERFLOW]	= "overflow",
	[PMUSIM_OP_OUTPUT]	= "output",
};

static struct pmusim_log_entry *pmusim_log_entries;
static atomic_t pmusim_log_used;
static bool pmusim_log_on;

/* Serializes readers of the log and writers that switch it on and off. */
static DEFINE_MUTEX(pmusim_log_mutex);

/**
 * pmusim_log() - Log the call of a method
 * @pmu:	The PMU
 * @event:	The event, NULL if the method has none
 * @op:		The method
 * @flags:	Its argument
 * @result:	Return value of the method
 *
 * Context: Preemption off, NMIs.
 */
void pmusim_log(struct pmu *pmu, struct perf_event *event, enum pmusim_op op,
		unsigned int flags, int result)
{
	struct pmusim_log_entry *entry;
	int used;

	if (!READ_ONCE(pmusim_log_on))
		return;

	used = atomic_fetch_add_unless(&pmusim_log_used, 1, INT_MAX);
	if (used >= PMUSIM_LOG_ENTRIES)
		return;

	entry = &pmusim_log_entries[used];
	entry->pmu = pmu;
	entry->id = event ? event->id : 0;
	entry->cpu = smp_processor_id();
	entry->flags = flags;
	entry->result = result;
	entry->op = op;
	/* Pairs with pmusim_log_line(). */
	smp_store_release(&entry->valid, true);
}

static void pmusim_log_switch(bool on)
{
	WRITE_ONCE(pmusim_log_on, false);
	if (!on)
		return;

	/*
	 * A writer that saw the log on has preemption off, so a grace period waits for
	 * it.
	 */
	synchronize_rcu();
	memset(pmusim_log_entries, 0,
	       PMUSIM_LOG_ENTRIES * sizeof(*pmusim_log_entries));
	atomic_set(&pmusim_log_used, 0);
	/* Empty the log before it is on. Pairs with the increment in pmusim_log(). */
	smp_wmb();
	WRITE_ONCE(pmusim_log_on, true);
}

static void pmusim_log_line(struct seq_file *m, int number)
{
	struct pmusim_log_entry *entry = &pmusim_log_entries[number];

	/* Pairs with pmusim_log(). */
	if (!smp_load_acquire(&entry->valid))
		return;
	seq_printf(m, "%d %d %s %s %llu %#x %d\n", number, entry->cpu,
		   entry->pmu->name, pmusim_op_names[entry->op], entry->id,
		   entry->flags, entry->result);
}

static int pmusim_log_show(struct seq_file *m, void *unused)
{
	int i, used;

	mutex_lock(&pmusim_log_mutex);
	used = atomic_read(&pmusim_log_used);
	for (i = 0; i < min(used, PMUSIM_LOG_ENTRIES); i++)
		pmusim_log_line(m, i);
	if (used > PMUSIM_LOG_ENTRIES)
		seq_printf(m, "missed %d\n", used - PMUSIM_LOG_ENTRIES);
	mutex_unlock(&pmusim_log_mutex);
	return 0;
}

static int pmusim_log_open(struct inode *inode, struct file *file)
{
	return single_open(file, pmusim_log_show, NULL);
}

static ssize_t pmusim_log_write(struct file *file, const char __user *ubuf,
				size_t count, loff_t *ppos)
{
	bool on;
	int ret;

	ret = kstrtobool_from_user(ubuf, count, &on);
	if (ret)
		return ret;

	mutex_lock(&pmusim_log_mutex);
	pmusim_log_switch(on);
	mutex_unlock(&pmusim_log_mutex);
	return count;
}

const struct file_operations pmusim_log_fops = {
	.owner		= THIS_MODULE,
	.open		= pmusim_log_open,
	.read		= seq_read,
	.write		= pmusim_log_write,
	.llseek		= seq_lseek,
	.release	= single_release,
};

/**
 * pmusim_log_setup() - Allocate the log
 *
 * Context: Process context.
 * Return: 0 or -ENOMEM.
 */
int pmusim_log_setup(void)
{
	pmusim_log_entries = vcalloc(PMUSIM_LOG_ENTRIES,
				     sizeof(*pmusim_log_entries));
	return pmusim_log_entries ? 0 : -ENOMEM;
}

/**
 * pmusim_log_teardown() - Undo pmusim_log_setup()
 *
 * Context: Process context. No PMU and no file are left.
 */
void pmusim_log_teardown(void)
{
	vfree(pmusim_log_entries);
}
