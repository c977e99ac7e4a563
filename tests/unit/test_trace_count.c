/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The trace's counters, rows of states and waits, and block devices. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <math.h>

#include "trace_read.h"
#include "util.h"

#define S DLP_NS_PER_S
#define MS DLP_NS_PER_MS
#define TRAINER 7u
#define WORKER 8u
/* Numbers of what is no thread or process begin here. */
#define ROWS (1u << 22)

static struct dlp_model *model;

static int setup(void **state)
{
	(void)state;
	assert_int_equal(dlp_model_new(&model), 0);
	model->trainer_pid = model->main_tid = TRAINER;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	dlp_model_free(model);
	return 0;
}

static void check_value(const struct trace_read *picture, const char *name, const char *series,
			uint32_t pid, uint64_t at_ns, double value)
{
	const struct trace_event *event = trace_read_find(picture, 'C', name, pid, at_ns);

	assert_non_null(event);
	assert_true(fabs(json_number_value(json_object_get(event->args, series)) - value) < 1e-6);
}

/* A sample's CPU time goes to the intervals it lies in, by its share in each. */
static void test_cpu(void **state)
{
	struct dlp_history_interval intervals[] = {
		{ .start_ns = 10 * S, .end_ns = 11 * S, .batches = 30, .exposed_ns = S / 4 },
		{ .start_ns = 11 * S, .end_ns = 13 * S, .batches = 20, .exposed_ns = S },
	};
	struct dlp_history_sample samples[] = {
		{ .start_ns = 10 * S, .end_ns = 11 * S, .pid = TRAINER, .tid = TRAINER },
		{ .start_ns = 10 * S + S / 2, .end_ns = 11 * S + S / 2, .pid = WORKER },
	};
	struct dlp_history_other others[] = {
		{ .ts_ns = 10 * S, .cpu_ns = 5 * S },
		{ .ts_ns = 10 * S, .cpu_ns = 4 * S, .pid = 99 },
		{ .ts_ns = 12 * S, .cpu_ns = 8 * S },
	};
	struct dlp_history history = { .model = model,
				       .intervals = intervals,
				       .interval_cnt = 2,
				       .samples = samples,
				       .sample_cnt = 2,
				       .others = others,
				       .other_cnt = 3 };
	struct trace_read picture;
	const struct trace_event *row;

	(void)state;
	samples[0].split.ns[DLP_ST_RUN] = S / 5;
	samples[0].split.ns[DLP_ST_PIPE] = S / 5 * 4;
	samples[1].split.ns[DLP_ST_RUN] = S;
	picture = trace_read(&history);
	check_value(&picture, "CPUs used by the job", "cpus", TRAINER, 10 * S, 0.7);
	check_value(&picture, "CPUs used by the job", "cpus", TRAINER, 11 * S, 0.25);
	check_value(&picture, "CPUs used by others", "cpus", TRAINER, 10 * S, 1.5);
	check_value(&picture, "batches per second", "batches", TRAINER, 10 * S, 30);
	check_value(&picture, "batches per second", "batches", TRAINER, 11 * S, 10);
	check_value(&picture, "waiting for data", "share", TRAINER, 10 * S, 0.25);
	check_value(&picture, "waiting for data", "share", TRAINER, 11 * S, 0.5);
	row = trace_read_slice(&picture, TRAINER, ROWS + TRAINER, 10 * S);
	assert_string_equal(row->name, "pipe");
	assert_true(json_number_value(json_object_get(row->args, "run_us")) == 200000);
	/* a process's other threads have a row without a thread's number */
	assert_string_equal(trace_read_slice(&picture, WORKER, ROWS, 11 * S)->name, "run");
	trace_read_free(&picture);
	/* without clocks the CPUs are not known */
	history.sample_cnt = 0;
	picture = trace_read(&history);
	assert_null(trace_read_find(&picture, 'C', "CPUs used by the job", TRAINER, 10 * S));
	trace_read_free(&picture);
}

static void test_waits(void **state)
{
	struct dlp_history_wait waits[] = {
		{ .start_ns = 20 * MS,
		  .end_ns = 30 * MS,
		  .wake_ns = 27 * MS,
		  .pid = WORKER,
		  .tid = WORKER,
		  .state = DLP_ST_DISK,
		  .syscall = 0,
		  .dev = 7u << 20 | 3,
		  .fs_magic = 0xef53,
		  .waker_tid = 4 },
		{ .start_ns = 30 * MS,
		  .end_ns = 35 * MS,
		  .pid = WORKER,
		  .tid = WORKER,
		  .state = 99,
		  .syscall = -1 },
	};
	struct dlp_history history = { .model = model, .waits = waits, .wait_cnt = 2 };
	struct trace_read picture = trace_read(&history);
	const struct trace_event *wait =
		trace_read_slice(&picture, WORKER, 2 * ROWS + WORKER, 29 * MS);

	(void)state;
	assert_string_equal(wait->name, "disk");
	assert_int_equal(wait->start_ns, 20 * MS);
	assert_int_equal(wait->end_ns, 30 * MS);
	assert_string_equal(json_string_value(json_object_get(wait->args, "device")), "7:3");
	assert_true(json_number_value(json_object_get(wait->args, "runq_us")) == 3000);
	assert_int_equal(trace_read_arg(wait, "waker_tid"), 4);
	wait = trace_read_slice(&picture, WORKER, 2 * ROWS + WORKER, 31 * MS);
	assert_string_equal(wait->name, "other");
	assert_string_equal(json_string_value(json_object_get(wait->args, "syscall")),
			    "page fault");
	trace_read_free(&picture);
}

static void test_devices(void **state)
{
	struct dlp_history_block block = { .start_ns = 10 * S,
					   .end_ns = 12 * S,
					   .dev = 8u << 20,
					   .read_bytes = 30000000,
					   .write_bytes = 5000000 };
	struct dlp_history_request requests[] = {
		{ .queued_ns = 10 * S,
		  .issued_ns = 10 * S + 2 * MS,
		  .done_ns = 10 * S + 9 * MS,
		  .dev = 8u << 20,
		  .op = 0,
		  .bytes = 4096,
		  .pid = WORKER },
		{ .queued_ns = 10 * S + MS,
		  .done_ns = 10 * S + 8 * MS,
		  .dev = 8u << 20,
		  .op = 1,
		  .bytes = 512 },
	};
	struct dlp_history history = { .model = model,
				       .blocks = &block,
				       .block_cnt = 1,
				       .requests = requests,
				       .request_cnt = 2 };
	struct trace_read picture = trace_read(&history);
	const struct trace_event *begin, *end;

	(void)state;
	check_value(&picture, "8:0, MB/s", "read", ROWS, 10 * S, 15);
	check_value(&picture, "8:0, MB/s", "write", ROWS, 10 * S, 2.5);
	check_value(&picture, "8:0, MB/s", "read", ROWS, 12 * S, 0);
	begin = trace_read_find(&picture, 'b', "8:0, slow read", ROWS, 10 * S);
	end = trace_read_find(&picture, 'e', "8:0, slow read", ROWS, 10 * S + 9 * MS);
	assert_non_null(begin);
	assert_non_null(end);
	assert_int_equal(begin->id, end->id);
	assert_int_equal(trace_read_arg(begin, "bytes"), 4096);
	assert_int_equal(trace_read_arg(begin, "pid"), WORKER);
	begin = trace_read_find(&picture, 'b', "8:0, slow write", ROWS, 10 * S + MS);
	assert_non_null(begin);
	assert_int_not_equal(begin->id, end->id);
	assert_int_equal(trace_read_arg(begin, "pid"), -1);
	trace_read_free(&picture);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_cpu, setup, teardown),
		cmocka_unit_test_setup_teardown(test_waits, setup, teardown),
		cmocka_unit_test_setup_teardown(test_devices, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
