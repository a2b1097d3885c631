/* SPDX-License-Identifier: OLDAP-2.8 */
/* Says which kinds of damage an LMDB file can be given.
 *
 * A damaged file follows from (base file, seed, number) alone; no broken file is committed.
 */
#ifndef TESTS_DAMAGE_H
#define TESTS_DAMAGE_H

#include <stddef.h>
#include <stdint.h>

enum damage_kind {
	DAMAGE_BIT,	/* one bit anywhere */
	DAMAGE_HEADER,	/* bytes in the first 64 of a page */
	DAMAGE_POINTER, /* where a node begins */
	DAMAGE_NODE,	/* a node's header: size, flags, key size */
	DAMAGE_RECORD, /* the record of a named or a duplicates' database, or a sub-page's header */
	DAMAGE_META,   /* one or both meta pages */
	DAMAGE_TRUNCATE,
	DAMAGE_PAGE,	/* a whole page: swapped, copied over, zero, 0xff, random */
	DAMAGE_CYCLE,	/* page numbers that lead back, aside, or nowhere */
	DAMAGE_SEVERAL, /* two to six of the others */
	DAMAGE_KINDS,
};

struct damage_base {
	unsigned char *bytes;
	size_t size;
	unsigned page_size;
	size_t pages;
	uint64_t main_root;
	unsigned shift; /* bytes that all but the page number stand further on: in LMDB 1.0 8 */
	unsigned base;  /* what node offsets and lower count from: 0, in LMDB 1.0 24 */
};

struct damaged {
	unsigned char *bytes; /* room for the base's size */
	size_t size;
	enum damage_kind kind;
	char what[200]; /* one line: what was done where */
};

const char *damage_kind_name(enum damage_kind kind);

/* Reads a sound file. Returns 0 or an errno. */
int damage_base_load(struct damage_base *base, const char *path);
void damage_base_free(struct damage_base *base);

/* Number n of the seed; the kinds take turns. *out needs bytes = malloc(base->size). */
void damage_make(const struct damage_base *base, uint64_t seed, uint64_t number,
		 struct damaged *out);

#endif
