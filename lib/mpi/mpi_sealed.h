/* SPDX-License-Identifier: OLDAP-2.8 */
/* Sends bytes to another rank so that it knows that all of them have come.
 *
 * MPI's word is not enough: MPICH 4.0 over UCX tells of a receive that its sender's death has
 * broken off that it is complete, with the length that was announced (recv_cmpl_cb of ucx_recv.h
 * looks for no error but a cancelled receive). So the bytes' sum goes under a tag of its own:
 * XXH3-64, seeded with what they are.
 */
#ifndef LMDBIO_MPI_MPI_SEALED_H
#define LMDBIO_MPI_MPI_SEALED_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The sum's tag is so many above that of the bytes, which is less than this. */
enum { SEALED_TAGS = 1 << 14 };

/* One message, sent or received. It stays where it is, and so do its bytes, until it is over. */
struct mpi_sealed {
	MPI_Request parts[2]; /* the bytes; their sum */
	uint64_t sum;
	size_t length; /* of what has come, bytes */
	bool failed;   /* MPI does not reach the other rank */
};

/* Nothing is under way; over, and not failed. */
void sealed_init(struct mpi_sealed *sealed);

/* The sum of bytes of which both ranks know by a number which they are. Any thread. */
uint64_t sealed_sum(const void *bytes, size_t length, uint64_t number);

/* Begins to send at most INT_MAX bytes and their sum. What has failed is told by sealed_is_over(),
 * and does not end what is under way already. */
void sealed_send(struct mpi_sealed *sealed, const void *bytes, size_t length, uint64_t sum, int to,
		 int tag, MPI_Comm comm);
/* The same of bytes that need no sum, because a reader sees what is wrong with them. */
void sealed_send_bare(struct mpi_sealed *sealed, const void *bytes, size_t length, int to, int tag,
		      MPI_Comm comm);
/* Begins to receive them; `length` at most. false: nothing is under way. */
bool sealed_receive(struct mpi_sealed *sealed, void *bytes, size_t length, int from, int tag,
		    MPI_Comm comm);
/* Takes back a receive without a sender. */
void sealed_cancel(struct mpi_sealed *sealed);

/* Looks whether all of it has been sent, or has come, or has failed. */
bool sealed_is_over(struct mpi_sealed *sealed);
/* Waits for that as mpi_await() does; at once back from what has failed. */
void sealed_await(struct mpi_sealed *sealed);
/* Whether it is over, and what has come are the bytes that were sent: `length` of them, of this
 * number.
 */
bool sealed_is_right(const struct mpi_sealed *sealed, const void *bytes, size_t length,
		     uint64_t number);

#endif
