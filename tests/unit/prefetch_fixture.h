/* SPDX-License-Identifier: OLDAP-2.8 */
/* Makes a data set with a prefetch thread, for the tests of what the thread reads and maps. Its
 * waits, its maps and its questions about the machine are recorded and can be set; see the wraps in
 * tests/unit/Makemodule.am. */
#ifndef LMDBIO_TESTS_PREFETCH_FIXTURE_H
#define LMDBIO_TESTS_PREFETCH_FIXTURE_H

#include "env_fixture.h"

#include "io_fault.h"
#include "prefetch/prefetch_private.h"

#include <semaphore.h>

enum {
	RECORDS_BIG = 250,
	RECORDS_LONG = 390,
	RECORDS_LONGER = 1200,
	RECORDS_LEAVES = 300000,
	VALUE_BIG = 40000,
	RECORDS_LARGE = 40,
	VALUE_LARGE = 1200000,
	RECORDS_HUGE = 2,
	VALUE_HUGE = 20 << 20,
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
	struct lookups lookups; /* the snapshot's lookups, after watch_lookups() */
	struct identity identity;
	char node[32];
	struct arena *others[OTHERS]; /* arenas of other simulated processes of the node */
	size_t in_flight;             /* the most reads that were in flight */
	size_t hold_at; /* the next wait for so many reads begins after `go`; 0: each at once */
	sem_t held, go; /* `held`: that wait has come */
	bool busy;                    /* whether the machine's processors are busy */
	bool dear;                    /* whether a scan's faults count as expensive */
	unsigned maps[MAPS];          /* how often each STORE_FAULT of the file was mapped */
	uint64_t cold; /* the one chunk that is not in the page cache; ALL_COLD; or 0 */
	unsigned maps_waited; /* how many maps were made before the first wait for a read */
} f;

/* Returns how many times any part of the file was mapped. */
unsigned maps_count(void);

/* Waits until the prefetch thread has no more work; the bound catches a thread that never stops. */
void assert_comes_to_rest(void);
/* The same for a prefetch thread that must first look at what the programs of its streams have read
 * so far. */
void assert_comes_to_rest_again(void);

/* The library's own function, regardless of the fixture's `dear`. */
bool __real_faults_are_dear(struct prefetch *prefetch, struct cursor *cursor, uint64_t offset,
			    bool forward);

/* Watches the snapshot's lookups from now on, until the test ends. */
void watch_lookups(void);
/* Looks up a record by its key. Returns the value's offset in the file. */
uint64_t look_up(unsigned record);

void key_make(char key[16], MDB_val *value, unsigned i);

uint64_t bytes_read(void);

/* Returns this thread's page faults so far. */
uint64_t faults_now(void);
/* Reads bytes of the window as a program does; returns how many faults that took. */
uint64_t faults_over(uint64_t offset, uint64_t length);
/* Removes all pages of the window from the page table. */
void unmap_all(void);
/* Maps the bytes from an offset on in single pages, whatever folios the file system uses. */
void single_pages_show(uint64_t offset, size_t length);

/* Makes the set, in an arena that no other process knows, or in the page cache, which holds the
 * file since it was written. */
int setup_big(void **state);
int setup_large(void **state);
int setup_huge(void **state);
int setup_longer(void **state);
int setup_arena_leaves(void **state);
int setup_small(void **state);
int setup_cached(void **state);
int setup_cached_longer(void **state);
int setup_cached_leaves(void **state);
int teardown(void **state);

#endif
