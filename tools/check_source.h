/* SPDX-License-Identifier: OLDAP-2.8 */
/* Gives a check the bytes that it judges, whatever state they are in. */
#ifndef LMDBIO_TOOLS_CHECK_SOURCE_H
#define LMDBIO_TOOLS_CHECK_SOURCE_H

#include "check_meta.h"
#include "check_report.h"

#include "env/env.h"

struct check_source {
	const char *path;    /* as the user named it */
	char *name;          /* of the data file */
	char *why;           /* it cannot be opened, or NULL */
	struct io file;      /* it */
	struct io container; /* the data in it, when it is a container */
	struct io *data;     /* one of the two */
	/* One moment of it: the environment's, or our own look when there is none. */
	MDB_env *env;
	MDB_txn *txn;
	struct window window;
	struct snapshot alone;
	struct snapshot *snapshot; /* one of the two, or NULL: nothing of it can be walked */
	struct tree_record free_tree, main_tree;
	uint64_t txnid;
	unsigned sum_size; /* bytes of a page's checksum; 0: there are none */
	bool unpinned; /* the lock file could not be had: writers may change pages meanwhile */
};

/* Opens the data file: `path` itself, or data.mdb in that directory, or data.mdb.zst there. A
 * container that cannot be opened for its damage is a finding. Returns 0, or an errno. */
int check_source_open(struct check_source *source, const char *path, struct check_report *report);

/* Pins the newest snapshot: as a reader does, so that writers may go on; without the lock file
 * (MDB_NOLOCK in `flags`, or where it cannot be had); or, when LMDB would not open the file, from
 * the newest sound meta page. That it would not is a finding. source->snapshot stays NULL when
 * there is no way. */
void check_source_pin(struct check_source *source, unsigned flags, const struct check_metas *metas,
		      struct check_report *report);

void check_source_close(struct check_source *source);

#endif
