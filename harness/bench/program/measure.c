// SPDX-License-Identifier: GPL-2.0
/* Measures an operation in batches and prints what it cost. */
#include "bench.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_ROUNDS	1000

static bool quick;

void measure_quickly(void)
{
	quick = true;
}

int rounds_of(int rounds)
{
	if (!rounds)
		rounds = 200;
	if (quick)
		rounds = rounds / 5 > 5 ? rounds / 5 : 5;
	return rounds < MAX_ROUNDS ? rounds : MAX_ROUNDS;
}

static int compare(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	return (a > b) - (a < b);
}

double median(double *values, int nr)
{
	qsort(values, nr, sizeof(*values), compare);
	return values[nr / 2];
}

/* This must not be specialised for one operation: the loop must cost the same for all. */
__noipa
static __u64 time_batch(const struct op *op, int batch)
{
	__u64 begin;
	int i;

	if (op->prepare)
		op->prepare(op->arg);
	begin = ticks();
	for (i = 0; i < batch; i++)
		op->run(op->arg);
	return ticks() - begin;
}

/*
 * Where one operation has several costs, as a fork has by the state of the page
 * allocator, the median of some of them is an estimate. In 19 of 20 cases it is
 * no farther off than the costs that lie a square root of their number to either
 * side of it in order. @error is the mean distance to these two, and nothing
 * where all costs are the same.
 */
static double middle_batch(const struct op *op, int batch, int rounds, double *error)
{
	static double batches[MAX_ROUNDS];
	int i, apart = 0;

	/* Warm up caches, page tables and the kernel's lazy allocations. */
	time_batch(op, batch);
	time_batch(op, batch);
	for (i = 0; i < rounds; i++)
		batches[i] = time_batch(op, batch);
	qsort(batches, rounds, sizeof(batches[0]), compare);
	i = rounds * (op->percentile ? op->percentile : 50) / 100;
	while ((apart + 1) * (apart + 1) <= rounds && apart < i)
		apart++;
	*error = (batches[i + apart] - batches[i - apart]) / 2;
	return batches[i];
}

static void nothing_run(void *arg)
{
}

/**
 * measure - cost of an operation without the loop around it
 * @op:		the operation
 *
 * The median drops the batches that a timer tick fell into.
 */
struct cost measure(const struct op *op)
{
	const struct op nothing = { .run = nothing_run };
	int batch = op->batch ? op->batch : 100;
	double loop, all, error;
	struct cost cost;

	loop = middle_batch(&nothing, batch, 51, &error);
	all = middle_batch(op, batch, rounds_of(op->rounds), &error);
	cost.insn = (all - loop) * ARCH_INSN_PER_TICK / batch;
	cost.resolution = (ARCH_TICK_ERROR + error) * ARCH_INSN_PER_TICK / batch;
	return cost;
}

struct cost minus(struct cost cost, struct cost base)
{
	cost.insn -= base.insn;
	cost.resolution += base.resolution;
	return cost;
}

struct cost divided(struct cost cost, double by)
{
	cost.insn /= by;
	cost.resolution /= by;
	return cost;
}

static void thousand_nops_run(void *arg)
{
	asm volatile(".rept 1000\n\tnop\n\t.endr");
}

/* A known number of instructions must cost that number, or no row means anything. */
void check_clock(void)
{
	const struct op nops = { .run = thousand_nops_run, .batch = 10, .rounds = 51 };
	struct cost cost = measure(&nops);

	if (cost.insn < 999.5 || cost.insn > 1000.5)
		report_wrong("1000 instructions take %.2f: the clock counts none", cost.insn);
}

static void print_row(const char *class, struct cost cost, const char *limit,
		      const char *operation, va_list args)
{
	printf("bench: row %s %.2f %s %.2f ", class, cost.resolution, limit, cost.insn);
	vprintf(operation, args);
	printf("\n");
	fflush(stdout);
}

void report(const char *class, struct cost cost, const char *operation, ...)
{
	va_list args;

	va_start(args, operation);
	print_row(class, cost, "-", operation, args);
	va_end(args);
}

void report_limit(const char *class, struct cost cost, double limit,
		  const char *operation, ...)
{
	char text[32];
	va_list args;

	snprintf(text, sizeof(text), "%.2f", limit);
	va_start(args, operation);
	print_row(class, cost, text, operation, args);
	va_end(args);
}

void report_absent(const char *class, int error, const char *operation, ...)
{
	va_list args;

	printf("bench: absent %s ", class);
	va_start(args, operation);
	vprintf(operation, args);
	va_end(args);
	printf(": %s\n", strerror(error));
	fflush(stdout);
}

void report_wrong(const char *text, ...)
{
	va_list args;

	printf("bench: wrong ");
	va_start(args, text);
	vprintf(text, args);
	va_end(args);
	printf("\n");
	fflush(stdout);
}

void report_fact(const char *name, long value)
{
	printf("bench: fact %s %ld\n", name, value);
	fflush(stdout);
}
