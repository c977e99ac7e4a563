/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The doctor's facts, found by trying: loads, attaches, reads, and lets go of it all again. */
#ifndef DLP_DOCTOR_TRY_H
#define DLP_DOCTOR_TRY_H

#include "doctor.h"

/* All facts; takes some 0.5 s. `pid` 0 = no job. */
void dlp_doctor_try(pid_t pid, struct dlp_doctor_facts *ret);

#endif /* DLP_DOCTOR_TRY_H */
