// SPDX-License-Identifier: GPL-2.0
/*
 * perf gate selftests - the tracepoints of gates
 *
 * The tests read a trace instance of their own, which contains nothing else.
 */
#define _GNU_SOURCE

#include <sys/stat.h>

#include "../kselftest_harness.h"
#include "gate_family.h"

#define TRACING		"/sys/kernel/tracing/"
#define INSTANCE	TRACING "instances/gate_trace/"

#define MAX_LINES	512

enum what {
	LINK,
	UNLINK,
	OPEN,
	CLOSE,
};

struct line {
	enum what		what;
	pid_t			pid;
	unsigned long long	trigger;
	unsigned long long	gate;
	char			role[16];
};

FIXTURE(gate_trace)
{
	struct gate_triggers triggers;
	struct perf_event_attr attr;
	struct line lines[MAX_LINES];
	unsigned int nr;
	int target;
	__u64 starter_id, stopper_id, target_id;
};

static __u64 event_id(int fd)
{
	__u64 id = 0;

	ioctl(fd, PERF_EVENT_IOC_ID, &id);
	return id;
}

FIXTURE_SETUP(gate_trace)
{
	self->target = -1;
	if (triggers_open(_metadata, &self->triggers))
		return;
	if (mkdir(INSTANCE, 0700) && errno != EEXIST)
		SKIP(return, "no trace instance: %s", strerror(errno));
	ASSERT_LT(0, tracepoint_id("perf_gate/open"));
	self->attr = gate_attr(PERF_TYPE_TRACEPOINT,
			       tracepoint_id("syscalls/sys_enter_getppid"));
	self->target = gate_open(&self->attr, 0, -1);
	ASSERT_LE(0, self->target);
	self->starter_id = event_id(self->triggers.starter);
	self->stopper_id = event_id(self->triggers.stopper);
	self->target_id = event_id(self->target);
	ASSERT_TRUE(write_text(INSTANCE "trace", ""));
	ASSERT_TRUE(write_text(INSTANCE "events/perf_gate/enable", "1"));
}

FIXTURE_TEARDOWN(gate_trace)
{
	write_text(INSTANCE "events/perf_gate/enable", "0");
	rmdir(INSTANCE);
	close(self->target);
	triggers_close(&self->triggers);
}

/* "      comm-123     [000] ..... 12.345: open: trigger=1 gate=2" */
static bool parse(const char *text, struct line *line)
{
	static const char *const names[] = {
		[LINK] = ": link: ",
		[UNLINK] = ": unlink: ",
		[OPEN] = ": open: ",
		[CLOSE] = ": close: ",
	};
	const char *at = NULL, *dash;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(names) && !at; i++) {
		at = strstr(text, names[i]);
		line->what = i;
	}
	dash = strstr(text, " [");
	if (!at || !dash)
		return false;
	while (dash > text && *dash != '-')
		dash--;
	line->pid = atoi(dash + 1);
	line->role[0] = '\0';
	return sscanf(strstr(at, "trigger="), "trigger=%llu gate=%llu role=%15s",
		      &line->trigger, &line->gate, line->role) >= 2;
}

static unsigned int read_lines(struct line *lines)
{
	unsigned int nr = 0;
	char text[512];
	FILE *trace;

	trace = fopen(INSTANCE "trace", "r");
	if (!trace)
		return 0;
	while (nr < MAX_LINES && fgets(text, sizeof(text), trace))
		nr += text[0] != '#' && parse(text, &lines[nr]);
	fclose(trace);
	return nr;
}

TEST_F(gate_trace, links_are_told_with_their_roles)
{
	ASSERT_EQ(0, set_both(&self->triggers, self->target));
	ASSERT_EQ(0, set_starter(self->triggers.starter, -1));
	ASSERT_EQ(0, clear_gate(self->target));
	self->nr = read_lines(self->lines);
	/* The first link closes the gate. Then an event leaves, which does not move the gate. */
	ASSERT_EQ(5, self->nr);
	EXPECT_EQ(self->starter_id, self->lines[0].trigger | self->lines[1].trigger);
	EXPECT_EQ(CLOSE + LINK, self->lines[0].what + self->lines[1].what);
	EXPECT_EQ(LINK, self->lines[2].what);
	EXPECT_EQ(self->stopper_id, self->lines[2].trigger);
	EXPECT_STREQ("stopper", self->lines[2].role);
	EXPECT_EQ(UNLINK, self->lines[3].what);
	EXPECT_EQ(self->starter_id, self->lines[3].trigger);
	EXPECT_STREQ("starter", self->lines[3].role);
	/* The gate ends with its last member. */
	EXPECT_EQ(UNLINK, self->lines[4].what);
	EXPECT_EQ(self->stopper_id, self->lines[4].trigger);
}

TEST_F(gate_trace, each_move_is_told_once)
{
	unsigned int i;

	ASSERT_EQ(0, set_both(&self->triggers, self->target));
	write_text(INSTANCE "trace", "");
	for (i = 0; i < 20; i++) {
		window_open();
		/* These calls do not move the gate. */
		window_open();
		call_getppid(1);
		window_close();
		window_close();
	}
	self->nr = read_lines(self->lines);
	ASSERT_EQ(40, self->nr);
	for (i = 0; i < self->nr; i++) {
		EXPECT_EQ(i & 1 ? CLOSE : OPEN, self->lines[i].what);
		EXPECT_EQ(i & 1 ? self->stopper_id : self->starter_id, self->lines[i].trigger);
		EXPECT_EQ(self->target_id, self->lines[i].gate);
		EXPECT_EQ(getpid(), self->lines[i].pid);
	}
}

TEST_F(gate_trace, disabled_trigger_tells_nothing)
{
	ASSERT_EQ(0, set_both(&self->triggers, self->target));
	ASSERT_EQ(0, gate_ioctl(self->triggers.starter, PERF_EVENT_IOC_DISABLE, 0));
	write_text(INSTANCE "trace", "");
	run_windows(5, 1, 1);
	EXPECT_EQ(0, read_lines(self->lines));
}

TEST_F(gate_trace, child_is_told_by_the_numbers_of_its_parent)
{
	unsigned int i, opened = 0;
	pid_t child;

	close(self->target);
	triggers_inherit(_metadata, &self->triggers);
	self->starter_id = event_id(self->triggers.starter);
	self->attr.inherit = 1;
	self->target = gate_open(&self->attr, 0, -1);
	ASSERT_LE(0, self->target);
	self->target_id = event_id(self->target);
	ASSERT_EQ(0, set_both(&self->triggers, self->target));
	write_text(INSTANCE "trace", "");
	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		run_windows(3, 1, 1);
		_exit(0);
	}
	wait_for_success(_metadata, child);
	self->nr = read_lines(self->lines);
	for (i = 0; i < self->nr; i++) {
		EXPECT_EQ(self->target_id, self->lines[i].gate);
		if (self->lines[i].what == OPEN) {
			EXPECT_EQ(self->starter_id, self->lines[i].trigger);
			EXPECT_EQ(child, self->lines[i].pid);
			opened++;
		}
	}
	EXPECT_EQ(3, opened);
}

/* A gate keeps its name after its first member is freed. */
TEST_F(gate_trace, gate_keeps_its_name_without_its_first_event)
{
	unsigned int i, opened = 0;
	struct puppet child;
	int member;

	close(self->target);
	triggers_inherit(_metadata, &self->triggers);
	self->attr.inherit = 1;
	self->target = gate_open(&self->attr, 0, -1);
	ASSERT_LE(0, self->target);
	self->target_id = event_id(self->target);
	member = gate_open(&self->attr, 0, -1);
	ASSERT_LE(0, member);
	ASSERT_EQ(0, set_both(&self->triggers, self->target));
	ASSERT_EQ(0, join_gate(member, self->target));
	puppet_fork(_metadata, &child);
	ASSERT_EQ(0, close(self->target));
	/* Wait for more than two grace periods. */
	usleep(200000);
	write_text(INSTANCE "trace", "");
	ASSERT_TRUE(tell(&child, "ogcogc"));
	ASSERT_EQ(0, close(member));
	self->nr = read_lines(self->lines);
	for (i = 0; i < self->nr; i++) {
		EXPECT_EQ(self->target_id, self->lines[i].gate);
		opened += self->lines[i].what == OPEN;
	}
	EXPECT_EQ(2, opened);
	puppet_end(_metadata, &child);
	self->target = -1;
}

/* A gate that watches gates must not cause endless recursion. */
TEST_F(gate_trace, gate_of_a_gate_tracepoint_comes_to_an_end)
{
	int watcher = open_tracepoint("perf_gate/open");

	ASSERT_LE(0, watcher);
	ASSERT_EQ(0, set_both(&self->triggers, self->target));
	ASSERT_EQ(0, set_starter(watcher, watcher) == -EINVAL ? 0 : -1);
	ASSERT_EQ(0, set_starter(self->triggers.starter, watcher));
	ASSERT_EQ(0, set_stopper(watcher, watcher) == -EINVAL ? 0 : -1);
	ASSERT_EQ(0, set_stopper(watcher, self->triggers.stopper));
	run_windows(10, 2, 3);
	EXPECT_LE(2, gate_read_count(self->target));
	close(watcher);
}

TEST_HARNESS_MAIN
