/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __PERF_GATE_ELF_H
#define __PERF_GATE_ELF_H

#include <linux/types.h>
#include <stdbool.h>

/* A gate has so many triggers of a kind. */
#define GATE_MAX_RETURNS	64
/* Larger functions are not looked through. */
#define GATE_MAX_CODE		(1 << 20)

struct gate_elf;

/* A function, or one of the copies that the compiler has made of it. */
struct gate_function {
	char	*symbol;
	/* as it stood in the source, if that can be told */
	char	*name;
	/* addresses of the program's own */
	u64	start;
	u64	entry;
	u64	size;
	/* the place of @entry in the file */
	u64	offset;
	/* The kernel begins the program with it, so that it has no return address. */
	bool	is_first;
	/* places in the file of all instructions that return from it */
	int	nr_returns;
	u64	returns[GATE_MAX_RETURNS];
};

#ifdef HAVE_LIBELF_SUPPORT
struct gate_elf *gate_elf__new(const char *path);
void gate_elf__delete(struct gate_elf *ge);
bool gate_elf__has_section(struct gate_elf *ge, const char *name);
bool gate_elf__has_symbols(struct gate_elf *ge);
int gate_elf__find(struct gate_elf *ge, const char *name, struct gate_function **list);
void gate_functions__free(struct gate_function *list, int nr);
char *gate_elf__near(struct gate_elf *ge, const char *name);
int gate_elf__find_returns(struct gate_elf *ge, struct gate_function *function);
#endif

#endif /* __PERF_GATE_ELF_H */
