/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "hist.h"

#include <stdlib.h>
#include <string.h>

/*
 * Values below DLP_HIST_SUB have a bucket each; above, every power of two is cut into
 * DLP_HIST_SUB equal ones, so a bucket's middle is within 1/128 of everything in it.
 */
static size_t bucket_of(uint64_t ns)
{
	size_t power, bucket;

	if (ns < DLP_HIST_SUB)
		return ns;
	power = 63 - (size_t)__builtin_clzll(ns);
	bucket = (power - 5) * DLP_HIST_SUB + (size_t)(ns >> (power - 6)) - DLP_HIST_SUB;
	return bucket < DLP_HIST_BUCKETS ? bucket : DLP_HIST_BUCKETS - 1;
}

static uint64_t bucket_low(size_t bucket)
{
	size_t group = bucket / DLP_HIST_SUB;
	uint64_t sub = bucket % DLP_HIST_SUB;

	return group ? (DLP_HIST_SUB + sub) << (group - 1) : sub;
}

static uint64_t bucket_width(size_t bucket)
{
	size_t group = bucket / DLP_HIST_SUB;

	return group ? 1ull << (group - 1) : 1;
}

static void count_up(uint32_t *count, uint32_t by)
{
	/* a full bucket distorts quantiles a little; a wrapped one would turn them upside down */
	if (__builtin_add_overflow(*count, by, count))
		*count = UINT32_MAX;
}

void dlp_hist_add(struct dlp_hist *hist, uint64_t ns)
{
	dlp_hist_add_times(hist, ns, 1);
}

void dlp_hist_add_times(struct dlp_hist *hist, uint64_t ns, uint32_t times)
{
	if (!times)
		return;
	if (!hist->cnt || ns < hist->min_ns)
		hist->min_ns = ns;
	if (ns > hist->max_ns)
		hist->max_ns = ns;
	hist->cnt += times;
	hist->sum_ns += ns * times;
	count_up(&hist->bucket[bucket_of(ns)], times);
}

void dlp_hist_merge(struct dlp_hist *dst, const struct dlp_hist *src)
{
	if (!src->cnt)
		return;
	if (!dst->cnt || src->min_ns < dst->min_ns)
		dst->min_ns = src->min_ns;
	if (src->max_ns > dst->max_ns)
		dst->max_ns = src->max_ns;
	dst->cnt += src->cnt;
	dst->sum_ns += src->sum_ns;
	for (size_t i = 0; i < DLP_HIST_BUCKETS; i++)
		count_up(&dst->bucket[i], src->bucket[i]);
}

void dlp_hist_less(struct dlp_hist *hist, const struct dlp_hist *before)
{
	size_t low = DLP_HIST_BUCKETS, high = 0;
	uint64_t top;

	hist->cnt -= before->cnt;
	hist->sum_ns -= before->sum_ns;
	for (size_t i = 0; i < DLP_HIST_BUCKETS; i++) {
		hist->bucket[i] -= before->bucket[i];
		if (!hist->bucket[i])
			continue;
		low = i < low ? i : low;
		high = i;
	}
	if (!hist->cnt) {
		hist->min_ns = hist->max_ns = 0;
		return;
	}
	/* one that is beyond all there was before is exact */
	top = bucket_low(high) + bucket_width(high) - 1;
	if (hist->max_ns <= before->max_ns && top < hist->max_ns)
		hist->max_ns = top;
	if (before->cnt && hist->min_ns >= before->min_ns && bucket_low(low) > hist->min_ns)
		hist->min_ns = bucket_low(low);
}

/* The entry of this rank, the smallest being 1. */
static uint64_t entry_at(const struct dlp_hist *hist, uint64_t rank)
{
	uint64_t below = 0, value = hist->max_ns;

	for (size_t i = 0; i < DLP_HIST_BUCKETS; i++) {
		below += hist->bucket[i];
		if (below < rank)
			continue;
		/* the last bucket has no upper end: the exact maximum is the better answer */
		if (i < DLP_HIST_BUCKETS - 1)
			value = bucket_low(i) + bucket_width(i) / 2;
		break;
	}
	if (value > hist->max_ns)
		value = hist->max_ns;
	return value < hist->min_ns ? hist->min_ns : value;
}

uint64_t dlp_hist_quantile(const struct dlp_hist *hist, double q)
{
	uint64_t rank;

	if (!hist->cnt)
		return 0;
	if (!(q > 0))
		return hist->min_ns;
	if (q >= 1)
		return hist->max_ns;
	/* nearest rank: the smallest entry with at least q of all at or below it */
	rank = (uint64_t)(q * (double)hist->cnt);
	if ((double)rank < q * (double)hist->cnt)
		rank++;
	if (q == 0.5 && hist->cnt % 2 == 0) {
		uint64_t low = entry_at(hist, rank), high = entry_at(hist, rank + 1);

		return low + (high - low) / 2;
	}
	return entry_at(hist, rank);
}

uint64_t dlp_hist_count_from(const struct dlp_hist *hist, uint64_t ns)
{
	size_t first = bucket_of(ns);
	uint64_t cnt = 0;

	if (bucket_low(first) < ns)
		first++;
	for (size_t i = first; i < DLP_HIST_BUCKETS; i++)
		cnt += hist->bucket[i];
	return cnt;
}

static uint64_t duration(const struct dlp_interval *interval)
{
	return interval->end_ns - interval->start_ns;
}

static void swap(struct dlp_interval *a, struct dlp_interval *b)
{
	struct dlp_interval tmp = *a;

	*a = *b;
	*b = tmp;
}

void dlp_longest_add(struct dlp_longest *list, const struct dlp_interval *interval)
{
	struct dlp_interval *item = list->item;
	size_t at;

	if (list->cnt < DLP_LONGEST_MAX) {
		at = list->cnt++;
		item[at] = *interval;
		while (at && duration(&item[at]) < duration(&item[(at - 1) / 2])) {
			swap(&item[at], &item[(at - 1) / 2]);
			at = (at - 1) / 2;
		}
		return;
	}
	if (duration(interval) <= duration(&item[0]))
		return;
	item[0] = *interval;
	at = 0;
	for (;;) {
		size_t least = at;

		for (size_t child = 2 * at + 1; child <= 2 * at + 2; child++) {
			if (child < list->cnt && duration(&item[child]) < duration(&item[least]))
				least = child;
		}
		if (least == at)
			return;
		swap(&item[at], &item[least]);
		at = least;
	}
}

static int by_start(const void *a, const void *b)
{
	const struct dlp_interval *x = a, *y = b;

	return (x->start_ns > y->start_ns) - (x->start_ns < y->start_ns);
}

size_t dlp_longest_from(const struct dlp_longest *list, uint64_t min_ns, struct dlp_interval *out)
{
	size_t cnt = 0;

	for (size_t i = 0; i < list->cnt; i++) {
		if (duration(&list->item[i]) >= min_ns)
			out[cnt++] = list->item[i];
	}
	if (cnt)
		qsort(out, cnt, sizeof(*out), by_start);
	return cnt;
}
