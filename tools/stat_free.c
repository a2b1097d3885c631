/* SPDX-License-Identifier: OLDAP-2.8 */
/* Reads the list of a transaction: its length, then page numbers, the highest first. */
#include "stat_free.h"

#include "stat_report.h"
#include "tool_env.h"
#include "tool_json.h"

#include <inttypes.h>
#include <stdio.h>

/* The page numbers that one transaction freed: page i counts from the lowest. */
struct freed {
	uint64_t txnid, count;
	const uint8_t *ids;
};

static uint64_t freed_page(const struct freed *freed, uint64_t i)
{
	return load64(freed->ids + (freed->count - 1 - i) * sizeof(uint64_t));
}

/* Returns how many consecutive pages begin with page i. */
static uint64_t freed_span(const struct freed *freed, uint64_t i)
{
	uint64_t span = 1;

	while (i + span < freed->count &&
	       freed_page(freed, i + span) == freed_page(freed, i) + span)
		span++;
	return span;
}

static bool freed_parse(struct freed *freed, const MDB_val *key, const MDB_val *data)
{
	if (key->mv_size != sizeof(uint64_t) || data->mv_size < sizeof(uint64_t))
		return false;
	freed->txnid = load64(key->mv_data);
	freed->count = load64(data->mv_data);
	freed->ids = (const uint8_t *)data->mv_data + sizeof(uint64_t);
	return freed->count <= data->mv_size / sizeof(uint64_t) - 1;
}

static void freed_measure(const struct freed *freed, uint64_t *longest, bool *sorted)
{
	uint64_t before = 1, span;

	*longest = 0;
	*sorted = true;
	for (uint64_t i = 0; i < freed->count; i += span) {
		span = freed_span(freed, i);
		if (span > *longest)
			*longest = span;
		if (freed_page(freed, i) <= before)
			*sorted = false;
		before = freed_page(freed, i) + span - 1;
	}
}

static void freed_print(const struct freed *freed, int detail)
{
	uint64_t longest, span;
	bool sorted;

	freed_measure(freed, &longest, &sorted);
	printf("    Transaction %" PRIu64 ", %" PRIu64 " pages, maxspan %" PRIu64 "%s\n",
	       freed->txnid, freed->count, longest, sorted ? "" : " [bad sequence]");
	for (uint64_t i = 0; detail > 2 && i < freed->count; i += span) {
		span = freed_span(freed, i);
		printf("     %9" PRIu64, freed_page(freed, i));
		if (span > 1)
			printf("[%" PRIu64 "]", span);
		putchar('\n');
	}
}

static json_t *freed_json(const struct freed *freed, int detail)
{
	uint64_t longest, span;
	json_t *json, *list;
	bool sorted;

	freed_measure(freed, &longest, &sorted);
	json = json_pack("{so, so, so, sb}", "transaction", tool_json_number(freed->txnid), "pages",
			 tool_json_number(freed->count), "longest_span", tool_json_number(longest),
			 "sorted", sorted);
	if (detail <= 2)
		return json;
	list = json_array();
	for (uint64_t i = 0; i < freed->count; i += span) {
		span = freed_span(freed, i);
		json_array_append_new(list,
				      json_pack("[o, o]", tool_json_number(freed_page(freed, i)),
						tool_json_number(span)));
	}
	json_object_set_new(json, "spans", list);
	return json;
}

int stat_free_list(MDB_txn *txn, int detail, json_t **json)
{
	json_t *transactions = json && detail > 1 ? json_array() : NULL;
	const struct tree_record *record = &txn->trees[DBI_FREE].record;
	struct tool_cursor cursor;
	struct freed freed;
	uint64_t pages = 0;
	MDB_val key, data;
	int rc;

	if (!json) {
		printf("Freelist Status\n");
		stat_print_record(record);
	}
	tool_cursor_open(&cursor, txn, DBI_FREE);
	while (!(rc = cursor_get(&cursor.cursor, &key, &data, MDB_NEXT))) {
		if (!freed_parse(&freed, &key, &data)) {
			rc = MDB_CORRUPTED;
			break;
		}
		pages += freed.count;
		if (transactions)
			json_array_append_new(transactions, freed_json(&freed, detail));
		else if (detail > 1)
			freed_print(&freed, detail);
	}
	tool_cursor_close(&cursor);
	if (rc != MDB_NOTFOUND) {
		json_decref(transactions);
		return rc;
	}
	if (!json) {
		printf("  Free pages: %" PRIu64 "\n", pages);
		return 0;
	}
	*json = stat_json_database("", record, NULL, 0);
	json_object_del(*json, "name");
	json_object_del(*json, "flags");
	json_object_set_new(*json, "free_pages", tool_json_number(pages));
	if (transactions)
		json_object_set_new(*json, "transactions", transactions);
	return 0;
}
