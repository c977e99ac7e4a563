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
#include "ranks.h"
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

static void complain_events(const struct dlp_options *options, int err)
{
	char shown[256];

	dlp_complain("cannot write '%s': %s",
		     dlp_sanitise(shown, sizeof(shown), options->events, strlen(options->events)),
		     strerror(-err));
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
	complain_events(options, err);
	return -1;
}

enum dlp_exit dlp_run_close_events(const struct dlp_options *options, FILE *events)
{
	int err = events ? dlp_outfile_close(events) : 0;

	if (err)
		complain_events(options, err);
	return err ? DLP_EXIT_FAILURE : DLP_EXIT_OK;
}

/* Every condition that does not leave the run alone is named, whatever comes of the others. */
static enum dlp_exit judge_gates(const struct dlp_observation *observation,
				 const struct dlp_verdict *verdict)
{
	const struct dlp_options *options = observation->options;
	enum dlp_exit ret = DLP_EXIT_OK;
	struct dlp_gate_answer answer;
	char text[256];

	for (size_t i = 0; i < options->gate_cnt; i++) {
		const struct dlp_gate *gate = &options->gate[i];

		dlp_gate_check(gate, observation->model, verdict, observation->facts, &answer);
		if (answer.state == DLP_GATE_CLEAR)
			continue;
		dlp_complain("%s", dlp_gate_say(gate, &answer, text, sizeof(text)));
		if (answer.state == DLP_GATE_CROSSED)
			ret = DLP_EXIT_GATE;
		else if (ret == DLP_EXIT_OK)
			ret = DLP_EXIT_FAILURE;
	}
	return ret;
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
	observation->gated = judge_gates(observation, &verdict);
	return ret;
}

/* The disk's time to take what is left of a recording. */
#define RECORD_CLOSE_NS (5 * DLP_NS_PER_S)

int dlp_run_open(struct dlp_run *run, const char *record)
{
	struct dlp_observation *observation = &run->observation;
	char error[512];

	run->facts = (struct dlp_summary_facts){
		.version = DLP_VERSION,
		.launched_ns = observation->launch ? observation->launch->launched_ns : 0,
	};
	observation->target = &run->target;
	observation->facts = &run->facts;
	observation->gone = false;
	observation->other = 0;
	if (dlp_model_new(&observation->model)) {
		dlp_complain("out of memory");
		return -1;
	}
	if (!record || !dlp_record_open(record, run->target.pid, DLP_VERSION,
					observation->options->record_max, &observation->record,
					error, sizeof(error)))
		return 0;
	dlp_complain("%s", error);
	return -1;
}

/* What the recording lacks is said, and no more: the job and its figures are whole. */
void dlp_run_close(struct dlp_run *run)
{
	char error[512];

	if (dlp_record_close(run->observation.record, RECORD_CLOSE_NS, error, sizeof(error)))
		dlp_complain("%s", error);
	run->observation.record = NULL;
}

int dlp_run_settle(const char *summary, int *summary_fd, const pid_t *pids, size_t cnt)
{
	int err = dlp_privileges_lower();

	if (!err && summary && *summary_fd < 0 && !dlp_wholefile_may(summary)) {
		err = dlp_privileges_raise();
		/* if it cannot be opened, writing will say why */
		if (!err)
			*summary_fd = dlp_wholefile_hold(summary);
	}
	return err ? err : dlp_privileges_settle(pids, cnt);
}

static int settle(struct dlp_observation *observation)
{
	struct dlp_run *run =
		(struct dlp_run *)((char *)observation - offsetof(struct dlp_run, observation));
	int err = dlp_run_settle(observation->options->summary, &run->summary_fd,
				 &observation->target->pid, 1);

	observation->summary_fd = run->summary_fd;
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

	if (dlp_run_open(run, observation->options->record))
		return DLP_EXIT_FAILURE;
	ret = dlp_observe(observation, error, sizeof(error));
	dlp_run_close(run);
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
	pid_t rank[DLP_RANKS_MAX];
	enum dlp_exit ret;
	size_t cnt;

	run->observation.options = options;
	run->observation.events = events;
	prepare(run);
	for (;;) {
		ret = observe_once(run);
		if (!run->observation.other)
			return ret;
		cnt = dlp_trainers_ranks("", run->target.pid, rank, DLP_RANKS_MAX);
		if (cnt > 1) {
			dlp_complain("pid %d (%s) has started %zu training processes: observing all "
				     "of them",
				     (int)run->target.pid, run->target.comm, cnt);
			return dlp_ranks_processes(options, run->observation.launch, rank, cnt,
						   events);
		}
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

/* What --pid names, which may be a shell or a launcher: those have no DataLoader. */
struct meant {
	pid_t pid[DLP_RANKS_MAX]; /* cnt processes to observe */
	size_t cnt;
	struct dlp_target target;  /* the last one that was opened */
	enum dlp_exit refused;	   /* why there is none for the last one that was refused */
};

static void add_meant(struct meant *meant, pid_t pid)
{
	for (size_t i = 0; i < meant->cnt; i++) {
		if (meant->pid[i] == pid)
			return;
	}
	if (meant->cnt < DLP_RANKS_MAX)
		meant->pid[meant->cnt++] = pid;
	else
		dlp_complain("no more than %d processes are observed: pid %d is left out",
			     DLP_RANKS_MAX, (int)pid);
}

static void say_below(pid_t pid, const char *comm, const pid_t *below, size_t cnt)
{
	if (cnt == 1)
		dlp_complain(
			"pid %d (%s) is not the training process: observing pid %d, which it has "
			"started",
			(int)pid, comm, (int)below[0]);
	else
		dlp_complain("pid %d (%s) has started %zu training processes: observing all of them",
			     (int)pid, comm, cnt);
}

static void find_meant(pid_t pid, struct meant *meant)
{
	struct dlp_target_failure failure;
	/* one more than is observed, so that it is said when there are more */
	pid_t below[DLP_RANKS_MAX + 1];
	size_t cnt = 0;
	int err;

	err = dlp_target_open("", pid, &meant->target, &failure);
	if (err ? failure.err == DLP_TARGET_NO_TORCH || failure.err == DLP_TARGET_NOT_PYTHON :
		  dlp_proc_is_launcher("", pid))
		cnt = dlp_trainers_below("", pid, below, DLP_ARRAY_SIZE(below));
	if (cnt)
		say_below(pid, meant->target.comm, below, cnt);
	if (cnt == 1)
		err = dlp_target_open("", below[0], &meant->target, &failure);
	if (err && cnt <= 1) {
		dlp_complain("%s", failure.text);
		meant->refused = dlp_run_refusal(&failure);
		return;
	}
	if (!cnt)
		below[cnt++] = pid;
	for (size_t i = 0; i < cnt; i++)
		add_meant(meant, below[i]);
}

int dlp_profile_process(const struct dlp_options *options)
{
	struct dlp_run run = { .observation = { .out = stdout, .finish = dlp_run_report } };
	struct meant meant = { .cnt = 0 };
	FILE *events = NULL;
	enum dlp_exit ret, closed;

	for (size_t i = 0; i < options->pids.cnt; i++)
		find_meant(options->pids.pid[i], &meant);
	if (!meant.cnt)
		return (int)meant.refused;
	if (dlp_run_check_files(options, "") || dlp_run_open_events(options, &events))
		return DLP_EXIT_FAILURE;
	if (meant.cnt > 1 || meant.target.pid != meant.pid[0]) {
		ret = dlp_ranks_processes(options, NULL, meant.pid, meant.cnt, events);
	} else {
		run.target = meant.target;
		ret = dlp_run_observe(&run, options, events);
		dlp_run_end(&run);
		ret = ret ? ret : run.observation.gated;
	}
	closed = dlp_run_close_events(options, events);
	return (int)(ret ? ret : closed);
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
