/* SPDX-License-Identifier: OLDAP-2.8 */
/* Reads a whole file in memory in every way, and checks the rules that no damage may break. */
#ifndef LMDBIO_TEST_FUZZ_WALK_H
#define LMDBIO_TEST_FUZZ_WALK_H

#include "format/layout.h"

#include <stddef.h>
#include <stdint.h>

/* Reads all trees of the file forwards and backwards, and searches for the records that it finds;
 * then moves one cursor as the script says, two bytes an operation. Aborts, with a line on standard
 * error, at an answer that is not allowed, or a value that is not inside the file. Returns a number
 * that depends on every byte returned. */
uint64_t walk_file(const uint8_t *bytes, size_t size, const uint8_t *script, size_t script_size);
/* The same for a file in the given LMDB's format. */
uint64_t walk_file_of(enum format format, const uint8_t *bytes, size_t size, const uint8_t *script,
		      size_t script_size);

/* The same for a fuzzer's bytes: the last two are the script's length (modulo 256), the script
 * stands in front of them, and all other bytes are the file. */
void walk_input(enum format format, const uint8_t *data, size_t size);

/* The records that the last walk_file() has found, all trees and both directions together. */
extern uint64_t walk_records;

#endif
