/* SPDX-License-Identifier: OLDAP-2.8 */
/* Says what the writing process of the live-writer test does on command.
 *
 * Each of its transactions rewrites every record so that each value tells the transaction's id:
 * a snapshot of id N holds nothing but N.
 */
#ifndef TESTS_LIVE_WRITER_H
#define TESTS_LIVE_WRITER_H

#include "both_libraries.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
	LIVE_KEYS = 90,		 /* in the main database, every third with overflow pages */
	LIVE_DUP_KEYS = 12,	 /* in "dups" */
	LIVE_GROWTH_SIZE = 65000 /* of each value in "growth" */
};

/* The head of every value; the rest of its `size` bytes is live_fill(txn, key). */
struct live_value {
	uint64_t txn;
	uint32_t key, size;
};

/* How many records "growth" has: the main database's record "growth-count". */
struct live_count {
	uint64_t txn, count;
};

enum live_command {
	LIVE_COMMIT, /* so many transactions, then answer */
	LIVE_RUN,    /* answer, then commit until the next command comes */
	LIVE_GROW,   /* fill the map until it is too small, double it, fill a little more, answer */
	LIVE_CHECK,  /* free the slots of dead readers, answer how many there were */
	LIVE_END,
};

/* The LMDB that the writing process has. */
enum live_kind {
	LIVE_ORIGINAL, /* the original LMDB 0.9 */
	LIVE_LATER,    /* later_writer.h, in the format of LMDB 1.0 */
	LIVE_LOADED,   /* an LMDB of a library that is given */
};

struct live_answer {
	int rc;
	uint64_t txn, last_page, map_size;
	uint32_t slots, dead; /* of LIVE_LATER: of readers, in use; LIVE_CHECK */
};

struct live_writer {
	pid_t process;
	int to, from;
};

static inline unsigned char live_fill(uint64_t txn, uint32_t key)
{
	return (unsigned char)(txn * 31 + key * 7 + 1);
}

static inline unsigned live_dups(uint32_t key)
{
	return key == 5 ? 900 : 1 + key * 3; /* one set has a tree of its own */
}

/* Starts the process; it writes `directory` with these flags of mdb_env_open. `library`: of LIVE_LOADED.
 * Returns 0 or an errno. */
int live_writer_start(struct live_writer *writer, enum live_kind kind,
		      const struct library *library, const char *directory, unsigned flags,
		      size_t map_size);
/* Sends the command and waits for the answer. Returns 0, or an errno or the original's code. */
int live_writer_ask(struct live_writer *writer, enum live_command command, unsigned count,
		    struct live_answer *answer);
/* Closes the pipes and waits for a process that has failed. Returns the status that waitpid(2)
 * gives, or 0 if that fails. */
int live_writer_wait(struct live_writer *writer);
/* Ends the process. Returns 0 if it ended well. */
int live_writer_end(struct live_writer *writer);

#endif
