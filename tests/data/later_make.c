/* SPDX-License-Identifier: OLDAP-2.8 */
/* Builds the pages of LMDB 1.0, one kind after the other. */
#include "later_make.h"

#include "format/layout.h"
#include "format/page.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* As the description has them, and not from the table that the reader under test uses. */
enum {
	HEADER = 24,
	NUMBER_AT = 0,
	TXN_AT = 8,
	PAD_AT = 16,
	FLAGS_AT = 18,
	LOWER_AT = 20,
	UPPER_AT = 22,
	RUN_AT = 20,
	META_AT = 24,
	VERSION = 3,
	GROWTH = 2, /* the new page size by the old one's */
};

struct making {
	const uint8_t *from;
	uint8_t *to;
	uint64_t from_pages;
	uint32_t from_size, size; /* of a page */
	uint64_t txnid;
	int rc;
};

/* One page, or sub-page, that is being filled. */
struct filled {
	uint8_t *bytes;
	uint32_t size;
	unsigned count, upper;
};

static uint32_t even(uint32_t bytes)
{
	return (bytes + 1) & ~1u;
}

static const uint8_t *from_page(struct making *making, uint64_t number)
{
	if (number < FORMAT_METAS || number >= making->from_pages) {
		making->rc = EINVAL;
		return NULL;
	}
	return making->from + number * making->from_size;
}

static struct filled page_begin(uint8_t *bytes, uint32_t size, uint64_t number, uint64_t txnid,
				unsigned flags, unsigned pad)
{
	memset(bytes, 0, size);
	store64(bytes + NUMBER_AT, number);
	store64(bytes + TXN_AT, txnid);
	store16(bytes + PAD_AT, (uint16_t)pad);
	store16(bytes + FLAGS_AT, (uint16_t)flags);
	store16(bytes + UPPER_AT, (uint16_t)(size - HEADER));
	return (struct filled){.bytes = bytes, .size = size, .upper = size};
}

/* The header of an entry is the same in both formats; a sub-page or name changes its sizes. */
static uint8_t *entry_put(struct filled *page, const uint8_t *header, uint32_t key_size,
			  uint32_t data_bytes)
{
	uint32_t length = ENTRY_KEY + even(key_size) + even(data_bytes);
	uint8_t *at;

	page->upper -= length;
	at = page->bytes + page->upper;
	memcpy(at, header, ENTRY_KEY);
	store16(at + ENTRY_KEY_SIZE, (uint16_t)key_size);
	store16(page->bytes + HEADER + 2 * page->count, (uint16_t)(page->upper - HEADER));
	page->count++;
	store16(page->bytes + LOWER_AT, (uint16_t)(2 * page->count));
	store16(page->bytes + UPPER_AT, (uint16_t)(page->upper - HEADER));
	return at;
}

static void items_put(struct filled *page, const uint8_t *items, unsigned count, uint32_t pad)
{
	memcpy(page->bytes + HEADER, items, (size_t)count * pad);
	store16(page->bytes + LOWER_AT, (uint16_t)(2 * count));
	/* Each item has moved it by its size less the two bytes that `lower` took. */
	store16(page->bytes + UPPER_AT, (uint16_t)(page->size - HEADER - count * (pad - 2)));
}

static void tree_make(struct making *making, const uint8_t *record);

static void run_make(struct making *making, const struct entry *entry, uint8_t *reference)
{
	uint64_t number = load64(entry->data), pages;
	const uint8_t *run = from_page(making, number);
	uint8_t *to;

	if (!run)
		return;
	pages = page_run(LAYOUT_0_9, run);
	if (pages > making->from_pages - number ||
	    entry->data_size > pages * making->from_size - PAGE_HEADER) {
		making->rc = EINVAL;
		return;
	}
	store64(reference, number);
	store64(reference + 8, making->txnid);
	store64(reference + 16, pages);
	to = making->to + number * making->size;
	page_begin(to, making->size, number, making->txnid, PAGE_OVERFLOW, 0);
	store32(to + RUN_AT, (uint32_t)pages);
	memcpy(to + HEADER, run + PAGE_HEADER, entry->data_size);
}

/* A sub-page of just the size that its items need. Returns its bytes, malloc'ed. */
static uint8_t *sub_page_make(const struct entry *entry, uint32_t *size)
{
	const uint8_t *from = entry->data;
	unsigned count = page_count(LAYOUT_0_9, from, entry->data_size), i;
	bool items = page_flags(LAYOUT_0_9, from) & PAGE_LEAF2;
	uint32_t pad = page_pad(LAYOUT_0_9, from);
	struct filled page;
	struct entry one;
	uint8_t *bytes;

	*size = HEADER;
	for (i = 0; i < count; i++) {
		if (!items && !page_leaf_entry(LAYOUT_0_9, from, entry->data_size, i, &one))
			return NULL;
		*size += items ? pad : 2 + ENTRY_KEY + even(one.key_size);
	}
	bytes = malloc(*size);
	if (!bytes)
		return NULL;
	page = page_begin(bytes, *size, 0, 0, PAGE_LEAF | PAGE_SUB | (items ? PAGE_LEAF2 : 0), pad);
	if (items)
		items_put(&page, from + PAGE_HEADER, count, pad);
	for (i = 0; i < count && !items; i++) {
		uint8_t *at;

		(void)page_leaf_entry(LAYOUT_0_9, from, entry->data_size, i, &one);
		at = entry_put(&page, one.key - ENTRY_KEY, one.key_size, 0);
		memcpy(at + ENTRY_KEY, one.key, one.key_size);
	}
	return bytes;
}

static void leaf_entry_make(struct making *making, struct filled *page, const struct entry *entry)
{
	uint32_t key_size = entry->key_size, bytes = entry->data_size;
	uint8_t reference[24] = {0}, *sub_page = NULL, *at;
	const uint8_t *data = entry->data;

	if (entry->flags & ENTRY_BIG) {
		run_make(making, entry, reference);
		data = reference;
		bytes = sizeof(reference);
	} else if (entry->flags & ENTRY_SUBTREE) {
		tree_make(making, entry->data);
		key_size += !(entry->flags & ENTRY_DUPS);
	} else if (entry->flags & ENTRY_DUPS) {
		data = sub_page = sub_page_make(entry, &bytes);
		if (!data)
			making->rc = EINVAL;
	}
	if (making->rc)
		return;
	at = entry_put(page, entry->key - ENTRY_KEY, key_size, bytes);
	memcpy(at + ENTRY_KEY, entry->key, entry->key_size);
	memcpy(at + ENTRY_KEY + even(key_size), data, bytes);
	if (sub_page) {
		store16(at + ENTRY_LOW, (uint16_t)bytes);
		store16(at + ENTRY_HIGH, (uint16_t)(bytes >> 16));
	}
	free(sub_page);
}

static void page_make(struct making *making, uint64_t number)
{
	const uint8_t *from = from_page(making, number), *key;
	uint32_t old = making->from_size, key_size;
	unsigned count, flags, pad;
	struct filled page;
	struct entry entry;
	uint64_t child;

	if (!from)
		return;
	count = page_count(LAYOUT_0_9, from, old);
	flags = page_flags(LAYOUT_0_9, from);
	pad = flags & PAGE_LEAF2 ? page_pad(LAYOUT_0_9, from) : 0;
	page = page_begin(making->to + number * making->size, making->size, number, making->txnid,
			  flags & (PAGE_BRANCH | PAGE_LEAF | PAGE_LEAF2), pad);
	if (flags & PAGE_LEAF2)
		items_put(&page, from + PAGE_HEADER, count, pad);
	for (unsigned i = 0; i < count && !making->rc && !(flags & PAGE_LEAF2); i++) {
		if (flags & PAGE_LEAF) {
			if (page_leaf_entry(LAYOUT_0_9, from, old, i, &entry))
				leaf_entry_make(making, &page, &entry);
			else
				making->rc = EINVAL;
		} else if (page_child(LAYOUT_0_9, from, old, i, &child) &&
			   page_entry_key(LAYOUT_0_9, from, old, i, &key, &key_size)) {
			uint8_t *at = entry_put(&page, key - ENTRY_KEY, key_size, 0);

			memcpy(at + ENTRY_KEY, key, key_size);
			page_make(making, child);
		} else {
			making->rc = EINVAL;
		}
	}
}

static void tree_make(struct making *making, const uint8_t *record)
{
	uint64_t root = load64(record + TREE_ROOT);

	if (root != PAGE_NONE)
		page_make(making, root);
}

/* Both say the same; the older one is never read while the newer is sound. */
static void metas_make(struct making *making)
{
	unsigned newest = making->txnid & 1;
	const uint8_t *old = making->from + newest * making->from_size;

	for (unsigned i = 0; i < FORMAT_METAS; i++) {
		uint8_t *page = making->to + (size_t)i * making->size, *meta = page + META_AT;

		memset(page, 0, making->size);
		store64(page + NUMBER_AT, i);
		store16(page + FLAGS_AT, PAGE_META);
		memcpy(meta, old + META_MAGIC, META_END - META_MAGIC);
		store32(meta + META_VERSION - META_MAGIC, VERSION);
		store64(meta + META_MAPSIZE - META_MAGIC, load64(old + META_MAPSIZE) * GROWTH);
		store32(meta + META_FREE_TREE - META_MAGIC + TREE_PAD, making->size);
		store64(meta + META_TXNID - META_MAGIC,
			i == newest || !making->txnid ? making->txnid : making->txnid - 1);
	}
	tree_make(making, old + META_FREE_TREE);
	tree_make(making, old + META_MAIN_TREE);
}

static int file_make(const uint8_t *from, size_t length, int fd)
{
	struct making making = {.from = from};
	uint64_t other;
	size_t size;

	if (length < META_END || load32(from + META_MAGIC) != FORMAT_MAGIC)
		return EINVAL;
	making.from_size = load32(from + META_FREE_TREE + TREE_PAD);
	if (making.from_size < FORMAT_PAGE_MIN ||
	    length < FORMAT_METAS * (size_t)making.from_size)
		return EINVAL;
	making.from_pages = length / making.from_size;
	making.size = making.from_size * GROWTH;
	making.txnid = load64(from + META_TXNID);
	other = load64(from + making.from_size + META_TXNID);
	if (other > making.txnid)
		making.txnid = other;
	size = making.from_pages * making.size;
	if (ftruncate(fd, (off_t)size))
		return errno;
	making.to = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (making.to == MAP_FAILED)
		return errno;
	metas_make(&making);
	munmap(making.to, size);
	return making.rc;
}

int later_make(const char *from, const char *to)
{
	int in = open(from, O_RDONLY | O_CLOEXEC), out, rc;
	char beside[1200];
	struct stat st;
	void *bytes;

	if (in < 0 || fstat(in, &st))
		return errno;
	bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, in, 0);
	close(in);
	if (bytes == MAP_FAILED)
		return errno;
	snprintf(beside, sizeof(beside), "%.1190s.new", to);
	out = open(beside, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	rc = out < 0 ? errno : file_make(bytes, (size_t)st.st_size, out);
	if (out >= 0) {
		close(out);
		if (!rc && rename(beside, to))
			rc = errno;
		if (rc)
			unlink(beside);
	}
	munmap(bytes, (size_t)st.st_size);
	return rc;
}
