/* SPDX-License-Identifier: OLDAP-2.8 */
/* Delivers the data of a source with its pages in the order of keys. */
#ifndef LMDBIO_TOOLS_CONVERT_RELAYOUT_H
#define LMDBIO_TOOLS_CONVERT_RELAYOUT_H

#include "convert_source.h"

/* The receiver of the data. Each function returns 0 or an exit status, which ends the delivery. */
struct relayout_taker {
	int (*begin)(void *to, uint64_t size); /* bytes to come; called once, before the first */
	int (*put)(void *to, const void *bytes, size_t length);
	void *to;
};

/* Gives the source's trees as a compacted data file: leaves in key order, the values of a leaf in
 * front of it. Without a chunk size, the file equals a copy with MDB_CP_COMPACT page for page, and
 * has no free pages. With a chunk size (bytes, a power of two), no value that fits a chunk crosses
 * a border between chunks; the pages skipped for that are in the free list. The same source gives
 * the same bytes each time. */
int relayout_run(struct source *source, uint32_t chunk_size, const struct relayout_taker *taker);

#endif
