/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the parts of the session share: session.c (life and events), session_load.c,
 * session_attach.c, session_others.c (the sampler). Nothing else sees the skeleton.
 */
#ifndef DLP_SESSION_PRIV_H
#define DLP_SESSION_PRIV_H

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "dlprof/config.h"
#include "kernel.h"
#include "session.h"
#include "util.h"

#include "dlprof.skel.h"

/* How a program gets to what it watches. */
enum dlp_attach {
	DLP_ATTACH_SECTION, /* its section's name says it all */
	DLP_ATTACH_PROBE,   /* where the target's probe points are */
	DLP_ATTACH_OWN,	    /* by a function of its own */
};

/*
 * Program -> the feature it serves. `optional` ones are left out without giving the feature up:
 * what they add exists on some kernels only.
 */
struct dlp_program {
	const char *name;
	enum dlp_feature feature;
	enum dlp_attach attach;
	bool optional;
};

#define DLP_PROGRAM_CNT 19
extern const struct dlp_program dlp_programs[DLP_PROGRAM_CNT];

/* One per program; the scope exit has a probe in each of two libraries. */
#define DLP_LINKS_MAX (DLP_PROGRAM_CNT + DLP_PROBES_MAX)

/* About 140 clock records: one read() for an ordinary job. */
#define DLP_SWEEP_BUFFER (64 * 1024)

struct dlp_session {
	struct dlprof_bpf *skel;
	struct dlp_session_opts opts;
	struct bpf_program *program[DLP_PROGRAM_CNT];
	uint32_t wanted; /* features still hoped for */
	uint32_t active;
	char refused[DLP_FEATURE_MAX][120];
	size_t scope_probe_cnt;
	struct bpf_link *link[DLP_LINKS_MAX];
	size_t link_cnt;
	/* of the sampler: whom it is not to tell of, and samples told of so far, see session_others.c */
	dlp_kin_fn is_kin;
	void *kin_ctx;
	uint64_t samples_seen, kin_seen, strangers;
	/* the queue's uprobes, apart: they can be done without */
	struct bpf_link *queue_link[DLP_PROBES_MAX];
	size_t queue_link_cnt;
	bool messages_off;
	struct bpf_link *sweep_link;
	uint64_t calls_tracepoint;   /* its number; tracefs may be out of reach later on */
	struct bpf_link *calls_link; /* syscall rung; NULL while it pauses */
	uint64_t calls_seen, calls_ns; /* as of the last interval */
	uint64_t paused_cnt;	       /* intervals it has paused */
	unsigned int pause_left;       /* intervals until the next burst */
	struct bpf_link **sampler;     /* one per CPU that is online when attaching */
	size_t sampler_cnt;
	struct ring_buffer *ring;
	int cpus; /* possible ones */
	bool stats_on;
	int stats_fd; /* holds the statistics on where we do it ourselves; -1 = off */
	uint64_t sample_start_ns, sampled_ns;
	uint64_t sample_cnt_base, sample_ns_base, sample_cnt, sample_ns;
	uint64_t part_base[DLP_COST_PARTS]; /* dlp_session_parts as of the last look */
	dlp_sink_fn sink;
	void *sink_ctx;
	int sink_err;
	char sweep[DLP_SWEEP_BUFFER];
};

/* Gives a feature up; the first reason given for it is the one that is shown. */
void dlp_session_refuse(struct dlp_session *session, enum dlp_feature feature, const char *format,
			...) __attribute__((format(printf, 3, 4)));
/* Whether program i serves a feature that is still hoped for. */
bool dlp_session_wants(const struct dlp_session *session, size_t i);
const struct dlp_probe *dlp_session_find_probe(const struct dlp_target *target, enum dlp_probe_id id);
/* Sum of a counter over all CPUs; `room` holds a value for each possible CPU. */
uint64_t dlp_session_counter(const struct dlp_session *session, uint32_t counter, uint64_t *room);

/* Opens the skeleton and loads those of its programs that are wanted and accepted: 0 or -errno. */
int dlp_session_load(struct dlp_session *session, const struct dlp_kernel_facts *facts);

/* Run time of all programs so far, by what they are for. */
void dlp_session_parts(const struct dlp_session *session, uint64_t ret_ns[DLP_COST_PARTS]);
/* Attaches or detaches what sees queue messages, as far as it is in use. */
void dlp_session_messages(struct dlp_session *session, bool on);

/* Attaches the sampler to every CPU that is online; gives the feature up when it can't. */
void dlp_session_attach_sampler(struct dlp_session *session);
void dlp_session_free_sampler(struct dlp_session *session);

/* session_gc.c: tells the sampler where the collector lies, before it is attached. */
void dlp_session_put_gc(struct dlp_session *session);
/* Does this process run the interpreter whose collector is known? */
bool dlp_session_knows_gc(const struct dlp_session *session, const struct dlp_interpreter *python);
/* Delivers and forgets what was counted: DLP_EV_GCs. 0, -errno, or the sink's error. */
int dlp_session_gc(struct dlp_session *session, uint64_t now_ns, dlp_sink_fn sink, void *ctx);

#endif /* DLP_SESSION_PRIV_H */
