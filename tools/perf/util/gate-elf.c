// SPDX-License-Identifier: GPL-2.0
/*
 * Functions of a program, as --inside needs them: where each begins, and at which
 * instructions it returns.
 *
 * A uretprobe replaces the return address of its function. The program then dies if an
 * exception passes through the function, and at most 64 of them nest. Probes on the
 * return instructions have neither problem. They serve if the code shows that it leaves
 * the function by them alone: no jump to another function, no jump whose target cannot be
 * told, and no jump to the function's own entry, where the window would begin again.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <gelf.h>
#include <libelf.h>
#include <linux/compiler.h>
#include <linux/kernel.h>
#include <linux/string.h>
#include <linux/types.h>
#include <linux/zalloc.h>

#include "debug.h"
#include "demangle-cxx.h"
#include "gate-elf.h"
#include "intel-pt-decoder/intel-pt-insn-decoder.h"
#include "symbol.h"

#ifndef STO_PPC64_LOCAL_MASK
#define STO_PPC64_LOCAL_BIT	5
#define STO_PPC64_LOCAL_MASK	(7 << STO_PPC64_LOCAL_BIT)
#endif
#ifndef PPC64_LOCAL_ENTRY_OFFSET
#define PPC64_LOCAL_ENTRY_OFFSET(other)						\
	(((1 << (((other) & STO_PPC64_LOCAL_MASK) >> STO_PPC64_LOCAL_BIT)) >> 2) << 2)
#endif

/* A hot and a cold part */
#define MAX_PARTS	4

struct gate_elf {
	int		fd;
	Elf		*elf;
	GElf_Ehdr	ehdr;
	Elf_Data	*syms;
	size_t		nr_syms;
	size_t		strings;
	bool		has_demangled;
};

/* A stretch of the code of a function. */
struct part {
	u64	start;
	u64	end;
};

static Elf_Scn *section_of_type(Elf *elf, Elf64_Word type, GElf_Shdr *shdr)
{
	Elf_Scn *scn = NULL;

	while ((scn = elf_nextscn(elf, scn))) {
		if (gelf_getshdr(scn, shdr) && shdr->sh_type == type)
			return scn;
	}
	return NULL;
}

/**
 * gate_elf__new - Open a program or library
 * @path:	Its path
 *
 * Return: what the other functions want, or NULL if it is no ELF file.
 */
struct gate_elf *gate_elf__new(const char *path)
{
	struct gate_elf *ge = zalloc(sizeof(*ge));
	GElf_Shdr shdr;
	Elf_Scn *scn;

	if (!ge)
		return NULL;
	ge->fd = open(path, O_RDONLY | O_CLOEXEC);
	if (ge->fd < 0) {
		free(ge);
		return NULL;
	}
	elf_version(EV_CURRENT);
	ge->elf = elf_begin(ge->fd, ELF_C_READ, NULL);
	if (!ge->elf || elf_kind(ge->elf) != ELF_K_ELF || !gelf_getehdr(ge->elf, &ge->ehdr)) {
		gate_elf__delete(ge);
		return NULL;
	}

	scn = section_of_type(ge->elf, SHT_SYMTAB, &shdr);
	if (!scn)
		scn = section_of_type(ge->elf, SHT_DYNSYM, &shdr);
	if (scn && shdr.sh_entsize) {
		ge->syms = elf_getdata(scn, NULL);
		ge->nr_syms = shdr.sh_size / shdr.sh_entsize;
		ge->strings = shdr.sh_link;
	}
	return ge;
}

/**
 * gate_elf__delete - Forget a program
 * @ge:	What gate_elf__new() returned
 */
void gate_elf__delete(struct gate_elf *ge)
{
	if (!ge)
		return;
	elf_end(ge->elf);
	close(ge->fd);
	free(ge);
}

/**
 * gate_elf__has_section - Tell whether there is a section of this name
 * @ge:		The program
 * @name:	The name of the section
 *
 * Return: true if there is.
 */
bool gate_elf__has_section(struct gate_elf *ge, const char *name)
{
	Elf_Scn *scn = NULL;
	GElf_Shdr shdr;
	size_t strings;

	if (elf_getshdrstrndx(ge->elf, &strings))
		return false;
	while ((scn = elf_nextscn(ge->elf, scn))) {
		const char *found = NULL;

		if (gelf_getshdr(scn, &shdr))
			found = elf_strptr(ge->elf, strings, shdr.sh_name);
		if (found && !strcmp(found, name))
			return true;
	}
	return false;
}

/**
 * gate_elf__has_symbols - Tell whether functions can be found by name
 * @ge:	The program
 *
 * Return: true if it is not stripped.
 */
bool gate_elf__has_symbols(struct gate_elf *ge)
{
	return ge->syms && ge->nr_syms > 1;
}

/* The segment of an address gives its place in the file. */
static int address_to_offset(struct gate_elf *ge, u64 address, u64 *offset)
{
	size_t nr, i;
	GElf_Phdr phdr;

	if (elf_getphdrnum(ge->elf, &nr))
		return -EINVAL;
	for (i = 0; i < nr; i++) {
		if (!gelf_getphdr(ge->elf, i, &phdr) || phdr.p_type != PT_LOAD)
			continue;
		if (address >= phdr.p_vaddr && address - phdr.p_vaddr < phdr.p_filesz) {
			*offset = address - phdr.p_vaddr + phdr.p_offset;
			return 0;
		}
	}
	return -EINVAL;
}

/* Function number @i of the table of symbols, and its name, or NULL if it is none. */
static const char *function_symbol(struct gate_elf *ge, size_t i, GElf_Sym *sym)
{
	if (!gelf_getsym(ge->syms, i, sym) || GELF_ST_TYPE(sym->st_info) != STT_FUNC ||
	    sym->st_shndx == SHN_UNDEF || !sym->st_value)
		return NULL;
	return elf_strptr(ge->elf, ge->strings, sym->st_name);
}

/*
 * A part of a function that the compiler has made a function of its own: calls of it are
 * not calls of the function.
 */
static bool is_fragment(const char *suffix)
{
	return strstr(suffix, ".part.") || strstr(suffix, ".cold");
}

/*
 * Does a symbol mean the function? The compiler makes copies of a function for some of
 * its callers, and names them FUNCTION.isra.0 or FUNCTION.constprop.0; a library appends
 * the version of its interface.
 */
static bool symbol_matches(const char *symbol, const char *function)
{
	size_t len = strlen(function);

	if (strncmp(symbol, function, len))
		return false;
	return !symbol[len] || symbol[len] == '@' ||
	       (symbol[len] == '.' && !is_fragment(symbol + len));
}

/* The name of a function of C++ may be given with or without its arguments. */
static bool demangled_matches(const char *demangled, const char *function)
{
	size_t len = strlen(function);
	const char *name = demangled;

	/* A suffix of the compiler's comes after the arguments. */
	if (strstr(demangled, "[clone .cold") || strstr(demangled, "[clone .part"))
		return false;
	if (strncmp(name, function, len))
		return false;
	return !name[len] || name[len] == '(' || !strncmp(name + len, " [clone", 7);
}

static char *demangle(const char *symbol)
{
	return symbol[0] == '_' && (symbol[1] == 'Z' || symbol[1] == 'R') ?
	       cxx_demangle_sym(symbol, /*params=*/true, /*modifiers=*/true) : NULL;
}

static int add_function(struct gate_function **list, int *nr, const char *symbol,
			const char *demangled, struct gate_elf *ge, const GElf_Sym *sym)
{
	struct gate_function *new, *function;
	u64 address = sym->st_value, offset;
	int i;

	if (ge->ehdr.e_machine == EM_PPC64)
		address += PPC64_LOCAL_ENTRY_OFFSET(sym->st_other);
	if (address_to_offset(ge, address, &offset))
		return 0;

	/* Symbols may be aliases of each other. */
	for (i = 0; i < *nr; i++) {
		if ((*list)[i].offset == offset)
			return 0;
	}

	new = reallocarray(*list, *nr + 1, sizeof(**list));
	if (!new)
		return -ENOMEM;
	*list = new;
	function = &new[*nr];
	memset(function, 0, sizeof(*function));
	(*nr)++;
	function->symbol = strdup(symbol);
	function->name = strdup(demangled ?: symbol);
	if (!function->symbol || !function->name)
		return -ENOMEM;
	function->start = sym->st_value;
	function->entry = address;
	function->size = sym->st_size;
	function->offset = offset;
	function->is_first = sym->st_value == ge->ehdr.e_entry;
	return 0;
}

/**
 * gate_elf__find - Find functions by name
 * @ge:		The program
 * @name:	The name of a symbol, or that of a function of C++ or Rust, with or without
 *		its arguments; "name@file" of a static function is one of that source file
 * @list:	Set to the functions, for gate_functions__free()
 *
 * Return: how many there are, or a negative error code.
 */
int gate_elf__find(struct gate_elf *ge, const char *name, struct gate_function **list)
{
	const char *at = strchr(name, '@'), *file = NULL;
	char *function = at ? strndup(name, at - name) : strdup(name);
	int nr = 0, err = 0;
	GElf_Sym sym;
	size_t i;

	*list = NULL;
	if (!function)
		return -ENOMEM;

	for (i = 0; ge->syms && i < ge->nr_syms && !err; i++) {
		char *demangled = NULL;
		const char *symbol;

		if (gelf_getsym(ge->syms, i, &sym) &&
		    GELF_ST_TYPE(sym.st_info) == STT_FILE)
			file = elf_strptr(ge->elf, ge->strings, sym.st_name);
		symbol = function_symbol(ge, i, &sym);
		if (!symbol)
			continue;
		if (at && (GELF_ST_BIND(sym.st_info) != STB_LOCAL || !file ||
			   strcmp(file, at + 1)))
			continue;
		if (symbol_matches(symbol, function)) {
			err = add_function(list, &nr, symbol, NULL, ge, &sym);
			continue;
		}
		demangled = demangle(symbol);
		if (demangled && demangled_matches(demangled, function))
			err = add_function(list, &nr, symbol, demangled, ge, &sym);
		free(demangled);
	}
	free(function);
	if (err) {
		gate_functions__free(*list, nr);
		*list = NULL;
		return err;
	}
	return nr;
}

/**
 * gate_functions__free - Forget functions
 * @list:	What gate_elf__find() found
 * @nr:		How many
 */
void gate_functions__free(struct gate_function *list, int nr)
{
	int i;

	for (i = 0; i < nr; i++) {
		free(list[i].symbol);
		free(list[i].name);
	}
	free(list);
}

/* Edit distance as far as it matters: insertions, deletions and replacements. */
static int distance(const char *a, const char *b, int limit)
{
	int la = strlen(a), lb = strlen(b), row[65], i, j;

	if (la > 64 || lb > 64 || abs(la - lb) > limit)
		return limit + 1;
	for (j = 0; j <= lb; j++)
		row[j] = j;
	for (i = 1; i <= la; i++) {
		int diagonal = row[0];

		row[0] = i;
		for (j = 1; j <= lb; j++) {
			int replaced = diagonal + (a[i - 1] != b[j - 1]);

			diagonal = row[j];
			row[j] = min(min(row[j], row[j - 1]) + 1, replaced);
		}
	}
	return row[lb];
}

/**
 * gate_elf__near - Find the function whose name is most like another name
 * @ge:		The program
 * @name:	The name, which no function has
 *
 * Return: its name, which the caller frees, or NULL if none is near.
 */
char *gate_elf__near(struct gate_elf *ge, const char *name)
{
	int limit = strlen(name) < 6 ? 1 : 2, best = limit + 1;
	char *found = NULL;
	GElf_Sym sym;
	size_t i;

	for (i = 0; ge->syms && i < ge->nr_syms; i++) {
		const char *symbol = function_symbol(ge, i, &sym);
		char *demangled, *end;
		int d;

		if (!symbol)
			continue;
		demangled = demangle(symbol) ?: strdup(symbol);
		if (!demangled)
			break;
		end = strpbrk(demangled, "(@");
		if (end)
			*end = '\0';
		d = distance(demangled, name, limit);
		if (d < best) {
			best = d;
			free(found);
			found = demangled;
		} else {
			free(demangled);
		}
	}
	return found;
}

/* The function's other part, if a jump goes there: FUNCTION.cold. */
static bool find_cold(struct gate_elf *ge, const char *function, u64 target, struct part *part)
{
	GElf_Sym sym;
	size_t i;

	for (i = 0; i < ge->nr_syms; i++) {
		const char *symbol = function_symbol(ge, i, &sym);
		const char *suffix;

		if (!symbol || target < sym.st_value || target - sym.st_value >= sym.st_size)
			continue;
		suffix = strstr(symbol, ".cold");
		if (!suffix || strncmp(symbol, function, suffix - symbol) ||
		    function[suffix - symbol])
			continue;
		part->start = sym.st_value;
		part->end = sym.st_value + sym.st_size;
		return true;
	}
	return false;
}

/* What one instruction does to the flow of control, for both architectures. */
enum flow {
	FLOW_NEXT,		/* the next instruction, also after a call */
	FLOW_RETURN,
	FLOW_JUMP,		/* to an address that the instruction tells, maybe */
	FLOW_TABLE,		/* to an address of this function, by a table */
	FLOW_UNKNOWN,
};

#ifdef HAVE_AUXTRACE_SUPPORT
/*
 * `add %rdx,%rax; jmp *%rax` takes its target from a table of offsets, as does
 * `jmp *table(,%rax,8)`. A call of a function by its address at the end of another has no
 * such addition.
 */
static bool is_table_jump(const unsigned char *code, int len, const unsigned char *before)
{
	int reg;

	/* notrack */
	if (len && code[0] == 0x3e) {
		code++;
		len--;
	}
	reg = 0;
	if (len && (code[0] & 0xf0) == 0x40) {
		reg = (code[0] & 1) << 3;
		code++;
		len--;
	}
	if (len < 2 || code[0] != 0xff)
		return false;
	/* jmp *disp32(,%reg,8) */
	if (code[1] == 0x24 && len >= 7)
		return (code[2] & 0xc7) == 0xc5;
	if ((code[1] & 0xf8) != 0xe0 || !before)
		return false;
	reg |= code[1] & 7;
	/* add %r64,%r64 into the register of the jump */
	return (before[0] & 0xf8) == 0x48 && before[1] == 0x01 && (before[2] & 0xc0) == 0xc0 &&
	       ((before[2] & 7) | (before[0] & 1) << 3) == reg;
}

static enum flow x86_flow(const unsigned char *code, size_t len, const unsigned char *before,
			  u64 address, int *length, u64 *target)
{
	struct intel_pt_insn insn;

	if (intel_pt_get_insn(code, len, /*x86_64=*/1, &insn) || insn.length <= 0)
		return FLOW_UNKNOWN;

	*length = insn.length;
	*target = address + insn.length + insn.rel;
	switch (insn.op) {
	case INTEL_PT_OP_RET:
		return FLOW_RETURN;
	case INTEL_PT_OP_JCC:
	case INTEL_PT_OP_LOOP:
		return FLOW_JUMP;
	case INTEL_PT_OP_JMP:
		if (insn.branch == INTEL_PT_BR_UNCONDITIONAL)
			return FLOW_JUMP;
		return is_table_jump(code, insn.length, before) ? FLOW_TABLE : FLOW_UNKNOWN;
	case INTEL_PT_OP_IRET:
	case INTEL_PT_OP_SYSRET:
		return FLOW_UNKNOWN;
	default:
		return FLOW_NEXT;
	}
}
#else
static enum flow x86_flow(const unsigned char *code __maybe_unused, size_t len __maybe_unused,
			  const unsigned char *before __maybe_unused, u64 address __maybe_unused,
			  int *length __maybe_unused, u64 *target __maybe_unused)
{
	return FLOW_UNKNOWN;
}
#endif

static enum flow ppc64le_flow(const unsigned char *code, size_t len, u64 address, int *length,
			      u64 *target)
{
	u32 insn;

	if (len < 4)
		return FLOW_UNKNOWN;
	insn = code[0] | code[1] << 8 | code[2] << 16 | (u32)code[3] << 24;
	*length = 4;

	switch (insn >> 26) {
	case 1:		/* a prefix */
		*length = 8;
		return FLOW_NEXT;
	case 16:	/* bc */
	case 18:	/* b */
		if (insn & 1)
			return FLOW_NEXT;
		if (insn & 2)
			return FLOW_UNKNOWN;
		if (insn >> 26 == 18)
			*target = address + ((s32)((insn & 0x03fffffc) << 6) >> 6);
		else
			*target = address + (s16)(insn & 0xfffc);
		return FLOW_JUMP;
	case 19:
		/* bclr, bcctr and bctar; a blr that may not return is none */
		switch (insn & 0x7fe) {
		case 16 << 1:
			if (insn & 1)
				return FLOW_UNKNOWN;
			return (insn & 0x02800000) == 0x02800000 ? FLOW_RETURN : FLOW_UNKNOWN;
		case 528 << 1:
		case 560 << 1:
			return insn & 1 ? FLOW_NEXT : FLOW_UNKNOWN;
		case 18 << 1:	/* rfid */
			return FLOW_UNKNOWN;
		}
		return FLOW_NEXT;
	default:
		return FLOW_NEXT;
	}
}

static enum flow code_flow(struct gate_elf *ge, const unsigned char *code, size_t len,
			   const unsigned char *before, u64 address, int *length, u64 *target)
{
	switch (ge->ehdr.e_machine) {
	case EM_X86_64:
		return x86_flow(code, len, before, address, length, target);
	case EM_PPC64:
		if (ge->ehdr.e_ident[EI_DATA] == ELFDATA2LSB)
			return ppc64le_flow(code, len, address, length, target);
		return FLOW_UNKNOWN;
	default:
		return FLOW_UNKNOWN;
	}
}

/* Where is @address: in a part that is known, in a new one, or elsewhere? */
static bool known_part(struct gate_elf *ge, const struct gate_function *function, u64 address,
		       struct part *parts, int *nr_parts)
{
	int i;

	for (i = 0; i < *nr_parts; i++) {
		if (address >= parts[i].start && address < parts[i].end)
			return true;
	}
	if (*nr_parts == MAX_PARTS ||
	    !find_cold(ge, function->symbol, address, &parts[*nr_parts]))
		return false;
	(*nr_parts)++;
	return true;
}

static int scan_part(struct gate_elf *ge, struct gate_function *function,
		     const struct part *part, struct part *parts, int *nr_parts)
{
	size_t size = part->end - part->start, at = 0;
	const unsigned char *before = NULL;
	unsigned char *code = malloc(size);
	int err = -EOPNOTSUPP;
	u64 offset, target;
	int length;

	if (!code)
		return -ENOMEM;
	if (address_to_offset(ge, part->start, &offset) ||
	    pread(ge->fd, code, size, offset) != (ssize_t)size)
		goto out;

	for (; at < size; before = length == 3 ? code + at : NULL, at += length) {
		switch (code_flow(ge, code + at, size - at, before, part->start + at, &length,
				  &target)) {
		case FLOW_UNKNOWN:
			goto out;
		case FLOW_JUMP:
			/* That to its own entry begins a window that is not there. */
			if (target == function->start || target == function->entry ||
			    !known_part(ge, function, target, parts, nr_parts))
				goto out;
			break;
		case FLOW_RETURN:
			if (function->nr_returns == GATE_MAX_RETURNS)
				goto out;
			function->returns[function->nr_returns++] = offset + at;
			break;
		case FLOW_TABLE:
		case FLOW_NEXT:
		default:
			break;
		}
	}
	/* The last instruction does not reach into what follows. */
	err = at == size ? 0 : -EOPNOTSUPP;
out:
	free(code);
	return err;
}

/**
 * gate_elf__find_returns - Find all instructions by which a function returns
 * @ge:		The program
 * @function:	The function, whose returns are set
 *
 * Return: 0; -EOPNOTSUPP if the code does not tell.
 */
int gate_elf__find_returns(struct gate_elf *ge, struct gate_function *function)
{
	struct part parts[MAX_PARTS] = {
		{ function->start, function->start + function->size },
	};
	int nr_parts = 1, i, err;

	function->nr_returns = 0;
	/* Its size is that of hand-written code which nobody has told. */
	if (!function->size || function->size > GATE_MAX_CODE)
		return -EOPNOTSUPP;
	for (i = 0; i < nr_parts; i++) {
		err = scan_part(ge, function, &parts[i], parts, &nr_parts);
		if (err) {
			function->nr_returns = 0;
			return err;
		}
	}
	return 0;
}
