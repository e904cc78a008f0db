// SPDX-License-Identifier: GPL-2.0
/*
 * ring_demo
 *
 * Exit status: 0 if all is as it must be, 1 if not, 2 if it cannot be told.
 */
#include "demo.h"

#include <stdio.h>

struct figures figures;

int main(void)
{
	printf("Ring buffer and AUX area, of PMUs that are simulated and say the same each time\n");
	show_samples();
	show_stream();
	show_gaps();
	show_snapshots();
	return verdict("buffers", "%lu samples, %lu told as lost, %.1f MB of AUX, gaps of %.2f ms, %u snapshots",
		       figures.samples, figures.lost, figures.megabytes, figures.gap_ms,
		       figures.snapshots);
}
