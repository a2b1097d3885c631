/* SPDX-License-Identifier: OLDAP-2.8 */
/* Says what the operations on transactions lend to those on environments. */
#ifndef TESTS_OPERATION_TXN_H
#define TESTS_OPERATION_TXN_H

#include "operation_run.h"

enum txn_ending { TXN_RESET, TXN_COMMIT, TXN_ABORT };

/* Checks the slot's kept values, then ends its transaction on both sides; nothing in an empty slot.
 */
bool txn_end(struct run *run, unsigned slot, enum txn_ending ending);
bool txn_end_all(struct run *run);

/* mdb_dbi_open of the plan's table, and its comparators. */
bool txn_open_table(struct run *run, unsigned slot, unsigned table, unsigned flags);

bool operation_txn_run(struct run *run, const struct read_operation *operation);

#endif
