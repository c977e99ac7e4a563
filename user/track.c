/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "track.h"

#include <stdlib.h>

/* Power of two. */
#define SLOTS_MIN 64

void dlp_tracks_fini(struct dlp_tracks *tracks)
{
	free(tracks->slot);
	*tracks = (struct dlp_tracks){ 0 };
}

/* Where the track is or would be; there is always a free slot. */
static struct dlp_track *seek(struct dlp_track *slot, size_t slot_cnt, uint32_t pid, uint32_t row)
{
	uint64_t key = ((uint64_t)pid << 32 | row) * 0x9e3779b97f4a7c15ull;
	size_t at = (size_t)(key >> 32) & (slot_cnt - 1);

	while (slot[at].used && (slot[at].pid != pid || slot[at].row != row))
		at = (at + 1) & (slot_cnt - 1);
	return &slot[at];
}

static bool grow(struct dlp_tracks *tracks)
{
	size_t slot_cnt = tracks->slot_cnt ? tracks->slot_cnt * 2 : SLOTS_MIN;
	struct dlp_track *slot = calloc(slot_cnt, sizeof(*slot));

	if (!slot)
		return false;
	for (size_t i = 0; i < tracks->slot_cnt; i++) {
		const struct dlp_track *old = &tracks->slot[i];

		if (old->used)
			*seek(slot, slot_cnt, old->pid, old->row) = *old;
	}
	free(tracks->slot);
	tracks->slot = slot;
	tracks->slot_cnt = slot_cnt;
	return true;
}

struct dlp_track *dlp_tracks_get(struct dlp_tracks *tracks, uint32_t pid, uint32_t row)
{
	struct dlp_track *track;

	if (tracks->track_cnt * 4 >= tracks->slot_cnt * 3 && !grow(tracks))
		return NULL;
	track = seek(tracks->slot, tracks->slot_cnt, pid, row);
	if (!track->used) {
		*track = (struct dlp_track){ .pid = pid, .row = row, .used = true };
		tracks->track_cnt++;
	}
	return track;
}

bool dlp_track_push(struct dlp_track *track, uint64_t start_ns, uint64_t *end_ns)
{
	if (start_ns > *end_ns || *end_ns > INT64_MAX)
		return false;
	while (track->depth && track->end_ns[track->depth - 1] <= start_ns)
		track->depth--;
	if (track->depth == DLP_TRACK_DEPTH_MAX)
		return false;
	if (track->depth && *end_ns > track->end_ns[track->depth - 1])
		*end_ns = track->end_ns[track->depth - 1];
	track->end_ns[track->depth++] = *end_ns;
	return true;
}
