/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "gate.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loss.h"
#include "split.h"
#include "util.h"

enum unit { SHARE, MILLISECONDS, PER_SECOND, COUNT, FLAG };

static const struct {
	const char *hint; /* after "NAME is " */
	double most;	  /* no figure of this unit is above it */
} units[] = {
	[SHARE] = { "a share from 0 to 1 (0.2 or 20%)", 1 },
	[MILLISECONDS] = { "in milliseconds", INFINITY },
	[PER_SECOND] = { "a number per second", INFINITY },
	[COUNT] = { "a count", INFINITY },
	[FLAG] = { "true or false: give it alone", 1 },
};

struct run {
	const struct dlp_model *model;
	const struct dlp_verdict *verdict;
	const struct dlp_summary_facts *facts;
};

/* ---- figures: NAN = not measured ------------------------------------------------------------- */

/* The summary's own rounding of shares, and of microseconds to tenths. */
static double rounded(double value)
{
	return round(value * 1e6) / 1e6;
}

static double milliseconds(uint64_t ns)
{
	return round((double)ns / 100) / 1e4;
}

static double exposed_wait(const struct run *run)
{
	return rounded(run->verdict->exposed_wait_ratio);
}

static double startup(const struct run *run)
{
	return rounded(run->verdict->startup_ratio);
}

/* As the verdict adds them up: without a loader there is no start-up, but no wait either. */
static double exposed_total(const struct run *run)
{
	double total = run->verdict->exposed_wait_ratio;

	if (!isnan(run->verdict->startup_ratio))
		total += run->verdict->startup_ratio;
	return total > 1 ? 1 : rounded(total);
}

static double batches_per_s(const struct run *run)
{
	const struct dlp_model *model = run->model;
	uint64_t batches = 0;

	if (!model->loader_cnt || model->end_ns <= model->start_ns)
		return NAN;
	for (size_t i = 0; i < model->loader_cnt; i++)
		batches += model->loaders[i].batch_cnt;
	return rounded((double)batches * 1e9 / (double)(model->end_ns - model->start_ns));
}

static double worker_idle(const struct run *run)
{
	struct dlp_clock clock;
	uint64_t total;

	(void)dlp_split_workers(run->model, &clock);
	total = dlp_split_sum(&clock);
	return total ? rounded((double)clock.ns[DLP_ST_IDLE] / (double)total) : NAN;
}

static double stalled(const struct run *run)
{
	return run->verdict->bottleneck == DLP_BN_STALLED;
}

static double events_lost(const struct run *run)
{
	struct dlp_loss loss;

	dlp_loss_get(run->model, &loss);
	return loss.counted ? (double)loss.events : NAN;
}

static double incomplete(const struct run *run)
{
	return !dlp_summary_complete(run->model, run->facts);
}

static double quantile(const struct dlp_hist *hist, double q)
{
	return hist->cnt ? milliseconds(dlp_hist_quantile(hist, q)) : NAN;
}

static double getnext_median(const struct dlp_loader *loader)
{
	return quantile(&loader->getnext, 0.5);
}

static double getnext_p95(const struct dlp_loader *loader)
{
	return quantile(&loader->getnext, 0.95);
}

static double getnext_p99(const struct dlp_loader *loader)
{
	return quantile(&loader->getnext, 0.99);
}

static double getnext_max(const struct dlp_loader *loader)
{
	return loader->getnext.cnt ? milliseconds(loader->getnext.max_ns) : NAN;
}

static double batch_time_median(const struct dlp_loader *loader)
{
	return quantile(&loader->batch_time, 0.5);
}

/* Either of the run, or of each loader: then the condition is on every one of them. */
static const struct figure {
	const char *name;
	enum unit unit;
	double (*of_run)(const struct run *run);
	double (*of_loader)(const struct dlp_loader *loader);
} figures[] = {
	{ "exposed_wait", SHARE, exposed_wait, NULL },
	{ "startup", SHARE, startup, NULL },
	{ "exposed_total", SHARE, exposed_total, NULL },
	{ "getnext_median_ms", MILLISECONDS, NULL, getnext_median },
	{ "getnext_p95_ms", MILLISECONDS, NULL, getnext_p95 },
	{ "getnext_p99_ms", MILLISECONDS, NULL, getnext_p99 },
	{ "getnext_max_ms", MILLISECONDS, NULL, getnext_max },
	{ "batch_time_median_ms", MILLISECONDS, NULL, batch_time_median },
	{ "batches_per_s", PER_SECOND, batches_per_s, NULL },
	{ "worker_idle", SHARE, worker_idle, NULL },
	{ "events_lost", COUNT, events_lost, NULL },
	{ "stalled", FLAG, stalled, NULL },
	{ "incomplete", FLAG, incomplete, NULL },
};

unsigned int dlp_gate_figure_cnt(void)
{
	return DLP_ARRAY_SIZE(figures);
}

const char *dlp_gate_figure_name(unsigned int figure)
{
	return figure < DLP_ARRAY_SIZE(figures) ? figures[figure].name : NULL;
}

/* ---- parsing --------------------------------------------------------------------------------- */

static const char blanks[] = " \t";

__attribute__((format(printf, 3, 4))) static int refuse(char *why, size_t size, const char *format,
							...)
{
	va_list args;

	va_start(args, format);
	(void)vsnprintf(why, size, format, args);
	va_end(args);
	return -EINVAL;
}

static const char *skip_blanks(const char *at)
{
	return at + strspn(at, blanks);
}

/* Moves *at behind it. */
static const struct figure *take_figure(const char **at)
{
	size_t len = strspn(*at, "abcdefghijklmnopqrstuvwxyz0123456789_");

	for (size_t i = 0; i < DLP_ARRAY_SIZE(figures); i++) {
		if (strlen(figures[i].name) == len && !memcmp(figures[i].name, *at, len)) {
			*at += len;
			return &figures[i];
		}
	}
	return NULL;
}

static int take_op(const char **at, enum dlp_gate_op *ret)
{
	bool equal;

	if (**at != '>' && **at != '<')
		return -EINVAL;
	equal = (*at)[1] == '=';
	*ret = **at == '>' ? (equal ? DLP_GATE_FROM : DLP_GATE_ABOVE) :
			     (equal ? DLP_GATE_UP_TO : DLP_GATE_BELOW);
	*at += 1 + equal;
	return 0;
}

/* A decimal number without sign or exponent: strtod knows infinities, hexadecimals and more. */
static int take_number(const char **at, double *ret)
{
	size_t len = strspn(*at, "0123456789.");
	char digits[32], *end;

	if (!len || len >= sizeof(digits))
		return -EINVAL;
	memcpy(digits, *at, len);
	digits[len] = '\0';
	*ret = strtod(digits, &end);
	if (end == digits || *end)
		return -EINVAL;
	*at += len;
	return 0;
}

/* What no value can change is a slip of whoever wrote it, and would pass or fail every run. */
static int check_sense(const struct dlp_gate *gate, char *why, size_t size)
{
	const struct figure *figure = &figures[gate->figure];
	double most = units[figure->unit].most;
	bool above = gate->op == DLP_GATE_ABOVE || gate->op == DLP_GATE_FROM;

	if (gate->limit > most)
		return refuse(why, size, "%s is %s", figure->name, units[figure->unit].hint);
	if ((gate->op == DLP_GATE_ABOVE && gate->limit >= most) ||
	    (gate->op == DLP_GATE_BELOW && gate->limit <= 0))
		return refuse(why, size, "no run ever has %s %s that", figure->name,
			      above ? "above" : "below");
	if ((gate->op == DLP_GATE_FROM && gate->limit <= 0) ||
	    (gate->op == DLP_GATE_UP_TO && gate->limit >= most))
		return refuse(why, size, "that holds for every run");
	return 0;
}

static int refuse_figure(char *why, size_t size)
{
	(void)snprintf(why, size, "begins with none of");
	for (size_t i = 0; i < DLP_ARRAY_SIZE(figures); i++) {
		size_t len = strlen(why);

		(void)snprintf(why + len, size - len, "%s %s", i ? "," : "", figures[i].name);
	}
	return -EINVAL;
}

int dlp_gate_parse(const char *text, struct dlp_gate *ret, char *why, size_t why_size)
{
	const char *at = skip_blanks(text);
	const struct figure *figure = take_figure(&at);

	if (!figure)
		return refuse_figure(why, why_size);
	*ret = (struct dlp_gate){ .text = text, .figure = (unsigned int)(figure - figures) };
	at = skip_blanks(at);
	if (figure->unit == FLAG) {
		if (*at)
			return refuse(why, why_size, "%s is %s", figure->name, units[FLAG].hint);
		return 0;
	}
	/* the likeliest slip: the shell has made a file of that name */
	if (!*at)
		return refuse(why, why_size,
			      "no > >= < or <= behind %s; quote it, else the shell takes them",
			      figure->name);
	if (take_op(&at, &ret->op))
		return refuse(why, why_size, "%s is compared by > >= < or <=", figure->name);
	at = skip_blanks(at);
	if (take_number(&at, &ret->limit))
		return refuse(why, why_size, "no number to compare with; %s is %s", figure->name,
			      units[figure->unit].hint);
	at = skip_blanks(at);
	if (figure->unit == SHARE && *at == '%') {
		ret->limit /= 100;
		at = skip_blanks(at + 1);
	}
	if (*at)
		return refuse(why, why_size, "more behind the number; %s is %s", figure->name,
			      units[figure->unit].hint);
	return check_sense(ret, why, why_size);
}

/* ---- checking -------------------------------------------------------------------------------- */

static bool holds(const struct dlp_gate *gate, double value)
{
	if (figures[gate->figure].unit == FLAG)
		return value > 0;
	switch (gate->op) {
	case DLP_GATE_ABOVE:
		return value > gate->limit;
	case DLP_GATE_FROM:
		return value >= gate->limit;
	case DLP_GATE_BELOW:
		return value < gate->limit;
	case DLP_GATE_UP_TO:
		return value <= gate->limit;
	}
	return false;
}

/* Of several loaders the first for which it holds, else the first that has the figure. */
static void check_loaders(const struct dlp_gate *gate, const struct dlp_model *model,
			  struct dlp_gate_answer *ret)
{
	const struct figure *figure = &figures[gate->figure];

	for (size_t i = 0; i < model->loader_cnt; i++) {
		double value = figure->of_loader(&model->loaders[i]);
		bool crossed = holds(gate, value);

		if (!crossed && (isnan(value) || !isnan(ret->value)))
			continue;
		ret->value = value;
		ret->loader = model->loaders[i].id;
		if (crossed)
			return;
	}
}

void dlp_gate_check(const struct dlp_gate *gate, const struct dlp_model *model,
		    const struct dlp_verdict *verdict, const struct dlp_summary_facts *facts,
		    struct dlp_gate_answer *ret)
{
	const struct run run = { .model = model, .verdict = verdict, .facts = facts };

	*ret = (struct dlp_gate_answer){ .value = NAN };
	if (figures[gate->figure].of_run)
		ret->value = figures[gate->figure].of_run(&run);
	else
		check_loaders(gate, model, ret);
	if (holds(gate, ret->value))
		ret->state = DLP_GATE_CROSSED;
	/* a run that has hardly begun must not pass for a good one */
	else if (isnan(ret->value) || verdict->bottleneck == DLP_BN_INSUFFICIENT)
		ret->state = DLP_GATE_UNKNOWN;
}

const char *dlp_gate_say(const struct dlp_gate *gate, const struct dlp_gate_answer *answer,
			 char *buf, size_t size)
{
	const struct figure *figure = &figures[gate->figure];
	char shown[80], value[32] = "", loader[32] = "";

	dlp_sanitise(shown, sizeof(shown), gate->text, strlen(gate->text));
	if (figure->unit != FLAG)
		(void)snprintf(value, sizeof(value), " is %.10g", answer->value);
	if (answer->loader)
		(void)snprintf(loader, sizeof(loader), " of loader %u", answer->loader);
	if (answer->state == DLP_GATE_CROSSED)
		(void)snprintf(buf, size, "gate crossed: %s%s%s (--fail-if '%s')", figure->name,
			       loader, value, shown);
	else if (isnan(answer->value))
		(void)snprintf(buf, size, "gate not decided: %s was not measured (--fail-if '%s')",
			       figure->name, shown);
	else
		(void)snprintf(buf, size,
			       "gate not decided: too little was seen, %s%s%s so far "
			       "(--fail-if '%s')",
			       figure->name, loader, value, shown);
	return buf;
}
