/* SPDX-License-Identifier: OLDAP-2.8 */
/* Finds the length of a compacted copy that arrives in pieces. */
#include "convert_relayout.h"

#include "format/layout.h"
#include "util/checked.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct relayout {
	const struct relayout_taker *taker;
	enum format format;
	uint32_t page_size;
	uint8_t *metas; /* the first two pages, until both are there */
	size_t have;    /* bytes of them so far */
	int status;     /* the taker's */
};

/* Begins when both meta pages are there. The second one is in force, and names the last page. */
static int relayout_begin(struct relayout *relayout)
{
	uint64_t last = load64(relayout->metas + relayout->page_size +
			       page_layouts[relayout->format].shift + META_LAST_PAGE);
	int rc = relayout->taker->begin(relayout->taker->to, (last + 1) * relayout->page_size);

	if (!rc)
		rc = relayout->taker->put(relayout->taker->to, relayout->metas, relayout->have);
	return rc;
}

static int relayout_put(void *to, const uint8_t *bytes, size_t size)
{
	struct relayout *relayout = to;
	size_t metas = FORMAT_METAS * (size_t)relayout->page_size;

	if (relayout->have < metas) {
		size_t n = metas - relayout->have < size ? metas - relayout->have : size;

		memcpy(relayout->metas + relayout->have, bytes, n);
		relayout->have += n;
		bytes += n;
		size -= n;
		if (relayout->have == metas)
			relayout->status = relayout_begin(relayout);
	}
	if (!relayout->status && size)
		relayout->status = relayout->taker->put(relayout->taker->to, bytes, size);
	return relayout->status ? ECANCELED : 0;
}

int relayout_run(struct source *source, uint32_t chunk_size, const struct relayout_taker *taker)
{
	struct relayout relayout = {
		.taker = taker,
		.format = source->format,
		.page_size = source->page_size,
	};
	MDB_txn *txn;
	int rc = source_tree(source, &txn);

	if (rc)
		return rc;
	if (txn->env->later && later_sum_size(txn->env))
		return convert_refuse(source->file,
				      "its pages have checksums, by a function of its "
				      "program's: convert it without --relayout");
	relayout.metas = malloc(FORMAT_METAS * (size_t)relayout.page_size);
	if (!relayout.metas)
		return convert_fail(source->file, ENOMEM);
	rc = copy_compact_to(txn, chunk_size / source->page_size, relayout_put, &relayout);
	free(relayout.metas);
	if (relayout.status || !rc)
		return relayout.status;
	if (rc == MDB_INCOMPATIBLE)
		convert_refuse(source->file, "it has pages that no tree and no free list knows of; "
					     "convert it without --relayout");
	else
		convert_fail(source->file, rc);
	return rc == MDB_INCOMPATIBLE || rc == MDB_CORRUPTED || rc == MDB_PAGE_NOTFOUND ||
			       rc == MDB_INVALID
		       ? TOOL_PROBLEM
		       : TOOL_FAILED;
}
