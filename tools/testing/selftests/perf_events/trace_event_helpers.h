/* SPDX-License-Identifier: GPL-2.0 */
/*
 * perf selftests - events at tracepoints and probes, and how to hit them
 *
 * Include this after kselftest_harness.h and event_helpers.h.
 */
#ifndef _TRACE_EVENT_HELPERS_H
#define _TRACE_EVENT_HELPERS_H

#include <linux/bpf.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>

#define TRACE_RING_PAGES	16

/* A call in the program below hits it, once for each call. */
enum trace_class {
	TRACE_SYSCALL_ENTER,
	TRACE_SYSCALL_EXIT,
	TRACE_TRACEPOINT,
	TRACE_KPROBE,
	TRACE_KRETPROBE,
	TRACE_UPROBE,
	TRACE_URETPROBE,
};

static inline bool is_probe(enum trace_class class)
{
	return class >= TRACE_KPROBE;
}

static inline bool is_at_return(enum trace_class class)
{
	return class == TRACE_KRETPROBE || class == TRACE_URETPROBE;
}

static inline bool is_uprobe(enum trace_class class)
{
	return class >= TRACE_UPROBE;
}

/* Tell whether the hit is in user mode. */
static inline bool is_in_user_mode(enum trace_class class)
{
	return class <= TRACE_SYSCALL_EXIT || is_uprobe(class);
}

/* Get the ID of the tracepoint SYSTEM/NAME, -1 if it does not exist. */
static inline long trace_event_id(const char *name)
{
	static const char * const roots[] = {
		"/sys/kernel/tracing", "/sys/kernel/debug/tracing",
	};
	char path[256];
	long id = -1;
	size_t i;

	for (i = 0; id < 0 && i < ARRAY_SIZE(roots); i++) {
		snprintf(path, sizeof(path), "%s/events/%s/id", roots[i], name);
		id = read_number(path);
	}
	return id;
}

/* Call it by a pointer that is loaded each time, so that it is not inlined. */
static void trace_probed(void)
{
	asm volatile("nop\n\tnop" : : : "memory");
}

static void (*trace_call_probed)(void) = trace_probed;

/* The path of a uprobe and the symbol of a kprobe. */
#define TRACE_PROGRAM	"/proc/self/exe"
#define TRACE_FUNCTION	"vfs_write"

/**
 * trace_attr() - the attributes of an event that counts
 * @class: class of events to count
 *
 * The system call is one that no other program makes: a daemon that learns of a
 * CPU that came back calls getppid(2) on it.
 *
 * Return: a type of -1 if there is no such class.
 */
static inline struct perf_event_attr trace_attr(enum trace_class class)
{
	static const char * const name[] = {
		[TRACE_SYSCALL_ENTER]	= "syscalls/sys_enter_sched_get_priority_min",
		[TRACE_SYSCALL_EXIT]	= "syscalls/sys_exit_sched_get_priority_min",
		[TRACE_TRACEPOINT]	= "task/task_rename",
	};
	struct perf_event_attr attr = { .size = sizeof(attr) };
	long id;

	if (!is_probe(class)) {
		id = trace_event_id(name[class]);
		attr.type = id < 0 ? -1U : PERF_TYPE_TRACEPOINT;
		attr.config = id;
		return attr;
	}
	attr.type = pmu_type(is_uprobe(class) ? "uprobe" : "kprobe");
	attr.config = is_at_return(class);
	if (is_uprobe(class)) {
		attr.uprobe_path = (unsigned long)TRACE_PROGRAM;
		attr.probe_offset = file_offset((unsigned long)trace_probed);
	} else {
		attr.kprobe_func = (unsigned long)TRACE_FUNCTION;
	}
	return attr;
}

static inline int trace_null(void)
{
	static int null = -1;

	if (null < 0)
		null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	return null;
}

static inline void trace_hit(enum trace_class class, unsigned int times)
{
	while (times--) {
		switch (class) {
		case TRACE_SYSCALL_ENTER:
		case TRACE_SYSCALL_EXIT:
			syscall(__NR_sched_get_priority_min, 0);
			break;
		case TRACE_TRACEPOINT:
			prctl(PR_SET_NAME, "hit");
			break;
		case TRACE_KPROBE:
		case TRACE_KRETPROBE:
			if (write(trace_null(), "", 1) != 1)
				_exit(1);
			break;
		default:
			__atomic_load_n(&trace_call_probed, __ATOMIC_RELAXED)();
		}
	}
}

static inline int trace_open(struct perf_event_attr *attr, pid_t pid, int cpu)
{
	return syscall(__NR_perf_event_open, attr, pid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
}

static inline __u64 trace_count(int fd)
{
	__u64 value;

	return read(fd, &value, sizeof(value)) == sizeof(value) ? value : ~0ULL;
}

/* An event that writes a record for each hit, or for each period. */
struct trace_sampler {
	struct perf_event_mmap_page *ring;
	__u64 seen;
	int fd;
};

static inline size_t trace_ring_size(void)
{
	return (1 + TRACE_RING_PAGES) * sysconf(_SC_PAGESIZE);
}

/* Returns 0 or an errno. */
static inline int sampler_open(struct trace_sampler *sampler, struct perf_event_attr attr,
			       pid_t pid, int cpu)
{
	int error;

	if (!attr.sample_period)
		attr.sample_period = 1;
	attr.sample_type = PERF_SAMPLE_IP;
	sampler->seen = 0;
	sampler->fd = trace_open(&attr, pid, cpu);
	if (sampler->fd < 0)
		return errno;
	sampler->ring = mmap(NULL, trace_ring_size(), PROT_READ | PROT_WRITE, MAP_SHARED,
			     sampler->fd, 0);
	if (sampler->ring != MAP_FAILED)
		return 0;
	error = errno;
	close(sampler->fd);
	return error;
}

static inline void sampler_close(struct trace_sampler *sampler)
{
	munmap(sampler->ring, trace_ring_size());
	close(sampler->fd);
}

/* Number of samples since the last call; ~0 if there are other records. */
static inline __u64 sampler_read(struct trace_sampler *sampler)
{
	__u64 head = __atomic_load_n(&sampler->ring->data_head, __ATOMIC_ACQUIRE);
	__u64 size = sampler->ring->data_size, samples = 0;
	const char *data = (const char *)sampler->ring + sampler->ring->data_offset;
	const struct perf_event_header *header;

	while (sampler->seen < head) {
		header = (const void *)(data + sampler->seen % size);
		if (header->type != PERF_RECORD_SAMPLE)
			return ~0ULL;
		sampler->seen += header->size;
		samples++;
	}
	__atomic_store_n(&sampler->ring->data_tail, head, __ATOMIC_RELEASE);
	return samples;
}

/* Load a program that returns @verdict; events do not count if it is 0. */
static inline int trace_load_program(enum trace_class class, int verdict)
{
	struct bpf_insn insns[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = verdict },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	union bpf_attr attr = {
		.prog_type	= is_probe(class) ? BPF_PROG_TYPE_KPROBE : BPF_PROG_TYPE_TRACEPOINT,
		.insns		= (__u64)(unsigned long)insns,
		.insn_cnt	= 2,
		.license	= (__u64)(unsigned long)"GPL",
	};

	return syscall(__NR_bpf, BPF_PROG_LOAD, &attr, sizeof(attr));
}

#endif
