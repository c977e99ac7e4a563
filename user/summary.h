/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The summary document ("dlprof.summary/1"): model, verdict and a few facts of the session to
 * JSON. Pure but for writing the file; what was not measured is null, never 0.
 */
#ifndef DLP_SUMMARY_H
#define DLP_SUMMARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "diagnose.h"
#include "model.h"
#include "target.h"

#define DLP_SUMMARY_SCHEMA "dlprof.summary/1"

/* Something the kernel, the target or the user left out. */
struct dlp_missing {
	const char *name; /* short: "task storage" */
	bool figures;	  /* figures of the summary are short or null without it */
};

/*
 * What the model does not know. All strings are borrowed for the call; NULL = not known or not
 * in use. Zeroed, every figure here is unmeasured. Recordings keep all of it (record_info.c).
 */
struct dlp_summary_facts {
	const char *version;
	const struct dlp_target *target;
	/* How each part is seen: "pair A", "uprobe", "task storage"; NULL = not seen. */
	const char *scope_rung, *queue_rung, *clock_rung;
	size_t scope_probe_cnt;
	bool block_seen;   /* block programs are attached */
	bool waits_seen;   /* long blocked intervals are sent one by one */
	bool process_seen; /* fork, exec and exit programs are attached */
	const struct dlp_missing *missing;
	size_t missing_cnt;
	uint64_t launched_ns;  /* when we started the command; 0 = it ran already */
	uint32_t cpus;	       /* online; 0 = unknown */
	uint32_t cpus_allowed; /* of the trainer's main thread; 0 = unknown */
	/* Name of a block device ("nvme0n1") into buf, or NULL; dev as the kernel codes it. */
	const char *(*device_name)(uint32_t dev, char *buf, size_t size);
};

/* The document as text, ends with a newline; free with free(). 0 or -ENOMEM. */
int dlp_summary_format(const struct dlp_model *model, const struct dlp_verdict *verdict,
		       const struct dlp_summary_facts *facts, char **ret_text);
/*
 * Writes the document as dlp_wholefile_write() does, fd < 0 being the usual case: atomically. On
 * failure returns -errno with one line for people in `error`, and leaves nothing new behind.
 */
int dlp_summary_write(const char *path, int fd, const struct dlp_model *model,
		      const struct dlp_verdict *verdict, const struct dlp_summary_facts *facts,
		      char *error, size_t error_size);

/* The tool's own cost over the window, estimated from samples; the text output shows it too. */
struct dlp_own_cost {
	bool probes_known, daemon_known;
	uint64_t probe_hits, probe_cpu_ns;
	const char *probe_cpu_how;
	uint64_t daemon_cpu_ns, daemon_rss_bytes;
};

void dlp_summary_cost(const struct dlp_model *model, struct dlp_own_cost *ret);
/* No figure may be short: nothing lost, and nothing left out that a figure depends on. */
bool dlp_summary_complete(const struct dlp_model *model, const struct dlp_summary_facts *facts);

/* "exit 0", "killed by signal 9" from a wait status. Returns buf. */
const char *dlp_summary_exit(uint32_t status, char *buf, size_t size);

#endif /* DLP_SUMMARY_H */
