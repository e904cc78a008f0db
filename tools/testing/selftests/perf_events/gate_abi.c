// SPDX-License-Identifier: GPL-2.0
/* perf gate selftests - numbers, attribute bits and layout of values */
#define _GNU_SOURCE

#include "../kselftest_harness.h"
#include "gate_helpers.h"

#define PARANOID_SYSCTL	"/proc/sys/kernel/perf_event_paranoid"
#define NOBODY		65534

#define GATE_FORMAT_BITS	8
#define GATE_FORMAT_ALL		((1U << GATE_FORMAT_BITS) - 1)

FIXTURE(gate_abi)
{
	struct gate_triggers triggers;
	struct perf_event_attr attr;
};

FIXTURE_SETUP(gate_abi)
{
	if (triggers_open(_metadata, &self->triggers))
		return;
	self->attr = gate_attr(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS);
}

FIXTURE_TEARDOWN(gate_abi)
{
	triggers_close(&self->triggers);
}

TEST_F(gate_abi, ioctl_numbers_are_fixed)
{
	EXPECT_EQ(_IO('$', 12), PERF_EVENT_IOC_SET_STARTER);
	EXPECT_EQ(_IO('$', 13), PERF_EVENT_IOC_SET_STOPPER);
	EXPECT_EQ(_IO('$', 14), PERF_EVENT_IOC_CLEAR_GATE);
	EXPECT_EQ(_IO('$', 17), PERF_EVENT_IOC_JOIN_GATE);
}

TEST_F(gate_abi, read_format_bits_are_fixed)
{
	EXPECT_EQ(0x20, PERF_FORMAT_GATE_TIME);
	EXPECT_EQ(0x40, PERF_FORMAT_GATE_COUNT);
}

TEST_F(gate_abi, attr_bits_are_fixed)
{
#ifdef GATE_UAPI
	struct perf_event_attr by_name = {}, by_number = {};

	by_name.start_paused = 1;
	gate_attr_set_bit(&by_number, GATE_BIT_START_PAUSED);
	EXPECT_EQ(0, memcmp(&by_name, &by_number, sizeof(by_name)));
	by_name.gate_nest = 1;
	gate_attr_set_bit(&by_number, GATE_BIT_NEST);
	EXPECT_EQ(0, memcmp(&by_name, &by_number, sizeof(by_name)));
#else
	SKIP(return, "built with headers that have no gates");
#endif
}

/* The numbers of the first two ioctls encode the size of an argument. */
TEST_F(gate_abi, other_numbers_are_no_ioctls)
{
	EXPECT_EQ(-ENOTTY, gate_ioctl(self->triggers.starter, _IO('$', 15), 0));
	EXPECT_EQ(-ENOTTY, gate_ioctl(self->triggers.starter, _IO('$', 16), 0));
	EXPECT_EQ(-ENOTTY, gate_ioctl(self->triggers.starter, _IO('$', 18), 0));
}

TEST_F(gate_abi, reserved_attr_bits_are_refused)
{
	static const unsigned int reserved[] = { 38, 39, 42, 63 };
	struct perf_event_attr attr;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(reserved); i++) {
		attr = self->attr;
		gate_attr_set_bit(&attr, reserved[i]);
		EXPECT_EQ(-1, gate_open(&attr, 0, -1)) {
			TH_LOG("bit %u", reserved[i]);
		}
		EXPECT_EQ(EINVAL, errno);
	}
}

TEST_F(gate_abi, reserved_read_format_bit_is_refused)
{
	self->attr.read_format = 1U << GATE_FORMAT_BITS;
	EXPECT_EQ(-1, gate_open(&self->attr, 0, -1));
	EXPECT_EQ(EINVAL, errno);
}

TEST_F(gate_abi, attr_of_every_size_takes_the_gate_bits)
{
	static const unsigned int sizes[] = {
		PERF_ATTR_SIZE_VER0, PERF_ATTR_SIZE_VER1, PERF_ATTR_SIZE_VER2,
		PERF_ATTR_SIZE_VER3, PERF_ATTR_SIZE_VER4, PERF_ATTR_SIZE_VER5,
		PERF_ATTR_SIZE_VER6, PERF_ATTR_SIZE_VER7, PERF_ATTR_SIZE_VER8,
	};
	size_t i;

	gate_attr_set_bit(&self->attr, GATE_BIT_START_PAUSED);
	gate_attr_set_bit(&self->attr, GATE_BIT_NEST);
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		self->attr.size = sizes[i];
		EXPECT_LE(0, gate_open(&self->attr, 0, -1)) {
			TH_LOG("size %u: %s", sizes[i], strerror(errno));
		}
	}
}

TEST_F(gate_abi, attribute_bits_go_with_inherit)
{
	self->attr.read_format = PERF_FORMAT_GATE_TIME | PERF_FORMAT_GATE_COUNT;
	self->attr.inherit = 1;
	gate_attr_set_bit(&self->attr, GATE_BIT_START_PAUSED);
	gate_attr_set_bit(&self->attr, GATE_BIT_NEST);
	EXPECT_LE(0, gate_open(&self->attr, 0, -1));
}

TEST_F(gate_abi, clear_gate_takes_no_argument)
{
	int target = gate_open_counter(_metadata, &self->triggers, PERF_TYPE_SOFTWARE,
				       PERF_COUNT_SW_PAGE_FAULTS);

	EXPECT_EQ(-EINVAL, gate_ioctl(target, PERF_EVENT_IOC_CLEAR_GATE, 1));
	EXPECT_EQ(-EINVAL, gate_ioctl(target, PERF_EVENT_IOC_CLEAR_GATE, -1));
}

TEST_F(gate_abi, clear_gate_without_a_gate_succeeds)
{
	int target = gate_open(&self->attr, 0, -1);

	ASSERT_LE(0, target);
	EXPECT_EQ(0, clear_gate(target));
}

TEST_F(gate_abi, toggle_does_not_nest)
{
	int target;

	gate_attr_set_bit(&self->attr, GATE_BIT_NEST);
	target = gate_open(&self->attr, 0, -1);
	ASSERT_LE(0, target);
	ASSERT_EQ(0, set_starter(self->triggers.starter, target));
	EXPECT_EQ(-EINVAL, set_stopper(self->triggers.starter, target));
}

/* Each firing could cause the next one, and no interrupt of a timer would come between. */
TEST_F(gate_abi, end_of_irq_work_fires_no_gate)
{
	static const char * const names[] = {
		"irq_vectors/irq_work_exit", "powerpc/timer_interrupt_exit", "ipi/ipi_exit",
	};
	unsigned int i, tried = 0;
	struct perf_event_attr attr;
	int target, trigger;

	target = gate_open(&self->attr, 0, -1);
	ASSERT_LE(0, target);
	for (i = 0; i < ARRAY_SIZE(names); i++) {
		if (tracepoint_id(names[i]) < 0)
			continue;
		tried++;
		attr = gate_attr(PERF_TYPE_TRACEPOINT, tracepoint_id(names[i]));
		trigger = gate_open(&attr, 0, -1);
		ASSERT_LE(0, trigger);
		EXPECT_EQ(-EINVAL, set_starter(trigger, target)) TH_LOG("%s", names[i]);
		EXPECT_EQ(-EINVAL, set_stopper(trigger, target)) TH_LOG("%s", names[i]);
		close(trigger);
	}
	if (!tried)
		SKIP(return, "no tracepoint at the exit of an interrupt that runs irq_work");
}

/* Size of a read of one event; a group of one adds the number of its members. */
static ssize_t read_size(unsigned int format)
{
	return (1 + __builtin_popcount(format)) * sizeof(__u64);
}

TEST_F(gate_abi, read_size_follows_the_read_format)
{
	unsigned int format;
	__u64 buffer[16];
	int fd;

	for (format = 0; format <= GATE_FORMAT_ALL; format++) {
		self->attr.read_format = format;
		fd = gate_open(&self->attr, 0, -1);
		ASSERT_LE(0, fd);
		EXPECT_EQ(read_size(format), read(fd, buffer, sizeof(buffer))) {
			TH_LOG("read_format %#x", format);
		}
		close(fd);
	}
}

TEST_F(gate_abi, short_read_buffer_is_refused)
{
	struct gate_value value;
	int fd = gate_open(&self->attr, 0, -1);

	ASSERT_LE(0, fd);
	EXPECT_EQ(-1, read(fd, &value, sizeof(value) - 1));
	EXPECT_EQ(ENOSPC, errno);
}

/* Let the last word of the read go to memory that is not writable. */
TEST_F(gate_abi, read_into_a_bad_buffer_fails)
{
	const size_t page = sysconf(_SC_PAGESIZE);
	unsigned int format;
	ssize_t size;
	char *mem;
	int fd;

	mem = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, mem);
	ASSERT_EQ(0, mprotect(mem + page, page, PROT_NONE));
	for (format = 0; format <= GATE_FORMAT_ALL; format++) {
		self->attr.read_format = format;
		fd = gate_open(&self->attr, 0, -1);
		ASSERT_LE(0, fd);
		size = read_size(format);
		EXPECT_EQ(-1, read(fd, mem + page - size + sizeof(__u64), size)) {
			TH_LOG("read_format %#x", format);
		}
		EXPECT_EQ(EFAULT, errno);
		EXPECT_EQ(size, read(fd, mem + page - size, size));
		close(fd);
	}
	munmap(mem, 2 * page);
}

TEST_F(gate_abi, gate_values_come_last_in_a_read)
{
	int target = gate_open_counter(_metadata, &self->triggers, PERF_TYPE_TRACEPOINT,
				       tracepoint_id("syscalls/sys_enter_getppid"));
	struct gate_value value;
	__u64 id;
	int i;

	for (i = 0; i < 5; i++) {
		window_open();
		call_getppid(7);
		spin_ns(NSEC_PER_MSEC);
		window_close();
	}
	ASSERT_EQ(0, ioctl(target, PERF_EVENT_IOC_ID, &id));
	value = gate_read_whole(target);
	EXPECT_EQ(35, value.value);
	EXPECT_EQ(id, value.id);
	EXPECT_EQ(0, value.lost);
	EXPECT_LT(0, value.gate_time);
	EXPECT_EQ(5, value.gate_count);
	EXPECT_LE(value.gate_time, value.running);
	EXPECT_LE(value.running, value.enabled);
}

/* Test each bit alone, so that swapped values would show. */
TEST_F(gate_abi, single_gate_value_follows_the_count)
{
	struct {
		__u64 value;
		__u64 extra;
	} time, count;
	int time_fd, count_fd, clock;
	__u64 inner;

	clock = gate_open_self(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_DUMMY);
	ASSERT_LE(0, clock);
	self->attr.read_format = PERF_FORMAT_GATE_TIME;
	time_fd = gate_open_target(_metadata, &self->triggers, &self->attr);
	self->attr.read_format = PERF_FORMAT_GATE_COUNT;
	count_fd = gate_open_target(_metadata, &self->triggers, &self->attr);
	window_open();
	inner = gate_read(clock).running;
	spin_ns(NSEC_PER_MSEC);
	inner = gate_read(clock).running - inner;
	window_close();
	ASSERT_EQ(sizeof(time), read(time_fd, &time, sizeof(time)));
	ASSERT_EQ(sizeof(count), read(count_fd, &count, sizeof(count)));
	EXPECT_EQ(1, count.extra);
	EXPECT_LT(1, inner);
	EXPECT_LE(inner, time.extra);
	close(clock);
}

/* Gating needs no more privileges than counting one's own user space. */
FIXTURE(gate_unprivileged)
{
	struct gate_triggers triggers;
	long paranoid;
};

static void write_paranoid(long level)
{
	FILE *file = fopen(PARANOID_SYSCTL, "w");

	if (!file)
		return;
	fprintf(file, "%ld\n", level);
	fclose(file);
}

FIXTURE_SETUP(gate_unprivileged)
{
	self->paranoid = read_number(PARANOID_SYSCTL);
	if (triggers_open(_metadata, &self->triggers))
		return;
	write_paranoid(2);
}

FIXTURE_TEARDOWN(gate_unprivileged)
{
	write_paranoid(self->paranoid);
	triggers_close(&self->triggers);
}

/* Returns the number of the step that failed, or 0. */
static int gate_as_nobody(long getuid_id, long geteuid_id)
{
	struct perf_event_attr attr = gate_attr(PERF_TYPE_TRACEPOINT, getuid_id);
	struct gate_triggers triggers;
	struct gate_pages pages;
	int target, i;

	if (pages_map(&pages, 16) || setresuid(NOBODY, NOBODY, NOBODY))
		return 1;
	attr.exclude_kernel = 1;
	attr.exclude_hv = 1;
	triggers.starter = gate_open(&attr, 0, -1);
	attr.config = geteuid_id;
	triggers.stopper = gate_open(&attr, 0, -1);
	attr.type = PERF_TYPE_SOFTWARE;
	attr.config = PERF_COUNT_SW_PAGE_FAULTS;
	target = gate_open(&attr, 0, -1);
	if (triggers.starter < 0 || triggers.stopper < 0 || target < 0)
		return 2;
	if (set_both(&triggers, target))
		return 3;
	pages_touch(&pages, 16);
	if (gate_read_count(target))
		return 4;
	for (i = 0; i < 10; i++) {
		window_open();
		pages_touch(&pages, 4);
		window_close();
		pages_touch(&pages, 16);
	}
	return gate_read_count(target) == 40 ? 0 : 5;
}

TEST_F(gate_unprivileged, user_gates_events_of_the_own_task)
{
	long geteuid_id = tracepoint_id("syscalls/sys_enter_geteuid");
	long getuid_id = tracepoint_id("syscalls/sys_enter_getuid");
	pid_t child = fork();
	int status;

	ASSERT_LE(0, child);
	if (!child) {
		mlockall(MCL_CURRENT);
		_exit(gate_as_nobody(getuid_id, geteuid_id));
	}
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, status) {
		TH_LOG("step %d", WEXITSTATUS(status));
	}
}

TEST_HARNESS_MAIN
