/* SPDX-License-Identifier: OLDAP-2.8 */
/* Shows how the original is made to write a planned database. */
#include "db_make.h"
#include "random_stream.h"
#include "origin/origin.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Pages reused after deletions, and gaps: the map is only address space. */
static const size_t map_size = (size_t)1 << 30;

/* LMDB 0.9's meta page: 16 bytes of page header, magic and version, address, map size, then the
 * record of the free list, whose first two fields are the page size and the environment's flags,
 * the record of the main database, the last page and the transaction (mdb.c, MDB_meta). */
static void meta_write(unsigned char *page, uint64_t number, unsigned page_size, uint64_t map)
{
	const uint32_t magic = 0xbeefc0deu, version = 1, pad = page_size;
	const uint16_t page_is_meta = 8, free_flags = MDB_INTEGERKEY;
	const uint64_t none = ~(uint64_t)0, last_page = 1;

	memcpy(page, &number, 8);
	memcpy(page + 10, &page_is_meta, 2);
	memcpy(page + 16, &magic, 4);
	memcpy(page + 20, &version, 4);
	memcpy(page + 32, &map, 8);
	memcpy(page + 40, &pad, 4);
	memcpy(page + 44, &free_flags, 2);
	memcpy(page + 80, &none, 8);
	memcpy(page + 128, &none, 8);
	memcpy(page + 136, &last_page, 8);
}

int db_make_empty(const char *directory, unsigned page_size, size_t map)
{
	unsigned char *pages = calloc(2, page_size);
	char path[4096];
	ssize_t written;
	int fd, rc = 0;

	if (!pages)
		return ENOMEM;
	meta_write(pages, 0, page_size, map);
	meta_write(pages + page_size, 1, page_size, map);
	snprintf(path, sizeof path, "%s/data.mdb", directory);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (fd < 0) {
		rc = errno;
		free(pages);
		return rc;
	}
	written = write(fd, pages, 2 * (size_t)page_size);
	if (written != 2 * (ssize_t)page_size)
		rc = written < 0 ? errno : ENOSPC;
	if (close(fd) != 0 && rc == 0)
		rc = errno;
	free(pages);
	return rc;
}

struct maker {
	const struct db_plan *plan;
	struct random_stream random;
	MDB_env *env;
	MDB_txn *txn;
	MDB_dbi dbi[DB_TABLES_MAX];
	char *key, *item;
};

static int put_key(struct maker *maker, unsigned t, uint64_t k, unsigned version)
{
	const struct db_table *table = &maker->plan->table[t];
	unsigned items = table->flags & MDB_DUPSORT ? db_item_dups(table, k) : 1;
	MDB_val key = {db_item_key(maker->plan, table, k, maker->key), maker->key};
	int rc = 0;

	for (unsigned j = 0; j < items && rc == 0; j++) {
		MDB_val data = {0, maker->item};

		if (table->flags & MDB_DUPSORT)
			data.mv_size = db_item_dup(maker->plan, table, k, j, maker->item);
		else
			data.mv_size = db_item_value(maker->plan, table, k, version, maker->item);
		rc = lmdbio_orig_mdb_put(maker->txn, maker->dbi[t], &key, &data, 0);
	}
	return rc;
}

/* One key of a later round: gone, changed, thinned out, or new. */
static int change_key(struct maker *maker, unsigned t, uint64_t k, unsigned version)
{
	const struct db_table *table = &maker->plan->table[t];
	MDB_val key = {db_item_key(maker->plan, table, k, maker->key), maker->key};
	MDB_val data = {0, maker->item};
	int rc;

	switch (random_below(&maker->random, 4)) {
	case 0:
		rc = lmdbio_orig_mdb_del(maker->txn, maker->dbi[t], &key, NULL);
		return rc == MDB_NOTFOUND ? 0 : rc;
	case 1:
		return put_key(maker, t, table->keys + random_below(&maker->random, 50), version);
	case 2:
		if (!(table->flags & MDB_DUPSORT))
			return put_key(maker, t, k, version);
		for (unsigned j = 0; j < db_item_dups(table, k); j++) {
			if (random_percent(&maker->random, 40))
				continue;
			data.mv_size = db_item_dup(maker->plan, table, k, j, maker->item);
			rc = lmdbio_orig_mdb_del(maker->txn, maker->dbi[t], &key, &data);
			if (rc != 0 && rc != MDB_NOTFOUND)
				return rc;
		}
		return 0;
	default:
		return put_key(maker, t, k, version);
	}
}

static int open_tables(struct maker *maker)
{
	for (unsigned t = 0; t < maker->plan->table_count; t++) {
		const struct db_table *table = &maker->plan->table[t];
		int rc = lmdbio_orig_mdb_dbi_open(maker->txn, table->is_main ? NULL : table->name,
						  table->flags | MDB_CREATE, &maker->dbi[t]);

		if (rc == 0 && table->custom_keys)
			rc = lmdbio_orig_mdb_set_compare(maker->txn, maker->dbi[t],
							 db_compare_keys);
		if (rc == 0 && table->custom_items)
			rc = lmdbio_orig_mdb_set_dupsort(maker->txn, maker->dbi[t],
							 db_compare_items);
		if (rc != 0)
			return rc;
	}
	return 0;
}

static int fill_table(struct maker *maker, unsigned t)
{
	const struct db_table *table = &maker->plan->table[t];
	bool scattered = random_percent(&maker->random, 60);
	unsigned step = 1;
	int rc = 0;

	/* a step that shares no factor with the count visits every key once */
	while (scattered && table->keys > 1) {
		unsigned a, b;

		step = 1 + (unsigned)random_below(&maker->random, table->keys);
		for (a = table->keys, b = step; b != 0;) {
			unsigned rest = a % b;

			a = b;
			b = rest;
		}
		if (a == 1)
			break;
	}
	for (unsigned i = 0; i < table->keys && rc == 0; i++)
		rc = put_key(maker, t, (uint64_t)i * step % table->keys, 0);
	return rc;
}

static int next_transaction(struct maker *maker)
{
	int rc = lmdbio_orig_mdb_txn_commit(maker->txn);

	maker->txn = NULL;
	if (rc != 0)
		return rc;
	return lmdbio_orig_mdb_txn_begin(maker->env, NULL, 0, &maker->txn);
}

static int write_rounds(struct maker *maker)
{
	int rc = open_tables(maker);

	for (unsigned t = 0; t < maker->plan->table_count && rc == 0; t++) {
		rc = fill_table(maker, t);
		if (rc == 0 && random_percent(&maker->random, 40))
			rc = next_transaction(maker);
	}
	for (unsigned round = 1; round <= maker->plan->rounds && rc == 0; round++) {
		rc = next_transaction(maker);
		for (unsigned t = 0; t < maker->plan->table_count && rc == 0; t++) {
			unsigned keys = maker->plan->table[t].keys;

			for (unsigned i = 0; i < keys / 5 + 1 && rc == 0 && keys > 1; i++)
				rc = change_key(maker, t, random_below(&maker->random, keys),
						round);
		}
	}
	for (unsigned t = 0; t < maker->plan->table_count && rc == 0; t++)
		if (maker->plan->table[t].emptied)
			rc = lmdbio_orig_mdb_drop(maker->txn, maker->dbi[t], 0);
	return rc;
}

int db_make(const struct db_plan *plan, const char *directory)
{
	struct maker maker = {.plan = plan,
			      .random = random_start(plan->seed ^ 0xdb, plan->number)};
	char path[4096];
	int rc = db_make_empty(directory, plan->page_size, map_size);

	if (rc != 0 || plan->table_count == 0)
		return rc;
	rc = ENOMEM;
	maker.key = malloc(DB_ITEM_SIZE);
	maker.item = malloc(DB_ITEM_SIZE);
	if (!maker.key || !maker.item)
		goto done;
	rc = lmdbio_orig_mdb_env_create(&maker.env);
	if (rc != 0)
		goto done;
	snprintf(path, sizeof path, "%s/data.mdb", directory);
	rc = lmdbio_orig_mdb_env_set_maxdbs(maker.env, DB_TABLES_MAX);
	if (rc == 0)
		rc = lmdbio_orig_mdb_env_set_mapsize(maker.env, map_size);
	if (rc == 0)
		rc = lmdbio_orig_mdb_env_open(maker.env, path,
					      MDB_NOSUBDIR | MDB_NOLOCK | MDB_NOSYNC, 0644);
	if (rc == 0)
		rc = lmdbio_orig_mdb_txn_begin(maker.env, NULL, 0, &maker.txn);
	if (rc == 0)
		rc = write_rounds(&maker);
	if (rc == 0) {
		rc = lmdbio_orig_mdb_txn_commit(maker.txn);
		maker.txn = NULL;
	}
done:
	if (maker.txn)
		lmdbio_orig_mdb_txn_abort(maker.txn);
	if (maker.env)
		lmdbio_orig_mdb_env_close(maker.env);
	free(maker.key);
	free(maker.item);
	return rc;
}
