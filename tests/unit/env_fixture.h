/* SPDX-License-Identifier: OLDAP-2.8 */
/* Makes real data sets for tests with the original LMDB, also while another process writes to them,
 * and removes them even if a test crashes. */
#ifndef LMDBIO_TEST_ENV_FIXTURE_H
#define LMDBIO_TEST_ENV_FIXTURE_H

#include "env/env.h"

#include <stdint.h>
#include <sys/types.h>

/* A directory of its own under $TMPDIR. */
struct place {
	char directory[200];
	char data[220]; /* its data.mdb */
};

void place_make(struct place *place);
void place_remove(struct place *place);

/* Puts records with the keys "00000000", "00000001" ... into a new place; make() makes a value, of
 * `room` bytes at most, and returns its size. */
void place_put_records(const struct place *place, uint64_t records, size_t room,
		       size_t (*make)(void *bytes, uint64_t i));
/* The same for a named database, which is made. */
void place_put_named(const struct place *place, const char *name, uint64_t records, size_t room,
		     size_t (*make)(void *bytes, uint64_t i));

/* Overwrites bytes of the data file, or cuts it. */
void place_patch(const struct place *place, uint64_t offset, const void *bytes, size_t size);
void place_patch64(const struct place *place, uint64_t offset, uint64_t value);
void place_cut(const struct place *place, uint64_t size);
/* Returns the page size and the transaction id of the newest meta page. */
void place_newest(const struct place *place, uint32_t *page_size, uint64_t *txnid);

/* Opens the place with the original for writing. */
MDB_env *origin_open(const struct place *place);
/* One committed transaction that puts a record into a database (NULL: the main one). */
void origin_put(MDB_env *orig, const char *name, unsigned flags, MDB_val key, MDB_val data);
void origin_put_text(MDB_env *orig, const char *name, unsigned flags, const char *key,
		     const char *data);

/* One committed transaction that makes a database of `n` duplicates, "00000000", "00000001" ..., each under
 * the key of one letter that key_of() says. */
void origin_put_duplicates(MDB_env *orig, const char *name, unsigned n, char (*key_of)(unsigned i));

/* A process that opens the place for writing and then does one step each time it is asked. Start it
 * before this process opens the place. */
struct writer {
	pid_t pid;
	int asks, answers;
};
void writer_start(struct writer *writer, const struct place *place,
		  void (*step)(MDB_env *orig, char what));
void writer_ask(struct writer *writer, char what);
void writer_stop(struct writer *writer);

/* Runs a function in a child process. Returns what it returned (0 ... 255), or minus the signal. */
int in_process(int (*function)(void *argument), void *argument);

/* Opens the place as an own environment; asserts that it works. */
MDB_env *own_open(const struct place *place, MDB_dbi maxdbs, unsigned flags);
/* Whether the key's value is this text. */
bool txn_has(MDB_txn *txn, MDB_dbi dbi, const char *key, const char *data);
/* Returns how many reader slots of the place are taken, by all processes. */
unsigned readers_count(MDB_env *env);

#endif
