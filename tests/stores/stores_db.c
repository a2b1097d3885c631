/* SPDX-License-Identifier: OLDAP-2.8 */
/* Walks a data set and sums up its bytes, by <lmdb.h> alone, and measures the memory of the walking
 * process. */
#include "stores_db.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MEMFDS_MAX = 64 };

uint64_t stores_mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

static uint64_t hash_bytes(uint64_t hash, const MDB_val *value)
{
	const unsigned char *bytes = value->mv_data;
	size_t at = 0;
	uint64_t word;

	hash ^= stores_mix(value->mv_size);
	for (; at + 8 <= value->mv_size; at += 8) {
		memcpy(&word, bytes + at, 8);
		hash = (hash ^ word) * 0x2545f4914f6cdd1du;
		hash ^= hash >> 29;
	}
	for (; at < value->mv_size; at++)
		hash = (hash ^ bytes[at]) * 0x100000001b3u;
	return stores_mix(hash);
}

uint64_t stores_hash(const MDB_val *key, const MDB_val *value)
{
	return hash_bytes(hash_bytes(7, key), value);
}

void stores_take(struct stores_sum *sum, const MDB_val *key, const MDB_val *value)
{
	sum->hash += stores_hash(key, value);
	sum->records++;
	sum->bytes += value->mv_size;
}

int stores_open(struct stores_db *db, const char *path, unsigned flags)
{
	int rc;

	memset(db, 0, sizeof(*db));
	rc = mdb_env_create(&db->env);
	if (rc)
		return rc;
	rc = mdb_env_open(db->env, path, MDB_RDONLY | flags, 0644);
	if (rc)
		stores_close(db);
	return rc;
}

int stores_begin(struct stores_db *db)
{
	int rc = mdb_txn_begin(db->env, NULL, MDB_RDONLY, &db->txn);

	if (rc)
		return rc;
	rc = mdb_dbi_open(db->txn, NULL, 0, &db->dbi);
	if (!rc)
		rc = mdb_cursor_open(db->txn, db->dbi, &db->cursor);
	if (rc)
		stores_end(db);
	return rc;
}

void stores_end(struct stores_db *db)
{
	if (db->cursor)
		mdb_cursor_close(db->cursor);
	if (db->txn)
		mdb_txn_abort(db->txn);
	db->cursor = NULL;
	db->txn = NULL;
}

void stores_close(struct stores_db *db)
{
	stores_end(db);
	if (db->env)
		mdb_env_close(db->env);
	db->env = NULL;
}

int stores_scan(struct stores_db *db, const struct stores_walk *walk, bool on,
		struct stores_sum *sum)
{
	MDB_cursor_op next = walk->backward ? MDB_PREV : MDB_NEXT, op = next;
	uint64_t stride = walk->stride ? walk->stride : 1, at = 0, taken = 0;
	MDB_val key, value;
	int rc;

	if (!on)
		op = walk->backward ? MDB_LAST : MDB_FIRST;
	while (!walk->most || taken < walk->most) {
		rc = mdb_cursor_get(db->cursor, &key, &value, op);
		if (rc)
			return rc == MDB_NOTFOUND ? 0 : rc;
		op = next;
		if (at >= walk->first && (at - walk->first) % stride == 0) {
			stores_take(sum, &key, &value);
			taken++;
		}
		at++;
	}
	return 0;
}

MDB_val stores_key(struct stores_key *key, uint64_t record)
{
	snprintf(key->text, sizeof(key->text), "%08u", (unsigned)(record % 100000000));
	return (MDB_val){.mv_size = 8, .mv_data = key->text};
}

uint64_t stores_memfd_kib(void)
{
	DIR *list = opendir("/proc/self/fd");
	ino_t seen[MEMFDS_MAX];
	unsigned count = 0;
	uint64_t blocks = 0;
	struct dirent *entry;

	while (list && (entry = readdir(list)) != NULL) {
		char to[64] = "";
		struct stat st;
		bool again = false;

		if (readlinkat(dirfd(list), entry->d_name, to, sizeof(to) - 1) <= 0 ||
		    strncmp(to, "/memfd:", 7) || !strncmp(to, "/memfd:lmdbio-stats", 19) ||
		    fstat(atoi(entry->d_name), &st))
			continue;
		for (unsigned i = 0; i < count; i++)
			again = again || seen[i] == st.st_ino;
		if (again || count == MEMFDS_MAX)
			continue;
		seen[count++] = st.st_ino;
		blocks += (uint64_t)st.st_blocks;
	}
	if (list)
		closedir(list);
	return blocks / 2;
}

uint64_t stores_status_kib(const char *field)
{
	FILE *file = fopen("/proc/self/status", "r");
	size_t length = strlen(field);
	unsigned long long kib = 0;
	char line[256];

	while (file && fgets(line, sizeof(line), file))
		if (!strncmp(line, field, length) && line[length] == ':')
			kib = strtoull(line + length + 1, NULL, 10);
	if (file)
		fclose(file);
	return kib;
}

double stores_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}
