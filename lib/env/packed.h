/* SPDX-License-Identifier: OLDAP-2.8 */
/* Declares the state of an environment on a container. */
#ifndef LMDBIO_ENV_PACKED_H
#define LMDBIO_ENV_PACKED_H

#include "arena/arena.h"
#include "io/io.h"
#include "util/descriptor.h"
#include "window/store.h"

#include <stdbool.h>

struct packed {
	int fd;          /* the container */
	struct io below; /* reads the container */
	struct io data;  /* the data file in the container */
	struct descriptor_kept scratch; /* stands in for the data file: see packed.c */
	char scratch_path[32];
	const char *backend, *why; /* of `below`; static */
	char *path;                /* as the program named the environment */
	struct identity identity;
	struct store_packed store;
};

/* Finds the container that a path names: the data file `name` itself, which is open as `fd`, or
 * name.zst beside it if fd is -1 and the data file of a directory is `missing`. The name alone
 * makes no container. Returns 0 and its descriptor (`fd`, a new one, or -1: none), or EIO, ENOMEM,
 * EMFILE or ENFILE if it cannot tell. */
int packed_find(const char *name, int fd, bool missing, int *container);

/* Opens the container behind a descriptor, which becomes `*packed`'s on success. Returns 0,
 * MDB_INVALID, MDB_VERSION_MISMATCH, MDB_CORRUPTED or an errno. */
int packed_open(struct packed **packed, int fd, const char *path);
void packed_close(struct packed *packed);

/* Reads the container through the page cache from now on. No read may be in flight. Returns 0, or
 * an errno: reads stay as before. */
int packed_read_cached(struct packed *packed, const char *why);

/* Bytes of the container. */
uint64_t packed_size(const struct packed *packed);

/* The flags that the original opens the stand-in with. */
unsigned packed_flags(unsigned flags);

/* Writes the first `length` bytes of the data to a descriptor. Returns 0, MDB_CORRUPTED or an
 * errno. */
int packed_copy(struct packed *packed, int fd, uint64_t length);

#endif
