/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "human.h"

#include <stdio.h>

#include "util.h"

struct dlp_human dlp_human_duration(uint64_t ns)
{
	struct dlp_human ret;
	double us = (double)ns / 1e3;

	if (us < 999.5)
		(void)snprintf(ret.text, sizeof(ret.text), us < 9.95 ? "%.1f us" : "%.0f us", us);
	else if (us < 999.5e3)
		(void)snprintf(ret.text, sizeof(ret.text),
			       us < 9.995e3 ? "%.2f ms" :
			       us < 99.95e3 ? "%.1f ms" :
					      "%.0f ms",
			       us / 1e3);
	else
		(void)snprintf(ret.text, sizeof(ret.text),
			       us < 9.995e6 ? "%.2f s" :
			       us < 99.95e6 ? "%.1f s" :
					      "%.0f s",
			       us / 1e6);
	return ret;
}

struct dlp_human dlp_human_bytes(uint64_t bytes)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	double left = (double)bytes;
	size_t unit = 0;
	struct dlp_human ret;

	for (; left >= 1023.5 && unit + 1 < DLP_ARRAY_SIZE(units); unit++)
		left /= 1024;
	(void)snprintf(ret.text, sizeof(ret.text), unit && left < 9.95 ? "%.1f %s" : "%.0f %s",
		       left, units[unit]);
	return ret;
}
