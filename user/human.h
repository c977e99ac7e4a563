/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Figures as people read them, the same in the lines and on the screen. Pure. */
#ifndef DLP_HUMAN_H
#define DLP_HUMAN_H

#include <stdint.h>

/* By value, so that a call can stand among the arguments of printf: dlp_human_bytes(n).text */
struct dlp_human {
	char text[24];
};

/* Three or four digits and a unit: "812 us", "4.21 ms", "12.3 s". */
struct dlp_human dlp_human_duration(uint64_t ns);
/* "512 B", "1.5 KiB", "14 MiB". */
struct dlp_human dlp_human_bytes(uint64_t bytes);

#endif /* DLP_HUMAN_H */
