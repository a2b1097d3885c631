/* SPDX-License-Identifier: OLDAP-2.8 */
/* Says what every snapshot must hold that is read beside a live writer. */
#ifndef TESTS_SNAPSHOT_CHECKS_H
#define TESTS_SNAPSHOT_CHECKS_H

#include "both_libraries.h"
#include "live_writer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct reading {
	const struct library *library;
	struct live_writer *writer;
	MDB_env *env;
	unsigned env_flags;
	MDB_dbi main, dups, growth;
	uint64_t values, snapshots, distinct, resized, overtaken;
	char *told; /* codes and sizes that both libraries must agree on */
	size_t told_room;
};

/* Prints what is wrong. Returns EIO. */
int check_wrong(const char *what, uint64_t expected, uint64_t found);

/* Whether a value is that of a key in the snapshot with that id (`exact`), or in an older one. Returns 0 or
 * EIO, which has been printed. */
int check_value(const MDB_val *value, uint64_t id, uint32_t key, bool exact);

/* Whether every value tells the snapshot's own id, and nothing is missing. Returns 0, EIO, which has been
 * printed, or the code of a call. */
int check_snapshot(struct reading *reading, MDB_txn *txn);

#endif
