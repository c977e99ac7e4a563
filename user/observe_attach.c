/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* An observation's beginning, from the target to the open window, and its end. */
#include "observe_priv.h"

#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "sysfs.h"
#include "text.h"
#include "util.h"

/* A process that has lost its memory already may take a moment until it counts as ended. */
#define ENDING_MS 500

enum dlp_exit dlp_loop_failed(struct dlp_loop *loop, int err, char *error, size_t error_size)
{
	loop->ob->gone = err == -ESRCH;
	if (err == -ESRCH)
		snprintf(error, error_size, "process %d is gone", loop->ob->target->pid);
	else
		snprintf(error, error_size, "observation failed: %s", strerror(-err));
	return DLP_EXIT_FAILURE;
}

static int limit_label(void *ctx, uint32_t label, uint32_t every)
{
	struct dlp_loop *loop = ctx;

	return dlp_session_label(loop->session, label, every);
}

static int init(struct dlp_loop *loop)
{
	const struct dlp_options *options = loop->ob->options;
	pid_t pid = loop->ob->target->pid;
	int err;

	err = dlp_live_new(options->window_ns, options->interval_ns, &loop->live);
	if (!err)
		err = dlp_jobs_new("", pid, &loop->jobs);
	if (!err)
		err = dlp_sysfacts_new("", pid, &loop->sysfacts);
	if (!err)
		err = dlp_labels_new(options->labels, options->label_cnt, limit_label, loop,
				     &loop->labels);
	return err;
}

static enum dlp_exit session_failed(const struct dlp_session_failure *failure, char *error,
				    size_t error_size)
{
	snprintf(error, error_size, "%s", failure->text);
	return failure->unsupported ? DLP_EXIT_UNSUPPORTED : DLP_EXIT_FAILURE;
}

enum dlp_exit dlp_loop_load(struct dlp_loop *loop, char *error, size_t error_size)
{
	const struct dlp_options *options = loop->ob->options;
	struct dlp_session_opts opts = {
		.target = loop->ob->target,
		.without = options->without,
		.long_wait_ns = options->long_wait_ns,
		.getnext = &options->getnext,
		.ring_bytes = options->ring_bytes,
		.stats = loop->ob->stats,
	};
	struct dlp_session_failure failure;
	int err;

	err = init(loop);
	if (err)
		return dlp_loop_failed(loop, err, error, error_size);
	if (dlp_session_open(&opts, &loop->session, &failure))
		return session_failed(&failure, error, error_size);
	/* loading leaves megabytes of type information behind */
	malloc_trim(0);
	return DLP_EXIT_OK;
}

/* The figures of the summary depend on these; without the others only detail is missing. */
static bool figures_need(enum dlp_feature feature)
{
	return feature == DLP_FEATURE_SCOPES || feature == DLP_FEATURE_CLOCKS ||
	       feature == DLP_FEATURE_CLOCK_ITER || feature == DLP_FEATURE_PROCESS;
}

static void describe(struct dlp_loop *loop)
{
	static const char *const scope_rungs[] = {
		[DLP_SCOPE_KIND_NONE] = NULL,
		[DLP_SCOPE_KIND_A] = "pair A",
		[DLP_SCOPE_KIND_B] = "operator dispatch (B)",
		[DLP_SCOPE_KIND_C] = "pair C",
	};
	struct dlp_summary_facts *facts = loop->ob->facts;
	uint32_t active;

	dlp_session_info(loop->session, &loop->info);
	active = loop->info.active;
	facts->target = loop->ob->target;
	facts->scope_probe_cnt = loop->info.scope_probe_cnt;
	if (active & DLP_FEATURE_BIT(SCOPES))
		facts->scope_rung = scope_rungs[loop->ob->target->scope_kind];
	if (active & DLP_FEATURE_BIT(QUEUE_UPROBE))
		facts->queue_rung = "uprobes";
	else if (active & DLP_FEATURE_BIT(QUEUE_SYSCALL))
		facts->queue_rung = "system calls";
	if (active & DLP_FEATURE_BIT(CLOCKS))
		facts->clock_rung = active & DLP_FEATURE_BIT(TASK_STORAGE) ? "task storage" : "hash";
	facts->block_seen = active & DLP_FEATURE_BIT(BLOCK);
	facts->waits_seen = active & DLP_FEATURE_BIT(WAITS);
	facts->process_seen = active & DLP_FEATURE_BIT(PROCESS);
	facts->cpus = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);
	facts->device_name = dlp_sysfs_block_name;
	for (int i = 0; i < DLP_FEATURE_MAX; i++) {
		bool left_out = loop->ob->options->without & (1u << i);

		/* the second rung is missed only when the first is missing too */
		if (i == DLP_FEATURE_QUEUE_SYSCALL && active & DLP_FEATURE_BIT(QUEUE_UPROBE))
			continue;
		if (active & (1u << i) || (!left_out && !loop->info.refused[i][0]))
			continue;
		loop->ob->missing[facts->missing_cnt].name = dlp_feature_name(i);
		loop->ob->missing[facts->missing_cnt].figures = figures_need(i);
		facts->missing_cnt++;
	}
	facts->missing = loop->ob->missing;
}

static bool target_gone(const struct dlp_loop *loop, int timeout_ms)
{
	struct pollfd target = { .fd = loop->target_fd, .events = POLLIN };

	return poll(&target, 1, timeout_ms) == 1;
}

enum dlp_exit dlp_loop_attach(struct dlp_loop *loop, char *error, size_t error_size)
{
	struct dlp_session_failure failure;
	int err;

	err = dlp_jobs_scan(loop->jobs, dlp_loop_add_process, loop);
	if (err)
		return dlp_loop_failed(loop, err, error, error_size);
	if (dlp_session_attach(loop->session, &failure)) {
		/* without the target's mappings there is nothing to probe: that is not the kernel's fault */
		if (target_gone(loop, ENDING_MS))
			return dlp_loop_failed(loop, -ESRCH, error, error_size);
		return session_failed(&failure, error, error_size);
	}
	/* what we are attached to may be another process of that number */
	if (target_gone(loop, 0))
		return dlp_loop_failed(loop, -ESRCH, error, error_size);
	describe(loop);
	if (loop->ob->record)
		dlp_record_facts(loop->ob->record, loop->ob->facts);
	err = dlp_loop_open_window(loop);
	if (err)
		return dlp_loop_failed(loop, err, error, error_size);
	if (!loop->screen) {
		dlp_text_attached(loop->ob->out, loop->ob->facts, dlp_jobs_workers(loop->jobs));
		fflush(loop->ob->out);
	}
	return DLP_EXIT_OK;
}

void dlp_loop_fini(struct dlp_loop *loop)
{
	/* probes first: the target is not ours */
	dlp_session_free(loop->session);
	dlp_jobs_free(loop->jobs);
	dlp_live_free(loop->live);
	dlp_sysfacts_free(loop->sysfacts);
	dlp_labels_free(loop->labels);
	dlp_cleanup_close(&loop->epoll_fd);
	dlp_cleanup_close(&loop->signal_fd);
	dlp_cleanup_close(&loop->target_fd);
}
