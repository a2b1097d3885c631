/* SPDX-License-Identifier: OLDAP-2.8 */
/* Reads an environment through every reading call of lmdb.h and lmdbio.h, as a script says. */
#ifndef LMDBIO_TEST_FUZZ_READS_H
#define LMDBIO_TEST_FUZZ_READS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A file without a name that holds these bytes. Returns its descriptor. */
int reads_file(const uint8_t *bytes, size_t size);

/* Has later environments of this process read through a store ("auto", "cache" or "arena"); a container has a store
 * of its own. `share`: other processes are looked for, and may find this one's shared memory. */
void reads_through(const char *store, bool share);

/* Opens the file, scans and numbers each database that images_make() makes, then makes the calls of the script, three bytes
 * each. Aborts, with a line on standard error, at a code that lmdb.h does not document for a read. Every byte
 * handed out is looked at. Returns the code of opening; *sum depends on every answer that does not name the file's own size. */
int reads_run(int fd, const uint8_t *script, size_t size, uint64_t *sum);

#endif
