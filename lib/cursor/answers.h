/* SPDX-License-Identifier: OLDAP-2.8 */
/* The answers to reads that changed between releases of LMDB 0.9: one bit for each change.
 *
 * No bit is 0.9.24's answers. doc/lmdb-versions.md lists every difference, also those that need no
 * bit. A function of this layer reads a bit only where the answers part, never on the way of a hit.
 */
#ifndef LMDBIO_CURSOR_ANSWERS_H
#define LMDBIO_CURSOR_ANSWERS_H

enum answers {
	/* 0.9.27: an operation that comes to a key enters its duplicates also without data. */
	ANSWERS_ENTER_WITHOUT_DATA = 1,
	/* 0.9.27: a step back from behind the last entry of a page ignores what lies there. */
	ANSWERS_BACK_FROM_BEHIND = 2,
	/* 0.9.30: MDB_FIRST_DUP and MDB_LAST_DUP end the state "at the end". */
	ANSWERS_EDGE_ENDS_END = 4,
	/* 0.9.33: a named database that is no longer there is MDB_BAD_DBI, not MDB_NOTFOUND. */
	ANSWERS_GONE_IS_BAD_DBI = 8,
	/* LMDB 1.0.1, which does not have the change of 0.9.30. */
	ANSWERS_OF_1_0 = ANSWERS_ENTER_WITHOUT_DATA | ANSWERS_BACK_FROM_BEHIND |
			 ANSWERS_GONE_IS_BAD_DBI,
};

/* The bits of release 0.9.`patch`. A release before 0.9.24 counts as that one. */
static inline unsigned answers_of_release(unsigned patch)
{
	unsigned answers = 0;

	if (patch >= 27)
		answers |= ANSWERS_ENTER_WITHOUT_DATA | ANSWERS_BACK_FROM_BEHIND;
	if (patch >= 30)
		answers |= ANSWERS_EDGE_ENDS_END;
	if (patch >= 33)
		answers |= ANSWERS_GONE_IS_BAD_DBI;
	return answers;
}

#endif
