/* SPDX-License-Identifier: OLDAP-2.8 */
/* Builds the pages of LMDB 1.0, one kind after the other, and those of 0.9 in the same way. */
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

enum {
	NUMBER_AT = 0,
	TXN_AT = 8,
	PAD_AT = 8,
	FLAGS_AT = 10,
	LOWER_AT = 12,
	UPPER_AT = 14,
	RUN_AT = 12,
	META_AT = 16,
	REFERENCE_MOST = 24,
	GROWTH = 2, /* the new page size by the old one's */
};

/* As the description has them, and not from the table that the reader under test uses. */
struct written {
	uint32_t version, shift, header, base, odd, reference, name_end;
};

static const struct written written_1_0 = {3, 8, 24, 24, 1, 24, 1};
static const struct written written_0_9 = {1, 0, 16, 0, 0, 8, 0};

struct making {
	const struct written *as;
	uint32_t sum_size; /* 0: there are none */
	const uint8_t *from;
	uint8_t *to;
	uint64_t from_pages;
	uint32_t from_size, size; /* of a page */
	uint64_t txnid;
	int rc;
};

/* One page, or sub-page, that is being filled. */
struct filled {
	const struct written *as;
	uint8_t *bytes;
	uint32_t size;
	unsigned count, upper;
};

uint64_t later_sum(const uint8_t *bytes, size_t size)
{
	uint64_t sum = 0xcbf29ce484222325;

	while (size--)
		sum = (sum ^ *bytes++) * 0x100000001b3;
	return sum;
}

static uint32_t even(uint32_t bytes)
{
	return (bytes + 1) & ~1u;
}

/* Where data stands behind a key. */
static uint32_t data_at(const struct written *as, uint32_t key_size)
{
	return as->odd ? even(key_size) : key_size;
}

/* Of a page, or of all pages of a run. */
static void sum_put(const struct making *making, uint8_t *bytes, size_t size)
{
	if (making->sum_size)
		store64(bytes + size - making->sum_size,
			later_sum(bytes, size - making->sum_size));
}

static const uint8_t *from_page(struct making *making, uint64_t number)
{
	if (number < FORMAT_METAS || number >= making->from_pages) {
		making->rc = EINVAL;
		return NULL;
	}
	return making->from + number * making->from_size;
}

/* `size`: what of the page is for entries and items, with the header. */
static struct filled page_begin(const struct written *as, uint8_t *bytes, uint32_t size,
				uint64_t number, uint64_t txnid, unsigned flags, unsigned pad)
{
	memset(bytes, 0, size);
	store64(bytes + NUMBER_AT, number);
	if (as->shift)
		store64(bytes + TXN_AT, txnid);
	store16(bytes + as->shift + PAD_AT, (uint16_t)pad);
	store16(bytes + as->shift + FLAGS_AT, (uint16_t)flags);
	store16(bytes + as->shift + LOWER_AT, (uint16_t)(as->header - as->base));
	store16(bytes + as->shift + UPPER_AT, (uint16_t)(size - as->base));
	return (struct filled){.as = as, .bytes = bytes, .size = size, .upper = size};
}

/* The header of an entry is the same in both formats; a sub-page or name changes its sizes. */
static uint8_t *entry_put(struct filled *page, const uint8_t *header, uint32_t key_size,
			  uint32_t data_bytes)
{
	const struct written *as = page->as;
	uint32_t length = even(ENTRY_KEY + data_at(as, key_size) + data_bytes);
	uint8_t *at;

	page->upper -= length;
	at = page->bytes + page->upper;
	memcpy(at, header, ENTRY_KEY);
	store16(at + ENTRY_KEY_SIZE, (uint16_t)key_size);
	store16(page->bytes + as->header + 2 * page->count, (uint16_t)(page->upper - as->base));
	page->count++;
	store16(page->bytes + as->shift + LOWER_AT,
		(uint16_t)(as->header - as->base + 2 * page->count));
	store16(page->bytes + as->shift + UPPER_AT, (uint16_t)(page->upper - as->base));
	return at;
}

static void items_put(struct filled *page, const uint8_t *items, unsigned count, uint32_t pad)
{
	const struct written *as = page->as;

	memcpy(page->bytes + as->header, items, (size_t)count * pad);
	store16(page->bytes + as->shift + LOWER_AT,
		(uint16_t)(as->header - as->base + 2 * count));
	/* Each item has moved it by its size less the two bytes that `lower` took. */
	store16(page->bytes + as->shift + UPPER_AT,
		(uint16_t)(page->size - as->base - count * (pad - 2)));
}

static void tree_make(struct making *making, const uint8_t *record);

static void run_make(struct making *making, const struct entry *entry, uint8_t *reference)
{
	uint64_t number = load64(entry->data), pages;
	const uint8_t *run = from_page(making, number);
	const struct written *as = making->as;
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
	page_begin(as, to, making->size, number, making->txnid, PAGE_OVERFLOW, 0);
	store32(to + as->shift + RUN_AT, (uint32_t)pages);
	memcpy(to + as->header, run + PAGE_HEADER, entry->data_size);
	sum_put(making, to, pages * making->size);
}

/* A sub-page of just the size that its items need. Returns its bytes, malloc'ed. */
static uint8_t *sub_page_make(const struct written *as, const struct entry *entry, uint32_t *size)
{
	const uint8_t *from = entry->data;
	unsigned count = page_count(LAYOUT_0_9, from, entry->data_size), i;
	bool items = page_flags(LAYOUT_0_9, from) & PAGE_LEAF2;
	uint32_t pad = page_pad(LAYOUT_0_9, from);
	struct filled page;
	struct entry one;
	uint8_t *bytes;

	*size = as->header;
	for (i = 0; i < count; i++) {
		if (!items && !page_leaf_entry(LAYOUT_0_9, from, entry->data_size, i, &one))
			return NULL;
		*size += items ? pad : 2 + ENTRY_KEY + even(one.key_size);
	}
	bytes = malloc(*size);
	if (!bytes)
		return NULL;
	page = page_begin(as, bytes, *size, 0, 0, PAGE_LEAF | PAGE_SUB | (items ? PAGE_LEAF2 : 0),
			  pad);
	if (items)
		items_put(&page, from + PAGE_HEADER, count, pad);
	for (i = 0; i < count && !items; i++) {
		uint8_t *at;

		if (!page_leaf_entry(LAYOUT_0_9, from, entry->data_size, i, &one))
			break; /* they were looked at above */
		at = entry_put(&page, one.key - ENTRY_KEY, one.key_size, 0);
		memcpy(at + ENTRY_KEY, one.key, one.key_size);
	}
	return bytes;
}

static void leaf_entry_make(struct making *making, struct filled *page, const struct entry *entry)
{
	uint32_t key_size = entry->key_size, bytes = entry->data_size;
	uint8_t reference[REFERENCE_MOST] = {0}, *sub_page = NULL, *at;
	const struct written *as = making->as;
	const uint8_t *data = entry->data;

	if (entry->flags & ENTRY_BIG) {
		run_make(making, entry, reference);
		data = reference;
		bytes = as->reference;
	} else if (entry->flags & ENTRY_SUBTREE) {
		tree_make(making, entry->data);
		key_size += entry->flags & ENTRY_DUPS ? 0 : as->name_end;
	} else if (entry->flags & ENTRY_DUPS) {
		data = sub_page = sub_page_make(as, entry, &bytes);
		if (!data)
			making->rc = EINVAL;
	}
	if (making->rc)
		return;
	at = entry_put(page, entry->key - ENTRY_KEY, key_size, bytes);
	memcpy(at + ENTRY_KEY, entry->key, entry->key_size);
	memcpy(at + ENTRY_KEY + data_at(as, key_size), data, bytes);
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
	page = page_begin(making->as, making->to + number * making->size,
			  making->size - making->sum_size, number, making->txnid,
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
	sum_put(making, page.bytes, making->size);
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
		uint8_t *page = making->to + (size_t)i * making->size;
		uint8_t *meta = page + making->as->shift + META_AT;

		memset(page, 0, making->size);
		store64(page + NUMBER_AT, i);
		store16(page + making->as->shift + FLAGS_AT, PAGE_META);
		/* The first says how long sums are. */
		if (!i)
			store16(page + making->size - 2, (uint16_t)making->sum_size);
		memcpy(meta, old + META_MAGIC, META_END - META_MAGIC);
		store32(meta + META_VERSION - META_MAGIC, making->as->version);
		store64(meta + META_MAPSIZE - META_MAGIC, load64(old + META_MAPSIZE) * GROWTH);
		store32(meta + META_FREE_TREE - META_MAGIC + TREE_PAD, making->size);
		store64(meta + META_TXNID - META_MAGIC,
			i == newest || !making->txnid ? making->txnid : making->txnid - 1);
	}
	tree_make(making, old + META_FREE_TREE);
	tree_make(making, old + META_MAIN_TREE);
}

/* Looks at a file of LMDB 0.9. *size: of what will be made of it. Returns 0 or EINVAL. */
static int making_begin(struct making *making, const uint8_t *from, size_t length,
			struct later_how how, size_t *size)
{
	uint64_t other;

	*making = (struct making){
		.as = how.earlier ? &written_0_9 : &written_1_0,
		.sum_size = how.sums ? LATER_SUM_SIZE : 0,
		.from = from,
	};
	if (length < META_END || load32(from + META_MAGIC) != FORMAT_MAGIC)
		return EINVAL;
	making->from_size = load32(from + META_FREE_TREE + TREE_PAD);
	if (making->from_size < FORMAT_PAGE_MIN ||
	    length < FORMAT_METAS * (size_t)making->from_size)
		return EINVAL;
	making->from_pages = length / making->from_size;
	making->size = making->from_size * GROWTH;
	making->txnid = load64(from + META_TXNID);
	other = load64(from + making->from_size + META_TXNID);
	if (other > making->txnid)
		making->txnid = other;
	*size = making->from_pages * making->size;
	return 0;
}

static int file_make(const uint8_t *from, size_t length, struct later_how how, int fd)
{
	struct making making;
	size_t size;
	int rc = making_begin(&making, from, length, how, &size);

	if (rc)
		return rc;
	if (ftruncate(fd, (off_t)size))
		return errno;
	making.to = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (making.to == MAP_FAILED)
		return errno;
	metas_make(&making);
	munmap(making.to, size);
	return making.rc;
}

uint8_t *later_make_bytes(const uint8_t *from, size_t size, struct later_how how, size_t *to_size)
{
	struct making making;

	if (making_begin(&making, from, size, how, to_size))
		return NULL;
	making.to = calloc(1, *to_size);
	if (making.to)
		metas_make(&making);
	if (!making.to || !making.rc)
		return making.to;
	free(making.to);
	return NULL;
}

int later_make(const char *from, const char *to)
{
	return later_make_as(from, to, (struct later_how){.sums = false});
}

int later_make_as(const char *from, const char *to, struct later_how how)
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
	rc = out < 0 ? errno : file_make(bytes, (size_t)st.st_size, how, out);
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
