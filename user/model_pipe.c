/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The model's table of index pipes, and on each the messages that wait to be read. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "model_priv.h"

struct dlp_ask *dlp_ask_at(const struct dlp_pipe *pipe, size_t at)
{
	return &pipe->ask[(pipe->head + at) & (pipe->room - 1)];
}

void dlp_ask_pop(struct dlp_model *model, struct dlp_pipe *pipe, size_t cnt)
{
	pipe->head = (pipe->head + cnt) & (pipe->room - 1);
	pipe->cnt -= cnt;
	pipe->taken -= cnt < pipe->taken ? cnt : pipe->taken;
	model->priv->ask_cnt -= cnt;
}

int dlp_ask_push(struct dlp_model *model, struct dlp_pipe *pipe, const struct dlp_ask *ask)
{
	struct dlp_ask *grown;
	size_t room;

	if (pipe->cnt >= DLP_PIPE_ASK_MAX) {
		model->dropped_cnt++;
		dlp_ask_pop(model, pipe, 1);
	} else if (model->priv->ask_cnt >= DLP_ASK_TOTAL_MAX) {
		model->dropped_cnt++;
		return 0;
	}
	if (pipe->cnt == pipe->room) {
		room = pipe->room ? pipe->room * 2 : 8;
		grown = malloc(room * sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		for (size_t i = 0; i < pipe->cnt; i++)
			grown[i] = *dlp_ask_at(pipe, i);
		free(pipe->ask);
		pipe->ask = grown;
		pipe->room = room;
		pipe->head = 0;
	}
	*dlp_ask_at(pipe, pipe->cnt++) = *ask;
	model->priv->ask_cnt++;
	return 0;
}

struct dlp_pipe *dlp_pipe_find(struct dlp_model *model, uint64_t inode)
{
	uint32_t at = inode ? dlp_map_get(&model->priv->by_index, inode) : DLP_MAP_NONE;

	return at == DLP_MAP_NONE ? NULL : &model->priv->pipes[at];
}

/* Those of ended iterators go, and of those nobody is known to read the older half. */
static void drop_pipes(struct dlp_model *model)
{
	struct dlp_model_priv *priv = model->priv;
	size_t half = priv->pipe_cnt / 2, kept = 0;

	dlp_map_clear(&priv->by_index);
	for (size_t i = 0; i < priv->pipe_cnt; i++) {
		struct dlp_pipe *pipe = &priv->pipes[i];
		const struct dlp_iterator *it = dlp_iterator_find(model, pipe->iterator);

		if (it ? it->ended : i < half) {
			priv->ask_cnt -= pipe->cnt;
			free(pipe->ask);
			continue;
		}
		/* fits: the table was as large a moment ago */
		(void)dlp_map_put(&priv->by_index, pipe->inode, (uint32_t)kept);
		priv->pipes[kept++] = *pipe;
	}
	priv->pipe_cnt = kept;
}

struct dlp_pipe *dlp_pipe_get(struct dlp_model *model, uint64_t inode, int *err)
{
	struct dlp_model_priv *priv = model->priv;
	struct dlp_pipe *pipe = dlp_pipe_find(model, inode);

	*err = 0;
	if (pipe)
		return pipe;
	if (priv->pipe_cnt >= DLP_PIPES_MAX)
		drop_pipes(model);
	if (priv->pipe_cnt >= DLP_PIPES_MAX) {
		model->dropped_cnt++;
		return NULL;
	}
	*err = dlp_grow(&priv->pipes, &priv->pipe_room, priv->pipe_cnt, sizeof(*pipe));
	if (!*err)
		*err = dlp_map_put(&priv->by_index, inode, (uint32_t)priv->pipe_cnt);
	if (*err)
		return NULL;
	pipe = &priv->pipes[priv->pipe_cnt++];
	memset(pipe, 0, sizeof(*pipe));
	pipe->inode = inode;
	pipe->first_index = pipe->last_index = -1;
	return pipe;
}

void dlp_pipe_reset(struct dlp_model *model, struct dlp_pipe *pipe)
{
	model->priv->ask_cnt -= pipe->cnt;
	free(pipe->ask);
	*pipe = (struct dlp_pipe){ .inode = pipe->inode, .first_index = -1, .last_index = -1 };
}

void dlp_queues_fini(struct dlp_model *model)
{
	for (size_t i = 0; i < model->priv->pipe_cnt; i++)
		free(model->priv->pipes[i].ask);
	free(model->priv->pipes);
	dlp_map_fini(&model->priv->by_index);
}
