/* SPDX-License-Identifier: OLDAP-2.8 */
/* Feeds sequences of operations on sound files to the original LMDB and to lmdbio, and checks that
 * both give the same answers. An operation is 10 bytes, the fields of struct read_operation; the
 * input's first byte chooses the file. */
#include "fuzz_driver.h"
#include "operation_run.h"
#include "original_state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OPERATION = 10, OPERATIONS_MOST = 200, FILES = 6, EXAMPLES = 24, EXAMPLE_LENGTH = 60 };

const struct fuzz_weight fuzz_weight = {.stride = OPERATION, .front = OPERATION, .mutations = 300};

static struct database *files[FILES];
static char scratch[100];
static pid_t maker;

static void files_remove(void)
{
	if (maker != getpid())
		return;
	for (unsigned i = 0; i < FILES && files[i]; i++) {
		database_free(files[i]);
		free(files[i]);
	}
	(void)rmdir(scratch);
}

/* Makes the first files of the differential test, each of another page size and kind. */
static void files_make(void)
{
	const char *folder = getenv("TMPDIR"), *wrong;
	struct db_plan *plan = malloc(sizeof(*plan));

	snprintf(scratch, sizeof(scratch), "%.80s/fuzz.XXXXXX", folder ? folder : "/tmp");
	if (!plan || !mkdtemp(scratch))
		abort();
	maker = getpid();
	(void)atexit(files_remove);
	wrong = original_state_check(scratch);
	if (wrong) {
		fprintf(stderr, "this original lays out its cursors in another way: %s\n", wrong);
		abort();
	}
	for (unsigned i = 0; i < FILES; i++) {
		files[i] = malloc(sizeof(*files[i]));
		db_plan_make(plan, 1, 37 * i);
		if (!files[i] || database_make(files[i], plan, scratch))
			abort();
	}
	free(plan);
}

static struct read_operation operation_of(const uint8_t *bytes)
{
	static const uint8_t always[] = {OPERATION_CURSOR_GET, OPERATION_GET, OPERATION_CURSOR_COUNT};
	struct read_operation operation = {
		.kind = bytes[0] % OPERATION_KINDS,
		.txn = bytes[1] % TXN_SLOTS,
		.cursor = bytes[1] / 16 % CURSOR_SLOTS,
		.table = bytes[2],
		.cursor_op = bytes[3] % (MDB_PREV_MULTIPLE + 2),
		.key_way = bytes[4] % KEY_WAYS,
		.item_way = bytes[5] % ITEM_WAYS,
		.variant = bytes[6],
		.key_pick = bytes[7],
		.item_pick = (uint32_t)(bytes[8] | bytes[9] << 8),
	};

	/* Copies go through the disk, and do not depend on earlier operations. */
	if (bytes[0] >= 128 || operation.kind == OPERATION_ENV_COPY)
		operation.kind = always[bytes[0] % sizeof(always)];
	return operation;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct read_operation operations[OPERATIONS_MOST];
	struct sequence sequence = {.ours = &library_ours, .env_flags = MDB_NOTLS, .most_dbs = DB_TABLES_MAX, .strict = true};
	struct sequence_result result = {.at = 0};
	unsigned count = 0;

	if (!files[0])
		files_make();
	if (!size)
		return 0;
	sequence.database = files[data[0] % FILES];
	sequence.number = data[0];
	for (data++, size--; size >= OPERATION && count < OPERATIONS_MOST; data += OPERATION, size -= OPERATION)
		operations[count++] = operation_of(data);
	if (sequence_run(&sequence, operations, count, &result))
		return 0;
	fprintf(stderr, "operation %u: %s\n", result.at, result.difference);
	abort();
}

uint8_t *fuzz_example(unsigned number, size_t *size)
{
	struct random_stream random = random_start(number, 26);
	uint8_t *bytes;

	if (number >= EXAMPLES)
		return NULL;
	*size = 1 + EXAMPLE_LENGTH * OPERATION;
	bytes = malloc(*size);
	if (!bytes)
		abort();
	for (size_t i = 0; i < *size; i++)
		bytes[i] = (uint8_t)random_next(&random);
	/* Half of each example's operations are on one cursor. */
	for (size_t i = 1; i < *size / 2; i += OPERATION) {
		bytes[i] |= 128;
		bytes[i + 1] = (uint8_t)number;
		bytes[i + 4] = 0;
	}
	bytes[0] = (uint8_t)number;
	return bytes;
}
