/* SPDX-License-Identifier: OLDAP-2.8 */
/* Unpacks compressed bytes that one reader has brought, through the container's io.
 *
 * A container's io reads frame by frame from the io below it. Here that is one that has the frames
 * of a range of the data in memory, and asks the file for the rest: the container's index.
 */
#ifndef LMDBIO_MPI_STAGE_FRAMES_H
#define LMDBIO_MPI_STAGE_FRAMES_H

#include "io/io.h"
#include "mpi/stage_share.h"

struct stage_frames {
	struct io io;   /* what a container's io may stand on */
	uint8_t *bytes; /* the container's from `at` on, so many */
	uint64_t at, length, room;
	uint64_t last;        /* where in the container its last frame begins */
	uint64_t came, calls; /* of all readings */
};

/* Over the container's file, which stays the caller's, as does *frames itself. 0 or errno. */
int stage_frames_open(struct stage_frames *frames, struct io *file);

/* Which bytes of the container a part of its data is in, if they are not here; length 0: they are,
 * or the part is empty, and the offset is then inside of what others read. `data`: the container's
 * io, which stands on frames->io. There is room for them at frames->bytes then, and what was there
 * is gone. Returns 0, MDB_CORRUPTED, ENOMEM or the errno of a read; *wanted is set always. */
int stage_frames_find(struct stage_frames *frames, struct io *data, struct stage_part part,
		      struct stage_part *wanted);

/* They have come. */
void stage_frames_hold(struct stage_frames *frames, struct stage_part wanted);

/* After the container's io is closed. */
void stage_frames_close(struct stage_frames *frames);

#endif
