/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What happened in a part of a run, of all kinds, as far as --events and --dimensions want it. */
#ifndef DLP_REPORT_EVENTS_H
#define DLP_REPORT_EVENTS_H

#include "activity.h"
#include "report_priv.h"

/* More fill a file that nobody reads; 20 MB. */
#define DLP_HAPPENINGS_MAX 100000

struct dlp_happening {
	uint64_t start_ns, end_ns;
	const char *dimension; /* static: "trainer", "worker", "wait", "label", "block" */
	char event[DLP_LABEL_MAX + 1]; /* "GetNext", "wait:disk", a label; untrusted */
	uint32_t pid, tid;
	char detail[64];
};

struct dlp_happenings {
	struct dlp_happening *at; /* freed with dlp_happenings_fini */
	size_t cnt, room, max;
	uint64_t left_out; /* did not fit */
	bool failed;
};

/* Adds what overlaps that time, kind by kind. */
void dlp_report_events(const struct dlp_report *report, const struct dlp_activity *activity,
		       uint64_t from_ns, uint64_t to_ns, struct dlp_happenings *list);
/* By what they have in common with that time. */
void dlp_happenings_longest(struct dlp_happenings *list, uint64_t from_ns, uint64_t to_ns);
void dlp_happenings_by_start(struct dlp_happenings *list);
void dlp_happenings_fini(struct dlp_happenings *list);
/* start, end, duration, dimension, event, pid, tid, detail */
void dlp_happening_put(struct dlp_table *table, const struct dlp_happening *happening);

#endif /* DLP_REPORT_EVENTS_H */
