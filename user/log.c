/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "log.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* What was held back; whole lines, those that do not fit are counted. */
static struct {
	bool on;
	char text[4096];
	size_t bytes, left_out;
} held;

static void __attribute__((format(printf, 1, 0))) hold(const char *format, va_list args)
{
	size_t room = sizeof(held.text) - held.bytes;
	int bytes = vsnprintf(held.text + held.bytes, room, format, args);

	/* the line's end, too */
	if (bytes < 0 || (size_t)bytes + 2 > room) {
		held.left_out++;
		return;
	}
	held.bytes += (size_t)bytes;
	held.text[held.bytes++] = '\n';
}

void dlp_complain(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	if (held.on) {
		hold(format, args);
	} else {
		fputs("dlprof-bpf: ", stderr);
		vfprintf(stderr, format, args);
		fputc('\n', stderr);
	}
	va_end(args);
}

void dlp_complaints_hold(void)
{
	held.on = true;
}

void dlp_complaints_release(void)
{
	char *line = held.text, *end;

	held.on = false;
	for (; line < held.text + held.bytes; line = end + 1) {
		end = memchr(line, '\n', held.bytes - (size_t)(line - held.text));
		dlp_complain("%.*s", (int)(end - line), line);
	}
	if (held.left_out)
		dlp_complain("%zu more lines like these", held.left_out);
	held.bytes = held.left_out = 0;
}
