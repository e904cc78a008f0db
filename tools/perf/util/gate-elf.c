// SPDX-License-Identifier: GPL-2.0
/*
 * Find functions of a program for --inside: their entries and the instructions by which
 * they return.
 *
 * A uretprobe replaces the return address of its function. The program then dies if an
 * exception passes through the function, and at most 64 of them nest. Probes on the
 * return instructions have neither problem. They are used if the code provably leaves the
 * function by these instructions only: it has no jump to another function, no jump with
 * an unknown target, and no jump to the function's own entry, where the window would
 * begin again.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
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
#include "gate-dwarf.h"
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

/* Maximum number of parts of a function, such as a hot and a cold one */
#define MAX_PARTS	4

struct gate_elf {
	int		fd;
	Elf		*elf;
	GElf_Ehdr	ehdr;
	/* Address of code by which contexts take turns, if it has no symbol */
	char		switches[32];
	Elf_Data	*syms;
	size_t		nr_syms;
	size_t		strings;
	bool		has_demangled;
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
 * Return: a handle for the other functions, or NULL if the file is not ELF.
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
 * gate_elf__delete - Close a program or library
 * @ge:	The program
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
 * gate_elf__has_section - Tell whether a section exists
 * @ge:		The program
 * @name:	The name of the section
 *
 * Return: true if it exists.
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
 * gate_elf__has_symbols - Tell whether a program has symbols of functions
 * @ge:	The program
 *
 * Return: true if it is not stripped.
 */
bool gate_elf__has_symbols(struct gate_elf *ge)
{
	return ge->syms && ge->nr_syms > 1;
}

/* Find the offset of an address in the file, by the segment with @flags that contains it. */
static int file_offset(struct gate_elf *ge, u64 address, u32 flags, u64 *offset)
{
	size_t nr, i;
	GElf_Phdr phdr;

	if (elf_getphdrnum(ge->elf, &nr))
		return -EINVAL;
	for (i = 0; i < nr; i++) {
		if (!gelf_getphdr(ge->elf, i, &phdr) || phdr.p_type != PT_LOAD ||
		    (phdr.p_flags & flags) != flags)
			continue;
		if (address >= phdr.p_vaddr && address - phdr.p_vaddr < phdr.p_filesz) {
			*offset = address - phdr.p_vaddr + phdr.p_offset;
			return 0;
		}
	}
	return -EINVAL;
}

/**
 * gate_elf__offset - Find the place of code in the file
 * @ge:		The program
 * @address:	The address of the code
 * @offset:	Set to the place in the file
 *
 * Return: 0, or -EINVAL if there is no code in the file for this address.
 */
int gate_elf__offset(struct gate_elf *ge, u64 address, u64 *offset)
{
	return file_offset(ge, address, PF_X, offset);
}

/* Get symbol number @i and its name; NULL if it is not a function. */
static const char *function_symbol(struct gate_elf *ge, size_t i, GElf_Sym *sym)
{
	if (!gelf_getsym(ge->syms, i, sym) || GELF_ST_TYPE(sym->st_info) != STT_FUNC ||
	    sym->st_shndx == SHN_UNDEF || !sym->st_value)
		return NULL;
	return elf_strptr(ge->elf, ge->strings, sym->st_name);
}

/*
 * Tell whether a symbol is a part that the compiler split off from a function, or a resolver that
 * chooses one of its versions. A call to either is not a call to the function.
 */
static bool is_fragment(const char *suffix)
{
	return strstr(suffix, ".part.") || strstr(suffix, ".cold") || strstr(suffix, ".resolver");
}

/*
 * Tell whether a symbol may name the function. The compiler makes copies of a function for
 * some of its callers and names them FUNCTION.isra.0 or FUNCTION.constprop.0; a library
 * appends the version of its interface.
 */
static bool symbol_matches(const char *symbol, const char *function)
{
	size_t len = strlen(function);

	if (strncmp(symbol, function, len))
		return false;
	return !symbol[len] || symbol[len] == '@' ||
	       (symbol[len] == '.' && !is_fragment(symbol + len));
}

/* Skip the arguments of a template, which begin at @p. */
static const char *skip_template(const char *p)
{
	int depth = 0;

	for (; *p; p++) {
		if (*p == '<')
			depth++;
		else if (*p == '>' && !--depth)
			return p + 1;
	}
	return p;
}

/* Tell whether the name ends at @p; arguments or suffixes of compilers may follow. */
static bool name_ends(const char *p)
{
	if (*p == '<')
		p = skip_template(p);
	if (*p == '[' && p[1] == 'a')	/* [abi:cxx11] */
		p = strchr(p, ']') ? strchr(p, ']') + 1 : p;
	if (!*p || *p == '(' || strstarts(p, " [clone"))
		return true;
	return strstarts(p, "::h") && strspn(p + 3, "0123456789abcdef") == 16 &&
	       (!p[19] || p[19] == '.');
}

/*
 * Tell whether a demangled name is that of a function, which the user may give with or
 * without its arguments. The name of a template follows its return type.
 */
static bool demangled_matches(const char *demangled, const char *function)
{
	size_t len = strlen(function);
	const char *p = demangled;
	int depth = 0;

	/* A suffix of the compiler follows the arguments, so look for it anywhere. */
	if (strstr(demangled, "[clone .cold") || strstr(demangled, "[clone .part"))
		return false;
	for (;;) {
		if (!strncmp(p, function, len) && name_ends(p + len))
			return true;
		for (; *p && (depth || *p != ' '); p++)
			depth += (*p == '(' || *p == '<') - (*p == ')' || *p == '>');
		if (!*p++)
			return false;
	}
}

static char *demangle(const char *symbol)
{
	return symbol[0] == '_' && (symbol[1] == 'Z' || symbol[1] == 'R') ?
	       cxx_demangle_sym(symbol, /*params=*/true, /*modifiers=*/true) : NULL;
}

/**
 * gate_elf__name_matches - Tell whether a symbol means a function
 * @symbol:	The name of the symbol
 * @function:	The name that the user gave
 *
 * Return: true if it does.
 */
bool gate_elf__name_matches(const char *symbol, const char *function)
{
	char *demangled;
	bool matches;

	if (symbol_matches(symbol, function))
		return true;
	demangled = demangle(symbol);
	matches = demangled && demangled_matches(demangled, function);
	free(demangled);
	return matches;
}

/* Get the address of the first instruction that each call of a function executes. */
static int function_entry(struct gate_elf *ge, const GElf_Sym *sym, u64 *address, u64 *offset)
{
	*address = sym->st_value;
	if (ge->ehdr.e_machine == EM_PPC64)
		*address += PPC64_LOCAL_ENTRY_OFFSET(sym->st_other);
	return gate_elf__offset(ge, *address, offset);
}

static int add_function(struct gate_function **list, int *nr, const char *symbol,
			const char *demangled, struct gate_elf *ge, const GElf_Sym *sym,
			const char *file, size_t unit)
{
	struct gate_function *new, *function;
	u64 address, offset;
	int i;

	if (function_entry(ge, sym, &address, &offset))
		return 0;

	/* Skip aliases of functions found before. */
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
	if (GELF_ST_BIND(sym->st_info) == STB_LOCAL && file) {
		function->file = strdup(file);
		function->unit = unit;
	}
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

/* Parse an address such as 0x401156. Return 0 for anything else. */
static u64 parse_address(const char *name)
{
	char *end;
	u64 address;

	if (!strstarts(name, "0x"))
		return 0;
	address = strtoull(name, &end, 16);
	return *end ? 0 : address;
}

/**
 * gate_elf__find - Find functions by name
 * @ge:		The program
 * @name:	The name of a symbol, or of a C++ or Rust function with or without its
 *		arguments; "name@file" is a static function of that source file, and
 *		"0x401156" the function that begins at that address
 * @list:	Set to the functions, for gate_functions__free()
 *
 * Return: the number of functions, or a negative error code.
 */
int gate_elf__find(struct gate_elf *ge, const char *name, struct gate_function **list)
{
	const char *at = strchr(name, '@'), *file = NULL;
	char *function = at ? strndup(name, at - name) : strdup(name);
	u64 address = parse_address(name);
	int nr = 0, err = 0;
	size_t i, unit = 0;
	GElf_Sym sym;

	*list = NULL;
	if (!function)
		return -ENOMEM;

	for (i = 0; ge->syms && i < ge->nr_syms && !err; i++) {
		char *demangled;
		const char *symbol;

		if (gelf_getsym(ge->syms, i, &sym) &&
		    GELF_ST_TYPE(sym.st_info) == STT_FILE) {
			file = elf_strptr(ge->elf, ge->strings, sym.st_name);
			unit = i;
		}
		symbol = function_symbol(ge, i, &sym);
		if (!symbol)
			continue;
		if (at && (GELF_ST_BIND(sym.st_info) != STB_LOCAL || !file ||
			   strcmp(file, at + 1)))
			continue;
		demangled = demangle(symbol);
		if (address ? sym.st_value == address :
			      symbol_matches(symbol, function) ||
			      (demangled && demangled_matches(demangled, function)))
			err = add_function(list, &nr, symbol, demangled, ge, &sym, file, unit);
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
 * gate_elf__visit_functions - Visit the functions of a program
 * @ge:		The program
 * @visit:	Called with the symbol of each and its offset in the file, until it returns
 *		other than 0
 * @data:	For @visit
 *
 * Return: what @visit has returned last.
 */
int gate_elf__visit_functions(struct gate_elf *ge,
			      int (*visit)(const char *symbol, u64 offset, void *data),
			      void *data)
{
	u64 address, offset;
	GElf_Sym sym;
	int ret = 0;
	size_t i;

	for (i = 0; ge->syms && i < ge->nr_syms && !ret; i++) {
		const char *symbol = function_symbol(ge, i, &sym);

		if (symbol && !function_entry(ge, &sym, &address, &offset))
			ret = visit(symbol, offset, data);
	}
	return ret;
}

/* Tell whether a suffix is that of copies that the compiler makes of one function. */
static bool is_copy_suffix(const char *suffix, size_t len)
{
	static const char * const kinds[] = {
		"isra", "constprop", "clone", "specialized", "localalias",
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(kinds); i++) {
		if (strlen(kinds[i]) == len && !strncmp(suffix, kinds[i], len))
			return true;
	}
	return false;
}

/*
 * Strip the suffixes of copies from a symbol. Keep others, which tell functions of one name
 * apart: .lto_priv.0 and .llvm.123 are of different files, .0 is a nested function.
 */
static char *copied_name(const char *symbol)
{
	char *name = strdup(symbol), *to = name;
	const char *p = symbol;

	if (!name)
		return NULL;
	while (*p) {
		size_t len = *p == '.' ? 1 + strcspn(p + 1, ".") : strcspn(p, ".");

		if (*p == '.' && is_copy_suffix(p + 1, len - 1)) {
			p += len;
			if (*p == '.')
				p += 1 + strspn(p + 1, "0123456789");
			continue;
		}
		memcpy(to, p, len);
		to += len;
		p += len;
	}
	*to = '\0';
	return name;
}

/**
 * gate_functions__are_copies - Tell whether symbols show that functions are copies of one
 * @ge:		The program
 * @list:	The list of gate_elf__find()
 * @nr:		Number of functions
 *
 * Return: true if they are copies; false if they are not, or if symbols do not tell.
 */
bool gate_functions__are_copies(struct gate_elf *ge, const struct gate_function *list, int nr)
{
	char *first = copied_name(list[0].symbol), *name;
	bool same = first;
	int i;

	for (i = 1; i < nr && same; i++) {
		name = copied_name(list[i].symbol);
		same = name && !strcmp(first, name) && list[i].unit && list[i].unit == list[0].unit;
		free(name);
	}
	free(first);
	if (!same && nr > 1) {
		/* They may be versions for different CPUs, of which an ifunc chooses one. */
		name = strndup(list[0].symbol, strcspn(list[0].symbol, "."));
		same = name && gate_elf__has_ifunc(ge, name);
		for (i = 1; i < nr && same; i++)
			same = symbol_matches(list[i].symbol, name);
		free(name);
	}
	return same;
}

/**
 * gate_elf__machine - The processor that a program is for
 * @ge:		The program
 *
 * Return: EM_X86_64 or another number of <elf.h>.
 */
u16 gate_elf__machine(struct gate_elf *ge)
{
	return ge->ehdr.e_machine;
}

/**
 * gate_elf__is_ppc64le - Tell whether a program is for powerpc, with the low byte first
 * @ge:		The program
 *
 * Return: true if it is.
 */
bool gate_elf__is_ppc64le(struct gate_elf *ge)
{
	return ge->ehdr.e_machine == EM_PPC64 && ge->ehdr.e_ident[EI_DATA] == ELFDATA2LSB;
}

/**
 * gate_elf__code - Get a section that has code
 * @ge:		The program
 * @n:		How many of these to skip
 * @range:	Set to its addresses
 *
 * Return: true if there is one.
 */
bool gate_elf__code(struct gate_elf *ge, int n, struct gate_range *range)
{
	Elf_Scn *scn = NULL;
	GElf_Shdr shdr;

	while ((scn = elf_nextscn(ge->elf, scn))) {
		if (!gelf_getshdr(scn, &shdr) || shdr.sh_type != SHT_PROGBITS ||
		    !(shdr.sh_flags & SHF_EXECINSTR) || n--)
			continue;
		range->start = shdr.sh_addr;
		range->end = shdr.sh_addr + shdr.sh_size;
		return true;
	}
	return false;
}

/* Find the entry number @n of the dynamic section that has @tag. */
static bool dynamic_entry(struct gate_elf *ge, Elf64_Sxword tag, int n, GElf_Dyn *dyn,
			  size_t *strings)
{
	GElf_Shdr shdr;
	Elf_Scn *scn = section_of_type(ge->elf, SHT_DYNAMIC, &shdr);
	Elf_Data *data = scn ? elf_getdata(scn, NULL) : NULL;
	size_t i;

	for (i = 0; data && shdr.sh_entsize && i < shdr.sh_size / shdr.sh_entsize; i++) {
		if (gelf_getdyn(data, i, dyn) && dyn->d_tag == tag && !n--) {
			*strings = shdr.sh_link;
			return true;
		}
	}
	return false;
}

/* The value of an entry of the dynamic section, or 0 */
static u64 dynamic_value(struct gate_elf *ge, Elf64_Sxword tag)
{
	size_t strings;
	GElf_Dyn dyn;

	return dynamic_entry(ge, tag, 0, &dyn, &strings) ? dyn.d_un.d_val : 0;
}

/**
 * gate_elf__dynamic_string - Get a string that the dynamic linker reads
 * @ge:		The program
 * @tag:	Its kind, such as DT_NEEDED
 * @n:		How many of its kind to skip
 *
 * Return: the string, which belongs to @ge, or NULL.
 */
const char *gate_elf__dynamic_string(struct gate_elf *ge, s64 tag, int n)
{
	size_t strings;
	GElf_Dyn dyn;

	return dynamic_entry(ge, tag, n, &dyn, &strings) ?
	       elf_strptr(ge->elf, strings, dyn.d_un.d_val) : NULL;
}

/* A program that can be loaded anywhere looks like a library, and may have no interpreter. */
static bool is_library(struct gate_elf *ge)
{
	if (ge->ehdr.e_type != ET_DYN || dynamic_value(ge, DT_FLAGS_1) & DF_1_PIE)
		return false;
	return dynamic_value(ge, DT_SONAME) || !gate_elf__has_section(ge, ".interp");
}

/**
 * gate_elf__switches_contexts - Find code that lets contexts take turns on a thread
 * @ge:		The program or library
 * @is_needed:	A program needs this library, which need not call such functions for it
 *
 * A library may define such functions only for programs that use them, and then has the code as
 * well, so only a library that imports them uses them. libcrypto imports setcontext() to begin
 * jobs that hardly any program has, so this one does not count in a library that is needed.
 *
 * Return: the name of a function, if the program has or imports one that does; the address of
 * an instruction that switches stacks; or NULL.
 */
const char *gate_elf__switches_contexts(struct gate_elf *ge, bool is_needed)
{
	static const char * const names[] = {
		"setcontext", "swapcontext", "jump_fcontext", "swap_fcontext", "co_switch",
	};
	bool library = is_library(ge), defines = false;
	GElf_Sym sym;
	size_t i, j;
	u64 address;

	for (i = 0; ge->syms && i < ge->nr_syms; i++) {
		const char *symbol = gelf_getsym(ge->syms, i, &sym) ?
				     elf_strptr(ge->elf, ge->strings, sym.st_name) : NULL;

		for (j = is_needed; symbol && j < ARRAY_SIZE(names); j++) {
			if (!symbol_matches(symbol, names[j]))
				continue;
			if (!library || sym.st_shndx == SHN_UNDEF)
				return names[j];
			defines = true;
		}
	}
	address = defines ? 0 : gate_elf__find_stack_switch(ge, is_needed);
	if (!address)
		return NULL;
	snprintf(ge->switches, sizeof(ge->switches), "code at %#" PRIx64, address);
	return ge->switches;
}

/**
 * gate_elf__has_ifunc - Tell whether a function is chosen among several at run time
 * @ge:		The program
 * @name:	The function
 *
 * Return: true if it is.
 */
bool gate_elf__has_ifunc(struct gate_elf *ge, const char *name)
{
	GElf_Sym sym;
	size_t i;

	for (i = 0; ge->syms && i < ge->nr_syms; i++) {
		const char *symbol;

		if (!gelf_getsym(ge->syms, i, &sym) ||
		    GELF_ST_TYPE(sym.st_info) != STT_GNU_IFUNC || sym.st_shndx == SHN_UNDEF)
			continue;
		symbol = elf_strptr(ge->elf, ge->strings, sym.st_name);
		if (symbol && symbol_matches(symbol, name))
			return true;
	}
	return false;
}

/**
 * gate_elf__part_of - Find a part of a function that callers may call by itself
 * @ge:		The program
 * @function:	The function
 *
 * The compiler inlines the beginning of the function into callers, which then call the part.
 *
 * Return: the symbol of the part, or NULL.
 */
const char *gate_elf__part_of(struct gate_elf *ge, const struct gate_function *function)
{
	size_t len = strcspn(function->symbol, "."), i;
	GElf_Sym sym;

	for (i = 0; ge->syms && i < ge->nr_syms; i++) {
		const char *symbol = function_symbol(ge, i, &sym);

		if (symbol && !strncmp(symbol, function->symbol, len) &&
		    strstarts(symbol + len, ".part.") && sym.st_value != function->start)
			return symbol;
	}
	return NULL;
}

/*
 * Tell whether two symbols name the same function, as malloc, __libc_malloc and
 * __GI___libc_malloc do.
 */
static bool is_same_name(const char *a, const char *b)
{
	size_t la = strcspn(a, "@."), lb = strcspn(b, "@.");
	const char *longer = la > lb ? a : b, *shorter = la > lb ? b : a;
	size_t length = max(la, lb), tail = min(la, lb);

	while (tail && *shorter == '_') {
		shorter++;
		tail--;
	}
	return !strncmp(longer + length - tail, shorter, tail);
}

/**
 * gate_elf__alias_of - Find a function of another name with the same code
 * @ge:		The program
 * @function:	The function
 *
 * The compiler and the linker keep one copy of functions whose code is the same.
 *
 * Return: the symbol of the other function, or NULL.
 */
const char *gate_elf__alias_of(struct gate_elf *ge, const struct gate_function *function)
{
	GElf_Sym sym;
	size_t i;

	for (i = 0; ge->syms && i < ge->nr_syms; i++) {
		const char *symbol = function_symbol(ge, i, &sym);
		char *demangled;
		bool same;

		if (!symbol || sym.st_value != function->start || !sym.st_size ||
		    is_same_name(symbol, function->symbol))
			continue;
		/* A constructor has several symbols, which demangle to the same name. */
		demangled = demangle(symbol);
		same = demangled && !strcmp(demangled, function->name);
		free(demangled);
		if (!same)
			return symbol;
	}
	return NULL;
}

/**
 * gate_functions__free - Free a list of functions
 * @list:	The list of gate_elf__find()
 * @nr:		Number of functions
 */
void gate_functions__free(struct gate_function *list, int nr)
{
	int i;

	for (i = 0; i < nr; i++) {
		free(list[i].symbol);
		free(list[i].name);
		free(list[i].file);
	}
	free(list);
}

/* Compute the edit distance of two names, or more than @limit if they are too different. */
static int edit_distance(const char *a, const char *b, int limit)
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
			int other = min(row[j], row[j - 1]) + 1;

			diagonal = row[j];
			row[j] = min(other, replaced);
		}
	}
	return row[lb];
}

/**
 * gate_elf__near - Find the function with the most similar name
 * @ge:		The program
 * @name:	The name, which no function has
 *
 * Return: its name, which the caller frees, or NULL if no name is similar.
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
		d = edit_distance(demangled, name, limit);
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

/* Tell whether @text has the whole word @word. In Rust names, its length precedes it. */
static bool has_word(const char *text, const char *word)
{
	size_t len = strlen(word);
	const char *p;

	for (p = text; (p = strstr(p, word)); p++) {
		char number[8];
		size_t digits = snprintf(number, sizeof(number), "%zu", len);

		if (strstarts(text, "_R")) {
			if ((size_t)(p - text) > digits && !strncmp(p - digits, number, digits) &&
			    !isdigit(p[-1 - (int)digits]))
				return true;
		} else if ((p == text || !(isalnum(p[-1]) || p[-1] == '_')) &&
			   !(isalnum(p[len]) || p[len] == '_')) {
			return true;
		}
	}
	return false;
}

/**
 * gate_elf__similar - Find functions whose names contain that of a function
 * @ge:		The program
 * @name:	The name, which no function has
 * @list:	Set to the names, which the caller frees
 * @max:	Room of the list
 *
 * Return: how many there are.
 */
int gate_elf__similar(struct gate_elf *ge, const char *name, char **list, int max)
{
	char *word = strndup(name, strcspn(name, "(<@")), *last;
	GElf_Sym sym;
	int nr = 0;
	size_t i;

	if (!word)
		return 0;
	last = strrchr(word, ':') ? strrchr(word, ':') + 1 : word;
	for (i = 0; *last && ge->syms && i < ge->nr_syms && nr < max; i++) {
		const char *symbol = function_symbol(ge, i, &sym);
		char *full;

		if (!symbol)
			continue;
		full = demangle(symbol) ?: strdup(symbol);
		if (full && has_word(full, last))
			list[nr++] = full;
		else
			free(full);
	}
	free(word);
	return nr;
}

/* Find FUNCTION.cold, the cold part of a function, if it contains the jump target @target. */
static bool find_cold_part(struct gate_elf *ge, const char *function, u64 target,
			   struct gate_range *part)
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

#ifdef HAVE_AUXTRACE_SUPPORT
/*
 * `add %rdx,%rax; jmp *%rax` and `jmp *table(,%rax,8)` take their target from a jump
 * table. An indirect tail call has no such addition.
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

static enum gate_flow x86_flow(const unsigned char *code, size_t len, const unsigned char *before,
			  u64 address, int *length, u64 *target)
{
	struct intel_pt_insn insn;
	s32 table = 0;

	if (intel_pt_get_insn(code, len, /*x86_64=*/1, &insn) || insn.length <= 0)
		return GATE_FLOW_UNKNOWN;

	*length = insn.length;
	*target = address + insn.length + insn.rel;
	switch (insn.op) {
	case INTEL_PT_OP_RET:
		return GATE_FLOW_RETURN;
	case INTEL_PT_OP_CALL:
		return GATE_FLOW_CALL;
	case INTEL_PT_OP_JCC:
	case INTEL_PT_OP_LOOP:
		return GATE_FLOW_BRANCH;
	case INTEL_PT_OP_JMP:
		if (insn.branch == INTEL_PT_BR_UNCONDITIONAL)
			return GATE_FLOW_JUMP;
		if (!is_table_jump(code, insn.length, before))
			return GATE_FLOW_UNKNOWN;
		/* Tell the address of the table if the instruction contains it. */
		if (insn.length >= 7)
			memcpy(&table, code + insn.length - sizeof(table), sizeof(table));
		*target = table;
		return GATE_FLOW_TABLE;
	case INTEL_PT_OP_IRET:
	case INTEL_PT_OP_SYSRET:
		return GATE_FLOW_UNKNOWN;
	case INTEL_PT_OP_OTHER:
	case INTEL_PT_OP_INT:
	case INTEL_PT_OP_SYSCALL:
	case INTEL_PT_OP_VMENTRY:
	case INTEL_PT_OP_ERETS:
	case INTEL_PT_OP_ERETU:
	default:
		return GATE_FLOW_NEXT;
	}
}
#else
static enum gate_flow x86_flow(const unsigned char *code __maybe_unused, size_t len __maybe_unused,
			  const unsigned char *before __maybe_unused, u64 address __maybe_unused,
			  int *length __maybe_unused, u64 *target __maybe_unused)
{
	return GATE_FLOW_UNKNOWN;
}
#endif

static enum gate_flow ppc64le_flow(const unsigned char *code, size_t len, u64 address, int *length,
			      u64 *target)
{
	u32 insn;

	if (len < 4)
		return GATE_FLOW_UNKNOWN;
	insn = code[0] | code[1] << 8 | code[2] << 16 | (u32)code[3] << 24;
	*length = 4;

	switch (insn >> 26) {
	case 1:		/* a prefix */
		*length = 8;
		return GATE_FLOW_NEXT;
	case 16:	/* bc */
	case 18:	/* b */
		if (insn & 1)
			return GATE_FLOW_CALL;
		if (insn & 2)
			return GATE_FLOW_UNKNOWN;
		if (insn >> 26 == 18) {
			*target = address + ((s32)((insn & 0x03fffffc) << 6) >> 6);
			return GATE_FLOW_JUMP;
		}
		*target = address + (s16)(insn & 0xfffc);
		return GATE_FLOW_BRANCH;
	case 19:
		/* bclr, bcctr and bctar; a conditional blr is not accepted as a return */
		switch (insn & 0x7fe) {
		case 16 << 1:
			if (insn & 1)
				return GATE_FLOW_UNKNOWN;
			return (insn & 0x02800000) == 0x02800000 ? GATE_FLOW_RETURN :
								   GATE_FLOW_MAY_RETURN;
		case 528 << 1:
		case 560 << 1:
			return insn & 1 ? GATE_FLOW_CALL : GATE_FLOW_UNKNOWN;
		case 18 << 1:	/* rfid */
			return GATE_FLOW_UNKNOWN;
		default:
			return GATE_FLOW_NEXT;
		}
	default:
		return GATE_FLOW_NEXT;
	}
}

/**
 * gate_elf__flow - Tell where the flow of control goes from an instruction
 * @ge:		The program
 * @code:	The instruction
 * @len:	How much code there is
 * @before:	The instruction before it, if that has three bytes, or NULL
 * @address:	Its address
 * @length:	Set to its length
 * @target:	Set to where it jumps, or to the address of its table, if that is known; to 0 if not
 *
 * Return: the effect on the flow of control; GATE_FLOW_UNKNOWN if it cannot be told, and for
 * all instructions of other architectures.
 */
enum gate_flow gate_elf__flow(struct gate_elf *ge, const unsigned char *code, size_t len,
			      const unsigned char *before, u64 address, int *length, u64 *target)
{
	switch (ge->ehdr.e_machine) {
	case EM_X86_64:
		return x86_flow(code, len, before, address, length, target);
	case EM_PPC64:
		if (ge->ehdr.e_ident[EI_DATA] == ELFDATA2LSB)
			return ppc64le_flow(code, len, address, length, target);
		return GATE_FLOW_UNKNOWN;
	default:
		return GATE_FLOW_UNKNOWN;
	}
}

/**
 * gate_elf__read - Read code
 * @ge:		The program
 * @range:	The range of the code
 *
 * Return: the code, which the caller frees, or NULL.
 */
unsigned char *gate_elf__read(struct gate_elf *ge, const struct gate_range *range)
{
	size_t size = range->end - range->start;
	unsigned char *code = malloc(size);
	u64 offset;

	if (code && (gate_elf__offset(ge, range->start, &offset) ||
		     pread(ge->fd, code, size, offset) != (ssize_t)size))
		zfree(&code);
	return code;
}

/**
 * gate_elf__function_at - Find the symbol whose code an address is in
 * @ge:		The program
 * @address:	The address
 * @range:	Set to the code of the symbol
 *
 * Return: its name, or NULL if no symbol has the address.
 */
const char *gate_elf__function_at(struct gate_elf *ge, u64 address, struct gate_range *range)
{
	GElf_Sym sym;
	size_t i;

	for (i = 0; ge->syms && i < ge->nr_syms; i++) {
		const char *symbol = function_symbol(ge, i, &sym);

		if (symbol && address >= sym.st_value && address - sym.st_value < sym.st_size &&
		    sym.st_size <= GATE_MAX_CODE) {
			range->start = sym.st_value;
			range->end = sym.st_value + sym.st_size;
			/* Local callers skip the instructions for global callers. */
			if (ge->ehdr.e_machine == EM_PPC64)
				range->start += PPC64_LOCAL_ENTRY_OFFSET(sym.st_other);
			return symbol;
		}
	}
	return NULL;
}

/* Tell whether @address is in a known part of the function, or add its cold part. */
static bool is_in_known_part(struct gate_elf *ge, const struct gate_function *function, u64 address,
			     struct gate_range *parts, int *nr_parts)
{
	int i;

	for (i = 0; i < *nr_parts; i++) {
		if (address >= parts[i].start && address < parts[i].end)
			return true;
	}
	if (*nr_parts == MAX_PARTS ||
	    !find_cold_part(ge, function->symbol, address, &parts[*nr_parts]))
		return false;
	(*nr_parts)++;
	return true;
}

/* Tell whether a table holds jump targets in the function, not functions for a tail call. */
static bool has_jumps(struct gate_elf *ge, const struct gate_function *function, u64 table,
		      struct gate_range *parts, int *nr_parts)
{
	u64 offset, first;

	return !file_offset(ge, table, PF_R, &offset) &&
	       pread(ge->fd, &first, sizeof(first), offset) == sizeof(first) &&
	       is_in_known_part(ge, function, first, parts, nr_parts);
}

static int find_returns_in_part(struct gate_elf *ge, struct gate_function *function,
				const struct gate_range *part, struct gate_range *parts, int *nr_parts)
{
	size_t size = part->end - part->start, at = 0;
	const unsigned char *before = NULL;
	unsigned char *code = gate_elf__read(ge, part);
	int err = -EOPNOTSUPP;
	u64 offset, target;
	int length;

	if (!code || gate_elf__offset(ge, part->start, &offset))
		goto out;

	for (; at < size; before = length == 3 ? code + at : NULL, at += length) {
		switch (gate_elf__flow(ge, code + at, size - at, before, part->start + at,
				       &length, &target)) {
		case GATE_FLOW_UNKNOWN:
		case GATE_FLOW_MAY_RETURN:
			goto out;
		case GATE_FLOW_JUMP:
		case GATE_FLOW_BRANCH:
			/* A jump to the function's own entry would begin another window. */
			if (target == function->start || target == function->entry ||
			    !is_in_known_part(ge, function, target, parts, nr_parts))
				goto out;
			break;
		case GATE_FLOW_RETURN:
			if (function->nr_returns == GATE_MAX_RETURNS)
				goto out;
			function->returns[function->nr_returns++] = offset + at;
			break;
		case GATE_FLOW_TABLE:
			if (target && !has_jumps(ge, function, target, parts, nr_parts))
				goto out;
			break;
		case GATE_FLOW_CALL:
		case GATE_FLOW_NEXT:
		default:
			break;
		}
	}
	/* The last instruction must end with the part. */
	err = at == size ? 0 : -EOPNOTSUPP;
out:
	free(code);
	return err;
}

/*
 * Code that is written by hand may have functions within a function. The returns of these would
 * end windows that they have not begun.
 */
static bool has_other_entry(struct gate_elf *ge, const struct gate_function *function)
{
	GElf_Sym sym;
	size_t i;

	for (i = 0; i < ge->nr_syms; i++) {
		if (function_symbol(ge, i, &sym) && sym.st_value > function->start &&
		    sym.st_value - function->start < function->size &&
		    sym.st_value != function->entry)
			return true;
	}
	return false;
}

/**
 * gate_elf__find_returns - Find all instructions by which a function returns
 * @ge:		The program
 * @function:	The function, whose returns are set
 *
 * Return: 0, or -EOPNOTSUPP if perf cannot find all of them.
 */
int gate_elf__find_returns(struct gate_elf *ge, struct gate_function *function)
{
	struct gate_range parts[MAX_PARTS] = {
		{ function->start, function->start + function->size },
	};
	int nr_parts = 1, i, err;

	function->nr_returns = 0;
	/* Hand-written code may have no size. */
	if (!function->size || function->size > GATE_MAX_CODE || has_other_entry(ge, function))
		return -EOPNOTSUPP;
	for (i = 0; i < nr_parts; i++) {
		err = find_returns_in_part(ge, function, &parts[i], parts, &nr_parts);
		if (err) {
			function->nr_returns = 0;
			return err;
		}
	}
	return 0;
}

/* Find the place of a mark in the file. Return 1 if the note is that of mark @name. */
static int note_mark(struct gate_elf *ge, const char *desc, size_t size, const char *name,
		     u64 *offset)
{
	size_t word = ge->ehdr.e_ident[EI_CLASS] == ELFCLASS64 ? 8 : 4;
	static const char provider[] = "perf_mark";
	u64 address;
	u32 low;

	/* Three addresses, in the byte order of this machine, and three strings */
	if (size < 3 * word + sizeof(provider) + strlen(name) + 1 || desc[size - 1] ||
	    strcmp(desc + 3 * word, provider) ||
	    strcmp(desc + 3 * word + sizeof(provider), name))
		return 0;
	if (word == 8) {
		memcpy(&address, desc, sizeof(address));
	} else {
		memcpy(&low, desc, sizeof(low));
		address = low;
	}
	return gate_elf__offset(ge, address, offset) ? 0 : 1;
}

/**
 * gate_elf__find_mark - Find all places of a mark
 * @ge:		The program
 * @name:	The mark, NAME_begin or NAME_end
 * @list:	Room for the places in the file of GATE_MAX_RETURNS marks
 *
 * Return: the number of places, or -ENOSPC if there are more.
 */
int gate_elf__find_mark(struct gate_elf *ge, const char *name, u64 *list)
{
	Elf_Scn *scn = NULL;
	GElf_Shdr shdr;
	int nr = 0;

	while ((scn = elf_nextscn(ge->elf, scn))) {
		size_t at = 0, next, name_at, desc_at;
		Elf_Data *data;
		GElf_Nhdr note;
		u64 offset;

		if (!gelf_getshdr(scn, &shdr) || shdr.sh_type != SHT_NOTE)
			continue;
		data = elf_getdata(scn, NULL);
		while (data && (next = gelf_getnote(data, at, &note, &name_at, &desc_at)) > 0) {
			const char *bytes = data->d_buf;

			at = next;
			if (note.n_type != 3 || note.n_namesz != sizeof("stapsdt") ||
			    memcmp(bytes + name_at, "stapsdt", sizeof("stapsdt")) ||
			    !note_mark(ge, bytes + desc_at, note.n_descsz, name, &offset))
				continue;
			if (nr == GATE_MAX_RETURNS)
				return -ENOSPC;
			list[nr++] = offset;
		}
	}
	return nr;
}
