/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Owns the maps, the configuration and the type anchors; contains no program. */
#include "maps.bpf.h"

const volatile struct dlp_config dlp_cfg = {};
struct dlp_throttle dlp_throttle = {};

struct dlp_job_map dlp_job SEC(".maps");
struct dlp_ring_map dlp_ring SEC(".maps");
struct dlp_counters_map dlp_counters SEC(".maps");
struct dlp_storage_map dlp_storage SEC(".maps");
struct dlp_threads_map dlp_threads SEC(".maps");
struct dlp_pipes_map dlp_pipes SEC(".maps");

/* Types reach the object's BTF only when something uses them; the layout test compares them. */
#define X(number, NAME, type) const struct type *dlp_anchor_##type __attribute__((unused));
DLP_EVENT_KINDS(X)
#undef X

/* Several helpers the programs need are for GPL-compatible programs only. */
char LICENSE[] SEC("license") = "Dual BSD/GPL";
