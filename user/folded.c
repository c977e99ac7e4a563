/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "folded.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "timeline.h"
#include "util.h"

#define NONE UINT32_MAX
/* Positions of the two roots. */
#define TRAINER 0u
#define WORKER 1u
/* In a track's tag, beside the position: the frame is a GetNext call. */
#define IN_CALL (1u << 31)
#define FRAME_MAX 128
#define STACK_MAX (FRAME_MAX * (DLP_TRACK_DEPTH_MAX + 1))

/* One stack: its last frame, below the stack of the frames before. */
struct node {
	uint32_t parent, child, sibling; /* positions; NONE */
	char text[FRAME_MAX];
	double ns; /* spent in the last frame itself */
};

struct tree {
	struct node *node;
	uint32_t node_cnt, room;
};

/* No separator inside a frame, nothing that ends the line. */
static void frame_text(char *dst, size_t size, const char *label)
{
	dlp_sanitise(dst, size, label, DLP_LABEL_MAX);
	if (!*dst)
		(void)snprintf(dst, size, "scope");
	for (; *dst; dst++) {
		if (*dst == ';')
			*dst = ':';
	}
}

static uint32_t add(struct tree *tree, uint32_t parent, const char *text)
{
	struct node *node;

	if (tree->node_cnt == tree->room) {
		uint32_t room = tree->room ? tree->room * 2 : 64;

		node = realloc(tree->node, room * sizeof(*node));
		if (!node)
			return NONE;
		tree->node = node;
		tree->room = room;
	}
	node = &tree->node[tree->node_cnt];
	*node = (struct node){ .parent = parent, .child = NONE, .sibling = NONE };
	(void)snprintf(node->text, sizeof(node->text), "%s", text);
	if (parent != NONE) {
		node->sibling = tree->node[parent].child;
		tree->node[parent].child = tree->node_cnt;
	}
	return tree->node_cnt++;
}

/* The stack of `parent` and this frame; NONE = out of memory. */
static uint32_t enter(struct tree *tree, uint32_t parent, const char *text)
{
	for (uint32_t at = tree->node[parent].child; at != NONE; at = tree->node[at].sibling) {
		if (!strcmp(tree->node[at].text, text))
			return at;
	}
	return tree->node_cnt < DLP_FOLDED_STACKS_MAX ? add(tree, parent, text) : parent;
}

/* The part of a slice that lies in the window. */
static double part_inside(const struct dlp_history *history, const struct dlp_slice *slice)
{
	uint64_t from = slice->start_ns, to = slice->end_ns;

	if (from >= to)
		return 0;
	from = from > history->start_ns ? from : history->start_ns;
	to = history->end_ns && to > history->end_ns ? history->end_ns : to;
	return to > from ? (double)(to - from) / (double)(slice->end_ns - slice->start_ns) : 0;
}

static const char *label_of(const struct dlp_history *history, const struct dlp_slice *slice)
{
	const struct dlp_model *model = history->model;

	if (slice->kind == DLP_SLICE_SCOPE)
		return slice->scope->label < history->label_cnt ?
			       history->labels[slice->scope->label] : "";
	if (slice->call->loader && slice->call->loader <= model->loader_cnt)
		return dlp_model_label(model, model->loaders[slice->call->loader - 1].label);
	return "GetNext";
}

/*
 * A scope knows how much of it lies in nested ones, sampled or not; a call does not, so what is
 * nested in it is taken off, as many times as it stands for.
 */
static void charge(struct tree *tree, const struct dlp_slice *slice, double part, uint32_t own_tag,
		   uint32_t parent_tag)
{
	double ns = (double)(slice->end_ns - slice->start_ns), own = ns, times = 1;

	if (slice->kind == DLP_SLICE_SCOPE) {
		own = fmax(0, ns - (double)slice->scope->child_ns);
		times = slice->scope->weight ? slice->scope->weight : 1;
	}
	tree->node[own_tag & ~IN_CALL].ns += own * part * times;
	if (parent_tag & IN_CALL)
		tree->node[parent_tag & ~IN_CALL].ns -= ns * part * times;
}

/* 0 or -ENOMEM. */
static int take(struct tree *tree, const struct dlp_history *history, const struct dlp_slice *slice)
{
	struct dlp_track *track = slice->track;
	uint32_t level = track->depth - 1, at;
	uint32_t parent = level ? track->tag[level - 1] :
			  track->pid == history->model->trainer_pid ? TRAINER : WORKER;
	char text[sizeof(tree->node->text)];

	/* no scopes of the job: what is nested in them belongs to what is around them */
	track->tag[level] = parent;
	if (slice->kind == DLP_SLICE_PRODUCTION || slice->kind == DLP_SLICE_INIT)
		return 0;
	frame_text(text, sizeof(text), label_of(history, slice));
	at = enter(tree, parent & ~IN_CALL, text);
	if (at == NONE)
		return -ENOMEM;
	if (slice->kind == DLP_SLICE_CALL)
		at |= IN_CALL;
	track->tag[level] = at;
	charge(tree, slice, part_inside(history, slice), at, parent);
	return 0;
}

/* The whole stack of a node, the outermost frame first. */
static void spell(const struct tree *tree, uint32_t at, char *buf, size_t size)
{
	uint32_t path[DLP_TRACK_DEPTH_MAX + 1] = { 0 }, depth = 0;
	size_t used = 0;

	for (; at != NONE && depth < DLP_ARRAY_SIZE(path); at = tree->node[at].parent)
		path[depth++] = at;
	while (depth-- && used < size) {
		int got = snprintf(buf + used, size - used, "%s%s", used ? ";" : "",
				   tree->node[path[depth]].text);

		used += got > 0 ? (size_t)got : 0;
	}
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Lines of the tree's nodes that have time of their own, sorted. 0 or -ENOMEM. */
static int print(FILE *file, const struct tree *tree)
{
	char **line = calloc(tree->node_cnt, sizeof(*line)), text[STACK_MAX];
	uint32_t line_cnt = 0;
	int err = line ? 0 : -ENOMEM;

	for (uint32_t i = 0; !err && i < tree->node_cnt; i++) {
		double us = round(tree->node[i].ns / 1e3);

		if (us < 1)
			continue;
		spell(tree, i, text, sizeof(text));
		if (asprintf(&line[line_cnt], "%s %.0f", text, us) < 0)
			err = -ENOMEM;
		else
			line_cnt++;
	}
	if (!err)
		qsort(line, line_cnt, sizeof(*line), by_text);
	for (uint32_t i = 0; i < line_cnt; i++) {
		if (!err)
			fprintf(file, "%s\n", line[i]);
		free(line[i]);
	}
	free(line);
	return err;
}

static int fill(struct tree *tree, const struct dlp_history *history)
{
	struct dlp_timeline *timeline;
	struct dlp_slice slice;
	int err;

	/* in this order: TRAINER, WORKER */
	if (add(tree, NONE, "trainer") == NONE || add(tree, NONE, "worker") == NONE)
		return -ENOMEM;
	err = dlp_timeline_new(&timeline, history);
	if (err)
		return err;
	while ((err = dlp_timeline_next(timeline, &slice)) > 0) {
		err = take(tree, history, &slice);
		if (err)
			break;
	}
	dlp_timeline_free(timeline);
	return err;
}

int dlp_folded_write(FILE *file, const struct dlp_history *history)
{
	struct tree tree = { 0 };
	int err;

	err = fill(&tree, history);
	if (!err)
		err = print(file, &tree);
	free(tree.node);
	if (!err && fflush(file))
		err = -errno;
	return err || !ferror(file) ? err : -EIO;
}
