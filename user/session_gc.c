/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The samples of the job's own threads: where the collector lies, and what was counted. */
#include <errno.h>
#include <string.h>

#include "session_priv.h"

/* Counts are taken out in so many at a time; a job has a few dozen. */
#define BATCH 256

bool dlp_session_knows_gc(const struct dlp_session *session, const struct dlp_interpreter *python)
{
	const struct dlp_target *target = session->opts.target;

	return target->gc.cnt && python->file.inode &&
	       python->file.inode == target->python_file.inode &&
	       python->file.dev_major == target->python_file.dev_major &&
	       python->file.dev_minor == target->python_file.dev_minor;
}

void dlp_session_put_gc(struct dlp_session *session)
{
	const struct dlp_target *target = session->opts.target;
	uint32_t zero = 0;

	/* refused: no address is in the collector then, and no process has gc_known */
	if (session->wanted & DLP_FEATURE_BIT(OTHERS) && target->gc.cnt)
		(void)bpf_map__update_elem(session->skel->maps.dlp_gc_code, &zero, sizeof(zero),
					   &target->gc, sizeof(target->gc), BPF_ANY);
}

static int deliver(uint32_t tid, const struct dlp_gc_use *use, uint64_t now_ns, dlp_sink_fn sink,
		   void *ctx)
{
	struct dlp_ev_gc event = {
		.hdr = { .size = sizeof(event),
			 .kind = DLP_EV_GC,
			 .ts_ns = now_ns,
			 .tgid = use->tgid,
			 .tid = tid },
		.samples = use->samples,
		.gc_samples = use->gc_samples,
		.inside = use->inside,
		.gc_inside = use->gc_inside,
	};

	return sink(ctx, &event, sizeof(event));
}

int dlp_session_gc(struct dlp_session *session, uint64_t now_ns, dlp_sink_fn sink, void *ctx)
{
	int fd = bpf_map__fd(session->skel->maps.dlp_gc_use);
	struct dlp_gc_use use[BATCH];
	uint32_t tid[BATCH], in, out;
	void *from = NULL;
	int err = 0;

	while (!err) {
		uint32_t cnt = BATCH;

		/* -ENOENT: that was the rest */
		err = bpf_map_lookup_and_delete_batch(fd, from, &out, tid, use, &cnt, NULL);
		if (err && err != -ENOENT)
			return err;
		for (uint32_t i = 0; i < cnt; i++) {
			int sink_err = deliver(tid[i], &use[i], now_ns, sink, ctx);

			if (sink_err)
				return sink_err;
		}
		in = out;
		from = &in;
	}
	return 0;
}
