/* SPDX-License-Identifier: OLDAP-2.8 */
/* A message with a sum, and the requests of MPI's that it is made of. */
#include "config.h"
#include "mpi/mpi_sealed.h"

#include "container/container_hash.h"
#include "mpi/mpi_wait.h"


enum { BYTES, SUM, PARTS };

void sealed_init(struct mpi_sealed *sealed)
{
	*sealed = (struct mpi_sealed){.parts = {MPI_REQUEST_NULL, MPI_REQUEST_NULL}};
}

uint64_t sealed_sum(const void *bytes, size_t length, uint64_t number)
{
	return hash_seeded(bytes, length, number);
}

static void part_send(struct mpi_sealed *sealed, int part, const void *bytes, size_t length, int to,
		      int tag, MPI_Comm comm)
{
	if (MPI_Isend(bytes, (int)length, MPI_BYTE, to, tag, comm, &sealed->parts[part]) ==
	    MPI_SUCCESS)
		return;
	sealed->parts[part] = MPI_REQUEST_NULL;
	sealed->failed = true;
}

static bool part_receive(struct mpi_sealed *sealed, int part, void *bytes, size_t length, int from,
			 int tag, MPI_Comm comm)
{
	if (MPI_Irecv(bytes, (int)length, MPI_BYTE, from, tag, comm, &sealed->parts[part]) ==
	    MPI_SUCCESS)
		return true;
	sealed->parts[part] = MPI_REQUEST_NULL;
	return false;
}

void sealed_send(struct mpi_sealed *sealed, const void *bytes, size_t length, uint64_t sum, int to,
		 int tag, MPI_Comm comm)
{
	sealed_init(sealed);
	sealed->sum = sum;
	part_send(sealed, SUM, &sealed->sum, sizeof(sealed->sum), to, tag + SEALED_TAGS, comm);
	part_send(sealed, BYTES, bytes, length, to, tag, comm);
}

void sealed_send_bare(struct mpi_sealed *sealed, const void *bytes, size_t length, int to, int tag,
		      MPI_Comm comm)
{
	sealed_init(sealed);
	part_send(sealed, BYTES, bytes, length, to, tag, comm);
}

bool sealed_receive(struct mpi_sealed *sealed, void *bytes, size_t length, int from, int tag,
		    MPI_Comm comm)
{
	sealed_init(sealed);
	if (part_receive(sealed, SUM, &sealed->sum, sizeof(sealed->sum), from, tag + SEALED_TAGS,
			 comm) &&
	    part_receive(sealed, BYTES, bytes, length, from, tag, comm))
		return true;
	sealed_cancel(sealed);
	return false;
}

void sealed_cancel(struct mpi_sealed *sealed)
{
	for (int part = 0; part < PARTS; part++) {
		if (sealed->parts[part] == MPI_REQUEST_NULL)
			continue;
		MPI_Cancel(&sealed->parts[part]);
		MPI_Wait(&sealed->parts[part], MPI_STATUS_IGNORE);
	}
}

bool sealed_is_over(struct mpi_sealed *sealed)
{
	bool over = true;

	for (int part = 0; part < PARTS; part++) {
		MPI_Status status;
		int there = 0, length = 0;

		if (sealed->parts[part] == MPI_REQUEST_NULL)
			continue;
		if (MPI_Test(&sealed->parts[part], &there, &status) != MPI_SUCCESS)
			sealed->failed = true;
		else if (there && part == BYTES &&
			 MPI_Get_count(&status, MPI_BYTE, &length) == MPI_SUCCESS)
			sealed->length = (size_t)length;
		/* One that MPI has given up is none any more; until then it may use the memory. */
		over &= sealed->parts[part] == MPI_REQUEST_NULL;
	}
	return over;
}

void sealed_await(struct mpi_sealed *sealed)
{
	struct mpi_nap nap = {0};

	while (!sealed_is_over(sealed) && !sealed->failed)
		mpi_pause(&nap);
}

bool sealed_is_right(const struct mpi_sealed *sealed, const void *bytes, size_t length,
		     uint64_t number)
{
	return !sealed->failed && sealed->parts[BYTES] == MPI_REQUEST_NULL &&
	       sealed->parts[SUM] == MPI_REQUEST_NULL && sealed->length == length &&
	       sealed->sum == sealed_sum(bytes, length, number);
}
