/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Chooses the functions to probe for a torch and a Python and checks each place. Which function
 * serves which release was measured: see the comments in probes.c.
 */
#ifndef DLP_PROBES_H
#define DLP_PROBES_H

#include "mapped.h"
#include "target.h"

struct dlp_probe_sources {
	struct dlp_process_view view;
	struct dlp_mapped torch_python, torch_cpu;
	struct dlp_mapped python; /* libpython, else the executable */
	struct dlp_mapped pickle; /* elf NULL: built into python */
	char torch_package[512];  /* folder, as the target names it; "" = not known */
	bool is_free_threaded;
	char why[200]; /* why the last probe point was refused; "" = not tried */
};

/*
 * The edges of record_function: fills probe, scope_kind and the op_ fields of target, whose
 * versions are set. 0, or -1 with *failure filled.
 */
int dlp_probes_scope(struct dlp_probe_sources *sources, struct dlp_target *target,
		     struct dlp_target_failure *failure);
/* Queue messages; what is missing is said in target->queue_note. */
void dlp_probes_queue(struct dlp_probe_sources *sources, struct dlp_target *target);

/*
 * The beginning of an iterator with workers, where it makes named semaphores; that it was not found
 * is said in target->iterator_note.
 */
/*
 * Where the interpreter calls a Python class's __next__, a GetNext's included: nothing is lost but
 * some 100 us of accuracy where it is not found.
 */
void dlp_probes_next(struct dlp_probe_sources *sources, struct dlp_target *target);
void dlp_probes_iterator(struct dlp_probe_sources *sources, struct dlp_target *target);

#endif /* DLP_PROBES_H */
