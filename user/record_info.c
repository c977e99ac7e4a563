/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "record_info.h"

#include <errno.h>
#include <string.h>

#include "util.h"

/* A replay that does not know a fact gives another summary than the live run. */
_Static_assert(sizeof(struct dlp_summary_facts) == 96,
	       "facts have changed: let struct dlp_rec_info keep them, then correct this size");

/* The least that a target is known by. */
#define INFO_LEAST offsetof(struct dlp_rec_info, comm)

static void pack(char *to, size_t size, const char *text)
{
	if (text)
		memcpy(to, text, strnlen(text, size - 1));
}

static void pack_target(const struct dlp_target *target, struct dlp_rec_info *ret)
{
	ret->pid = (uint32_t)target->pid;
	pack(ret->comm, sizeof(ret->comm), target->comm);
	pack(ret->cmdline, sizeof(ret->cmdline), target->cmdline);
	pack(ret->python, sizeof(ret->python), target->python.text);
	pack(ret->torch, sizeof(ret->torch), target->torch.text);
	pack(ret->container, sizeof(ret->container), target->container);
}

void dlp_info_pack(const struct dlp_summary_facts *facts, struct dlp_rec_info *ret)
{
	memset(ret, 0, sizeof(*ret));
	if (facts->target)
		pack_target(facts->target, ret);
	ret->cpus = facts->cpus;
	ret->cpus_allowed = facts->cpus_allowed;
	ret->scope_probe_cnt = (uint32_t)facts->scope_probe_cnt;
	ret->launched_ns = facts->launched_ns;
	ret->block_seen = facts->block_seen;
	ret->waits_seen = facts->waits_seen;
	ret->process_seen = facts->process_seen;
	pack(ret->scope_rung, sizeof(ret->scope_rung), facts->scope_rung);
	pack(ret->queue_rung, sizeof(ret->queue_rung), facts->queue_rung);
	pack(ret->clock_rung, sizeof(ret->clock_rung), facts->clock_rung);
	for (size_t i = 0; i < facts->missing_cnt && i < DLP_REC_MISSING_MAX; i++) {
		struct dlp_rec_missing *missing = &ret->missing[ret->missing_cnt++];

		pack(missing->name, sizeof(missing->name), facts->missing[i].name);
		missing->figures = facts->missing[i].figures;
	}
}

static void unpack_target(const struct dlp_rec_info *info, struct dlp_target *ret)
{
	ret->pid = (pid_t)info->pid;
	pack(ret->comm, sizeof(ret->comm), info->comm);
	pack(ret->cmdline, sizeof(ret->cmdline), info->cmdline);
	pack(ret->python.text, sizeof(ret->python.text), info->python);
	pack(ret->torch.text, sizeof(ret->torch.text), info->torch);
	pack(ret->container, sizeof(ret->container), info->container);
}

static void terminate(struct dlp_rec_info *info)
{
	char *const ends[] = {
		&info->comm[sizeof(info->comm) - 1],
		&info->cmdline[sizeof(info->cmdline) - 1],
		&info->python[sizeof(info->python) - 1],
		&info->torch[sizeof(info->torch) - 1],
		&info->container[sizeof(info->container) - 1],
		&info->scope_rung[sizeof(info->scope_rung) - 1],
		&info->queue_rung[sizeof(info->queue_rung) - 1],
		&info->clock_rung[sizeof(info->clock_rung) - 1],
	};

	for (size_t i = 0; i < DLP_ARRAY_SIZE(ends); i++)
		*ends[i] = '\0';
	for (size_t i = 0; i < DLP_REC_MISSING_MAX; i++)
		info->missing[i].name[sizeof(info->missing[i].name) - 1] = '\0';
}

static const char *known(const char *text)
{
	return *text ? text : NULL;
}

int dlp_info_unpack(const void *data, size_t bytes, struct dlp_replay_facts *ret)
{
	struct dlp_summary_facts *facts = &ret->facts;
	struct dlp_rec_info *info = &ret->info;

	if (bytes < INFO_LEAST)
		return -EBADMSG;
	memset(ret, 0, sizeof(*ret));
	memcpy(info, data, bytes < sizeof(*info) ? bytes : sizeof(*info));
	terminate(info);
	if (info->pid > INT32_MAX || info->missing_cnt > DLP_REC_MISSING_MAX)
		return -EBADMSG;
	unpack_target(info, &ret->target);
	facts->target = &ret->target;
	facts->cpus = info->cpus;
	facts->cpus_allowed = info->cpus_allowed;
	facts->scope_probe_cnt = info->scope_probe_cnt;
	facts->launched_ns = info->launched_ns;
	facts->block_seen = info->block_seen;
	facts->waits_seen = info->waits_seen;
	facts->process_seen = info->process_seen;
	facts->scope_rung = known(info->scope_rung);
	facts->queue_rung = known(info->queue_rung);
	facts->clock_rung = known(info->clock_rung);
	for (uint32_t i = 0; i < info->missing_cnt; i++) {
		ret->missing[i].name = info->missing[i].name;
		ret->missing[i].figures = info->missing[i].figures;
	}
	facts->missing = ret->missing;
	facts->missing_cnt = info->missing_cnt;
	return 0;
}
