// SPDX-License-Identifier: GPL-2.0
/* perfmon selftests - effects on other users, and permissions at each call */
#define _GNU_SOURCE

#include <linux/userfaultfd.h>
#include <sys/socket.h>

#include "../kselftest_harness.h"
#include "perfmon_helpers.h"

#define FAULTS		SW(PAGE_FAULTS)
#define PARANOID	"/proc/sys/kernel/perf_event_paranoid"
#define TRACING		"/sys/kernel/tracing/"

/* Become an unprivileged user, with the credentials of a program that this user starts. */
static int be_nobody(void)
{
	return setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534) ||
	       prctl(PR_SET_DUMPABLE, 1);
}

/* Get the state of a thread as in /proc/PID/stat: R, S, D, Z ..., or 0 if it is gone. */
static char state_of(int tid)
{
	char path[64], text[512], *end;

	snprintf(path, sizeof(path), "/proc/%d/stat", tid);
	if (read_file(path, text, sizeof(text)))
		return 0;
	end = strrchr(text, ')');
	return end ? end[2] : 0;
}

static bool wait_state(int tid, char state)
{
	int i;

	for (i = 0; i < 1000 && state_of(tid) != state; i++)
		usleep(10000);
	return state_of(tid) == state;
}

static bool wait_flag(volatile int *flag)
{
	int i;

	for (i = 0; i < 1000 && !*flag; i++)
		usleep(10000);
	return *flag;
}

/* Wait up to @ms milliseconds for the end of the child. Returns whether it has ended. */
static bool child_ends(pid_t pid, int ms, int *status)
{
	for (; ms > 0; ms -= 10) {
		if (waitpid(pid, status, WNOHANG) == pid)
			return true;
		usleep(10000);
	}
	return false;
}

/*
 * An unprivileged program that holds the lock of a context for any time: its first
 * thread reads a perf event of its own into a page that userfaultfd(2) withholds, which
 * holds the lock of the thread's events; its second thread unloads the context from the
 * first, which waits for that lock with the context locked. Its third thread tries to
 * load the context on a given thread.
 */
struct holder {
	int fd;
	volatile int error;
	volatile int reader;
	volatile int reads;
	volatile int unloader;
	volatile int ready;
	volatile int target;
	volatile int loader;
	volatile int loaded;
	volatile int ret;
	void *page;
	int perf;
};

static struct holder *holder;

static int missing_page(void **page)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register reg = { .mode = UFFDIO_REGISTER_MODE_MISSING };
	size_t size = sysconf(_SC_PAGESIZE);
	int uffd;

	uffd = syscall(__NR_userfaultfd, O_CLOEXEC);
	if (uffd < 0)
		return -1;
	*page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	reg.range.start = (unsigned long)*page;
	reg.range.len = size;
	if (*page == MAP_FAILED || ioctl(uffd, UFFDIO_API, &api) ||
	    ioctl(uffd, UFFDIO_REGISTER, &reg))
		return -1;
	return uffd;
}

static void *thread_reads(void *arg)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE, .size = sizeof(attr),
		.config = PERF_COUNT_SW_PAGE_FAULTS, .exclude_kernel = 1,
	};

	holder->perf = syscall(__NR_perf_event_open, &attr, 0, -1, -1, 0);
	if (holder->perf < 0 || pfm_load_self(holder->fd)) {
		holder->error = 1;
		return NULL;
	}
	holder->reader = syscall(__NR_gettid);
	if (read(holder->perf, holder->page, 8) != 8)
		holder->error = 2;
	return NULL;
}

static void *thread_unloads(void *arg)
{
	holder->unloader = syscall(__NR_gettid);
	pfm_unload(holder->fd);
	return NULL;
}

static void *thread_loads(void *arg)
{
	if (!wait_flag(&holder->target))
		return NULL;
	holder->loader = syscall(__NR_gettid);
	holder->ret = pfm_load_tid(holder->fd, holder->target, 0);
	holder->loaded = 1;
	return NULL;
}

static void child_holds(void)
{
	pthread_t reads, unloads, loads;
	struct uffd_msg msg;
	int uffd;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	uffd = missing_page(&holder->page);
	if (uffd < 0) {
		holder->error = 3;
		return;
	}
	if (be_nobody() || pthread_create(&reads, NULL, thread_reads, NULL) ||
	    read(uffd, &msg, sizeof(msg)) != sizeof(msg) ||
	    msg.event != UFFD_EVENT_PAGEFAULT ||
	    pthread_create(&unloads, NULL, thread_unloads, NULL) ||
	    !wait_flag(&holder->unloader) || !wait_state(holder->unloader, 'D') ||
	    pthread_create(&loads, NULL, thread_loads, NULL)) {
		holder->error = 4;
		return;
	}
	holder->ready = 1;
	for (;;)
		pause();
}

FIXTURE(held)
{
	pid_t pid;
	int fd;
};

FIXTURE_SETUP(held)
{
	holder = mmap(NULL, sizeof(*holder), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, holder);
	holder->fd = pfm_open(PFM_FL_REMOTE);
	self->fd = holder->fd;
	ASSERT_LE(0, self->fd);
	self->pid = fork();
	if (!self->pid) {
		child_holds();
		_exit(0);
	}
	while (!holder->ready && !holder->error)
		usleep(1000);
	if (holder->error == 3)
		SKIP(return, "needs USERFAULTFD");
	ASSERT_EQ(0, holder->error);
}

FIXTURE_TEARDOWN(held)
{
	child_kill(self->pid);
	close(self->fd);
}

TEST_F(held, exec_of_another_users_process_does_not_wait)
{
	int start[2], status, i;
	pid_t pid;
	char c;

	ASSERT_EQ(0, pipe(start));
	pid = fork();
	if (!pid) {
		if (read(start[0], &c, 1) != 1)
			_exit(98);
		execl("/bin/true", "true", NULL);
		_exit(99);
	}
	holder->target = pid;
	/* The third thread got an error, or waits for the context. */
	for (i = 0; i < 300 && !holder->loaded; i++) {
		usleep(10000);
		if (i > 50 && holder->loader && state_of(holder->loader) == 'D')
			break;
	}
	ASSERT_EQ(1, write(start[1], "", 1));
	EXPECT_TRUE(child_ends(pid, 5000, &status)) {
		TH_LOG("execve() waits for a program of nobody");
		child_kill(self->pid);
		waitpid(pid, &status, 0);
	}
	EXPECT_EQ(1, holder->loaded);
	EXPECT_EQ(-EPERM, holder->ret);
}

static long call_number(int fd, int call)
{
	struct pfarg_setinfo info = { };
	struct pfarg_setdesc desc = { };
	struct pfarg_pmc pmc = { .reg_num = FAULTS };
	struct pfarg_pmd pmd = { .reg_num = FAULTS };

	switch (call) {
	case 1:		return pfm_write_pmcs(fd, &pmc, 1);
	case 2:		return pfm_write_pmds(fd, &pmd, 1);
	case 3:		return pfm_read_pmds(fd, &pmd, 1);
	case 4:		return pfm_load_self(fd);
	case 5:		return pfm_start(fd, NULL);
	case 6:		return pfm_stop(fd);
	case 7:		return pfm_restart(fd);
	case 8:		return pfm_create_evtsets(fd, &desc, 1);
	case 9:		return pfm_getinfo_evtsets(fd, &info, 1);
	case 10:	return pfm_delete_evtsets(fd, &desc, 1);
	default:	return pfm_unload(fd);
	}
}

TEST_F(held, call_that_waits_for_the_context_can_be_killed)
{
	int call, status;
	pid_t pid[12];

	for (call = 1; call < 12; call++) {
		pid[call] = fork();
		if (!pid[call]) {
			call_number(self->fd, call);
			_exit(0);
		}
	}
	for (call = 1; call < 12; call++) {
		EXPECT_TRUE(wait_state(pid[call], 'D')) TH_LOG("call %d does not wait", call);
		kill(pid[call], SIGKILL);
	}
	for (call = 1; call < 12; call++) {
		if (child_ends(pid[call], 2000, &status)) {
			EXPECT_TRUE(WIFSIGNALED(status)) TH_LOG("call %d", call);
			continue;
		}
		EXPECT_TRUE(false) TH_LOG("call %d cannot be killed", call);
		child_kill(self->pid);
		waitpid(pid[call], &status, 0);
	}
}

/* A sysctl that a test changes */
FIXTURE(paranoid)
{
	char level[16];
};

FIXTURE_SETUP(paranoid)
{
	ASSERT_EQ(0, read_file(PARANOID, self->level, sizeof(self->level)));
}

FIXTURE_TEARDOWN(paranoid)
{
	write_file(PARANOID, self->level);
}

/* Get the error of perf_event_open(2), or 0. */
static int perf_error(int cpu, bool kernel)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE, .size = sizeof(attr),
		.config = PERF_COUNT_SW_PAGE_FAULTS, .exclude_kernel = !kernel,
	};
	int fd = syscall(__NR_perf_event_open, &attr, cpu < 0 ? 0 : -1, cpu, -1, 0);

	if (fd < 0)
		return errno;
	close(fd);
	return 0;
}

/* Get the error of perfmon's calls for the same event. */
static int pfm_error(int cpu, bool kernel)
{
	struct pfarg_pmc pmc = {
		.reg_num = FAULTS, .reg_flags = kernel ? 0 : PFM_REGFL_EXCL_KERNEL,
	};
	int fd = pfm_open(cpu < 0 ? 0 : PFM_FL_SYSTEM_WIDE | PFM_FL_REMOTE);
	long ret;

	if (fd < 0)
		return -fd;
	ret = pfm_write_pmcs(fd, &pmc, 1) ?: pfm_set_pmd(fd, 0, FAULTS, 0) ?:
	      (cpu < 0 ? pfm_load_self(fd) : pfm_load_tid(fd, cpu, 0));
	close(fd);
	return -ret;
}

TEST_F(paranoid, level_binds_as_it_binds_perf_event_open)
{
	static const char * const levels[] = { "-1", "0", "1", "2", "3" };
	unsigned int i, cpu, kernel;

	for (i = 0; i < ARRAY_SIZE(levels); i++) {
		ASSERT_EQ(0, write_file(PARANOID, levels[i]));
		for (cpu = 0; cpu < 2; cpu++) {
			for (kernel = 0; kernel < 2; kernel++) {
				int perf = AS_NOBODY(perf_error((int)cpu - 1, kernel));
				int pfm = AS_NOBODY(pfm_error((int)cpu - 1, kernel));

				EXPECT_EQ(perf, pfm)
					TH_LOG("level %s, %s, %s", levels[i], cpu ? "CPU" : "self",
					       kernel ? "with the kernel" : "without the kernel");
			}
		}
		EXPECT_EQ(0, pfm_error(-1, true));
		EXPECT_EQ(0, pfm_error(0, true));
	}
}

/* The parent raises the level at the request of the child. */
static int raised_level(int sock)
{
	struct pfarg_pmc pmc[2] = {
		{ .reg_num = FAULTS, .reg_flags = PFM_REGFL_EXCL_KERNEL },
		{ .reg_num = SW(PAGE_FAULTS_MIN), .reg_flags = PFM_REGFL_EXCL_KERNEL },
	};
	int loaded = pfm_open(0), unloaded = pfm_open(0);
	char c;

	if (loaded < 0 || unloaded < 0 || pfm_write_pmcs(loaded, pmc, 2))
		return 1;
	if (pfm_set_pmd(loaded, 0, FAULTS, 0) || pfm_load_self(loaded))
		return 2;
	if (write(sock, "", 1) != 1 || read(sock, &c, 1) != 1)
		return 3;
	if (pfm_load_self(unloaded) != -EACCES)
		return 4;
	if (pfm_set_pmd(loaded, 0, SW(PAGE_FAULTS_MIN), 0) != -EACCES)
		return 5;
	pmc[0].reg_flags |= PFM_REGFL_EXCL_HV;
	if (pfm_write_pmcs(loaded, pmc, 1) != -EACCES)
		return 6;
	/* Existing events continue, like those of perf_event_open(2). */
	if (pfm_start(loaded, NULL) || pfm_stop(loaded) || pfm_value(loaded, 0, FAULTS) >> 32)
		return 7;
	return pfm_unload(loaded) || pfm_load_self(loaded) != -EACCES ? 8 : 0;
}

TEST_F(paranoid, raised_level_binds_contexts_that_exist)
{
	int sock[2], status = -1;
	pid_t pid;
	char c;

	ASSERT_EQ(0, write_file(PARANOID, "2"));
	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, sock));
	pid = fork();
	if (!pid) {
		close(sock[0]);
		_exit(be_nobody() ? 99 : raised_level(sock[1]));
	}
	close(sock[1]);
	EXPECT_EQ(1, read(sock[0], &c, 1));
	ASSERT_EQ(0, write_file(PARANOID, "3"));
	EXPECT_EQ(1, write(sock[0], "", 1));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, WEXITSTATUS(status));
}

/* A privileged caller has loaded the context, and an unprivileged one goes on with it. */
static int sampler_of_the_kernel(void)
{
	struct pfarg_pmc pmc = { .reg_num = FAULTS };
	struct pfarg_pmd pmd = { .reg_num = FAULTS, .reg_flags = PFM_REGFL_OVFL_NOTIFY };
	int fd = pfm_open(0);

	if (fd < 0 || pfm_write_pmcs(fd, &pmc, 1) || pfm_set_pmd(fd, 0, FAULTS, 0) ||
	    pfm_load_self(fd))
		return 1;
	if (be_nobody())
		return 99;
	if (pfm_set_pmd(fd, 0, FAULTS, 0))
		return 2;
	pmd.reg_value = -100ULL;
	pmd.reg_short_reset = -100ULL;
	pmd.reg_long_reset = -100ULL;
	if (pfm_write_pmds(fd, &pmd, 1) != -EACCES)
		return 3;
	/* A period that nothing reports is the first step to one that something reports. */
	pmd.reg_flags = 0;
	if (pfm_write_pmds(fd, &pmd, 1) != -EACCES)
		return 4;
	return pfm_value(fd, 0, FAULTS) >> 32 ? 5 : 0;
}

TEST_F(paranoid, register_that_counts_the_kernel_is_sampled_by_permission_alone)
{
	int status = -1;
	pid_t pid;

	ASSERT_EQ(0, write_file(PARANOID, "2"));
	pid = fork();
	if (!pid)
		_exit(sampler_of_the_kernel());
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, WEXITSTATUS(status));
}

static void child_hides(struct shared *shared)
{
	shared->tid = syscall(__NR_gettid);
	while (!shared->go)
		usleep(1000);
	prctl(PR_SET_DUMPABLE, 0);
	shared->done = 1;
	for (;;)
		pause();
}

static int target_hides(void)
{
	struct pfarg_pmc pmc[2] = {
		{ .reg_num = FAULTS, .reg_flags = PFM_REGFL_EXCL_KERNEL },
		{ .reg_num = SW(CPU_CLOCK), .reg_flags = PFM_REGFL_EXCL_KERNEL },
	};
	struct pfarg_pmd sampling = {
		.reg_num = SW(CPU_CLOCK), .reg_flags = PFM_REGFL_OVFL_NOTIFY,
		.reg_value = -1000000ULL,
	};
	struct shared *shared = shared_map();
	int fd = pfm_open(PFM_FL_REMOTE), ret = 0;
	pid_t pid;

	if (fd < 0 || pfm_write_pmcs(fd, pmc, 2) || pfm_set_pmd(fd, 0, FAULTS, 0))
		return 1;
	pid = child_run(child_hides, shared);
	while (!shared->tid)
		usleep(1000);
	if (pfm_load_tid(fd, pid, 0) || pfm_start(fd, NULL))
		ret = 2;
	shared->go = 1;
	while (!shared->done)
		usleep(1000);
	/* No new event can be opened, for a new register or for a register with another event. */
	if (!ret && pfm_write_pmds(fd, &sampling, 1) != -EPERM)
		ret = 3;
	pmc[0].reg_flags |= PFM_REGFL_EXCL_HV;
	if (!ret && pfm_write_pmcs(fd, pmc, 1) != -EPERM)
		ret = 4;
	/* A register that has only counted does not become one that samples addresses. */
	sampling.reg_num = FAULTS;
	if (!ret && pfm_write_pmds(fd, &sampling, 1) != -EPERM)
		ret = 7;
	if (!ret && pfm_set_pmd(fd, 0, FAULTS, 0))
		ret = 8;
	/* Existing events continue. */
	if (!ret && (pfm_value(fd, 0, FAULTS) >> 32 || pfm_stop(fd)))
		ret = 5;
	if (!ret && (pfm_unload(fd) || pfm_load_tid(fd, pid, 0) != -EPERM))
		ret = 6;
	child_kill(pid);
	return ret;
}

TEST(target_that_has_become_undumpable_gets_no_new_events)
{
	EXPECT_EQ(0, AS_NOBODY(target_hides()));
}

/* Open an event that counts the calls of a kernel function by this thread, or -1. */
static int probe_open(const char *name)
{
	struct perf_event_attr attr = { .type = PERF_TYPE_TRACEPOINT, .size = sizeof(attr) };
	char text[256];

	snprintf(text, sizeof(text), "p:pfmtest/%s %s\n", name, name);
	if (write_file(TRACING "kprobe_events", text))
		return -1;
	snprintf(text, sizeof(text), TRACING "events/pfmtest/%s/id", name);
	if (read_file(text, text, sizeof(text)))
		return -1;
	attr.config = strtoul(text, NULL, 0);
	return syscall(__NR_perf_event_open, &attr, 0, -1, -1, 0);
}

/* Count the calls of the hooks for security modules. */
FIXTURE(hooks)
{
	int read;
	int write;
	int fd;
};

FIXTURE_SETUP(hooks)
{
	struct pfm_dfl_smpl_arg arg = { .buf_size = 65536 };
	struct pfarg_ctx ctx = { };

	self->read = probe_open("security_perf_event_read");
	self->write = probe_open("security_perf_event_write");
	if (self->read < 0 || self->write < 0)
		SKIP(return, "needs SECURITY and KPROBE_EVENTS");
	self->fd = pfm_create(&ctx, "default", &arg, sizeof(arg));
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, pfm_set_pmd(self->fd, 0, FAULTS, 0));
}

FIXTURE_TEARDOWN(hooks)
{
	close(self->fd);
	close(self->read);
	close(self->write);
	write_file(TRACING "kprobe_events", "-:pfmtest/security_perf_event_read\n");
	write_file(TRACING "kprobe_events", "-:pfmtest/security_perf_event_write\n");
}

/* Reading the counters calls the hooks as well, so subtract that. */
static void asked(int read, int write, __u64 count[2])
{
	count[1] = perf_count(write);
	count[0] = perf_count(read);
}

TEST_F(hooks, security_modules_are_asked_by_each_call)
{
	static const bool reads[12] = { [3] = true, [9] = true };
	__u64 before[2], after[2], own;
	void *map;
	int call;

	asked(self->read, self->write, before);
	asked(self->read, self->write, after);
	own = after[0] - before[0];
	for (call = 1; call < 12; call++) {
		asked(self->read, self->write, before);
		call_number(self->fd, call);
		asked(self->read, self->write, after);
		EXPECT_EQ(own + reads[call], after[0] - before[0]) TH_LOG("call %d", call);
		EXPECT_EQ(!reads[call], after[1] - before[1]) TH_LOG("call %d", call);
	}

	asked(self->read, self->write, before);
	pfm_msg_now(self->fd);
	map = mmap(NULL, 65536, PROT_READ, MAP_SHARED, self->fd, 0);
	asked(self->read, self->write, after);
	EXPECT_NE(MAP_FAILED, map);
	EXPECT_EQ(own + 2, after[0] - before[0]);
}

TEST_HARNESS_MAIN
