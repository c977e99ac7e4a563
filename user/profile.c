/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "profile.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <string.h>
#include <sys/ioctl.h>

#include "diagnose.h"
#include "invoker.h"
#include "log.h"
#include "model.h"
#include "outfile.h"
#include "privileges.h"
#include "proc_role.h"
#include "profile_priv.h"
#include "summary.h"
#include "text.h"
#include "trainers.h"
#include "util.h"
#include "wholefile.h"

#ifndef DLP_VERSION
#error "the Makefile defines DLP_VERSION"
#endif

enum dlp_exit dlp_run_refusal(const struct dlp_target_failure *failure)
{
	return failure->err == DLP_TARGET_DENIED ? DLP_EXIT_UNSUPPORTED : DLP_EXIT_FAILURE;
}

int dlp_run_open_events(const struct dlp_options *options, FILE **ret)
{
	int err;

	*ret = NULL;
	if (!options->events)
		return 0;
	err = dlp_outfile_open(options->events, ret);
	if (!err)
		return 0;
	dlp_complain("cannot write '%s': %s", options->events, strerror(-err));
	return -1;
}

int dlp_run_check_files(const struct dlp_options *options, const char *consequence)
{
	_cleanup_free_ char *copy = options->summary ? strdup(options->summary) : NULL;
	struct dlp_invoker invoker;
	char shown[256];

	/* network file systems may refuse root what they allow the user that we become */
	if (!copy || !access(dirname(copy), W_OK | X_OK) ||
	    (errno == EACCES && dlp_invoker_get(&invoker)))
		return 0;
	dlp_complain("cannot write the summary to '%s': %s%s",
		     dlp_sanitise(shown, sizeof(shown), options->summary, strlen(options->summary)),
		     strerror(errno), consequence);
	return -1;
}

enum dlp_exit dlp_run_report(struct dlp_observation *observation)
{
	const struct dlp_options *options = observation->options;
	enum dlp_exit ret = DLP_EXIT_OK;
	struct dlp_verdict verdict;
	char error[512];

	dlp_diagnose(observation->model, NULL, &verdict);
	/* the file first: whoever reads the screen may be gone */
	if (options->summary &&
	    dlp_summary_write(options->summary, observation->summary_fd, observation->model,
			      &verdict, observation->facts, error, sizeof(error))) {
		dlp_complain("%s", error);
		ret = DLP_EXIT_FAILURE;
	}
	dlp_text_summary(observation->out, observation->model, &verdict, observation->facts);
	fflush(observation->out);
	return ret;
}

/* The disk's time to take what is left of a recording. */
#define RECORD_CLOSE_NS (5 * DLP_NS_PER_S)

static int open_record(struct dlp_run *run, const struct dlp_options *options)
{
	char error[512];

	if (!options->record)
		return 0;
	if (!dlp_record_open(options->record, run->target.pid, DLP_VERSION, options->record_max,
			     &run->observation.record, error, sizeof(error)))
		return 0;
	dlp_complain("%s", error);
	return -1;
}

/* What the recording lacks is said, and no more: the job and its figures are whole. */
static void close_record(struct dlp_run *run)
{
	char error[512];

	if (dlp_record_close(run->observation.record, RECORD_CLOSE_NS, error, sizeof(error)))
		dlp_complain("%s", error);
	run->observation.record = NULL;
}

/*
 * The summary is written when we are nobody but the invoking user: where that user may not, it is
 * opened now.
 */
static int settle(struct dlp_observation *observation)
{
	struct dlp_run *run =
		(struct dlp_run *)((char *)observation - offsetof(struct dlp_run, observation));
	const char *summary = observation->options->summary;
	int err;

	err = dlp_privileges_lower();
	if (!err && summary && observation->summary_fd < 0 && !dlp_wholefile_may(summary)) {
		err = dlp_privileges_raise();
		/* if it cannot be opened, writing will say why */
		if (!err)
			observation->summary_fd = dlp_wholefile_hold(summary);
		run->summary_fd = observation->summary_fd;
	}
	if (!err)
		err = dlp_privileges_settle(observation->target->pid);
	/* not before: the C library gives all threads the new user, or none */
	if (!err && observation->record)
		dlp_record_settle(observation->record);
	return err;
}

static enum dlp_exit observe_once(struct dlp_run *run)
{
	struct dlp_observation *observation = &run->observation;
	char error[512] = "";
	enum dlp_exit ret;

	run->facts = (struct dlp_summary_facts){
		.version = DLP_VERSION,
		.launched_ns = observation->launch ? observation->launch->launched_ns : 0,
	};
	observation->gone = false;
	observation->other = 0;
	if (dlp_model_new(&observation->model)) {
		dlp_complain("out of memory");
		return DLP_EXIT_FAILURE;
	}
	if (open_record(run, observation->options))
		return DLP_EXIT_FAILURE;
	ret = dlp_observe(observation, error, sizeof(error));
	close_record(run);
	if (*error && !(observation->launch && observation->gone))
		dlp_complain("%s", error);
	return ret;
}

/* What only the first observation has the rights for. */
static void prepare(struct dlp_run *run)
{
	if (!run->is_prepared) {
		run->is_prepared = true;
		run->summary_fd = -1;
		/* where it may not be, what the programs cost is not measured */
		(void)dlp_stats_switch_new(&run->stats);
	}
	run->observation.stats = run->stats;
	run->observation.summary_fd = run->summary_fd;
	run->observation.settle = settle;
}

enum dlp_exit dlp_run_observe(struct dlp_run *run, const struct dlp_options *options, FILE *events)
{
	struct dlp_target_failure failure;
	enum dlp_exit ret;

	run->observation.options = options;
	run->observation.target = &run->target;
	run->observation.facts = &run->facts;
	run->observation.events = events;
	prepare(run);
	for (;;) {
		ret = observe_once(run);
		if (!run->observation.other)
			return ret;
		dlp_complain(
			"pid %d (%s) iterates no DataLoader, but pid %d, which it has started, "
			"does: observing that",
			(int)run->target.pid, run->target.comm, (int)run->observation.other);
		dlp_run_fini(run);
		if (dlp_target_open("", run->observation.other, &run->target, &failure)) {
			dlp_complain("%s", failure.text);
			return dlp_run_refusal(&failure);
		}
	}
}

void dlp_run_fini(struct dlp_run *run)
{
	dlp_model_free(run->observation.model);
	run->observation.model = NULL;
}

void dlp_run_end(struct dlp_run *run)
{
	dlp_run_fini(run);
	dlp_stats_switch_free(run->stats);
	if (run->is_prepared)
		dlp_cleanup_close(&run->summary_fd);
}

/*
 * Opens the process that was meant: --pid may name a shell or a launcher, which have no DataLoader.
 * 0, or the exit status, with a complaint.
 */
static int open_meant(pid_t pid, struct dlp_target *target)
{
	struct dlp_target_failure failure;
	char several[128] = "";
	pid_t meant = 0;
	int err;

	err = dlp_target_open("", pid, target, &failure);
	if (err ? failure.err == DLP_TARGET_NO_TORCH || failure.err == DLP_TARGET_NOT_PYTHON :
		  dlp_proc_is_launcher("", pid))
		meant = dlp_trainers_meant("", pid, several, sizeof(several));
	if (*several) {
		dlp_complain(
			"pid %d (%s) has started several training processes: use --pid with one of "
			"%s",
			(int)pid, target->comm, several);
		return DLP_EXIT_FAILURE;
	}
	if (meant) {
		dlp_complain(
			"pid %d (%s) is not the training process: observing pid %d, which it has "
			"started",
			(int)pid, target->comm, (int)meant);
		err = dlp_target_open("", meant, target, &failure);
	}
	if (!err)
		return 0;
	dlp_complain("%s", failure.text);
	return (int)dlp_run_refusal(&failure);
}

int dlp_profile_process(const struct dlp_options *options)
{
	struct dlp_run run = { .observation = { .out = stdout, .finish = dlp_run_report } };
	_cleanup_fclose_ FILE *events = NULL;
	int ret;

	ret = open_meant(options->pid, &run.target);
	if (ret)
		return ret;
	if (dlp_run_check_files(options, "") || dlp_run_open_events(options, &events))
		return DLP_EXIT_FAILURE;
	ret = (int)dlp_run_observe(&run, options, events);
	dlp_run_end(&run);
	return ret;
}

int dlp_profile_list(void)
{
	_cleanup_free_ struct dlp_trainer *trainers = NULL;
	struct winsize size = { 0 };
	size_t cnt;
	int err;

	err = dlp_trainers_find("", 0, &trainers, &cnt);
	if (err) {
		dlp_complain("cannot list the processes: %s", strerror(-err));
		return DLP_EXIT_FAILURE;
	}
	/* whoever reads a pipe wants all of it */
	(void)ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
	if (cnt)
		dlp_trainers_print(stdout, trainers, cnt, size.ws_col);
	else
		dlp_complain("no process found that has loaded torch");
	for (size_t i = 0; i < cnt; i++) {
		if (*trainers[i].refused)
			dlp_complain("%s", trainers[i].refused);
	}
	if (geteuid())
		dlp_complain(
			"only what this user may look into is listed: run as root for the others");
	return DLP_EXIT_OK;
}
