/* SPDX-License-Identifier: OLDAP-2.8 */
/* Opens the bytes that a check judges, whatever state they are in. */
#ifndef LMDBIO_TOOLS_CHECK_SOURCE_H
#define LMDBIO_TOOLS_CHECK_SOURCE_H

#include "check_meta.h"
#include "check_report.h"

#include "env/env.h"

struct check_source {
	const char *path;    /* as the user named it */
	char *name;          /* of the data file */
	char *why;           /* why the file cannot be opened, or NULL */
	struct io file;      /* the data file */
	struct io container; /* the data in it, when it is a container */
	struct io *data;     /* one of the two */
	/* One snapshot: of the environment, or made here if there is no environment. */
	MDB_env *env;
	MDB_txn *txn;
	struct window window;
	struct snapshot alone;
	struct snapshot *snapshot; /* the one in use, or NULL: no tree can be walked */
	struct tree_record free_tree, main_tree;
	uint64_t txnid;
	unsigned sum_size; /* bytes of a page's checksum; 0: no checksums */
	bool unpinned;     /* no lock file: writers may change pages meanwhile */
};

/* Opens the data file: `path` itself, or data.mdb in that directory, or data.mdb.zst there. Reports
 * damage that prevents the opening of a container. Returns 0, or an errno. */
int check_source_open(struct check_source *source, const char *path, struct check_report *report);

/* Pins the newest snapshot as a reader does, so that writers may go on. With MDB_NOLOCK in `flags`,
 * or if the lock file cannot be used, does without it. If LMDB would refuse the file, reports that
 * and takes the newest sound meta page. If all fail, source->snapshot stays NULL. */
void check_source_pin(struct check_source *source, unsigned flags, const struct check_metas *metas,
		      struct check_report *report);

void check_source_close(struct check_source *source);

#endif
