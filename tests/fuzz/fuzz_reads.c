/* SPDX-License-Identifier: OLDAP-2.8 */
/* Makes the calls of a script, and checks that each call returns a code that it may return. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "fuzz_reads.h"

#include "arena/arena.h"
#include "util/settings.h"

#include <errno.h>
#include <fcntl.h>
#include <lmdb.h>
#include <lmdbio.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { DATABASES = 7, CURSORS = 4, WORD = 16, CALL = 3, SCAN_MOST = 300 };

static const char *const names[DATABASES] = {NULL,      "dups",  "fixed", "longs",
					     "numbers", "plain", "turned"};

struct reads {
	MDB_env *env;
	MDB_txn *txn;
	MDB_dbi dbi[DATABASES];
	bool open[DATABASES];
	MDB_cursor *cursor[CURSORS];
	uint64_t sum;
};

int reads_file(const uint8_t *bytes, size_t size)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);

	if (fd < 0 || pwrite(fd, bytes, size, 0) != (ssize_t)size)
		abort();
	return fd;
}

/* Keeps the account of the node's memory open between environments: to open the account, a process
 * asks for each of the 64 names of other processes, which took most of an environment's time. */
static void account_hold(void)
{
	static const struct identity identity = {.size = 1};
	static const struct arena_options options = {.budget = ARENA_CHUNK};
	static struct arena *held;
	const char *why;

	if (!held && arena_open(&held, &identity, &options, &why))
		abort();
}

void reads_through(const char *store, bool share)
{
	struct settings *settings = (struct settings *)(uintptr_t)settings_get();

	account_hold();
	settings->store = store;
	settings->share = share;
}

static void add(struct reads *reads, const void *bytes, size_t size)
{
	for (size_t i = 0; i < size; i++)
		reads->sum = (reads->sum ^ ((const uint8_t *)bytes)[i]) * UINT64_C(0x100000001b3);
}

/* Begins a transaction, and opens the handles of all databases that the file has. */
static void begin(struct reads *reads)
{
	int rc = mdb_txn_begin(reads->env, NULL, MDB_RDONLY, &reads->txn);

	add(reads, &rc, sizeof(rc));
	if (rc)
		reads->txn = NULL;
	for (unsigned i = 0; !rc && i < DATABASES; i++) {
		int opened = mdb_dbi_open(reads->txn, names[i], 0, &reads->dbi[i]);

		reads->open[i] = !opened;
		add(reads, &opened, sizeof(opened));
	}
}

static void end(struct reads *reads)
{
	for (unsigned i = 0; i < CURSORS; i++) {
		if (reads->cursor[i])
			mdb_cursor_close(reads->cursor[i]);
		reads->cursor[i] = NULL;
	}
	/* A commit keeps the transaction's handles. */
	if (reads->txn)
		(void)mdb_txn_commit(reads->txn);
	reads->txn = NULL;
}

/* Checks a call's code. After a code that makes a transaction invalid, a new one begins. */
static int answer(struct reads *reads, int rc)
{
	add(reads, &rc, sizeof(rc));
	switch (rc) {
	case 0:
	case MDB_NOTFOUND:
	case EINVAL:
	case MDB_INCOMPATIBLE:
	case MDB_BAD_VALSIZE:
	case MDB_BAD_DBI:
		break;
	case MDB_CORRUPTED:
	case MDB_PAGE_NOTFOUND:
	case MDB_BAD_TXN:
		end(reads);
		begin(reads);
		break;
	default:
		fprintf(stderr, "broken rule: a read answers %d\n", rc);
		abort();
	}
	return rc;
}

static void value(struct reads *reads, const MDB_val *val)
{
	add(reads, &val->mv_size, sizeof(val->mv_size));
	add(reads, val->mv_data, val->mv_size);
}

/* --- scans ---------------------------------------------------------------------------------- */

static void number(struct reads *reads, MDB_dbi dbi)
{
	static const uint64_t some[] = {0, 1, 7, 40, UINT64_MAX};

	for (unsigned i = 0; reads->txn && i < sizeof(some) / sizeof(some[0]); i++) {
		MDB_val key, data;

		if (answer(reads, lmdbio_get_record(reads->txn, dbi, some[i], &key, &data)) == 0) {
			value(reads, &key);
			value(reads, &data);
		}
	}
}

static void scan(struct reads *reads, unsigned which, MDB_cursor_op op)
{
	MDB_cursor *cursor = NULL;
	MDB_val key, data, again;
	int rc;

	if (!reads->txn || !reads->open[which] ||
	    answer(reads, mdb_cursor_open(reads->txn, reads->dbi[which], &cursor)))
		return;
	reads->cursor[0] = cursor;
	for (unsigned step = 0; step < SCAN_MOST; step++) {
		rc = answer(reads, mdb_cursor_get(cursor, &key, &data, op));
		if (rc)
			break;
		value(reads, &key);
		value(reads, &data);
		if (step % 8 == 3) {
			rc = answer(reads, mdb_get(reads->txn, reads->dbi[which], &key, &again));
			if (!rc)
				value(reads, &again);
			if (reads->cursor[0] != cursor)
				return;
		}
	}
	if (reads->cursor[0])
		mdb_cursor_close(reads->cursor[0]);
	reads->cursor[0] = NULL;
}

/* --- calls ---------------------------------------------------------------------------------- */

/* Words are as long as the longest number that a comparator reads. */
static MDB_val word(uint8_t choice)
{
	static const char words[][WORD] = {
		"a",   "b",  "c", "d",  "alone", "dups", "plain",     "030",
		"33",  "5",  "27", "",  "zzzz",  "\1",   "\xe8\3",    "12345678",
	};
	static const uint8_t lengths[] = {1, 1, 1, 1, 5, 4, 5, 3, 2, 1, 2, 0, 4, 8, 8, 8};

	return (MDB_val){lengths[choice % 16], (void *)(uintptr_t)words[choice % 16]};
}

static void call_cursor_get(struct reads *reads, const uint8_t *call)
{
	MDB_cursor *cursor = reads->cursor[call[2] % CURSORS];
	MDB_cursor_op op = (MDB_cursor_op)(call[0] / 2 % (MDB_PREV_MULTIPLE + 2));
	MDB_val key = word(call[1]), data = word(call[1] / 16);
	const void *key_before = key.mv_data, *data_before = data.mv_data;
	bool blind = call[2] & 0x80, keyless = call[2] & 0x40;

	if (!cursor || answer(reads, mdb_cursor_get(cursor, keyless ? NULL : &key,
						    blind ? NULL : &data, op)))
		return;
	if (key.mv_data != key_before)
		value(reads, &key);
	if (data.mv_data != data_before)
		value(reads, &data);
}

static int copy(struct reads *reads)
{
	int fd = open("/dev/null", O_WRONLY | O_CLOEXEC), rc = mdb_env_copyfd2(reads->env, fd, MDB_CP_COMPACT);

	(void)close(fd);
	return rc == MDB_INCOMPATIBLE ? MDB_CORRUPTED : rc;
}

static void call_open(struct reads *reads, MDB_cursor **cursor, MDB_dbi dbi)
{
	if (*cursor)
		mdb_cursor_close(*cursor);
	*cursor = NULL;
	if (mdb_cursor_open(reads->txn, dbi, cursor))
		*cursor = NULL;
}

static void call_compare(struct reads *reads, MDB_dbi dbi, const uint8_t *call)
{
	MDB_val a = word(call[1]), b = word(call[1] / 16);
	unsigned flags = 0;
	int order;

	if (mdb_dbi_flags(reads->txn, dbi, &flags) || flags & (MDB_INTEGERKEY | MDB_INTEGERDUP))
		return;
	order = mdb_cmp(reads->txn, dbi, &a, &b);
	add(reads, &order, sizeof(order));
	if (flags & MDB_DUPSORT)
		order = mdb_dcmp(reads->txn, dbi, &a, &b);
	add(reads, &order, sizeof(order));
}

static void call_renew(struct reads *reads)
{
	mdb_txn_reset(reads->txn);
	if (mdb_txn_renew(reads->txn)) {
		end(reads);
		begin(reads);
		return;
	}
	for (unsigned i = 0; i < CURSORS; i++)
		if (reads->cursor[i])
			(void)mdb_cursor_renew(reads->txn, reads->cursor[i]);
}

static void call_other(struct reads *reads, const uint8_t *call)
{
	unsigned which = call[2] / CURSORS % DATABASES;
	MDB_cursor **cursor = &reads->cursor[call[2] % CURSORS];
	MDB_val keys[2] = {word(call[1]), word(call[1] / 16)}, data;
	MDB_dbi dbi = reads->dbi[which];
	MDB_stat stat;
	size_t count;

	if (!reads->open[which])
		return;
	switch (call[0] / 2 % 12) {
	case 0:
		if (answer(reads, mdb_get(reads->txn, dbi, &keys[0], &data)) == 0)
			value(reads, &data);
		break;
	case 1:
		if (*cursor && answer(reads, mdb_cursor_count(*cursor, &count)) == 0)
			add(reads, &count, sizeof(count));
		break;
	case 2:
		if (answer(reads, mdb_stat(reads->txn, dbi, &stat)) == 0)
			add(reads, &stat, sizeof(stat));
		break;
	case 3:
		call_compare(reads, dbi, call);
		break;
	case 4:
		call_renew(reads);
		break;
	case 5:
		if (*cursor)
			(void)answer(reads, mdb_cursor_renew(reads->txn, *cursor));
		break;
	case 6:
		(void)lmdbio_prefetch_keys(reads->txn, dbi, keys, 2);
		break;
	case 7:
		(void)lmdbio_prefetch_range(reads->txn, dbi, &keys[0], NULL);
		break;
	case 8:
		(void)lmdbio_advise(reads->txn, dbi, (enum lmdbio_advice)(call[1] % 4), call[1] / 4u);
		break;
	case 9:
		number(reads, dbi);
		break;
	case 10:
		if (call[1] % 8 == 0)
			(void)answer(reads, copy(reads));
		break;
	default:
		call_open(reads, cursor, dbi);
	}
}

int reads_run(int fd, const uint8_t *script, size_t size, uint64_t *sum)
{
	struct reads reads = {.sum = 0};
	char path[40];
	int rc;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (mdb_env_create(&reads.env) || mdb_env_set_maxdbs(reads.env, DATABASES + 2))
		abort();
	rc = mdb_env_open(reads.env, path, MDB_RDONLY | MDB_NOSUBDIR | MDB_NOLOCK, 0600);
	if (!rc)
		begin(&reads);
	for (unsigned i = 0; !rc && i < DATABASES; i++) {
		scan(&reads, i, i % 2 ? MDB_NEXT : MDB_PREV);
		if (reads.txn && reads.open[i])
			number(&reads, reads.dbi[i]);
	}
	for (; !rc && size >= CALL && reads.txn; script += CALL, size -= CALL) {
		if (script[0] & 1)
			call_cursor_get(&reads, script);
		else
			call_other(&reads, script);
	}
	end(&reads);
	mdb_env_close(reads.env);
	*sum = reads.sum;
	return rc;
}
