/* SPDX-License-Identifier: OLDAP-2.8 */
/* Makes records and a directory for tests of tiers, and counts the locks that a tier asks for. */
#include "tier_fixture.h"

#include <glob.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

struct place place;
static struct order order;

struct tier_setup tier_setup_of(const char *directory)
{
	struct order_spec spec = {.seed = 3,
				  .records = TIER_RECORDS,
				  .resident = TIER_RECORDS,
				  .batch = 10,
				  .block = 5,
				  .buffer = 2,
				  .policy = ORDER_OPPORTUNISTIC};

	assert_int_equal(order_init(&order, &spec), 0);
	return (struct tier_setup){.order = &order,
				   .identity = {.inode = 1, .size = 2, .snapshot = 3},
				   .root = 4,
				   .records = TIER_RECORDS,
				   .keep = 1 << 20,
				   .directory = directory};
}

void record_make(uint64_t i, MDB_val *key, MDB_val *data, uint8_t *bytes)
{
	for (size_t j = 0; j < 300; j++)
		bytes[j] = (uint8_t)(i * 5 + j);
	*key = (MDB_val){i % 20 + 1, bytes};
	*data = (MDB_val){i % 250, bytes + 20};
}

bool is_record(uint64_t i, const struct tier_record *found)
{
	uint8_t bytes[300];
	MDB_val key, data;

	record_make(i, &key, &data, bytes);
	return found->key.mv_size == key.mv_size && found->data.mv_size == data.mv_size &&
	       !memcmp(found->key.mv_data, key.mv_data, key.mv_size) &&
	       !memcmp(found->data.mv_data, data.mv_data, data.mv_size);
}

uint64_t offer_all(const struct tier_ops *ops, void *state)
{
	uint8_t bytes[300];
	MDB_val key, data;
	uint64_t kept = 0;

	if (!ops->offer)
		return 0;
	for (uint64_t i = 0; i < TIER_RECORDS; i++) {
		record_make(i, &key, &data, bytes);
		kept += ops->offer(state, i, &key, &data);
	}
	return kept;
}

/* How many records it has, each of them right. */
unsigned have(const struct tier_ops *ops, void *state)
{
	struct tier_record found;
	unsigned n = 0;

	for (uint64_t i = 0; i < TIER_RECORDS; i++) {
		if (!ops->has(state, i))
			continue;
		assert_int_equal(ops->fetch(state, i, &found), 0);
		assert_true(is_record(i, &found));
		free(found.memory);
		n++;
	}
	return n;
}

bool disk_file(char *path, size_t size)
{
	char pattern[260];
	glob_t found;
	bool there;

	snprintf(pattern, sizeof(pattern), "%s/lmdbio-stage-*", place.directory);
	there = !glob(pattern, 0, NULL, &found);
	if (there) {
		assert_int_equal(found.gl_pathc, 1);
		snprintf(path, size, "%s", found.gl_pathv[0]);
	}
	globfree(&found);
	return there;
}

_Atomic unsigned locks_asked, locks_refused;

/* Takes the place of the library's. */
int flock(int fd, int operation)
{
	int rc = (int)syscall(SYS_flock, fd, operation);

	atomic_fetch_add(&locks_asked, 1);
	if (rc && operation & LOCK_SH)
		atomic_fetch_add(&locks_refused, 1);
	return rc;
}

/* The same: pauses between tries take no time here. */
int nanosleep(const struct timespec *wanted, struct timespec *left)
{
	(void)wanted;
	(void)left;
	return sched_yield();
}

int tier_group_setup(void **state)
{
	(void)state;
	signal(SIGXFSZ, SIG_IGN);
	place_make(&place);
	return 0;
}

int tier_group_teardown(void **state)
{
	(void)state;
	place_remove(&place);
	return 0;
}
