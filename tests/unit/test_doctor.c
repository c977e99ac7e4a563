/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The doctor: facts in, table out; and the facts that are read, from a made-up tree. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "dlprof/event.h"
#include "doctor_read.h"
#include "tree.h"
#include "util.h"

#define ALL_FEATURES ((1u << DLP_FEATURE_MAX) - 1)
#define ALL_FIGURES                                                                                \
	(DLP_SYS_QUOTA | DLP_SYS_CPU | DLP_SYS_MEM | DLP_SYS_VM | DLP_SYS_GROUPMEM | DLP_SYS_PSI | \
	 DLP_SYS_SHM)

static struct dlp_doctor_facts facts;
static struct dlp_doctor doctor;

/* A machine that has all, and a job in which everything was found. */
static int start(void **state)
{
	(void)state;
	memset(&facts, 0, sizeof(facts));
	facts.is_root = facts.caps_known = facts.may_load = facts.in_host_pids = true;
	facts.caps = UINT64_MAX;
	facts.other_users = DLP_DOCTOR_YES;
	facts.kernel = (struct dlp_kernel_facts){ 4, 1, true, true, true };
	facts.has_ring = facts.has_tracefs = true;
	facts.own.tried = facts.own.opened = facts.rung.tried = facts.rung.opened = true;
	facts.own.info.active = ALL_FEATURES & ~DLP_FEATURE_BIT(QUEUE_SYSCALL);
	facts.rung.info.active = DLP_FEATURE_BIT(QUEUE_SYSCALL);
	facts.own_seen = DLP_DOCTOR_YES;
	facts.system_known = ALL_FIGURES;
	for (size_t i = 0; i < DLP_DOCTOR_SETTINGS; i++)
		facts.setting[i].name = (const char *[]){ "lockdown", "unprivileged_bpf_disabled",
							  "perf_event_paranoid", "kernel" }[i];
	return 0;
}

static void add_job(void)
{
	facts.pid = 77;
	facts.target = (struct dlp_target){
		.pid = 77, .comm = "python\033[31m", .gil_lo = 1, .gil_hi = 2,
		.gc = { .cnt = 1 }
	};
	facts.target.python = (struct dlp_version){ 3, 11, 7, "3.11.7" };
	facts.target.torch = (struct dlp_version){ 2, 13, 0, "2.13.0+cpu" };
	facts.workers = 3;
	facts.job = facts.own;
}

static const struct dlp_doctor_row *row(const char *group, const char *feature)
{
	for (size_t i = 0; i < doctor.row_cnt; i++) {
		if (!strcmp(doctor.row[i].group, group) && !strcmp(doctor.row[i].feature, feature))
			return &doctor.row[i];
	}
	fail_msg("no row %s/%s", group, feature);
	return NULL;
}

static void expect(const char *group, const char *feature, enum dlp_doctor_state state,
		   const char *in_detail, const char *in_cost)
{
	const struct dlp_doctor_row *found = row(group, feature);

	if (found->state != state)
		fail_msg("%s/%s is %s (%s)", group, feature, dlp_doctor_state_name(found->state),
			 found->detail);
	if (!strstr(found->detail, in_detail))
		fail_msg("%s/%s: no '%s' in '%s'", group, feature, in_detail, found->detail);
	if (!strstr(found->cost, in_cost))
		fail_msg("%s/%s: no '%s' in '%s'", group, feature, in_cost, found->cost);
	/* nothing is lost by what works */
	assert_int_equal(!*found->cost, found->state == DLP_DOCTOR_OK);
}

static size_t not_ok(void)
{
	size_t cnt = 0;

	for (size_t i = 0; i < doctor.row_cnt; i++)
		cnt += doctor.row[i].state != DLP_DOCTOR_OK;
	return cnt;
}

static void test_all_well(void **state)
{
	(void)state;
	dlp_doctor_assemble(&facts, &doctor);
	assert_true(doctor.observable);
	assert_int_equal(not_ok(), 0);
	for (unsigned int i = 0; i < DLP_FEATURE_MAX; i++)
		(void)row("kernel", dlp_feature_name((enum dlp_feature)i));
	for (size_t i = 0; i < doctor.row_cnt; i++)
		assert_string_not_equal(doctor.row[i].group, "job");
	add_job();
	dlp_doctor_assemble(&facts, &doctor);
	assert_true(doctor.observable);
	assert_int_equal(not_ok(), 0);
	assert_true(doctor.row_cnt < DLP_DOCTOR_ROWS_MAX - 1);
	expect("job", "process", DLP_DOCTOR_OK, "pid 77 (python?[31m), 3 DataLoader workers", "");
	expect("job", "torch", DLP_DOCTOR_OK, "2.13.0+cpu", "");
}

static void test_privileges(void **state)
{
	(void)state;
	facts.has_invoker = true;
	facts.invoker = 1000;
	dlp_doctor_assemble(&facts, &doctor);
	expect("privileges", "CAP_BPF", DLP_DOCTOR_OK, "held; while watching: kept", "");
	expect("privileges", "CAP_SYS_ADMIN", DLP_DOCTOR_OK, "only a helper process", "");
	expect("privileges", "user", DLP_DOCTOR_OK, "user 1000, who called sudo", "");
	/* 2 = CAP_DAC_READ_SEARCH, 38 = CAP_PERFMON, as the kernel numbers them */
	facts.caps = ~(1ull << 2 | 1ull << 38);
	facts.has_invoker = facts.is_root = false;
	dlp_doctor_assemble(&facts, &doctor);
	expect("privileges", "CAP_PERFMON", DLP_DOCTOR_MISSING, "not held", "everything: attaching");
	expect("privileges", "CAP_DAC_READ_SEARCH", DLP_DOCTOR_MISSING, "not held", "their files");
	expect("privileges", "CAP_BPF", DLP_DOCTOR_OK, "held", "");
	expect("privileges", "user", DLP_DOCTOR_OK, "still user 1000", "");
}

static void test_no_permission(void **state)
{
	(void)state;
	facts.is_root = facts.may_load = facts.has_ring = facts.has_tracefs = false;
	facts.caps = 0;
	facts.other_users = DLP_DOCTOR_NO;
	facts.own_seen = DLP_DOCTOR_UNKNOWN;
	memset(&facts.own, 0, sizeof(facts.own));
	memset(&facts.rung, 0, sizeof(facts.rung));
	dlp_doctor_assemble(&facts, &doctor);
	assert_false(doctor.observable);
	expect("permission", "load", DLP_DOCTOR_MISSING, "not root, without CAP_BPF", "sudo");
	expect("permission", "other-users", DLP_DOCTOR_MISSING, "only this user", "root");
	expect("permission", "pid-namespace", DLP_DOCTOR_OK, "", "");
	expect("kernel", "btf", DLP_DOCTOR_OK, "", "");
	expect("kernel", "ring-buffer", DLP_DOCTOR_MISSING, "could not be tried", "sudo");
	expect("kernel", "scopes", DLP_DOCTOR_MISSING, "could not be tried", "GetNext");
	expect("kernel", "task-storage", DLP_DOCTOR_MISSING, "could not be tried", "nothing");
	expect("system", "pressure", DLP_DOCTOR_OK, "", "");
}

static void test_root_in_a_container(void **state)
{
	(void)state;
	facts.may_load = false;
	facts.caps = 0xa80425fbull; /* what docker leaves to root */
	memset(&facts.own, 0, sizeof(facts.own));
	facts.own_seen = DLP_DOCTOR_UNKNOWN;
	facts.in_host_pids = false;
	dlp_doctor_assemble(&facts, &doctor);
	assert_false(doctor.observable);
	expect("permission", "load", DLP_DOCTOR_MISSING, "root, without CAP_BPF, CAP_PERFMON",
	       "host");
	expect("permission", "pid-namespace", DLP_DOCTOR_OK, "container with process numbers", "");
}

/* Programs load and attach, but events carry other numbers: only the trial tells. */
static void test_numbers_of_its_own(void **state)
{
	(void)state;
	facts.own_seen = DLP_DOCTOR_NO;
	dlp_doctor_assemble(&facts, &doctor);
	assert_false(doctor.observable);
	expect("permission", "pid-namespace", DLP_DOCTOR_MISSING, "numbers of its own", "--pid=host");
	facts.own_seen = DLP_DOCTOR_YES;
	dlp_doctor_assemble(&facts, &doctor);
	assert_true(doctor.observable);
	expect("permission", "pid-namespace", DLP_DOCTOR_OK, "the kernel's own", "");
	facts.in_host_pids = false;
	dlp_doctor_assemble(&facts, &doctor);
	assert_true(doctor.observable);
	expect("permission", "pid-namespace", DLP_DOCTOR_OK, "only its processes", "");
}

static void refuse(struct dlp_doctor_trial *trial, enum dlp_feature feature, const char *why)
{
	trial->info.active &= ~(1u << feature);
	(void)snprintf(trial->info.refused[feature], sizeof(trial->info.refused[feature]), "%s",
		       why);
}

static void test_fallbacks(void **state)
{
	(void)state;
	refuse(&facts.own, DLP_FEATURE_QUEUE_UPROBE, "no probe on x: EINVAL");
	refuse(&facts.own, DLP_FEATURE_TASK_STORAGE, "the kernel has no task storage");
	facts.kernel.block_io = facts.kernel.pt_regs = false;
	facts.kernel.sched_switch_args = 3;
	dlp_doctor_assemble(&facts, &doctor);
	assert_true(doctor.observable);
	assert_int_equal(not_ok(), 5);
	expect("kernel", "queue-uprobe", DLP_DOCTOR_FALLBACK, "no probe on x: EINVAL", "cheap");
	expect("kernel", "queue-syscall", DLP_DOCTOR_OK, "system calls show", "");
	expect("kernel", "task-storage", DLP_DOCTOR_FALLBACK, "no task storage", "hash table");
	expect("kernel", "task-registers", DLP_DOCTOR_FALLBACK, "stack", "time");
	expect("kernel", "block-start", DLP_DOCTOR_FALLBACK, "issue", "waits");
	expect("kernel", "switch-state", DLP_DOCTOR_FALLBACK, "thread itself", "runq");
	/* and without the next rung either */
	refuse(&facts.rung, DLP_FEATURE_QUEUE_SYSCALL, "cannot attach: ENOENT");
	refuse(&facts.own, DLP_FEATURE_CLOCKS, "the kernel refuses dlp_switch");
	facts.has_tracefs = false;
	dlp_doctor_assemble(&facts, &doctor);
	assert_true(doctor.observable);
	expect("kernel", "queue-uprobe", DLP_DOCTOR_MISSING, "EINVAL", "cheap");
	expect("kernel", "queue-syscall", DLP_DOCTOR_MISSING, "ENOENT", "costly");
	expect("kernel", "task-storage", DLP_DOCTOR_MISSING, "", "");
	expect("kernel", "clocks", DLP_DOCTOR_MISSING, "dlp_switch", "spend");
	expect("kernel", "tracefs", DLP_DOCTOR_MISSING, "", "costly");
}

static void test_rung_not_needed(void **state)
{
	(void)state;
	refuse(&facts.rung, DLP_FEATURE_QUEUE_SYSCALL, "cannot attach: ENOENT");
	dlp_doctor_assemble(&facts, &doctor);
	expect("kernel", "queue-syscall", DLP_DOCTOR_MISSING, "ENOENT", "nothing as long as");
}

static void test_no_scopes(void **state)
{
	(void)state;
	refuse(&facts.own, DLP_FEATURE_SCOPES, "no probe: EPERM");
	dlp_doctor_assemble(&facts, &doctor);
	assert_false(doctor.observable);
	expect("kernel", "scopes", DLP_DOCTOR_MISSING, "EPERM", "GetNext");
}

static void test_load_refused(void **state)
{
	(void)state;
	facts.own.opened = false;
	facts.own_seen = DLP_DOCTOR_UNKNOWN;
	memset(&facts.own.info, 0, sizeof(facts.own.info));
	(void)snprintf(facts.own.failure, sizeof(facts.own.failure), "the kernel does not load it");
	dlp_doctor_assemble(&facts, &doctor);
	assert_false(doctor.observable);
	expect("kernel", "block", DLP_DOCTOR_MISSING, "does not load it", "block");
}

static void test_no_types(void **state)
{
	(void)state;
	facts.btf_err = -ENOENT;
	memset(&facts.own, 0, sizeof(facts.own));
	memset(&facts.kernel, 0, sizeof(facts.kernel));
	dlp_doctor_assemble(&facts, &doctor);
	assert_false(doctor.observable);
	expect("kernel", "btf", DLP_DOCTOR_MISSING, "/sys/kernel/btf", "CONFIG_DEBUG_INFO_BTF");
	/* without types nothing is known of these, so nothing is said */
	for (size_t i = 0; i < doctor.row_cnt; i++)
		assert_string_not_equal(doctor.row[i].feature, "block-start");
}

static void test_figures(void **state)
{
	static const struct {
		const char *feature;
		uint32_t bit;
	} figures[] = {
		{ "cpu-time", DLP_SYS_CPU },	 { "memory", DLP_SYS_MEM },
		{ "vmstat", DLP_SYS_VM },	 { "pressure", DLP_SYS_PSI },
		{ "cgroup-cpu", DLP_SYS_QUOTA }, { "cgroup-memory", DLP_SYS_GROUPMEM },
		{ "shm", DLP_SYS_SHM },
	};

	(void)state;
	for (size_t i = 0; i < DLP_ARRAY_SIZE(figures); i++) {
		facts.system_known = ALL_FIGURES & ~figures[i].bit;
		dlp_doctor_assemble(&facts, &doctor);
		assert_true(doctor.observable);
		assert_int_equal(not_ok(), 1);
		expect("system", figures[i].feature, DLP_DOCTOR_MISSING, "cannot be read", "");
	}
}

static void test_job_lacks(void **state)
{
	(void)state;
	add_job();
	refuse(&facts.job, DLP_FEATURE_ITERATORS, "not shown: the target's note goes before it");
	(void)snprintf(facts.target.iterator_note, sizeof(facts.target.iterator_note), "musl");
	refuse(&facts.job, DLP_FEATURE_QUEUE_UPROBE, "");
	facts.job.info.active |= DLP_FEATURE_BIT(QUEUE_SYSCALL);
	(void)snprintf(facts.target.queue_note, sizeof(facts.target.queue_note), "stripped");
	facts.target.gil_hi = 0;
	facts.target.gc.cnt = 0;
	(void)snprintf(facts.target.gc_note, sizeof(facts.target.gc_note), "no such function");
	facts.target.torch = (struct dlp_version){ 0 };
	dlp_doctor_assemble(&facts, &doctor);
	assert_true(doctor.observable);
	expect("job", "iterators", DLP_DOCTOR_MISSING, "musl", "iterator begins");
	expect("job", "queue-uprobe", DLP_DOCTOR_FALLBACK, "stripped", "cheap");
	expect("job", "gil", DLP_DOCTOR_MISSING, "not found", "count as lock");
	expect("job", "gc", DLP_DOCTOR_MISSING, "no such function", "counts as computing");
	expect("job", "torch", DLP_DOCTOR_MISSING, "unknown", "releases");
	expect("kernel", "queue-uprobe", DLP_DOCTOR_OK, "", "");
	refuse(&facts.job, DLP_FEATURE_SCOPES, "no probe point");
	dlp_doctor_assemble(&facts, &doctor);
	assert_false(doctor.observable);
}

static void test_no_job(void **state)
{
	(void)state;
	add_job();
	facts.target_failed = -1;
	facts.job = (struct dlp_doctor_trial){ 0 };
	(void)snprintf(facts.target_failure.text, sizeof(facts.target_failure.text),
		       "no process 77");
	dlp_doctor_assemble(&facts, &doctor);
	assert_false(doctor.observable);
	expect("job", "process", DLP_DOCTOR_MISSING, "no process 77", "cannot be observed");
}

static char *printed(void)
{
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	assert_non_null(out);
	dlp_doctor_print(out, &doctor, &facts);
	fclose(out);
	return text;
}

static void test_print(void **state)
{
	char *text;

	(void)state;
	(void)snprintf(facts.setting[DLP_DOCTOR_PARANOID].value, 80, "4");
	dlp_doctor_assemble(&facts, &doctor);
	text = printed();
	assert_non_null(strstr(text, "\ntraining jobs can be observed here\n"));
	assert_non_null(strstr(text, "  ok        scopes                  uprobes can be attached\n"));
	/* nothing to explain */
	assert_null(strstr(text, "perf_event_paranoid"));
	free(text);
	refuse(&facts.own, DLP_FEATURE_SCOPES, "no probe: EPERM");
	dlp_doctor_assemble(&facts, &doctor);
	text = printed();
	assert_non_null(strstr(text, "  missing   scopes                  no probe: EPERM\n"
				     "                                    costs: GetNext"));
	assert_non_null(strstr(text, "perf_event_paranoid: 4\n"));
	assert_non_null(strstr(text, "lockdown: not known\n"));
	assert_non_null(strstr(text, "training jobs cannot be observed here\n"));
	free(text);
}

static void test_json(void **state)
{
	json_t *root, *rows;
	char *text;

	(void)state;
	add_job();
	refuse(&facts.job, DLP_FEATURE_SCOPES, "\"quoted\"");
	dlp_doctor_assemble(&facts, &doctor);
	assert_int_equal(dlp_doctor_format(&doctor, &facts, &text), 0);
	root = json_loads(text, 0, NULL);
	free(text);
	assert_non_null(root);
	assert_string_equal(json_string_value(json_object_get(root, "schema")), "dlprof.doctor/1");
	assert_int_equal(json_integer_value(json_object_get(root, "pid")), 77);
	assert_true(json_is_false(json_object_get(root, "observable")));
	rows = json_object_get(root, "rows");
	assert_int_equal(json_array_size(rows), doctor.row_cnt);
	for (size_t i = 0; i < doctor.row_cnt; i++) {
		const json_t *entry = json_array_get(rows, i);
		const char *text_cost = json_string_value(json_object_get(entry, "cost"));

		assert_string_equal(json_string_value(json_object_get(entry, "feature")),
				    doctor.row[i].feature);
		assert_string_equal(json_string_value(json_object_get(entry, "state")),
				    dlp_doctor_state_name(doctor.row[i].state));
		assert_string_equal(json_string_value(json_object_get(entry, "detail")),
				    doctor.row[i].detail);
		assert_string_equal(text_cost ? text_cost : "", doctor.row[i].cost);
	}
	assert_true(json_is_null(json_object_get(json_object_get(root, "settings"), "lockdown")));
	json_decref(root);
	facts.pid = 0;
	dlp_doctor_assemble(&facts, &doctor);
	assert_int_equal(dlp_doctor_format(&doctor, &facts, &text), 0);
	root = json_loads(text, 0, NULL);
	free(text);
	assert_true(json_is_null(json_object_get(root, "pid")));
	json_decref(root);
}

static void test_read(void **state)
{
	const struct tree_process other = { .pid = 20, .ppid = 1, .comm = "x", .exe = "/bin/x" };
	struct tree tree;

	(void)state;
	memset(&facts, 0, sizeof(facts));
	tree_init(&tree);
	dlp_doctor_read(tree.path, 10, &facts);
	assert_false(facts.caps_known);
	assert_true(facts.in_host_pids);
	assert_false(facts.has_tracefs);
	assert_int_equal(facts.other_users, DLP_DOCTOR_UNKNOWN);
	assert_int_equal(facts.system_known, 0);
	assert_string_equal(facts.setting[DLP_DOCTOR_LOCKDOWN].value, "");
	tree_text(&tree, "proc/self/status", "Name:\tx\nCapEff:\t000001fffeffffff\n");
	tree_link(&tree, "proc/self/ns/pid", "pid:[4026532500]");
	tree_text(&tree, "sys/kernel/tracing/events/raw_syscalls/sys_exit/id", "352\n");
	tree_text(&tree, "sys/kernel/security/lockdown", "none [integrity]\033 confidentiality\n");
	tree_text(&tree, "proc/sys/kernel/perf_event_paranoid", "-1\n");
	tree_add_process(&tree, &other);
	tree_text(&tree, "proc/20/status", "Tgid:\t20\nUid:\t%u\t0\t0\t0\n", geteuid() + 1);
	dlp_doctor_read(tree.path, 10, &facts);
	assert_true(facts.caps_known);
	assert_int_equal(facts.caps, 0x1fffeffffffull);
	assert_false(facts.in_host_pids);
	/* the inode that the kernel's own first one always has */
	assert_int_equal(dlp_kernel_pid_ns(tree.path), 4026532500);
	assert_int_equal(unlink(tree_path(&tree, "proc/self/ns/pid")), 0);
	tree_link(&tree, "proc/self/ns/pid", "pid:[4026531836]");
	assert_int_equal(dlp_kernel_pid_ns(tree.path), 0);
	assert_true(facts.has_tracefs);
	assert_int_equal(facts.other_users, DLP_DOCTOR_YES);
	assert_string_equal(facts.setting[DLP_DOCTOR_LOCKDOWN].value,
			    "none [integrity]? confidentiality");
	assert_string_equal(facts.setting[DLP_DOCTOR_PARANOID].value, "-1");
	tree_fini(&tree);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_all_well, start),
		cmocka_unit_test_setup(test_privileges, start),
		cmocka_unit_test_setup(test_no_permission, start),
		cmocka_unit_test_setup(test_root_in_a_container, start),
		cmocka_unit_test_setup(test_numbers_of_its_own, start),
		cmocka_unit_test_setup(test_fallbacks, start),
		cmocka_unit_test_setup(test_rung_not_needed, start),
		cmocka_unit_test_setup(test_no_scopes, start),
		cmocka_unit_test_setup(test_load_refused, start),
		cmocka_unit_test_setup(test_no_types, start),
		cmocka_unit_test_setup(test_figures, start),
		cmocka_unit_test_setup(test_job_lacks, start),
		cmocka_unit_test_setup(test_no_job, start),
		cmocka_unit_test_setup(test_print, start),
		cmocka_unit_test_setup(test_json, start),
		cmocka_unit_test_setup(test_read, start),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
