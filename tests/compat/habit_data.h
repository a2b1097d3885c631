/* SPDX-License-Identifier: OLDAP-2.8 */
/* The data set that the habit tests read, and how each byte of it
 * follows from its record's number. It is written by the original alone, read by the drop-in.
 */
#ifndef TESTS_HABIT_DATA_H
#define TESTS_HABIT_DATA_H

#include <lmdb.h>
#include <stdbool.h>
#include <stdint.h>

enum { DATA_RECORDS = 700 };

/* A fresh directory for one test; the name lives until room_remove(), which removes all in it. */
const char *room_make(void);
void room_remove(void);
/* The same as a case's setup and teardown. */
int room_begin(void **state);
int room_end(void **state);
/* A name inside the room. Lifetime: until the eighth call after it. */
const char *room_path(const char *name);

/* Makes data set `name` (a directory) in the room. Returns its path, or NULL. */
const char *data_make(const char *name);
/* As another process would: rewrites all records `rounds` times, one commit each, in a process of
 * its own that knows the original alone; every value then says its version. 0 or a code. */
int data_rewrite(const char *path, int rounds);

/* Whether this is the whole record number i (as data_make wrote it: version 0). */
bool data_is_record(unsigned i, unsigned version, const MDB_val *key, const MDB_val *data);
/* Reads everything through the drop-in with a new cursor; 0 when each record is right and of the
 * same version, else the first code that a call returned, or 1 for wrong data. */
int data_check(MDB_txn *txn, unsigned version);
/* Begins a transaction, checks and aborts it. */
int data_check_env(MDB_env *env, unsigned version);
/* Size, mode, times and a sum over the bytes of a file: equal when nothing changed. */
struct file_state {
	uint64_t sum, size, mode;
	int64_t seconds, nanoseconds;
};
struct file_state file_look(const char *path);

/* Runs in a forked child and hands back what it returned, or 1000 + the signal that ended it. */
int child_run(int (*body)(void *context), void *context);
/* The same in two steps, for a child that goes on beside us. */
struct child {
	int pid, result;
};
struct child child_start(int (*body)(void *context), void *context);
int child_result(struct child *child);
/* Runs this program anew with LMDBIO_STORE=`store`, because settings are read when the library is
 * loaded. Its arguments are `path` and `more`, which may be NULL. Returns its status, or -1. */
int rerun_with_store(const char *store, const char *path, const char *more);

/* The lines of the reader table that name a slot in use. -1 on error. */
int readers_count(MDB_env *env);
unsigned directory_count(const char *path);

#endif
