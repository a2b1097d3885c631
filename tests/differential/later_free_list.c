/* SPDX-License-Identifier: OLDAP-2.8 */
/* Writes the free list of the live writer: which transaction has freed which pages. */
#include "later_writer_private.h"

#include "util/checked.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct freed {
	uint64_t txnid;
	uint64_t *list; /* how many, then their numbers, the largest first */
	uint64_t filled;
};

/* Which pages each transaction has freed: those that this one replaces, and what it has reserved from
 * `spare_from` on, are its own. `marks` has room for a number of each page. Returns how many records
 * there are. */
static size_t freed_collect(const struct later_writer *writer, unsigned spare_from,
			    uint64_t *marks, struct freed *freed, uint64_t *lists)
{
	const uint64_t own = writer->sink.txnid;
	uint64_t *counts = calloc(own + 2, sizeof *counts);
	size_t records = 0;

	if (!counts)
		return 0;
	memcpy(marks, writer->freed_by, writer->next * sizeof *marks);
	for (unsigned i = spare_from; i < writer->reserved; i++)
		marks[writer->reserve[i]] = own;
	for (size_t i = 0; i < writer->before; i++)
		marks[writer->taken[i]] = own;
	for (uint64_t page = FORMAT_METAS; page < writer->next; page++)
		counts[marks[page]]++;
	for (uint64_t txnid = 1; txnid <= own; txnid++) {
		if (!counts[txnid])
			continue;
		freed[records++] = (struct freed){.txnid = txnid, .list = lists};
		lists[0] = counts[txnid];
		lists += counts[txnid] + 1;
		counts[txnid] = records; /* from here on: which record it is, plus one */
	}
	/* The largest first: filled from the end. */
	for (size_t i = 0; i < records; i++)
		freed[i].filled = freed[i].list[0];
	for (uint64_t page = FORMAT_METAS; page < writer->next; page++)
		if (marks[page] != IN_USE) {
			struct freed *record = &freed[counts[marks[page]] - 1];

			record->list[record->filled--] = page;
		}
	free(counts);
	return records;
}

static const struct run *run_of(const struct later_writer *writer, uint64_t txnid)
{
	for (unsigned i = 0; i < writer->run_count; i++)
		if (writer->runs[i].txnid == txnid)
			return &writer->runs[i];
	return NULL;
}

/* Returns the number of a record that is too large for a page, and has no run yet; or `records`. */
static size_t freed_entries(const struct later_writer *writer, const struct freed *freed,
			    size_t records, struct later_entry *entries)
{
	size_t large = records;

	for (size_t i = 0; i < records; i++) {
		const struct run *run = run_of(writer, freed[i].txnid);
		uint32_t bytes = (uint32_t)((freed[i].list[0] + 1) * sizeof(uint64_t));

		entries[i] = (struct later_entry){.key = &freed[i].txnid,
						  .key_size = sizeof freed[i].txnid,
						  .data = run ? (const void *)run->reference
							      : freed[i].list,
						  .data_size = bytes,
						  .bytes = run ? LATER_REFERENCE : bytes,
						  .flags = run ? ENTRY_BIG : 0};
		if (!run && ENTRY_KEY + entries[i].key_size + bytes > LATER_ENTRY_MOST)
			large = i;
	}
	return large;
}

/* What is reserved later makes a list no longer than this. */
static int run_take(struct later_writer *writer, uint64_t txnid, uint64_t pages)
{
	const uint64_t most = pages + sizeof writer->reserve / sizeof *writer->reserve;
	unsigned run = later_run_pages((uint32_t)((most + 1) * sizeof(uint64_t)));
	uint64_t number;

	if (writer->run_count == sizeof writer->runs / sizeof *writer->runs)
		return EOVERFLOW;
	number = later_take(&writer->sink, run);
	if (!number)
		return MDB_MAP_FULL;
	writer->runs[writer->run_count++] =
		(struct run){txnid, {number, writer->sink.txnid, run}};
	writer->free_tree.overflow_pages += run;
	return 0;
}

static int runs_put(struct later_writer *writer, const struct freed *freed, size_t records)
{
	int rc = 0;

	for (size_t i = 0; i < records && !rc; i++) {
		const struct run *run = run_of(writer, freed[i].txnid);

		if (run)
			rc = later_run_put(&writer->sink, run->reference[0],
					   (unsigned)run->reference[2], freed[i].list,
					   (uint32_t)((freed[i].list[0] + 1) * sizeof(uint64_t)));
	}
	return rc;
}

/* Reserves the pages of the free list's tree, and makes its entries. Reserving changes what they say, and
 * how many pages that takes: *spare are too many, and free again. Returns 0, MDB_MAP_FULL or an errno. */
static int free_reserve(struct later_writer *writer, uint64_t *marks, struct freed *freed,
			uint64_t *lists, struct later_entry *entries, size_t *records, unsigned *spare)
{
	*spare = 0;
	for (;;) {
		unsigned needed;
		size_t large;

		*records = freed_collect(writer, writer->reserved - *spare, marks, freed, lists);
		large = freed_entries(writer, freed, *records, entries);
		if (large < *records) {
			int rc = run_take(writer, freed[large].txnid, freed[large].list[0]);

			if (rc)
				return rc;
			continue;
		}
		needed = later_tree_pages(entries, *records);
		if (needed + *spare == writer->reserved)
			return 0;
		if (needed + *spare < writer->reserved) {
			++*spare;
			continue;
		}
		*spare = 0;
		if (writer->reserved == sizeof writer->reserve / sizeof *writer->reserve)
			return EOVERFLOW;
		writer->reserve[writer->reserved] = later_take(&writer->sink, 1);
		if (!writer->reserve[writer->reserved])
			return MDB_MAP_FULL;
		writer->reserved++;
	}
}

int later_free_build(struct later_writer *writer)
{
	size_t transactions = writer->sink.txnid + 1, pages = writer->map_size / LATER_PAGE + 1;
	struct freed *freed = calloc(transactions, sizeof *freed);
	struct later_entry *entries = calloc(transactions, sizeof *entries);
	uint64_t *lists = calloc(pages + transactions, sizeof *lists);
	uint64_t *marks = calloc(pages, sizeof *marks);
	size_t records = 0;
	unsigned spare = 0;
	int rc = freed && entries && lists && marks ? 0 : ENOMEM;

	writer->reserved = writer->reserve_used = writer->run_count = 0;
	writer->free_tree = (struct later_tree){.pad = LATER_PAGE, .flags = MDB_INTEGERKEY};
	if (!rc)
		rc = free_reserve(writer, marks, freed, lists, entries, &records, &spare);
	if (!rc)
		rc = runs_put(writer, freed, records);
	writer->from_reserve = true;
	if (!rc)
		rc = later_tree_build(&writer->sink, entries, records, &writer->free_tree);
	writer->from_reserve = false;
	for (unsigned i = writer->reserved - spare; i < writer->reserved && !rc; i++)
		writer->freed_by[writer->reserve[i]] = writer->sink.txnid;
	writer->taken_count -= spare; /* they are the last ones */
	free(freed);
	free(entries);
	free(lists);
	free(marks);
	return rc;
}
