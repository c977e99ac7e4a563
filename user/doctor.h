/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What this machine, these permissions and a job allow the tool to see: facts in, a table out.
 * Pure; doctor_try.c finds the facts out.
 */
#ifndef DLP_DOCTOR_H
#define DLP_DOCTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "kernel.h"
#include "session.h"
#include "target.h"

/* What came of one session that was opened and attached only to see whether that works. */
struct dlp_doctor_trial {
	bool tried;
	bool opened;		      /* the programs were loaded */
	struct dlp_session_info info; /* once opened */
	char failure[400];	      /* why it was not opened, or not attached; "" = it was */
};

/* Settings that explain a refusal. Nothing is concluded from them. */
struct dlp_doctor_setting {
	const char *name;
	char value[80]; /* "" = not there, or may not be read */
};

enum {
	DLP_DOCTOR_LOCKDOWN,
	DLP_DOCTOR_UNPRIVILEGED,
	DLP_DOCTOR_PARANOID,
	DLP_DOCTOR_KERNEL,
	DLP_DOCTOR_SETTINGS,
};

enum dlp_doctor_answer {
	DLP_DOCTOR_UNKNOWN, /* it could not be tried */
	DLP_DOCTOR_NO,
	DLP_DOCTOR_YES,
};

struct dlp_doctor_facts {
	bool is_root;
	bool caps_known;
	uint64_t caps;			    /* effective ones, 1 << CAP_ */
	bool has_invoker;		    /* by sudo; it is the user below */
	uint32_t invoker;		    /* whom this process will be while it watches */
	bool may_load;			    /* an empty BPF program was loaded */
	enum dlp_doctor_answer other_users; /* may their processes be looked into? */
	bool in_host_pids;		    /* the kernel's own first pid namespace */
	int btf_err;			    /* 0 or -errno */
	struct dlp_kernel_facts kernel;
	bool has_ring;	  /* a ring buffer could be made */
	bool has_tracefs; /* the files from which tracepoints are attached can be read */
	/* the tool's own process in the place of a job, and the syscall rung alone */
	struct dlp_doctor_trial own, rung;
	enum dlp_doctor_answer own_seen; /* were events of that process seen under its number? */
	uint32_t system_known; /* DLP_SYS_ figures that can be read, of the job or of us */
	struct dlp_doctor_setting setting[DLP_DOCTOR_SETTINGS];
	pid_t pid; /* the job; 0 = none was asked for */
	int target_failed;
	struct dlp_target target; /* unless target_failed */
	struct dlp_target_failure target_failure;
	struct dlp_doctor_trial job;
	size_t workers; /* of the job, alive now */
};

enum dlp_doctor_state {
	DLP_DOCTOR_OK,
	DLP_DOCTOR_FALLBACK, /* the next best way is used */
	DLP_DOCTOR_MISSING,
};

struct dlp_doctor_row {
	const char *group; /* "permission", "privileges", "kernel", "system", "job" */
	const char *feature;
	enum dlp_doctor_state state;
	char detail[400];
	char cost[160]; /* what is lost, or what to do; "" = nothing */
};

#define DLP_DOCTOR_ROWS_MAX 48

struct dlp_doctor {
	bool observable; /* a job (with a pid: this one) could be observed */
	struct dlp_doctor_row row[DLP_DOCTOR_ROWS_MAX];
	size_t row_cnt;
};

void dlp_doctor_assemble(const struct dlp_doctor_facts *facts, struct dlp_doctor *ret);
const char *dlp_doctor_state_name(enum dlp_doctor_state state);

void dlp_doctor_print(FILE *out, const struct dlp_doctor *doctor,
		      const struct dlp_doctor_facts *facts);
/* The same as JSON, "dlprof.doctor/1", with a newline at its end, to be freed. 0 or -ENOMEM. */
int dlp_doctor_format(const struct dlp_doctor *doctor, const struct dlp_doctor_facts *facts,
		      char **ret);

#endif /* DLP_DOCTOR_H */
