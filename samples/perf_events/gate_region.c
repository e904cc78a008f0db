// SPDX-License-Identifier: GPL-2.0
/*
 * Counts what happens inside of one function: a uprobe at its entry opens the
 * gates of all counters, a uretprobe at its return closes them.
 *
 *	gate_region				an example in this program itself
 *	gate_region BINARY FUNCTION COMMAND... in a command, its threads and its
 *						children, wherever BINARY is mapped
 *
 * Needs CONFIG_PERF_EVENTS_GATE and CONFIG_UPROBE_EVENTS in the kernel that it runs
 * on. See Documentation/userspace-api/perf_gate.rst.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <err.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static const struct {
	const char	*name;
	__u32		type;
	__u64		config;
} counters[] = {
	{ "ns task-clock",	PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK },
	{ "page-faults",	PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS },
	{ "context-switches",	PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES },
	{ "instructions",	PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS },
	{ "cycles",		PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES },
};

#define ARRAY_SIZE(array)	(sizeof(array) / sizeof((array)[0]))

static int fds[ARRAY_SIZE(counters)];

/* Compute the offset in the program's file of @address. */
static __u64 file_offset(const void *elf, __u64 address)
{
	const Elf64_Ehdr *header = elf;
	const Elf64_Phdr *segment = elf + header->e_phoff;
	int i;

	for (i = 0; i < header->e_phnum; i++) {
		if (segment[i].p_type == PT_LOAD && address >= segment[i].p_vaddr &&
		    address < segment[i].p_vaddr + segment[i].p_filesz)
			return address - segment[i].p_vaddr + segment[i].p_offset;
	}
	return 0;
}

static __u64 find_in_table(const void *elf, const Elf64_Shdr *table,
			   const Elf64_Shdr *strings, const char *function)
{
	const Elf64_Sym *symbol = elf + table->sh_offset;
	const Elf64_Sym *end = elf + table->sh_offset + table->sh_size;
	__u64 address;

	for (; symbol < end; symbol++) {
		if (ELF64_ST_TYPE(symbol->st_info) != STT_FUNC || !symbol->st_value ||
		    strcmp(elf + strings->sh_offset + symbol->st_name, function))
			continue;
		address = symbol->st_value;
#ifdef PPC64_LOCAL_ENTRY_OFFSET
		/*
		 * Callers in the same binary enter at the local entry point, after the
		 * first instructions.
		 */
		address += PPC64_LOCAL_ENTRY_OFFSET(symbol->st_other);
#endif
		return file_offset(elf, address);
	}
	return 0;
}

static __u64 find_function(const char *binary, const char *function)
{
	const Elf64_Ehdr *elf = MAP_FAILED;
	const Elf64_Shdr *section;
	struct stat stat;
	__u64 offset = 0;
	int fd, i;

	fd = open(binary, O_RDONLY);
	if (fd >= 0 && !fstat(fd, &stat))
		elf = mmap(NULL, stat.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (elf == MAP_FAILED)
		err(1, "%s", binary);
	if (memcmp(elf->e_ident, ELFMAG, SELFMAG) || elf->e_ident[EI_CLASS] != ELFCLASS64)
		errx(1, "%s is not a 64-bit program or library", binary);

	section = (const void *)elf + elf->e_shoff;
	for (i = 0; i < elf->e_shnum && !offset; i++) {
		if (section[i].sh_type == SHT_SYMTAB || section[i].sh_type == SHT_DYNSYM)
			offset = find_in_table(elf, &section[i], &section[section[i].sh_link],
					       function);
	}
	if (!offset)
		errx(1, "no function %s in %s", function, binary);
	close(fd);
	return offset;
}

static int perf_event_open(struct perf_event_attr *attr, pid_t pid)
{
	attr->size = sizeof(*attr);
	attr->inherit = 1;
	/* Count from the exec() on, and not in this program. */
	attr->disabled = pid != 0;
	attr->enable_on_exec = pid != 0;
	return syscall(SYS_perf_event_open, attr, pid, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

static int open_probe(const char *binary, __u64 offset, bool at_return, pid_t pid)
{
	struct perf_event_attr attr = {
		.config		= at_return,
		.uprobe_path	= (uintptr_t)binary,
		.probe_offset	= offset,
	};
	FILE *file = fopen("/sys/bus/event_source/devices/uprobe/type", "r");
	int fd;

	if (!file || fscanf(file, "%u", &attr.type) != 1)
		err(1, "the kernel has no uprobes");
	fclose(file);
	fd = perf_event_open(&attr, pid);
	if (fd < 0)
		err(1, "uprobe in %s", binary);
	return fd;
}

/* Start with a closed gate, so that nothing outside of the function is counted. */
static void open_counters(int entry, int leave, pid_t pid)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(counters); i++) {
		struct perf_event_attr attr = {
			.type		= counters[i].type,
			.config		= counters[i].config,
			.start_paused	= 1,
			.gate_nest	= 1,
			.read_format	= PERF_FORMAT_GATE_TIME | PERF_FORMAT_GATE_COUNT,
		};

		fds[i] = perf_event_open(&attr, pid);
		if (fds[i] < 0) {
			warn("no %s", counters[i].name);
			continue;
		}
		if (ioctl(entry, PERF_EVENT_IOC_SET_STARTER, fds[i]) ||
		    ioctl(leave, PERF_EVENT_IOC_SET_STOPPER, fds[i]))
			err(1, "gate of %s", counters[i].name);
	}
}

static void print_counters(const char *function)
{
	struct {
		__u64 count;
		__u64 gate_time;
		__u64 gate_count;
	} value;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(counters); i++) {
		if (fds[i] < 0 || read(fds[i], &value, sizeof(value)) != sizeof(value))
			continue;
		if (!i)
			printf("%s: %llu calls, %llu ns\n", function,
			       (unsigned long long)value.gate_count,
			       (unsigned long long)value.gate_time);
		printf("%20llu %s\n", (unsigned long long)value.count, counters[i].name);
	}
}

/* The function of the example: 16 page faults at each depth, and not inlined. */
__attribute__((noipa)) void touch_pages(int depth);
void touch_pages(int depth)
{
	char *mem = mmap(NULL, 16 * 4096, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int i;

	for (i = 0; mem != MAP_FAILED && i < 16; i++)
		mem[i * 4096] = 1;
	if (depth > 1)
		touch_pages(depth - 1);
	munmap(mem, 16 * 4096);
}

int main(int argc, char **argv)
{
	const char *binary = argc > 3 ? argv[1] : "/proc/self/exe";
	const char *function = argc > 3 ? argv[2] : "touch_pages";
	int entry, leave, go[2], status = 0, i;
	__u64 offset;
	pid_t pid = 0;
	char byte;

	if (argc == 2 || argc == 3)
		errx(1, "usage: %s [BINARY FUNCTION COMMAND [ARGUMENT]...]", argv[0]);
	offset = find_function(binary, function);
	if (argc > 3) {
		if (pipe2(go, O_CLOEXEC))
			err(1, "pipe");
		pid = fork();
		if (!pid) {
			if (read(go[0], &byte, 1) == 1)
				execvp(argv[3], argv + 3);
			err(127, "%s", argv[3]);
		}
	}
	entry = open_probe(binary, offset, false, pid);
	leave = open_probe(binary, offset, true, pid);
	open_counters(entry, leave, pid);

	if (!pid) {
		for (i = 0; i < 10; i++)
			touch_pages(3);
	} else if (write(go[1], "", 1) != 1 || waitpid(pid, &status, 0) != pid) {
		err(1, "%s", argv[3]);
	}
	print_counters(function);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
