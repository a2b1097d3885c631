/* SPDX-License-Identifier: OLDAP-2.8 */
/* Tells a person how far the work is.
 *
 * On a terminal one line is written over again; in a log a plain line comes every so many seconds;
 * nothing at all when it is switched off. Everything goes to standard error.
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
	/* the rest is its own */
	bool terminal;
	bool on;
	bool shown;               /* a line without its end stands on the terminal */
	const char *phase;        /* "reading", "writing", "verifying": static */
	uint64_t total;           /* bytes, 0: not known */
	uint64_t since, next;     /* nanoseconds */
	_Atomic uint64_t in, out; /* bytes */
};

/* Sets what the work is and begins to count from zero. One thread. */
void progress_begin(struct progress *progress, const char *phase, uint64_t total);

/* More bytes have been taken and made. Threads: any. */
void progress_count(struct progress *progress, uint64_t in, uint64_t out);

/* Tells the person if it is time to. One thread; cheap enough to be called for every chunk. */
void progress_show(struct progress *progress);

/* Takes the line off the terminal, before anything else is written there. */
void progress_clear(struct progress *progress);

#endif
