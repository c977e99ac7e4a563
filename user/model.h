/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The model of the job: loaders, iterators, GetNext calls, workers and batches, built from wire
 * events alone. Pure: no libbpf, no /proc, no clock of its own. Live capture and replay feed it
 * the same events, so it is tested without root. All times are CLOCK_MONOTONIC nanoseconds.
 *
 * The readers (diagnose, summary, text) may read the structs; only model*.c writes them.
 */
#ifndef DLP_MODEL_H
#define DLP_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dlprof/config.h"
#include "dlprof/event.h"
#include "hist.h"

/* Bounds of the model's memory, whatever the job does; what does not fit is counted in dropped. */
#define DLP_MODEL_LOADERS_MAX 32
#define DLP_MODEL_ITERATORS_MAX 512 /* the oldest ended ones are folded into their loader */
#define DLP_MODEL_WORKERS_MAX 1024  /* likewise the oldest dead ones */
/* A dead one costs 14 kB, and jobs of thousands of epochs exist. */
#define DLP_MODEL_DEAD_WORKERS_MAX 256
#define DLP_MODEL_THREADS_MAX 8192
#define DLP_MODEL_IN_FLIGHT_MAX 4096 /* batches of one iterator between asked and delivered */
#define DLP_MODEL_DEVICES_MAX 64
/* Processes outside the job; when there are more, those that used most CPU time stay. */
#define DLP_MODEL_OTHERS_MAX 64
#define DLP_MODEL_READERS_MAX 64 /* of one device */
#define DLP_MODEL_STAGES_MAX 64	 /* 640 kB: a histogram each; labels after them are summed up */
#define DLP_MODEL_WAITS_MAX 64
#define DLP_MODEL_PHASES_MAX 256 /* four of them are an epoch */
#define DLP_TYPE_MAX 64
/* No wait status has all bits set (include/uapi/linux/wait.h: 16 are used). */
#define DLP_EXIT_UNKNOWN UINT32_MAX

/* The stations of one batch. 0 = not seen. */
struct dlp_batch {
	int64_t index; /* as the job numbers it within an iterator */
	uint32_t worker_pid;
	uint64_t asked_ns;	/* index message sent */
	uint64_t taken_ns;	/* index message read by the worker */
	uint64_t produced_ns;	/* worker's main thread done (taken + production time) */
	uint64_t sent_ns;	/* result message sent */
	uint64_t received_ns;	/* result message read in the trainer */
	uint64_t delivered_ns;	/* end of the GetNext that returned it */
	bool end_mark;		/* not data: the worker's shard has ended */
	uint64_t bytes;		/* of the result message */
};

/* One _BaseDataLoaderIter object (for persistent workers: one for all epochs). */
struct dlp_iterator {
	uint32_t id;	  /* 1, 2, ... in order of first sight */
	uint32_t loader;  /* dlp_loader.id */
	uint64_t pipe;	  /* inode of its result pipe; 0 = no workers */
	uint32_t tid;	  /* thread that runs its GetNext */
	uint64_t start_ns; /* first thing seen of it */
	uint64_t end_ns;   /* last thing seen of it */
	uint64_t init_ns;  /* iter(loader) took so long; 0 = not seen */
	bool ended;	   /* its workers are gone or its pipe is out of use */
	uint32_t worker_cnt;
	uint32_t worker_pid[64]; /* the first 64 */
	uint64_t getnext_cnt;
	uint64_t getnext_ns; /* outermost only: exposed */
	uint64_t epochs;     /* times the batch numbering started at 0 again */
	int64_t next_index;  /* batch that the next GetNext is due to return; -1 = not known yet */
	uint32_t in_flight_max;	/* most batches between asked and delivered */
	struct dlp_batch *batches; /* batch_cnt of those in flight, ordered by index; owned */
	size_t batch_cnt;
	size_t batch_room;
	uint64_t delivered_cnt; /* GetNext calls that returned a batch */
	int num_workers;	/* seen from how indices go round; -1 = not known, see worker_cnt */
	bool unordered;		/* returns batches as they come (in_order=False) */
	struct dlp_iterator_state *state; /* model*.c only */
};

/* A thread's page faults without a read, and its CPU time by timer ticks. */
struct dlp_usage {
	uint64_t minflt, utime_ns, stime_ns;
};

/* How often a thread was found on a CPU, and how often in the garbage collector. */
struct dlp_gc_sums {
	uint64_t samples, gc_samples;
	uint64_t inside, gc_inside; /* parts of these: inside a GetNext */
};

/*
 * What a loader cost since the window opened, sums in nanoseconds: the difference of two readings
 * tells about the time between them. Of calls that ended in the window and were not nested.
 */
struct dlp_loader_sums {
	uint64_t calls, batches;
	uint64_t getnext_ns;
	struct dlp_clock inside; /* the calling thread's split of that time */
	/* the same time by what it was spent on; together getnext_ns; 0 without workers */
	uint64_t produce_ns;  /* waited for a batch that a worker was still to make or making */
	uint64_t boot_ns;     /* waited for a worker that had taken nothing yet */
	uint64_t transfer_ns; /* waited for a batch that was made, but not read yet */
	uint64_t handover_ns; /* blocked behind the batch's message: descriptors, memory */
	uint64_t closing_ns;  /* ended the epoch's workers */
	uint64_t behind_ns;   /* on a CPU behind the message: unpickling it, asking for another */
	uint64_t own_ns;      /* on a CPU otherwise */
	uint64_t lack_ns;     /* runnable, without a CPU */
	uint64_t gil_ns;      /* waited for the interpreter's lock */
	uint64_t held_ns; /* part of produce_ns in which a later batch stood ready: order held it back */
	uint64_t message_bytes; /* of the batches delivered */
	/* outside GetNext, on the thread that iterates */
	uint64_t init_cnt, init_ns; /* iter(loader): making queues, workers, first indices */
	uint64_t teardown_ns;	    /* ending the workers of an abandoned iterator */
	/* its workers' main threads */
	struct dlp_clock made; /* from each one's first batch on, idle included */
	struct dlp_clock boot; /* before that, of those born in the window */
	struct dlp_usage usage; /* along with `made` */
	struct dlp_gc_sums gc;
	uint64_t idle_full_ns; /* idle while the trainer did not wait for this loader */
	uint64_t idle_wait_ns; /* idle although it did */
	uint64_t made_cnt, made_ns; /* batches produced, and how long that took */
	uint64_t fruitful_cnt, barren_cnt; /* workers that ended with and without a batch of theirs */
};

enum dlp_phase_kind {
	DLP_PHASE_WORKER_BIRTH, /* iter(loader) */
	DLP_PHASE_FIRST_BATCH,	/* the epoch's first GetNext */
	DLP_PHASE_STEADY,	/* from there to its last batch */
	DLP_PHASE_EPOCH_END,	/* the GetNext that ends it, its workers' end included */
};

/* A part of an epoch of a loader that ended in the window. */
struct dlp_phase {
	enum dlp_phase_kind kind;
	uint32_t loader;
	uint64_t epoch; /* of this loader, 1 = the first one of which a call ended in the window */
	uint64_t start_ns, end_ns;
	uint64_t exposed_ns; /* the trainer waited, in GetNext or for the workers to start */
	/* of steady ones */
	uint64_t batches;
	uint64_t read_bytes;   /* by the whole job, from block devices */
	struct dlp_clock made; /* workers' main threads, as far as read (at intervals) */
};

/* All iterators of one DataLoader, as far as they can be told apart. */
struct dlp_loader {
	uint32_t id;	/* 1, 2, ... in order of first use */
	uint32_t label; /* of its GetNext scopes */
	uint32_t tid;	/* thread that iterates it */
	char type[DLP_TYPE_MAX]; /* class of the iterator, "_MultiProcessingDataLoaderIter"; untrusted */
	bool named;		 /* the job's own (--getnext): type is the scope's label */
	int num_workers;	 /* -1 = not known yet */
	bool workers_known;	 /* num_workers is certain, not just the workers seen so far */
	int pin_memory;		 /* 1 yes, 0 no, -1 unknown */
	int in_order;		 /* 1 yes, 0 no (in_order=False), -1 neither was seen yet */
	uint32_t prefetch;	 /* most batches in flight; 0 = unknown */
	uint64_t iterator_cnt;	 /* all of them, folded ones included */
	uint64_t batch_cnt;	 /* delivered */
	struct dlp_hist getnext; /* calls that lie in the window */
	/* calls that ended in it, but began before it, and their time in it */
	uint64_t straddle_cnt, straddle_ns;
	struct dlp_longest getnext_longest;
	struct dlp_clock getnext_split;
	struct dlp_hist batch_time; /* start of GetNext k minus start of GetNext k-1, one epoch */
	struct dlp_longest batch_time_longest;
	uint64_t last_start_ns; /* of its newest GetNext; 0 = none in this epoch */
	struct dlp_interval last; /* batch and worker_pid that call delivered */
	uint32_t plain; /* id of its iterator without messages; 0 = none */
	struct dlp_loader_sums sums;
	uint64_t epoch_cnt; /* epochs of which a call ended in the window */
	/* the steady phase under way: since when (0 = none), up to when, */
	uint64_t steady_start_ns, steady_end_ns;
	uint64_t steady_exposed_ns, steady_batches; /* so far, */
	uint64_t steady_read_bytes;		    /* and sums as of its start */
	struct dlp_clock steady_made;
	struct dlp_hist init; /* iter(loader), as far as it was seen whole */
	struct dlp_longest init_longest;
	uint64_t ready_sum;	/* batches ready in order when GetNext began, over ready_cnt calls */
	uint64_t ready_cnt;
	uint64_t empty_cnt; /* calls among these that found none */
};

/* A process that makes batches. */
struct dlp_worker {
	uint32_t pid;
	uint32_t iterator; /* dlp_iterator.id; 0 = not known yet */
	uint32_t loader;
	uint64_t born_ns; /* 0 = before the window and unknown */
	uint64_t died_ns; /* 0 = alive */
	uint32_t exit_code; /* wait status, when dead; DLP_EXIT_UNKNOWN = not seen */
	bool proven;	/* a batch message was seen; else it only looks like a worker (/proc) */
	bool unexpected; /* died by a signal or with an error, nobody having told it to end */
	uint64_t batch_cnt; /* results sent */
	struct dlp_hist produce; /* production time of a batch: taken to next taken, less idle */
	struct dlp_longest produce_longest;
	struct dlp_clock clock; /* main thread, in the window */
	bool clock_valid;	/* false: no clock was read, the figures are unknown */
	struct dlp_clock made;	/* part of it that its loader has been charged with, */
	struct dlp_usage usage; /* likewise */
	struct dlp_gc_sums gc;	/* samples 0 = not known */
	bool charged;
	uint64_t window_ns;	/* its lifetime in the window, by clock reads: equals the clock's sum */
	uint64_t cpu_ns;	/* scheduler's CPU time of the main thread in the window */
	uint32_t threads_max;
	struct dlp_ev_proc proc_first, proc_last; /* hdr.size 0 = never read */
	uint64_t pipe; /* inode of the index pipe it reads; 0 = not known */
	bool shard_ended; /* it has sent the end mark of this epoch */
	uint32_t brood;	  /* as in dlp_thread */
};

/* Live or ended thread, keyed by tid. */
struct dlp_thread {
	uint32_t tid, tgid;
	bool main, getnext, dead;
	struct dlp_clock base;	/* at the start of the window (0 for threads born later) */
	struct dlp_clock clock; /* newest reading */
	uint64_t base_ns, read_ns; /* when these were read */
	uint64_t base_cpu_ns, cpu_ns;
	struct dlp_usage base_usage, usage;
	struct dlp_gc_sums gc; /* in the window */
	uint32_t exit_code; /* wait status, of a process's main thread that is dead */
	struct dlp_thread_counts counts; /* newest, since the window opened */
	uint64_t getnext_since_ns;	 /* in an unfinished GetNext since; 0 = no */
	uint64_t getnext_base_ns;	 /* part of it before the window */
	struct dlp_clock getnext_now;
	uint32_t state;
	int32_t syscall;
	uint64_t since_ns, object;
	uint32_t dev, fs_magic;
	char comm[16];
	uint64_t born_ns;     /* 0 = before the window */
	uint32_t threads;     /* of a process's main thread: threads alive, as far as seen */
	uint32_t threads_max;
	uint32_t brood; /* processes forked in one go have the same number; 0 = not seen */
	bool base_set;	      /* base and base_ns mean something */
	struct dlp_thread_counts base_counts;
	uint64_t scope_cnt;   /* outermost GetNext scopes that ended in the window */
	uint64_t scope_ns;    /* their time inside the window */
	struct dlp_clock scope_split;
	/* the GetNext in which the tool attached, if there was one: its time inside the window */
	uint64_t begun_cnt, begun_ns;
	struct dlp_clock begun_split;
	struct dlp_thread_state *state_priv; /* model*.c only; NULL for most threads */
};

/* A process that had a device read. Shared pages are read once, for whoever asked first. */
struct dlp_reader {
	uint32_t pid;
	uint64_t reads, read_bytes;
	uint64_t timed;	  /* reads whose submission was seen, */
	uint64_t wait_ns; /* and the time from there to their completion, summed */
	uint64_t last_ns; /* when its newest read was completed */
};

struct dlp_device {
	uint32_t dev;
	uint64_t reads, read_bytes, writes, write_bytes;
	struct dlp_hist latency; /* of reads, from submission */
	struct dlp_reader reader[DLP_MODEL_READERS_MAX]; /* reader_cnt of them, unordered */
	size_t reader_cnt;
	/* Those that made room for newer ones, and reads nobody is known to have asked for; pid 0. */
	struct dlp_reader other_readers;
};

/*
 * Scopes that ended in the window, their time before it left out (where it is not known what a
 * scope did before, in proportion). With sampled scopes all but max_ns are estimates.
 */
struct dlp_stage_sum {
	uint64_t cnt;
	uint64_t total_ns;
	uint64_t exclusive_ns; /* outside the scopes nested in them */
	uint64_t max_ns;
	struct dlp_clock split;
	bool sampled; /* some of them stand for several */
};

/* All scopes of one record_function label, in the trainer or in its workers. */
struct dlp_stage {
	char label[DLP_LABEL_MAX + 1]; /* untrusted; "" = could not be recorded */
	bool worker;		       /* in a process other than the trainer */
	struct dlp_stage_sum sum;
	struct dlp_hist duration;
};

/* Long blocked intervals of one kind that ended in the window, the time before it left out. */
struct dlp_wait_group {
	uint32_t state; /* enum dlp_state */
	uint32_t dev;	/* kernel's dev_t of the file's super block; 0 = no file, pipe, socket */
	uint32_t fs_magic;
	bool worker; /* in a process other than the trainer */
	uint64_t cnt, total_ns, max_ns;
};

/* A process outside the job. */
struct dlp_other {
	uint32_t pid;
	char comm[16];	  /* newest; not terminated when full; untrusted */
	uint64_t used_ns; /* CPU time in the window */
	uint64_t seen_ns; /* newest figure of its events: since attaching */
};

/*
 * The machine, the target's control group and the processes outside the job. The figures of the
 * snapshots are counters or states as in struct dlp_ev_system; system.h takes differences of two.
 */
struct dlp_system_facts {
	/*
	 * `first` is the newest before the window opened (else the oldest in it), `last` the newest
	 * until it closed, and `before` the one before `last`: first to last is the window, before to
	 * last the newest interval. hdr.size 0 = none; with one event all are the same.
	 */
	struct dlp_ev_system first, before, last;
	/* All processes outside the job together; others_ns: when it was told last, 0 = never. */
	uint64_t others_ns;
	struct dlp_other others_all;	/* pid 0 */
	uint64_t others_recent_ns;	/* CPU time in the newest interval, */
	uint64_t others_recent_wall_ns; /* which was so long; 0 = there was none yet */
	struct dlp_other others[DLP_MODEL_OTHERS_MAX]; /* other_cnt of them, unordered */
	size_t other_cnt;
};

/* The governor took a step, or took one back. */
struct dlp_govern_note {
	uint64_t at_ns;
	uint32_t step; /* enum dlp_govern_step */
	bool undone;
	uint32_t measured_ppm; /* why */
};

#define DLP_MODEL_GOVERN_NOTES_MAX 32

/* What the probes do without to cost less, see governor.h. */
struct dlp_governing {
	uint32_t limit_ppm;    /* 0 = not known */
	uint32_t measured_ppm; /* newest; DLP_GOV_UNKNOWN = none */
	uint32_t active;       /* bits of enum dlp_govern_step */
	bool unmet;
	uint64_t unmet_ns; /* since when, last; 0 = never */
	uint64_t since_ns[DLP_GOV_MAX]; /* of the active steps */
	uint64_t spent_ns[DLP_GOV_MAX]; /* how long each had been taken before that */
	struct dlp_govern_note note[DLP_MODEL_GOVERN_NOTES_MAX]; /* ring: the newest of note_cnt */
	size_t note_cnt;
};

/* Figures of the last interval, for the live line. */
struct dlp_interval_stats {
	uint64_t start_ns, end_ns;
	uint64_t batches;	/* delivered; GetNext calls that returned data */
	uint64_t getnext_cnt;
	uint64_t exposed_ns;	/* inside outermost GetNext, unfinished call included */
	struct dlp_hist getnext;
	struct dlp_clock workers; /* sum over the workers' main threads */
};

/* What was folded away to keep memory bounded; sums over the things that are gone. */
struct dlp_folded {
	uint64_t worker_cnt;
	uint64_t worker_batch_cnt;
	struct dlp_hist produce;
	struct dlp_clock worker_clock;
	uint64_t worker_window_ns;
	uint64_t worker_cpu_ns;
	uint64_t iterator_cnt;
	struct dlp_clock pool; /* ended threads of workers other than their main threads */
};

/* One GetNext call that returned a batch. */
struct dlp_delivery {
	uint32_t iterator; /* id */
	uint32_t tid;
	uint64_t start_ns, end_ns; /* of the call */
	int64_t index;		   /* -1 = which batch could not be known */
	uint32_t worker_pid;	   /* 0 = unknown */
	const struct dlp_batch *batch; /* its stations; NULL where unknown; valid during the call */
	/* when the call began, batches that stood ready in order, and were asked for; -1 = unknown */
	int32_t ready, in_flight;
};

/* One GetNext call that ended, with or without a batch. */
struct dlp_call_note {
	uint32_t loader, iterator; /* ids */
	uint32_t tid;
	uint64_t start_ns, end_ns;
	const struct dlp_clock *split;
	bool data;   /* returned a batch; without messages always true */
	bool plain;  /* of an iterator without messages: its epochs are not told apart */
	bool outer;  /* not nested in another GetNext */
	bool counts; /* ended in the window */
	bool first;  /* the first one seen of its iterator's epoch */
};

/*
 * What the model has worked out one by one, before only sums of it are left; for a history. Called
 * from dlp_model_apply with pointers that are valid during the call.
 */
struct dlp_model_watch {
	/* after on_delivery of the same call, when it returned a batch */
	void (*call)(void *ctx, const struct dlp_call_note *call);
	/* of a worker's main thread; batch and worker_pid are set */
	void (*production)(void *ctx, const struct dlp_interval *made);
	void (*init)(void *ctx, const struct dlp_iterator *it, const struct dlp_interval *init);
	/* a dead worker leaves the model's list */
	void (*folded)(void *ctx, const struct dlp_worker *worker);
};

struct dlp_model {
	uint32_t trainer_pid;
	uint64_t start_ns, end_ns; /* window; end_ns = newest clock value while it is open */
	uint64_t realtime_start_ns;
	bool closed;

	struct dlp_loader *loaders; /* loader_cnt of them, in order of id */
	size_t loader_cnt;
	struct dlp_iterator *iterators; /* in order of id */
	size_t iterator_cnt;
	struct dlp_worker *workers; /* in order of first sight */
	size_t worker_cnt;
	struct dlp_thread *threads; /* unordered */
	size_t thread_cnt;
	struct dlp_device *devices;
	size_t device_cnt;
	struct dlp_system_facts system;
	/* ring: the newest DLP_MODEL_PHASES_MAX of phase_cnt; without steady ones still under way */
	struct dlp_phase phases[DLP_MODEL_PHASES_MAX];
	size_t phase_cnt;
	struct dlp_stage *stages; /* in order of first sight */
	size_t stage_cnt;
	struct dlp_stage_sum other_stages[2]; /* labels that came later: trainer, workers */
	struct dlp_wait_group waits[DLP_MODEL_WAITS_MAX]; /* in order of first sight */
	size_t wait_cnt;
	struct dlp_wait_group other_waits[2]; /* kinds that came later: trainer, workers */

	uint32_t main_tid; /* the training thread: the one with most GetNext time; 0 = none yet */
	/* The training thread's exposed wait and splits in the window, kernel's counts. */
	uint64_t exposed_ns;
	uint64_t getnext_cnt;
	struct dlp_clock main_inside, main_outside;
	bool main_valid; /* false: sums over the scopes seen, which a full ring cuts short */
	uint64_t begun_open_cnt; /* scopes in which the tool attached, not known yet to be a GetNext */
	uint64_t getnext_lost; /* calls counted by the kernel whose event is missing */
	uint64_t last_progress_ns; /* newest end of a GetNext or batch message */
	uint64_t last_delivery_ns; /* newest end of a GetNext that returned a batch */
	uint64_t error_ns;  /* a worker sent an exception in place of a batch, last; 0 = none did */
	uint32_t error_pid; /* this one */
	uint64_t shm_total, shm_least; /* the target's /dev/shm and its least free space; bytes */

	struct dlp_interval_stats interval; /* last complete one */

	struct dlp_governing governing;
	struct dlp_ev_counters counters; /* newest; hdr.size 0 = none */
	uint64_t unknown_cnt, malformed_cnt; /* events */
	uint64_t dropped_cnt;		     /* things that did not fit the model's bounds */
	struct dlp_folded folded;

	/* Called for every delivered batch, when not NULL. */
	void (*on_delivery)(void *ctx, const struct dlp_delivery *delivery);
	void *on_delivery_ctx;
	const struct dlp_model_watch *watch; /* NULL = none; borrowed */
	void *watch_ctx;

	struct dlp_model_priv *priv;
};

/* 0 or -ENOMEM. *ret is freed with dlp_model_free. */
int dlp_model_new(struct dlp_model **ret);
void dlp_model_free(struct dlp_model *model);
/*
 * Takes one wire event (checked here; at least `bytes` readable). The order is that of arrival:
 * the ring buffer's, in which time stamps of different CPUs may be swapped by microseconds, and
 * CLOCK events come in sweeps between the WINDOW events. Returns 0, -EBADMSG for a malformed
 * record (counted), -ENOENT for an unknown kind (counted), -ENOMEM.
 */
int dlp_model_apply(struct dlp_model *model, const void *event, size_t bytes);

/*
 * GetNext calls of this loader that the kernel counted and whose events were lost; 0 when they
 * cannot be told from those of another loader of the same thread.
 */
uint64_t dlp_model_loader_lost(const struct dlp_model *model, const struct dlp_loader *loader);
/* The loader's steady phase under way, of which loader->steady_start_ns tells whether there is one. */
void dlp_phase_steady(const struct dlp_model *model, const struct dlp_loader *loader,
		      struct dlp_phase *ret);
/* How long the governor's step was taken in the window so far. */
uint64_t dlp_model_governed_ns(const struct dlp_model *model, enum dlp_govern_step step);
const struct dlp_worker *dlp_model_worker(const struct dlp_model *model, uint32_t pid);
const struct dlp_thread *dlp_model_thread(const struct dlp_model *model, uint32_t tid);
/* Text of a label id, "" when unknown; as the job wrote it, so sanitise before printing. */
const char *dlp_model_label(const struct dlp_model *model, uint32_t label);
/* The group of waits in this state with most time, in workers or in the trainer; NULL = none. */
const struct dlp_wait_group *dlp_model_top_wait(const struct dlp_model *model, unsigned int state,
						bool worker);

#endif /* DLP_MODEL_H */
