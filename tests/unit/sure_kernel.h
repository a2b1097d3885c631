/* SPDX-License-Identifier: OLDAP-2.8 */
/* Simulates what the kernel does for a store of the page cache, and counts how it is asked. */
#ifndef LMDBIO_TESTS_UNIT_SURE_KERNEL_H
#define LMDBIO_TESTS_UNIT_SURE_KERNEL_H

#include "store_fixture.h"

#include <stdbool.h>
#include <stdint.h>

enum { PAGE = 4096, PIECE = STORE_FAULT, ROW = 16 };

struct sure_kernel {
	unsigned asks;               /* in any way */
	unsigned touches, populates; /* ... by a fault of one page, by madvise() */
	unsigned tries, passes;      /* ... by a read without a wait, with one */
	unsigned looks, begun;       /* ... what it holds, to begin a read */
	uint64_t asked_from, asked;  /* bytes, of the last one */
	uint8_t *map;
	uint64_t bad; /* the page that cannot be read; 0: none */
	bool cold;    /* all has to be read */
	bool slow;    /* a fault takes as long as a read */
	bool untold;  /* by a read without a wait */
};
extern struct sure_kernel kernel;

void kernel_clear_counts(void);

/* A fixture whose first store is over this kernel. */
int sure_setup(void **state);
#define SURE_CASE(name) cmocka_unit_test_setup_teardown(name, sure_setup, store_teardown)
struct store *sure_store(void **state);

/* Hands out a page as a reader does, which looks at `sure` first. Returns 0 or an errno. */
int sure_hand_out(struct store *store, uint64_t offset);

#endif
