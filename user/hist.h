/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Durations in bounded memory: a log-linear histogram whose quantiles are right within
 * 1/128 of the value, and a list of the longest intervals. Pure; knows no events.
 */
#ifndef DLP_HIST_H
#define DLP_HIST_H

#include <stddef.h>
#include <stdint.h>

/* 64 linear buckets per power of two up to 2^42 ns (73 min); longer ones count as the last. */
#define DLP_HIST_SUB 64
#define DLP_HIST_BUCKETS (DLP_HIST_SUB * 38)

struct dlp_hist {
	uint64_t cnt;
	uint64_t sum_ns;
	uint64_t max_ns; /* exact */
	uint64_t min_ns; /* exact; 0 when empty */
	uint32_t bucket[DLP_HIST_BUCKETS];
};

void dlp_hist_add(struct dlp_hist *hist, uint64_t ns);
/* The same `times` over; 0 adds nothing. */
void dlp_hist_add_times(struct dlp_hist *hist, uint64_t ns, uint32_t times);
/* Moves all of src's counts into dst. */
void dlp_hist_merge(struct dlp_hist *dst, const struct dlp_hist *src);
/* Takes out counts that were in it before; the largest and least are as exact as their buckets. */
void dlp_hist_less(struct dlp_hist *hist, const struct dlp_hist *before);
/*
 * Value below which the fraction q (0..1) of the entries lies; 0 when empty; never above max_ns.
 * The median (q = 0.5) of an even number of entries is the mean of the two in the middle: batches
 * that are ready and batches that are not make two groups of durations with nothing between.
 */
uint64_t dlp_hist_quantile(const struct dlp_hist *hist, double q);
/* Number of entries in buckets that lie wholly at or above ns. */
uint64_t dlp_hist_count_from(const struct dlp_hist *hist, uint64_t ns);

struct dlp_interval {
	uint64_t start_ns;
	uint64_t end_ns;
	int64_t batch;	     /* batch index within its iterator; -1 = unknown */
	uint32_t worker_pid; /* 0 = none or unknown */
};

/* As many as fit a summary that people read; the histogram knows how many there were. */
#define DLP_LONGEST_MAX 128

/* The longest intervals seen, as a min-heap on duration. */
struct dlp_longest {
	uint32_t cnt;
	struct dlp_interval item[DLP_LONGEST_MAX];
};

void dlp_longest_add(struct dlp_longest *list, const struct dlp_interval *interval);
/*
 * Copies those of at least min_ns, ordered by start, to out (room for DLP_LONGEST_MAX); returns
 * how many.
 */
size_t dlp_longest_from(const struct dlp_longest *list, uint64_t min_ns, struct dlp_interval *out);

#endif /* DLP_HIST_H */
