/* What only this file knows: which records stand on the shelf of a job's rank, and when their pages
 * may go.
 *
 * Numbering the records reads the leaf pages, and with them all values that lie inside. What the
 * rank keeps of them comes from here, so that nobody reads these pages again.
 */
#include "loader/loader_private.h"

struct page_shelf *loader_shelf(const struct lmdbio_loader *loader)
{
	return loader->shelf;
}

bool shelf_has_place(const struct lmdbio_loader *loader, const struct index_place *place)
{
	return loader->shelf && shelf_has(loader->shelf, place->page) &&
	       (!place->nested || shelf_has(loader->shelf, place->owner_page));
}

void loader_shelved(struct lmdbio_loader *loader, uint64_t first, uint64_t n, loader_take_fn *take,
		    void *context)
{
	struct snapshot snapshot;

	if (!loader->shelf)
		return;
	snapshot = loader_view(loader);
	snapshot = shelf_snapshot(loader->shelf, &snapshot);
	for (uint64_t record = first; record < first + n; record++) {
		struct index_place place;
		uint64_t number, pages;
		MDB_val key, data;

		snapshot.blocked = 0;
		if (index_find(loader->index, record, &place) || !shelf_has_place(loader, &place) ||
		    index_run(&snapshot, &loader->tree, &place, &number, &pages) || pages ||
		    index_get(&snapshot, &loader->tree, &place, &key, &data))
			continue;
		take(context, record, 0, &key, &data);
	}
}

uint64_t loader_unshelve(struct lmdbio_loader *loader, uint64_t first, uint64_t end)
{
	size_t leaf, leaves = index_size(loader->index);

	/* A page with trees of duplicates in it is needed for what stands elsewhere too. */
	if (!loader->shelf || loader->tree.record.flags & MDB_DUPSORT)
		return end;
	for (leaf = index_leaf_from(loader->index, first); leaf < leaves; leaf++) {
		uint64_t next = leaf + 1 < leaves ? index_leaf(loader->index, leaf + 1)->first
						  : index_records(loader->index);

		if (next > end)
			return index_leaf(loader->index, leaf)->first;
		shelf_drop(loader->shelf, index_leaf(loader->index, leaf)->page);
	}
	return end;
}

void loader_shelf_close(struct lmdbio_loader *loader)
{
	shelf_close(loader->shelf);
	loader->shelf = NULL;
}
