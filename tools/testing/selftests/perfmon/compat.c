// SPDX-License-Identifier: GPL-2.0
/* perfmon selftests - 32-bit programs on a 64-bit kernel */
#define _GNU_SOURCE
#include "../kselftest_harness.h"
#include "perfmon_helpers.h"

#define CANNOT_RUN	126

FIXTURE(program_32)
{
	char path[4096];
};

FIXTURE_SETUP(program_32)
{
	ssize_t len = readlink("/proc/self/exe", self->path, sizeof(self->path) - 32);

	ASSERT_LT(0, len);
	self->path[len] = '\0';
	strcpy(strrchr(self->path, '/') + 1, "program_32");
	if (access(self->path, X_OK))
		SKIP(return, "the compiler could not build a program of 32 bits");
}

FIXTURE_TEARDOWN(program_32)
{
}

/* Run a case of the program, which prints the reason of a failure. */
static void run(struct __test_metadata *const _metadata, const char *path, const char *name)
{
	int fds[2], status;
	char line[256];
	FILE *words;
	pid_t pid;

	ASSERT_EQ(0, pipe2(fds, O_CLOEXEC));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(fds[1], STDOUT_FILENO);
		execl(path, path, name, NULL);
		_exit(errno == ENOEXEC ? CANNOT_RUN : 1);
	}
	close(fds[1]);
	words = fdopen(fds[0], "r");
	ASSERT_NE(NULL, words);
	while (fgets(line, sizeof(line), words)) {
		line[strcspn(line, "\n")] = '\0';
		TH_LOG("%s", line);
	}
	fclose(words);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_TRUE(WIFEXITED(status));
	if (WEXITSTATUS(status) == CANNOT_RUN)
		SKIP(return, "this kernel runs no programs of 32 bits");
	EXPECT_EQ(0, WEXITSTATUS(status));
}

TEST_F(program_32, counts_exactly)
{
	run(_metadata, self->path, "count");
}

TEST_F(program_32, has_sets_and_long_timeouts)
{
	run(_metadata, self->path, "sets");
}

TEST_F(program_32, reads_messages)
{
	run(_metadata, self->path, "messages");
}

TEST_F(program_32, maps_samples)
{
	run(_metadata, self->path, "samples");
}

TEST_F(program_32, gets_the_same_errors)
{
	run(_metadata, self->path, "errors");
}

TEST_F(program_32, is_refused_what_others_are)
{
	run(_metadata, self->path, "refuse");
}

TEST_F(program_32, monitors_its_child)
{
	run(_metadata, self->path, "attach");
}

/* In a 64-bit program, the entry takes the lower halves. */
struct area32 {
	struct pfarg_ctx ctx;
	struct pfm_dfl_smpl_arg smpl;
	char fmt[8];
	struct pfarg_pmc pmc;
	struct pfarg_pmd pmd;
	struct pfarg_load load;
	struct pfarg_start start;
	struct pfarg_setdesc desc;
	struct pfarg_setinfo info;
};

TEST(calls_work_through_the_32_bit_entry)
{
	struct area32 *area;
	struct pages pages;
	long fd;

	if (!has_call32())
		SKIP(return, "no 32-bit system calls");
	area = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
	ASSERT_NE(MAP_FAILED, area);
	ASSERT_EQ(0, pages_map(&pages, 64));
	strcpy(area->fmt, "default");
	area->smpl.buf_size = 65536;
	fd = call32(0, (long)&area->ctx, (long)area->fmt, (long)&area->smpl,
		    sizeof(area->smpl));
	ASSERT_LE(0, fd);
	EXPECT_EQ(fd, area->ctx.ctx_fd);
	area->desc.set_id = 1;
	EXPECT_EQ(0, call32(8, fd, (long)&area->desc, 1, 0));
	area->pmc.reg_num = SW(PAGE_FAULTS);
	EXPECT_EQ(0, call32(1, fd, (long)&area->pmc, 1, 0));
	area->pmd.reg_num = SW(PAGE_FAULTS);
	area->pmd.reg_set = 1;
	area->pmd.reg_value = 0x100000000ULL;
	EXPECT_EQ(0, call32(2, fd, (long)&area->pmd, 1, 0));
	area->load.load_pid = getpid();
	area->load.load_set = 1;
	EXPECT_EQ(0, call32(4, fd, (long)&area->load, 0, 0));
	area->start.start_set = 1;
	EXPECT_EQ(0, call32(5, fd, (long)&area->start, 0, 0));
	pages_touch(&pages, 17);
	EXPECT_EQ(0, call32(6, fd, 0, 0, 0));
	EXPECT_EQ(0, call32(3, fd, (long)&area->pmd, 1, 0));
	EXPECT_EQ(0x100000000ULL + 17, area->pmd.reg_value);
	EXPECT_EQ(0, call32(7, fd, 0, 0, 0));
	area->info.set_id = 1;
	EXPECT_EQ(0, call32(9, fd, (long)&area->info, 1, 0));
	EXPECT_EQ(1, area->info.set_runs);
	EXPECT_EQ(0, call32(11, fd, 0, 0, 0));
	EXPECT_EQ(0, call32(10, fd, (long)&area->desc, 1, 0));
	/* A negative count is an int, not the low half of a long. */
	EXPECT_EQ(-EINVAL, call32(3, fd, (long)&area->pmd, -1, 0));
	EXPECT_EQ(-EBADF, call32(6, -1, 0, 0, 0));
	close(fd);
}

TEST_HARNESS_MAIN
