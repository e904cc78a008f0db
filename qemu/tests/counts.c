// SPDX-License-Identifier: GPL-2.0
/*
 * Print what user mode events of an emulated x86 PMU count for work of many
 * kinds, one line each. The text must be the same however the emulator runs.
 */
#define _GNU_SOURCE

#include <sys/personality.h>

#include "kselftest_harness.h"
#include "perf_events/x86_pmu_helpers.h"

#define NR_PAGES	1000

static char *pages;

static void loop_once(void)
{
	work_loop(1);
}

static void loop(void)
{
	work_loop(1000000);
}

static void long_loop(void)
{
	work_loop(1000000000);
}

static void faults(void)
{
	madvise(pages, NR_PAGES * 4096, MADV_DONTNEED);
	touch_pages(pages, NR_PAGES);
}

static void calls(void)
{
	int i;

	for (i = 0; i < 1000; i++)
		syscall(__NR_getppid);
}

static void strings(void)
{
	const char *from = pages;
	char *to = pages + 100 * 4096;
	unsigned long len = 100 * 4096 - 7;

	asm volatile("rep movsb" : "+D" (to), "+S" (from), "+c" (len) : : "memory");
}

static void floating_point(void)
{
	volatile double x = 1;
	int i;

	for (i = 0; i < 10000; i++)
		x = x * 1.0001 + 1 / x;
}

/* The handler steps over an instruction of two bytes. */
static void step_over(int signal, siginfo_t *info, void *context)
{
	((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] += 2;
}

static void invalid_opcodes(void)
{
	int i;

	for (i = 0; i < 100; i++)
		asm volatile("ud2");
}

static void divisions_by_zero(void)
{
	int i;

	for (i = 0; i < 100; i++)
		asm volatile("div %%ecx" : : "a" (1), "d" (0), "c" (0) : "cc");
}

static void children(void)
{
	int i;

	for (i = 0; i < 8; i++) {
		long pid = syscall(__NR_fork);

		if (!pid) {
			work_loop(100000);
			syscall(__NR_exit, 0);
		}
		syscall(__NR_wait4, pid, NULL, 0, NULL);
	}
}

/* A program as it comes, with nothing in its environment. */
static void program(void)
{
	char *argv[] = { "sha256sum", "/bin/busybox", NULL }, *envp[] = { NULL };
	long pid = syscall(__NR_fork);

	if (!pid) {
		personality(ADDR_NO_RANDOMIZE);
		dup2(open("/dev/null", O_WRONLY), 1);
		execve("/bin/busybox", argv, envp);
		syscall(__NR_exit, 1);
	}
	syscall(__NR_wait4, pid, NULL, 0, NULL);
}

static const struct {
	const char *name;
	void (*run)(void);
} work[] = {
	{ "a loop, once", loop_once },
	{ "a loop, 1000000 times", loop },
	{ "a loop, 1000000000 times", long_loop },
	{ "1000 page faults", faults },
	{ "1000 system calls", calls },
	{ "a string instruction that copies 409593 bytes", strings },
	{ "10000 times floating point", floating_point },
	{ "100 invalid opcodes and their signals", invalid_opcodes },
	{ "100 divisions by zero and their signals", divisions_by_zero },
	{ "8 children", children },
	{ "busybox sha256sum /bin/busybox", program },
};

static int open_inherited(struct perf_event_attr attr)
{
	attr.inherit = 1;
	return pmu_open(&attr, -1);
}

static void print_counts(void)
{
	int instructions = open_inherited(instructions_attr());
	int cycles = open_inherited(pmu_attr(PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES));
	unsigned int i;

	if (instructions < 0 || cycles < 0)
		exit(1);
	for (i = 0; i < sizeof(work) / sizeof(work[0]); i++) {
		__u64 before[2] = { pmu_read(instructions), pmu_read(cycles) };

		pmu_enable(instructions);
		pmu_enable(cycles);
		work[i].run();
		pmu_disable(cycles);
		pmu_disable(instructions);
		printf("%-46s %11llu instructions %11llu cycles\n", work[i].name,
		       pmu_read(instructions) - before[0], pmu_read(cycles) - before[1]);
	}
	close(cycles);
	close(instructions);
}

static void print_page(void)
{
	struct perf_event_attr attr = instructions_attr();
	int fd = pmu_open(&attr, -1);
	struct perf_event_mmap_page *page = page_map(fd, 0);
	__u64 first, second;
	__u32 counter;

	pmu_enable(fd);
	do {
		nr_page_retries = 0;
		first = page_read(page);
		second = page_read(page);
	} while (nr_page_retries);
	printf("%-46s %11llu instructions\n", "from page to page", second - first);
	counter = page->index - 1;
	first = rdpmc(counter);
	asm volatile(".rept 100\nnop\n.endr");
	printf("%-46s %11llu instructions\n", "RDPMC, 100 NOPs, RDPMC", rdpmc(counter) - first);
	close(fd);
}

/* A sample may hit anywhere in a block of instructions, but the number is exact. */
static void print_samples(__u64 period)
{
	struct perf_event_attr attr = instructions_attr();
	struct perf_event_mmap_page *page;
	int fd;

	attr.sample_period = period;
	attr.sample_type = PERF_SAMPLE_IP;
	fd = pmu_open(&attr, -1);
	page = page_map(fd, 64);
	pmu_enable(fd);
	work_loop(10000000);
	pmu_disable(fd);
	printf("%-46s %11llu samples\n", "20000000 instructions, sampled",
	       page->data_head / (sizeof(struct perf_event_header) + sizeof(__u64)));
	close(fd);
}

int main(void)
{
	struct sigaction action = { .sa_sigaction = step_over, .sa_flags = SA_SIGINFO };

	pages = mmap(NULL, NR_PAGES * 4096, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (pages == MAP_FAILED || mlockall(MCL_CURRENT) || munlock(pages, NR_PAGES * 4096))
		return 1;
	madvise(pages, NR_PAGES * 4096, MADV_NOHUGEPAGE);
	sigaction(SIGILL, &action, NULL);
	sigaction(SIGFPE, &action, NULL);
	/* An event that is throttled loses samples, and on a slow host each would be. */
	write_file("/proc/sys/kernel/perf_cpu_time_max_percent", "25");
	write_file("/proc/sys/kernel/perf_event_max_sample_rate", "1000000");
	write_file("/proc/sys/kernel/perf_cpu_time_max_percent", "0");
	print_counts();
	print_page();
	print_samples(100000);
	print_samples(9973);
	return 0;
}
