// SPDX-License-Identifier: GPL-2.0
/*
 * perfmon selftests - the errors of the manual pages that need some preparation
 *
 * The others are in abi.c and in attach.c. stress.c tests a shortage of memory.
 */
#define _GNU_SOURCE

#include <sys/time.h>

#include "../kselftest_harness.h"
#include "perfmon_helpers.h"

#define FAULTS	SW(PAGE_FAULTS)

/* The value of a file in /proc/sys or /sys, which the test changes */
struct knob {
	const char *path;
	char value[32];
};

FIXTURE(knob)
{
	struct knob knob;
};

FIXTURE_SETUP(knob)
{
}

FIXTURE_TEARDOWN(knob)
{
	if (self->knob.path)
		write_file(self->knob.path, self->knob.value);
}

static int knob_set(struct knob *knob, const char *path, const char *value)
{
	int ret = read_file(path, knob->value, sizeof(knob->value));

	if (ret)
		return ret;
	knob->path = path;
	return write_file(path, value);
}

TEST(create_without_a_free_descriptor)
{
	struct rlimit limit;

	ASSERT_EQ(0, getrlimit(RLIMIT_NOFILE, &limit));
	limit.rlim_cur = 0;
	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &limit));
	EXPECT_EQ(-EMFILE, pfm_open(0));
}

TEST_F(knob, create_beyond_the_files_of_the_system)
{
	pid_t pid;
	int status;

	/* Only a privileged process can restore it, so another process tries the call. */
	ASSERT_EQ(0, knob_set(&self->knob, "/proc/sys/fs/file-max", "0"));
	pid = fork();
	if (!pid) {
		if (setresuid(65534, 65534, 65534))
			_exit(99);
		_exit(-pfm_open(0));
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(ENFILE, WEXITSTATUS(status));
}

static void child_pauses(struct shared *shared)
{
	for (;;)
		pause();
}

TEST_F(knob, system_wide_context_needs_the_group)
{
	ASSERT_EQ(0, knob_set(&self->knob, "/sys/kernel/pfm/sys_group", "12345"));
	EXPECT_EQ(EPERM, AS_NOBODY(-pfm_open(PFM_FL_SYSTEM_WIDE)));
	ASSERT_EQ(0, write_file(self->knob.path, "65534"));
	EXPECT_EQ(EACCES, AS_NOBODY(-pfm_open(PFM_FL_SYSTEM_WIDE)));
	EXPECT_EQ(0, AS_NOBODY(pfm_open(0) < 0));
}

TEST(load_on_a_cpu_needs_permission)
{
	int fd = pfm_open(PFM_FL_SYSTEM_WIDE | PFM_FL_REMOTE);

	ASSERT_LE(0, fd);
	/*
	 * The check is not about the creator only: the descriptor may have been passed
	 * to another process.
	 */
	EXPECT_EQ(EACCES, AS_NOBODY(-pfm_load_tid(fd, 0, 0)));
	EXPECT_EQ(0, pfm_load_tid(fd, 0, 0));
	close(fd);
}

static int new_register_counts_the_kernel(void)
{
	struct pfarg_pmc pmc = { .reg_num = FAULTS, .reg_flags = PFM_REGFL_EXCL_KERNEL };
	struct pfarg_pmd pmd = { .reg_num = SW(CONTEXT_SWITCHES) };
	int fd = pfm_open(0);

	if (fd < 0 || pfm_write_pmcs(fd, &pmc, 1) || pfm_set_pmd(fd, 0, FAULTS, 0))
		return 1;
	if (pfm_load_self(fd))
		return 2;
	if (pfm_write_pmds(fd, &pmd, 1) != -EACCES)
		return 3;
	if (!(pmd.reg_flags & PFM_REGFL_RETFL_EINVAL))
		return 4;
	/* After the rejection it has no effect. */
	if (pfm_set_pmd(fd, 0, FAULTS, 0))
		return 5;
	if (pfm_unload(fd) || pfm_load_self(fd))
		return 6;
	return pfm_start(fd, NULL) ? 7 : 0;
}

TEST(register_written_while_loaded_needs_permission_for_the_kernel)
{
	EXPECT_EQ(0, AS_NOBODY(new_register_counts_the_kernel()));
}

TEST_F(knob, load_of_more_events_than_the_limit)
{
	int fd = pfm_open(0);

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, pfm_set_pmd(fd, 0, FAULTS, 0));
	ASSERT_EQ(0, pfm_make_set(fd, 1, 0, 0, 0));
	ASSERT_EQ(0, pfm_set_pmd(fd, 1, FAULTS, 0));
	ASSERT_EQ(0, knob_set(&self->knob, "/sys/kernel/pfm/ctx_events_max", "1"));
	EXPECT_EQ(-E2BIG, pfm_load_self(fd));
	ASSERT_EQ(0, write_file(self->knob.path, "2"));
	EXPECT_EQ(0, pfm_load_self(fd));
	close(fd);
}

TEST_F(knob, write_of_more_registers_than_the_limit_while_loaded)
{
	struct pfarg_pmd pmd = { .reg_num = SW(CONTEXT_SWITCHES) };
	int fd = pfm_open(0);

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, pfm_set_pmd(fd, 0, FAULTS, 5));
	ASSERT_EQ(0, knob_set(&self->knob, "/sys/kernel/pfm/ctx_events_max", "1"));
	ASSERT_EQ(0, pfm_load_self(fd));
	EXPECT_EQ(-E2BIG, pfm_write_pmds(fd, &pmd, 1));
	EXPECT_EQ(PFM_REGFL_RETFL_EINVAL, pmd.reg_flags);
	/* The other context still counts. */
	EXPECT_EQ(5, pfm_value(fd, 0, FAULTS));
	EXPECT_EQ(0, pfm_start(fd, NULL));
	close(fd);
}

TEST_F(knob, refused_register_leaves_the_set_as_it_was)
{
	struct pfarg_pmd pmd[3] = {
		{ .reg_num = FAULTS, .reg_value = 7 },
		{ .reg_num = SW(CONTEXT_SWITCHES), .reg_value = 8 },
		{ .reg_num = FAULTS, .reg_value = 9 },
	};
	struct pages pages;
	int fd = pfm_open(0);

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, pages_map(&pages, 32));
	ASSERT_EQ(0, pfm_set_pmd(fd, 0, FAULTS, 5));
	ASSERT_EQ(0, knob_set(&self->knob, "/sys/kernel/pfm/ctx_events_max", "1"));
	ASSERT_EQ(0, pfm_load_self(fd));
	EXPECT_EQ(-E2BIG, pfm_write_pmds(fd, pmd, 3));
	EXPECT_EQ(0, pmd[0].reg_flags);
	EXPECT_EQ(PFM_REGFL_RETFL_EINVAL, pmd[1].reg_flags);
	EXPECT_EQ(0, pmd[2].reg_flags);
	/* Elements before it are applied, elements after it are not. */
	EXPECT_EQ(7, pfm_value(fd, 0, FAULTS));
	EXPECT_EQ(0, pfm_set_pmd(fd, 0, FAULTS, 20));
	ASSERT_EQ(0, pfm_start(fd, NULL));
	pages_touch(&pages, 10);
	ASSERT_EQ(0, pfm_stop(fd));
	EXPECT_EQ(30, pfm_value(fd, 0, FAULTS));
	ASSERT_EQ(0, pfm_unload(fd));
	EXPECT_EQ(0, pfm_load_self(fd));
	ASSERT_EQ(0, pfm_unload(fd));
	/* With room for its events, the context can be loaded. */
	ASSERT_EQ(0, write_file(self->knob.path, "2"));
	EXPECT_EQ(0, pfm_load_self(fd));
	EXPECT_EQ(0, pfm_write_pmds(fd, &pmd[1], 1));
	EXPECT_EQ(0, pmd[1].reg_flags);
	close(fd);
}

/* Set a control register of a PMU of perf events. */
static long set_pmc(int fd, int num, __u64 value)
{
	struct pfarg_pmc pmc = { .reg_num = num, .reg_value = value };

	return pfm_write_pmcs(fd, &pmc, 1);
}

TEST_F(knob, event_chosen_beyond_the_limit_while_loaded)
{
	struct pfarg_ctx ctx = { .ctx_pmu_type = PERF_TYPE_SOFTWARE };
	int fd;

	fd = pfm_create(&ctx, NULL, NULL, 0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, pfm_set_pmd(fd, 0, 0, 0));
	ASSERT_EQ(0, pfm_set_pmd(fd, 0, 1, 0));
	ASSERT_EQ(0, set_pmc(fd, 0, PERF_COUNT_SW_PAGE_FAULTS));
	ASSERT_EQ(0, knob_set(&self->knob, "/sys/kernel/pfm/ctx_events_max", "1"));
	ASSERT_EQ(0, pfm_load_self(fd));
	EXPECT_EQ(-E2BIG, set_pmc(fd, 1, PERF_COUNT_SW_PAGE_FAULTS));
	EXPECT_EQ(0, pfm_start(fd, NULL));
	close(fd);
}

TEST(event_that_no_pmu_has)
{
	struct pfarg_ctx ctx = { .ctx_pmu_type = PERF_TYPE_SOFTWARE };
	int fd;

	fd = pfm_create(&ctx, NULL, NULL, 0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, pfm_set_pmd(fd, 0, 0, 0));
	ASSERT_EQ(0, set_pmc(fd, 0, 0xdead));
	EXPECT_EQ(-EINVAL, pfm_load_self(fd));
	ASSERT_EQ(0, set_pmc(fd, 0, PERF_COUNT_SW_PAGE_FAULTS));
	EXPECT_EQ(0, pfm_load_self(fd));
	/* The write fails while loaded as well, and the register keeps its value. */
	EXPECT_EQ(-EINVAL, set_pmc(fd, 0, 0xdead));
	EXPECT_EQ(0, pfm_start(fd, NULL));
	close(fd);
}

TEST(calls_on_a_thread_that_is_not_stopped)
{
	struct shared *shared = shared_map();
	pid_t pid = child_traced(child_pauses, shared);
	struct pfarg_pmc pmc = { .reg_num = FAULTS };
	struct pfarg_setinfo info = { };
	struct pfarg_pmd pmd = { .reg_num = FAULTS };
	int fd = pfm_open(0);

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, pfm_set_pmd(fd, 0, FAULTS, 0));
	ASSERT_EQ(0, pfm_load_tid(fd, pid, 0));
	ASSERT_EQ(0, ptrace(PTRACE_CONT, pid, 0, 0));
	EXPECT_EQ(-ESRCH, pfm_write_pmcs(fd, &pmc, 1));
	EXPECT_EQ(-ESRCH, pfm_write_pmds(fd, &pmd, 1));
	EXPECT_EQ(-ESRCH, pfm_read_pmds(fd, &pmd, 1));
	EXPECT_EQ(-ESRCH, pfm_start(fd, NULL));
	EXPECT_EQ(-ESRCH, pfm_stop(fd));
	EXPECT_EQ(-ESRCH, pfm_unload(fd));
	EXPECT_EQ(-EBUSY, pfm_restart(fd));
	EXPECT_EQ(0, pfm_getinfo_evtsets(fd, &info, 1));
	child_kill(pid);
	close(fd);
}

static int cpu_is(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return sched_setaffinity(0, sizeof(set), &set);
}

TEST(calls_from_another_cpu)
{
	struct pfarg_setinfo info = { };
	struct pfarg_pmc pmc = { .reg_num = FAULTS };
	struct pfarg_pmd pmd = { .reg_num = FAULTS };
	int fd;

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		SKIP(return, "one CPU");
	fd = pfm_open(PFM_FL_SYSTEM_WIDE);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, cpu_is(0));
	ASSERT_EQ(0, pfm_set_pmd(fd, 0, FAULTS, 0));
	ASSERT_EQ(0, pfm_load_tid(fd, 0, 0));
	ASSERT_EQ(0, cpu_is(1));
	EXPECT_EQ(-EBUSY, pfm_write_pmcs(fd, &pmc, 1));
	EXPECT_EQ(-EBUSY, pfm_write_pmds(fd, &pmd, 1));
	EXPECT_EQ(-EBUSY, pfm_read_pmds(fd, &pmd, 1));
	EXPECT_EQ(-EBUSY, pfm_start(fd, NULL));
	EXPECT_EQ(-EBUSY, pfm_stop(fd));
	EXPECT_EQ(-EBUSY, pfm_restart(fd));
	EXPECT_EQ(-EBUSY, pfm_unload(fd));
	EXPECT_EQ(0, pfm_getinfo_evtsets(fd, &info, 1));
	ASSERT_EQ(0, cpu_is(0));
	EXPECT_EQ(0, pfm_unload(fd));
	close(fd);
}

/* Nothing is written back to a vector of which no element has a flag. */
TEST(vector_that_cannot_be_written_back)
{
	struct pfarg_pmd *pmd;
	int fd = pfm_open(0);

	ASSERT_LE(0, fd);
	pmd = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, pmd);
	pmd->reg_num = FAULTS;
	ASSERT_EQ(0, pfm_write_pmds(fd, pmd, 1));
	ASSERT_EQ(0, mprotect(pmd, 4096, PROT_READ));
	EXPECT_EQ(0, pfm_write_pmds(fd, pmd, 1));
	EXPECT_EQ(-EFAULT, pfm_read_pmds(fd, pmd, 1));
	ASSERT_EQ(0, mprotect(pmd, 4096, PROT_READ | PROT_WRITE));
	pmd->reg_flags = PFM_REGFL_RETFL_EINVAL;
	ASSERT_EQ(0, mprotect(pmd, 4096, PROT_READ));
	EXPECT_EQ(-EFAULT, pfm_write_pmds(fd, pmd, 1));
	/* An error is returned if the flag of the element cannot be written. */
	ASSERT_EQ(0, mprotect(pmd, 4096, PROT_READ | PROT_WRITE));
	pmd->reg_flags = 0;
	pmd->reg_set = 7;
	ASSERT_EQ(0, mprotect(pmd, 4096, PROT_READ));
	EXPECT_EQ(-EINVAL, pfm_write_pmds(fd, pmd, 1));
	close(fd);
}

TEST(reserved_fields_of_sets_are_refused)
{
	struct pfarg_setdesc desc = { .set_id = 1 };
	int fd = pfm_open(0);

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, pfm_create_evtsets(fd, &desc, 1));
	desc.reserved[5] = 1;
	EXPECT_EQ(-EINVAL, pfm_create_evtsets(fd, &desc, 1));
	EXPECT_EQ(-EINVAL, pfm_delete_evtsets(fd, &desc, 1));
	desc.reserved[5] = 0;
	EXPECT_EQ(0, pfm_delete_evtsets(fd, &desc, 1));
	close(fd);
}

TEST(sets_before_the_bad_one_are_done)
{
	struct pfarg_setdesc desc[3] = { { .set_id = 1 }, { .set_id = 2, .set_flags = 8 },
					 { .set_id = 3 } };
	struct pfarg_setinfo info[2] = { { .set_id = 0, .set_runs = 7 }, { .set_id = 3 } };
	int fd = pfm_open(0);

	ASSERT_LE(0, fd);
	EXPECT_EQ(-EINVAL, pfm_create_evtsets(fd, desc, 3));
	EXPECT_EQ(0, pfm_info(fd, 1).set_runs);
	EXPECT_EQ(-EINVAL, pfm_getinfo_evtsets(fd, info, 2));
	/* Nothing was written. */
	EXPECT_EQ(7, info[0].set_runs);
	EXPECT_EQ(-EINVAL, pfm_delete_evtsets(fd, desc, 2));
	info[0].set_id = 1;
	EXPECT_EQ(-EINVAL, pfm_getinfo_evtsets(fd, info, 1));
	close(fd);
}

TEST_F(knob, limit_of_sets_can_be_changed)
{
	int fd = pfm_open(0);

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, knob_set(&self->knob, "/sys/kernel/pfm/sets_max", "2"));
	ASSERT_EQ(0, pfm_make_set(fd, 1, 0, 0, 0));
	ASSERT_EQ(0, pfm_make_set(fd, 2, 0, 0, 0));
	EXPECT_EQ(-ENOSPC, pfm_make_set(fd, 3, 0, 0, 0));
	ASSERT_EQ(0, write_file(self->knob.path, "3"));
	EXPECT_EQ(0, pfm_make_set(fd, 3, 0, 0, 0));
	/* Existing sets stay, and can be changed. */
	ASSERT_EQ(0, write_file(self->knob.path, "0"));
	EXPECT_EQ(0, pfm_make_set(fd, 3, 0, 0, 0));
	EXPECT_EQ(-ENOSPC, pfm_make_set(fd, 4, 0, 0, 0));
	EXPECT_EQ(0, pfm_delete_evtsets(fd, &(struct pfarg_setdesc) { .set_id = 3 }, 1));
	EXPECT_EQ(-ENOSPC, pfm_make_set(fd, 3, 0, 0, 0));
	EXPECT_EQ(0, pfm_load_self(fd));
	close(fd);
}

TEST_F(knob, shortest_timeout_has_a_floor)
{
	struct pfarg_setdesc desc = {
		.set_id = 1, .set_flags = PFM_SETFL_TIME_SWITCH, .set_timeout = 1,
	};
	int fd = pfm_open(0);

	ASSERT_LE(0, fd);
	/* Perf limits its timers to 10 us. */
	ASSERT_EQ(0, knob_set(&self->knob, "/sys/kernel/pfm/min_timeout_ns", "10000"));
	EXPECT_EQ(-EINVAL, write_file(self->knob.path, "9999"));
	EXPECT_EQ(-EINVAL, write_file(self->knob.path, "0"));
	EXPECT_EQ(10000, read_knob("min_timeout_ns"));
	ASSERT_EQ(0, pfm_create_evtsets(fd, &desc, 1));
	EXPECT_EQ(10000, desc.set_timeout);
	ASSERT_EQ(0, write_file(self->knob.path, "2000000"));
	desc.set_timeout = 1999999;
	ASSERT_EQ(0, pfm_create_evtsets(fd, &desc, 1));
	EXPECT_EQ(2000000, desc.set_timeout);
	EXPECT_EQ(2000000, pfm_info(fd, 1).set_timeout);
	close(fd);
}

TEST_F(knob, vector_is_limited_whatever_its_length)
{
	struct pfarg_pmd pmd[6] = { };
	struct pfarg_pmc pmc[22] = { };
	int fd = pfm_open(0), i;

	ASSERT_LE(0, fd);
	for (i = 0; i < 6; i++)
		pmd[i].reg_num = FAULTS;
	for (i = 0; i < 22; i++)
		pmc[i].reg_num = FAULTS;
	ASSERT_EQ(0, knob_set(&self->knob, "/sys/kernel/pfm/arg_mem_max", "1024"));
	EXPECT_EQ(-EINVAL, write_file(self->knob.path, "1023"));
	EXPECT_EQ(-EINVAL, write_file(self->knob.path, "65537"));
	EXPECT_EQ(0, pfm_write_pmds(fd, pmd, 5));
	EXPECT_EQ(-E2BIG, pfm_write_pmds(fd, pmd, 6));
	EXPECT_EQ(0, pfm_read_pmds(fd, pmd, 5));
	EXPECT_EQ(-E2BIG, pfm_read_pmds(fd, pmd, 6));
	EXPECT_EQ(0, pfm_write_pmcs(fd, pmc, 21));
	EXPECT_EQ(-E2BIG, pfm_write_pmcs(fd, pmc, 22));
	close(fd);
}

TEST_F(knob, buffers_of_a_user_have_a_limit)
{
	struct pfm_dfl_smpl_arg arg = { .buf_size = 65536 };
	struct pfarg_ctx ctx = { };
	int fd, other;

	ASSERT_EQ(0, knob_set(&self->knob, "/sys/kernel/pfm/smpl_buffer_mem_max", "131072"));
	EXPECT_EQ(-EINVAL, write_file(self->knob.path, "1"));
	fd = pfm_create(&ctx, "default", &arg, sizeof(arg));
	ASSERT_LE(0, fd);
	other = pfm_create(&ctx, "default", &arg, sizeof(arg));
	ASSERT_LE(0, other);
	EXPECT_EQ(-ENOMEM, pfm_create(&ctx, "default", &arg, sizeof(arg)));
	close(other);
	other = pfm_create(&ctx, "default", &arg, sizeof(arg));
	EXPECT_LE(0, other);
	close(other);
	close(fd);
}

TEST(directory_tells_what_there_is)
{
	char text[256];

	ASSERT_EQ(0, read_file("/sys/kernel/pfm/version", text, sizeof(text)));
	EXPECT_TRUE(strchr(text, '.') && strchr(text, '\n'));
	EXPECT_EQ(__NR_pfm_create_context, read_knob("syscall"));
	ASSERT_EQ(0, read_file("/sys/kernel/pfm/pmu_desc/model", text, sizeof(text)));
	EXPECT_LT(1, strlen(text));
	ASSERT_EQ(0, read_file("/sys/kernel/pfm/formats/default/version", text,
			       sizeof(text)));
	EXPECT_TRUE(strchr(text, '.') && strchr(text, '\n'));
}

static void nothing(int signal)
{
}

TEST(errors_of_the_descriptor)
{
	struct sigaction action = { .sa_handler = nothing };
	struct itimerval timer = { .it_value.tv_usec = 10000, .it_interval.tv_usec = 10000 };
	int fd = pfm_open(0);
	union pfarg_msg msg;

	ASSERT_LE(0, fd);
	EXPECT_EQ(-EINVAL, pfm_ret(read(fd, &msg, sizeof(msg) - 1)));
	EXPECT_EQ(-EINVAL, pfm_ret(write(fd, &msg, sizeof(msg))));
	EXPECT_EQ(-ENOTTY, pfm_ret(ioctl(fd, PERF_EVENT_IOC_ENABLE, 0)));
	ASSERT_EQ(0, sigaction(SIGALRM, &action, NULL));
	ASSERT_EQ(0, setitimer(ITIMER_REAL, &timer, NULL));
	EXPECT_EQ(-EINTR, pfm_ret(read(fd, &msg, sizeof(msg))));
	ASSERT_EQ(0, fcntl(fd, F_SETFL, O_NONBLOCK));
	EXPECT_EQ(-EAGAIN, pfm_ret(read(fd, &msg, sizeof(msg))));
	close(fd);
}

TEST(message_that_cannot_be_delivered)
{
	struct pfarg_pmd pmd = {
		.reg_num = FAULTS, .reg_value = -1ULL, .reg_flags = PFM_REGFL_OVFL_NOTIFY,
	};
	/* This is volatile, because the compiler would warn about the address. */
	void *volatile nowhere = (void *)8;
	int fd = pfm_open(0);
	struct pages pages;

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, pages_map(&pages, 2));
	ASSERT_EQ(0, pfm_write_pmds(fd, &pmd, 1));
	ASSERT_EQ(0, pfm_load_self(fd));
	ASSERT_EQ(0, pfm_start(fd, NULL));
	pages_touch(&pages, 1);
	EXPECT_EQ(-EFAULT, pfm_ret(read(fd, nowhere, sizeof(union pfarg_msg))));
	/* The message is still there, once. */
	EXPECT_EQ(PFM_MSG_OVFL, pfm_msg(fd).type);
	EXPECT_EQ(0, pfm_msg(fd).type);
	close(fd);
}

TEST(mapping_errors)
{
	struct pfm_dfl_smpl_arg arg = { .buf_size = 65536 };
	struct pfarg_ctx ctx = { };
	int fd;

	fd = pfm_create(&ctx, "default", &arg, sizeof(arg));
	ASSERT_LE(0, fd);
	EXPECT_EQ(MAP_FAILED, mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
	EXPECT_EQ(EPERM, errno);
	EXPECT_EQ(MAP_FAILED, mmap(NULL, 2 * 65536, PROT_READ, MAP_SHARED, fd, 0));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(MAP_FAILED, mmap(NULL, 65536, PROT_READ, MAP_SHARED, fd, 65536));
	EXPECT_EQ(EINVAL, errno);
	close(fd);
}

TEST_HARNESS_MAIN
