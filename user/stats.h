/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Exact statistics of durations that are all in memory. Pure. */
#ifndef DLP_STATS_H
#define DLP_STATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zeroed = empty. */
struct dlp_stats {
	uint64_t *ns;
	size_t cnt, room;
	uint64_t sum_ns;
	bool sorted, failed; /* failed: memory was short, figures are unknown */
};

void dlp_stats_add(struct dlp_stats *stats, uint64_t ns);
/* The fraction q (0..1), linear between neighbours as numpy's percentile; 0 when empty. */
uint64_t dlp_stats_quantile(struct dlp_stats *stats, double q);
/* An outlier lasts at least twice the median, and longer than it. UINT64_MAX when empty. */
uint64_t dlp_stats_outlier(struct dlp_stats *stats);
/* How many last at least so long. */
size_t dlp_stats_count_from(struct dlp_stats *stats, uint64_t ns);
/* Empties it and keeps its memory. */
void dlp_stats_clear(struct dlp_stats *stats);
void dlp_stats_fini(struct dlp_stats *stats);

#endif /* DLP_STATS_H */
