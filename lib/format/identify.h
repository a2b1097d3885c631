/* SPDX-License-Identifier: OLDAP-2.8 */
/* Tells from a file's first bytes whether it is a data file that lmdbio reads, or else its kind. */
#ifndef LMDBIO_FORMAT_IDENTIFY_H
#define LMDBIO_FORMAT_IDENTIFY_H

#include <stddef.h>
#include <stdint.h>

enum format_kind {
	FORMAT_KIND_OURS,       /* LMDB 0.9 of a 64-bit program, sound or damaged */
	FORMAT_KIND_LMDB_1,     /* LMDB 1.0, the same */
	FORMAT_KIND_VERSION,    /* another version of either layout */
	FORMAT_KIND_32_BIT,     /* LMDB 0.9 of a 32-bit program */
	FORMAT_KIND_BYTE_ORDER, /* LMDB of a machine with the other byte order */
	FORMAT_KIND_ZSTD,       /* compressed as a whole */
	FORMAT_KIND_SKIPPABLE,  /* begins with a frame that zstd skips, as a container does */
	FORMAT_KIND_EMPTY,      /* no bytes */
	FORMAT_KIND_OTHER,      /* no LMDB file, or one whose meta pages have left no trace */
};

/* FORMAT_LOOK: first bytes of a file to judge, LMDB's largest page and the second meta page. */
enum { FORMAT_LOOK = 65536 + 256, FORMAT_TEXT = 192 };

struct format_identity {
	enum format_kind kind;
	uint32_t version; /* of FORMAT_KIND_VERSION: the version in the file */
};

/* Judges the first bytes of a file: FORMAT_LOOK of them, or all if the file is shorter. */
struct format_identity format_identify(const uint8_t *bytes, size_t length);

/* Says in one line what the file is and what its owner can do, to follow "FILE: ", without a full
 * stop. Returns `text`, or NULL for FORMAT_KIND_OURS and FORMAT_KIND_LMDB_1, which lmdbio reads. */
const char *format_explain(const struct format_identity *identity, char text[FORMAT_TEXT]);

#endif
