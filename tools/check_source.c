/* SPDX-License-Identifier: OLDAP-2.8 */
/* Finds a way to one snapshot of a file that may be damaged. */
#include "check_source.h"

#include "tool_common.h"
#include "tool_env.h"

#include "container/container.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Returns why a path cannot be opened. The verdict has the path in front. */
static const char *unopened_explain(struct check_source *source, int rc)
{
	size_t length = strlen(source->path);
	char *line = source->why = tool_env_explain(source->path, 0, rc);

	if (!line)
		return strerror(ENOMEM);
	return !strncmp(line, source->path, length) && line[length] == ':' ? line + length + 2
									   : line;
}

int check_source_open(struct check_source *source, const char *path, struct check_report *report)
{
	int fd, rc;

	*source = (struct check_source){.path = path, .name = tool_data_name(path)};
	if (!source->name)
		return ENOMEM;
	rc = tool_env_judge(path, 0);
	if (rc) {
		report->unchecked = unopened_explain(source, rc);
		return rc;
	}
	fd = open(source->name, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno;
	rc = io_open_file(&source->file, "pread", fd);
	if (rc) {
		close(fd);
		return rc;
	}
	source->data = &source->file;
	rc = io_open_container(&source->container, &source->file, NULL);
	if (rc == MDB_INVALID)
		return 0; /* no container */
	if (rc == MDB_CORRUPTED) {
		check_found(report, CHECK_DAMAGE, "container", 0,
			    "its header or its end is damaged or cut off");
		source->data = NULL;
		return 0;
	}
	if (rc == MDB_VERSION_MISMATCH) {
		report->unchecked = "this is a container of a newer lmdbio: check it with that one";
		return ENOTSUP;
	}
	source->data = &source->container;
	return rc;
}

/* Pins a snapshot as a reader does: with the original's rules for opening and its reader slot, but
 * lmdbio's pages. */
static int pin_as_reader(struct check_source *source, unsigned flags)
{
	MDB_txn *txn;
	int rc = tool_env_try(source->path, flags, 0, &source->env);

	if (rc)
		return rc;
	rc = txn_begin(source->env, NULL, MDB_RDONLY, &source->txn);
	if (rc) {
		source->txn = NULL;
		env_close(source->env);
		source->env = NULL;
		return rc;
	}
	txn = source->txn;
	source->snapshot = &txn->snapshot;
	source->sum_size = later_sum_size(source->env);
	source->free_tree = txn->trees[DBI_FREE].record;
	source->main_tree = txn->trees[DBI_MAIN].record;
	source->txnid = txn->id;
	return 0;
}

/* Makes a snapshot from a meta page alone, over the pages that the file really has. */
static int pin_alone(struct check_source *source, const struct check_metas *metas)
{
	const struct meta *meta = &metas->meta[metas->newest];
	uint64_t pages = metas->file_size / metas->page_size;
	int rc;

	/* A container's pages are compressed: no file holds them for the window to map. */
	if (source->data == &source->container)
		return ENOTSUP;
	rc = window_open(&source->window, source->data->fd, metas->file_size, metas->page_size);
	if (rc)
		return rc;
	if (pages > meta->last_page + 1)
		pages = meta->last_page + 1;
	rc = window_look(&source->window, pages, metas->file_size, &source->alone.view);
	if (rc)
		return rc;
	source->alone.page_size = metas->page_size;
	source->alone.format = metas->format;
	source->snapshot = &source->alone;
	source->free_tree = meta->free_tree;
	source->main_tree = meta->main_tree;
	source->txnid = meta->txnid;
	return 0;
}

static bool rc_is_damage(int rc)
{
	return rc == MDB_INVALID || rc == MDB_CORRUPTED || rc == MDB_PAGE_NOTFOUND ||
	       rc == MDB_VERSION_MISMATCH;
}

void check_source_pin(struct check_source *source, unsigned flags, const struct check_metas *metas,
		      struct check_report *report)
{
	int rc = pin_as_reader(source, flags);

	/* The lock file cannot be made or locked, or is full or damaged: read unpinned rather than
	 * not at all. */
	if (rc && !(flags & MDB_NOLOCK)) {
		rc = pin_as_reader(source, flags | MDB_NOLOCK);
		source->unpinned = !rc;
	}
	if (!rc)
		return;
	if (rc == MDB_INCOMPATIBLE || rc == MDB_BAD_CHECKSUM) {
		report->unchecked = unopened_explain(source, rc);
		return;
	}
	if (rc_is_damage(rc))
		check_found(report, CHECK_DAMAGE, "the file", 0, "LMDB does not open it (code %d)",
			    rc);
	else
		report->unchecked = tool_read_text(rc);
	if (metas->newest >= 0 && metas->file_size >= FORMAT_METAS * (uint64_t)metas->page_size)
		(void)pin_alone(source, metas);
}

void check_source_close(struct check_source *source)
{
	int fd = source->file.fd;

	window_close(&source->window);
	if (source->txn)
		txn_abort(source->txn);
	env_close(source->env);
	io_close(&source->container);
	if (source->file.ops) {
		io_close(&source->file);
		close(fd);
	}
	free(source->name);
	free(source->why);
}
