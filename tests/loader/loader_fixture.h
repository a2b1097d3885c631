/* SPDX-License-Identifier: OLDAP-2.8 */
/* The data set that tests of the batch loader read, and what is right in
 * it.
 */
#ifndef LMDBIO_TESTS_LOADER_FIXTURE_H
#define LMDBIO_TESTS_LOADER_FIXTURE_H

#include "env_fixture.h"

#include "loader/batch_loader.h"

struct CMUnitTest;

enum { RECORDS = 1500, BATCH = 32, VALUE = 7000, SMALL = 300 << 10 };

/* Where it is while tests run. */
extern struct place place;

/* Runs tests over the data set, in a process of its own for each store. */
int run_in_each_store(char **argv, const char *name, const struct CMUnitTest *tests, size_t n);

struct lmdbio_loader_options options_of(enum lmdbio_order order, uint64_t memory);
struct lmdbio_loader *loader_make(const struct lmdbio_loader_options *options);

/* Whether a sample is the record that it says. */
bool is_right(const struct lmdbio_sample *sample);
/* Goes through an epoch; every sample must be the order's. Returns how many there were. */
uint64_t epoch_read(struct lmdbio_loader *loader, uint64_t epoch, uint32_t ranks, uint32_t rank);

#endif
