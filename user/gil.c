/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Where the interpreter and its global lock lie in any process of the job. */
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "elf_sym.h"
#include "mapped.h"
#include "target.h"

/* libpython, else the executable; another program's executable simply has no _PyRuntime. */
static const struct dlp_proc_map *interpreter(const char *root, pid_t pid,
					      const struct dlp_proc_maps *maps)
{
	const struct dlp_proc_map *map = dlp_mapped_find(maps, DLP_MAPPED_LIBPYTHON);
	char exe[PATH_MAX];

	if (map || dlp_proc_exe(root, pid, exe, sizeof(exe)))
		return map;
	return dlp_mapped_find_path(maps, exe);
}

int dlp_target_interpreter(const char *root, pid_t pid, struct dlp_interpreter *ret)
{
	struct dlp_proc_maps maps _cleanup_maps_ = { 0 };
	struct dlp_process_view view = { .root = root, .pid = pid, .maps = &maps };
	struct dlp_mapped python = { 0 };
	const struct dlp_proc_map *map;
	struct dlp_elf_sym sym;
	int err;

	*ret = (struct dlp_interpreter){ 0 };
	err = dlp_proc_maps_read(root, pid, &maps);
	if (err)
		return err;
	map = interpreter(root, pid, &maps);
	if (!map)
		return -ENOENT;
	err = dlp_mapped_open(&view, map, &python);
	if (!err)
		err = dlp_elf_find(python.elf, DLP_ELF_OBJECT, DLP_ELF_EXACT, "_PyRuntime", &sym);
	if (!err)
		err = dlp_mapped_bias(&view, &python, &ret->bias);
	if (!err) {
		ret->gil_lo = sym.addr + ret->bias;
		ret->gil_hi = ret->gil_lo + sym.size;
		ret->file = dlp_mapped_file(map);
	}
	dlp_mapped_fini(&python);
	return err;
}
