/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "history_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static int sink(void *ctx, const void *event, size_t bytes)
{
	struct history_run *run = ctx;
	int err = dlp_model_apply(run->model, event, bytes);

	return err ? err : dlp_history_apply(run->history, event, bytes);
}

void history_run(struct history_run *run, struct scn *scn, const struct scn_view *view)
{
	run->scn = scn;
	assert_int_equal(dlp_model_new(&run->model), 0);
	assert_int_equal(dlp_history_new(&run->history, run->model), 0);
	assert_int_equal(scn_feed(scn, view, sink, run), 0);
	assert_int_equal(dlp_history_finish(run->history, NULL), 0);
}

void history_run_free(struct history_run *run)
{
	dlp_history_free(run->history);
	dlp_model_free(run->model);
	scn_free(run->scn);
}

void history_run_scope(struct scn *scn, uint32_t tid, uint64_t start_ns, uint64_t end_ns,
		       uint32_t label, const char *text)
{
	struct dlp_ev_scope scope = {
		.hdr = { .size = sizeof(scope), .kind = DLP_EV_SCOPE, .ts_ns = end_ns, .tgid = tid,
			 .tid = tid },
		.start_ns = start_ns,
		.label = label,
		.weight = 1,
	};
	struct dlp_ev_label ev = {
		.hdr = { .size = sizeof(ev), .kind = DLP_EV_LABEL, .ts_ns = start_ns, .tgid = tid,
			 .tid = tid },
		.label = label,
	};

	if (text) {
		memcpy(ev.text, text, strnlen(text, sizeof(ev.text)));
		scn_event(scn, &ev, sizeof(ev));
	}
	scn_event(scn, &scope, sizeof(scope));
}
