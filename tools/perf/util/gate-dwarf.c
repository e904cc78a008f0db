// SPDX-License-Identifier: GPL-2.0
/*
 * Debugging information for --inside: where the compiler has inlined a function, and
 * which code belongs to given lines of a file.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/kernel.h>
#include <linux/string.h>
#include <linux/types.h>
#include <linux/zalloc.h>

#include "gate-dwarf.h"
#include "gate-elf.h"

/**
 * gate_place__exit - Free the contents of a place
 * @place:	The place
 */
void gate_place__exit(struct gate_place *place)
{
	free(place->caller);
	free(place->file);
	free(place->declared);
	free(place->ranges);
}

/**
 * gate_places__free - Free a list of places
 * @list:	List that a function of this file has made
 * @nr:		Number of places
 */
void gate_places__free(struct gate_place *list, int nr)
{
	int i;

	for (i = 0; i < nr; i++)
		gate_place__exit(&list[i]);
	free(list);
}

#if defined(HAVE_DWARF_SUPPORT) || defined(HAVE_LIBDW_SUPPORT)
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>

/* A search and its results */
struct search {
	/* either a function, limited to this source file unless that is NULL */
	const char		*function;
	const char		*function_file;
	/* or lines of a file */
	const char		*file;
	int			first;
	int			last;
	/* up to two files of that name that have code of the lines */
	char			*paths[2];
	struct gate_place	*list;
	int			nr;
	int			err;
};

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Tell whether @path is the file that --inside names, perhaps without its directories. */
static bool is_file(const char *path, const char *file)
{
	size_t len = strlen(path), tail = strlen(file);

	return len >= tail && !strcmp(path + len - tail, file) &&
	       (len == tail || path[len - tail - 1] == '/');
}

/* Take "." and ".." out of a path, so that each file has only one path. */
static char *clean_path(const char *path)
{
	char *clean = malloc(strlen(path) + 2), *to = clean;
	const char *p = path;

	while (clean && *p) {
		size_t len = strcspn(p, "/");

		if (len == 2 && p[0] == '.' && p[1] == '.' && to > clean + 1 && to[-1] == '/' &&
		    strncmp(to - 3, "../", 3)) {
			for (to--; to > clean && to[-1] != '/'; to--)
				;
		} else if (!(len == 1 && p[0] == '.') && (len || p == path)) {
			memcpy(to, p, len);
			to += len;
			if (p[len])
				*to++ = '/';
		}
		p += len + !!p[len];
	}
	if (clean)
		*to = '\0';
	return clean;
}

/* Remember a file that has the name. A second one makes the name ambiguous. */
static void add_path(struct search *search, const char *path)
{
	char *clean = clean_path(path);
	unsigned int i;

	if (!clean) {
		search->err = -ENOMEM;
		return;
	}
	for (i = 0; i < ARRAY_SIZE(search->paths); i++) {
		if (!search->paths[i]) {
			search->paths[i] = clean;
			return;
		}
		if (!strcmp(search->paths[i], clean))
			break;
	}
	free(clean);
}

static char *copy(struct search *search, const char *text)
{
	char *new = text ? strdup(text) : NULL;

	if (text && !new)
		search->err = -ENOMEM;
	return new;
}

static struct gate_place *add_place(struct search *search, const char *caller)
{
	struct gate_place *new = reallocarray(search->list, search->nr + 1, sizeof(*new));

	if (!new) {
		search->err = -ENOMEM;
		return NULL;
	}
	search->list = new;
	new += search->nr++;
	memset(new, 0, sizeof(*new));
	new->caller = copy(search, caller);
	return search->err ? NULL : new;
}

static void add_range(struct search *search, struct gate_place *place, u64 start, u64 end)
{
	struct gate_range *new;

	if (start >= end)
		return;
	if (place->nr_ranges && place->ranges[place->nr_ranges - 1].end == start) {
		place->ranges[place->nr_ranges - 1].end = end;
		return;
	}
	new = reallocarray(place->ranges, place->nr_ranges + 1, sizeof(*new));
	if (!new) {
		search->err = -ENOMEM;
		return;
	}
	place->ranges = new;
	place->ranges[place->nr_ranges++] = (struct gate_range){ start, end };
}

static void add_ranges(struct search *search, struct gate_place *place, Dwarf_Die *die)
{
	Dwarf_Addr base, start, end;
	ptrdiff_t offset = 0;

	while ((offset = dwarf_ranges(die, offset, &base, &start, &end)) > 0)
		add_range(search, place, start, end);
}

static const char *linkage_name(Dwarf_Die *die)
{
	Dwarf_Attribute attr;

	if (dwarf_attr_integrate(die, DW_AT_linkage_name, &attr) ||
	    dwarf_attr_integrate(die, DW_AT_MIPS_linkage_name, &attr))
		return dwarf_formstring(&attr);
	return NULL;
}

/* Tell whether name and file of @die, a copy or the function itself, match the search. */
static bool is_copy(struct search *search, Dwarf_Die *cu, Dwarf_Die *die)
{
	const char *name = linkage_name(die) ?: dwarf_diename(die), *file, *unit;

	if (!name || !gate_elf__name_matches(name, search->function))
		return false;
	if (!search->function_file)
		return true;
	/*
	 * Accept the name of the unit, which is the file that the symbol table gives, and
	 * that of the file with the declaration, which may be a header.
	 */
	unit = dwarf_diename(cu);
	file = dwarf_decl_file(die);
	return (unit && !strcmp(base_name(unit), search->function_file)) ||
	       (file && !strcmp(base_name(file), search->function_file));
}

static bool has_code(Dwarf_Die *die)
{
	Dwarf_Addr base, start, end;

	return dwarf_ranges(die, 0, &base, &start, &end) > 0;
}

static Dwarf_Word call_attr(Dwarf_Die *die, unsigned int name)
{
	Dwarf_Attribute attr;
	Dwarf_Word value = 0;

	if (dwarf_attr(die, name, &attr))
		dwarf_formudata(&attr, &value);
	return value;
}

static const char *call_file(Dwarf_Die *cu, Dwarf_Die *die)
{
	Dwarf_Files *files;
	size_t nr;

	if (dwarf_getsrcfiles(cu, &files, &nr))
		return NULL;
	return dwarf_filesrc(files, call_attr(die, DW_AT_call_file), NULL, NULL);
}

static void add_copy(struct search *search, Dwarf_Die *cu, Dwarf_Die *die, const char *caller,
		     bool is_own)
{
	const char *name = linkage_name(die) ?: dwarf_diename(die), *file = dwarf_decl_file(die);
	struct gate_place *place = add_place(search, caller);
	Dwarf_Attribute attr;
	int line = 0;

	if (!place)
		return;
	add_ranges(search, place, die);
	dwarf_decl_line(die, &line);
	place->is_own = is_own;
	place->file = copy(search, is_own ? file : call_file(cu, die));
	place->line = is_own ? line : (int)call_attr(die, DW_AT_call_line);

	/* Static functions of two files may have one name, so include the file. */
	place->is_external = dwarf_attr_integrate(die, DW_AT_external, &attr);
	if (asprintf(&place->declared, "%s@%s:%d", name, place->is_external ? "" : file ?: "",
		     place->is_external ? 0 : line) < 0) {
		place->declared = NULL;
		search->err = -ENOMEM;
	}
}

/* Add the code that a call in one of the lines has inlined into the function @caller. */
static void add_call(struct search *search, Dwarf_Die *cu, Dwarf_Die *die, const char *caller)
{
	int line = call_attr(die, DW_AT_call_line);
	const char *file = call_file(cu, die);
	struct gate_place *place;

	if (line < search->first || line > search->last || !file || !is_file(file, search->file))
		return;
	add_path(search, file);
	place = search->err ? NULL : add_place(search, caller);
	if (place)
		add_ranges(search, place, die);
}

/* Search all entries below @parent, whose code lies in the function @caller. */
static void walk(struct search *search, Dwarf_Die *cu, Dwarf_Die *parent, const char *caller)
{
	Dwarf_Die die;

	if (dwarf_child(parent, &die))
		return;
	do {
		const char *name = caller;

		switch (dwarf_tag(&die)) {
		case DW_TAG_inlined_subroutine:
			if (!search->function)
				add_call(search, cu, &die, caller);
			else if (is_copy(search, cu, &die))
				add_copy(search, cu, &die, caller, /*is_own=*/false);
			break;
		case DW_TAG_subprogram:
			name = linkage_name(&die) ?: dwarf_diename(&die);
			if (search->function && has_code(&die) && is_copy(search, cu, &die))
				add_copy(search, cu, &die, name, /*is_own=*/true);
			break;
		case DW_TAG_lexical_block:
		case DW_TAG_namespace:
		case DW_TAG_module:
		case DW_TAG_class_type:
		case DW_TAG_structure_type:
		case DW_TAG_try_block:
		case DW_TAG_catch_block:
			break;
		default:
			continue;
		}
		walk(search, cu, &die, name);
	} while (!search->err && !dwarf_siblingof(&die, &die));
}

static void add_lines(struct search *search, Dwarf_Die *cu)
{
	struct gate_place *place = NULL;
	Dwarf_Lines *lines;
	size_t nr, i;

	if (dwarf_getsrclines(cu, &lines, &nr))
		return;
	for (i = 0; i + 1 < nr && !search->err; i++) {
		Dwarf_Line *this = dwarf_onesrcline(lines, i);
		Dwarf_Line *next = dwarf_onesrcline(lines, i + 1);
		Dwarf_Addr start, end;
		const char *file;
		int line = 0;
		bool ends;

		if (dwarf_lineendsequence(this, &ends) || ends || dwarf_lineno(this, &line) ||
		    line < search->first || line > search->last)
			continue;
		file = dwarf_linesrc(this, NULL, NULL);
		if (!file || !is_file(file, search->file) || dwarf_lineaddr(this, &start) ||
		    dwarf_lineaddr(next, &end))
			continue;
		if (start < end)
			add_path(search, file);
		if (!place && !search->err)
			place = add_place(search, NULL);
		if (place)
			add_range(search, place, start, end);
	}
}

static int search_file(struct search *search, const char *path)
{
	static const Dwfl_Callbacks callbacks = {
		.find_debuginfo		= dwfl_standard_find_debuginfo,
		.section_address	= dwfl_offline_section_address,
	};
	Dwfl *dwfl = dwfl_begin(&callbacks);
	Dwarf_CU *unit = NULL;
	Dwfl_Module *module;
	Dwarf_Addr bias;
	uint8_t type;
	Dwarf_Die cu;
	Dwarf *dwarf;
	int err = 0;

	if (!dwfl)
		return -ENOMEM;
	dwfl_report_begin(dwfl);
	module = dwfl_report_offline(dwfl, "", path, -1);
	dwfl_report_end(dwfl, NULL, NULL);
	dwarf = module ? dwfl_module_getdwarf(module, &bias) : NULL;
	if (!dwarf)
		search->err = -ENODATA;
	while (dwarf && !search->err &&
	       !(err = dwarf_get_units(dwarf, unit, &unit, NULL, &type, &cu, NULL))) {
		if (!search->function)
			add_lines(search, &cu);
		/* The functions of a program built with -gsplit-dwarf are in other files. */
		if (type == DW_UT_skeleton) {
			search->err = -EBADF;
			break;
		}
		walk(search, &cu, &cu, NULL);
	}
	if (err < 0)
		search->err = -EBADF;
	dwfl_end(dwfl);
	if (search->err) {
		gate_places__free(search->list, search->nr);
		return search->err;
	}
	return search->nr;
}

/**
 * gate_dwarf__inlined - Find the code of a function, and where the compiler has inlined it
 * @path:	The program
 * @function:	The function, as gate_elf__find() takes it
 * @list:	Set to the places, for gate_places__free()
 *
 * Return: how many there are; -ENODATA if there is no debugging information, or another
 * negative error code.
 */
int gate_dwarf__inlined(const char *path, const char *function, struct gate_place **list)
{
	const char *at = strchr(function, '@');
	char *name = strndup(function, at ? (size_t)(at - function) : strlen(function));
	struct search search = {
		.function	= name,
		.function_file	= at ? at + 1 : NULL,
	};
	int nr;

	*list = NULL;
	if (!name)
		return -ENOMEM;
	nr = search_file(&search, path);
	if (nr > 0)
		*list = search.list;
	free(name);
	return nr;
}

/**
 * gate_dwarf__lines - Find the code of some lines
 * @path:	The program
 * @file:	The source file, with as many of its directories as the user likes
 * @first:	The first line
 * @last:	The last line
 * @list:	Set to the places, for gate_places__free()
 * @paths:	Set to the source files, which the caller frees; the second one is NULL unless
 *		several have the name
 *
 * Code that a call in one of the lines has inlined there belongs to them.
 *
 * Return: how many there are; -ENODATA if there is no debugging information, or another
 * negative error code.
 */
int gate_dwarf__lines(const char *path, const char *file, int first, int last,
		      struct gate_place **list, char **paths)
{
	struct search search = {
		.file	= file,
		.first	= first,
		.last	= last,
	};
	int nr = search_file(&search, path);

	*list = nr > 0 ? search.list : NULL;
	memcpy(paths, search.paths, sizeof(search.paths));
	return nr;
}
#else
int gate_dwarf__inlined(const char *path __maybe_unused, const char *function __maybe_unused,
			struct gate_place **list)
{
	*list = NULL;
	return -EOPNOTSUPP;
}

int gate_dwarf__lines(const char *path __maybe_unused, const char *file __maybe_unused,
		      int first __maybe_unused, int last __maybe_unused, struct gate_place **list,
		      char **paths)
{
	*list = NULL;
	paths[0] = NULL;
	paths[1] = NULL;
	return -EOPNOTSUPP;
}
#endif
