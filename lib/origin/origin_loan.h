/* SPDX-License-Identifier: OLDAP-2.8 */
/* Declares what lmdbio and the original share, so that neither pays twice: the data file's
 * descriptor, what was read of it already, and its map; in a forked child the lock file's descriptor, too. */
#ifndef LMDBIO_ORIGIN_LOAN_H
#define LMDBIO_ORIGIN_LOAN_H

#include "origin/origin.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Around one call of the original that opens or maps the data file of an environment. */
struct origin_loan {
	const char *path; /* of the data file */
	int fd;           /* open for reading; -1 once the original has taken it, which closes it */
	const void *map;  /* what the original has mapped, until it unmaps it; NULL: nothing */
	size_t length;
	/* What the caller has read of the file: the original's reads of just these bytes get them,
	 * so that both have judged the same. Theirs to keep until origin_loan_end(). */
	struct origin_loan_bytes {
		const void *bytes;
		size_t length; /* 0: nothing */
		uint64_t offset;
	} seen[2];
	/* What the original shall take for its map of the file, and until its environment is closed;
	 * not at the beginning of a page. NULL: it maps the file. */
	const void *stand_in;
	int lent; /* the descriptor that the original has taken; set by origin_loan_begin() */
	/* The lock file's descriptor. With `has_lock` the original shall take it, and closes it; has_lock is
	 * false then. Otherwise the one that the original has opened, or -1. */
	int lock;
	bool has_lock;
};

/* Whether an original takes loans: one that is held by dlopen() does not. */
bool origin_takes_loans(const struct origin *origin);

/* From here to origin_loan_end() the calling thread's calls of the original take the loan. Where
 * the original is held by dlopen() this does nothing: fd stays ours and map NULL. */
void origin_loan_begin(struct origin_loan *loan);
void origin_loan_end(void);

#endif
