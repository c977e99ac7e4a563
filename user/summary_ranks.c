/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "summary_ranks.h"

#include <math.h>

#include "summary_priv.h"
#include "util.h"

static json_t *rank_number(const struct dlp_summary_rank *rank)
{
	return rank->rank < 0 ? json_null() : json_integer(rank->rank);
}

static json_t *rank_pid(const struct dlp_summary_rank *rank)
{
	return dlp_json_count((uint64_t)rank->facts->target->pid);
}

static json_t *job_object(struct dlp_doc *doc, const struct dlp_summary_job *job)
{
	const struct dlp_ranks_verdict *said = job->compared;
	const struct dlp_summary_rank *slowest = said->slowest < 0 ? NULL :
								     &job->rank[said->slowest];
	json_t *object = json_object();
	bool known = said->known >= 2;

	dlp_doc_set(doc, object, "text", dlp_json_text(job->text));
	dlp_doc_set(doc, object, "ranks_compared", dlp_json_count(said->known));
	dlp_doc_set(doc, object, "in_step", known ? json_boolean(said->in_step) : json_null());
	dlp_doc_set(doc, object, "slowest_rank", slowest ? rank_number(slowest) : json_null());
	dlp_doc_set(doc, object, "slowest_pid", slowest ? rank_pid(slowest) : json_null());
	dlp_doc_set(doc, object, "cause",
		    json_string(dlp_cause_id(said->by_loader ? DLP_CAUSE_STRAGGLER_RANK :
							       DLP_CAUSE_NONE)));
	dlp_doc_set(doc, object, "others_wait_ratio", dlp_json_ratio(slowest ? said->wait : NAN));
	dlp_doc_set(doc, object, "confidence",
		    slowest ? json_string(dlp_confidence_id(said->confidence)) : json_null());
	return object;
}

/* What the ranks are compared by, of the time that all of them were observed. */
static json_t *compared(struct dlp_doc *doc, const struct dlp_summary_job *job, size_t i)
{
	const struct dlp_rank_facts *facts = &job->facts[i];
	json_t *object;

	if (!facts->known)
		return json_null();
	object = json_object();
	dlp_doc_set(doc, object, "window_s", dlp_json_ratio(facts->window_s));
	dlp_doc_set(doc, object, "steps", dlp_json_count(facts->steps));
	dlp_doc_set(doc, object, "steps_per_s",
		    dlp_json_ratio((double)facts->steps / facts->window_s));
	dlp_doc_set(doc, object, "exposed_ratio", dlp_json_ratio(facts->exposed));
	dlp_doc_set(doc, object, "asleep_outside_ratio", dlp_json_ratio(facts->blocked));
	dlp_doc_set(doc, object, "running_outside_ratio", dlp_json_ratio(facts->running));
	dlp_doc_set(doc, object, "straggler_wait_ratio",
		    dlp_json_ratio(job->compared->in_step ? job->compared->held[i] : NAN));
	return object;
}

static json_t *rank_object(struct dlp_doc *doc, const struct dlp_summary_job *job, size_t i)
{
	const struct dlp_summary_rank *rank = &job->rank[i];
	struct dlp_doc own = { .model = rank->model,
			       .verdict = rank->verdict,
			       .facts = rank->facts };
	json_t *object = json_object();

	dlp_doc_set(doc, object, "rank", rank_number(rank));
	dlp_doc_set(doc, object, "pid", rank_pid(rank));
	dlp_doc_set(doc, object, "exposed_wait_ratio",
		    dlp_json_ratio(rank->verdict->exposed_wait_ratio));
	dlp_doc_set(doc, object, "compared", compared(doc, job, i));
	dlp_doc_set(doc, object, "recording", dlp_json_text(rank->record));
	dlp_doc_set(doc, object, "verdict", dlp_doc_verdict(&own));
	dlp_doc_set(doc, object, "summary", dlp_doc_summary(&own));
	doc->failed |= own.failed;
	return object;
}

int dlp_summary_ranks_format(const struct dlp_summary_job *job, char **ret_text)
{
	const struct dlp_summary_rank *top = &job->rank[job->main];
	struct dlp_doc doc = { .model = top->model,
			       .verdict = job->verdict,
			       .facts = top->facts };
	json_t *root = dlp_doc_summary(&doc), *ranks = json_array();
	int err;

	dlp_doc_set(&doc, root, "job", job_object(&doc, job));
	for (size_t i = 0; i < job->cnt; i++)
		dlp_doc_push(&doc, ranks, rank_object(&doc, job, i));
	dlp_doc_set(&doc, root, "ranks", ranks);
	err = dlp_doc_dump(&doc, root, 2, ret_text);
	json_decref(root);
	return err;
}

int dlp_summary_ranks_write(const char *path, int fd, const struct dlp_summary_job *job,
			    char *error, size_t error_size)
{
	_cleanup_free_ char *text = NULL;

	/* without memory there is no text */
	(void)dlp_summary_ranks_format(job, &text);
	return dlp_summary_save(path, fd, text, error, error_size);
}
