/* SPDX-License-Identifier: OLDAP-2.8 */
/* Says what the tests of containers share: data, a container of it in a file
 * without a name, and an io that reads it. */
#ifndef LMDBIO_TEST_CONTAINER_FIXTURE_H
#define LMDBIO_TEST_CONTAINER_FIXTURE_H

#include "container/container.h"
#include "container_write.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <cmocka.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

/* Data: the same seed gives the same bytes */

enum data_kind { DATA_RANDOM, DATA_TEXT, DATA_ZERO, DATA_MIXED, DATA_KINDS };

/* malloc'ed; aborts when there is no memory. */
uint8_t *data_make(enum data_kind kind, size_t size, uint64_t seed);

/* A container. */

struct contained {
	int fd;         /* of a memfd */
	uint8_t *bytes; /* private: a test may damage them */
	size_t size;
};

/* An empty file in memory. */
int memory_file(void);

/* What stands in it, malloc'ed. */
uint8_t *memory_file_bytes(int fd, size_t *size);

/* options->size is set. 0 or what the writer said. */
int contain(struct contained *contained, const uint8_t *data, size_t size,
	    struct container_write_options options);
void contained_free(struct contained *contained);

/* Reading it. */

struct reader {
	struct io below, io;
};

/* What io_open_container() says. */
int reader_open(struct reader *reader, const void *bytes, size_t size);
int reader_open_file(struct reader *reader, int fd);
void reader_close(struct reader *reader);

/* Reads everything by reads of `step` bytes: that it is the data. */
void assert_reads(struct io *io, const uint8_t *data, size_t size, size_t step);

/* What `zstd -dc` with these options makes of a file: that it is the data. False: there is no zstd
 * to be asked. */
bool zstd_gives(int fd, const char *options, const uint8_t *data, size_t size);

#endif
