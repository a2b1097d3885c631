/* SPDX-License-Identifier: OLDAP-2.8 */
/* Declares the targets of staged bytes: a directory, the node's memory, a part, or nowhere.
 *
 * Adding a target takes: a file stage_<name>.c with a const, designated struct stage_target_ops; a
 * name in include/lmdbio_stage.h and a row in stage_target.c; an option in tools/lmdbio_stage.c;
 * cases in tests/mpi/. stage_target.c has the target that does nothing. */
#ifndef LMDBIO_MPI_STAGE_TARGET_H
#define LMDBIO_MPI_STAGE_TARGET_H

#include "arena/arena.h"
#include "mpi/chunk_spread.h"
#include "mpi/mpi_job.h"
#include "mpi/stage_source.h"

#include <lmdbio_stage.h>
#include <stdbool.h>

struct stage_target;

/* All ranks call the same functions in the same order, and agree on the codes in between; each code
 * is the rank's own. NULL: there is nothing to do. */
struct stage_target_ops {
	bool spread; /* every node needs every byte, unless one place is for all nodes */
	/* Every rank names its node's place, before the maker makes it. */
	int (*name)(struct stage_target *target);
	/* The maker is the first rank of the node (of the job, if there is one copy). It makes the
	 * place, or finds that it is filled already: target->there. No other rank calls it. */
	int (*make)(struct stage_target *target);
	/* All other ranks find what was made, or was there. */
	int (*join)(struct stage_target *target);
	/* Puts bytes at the file's own offset (for parts, at what chunk_spread_offset() makes of
	 * it). Offset and length are multiples of a page (for parts, of a chunk), except at the
	 * end. */
	int (*put)(struct stage_target *target, uint64_t offset, const void *bytes,
		   uint64_t length);
	/* Has all bytes on the disk, after all ranks have put theirs. */
	int (*settle)(struct stage_target *target);
	/* Shows what was put to programs. Only the maker calls it. */
	int (*show)(struct stage_target *target);
	/* Takes away what was made or shown. Only the maker calls it. */
	void (*undo)(struct stage_target *target);
	/* Frees what this rank has; what was shown stays. */
	void (*close)(struct stage_target *target);
};

struct stage_target {
	const struct stage_target_ops *ops;
	const struct stage_source *source;
	const struct lmdbio_stage_options *options;
	const struct mpi_job *job;
	bool maker;     /* this rank calls make, show and undo */
	bool there;     /* nothing has to be put: a copy was there before */
	uint64_t nonce; /* one number for all ranks of this staging */
	struct chunk_spread spread; /* for parts */
	/* For a directory: */
	struct guarded top, place; /* DIR or the user's own in it; DIR/NAME */
	char name[STAGED_NAME], *partial, *final; /* in `top`; in `place` */
	int fd;
	/* For memory: */
	struct arena *arena;
	char node[MPI_NODE_NAME];
};

/* Returns NULL if there is no target of that kind. */
const struct stage_target_ops *stage_target_find(enum lmdbio_stage_target kind);

/* Whether each node has a place of its own, which needs every byte. */
bool stage_target_spreads(const struct stage_target *target);

/* Does all that comes before the first byte: make, tell all ranks, join. Collective over job->all.
 * The code is agreed. *nodes_before: nodes that had the data before. */
int stage_target_open(struct stage_target *target, int *nodes_before, int *failed);

/* Does all that comes after the last byte, if `rc` is 0: settle, check that the source is still
 * what it was, show. Otherwise, or when that fails, undoes. Collective. The code is agreed. */
int stage_target_end(struct stage_target *target, int rc, int *failed);

extern const struct stage_target_ops stage_directory, stage_memory, stage_parts;

#endif
