/* SPDX-License-Identifier: GPL-2.0 */
/*
 * perf selftests on an emulated x86 PMU - events, work of known length
 *
 * The emulator that has a PMU says so with QEMU_PMU=1 in the environment, and
 * with QEMU_PMU_CPI and QEMU_PMU_REF_CPI how many core and reference cycles an
 * instruction takes, and with QEMU_PMU_PMI_DELAY how many instructions an interrupt
 * comes after its overflow. Its counts are exact, and so are these tests. On hardware,
 * where an interrupt may count as an instruction, they skip.
 */
#ifndef _X86_PMU_HELPERS_H
#define _X86_PMU_HELPERS_H

#include <cpuid.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* Event code of retired instructions, which is the same on Intel and AMD. */
#define RAW_INSTRUCTIONS	0xc0

static inline struct perf_event_attr pmu_attr(__u32 type, __u64 config)
{
	return (struct perf_event_attr) {
		.type		= type,
		.size		= sizeof(struct perf_event_attr),
		.config		= config,
		.disabled	= 1,
		.exclude_kernel	= 1,
	};
}

static inline struct perf_event_attr instructions_attr(void)
{
	return pmu_attr(PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS);
}

static inline int pmu_open(struct perf_event_attr *attr, int leader)
{
	return syscall(__NR_perf_event_open, attr, 0, -1, leader, PERF_FLAG_FD_CLOEXEC);
}

static inline long pmu_number(const char *name)
{
	const char *value = getenv(name);

	return value ? atol(value) : 0;
}

/* Instructions between an overflow and its interrupt */
static inline long pmi_delay(void)
{
	return pmu_number("QEMU_PMU_PMI_DELAY");
}

/* A read that fails shows as all ones, which no test takes for an answer. */
static inline __u64 pmu_read(int fd)
{
	__u64 value;

	return read(fd, &value, sizeof(value)) == sizeof(value) ? value : ~0ULL;
}

static inline int pmu_enable(int fd)
{
	return ioctl(fd, PERF_EVENT_IOC_ENABLE, 0);
}

static inline int pmu_disable(int fd)
{
	return ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
}

/* work_loop() executes two instructions per loop, and one for its return. */
void work_loop(__u64 times);
extern char work_loop_end[];
asm(".pushsection .text\n"
	".balign 16\n"
	".type work_loop, @function\n"
	"work_loop:\n"
	"1:	dec %rdi\n"
	"	jnz 1b\n"
	"	ret\n"
	"work_loop_end:\n"
	".size work_loop, . - work_loop\n"
	".popsection");

static inline bool in_work_loop(__u64 ip)
{
	return ip >= (unsigned long)work_loop && ip < (unsigned long)work_loop_end;
}

/* One store to each page, six instructions per page. */
static inline void touch_pages(char *mem, unsigned long nr)
{
	asm volatile("1:	movb $1, (%0)\n"
		     "	nop\n"
		     "	nop\n"
		     "	add $4096, %0\n"
		     "	dec %1\n"
		     "	jnz 1b"
		     : "+r" (mem), "+r" (nr) : : "memory", "cc");
}

static inline __u64 rdpmc(__u32 counter)
{
	__u32 low, high;

	asm volatile("rdpmc" : "=a" (low), "=d" (high) : "c" (counter) : "memory");
	return low | (__u64)high << 32;
}

/* Number of kernel updates that page_read() met. */
static unsigned long nr_page_retries;

/* Read the page as perf_event_mmap_page documents, without the time. */
static inline __u64 page_read(const struct perf_event_mmap_page *page)
{
	__u32 seq, index;
	__u64 count;

	for (;;) {
		seq = __atomic_load_n(&page->lock, __ATOMIC_RELAXED);
		asm volatile("" : : : "memory");
		index = page->index;
		count = page->offset;
		if (page->cap_user_rdpmc && index) {
			__u64 pmc = rdpmc(index - 1) << (64 - page->pmc_width);

			count += (__s64)pmc >> (64 - page->pmc_width);
		}
		asm volatile("" : : : "memory");
		if (__atomic_load_n(&page->lock, __ATOMIC_RELAXED) == seq)
			return count;
		nr_page_retries++;
	}
}

/* Value of @gain if no task switch in the middle of page_read() makes it longer. */
static inline __u64 undisturbed(__u64 (*gain)(int, const struct perf_event_mmap_page *),
				int fd, const struct perf_event_mmap_page *page)
{
	unsigned long retries;
	__u64 value;

	do {
		retries = nr_page_retries;
		value = gain(fd, page);
	} while (nr_page_retries != retries);
	return value;
}

static inline struct perf_event_mmap_page *page_map(int fd, unsigned int nr_data)
{
	size_t page_size = sysconf(_SC_PAGESIZE);

	return mmap(NULL, (1 + nr_data) * page_size, PROT_READ | (nr_data ? PROT_WRITE : 0),
		    MAP_SHARED, fd, 0);
}

/* Write @text to a file; false if there is no such file or the write fails. */
static inline bool write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	ssize_t len = strlen(text);
	bool done;

	if (fd < 0)
		return false;
	done = write(fd, text, len) == len;
	close(fd);
	return done;
}

/* Read a number from a file; -1 without such a file. */
static inline long number_in(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	char text[32] = "";
	ssize_t len;

	if (fd < 0)
		return -1;
	len = read(fd, text, sizeof(text) - 1);
	close(fd);
	return len > 0 ? atol(text) : -1;
}

static inline bool is_intel(void)
{
	unsigned int eax, ebx, ecx, edx;

	return __get_cpuid(0, &eax, &ebx, &ecx, &edx) && ebx == signature_INTEL_ebx;
}

/* Number of counters of AMD's performance monitoring version 2, 0 on other processors */
static inline int nr_amd_v2_counters(void)
{
	unsigned int eax, ebx, ecx, edx;

	if (is_intel() || !__get_cpuid(0x80000022, &eax, &ebx, &ecx, &edx) || !(eax & 1))
		return 0;
	return ebx & 0xf;
}

/* Other PMUs than these start and stop each counter separately. */
static inline bool counters_have_one_switch(void)
{
	return is_intel() || nr_amd_v2_counters();
}

#define NMI_WATCHDOG	"/proc/sys/kernel/nmi_watchdog"

/* Number of counters for any event */
static inline int nr_general_counters(void)
{
	unsigned int eax, ebx, ecx, edx;

	if (is_intel())
		return __get_cpuid(0xa, &eax, &ebx, &ecx, &edx) ? eax >> 8 & 0xff : 0;
	if (nr_amd_v2_counters())
		return nr_amd_v2_counters();
	/* Processors since family 15h have six. */
	return __get_cpuid(0x80000001, &eax, &ebx, &ecx, &edx) && ecx & 1 << 23 ? 6 : 4;
}

/*
 * Number of events that can count instructions at the same time. Intel has a fixed
 * counter for them beside those for any event. The NMI watchdog counts cycles, for which
 * Intel has another fixed counter; on AMD it takes one of those.
 */
static inline int nr_instruction_counters(void)
{
	return nr_general_counters() + (is_intel() ? 1 : -(number_in(NMI_WATCHDOG) == 1));
}

/*
 * Returns non-zero if the test cannot run here, and passes the reason to the harness.
 * It is a failure if the emulator has a PMU and the kernel finds none.
 */
static inline int pmu_setup(struct __test_metadata *const _metadata)
{
	struct perf_event_attr attr = instructions_attr();
	int fd;

	if (!pmu_number("QEMU_PMU"))
		SKIP(return -1, "no emulated PMU, whose counts are exact: QEMU_PMU is not set");
	fd = pmu_open(&attr, -1);
	ASSERT_LE(0, fd) {
		TH_LOG("the emulator has a PMU, the kernel does not use it: %s", strerror(errno));
	}
	close(fd);
	/* Lock all pages: a page fault runs no user code, but a sample may hit it. */
	ASSERT_EQ(0, mlockall(MCL_CURRENT));
	return 0;
}

#endif
