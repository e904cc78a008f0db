/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Functions that are entered and left in unusual ways, for gate_hazard.sh.
 *
 * gate_hazard CASE [NUMBER]
 *
 * Each window takes a known number of page faults, ten unless its function tells another
 * number, and a hundred follow it. The file compiles as C and as C++; exceptions and
 * overloads need C++.
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#if __has_include("../../../../lib/perf/include/perf/mark.h")
#include "../../../../lib/perf/include/perf/mark.h"
#else
#include <perf/mark.h>
#endif

#define noinline	__attribute__((noinline, noclone))
#define barrier()	__asm__ volatile("" ::: "memory")
#ifdef __cplusplus
#define FUNCTION	extern "C" noinline
#else
#define FUNCTION	noinline
#endif
#define NR_SLEEPERS	40
#define NR_WORKERS	4

extern char **environ;

static jmp_buf env;
static char *self;
static int pipe_in[2];
static pthread_barrier_t all_in;
static volatile int always = 1;

static noinline void touch(int pages)
{
	long size = sysconf(_SC_PAGESIZE);
	char *mem = (char *)mmap(NULL, pages * size, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int i;

	if (mem == (char *)MAP_FAILED)
		exit(1);
	madvise(mem, pages * size, MADV_NOHUGEPAGE);
	for (i = 0; i < pages; i++)
		((volatile char *)mem)[i * size] = 1;
	munmap(mem, pages * size);
}

/* Touch one page in each call. */
FUNCTION void deep(int depth);
noinline void deep(int depth)
{
	touch(1);
	if (depth > 1)
		deep(depth - 1);
	barrier();
}

FUNCTION void jumper(void);
noinline void jumper(void)
{
	touch(10);
	if (always)
		longjmp(env, 1);
}

/* A tail call: the second half of the window belongs to another function. */
FUNCTION void tail(void);
FUNCTION void five(void);
noinline void five(void)
{
	touch(5);
	barrier();
}

noinline void tail(void)
{
	touch(5);
	five();
}

/* The function has several returns and a jump table. */
FUNCTION int chooser(int which);
noinline int chooser(int which)
{
	if (!which)
		return 0;
	touch(9);
	switch (which % 7) {
	case 0:
		touch(1);
		return 7;
	case 1:
		touch(1);
		return 3;
	case 2:
		five();
		return 9;
	case 3:
		touch(1);
		return 4;
	case 4:
		touch(2);
		return 8;
	case 5:
		touch(1);
		return 6;
	default:
		touch(1);
		return which;
	}
}

FUNCTION void spawner(void *(*function)(void *));
noinline void spawner(void *(*function)(void *))
{
	pthread_t thread;

	touch(5);
	if (pthread_create(&thread, NULL, function, NULL))
		exit(1);
	pthread_join(thread, NULL);
	touch(5);
}

FUNCTION void forker(void);
noinline void forker(void)
{
	pid_t pid;

	touch(5);
	pid = fork();
	if (pid > 0)
		waitpid(pid, NULL, 0);
	touch(5);
	if (!pid)
		_exit(0);
}

/* Both processes leave it: the child by its return, the parent perhaps by longjmp(). */
FUNCTION pid_t splitter(int leave);
noinline pid_t splitter(int leave)
{
	pid_t pid;

	touch(5);
	pid = fork();
	if (pid > 0)
		waitpid(pid, NULL, 0);
	touch(5);
	if (pid && leave)
		longjmp(env, 1);
	return pid;
}

/* The parent returns, and the child leaves it by longjmp(). */
FUNCTION void loser(void);
noinline void loser(void)
{
	pid_t pid;

	touch(5);
	pid = fork();
	if (!pid)
		longjmp(env, 1);
	waitpid(pid, NULL, 0);
	touch(5);
}

static noinline void execute(void)
{
	char name[] = "job";
	char *const args[] = { self, name, NULL };

	execv(self, args);
	_exit(1);
}

enum how { BY_FORK, BY_VFORK, BY_SPAWN };

/* Another program runs while it waits, or in its place. */
FUNCTION void executor(enum how how, int depth);
noinline void executor(enum how how, int depth)
{
	char name[] = "job";
	char *const args[] = { self, name, NULL };
	pid_t pid;

	if (depth > 1) {
		executor(how, depth - 1);
		barrier();
		return;
	}
	PERF_MARK_BEGIN(executor);
	touch(5);
	switch (how) {
	case BY_SPAWN:
		if (posix_spawn(&pid, self, NULL, NULL, args, environ))
			exit(1);
		break;
	case BY_VFORK:
		pid = vfork();
		if (!pid)
			execute();
		break;
	default:
		pid = fork();
		if (!pid)
			execute();
		break;
	}
	waitpid(pid, NULL, 0);
	touch(5);
	PERF_MARK_END(executor);
}

static void *jump(void *unused)
{
	jmp_buf here;

	if (!setjmp(here))
		longjmp(here, 1);
	return unused;
}

/* A thread jumps, and a process jumps before it executes a program. */
static void jump_outside(void)
{
	pthread_t thread;
	pid_t pid;

	if (pthread_create(&thread, NULL, jump, NULL))
		exit(1);
	pthread_join(thread, NULL);
	pid = fork();
	if (!pid) {
		jump(NULL);
		execute();
	}
	waitpid(pid, NULL, 0);
}

FUNCTION void replaced(void);
noinline void replaced(void)
{
	touch(10);
	if (always)
		execute();
}

FUNCTION void *quitter(void *unused);
noinline void *quitter(void *unused)
{
	touch(10);
	if (always)
		pthread_exit(NULL);
	return unused;
}

/* A signal interrupts it, and the handler calls it again, or leaves it by siglongjmp(). */
static sigjmp_buf signal_env;
static volatile int leave_handler;
FUNCTION void raiser(int depth);

static void handler(int unused)
{
	(void)unused;
	if (leave_handler)
		siglongjmp(signal_env, 1);
	raiser(0);
}

noinline void raiser(int depth)
{
	touch(5);
	if (depth)
		raise(SIGUSR1);
	barrier();
}

FUNCTION void leaver(void);
noinline void leaver(void)
{
	touch(10);
	if (always)
		exit(0);
}

FUNCTION void napper(void);
noinline void napper(void)
{
	touch(5);
	usleep(200000);
	touch(5);
	barrier();
}

FUNCTION void job(void);
noinline void job(void)
{
	touch(10);
	barrier();
}

static inline __attribute__((always_inline)) void everywhere(void)
{
	touch(5);
	touch(5);
}

FUNCTION void one_place(void);
noinline void one_place(void)
{
	touch(50);
	everywhere();
	touch(50);
}

/* Inlined in main(), and called through a pointer */
static inline __attribute__((always_inline)) void partly(void)
{
	touch(5);
	touch(5);
	barrier();
}

static void (*volatile partly_pointer)(void) = partly;

/* A loop without a call, which is inlined beside others */
static inline __attribute__((always_inline)) void fill(volatile char *mem, long size, int nr)
{
	int i;

	for (i = 0; i < nr; i++)
		mem[i * size] = 1;
}

FUNCTION void filler(int nr);
noinline void filler(int nr)
{
	long size = sysconf(_SC_PAGESIZE);
	volatile char *mem = (volatile char *)mmap(NULL, 20 * size, PROT_READ | PROT_WRITE,
						   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int i;

	if (mem == (volatile char *)MAP_FAILED)
		exit(1);
	madvise((void *)mem, 20 * size, MADV_NOHUGEPAGE);
	if (nr)
		fill(mem, size, nr);
	for (i = 10; i < 20; i++)
		mem[i * size] = 1;
	munmap((void *)mem, 20 * size);
}

/* The compiler turns switch() into a table of jumps, which perf does not follow. */
static inline __attribute__((always_inline)) void hider(int which)
{
	switch (which) {
	case 0:
		touch(1);
		break;
	case 1:
		touch(2);
		five();
		break;
	case 2:
		five();
		break;
	case 3:
		touch(4);
		touch(3);
		break;
	case 4:
		touch(9);
		five();
		break;
	case 5:
		five();
		five();
		break;
	default:
		touch(3);
		five();
		break;
	}
}

FUNCTION void hidden(int which);
noinline void hidden(int which)
{
	touch(10);
	hider(which);
	touch(10);
	barrier();
}

/* A region that has two ends, one of which is on an early way out */
FUNCTION void marks(int early);
noinline void marks(int early)
{
	touch(50);
	PERF_MARK_BEGIN(region);
	touch(9);
	if (early) {
		touch(1);
		PERF_MARK_END(region);
		return;
	}
	touch(1);
	PERF_MARK_END(region);
	touch(40);
	barrier();
}

FUNCTION void lines(void);
noinline void lines(void)
{
	touch(50);
	touch(5);	/* The lines begin, */
	touch(5);	/* and end. */
	touch(40);
	barrier();
}

#ifdef __cplusplus
static noinline void raise_exception(void)
{
	if (always)
		throw 1;
}

/* The parent returns, and the child leaves it by an exception. */
FUNCTION void throwing_parent(void);
noinline void throwing_parent(void)
{
	pid_t pid;

	touch(5);
	pid = fork();
	if (!pid)
		raise_exception();
	waitpid(pid, NULL, 0);
	touch(5);
	barrier();
}

FUNCTION void thrower(int depth);
noinline void thrower(int depth)
{
	touch(10);
	if (depth > 1)
		thrower(depth - 1);
	if (always)
		throw 1;
}

FUNCTION void catcher(void);
noinline void catcher(void)
{
	try {
		thrower(1);
	} catch (int) {
		barrier();
	}
	barrier();
}

namespace app {
noinline void parse(int n);
noinline void parse(int n)
{
	touch(10);
	(void)n;
}

noinline void parse(double n);
noinline void parse(double n)
{
	touch(10);
	(void)n;
}

template<class Number> noinline Number add(Number n);
template<class Number> noinline Number add(Number n)
{
	touch(10);
	return n + n;
}
}
#endif

static void *outside(void *unused)
{
	touch(100);
	return unused;
}

static void *sleeper(void *unused)
{
	char c;

	pthread_barrier_wait(&all_in);
	if (read(pipe_in[0], &c, 1) != 1)
		exit(1);
	touch(100);
	return unused;
}

static void *worker(void *unused)
{
	int i;

	for (i = 0; i < 10; i++) {
		job();
		touch(100);
	}
	return unused;
}

static void threads(void *(*function)(void *), int nr, int wake)
{
	pthread_t thread[NR_SLEEPERS];
	int i;

	for (i = 0; i < nr; i++) {
		if (pthread_create(&thread[i], NULL, function, NULL))
			exit(1);
	}
	if (wake) {
		pthread_barrier_wait(&all_in);
		usleep(300000);
		for (i = 0; i < nr; i++) {
			if (write(pipe_in[1], "", 1) != 1)
				exit(1);
		}
	}
	for (i = 0; i < nr; i++)
		pthread_join(thread[i], NULL);
}

static noinline void use_stack(void)
{
	volatile char stack[256 * 1024];
	size_t i;

	for (i = 0; i < sizeof(stack); i += 1024)
		stack[i] = 1;
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "";
	pthread_t thread;
	int number = argc > 2 ? atoi(argv[2]) : 10;
	volatile int i;

	self = argv[0];
	/* Take the page faults of code and stack before the test. */
	use_stack();
	if (mlockall(MCL_CURRENT))
		return 1;
	if (!strcmp(name, "sleepers")) {
		if (pipe(pipe_in))
			return 1;
		pthread_barrier_init(&all_in, NULL, NR_SLEEPERS + 1);
		threads(sleeper, NR_SLEEPERS, 1);
		puts("end");
		return 0;
	}
	if (!strcmp(name, "pool")) {
		threads(worker, NR_WORKERS, 0);
		puts("end");
		return 0;
	}
	if (!strcmp(name, "forever")) {
		for (;;) {
			job();
			usleep(1000);
		}
	}
	if (!strcmp(name, "naps")) {
		for (;;) {
			napper();
			touch(100);
		}
	}
	for (i = 0; i < (strcmp(name, "deep") ? number : 5); i++) {
		if (!strcmp(name, "deep")) {
			deep(number);
		} else if (!strcmp(name, "longjmp")) {
			if (!setjmp(env))
				jumper();
		} else if (!strcmp(name, "tail")) {
			tail();
		} else if (!strcmp(name, "chooser")) {
			chooser(1 + 2 * i);
		} else if (!strcmp(name, "thread")) {
			spawner(outside);
		} else if (!strcmp(name, "fork")) {
			forker();
		} else if (!strcmp(name, "split") || !strcmp(name, "split_longjmp")) {
			if (!setjmp(env) && !splitter(name[5])) {
				touch(100);
				_exit(0);
			}
		} else if (!strcmp(name, "lose")) {
			if (setjmp(env)) {
				touch(100);
				_exit(0);
			}
			loser();
		} else if (!strcmp(name, "lose_exec")) {
			if (setjmp(env)) {
				touch(100);
				execute();
			}
			loser();
		} else if (!strcmp(name, "exec")) {
			executor(BY_FORK, 1);
		} else if (!strcmp(name, "exec_jumps")) {
			jump_outside();
			executor(BY_FORK, 1);
		} else if (!strcmp(name, "exec_deep")) {
			executor(BY_FORK, 2);
		} else if (!strcmp(name, "vfork")) {
			executor(BY_VFORK, 1);
		} else if (!strcmp(name, "spawn")) {
			executor(BY_SPAWN, 1);
		} else if (!strcmp(name, "longjmp_exec")) {
			if (!setjmp(env))
				jumper();
			touch(100);
			execute();
		} else if (!strcmp(name, "replace")) {
			replaced();
		} else if (!strcmp(name, "quit")) {
			if (pthread_create(&thread, NULL, quitter, NULL))
				return 1;
			pthread_join(thread, NULL);
		} else if (!strcmp(name, "signal") || !strcmp(name, "signal_longjmp")) {
			leave_handler = name[6];
			signal(SIGUSR1, handler);
			if (!sigsetjmp(signal_env, 1))
				raiser(1);
		} else if (!strcmp(name, "exit")) {
			if (i == number - 1)
				leaver();
		} else if (!strcmp(name, "job")) {
			/* The windows of the task that executed it have ended. */
			if (!setjmp(env))
				longjmp(env, 1);
			job();
		} else if (!strcmp(name, "early")) {
			if (!i)
				job();
			touch(2000);
		} else if (!strcmp(name, "one")) {
			one_place();
		} else if (!strcmp(name, "three")) {
			everywhere();
			touch(100);
			everywhere();
			touch(100);
			everywhere();
		} else if (!strcmp(name, "partly")) {
			partly();
			touch(100);
			partly_pointer();
		} else if (!strcmp(name, "fill")) {
			filler(number);
		} else if (!strcmp(name, "hider")) {
			hidden(number);
		} else if (!strcmp(name, "marks")) {
			marks(i & 1);
		} else if (!strcmp(name, "lines")) {
			lines();
#ifdef __cplusplus
		} else if (!strcmp(name, "throw")) {
			try {
				thrower(1);
			} catch (int) {
				barrier();
			}
		} else if (!strcmp(name, "throw_exec")) {
			try {
				throwing_parent();
			} catch (int) {
				touch(100);
				execute();
			}
		} else if (!strcmp(name, "catch")) {
			catcher();
		} else if (!strcmp(name, "overloads")) {
			app::parse(1);
			touch(100);
			app::parse(1.0);
		} else if (!strcmp(name, "templates")) {
			app::add(1);
			touch(100);
			app::add(1.0);
#endif
		} else {
			return 1;
		}
		touch(100);
	}
	puts("end");
	return 0;
}
