/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Whatever ends a session, nothing of it stays: no program, link or map in the kernel, no
 * breakpoint in the target; and the target runs on. Told by the ids that the kernel gave to what
 * this session holds, since others may be watching other jobs at the same time.
 */
#include "harness.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>

/* The kernel frees after grace periods, in the background. */
#define GONE_WITHIN_NS (20 * DLP_NS_PER_S)
#define IDS_MAX 128

enum object { PROG, LINK, MAP, OBJECT_MAX };

static const char *const keys[OBJECT_MAX] = { "prog_id:", "link_id:", "map_id:" };

struct ids {
	uint32_t id[OBJECT_MAX][IDS_MAX];
	size_t cnt[OBJECT_MAX];
};

static struct bt_job job;

static struct shared {
	int ready; /* 1 = attached, -1 = refused */
	char why[400];
} *shared;

static int close_job(void **state)
{
	(void)state;
	bt_job_close(&job);
	return 0;
}

static void add_ids(FILE *info, struct ids *ids)
{
	char line[256];

	while (fgets(line, sizeof(line), info)) {
		for (int kind = 0; kind < OBJECT_MAX; kind++) {
			uint32_t id;
			bool known = false;

			if (strncmp(line, keys[kind], strlen(keys[kind])) ||
			    sscanf(line + strlen(keys[kind]), "%u", &id) != 1)
				continue;
			for (size_t i = 0; i < ids->cnt[kind]; i++)
				known = known || ids->id[kind][i] == id;
			if (!known && ids->cnt[kind] < IDS_MAX)
				ids->id[kind][ids->cnt[kind]++] = id;
		}
	}
}

/* All BPF objects the process holds. */
static void held_by(pid_t pid, struct ids *ids)
{
	char path[64 + sizeof(((struct dirent *)0)->d_name)];
	struct dirent *entry;
	DIR *dir;

	memset(ids, 0, sizeof(*ids));
	snprintf(path, sizeof(path), "/proc/%d/fdinfo", (int)pid);
	dir = opendir(path);
	assert_non_null(dir);
	while ((entry = readdir(dir))) {
		FILE *info;

		snprintf(path, sizeof(path), "/proc/%d/fdinfo/%s", (int)pid, entry->d_name);
		info = fopen(path, "re");
		if (!info)
			continue;
		add_ids(info, ids);
		fclose(info);
	}
	closedir(dir);
}

static bool exists(enum object kind, uint32_t id)
{
	int fd = kind == PROG ? bpf_prog_get_fd_by_id(id) :
		 kind == LINK ? bpf_link_get_fd_by_id(id) :
				bpf_map_get_fd_by_id(id);

	if (fd >= 0)
		close(fd);
	return fd >= 0 || errno != ENOENT;
}

static void assert_held(const struct ids *ids)
{
	for (int kind = 0; kind < OBJECT_MAX; kind++) {
		/* or the rest proves nothing */
		assert_true(ids->cnt[kind] >= 4);
		for (size_t i = 0; i < ids->cnt[kind]; i++)
			assert_true(exists((enum object)kind, ids->id[kind][i]));
	}
}

static void assert_gone(const struct ids *ids)
{
	uint64_t until = dlp_now_ns() + GONE_WITHIN_NS;

	for (int kind = 0; kind < OBJECT_MAX; kind++) {
		for (size_t i = 0; i < ids->cnt[kind]; i++) {
			while (exists((enum object)kind, ids->id[kind][i])) {
				if (dlp_now_ns() > until)
					fail_msg("%s %u is still there", keys[kind],
						 ids->id[kind][i]);
				bt_sleep_ns(10 * BT_MS);
			}
		}
	}
}

static uint8_t first_byte(void (*point)(void))
{
	return *(volatile const uint8_t *)point;
}

/* The probes are in the file, so the breakpoint shows in every process that has it mapped. */
static void assert_unprobed(uint8_t before)
{
	uint64_t until = dlp_now_ns() + GONE_WITHIN_NS;

	while (first_byte(bt_point_exit) != before) {
		if (dlp_now_ns() > until)
			fail_msg("the breakpoint is still there");
		bt_sleep_ns(10 * BT_MS);
	}
}

static const struct bt_setup everything = { .probes = BT_PROBE_SCOPE | BT_PROBE_QUEUE };

static void one_scope(void *arg)
{
	*(int *)arg += 1;
	bt_enter("label");
	bt_exit();
}

static void after_free(void **state)
{
	int *calls = bt_shared(sizeof(*calls));
	uint8_t before = first_byte(bt_point_exit);
	struct ids ids;

	(void)state;
	bt_job_open(&job, &everything);
	held_by(getpid(), &ids);
	assert_held(&ids);
	assert_int_not_equal(first_byte(bt_point_exit), before);
	bt_call(&job, one_scope, calls);
	bt_job_close_session(&job);
	assert_gone(&ids);
	assert_unprobed(before);
	bt_call(&job, one_scope, calls);
	assert_int_equal(*calls, 2);
}

/* A process of its own, as the tool is, that holds the session until it is killed. */
static void hold(void *arg)
{
	(void)arg;
	if (!bt_job_observe(&job, &everything)) {
		snprintf(shared->why, sizeof(shared->why), "%s", job.failure.text);
		__atomic_store_n(&shared->ready, -1, __ATOMIC_RELEASE);
		return;
	}
	__atomic_store_n(&shared->ready, 1, __ATOMIC_RELEASE);
	for (;;)
		pause();
}

static void after_sigkill(void **state)
{
	int *calls = bt_shared(sizeof(*calls));
	uint8_t before = first_byte(bt_point_exit);
	struct ids ids;
	pid_t holder;

	(void)state;
	if (geteuid())
		bt_skip("needs root");
	memset(shared, 0, sizeof(*shared));
	bt_job_start(&job);
	holder = bt_fork(hold, NULL);
	while (!__atomic_load_n(&shared->ready, __ATOMIC_ACQUIRE))
		bt_sleep_ns(BT_MS);
	if (shared->ready < 0)
		bt_skip("%s", shared->why);
	held_by(holder, &ids);
	assert_held(&ids);
	assert_int_not_equal(first_byte(bt_point_exit), before);
	bt_call(&job, one_scope, calls);
	kill(holder, SIGKILL);
	bt_reap(holder);
	assert_gone(&ids);
	assert_unprobed(before);
	bt_call(&job, one_scope, calls);
	assert_int_equal(*calls, 2);
}

/* A session that was opened but never attached, and one that could not be. */
static void after_half_a_session(void **state)
{
	const struct dlp_session_opts opts = { .target = &job.target, .long_wait_ns = BT_MS,
					       .ring_bytes = 1u << 16 };
	struct dlp_session *session;
	struct ids ids;

	(void)state;
	if (geteuid())
		bt_skip("needs root");
	bt_target_init(&job.target, getpid(), &everything);
	if (dlp_session_open(&opts, &session, &job.failure))
		bt_skip("%s", job.failure.text);
	held_by(getpid(), &ids);
	assert_true(ids.cnt[PROG] >= 4 && ids.cnt[MAP] >= 4);
	assert_int_equal(ids.cnt[LINK], 0);
	dlp_session_free(session);
	assert_gone(&ids);
	/* attaching fails half way, with nothing to see GetNext by */
	job.target.probe_cnt = 0;
	assert_int_equal(dlp_session_open(&opts, &session, &job.failure), 0);
	assert_int_equal(dlp_session_attach(session, &job.failure), -1);
	held_by(getpid(), &ids);
	assert_held(&ids);
	dlp_session_free(session);
	assert_gone(&ids);
	held_by(getpid(), &ids);
	assert_int_equal(ids.cnt[PROG] + ids.cnt[MAP] + ids.cnt[LINK], 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(after_free, close_job),
		cmocka_unit_test_teardown(after_sigkill, close_job),
		cmocka_unit_test_teardown(after_half_a_session, close_job),
	};

	shared = bt_shared(sizeof(*shared));
	return cmocka_run_group_tests_name("leftover", tests, NULL, NULL);
}
