/* SPDX-License-Identifier: OLDAP-2.8 */
/* Writes a data file of LMDB 1.0 as a live writer of that LMDB does: new pages beside those that
 * snapshots have, then a meta page; pages that were freed are used again once no reader can need
 * them, and the file's free list tells which they are.
 *
 * It knows one content, that of live_writer.h, and writes all of it but the values of "growth" anew in
 * each transaction.
 */
#ifndef TESTS_LATER_WRITER_H
#define TESTS_LATER_WRITER_H

#include "live_writer.h"

struct later_writer;

/* `flags`: MDB_NOSYNC, MDB_WRITEMAP, MDB_MAPASYNC. The file is made. Returns 0 or an errno. */
int later_writer_open(struct later_writer **writer, const char *directory, unsigned flags,
		      size_t map_size);
/* One transaction, with `more` new records in "growth". Returns 0, MDB_MAP_FULL (nothing has changed)
 * or an errno. */
int later_writer_write(struct later_writer *writer, unsigned more);
int later_writer_enlarge(struct later_writer *writer, size_t map_size);
void later_writer_state(const struct later_writer *writer, struct live_answer *answer);
/* Frees the slots of dead readers; how many there were. */
unsigned later_writer_check(struct later_writer *writer);
void later_writer_close(struct later_writer *writer);

#endif
