/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "stats.h"

#include <stdlib.h>
#include <string.h>

#include "map.h"

void dlp_stats_add(struct dlp_stats *stats, uint64_t ns)
{
	if (dlp_grow(&stats->ns, &stats->room, stats->cnt, sizeof(*stats->ns))) {
		stats->failed = true;
		return;
	}
	stats->ns[stats->cnt++] = ns;
	stats->sum_ns += ns;
	stats->sorted = false;
}

static int order(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static void sort(struct dlp_stats *stats)
{
	if (!stats->sorted && stats->cnt)
		qsort(stats->ns, stats->cnt, sizeof(*stats->ns), order);
	stats->sorted = true;
}

uint64_t dlp_stats_quantile(struct dlp_stats *stats, double q)
{
	double at, part;
	size_t low;

	if (!stats->cnt)
		return 0;
	sort(stats);
	at = q * (double)(stats->cnt - 1);
	low = (size_t)at;
	if (low + 1 >= stats->cnt)
		return stats->ns[stats->cnt - 1];
	part = at - (double)low;
	return stats->ns[low] + (uint64_t)(part * (double)(stats->ns[low + 1] - stats->ns[low]));
}

uint64_t dlp_stats_outlier(struct dlp_stats *stats)
{
	uint64_t median = dlp_stats_quantile(stats, 0.5);

	if (!stats->cnt)
		return UINT64_MAX;
	return median ? 2 * median : 1;
}

size_t dlp_stats_count_from(struct dlp_stats *stats, uint64_t ns)
{
	size_t low = 0, high = stats->cnt;

	sort(stats);
	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (stats->ns[mid] < ns)
			low = mid + 1;
		else
			high = mid;
	}
	return stats->cnt - low;
}

void dlp_stats_clear(struct dlp_stats *stats)
{
	stats->cnt = 0;
	stats->sum_ns = 0;
	stats->sorted = stats->failed = false;
}

void dlp_stats_fini(struct dlp_stats *stats)
{
	free(stats->ns);
	memset(stats, 0, sizeof(*stats));
}
