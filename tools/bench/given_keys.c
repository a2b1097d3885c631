/* SPDX-License-Identifier: OLDAP-2.8 */
/* Draws keys from a data set of any size, without reading all of it. */
#include "given_set.h"

#include "bench_keys.h"

#include "format/page.h"
#include "util/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Leaf pages to request from storage before waiting for the first. */
enum { ROUND = 256 };

struct drawn {
	uint64_t page; /* number of the key's leaf page, and the entry there: */
	unsigned index;
	uint32_t size;
	char *key; /* malloc'ed */
};

struct drawing {
	MDB_txn *txn;
	MDB_dbi dbi;
	int file; /* the data file, for readahead; -1: a container */
	uint64_t seed, drawn;
	struct drawn *keys;
	uint64_t n;
};

static uint64_t random_below(struct drawing *drawing, uint64_t n)
{
	return bench_mix(drawing->seed ^ bench_mix(drawing->drawn++)) % n;
}

static int key_add(struct drawing *drawing, struct drawn key, const void *bytes)
{
	key.key = malloc(key.size + 1);
	if (!key.key)
		return ENOMEM;
	memcpy(key.key, bytes, key.size);
	drawing->keys[drawing->n++] = key;
	return 0;
}

/* Draws the number of a leaf: random children from the root on. Does not read leaves. */
static int leaf_draw(struct drawing *drawing, uint64_t *number)
{
	const struct tree_record *record = &drawing->txn->trees[drawing->dbi].record;
	struct snapshot *snapshot = &drawing->txn->snapshot;
	int rc = 0;

	*number = record->root;
	for (unsigned level = 1; level < record->depth && !rc; level++) {
		const uint8_t *page;
		unsigned count;

		rc = tree_page(snapshot, *number, &page, &count);
		if (!rc && (!(page_flags(snapshot_layout(snapshot), page) & PAGE_BRANCH) ||
			    !page_child(snapshot_layout(snapshot), page, snapshot->page_size,
					(unsigned)random_below(drawing, count), number)))
			rc = MDB_CORRUPTED;
	}
	return rc;
}

static int key_draw(struct drawing *drawing, uint64_t number)
{
	struct snapshot *snapshot = &drawing->txn->snapshot;
	struct drawn key = {.page = number};
	const uint8_t *page, *bytes;
	unsigned count;
	int rc = tree_page(snapshot, number, &page, &count);

	if (rc)
		return rc;
	key.index = (unsigned)random_below(drawing, count);
	if (!(page_flags(snapshot_layout(snapshot), page) & PAGE_LEAF) ||
	    !page_entry_key(snapshot_layout(snapshot), page, snapshot->page_size, key.index, &bytes,
			    &key.size))
		return MDB_CORRUPTED;
	return key_add(drawing, key, bytes);
}

static int draw_round(struct drawing *drawing, uint64_t n)
{
	uint32_t page_size = drawing->txn->snapshot.page_size;
	uint64_t leaves[ROUND];
	int rc = 0;

	for (uint64_t i = 0; i < n && !rc; i++) {
		rc = leaf_draw(drawing, &leaves[i]);
		if (!rc && drawing->file >= 0)
			(void)posix_fadvise(drawing->file, (off_t)(leaves[i] * page_size),
					    page_size, POSIX_FADV_WILLNEED);
	}
	for (uint64_t i = 0; i < n && !rc; i++)
		rc = key_draw(drawing, leaves[i]);
	return rc;
}

static int draw_some(struct drawing *drawing, const struct given_draw *draw)
{
	uint64_t until = clock_now() + (uint64_t)(draw->seconds * (double)CLOCK_SECOND);
	int rc = 0;

	while (drawing->n < draw->wanted && !rc && !tool_signal) {
		uint64_t left = draw->wanted - drawing->n;

		rc = draw_round(drawing, left < ROUND ? left : ROUND);
		if (clock_now() > until)
			break;
	}
	return tool_signal ? EINTR : rc;
}

static int draw_all(struct drawing *drawing, const struct given_draw *draw)
{
	struct tool_cursor cursor;
	MDB_val key;
	int rc = 0;

	tool_cursor_open(&cursor, drawing->txn, drawing->dbi);
	while (drawing->n < draw->wanted && !tool_signal &&
	       !(rc = cursor_get(&cursor.cursor, &key, NULL, MDB_NEXT_NODUP)))
		rc = key_add(drawing,
			     (struct drawn){.page = drawing->n, .size = (uint32_t)key.mv_size},
			     key.mv_data);
	tool_cursor_close(&cursor);
	return tool_signal ? EINTR : rc == MDB_NOTFOUND ? 0 : rc;
}

static int compare_places(const void *a, const void *b)
{
	const struct drawn *x = a, *y = b;

	if (x->page != y->page)
		return x->page < y->page ? -1 : 1;
	return (x->index > y->index) - (x->index < y->index);
}

/* Drops keys that were drawn twice. */
static void drop_twins(struct drawing *drawing)
{
	uint64_t n = 0;

	qsort(drawing->keys, drawing->n, sizeof(*drawing->keys), compare_places);
	for (uint64_t i = 0; i < drawing->n; i++)
		if (n && !compare_places(&drawing->keys[n - 1], &drawing->keys[i]))
			free(drawing->keys[i].key);
		else
			drawing->keys[n++] = drawing->keys[i];
	drawing->n = n;
}

/* Makes the list in its own memory, in a random order. */
static int list_make(const struct drawing *drawing, int *ret)
{
	uint64_t n = drawing->n, at = sizeof(struct key_list) + (n + 1) * sizeof(uint64_t);
	uint64_t size = at;
	struct key_list *list;
	int fd, rc = 0;

	for (uint64_t i = 0; i < n; i++)
		size += drawing->keys[i].size;
	fd = memfd_create("lmdbio-bench keys", 0);
	if (fd < 0)
		return errno;
	list = ftruncate(fd, (off_t)size)
		       ? MAP_FAILED
		       : mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (list == MAP_FAILED) {
		rc = errno;
		close(fd);
		return rc;
	}
	list->n = n;
	for (uint64_t i = 0; i < n; i++) {
		const struct drawn *key = &drawing->keys[bench_permute(i, n, drawing->seed)];

		list->offsets[i] = at;
		memcpy((char *)list + at, key->key, key->size);
		at += key->size;
	}
	list->offsets[n] = at;
	munmap(list, size);
	*ret = fd;
	return 0;
}

static int draw_in(struct drawing *drawing, const struct given_set *set,
		   const struct given_draw *draw, MDB_env *env)
{
	int rc = txn_begin(env, NULL, MDB_RDONLY, &drawing->txn);

	if (rc)
		return rc;
	rc = dbi_open(drawing->txn, set->database, 0, &drawing->dbi);
	if (!rc && drawing->txn->trees[drawing->dbi].record.entries <= draw->wanted)
		rc = draw_all(drawing, draw);
	else if (!rc)
		rc = draw_some(drawing, draw);
	txn_abort(drawing->txn);
	if (!rc && !drawing->n)
		rc = MDB_NOTFOUND;
	return rc;
}

int given_draw_keys(const struct tool *tool, const struct given_set *set,
		    const struct given_draw *draw, int *fd, uint64_t *n)
{
	struct drawing drawing = {.seed = draw->seed, .file = -1};
	MDB_env *env;
	int rc = tool_env_open(tool, set->path, set->flags, 1, &env);

	if (rc)
		return rc;
	if (!set->container)
		drawing.file = open(set->file, O_RDONLY | O_CLOEXEC);
	drawing.keys = calloc(draw->wanted, sizeof(*drawing.keys));
	rc = drawing.keys ? draw_in(&drawing, set, draw, env) : ENOMEM;
	if (!rc) {
		drop_twins(&drawing);
		rc = list_make(&drawing, fd);
	}
	if (rc && rc != EINTR)
		tool_read_failed(tool, set->named, rc);
	*n = drawing.n;
	for (uint64_t i = 0; i < drawing.n; i++)
		free(drawing.keys[i].key);
	free(drawing.keys);
	if (drawing.file >= 0)
		close(drawing.file);
	env_close(env);
	return rc;
}
