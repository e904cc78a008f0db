// SPDX-License-Identifier: GPL-2.0
/*
 * perf gate selftests - random arguments for the ioctls
 *
 * All kinds of events of several tasks and CPUs are opened, linked, dropped, fired
 * and closed at random. Some descriptors are not open, belong to something else or have
 * garbage in their upper half. A model knows from the attributes of two events and from
 * their links which documented errors apply. A call must return one of these, and
 * succeed if none applies.
 *
 * GATE_FUZZ_STEPS and GATE_FUZZ_SEED in the environment choose another walk.
 */
#define _GNU_SOURCE

#include <linux/hw_breakpoint.h>

#include "../kselftest_harness.h"
#include "gate_family.h"
#include "gate_windows.h"

#define NR_STEPS	30000
#define NR_SLOTS	240
#define NR_ERRNOS	256
/* Descriptors that are never open. */
#define NO_FD		4000

#define IS_STARTER	1
#define IS_STOPPER	2

enum whose { SELF, CHILD, FIRST_CPU, SECOND_CPU, NR_WHOSE };

/* Properties of a slot in the pool that matter to links. */
struct slot {
	int			fd;
	bool			is_event;
	struct perf_event_attr	attr;
	enum whose		whose;
	/* The event can be a trigger if it samples, a trigger without sampling, a target. */
	bool			fires_sampling, fires, gated;
	/* As a target: the role of each slot for it; as a trigger: the number of its targets. */
	unsigned char		roles[NR_SLOTS];
	unsigned int		nr_links;
};

FIXTURE(gate_fuzz)
{
	struct gate_triggers	triggers;
	struct gate_pages	pages;
	struct puppet		puppet;
	bool			child_is_gone;
	unsigned int		seed;
	struct slot		slots[NR_SLOTS];
	unsigned int		seen[NR_ERRNOS];
	long			objects;
	int			pipe[2];
	unsigned long		watched;
};

static void on_trap(int signal)
{
}

FIXTURE_SETUP(gate_fuzz)
{
	const char *seed = getenv("GATE_FUZZ_SEED");
	struct sigaction action = { .sa_handler = on_trap };
	unsigned int i;

	self->triggers = (struct gate_triggers) { -1, -1 };
	if (triggers_open(_metadata, &self->triggers))
		return;
	ASSERT_EQ(0, pages_map(&self->pages, 4));
	ASSERT_EQ(0, pipe(self->pipe));
	ASSERT_EQ(0, sigaction(SIGTRAP, &action, NULL));
	puppet_fork(_metadata, &self->puppet);
	self->objects = count_events();
	self->seed = seed ? strtoul(seed, NULL, 0) : (unsigned int)clock_ns(CLOCK_REALTIME);
	for (i = 0; i < NR_SLOTS; i++)
		self->slots[i] = (struct slot) { .fd = -1 };
}

FIXTURE_TEARDOWN(gate_fuzz)
{
	triggers_close(&self->triggers);
}

static unsigned int below(FIXTURE_DATA(gate_fuzz) * self, unsigned int limit)
{
	return (rand_r(&self->seed) >> 4) % limit;
}

/* Pick an event that any machine has, or a simulated one. */
static void pick_kind(FIXTURE_DATA(gate_fuzz) * self, struct slot *slot)
{
	static const char *const tracepoints[] = {
		"syscalls/sys_enter_getuid", "syscalls/sys_enter_geteuid",
		"syscalls/sys_enter_getppid",
	};
	struct perf_event_attr *attr = &slot->attr;

	slot->fires_sampling = true;
	slot->gated = true;
	/* A driver that cannot sample rejects a period, and the slot stays empty. */
	switch (below(self, 16)) {
	case 0:
		*attr = gate_attr(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_BPF_OUTPUT);
		slot->fires_sampling = false;
		slot->gated = false;
		break;
	case 1:
		*attr = gate_attr(PERF_TYPE_SOFTWARE,
				  PERF_COUNT_SW_CPU_CLOCK + below(self, 2));
		break;
	case 2:
		*attr = gate_attr(PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS);
		break;
	case 3:
		*attr = gate_attr(PERF_TYPE_BREAKPOINT, 0);
		attr->bp_type = HW_BREAKPOINT_W;
		attr->bp_addr = (unsigned long)&self->watched;
		attr->bp_len = HW_BREAKPOINT_LEN_4;
		slot->fires = true;
		break;
	case 4:
		*attr = gate_attr(pmu_type("pmusim"), 0);
		break;
	case 5:
		*attr = gate_attr(pmu_type("pmusim_aux"), 0);
		slot->fires_sampling = false;
		break;
	case 6 ... 8:
		*attr = gate_attr(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS);
		slot->fires = true;
		break;
	default:
		*attr = gate_attr(PERF_TYPE_TRACEPOINT, tracepoint_id(tracepoints[below(self, 3)]));
		slot->fires = true;
		break;
	}
}

static int open_event(FIXTURE_DATA(gate_fuzz) * self, struct slot *slot)
{
	struct perf_event_attr *attr = &slot->attr;
	pid_t pid = 0;
	int cpu = -1;

	pick_kind(self, slot);
	if (slot != self->slots && !below(self, 6))
		slot->whose = CHILD;
	/*
	 * Leave most events without special attributes, so that they can be linked with
	 * each other.
	 */
	if (slot != self->slots && !below(self, 3)) {
		attr->inherit = !below(self, 3);
		attr->inherit_thread = attr->inherit && !below(self, 3);
		attr->remove_on_exec = !below(self, 3);
		attr->sigtrap = attr->remove_on_exec && !below(self, 2);
		attr->disabled = !below(self, 4);
		attr->exclude_kernel = !below(self, 4);
		attr->write_backward = !below(self, 4);
		/* Period of a clock in ns. */
		if (!below(self, 3))
			attr->sample_period = slot->fires ? 1 + below(self, 4) : NSEC_PER_MSEC;
		if (!below(self, 4))
			gate_attr_set_bit(attr, GATE_BIT_START_PAUSED);
		slot->whose = below(self, NR_WHOSE);
	}
	if (!below(self, 3))
		gate_attr_set_bit(attr, GATE_BIT_NEST);
	if (slot->whose == CHILD)
		pid = self->puppet.pid;
	else if (slot->whose != SELF)
		pid = -1;
	if (pid == -1)
		cpu = nth_cpu(slot->whose == SECOND_CPU && nth_cpu(1) >= 0);
	if (slot->whose == SECOND_CPU && nth_cpu(1) < 0)
		slot->whose = FIRST_CPU;
	slot->fires |= slot->fires_sampling && attr->sample_period;
	return gate_open(attr, pid, cpu);
}

static void refill(FIXTURE_DATA(gate_fuzz) * self, int i)
{
	struct slot *slot = &self->slots[i], *other;
	int j;

	/* Closing an event breaks its links. */
	for (j = 0; j < NR_SLOTS && slot->fd >= 0; j++) {
		other = &self->slots[j];
		other->nr_links -= !!slot->roles[j];
		other->roles[i] = 0;
	}
	if (slot->fd >= 0)
		close(slot->fd);
	*slot = (struct slot) {};
	if (!below(self, 16)) {
		slot->fd = dup(self->pipe[0]);
		return;
	}
	slot->fd = open_event(self, slot);
	slot->is_event = slot->fd >= 0;
}

static bool same_scope(const struct slot *a, const struct slot *b)
{
	return a->whose == b->whose && a->attr.inherit == b->attr.inherit &&
	       a->attr.inherit_thread == b->attr.inherit_thread &&
	       a->attr.remove_on_exec == b->attr.remove_on_exec &&
	       a->attr.sigtrap == b->attr.sigtrap;
}

/* List the errors that the documentation has for this call; 0 ends the list. */
static void reasons(FIXTURE_DATA(gate_fuzz) * self, int trigger, int target, bool start,
		    int *errors)
{
	const struct slot *a = &self->slots[trigger], *b = &self->slots[target];
	unsigned int role = start ? IS_STARTER : IS_STOPPER, nr = 0, i;
	bool linked = b->roles[trigger], twice = b->roles[trigger] & role;

	if (!b->is_event) {
		*errors++ = EBADF;
		*errors = 0;
		return;
	}
	if (a == b || !same_scope(a, b) || !a->fires)
		*errors++ = EINVAL;
	if (a->whose == CHILD && b->whose == CHILD && self->child_is_gone)
		*errors++ = ESRCH;
	if (!b->gated)
		*errors++ = EOPNOTSUPP;
	for (i = 0; i < NR_SLOTS; i++)
		nr += !!(b->roles[i] & role);
	if (twice)
		*errors++ = EEXIST;
	if (!twice && linked && b->attr.gate_nest)
		*errors++ = EINVAL;
	if (!twice && (nr == GATE_MAX_TARGETS || (!linked && a->nr_links == GATE_MAX_TARGETS)))
		*errors++ = ENOSPC;
	*errors = 0;
}

static bool is_among(int error, const int *errors)
{
	if (!error)
		return !*errors;
	for (; *errors; errors++) {
		if (*errors == error)
			return true;
	}
	return false;
}

static void note_link(FIXTURE_DATA(gate_fuzz) * self, int trigger, int target, bool start)
{
	unsigned char *roles = &self->slots[target].roles[trigger];

	self->slots[trigger].nr_links += !*roles;
	*roles |= start ? IS_STARTER : IS_STOPPER;
}

static void note_drop(FIXTURE_DATA(gate_fuzz) * self, int trigger, bool start)
{
	unsigned char role = start ? IS_STARTER : IS_STOPPER;
	struct slot *slot;

	for (slot = self->slots; slot < self->slots + NR_SLOTS; slot++) {
		self->slots[trigger].nr_links -= slot->roles[trigger] == role;
		slot->roles[trigger] &= ~role;
	}
}

static void note_clear(FIXTURE_DATA(gate_fuzz) * self, int target)
{
	struct slot *slot = &self->slots[target];
	unsigned int i;

	for (i = 0; i < NR_SLOTS; i++) {
		self->slots[i].nr_links -= !!slot->roles[i];
		slot->roles[i] = 0;
	}
}

/* A descriptor is an int, so its upper half is ignored. */
static unsigned long with_garbage(FIXTURE_DATA(gate_fuzz) * self, int fd)
{
	unsigned long arg = (unsigned int)fd;

	if (sizeof(arg) > sizeof(fd) && !below(self, 2))
		arg |= (unsigned long)rand_r(&self->seed) << 32;
	return arg;
}

/* Do SET_STARTER or SET_STOPPER. Returns the error, and the errors that are allowed. */
static int step_link(FIXTURE_DATA(gate_fuzz) * self, int trigger, int *errors)
{
	int target = below(self, NR_SLOTS), fd = self->slots[target].fd, error;
	bool start = below(self, 2);
	unsigned long cmd = start ? PERF_EVENT_IOC_SET_STARTER : PERF_EVENT_IOC_SET_STOPPER;

	if (!below(self, 500)) {
		error = -gate_ioctl(self->slots[trigger].fd, cmd, with_garbage(self, -1));
		*errors = 0;
		if (!error)
			note_drop(self, trigger, start);
		return error;
	}
	reasons(self, trigger, target, start, errors);
	if (fd < 0 || !below(self, 32)) {
		fd = below(self, 2) ? NO_FD + below(self, 1000) : -2 - below(self, 1000);
		errors[0] = EBADF;
		errors[1] = 0;
	}
	error = -gate_ioctl(self->slots[trigger].fd, cmd, with_garbage(self, fd));
	if (!error && fd == self->slots[target].fd)
		note_link(self, trigger, target, start);
	return error;
}

static int step_clear(FIXTURE_DATA(gate_fuzz) * self, int target, int *errors)
{
	unsigned long arg = below(self, 2) ? 0 : with_garbage(self, below(self, 3));
	int error = -gate_ioctl(self->slots[target].fd, PERF_EVENT_IOC_CLEAR_GATE, arg);

	errors[0] = arg ? EINVAL : 0;
	errors[1] = 0;
	if (!error)
		note_clear(self, target);
	return error;
}

/* Records can be checked by themselves. */
static int step_windows(FIXTURE_DATA(gate_fuzz) * self, const struct slot *slot, int *errors)
{
	struct perf_event_windows windows = {
		.size = sizeof(windows), .flags = below(self, 5), .measure = below(self, 4),
		.min = below(self, 3),
	};
	struct histogram histogram;
	__u64 sum = 0;
	int i, error;

	errors[0] = 0;
	if (below(self, 2)) {
		error = -gate_ioctl(slot->fd, PERF_EVENT_IOC_SET_WINDOWS,
				    (unsigned long)&windows);
		/* The model does not know which events have a gate. */
		if (windows.flags > 3 || windows.measure > 2)
			errors[0] = EINVAL;
		else if (slot->attr.type == (__u32)pmu_type("pmusim_aux"))
			errors[0] = EOPNOTSUPP;
		else if (error == EINVAL)
			errors[0] = EINVAL;
		errors[1] = 0;
		return error;
	}
	error = -get_windows(slot->fd, &histogram);
	if (error) {
		errors[0] = EINVAL;
		return error;
	}
	for (i = 0; i < NR_BUCKETS; i++)
		sum += histogram.bucket[i];
	return sum == histogram.windows && histogram.min <= histogram.max ? 0 : ERANGE;
}

/* Move the gates, and change and read events meanwhile. */
static int step_other(FIXTURE_DATA(gate_fuzz) * self, int fd, int *errors)
{
	__u64 period = 1 + below(self, 1000000);
	struct gate_value value;

	*errors = 0;
	switch (below(self, 8)) {
	case 0:
		gate_ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
		break;
	case 1:
		gate_ioctl(fd, PERF_EVENT_IOC_RESET, 0);
		break;
	case 2:
		gate_ioctl(fd, PERF_EVENT_IOC_PERIOD, (unsigned long)&period);
		break;
	case 3:
		gate_ioctl(fd, PERF_EVENT_IOC_REFRESH, 1);
		break;
	case 4:
		if (read(fd, &value, sizeof(value)) != sizeof(value))
			return errno;
		return value.gate_time <= value.running ? 0 : ERANGE;
	case 5:
		gate_ioctl(fd, PERF_EVENT_IOC_ENABLE, 0);
		break;
	default:
		run_windows(1, 1, 1);
		pages_touch(&self->pages, 1);
		__atomic_store_n(&self->watched, period, __ATOMIC_RELAXED);
	}
	return 0;
}

/* Do one call. Returns false if its result is not allowed. */
static bool step(FIXTURE_DATA(gate_fuzz) * self, unsigned int number)
{
	/*
	 * Use the first slot, which is never closed, one time in three, so that it
	 * reaches its limits.
	 */
	int i = below(self, 3) ? below(self, NR_SLOTS) : 0, error, errors[8] = {};
	unsigned int what = below(self, i ? 100 : 1000);
	struct slot *slot = &self->slots[i];

	if (what < 2 || slot->fd < 0 || (!i && !slot->fires)) {
		refill(self, i);
		return true;
	}
	if (!slot->is_event) {
		error = -gate_ioctl(slot->fd, PERF_EVENT_IOC_SET_STARTER, slot->fd);
		return error == ENOTTY;
	}
	if (what < 70 || !i)
		error = step_link(self, i, errors);
	else if (what < 74)
		error = step_clear(self, i, errors);
	else if (what < 82)
		error = step_windows(self, slot, errors);
	else
		error = step_other(self, slot->fd, errors);
	self->seen[error < NR_ERRNOS ? error : 0]++;
	if (is_among(error, errors))
		return true;
	printf("# call %u, slot %d: error %d, not of {%d %d %d}\n", number, i, error, errors[0],
	       errors[1], errors[2]);
	return false;
}

static void expect_exact_count(struct __test_metadata *const _metadata,
			       const struct gate_triggers *triggers)
{
	int target = gate_open_counter(_metadata, triggers, PERF_TYPE_TRACEPOINT,
				       tracepoint_id("syscalls/sys_enter_getppid"));

	run_windows(100, 2, 3);
	EXPECT_EQ(200, gate_read_count(target));
	EXPECT_EQ(100, gate_read(target).gate_count);
	close(target);
}

TEST_F_TIMEOUT(gate_fuzz, each_call_gives_what_the_documentation_says, 3600)
{
	static const int all[] = {
		0, EBADF, EINVAL, ESRCH, EOPNOTSUPP, EEXIST, ENOSPC,
	};
	const char *asked = getenv("GATE_FUZZ_STEPS");
	unsigned int nr = asked ? strtoul(asked, NULL, 0) : NR_STEPS, i, wrong = 0;

	TH_LOG("GATE_FUZZ_SEED=%u", self->seed);
	for (i = 0; i < nr && wrong < 10; i++) {
		wrong += !step(self, i);
		if (i == nr / 2) {
			puppet_end(_metadata, &self->puppet);
			self->child_is_gone = true;
		}
	}
	EXPECT_EQ(0, wrong);
	for (i = 0; i < ARRAY_SIZE(all); i++) {
		/* With fewer steps by request, not all errors need to occur. */
		if (nr >= NR_STEPS)
			EXPECT_LT(0, self->seen[all[i]]) TH_LOG("never %s", strerror(all[i]));
	}
	for (i = 0; i < NR_SLOTS; i++) {
		if (self->slots[i].fd >= 0)
			close(self->slots[i].fd);
	}
	expect_exact_count(_metadata, &self->triggers);
	if (self->objects < 0)
		TH_LOG("no " EVENT_SLAB "objects: events are not counted");
	else
		EXPECT_TRUE(events_go_down_to(self->objects));
}

TEST_HARNESS_MAIN
