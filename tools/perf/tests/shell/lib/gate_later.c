/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A program that loads a library which switches contexts, for gate_hazard.sh.
 *
 * gate_later [LIBRARY [wait]]
 *
 * Each of ten calls of waiter() takes ten page faults. With the library another context takes a
 * hundred while each of them waits. It waits for a line of input before, if told so. With -DLIBRARY
 * this file is the library.
 */
#ifdef LIBRARY
#include <ucontext.h>

static ucontext_t to_main, to_side;
static char stack[256 * 1024];

void later_yield(void);
void later_yield(void)
{
	swapcontext(&to_side, &to_main);
}

void later_run(void (*function)(void), void (*meanwhile)(void));
void later_run(void (*function)(void), void (*meanwhile)(void))
{
	getcontext(&to_side);
	to_side.uc_stack.ss_sp = stack;
	to_side.uc_stack.ss_size = sizeof(stack);
	to_side.uc_link = &to_main;
	makecontext(&to_side, function, 0);
	swapcontext(&to_main, &to_side);
	meanwhile();
	swapcontext(&to_main, &to_side);
}
#else
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define noinline	__attribute__((noinline, noclone))

static void (*give_way)(void);

static noinline void touch(int pages)
{
	long size = sysconf(_SC_PAGESIZE);
	char *mem = mmap(NULL, pages * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			 -1, 0);
	int i;

	if (mem == MAP_FAILED)
		exit(1);
	madvise(mem, pages * size, MADV_NOHUGEPAGE);
	for (i = 0; i < pages; i++)
		((volatile char *)mem)[i * size] = 1;
	munmap(mem, pages * size);
}

noinline void waiter(void);
noinline void waiter(void)
{
	touch(5);
	if (give_way)
		give_way();
	touch(5);
}

static void other(void)
{
	touch(100);
}

int main(int argc, char **argv)
{
	void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
	void (*run)(void (*function)(void), void (*meanwhile)(void)) = NULL;
	int i;

	if (argc > 1) {
		if (!library)
			return 1;
		*(void **)&give_way = dlsym(library, "later_yield");
		*(void **)&run = dlsym(library, "later_run");
		if (!give_way || !run)
			return 1;
	}
	if (argc > 2) {
		puts("ready");
		fflush(stdout);
		getchar();
	}
	for (i = 0; i < 10; i++) {
		if (run)
			run(waiter, other);
		else
			waiter();
	}
	puts("end");
	return 0;
}
#endif
