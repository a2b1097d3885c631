/* SPDX-License-Identifier: OLDAP-2.8 */
/* Tells from a file's first bytes whether it is a data file that lmdbio reads, or what else. */
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
	FORMAT_KIND_SKIPPABLE,  /* begins as a container does, with a frame that zstd skips */
	FORMAT_KIND_EMPTY,      /* no bytes */
	FORMAT_KIND_OTHER,      /* no LMDB file, or one without a trace of its meta pages */
};

/* How many of a file's first bytes are looked at: LMDB's largest page and the second meta page. */
enum { FORMAT_LOOK = 65536 + 256, FORMAT_TEXT = 192 };

struct format_identity {
	enum format_kind kind;
	uint32_t version; /* of FORMAT_KIND_VERSION: what the file says */
};

/* Judges the first bytes of a file, FORMAT_LOOK of them or as many as it has. */
struct format_identity format_identify(const uint8_t *bytes, size_t length);

/* What the file is and what its owner can do, as one line that continues "FILE: ", without a full
 * stop. Returns `text`, or NULL for FORMAT_KIND_OURS and FORMAT_KIND_LMDB_1, which are read. */
const char *format_explain(const struct format_identity *identity, char text[FORMAT_TEXT]);

#endif
