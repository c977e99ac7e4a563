/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "summary.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "loss.h"
#include "split.h"
#include "summary_priv.h"
#include "util.h"
#include "wholefile.h"

void dlp_doc_set(struct dlp_doc *doc, json_t *object, const char *key, json_t *value)
{
	if (json_object_set_new(object, key, value))
		doc->failed = true;
}

void dlp_doc_push(struct dlp_doc *doc, json_t *array, json_t *value)
{
	if (json_array_append_new(array, value))
		doc->failed = true;
}

json_t *dlp_json_count(uint64_t value)
{
	/* JSON integers are signed here; no count or time reaches 2^63 */
	return json_integer(value > INT64_MAX ? INT64_MAX : (json_int_t)value);
}

json_t *dlp_json_us(uint64_t ns)
{
	return json_real(round((double)ns / 100) / 10);
}

json_t *dlp_json_ratio(double ratio)
{
	return isfinite(ratio) ? json_real(round(ratio * 1e6) / 1e6) : json_null();
}

json_t *dlp_json_known(uint64_t value)
{
	return value ? dlp_json_count(value) : json_null();
}

json_t *dlp_json_text(const char *text)
{
	_cleanup_free_ char *clean = NULL;
	size_t bytes;

	if (!text || !*text)
		return json_null();
	bytes = strlen(text);
	/* replacing never makes text longer */
	clean = malloc(bytes + 1);
	if (!clean)
		return NULL;
	return json_string(dlp_sanitise(clean, bytes + 1, text, bytes));
}

struct dump {
	char *text; /* room bytes of memory */
	size_t bytes, room;
	bool failed;
};

static int dump_more(const char *part, size_t bytes, void *ctx)
{
	struct dump *dump = ctx;

	if (dump->room - dump->bytes <= bytes) {
		size_t room = 2 * (dump->bytes + bytes) + 1024;
		char *grown = dump->failed ? NULL : realloc(dump->text, room);

		/* jansson 2.14 drops this answer for the keys of objects and goes on */
		if (!grown) {
			dump->failed = true;
			return -1;
		}
		dump->text = grown;
		dump->room = room;
	}
	memcpy(dump->text + dump->bytes, part, bytes);
	dump->bytes += bytes;
	dump->text[dump->bytes] = '\0';
	return 0;
}

int dlp_doc_dump(const struct dlp_doc *doc, const json_t *root, size_t indent, char **ret_text)
{
	struct dump dump = { .failed = doc->failed };

	/* 15 digits hold every figure here, and 0.1 stays 0.1 */
	if (!dump.failed && json_dump_callback(root, dump_more, &dump,
					       JSON_INDENT(indent) | JSON_PRESERVE_ORDER |
						       JSON_REAL_PRECISION(15)))
		dump.failed = true;
	if (!dump.failed)
		(void)dump_more("\n", 1, &dump);
	if (dump.failed) {
		free(dump.text);
		dump.text = NULL;
	}
	*ret_text = dump.text;
	return dump.failed ? -ENOMEM : 0;
}

const char *dlp_summary_exit(uint32_t status, char *buf, size_t size)
{
	if (status & 0x7f)
		(void)snprintf(buf, size, "killed by signal %u", status & 0x7f);
	else
		(void)snprintf(buf, size, "exit %u", status >> 8 & 0xff);
	return buf;
}

/* No such figure is real, but events may be made up. */
#define SCALED_MAX 0x1p62

static uint64_t scaled(uint64_t value, double scale)
{
	return (uint64_t)fmin((double)value * scale, SCALED_MAX);
}

void dlp_summary_cost(const struct dlp_model *model, struct dlp_own_cost *ret)
{
	const struct dlp_ev_counters *seen = &model->counters;

	memset(ret, 0, sizeof(*ret));
	/* the kernel's statistics are on for a part of the time only: what they saw stands for all */
	if (seen->hdr.size && seen->prog_run_cnt && seen->prog_sampled_ns &&
	    model->end_ns > model->start_ns) {
		double scale = (double)(model->end_ns - model->start_ns) /
			       (double)seen->prog_sampled_ns;

		ret->probes_known = true;
		ret->probe_hits = scaled(seen->prog_run_cnt, scale);
		ret->probe_cpu_ns = scaled(seen->prog_run_ns, scale);
		ret->probe_cpu_how = "kernel's BPF run-time statistics, sampled";
	}
	/* a process that runs has a resident size: 0 was never read */
	if (seen->hdr.size && seen->daemon_rss_bytes) {
		ret->daemon_known = true;
		ret->daemon_cpu_ns = seen->daemon_cpu_ns;
		ret->daemon_rss_bytes = seen->daemon_rss_bytes;
	}
}

bool dlp_summary_complete(const struct dlp_model *model, const struct dlp_summary_facts *facts)
{
	struct dlp_loss loss;

	dlp_loss_get(model, &loss);
	for (size_t i = 0; i < facts->missing_cnt; i++) {
		if (facts->missing[i].figures)
			return false;
	}
	return loss.complete;
}

static bool lacks(const struct dlp_summary_facts *facts, const char *feature)
{
	for (size_t i = 0; i < facts->missing_cnt; i++) {
		if (!strcmp(facts->missing[i].name, feature))
			return true;
	}
	return false;
}

static json_t *tool(struct dlp_doc *doc)
{
	const struct dlp_summary_facts *facts = doc->facts;
	json_t *object = json_object(), *capture = json_object(), *missing = json_array();

	for (size_t i = 0; i < facts->missing_cnt; i++)
		dlp_doc_push(doc, missing, dlp_json_text(facts->missing[i].name));
	dlp_doc_set(doc, capture, "scopes", dlp_json_text(facts->scope_rung));
	dlp_doc_set(doc, capture, "queue", dlp_json_text(facts->queue_rung));
	dlp_doc_set(doc, capture, "clocks", dlp_json_text(facts->clock_rung));
	dlp_doc_set(doc, capture, "missing", missing);
	dlp_doc_set(doc, object, "name", json_string("dlprof-bpf"));
	dlp_doc_set(doc, object, "version", dlp_json_text(facts->version));
	dlp_doc_set(doc, object, "capture", capture);
	return object;
}

static json_t *target(struct dlp_doc *doc)
{
	const struct dlp_target *target = doc->facts->target;
	uint32_t pid = doc->model->trainer_pid;
	json_t *object = json_object();

	/* nothing was seen of it */
	if (!pid && target)
		pid = (uint32_t)target->pid;
	dlp_doc_set(doc, object, "pid", dlp_json_known(pid));
	dlp_doc_set(doc, object, "cmdline", dlp_json_text(target ? target->cmdline : NULL));
	dlp_doc_set(doc, object, "python", dlp_json_text(target ? target->python.text : NULL));
	dlp_doc_set(doc, object, "torch", dlp_json_text(target ? target->torch.text : NULL));
	dlp_doc_set(doc, object, "workers_seen", dlp_json_count(doc->model->worker_cnt));
	dlp_doc_set(doc, object, "container", dlp_json_text(target ? target->container : NULL));
	dlp_doc_set(doc, object, "launched_ns", dlp_json_known(doc->facts->launched_ns));
	return object;
}

static json_t *window(struct dlp_doc *doc)
{
	const struct dlp_model *model = doc->model;
	uint64_t wall_ns = model->end_ns > model->start_ns ? model->end_ns - model->start_ns : 0;
	json_t *object = json_object();

	dlp_doc_set(doc, object, "start_ns", dlp_json_count(model->start_ns));
	dlp_doc_set(doc, object, "end_ns", dlp_json_count(model->end_ns));
	dlp_doc_set(doc, object, "wall_s", dlp_json_ratio((double)wall_ns / 1e9));
	dlp_doc_set(doc, object, "clock_realtime_at_start",
		    dlp_json_known(model->realtime_start_ns));
	return object;
}

static json_t *evidence(struct dlp_doc *doc)
{
	json_t *array = json_array();

	for (size_t i = 0; i < doc->verdict->evidence_cnt; i++) {
		const struct dlp_evidence *item = &doc->verdict->evidence[i];
		json_t *entry = json_object();

		dlp_doc_set(doc, entry, "metric", dlp_json_text(item->metric));
		dlp_doc_set(doc, entry, "value", dlp_json_ratio(item->value));
		dlp_doc_set(doc, entry, "unit", dlp_json_text(item->unit));
		dlp_doc_set(doc, entry, "text", dlp_json_text(item->text));
		dlp_doc_push(doc, array, entry);
	}
	return array;
}

static json_t *advice(struct dlp_doc *doc)
{
	json_t *array = json_array();

	for (size_t i = 0; i < doc->verdict->advice_cnt; i++) {
		const struct dlp_advice *item = &doc->verdict->advice[i];
		json_t *entry = json_object();

		dlp_doc_set(doc, entry, "text", dlp_json_text(item->text));
		dlp_doc_set(doc, entry, "counter_check", dlp_json_text(item->counter_check));
		dlp_doc_push(doc, array, entry);
	}
	return array;
}

static json_t *candidates(struct dlp_doc *doc)
{
	json_t *array = json_array();

	for (size_t i = 0; i < doc->verdict->candidate_cnt; i++) {
		const struct dlp_candidate *item = &doc->verdict->candidate[i];
		json_t *entry = json_object();

		dlp_doc_set(doc, entry, "cause", json_string(dlp_cause_id(item->cause)));
		dlp_doc_set(doc, entry, "share", dlp_json_ratio(item->share));
		dlp_doc_push(doc, array, entry);
	}
	return array;
}

json_t *dlp_doc_verdict(struct dlp_doc *doc)
{
	const struct dlp_verdict *said = doc->verdict;
	json_t *object = json_object();

	dlp_doc_set(doc, object, "bottleneck", json_string(dlp_bottleneck_id(said->bottleneck)));
	dlp_doc_set(doc, object, "exposed_wait_ratio", dlp_json_ratio(said->exposed_wait_ratio));
	dlp_doc_set(doc, object, "startup_ratio",
		    lacks(doc->facts, "iterators") ? json_null() : dlp_json_ratio(said->startup_ratio));
	dlp_doc_set(doc, object, "severity", json_string(dlp_severity_id(said->severity)));
	dlp_doc_set(doc, object, "cause", json_string(dlp_cause_id(said->cause)));
	dlp_doc_set(doc, object, "where", json_string(dlp_where_id(said->where)));
	dlp_doc_set(doc, object, "confidence", json_string(dlp_confidence_id(said->confidence)));
	dlp_doc_set(doc, object, "text", dlp_json_text(said->text));
	dlp_doc_set(doc, object, "evidence", evidence(doc));
	dlp_doc_set(doc, object, "advice", advice(doc));
	dlp_doc_set(doc, object, "candidates", candidates(doc));
	return object;
}

json_t *dlp_doc_share(uint64_t part, uint64_t all)
{
	return all ? dlp_json_ratio((double)part / (double)all) : json_null();
}

/* The garbage collector's part of the CPU time, by samples. */
static json_t *collector(struct dlp_doc *doc)
{
	const struct dlp_thread *thread = dlp_split_thread(doc->model, doc->model->main_tid);
	struct dlp_gc_sums gc = { 0 };
	json_t *object = json_object();

	if (thread)
		gc = thread->gc;
	dlp_doc_set(doc, object, "inside_share", dlp_doc_share(gc.gc_inside, gc.inside));
	dlp_doc_set(doc, object, "outside_share",
		    dlp_doc_share(gc.gc_samples - gc.gc_inside, gc.samples - gc.inside));
	dlp_doc_set(doc, object, "inside_samples", dlp_json_known(gc.inside));
	dlp_doc_set(doc, object, "outside_samples", dlp_json_known(gc.samples - gc.inside));
	return object;
}

static json_t *training_thread(struct dlp_doc *doc)
{
	const struct dlp_model *model = doc->model;
	json_t *object = json_object();

	dlp_doc_set(doc, object, "tid", dlp_json_known(model->main_tid));
	dlp_doc_set(doc, object, "inside",
		    model->main_valid ? dlp_doc_states(doc, &model->main_inside) : json_null());
	dlp_doc_set(doc, object, "outside",
		    model->main_valid ? dlp_doc_states(doc, &model->main_outside) : json_null());
	dlp_doc_set(doc, object, "gc", collector(doc));
	return object;
}

static json_t *overhead(struct dlp_doc *doc)
{
	json_t *object = json_object();
	struct dlp_own_cost cost;

	dlp_summary_cost(doc->model, &cost);
	dlp_doc_set(doc, object, "probe_hits",
		    cost.probes_known ? dlp_json_count(cost.probe_hits) : json_null());
	dlp_doc_set(doc, object, "probe_cpu_us",
		    cost.probes_known ? dlp_json_us(cost.probe_cpu_ns) : json_null());
	dlp_doc_set(doc, object, "probe_cpu_how", dlp_json_text(cost.probe_cpu_how));
	dlp_doc_set(doc, object, "daemon_cpu_us",
		    cost.daemon_known ? dlp_json_us(cost.daemon_cpu_ns) : json_null());
	dlp_doc_set(doc, object, "daemon_rss_bytes",
		    cost.daemon_known ? dlp_json_count(cost.daemon_rss_bytes) : json_null());
	dlp_doc_set(doc, object, "target_slowdown_ratio", json_null());
	dlp_doc_set(doc, object, "governor", dlp_doc_governor(doc));
	return object;
}

static json_t *loss_facts(struct dlp_doc *doc)
{
	json_t *object = json_object(), *reasons = json_object();
	struct dlp_loss loss;

	dlp_loss_get(doc->model, &loss);
	for (size_t i = 0; i < loss.reason_cnt; i++)
		dlp_doc_set(doc, reasons, loss.reason[i].id, dlp_json_count(loss.reason[i].count));
	dlp_doc_set(doc, object, "events_lost",
		    loss.counted ? dlp_json_count(loss.events) : json_null());
	dlp_doc_set(doc, object, "bytes_lost",
		    loss.counted ? dlp_json_count(loss.bytes) : json_null());
	dlp_doc_set(doc, object, "by_reason", reasons);
	dlp_doc_set(doc, object, "complete",
		    json_boolean(dlp_summary_complete(doc->model, doc->facts)));
	return object;
}

json_t *dlp_doc_summary(struct dlp_doc *doc)
{
	json_t *root = json_object();

	dlp_doc_set(doc, root, "schema", json_string(DLP_SUMMARY_SCHEMA));
	dlp_doc_set(doc, root, "tool", tool(doc));
	dlp_doc_set(doc, root, "target", target(doc));
	dlp_doc_set(doc, root, "window", window(doc));
	dlp_doc_set(doc, root, "verdict", dlp_doc_verdict(doc));
	dlp_doc_set(doc, root, "loaders", dlp_doc_loaders(doc));
	dlp_doc_set(doc, root, "workers", dlp_doc_workers(doc));
	dlp_doc_set(doc, root, "main", training_thread(doc));
	dlp_doc_set(doc, root, "stages", dlp_doc_stages(doc));
	dlp_doc_set(doc, root, "waits", dlp_doc_waits(doc));
	dlp_doc_set(doc, root, "block_io", dlp_doc_block_io(doc));
	dlp_doc_set(doc, root, "system", dlp_doc_system(doc));
	dlp_doc_set(doc, root, "phases", dlp_doc_phases(doc));
	dlp_doc_set(doc, root, "overhead", overhead(doc));
	dlp_doc_set(doc, root, "loss", loss_facts(doc));
	return root;
}

int dlp_summary_format(const struct dlp_model *model, const struct dlp_verdict *verdict,
		       const struct dlp_summary_facts *facts, char **ret_text)
{
	struct dlp_doc doc = { .model = model, .verdict = verdict, .facts = facts };
	json_t *root = dlp_doc_summary(&doc);
	int err = dlp_doc_dump(&doc, root, 2, ret_text);

	json_decref(root);
	return err;
}

int dlp_summary_save(const char *path, int fd, const char *text, char *error, size_t error_size)
{
	char shown[256];
	int err = text ? dlp_wholefile_write(path, fd, text) : -ENOMEM;

	if (err)
		(void)snprintf(error, error_size, "cannot write the summary to '%s': %s",
			       dlp_sanitise(shown, sizeof(shown), path, strlen(path)),
			       strerror(-err));
	return err;
}

int dlp_summary_write(const char *path, int fd, const struct dlp_model *model,
		      const struct dlp_verdict *verdict, const struct dlp_summary_facts *facts,
		      char *error, size_t error_size)
{
	_cleanup_free_ char *text = NULL;

	/* without memory there is no text */
	(void)dlp_summary_format(model, verdict, facts, &text);
	return dlp_summary_save(path, fd, text, error, error_size);
}
