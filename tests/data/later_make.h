/* SPDX-License-Identifier: OLDAP-2.8 */
/* Writes the content of a data file of LMDB 0.9 in the format of LMDB 1.0.
 *
 * Page by page, from the description in lib/format/layout.h: each page of the new file has the
 * number and the entries of the old one's, in pages twice as large, so that everything fits. What a
 * cursor answers then differs in nothing that depends on where a page ends. Names of databases get
 * the NUL byte that LMDB 1.0 keeps in their keys.
 */
#ifndef TESTS_LATER_MAKE_H
#define TESTS_LATER_MAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LATER_SUM_SIZE = 8 }; /* bytes */

struct later_how {
	bool earlier; /* in LMDB 0.9's format: the same pages twice as large, to compare with */
	bool sums;    /* each page ends with the later_sum() of what is in front of it */
};

/* The 64-bit FNV-1a of some bytes, as a processor stores it. */
uint64_t later_sum(const uint8_t *bytes, size_t size);

/* `from` is a sound data file; `to` is replaced. Returns 0, EINVAL or an errno. */
int later_make(const char *from, const char *to);
int later_make_as(const char *from, const char *to, struct later_how how);
/* The same in memory. Returns NULL for what is no sound file; else *to_size bytes, malloc'ed. */
uint8_t *later_make_bytes(const uint8_t *from, size_t size, struct later_how how, size_t *to_size);

#endif
