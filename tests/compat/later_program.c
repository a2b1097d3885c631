/* SPDX-License-Identifier: OLDAP-2.8 */
/* A program that was built for LMDB 1.0. It prints what that library tells it; the same lines come out
 * whichever library serves it, as far as both can do what is asked. */
#include "later_said.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOW = 0x5a, HIGH = 0xa5 };

static const char *path;

static MDB_env *create(void)
{
	MDB_env *env;

	must("create", mdb_env_create(&env));
	must("maxdbs", mdb_env_set_maxdbs(env, 16));
	return env;
}

static MDB_env *open_with(unsigned flags)
{
	MDB_env *env = create();

	must("open", mdb_env_open(env, path, flags, 0644));
	return env;
}

static void hex(const char *what, const MDB_val *value)
{
	unsigned long sum = 0;

	for (size_t i = 0; i < value->mv_size; i++)
		sum = sum * 31 + ((unsigned char *)value->mv_data)[i];
	printf("%s %zu %lx ", what, value->mv_size, sum);
}

static void dump_one(MDB_txn *txn, const char *name)
{
	MDB_cursor *cursor;
	MDB_val key, data;
	MDB_dbi dbi;
	unsigned flags;
	int rc;

	must("dbi", mdb_dbi_open(txn, name, 0, &dbi));
	must("flags", mdb_dbi_flags(txn, dbi, &flags));
	printf("database %s, flags %x\n", name ? name : "(main)", flags);
	must("cursor", mdb_cursor_open(txn, dbi, &cursor));
	while (!(rc = mdb_cursor_get(cursor, &key, &data, MDB_NEXT))) {
		hex("key", &key);
		/* A tree's record is the format's affair. */
		if (mdb_cursor_is_db(cursor))
			printf("name %s\n", (char *)key.mv_data); /* as LMDB 1.0's own tools take it */
		else
			hex("data", &data), putchar('\n');
	}
	say("end", rc);
	mdb_cursor_close(cursor);
}

/* Every record, those of named databases by the names that the main one has. */
static int run_dump(unsigned flags)
{
	MDB_env *env = open_with(MDB_RDONLY | flags);
	MDB_cursor *cursor;
	MDB_val key;
	MDB_txn *txn;
	unsigned bits = 0;

	must("begin", mdb_txn_begin(env, NULL, MDB_RDONLY, &txn));
	dump_one(txn, NULL);
	must("cursor", mdb_cursor_open(txn, 1, &cursor));
	say("cursor_is_db before it is set", mdb_cursor_is_db(cursor));
	while (!mdb_cursor_get(cursor, &key, NULL, MDB_NEXT))
		if (mdb_cursor_is_db(cursor))
			dump_one(txn, key.mv_data);
	mdb_cursor_close(cursor);
	must("flags", mdb_txn_flags(txn, &bits));
	printf("flags %x\n", bits);
	mdb_txn_abort(txn);
	mdb_env_close(env);
	return 0;
}

/* MDB_GET_MULTIPLE has no key to give. */
static int run_multiple(unsigned flags)
{
	MDB_env *env = open_with(MDB_RDONLY | MDB_NOLOCK | flags);
	MDB_val key, data, untouched = {LOW, NULL};
	MDB_cursor *cursor;
	MDB_txn *txn;

	must("begin", mdb_txn_begin(env, NULL, MDB_RDONLY, &txn));
	must("cursor", mdb_cursor_open(txn, 1, &cursor));
	do
		must("next", mdb_cursor_get(cursor, &key, &data, MDB_NEXT));
	while (!mdb_cursor_is_db(cursor));
	say("multiple", mdb_cursor_get(cursor, &untouched, &data, MDB_GET_MULTIPLE));
	printf("key %zu %d\n", untouched.mv_size, untouched.mv_data != NULL);
	mdb_cursor_close(cursor);
	mdb_txn_abort(txn);
	mdb_env_close(env);
	return 0;
}

/* How much of a struct the library fills, in two calls over different bytes. */
static size_t bytes_filled(const unsigned char *low, const unsigned char *high, size_t size)
{
	while (size && low[size - 1] == LOW && high[size - 1] == HIGH)
		size--;
	return size;
}

/* Codes, sizes and limits. */
static int run_ask(unsigned flags)
{
	MDB_env *env = create();
	MDB_val key = {3, (void *)(uintptr_t) "key"}, data[2] = {{4, &key}, {1, NULL}};
	union {
		MDB_stat stat;
		MDB_envinfo info;
		unsigned char bytes[256];
	} low, high;
	MDB_txn *txn, *other;
	MDB_cursor *cursor;
	unsigned bits;
	MDB_dbi dbi;

	say("keys before it is open", mdb_env_get_maxkeysize(env));
	say("page size 100", mdb_env_set_pagesize(env, 100));
	say("page size 5000", mdb_env_set_pagesize(env, 5000));
	say("page size 131072", mdb_env_set_pagesize(env, 131072));
	say("page size 65536", mdb_env_set_pagesize(env, 65536));
	say("checksum of nothing", mdb_env_set_checksum(env, NULL, 8));
	say("encryption of nothing", mdb_env_set_encrypt(env, NULL, &key, 0));
	say("unknown flag", mdb_env_open(env, path, 0x8000000 | MDB_RDONLY, 0));
	must("open", mdb_env_open(env, path, MDB_RDONLY | MDB_REMAP_CHUNKS | flags, 0));
	say("flags", mdb_env_get_flags(env, &bits));
	printf("%x\n", bits & ~flags);
	say("keys", mdb_env_get_maxkeysize(env));
	say("page size of an open one", mdb_env_set_pagesize(env, 4096) ? 1 : 0);
	memset(&low, LOW, sizeof(low));
	memset(&high, HIGH, sizeof(high));
	say("stat", mdb_env_stat(env, &low.stat) | mdb_env_stat(env, &high.stat));
	printf("MDB_stat fills %zu: entries %zu, page %u, depth %u\n",
	       bytes_filled(low.bytes, high.bytes, sizeof(low)), low.stat.ms_entries,
	       low.stat.ms_psize, low.stat.ms_depth);
	memset(&low, LOW, sizeof(low));
	memset(&high, HIGH, sizeof(high));
	say("info", mdb_env_info(env, &low.info) | mdb_env_info(env, &high.info));
	printf("MDB_envinfo fills %zu: a map %s, transaction %zu\n",
	       bytes_filled(low.bytes, high.bytes, sizeof(low)),
	       low.info.me_mapaddr ? "there" : "missing", low.info.me_last_txnid);
	say("sync", mdb_env_sync(env, 1));
	say("sync0", mdb_env_sync0(env, 1, 2));
	say("write", mdb_txn_begin(env, NULL, 0, &txn));
	must("begin", mdb_txn_begin(env, NULL, MDB_RDONLY, &txn));
	say("child", mdb_txn_begin(env, txn, MDB_RDONLY, &other));
	say("create", mdb_dbi_open(txn, "no such name", MDB_CREATE, &dbi));
	must("main", mdb_dbi_open(txn, NULL, 0, &dbi));
	say("put", mdb_put(txn, dbi, &key, data, 0));
	say("put of nothing", mdb_put(txn, dbi, NULL, data, 0));
	say("put with bits", mdb_put(txn, dbi, &key, data, 0x100000));
	say("del", mdb_del(txn, dbi, &key, NULL));
	say("drop", mdb_drop(txn, dbi, 0));
	must("cursor", mdb_cursor_open(txn, dbi, &cursor));
	say("cursor put", mdb_cursor_put(cursor, &key, data, 0));
	say("cursor put of many", mdb_cursor_put(cursor, &key, data, MDB_MULTIPLE));
	say("cursor put of none", mdb_cursor_put(cursor, &key, data, MDB_MULTIPLE));
	say("cursor del", mdb_cursor_del(cursor, 0));
	mdb_cursor_close(cursor);
	say("flags of no transaction", mdb_txn_flags(NULL, &bits));
	say("id of no transaction", (int)mdb_txn_id(NULL));
	say("no cursor", mdb_cursor_is_db(NULL));
	mdb_txn_abort(txn);
	mdb_env_close(env);
	return 0;
}

static int crypt_nothing(const MDB_val *source, MDB_val *result, const MDB_val *key, int encrypt)
{
	(void)key, (void)encrypt;
	memcpy(result->mv_data, source->mv_data, source->mv_size);
	return 0;
}

/* What it is not given where there is no LMDB 1.0. */
static int run_refused(unsigned flags)
{
	MDB_val key = {8, (void *)(uintptr_t) "8 bytes."};
	MDB_crypto_funcs *functions = NULL;
	char *message = NULL;
	MDB_env *env = create();
	int major, minor, patch;

	(void)flags;
	printf("%.10s\n", mdb_version(&major, &minor, &patch));
	printf("%d.%d.%d\n", major, minor, patch);
	for (int code = MDB_BAD_DBI; code <= MDB_ADDR_BUSY; code++)
		printf("%d %.*s\n", code, (int)strcspn(mdb_strerror(code), ":"), mdb_strerror(code));
	printf("%s\n", mdb_strerror(ENOENT));
	say("write", mdb_env_open(env, path, MDB_NOLOCK, 0644));
	mdb_env_close(env);
	env = create();
	say("encrypt", mdb_env_set_encrypt(env, crypt_nothing, &key, 0));
	mdb_env_close(env);
	env = create();
	say("previous", mdb_env_open(env, path, MDB_RDONLY | MDB_PREVSNAPSHOT, 0644));
	mdb_env_close(env);
	if (!mdb_modload("/no/such/module", NULL, &functions, &message))
		say("module", message != NULL);
	return 0;
}

/* One database is written, read and changed in each way that 1.0 has. */
static int run_write(unsigned flags)
{
	MDB_env *env = open_with(flags);
	MDB_txn *txn, *first, *second;
	MDB_val key = {3, (void *)(uintptr_t) "one"}, data = {5, (void *)(uintptr_t) "value"};
	MDB_cursor *cursor;
	unsigned bits;
	MDB_dbi dbi;

	must("begin", mdb_txn_begin(env, NULL, 0, &txn));
	must("dbi", mdb_dbi_open(txn, "named", MDB_CREATE, &dbi));
	must("put", mdb_put(txn, dbi, &key, &data, 0));
	must("flags", mdb_txn_flags(txn, &bits));
	printf("flags %x\n", bits);
	if (!mdb_txn_begin(env, txn, MDB_RDONLY, &first)) {
		say("two readers", mdb_txn_begin(env, txn, MDB_RDONLY, &second));
		must("get", mdb_get(first, dbi, &key, &data));
		must("get", mdb_get(second, dbi, &key, &data));
		printf("%.*s\n", (int)data.mv_size, (char *)data.mv_data);
		mdb_txn_abort(first);
		mdb_txn_abort(second);
	}
	must("cursor", mdb_cursor_open(txn, dbi, &cursor));
	say("prepare", mdb_txn_prepare(txn));
	say("prepare again", mdb_txn_prepare(txn));
	say("commit", mdb_txn_commit(txn));
	say("sync", mdb_env_sync(env, 1));
	mdb_env_close(env);
	return 0;
}

/* A compacted copy, into the current directory. */
static int run_copy(unsigned flags)
{
	MDB_env *env = open_with(MDB_RDONLY | flags);

	must("copy", mdb_env_copy2(env, ".", MDB_CP_COMPACT));
	mdb_env_close(env);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*run)(unsigned flags);
	} parts[] = {{"dump", run_dump},
		     {"multiple", run_multiple},
		     {"ask", run_ask},
		     {"refused", run_refused},
		     {"write", run_write},
		     {"copy", run_copy}};

	if (argc < 3)
		return 2;
	path = argv[2];
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (!strcmp(argv[1], parts[i].name))
			return parts[i].run(argc > 3 ? (unsigned)strtoul(argv[3], NULL, 0) : 0);
	return 2;
}
