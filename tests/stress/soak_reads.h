/* SPDX-License-Identifier: OLDAP-2.8 */
/* Shows how a reader of the soak makes a call that may fail, and judges what it gets. */
#ifndef SOAK_READS_H
#define SOAK_READS_H

#include "random_stream.h"
#include "soak_board.h"
#include "soak_data.h"

#include <lmdb.h>
#include <stdbool.h>
#include <stdint.h>

enum soak_kind {
	SOAK_LIVE,   /* a writer commits to it */
	SOAK_PLAIN,  /* replaced by rename */
	SOAK_PACKED, /* a container, replaced by rename */
};

/* A process that reads. */
struct soak_reader {
	struct soak_board *board;
	struct soak_slot *slot;
	struct soak_data data;
	enum soak_kind kind;
	const char *path;
	char fault; /* what it does wrong on purpose: 'b'ytes, 'd'escriptors, 'h'ang, or 0 */
	bool stays; /* the environment stays open */
	MDB_env *env;
	MDB_dbi dbi;
	uint64_t generation; /* of the open environment */
};

/* One thread's transaction. */
struct soak_reading {
	struct soak_reader *reader;
	struct random_stream *random;
	MDB_txn *txn;
	MDB_cursor *cursor;
	uint64_t id;   /* the snapshot's number */
	uint64_t mark; /* faults of the process before it began */
};

/* A call, so that it can be made once more. */
struct soak_call {
	const char *name;
	int (*make)(struct soak_reading *reading, struct soak_call *call);
	uint32_t record;
	MDB_cursor_op op;
	bool again; /* the first time it said a code */
	struct soak_key text;
	MDB_val key, value;
};

bool soak_goes_on(const struct soak_reader *reader);
void soak_complain(struct soak_reader *reader, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* Whether a call may say so since `mark`: the code of a fault, and there was one. */
bool soak_is_code(int rc, uint64_t mark);
/* Makes a call. What says the code of a fault must work when no call fails, and is made so.
 * Returns 0, MDB_NOTFOUND, or what has been complained of. */
int soak_make(struct soak_reading *reading, struct soak_call *call);
/* Whether the record in `call` is the wanted one, byte for byte; complains. */
bool soak_look(struct soak_reading *reading, const struct soak_call *call);

/* Begin and end a transaction with a cursor. Return 0 or what has been complained of. */
int soak_begin(struct soak_reading *reading);
void soak_end(struct soak_reading *reading);
int soak_get(struct soak_reading *reading, uint32_t record);
int soak_get_by_number(struct soak_reading *reading, uint32_t record);
/* Random records, some twice; what they have given must be there until the end. */
int soak_get_some(struct soak_reading *reading, unsigned n);
/* Walks by a cursor from a random record on. */
int soak_walk(struct soak_reading *reading, unsigned n);

#endif
