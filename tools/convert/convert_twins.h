/* SPDX-License-Identifier: OLDAP-2.8 */
/* Finds a record of the main database whose key is the name of a database.
 *
 * LMDB 1.0 has a NUL behind names, so both can exist; in LMDB 0.9 they would be one key. In the
 * order of a database's flags they are neighbours, or the original finds the one when it writes the
 * other. In an order of the program's own they may be anywhere.
 */
#ifndef CONVERT_TWINS_H
#define CONVERT_TWINS_H

#include "env/env.h"

/* Reports that the data file `source` has such a record. Returns the exit code for a refusal. */
int twin_refuse(const char *source, const MDB_val *key);

/* Looks for such a record in the snapshot of `txn`. Returns 0 if there is none, else an exit code
 * after a message on standard error. */
int twins_refuse(const char *source, MDB_txn *txn);

#endif
