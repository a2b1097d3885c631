/* SPDX-License-Identifier: OLDAP-2.8 */
/* Declares the reader table of LMDB 1.0's lock file.
 *
 * A slot with the number of a transaction keeps the writers of all processes from reusing the pages
 * of that snapshot. Slots are taken and given back as LMDB 1.0 does it.
 */
#ifndef LMDBIO_ENV_READERS_H
#define LMDBIO_ENV_READERS_H

#include <lmdb.h>
#include <stdbool.h>
#include <stdint.h>

struct readers;
struct reader_slot;

enum { READERS_DEFAULT = 126 };

/* The transaction id of an idle slot in LMDB 1.0. */
#define READERS_IDLE UINT64_MAX

/* Opens the lock file, or makes it with `most` slots. `threads`: a slot belongs to a thread, not to
 * a transaction. *readers is NULL on a file system that cannot be written to, where no writer can
 * be. Returns 0, MDB_INVALID, MDB_VERSION_MISMATCH or an errno. */
int readers_open(struct readers **readers, const char *path, unsigned mode, unsigned most,
		 bool threads);
/* The same in a forked child: its parent's lock file, by the inherited descriptor if the path leads
 * nowhere by now, or to another file. */
int readers_inherit(struct readers **readers, const struct readers *parents, const char *path);
/* Writes the data file's newest transaction into a lock file that was just made, before the first
 * slot is taken. Returns 0 or an errno. */
int readers_share(struct readers *readers, uint64_t newest);
/* Gives back all slots of this environment. Inherited slots stay the parent's. */
void readers_close(struct readers *readers);

/* Takes a slot, unless *slot is one. Returns 0, MDB_BAD_RSLOT, MDB_READERS_FULL or an errno. */
int readers_take(struct readers *readers, struct reader_slot **slot);
/* Pins the newest transaction in the slot and returns its number; 0: no process has written it
 * yet. */
uint64_t readers_pin(struct readers *readers, struct reader_slot *slot);
/* Pins another transaction, which the slot's holder knows to be the newest. */
void readers_pin_to(struct reader_slot *slot, uint64_t id);
/* Ends the pin; the slot stays the transaction's, or its thread's. */
void readers_rest(struct reader_slot *slot);
/* Gives a transaction's slot back; a thread keeps its slot. */
void readers_give(struct readers *readers, struct reader_slot *slot);

/* In a forked child. */
void readers_forked(void);

unsigned readers_used(const struct readers *readers);
unsigned readers_most(const struct readers *readers);
/* mdb_reader_list() and mdb_reader_check(). */
int readers_list(const struct readers *readers, MDB_msg_func *func, void *context);
int readers_check(struct readers *readers, int *dead);

#endif
