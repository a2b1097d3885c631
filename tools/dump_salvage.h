/* SPDX-License-Identifier: OLDAP-2.8 */
/* Dumps the readable part of a damaged database. */
#ifndef LMDBIO_TOOLS_DUMP_SALVAGE_H
#define LMDBIO_TOOLS_DUMP_SALVAGE_H

#include "dump_format.h"
#include "tool_common.h"

#include <stdbool.h>

struct salvage {
	const struct tool *tool;
	const char *path; /* as the user named it */
	const struct dump_form *form;
	const char *subdb; /* dump only the database of this name, or NULL */
	bool all;          /* dump every named database; else the main one */
	bool list;         /* print only their names */
};

/* Walks the trees of the transaction's snapshot, past all damage. Writes the records that LMDB 0.9
 * would read, and those behind damage at which LMDB would end. Reports damage on standard error,
 * the first 100 places one by one. Returns TOOL_OK: no damage; TOOL_PROBLEM: damage; TOOL_FAILED:
 * no such database, or no memory. */
int salvage_run(const struct salvage *salvage, MDB_txn *txn);

#endif
