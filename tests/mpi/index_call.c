/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks whether the index that the ranks make together equals the one that a process makes by
 * itself.
 *
 * index_call PATH [DATABASE]: each rank prints "rank R: N records, D differences", or "rank R:
 * error E". With COUNT in the environment there is no serial index, which would read everything by
 * itself.
 */
#include "env/env.h"
#include "index/record_index.h"

#include <lmdbio_mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int serial_index(const char *path, const char *name, struct record_index **index)
{
	MDB_env *env;
	MDB_txn *txn = NULL;
	MDB_dbi dbi;
	int rc = env_create(&env);

	if (rc)
		return rc;
	env_set_maxdbs(env, 1);
	rc = env_open(env, path, MDB_RDONLY | MDB_NOLOCK, 0);
	if (!rc)
		rc = txn_begin(env, NULL, MDB_RDONLY, &txn);
	if (!rc)
		rc = dbi_open(txn, name, 0, &dbi);
	if (!rc && txn->trees[dbi].stale)
		rc = tree_refresh(&txn->snapshot, &txn->trees[dbi]);
	if (!rc)
		rc = index_build(index, &txn->snapshot, &txn->trees[dbi], 1);
	if (txn)
		txn_abort(txn);
	env_close(env);
	return rc;
}

static bool differs(const struct lmdbio_mpi_index *made, const struct record_index *serial,
		    uint64_t number)
{
	struct lmdbio_record_place place = {.size = sizeof(place)};
	struct index_place expected = {0};
	int rc = lmdbio_mpi_index_find(made, number, &place);

	if (index_find(serial, number, &expected) != rc)
		return true;
	return !rc && (place.page != expected.page || place.node != expected.entry ||
		       place.skip != expected.skip || place.nested != expected.nested ||
		       (place.nested && (place.owner_page != expected.owner_page ||
					 place.owner_node != expected.owner_entry)));
}

int main(int argc, char **argv)
{
	struct lmdbio_mpi_index *made;
	struct record_index *serial = NULL;
	uint64_t records = 0, differences = 0;
	const char *name = argc > 2 ? argv[2] : NULL;
	int rank, rc;

	if (argc < 2)
		return 2;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	rc = lmdbio_mpi_index_open(MPI_COMM_WORLD, argv[1], name, &made);
	if (!rc) {
		records = lmdbio_mpi_index_records(made);
		if (!getenv("COUNT"))
			rc = serial_index(argv[1], name, &serial);
		/* Also compares one record number past the last. */
		for (uint64_t i = 0; serial && i <= records; i++)
			differences += differs(made, serial, i);
	}
	if (rc)
		printf("rank %d: error %d\n", rank, rc);
	else
		printf("rank %d: %llu records, %llu differences\n", rank,
		       (unsigned long long)records, (unsigned long long)differences);
	index_free(serial);
	lmdbio_mpi_index_close(made);
	MPI_Finalize();
	return 0;
}
