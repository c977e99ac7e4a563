/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "report_command.h"

#include <errno.h>
#include <fcntl.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli.h"
#include "folded.h"
#include "html.h"
#include "invoker.h"
#include "log.h"
#include "outfile.h"
#include "replay_file.h"
#include "report.h"
#include "report_options.h"
#include "smdebug.h"
#include "svg.h"
#include "trace.h"
#include "util.h"

/* A recording on its way to a report. */
struct job {
	struct dlp_report_options options;
	char shown[256]; /* the file's name */
	struct dlp_replay_file file;
	struct dlp_replay *replay;
	struct dlp_history *history;
	struct dlp_report report;
	regex_t events, dimensions;
	bool part; /* the recording lacks its end or a block */
};

static int complain_write(const char *path, int err)
{
	char shown[256];

	dlp_complain("cannot write '%s': %s", dlp_sanitise(shown, sizeof(shown), path, strlen(path)),
		     strerror(-err));
	return DLP_EXIT_FAILURE;
}

/* One document to one file. */
static int write_file(const struct dlp_report *report, const char *path,
		      int (*write)(const struct dlp_report *report, FILE *out))
{
	FILE *out;
	int err, closed;

	err = dlp_outfile_open(path, &out);
	if (err)
		return complain_write(path, err);
	err = write(report, out);
	closed = dlp_outfile_close(out);
	return err || closed ? complain_write(path, err ? err : closed) : DLP_EXIT_OK;
}

static int open_csv(void *ctx, const char *name, FILE **ret)
{
	char path[4096];
	int len = snprintf(path, sizeof(path), "%s/%s.csv", (const char *)ctx, name);

	return len < 0 || (size_t)len >= sizeof(path) ? -ENAMETOOLONG : dlp_outfile_open(path, ret);
}

static int close_csv(void *ctx, FILE *file)
{
	(void)ctx;
	return dlp_outfile_close(file);
}

/* A folder that is there is used: its other files are left alone. */
static int make_folder(const char *path)
{
	_cleanup_close_ int fd = -1;

	if (mkdir(path, 0777))
		return errno == EEXIST ? 0 : -errno;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0)
		(void)dlp_invoker_own(fd);
	return 0;
}

static int write_csv(const struct dlp_report *report, const char *path)
{
	const struct dlp_csv_files files = { open_csv, close_csv, (void *)path };
	int err;

	err = make_folder(path);
	if (!err)
		err = dlp_report_csv(report, &files);
	return err ? complain_write(path, err) : DLP_EXIT_OK;
}

static int write_trace(const struct dlp_report *report, FILE *out)
{
	return dlp_trace_write(out, report->history);
}

static int write_folded(const struct dlp_report *report, FILE *out)
{
	return dlp_folded_write(out, report->history);
}

static int write_smdebug(const struct dlp_report *report, const char *path)
{
	char shown[256], error[200];

	if (!dlp_smdebug_write(path, report->history, error, sizeof(error)))
		return DLP_EXIT_OK;
	dlp_complain("cannot write to '%s': %s",
		     dlp_sanitise(shown, sizeof(shown), path, strlen(path)), error);
	return DLP_EXIT_FAILURE;
}

/* The page has ways of its own to look at a part of the run, so it gets all of it. */
static int write_page(const struct dlp_report *report, FILE *out)
{
	return dlp_html_write(report->history, out);
}

static int write_forms(const struct job *job)
{
	const struct dlp_report *report = &job->report;
	const char *const *form = job->options.form;
	int failed = 0;

	if (form[DLP_FORM_JSON])
		failed |= write_file(report, form[DLP_FORM_JSON], dlp_report_json);
	if (form[DLP_FORM_CSV])
		failed |= write_csv(report, form[DLP_FORM_CSV]);
	if (form[DLP_FORM_HTML])
		failed |= write_file(report, form[DLP_FORM_HTML], write_page);
	if (form[DLP_FORM_SVG])
		failed |= write_file(report, form[DLP_FORM_SVG], dlp_svg_write);
	if (form[DLP_FORM_TRACE])
		failed |= write_file(report, form[DLP_FORM_TRACE], write_trace);
	if (form[DLP_FORM_FOLDED])
		failed |= write_file(report, form[DLP_FORM_FOLDED], write_folded);
	if (form[DLP_FORM_SMDEBUG])
		failed |= write_smdebug(report, form[DLP_FORM_SMDEBUG]);
	return failed ? DLP_EXIT_FAILURE : DLP_EXIT_OK;
}

/* The tables go to the screen when nothing else was asked for. */
static int write_all(const struct job *job)
{
	bool forms = false;

	for (int i = 0; i < DLP_FORM_MAX; i++)
		forms |= job->options.form[i] != NULL;
	return forms ? write_forms(job) : write_file(&job->report, "-", dlp_report_print);
}

static int resolve(const struct job *job, const char *name, const struct dlp_when *when,
		   uint64_t *ret_ns)
{
	const struct dlp_history *history = job->history;

	if (!when->kind ||
	    !dlp_when_resolve(when, history->start_ns, history->realtime_start_ns, ret_ns))
		return 0;
	dlp_complain("--%s: '%s' does not say when it was made, give seconds from the start", name,
		     job->shown);
	return DLP_EXIT_FAILURE;
}

static int select_part(struct job *job)
{
	const struct dlp_report_options *options = &job->options;
	struct dlp_selection *selection = &job->report.selection;
	const struct dlp_history *history = job->history;

	selection->to_ns = UINT64_MAX;
	selection->loader = options->loader;
	selection->worker = options->worker;
	if (resolve(job, "from", &options->from, &selection->from_ns) ||
	    resolve(job, "to", &options->to, &selection->to_ns))
		return DLP_EXIT_FAILURE;
	if (selection->from_ns > selection->to_ns || selection->from_ns > history->end_ns ||
	    selection->to_ns < history->start_ns) {
		dlp_complain("--from and --to leave nothing of the %.3f s in '%s'",
			     (double)(history->end_ns - history->start_ns) / 1e9, job->shown);
		return DLP_EXIT_FAILURE;
	}
	if (options->loader > history->model->loader_cnt) {
		dlp_complain("--loader %u: '%s' has %zu loaders", options->loader, job->shown,
			     history->model->loader_cnt);
		return DLP_EXIT_FAILURE;
	}
	return DLP_EXIT_OK;
}

/* It was compiled before, to check it: only memory can be short. NULL stays NULL. */
static int compile(const char *text, regex_t *room, const regex_t **ret)
{
	if (!text)
		return DLP_EXIT_OK;
	if (regcomp(room, text, REG_EXTENDED | REG_NOSUB)) {
		dlp_complain("out of memory");
		return DLP_EXIT_FAILURE;
	}
	*ret = room;
	return DLP_EXIT_OK;
}

static void forget(const regex_t *regex)
{
	if (regex)
		regfree((regex_t *)regex);
}

/* All of the recording, into a finished history; job->part: there is less than there should be. */
static int load(struct job *job)
{
	int part;

	job->replay->history = job->history;
	part = dlp_replay_file_load(&job->file, job->replay, job->shown);
	if (part < 0)
		return DLP_EXIT_FAILURE;
	job->part = part > 0;
	if (!dlp_history_finish(job->history, &job->replay->facts.facts))
		return DLP_EXIT_OK;
	dlp_complain("out of memory");
	return DLP_EXIT_FAILURE;
}

static int run(struct job *job)
{
	int ret;

	job->replay = calloc(1, sizeof(*job->replay));
	if (!job->replay || dlp_model_new(&job->replay->model) ||
	    dlp_history_new(&job->history, job->replay->model)) {
		dlp_complain("out of memory");
		return DLP_EXIT_FAILURE;
	}
	ret = load(job);
	job->report.history = job->history;
	job->report.sections = job->options.sections;
	job->report.rows = job->options.rows;
	if (!ret)
		ret = compile(job->options.events, &job->events, &job->report.selection.events);
	if (!ret)
		ret = compile(job->options.dimensions, &job->dimensions,
			      &job->report.selection.dimensions);
	if (!ret)
		ret = select_part(job);
	if (!ret)
		ret = write_all(job);
	return ret || !job->part ? ret : DLP_EXIT_FAILURE;
}

int dlp_report_command(int argc, char **argv)
{
	_cleanup_free_ struct job *job = calloc(1, sizeof(*job));
	char error[400];
	int ret;

	if (!job) {
		dlp_complain("out of memory");
		return DLP_EXIT_FAILURE;
	}
	if (dlp_report_options_parse(argc, argv, &job->options, error, sizeof(error))) {
		dlp_complain("%s", error);
		return DLP_EXIT_USAGE;
	}
	if (job->options.help) {
		dlp_report_options_help(stdout);
		return DLP_EXIT_OK;
	}
	dlp_sanitise(job->shown, sizeof(job->shown), job->options.file, strlen(job->options.file));
	if (dlp_replay_file_open(&job->file, job->options.file, error, sizeof(error))) {
		dlp_complain("'%s': %s", job->shown, error);
		return DLP_EXIT_FAILURE;
	}
	ret = run(job);
	forget(job->report.selection.events);
	forget(job->report.selection.dimensions);
	dlp_history_free(job->history);
	if (job->replay)
		dlp_model_free(job->replay->model);
	free(job->replay);
	dlp_replay_file_close(&job->file);
	return ret;
}
