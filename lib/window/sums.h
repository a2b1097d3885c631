/* SPDX-License-Identifier: OLDAP-2.8 */
/* Verifies the checksums that LMDB 1.0 puts behind pages, each once in a snapshot.
 *
 * The last bytes of a page, or of a value's run of pages as a whole, are the checksum of all before
 * them; meta pages have none. A bit says of each page that its checksum was right. Where no page is
 * smaller than a block of a view's `sure`, these bits are the view's: a verified page costs what
 * any other does.
 */
#ifndef LMDBIO_WINDOW_SUMS_H
#define LMDBIO_WINDOW_SUMS_H

#include "util/checksums.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#ifndef MDB_BAD_CHECKSUM
#define MDB_BAD_CHECKSUM (-30778) /* LMDB 1.0's: "Page checksum mismatch" */
#endif

enum { CHECKSUM_MOST = 256 }; /* bytes of a checksum */

struct sums;      /* of an environment */
struct sums_seen; /* of one snapshot, for all its transactions */

/* Returns 0 or ENOMEM. */
int sums_open(struct sums **sums, MDB_sum_func *func, unsigned size, uint32_t page_size);
/* Frees `sums`, which may be NULL. The caller has given back all that it took. */
void sums_close(struct sums *sums);
unsigned sums_size(const struct sums *sums);

/* Takes the record of a snapshot of `pages` pages, known by its number and the file's state.
 * Returns NULL without memory. Lifetime: until sums_give(). Any thread, also in a forked child. */
struct sums_seen *sums_take(struct sums *sums, uint64_t snapshot, uint64_t state, uint64_t pages);
void sums_give(struct sums_seen *seen);

/* The bits that a view takes for its own `sure`. */
const _Atomic uint64_t *sums_sure(const struct sums_seen *seen);
/* Whether all of these pages have been verified. */
bool sums_hold(const struct sums_seen *seen, uint64_t number, uint64_t count);
/* Verifies a page or a run, all of which is at `bytes`. Returns 0 or MDB_BAD_CHECKSUM. Any
 * thread. */
int sums_verify(struct sums_seen *seen, const uint8_t *bytes, uint64_t number, uint64_t count);
/* Puts its checksum at the end of a page or a run of `size` bytes. */
void sums_put(const struct sums *sums, uint8_t *bytes, size_t size);

#endif
