/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* From a task's descriptor to the file behind it. */
#ifndef DLP_FILE_BPF_H
#define DLP_FILE_BPF_H

#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

/* The open file behind a descriptor of the task, NULL when there is none. */
static __always_inline struct file *dlp_task_file(struct task_struct *task, u64 fd)
{
	struct files_struct *files = task->files;
	struct file *file = NULL;
	struct fdtable *table;

	if (!files)
		return NULL;
	table = files->fdt;
	if (!table || fd >= table->max_fds)
		return NULL;
	bpf_probe_read_kernel(&file, sizeof(file), table->fd + fd);
	return file;
}

#endif /* DLP_FILE_BPF_H */
