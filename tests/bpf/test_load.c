/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Every program loads alone, in each form it is compiled for; and a session works with features
 * left out: it says what it uses, sends what belongs to that and nothing else.
 */
#include "harness.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <bpf/btf.h>
#include <bpf/libbpf.h>

#include "dlprof.skel.h"
#include "message.h"
#include "syscalls.h"

/* The configuration that the session would give the programs on this kernel. */
struct form {
	const char *name;
	bool storage;
	bool helpers; /* those that are newer than 5.10 */
	uint32_t args_param;
	bool waits;
};

static struct btf *kernel_btf;

static int open_btf(void **state)
{
	(void)state;
	kernel_btf = btf__load_vmlinux_btf();
	return 0;
}

static int close_btf(void **state)
{
	(void)state;
	btf__free(kernel_btf);
	return 0;
}

static void need_bpf(void)
{
	if (geteuid())
		bt_skip("needs root");
	if (!kernel_btf)
		bt_skip("this kernel shows no BTF");
}

/* How many arguments a tracepoint hands to a tp_btf program; 0 when there is none. */
static int tracepoint_args(const char *name)
{
	char typedef_name[64];
	const struct btf_type *type;
	int id;

	snprintf(typedef_name, sizeof(typedef_name), "btf_trace_%s", name);
	id = btf__find_by_name_kind(kernel_btf, typedef_name, BTF_KIND_TYPEDEF);
	if (id < 0)
		return 0;
	type = btf__type_by_id(kernel_btf, btf__type_by_id(kernel_btf, (__u32)id)->type);
	return btf_vlen(btf__type_by_id(kernel_btf, type->type)) - 1;
}

static struct dlprof_bpf *open_form(const struct form *form)
{
	struct dlprof_bpf *skel = dlprof_bpf__open();
	struct dlp_config *cfg;

	assert_non_null(skel);
	cfg = (struct dlp_config *)&skel->rodata->dlp_cfg;
	cfg->wire_version = DLP_WIRE_VERSION;
	cfg->use_task_storage = form->storage;
	cfg->has_prev_state = tracepoint_args("sched_switch") >= 4;
	cfg->has_pt_regs = form->helpers;
	cfg->has_task_btf = form->helpers;
	cfg->has_rq_single_arg = tracepoint_args("block_rq_issue") == 1;
	cfg->has_block_io = tracepoint_args("block_io_start") > 0;
	cfg->has_wait_events = form->waits;
	cfg->op_args_param = form->args_param;
	cfg->op_exit_delta = 1;
	cfg->str_data_off = 48;
	cfg->tuple_item_off = 24;
	dlp_syscalls_configure(cfg);
	bpf_map__set_autocreate(skel->maps.dlp_storage, form->storage);
	bpf_map__set_autocreate(skel->maps.dlp_threads, !form->storage);
	return skel;
}

/* Only the named program; what it loads for stands in the test's own words when it does not. */
static int load_alone(const struct form *form, const char *name)
{
	struct dlprof_bpf *skel = open_form(form);
	struct bpf_program *program;
	int err;

	bpf_object__for_each_program(program, skel->obj) {
		bpf_program__set_autoload(program, !strcmp(bpf_program__name(program), name));
	}
	err = dlprof_bpf__load(skel);
	dlprof_bpf__destroy(skel);
	return err;
}

static void check_form(const struct form *form)
{
	struct dlprof_bpf *skel = open_form(form);
	struct bpf_program *program;
	size_t loaded = 0;

	bpf_object__for_each_program(program, skel->obj) {
		const char *section = bpf_program__section_name(program);
		int err;

		if (!strncmp(section, "tp_btf/", 7) && !tracepoint_args(section + 7)) {
			print_message("# this kernel has no %s\n", section);
			continue;
		}
		err = load_alone(form, bpf_program__name(program));
		if (err)
			fail_msg("%s (%s): %s", bpf_program__name(program), form->name,
				 strerror(-err));
		loaded++;
	}
	dlprof_bpf__destroy(skel);
	assert_true(loaded >= 10);
}

static bool has_task_storage(void)
{
	return libbpf_probe_bpf_map_type(BPF_MAP_TYPE_TASK_STORAGE, NULL) == 1;
}

static void each_alone_with_task_storage(void **state)
{
	const struct form form = { "task storage", true, true, 4, true };

	(void)state;
	need_bpf();
	if (!has_task_storage())
		bt_skip("this kernel has no task storage");
	check_form(&form);
}

static void each_alone_with_hash(void **state)
{
	const struct form form = { "hash", false, false, 5, false };

	(void)state;
	need_bpf();
	check_form(&form);
}

/* The number the kernel keeps of a program is what tells ours from others': 15 characters. */
static void names_fit(void **state)
{
	const struct form form = { "names", false, true, 4, true };
	struct dlprof_bpf *skel;
	struct bpf_program *program;
	struct bpf_map *map;

	(void)state;
	skel = open_form(&form);
	bpf_object__for_each_program(program, skel->obj) {
		assert_memory_equal(bpf_program__name(program), "dlp_", 4);
		assert_true(strlen(bpf_program__name(program)) <= 15);
	}
	bpf_object__for_each_map(map, skel->obj) {
		if (!bpf_map__is_internal(map))
			assert_memory_equal(bpf_map__name(map), "dlp_", 4);
	}
	dlprof_bpf__destroy(skel);
}

/* ---- sessions ---- */

#define ALL_FEATURES ((1u << DLP_FEATURE_MAX) - 1)

static void child(void *arg)
{
	(void)arg;
}

/* A little of everything that any feature shows. */
static void something_of_each(void *arg)
{
	uint8_t buf[64];
	int fd[2];

	(void)arg;
	if (pipe(fd))
		return;
	bt_enter("enumerate(DataLoader)#X.__next__");
	bt_sleep_ns(3 * BT_MS);
	bt_exit();
	/* where nothing sees switches, a scope is over for certain when the next one begins */
	bt_enter("next");
	bt_exit();
	bt_point_sem("/mp-1", 0, 0600, 1);
	bt_send(fd[1], buf, bt_message(buf, 1, 32));
	bt_read(fd[0], buf, BT_LENGTH_WORD);
	bt_read(fd[0], buf, 32);
	bt_reap(bt_fork(child, NULL));
	close(fd[0]);
	close(fd[1]);
}

/* By a process born after attaching. */
static void something_of_each_in_child(void *arg)
{
	bt_reap(bt_fork(something_of_each, arg));
}

static uint32_t expected(uint32_t without)
{
	uint32_t active = ALL_FEATURES & ~without;

	if (!has_task_storage())
		active &= ~DLP_FEATURE_BIT(TASK_STORAGE);
	/* one way to see messages is enough */
	if (active & DLP_FEATURE_BIT(QUEUE_UPROBE))
		active &= ~DLP_FEATURE_BIT(QUEUE_SYSCALL);
	return active;
}

static void has(struct bt_job *job, uint32_t kind, bool wanted, uint32_t without)
{
	bool found = bt_count(job, kind, 0) > 0;

	if (found != wanted)
		fail_msg("without 0x%x: event kind %u is %s", without, kind,
			 found ? "sent" : "missing");
}

static void check_info(const struct bt_job *job, uint32_t without)
{
	uint32_t want = expected(without);
	struct dlp_session_info info;

	dlp_session_info(job->session, &info);
	for (int i = 0; i < DLP_FEATURE_MAX; i++) {
		bool active = info.active & (1u << i), wanted = want & (1u << i);

		/* meaningless where there are no switches to report; either answer is right */
		if (i == DLP_FEATURE_WAITS && without & DLP_FEATURE_BIT(CLOCKS))
			continue;
		if (wanted && !active)
			fail_msg("without 0x%x: %s is not in use: %s", without, dlp_feature_name(i),
				 info.refused[i][0] ? info.refused[i] : "and it does not say why");
		/* asked for in vain: then it says so */
		if (i == DLP_FEATURE_TASK_STORAGE && !wanted && !(without & (1u << i))) {
			assert_false(active);
			assert_true(info.refused[i][0]);
			continue;
		}
		if (!wanted && (active || info.refused[i][0]))
			fail_msg("without 0x%x: %s %s", without, dlp_feature_name(i),
				 active ? "is in use" : info.refused[i]);
	}
	assert_int_equal(info.scope_probe_cnt, want & DLP_FEATURE_BIT(SCOPES) ? 2 : 0);
}

static void check_events(struct bt_job *job, uint32_t want, uint32_t without, bool by_trainer)
{
	bt_drain(job);
	has(job, DLP_EV_SEM, by_trainer && want & DLP_FEATURE_BIT(ITERATORS), without);
	has(job, DLP_EV_SCOPE, want & DLP_FEATURE_BIT(SCOPES), without);
	has(job, DLP_EV_MSG, want & (DLP_FEATURE_BIT(QUEUE_UPROBE) | DLP_FEATURE_BIT(QUEUE_SYSCALL)),
	    without);
	has(job, DLP_EV_FORK, want & DLP_FEATURE_BIT(PROCESS), without);
	has(job, DLP_EV_EXIT, want & DLP_FEATURE_BIT(PROCESS), without);
	has(job, DLP_EV_WAIT,
	    (want & DLP_FEATURE_BIT(WAITS)) && (want & DLP_FEATURE_BIT(CLOCKS)), without);
}

static int ignore(void *ctx, const void *event, size_t bytes)
{
	(void)ctx;
	(void)event;
	(void)bytes;
	return 0;
}

static void check_without(uint32_t without)
{
	const struct bt_setup setup = { .probes = BT_PROBE_SCOPE | BT_PROBE_QUEUE | BT_PROBE_SEM,
					.without = without };
	uint32_t want = expected(without);
	bool adopts = want & (DLP_FEATURE_BIT(CLOCK_ITER) | DLP_FEATURE_BIT(SCOPES));
	bool follows = want & DLP_FEATURE_BIT(PROCESS);
	struct bt_job job;

	bt_job_open(&job, &setup);
	check_info(&job, without);
	/* threads that were there before are met by the iterator or at their first scope, later ones
	 * when they are born */
	if (adopts || follows) {
		bt_call(&job, adopts ? something_of_each : something_of_each_in_child, NULL);
		check_events(&job, want, without, adopts);
	}
	if (want & DLP_FEATURE_BIT(CLOCK_ITER)) {
		bt_sweep(&job);
		assert_int_equal(bt_last_clock(&job, job.trainer)->hdr.tgid, job.trainer);
	} else {
		assert_int_equal(dlp_session_sweep(job.session, NULL, NULL), -EOPNOTSUPP);
	}
	assert_int_equal(dlp_session_samples(job.session, ignore, NULL),
			 want & DLP_FEATURE_BIT(OTHERS) ? 0 : -EOPNOTSUPP);
	bt_job_close(&job);
}

static void with_everything(void **state)
{
	(void)state;
	check_without(0);
}

static void without_each_one(void **state)
{
	(void)state;
	for (int i = 0; i < DLP_FEATURE_MAX; i++)
		check_without(1u << i);
}

/* Those that make the others work in another way. */
static void without_two(void **state)
{
	static const uint32_t bits[] = {
		DLP_FEATURE_BIT(TASK_STORAGE), DLP_FEATURE_BIT(CLOCK_ITER),
		DLP_FEATURE_BIT(QUEUE_UPROBE), DLP_FEATURE_BIT(PROCESS),
	};

	(void)state;
	for (size_t i = 0; i < DLP_ARRAY_SIZE(bits); i++) {
		for (size_t k = 0; k < i; k++)
			check_without(bits[i] | bits[k]);
	}
}

/* Only GetNext and the clocks of what is alive: the least that answers anything. */
static void with_the_least(void **state)
{
	(void)state;
	check_without(ALL_FEATURES & ~(DLP_FEATURE_BIT(SCOPES) | DLP_FEATURE_BIT(CLOCK_ITER)));
}

/* A job whose GetNext cannot be seen is refused, with a reason. */
static void scopes_without_a_probe(void **state)
{
	struct dlp_session_failure failure;
	struct dlp_target target = { .pid = getpid() };
	const struct dlp_session_opts opts = { .target = &target, .long_wait_ns = BT_MS,
					       .ring_bytes = 1u << 16 };
	struct dlp_session *session;

	(void)state;
	need_bpf();
	if (dlp_session_open(&opts, &session, &failure))
		bt_skip("%s", failure.text);
	assert_int_equal(dlp_session_attach(session, &failure), -1);
	assert_true(failure.text[0]);
	dlp_session_free(session);
	dlp_session_free(NULL);
}

/* A probe point that is not in the file costs its feature, nothing else. */
static void check_bad_probe(enum dlp_probe_id id, struct dlp_session_info *ret)
{
	const struct bt_setup setup = { .probes = BT_PROBE_SCOPE | BT_PROBE_QUEUE | BT_PROBE_SEM };
	struct dlp_session_failure failure;
	struct dlp_target target;
	const struct dlp_session_opts opts = { .target = &target, .long_wait_ns = BT_MS,
					       .ring_bytes = 1u << 16 };
	struct dlp_session *session;

	need_bpf();
	bt_target_init(&target, getpid(), &setup);
	for (size_t i = 0; i < target.probe_cnt; i++) {
		if (target.probe[i].id == id)
			snprintf(target.probe[i].path, sizeof(target.probe[i].path), "/no/such/file");
	}
	if (dlp_session_open(&opts, &session, &failure))
		bt_skip("%s", failure.text);
	assert_int_equal(dlp_session_attach(session, &failure), 0);
	dlp_session_info(session, ret);
	assert_true(ret->active & DLP_FEATURE_BIT(SCOPES));
	dlp_session_free(session);
}

static void a_bad_queue_probe(void **state)
{
	struct dlp_session_info info;

	(void)state;
	check_bad_probe(DLP_PROBE_QUEUE_RECV, &info);
	assert_false(info.active & DLP_FEATURE_BIT(QUEUE_UPROBE));
	assert_true(info.refused[DLP_FEATURE_QUEUE_UPROBE][0]);
	/* the other rung takes over */
	assert_true(info.active & DLP_FEATURE_BIT(QUEUE_SYSCALL));
	assert_true(info.active & DLP_FEATURE_BIT(ITERATORS));
}

static void a_bad_semaphore_probe(void **state)
{
	struct dlp_session_info info;

	(void)state;
	check_bad_probe(DLP_PROBE_SEM_OPEN, &info);
	assert_false(info.active & DLP_FEATURE_BIT(ITERATORS));
	assert_true(info.refused[DLP_FEATURE_ITERATORS][0]);
	assert_true(info.active & DLP_FEATURE_BIT(QUEUE_UPROBE));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_fit),
		cmocka_unit_test(each_alone_with_task_storage),
		cmocka_unit_test(each_alone_with_hash),
		cmocka_unit_test(with_everything),
		cmocka_unit_test(without_each_one),
		cmocka_unit_test(without_two),
		cmocka_unit_test(with_the_least),
		cmocka_unit_test(scopes_without_a_probe),
		cmocka_unit_test(a_bad_queue_probe),
		cmocka_unit_test(a_bad_semaphore_probe),
	};

	return cmocka_run_group_tests_name("load", tests, open_btf, close_btf);
}
