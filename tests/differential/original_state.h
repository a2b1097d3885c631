/* SPDX-License-Identifier: OLDAP-2.8 */
/* Says where the original's own behaviour is undefined.
 *
 * A comparison there would compare leftovers of memory. These are all the cases (the
 * names are those of functions in mdb.c 0.9.24), each as narrow as it can be seen
 * from the state of the original's cursor:
 *
 *  leftover-node   In a database of duplicates NEXT*, PREV* (and NEXT_MULTIPLE) look at the node
 *                  under the cursor before they move, also when the cursor stands past the last
 *                  node of its page: after a missed SET or SET_RANGE, and always when PREV* is the
 *                  first operation of a cursor (mdb_cursor_prev: last, then index + 1). From 0.9.27
 *                  on PREV* does not look there, and is compared. What lies there is an unused slot. If the "node" it names carries no F_DUPDATA the
 *                  original goes on as from a single item, which is compared; if it does, or lies
 *                  outside the page, the operation is left out. mdb_cursor_count looks at the
 *                  same slot without a check and is always left out there.
 *  stale-subcursor On a key with duplicates whose sub-cursor was not set up for this key NEXT,
 *                  NEXT_DUP, PREV, PREV_DUP and NEXT_MULTIPLE search the duplicates of whatever
 *                  the sub-cursor held before, or of uninitialised memory. Two ways lead there:
 *                  a missed SET* or GET_BOTH* that leaves the cursor on such a key, and, before
 *                  0.9.27, FIRST or LAST with a NULL data (mdb_cursor_set clears, mdb_cursor_first
 *                  does not call mdb_xcursor_init1).
 *  null-fixed      NEXT, NEXT_DUP, PREV, PREV_DUP with a NULL data on a key with duplicates of
 *                  fixed size: the sub-cursor writes through the NULL pointer.
 *  dbi-of-another  mdb_cursor_renew() when the cursor's handle was closed and its number belongs to
 *                  another database by now: the original keeps the old sub-cursor, or none.
 *
 * And these are never drawn, in operation_run.c, operation_txn.c and operation_env.c:
 *
 *  - integer keys and items of another size than the database's: the comparators read the size
 *    of one for both, mdb_cmp_int and mdb_cmp_long four and eight bytes whatever the size;
 *  - mdb_cmp() and mdb_dcmp() on a handle that is not open, mdb_dcmp() without MDB_DUPSORT: a call
 *    through a NULL pointer;
 *  - mdb_dbi_open() while another transaction is active, mdb_env_set_mapsize() and mdb_dbi_close()
 *    while any is, cursors of ended transactions but for close and renew: lmdb.h forbids them;
 *  - mdb_dbi_open() of the main database with flags that it does not have: the original turns it
 *    into another kind of database in memory;
 *  - the unused bytes of pages in a compacted copy: leftovers of malloc (copied_files.h);
 *  - env_info's me_numreaders without MDB_NOTLS: how many slots a thread's idle transactions keep
 *    is the library's own business; the active ones of mdb_reader_list() are compared.
 */
#ifndef TESTS_ORIGINAL_STATE_H
#define TESTS_ORIGINAL_STATE_H

#include <lmdb.h>
#include <stdbool.h>

/* The name of the case that forbids `op` now, or NULL. `prepared`: see original_state_prepared().
 * May open and close a cursor of its own in the same transaction. */
const char *original_state_forbids(MDB_cursor *original, MDB_cursor_op op, bool null_data,
				   bool prepared);
const char *original_state_forbids_count(MDB_cursor *original);

/* Whether the sub-cursor belongs to the key under the cursor after `op` has returned rc, when it
 * did (or not) before. `fresh`: the cursor was not positioned before. */
bool original_state_prepared(bool before, MDB_cursor_op op, bool fresh, bool null_data,
			     bool empty_key, int rc);

/* Whether the cursor has a position. */
bool original_state_positioned(MDB_cursor *original);

/* Proves on a small database in `directory` that this original lays its cursors out as this file
 * believes. Returns NULL, or what differs. */
const char *original_state_check(const char *directory);

#endif
