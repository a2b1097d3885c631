/* SPDX-License-Identifier: OLDAP-2.8 */
/* Says where in an LMDB file a small change does the most harm.
 *
 * The layout (mdb.c 0.9: MDB_page, MDB_node, MDB_meta, MDB_db): a page begins with its number (8
 * bytes), pad (2), flags (2), lower (2), upper (2), then the nodes' offsets (2 each). A node is lo,
 * hi, flags, key size (2 each), key, data. A meta page: magic at 16, version 20, map size 32, the
 * free list's record at 40, the main database's at 88, last page 136, transaction 144. A database
 * record of 48 bytes: pad (4), flags (2), depth (2), four counts (8 each), root (8). In LMDB 1.0
 * all but the page number stands 8 bytes further on, nodes' offsets and bounds count from the
 * header's end, and data stands at even offsets.
 */
#include "damage.h"
#include "random_stream.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	PAGE_BRANCH = 1,
	PAGE_LEAF = 2,
	PAGE_OVERFLOW = 4,
	PAGE_META = 8,
	NODE_BIG = 1,
	NODE_SUBDATA = 2,
	NODE_DUPDATA = 4,
	META_MAGIC = 16,
	META_PAGE_SIZE = 40,
	META_MAIN = 88,
	META_LAST_PAGE = 136,
	META_TXN = 144,
	RECORD_ROOT = 40,
	RECORD_SIZE = 48,
	LATER_SHIFT = 8,
	LATER_BASE = 24,
};

#define MAGIC 0xbeefc0deu

static const char *const kind_names[DAMAGE_KINDS] = {
	[DAMAGE_BIT] = "one bit",	  [DAMAGE_HEADER] = "page header",
	[DAMAGE_POINTER] = "node offset", [DAMAGE_NODE] = "node header",
	[DAMAGE_RECORD] = "record",	  [DAMAGE_META] = "meta page",
	[DAMAGE_TRUNCATE] = "truncation", [DAMAGE_PAGE] = "whole page",
	[DAMAGE_CYCLE] = "page number",	  [DAMAGE_SEVERAL] = "several",
};

struct harm {
	const struct damage_base *base;
	struct random_stream random;
	struct damaged *out;
	size_t said;
};

const char *damage_kind_name(enum damage_kind kind)
{
	return kind_names[kind];
}

static uint64_t get(const unsigned char *bytes, size_t at, size_t size)
{
	uint64_t value = 0;

	memcpy(&value, bytes + at, size); /* little endian, as the file is on this machine */
	return value;
}

static void say(struct harm *harm, const char *what, size_t at, uint64_t value)
{
	struct damaged *out = harm->out;
	int length;

	if (harm->said >= sizeof out->what)
		return;
	length = snprintf(out->what + harm->said, sizeof out->what - harm->said,
			  "%s%s at %zu: %#llx", harm->said ? "; " : "", what, at,
			  (unsigned long long)value);
	harm->said += (size_t)length;
}

static void put(struct harm *harm, const char *what, size_t at, size_t size, uint64_t value)
{
	if (at + size > harm->out->size)
		return;
	memcpy(harm->out->bytes + at, &value, size);
	say(harm, what, at, value);
}

static void flip(struct harm *harm, const char *what, size_t at)
{
	uint64_t bit = random_below(&harm->random, 8);

	put(harm, what, at, 1, get(harm->base->bytes, at, 1) ^ (1u << bit));
}

/* A number of `size` bytes that is near, at a limit, or anything. */
static uint64_t odd_number(struct harm *harm, uint64_t old, size_t size)
{
	const uint64_t pages = harm->base->pages, page_size = harm->base->page_size;
	const uint64_t chosen[] = {
		0,
		1,
		2,
		3,
		pages - 1,
		pages,
		pages + 1,
		page_size,
		page_size - 1,
		page_size + 1,
		page_size / 2,
		0xff,
		0xffff,
		0x7fff,
		0x8000,
		0xffffffff,
		0x7fffffff,
		0x80000000,
		~(uint64_t)0,
		~(uint64_t)0 - 1,
		(uint64_t)1 << 63,
		((uint64_t)1 << 63) / page_size,
		((uint64_t)1 << 52) - 1,
		old + 1,
		old - 1,
		old * 2,
		old / 2,
		old ^ 2,
		~old,
	};
	uint64_t value = chosen[random_below(&harm->random, sizeof chosen / sizeof *chosen)];

	if (random_percent(&harm->random, 25))
		value = random_next(&harm->random);
	return size < 8 ? value & (((uint64_t)1 << (8 * size)) - 1) : value;
}

static void odd_field(struct harm *harm, const char *what, size_t at, size_t size)
{
	put(harm, what, at, size, odd_number(harm, get(harm->base->bytes, at, size), size));
}

/* --- finding places ------------------------------------------------------------------------- */

static size_t page_at(const struct harm *harm, uint64_t page)
{
	return (size_t)page * harm->base->page_size;
}

static unsigned page_flags(const struct harm *harm, uint64_t page)
{
	const unsigned char *bytes = harm->base->bytes + page_at(harm, page);

	/* inside an overflow run stand values: a tree page tells its own number */
	return get(bytes, 0, 8) == page ? (unsigned)get(bytes, 10 + harm->base->shift, 2) : 0;
}

/* A page with one of the flags, 0 if the file has none. */
static uint64_t find_page(struct harm *harm, unsigned flags)
{
	uint64_t start = random_below(&harm->random, harm->base->pages);

	for (size_t i = 0; i < harm->base->pages; i++) {
		uint64_t page = (start + i) % harm->base->pages;

		if (page >= 2 && (page_flags(harm, page) & flags))
			return page;
	}
	return 0;
}

static unsigned node_count(const struct harm *harm, uint64_t page)
{
	const struct damage_base *base = harm->base;
	unsigned lower = (unsigned)get(base->bytes, page_at(harm, page) + base->shift + 12, 2);

	return (lower + base->base - base->shift - 16) / 2;
}

/* Where the offset of a node stands, and where the node begins. */
static size_t pointer_at(const struct harm *harm, uint64_t page, unsigned index)
{
	return page_at(harm, page) + harm->base->shift + 16 + 2 * index;
}

static size_t node_at(const struct harm *harm, uint64_t page, unsigned index)
{
	return page_at(harm, page) + harm->base->base +
	       get(harm->base->bytes, pointer_at(harm, page, index), 2);
}

/* Where a node of a random page with `flags` begins, 0 if there is none. Pages of packed items
 * (0x20) have no nodes. */
static size_t find_node(struct harm *harm, unsigned flags, uint64_t *page, unsigned *index)
{
	for (int tries = 0; tries < 20; tries++) {
		*page = find_page(harm, flags);
		if (*page == 0 || (page_flags(harm, *page) & 0x20) || node_count(harm, *page) == 0)
			continue;
		*index = (unsigned)random_below(&harm->random, node_count(harm, *page));
		return node_at(harm, *page, *index);
	}
	return 0;
}

static size_t round_key(const struct damage_base *base, uint64_t size)
{
	return base->shift ? (size + 1) & ~(uint64_t)1 : size;
}

/* The data of a leaf node that has all of `set` and none of `clear`, 0 if there is none. */
static size_t find_data(struct harm *harm, unsigned set, unsigned clear)
{
	unsigned index;
	uint64_t page;

	for (int tries = 0; tries < 300; tries++) {
		size_t node = find_node(harm, PAGE_LEAF, &page, &index);
		unsigned flags = node ? (unsigned)get(harm->base->bytes, node + 4, 2) : 0;

		if (node && (flags & set) == set && !(flags & clear))
			return node + 8 +
			       round_key(harm->base, get(harm->base->bytes, node + 6, 2));
	}
	return 0;
}

/* --- the kinds -------------------------------------------------------------------------------- */

static void harm_header(struct harm *harm)
{
	uint64_t page = find_page(harm, PAGE_BRANCH | PAGE_LEAF | PAGE_OVERFLOW);
	static const struct {
		const char *name;
		size_t at, size;
	} fields[] = {{"page number", 0, 8}, {"pad", 8, 2},    {"flags", 10, 2},
		      {"lower", 12, 2},	     {"upper", 14, 2}, {"overflow pages", 12, 4}};
	size_t pick = random_below(&harm->random, 12);

	if (pick < 6)
		odd_field(harm, fields[pick].name,
			  page_at(harm, page) + fields[pick].at + (pick ? harm->base->shift : 0),
			  fields[pick].size);
	else
		flip(harm, "header bit", page_at(harm, page) + random_below(&harm->random, 64));
}

static void harm_pointer(struct harm *harm)
{
	unsigned index;
	uint64_t page;

	if (!find_node(harm, PAGE_BRANCH | PAGE_LEAF, &page, &index))
		return;
	if (random_percent(&harm->random, 50))
		flip(harm, "node offset bit",
		     pointer_at(harm, page, index) + random_below(&harm->random, 2));
	else
		odd_field(harm, "node offset", pointer_at(harm, page, index), 2);
}

static void harm_node(struct harm *harm)
{
	unsigned index;
	uint64_t page;
	size_t node = find_node(harm, PAGE_BRANCH | PAGE_LEAF, &page, &index);
	static const char *const fields[] = {"size, low", "size, high", "node flags", "key size"};
	size_t field = random_below(&harm->random, 4);

	if (!node)
		return;
	if (random_percent(&harm->random, 50))
		flip(harm, "node bit", node + random_below(&harm->random, 8));
	else
		odd_field(harm, fields[field], node + 2 * field, 2);
}

static void harm_record(struct harm *harm)
{
	static const struct {
		size_t at, size;
	} fields[] = {{0, 4}, {4, 2}, {6, 2}, {8, 8}, {32, 8}, {RECORD_ROOT, 8}};
	size_t pick = random_below(&harm->random, 6), data;

	if (random_percent(&harm->random, 60)) {
		data = find_data(harm, NODE_SUBDATA, 0);
		if (data)
			odd_field(harm, "database record", data + fields[pick].at,
				  fields[pick].size);
		return;
	}
	data = find_data(harm, NODE_DUPDATA, NODE_SUBDATA);
	if (!data)
		return;
	data += harm->base->shift;
	if (random_percent(&harm->random, 50))
		odd_field(harm, "sub-page header", data + 8 + 2 * random_below(&harm->random, 4),
			  2);
	else
		odd_field(harm, "sub-page node offset",
			  data + 16 + 2 * random_below(&harm->random, 3), 2);
}

static void harm_meta(struct harm *harm)
{
	static const struct {
		const char *name;
		size_t at, size;
	} fields[] = {
		{"magic", 16, 4},
		{"version", 20, 4},
		{"fixed address", 24, 8},
		{"map size", 32, 8},
		{"page size", META_PAGE_SIZE, 4},
		{"free list flags", 44, 2},
		{"free list root", 80, 8},
		{"main flags", 92, 2},
		{"main depth", 94, 2},
		{"main entries", 120, 8},
		{"main root", META_MAIN + RECORD_ROOT, 8},
		{"last page", META_LAST_PAGE, 8},
		{"transaction", META_TXN, 8},
		{"meta page flags", 10, 2},
	};
	size_t pick = random_below(&harm->random, 20);
	uint64_t which = random_below(&harm->random, 3), value;

	for (uint64_t meta = 0; meta < 2; meta++) {
		size_t at = page_at(harm, meta) + harm->base->shift;

		if (which != 2 && which != meta)
			continue;
		if (pick >= sizeof fields / sizeof *fields) {
			flip(harm, "meta bit", at + random_below(&harm->random, 152));
			continue;
		}
		value = odd_number(harm,
				   get(harm->base->bytes, at + fields[pick].at, fields[pick].size),
				   fields[pick].size);
		if (fields[pick].at == META_PAGE_SIZE && random_percent(&harm->random, 50))
			value = (uint64_t)256 << random_below(&harm->random, 9);
		put(harm, fields[pick].name, at + fields[pick].at, fields[pick].size, value);
	}
}

static void harm_truncate(struct harm *harm)
{
	struct damaged *out = harm->out;
	uint64_t way = random_below(&harm->random, 4);

	if (way == 0)
		out->size = random_below(&harm->random, out->size);
	else if (way == 1)
		out->size = page_at(harm, random_below(&harm->random, harm->base->pages));
	else if (way == 2) /* around the meta pages */
		out->size = random_below(&harm->random, out->size < 9000 ? out->size : 9000);
	else /* only a little is missing */
		out->size -= 1 + random_below(&harm->random, 2 * harm->base->page_size);
	say(harm, "truncated", out->size, 0);
}

static void harm_page(struct harm *harm)
{
	unsigned char *bytes = harm->out->bytes;
	size_t size = harm->base->page_size;
	uint64_t one = find_page(harm, PAGE_BRANCH | PAGE_LEAF | PAGE_OVERFLOW);
	uint64_t other = find_page(harm, PAGE_BRANCH | PAGE_LEAF);
	size_t at = page_at(harm, one);

	if (random_percent(&harm->random, 8))
		at = page_at(harm, random_below(&harm->random, 2));
	switch (random_below(&harm->random, 5)) {
	case 0:
		memset(bytes + at, 0, size);
		say(harm, "zeros", at, size);
		break;
	case 1:
		memset(bytes + at, 0xff, size);
		say(harm, "0xff", at, size);
		break;
	case 2:
		memcpy(bytes + at, harm->base->bytes + page_at(harm, other), size);
		say(harm, "a copy of another page", at, other);
		break;
	case 3:
		memcpy(bytes + at, harm->base->bytes + page_at(harm, other), size);
		memcpy(bytes + page_at(harm, other), harm->base->bytes + at, size);
		say(harm, "swapped with page", at, other);
		break;
	default:
		for (size_t i = 16; i < size; i++)
			bytes[at + i] = (unsigned char)random_next(&harm->random);
		say(harm, "random bytes behind the header", at, size);
		break;
	}
}

static uint64_t parent_of(const struct harm *harm, uint64_t child)
{
	for (uint64_t page = 2; page < harm->base->pages; page++) {
		if (!(page_flags(harm, page) & PAGE_BRANCH))
			continue;
		for (unsigned i = 0; i < node_count(harm, page); i++) {
			size_t node = node_at(harm, page, i);

			if ((get(harm->base->bytes, node, 8) & 0xffffffffffffu) == child)
				return page;
		}
	}
	return 0;
}

/* A page to lead to instead: back, aside, of another kind, or none. */
static uint64_t wrong_page(struct harm *harm, uint64_t from)
{
	switch (random_below(&harm->random, 8)) {
	case 0:
		return from;
	case 1:
		return parent_of(harm, from);
	case 2:
		return harm->base->main_root;
	case 3:
		return find_page(harm, PAGE_BRANCH);
	case 4:
		return find_page(harm, PAGE_LEAF);
	case 5:
		return find_page(harm, PAGE_OVERFLOW);
	case 6:
		return random_below(&harm->random, 2); /* a meta page */
	default:
		return odd_number(harm, from, 6);
	}
}

static void harm_cycle(struct harm *harm)
{
	unsigned index;
	uint64_t page, way = random_below(&harm->random, 4);
	size_t node, data;

	if (way <= 1) {
		node = find_node(harm, PAGE_BRANCH, &page, &index);
		if (node)
			put(harm, "branch node's child", node, 6, wrong_page(harm, page));
		return;
	}
	data = find_data(harm, way == 2 ? NODE_BIG : NODE_SUBDATA, 0);
	if (data)
		put(harm, way == 2 ? "overflow page" : "database's root",
		    way == 2 ? data : data + RECORD_ROOT, 8,
		    wrong_page(harm, data / harm->base->page_size));
}

static void harm_bit(struct harm *harm)
{
	flip(harm, "bit", random_below(&harm->random, harm->base->size));
}

static void (*const harms[])(struct harm *harm) = {
	[DAMAGE_BIT] = harm_bit,	   [DAMAGE_HEADER] = harm_header,
	[DAMAGE_POINTER] = harm_pointer,   [DAMAGE_NODE] = harm_node,
	[DAMAGE_RECORD] = harm_record,	   [DAMAGE_META] = harm_meta,
	[DAMAGE_TRUNCATE] = harm_truncate, [DAMAGE_PAGE] = harm_page,
	[DAMAGE_CYCLE] = harm_cycle,
};

void damage_make(const struct damage_base *base, uint64_t seed, uint64_t number,
		 struct damaged *out)
{
	struct harm harm = {.base = base, .random = random_start(seed, number), .out = out};

	out->kind = (enum damage_kind)(number % DAMAGE_KINDS);
	out->size = base->size;
	memcpy(out->bytes, base->bytes, base->size);
	/* a kind may find no place in a small file: then another draw, at last a single bit */
	for (int tries = 0; tries < 5 && harm.said == 0; tries++) {
		uint64_t count = 1;

		if (out->kind != DAMAGE_SEVERAL) {
			harms[out->kind](&harm);
			continue;
		}
		for (count = random_between(&harm.random, 2, 6); count > 0; count--)
			harms[random_below(&harm.random, DAMAGE_TRUNCATE)](&harm);
	}
	if (harm.said == 0)
		harm_bit(&harm);
}

int damage_base_load(struct damage_base *base, const char *path)
{
	struct stat file;
	int fd = open(path, O_RDONLY | O_CLOEXEC), rc = 0;
	const unsigned char *meta;

	memset(base, 0, sizeof *base);
	if (fd < 0)
		return errno;
	if (fstat(fd, &file) != 0)
		rc = errno;
	base->size = (size_t)file.st_size;
	base->bytes = rc == 0 ? malloc(base->size) : NULL;
	if (rc == 0 && !base->bytes)
		rc = ENOMEM;
	if (rc == 0 && read(fd, base->bytes, base->size) != (ssize_t)base->size)
		rc = EIO;
	close(fd);
	if (rc != 0)
		return rc;
	if (get(base->bytes, META_MAGIC + LATER_SHIFT, 4) == MAGIC) {
		base->shift = LATER_SHIFT;
		base->base = LATER_BASE;
	}
	meta = base->bytes + base->shift;
	base->page_size = (unsigned)get(meta, META_PAGE_SIZE, 4);
	base->pages = base->size / base->page_size;
	if (get(meta, base->page_size + META_TXN, 8) > get(meta, META_TXN, 8))
		meta += base->page_size;
	base->main_root = get(meta, META_MAIN + RECORD_ROOT, 8);
	return 0;
}

void damage_base_free(struct damage_base *base)
{
	free(base->bytes);
	base->bytes = NULL;
}
