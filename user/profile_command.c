/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A command that we start: wait until it, or something it has started, loads torch, observe that
 * process, and be the command to whoever waits for us.
 */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "diagnose.h"
#include "finder.h"
#include "kernel.h"
#include "launch.h"
#include "log.h"
#include "model.h"
#include "profile.h"
#include "profile_priv.h"
#include "rank_env.h"
#include "ranks.h"
#include "util.h"

/*
 * How often its family is looked at: a process between the mapping of torch and the end of its
 * import is in that state for about a second, and a look costs 0.1 to 1 ms.
 */
#define LOOK_MS 50
#define LOOK_LATER_MS 100
#define LATER_NS (30 * DLP_NS_PER_S)

struct watch {
	struct dlp_run run;
	const struct dlp_options *options;
	struct dlp_launch launch;
	struct dlp_finder finder;
	uint64_t realtime_ns; /* at launch.launched_ns */
	FILE *events;
	bool put_off;	       /* run holds a closed window that has not been reported */
	bool came_late;	       /* a process had ended before it could be observed */
	enum dlp_exit refused; /* of a process with torch; 0 = none was */
};

static struct watch *watch_of(struct dlp_observation *observation)
{
	return (struct watch *)((char *)observation - offsetof(struct watch, run.observation));
}

/*
 * Scripts load torch for a moment to ask for its version, and programs that start the trainer have
 * it too: a process that has ended without a batch is not the last word while the command runs.
 */
static enum dlp_exit finish(struct dlp_observation *observation)
{
	struct watch *watch = watch_of(observation);
	const struct dlp_model *model = observation->model;
	uint64_t duration_ns = watch->options->duration_ns;
	bool is_over = duration_ns && model->end_ns - model->start_ns >= duration_ns;

	if (model->getnext_cnt || model->loader_cnt || is_over ||
	    dlp_launch_ended(&watch->launch, 0))
		return dlp_run_report(observation);
	watch->put_off = true;
	return DLP_EXIT_OK;
}

/* True when nothing is left to look for. */
static bool observe(struct watch *watch, const struct dlp_target *target, enum dlp_exit *ret)
{
	struct dlp_run *run = &watch->run;

	dlp_run_fini(run);
	watch->put_off = false;
	run->target = *target;
	run->observation = (struct dlp_observation){
		/* stdout is the command's */
		.out = stderr,
		.launch = &watch->launch,
		.finish = finish,
	};
	*ret = dlp_run_observe(run, watch->options, watch->events);
	if (run->observation.gone)
		watch->came_late = true;
	else if (!watch->put_off)
		return true;
	/* it may have turned into the process that trains instead */
	dlp_finder_drop(&watch->finder, target->pid);
	dlp_finder_drop(&watch->finder, run->target.pid);
	*ret = DLP_EXIT_OK;
	return false;
}

static int apply_window(struct dlp_model *model, const struct watch *watch, uint32_t phase,
			uint64_t ts_ns)
{
	struct dlp_ev_window event = {
		.hdr = { .size = sizeof(event),
			 .kind = DLP_EV_WINDOW,
			 .ts_ns = ts_ns,
			 .tgid = (uint32_t)watch->launch.pid },
		.realtime_ns = watch->realtime_ns,
		.phase = phase,
	};

	return dlp_model_apply(model, &event, sizeof(event));
}

static void name_command(const struct watch *watch, struct dlp_target *target)
{
	char line[sizeof(target->cmdline)] = "";
	size_t len = 0;

	for (char **word = watch->options->command; *word && len < sizeof(line) - 1; word++) {
		(void)snprintf(line + len, sizeof(line) - len, "%s%s", len ? " " : "", *word);
		len = strlen(line);
	}
	dlp_sanitise(target->cmdline, sizeof(target->cmdline), line, sizeof(line));
	target->pid = watch->launch.pid;
}

/* A script finds a valid summary, which says that there was nothing to observe. */
static enum dlp_exit write_nothing(const struct watch *watch, const char *why)
{
	const struct dlp_missing missing = { .name = "torch", .figures = true };
	struct dlp_target target = { 0 };
	struct dlp_summary_facts facts = {
		.version = DLP_VERSION,
		.target = &target,
		.launched_ns = watch->launch.launched_ns,
		.missing = &missing,
		.missing_cnt = 1,
	};
	struct dlp_model *model = NULL;
	struct dlp_verdict verdict;
	char error[512] = "out of memory";
	int err;

	name_command(watch, &target);
	err = dlp_model_new(&model);
	if (!err)
		err = apply_window(model, watch, 0, watch->launch.launched_ns);
	if (!err)
		err = apply_window(model, watch, 2, dlp_now_ns());
	if (!err) {
		dlp_diagnose(model, NULL, &verdict);
		(void)snprintf(verdict.text, sizeof(verdict.text), "The %s.", why);
		err = dlp_summary_write(watch->options->summary, -1, model, &verdict, &facts, error,
					sizeof(error));
	}
	dlp_model_free(model);
	if (!err)
		return DLP_EXIT_OK;
	dlp_complain("%s", error);
	return DLP_EXIT_FAILURE;
}

/* The command has ended, and no window was reported. */
static enum dlp_exit conclude(struct watch *watch)
{
	const struct dlp_target_failure *pending = &watch->finder.pending;
	const char *why =
		watch->came_late ?
			"command ended before the process that had loaded torch could be "
			"observed" :
			"command ended without loading torch: there was nothing to observe";

	if (watch->put_off)
		return dlp_run_report(&watch->run.observation);
	if (watch->options->gate_cnt) {
		dlp_complain("gate not decided: nothing was observed (--fail-if)");
		watch->run.observation.gated = DLP_EXIT_FAILURE;
	}
	if (watch->refused)
		return watch->refused;
	if (pending->err) {
		dlp_complain("%s", pending->text);
		return dlp_run_refusal(pending);
	}
	dlp_complain("the %s", why);
	return watch->options->summary ? write_nothing(watch, why) : DLP_EXIT_OK;
}

static enum dlp_exit follow(struct watch *watch)
{
	struct dlp_target_failure failure;
	struct dlp_rank_env env;
	struct dlp_target target;
	enum dlp_exit ret;
	uint64_t age_ns;

	do {
		uint64_t now = dlp_now_ns();

		age_ns = now - watch->launch.launched_ns;
		switch (dlp_finder_look(&watch->finder, now, &target, &failure)) {
		case DLP_FOUND_TRAINER:
			dlp_rank_env_get("", target.pid, &env);
			if (env.local_size > 1)
				return dlp_ranks_command(watch->options, &watch->launch,
							 &watch->finder, &target, watch->events);
			if (observe(watch, &target, &ret))
				return ret;
			break;
		case DLP_FOUND_REFUSED:
			dlp_complain("%s", failure.text);
			watch->refused = dlp_run_refusal(&failure);
			break;
		case DLP_FOUND_NOTHING:
			break;
		}
	} while (!dlp_launch_ended(&watch->launch, age_ns < LATER_NS ? LOOK_MS : LOOK_LATER_MS));
	return conclude(watch);
}

/* What can be known before is not found out hours into the job. 0, or the exit status. */
static int check_before(const struct dlp_options *options)
{
	dlp_kernel_quiet_libbpf();
	if (!dlp_kernel_permits()) {
		dlp_complain("no permission to load BPF programs: " DLP_KERNEL_PERMISSION
			     "; the command was not started");
		return DLP_EXIT_UNSUPPORTED;
	}
	return dlp_run_check_files(options, "; the command was not started") ? DLP_EXIT_FAILURE : 0;
}

int dlp_profile_command(const struct dlp_options *options)
{
	struct watch watch = { .options = options, .finder = { .root = "" } };
	char error[512];
	enum dlp_exit ret, closed;
	int status;

	status = check_before(options);
	if (status)
		return status;
	if (dlp_run_open_events(options, &watch.events))
		return DLP_EXIT_FAILURE;
	watch.realtime_ns = dlp_realtime_ns();
	status = dlp_launch_start(options->command, &watch.launch, error, sizeof(error));
	if (status) {
		dlp_complain("%s", error);
		(void)dlp_run_close_events(options, watch.events);
		return status;
	}
	/* a reader of stderr that goes away must not take the command's exit status with it */
	signal(SIGPIPE, SIG_IGN);
	watch.finder.command = watch.launch.pid;
	ret = follow(&watch);
	dlp_run_end(&watch.run);
	status = dlp_launch_finish(&watch.launch);
	closed = dlp_run_close_events(options, watch.events);
	if (ret == DLP_EXIT_OK)
		ret = closed;
	if (ret != DLP_EXIT_OK)
		return (int)ret;
	/* a command that has failed is the news, whatever its figures */
	return status ? status : (int)watch.run.observation.gated;
}
