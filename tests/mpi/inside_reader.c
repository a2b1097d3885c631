/* SPDX-License-Identifier: OLDAP-2.8 */
/* Reads a part of a data set by plain LMDB calls, as a rank of an MPI program. Its first argument
 * says how it begins and ends MPI. */
#include <errno.h>
#include <lmdb.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct part {
	uint64_t records, bytes, sum;
};

static uint64_t sum_of(const MDB_val *value)
{
	uint64_t sum = 0, word;

	for (size_t at = 0; at + sizeof(word) <= value->mv_size; at += sizeof(word)) {
		memcpy(&word, (const char *)value->mv_data + at, sizeof(word));
		sum += word * (2 * at + 1);
	}
	return sum;
}

static int read_part(MDB_env *env, uint64_t rank, uint64_t ranks, struct part *part)
{
	MDB_cursor *cursor = NULL;
	MDB_val key, value;
	MDB_txn *txn;
	MDB_dbi dbi;
	int rc = mdb_txn_begin(env, NULL, MDB_RDONLY, &txn);

	if (rc)
		return rc;
	rc = mdb_dbi_open(txn, NULL, 0, &dbi);
	if (!rc)
		rc = mdb_cursor_open(txn, dbi, &cursor);
	for (uint64_t n = 0; !rc; n++) {
		rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT);
		if (!rc && n % ranks == rank) {
			part->records++;
			part->bytes += value.mv_size;
			part->sum += sum_of(&value);
		}
	}
	if (cursor)
		mdb_cursor_close(cursor);
	mdb_txn_abort(txn);
	return rc == MDB_NOTFOUND ? 0 : rc;
}

static uint64_t number(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 10) : otherwise;
}

/* Prints the sums of all ranks, if MPI is available. */
static void tell(const char *how, uint64_t rank, struct part part)
{
	if (strcmp(how, "never") && strcmp(how, "later")) {
		uint64_t mine[3] = {part.records, part.bytes, part.sum}, all[3];

		MPI_Allreduce(mine, all, 3, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
		if (rank)
			return;
		part = (struct part){all[0], all[1], all[2]};
	}
	printf("%llu %llu %016llx\n", (unsigned long long)part.records, (unsigned long long)part.bytes,
	       (unsigned long long)part.sum);
}

/* HOW is never; single, funneled, plain (MPI_Init), multiple (before reading); later (after it);
 * early (MPI_Finalize before mdb_env_close); absent (the last rank opens nothing); exit (the last
 * rank leaves without MPI_Finalize, and the others wait for it). */
int main(int argc, char **argv)
{
	uint64_t rank = number("PMI_RANK", 0), ranks = number("PMI_SIZE", 1);
	const char *how = argc > 2 ? argv[1] : "";
	struct part part = {0};
	MDB_env *env = NULL;
	int level, status, rc = 0;

	if (argc != 3)
		return 2;
	if (!strcmp(how, "single"))
		MPI_Init_thread(NULL, NULL, MPI_THREAD_SINGLE, &level);
	else if (!strcmp(how, "funneled"))
		MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level);
	else if (!strcmp(how, "plain"))
		MPI_Init(NULL, NULL);
	else if (strcmp(how, "never") && strcmp(how, "later"))
		MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level);
	if (strcmp(how, "absent") || rank + 1 < ranks) {
		rc = mdb_env_create(&env);
		if (!rc)
			rc = mdb_env_open(env, argv[2], MDB_RDONLY | MDB_NOLOCK, 0);
		/* The command returns when the node is served. */
		status = getenv("INSIDE_READY") ? system(getenv("INSIDE_READY")) : 0;
		if (status) {
			fprintf(stderr, "rank %d: the command's status is %#x\n", (int)rank,
				(unsigned)status);
			rc = EAGAIN;
		}
		for (int epoch = 0; epoch < 2 && !rc; epoch++) {
			part = (struct part){0};
			rc = read_part(env, rank, ranks, &part);
		}
		if (rc)
			fprintf(stderr, "rank %d: %s\n", (int)rank, mdb_strerror(rc));
	}
	if (!strcmp(how, "later"))
		MPI_Init(NULL, NULL);
	tell(how, rank, part);
	if (!strcmp(how, "exit")) {
		if (rank + 1 == ranks)
			exit(3);
		MPI_Barrier(MPI_COMM_WORLD); /* waits for ever if the peer is outside the job */
	}
	if (strcmp(how, "early"))
		mdb_env_close(env);
	if (strcmp(how, "never"))
		MPI_Finalize();
	if (!strcmp(how, "early"))
		mdb_env_close(env);
	return rc ? 1 : 0;
}
