/* SPDX-License-Identifier: OLDAP-2.8 */
/* Makes a call of the C library fail at one place of the program, or says which places make such calls.
 *
 * The linker leads the calls here (LIBRARY_CALLS_LDFLAGS). A place is known by its return address. A table of the places
 * is in memory that forked children share. */
#ifndef LMDBIO_TEST_LIBRARY_CALLS_H
#define LMDBIO_TEST_LIBRARY_CALLS_H

#include <stdbool.h>
#include <stdint.h>

enum { CALL_PLACES = 2048 };

struct call_place {
	uintptr_t at; /* from the beginning of the program */
	const char *name;
	unsigned calls;
};

/* Makes the table, empty, and frees it. */
void calls_begin(void);
void calls_end(void);
/* Whether calls are written down. */
void calls_record(bool record);
/* The n-th call at a place fails from now on, n from 1; with `on`, all after it as well. */
void calls_arm(const struct call_place *place, unsigned n, bool on);
/* The name of the call that fails now, or NULL. */
const char *calls_failing(void);
/* No call fails any more. Returns whether one has. */
bool calls_disarm(void);
/* Around what the test does for itself: no call fails meanwhile, or is written down. */
void calls_spare(bool spare);
/* What this process and its children do without from now on. */
enum {
	LACK_STATX = 1,
	LACK_TMPFILE = 2,  /* files without a name */
	LACK_REMOVE = 4,   /* MADV_REMOVE */
	LACK_POPULATE = 8, /* MADV_POPULATE_READ */
	LACK_TOLD =
		16, /* mincore(2) says of each page that it is there, as of another user's file */
	LACK_RING = 32,         /* io_uring */
	LACK_NAMES = 64,        /* the kernel's list of sockets */
	LACK_SYSCALLS = 128,    /* cachestat(2), and a setitimer(2) that copies before it refuses */
	LACK_FALLOCATE = 256,   /* fallocate(2) that makes a file longer */
	LACK_DIRECTORY = 512,   /* a directory that can be opened by its descriptor */
	LACK_SEAL = 1024,       /* a name for a seal */
	LACK_NOREPLACE = 2048,  /* renameat2(2) that replaces nothing */
	LACK_ATTRIBUTES = 4096, /* owners, modes and times of files */
};
void calls_lack(unsigned what);
const struct call_place *calls_place(unsigned number); /* NULL: there are no more */

#endif
