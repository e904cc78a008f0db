// SPDX-License-Identifier: GPL-2.0
/*
 * pmusim selftests - files in sysfs and debugfs
 *
 * The tables are those of Documentation/admin-guide/perf/pmusim.rst.
 */
#define _GNU_SOURCE

#include <dirent.h>
#include <pthread.h>

#include "../kselftest_harness.h"
#include "pmusim_helpers.h"

#define SYSFS_DIR	"/sys/bus/event_source/devices"
#define RW		(PROT_READ | PROT_WRITE)
#define MAX_ENTRIES	16

/* Definitions for headers without gates */
#ifndef PERF_EVENT_IOC_CLEAR_GATE
#define PERF_EVENT_IOC_CLEAR_GATE	_IO('$', 14)
#endif

struct entry {
	const char	*name;
	const char	*text;
};

static const struct entry counter_format[] = {
	{ "event", "config:0-7" },
	{ "ctrmask", "config:8-15" },
	{ "width", "config:16-21" },
	{ "oflow", "config:24-26" },
	{ "rate", "config1:0-31" },
	{ "skid", "config1:32-39" },
	{ "fail_nth", "config2:0-15" },
	{}
};

static const struct entry aux_format[] = {
	{ "event", "config:0-7" },
	{ "align", "config:8-13" },
	{ "lat", "config:16-31" },
	{ "rate", "config1:0-31" },
	{ "chunk", "config1:32-63" },
	{ "inject", "config2:0-7" },
	{ "inject_nth", "config2:8-23" },
	{}
};

/* The first event does not exist for pmusim_unc. */
static const struct entry counter_events[] = {
	{ "switch", "event=0x03" },
	{ "manual", "event=0x00" },
	{ "clock", "event=0x01" },
	{ "clock.unit", "ns" },
	{ "timer", "event=0x02,rate=1000" },
	{ "fail", "event=0xff" },
	{}
};

static const struct entry aux_events[] = {
	{ "manual", "event=0x00" },
	{ "timer", "event=0x01,rate=1000" },
	{}
};

static const struct entry counter_caps[] = {
	{ "counters", "4" },
	{ "width", "48" },
	{}
};

static const char * const counter_control[] = {
	"capabilities", "fail_add", "fail_commit", "nr_counters", "validate_group",
	"counters", NULL
};

static const char * const aux_control[] = { "capabilities", "fail_add", NULL };

FIXTURE(files)
{
	int fd;
	struct sim_ring ring;
};

FIXTURE_VARIANT(files)
{
	const char *pmu;
	const struct entry *format;
	const struct entry *events;
	const struct entry *caps;
	const char * const *control;
	/* Capabilities of the PMU that can be set. */
	const char *settable;
};

FIXTURE_VARIANT_ADD(files, pmusim) {
	.pmu = "pmusim", .format = counter_format, .events = counter_events,
	.caps = counter_caps, .control = counter_control,
	.settable = "no_interrupt no_exclude gate_nmi gate_stop gate_overflow ",
};

FIXTURE_VARIANT_ADD(files, uncore) {
	.pmu = "pmusim_unc", .format = counter_format, .events = counter_events + 1,
	.caps = counter_caps, .control = counter_control,
	.settable = "gate_nmi gate_stop gate_overflow ",
};

#define FILES_AUX(name)							\
	.pmu = name, .format = aux_format, .events = aux_events,	\
	.control = aux_control, .settable = "gate_nmi gate_stop gate_overflow "

FIXTURE_VARIANT_ADD(files, aux) { FILES_AUX("pmusim_aux") };

FIXTURE_VARIANT_ADD(files, aux_nosg) { FILES_AUX("pmusim_aux_nosg") };

FIXTURE_VARIANT_ADD(files, aux_large) { FILES_AUX("pmusim_aux_large") };

FIXTURE_VARIANT_ADD(files, aux_excl) { FILES_AUX("pmusim_aux_excl") };

static int put_control(const char *pmu, const char *file, const char *text)
{
	char path[64];

	snprintf(path, sizeof(path), "%s/%s", pmu, file);
	return sim_put(path, "%s", text);
}

FIXTURE_SETUP(files)
{
	if (sim_skips(_metadata))
		return;
	self->fd = -1;
}

FIXTURE_TEARDOWN(files)
{
	if (self->fd >= 0)
		close(self->fd);
	ring_unmap(&self->ring);
	put_control(variant->pmu, "fail_add", "0");
	sim_defaults();
}

/* Read a whole file without its last newline; false if it cannot be read. */
static bool read_text(const char *path, char *text, size_t size)
{
	FILE *file = fopen(path, "r");
	size_t len;

	if (!file)
		return false;
	len = fread(text, 1, size - 1, file);
	fclose(file);
	text[len] = '\0';
	if (len && text[len - 1] == '\n')
		text[len - 1] = '\0';
	return true;
}

static unsigned int count_files(const char *path)
{
	struct dirent *entry;
	unsigned int nr = 0;
	DIR *dir = opendir(path);

	while (dir && (entry = readdir(dir)))
		nr += entry->d_name[0] != '.';
	if (dir)
		closedir(dir);
	return nr;
}

/* Check that the directory has exactly the entries of the table. */
static void expect_entries(struct __test_metadata *_metadata, const char *pmu,
			   const char *dir, const struct entry *entries)
{
	char path[128], text[128];
	unsigned int i;

	for (i = 0; entries[i].name; i++) {
		snprintf(path, sizeof(path), SYSFS_DIR "/%s/%s/%s", pmu, dir,
			 entries[i].name);
		ASSERT_TRUE(read_text(path, text, sizeof(text))) {
			TH_LOG("%s", path);
		}
		EXPECT_STREQ(entries[i].text, text) {
			TH_LOG("%s", path);
		}
	}
	snprintf(path, sizeof(path), SYSFS_DIR "/%s/%s", pmu, dir);
	EXPECT_EQ(i, count_files(path)) {
		TH_LOG("%s", path);
	}
}

TEST_F(files, sysfs_tells_what_is_documented)
{
	expect_entries(_metadata, variant->pmu, "format", variant->format);
	expect_entries(_metadata, variant->pmu, "events", variant->events);
	if (variant->caps)
		expect_entries(_metadata, variant->pmu, "caps", variant->caps);
}

TEST_F(files, each_event_of_sysfs_can_be_opened)
{
	const struct entry *event;
	struct perf_event_attr attr;
	unsigned int config, rate;

	for (event = variant->events; event->name; event++) {
		rate = 0;
		if (sscanf(event->text, "event=%x,rate=%u", &config, &rate) < 1)
			continue;
		attr = sim_attr(variant->pmu, config);
		attr.config1 = rate;
		self->fd = sim_open(&attr, -1, 0, -1);
		ASSERT_LE(0, self->fd) {
			TH_LOG("%s", event->name);
		}
		close(self->fd);
	}
	/* No other event exists. */
	attr = sim_attr(variant->pmu, 4);
	self->fd = sim_open(&attr, -1, 0, -1);
	EXPECT_EQ(-EINVAL, self->fd);
}

TEST_F(files, caps_tell_how_many_counters_there_are)
{
	char path[128], text[16];

	if (!variant->caps)
		return;
	snprintf(path, sizeof(path), SYSFS_DIR "/%s/caps/counters", variant->pmu);
	ASSERT_EQ(0, put_control(variant->pmu, "nr_counters", "7"));
	EXPECT_TRUE(read_text(path, text, sizeof(text)));
	EXPECT_STREQ("7", text);
	ASSERT_EQ(0, put_control(variant->pmu, "nr_counters", "4"));
	EXPECT_TRUE(read_text(path, text, sizeof(text)));
	EXPECT_STREQ("4", text);
}

TEST_F(files, each_pmu_has_its_control_files)
{
	char path[128];
	unsigned int i;

	for (i = 0; variant->control[i]; i++) {
		snprintf(path, sizeof(path), SIM_DIR "/%s/%s", variant->pmu,
			 variant->control[i]);
		EXPECT_EQ(0, access(path, F_OK)) {
			TH_LOG("%s", path);
		}
	}
	snprintf(path, sizeof(path), SIM_DIR "/%s", variant->pmu);
	EXPECT_EQ(i, count_files(path));
}

static int write_control(const char *pmu, const char *file, const void *from, size_t size)
{
	char path[128];
	int fd, ret;

	snprintf(path, sizeof(path), SIM_DIR "/%s/%s", pmu, file);
	fd = open(path, O_WRONLY);
	if (fd < 0)
		return -errno;
	ret = write(fd, from, size) < 0 ? -errno : 0;
	close(fd);
	return ret;
}

TEST_F(files, what_is_no_text_for_a_file_is_refused)
{
	void *nowhere = mmap(NULL, page_size(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char text[128];

	ASSERT_NE(MAP_FAILED, nowhere);
	memset(text, ' ', sizeof(text));
	/* Write the maximum length without content, and one byte more. */
	EXPECT_EQ(-EINVAL, write_control("cpu0", "tick", text, 63));
	EXPECT_EQ(-EINVAL, write_control("cpu0", "tick", text, 64));
	memcpy(text, "0 0", 3);
	EXPECT_EQ(0, write_control("cpu0", "tick", text, 63));
	EXPECT_EQ(-EINVAL, write_control("cpu0", "tick", text, 64));
	EXPECT_EQ(-EFAULT, write_control("cpu0", "tick", nowhere, 3));
	EXPECT_EQ(-EINVAL, write_control(variant->pmu, "capabilities", text, 0));
	EXPECT_EQ(-EINVAL, write_control(variant->pmu, "capabilities", text, 32));
	EXPECT_EQ(-EFAULT, write_control(variant->pmu, "capabilities", nowhere, 3));
	EXPECT_EQ(-EINVAL, write_control("", "log", "?", 1));
	munmap(nowhere, page_size());
}

TEST_F(files, counters_can_be_read_and_not_written)
{
	char path[128], text[16];
	void *mem;
	int fd;

	if (!variant->caps)
		return;
	snprintf(path, sizeof(path), SIM_DIR "/%s/nr_counters", variant->pmu);
	EXPECT_TRUE(read_text(path, text, sizeof(text)));
	EXPECT_STREQ("4", text);
	snprintf(path, sizeof(path), SIM_DIR "/%s/counters", variant->pmu);
	fd = open(path, O_RDWR);
	ASSERT_LE(0, fd);
	EXPECT_EQ(MAP_FAILED, mmap(NULL, page_size(), RW, MAP_SHARED, fd, 0));
	EXPECT_EQ(EACCES, errno);
	mem = mmap(NULL, page_size(), PROT_READ, MAP_SHARED, fd, 0);
	EXPECT_NE(MAP_FAILED, mem);
	EXPECT_NE(0, mprotect(mem, page_size(), RW));
	EXPECT_EQ(EACCES, errno);
	munmap(mem, page_size());
	close(fd);
}

/* Get the sign of a capability, 0 if the PMU does not list it. */
static char capability_sign(const char *pmu, const char *name)
{
	char path[128], text[256], *line;

	snprintf(path, sizeof(path), SIM_DIR "/%s/capabilities", pmu);
	if (!read_text(path, text, sizeof(text)))
		return 0;
	for (line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
		if (!strcmp(line + 1, name))
			return *line;
	}
	return 0;
}

static int set_capability(const char *pmu, char sign, const char *name)
{
	char text[32];

	snprintf(text, sizeof(text), "%c%s", sign, name);
	return put_control(pmu, "capabilities", text);
}

/* Capabilities of gates can be set if the kernel has gates. */
static bool is_settable(const char *settable, const char *name, bool gates)
{
	char word[32];

	if (!gates && !strncmp(name, "gate_", 5))
		return false;
	snprintf(word, sizeof(word), "%s ", name);
	return strstr(settable, word);
}

TEST_F(files, capabilities_are_set_where_there_is_something_to_set)
{
	static const char * const names[] = {
		"no_interrupt", "no_exclude", "gate_nmi", "gate_stop", "gate_overflow",
	};
	struct perf_event_attr attr = sim_attr(variant->pmu, 0);
	char sign, other;
	unsigned int i;
	bool gates;

	self->fd = sim_open(&attr, -1, 0, -1);
	ASSERT_LE(0, self->fd);
	gates = sim_ioctl(self->fd, PERF_EVENT_IOC_CLEAR_GATE, 0) != -ENOTTY;
	EXPECT_EQ(gates ? -EBUSY : -EOPNOTSUPP,
		  set_capability(variant->pmu, '+', "gate_nmi"));
	close(self->fd);
	self->fd = -1;

	for (i = 0; i < ARRAY_SIZE(names); i++) {
		sign = capability_sign(variant->pmu, names[i]);
		if (!is_settable(variant->settable, names[i], gates)) {
			EXPECT_EQ(0, sign);
			EXPECT_EQ(-EOPNOTSUPP, set_capability(variant->pmu, '+', names[i]));
			EXPECT_EQ(-EOPNOTSUPP, set_capability(variant->pmu, '-', names[i]));
			continue;
		}
		ASSERT_NE(0, sign);
		other = sign == '+' ? '-' : '+';
		ASSERT_EQ(0, set_capability(variant->pmu, other, names[i]));
		EXPECT_EQ(other, capability_sign(variant->pmu, names[i]));
		ASSERT_EQ(0, set_capability(variant->pmu, sign, names[i]));
		EXPECT_EQ(sign, capability_sign(variant->pmu, names[i]));
	}
}

/* Open a disabled event, with an area if its PMU has one. */
static int open_with_area(const char *pmu, struct sim_ring *ring, int start_paused)
{
	struct perf_event_attr attr = sim_attr(pmu, 0);
	int fd, ret;

	attr.disabled = 1;
	attr.aux_start_paused = start_paused;
	fd = sim_open(&attr, -1, 0, -1);
	if (fd < 0 || !strstr(pmu, "aux"))
		return fd;
	ret = ring_map(ring, fd, 4);
	if (!ret)
		ret = ring_map_aux(ring, 4 * page_size(), RW);
	return ret ? ret : fd;
}

TEST_F(files, as_many_additions_fail_as_asked_for)
{
	char path[128], text[16];
	unsigned int i, adds = 0;
	struct sim_log line;
	__u64 id;
	FILE *log;

	self->fd = open_with_area(variant->pmu, &self->ring, 0);
	ASSERT_LE(0, self->fd);
	id = sim_id(self->fd);
	ASSERT_EQ(0, put_control(variant->pmu, "fail_add", "2"));
	ASSERT_EQ(0, log_on());
	/* The core may try an event again before it is disabled. */
	for (i = 0; i < 4; i++) {
		ASSERT_EQ(0, sim_enable(self->fd));
		ASSERT_EQ(0, sim_disable(self->fd));
	}
	log = log_open();
	ASSERT_NE(NULL, log);
	while (log_next(log, &line)) {
		if (strcmp(line.op, "add") || line.id != id)
			continue;
		adds++;
		EXPECT_EQ(adds <= 2 ? -EAGAIN : 0, line.result);
	}
	fclose(log);
	EXPECT_LE(4, adds);
	snprintf(path, sizeof(path), SIM_DIR "/%s/fail_add", variant->pmu);
	EXPECT_TRUE(read_text(path, text, sizeof(text)));
	EXPECT_STREQ("0", text);

	/* No failure is left. One of the CPUs has the PMU. */
	ASSERT_EQ(0, sim_enable(self->fd));
	for (i = 0; i < (unsigned int)sysconf(_SC_NPROCESSORS_CONF); i++)
		sim_tick_pmu(variant->pmu, i, 0, 64);
	ASSERT_EQ(0, sim_disable(self->fd));
	EXPECT_EQ(64, self->ring.aux ? aux_head(&self->ring) : sim_count(self->fd));
}

/* A line of cpuN/state. */
struct state {
	int	counter;
	__u64	place;
	char	words[64];
};

/* State of an event on a CPU. A disabled PMU is never visible. */
static bool read_state(struct __test_metadata *_metadata, int cpu, const char *pmu,
		       int fd, struct state *state)
{
	char path[64], text[128], name[32];
	bool found = false;
	struct state line;
	FILE *file;
	__u64 id;
	int n;

	snprintf(path, sizeof(path), SIM_DIR "/cpu%d/state", cpu);
	file = fopen(path, "r");
	if (!file)
		return false;
	while (fgets(text, sizeof(text), file)) {
		line.words[0] = '\0';
		n = sscanf(text, "%31s %d %llu %llx%63[^\n]", name, &line.counter, &id,
			   &line.place, line.words);
		EXPECT_LE(4, n) {
			TH_LOG("%s", text);
		}
		if (n < 4 || id != sim_id(fd) || strcmp(name, pmu))
			continue;
		found = true;
		*state = line;
	}
	fclose(file);
	return found;
}

FIXTURE(state)
{
	struct sim_ring ring;
};

FIXTURE_SETUP(state)
{
	if (sim_skips(_metadata))
		return;
	ASSERT_EQ(0, run_on(0));
}

FIXTURE_TEARDOWN(state)
{
	ring_unmap(&self->ring);
	sim_defaults();
}

static int open_sampling(__u64 config, __u64 period)
{
	struct perf_event_attr attr = sim_attr("pmusim", config);

	attr.sample_period = period;
	attr.disabled = 1;
	return sim_open(&attr, -1, 0, -1);
}

TEST_F(state, it_has_the_register_of_each_counter)
{
	int fd = open_sampling(0, 100), narrow = open_sampling(SIM_MASK(4) | SIM_WIDTH(16), 0);
	struct state state;

	ASSERT_LE(0, fd);
	ASSERT_LE(0, narrow);
	EXPECT_FALSE(read_state(_metadata, 0, "pmusim", fd, &state));
	ASSERT_EQ(0, sim_enable(fd));
	ASSERT_EQ(0, sim_enable(narrow));

	ASSERT_TRUE(read_state(_metadata, 0, "pmusim", fd, &state));
	EXPECT_EQ(0, state.counter);
	EXPECT_EQ((1ULL << 48) - 100, state.place);
	EXPECT_STREQ(" started", state.words);
	ASSERT_TRUE(read_state(_metadata, 0, "pmusim", narrow, &state));
	EXPECT_EQ(2, state.counter);
	EXPECT_EQ(0x8001, state.place);
	EXPECT_STREQ(" started", state.words);

	/* The counter is in its second period, and the other one has its own count. */
	ASSERT_EQ(0, sim_tick(0, 0, 130));
	ASSERT_EQ(0, sim_tick(0, 2, 5));
	ASSERT_TRUE(read_state(_metadata, 0, "pmusim", fd, &state));
	EXPECT_EQ((1ULL << 48) - 70, state.place);
	ASSERT_TRUE(read_state(_metadata, 0, "pmusim", narrow, &state));
	EXPECT_EQ(0x8006, state.place);
	EXPECT_FALSE(read_state(_metadata, 1, "pmusim", fd, &state));
	EXPECT_FALSE(read_state(_metadata, 0, "pmusim_unc", fd, &state));

	ASSERT_EQ(0, sim_disable(fd));
	EXPECT_FALSE(read_state(_metadata, 0, "pmusim", fd, &state));
	EXPECT_TRUE(read_state(_metadata, 0, "pmusim", narrow, &state));
}

/* A throttled event keeps its counter, which counts nothing. */
TEST_F(state, a_throttled_event_is_not_started)
{
	__u64 end = now_ns() + 20000000000ULL;
	int fd = open_sampling(0, 1);
	struct state state;

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, sim_enable(fd));
	ASSERT_NE(0, max_sample_rate(1000));
	/* Each timer tick starts the event again. */
	do {
		ASSERT_EQ(0, sim_tick(0, 0, 100));
		ASSERT_TRUE(read_state(_metadata, 0, "pmusim", fd, &state));
		EXPECT_EQ(0, state.counter);
	} while (*state.words && now_ns() < end);
	EXPECT_STREQ("", state.words);
	while (!*state.words && now_ns() < end)
		ASSERT_TRUE(read_state(_metadata, 0, "pmusim", fd, &state));
	EXPECT_STREQ(" started", state.words);
}

#define NR_PENDING	20

static int go;

static void *tick_periods(void *arg)
{
	while (!__atomic_load_n(&go, __ATOMIC_ACQUIRE))
		sched_yield();
	return (void *)(long)sim_tick(0, 0, NR_PENDING * 100);
}

/* The worker that handles the overflow does not run while a real-time task does. */
TEST_F(state, an_overflow_that_waits_is_pending)
{
	const struct sched_param fifo = { .sched_priority = 1 }, other = {};
	__u64 end = now_ns() + 20000000000ULL;
	struct state state = {};
	pthread_t thread;
	void *ret;
	int fd;

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		SKIP(return, "one CPU");
	fd = open_sampling(SIM_OFLOW(SIM_TASK), 100);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, ring_map(&self->ring, fd, 4));
	ASSERT_EQ(0, sim_enable(fd));
	/* The thread is on the other CPU from its start. */
	ASSERT_EQ(0, run_on(1));
	ASSERT_EQ(0, pthread_create(&thread, NULL, tick_periods, NULL));
	ASSERT_EQ(0, run_on(0));
	ASSERT_EQ(0, sched_setscheduler(0, SCHED_FIFO, &fifo));
	__atomic_store_n(&go, 1, __ATOMIC_RELEASE);
	do {
		if (!read_state(_metadata, 0, "pmusim", fd, &state))
			break;
	} while (!strstr(state.words, "pending") && now_ns() < end);
	ASSERT_EQ(0, sched_setscheduler(0, SCHED_OTHER, &other));
	EXPECT_STREQ(" started pending", state.words);
	/* The counter has passed zero, and the next period has not begun. */
	EXPECT_EQ(0, state.place);

	pthread_join(thread, &ret);
	EXPECT_EQ(NULL, ret);
	ASSERT_TRUE(read_state(_metadata, 0, "pmusim", fd, &state));
	EXPECT_STREQ(" started", state.words);
	EXPECT_EQ((1ULL << 48) - 100, state.place);
	EXPECT_EQ(NR_PENDING * 100, sim_count(fd));
	EXPECT_EQ(NR_PENDING, ring_count(&self->ring, PERF_RECORD_SAMPLE));
}

TEST_F(state, it_has_the_place_of_a_producer)
{
	struct perf_event_attr attr = sim_attr("pmusim", 0);
	struct state state;
	int fd, resume;

	fd = open_with_area("pmusim_aux", &self->ring, 1);
	ASSERT_LE(0, fd);
	attr.sample_period = 100;
	attr.aux_resume = 1;
	resume = sim_open(&attr, -1, 0, fd);
	ASSERT_LE(0, resume);
	EXPECT_FALSE(read_state(_metadata, 0, "pmusim_aux", fd, &state));

	/* A transaction is open, and no data comes. */
	ASSERT_EQ(0, sim_enable(fd));
	ASSERT_EQ(0, sim_tick_pmu("pmusim_aux", 0, 0, 4096));
	ASSERT_TRUE(read_state(_metadata, 0, "pmusim_aux", fd, &state));
	EXPECT_EQ(0, state.counter);
	EXPECT_EQ(0, state.place);
	EXPECT_STREQ(" started paused", state.words);

	ASSERT_EQ(0, sim_tick(0, 0, 100));
	ASSERT_EQ(0, sim_tick_pmu("pmusim_aux", 0, 0, 4096));
	ASSERT_TRUE(read_state(_metadata, 0, "pmusim_aux", fd, &state));
	EXPECT_EQ(4096, state.place);
	EXPECT_STREQ(" started", state.words);
	EXPECT_FALSE(read_state(_metadata, 1, "pmusim_aux", fd, &state));
	EXPECT_FALSE(read_state(_metadata, 0, "pmusim_aux_nosg", fd, &state));

	ASSERT_EQ(0, sim_disable(fd));
	EXPECT_FALSE(read_state(_metadata, 0, "pmusim_aux", fd, &state));
}

#define NR_CALLS	17000

/* A test must not take an incomplete log for a complete one. */
TEST_F(state, a_log_without_room_tells_what_it_has_missed)
{
	unsigned int i, lines = 0, missed = 0;
	struct sim_log line;
	char text[256];
	int fd, status;
	FILE *log;
	pid_t pid;

	fd = sim_open_cpu(0, 0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, log_on());
	for (i = 0; i < NR_CALLS; i++)
		sim_count(fd);
	log = log_open();
	ASSERT_NE(NULL, log);
	while (fgets(text, sizeof(text), log)) {
		ASSERT_EQ(0, missed);
		if (sscanf(text, "missed %u", &missed) != 1)
			lines++;
	}
	EXPECT_LT(0, missed);
	EXPECT_EQ(NR_CALLS, lines + missed);

	rewind(log);
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		while (log_next(log, &line))
			;
		_exit(KSFT_PASS);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_TRUE(WIFEXITED(status));
	EXPECT_EQ(KSFT_FAIL, WEXITSTATUS(status));
	fclose(log);
}

TEST_HARNESS_MAIN
