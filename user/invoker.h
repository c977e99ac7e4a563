/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The user behind sudo: commands are started as that user, and files we create belong to that
 * user, not to root.
 */
#ifndef DLP_INVOKER_H
#define DLP_INVOKER_H

#include <stdbool.h>
#include <sys/types.h>

#include "userdb.h"

struct dlp_invoker {
	uid_t uid;
	gid_t gid;
	struct dlp_user user; /* name "" = the user database does not know the user */
};

/*
 * True when we are root and sudo says, in SUDO_UID and SUDO_GID, who called it. Otherwise nobody
 * else is meant, and *ret is left alone.
 */
bool dlp_invoker_get(struct dlp_invoker *ret);
/*
 * Makes this process that user for good: groups, user, and HOME, USER and LOGNAME in the
 * environment where the database knows them. 0 or -errno, after which the process is neither: it
 * must end. For a child that is about to call exec.
 */
int dlp_invoker_become(const struct dlp_invoker *invoker);
/*
 * Gives a file that we have just created to the invoking user, if there is one. 0, or -errno where
 * that is refused (by a file system without owners, say): then it stays root's.
 */
int dlp_invoker_own(int fd);

#endif /* DLP_INVOKER_H */
