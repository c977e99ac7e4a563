/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What svg*.c share. Lengths are units of the picture, which is as wide as the reader's window. */
#ifndef DLP_SVG_PRIV_H
#define DLP_SVG_PRIV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "activity.h"
#include "report.h"

#define DLP_SVG_WIDTH 960
#define DLP_SVG_LEFT 12
/* The time axis, and the columns of a lane: one a unit. */
#define DLP_SVG_PLOT 936
/* A line of text, room for the larger letters of narrow windows. */
#define DLP_SVG_LINE 27
/* More lanes are no picture any more. */
#define DLP_SVG_WORKERS 32

/* What is drawn in a colour of its own: CLASS, class in the style sheet, text of the legend. */
#define DLP_SVG_CLASSES(X)                                                                         \
	X(STEP, "step", "training, outside the loader")                                            \
	X(WAIT, "wait", "waiting inside GetNext")                                                  \
	X(OUTLIER, "outlier", "GetNext: twice the median")                                         \
	X(ITER, "iter", "iter(): making an iterator")                                              \
	X(RUN, "run", "making a batch")                                                            \
	X(RUNQ, "runq", "waiting for a CPU")                                                       \
	X(DISK, "disk", "waiting for a disk")                                                      \
	X(FAULT, "fault", "page fault from a disk")                                                \
	X(FS, "fs", "in a file system")                                                            \
	X(NET, "net", "on a socket")                                                               \
	X(LOCK, "lock", "on a lock")                                                               \
	X(GIL, "gil", "on Python's GIL")                                                           \
	X(PIPE, "pipe", "on a pipe of the job")                                                    \
	X(SLEEP, "sleep", "asleep on purpose")

enum dlp_svg_class {
#define X(CLASS, name, text) DLP_SVG_##CLASS,
	DLP_SVG_CLASSES(X)
#undef X
		DLP_SVG_CLASS_MAX,
};

struct dlp_svg {
	FILE *out;
	const struct dlp_report *report;
	const struct dlp_activity *activity;
	uint64_t from_ns, to_ns;
	double y;      /* where the next thing begins */
	uint32_t used; /* bits, 1u << enum dlp_svg_class: what the legend explains */
};

/* Time of each column of a lane, by class. */
struct dlp_svg_lane {
	double from_ns, column_ns;
	double ns[DLP_SVG_CLASS_MAX][DLP_SVG_PLOT];
};

/* svg_out.c: elements. */
double dlp_svg_x(const struct dlp_svg *svg, uint64_t ts_ns);
/* `class` is trusted; `bytes` bounds the text, which is sanitised and escaped. */
void dlp_svg_text(FILE *out, double x, double y, const char *class, const char *text, size_t bytes);
/* A heading with figures behind it, formatted; moves y behind it. */
void dlp_svg_heading(struct dlp_svg *svg, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* Words of one text on as many lines as it takes; moves y. */
void dlp_svg_paragraph(struct dlp_svg *svg, const char *class, const char *text);
/* An empty plot with its frame, from y on; moves nothing. */
void dlp_svg_ground(const struct dlp_svg *svg, double height);
const char *dlp_svg_class(enum dlp_svg_class class);

/* svg_lanes.c */
void dlp_svg_lanes(struct dlp_svg *svg);
/* Empties it, for the time of the picture. */
void dlp_svg_lane_init(const struct dlp_svg *svg, struct dlp_svg_lane *lane);
/* The time inside GetNext, a call that has not ended included. */
void dlp_svg_lane_waits(const struct dlp_svg *svg, struct dlp_svg_lane *lane);
/* Time of one class; it may overlap the columns in any way. */
void dlp_svg_lane_add(struct dlp_svg_lane *lane, enum dlp_svg_class class, uint64_t start_ns,
		      uint64_t end_ns);
/* Each column shows how its time splits, the first class at the bottom; moves y. */
void dlp_svg_lane_draw(struct dlp_svg *svg, const struct dlp_svg_lane *lane, double height);

/* svg_calls.c */
void dlp_svg_exposed(struct dlp_svg *svg);
/* GetNext calls of each loader. 0 or -ENOMEM. */
int dlp_svg_calls(struct dlp_svg *svg);

#endif /* DLP_SVG_PRIV_H */
