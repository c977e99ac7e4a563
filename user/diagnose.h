/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * From the model to the verdict: is data loading the bottleneck, which part, how sure, on what
 * evidence. Pure code over struct dlp_model; all thresholds stand in diagnose_limits.h.
 */
#ifndef DLP_DIAGNOSE_H
#define DLP_DIAGNOSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model.h"
#include "sums.h"

enum dlp_bottleneck {
	DLP_BN_INSUFFICIENT = 0,
	DLP_BN_NOT_DATA_LOADING,
	DLP_BN_DATA_LOADING,
	DLP_BN_STALLED,
};

enum dlp_severity { DLP_SEV_NONE = 0, DLP_SEV_LOW, DLP_SEV_MODERATE, DLP_SEV_HIGH };
enum dlp_confidence { DLP_CONF_LOW = 0, DLP_CONF_MEDIUM, DLP_CONF_HIGH };
enum dlp_where { DLP_WHERE_WORKERS = 0, DLP_WHERE_MAIN, DLP_WHERE_SYSTEM };

/* Every cause of the summary: NAME, id. New ones are added here and in diagnose_table.c. */
#define DLP_CAUSES(X)                                                                              \
	X(NONE, "none")                                                                            \
	X(WORKER_CPU, "worker_cpu")                                                                \
	X(CPU_OVERSUBSCRIPTION, "cpu_oversubscription")                                            \
	X(CPU_AFFINITY, "cpu_affinity")                                                            \
	X(CPU_QUOTA, "cpu_quota")                                                                  \
	X(CPU_CONTENTION, "cpu_contention")                                                        \
	X(DISK_READ, "disk_read")                                                                  \
	X(PAGE_FAULT_READ, "page_fault_read")                                                      \
	X(FILESYSTEM_WAIT, "filesystem_wait")                                                      \
	X(NETWORK_WAIT, "network_wait")                                                            \
	X(LOCK_WAIT, "lock_wait")                                                                  \
	X(GIL_CONTENTION, "gil_contention")                                                        \
	X(BATCH_TRANSFER, "batch_transfer")                                                        \
	X(SHM_EXHAUSTED, "shm_exhausted")                                                          \
	X(MAIN_PROCESS, "main_process")                                                            \
	X(WORKER_STARTUP, "worker_startup")                                                        \
	X(SLOW_BATCH, "slow_batch")                                                                \
	X(IDLE_WORKERS, "idle_workers")                                                            \
	X(WORKER_STUCK, "worker_stuck")                                                            \
	X(WORKER_DIED, "worker_died")                                                              \
	X(MEMORY_PRESSURE, "memory_pressure")                                                      \
	X(GC_PAUSE, "gc_pause")                                                                    \
	X(SLEEP, "sleep")                                                                          \
	X(STRAGGLER_RANK, "straggler_rank")

enum dlp_cause {
#define X(NAME, id) DLP_CAUSE_##NAME,
	DLP_CAUSES(X)
#undef X
	DLP_CAUSE_MAX,
};

#define DLP_EVIDENCE_MAX 16
#define DLP_ADVICE_MAX 4

struct dlp_evidence {
	const char *metric; /* static */
	double value;
	const char *unit; /* static: "ratio", "us", "count", ... */
	char text[160];
};

struct dlp_advice {
	const char *text;	   /* static */
	const char *counter_check; /* static: what would prove it wrong */
};

struct dlp_candidate {
	enum dlp_cause cause;
	double share; /* part of the exposed total that would go if this cause went */
};

struct dlp_verdict {
	enum dlp_bottleneck bottleneck;
	double exposed_wait_ratio; /* NAN = not measured */
	double startup_ratio;	   /* NAN = not measured */
	enum dlp_severity severity;
	enum dlp_cause cause;
	enum dlp_where where;
	enum dlp_confidence confidence;
	char text[320]; /* one sentence, with the number that justifies it */
	struct dlp_evidence evidence[DLP_EVIDENCE_MAX];
	size_t evidence_cnt;
	struct dlp_advice advice[DLP_ADVICE_MAX];
	size_t advice_cnt;
	struct dlp_candidate candidate[DLP_CAUSE_MAX]; /* ranked by share, sum <= 1 */
	size_t candidate_cnt;
};

/* Of the time since `since` was taken; NULL = of the whole window. */
void dlp_diagnose(const struct dlp_model *model, const struct dlp_sums *since,
		  struct dlp_verdict *ret);
/* As if this loader were the only one; a stall is the job's, not told here. */
void dlp_diagnose_loader(const struct dlp_model *model, const struct dlp_loader *loader,
			 struct dlp_verdict *ret);

/* Part of the phase that the trainer waited, 0..1. */
double dlp_phase_ratio(const struct dlp_phase *phase);
/* What it waited for; DLP_CAUSE_NONE when it hardly did, or nothing tells. */
enum dlp_cause dlp_phase_cause(const struct dlp_model *model, const struct dlp_phase *phase);

const char *dlp_cause_id(enum dlp_cause cause);
const char *dlp_bottleneck_id(enum dlp_bottleneck bottleneck);
const char *dlp_severity_id(enum dlp_severity severity);
const char *dlp_confidence_id(enum dlp_confidence confidence);
const char *dlp_where_id(enum dlp_where where);

#endif /* DLP_DIAGNOSE_H */
