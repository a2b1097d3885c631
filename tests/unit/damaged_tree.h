/* SPDX-License-Identifier: OLDAP-2.8 */
/* The tree that tests of damage begin with. */
#ifndef LMDBIO_TESTS_DAMAGED_TREE_H
#define LMDBIO_TESTS_DAMAGED_TREE_H

#include "tree_fixture.h"

enum { SIZE = 256, KEYS = 8 };

/* "a" to "h", with "1" to "8". */
extern const struct made_entry letters[KEYS];

/* A struct fixture, with pages of SIZE bytes, as the test's state. */
int damaged_setup(void **state);
int damaged_teardown(void **state);

/* Leaves of 2 under branches of 2: pages 2 ... 5 are leaves, 6 and 7 branches, 8 the root. */
struct tree_record tree_of_letters(struct fixture *f);

uint8_t *page_of(struct fixture *f, uint64_t number);
/* What node `i` of a page begins with. */
uint8_t *node_of(struct fixture *f, uint64_t number, unsigned i);

#endif
