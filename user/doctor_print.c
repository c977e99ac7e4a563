/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The doctor's table for people and as JSON. */
#include <string.h>

#include "doctor.h"
#include "summary_priv.h"

/* As wide as the longest name of a feature. */
#define FEATURE_COLUMNS 22

static void print_settings(FILE *out, const struct dlp_doctor_facts *facts)
{
	fputs("\nsettings that explain refusals\n", out);
	for (size_t i = 0; i < DLP_DOCTOR_SETTINGS; i++) {
		const char *value = facts->setting[i].value;

		fprintf(out, "  %s: %s\n", facts->setting[i].name, *value ? value : "not known");
	}
}

void dlp_doctor_print(FILE *out, const struct dlp_doctor *doctor,
		      const struct dlp_doctor_facts *facts)
{
	const char *group = "";
	size_t bad = 0;

	for (size_t i = 0; i < doctor->row_cnt; i++) {
		const struct dlp_doctor_row *row = &doctor->row[i];

		if (strcmp(group, row->group))
			fprintf(out, "%s%s\n", i ? "\n" : "", row->group);
		group = row->group;
		fprintf(out, "  %-8s  %-*s  %s\n", dlp_doctor_state_name(row->state),
			FEATURE_COLUMNS, row->feature, row->detail);
		if (*row->cost)
			fprintf(out, "  %-8s  %-*s  costs: %s\n", "", FEATURE_COLUMNS, "",
				row->cost);
		bad += row->state != DLP_DOCTOR_OK;
	}
	if (bad)
		print_settings(out, facts);
	if (facts->pid)
		fprintf(out, "\npid %d %s be observed", (int)facts->pid,
			doctor->observable ? "can" : "cannot");
	else
		fprintf(out, "\ntraining jobs %s be observed here",
			doctor->observable ? "can" : "cannot");
	fputs(doctor->observable && bad ? ", without what is missing above\n" : "\n", out);
}

static json_t *rows(struct dlp_doc *doc, const struct dlp_doctor *doctor)
{
	json_t *array = json_array();

	for (size_t i = 0; i < doctor->row_cnt; i++) {
		const struct dlp_doctor_row *row = &doctor->row[i];
		json_t *entry = json_object();

		dlp_doc_set(doc, entry, "group", dlp_json_text(row->group));
		dlp_doc_set(doc, entry, "feature", dlp_json_text(row->feature));
		dlp_doc_set(doc, entry, "state", dlp_json_text(dlp_doctor_state_name(row->state)));
		dlp_doc_set(doc, entry, "detail", dlp_json_text(row->detail));
		dlp_doc_set(doc, entry, "cost", dlp_json_text(row->cost));
		dlp_doc_push(doc, array, entry);
	}
	return array;
}

static json_t *settings(struct dlp_doc *doc, const struct dlp_doctor_facts *facts)
{
	json_t *object = json_object();

	for (size_t i = 0; i < DLP_DOCTOR_SETTINGS; i++)
		dlp_doc_set(doc, object, facts->setting[i].name,
			    dlp_json_text(facts->setting[i].value));
	return object;
}

int dlp_doctor_format(const struct dlp_doctor *doctor, const struct dlp_doctor_facts *facts,
		      char **ret)
{
	struct dlp_doc doc = { .failed = false };
	json_t *root = json_object(), *tool = json_object();
	int err;

	dlp_doc_set(&doc, tool, "name", json_string("dlprof-bpf"));
	dlp_doc_set(&doc, tool, "version", json_string(DLP_VERSION));
	dlp_doc_set(&doc, root, "schema", json_string("dlprof.doctor/1"));
	dlp_doc_set(&doc, root, "tool", tool);
	dlp_doc_set(&doc, root, "pid", facts->pid ? json_integer(facts->pid) : json_null());
	dlp_doc_set(&doc, root, "observable", json_boolean(doctor->observable));
	dlp_doc_set(&doc, root, "rows", rows(&doc, doctor));
	dlp_doc_set(&doc, root, "settings", settings(&doc, facts));
	err = dlp_doc_dump(&doc, root, 1, ret);
	json_decref(root);
	return err;
}
