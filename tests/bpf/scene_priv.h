/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Between the files that define scenes. */
#ifndef BT_SCENE_PRIV_H
#define BT_SCENE_PRIV_H

#include "scene.h"

/* Scenes run in forked processes, where an assertion would go unheard: says what failed and dies. */
void scene_check(bool ok, const char *what);
uint64_t scene_inode_of(int fd);

/* scene_disk.c */
void scene_disk_setup(void);
void scene_disk_prepare(void);
void scene_cold_pread(void);
void scene_direct_pread(void);
void scene_fsync(void);
void scene_cold_fault(void);
void scene_fault_in_write(void);

#endif /* BT_SCENE_PRIV_H */
