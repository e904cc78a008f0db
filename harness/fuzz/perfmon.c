// SPDX-License-Identifier: GPL-2.0
/*
 * fuzz - the system calls of event sets
 */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <asm/unistd.h>
#include <linux/perfmon.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "fuzz.h"

/* Set up one software event of this thread or of a CPU, so that some contexts count. */
static void set_up(struct walk *walk, int fd, bool is_system_wide)
{
	struct pfarg_load load = {};
	struct pfarg_pmc pmc = {};
	struct pfarg_pmd pmd = {};

	pmc.reg_num = pmd.reg_num = PFM_SW_BASE + PERF_COUNT_SW_PAGE_FAULTS + below(walk, 4);
	pmd.reg_flags = below(walk, 4);
	pmd.reg_value = pmd.reg_short_reset = pmd.reg_long_reset = -(uint64_t)(1 + below(walk, 8));
	load.load_pid = is_system_wide ? below(walk, 2) : syscall(__NR_gettid);
	if (!syscall(__NR_pfm_write_pmcs, fd, &pmc, 1) &&
	    !syscall(__NR_pfm_write_pmds, fd, &pmd, 1) &&
	    !syscall(__NR_pfm_load_context, fd, &load))
		syscall(__NR_pfm_start, fd, NULL);
}

static long create(struct walk *walk)
{
	struct pfm_dfl_smpl_arg arg = { .buf_size = 4096ULL << below(walk, 4) };
	struct pfarg_ctx ctx = {
		.ctx_flags = (once_in(walk, 6) ? PFM_FL_NOTIFY_BLOCK : 0) |
			     (once_in(walk, 4) ? PFM_FL_SYSTEM_WIDE : 0) |
			     (once_in(walk, 6) ? PFM_FL_OVFL_NO_MSG : 0) |
			     (once_in(walk, 6) ? PFM_FL_REMOTE : 0) |
			     (once_in(walk, 6) ? PFM_FL_CLOEXEC : 0),
		.ctx_pmu_type = once_in(walk, 3) ? pmu_type("pmusim") : 0,
	};
	bool samples = once_in(walk, 2);
	int fd;

	if (once_in(walk, 16))
		((unsigned char *)&ctx)[below(walk, sizeof(ctx))] = any_word(walk);
	fd = syscall(__NR_pfm_create_context, &ctx, samples ? "default" : NULL,
		     samples ? &arg : NULL, samples ? sizeof(arg) : 0);
	if (fd < 0)
		return fd;
	fcntl(fd, F_SETFL, O_NONBLOCK);
	if (once_in(walk, 2))
		set_up(walk, fd, ctx.ctx_flags & PFM_FL_SYSTEM_WIDE);
	put_context(walk, fd);
	return fd;
}

/* Pick one register of the machine or of software, or garbage. */
static unsigned int any_register(struct walk *walk)
{
	if (once_in(walk, 32))
		return any_word(walk);
	return once_in(walk, 2) ? PFM_SW_BASE + below(walk, 7) : below(walk, 4);
}

/* Pick a set. Set 0 is always there. */
static unsigned int any_set(struct walk *walk)
{
	return once_in(walk, 2) ? below(walk, 3) : 0;
}

static long write_control(struct walk *walk)
{
	struct pfarg_pmc pmc[3] = {};
	unsigned int nr = once_in(walk, 4) ? 1 + below(walk, 3) : 1;

	for (unsigned int i = 0; i < nr; i++) {
		pmc[i].reg_num = any_register(walk);
		pmc[i].reg_set = any_set(walk);
		pmc[i].reg_flags = once_in(walk, 2) ? PFM_REGFL_EXCL_KERNEL : 0;
		pmc[i].reg_value = once_in(walk, 3) ? below(walk, 4) : 0;
	}
	return syscall(__NR_pfm_write_pmcs, any_context(walk), pmc, nr);
}

static long data(struct walk *walk, long call)
{
	struct pfarg_pmd pmd[3] = {};
	unsigned int nr = once_in(walk, 4) ? 1 + below(walk, 3) : 1;

	for (unsigned int i = 0; i < nr; i++) {
		pmd[i].reg_num = any_register(walk);
		pmd[i].reg_set = any_set(walk);
		if (call == __NR_pfm_read_pmds)
			continue;
		pmd[i].reg_flags = below(walk, 4);
		pmd[i].reg_value = -(uint64_t)(50 + below(walk, 1000));
		pmd[i].reg_short_reset = -(uint64_t)(50 + below(walk, 1000));
		pmd[i].reg_long_reset = -(uint64_t)(50 + below(walk, 1000));
		pmd[i].reg_random_mask = below(walk, 32);
		pmd[i].reg_ovfl_switch_cnt = below(walk, 4);
		pmd[i].reg_smpl_pmds[4] = below(walk, 128);
		pmd[i].reg_reset_pmds[4] = below(walk, 128);
		/* Clocks count ns. */
		if (pmd[i].reg_num == PFM_SW_BASE || pmd[i].reg_num == PFM_SW_BASE + 1)
			pmd[i].reg_value = pmd[i].reg_short_reset = pmd[i].reg_long_reset =
				-(uint64_t)(NSEC_PER_MSEC * (1 + below(walk, 10)));
	}
	return syscall(call, any_context(walk), pmd, nr);
}

static long write_data(struct walk *walk)
{
	return data(walk, __NR_pfm_write_pmds);
}

static long read_data(struct walk *walk)
{
	return data(walk, __NR_pfm_read_pmds);
}

static long load(struct walk *walk)
{
	struct pfarg_load load = {
		.load_pid = below(walk, 2),
		.load_set = any_set(walk),
	};

	/* The number of a CPU, or of a thread. */
	if (!once_in(walk, 4))
		load.load_pid = once_in(walk, 2) ? syscall(__NR_gettid) :
						   walk->board->pids[below(walk, NR_WORKERS)];
	return syscall(__NR_pfm_load_context, any_context(walk), &load);
}

static long start(struct walk *walk)
{
	struct pfarg_start start = { .start_set = any_set(walk) };

	return syscall(__NR_pfm_start, any_context(walk), once_in(walk, 2) ? &start : NULL);
}

static long command(struct walk *walk)
{
	static const long calls[] = {
		__NR_pfm_stop, __NR_pfm_restart, __NR_pfm_restart, __NR_pfm_unload_context,
	};

	return syscall(calls[below(walk, 4)], any_context(walk));
}

static long sets(struct walk *walk)
{
	struct pfarg_setdesc desc[2] = {};
	unsigned int nr = 1 + below(walk, 2);
	long call = once_in(walk, 4) ? __NR_pfm_delete_evtsets : __NR_pfm_create_evtsets;

	for (unsigned int i = 0; i < nr; i++) {
		desc[i].set_id = once_in(walk, 32) ? any_word(walk) : below(walk, 3);
		if (call == __NR_pfm_delete_evtsets)
			continue;
		desc[i].set_id_next = once_in(walk, 4) ? below(walk, 3) : 0;
		desc[i].set_flags = desc[i].set_id_next ? PFM_SETFL_EXPL_NEXT : 0;
		desc[i].set_flags |= once_in(walk, 2) ? PFM_SETFL_TIME_SWITCH : PFM_SETFL_OVFL_SWITCH;
		if (desc[i].set_flags & PFM_SETFL_TIME_SWITCH)
			desc[i].set_timeout = 100000 * (1 + below(walk, 50));
	}
	return syscall(call, any_context(walk), desc, nr);
}

static long info(struct walk *walk)
{
	struct pfarg_setinfo info[2] = {};

	info[0].set_id = any_set(walk);
	info[1].set_id = any_set(walk);
	return syscall(__NR_pfm_getinfo_evtsets, any_context(walk), info, 1 + below(walk, 2));
}

static long read_message(struct walk *walk)
{
	union pfarg_msg message[4];

	return read(any_context(walk), message, sizeof(message));
}

static long map_samples(struct walk *walk)
{
	size_t len = 4096UL << below(walk, 5);
	struct map *map = &walk->maps[below(walk, NR_MAPS)];
	void *addr = mmap(NULL, len, PROT_READ, MAP_SHARED, any_context(walk), 0);

	if (addr == MAP_FAILED)
		return -1;
	if (map->addr)
		munmap(map->addr, map->len);
	*map = (struct map) { .addr = addr, .len = len, .prot = PROT_READ };
	return 0;
}

/* Switch the compatibility with programs of perfmon 2.8 on or off. */
static long compat(struct walk *walk)
{
	int fd = open("/proc/sys/kernel/perfmon_compat", O_WRONLY | O_CLOEXEC);
	long ret;

	if (fd < 0)
		return -1;
	ret = write(fd, once_in(walk, 2) ? "1" : "0", 1);
	close(fd);
	return ret;
}

const struct action perfmon_actions[] = {
	{ "pfm create",		PERFMON,	3,	create },
	{ "pfm write pmcs",	PERFMON,	8,	write_control },
	{ "pfm write pmds",	PERFMON,	12,	write_data },
	{ "pfm read pmds",	PERFMON,	4,	read_data },
	{ "pfm load",		PERFMON,	10,	load },
	{ "pfm start",		PERFMON,	10,	start },
	{ "pfm stop, restart",	PERFMON,	8,	command },
	{ "pfm sets",		PERFMON,	6,	sets },
	{ "pfm getinfo",	PERFMON,	3,	info },
	{ "pfm read message",	PERFMON,	4,	read_message },
	{ "pfm map samples",	PERFMON,	4,	map_samples },
	{ "pfm compat",		PERFMON,	1,	compat },
	{}
};
