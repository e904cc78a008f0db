/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Functions that take a known number of page faults, for tests of gates.
 *
 * perf test -w gate [CALLS [PAGES [DEPTH [THREADS]]]]
 *
 * gate_inside() and gate_outside() are called in turns, CALLS times each, and touch PAGES
 * new pages. Every other call of gate_inside() uses a pointer, which is another entry
 * point on some processors. The function recurses to a depth of DEPTH. With THREADS, that
 * number of threads does all of this, and each thread moves to the next CPU in the middle
 * of gate_inside().
 */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include <linux/compiler.h>
#include <linux/kernel.h>
#include "../tests.h"

noinline void gate_inside(int depth);
noinline void gate_outside(void);

static void (*volatile by_pointer)(int depth) = gate_inside;
static int nr_calls = 1000, nr_pages = 16, max_depth = 1, nr_threads, nr_cpus;

static void touch(int pages)
{
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
}

static void move(void)
{
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET((sched_getcpu() + 1) % nr_cpus, &cpus);
	sched_setaffinity(0, sizeof(cpus), &cpus);
}

noinline void gate_inside(int depth)
{
	touch(nr_pages / 2);
	if (nr_threads)
		move();
	touch(nr_pages - nr_pages / 2);
	if (depth > 1)
		gate_inside(depth - 1);
	/* This statement prevents a tail call. */
	asm volatile("" ::: "memory");
}

noinline void gate_outside(void)
{
	touch(nr_pages);
	asm volatile("" ::: "memory");
}

static void *run(void *unused __maybe_unused)
{
	int i;

	for (i = 0; i < nr_calls; i++) {
		if (i % 2)
			by_pointer(max_depth);
		else
			gate_inside(max_depth);
		gate_outside();
	}
	return NULL;
}

static int gate(int argc, const char **argv)
{
	int *settings[] = { &nr_calls, &nr_pages, &max_depth, &nr_threads };
	pthread_t threads[64];
	int i;

	for (i = 0; i < argc && i < (int)ARRAY_SIZE(settings); i++)
		*settings[i] = atoi(argv[i]);
	if (nr_pages < 2 || nr_threads > (int)ARRAY_SIZE(threads))
		return 1;

	nr_cpus = sysconf(_SC_NPROCESSORS_ONLN);
	/* Touch the code page of touch() now: its fault belongs to no window. */
	(void)*(volatile const char *)touch;
	if (!nr_threads)
		run(NULL);
	for (i = 0; i < nr_threads; i++) {
		if (pthread_create(&threads[i], NULL, run, NULL))
			return 1;
	}
	for (i = 0; i < nr_threads; i++)
		pthread_join(threads[i], NULL);
	return 0;
}

DEFINE_WORKLOAD(gate);
