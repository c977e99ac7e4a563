/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "invoker.h"

#include <errno.h>
#include <grp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "userdb.h"
#include "util.h"

/* The kernel takes 65536 (NGROUPS_MAX); nobody has so many, and they are on the stack. */
#define GROUPS_MAX 4096

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
	(void)dlp_userdb_user("", uid, &ret->user);
	return true;
}

static int set_environment(const struct dlp_invoker *invoker)
{
	const struct dlp_user *user = &invoker->user;

	/* sudo has put root's there: caches and settings would be looked for where we may not look */
	if (*user->home && setenv("HOME", user->home, 1))
		return -errno;
	if (*user->name && (setenv("USER", user->name, 1) || setenv("LOGNAME", user->name, 1)))
		return -errno;
	return 0;
}

int dlp_invoker_become(const struct dlp_invoker *invoker)
{
	gid_t groups[GROUPS_MAX];
	size_t cnt = 0;

	if (*invoker->user.name)
		dlp_userdb_groups("", invoker->user.name, invoker->gid, groups, GROUPS_MAX, &cnt);
	/* groups first: afterwards the right to set them is gone */
	if (setgroups(cnt, groups))
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
