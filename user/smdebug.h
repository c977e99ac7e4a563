/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A history in the folders and files that SageMaker's Debugger reads, so that its own analysis of
 * data loading (class PT_dataloader_analysis of the Python package smdebug) runs on it unchanged:
 *   DIR/framework/pevents/YYYYMMDDHH/END_PID-algo-1_pythontimeline.json
 *     GetNext calls, iter(DataLoader) and the lives of workers; END = microseconds of the epoch at
 *     which the file's last event ends
 *   DIR/system/incremental/YYYYMMDDHH/SECONDS.algo-1.json
 *     CPU and memory of the machine; its first one tells the reader where time begins
 */
#ifndef DLP_SMDEBUG_H
#define DLP_SMDEBUG_H

#include <stddef.h>

#include "history.h"

/*
 * Of a finished history, only what ended in its window. Makes `path` when it does not exist; what
 * lies there is not touched. On failure returns -errno with one line for people in `error`:
 * -EEXIST when there is an export already, -ENODATA when the time of day is not known.
 */
int dlp_smdebug_write(const char *path, const struct dlp_history *history, char *error,
		      size_t error_size);

#endif /* DLP_SMDEBUG_H */
