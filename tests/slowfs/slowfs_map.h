/* SPDX-License-Identifier: OLDAP-2.8 */
/* Says where the bytes of a backing file are at hand.
 *
 * They are answered out of a map of the file: one copy, made by the kernel. (Reading them into a
 * buffer first is a second one, and with few processors that is time taken from the reader; a
 * splice costs more than either.) Only the kernel touches the map, so that a file that has become
 * shorter is an error, not a signal. */
#ifndef SLOWFS_MAP_H
#define SLOWFS_MAP_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

struct slowfs_map {
	pthread_rwlock_t lock; /* for writing: the map is being replaced */
	char *base;
	size_t length;
};

void slowfs_map_init(struct slowfs_map *map);
void slowfs_map_destroy(struct slowfs_map *map);

/* Brings up to `size` bytes of the file, open as fd, to memory: *served, less than `size` only at
 * the file's end, from *bytes on. Returns 0 (they stay mapped until slowfs_map_release()) or
 * errno. */
int slowfs_map_hold(struct slowfs_map *map, int fd, uint64_t offset, size_t size,
		    const char **bytes, uint64_t *served);
void slowfs_map_release(struct slowfs_map *map);

#endif
