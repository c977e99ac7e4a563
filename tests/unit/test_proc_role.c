/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The roles of a job's processes, and which of them was meant, in a made-up /proc. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "proc_role.h"
#include "procfs.h"
#include "tree_fixture.h"
#include "util.h"

#define PYTHON "/usr/bin/python3.11"
#define TRAIN "python|train.py|--epochs|3"
#define SPAWN                                                                                      \
	"python|-c|from multiprocessing.spawn import spawn_main; spawn_main(5, 7)"                 \
	"|--multiprocessing-fork"
#define TRACKER "python|-c|from multiprocessing.resource_tracker import main;main(5)"
#define FORKSERVER "python|-c|from multiprocessing.forkserver import main; main(8, 9, [])"

static void add(int pid, int ppid, const char *comm, const char *cmdline)
{
	tree_add_process(&tree, &(struct tree_process){ .pid = pid,
							.ppid = ppid,
							.comm = comm,
							.exe = PYTHON,
							.cmdline = cmdline });
}

static void with_torch(int pid)
{
	char path[64];

	(void)snprintf(path, sizeof(path), "proc/%d/maps", pid);
	tree_text(&tree, path,
		  "7f00000000-7f00001000 r-xp 0 08:01 77 /v/torch/lib/libtorch_python.so\n");
}

/* A job with all that may be in it: 100 trains. */
static void add_job(void)
{
	add(50, 1, "bash", "bash|run.sh");
	add(100, 50, "python", TRAIN);
	add(110, 100, "pt_data_worker", TRAIN); /* fork, torch 2.5 and later */
	add(111, 100, "python", TRAIN);		/* fork, before */
	add(112, 100, "python", SPAWN);
	add(113, 100, "python", TRACKER);
	add(120, 100, "python", FORKSERVER); /* the server */
	add(121, 120, "python", FORKSERVER); /* a worker of its */
	add(122, 120, "pt_data_worker", FORKSERVER);
	add(130, 100, "ffmpeg", "ffmpeg|-i|x");
	add(131, 110, "ffmpeg", "ffmpeg|-i|x");
	add(140, 50, "python", TRAIN); /* another trainer, same command */
	add(150, 100, "pt_multiprocess", TRAIN);
	with_torch(100);
	with_torch(140);
	with_torch(111);
}

static enum dlp_proc_role role_of(pid_t pid)
{
	enum dlp_proc_role role = (enum dlp_proc_role)99;

	assert_int_equal(dlp_proc_role(tree.path, 100, pid, &role), 0);
	return role;
}

static void roles_in_a_job(void **state)
{
	static const pid_t workers[] = { 110, 111, 112, 121, 122, 150 };
	static const pid_t others[] = { 50, 113, 120, 130, 131, 140 };

	(void)state;
	add_job();
	assert_int_equal(role_of(100), DLP_ROLE_TRAINER);
	for (size_t i = 0; i < DLP_ARRAY_SIZE(workers); i++)
		assert_int_equal(role_of(workers[i]), DLP_ROLE_WORKER);
	for (size_t i = 0; i < DLP_ARRAY_SIZE(others); i++)
		assert_int_equal(role_of(others[i]), DLP_ROLE_OTHER);
}

static pid_t trainer_of(pid_t pid, bool names_workers)
{
	pid_t trainer = -1;

	assert_int_equal(dlp_proc_trainer_of(tree.path, pid, names_workers, &trainer), 0);
	return trainer;
}

static void workers_know_their_trainer(void **state)
{
	static const pid_t by_name[] = { 110, 122, 150 };
	static const pid_t by_look[] = { 111, 112, 121 };
	static const pid_t none[] = { 50, 100, 113, 120, 130, 140 };

	(void)state;
	add_job();
	for (size_t i = 0; i < DLP_ARRAY_SIZE(by_name); i++) {
		assert_int_equal(trainer_of(by_name[i], true), 100);
		assert_int_equal(trainer_of(by_name[i], false), 100);
	}
	for (size_t i = 0; i < DLP_ARRAY_SIZE(by_look); i++) {
		assert_int_equal(trainer_of(by_look[i], false), 100);
		/* where torch names its workers, others are ranks or a pool's processes */
		assert_int_equal(trainer_of(by_look[i], true), 0);
	}
	for (size_t i = 0; i < DLP_ARRAY_SIZE(none); i++)
		assert_int_equal(trainer_of(none[i], false), 0);
}

/* Not what the server starts, nor a server whose parent has no torch. */
static void fork_servers_know_their_parent(void **state)
{
	static const pid_t none[] = { 50, 100, 110, 112, 113, 121, 122, 190, 999 };

	(void)state;
	add_job();
	add(180, 100, "python", "python|prepare.py");
	add(190, 180, "python", FORKSERVER);
	assert_int_equal(dlp_proc_forkserver_of(tree.path, 120), 100);
	for (size_t i = 0; i < DLP_ARRAY_SIZE(none); i++)
		assert_int_equal(dlp_proc_forkserver_of(tree.path, none[i]), 0);
	with_torch(180);
	assert_int_equal(dlp_proc_forkserver_of(tree.path, 190), 180);
}

/* A dataset that forks: its children have their worker's name and command line. */
static void forks_of_workers_are_none(void **state)
{
	(void)state;
	add_job();
	add(160, 110, "pt_data_worker", TRAIN);
	add(161, 111, "python", TRAIN);
	add(162, 112, "python", SPAWN);
	add(163, 122, "pt_data_worker", FORKSERVER);
	add(164, 160, "pt_data_worker", TRAIN);
	/* started by a script that waits for it */
	add(170, 100, "sh", "sh|numa.sh");
	add(171, 170, "python", SPAWN);
	for (pid_t pid = 160; pid <= 164; pid++)
		assert_int_equal(role_of(pid), DLP_ROLE_OTHER);
	assert_int_equal(role_of(171), DLP_ROLE_WORKER);
}

/* Ranks of a distributed job look like workers, but have workers of their own. */
static void ranks_are_no_workers(void **state)
{
	(void)state;
	add(100, 1, "python", TRAIN);
	add(110, 100, "python", TRAIN); /* a forked rank */
	add(111, 110, "python", TRAIN); /* its worker */
	add(120, 100, "python", SPAWN); /* a spawned rank */
	add(121, 120, "python", SPAWN);
	with_torch(100);
	with_torch(110);
	with_torch(120);
	assert_int_equal(trainer_of(110, false), 0);
	assert_int_equal(trainer_of(111, false), 110);
	assert_int_equal(trainer_of(120, false), 0);
	assert_int_equal(trainer_of(121, false), 120);
}

static void what_was_meant_is_found_near(void **state)
{
	(void)state;
	add_job();
	assert_int_equal(dlp_proc_near_with_torch(tree.path, 50), 100);
	assert_int_equal(dlp_proc_near_with_torch(tree.path, 113), 100);
	add(60, 1, "bash", "bash");
	assert_int_equal(dlp_proc_near_with_torch(tree.path, 60), 0);
}

static void families_by_the_kernels_lists(void **state)
{
	pid_t found[16];
	size_t cnt;

	(void)state;
	/* without such lists the parents tell */
	add(101, 100, "a", "a");
	assert_int_equal(dlp_proc_family(tree.path, 100, found, 16, &cnt), 0);
	assert_int_equal(cnt, 1);
	assert_int_equal(found[0], 101);
	tree_text(&tree, "proc/100/task/100/children", "101 102 ");
	tree_text(&tree, "proc/100/task/177/children", "103 ");
	tree_text(&tree, "proc/101/task/101/children", "%s", "");
	tree_text(&tree, "proc/103/task/103/children", "104 ");
	/* 102 and 104 have gone */
	assert_int_equal(dlp_proc_family(tree.path, 100, found, 16, &cnt), 0);
	assert_int_equal(cnt, 4);
	assert_int_equal(found[3], 104);
	/* threads come in any order */
	assert_int_equal(found[0] + found[1] + found[2], 101 + 102 + 103);
	assert_int_equal(dlp_proc_family(tree.path, 100, found, 2, &cnt), -ENOSPC);
	assert_int_equal(cnt, 2);
	assert_int_equal(dlp_proc_family(tree.path, 101, found, 16, &cnt), 0);
	assert_int_equal(cnt, 0);
}

/* A list longer than we read ends before the number that was cut. */
static void long_families_are_cut_at_a_number(void **state)
{
	static char list[20000];
	static pid_t found[8192];
	size_t cnt, len = 0;

	(void)state;
	add(100, 1, "a", "a");
	for (int pid = 100000; len + 8 < sizeof(list); pid++)
		len += (size_t)sprintf(list + len, "%d ", pid);
	tree_write(&tree, "proc/100/task/100/children", list, len);
	assert_int_equal(dlp_proc_family(tree.path, 100, found, 8192, &cnt), 0);
	assert_true(cnt > 2000);
	for (size_t i = 0; i < cnt; i++)
		assert_int_equal(found[i], 100000 + i);
}

static void programs_that_may_train(void **state)
{
	static const struct {
		const char *cmdline;
		bool may;
	} cases[] = {
		{ TRAIN, true },
		{ "python|-u|-X|dev|train.py|torchrun", true },
		{ "python|-c|import train|torchrun", true },
		{ "python|-m|train|torchrun", true },
		{ "python|/opt/venv/bin/torchrun|--nproc_per_node|2|train.py", false },
		{ "python|-W|ignore|-m|torch.distributed.run|train.py", false },
		{ "python|-m|torch.distributed.launch|train.py", false },
		{ "python|/usr/bin/accelerate|launch|train.py", false },
		{ "python|/usr/bin/deepspeed|train.py", false },
		{ "python|-m", true },
		{ "python|-X", true },
		{ "python", true },
		{ SPAWN, false },
		{ TRACKER, false },
		{ FORKSERVER, false },
	};

	(void)state;
	add(50, 1, "bash", "bash|run.sh");
	for (size_t i = 0; i < DLP_ARRAY_SIZE(cases); i++) {
		add(60, 50, "python", cases[i].cmdline);
		if (dlp_proc_may_train(tree.path, 60) != cases[i].may)
			fail_msg("%s", cases[i].cmdline);
	}
	add_job();
	assert_true(dlp_proc_may_train(tree.path, 100));
	assert_true(dlp_proc_may_train(tree.path, 140));
	assert_false(dlp_proc_may_train(tree.path, 110));
	assert_false(dlp_proc_may_train(tree.path, 111));
	assert_false(dlp_proc_may_train(tree.path, 999));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, start, end)
	const struct CMUnitTest tests[] = {
		TEST(roles_in_a_job),
		TEST(workers_know_their_trainer),
		TEST(fork_servers_know_their_parent),
		TEST(forks_of_workers_are_none),
		TEST(ranks_are_no_workers),
		TEST(what_was_meant_is_found_near),
		TEST(families_by_the_kernels_lists),
		TEST(long_families_are_cut_at_a_number),
		TEST(programs_that_may_train),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
