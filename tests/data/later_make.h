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

/* `from` is a sound data file; `to` is replaced. Returns 0, EINVAL or an errno. */
int later_make(const char *from, const char *to);

#endif
