/* SPDX-License-Identifier: OLDAP-2.8 */
/* What programs do with lmdbio, for tests in which one of its calls fails. */
#ifndef LMDBIO_TEST_LIBRARY_LIVES_H
#define LMDBIO_TEST_LIBRARY_LIVES_H

#include "life.h"

#include <lmdb.h>
#include <stddef.h>
#include <stdint.h>

struct lmdbio_loader_options;

extern const struct life lives[];
extern const unsigned lives_count;

/* Lets another user read them: the lives in front, so many, are that user's as well. */
enum { LIVES_OF_ANY_USER = 3 };
void lives_for_all_users(void);
/* Whether this user may. */
bool lives_in_reach(void);

/* --- for lives in other sources --- */

/* The data sets: a directory of LMDB 0.9's, a container, files of LMDB 1.0's without and with checksums, and a
 * text file, below a directory of the test's own. */
struct lives_data {
	char scratch[200], directory[200], data[220];
	char container[220], packed[220], later[220], summed[220], staged[220], stage[220],
		text[220];
	int nowhere; /* /dev/null */
};
extern struct lives_data lives_data;

/* Makes the data sets, and removes them. */
void lives_data_make(void);
void lives_data_remove(void);
/* Makes a container of the data set; the dictionary may be NULL. */
void lives_pack(const char *path, const void *dictionary, size_t dictionary_size);
/* Whether a call has done what it is to do; else its code is one of the fault's. */
bool lives_done(const char *what, int rc);
/* Opens a data set with this setting of LMDBIO_STORE, and reads it in all ways. */
void lives_read(const char *store, const char *path, unsigned flags);
/* Ends the life if a record is not the i-th; key: NULL where it is not known. */
typedef void lives_judge(const MDB_val *key, const MDB_val *data, uint64_t i);
/* Scans a database of so many records. */
void lives_scan_all(MDB_txn *txn, MDB_dbi dbi, lives_judge *judge_record, uint64_t records);
/* Scans the main database, and looks keys up in it. */
void lives_scan(MDB_txn *txn, MDB_dbi dbi);
void lives_look_up(MDB_txn *txn, MDB_dbi dbi, uint64_t i);
/* Goes over an epoch of the data set. */
void lives_load(const struct lmdbio_loader_options *options);
/* The settings, to be changed. */
struct settings *lives_settings(void);

#endif
