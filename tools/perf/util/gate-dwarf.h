/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __PERF_GATE_DWARF_H
#define __PERF_GATE_DWARF_H

#include <linux/types.h>
#include <stdbool.h>

/* A stretch of code, by the program's own addresses. */
struct gate_range {
	u64	start;
	u64	end;
};

/* Code that lies together: one place where a function was inlined, or some lines of a function. */
struct gate_place {
	/* the function that the code is in now */
	char			*caller;
	/* source line of the inlined call, or of the function itself; NULL and 0 if unknown */
	char			*file;
	int			line;
	/* Key of the declaration. Places that share it are copies of one function. */
	char			*declared;
	/* The function's own code, which is called */
	bool			is_own;
	/* The function is global, so no other function of the program has its name. */
	bool			is_external;
	struct gate_range	*ranges;
	int			nr_ranges;
};

int gate_dwarf__inlined(const char *path, const char *function, struct gate_place **list);
int gate_dwarf__lines(const char *path, const char *file, int first, int last,
		      struct gate_place **list, char **paths);
void gate_place__exit(struct gate_place *place);
void gate_places__free(struct gate_place *list, int nr);

#endif /* __PERF_GATE_DWARF_H */
