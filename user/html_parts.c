/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The files of user/html/ as the assembler reads them: compiling starts where they can be found. */
#include "html_priv.h"

#define PART(name, file)                                                                           \
	extern const char name##_text[], name##_end[];                                             \
	__asm__(".pushsection .rodata\n"                                                           \
		".global " #name "_text, " #name "_end\n"                                          \
		".hidden " #name "_text, " #name "_end\n" #name "_text: .incbin \"user/html/" file \
		"\"\n" #name "_end:\n"                                                             \
		".popsection\n")

PART(dlp_html_page, "page.html");
PART(dlp_html_style, "page.css");
PART(dlp_html_base, "base.js");
PART(dlp_html_run, "run.js");
PART(dlp_html_view, "view.js");
PART(dlp_html_charts, "charts.js");
PART(dlp_html_lanes, "lanes.js");
PART(dlp_html_main, "page.js");

const struct dlp_html_part dlp_html_page = { dlp_html_page_text, dlp_html_page_end };
const struct dlp_html_part dlp_html_style = { dlp_html_style_text, dlp_html_style_end };
/* in this order: the last one starts the page */
const struct dlp_html_part dlp_html_script[] = {
	{ dlp_html_base_text, dlp_html_base_end },	{ dlp_html_run_text, dlp_html_run_end },
	{ dlp_html_view_text, dlp_html_view_end },	{ dlp_html_charts_text, dlp_html_charts_end },
	{ dlp_html_lanes_text, dlp_html_lanes_end },	{ dlp_html_main_text, dlp_html_main_end },
};
const size_t dlp_html_script_cnt = sizeof(dlp_html_script) / sizeof(dlp_html_script[0]);
