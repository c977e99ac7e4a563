/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the live screen shows, taken from the model once an interval: figures of the last seconds
 * by comparing with earlier readings, a bounded history, and texts that are safe to print. A
 * paused screen keeps its snapshot while the model goes on. Pure: names of files and devices come
 * from the caller.
 */
#ifndef DLP_SNAPSHOT_H
#define DLP_SNAPSHOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "diagnose.h"
#include "model.h"
#include "sums.h"
#include "summary.h"

#define DLP_SNAP_WORKERS_MAX 256 /* nobody scrolls through more; the others are counted */
#define DLP_SNAP_DEVICES_MAX 8
#define DLP_SNAP_STAGES_MAX 32
#define DLP_SNAP_HISTORY_MAX 1024 /* intervals; a power of two */
/* Readings of a worker that are kept to compare with, at least a second apart. */
#define DLP_SNAP_PAST 4

/* Durations in nanoseconds; 0 = not known. */
struct dlp_snap_times {
	uint64_t now_ns; /* mean of the last interval */
	uint64_t median_ns, p99_ns, max_ns;
};

/* A loader, or, as the first of them, all together. */
struct dlp_snap_loader {
	uint32_t id; /* 0 = all */
	char type[DLP_TYPE_MAX];
	int num_workers;   /* -1 = not known */
	uint32_t prefetch; /* 0 = not known */
	uint64_t batch_cnt;
	double rate;  /* batches a second in the last interval; NAN = not known, like the others */
	double ready; /* batches ready when GetNext began, mean */
	struct dlp_snap_times getnext, step;
	/* of all: the last seconds; of one loader: the whole window */
	double exposed; /* start-up included */
	enum dlp_bottleneck bottleneck;
	enum dlp_severity severity;
	enum dlp_cause cause;
	enum dlp_confidence confidence;
	char text[320];
	struct dlp_candidate candidate[3];
	size_t candidate_cnt;
	const char *advice; /* static; NULL = none */
};

struct dlp_snap_worker {
	uint32_t pid, loader;
	bool trainer; /* no worker: the training thread */
	uint64_t batch_cnt;
	double rate; /* batches a second in the last seconds; NAN = not known */
	uint64_t median_ns, p99_ns, max_ns; /* production time; 0 = not known */
	struct dlp_clock recent, total;	    /* last seconds, window; sum 0 = not known */
	uint64_t age_ns;		    /* since its birth; 0 = not known */
	bool dead;
	uint32_t exit_code;
	/* now */
	bool known;
	uint32_t state;
	uint64_t state_ns; /* so long already */
	char call[24];	   /* system call or "page fault"; "" = none or unknown */
	char object[160];  /* path, address or device; "" = not known */
	char fs[24];	   /* file system; "" = none */
	bool is_path;	   /* `object` is a path: its end tells more than its begin */
	uint32_t threads, cpus;
	bool proc_known; /* these two: */
	uint64_t read_bytes, majflt;
};

struct dlp_snap_device {
	char name[32];
	double reads, bytes; /* a second; NAN = not known yet */
	uint64_t median_ns, p99_ns;
};

struct dlp_snap_stage {
	char label[DLP_LABEL_MAX + 1];
	bool worker, sampled;
	uint64_t cnt, median_ns, max_ns; /* median 0 = not known */
	double share;
};

/* NAN = not known or no such limit. */
struct dlp_snap_system {
	uint32_t cpus;
	double busy, steal; /* shares of all CPUs' time */
	double others_cpus;
	char other[40]; /* the process outside the job that used most, "" = none */
	double quota_cpus, throttled;
	bool mem_known, group_known, shm_known;
	uint64_t mem_available, mem_total, swap_used;
	uint64_t group_used, group_limit, shm_free, shm_total;
};

struct dlp_snapshot {
	uint32_t pid;
	char cmdline[128];
	char rank[16]; /* its name among several on one screen, filled by the caller; "" = alone */
	uint64_t window_ns;
	double cost;	    /* CPUs used by the tool and its probes; NAN = not known */
	double probe_cost;  /* the probes' part of it; NAN = not known */
	uint64_t rss_bytes; /* 0 = not known */
	bool complete;	    /* no figure may be short */
	bool governed;	    /* probes are left out to spare the job */
	char fewer[160];    /* which, and why; "" = none */
	char lost[96];	    /* why; "" = nothing was lost */
	size_t missing_cnt; /* parts that the kernel refuses or the user left out */
	struct dlp_snap_loader loader[DLP_MODEL_LOADERS_MAX + 1];
	size_t loader_cnt;
	struct dlp_snap_worker worker[DLP_SNAP_WORKERS_MAX + 1]; /* the trainer first */
	size_t worker_cnt, workers_alive, workers_unseen;
	struct dlp_snap_device device[DLP_SNAP_DEVICES_MAX];
	size_t device_cnt;
	struct dlp_snap_stage stage[DLP_SNAP_STAGES_MAX];
	size_t stage_cnt;
	struct dlp_snap_system system;
	/* exposed total of each interval, 0..1, NAN = unknown: ring, history_cnt of them ever */
	float history[DLP_SNAP_HISTORY_MAX];
	uint64_t history_cnt;
	uint64_t interval_ns;
};

/* Names that the model does not know; functions may be NULL. */
struct dlp_snap_names {
	const char *(*device)(uint32_t dev, char *buf, size_t size);
	/*
	 * What a blocked thread waits for: a path, or an address; sanitised, into buf. NULL = not
	 * known. *ret_path tells whether it is a path.
	 */
	const char *(*object)(void *ctx, const struct dlp_thread *thread, char *buf, size_t size,
			      bool *ret_path);
	void *ctx;
};

struct dlp_snapshots; /* what is kept between two snapshots; a few hundred kilobytes */

/* 0 or -ENOMEM. *ret is freed with dlp_snapshots_free. */
int dlp_snapshots_new(struct dlp_snapshots **ret);
void dlp_snapshots_free(struct dlp_snapshots *snapshots);
/*
 * To be called once at each interval's end: takes readings, and fills *ret unless it is NULL.
 * `lately` is the verdict of the last seconds.
 */
void dlp_snapshots_take(struct dlp_snapshots *snapshots, const struct dlp_model *model,
			const struct dlp_verdict *lately, const struct dlp_summary_facts *facts,
			const struct dlp_snap_names *names, struct dlp_snapshot *ret);

#endif /* DLP_SNAPSHOT_H */
