/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "labels.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "util.h"

/*
 * The job pays about 1.2 us for each edge of a scope, whether or not its event is sent: that cannot
 * be saved from here. What is saved is the event: 256 bytes in the ring and its handling. 500 a
 * second are plenty for sums and medians; up to 2000 none is left out, so that a label per sample
 * stays exact in most jobs. 5000 a second of all labels together are 1.3 MB/s: in the 100 ms
 * between two readings they fill 3 % of the default ring, which leaves it to the other events.
 */
#define LABEL_MAX_PER_S 2000.0
#define LABEL_TARGET_PER_S 500.0
#define ALL_MAX_PER_S 5000u
#define INTERVAL_NS DLP_NS_PER_S
/* The same where the job has to be spared. */
#define FEW_PART 10
/* Time stamps of one moment must not make a rate of billions. */
#define ELAPSED_MIN_NS DLP_NS_PER_MS

struct label {
	uint32_t every;	 /* as the capture side was told; 1 = all of them */
	uint64_t scopes; /* in this interval, those not sent included */
	bool unwanted;
};

struct dlp_labels {
	const char *const *globs;
	size_t glob_cnt;
	dlp_label_limit_fn limit;
	void *ctx;
	uint64_t start_ns; /* of the interval; 0 = no event yet */
	uint32_t sent;	   /* events in it */
	enum dlp_labels_limit throttle;
	struct label label[DLP_LABELS_MAX + 1]; /* by id; 0 = has none */
};

int dlp_labels_new(const char *const *globs, size_t glob_cnt, dlp_label_limit_fn limit, void *ctx,
		   struct dlp_labels **ret)
{
	struct dlp_labels *labels = calloc(1, sizeof(*labels));

	if (!labels)
		return -ENOMEM;
	labels->globs = globs;
	labels->glob_cnt = glob_cnt;
	labels->limit = limit;
	labels->ctx = ctx;
	for (size_t i = 0; i <= DLP_LABELS_MAX; i++)
		labels->label[i].every = 1;
	*ret = labels;
	return 0;
}

void dlp_labels_free(struct dlp_labels *labels)
{
	free(labels);
}

static bool wanted(const struct dlp_labels *labels, const struct dlp_ev_label *ev)
{
	char text[DLP_LABEL_MAX + 1] = "";

	if (!labels->glob_cnt || ev->flags & DLP_SCOPE_GETNEXT)
		return true;
	memcpy(text, ev->text, DLP_LABEL_MAX);
	for (size_t i = 0; i < labels->glob_cnt; i++) {
		if (!fnmatch(labels->globs[i], text, 0))
			return true;
	}
	return false;
}

static void set_every(struct dlp_labels *labels, uint32_t id, uint32_t every)
{
	/* refused: it stays as it is, and is tried again after the next interval */
	if (labels->label[id].every != every && labels->limit &&
	    !labels->limit(labels->ctx, id, every))
		labels->label[id].every = every;
}

/*
 * A power of two, so that a rate that wavers does not change it all the time; and once a label is
 * sampled, it must become half as frequent before it is not any more.
 */
static uint32_t every_for(const struct label *label, double rate, double most)
{
	double target = most < LABEL_TARGET_PER_S ? most : LABEL_TARGET_PER_S;
	uint32_t every = 1;

	if (rate <= (label->every > 1 ? most / 2 : most))
		return 1;
	while (rate / every > target && every < 1u << 30)
		every *= 2;
	return every;
}

/* Ends the interval: the limits for the next one follow from the rates in this. */
static void settle(struct dlp_labels *labels, uint64_t now_ns)
{
	uint64_t elapsed = now_ns > labels->start_ns ? now_ns - labels->start_ns : 0;
	double per_s = (double)DLP_NS_PER_S /
		       (double)(elapsed > ELAPSED_MIN_NS ? elapsed : ELAPSED_MIN_NS);
	double part = labels->throttle == DLP_LABELS_FEW ? FEW_PART : 1;
	double most = LABEL_MAX_PER_S / part, all;

	/* what is too much together is taken from the most frequent ones */
	for (;; most /= 2) {
		all = 0;
		for (uint32_t i = 1; i <= DLP_LABELS_MAX; i++) {
			const struct label *label = &labels->label[i];
			double rate = (double)label->scopes * per_s;

			all += rate / every_for(label, rate, most);
		}
		if (all <= ALL_MAX_PER_S / part || most < 1)
			break;
	}
	for (uint32_t i = 1; i <= DLP_LABELS_MAX; i++) {
		struct label *label = &labels->label[i];

		if (label->unwanted || labels->throttle == DLP_LABELS_NONE)
			set_every(labels, i, DLP_LABEL_NONE);
		else
			set_every(labels, i, every_for(label, (double)label->scopes * per_s, most));
		label->scopes = 0;
	}
	labels->start_ns = now_ns;
	labels->sent = 0;
}

static void take_label(struct dlp_labels *labels, const struct dlp_ev_label *ev)
{
	if (!ev->label || ev->label > DLP_LABELS_MAX)
		return;
	labels->label[ev->label].unwanted = !wanted(labels, ev);
	if (labels->label[ev->label].unwanted)
		set_every(labels, ev->label, DLP_LABEL_NONE);
}

static bool take_scope(struct dlp_labels *labels, const struct dlp_ev_scope *ev)
{
	struct label *label;

	/* what has no id cannot be limited */
	if (ev->hdr.flags & DLP_SCOPE_GETNEXT || !ev->label || ev->label > DLP_LABELS_MAX)
		return true;
	label = &labels->label[ev->label];
	if (label->unwanted)
		return false;
	label->scopes += ev->weight ? ev->weight : 1;
	/* a second's allowance is used up: not the whole second has to pass until that changes */
	if (++labels->sent > ALL_MAX_PER_S)
		settle(labels, ev->hdr.ts_ns);
	return true;
}

bool dlp_labels_apply(struct dlp_labels *labels, const struct dlp_ev_hdr *hdr)
{
	if (!labels->start_ns)
		labels->start_ns = hdr->ts_ns;
	else if (hdr->ts_ns >= labels->start_ns + INTERVAL_NS)
		settle(labels, hdr->ts_ns);
	if (hdr->kind == DLP_EV_LABEL)
		take_label(labels, (const void *)hdr);
	else if (hdr->kind == DLP_EV_SCOPE)
		return take_scope(labels, (const void *)hdr);
	return true;
}

void dlp_labels_throttle(struct dlp_labels *labels, enum dlp_labels_limit limit)
{
	labels->throttle = limit;
	/* what is known already; new labels after the interval in which they come */
	for (uint32_t i = 1; limit == DLP_LABELS_NONE && i <= DLP_LABELS_MAX; i++)
		set_every(labels, i, DLP_LABEL_NONE);
}
