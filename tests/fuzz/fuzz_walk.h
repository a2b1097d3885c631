/* SPDX-License-Identifier: OLDAP-2.8 */
/* Shows how a whole file in memory is read in every way, and what no damage
 * may lead to. */
#ifndef LMDBIO_TEST_FUZZ_WALK_H
#define LMDBIO_TEST_FUZZ_WALK_H

#include "format/layout.h"

#include <stddef.h>
#include <stdint.h>

/* Reads all trees of the file forwards and backwards, and searches for what it meets; then lets the
 * script drive one cursor, two bytes an operation. Aborts, with a line on standard error, when an
 * answer is none that may be given, or a value is not inside the file. Returns a number that
 * depends on every byte handed out. */
uint64_t walk_file(const uint8_t *bytes, size_t size, const uint8_t *script, size_t script_size);
/* The same of a file of another LMDB than 0.9. */
uint64_t walk_file_of(enum format format, const uint8_t *bytes, size_t size, const uint8_t *script,
		      size_t script_size);

/* The same of a fuzzer's bytes: the last two are the script's length (modulo 256), the script stands in
 * front of them, all else is the file. */
void walk_input(enum format format, const uint8_t *data, size_t size);

/* How many records the last walk_file() has met, all trees and both directions together. */
extern uint64_t walk_records;

#endif
