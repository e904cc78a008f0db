/* SPDX-License-Identifier: GPL-2.0 */
/*
 * fuzz - what the parts of the fuzzer share, see main.c
 */
#ifndef FUZZ_H
#define FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <linux/perf_event.h>
#include <sys/types.h>

#define NR_SLOTS	24
#define NR_CONTEXTS	4
#define NR_MAPS		4
#define NR_WORKERS	4
#define NR_ACTIONS	64

#define NSEC_PER_MSEC	1000000ULL

/* Areas, which a walk may be kept to. */
#define GATE		0x01
#define RING		0x02
#define AUX		0x04
#define PAGE		0x08
#define PERFMON		0x10
#define ALL		0x1f
#define EVENTS		(ALL & ~PERFMON)

struct map {
	char	*addr;
	size_t	len;
	int	prot;
	bool	is_buffer;
};

/* State that all processes share. */
struct board {
	pid_t		pids[NR_WORKERS];
	pid_t		group;
	unsigned long	calls[NR_ACTIONS];
	unsigned long	done[NR_ACTIONS];
	unsigned long	processes;
	volatile bool	over;
};

/* One thread: its random numbers decide all that it does. */
struct walk {
	uint64_t	random;
	unsigned int	areas;
	unsigned int	depth;
	struct board	*board;
	/* The descriptors of the process, and its pipe. */
	int		*slots;
	int		*pipe;
	/* No other thread unmaps these. */
	struct map	maps[NR_MAPS];
};

struct action {
	const char	*name;
	unsigned int	areas;
	/* How often an area does this, relative to its other actions. */
	unsigned int	weight;
	/* 0 or more if it was done. */
	long		(*act)(struct walk *walk);
};

extern const struct action event_actions[], buffer_actions[], perfmon_actions[];

/* Words that a breakpoint may be set to, and a function that a probe may be. */
extern volatile uint64_t watched[4];
void probed(void);

static inline uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state * 0x2545f4914f6cdd1dULL;
}

static inline unsigned int below(struct walk *walk, unsigned int limit)
{
	return (next_random(&walk->random) >> 33) % limit;
}

/* Return true once in @times calls on average. */
static inline bool once_in(struct walk *walk, unsigned int times)
{
	return !below(walk, times);
}

static inline uint64_t any_word(struct walk *walk)
{
	uint64_t word = next_random(&walk->random);

	return word >> below(walk, 64);
}

/* Pick a slot, which descriptors of all kinds come into and go from. */
static inline int *any_slot(struct walk *walk)
{
	return &walk->slots[below(walk, NR_SLOTS)];
}

static inline int any_fd(struct walk *walk)
{
	return __atomic_load_n(any_slot(walk), __ATOMIC_RELAXED);
}

/* Contexts have slots that few others get, or the calls on contexts would find none. */
static inline int any_context(struct walk *walk)
{
	if (once_in(walk, 16))
		return any_fd(walk);
	return __atomic_load_n(&walk->slots[below(walk, NR_CONTEXTS)], __ATOMIC_RELAXED);
}

void put_fd(struct walk *walk, int fd);
void put_context(struct walk *walk, int fd);
unsigned int pmu_type(const char *name);
int write_text(const char *path, const char *text);

#endif /* FUZZ_H */
