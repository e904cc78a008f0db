/* SPDX-License-Identifier: GPL-2.0 */
/*
 * ring_demo - what comes out of ring buffers and AUX areas is what went in
 *
 * The demo writes to a file how much the simulated PMUs count and trace, so the
 * value of each sample and of each byte is known beforehand.
 */
#ifndef _RING_DEMO_H
#define _RING_DEMO_H

#define __SANE_USERSPACE_TYPES__

#include <linux/perf_event.h>
#include <stddef.h>

#include "../lib/report.h"

#define DATA_PAGES	16
#define AUX_PAGES	16

struct ring {
	int				fd;
	struct perf_event_mmap_page	*page;
	char				*data;
	size_t				size;
	__u64				tail;
	char				*aux;
	size_t				aux_size;
};

/* A record, of which the longest here has eight words. */
struct record {
	struct perf_event_header	header;
	__u64				word[8];
};

/* ring.c */
__u64 now_ns(void);
void put_number(const char *path, unsigned int number);
struct perf_event_attr sim_attr(const char *pmu);
void sim_tick(const char *pmu, __u64 amount);
void event_ioctl(int fd, const char *name, unsigned long command, unsigned long argument);
struct ring ring_open(struct perf_event_attr *attr);
void ring_map_aux(struct ring *ring, int protection);
bool ring_next(struct ring *ring, struct record *record);
void ring_close(struct ring *ring);

/* samples.c */
void show_samples(void);

/* aux.c */
void show_stream(void);
void show_gaps(void);
void show_snapshots(void);

/* Figures of the verdict. */
struct figures {
	unsigned long	samples;
	unsigned long	lost;
	double		megabytes;
	double		gap_ms;
	unsigned int	snapshots;
};

extern struct figures figures;

#endif /* _RING_DEMO_H */
