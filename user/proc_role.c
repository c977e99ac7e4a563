/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "proc_role.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "procfs.h"
#include "util.h"

/* Trainer, fork server, worker, and what a worker starts: four deep is usual. */
#define DEPTH_MAX 32
/* Of a machine: a few thousand are usual. What is beyond is not looked at. */
#define PROCESSES_MAX 65536
/* Longer command lines are compared by their beginning. */
#define CMDLINE_BYTES 16384

struct process {
	struct dlp_proc_stat stat;
	char exe[PATH_MAX];
	char cmdline[CMDLINE_BYTES];
	size_t cmdline_bytes;
};

static int read_process(const char *root, pid_t pid, struct process *ret)
{
	int err;

	err = dlp_proc_stat(root, pid, &ret->stat);
	if (err)
		return err;
	ret->cmdline_bytes = 0;
	err = dlp_proc_cmdline(root, pid, ret->cmdline, sizeof(ret->cmdline), &ret->cmdline_bytes);
	if (err)
		return err;
	/* needs more rights than the rest; without it only the command lines are compared */
	err = dlp_proc_exe(root, pid, ret->exe, sizeof(ret->exe));
	if (err)
		ret->exe[0] = '\0';
	return 0;
}

static bool cmdline_has(const struct process *process, const char *text)
{
	return memmem(process->cmdline, process->cmdline_bytes, text, strlen(text));
}

/*
 * Set by torch from 2.5 on (prctl in _worker_loop). The second is what the thread-worker change
 * of 2026 calls worker processes, as the kernel cuts it to 15 bytes.
 */
static bool has_worker_name(const struct process *process)
{
	return !strncmp(process->stat.comm, "pt_data_worker", 14) ||
	       !strcmp(process->stat.comm, "pt_multiprocess");
}

static bool is_resource_tracker(const struct process *process)
{
	return cmdline_has(process, "multiprocessing.resource_tracker") ||
	       cmdline_has(process, "multiprocessing.semaphore_tracker");
}

/* True for the server and, since they are forks of it, for what it starts. */
static bool runs_forkserver(const struct process *process)
{
	return cmdline_has(process, "multiprocessing.forkserver");
}

static bool is_spawned(const struct process *process)
{
	return cmdline_has(process, "multiprocessing.spawn import spawn_main");
}

static bool is_fork_of(const struct process *child, const struct process *parent)
{
	return child->cmdline_bytes && child->cmdline_bytes == parent->cmdline_bytes &&
	       !memcmp(child->cmdline, parent->cmdline, child->cmdline_bytes) &&
	       !strcmp(child->exe, parent->exe);
}

static int is_below(const char *root, pid_t ancestor, const struct process *process)
{
	pid_t at = process->stat.ppid;

	for (int depth = 0; depth < DEPTH_MAX && at > 1; depth++) {
		struct dlp_proc_stat stat;
		int err;

		if (at == ancestor)
			return 1;
		err = dlp_proc_stat(root, at, &stat);
		if (err)
			return err;
		at = stat.ppid;
	}
	return at == ancestor;
}

/*
 * Looks like its parent, which is a worker. DataLoader workers are daemonic: multiprocessing lets
 * them have no workers, but datasets may fork as they like. The fork server's workers look like it.
 */
static bool is_fork_of_worker(const struct process *process, const struct process *parent)
{
	return has_worker_name(parent) ||
	       (is_fork_of(process, parent) && !runs_forkserver(process));
}

int dlp_proc_role(const char *root, pid_t trainer, pid_t pid, enum dlp_proc_role *ret)
{
	_cleanup_free_ struct process *process = malloc(sizeof(*process));
	_cleanup_free_ struct process *other = malloc(sizeof(*other));
	int err;

	if (!process || !other)
		return -ENOMEM;
	*ret = DLP_ROLE_OTHER;
	err = read_process(root, pid, process);
	if (err)
		return err;
	if (pid == trainer) {
		*ret = DLP_ROLE_TRAINER;
		return 0;
	}
	err = is_below(root, trainer, process);
	if (err <= 0)
		return err;
	if (is_resource_tracker(process))
		return 0;
	err = read_process(root, process->stat.ppid, other);
	if (err)
		return err;
	if (process->stat.ppid != trainer && is_fork_of_worker(process, other))
		return 0;
	if (has_worker_name(process) || is_spawned(process)) {
		*ret = DLP_ROLE_WORKER;
		return 0;
	}
	/* the fork server's own parent does not run it */
	if (!runs_forkserver(process)) {
		err = read_process(root, trainer, other);
		if (err)
			return err;
	}
	if (runs_forkserver(process) ? runs_forkserver(other) : is_fork_of(process, other))
		*ret = DLP_ROLE_WORKER;
	return 0;
}

bool dlp_proc_has_torch(const char *root, pid_t pid)
{
	_cleanup_maps_ struct dlp_proc_maps maps = { 0 };

	if (dlp_proc_maps_read(root, pid, &maps))
		return false;
	for (size_t i = 0; i < maps.cnt; i++) {
		if (strstr(maps.map[i].path, "/libtorch_python.so"))
			return true;
	}
	return false;
}

/* DataLoader workers are daemonic: multiprocessing lets them have no children of their own. */
static bool has_python_children(const char *root, pid_t pid, const struct process *process,
				struct process *other)
{
	pid_t child[64];
	size_t cnt;

	(void)dlp_proc_descendants(root, pid, child, DLP_ARRAY_SIZE(child), &cnt);
	for (size_t i = 0; i < cnt; i++) {
		if (read_process(root, child[i], other) || is_resource_tracker(other))
			continue;
		if (is_fork_of(other, process) || is_spawned(other) || has_worker_name(other) ||
		    runs_forkserver(other))
			return true;
	}
	return false;
}

/* Up from a worker: through its like (what a worker forks has its name) and the fork server. */
static int walk_up(const char *root, pid_t parent, struct process *other, pid_t *ret)
{
	for (int depth = 0; depth < DEPTH_MAX && parent > 1; depth++) {
		int err;

		err = read_process(root, parent, other);
		if (err)
			return err;
		if (!has_worker_name(other) && !runs_forkserver(other)) {
			*ret = parent;
			return 0;
		}
		parent = other->stat.ppid;
	}
	/* its trainer is gone: an orphan, about to end */
	return 0;
}

int dlp_proc_trainer_of(const char *root, pid_t pid, bool names_workers, pid_t *ret_trainer)
{
	_cleanup_free_ struct process *process = malloc(sizeof(*process));
	_cleanup_free_ struct process *other = malloc(sizeof(*other));
	pid_t trainer = 0;
	int err;

	if (!process || !other)
		return -ENOMEM;
	*ret_trainer = 0;
	err = read_process(root, pid, process);
	if (err)
		return err;
	if (!has_worker_name(process)) {
		if (names_workers || has_python_children(root, pid, process, other))
			return 0;
		err = read_process(root, process->stat.ppid, other);
		if (err)
			return err == -ESRCH ? 0 : err;
		/* not the fork server itself: its parent has another command line */
		if (!is_spawned(process) && !is_fork_of(process, other))
			return 0;
	}
	err = walk_up(root, process->stat.ppid, other, &trainer);
	if (err)
		return err == -ESRCH ? 0 : err;
	if (trainer && dlp_proc_has_torch(root, trainer))
		*ret_trainer = trainer;
	return 0;
}

pid_t dlp_proc_forkserver_of(const char *root, pid_t pid)
{
	_cleanup_free_ struct process *process = malloc(sizeof(*process));
	_cleanup_free_ struct process *parent = malloc(sizeof(*parent));

	if (!process || !parent || read_process(root, pid, process) || !runs_forkserver(process) ||
	    read_process(root, process->stat.ppid, parent))
		return 0;
	/* what it starts is its fork */
	if (is_fork_of(process, parent) || !dlp_proc_has_torch(root, process->stat.ppid))
		return 0;
	return process->stat.ppid;
}

pid_t dlp_proc_near_with_torch(const char *root, pid_t pid)
{
	_cleanup_free_ struct process *process = malloc(sizeof(*process));
	struct dlp_proc_stat stat;
	pid_t below[64];
	size_t cnt;

	if (!process || dlp_proc_stat(root, pid, &stat))
		return 0;
	if (stat.ppid > 1 && dlp_proc_has_torch(root, stat.ppid))
		return stat.ppid;
	/* parents come first, so a trainer before its workers; more than 64 are not looked at */
	(void)dlp_proc_descendants(root, pid, below, DLP_ARRAY_SIZE(below), &cnt);
	for (size_t i = 0; i < cnt; i++) {
		if (dlp_proc_has_torch(root, below[i]) && !read_process(root, below[i], process) &&
		    !has_worker_name(process))
			return below[i];
	}
	return 0;
}

size_t dlp_proc_inside_with_torch(const char *root, pid_t number, pid_t *ret, size_t max)
{
	_cleanup_free_ pid_t *pids = calloc(PROCESSES_MAX, sizeof(*pids));
	struct dlp_proc_status status;
	size_t cnt = 0, found = 0;

	if (!pids)
		return 0;
	/* the machine's first processes have parent 0 */
	(void)dlp_proc_descendants(root, 0, pids, PROCESSES_MAX, &cnt);
	for (size_t i = 0; i < cnt && found < max; i++) {
		if (pids[i] != number && !dlp_proc_status(root, pids[i], &status) &&
		    status.inside == number && dlp_proc_has_torch(root, pids[i]))
			ret[found++] = pids[i];
	}
	return found;
}

/* The argument behind `word`, NULL at the end. The list is terminated by the reader of cmdline. */
static const char *next_word(const struct process *process, const char *word)
{
	const char *next = word + strlen(word) + 1;

	return next < process->cmdline + process->cmdline_bytes ? next : NULL;
}

/* What Python was told to run: the script's base name or the module; NULL: neither. */
static const char *python_program(const struct process *process)
{
	const char *word = process->cmdline_bytes ? next_word(process, process->cmdline) : NULL;
	const char *slash;

	for (; word; word = next_word(process, word)) {
		if (!strcmp(word, "-m"))
			return next_word(process, word);
		if (!strcmp(word, "-c"))
			return NULL;
		if (!strcmp(word, "-X") || !strcmp(word, "-W")) {
			word = next_word(process, word);
			if (!word)
				return NULL;
			continue;
		}
		if (word[0] == '-')
			continue;
		slash = strrchr(word, '/');
		return slash ? slash + 1 : word;
	}
	return NULL;
}

static bool is_launcher(const struct process *process)
{
	static const char *const names[] = {
		"torchrun",
		"torch.distributed.run",
		"torch.distributed.launch",
		"accelerate",
		"accelerate-launch",
		"accelerate.commands.launch",
		"deepspeed",
		"deepspeed.launcher.runner",
		"deepspeed.launcher.launch",
	};
	const char *program = python_program(process);

	for (size_t i = 0; program && i < DLP_ARRAY_SIZE(names); i++) {
		if (!strcmp(program, names[i]))
			return true;
	}
	return false;
}

bool dlp_proc_is_launcher(const char *root, pid_t pid)
{
	_cleanup_free_ struct process *process = malloc(sizeof(*process));

	return process && !read_process(root, pid, process) && is_launcher(process);
}

bool dlp_proc_may_train(const char *root, pid_t pid)
{
	_cleanup_free_ struct process *process = malloc(sizeof(*process));
	_cleanup_free_ struct process *parent = malloc(sizeof(*parent));

	if (!process || !parent || read_process(root, pid, process))
		return false;
	if (has_worker_name(process) || is_spawned(process) || runs_forkserver(process) ||
	    is_resource_tracker(process) || is_launcher(process))
		return false;
	return read_process(root, process->stat.ppid, parent) || !is_fork_of(process, parent);
}
