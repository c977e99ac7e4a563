/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The summary's lists: loaders with their iterators, workers. */
#include "summary_priv.h"

#include <math.h>
#include <string.h>

#include "split.h"
#include "util.h"

static void set_nulls(struct dlp_doc *doc, json_t *object, const char *const *keys)
{
	for (; *keys; keys++)
		dlp_doc_set(doc, object, *keys, json_null());
}

json_t *dlp_doc_states(struct dlp_doc *doc, const struct dlp_clock *clock)
{
	json_t *states;

	/* where no switch is seen all time goes to the state a thread was first met in */
	if (!doc->facts->clock_rung)
		return json_null();
	states = json_object();
	for (unsigned int i = 0; i < DLP_ST_MAX; i++) {
		char key[16];

		(void)snprintf(key, sizeof(key), "%s_us", dlp_split_state_id(i));
		dlp_doc_set(doc, states, key, dlp_json_us(clock->ns[i]));
	}
	return states;
}

json_t *dlp_doc_quantile(const struct dlp_hist *hist, double q)
{
	return hist->cnt ? dlp_json_us(dlp_hist_quantile(hist, q)) : json_null();
}

json_t *dlp_doc_longest(const struct dlp_hist *hist)
{
	return hist->cnt ? dlp_json_us(hist->max_ns) : json_null();
}

/* Intervals of at least twice the median. */
static json_t *outliers(struct dlp_doc *doc, const struct dlp_hist *hist,
			const struct dlp_longest *list, bool with_worker)
{
	struct dlp_interval item[DLP_LONGEST_MAX];
	json_t *array = json_array();
	size_t cnt = 0;

	if (hist->cnt)
		cnt = dlp_longest_from(list, 2 * dlp_hist_quantile(hist, 0.5), item);
	for (size_t i = 0; i < cnt; i++) {
		json_t *entry = json_object();

		dlp_doc_set(doc, entry, "start_ns", dlp_json_count(item[i].start_ns));
		dlp_doc_set(doc, entry, "end_ns", dlp_json_count(item[i].end_ns));
		dlp_doc_set(doc, entry, "duration_us",
			    dlp_json_us(item[i].end_ns - item[i].start_ns));
		dlp_doc_set(doc, entry, "batch",
			    item[i].batch >= 0 ? json_integer(item[i].batch) : json_null());
		if (with_worker)
			dlp_doc_set(doc, entry, "worker_pid", dlp_json_known(item[i].worker_pid));
		dlp_doc_push(doc, array, entry);
	}
	return array;
}

static json_t *iterators(struct dlp_doc *doc, const struct dlp_loader *loader)
{
	const struct dlp_model *model = doc->model;
	json_t *array = json_array();

	for (size_t i = 0; i < model->iterator_cnt; i++) {
		const struct dlp_iterator *iterator = &model->iterators[i];
		json_t *entry, *pids;
		double ratio = NAN;

		if (iterator->loader != loader->id)
			continue;
		entry = json_object();
		pids = json_array();
		for (uint32_t j = 0;
		     j < iterator->worker_cnt && j < DLP_ARRAY_SIZE(iterator->worker_pid); j++)
			dlp_doc_push(doc, pids, dlp_json_count(iterator->worker_pid[j]));
		if (iterator->end_ns > iterator->start_ns)
			ratio = fmin(1, (double)iterator->getnext_ns /
						(double)(iterator->end_ns - iterator->start_ns));
		dlp_doc_set(doc, entry, "start_ns", dlp_json_known(iterator->start_ns));
		dlp_doc_set(doc, entry, "end_ns", dlp_json_known(iterator->end_ns));
		dlp_doc_set(doc, entry, "init_us",
			    iterator->init_ns ? dlp_json_us(iterator->init_ns) : json_null());
		dlp_doc_set(doc, entry, "workers", pids);
		dlp_doc_set(doc, entry, "getnext_count", dlp_json_count(iterator->getnext_cnt));
		dlp_doc_set(doc, entry, "exposed_wait_ratio", dlp_json_ratio(ratio));
		dlp_doc_push(doc, array, entry);
	}
	return array;
}

/* What the calls that ended in the window were spent on; only with workers is it told apart. */
static json_t *spent(struct dlp_doc *doc, const struct dlp_loader_sums *sums)
{
	json_t *entry = json_object();

	dlp_doc_set(doc, entry, "produce_us", dlp_json_us(sums->produce_ns));
	dlp_doc_set(doc, entry, "held_us", dlp_json_us(sums->held_ns));
	dlp_doc_set(doc, entry, "boot_us", dlp_json_us(sums->boot_ns));
	dlp_doc_set(doc, entry, "transfer_us", dlp_json_us(sums->transfer_ns));
	dlp_doc_set(doc, entry, "handover_us", dlp_json_us(sums->handover_ns));
	dlp_doc_set(doc, entry, "behind_us", dlp_json_us(sums->behind_ns));
	dlp_doc_set(doc, entry, "own_us", dlp_json_us(sums->own_ns));
	dlp_doc_set(doc, entry, "runq_us", dlp_json_us(sums->lack_ns));
	dlp_doc_set(doc, entry, "gil_us", dlp_json_us(sums->gil_ns));
	dlp_doc_set(doc, entry, "closing_us", dlp_json_us(sums->closing_ns));
	return entry;
}

static json_t *getnext(struct dlp_doc *doc, const struct dlp_loader *loader)
{
	const struct dlp_clock *split = &loader->getnext_split;
	const struct dlp_hist *hist = &loader->getnext;
	uint64_t total = dlp_split_sum(split);
	/* without state clocks every split is empty */
	bool split_known = total || !hist->sum_ns;
	json_t *entry = json_object();

	dlp_doc_set(doc, entry, "count",
		    dlp_json_count(hist->cnt + loader->straddle_cnt +
				   dlp_model_loader_lost(doc->model, loader)));
	dlp_doc_set(doc, entry, "total_us",
		    dlp_json_us(hist->sum_ns + loader->straddle_ns));
	dlp_doc_set(doc, entry, "median_us", dlp_doc_quantile(hist, 0.5));
	dlp_doc_set(doc, entry, "p95_us", dlp_doc_quantile(hist, 0.95));
	dlp_doc_set(doc, entry, "p99_us", dlp_doc_quantile(hist, 0.99));
	dlp_doc_set(doc, entry, "max_us", dlp_doc_longest(hist));
	if (split_known) {
		uint64_t ready = split->ns[DLP_ST_RUN] + split->ns[DLP_ST_RUNQ];

		dlp_doc_set(doc, entry, "blocked_us", dlp_json_us(total - ready));
		dlp_doc_set(doc, entry, "handover_us",
			    loader->num_workers ? dlp_json_us(loader->sums.handover_ns) :
						  json_null());
		dlp_doc_set(doc, entry, "cpu_us", dlp_json_us(split->ns[DLP_ST_RUN]));
		dlp_doc_set(doc, entry, "runq_us", dlp_json_us(split->ns[DLP_ST_RUNQ]));
	} else {
		static const char *const keys[] = { "blocked_us", "handover_us", "cpu_us",
						    "runq_us", NULL };

		set_nulls(doc, entry, keys);
	}
	dlp_doc_set(doc, entry, "spent",
		    loader->num_workers && split_known ? spent(doc, &loader->sums) : json_null());
	dlp_doc_set(doc, entry, "outliers", outliers(doc, hist, &loader->getnext_longest, true));
	return entry;
}

static json_t *batch_time(struct dlp_doc *doc, const struct dlp_loader *loader)
{
	const struct dlp_hist *hist = &loader->batch_time;
	json_t *entry = json_object();

	dlp_doc_set(doc, entry, "count", dlp_json_count(hist->cnt));
	dlp_doc_set(doc, entry, "median_us", dlp_doc_quantile(hist, 0.5));
	dlp_doc_set(doc, entry, "max_us", dlp_doc_longest(hist));
	dlp_doc_set(doc, entry, "outliers", outliers(doc, hist, &loader->batch_time_longest, true));
	return entry;
}

static json_t *queue(struct dlp_doc *doc, const struct dlp_loader *loader)
{
	const struct dlp_loader_sums *sums = &loader->sums;
	double calls = loader->ready_cnt ? (double)loader->ready_cnt : NAN;
	uint64_t made_ns = dlp_split_sum(&sums->made);
	json_t *entry = json_object();

	dlp_doc_set(doc, entry, "mean_ready", dlp_json_ratio((double)loader->ready_sum / calls));
	dlp_doc_set(doc, entry, "empty_fraction",
		    dlp_json_ratio((double)loader->empty_cnt / calls));
	dlp_doc_set(doc, entry, "full_fraction",
		    made_ns ? dlp_json_ratio(fmin(1, (double)sums->idle_full_ns / (double)made_ns)) :
			      json_null());
	return entry;
}

static json_t *iterator_init(struct dlp_doc *doc, const struct dlp_loader *loader)
{
	const struct dlp_hist *hist = &loader->init;
	json_t *entry = json_object();

	dlp_doc_set(doc, entry, "count", dlp_json_count(hist->cnt));
	dlp_doc_set(doc, entry, "median_us", dlp_doc_quantile(hist, 0.5));
	dlp_doc_set(doc, entry, "max_us", dlp_doc_longest(hist));
	dlp_doc_set(doc, entry, "outliers", outliers(doc, hist, &loader->init_longest, false));
	return entry;
}

/* What this loader alone costs, and why; null when too little was seen of it. */
static json_t *loader_verdict(struct dlp_doc *doc, const struct dlp_loader *loader)
{
	struct dlp_verdict said;
	json_t *entry;

	dlp_diagnose_loader(doc->model, loader, &said);
	if (said.bottleneck == DLP_BN_INSUFFICIENT)
		return json_null();
	entry = json_object();
	dlp_doc_set(doc, entry, "cause", json_string(dlp_cause_id(said.cause)));
	/* beside an acquittal a candidate's share is not of this loader's wait */
	dlp_doc_set(doc, entry, "share",
		    said.cause == DLP_CAUSE_NONE ? json_null() :
						   dlp_json_ratio(said.candidate[0].share));
	dlp_doc_set(doc, entry, "exposed_wait_ratio", dlp_json_ratio(said.exposed_wait_ratio));
	dlp_doc_set(doc, entry, "confidence", json_string(dlp_confidence_id(said.confidence)));
	dlp_doc_set(doc, entry, "text", dlp_json_text(said.text));
	return entry;
}

json_t *dlp_doc_loaders(struct dlp_doc *doc)
{
	const struct dlp_model *model = doc->model;
	json_t *array = json_array();

	for (size_t i = 0; i < model->loader_cnt; i++) {
		const struct dlp_loader *loader = &model->loaders[i];
		json_t *entry = json_object();

		dlp_doc_set(doc, entry, "id", dlp_json_count(loader->id));
		dlp_doc_set(doc, entry, "iterator_type", dlp_json_text(loader->type));
		dlp_doc_set(doc, entry, "num_workers",
			    loader->num_workers >= 0 ? json_integer(loader->num_workers) :
						       json_null());
		dlp_doc_set(doc, entry, "pin_memory",
			    loader->pin_memory >= 0 ? json_boolean(loader->pin_memory) :
						      json_null());
		dlp_doc_set(doc, entry, "prefetch", dlp_json_known(loader->prefetch));
		dlp_doc_set(doc, entry, "inits", dlp_json_known(loader->iterator_cnt));
		/* without messages a call that ends an epoch may look like one that returned a batch */
		dlp_doc_set(doc, entry, "batches",
			    dlp_model_governed_ns(model, DLP_GOV_MESSAGES) ?
				    json_null() : dlp_json_count(loader->batch_cnt));
		dlp_doc_set(doc, entry, "iterators", iterators(doc, loader));
		dlp_doc_set(doc, entry, "iterator_init", iterator_init(doc, loader));
		dlp_doc_set(doc, entry, "getnext", getnext(doc, loader));
		dlp_doc_set(doc, entry, "batch_time", batch_time(doc, loader));
		dlp_doc_set(doc, entry, "batch_size", json_null());
		dlp_doc_set(doc, entry, "queue", queue(doc, loader));
		dlp_doc_set(doc, entry, "verdict", loader_verdict(doc, loader));
		dlp_doc_push(doc, array, entry);
	}
	return array;
}

static json_t *produce(struct dlp_doc *doc, const struct dlp_worker *worker)
{
	json_t *entry = json_object();

	dlp_doc_set(doc, entry, "median_us", dlp_doc_quantile(&worker->produce, 0.5));
	dlp_doc_set(doc, entry, "max_us", dlp_doc_longest(&worker->produce));
	dlp_doc_set(doc, entry, "outliers",
		    outliers(doc, &worker->produce, &worker->produce_longest, false));
	return entry;
}

/* Growth in the window; a worker born in it starts at nothing, whenever it was first read. */
static uint64_t grown(bool born_inside, uint64_t first, uint64_t last)
{
	if (born_inside)
		return last;
	return last > first ? last - first : 0;
}

static void set_proc(struct dlp_doc *doc, json_t *entry, const struct dlp_worker *worker)
{
	static const char *const keys[] = { "read_bytes", "major_faults", "cpu_user_us",
					    "cpu_system_us", NULL };
	const struct dlp_ev_proc *first = &worker->proc_first, *last = &worker->proc_last;
	bool born = worker->born_ns && worker->born_ns >= doc->model->start_ns;

	dlp_doc_set(doc, entry, "affinity_cpus", dlp_json_known(last->cpus));
	dlp_doc_set(doc, entry, "native_threads_max", dlp_json_known(worker->threads_max));
	if (!last->hdr.size || !first->hdr.size) {
		set_nulls(doc, entry, keys);
		return;
	}
	dlp_doc_set(doc, entry, "read_bytes",
		    dlp_json_count(grown(born, first->read_bytes, last->read_bytes)));
	dlp_doc_set(doc, entry, "major_faults",
		    dlp_json_count(grown(born, first->majflt, last->majflt)));
	dlp_doc_set(doc, entry, "cpu_user_us",
		    dlp_json_us(grown(born, first->utime_ns, last->utime_ns)));
	dlp_doc_set(doc, entry, "cpu_system_us",
		    dlp_json_us(grown(born, first->stime_ns, last->stime_ns)));
}

json_t *dlp_doc_workers(struct dlp_doc *doc)
{
	const struct dlp_model *model = doc->model;
	json_t *array = json_array();

	for (size_t i = 0; i < model->worker_cnt; i++) {
		const struct dlp_worker *worker = &model->workers[i];
		/* a silent worker made nothing only if messages would have been seen */
		bool counted = (worker->proven || doc->facts->queue_rung) &&
			       !dlp_model_governed_ns(model, DLP_GOV_MESSAGES);
		json_t *entry;
		char text[40];

		if (!dlp_split_seen(worker))
			continue;
		entry = json_object();
		dlp_doc_set(doc, entry, "pid", dlp_json_count(worker->pid));
		dlp_doc_set(doc, entry, "loader", dlp_json_known(worker->loader));
		dlp_doc_set(doc, entry, "born_ns", dlp_json_known(worker->born_ns));
		dlp_doc_set(doc, entry, "died_ns", dlp_json_known(worker->died_ns));
		dlp_doc_set(doc, entry, "exit",
			    worker->died_ns && worker->exit_code != DLP_EXIT_UNKNOWN ?
				    json_string(dlp_summary_exit(worker->exit_code, text,
								 sizeof(text))) :
				    json_null());
		dlp_doc_set(doc, entry, "batches",
			    counted ? dlp_json_count(worker->batch_cnt) : json_null());
		dlp_doc_set(doc, entry, "produce", produce(doc, worker));
		dlp_doc_set(doc, entry, "states",
			    worker->clock_valid ? dlp_doc_states(doc, &worker->clock) :
						  json_null());
		dlp_doc_set(doc, entry, "cpu_us",
			    worker->clock_valid ? dlp_json_us(worker->cpu_ns) : json_null());
		dlp_doc_set(doc, entry, "gc_share",
			    dlp_doc_share(worker->gc.gc_samples, worker->gc.samples));
		dlp_doc_set(doc, entry, "gc_samples", dlp_json_known(worker->gc.samples));
		set_proc(doc, entry, worker);
		dlp_doc_push(doc, array, entry);
	}
	return array;
}
