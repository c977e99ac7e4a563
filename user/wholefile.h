/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A file that is written in one go, at the end. By then privileges are given up: where the user
 * alone may not write, the file is opened while we still may.
 */
#ifndef DLP_WHOLEFILE_H
#define DLP_WHOLEFILE_H

#include <stdbool.h>

/*
 * May this process, with the effective capabilities it has now, write this file in the way that
 * dlp_wholefile_write() does without a descriptor?
 */
bool dlp_wholefile_may(const char *path);
/* Opens it, making it if need be; what is in it stays for now. The descriptor, or -errno. */
int dlp_wholefile_hold(const char *path);
/*
 * With fd < 0 atomically: a reader of `path` sees the old file or the whole new one, which belongs
 * to the invoking user; devices and pipes are just written to. Else into that descriptor, in place.
 * 0 or -errno.
 */
int dlp_wholefile_write(const char *path, int fd, const char *text);

#endif /* DLP_WHOLEFILE_H */
