/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Between snapshot.c and snapshot_worker.c. */
#ifndef DLP_SNAPSHOT_PRIV_H
#define DLP_SNAPSHOT_PRIV_H

#include "snapshot.h"

struct dlp_reading {
	uint64_t at_ns, batch_cnt;
	struct dlp_clock clock;
};

/* Readings of one worker; the oldest of them is what "the last seconds" are measured from. */
struct dlp_past {
	uint32_t pid; /* 0 = free */
	bool seen;    /* in the snapshot being taken */
	size_t cnt;   /* ever */
	struct dlp_reading reading[DLP_SNAP_PAST];
};

struct dlp_device_past {
	uint32_t dev;
	uint64_t reads, bytes;
};

struct dlp_snapshots {
	struct dlp_past past[DLP_SNAP_WORKERS_MAX + 1]; /* the trainer's first */
	struct dlp_device_past device[DLP_MODEL_DEVICES_MAX];
	size_t device_cnt;
	struct dlp_sums sums, since; /* at the last interval's end; of the one that ends now */
	bool sums_taken;
	float history[DLP_SNAP_HISTORY_MAX];
	uint64_t history_cnt;
};

/* Rows of the trainer and the workers; `ret` may be NULL: then only readings are taken. */
void dlp_snapshot_workers(struct dlp_snapshots *snapshots, const struct dlp_model *model,
			  const struct dlp_snap_names *names, struct dlp_snapshot *ret);

#endif /* DLP_SNAPSHOT_PRIV_H */
