/* SPDX-License-Identifier: OLDAP-2.8 */
/* Runs the live writer's transactions on a data file of LMDB 1.0. */
#include "later_writer_private.h"
#include "later_lock.h"

#include "format/layout.h"
#include "util/checked.h"

#include <errno.h>
#include <fcntl.h>
#include <lmdb.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
	META_AT = 24, /* of the meta record in its page */
	META_SIZE = META_END - META_MAGIC,
	VERSION_1_0 = 3,
};

/* --- pages --------------------------------------------------------------------------------------- */

static bool is_free(const struct later_writer *writer, uint64_t page)
{
	return writer->freed_by[page] != IN_USE && writer->freed_by[page] < writer->oldest;
}

static uint64_t run_find(const struct later_writer *writer, unsigned count)
{
	unsigned found = 0;

	for (uint64_t page = FORMAT_METAS; page < writer->next; page++) {
		found = is_free(writer, page) ? found + 1 : 0;
		if (found == count)
			return page - count + 1;
	}
	return 0;
}

uint64_t later_take(struct later_sink *sink, unsigned count)
{
	struct later_writer *writer = (struct later_writer *)sink;
	uint64_t page;

	if (writer->from_reserve)
		return writer->reserve_used < writer->reserved
			       ? writer->reserve[writer->reserve_used++]
			       : 0;
	page = run_find(writer, count);
	if (!page) {
		page = writer->next;
		if ((page + count) * LATER_PAGE > writer->map_size)
			return 0;
		writer->next += count;
	}
	for (unsigned i = 0; i < count; i++) {
		writer->freed_by[page + i] = IN_USE;
		writer->taken[writer->taken_count++] = page + i;
	}
	return page;
}

static int put(struct later_sink *sink, uint64_t number, const void *bytes, unsigned count)
{
	struct later_writer *writer = (struct later_writer *)sink;
	size_t length = (size_t)count * LATER_PAGE;

	if (writer->map) {
		memcpy(writer->map + number * LATER_PAGE, bytes, length);
		return 0;
	}
	errno = ENOSPC;
	return pwrite(writer->fd, bytes, length, (off_t)(number * LATER_PAGE)) == (ssize_t)length
		       ? 0
		       : errno;
}

/* --- content -------------------------------------------------------------------------------------- */

static const uint8_t *value_fill(uint64_t txn, uint32_t key, uint32_t size)
{
	static uint8_t bytes[LIVE_GROWTH_SIZE];
	struct live_value head = {txn, key, size};

	memset(bytes, live_fill(txn, key), size);
	memcpy(bytes, &head, sizeof head);
	return bytes;
}

/* An entry of a leaf, with its value where that stands best. `room` keeps what the entry points to. */
static int entry_make(struct later_writer *writer, struct later_entry *entry, const void *value,
		      uint32_t size, uint64_t room[3], uint64_t *overflow)
{
	int rc;

	entry->data = value;
	entry->data_size = entry->bytes = size;
	if (ENTRY_KEY + entry->key_size + size <= LATER_ENTRY_MOST)
		return 0;
	rc = later_run_build(&writer->sink, value, size, room);
	*overflow += room[2];
	entry->data = room;
	entry->bytes = LATER_REFERENCE;
	entry->flags = ENTRY_BIG;
	return rc;
}

static int dups_build(struct later_writer *writer, struct later_tree *tree)
{
	static uint32_t keys[LIVE_DUP_KEYS];
	static uint8_t inside[LIVE_DUP_KEYS][LATER_ENTRY_MOST];
	struct later_entry entries[LIVE_DUP_KEYS] = {{0}};
	uint64_t items[1000], total = 0;
	struct later_tree one;
	int rc = 0;

	for (uint32_t k = 0; k < LIVE_DUP_KEYS && !rc; k++) {
		unsigned count = live_dups(k);
		struct later_entry *entry = &entries[k];

		for (unsigned j = 0; j < count; j++)
			items[j] = writer->sink.txnid << 16 | j;
		keys[k] = k;
		*entry = (struct later_entry){.key = &keys[k],
					      .key_size = sizeof keys[k],
					      .data = inside[k]};
		if (count == 1) {
			memcpy(inside[k], items, sizeof *items);
			entry->bytes = sizeof *items;
		} else if (count < 100) {
			entry->bytes = later_items_inside(items, count, inside[k]);
			entry->flags = ENTRY_DUPS;
		} else {
			one = (struct later_tree){.pad = sizeof *items,
						  .flags = MDB_DUPFIXED | MDB_INTEGERKEY};
			rc = later_items_build(&writer->sink, items, count, &one);
			memcpy(inside[k], &one, sizeof one);
			entry->bytes = sizeof one;
			entry->flags = ENTRY_DUPS | ENTRY_SUBTREE;
		}
		entry->data_size = entry->bytes;
		total += count;
	}
	*tree = (struct later_tree){.flags = MDB_INTEGERKEY | MDB_DUPSORT | MDB_DUPFIXED |
					     MDB_INTEGERDUP};
	if (!rc)
		rc = later_tree_build(&writer->sink, entries, LIVE_DUP_KEYS, tree);
	tree->entries = total;
	return rc;
}

/* The values stay where they are; the tree over them is new. */
static int growth_build(struct later_writer *writer, size_t count, struct later_tree *tree)
{
	struct later_entry *entries = calloc(count + 1, sizeof *entries);
	char(*names)[24] = calloc(count + 1, sizeof *names);
	int rc = entries && names ? 0 : ENOMEM;

	*tree = (struct later_tree){0};
	for (size_t i = 0; i < count && !rc; i++) {
		snprintf(names[i], sizeof names[i], "growth%06u", (unsigned)i);
		entries[i] = (struct later_entry){.key = names[i],
						  .key_size = (uint32_t)strlen(names[i]),
						  .data = writer->grown[i].reference,
						  .data_size = LIVE_GROWTH_SIZE,
						  .bytes = LATER_REFERENCE,
						  .flags = ENTRY_BIG};
		tree->overflow_pages += writer->grown[i].reference[2];
	}
	if (!rc)
		rc = later_tree_build(&writer->sink, entries, count, tree);
	free(entries);
	free(names);
	return rc;
}

static int growth_add(struct later_writer *writer, size_t count)
{
	struct grown *grown = realloc(writer->grown, (count + 1) * sizeof *grown);
	size_t taken = writer->taken_count;
	int rc = grown ? 0 : ENOMEM;

	if (grown)
		writer->grown = grown;
	for (size_t i = writer->grown_count; i < count && !rc; i++)
		rc = later_run_build(&writer->sink,
				     value_fill(writer->sink.txnid, (uint32_t)i, LIVE_GROWTH_SIZE),
				     LIVE_GROWTH_SIZE, writer->grown[i].reference);
	writer->taken_count = taken; /* no later transaction replaces them */
	return rc;
}

static int main_build(struct later_writer *writer, size_t grown)
{
	enum { NAMES = 3, ALL = NAMES + LIVE_KEYS };
	static const char dups[] = "dups", growth[] = "growth";
	static char keys[LIVE_KEYS][12];
	static uint64_t rooms[LIVE_KEYS][3];
	static uint8_t values[LIVE_KEYS][400];
	struct live_count count = {writer->sink.txnid, grown};
	struct later_tree *tree = &writer->main_tree, dup_tree, growth_tree;
	struct later_entry entries[ALL] = {
		{.key = dups, .key_size = sizeof dups, .data = &dup_tree, .flags = ENTRY_SUBTREE},
		{.key = growth, .key_size = sizeof growth, .data = &growth_tree,
		 .flags = ENTRY_SUBTREE},
		{.key = "growth-count", .key_size = 12, .data = &count},
	};
	int rc = growth_build(writer, grown, &growth_tree);

	if (!rc)
		rc = dups_build(writer, &dup_tree);
	*tree = (struct later_tree){0};
	for (unsigned i = 0; i < NAMES; i++)
		entries[i].data_size = entries[i].bytes =
			i == NAMES - 1 ? sizeof count : LATER_TREE;
	for (uint32_t k = 0; k < LIVE_KEYS && !rc; k++) {
		uint64_t varied = (writer->sink.txnid * 2654435761u + k * 40503u) % 9973;
		uint32_t size = (uint32_t)(sizeof(struct live_value) +
					   (k % 3 ? varied % 300 : 3000 + varied));
		struct later_entry *entry = &entries[NAMES + k];
		const uint8_t *value = value_fill(writer->sink.txnid, k, size);

		snprintf(keys[k], sizeof keys[k], "key%06u", (unsigned)k);
		*entry = (struct later_entry){.key = keys[k], .key_size = 9};
		if (size <= sizeof values[k])
			value = memcpy(values[k], value, size);
		rc = entry_make(writer, entry, value, size, rooms[k], &tree->overflow_pages);
	}
	return rc ? rc : later_tree_build(&writer->sink, entries, ALL, tree);
}

/* --- transactions ---------------------------------------------------------------------------------- */

static int sync_all(struct later_writer *writer)
{
	if (writer->map && !(writer->flags & MDB_NOSYNC))
		return msync(writer->map, writer->map_size,
			     writer->flags & MDB_MAPASYNC ? MS_ASYNC : MS_SYNC)
			       ? errno
			       : 0;
	return writer->map || writer->flags & MDB_NOSYNC || !fdatasync(writer->fd) ? 0 : errno;
}

/* What makes the new pages a snapshot. Written with the transaction's number last. */
static int meta_write(struct later_writer *writer)
{
	uint64_t number = writer->sink.txnid & 1;
	uint8_t page[META_AT + META_SIZE] = {0}, *meta = page + META_AT, *there;
	const size_t last = META_TXNID - META_MAGIC;

	store64(page, number);
	store16(page + 18, PAGE_META);
	store32(meta, FORMAT_MAGIC);
	store32(meta + META_VERSION - META_MAGIC, VERSION_1_0);
	store64(meta + META_MAPSIZE - META_MAGIC, writer->map_size);
	memcpy(meta + META_FREE_TREE - META_MAGIC, &writer->free_tree, LATER_TREE);
	memcpy(meta + META_MAIN_TREE - META_MAGIC, &writer->main_tree, LATER_TREE);
	store64(meta + META_LAST_PAGE - META_MAGIC, writer->next - 1);
	store64(meta + last, writer->sink.txnid);
	if (!writer->map)
		return pwrite(writer->fd, page, sizeof page, (off_t)(number * LATER_PAGE)) ==
				       (ssize_t)sizeof page
			       ? 0
			       : EIO;
	there = writer->map + number * LATER_PAGE;
	memcpy(there, page, META_AT + last);
	atomic_thread_fence(memory_order_release);
	memcpy(there + META_AT + last, meta + last, sizeof(uint64_t));
	return 0;
}

static int pages_room(struct later_writer *writer)
{
	size_t pages = writer->map_size / LATER_PAGE + 1, before = writer->next;
	uint64_t *freed_by = realloc(writer->freed_by, pages * sizeof *freed_by);
	uint64_t *taken = realloc(writer->taken, 2 * pages * sizeof *taken);

	writer->freed_by = freed_by ? freed_by : writer->freed_by;
	writer->taken = taken ? taken : writer->taken;
	if (!freed_by || !taken)
		return ENOMEM;
	memset(freed_by + before, 0, (pages - before) * sizeof *freed_by);
	return 0;
}

static int content_write(struct later_writer *writer, size_t grown)
{
	int rc = growth_add(writer, grown);

	if (!rc)
		rc = main_build(writer, grown);
	if (!rc)
		rc = later_free_build(writer);
	if (!rc)
		rc = sync_all(writer);
	if (!rc)
		rc = meta_write(writer);
	return rc ? rc : sync_all(writer);
}

int later_writer_write(struct later_writer *writer, unsigned more)
{
	size_t bytes = (writer->map_size / LATER_PAGE + 1) * sizeof(uint64_t);
	uint64_t next = writer->next, *freed_by = malloc(bytes);
	size_t grown = writer->grown_count + more;
	int rc = freed_by ? later_lock_begin(writer->lock) : ENOMEM;

	if (rc) {
		free(freed_by);
		return rc;
	}
	memcpy(freed_by, writer->freed_by, bytes);
	writer->before = writer->taken_count;
	writer->sink.txnid = writer->txnid + 1;
	writer->oldest = later_lock_oldest(writer->lock, writer->txnid);
	rc = content_write(writer, grown);
	if (rc) {
		memcpy(writer->freed_by, freed_by, bytes);
		writer->next = next;
		writer->taken_count = writer->before;
	} else {
		for (size_t i = 0; i < writer->before; i++)
			writer->freed_by[writer->taken[i]] = writer->sink.txnid;
		writer->taken_count -= writer->before;
		memmove(writer->taken, writer->taken + writer->before,
			writer->taken_count * sizeof *writer->taken);
		writer->grown_count = grown;
		writer->txnid++;
		later_lock_tell(writer->lock, writer->txnid);
	}
	later_lock_end(writer->lock);
	free(freed_by);
	return rc;
}

int later_writer_enlarge(struct later_writer *writer, size_t map_size)
{
	if (writer->map)
		munmap(writer->map, writer->map_size);
	writer->map = NULL;
	writer->map_size = map_size;
	if (writer->flags & MDB_WRITEMAP) {
		if (ftruncate(writer->fd, (off_t)map_size))
			return errno;
		writer->map = mmap(NULL, map_size, PROT_READ | PROT_WRITE, MAP_SHARED, writer->fd, 0);
		if (writer->map == MAP_FAILED) {
			writer->map = NULL;
			return errno;
		}
	}
	return pages_room(writer);
}

/* Both meta pages of a file that holds nothing. */
static int file_make(struct later_writer *writer)
{
	int rc = ftruncate(writer->fd, FORMAT_METAS * LATER_PAGE) ? errno : 0;

	writer->next = FORMAT_METAS;
	writer->main_tree = (struct later_tree){.root = PAGE_NONE};
	writer->free_tree = (struct later_tree){.pad = LATER_PAGE, .flags = MDB_INTEGERKEY,
						.root = PAGE_NONE};
	for (uint64_t i = 0; i < FORMAT_METAS && !rc; i++) {
		writer->sink.txnid = i;
		rc = meta_write(writer);
	}
	writer->txnid = 1;
	return rc;
}

int later_writer_open(struct later_writer **ret, const char *directory, unsigned flags,
		      size_t map_size)
{
	struct later_writer *writer = calloc(1, sizeof *writer);
	char path[1100];
	int rc;

	if (!writer)
		return ENOMEM;
	*ret = writer;
	writer->sink.take = later_take;
	writer->sink.put = put;
	writer->flags = flags;
	writer->map_size = map_size;
	snprintf(path, sizeof path, "%s/data.mdb", directory);
	writer->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	if (writer->fd < 0)
		return errno;
	snprintf(path, sizeof path, "%s/lock.mdb", directory);
	rc = later_lock_open(&writer->lock, path);
	if (!rc)
		rc = file_make(writer);
	if (!rc)
		rc = later_writer_enlarge(writer, map_size);
	return rc ? rc : later_lock_share(writer->lock, writer->txnid);
}

void later_writer_state(const struct later_writer *writer, struct live_answer *answer)
{
	answer->txn = writer->txnid;
	answer->last_page = writer->next - 1;
	answer->map_size = writer->map_size;
	answer->slots = later_lock_used(writer->lock);
}

unsigned later_writer_check(struct later_writer *writer)
{
	return later_lock_check(writer->lock);
}

void later_writer_close(struct later_writer *writer)
{
	if (!writer)
		return;
	if (writer->map)
		munmap(writer->map, writer->map_size);
	later_lock_close(writer->lock);
	if (writer->fd >= 0)
		close(writer->fd);
	free(writer->freed_by);
	free(writer->taken);
	free(writer->grown);
	free(writer);
}
