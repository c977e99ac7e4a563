/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "diagnose_ranks.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

#include "diagnose_priv.h"
#include "util.h"

#define PCT(ratio) (dlp_percent(ratio).text)

static double seconds(uint64_t ns)
{
	return (double)ns / 1e9;
}

/* Gloo's collectives sleep on a condition, others on a socket, a pipe, or between two looks. */
static uint64_t asleep(const struct dlp_clock *clock)
{
	return clock->ns[DLP_ST_LOCK] + clock->ns[DLP_ST_NET] + clock->ns[DLP_ST_PIPE] +
	       clock->ns[DLP_ST_SLEEP] + clock->ns[DLP_ST_OTHER];
}

void dlp_rank_facts_take(const struct dlp_model *model, const struct dlp_sums *since,
			 struct dlp_rank_facts *ret)
{
	uint64_t startup_ns = 0;
	struct dlp_sums sums;

	memset(ret, 0, sizeof(*ret));
	dlp_sums_take(model, &sums);
	if (since)
		dlp_sums_since(&sums, since);
	if (sums.to_ns <= sums.from_ns)
		return;
	for (size_t i = 0; i < sums.loader_cnt; i++) {
		if (model->loaders[i].tid == model->main_tid)
			startup_ns += sums.loader[i].init_ns + sums.loader[i].teardown_ns;
	}
	ret->window_s = seconds(sums.to_ns - sums.from_ns);
	ret->steps = sums.calls;
	ret->exposed = fmin(1, seconds(sums.exposed_ns + startup_ns) / ret->window_s);
	ret->blocked = fmin(1 - ret->exposed, seconds(asleep(&sums.outside)) / ret->window_s);
	ret->running = fmin(1, seconds(sums.outside.ns[DLP_ST_RUN]) / ret->window_s);
	ret->known = sums.main_valid && ret->window_s >= LIMIT(WINDOW_MIN_S) &&
		     (double)ret->steps >= LIMIT(CALLS_LIVE);
}

static bool go_in_step(const struct dlp_rank_facts *facts, size_t cnt)
{
	uint64_t least = UINT64_MAX, most = 0;

	for (size_t i = 0; i < cnt; i++) {
		if (!facts[i].known)
			continue;
		least = facts[i].steps < least ? facts[i].steps : least;
		most = facts[i].steps > most ? facts[i].steps : most;
	}
	return (double)(most - least) <= fmax(LIMIT(STEP_APART), LIMIT(STEP_RATE) * (double)most);
}

/* The known rank that sleeps least outside GetNext. */
static int least_asleep(const struct dlp_rank_facts *facts, size_t cnt)
{
	int ret = -1;

	for (size_t i = 0; i < cnt; i++) {
		if (facts[i].known && (ret < 0 || facts[i].blocked < facts[ret].blocked))
			ret = (int)i;
	}
	return ret;
}

/* The known rank that waits longest for its data. */
static int most_exposed(const struct dlp_rank_facts *facts, size_t cnt)
{
	int ret = -1;

	for (size_t i = 0; i < cnt; i++) {
		if (facts[i].known && (ret < 0 || facts[i].exposed > facts[ret].exposed))
			ret = (int)i;
	}
	return ret;
}

/*
 * How much of its time a rank waits for the slowest one: what it sleeps more. Where nobody sleeps,
 * what it runs more, and no more than its loader waits less: then it spins, or works more.
 */
static double wait_for(const struct dlp_rank_facts *rank, const struct dlp_rank_facts *slowest,
		       bool spins)
{
	double gap = slowest->exposed - rank->exposed;

	if (spins)
		return fmax(0, fmin(gap, rank->running - slowest->running));
	return fmax(0, rank->blocked - slowest->blocked);
}

static enum dlp_confidence sure(const struct dlp_rank_facts *slowest, bool spins)
{
	if (spins)
		return DLP_CONF_LOW;
	return slowest->window_s >= LIMIT(WINDOW_SURE_S) &&
			       (double)slowest->steps >= LIMIT(CALLS_SURE) ?
		       DLP_CONF_HIGH :
		       DLP_CONF_MEDIUM;
}

static void weigh(const struct dlp_rank_facts *facts, size_t cnt, int slowest, bool spins,
		  struct dlp_ranks_verdict *ret)
{
	const struct dlp_rank_facts *last = &facts[slowest];
	double held = 0, wait = 0, longest = 0;

	for (size_t i = 0; i < cnt; i++) {
		double own;

		if (!facts[i].known || (int)i == slowest)
			continue;
		own = wait_for(&facts[i], last, spins);
		wait += own;
		longest = fmax(longest, own);
		/* a loader that is no slower than one's own makes nobody wait */
		ret->held[i] = fmax(0, fmin(own, last->exposed - facts[i].exposed));
		held = fmax(held, ret->held[i]);
	}
	if (longest < LIMIT(HELD_BACK))
		return;
	ret->slowest = slowest;
	ret->wait = wait / (double)(ret->known - 1);
	ret->by_loader = held >= LIMIT(HELD_BACK);
	ret->confidence = sure(last, spins);
}

void dlp_diagnose_ranks(const struct dlp_rank_facts *facts, size_t cnt,
			struct dlp_ranks_verdict *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->slowest = -1;
	for (size_t i = 0; i < cnt; i++)
		ret->known += facts[i].known;
	if (ret->known < 2)
		return;
	ret->in_step = go_in_step(facts, cnt);
	if (!ret->in_step)
		return;
	weigh(facts, cnt, least_asleep(facts, cnt), false, ret);
	if (ret->slowest < 0)
		weigh(facts, cnt, most_exposed(facts, cnt), true, ret);
	if (!ret->by_loader)
		memset(ret->held, 0, sizeof(ret->held));
}

static void add_candidate(struct dlp_verdict *verdict, double share)
{
	size_t at = verdict->candidate_cnt;

	if (at == DLP_CAUSE_MAX)
		return;
	for (; at && verdict->candidate[at - 1].share < share; at--)
		verdict->candidate[at] = verdict->candidate[at - 1];
	verdict->candidate[at] = (struct dlp_candidate){ DLP_CAUSE_STRAGGLER_RANK, share };
	verdict->candidate_cnt++;
}

static void add_evidence(struct dlp_verdict *verdict, double held, const char *who)
{
	struct dlp_evidence *item;

	if (verdict->evidence_cnt == DLP_EVIDENCE_MAX)
		return;
	item = &verdict->evidence[verdict->evidence_cnt++];
	*item = (struct dlp_evidence){ "straggler_wait_ratio", held, "ratio", "" };
	(void)snprintf(item->text, sizeof(item->text),
		       "outside GetNext it waits %s of the time longer than %s, whose loader makes "
		       "it wait longer by as much",
		       PCT(held), who);
}

/* Its own wait is the smaller part: the other rank is the cause. */
static void rename_cause(struct dlp_verdict *verdict, double held, const char *who,
			 enum dlp_confidence confidence)
{
	const struct dlp_cause_info *info = dlp_cause_info(DLP_CAUSE_STRAGGLER_RANK);
	double own = verdict->exposed_wait_ratio +
		     (isnan(verdict->startup_ratio) ? 0 : verdict->startup_ratio);

	verdict->cause = DLP_CAUSE_STRAGGLER_RANK;
	verdict->where = info->where;
	verdict->confidence = confidence;
	verdict->advice_cnt = 0;
	for (size_t i = 0; i < DLP_ADVICE_MAX && info->advice[i].text; i++)
		verdict->advice[verdict->advice_cnt++] = info->advice[i];
	(void)snprintf(verdict->text, sizeof(verdict->text),
		       "Training waits %s of the time for data, and %s for the data of %s.",
		       PCT(own), PCT(held), who);
}

void dlp_ranks_blame(double held, const char *who, enum dlp_confidence confidence,
		     struct dlp_verdict *verdict)
{
	size_t len = strlen(verdict->text);
	double own, both;

	if (held < LIMIT(HELD_BACK))
		return;
	if (verdict->bottleneck == DLP_BN_NOT_DATA_LOADING) {
		add_candidate(verdict, held);
		add_evidence(verdict, held, who);
		(void)snprintf(verdict->text + len, sizeof(verdict->text) - len,
			       " It waits %s of the time for %s, whose loader is slower.",
			       PCT(held), who);
		return;
	}
	if (verdict->bottleneck != DLP_BN_DATA_LOADING)
		return;
	own = fmin(1, verdict->exposed_wait_ratio +
			      (isnan(verdict->startup_ratio) ? 0 : verdict->startup_ratio));
	both = own + held;
	for (size_t i = 0; i < verdict->candidate_cnt; i++)
		verdict->candidate[i].share *= own / both;
	add_candidate(verdict, held / both);
	add_evidence(verdict, held, who);
	if (verdict->candidate[0].cause == DLP_CAUSE_STRAGGLER_RANK)
		rename_cause(verdict, held, who, confidence);
}

const char *dlp_ranks_sentence(const struct dlp_ranks_verdict *verdict,
			       const struct dlp_rank_facts *facts, const char *const *who,
			       char *buf, size_t size)
{
	const char *others = verdict->known == 2 ? "the other rank waits" : "the others wait";

	if (verdict->known < 2)
		(void)snprintf(buf, size, "Too little was seen of the ranks to compare them.");
	else if (!verdict->in_step)
		(void)snprintf(
			buf, size,
			"These %zu processes do not train in step: each is judged by itself.",
			verdict->known);
	else if (verdict->slowest < 0)
		(void)snprintf(buf, size,
			       "The %zu ranks train in step, and none waits for another.",
			       verdict->known);
	else if (verdict->by_loader)
		(void)snprintf(
			buf, size,
			"%s is the slowest: it waits %s of the time for data, and %s %s of the "
			"time for it.",
			who[verdict->slowest], PCT(facts[verdict->slowest].exposed), others,
			PCT(verdict->wait));
	else
		(void)snprintf(
			buf, size,
			"%s is the slowest, but not for want of data: %s %s of the time for it.",
			who[verdict->slowest], others, PCT(verdict->wait));
	/* a name may stand first */
	*buf = (char)toupper((unsigned char)*buf);
	return buf;
}
