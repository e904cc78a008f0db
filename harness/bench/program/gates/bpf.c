// SPDX-License-Identifier: GPL-2.0
/*
 * The same job as a gate's, done by BPF programs: read a counter at a
 * tracepoint and keep the difference between two readings in a map. The
 * programs are assembled by hand, so that no BPF compiler is needed.
 */
#include "bench.h"

#include <errno.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>

#define ENTER_GETPPID	"syscalls/sys_enter_getppid"
#define EXIT_GETPPID	"syscalls/sys_exit_getppid"
#define COUNTERS	4
/* One for each power of two */
#define BUCKETS		64

#define INSN(op, dst, src, offset, value) \
	((struct bpf_insn) { .code = (op), .dst_reg = (dst), .src_reg = (src), \
			     .off = (offset), .imm = (value) })

#define MOV(dst, src)		INSN(BPF_ALU64 | BPF_MOV | BPF_X, dst, src, 0, 0)
#define MOV_IMM(dst, value)	INSN(BPF_ALU64 | BPF_MOV | BPF_K, dst, 0, 0, value)
#define ADD(dst, src)		INSN(BPF_ALU64 | BPF_ADD | BPF_X, dst, src, 0, 0)
#define ADD_IMM(dst, value)	INSN(BPF_ALU64 | BPF_ADD | BPF_K, dst, 0, 0, value)
#define SHIFT_RIGHT(dst, bits)	INSN(BPF_ALU64 | BPF_RSH | BPF_K, dst, 0, 0, bits)
#define SUB(dst, src)		INSN(BPF_ALU64 | BPF_SUB | BPF_X, dst, src, 0, 0)
#define LOAD(dst, base, offset)	INSN(BPF_LDX | BPF_MEM | BPF_DW, dst, base, offset, 0)
#define STORE(base, offset, src) INSN(BPF_STX | BPF_MEM | BPF_DW, base, src, offset, 0)
#define STORE32(base, offset, src) INSN(BPF_STX | BPF_MEM | BPF_W, base, src, offset, 0)
#define STORE_IMM32(base, offset, value) \
	INSN(BPF_ST | BPF_MEM | BPF_W, base, 0, offset, value)
#define CALL(function)		INSN(BPF_JMP | BPF_CALL, 0, 0, 0, function)
#define EXIT()			INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0)
#define IF_ZERO(reg)		INSN(BPF_JMP | BPF_JEQ | BPF_K, reg, 0, 0, 0)
#define IF_NOT_ZERO(reg)	INSN(BPF_JMP | BPF_JNE | BPF_K, reg, 0, 0, 0)

/* Where a program keeps things below its frame pointer. */
enum {
	STACK_VALUE	= -24,	/* struct bpf_perf_event_value */
	STACK_INDEX	= -28,
	STACK_TASK	= -40,
};

/* A value of the maps: the reading at the start, and the sum of the windows. */
struct window {
	__u64 start;
	__u64 total;
};

static struct {
	int counters;
	int windows;
	int tasks;
	int histogram;
} maps;

struct program {
	struct bpf_insn insn[128];
	int nr;
};

static int emit(struct program *program, struct bpf_insn insn)
{
	program->insn[program->nr] = insn;
	return program->nr++;
}

/* Makes the jump at @from go to the next instruction. */
static void land(struct program *program, int from)
{
	program->insn[from].off = program->nr - from - 1;
}

static void emit_map(struct program *program, int reg, int map)
{
	emit(program, INSN(BPF_LD | BPF_DW | BPF_IMM, reg, BPF_PSEUDO_MAP_FD, 0, map));
	emit(program, INSN(0, 0, 0, 0, 0));
}

static void emit_return(struct program *program)
{
	emit(program, MOV_IMM(BPF_REG_0, 0));
	emit(program, EXIT());
}

/* Reads a counter to the stack; the result jumps away on an error. */
static int emit_read(struct program *program, int counter)
{
	emit_map(program, BPF_REG_1, maps.counters);
	emit(program, MOV_IMM(BPF_REG_2, counter));
	emit(program, MOV(BPF_REG_3, BPF_REG_10));
	emit(program, ADD_IMM(BPF_REG_3, STACK_VALUE));
	emit(program, MOV_IMM(BPF_REG_4, sizeof(struct bpf_perf_event_value)));
	emit(program, CALL(BPF_FUNC_perf_event_read_value));
	return emit(program, IF_NOT_ZERO(BPF_REG_0));
}

/* Leaves a map's value in r0; the result jumps away when there is none. */
static int emit_lookup(struct program *program, int map, int key)
{
	emit_map(program, BPF_REG_1, map);
	emit(program, MOV(BPF_REG_2, BPF_REG_10));
	emit(program, ADD_IMM(BPF_REG_2, key));
	emit(program, CALL(BPF_FUNC_map_lookup_elem));
	return emit(program, IF_ZERO(BPF_REG_0));
}

/* @window is the register that points to the struct window. */
static void emit_edge(struct program *program, int window, bool stop)
{
	emit(program, LOAD(BPF_REG_1, BPF_REG_10, STACK_VALUE));
	if (!stop) {
		emit(program, STORE(window, offsetof(struct window, start), BPF_REG_1));
		return;
	}
	emit(program, LOAD(BPF_REG_2, window, offsetof(struct window, start)));
	emit(program, SUB(BPF_REG_1, BPF_REG_2));
	emit(program, LOAD(BPF_REG_2, window, offsetof(struct window, total)));
	emit(program, ADD(BPF_REG_2, BPF_REG_1));
	emit(program, STORE(window, offsetof(struct window, total), BPF_REG_2));
}

/* Adds the window in r1 to the histogram. */
static void emit_histogram(struct program *program)
{
	int bits, is_less, no_bucket;

	emit(program, MOV_IMM(BPF_REG_2, 0));
	for (bits = BUCKETS / 2; bits; bits /= 2) {
		emit(program, MOV(BPF_REG_3, BPF_REG_1));
		emit(program, SHIFT_RIGHT(BPF_REG_3, bits));
		is_less = emit(program, IF_ZERO(BPF_REG_3));
		emit(program, MOV(BPF_REG_1, BPF_REG_3));
		emit(program, ADD_IMM(BPF_REG_2, bits));
		land(program, is_less);
	}
	emit(program, STORE32(BPF_REG_10, STACK_INDEX, BPF_REG_2));
	no_bucket = emit_lookup(program, maps.histogram, STACK_INDEX);
	emit(program, LOAD(BPF_REG_1, BPF_REG_0, 0));
	emit(program, ADD_IMM(BPF_REG_1, 1));
	emit(program, STORE(BPF_REG_0, 0, BPF_REG_1));
	land(program, no_bucket);
}

static int bpf(int command, union bpf_attr *attr)
{
	return syscall(SYS_bpf, command, attr, sizeof(*attr));
}

static int load(int type, const struct program *program)
{
	union bpf_attr attr = {
		.prog_type = type,
		.insns = (unsigned long)program->insn,
		.insn_cnt = program->nr,
		.license = (unsigned long)"GPL",
	};
	int fd = bpf(BPF_PROG_LOAD, &attr);

	if (fd < 0)
		report_wrong("BPF program of %d instructions: %s", program->nr, strerror(errno));
	return fd;
}

static int load_return(int type)
{
	struct program program = {};

	emit_return(&program);
	return load(type, &program);
}

static int load_edge(int type, bool stop, int counters)
{
	struct program program = {};
	int i, no_value, no_window;

	for (i = 0; i < counters; i++) {
		no_value = emit_read(&program, i);
		emit(&program, STORE_IMM32(BPF_REG_10, STACK_INDEX, i));
		no_window = emit_lookup(&program, maps.windows, STACK_INDEX);
		emit_edge(&program, BPF_REG_0, stop);
		land(&program, no_value);
		land(&program, no_window);
	}
	emit_return(&program);
	return load(type, &program);
}

/*
 * A program at a tracepoint runs for every task, also when the event that it
 * is attached to belongs to one; so a tool for one task looks the task up.
 */
static int load_task_edge(int type, bool stop, bool histogram)
{
	struct program program = {};
	int no_task, no_value;

	emit(&program, CALL(BPF_FUNC_get_current_pid_tgid));
	emit(&program, STORE(BPF_REG_10, STACK_TASK, BPF_REG_0));
	no_task = emit_lookup(&program, maps.tasks, STACK_TASK);
	emit(&program, MOV(BPF_REG_6, BPF_REG_0));
	no_value = emit_read(&program, 0);
	emit_edge(&program, BPF_REG_6, stop);
	if (histogram)
		emit_histogram(&program);
	land(&program, no_task);
	land(&program, no_value);
	emit_return(&program);
	return load(type, &program);
}

static int map_create(int type, int key_size, int value_size, int entries)
{
	union bpf_attr attr = {
		.map_type = type,
		.key_size = key_size,
		.value_size = value_size,
		.max_entries = entries,
	};
	int fd = bpf(BPF_MAP_CREATE, &attr);

	if (fd < 0)
		report_wrong("BPF map: %s", strerror(errno));
	return fd;
}

static void map_set(int map, const void *key, const void *value)
{
	union bpf_attr attr = {
		.map_fd = map,
		.key = (unsigned long)key,
		.value = (unsigned long)value,
	};

	if (bpf(BPF_MAP_UPDATE_ELEM, &attr))
		report_wrong("BPF map update: %s", strerror(errno));
}

static void map_get(int map, const void *key, void *value)
{
	union bpf_attr attr = {
		.map_fd = map,
		.key = (unsigned long)key,
		.value = (unsigned long)value,
	};

	if (bpf(BPF_MAP_LOOKUP_ELEM, &attr))
		report_wrong("BPF map lookup: %s", strerror(errno));
}

static bool maps_create(void)
{
	const struct rlimit unlimited = { RLIM_INFINITY, RLIM_INFINITY };
	const __u64 task = (__u64)getpid() << 32 | getpid();
	const struct window window = {};

	setrlimit(RLIMIT_MEMLOCK, &unlimited);
	maps.counters = map_create(BPF_MAP_TYPE_PERF_EVENT_ARRAY, sizeof(int), sizeof(int),
				   COUNTERS);
	maps.windows = map_create(BPF_MAP_TYPE_ARRAY, sizeof(int), sizeof(struct window),
				  COUNTERS);
	maps.tasks = map_create(BPF_MAP_TYPE_HASH, sizeof(task), sizeof(struct window),
				1024);
	maps.histogram = map_create(BPF_MAP_TYPE_ARRAY, sizeof(int), sizeof(__u64), BUCKETS);
	if (maps.counters < 0 || maps.windows < 0 || maps.tasks < 0 || maps.histogram < 0)
		return false;
	map_set(maps.tasks, &task, &window);
	return true;
}

static void maps_close(void)
{
	close(maps.counters);
	close(maps.windows);
	close(maps.tasks);
	close(maps.histogram);
}

/* Takes ownership of @program. */
static void at_tracepoint(const char *class, struct cost base, int program,
			  const char *operation, const char *counters)
{
	const struct op op = { .run = getppid_run };
	int fd = perf_count(PERF_TYPE_TRACEPOINT, tracepoint_id(ENTER_GETPPID), -1, 0, false);

	if (ioctl(fd, PERF_EVENT_IOC_SET_BPF, program))
		report_wrong("BPF %s: %s", operation, strerror(errno));
	else
		report(class, minus(measure(&op), base), "BPF at tracepoint: %s%s",
		       operation, counters);
	close(fd);
	close(program);
}

static void at_raw_tracepoint(const char *class, struct cost base, int program,
			      const char *operation, const char *counters)
{
	const struct op op = { .run = getppid_run };
	union bpf_attr attr = {
		.raw_tracepoint.name = (unsigned long)"sys_enter",
		.raw_tracepoint.prog_fd = program,
	};
	int fd = bpf(BPF_RAW_TRACEPOINT_OPEN, &attr);

	if (fd < 0)
		report_wrong("BPF raw tracepoint: %s", strerror(errno));
	else
		report(class, minus(measure(&op), base), "BPF at raw sys_enter: %s%s",
		       operation, counters);
	close(fd);
	close(program);
}

/* The stop edges ran many times: the counter that they read must have moved. */
static void must_have_summed(int counter)
{
	struct window window = {};

	map_get(maps.windows, &counter, &window);
	if (!window.total)
		report_wrong("BPF edges of counter %d summed nothing", counter);
}

static void edges(const char *class, struct cost base, bool hardware)
{
	const char *counters = hardware ? ", hw" : "";
	const int type = BPF_PROG_TYPE_TRACEPOINT;
	struct group group;
	int i;

	if (!group_open(&group, COUNTERS, hardware, 0, false))
		return;
	for (i = 0; i < COUNTERS; i++)
		map_set(maps.counters, &i, &group.fd[i]);
	at_tracepoint(class, base, load_edge(type, false, 1), "start edge", counters);
	at_tracepoint(class, base, load_edge(type, true, 1), "stop edge", counters);
	at_tracepoint(class, base, load_task_edge(type, true, false), "stop edge of one task", counters);
	at_tracepoint(class, base, load_edge(type, true, COUNTERS),
		      "stop edge of 4 counters", counters);
	at_raw_tracepoint(class, base, load_edge(BPF_PROG_TYPE_RAW_TRACEPOINT, true, 1),
			  "stop edge", counters);
	must_have_summed(0);
	group_close(&group);
}

/**
 * bpf_function - measure a function whose entry and return read two counters
 * @op:		calls the function
 * @base:	what @op costs without probes
 * @entry:	event of the probe at its entry, keeps its program until it is closed
 * @ret:	event of that at its return
 *
 * Return: the cost of a call.
 */
struct cost bpf_function(const struct op *op, struct cost base, int entry, int ret)
{
	struct cost cost = {};
	struct group group;
	int start, stop, i;

	if (!maps_create())
		return cost;
	start = load_edge(BPF_PROG_TYPE_KPROBE, false, 2);
	stop = load_edge(BPF_PROG_TYPE_KPROBE, true, 2);
	if (group_open(&group, COUNTERS, false, 0, false)) {
		for (i = 0; i < COUNTERS; i++)
			map_set(maps.counters, &i, &group.fd[i]);
		if (ioctl(entry, PERF_EVENT_IOC_SET_BPF, start) ||
		    ioctl(ret, PERF_EVENT_IOC_SET_BPF, stop)) {
			report_wrong("BPF at uprobes: %s", strerror(errno));
		} else {
			cost = minus(measure(op), base);
			report("ref", cost, "a function, BPF reads 2 counters at entry and return");
		}
		group_close(&group);
	}
	close(start);
	close(stop);
	maps_close();
	return cost;
}

/* Each measured call had a window. */
static void must_have_windows(void)
{
	__u64 bucket, windows = 0;
	int i;

	for (i = 0; i < BUCKETS; i++) {
		map_get(maps.histogram, &i, &bucket);
		windows += bucket;
	}
	if (windows < 1000)
		report_wrong("BPF counted %llu windows", windows);
}

/**
 * bpf_window - measure a window of one task whose count goes to a histogram
 * @base:	what getppid(2) costs without programs at its entry and exit
 *
 * Return: the cost of a window.
 */
struct cost bpf_window(struct cost base)
{
	static const char * const tracepoints[] = { ENTER_GETPPID, EXIT_GETPPID };
	const struct op op = { .run = getppid_run };
	int i, first = 0, program[2], fd[2];
	struct cost cost = {};
	struct group group;
	bool attached = true;

	if (!maps_create())
		return cost;
	if (group_open(&group, COUNTERS, false, 0, false)) {
		map_set(maps.counters, &first, &group.fd[0]);
		for (i = 0; i < 2; i++) {
			program[i] = load_task_edge(BPF_PROG_TYPE_TRACEPOINT, i, i);
			fd[i] = perf_count(PERF_TYPE_TRACEPOINT, tracepoint_id(tracepoints[i]),
					   -1, 0, false);
			attached = attached && !ioctl(fd[i], PERF_EVENT_IOC_SET_BPF, program[i]);
		}
		if (attached) {
			cost = minus(measure(&op), base);
			report("ref", cost, "BPF at tracepoints: a window of one task in a histogram");
			must_have_windows();
		} else {
			report_wrong("BPF at both edges: %s", strerror(errno));
		}
		for (i = 0; i < 2; i++) {
			close(fd[i]);
			close(program[i]);
		}
		group_close(&group);
	}
	maps_close();
	return cost;
}

/**
 * bpf_edges - measure a start and a stop that BPF programs do
 * @class:	of the rows
 * @hardware:	also with counters of the PMU
 */
void bpf_edges(const char *class, bool hardware)
{
	struct cost base = measure_getppid();

	if (!maps_create())
		return;
	edges(class, base, false);
	if (hardware)
		edges(class, base, true);
	maps_close();
}

void bench_bpf(void)
{
	struct cost base = measure_getppid();

	at_tracepoint("Z1", base, load_return(BPF_PROG_TYPE_TRACEPOINT), "return 0", "");
	at_raw_tracepoint("Z1", base, load_return(BPF_PROG_TYPE_RAW_TRACEPOINT),
			  "return 0", "");
	bpf_edges("Z1", ARCH_HARDWARE);
}
