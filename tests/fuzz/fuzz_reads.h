/* SPDX-License-Identifier: OLDAP-2.8 */
/* Reads an environment through every reading call of lmdb.h and lmdbio.h, as a script says. */
#ifndef LMDBIO_TEST_FUZZ_READS_H
#define LMDBIO_TEST_FUZZ_READS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Makes a file without a name that holds these bytes. Returns its descriptor. */
int reads_file(const uint8_t *bytes, size_t size);

/* Makes later environments of this process read through a store ("auto", "cache" or "arena"); a
 * container has its own store. `share`: this process looks for others, and they may find its shared
 * memory. */
void reads_through(const char *store, bool share);

/* Opens the file, scans and numbers each database that images_make() makes, then makes the calls of
 * the script, three bytes each, and touches every byte that the calls return. Aborts, with a line
 * on standard error, at a code that lmdb.h does not document for a read. Returns the code of
 * opening; *sum depends on every answer that does not name the file's own size. */
int reads_run(int fd, const uint8_t *script, size_t size, uint64_t *sum);

#endif
