/* SPDX-License-Identifier: OLDAP-2.8 */
/* Makes a sound data file with each kind of tree, page and node in it. */
#ifndef LMDBIO_TEST_FUZZ_IMAGES_H
#define LMDBIO_TEST_FUZZ_IMAGES_H

#include <stddef.h>
#include <stdint.h>

enum { IMAGE_PAGES = 64, IMAGE_KINDS = 4 };

/* Makes a file of IMAGE_PAGES pages: a main tree with values, overflow runs and the names of
 * databases of each kind (sub-pages, sub-trees, LEAF2 of both, number keys, reversed ones), and a
 * free list. `kind` chooses the page size: 512, 256, 1024, 4096. Returns its bytes, malloc'ed. */
uint8_t *images_make(unsigned kind, size_t *size);

#endif
