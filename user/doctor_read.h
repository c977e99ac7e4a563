/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Those of the doctor's facts that are read from /proc and /sys. */
#ifndef DLP_DOCTOR_READ_H
#define DLP_DOCTOR_READ_H

#include "doctor.h"

/* `root` as in procfs.h; the system's figures are those that `pid` sees, 0 = our own process. */
void dlp_doctor_read(const char *root, pid_t pid, struct dlp_doctor_facts *ret);

#endif /* DLP_DOCTOR_READ_H */
