/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Tells whoever watches the model about a GetNext call. */
#include "model_priv.h"

void dlp_watch_call(const struct dlp_model *model, const struct dlp_iterator *it,
		    const struct dlp_call *call, bool data)
{
	const struct dlp_call_note note = {
		.loader = it->loader,
		.iterator = it->id,
		.tid = call->tid,
		.start_ns = call->start_ns,
		.end_ns = dlp_max(call->end_ns, call->start_ns),
		.split = call->split,
		.data = data,
		.plain = !it->pipe,
		.outer = call->outer,
		.counts = call->counts,
		.first = !it->state->calls,
	};

	model->watch->call(model->watch_ctx, &note);
}
