/* SPDX-License-Identifier: OLDAP-2.8 */
/* Prints lmdbio-stat's findings: mdb_stat's lines, its own below them, and the same as one JSON
 * object. */
#ifndef LMDBIO_TOOLS_STAT_REPORT_H
#define LMDBIO_TOOLS_STAT_REPORT_H

#include "stat_measure.h"

#include <jansson.h>
#include <stdbool.h>

/* The parts of a measure to print. */
enum stat_part {
	STAT_RECORDS = 1,
	STAT_SIZES = 2,
	STAT_LAYOUT = 4,
};

/* Prints mdb_stat's five lines about a database. */
void stat_print_record(const struct tree_record *record);
/* Prints the lines below them. `parts`: enum stat_part bits. */
void stat_print_measure(const struct measure *measure, unsigned parts);

/* Makes one member of "databases". `name` NULL: the main one. `parts`: as above. */
json_t *stat_json_database(const char *name, const struct tree_record *record,
			   const struct measure *measure, unsigned parts);
json_t *stat_json_environment(const MDB_envinfo *info, uint32_t page_size);

#endif
