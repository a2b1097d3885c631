/* SPDX-License-Identifier: OLDAP-2.8 */
/* Shows how an ordinary C program reads everything that an LMDB file holds.
 *
 * It is linked to liblmdb alone and knows nothing of lmdbio: it is the unmodified program of the
 * tests. It walks the main database and every named one forward, backward, by duplicates, by
 * MDB_SET_RANGE and by mdb_get, touches every byte, and prints counts and one hash over
 * (database, key, value).
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <getopt.h>
#include <lmdb.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXIT_CLEAN = 0, EXIT_USAGE = 2, EXIT_LMDB = 3, EXIT_ENDLESS = 4 };

struct reader {
	MDB_env *env;
	MDB_txn *txn;
	uint64_t hash;
	uint64_t records, bytes, databases;
	uint64_t limit; /* records of all walks together, 0: none */
};

static uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

/* Every byte is read; eight at a time, so that hashing is not what the reading time consists of. */
static uint64_t hash_bytes(uint64_t hash, const MDB_val *value)
{
	const unsigned char *bytes = value->mv_data;
	size_t at = 0;
	uint64_t word;

	hash ^= mix(value->mv_size);
	for (; at + 8 <= value->mv_size; at += 8) {
		memcpy(&word, bytes + at, 8);
		hash = (hash ^ word) * 0x2545f4914f6cdd1du;
		hash ^= hash >> 29;
	}
	for (; at < value->mv_size; at++)
		hash = (hash ^ bytes[at]) * 0x100000001b3u;
	return mix(hash);
}

static void take(struct reader *reader, uint64_t database, const MDB_val *key, const MDB_val *value)
{
	reader->hash = mix(reader->hash ^ hash_bytes(hash_bytes(database, key), value));
	reader->records++;
	reader->bytes += key->mv_size + value->mv_size;
	if (reader->limit != 0 && reader->records > reader->limit) {
		printf("endless: more than %llu records\n", (unsigned long long)reader->limit);
		exit(EXIT_ENDLESS);
	}
}

/* The whole database with one operation, from one end to the other. */
static int walk(struct reader *reader, MDB_cursor *cursor, uint64_t salt, MDB_cursor_op first,
		MDB_cursor_op next)
{
	MDB_val key, value;
	int rc = mdb_cursor_get(cursor, &key, &value, first);

	while (rc == 0) {
		take(reader, salt, &key, &value);
		rc = mdb_cursor_get(cursor, &key, &value, next);
	}
	return rc == MDB_NOTFOUND ? 0 : rc;
}

/* Key by key, then the items of each, and pages of items where they have one size. */
static int walk_duplicates(struct reader *reader, MDB_cursor *cursor, uint64_t salt, unsigned flags)
{
	MDB_val key, value;
	size_t count;
	int rc = mdb_cursor_get(cursor, &key, &value, MDB_FIRST);

	while (rc == 0) {
		rc = mdb_cursor_count(cursor, &count);
		reader->hash = mix(reader->hash ^ count);
		if (rc == 0)
			rc = mdb_cursor_get(cursor, &key, &value, MDB_LAST_DUP);
		while (rc == 0) {
			take(reader, salt, &key, &value);
			rc = mdb_cursor_get(cursor, &key, &value, MDB_PREV_DUP);
		}
		if (rc == MDB_NOTFOUND && (flags & MDB_DUPFIXED)) {
			rc = mdb_cursor_get(cursor, &key, &value, MDB_FIRST_DUP);
			if (rc == 0)
				rc = mdb_cursor_get(cursor, &key, &value, MDB_GET_MULTIPLE);
			while (rc == 0) {
				take(reader, salt, &key, &value);
				rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT_MULTIPLE);
			}
		}
		if (rc == MDB_NOTFOUND)
			rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT_NODUP);
	}
	return rc == MDB_NOTFOUND ? 0 : rc;
}

/* Each key is asked for by name; the copy is because a key's bytes are the library's. */
static int ask_for_each(struct reader *reader, MDB_cursor *cursor, MDB_cursor *other, MDB_dbi dbi,
			uint64_t salt)
{
	static char bytes[65536];
	MDB_val key, value, asked;
	uint64_t number = 0;
	int rc = mdb_cursor_get(cursor, &key, &value, MDB_FIRST);

	for (; rc == 0; rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT_NODUP)) {
		if (key.mv_size == 0 || key.mv_size > sizeof bytes)
			continue;
		asked = (MDB_val){key.mv_size, memcpy(bytes, key.mv_data, key.mv_size)};
		rc = mdb_get(reader->txn, dbi, &asked, &value);
		if (rc != 0)
			break; /* also MDB_NOTFOUND: a cursor has just shown this key */
		take(reader, salt, &asked, &value);
		if (number++ % 16 != 0)
			continue;
		rc = mdb_cursor_get(other, &asked, &value, MDB_SET_RANGE);
		if (rc == 0)
			rc = mdb_cursor_get(other, &asked, &value, MDB_PREV);
		if (rc == 0)
			take(reader, salt, &asked, &value);
		if (rc != 0 && rc != MDB_NOTFOUND)
			break;
	}
	return rc;
}

static int read_database(struct reader *reader, MDB_dbi dbi, const char *name)
{
	MDB_val name_value = {strlen(name), (void *)(uintptr_t)name};
	uint64_t salt = hash_bytes(7, &name_value);
	MDB_cursor *cursor = NULL, *other = NULL;
	unsigned flags;
	MDB_stat stat;
	int rc = mdb_stat(reader->txn, dbi, &stat);

	reader->databases++;
	if (rc == 0)
		rc = mdb_dbi_flags(reader->txn, dbi, &flags);
	if (rc == 0)
		rc = mdb_cursor_open(reader->txn, dbi, &cursor);
	if (rc == 0)
		rc = mdb_cursor_open(reader->txn, dbi, &other);
	if (rc == 0) {
		reader->hash = mix(reader->hash ^ stat.ms_entries ^ flags);
		rc = walk(reader, cursor, salt, MDB_FIRST, MDB_NEXT);
	}
	if (rc == 0)
		rc = walk(reader, cursor, salt + 1, MDB_LAST, MDB_PREV);
	if (rc == 0 && (flags & MDB_DUPSORT))
		rc = walk_duplicates(reader, cursor, salt + 2, flags);
	if (rc == 0)
		rc = ask_for_each(reader, cursor, other, dbi, salt + 3);
	if (cursor)
		mdb_cursor_close(cursor);
	if (other)
		mdb_cursor_close(other);
	return rc == MDB_NOTFOUND ? 0 : rc;
}

/* Every key of the main database might be the name of another; the library says which are. */
static int read_named(struct reader *reader, MDB_dbi main_dbi)
{
	MDB_cursor *cursor;
	MDB_val key, value;
	MDB_dbi dbi;
	int rc = mdb_cursor_open(reader->txn, main_dbi, &cursor), opened, failed = 0;

	if (rc != 0)
		return rc;
	while ((rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT_NODUP)) == 0) {
		char *name;

		if (value.mv_size != 48 || memchr(key.mv_data, '\0', key.mv_size))
			continue;
		name = strndup(key.mv_data, key.mv_size);
		if (!name)
			exit(EXIT_USAGE);
		opened = mdb_dbi_open(reader->txn, name, 0, &dbi);
		if (opened == 0)
			opened = read_database(reader, dbi, name);
		/* a broken database does not keep us from the others */
		if (opened != 0 && opened != MDB_INCOMPATIBLE && opened != MDB_NOTFOUND &&
		    failed == 0)
			failed = opened;
		free(name);
	}
	mdb_cursor_close(cursor);
	return failed ? failed : rc == MDB_NOTFOUND ? 0 : rc;
}

static int read_environment(struct reader *reader, const char *path, unsigned flags)
{
	MDB_dbi main_dbi;
	MDB_stat stat;
	MDB_envinfo info;
	int rc = mdb_env_create(&reader->env), named;

	if (rc == 0)
		rc = mdb_env_set_maxdbs(reader->env, 1000);
	if (rc == 0)
		rc = mdb_env_open(reader->env, path, MDB_RDONLY | flags, 0644);
	if (rc == 0)
		rc = mdb_env_stat(reader->env, &stat);
	if (rc == 0)
		rc = mdb_env_info(reader->env, &info);
	if (rc == 0)
		rc = mdb_txn_begin(reader->env, NULL, MDB_RDONLY, &reader->txn);
	if (rc == 0)
		rc = mdb_dbi_open(reader->txn, NULL, 0, &main_dbi);
	if (rc != 0)
		return rc;
	rc = read_database(reader, main_dbi, "");
	named = read_named(reader, main_dbi);
	return rc ? rc : named;
}

static void usage(FILE *out)
{
	fprintf(out,
		"usage: db_read [options] PATH\n"
		"Reads an LMDB environment completely and prints what it held.\n"
		"  --no-lock --no-tls --no-subdir --no-readahead   how mdb_env_open is called\n"
		"  --limit=N   more records than that are endless: exit 4\n"
		"  --library   print which file mdb_env_open comes from, and no more\n"
		"Exit: 0 clean end, 3 an LMDB error (printed), 4 endless, 2 usage.\n");
}

static int print_library(void)
{
	Dl_info info;
	/* through the dynamic linker, as the program's own calls go */
	void *function = dlsym(RTLD_DEFAULT, "mdb_env_open");

	if (!function || !dladdr(function, &info))
		return EXIT_USAGE;
	printf("%s\n", info.dli_fname);
	return EXIT_CLEAN;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{"no-lock", no_argument, NULL, 'l'},	 {"no-tls", no_argument, NULL, 't'},
		{"no-subdir", no_argument, NULL, 's'},	 {"no-readahead", no_argument, NULL, 'r'},
		{"limit", required_argument, NULL, 'n'}, {"library", no_argument, NULL, 'w'},
		{"help", no_argument, NULL, 'h'},	 {NULL, 0, NULL, 0},
	};
	struct reader reader = {0};
	unsigned flags = 0;
	int option, rc;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (option) {
		case 'l':
			flags |= MDB_NOLOCK;
			break;
		case 't':
			flags |= MDB_NOTLS;
			break;
		case 's':
			flags |= MDB_NOSUBDIR;
			break;
		case 'r':
			flags |= MDB_NORDAHEAD;
			break;
		case 'n':
			reader.limit = strtoull(optarg, NULL, 0);
			break;
		case 'w':
			return print_library();
		default:
			usage(option == 'h' ? stdout : stderr);
			return option == 'h' ? EXIT_CLEAN : EXIT_USAGE;
		}
	}
	if (optind + 1 != argc) {
		usage(stderr);
		return EXIT_USAGE;
	}
	rc = read_environment(&reader, argv[optind], flags);
	printf("databases %llu records %llu bytes %llu hash %016llx\n",
	       (unsigned long long)reader.databases, (unsigned long long)reader.records,
	       (unsigned long long)reader.bytes, (unsigned long long)reader.hash);
	if (rc != 0)
		printf("error %d %s\n", rc, mdb_strerror(rc));
	if (reader.txn)
		mdb_txn_abort(reader.txn);
	if (reader.env)
		mdb_env_close(reader.env);
	return rc == 0 ? EXIT_CLEAN : EXIT_LMDB;
}
