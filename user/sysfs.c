/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "sysfs.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "util.h"

const char *dlp_sysfs_block_name(uint32_t dev, char *buf, size_t size)
{
	char path[64], link[PATH_MAX];
	const char *name;
	ssize_t len;

	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u", dev >> 20, dev & 0xfffff);
	len = readlink(path, link, sizeof(link) - 1);
	if (len <= 0)
		return NULL;
	link[len] = '\0';
	name = strrchr(link, '/');
	name = name ? name + 1 : link;
	return dlp_sanitise(buf, size, name, strlen(name));
}
