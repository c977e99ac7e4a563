/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the first bytes of a pickle say about a message of the DataLoader's queues. Pure; the
 * bytes are untrusted and may be cut anywhere.
 */
#ifndef DLP_MSG_H
#define DLP_MSG_H

#include <stddef.h>
#include <stdint.h>

enum dlp_msg_type {
	DLP_MSG_OTHER = 0, /* not a message of a DataLoader's queue */
	DLP_MSG_INDEX,	   /* (batch index, anything) */
	DLP_MSG_ERROR,	   /* (batch index, ExceptionWrapper): making the batch has failed */
	DLP_MSG_END,	   /* (batch index, _IterableDatasetStopIteration): the shard has ended */
	DLP_MSG_FINAL,	   /* None: the worker shall end */
	DLP_MSG_RESUME,	   /* _ResumeIteration, or a worker's answer to it */
};

/* *ret_index is the batch index of INDEX, ERROR and END, else -1. */
enum dlp_msg_type dlp_msg_parse(const uint8_t *prefix, size_t bytes, int64_t *ret_index);

#endif /* DLP_MSG_H */
