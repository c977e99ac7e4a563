/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Names of file systems from their super block's magic number. */
#ifndef DLP_FSNAME_H
#define DLP_FSNAME_H

#include <stddef.h>
#include <stdint.h>

/*
 * "ext4", "nfs", ...: as /proc/mounts calls it, where the number tells; for an unknown one the
 * number in hexadecimal, written to buf; NULL for 0. The result is static or buf.
 */
const char *dlp_fsname(uint32_t magic, char *buf, size_t size);

#endif /* DLP_FSNAME_H */
