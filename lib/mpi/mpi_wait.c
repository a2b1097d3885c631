/* SPDX-License-Identifier: OLDAP-2.8 */
/* Waits for MPI by looking again and again, and sleeps in between.
 *
 * MPI has no descriptor to wait for, and its own waits keep a processor busy. On two processors,
 * three of four ranks waited three seconds for the fourth, and used both processors all the time. A
 * sleep is a fixed part of the wait so far, so a long wait ends little later than it could, and
 * costs little. */
#include "config.h"
#include "mpi/mpi_wait.h"

#include "util/clock.h"

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
	LOOKS_SOON = 64, /* looks that only yield the processor: some ten microseconds */
	FAILURES =
		8, /* failed tests after which a request that MPI does not free counts as failed */
	NAP_FIRST = 20000 /* nanoseconds */
};

/* Sleeps: at most 1 / `part` of the wait so far, within these bounds of nanoseconds. */
static const struct {
	uint64_t part, least, most;
} naps[] = {
	[NAP_BUSY] = {32, 200000, 4000000},
	[NAP_IDLE] = {64, 4000000, 32000000},
};

uint64_t mpi_nap_next(struct mpi_nap *nap, bool found, enum mpi_nap_kind kind)
{
	uint64_t now, most;

	if (found || !nap->since) {
		*nap = (struct mpi_nap){.since = clock_now()};
		return 0;
	}
	now = clock_now();
	most = (now - nap->since) / naps[kind].part;
	most = most < naps[kind].least ? naps[kind].least : most;
	most = most > naps[kind].most ? naps[kind].most : most;
	nap->ns = nap->ns < NAP_FIRST ? NAP_FIRST : nap->ns + nap->ns / 4;
	nap->ns = nap->ns < most ? nap->ns : most;
	return nap->ns;
}

void mpi_pause(struct mpi_nap *nap)
{
	uint64_t ns;

	if (nap->looks++ < LOOKS_SOON) {
		sched_yield();
		return;
	}
	ns = mpi_nap_next(nap, false, NAP_BUSY);
	if (ns)
		clock_sleep(ns);
}

/* MPI may still use the memory of a request that it has not given up, and other ranks wait for this
 * rank. */
int mpi_await(MPI_Request *request)
{
	struct mpi_nap nap = {0};
	unsigned failures = 0;
	int done = 0, rc;

	if (*request == MPI_REQUEST_NULL)
		return MPI_SUCCESS;
	for (;;) {
		rc = MPI_Test(request, &done, MPI_STATUS_IGNORE);
		if (rc == MPI_SUCCESS ? done
				      : *request == MPI_REQUEST_NULL || ++failures == FAILURES)
			return rc;
		mpi_pause(&nap);
	}
}

/* A single rank waits for no other rank. MPICH 4.0 crashes in MPI_Test if such a process has MPI by
 * a session alone. */
static bool is_alone(MPI_Comm comm)
{
	int ranks = 0;

	return MPI_Comm_size(comm, &ranks) == MPI_SUCCESS && ranks == 1;
}

int mpi_barrier(MPI_Comm comm)
{
	MPI_Request request;
	int rc;

	if (is_alone(comm))
		return MPI_SUCCESS;
	rc = MPI_Ibarrier(comm, &request);
	return rc == MPI_SUCCESS ? mpi_await(&request) : rc;
}

/* MPI makes a communicator by blocking calls, which begin here when all ranks have come. */
int mpi_comm_dup(MPI_Comm comm, MPI_Comm *copy)
{
	int rc = mpi_barrier(comm);

	if (rc == MPI_SUCCESS)
		rc = MPI_Comm_dup(comm, copy);
	if (rc == MPI_SUCCESS)
		(void)MPI_Comm_set_errhandler(*copy, MPI_ERRORS_RETURN);
	return rc;
}

/* The memory that MPI reads and writes in a collective call. MPI may still use it after mpi_await()
 * has given the call up. So it is not the caller's memory, which may be a stack, and is not freed
 * in that case. */
struct passage {
	struct passage *next;
	uint64_t words[];
};

static _Atomic(struct passage *) passages_kept; /* not freed, listed so that they are no leak */

/* A collective call. */
struct collective {
	enum { BROADCAST, REDUCE, SCAN, GATHER } kind;
	int count, root, ranks; /* ranks: whose bytes are the result: 1, or those of a GATHER */
	MPI_Datatype type;
	MPI_Op op;
	MPI_Comm comm;
};

static size_t size_of(const struct collective *call)
{
	size_t each = call->type == MPI_BYTE  ? 1
		      : call->type == MPI_INT ? sizeof(int)
					      : sizeof(uint64_t);

	return (size_t)call->count * each;
}

/* Returns an MPI code. A broadcast needs `all` alone. */
static int collective_begin(const struct collective *call, const void *mine, void *all,
			    MPI_Request *request)
{
	switch (call->kind) {
	case BROADCAST:
		return MPI_Ibcast(all, call->count, call->type, call->root, call->comm, request);
	case REDUCE:
		return MPI_Iallreduce(mine, all, call->count, call->type, call->op, call->comm,
				      request);
	case SCAN:
		return MPI_Iscan(mine, all, call->count, call->type, call->op, call->comm, request);
	case GATHER:
		break;
	}
	return MPI_Iallgather(mine, call->count, call->type, all, call->count, call->type,
			      call->comm, request);
}

/* Without memory for a passage the call uses the caller's, since other ranks wait for the call. */
static int collective(const struct collective *call, const void *mine, void *all)
{
	size_t length = size_of(call), result = length * (size_t)call->ranks;
	const void *own = mine == MPI_IN_PLACE ? all : mine;
	struct passage *passage;
	uint8_t *to = all;
	MPI_Request request;
	int rc;

	if (is_alone(call->comm)) {
		if (own != all)
			memcpy(all, own, length);
		return MPI_SUCCESS;
	}
	passage = calloc(1, sizeof(*passage) + length + result);
	if (passage) {
		to = (uint8_t *)passage->words;
		memcpy(to, own, length);
		mine = call->kind == GATHER ? to : MPI_IN_PLACE;
		to += call->kind == GATHER ? length : 0;
	}
	rc = collective_begin(call, mine, to, &request);
	if (rc == MPI_SUCCESS)
		rc = mpi_await(&request);
	else
		request = MPI_REQUEST_NULL;
	if (!passage)
		return rc;
	if (rc == MPI_SUCCESS)
		memcpy(all, to, result);
	if (request == MPI_REQUEST_NULL) {
		free(passage);
		return rc;
	}
	passage->next = atomic_load(&passages_kept);
	while (!atomic_compare_exchange_weak(&passages_kept, &passage->next, passage))
		;
	return rc;
}

int mpi_bcast(void *bytes, int count, MPI_Datatype type, int root, MPI_Comm comm)
{
	const struct collective call = {BROADCAST, count, root, 1, .type = type, .comm = comm};

	return collective(&call, bytes, bytes);
}

int mpi_allreduce(const void *mine, void *all, int count, MPI_Datatype type, MPI_Op op,
		  MPI_Comm comm)
{
	return collective(&(struct collective){REDUCE, count, 0, 1, type, op, comm}, mine, all);
}

int mpi_scan(const void *mine, void *sum, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
	return collective(&(struct collective){SCAN, count, 0, 1, type, op, comm}, mine, sum);
}

int mpi_allgather(const void *mine, void *all, int count, MPI_Datatype type, int ranks, MPI_Comm comm)
{
	const struct collective call = {GATHER, count, 0, ranks, .type = type, .comm = comm};

	return collective(&call, mine, all);
}

int mpi_session_open(MPI_Session *session)
{
	MPI_Info info;
	int rc = MPI_Info_create(&info);

	*session = MPI_SESSION_NULL;
	if (rc != MPI_SUCCESS)
		return rc;
	rc = MPI_Info_set(info, "thread_level", "MPI_THREAD_MULTIPLE");
	if (rc == MPI_SUCCESS)
		rc = MPI_Session_init(info, MPI_ERRORS_RETURN, session);
	if (rc != MPI_SUCCESS)
		*session = MPI_SESSION_NULL;
	MPI_Info_free(&info);
	return rc;
}

int mpi_same(MPI_Comm comm, const void *mine, size_t size, int otherwise)
{
	uint8_t first[256];

	memcpy(first, mine, size);
	if (mpi_bcast(first, (int)size, MPI_BYTE, 0, comm) != MPI_SUCCESS)
		return EIO;
	return memcmp(first, mine, size) ? otherwise : 0;
}

/* Packs rank and code into one number. The least number wins. */
int mpi_agree(MPI_Comm comm, int rc, int *failed)
{
	/* Signed, because MPICH 4.0.2 compares MPI_UINT64_T as if it were signed. */
	int64_t mine = INT64_MAX, least = INT64_MAX;
	int rank = 0;

	/* Goes on after a failure, because the other ranks wait for this rank's code. */
	if (MPI_Comm_rank(comm, &rank) != MPI_SUCCESS && !rc)
		rc = EIO;
	if (rc)
		mine = (int64_t)rank << 32 | (uint32_t)rc;
	if (failed)
		*failed = 0;
	if (mpi_allreduce(&mine, &least, 1, MPI_INT64_T, MPI_MIN, comm) != MPI_SUCCESS)
		return EIO;
	if (least == INT64_MAX)
		return 0;
	if (failed)
		*failed = (int)(least >> 32);
	return (int)(uint32_t)least;
}
