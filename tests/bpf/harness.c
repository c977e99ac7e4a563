/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "harness.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* What the trainer is asked to do; a function has the same address in every forked process. */
struct request {
	bt_fn fn;
	void *arg;
};

static struct request *request;

void *bt_shared(size_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED) {
		perror("mmap");
		abort();
	}
	return memory;
}

/* Long enough to be blocked for certain, timer slack and all. */
#define SETTLE_NS (200 * DLP_NS_PER_US)

static void serve(int in, int out)
{
	char byte;

	while (read(in, &byte, 1) == 1) {
		request->fn(request->arg);
		/* a scope's end may be held back until its thread has left the CPU */
		bt_sleep_ns(SETTLE_NS);
		if (write(out, "", 1) != 1)
			break;
	}
	_exit(0);
}

void bt_job_start(struct bt_job *job)
{
	int to[2], from[2];

	memset(job, 0, sizeof(*job));
	if (!request)
		request = bt_shared(sizeof(*request));
	if (pipe2(to, O_CLOEXEC) || pipe2(from, O_CLOEXEC)) {
		perror("pipe");
		abort();
	}
	/* what stdio holds would be written by both */
	fflush(NULL);
	job->trainer = fork();
	if (!job->trainer) {
		/* a test that dies must not leave a job behind */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		/* what is known about its time must not drown in the neighbours' */
		(void)!nice(-15);
		close(to[1]);
		close(from[0]);
		serve(to[0], from[1]);
	}
	close(to[0]);
	close(from[1]);
	job->to = to[1];
	job->from = from[0];
}

void bt_begin(struct bt_job *job, bt_fn fn, void *arg)
{
	request->fn = fn;
	request->arg = arg;
	assert_int_equal(write(job->to, "", 1), 1);
}

void bt_end(struct bt_job *job)
{
	char byte;

	assert_int_equal(read(job->from, &byte, 1), 1);
}

void bt_call(struct bt_job *job, bt_fn fn, void *arg)
{
	bt_begin(job, fn, arg);
	bt_end(job);
}

void bt_run(struct bt_job *job, bt_fn fn)
{
	bt_job_need(job);
	bt_call(job, fn, NULL);
	bt_drain(job);
}

pid_t bt_fork(bt_fn fn, void *arg)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	fn(arg);
	_exit(0);
}

void bt_reap(pid_t pid)
{
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

static void add_probe(struct dlp_target *target, enum dlp_probe_id id, const void *code,
		      const char *symbol)
{
	struct dlp_probe *probe = &target->probe[target->probe_cnt++];

	probe->id = id;
	probe->offset = bt_file_offset(code);
	probe->insn = *(const uint8_t *)code;
	snprintf(probe->path, sizeof(probe->path), "%s", bt_self_path());
	snprintf(probe->symbol, sizeof(probe->symbol), "%s", symbol);
}

/* Any file, the same for the target and what runs it. */
static const struct dlp_file_id a_file = { .dev_major = 8, .dev_minor = 1, .inode = 4711 };

void bt_target_init(struct dlp_target *target, pid_t pid, const struct bt_setup *setup)
{
	memset(target, 0, sizeof(*target));
	target->pid = pid;
	target->scope_kind = DLP_SCOPE_KIND_A;
	target->op_args_param = setup->probes & BT_PROBE_OP5 ? 5 : 4;
	target->op_exit_delta = setup->exit_delta ? setup->exit_delta : 1;
	target->str_data_off = setup->str_data_off ? setup->str_data_off : 48;
	target->tuple_item_off = setup->tuple_item_off ? setup->tuple_item_off : 24;
	if (setup->gc_lo) {
		target->gc.cnt = 1;
		target->gc.range[0].hi = (uint32_t)(setup->gc_hi - setup->gc_lo);
		target->python_file = a_file;
	}
	if (setup->probes & BT_PROBE_SCOPE) {
		add_probe(target, DLP_PROBE_SCOPE_ENTER, (void *)bt_point_enter, "enter");
		add_probe(target, DLP_PROBE_SCOPE_EXIT, (void *)bt_point_exit, "exit");
	}
	if (setup->probes & (BT_PROBE_OP | BT_PROBE_OP5)) {
		target->scope_kind = DLP_SCOPE_KIND_B;
		add_probe(target, DLP_PROBE_SCOPE_OP,
			  setup->probes & BT_PROBE_OP5 ? (void *)bt_point_op5 : (void *)bt_point_op,
			  "op");
	}
	if (setup->probes & BT_PROBE_QUEUE) {
		add_probe(target, DLP_PROBE_QUEUE_SEND, (void *)bt_point_send, "_Py_write");
		add_probe(target, DLP_PROBE_QUEUE_RECV, (void *)bt_point_recv, "loads");
	}
	if (setup->probes & BT_PROBE_NEXT)
		add_probe(target, DLP_PROBE_NEXT, (void *)bt_point_next, "next");
	if (setup->probes & BT_PROBE_SEM)
		add_probe(target, DLP_PROBE_SEM_OPEN, (void *)bt_point_sem, "sem_open");
	else
		snprintf(target->iterator_note, sizeof(target->iterator_note), "not in this test");
}

static bool refuse(struct bt_job *job)
{
	job->refused = true;
	dlp_session_free(job->session);
	job->session = NULL;
	return false;
}

bool bt_job_observe(struct bt_job *job, const struct bt_setup *setup)
{
	struct dlp_session_opts opts = {
		.target = &job->target,
		.without = setup->without,
		.long_wait_ns = setup->long_wait_ns ? setup->long_wait_ns : BT_MS,
		.ring_bytes = setup->ring_bytes ? setup->ring_bytes : 4u << 20,
	};

	const struct dlp_interpreter unknown = { 0 };
	const struct dlp_interpreter python = { .gil_lo = setup->gil_lo,
						.gil_hi = setup->gil_hi,
						.bias = (uintptr_t)setup->gc_lo,
						.file = a_file };

	bt_target_init(&job->target, job->trainer, setup);
	if (!(setup->probes & (BT_PROBE_SCOPE | BT_PROBE_OP | BT_PROBE_OP5)))
		opts.without |= DLP_FEATURE_BIT(SCOPES);
	if (geteuid()) {
		snprintf(job->failure.text, sizeof(job->failure.text), "needs root");
		job->failure.unsupported = true;
		return refuse(job);
	}
	if (dlp_session_open(&opts, &job->session, &job->failure)) {
		job->session = NULL;
		return refuse(job);
	}
	if (dlp_session_add(job->session, job->trainer, &python)) {
		snprintf(job->failure.text, sizeof(job->failure.text), "the job table took no process");
		return refuse(job);
	}
	for (size_t i = 0; i < setup->more_cnt; i++)
		dlp_session_add(job->session, setup->more[i], &unknown);
	if (dlp_session_attach(job->session, &job->failure))
		return refuse(job);
	if (!(setup->without & DLP_FEATURE_BIT(CLOCK_ITER)))
		bt_sweep(job);
	bt_clear(job);
	return true;
}

void bt_job_need(const struct bt_job *job)
{
	if (!job->refused)
		return;
	if (!job->failure.unsupported)
		fail_msg("%s", job->failure.text);
	bt_skip("%s", job->failure.text);
}

void bt_job_prepare(struct bt_job *job, const struct bt_setup *setup)
{
	bt_job_start(job);
	bt_job_observe(job, setup);
}

void bt_job_open(struct bt_job *job, const struct bt_setup *setup)
{
	bt_job_prepare(job, setup);
	bt_job_need(job);
}

void bt_job_close_session(struct bt_job *job)
{
	dlp_session_free(job->session);
	job->session = NULL;
}

void bt_job_close(struct bt_job *job)
{
	bt_job_close_session(job);
	if (job->trainer > 0) {
		close(job->to);
		close(job->from);
		kill(job->trainer, SIGKILL);
		bt_reap(job->trainer);
	}
	free(job->event);
	memset(job, 0, sizeof(*job));
}

static int keep(void *ctx, const void *event, size_t bytes)
{
	struct bt_job *job = ctx;
	struct bt_event *slot;

	if (job->event_cnt == job->event_max) {
		job->event_max = job->event_max ? 2 * job->event_max : 1024;
		job->event = realloc(job->event, job->event_max * sizeof(*job->event));
		if (!job->event)
			abort();
	}
	slot = &job->event[job->event_cnt++];
	memset(slot, 0, sizeof(*slot));
	slot->bytes = bytes;
	if (bytes <= sizeof(*slot) - offsetof(struct bt_event, hdr))
		memcpy(&slot->hdr, event, bytes);
	return 0;
}

void bt_drain(struct bt_job *job)
{
	size_t first = job->event_cnt;

	assert_true(dlp_session_consume(job->session, keep, job) >= 0);
	for (size_t i = first; i < job->event_cnt; i++)
		assert_int_equal(job->event[i].bytes, job->event[i].hdr.size);
}

void bt_clear(struct bt_job *job)
{
	bt_drain(job);
	job->event_cnt = 0;
}

void bt_sweep(struct bt_job *job)
{
	assert_int_equal(dlp_session_sweep(job->session, keep, job), 0);
}

void bt_others(struct bt_job *job)
{
	assert_int_equal(dlp_session_samples(job->session, keep, job), 0);
}

struct bt_event *bt_find(struct bt_job *job, uint32_t kind, pid_t tid, size_t nth)
{
	for (size_t i = 0; i < job->event_cnt; i++) {
		struct bt_event *event = &job->event[i];

		if (event->hdr.kind == kind && (!tid || event->hdr.tid == (uint32_t)tid) && !nth--)
			return event;
	}
	return NULL;
}

size_t bt_count(struct bt_job *job, uint32_t kind, pid_t tid)
{
	size_t cnt = 0;

	while (bt_find(job, kind, tid, cnt))
		cnt++;
	return cnt;
}

const struct dlp_ev_clock *bt_last_clock(struct bt_job *job, pid_t tid)
{
	struct bt_event *event = NULL;

	for (size_t i = job->event_cnt; i-- && !event;) {
		if (job->event[i].hdr.kind == DLP_EV_CLOCK && job->event[i].hdr.tid == (uint32_t)tid)
			event = &job->event[i];
	}
	if (!event)
		fail_msg("thread %d is not in the sweep", (int)tid);
	return &event->clock;
}

const char *bt_label(struct bt_job *job, uint32_t id)
{
	for (size_t i = 0; i < job->event_cnt; i++) {
		if (job->event[i].hdr.kind == DLP_EV_LABEL && job->event[i].label.label == id)
			return job->event[i].label.text;
	}
	return NULL;
}

const struct dlp_ev_scope *bt_scope(struct bt_job *job, pid_t tid, size_t nth)
{
	struct bt_event *event = bt_find(job, DLP_EV_SCOPE, tid, nth);

	if (!event)
		fail_msg("thread %d has no scope number %zu", (int)tid, nth);
	return &event->scope;
}

void bt_assert_label(struct bt_job *job, const struct dlp_ev_scope *scope, const char *text)
{
	const char *label = bt_label(job, scope->label);

	if (!label || strcmp(label, text))
		fail_msg("the label is '%s', not '%s'", label ? label : "(never announced)", text);
}

uint64_t bt_counter(struct bt_job *job, enum dlp_counter counter)
{
	struct dlp_ev_counters counters;

	memset(&counters, 0, sizeof(counters));
	dlp_session_counters(job->session, &counters);
	return counters.value[counter];
}

uint64_t bt_sum(const struct dlp_clock *clock)
{
	uint64_t sum = 0;

	for (int i = 0; i < DLP_ST_MAX; i++)
		sum += clock->ns[i];
	return sum;
}

uint64_t bt_cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * DLP_NS_PER_S + (uint64_t)now.tv_nsec;
}

uint64_t bt_delay_ns(void)
{
	unsigned long long ran, waited = 0;
	FILE *file = fopen("/proc/thread-self/schedstat", "re");

	if (!file || fscanf(file, "%llu %llu", &ran, &waited) != 2)
		waited = 0;
	if (file)
		fclose(file);
	return waited;
}

void bt_sleep_ns(uint64_t ns)
{
	struct timespec left = { .tv_sec = (time_t)(ns / DLP_NS_PER_S),
				 .tv_nsec = (long)(ns % DLP_NS_PER_S) };

	while (clock_nanosleep(CLOCK_MONOTONIC, 0, &left, &left) == EINTR)
		;
}

void bt_pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

bool bt_near(uint64_t a, uint64_t b, double share, uint64_t floor_ns)
{
	uint64_t diff = a > b ? a - b : b - a;

	return diff <= floor_ns || (double)diff <= share * (double)b;
}

bool bt_between(uint64_t a, uint64_t low, uint64_t high, double share, uint64_t floor_ns)
{
	return (a >= low && a <= high) || bt_near(a, low, share, floor_ns) ||
	       bt_near(a, high, share, floor_ns);
}

void bt_wait_blocked(pid_t pid)
{
	char path[64], state = '?';

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	while (state != 'S' && state != 'D') {
		FILE *file = fopen(path, "re");

		if (!file || fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
			fail_msg("process %d is gone", (int)pid);
		if (file)
			fclose(file);
		bt_sleep_ns(BT_MS);
	}
}
