// SPDX-License-Identifier: GPL-2.0
/*
 * perf gate selftests - the tracepoints that tell what happens to gates
 */
#define _GNU_SOURCE

#include <fcntl.h>

#include "../kselftest_harness.h"
#include "gate_helpers.h"

#define INSTANCE	"/sys/kernel/tracing/instances/gate_trace"

FIXTURE(gate_trace)
{
	struct gate_triggers triggers;
	unsigned long long starter_id, stopper_id, target_id;
	int target;
};

static int write_to(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_TRUNC);
	int ret;

	if (fd < 0)
		return -1;
	ret = write(fd, text, strlen(text)) < 0 ? -1 : 0;
	close(fd);
	return ret;
}

static unsigned long long id_of(int fd)
{
	__u64 id = 0;

	ioctl(fd, PERF_EVENT_IOC_ID, &id);
	return id;
}

FIXTURE_SETUP(gate_trace)
{
	if (triggers_open(_metadata, &self->triggers))
		return;
	if (mkdir(INSTANCE, 0700))
		SKIP(return, "no instance of tracefs: %s", strerror(errno));
	ASSERT_EQ(0, write_to(INSTANCE "/events/perf_gate/enable", "1"));
	self->target = gate_open_self(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS);
	ASSERT_LE(0, self->target);
	self->starter_id = id_of(self->triggers.starter);
	self->stopper_id = id_of(self->triggers.stopper);
	self->target_id = id_of(self->target);
}

FIXTURE_TEARDOWN(gate_trace)
{
	triggers_close(&self->triggers);
	rmdir(INSTANCE);
}

/* How often the trace has a line of this task with @text, which is cleared. */
static int count_lines(const char *text)
{
	char line[512], task[32];
	FILE *file;
	int n = 0;

	snprintf(task, sizeof(task), "-%d ", getpid());
	file = fopen(INSTANCE "/trace", "r");
	if (!file)
		return -1;
	while (fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\n")] = ' ';
		n += strstr(line, task) && strstr(line, text);
	}
	fclose(file);
	return n;
}

#define EXPECT_LINES(n, fmt, ...) ({					\
	char text[128];							\
									\
	snprintf(text, sizeof(text), fmt " ", __VA_ARGS__);		\
	EXPECT_EQ(n, count_lines(text)) { TH_LOG("%s", text); }	\
})

TEST_F(gate_trace, each_transition_names_its_trigger)
{
	int i;

	ASSERT_EQ(0, set_both(&self->triggers, self->target));
	for (i = 0; i < 5; i++) {
		window_open();
		window_open();
		window_close();
		window_close();
	}
	EXPECT_LINES(5, " open: trigger=%llu target=%llu", self->starter_id, self->target_id);
	EXPECT_LINES(5, " close: trigger=%llu target=%llu", self->stopper_id, self->target_id);
}

TEST_F(gate_trace, links_tell_their_role)
{
	ASSERT_EQ(0, set_both(&self->triggers, self->target));
	EXPECT_LINES(1, " link: trigger=%llu target=%llu role=starter", self->starter_id,
		     self->target_id);
	EXPECT_LINES(1, " link: trigger=%llu target=%llu role=stopper", self->stopper_id,
		     self->target_id);
	EXPECT_LINES(1, " close: trigger=0 target=%llu", self->target_id);

	ASSERT_EQ(0, set_starter(self->triggers.starter, -1));
	EXPECT_LINES(1, " unlink: trigger=%llu target=%llu role=starter", self->starter_id,
		     self->target_id);
	EXPECT_LINES(0, " open: trigger=0 target=%llu", self->target_id);

	ASSERT_EQ(0, set_stopper(self->triggers.stopper, -1));
	EXPECT_LINES(1, " unlink: trigger=%llu target=%llu role=stopper", self->stopper_id,
		     self->target_id);
	EXPECT_LINES(1, " open: trigger=0 target=%llu", self->target_id);
}

TEST_F(gate_trace, trigger_that_does_not_fire_leaves_no_line)
{
	ASSERT_EQ(0, set_both(&self->triggers, self->target));
	ASSERT_EQ(0, ioctl(self->triggers.starter, PERF_EVENT_IOC_DISABLE, 0));
	window_open();
	window_close();
	EXPECT_LINES(0, " open: trigger=%llu target=%llu", self->starter_id, self->target_id);
}

TEST_HARNESS_MAIN
