// SPDX-License-Identifier: GPL-2.0
/*
 * Code that switches stacks, so that contexts take turns on a thread.
 *
 * A window belongs to a thread. If a context switches to another one inside of a function, the
 * window counts what the other context does, and nothing at its edges shows it: the function
 * returns as usual. The C library has functions for it, which symbols tell, but programs and
 * coroutine libraries have a few instructions of their own. No compiler makes these:
 *
 *   x86_64	mov %rsp,%rax; ...; mov (%rsi),%rsp	mov %rsp,(%rdi); ...; mov %rsi,%rsp
 *		xchg %rsp,(%rsi)			mov %rsp,%rax; mov %rdi,%rsp
 *   ppc64le	mr r5,r1; ...; ld r1,0(r4)		std r1,0(r3); ...; mr r1,r4
 *
 * where the memory is not that of a frame, and where the former stack pointer has been saved in
 * memory or in a register shortly before. longjmp() and the unwinder of exceptions load the stack
 * pointer as well, but save none.
 */
#include <elf.h>
#include <stdlib.h>
#include <linux/kernel.h>
#include <linux/types.h>

#include "gate-dwarf.h"
#include "gate-elf.h"

/* Instructions between the one that saves the stack pointer and the one that loads another */
#define NEAR		40
/* The longest instruction, so that the last few bytes of a segment are not looked at */
#define MAX_INSN	16
/* How many bytes of code are looked at in one go */
#define MAX_CHUNK	(1 << 20)

enum stack_use {
	STACK_OTHER,
	STACK_LOADED,		/* from memory */
	STACK_SAVED,		/* in memory */
	STACK_KEPT,		/* in a register */
	STACK_SET,		/* from a register */
	STACK_SWAPPED,		/* saved, and loaded from the same place */
	STACK_TRADED,		/* both, with a register */
};

/* Where a sweep through code is */
struct sweep {
	/* The code is of a library, of which the program may not use all. */
	bool	is_needed;
	/* Instructions since the stack pointer was saved or kept, if less than NEAR */
	int	since_saved;
	int	since_kept;
	/* The register that the last instruction kept it in, or -1 */
	int	kept;
};

static enum stack_use x86_stack_use(const unsigned char *code, int length, int *reg)
{
	unsigned char rex = code[0], op, modrm;
	int base;

	/* A move of 64 bits, of which one operand is the stack pointer */
	if (length < 3 || (rex & 0xf8) != 0x48)
		return STACK_OTHER;
	op = code[1];
	modrm = code[2];
	if (op != 0x8b && op != 0x89 && op != 0x87)
		return STACK_OTHER;
	if (modrm >> 6 == 3) {
		int from = (modrm >> 3 & 7) | (rex & 4) << 1, to = (modrm & 7) | (rex & 1) << 3;

		if (op == 0x8b) {
			int source = to;

			to = from;
			from = source;
		}
		*reg = to == 4 ? from : to;
		if (from == to || (from != 4 && to != 4))
			return STACK_OTHER;
		if (op == 0x87)
			return STACK_TRADED;
		return to == 4 ? STACK_SET : STACK_KEPT;
	}
	if ((modrm >> 3 & 7) != 4 || rex & 4)
		return STACK_OTHER;
	base = modrm & 7;
	if (base == 4 && length > 3)
		base = code[3] & 7;
	/*
	 * The operand is in the frame, relative to %rsp or %rbp. Without a displacement,
	 * base 5 is not %rbp.
	 */
	if (!(rex & 1) && (base == 4 || (base == 5 && modrm >> 6)))
		return STACK_OTHER;
	if (op == 0x87)
		return STACK_SWAPPED;
	return op == 0x89 ? STACK_SAVED : STACK_LOADED;
}

static enum stack_use ppc64le_stack_use(const unsigned char *code, int *reg)
{
	u32 insn = code[0] | code[1] << 8 | code[2] << 16 | (u32)code[3] << 24;
	int rt = insn >> 21 & 31, ra = insn >> 16 & 31, rb = insn >> 11 & 31;

	switch (insn >> 26) {
	case 58:	/* ld */
		return rt == 1 && ra != 1 && !(insn & 3) ? STACK_LOADED : STACK_OTHER;
	case 62:	/* std, and stdu makes a frame */
		return rt == 1 && ra != 1 && !(insn & 3) ? STACK_SAVED : STACK_OTHER;
	case 31:	/* or, which moves a register */
		if ((insn >> 1 & 0x3ff) != 444 || rt != rb || rt == ra || (rt != 1 && ra != 1))
			return STACK_OTHER;
		*reg = rt == 1 ? ra : rt;
		return rt == 1 ? STACK_KEPT : STACK_SET;
	default:
		return STACK_OTHER;
	}
}

/* Tell whether this instruction, after those before it, switches stacks. */
static bool switches(struct sweep *sweep, enum stack_use use, enum gate_flow flow, int reg)
{
	int kept = sweep->kept;

	sweep->kept = use == STACK_KEPT ? reg : -1;
	sweep->since_saved++;
	sweep->since_kept++;
	/* The code after a jump may run without the code before it. */
	if (flow != GATE_FLOW_NEXT) {
		sweep->since_saved = NEAR;
		sweep->since_kept = NEAR;
	}
	switch (use) {
	case STACK_SWAPPED:
		return true;
	case STACK_TRADED:
		/* libcrypto aligns its stack like this. */
		return !sweep->is_needed;
	case STACK_LOADED:
		return sweep->since_saved < NEAR || sweep->since_kept < NEAR;
	case STACK_SAVED:
		sweep->since_saved = 0;
		return false;
	case STACK_KEPT:
		sweep->since_kept = 0;
		return false;
	case STACK_SET:
		/*
		 * A block with a variable-length array restores the stack pointer that it
		 * has kept.
		 */
		return sweep->since_saved < NEAR || (kept >= 0 && kept != reg);
	case STACK_OTHER:
	default:
		return false;
	}
}

/* Sweep through a chunk of code; return how much of it was swept. */
static size_t sweep_chunk(struct gate_elf *ge, const unsigned char *code, size_t size, u64 start,
			  struct sweep *sweep, u64 *found)
{
	bool is_x86 = gate_elf__machine(ge) == EM_X86_64;
	enum stack_use use;
	enum gate_flow flow;
	size_t at = 0;
	int length, reg;
	u64 target;

	while (at + MAX_INSN <= size) {
		length = 0;
		reg = -1;
		flow = gate_elf__flow(ge, code + at, size - at, NULL, start + at, &length, &target);
		/* Data, or an instruction that perf does not know */
		if (length <= 0)
			length = is_x86 ? 1 : 4;
		use = is_x86 ? x86_stack_use(code + at, length, &reg) :
			       ppc64le_stack_use(code + at, &reg);
		if (switches(sweep, use, flow, reg)) {
			*found = start + at;
			break;
		}
		at += length;
	}
	return at;
}

/**
 * gate_elf__find_stack_switch - Find an instruction that switches stacks
 * @ge:		The program or library
 * @is_needed:	A program needs this library
 *
 * Return: its address, or 0 if there is none that can be told.
 */
u64 gate_elf__find_stack_switch(struct gate_elf *ge, bool is_needed)
{
	struct gate_range code, chunk;
	u64 found = 0;
	int i;

	if (gate_elf__machine(ge) != EM_X86_64 && !gate_elf__is_ppc64le(ge))
		return 0;
	for (i = 0; !found && gate_elf__code(ge, i, &code); i++) {
		struct sweep sweep = {
			.is_needed	= is_needed,
			.since_saved	= NEAR,
			.since_kept	= NEAR,
			.kept		= -1,
		};

		while (!found && code.start + MAX_INSN <= code.end) {
			unsigned char *bytes;

			chunk.start = code.start;
			chunk.end = min(code.end, code.start + MAX_CHUNK);
			bytes = gate_elf__read(ge, &chunk);
			if (!bytes)
				break;
			code.start += sweep_chunk(ge, bytes, chunk.end - chunk.start, chunk.start,
						  &sweep, &found);
			free(bytes);
		}
	}
	return found;
}
