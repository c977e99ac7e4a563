/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "map.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct dlp_map_slot {
	uint64_t key;
	uint32_t value; /* DLP_MAP_NONE = free */
};

/* Fibonacci hashing: ids and inodes come in runs, which must not end in one cluster. */
static size_t home(const struct dlp_map *map, uint64_t key)
{
	return (size_t)((key * 0x9e3779b97f4a7c15ull) >> 20) & (map->room - 1);
}

static size_t seek(const struct dlp_map *map, uint64_t key)
{
	size_t at = home(map, key);

	while (map->slot[at].value != DLP_MAP_NONE && map->slot[at].key != key)
		at = (at + 1) & (map->room - 1);
	return at;
}

uint32_t dlp_map_get(const struct dlp_map *map, uint64_t key)
{
	return map->cnt ? map->slot[seek(map, key)].value : DLP_MAP_NONE;
}

static int rehash(struct dlp_map *map, size_t room)
{
	struct dlp_map bigger = { .room = room };

	bigger.slot = malloc(room * sizeof(*bigger.slot));
	if (!bigger.slot)
		return -ENOMEM;
	for (size_t i = 0; i < room; i++)
		bigger.slot[i].value = DLP_MAP_NONE;
	for (size_t i = 0; i < map->room; i++) {
		if (map->slot[i].value != DLP_MAP_NONE)
			bigger.slot[seek(&bigger, map->slot[i].key)] = map->slot[i];
	}
	free(map->slot);
	map->slot = bigger.slot;
	map->room = room;
	return 0;
}

int dlp_map_put(struct dlp_map *map, uint64_t key, uint32_t value)
{
	size_t at;
	int err;

	/* at most half full: probes stay short */
	if ((map->cnt + 1) * 2 > map->room) {
		err = rehash(map, map->room ? map->room * 2 : 16);
		if (err)
			return err;
	}
	at = seek(map, key);
	if (map->slot[at].value == DLP_MAP_NONE)
		map->cnt++;
	map->slot[at].key = key;
	map->slot[at].value = value;
	return 0;
}

void dlp_map_del(struct dlp_map *map, uint64_t key)
{
	size_t hole, at, mask = map->room - 1;

	if (!map->cnt)
		return;
	hole = seek(map, key);
	if (map->slot[hole].value == DLP_MAP_NONE)
		return;
	/* close the gap instead of leaving a tombstone: pids and inodes come and go for weeks */
	for (at = (hole + 1) & mask; map->slot[at].value != DLP_MAP_NONE; at = (at + 1) & mask) {
		size_t want = home(map, map->slot[at].key);

		if (((at - want) & mask) >= ((at - hole) & mask)) {
			map->slot[hole] = map->slot[at];
			hole = at;
		}
	}
	map->slot[hole].value = DLP_MAP_NONE;
	map->cnt--;
}

void dlp_map_clear(struct dlp_map *map)
{
	for (size_t i = 0; i < map->room; i++)
		map->slot[i].value = DLP_MAP_NONE;
	map->cnt = 0;
}

void dlp_map_fini(struct dlp_map *map)
{
	free(map->slot);
	memset(map, 0, sizeof(*map));
}

int dlp_grow(void *items, size_t *room, size_t cnt, size_t item_size)
{
	/* by half: the larger arrays hold items of 14 kB, and the daemon has 25 MB */
	size_t bigger = *room + *room / 2 + 4;
	void *old, *grown;

	if (cnt < *room)
		return 0;
	memcpy(&old, items, sizeof(old));
	grown = realloc(old, bigger * item_size);
	if (!grown)
		return -ENOMEM;
	memcpy(items, &grown, sizeof(grown));
	*room = bigger;
	return 0;
}
