/* SPDX-License-Identifier: OLDAP-2.8 */
/* Judges the fields of the two meta pages. */
#include "check_meta.h"

#include "format/identify.h"
#include "util/checked.h"

#include <errno.h>
#include <inttypes.h>
#include <lmdb.h>
#include <stdlib.h>
#include <string.h>

/* ADDRESS_BITS: a program's part of x86-64's address space; no data file was ever mapped at this
 * length. */
enum { ADDRESS_BITS = 47, LOOKS = 8 };

static const char *const labels[FORMAT_METAS] = {"meta page 0", "meta page 1"};

static int meta_read(struct io *io, uint64_t offset, uint8_t page[META_LOOK], size_t *done)
{
	memset(page, 0, META_LOOK);
	return io_read(io, page, META_LOOK, offset, done);
}

/* Returns how many bytes of a meta page its fields take. */
static size_t meta_end(enum format format)
{
	return page_layouts[format].shift + META_END;
}

/* Finds the file's format. A format that lmdbio does not read is no damage: report->unchecked says
 * what the file is. */
static int format_find(struct io *io, struct check_report *report, enum format *format)
{
	static char text[FORMAT_TEXT]; /* a process has only one check */
	struct format_identity identity;
	uint8_t *bytes = malloc(FORMAT_LOOK);
	size_t done = 0;
	int rc = bytes ? io_read(io, bytes, FORMAT_LOOK, 0, &done) : ENOMEM;

	if (!rc) {
		identity = format_identify(bytes, done);
		*format = identity.kind == FORMAT_KIND_LMDB_1 ? FORMAT_1_0 : FORMAT_0_9;
		if (identity.kind == FORMAT_KIND_SKIPPABLE) {
			check_found(report, CHECK_DAMAGE, "container", 0, "%s",
				    format_explain(&identity, text));
			rc = EBADMSG;
		} else {
			report->unchecked = format_explain(&identity, text);
		}
	}
	free(bytes);
	return rc;
}

/* Finds the page size. It is the first meta page's, if the second one exists and says the same.
 * Else it is the second one's, if that page stands where its own size says. Else it is the first
 * one's, or 0. */
static int page_size_find(struct io *io, const uint8_t *first, enum format format,
			  uint32_t *page_size)
{
	uint8_t page[META_LOOK];
	struct meta meta;
	size_t done;
	int rc;

	*page_size = meta_parse(&meta, first, format) ? 0 : meta.page_size;
	for (uint32_t size = FORMAT_PAGE_MIN / 2; size <= page_layouts[format].page_max;
	     size *= 2) {
		uint32_t at = size < FORMAT_PAGE_MIN ? *page_size : size;

		if ((rc = meta_read(io, at, page, &done)))
			return rc;
		if (at && done >= meta_end(format) && !meta_parse(&meta, page, format) &&
		    meta.page_size == at) {
			*page_size = at;
			break;
		}
	}
	return 0;
}

/* Reads both meta pages as of one moment: a writer may be changing one of them. */
static int metas_read(struct io *io, uint32_t page_size, uint8_t pages[FORMAT_METAS][META_LOOK],
		      size_t done[FORMAT_METAS])
{
	uint8_t before[FORMAT_METAS][META_LOOK];
	int rc;

	for (int look = 0; look < LOOKS; look++) {
		memcpy(before, pages, sizeof(before));
		for (unsigned i = 0; i < FORMAT_METAS; i++)
			if ((rc = meta_read(io, (uint64_t)i * page_size, pages[i], &done[i])))
				return rc;
		if (look && !memcmp(before, pages, sizeof(before)))
			break;
	}
	return 0;
}

/* Reports why meta_parse() refuses a page. */
static void judge_refused(struct check_report *report, unsigned i, uint64_t byte,
			  const uint8_t *page, enum format format)
{
	uint32_t magic, version;

	byte += page_layouts[format].shift;
	page += page_layouts[format].shift;
	magic = load32(page + META_MAGIC);
	version = load32(page + META_VERSION);
	if (!(load16(page + PAGE_FLAGS) & PAGE_META))
		check_found(report, CHECK_DAMAGE, labels[i], byte + PAGE_FLAGS,
			    "has flags %#x, which no meta page has", load16(page + PAGE_FLAGS));
	if (magic != FORMAT_MAGIC)
		check_found(report, CHECK_DAMAGE, labels[i], byte + META_MAGIC,
			    "has the magic number %#x: this is no LMDB data file, or damaged",
			    magic);
	else if (version != page_layouts[format].version)
		check_found(report, CHECK_DAMAGE, labels[i], byte + META_VERSION,
			    "has the format version %u", version);
	else
		check_found(report, CHECK_DAMAGE, labels[i], byte + META_FREE_TREE + TREE_PAD,
			    "has the page size %u", load32(page + META_FREE_TREE + TREE_PAD));
}

static void judge_root(struct check_report *report, unsigned i, uint64_t byte, const char *which,
		       const struct meta *meta, uint64_t root)
{
	if (root != PAGE_NONE && (root < FORMAT_METAS || root > meta->last_page))
		check_found(report, CHECK_DAMAGE, labels[i], byte,
			    "the root of the %s is page %" PRIu64 ", of pages 2 to %" PRIu64, which,
			    root, meta->last_page);
}

static void judge_number(struct check_report *report, unsigned i, uint64_t byte,
			 const uint8_t *page)
{
	if (load64(page + PAGE_NUMBER) != i)
		check_found(report, CHECK_DAMAGE, labels[i], byte, "calls itself page %" PRIu64,
			    load64(page + PAGE_NUMBER));
}

/* Judges a meta page's fields. `byte` and `page` begin where 0.9's offsets lead to the fields. */
static void judge_fields(struct check_report *report, unsigned i, uint64_t byte,
			 const uint8_t *page, const struct meta *meta)
{
	uint64_t end;

	if (load16(page + PAGE_FLAGS) != PAGE_META)
		check_found(report, CHECK_DAMAGE, labels[i], byte + PAGE_FLAGS, "has flags %#x",
			    load16(page + PAGE_FLAGS));
	if (!(meta->env_flags & MDB_INTEGERKEY))
		check_found(report, CHECK_DAMAGE, labels[i], byte + META_FREE_TREE + TREE_FLAGS,
			    "the free list has flags %#x", meta->env_flags);
	if (meta->last_page < FORMAT_METAS - 1 || meta->last_page == UINT64_MAX ||
	    !checked_multiply(meta->last_page + 1, meta->page_size, &end) || end >> ADDRESS_BITS) {
		check_found(report, CHECK_DAMAGE, labels[i], byte + META_LAST_PAGE,
			    "the last page is %" PRIu64, meta->last_page);
		return;
	}
	if (meta->mapsize >> ADDRESS_BITS)
		check_found(report, CHECK_DAMAGE, labels[i], byte + META_MAPSIZE,
			    "the map size is %" PRIu64 " bytes", meta->mapsize);
	else if (meta->mapsize < end)
		check_found(report, CHECK_WARNING, labels[i], byte + META_MAPSIZE,
			    "the map size of %" PRIu64 " bytes is less than the pages take",
			    meta->mapsize);
	judge_root(report, i, byte + META_FREE_TREE + TREE_ROOT, "free list", meta,
		   meta->free_tree.root);
	judge_root(report, i, byte + META_MAIN_TREE + TREE_ROOT, "main database", meta,
		   meta->main_tree.root);
}

/* Returns whether LMDB 1.0 wrote a meta page when a program took back the last transaction
 * (mdb_env_rollback). Such a page has no trees, and a number below the transaction before. */
static bool is_rolled_back(unsigned i, const uint8_t pages[FORMAT_METAS][META_LOOK],
			   enum format format)
{
	struct meta meta, other;

	return format == FORMAT_1_0 && !meta_parse(&meta, pages[i], format) &&
	       !meta_parse(&other, pages[!i], format) && meta.txnid == i && other.txnid > i &&
	       !meta.free_tree.root && !meta.main_tree.root && meta.last_page == UINT64_MAX;
}

/* Judges the transaction numbers: transaction n writes meta page n & 1. In a file that was never
 * written to, both are 0. */
static void judge_transactions(struct check_report *report, const struct check_metas *metas)
{
	const struct meta *meta = metas->meta;

	if (!metas->sound[0] || !metas->sound[1] || (!meta[0].txnid && !meta[1].txnid))
		return;
	for (unsigned i = 0; i < FORMAT_METAS; i++)
		if (meta[i].txnid && meta[i].txnid % FORMAT_METAS != i)
			check_found(report, CHECK_DAMAGE, labels[i],
				    (uint64_t)i * metas->page_size +
					    page_layouts[metas->format].shift + META_TXNID,
				    "is of transaction %" PRIu64 ", which writes the other one",
				    meta[i].txnid);
	/* A crash without MDB_NOSYNC or MDB_NOMETASYNC cannot leave the numbers further apart. */
	if (!metas->rolled_back && meta[0].txnid + 1 != meta[1].txnid &&
	    meta[1].txnid + 1 != meta[0].txnid)
		check_found(report, CHECK_WARNING, labels[0],
			    page_layouts[metas->format].shift + META_TXNID,
			    "transaction %" PRIu64 " here and %" PRIu64
			    " in the other one do not follow each other",
			    meta[0].txnid, meta[1].txnid);
}

static void judge_page(struct check_report *report, struct check_metas *metas, unsigned i,
		       const uint8_t pages[FORMAT_METAS][META_LOOK], size_t done)
{
	const uint8_t *page = pages[i];
	uint64_t byte = (uint64_t)i * metas->page_size;
	uint32_t shift = page_layouts[metas->format].shift;
	struct meta *meta = &metas->meta[i];

	if (done < meta_end(metas->format) || metas->file_size < byte + metas->page_size) {
		check_found(report, CHECK_DAMAGE, labels[i], byte,
			    "is cut off: the file ends after %" PRIu64 " bytes", metas->file_size);
	} else if (meta_parse(meta, page, metas->format)) {
		judge_refused(report, i, byte, page, metas->format);
	} else if (meta->page_size != metas->page_size) {
		check_found(report, CHECK_DAMAGE, labels[i],
			    byte + shift + META_FREE_TREE + TREE_PAD,
			    "has the page size %u, the other one %u", meta->page_size,
			    metas->page_size);
	} else {
		metas->sound[i] = true;
		judge_number(report, i, byte, page);
		if (is_rolled_back(i, pages, metas->format))
			metas->rolled_back = true;
		else
			judge_fields(report, i, byte + shift, page + shift, meta);
		if (metas->newest < 0 || meta->txnid > metas->meta[metas->newest].txnid)
			metas->newest = (int)i;
	}
}

int check_metas(struct check_report *report, struct io *io, struct check_metas *metas)
{
	uint8_t pages[FORMAT_METAS][META_LOOK] = {{0}};
	size_t done[FORMAT_METAS];
	int rc;

	*metas = (struct check_metas){.newest = -1};
	if ((rc = io_size(io, &metas->file_size)) || (rc = meta_read(io, 0, pages[0], &done[0])) ||
	    (rc = format_find(io, report, &metas->format)))
		return rc;
	if (report->unchecked)
		return ENOTSUP;
	if ((rc = page_size_find(io, pages[0], metas->format, &metas->page_size)))
		return rc;
	report->page_size = metas->page_size;
	if (!metas->page_size) {
		if (done[0] < meta_end(metas->format))
			check_found(report, CHECK_DAMAGE, "the file", metas->file_size,
				    "ends after %" PRIu64 " bytes, inside of its first page",
				    metas->file_size);
		else
			judge_refused(report, 0, 0, pages[0], metas->format);
		return 0;
	}
	if ((rc = metas_read(io, metas->page_size, pages, done)))
		return rc;
	for (unsigned i = 0; i < FORMAT_METAS; i++)
		judge_page(report, metas, i, pages, done[i]);
	judge_transactions(report, metas);
	return 0;
}
