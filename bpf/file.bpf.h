/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* From a task's descriptor to the file behind it. */
#ifndef DLP_FILE_BPF_H
#define DLP_FILE_BPF_H

#include "maps.bpf.h"

/* The open file behind a descriptor of the task, NULL when there is none. */
static __always_inline struct file *dlp_task_file(struct task_struct *task, u64 fd)
{
	struct files_struct *files;
	struct file *file = NULL;
	struct fdtable *table;

	/* direct loads are quicker by far, but want a pointer whose type the verifier knows */
	if (!dlp_cfg.has_task_btf) {
		table = BPF_CORE_READ(task, files, fdt);
		if (!table || fd >= BPF_CORE_READ(table, max_fds))
			return NULL;
		bpf_probe_read_kernel(&file, sizeof(file), BPF_CORE_READ(table, fd) + fd);
		return file;
	}
	files = task->files;
	if (!files)
		return NULL;
	table = files->fdt;
	if (!table || fd >= table->max_fds)
		return NULL;
	bpf_probe_read_kernel(&file, sizeof(file), table->fd + fd);
	return file;
}

#endif /* DLP_FILE_BPF_H */
