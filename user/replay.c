/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "replay.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "decode.h"
#include "record_code.h"
#include "util.h"

static int give(struct dlp_replay *replay, const void *event, size_t bytes)
{
	int err = dlp_model_apply(replay->model, event, bytes);

	/* malformed and unknown ones are counted by the model, as they were in the live run */
	if (err == -ENOMEM || !replay->history)
		return err == -ENOMEM ? err : 0;
	return dlp_history_apply(replay->history, event, bytes);
}

/* Totals since the window opened: where its begin was not kept, what had been counted till then. */
static int give_counters(struct dlp_replay *replay, const struct dlp_ev_counters *event)
{
	const struct dlp_ev_counters *base = &replay->counters_base;
	struct dlp_ev_counters *counters = &replay->counters;

	*counters = *event;
	counters->hdr.size = sizeof(*counters);
	if (replay->opening)
		return 0;
	for (size_t i = 0; i < DLP_COUNTERS_MAX; i++)
		counters->value[i] -= base->value[i];
	counters->recursion_misses -= base->recursion_misses;
	counters->prog_run_cnt -= base->prog_run_cnt;
	counters->prog_run_ns -= base->prog_run_ns;
	counters->prog_sampled_ns -= base->prog_sampled_ns;
	counters->daemon_cpu_ns -= base->daemon_cpu_ns;
	return give(replay, counters, sizeof(*counters));
}

static int give_window(struct dlp_replay *replay, const struct dlp_ev_window *event)
{
	struct dlp_ev_window window = *event;

	if (replay->opening) {
		replay->opening = false;
		replay->counters_base = replay->counters;
		window.phase = 0;
	}
	replay->closed = window.phase == 2;
	return give(replay, &window, sizeof(window));
}

static int take(struct dlp_replay *replay, const void *data, size_t bytes)
{
	union dlp_event_room room;
	const struct dlp_ev_hdr *hdr;

	replay->event_cnt++;
	if (dlp_event_check(data, bytes, &room, &hdr))
		return give(replay, data, bytes);
	if (!replay->first_ns)
		replay->first_ns = hdr->ts_ns;
	if (hdr->ts_ns > replay->last_ns)
		replay->last_ns = hdr->ts_ns;
	if (replay->events_out)
		dlp_event_print(replay->events_out, hdr);
	if (hdr->kind == DLP_EV_COUNTERS)
		return give_counters(replay, (const void *)hdr);
	if (hdr->kind == DLP_EV_WINDOW)
		return give_window(replay, (const void *)hdr);
	return give(replay, data, bytes);
}

static int take_frames(struct dlp_replay *replay, const struct dlp_rec_view *view)
{
	const uint8_t *at = view->data, *end = at + view->bytes;
	int err = 0;

	while (!err && at < end) {
		const struct dlp_rec_frame *frame = (const void *)at;

		err = take(replay, frame + 1, frame->bytes);
		at += dlp_frame_bytes(frame->bytes);
	}
	return err;
}

static void take_devices(struct dlp_replay *replay, const struct dlp_rec_view *view)
{
	memcpy(replay->device, view->data, view->items * sizeof(replay->device[0]));
	replay->device_cnt = view->items;
}

/*
 * The window of a recording that was not closed ends with its newest event. What its writer could
 * not keep counts as lost even when no counters tell, because they were among it.
 */
static int finish(struct dlp_replay *replay)
{
	__u64 *lost = &replay->counters.value[DLP_CNT_RECORDING_LOST];
	int err = 0;

	if (replay->ending.lost_events > *lost) {
		*lost = replay->ending.lost_events;
		if (replay->counters.hdr.size)
			err = give(replay, &replay->counters, sizeof(replay->counters));
	}
	if (!err && !replay->closed) {
		const struct dlp_ev_window window = {
			.hdr = { .size = sizeof(window), .kind = DLP_EV_WINDOW,
				 .ts_ns = replay->last_ns },
			.phase = 2,
		};

		err = give(replay, &window, sizeof(window));
	}
	return err;
}

/* Figures may be short for what the recording lacks inside its window. */
static void note_missing(struct dlp_replay *replay)
{
	struct dlp_summary_facts *facts = &replay->facts.facts;

	if (!replay->ending.lost_events && !replay->ending.holes)
		return;
	if (facts->missing_cnt == DLP_REC_MISSING_MAX)
		facts->missing_cnt--;
	replay->facts.missing[facts->missing_cnt++] =
		(struct dlp_missing){ .name = "part of the recording", .figures = true };
	facts->missing = replay->facts.missing;
}

int dlp_replay_run(struct dlp_replay *replay, struct dlp_reader *reader)
{
	struct dlp_rec_view view;
	int got, err = 0;

	dlp_reader_ending(reader, &replay->ending);
	replay->opening = replay->ending.from_middle;
	while (!err && (got = dlp_reader_next(reader, &view)) > 0) {
		switch (view.kind) {
		case DLP_REC_EVENTS:
			err = take_frames(replay, &view);
			break;
		case DLP_REC_INFO:
			/* a bad one leaves nothing known: the events still tell most */
			(void)dlp_info_unpack(view.data, view.bytes, &replay->facts);
			break;
		case DLP_REC_DEVICES:
			take_devices(replay, &view);
			break;
		default:
			break;
		}
	}
	if (err || got < 0)
		return err ? err : got;
	dlp_reader_ending(reader, &replay->ending);
	note_missing(replay);
	return finish(replay);
}

const char *dlp_replay_device(const struct dlp_replay *replay, uint32_t dev, char *buf,
			      size_t size)
{
	for (uint32_t i = 0; i < replay->device_cnt; i++) {
		const struct dlp_rec_device *device = &replay->device[i];
		size_t bytes = strnlen(device->name, sizeof(device->name));

		if (device->dev == dev)
			return bytes ? dlp_sanitise(buf, size, device->name, bytes) : NULL;
	}
	return NULL;
}

static void say_time(const struct dlp_replay *replay, const struct dlp_rec_header *header,
		     char *buf, size_t size)
{
	uint64_t real_ns = header->realtime_ns + (replay->last_ns - header->monotonic_ns);
	time_t seconds = (time_t)(real_ns / DLP_NS_PER_S);
	char text[40];
	struct tm tm;

	if (!replay->event_cnt || !localtime_r(&seconds, &tm) ||
	    !strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &tm)) {
		(void)snprintf(buf, size, "nothing could be replayed");
		return;
	}
	(void)snprintf(buf, size, "replayed up to %s, %.1f s of it", text,
		       (double)(replay->last_ns - replay->first_ns) / 1e9);
}

const char *dlp_replay_say(const struct dlp_replay *replay, const struct dlp_rec_header *header,
			   char *buf, size_t size)
{
	unsigned long long at = replay->ending.offset;
	char until[120];

	say_time(replay, header, until, sizeof(until));
	*buf = '\0';
	switch (replay->ending.how) {
	case DLP_REC_END_WHOLE:
		if (!replay->event_cnt)
			(void)snprintf(buf, size, "holds no events");
		break;
	case DLP_REC_END_OPEN:
		(void)snprintf(buf, size,
			       "was never completed (killed, power cut, or still recording): %s",
			       until);
		break;
	case DLP_REC_END_CUT:
		(void)snprintf(buf, size, "is cut at byte %llu: %s", at, until);
		break;
	case DLP_REC_END_DAMAGED:
		if (replay->ending.holes)
			(void)snprintf(buf, size, "is damaged, %llu blocks are missing: %s",
				       (unsigned long long)replay->ending.holes, until);
		else
			(void)snprintf(buf, size, "is damaged at byte %llu: %s", at, until);
		break;
	}
	return buf;
}
