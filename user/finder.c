/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "finder.h"

#include "proc_role.h"
#include "procfs.h"
#include "util.h"

/* A wrapper, a shell and a trainer with workers are ten; a family of more is looked at in part. */
#define FAMILY_MAX 256
/*
 * libtorch_python is mapped before the libraries it needs. Locally that takes milliseconds
 * (measured: 0 to 11), from a network file system seconds.
 */
#define SETTLE_NS (5 * DLP_NS_PER_S)
/*
 * `import torch` goes on for about a second after its libraries are mapped (measured: 1.0 to 1.5),
 * and somewhere in it pickle is imported, which the queue's probes need.
 */
#define QUEUE_NS (300 * DLP_NS_PER_MS)

static void forget_gone(struct dlp_finder *finder)
{
	struct dlp_proc_stat stat;
	size_t kept = 0;

	for (size_t i = 0; i < finder->known_cnt; i++) {
		if (!dlp_proc_stat(finder->root, finder->known[i].pid, &stat))
			finder->known[kept++] = finder->known[i];
	}
	finder->known_cnt = kept;
}

/* NULL when there is no room. */
static struct dlp_finder_entry *entry_of(struct dlp_finder *finder, pid_t pid, uint64_t now_ns)
{
	struct dlp_finder_entry *entry;

	for (size_t i = 0; i < finder->known_cnt; i++) {
		if (finder->known[i].pid == pid)
			return &finder->known[i];
	}
	if (finder->known_cnt == DLP_FINDER_KNOWN)
		forget_gone(finder);
	if (finder->known_cnt == DLP_FINDER_KNOWN)
		return NULL;
	entry = &finder->known[finder->known_cnt++];
	*entry = (struct dlp_finder_entry){ .pid = pid, .since_ns = now_ns };
	return entry;
}

static enum dlp_found try(struct dlp_finder *finder, struct dlp_finder_entry *entry,
			  uint64_t now_ns, struct dlp_target *target,
			  struct dlp_target_failure *failure)
{
	uint64_t age_ns = now_ns - entry->since_ns;

	if (!dlp_target_open(finder->root, entry->pid, target, failure)) {
		finder->pending = (struct dlp_target_failure){ 0 };
		return *target->queue_note && age_ns < QUEUE_NS ? DLP_FOUND_NOTHING :
								  DLP_FOUND_TRAINER;
	}
	switch (failure->err) {
	case DLP_TARGET_NO_PROCESS:
	case DLP_TARGET_NO_TORCH:
	case DLP_TARGET_IS_WORKER:
		return DLP_FOUND_NOTHING;
	case DLP_TARGET_DENIED:
		break;
	default:
		if (age_ns >= SETTLE_NS)
			break;
		finder->pending = *failure;
		return DLP_FOUND_NOTHING;
	}
	finder->pending = (struct dlp_target_failure){ 0 };
	entry->dropped = true;
	return DLP_FOUND_REFUSED;
}

enum dlp_found dlp_finder_look(struct dlp_finder *finder, uint64_t now_ns,
			       struct dlp_target *target, struct dlp_target_failure *failure)
{
	pid_t pids[FAMILY_MAX] = { finder->command };
	size_t cnt = 0;

	/* where the list is cut off, the older ones are in it */
	(void)dlp_proc_family(finder->root, finder->command, pids + 1, FAMILY_MAX - 1, &cnt);
	for (size_t i = 0; i <= cnt; i++) {
		struct dlp_finder_entry *entry;
		enum dlp_found found;

		if (!dlp_proc_has_torch(finder->root, pids[i]) ||
		    !dlp_proc_may_train(finder->root, pids[i]))
			continue;
		entry = entry_of(finder, pids[i], now_ns);
		if (!entry || entry->dropped)
			continue;
		found = try(finder, entry, now_ns, target, failure);
		if (found != DLP_FOUND_NOTHING)
			return found;
	}
	return DLP_FOUND_NOTHING;
}

void dlp_finder_drop(struct dlp_finder *finder, pid_t pid)
{
	struct dlp_finder_entry *entry = entry_of(finder, pid, 0);

	if (entry)
		entry->dropped = true;
}
