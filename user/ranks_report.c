/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "log.h"
#include "ranks_priv.h"
#include "summary_ranks.h"
#include "text.h"
#include "util.h"

/* Calls that an interval's own comparison needs; with fewer the whole common time is compared. */
#define LIVE_CALLS 3

/* "run.dlp" of pid 4711 is "run.4711.dlp"; the dot of a folder's name parts nothing. */
static char *record_path(const char *path, pid_t pid)
{
	const char *file = strrchr(path, '/'), *dot;
	char *ret;

	file = file ? file + 1 : path;
	dot = strrchr(file, '.');
	if (!dot || dot == file)
		dot = file + strlen(file);
	return asprintf(&ret, "%.*s.%d%s", (int)(dot - path), path, (int)pid, dot) < 0 ? NULL : ret;
}

/* Two jobs may number their ranks alike. */
static bool is_taken(const struct dlp_ranks *ranks, int number)
{
	for (size_t i = 0; i < ranks->cnt; i++) {
		if (ranks->rank[i]->env.rank == number)
			return true;
	}
	return false;
}

int dlp_ranks_name(const struct dlp_ranks *ranks, struct dlp_rank *rank)
{
	int pid = (int)rank->run.target.pid;

	dlp_rank_env_get("", pid, &rank->env);
	rank->is_named = rank->env.rank >= 0 && !is_taken(ranks, rank->env.rank);
	if (!rank->is_named) {
		(void)snprintf(rank->name, sizeof(rank->name), "%d", pid);
		(void)snprintf(rank->who, sizeof(rank->who), "process %d", pid);
	} else {
		(void)snprintf(rank->name, sizeof(rank->name), "rank %d", rank->env.rank);
		(void)snprintf(rank->who, sizeof(rank->who), "rank %d (pid %d)", rank->env.rank,
			       pid);
	}
	if (!ranks->options->record)
		return 0;
	rank->record = record_path(ranks->options->record, pid);
	return rank->record ? 0 : -ENOMEM;
}

/* Of those observed since the common time began: since then, or since the last interval. */
static void take_facts(const struct dlp_ranks *ranks, bool interval,
		       struct dlp_rank_facts ret[DLP_RANKS_MAX])
{
	for (size_t i = 0; i < ranks->cnt; i++) {
		const struct dlp_rank *rank = ranks->rank[i];

		ret[i] = (struct dlp_rank_facts){ 0 };
		if (rank->is_common)
			dlp_rank_facts_take(rank->run.observation.model,
					    interval ? &rank->interval : &rank->common, &ret[i]);
	}
}

static double longest(const struct dlp_rank_facts *facts, size_t cnt)
{
	double ret = 0;

	for (size_t i = 0; i < cnt; i++)
		ret = facts[i].known ? fmax(ret, facts[i].window_s) : ret;
	return ret;
}

void dlp_ranks_compare(struct dlp_ranks *ranks)
{
	struct dlp_rank_facts facts[DLP_RANKS_MAX];
	struct dlp_ranks_verdict verdict;
	double window_s;

	take_facts(ranks, false, facts);
	dlp_diagnose_ranks(facts, ranks->cnt, &verdict);
	window_s = longest(facts, ranks->cnt);
	/* when one after the other ends, what is said is of all of them, unless the rest goes on long */
	if (verdict.known < 2 || window_s < ranks->compared_s ||
	    (verdict.known < ranks->compared.known && window_s < 2 * ranks->compared_s))
		return;
	ranks->compared = verdict;
	ranks->compared_s = window_s;
	memcpy(ranks->facts, facts, sizeof(facts));
}

static void name_all(const struct dlp_ranks *ranks, const char *who[DLP_RANKS_MAX])
{
	for (size_t i = 0; i < ranks->cnt; i++)
		who[i] = ranks->rank[i]->who;
}

void dlp_ranks_say_interval(struct dlp_ranks *ranks)
{
	struct dlp_rank_facts facts[DLP_RANKS_MAX];
	const char *who[DLP_RANKS_MAX];
	struct dlp_ranks_verdict verdict;
	bool few = false;
	char text[320];

	name_all(ranks, who);
	take_facts(ranks, true, facts);
	for (size_t i = 0; i < ranks->cnt; i++)
		few |= ranks->rank[i]->is_common && facts[i].steps < LIVE_CALLS;
	if (few)
		take_facts(ranks, false, facts);
	dlp_diagnose_ranks(facts, ranks->cnt, &verdict);
	dlp_ranks_sentence(&verdict, facts, who, text, sizeof(text));
	if (ranks->screen) {
		dlp_screen_compare(ranks->screen, &verdict, text);
	} else if (verdict.slowest >= 0 && !ranks->options->quiet) {
		fprintf(ranks->out, "%-8s%s\n", "job", text);
		fflush(ranks->out);
	}
	for (size_t i = 0; i < ranks->cnt; i++)
		dlp_sums_take(ranks->rank[i]->run.observation.model, &ranks->rank[i]->interval);
}

/* ---- the report ------------------------------------------------------------------------------ */

static void swap(struct dlp_ranks *ranks, size_t a, size_t b)
{
	struct dlp_ranks_verdict *compared = &ranks->compared;
	struct dlp_rank *rank = ranks->rank[a];
	struct dlp_rank_facts facts = ranks->facts[a];
	double held = compared->held[a];

	ranks->rank[a] = ranks->rank[b];
	ranks->rank[b] = rank;
	ranks->facts[a] = ranks->facts[b];
	ranks->facts[b] = facts;
	compared->held[a] = compared->held[b];
	compared->held[b] = held;
	if (compared->slowest == (int)a)
		compared->slowest = (int)b;
	else if (compared->slowest == (int)b)
		compared->slowest = (int)a;
}

/* By number, in whatever order they came; those without one go last. */
static void sort(struct dlp_ranks *ranks)
{
	for (size_t i = 1; i < ranks->cnt; i++) {
		for (size_t j = i; j; j--) {
			if ((unsigned int)ranks->rank[j - 1]->env.rank <=
			    (unsigned int)ranks->rank[j]->env.rank)
				break;
			swap(ranks, j - 1, j);
		}
	}
}

/* The rank that holds the job back, or the first one. */
static size_t main_rank(const struct dlp_ranks *ranks)
{
	if (ranks->compared.slowest >= 0)
		return (size_t)ranks->compared.slowest;
	for (size_t i = 0; i < ranks->cnt; i++) {
		if (ranks->rank[i]->verdict.bottleneck == DLP_BN_STALLED)
			return i;
	}
	for (size_t i = 0; i < ranks->cnt; i++) {
		if (ranks->rank[i]->verdict.bottleneck != DLP_BN_INSUFFICIENT)
			return i;
	}
	return 0;
}

static void judge(struct dlp_ranks *ranks)
{
	const struct dlp_ranks_verdict *compared = &ranks->compared;

	for (size_t i = 0; i < ranks->cnt; i++) {
		struct dlp_rank *rank = ranks->rank[i];

		dlp_diagnose(rank->run.observation.model, NULL, &rank->verdict);
		if (compared->slowest >= 0)
			dlp_ranks_blame(compared->held[i], ranks->rank[compared->slowest]->who,
					compared->confidence, &rank->verdict);
	}
}

/* What the document says on top: the rank's own verdict, and before it, that the others wait. */
static void say_job(const struct dlp_ranks *ranks, const char *text, struct dlp_verdict *verdict)
{
	size_t len = strlen(text), own = strlen(verdict->text);

	if (ranks->compared.slowest < 0)
		return;
	if (len + 1 + own < sizeof(verdict->text)) {
		memmove(verdict->text + len + 1, verdict->text, own + 1);
		memcpy(verdict->text, text, len);
		verdict->text[len] = ' ';
	} else {
		(void)snprintf(verdict->text, sizeof(verdict->text), "%s", text);
	}
}

static enum dlp_exit write_summary(const struct dlp_ranks *ranks, const char *text, size_t top)
{
	struct dlp_summary_rank rank[DLP_RANKS_MAX];
	struct dlp_verdict verdict = ranks->rank[top]->verdict;
	struct dlp_summary_job job = {
		.rank = rank,
		.cnt = ranks->cnt,
		.compared = &ranks->compared,
		.facts = ranks->facts,
		.text = text,
		.main = top,
		.verdict = &verdict,
	};
	char error[512];

	say_job(ranks, text, &verdict);
	for (size_t i = 0; i < ranks->cnt; i++)
		rank[i] = (struct dlp_summary_rank){
			.rank = ranks->rank[i]->env.rank,
			.model = ranks->rank[i]->run.observation.model,
			.verdict = &ranks->rank[i]->verdict,
			.facts = &ranks->rank[i]->run.facts,
			.record = ranks->rank[i]->record,
		};
	if (!dlp_summary_ranks_write(ranks->options->summary, ranks->summary_fd, &job, error,
				     sizeof(error)))
		return DLP_EXIT_OK;
	dlp_complain("%s", error);
	return DLP_EXIT_FAILURE;
}

static void print_table(const struct dlp_ranks *ranks)
{
	fputs("\nRanks", ranks->out);
	if (ranks->compared_s > 0)
		fprintf(ranks->out, " (of the %.1f s that they have in common)", ranks->compared_s);
	fprintf(ranks->out, "\n%12s %8s  %8s  %9s  %16s  %s\n", "rank", "pid", "steps/s",
		"exposed %", "asleep outside %", "verdict");
	for (size_t i = 0; i < ranks->cnt; i++) {
		const struct dlp_rank *rank = ranks->rank[i];
		const struct dlp_rank_facts *facts = &ranks->facts[i];
		char verdict[80];

		fprintf(ranks->out, "%12s %8d  ", rank->name, (int)rank->run.target.pid);
		if (facts->known)
			fprintf(ranks->out, "%8.1f  %9.1f  %16.1f  ",
				(double)facts->steps / facts->window_s, facts->exposed * 100,
				facts->blocked * 100);
		else
			fprintf(ranks->out, "%8s  %9s  %16s  ", "-", "-", "-");
		dlp_text_verdict(&rank->verdict, verdict, sizeof(verdict));
		fprintf(ranks->out, "%s\n", verdict);
	}
}

enum dlp_exit dlp_ranks_report(struct dlp_ranks *ranks)
{
	enum dlp_exit ret = DLP_EXIT_OK;
	const char *who[DLP_RANKS_MAX];
	struct dlp_rank *top;
	char text[320];
	size_t at;

	sort(ranks);
	judge(ranks);
	name_all(ranks, who);
	dlp_ranks_sentence(&ranks->compared, ranks->facts, who, text, sizeof(text));
	at = main_rank(ranks);
	top = ranks->rank[at];
	/* the file first: whoever reads the screen may be gone */
	if (ranks->options->summary)
		ret = write_summary(ranks, text, at);
	print_table(ranks);
	fprintf(ranks->out, "\n%s\n\nReport on %s\n", text, top->who);
	dlp_text_summary(ranks->out, top->run.observation.model, &top->verdict, &top->run.facts);
	fflush(ranks->out);
	return ret;
}
