/* SPDX-License-Identifier: OLDAP-2.8 */
/* Takes records off the shelf of a job's rank, and says when their pages may go.
 *
 * Numbering the records reads the leaf pages, and with them all values that lie inside. Records
 * that the rank keeps of these come from the shelf, so that no rank reads the pages again. Records
 * whose place is the local disk wait there. */
#include "loader/loader_private.h"

#include <sys/statvfs.h>

enum { SPARE = 16 };    /* 1 / this of the disk is left unplanned */
#define NONE UINT64_MAX /* no page */

struct page_shelf *loader_shelf(const struct lmdbio_loader *loader)
{
	return loader->data.shelf;
}

void loader_lends(struct lmdbio_loader *loader, uint64_t bytes)
{
	loader->job.lent = bytes;
}

/* With duplicates no page goes before the last record is taken, so all would come to memory. */
void loader_shelf_extend(struct lmdbio_loader *loader)
{
	const char *directory = loader->options.stage_dir;
	uint64_t room = loader->options.stage_size;
	struct statvfs fs;

	if (!directory || !loader->memory.copies || loader->data.tree.record.flags & MDB_DUPSORT ||
	    statvfs(directory, &fs))
		return;
	if (!room || room / fs.f_frsize > fs.f_bavail)
		room = (uint64_t)fs.f_bavail * fs.f_frsize;
	shelf_extend(loader->data.shelf, directory, (room - room / SPARE) / loader->job.sharers);
}

bool shelf_bring_place(const struct lmdbio_loader *loader, const struct index_place *place)
{
	return loader->data.shelf && shelf_bring(loader->data.shelf, place->page) &&
	       (!place->nested || shelf_bring(loader->data.shelf, place->owner_page));
}

void loader_shelved(struct lmdbio_loader *loader, uint64_t first, uint64_t n, loader_take_fn *take,
		    void *context)
{
	uint64_t at = NONE;
	struct snapshot snapshot;

	if (!loader->data.shelf)
		return;
	snapshot = loader_view(loader);
	snapshot = shelf_snapshot(loader->data.shelf, &snapshot);
	for (uint64_t record = first; record < first + n; record++) {
		struct index_place place;
		uint64_t number, pages;
		MDB_val key, data;

		snapshot.blocked = 0;
		if (index_find(loader->data.index, record, &place))
			continue;
		if (at != NONE && at != place.page)
			shelf_rest(loader->data.shelf, at);
		at = place.page;
		if (!shelf_bring_place(loader, &place) ||
		    index_run(&snapshot, &loader->data.tree, &place, &number, &pages) || pages ||
		    index_get(&snapshot, &loader->data.tree, &place, &key, &data))
			continue;
		take(context, record, 0, &key, &data);
	}
	if (at != NONE)
		shelf_rest(loader->data.shelf, at);
}

uint64_t loader_unshelve(struct lmdbio_loader *loader, uint64_t first, uint64_t end)
{
	size_t leaf, leaves = index_size(loader->data.index);

	/* A page with trees of duplicates is also needed for values that stand elsewhere. */
	if (!loader->data.shelf || loader->data.tree.record.flags & MDB_DUPSORT)
		return end;
	for (leaf = index_leaf_from(loader->data.index, first); leaf < leaves; leaf++) {
		uint64_t next = leaf + 1 < leaves ? index_leaf(loader->data.index, leaf + 1)->first
						  : index_records(loader->data.index);

		if (next > end)
			return index_leaf(loader->data.index, leaf)->first;
		shelf_drop(loader->data.shelf, index_leaf(loader->data.index, leaf)->page);
	}
	return end;
}

void loader_shelf_close(struct lmdbio_loader *loader)
{
	shelf_close(loader->data.shelf);
	loader->data.shelf = NULL;
}
