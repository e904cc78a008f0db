// SPDX-License-Identifier: GPL-2.0
/*
 * fuzz - random calls on events, buffers and contexts, from processes that come and go
 *
 *	fuzz AREA SEED SECONDS
 *
 * AREA is gate, ring, aux, page, perfmon or all of them. Four processes of two threads,
 * half of them without privileges, open events of themselves, of each other and of CPUs,
 * and use them in every way that there is, even if the other thread may be closing the
 * descriptor. They fork, execute themselves and inherit what is open, migrate, are killed
 * and begin again; with AREA all, a CPU goes offline and comes back as well.
 *
 * SEED decides what each thread does and in which order, not how the threads interleave.
 * Defects show in the kernel's log, so run this with KASAN, lockdep and kmemleak. In the end
 * the program prints how many calls of each kind succeeded, to show that it was not idle.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "fuzz.h"

#define BOARD_FD	900
#define CPU1_ONLINE	"/sys/devices/system/cpu/cpu1/online"
#define ORDINARY_USER	1000

static const struct {
	const char	*name;
	unsigned int	areas;
} areas[] = {
	{ "gate", GATE }, { "ring", RING }, { "aux", AUX }, { "page", PAGE },
	{ "perfmon", PERFMON }, { "all", ALL },
};

static struct action actions[NR_ACTIONS];
static unsigned int nr_actions;

static int slots[NR_SLOTS];
static int pipes[2];

int write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	ssize_t ret;

	if (fd < 0)
		return -1;
	ret = write(fd, text, strlen(text));
	close(fd);
	return ret < 0 ? -1 : 0;
}

unsigned int pmu_type(const char *name)
{
	char path[128], text[16] = "";
	int fd;

	snprintf(path, sizeof(path), "/sys/bus/event_source/devices/%s/type", name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1U;
	if (read(fd, text, sizeof(text) - 1) < 1)
		text[0] = 0;
	close(fd);
	return strtoul(text, NULL, 0);
}

/* Close what was in the slot, even if another thread is about to use it. */
static void put_in(int *slot, int fd)
{
	int old = __atomic_exchange_n(slot, fd, __ATOMIC_RELAXED);

	if (old >= 0)
		close(old);
}

void put_fd(struct walk *walk, int fd)
{
	unsigned int first = once_in(walk, 16) ? 0 : NR_CONTEXTS;

	put_in(&walk->slots[first + below(walk, NR_SLOTS - first)], fd);
}

void put_context(struct walk *walk, int fd)
{
	put_in(&walk->slots[below(walk, NR_CONTEXTS)], fd);
}

static void add_actions(const struct action *more)
{
	while (more->name && nr_actions < NR_ACTIONS)
		actions[nr_actions++] = *more++;
}

static void collect_actions(void)
{
	add_actions(event_actions);
	add_actions(buffer_actions);
	add_actions(perfmon_actions);
}

static unsigned int pick_action(struct walk *walk)
{
	unsigned int sum = 0, i, at;

	for (i = 0; i < nr_actions; i++)
		sum += actions[i].areas & walk->areas ? actions[i].weight : 0;
	at = below(walk, sum);
	for (i = 0; ; i++) {
		unsigned int weight = actions[i].areas & walk->areas ? actions[i].weight : 0;

		if (at < weight)
			return i;
		at -= weight;
	}
}

static void step(struct walk *walk)
{
	unsigned int i = pick_action(walk);

	__atomic_fetch_add(&walk->board->calls[i], 1, __ATOMIC_RELAXED);
	if (actions[i].act(walk) >= 0)
		__atomic_fetch_add(&walk->board->done[i], 1, __ATOMIC_RELAXED);
}

static uint64_t mix(uint64_t seed, unsigned int a, unsigned int b)
{
	seed += 0x9e3779b97f4a7c15ULL * (a + 1) + 0xbf58476d1ce4e5b9ULL * b;
	next_random(&seed);
	return seed ?: 1;
}

static void *second_thread(void *arg)
{
	struct walk *walk = arg;

	while (!walk->board->over)
		step(walk);
	return NULL;
}

/* The child has neither the mappings of events nor the other threads. */
static void walk_child(struct walk *walk)
{
	unsigned int steps = 20 + below(walk, 200);

	memset(walk->maps, 0, sizeof(walk->maps));
	walk->depth++;
	walk->random = mix(walk->random, walk->depth, 0);
	while (steps-- && !walk->board->over)
		step(walk);
	_exit(0);
}

static void execute_again(struct walk *walk, unsigned int area, int number)
{
	char seed[24], at[16], which[16];

	snprintf(seed, sizeof(seed), "%llu", (unsigned long long)mix(walk->random, 1, 1));
	snprintf(at, sizeof(at), "%d", number);
	snprintf(which, sizeof(which), "%u", area);
	execl("/proc/self/exe", "fuzz", "--again", which, seed, at, NULL);
	_exit(2);
}

/* Adopt the descriptors that were open when this program executed itself. */
static void adopt_files(void)
{
	struct dirent *entry;
	unsigned int nr = 0;
	DIR *dir = opendir("/proc/self/fd");

	while (dir && nr < NR_SLOTS && (entry = readdir(dir))) {
		int fd = atoi(entry->d_name);

		if (fd > 2 && fd != dirfd(dir) && fd != BOARD_FD)
			slots[nr++] = fd;
	}
	if (dir)
		closedir(dir);
}

static void on_signal(int signal)
{
	(void)signal;
}

static void worker(struct board *board, unsigned int area, uint64_t seed, int number, bool again)
{
	static struct walk walks[2];
	struct sigaction quiet = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	struct rlimit few = { 256, 256 };
	unsigned int steps, i;
	pthread_t thread;

	for (i = 0; i < NR_SLOTS; i++)
		slots[i] = -1;
	if (again)
		adopt_files();
	sigaction(SIGTRAP, &quiet, NULL);
	sigaction(SIGIO, &quiet, NULL);
	setrlimit(RLIMIT_NOFILE, &few);
	if (pipe2(pipes, O_NONBLOCK | O_CLOEXEC))
		_exit(2);
	for (i = 0; i < 2; i++) {
		walks[i] = (struct walk) {
			.random = mix(seed, number, i), .areas = area, .board = board,
			.slots = slots, .pipe = pipes,
		};
	}
	if (number & 1 && !again && (setgid(ORDINARY_USER) || setuid(ORDINARY_USER)))
		_exit(2);
	/* The process of an ordinary user must be able to read its own /proc files, too. */
	prctl(PR_SET_DUMPABLE, 1);
	if (pthread_create(&thread, NULL, second_thread, &walks[1]))
		_exit(2);
	steps = 500 + below(&walks[0], 4000);
	while (steps-- && !board->over) {
		if (once_in(&walks[0], 200)) {
			if (!fork())
				walk_child(&walks[0]);
			while (waitpid(-1, NULL, WNOHANG) > 0)
				;
		}
		step(&walks[0]);
	}
	if (!board->over && once_in(&walks[0], 2))
		execute_again(&walks[0], area, number);
	_exit(0);
}

static pid_t start(struct board *board, unsigned int area, uint64_t seed, int number,
		   unsigned int generation)
{
	pid_t pid = fork();

	if (!pid) {
		setpgid(0, board->group);
		worker(board, area, mix(seed, number, generation), number, false);
	}
	__atomic_fetch_add(&board->processes, 1, __ATOMIC_RELAXED);
	setpgid(pid, board->group);
	return pid;
}

static void report(const struct board *board, const char *area, uint64_t seed)
{
	unsigned long calls = 0, done = 0;
	unsigned int i;

	for (i = 0; i < nr_actions; i++) {
		calls += board->calls[i];
		done += board->done[i];
		if (board->calls[i])
			printf("  %-18s %8lu calls, %8lu with success\n", actions[i].name,
			       board->calls[i], board->done[i]);
	}
	printf("fuzz %s, seed %llu: %lu calls, %lu with success, %lu processes\n", area,
	       (unsigned long long)seed, calls, done, board->processes);
}

static long now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Kill one process now and then, and begin those again that have ended. */
static void watch(struct board *board, unsigned int area, uint64_t seed, unsigned int seconds)
{
	struct walk own = { .random = mix(seed, 99, 99) };
	unsigned int generation = 0, turns = 0, i;
	long end = now_ms() + seconds * 1000L;
	pid_t pids[NR_WORKERS], pid;
	bool offline = false;

	/* All of them can be killed at once as long as their group is not empty. */
	pid = fork();
	if (!pid) {
		for (;;)
			pause();
	}
	setpgid(pid, pid);
	board->group = pid;
	for (i = 0; i < NR_WORKERS; i++) {
		pids[i] = start(board, area, seed, i, 0);
		board->pids[i] = pids[i];
	}
	while (now_ms() < end) {
		usleep(20000);
		while ((pid = waitpid(-1, NULL, WNOHANG)) > 0) {
			for (i = 0; i < NR_WORKERS; i++) {
				if (pids[i] != pid)
					continue;
				pids[i] = start(board, area, seed, i, ++generation);
				board->pids[i] = pids[i];
			}
		}
		if (once_in(&own, 20))
			kill(pids[below(&own, NR_WORKERS)], SIGKILL);
		if (once_in(&own, 100))
			write_text("/proc/sys/kernel/perf_event_paranoid",
				   once_in(&own, 2) ? "2" : "-1");
		if (area == ALL && ++turns % 16 == 0) {
			offline = !offline;
			write_text(CPU1_ONLINE, offline ? "0" : "1");
		}
	}
	board->over = true;
	usleep(200000);
	kill(-board->group, SIGKILL);
	while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
		;
	write_text(CPU1_ONLINE, "1");
}

int main(int argc, char **argv)
{
	struct board *board;
	unsigned int i;
	uint64_t seed;
	int fd;

	collect_actions();
	if (argc == 5 && !strcmp(argv[1], "--again")) {
		board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED, BOARD_FD, 0);
		if (board == MAP_FAILED)
			return 2;
		worker(board, atoi(argv[2]), strtoull(argv[3], NULL, 0), atoi(argv[4]), true);
	}
	for (i = 0; argc == 4 && i < sizeof(areas) / sizeof(*areas); i++) {
		if (strcmp(argv[1], areas[i].name))
			continue;
		seed = strtoull(argv[2], NULL, 0);
		fd = memfd_create("board", 0);
		if (fd < 0 || ftruncate(fd, sizeof(*board)) || dup2(fd, BOARD_FD) < 0)
			return 2;
		close(fd);
		board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED, BOARD_FD, 0);
		if (board == MAP_FAILED)
			return 2;
		/* Wait here for processes that have lost their parent. */
		prctl(PR_SET_CHILD_SUBREAPER, 1);
		write_text("/proc/sys/kernel/perf_event_paranoid", "-1");
		watch(board, areas[i].areas, seed, atoi(argv[3]));
		report(board, argv[1], seed);
		return 0;
	}
	fprintf(stderr, "usage: fuzz gate|ring|aux|page|perfmon|all SEED SECONDS\n");
	return 2;
}
