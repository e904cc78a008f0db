/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __PERF_GATE_ELF_H
#define __PERF_GATE_ELF_H

#include <linux/types.h>
#include <stdbool.h>

/* Maximum number of starters, and of stoppers, that the code of a function gets */
#define GATE_MAX_RETURNS	63
/* Larger functions are not searched. */
#define GATE_MAX_CODE		(1 << 20)

struct gate_elf;
struct gate_range;

/* The effect of an instruction on the flow of control */
enum gate_flow {
	GATE_FLOW_NEXT,
	GATE_FLOW_CALL,
	GATE_FLOW_RETURN,
	GATE_FLOW_MAY_RETURN,	/* or go on with the next one */
	GATE_FLOW_JUMP,		/* to an address that the instruction tells */
	GATE_FLOW_BRANCH,	/* the same, or to the next one */
	GATE_FLOW_TABLE,	/* jump to an address of this function, by a table */
	GATE_FLOW_UNKNOWN,
};

/* Where the flow of control comes into ranges of code, and where it leaves them. */
struct gate_edges {
	int	nr_on;
	int	nr_off;
	/* places in the file */
	u64	on[GATE_MAX_RETURNS];
	u64	off[GATE_MAX_RETURNS];
	/* Each entry has one exit, and no other way leads to either. */
	bool	pair;
	/* Functions are called inside. */
	bool	calls;
};

/* A function, or one of the copies that the compiler has made of it. */
struct gate_function {
	char	*symbol;
	/* name in the source, if known */
	char	*name;
	/* source file of a static function, or NULL */
	char	*file;
	/* symbol of that file, as files may share a name; 0 for a global function */
	size_t	unit;
	/* addresses in the program */
	u64	start;
	u64	entry;
	u64	size;
	/* offset of @entry in the file */
	u64	offset;
	/* The program starts with this function, so it has no return address. */
	bool	is_first;
	/* offsets in the file of all instructions that return from it */
	int	nr_returns;
	u64	returns[GATE_MAX_RETURNS];
};

#ifdef HAVE_LIBELF_SUPPORT
struct gate_elf *gate_elf__new(const char *path);
void gate_elf__delete(struct gate_elf *ge);
bool gate_elf__has_section(struct gate_elf *ge, const char *name);
bool gate_elf__has_symbols(struct gate_elf *ge);
int gate_elf__find(struct gate_elf *ge, const char *name, struct gate_function **list);
int gate_elf__visit_functions(struct gate_elf *ge,
			      int (*visit)(const char *symbol, u64 offset, void *data),
			      void *data);
void gate_functions__free(struct gate_function *list, int nr);
bool gate_functions__are_copies(struct gate_elf *ge, const struct gate_function *list, int nr);
const char *gate_elf__dynamic_string(struct gate_elf *ge, s64 tag, int n);
const char *gate_elf__switches_contexts(struct gate_elf *ge, bool is_needed);
bool gate_elf__has_ifunc(struct gate_elf *ge, const char *name);
const char *gate_elf__part_of(struct gate_elf *ge, const struct gate_function *function);
const char *gate_elf__alias_of(struct gate_elf *ge, const struct gate_function *function);
int gate_elf__similar(struct gate_elf *ge, const char *name, char **list, int max);
char *gate_elf__near(struct gate_elf *ge, const char *name);
int gate_elf__find_returns(struct gate_elf *ge, struct gate_function *function);
int gate_elf__find_mark(struct gate_elf *ge, const char *name, u64 *list);
bool gate_elf__name_matches(const char *symbol, const char *function);
u16 gate_elf__machine(struct gate_elf *ge);
bool gate_elf__is_ppc64le(struct gate_elf *ge);
bool gate_elf__code(struct gate_elf *ge, int n, struct gate_range *range);
int gate_elf__offset(struct gate_elf *ge, u64 address, u64 *offset);
unsigned char *gate_elf__read(struct gate_elf *ge, const struct gate_range *range);
const char *gate_elf__function_at(struct gate_elf *ge, u64 address, struct gate_range *range);
enum gate_flow gate_elf__flow(struct gate_elf *ge, const unsigned char *code, size_t len,
			      const unsigned char *before, u64 address, int *length, u64 *target);

/* gate-stacks.c */
u64 gate_elf__find_stack_switch(struct gate_elf *ge, bool is_needed);

/* gate-libraries.c */
int gate_elf__visit_libraries(struct gate_elf *ge, const char *path,
			      int (*visit)(struct gate_elf *library, const char *path, void *data),
			      void *data);
char *gate_elf__find_library(struct gate_elf *ge, const char *of, const char *name);
char *gate_elf__library_switches(struct gate_elf *ge, const char *path);

/* gate-range.c */
int gate_elf__find_edges(struct gate_elf *ge, const struct gate_range *ranges, int nr,
			 struct gate_edges *edges, char **why);
#endif

#endif /* __PERF_GATE_ELF_H */
