/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "doctor_command.h"

#include "doctor_try.h"
#include "log.h"
#include "util.h"

int dlp_doctor_command(const struct dlp_options *options)
{
	_cleanup_free_ struct dlp_doctor_facts *facts = calloc(1, sizeof(*facts));
	_cleanup_free_ struct dlp_doctor *doctor = calloc(1, sizeof(*doctor));
	_cleanup_free_ char *json = NULL;

	if (!facts || !doctor)
		goto memory;
	dlp_doctor_try(options->pid, facts);
	dlp_doctor_assemble(facts, doctor);
	if (!options->json) {
		dlp_doctor_print(stdout, doctor, facts);
	} else {
		if (dlp_doctor_format(doctor, facts, &json))
			goto memory;
		fputs(json, stdout);
	}
	return doctor->observable ? DLP_EXIT_OK : DLP_EXIT_UNSUPPORTED;
memory:
	dlp_complain("out of memory");
	return DLP_EXIT_FAILURE;
}
