/* SPDX-License-Identifier: OLDAP-2.8 */
/* Reads a whole LMDB data set, as a plain C program linked with the original liblmdb. It knows
 * nothing of lmdbio.
 *
 * usage: quickstart_reader PATH [no-readahead]
 * Prints the number of records, of bytes in keys and values, and a hash over all of them.
 */
#include <inttypes.h>
#include <lmdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* Hashes eight bytes a step: the hash must not cost more than the reading. */
static uint64_t hash_add(uint64_t hash, const MDB_val *part)
{
	const unsigned char *at = part->mv_data;
	size_t left = part->mv_size;
	uint64_t word;

	hash = (hash ^ left) * UINT64_C(0x9e3779b97f4a7c15);
	for (; left >= sizeof(word); at += sizeof(word), left -= sizeof(word)) {
		memcpy(&word, at, sizeof(word));
		hash = (hash ^ word) * UINT64_C(0xff51afd7ed558ccd);
		hash ^= hash >> 32;
	}
	word = 0;
	memcpy(&word, at, left);
	hash = (hash ^ word) * UINT64_C(0xc4ceb9fe1a85ec53);
	return hash ^ hash >> 29;
}

static int read_all(MDB_cursor *cursor)
{
	MDB_val key, data;
	uint64_t hash = 0, records = 0, bytes = 0;
	int rc;

	while (!(rc = mdb_cursor_get(cursor, &key, &data, MDB_NEXT))) {
		hash = hash_add(hash_add(hash, &key), &data);
		bytes += key.mv_size + data.mv_size;
		records++;
	}
	if (rc != MDB_NOTFOUND)
		return rc;
	printf("%" PRIu64 " %" PRIu64 " %016" PRIx64 "\n", records, bytes, hash);
	return 0;
}

int main(int argc, char **argv)
{
	unsigned flags = MDB_RDONLY | MDB_NOTLS;
	struct stat status;
	MDB_cursor *cursor = NULL;
	MDB_txn *txn = NULL;
	MDB_env *env;
	MDB_dbi dbi;
	int rc;

	if (argc < 2 || argc > 3 || (argc == 3 && strcmp(argv[2], "no-readahead"))) {
		fprintf(stderr, "usage: %s PATH [no-readahead]\n", argv[0]);
		return 2;
	}
	if (argc == 3)
		flags |= MDB_NORDAHEAD;
	if (!stat(argv[1], &status) && S_ISREG(status.st_mode))
		flags |= MDB_NOSUBDIR;
	rc = mdb_env_create(&env);
	if (rc) {
		fprintf(stderr, "%s\n", mdb_strerror(rc));
		return 1;
	}
	rc = mdb_env_open(env, argv[1], flags, 0644);
	if (!rc)
		rc = mdb_txn_begin(env, NULL, MDB_RDONLY, &txn);
	if (!rc)
		rc = mdb_dbi_open(txn, NULL, 0, &dbi);
	if (!rc)
		rc = mdb_cursor_open(txn, dbi, &cursor);
	if (!rc)
		rc = read_all(cursor);
	if (rc)
		fprintf(stderr, "%s: %s\n", argv[1], mdb_strerror(rc));
	if (cursor)
		mdb_cursor_close(cursor);
	if (txn)
		mdb_txn_abort(txn);
	mdb_env_close(env);
	return rc != 0;
}
