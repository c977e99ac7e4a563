/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Which Python and which torch a process runs, from its files. */
#ifndef DLP_VERSION_H
#define DLP_VERSION_H

#include "mapped.h"
#include "target.h"

/* "2.13.0+cpu", "1.13.0a0", "3.12"; missing numbers are 0. False: no "N.N" at the start. */
bool dlp_version_parse(const char *text, struct dlp_version *ret);
bool dlp_version_at_least(const struct dlp_version *version, int major, int minor);

/* The value of __version__ in the text of a torch/version.py. */
bool dlp_version_from_py(const char *text, struct dlp_version *ret);

/*
 * Python's from its Py_Version object, else from the name of libpython or of the executable,
 * else from the tag of an extension module. Unknown: major stays 0.
 */
void dlp_version_python(const struct dlp_process_view *view, const struct dlp_mapped *python,
			struct dlp_version *ret);
/* A build without the GIL, whose objects are laid out differently. */
bool dlp_version_is_free_threaded(const struct dlp_proc_maps *maps);

/*
 * torch's from the version.py of the package that the process has loaded. `package`: that
 * folder as the target names it, "" when it was not found.
 */
void dlp_version_torch(const struct dlp_process_view *view, struct dlp_version *ret, char *package,
		       size_t package_size);

#endif /* DLP_VERSION_H */
