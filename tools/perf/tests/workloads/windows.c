/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A function that is slow at times and notes each of its calls, for tests of windows.
 *
 * perf test -w windows [CALLS [EVERY [THREADS]]]
 *
 * windows_parse() is called CALLS times and touches FAST_PAGES new pages, but SLOW_PAGES in
 * every EVERYth call. In the end the program prints the minimum, three percentiles and the
 * maximum of the page faults and of the nanoseconds of a call. With THREADS, that number of
 * threads does so, and the figures are those of all. The function makes the notes itself, so
 * probes add nothing to them, neither time nor page faults.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <linux/compiler.h>
#include <linux/kernel.h>
#include "../tests.h"

#define FAST_PAGES	4
#define SLOW_PAGES	200
#define MAX_CALLS	1000000

struct notes {
	uint64_t *faults;
	uint64_t *ns;
};

noinline void windows_parse(int pages, struct notes *mine, int nr);

static int nr_calls = 1000, every = 100, nr_threads;
static struct notes notes;

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ULL + ts.tv_nsec;
}

static uint64_t now_faults(void)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return usage.ru_minflt;
}

noinline void windows_parse(int pages, struct notes *mine, int nr)
{
	uint64_t faults = now_faults(), ns = now_ns();
	long size = sysconf(_SC_PAGESIZE);
	char *mem = mmap(NULL, pages * size, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int i;

	if (mem == MAP_FAILED)
		exit(1);
	madvise(mem, pages * size, MADV_NOHUGEPAGE);
	for (i = 0; i < pages; i++)
		((volatile char *)mem)[i * size] = 1;
	munmap(mem, pages * size);
	mine->ns[nr] = now_ns() - ns;
	mine->faults[nr] = now_faults() - faults;
}

static void *run(void *first)
{
	struct notes *mine = first;
	int i;

	for (i = 0; i < nr_calls; i++)
		windows_parse((i + 1) % every ? FAST_PAGES : SLOW_PAGES, mine, i);
	return NULL;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void print_notes(const char *what, uint64_t *values, int nr)
{
	const int percent[] = { 50, 90, 99 };
	unsigned int i;

	qsort(values, nr, sizeof(*values), compare);
	printf("%s %" PRIu64, what, values[0]);
	for (i = 0; i < ARRAY_SIZE(percent); i++)
		printf(" %" PRIu64, values[((int64_t)nr * percent[i] + 99) / 100 - 1]);
	printf(" %" PRIu64 "\n", values[nr - 1]);
}

static int windows(int argc, const char **argv)
{
	int *settings[] = { &nr_calls, &every, &nr_threads };
	struct notes first[64];
	pthread_t threads[64];
	int i, nr;

	for (i = 0; i < argc && i < (int)ARRAY_SIZE(settings); i++)
		*settings[i] = atoi(argv[i]);
	if (nr_calls < 1 || every < 1 || nr_threads < 0 || nr_threads > (int)ARRAY_SIZE(threads) ||
	    nr_calls > MAX_CALLS)
		return 1;

	nr = nr_calls * max(nr_threads, 1);
	notes.faults = calloc(nr, sizeof(*notes.faults));
	notes.ns = calloc(nr, sizeof(*notes.ns));
	if (!notes.faults || !notes.ns)
		return 1;
	/* Touch the notes and the code now: faults of their pages belong to no window. */
	for (i = 0; i < nr; i++) {
		((volatile uint64_t *)notes.faults)[i] = 1;
		((volatile uint64_t *)notes.ns)[i] = 1;
	}
	(void)*(volatile const char *)windows_parse;
	now_faults();
	now_ns();

	if (!nr_threads)
		run(&notes);
	for (i = 0; i < nr_threads; i++) {
		first[i].faults = notes.faults + i * nr_calls;
		first[i].ns = notes.ns + i * nr_calls;
		if (pthread_create(&threads[i], NULL, run, &first[i]))
			return 1;
	}
	for (i = 0; i < nr_threads; i++)
		pthread_join(threads[i], NULL);

	printf("calls %d\n", nr);
	print_notes("faults", notes.faults, nr);
	print_notes("ns", notes.ns, nr);
	free(notes.faults);
	free(notes.ns);
	return 0;
}

DEFINE_WORKLOAD(windows);
