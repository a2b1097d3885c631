/* SPDX-License-Identifier: OLDAP-2.8 */
/* Says which keys and items of a database the operations ask for. */
#ifndef TESTS_SAMPLES_H
#define TESTS_SAMPLES_H

#include "db_make.h"

#include <stdbool.h>

enum { SAMPLES_MAX = 3000, SAMPLE_TABLES = DB_TABLES_MAX + 1 };

struct sample {
	MDB_val key, item; /* item.mv_data is NULL where the value is too large to be an item */
};

struct sample_set {
	unsigned count;
	struct sample sample[SAMPLES_MAX];
};

/* One database on disk: a plan, two directories with the same data.mdb, and samples of each table.
 * The table after the plan's last is the free list, dbi 0. */
struct database {
	struct db_plan plan;
	char directory[2][1024]; /* one for each side, so that each has a lock file of its own */
	bool container; /* the second one has data.mdb.zst instead */
	bool later;     /* the second one has data.mdb in the format of LMDB 1.0 */
	size_t file_size;
	struct sample_set set[SAMPLE_TABLES];
	char *bytes;
	size_t bytes_used, bytes_room;
};

/* Makes the database below `scratch` and collects the samples through the original.
 * Returns 0, an errno or the original's code. database_free() removes the files too. */
int database_make(struct database *database, const struct db_plan *plan, const char *scratch);

/* Makes the second directory's data file a container, by the command of that name. Returns 0, or
 * what the command says. */
int database_convert(struct database *database, const char *command);

/* Makes the second directory's data file one of LMDB 1.0. Returns 0, or as later_make(). */
int database_make_later(struct database *database);
void database_free(struct database *database);

#endif
