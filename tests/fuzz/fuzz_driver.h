/* SPDX-License-Identifier: OLDAP-2.8 */
/* Declares what a fuzz target offers to the driver, or to libFuzzer. */
#ifndef LMDBIO_TEST_FUZZ_DRIVER_H
#define LMDBIO_TEST_FUZZ_DRIVER_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Makes good inputs, numbered from 0. Returns malloc'ed bytes, or NULL when there are no more. The
 * corpus is made of these inputs, and the driver's mutations begin with them. */
uint8_t *fuzz_example(unsigned number, size_t *size);
/* stride, front: the driver damages bytes [0, front) of every `stride` more often than others.
 * mutations: the number in `make check`; the long form makes 100 times as many; 0: MUTATIONS.
 * most: the longest input that libFuzzer makes, in bytes; 0: 300,000. */
struct fuzz_weight {
	size_t stride, front;
	unsigned long mutations;
	unsigned long most;
};
extern const struct fuzz_weight fuzz_weight;

#endif
