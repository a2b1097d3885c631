/* SPDX-License-Identifier: OLDAP-2.8 */
/* Keeps a writer's part of LMDB 1.0's lock file: its mutexes, the newest transaction, and the slots of
 * readers, which it looks at. From the description above lib/env/readers.c, of x86-64. */
#ifndef TESTS_LATER_LOCK_H
#define TESTS_LATER_LOCK_H

#include <stdint.h>

struct later_lock;

/* Opens or makes it. Returns 0, MDB_VERSION_MISMATCH or an errno. */
int later_lock_open(struct later_lock **lock, const char *path);
/* Once the data file is there: others may come. */
int later_lock_share(struct later_lock *lock, uint64_t txnid);
void later_lock_close(struct later_lock *lock);

/* Around a transaction. */
int later_lock_begin(struct later_lock *lock);
void later_lock_end(struct later_lock *lock);
/* Tells the transaction that readers take from here on. */
void later_lock_tell(struct later_lock *lock, uint64_t txnid);
/* The oldest transaction that a reader has, or `newest`. */
uint64_t later_lock_oldest(const struct later_lock *lock, uint64_t newest);
/* Frees the slots of processes that are dead; how many there were. */
unsigned later_lock_check(struct later_lock *lock);
/* Slots in use. */
unsigned later_lock_used(const struct later_lock *lock);

#endif
