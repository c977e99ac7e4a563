/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the sections of the report (report_*.c) share. */
#ifndef DLP_REPORT_PRIV_H
#define DLP_REPORT_PRIV_H

#include "report.h"
#include "stats.h"

/* The largest section has five. */
#define DLP_PART_TABLES 6

/* A section's tables. */
struct dlp_part {
	struct dlp_table table[DLP_PART_TABLES];
	size_t table_cnt;
	bool failed; /* memory was short */
};

struct dlp_table *dlp_part_table(struct dlp_part *part, const struct dlp_table_form *form);

/* Each fills the tables of its section. */
#define X(NAME, name) void dlp_report_##name(const struct dlp_report *report, struct dlp_part *part);
DLP_REPORT_SECTIONS(X)
#undef X

/* Ended in the selected time, which lies in the window. */
bool dlp_selected(const struct dlp_report *report, uint64_t end_ns);
/* Any part of it lies in the selected time. */
bool dlp_selected_part(const struct dlp_report *report, uint64_t start_ns, uint64_t end_ns);
bool dlp_selected_loader(const struct dlp_report *report, uint32_t loader);
bool dlp_selected_worker(const struct dlp_report *report, uint32_t pid);
bool dlp_selected_call(const struct dlp_report *report, const struct dlp_history_call *call);
bool dlp_matches(const regex_t *regex, const char *text); /* NULL matches all */
/* The selected part of the window. */
void dlp_selected_time(const struct dlp_report *report, uint64_t *ret_from_ns,
		       uint64_t *ret_to_ns);

/* Puts count, median, p95, p99, max and the number of outliers; unknown when there are none. */
void dlp_put_stats(struct dlp_table *table, struct dlp_stats *stats);
/* "nvme0n1", or "259:1". */
const char *dlp_report_device(const struct dlp_report *report, uint32_t dev, char *buf,
			      size_t size);

#endif /* DLP_REPORT_PRIV_H */
