/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks the rules that every answer of the read engine keeps, over any bytes.
 */
#include "fuzz_walk.h"

#include "cursor/cursor.h"
#include "format/meta.h"
#include "util/checked.h"
#include "window/window.h"

#include <errno.h>
#include <lmdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Branches may lead to one page many times: such a file is long, not wrong. */
enum { STEPS_MAX = 2000, NAMES_MAX = 12 };

struct walk {
	struct window window;
	struct snapshot snapshot;
	uint64_t sum;
};

uint64_t walk_records;

static void require(bool truth, const char *rule)
{
	if (truth)
		return;
	fprintf(stderr, "broken rule: %s\n", rule);
	abort();
}

/* Touches every byte of a value, which must be inside of the file's whole pages. */
static void look_at(struct walk *walk, const MDB_val *value)
{
	const struct window_view *view = &walk->snapshot.view;
	const uint8_t *from = value->mv_data, *end = view->base + (view->limit << view->page_shift);

	require(from >= view->base && from <= end, "a value begins inside the file");
	require(value->mv_size <= (size_t)(end - from), "a value ends inside the file");
	for (size_t i = 0; i < value->mv_size; i++)
		walk->sum = walk->sum * 31 + from[i];
}

static int answer(struct walk *walk, int rc)
{
	switch (rc) {
	case 0:
	case MDB_NOTFOUND:
	case EINVAL:
	case MDB_INCOMPATIBLE:
	case MDB_BAD_VALSIZE:
		require(!walk->snapshot.blocked, "damage is told when it is met");
		break;
	case MDB_CORRUPTED:
	case MDB_PAGE_NOTFOUND:
		require(walk->snapshot.blocked == SNAPSHOT_DAMAGED, "damage stops the snapshot");
		break;
	case MDB_BAD_TXN:
		require(walk->snapshot.blocked, "only a stopped snapshot answers MDB_BAD_TXN");
		break;
	default:
		require(false, "only documented codes");
	}
	return rc;
}

static void stays_stopped(struct cursor *cursor)
{
	MDB_val key, data;

	require(cursor_get(cursor, &key, &data, MDB_FIRST) == MDB_BAD_TXN,
		"a stopped snapshot stays stopped");
	cursor->snapshot->blocked = 0; /* for the next part of the walk */
}

/* Reads all values of a key, a page at a time. */
static void walk_multiple(struct walk *walk, struct cursor *cursor, MDB_val key)
{
	MDB_val data;
	int rc = answer(walk, cursor_get(cursor, &key, &data, MDB_SET));

	if (!rc && !(rc = answer(walk, cursor_get(cursor, &key, &data, MDB_GET_MULTIPLE))))
		look_at(walk, &data);
	for (unsigned step = 0; !rc && step < STEPS_MAX; step++)
		if (!(rc = answer(walk, cursor_get(cursor, &key, &data, MDB_NEXT_MULTIPLE))))
			look_at(walk, &data);
	walk->snapshot.blocked = 0;
}

/* Walks from one end of a tree to the other, and searches for the records that it finds. */
static void walk_tree(struct walk *walk, struct tree *tree, const struct comparators *order,
		      MDB_cursor_op op)
{
	struct duplicates duplicates, again_duplicates;
	struct cursor cursor, again;
	MDB_val key, data, wanted;
	size_t count;
	int rc = 0;

	cursor_init(&cursor, &walk->snapshot, tree, order, &duplicates);
	for (unsigned step = 0; !rc && step < STEPS_MAX; step++) {
		rc = answer(walk, cursor_get(&cursor, &key, &data, op));
		if (rc)
			break;
		walk_records++;
		look_at(walk, &key);
		look_at(walk, &data);
		if (step % 4)
			continue;
		if (answer(walk, tree_get(&walk->snapshot, tree, order, &key, &wanted)) == 0)
			look_at(walk, &wanted);
		walk->snapshot.blocked = 0;
		cursor_init(&again, &walk->snapshot, tree, order, &again_duplicates);
		wanted = key;
		if (answer(walk, cursor_get(&again, &wanted, &data,
					    again.duplicates ? MDB_GET_BOTH : MDB_SET_RANGE)) ==
		    0) {
			look_at(walk, &wanted);
			look_at(walk, &data);
		}
		walk->snapshot.blocked = 0;
		if (cursor.duplicates)
			rc = answer(walk, cursor_count(&cursor, &count));
		if (tree->record.flags & MDB_DUPFIXED)
			walk_multiple(walk, &again, key);
	}
	if (walk->snapshot.blocked)
		stays_stopped(&cursor);
}

static void walk_both_ways(struct walk *walk, const struct tree_record *record,
			   struct comparators *order)
{
	struct tree tree = {.record = *record};

	walk_tree(walk, &tree, order, MDB_NEXT);
	walk_tree(walk, &tree, order, MDB_PREV);
}

/* Makes one operation of the script: the first byte chooses the operation, the second the key and
 * the value. */
static void script_step(struct walk *walk, struct cursor *cursor, const uint8_t *step)
{
	static const char *const words[] = {"a",    "b",     "c",    "d",        "alone",
					    "dups", "plain", "030",  "33",       "5",
					    "27",   "",      "zzzz", "\1\0\0\0", "12345678"};
	const size_t n_words = sizeof(words) / sizeof(words[0]);
	MDB_cursor_op op = (MDB_cursor_op)(step[0] % (MDB_PREV_MULTIPLE + 2));
	bool blind = step[0] & 0x80;
	const char *key_word = words[step[1] % n_words];
	const char *data_word = words[step[1] / n_words % n_words];
	MDB_val key = {strlen(key_word), (void *)(uintptr_t)key_word};
	MDB_val data = {strlen(data_word), (void *)(uintptr_t)data_word};
	uint64_t number = (step[1] % 16u) * 1000;
	size_t count;

	if (step[1] >= 240)
		key = (MDB_val){sizeof(number), &number};
	if (answer(walk, cursor_get(cursor, &key, blind ? NULL : &data, op)) == 0) {
		walk->sum += key.mv_size;
		if (op == MDB_NEXT || op == MDB_PREV || op == MDB_SET_RANGE)
			look_at(walk, &key);
		if (!blind && (op == MDB_NEXT || op == MDB_PREV || op == MDB_SET))
			look_at(walk, &data);
	}
	if (!walk->snapshot.blocked)
		answer(walk, cursor_count(cursor, &count));
}

static void walk_script(struct walk *walk, const struct tree_record *record,
			struct comparators *order, const uint8_t *script, size_t size)
{
	struct tree tree = {.record = *record};
	struct duplicates duplicates;
	struct cursor cursor;

	cursor_init(&cursor, &walk->snapshot, &tree, order, &duplicates);
	for (; size >= 2; script += 2, size -= 2) {
		script_step(walk, &cursor, script);
		if (walk->snapshot.blocked) {
			stays_stopped(&cursor);
			cursor_init(&cursor, &walk->snapshot, &tree, order, &duplicates);
		}
	}
}

/* Returns the name of a database in its key. In LMDB 1.0 programs see the name without the last
 * byte. */
static MDB_val name_of(const struct walk *walk, const MDB_val *key)
{
	static char name[FORMAT_PAGE_MAX];
	size_t end = snapshot_layout(&walk->snapshot)->name_end;

	if (!end || key->mv_size + end > sizeof(name))
		return *key;
	memcpy(name, key->mv_data, key->mv_size);
	name[key->mv_size] = 0;
	return (MDB_val){key->mv_size + end, name};
}

/* Walks the main tree, and every database that it names. */
static void walk_main(struct walk *walk, const struct tree_record *record, const uint8_t *script,
		      size_t script_size)
{
	struct tree tree = {.record = *record};
	struct comparators order, named_order;
	struct duplicates duplicates;
	struct tree_record named;
	struct cursor cursor;
	MDB_val key, name;
	unsigned names = 0;

	comparators_default(&order, record->flags);
	walk_both_ways(walk, record, &order);
	cursor_init(&cursor, &walk->snapshot, &tree, &order, &duplicates);
	for (unsigned step = 0; step < STEPS_MAX && names < NAMES_MAX; step++) {
		int rc = answer(walk, cursor_get(&cursor, &key, NULL, MDB_NEXT_NODUP));

		if (rc)
			break;
		name = name_of(walk, &key);
		rc = answer(walk,
			    tree_find_named(&walk->snapshot, &tree, &order.key, &name, &named));
		walk->snapshot.blocked = 0;
		if (rc)
			continue;
		comparators_default(&named_order, named.flags);
		walk_both_ways(walk, &named, &named_order);
		/* The first byte of the script chooses the database. */
		if (script_size && script[0] % 8 == names)
			walk_script(walk, &named, &named_order, script + 1, script_size - 1);
		names++;
	}
	walk->snapshot.blocked = 0;
	if (script_size && script[0] % 8 == 7)
		walk_script(walk, record, &order, script + 1, script_size - 1);
}

static void walk_meta(struct walk *walk, const uint8_t *page, size_t size, const uint8_t *script,
		      size_t script_size)
{
	struct comparators number_order;
	struct meta meta;
	int rc = meta_parse(&meta, page, walk->snapshot.format);

	require(!rc, "a page that was judged sound parses");
	if (meta.last_page == UINT64_MAX ||
	    window_look(&walk->window, meta.last_page + 1, size, &walk->snapshot.view))
		return;
	walk->snapshot.page_size = meta.page_size;
	walk->snapshot.blocked = 0;
	comparators_default(&number_order, MDB_INTEGERKEY);
	walk_both_ways(walk, &meta.free_tree, &number_order);
	walk_main(walk, &meta.main_tree, script, script_size);
}

uint64_t walk_file_of(enum format format, const uint8_t *bytes, size_t size, const uint8_t *script,
		      size_t script_size)
{
	const uint32_t shift = page_layouts[format].shift;
	struct walk walk = {.snapshot.format = format};
	struct meta first, newer;
	uint32_t page_size;
	int newest;

	walk_records = 0;
	/* The first meta page's page size is the offset of the second one. */
	if (size < shift + META_END || meta_parse(&first, bytes, format) ||
	    size < first.page_size + shift + META_END ||
	    meta_judge(bytes, bytes + first.page_size, &newer, format) ||
	    size < FORMAT_METAS * (size_t)newer.page_size)
		return 0;
	page_size = newer.page_size;
	require(page_size >= FORMAT_PAGE_MIN && page_size <= page_layouts[format].page_max,
		"page size");
	window_borrow(&walk.window, bytes, size, page_size);
	newest = load64(bytes + page_size + shift + META_TXNID) > load64(bytes + shift + META_TXNID);
	walk_meta(&walk, window_meta(&walk.window, (unsigned)newest), size, script, script_size);
	window_close(&walk.window);
	return walk.sum + 1;
}

uint64_t walk_file(const uint8_t *bytes, size_t size, const uint8_t *script, size_t script_size)
{
	return walk_file_of(FORMAT_0_9, bytes, size, script, script_size);
}

void walk_input(enum format format, const uint8_t *data, size_t size)
{
	size_t script;
	uint8_t *file;

	if (size < 2)
		return;
	size -= 2;
	script = load16(data + size) % 256;
	if (script > size)
		script = size;
	size -= script;
	/* Without the script behind it, so that a sanitizer sees a read past the file's end. */
	file = malloc(size ? size : 1);
	if (!file)
		return;
	memcpy(file, data, size);
	walk_file_of(format, file, size, data + size, script);
	free(file);
}
