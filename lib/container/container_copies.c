/* SPDX-License-Identifier: OLDAP-2.8 */
/* Finds a page among the copies, and verifies the copies.
 *
 * Groups are in the order of page numbers, and the index names the first page of each. So a
 * bisection over index pages in memory finds a page's group. The group is read as a whole: it has
 * the page's neighbours, too, and most lookups pass several of them.
 */
#include "container/container_private.h"
#include "format/layout.h"
#include "format/meta.h"
#include "format/page.h"

#include <errno.h>
#include <lmdb.h>
#include <string.h>

/* --- which pages have copies: those on a lookup's way to a value that lies elsewhere --- */

/* A page is judged by its own bytes alone, whether a tree leads to it or not. So a process that
 * compresses a chunk needs no other chunk, and the result is the same in every process. A page that
 * is long free, or a value that looks like a page, costs its copy and does no harm. */
/* A leaf page must lead to so many pages to be copied. So copies of leaves are at most an eighth of
 * the data, if each value fills a page and has the longest key. For images they are a
 * thousandth. */
enum { LEADS_LEAST = 8 };

/* Returns how many pages an entry leads to. A named database is looked up by its name, so its entry
 * counts as enough. */
static uint64_t entry_leads(const struct page_layout *layout, const struct entry *entry,
			    uint32_t page_size)
{
	struct tree_record record;

	if (entry->flags & ENTRY_BIG)
		return ((uint64_t)layout->header + entry->data_size + page_size - 1) / page_size;
	if (!(entry->flags & ENTRY_SUBTREE) || entry->data_size != TREE_SIZE)
		return 0;
	if (!(entry->flags & ENTRY_DUPS))
		return LEADS_LEAST;
	tree_record_parse(&record, entry->data);
	return record.branch_pages + record.leaf_pages;
}

static bool leads_on(const struct page_layout *layout, const uint8_t *page, uint32_t page_size)
{
	unsigned count = page_count(layout, page, page_size);
	uint64_t leads = 0;
	struct entry entry;

	for (unsigned i = 0; i < count && leads < LEADS_LEAST; i++) {
		if (!page_leaf_entry(layout, page, page_size, i, &entry))
			return false;
		leads += entry_leads(layout, &entry, page_size);
	}
	return leads >= LEADS_LEAST;
}

/* Whether page `number` of a data file leads to other pages, judged by its bytes. */
static bool select_page(const struct page_layout *layout, const uint8_t *page, uint64_t number,
			uint32_t page_size)
{
	if (number < FORMAT_METAS || !page_is_sound(layout, page, number))
		return false;
	if (page_flags(layout, page) & PAGE_BRANCH)
		return page_count(layout, page, page_size) > 0;
	return !(page_flags(layout, page) & PAGE_LEAF2) && leads_on(layout, page, page_size);
}

int select_meta(const uint8_t *first, const uint8_t *second, uint32_t page_size, enum format format)
{
	struct meta a, newer;
	int newest;

	if (meta_judge(first, second, &newer, format) || newer.page_size != page_size ||
	    meta_parse(&a, first, format))
		return -1;
	newest = newer.txnid > a.txnid;
	/* The original writes a transaction's meta page to the page of its number's parity. */
	return (newer.txnid & 1) == (unsigned)newest ? newest : -1;
}

void container_select(enum format format, uint32_t page_size, const void *data, size_t length,
		      uint64_t offset, uint8_t *picked)
{
	const struct page_layout *layout = &page_layouts[format];
	const uint8_t *page = data;
	size_t n = length / page_size;
	uint64_t first = offset / page_size;

	for (size_t i = 0; i < n; i++, page += page_size) {
		uint8_t bit = (uint8_t)(1u << i % 8);

		if (first + i < FORMAT_METAS || select_page(layout, page, first + i, page_size))
			picked[i / 8] |= bit;
		else
			picked[i / 8] &= (uint8_t)~bit;
	}
}

/* A group's entry in the index. */
struct group {
	uint64_t first;  /* page number */
	uint64_t offset; /* in the container, bytes */
	uint32_t length; /* of the zstd frame */
	uint32_t check;
	uint64_t hash;
};

size_t copies_size(const struct container *container)
{
	return (size_t)container->group_pages * (LAYOUT_NUMBER + (size_t)container->info.page_size);
}

/* Pages in group `number`. */
static uint32_t group_count(const struct container *container, uint64_t number)
{
	uint64_t left = container->info.copies - number * container->group_pages;

	return left < container->group_pages ? (uint32_t)left : container->group_pages;
}

static int group_look(struct container *container, uint64_t number, struct group *group)
{
	struct cache_slot *slot;
	const uint8_t *entry;
	int rc = index_take(container, LAYOUT_COPIES, number / GROUPS_PER_PAGE, &slot);

	if (rc)
		return rc;
	group->offset = container->groups.offset + get64(slot->bytes + INDEX_BASE);
	entry = slot->bytes + INDEX_BODY;
	for (uint64_t i = 0; i < number % GROUPS_PER_PAGE; i++, entry += GROUP_ENTRY)
		group->offset += LAYOUT_FRAME + get32(entry + GROUP_ENTRY_LENGTH);
	group->first = get64(entry + GROUP_ENTRY_FIRST);
	group->length = get32(entry + GROUP_ENTRY_LENGTH);
	group->check = get32(entry + GROUP_ENTRY_CHECK);
	group->hash = get64(entry + GROUP_ENTRY_HASH);
	cache_release(&container->pages, slot);
	return 0;
}

/* Whether a group's page numbers rise from `first` on and are of whole pages of the data. */
static bool are_numbers_good(const struct container *container, const uint8_t *numbers, uint32_t n,
			     uint64_t first)
{
	uint64_t pages = container->info.size / container->info.page_size, before = 0;

	if (get64(numbers) != first || first < FORMAT_METAS)
		return false;
	for (uint32_t i = 0; i < n; i++) {
		uint64_t number = get64(numbers + (size_t)i * LAYOUT_NUMBER);

		if (number >= pages || number <= before)
			return false;
		before = number;
	}
	return true;
}

static int group_read(struct container *container, const struct group *group, uint32_t n, void *out)
{
	size_t length = LAYOUT_FRAME + (size_t)group->length;
	size_t size = (size_t)n * (LAYOUT_NUMBER + (size_t)container->info.page_size);
	struct read_worker *worker = worker_take(container);
	const uint8_t *frame;
	int rc = worker && worker_reserve(worker, length, io_alignment(container->below)) ? 0
											  : ENOMEM;

	if (!rc)
		rc = container_read_below(container, group->offset, length, worker->buffer);
	if (!rc) {
		frame = worker->buffer + LAYOUT_FRAME;
		if (get32(worker->buffer) != LAYOUT_SKIPPABLE ||
		    get32(worker->buffer + 4) != group->length ||
		    (uint32_t)hash_bytes(frame, group->length) != group->check)
			rc = EBADMSG;
		else
			rc = frame_decode(worker->zstd, NULL, frame, group->length, out, size);
	}
	if (worker)
		worker_give(container, worker);
	if (!rc && (hash_bytes(out, size) != group->hash ||
		    !are_numbers_good(container, out, n, group->first)))
		rc = EBADMSG;
	return rc;
}

int copies_take(struct container *container, uint64_t number, struct copies *copies)
{
	struct group group;
	int rc = group_look(container, number, &group);

	if (rc)
		return rc;
	copies->n = group_count(container, number);
	copies->offset = group.offset;
	copies->slot = cache_take(&container->copies, number, CACHE_WAIT);
	if (!copies->slot)
		return ENOMEM;
	if (copies->slot->state == SLOT_READY)
		return 0;
	rc = group_read(container, &group, copies->n, copies->slot->bytes);
	cache_fill(&container->copies, copies->slot, !rc);
	return rc;
}

uint64_t copies_number(const struct copies *copies, uint32_t i)
{
	return get64(copies->slot->bytes + (size_t)i * LAYOUT_NUMBER);
}

static const uint8_t *copies_page(const struct container *container, const struct copies *copies,
				  uint32_t i)
{
	return copies->slot->bytes + (size_t)copies->n * LAYOUT_NUMBER +
	       (size_t)i * container->info.page_size;
}

/* Returns how many of the group's page numbers are below `page`. */
static uint32_t copies_below(const struct copies *copies, uint64_t page)
{
	uint32_t low = 0, high = copies->n;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (copies_number(copies, middle) < page)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Finds the last group whose first page number is at most `page`, or the first group. */
static int group_find(struct container *container, uint64_t page, uint64_t *number)
{
	uint64_t low = 0, high = container->info.groups - 1;

	while (low < high) {
		uint64_t middle = low + (high - low + 1) / 2;
		struct group group;
		int rc = group_look(container, middle, &group);

		if (rc)
			return rc;
		if (group.first <= page)
			low = middle;
		else
			high = middle - 1;
	}
	*number = low;
	return 0;
}

static int copy_read(struct container *container, uint64_t page, void *out)
{
	struct copies copies;
	uint64_t number;
	uint32_t i;
	int rc = group_find(container, page, &number);

	if (!rc)
		rc = copies_take(container, number, &copies);
	if (rc)
		return rc;
	i = copies_below(&copies, page);
	if (i < copies.n && copies_number(&copies, i) == page)
		memcpy(out, copies_page(container, &copies, i), container->info.page_size);
	else
		rc = MDB_NOTFOUND;
	cache_release(&container->copies, copies.slot);
	return rc;
}

int container_read_copies(struct io *io, void *buffer, size_t length, uint64_t offset)
{
	struct container *container = io->state;
	uint32_t size = container->info.page_size;
	uint8_t *out = buffer;
	int rc = 0;

	container_enter(container);
	if (!container->info.copies || (offset | length) & (size - 1))
		return MDB_NOTFOUND;
	for (size_t at = 0; at < length && !rc; at += size)
		rc = copy_read(container, (offset + at) / size, out + at);
	return container_code(rc);
}

/* Compares the footer's meta page with both pages of the data, of which the first is whole. */
static bool is_meta_like(const struct container_info *info, const uint8_t *first,
			 const uint8_t *second, uint64_t *page)
{
	int newest = select_meta(first, second, info->page_size, info->format);
	const uint8_t *own = info->meta_page ? second : first;

	*page = info->meta_page;
	if (!info->has_meta)
		return newest < 0;
	return newest == (int)info->meta_page &&
	       !memcmp(info->meta, own + page_layouts[info->format].shift + META_MAGIC,
		       CONTAINER_META) &&
	       (info->format == FORMAT_0_9 ||
		load16(first + info->page_size - sizeof(uint16_t)) == info->sum_size);
}

/* Compares the footer's meta page in a range that begins with page 0. If the range is only that
 * page, the other meta page lies in the next chunk. Reading that chunk tells its errors. */
static int check_meta(struct io *io, const uint8_t *data, size_t length, uint64_t *page)
{
	const struct container_info *info = container_info(io);
	uint8_t beyond[META_LOOK];
	const uint8_t *second = data + info->page_size;
	size_t done;

	if (length < FORMAT_METAS * (size_t)info->page_size) {
		second = beyond;
		if (io_read(io, beyond, sizeof(beyond), info->page_size, &done) ||
		    done < sizeof(beyond))
			return 0;
	}
	return is_meta_like(info, data, second, page) ? 0 : MDB_CORRUPTED;
}

int container_check_copies(struct io *io, const void *bytes, size_t length, uint64_t offset,
			   uint64_t *page)
{
	struct container *container = io->state;
	const struct container_info *info = &container->info;
	uint64_t first = offset / info->page_size, end = first + length / info->page_size, number;
	const uint8_t *data = bytes;
	int rc = 0;

	if (first == 0 && end > 0)
		rc = check_meta(io, data, length, page);
	container_enter(container);
	if (rc || !info->copies)
		return rc;
	rc = group_find(container, first, &number);
	for (*page = first; !rc && number < info->groups; number++) {
		struct copies copies;
		uint32_t i;

		rc = copies_take(container, number, &copies);
		if (rc)
			break;
		for (i = copies_below(&copies, first); i < copies.n && !rc; i++) {
			*page = copies_number(&copies, i);
			if (*page >= end)
				break;
			if (memcmp(copies_page(container, &copies, i),
				   data + (*page - first) * info->page_size, info->page_size) != 0)
				rc = EBADMSG;
		}
		cache_release(&container->copies, copies.slot);
		if (i < copies.n)
			break;
	}
	return container_code(rc);
}
