// SPDX-License-Identifier: GPL-2.0
#include "report.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static int nr_checks, nr_wrong;

void die(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	fprintf(stderr, "%s: ", program_invocation_short_name);
	vfprintf(stderr, format, arguments);
	fputc('\n', stderr);
	exit(2);
}

void check(bool good, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	fputs(good ? "  ok     " : "  WRONG  ", stdout);
	vprintf(format, arguments);
	putchar('\n');
	nr_checks++;
	nr_wrong += !good;
}

int verdict(const char *feature, const char *format, ...)
{
	va_list arguments;

	printf("verdict %s: ", feature);
	if (nr_wrong) {
		printf("%d of %d checks failed\n", nr_wrong, nr_checks);
		return 1;
	}
	va_start(arguments, format);
	printf("%d checks hold: ", nr_checks);
	vprintf(format, arguments);
	putchar('\n');
	return 0;
}
