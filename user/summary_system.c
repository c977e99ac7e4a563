/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The summary's "system": counters as what they grew by in the window, states as they were last. */
#include <math.h>
#include <string.h>

#include "summary_priv.h"
#include "system.h"
#include "util.h"

/* No such growth is real, but a recording may be made up. */
#define GROWTH_MAX 0x1p62

static json_t *counted(double value)
{
	return isfinite(value) ? dlp_json_count((uint64_t)fmin(value, GROWTH_MAX)) : json_null();
}

static json_t *us(double ns)
{
	return isfinite(ns) ? dlp_json_us((uint64_t)fmin(ns, GROWTH_MAX)) : json_null();
}

/* Growth over the window of a counter of one group of figures. */
#define GROWTH(doc, group, field)                                                                  \
	dlp_system_growth(&(doc)->model->system.first, &(doc)->model->system.last, group,          \
			  (doc)->model->system.first.field, (doc)->model->system.last.field)

static json_t *cgroup(struct dlp_doc *doc)
{
	const struct dlp_ev_system *last = &doc->model->system.last;
	json_t *object = json_object();

	dlp_doc_set(doc, object, "quota_cpus", dlp_json_ratio(dlp_system_quota_cpus(last)));
	dlp_doc_set(doc, object, "periods", counted(GROWTH(doc, DLP_SYS_QUOTA, periods)));
	dlp_doc_set(doc, object, "throttled_periods",
		    counted(GROWTH(doc, DLP_SYS_QUOTA, throttled_periods)));
	dlp_doc_set(doc, object, "throttled_us", us(GROWTH(doc, DLP_SYS_QUOTA, throttled_ns)));
	return object;
}

static json_t *pressure(struct dlp_doc *doc)
{
	json_t *object = json_object();

	dlp_doc_set(doc, object, "cpu_us", counted(GROWTH(doc, DLP_SYS_PSI, psi_cpu_us)));
	dlp_doc_set(doc, object, "io_us", counted(GROWTH(doc, DLP_SYS_PSI, psi_io_us)));
	dlp_doc_set(doc, object, "memory_us", counted(GROWTH(doc, DLP_SYS_PSI, psi_memory_us)));
	return object;
}

static json_t *state(const struct dlp_ev_system *at, uint32_t group, uint64_t value)
{
	return at->known & group ? dlp_json_count(value) : json_null();
}

static json_t *memory(struct dlp_doc *doc)
{
	const struct dlp_ev_system *last = &doc->model->system.last;
	json_t *object = json_object();

	dlp_doc_set(doc, object, "total_bytes", state(last, DLP_SYS_MEM, last->mem_total));
	dlp_doc_set(doc, object, "available_bytes", state(last, DLP_SYS_MEM, last->mem_available));
	dlp_doc_set(doc, object, "swap_used_bytes",
		    last->swap_total >= last->swap_free ?
			    state(last, DLP_SYS_MEM, last->swap_total - last->swap_free) :
			    json_null());
	dlp_doc_set(doc, object, "group_limit_bytes", dlp_json_known(last->group_limit));
	dlp_doc_set(doc, object, "group_used_bytes",
		    state(last, DLP_SYS_GROUPMEM, last->group_used));
	dlp_doc_set(doc, object, "reclaim_pages", counted(GROWTH(doc, DLP_SYS_VM, reclaim_pages)));
	dlp_doc_set(doc, object, "swap_in_pages", counted(GROWTH(doc, DLP_SYS_VM, swap_in_pages)));
	dlp_doc_set(doc, object, "oom_kills", counted(GROWTH(doc, DLP_SYS_VM, oom_kills)));
	dlp_doc_set(doc, object, "pressure", pressure(doc));
	return object;
}

static json_t *shm(struct dlp_doc *doc)
{
	const struct dlp_ev_system *last = &doc->model->system.last;
	json_t *object = json_object();

	dlp_doc_set(doc, object, "total_bytes", state(last, DLP_SYS_SHM, last->shm_total));
	dlp_doc_set(doc, object, "free_bytes", state(last, DLP_SYS_SHM, last->shm_free));
	return object;
}

static json_t *others(struct dlp_doc *doc)
{
	const struct dlp_other *ranked[DLP_MODEL_OTHERS_MAX];
	size_t cnt = dlp_system_others_rank(doc->model, ranked);
	json_t *array = json_array();

	for (size_t i = 0; i < cnt; i++) {
		char comm[sizeof(ranked[i]->comm) + 1] = "";
		json_t *entry = json_object();

		memcpy(comm, ranked[i]->comm, sizeof(ranked[i]->comm));
		dlp_doc_set(doc, entry, "comm", dlp_json_text(comm));
		dlp_doc_set(doc, entry, "pid", dlp_json_count(ranked[i]->pid));
		dlp_doc_set(doc, entry, "cpu_us", dlp_json_us(ranked[i]->used_ns));
		dlp_doc_push(doc, array, entry);
	}
	return array;
}

json_t *dlp_doc_system(struct dlp_doc *doc)
{
	const struct dlp_system_facts *system = &doc->model->system;
	const struct dlp_ev_system *last = &system->last;
	json_t *object = json_object();
	bool seen = last->hdr.size != 0;
	/* the total is told even when it is 0: without it nobody has looked at other processes */
	bool watched = system->others_ns != 0;

	dlp_doc_set(doc, object, "cpus",
		    dlp_json_known(last->cpus ? last->cpus : doc->facts->cpus));
	dlp_doc_set(doc, object, "cpus_allowed",
		    dlp_json_known(last->cpus_allowed ? last->cpus_allowed :
							doc->facts->cpus_allowed));
	dlp_doc_set(doc, object, "cgroup", seen ? cgroup(doc) : json_null());
	dlp_doc_set(doc, object, "memory", seen ? memory(doc) : json_null());
	dlp_doc_set(doc, object, "shm", seen ? shm(doc) : json_null());
	dlp_doc_set(doc, object, "hypervisor_steal_us", us(GROWTH(doc, DLP_SYS_CPU, steal_ns)));
	dlp_doc_set(doc, object, "others_cpu_us",
		    watched ? dlp_json_us(system->others_all.used_ns) : json_null());
	dlp_doc_set(doc, object, "steal_by_others", watched ? others(doc) : json_null());
	return object;
}
