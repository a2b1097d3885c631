/* SPDX-License-Identifier: OLDAP-2.8 */
/* Declares what an environment on a data file of LMDB 1.0 holds, which the original cannot open. */
#ifndef LMDBIO_ENV_LATER_H
#define LMDBIO_ENV_LATER_H

#include "env/readers.h"
#include "format/meta.h"
#include "origin/origin_loan.h"
#include "util/descriptor.h"

#include <lmdb.h>
#include <stdint.h>

struct later {
	/* Stands in for the data file: see later.c. */
	uint8_t *pages;
	struct descriptor_kept
		file; /* holds these pages, for an original that takes no loan; otherwise .fd is -1 */
	char path[32]; /* by which the original opens it */
	struct readers *readers; /* NULL: without a lock file */
	struct later *left;      /* the next one of env->left */
};

/* Makes a stand-in that agrees with the newest meta page of a data file, and has the original take it
 * when it opens loan->path, which is set where it has a name of its own. `path`: as the program gave it,
 * for an environment that does not keep that yet. Returns 0, MDB_INCOMPATIBLE (the pages are encrypted)
 * or an errno. */
int later_lend(MDB_env *env, const char *path, const struct meta *newest, struct origin_loan *loan);
/* Opens one more environment of the original on the same, in a forked child. Returns as mdb_env_open(). */
int later_open_origin(const MDB_env *env, MDB_env *orig);
/* Ends what an environment on such a file has, the lock file's part too; of another one nothing. The
 * original may go on looking at the stand-in: later_free() follows, when it has closed its environment. */
void later_leave(MDB_env *env);
void later_free(MDB_env *env);

/* Opens what belongs to an environment that has its window: the checksums and the lock file. Returns 0,
 * or as later_sums_open() and later_lock(). */
int later_open(MDB_env *env);
/* Opens the lock file; in a forked child once more. Returns 0, MDB_CORRUPTED, or as
 * readers_open(). */
int later_lock(MDB_env *env);

/* Around a transaction: takes a slot before it begins or is renewed (0, or as readers_take()), and
 * rests or gives it back where it is reset or ended. */
int later_begin(MDB_txn *txn);
void later_reset(MDB_txn *txn);
void later_end(MDB_txn *txn);

/* The checksums of pages (later_sums.c). Opening: 0, ENOMEM, or MDB_BAD_CHECKSUM (the file's have
 * another size, or it has none). In a transaction of an environment that has them begin (0 or
 * ENOMEM) before its view is used, end after it. */
int later_sums_open(MDB_env *env);
int later_sums_begin(MDB_txn *txn);
void later_sums_end(MDB_txn *txn);
/* Bytes of a checksum in an environment's file; 0: it has none. */
unsigned later_sum_size(const MDB_env *env);
/* Where in page 0 their size stands (2 bytes). */
static inline uint32_t later_sum_size_at(uint32_t page_size)
{
	return page_size - (uint32_t)sizeof(uint16_t);
}

/* The newest snapshot as its meta page has it now; the file is known to have both. Returns 0 or
 * MDB_CORRUPTED. */
int later_newest(const MDB_env *env, struct meta *meta);

/* What <lmdb.h> asks of such an environment, where the original would answer for its stand-in. Each
 * returns 0 or an error as the function of <lmdb.h> does. */
int later_info(const MDB_env *env, MDB_envinfo *info);
/* Of either format: replaces a size for mdb_env_set_mapsize() by the one that it sets, bytes: a size of 0 by the map size in
 * the newest meta page, and a size that does not hold all pages by one that does. */
int later_mapsize(const MDB_env *env, size_t *size);
int later_stat(const MDB_env *env, MDB_stat *stat);
int later_key_max(const MDB_env *env);
int later_reader_list(const MDB_env *env, MDB_msg_func *func, void *context);
int later_reader_check(const MDB_env *env, int *dead);
int later_maxreaders(const MDB_env *env, unsigned *readers);

/* Writes a copy of the newest snapshot to a descriptor: its two meta pages, and all other pages as they
 * stand in the file. Returns 0, MDB_CORRUPTED, an errno, or as txn_begin(). */
int later_copy(MDB_env *env, int fd);
/* Writes the newest snapshot's pages that are newer than transaction `since`: LMDB 1.0's
 * mdb_env_incr_loadfd() adds them to a copy of that transaction. Returns as later_copy(). */
int later_dump(MDB_env *env, int fd, uint64_t since);

#endif
