// SPDX-License-Identifier: GPL-2.0
/*
 * perfmon.compat=1, kernel.perfmon_compat: programs that were written for perfmon 2.8.
 *
 * Such programs look for /sys/kernel/perfmon, leave fields unset that 2.8 ignored, and
 * attach to threads and CPUs that are running. A context keeps the value that was set
 * when it was created. All permission checks stay in force.
 */
#include <linux/init.h>
#include <linux/moduleparam.h>
#include <linux/mutex.h>
#include <linux/sysctl.h>

#include "internal.h"

#undef MODULE_PARAM_PREFIX
#define MODULE_PARAM_PREFIX "perfmon."

module_param_named(compat, pfm_compat, bool, 0);
MODULE_PARM_DESC(compat, "Be what programs for perfmon 2.8 expect");

/* Protects the value and the state of the link in sysfs */
static DEFINE_MUTEX(pfm_compat_lock);
static bool pfm_linked;

static int pfm_compat_link(void)
{
	int ret;

	lockdep_assert_held(&pfm_compat_lock);
	if (pfm_linked == pfm_compat)
		return 0;
	ret = pfm_sysfs_link(pfm_compat);
	if (!ret)
		pfm_linked = pfm_compat;
	return ret;
}

static int pfm_compat_sysctl(const struct ctl_table *table, int write, void *buffer,
			     size_t *lenp, loff_t *ppos)
{
	int ret;

	guard(mutex)(&pfm_compat_lock);
	ret = proc_dobool(table, write, buffer, lenp, ppos);
	if (ret || !write)
		return ret;
	ret = pfm_compat_link();
	/* Restore the value, because without the link programs would not find perfmon. */
	if (ret)
		WRITE_ONCE(pfm_compat, pfm_linked);
	return ret;
}

static struct ctl_table pfm_compat_table[] = {
	{
		.procname	= "perfmon_compat",
		.data		= &pfm_compat,
		.maxlen		= sizeof(pfm_compat),
		.mode		= 0644,
		.proc_handler	= pfm_compat_sysctl,
	},
};

/* Run after pfm_sysfs_init(), because the link needs the directory. */
static int __init pfm_compat_init(void)
{
	register_sysctl_init("kernel", pfm_compat_table);
	guard(mutex)(&pfm_compat_lock);
	return pfm_compat_link();
}
late_initcall_sync(pfm_compat_init);
