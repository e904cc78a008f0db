/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Code that the guest's demonstrations share: checks of their figures against each
 * other, and one line at the end for the harness, which collects them.
 */
#ifndef _REPORT_H
#define _REPORT_H

#include <stdbool.h>
#include <stdnoreturn.h>

#define ARRAY_SIZE(array)		(sizeof(array) / sizeof((array)[0]))
#define __format(text, arguments)	__attribute__(( \
	__format__(__printf__, text, arguments)))

/* Say why there is no report, and exit. */
noreturn void die(const char *format, ...) __format(1, 2);

/* Print one line about what must be true. */
void check(bool good, const char *format, ...) __format(2, 3);

/* Print the last line. Returns the exit status: 1 if a check has failed. */
int verdict(const char *feature, const char *format, ...) __format(2, 3);

#endif /* _REPORT_H */
