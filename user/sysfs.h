/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What /sys knows about devices. */
#ifndef DLP_SYSFS_H
#define DLP_SYSFS_H

#include <stddef.h>
#include <stdint.h>

/*
 * Name of a block device ("nvme0n1") into buf, or NULL when /sys does not have it; dev as the
 * kernel codes it (major << 20 | minor). Returns buf.
 */
const char *dlp_sysfs_block_name(uint32_t dev, char *buf, size_t size);

#endif /* DLP_SYSFS_H */
