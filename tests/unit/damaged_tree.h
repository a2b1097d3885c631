/* SPDX-License-Identifier: OLDAP-2.8 */
/* Declares the tree with which tests of damage begin. */
#ifndef LMDBIO_TESTS_DAMAGED_TREE_H
#define LMDBIO_TESTS_DAMAGED_TREE_H

#include "tree_fixture.h"

enum { SIZE = 256, KEYS = 8, SUB_SIZE = 60 };

/* "a" to "h", with "1" to "8". */
extern const struct made_entry letters[KEYS];

/* Makes a struct fixture, with pages of SIZE bytes, as the test's state. */
int damaged_setup(void **state);
int damaged_teardown(void **state);

/* Leaves of 2 under branches of 2: pages 2 ... 5 are leaves, 6 and 7 branches, 8 the root. */
struct tree_record tree_of_letters(struct fixture *f);
/* Makes a leaf of these entries; the fixture uses it. */
struct tree_record tree_of_entries(struct fixture *f, const struct made_entry *entries, size_t n,
				   unsigned flags);
/* Makes a leaf with the keys a, b and c: a single value "0", a sub-page of SUB_SIZE bytes with 1
 * and 2, a sub-tree of 3 ... 8 in leaves of 2. */
struct tree_record tree_of_duplicates(struct fixture *f);

uint8_t *page_of(struct fixture *f, uint64_t number);
/* Returns the start of node `i` of a page. */
uint8_t *node_of(struct fixture *f, uint64_t number, unsigned i);
/* Returns the offset of entry `i` as the page states it, also for the slot behind its last
 * entry. */
uint16_t slot_of(struct fixture *f, uint64_t number, unsigned i);
void slot_set(struct fixture *f, uint64_t number, unsigned i, uint16_t offset);

#endif
