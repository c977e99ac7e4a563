/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What a launcher (torchrun, accelerate, deepspeed) has told a training process of its job. */
#ifndef DLP_RANK_ENV_H
#define DLP_RANK_ENV_H

#include <stdbool.h>
#include <sys/types.h>

struct dlp_rank_env {
	int rank;	/* RANK, else LOCAL_RANK; -1 = it was not told one */
	int local_size; /* ranks on this machine, itself included: LOCAL_WORLD_SIZE, else WORLD_SIZE */
	bool restarts; /* ranks that fail are started anew: TORCHELASTIC_MAX_RESTARTS is above 0 */
};

/*
 * From the environment that the process was started with; what it has set itself since is not seen.
 * Never fails: what cannot be read, or is no number, was not told (local_size 1). `root` as in
 * procfs.h.
 */
void dlp_rank_env_get(const char *root, pid_t pid, struct dlp_rank_env *ret);

#endif /* DLP_RANK_ENV_H */
