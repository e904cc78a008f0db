// SPDX-License-Identifier: GPL-2.0
/*
 * perfmon selftests - arguments, errors and their order, registers and sets as
 * software state
 */
#define _GNU_SOURCE

#include <glob.h>
#include <limits.h>

#include "../kselftest_harness.h"
#include "perfmon_helpers.h"
#include "perfmon_layout.h"

#define FMT	"default"

static unsigned int open_files(void)
{
	unsigned int fd, n = 0;

	for (fd = 0; fd < 64; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

TEST(descriptor_is_closed_by_exec_if_wanted)
{
	int fd = pfm_open(PFM_FL_CLOEXEC), other = pfm_open(0);

	ASSERT_LE(0, fd);
	ASSERT_LE(0, other);
	EXPECT_EQ(FD_CLOEXEC, fcntl(fd, F_GETFD));
	EXPECT_EQ(0, fcntl(other, F_GETFD));
	close(other);
	close(fd);
}

TEST(create_returns_the_descriptor_it_stores)
{
	struct pfarg_ctx ctx = { };
	int fd = pfm_create(&ctx, NULL, NULL, 0);

	ASSERT_LE(0, fd);
	EXPECT_EQ(fd, ctx.ctx_fd);
	EXPECT_EQ(0, fcntl(fd, F_GETFD) & FD_CLOEXEC);
	EXPECT_EQ(0, close(fd));
}

TEST(blocking_and_system_wide_exclude_each_other)
{
	EXPECT_EQ(-EINVAL, pfm_open(PFM_FL_NOTIFY_BLOCK | PFM_FL_SYSTEM_WIDE));
}

TEST(unknown_flags_and_reserved_fields_are_refused)
{
	struct pfarg_ctx ctx = { .ctx_rsvd = 1 };
	unsigned int i;

	for (i = 0; i < 32; i++) {
		int fd = pfm_open(1U << i);

		if ((1U << i) & (PFM_FL_NOTIFY_BLOCK | PFM_FL_SYSTEM_WIDE |
				 PFM_FL_OVFL_NO_MSG | PFM_FL_REMOTE |
				 PFM_FL_CLOEXEC)) {
			EXPECT_LE(0, fd);
			close(fd);
		} else {
			EXPECT_EQ(-EINVAL, fd);
		}
	}
	EXPECT_EQ(-EINVAL, pfm_create(&ctx, NULL, NULL, 0));
	for (i = 0; i < 6; i++) {
		memset(&ctx, 0, sizeof(ctx));
		ctx.ctx_reserved[i] = 1ULL << (i * 9);
		EXPECT_EQ(-EINVAL, pfm_create(&ctx, NULL, NULL, 0));
	}
}

TEST(unknown_pmu_is_no_device)
{
	struct pfarg_ctx ctx = { .ctx_pmu_type = 0x7fffffff };

	EXPECT_EQ(-ENODEV, pfm_create(&ctx, NULL, NULL, 0));
}

static int read_number(const char *dir, const char *name, unsigned long long *value)
{
	char path[PATH_MAX], text[64], *end;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	if (read_file(path, text, sizeof(text)))
		return -1;
	*value = strtoull(text, &end, 0);
	return end != text && *end == '\n' ? 0 : -1;
}

/*
 * Each register is named after its number. Bits that are always set in a control
 * register are reserved.
 */
TEST(registers_of_the_processor_are_described)
{
	unsigned long long width, reset, reserved;
	char text[64], want[64], path[PATH_MAX];
	unsigned int num;
	glob_t dirs;
	size_t i;
	char kind;

	ASSERT_EQ(0, read_file("/sys/kernel/pfm/pmu_desc/model", text, sizeof(text)));
	EXPECT_LT(1, strlen(text));
	if (glob("/sys/kernel/pfm/pmu_desc/pm*", 0, NULL, &dirs))
		SKIP(return, "the processor has no PMU");

	for (i = 0; i < dirs.gl_pathc; i++) {
		const char *dir = dirs.gl_pathv[i];

		if (sscanf(strrchr(dir, '/'), "/pm%c%u", &kind, &num) != 2)
			num = UINT_MAX;
		ASSERT_NE(UINT_MAX, num) {
			TH_LOG("%s", dir);
		}
		snprintf(path, sizeof(path), "%s/name", dir);
		ASSERT_EQ(0, read_file(path, text, sizeof(text)));
		snprintf(want, sizeof(want), "PM%c%u\n", kind == 'c' ? 'C' : 'D', num);
		EXPECT_STREQ(want, text);

		ASSERT_EQ(0, read_number(dir, "width", &width));
		ASSERT_EQ(0, read_number(dir, "dfl_val", &reset));
		ASSERT_EQ(0, read_number(dir, "rsvd_msk", &reserved));
		EXPECT_LE(1, width);
		EXPECT_GE(64, width);
		if (kind == 'c') {
			EXPECT_EQ(64, width);
			EXPECT_EQ(0, reset & ~reserved);
		} else {
			EXPECT_EQ(0, reset | reserved);
		}
	}
	globfree(&dirs);
}

static bool type_is_told(unsigned int type)
{
	bool told = false;
	char text[16];
	glob_t files;
	size_t i;

	if (glob("/sys/bus/event_source/devices/*/type", 0, NULL, &files))
		return false;
	for (i = 0; i < files.gl_pathc; i++) {
		if (!read_file(files.gl_pathv[i], text, sizeof(text)))
			told |= strtoul(text, NULL, 0) == type;
	}
	globfree(&files);
	return told;
}

/* The PMUs of clocks have types of their own, but clocks must be named as software events. */
TEST(pmus_that_nobody_tells_of_are_no_devices)
{
	struct pfarg_ctx ctx = { };
	unsigned int type;
	int fd;

	for (type = PERF_TYPE_MAX; type < 64; type++) {
		ctx.ctx_pmu_type = type;
		fd = pfm_create(&ctx, NULL, NULL, 0);
		if (type_is_told(type)) {
			EXPECT_LE(0, fd);
			close(fd);
		} else {
			EXPECT_EQ(-ENODEV, fd) TH_LOG("type %u", type);
		}
	}
}

TEST(format_must_be_known_and_its_argument_fit)
{
	struct pfm_dfl_smpl_arg arg = { .buf_size = 65536 };
	struct pfarg_ctx ctx = { };
	int fd;

	EXPECT_EQ(-EINVAL, pfm_create(&ctx, "nonesuch", &arg, sizeof(arg)));
	EXPECT_EQ(-EINVAL, pfm_create(&ctx, "default-but-much-too-long-a-name", &arg, sizeof(arg)));
	EXPECT_EQ(-EINVAL, pfm_create(&ctx, FMT, &arg, sizeof(arg) - 1));
	EXPECT_EQ(-EINVAL, pfm_create(&ctx, NULL, &arg, sizeof(arg)));
	EXPECT_EQ(-EFAULT, pfm_create(&ctx, (char *)8, &arg, sizeof(arg)));
	EXPECT_EQ(-EFAULT, pfm_create(&ctx, FMT, (void *)8, sizeof(arg)));
	arg.buf_flags = 1;
	EXPECT_EQ(-EINVAL, pfm_create(&ctx, FMT, &arg, sizeof(arg)));
	arg = (struct pfm_dfl_smpl_arg) { .buf_size = 65536, .reserved1 = 1 };
	EXPECT_EQ(-EINVAL, pfm_create(&ctx, FMT, &arg, sizeof(arg)));
	arg = (struct pfm_dfl_smpl_arg) { .buf_size = 65536, .reserved2[5] = 1 };
	EXPECT_EQ(-EINVAL, pfm_create(&ctx, FMT, &arg, sizeof(arg)));
	arg = (struct pfm_dfl_smpl_arg) { .buf_size = sizeof(struct pfm_dfl_smpl_hdr) };
	EXPECT_EQ(-EINVAL, pfm_create(&ctx, FMT, &arg, sizeof(arg)));
	/*
	 * A buffer that is slightly too small for a sample with all counters is
	 * rejected as well.
	 */
	arg.buf_size += sizeof(struct pfm_dfl_smpl_entry) - 1 + 8 * nr_counters();
	EXPECT_EQ(-EINVAL, pfm_create(&ctx, FMT, &arg, sizeof(arg)));
	arg.buf_size++;
	fd = pfm_create(&ctx, FMT, &arg, sizeof(arg));
	EXPECT_LE(0, fd);
	close(fd);
	arg.buf_size = -1ULL;
	EXPECT_EQ(-ENOMEM, pfm_create(&ctx, FMT, &arg, sizeof(arg)));
	arg.buf_size = 65536;
	fd = pfm_create(&ctx, FMT, &arg, sizeof(arg));
	EXPECT_LE(0, fd);
	close(fd);
}

static int create_beyond_memlock(void)
{
	unsigned long allowed = sysconf(_SC_NPROCESSORS_ONLN), n;
	struct pfm_dfl_smpl_arg arg = { .buf_size = 65536 };
	struct rlimit limit = { 16384, 16384 };
	struct pfarg_ctx ctx = { };
	char text[32];
	long ret = 0;

	if (setrlimit(RLIMIT_MEMLOCK, &limit) ||
	    read_file("/proc/sys/kernel/perf_event_mlock_kb", text, sizeof(text)))
		return 1;
	/* As for a perf buffer, the allowance is added to the limit. */
	allowed *= strtoul(text, NULL, 0) * 1024;
	for (n = 0; ret >= 0 && n < 1000; n++)
		ret = pfm_create(&ctx, FMT, &arg, sizeof(arg));
	if (ret != -ENOMEM)
		return 2;
	return (n - 1) * 65536 <= allowed + limit.rlim_cur ? 0 : 3;
}

TEST(buffer_counts_against_locked_memory)
{
	long before = read_knob("smpl_buffer_mem_cur");

	EXPECT_EQ(0, AS_NOBODY(create_beyond_memlock()));
	EXPECT_EQ(before, read_knob("smpl_buffer_mem_cur"));
}

static void call_all(int fd, long ret[12])
{
	struct pfarg_setinfo info = { };
	struct pfarg_setdesc desc = { };
	struct pfarg_load load = { };
	struct pfarg_pmc pmc = { };
	struct pfarg_pmd pmd = { };

	ret[1] = pfm_write_pmcs(fd, &pmc, 1);
	ret[2] = pfm_write_pmds(fd, &pmd, 1);
	ret[3] = pfm_read_pmds(fd, &pmd, 1);
	ret[4] = pfm_load(fd, &load);
	ret[5] = pfm_start(fd, NULL);
	ret[6] = pfm_stop(fd);
	ret[7] = pfm_restart(fd);
	ret[8] = pfm_create_evtsets(fd, &desc, 1);
	ret[9] = pfm_getinfo_evtsets(fd, &info, 1);
	ret[10] = pfm_delete_evtsets(fd, &desc, 1);
	ret[11] = pfm_unload(fd);
}

TEST(other_descriptors_are_bad)
{
	int pipefd[2], i;
	long ret[12];

	ASSERT_EQ(0, pipe(pipefd));
	call_all(pipefd[0], ret);
	for (i = 1; i < 12; i++)
		EXPECT_EQ(-EBADF, ret[i]) TH_LOG("call %d", i);
	call_all(-1, ret);
	for (i = 1; i < 12; i++)
		EXPECT_EQ(-EBADF, ret[i]) TH_LOG("call %d", i);
}

static long vec_call(int call, int fd, void *vec, int n)
{
	return pfm_ret(syscall(PFM_NR(call), fd, vec, n));
}

/* The calls that take a vector, and the size of its elements */
static const struct { int call; size_t size; } vecs[] = {
	{ 1, sizeof(struct pfarg_pmc) },
	{ 2, sizeof(struct pfarg_pmd) },
	{ 3, sizeof(struct pfarg_pmd) },
	{ 8, sizeof(struct pfarg_setdesc) },
	{ 9, sizeof(struct pfarg_setinfo) },
	{ 10, sizeof(struct pfarg_setdesc) },
};

TEST(count_then_descriptor_then_size_then_memory)
{
	unsigned long max = read_knob("arg_mem_max");
	int fd = pfm_open(0);
	unsigned int i;

	ASSERT_LE(0, fd);
	ASSERT_NE(-1UL, max);
	for (i = 0; i < ARRAY_SIZE(vecs); i++) {
		int call = vecs[i].call, many = max / vecs[i].size + 1;

		EXPECT_EQ(-EINVAL, vec_call(call, -1, NULL, -1));
		EXPECT_EQ(-EINVAL, vec_call(call, -1, NULL, INT_MAX));
		EXPECT_EQ(-EBADF, vec_call(call, -1, NULL, many));
		EXPECT_EQ(-EBADF, vec_call(call, -1, NULL, 0));
		EXPECT_EQ(0, vec_call(call, fd, NULL, 0));
		EXPECT_EQ(-E2BIG, vec_call(call, fd, NULL, many));
		EXPECT_EQ(-EFAULT, vec_call(call, fd, NULL, many - 1));
		EXPECT_EQ(-EFAULT, vec_call(call, fd, NULL, 1));
	}
	EXPECT_EQ(-EFAULT, pfm_load(fd, NULL));
	EXPECT_EQ(-EFAULT, pfm_start(fd, (void *)8));
	EXPECT_EQ(0, close(fd));
}

TEST(bad_memory_comes_before_a_bad_state)
{
	int fd = pfm_open(0);

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, pfm_load_self(fd));
	EXPECT_EQ(-EFAULT, vec_call(8, fd, (void *)8, 1));
	EXPECT_EQ(-EFAULT, pfm_load(fd, (void *)8));
	close(fd);
}

TEST(failed_create_leaves_no_descriptor)
{
	struct pfarg_ctx *ctx;
	unsigned int before;
	char *page;

	page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, page);
	ctx = (void *)page;
	before = open_files();
	EXPECT_EQ(-EFAULT, pfm_create(NULL, NULL, NULL, 0));
	ASSERT_EQ(0, mprotect(page, 4096, PROT_READ));
	EXPECT_EQ(-EFAULT, pfm_create(ctx, NULL, NULL, 0));
	EXPECT_EQ(before, open_files());
}

static void *thread_waits(void *arg)
{
	pthread_mutex_lock(arg);
	return NULL;
}

/* Use two threads, because a process of one thread takes no references to its files. */
TEST(failed_calls_keep_no_reference)
{
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	long before = read_knob("task_sessions_count");
	int fd = pfm_open(0);
	pthread_t thread;

	ASSERT_LE(0, fd);
	pthread_mutex_lock(&mutex);
	ASSERT_EQ(0, pthread_create(&thread, NULL, thread_waits, &mutex));
	ASSERT_EQ(0, pfm_load_self(fd));
	EXPECT_EQ(before + 1, read_knob("task_sessions_count"));
	EXPECT_EQ(-EFAULT, pfm_load(fd, (void *)8));
	EXPECT_EQ(-EFAULT, pfm_start(fd, (void *)8));
	EXPECT_EQ(-EFAULT, vec_call(2, fd, (void *)8, 1));
	EXPECT_EQ(-E2BIG, vec_call(3, fd, NULL, 1000));
	EXPECT_EQ(-EINVAL, pfm_start_set(fd, 7));
	close(fd);
	EXPECT_EQ(before, read_knob("task_sessions_count"));
	pthread_mutex_unlock(&mutex);
	pthread_join(thread, NULL);
}

TEST(calls_on_an_unloaded_context)
{
	int fd = pfm_open(0);

	ASSERT_LE(0, fd);
	EXPECT_EQ(-EINVAL, pfm_start(fd, NULL));
	EXPECT_EQ(-EINVAL, pfm_stop(fd));
	EXPECT_EQ(-EBUSY, pfm_restart(fd));
	EXPECT_EQ(0, pfm_unload(fd));
	close(fd);
}

TEST(calls_on_a_loaded_context)
{
	struct pfarg_setdesc desc = { .set_id = 1 };
	int fd = pfm_open(0);

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, pfm_load_self(fd));
	EXPECT_EQ(-EBUSY, pfm_load_self(fd));
	EXPECT_EQ(-EBUSY, pfm_restart(fd));
	EXPECT_EQ(-EBUSY, pfm_create_evtsets(fd, &desc, 1));
	EXPECT_EQ(-EBUSY, pfm_delete_evtsets(fd, &desc, 1));
	EXPECT_EQ(0, pfm_stop(fd));
	EXPECT_EQ(0, pfm_start(fd, NULL));
	EXPECT_EQ(0, pfm_start(fd, NULL));
	EXPECT_EQ(-EBUSY, pfm_restart(fd));
	EXPECT_EQ(-EINVAL, pfm_start_set(fd, 7));
	EXPECT_EQ(0, pfm_unload(fd));
	EXPECT_EQ(0, pfm_unload(fd));
	close(fd);
}

TEST(reserved_fields_of_load_and_start_are_refused)
{
	struct pfarg_load load = { .load_pid = getpid(), .reserved2[2] = 1 };
	struct pfarg_start start = { .reserved3[1] = 1 };
	int fd = pfm_open(0);

	ASSERT_LE(0, fd);
	EXPECT_EQ(-EINVAL, pfm_load(fd, &load));
	load = (struct pfarg_load) { .load_pid = getpid(), .reserved1 = 1 };
	EXPECT_EQ(-EINVAL, pfm_load(fd, &load));
	ASSERT_EQ(0, pfm_load_self(fd));
	EXPECT_EQ(-EINVAL, pfm_start(fd, &start));
	start = (struct pfarg_start) { .reserved1 = 1 };
	EXPECT_EQ(-EINVAL, pfm_start(fd, &start));
	start = (struct pfarg_start) { .reserved2 = 1 };
	EXPECT_EQ(-EINVAL, pfm_start(fd, &start));
	close(fd);
}

TEST(set_zero_always_exists)
{
	struct pfarg_setdesc desc = { .set_id = 0 };
	int fd = pfm_open(0);

	ASSERT_LE(0, fd);
	EXPECT_EQ(0, pfm_info(fd, 0).set_runs);
	EXPECT_EQ(-EINVAL, pfm_delete_evtsets(fd, &desc, 1));
	desc.set_id = 3;
	EXPECT_EQ(-EINVAL, pfm_delete_evtsets(fd, &desc, 1));
	EXPECT_EQ(0, pfm_make_set(fd, 3, 0, 0, 0));
	EXPECT_EQ(0, pfm_info(fd, 3).set_runs);
	EXPECT_EQ(0, pfm_delete_evtsets(fd, &desc, 1));
	EXPECT_EQ(-1, (long)pfm_info(fd, 3).set_runs);
	close(fd);
}

TEST(getinfo_of_an_absent_set_is_invalid)
{
	struct pfarg_setinfo info = { .set_id = 65535 };
	int fd = pfm_open(0);

	ASSERT_LE(0, fd);
	EXPECT_EQ(-EINVAL, pfm_getinfo_evtsets(fd, &info, 1));
	close(fd);
}

TEST(set_flags_must_make_sense)
{
	const unsigned int both = PFM_SETFL_OVFL_SWITCH | PFM_SETFL_TIME_SWITCH;
	int fd = pfm_open(0);

	ASSERT_LE(0, fd);
	EXPECT_EQ(-EINVAL, pfm_make_set(fd, 1, both, 1000000, 0));
	EXPECT_EQ(-EINVAL, pfm_make_set(fd, 1, PFM_SETFL_TIME_SWITCH, 0, 0));
	EXPECT_EQ(-EINVAL, pfm_make_set(fd, 1, PFM_SETFL_TIME_SWITCH, -1ULL, 0));
	EXPECT_EQ(-EINVAL, pfm_make_set(fd, 1, PFM_SETFL_EXPL_NEXT, 0, 0));
	EXPECT_EQ(-EINVAL, pfm_make_set(fd, 1, PFM_SETFL_OVFL_SWITCH, 0, 2));
	EXPECT_EQ(-EINVAL, pfm_make_set(fd, 1, 8, 0, 0));
	EXPECT_EQ(-EINVAL, pfm_make_set(fd, 1, 0, 1000000, 0));
	EXPECT_EQ(0, pfm_make_set(fd, 1, PFM_SETFL_TIME_SWITCH | PFM_SETFL_EXPL_NEXT, 1000000, 0));
	close(fd);
}

TEST(timeout_is_rounded_and_told)
{
	struct pfarg_setdesc desc = { .set_id = 1, .set_flags = PFM_SETFL_TIME_SWITCH,
				      .set_timeout = 1 };
	int fd = pfm_open(0);

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, pfm_create_evtsets(fd, &desc, 1));
	EXPECT_EQ(read_knob("min_timeout_ns"), (long)desc.set_timeout);
	EXPECT_EQ(desc.set_timeout, pfm_info(fd, 1).set_timeout);
	desc.set_timeout = 123456789;
	ASSERT_EQ(0, pfm_create_evtsets(fd, &desc, 1));
	EXPECT_EQ(123456789, desc.set_timeout);
	close(fd);
}

TEST(sets_have_a_limit)
{
	long i, max = read_knob("sets_max");
	int fd = pfm_open(0);

	ASSERT_LE(0, fd);
	ASSERT_LE(1, max);
	for (i = 1; i <= max; i++)
		ASSERT_EQ(0, pfm_make_set(fd, i * 7, 0, 0, 0));
	EXPECT_EQ(-ENOSPC, pfm_make_set(fd, 5, 0, 0, 0));
	EXPECT_EQ(0, pfm_make_set(fd, 7, 0, 0, 0));
	close(fd);
}

TEST(register_keeps_what_was_written)
{
	struct pfarg_pmd pmd = { .reg_num = SW(PAGE_FAULTS), .reg_value = 0x123456789abcdefULL };
	int fd = pfm_open(0);

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, pfm_write_pmds(fd, &pmd, 1));
	EXPECT_EQ(0x123456789abcdefULL, pfm_value(fd, 0, SW(PAGE_FAULTS)));
	ASSERT_EQ(0, pfm_set_pmd(fd, 0, SW(PAGE_FAULTS), -1ULL));
	EXPECT_EQ(-1ULL, pfm_value(fd, 0, SW(PAGE_FAULTS)));
	close(fd);
}

TEST(sets_have_registers_of_their_own)
{
	int fd = pfm_open(0);

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, pfm_make_set(fd, 1, 0, 0, 0));
	ASSERT_EQ(0, pfm_set_pmd(fd, 0, SW(PAGE_FAULTS), 10));
	ASSERT_EQ(0, pfm_set_pmd(fd, 1, SW(PAGE_FAULTS), 11));
	EXPECT_EQ(10, pfm_value(fd, 0, SW(PAGE_FAULTS)));
	EXPECT_EQ(11, pfm_value(fd, 1, SW(PAGE_FAULTS)));
	close(fd);
}

TEST(unused_register_cannot_be_read)
{
	struct pfarg_pmd pmd = { .reg_num = SW(PAGE_FAULTS) };
	int fd = pfm_open(0);

	ASSERT_LE(0, fd);
	EXPECT_EQ(-EINVAL, pfm_read_pmds(fd, &pmd, 1));
	EXPECT_EQ(PFM_REGFL_RETFL_EINVAL, pmd.reg_flags & PFM_REGFL_RETFL_MASK);
	pmd = (struct pfarg_pmd) { .reg_num = 255 };
	EXPECT_EQ(-EINVAL, pfm_read_pmds(fd, &pmd, 1));
	EXPECT_EQ(PFM_REGFL_RETFL_NOTAVAIL, pmd.reg_flags & PFM_REGFL_RETFL_MASK);
	pmd = (struct pfarg_pmd) { .reg_num = SW(PAGE_FAULTS), .reg_set = 9 };
	EXPECT_EQ(-EINVAL, pfm_read_pmds(fd, &pmd, 1));
	EXPECT_EQ(PFM_REGFL_RETFL_NOSET, pmd.reg_flags & PFM_REGFL_RETFL_MASK);
	close(fd);
}

TEST(register_named_in_a_mask_can_be_read)
{
	struct pfarg_pmd pmd = { .reg_num = SW(PAGE_FAULTS) };
	int fd = pfm_open(0);

	ASSERT_LE(0, fd);
	pmd.reg_smpl_pmds[4] = 1ULL << PERF_COUNT_SW_CPU_MIGRATIONS;
	ASSERT_EQ(0, pfm_write_pmds(fd, &pmd, 1));
	EXPECT_EQ(0, pfm_value(fd, 0, SW(CPU_MIGRATIONS)));
	pmd.reg_reset_pmds[3] = 1;
	EXPECT_EQ(-EINVAL, pfm_write_pmds(fd, &pmd, 1));
	EXPECT_EQ(PFM_REGFL_RETFL_EINVAL, pmd.reg_flags & PFM_REGFL_RETFL_MASK);
	close(fd);
}

TEST(elements_before_the_bad_one_are_applied)
{
	struct pfarg_pmd pmd[4] = {
		{ .reg_num = SW(PAGE_FAULTS), .reg_value = 1 },
		{ .reg_num = SW(CPU_MIGRATIONS), .reg_value = 2 },
		{ .reg_num = SW(MAX), .reg_value = 3 },
		{ .reg_num = SW(CONTEXT_SWITCHES), .reg_value = 4 },
	};
	struct pfarg_pmc pmc[3] = {
		{ .reg_num = SW(PAGE_FAULTS) }, { .reg_num = SW(MAX) },
		{ .reg_num = SW(PAGE_FAULTS), .reg_set = 9 },
	};
	struct pfarg_pmd nowhere = { .reg_num = SW(PAGE_FAULTS), .reg_set = 9 };
	int fd = pfm_open(0);

	ASSERT_LE(0, fd);
	EXPECT_EQ(-EINVAL, pfm_write_pmds(fd, pmd, 4));
	EXPECT_EQ(0, pmd[0].reg_flags);
	EXPECT_EQ(0, pmd[1].reg_flags);
	EXPECT_EQ(PFM_REGFL_RETFL_NOTAVAIL, pmd[2].reg_flags);
	EXPECT_EQ(0, pmd[3].reg_flags);
	EXPECT_EQ(-EINVAL, pfm_write_pmcs(fd, pmc, 3));
	EXPECT_EQ(0, pmc[0].reg_flags);
	EXPECT_EQ(PFM_REGFL_RETFL_NOTAVAIL, pmc[1].reg_flags);
	EXPECT_EQ(-EINVAL, pfm_write_pmcs(fd, &pmc[2], 1));
	EXPECT_EQ(PFM_REGFL_RETFL_NOSET, pmc[2].reg_flags);
	EXPECT_EQ(-EINVAL, pfm_write_pmds(fd, &nowhere, 1));
	EXPECT_EQ(PFM_REGFL_RETFL_NOSET, nowhere.reg_flags);
	EXPECT_EQ(1, pfm_value(fd, 0, SW(PAGE_FAULTS)));
	EXPECT_EQ(2, pfm_value(fd, 0, SW(CPU_MIGRATIONS)));
	EXPECT_EQ(-EINVAL, pfm_read_pmds(fd, &pmd[3], 1));
	close(fd);
}

TEST(flags_of_the_last_call_may_be_passed_in)
{
	struct pfarg_pmd pmd = { .reg_num = SW(PAGE_FAULTS),
				 .reg_flags = PFM_REGFL_RETFL_MASK };
	int fd = pfm_open(0);

	ASSERT_LE(0, fd);
	EXPECT_EQ(0, pfm_write_pmds(fd, &pmd, 1));
	EXPECT_EQ(0, pmd.reg_flags);
	close(fd);
}

TEST(unknown_register_flags_and_reserved_fields_are_refused)
{
	struct pfarg_pmd pmd = { .reg_num = SW(PAGE_FAULTS), .reg_flags = 4 };
	struct pfarg_pmc pmc = { .reg_num = SW(PAGE_FAULTS), .reg_flags = 4 };
	int fd = pfm_open(0);

	ASSERT_LE(0, fd);
	EXPECT_EQ(-EINVAL, pfm_write_pmds(fd, &pmd, 1));
	EXPECT_EQ(-EINVAL, pfm_write_pmcs(fd, &pmc, 1));
	pmd = (struct pfarg_pmd) { .reg_num = SW(PAGE_FAULTS), .reserved[6] = 1 };
	EXPECT_EQ(-EINVAL, pfm_write_pmds(fd, &pmd, 1));
	pmc = (struct pfarg_pmc) { .reg_num = SW(PAGE_FAULTS), .reserved[3] = 1 };
	EXPECT_EQ(-EINVAL, pfm_write_pmcs(fd, &pmc, 1));
	pmc = (struct pfarg_pmc) { .reg_num = SW(PAGE_FAULTS), .reg_value = 1 };
	EXPECT_EQ(-EINVAL, pfm_write_pmcs(fd, &pmc, 1));
	pmc = (struct pfarg_pmc) { .reg_num = SW(PAGE_FAULTS),
				   .reg_flags = PFM_REGFL_EXCL_KERNEL };
	EXPECT_EQ(0, pfm_write_pmcs(fd, &pmc, 1));
	close(fd);
}

TEST(available_registers_are_told)
{
	struct pfarg_setinfo info;
	int fd = pfm_open(0);

	ASSERT_LE(0, fd);
	info = pfm_info(fd, 0);
	EXPECT_EQ((1ULL << PERF_COUNT_SW_MAX) - 1,
		  info.set_avail_pmds[4] | 1ULL << PERF_COUNT_SW_BPF_OUTPUT);
	EXPECT_EQ(0, info.set_avail_pmds[1] | info.set_avail_pmds[2] | info.set_avail_pmds[3]);
	close(fd);
}

TEST(read_of_messages_wants_room_for_one)
{
	union pfarg_msg msg[2];
	int fd = pfm_open(0);

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, fcntl(fd, F_SETFL, O_NONBLOCK));
	EXPECT_EQ(-1, read(fd, msg, sizeof(msg[0]) - 1));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-1, read(fd, msg, sizeof(msg)));
	EXPECT_EQ(EAGAIN, errno);
	EXPECT_EQ(-1, write(fd, msg, sizeof(msg)));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-1, ioctl(fd, 0x1234, 0));
	close(fd);
}

TEST(descriptor_cannot_be_opened_again)
{
	int fd = pfm_open(0);
	char path[64];

	ASSERT_LE(0, fd);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	EXPECT_EQ(-1, open(path, O_RDWR));
	EXPECT_EQ(ENXIO, errno);
	close(fd);
}

TEST(without_a_buffer_there_is_nothing_to_map)
{
	int fd = pfm_open(0);

	ASSERT_LE(0, fd);
	EXPECT_EQ(MAP_FAILED, mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0));
	EXPECT_EQ(EINVAL, errno);
	close(fd);
}

TEST_HARNESS_MAIN
