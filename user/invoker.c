/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "invoker.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "util.h"

/* An entry longer than this (it has six fields) is treated as unknown. */
#define PASSWD_BYTES 16384

static bool id_from(const char *variable, uint32_t *ret)
{
	const char *text = getenv(variable);
	uint64_t value;

	/* the largest means "leave as it is" to the kernel, and is nobody's id */
	if (!text || dlp_parse_u64(text, &value) || value >= UINT32_MAX)
		return false;
	*ret = (uint32_t)value;
	return true;
}

static void look_up(struct dlp_invoker *invoker)
{
	_cleanup_free_ char *buf = malloc(PASSWD_BYTES);
	struct passwd entry, *found = NULL;

	invoker->name[0] = '\0';
	invoker->home[0] = '\0';
	if (!buf || getpwuid_r(invoker->uid, &entry, buf, PASSWD_BYTES, &found) || !found)
		return;
	if (snprintf(invoker->name, sizeof(invoker->name), "%s", entry.pw_name) >=
	    (int)sizeof(invoker->name))
		invoker->name[0] = '\0';
	if (snprintf(invoker->home, sizeof(invoker->home), "%s", entry.pw_dir) >=
	    (int)sizeof(invoker->home))
		invoker->home[0] = '\0';
}

static bool ids(uint32_t *ret_uid, uint32_t *ret_gid)
{
	/* without root's rights there is no way to be, or to give to, anybody else */
	return !geteuid() && id_from("SUDO_UID", ret_uid) && id_from("SUDO_GID", ret_gid);
}

bool dlp_invoker_get(struct dlp_invoker *ret)
{
	uint32_t uid, gid;

	if (!ids(&uid, &gid))
		return false;
	ret->uid = uid;
	ret->gid = gid;
	look_up(ret);
	return true;
}

static int set_environment(const struct dlp_invoker *invoker)
{
	/* sudo has put root's there: caches and settings would be looked for where we may not look */
	if (*invoker->home && setenv("HOME", invoker->home, 1))
		return -errno;
	if (*invoker->name &&
	    (setenv("USER", invoker->name, 1) || setenv("LOGNAME", invoker->name, 1)))
		return -errno;
	return 0;
}

int dlp_invoker_become(const struct dlp_invoker *invoker)
{
	/* groups first: afterwards the right to set them is gone */
	if (*invoker->name ? initgroups(invoker->name, invoker->gid) : setgroups(0, NULL))
		return -errno;
	if (setresgid(invoker->gid, invoker->gid, invoker->gid) ||
	    setresuid(invoker->uid, invoker->uid, invoker->uid))
		return -errno;
	return set_environment(invoker);
}

int dlp_invoker_own(int fd)
{
	uint32_t uid, gid;

	return ids(&uid, &gid) && fchown(fd, uid, gid) ? -errno : 0;
}
