/* SPDX-License-Identifier: OLDAP-2.8 */
/* Declares what an environment that stands on a container holds. */
#ifndef LMDBIO_ENV_PACKED_H
#define LMDBIO_ENV_PACKED_H

#include "arena/arena.h"
#include "io/io.h"
#include "util/descriptor.h"
#include "window/store.h"

#include <stdbool.h>

struct packed {
	int fd;          /* the container */
	struct io below; /* reads it */
	struct io data;  /* the data file that is in it */
	struct descriptor_kept scratch; /* stands in for the data file: see packed.c */
	char scratch_path[32];
	const char *backend, *why; /* of `below`; static */
	char *path;                /* as the program named the environment */
	struct identity identity;
	struct store_packed store;
};

/* Whether a path names a container: the data file `name` itself, which is open as `fd`, or one
 * beside it (name.zst) when fd is -1 and the data file of a directory is `missing`. What only has
 * such a name is none. Returns 0 and its descriptor, which is `fd`, a new one or -1: it does not; or
 * EIO, ENOMEM, EMFILE or ENFILE: it cannot be told. */
int packed_find(const char *name, int fd, bool missing, int *container);

/* Opens the container behind a descriptor, which becomes the packed's when this succeeds. Returns
 * 0, MDB_INVALID, MDB_VERSION_MISMATCH, MDB_CORRUPTED or an errno. */
int packed_open(struct packed **packed, int fd, const char *path);
void packed_close(struct packed *packed);

/* Reads the container through the page cache from now on. Nothing may be in flight. Returns 0, or an
 * errno: it is read as before. */
int packed_read_cached(struct packed *packed, const char *why);

/* Bytes of the container. */
uint64_t packed_size(const struct packed *packed);

/* The flags that the original opens the stand-in with. */
unsigned packed_flags(unsigned flags);

/* Writes the first `length` bytes of the data to a descriptor. Returns 0, MDB_CORRUPTED or an
 * errno. */
int packed_copy(struct packed *packed, int fd, uint64_t length);

#endif
