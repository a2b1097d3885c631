/* SPDX-License-Identifier: OLDAP-2.8 */
/* Says what one random operation consists of.
 *
 * An operation names slots, ways and picks, never handles or bytes: it means something in every
 * state, so any part of a sequence is again a sequence. That is what lets a failing one shrink.
 */
#ifndef TESTS_READ_OPERATION_H
#define TESTS_READ_OPERATION_H

#include "random_stream.h"

#include <stddef.h>
#include <stdint.h>

enum { TXN_SLOTS = 3, CURSOR_SLOTS = 8 };

enum operation_kind {
	OPERATION_CURSOR_GET,
	OPERATION_GET,
	OPERATION_CURSOR_COUNT,
	OPERATION_CURSOR_OPEN,
	OPERATION_CURSOR_CLOSE,
	OPERATION_CURSOR_RENEW,
	OPERATION_CURSOR_FACTS,
	OPERATION_CURSOR_WRITE,
	OPERATION_TXN_BEGIN,
	OPERATION_TXN_RESET,
	OPERATION_TXN_RENEW,
	OPERATION_TXN_COMMIT,
	OPERATION_TXN_ABORT,
	OPERATION_TXN_FACTS,
	OPERATION_WRITE,
	OPERATION_DBI_OPEN,
	OPERATION_DBI_CLOSE,
	OPERATION_DBI_FACTS,
	OPERATION_COMPARE,
	OPERATION_VALUES_STAY,
	OPERATION_ENV_FACTS,
	OPERATION_ENV_SET,
	OPERATION_ENV_MAPSIZE,
	OPERATION_ENV_COPY,
	OPERATION_KINDS,
};

enum key_way {
	KEY_EXISTING,
	KEY_NEAR,
	KEY_FIRST,
	KEY_LAST,
	KEY_LOWEST,
	KEY_HIGHEST,
	KEY_EMPTY,
	KEY_TOO_LONG,
	KEY_NULL,
	KEY_WAYS,
};

enum item_way {
	ITEM_OWN,
	ITEM_OTHER,
	ITEM_NEAR,
	ITEM_LOWEST,
	ITEM_HIGHEST,
	ITEM_EMPTY,
	ITEM_NULL,
	ITEM_WAYS
};

struct read_operation {
	uint8_t kind, txn, cursor, table, cursor_op, key_way, item_way, variant;
	uint32_t key_pick, item_pick;
};

/* The next operation of a random sequence; `previous` may be NULL. Most cursor operations go on
 * with the cursor of the one before. */
struct read_operation operation_draw(struct random_stream *random,
				     const struct read_operation *previous);

/* How often a cursor operation is done in a row: some moves walk over several pages. */
unsigned operation_repeats(const struct read_operation *operation);

const char *operation_name(const struct read_operation *operation);
const char *cursor_op_name(unsigned op);
/* One line, to be read by people. */
void operation_describe(const struct read_operation *operation, char *text, size_t room);

#endif
