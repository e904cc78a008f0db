// SPDX-License-Identifier: GPL-2.0
/*
 * perfmon selftests - a program of 32 bits on a kernel of 64, which compat.c runs
 *
 * Usage: program_32 CASE       exit status 0 if all is as it should be
 *
 * The program does without the C library, which many machines have for 64 bits
 * only.
 */
#include "../../../include/nolibc/nolibc.h"

#include <linux/perf_event.h>
#include "perfmon_layout.h"

#define SYSCALL0	my_syscall0
#define SYSCALL1	my_syscall1
#define SYSCALL2	my_syscall2
#define SYSCALL3	my_syscall3
#define SYSCALL4	my_syscall4
#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))
#define PAGE		4096
#define NR_PAGES	64
#define FAULTS		(PFM_SW_BASE + PERF_COUNT_SW_PAGE_FAULTS)
#define SWITCHES	(PFM_SW_BASE + PERF_COUNT_SW_CONTEXT_SWITCHES)
#define WORD(num)	((num) / 64)
#define BIT_OF(num)	(1ULL << ((num) % 64))
/* A value that does not fit into a register of this machine */
#define BIG		0x123456789ULL

static unsigned int nr_checks, nr_failed;

#define CHECK(what) check(what, __LINE__, #what)

static void check(int good, int line, const char *what)
{
	nr_checks++;
	if (good)
		return;
	nr_failed++;
	printf("line %d is not true: %s\n", line, what);
}

static long pfm_create(struct pfarg_ctx *ctx, const char *fmt, void *arg, size_t size)
{
	return SYSCALL4(__NR_pfm_create_context, ctx, fmt, arg, size);
}

static long pfm_write_pmcs(int fd, struct pfarg_pmc *vec, int n)
{
	return SYSCALL3(__NR_pfm_write_pmcs, fd, vec, n);
}

static long pfm_write_pmds(int fd, struct pfarg_pmd *vec, int n)
{
	return SYSCALL3(__NR_pfm_write_pmds, fd, vec, n);
}

static long pfm_read_pmds(int fd, struct pfarg_pmd *vec, int n)
{
	return SYSCALL3(__NR_pfm_read_pmds, fd, vec, n);
}

static long pfm_load(int fd, struct pfarg_load *load)
{
	return SYSCALL2(__NR_pfm_load_context, fd, load);
}

static long pfm_start(int fd, struct pfarg_start *start)
{
	return SYSCALL2(__NR_pfm_start, fd, start);
}

static long pfm_stop(int fd)
{
	return SYSCALL1(__NR_pfm_stop, fd);
}

static long pfm_restart(int fd)
{
	return SYSCALL1(__NR_pfm_restart, fd);
}

static long pfm_create_evtsets(int fd, struct pfarg_setdesc *vec, int n)
{
	return SYSCALL3(__NR_pfm_create_evtsets, fd, vec, n);
}

static long pfm_getinfo_evtsets(int fd, struct pfarg_setinfo *vec, int n)
{
	return SYSCALL3(__NR_pfm_getinfo_evtsets, fd, vec, n);
}

static long pfm_delete_evtsets(int fd, struct pfarg_setdesc *vec, int n)
{
	return SYSCALL3(__NR_pfm_delete_evtsets, fd, vec, n);
}

static long pfm_unload(int fd)
{
	return SYSCALL1(__NR_pfm_unload_context, fd);
}

static long pfm_open(void)
{
	struct pfarg_ctx ctx = { };

	return pfm_create(&ctx, NULL, NULL, 0);
}

static long pfm_load_self(int fd)
{
	struct pfarg_load load = { .load_pid = gettid() };

	return pfm_load(fd, &load);
}

static struct pfarg_pmd pfm_pmd(int fd, int set, int num)
{
	struct pfarg_pmd pmd = { .reg_num = num, .reg_set = set };

	CHECK(!pfm_read_pmds(fd, &pmd, 1));
	return pmd;
}

static struct pfarg_setinfo pfm_info(int fd, int set)
{
	struct pfarg_setinfo info = { .set_id = set };

	CHECK(!pfm_getinfo_evtsets(fd, &info, 1));
	return info;
}

static char *pages;

/* Take @n page faults. */
static void touch(unsigned int n)
{
	static unsigned int next = NR_PAGES;

	while (n--) {
		if (next == NR_PAGES) {
			if (pages)
				munmap(pages, NR_PAGES * PAGE);
			pages = mmap(NULL, NR_PAGES * PAGE, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			next = 0;
		}
		*(volatile char *)(pages + next++ * PAGE) = 1;
	}
}

/* Pages of the program's file that a call needs must not fault while faults are counted. */
static void rehearse(void)
{
	struct pfarg_pmd pmd = { .reg_num = FAULTS };
	int fd = pfm_open();

	pfm_write_pmds(fd, &pmd, 1);
	pfm_load_self(fd);
	pfm_start(fd, NULL);
	touch(1);
	pfm_stop(fd);
	pfm_read_pmds(fd, &pmd, 1);
	close(fd);
	touch(NR_PAGES - 1);
	touch(1);
}

static void count(void)
{
	struct pfarg_pmc pmc[2] = { { .reg_num = FAULTS }, { .reg_num = SWITCHES } };
	struct pfarg_pmd pmd[2] = {
		{ .reg_num = SWITCHES, .reg_value = 7 },
		{ .reg_num = FAULTS, .reg_value = BIG },
	};
	struct pfarg_ctx ctx = { };
	int fd, i;

	rehearse();
	fd = pfm_create(&ctx, NULL, NULL, 0);
	CHECK(fd >= 0 && fd == ctx.ctx_fd);
	CHECK(pfm_start(fd, NULL) == -EINVAL);
	CHECK(!pfm_write_pmcs(fd, pmc, 2));
	CHECK(!pfm_write_pmds(fd, pmd, 2));
	CHECK(!pfm_load_self(fd));
	CHECK(pfm_load_self(fd) == -EBUSY);
	for (i = 1; i <= 10; i++) {
		CHECK(!pfm_start(fd, NULL));
		touch(5);
		CHECK(!pfm_stop(fd));
		touch(1);
		CHECK(pfm_pmd(fd, 0, FAULTS).reg_value == BIG + 5 * i);
	}
	CHECK(pfm_pmd(fd, 0, SWITCHES).reg_value >= 7);
	/* Check both halves of a value that passes zero. */
	pmd[1].reg_value = -2ULL;
	CHECK(!pfm_write_pmds(fd, pmd, 2));
	CHECK(!pfm_start(fd, NULL));
	touch(1);
	CHECK(pfm_pmd(fd, 0, FAULTS).reg_value == -1ULL);
	CHECK(pfm_restart(fd) == -EBUSY);
	CHECK(!pfm_unload(fd));
	CHECK(!pfm_unload(fd));
	CHECK(pfm_pmd(fd, 0, FAULTS).reg_value == -1ULL);
	CHECK(!close(fd));
}

static void sets(void)
{
	const __u64 timeout = 5000000000ULL;
	struct pfarg_setdesc desc[2] = {
		{ .set_id = 7, .set_flags = PFM_SETFL_TIME_SWITCH, .set_timeout = timeout },
		{ .set_id = 65535, .set_id_next = 7,
		  .set_flags = PFM_SETFL_OVFL_SWITCH | PFM_SETFL_EXPL_NEXT },
	};
	struct pfarg_pmd pmd[2] = {
		{ .reg_num = FAULTS, .reg_set = 65535, .reg_value = -10ULL,
		  .reg_short_reset = -10ULL, .reg_ovfl_switch_cnt = 1 },
		{ .reg_num = FAULTS, .reg_set = 7, .reg_value = BIG },
	};
	struct pfarg_setinfo info[2] = { { .set_id = 65535 }, { .set_id = 7 } };
	struct pfarg_start start = { .start_set = 65535 };
	struct pfarg_load load = { .load_pid = gettid(), .load_set = 7 };
	int fd = pfm_open(), tries = 1000;

	CHECK(!pfm_create_evtsets(fd, desc, 2));
	CHECK(desc[0].set_timeout == timeout);
	CHECK(!pfm_getinfo_evtsets(fd, info, 2));
	CHECK(info[0].set_id == 65535 && info[0].set_id_next == 7);
	CHECK(info[0].set_flags == (PFM_SETFL_OVFL_SWITCH | PFM_SETFL_EXPL_NEXT));
	CHECK(info[1].set_timeout == timeout && info[1].set_flags == PFM_SETFL_TIME_SWITCH);
	CHECK(info[1].set_avail_pmds[WORD(FAULTS)] & BIT_OF(FAULTS));
	CHECK(!pfm_write_pmds(fd, pmd, 2));
	CHECK(!pfm_load(fd, &load));
	CHECK(pfm_create_evtsets(fd, desc, 1) == -EBUSY);
	/* Start with another set than the loaded one; the tenth fault switches. */
	CHECK(!pfm_start(fd, &start));
	touch(10);
	while (!(pfm_info(fd, 7).set_flags & PFM_SETFL_OUT_ACTIVE) && tries--)
		SYSCALL0(__NR_sched_yield);
	CHECK(pfm_info(fd, 65535).set_runs == 1);
	CHECK(!(pfm_info(fd, 65535).set_flags & PFM_SETFL_OUT_ACTIVE));
	touch(3);
	CHECK(!pfm_stop(fd));
	CHECK(pfm_pmd(fd, 7, FAULTS).reg_value >= BIG + 3);
	CHECK(pfm_pmd(fd, 7, FAULTS).reg_value < BIG + 20);
	CHECK(pfm_info(fd, 7).set_timeout <= timeout && pfm_info(fd, 7).set_timeout > BIG / 2);
	CHECK(pfm_info(fd, 7).set_act_duration);
	CHECK(!pfm_unload(fd));
	CHECK(!pfm_delete_evtsets(fd, desc, 2));
	CHECK(pfm_delete_evtsets(fd, desc, 2) == -EINVAL);
	CHECK(!close(fd));
}

/* Tell whether an address is in the program, which is small. */
static int is_text(__u64 ip)
{
	return ip + 0x10000 - (unsigned long)is_text < 0x20000;
}

static void messages(void)
{
	struct pfarg_pmd pmd = {
		.reg_num = FAULTS, .reg_flags = PFM_REGFL_OVFL_NOTIFY, .reg_value = -10ULL,
		.reg_long_reset = -5ULL, .reg_short_reset = -3ULL,
	};
	const struct pfarg_ovfl_msg *ovfl;
	union pfarg_msg msg = { };
	int fd, i;

	rehearse();
	fd = pfm_open();
	CHECK(!pfm_write_pmds(fd, &pmd, 1));
	CHECK(!pfm_load_self(fd));
	CHECK(!pfm_start(fd, NULL));
	touch(10);
	for (i = 0; i < 3; i++) {
		CHECK(SYSCALL3(__NR_read, fd, &msg, sizeof(msg) - 1) == -EINVAL);
		CHECK(read(fd, &msg, sizeof(msg)) == 64);
		ovfl = &msg.pfm_ovfl_msg;
		CHECK(msg.type == PFM_MSG_OVFL);
		CHECK(ovfl->msg_ovfl_pid == (__u32)getpid());
		CHECK(ovfl->msg_ovfl_tid == (__u32)gettid());
		CHECK(!ovfl->msg_active_set);
		CHECK(ovfl->msg_ovfl_pmds[WORD(FAULTS)] == BIT_OF(FAULTS));
		CHECK(is_text(ovfl->msg_ovfl_ip));
		CHECK(pfm_info(fd, 0).set_ovfl_pmds[WORD(FAULTS)] == BIT_OF(FAULTS));
		/* Masked */
		touch(4);
		CHECK(!pfm_pmd(fd, 0, FAULTS).reg_value);
		CHECK(!pfm_restart(fd));
		CHECK(pfm_pmd(fd, 0, FAULTS).reg_value == -5ULL);
		CHECK(pfm_pmd(fd, 0, FAULTS).reg_last_reset_val == -5ULL);
		touch(5);
	}
	CHECK(!close(fd));
}

static void samples(void)
{
	struct pfm_dfl_smpl_arg arg = { .buf_size = 16 * PAGE };
	struct pfarg_pmd pmd = {
		.reg_num = FAULTS, .reg_value = -2ULL, .reg_long_reset = -2ULL,
		.reg_short_reset = -2ULL, .reg_smpl_pmds[WORD(SWITCHES)] = BIT_OF(SWITCHES),
	};
	struct pfarg_pmd other = { .reg_num = SWITCHES, .reg_value = BIG };
	const struct pfm_dfl_smpl_hdr *hdr;
	struct pfarg_ctx ctx = { };
	const struct {
		struct pfm_dfl_smpl_entry e;
		__u64 value;
	} *sample;
	int fd, i;

	rehearse();
	fd = pfm_create(&ctx, "default", &arg, sizeof(arg));
	CHECK(fd >= 0);
	hdr = mmap(NULL, arg.buf_size, PROT_READ, MAP_SHARED, fd, 0);
	CHECK(hdr != MAP_FAILED);
	if (hdr == MAP_FAILED)
		return;
	CHECK(hdr->hdr_version == PFM_DFL_SMPL_VERSION && hdr->hdr_buf_size == arg.buf_size);
	CHECK(!pfm_write_pmds(fd, &pmd, 1));
	CHECK(!pfm_write_pmds(fd, &other, 1));
	CHECK(!pfm_load_self(fd));
	CHECK(!pfm_start(fd, NULL));
	touch(20);
	CHECK(!pfm_stop(fd));
	CHECK(hdr->hdr_count == 10);
	CHECK(hdr->hdr_cur_offs == sizeof(*hdr) + 10 * sizeof(*sample));
	sample = (const void *)(hdr + 1);
	for (i = 0; i < 10; i++) {
		CHECK(sample[i].e.pid == (__u32)gettid() && sample[i].e.tgid == (__u32)getpid());
		CHECK(sample[i].e.ovfl_pmd == FAULTS);
		/* The last reset value is not affected by a write. */
		CHECK(sample[i].e.last_reset_val == -2ULL);
		CHECK(is_text(sample[i].e.ip));
		CHECK(!i || sample[i].e.tstamp > sample[i - 1].e.tstamp);
		CHECK(sample[i].value >= BIG && sample[i].value < BIG + 1000);
	}
	CHECK(!munmap((void *)hdr, arg.buf_size));
	CHECK(!close(fd));
}

/* Test pointers at the end of the 32-bit address space, and counts without an upper half. */
static void errors(void)
{
	static const int calls[] = {
		__NR_pfm_write_pmcs, __NR_pfm_write_pmds, __NR_pfm_read_pmds,
		__NR_pfm_create_evtsets, __NR_pfm_getinfo_evtsets, __NR_pfm_delete_evtsets,
	};
	void *bad = (void *)-PAGE;
	struct pfm_dfl_smpl_arg arg = { .buf_size = 16 * PAGE };
	struct pfarg_ctx ctx = { .ctx_reserved[5] = 1 };
	unsigned int i;
	int fd;

	CHECK(pfm_create(&ctx, NULL, NULL, 0) == -EINVAL);
	ctx.ctx_reserved[5] = 0;
	CHECK(pfm_create(bad, NULL, NULL, 0) == -EFAULT);
	CHECK(pfm_create(&ctx, bad, &arg, sizeof(arg)) == -EFAULT);
	CHECK(pfm_create(&ctx, "default", bad, sizeof(arg)) == -EFAULT);
	CHECK(pfm_create(&ctx, "default", &arg, -1) == -EINVAL);
	CHECK(pfm_create(&ctx, NULL, NULL, -1) == -EINVAL);
	fd = pfm_open();
	CHECK(fd >= 0);
	for (i = 0; i < ARRAY_SIZE(calls); i++) {
		CHECK(SYSCALL3(calls[i], fd, NULL, -1) == -EINVAL);
		CHECK(SYSCALL3(calls[i], fd, NULL, INT_MAX) == -EINVAL);
		CHECK(SYSCALL3(calls[i], fd, NULL, 1) == -EFAULT);
		CHECK(SYSCALL3(calls[i], fd, bad, 1) == -EFAULT);
		CHECK(SYSCALL3(calls[i], fd, NULL, 0) == 0);
		CHECK(SYSCALL3(calls[i], -1, NULL, 1) == -EBADF);
	}
	CHECK(pfm_load(fd, bad) == -EFAULT);
	CHECK(pfm_load(-1, NULL) == -EBADF);
	CHECK(pfm_start(fd, bad) == -EFAULT);
	CHECK(pfm_start(-1, NULL) == -EBADF);
	CHECK(pfm_stop(-1) == -EBADF);
	CHECK(pfm_restart(-1) == -EBADF);
	CHECK(pfm_restart(fd) == -EBUSY);
	CHECK(pfm_unload(-1) == -EBADF);
	CHECK(!close(fd));
	CHECK(pfm_unload(fd) == -EBADF);
}

static long set_pmd(int fd, int num, __u64 value)
{
	struct pfarg_pmd pmd = { .reg_num = num, .reg_value = value };

	return pfm_write_pmds(fd, &pmd, 1);
}

static long load_tid(int fd, int tid)
{
	struct pfarg_load load = { .load_pid = tid };

	return pfm_load(fd, &load);
}

static long open_flags(unsigned int flags)
{
	struct pfarg_ctx ctx = { .ctx_flags = flags };

	return pfm_create(&ctx, NULL, NULL, 0);
}

/* Errors that depend on states, on values, and on the formats of sets and registers */
static void refuse(void)
{
	struct pfm_dfl_smpl_arg arg = { .buf_size = sizeof(struct pfm_dfl_smpl_hdr) };
	struct pfarg_setdesc desc = {
		.set_id = 1, .set_flags = PFM_SETFL_TIME_SWITCH | PFM_SETFL_OVFL_SWITCH,
		.set_timeout = 1,
	};
	struct pfarg_pmd pmd[3] = {
		{ .reg_num = FAULTS, .reg_value = 1,
		  .reg_smpl_pmds[WORD(SWITCHES + 1)] = BIT_OF(SWITCHES + 1) },
		{ .reg_num = SWITCHES, .reg_value = BIG },
		{ .reg_num = 255 },
	};
	struct pfarg_load load = { .load_pid = 1000000 };
	struct pfarg_ctx ctx = { };
	int fd, other;

	CHECK(open_flags(PFM_FL_NOTIFY_BLOCK | PFM_FL_SYSTEM_WIDE) == -EINVAL);
	CHECK(pfm_create(&ctx, "nonesuch", &arg, sizeof(arg)) == -EINVAL);
	CHECK(pfm_create(&ctx, "default", &arg, sizeof(arg) - 1) == -EINVAL);
	CHECK(pfm_create(&ctx, "default", &arg, sizeof(arg)) == -EINVAL);
	fd = open_flags(PFM_FL_NOTIFY_BLOCK);
	CHECK(pfm_load_self(fd) == -EINVAL);
	CHECK(!close(fd));
	fd = open_flags(PFM_FL_SYSTEM_WIDE);
	CHECK(pfm_load(fd, &load) == -EINVAL);
	CHECK(!close(fd));

	fd = pfm_open();
	other = pfm_open();
	CHECK(load_tid(fd, 0x7fffffff) == -ESRCH);
	CHECK(load_tid(fd, 2) == -EPERM);
	load = (struct pfarg_load) { .load_pid = gettid(), .load_set = 9 };
	CHECK(pfm_load(fd, &load) == -EINVAL);
	CHECK(!pfm_load_self(fd));
	CHECK(pfm_load_self(other) == -EEXIST);
	CHECK(!pfm_unload(fd));
	CHECK(!pfm_load_self(other));
	CHECK(!close(other));

	CHECK(pfm_create_evtsets(fd, &desc, 1) == -EINVAL);
	desc.set_flags = PFM_SETFL_TIME_SWITCH;
	CHECK(!pfm_create_evtsets(fd, &desc, 1));
	CHECK(desc.set_timeout >= 10000);
	desc.set_timeout = 0;
	CHECK(pfm_create_evtsets(fd, &desc, 1) == -EINVAL);
	CHECK(pfm_write_pmds(fd, pmd, 3) == -EINVAL);
	CHECK(!pmd[0].reg_flags && !pmd[1].reg_flags);
	CHECK(pmd[2].reg_flags == PFM_REGFL_RETFL_NOTAVAIL);
	CHECK(pfm_pmd(fd, 0, FAULTS).reg_value == 1);
	CHECK(pfm_pmd(fd, 0, SWITCHES).reg_value == BIG);
	CHECK(!pfm_pmd(fd, 0, SWITCHES + 1).reg_value);
	pmd[0] = (struct pfarg_pmd) { .reg_num = SWITCHES + 2 };
	CHECK(pfm_read_pmds(fd, pmd, 1) == -EINVAL);
	CHECK(pmd[0].reg_flags == PFM_REGFL_RETFL_EINVAL);
	CHECK(!close(fd));
}

static void child_stops_and_touches(void)
{
	SYSCALL4(__NR_ptrace, 0 /* PTRACE_TRACEME */, 0, 0, 0);
	rehearse();
	kill(getpid(), SIGSTOP);
	touch(5);
	kill(getpid(), SIGSTOP);
	touch(7);
	kill(getpid(), SIGSTOP);
	exit(0);
}

static long cont(int pid)
{
	int status;

	if (SYSCALL4(__NR_ptrace, 7 /* PTRACE_CONT */, pid, 0, 0))
		return -1;
	return waitpid(pid, &status, 0) == pid ? 0 : -1;
}

static void attach(void)
{
	int fd = pfm_open(), status, pid;
	struct pfarg_ctx ctx = { };

	pid = fork();
	if (!pid)
		child_stops_and_touches();
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK(!set_pmd(fd, FAULTS, BIG));
	CHECK(!load_tid(fd, pid));
	CHECK(!pfm_start(fd, NULL));
	CHECK(!cont(pid));
	CHECK(!pfm_stop(fd));
	CHECK(pfm_pmd(fd, 0, FAULTS).reg_value == BIG + 5);
	CHECK(!cont(pid));
	CHECK(pfm_pmd(fd, 0, FAULTS).reg_value == BIG + 5);
	CHECK(!pfm_unload(fd));
	kill(pid, SIGKILL);
	CHECK(waitpid(pid, &status, 0) == pid);

	/* The values continue after loading again. */
	rehearse();
	CHECK(!pfm_load_self(fd));
	CHECK(!pfm_start(fd, NULL));
	touch(3);
	CHECK(!pfm_stop(fd));
	CHECK(pfm_pmd(fd, 0, FAULTS).reg_value == BIG + 8);
	CHECK(!close(fd));

	/* Use a child that is not stopped. */
	fd = pfm_create(&ctx, NULL, NULL, 0);
	pid = fork();
	if (!pid) {
		for (;;)
			SYSCALL0(__NR_sched_yield);
	}
	CHECK(load_tid(fd, pid) == -ESRCH);
	CHECK(!close(fd));
	fd = open_flags(PFM_FL_REMOTE);
	CHECK(!load_tid(fd, pid));
	CHECK(!pfm_start(fd, NULL));
	CHECK(!pfm_stop(fd));
	CHECK(!close(fd));
	kill(pid, SIGKILL);
	CHECK(waitpid(pid, &status, 0) == pid);
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	{ "count", count },
	{ "sets", sets },
	{ "messages", messages },
	{ "samples", samples },
	{ "errors", errors },
	{ "refuse", refuse },
	{ "attach", attach },
};

int main(int argc, char **argv)
{
	unsigned int i;

	for (i = 0; argc == 2 && i < ARRAY_SIZE(cases); i++) {
		if (!strcmp(cases[i].name, argv[1]))
			cases[i].run();
	}
	printf("%u of %u checks failed\n", nr_failed, nr_checks);
	return nr_checks ? !!nr_failed : 2;
}
