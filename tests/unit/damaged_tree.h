/* SPDX-License-Identifier: OLDAP-2.8 */
/* The tree that tests of damage begin with. */
#ifndef LMDBIO_TESTS_DAMAGED_TREE_H
#define LMDBIO_TESTS_DAMAGED_TREE_H

#include "tree_fixture.h"

enum { SIZE = 256, KEYS = 8, SUB_SIZE = 60 };

/* "a" to "h", with "1" to "8". */
extern const struct made_entry letters[KEYS];

/* A struct fixture, with pages of SIZE bytes, as the test's state. */
int damaged_setup(void **state);
int damaged_teardown(void **state);

/* Leaves of 2 under branches of 2: pages 2 ... 5 are leaves, 6 and 7 branches, 8 the root. */
struct tree_record tree_of_letters(struct fixture *f);
/* A leaf of these entries; the fixture looks at it. */
struct tree_record tree_of_entries(struct fixture *f, const struct made_entry *entries, size_t n,
				   unsigned flags);
/* One of a, b, c: a single value "0", a sub-page of SUB_SIZE bytes with 1 and 2, a sub-tree of 3 ... 8 in leaves of 2. */
struct tree_record tree_of_duplicates(struct fixture *f);

uint8_t *page_of(struct fixture *f, uint64_t number);
/* What node `i` of a page begins with. */
uint8_t *node_of(struct fixture *f, uint64_t number, unsigned i);
/* Where entry `i` of a page begins, as the page says it, also behind its last entry. */
uint16_t slot_of(struct fixture *f, uint64_t number, unsigned i);
void slot_set(struct fixture *f, uint64_t number, unsigned i, uint16_t offset);

#endif
