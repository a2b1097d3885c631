/* SPDX-License-Identifier: OLDAP-2.8 */
/* Looks for the magic number of each layout that LMDB has had, in both places of a meta page.
 *
 * The magic number and the version follow the page header, whose length the layout decides:
 *   12 bytes  LMDB 0.9 of a 32-bit program
 *   16 bytes  LMDB 0.9 of a 64-bit program, version 1; version 2 in development branches
 *   24 bytes  LMDB 1.0, version 3; others in development branches
 * The second meta page stands at the page size. One meta page of another kind beside a usual one is
 * damage, not another kind of file.
 */
#include "format/identify.h"

#include "format/layout.h"
#include "util/checked.h"

#include <stdbool.h>
#include <stdio.h>

enum {
	MAGIC_32 = 12,
	MAGIC_LATER = 24,
	VERSION_BEHIND = 4, /* bytes from the magic number to the version */
	VERSION_1_0 = 3,
	PAGE_MOST = 65536, /* of LMDB 1.0; 0.9 has half of it */
};

#define ZSTD_FRAME     0xFD2FB528u
#define ZSTD_SKIPPABLE 0x184D2A50u /* and the 15 numbers behind it */

struct bytes {
	const uint8_t *at;
	size_t length;
};

static bool has(struct bytes bytes, size_t at, uint32_t value)
{
	return at + sizeof(value) <= bytes.length && load32(bytes.at + at) == value;
}

/* Reads the version behind a magic number at `at`. */
static bool has_magic(struct bytes bytes, size_t at, uint32_t *version)
{
	if (!has(bytes, at, FORMAT_MAGIC) || at + 2 * sizeof(*version) > bytes.length)
		return false;
	*version = load32(bytes.at + at + VERSION_BEHIND);
	return true;
}

/* Returns whether either place of a meta page has this layout's magic number, with that version. */
static bool has_meta(struct bytes bytes, size_t magic, uint32_t version)
{
	uint32_t found;

	if (has_magic(bytes, magic, &found) && found == version)
		return true;
	for (size_t size = FORMAT_PAGE_MIN; size <= PAGE_MOST; size *= 2)
		if (has_magic(bytes, size + magic, &found) && found == version)
			return true;
	return false;
}

/* Returns whether both places have the magic number. No damage brings that about. */
static bool has_both(struct bytes bytes, size_t magic, uint32_t *version)
{
	uint32_t second;

	if (!has_magic(bytes, magic, version))
		return false;
	for (size_t size = FORMAT_PAGE_MIN; size <= PAGE_MOST; size *= 2)
		if (has_magic(bytes, size + magic, &second) && second == *version)
			return true;
	return false;
}

struct format_identity format_identify(const uint8_t *at, size_t length)
{
	static const size_t places[] = {META_MAGIC, MAGIC_32, MAGIC_LATER};
	struct bytes bytes = {at, length};
	uint32_t version;

	if (!length)
		return (struct format_identity){.kind = FORMAT_KIND_EMPTY};
	if (has_meta(bytes, META_MAGIC, FORMAT_VERSION))
		return (struct format_identity){.kind = FORMAT_KIND_OURS};
	if (has_both(bytes, META_MAGIC, &version))
		return (struct format_identity){FORMAT_KIND_VERSION, version};
	if (has(bytes, META_MAGIC, FORMAT_MAGIC))
		return (struct format_identity){.kind = FORMAT_KIND_OURS}; /* a damaged version */
	if (has_meta(bytes, MAGIC_LATER, VERSION_1_0))
		return (struct format_identity){FORMAT_KIND_LMDB_1, VERSION_1_0};
	if (has_magic(bytes, MAGIC_LATER, &version))
		return (struct format_identity){FORMAT_KIND_VERSION, version};
	if (has_meta(bytes, MAGIC_32, FORMAT_VERSION))
		return (struct format_identity){.kind = FORMAT_KIND_32_BIT};
	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++)
		if (has(bytes, places[i], __builtin_bswap32(FORMAT_MAGIC)))
			return (struct format_identity){.kind = FORMAT_KIND_BYTE_ORDER};
	if (has(bytes, 0, ZSTD_FRAME))
		return (struct format_identity){.kind = FORMAT_KIND_ZSTD};
	if (length >= sizeof(version) && (load32(at) & ~0xfu) == ZSTD_SKIPPABLE)
		return (struct format_identity){.kind = FORMAT_KIND_SKIPPABLE};
	return (struct format_identity){.kind = FORMAT_KIND_OTHER};
}

const char *format_explain(const struct format_identity *identity, char text[FORMAT_TEXT])
{
	static const char load_here[] = "dump it there with mdb_dump, load it here with mdb_load";

	switch (identity->kind) {
	case FORMAT_KIND_OURS:
	case FORMAT_KIND_LMDB_1:
		return NULL;
	case FORMAT_KIND_VERSION:
		snprintf(text, FORMAT_TEXT,
			 "this is a data file of version %u of LMDB's format, here they are %u and "
			 "%u: dump it with the LMDB that wrote it, load it with LMDB 0.9's mdb_load",
			 identity->version, page_layouts[FORMAT_0_9].version,
			 page_layouts[FORMAT_1_0].version);
		break;
	case FORMAT_KIND_32_BIT:
		snprintf(text, FORMAT_TEXT, "this is a data file of a 32-bit program: %s", load_here);
		break;
	case FORMAT_KIND_BYTE_ORDER:
		snprintf(text, FORMAT_TEXT,
			 "this is a data file of a machine with the other byte order: %s", load_here);
		break;
	case FORMAT_KIND_ZSTD:
		snprintf(text, FORMAT_TEXT,
			 "this is compressed by zstd, but no container of lmdbio-convert: decompress "
			 "it with zstd -d");
		break;
	case FORMAT_KIND_SKIPPABLE:
		snprintf(text, FORMAT_TEXT,
			 "this begins as a container of lmdbio-convert does, but is damaged or "
			 "none: copy or convert it again");
		break;
	case FORMAT_KIND_EMPTY:
		snprintf(text, FORMAT_TEXT, "this file is empty, no LMDB data file: copy it again");
		break;
	case FORMAT_KIND_OTHER:
		snprintf(text, FORMAT_TEXT,
			 "this is no LMDB data file, or nothing is left of its "
			 "first two pages: check the path");
		break;
	}
	return text;
}
