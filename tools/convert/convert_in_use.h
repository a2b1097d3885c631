/* SPDX-License-Identifier: OLDAP-2.8 */
/* Asks the lock files of an environment whether a program has it open.
 *
 * A program that opens the data file DIR/data.mdb locks DIR/lock.mdb or, if it has named the file,
 * DIR/data.mdb-lock; of another data file it locks FILE-lock. A program that opens the environment
 * without locks (MDB_NOLOCK) is not seen.
 */
#ifndef LMDBIO_TOOLS_CONVERT_IN_USE_H
#define LMDBIO_TOOLS_CONVERT_IN_USE_H

enum { IN_USE_LOCKS = 2 };

/* Call it before this process opens the environment, whose own lock counts. Returns 0, EBUSY: a program has the
 * environment of this data file open, or the errno of a lock file that is there and cannot be opened. */
int in_use_look(const char *data);

/* Keeps programs from opening the environment until in_use_allow(), which is to be called whatever this
 * returns. This process must have closed the environment. Returns as in_use_look(). */
int in_use_prevent(const char *data, int held[IN_USE_LOCKS]);
void in_use_allow(const int held[IN_USE_LOCKS]);

#endif
