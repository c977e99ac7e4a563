/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The summary's lists of where time goes: stages, long waits, block devices and who reads. */
#include "summary_priv.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fsname.h"
#include "split.h"
#include "stage.h"
#include "util.h"

static const char *where(bool worker)
{
	return worker ? "workers" : "main";
}

/* The governor left scopes of this label out for a while. */
static bool is_partial(const struct dlp_model *model, const struct dlp_stage_row *row)
{
	return dlp_model_governed_ns(model, DLP_GOV_LABELS_OFF) ||
	       (row->worker && dlp_model_governed_ns(model, DLP_GOV_WORKER_SCOPES));
}

static json_t *stage(struct dlp_doc *doc, const struct dlp_stage_row *row)
{
	const struct dlp_stage_sum *sum = row->sum;
	/* without state clocks every split is empty */
	bool split_known = dlp_split_sum(&sum->split) || !sum->total_ns;
	json_t *entry = json_object();

	dlp_doc_set(doc, entry, "label", dlp_json_text(row->label));
	dlp_doc_set(doc, entry, "kind", json_string("record_function"));
	dlp_doc_set(doc, entry, "where", json_string(where(row->worker)));
	dlp_doc_set(doc, entry, "count", dlp_json_count(sum->cnt));
	dlp_doc_set(doc, entry, "total_us", dlp_json_us(sum->total_ns));
	dlp_doc_set(doc, entry, "median_us",
		    row->duration ? dlp_doc_quantile(row->duration, 0.5) : json_null());
	dlp_doc_set(doc, entry, "max_us", dlp_json_us(sum->max_ns));
	dlp_doc_set(doc, entry, "exclusive_us", dlp_json_us(sum->exclusive_ns));
	dlp_doc_set(doc, entry, row->worker ? "share_of_production" : "share_of_wall",
		    dlp_json_ratio(row->share));
	dlp_doc_set(doc, entry, "sampled", json_boolean(sum->sampled));
	dlp_doc_set(doc, entry, "partial", json_boolean(is_partial(doc->model, row)));
	dlp_doc_set(doc, entry, "states",
		    split_known ? dlp_doc_states(doc, &sum->split) : json_null());
	return entry;
}

json_t *dlp_doc_stages(struct dlp_doc *doc)
{
	struct dlp_stage_row row[DLP_STAGE_ROWS_MAX];
	json_t *array;
	size_t cnt;

	if (!doc->facts->scope_rung)
		return json_null();
	array = json_array();
	cnt = dlp_stage_rank(doc->model, row);
	for (size_t i = 0; i < cnt; i++)
		dlp_doc_push(doc, array, stage(doc, &row[i]));
	return array;
}

/* "259:1", as in /sys/dev/block. */
static const char *device_number(uint32_t dev, char *buf, size_t size)
{
	(void)snprintf(buf, size, "%u:%u", dev >> 20, dev & 0xfffff);
	return buf;
}

/* Its name where the session knows one, else its number. */
static json_t *device_name(const struct dlp_doc *doc, uint32_t dev)
{
	char number[24], buf[64];
	const char *name = NULL;

	if (doc->facts->device_name)
		name = doc->facts->device_name(dev, buf, sizeof(buf));
	return dlp_json_text(name ? name : device_number(dev, number, sizeof(number)));
}

static int longer_first(const void *a, const void *b)
{
	const struct dlp_wait_group *x = a, *y = b;

	return (x->total_ns < y->total_ns) - (x->total_ns > y->total_ns);
}

static json_t *wait_group(struct dlp_doc *doc, const struct dlp_wait_group *group)
{
	json_t *entry = json_object();
	char buf[16];

	dlp_doc_set(doc, entry, "where", json_string(where(group->worker)));
	/* DLP_ST_MAX: several, see dlp_doc_waits */
	dlp_doc_set(doc, entry, "state",
		    group->state < DLP_ST_MAX ? json_string(dlp_split_state_id(group->state)) :
						json_null());
	dlp_doc_set(doc, entry, "filesystem",
		    dlp_json_text(dlp_fsname(group->fs_magic, buf, sizeof(buf))));
	dlp_doc_set(doc, entry, "device", group->dev ? device_name(doc, group->dev) : json_null());
	dlp_doc_set(doc, entry, "count", dlp_json_count(group->cnt));
	dlp_doc_set(doc, entry, "total_us", dlp_json_us(group->total_ns));
	dlp_doc_set(doc, entry, "max_us", dlp_json_us(group->max_ns));
	dlp_doc_set(doc, entry, "partial",
		    json_boolean(dlp_model_governed_ns(doc->model, DLP_GOV_LONG_WAITS)));
	return entry;
}

json_t *dlp_doc_waits(struct dlp_doc *doc)
{
	const struct dlp_model *model = doc->model;
	struct dlp_wait_group group[DLP_MODEL_WAITS_MAX + 2];
	size_t cnt = 0;
	json_t *array;

	if (!doc->facts->waits_seen)
		return json_null();
	for (; cnt < model->wait_cnt; cnt++)
		group[cnt] = model->waits[cnt];
	for (int worker = 0; worker < 2; worker++) {
		if (!model->other_waits[worker].cnt)
			continue;
		group[cnt] = model->other_waits[worker];
		group[cnt].state = DLP_ST_MAX;
		group[cnt++].worker = worker;
	}
	qsort(group, cnt, sizeof(*group), longer_first);
	array = json_array();
	for (size_t i = 0; i < cnt; i++)
		dlp_doc_push(doc, array, wait_group(doc, &group[i]));
	return array;
}

static int more_bytes_first(const void *a, const void *b)
{
	const struct dlp_reader *x = a, *y = b;

	return (x->read_bytes < y->read_bytes) - (x->read_bytes > y->read_bytes);
}

static json_t *reader(struct dlp_doc *doc, const struct dlp_reader *of)
{
	json_t *entry = json_object();

	dlp_doc_set(doc, entry, "pid", dlp_json_known(of->pid));
	dlp_doc_set(doc, entry, "reads", dlp_json_count(of->reads));
	dlp_doc_set(doc, entry, "read_bytes", dlp_json_count(of->read_bytes));
	dlp_doc_set(doc, entry, "wait_us", of->timed ? dlp_json_us(of->wait_ns) : json_null());
	return entry;
}

static json_t *by_worker(struct dlp_doc *doc, const struct dlp_device *device)
{
	struct dlp_reader sorted[DLP_MODEL_READERS_MAX];
	json_t *array = json_array();

	memcpy(sorted, device->reader, sizeof(sorted));
	qsort(sorted, device->reader_cnt, sizeof(*sorted), more_bytes_first);
	for (size_t i = 0; i < device->reader_cnt; i++)
		dlp_doc_push(doc, array, reader(doc, &sorted[i]));
	if (device->other_readers.reads)
		dlp_doc_push(doc, array, reader(doc, &device->other_readers));
	return array;
}

/*
 * Little's law: requests in flight on average = requests per second times their time in flight,
 * which is the sum of all latencies over the window.
 */
static double mean_depth(const struct dlp_model *model, const struct dlp_device *device)
{
	if (model->end_ns <= model->start_ns || (device->reads && !device->latency.cnt))
		return NAN;
	return (double)device->latency.sum_ns / (double)(model->end_ns - model->start_ns);
}

static json_t *block_device(struct dlp_doc *doc, const struct dlp_device *device)
{
	json_t *entry = json_object(), *latency = json_object();
	double reads = device->reads ? (double)device->reads : NAN;
	char number[24];

	dlp_doc_set(doc, latency, "median_us", dlp_doc_quantile(&device->latency, 0.5));
	dlp_doc_set(doc, latency, "p99_us", dlp_doc_quantile(&device->latency, 0.99));
	dlp_doc_set(doc, latency, "max_us", dlp_doc_longest(&device->latency));
	dlp_doc_set(doc, entry, "device", device_name(doc, device->dev));
	dlp_doc_set(doc, entry, "number",
		    json_string(device_number(device->dev, number, sizeof(number))));
	dlp_doc_set(doc, entry, "reads", dlp_json_count(device->reads));
	dlp_doc_set(doc, entry, "read_bytes", dlp_json_count(device->read_bytes));
	dlp_doc_set(doc, entry, "mean_read_bytes",
		    dlp_json_ratio((double)device->read_bytes / reads));
	dlp_doc_set(doc, entry, "mean_depth", dlp_json_ratio(mean_depth(doc->model, device)));
	dlp_doc_set(doc, entry, "writes", dlp_json_count(device->writes));
	dlp_doc_set(doc, entry, "write_bytes", dlp_json_count(device->write_bytes));
	dlp_doc_set(doc, entry, "latency", latency);
	dlp_doc_set(doc, entry, "by_worker", by_worker(doc, device));
	return entry;
}

json_t *dlp_doc_block_io(struct dlp_doc *doc)
{
	const struct dlp_model *model = doc->model;
	json_t *array;

	if (!doc->facts->block_seen)
		return json_null();
	array = json_array();
	for (size_t i = 0; i < model->device_cnt; i++)
		dlp_doc_push(doc, array, block_device(doc, &model->devices[i]));
	return array;
}
