/* SPDX-License-Identifier: OLDAP-2.8 */
/* Runs the server inside a program that uses MPI itself.
 *
 * A thread of ours waits in an MPI session of its own, and on a communicator of all ranks, for
 * those that have not come yet; only it waits. From then on it does what lmdbio-run does for
 * programs without MPI. A process that has made a session must end it: the thread ends when
 * MPI_Finalize ends MPI (an attribute of MPI_COMM_SELF is deleted then) or when the process exits,
 * with all other ranks.
 */
#ifndef LMDBIO_MPI_MPI_INSIDE_H
#define LMDBIO_MPI_MPI_INSIDE_H

#include <stdbool.h>

/* As struct mpi_module says of inside. */
int mpi_inside_begin(bool first);

#endif
