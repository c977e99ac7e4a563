/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The trace's rows of states and waits, its counters, and its block devices. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "decode.h"
#include "fsname.h"
#include "syscalls.h"
#include "trace_priv.h"
#include "util.h"

const char *dlp_trace_device(const struct dlp_trace *trace, uint32_t dev, char *buf, size_t size)
{
	const struct dlp_summary_facts *facts = trace->history->facts;
	const char *name = facts && facts->device_name ? facts->device_name(dev, buf, size) : NULL;

	if (name)
		return name;
	/* the kernel's dev_t: 12 bits of major, 20 of minor */
	(void)snprintf(buf, size, "%" PRIu32 ":%" PRIu32, dev >> 20, dev & 0xfffff);
	return buf;
}

/* ---- states and waits ------------------------------------------------------------------------ */

/* Begins a slice on a row of its own kind; the caller ends it. 1, 0 = left out, -ENOMEM. */
static int begin_slice(struct dlp_trace *trace, const char *name, const char *category,
		       uint32_t pid, uint32_t row, uint64_t start_ns, uint64_t end_ns)
{
	struct dlp_track *track = dlp_trace_row(trace, pid, row);

	if (!track)
		return -ENOMEM;
	if (!dlp_track_push(track, start_ns, &end_ns))
		return 0;
	dlp_trace_begin(&trace->out, 'X', name, pid, row);
	dlp_trace_at(&trace->out, start_ns);
	dlp_trace_lasts(&trace->out, end_ns - start_ns);
	dlp_trace_category(&trace->out, category);
	return 1;
}

static const char *main_state(const struct dlp_clock *split)
{
	unsigned int most = 0;

	for (unsigned int i = 1; i < DLP_ST_MAX; i++) {
		if (split->ns[i] > split->ns[most])
			most = i;
	}
	return dlp_state_name(most);
}

static int draw_sample(struct dlp_trace *trace, const struct dlp_history_sample *sample)
{
	int got;

	if (sample->tid >= DLP_TRACE_ID_MAX || sample->end_ns <= sample->start_ns)
		return 0;
	got = begin_slice(trace, main_state(&sample->split), "state", sample->pid,
			  DLP_TRACE_ROW_STATES + sample->tid, sample->start_ns, sample->end_ns);
	if (got <= 0)
		return got;
	dlp_trace_split(trace, &sample->split);
	dlp_trace_end(&trace->out);
	return 0;
}

static int draw_wait(struct dlp_trace *trace, const struct dlp_history_wait *wait)
{
	struct dlp_trace_out *out = &trace->out;
	const char *state = dlp_state_name(wait->state);
	const char *syscall = dlp_syscall_name(wait->syscall);
	char text[64];
	int got;

	if (wait->tid >= DLP_TRACE_ID_MAX)
		return 0;
	got = begin_slice(trace, state ? state : "other", "wait", wait->pid,
			  DLP_TRACE_ROW_WAITS + wait->tid, wait->start_ns, wait->end_ns);
	if (got <= 0)
		return got;
	if (*syscall)
		dlp_trace_arg_text(out, "syscall", syscall);
	else
		dlp_trace_arg_int(out, "syscall", wait->syscall);
	if (wait->wake_ns >= wait->start_ns && wait->wake_ns <= wait->end_ns)
		dlp_trace_arg_us(out, "runq_us", (int64_t)(wait->end_ns - wait->wake_ns));
	if (wait->fs_magic)
		dlp_trace_arg_text(out, "filesystem",
				   dlp_fsname(wait->fs_magic, text, sizeof(text)));
	if (wait->dev)
		dlp_trace_arg_text(out, "device",
				   dlp_trace_device(trace, wait->dev, text, sizeof(text)));
	if (wait->waker_tid)
		dlp_trace_arg_count(out, "waker_tid", wait->waker_tid);
	dlp_trace_end(out);
	return 0;
}

int dlp_trace_states(struct dlp_trace *trace)
{
	const struct dlp_history *history = trace->history;
	int err = 0;

	for (size_t i = 0; !err && i < history->sample_cnt; i++)
		err = draw_sample(trace, &history->samples[i]);
	for (size_t i = 0; !err && i < history->wait_cnt; i++)
		err = draw_wait(trace, &history->waits[i]);
	return err;
}

/* ---- counters -------------------------------------------------------------------------------- */

static void begin_counter(struct dlp_trace *trace, const char *name, uint32_t pid, uint64_t ts_ns)
{
	dlp_trace_begin(&trace->out, 'C', name, pid, 0);
	dlp_trace_at(&trace->out, ts_ns);
}

static void counter(struct dlp_trace *trace, const char *name, const char *series, uint64_t ts_ns,
		    double value)
{
	begin_counter(trace, name, trace->history->model->trainer_pid, ts_ns);
	dlp_trace_arg_real(&trace->out, series, value);
	dlp_trace_end(&trace->out);
}

static void count_ready(struct dlp_trace *trace)
{
	const struct dlp_history *history = trace->history;

	for (size_t i = 0; i < history->call_cnt; i++) {
		const struct dlp_history_call *call = &history->calls[i];
		char name[64];

		if (call->ready < 0)
			continue;
		(void)snprintf(name, sizeof(name), "ready batches, loader %" PRIu32, call->loader);
		begin_counter(trace, name, history->model->trainer_pid, call->start_ns);
		dlp_trace_arg_int(&trace->out, "batches", call->ready);
		dlp_trace_end(&trace->out);
	}
}

/* Adds a sample's time on a CPU to the intervals it lies in, to each by its share. */
static void spread(const struct dlp_history *history, const struct dlp_history_sample *sample,
		   double *cpu_ns)
{
	double run = (double)sample->split.ns[DLP_ST_RUN] /
		     (double)(sample->end_ns - sample->start_ns);
	size_t low = 0, high = history->interval_cnt;

	/* the first interval that ends after the sample's start */
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (history->intervals[middle].end_ns <= sample->start_ns)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < history->interval_cnt; low++) {
		const struct dlp_history_interval *interval = &history->intervals[low];
		uint64_t from = interval->start_ns, to = interval->end_ns;

		if (from >= sample->end_ns)
			break;
		from = from > sample->start_ns ? from : sample->start_ns;
		to = to < sample->end_ns ? to : sample->end_ns;
		cpu_ns[low] += run * (double)(to - from);
	}
}

static int count_intervals(struct dlp_trace *trace)
{
	const struct dlp_history *history = trace->history;
	_cleanup_free_ double *cpu_ns = calloc(history->interval_cnt + 1, sizeof(*cpu_ns));

	if (!cpu_ns)
		return -ENOMEM;
	for (size_t i = 0; i < history->sample_cnt; i++) {
		if (history->samples[i].end_ns > history->samples[i].start_ns)
			spread(history, &history->samples[i], cpu_ns);
	}
	for (size_t i = 0; i < history->interval_cnt; i++) {
		const struct dlp_history_interval *interval = &history->intervals[i];
		double ns = (double)(interval->end_ns - interval->start_ns);

		if (interval->end_ns <= interval->start_ns)
			continue;
		counter(trace, "batches per second", "batches", interval->start_ns,
			(double)interval->batches * 1e9 / ns);
		counter(trace, "waiting for data", "share", interval->start_ns,
			(double)interval->exposed_ns / ns);
		/* without clocks it is not known, which is not 0 */
		if (history->sample_cnt)
			counter(trace, "CPUs used by the job", "cpus", interval->start_ns,
				cpu_ns[i] / ns);
	}
	return 0;
}

static void count_others(struct dlp_trace *trace)
{
	const struct dlp_history *history = trace->history;
	const struct dlp_history_other *before = NULL;

	for (size_t i = 0; i < history->other_cnt; i++) {
		const struct dlp_history_other *other = &history->others[i];

		if (other->pid)
			continue;
		if (before && other->ts_ns > before->ts_ns && other->cpu_ns >= before->cpu_ns)
			counter(trace, "CPUs used by others", "cpus", before->ts_ns,
				(double)(other->cpu_ns - before->cpu_ns) /
					(double)(other->ts_ns - before->ts_ns));
		before = other;
	}
}

int dlp_trace_counters(struct dlp_trace *trace)
{
	count_ready(trace);
	count_others(trace);
	return count_intervals(trace);
}

/* ---- block devices --------------------------------------------------------------------------- */

static void count_transfers(struct dlp_trace *trace, const struct dlp_history_block *block)
{
	char name[80], device[64];
	double s = (double)(block->end_ns - block->start_ns) / 1e9;

	if (block->end_ns <= block->start_ns)
		return;
	(void)snprintf(name, sizeof(name), "%s, MB/s",
		       dlp_trace_device(trace, block->dev, device, sizeof(device)));
	/* and none from its end on, unless the next interval says otherwise */
	for (unsigned int end = 0; end < 2; end++) {
		begin_counter(trace, name, DLP_TRACE_PID_DEVICES,
			      end ? block->end_ns : block->start_ns);
		dlp_trace_arg_real(&trace->out, "read",
				   end ? 0 : (double)block->read_bytes / 1e6 / s);
		dlp_trace_arg_real(&trace->out, "write",
				   end ? 0 : (double)block->write_bytes / 1e6 / s);
		dlp_trace_end(&trace->out);
	}
}

/* They overlap, so they are asynchronous events, which viewers stack. */
static void draw_request(struct dlp_trace *trace, const struct dlp_history_request *request,
			 uint64_t id)
{
	struct dlp_trace_out *out = &trace->out;
	char name[100], device[64];

	(void)snprintf(name, sizeof(name), "%s, slow %s",
		       dlp_trace_device(trace, request->dev, device, sizeof(device)),
		       request->op == 0 ? "read" : request->op == 1 ? "write" : "request");
	for (unsigned int end = 0; end < 2; end++) {
		dlp_trace_begin(out, end ? 'e' : 'b', name, DLP_TRACE_PID_DEVICES, 0);
		dlp_trace_at(out, end ? request->done_ns : request->queued_ns);
		dlp_trace_category(out, "block");
		dlp_trace_id(out, id);
		if (!end) {
			dlp_trace_arg_count(out, "bytes", request->bytes);
			if (request->issued_ns >= request->queued_ns)
				dlp_trace_arg_us(out, "queued_us",
						 (int64_t)(request->issued_ns - request->queued_ns));
			if (request->pid)
				dlp_trace_arg_count(out, "pid", request->pid);
		}
		dlp_trace_end(out);
	}
}

int dlp_trace_devices(struct dlp_trace *trace)
{
	const struct dlp_history *history = trace->history;
	int err;

	if (!history->block_cnt && !history->request_cnt)
		return 0;
	err = dlp_trace_process(trace, DLP_TRACE_PID_DEVICES);
	if (err)
		return err;
	for (size_t i = 0; i < history->block_cnt; i++)
		count_transfers(trace, &history->blocks[i]);
	for (size_t i = 0; i < history->request_cnt; i++)
		draw_request(trace, &history->requests[i], i + 1);
	return 0;
}
