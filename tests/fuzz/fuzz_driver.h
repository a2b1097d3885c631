/* SPDX-License-Identifier: OLDAP-2.8 */
/* Says what a fuzz target offers to whoever feeds it. */
#ifndef LMDBIO_TEST_FUZZ_DRIVER_H
#define LMDBIO_TEST_FUZZ_DRIVER_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Good inputs, numbered from 0: malloc'ed bytes, or NULL when there are no more. The corpus is made
 * of them, and the driver's mutations begin with them. */
uint8_t *fuzz_example(unsigned number, size_t *size);
/* Bytes that are worth more damage than others: the driver hits [0, front) of every `stride`. How many mutations
 * `make check` makes, and 100 times as many the long form; 0: MUTATIONS. How long an input is that libFuzzer
 * makes, at most; 0: 300,000 bytes. */
struct fuzz_weight {
	size_t stride, front;
	unsigned long mutations;
	unsigned long most;
};
extern const struct fuzz_weight fuzz_weight;

#endif
