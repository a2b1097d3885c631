/* SPDX-License-Identifier: OLDAP-2.8 */
/* Lets a rank wait for other ranks and leaves them the processor. No code of lmdbio's waits in a
 * blocking call of MPI for a rank that may come later. */
#ifndef LMDBIO_MPI_MPI_WAIT_H
#define LMDBIO_MPI_MPI_WAIT_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A wait that looks again and again; begins zeroed. */
struct mpi_nap {
	unsigned looks; /* calls of mpi_pause() */
	uint64_t since; /* ns: when a look last found something */
	uint64_t ns;    /* ns: the last sleep */
};

enum mpi_nap_kind {
	NAP_BUSY, /* for what is under way: 4 ms at most */
	NAP_IDLE, /* for events that may never come: the sleep grows to 32 ms within two seconds */
};

/* Returns the ns to sleep after a look, which `found` something or not; 0: look again at once. */
uint64_t mpi_nap_next(struct mpi_nap *nap, bool found, enum mpi_nap_kind kind);

/* Gives the processor away between two looks at what is under way: at first to threads that are
 * ready to run, soon by sleeping. */
void mpi_pause(struct mpi_nap *nap);

/* Waits for a request. Returns an MPI code. */
int mpi_await(MPI_Request *request);

/* MPI's collective calls of the same names and codes, which wait in naps. They take bytes, ints or
 * numbers of 8 bytes; only mpi_allreduce() takes MPI_IN_PLACE. mpi_allgather(): `count` of each of
 * `ranks` ranks. MPI uses the caller's memory only if there is no other: a failed call may still be
 * under way. */
int mpi_barrier(MPI_Comm comm);
/* The copy returns all errors. */
int mpi_comm_dup(MPI_Comm comm, MPI_Comm *copy);
int mpi_bcast(void *bytes, int count, MPI_Datatype type, int root, MPI_Comm comm);
int mpi_allreduce(const void *mine, void *all, int count, MPI_Datatype type, MPI_Op op,
		  MPI_Comm comm);
int mpi_scan(const void *mine, void *sum, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm);
int mpi_allgather(const void *mine, void *all, int count, MPI_Datatype type, int ranks, MPI_Comm comm);

/* Begins a session in which any thread may call MPI. Returns an MPI code. If it fails, *session is
 * MPI_SESSION_NULL. */
int mpi_session_open(MPI_Session *session);

/* Returns 0 if this rank has the same bytes as rank 0, at most 256, else `otherwise`; EIO when MPI
 * fails. Collective over comm. */
int mpi_same(MPI_Comm comm, const void *mine, size_t size, int otherwise);

/* Returns on all ranks the code of the lowest rank whose code is not 0, and sets *failed to that
 * rank (0 if there is none). Collective over comm. Returns EIO when MPI itself fails. */
int mpi_agree(MPI_Comm comm, int rc, int *failed);

#endif
