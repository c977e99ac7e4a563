/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Verdicts on the fixture's job: tests turn its knobs, judge() it and look at `verdict`. What holds
 * for every verdict, whatever it says, is asserted each time. Included after cmocka.h.
 */
#ifndef VERDICT_CHECK_H
#define VERDICT_CHECK_H

#include <ctype.h>
#include <math.h>

#include "diagnose.h"
#include "diagnose_limits.h"
#include "job_fixture.h"

/* What is compared with a threshold is a little off it, to one side or the other. */
#define BELOW(limit) (LIMIT(limit) * 0.99)
#define ABOVE(limit) (LIMIT(limit) * 1.01)

static struct job job;
static struct dlp_verdict verdict;
/* The sums of the fixture's only loader, which the knobs are in. */
static struct dlp_loader_sums *const sums = &job.loader[0].sums;

static inline int setup(void **state)
{
	(void)state;
	job_init(&job);
	job_machine(&job);
	return 0;
}

/* Whole, with a full stop, and without a number that is none. */
static inline void assert_sentence(const char *text, size_t room)
{
	size_t len = strnlen(text, room);

	assert_true(len > 10 && len < room - 1);
	if (strstr(text, "nan") || strstr(text, "inf ") || strstr(text, "-0") || strstr(text, "e+"))
		fail_msg("a number is none: %s", text);
}

static inline void assert_sound(void)
{
	double sum = 0;

	assert_sentence(verdict.text, sizeof(verdict.text));
	assert_int_equal(verdict.text[strlen(verdict.text) - 1], '.');
	assert_true(verdict.evidence_cnt <= DLP_EVIDENCE_MAX);
	assert_true(verdict.advice_cnt <= DLP_ADVICE_MAX);
	for (size_t i = 0; i < verdict.evidence_cnt; i++) {
		assert_non_null(verdict.evidence[i].metric);
		assert_non_null(verdict.evidence[i].unit);
		assert_true(isfinite(verdict.evidence[i].value));
		assert_sentence(verdict.evidence[i].text, sizeof(verdict.evidence[i].text));
	}
	for (size_t i = 0; i < verdict.advice_cnt; i++) {
		assert_non_null(verdict.advice[i].text);
		assert_non_null(verdict.advice[i].counter_check);
	}
	for (size_t i = 0; i < verdict.candidate_cnt; i++) {
		assert_true(verdict.candidate[i].cause > DLP_CAUSE_NONE &&
			    verdict.candidate[i].cause < DLP_CAUSE_MAX);
		assert_true(verdict.candidate[i].share > 0);
		assert_true(!i || verdict.candidate[i].share <= verdict.candidate[i - 1].share);
		for (size_t j = 0; j < i; j++)
			assert_true(verdict.candidate[j].cause != verdict.candidate[i].cause);
		sum += verdict.candidate[i].share;
	}
	assert_true(sum <= 1 + 1e-9);
	switch (verdict.bottleneck) {
	case DLP_BN_DATA_LOADING:
		if (verdict.cause == DLP_CAUSE_NONE) {
			assert_int_equal(verdict.confidence, DLP_CONF_LOW);
			assert_true(verdict.advice_cnt > 0);
			assert_true(!verdict.candidate_cnt ||
				    verdict.candidate[0].share < LIMIT(NAMEABLE));
			break;
		}
		/* fall through */
	case DLP_BN_STALLED:
		assert_true(verdict.candidate_cnt > 0 && verdict.advice_cnt > 0);
		assert_int_equal(verdict.cause, verdict.candidate[0].cause);
		break;
	case DLP_BN_INSUFFICIENT:
		assert_int_equal(verdict.confidence, DLP_CONF_LOW);
		assert_int_equal(verdict.advice_cnt, !!strstr(verdict.text, "--getnext"));
		/* fall through */
	case DLP_BN_NOT_DATA_LOADING:
		assert_int_equal(verdict.cause, DLP_CAUSE_NONE);
		break;
	}
}

static inline void judge(void)
{
	memset(&verdict, 0xa5, sizeof(verdict));
	dlp_diagnose(&job.model, NULL, &verdict);
	assert_sound();
}

static inline void judge_since(const struct dlp_sums *since)
{
	memset(&verdict, 0xa5, sizeof(verdict));
	dlp_diagnose(&job.model, since, &verdict);
	assert_sound();
}

static inline void judge_loader(size_t i)
{
	memset(&verdict, 0xa5, sizeof(verdict));
	dlp_diagnose_loader(&job.model, &job.loader[i], &verdict);
	assert_sound();
}

static inline double share(enum dlp_cause cause)
{
	for (size_t i = 0; i < verdict.candidate_cnt; i++) {
		if (verdict.candidate[i].cause == cause)
			return verdict.candidate[i].share;
	}
	return 0;
}

static inline void assert_near(double value, double wanted)
{
	if (!(fabs(value - wanted) < 1e-6))
		fail_msg("%.9f, wanted %.9f", value, wanted);
}

static inline void assert_cause(enum dlp_cause cause)
{
	if (verdict.cause != cause)
		fail_msg("%s, wanted %s: %s", dlp_cause_id(verdict.cause), dlp_cause_id(cause),
			 verdict.text);
}

static inline void assert_says(const char *part)
{
	if (!strstr(verdict.text, part))
		fail_msg("no '%s' in: %s", part, verdict.text);
}

static inline const struct dlp_evidence *find_evidence(const char *metric)
{
	for (size_t i = 0; i < verdict.evidence_cnt; i++) {
		if (!strcmp(verdict.evidence[i].metric, metric))
			return &verdict.evidence[i];
	}
	return NULL;
}

static inline const struct dlp_evidence *evidence(const char *metric)
{
	const struct dlp_evidence *found = find_evidence(metric);

	if (!found)
		fail_msg("no evidence '%s'", metric);
	return found;
}

/* The workers have done nothing yet: tests say what they do. */
static inline void no_work(void)
{
	for (size_t i = 0; i < JOB_WORKERS; i++)
		memset(&job.worker[i].clock, 0, sizeof(job.worker[i].clock));
	memset(&sums->made, 0, sizeof(sums->made));
}

/* And now they spend so much of 12 s in one state, and the rest of it computing. */
static inline void work_in(unsigned int state, double seconds)
{
	no_work();
	job_workers_spend(&job, DLP_ST_RUN, 12 - seconds);
	job_workers_spend(&job, state, seconds);
}

/* A second loader like the first, whose time is so much of the first one's. */
static inline void second_loader(double part)
{
	struct dlp_loader *second = &job.loader[1];
	uint64_t *word = (uint64_t *)&second->sums;

	*second = job.loader[0];
	second->id = 2;
	for (size_t i = 0; i < sizeof(second->sums) / sizeof(*word); i++)
		word[i] = (uint64_t)((double)word[i] * part);
	job.model.loader_cnt = 2;
	job.model.exposed_ns += second->sums.getnext_ns;
}

#endif /* VERDICT_CHECK_H */
