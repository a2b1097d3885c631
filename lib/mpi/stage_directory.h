/* SPDX-License-Identifier: OLDAP-2.8 */
/* A file that gets into a directory whole or not at all: what the targets share that put one there. */
#ifndef LMDBIO_MPI_STAGE_DIRECTORY_H
#define LMDBIO_MPI_STAGE_DIRECTORY_H

#include "mpi/stage_target.h"

/* Names the file, which lies in the directory of the data set's identity, and what it is called until it
 * is whole. `of`: the node's number, or 0 where the file is all nodes'. Returns 0 or ENOMEM. */
int stage_directory_name(struct stage_target *target, const char *file, int of);

/* Makes the partial file, empty, with its directory, and takes away what killed jobs have left. Returns 0;
 * EPERM: other users can change a directory on the way; another errno. */
int stage_directory_create(struct stage_target *target);

/* Takes room for bytes of it, so that a full disk is known at once; makes it so long at least. In
 * rising order. 0 or errno. */
int stage_directory_allocate(const struct stage_target *target, uint64_t offset, uint64_t length);

/* As struct stage_target_ops says; show() and those that follow take any file of that kind, open()
 * is a join() after the naming. */
int stage_directory_open(struct stage_target *target);
int stage_directory_settle(struct stage_target *target);
int stage_directory_show(struct stage_target *target);
void stage_directory_undo(struct stage_target *target);
void stage_directory_close(struct stage_target *target);

#endif
