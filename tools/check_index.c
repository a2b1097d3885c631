/* SPDX-License-Identifier: OLDAP-2.8 */
/* Compares each entry of the record index with the data. Reports one finding for a database: the
 * entries behind a wrong one are wrong as well. */
#include "check_index.h"

#include <inttypes.h>

void check_index_begin(struct check_index *index, struct check_report *report, struct io *container,
		       const MDB_val *name, const char *label)
{
	*index = (struct check_index){.report = report, .container = container, .label = label};
	if (!container)
		return;
	index->page_size = container_info(container)->page_size;
	/* Reading the whole index has already reported damage in it. */
	index->known = !container_tree_find(container, name->mv_data, name->mv_size, &index->tree);
}

void check_index_leaf(struct check_index *index, uint64_t page, uint64_t first)
{
	struct container_leaf leaf;

	if (!index->known)
		return;
	if (index->leaves == index->tree.leaves)
		index->known = false;
	else if (container_leaf(index->container, &index->tree, index->leaves, &leaf))
		index->known = false;
	else if (leaf.page == page && leaf.first == first)
		index->leaves++;
	else
		index->known = false;
	if (index->known)
		return;
	check_found(index->report, CHECK_DAMAGE, index->label, page * index->page_size,
		    "the record index does not lead to this leaf page for record %" PRIu64, first);
}

void check_index_end(struct check_index *index, uint64_t records)
{
	if (index->known && (index->leaves != index->tree.leaves || records != index->tree.records))
		check_found(index->report, CHECK_DAMAGE, index->label, 0,
			    "the record index has %" PRIu64 " records in %" PRIu64
			    " leaf pages, found are %" PRIu64 " in %" PRIu64,
			    index->tree.records, index->tree.leaves, records, index->leaves);
}
