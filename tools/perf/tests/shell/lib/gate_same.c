/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Functions that are easily taken for others, for gate_hazard.sh.
 *
 * gate_same CASE
 *
 * The program consists of this file with PART 0, and of two copies of it, which have one
 * name in two directories, with PART 1 and 2. With CONTEXTS, part 0 is a program of its
 * own. Each window takes ten page faults, and a hundred follow it. The names of copies of a
 * function depend on the compiler, so they are given here.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define noinline	__attribute__((noinline, noclone))
#define named(name)	__asm__(name)
#define barrier()	__asm__ volatile("" ::: "memory")

void touch(int pages);
void part1(const char *name);
void part2(const char *name);
void shared(void);

#if PART == 0
noinline void touch(int pages)
{
	long size = sysconf(_SC_PAGESIZE);
	char *mem = mmap(NULL, pages * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int i;

	if (mem == MAP_FAILED)
		exit(1);
	madvise(mem, pages * size, MADV_NOHUGEPAGE);
	for (i = 0; i < pages; i++)
		((volatile char *)mem)[i * size] = 1;
	munmap(mem, pages * size);
}

/* The last jump, by a table, calls another function. */
static noinline void five(int pages)
{
	touch(pages);
}

static noinline void other_five(int pages)
{
	touch(pages);
	barrier();
}

static void (*const handlers[])(int) = { five, other_five, five };

noinline void dispatch(unsigned int which, int pages);
noinline void dispatch(unsigned int which, int pages)
{
	if (which < 3) {
		handlers[which](pages);
		return;
	}
	touch(pages);
	barrier();
}

/* Two functions with one code */
noinline void original(void);
noinline void original(void)
{
	touch(10);
	barrier();
}

void folded(void) __attribute__((alias("original")));

#ifdef __x86_64__
/* The kernel cannot probe its first instruction. */
void locked(void);
static int locks __attribute__((used));
__asm__(".pushsection .text\n"
	".type locked, @function\n"
	"locked: lock incl locks(%rip)\n"
	"ret\n"
	".size locked, . - locked\n"
	".popsection");
#else
static void locked(void)
{
}
#endif

#ifdef CONTEXTS
#include <ucontext.h>

static ucontext_t to_main, to_side;
static char stack[256 * 1024];

/* Another context runs on the thread inside of it. */
noinline void yielder(void);
noinline void yielder(void)
{
	touch(5);
	swapcontext(&to_side, &to_main);
	touch(5);
}

static void side(void)
{
	getcontext(&to_side);
	to_side.uc_stack.ss_sp = stack;
	to_side.uc_stack.ss_size = sizeof(stack);
	to_side.uc_link = &to_main;
	makecontext(&to_side, yielder, 0);
	swapcontext(&to_main, &to_side);
	touch(100);
	swapcontext(&to_main, &to_side);
}
#endif

static noinline void use_stack(void)
{
	volatile char stack[256 * 1024];
	size_t i;

	for (i = 0; i < sizeof(stack); i += 1024)
		stack[i] = 1;
}

int main(int argc, char **argv)
{
	const char *name __attribute__((unused)) = argc > 1 ? argv[1] : "";
	unsigned int i;

	use_stack();
	if (mlockall(MCL_CURRENT))
		return 1;
	for (i = 0; i < 10; i++) {
#ifdef CONTEXTS
		side();
#else
		if (!strcmp(name, "dispatch")) {
			dispatch(i % 3, 10);
		} else if (!strcmp(name, "folded")) {
			original();
			touch(100);
			folded();
		} else if (!strcmp(name, "locked")) {
			locked();
		} else {
			part1(name);
			touch(100);
			part2(name);
		}
#endif
		touch(100);
	}
	puts("end");
	return 0;
}
#elif PART == 1
static noinline void parse(void)
{
	touch(5); touch(5);	/* These lines */
	barrier();
}

static noinline void twice(void)
{
	touch(10);
	barrier();
}

/* Another function and its copy for some callers */
static noinline void copied(void)
{
	touch(4); touch(6);
}

static noinline void copied_for_some(void) named("copied.constprop.0");
static noinline void copied_for_some(void)
{
	touch(6); touch(4);
}

/* A function whose beginning is inlined where the rest of it is called */
static noinline void split_rest(void) named("split.part.0");
static noinline void split_rest(void)
{
	touch(9); touch(1);
}

static noinline void split(int whole)
{
	if (whole)
		split_rest();
	barrier();
}

noinline void shared(void)
{
	touch(8); touch(2);
}

void part1(const char *name)
{
	if (!strcmp(name, "parse")) {
		parse();
	} else if (!strcmp(name, "twice")) {
		twice();
	} else if (!strcmp(name, "copied")) {
		copied();
		touch(100);
		copied_for_some();
	} else if (!strcmp(name, "split")) {
		split(1);
		touch(100);
		split_rest();
	} else {
		shared();
	}
}
#else
static noinline void parse(void)
{
	touch(50); touch(50);	/* or these lines */
	barrier();
}

static noinline void other_twice(void) named("twice.isra.0");
static noinline void other_twice(void)
{
	touch(30); touch(70);
	barrier();
}

static noinline void other_shared(void) named("shared.isra.0");
static noinline void other_shared(void)
{
	touch(40); touch(60);
}

void part2(const char *name)
{
	if (!strcmp(name, "parse"))
		parse();
	else if (!strcmp(name, "twice"))
		other_twice();
	else
		other_shared();
}
#endif
