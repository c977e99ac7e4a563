/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "session_priv.h"
#include "syscalls.h"

const struct dlp_program dlp_programs[DLP_PROGRAM_CNT] = {
	{ "dlp_scope_enter", DLP_FEATURE_SCOPES, DLP_ATTACH_PROBE, false },
	{ "dlp_scope_exit", DLP_FEATURE_SCOPES, DLP_ATTACH_PROBE, false },
	{ "dlp_next", DLP_FEATURE_SCOPES, DLP_ATTACH_PROBE, true },
	{ "dlp_scope_op", DLP_FEATURE_SCOPES, DLP_ATTACH_PROBE, false },
	{ "dlp_sem_open", DLP_FEATURE_ITERATORS, DLP_ATTACH_PROBE, false },
	{ "dlp_switch", DLP_FEATURE_CLOCKS, DLP_ATTACH_SECTION, false },
	{ "dlp_wakeup", DLP_FEATURE_CLOCKS, DLP_ATTACH_SECTION, false },
	{ "dlp_wakeup_new", DLP_FEATURE_CLOCKS, DLP_ATTACH_SECTION, false },
	{ "dlp_sweep_tasks", DLP_FEATURE_CLOCK_ITER, DLP_ATTACH_OWN, false },
	{ "dlp_queue_send", DLP_FEATURE_QUEUE_UPROBE, DLP_ATTACH_PROBE, false },
	{ "dlp_queue_recv", DLP_FEATURE_QUEUE_UPROBE, DLP_ATTACH_PROBE, false },
	{ "dlp_queue_exit", DLP_FEATURE_QUEUE_SYSCALL, DLP_ATTACH_OWN, false },
	{ "dlp_fork", DLP_FEATURE_PROCESS, DLP_ATTACH_SECTION, false },
	{ "dlp_exec", DLP_FEATURE_PROCESS, DLP_ATTACH_SECTION, false },
	{ "dlp_exit", DLP_FEATURE_PROCESS, DLP_ATTACH_SECTION, false },
	{ "dlp_io_start", DLP_FEATURE_BLOCK, DLP_ATTACH_SECTION, true },
	{ "dlp_rq_issue", DLP_FEATURE_BLOCK, DLP_ATTACH_SECTION, false },
	{ "dlp_rq_done", DLP_FEATURE_BLOCK, DLP_ATTACH_SECTION, false },
	{ "dlp_sample", DLP_FEATURE_OTHERS, DLP_ATTACH_OWN, false },
};

bool dlp_session_wants(const struct dlp_session *session, size_t i)
{
	return session->wanted & (1u << dlp_programs[i].feature);
}

static void configure(struct dlp_session *session, const struct dlp_kernel_facts *facts)
{
	const struct dlp_target *target = session->opts.target;
	struct dlp_config *cfg = (struct dlp_config *)&session->skel->rodata->dlp_cfg;
	bool storage = session->wanted & DLP_FEATURE_BIT(TASK_STORAGE);
	bool rung_op = target->scope_kind == DLP_SCOPE_KIND_B;

	cfg->wire_version = DLP_WIRE_VERSION;
	cfg->use_task_storage = storage;
	cfg->has_prev_state = facts->sched_switch_args >= 4;
	cfg->has_pt_regs = facts->pt_regs;
	cfg->has_task_btf = facts->task_btf;
	cfg->has_rq_single_arg = facts->rq_issue_args == 1;
	cfg->has_block_io = facts->block_io;
	cfg->has_wait_events = !!(session->wanted & DLP_FEATURE_BIT(WAITS));
	cfg->op_args_param = target->op_args_param;
	cfg->op_exit_delta = target->op_exit_delta;
	cfg->str_data_off = target->str_data_off;
	cfg->tuple_item_off = target->tuple_item_off;
	cfg->long_wait_ns = session->opts.long_wait_ns;
	if (session->opts.getnext)
		cfg->getnext = *session->opts.getnext;
	/* half full: time enough to be scheduled and read before it overflows */
	cfg->ring_wakeup_bytes = session->opts.ring_bytes / 2;
	cfg->own_tgid = (uint32_t)getpid();
	cfg->pid_ns = dlp_kernel_pid_ns("");
	dlp_syscalls_configure(cfg);

	bpf_map__set_max_entries(session->skel->maps.dlp_ring, session->opts.ring_bytes);
	bpf_map__set_autocreate(session->skel->maps.dlp_storage, storage);
	bpf_map__set_autocreate(session->skel->maps.dlp_threads, !storage);
	for (size_t i = 0; i < DLP_PROGRAM_CNT; i++) {
		bool load = dlp_session_wants(session, i);

		session->program[i] = bpf_object__find_program_by_name(session->skel->obj,
								       dlp_programs[i].name);
		if (session->program[i] == session->skel->progs.dlp_io_start)
			load = load && facts->block_io;
		if (dlp_programs[i].feature == DLP_FEATURE_SCOPES)
			load = load &&
			       rung_op == (session->program[i] == session->skel->progs.dlp_scope_op);
		bpf_program__set_autoload(session->program[i], load);
	}
}

static int open_skeleton(struct dlp_session *session, const struct dlp_kernel_facts *facts)
{
	session->skel = dlprof_bpf__open();
	if (!session->skel)
		return -errno;
	configure(session, facts);
	return 0;
}

/* Whether the kernel takes program i when it is loaded alone: 0 or -errno. */
static int try_alone(struct dlp_session *session, const struct dlp_kernel_facts *facts, size_t i)
{
	int err;

	err = open_skeleton(session, facts);
	if (err)
		return err;
	for (size_t other = 0; other < DLP_PROGRAM_CNT; other++) {
		if (other != i)
			bpf_program__set_autoload(session->program[other], false);
	}
	err = bpf_program__autoload(session->program[i]) ? dlprof_bpf__load(session->skel) : 0;
	dlprof_bpf__destroy(session->skel);
	session->skel = NULL;
	return err;
}

/*
 * One load for all; only when the kernel refuses that, each program is tried alone and those it
 * refuses are left out.
 */
int dlp_session_load(struct dlp_session *session, const struct dlp_kernel_facts *facts)
{
	int err;

	err = open_skeleton(session, facts);
	if (err)
		return err;
	err = dlprof_bpf__load(session->skel);
	if (!err)
		return 0;
	dlprof_bpf__destroy(session->skel);
	session->skel = NULL;
	/* no privileges: then it is no single program's fault (the verifier says EACCES or EINVAL) */
	if (err == -EPERM)
		return err;
	for (size_t i = 0; i < DLP_PROGRAM_CNT; i++) {
		int alone = dlp_session_wants(session, i) ? try_alone(session, facts, i) : 0;

		if (alone)
			dlp_session_refuse(session, dlp_programs[i].feature, "the kernel refuses %s: %s",
			       dlp_programs[i].name, strerror(-alone));
	}
	err = open_skeleton(session, facts);
	return err ? err : dlprof_bpf__load(session->skel);
}
