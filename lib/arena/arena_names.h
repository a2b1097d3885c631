/* SPDX-License-Identifier: OLDAP-2.8 */
/* Walks over the processes of this user that lead others to an arena. */
#ifndef LMDBIO_ARENA_NAMES_H
#define LMDBIO_ARENA_NAMES_H

#include "arena/arena.h"

#include <stdbool.h>
#include <stdio.h>

enum { NAMES_END = 18 }; /* a slot's number, or x and 16 digits; and the final 0 */

struct leaders {
	const struct arena *arena;
	unsigned slot, listed; /* how many names of either kind have been asked */
	int fd;
	FILE *list;
	char *line;
	size_t room;
	bool unsure; /* there may be processes that do not show: search all of this user's */
};

/* leaders_next() returns the next process, the caller's own not left out, or 0 at the end. */
void leaders_begin(struct leaders *leaders, const struct arena *arena);
pid_t leaders_next(struct leaders *leaders);
void leaders_end(struct leaders *leaders);

#endif
