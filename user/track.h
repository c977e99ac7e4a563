/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The rows of a picture, one per thread or whatever else is named by two numbers, and which slices
 * are open on each. Keeps slices nested: one that would outlast the slice it began in is cut there,
 * for viewers drop what overlaps. Pure.
 */
#ifndef DLP_TRACK_H
#define DLP_TRACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Scopes nested deeper are rare, and unreadable in any viewer. */
#define DLP_TRACK_DEPTH_MAX 16

struct dlp_track {
	uint32_t pid, row;
	bool used;
	bool named; /* the caller's */
	uint32_t depth;
	uint64_t end_ns[DLP_TRACK_DEPTH_MAX]; /* of the depth slices that are open */
	uint32_t tag[DLP_TRACK_DEPTH_MAX];    /* the caller's, one for each */
};

/* Zeroed = empty. */
struct dlp_tracks {
	struct dlp_track *slot;
	size_t slot_cnt, track_cnt;
};

void dlp_tracks_fini(struct dlp_tracks *tracks);
/* The track, made if need be; valid until the next call. NULL = out of memory. */
struct dlp_track *dlp_tracks_get(struct dlp_tracks *tracks, uint32_t pid, uint32_t row);
/*
 * Opens a slice; those of one track come in order of start, longer ones first. *end_ns becomes
 * earlier where the slice is cut. False = too deep, or it ends before it begins or after the end of
 * time (INT64_MAX): nothing was opened. Its depth is track->depth - 1.
 */
bool dlp_track_push(struct dlp_track *track, uint64_t start_ns, uint64_t *end_ns);

#endif /* DLP_TRACK_H */
