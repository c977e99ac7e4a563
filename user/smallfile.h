/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Bounded readers of the small text files in which the kernel shows figures (/proc, /sys, control
 * groups), and of the numbers in them. The texts are untrusted.
 */
#ifndef DLP_SMALLFILE_H
#define DLP_SMALLFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Reads an open file from its start: up to size - 1 bytes and a NUL, more is cut; size > 0. The
 * same descriptor may be read again for newer figures. 0 or -errno.
 */
int dlp_smallfile_bytes(int fd, char *buf, size_t size, size_t *ret_bytes);
/* The same for lines of text: one that the end of `buf` cuts is left out, lest it be misread. */
int dlp_smallfile_text(int fd, char *buf, size_t size);
/* Opens, reads and closes. */
int dlp_smallfile_read(const char *path, char *buf, size_t size);

/*
 * The unsigned decimal number at *at, blanks before it skipped, and *at behind it; false when
 * there is none, it does not fit, or something else than white space follows.
 */
bool dlp_smallfile_number(const char **at, uint64_t *ret);
/* What follows `key` and one of ":", " " or tab at the beginning of a line; NULL = no such line. */
const char *dlp_smallfile_value(const char *text, const char *key);
/* The number behind such a key; false when it has none. */
bool dlp_smallfile_keyed(const char *text, const char *key, uint64_t *ret);

#endif /* DLP_SMALLFILE_H */
