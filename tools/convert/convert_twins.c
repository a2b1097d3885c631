/* SPDX-License-Identifier: OLDAP-2.8 */
/* Collects the names of databases in one walk over the main database, and looks for them in another
 * walk. */
#include "convert_twins.h"
#include "convert.h"
#include "tool_common.h"
#include "tool_env.h"

#include "format/page.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { NAMES_ROOM = 64 };

struct twins {
	MDB_val *names;
	size_t n, room;
	bool looking; /* for records; else for names */
	const MDB_val *found;
};

static int compare_names(const void *one, const void *other)
{
	const MDB_val *a = one, *b = other;

	if (a->mv_size != b->mv_size)
		return a->mv_size < b->mv_size ? -1 : 1;
	return memcmp(a->mv_data, b->mv_data, a->mv_size);
}

static int name_keep(struct twins *twins, const MDB_val *name)
{
	if (twins->n == twins->room) {
		size_t room = twins->room ? 2 * twins->room : NAMES_ROOM;
		MDB_val *names = reallocarray(twins->names, room, sizeof(*names));

		if (!names)
			return ENOMEM;
		twins->names = names;
		twins->room = room;
	}
	twins->names[twins->n++] = *name;
	return 0;
}

/* Cursors show a name without its NUL. */
static int entry_look(struct twins *twins, const struct entry *entry, const MDB_val *key)
{
	bool is_name = entry_is_database(entry->flags);

	if (!twins->looking)
		return is_name ? name_keep(twins, key) : 0;
	if (!is_name)
		twins->found = bsearch(key, twins->names, twins->n, sizeof(*key), compare_names);
	return 0;
}

static int main_walk(MDB_txn *txn, struct twins *twins)
{
	struct tree tree = {.record = txn->trees[DBI_MAIN].record};
	struct duplicates duplicates;
	struct comparators order;
	struct cursor cursor;
	struct entry entry;
	MDB_val key;
	int rc;

	comparators_default(&order, tree.record.flags);
	cursor_init(&cursor, &txn->snapshot, &tree, &order, &duplicates);
	while (!twins->found && !(rc = cursor_get(&cursor, &key, NULL, MDB_NEXT))) {
		const struct level *level = &cursor.levels[cursor.depth - 1];

		if (!page_whole_entry(snapshot_layout(&txn->snapshot), level->page, cursor.page_size,
				      level->index, &entry))
			rc = MDB_CORRUPTED;
		else
			rc = entry_look(twins, &entry, &key);
		if (rc)
			break;
	}
	cursor_end(&cursor);
	return twins->found || rc == MDB_NOTFOUND ? 0 : rc;
}

int twin_refuse(const char *source, const MDB_val *key)
{
	char escaped[TOOL_ESCAPED_TEXT];

	tool_escape(key->mv_data, key->mv_size, escaped, sizeof(escaped));
	return convert_refuse(source,
			      "LMDB 0.9 cannot hold the database '%s' beside a record of that key",
			      escaped);
}

int twins_refuse(const char *source, MDB_txn *txn)
{
	struct twins twins = {0};
	int rc = main_walk(txn, &twins);

	if (!rc && twins.n) {
		qsort(twins.names, twins.n, sizeof(*twins.names), compare_names);
		twins.looking = true;
		rc = main_walk(txn, &twins);
	}
	if (rc) {
		convert_fail(source, rc);
		rc = tool_read_status(rc);
	} else if (twins.found) {
		rc = twin_refuse(source, twins.found);
	}
	free(twins.names);
	return rc;
}
