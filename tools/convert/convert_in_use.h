/* SPDX-License-Identifier: OLDAP-2.8 */
/* Tests the lock files of an environment for a program that has it open.
 *
 * A program that opens the data file DIR/data.mdb locks DIR/lock.mdb or, if it has named the file,
 * DIR/data.mdb-lock. For any other data file it locks FILE-lock. The test does not see a program
 * that opens the environment without locks (MDB_NOLOCK).
 */
#ifndef LMDBIO_TOOLS_CONVERT_IN_USE_H
#define LMDBIO_TOOLS_CONVERT_IN_USE_H

#include <stdbool.h>

enum { IN_USE_LOCKS = 2 };

/* Call this before this process opens the environment: its own lock counts, too. Returns 0, EBUSY
 * if a program has this data file's environment open, or an errno of opening a lock file. */
int in_use_look(const char *data);

/* The same for the one lock file of programs that have named the data file, or its directory. */
int in_use_by(const char *data, bool named);

/* Keeps programs from opening the environment until in_use_allow(). Call that function whatever
 * this one returns. This process must have closed the environment. Returns as in_use_look(). */
int in_use_prevent(const char *data, int held[IN_USE_LOCKS]);
void in_use_allow(const int held[IN_USE_LOCKS]);

#endif
