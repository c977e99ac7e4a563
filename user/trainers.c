/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "trainers.h"

#include <errno.h>
#include <string.h>

#include "proc_role.h"
#include "procfs.h"
#include "userdb.h"
#include "util.h"

/* Of a machine: a few thousand are usual. What is beyond is not listed. */
#define PROCESSES_MAX 65536
/* As docker and podman show them. */
#define CONTAINER_SHOWN 12
/* As many are named in an error's line. */
#define NAMED_MAX 8

struct list {
	struct dlp_trainer *trainer;
	size_t cnt, room;
};

static struct dlp_trainer *append(struct list *list, pid_t pid)
{
	struct dlp_trainer *trainer;

	if (list->cnt == list->room) {
		size_t room = list->room ? list->room * 2 : 8;

		trainer = realloc(list->trainer, room * sizeof(*trainer));
		if (!trainer)
			return NULL;
		list->trainer = trainer;
		list->room = room;
	}
	trainer = &list->trainer[list->cnt++];
	memset(trainer, 0, sizeof(*trainer));
	trainer->pid = pid;
	return trainer;
}

/* Describes pid, or leaves it out and says in *ret_trainer whose worker it is. */
static int look(const char *root, pid_t pid, struct list *list, pid_t *ret_trainer)
{
	struct dlp_target_failure failure;
	struct dlp_proc_status status;
	struct dlp_trainer *trainer;
	struct dlp_target target;

	*ret_trainer = 0;
	/* a worker that has a name is known without opening its libraries */
	if (dlp_proc_trainer_of(root, pid, true, ret_trainer) || *ret_trainer)
		return 0;
	if (dlp_proc_is_launcher(root, pid))
		return 0;
	if (dlp_target_open(root, pid, &target, &failure)) {
		*ret_trainer = failure.trainer_pid;
		if (failure.err == DLP_TARGET_IS_WORKER || failure.err == DLP_TARGET_NO_PROCESS)
			return 0;
	}
	trainer = append(list, pid);
	if (!trainer)
		return -ENOMEM;
	if (!dlp_proc_status(root, pid, &status))
		trainer->uid = status.uid;
	trainer->inside = target.inside;
	memcpy(trainer->torch, target.torch.text, sizeof(trainer->torch));
	memcpy(trainer->container, target.container, sizeof(trainer->container));
	memcpy(trainer->cmdline, target.cmdline, sizeof(trainer->cmdline));
	memcpy(trainer->refused, failure.text, sizeof(trainer->refused));
	return 0;
}

static void count_worker(struct list *list, pid_t trainer)
{
	for (size_t i = 0; i < list->cnt; i++)
		list->trainer[i].workers += list->trainer[i].pid == trainer;
}

/* What multiprocessing starts and has torch: a rank when it has workers, else a helper. */
static void leave_out_helpers(const char *root, struct list *list)
{
	size_t kept = 0;

	for (size_t i = 0; i < list->cnt; i++) {
		if (list->trainer[i].workers || dlp_proc_may_train(root, list->trainer[i].pid))
			list->trainer[kept++] = list->trainer[i];
	}
	list->cnt = kept;
}

int dlp_trainers_find(const char *root, pid_t ancestor, struct dlp_trainer **ret, size_t *ret_cnt)
{
	_cleanup_free_ pid_t *pids = calloc(PROCESSES_MAX, sizeof(*pids));
	struct list list = { 0 };
	size_t cnt = 0;
	int err;

	*ret = NULL;
	*ret_cnt = 0;
	if (!pids)
		return -ENOMEM;
	/* the first processes of the machine, and of a pid namespace, have parent 0 */
	pids[0] = ancestor;
	err = dlp_proc_descendants(root, ancestor, pids + 1, PROCESSES_MAX - 1, &cnt);
	if (err && err != -ENOSPC)
		return err;
	/* parents come first: a worker's trainer is in the list when the worker is looked at */
	for (size_t i = ancestor ? 0 : 1; i <= cnt; i++) {
		pid_t trainer;

		if (!dlp_proc_has_torch(root, pids[i]))
			continue;
		err = look(root, pids[i], &list, &trainer);
		if (err) {
			free(list.trainer);
			return err;
		}
		if (trainer)
			count_worker(&list, trainer);
	}
	leave_out_helpers(root, &list);
	*ret = list.trainer;
	*ret_cnt = list.cnt;
	return 0;
}

/* Of the machine we run on; a container's own users have their numbers. */
static const char *user_name(uid_t uid, char *buf, size_t size)
{
	struct dlp_user user;

	if (!dlp_userdb_user("", uid, &user))
		dlp_sanitise(buf, size, user.name, strlen(user.name));
	else
		(void)snprintf(buf, size, "%u", (unsigned int)uid);
	return buf;
}

void dlp_trainers_print(FILE *out, const struct dlp_trainer *trainers, size_t cnt, size_t width)
{
	fprintf(out, "%8s  %8s  %-10s  %-14s  %7s  %-*s  %s\n", "PID", "INSIDE", "USER", "TORCH",
		"WORKERS", CONTAINER_SHOWN, "CONTAINER", "COMMAND");
	for (size_t i = 0; i < cnt; i++) {
		const struct dlp_trainer *trainer = &trainers[i];
		char user[33], inside[16] = "-", torch[48], container[CONTAINER_SHOWN + 1], cmdline[1024];
		size_t room = sizeof(cmdline);
		int used;

		dlp_sanitise(torch, sizeof(torch), trainer->torch, sizeof(trainer->torch));
		dlp_sanitise(container, sizeof(container), trainer->container,
			     sizeof(trainer->container));
		if (trainer->inside)
			(void)snprintf(inside, sizeof(inside), "%d", (int)trainer->inside);
		used = fprintf(out, "%8d  %8s  %-10s  %-14s  %7zu  %-*s  ", (int)trainer->pid, inside,
			       user_name(trainer->uid, user, sizeof(user)), *torch ? torch : "?",
			       trainer->workers, CONTAINER_SHOWN, *container ? container : "-");
		if (width && (size_t)used + room > width + 1)
			room = width > (size_t)used ? width + 1 - (size_t)used : 1;
		fprintf(out, "%s\n",
			dlp_sanitise(cmdline, room, trainer->cmdline, sizeof(trainer->cmdline)));
	}
}

static void name_all(const struct dlp_trainer *trainers, size_t cnt, char *buf, size_t size)
{
	size_t len = 0, named = 0;

	for (size_t i = 0; i < cnt && named < NAMED_MAX && len < size; i++) {
		if (*trainers[i].refused)
			continue;
		(void)snprintf(buf + len, size - len, "%s%d", named++ ? ", " : "",
			       (int)trainers[i].pid);
		len = strlen(buf);
	}
	if (named == NAMED_MAX && len < size)
		(void)snprintf(buf + len, size - len, ", ...");
}

pid_t dlp_trainers_meant(const char *root, pid_t pid, char *several, size_t several_size)
{
	_cleanup_free_ struct dlp_trainer *trainers = NULL;
	size_t cnt, usable = 0;
	pid_t meant = 0;

	*several = '\0';
	if (dlp_trainers_find(root, pid, &trainers, &cnt))
		return 0;
	for (size_t i = 0; i < cnt; i++) {
		if (*trainers[i].refused)
			continue;
		meant = trainers[i].pid;
		usable++;
	}
	if (usable <= 1)
		return meant;
	name_all(trainers, cnt, several, several_size);
	return 0;
}

/* Which of those below `pid`: all, or those with workers, itself left out. */
static size_t select_below(const char *root, pid_t pid, bool ranks, pid_t *ret, size_t max)
{
	_cleanup_free_ struct dlp_trainer *trainers = NULL;
	size_t cnt, ret_cnt = 0;

	if (dlp_trainers_find(root, pid, &trainers, &cnt))
		return 0;
	for (size_t i = 0; i < cnt && ret_cnt < max; i++) {
		if (*trainers[i].refused ||
		    (ranks && (trainers[i].pid == pid || !trainers[i].workers)))
			continue;
		ret[ret_cnt++] = trainers[i].pid;
	}
	return ret_cnt;
}

size_t dlp_trainers_below(const char *root, pid_t pid, pid_t *ret, size_t max)
{
	return select_below(root, pid, false, ret, max);
}

size_t dlp_trainers_ranks(const char *root, pid_t pid, pid_t *ret, size_t max)
{
	return select_below(root, pid, true, ret, max);
}
