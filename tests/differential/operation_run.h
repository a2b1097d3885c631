/* SPDX-License-Identifier: OLDAP-2.8 */
/* The state of one sequence, on both sides at once.
 *
 * side 0 is always the original, side 1 the library under test.
 */
#ifndef TESTS_OPERATION_RUN_H
#define TESTS_OPERATION_RUN_H

#include "both_libraries.h"
#include "read_operation.h"
#include "samples.h"

#include <stdbool.h>

enum { VALUES_KEPT = 24, CASES_MAX = 8 };

/* What a sequence is run with, apart from its operations. */
struct sequence {
	const struct database *database;
	const struct library *ours;
	unsigned env_flags; /* MDB_NOLOCK, MDB_NOTLS, MDB_NORDAHEAD, MDB_NOSUBDIR */
	unsigned most_dbs;
	uint64_t number;
	bool strict;  /* key and data must agree after an error too */
	bool verbose; /* print each operation and what came back */
};

/* What the process that runs a sequence tells the one that waits, in shared memory. */
struct sequence_result {
	volatile unsigned at; /* the operation under way */
	unsigned done, skipped;
	bool differs;
	char difference[1500];
	struct {
		char name[24];
		unsigned long count;
	} left_out[CASES_MAX];
};

struct kept_value {
	const void *bytes;
	size_t size;
	uint64_t hash;
};

struct txn_pair {
	MDB_txn *side[2]; /* NULL: the slot is free */
	bool reset;
	unsigned kept, keep_next;
	struct kept_value value[VALUES_KEPT]; /* of our side */
};

struct cursor_pair {
	MDB_cursor *side[2];
	int txn;	/* slot, or -1: its transaction has ended */
	unsigned table; /* where its dbi stands in table[] */
	MDB_dbi dbi;
	bool dead;     /* the dbi went away under it */
	bool prepared; /* original_state_prepared() */
};

struct table_state {
	MDB_dbi dbi;
	bool open;
	int owner; /* the slot of the transaction that opened it and has not ended, or -1 */
};

struct run {
	const struct sequence *sequence;
	const struct database *database;
	const struct library *library[2];
	struct sequence_result *result;
	MDB_env *env[2];
	struct txn_pair txn[TXN_SLOTS];
	struct cursor_pair cursor[CURSOR_SLOTS];
	struct table_state table[SAMPLE_TABLES];
	unsigned tables; /* of the plan, and one for the free list */
	int last_code;	 /* of the original, from the last cursor operation */
};

/* Runs the operations; what differs and where stands in *result. True: both sides agreed. */
bool sequence_run(const struct sequence *sequence, const struct read_operation *operations,
		  unsigned count, struct sequence_result *result);

/* --- for the files that carry out operations ---------------------------------------------- */

/* Each operation returns true, also when it was left out, or false after run_differs(). */
bool run_differs(struct run *run, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool run_codes_agree(struct run *run, const char *what, const int rc[2]);
bool run_left_out(struct run *run, const char *why);
void run_say(struct run *run, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The slot's transaction, begun if there is none; NULL if both sides refuse. */
struct txn_pair *run_txn(struct run *run, unsigned slot, bool *agree);
/* The handle to ask for the table with: a closed one's too, unless it is another's by now. */
MDB_dbi run_dbi(const struct run *run, unsigned table);
unsigned run_table(const struct run *run, const struct read_operation *operation);
/* Every key and item the operation asks for; `bytes` has room for 1024. NULL: pass NULL. */
MDB_val *run_key(const struct run *run, unsigned table, const struct read_operation *operation,
		 char *bytes, MDB_val *key);
MDB_val *run_item(const struct run *run, unsigned table, const struct read_operation *operation,
		  char *bytes, MDB_val *item);
/* Our side's values of this transaction still hold the bytes that they held. */
bool run_values_stay(struct run *run, struct txn_pair *txn);
void run_keep_value(struct txn_pair *txn, const MDB_val *value);

bool operation_env_run(struct run *run, const struct read_operation *operation);
bool run_open(struct run *run);
bool run_close(struct run *run);

#endif
