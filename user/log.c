/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "log.h"

#include <stdarg.h>
#include <stdio.h>

void dlp_complain(const char *format, ...)
{
	va_list args;

	fputs("dlprof-bpf: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
}
