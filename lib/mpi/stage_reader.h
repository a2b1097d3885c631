/* SPDX-License-Identifier: OLDAP-2.8 */
/* Declares the readers of a rank's share.
 *
 * Adding a reader takes: a file stage_reader_<name>.c with a const, designated struct
 * stage_reader_ops; a name in include/lmdbio_stage.h and a row in stage.c; a word in
 * tools/lmdbio_stage.c; a row in tests/mpi/stage_test.sh. */
#ifndef LMDBIO_MPI_STAGE_READER_H
#define LMDBIO_MPI_STAGE_READER_H

#include "io/io.h"
#include "mpi/chunk_spread.h"
#include "mpi/rank_shares.h"
#include "mpi/stage_source.h"

#include <lmdbio_stage.h>
#include <mpi.h>
#include <stdbool.h>

struct stage_reader;

/* Compressed bytes of a container that MPI-IO has brought: the frames of a range of its data. */
struct stage_frames {
	struct io io;   /* the io that a container's io reads from */
	uint8_t *bytes; /* `length` bytes of the container, from `at` on */
	uint64_t at, length, room;
	uint64_t last;        /* where in the container its last frame begins */
	uint64_t came, calls; /* bytes and calls of all readings */
};

struct stage_reader_ops {
	bool collective; /* all ranks must read at the same time */
	bool ahead;      /* start() returns before the bytes are there */
	/* Collective over reader->comm. The code is this rank's own. */
	int (*open)(struct stage_reader *reader, const struct stage_source *source,
		    const char *hints);
	/* start() reads part.length bytes to `buffer`. After it comes finish(): then all bytes are
	 * there, or it returns an errno. Each rank calls both for each step, even if its part is
	 * empty. */
	void (*start)(struct stage_reader *reader, struct stage_part part, void *buffer);
	int (*finish)(struct stage_reader *reader);
	/* Collective over reader->comm. */
	void (*close)(struct stage_reader *reader);
};

struct stage_reader {
	const struct stage_reader_ops *ops;
	MPI_Comm comm;
	uint64_t bytes, calls; /* that this rank has asked of storage */
	/* For POSIX. Parts are of what this node has of the data; NULL: of the data itself. */
	const struct chunk_spread *spread;
	int node;
	/* For POSIX, which also unpacks a container for all readers: */
	struct io io, below; /* below: the container's file, if its data is read */
	struct io_request *requests;
	size_t started, room;
	/* For MPI-IO: */
	MPI_File file;
	struct stage_frames frames; /* if a container's data is read */
	/* For all: about the step that was started last. */
	struct stage_part part;
	int error;
};

/* Opens a file by MPI-IO unless a rank has an error in `rc`. Collective over comm. The code is agreed
 * up to the call of MPI. After an error, *file is MPI_FILE_NULL if it was before. */
int mpi_file_open(MPI_Comm comm, const char *path, int mode, MPI_Info info, int rc, MPI_File *file);

extern const struct stage_reader_ops stage_reader_posix, stage_reader_mpiio,
	stage_reader_collective;

#endif
