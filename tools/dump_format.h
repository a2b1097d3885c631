/* SPDX-License-Identifier: OLDAP-2.8 */
/* Writes the flat-text format of mdb_dump, which mdb_load reads. */
#ifndef LMDBIO_TOOLS_DUMP_FORMAT_H
#define LMDBIO_TOOLS_DUMP_FORMAT_H

#include "format/meta.h"

#include <lmdb.h>
#include <stdbool.h>

/* The settings that all databases of a dump share. */
struct dump_form {
	bool print;   /* printable characters as they are ... */
	bool escapes; /* ... but a backslash as two */
	uint32_t page_size;
	MDB_envinfo info;
};

/* Writes the lines before a database's records; `name` NULL: the main one. */
void dump_header(const struct dump_form *form, const struct tree_record *record, const char *name);

/* Writes a key or a value. */
void dump_bytes(const struct dump_form *form, const MDB_val *value);

#endif
