/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * libFuzzer target: the text files of /proc, /sys and the control groups, in a made-up root. An
 * input is the files one after the other, each ended by a byte 0xff.
 */
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/tree.h"
#include "mapped.h"
#include "proc_role.h"
#include "rank_env.h"
#include "sysfacts.h"
#include "target.h"
#include "util.h"
#include "version.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

#define TEXT_PID 10

/* The order is that of the parts of an input: new ones go to the end. */
static const char *const text_files[] = {
	"proc/10/stat",
	"proc/10/status",
	"proc/10/cmdline",
	"proc/10/maps",
	"proc/10/cgroup",
	"proc/self/mountinfo",
	"proc/10/io",
	"proc/10/task/10/children",
	"proc/stat",
	"proc/meminfo",
	"proc/vmstat",
	"proc/pressure/cpu",
	"sys/devices/system/cpu/online",
	"sys/fs/cgroup/g/cpu.max",
	"sys/fs/cgroup/g/cpu.stat",
	"sys/fs/cgroup/g/memory.max",
	"sys/fs/cgroup/g/memory.current",
	"proc/11/stat",
	"proc/11/cmdline",
	"proc/11/maps",
	"proc/10/environ",
	"sys/fs/cgroup/g/cpu.cfs_quota_us",
	"sys/fs/cgroup/g/cpu.cfs_period_us",
	"sys/fs/cgroup/g/memory.limit_in_bytes",
	"sys/fs/cgroup/g/memory.usage_in_bytes",
};

static struct tree text_tree;

static void text_remove(void)
{
	tree_fini(&text_tree);
}

/* In memory where that can be: ext4 waits for the disk when a file is written anew. */
static void text_make_tree(void)
{
	static const char place[] = "/dev/shm/dlprof-fuzz-XXXXXX";

	memcpy(text_tree.path, place, sizeof(place));
	if (!mkdtemp(text_tree.path))
		tree_init(&text_tree);
	(void)atexit(text_remove);
}

static void text_write(const uint8_t *data, size_t bytes)
{
	for (size_t i = 0; i < DLP_ARRAY_SIZE(text_files); i++) {
		const uint8_t *end = bytes ? memchr(data, 0xff, bytes) : NULL;
		size_t len = end ? (size_t)(end - data) : bytes;

		tree_write(&text_tree, text_files[i], data, len);
		if (end)
			len++;
		data += len;
		bytes -= len;
	}
}

static void text_read_process(const char *root, pid_t pid)
{
	_cleanup_maps_ struct dlp_proc_maps maps = { 0 };
	struct dlp_proc_status status;
	struct dlp_proc_stat stat;
	enum dlp_proc_role role;
	size_t cnt;
	struct dlp_rank_env rank;
	uint64_t read_bytes;
	pid_t pids[8], trainer;
	char text[256];

	if (!dlp_proc_stat(root, pid, &stat)) {
		if (!memchr(stat.comm, '\0', sizeof(stat.comm)))
			abort();
		(void)dlp_proc_born_ns(stat.start_ticks);
	}
	(void)dlp_proc_status(root, pid, &status);
	if (!dlp_proc_cmdline(root, pid, text, sizeof(text), &cnt) && cnt > sizeof(text))
		abort();
	if (!dlp_proc_container(root, pid, text, sizeof(text)) && !memchr(text, '\0', sizeof(text)))
		abort();
	(void)dlp_proc_read_bytes(root, pid, &read_bytes);
	dlp_rank_env_get(root, pid, &rank);
	if (rank.rank < -1 || rank.local_size < 1)
		abort();
	if (!dlp_proc_family(root, pid, pids, DLP_ARRAY_SIZE(pids), &cnt) &&
	    cnt > DLP_ARRAY_SIZE(pids))
		abort();
	(void)dlp_proc_descendants(root, pid, pids, DLP_ARRAY_SIZE(pids), &cnt);
	(void)dlp_proc_role(root, TEXT_PID, pid, &role);
	(void)dlp_proc_trainer_of(root, pid, true, &trainer);
	(void)dlp_proc_is_launcher(root, pid);
	(void)dlp_proc_may_train(root, pid);
	if (dlp_proc_maps_read(root, pid, &maps))
		return;
	for (unsigned int i = 0; i <= DLP_MAPPED_LIBPTHREAD; i++)
		(void)dlp_mapped_find(&maps, (enum dlp_mapped_name)i);
	(void)dlp_version_is_free_threaded(&maps);
}

static void text_read_system(const char *root)
{
	struct dlp_sysfacts *facts;
	struct dlp_ev_system event;

	if (dlp_sysfacts_new(root, TEXT_PID, &facts))
		abort();
	/* twice: the second time it knows what there was before */
	for (int i = 0; i < 2; i++)
		dlp_sysfacts_read(facts, 1, &event);
	dlp_sysfacts_free(facts);
}

static void text_read_version(const uint8_t *data, size_t bytes)
{
	_cleanup_free_ char *text = malloc(bytes + 1);
	struct dlp_version version;

	if (!text)
		abort();
	if (bytes)
		memcpy(text, data, bytes);
	text[bytes] = '\0';
	if (dlp_version_from_py(text, &version) &&
	    !memchr(version.text, '\0', sizeof(version.text)))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct dlp_target_failure failure;
	struct dlp_target target;

	if (!*text_tree.path)
		text_make_tree();
	text_write(data, bytes);
	text_read_process(text_tree.path, TEXT_PID);
	text_read_process(text_tree.path, TEXT_PID + 1);
	text_read_system(text_tree.path);
	(void)dlp_target_open(text_tree.path, TEXT_PID, &target, &failure);
	text_read_version(data, bytes);
	return 0;
}
