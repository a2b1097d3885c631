/* SPDX-License-Identifier: OLDAP-2.8 */
/* Declares the state of an environment on a file of LMDB 1.0, which the original cannot open. */
#ifndef LMDBIO_ENV_LATER_H
#define LMDBIO_ENV_LATER_H

#include "env/readers.h"
#include "format/meta.h"
#include "origin/origin_loan.h"
#include "util/descriptor.h"

#include <lmdb.h>
#include <stdint.h>

struct sums;

struct later {
	/* Stands in for the data file: see later.c. */
	uint8_t *pages;
	struct descriptor_kept
		file;  /* holds `pages` for an original that takes no loan; otherwise .fd is -1 */
	char path[32]; /* the name that the original opens */
	struct readers *readers; /* NULL: without a lock file */
	struct later *left;      /* the next one of env->left */
};

/* Puts a stand-in that agrees with the newest meta page of a data file into the loan. If the
 * stand-in is a file, loan->path becomes its name. Keeps `path`, the program's, if the environment
 * has none yet. Returns 0, as for_later_judge(), MDB_INCOMPATIBLE (encrypted pages) or an errno. */
int later_lend(MDB_env *env, const char *path, const struct meta *newest, struct origin_loan *loan);
/* Opens another environment of the original on the same stand-in, in a forked child. Returns as
 * mdb_env_open(). */
int later_open_origin(const MDB_env *env, MDB_env *orig);
/* Ends the state of an environment on such a file, its lock file too; does nothing for others. The
 * original may still look at the stand-in: call later_free() after it has closed its
 * environment. */
void later_leave(MDB_env *env);
void later_free(MDB_env *env);

/* Opens the checksums and the lock file of an environment that has its window. Returns 0, or as
 * later_sums_open() and later_lock(). */
int later_open(MDB_env *env);
/* Opens the lock file, in a forked child once more. Returns 0, MDB_CORRUPTED, or as
 * readers_open(). */
int later_lock(MDB_env *env);

/* later_begin() takes a slot before a transaction begins or is renewed (0, or as readers_take());
 * the others rest the slot at a reset, or give it back at the end. */
int later_begin(MDB_txn *txn);
void later_reset(MDB_txn *txn);
void later_end(MDB_txn *txn);

/* The checksums of pages (later_sums.c). later_sums_open() returns 0, ENOMEM, or MDB_BAD_CHECKSUM
 * (the file's have another size, or it has none). If env->sums is set, call later_sums_begin() (0
 * or ENOMEM) before a transaction's view is used, and later_sums_end() after it. */
int later_sums_open(MDB_env *env);
int later_sums_begin(MDB_txn *txn);
void later_sums_end(MDB_txn *txn);
/* Opens the checksums for a container's pages in a copy, where a name is known for them. The caller
 * closes *own, which is NULL otherwise. Returns 0, ENOMEM, or MDB_INCOMPATIBLE (the container's
 * pages have checksums of another size). */
int later_sums_copied(const MDB_env *env, struct sums **own);
/* Bytes of a checksum in an environment's file; 0: the file has none. */
unsigned later_sum_size(const MDB_env *env);
/* The offset in page 0 of their size (2 bytes). */
static inline uint32_t later_sum_size_at(uint32_t page_size)
{
	return page_size - (uint32_t)sizeof(uint16_t);
}

/* Gives the newest meta page as it is now. The file must have both meta pages. Returns 0 or
 * MDB_CORRUPTED. */
int later_newest(const MDB_env *env, struct meta *meta);

/* Answer <lmdb.h>'s questions about such an environment, where the original would answer for its
 * stand-in. Each returns 0 or an error as the function of <lmdb.h> does. */
int later_info(const MDB_env *env, MDB_envinfo *info);
/* For either format: replaces a size for mdb_env_set_mapsize() by the one that it sets, in bytes. A
 * size of 0 becomes the newest meta page's; one too small for all pages grows to hold them. */
int later_mapsize(const MDB_env *env, size_t *size);
int later_stat(const MDB_env *env, MDB_stat *stat);
int later_key_max(const MDB_env *env);
int later_reader_list(const MDB_env *env, MDB_msg_func *func, void *context);
int later_reader_check(const MDB_env *env, int *dead);
int later_maxreaders(const MDB_env *env, unsigned *readers);

/* Writes a copy of the newest snapshot to a descriptor: its two meta pages, and all other pages as
 * they stand in the file. Returns 0, MDB_CORRUPTED, an errno, or as txn_begin(). */
int later_copy(MDB_env *env, int fd);
/* Writes the newest snapshot's pages that are newer than transaction `since`: LMDB 1.0's
 * mdb_env_incr_loadfd() adds them to a copy of that transaction. Returns as later_copy(). */
int later_dump(MDB_env *env, int fd, uint64_t since);

#endif
