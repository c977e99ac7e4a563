/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the diagnosis's own files share: the facts judged, the table of causes, the wording. */
#ifndef DLP_DIAGNOSE_PRIV_H
#define DLP_DIAGNOSE_PRIV_H

#include "diagnose.h"
#include "diagnose_limits.h"
#include "loss.h"
#include "split.h"
#include "sums.h"

/* Who takes the CPUs that runnable threads wait for. Figures are NAN where not known. */
struct dlp_cpu_facts {
	uint32_t cpus;		/* online; 0 = unknown, as the two below */
	uint32_t cpus_allowed;	/* of the trainer */
	uint32_t cpus_worker;	/* of the worker that may use fewest, where workers make batches */
	double quota_cpus;
	double throttled;	/* share of the quota's periods */
	double others_cpus;	/* used by processes outside the job */
	double steal;		/* share of all CPUs the hypervisor took */
	double runnable;	/* the job's threads that ran or wanted to, on average */
	double pool;		/* part of these: the workers' threads other than main threads */
	enum dlp_cause lack;	/* cause of waits for a CPU */
};

/* Part of CPU time that the garbage collector had; share and error NAN = not known. */
struct dlp_gc_share {
	double share, error; /* error: two standard errors */
	uint64_t samples;    /* it was told from */
};

/* Everything the rules look at, taken from the model once. */
struct dlp_facts {
	const struct dlp_model *model;
	const struct dlp_sums *sums;
	double window_s;
	double exposed, startup; /* ratios; NAN = not measured */
	double total;		 /* their sum, what is known of it */
	bool brief;		 /* not the whole window: the last moments of a live view */
	uint64_t calls;		 /* GetNext calls that ended */
	struct dlp_loader_sums all; /* of the loaders judged, added up */
	struct dlp_loader_sums both; /* and those of the other kind: what startup is made of */
	struct dlp_clock inside_named; /* GetNext of those among them that the user has named */
	const struct dlp_loader *loader; /* the one among them that costs most; NULL = none seen */
	const struct dlp_loader *only;	 /* likewise, when no other is judged; else NULL */
	bool enough;			 /* was seen to judge */
	bool main_makes;	 /* it has num_workers=0: the training thread makes the batches */
	size_t workers;		 /* with a clock */
	struct dlp_clock made;	 /* whoever makes the batches; idle included */
	double idle;		 /* workers' idle share of their time; NAN = no workers */
	struct dlp_share share[DLP_ST_MAX]; /* of the production time, largest first */
	size_t share_cnt;
	double system_time;	 /* share of the workers' CPU time in the kernel; NAN = unknown */
	double faults_per_ms;	 /* page faults without a read per ms of it */
	double memory_stall;	 /* part of the window in which some task stalled for memory; NAN = unknown */
	uint64_t fruitful, barren; /* workers with and without a batch of theirs */
	struct dlp_cpu_facts cpu;
	struct dlp_gc_share gc_made; /* whoever makes the batches */
	struct dlp_gc_share gc_inside, gc_outside; /* the training thread, in GetNext and out of it */
	double gc_main_ns; /* part of the collector's cost that is the training thread's */
	/* what the exposed total is made of, by cause, ns; sums up to cost_ns */
	double cost[DLP_CAUSE_MAX];
	double cost_ns;
	double unfinished_ns; /* part of it: a GetNext that has not ended yet */
	/*
	 * Work of the workers' other threads, where that is what their main threads' waits for locks
	 * are charged to; else 0.
	 */
	struct dlp_clock helpers;
	double stuck_s; /* the training thread has been in one unfinished GetNext so long */
	bool asleep;	/* and nobody who could end that has run lately */
	const struct dlp_worker *dead; /* died unexpectedly, and nothing was delivered since */
	bool failed;	/* a worker has sent an exception as its last result */
	struct dlp_loss loss;
};

struct dlp_cause_info {
	unsigned int state; /* whose share is this cause's; DLP_ST_MAX = not told from a state */
	const char *doing;  /* "spend 88 % of their production time ..." */
	enum dlp_where where;
	struct dlp_advice advice[DLP_ADVICE_MAX]; /* up to the first without a text */
};

const struct dlp_cause_info *dlp_cause_info(enum dlp_cause cause);
/* DLP_CAUSE_NONE where a state has no cause of its own; runq has none, see dlp_cpu_facts.lack. */
enum dlp_cause dlp_cause_of_state(unsigned int state, bool main_makes);
const char *dlp_state_doing(unsigned int state);

/* diagnose_cpu.c */
void dlp_gather_cpu(struct dlp_facts *facts);
/* diagnose_cost.c: fills facts->cost and cost_ns from everything else. */
void dlp_gather_cost(struct dlp_facts *facts);
/* Part of the exposed total that a cause stands for, 0..1. */
double dlp_cost_share(const struct dlp_facts *facts, enum dlp_cause cause);
/* Is it mostly the training thread that waits for the interpreter's lock? */
bool dlp_gil_is_mains(const struct dlp_facts *facts);
/* Of a loader of the job's own: is it mostly the training thread that reads or sleeps? */
bool dlp_wait_is_mains(const struct dlp_facts *facts, enum dlp_cause cause);
/* diagnose_gc.c */
void dlp_gather_gc(struct dlp_facts *facts);
/* The share, where it is more than chance and more than any program has; else 0. */
double dlp_gc_charged(const struct dlp_gc_share *gc);
/* Part of the wall time that the training thread was in the collector, as far as charged. */
double dlp_gc_of_wall(const struct dlp_facts *facts);
/* Is it mostly the training thread's collector that data loading waits for? */
bool dlp_gc_is_mains(const struct dlp_facts *facts);
/* The share that a verdict of gc_pause is about. */
const struct dlp_gc_share *dlp_gc_named(const struct dlp_facts *facts);
/* diagnose_stall.c */
void dlp_gather_stall(struct dlp_facts *facts);
/* The training thread, as far as it is known; NULL = not at all. */
const struct dlp_thread *dlp_stall_thread(const struct dlp_model *model);
bool dlp_is_stalled(const struct dlp_facts *facts);
enum dlp_cause dlp_name_stall(const struct dlp_facts *facts);

/* diagnose_say.c, diagnose_evidence.c: fill verdict->text, evidence and advice. */
void dlp_say_verdict(const struct dlp_facts *facts, struct dlp_verdict *verdict);
void dlp_say_evidence(const struct dlp_facts *facts, struct dlp_verdict *verdict);

/* "4.6 %", "88 %": one decimal below 10 %, where it matters. */
struct dlp_percent {
	char text[16];
};

struct dlp_percent dlp_percent(double ratio);

#endif /* DLP_DIAGNOSE_PRIV_H */
