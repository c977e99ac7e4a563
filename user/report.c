/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The report: its sections one after the other, in each of its forms; and what is selected. */
#include "report.h"

#include <errno.h>
#include <string.h>

#include "report_priv.h"
#include "summary.h"
#include "text.h"
#include "util.h"

static const struct section {
	const char *name;
	void (*build)(const struct dlp_report *report, struct dlp_part *part);
} sections[DLP_SECTION_MAX] = {
#define X(NAME, name) [DLP_SECTION_##NAME] = { #name, dlp_report_##name },
	DLP_REPORT_SECTIONS(X)
#undef X
};

int dlp_report_section_find(const char *name)
{
	for (int i = 0; i < DLP_SECTION_MAX; i++) {
		if (!strcmp(sections[i].name, name))
			return i;
	}
	return -1;
}

const char *dlp_report_section_name(enum dlp_report_section section)
{
	return sections[section].name;
}

struct dlp_table *dlp_part_table(struct dlp_part *part, const struct dlp_table_form *form)
{
	struct dlp_table *table = &part->table[part->table_cnt++];

	dlp_table_init(table, form);
	return table;
}

static void part_fini(struct dlp_part *part)
{
	for (size_t i = 0; i < part->table_cnt; i++)
		dlp_table_fini(&part->table[i]);
}

/* 0, or -ENOMEM and nothing to free. */
static int build(const struct dlp_report *report, enum dlp_report_section section,
		 struct dlp_part *part)
{
	memset(part, 0, sizeof(*part));
	sections[section].build(report, part);
	for (size_t i = 0; i < part->table_cnt; i++)
		part->failed |= part->table[i].failed;
	if (!part->failed)
		return 0;
	part_fini(part);
	return -ENOMEM;
}

bool dlp_selected(const struct dlp_report *report, uint64_t end_ns)
{
	const struct dlp_selection *selection = &report->selection;

	return end_ns >= report->history->start_ns && end_ns <= report->history->end_ns &&
	       end_ns >= selection->from_ns && end_ns <= selection->to_ns;
}

void dlp_selected_time(const struct dlp_report *report, uint64_t *ret_from_ns,
		       uint64_t *ret_to_ns)
{
	const struct dlp_selection *selection = &report->selection;
	const struct dlp_history *history = report->history;

	*ret_from_ns = selection->from_ns > history->start_ns ? selection->from_ns :
								history->start_ns;
	*ret_to_ns = selection->to_ns < history->end_ns ? selection->to_ns : history->end_ns;
}

bool dlp_selected_part(const struct dlp_report *report, uint64_t start_ns, uint64_t end_ns)
{
	uint64_t from_ns, to_ns;

	dlp_selected_time(report, &from_ns, &to_ns);
	return end_ns >= from_ns && start_ns <= to_ns;
}

bool dlp_selected_loader(const struct dlp_report *report, uint32_t loader)
{
	return !report->selection.loader || report->selection.loader == loader;
}

bool dlp_selected_worker(const struct dlp_report *report, uint32_t pid)
{
	return !report->selection.worker || report->selection.worker == pid;
}

bool dlp_selected_call(const struct dlp_report *report, const struct dlp_history_call *call)
{
	return call->flags & DLP_CALL_WINDOW && dlp_selected(report, call->end_ns) &&
	       dlp_selected_loader(report, call->loader) &&
	       dlp_selected_worker(report, call->worker_pid);
}

bool dlp_matches(const regex_t *regex, const char *text)
{
	return !regex || !regexec(regex, text, 0, NULL, 0);
}

void dlp_put_stats(struct dlp_table *table, struct dlp_stats *stats)
{
	table->failed |= stats->failed;
	dlp_put_count(table, stats->cnt);
	if (!stats->cnt) {
		for (int i = 0; i < 5; i++)
			dlp_put_unknown(table);
		return;
	}
	dlp_put_count(table, dlp_stats_quantile(stats, 0.5));
	dlp_put_count(table, dlp_stats_quantile(stats, 0.95));
	dlp_put_count(table, dlp_stats_quantile(stats, 0.99));
	dlp_put_count(table, dlp_stats_quantile(stats, 1));
	dlp_put_count(table, dlp_stats_count_from(stats, dlp_stats_outlier(stats)));
}

const char *dlp_report_device(const struct dlp_report *report, uint32_t dev, char *buf,
			      size_t size)
{
	const struct dlp_summary_facts *facts = report->history->facts;
	const char *name = NULL;

	if (facts && facts->device_name)
		name = facts->device_name(dev, buf, size);
	if (!name)
		(void)snprintf(buf, size, "%u:%u", dev >> 20, dev & 0xfffff);
	return name ? name : buf;
}

/* What did not fit the history, by kind. */
static void each_lost(const struct dlp_history *history,
		      void (*tell)(void *ctx, const char *what, uint64_t cnt), void *ctx)
{
	const struct dlp_history_lost *lost = &history->lost;
	const struct {
		const char *what;
		uint64_t cnt;
	} kinds[] = {
		{ "calls", lost->calls },	  { "productions", lost->productions },
		{ "samples", lost->samples },	  { "waits", lost->waits },
		{ "scopes", lost->scopes },	  { "iterators", lost->iterators },
		{ "workers", lost->workers },	  { "blocks", lost->blocks },
		{ "requests", lost->requests },	  { "system", lost->system },
		{ "others", lost->others },	  { "intervals", lost->intervals },
		{ "labels", lost->labels },
	};

	for (size_t i = 0; i < DLP_ARRAY_SIZE(kinds); i++) {
		if (kinds[i].cnt)
			tell(ctx, kinds[i].what, kinds[i].cnt);
	}
}

static void print_lost(void *ctx, const char *what, uint64_t cnt)
{
	fprintf(ctx, "Left out, because the run was too long for them: %llu %s\n",
		(unsigned long long)cnt, what);
}

static void print_head(const struct dlp_report *report, FILE *out)
{
	const struct dlp_history *history = report->history;
	uint64_t from_ns, to_ns;

	dlp_selected_time(report, &from_ns, &to_ns);
	fprintf(out, "Report on pid %u: %.3f s", history->model->trainer_pid,
		(double)(history->end_ns - history->start_ns) / 1e9);
	if (from_ns > history->start_ns || to_ns < history->end_ns)
		fprintf(out, ", of it from %.6f s to %.6f s",
			(double)(int64_t)(from_ns - history->start_ns) / 1e9,
			(double)(int64_t)(to_ns - history->start_ns) / 1e9);
	fputs("; times are seconds from its start\n", out);
	if (history->facts && !dlp_summary_complete(history->model, history->facts))
		fputs("Events were lost or left out: figures may be short\n", out);
	each_lost(history, print_lost, out);
}

int dlp_report_print(const struct dlp_report *report, FILE *out)
{
	print_head(report, out);
	for (int i = 0; i < DLP_SECTION_MAX; i++) {
		struct dlp_part part;
		int err;

		if (!(report->sections & 1u << i))
			continue;
		fprintf(out, "\n== %s ==\n", sections[i].name);
		if (i == DLP_SECTION_VERDICT && report->history->facts) {
			dlp_text_summary(out, report->history->model, &report->history->verdict,
					 report->history->facts);
			continue;
		}
		err = build(report, i, &part);
		if (err)
			return err;
		for (size_t j = 0; j < part.table_cnt; j++)
			dlp_table_print(&part.table[j], out, report->history->start_ns,
					report->rows);
		part_fini(&part);
	}
	return 0;
}

struct left_out {
	json_t *object;
	int err;
};

static void json_lost(void *ctx, const char *what, uint64_t cnt)
{
	struct left_out *left_out = ctx;

	left_out->err |=
		json_object_set_new(left_out->object, what, json_integer((json_int_t)cnt));
}

static json_t *or_null(uint64_t value)
{
	return value ? json_integer((json_int_t)value) : json_null();
}

static int json_head(const struct dlp_report *report, json_t *root)
{
	const struct dlp_history *history = report->history;
	struct left_out left_out = { .object = json_object() };
	json_t *complete = json_null();
	uint64_t from_ns, to_ns;

	dlp_selected_time(report, &from_ns, &to_ns);
	each_lost(history, json_lost, &left_out);
	if (history->facts)
		complete = json_boolean(dlp_summary_complete(history->model, history->facts));
	return left_out.err |
	       json_object_set_new(root, "schema", json_string(DLP_REPORT_SCHEMA)) |
	       json_object_set_new(root, "pid", or_null(history->model->trainer_pid)) |
	       json_object_set_new(root, "window",
				   json_pack("{s:I, s:I, s:o}", "start_ns",
					     (json_int_t)history->start_ns, "end_ns",
					     (json_int_t)history->end_ns, "clock_realtime_at_start",
					     or_null(history->realtime_start_ns))) |
	       json_object_set_new(root, "selection",
				   json_pack("{s:I, s:I, s:o, s:o}", "from_ns", (json_int_t)from_ns,
					     "to_ns", (json_int_t)to_ns, "loader",
					     or_null(report->selection.loader), "worker",
					     or_null(report->selection.worker))) |
	       json_object_set_new(root, "complete", complete) |
	       json_object_set_new(root, "left_out", left_out.object);
}

static int json_section(const struct dlp_report *report, enum dlp_report_section section,
			json_t *root)
{
	json_t *object = json_object();
	struct dlp_part part;
	int err;

	err = build(report, section, &part);
	if (err) {
		json_decref(object);
		return err;
	}
	for (size_t i = 0; i < part.table_cnt; i++) {
		if (json_object_set_new(object, part.table[i].form->key,
					dlp_table_json(&part.table[i])))
			err = -ENOMEM;
	}
	part_fini(&part);
	if (json_object_set_new(root, sections[section].name, object))
		err = -ENOMEM;
	return err;
}

int dlp_report_json(const struct dlp_report *report, FILE *out)
{
	json_t *root = json_object(), *list = json_object();
	int err;

	err = !root || !list || json_head(report, root) ||
			      json_object_set(root, "sections", list) ?
		      -ENOMEM :
		      0;
	for (int i = 0; i < DLP_SECTION_MAX && !err; i++) {
		if (report->sections & 1u << i)
			err = json_section(report, i, list);
	}
	/* a full disk shows when the caller closes the stream; whatever else fails is memory */
	if (!err && json_dumpf(root, out, JSON_INDENT(1) | JSON_REAL_PRECISION(15)) && !ferror(out))
		err = -ENOMEM;
	if (!err)
		fputc('\n', out);
	json_decref(list);
	json_decref(root);
	return err;
}

static int csv_table(const struct dlp_table *table, const char *section,
		     const struct dlp_csv_files *files)
{
	char name[80];
	FILE *file;
	int err;

	(void)snprintf(name, sizeof(name), "%s_%s", section, table->form->key);
	err = files->open(files->ctx, name, &file);
	if (err)
		return err;
	dlp_table_csv(table, file);
	return files->done(files->ctx, file);
}

int dlp_report_csv(const struct dlp_report *report, const struct dlp_csv_files *files)
{
	for (int i = 0; i < DLP_SECTION_MAX; i++) {
		struct dlp_part part;
		int err;

		if (!(report->sections & 1u << i))
			continue;
		err = build(report, i, &part);
		if (err)
			return err;
		for (size_t j = 0; j < part.table_cnt && !err; j++)
			err = csv_table(&part.table[j], sections[i].name, files);
		part_fini(&part);
		if (err)
			return err;
	}
	return 0;
}
