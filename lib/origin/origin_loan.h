/* SPDX-License-Identifier: OLDAP-2.8 */
/* Declares what lmdbio and the original share, so that neither does the work twice: the data file's
 * descriptor, bytes and map, and in a forked child the lock file's descriptor, too. */
#ifndef LMDBIO_ORIGIN_LOAN_H
#define LMDBIO_ORIGIN_LOAN_H

#include "origin/origin.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Holds for one call of the original that opens or maps the data file of an environment. */
struct origin_loan {
	const char *path; /* of the data file */
	int fd;           /* open for reading; -1: the original has taken it and closes it */
	const void *map;  /* the original's map, until the original unmaps it; NULL: none */
	size_t length;
	/* What the caller has read of the file: the original's reads of just these bytes return
	 * them, so that both judge the same bytes. Kept by the caller until origin_loan_end(). */
	struct origin_loan_bytes {
		const void *bytes;
		size_t length; /* 0: nothing */
		uint64_t offset;
	} seen[2];
	/* Replaces the original's map of the file until its environment is closed; not at the
	 * beginning of a page. NULL: the original maps the file. */
	const void *stand_in;
	int lent; /* the descriptor that the original took; set by origin_loan_begin() */
	/* The lock file's descriptor. With `has_lock` the original takes it and will close it, and
	 * has_lock becomes false. Otherwise the descriptor that the original opened, or -1. */
	int lock;
	bool has_lock;
};

/* Whether an original takes loans: an original opened with dlopen() does not. */
bool origin_takes_loans(const struct origin *origin);

/* Lends `loan` to the calling thread's calls of the original until origin_loan_end(). For an
 * original opened with dlopen() this does nothing: fd stays the caller's and map NULL. */
void origin_loan_begin(struct origin_loan *loan);
void origin_loan_end(void);

#endif
