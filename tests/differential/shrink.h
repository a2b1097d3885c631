/* SPDX-License-Identifier: OLDAP-2.8 */
/* Shows how a failing sequence of operations becomes a short one. */
#ifndef TESTS_SHRINK_H
#define TESTS_SHRINK_H

#include "read_operation.h"

#include <stdbool.h>

/* Runs the operations from the start; true if the sequence still fails, and then *length is the
 * number of operations up to and with the failing one. */
typedef bool shrink_try(void *context, const struct read_operation *operations, unsigned count,
			unsigned *length);

/* Removes operations as long as the rest fails, in at most `tries` runs. Returns how many are left.
 */
unsigned shrink(struct read_operation *operations, unsigned count, unsigned tries,
		shrink_try *still_fails, void *context);

#endif
