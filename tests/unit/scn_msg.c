/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The simulation's messages: pickles as torch's queues carry them. */
#include "scn_priv.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static uint8_t put_text(uint8_t *out, uint8_t len, const char *text)
{
	size_t room = DLP_MSG_PREFIX - len, bytes = strlen(text);
	uint8_t head[64];

	assert(bytes + 3 <= sizeof(head));
	head[0] = 0x8c;
	head[1] = (uint8_t)bytes;
	memcpy(head + 2, text, bytes);
	head[2 + bytes] = 0x94;
	bytes += 3;
	memcpy(out + len, head, bytes < room ? bytes : room);
	return (uint8_t)(len + (bytes < room ? bytes : room));
}

/* The first DLP_MSG_PREFIX bytes of (index, member), or of _ResumeIteration. */
static uint8_t pickle(uint8_t *out, int64_t index, enum what what)
{
	uint8_t len = 11;

	memcpy(out, "\x80\x04\x95\x40\0\0\0\0\0\0\0", 11);
	if (what == MSG_RESUME) {
		len = put_text(out, len, "torch.utils.data._utils.worker");
		return put_text(out, len, "_ResumeIteration");
	}
	if (index < 256) {
		out[len++] = 'K';
		out[len++] = (uint8_t)index;
	} else if (index < 65536) {
		out[len++] = 'M';
		out[len++] = (uint8_t)index;
		out[len++] = (uint8_t)(index >> 8);
	} else {
		out[len++] = 'J';
		for (int i = 0; i < 4; i++)
			out[len++] = (uint8_t)(index >> (8 * i));
	}
	if (what == MSG_END) {
		len = put_text(out, len, "torch.utils.data._utils.worker");
		return put_text(out, len, "_IterableDatasetStopIteration");
	}
	if (what == MSG_ERROR) {
		len = put_text(out, len, "torch._utils");
		return put_text(out, len, "ExceptionWrapper");
	}
	memcpy(out + len, "]\x94(K\x01K\x02", 7);
	return (uint8_t)(len + 7);
}

void scn_message(struct scn *scn, const struct scn_msg *msg)
{
	struct dlp_ev_msg ev = {
		.hdr = HDR(MSG, dlp_ev_msg, msg->ts_ns, msg->tgid, msg->tid),
		.inode = msg->inode,
		.bytes = msg->bytes,
		.dir = msg->dir,
	};

	if (msg->what == MSG_FINAL) {
		memcpy(ev.prefix, "\x80\x04N.", 4);
		ev.prefix_len = 4;
		ev.bytes = 4;
	} else {
		ev.prefix_len = pickle(ev.prefix, msg->index, msg->what);
	}
	scn_event(scn, &ev, sizeof(ev));
}
