/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The report's section on one stretch of time: lanes of what each thread did, and every event. */
#include <string.h>

#include "report_events.h"
#include "util.h"

/* Fits a cell of the tables for people. */
#define STRIP 60
/* More lanes are no picture any more. */
#define WORKER_LANES 32

static const struct dlp_table_form window_lanes = {
	"lanes",
	"Lanes (G in GetNext, i making an iterator; # making a batch; d disk, f fault, n network or "
	"its\nfile system, l lock, s sleep, p pipe, . none of these)",
	(const struct dlp_column[]){
		{ "lane", "lane", DLP_CELL_TEXT },
		{ "pid", "pid", DLP_CELL_ID },
		{ "loader", "loader", DLP_CELL_ID },
		{ "strip", "from begin to end", DLP_CELL_TEXT },
		{ 0 },
	},
};

static const struct dlp_table_form window_events = {
	"events",
	"Events",
	(const struct dlp_column[]){
		{ "start_ns", "start", DLP_CELL_TIME },
		{ "end_ns", NULL, DLP_CELL_TIME },
		{ "duration_us", "took", DLP_CELL_NS },
		{ "dimension", "dimension", DLP_CELL_TEXT },
		{ "event", "event", DLP_CELL_TEXT },
		{ "pid", "pid", DLP_CELL_ID },
		{ "tid", "tid", DLP_CELL_ID },
		{ "detail", "detail", DLP_CELL_TEXT },
		{ 0 },
	},
};

static const struct dlp_table_form window_left_out = {
	"left_out",
	"Left out, being more than a table holds: select less time",
	(const struct dlp_column[]){ { "events", "events", DLP_CELL_COUNT }, { 0 } },
};

/* A lane's columns: how much of each is covered so far, and by what. */
struct strip {
	uint64_t from_ns, to_ns;
	uint64_t covered_ns[STRIP];
	char text[STRIP + 1];
};

static uint64_t edge(const struct strip *strip, size_t column)
{
	return strip->from_ns + (strip->to_ns - strip->from_ns) / STRIP * column;
}

/* The letter of what covers most of a column stands there; nothing for what is too short. */
static void draw(struct strip *strip, uint64_t start_ns, uint64_t end_ns, char letter)
{
	uint64_t width = (strip->to_ns - strip->from_ns) / STRIP;
	size_t at = 0;

	if (!width || end_ns <= strip->from_ns || start_ns >= strip->to_ns)
		return;
	if (start_ns > strip->from_ns)
		at = (start_ns - strip->from_ns) / width;
	for (; at < STRIP && edge(strip, at) < end_ns; at++) {
		uint64_t part = dlp_overlap(start_ns, end_ns, edge(strip, at), edge(strip, at + 1));

		if (part <= strip->covered_ns[at] || part < width / 4)
			continue;
		strip->covered_ns[at] = part;
		strip->text[at] = letter;
	}
}

/* What comes next covers what is there. */
static void draw_over(struct strip *strip)
{
	memset(strip->covered_ns, 0, sizeof(strip->covered_ns));
}

static void strip_init(struct strip *strip, uint64_t from_ns, uint64_t to_ns)
{
	memset(strip, 0, sizeof(*strip));
	strip->from_ns = from_ns;
	strip->to_ns = to_ns;
	memset(strip->text, '.', STRIP);
}

static void put_lane(struct dlp_table *table, const char *name, uint32_t pid, uint32_t loader,
		     const struct strip *strip)
{
	dlp_row(table);
	dlp_put_text(table, name);
	dlp_put_count(table, pid);
	dlp_put_count(table, loader);
	dlp_put_text(table, strip->text);
}

static void trainer_lane(const struct dlp_activity *activity, struct dlp_table *table,
			 const struct dlp_loader *loader, uint64_t from_ns, uint64_t to_ns)
{
	const struct dlp_history *history = activity->history;
	struct strip strip;

	strip_init(&strip, from_ns, to_ns);
	for (size_t i = dlp_spans_next(&activity->calls, 0, from_ns, to_ns); i < history->call_cnt;
	     i = dlp_spans_next(&activity->calls, i + 1, from_ns, to_ns)) {
		const struct dlp_history_call *call = &history->calls[i];

		if (call->loader == loader->id)
			draw(&strip, call->start_ns, call->end_ns, 'G');
	}
	draw_over(&strip);
	for (size_t i = 0; i < history->iterator_cnt; i++) {
		const struct dlp_history_iterator *it = &history->iterators[i];

		if (it->loader == loader->id && it->init_end_ns)
			draw(&strip, it->init_start_ns, it->init_end_ns, 'i');
	}
	put_lane(table, "training", history->model->trainer_pid, loader->id, &strip);
}

static char letter_of(uint32_t state)
{
	static const char letters[DLP_ST_MAX] = {
		[DLP_ST_DISK] = 'd', [DLP_ST_FAULT] = 'f', [DLP_ST_FS] = 'n',
		[DLP_ST_NET] = 'n',  [DLP_ST_LOCK] = 'l',  [DLP_ST_GIL] = 'l',
		[DLP_ST_PIPE] = 'p', [DLP_ST_SLEEP] = 's',
	};

	return state < DLP_ST_MAX ? letters[state] : '\0';
}

static void worker_lane(const struct dlp_activity *activity, struct dlp_table *table,
			const struct dlp_history_worker *worker, uint64_t from_ns, uint64_t to_ns)
{
	const struct dlp_history *history = activity->history;
	struct strip strip;

	strip_init(&strip, from_ns, to_ns);
	for (size_t i = dlp_spans_next(&activity->productions, 0, from_ns, to_ns);
	     i < history->production_cnt;
	     i = dlp_spans_next(&activity->productions, i + 1, from_ns, to_ns)) {
		const struct dlp_history_production *made = &history->productions[i];

		if (made->pid == worker->pid)
			draw(&strip, made->taken_ns, made->done_ns, '#');
	}
	draw_over(&strip);
	for (size_t i = dlp_spans_next(&activity->waits, 0, from_ns, to_ns); i < history->wait_cnt;
	     i = dlp_spans_next(&activity->waits, i + 1, from_ns, to_ns)) {
		const struct dlp_history_wait *wait = &history->waits[i];

		if (wait->tid == worker->pid && letter_of(wait->state))
			draw(&strip, wait->start_ns, wait->end_ns, letter_of(wait->state));
	}
	draw_over(&strip);
	if (worker->born_ns)
		draw(&strip, 0, worker->born_ns, ' ');
	if (worker->died_ns)
		draw(&strip, worker->died_ns, UINT64_MAX, ' ');
	put_lane(table, "worker", worker->pid, worker->loader, &strip);
}

static void lanes(const struct dlp_report *report, const struct dlp_activity *activity,
		  struct dlp_table *table, uint64_t from_ns, uint64_t to_ns)
{
	const struct dlp_history *history = report->history;
	size_t cnt = 0;

	for (size_t i = 0; i < history->model->loader_cnt; i++) {
		if (dlp_selected_loader(report, history->model->loaders[i].id))
			trainer_lane(activity, table, &history->model->loaders[i], from_ns, to_ns);
	}
	for (size_t i = 0; i < history->worker_cnt && cnt < WORKER_LANES; i++) {
		const struct dlp_history_worker *worker = &history->workers[i];

		if (!dlp_selected_loader(report, worker->loader) ||
		    !dlp_selected_worker(report, worker->pid) || worker->born_ns >= to_ns ||
		    (worker->died_ns && worker->died_ns <= from_ns))
			continue;
		worker_lane(activity, table, worker, from_ns, to_ns);
		cnt++;
	}
}

void dlp_report_window(const struct dlp_report *report, struct dlp_part *part)
{
	struct dlp_happenings list = { .max = DLP_HAPPENINGS_MAX };
	struct dlp_table *table = dlp_part_table(part, &window_lanes), *events, *left_out;
	struct dlp_activity activity;
	uint64_t from_ns, to_ns;

	if (dlp_activity_init(&activity, report->history)) {
		part->failed = true;
		return;
	}
	dlp_selected_time(report, &from_ns, &to_ns);
	lanes(report, &activity, table, from_ns, to_ns);
	dlp_report_events(report, &activity, from_ns, to_ns, &list);
	dlp_happenings_by_start(&list);
	events = dlp_part_table(part, &window_events);
	for (size_t i = 0; i < list.cnt; i++) {
		dlp_row(events);
		dlp_happening_put(events, &list.at[i]);
	}
	if (list.left_out) {
		left_out = dlp_part_table(part, &window_left_out);
		dlp_row(left_out);
		dlp_put_count(left_out, list.left_out);
	}
	part->failed = list.failed;
	dlp_happenings_fini(&list);
	dlp_activity_fini(&activity);
}
