// SPDX-License-Identifier: GPL-2.0
/*
 * Print the rate of the host's time stamp counter in kHz.
 *
 * Under TCG the guest's counter is the host's, and a guest that calibrates it
 * on a busy host is off by any factor.
 */
#include <limits.h>
#include <stdio.h>
#include <time.h>
#include <x86intrin.h>

#define TRIES		200
#define INTERVAL_NS	50000000

struct stamp {
	unsigned long long ns;
	unsigned long long ticks;
};

static unsigned long long now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ULL + now.tv_nsec;
}

/*
 * Read both clocks at one moment: of many tries, the one that took the
 * shortest time has no interruption in it.
 */
static struct stamp read_both(void)
{
	struct stamp best = { 0, 0 };
	unsigned long long shortest = ULLONG_MAX;
	int i;

	for (i = 0; i < TRIES; i++) {
		unsigned long long before = now_ns();
		unsigned long long ticks = __rdtsc();
		unsigned long long after = now_ns();

		if (after - before < shortest) {
			shortest = after - before;
			best.ns = before + shortest / 2;
			best.ticks = ticks;
		}
	}
	return best;
}

int main(void)
{
	const struct timespec interval = { 0, INTERVAL_NS };
	struct stamp first, last;

	first = read_both();
	nanosleep(&interval, NULL);
	last = read_both();
	printf("%.0f\n", (last.ticks - first.ticks) * 1e6 / (last.ns - first.ns));
	return 0;
}
