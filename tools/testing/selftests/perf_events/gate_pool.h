/* SPDX-License-Identifier: GPL-2.0 */
/*
 * perf gate selftests - threads that use a pool of events in every way at once
 *
 * Defects show in the kernel log, as a hang, or as a call that fails with an
 * unexpected error.
 */
#ifndef _GATE_POOL_H
#define _GATE_POOL_H

#include <pthread.h>

#include "gate_helpers.h"

#define POOL_SIZE		64
#define POOL_THREADS		4

/* GATE_RACE_SECONDS in the environment sets the time of use of a pool. */
#define POOL_SECONDS		8
#define POOL_MAX_SECONDS	3600

struct pool {
	int		fds[POOL_SIZE];
	/* Open a new event with these attributes, some of which may be changed. */
	int		(*open)(struct pool *pool, struct perf_event_attr *attr,
				unsigned int *seed);
	__u64		end;
	unsigned long	surprises;
	int		kept[2];
	long		tracepoint_ids[3];
};

/* Look these up here, because later only descriptors of events may be opened and closed. */
static inline void pool_init(struct __test_metadata *const _metadata, struct pool *pool)
{
	static const char *const tracepoints[] = {
		"syscalls/sys_enter_getuid",
		"syscalls/sys_enter_geteuid",
		"syscalls/sys_enter_getppid",
	};
	/*
	 * One event of each of these kinds stays open. Otherwise each event would be
	 * the first and the last of its kind, and the kernel would mostly patch its
	 * code, which is slow in emulators, and some of them do it wrong.
	 */
	static const __u64 kept_kinds[] = {
		PERF_COUNT_SW_PAGE_FAULTS,
		PERF_COUNT_SW_CONTEXT_SWITCHES,
	};
	const char *asked = getenv("GATE_RACE_SECONDS");
	__u64 seconds = asked ? strtoul(asked, NULL, 0) : POOL_SECONDS;
	unsigned int i;

	for (i = 0; i < 3; i++)
		pool->tracepoint_ids[i] = tracepoint_id(tracepoints[i]);
	for (i = 0; i < 2; i++) {
		pool->kept[i] = gate_open_self(PERF_TYPE_SOFTWARE, kept_kinds[i]);
		ASSERT_LE(0, pool->kept[i]);
	}
	for (i = 0; i < POOL_SIZE; i++)
		pool->fds[i] = -1;
	if (seconds > POOL_MAX_SECONDS)
		seconds = POOL_MAX_SECONDS;
	pool->end = clock_ns(CLOCK_MONOTONIC) + seconds * NSEC_PER_SEC;
}

static inline bool pool_has_time(const struct pool *pool)
{
	return clock_ns(CLOCK_MONOTONIC) < pool->end;
}

static inline void pool_close(struct pool *pool)
{
	unsigned int i;

	for (i = 0; i < POOL_SIZE; i++) {
		if (pool->fds[i] >= 0)
			close(pool->fds[i]);
		pool->fds[i] = -1;
	}
	for (i = 0; i < 2; i++)
		close(pool->kept[i]);
}

/* Open a new event of a random kind with random options. */
static inline int pool_open(struct pool *pool, unsigned int *seed)
{
	static const __u64 software[] = {
		PERF_COUNT_SW_PAGE_FAULTS,
		PERF_COUNT_SW_CONTEXT_SWITCHES,
		PERF_COUNT_SW_CPU_CLOCK,
		PERF_COUNT_SW_TASK_CLOCK,
	};
	unsigned int kind = rand_r(seed) % 10;
	struct perf_event_attr attr;

	if (kind < 6)
		attr = gate_attr(PERF_TYPE_TRACEPOINT, pool->tracepoint_ids[kind % 3]);
	else
		attr = gate_attr(PERF_TYPE_SOFTWARE, software[kind - 6]);
	/* Use periods of 1 to 4 for events, and of 1 ms for clocks. */
	if (!(rand_r(seed) % 3))
		attr.sample_period = kind < 8 ? 1 + rand_r(seed) % 4 : NSEC_PER_MSEC;
	if (!(rand_r(seed) % 4))
		gate_attr_set_bit(&attr, GATE_BIT_START_PAUSED);
	if (!(rand_r(seed) % 4))
		gate_attr_set_bit(&attr, GATE_BIT_NEST);
	attr.disabled = !(rand_r(seed) % 8);
	return pool->open(pool, &attr, seed);
}

static inline bool error_is_expected(int error)
{
	switch (-error) {
	case 0:
	case EBADF:
	case EINVAL:
	case EEXIST:
	case EBUSY:
	case ENOSPC:
	case ESRCH:
		return true;
	default:
		return false;
	}
}

static inline int pool_control(int fd, unsigned int *seed)
{
	__u64 period = 1 + rand_r(seed) % 8;
	struct gate_value value;

	switch (rand_r(seed) % 8) {
	case 0:
		return set_starter(fd, -1);
	case 1:
		return set_stopper(fd, -1);
	case 2:
		return clear_gate(fd);
	case 3:
		return gate_ioctl(fd, PERF_EVENT_IOC_RESET, 0);
	case 4:
		return gate_ioctl(fd, PERF_EVENT_IOC_PERIOD, (unsigned long)&period);
	case 5:
		return gate_ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
	case 6:
		return gate_ioctl(fd, PERF_EVENT_IOC_ENABLE, 0);
	default:
		return read(fd, &value, sizeof(value)) < 0 ? -errno : 0;
	}
}

static inline int pool_pick(struct pool *pool, unsigned int *seed)
{
	return __atomic_load_n(&pool->fds[rand_r(seed) % POOL_SIZE], __ATOMIC_RELAXED);
}

/*
 * Only the thread that takes a descriptor out of the pool closes it. Other threads may
 * use it meanwhile: it may be closed then, or already belong to another event, but
 * never to any other file that could be damaged.
 */
static inline void pool_step(struct pool *pool, unsigned int *seed)
{
	int fd = pool_pick(pool, seed), other = pool_pick(pool, seed), error = 0;

	switch (rand_r(seed) % 20) {
	case 0 ... 3:
		fd = __atomic_exchange_n(&pool->fds[rand_r(seed) % POOL_SIZE],
					 pool_open(pool, seed), __ATOMIC_RELAXED);
		if (fd >= 0)
			close(fd);
		break;
	case 4 ... 7:
		error = set_starter(fd, other);
		break;
	case 8 ... 11:
		error = set_stopper(fd, other);
		break;
	case 12 ... 13:
		error = join_gate(fd, other);
		break;
	default:
		error = pool_control(fd, seed);
		break;
	}
	if (!error_is_expected(error)) {
		fprintf(stderr, "# unexpected: %s\n", strerror(-error));
		__atomic_add_fetch(&pool->surprises, 1, __ATOMIC_RELAXED);
	}
}

static inline void *pool_step_until_end(void *data)
{
	unsigned int seed = (unsigned long)pthread_self() >> 12;

	while (pool_has_time(data))
		pool_step(data, &seed);
	return NULL;
}

/* Use the pool until the time is over. */
static inline void pool_use(struct __test_metadata *const _metadata, struct pool *pool)
{
	pthread_t threads[POOL_THREADS];
	int i;

	for (i = 0; i < POOL_THREADS; i++)
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, pool_step_until_end, pool));
	for (i = 0; i < POOL_THREADS; i++)
		ASSERT_EQ(0, pthread_join(threads[i], NULL));
	EXPECT_EQ(0, pool->surprises);
}

#endif
