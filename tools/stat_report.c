/* SPDX-License-Identifier: OLDAP-2.8 */
/* Prints lmdbio-stat's numbers, with their words and in their order. */
#include "stat_report.h"

#include "tool_common.h"
#include "tool_json.h"

#include <inttypes.h>
#include <stdio.h>

void stat_print_record(const struct tree_record *record)
{
	printf("  Tree depth: %u\n", record->depth);
	printf("  Branch pages: %" PRIu64 "\n", record->branch_pages);
	printf("  Leaf pages: %" PRIu64 "\n", record->leaf_pages);
	printf("  Overflow pages: %" PRIu64 "\n", record->overflow_pages);
	printf("  Entries: %" PRIu64 "\n", record->entries);
}

static uint64_t size_from(unsigned i)
{
	return i ? (uint64_t)1 << (i - 1) : 0;
}

static uint64_t size_to(unsigned i)
{
	return i ? ((uint64_t)1 << i) - 1 : 0;
}

static void print_bytes(const char *of, uint64_t bytes)
{
	char text[TOOL_SIZE_TEXT];

	printf("  Bytes of %s: %" PRIu64, of, bytes);
	if (bytes >= 1024)
		printf(" (%s)", tool_size_text(bytes, text));
	putchar('\n');
}

static void print_records(const struct measure *measure)
{
	printf("  Records: %" PRIu64 "\n", measure->entries);
	printf("  Keys: %" PRIu64 "\n", measure->keys);
	print_bytes("keys", measure->key_bytes);
	print_bytes("values", measure->value_bytes);
}

static void print_sizes(const struct measure *measure)
{
	printf("  Values: %" PRIu64 " of %" PRIu64 " to %" PRIu64 " bytes\n", measure->values,
	       measure->smallest, measure->largest);
	for (unsigned i = 0; i < MEASURE_SIZES; i++)
		if (measure->sizes[i])
			printf("    %10" PRIu64 " to %10" PRIu64 " bytes: %" PRIu64 "\n",
			       size_from(i), size_to(i), measure->sizes[i]);
	printf("  In overflow pages: %" PRIu64 " values, %.2f %% of the values' bytes, %.2f %% of "
	       "the pages\n",
	       measure->overflow_values,
	       measure->value_bytes ? measure_share(measure->overflow_bytes, measure->value_bytes)
				    : 0.0,
	       measure->pages ? measure_share(measure->overflow_pages, measure->pages) : 0.0);
}

static void print_layout(const struct measure *measure)
{
	printf("  Layout quality: %.2f %% (%" PRIu64 " of %" PRIu64
	       " steps of a scan lead to the next page)\n",
	       measure_quality(measure), measure->sequential, measure->steps);
	if (measure->chunk_pages)
		printf("  Values across a border of chunks: %" PRIu64 " of %" PRIu64 " (%.2f %%)\n",
		       measure->across, measure->values,
		       measure->values ? measure_share(measure->across, measure->values) : 0.0);
}

void stat_print_measure(const struct measure *measure, unsigned parts)
{
	if (parts & STAT_RECORDS)
		print_records(measure);
	if (parts & STAT_SIZES)
		print_sizes(measure);
	if (parts & STAT_LAYOUT)
		print_layout(measure);
}

static json_t *json_flags(unsigned flags)
{
	static const struct {
		unsigned bit;
		const char *name;
	} names[] = {
		{MDB_REVERSEKEY, "reversekey"}, {MDB_DUPSORT, "dupsort"},
		{MDB_INTEGERKEY, "integerkey"}, {MDB_DUPFIXED, "dupfixed"},
		{MDB_INTEGERDUP, "integerdup"}, {MDB_REVERSEDUP, "reversedup"},
	};
	json_t *list = json_array();

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (flags & names[i].bit)
			json_array_append_new(list, json_string(names[i].name));
	return list;
}

static json_t *json_sizes(const struct measure *measure)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < MEASURE_SIZES; i++)
		if (measure->sizes[i])
			json_array_append_new(list,
					      json_pack("{so, so, so}", "from",
							tool_json_number(size_from(i)), "to",
							tool_json_number(size_to(i)), "values",
							tool_json_number(measure->sizes[i])));
	return json_pack("{so, so, so, so, so, so, so}", "values",
			 tool_json_number(measure->values), "smallest",
			 tool_json_number(measure->smallest), "largest",
			 tool_json_number(measure->largest), "histogram", list, "overflow_values",
			 tool_json_number(measure->overflow_values), "overflow_bytes",
			 tool_json_number(measure->overflow_bytes), "all_pages",
			 tool_json_number(measure->pages));
}

static json_t *json_layout(const struct measure *measure)
{
	json_t *layout = json_pack("{so, so, sf}", "steps", tool_json_number(measure->steps),
				   "sequential", tool_json_number(measure->sequential), "quality",
				   measure_quality(measure) / 100);

	if (measure->chunk_pages)
		json_object_set_new(layout, "across_chunks", tool_json_number(measure->across));
	return layout;
}

json_t *stat_json_database(const char *name, const struct tree_record *record,
			   const struct measure *measure, unsigned parts)
{
	json_t *database =
		json_pack("{so, so, so, so, so, so, so}", "name", tool_json_text(name), "flags",
			  json_flags(record->flags), "depth", tool_json_number(record->depth),
			  "branch_pages", tool_json_number(record->branch_pages), "leaf_pages",
			  tool_json_number(record->leaf_pages), "overflow_pages",
			  tool_json_number(record->overflow_pages), "entries",
			  tool_json_number(record->entries));

	if (parts & STAT_RECORDS)
		json_object_set_new(database, "records",
				    json_pack("{so, so, so, so}", "records",
					      tool_json_number(measure->entries), "keys",
					      tool_json_number(measure->keys), "key_bytes",
					      tool_json_number(measure->key_bytes), "value_bytes",
					      tool_json_number(measure->value_bytes)));
	if (parts & STAT_SIZES)
		json_object_set_new(database, "sizes", json_sizes(measure));
	if (parts & STAT_LAYOUT)
		json_object_set_new(database, "layout", json_layout(measure));
	return database;
}

json_t *stat_json_environment(const MDB_envinfo *info, uint32_t page_size)
{
	return json_pack("{so, so, so, so, so, so}", "map_size", tool_json_number(info->me_mapsize),
			 "page_size", tool_json_number(page_size), "pages_used",
			 tool_json_number(info->me_last_pgno + 1), "last_transaction",
			 tool_json_number(info->me_last_txnid), "max_readers",
			 tool_json_number(info->me_maxreaders), "readers",
			 tool_json_number(info->me_numreaders));
}
