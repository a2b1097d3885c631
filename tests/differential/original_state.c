/* SPDX-License-Identifier: OLDAP-2.8 */
/* Reads the state of the original's cursor, whose layout all releases from 0.9.24 to 0.9.36 share. */
#include "original_state.h"
#include "db_make.h"
#include "origin/origin.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
	cursor_initialized = 0x01,
	cursor_eof = 0x02,
	node_dupdata = 0x04,
	page_header = 16,
	node_header = 8,
	stack_depth = 32,
};

/* The fields of the original's cursor, in its order; a sub-cursor begins with one of its own. */
struct cursor_view {
	void *next, *backup;
	struct cursor_view *sub;
	MDB_txn *txn;
	MDB_dbi dbi;
	void *db, *dbx;
	unsigned char *dbflag;
	unsigned short snum, top;
	unsigned int flags;
	const unsigned char *page[stack_depth];
	uint16_t index[stack_depth];
};

static unsigned read16(const unsigned char *bytes)
{
	uint16_t value;

	memcpy(&value, bytes, sizeof value);
	return value;
}

static const struct cursor_view *view(MDB_cursor *original)
{
	return (const struct cursor_view *)(void *)original;
}

static unsigned page_nodes(const unsigned char *page)
{
	return (read16(page + 12) - page_header) / 2;
}

static unsigned top_nodes(const struct cursor_view *cursor)
{
	return page_nodes(cursor->page[cursor->top]);
}

static bool is_past(const struct cursor_view *cursor)
{
	return cursor->index[cursor->top] >= top_nodes(cursor);
}

static bool node_has_dups(const unsigned char *page, unsigned index)
{
	unsigned at = read16(page + page_header + 2 * index);

	return (read16(page + at + 4) & node_dupdata) != 0;
}

bool original_state_positioned(MDB_cursor *original)
{
	return (view(original)->flags & cursor_initialized) != 0;
}

/* The slot behind the last one: names something inside the page that has no F_DUPDATA. */
static bool leftover_is_harmless(const struct cursor_view *cursor)
{
	const unsigned char *page = cursor->page[cursor->top];
	unsigned nodes = page_nodes(page);
	unsigned at = read16(page + page_header + 2 * nodes);
	MDB_stat stat;

	if (lmdbio_orig_mdb_stat(cursor->txn, cursor->dbi, &stat) != 0)
		return false;
	if (page_header + 2 * nodes + 2 > stat.ms_psize || at + node_header > stat.ms_psize)
		return false;
	return !node_has_dups(page, nodes);
}

static bool last_leftover_is_harmless(MDB_cursor *original)
{
	MDB_cursor *scratch;
	MDB_val key, data;
	bool harmless = true;

	if (lmdbio_orig_mdb_cursor_open(view(original)->txn, view(original)->dbi, &scratch) != 0)
		return true; /* then the operation fails before it looks */
	if (lmdbio_orig_mdb_cursor_get(scratch, &key, &data, MDB_LAST) == 0)
		harmless = leftover_is_harmless(view(scratch));
	lmdbio_orig_mdb_cursor_close(scratch);
	return harmless;
}

/* Whether the original is 0.9.`patch` or newer. */
static bool original_since(int patch)
{
	int major, minor, found;

	lmdbio_orig_mdb_version(&major, &minor, &found);
	return found >= patch;
}

static bool moves_on(MDB_cursor_op op)
{
	return op == MDB_NEXT || op == MDB_NEXT_DUP || op == MDB_NEXT_NODUP ||
	       op == MDB_NEXT_MULTIPLE;
}

static bool moves_back(MDB_cursor_op op)
{
	return op == MDB_PREV || op == MDB_PREV_DUP || op == MDB_PREV_NODUP;
}

/* The moves that go through the sub-cursor first. */
static bool uses_sub(MDB_cursor_op op)
{
	return op == MDB_NEXT || op == MDB_NEXT_DUP || op == MDB_PREV || op == MDB_PREV_DUP ||
	       op == MDB_NEXT_MULTIPLE;
}

const char *original_state_forbids(MDB_cursor *original, MDB_cursor_op op, bool null_data,
				   bool prepared)
{
	const struct cursor_view *cursor = view(original);
	MDB_stat stat;
	unsigned flags;

	if (!cursor->sub || !(moves_on(op) || moves_back(op)))
		return NULL;
	/* a transaction that is reset refuses before it looks */
	if (lmdbio_orig_mdb_stat(cursor->txn, cursor->dbi, &stat) != 0)
		return NULL;
	if (moves_back(op) && original_since(27) &&
	    (!(cursor->flags & cursor_initialized) || is_past(cursor)))
		return NULL; /* it ignores what lies behind the last node */
	if (!(cursor->flags & cursor_initialized))
		return moves_back(op) && !last_leftover_is_harmless(original) ? "leftover-node"
									      : NULL;
	if (moves_on(op) && (cursor->flags & cursor_eof) &&
	    cursor->index[cursor->top] + 1u >= top_nodes(cursor))
		return NULL; /* answered without a look at the node */
	if (is_past(cursor))
		return leftover_is_harmless(cursor) ? NULL : "leftover-node";
	if (!uses_sub(op) || !node_has_dups(cursor->page[cursor->top], cursor->index[cursor->top]))
		return NULL;
	if (!(cursor->sub->flags & cursor_initialized) && !prepared)
		return "stale-subcursor";
	if (null_data && op != MDB_NEXT_MULTIPLE &&
	    lmdbio_orig_mdb_dbi_flags(cursor->txn, cursor->dbi, &flags) == 0 &&
	    (flags & MDB_DUPFIXED))
		return "null-fixed";
	return NULL;
}

const char *original_state_forbids_count(MDB_cursor *original)
{
	const struct cursor_view *cursor = view(original);

	if (cursor->sub && (cursor->flags & cursor_initialized) && !(cursor->flags & cursor_eof) &&
	    cursor->snum > 0 && is_past(cursor))
		return "leftover-node";
	return NULL;
}

bool original_state_prepared(bool before, MDB_cursor_op op, bool fresh, bool null_data,
			     bool empty_key, int rc)
{
	switch (op) {
	case MDB_FIRST:
	case MDB_LAST:
		return rc == 0 && (!null_data || original_since(27));
	case MDB_SET:
	case MDB_SET_KEY:
	case MDB_SET_RANGE:
	case MDB_GET_BOTH:
	case MDB_GET_BOTH_RANGE:
		if (rc == EINVAL || rc == MDB_INCOMPATIBLE || rc == MDB_BAD_TXN || empty_key)
			return before;
		return rc == 0;
	case MDB_NEXT:
	case MDB_NEXT_DUP:
	case MDB_NEXT_NODUP:
	case MDB_NEXT_MULTIPLE:
		if (fresh) /* the same as MDB_FIRST */
			return !null_data || original_since(27);
		return rc == 0 || before;
	case MDB_PREV:
	case MDB_PREV_DUP:
	case MDB_PREV_NODUP:
	case MDB_PREV_MULTIPLE:
		return rc == 0 || fresh || before;
	default:
		return before;
	}
}

/* Key "a" has one item, "b" three, "c" one: each step's expected index and flags. */
static const char *check_steps(MDB_txn *txn, MDB_dbi dbi)
{
	MDB_val key = {1, (char[]){"b"}}, data;
	MDB_cursor *cursor;
	const struct cursor_view *seen;
	const char *wrong = NULL;

	if (lmdbio_orig_mdb_cursor_open(txn, dbi, &cursor) != 0)
		return "no cursor";
	seen = view(cursor);
	if (seen->txn != txn || seen->dbi != dbi || seen->flags != 0 || !seen->sub)
		wrong = "a fresh cursor";
	else if (lmdbio_orig_mdb_cursor_get(cursor, &key, &data, MDB_LAST) != 0 || seen->top != 0 ||
		 seen->snum != 1 || seen->index[0] != 2 || top_nodes(seen) != 3 ||
		 seen->flags != (cursor_initialized | cursor_eof) || is_past(seen))
		wrong = "a cursor on the last item";
	key = (MDB_val){1, (char[]){"b"}};
	if (!wrong && (lmdbio_orig_mdb_cursor_get(cursor, &key, &data, MDB_SET) != 0 ||
		       seen->index[0] != 1 || !node_has_dups(seen->page[0], 1) ||
		       node_has_dups(seen->page[0], 0) || seen->sub->index[0] != 0 ||
		       !(seen->sub->flags & cursor_initialized) || top_nodes(seen->sub) != 3))
		wrong = "a cursor on duplicates";
	if (!wrong && (lmdbio_orig_mdb_cursor_get(cursor, &key, &data, MDB_LAST_DUP) != 0 ||
		       seen->sub->index[0] != 2))
		wrong = "a cursor on the last duplicate";
	key = (MDB_val){1, (char[]){"d"}};
	if (!wrong && (lmdbio_orig_mdb_cursor_get(cursor, &key, &data, MDB_SET) != MDB_NOTFOUND ||
		       !is_past(seen) || (seen->sub->flags & cursor_initialized)))
		wrong = "a cursor past the last item";
	lmdbio_orig_mdb_cursor_close(cursor);
	return wrong;
}

const char *original_state_check(const char *directory)
{
	static const char *const items[][2] = {
		{"a", "1"}, {"b", "1"}, {"b", "2"}, {"b", "3"}, {"c", "1"}};
	const char *wrong = "the check's own database";
	char path[1100];
	MDB_env *env = NULL;
	MDB_txn *txn = NULL;
	MDB_dbi dbi;
	int rc;

	snprintf(path, sizeof path, "%.1000s/check.mdb", directory);
	rc = lmdbio_orig_mdb_env_create(&env);
	if (rc == 0)
		rc = lmdbio_orig_mdb_env_open(env, path, MDB_NOSUBDIR | MDB_NOLOCK | MDB_NOSYNC,
					      0600);
	if (rc == 0)
		rc = lmdbio_orig_mdb_txn_begin(env, NULL, 0, &txn);
	if (rc == 0)
		rc = lmdbio_orig_mdb_dbi_open(txn, NULL, MDB_DUPSORT, &dbi);
	for (size_t i = 0; i < sizeof items / sizeof *items && rc == 0; i++) {
		MDB_val key = {1, (void *)(uintptr_t)items[i][0]};
		MDB_val data = {1, (void *)(uintptr_t)items[i][1]};

		rc = lmdbio_orig_mdb_put(txn, dbi, &key, &data, 0);
	}
	if (rc == 0) {
		rc = lmdbio_orig_mdb_txn_commit(txn);
		txn = NULL;
	}
	if (rc == 0)
		rc = lmdbio_orig_mdb_txn_begin(env, NULL, MDB_RDONLY, &txn);
	if (rc == 0)
		wrong = check_steps(txn, dbi);
	if (txn)
		lmdbio_orig_mdb_txn_abort(txn);
	if (env)
		lmdbio_orig_mdb_env_close(env);
	unlink(path);
	return wrong;
}
