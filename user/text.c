/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "text.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "human.h"
#include "loss.h"
#include "split.h"
#include "stage.h"
#include "text_govern.h"
#include "util.h"

/* Fits a terminal of 100 columns, and is not too long a line to read. */
#define WRAP 92
/* More rows hide the lines that matter; the JSON has all of them. */
#define LOADER_ROWS 8
#define WORKER_ROWS 12
#define STAGE_ROWS 6
/* State columns of the workers table; the rest is added up. */
#define STATE_COLUMNS 6
/* Parts of the split in an interval's line. */
#define INTERVAL_PARTS 4

static struct dlp_human quantile(const struct dlp_hist *hist, double q)
{
	return hist->cnt ? dlp_human_duration(dlp_hist_quantile(hist, q)) : (struct dlp_human){ "-" };
}

static struct dlp_human longest(const struct dlp_hist *hist)
{
	return hist->cnt ? dlp_human_duration(hist->max_ns) : (struct dlp_human){ "-" };
}

__attribute__((format(printf, 4, 5))) static void append(char *buf, size_t size, size_t *len,
							 const char *format, ...)
{
	va_list args;
	int written;

	if (*len >= size)
		return;
	va_start(args, format);
	written = vsnprintf(buf + *len, size - *len, format, args);
	va_end(args);
	if (written > 0)
		*len += (size_t)written;
}

/* Columns a text takes: characters, not bytes. */
static size_t columns(const char *text, size_t len)
{
	size_t cnt = 0;

	for (size_t i = 0; i < len; i++)
		cnt += ((unsigned char)text[i] & 0xc0) != 0x80;
	return cnt;
}

/* `first` before the first line, as many blanks before the others. */
static void wrapped(FILE *out, const char *first, const char *text)
{
	size_t indent = strlen(first), at = indent;
	bool line_begins = true;

	fputs(first, out);
	while (*text) {
		size_t len = strcspn(text, " "), width = columns(text, len);

		if (!line_begins && at + 1 + width > WRAP) {
			fprintf(out, "\n%*s", (int)indent, "");
			at = indent;
			line_begins = true;
		}
		if (!line_begins) {
			fputc(' ', out);
			at++;
		}
		fwrite(text, 1, len, out);
		at += width;
		line_begins = false;
		text += len;
		text += strspn(text, " ");
	}
	fputc('\n', out);
}

static const char *or_word(const char *text, const char *word)
{
	return text && *text ? text : word;
}

static struct dlp_version cleaned(const struct dlp_version *version)
{
	struct dlp_version ret = *version;

	dlp_sanitise(ret.text, sizeof(ret.text), version->text, sizeof(version->text));
	if (!*ret.text)
		(void)snprintf(ret.text, sizeof(ret.text), "(version unknown)");
	return ret;
}

/* Sanitised; a long text must not push the rest of its line out of sight. */
static void shortened(char *dst, size_t size, const char *src, size_t bytes)
{
	size_t len;

	dlp_sanitise(dst, size - 3, src, bytes);
	len = strlen(dst);
	/* replacing never makes text longer, so what fits whole is at most that long */
	if (strnlen(src, bytes) > size - 4)
		memcpy(dst + len, "...", 4);
}

void dlp_text_attached(FILE *out, const struct dlp_summary_facts *facts, size_t workers)
{
	const struct dlp_target *target = facts->target;
	struct dlp_version python = cleaned(&target->python), torch = cleaned(&target->torch);
	char cmdline[64], inside[48] = "";

	shortened(cmdline, sizeof(cmdline), target->cmdline, sizeof(target->cmdline));
	if (target->inside)
		(void)snprintf(inside, sizeof(inside), ", %d in its container", (int)target->inside);
	fprintf(out, "dlprof-bpf: pid %d%s (%s), Python %s, torch %s, %zu worker%s; scopes: %s",
		(int)target->pid, inside, or_word(cmdline, "?"), python.text, torch.text, workers,
		workers == 1 ? "" : "s", or_word(facts->scope_rung, "none"));
	if (facts->scope_rung)
		fprintf(out, " (%zu probe%s)", facts->scope_probe_cnt,
			facts->scope_probe_cnt == 1 ? "" : "s");
	fprintf(out, ", queue: %s, clocks: %s; missing: ", or_word(facts->queue_rung, "none"),
		or_word(facts->clock_rung, "none"));
	for (size_t i = 0; i < facts->missing_cnt; i++)
		fprintf(out, "%s%s", i ? ", " : "", facts->missing[i].name);
	fputs(facts->missing_cnt ? "\n" : "nothing\n", out);
}

/* "run 88 fault 7 runq 3 rest 2 %", the largest first. */
static void split_text(const struct dlp_clock *clock, char *buf, size_t size)
{
	struct dlp_share share[DLP_ST_MAX];
	size_t cnt = dlp_split_rank(clock, true, share), len = 0;
	int shown = 0;

	if (!cnt) {
		(void)snprintf(buf, size, "-");
		return;
	}
	for (size_t i = 0; i < cnt && i < INTERVAL_PARTS; i++) {
		int value = (int)lround(share[i].share * 100);

		if (i && !value)
			break;
		append(buf, size, &len, "%s %d ", dlp_split_state_id(share[i].state), value);
		shown += value;
	}
	if (shown < 100)
		append(buf, size, &len, "rest %d ", 100 - shown);
	append(buf, size, &len, "%%");
}

void dlp_text_verdict(const struct dlp_verdict *verdict, char *buf, size_t size)
{
	const char *bottleneck = dlp_bottleneck_id(verdict->bottleneck);

	if (verdict->bottleneck == DLP_BN_INSUFFICIENT)
		(void)snprintf(buf, size, "%s", bottleneck);
	else if (verdict->cause == DLP_CAUSE_NONE)
		(void)snprintf(buf, size, "%s (%s)", bottleneck,
			       dlp_confidence_id(verdict->confidence));
	else
		(void)snprintf(buf, size, "%s: %s (%s)", bottleneck, dlp_cause_id(verdict->cause),
			       dlp_confidence_id(verdict->confidence));
}

void dlp_text_interval(FILE *out, const struct dlp_model *model, const struct dlp_verdict *verdict)
{
	const struct dlp_interval_stats *last = &model->interval;
	double width_s =
		last->end_ns > last->start_ns ? (double)(last->end_ns - last->start_ns) / 1e9 : 0;
	double at_s =
		last->end_ns > model->start_ns ? (double)(last->end_ns - model->start_ns) / 1e9 : 0;
	struct dlp_human rate = { "-" }, exposed = { "-" }, idle = { "-" };
	uint64_t total = dlp_split_sum(&last->workers);
	char split[96], said[80];

	if (width_s > 0) {
		double batches = (double)last->batches / width_s;

		(void)snprintf(rate.text, sizeof(rate.text), batches < 1e5 ? "%.1f" : "%.0f",
			       batches);
	}
	/* before the first GetNext nobody knows which thread trains */
	if (width_s > 0 && (model->main_valid || model->getnext_cnt))
		(void)snprintf(exposed.text, sizeof(exposed.text), "%.1f",
			       fmin(100, (double)last->exposed_ns / 1e7 / width_s));
	if (total)
		(void)snprintf(idle.text, sizeof(idle.text), "%.0f",
			       (double)last->workers.ns[DLP_ST_IDLE] * 100 / (double)total);
	split_text(&last->workers, split, sizeof(split));
	dlp_text_verdict(verdict, said, sizeof(said));
	fprintf(out,
		"%8.1f s %8s batches/s  exposed %5s %%  GetNext median %7s  p99 %7s  "
		"workers: %-44s idle %3s %%  %s\n",
		at_s, rate.text, exposed.text, quantile(&last->getnext, 0.5).text,
		quantile(&last->getnext, 0.99).text, split, idle.text, said);
	dlp_text_govern(out, model);
}

static void say_verdict(FILE *out, const struct dlp_verdict *verdict)
{
	char said[80];

	wrapped(out, "", verdict->text);
	dlp_text_verdict(verdict, said, sizeof(said));
	fprintf(out, "Verdict: %s", said);
	if (verdict->bottleneck == DLP_BN_DATA_LOADING)
		fprintf(out, ", severity %s", dlp_severity_id(verdict->severity));
	fputc('\n', out);
	if (verdict->evidence_cnt)
		fputs("\nEvidence\n", out);
	for (size_t i = 0; i < verdict->evidence_cnt; i++)
		wrapped(out, "  - ", verdict->evidence[i].text);
	if (verdict->advice_cnt)
		fputs("\nAdvice\n", out);
	for (size_t i = 0; i < verdict->advice_cnt; i++) {
		wrapped(out, "  - ", verdict->advice[i].text);
		if (verdict->advice[i].counter_check)
			wrapped(out, "    Check: ", verdict->advice[i].counter_check);
	}
}

static bool costs(const struct dlp_loader *loader)
{
	return loader->sums.getnext_ns || loader->sums.init_ns || loader->sums.teardown_ns;
}

/* Where several loaders cost something, what each of them costs by itself. */
static void say_loader_verdicts(FILE *out, const struct dlp_model *model)
{
	size_t cnt = 0;

	for (size_t i = 0; i < model->loader_cnt; i++)
		cnt += costs(&model->loaders[i]);
	for (size_t i = 0; cnt > 1 && i < model->loader_cnt && i < LOADER_ROWS; i++) {
		const struct dlp_loader *loader = &model->loaders[i];
		struct dlp_verdict verdict;
		char said[80];
		double total;

		if (!costs(loader))
			continue;
		dlp_diagnose_loader(model, loader, &verdict);
		total = verdict.exposed_wait_ratio + verdict.startup_ratio;
		/* no time has passed; and fmin(1, NAN) is 1 */
		if (isnan(total))
			continue;
		dlp_text_verdict(&verdict, said, sizeof(said));
		fprintf(out, "  loader %u alone: training waits %.1f %% of the time; %s\n",
			loader->id, fmin(1, total) * 100, said);
	}
}

static void say_loaders(FILE *out, const struct dlp_model *model)
{
	if (!model->loader_cnt)
		return;
	fputs("\nLoaders (times: one GetNext)\n", out);
	fprintf(out, "  %2s  %-38s %7s %8s %8s %8s %8s %8s\n", "id", "iterator", "workers",
		"batches", "prefetch", "median", "p99", "max");
	for (size_t i = 0; i < model->loader_cnt && i < LOADER_ROWS; i++) {
		const struct dlp_loader *loader = &model->loaders[i];
		struct dlp_human workers = { "-" }, prefetch = { "-" };
		char type[39];

		dlp_sanitise(type, sizeof(type), loader->type, sizeof(loader->type));
		if (loader->num_workers >= 0)
			(void)snprintf(workers.text, sizeof(workers.text), "%d",
				       loader->num_workers);
		if (loader->prefetch)
			(void)snprintf(prefetch.text, sizeof(prefetch.text), "%u",
				       loader->prefetch);
		fprintf(out, "  %2u  %-38s %7s %8llu %8s %8s %8s %8s\n", loader->id,
			or_word(type, "-"), workers.text, (unsigned long long)loader->batch_cnt,
			prefetch.text, quantile(&loader->getnext, 0.5).text,
			quantile(&loader->getnext, 0.99).text, longest(&loader->getnext).text);
	}
	if (model->loader_cnt > LOADER_ROWS)
		fprintf(out, "  and %zu more\n", model->loader_cnt - LOADER_ROWS);
	say_loader_verdicts(out, model);
}

/* The states with most time over all workers get columns. */
static size_t pick_states(const struct dlp_model *model, unsigned int ret_state[STATE_COLUMNS])
{
	struct dlp_share share[DLP_ST_MAX];
	struct dlp_clock sum;
	size_t cnt, picked = 0;

	(void)dlp_split_workers(model, &sum);
	cnt = dlp_split_rank(&sum, true, share);
	for (size_t i = 0; i < cnt && picked < STATE_COLUMNS; i++) {
		/* a column of zeros says nothing */
		if (picked && share[i].share < 0.005)
			break;
		ret_state[picked++] = share[i].state;
	}
	return picked;
}

static void say_worker(FILE *out, const struct dlp_worker *worker, const unsigned int *state,
		       size_t state_cnt)
{
	uint64_t total = dlp_split_sum(&worker->clock), seen = worker->clock.ns[DLP_ST_IDLE];
	bool known = worker->clock_valid && total;
	struct dlp_human loader = { "-" }, batches = { "-" }, end = { "" };

	if (worker->loader)
		(void)snprintf(loader.text, sizeof(loader.text), "%u", worker->loader);
	if (worker->proven)
		(void)snprintf(batches.text, sizeof(batches.text), "%llu",
			       (unsigned long long)worker->batch_cnt);
	fprintf(out, "  %7u %6s %8s %8s %8s  ", worker->pid, loader.text, batches.text,
		quantile(&worker->produce, 0.5).text, longest(&worker->produce).text);
	for (size_t i = 0; i < state_cnt; i++) {
		uint64_t ns = worker->clock.ns[state[i]];

		seen += ns;
		if (known)
			fprintf(out, " %5.1f", (double)ns * 100 / (double)total);
		else
			fprintf(out, " %5s", "-");
	}
	if (known)
		fprintf(out, " %5.1f %5.1f",
			(double)worker->clock.ns[DLP_ST_IDLE] * 100 / (double)total,
			(double)(total - seen) * 100 / (double)total);
	else
		fprintf(out, " %5s %5s", "-", "-");
	/* workers that end with their epoch are no news; others are */
	if (worker->died_ns && worker->exit_code && worker->exit_code != DLP_EXIT_UNKNOWN)
		(void)dlp_summary_exit(worker->exit_code, end.text, sizeof(end.text));
	fprintf(out, "%s%s\n", *end.text ? "  " : "", end.text);
}

static void say_workers(FILE *out, const struct dlp_model *model)
{
	unsigned int state[STATE_COLUMNS];
	size_t state_cnt = pick_states(model, state), rows = 0, skipped = 0;

	for (size_t i = 0; i < model->worker_cnt; i++) {
		const struct dlp_worker *worker = &model->workers[i];

		if (!dlp_split_seen(worker) || !dlp_split_counts(model, worker))
			continue;
		if (rows == WORKER_ROWS) {
			skipped++;
			continue;
		}
		if (!rows++) {
			fputs("\nWorkers (times: making one batch; then % of the worker's time)\n",
			      out);
			fprintf(out, "  %7s %6s %8s %8s %8s  ", "pid", "loader", "batches",
				"median", "max");
			for (size_t j = 0; j < state_cnt; j++)
				fprintf(out, " %5s", dlp_split_state_id(state[j]));
			fprintf(out, " %5s %5s\n", "idle", "rest");
		}
		say_worker(out, worker, state, state_cnt);
	}
	if (skipped)
		fprintf(out, "  and %zu more (all of them in the JSON summary)\n", skipped);
}

static void say_stage(FILE *out, const struct dlp_stage_row *row)
{
	const struct dlp_stage_sum *sum = row->sum;
	struct dlp_human median = { "-" }, own = { "-" };
	char label[39] = "(label not recorded)";

	if (row->label)
		shortened(label, sizeof(label), row->label, strlen(row->label));
	if (row->duration)
		median = quantile(row->duration, 0.5);
	if (!isnan(row->share))
		(void)snprintf(own.text, sizeof(own.text), "%.1f", row->share * 100);
	fprintf(out, "  %-38s  %-7s %s%8llu %8s %8s %6s\n", label,
		row->worker ? "workers" : "main", sum->sampled ? "~" : " ",
		(unsigned long long)sum->cnt, median.text, dlp_human_duration(sum->max_ns).text, own.text);
}

/* The trainer's GetNext calls are not among them: these are the loaders' lines. */
static void say_stages(FILE *out, const struct dlp_model *model)
{
	struct dlp_stage_row row[DLP_STAGE_ROWS_MAX];
	size_t cnt = dlp_stage_rank(model, row);

	if (!cnt)
		return;
	fputs("\nStages (times: one scope; then % of wall time or of the workers' production)\n",
	      out);
	fprintf(out, "  %-38s  %-7s  %8s %8s %8s %6s\n", "record_function", "where", "count",
		"median", "max", "own");
	for (size_t i = 0; i < cnt && i < STAGE_ROWS; i++)
		say_stage(out, &row[i]);
	if (cnt > STAGE_ROWS)
		fprintf(out, "  and %zu more (all of them in the JSON summary)\n",
			cnt - STAGE_ROWS);
}

static void say_loss(FILE *out, const struct dlp_model *model,
		     const struct dlp_summary_facts *facts)
{
	struct dlp_loss loss;
	char line[1024] = "";
	size_t len = 0;

	dlp_loss_get(model, &loss);
	if (dlp_summary_complete(model, facts))
		append(line, sizeof(line), &len, "nothing; every figure is complete");
	else
		append(line, sizeof(line), &len, "figures may be short");
	if (!loss.counted)
		append(line, sizeof(line), &len, "; the kernel side's counters were not read");
	for (size_t i = 0; i < loss.reason_cnt; i++)
		append(line, sizeof(line), &len, "; %llu %s",
		       (unsigned long long)loss.reason[i].count, loss.reason[i].text);
	for (size_t i = 0; i < facts->missing_cnt; i++)
		append(line, sizeof(line), &len, "%s%s",
		       i ? ", " : "; left out: ", facts->missing[i].name);
	fputc('\n', out);
	wrapped(out, "Lost:     ", line);
}

static void say_cost(FILE *out, const struct dlp_model *model)
{
	double wall_ns =
		model->end_ns > model->start_ns ? (double)(model->end_ns - model->start_ns) : NAN;
	struct dlp_own_cost cost;
	char line[400] = "", governed[120];
	size_t len = 0;

	dlp_summary_cost(model, &cost);
	if (cost.daemon_known)
		append(line, sizeof(line), &len,
		       "dlprof-bpf used %.2f %% of one CPU and %s of memory",
		       (double)cost.daemon_cpu_ns * 100 / wall_ns,
		       dlp_human_bytes(cost.daemon_rss_bytes).text);
	else
		append(line, sizeof(line), &len, "dlprof-bpf itself was not measured");
	if (cost.probes_known)
		append(line, sizeof(line), &len,
		       "; its probes ran %llu times, %.2f %% of one CPU (%s)",
		       (unsigned long long)cost.probe_hits,
		       (double)cost.probe_cpu_ns * 100 / wall_ns, cost.probe_cpu_how);
	else
		append(line, sizeof(line), &len, "; its probes were not measured");
	append(line, sizeof(line), &len, "%s", dlp_text_governed(model, governed, sizeof(governed)));
	wrapped(out, "Own cost: ", line);
}

void dlp_text_summary(FILE *out, const struct dlp_model *model, const struct dlp_verdict *verdict,
		      const struct dlp_summary_facts *facts)
{
	char cmdline[64] = "";

	/* apart from the lines above it: the attach line and the intervals */
	fputc('\n', out);
	say_verdict(out, verdict);
	say_loaders(out, model);
	say_workers(out, model);
	say_stages(out, model);
	say_loss(out, model, facts);
	say_cost(out, model);
	if (facts->target)
		shortened(cmdline, sizeof(cmdline), facts->target->cmdline,
			  sizeof(facts->target->cmdline));
	fprintf(out, "Observed: pid %u%s%s%s for %.1f s\n", model->trainer_pid,
		*cmdline ? " (" : "", cmdline, *cmdline ? ")" : "",
		model->end_ns > model->start_ns ? (double)(model->end_ns - model->start_ns) / 1e9 :
						  0.0);
}
