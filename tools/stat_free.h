/* SPDX-License-Identifier: OLDAP-2.8 */
/* Shows the free list. */
#ifndef LMDBIO_TOOLS_STAT_FREE_H
#define LMDBIO_TOOLS_STAT_FREE_H

#include "env/env.h"

#include <jansson.h>

/* Goes through the free list. `detail`: 1 shows its size, 2 each transaction's part, 3 each page.
 * Prints mdb_stat's lines, or puts them into *json if `json` is not NULL. Returns 0, MDB_CORRUPTED
 * or as cursor_get(). */
int stat_free_list(MDB_txn *txn, int detail, json_t **json);

#endif
