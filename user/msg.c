/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "msg.h"

#include <stdbool.h>
#include <string.h>

/* Opcodes of CPython's Lib/pickle.py. */
enum {
	OP_STOP = '.',
	OP_NONE = 'N',
	OP_BININT = 'J',
	OP_BININT1 = 'K',
	OP_BININT2 = 'M',
	OP_PROTO = 0x80,
	OP_LONG1 = 0x8a,
	OP_SHORT_UNICODE = 0x8c,
	OP_MEMOIZE = 0x94,
	OP_FRAME = 0x95,
};

struct cursor {
	const uint8_t *at;
	size_t left;
};

static bool take(struct cursor *cur, size_t bytes)
{
	if (cur->left < bytes)
		return false;
	cur->at += bytes;
	cur->left -= bytes;
	return true;
}

static uint64_t little_endian(const uint8_t *at, size_t bytes)
{
	uint64_t value = 0;

	for (size_t i = 0; i < bytes; i++)
		value |= (uint64_t)at[i] << (8 * i);
	return value;
}

/* A number that can be a batch index: whole, not negative. */
static bool take_index(struct cursor *cur, int64_t *ret)
{
	const uint8_t *at = cur->at;
	size_t width, skip = 1;

	if (!cur->left)
		return false;
	switch (at[0]) {
	case OP_BININT1:
		width = 1;
		break;
	case OP_BININT2:
		width = 2;
		break;
	case OP_BININT:
		width = 4;
		break;
	case OP_LONG1:
		if (cur->left < 2 || !at[1] || at[1] > 8)
			return false;
		width = at[1];
		skip = 2;
		break;
	default:
		return false;
	}
	if (!take(cur, skip + width))
		return false;
	/* BININT and LONG1 are signed: their top bit is the sign */
	if ((at[0] == OP_BININT || at[0] == OP_LONG1) && at[skip + width - 1] & 0x80)
		return false;
	*ret = (int64_t)little_endian(at + skip, width);
	return true;
}

/* An object of this module, whose class name has name_len bytes if that can be seen. */
static bool is_object(const struct cursor *cur, const char *module, size_t name_len)
{
	const size_t len = strlen(module);

	if (cur->left < 2 + len || cur->at[0] != OP_SHORT_UNICODE || cur->at[1] != len ||
	    memcmp(cur->at + 2, module, len))
		return false;
	/* the prefix often ends before the name: then the module alone has to do */
	if (cur->left < 2 + len + 3)
		return true;
	return cur->at[2 + len] == OP_MEMOIZE && cur->at[2 + len + 1] == OP_SHORT_UNICODE &&
	       cur->at[2 + len + 2] == name_len;
}

static bool is_worker_object(const struct cursor *cur, const char *name)
{
	return is_object(cur, "torch.utils.data._utils.worker", strlen(name));
}

enum dlp_msg_type dlp_msg_parse(const uint8_t *prefix, size_t bytes, int64_t *ret_index)
{
	struct cursor cur = { prefix, bytes };

	*ret_index = -1;
	/* protocol 4 is multiprocessing's default since Python 3.8, 5 since 3.14 */
	if (bytes < 2 || prefix[0] != OP_PROTO || prefix[1] < 4 || prefix[1] > 5)
		return DLP_MSG_OTHER;
	take(&cur, 2);
	if (cur.left == 2 && cur.at[0] == OP_NONE && cur.at[1] == OP_STOP)
		return DLP_MSG_FINAL;
	if (cur.left && cur.at[0] == OP_FRAME && !take(&cur, 9))
		return DLP_MSG_OTHER;
	if (is_worker_object(&cur, "_ResumeIteration"))
		return DLP_MSG_RESUME;
	if (!take_index(&cur, ret_index))
		return DLP_MSG_OTHER;
	/* a tuple's second member follows; a bare number is somebody else's message */
	if (!cur.left || cur.at[0] == OP_STOP) {
		*ret_index = -1;
		return DLP_MSG_OTHER;
	}
	if (is_worker_object(&cur, "_IterableDatasetStopIteration"))
		return DLP_MSG_END;
	if (is_object(&cur, "torch._utils", strlen("ExceptionWrapper")))
		return DLP_MSG_ERROR;
	return DLP_MSG_INDEX;
}
