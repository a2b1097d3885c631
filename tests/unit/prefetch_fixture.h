/* SPDX-License-Identifier: OLDAP-2.8 */
/* A data set with a prefetch thread in front of it, for the tests of what that
 * reads and maps. What it waits for, maps and asks of the machine is seen and may be set; see the
 * wraps in tests/unit/Makemodule.am. */
#ifndef LMDBIO_TESTS_PREFETCH_FIXTURE_H
#define LMDBIO_TESTS_PREFETCH_FIXTURE_H

#include "env_fixture.h"

#include "io_fault.h"
#include "prefetch/prefetch_private.h"

enum {
	RECORDS_BIG = 250,
	RECORDS_LONG = 390,
	RECORDS_LONGER = 1200,
	RECORDS_LEAVES = 300000,
	VALUE_BIG = 40000,
	RECORDS_LARGE = 40,
	VALUE_LARGE = 1200000,
	RECORDS_SMALL = 60000,
	VALUE_SMALL = 100
};
enum { AHEAD = 8 << 20, AHEAD_CACHED = 64 << 20, DEPTH = 16, IDLE_SECONDS = 300, OTHERS = 7 };

enum { MAPS = (64 << 20) / STORE_FAULT };
#define ALL_COLD UINT64_MAX

extern struct prefetch_fixture {
	struct place place;
	int fd;
	uint64_t size;
	struct io file, io;
	struct io_fault plan;
	struct window window;
	struct store store;
	struct prefetch *prefetch;
	struct snapshot snapshot;
	struct tree tree;
	struct comparators order;
	struct lookups lookups; /* of the snapshot, after watch_lookups() */
	struct identity identity;
	char node[32];
	struct arena *others[OTHERS]; /* as processes of the node have them */
	size_t in_flight;             /* at most */
	bool busy;                    /* the machine's processors */
	bool dear;                    /* a scan's faults, whatever they take */
	unsigned maps[MAPS];          /* how often each STORE_FAULT of the file was mapped */
	uint64_t cold; /* the one chunk that is not in the page cache; ALL_COLD; or 0 */
	unsigned maps_waited;         /* of them had been mapped when a read was first waited for */
} f;

/* How often a part of the file was mapped, all together. */
unsigned maps_count(void);

/* Until the prefetch thread has nothing more to do; the bound is for one that never stops. */
void assert_comes_to_rest(void);
/* The same of a prefetch thread that has to look at what its streams' programs have taken until
 * now. */
void assert_comes_to_rest_again(void);

/* Whatever the fixture says. */
bool __real_faults_are_dear(struct prefetch *prefetch, struct cursor *cursor, uint64_t offset,
			    bool forward);

/* From now on the snapshot's lookups are watched, until the end. */
void watch_lookups(void);
/* A record by its key. Returns where the value stands in the file. */
uint64_t look_up(unsigned record);

void key_make(char key[16], MDB_val *value, unsigned i);

uint64_t bytes_read(void);

/* Page faults of this thread until now. */
uint64_t faults_now(void);
/* Goes over bytes of the window as a program does; returns how many faults that took. */
uint64_t faults_over(uint64_t offset, uint64_t length);
/* Leaves no page of the window mapped. */
void unmap_all(void);
/* Shows the same bytes in single pages from an offset on, whatever the file system of the data has. */
void single_pages_show(uint64_t offset, size_t length);

/* In an arena that nobody else knows of, or in the page cache, which has it from the writing. */
int setup_big(void **state);
int setup_large(void **state);
int setup_longer(void **state);
int setup_small(void **state);
int setup_cached(void **state);
int setup_cached_longer(void **state);
int setup_cached_leaves(void **state);
int teardown(void **state);

#endif
