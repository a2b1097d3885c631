/* SPDX-License-Identifier: OLDAP-2.8 */
/* Makes records and a directory for tests of tiers, and counts the locks that a tier asks for. */
#ifndef LMDBIO_TESTS_TIER_FIXTURE_H
#define LMDBIO_TESTS_TIER_FIXTURE_H

#include "env_fixture.h"

#include "loader/loader_tier.h"

#include <stdatomic.h>

enum { TIER_RECORDS = 500 };

/* The directory; of a group of tests, between these two. */
extern struct place place;
int tier_group_setup(void **state);
int tier_group_teardown(void **state);

/* What tiers are opened with; `directory` NULL: no disk. */
struct tier_setup tier_setup_of(const char *directory);

/* Record `i`, in 300 bytes; and whether a tier has given that. */
void record_make(uint64_t i, MDB_val *key, MDB_val *data, uint8_t *bytes);
bool is_record(uint64_t i, const struct tier_record *found);

/* Offers all records; how much of them was kept. */
uint64_t offer_all(const struct tier_ops *ops, void *state);

/* How many records it has, each of them right. */
unsigned have(const struct tier_ops *ops, void *state);

/* The stage file in the directory, if there is one. */
bool disk_file(char *path, size_t size);

/* Locks that were asked for, and those of a user that were refused. Pauses between tries take no time. */
extern _Atomic unsigned locks_asked, locks_refused;

#endif
