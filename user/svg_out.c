/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The elements that the picture is made of. */
#include "svg_priv.h"

#include <stdarg.h>
#include <string.h>

#include "util.h"

/* Bold letters of the large size that fit a line. */
#define LINE_LETTERS 72

double dlp_svg_x(const struct dlp_svg *svg, uint64_t ts_ns)
{
	double at = (double)(int64_t)(ts_ns - svg->from_ns);

	return DLP_SVG_LEFT + DLP_SVG_PLOT * at / (double)(svg->to_ns - svg->from_ns);
}

/* Of what is valid UTF-8, XML allows all but control characters, which are gone, and two others. */
static size_t put_char(FILE *out, const char *text)
{
	static const char *const bad[] = { "\xef\xbf\xbe", "\xef\xbf\xbf" };

	for (size_t i = 0; i < DLP_ARRAY_SIZE(bad); i++) {
		if (!strncmp(text, bad[i], strlen(bad[i]))) {
			(void)fputc('?', out);
			return strlen(bad[i]);
		}
	}
	switch (*text) {
	case '<':
		(void)fputs("&lt;", out);
		break;
	case '>':
		(void)fputs("&gt;", out);
		break;
	case '&':
		(void)fputs("&amp;", out);
		break;
	default:
		(void)fputc(*text, out);
	}
	return 1;
}

void dlp_svg_text(FILE *out, double x, double y, const char *class, const char *text, size_t bytes)
{
	char shown[1024];

	dlp_sanitise(shown, sizeof(shown), text, bytes);
	fprintf(out, "<text class=\"%s\" x=\"%.1f\" y=\"%.1f\">", class, x, y);
	for (const char *at = shown; *at;)
		at += put_char(out, at);
	(void)fputs("</text>\n", out);
}

void dlp_svg_heading(struct dlp_svg *svg, const char *format, ...)
{
	char text[200];
	va_list args;

	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	dlp_svg_text(svg->out, DLP_SVG_LEFT, svg->y + DLP_SVG_LINE - 7, "head", text, sizeof(text));
	svg->y += DLP_SVG_LINE;
}

/* Bytes of the text's first line; the last space that fits ends it, or no space at all. */
static size_t line_bytes(const char *text)
{
	size_t letters = 0, best = 0, at = 0;

	for (; text[at] && letters <= LINE_LETTERS; at++) {
		if (text[at] == ' ')
			best = at;
		/* not the bytes that continue a character */
		letters += ((unsigned char)text[at] & 0xc0) != 0x80;
	}
	return text[at] && best ? best : at;
}

void dlp_svg_paragraph(struct dlp_svg *svg, const char *class, const char *text)
{
	while (*text) {
		size_t bytes = line_bytes(text);

		dlp_svg_text(svg->out, DLP_SVG_LEFT, svg->y + DLP_SVG_LINE - 7, class, text, bytes);
		svg->y += DLP_SVG_LINE;
		text += bytes;
		text += strspn(text, " ");
	}
}

void dlp_svg_ground(const struct dlp_svg *svg, double height)
{
	fprintf(svg->out,
		"<rect class=\"ground\" x=\"%d\" y=\"%.1f\" width=\"%d\" height=\"%.1f\"/>\n",
		DLP_SVG_LEFT, svg->y, DLP_SVG_PLOT, height);
}

const char *dlp_svg_class(enum dlp_svg_class class)
{
	static const char *const names[] = {
#define X(CLASS, name, text) name,
		DLP_SVG_CLASSES(X)
#undef X
	};

	return names[class];
}
