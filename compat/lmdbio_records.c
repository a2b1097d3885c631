/* SPDX-License-Identifier: OLDAP-2.8 */
/* Exports the call for a record by its number. */
#include "env/env.h"
#include "index/record_index.h"

#include <lmdbio.h>

#include <errno.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT int lmdbio_get_record(MDB_txn *txn, MDB_dbi dbi, uint64_t number, MDB_val *key,
			     MDB_val *data)
{
	struct record_index *index;
	struct index_place place;
	int rc;

	if (!txn)
		return EINVAL;
	if (!txn_is_own(txn))
		return ENOTSUP;
	if (txn->snapshot.blocked)
		return MDB_BAD_TXN;
	if (!dbi_exists(txn, dbi, TXN_DBI_USER))
		return EINVAL;
	if ((rc = txn_here(txn)))
		return rc;
	rc = records_take(txn, dbi, &index);
	if (rc)
		return rc;
	rc = index_find(index, number, &place);
	if (!rc)
		rc = index_get(&txn->snapshot, &txn->trees[dbi], &place, key, data);
	records_give(txn->env, index);
	return rc;
}
