/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Functions that are easily taken for others, for gate_hazard.sh.
 *
 * gate_same CASE
 *
 * The program consists of this file with PART 0, and of two copies of it, which have one
 * name in two directories, with PART 1 and 2. With CONTEXTS or STACKS, part 0 is a program of
 * its own. Each window takes ten page faults, and a hundred follow it. The names of copies of a
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

/* dispatch() ends with a jump through a table, which calls another function. */
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

/* Two functions with the same code */
noinline void original(void);
noinline void original(void)
{
	touch(10);
	barrier();
}

void folded(void) __attribute__((alias("original")));

#ifdef __x86_64__
/* The kernel cannot probe the first instruction of this function. */
void locked(void);
static int locks __attribute__((used));
__asm__(".pushsection .text\n"
	".type locked, @function\n"
	"locked: lock incl locks(%rip)\n"
	"ret\n"
	".size locked, . - locked\n"
	".popsection");
/* A function that has another one within, which it calls */
void around(void);
void within(void);
__asm__(".pushsection .text\n"
	".globl around, within\n"
	".type around, @function\n"
	".type within, @function\n"
	"around: sub $8, %rsp\n"
	"mov $4, %edi\n"
	"call touch\n"
	"call within\n"
	"mov $1, %edi\n"
	"call touch\n"
	"jmp 1f\n"
	"within: sub $8, %rsp\n"
	"mov $5, %edi\n"
	"call touch\n"
	"1: add $8, %rsp\n"
	"ret\n"
	".size within, . - within\n"
	".size around, . - around\n"
	".popsection");
#else
static void locked(void)
{
}

static void around(void)
{
}
#endif

#ifdef CONTEXTS
#include <ucontext.h>

static ucontext_t to_main, to_side;
static char stack[256 * 1024];

/* Another context runs on the thread before this function returns. */
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

#ifdef STACKS
/* The same, by instructions that no symbol tells. STACKS says from where they load the stack. */
void switch_stacks(void **save, void **load) named("f");
void first_of_side(int unused) named("g");
void side_stacks(int unused) named("h");

#ifdef __x86_64__
__asm__(".pushsection .text\n"
	".type f, @function\n"
	"f: push %rbp; push %rbx; push %r12; push %r13; push %r14; push %r15\n"
#if STACKS == 1
	"mov (%rsi), %rax; mov %rsp, (%rdi); mov %rax, %rsp\n"
#elif STACKS == 2
	"mov %rsp, %rax; mov (%rsi), %rsp; mov %rax, (%rdi)\n"
#else
	"mov (%rsi), %rdx; mov %rsp, %rax; mov %rdx, %rsp; mov %rax, (%rdi)\n"
#endif
	"pop %r15; pop %r14; pop %r13; pop %r12; pop %rbx; pop %rbp; ret\n"
	".size f, . - f\n"
	".type g, @function\n"
	"g: call h\n"
	".size g, . - g\n"
	".popsection");
/* Offset of the return address from the stack pointer on a new stack, in words */
#define RETURN	6
#else
__asm__(".pushsection .text\n"
	".type f, @function\n"
	"f: mflr 0; std 0, 16(1); stdu 1, -192(1)\n"
	".irp n, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31\n"
	"std \\n, (\\n * 8 - 80)(1)\n"
	".endr\n"
#if STACKS == 2
	"mr 5, 1; ld 1, 0(4); std 5, 0(3)\n"
#else
	"ld 5, 0(4); std 1, 0(3); mr 1, 5\n"
#endif
	".irp n, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31\n"
	"ld \\n, (\\n * 8 - 80)(1)\n"
	".endr\n"
	"addi 1, 1, 192; ld 0, 16(1); mtlr 0; blr\n"
	".size f, . - f\n"
	".type g, @function\n"
	"g: bl h; nop\n"
	".size g, . - g\n"
	".popsection");
#define RETURN	26
#endif

static void *to_main, *to_side;
static void *stack[32 * 1024] __attribute__((aligned(16)));

noinline void yielder(void);
noinline void yielder(void)
{
	touch(5);
	switch_stacks(&to_side, &to_main);
	touch(5);
}

__attribute__((used)) void side_stacks(int unused)
{
	for (;;) {
		yielder();
		switch_stacks(&to_side, &to_main);
	}
}

static void side(void)
{
	if (!to_side) {
		to_side = &stack[32 * 1024 - 64];
		((void **)to_side)[RETURN] = (void *)first_of_side;
	}
	switch_stacks(&to_main, &to_side);
	touch(100);
	switch_stacks(&to_main, &to_side);
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
#if defined(CONTEXTS) || defined(STACKS)
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
		} else if (!strcmp(name, "around")) {
			around();
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
