/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model_check.h"

static void label(struct scn *scn, uint32_t id, const char *text)
{
	struct dlp_ev_label ev = {
		.hdr = { .size = sizeof(ev), .kind = DLP_EV_LABEL, .ts_ns = scn_now(scn),
			 .tgid = SCN_TRAINER, .tid = SCN_TRAINER },
		.label = id,
		.flags = DLP_SCOPE_GETNEXT,
	};

	memcpy(ev.text, text, strlen(text));
	scn_event(scn, &ev, sizeof(ev));
}

void scn_labels(struct scn *scn)
{
	label(scn, LABEL_MULTI, "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__");
	label(scn, LABEL_SINGLE, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__");
	label(scn, LABEL_OWN, "own: next");
}

static void on_delivery(void *ctx, const struct dlp_delivery *delivery)
{
	struct run *run = ctx;

	if (run->got_cnt == run->got_room) {
		run->got_room = run->got_room * 2 + 64;
		run->got = realloc(run->got, run->got_room * sizeof(*run->got));
		assert_non_null(run->got);
	}
	run->got[run->got_cnt] = *delivery;
	run->got[run->got_cnt++].batch = NULL;
}

int run_sink(void *ctx, const void *event, size_t bytes)
{
	struct run *run = ctx;
	int err = dlp_model_apply(run->model, event, bytes);

	/* what it holds stays within bounds after every single event */
	assert_true(run->model->loader_cnt <= DLP_MODEL_LOADERS_MAX);
	assert_true(run->model->iterator_cnt <= DLP_MODEL_ITERATORS_MAX);
	assert_true(run->model->worker_cnt <= DLP_MODEL_WORKERS_MAX);
	assert_true(run->model->thread_cnt <= DLP_MODEL_THREADS_MAX);
	return err;
}

void run_model(struct run *run, struct scn *scn, const struct scn_view *view)
{
	memset(run, 0, sizeof(*run));
	run->scn = scn;
	run->view = *view;
	assert_int_equal(dlp_model_new(&run->model), 0);
	run->model->on_delivery = on_delivery;
	run->model->on_delivery_ctx = run;
	assert_int_equal(scn_feed(scn, view, run_sink, run), 0);
}

void run_done(struct run *run)
{
	dlp_model_free(run->model);
	free(run->got);
}

void run_free(struct run *run)
{
	run_done(run);
	scn_free(run->scn);
}

static const struct dlp_delivery *got_at(const struct run *run, const struct scn_call *call)
{
	for (size_t i = 0; i < run->got_cnt; i++) {
		if (run->got[i].end_ns == call->end_ns && run->got[i].tid == call->tid)
			return &run->got[i];
	}
	return NULL;
}

struct match run_match(const struct run *run)
{
	const struct scn_call *call;
	size_t cnt = scn_calls(run->scn, &call);
	struct match match = { 0 };

	for (size_t i = 0; i < cnt; i++) {
		const struct dlp_delivery *got;

		if (call[i].end_ns < run->model->start_ns || call[i].end_ns > run->model->end_ns)
			continue;
		got = got_at(run, &call[i]);
		if (!call[i].data) {
			match.extra += !!got;
			continue;
		}
		match.calls++;
		if (!got)
			match.missing++;
		else if (got->index == call[i].index && got->worker_pid == call[i].worker_pid)
			match.right++;
		else if (got->index < 0 || (got->index == call[i].index && !got->worker_pid))
			match.unknown++;
		else
			match.wrong++;
	}
	return match;
}

void check_exact(const struct run *run)
{
	struct match match = run_match(run);

	assert_true(match.calls > 0);
	assert_int_equal(match.wrong, 0);
	assert_int_equal(match.unknown, 0);
	assert_int_equal(match.missing, 0);
	assert_int_equal(match.extra, 0);
	assert_int_equal(match.right, match.calls);
}

static void assert_near(uint64_t a, uint64_t b, uint64_t by)
{
	if ((a > b ? a - b : b - a) > by)
		fail_msg("%llu is not within %llu of %llu", (unsigned long long)a,
			 (unsigned long long)by, (unsigned long long)b);
}

void check_main(const struct run *run)
{
	const struct dlp_model *model = run->model;
	const struct scn_call *call;
	size_t cnt = scn_calls(run->scn, &call);
	uint64_t exposed = 0, calls = 0, inside = 0, all = 0;

	for (size_t i = 0; i < cnt; i++) {
		uint64_t from = call[i].start_ns > model->start_ns ? call[i].start_ns :
								    model->start_ns;
		uint64_t to = call[i].end_ns < model->end_ns ? call[i].end_ns : model->end_ns;

		exposed += to > from ? to - from : 0;
		calls += call[i].end_ns >= model->start_ns && call[i].end_ns <= model->end_ns;
	}
	assert_int_equal(model->main_tid, SCN_TRAINER);
	assert_int_equal(model->getnext_cnt, calls);
	/* the last reading is a little older than the end of the window */
	assert_near(model->exposed_ns, exposed, run->view.no_clocks ? 0 : 2 * 300 * US);
	for (int s = 0; s < DLP_ST_MAX; s++) {
		inside += model->main_inside.ns[s];
		all += model->main_inside.ns[s] + model->main_outside.ns[s];
	}
	assert_near(inside, exposed, 700 * US);
	if (!run->view.no_clocks) {
		assert_true(model->main_valid);
		assert_near(all, model->end_ns - model->start_ns, US);
	}
}

void check_workers(const struct run *run)
{
	for (size_t i = 0; i < run->model->worker_cnt; i++) {
		const struct dlp_worker *worker = &run->model->workers[i];
		const struct dlp_thread *thread = dlp_model_thread(run->model, worker->pid);
		uint64_t sum = 0;

		assert_true(worker->clock_valid);
		for (int s = 0; s < DLP_ST_MAX; s++)
			sum += worker->clock.ns[s];
		assert_int_equal(sum, worker->window_ns);
		assert_true(worker->window_ns > 0);
		/* numbers of dead ones may have been given again: only the newest is comparable */
		if (!thread || dlp_model_worker(run->model, worker->pid) != worker)
			continue;
		for (int s = 0; s < DLP_ST_MAX; s++)
			assert_int_equal(worker->clock.ns[s],
					 scn_state_ns(run->scn, worker->pid, (enum dlp_state)s,
						      thread->base_ns, thread->read_ns));
		assert_int_equal(worker->cpu_ns, worker->clock.ns[DLP_ST_RUN]);
	}
}

/* The parts, in the order of the two structs. */
static const struct {
	const char *name;
	size_t truth, told;
} parts[] = {
#define PART(part) \
	{ #part, offsetof(struct scn_spent, part##_ns), offsetof(struct dlp_loader_sums, part##_ns) }
	PART(boot), PART(produce), PART(transfer), PART(handover), PART(behind),
	PART(own),  PART(lack),	   PART(gil),	   PART(closing),  PART(held),
#undef PART
};

static uint64_t field(const void *base, size_t offset)
{
	return *(const uint64_t *)((const char *)base + offset);
}

/* Of calls that ended in the window; what came before it left out, spread evenly. */
static uint64_t spent_truth(const struct run *run, uint64_t iters, size_t part, uint64_t *calls)
{
	const struct dlp_model *model = run->model;
	const struct scn_call *call;
	size_t cnt = scn_calls(run->scn, &call);
	uint64_t sum = 0;

	*calls = 0;
	for (size_t i = 0; i < cnt; i++) {
		double ns = (double)field(&call[i].spent, parts[part].truth);
		double inside = 1;

		if (call[i].end_ns < model->start_ns || call[i].end_ns > model->end_ns ||
		    !(iters >> (call[i].iter - 1) & 1))
			continue;
		if (call[i].start_ns < model->start_ns)
			inside = (double)(call[i].end_ns - model->start_ns) /
				 (double)(call[i].end_ns - call[i].start_ns);
		sum += (uint64_t)(ns * inside);
		(*calls)++;
	}
	return sum;
}

void check_sums(const struct dlp_loader_sums *sums)
{
	uint64_t parts_ns = sums->produce_ns + sums->boot_ns + sums->transfer_ns +
			    sums->handover_ns + sums->closing_ns + sums->behind_ns + sums->own_ns +
			    sums->lack_ns + sums->gil_ns;

	/* each call's parts are rounded down */
	assert_near(parts_ns, sums->getnext_ns, 10 * sums->calls);
	assert_true(sums->held_ns <= sums->produce_ns);
	assert_true(sums->idle_full_ns + sums->idle_wait_ns <= sums->made.ns[DLP_ST_IDLE]);
}

void check_spent(const struct run *run, uint32_t loader, uint64_t iters, uint64_t per_call_ns,
		 double share)
{
	const struct dlp_loader_sums *sums = &run->model->loaders[loader - 1].sums;

	uint64_t by_ns = per_call_ns * sums->calls + (uint64_t)(share * (double)sums->getnext_ns);

	check_sums(sums);
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		uint64_t calls, truth = spent_truth(run, iters, i, &calls);
		uint64_t told = field(sums, parts[i].told);

		assert_int_equal(sums->calls, calls);
		if ((truth > told ? truth - told : told - truth) > by_ns)
			fail_msg("%s is %llu us, not %llu us, in %llu calls", parts[i].name,
				 (unsigned long long)(told / US), (unsigned long long)(truth / US),
				 (unsigned long long)calls);
	}
}

void check_idle(const struct run *run, uint32_t loader, uint64_t iters, uint64_t by_ns)
{
	const struct dlp_loader_sums *sums = &run->model->loaders[loader - 1].sums;
	struct scn_idle truth;

	scn_idle(run->scn, iters, run->model->start_ns, run->model->end_ns, &truth);
	assert_near(sums->idle_full_ns, truth.full_ns, by_ns);
	assert_near(sums->idle_wait_ns, truth.wait_ns, by_ns);
	assert_near(sums->idle_full_ns + sums->idle_wait_ns, sums->made.ns[DLP_ST_IDLE], by_ns);
}

void check_room(const struct run *run)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < run->model->loader_cnt; i++) {
		const struct dlp_loader_sums *sums = &run->model->loaders[i].sums;

		check_sums(sums);
		sum += sums->init_ns + sums->teardown_ns + sums->getnext_ns;
	}
	assert_true(sum <= run->model->end_ns - run->model->start_ns);
}

void check_made(const struct run *run)
{
	const struct dlp_model *model = run->model;
	uint64_t made = 0, lives = 0;

	for (size_t i = 0; i < model->loader_cnt; i++) {
		for (int s = 0; s < DLP_ST_MAX; s++)
			made += model->loaders[i].sums.made.ns[s] +
				model->loaders[i].sums.boot.ns[s];
	}
	/* readings begin a little before the window opens */
	lives = scn_lives(run->scn, model->start_ns - MS, model->end_ns);
	if (made > lives)
		fail_msg("%llu us of work in lives of %llu us", (unsigned long long)(made / US),
			 (unsigned long long)(lives / US));
}
