/* SPDX-License-Identifier: OLDAP-2.8 */
/* Simulates the kernel for a page-cache store, and counts the store's requests. */
#ifndef LMDBIO_TESTS_UNIT_SURE_KERNEL_H
#define LMDBIO_TESTS_UNIT_SURE_KERNEL_H

#include "store_fixture.h"

#include <stdbool.h>
#include <stdint.h>

enum { PAGE = 4096, PIECE = STORE_FAULT, ROW = 16 };

struct sure_kernel {
	unsigned asks;               /* requests of any kind */
	unsigned touches, populates; /* ... faults of one page, calls of madvise() */
	unsigned passes, looks;      /* ... reads, questions what is cached */
	uint64_t asked_from, asked;  /* the last request, in bytes */
	uint64_t begun;              /* bytes that it was asked to read without a wait */
	uint64_t begun_from, begun_last; /* ... the last request */
	uint8_t *map;
	uint64_t fault_ns; /* of a fault that reads nothing */
	uint64_t bad; /* the page whose reads fail; 0: none */
	bool cold;    /* every page has to be read */
	bool untold;  /* mincore() says that all is cached */
	bool dear;    /* io_touch() takes longer than a page fault */
};
extern struct sure_kernel kernel;

void kernel_clear_counts(void);

/* A setup whose fixture has its first store on this kernel. */
int sure_setup(void **state);
#define SURE_CASE(name) cmocka_unit_test_setup_teardown(name, sure_setup, store_teardown)
struct store *sure_store(void **state);

/* Hands out a page as a reader does that checks `sure` first. Returns 0 or an errno. */
int sure_hand_out(struct store *store, uint64_t offset);

#endif
