/* SPDX-License-Identifier: OLDAP-2.8 */
/* Shows the progress of the work.
 *
 * On a terminal the progress overwrites one line. In a log it is a plain line every few seconds.
 * The user can switch it off. All lines go to standard error.
 */
#ifndef LMDBIO_TOOLS_CONVERT_PROGRESS_H
#define LMDBIO_TOOLS_CONVERT_PROGRESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum progress_mode { PROGRESS_AUTO, PROGRESS_NEVER, PROGRESS_ALWAYS };

enum { PROGRESS_LOG_SECONDS = 30 };

struct progress {
	enum progress_mode mode;
	unsigned seconds; /* between two plain lines; 0: PROGRESS_LOG_SECONDS */
	/* private: */
	bool terminal;
	bool on;
	bool shown;               /* an unfinished line is on the terminal */
	const char *phase;        /* "reading", "writing", "verifying": static */
	uint64_t total;           /* bytes, 0: not known */
	uint64_t since, next;     /* nanoseconds */
	_Atomic uint64_t in, out; /* bytes */
};

/* Sets the kind of work and counts from zero. One thread. */
void progress_begin(struct progress *progress, const char *phase, uint64_t total);

/* Adds bytes taken and made. Threads: any. */
void progress_count(struct progress *progress, uint64_t in, uint64_t out);

/* Shows the progress if it is time. One thread; cheap enough to call for every chunk. */
void progress_show(struct progress *progress);

/* Removes the line from the terminal. Call this before other output there. */
void progress_clear(struct progress *progress);

#endif
