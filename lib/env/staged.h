/* SPDX-License-Identifier: OLDAP-2.8 */
/* What only this file knows: what the staged copy of a data set is called, and when it is believed.
 *
 * lmdbio-stage puts a copy of DATASET's data file to DIR/NAME/data.mdb (a container's to
 * data.mdb.zst). NAME says which bytes they are: inode, size, time of modification and newest
 * transaction of the original, so that a copy of what the file held before is never found. The
 * device is no part of it: on a network file system each node counts its own.
 */
#ifndef LMDBIO_ENV_STAGED_H
#define LMDBIO_ENV_STAGED_H

#include <stdbool.h>
#include <stdint.h>

struct staged_identity {
	uint64_t inode, size;
	int64_t mtime_ns;
	uint64_t snapshot;  /* transaction id of the newer meta page; 0 for a container */
	uint32_t page_size; /* bytes; 0 for a container */
};

/* "INODE-SIZE-MTIME-TRANSACTION" in hexadecimal digits, and the final 0. */
enum { STAGED_NAME = 72 };
void staged_name(const struct staged_identity *identity, char name[STAGED_NAME]);

/* What the copy's file is called in its directory. Static. */
const char *staged_file(const struct staged_identity *identity);

/* Identifies an open data file, or container, by its status and its meta pages: at most two small
 * reads. Returns 0, MDB_INVALID or MDB_VERSION_MISMATCH (it is neither), or an errno. */
int staged_identify(int fd, struct staged_identity *identity);

/* Whether an open file can only have been put there by this user or root: 0, EPERM or an errno. */
int staged_trust(int fd);

/* Opens the staged copy of that identity below `directory`. *path is its data file's name,
 * malloc'ed, *fd its descriptor, not O_CLOEXEC. Returns 0; ENOENT (there is none); EPERM (it
 * belongs to another user, or others may write to it); MDB_INVALID (it is not what its name says);
 * another errno. */
int staged_open(const char *directory, const struct staged_identity *identity, char **path,
		int *fd);

#endif
