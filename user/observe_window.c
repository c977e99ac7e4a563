/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What happens in the window of an observation: its events, its intervals, its end. */
#include "observe_priv.h"

#include <errno.h>
#include <unistd.h>

#include "decode.h"
#include "diagnose.h"
#include "proc_role.h"
#include "text.h"
#include "util.h"
#include "version.h"

/* The kernel's program statistics are on for the first of so many intervals (about 50 ns a run). */
#define SAMPLE_EVERY 10
/* Calls that an interval's own verdict needs; with fewer it looks back further. */
#define LIVE_CALLS 3

static uint64_t timeval_ns(const struct timeval *tv)
{
	return (uint64_t)tv->tv_sec * DLP_NS_PER_S + (uint64_t)tv->tv_usec * DLP_NS_PER_US;
}

/* Is it another process than the target that trains? */
static void look_for_other(struct dlp_loop *loop, const struct dlp_ev_hdr *hdr)
{
	const struct dlp_target *target = loop->ob->target;
	pid_t trainer;

	if (hdr->kind != DLP_EV_SCOPE || !(hdr->flags & DLP_SCOPE_GETNEXT) ||
	    hdr->tgid == (uint32_t)target->pid || hdr->tgid == loop->nested_tgid ||
	    loop->ob->model->getnext_cnt || loop->stop)
		return;
	if (dlp_proc_trainer_of("", (pid_t)hdr->tgid, dlp_version_at_least(&target->torch, 2, 5),
				&trainer))
		return;
	if (trainer) {
		loop->nested_tgid = hdr->tgid;
		return;
	}
	loop->ob->other = (pid_t)hdr->tgid;
	loop->stop = true;
}

/* Every event, whoever made it, goes through here; a recording gets what the model gets. */
static int take(void *ctx, const void *data, size_t bytes)
{
	struct dlp_loop *loop = ctx;
	union dlp_event_room room;
	const struct dlp_ev_hdr *hdr;
	int err;

	if (!dlp_event_check(data, bytes, &room, &hdr)) {
		if (loop->end_ns && hdr->ts_ns > loop->end_ns)
			return 0;
		if (!dlp_labels_apply(loop->labels, hdr))
			return 0;
		dlp_jobs_apply(loop->jobs, hdr);
		look_for_other(loop, hdr);
		if (loop->ob->events)
			dlp_event_print(loop->ob->events, hdr);
	}
	if (loop->ob->record)
		dlp_record_event(loop->ob->record, data, bytes);
	err = dlp_model_apply(loop->ob->model, data, bytes);
	/* malformed and unknown events are counted by the model; only memory ends the run */
	return err == -ENOMEM ? err : 0;
}

int dlp_loop_add_process(void *ctx, pid_t pid, const struct dlp_interpreter *python)
{
	struct dlp_loop *loop = ctx;

	/* a full table is counted by the programs as well; the others are still observed */
	(void)dlp_session_add(loop->session, pid, python);
	return 0;
}

static int emit_window(struct dlp_loop *loop, uint32_t phase, uint64_t now_ns)
{
	struct dlp_ev_window event = {
		.hdr = { .size = sizeof(event), .kind = DLP_EV_WINDOW, .ts_ns = now_ns,
			 .tgid = (uint32_t)loop->ob->target->pid },
		.realtime_ns = dlp_realtime_ns(),
		.phase = phase,
	};

	return take(loop, &event, sizeof(event));
}

static int emit_counters(struct dlp_loop *loop)
{
	struct dlp_ev_counters event = {
		.hdr = { .size = sizeof(event), .kind = DLP_EV_COUNTERS, .ts_ns = dlp_now_ns(),
			 .tgid = (uint32_t)loop->ob->target->pid },
	};
	struct rusage usage;

	dlp_session_counters(loop->session, &event);
	if (!getrusage(RUSAGE_SELF, &usage))
		event.daemon_cpu_ns = timeval_ns(&usage.ru_utime) + timeval_ns(&usage.ru_stime) -
				      timeval_ns(&loop->usage_start.ru_utime) -
				      timeval_ns(&loop->usage_start.ru_stime);
	event.daemon_rss_bytes = dlp_resident_bytes();
	if (loop->ob->record)
		event.value[DLP_CNT_RECORDING_LOST] = dlp_record_lost(loop->ob->record);
	return take(loop, &event, sizeof(event));
}

static int emit_system(struct dlp_loop *loop)
{
	struct dlp_ev_system event;

	dlp_sysfacts_read(loop->sysfacts, dlp_now_ns(), &event);
	loop->ob->facts->cpus_allowed = event.cpus_allowed;
	return take(loop, &event, sizeof(event));
}

int dlp_loop_gather(struct dlp_loop *loop)
{
	int err;

	err = dlp_session_consume(loop->session, take, loop);
	if (err < 0)
		return err;
	err = dlp_jobs_report(loop->jobs, dlp_now_ns(), take, dlp_loop_add_process, loop);
	if (err)
		return err;
	err = emit_system(loop);
	if (err)
		return err;
	err = emit_counters(loop);
	if (err)
		return err;
	err = dlp_session_samples(loop->session, take, loop);
	if (err == -ENOMEM)
		return err;
	err = dlp_session_sweep(loop->session, take, loop);
	return err == -ENOMEM ? err : 0;
}

int dlp_loop_read(struct dlp_loop *loop)
{
	int n = dlp_session_consume(loop->session, take, loop);

	if (n < 0)
		return n;
	return !loop->stop && dlp_sysfacts_shm_falls(loop->sysfacts) ? emit_system(loop) : 0;
}

static void say_interval(struct dlp_loop *loop)
{
	struct dlp_verdict verdict;

	if (loop->ob->options->quiet)
		return;
	dlp_live_verdict(loop->live, loop->ob->model, &verdict);
	if (loop->screen) {
		dlp_screen_interval(loop->screen, loop->ob->model, &verdict);
	} else {
		if (loop->ob->rank)
			fprintf(loop->ob->out, "%-8s", loop->ob->rank);
		dlp_text_interval(loop->ob->out, loop->ob->model, &verdict);
		fflush(loop->ob->out);
	}
}

int dlp_loop_end_interval(struct dlp_loop *loop)
{
	int err;

	err = dlp_loop_gather(loop);
	if (!err)
		err = dlp_govern_interval(&loop->govern, take, loop);
	if (!err)
		err = emit_window(loop, 1, dlp_now_ns());
	if (err)
		return err;
	loop->interval_cnt++;
	dlp_session_sample(loop->session, loop->interval_cnt % SAMPLE_EVERY == 0 ||
						  dlp_governor_alert(&loop->govern.governor));
	dlp_session_pace(loop->session);
	say_interval(loop);
	return 0;
}

/* Everything up to the opening of the window. */
int dlp_loop_open_window(struct dlp_loop *loop)
{
	int err;

	/* once more: a process born before the fork program was attached is not lost */
	err = dlp_jobs_scan(loop->jobs, dlp_loop_add_process, loop);
	if (err)
		return err;
	getrusage(RUSAGE_SELF, &loop->usage_start);
	/* takes the kernel some milliseconds on a busy machine: not between a reading and the window */
	dlp_session_sample(loop->session, true);
	/* the first sweep gives every thread its clock, later ones read it */
	err = dlp_loop_gather(loop);
	if (err)
		return err;
	err = emit_window(loop, 0, dlp_now_ns());
	if (err)
		return err;
	loop->govern.session = loop->session;
	loop->govern.labels = loop->labels;
	loop->govern.jobs = loop->jobs;
	return dlp_govern_open(&loop->govern, loop->ob->options->max_overhead_ppm, take, loop);
}

/*
 * The window ends at a moment after which the ring is read once more, so that every call that
 * ended before it is counted, and none that ended after.
 */
int dlp_loop_close_window(struct dlp_loop *loop)
{
	const struct dlp_interval_stats *last = &loop->ob->model->interval;
	int err;

	err = dlp_loop_gather(loop);
	if (err)
		return err;
	loop->end_ns = dlp_now_ns();
	err = dlp_session_consume(loop->session, take, loop);
	if (err < 0)
		return err;
	err = emit_window(loop, 2, loop->end_ns);
	/* the figures of the unfinished interval say something only when it was long enough */
	if (!err && !loop->screen &&
	    last->end_ns - last->start_ns >= loop->ob->options->interval_ns / 2)
		say_interval(loop);
	/* once more: some facts change while we watch */
	if (loop->ob->record)
		dlp_record_facts(loop->ob->record, loop->ob->facts);
	return err;
}
