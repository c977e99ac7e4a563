/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Lookup table from number to number, and array growth; knows nothing of what it holds. */
#ifndef DLP_MAP_H
#define DLP_MAP_H

#include <stddef.h>
#include <stdint.h>

/* Number to number, open addressing. Zeroed = empty. */
struct dlp_map {
	struct dlp_map_slot *slot;
	size_t cnt, room; /* room: power of two or 0 */
};

#define DLP_MAP_NONE UINT32_MAX

uint32_t dlp_map_get(const struct dlp_map *map, uint64_t key); /* DLP_MAP_NONE = absent */
/* Adds or replaces; value != DLP_MAP_NONE. 0 or -ENOMEM. */
int dlp_map_put(struct dlp_map *map, uint64_t key, uint32_t value);
void dlp_map_del(struct dlp_map *map, uint64_t key);
void dlp_map_clear(struct dlp_map *map);
void dlp_map_fini(struct dlp_map *map);

/* Makes room for one more item. 0 or -ENOMEM; *items and *room are kept on failure. */
int dlp_grow(void *items, size_t *room, size_t cnt, size_t item_size);

#endif /* DLP_MAP_H */
