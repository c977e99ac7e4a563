/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Building blocks of the summary's JSON. Adding NULL (out of memory, or text that is not UTF-8)
 * marks the document as failed, so callers check once, at the end.
 */
#ifndef DLP_SUMMARY_PRIV_H
#define DLP_SUMMARY_PRIV_H

#include <jansson.h>

#include "summary.h"

struct dlp_doc {
	const struct dlp_model *model;
	const struct dlp_verdict *verdict;
	const struct dlp_summary_facts *facts;
	bool failed;
};

/* Both take over `value`, whatever happens. */
void dlp_doc_set(struct dlp_doc *doc, json_t *object, const char *key, json_t *value);
void dlp_doc_push(struct dlp_doc *doc, json_t *array, json_t *value);

/*
 * The document as text, ends with a newline; free with free(). 0, or -ENOMEM when that, or anything
 * put into `doc`, has failed. (json_dumps may leave things out when there is no memory.)
 */
int dlp_doc_dump(const struct dlp_doc *doc, const json_t *root, size_t indent, char **ret_text);

json_t *dlp_json_count(uint64_t value);
json_t *dlp_json_us(uint64_t ns);	 /* microseconds, one decimal */
json_t *dlp_json_ratio(double ratio);	 /* six decimals; null for NAN */
json_t *dlp_json_known(uint64_t value);	 /* null for 0 */
json_t *dlp_json_text(const char *text); /* untrusted; null for NULL and "" */

/* In microseconds; null for an empty histogram. */
json_t *dlp_doc_quantile(const struct dlp_hist *hist, double q);
json_t *dlp_doc_longest(const struct dlp_hist *hist);
/* part / all; null where `all` is 0. */
json_t *dlp_doc_share(uint64_t part, uint64_t all);
/* In microseconds; null when the capture had no clocks. */
json_t *dlp_doc_states(struct dlp_doc *doc, const struct dlp_clock *clock);
/* The whole document, and its verdict. */
json_t *dlp_doc_summary(struct dlp_doc *doc);
json_t *dlp_doc_verdict(struct dlp_doc *doc);
json_t *dlp_doc_loaders(struct dlp_doc *doc);
json_t *dlp_doc_phases(struct dlp_doc *doc);
json_t *dlp_doc_workers(struct dlp_doc *doc);
json_t *dlp_doc_stages(struct dlp_doc *doc);
json_t *dlp_doc_waits(struct dlp_doc *doc);
json_t *dlp_doc_block_io(struct dlp_doc *doc);
json_t *dlp_doc_system(struct dlp_doc *doc);
json_t *dlp_doc_governor(struct dlp_doc *doc);

/*
 * Writes a document as dlp_summary_write() does; text NULL: there was no memory for it. 0, or -errno
 * with one line for people in `error`.
 */
int dlp_summary_save(const char *path, int fd, const char *text, char *error, size_t error_size);

#endif /* DLP_SUMMARY_PRIV_H */
