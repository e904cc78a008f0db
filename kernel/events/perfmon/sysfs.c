// SPDX-License-Identifier: GPL-2.0
/*
 * /sys/kernel/pfm: limits, sessions, and the registers of the CPU's PMU. See
 * Documentation/ABI/testing/sysfs-kernel-pfm.
 *
 * Perfmon 2.8 had /sys/kernel/perfmon, and programs that find it prefer perfmon: PAPI,
 * for one, would no longer use perf events. So that name is a link, which exists only
 * with perfmon.compat=1.
 */
#include <linux/init.h>
#include <linux/kobject.h>
#include <linux/slab.h>
#include <linux/sysfs.h>

#include <asm/unistd.h>

#include "internal.h"

/* Minimum in ns to which perf raises the periods of its timers */
#define PFM_TIMEOUT_FLOOR	10000

#define PFM_ATTR_SHOW(_name, _fmt, _value)				\
static ssize_t _name##_show(struct kobject *kobj,			\
			    struct kobj_attribute *attr, char *buf)	\
{									\
	return sysfs_emit(buf, _fmt "\n", _value);			\
}

#define PFM_ATTR_RO(_name, _fmt, _value)				\
PFM_ATTR_SHOW(_name, _fmt, _value)					\
static struct kobj_attribute _name##_attr = __ATTR_RO(_name)

#define PFM_ATTR_RW(_name, _fmt, _var, _parse, _min, _max)		\
PFM_ATTR_SHOW(_name, _fmt, READ_ONCE(_var))				\
static ssize_t _name##_store(struct kobject *kobj,			\
			     struct kobj_attribute *attr,		\
			     const char *buf, size_t count)		\
{									\
	typeof(_var) value;						\
	int ret = _parse(buf, 0, &value);				\
									\
	if (ret)							\
		return ret;						\
	if (value < (_min) || value > (_max))				\
		return -EINVAL;						\
	WRITE_ONCE(_var, value);					\
	return count;							\
}									\
static struct kobj_attribute _name##_attr = __ATTR_RW(_name)

PFM_ATTR_RO(task_sessions_count, "%d", atomic_read(&pfm_task_sessions));
PFM_ATTR_RO(sys_sessions_count, "%d", atomic_read(&pfm_cpu_sessions));
PFM_ATTR_RO(smpl_buffer_mem_cur, "%llu", pfm_smpl_pages() << PAGE_SHIFT);
PFM_ATTR_RW(smpl_buffer_mem_max, "%lu", pfm_smpl_mem_max, kstrtoul, PAGE_SIZE, SZ_1G);
PFM_ATTR_RW(arg_mem_max, "%u", pfm_arg_mem_max, kstrtouint, 1024, SZ_64K);
PFM_ATTR_RW(sets_max, "%u", pfm_sets_max, kstrtouint, 0, 1024);
PFM_ATTR_RW(ctx_events_max, "%u", pfm_events_max, kstrtouint, 1, 4096);
PFM_ATTR_RW(min_timeout_ns, "%u", pfm_min_timeout, kstrtouint, PFM_TIMEOUT_FLOOR,
	    NSEC_PER_SEC);
PFM_ATTR_RW(sys_group, "%d", pfm_sys_group, kstrtoint, -1, INT_MAX);
PFM_ATTR_RW(task_group, "%d", pfm_task_group, kstrtoint, -1, INT_MAX);

static ssize_t version_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%u.%u\n", PFM_VERSION_MAJ, PFM_VERSION_MIN);
}

static struct kobj_attribute version_attr = __ATTR_RO(version);

/* Show the number of the first system call; the others follow in the order of libpfm. */
static ssize_t syscall_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%d\n", __NR_pfm_create_context);
}

static struct kobj_attribute syscall_attr = __ATTR_RO(syscall);

static struct attribute *pfm_attrs[] = {
	&version_attr.attr,
	&syscall_attr.attr,
	&task_sessions_count_attr.attr,
	&sys_sessions_count_attr.attr,
	&smpl_buffer_mem_cur_attr.attr,
	&smpl_buffer_mem_max_attr.attr,
	&arg_mem_max_attr.attr,
	&sets_max_attr.attr,
	&ctx_events_max_attr.attr,
	&min_timeout_ns_attr.attr,
	&sys_group_attr.attr,
	&task_group_attr.attr,
	NULL,
};
ATTRIBUTE_GROUPS(pfm);

/**
 * struct pfm_reg_dir - directory of a register of the CPU's PMU
 */
struct pfm_reg_dir {
	/** @kobj: kobject of the directory */
	struct kobject	kobj;
	/** @num: number of the register */
	unsigned int	num;
	/** @control: the register is a control register, not a data register */
	bool		control;
};

static const struct pfm_pmu_map *pfm_cpu_map;

static struct pfm_reg_dir *to_reg_dir(struct kobject *kobj)
{
	return container_of(kobj, struct pfm_reg_dir, kobj);
}

static ssize_t name_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	struct pfm_reg_dir *dir = to_reg_dir(kobj);

	return sysfs_emit(buf, "%s%u\n", dir->control ? "PMC" : "PMD", dir->num);
}

static struct kobj_attribute name_attr = __ATTR_RO(name);

static ssize_t width_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%u\n", to_reg_dir(kobj)->control ? 64 : pfm_cpu_map->width);
}

static struct kobj_attribute width_attr = __ATTR_RO(width);

static ssize_t dfl_val_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	struct pfm_reg_dir *dir = to_reg_dir(kobj);
	u64 value = 0;

	if (dir->control && pfm_cpu_map->pmc_dfl)
		value = pfm_cpu_map->pmc_dfl(dir->num);
	return sysfs_emit(buf, "0x%llx\n", value);
}

static struct kobj_attribute dfl_val_attr = __ATTR_RO(dfl_val);

static ssize_t rsvd_msk_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	struct pfm_reg_dir *dir = to_reg_dir(kobj);
	u64 value = 0;

	if (dir->control && pfm_cpu_map->pmc_rsvd)
		value = pfm_cpu_map->pmc_rsvd(dir->num);
	return sysfs_emit(buf, "0x%llx\n", value);
}

static struct kobj_attribute rsvd_msk_attr = __ATTR_RO(rsvd_msk);

static struct attribute *pfm_reg_attrs[] = {
	&name_attr.attr,
	&width_attr.attr,
	&dfl_val_attr.attr,
	&rsvd_msk_attr.attr,
	NULL,
};
ATTRIBUTE_GROUPS(pfm_reg);

static void pfm_reg_dir_release(struct kobject *kobj)
{
	kfree(to_reg_dir(kobj));
}

static const struct kobj_type pfm_reg_ktype = {
	.release	= pfm_reg_dir_release,
	.sysfs_ops	= &kobj_sysfs_ops,
	.default_groups	= pfm_reg_groups,
};

static ssize_t model_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%s\n", pfm_cpu_map->model);
}

static struct kobj_attribute model_attr = __ATTR_RO(model);

/* Show the version of the sampling format, as the header of a buffer has it. */
static ssize_t fmt_version_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%u.%u\n", PFM_DFL_SMPL_VERSION >> 16,
			  PFM_DFL_SMPL_VERSION & 0xffff);
}

static struct kobj_attribute fmt_version_attr =
	__ATTR(version, 0444, fmt_version_show, NULL);

static int __init pfm_add_regs(struct kobject *parent, u64 mask, bool control)
{
	unsigned int num;
	int ret;

	for (num = 0; num < 64; num++) {
		struct pfm_reg_dir *dir;

		if (!(mask & BIT_ULL(num)))
			continue;
		dir = kzalloc(sizeof(*dir), GFP_KERNEL);
		if (!dir)
			return -ENOMEM;
		dir->num = num;
		dir->control = control;
		ret = kobject_init_and_add(&dir->kobj, &pfm_reg_ktype, parent, "pm%c%u",
					   control ? 'c' : 'd', num);
		if (ret) {
			kobject_put(&dir->kobj);
			return ret;
		}
	}
	return 0;
}

static struct kobject *pfm_kobj;

/**
 * pfm_sysfs_link() - Link the directory to the name that it had in perfmon 2.8
 * @on:		True to create the link, false to remove it
 *
 * Context: Process context, calls serialized by the caller.
 * Return: 0, also if the directory does not exist, or an error.
 */
int pfm_sysfs_link(bool on)
{
	if (!pfm_kobj)
		return 0;
	if (on)
		return sysfs_create_link(kernel_kobj, pfm_kobj, "perfmon");
	sysfs_remove_link(kernel_kobj, "perfmon");
	return 0;
}

static int __init pfm_sysfs_init(void)
{
	struct kobject *top, *desc, *formats, *dfl;
	int ret;

	pfm_cpu_map = pfm_map_find(0);
	top = kobject_create_and_add("pfm", kernel_kobj);
	if (!top)
		return -ENOMEM;
	pfm_kobj = top;
	ret = sysfs_create_groups(top, pfm_groups);
	if (ret)
		goto err;

	ret = -ENOMEM;
	desc = kobject_create_and_add("pmu_desc", top);
	formats = kobject_create_and_add("formats", top);
	dfl = formats ? kobject_create_and_add("default", formats) : NULL;
	if (!desc || !dfl)
		goto err;
	ret = sysfs_create_file(desc, &model_attr.attr) ?:
	      sysfs_create_file(dfl, &fmt_version_attr.attr) ?:
	      pfm_add_regs(desc, pfm_cpu_map->pmcs, true) ?:
	      pfm_add_regs(desc, pfm_cpu_map->pmds, false);
	if (!ret)
		return 0;
err:
	/* The calls work without the directory, and the files created so far are valid. */
	pr_warn("perfmon: sysfs is incomplete: %d\n", ret);
	return ret;
}
late_initcall(pfm_sysfs_init);
