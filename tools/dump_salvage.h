/* SPDX-License-Identifier: OLDAP-2.8 */
/* Dumps what can be read of a damaged database. */
#ifndef LMDBIO_TOOLS_DUMP_SALVAGE_H
#define LMDBIO_TOOLS_DUMP_SALVAGE_H

#include "dump_format.h"
#include "tool_common.h"

#include <stdbool.h>

struct salvage {
	const struct tool *tool;
	const char *path; /* as the person named it */
	const struct dump_form *form;
	const char *subdb; /* the database of this name alone, or NULL */
	bool all;          /* every named database; else the main one */
	bool list;         /* only their names */
};

/* Walks the trees of the transaction's snapshot, beside every damage, and writes what LMDB 0.9 would
 * read and what is behind damage at which it would end. What is wrong is told on standard error, the
 * first 100 places one by one. Returns TOOL_OK: there was no damage; TOOL_PROBLEM; TOOL_FAILED: no
 * such database, or no memory. */
int salvage_run(const struct salvage *salvage, MDB_txn *txn);

#endif
