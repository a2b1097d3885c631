/* SPDX-License-Identifier: OLDAP-2.8 */
/* The staged copy of a data set: where it lies, and when it is believed.
 *
 * lmdbio-stage puts a copy of DATASET's data file to DIR/NAME/data.mdb (a container's to
 * data.mdb.zst). NAME is made of the original's identity, so that copies of two data sets, or of
 * two states of one, lie beside each other. NAME only leads to a copy; lmdbio trusts the seal.
 *
 * The seal is a file of its own beside the copy, data.mdb.seal. The copy is a data file that plain
 * LMDB opens too, and a container's footer is its end: nothing can be put into either, and not
 * every file system has extended attributes. The seal names the original and the copy's own file:
 *
 *   0    8  "lmdbioS1"
 *   8   64  struct identity of the original, job form
 *   72  64  struct identity of the copy's own file, as its status says, without device
 *   136  8  XXH3-64 of the bytes before
 *
 * So a copy that was written to, replaced, restored from a backup or renamed has another time of
 * change than its seal, and is not used; lmdbio-stage makes it again. In a directory that all users
 * can write to, the user's own subdirectory takes DIR's place (util/guarded.h).
 */
#ifndef LMDBIO_ENV_STAGED_H
#define LMDBIO_ENV_STAGED_H

#include "util/guarded.h"
#include "util/identity.h"

#include <stdbool.h>
#include <stdint.h>

/* The data set to stage: a data file, or a container, as a file. */
struct staged_original {
	struct identity identity; /* size: the file's; snapshot: 0 for a container */
	uint32_t page_size;       /* bytes; 0 for a container */
};

/* "INODE-TRANSACTION-HASH" in hexadecimal digits, and the final 0. */
enum { STAGED_NAME = 56 };
void staged_name(const struct identity *identity, char name[STAGED_NAME]);

/* The name of the copy's file in its directory; static. */
const char *staged_file(const struct staged_original *original);

/* Identifies an open data file, or container, by its status and its meta pages, or its footer: at
 * most two small reads. Returns 0, MDB_INVALID or MDB_VERSION_MISMATCH (the file is neither), or an
 * errno. */
int staged_identify(int fd, struct staged_original *original);

/* Writes the seal of the copy `file` into its directory, in place of an older one. The copy must
 * have its final name and bytes. Returns 0 or an errno. */
int staged_seal(const struct guarded *place, const char *file, const struct identity *original);
/* Removes the seal of the copy `file`. */
void staged_unseal(const struct guarded *place, const char *file);

/* Opens the staged copy of that original below `directory`. *path is its data file's name,
 * malloc'ed, *fd its descriptor, not O_CLOEXEC. Returns 0; ENOENT (there is no copy, or no seal);
 * EPERM (other users can change it or a directory above it); MDB_INVALID (the copy is not what was
 * staged); another errno. */
int staged_open(const char *directory, const struct staged_original *original, char **path,
		int *fd);

#endif
