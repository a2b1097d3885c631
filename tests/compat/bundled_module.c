/* SPDX-License-Identifier: OLDAP-2.8 */
/* An extension module that uses LMDB: its own one, or one that it is linked with. What it prints is
 * the same whichever LMDB serves it. */
#include "bundled_module.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Of a module that has an LMDB inside. */
int mdb_env_copyfd3(MDB_env *env, mdb_filehandle_t fd, unsigned flags, MDB_txn *txn)
	__attribute__((weak));
int mdb_env_copy3(MDB_env *env, const char *path, unsigned flags, MDB_txn *txn)
	__attribute__((weak));
extern unsigned bundled_opens __attribute__((weak)), bundled_copies __attribute__((weak)),
	bundled_puts __attribute__((weak));

/* Where lmdbio is in the process. */
int lmdbio_serves(const MDB_env *env) __attribute__((weak));
int lmdbio_advise(MDB_txn *txn, MDB_dbi dbi, unsigned advice, unsigned stride)
	__attribute__((weak));

static void must(const char *what, int rc)
{
	if (!rc)
		return;
	printf("%s: %s\n", what, mdb_strerror(rc));
	exit(1);
}

void module_version(void)
{
	int major, minor, patch;
	const char *text = mdb_version(&major, &minor, &patch);

	printf("version %d.%d.%d, %.10s\n", major, minor, patch, text);
}

MDB_env *module_open(const char *path, unsigned flags)
{
	MDB_env *env;

	must("create", mdb_env_create(&env));
	must("maxdbs", mdb_env_set_maxdbs(env, 2));
	must("mapsize", mdb_env_set_mapsize(env, 16 << 20));
	must("open", mdb_env_open(env, path, flags | MDB_NOSUBDIR | MDB_NOTLS, 0644));
	if (lmdbio_serves)
		fprintf(stderr, "serves %d\n", lmdbio_serves(env));
	return env;
}

void module_write(MDB_env *env)
{
	MDB_cursor *cursor;
	MDB_val key, data;
	MDB_txn *txn, *child;
	char text[64] = "";
	MDB_dbi dbi;

	must("begin", mdb_txn_begin(env, NULL, 0, &txn));
	must("dbi", mdb_dbi_open(txn, "dups", MDB_CREATE | MDB_DUPSORT, &dbi));
	must("child", mdb_txn_begin(env, txn, 0, &child));
	for (int i = 0; i < 3000; i++) {
		key = (MDB_val){(size_t)snprintf(text, sizeof(text), "%04d", i % 700), text};
		data = (MDB_val){8, text + 32};
		snprintf(text + 32, 32, "%08d", i * 37 % 3000);
		must("put", mdb_put(child, dbi, &key, &data, 0));
	}
	must("commit", mdb_txn_commit(child));
	must("cursor", mdb_cursor_open(txn, dbi, &cursor));
	for (int i = 0; i < 200; i++) {
		must("next", mdb_cursor_get(cursor, &key, &data, i ? MDB_NEXT_NODUP : MDB_FIRST));
		must("del", mdb_cursor_del(cursor, i % 2 ? MDB_NODUPDATA : 0));
	}
	mdb_cursor_close(cursor);
	must("commit", mdb_txn_commit(txn));
	/* What has been freed is looked for when more is written. */
	for (int round = 0; round < 5; round++) {
		must("begin", mdb_txn_begin(env, NULL, 0, &txn));
		key = (MDB_val){5, "large"};
		data = (MDB_val){60000 + (size_t)round, NULL};
		must("dbi", mdb_dbi_open(txn, NULL, 0, &dbi));
		must("reserve", mdb_put(txn, dbi, &key, &data, MDB_RESERVE));
		memset(data.mv_data, 'a' + round, data.mv_size);
		must("commit", mdb_txn_commit(txn));
	}
	must("sync", mdb_env_sync(env, 1));
}

void module_read(MDB_env *env)
{
	unsigned long sum = 0, count = 0;
	MDB_cursor *cursor;
	MDB_val key, data;
	MDB_txn *txn;
	MDB_dbi dbi;
	int rc;

	must("begin", mdb_txn_begin(env, NULL, MDB_RDONLY, &txn));
	must("dbi", mdb_dbi_open(txn, "dups", 0, &dbi));
	must("cursor", mdb_cursor_open(txn, dbi, &cursor));
	while (!(rc = mdb_cursor_get(cursor, &key, &data, MDB_NEXT))) {
		count++;
		for (size_t i = 0; i < data.mv_size; i++)
			sum = sum * 31 + ((unsigned char *)data.mv_data)[i];
	}
	printf("records %lu, sum %lu, %s\n", count, sum, mdb_strerror(rc));
	/* The same handles serve once more. */
	mdb_txn_reset(txn);
	must("renew", mdb_txn_renew(txn));
	must("dbi", mdb_dbi_open(txn, "dups", 0, &dbi));
	must("renew", mdb_cursor_renew(txn, cursor));
	must("last", mdb_cursor_get(cursor, &key, &data, MDB_LAST));
	printf("last %.*s, %d\n", (int)key.mv_size, (char *)key.mv_data,
	       mdb_cursor_txn(cursor) == txn);
	if (lmdbio_serves)
		must("advise", lmdbio_advise(txn, dbi, 0, 0));
	mdb_cursor_close(cursor);
	mdb_txn_abort(txn);
}

void module_copy(MDB_env *env, const char *path)
{
	MDB_txn *txn;
	char name[4096];
	int fd;

	for (unsigned way = 0; way < 6; way++) {
		snprintf(name, sizeof(name), "%s%u", path, way);
		must("begin", mdb_txn_begin(env, NULL, MDB_RDONLY, &txn));
		if (way < 2)
			must("copy2", mdb_env_copy2(env, name, way ? MDB_CP_COMPACT : 0));
		else if (way == 2)
			must("copy", mdb_env_copy(env, name));
		else if (way == 3 && &bundled_opens)
			must("copy3", mdb_env_copy3(env, name, MDB_CP_COMPACT, txn));
		if (way > 3 && (fd = open(name, O_WRONLY | O_CREAT, 0600)) >= 0) {
			if (way == 4)
				must("copyfd", mdb_env_copyfd(env, fd) || ftruncate(fd, 0) ||
						       lseek(fd, 0, SEEK_SET));
			if (way == 4)
				must("copyfd2", mdb_env_copyfd2(env, fd, 0));
			else if (&bundled_opens)
				must("copyfd3", mdb_env_copyfd3(env, fd, MDB_CP_COMPACT, txn));
			close(fd);
		}
		mdb_txn_abort(txn);
	}
}

void module_state(MDB_env *env)
{
	MDB_envinfo info;
	MDB_stat stat;
	int dead = -1;

	must("userctx", mdb_env_set_userctx(env, &dead));
	must("info", mdb_env_info(env, &info));
	must("stat", mdb_env_stat(env, &stat));
	must("check", mdb_reader_check(env, &dead));
	printf("map %zu, last %zu, entries %zu, keys %d, dead %d, context %d\n", info.me_mapsize,
	       info.me_last_txnid, stat.ms_entries, mdb_env_get_maxkeysize(env), dead,
	       mdb_env_get_userctx(env) == &dead);
}

void module_close(MDB_env *env)
{
	mdb_env_close(env);
}

void module_counts(void)
{
	if (&bundled_opens)
		fprintf(stderr, "opens %u, copies %u, puts %u\n", bundled_opens, bundled_copies,
			bundled_puts);
}
