/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __LIBPERF_MARK_H
#define __LIBPERF_MARK_H

/*
 * Marks of a region of a program, for perf stat --inside mark:NAME.
 *
 *	PERF_MARK_BEGIN(parse);
 *	...
 *	PERF_MARK_END(parse);
 *
 * Each mark is one NOP, and a note in the file that tells its address in the format of
 * SystemTap's static probes, so that other tools find perf_mark:parse_begin, too. A region may
 * have several ends; each way out of it must pass one. Nothing has to be linked.
 */

#if __SIZEOF_POINTER__ == 8
#define __PERF_MARK_ADDRESS ".8byte "
#else
#define __PERF_MARK_ADDRESS ".4byte "
#endif

#define __PERF_MARK(name)							\
	__asm__ __volatile__(							\
		"990:	nop\n"							\
		"	.pushsection .note.stapsdt, \"?\", \"note\"\n"		\
		"	.balign 4\n"						\
		"	.4byte 992f - 991f, 994f - 993f, 3\n"			\
		"991:	.asciz \"stapsdt\"\n"					\
		"992:	.balign 4\n"						\
		"993:	" __PERF_MARK_ADDRESS "990b\n"				\
		"	" __PERF_MARK_ADDRESS "_.stapsdt.base\n"		\
		"	" __PERF_MARK_ADDRESS "0\n"				\
		"	.asciz \"perf_mark\"\n"					\
		"	.asciz \"" name "\"\n"					\
		"	.asciz \"\"\n"						\
		"994:	.balign 4\n"						\
		"	.popsection\n"						\
		"	.ifndef _.stapsdt.base\n"				\
		"	.pushsection .stapsdt.base, \"aG\", \"progbits\", "	\
				".stapsdt.base, comdat\n"			\
		"	.weak _.stapsdt.base\n"					\
		"	.hidden _.stapsdt.base\n"				\
		"_.stapsdt.base:\n"						\
		"	.space 1\n"						\
		"	.size _.stapsdt.base, 1\n"				\
		"	.popsection\n"						\
		"	.endif\n"						\
		::: "memory")

#define PERF_MARK_BEGIN(name)	__PERF_MARK(#name "_begin")
#define PERF_MARK_END(name)	__PERF_MARK(#name "_end")

#endif /* __LIBPERF_MARK_H */
