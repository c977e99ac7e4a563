/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The machine's users and groups: /etc/passwd, and for what else the machine knows (LDAP, sssd)
 * its own getent. The C library's functions would load modules for that, which a statically linked
 * program must not: they are made for the machine's C library, not for ours.
 */
#ifndef DLP_USERDB_H
#define DLP_USERDB_H

#include <limits.h>
#include <stddef.h>
#include <sys/types.h>

struct dlp_user {
	char name[256];
	char home[PATH_MAX]; /* "" = none, or too long */
};

/* 0, or -ENOENT when nobody has this number. `root` as in procfs.h: put before all paths. */
int dlp_userdb_user(const char *root, uid_t uid, struct dlp_user *ret);
/*
 * The groups the user is a member of, `gid` first: up to `max`, which is at least 1. At worst it
 * is `gid` alone.
 */
void dlp_userdb_groups(const char *root, const char *name, gid_t gid, gid_t *ret, size_t max,
		       size_t *ret_cnt);

#endif /* DLP_USERDB_H */
